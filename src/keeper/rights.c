// SPDX-License-Identifier: Apache-2.0
//
// rights: see rights.h.

#include "keeper/rights.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/capability.h>

#include "base/cleanup.h"

// The capabilities that the keeper still needs, and for what.
int rights_drop(struct err *e)
{
    static const cap_value_t keep[] = {
        CAP_SETUID,       CAP_SETGID, // id maps of a new zygote
        CAP_KILL,                     // ending boxes, which have other uids
        CAP_CHOWN,                    // cgroup v2: handing a box's group to the zygote
        CAP_DAC_OVERRIDE,             // cgroup files in a container whose root is not their owner
        CAP_SYS_ADMIN,                // user namespaces where ordinary users may not make them
        CAP_SETPCAP,                  // a new gate empties its bounding set
    };
    // An interpreter that is asked again runs as root, and gets what the bounding set has.
    for (int cap = 0; cap <= cap_max_bits(); cap++) {
        bool kept = false;
        for (size_t i = 0; i < ARRAY_LEN(keep); i++)
            kept |= keep[i] == cap;
        if (!kept)
            (void)cap_drop_bound(cap); // fails without CAP_SETPCAP; the permitted set still goes
    }
    cap_t had = cap_get_proc(), want = cap_init();
    int r = had && want ? 0 : -1;
    for (size_t i = 0; i < ARRAY_LEN(keep) && r == 0; i++) {
        cap_flag_value_t has = CAP_CLEAR;
        (void)cap_get_flag(had, keep[i], CAP_PERMITTED, &has);
        if (has == CAP_SET && (cap_set_flag(want, CAP_PERMITTED, 1, &keep[i], CAP_SET) < 0 ||
                               cap_set_flag(want, CAP_EFFECTIVE, 1, &keep[i], CAP_SET) < 0))
            r = -1;
    }
    if (r == 0)
        r = cap_set_proc(want);
    int errnum = errno;
    (void)cap_free(had);
    (void)cap_free(want);
    return r < 0 ? err_set(e, ERR_SYSTEM, errnum, NULL, "drop capabilities") : 0;
}
