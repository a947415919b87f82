// SPDX-License-Identifier: Apache-2.0
//
// door: who may come in.  One rule for every path of the HTTP server: the Host that the client
// believes to talk to, the Origin of the web page behind it, and the key or token that it shows.
// Called by http.c for every head of a request, before any byte of a body is read.
//
// SECURITY: a web page that somebody opens can send requests to a server on the same machine, and
// with DNS
// rebinding it can even read the answers.  Here that would run code.  What such a page cannot do is
// to lie in Host and Origin; so a Host must be ours, and an Origin ours or one that was allowed by
// name.

#ifndef CONSTRICTOR_HTTP_DOOR_H
#define CONSTRICTOR_HTTP_DOOR_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "config/config.h"
#include "http/head.h"

struct door;

enum {
    DOOR_OWNER_MAX = 64,
    DOOR_KEY_MIN = 8,
    DOOR_KEYS_MAX = 256,
    DOOR_FILE_MAX = 64 * 1024,
    DOOR_ORIGIN_MAX = 300,
};

// Refuses an address that others can reach without key, OAuth or --allow-public, and everything
// else in the configuration of the door that cannot work.  Called before the first fork, with the
// rights of the caller: it also reads the files of keys, and the gate inherits what was in them.
int door_check_bind(const struct config *c, struct err *e);

// The door of the gate.  Uses what door_check_bind() has read, else reads it.  NULL and `e` on
// failure.
struct door *door_open(const struct config *c, struct err *e);
void door_close(struct door *d);

// Reads the files again, from descriptors, which are borrowed (-1: not there, what was in force
// stays). On failure nothing changes.
int door_reload(struct door *d, int key_file, int oauth_keys, struct err *e);

// Is this owner, whom the door let in once, still one?  Owners by token are, as long as tokens are
// taken.
bool door_knows(const struct door *d, const char *owner);
// May this owner see what is of all owners together?  The only one there can be, and the key that
// the operator has named "metrics".  SECURITY: totals tell one tenant what the others do, and when.
bool door_shows_all(const struct door *d, const char *owner);

// How many owners there can be: the names of the keys; 0: there is no key; DOOR_OWNERS_UNKNOWN: the
// door takes tokens.
enum { DOOR_OWNERS_UNKNOWN = INT_MAX };
unsigned door_owners(const struct door *d);

// ---- a request at the door ---------------------------------------------------------------------

struct door_refusal {
    int status; // 0: come in
    char code[32];
    char message[256];
    char hint[256];
    char challenge[2048]; // WWW-Authenticate, or ""
};

// Host and Origin.  0, or -1 and the refusal.
int door_check_place(const struct door *d, const struct head *h, struct door_refusal *ret);

// Does it matter which user of this machine a client is?  Without keys and tokens, on loopback.
bool door_asks_user(const struct door *d);
// The user of the client, as peer.h finds it: the one that started the server (who may have done so
// by sudo), or root. 0, or -1 and the refusal.
int door_check_user(const struct door *d, uid_t peer, struct door_refusal *ret);

// Key or token.  0 and the owner, or -1 and the refusal.
int door_check_key(struct door *d, const struct head *h, int64_t now_s,
                   char ret_owner[DOOR_OWNER_MAX + 1], struct door_refusal *ret);

// The metadata of RFC 9728, new; NULL: there is no OAuth here, or memory is out.
json_t *door_metadata(const struct door *d, const char *host);

// The value of Access-Control-Allow-Headers for a preflight that asks for `wanted`.
void door_allow_headers(struct slice wanted, char *buf, size_t cap);

#endif
