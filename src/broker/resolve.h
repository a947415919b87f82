// SPDX-License-Identifier: Apache-2.0
//
// resolve: names to addresses, by the resolvers of the system or of --dns, through c-ares.  Called
// by dns.c and conn.c, for names that are allowed and for no others.
//
// Answers are cached for their TTL, at most a minute; failures for five seconds.  All requests for
// a name share one question.

#ifndef CONSTRICTOR_BROKER_RESOLVE_H
#define CONSTRICTOR_BROKER_RESOLVE_H

#include <event2/event.h>
#include <stddef.h>

#include "base/err.h"
#include "base/text.h"
#include "net/address.h"

enum {
    RESOLVE_ADDRESSES_MAX = 16,  // of one name; of more the first ones
    RESOLVE_NAMES_MAX = 1024,    // that are remembered
    RESOLVE_QUESTIONS_MAX = 512, // under way
    RESOLVE_MS = 4500,           // a box's own resolver library asks again after five seconds
};

enum resolve_status {
    RESOLVE_OK,
    RESOLVE_NO_NAME, // there is no such name, or it has no address
    RESOLVE_TIMEOUT,
    RESOLVE_FAILED, // the resolver answers nonsense or that it cannot, or too much is under way
};

struct resolve_answer {
    enum resolve_status status;
    size_t count;
    struct net_address addresses[RESOLVE_ADDRESSES_MAX];
    const char *why; // of c-ares, for messages; NULL: nothing
};

struct resolver;
struct resolve_wait;

// `servers` may be empty: then the system's.  To be called while /etc can be read.
struct resolver *resolver_new(struct event_base *base, const struct text_list *servers,
                              struct err *e);
void resolver_free(struct resolver *r);

// Calls back once, at once when the answer is known (then NULL is returned), else later.
struct resolve_wait *resolver_ask(struct resolver *r, const char *name,
                                  void (*done)(const struct resolve_answer *a, void *argument),
                                  void *argument);
void resolver_forget(struct resolve_wait *w); // cancels the wait; fine with NULL

// So many look-ups are under way that a box with many of them should wait.
bool resolver_is_busy(const struct resolver *r);

// What is known without asking; NULL: nothing.
const struct resolve_answer *resolver_known(struct resolver *r, const char *name);

#endif
