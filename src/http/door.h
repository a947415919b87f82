// SPDX-License-Identifier: Apache-2.0
//
// door: which requests are let in.  One rule for every path of the HTTP server: the Host that the
// client addresses, the Origin of the web page behind it, and the key or token that it shows.
// Called by http.c for every head of a request, before any byte of a body is read.
//
// SECURITY: a web page in a user's browser can send requests to a server on the same machine, and
// with DNS rebinding it can even read the answers.  Here that would run code.  Such a page cannot
// forge Host and Origin: so Host must name this server, and Origin this server or one that the
// operator allowed.

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

// Refuses an address that other machines can reach without key, OAuth or --allow-public, and every
// other invalid setting of the door.  Called before the first fork, with the caller's rights: it
// also reads the key files, and the gate inherits their contents.
int door_check_bind(const struct config *c, struct err *e);

// The door of the gate.  Uses what door_check_bind() has read, else reads it.  NULL and `e` on
// failure.
struct door *door_open(const struct config *c, struct err *e);
void door_close(struct door *d);

// Reads the files again, from descriptors, which are borrowed (-1: missing, the old keys stay in
// force). On failure nothing changes.
int door_reload(struct door *d, int key_file, int oauth_keys, struct err *e);

// Would this owner, let in before, still be let in?  Owners by token are, as long as tokens are
// accepted.
bool door_knows(const struct door *d, const char *owner);
// May this owner see totals of all owners?  Only the sole owner of a server, and the key that the
// operator named "metrics" or "operator".  SECURITY: totals tell one key what the others do, and
// when.
bool door_shows_all(const struct door *d, const char *owner);

// May this owner stop runs and close sessions of others, and test the walls?  Only the sole owner
// of a server, and the key that the operator named "operator".
bool door_may_operate(const struct door *d, const char *owner);
// The names of all keys, each once, new; NULL: memory is out.
json_t *door_names(const struct door *d);

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
int door_check_origin(const struct door *d, const struct head *h, struct door_refusal *ret);

// Does the door ask which user of this machine a client is?  Without keys and tokens, on loopback.
bool door_asks_user(const struct door *d);
// The user of the client, as peer.h finds it: the user that started the server (also by sudo), or
// root. 0, or -1 and the refusal.
int door_check_user(const struct door *d, uid_t peer, struct door_refusal *ret);

// Key or token.  0 and the owner, or -1 and the refusal.
int door_check_key(struct door *d, const struct head *h, int64_t now_s,
                   char ret_owner[DOOR_OWNER_MAX + 1], struct door_refusal *ret);

// The metadata of RFC 9728, new; NULL: there is no OAuth here, or memory is out.
json_t *door_metadata(const struct door *d, const char *host);

// The value of Access-Control-Allow-Headers for a preflight that asks for `wanted`.
void door_allow_headers(struct slice wanted, char *buf, size_t cap);

#endif
