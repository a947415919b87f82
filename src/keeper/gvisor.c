// SPDX-License-Identifier: Apache-2.0
//
// gvisor: see gvisor.h.

#include "keeper/gvisor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/text.h"
#include "box/sandbox.h"
#include "keeper/backend.h"
#include "keeper/poller.h"
#include "keeper/zygote.h"
#include "wire/frame.h"

static const char get_it[] =
    "install gVisor's runsc ('make build-sandbox' builds it), and name it with "
    "--runsc PATH where it is not in PATH; nothing was run";

// ---- the program --------------------------------------------------------------------------------

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static bool find_in_path(const char *name, char *ret, size_t cap)
{
    const char *path = getenv("PATH");
    for (const char *p = path, *end; p && *p; p = *end ? end + 1 : end) {
        end = strchrnul(p, ':');
        if (*p == '/' && (size_t)snprintf(ret, cap, "%.*s/%s", (int)(end - p), p, name) < cap &&
            is_program(ret))
            return true;
    }
    return false;
}

// `make build-sandbox` leaves it there.
static bool find_beside(const char *name, char *ret, size_t cap)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    const char *end = n > 0 ? memrchr(exe, '/', (size_t)n) : NULL;
    return end && (size_t)snprintf(ret, cap, "%.*s/%s", (int)(end - exe), exe, name) < cap &&
           is_program(ret);
}

int gvisor_find(struct gvisor *g, struct err *e)
{
    const char *name = g->config->runsc;
    char found[PATH_MAX];
    if (g->runsc[0] && is_program(g->runsc))
        return 0;
    g->runsc[0] = '\0';
    bool there = strchr(name, '/') ? (snprintf(found, sizeof found, "%s", name), is_program(found))
                                   : find_in_path(name, found, sizeof found) ||
                                         find_beside(name, found, sizeof found);
    char *real = there ? realpath(found, NULL) : NULL;
    if (!real)
        return err_set(e, ERR_LAYER_MISSING, 0, get_it,
                       "isolation 'gvisor': there is no program '%s'", name);
    // SECURITY: as check_owner() of interp.c: a program that another user may change is no wall.
    bool trusted =
        geteuid() != 0 || (interp_is_roots(real) && (found[0] != '/' || interp_is_roots(found)));
    if (trusted)
        snprintf(g->runsc, sizeof g->runsc, "%s", real);
    free(real);
    return trusted ? 0
                   : err_set(e, ERR_LAYER_MISSING, 0,
                             "start constrictor as the user who owns it, or use a runsc of root's",
                             "isolation 'gvisor': '%s' can be changed by a user who is not root",
                             found);
}

static int check(struct stock *s, struct err *e)
{
    return gvisor_find(s->gvisor, e);
}

int gvisor_image(struct stock *s, const char *name, struct err *e)
{
    (void)s;
    return err_set(e, ERR_BAD_VALUE, 0, "leave the image out", "there is no image '%s'", name);
}

static struct wire_limits room(const struct wire_limits *limits)
{
    struct wire_limits more = *limits;
    more.memory_bytes += GVISOR_MEMORY;
    more.processes += limits->processes + GVISOR_THREADS;
    return more;
}

// ---- config.json --------------------------------------------------------------------------------

static json_t *texts(char *const *list)
{
    json_t *array = json_array();
    for (; *list; list++)
        if (json_array_append_new(array, json_string(*list)) < 0) { // or memory is out: not UTF-8
            json_decref(array);
            return NULL;
        }
    return array;
}

// The process starts as root of the sandbox: it mounts the scratch and gives all of this up before
// any user code (box/alone.h).
static json_t *rights(void)
{
    static const char *const names[] = {"CAP_SYS_ADMIN", "CAP_SETUID",       "CAP_SETGID",
                                        "CAP_SETPCAP",   "CAP_DAC_OVERRIDE", "CAP_CHOWN"};
    json_t *list = json_array();
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        (void)json_array_append_new(list, json_string(names[i]));
    return json_pack("{s:O, s:O, s:o}", "bounding", list, "effective", list, "permitted", list);
}

static char *make_spec(const struct jail_plan *plan)
{
    json_t *process =
        json_pack("{s:b, s:{s:i, s:i}, s:o, s:o, s:s, s:b, s:o}", "terminal", 0, "user", "uid", 0,
                  "gid", 0, "args", texts(plan->argv), "env", texts(plan->envp), "cwd", "/",
                  "noNewPrivileges", 1, "capabilities", rights());
    json_t *spec = json_pack("{s:s, s:o, s:{s:s, s:b}, s:s, s:[{s:s, s:s, s:s}],"
                             " s:{s:[{s:s}, {s:s}, {s:s}, {s:s}, {s:s}]}}",
                             "ociVersion", "1.0.0", "process", process, "root", "path", "/rootfs",
                             "readonly", 1, "hostname", "box", "mounts", "destination", "/proc",
                             "type", "proc", "source", "proc", "linux", "namespaces", "type", "pid",
                             "type", "mount", "type", "ipc", "type", "uts", "type", "network");
    char *text = spec ? json_dumps(spec, JSON_COMPACT) : NULL;
    json_decref(spec);
    return text;
}

// ---- a box --------------------------------------------------------------------------------------

static int plan_box(const struct stock *s, const struct box *b, int slot, struct jail_plan *plan,
                    struct err *e)
{
    const struct gvisor *g = s->gvisor;
    const struct slots *slots = &s->caps->slots;
    int r = zygote_plan(plan, g->config, s->caps, g->interp, g->environments(g->argument),
                        g->shares, e);
    if (r < 0)
        return r;
    // As root the slot's host uid; else the caller's, in a namespace of its own.
    bool exact = slots_may_give(slots);
    plan->ids = (struct idmap){.uid_first = slots->uid_first + (exact ? (uint64_t)slot : 0),
                               .gid_first = slots->gid_first + (exact ? (uint64_t)slot : 0),
                               .count = 1,
                               .exact = exact};
    plan->network = false;
    plan->wheel_files = NULL;
    (void)b;
    return 0;
}

static int start(struct stock *s, struct box *b, struct jail_plan *plan, int *log, struct err *e)
{
    char limits[160], *argv[ZYGOTE_ARGS_MAX];
    struct jail_child child;
    const struct wire_limits *l = &b->limits;
    snprintf(limits, sizeof limits,
             "--alone=%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32,
             l->memory_bytes, l->scratch_bytes, l->file_bytes, l->processes, l->open_files,
             l->readonly);
    zygote_argv(argv, s->gvisor->config, plan->executable, limits);
    plan->argv = argv;
    _cleanup_free_ char *spec = make_spec(plan);
    if (!spec)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "describe a sandbox");
    struct jail_sandbox sandbox = *plan->sandbox;
    sandbox.spec = spec;
    sandbox.runsc = s->gvisor->runsc;
    plan->sandbox = &sandbox;
    if (pipe2(log, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "pipe");
    plan->log_fd = log[1];
    int r = sandbox_begin(plan, &child, e);
    if (r == 0)
        b->pidfd = child.pidfd;
    b->cg.pid = r == 0 ? child.pid : 0;
    return r;
}

static int begin(struct stock *s, struct box *b, int slot, int *fds, unsigned groups, struct err *e)
{
    struct jail_plan plan;
    struct jail_sandbox sandbox = {0};
    int log[2] = {-1, -1};
    int r = gvisor_find(s->gvisor, e);
    if (r == 0)
        r = plan_box(s, b, slot, &plan, e);
    if (r < 0)
        return r;
    plan.socket_fd = fds[0];
    bool v2 = b->cg.root->driver->kind == BOX_CGROUP_V2;
    plan.cgroup_fd = v2 && groups ? fds[1] : -1;
    for (unsigned i = 0; i < groups && !v2 && i < SANDBOX_GROUPS_MAX; i++)
        sandbox.group_fds[sandbox.group_count++] = fds[1 + i];
    plan.sandbox = &sandbox;
    r = start(s, b, &plan, log, e);
    fd_close(&log[1]);
    b->log = log[0];
    if (r < 0)
        return r;
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = stock_tag(TAG_SANDBOX, b->id)};
    if (poller_ctl(s->epoll, EPOLL_CTL_ADD, b->pidfd, &ev) < 0) {
        r = err_set(e, ERR_SYSTEM, errno, NULL, "epoll_ctl");
        gvisor_end_now(s, b);
    }
    return r;
}

// ---- its end ------------------------------------------------------------------------------------

// What runsc, or the interpreter in it, said before it gave up: the end of it, on one line.
static void last_words(const struct box *b, char *ret, size_t cap)
{
    char text[GVISOR_LOG_MAX + 1];
    ssize_t n = b->log < 0 ? -1 : read(b->log, text, GVISOR_LOG_MAX);
    text[n > 0 ? n : 0] = '\0';
    text_sanitize(text);
    size_t length = strlen(text);
    while (length && (text[length - 1] == ' ' || text[length - 1] == '\n'))
        text[--length] = '\0';
    snprintf(ret, cap, "%s", length < cap ? text : text + length - cap + 1);
}

static bool reap(struct box *b, int options, struct wire_exited *ret)
{
    siginfo_t info = {0};
    int r;
    do
        r = waitid((idtype_t)P_PIDFD, (id_t)b->pidfd, &info, WEXITED | options);
    while (r < 0 && errno == EINTR);
    if (r < 0 || info.si_pid == 0)
        return false;
    ret->status = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status;
    return true;
}

void gvisor_ended(struct stock *s, uint64_t id)
{
    struct box *b = stock_find(s, id);
    struct wire_exited m = {.box = id};
    struct err e;
    char words[300];
    if (!b || b->pidfd < 0 || !reap(b, WNOHANG, &m))
        return;
    if (b->state == BOX_MAKING)
        stock_box_speaks(s, id); // the reason may wait on its control socket
    if (b->state == BOX_MAKING) {
        last_words(b, words, sizeof words);
        err_set(&e, ERR_BOX_SETUP, 0,
                "see docs/gvisor.md; nothing was run, and nothing runs without the sandbox",
                "isolation 'gvisor': the sandbox ended before it was ready%s%s",
                words[0] ? ": " : "", words);
        stock_fail(s, b, &e);
    }
    stock_exited(s, &m);
}

void gvisor_end_now(struct stock *s, struct box *b)
{
    struct wire_exited m;
    (void)s;
    if (b->pidfd < 0)
        return;
    (void)sys_pidfd_send_signal(b->pidfd, SIGKILL);
    (void)reap(b, 0, &m);
}

// runsc does not pass signals on, so the init of the box gets a frame.
static void interrupt(const struct box *b)
{
    const struct frame_header h = {.magic = FRAME_MAGIC, .kind = FRAME_INTERRUPT};
    (void)send(b->control, &h, sizeof h, MSG_DONTWAIT | MSG_NOSIGNAL);
}

const struct backend gvisor_backend = {
    .name = "gvisor", .begin = begin, .interrupt = interrupt, .room = room, .check = check};
