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
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum { FILTER_MAX = 2048 }; // instructions; the kernel's own bound is 4096

struct filter {
    size_t count;
    struct sock_filter code[FILTER_MAX];
};

enum filter_kind {
    FILTER_BOX,
    FILTER_BOX_WATCHED, // without cgroups: less memfd_create, whose memory nobody would count
    FILTER_BOX_NETWORK, // with sockets for TCP and UDP
    FILTER_GATE,        // the box's, less what starts programs or reaches out
    FILTER_BROKER,      // the box's, less what starts programs, with sockets for TCP and UDP only
    FILTER_PORTER,      // the gate's, less what accepts and makes links, with syncfs
    // The box's in two halves, which together are the box's.  The kernel translates a filter anew for
    // each process that loads it, 0.1 ms; so the zygote loads the long half once, boxes inherit it, and
    // each of them loads only the short one, which takes away what making a box needed.
    FILTER_ZYGOTE,
    FILTER_ZYGOTE_WATCHED,
    FILTER_LAST,
    FILTER_LAST_NETWORK,
    FILTER_LAST_NETWORK4, // where the kernel has no IPv6
};

// What the keeper gives to the zygote: this, the instructions of the first half, those of the last, and
// those of the last of a box with network.
struct filter_head {
    uint32_t first, last, last_network;
};

int filter_build(enum filter_kind kind, struct filter *ret, struct err *e);

// The policy of a whole kind as JSON lines: {"nr": 0, "name": "read", "action": "allow"}; with the action
// "args" there is also "checks", a list of texts, all of which must hold.
void filter_dump(FILE *out, enum filter_kind kind);

#endif
