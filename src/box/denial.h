// SPDX-License-Identifier: Apache-2.0
//
// denial: a system call that a box was denied, in two numbers and in words.  The keeper takes the
// numbers from the kernel (keeper/denied.c), the gate writes the words (run/denials.c).  Pure.

#ifndef CONSTRICTOR_BOX_DENIAL_H
#define CONSTRICTOR_BOX_DENIAL_H

#include <stddef.h>
#include <stdint.h>

enum { DENIAL_TEXT = 160 };

// Which of its kind: what its telling argument says (a family, an operation, flags of namespaces),
// cut down to what has a name where any number would do, so that code cannot make many kinds of
// one.
uint32_t denial_detail(int nr, const uint64_t args[6]);

// "socket AF_INET", "unshare CLONE_NEWUSER|CLONE_NEWNS", "mount".
void denial_text(int nr, uint32_t detail, char buf[DENIAL_TEXT]);

// What somebody can do about it; "" when there is nothing to say but that it is denied.
const char *denial_hint(int nr, uint32_t detail);

#endif
