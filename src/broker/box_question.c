// SPDX-License-Identifier: Apache-2.0
//
// box_question: see box_question.h.  Called by netbox.c when a datagram came to a box's port 54.

#include "broker/box_question.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "broker/box_question_parse.h"
#include "broker/conn.h"
#include "broker/explain.h"
#include "broker/netbox.h"

enum { DATAGRAMS = 32 }; // in one turn

struct asker {
    struct netbox *box;
    struct sockaddr_storage from;
    socklen_t length;
};

void box_question_answer(const struct netbox *b, const struct sockaddr_storage *to,
                         socklen_t to_length, int errnum, const char *text)
{
    char message[QUESTION_MAX];
    int n = errnum ? snprintf(message, sizeof message, "no %d %s", errnum, text)
                   : snprintf(message, sizeof message, "ok");
    if (n >= (int)sizeof message)
        n = (int)sizeof message - 1;
    text_sanitize(message);
    n = (int)strlen(message);
    (void)sendto(b->ask, message, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL,
                 (const struct sockaddr *)to, to_length);
}

void box_question_refuse(const struct netbox *b, const struct sockaddr_storage *to,
                         socklen_t to_length, int errnum, const struct refusal *f)
{
    char text[QUESTION_MAX];
    snprintf(text, sizeof text, "%s%s%s", f->sentence, f->hint[0] ? "; " : "", f->hint);
    box_question_answer(b, to, to_length, errnum, text);
}

static void say(const struct asker *a, int errnum, const char *text)
{
    box_question_answer(a->box, &a->from, a->length, errnum, text);
}

// ---- why ----------------------------------------------------------------------------------------

// The look-up itself made the event.
static void why_addresses(const struct asker *a, const char *name, const struct resolve_answer *r)
{
    struct net_decision v = {0};
    struct refusal f;
    for (size_t i = 0; i < r->count; i++)
        if (netbox_may_use(a->box, name, &r->addresses[i], &v)) {
            say(a, 0, "");
            return;
        }
    explain_verdict(a->box, "resolve", name, &r->addresses[r->count - 1], 0, &v, &f);
    box_question_refuse(a->box, &a->from, a->length, EACCES, &f);
}

static void on_why(const struct asker *a, const struct box_question *w)
{
    static const struct {
        int errnum;
        const char *why;
    } failures[] = {
        [RESOLVE_OK] = {0, ""},
        [RESOLVE_NO_NAME] = {ENOENT, "there is no such name, or it has no address"},
        [RESOLVE_TIMEOUT] = {ETIMEDOUT, "the resolver did not answer in time"},
        [RESOLVE_FAILED] = {EAGAIN, "the resolver could not answer"},
    };
    char name[NET_HOST_MAX + 1], text[REPORT_SENTENCE_MAX];
    struct net_decision v;
    struct refusal f;
    struct err e;
    if (net_host_normalise(w->word[1], strlen(w->word[1]), name, &e) < 0) {
        snprintf(text, sizeof text, "this is not a host name: %.400s", e.message);
        say(a, EINVAL, text);
        return;
    }
    netbox_judge(a->box, name, NULL, 0, &v);
    if (v.reason != NET_ALLOWED) {
        explain_verdict(a->box, "resolve", name, NULL, 0, &v, &f);
        box_question_refuse(a->box, &a->from, a->length, EACCES, &f);
        return;
    }
    const struct resolve_answer *r = resolver_known(a->box->broker->resolver, name);
    if (clock_ms() - a->box->hurried_ms < 1000) {
        explain_quota(name, NULL, 0, "rate", &f);
        box_question_refuse(a->box, &a->from, a->length, EACCES, &f);
    } else if (!r) {
        say(a, 0, "");
    } else if (r->status == RESOLVE_OK) {
        why_addresses(a, name, r);
    } else {
        snprintf(text, sizeof text, "look-up of '%s' failed: %s%s%s%s", name,
                 failures[r->status].why, r->why ? " (" : "", r->why ? r->why : "",
                 r->why ? ")" : "");
        say(a, failures[r->status].errnum, text);
    }
}

// ---- connect ------------------------------------------------------------------------------------

static void on_connect(const struct asker *a, const struct box_question *w)
{
    struct netbox *b = a->box;
    struct net_decision v;
    struct refusal f;
    const char *host = netbox_name_at(b, &w->address);
    bool stands_for = netbox_is_name_address(&w->address);
    netbox_judge(b, host, host ? NULL : &w->address, w->port, &v);
    bool fine = v.reason == NET_ALLOWED && (host || !stands_for);
    int r = fine ? netbox_listen(b, w->port) : 0;
    if (r < 0 && r != -EADDRINUSE) { // in use: by a server of the box's own
        explain_quota(host, host ? NULL : &w->address, w->port, "ports", &f);
        netbox_refuse(b, &f);
        box_question_refuse(a->box, &a->from, a->length, EACCES, &f);
    } else if (fine && b->kept >= NETBOX_KEPT_MAX) {
        say(a, 0, ""); // is dialled when the box connects
    } else {
        conn_ask(b, &w->address, w->port, &a->from, a->length, strcmp(w->word[3], "wait") == 0);
    }
}

// Code that connects to the box itself wants its own server, or meets the broker.
static void on_taken(const struct asker *a, const struct box_question *w)
{
    uint64_t port;
    if (text_parse_u64(w->word[1], 1, UINT16_MAX, &port) == 0)
        for (size_t i = 0; i < BROKER_TCP_FDS; i++)
            if (a->box->ports[i].port == port) {
                say(a, 0, "");
                return;
            }
    say(a, ENOENT, "the broker does not listen there");
}

// ---- closed -------------------------------------------------------------------------------------

void box_question_remember(struct netbox *b, uint16_t port, const struct refusal *f)
{
    struct netbox_ended *ended = &b->ended[b->ended_next++ % NETBOX_ENDED_MAX];
    ended->port = port;
    snprintf(ended->text, sizeof ended->text, "%s%s%s", f->sentence, f->hint[0] ? "; " : "",
             f->hint);
}

static void on_closed(const struct asker *a, const struct box_question *w)
{
    uint64_t port;
    const struct netbox *b = a->box;
    if (text_parse_u64(w->word[1], 1, UINT16_MAX, &port) == 0)
        for (unsigned i = 1; i <= NETBOX_ENDED_MAX; i++) { // the newest of that port
            const struct netbox_ended *e = &b->ended[(b->ended_next - i) % NETBOX_ENDED_MAX];
            if (e->port == port) {
                say(a, ECONNRESET, e->text);
                return;
            }
        }
    say(a, 0, ""); // the far side did
}

// ---- note ---------------------------------------------------------------------------------------

static void on_udp(const struct asker *a, const struct box_question *w)
{
    struct refusal f;
    const char *host = netbox_name_at(a->box, &w->address);
    explain_other("udp", "udp", host, host ? NULL : &w->address, w->port,
                  "boxes have TCP only, no UDP",
                  "use TCP; the system's resolver functions look up names", &f);
    f.from_box = true;
    netbox_refuse(a->box, &f);
    box_question_refuse(a->box, &a->from, a->length, EACCES, &f);
}

static void on_raw(const struct asker *a, const struct box_question *w)
{
    struct refusal f;
    char why[160];
    snprintf(why, sizeof why, "a socket of family %.16s, type %.16s, protocol %.16s", w->word[2],
             w->word[3], w->word[4]);
    explain_other("raw", "socket_kind", NULL, NULL, 0, "",
                  "only TCP sockets (SOCK_STREAM) reach the network from a box", &f);
    snprintf(f.sentence, sizeof f.sentence, "%s is not available in boxes [socket_kind]", why);
    f.from_box = true;
    netbox_refuse(a->box, &f);
    box_question_refuse(a->box, &a->from, a->length, EPERM, &f);
}

static void on_question(const struct asker *a, char *text, size_t length)
{
    static void (*const calls[QUESTION_MAX_KINDS])(const struct asker *,
                                                   const struct box_question *) = {
        [QUESTION_WHY] = on_why,       [QUESTION_CONNECT] = on_connect, [QUESTION_TAKEN] = on_taken,
        [QUESTION_CLOSED] = on_closed, [QUESTION_UDP] = on_udp,         [QUESTION_RAW] = on_raw};
    struct box_question words;
    if (box_question_parse(text, length, &words) < 0)
        say(a, EINVAL, "unknown question");
    else
        calls[words.kind](a, &words);
}

void box_questions_read(struct netbox *b)
{
    char text[QUESTION_MAX + 1];
    for (int i = 0; i < DATAGRAMS && !b->is_gone; i++) {
        struct asker a = {.box = b, .length = sizeof a.from};
        ssize_t n = recvfrom(b->ask, text, QUESTION_MAX, MSG_DONTWAIT | MSG_TRUNC,
                             (struct sockaddr *)&a.from, &a.length);
        if (n < 0)
            return;
        if (n > 0 && n <= QUESTION_MAX && !netbox_is_own_port(&a.from))
            on_question(&a, text, (size_t)n);
    }
}
