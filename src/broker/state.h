// SPDX-License-Identifier: Apache-2.0
//
// state: what the files of the broker share: the process, its boxes, their connections.
//
// Invariants:
//  1. Nothing is freed while the loop is in a callback: what ends is closed and unlinked at once,
//  and freed
//     between two turns (broker_bury).  So a callback may go on with what it has, if it looks at
//     `is_closed` or `is_gone` after anything that may end things.
//  2. A connection dials only an address that net_judge allowed, in this process, for this
//  connection.
//  3. Bytes of a box go on only below flow.cleared, which inspect.c moves.
//  4. Every connection that is counted in fds_used and in quotas is given back once, in conn_close.

#ifndef CONSTRICTOR_BROKER_STATE_H
#define CONSTRICTOR_BROKER_STATE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/timer.h"
#include "broker/broker.h"
#include "broker/quota.h"
#include "broker/report.h"
#include "broker/request.h"
#include "broker/resolve.h"
#include "net/login.h"
#include "net/policy.h"
#include "net/proxy.h"
#include "net/rules.h"

struct dial;
struct login;
struct tunnel;
struct netbox;
struct gate_socket;

// ---- a connection -------------------------------------------------------------------------------

enum side { SIDE_BOX, SIDE_FAR, SIDES };
enum way { WAY_UP, WAY_DOWN, WAYS }; // from side w to the other one

struct end {
    int fd;
    struct event *event;
    bool readable, writable; // as far as is known: edge-triggered
    short armed;             // without edges: what is waited for
};

// One direction: bytes [start, cleared) may be written, [cleared, end) are not judged yet.
struct flow {
    uint8_t *buffer; // RELAY_BUFFER bytes of the pool; NULL: nothing is buffered
    size_t start, cleared, end;
    bool ended; // no more will be read
    bool shut;  // and the other side knows
};

enum inspect_state {
    INSPECT_FIRST,   // nothing is known yet
    INSPECT_LINE,    // no request by its beginning; the end of the first line tells
    INSPECT_HELLO,   // TLS, until its ClientHello is there
    INSPECT_HTTP,    // requests, one after the other
    INSPECT_UPGRADE, // a request to change the protocol went up: the answer says whether it is
    INSPECT_PASS,    // bytes
};

enum { INSPECT_STATUS = 12 }; // "HTTP/1.1 101"

struct inspect {
    enum inspect_state state;
    bool bounded; // rules bound methods or paths
    struct request request;
    uint64_t requests;
    struct request_line line;
    char status[INSPECT_STATUS];
    size_t status_length;
    bool again;         // judge the buffered bytes again
    int64_t waiting_ms; // since when bytes wait for the rest of something; 0: none do
};

enum conn_state { CONN_RESOLVING, CONN_DIALLING, CONN_DIALLED, CONN_OPEN };

struct conn {
    TAILQ_ENTRY(conn) link;  // of the box
    TAILQ_ENTRY(conn) ready; // of the box, or of the dead
    bool is_ready, is_closed, is_counted;
    bool is_announced; // the box asked for it and has not connected yet
    struct netbox *box;
    enum conn_state state;
    struct net_address wanted; // as the code sees it
    uint16_t port;
    const char *host;           // a name of the box; NULL: the code connects to an address
    struct net_address address; // that was dialled
    struct resolve_wait *lookup;
    struct dial *dial;
    struct tunnel *tunnel; // the CONNECT to a proxy
    struct login *login;   // makes TLS of it, and adds the index's login
    bool is_proxied;       // `address` is that of the proxy, which looks the name up itself
    struct end ends[SIDES];
    struct flow flows[WAYS];
    struct inspect inspect;
    bool has_asker; // the box waits for the answer of 'connect ... wait'
    struct sockaddr_storage asker;
    socklen_t asker_length;
    int64_t began_ms, active_ms;
    uint64_t bytes[WAYS], reported[WAYS];
    char rule[NET_RULE_TEXT];
};

TAILQ_HEAD(conn_list, conn);

// ---- a box --------------------------------------------------------------------------------------

enum {
    NETBOX_NAMES_MAX = 4096,
    NETBOX_RUN_TEXT = 64,
    NETBOX_KEPT_MAX = 8, // connections that the box asked for and has not made yet
    NETBOX_LOOKUPS_MAX = 64,
    NETBOX_LOOKUPS_FAIR = 4, // while others need the resolver
    NETBOX_TABLE = 1024,
    NETBOX_ENDED_MAX = 4, // refused open connections that the box may ask about
    NETBOX_ENDED_TEXT = 1000,
};

struct netbox_ended {
    uint16_t port; // of the box's side; 0: none
    char text[NETBOX_ENDED_TEXT];
};

struct netbox_name {
    uint32_t hash;
    unsigned epoch; // of the rules that its ports were opened for
    char *text;
};

struct netbox_port {
    struct netbox *box;
    int fd;
    uint16_t port; // 0: free
    struct event *event;
};

struct netbox {
    LIST_ENTRY(netbox) chain;
    TAILQ_ENTRY(netbox) ready; // or of the dead
    bool is_ready, is_gone;
    bool is_heard; // its sockets are watched
    int64_t opened_ms;
    struct broker *broker;
    uint64_t id;
    char key[QUOTA_KEY_TEXT], run[NETBOX_RUN_TEXT];
    bool is_granted;
    unsigned epoch; // changes with the rules
    size_t set_count;
    struct net_rules sets[NET_RULE_SETS_MAX - 1];
    int dns, ask;
    struct event *dns_event, *ask_event;
    struct netbox_port ports[BROKER_TCP_FDS];
    struct netbox_name *names;
    uint32_t name_first; // where in 198.18.0.0/15 the first name is
    size_t name_count, name_cap;
    unsigned lookups, kept;
    struct netbox_ended ended[NETBOX_ENDED_MAX];
    unsigned ended_next;
    int64_t hurried_ms; // when a look-up was last refused for the rate
    struct conn_list conns, ready_conns;
    struct quota quota;
    struct report report;
    struct {
        int64_t second_ms;
        unsigned lines;
        uint64_t left_out;
    } audit;
};

TAILQ_HEAD(netbox_list, netbox);

// ---- the process --------------------------------------------------------------------------------

enum {
    RELAY_BUFFER = 256 * 1024,
    RELAY_POOL = 16, // buffers that are kept for the next one
};

enum { BROKER_LEAVING_MAX = 64 };

struct broker {
    struct event_base *base;
    const struct config *config;
    struct net_proxy proxy;   // for boxes that install; host "": none
    struct net_logins logins; // of indexes; for them as well
    struct ssl_ctx_st *tls;   // NULL: there are none
    int keeper, network_file, audit_file;
    struct event *keeper_event;
    struct timer tick;
    struct gate_socket *gate_socket;
    struct net_policy *policy;
    struct resolver *resolver;
    LIST_HEAD(, netbox) boxes[NETBOX_TABLE];
    struct netbox_list ready, dead_boxes;
    struct conn_list dead_conns;
    struct quota_keys keys;
    unsigned key_count;
    uint8_t *buffer; // RELAY_BUFFER bytes, shared: for the connection that has its turn
    uint8_t *pool[RELAY_POOL];
    size_t pool_count;
    size_t fds_used, fds_max;
    bool is_paused; // out of descriptors: accept no connections for a moment
    size_t leaving_count;
    uint64_t leaving[BROKER_LEAVING_MAX]; // boxes that are gone, until the gate's messages are read
    bool stop;
};

// Reads the messages of the keeper and the gate.  Called before a box's bytes are handled: its
// grant was sent before its code.
void broker_drain(struct broker *b);
void broker_hear_keeper(struct broker *b); // only that
void broker_pause(struct broker *b);

#endif
