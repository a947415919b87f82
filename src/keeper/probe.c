// SPDX-License-Identifier: Apache-2.0
//
// probe: why a box cannot be made here, found by trying each part on its own.  caps_probe_deep()
// and caps_explain() of caps.h.  Runs in the first process, or in a gate that has not given up its
// rights yet, and only for doctor or after a failure; each try is a child that ends at once.

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/sys.h"
#include "box/net.h"
#include "keeper/caps.h"

// ---- the surroundings ---------------------------------------------------------------------------

static bool sysctl_is(const char *path, char value)
{
    char text[16];
    return file_read_at(AT_FDCWD, path, text, sizeof text) > 0 && text[0] == value;
}

// A filter that another program put around this process; container engines do.
static bool is_filtered(void)
{
    return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2;
}

static bool has_apparmor_restriction(void)
{
    return sysctl_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", '1');
}

static const char filter_fix[] =
    "a system call filter around this process refuses it, as the default of container engines "
    "does: "
    "start the container with the profile dist/seccomp.json (in the image: "
    "/usr/lib/constrictor/seccomp.json), by '--security-opt seccomp=FILE' (Docker, Podman), "
    "'security_opt: [seccomp=FILE]' (Compose) or 'seccompProfile: {type: Localhost, "
    "localhostProfile: constrictor.json}' (Kubernetes)";

static const char apparmor_fix[] = "kernel.apparmor_restrict_unprivileged_userns=1 (Ubuntu 23.10 "
                                   "and later) takes the rights of new "
                                   "user namespaces away: install an AppArmor profile for this "
                                   "program with the rule 'userns,', or "
                                   "start as root";

static const char module_fix[] =
    "a security module (AppArmor, SELinux) or a chroot around this process forbids it: look for "
    "'denied' in the kernel log, and allow user namespaces and mounts for this program; for a "
    "container '--security-opt apparmor=unconfined' (Docker, Podman), 'security_opt: "
    "[apparmor=unconfined]' (Compose) or 'appArmorProfile: {type: Unconfined}' (Kubernetes)";

static const char proc_fix[] =
    "start the container with '--security-opt systempaths=unconfined' (Docker), '--security-opt "
    "unmask=ALL' (Podman), 'security_opt: [systempaths=unconfined]' (Compose) or 'procMount: "
    "Unmasked' with 'hostUsers: false' (Kubernetes), or accept boxes without /proc with "
    "--allow-degraded=proc";

static const char *refusal_fix(int errnum)
{
    if (is_filtered())
        return filter_fix;
    return errnum == ENOSYS ? "use a newer kernel" : module_fix;
}

// ---- trying -------------------------------------------------------------------------------------

typedef int (*attempt)(const void *argument);

static int await(long pid)
{
    int status;
    while (waitpid((pid_t)pid, &status, 0) < 0)
        if (errno != EINTR)
            return errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EPROTO;
}

// Makes a child with the flags, lets it try `then`, returns 0 or the errno of what failed.
static int try_clone(uint64_t flags, attempt then, const void *argument)
{
    struct sys_clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
    long pid = sys_clone3(&args);
    if (pid < 0)
        return errno;
    if (pid == 0)
        _exit(then && then(argument) < 0 ? errno : 0);
    return await(pid);
}

// The same with the old call, whose flags a filter can see.
static int try_old_clone(unsigned long flags)
{
    long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    return pid < 0 ? errno : await(pid);
}

// Needs a capability in the new namespaces and nothing else: tells missing rights from a refused
// call.
static int do_hostname(const void *unused)
{
    (void)unused;
    return sethostname("box", 3);
}

static int do_private(const void *unused)
{
    (void)unused;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static int do_proc(const void *unused)
{
    (void)unused;
    return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

static int do_unshare(const void *flag)
{
    return unshare(*(const int *)flag);
}

// Maps the caller's own uid, which every process that may make a user namespace may do.
static int do_map(const void *map)
{
    int r = file_write_at(AT_FDCWD, "/proc/self/uid_map", map);
    errno = -r;
    return r < 0 ? -1 : 0;
}

static int do_no_new_privs(const void *unused)
{
    (void)unused;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

// System calls without which no tree can be built and no descriptor closed.
static const struct call {
    enum layer layer;
    long nr;
    const char *name, *since;
} calls[] = {
    {LAYER_root, SYS_open_tree, "open_tree", "5.2"},
    {LAYER_root, SYS_move_mount, "move_mount", "5.2"},
    {LAYER_root, SYS_mount_setattr, "mount_setattr", "5.12"},
    {LAYER_root, SYS_pivot_root, "pivot_root", "2.4"},
    {LAYER_root, SYS_umount2, "umount2", "2.2"},
    {LAYER_fds, SYS_close_range, "close_range", "5.9"},
};

// With arguments that are wrong for each of them: every other errno means that the kernel looked.
static int do_call(const void *argument)
{
    const struct call *call = argument;
    if (syscall(call->nr, -1L, 0L, -1L, 0L, -1L) == 0 ||
        (errno != ENOSYS && errno != EPERM && errno != EACCES))
        return 0;
    return -1;
}

// ---- the layers, one by one ---------------------------------------------------------------------

static bool miss(struct caps *caps, enum layer layer, const char *fix, const char *what, int errnum)
{
    char text[CAPS_TEXT_MAX];
    snprintf(text, sizeof text, "%s: %s", what, strerror(errnum));
    caps_set(caps, layer, LAYER_MISSING, text, fix);
    return false;
}

// max_user_namespaces and its kind: the kernel answers ENOSPC when one is reached.
static bool miss_limit(struct caps *caps, enum layer layer, const char *name)
{
    char path[64], text[CAPS_TEXT_MAX], fix[CAPS_TEXT_MAX];
    uint64_t value = 0;
    snprintf(path, sizeof path, "/proc/sys/user/max_%s_namespaces", name);
    (void)file_read_u64_at(AT_FDCWD, path, &value);
    snprintf(text, sizeof text,
             value ? "the limit of %s namespaces is reached (user.max_%s_namespaces = %" PRIu64 ")"
                   : "%s namespaces are switched off (user.max_%s_namespaces = %" PRIu64 ")",
             name, name, value);
    snprintf(fix, sizeof fix, "sysctl -w user.max_%s_namespaces=%" PRIu64, name,
             value < 5000 ? UINT64_C(10000) : 2 * value);
    caps_set(caps, layer, LAYER_MISSING, text, fix);
    return false;
}

static bool miss_clone3(struct caps *caps)
{
    char text[CAPS_TEXT_MAX];
    int errnum = try_old_clone(CLONE_NEWUSER);
    if (!errnum)
        return miss(caps, LAYER_user_ns,
                    is_filtered()
                        ? "a system call filter around this process hides clone3: start the "
                          "container with '--security-opt seccomp=unconfined', or with a "
                          "profile that allows clone3"
                        : "use Linux 5.5 or later",
                    "clone3", ENOSYS);
    snprintf(text, sizeof text, "clone3: %s; clone(CLONE_NEWUSER)", strerror(ENOSYS));
    return miss(caps, LAYER_user_ns, filter_fix, text, errnum);
}

static bool probe_user_ns(struct caps *caps)
{
    char map[64];
    int errnum = try_clone(CLONE_NEWUSER, NULL, NULL);
    if (errnum == ENOSYS)
        return miss_clone3(caps);
    if (errnum == ENOSPC)
        return miss_limit(caps, LAYER_user_ns, "user");
    if (errnum == EINVAL)
        return miss(caps, LAYER_user_ns, "use a kernel with CONFIG_USER_NS",
                    "clone3(CLONE_NEWUSER)", errnum);
    if (errnum) {
        const char *fix = sysctl_is("/proc/sys/kernel/unprivileged_userns_clone", '0')
                              ? "this kernel keeps user namespaces from ordinary users: sysctl -w "
                                "kernel.unprivileged_userns_clone=1, or start as root"
                          : is_filtered()              ? filter_fix
                          : has_apparmor_restriction() ? apparmor_fix
                                                       : module_fix;
        return miss(caps, LAYER_user_ns, fix, "clone3(CLONE_NEWUSER)", errnum);
    }
    const char *rights = has_apparmor_restriction() ? apparmor_fix : refusal_fix(EPERM);
    errnum = try_clone(CLONE_NEWUSER | CLONE_NEWUTS, do_hostname, NULL);
    if (errnum == EPERM || errnum == EACCES)
        return miss(caps, LAYER_user_ns, rights, "the namespace is made, but gives no rights",
                    errnum);
    snprintf(map, sizeof map, "0 %u 1", geteuid());
    errnum = geteuid() ? try_clone(CLONE_NEWUSER, do_map, map) : 0; // root maps a range, not itself
    if (errnum)
        return miss(caps, LAYER_user_ns, rights, "write its uid_map", errnum);
    return true;
}

// These are entered and not cloned into; the first that is refused stands for all.
static bool probe_unshare(struct caps *caps)
{
    static const struct {
        enum layer layer;
        int flag;
        const char *what;
    } table[] = {
        {LAYER_net_ns, CLONE_NEWNET, "unshare(CLONE_NEWNET)"},
        {LAYER_ipc_ns, CLONE_NEWIPC, "unshare(CLONE_NEWIPC)"},
        {LAYER_cgroup_ns, CLONE_NEWCGROUP, "unshare(CLONE_NEWCGROUP)"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        int errnum = try_clone(CLONE_NEWUSER, do_unshare, &table[i].flag);
        if (errnum)
            return miss(caps, table[i].layer, refusal_fix(errnum), table[i].what, errnum);
    }
    return true;
}

static bool probe_namespaces(struct caps *caps)
{
    static const struct {
        enum layer layer;
        uint64_t flag;
        const char *name, *option;
    } table[] = {
        {LAYER_pid_ns, CLONE_NEWPID, "pid", "CONFIG_PID_NS"},
        {LAYER_mount_ns, CLONE_NEWNS, "mnt", "CONFIG_NAMESPACES"},
        {LAYER_ipc_ns, CLONE_NEWIPC, "ipc", "CONFIG_IPC_NS"},
        {LAYER_uts_ns, CLONE_NEWUTS, "uts", "CONFIG_UTS_NS"},
        {LAYER_net_ns, CLONE_NEWNET, "net", "CONFIG_NET_NS"},
        {LAYER_cgroup_ns, CLONE_NEWCGROUP, "cgroup", "CONFIG_CGROUPS"},
    };
    bool fine = true;
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char fix[CAPS_TEXT_MAX];
        int errnum = try_clone(CLONE_NEWUSER | table[i].flag, NULL, NULL);
        snprintf(fix, sizeof fix, "use a kernel with %s", table[i].option);
        if (errnum == ENOSPC)
            fine = miss_limit(caps, table[i].layer, table[i].name);
        else if (errnum)
            fine = miss(caps, table[i].layer, errnum == EINVAL ? fix : refusal_fix(errnum),
                        "clone3", errnum);
    }
    return fine && probe_unshare(caps);
}

static bool probe_tree(struct caps *caps)
{
    bool fine = true;
    int errnum = try_clone(CLONE_NEWUSER | CLONE_NEWNS, do_private, NULL);
    if (errnum)
        return miss(caps, LAYER_mount_ns, errnum == EACCES ? module_fix : refusal_fix(errnum),
                    "mount", errnum);
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        char fix[CAPS_TEXT_MAX];
        errnum = try_clone(CLONE_NEWUSER | CLONE_NEWNS, do_call, &calls[i]);
        snprintf(fix, sizeof fix, "use Linux %s or later", calls[i].since);
        if (errnum)
            fine = miss(caps, calls[i].layer,
                        errnum == ENOSYS && !is_filtered() ? fix : refusal_fix(errnum),
                        calls[i].name, errnum);
    }
    return fine;
}

// What lies over parts of /proc: "'/proc/kcore' and 9 more".  0 when nothing does.
static unsigned find_masks(char *ret, size_t cap)
{
    _cleanup_fclose_ FILE *f = fopen("/proc/self/mountinfo", "re");
    _cleanup_free_ char *line = NULL;
    char first[PATH_MAX] = "", point[PATH_MAX];
    unsigned count = 0;
    size_t room = 0;
    while (f && getline(&line, &room, f) > 0)
        if (sscanf(line, "%*s %*s %*s %*s %4095s", point) == 1 &&
            strncmp(point, "/proc/", 6) == 0 && count++ == 0)
            snprintf(first, sizeof first, "%s", point);
    if (count > 1)
        snprintf(ret, cap, "'%.200s' and %u more are covered", first, count - 1);
    else
        snprintf(ret, cap, "'%.200s' is covered", first);
    return count;
}

bool caps_find_proc(struct caps *caps)
{
    char masks[256], what[CAPS_TEXT_MAX];
    int errnum = try_clone(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID, do_proc, NULL);
    if (!errnum || caps->layer[LAYER_proc].state == LAYER_DEGRADED)
        return true;
    if (find_masks(masks, sizeof masks)) {
        snprintf(what, sizeof what,
                 "/proc is masked, as container engines do (%s), so no fresh one can "
                 "be mounted",
                 masks);
        return miss(caps, LAYER_proc, proc_fix, what, errnum);
    }
    return miss(caps, LAYER_proc, proc_fix,
                "no fully visible /proc is mounted here, so no fresh one can be", errnum);
}

struct network_try {
    int errnum, domain; // of a TCP socket
    enum net_step step;
};

// As the zygote does it, with a /proc of its own where that can be had.
static int do_network(const void *argument)
{
    struct network_try seen = {0};
    int fds[WIRE_NET_FDS];
    socklen_t size = sizeof seen.domain;
    (void)mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    _cleanup_close_ int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    seen.errnum = -net_enter(proc, fds, &seen.step);
    if (!seen.errnum)
        (void)getsockopt(fds[WIRE_NET_FDS - 1], SOL_SOCKET, SO_DOMAIN, &seen.domain, &size);
    return write(*(const int *)argument, &seen, sizeof seen) == (ssize_t)sizeof seen ? 0 : -1;
}

void caps_probe_network(struct caps_network *ret)
{
    struct network_try seen;
    int ends[2];
    *ret = (struct caps_network){.state = LAYER_MISSING};
    if (pipe2(ends, O_CLOEXEC) < 0) {
        snprintf(ret->text, sizeof ret->text, "pipe: %s", strerror(errno));
        return;
    }
    _cleanup_close_ int near = ends[0], far = ends[1];
    int errnum = try_clone(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID, do_network, &far);
    if (!errnum && read(near, &seen, sizeof seen) == (ssize_t)sizeof seen)
        errnum = seen.errnum;
    else
        seen = (struct network_try){.step = NET_NAMESPACE};
    if (errnum) {
        snprintf(ret->text, sizeof ret->text, "%s: %s", net_step_text(seen.step), strerror(errnum));
        snprintf(ret->fix, sizeof ret->fix, "%s",
                 seen.step == NET_PORTS ? "/proc/sys is read-only or hidden, as container engines "
                                          "do: see the layer 'proc'"
                                        : refusal_fix(errnum));
        return;
    }
    ret->state = seen.domain == AF_INET6 ? LAYER_LIVE : LAYER_PARTIAL;
    snprintf(ret->text, sizeof ret->text,
             "a namespace for each box, every address leads to the broker%s",
             seen.domain == AF_INET6 ? "" : "; IPv4 only");
    if (ret->state == LAYER_PARTIAL)
        snprintf(ret->fix, sizeof ret->fix, "IPv6 is not in this kernel, or switched off");
}

bool caps_probe_deep(struct caps *caps)
{
    bool fine = probe_user_ns(caps);
    if (fine) { // else the rest would only fail for the same reason
        fine = probe_namespaces(caps);
        if (caps->layer[LAYER_mount_ns].state == LAYER_LIVE)
            fine = probe_tree(caps) && fine;
        if (caps->layer[LAYER_mount_ns].state == LAYER_LIVE &&
            caps->layer[LAYER_pid_ns].state == LAYER_LIVE)
            fine = caps_find_proc(caps) && fine;
    }
    int errnum = try_clone(0, do_no_new_privs, NULL);
    if (errnum && errnum != ENOSYS)
        fine = miss(caps, LAYER_no_new_privs, refusal_fix(errnum), "PR_SET_NO_NEW_PRIVS", errnum);
    struct err ignored;
    if (caps->layer[LAYER_seccomp].state != LAYER_DEGRADED && caps_find_seccomp(caps, &ignored) < 0)
        fine = false;
    return fine;
}

enum layer caps_layer_of(const struct err *e)
{
    for (int i = 0; i < LAYER_MAX; i++) {
        char start[64];
        int n = snprintf(start, sizeof start, "layer '%s': ", layers[i].name);
        if (strncmp(e->message, start, (size_t)n) == 0)
            return (enum layer)i;
    }
    return LAYER_MAX;
}

bool caps_blame(const struct caps *caps, struct err *e)
{
    enum layer found = caps_layer_of(e);
    if (found == LAYER_MAX || caps->layer[found].state != LAYER_MISSING)
        for (found = 0; found < LAYER_MAX; found++)
            if (layers[found].mandatory && caps->layer[found].state == LAYER_MISSING)
                break;
    if (found == LAYER_MAX)
        return false;
    err_set(e, ERR_LAYER_MISSING, 0, caps->layer[found].fix, "layer '%s': %s", layers[found].name,
            caps->layer[found].text);
    return true;
}

void caps_explain(const struct config *config, struct err *e)
{
    static struct caps caps; // large
    struct err ignored;
    if (e->code != ERR_LAYER_MISSING)
        return;
    caps = (struct caps){0};
    (void)caps_take_degraded(&caps, config, &ignored); // checked at start already
    if (!caps_probe_deep(&caps))
        (void)caps_blame(&caps, e);
}
