// SPDX-License-Identifier: Apache-2.0
//
// denial: see denial.h.

#include "box/denial.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "box/filter.h"

enum {
    NAMESPACES = CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                 CLONE_NEWUTS | CLONE_NEWCGROUP,
    FAMILY_MAX = 63,
    NUMBER_MAX = 63, // operations above are one kind
    TYPE_SHIFT = 8,  // of a socket, above its family
    TYPE_MASK = 0xf,
};

struct word {
    uint32_t value;
    const char *text;
};

static const struct word families[] = {
    {AF_UNIX, "AF_UNIX"},
    {AF_INET, "AF_INET"},
    {AF_INET6, "AF_INET6"},
    {AF_KEY, "AF_KEY"},
    {AF_NETLINK, "AF_NETLINK"},
    {AF_PACKET, "AF_PACKET"},
    {33, "AF_RXRPC"},
    {38, "AF_ALG"},
    {40, "AF_VSOCK"},
    {44, "AF_XDP"},
    {45, "AF_MCTP"},
    {31, "AF_BLUETOOTH"},
    {29, "AF_CAN"},
    {30, "AF_TIPC"},
    {43, "AF_SMC"},
};

static const struct word types[] = {{SOCK_RAW, "SOCK_RAW"},
                                    {SOCK_RDM, "SOCK_RDM"},
                                    {SOCK_DCCP, "SOCK_DCCP"},
                                    {SOCK_PACKET, "SOCK_PACKET"}};

static const struct word namespaces[] = {
    {CLONE_NEWUSER, "CLONE_NEWUSER"},     {CLONE_NEWNS, "CLONE_NEWNS"},
    {CLONE_NEWPID, "CLONE_NEWPID"},       {CLONE_NEWNET, "CLONE_NEWNET"},
    {CLONE_NEWIPC, "CLONE_NEWIPC"},       {CLONE_NEWUTS, "CLONE_NEWUTS"},
    {CLONE_NEWCGROUP, "CLONE_NEWCGROUP"},
};

static const struct word requests[] = {{0, "PTRACE_TRACEME"},  {1, "PTRACE_PEEKTEXT"},
                                       {2, "PTRACE_PEEKDATA"}, {4, "PTRACE_POKETEXT"},
                                       {5, "PTRACE_POKEDATA"}, {16, "PTRACE_ATTACH"}};

// Which argument tells, and what it means.
enum telling { PLAIN, FAMILY, FLAGS, OPERATION };
static const struct kind {
    long nr;
    enum telling telling;
    unsigned argument;
    const struct word *words; // of an OPERATION; else its number is shown
    size_t count;
} kinds[] = {
    {SYS_socket, FAMILY, 0, NULL, 0},
    {SYS_unshare, FLAGS, 0, NULL, 0},
    {SYS_clone, FLAGS, 0, NULL, 0},
    {SYS_setns, FLAGS, 1, NULL, 0},
    {SYS_ptrace, OPERATION, 0, requests, ARRAY_LEN(requests)},
    {SYS_bpf, OPERATION, 0, NULL, 0},
    {SYS_keyctl, OPERATION, 0, NULL, 0},
};

static const struct kind *kind_of(int nr)
{
    static const struct kind plain = {-1, PLAIN, 0, NULL, 0};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (kinds[i].nr == nr)
            return &kinds[i];
    return &plain;
}

uint32_t denial_detail(int nr, const uint64_t args[6])
{
    const struct kind *k = kind_of(nr);
    uint32_t value = (uint32_t)args[k->argument];
    switch (k->telling) {
    case PLAIN: return 0;
    case FAMILY: // streams and datagrams are one kind
        if (((uint32_t)args[1] & TYPE_MASK) <= SOCK_DGRAM)
            return value < FAMILY_MAX ? value : FAMILY_MAX;
        return (value < FAMILY_MAX ? value : FAMILY_MAX) | ((uint32_t)args[1] & TYPE_MASK)
                                                               << TYPE_SHIFT;
    case FLAGS: return value & (uint32_t)NAMESPACES;
    case OPERATION: return value < NUMBER_MAX ? value : NUMBER_MAX;
    }
    return 0;
}

static const char *find(const struct word *words, size_t count, uint32_t value)
{
    for (size_t i = 0; i < count; i++)
        if (words[i].value == value)
            return words[i].text;
    return NULL;
}

static void add(char buf[DENIAL_TEXT], const char *before, const char *text)
{
    size_t length = strlen(buf);
    snprintf(buf + length, DENIAL_TEXT - length, "%s%s", before, text);
}

static void add_number(char buf[DENIAL_TEXT], const struct word *words, size_t count,
                       uint32_t value)
{
    char number[16];
    const char *text = find(words, count, value);
    snprintf(number, sizeof number, "%u", value);
    add(buf, " ", text ? text : number);
}

void denial_text(int nr, uint32_t detail, char buf[DENIAL_TEXT])
{
    const struct kind *k = kind_of(nr);
    const char *name = filter_name(nr), *type;
    if (name)
        snprintf(buf, DENIAL_TEXT, "%s", name);
    else
        snprintf(buf, DENIAL_TEXT, "system call %d", nr);
    switch (k->telling) {
    case PLAIN: return;
    case FAMILY:
        add_number(buf, families, ARRAY_LEN(families), detail & ((1U << TYPE_SHIFT) - 1));
        type = find(types, ARRAY_LEN(types), detail >> TYPE_SHIFT & TYPE_MASK);
        if (type)
            add(buf, " ", type);
        return;
    case FLAGS:
        for (size_t i = 0, n = 0; i < ARRAY_LEN(namespaces); i++)
            if (detail & namespaces[i].value)
                add(buf, n++ ? "|" : " ", namespaces[i].text);
        return;
    case OPERATION: add_number(buf, k->words, k->count, detail); return;
    }
}

const char *denial_hint(int nr, uint32_t detail)
{
    uint32_t family = detail & ((1U << TYPE_SHIFT) - 1);
    uint32_t type = detail >> TYPE_SHIFT & TYPE_MASK;
    if (nr != SYS_socket)
        return "code in a box has no right to this call";
    if ((family == AF_INET || family == AF_INET6) && type != SOCK_RAW)
        return "code has no network here; it needs hosts that are allowed (--allow-host) and, "
               "where tiers are set, the tier 'network'";
    return "boxes have AF_UNIX sockets and, with loopback or network, TCP and UDP; no others";
}
