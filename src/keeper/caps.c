// SPDX-License-Identifier: Apache-2.0
//
// caps: see caps.h.  Runs in the first process at start, with the rights the program was given.

#include "keeper/caps.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/sys.h"
#include "box/landlock.h"

const struct layer_info layers[LAYER_MAX] = {
#define X(name, mandatory, degradable, what) [LAYER_##name] = {#name, mandatory, degradable, what},
    LAYER_MAP(X)
#undef X
};

static void set(struct caps *caps, enum layer layer, enum layer_state state, const char *text,
                const char *fix)
{
    caps->layer[layer].state = state;
    snprintf(caps->layer[layer].text, CAPS_TEXT_MAX, "%s", text);
    snprintf(caps->layer[layer].fix, CAPS_TEXT_MAX, "%s", fix);
}

void caps_describe(const struct caps *caps, enum layer layer, char *ret, size_t cap)
{
    static const char *const words[] = {
        [LAYER_LIVE] = "live",
        [LAYER_PARTIAL] = "partial",
        [LAYER_DEGRADED] = "degraded",
        [LAYER_MISSING] = "missing",
    };
    const char *text = caps->layer[layer].text;
    snprintf(ret, cap, "%s%s%s", words[caps->layer[layer].state], text[0] ? ": " : "", text);
}

// ---- start ---------------------------------------------------------------------------------------

static int take_degraded(struct caps *caps, const struct config *config, struct err *e)
{
    for (size_t i = 0; i < config->allow_degraded.count; i++) {
        const char *name = config->allow_degraded.items[i];
        size_t k = 0;
        while (k < LAYER_MAX && strcmp(layers[k].name, name) != 0)
            k++;
        if (k == LAYER_MAX)
            return err_set(e, ERR_BAD_VALUE, 0, "'constrictor doctor' lists the layers",
                           "--allow-degraded '%s' is not an isolation layer", name);
        if (!layers[k].mandatory)
            continue; // best available anyway
        if (!layers[k].degradable)
            return err_set(e, ERR_BAD_VALUE, 0, "only 'proc' and 'seccomp' can be given up",
                           "--allow-degraded '%s': no box can be made without this layer", name);
        set(caps, (enum layer)k, LAYER_DEGRADED, "given up by --allow-degraded", "");
        caps->box_flags |= k == LAYER_proc ? BOX_WITHOUT_PROC : BOX_WITHOUT_SECCOMP;
    }
    return 0;
}

static void find_landlock(struct caps *caps)
{
    char text[96];
    caps->landlock_abi = landlock_abi();
    if (caps->landlock_abi == 0) {
        set(caps, LAYER_landlock, LAYER_MISSING, "this kernel has no Landlock, or it is off",
            "add 'landlock' to the lsm= kernel parameter (Linux 5.13 or later)");
    } else if (caps->landlock_abi < 6) {
        snprintf(text, sizeof text, "ABI %u, without scopes for signals and abstract sockets",
                 caps->landlock_abi);
        set(caps, LAYER_landlock, LAYER_PARTIAL, text, "scopes come with Linux 6.12");
    } else {
        snprintf(text, sizeof text, "ABI %u", caps->landlock_abi);
        set(caps, LAYER_landlock, LAYER_LIVE, text, "");
    }
    // SECURITY: boxes of one zygote share an empty network namespace only when Landlock keeps them
    // from each other's abstract sockets.
    if (caps->landlock_abi < 6)
        caps->box_flags |= BOX_OWN_NET;
    set(caps, LAYER_net_ns, LAYER_LIVE, caps->landlock_abi < 6 ? "own, empty" : "empty", "");
}

static void find_uids(struct caps *caps)
{
    char text[96];
    if (slots_have_uids(&caps->slots)) {
        snprintf(text, sizeof text, "host uids %llu-%llu",
                 (unsigned long long)caps->slots.uid_first + 1,
                 (unsigned long long)caps->slots.uid_first + SLOT_GATE - 1);
        set(caps, LAYER_uid, LAYER_LIVE, text, "");
    } else {
        set(caps, LAYER_uid, LAYER_PARTIAL, "all boxes have the caller's uid",
            "start as root to give each box a host uid of its own");
    }
}

static void find_cgroups(struct caps *caps, const char *why)
{
    const struct cgroup_driver *driver = caps->cgroups.driver;
    if (driver == &watch_driver) {
        char text[CAPS_TEXT_MAX];
        snprintf(text, sizeof text, "rlimits and watchdog (%.400s)", why);
        set(caps, LAYER_cgroup, LAYER_PARTIAL, text,
            "start as root, or with 'systemd-run --user --scope -p Delegate=yes constrictor ...'");
    } else {
        set(caps, LAYER_cgroup, LAYER_LIVE, driver->name, "");
    }
    caps->box_flags |= driver->box_flags;
}

int caps_open(struct caps *ret, const struct config *config, struct err *e)
{
    char why[CAPS_TEXT_MAX];
    *ret = (struct caps){.slots = {.lock_fd = -1},
                         .cgroups = {.dir = {-1, -1, -1}, .parent = {-1, -1, -1}, .zygote_dir = -1}};
    int r = take_degraded(ret, config, e);
    if (r < 0)
        return r;
    find_landlock(ret);
    r = slots_open(&ret->slots, config->uid_base, e);
    if (r < 0)
        return r;
    find_uids(ret);
    r = cgroup_open(&ret->cgroups, (uid_t)ret->slots.uid_first, why, sizeof why, e);
    if (r < 0)
        return r;
    find_cgroups(ret, why);
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0 && errno == EINVAL && !(ret->box_flags & BOX_WITHOUT_SECCOMP)) {
        set(ret, LAYER_seccomp, LAYER_MISSING, "this kernel is built without CONFIG_SECCOMP_FILTER",
            "use a kernel with seccomp");
        return err_set(e, ERR_LAYER_MISSING, 0, ret->layer[LAYER_seccomp].fix, "layer 'seccomp': %s",
                       ret->layer[LAYER_seccomp].text);
    }
    return 0;
}

void caps_close(struct caps *caps)
{
    cgroup_close(&caps->cgroups);
    slots_close(&caps->slots);
}

// ---- doctor --------------------------------------------------------------------------------------

static bool sysctl_is(const char *path, char value)
{
    char text[16];
    return file_read_at(AT_FDCWD, path, text, sizeof text) > 0 && text[0] == value;
}

// Makes a child with the flags, lets it try `then`, returns 0 or the errno of what failed.
static int try_clone(uint64_t flags, int (*then)(void))
{
    struct sys_clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
    long pid = sys_clone3(&args);
    if (pid < 0)
        return errno;
    if (pid == 0)
        _exit(then && then() < 0 ? errno : 0);
    int status;
    while (waitpid((pid_t)pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EPROTO;
}

static int try_proc(void)
{
    return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

// The rights that a new user namespace should bring; Ubuntu's AppArmor takes them away afterwards.
static int try_mount(void)
{
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static int try_filter(void)
{
    // An invalid program: EFAULT shows that the kernel would look at one.
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return prctl(PR_SET_SECCOMP, 2, NULL, 0, 0) < 0 && errno == EFAULT ? 0 : -1;
}

static void explain_user_ns(struct caps *caps, int errnum)
{
    char text[CAPS_TEXT_MAX];
    const char *fix = "allow user namespaces for this user";
    snprintf(text, sizeof text, "clone3(CLONE_NEWUSER): %s", strerror(errnum));
    if (errnum == ENOSYS)
        fix = "clone3 is hidden and namespaces are refused, as Docker's default seccomp profile does: "
              "start the container with '--security-opt seccomp=unconfined' or a profile that allows "
              "clone3, unshare and mount, and with '--security-opt unmask=ALL'";
    else if (sysctl_is("/proc/sys/user/max_user_namespaces", '0'))
        fix = "user namespaces are switched off: sysctl -w user.max_user_namespaces=10000";
    else if (sysctl_is("/proc/sys/kernel/unprivileged_userns_clone", '0'))
        fix = "this kernel keeps user namespaces from ordinary users: "
              "sysctl -w kernel.unprivileged_userns_clone=1";
    else if (errnum == EPERM)
        fix = "a seccomp profile or security module of the surrounding container refuses namespaces: "
              "start it with '--security-opt seccomp=unconfined --security-opt unmask=ALL'";
    set(caps, LAYER_user_ns, LAYER_MISSING, text, fix);
}

static const char apparmor_fix[] =
    "kernel.apparmor_restrict_unprivileged_userns=1 (Ubuntu 23.10 and later) takes the rights of new "
    "user namespaces away: install an AppArmor profile for this program with the rule 'userns,', or "
    "start as root";

static bool probe_user_ns(struct caps *caps)
{
    int errnum = try_clone(CLONE_NEWUSER, NULL);
    if (errnum) {
        explain_user_ns(caps, errnum);
        return false;
    }
    errnum = try_clone(CLONE_NEWUSER | CLONE_NEWNS, try_mount);
    if (errnum == EACCES || (errnum == EPERM && sysctl_is("/proc/sys/kernel/"
                                                          "apparmor_restrict_unprivileged_userns", '1'))) {
        set(caps, LAYER_user_ns, LAYER_MISSING, "the namespace is made, but without rights in it",
            apparmor_fix);
        return false;
    }
    return true;
}

bool caps_probe_deep(struct caps *caps)
{
    static const struct {
        enum layer layer;
        uint64_t flag;
        const char *sysctl;
    } namespaces[] = {
        {LAYER_pid_ns, CLONE_NEWPID, "user.max_pid_namespaces"},
        {LAYER_mount_ns, CLONE_NEWNS, "user.max_mnt_namespaces"},
        {LAYER_ipc_ns, CLONE_NEWIPC, "user.max_ipc_namespaces"},
        {LAYER_uts_ns, CLONE_NEWUTS, "user.max_uts_namespaces"},
        {LAYER_net_ns, CLONE_NEWNET, "user.max_net_namespaces"},
        {LAYER_cgroup_ns, CLONE_NEWCGROUP, "user.max_cgroup_namespaces"},
    };
    bool fine = probe_user_ns(caps);
    char text[CAPS_TEXT_MAX], fix[CAPS_TEXT_MAX];
    for (size_t i = 0; i < ARRAY_LEN(namespaces) && fine; i++) {
        int errnum = try_clone(CLONE_NEWUSER | namespaces[i].flag, NULL);
        if (!errnum)
            continue;
        snprintf(text, sizeof text, "clone3: %s", strerror(errnum));
        snprintf(fix, sizeof fix, "%s %s",
                 errnum == ENOSPC ? "raise the limit: sysctl -w" : "this kernel or container lacks it; see",
                 namespaces[i].sysctl);
        if (errnum == ENOSPC)
            snprintf(fix + strlen(fix), sizeof fix - strlen(fix), "=10000");
        set(caps, namespaces[i].layer, LAYER_MISSING, text, fix);
        fine = false;
    }
    if (!fine)
        return false;
    int errnum = try_clone(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID, try_proc);
    if (errnum && caps->layer[LAYER_proc].state != LAYER_DEGRADED) {
        snprintf(text, sizeof text, "mount a fresh /proc: %s", strerror(errnum));
        set(caps, LAYER_proc, LAYER_MISSING, text,
            "/proc is masked, as container engines do: start the container with '--security-opt "
            "unmask=ALL' (Kubernetes: procMount: Unmasked), or give the layer up with "
            "--allow-degraded=proc");
        fine = false;
    }
    errnum = try_clone(0, try_filter);
    if (errnum && caps->layer[LAYER_seccomp].state != LAYER_DEGRADED) {
        snprintf(text, sizeof text, "install a filter: %s", strerror(errnum));
        set(caps, LAYER_seccomp, LAYER_MISSING, text, "use a kernel with CONFIG_SECCOMP_FILTER");
        fine = false;
    }
    return fine;
}
