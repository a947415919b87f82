// SPDX-License-Identifier: Apache-2.0
//
// zygote: see zygote.h.

#include "keeper/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sys.h"
#include "base/text.h"
#include "box/filter.h"
#include "box/jail.h"
#include "net/policy.h"

enum { READY_TIMEOUT_MS = 120000 };

// Beside the program in a build tree, else where it was installed.
int zygote_find_python_side(char *ret, size_t cap, struct err *e)
{
    char exe[PATH_MAX];
    struct stat st;
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n > 0) {
        exe[n] = '\0';
        snprintf(ret, cap, "%s/python", dirname(exe));
        // Not just the folder: an interpreter called `python` may lie beside the program.
        char file[PATH_MAX + 16];
        snprintf(file, sizeof file, "%s/zygote.py", ret);
        if (stat(file, &st) == 0 && S_ISREG(st.st_mode))
            return 0;
    }
    snprintf(ret, cap, "%s", CONSTRICTOR_LIBDIR);
    if (stat(ret, &st) == 0)
        return 0;
    return err_set(e, ERR_ZYGOTE, errno, "install it again: 'make install'",
                   "the Python side of constrictor is neither beside the program nor in '%s'", ret);
}

void zygote_fit_uids(const struct config *config, struct caps *caps, const struct interp *interp)
{
    const char *paths[INTERP_PATHS_MAX + 2];
    size_t count = 0;
    char side[PATH_MAX];
    struct err ignored;
    for (size_t i = 0; i < interp->path_count; i++)
        paths[count++] = interp->paths[i];
    if (zygote_find_python_side(side, sizeof side, &ignored) == 0)
        paths[count++] = side;
    if (config->find_links[0])
        paths[count++] = config->find_links;
    caps_fit_uids(caps, paths, count);
}

// A kernel without IPv6 tries to load its module at each such socket() call, so boxes may not make
// it there.
static bool lacks_ipv6(void)
{
    _cleanup_close_ int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd < 0 && errno == EAFNOSUPPORT;
}

static enum filter_kind last_network;

enum filter_kind zygote_last_filter(bool network)
{
    return network ? last_network : FILTER_LAST;
}

static int make_filter(enum filter_kind kind, struct err *e)
{
    bool only4 = lacks_ipv6();
    last_network = only4 ? FILTER_LAST_NETWORK4 : FILTER_LAST_NETWORK;
    const enum filter_kind kinds[FILTER_PARTS] = {
        [FILTER_PART_FIRST] = kind,
        [FILTER_PART_LAST] = FILTER_LAST,
        [FILTER_PART_LAST_NETWORK] = last_network,
        [FILTER_PART_TELL] = FILTER_TELL,
        [FILTER_PART_TELL_NETWORK] = only4 ? FILTER_TELL_NETWORK4 : FILTER_TELL_NETWORK};
    static struct filter parts[ARRAY_LEN(kinds)]; // 80 KiB
    struct filter_head head;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        int r = filter_build(kinds[i], &parts[i], e);
        if (r < 0)
            return r;
        head.counts[i] = (uint32_t)parts[i].count;
    }
    int fd = memfd_create("filter", MFD_CLOEXEC);
    if (fd < 0)
        return err_set(e, ERR_LAYER_MISSING, errno,
                       "see 'constrictor doctor' for the exact cause and fix",
                       "layer 'seccomp': memfd_create for the filter");
    int r = fd_write_all(fd, &head, sizeof head);
    for (size_t i = 0; i < ARRAY_LEN(kinds) && r == 0; i++)
        r = fd_write_all(fd, parts[i].code, parts[i].count * sizeof parts[i].code[0]);
    if (r < 0) {
        (void)close(fd);
        return err_set(e, ERR_SYSTEM, -r, NULL, "write the filter");
    }
    return fd;
}

// The whole environment of zygote and boxes.  SECURITY: nothing of the server's own environment
// (keys, tokens, paths) goes in.
static char *environment[] = {
    NULL, // PATH, see search_path()
    NULL,
    NULL,
    NULL,
    NULL, // see count_threads()
    (char *)"HOME=/mnt/data",
    (char *)"USER=user",
    (char *)"LOGNAME=user",
    (char *)"LANG=C.UTF-8",
    (char *)"TMPDIR=/tmp",
    (char *)"TZ=UTC",
    // Arenas reserve 64 MiB of address space for each thread, which RLIMIT_AS would count.
    (char *)"MALLOC_ARENA_MAX=2",
    (char *)"MPLBACKEND=Agg",
    // Caches of libraries are not among the files that code made.
    (char *)"MPLCONFIGDIR=/tmp/.matplotlib",
    (char *)"XDG_CACHE_HOME=/tmp/.cache",
    NULL, // see set_repeatable()
    NULL,
    NULL,
    NULL,
};

// As many threads of BLAS and of loops as the box has cores, but no more than a quarter of its
// processes: a library that cannot start its threads ends the interpreter.
static void count_threads(const struct config *config)
{
    static const char *const names[] = {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS",
                                        "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"};
    static char texts[ARRAY_LEN(names)][48];
    unsigned cores = sys_cores(), most = config->processes / 4 ? config->processes / 4 : 1;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(texts[i], sizeof texts[i], "%s=%u", names[i], cores < most ? cores : most);
        environment[1 + i] = texts[i];
    }
}

// What --hash-seed and --clock ask for, also for programs that code starts.
static void set_repeatable(const struct config *c)
{
    static char seed[40], clock[40];
    size_t at = ARRAY_LEN(environment) - 4;
    snprintf(seed, sizeof seed, "PYTHONHASHSEED=%u", c->hash_seed);
    snprintf(clock, sizeof clock, "CONSTRICTOR_CLOCK=%" PRIu64, c->clock_s);
    if (config_is_set(c, CONFIG_KEY_hash_seed))
        environment[at++] = seed;
    if (config_is_set(c, CONFIG_KEY_clock_s)) {
        environment[at++] = clock;
        environment[at++] = (char *)"LD_PRELOAD=/opt/constrictor/fixed_clock.so"; // ext/clock.c
    }
}

// The commands of the jail (python, pip), then those of the interpreter's own folder, where a
// virtual environment has its python and both have the programs of their packages.
static int search_path(const struct interp *interp, struct err *e)
{
    static char path[PATH_MAX + 64];
    const char *end = strrchr(interp->executable, '/');
    int length = end ? (int)(end - interp->executable) : 0;
    if (memchr(interp->executable, ':', (size_t)length))
        length = 0; // no name for PATH
    int n = snprintf(path, sizeof path, "PATH=%s%s%.*s:/usr/local/bin:/usr/bin:/bin", JAIL_COMMANDS,
                     length ? ":" : "", length, interp->executable);
    if (n < 0 || (size_t)n >= sizeof path)
        return err_set(e, ERR_INTERPRETER, ENAMETOOLONG, NULL, "the interpreter's path");
    environment[0] = path;
    return 0;
}

// Its python must be started by its own path: there it finds what it has.
static bool is_virtual(const struct interp *interp)
{
    char file[PATH_MAX + 32];
    const char *end = strrchr(interp->executable, '/');
    int length = end ? (int)(end - interp->executable) : 0;
    snprintf(file, sizeof file, "%.*s/pyvenv.cfg", length, interp->executable);
    if (access(file, F_OK) == 0)
        return true;
    snprintf(file, sizeof file, "%.*s/../pyvenv.cfg", length, interp->executable);
    return access(file, F_OK) == 0;
}

// Keeps the end of its stderr.
bool zygote_hear(struct zygote *z)
{
    char buf[1024], *tail = z->tail;
    ssize_t n;
    while ((n = read(z->log, buf, sizeof buf)) > 0) {
        size_t have = strlen(tail), take = (size_t)n > ZYGOTE_TAIL ? ZYGOTE_TAIL : (size_t)n;
        size_t keep = have + take > ZYGOTE_TAIL ? ZYGOTE_TAIL - take : have;
        memmove(tail, tail + have - keep, keep);
        memcpy(tail + keep, buf + n - take, take);
        tail[keep + take] = '\0';
    }
    text_sanitize(tail);
    return n != 0;
}

int zygote_look(struct zygote *z, struct err *e)
{
    union wire_message m;
    (void)zygote_hear(z);
    int r = wire_recv(z->sock, &m, NULL, 0, NULL);
    if (r == -EAGAIN && clock_ms() < z->deadline_ms)
        return 0;
    if (r == -EAGAIN)
        return err_set(e, ERR_ZYGOTE, ETIMEDOUT, "leave the slow module out of --preload",
                       "the zygote was not warm after %d s", READY_TIMEOUT_MS / 1000);
    if (r == 1 && m.h.type == WIRE_ZYGOTE_READY) {
        z->report_length = m.ready.report_length;
        memcpy(z->report, m.ready.report, z->report_length);
        z->report[z->report_length] = '\0';
        return 1;
    }
    (void)zygote_hear(z);
    return err_set(e, ERR_ZYGOTE, r < 0 ? -r : 0,
                   "a module in --preload may have ended the interpreter: try without it",
                   "the zygote ended before it was warm%s%s",
                   z->tail[0] ? "; its last words: " : "", z->tail);
}

int zygote_plan(struct jail_plan *ret, const struct config *config, const struct caps *caps,
                const struct interp *interp, const struct environments *environments,
                const struct shares *shares, struct err *e)
{
    static char side[PATH_MAX];
    int r = zygote_find_python_side(side, sizeof side, e);
    if (r == 0)
        r = search_path(interp, e);
    if (r < 0)
        return r;
    count_threads(config);
    set_repeatable(config);
    *ret = (struct jail_plan){.path_count = interp->path_count,
                              .python_side = side,
                              .executable = interp->executable,
                              .is_virtual = is_virtual(interp),
                              .envp = environment,
                              .ids = {.uid_first = caps->slots.uid_first,
                                      .gid_first = caps->slots.gid_first,
                                      .count = caps->slots.uid_count,
                                      .helped = caps->slots.delegated},
                              .cgroup_fd = caps->cgroups.zygote_dir,
                              .without_proc = caps->box_flags & BOX_WITHOUT_PROC,
                              .network =
                                  net_is_on(config) ||
                                  (environments && environments->folder >= 0 && !config->offline)};
    if (environments && environments->folder >= 0) {
        ret->wheel_files = config->find_links[0] ? config->find_links : NULL;
        ret->wheels = environments->path;
        ret->wheels_device = environments->device;
        ret->wheels_inode = environments->inode;
    }
    if (shares) {
        ret->share_count = shares->count;
        ret->shares = shares->items;
    }
    for (size_t i = 0; i < interp->path_count; i++)
        ret->paths[i] = interp->paths[i];
    _Static_assert((int)INTERP_PACKAGES_MAX <= (int)JAIL_HIDDEN_MAX, "one place for each");
    for (size_t i = 0; i < interp->packages_count && !config->host_packages; i++)
        ret->hidden[ret->hidden_count++] = interp->packages[i];
    return 0;
}

// Not -I: multiprocessing and joblib give the flags on to interpreters that they start, which then
// would not look at PYTHONPATH.  The environment has nothing that -I would ignore.
void zygote_argv(char *argv[ZYGOTE_ARGS_MAX], const struct config *config, const char *executable,
                 const char *option)
{
    const char *const first[] = {executable, "-s", "-B", "-X", "utf8", "/opt/constrictor/start.py"};
    int argc = 0;
    for (size_t i = 0; i < ARRAY_LEN(first); i++)
        argv[argc++] = (char *)first[i];
    if (option)
        argv[argc++] = (char *)option;
    for (size_t i = 0; i < config->preload.count; i++)
        argv[argc++] = (char *)config->preload.items[i];
    argv[argc] = NULL;
}

int zygote_begin(struct zygote *ret, const struct config *config, const struct caps *caps,
                 const struct interp *interp, const struct environments *environments,
                 const struct shares *shares, bool cold, struct err *e)
{
    char *argv[ZYGOTE_ARGS_MAX];
    int sock[2], log[2];
    struct jail_plan plan;

    *ret = (struct zygote){.pid = -1, .pidfd = -1, .sock = -1, .log = -1};
    int r = zygote_plan(&plan, config, caps, interp, environments, shares, e);
    if (r < 0)
        return r;
    bool counted = caps->cgroups.driver != &watch_driver;
    _cleanup_close_ int filter = make_filter(counted ? FILTER_ZYGOTE : FILTER_ZYGOTE_WATCHED, e);
    if (filter < 0)
        return filter;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "socketpair");
    ret->sock = sock[0];
    _cleanup_close_ int far_sock = sock[1];
    if (pipe2(log, O_CLOEXEC) < 0) {
        r = err_set(e, ERR_SYSTEM, errno, NULL, "pipe");
        zygote_stop(ret);
        return r;
    }
    ret->log = log[0];
    _cleanup_close_ int far_log = log[1];
    (void)fd_set_nonblock(ret->log, true);
    (void)fd_set_nonblock(ret->sock, true);
    zygote_argv(argv, config, interp->executable, cold ? "--cold" : NULL);
    plan.argv = argv;
    plan.socket_fd = far_sock;
    plan.filter_fd = filter;
    plan.log_fd = far_log;
    struct jail_child child;
    r = jail_start(&plan, &child, e);
    if (r < 0) {
        zygote_stop(ret);
        return r;
    }
    ret->pid = child.pid;
    ret->pidfd = child.pidfd;
    ret->deadline_ms = clock_ms() + READY_TIMEOUT_MS;
    return 0; // the far ends are closed here, so that the end of the zygote shows
}

int zygote_start(struct zygote *ret, const struct config *config, const struct caps *caps,
                 const struct interp *interp, const struct environments *environments,
                 const struct shares *shares, bool cold, struct err *e)
{
    int r = zygote_begin(ret, config, caps, interp, environments, shares, cold, e);
    while (r == 0) {
        struct pollfd p[] = {{.fd = ret->sock, .events = POLLIN},
                             {.fd = ret->log, .events = POLLIN}};
        int64_t left = ret->deadline_ms - clock_ms();
        if (poll(p, 2, left > 0 ? (int)left : 0) < 0 && errno != EINTR)
            r = err_set(e, ERR_SYSTEM, errno, NULL, "poll");
        else
            r = zygote_look(ret, e);
    }
    if (r < 0)
        zygote_stop(ret);
    return r < 0 ? r : 0;
}

void zygote_stop(struct zygote *z)
{
    if (z->pidfd >= 0) {
        // It is pid 1 of its namespace: the kernel kills all of its processes, boxes included, and
        // the wait returns when the last is gone.
        (void)sys_pidfd_send_signal(z->pidfd, SIGKILL);
        while (waitpid(z->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    fd_close(&z->pidfd);
    fd_close(&z->sock);
    fd_close(&z->log);
    z->pid = -1;
}
