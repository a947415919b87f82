// SPDX-License-Identifier: Apache-2.0
//
// filter_shorten: see filter.h.  Runs in the keeper, on a program that filter.c has emitted.
//
// The kernel translates the last half anew for every box, so fewer instructions save time. filter.c
// emits a return for every leaf and an unconditional jump for every branch.  Here jumps go straight
// to their final target, equal returns become one, and unreachable code is left out.
// No test of a value is added, dropped or moved.

#include "box/filter.h"

enum { REACH = UINT8_MAX }; // of a conditional jump, past the next instruction

static bool is_jump(const struct sock_filter *c)
{
    return BPF_CLASS(c->code) == BPF_JMP;
}

static bool is_always(const struct sock_filter *c)
{
    return c->code == (BPF_JMP | BPF_JA);
}

static bool is_return(const struct sock_filter *c)
{
    return c->code == (BPF_RET | BPF_K);
}

// A target for the conditional jump at `at` with the same effect as `to`: unconditional jumps are
// followed, and a return becomes the last equal one in reach, so that more jumps share it.
static size_t same_end(const struct filter *f, size_t at, size_t to)
{
    const size_t last = at + 1 + REACH < f->count ? at + 1 + REACH : f->count - 1;
    while (is_always(&f->code[to]) && to + 1 + f->code[to].k <= last)
        to += 1 + f->code[to].k;
    for (size_t i = last; i > to && is_return(&f->code[to]); i--)
        if (is_return(&f->code[i]) && f->code[i].k == f->code[to].k)
            return i;
    return to;
}

static void straighten(struct filter *f)
{
    for (size_t i = 0; i < f->count; i++) {
        struct sock_filter *c = &f->code[i];
        if (!is_jump(c) || is_always(c))
            continue;
        c->jt = (uint8_t)(same_end(f, i, i + 1 + c->jt) - i - 1);
        c->jf = (uint8_t)(same_end(f, i, i + 1 + c->jf) - i - 1);
    }
}

// All jumps are forward, so one pass finds what is reached, and no jump grows longer.
static void leave_out_unreached(struct filter *f)
{
    bool reached[FILTER_MAX] = {true};
    uint16_t position[FILTER_MAX]; // its new one
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++) {
        const struct sock_filter *c = &f->code[i];
        position[i] = (uint16_t)n;
        if (!reached[i])
            continue;
        n++;
        if (is_always(c))
            reached[i + 1 + c->k] = true;
        else if (is_jump(c))
            reached[i + 1 + c->jt] = reached[i + 1 + c->jf] = true;
        else if (!is_return(c))
            reached[i + 1] = true;
    }
    for (size_t i = 0; i < f->count; i++) {
        struct sock_filter c = f->code[i];
        if (!reached[i])
            continue;
        if (is_always(&c)) {
            c.k = (uint32_t)(position[i + 1 + c.k] - position[i] - 1);
        } else if (is_jump(&c)) {
            c.jt = (uint8_t)(position[i + 1 + c.jt] - position[i] - 1);
            c.jf = (uint8_t)(position[i + 1 + c.jf] - position[i] - 1);
        }
        f->code[position[i]] = c;
    }
    f->count = n;
}

void filter_shorten(struct filter *f)
{
    size_t before;
    do { // what was too far away may be within reach now
        before = f->count;
        straighten(f);
        leave_out_unreached(f);
    } while (f->count < before);
}
