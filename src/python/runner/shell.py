# SPDX-License-Identifier: Apache-2.0
"""shell: what get_ipython() returns, and commands of the system shell (!ls).

display.get_ipython() imports it when code asks for the first time; notebook.py makes such code. It runs
among user code in a box and has no more rights than that: a command is a child process in the box. Names
are those of IPython's InteractiveShell, as far as notebooks and libraries use them.
"""

import builtins
import sys
from posix import access, killpg, X_OK
from _signal import SIGINT, SIGKILL

from base import __builtins__           # first: functions look builtins up there
from base import Box, clip, lines_of, need
from notebook import NEEDS
from session import evaluate
from source import ONLY_AST, TOP_LEVEL_AWAIT, WRONG, compile_tree, is_quiet, to_steps

OUTPUT_MAX = 32 * 1024 * 1024       # bytes that getoutput() and redirected commands may give
COMMAND_MAX = 100_000               # characters of a command; Linux takes 128 KiB
STOP_S = 0.2                        # from SIGINT to SIGKILL for a command of an interrupted run
LOOK_MS = 50                        # how often a command whose output is read is looked at
CHUNK = 1 << 16
NEAR = 3                            # names that an error proposes

class UsageError(Exception):
    """A command was used wrongly."""


UsageError.__module__ = "builtins"      # keeps our module names out of tracebacks


# ---- Policies -----------------------------------------------------------------------------------

def need_permission(module, what):
    """Raises the ImportError if the policy of this run does not allow the module that does the same."""
    guard = Box.rich.Own.get("guard")
    policy = guard and guard.Guard.policy
    if policy is not None and not policy.allows(module):
        guard.note("import", module, guard.user_line(sys._getframe(2)), "python", policy.hint(module))
        raise ImportError(f"'{clip(what, 60)}' is not allowed by the policy of this run, as it needs the "
                          f"module '{module}' ({policy.describe()}); {policy.hint(module)}")


# ---- Commands of the system shell ---------------------------------------------------------------

class SList(list):
    """The lines of a command's output, with IPython's views of them."""
    l = list = property(lambda self: builtins.list(self))
    n = nlstr = property("\n".join)
    s = spstr = property(" ".join)

    @property
    def p(self):
        """As paths, where there is such a file."""
        path, exists = need("pathlib", "Path"), need("os.path", "path").exists
        return [path(line) for line in self if exists(line)]

    paths = p

    def grep(self, pattern, prune=False, field=None):
        """The lines that match a pattern, or satisfy a function; in one field only if asked."""
        test = pattern if callable(pattern) else need("re", "compile")(pattern, need("re", "I")).search

        def part(line):
            words = line.split()
            return line if field is None else words[field] if -len(words) <= field < len(words) else ""

        return SList([line for line in self if bool(test(part(line))) != prune])

    def fields(self, *numbers):
        """Some words of each line; all of them without numbers."""
        if not numbers:
            return [line.split() for line in self]
        rows = [line.split() for line in self]
        return SList([" ".join([row[i] for i in numbers if -len(row) <= i < len(row)]) for row in rows])

    def sort(self, field=None, nums=False):
        """A sorted copy, by one field, or by the numbers in it."""
        def key(line):
            words = line.split()
            part = line if field is None else words[field] if field < len(words) else ""
            digits = "".join([sign for sign in part if sign.isdigit()])
            return (int(digits) if digits else 0) if nums else part
        return SList(sorted(self, key=key))


def start(command, **streams):
    if not command.strip():
        raise UsageError("a command is missing behind '!', such as !ls")
    if "\0" in command:
        raise UsageError("a command cannot contain a null byte")
    if len(command) > COMMAND_MAX:
        raise UsageError(f"the command has {len(command)} characters, at most {COMMAND_MAX} are allowed: "
                         "write it to a file and run that")
    need_permission("subprocess", f"!{command}")
    shell = "/bin/bash" if access("/bin/bash", X_OK) else "/bin/sh"
    return need("subprocess", "Popen")([shell, "-c", command], start_new_session=True, **streams)


def stop(process):
    """Ends a command and what it has started, as Ctrl-C does."""
    for number in SIGINT, SIGKILL:
        try:
            killpg(process.pid, number)
        except OSError:
            pass
        try:
            process.wait(STOP_S)
        except Exception:
            continue        # TimeoutExpired


def status_of(process):
    """The exit code as IPython has it: negative for a signal."""
    code = process.returncode
    return 128 - code if code > 128 else code


def flush():
    for stream in sys.stdout, sys.stderr:
        try:
            stream.flush()
        except Exception:
            pass            # None, or closed


def pump(process, sinks, given=b"", limit=None):
    """Passes a command's output on until it ends: sinks maps a pipe to a function that takes bytes."""
    poll, left, ends = need("select", "poll")(), limit, {pipe.fileno(): pipe for pipe in sinks}
    for fd in ends:
        poll.register(fd)
    read = need("posix", "read")
    while ends:
        # A process in the background may keep the pipes open.
        done = process.poll() is not None
        ready = poll.poll(0 if done else LOOK_MS)
        if done and not ready:
            break
        for fd, _ in ready:
            data = read(fd, CHUNK)
            if not data:
                poll.unregister(fd)
                del ends[fd]
                continue
            if left is not None:
                left -= len(data)
                if left < 0:
                    raise ValueError(f"the command wrote more than {limit >> 20} MiB: send its output to "
                                     "a file, as in !command > out.txt")
            sinks[[pipe for pipe in sinks if pipe.fileno() == fd][0]](data)
    process.wait()


def text_sink(stream):
    decode = need("codecs", "getincrementaldecoder")("utf-8")("replace").decode
    return lambda data: stream.write(decode(data))


def finish(process, body=None, sinks=None, limit=None):
    """Waits for a command; ends it when the run is interrupted."""
    try:
        if body is not None:
            try:
                process.stdin.write(body)
                process.stdin.close()
            except BrokenPipeError:
                pass        # it did not want all of it
        if sinks:
            pump(process, sinks, limit=limit)
        else:
            process.wait()
    except BaseException:
        stop(process)
        raise
    finally:
        for pipe in process.stdin, process.stdout, process.stderr:
            if pipe is not None:
                try:
                    pipe.close()
                except Exception:
                    pass
    return status_of(process)


def is_redirected():
    return (sys.stdout, sys.stderr) != Box.streams


def run_shell(command):
    """Runs a command whose output goes where print() writes; returns its exit code."""
    flush()
    if not is_redirected():
        return finish(start(command))
    process = start(command, stdout=-1, stderr=-1)      # PIPE
    return finish(process, None, {process.stdout: text_sink(sys.stdout),
                                  process.stderr: text_sink(sys.stderr)})


def output_of(command):
    """(exit code, lines of its output and errors)"""
    flush()
    parts, process = [], start(command, stdout=-1, stderr=-2)       # PIPE, STDOUT
    code = finish(process, None, {process.stdout: parts.append}, OUTPUT_MAX)
    return code, SList(b"".join(parts).decode("utf-8", "replace").splitlines())


# ---- Names in commands --------------------------------------------------------------------------

def names_at(frame):
    names = dict(frame.f_globals)
    names.update(frame.f_locals)
    return names


def expand(text, names):
    """Puts values into {expression} and $name; the text as it is if an expression fails, because the shell
    has such signs too."""
    if "{" not in text and "$" not in text:
        return text
    parts, at, quoted = [], 0, False
    pattern = need("re", "compile")(r"'|\{\{|\}\}|\$\$?[A-Za-z_][\w.]*|\{[^{}]*\}|\{")
    try:
        for match in pattern.finditer(text):
            parts.append(text[at:match.start()])
            found, at = match[0], match.end()
            if found == "'":
                quoted = not quoted
                parts.append(found)
            elif found in ("{{", "}}"):
                parts.append(found[0])
            elif found[0] == "{":
                parts.append(format_of(found[1:-1], names))
            elif found[:2] == "$$":
                parts.append(found[1:])
            else:
                parts.append(found if quoted else value_of(found, names))
        return "".join(parts) + text[at:]
    except Exception:
        return text


def format_of(inner, names):
    expression, _, spec = inner.partition(":")
    expression, _, conversion = expression.partition("!")
    value = eval(expression, {"__builtins__": builtins}, names)
    value = repr(value) if conversion == "r" else str(value) if conversion == "s" else value
    return format(value, spec)


def value_of(found, names):
    """The value of $name.attribute; the text for a name that is not Python's."""
    name = found[1:].rstrip(".")
    first, *attributes = name.split(".")
    if first not in names:
        return found
    value = names[first]
    for attribute in attributes:
        value = getattr(value, attribute)
    return str(value) + found[1 + len(name):]


# ---- Python in commands -------------------------------------------------------------------------

class Spot:
    """Where a command stands, for the line numbers of its Python: a file of user code, or a text of its own."""
    def __init__(self, frame):
        self.filename, self.line, self.frame, self.text = frame.f_code.co_filename, 0, frame, None
        try:
            lines = lines_of(self.filename)
            self.line, self.text = frame.f_lineno, lines[frame.f_lineno - 1]
        except (KeyError, IndexError):
            self.filename = "<magic>"

    def is_local(self):
        return self.frame.f_locals is not self.frame.f_globals


def compile_body(body, spot):
    """Steps of the body of a cell magic; lines are numbered as in the run."""
    is_cell = spot.text is not None and spot.text.lstrip().startswith("%%")
    source, filename = body.encode("utf-8", "surrogatepass"), spot.filename
    if is_cell:
        source = b"\n" * spot.line + source
    elif filename in Box.sources:
        filename = "<magic>"
    kept = Box.sources.get(filename)
    try:
        return (Box.compiler or to_steps)(source, filename)
    finally:
        if kept is not None:
            Box.sources[filename] = kept        # to_steps() may have removed an indentation


def compile_rest(text, spot):
    """Steps of a statement that is the rest of a line."""
    # Behind the command on the user's line; not found if names were put into it.
    column = spot.text.rfind(text) if spot.text is not None and text else -1
    if column < 0 or Box.compiler is not None:
        return compile_body(text, spot)
    source, flags = ("\n" * (spot.line - 1) + text).encode(), TOP_LEVEL_AWAIT | Box.futures
    try:
        tree = compile(source, spot.filename, "exec", flags | ONLY_AST, True)
    except WRONG:
        return to_steps(source, spot.filename)     # %time !ls, or the error
    delta, todo = len(spot.text[:column].encode()), [*tree.body]
    for node in todo:       # grows in the loop
        if getattr(node, "lineno", None) == spot.line:
            node.col_offset += delta
        if getattr(node, "end_lineno", None) == spot.line:
            node.end_col_offset += delta
        for field in node._fields:
            value = getattr(node, field, None)
            todo += [item for item in (value if type(value) is list else (value,))
                     if hasattr(item, "_fields")]
    return compile_tree(tree, spot.filename, flags, lambda last: text.rstrip().endswith(";"))


def run_steps(steps, spot):
    """The value of the last step, with the names there."""
    codes = [code for code in steps if code is not None]
    Box.codes = (*[code for code in Box.codes if code is not None], *codes)
    if spot is None or not spot.is_local():
        return evaluate(list(steps), Box.main.__dict__, Box.session)
    value, frame = None, spot.frame
    for code in codes:
        value = eval(code, frame.f_globals, frame.f_locals)
    return None if steps[-1] is None else value


# ---- get_ipython() ------------------------------------------------------------------------------

class Result:
    """What run_cell() returns."""
    def __init__(self):
        self.result = self.error_in_exec = self.error_before_exec = None

    success = property(lambda self: not (self.error_in_exec or self.error_before_exec))

    def raise_error(self):
        for error in self.error_before_exec, self.error_in_exec:
            if error is not None:
                raise error


class Events:
    """Functions that libraries register; none is called, because a run ends without a prompt."""
    def __init__(self):
        self.callbacks = {}

    def register(self, event, function):
        self.callbacks.setdefault(event, []).append(function)

    def unregister(self, event, function):
        if function in self.callbacks.get(event, ()):
            self.callbacks[event].remove(function)


class Formatter:
    """Functions that show values of a class, as libraries register them."""
    def __init__(self, mime):
        self.format_type, self.enabled = mime, True

    def for_type(self, kind, function=None):
        """Register a function for a class."""
        if isinstance(kind, str):
            module, _, name = kind.rpartition(".")
            return self.for_type_by_name(module, name, function)
        return Box.rich.own("formats").register(self.format_type, kind, function)

    def for_type_by_name(self, module, name, function=None):
        """The same for a class that may not be imported yet."""
        kind = getattr(sys.modules.get(module), name, None)
        return self.for_type(kind, function) if kind is not None else None

    def pop(self, kind, default=None):
        return Box.rich.own("formats").Formats.by_type.get(self.format_type, {}).pop(kind, default)

    def lookup_by_type(self, kind):
        return Box.rich.own("formats").Formats.by_type.get(self.format_type, {})[kind]


class DisplayFormatter:
    def __init__(self):
        self.formatters = {mime: Formatter(mime) for mime in
                           ("text/plain", *Box.rich.METHODS.values())}
        self.active_types = list(self.formatters)

    def format(self, value, include=None, exclude=None):
        """(bundle, metadata) of a value."""
        bundle = {"text/plain": repr(value), **Box.rich.bundle_of(value)}
        return {mime: given for mime, given in bundle.items()
                if (not include or mime in include) and not (exclude and mime in exclude)}, {}


class DisplayPublisher:
    def publish(self, data, metadata=None, **options):
        Box.rich.publish_display_data(data, metadata, **options)

    def clear_output(self, wait=False):
        Box.rich.clear_output(wait)


class MagicsManager:
    def __init__(self, shell):
        self.shell, self.registry = shell, {}

    magics = property(lambda self: self.shell._magics)

    def lsmagic(self):
        return self.shell._magics

    def register_alias(self, alias, name, kind="line", params=None):
        self.shell.register_magic_function(self.shell._find(kind, name), kind, alias)


class Settings(dict):
    """A configuration: every attribute is there."""
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self.setdefault(name, Settings())

    def __setattr__(self, name, value):
        self[name] = value

    def __bool__(self):
        return True


class InteractiveShell:
    """The session as code sees it: run commands with run_line_magic(), names are in user_ns."""

    def __init__(self):
        self._magics = {kind: dict(table) for kind, table in Box.rich.own("magics").TABLES.items()}
        self.config, self.events = {}, Events()
        self.display_formatter, self.display_pub = DisplayFormatter(), DisplayPublisher()
        self.magics_manager = MagicsManager(self)
        self.ast_transformers, self.input_transformers_cleanup = [], []
        self.input_transformers_post, self.colors = [], "nocolor"
        self.instances = {}

    user_ns = property(lambda self: Box.main.__dict__)
    user_global_ns = property(lambda self: Box.main.__dict__)
    user_module = property(lambda self: Box.main)
    execution_count = property(lambda self: Box.runs)

    # ---- magics

    def _find(self, kind, name):
        return self._magics[kind].get(name)

    def _unknown(self, kind, name):
        sign, other = ("%", "cell") if kind == "line" else ("%%", "line")
        names = [*self._magics[kind]]
        near = need("difflib", "get_close_matches")(name[:60], names, NEAR)
        text = f"{kind} magic '{sign}{clip(name, 60)}' not found"
        if kind == "line" and name.startswith("%"):
            text = f"'%{clip(name, 60)}' has to be the first line of the code"
        elif name in self._magics[other]:
            text += (f", but there is {'%%' if other == 'cell' else '%'}{name}" +
                     (", which has to be the first line of the code" if other == "cell" else ""))
        elif near:
            text += f"; near names: {', '.join([sign + one for one in near])}"
        return UsageError(f"{text}. %lsmagic lists what there is.")

    def run_line_magic(self, magic_name, line, _stack_depth=1):
        """Run %magic_name line."""
        return self._call("line", magic_name, line, None, sys._getframe(_stack_depth))

    def run_cell_magic(self, magic_name, line, cell):
        """Run %%magic_name line, with the text below it."""
        return self._call("cell", magic_name, line, cell, sys._getframe(1))

    def _call(self, kind, name, line, cell, frame):
        magic = self._find(kind, name)
        if not name:
            raise UsageError("the name of a command is missing behind '%'; %lsmagic lists what there is")
        if magic is None:
            raise self._unknown(kind, name)
        if name in NEEDS:
            need_permission(NEEDS[name], f"%{name}")
        line = line.lstrip()
        if getattr(magic, "is_ours", False):
            if magic.expands:
                line = expand(line, names_at(frame))
            given = (self, line, frame) if cell is None else (self, line, cell, frame)
            return magic(*given)
        if not getattr(magic, "_ipython_magic_no_var_expand", False):
            line = expand(line, names_at(frame))
        more = {"local_ns": frame.f_locals} if getattr(magic, "needs_local_scope", False) else {}
        return magic(line, **more) if cell is None else magic(line, cell, **more)

    def magic(self, text):
        """Run a line such as "time f()"."""
        name, _, rest = text.lstrip("%").partition(" ")
        return self.run_line_magic(name, rest, 2)

    def register_magic_function(self, func, magic_kind="line", magic_name=None):
        """Make %name of a function."""
        kinds = ("line", "cell") if magic_kind == "line_cell" else (magic_kind,)
        for kind in kinds:
            self._magics[kind][magic_name or func.__name__] = func

    def register_magics(self, *objects):
        """Make commands of the methods of classes that IPython's decorators have marked."""
        for one in objects:
            if isinstance(one, type) and hasattr(one, "class_traits"):
                one = one(None)         # of the real IPython, which takes only its own shell
                one.shell = self
            elif isinstance(one, type):
                one = one(self)
            for kind, table in getattr(one, "magics", {}).items():
                for name, method in table.items():
                    self._magics[kind][name] = getattr(one, method) if isinstance(method, str) else method

    def find_line_magic(self, magic_name):
        return self._find("line", magic_name)

    def find_cell_magic(self, magic_name):
        return self._find("cell", magic_name)

    def find_magic(self, magic_name, magic_kind="line"):
        return self._find(magic_kind, magic_name)

    # ---- commands of the system

    def system(self, cmd):
        """Run a command of the system shell; its exit code is in _exit_code."""
        frame = sys._getframe(1)
        command = expand(cmd, names_at(frame))
        rest = Box.rich.own("packages").install_in(command)
        code = 0
        if rest is None or rest.strip():
            code = run_shell(command if rest is None else rest)
        Box.main.__dict__["_exit_code"] = code

    system_raw = system_piped = system

    def getoutput(self, cmd, split=True, depth=0):
        """The output of a command, as a list of lines."""
        code, lines = output_of(expand(cmd, names_at(sys._getframe(1 + depth))))
        Box.main.__dict__["_exit_code"] = code
        return lines if split else lines.n

    getoutput_pexpect = getoutput

    # ---- Python

    def var_expand(self, cmd, depth=0, formatter=None):
        """The text with the values of {expressions} and $names."""
        return expand(cmd, names_at(sys._getframe(1 + depth)))

    def ev(self, expr):
        """The value of an expression."""
        return eval(expr, Box.main.__dict__)

    def ex(self, cmd):
        """Run statements."""
        exec(cmd, Box.main.__dict__)

    def push(self, variables, interactive=True):
        """Give names values."""
        if isinstance(variables, dict):
            Box.main.__dict__.update(variables)
            return
        names, frame = variables.split() if isinstance(variables, str) else variables, sys._getframe(1)
        Box.main.__dict__.update({name: names_at(frame)[name] for name in names})

    def drop_by_id(self, variables):
        for name, value in variables.items():
            if Box.main.__dict__.get(name) is value:
                del Box.main.__dict__[name]

    def transform_cell(self, raw_cell):
        """The text as plain Python."""
        notebook = Box.rich.own("notebook")
        lines, commands = notebook.find(raw_cell)
        return notebook.to_python(lines, commands) if commands else raw_cell

    def run_cell(self, raw_cell, store_history=False, silent=False, shell_futures=True, **options):
        """Run code as a run of its own; an error is printed and not raised."""
        found, phase = Result(), "error_before_exec"
        try:
            steps = compile_body(raw_cell, Spot(sys._getframe(1)))
            phase = "error_in_exec"
            found.result = run_steps(steps, None)
            if found.result is not None and not silent:
                Box.rich.own("formats").show_result(found.result)
        except Exception as exc:
            setattr(found, phase, exc)
            self._print(exc)
        return found

    def _print(self, exc):
        try:
            sys.stderr.write(Box.rich.own("formats").text_of_error(exc))
        except Exception:
            pass

    def showtraceback(self, exc_tuple=None, *args, **options):
        """Print the exception that is handled now."""
        exc = (exc_tuple or sys.exc_info())[1]
        if exc is not None:
            self._print(exc)

    def safe_execfile(self, fname, *where, **options):
        self.run_line_magic("run", f"-i {fname}", 2)

    def set_next_input(self, text, replace=False):
        """A notebook would show the text as the next cell; here it is printed."""
        print(text)

    def enable_matplotlib(self, gui=None):
        return gui, "agg"

    def enable_gui(self, gui=None):
        pass

    def enable_pylab(self, gui=None, import_all=True, **options):
        self.run_line_magic("pylab", "", 2)

    def set_custom_exc(self, *handlers):
        pass

    def ask_exit(self):
        raise SystemExit

    def reset(self, new_session=True, aggressive=False):
        self.run_line_magic("reset", "-f", 2)

    def __repr__(self):
        return "<the shell of this run, with IPython's names>"


Shell = None


def the_shell():
    global Shell
    if Shell is None:
        Shell = InteractiveShell()
    return Shell
