// SPDX-License-Identifier: Apache-2.0
//
// caps: see caps.h.  Runs in the first process at start, with the rights the program was given.

#include "keeper/caps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sys.h"
#include "box/landlock.h"
#include "keeper/subids.h"

const struct layer_info layers[LAYER_MAX] = {
#define X(name, mandatory, degradable, what) [LAYER_##name] = {#name, mandatory, degradable, what},
    LAYER_MAP(X)
#undef X
};

void caps_set(struct caps *caps, enum layer layer, enum layer_state state, const char *text,
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

// ---- start --------------------------------------------------------------------------------------

// Gives up a layer only where it is missing.
static void degrade(struct caps *caps, enum layer layer)
{
    struct err ignored;
    char text[CAPS_TEXT_MAX];
    if (layer == LAYER_proc ? caps_find_proc(caps) : caps_find_seccomp(caps, &ignored) == 0)
        return;
    snprintf(text, sizeof text, "given up by --allow-degraded: %.440s", caps->layer[layer].text);
    caps->layer[layer].state = LAYER_DEGRADED;
    snprintf(caps->layer[layer].text, CAPS_TEXT_MAX, "%s", text);
    caps->box_flags |= layer == LAYER_proc ? BOX_WITHOUT_PROC : BOX_WITHOUT_SECCOMP;
}

int caps_take_degraded(struct caps *caps, const struct config *config, struct err *e)
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
        degrade(caps, (enum layer)k);
    }
    return 0;
}

// The errno tells whether it is not built in or not switched on.
static void no_landlock(struct caps *caps)
{
    bool off = syscall(SYS_landlock_create_ruleset, NULL, 0, 1) < 0 && errno == EOPNOTSUPP;
    if (off)
        caps_set(caps, LAYER_landlock, LAYER_MISSING, "Landlock is built in, but switched off",
                 "add 'landlock' to the lsm= kernel parameter and start the machine again");
    else if (errno == ENOSYS)
        caps_set(
            caps, LAYER_landlock, LAYER_MISSING, "this kernel has no Landlock",
            "use Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK; in a container, a system call "
            "filter may hide it");
    else
        caps_set(caps, LAYER_landlock, LAYER_MISSING, "a system call filter refuses Landlock",
                 "start the container with a seccomp profile that allows the landlock calls");
}

static void find_landlock(struct caps *caps)
{
    char text[96];
    caps->landlock_abi = landlock_abi();
    if (caps->landlock_abi == 0) {
        no_landlock(caps);
    } else if (caps->landlock_abi < 6) {
        snprintf(text, sizeof text, "ABI %u, without scopes for signals and abstract sockets",
                 caps->landlock_abi);
        caps_set(caps, LAYER_landlock, LAYER_PARTIAL, text, "scopes come with Linux 6.12");
    } else {
        snprintf(text, sizeof text, "ABI %u", caps->landlock_abi);
        caps_set(caps, LAYER_landlock, LAYER_LIVE, text, "");
    }
    caps_set(caps, LAYER_net_ns, LAYER_LIVE, "own, empty", "");
}

static void share_uid(struct caps *caps, const char *why, const char *fix)
{
    char text[CAPS_TEXT_MAX];
    snprintf(text, sizeof text, "all boxes have the caller's uid%s%.400s", why[0] ? ": " : "", why);
    caps_set(caps, LAYER_uid, LAYER_PARTIAL, text, fix);
}

static void find_uids(struct caps *caps, bool own_uids)
{
    char text[96], why[CAPS_TEXT_MAX] = "",
                   fix[CAPS_TEXT_MAX] = "start as root to give each box a host uid of its own";
    if (own_uids && !slots_have_uids(&caps->slots))
        (void)slots_delegate(&caps->slots, why, fix, sizeof why);
    if (!slots_have_uids(&caps->slots)) {
        share_uid(caps, why, fix);
        return;
    }
    snprintf(text, sizeof text, "host uids %llu-%llu%s",
             (unsigned long long)caps->slots.uid_first + 1,
             (unsigned long long)caps->slots.uid_first + SLOT_BOXES,
             caps->slots.delegated ? " of /etc/subuid" : "");
    caps_set(caps, LAYER_uid, LAYER_LIVE, text, "");
}

void caps_fit_uids(struct caps *caps, const char *const *paths, size_t count)
{
    char part[256], why[CAPS_TEXT_MAX];
    for (size_t i = 0; caps->slots.delegated && i < count; i++) {
        if (subids_may_read(paths[i], part, sizeof part))
            continue;
        slots_forgo(&caps->slots);
        snprintf(why, sizeof why, "others may not read '%.100s' in '%.200s'", part, paths[i]);
        share_uid(caps, why, "chmod -R o+rX that folder, or choose another interpreter");
    }
}

// Why the server cannot make groups, and how to change that.
static const char *cgroup_fix(void)
{
    char path[PATH_MAX], list[512] = "";
    if (cgroup_own_path(NULL, path, sizeof path) == 0) {
        char controllers[PATH_MAX + 32];
        snprintf(controllers, sizeof controllers, "%s/cgroup.controllers", path);
        (void)file_read_at(AT_FDCWD, controllers, list, sizeof list);
    }
    bool v2 = strstr(list, "memory") && strstr(list, "pids");
    if (!v2 && cgroup_own_path("memory", path, sizeof path) < 0)
        return list[0] || access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0
                   ? "give this group the controllers memory and pids: start as a service with "
                     "Delegate=yes, or with 'systemd-run --user --scope -p Delegate=yes "
                     "constrictor ...'"
                   : "mount the cgroup file system at /sys/fs/cgroup, with the controllers memory "
                     "and pids";
    if (access(path, W_OK) < 0 && errno == EROFS)
        return "the cgroup file system is read-only, as container engines mount it: start the "
               "container "
               "with '--security-opt writable-cgroups=true' (Docker 28 and later, cgroup v2) or "
               "'--security-opt unmask=/sys/fs/cgroup' (Podman)";
    return v2 ? "start as root, or with 'systemd-run --user --scope -p Delegate=yes constrictor "
                "...'"
              : "start as root; only root can make groups in cgroup version 1";
}

static void find_cgroups(struct caps *caps, const char *why)
{
    const struct cgroup_driver *driver = caps->cgroups.driver;
    if (driver == &watch_driver) {
        char text[CAPS_TEXT_MAX];
        snprintf(text, sizeof text, "rlimits and watchdog (%.400s)", why);
        caps_set(caps, LAYER_cgroup, LAYER_PARTIAL, text, cgroup_fix());
    } else {
        caps_set(caps, LAYER_cgroup, LAYER_LIVE, driver->name, "");
    }
    caps->box_flags |= driver->box_flags;
}

// An invalid program: EFAULT shows that the kernel would look at one.
int caps_find_seccomp(struct caps *caps, struct err *e)
{
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) < 0 && errno == EFAULT)
        return 0;
    bool filtered = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER;
    caps_set(caps, LAYER_seccomp, LAYER_MISSING,
             filtered ? "a filter around this process refuses to load another one"
                      : "this kernel cannot load system call filters",
             filtered ? "start the container with '--security-opt seccomp=unconfined', or with a "
                        "profile that allows prctl and seccomp"
                      : "use a kernel with CONFIG_SECCOMP_FILTER");
    return err_set(e, ERR_LAYER_MISSING, 0, caps->layer[LAYER_seccomp].fix, "layer 'seccomp': %s",
                   caps->layer[LAYER_seccomp].text);
}

// A zygote without a /proc of its own uses the host's, where container engines make /proc/sys
// read-only: then net_loopback() would fail.
static void find_loopback(struct caps *caps, const struct config *config)
{
    struct statvfs fs;
    if (config->loopback != LOOPBACK_ON)
        return;
    if (caps->box_flags & BOX_WITHOUT_PROC &&
        (statvfs("/proc/sys/net", &fs) < 0 || fs.f_flag & ST_RDONLY))
        log_line(LOG_INFO, "code cannot have servers on loopback: /proc/sys is read-only here");
    else
        caps->box_flags |= BOX_LOOPBACK;
}

int caps_open(struct caps *ret, const struct config *config, bool own_uids, struct err *e)
{
    char why[CAPS_TEXT_MAX];
    *ret = (struct caps){
        .slots = {.lock_fd = -1},
        .cgroups = {.dir = {-1, -1, -1}, .parent = {-1, -1, -1}, .zygote_dir = -1, .left = -1}};
    int r = caps_take_degraded(ret, config, e);
    if (r < 0)
        return r;
    find_landlock(ret);
    r = slots_open(&ret->slots, config->uid_base, e);
    if (r < 0) {
        if (!e->hint[0])
            err_hint(e, "make /run writable for root, or start as an ordinary user");
        const char *cause = strstr(e->message, "layer 'uid': ");
        caps_set(ret, LAYER_uid, LAYER_MISSING,
                 cause ? cause + strlen("layer 'uid': ") : e->message, e->hint);
        return r;
    }
    find_uids(ret, own_uids);
    uid_t of_boxes = slots_have_uids(&ret->slots) ? (uid_t)ret->slots.uid_first + 1 : geteuid();
    r = cgroup_open(&ret->cgroups, of_boxes, why, sizeof why, e);
    if (r < 0)
        return r;
    find_cgroups(ret, why);
    find_loopback(ret, config);
    if (!(ret->box_flags & BOX_WITHOUT_SECCOMP))
        return caps_find_seccomp(ret, e);
    return 0;
}

void caps_close(struct caps *caps)
{
    cgroup_close(&caps->cgroups);
    slots_close(&caps->slots);
}
