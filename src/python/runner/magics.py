# SPDX-License-Identifier: Apache-2.0
"""magics: the commands behind % and %%, by name, as IPython's documentation describes them.

shell.py looks them up in TABLES. A line magic gets (shell, rest of the line, frame that called), a cell magic
also the text below; what it returns is the value of its line. timing.py has those that measure,
lookup.py those that describe.
"""

import builtins
import sys
from _io import StringIO
from sys import modules

from base import __builtins__           # first: functions look builtins up there
from base import Box, clip, need, remember
from lookup import describe, names_like, source_of
from notebook import NEEDLESS
from shell import Spot, UsageError, compile_body, finish, flush, is_redirected, output_of
from shell import run_shell, run_steps, start, text_sink
from source import to_steps
from timing import prun, time_cell, time_line, timeit_cell, timeit_line
from variables import shape_of, type_of

HISTORY_NAMES = frozenset(("In", "Out", "exit", "quit", "get_ipython"))
ROW_MAX = 60                # characters of a value that %whos shows
NOTEBOOK_MAX = 64 * 1024 * 1024
TABLES = {"line": {}, "cell": {}}


def magic(kind, *names, expands=True):
    """Puts a function into the table; `expands`: values are put into {expression} and $name of the line."""
    def mark(function):
        function.is_ours, function.expands = True, expands
        for name in names:
            TABLES[kind][name] = function
        return function
    return mark


def words_of(line):
    try:
        return need("shlex", "split")(line)
    except ValueError as exc:
        raise UsageError(f"the arguments cannot be read: {exc}") from None


def options_of(line, known, with_value=""):
    """({option: value or True}, words) of a line."""
    options, words = {}, words_of(line)
    while words and words[0][:1] == "-" and words[0] != "-":
        word = words.pop(0)
        name = word.lstrip("-")
        if word == "--":
            break
        if name not in known and name[:1] in with_value and name[:1]:
            options[name[0]] = name[1:] or (words.pop(0) if words else "")
        elif name in with_value.split():
            options[name] = words.pop(0) if words else ""
        elif name in known:
            options[name] = True
        elif word[:2] != "--" and all([letter in known for letter in name]):
            options.update(dict.fromkeys(name, True))
        else:
            raise UsageError(f"unknown option '{clip(word, 60)}'")
    return options, words


def say(text):
    try:
        sys.stderr.write(f"note: {text}\n")
    except Exception:
        pass                # no stderr


# ---- Measuring ----------------------------------------------------------------------------------

magic("line", "time", expands=False)(time_line)
magic("cell", "time", expands=False)(time_cell)
magic("line", "timeit", expands=False)(timeit_line)
magic("cell", "timeit", expands=False)(timeit_cell)
magic("line", "prun", expands=False)(prun)


# ---- Other programs -----------------------------------------------------------------------------

def script_of(default):
    def run(shell, line, cell, frame):
        return run_program(default, line, cell)
    return run


def run_program(program, line, cell):
    """Gives a program the text on its input, and passes its output on."""
    names, options, words = Box.main.__dict__, {}, words_of(line)
    while words and words[0][:2] == "--":
        name, _, value = words.pop(0)[2:].partition("=")
        if name in ("out", "err", "proc"):
            options[name] = value or (words.pop(0) if words else "")
            if not options[name].isidentifier():
                raise UsageError(f"--{name} needs the name of a variable")
        elif name in ("no-raise-error", "bg"):
            options[name] = True
        else:
            raise UsageError(f"unknown option '--{clip(name, 60)}'; there are --out NAME, --err NAME, "
                             "--bg and --no-raise-error")
    quote = need("shlex", "quote")
    command = " ".join([program, *[quote(word) for word in words]]).strip()
    if not command:
        raise UsageError("%%script needs a program, such as %%script bash")
    flush()
    if "bg" in options:
        process = start(command, stdin=-1)
        process.stdin.write(cell.encode("utf-8", "surrogatepass"))
        process.stdin.close()
        names[options.get("proc") or "_process"] = process
        return
    keep = {name: [] for name in ("out", "err") if name in options}
    piped = is_redirected() or keep
    process = start("exec " + command, stdin=-1, **({"stdout": -1, "stderr": -1} if piped else {}))
    sinks = piped and {process.stdout: keep["out"].append if "out" in keep else text_sink(sys.stdout),
                       process.stderr: keep["err"].append if "err" in keep else text_sink(sys.stderr)}
    code = finish(process, cell.encode("utf-8", "surrogatepass"), sinks or None)
    for name, parts in keep.items():
        names[options[name]] = b"".join(parts).decode("utf-8", "replace")
    names["_exit_code"] = code
    if code and "no-raise-error" not in options:
        raise need("subprocess", "CalledProcessError")(code, clip(command, 60))


for name in "bash", "sh", "perl", "ruby", "python", "python3":
    magic("cell", name)(script_of(name))
magic("cell", "script")(script_of(""))


@magic("line", "system", "sx", "!")
def system_line(shell, line, frame):
    code, lines = output_of(line)
    Box.main.__dict__["_exit_code"] = code
    return lines


@magic("cell", "system", "sx", "!", "!!")
def system_cell(shell, line, cell, frame):
    return system_line(shell, f"{line}\n{cell}", frame)


def alias_of(command):
    def run(shell, line, frame):
        Box.main.__dict__["_exit_code"] = run_shell(f"{command} {line}")
    return run


for name, command in {
        "ls": "ls -F", "ll": "ls -lF", "lx": "ls -lF", "la": "ls -AF", "cat": "cat", "cp": "cp", "mv": "mv",
        "rm": "rm", "mkdir": "mkdir", "rmdir": "rmdir", "head": "head", "tail": "tail", "wc": "wc",
        "grep": "grep", "touch": "touch", "echo": "echo", "less": "cat", "more": "cat", "man": "man",
        "pycat": "cat", "find": "find"}.items():
    magic("line", name)(alias_of(command))


# ---- Packages -----------------------------------------------------------------------------------

@magic("line", "pip", "pip3", "conda", "mamba", "uv")
def pip(shell, line, frame):
    """%pip list, show NAME or freeze; %pip install says what installs packages here."""
    if Box.rich.own("packages").install_in(f"pip {line}") is None:
        Box.main.__dict__["_exit_code"] = run_shell(f"pip {line}")


# ---- Files and folders --------------------------------------------------------------------------

@magic("line", "pwd")
def pwd(shell, line, frame):
    """The working directory."""
    return need("os", "getcwd")()


@magic("line", "cd")
def cd(shell, line, frame):
    """Change the working directory: %cd folder, %cd - for the one before."""
    path, os = need("os.path", "path"), need("os", "chdir")
    words = words_of(line)
    quiet = "-q" in words
    words = [word for word in words if word != "-q"]
    target = words[0] if len(words) == 1 else line.replace("-q", "").strip()
    before = pwd(shell, "", frame)
    if target == "-":
        target = getattr(shell, "before", before)
    os(path.expanduser(target or "~"))
    shell.before = before
    if not quiet:
        print(pwd(shell, "", frame))


@magic("line", "env")
def env(shell, line, frame):
    """%env: all variables; %env NAME: one; %env NAME=value or NAME value: sets one."""
    environ = need("os", "environ")
    if not line.strip():
        return dict(environ)
    if "=" not in line and " " not in line.strip():
        name = line.strip()
        if name not in environ:
            raise UsageError(f"the environment has no variable '{clip(name, 60)}'")
        return environ[name]
    return set_env(shell, line, frame)


@magic("line", "set_env")
def set_env(shell, line, frame):
    """Set a variable of the environment."""
    name, sign, value = line.partition("=") if "=" in line.split(" ")[0] or " " not in line.strip() \
        else line.strip().partition(" ")
    name = name.strip()
    if not sign or not name or " " in name:
        raise UsageError("usage: %env NAME=value")
    need("os", "environ")[name] = value.strip()
    print(f"env: {name}={value.strip()}")


@magic("cell", "writefile", "file")
def writefile(shell, line, cell, frame):
    """Write the text to a file; -a adds it to the end."""
    options, words = options_of(line, ("a", "append"))
    if len(words) != 1:
        raise UsageError("usage: %%writefile [-a] FILE")
    path = need("os.path", "path")
    name = path.expanduser(words[0])
    print("Appending to" if options else "Overwriting" if path.exists(name) else "Writing", name)
    with open(name, "a" if options else "w", encoding="utf-8") as file:
        file.write(cell)


@magic("line", "load")
def load(shell, line, frame):
    """Print a file; a notebook would make a cell of it."""
    with open(words_of(line)[-1], encoding="utf-8") as file:
        shell.set_next_input(file.read(NOTEBOOK_MAX))


@magic("line", "save")
def save(shell, line, frame):
    """Write the code of earlier runs to a file: %save FILE 1-3."""
    options, words = options_of(line, "afr")
    if not words:
        raise UsageError("usage: %save FILE 1-3")
    name = words[0] if words[0].endswith((".py", ".ipy")) else words[0] + ".py"
    with open(name, "a" if "a" in options else "w", encoding="utf-8") as file:
        file.write("\n".join([text for _, text in inputs_of(words[1:])]) + "\n")
    print(f"Wrote {name}")


def cells_of(path):
    """The code cells of a notebook."""
    with open(path, encoding="utf-8") as file:
        found = need("json", "loads")(file.read(NOTEBOOK_MAX))
    return ["".join(cell["source"]) for cell in found["cells"] if cell["cell_type"] == "code"]


@magic("line", "run")
def run(shell, line, frame):
    """Run a file: %run [-i] [-n] [-t] FILE [arguments], or -m MODULE. Its names are there afterwards."""
    options, words = options_of(line, ("i", "n", "t", "e", "d", "G", "p"), "m")
    path, names = need("os.path", "path"), Box.main.__dict__
    if "m" in options:
        found = need("importlib.util", "util").find_spec(options["m"])
        if found is None or not found.origin:
            raise UsageError(f"there is no module '{clip(options['m'], 60)}'")
        name, arguments = found.origin, words
    elif words:
        name, arguments = path.expanduser(words[0]), words[1:]
    else:
        raise UsageError("usage: %run FILE [arguments]")
    if not path.exists(name) and path.exists(name + ".py"):
        name += ".py"
    name = path.abspath(name)
    began = need("time", "perf_counter")()
    if name.endswith(".ipynb"):
        for number, cell in enumerate(cells_of(name), 1):
            filename = f"<{path.basename(name)} {number}>"
            remember(filename, cell.encode())
            run_steps(steps_of(cell.encode(), filename), None)
    else:
        run_file(name, [words[0] if words and "m" not in options else name, *arguments], options, names)
    if "t" in options:
        print(f"Wall time: {need('time', 'perf_counter')() - began:.2f} s")


def steps_of(source, filename):
    return (Box.compiler or to_steps)(source, filename)


def run_file(name, argv, options, names):
    with need("io", "open_code")(name) as file:
        source = file.read()
    module, before = type(sys)("__main__"), (sys.argv, sys.path[:], modules.get("__main__"))
    module.__file__, module.__builtins__ = name, builtins
    if "i" in options:
        module.__dict__.update({key: value for key, value in names.items() if key[:2] != "__"})
    if "n" in options:
        module.__name__ = need("os.path", "path").splitext(name.rpartition("/")[2])[0]
    sys.argv = argv
    sys.path.insert(0, name.rpartition("/")[0])
    modules["__main__"] = module
    try:
        if Box.compiler is None:
            exec(compile(source, name, "exec", 0, True), module.__dict__)
        else:
            for code in steps_of(source, name):
                if code is not None:
                    eval(code, module.__dict__)
    except SystemExit as exc:
        if exc.code not in (None, 0):
            sys.stderr.write(f"{name.rpartition('/')[2]} ended with SystemExit: {exc.code}\n")
    finally:
        sys.argv, sys.path[:], modules["__main__"] = before
        names.update({key: value for key, value in module.__dict__.items() if key[:2] != "__"})


# ---- Showing ------------------------------------------------------------------------------------

def shown_as(mime):
    def show(shell, line, cell, frame):
        text = cell.strip()
        if mime == "text/latex" or mime == "text/markdown" or mime == "text/html":
            text = cell
        Box.rich.display({mime: text}, raw=True)
    return show


for name, mime in {
        "html": "text/html", "HTML": "text/html", "markdown": "text/markdown", "latex": "text/latex",
        "svg": "image/svg+xml", "SVG": "image/svg+xml", "javascript": "application/javascript",
        "js": "application/javascript"}.items():
    magic("cell", name)(shown_as(mime))


class RichOutput:
    """Something that captured code has shown."""
    def __init__(self, data):
        self.data, self.metadata = data, {}

    def display(self):
        Box.rich.display(self.data, raw=True)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return self.data

    def __repr__(self):
        return self.data.get("text/plain", f"<{', '.join(self.data)}>")


class CapturedIO:
    """The output of captured code: stdout, stderr and outputs; calling it shows all again."""
    def __init__(self, out, err, outputs):
        self.stdout, self.stderr, self.outputs = out, err, outputs

    def show(self):
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)
        for output in self.outputs:
            output.display()

    __call__ = show

    def __str__(self):
        return self.stdout


class capturing:
    """A context whose output goes into a CapturedIO."""
    def __init__(self, out=True, err=True, display=True):
        self.out, self.err, self.display = out, err, display

    def __enter__(self):
        self.before, self.texts = (sys.stdout, sys.stderr), (StringIO(), StringIO())
        flush()
        sys.stdout = self.texts[0] if self.out else sys.stdout
        sys.stderr = self.texts[1] if self.err else sys.stderr
        self.shown = Box.rich.own("formats").set_aside() if self.display else None
        self.captured = CapturedIO("", "", [])
        return self.captured

    def __exit__(self, kind, exc, traceback):
        if Box.pyplot and self.display and kind is None:
            Box.rich.end_of_run()
        sys.stdout, sys.stderr = self.before
        self.captured.stdout, self.captured.stderr = [text.getvalue() for text in self.texts]
        if self.display:
            self.captured.outputs = [RichOutput(bundle) for bundle in
                                     Box.rich.own("formats").take_back(self.shown)]


def capture_output(stdout=True, stderr=True, display=True):
    """The same, as IPython.utils.capture has it."""
    return capturing(stdout, stderr, display)


@magic("cell", "capture")
def capture_cell(shell, line, cell, frame):
    """Run the code without its output, which goes into a variable: %%capture [NAME]."""
    options, words = options_of(line, ("no-stdout", "no-stderr", "no-display"))
    steps = compile_body(cell, Spot(frame))
    with capturing(*[f"no-{name}" not in options for name in ("stdout", "stderr", "display")]) as captured:
        value = run_steps(steps, None)
        if value is not None:
            Box.rich.own("formats").show_result(value)
    if words:
        Box.main.__dict__[words[0]] = captured


# ---- Names --------------------------------------------------------------------------------------

def own_names(types=()):
    """The names that user code has made, in order."""
    found = Box.main.__dict__
    return [name for name in sorted(found) if not name.startswith("_") and name not in HISTORY_NAMES and
            not name.startswith("@") and (not types or type(found[name]).__name__ in types)]


@magic("line", "who_ls")
def who_ls(shell, line, frame):
    """The names of the variables, as a list; of some types if named."""
    return own_names(line.split())


@magic("line", "who")
def who(shell, line, frame):
    """Print the names of the variables."""
    names = own_names(line.split())
    if not names:
        print("No variables match your requested type." if line.split() else "Interactive namespace is empty.")
        return
    print("\t ".join(names))


def info_of(value):
    """The last column of %whos."""
    shape = shape_of(value, type(value))
    if shape is not None:
        return "x".join([str(axis) for axis in shape])
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return f"n={len(value)}"
    try:
        text = repr(value) if not isinstance(value, (str, type(sys))) else str(value)
    except Exception:
        text = "<repr failed>"
    text = text.replace("\n", "\\n")
    return text if len(text) <= ROW_MAX else f"{text[:ROW_MAX // 2]}<...>{text[-ROW_MAX // 3:]}"


@magic("line", "whos")
def whos(shell, line, frame):
    """Print the variables with types and values."""
    names = own_names(line.split())
    if not names:
        return who(shell, line, frame)
    rows = [(name, type_of(type(Box.main.__dict__[name])), info_of(Box.main.__dict__[name]))
            for name in names]
    rows.insert(0, ("Variable", "Type", "Data/Info"))
    wide = [max([len(row[i]) for row in rows]) for i in (0, 1)]
    lines = [f"{row[0]:<{wide[0]}}   {row[1]:<{wide[1]}}    {row[2]}" for row in rows]
    print("\n".join([lines[0], "-" * (wide[0] + wide[1] + 16), *lines[1:]]))


@magic("line", "reset")
def reset(shell, line, frame):
    """Remove all variables: %reset -f."""
    options, words = options_of(line, ("f", "s"))
    if "f" not in options and not words:
        raise UsageError("%reset asks before it removes all variables, and a run has no terminal for "
                         "the answer: use %reset -f")
    names = Box.main.__dict__
    if not words:
        for name in own_names():
            del names[name]
    if not words and "s" not in options or "in" in words or "out" in words:
        for name in [name for name in names if name[:1] == "_" and name.strip("_i").isdigit()]:
            del names[name]
        if Box.session:
            Box.outputs.clear()


@magic("line", "reset_selective")
def reset_selective(shell, line, frame):
    """Remove the variables that match a pattern: %reset_selective -f REGEX."""
    options, words = options_of(line, "f")
    search = need("re", "compile")(words[0] if words else "").search
    for name in own_names():
        if search(name):
            del Box.main.__dict__[name]


@magic("line", "xdel")
def xdel(shell, line, frame):
    """Remove a variable."""
    name = line.strip()
    if name not in Box.main.__dict__:
        raise UsageError(f"there is no variable '{clip(name, 60)}'")
    value = Box.main.__dict__.pop(name)
    for other in [key for key, kept in Box.main.__dict__.items() if kept is value and key[:1] == "_"]:
        del Box.main.__dict__[other]


def inputs_of(ranges):
    """[(number, text)] of earlier runs: 3, 1-4, ~1/2 is not there."""
    inputs = Box.inputs or [""]
    numbers = []
    for text in ranges:
        first, _, last = text.partition("-")
        try:
            numbers += range(int(first), min(int(last or first), len(inputs)) + 1)
        except ValueError:
            raise UsageError(f"'{clip(text, 60)}' is no number of a run, such as 2 or 1-3") from None
    if not ranges:
        numbers = range(1, len(inputs))
    return [(number, inputs[number]) for number in numbers if 0 < number < len(inputs)]


@magic("line", "history", "hist")
def history(shell, line, frame):
    """Print the code of earlier runs: %history [-n] [-o] [-l COUNT] [1-3]."""
    options, words = options_of(line, ("n", "o", "p", "t", "u", "r"), "lgf")
    found = inputs_of(words)
    if "l" in options:
        found = found[:-1][-int(options["l"] or 10):]
    if "g" in options:
        found = [item for item in found if options["g"].strip("*") in item[1]]
    for number, text in found:
        print(f"{number}: {text}" if "n" in options else text)
        if "o" in options and Box.outputs and number in Box.outputs:
            print(repr(Box.outputs[number]))


# ---- About --------------------------------------------------------------------------------------

@magic("line", "lsmagic")
def lsmagic(shell, line, frame):
    """Print the names of all commands."""
    for title, sign, kind in ("line magics", "%", "line"), ("cell magics", "%%", "cell"):
        names = sorted([name for name in shell._magics[kind] if name.strip("!")])
        print(f"Available {title}:\n{'  '.join([sign + name for name in names])}\n")


@magic("line", "magic", "quickref")
def about(shell, line, frame):
    """Print what every command does."""
    for kind, sign in ("line", "%"), ("cell", "%%"):
        for name, function in sorted(shell._magics[kind].items()):
            text = (function.__doc__ or "").strip().split("\n")[0]
            print(f"{sign}{name}" + (f": {text}" if text else ""))


@magic("line", "pinfo", expands=False)
def pinfo(shell, line, frame):
    """Describe an object, as name? does."""
    names_like(line, frame) if "*" in line else describe(shell, line, frame)


@magic("line", "pinfo2", expands=False)
def pinfo2(shell, line, frame):
    """Describe an object with its source, as name?? does."""
    names_like(line, frame) if "*" in line else describe(shell, line, frame, True)


@magic("line", "pdoc", "pdef", "pfile", expands=False)
def pdoc(shell, line, frame):
    """Describe an object."""
    describe(shell, line, frame)


@magic("line", "psource", expands=False)
def psource(shell, line, frame):
    """Print the source of an object."""
    print(source_of(line, frame))


@magic("line", "psearch", expands=False)
def psearch(shell, line, frame):
    """List the names that match a pattern with asterisks."""
    names_like(line, frame)


# ---- Accepted -----------------------------------------------------------------------------------

@magic("line", "matplotlib")
def matplotlib(shell, line, frame):
    """Figures are shown without it."""
    if "-l" in line.split() or "--list" in line.split():
        print("Available matplotlib backends: ['agg', 'inline']")


@magic("line", "pylab")
def pylab(shell, line, frame):
    """Import numpy as np and matplotlib.pyplot as plt."""
    exec("import numpy\nimport numpy as np\nimport matplotlib\nfrom matplotlib import pyplot as plt\n"
         "from matplotlib.pyplot import *\nfrom numpy import *" if "--no-import-all" not in line else
         "import numpy as np\nfrom matplotlib import pyplot as plt", Box.main.__dict__)


@magic("line", "config")
def config(shell, line, frame):
    """There is nothing to configure; every setting is accepted."""


@magic("line", "load_ext", "reload_ext")
def load_ext(shell, line, frame):
    """Load an extension of IPython that is installed."""
    name = line.strip()
    if name in ("autoreload", "storemagic", "") or not name.replace(".", "").isidentifier():
        say(f"'%load_ext {clip(name, 60)}' has no effect here: {NEEDLESS['load_ext']}")
        return
    try:
        __import__(name)
    except ImportError as exc:
        say(f"'%load_ext {clip(name, 60)}' was left out: {clip(str(exc), 200)}")
        return
    begin = getattr(modules[name], "load_ipython_extension", None)
    if begin is None:
        say(f"'%load_ext {clip(name, 60)}' was left out: the module is no extension")
        return
    begin(shell)


@magic("line", "autoreload", "aimport")
def autoreload(shell, line, frame):
    """Nothing is reloaded by itself."""
    say(f"'%autoreload {clip(line, 60)}' has no effect here: {NEEDLESS['autoreload']}")


def without_effect(reason):
    def accept(shell, line, frame):
        say(f"this command has no effect here: {reason}")
    accept.__doc__ = f"No effect here: {reason}."
    return accept


for name, reason in {
        "pdb": "there is no terminal for a debugger; the error has the traceback",
        "debug": "there is no terminal for a debugger; print values, or use the module traceback",
        "automagic": "commands need their percent sign", "xmode": "tracebacks are as in python3",
        "colors": "output has no colours", "gui": "there is no screen", "autoawait": "await works at top level",
        "autocall": "functions need their brackets", "unload_ext": "nothing is unloaded",
        "doctest_mode": "there are no prompts", "logstart": "the server has a log", "logstop": "",
        "alias_magic": "use get_ipython().register_magic_function()"}.items():
    magic("line", name)(without_effect(reason))


@magic("line", "precision")
def precision(shell, line, frame):
    """Digits of numbers in results: %precision 3, or a format such as %.4e; nothing for all digits."""
    text = line.strip()
    form = f"%.{int(text)}f" if text.isdigit() and int(text) < 100 else text
    if form:
        try:
            form % 3.14159
        except (TypeError, ValueError):
            raise UsageError(f"'{clip(text, 60)}' is no precision: use a number of digits, or %.4e") from None
    Box.rich.own("formats").set_number(form)
    if "numpy" in modules and (text.isdigit() or not text):
        modules["numpy"].set_printoptions(precision=int(text or 8))
    return form or "%r"
