// SPDX-License-Identifier: Apache-2.0
//
// interp: see interp.h.  Runs once at start, in the first process, before any box exists.
//
// The operator chose the interpreter, so running it is not a risk; what it prints is still bounded
// and checked, because it may be any program at all.

#include "keeper/interp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"

enum { ANSWER_MAX = 64 * 1024, ASK_TIMEOUT_MS = 15000, CACHE_VERSION = 5 };

// SECURITY: asked with -S, so that no .pth file of an installed package runs here, outside every
// wall
// and perhaps as root.  One "key value" per line.  Works on every Python since 2.6, so that an old
// one can say its age.
static const char question[] =
    "import sys, os\n"
    "def say(key, value):\n"
    "    sys.stdout.write(key + ' ' + str(value) + '\\n')\n"
    "say('constrictor', 1)\n"
    "say('name', getattr(getattr(sys, 'implementation', None), 'name', 'cpython'))\n"
    "say('version', '%d.%d.%d' % sys.version_info[:3])\n"
    "say('gil', getattr(sys, '_is_gil_enabled', lambda: True)())\n"
    "roots = [sys.prefix, getattr(sys, 'base_prefix', sys.prefix), sys.exec_prefix,\n"
    "         getattr(sys, 'base_exec_prefix', sys.exec_prefix), os.path.dirname(os.__file__)]\n"
    // Without `site` Python did not look for the file that makes a virtual environment.
    "exe = os.path.abspath(sys.executable)\n"
    "venv = [folder for folder in (os.path.dirname(exe), os.path.dirname(os.path.dirname(exe)))\n"
    "        if os.path.exists(os.path.join(folder, 'pyvenv.cfg'))]\n"
    "roots += venv\n"
    // The link of a virtual environment must keep its path; any other link is resolved.
    "say('executable', exe if venv else os.path.realpath(exe))\n"
    "try:\n"
    "    for line in open('/proc/self/maps'):\n"
    "        path = line.rstrip('\\n').partition('/')[2]\n"
    "        if path and '.so' in path:\n"
    "            roots.append(os.path.dirname('/' + path))\n"
    "except Exception:\n"
    "    pass\n"
    "for p in roots:\n"
    "    say('path', p)\n"
    "    say('path', os.path.realpath(p))\n"
    // Where the packages of the interpreter itself are, which is also the one that a virtual
    // environment was made from.  An environment keeps its own; `site` was not run.
    "def setting(key):\n"
    "    for line in open(os.path.join(venv[0], 'pyvenv.cfg')) if venv else ():\n"
    "        name, _, value = line.partition('=')\n"
    "        if name.strip().lower() == key:\n"
    "            return value.strip().lower()\n"
    "import site\n"
    "bases = [getattr(sys, 'base_prefix', sys.prefix), getattr(sys, 'base_exec_prefix', '')]\n"
    "conda = not venv and os.path.isdir(os.path.join(bases[0], 'conda-meta'))\n"
    "say('keeps', bool(venv or conda))\n"
    "if conda:\n"
    "    bases = []\n"
    "if setting('include-system-site-packages') != 'true':\n"
    "    for p in site.getsitepackages(bases):\n"
    "        say('packages', p)\n"
    "        say('packages', os.path.realpath(p))\n";

static const char fix[] = "give a CPython of version 3.9 or later with --python PATH";

// ---- reading the answer -------------------------------------------------------------------------

static bool beneath(const char *path, const char *top)
{
    size_t n = strlen(top);
    return strncmp(path, top, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

// Parts that the jail provides anyway.
static bool is_provided(const char *path)
{
    static const char *const tops[] = {"/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin"};
    for (size_t i = 0; i < ARRAY_LEN(tops); i++)
        if (beneath(path, tops[i]))
            return true;
    return false;
}

// Absolute, without "//", "." and ".." and without a slash at the end; the interpreter gives the
// resolved form of each folder as well, so nothing is lost.
static bool is_plain(const char *path)
{
    for (const char *p = path; *p == '/'; p += strcspn(p, "/")) {
        size_t n = strcspn(++p, "/");
        if ((n == 0 && p != path + 1) || (n == 0 && p[0]) || (n == 1 && p[0] == '.') ||
            (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
    }
    return path[0] == '/';
}

static void packages_add(struct interp *in, const char *path)
{
    for (size_t i = 0; i < in->packages_count; i++)
        if (strcmp(in->packages[i], path) == 0)
            return;
    if (is_plain(path) && in->packages_count < INTERP_PACKAGES_MAX)
        snprintf(in->packages[in->packages_count++], PATH_MAX, "%s", path);
}

static bool is_volume(const char *path)
{
    struct stat st, above;
    return stat(path, &st) == 0 && stat("/mnt", &above) == 0 && st.st_dev != above.st_dev;
}

// SECURITY: a prefix that is a whole home folder, a disk or a system folder would show those files
// to every box.
static bool is_too_wide(const char *path)
{
    static const char *const never[] = {"/",    "/home", "/root", "/etc", "/var",  "/tmp", "/opt",
                                        "/srv", "/mnt",  "/run",  "/dev", "/proc", "/sys"};
    const char *home = getenv("HOME");
    for (size_t i = 0; i < ARRAY_LEN(never); i++)
        if (strcmp(path, never[i]) == 0)
            return true;
    if (home && home[0] == '/' && beneath(home, path))
        return true;
    if (beneath(path, "/mnt") && !strchr(path + strlen("/mnt/"), '/'))
        return is_volume(path);
    return beneath(path, "/home") && !strchr(path + strlen("/home/"), '/');
}

static int path_add(struct interp *in, const char *path, struct err *e)
{
    struct stat st;
    char real[PATH_MAX];
    if (!is_plain(path) || is_provided(path) || stat(path, &st) < 0 || !S_ISDIR(st.st_mode) ||
        !realpath(path, real))
        return 0;
    if (is_too_wide(path) || is_too_wide(real))
        return err_set(
            e, ERR_INTERPRETER, 0, fix,
            "interpreter '%s' has its files directly in '%s', which would show all of it to "
            "every box",
            in->executable, path);
    // Of /tmp and /mnt a box has its own, in which the interpreter's folder is shown; not among its
    // user's files.
    static const char *const covered[] = {
        "/mnt/data",        "/mnt/tmp",     "/mnt/shm",         "/dev",       "/proc",
        "/opt/constrictor", "/opt/covered", "/opt/wheel-files", "/opt/wheels"};
    for (size_t i = 0; i < ARRAY_LEN(covered); i++)
        if (beneath(path, covered[i])) {
            int r = err_set(e, ERR_INTERPRETER, 0, "", "interpreter '%s' needs the folder '%s'",
                            in->executable, path);
            err_hint(
                e, "a box has a %s of its own: move the interpreter, for instance to /opt or /srv",
                covered[i]);
            return r;
        }
    for (size_t i = 0; i < in->path_count; i++)
        if (beneath(path, in->paths[i]))
            return 0;
    // A wider folder replaces the narrower ones that it contains.
    for (size_t i = 0; i < in->path_count;) {
        if (beneath(in->paths[i], path)) {
            in->path_count--;
            memmove(in->paths[i], in->paths[in->path_count], PATH_MAX);
        } else {
            i++;
        }
    }
    if (in->path_count == INTERP_PATHS_MAX)
        return err_set(e, ERR_INTERPRETER, 0, fix,
                       "interpreter '%s' is spread over more than %d folders", in->executable,
                       INTERP_PATHS_MAX);
    snprintf(in->paths[in->path_count++], PATH_MAX, "%s", path);
    return 0;
}

static int check_version(const struct interp *in, const char *name, struct err *e)
{
    int major = 0, minor = 0;
    char rest;
    if (strcmp(name, "cpython") != 0)
        return err_set(e, ERR_INTERPRETER, 0, fix, "interpreter '%s' is %s, not CPython",
                       in->executable, name);
    if (sscanf(in->version, "%d.%d%c", &major, &minor, &rest) < 2)
        return err_set(e, ERR_INTERPRETER, 0, fix, "interpreter '%s' has no version",
                       in->executable);
    if (major != 3 || minor < INTERP_MINOR_MIN)
        return err_set(
            e, ERR_INTERPRETER_TOO_OLD, 0, fix,
            "interpreter '%s' is Python %s, too old: the extension that makes boxes uses "
            "the stable interface of 3.9",
            in->executable, in->version);
    return 0;
}

int interp_parse(char *answer, struct interp *ret, struct err *e)
{
    char name[32] = "";
    bool ours = false;
    *ret = (struct interp){0};
    for (char *save, *line = strtok_r(answer, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *value = strchr(line, ' ');
        if (!value)
            continue;
        *value++ = '\0';
        if (strlen(value) >= PATH_MAX)
            continue;
        if (strcmp(line, "constrictor") == 0)
            ours = true;
        else if (strcmp(line, "name") == 0)
            snprintf(name, sizeof name, "%.31s", value);
        else if (strcmp(line, "version") == 0)
            snprintf(ret->version, sizeof ret->version, "%.63s", value);
        else if (strcmp(line, "executable") == 0)
            snprintf(ret->executable, sizeof ret->executable, "%s", value);
        else if (strcmp(line, "keeps") == 0)
            ret->keeps_packages = strcmp(value, "True") == 0;
        else if (strcmp(line, "packages") == 0)
            packages_add(ret, value);
        else if (strcmp(line, "gil") == 0 && strcmp(value, "False") == 0)
            return err_set(e, ERR_INTERPRETER, 0, fix,
                           "interpreter '%s' is a free-threaded build, which has no stable ABI",
                           ret->executable);
        else if (strcmp(line, "path") == 0) {
            int r = path_add(ret, value, e);
            if (r < 0)
                return r;
        }
    }
    if (!ours || ret->executable[0] != '/')
        return err_set(e, ERR_INTERPRETER, 0, fix, "it does not answer like a Python");
    return check_version(ret, name, e);
}

// ---- asking -------------------------------------------------------------------------------------

// Reads until the end, ANSWER_MAX or the deadline, or until there is no need for an answer any
// more.
static ssize_t read_answer(int fd, int stop, char *buf, size_t cap)
{
    size_t n = 0;
    int64_t deadline = clock_ms() + ASK_TIMEOUT_MS;
    while (n < cap - 1) {
        int64_t left = deadline - clock_ms();
        struct pollfd p[] = {{.fd = fd, .events = POLLIN}, {.fd = stop, .events = POLLIN}};
        if (left <= 0 || poll(p, 2, (int)left) == 0)
            return -ETIMEDOUT;
        if (!p[0].revents && p[1].revents)
            return -ECANCELED;
        ssize_t k = read(fd, buf + n, cap - 1 - n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -errno;
        if (k == 0)
            break;
        n += (size_t)k;
    }
    buf[n] = '\0';
    return (ssize_t)n;
}

static int run_question(const char *path, int stop, char *answer, struct err *e)
{
    int fds[2], null;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "pipe");
    _cleanup_close_ int out = fds[0];
    null = open("/dev/null", O_RDWR | O_CLOEXEC);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, null, 0);
    posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
    posix_spawn_file_actions_adddup2(&actions, null, 2);
    char *argv[] = {(char *)path, (char *)"-I",     (char *)"-S", (char *)"-B",
                    (char *)"-c", (char *)question, NULL};
    pid_t pid;
    int r = posix_spawn(&pid, path, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    (void)close(fds[1]);
    fd_close(&null);
    if (r)
        return err_set(e, ERR_INTERPRETER, r, fix, "start interpreter '%s'", path);

    ssize_t n = read_answer(out, stop, answer, ANSWER_MAX);
    (void)kill(pid, SIGKILL); // it has answered, or never will; its exit status does not matter
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (n < 0)
        return err_set(e, ERR_INTERPRETER, (int)-n, fix, "ask interpreter '%s'", path);
    return 0;
}

// Pythons before 3.4 know no -I; to tell their age they are asked once more without.
static int ask_age(const char *path, struct err *e)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    _cleanup_close_ int out = fds[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
    posix_spawn_file_actions_adddup2(&actions, fds[1], 2);
    char *argv[] = {(char *)path, (char *)"--version", NULL};
    pid_t pid;
    int r = posix_spawn(&pid, path, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    (void)close(fds[1]);
    if (r)
        return -1;
    char text[128];
    ssize_t n = read_answer(out, -1, text, sizeof text);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    if (n <= 0 || strncmp(text, "Python ", 7) != 0)
        return -1;
    text[strcspn(text, "\r\n")] = '\0';
    return err_set(e, ERR_INTERPRETER_TOO_OLD, 0, fix, "interpreter '%s' is %s, too old", path,
                   text);
}

// ---- finding and caching ------------------------------------------------------------------------

static int find_in_path(const char *name, char *ret, struct err *e)
{
    if (strchr(name, '/')) {
        // Not realpath: a venv's python is a link, and its path makes it the venv's.
        char cwd[PATH_MAX];
        if (name[0] == '/')
            snprintf(ret, PATH_MAX, "%s", name);
        else if (!getcwd(cwd, sizeof cwd) ||
                 (size_t)snprintf(ret, PATH_MAX, "%s/%s", cwd, name) >= PATH_MAX)
            return err_set(e, ERR_INTERPRETER, ENAMETOOLONG, fix, "interpreter '%s'", name);
        struct stat st;
        if (stat(ret, &st) < 0)
            return err_set(e, ERR_INTERPRETER, errno, fix, "interpreter '%s'", name);
        if (!S_ISREG(st.st_mode) || access(ret, X_OK) < 0)
            return err_set(e, ERR_INTERPRETER, 0, fix, "interpreter '%s' is not a program", name);
        return 0;
    }
    const char *path = getenv("PATH");
    for (const char *p = path ? path : "/usr/local/bin:/usr/bin:/bin"; *p;) {
        size_t n = strcspn(p, ":");
        struct stat st;
        if (n && p[0] == '/' &&
            (size_t)snprintf(ret, PATH_MAX, "%.*s/%s", (int)n, p, name) < PATH_MAX &&
            stat(ret, &st) == 0 && S_ISREG(st.st_mode) && access(ret, X_OK) == 0)
            return 0;
        p += n + (p[n] == ':');
    }
    return err_set(e, ERR_INTERPRETER, 0, fix, "interpreter '%s' is not in PATH", name);
}

static bool is_elf(const char *path)
{
    char magic[4] = "";
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, magic, 4) == 4 && memcmp(magic, "\177ELF", 4) == 0;
}

// The cache file's path for this binary; false when there is no place for one.  A shim (a script)
// is never cached: what it starts depends on the folder and the environment it is started in.
static bool cache_path(const char *path, char *ret)
{
    struct stat st;
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char top[PATH_MAX], resolved[PATH_MAX];
    if (!is_elf(path) || stat(path, &st) < 0 || !realpath(path, resolved))
        return false;
    // SECURITY: root's HOME may be another user's (sudo -E), with a link in place of our folder.
    int n = geteuid() == 0             ? snprintf(top, sizeof top, "/var/cache/constrictor")
            : cache && cache[0] == '/' ? snprintf(top, sizeof top, "%s/constrictor", cache)
            : home && home[0] == '/'   ? snprintf(top, sizeof top, "%s/.cache/constrictor", home)
                                       : -1;
    if (n < 0 || (size_t)n >= sizeof top)
        return false;
    uint64_t hash = 0xcbf29ce484222325; // FNV-1a: the path as given decides about venvs
    for (const char *p = path; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 0x100000001b3;
    n = snprintf(ret, PATH_MAX, "%s/interpreter-%d-%016" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%" PRIx64,
                 top, CACHE_VERSION, hash, (uint64_t)st.st_ino, (uint64_t)st.st_mtim.tv_sec,
                 (uint64_t)st.st_size);
    return n > 0 && n < PATH_MAX;
}

// SECURITY: trust only our own file that no other user may write.
static bool cache_load(const char *file, struct interp *ret)
{
    struct stat st;
    struct err ignored;
    _cleanup_close_ int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & 022) || st.st_size >= ANSWER_MAX)
        return false;
    _cleanup_free_ char *text = malloc(ANSWER_MAX);
    ssize_t n = text ? read(fd, text, ANSWER_MAX - 1) : -1;
    if (n <= 0)
        return false;
    text[n] = '\0';
    return interp_parse(text, ret, &ignored) == 0 && access(ret->executable, X_OK) == 0;
}

static void cache_store(const char *file, const char *answer)
{
    char folder[PATH_MAX], temporary[PATH_MAX + 32];
    snprintf(folder, sizeof folder, "%s", file);
    *strrchr(folder, '/') = '\0';
    char *slash = strrchr(folder, '/');
    *slash = '\0';
    (void)mkdir(folder, 0700); // ~/.cache
    *slash = '/';
    (void)mkdir(folder, 0700);
    snprintf(temporary, sizeof temporary, "%s.%d", file, getpid());
    _cleanup_close_ int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return; // no cache is only slower
    if (fd_write_all(fd, answer, strlen(answer)) < 0 || rename(temporary, file) < 0)
        (void)unlink(temporary);
}

// Could a user who is not root have put something else there?  Every folder on the way to it
// counts: a user who may write to one may replace the next, unless that is root's and the folder
// sticky, as /tmp.
bool interp_is_roots(const char *path)
{
    char part[PATH_MAX];
    struct stat st;
    snprintf(part, sizeof part, "%s", path);
    for (char *p = part; p; p = strchr(p + 1, '/')) {
        char *end = p == part ? p + 1 : p, next = *end;
        *end = '\0';
        if (lstat(part, &st) < 0 || st.st_uid != 0 ||
            (!S_ISLNK(st.st_mode) && (st.st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH))
            return false;
        *end = next;
    }
    // And itself: a file that all may write to is not saved by a sticky bit.
    return lstat(path, &st) == 0 && st.st_uid == 0 &&
           (S_ISLNK(st.st_mode) || !(st.st_mode & S_IWOTH));
}

// The file beside an interpreter that says where its library is, in its folder or above; `path` has
// a slash.
static bool venv_is_roots(const char *path)
{
    char file[PATH_MAX + 16], text[4096], real[PATH_MAX];
    for (int up = 0; up < 2; up++) {
        const char *end = strrchr(path, '/');
        for (int i = 0; i < up && end && end > path; i++)
            end = memrchr(path, '/', (size_t)(end - path));
        snprintf(file, sizeof file, "%.*s/pyvenv.cfg", end ? (int)(end - path) : 0, path);
        if (!realpath(file, real)) {
            if (errno == ENOENT)
                continue;
            return false;
        }
        // Before it is read: what is another's could also be a pipe that never ends.
        if (!interp_is_roots(file) || !interp_is_roots(real) ||
            file_read_at(AT_FDCWD, real, text, sizeof text) < 0)
            return false;
        for (char *save, *line = strtok_r(text, "\n", &save); line;
             line = strtok_r(NULL, "\n", &save)) {
            char *value = strchr(line, '=');
            line += strspn(line, " \t");
            if (!value || strncasecmp(line, "home", 4) != 0)
                continue;
            value += 1 + strspn(value + 1, " \t");
            value[strcspn(value, "\r")] = '\0';
            if (!realpath(value, real) || !interp_is_roots(value) || !interp_is_roots(real))
                return false;
        }
    }
    return true;
}

// SECURITY: root must not start what another user could have put there, not even to ask a question:
// that is outside every wall.
static int check_owner(const char *path, struct err *e)
{
    char real[PATH_MAX], given[PATH_MAX];
    if (geteuid() != 0)
        return 0;
    if (!realpath(path, real))
        return err_set(e, ERR_INTERPRETER, errno, fix, "interpreter '%s'", path);
    if (path[0] == '/')
        snprintf(given, sizeof given, "%s", path);
    else if (!getcwd(given, sizeof given) || strlen(given) + strlen(path) + 2 > sizeof given)
        return err_set(e, ERR_INTERPRETER, ENAMETOOLONG, fix, "interpreter '%s'", path);
    else
        snprintf(given + strlen(given), sizeof given - strlen(given), "/%s", path);
    if (!interp_is_roots(given) || !interp_is_roots(real) || !venv_is_roots(given) ||
        !venv_is_roots(real))
        return err_set(e, ERR_INTERPRETER, 0,
                       "start constrictor as the user who owns it, or use an interpreter of root's",
                       "interpreter '%s' can be changed by a user who is not root", path);
    return 0;
}

int interp_ask(const char *name, struct interp *ret, struct err *e)
{
    return interp_ask_until(name, ret, -1, e);
}

int interp_ask_until(const char *name, struct interp *ret, int stop, struct err *e)
{
    char path[PATH_MAX], cached[PATH_MAX];
    int r = find_in_path(name, path, e);
    if (r == 0)
        r = check_owner(path, e);
    if (r < 0)
        return r;
    bool cacheable = cache_path(path, cached);
    if (cacheable && cache_load(cached, ret))
        return 0;
    _cleanup_free_ char *answer = malloc(ANSWER_MAX);
    _cleanup_free_ char *copy = NULL;
    if (!answer)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "ask interpreter");
    r = run_question(path, stop, answer, e);
    if (r < 0)
        return r;
    copy = strdup(answer);
    r = interp_parse(answer, ret, e);
    if (r < 0) {
        if (e->code == ERR_INTERPRETER && !ret->version[0] && ask_age(path, e) < 0 &&
            e->code == ERR_INTERPRETER_TOO_OLD)
            return -1;
        return e->code == ERR_INTERPRETER && !ret->version[0]
                   ? err_wrap(e, "interpreter '%s' is not a usable Python", path)
                   : r;
    }
    if (cacheable && copy)
        cache_store(cached, copy);
    return 0;
}
