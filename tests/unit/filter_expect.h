// SPDX-License-Identifier: Apache-2.0
//
// The argument rules of box/filter, written down a second time: what a call gets that is decided by
// its arguments. A part of test_filter.c, which alone includes it.

#ifndef CONSTRICTOR_TESTS_FILTER_EXPECT_H
#define CONSTRICTOR_TESTS_FILTER_EXPECT_H

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <termios.h>

#include "box/filter.h"

enum { IGNORED = SECCOMP_RET_ERRNO | 0 }; // returns 0 and nothing is done

static bool one_of(uint64_t value, const uint32_t *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((uint32_t)value == list[i])
            return true;
    return false;
}

#define ONE_OF(value, ...)                                                                         \
    one_of(value, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

static bool one_of_names(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

#define ONE_OF_NAMES(name, ...)                                                                    \
    one_of_names(name, (const char *const[]){__VA_ARGS__},                                         \
                 sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

// 0, or the errno.  The order of the checks decides which: family, type, protocol.
static int expect_socket(enum filter_kind kind, bool v6, const __u64 *a)
{
    uint32_t family = (uint32_t)a[0], type = (uint32_t)a[1] & 0xf, protocol = (uint32_t)a[2];
    bool unix_too = kind != FILTER_BROKER;
    bool inet_too = kind == FILTER_BOX_NETWORK || kind == FILTER_BROKER;
    bool is_unix = unix_too && family == AF_UNIX;
    bool is_inet = inet_too && (family == AF_INET || (v6 && family == AF_INET6));
    if (!is_unix && !is_inet)
        return EAFNOSUPPORT;
    if (type == SOCK_SEQPACKET && is_unix)
        return 0;
    if (type != SOCK_STREAM && type != SOCK_DGRAM)
        return ESOCKTNOSUPPORT;
    if (!inet_too)
        return 0;
    return protocol == 0 || protocol == (type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP)
               ? 0
               : EPROTONOSUPPORT;
}

static int expect_setsockopt(const __u64 *a)
{
    switch ((uint32_t)a[1]) {
    case SOL_SOCKET:
        return ONE_OF(a[2], 2, 5, 6, 7, 8, 9, 10, 12, 13, 15, 16, 18, 20, 21, 29, 35, 66, 67)
                   ? 0
                   : EPERM;
    case IPPROTO_TCP:
        return ONE_OF(a[2], TCP_NODELAY, TCP_MAXSEG, TCP_CORK, TCP_KEEPIDLE, TCP_KEEPINTVL,
                      TCP_KEEPCNT, TCP_SYNCNT, TCP_LINGER2, TCP_WINDOW_CLAMP, TCP_QUICKACK,
                      TCP_USER_TIMEOUT, TCP_NOTSENT_LOWAT)
                   ? 0
                   : ENOPROTOOPT;
    case IPPROTO_IP:
        return ONE_OF(a[2], IP_TOS, IP_TTL, IP_PKTINFO, IP_MTU_DISCOVER, IP_RECVERR, IP_RECVTTL,
                      IP_RECVTOS, IP_BIND_ADDRESS_NO_PORT, IP_MULTICAST_TTL, IP_MULTICAST_LOOP)
                   ? 0
                   : ENOPROTOOPT;
    case IPPROTO_IPV6:
        return ONE_OF(a[2], IPV6_UNICAST_HOPS, IPV6_MULTICAST_HOPS, IPV6_MULTICAST_LOOP,
                      IPV6_MTU_DISCOVER, IPV6_RECVERR, IPV6_V6ONLY, IPV6_RECVPKTINFO,
                      IPV6_RECVTCLASS, IPV6_TCLASS)
                   ? 0
                   : ENOPROTOOPT;
    default: return ENOPROTOOPT;
    }
}

static int expect_getsockopt(const __u64 *a)
{
    bool ok = false;
    switch ((uint32_t)a[1]) {
    case SOL_SOCKET:
        ok = ONE_OF(a[2], 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 15, 16, 17, 18, 19, 20, 21, 29, 30,
                    38, 39, 66, 67);
        break;
    case IPPROTO_TCP: ok = ONE_OF(a[2], 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 18, 25); break;
    case IPPROTO_IP:
    case IPPROTO_IPV6: ok = (uint32_t)a[2] < 64; break;
    default: break;
    }
    return ok ? 0 : ENOPROTOOPT;
}

// Calls that are ignored for some arguments; where they are not, expect_args() decides.
static bool expect_ignored(const char *name, const __u64 *a)
{
    return (strcmp(name, "setpriority") == 0 && (int32_t)a[2] >= 0) ||
           (strcmp(name, "setsockopt") == 0 && (uint32_t)a[1] == SOL_SOCKET &&
            ONE_OF(a[2], SO_SNDBUF, SO_RCVBUF)) ||
           (strcmp(name, "fadvise64") == 0 && (uint32_t)a[3] == POSIX_FADV_DONTNEED) ||
           (strcmp(name, "msync") == 0 && ((uint32_t)a[2] & MS_SYNC));
}

// The calls that are decided by their arguments.  Only the low half of an argument counts.
static uint32_t expect_args(enum filter_kind kind, const char *name, const __u64 *a)
{
    const uint32_t namespaces =
        0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000;
    bool ok = false;
    int errnum = EPERM;
    if (strcmp(name, "clone") == 0) {
        bool lends = ((uint32_t)a[0] & (CLONE_FILES | CLONE_THREAD)) == CLONE_FILES;
        ok = ((uint32_t)a[0] & namespaces) == 0 && !lends;
        errnum = (uint32_t)a[0] & namespaces ? EPERM : EINVAL;
    } else if (strcmp(name, "execveat") == 0) {
        ok = ((uint32_t)a[4] & AT_EMPTY_PATH) == 0;
    } else if (strcmp(name, "prctl") == 0) {
        ok = ONE_OF(a[0], PR_SET_NAME, PR_GET_NAME, PR_SET_PDEATHSIG, PR_GET_PDEATHSIG,
                    PR_GET_DUMPABLE, PR_CAPBSET_READ, PR_GET_SECCOMP, PR_GET_NO_NEW_PRIVS,
                    PR_SET_THP_DISABLE, PR_SET_NO_NEW_PRIVS);
    } else if (strcmp(name, "personality") == 0) {
        ok = ONE_OF(a[0], 0, 0xffffffff);
    } else if (strcmp(name, "fcntl") == 0) {
        ok = ONE_OF(a[1], F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW,
                    F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS);
        errnum = EINVAL;
    } else if (strcmp(name, "mmap") == 0) {
        uint32_t never = MAP_GROWSDOWN | MAP_LOCKED | MAP_HUGETLB | MAP_SYNC | 0x4 | 0x80 | 0x200 |
                         0x400 | 0x200000 | 0x400000 | 0x800000 | 0xff000000;
#ifndef MAP_32BIT // x86 only
        never |= 0x40;
#endif
        ok = ((uint32_t)a[3] & never) == 0;
        errnum = EINVAL;
    } else if (strcmp(name, "madvise") == 0) {
        ok = ONE_OF(a[2], 0, 1, 2, 3, 4, 8, 10, 11, 14, 15, 16, 17, 18, 19, 22, 23, 102, 103);
        errnum = EINVAL;
    } else if (strcmp(name, "memfd_create") == 0) {
        ok = ONE_OF((uint32_t)a[1] & ~3U, 0, 8, 0x10, 0x18); // cloexec, sealing, noexec, exec
        errnum = EINVAL;
    } else if (strcmp(name, "fadvise64") == 0) {
        ok = (uint32_t)a[3] <= POSIX_FADV_NOREUSE;
        errnum = EINVAL;
    } else if (strcmp(name, "fallocate") == 0) {
        ok = (uint32_t)a[1] <= 1; // 0 and FALLOC_FL_KEEP_SIZE
        errnum = EOPNOTSUPP;
    } else if (strcmp(name, "msync") == 0) {
        ok = true;
    } else if (strcmp(name, "ioctl") == 0) {
        ok = ONE_OF(a[1], TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX);
        errnum = ENOTTY;
    } else if (strcmp(name, "socket") == 0) {
        errnum = expect_socket(kind, true, a);
        ok = errnum == 0;
    } else if (strcmp(name, "socketpair") == 0) {
        ok = (uint32_t)a[0] == AF_UNIX;
        errnum = EAFNOSUPPORT;
    } else if (strcmp(name, "setpriority") == 0) {
        ok = (int32_t)a[2] >= 0;
    } else if (strcmp(name, "setsockopt") == 0) {
        errnum = expect_setsockopt(a);
        ok = errnum == 0;
    } else if (strcmp(name, "getsockopt") == 0) {
        errnum = expect_getsockopt(a);
        ok = errnum == 0;
    } else if (ONE_OF_NAMES(name, "sendmsg", "recvmsg")) {
        ok = ((uint32_t)a[2] & (MSG_OOB | 0x20000000)) == 0;
        errnum = EOPNOTSUPP;
    } else if (ONE_OF_NAMES(name, "sendto", "recvfrom", "sendmmsg", "recvmmsg")) {
        ok = ((uint32_t)a[3] & (MSG_OOB | 0x20000000)) == 0;
        errnum = EOPNOTSUPP;
    } else {
        fail_msg("'%s' is decided by its arguments, and this test does not know how", name);
    }
    return ok ? (uint32_t)SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | (uint32_t)errnum;
}

#endif
