// SPDX-License-Identifier: Apache-2.0
//
// broker: see broker.h.  The process: messages of the keeper, the loop, and the clock.

#include "broker/broker.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "box/seal.h"
#include "broker/conn.h"
#include "broker/gate_socket.h"
#include "broker/login.h"
#include "broker/netbox.h"
#include "broker/relay.h"

enum { MESSAGES = 256, TICK_MS = 1000, PAUSE_MS = 100 };

// ---- what the keeper says -----------------------------------------------------------------------

static void for_each_box(struct broker *b, void (*call)(struct netbox *x))
{
    for (size_t i = 0; i < NETBOX_TABLE; i++) {
        struct netbox *x, *next;
        for (x = LIST_FIRST(&b->boxes[i]); x; x = next) {
            next = LIST_NEXT(x, chain);
            call(x);
        }
    }
}

// A file that cannot be used changes nothing.
static void reload(struct broker *b, int file)
{
    struct err e;
    struct net_policy *policy = net_policy_load(b->config, file, &e), *old = b->policy;
    if (!policy || net_policy_learn_from(policy, old, &e) < 0) {
        net_policy_free(policy);
        err_wrap(&e, "the old rules stay in force");
        log_err(LOG_ERROR, &e);
        return;
    }
    b->policy = policy;
    for_each_box(b, netbox_rules_changed);
    net_policy_free(old);
    log_line(LOG_INFO, "the rules were read again");
}

static void on_files(struct broker *b, uint32_t present, const int *fds, size_t count)
{
    size_t n = 0;
    for (unsigned i = 0; i < WIRE_FILES_MAX; i++) {
        int fd = present & 1U << i && n < count ? fds[n++] : -1;
        if (fd >= 0 && i == WIRE_FILES_MAX - 1) {
            fd_close(&b->network_file);
            b->network_file = fd;
            reload(b, fd);
        } else if (fd >= 0) {
            (void)close(fd);
        }
    }
    while (n < count)
        (void)close(fds[n++]);
}

static void close_leaving(struct broker *b)
{
    while (b->leaving_count) {
        struct netbox *x = netbox_find(b, b->leaving[--b->leaving_count]);
        if (x)
            netbox_close(x);
    }
}

static void on_message(struct broker *b, const union wire_message *m, int *fds, size_t count)
{
    switch (m->h.type) {
    case WIRE_NET_BOX:
        if (count == WIRE_NET_FDS) {
            netbox_open(b, m->net_box.box, fds);
            return;
        }
        log_line(LOG_ERROR, "box %llu came with %zu sockets", (unsigned long long)m->net_box.box,
                 count);
        break;
    case WIRE_NET_GONE: // closed after the gate's messages: one may ask what the box did
        if (b->leaving_count == BROKER_LEAVING_MAX)
            close_leaving(b);
        b->leaving[b->leaving_count++] = m->net_box.box;
        break;
    case WIRE_NET_LINK: gate_socket_link(b, count == 1 ? TAKE_FD(fds[0]) : -1); break;
    case WIRE_FILES: on_files(b, m->files.present, fds, count); return;
    default: log_line(LOG_ERROR, "the keeper sent a message of type %u", m->h.type); break;
    }
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
}

void broker_hear_keeper(struct broker *b)
{
    static union wire_message m; // large
    for (int i = 0; i < MESSAGES && !b->stop; i++) {
        int fds[FD_PASS_MAX];
        size_t count = 0;
        int r = wire_recv(b->keeper, &m, fds, FD_PASS_MAX, &count);
        if (r == -EAGAIN || r == -EINTR)
            return;
        if (r == -EMSGSIZE || r == -EBADMSG) {
            log_line(LOG_ERROR, "malformed message from the keeper: %s", strerror(-r));
            continue;
        }
        if (r <= 0) {
            b->stop = true; // the keeper is gone, and with it every box
            return;
        }
        on_message(b, &m, fds, count);
    }
}

void broker_drain(struct broker *b)
{
    broker_hear_keeper(b);
    gate_socket_read(b);
    close_leaving(b);
}

static void on_keeper(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    broker_drain(argument);
}

// ---- the clock ----------------------------------------------------------------------------------

static void tick_box(struct netbox *x)
{
    int64_t now_ms = clock_ms();
    struct conn *c, *next;
    netbox_tick(x, now_ms);
    for (c = TAILQ_FIRST(&x->conns); c; c = next) {
        next = TAILQ_NEXT(c, link);
        conn_tick(c, now_ms);
    }
}

static void on_tick(void *argument)
{
    struct broker *b = argument;
    if (b->is_paused)
        for_each_box(b, netbox_resume);
    b->is_paused = false;
    for_each_box(b, tick_box);
    (void)timer_set(&b->tick, b->base, TICK_MS, on_tick, b);
}

void broker_pause(struct broker *b)
{
    if (b->is_paused)
        return;
    b->is_paused = true;
    for_each_box(b, netbox_pause);
    (void)timer_set(&b->tick, b->base, PAUSE_MS, on_tick, b);
    log_line(LOG_WARN, "out of descriptors: no connection is accepted for %d ms", PAUSE_MS);
}

// ---- life ---------------------------------------------------------------------------------------

// Between two turns of the loop no pointer to them is left.
static void bury(struct broker *b)
{
    struct conn *c;
    struct netbox *x;
    while ((c = TAILQ_FIRST(&b->dead_conns))) {
        TAILQ_REMOVE(&b->dead_conns, c, ready);
        conn_free(c);
    }
    while ((x = TAILQ_FIRST(&b->dead_boxes))) {
        TAILQ_REMOVE(&b->dead_boxes, x, ready);
        netbox_free(x);
    }
}

static void loop(struct broker *b)
{
    bool more = false;
    while (!b->stop) {
        if (event_base_loop(b->base, EVLOOP_ONCE | (more ? EVLOOP_NONBLOCK : 0)) < 0)
            return;
        more = relay_turn(b);
        bury(b);
    }
}

static int open_all(struct broker *b, bool shares_uid, struct err *e)
{
    struct rlimit files;
    b->fds_max = getrlimit(RLIMIT_NOFILE, &files) == 0 ? (size_t)files.rlim_cur : 1024;
    b->base = loop_new(shares_uid);
    b->buffer = malloc(RELAY_BUFFER);
    if (!b->base || !b->buffer)
        return err_set(e, ERR_SYSTEM, 0, NULL, "out of memory");
    b->keeper_event = event_new(b->base, b->keeper, EV_READ | EV_PERSIST, on_keeper, b);
    if (!b->keeper_event || event_add(b->keeper_event, NULL) < 0 ||
        !timer_set(&b->tick, b->base, TICK_MS, on_tick, b))
        return err_set(e, ERR_SYSTEM, 0, NULL, "out of memory");
    b->resolver = resolver_new(b->base, &b->config->dns_servers, e);
    if (!b->resolver)
        return -1;
    b->policy = net_policy_load(b->config, b->network_file, e);
    if (!b->policy)
        return -1;
    if (b->config->index_proxy[0] && net_proxy_parse(b->config->index_proxy, &b->proxy, e) < 0)
        return -1;
    if (b->logins.count && !(b->tls = login_open(e)))
        return -1;
    return gate_socket_open(b, e);
}

static void close_all(struct broker *b)
{
    for_each_box(b, netbox_close);
    gate_socket_close(b);
    resolver_free(b->resolver);
    bury(b);
    quota_keys_free(&b->keys);
    net_policy_free(b->policy);
    SSL_CTX_free(b->tls);
    explicit_bzero(&b->logins, sizeof b->logins);
    while (b->pool_count)
        free(b->pool[--b->pool_count]);
    free(b->buffer);
    if (b->keeper_event)
        event_free(b->keeper_event);
    timer_stop(&b->tick);
    if (b->base)
        event_base_free(b->base);
    fd_close(&b->keeper);
    fd_close(&b->network_file);
    fd_close(&b->audit_file);
}

// c-ares reads these again later; Landlock follows a link to its file.
static const char *const resolver_files[] = {"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf",
                                             NULL};

static struct seal_plan make_seal_plan(struct broker *b, const struct keeper_facts *facts)
{
    struct seal_plan p = facts_seal_plan(facts, "broker", SLOT_BROKER);
    p.keep[p.keep_count++] = &b->keeper;
    if (b->network_file >= 0)
        p.keep[p.keep_count++] = &b->network_file;
    if (b->audit_file >= 0)
        p.keep[p.keep_count++] = &b->audit_file;
    p.ignored_signals[0] = SIGPIPE; // c-ares writes without MSG_NOSIGNAL
    p.raises_files = true;
    p.files = SEAL_FILES_TO_READ;
    p.read_files = resolver_files;
    p.filter = FILTER_BROKER;
    return p;
}

int broker_main(int sock, const struct keeper_facts *facts)
{
    static struct broker broker; // large
    struct broker *b = &broker;
    struct err e;
    *b = (struct broker){.config = facts->config,
                         .keeper = sock,
                         .network_file = facts->network_file,
                         .audit_file = facts->audit_file};
    TAILQ_INIT(&b->ready);
    TAILQ_INIT(&b->dead_boxes);
    TAILQ_INIT(&b->dead_conns);
    TAILQ_INIT(&b->keys);
    log_init((enum log_level)facts->config->log_level, "constrictor broker");
    struct seal_plan plan = make_seal_plan(b, facts);
    int r = net_logins_read(&b->logins);
    if (r < 0)
        (void)err_set(&e, ERR_SYSTEM, -r, NULL, "read the logins of indexes");
    else
        r = seal_identity(&plan, &e);
    if (r >= 0)
        r = fd_set_nonblock(b->keeper, true);
    if (r >= 0)
        r = open_all(b, !slots_have_uids(&facts->caps->slots), &e);
    if (r >= 0)
        r = seal_reach(&plan, &e);
    if (r < 0)
        log_err(LOG_ERROR, &e);
    else
        loop(b);
    close_all(b);
    return r < 0 ? err_exit_status(e.code) : 0;
}
