// SPDX-License-Identifier: Apache-2.0
//
// net: see net.h.  Runs in the zygote, as root of its user namespace, which owns the new network
// namespace; the box itself has no capability in it.

#include "box/net.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"

enum {
    LOOPBACK = 1, // the number of lo, in every namespace
    UDP_FDS = 2,  // dns, ask; the rest is TCP
    ANSWER_MAX = 512,
};

static const struct {
    const char *layer, *text;
} steps[NET_STEP_MAX] = {
#define X(name, layer, what) [name] = {layer, what},
    NET_STEP_MAP(X)
#undef X
};

const char *net_step_layer(uint32_t step)
{
    return step < NET_STEP_MAX ? steps[step].layer : "unknown";
}

const char *net_step_text(uint32_t step)
{
    return step < NET_STEP_MAX ? steps[step].text : "an unknown step";
}

void net_close(int fds[WIRE_NET_FDS])
{
    for (int i = 0; i < WIRE_NET_FDS; i++)
        fd_close(&fds[i]);
}

// The namespace in which the zygote stays between boxes: any but that of a box with network.
static int own_ns = -1;

static int go(int proc_fd)
{
    if (own_ns < 0)
        own_ns = openat(proc_fd, "self/ns/net", O_RDONLY | O_CLOEXEC);
    return own_ns < 0 || unshare(CLONE_NEWNET) < 0 ? -errno : 0;
}

void net_leave(void)
{
    // If this failed, the zygote would leave the namespace with its next box.
    if (own_ns >= 0)
        (void)setns(own_ns, CLONE_NEWNET);
}

// Buffers of a megabyte and more are for links with a delay, and loopback has none.  A kernel that
// keeps these to the host has larger ones, and the limits of a box hold all the same.
static void shrink_buffers(int proc_fd)
{
    (void)file_write_at(proc_fd, "sys/net/ipv4/tcp_rmem", "4096 32768 65536");
    (void)file_write_at(proc_fd, "sys/net/ipv4/tcp_wmem", "4096 16384 32768");
}

// ---- routes -------------------------------------------------------------------------------------

// lo goes up, and then two routes: `local default dev lo`, for IPv4 and for IPv6.
struct request {
    struct {
        struct nlmsghdr h;
        struct ifinfomsg link;
    } up;
    struct {
        struct nlmsghdr h;
        struct rtmsg route;
        struct rtattr device;
        uint32_t index;
    } local[2];
};

enum { ANSWERS = 3 };

static void fill(struct request *r)
{
    static const uint8_t families[] = {AF_INET, AF_INET6};
    *r = (struct request){
        .up = {.h = {.nlmsg_len = sizeof r->up,
                     .nlmsg_type = RTM_NEWLINK,
                     .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
                     .nlmsg_seq = 0},
               .link = {.ifi_index = LOOPBACK, .ifi_flags = IFF_UP, .ifi_change = IFF_UP}}};
    for (unsigned i = 0; i < 2; i++) {
        r->local[i].h = (struct nlmsghdr){.nlmsg_len = sizeof r->local[i],
                                          .nlmsg_type = RTM_NEWROUTE,
                                          .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE,
                                          .nlmsg_seq = 1 + i};
        r->local[i].route = (struct rtmsg){.rtm_family = families[i],
                                           .rtm_table = RT_TABLE_LOCAL,
                                           .rtm_protocol = RTPROT_STATIC,
                                           .rtm_scope = RT_SCOPE_HOST,
                                           .rtm_type = RTN_LOCAL};
        r->local[i].device = (struct rtattr){RTA_LENGTH(sizeof(uint32_t)), RTA_OIF};
        r->local[i].index = LOOPBACK;
    }
}

// The kernel has worked before the send returns, so every answer is there: one for each message.
static int take_answers(int sock, int count, int ret_errnum[ANSWERS])
{
    union {
        struct {
            struct nlmsghdr h;
            struct nlmsgerr error;
        };
        char room[ANSWER_MAX]; // an error brings its question along
    } answer;
    for (int i = 0; i < count; i++) {
        ssize_t n = recv(sock, &answer, sizeof answer, MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0)
            return -errno;
        if ((size_t)n < sizeof answer.h + sizeof answer.error || (size_t)n > sizeof answer ||
            answer.h.nlmsg_type != NLMSG_ERROR || answer.h.nlmsg_seq >= ANSWERS)
            return -EPROTO;
        ret_errnum[answer.h.nlmsg_seq] = -answer.error.error;
    }
    return 0;
}

// Sends the first `size` bytes of the request, which are `count` messages.
static int send_request(const struct request *request, size_t size, int count,
                        int ret_errnum[ANSWERS])
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    _cleanup_close_ int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (sock < 0 || sendto(sock, request, size, 0, (struct sockaddr *)&kernel, sizeof kernel) < 0)
        return -errno;
    return take_answers(sock, count, ret_errnum);
}

// *ret_v6: this kernel has IPv6, and it is not switched off.
static int make_routes(bool *ret_v6)
{
    struct request request;
    int errnum[ANSWERS] = {EPROTO, EPROTO, EPROTO};
    fill(&request);
    int r = send_request(&request, sizeof request, ANSWERS, errnum);
    *ret_v6 = errnum[2] == 0;
    return r < 0 ? r : errnum[0] ? -errnum[0] : -errnum[1];
}

// ---- loopback -----------------------------------------------------------------------------------

static int bring_up(void)
{
    struct request request;
    int errnum[ANSWERS] = {EPROTO};
    fill(&request);
    int r = send_request(&request, sizeof request.up, 1, errnum);
    return r < 0 ? r : -errnum[0];
}

// SECURITY: the files of /proc/PID/net count what was ever done in the namespace, also without a
// packet (an address without a route, a datagram from a bad pointer).  The slot's next box could
// read there what this one did.  A box cannot change the modes back: it has no capability here, and
// its /proc is read-only.  The files below stay readable, because keeper/sockets.c and doctor need
// them: they show only the present, or packets, after which the stem ends the namespace (stem.c).
static bool may_show(const char *name)
{
    static const char *const shown[] = {".", "..", "dev", "sockstat", "sockstat6", "tcp", "tcp6"};
    for (size_t i = 0; i < ARRAY_LEN(shown); i++)
        if (strcmp(name, shown[i]) == 0)
            return true;
    return false;
}

static int hide_counters(int proc_fd)
{
    int fd = openat(proc_fd, "self/net", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    int r = folder ? 0 : -errno;
    if (!folder && fd >= 0)
        (void)close(fd);
    for (struct dirent *d; r == 0 && (d = readdir(folder));)
        if (!may_show(d->d_name) && fchmodat(fd, d->d_name, 0, 0) < 0)
            r = -errno;
    if (folder)
        (void)closedir(folder);
    return r;
}

int net_loopback(int proc_fd, bool shared, enum net_step *ret_step)
{
    *ret_step = NET_LO;
    int r = bring_up();
    if (r == 0) {
        // SECURITY: a connection that has ended is remembered for a minute, in memory that is not
        // charged to the box, for 10^5 connections and more.  On loopback no packet comes late, so
        // there is nothing to remember one for.
        *ret_step = NET_BOUND;
        r = file_write_at(proc_fd, "sys/net/ipv4/tcp_max_tw_buckets", "0");
    }
    if (r == 0 && shared) {
        *ret_step = NET_HIDE;
        r = hide_counters(proc_fd);
    }
    if (r == 0)
        shrink_buffers(proc_fd);
    return r;
}

// ---- sockets ------------------------------------------------------------------------------------

static int make_udp(uint16_t port)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) < 0)
        fd_close(&fd);
    return fd;
}

static int make_tcp(bool v6)
{
    int off = 0;
    int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && v6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) < 0)
        fd_close(&fd);
    return fd;
}

static int make_sockets(bool v6, int fds[WIRE_NET_FDS])
{
    for (int i = 0; i < WIRE_NET_FDS; i++) {
        fds[i] = i < UDP_FDS ? make_udp(i ? NET_ASK_PORT : NET_DNS_PORT) : make_tcp(v6);
        if (fds[i] < 0)
            return -errno;
    }
    return 0;
}

int net_enter(int proc_fd, int ret_fds[WIRE_NET_FDS], enum net_step *ret_step)
{
    bool v6 = false;
    for (int i = 0; i < WIRE_NET_FDS; i++)
        ret_fds[i] = -1;
    *ret_step = NET_NAMESPACE;
    int r = go(proc_fd);
    if (r == 0) {
        *ret_step = NET_ROUTES;
        r = make_routes(&v6);
    }
    if (r == 0) {
        // The broker has no capability here and is to listen on port 80.
        *ret_step = NET_PORTS;
        r = file_write_at(proc_fd, "sys/net/ipv4/ip_unprivileged_port_start", "0");
    }
    if (r == 0)
        shrink_buffers(proc_fd);
    if (r == 0) {
        *ret_step = NET_SOCKETS;
        r = make_sockets(v6, ret_fds);
    }
    if (r < 0)
        net_close(ret_fds);
    return r;
}
