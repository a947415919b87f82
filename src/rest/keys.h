// SPDX-License-Identifier: Apache-2.0
//
// keys: the header Idempotency-Key: a repeated call is not done again.  As in the IETF draft
// (draft-ietf-httpapi-idempotency-key-header) the key is a string of at most 255 characters, with
// or without quotes.  It belongs to the caller's own key, and to method, path and bytes of the
// body.
//
//   same key, same request:      the first answer, with Idempotency-Replayed: true; while the first
//                                call is under way, the second waits for it
//   same key, another request:   409 idempotency_key_reused
//   answer too large to store:   409 idempotency_answer_not_kept; nothing is run again
//
//   1. An error answer says that nothing was done: it is not stored, and the key is free again.
//   2. A call with a key runs on when its client is gone, within its own limits, because the client
//      is expected back.  At most 16 calls of a caller do, with 32 MiB of bodies; further ones are
//      cancelled, as without a key.
//   3. The store is bounded: KEYS_ANSWER_MAX for an answer, KEYS_OWNER_BYTES and KEYS_OWNER_MAX
//      for a caller, KEYS_BYTES and KEYS_MAX for all, and KEYS_TTL_MS.  Above the bytes the oldest
//      answers go and their keys stay; above the numbers the oldest keys go.  Allocated bytes
//      count.  All of it is in the memory of the server and ends with it.
//
// Runs in the gate; called by rest/call.c before a handler, and by all that answers.

#ifndef CONSTRICTOR_REST_KEYS_H
#define CONSTRICTOR_REST_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keys; // of a server
struct rest_key;
struct rest_call;

enum {
    KEYS_TEXT_MAX = 255,
    KEYS_ANSWER_MAX = 1024 * 1024,
    KEYS_OWNER_BYTES = 16 * 1024 * 1024,
    KEYS_BYTES = 64 * 1024 * 1024,
    KEYS_OWNER_MAX = 10000,
    KEYS_MAX = 100000,
    KEYS_WAITING_MAX = 64, // calls that wait for one
    KEYS_TTL_MS = 24 * 3600 * 1000,
};

// What keys_parse() takes: as it is, or in quotes as RFC 9651 writes strings; trailing blanks do
// not count.
#define KEYS_FORM                                                                                  \
    "^(?:[!#-~](?:[ !#-~]{0,253}[!#-~])?|\"(?:[ !#-\\[\\]-~]|\\\\[ -~]){1,255}\")[ \\t]*$"
_Static_assert(KEYS_TEXT_MAX == 255, "KEYS_FORM");

struct keys *keys_new(void); // NULL: memory is out
void keys_free(struct keys *k);

// Puts the value of the header, without quotes, into buf.  0, or -1: it is malformed.  Pure.
int keys_parse(const char *value, char buf[KEYS_TEXT_MAX + 1]);

// Reads the header of a call.  True: the call goes on, with c->key if it has one.  False: it was
// answered, or will be when the first call with this key has ended.
bool keys_enter(struct keys *k, struct rest_call *c);
// The client of a waiting call is gone.
void keys_leave(struct rest_call *c);

// The answer of the call that has the key.
void keys_begin(struct rest_key *key, int status, const char *type);
void keys_note(struct rest_key *key, const void *data, size_t length);
void keys_end(struct rest_key *key); // answers the waiting calls
// There will be no answer.
void keys_drop(struct rest_key *key);

// ---- for tests ----------------------------------------------------------------------------------

size_t keys_count(const struct keys *k);
size_t keys_bytes(const struct keys *k);
// The same for a request that is no call: NULL, or its key, which is new or not.
struct rest_key *keys_take(struct keys *k, const char *owner, const char *text, const void *body,
                           size_t length, int64_t now_ms, int *ret_state);
enum { KEYS_NEW, KEYS_UNDER_WAY, KEYS_KEPT, KEYS_NOT_KEPT, KEYS_OTHER };

#endif
