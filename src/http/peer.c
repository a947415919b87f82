// SPDX-License-Identifier: Apache-2.0
//
// peer: see peer.h.  Opened before the first fork; peer_uid() runs in the gate, once for each
// connection.
//
// SECURITY: the kernel's answer about a socket counts only in certain states.
//   1. The kernel shows a closed socket with uid 0, which would be root, and with inode 0.  A
//      client that sends a request and closes at once must not become root.
//   2. A socket that listens on the port of the peer, or only tries to connect from it, is another
//   one.
// So the socket must have an inode and be ESTABLISHED, or have closed its sending side only
// (FIN_WAIT1, FIN_WAIT2).

#include "http/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

struct ends {
    int family;         // AF_INET, also for IPv4 addresses in IPv6 form
    uint32_t theirs[4]; // network order
    uint32_t ours[4];   // the same
    uint16_t their_port, our_port;
};

static bool counts(unsigned state, uint64_t inode)
{
    return inode && (state == TCP_ESTABLISHED || state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2);
}

// ---- the addresses ------------------------------------------------------------------------------

static bool take_address(const struct sockaddr_storage *a, int *family, uint32_t words[4],
                         uint16_t *port)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
    memset(words, 0, 4 * sizeof words[0]);
    *family = a->ss_family;
    if (a->ss_family == AF_INET) {
        words[0] = v4->sin_addr.s_addr;
        *port = v4->sin_port;
        return true;
    }
    if (a->ss_family != AF_INET6)
        return false;
    *port = v6->sin6_port;
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        *family = AF_INET;
        memcpy(words, &v6->sin6_addr.s6_addr[12], 4);
    } else {
        memcpy(words, &v6->sin6_addr, 16);
    }
    return true;
}

static bool find_ends(int sock, struct ends *ret)
{
    struct sockaddr_storage ours = {0}, theirs = {0};
    socklen_t our_length = sizeof ours, their_length = sizeof theirs;
    int family;
    return getsockname(sock, (struct sockaddr *)&ours, &our_length) == 0 &&
           getpeername(sock, (struct sockaddr *)&theirs, &their_length) == 0 &&
           take_address(&ours, &family, ret->ours, &ret->our_port) &&
           take_address(&theirs, &ret->family, ret->theirs, &ret->their_port) &&
           family == ret->family;
}

// ---- NETLINK_SOCK_DIAG --------------------------------------------------------------------------

struct question {
    struct nlmsghdr h;
    struct inet_diag_req_v2 of;
};

static bool ask(int fd, const struct ends *ends, uint32_t number)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    struct question q = {
        .h = {.nlmsg_len = sizeof q,
              .nlmsg_type = SOCK_DIAG_BY_FAMILY,
              .nlmsg_flags = NLM_F_REQUEST,
              .nlmsg_seq = number},
        .of = {.sdiag_family = (uint8_t)ends->family,
               .sdiag_protocol = IPPROTO_TCP,
               .idiag_states = ~0U,
               .id = {.idiag_sport = ends->their_port,
                      .idiag_dport = ends->our_port,
                      .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
    };
    memcpy(q.of.id.idiag_src, ends->theirs, sizeof ends->theirs);
    memcpy(q.of.id.idiag_dst, ends->ours, sizeof ends->ours);
    return sendto(fd, &q, sizeof q, MSG_DONTWAIT, (struct sockaddr *)&kernel, sizeof kernel) ==
           (ssize_t)sizeof q;
}

// The answer to question `number`, which the kernel gave before ask() returned.  Older answers
// belong to a gate that crashed.  False: there is none, or it names no socket.
static bool hear(int fd, uint32_t number, struct inet_diag_msg *ret)
{
    union {
        struct nlmsghdr h;
        char bytes[4096];
    } buf;
    for (int i = 0; i < 64; i++) {
        struct sockaddr_nl from = {0};
        socklen_t length = sizeof from;
        ssize_t n = recvfrom(fd, &buf, sizeof buf, MSG_DONTWAIT, (struct sockaddr *)&from, &length);
        if (n < 0 && errno != EINTR)
            return false;
        if (n < (ssize_t)sizeof buf.h || from.nl_pid != 0 || buf.h.nlmsg_seq != number)
            continue;
        if (buf.h.nlmsg_type != SOCK_DIAG_BY_FAMILY || n < (ssize_t)NLMSG_LENGTH(sizeof *ret) ||
            buf.h.nlmsg_len < NLMSG_LENGTH(sizeof *ret))
            return false;
        memcpy(ret, NLMSG_DATA(&buf.h), sizeof *ret);
        return true;
    }
    return false;
}

static uid_t ask_kernel(int fd, const struct ends *ends)
{
    static uint32_t number;
    struct inet_diag_msg m;
    if (!ask(fd, ends, ++number) || !hear(fd, number, &m))
        return (uid_t)PEER_UNKNOWN;
    bool same = m.id.idiag_sport == ends->their_port && m.id.idiag_dport == ends->our_port;
    return same && counts(m.idiag_state, m.idiag_inode) ? m.idiag_uid : (uid_t)PEER_UNKNOWN;
}

// ---- /proc/net ----------------------------------------------------------------------------------

// "0100007F:1F90 0100007F:C350 ", as the tables have it; `wide`: with IPv6 addresses.
static void write_ends(const struct ends *ends, bool wide, char buf[96])
{
    char text[2][40];
    const uint32_t *const words[2] = {ends->theirs, ends->ours};
    for (int i = 0; i < 2; i++) {
        uint32_t mapped[4] = {0, 0, htonl(0xffff), words[i][0]};
        const uint32_t *w = wide && ends->family == AF_INET ? mapped : words[i];
        if (wide)
            snprintf(text[i], sizeof text[i], "%08X%08X%08X%08X", w[0], w[1], w[2], w[3]);
        else
            snprintf(text[i], sizeof text[i], "%08X", w[0]);
    }
    snprintf(buf, 96, " %s:%04X %s:%04X ", text[0], ntohs(ends->their_port), text[1],
             ntohs(ends->our_port));
}

static uid_t search_table(int fd, const char *wanted)
{
    uid_t found = (uid_t)PEER_UNKNOWN;
    int copy = lseek(fd, 0, SEEK_SET) < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *f = copy < 0 ? NULL : fdopen(copy, "r");
    char line[512];
    if (!f)
        fd_close(&copy);
    while (f && found == (uid_t)PEER_UNKNOWN && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, wanted);
        unsigned state, uid;
        uint64_t inode;
        if (at &&
            sscanf(at + strlen(wanted), "%x %*s %*s %*s %u %*s %" SCNu64, &state, &uid, &inode) ==
                3 &&
            counts(state, inode))
            found = uid;
    }
    if (f)
        (void)fclose(f);
    return found;
}

static uid_t search_tables(const int fds[PEER_FDS], const struct ends *ends)
{
    char wanted[96];
    uid_t found = (uid_t)PEER_UNKNOWN;
    for (int wide = ends->family == AF_INET6; wide < 2 && found == (uid_t)PEER_UNKNOWN; wide++) {
        write_ends(ends, wide, wanted);
        found = search_table(fds[wide], wanted);
    }
    return found;
}

// ---- both ---------------------------------------------------------------------------------------

// Does the kernel answer at all?  The first question also loads its module.
static bool answers(int fd)
{
    const struct ends unused = {.family = AF_INET, .their_port = htons(1), .our_port = htons(1)};
    struct inet_diag_msg m;
    if (fd < 0 || !ask(fd, &unused, UINT32_MAX))
        return false;
    errno = 0;
    (void)hear(fd, UINT32_MAX, &m); // an error of the kernel: there is no such socket
    return errno == 0;
}

int peer_open(int ret[PEER_FDS], struct err *e)
{
    ret[0] = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (answers(ret[0]))
        return 1;
    fd_close(&ret[0]);
    ret[0] = open("/proc/net/tcp", O_RDONLY | O_CLOEXEC);
    ret[1] = open("/proc/net/tcp6", O_RDONLY | O_CLOEXEC);
    if (ret[0] >= 0) {
        if (ret[1] < 0) // no IPv6 here
            ret[1] = fcntl(ret[0], F_DUPFD_CLOEXEC, 0);
        return PEER_FDS;
    }
    fd_close(&ret[1]);
    return err_set(e, ERR_SYSTEM, errno,
                   "set a key (CONSTRICTOR_API_KEY or --api-key-file), or open the server to every "
                   "user of this machine with --allow-local-users",
                   "this server has no key, and cannot find out which user connects");
}

uid_t peer_uid(const int *fds, unsigned count, int sock)
{
    struct ends ends;
    if (count == 0 || !find_ends(sock, &ends))
        return (uid_t)PEER_UNKNOWN;
    return count == 1 ? ask_kernel(fds[0], &ends) : search_tables(fds, &ends);
}
