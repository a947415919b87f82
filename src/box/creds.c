// SPDX-License-Identifier: Apache-2.0
//
// creds: see creds.h.  Raw capability calls, because this file is also linked into the extension
// that any CPython loads, and that one depends on nothing but libc.

#include "box/creds.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int creds_become(uid_t id)
{
    // The group first: afterwards there may be no right to change it.
    if (setresgid(id, id, id) < 0)
        return -1;
    return setresuid(id, id, id);
}

static int set_capabilities(uint32_t only)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2] = {{.effective = only, .permitted = only}};
    return (int)syscall(SYS_capset, &head, sets);
}

int creds_settle(void)
{
    // SECURITY: the bounding set first, while CAP_SETPCAP is still there; it stops a file
    // capability from giving anything back.
    for (unsigned long cap = 0; cap < 64; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
            if (errno == EINVAL && cap > CAP_SYS_ADMIN)
                break; // one past the last capability of this kernel
            return -1;
        }
    if (prctl(PR_SET_SECUREBITS,
              SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                  SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                  SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
              0, 0, 0) < 0)
        return -1;
    return set_capabilities(1U << CAP_SYS_ADMIN);
}

void creds_drop_bounding(void)
{
    for (unsigned long cap = 0; cap < 64 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
        ; // without CAP_SETPCAP the first one fails; no_new_privs then does the same
}

int creds_empty(void)
{
    return set_capabilities(0);
}

int creds_drop_effective(void)
{
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -1;
    return set_capabilities(0);
}

bool creds_are_empty(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct now[2];
    if (syscall(SYS_capget, &head, now) < 0)
        return false;
    // The kernel keeps the ambient set within the permitted and the inheritable one.  It cannot be
    // asked for here: the filter, which is up by now, refuses that.
    for (int i = 0; i < 2; i++)
        if (now[i].effective || now[i].permitted || now[i].inheritable)
            return false;
    return true;
}

bool creds_bounding_is_empty(void)
{
    for (unsigned long cap = 0; cap < 64; cap++) {
        int in = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
        if (in < 0)
            return cap > CAP_SYS_ADMIN; // past the last one
        if (in)
            return false;
    }
    return true;
}
