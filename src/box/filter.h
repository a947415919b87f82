// SPDX-License-Identifier: Apache-2.0
//
// filter: the system call policy of policy.def as a BPF program.
//
// Built once by the keeper and given to the zygote as bytes, so that neither the zygote nor a box
// needs libseccomp.  libseccomp resolves names per architecture here; the program itself is emitted
// by filter.c because the library cannot say "every other value of this argument" and compares 64
// bits where the kernel reads 32 (CVE-2019-10063).

#ifndef CONSTRICTOR_BOX_FILTER_H
#define CONSTRICTOR_BOX_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum { FILTER_MAX = 2048 }; // instructions; the kernel's own bound is 4096

// Stand for the two halves of a box's memory limit in the last halves, until the limit is known.
enum { FILTER_LIMIT_HIGH = 0x6c696d31, FILTER_LIMIT_LOW = 0x6c696d32 };

struct filter {
    size_t count;
    bool tells;
    bool ignores; // what policy.def has ignored; else these calls are made
    struct sock_filter code[FILTER_MAX];
};

enum filter_kind {
    FILTER_BOX,
    FILTER_BOX_WATCHED, // without cgroups: no memfd_create, whose memory would not be counted
    FILTER_BOX_NETWORK, // with sockets for TCP and UDP
    FILTER_GATE,        // the box's, without what starts programs or connects
    FILTER_BROKER, // the box's, without what starts programs, with sockets for TCP and UDP only
    FILTER_PORTER, // the gate's, without accept and links, with syncfs
    // The box's in two halves, which together are the box's.  The kernel translates a filter anew
    // for each process that loads it, 0.1 ms; so the zygote loads the long half once, boxes inherit
    // it, and each of them loads only the short one, which takes away what making a box needed.
    FILTER_ZYGOTE,
    FILTER_ZYGOTE_WATCHED,
    FILTER_LAST,
    FILTER_LAST_NETWORK,
    FILTER_LAST_NETWORK4, // where the kernel has no IPv6
    // The last half again, but calls marked with TELL in policy.def give a notification in place of
    // an errno.  Where the kernel has no listener, a box loads the ones above: as safe, without
    // reports.
    FILTER_TELL,
    FILTER_TELL_NETWORK,
    FILTER_TELL_NETWORK4,
    FILTER_KIND_MAX
};

// What the keeper gives to the zygote: this, and the instructions of each part, in this order.
enum filter_part {
    FILTER_PART_FIRST,
    FILTER_PART_LAST,
    FILTER_PART_LAST_NETWORK,
    FILTER_PART_TELL,
    FILTER_PART_TELL_NETWORK,
    FILTER_PARTS
};
struct filter_head {
    uint32_t counts[FILTER_PARTS];
};

int filter_build(enum filter_kind kind, struct filter *ret, struct err *e);
void filter_shorten(struct filter *f); // the last step of filter_build(), in filter_shorten.c

// The policy of a box as JSON lines: {"nr": 0, "name": "read", "action": "allow"}; with the action
// "args" there is also "checks", a list of texts, all of which must hold; "told": true where it is
// so.
void filter_dump(FILE *out, enum filter_kind kind);

// The errno for a call that the kernel notified of, by the table of this kind (one of
// FILTER_LAST...): never 0.
int filter_errno(enum filter_kind kind, int nr, const uint64_t args[6]);
// NULL: it is not in the policy.
const char *filter_name(int nr);

#endif
