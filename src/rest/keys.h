// SPDX-License-Identifier: Apache-2.0
//
// keys: the header Idempotency-Key: a call that is sent again is not done again.  As the IETF draft
// has it (draft-ietf-httpapi-idempotency-key-header): the key is a string of at most 255
// characters, in quotes or without; it belongs to the caller's own key, and to the method, the path
// and the bytes of the body.
//
//   the same key, the same request:   the answer of the first one, with Idempotency-Replayed: true;
//   while that
//                                     goes on, the second waits for it
//   the same key, another request:    409 idempotency_key_reused
//   the answer was too large to keep: 409 idempotency_answer_not_kept; nothing is run again
//
//   1. An answer that is an error says that nothing was done: it is not kept, and the key is free
//   again.
//   2. A call with a key goes on when its client is gone, within its own limits: the client is
//   expected back.  Of one
//      caller at most 16 do, with 32 MiB of bodies: further ones are cancelled, as without a key.
//   3. What is kept is bounded: KEYS_ANSWER_MAX for an answer, KEYS_OWNER_BYTES and KEYS_OWNER_MAX
//   for a caller,
//      KEYS_BYTES and KEYS_MAX for all, KEYS_TTL_MS.  Above the bytes the oldest answers go and
//      their keys stay;
//      above the numbers the oldest keys go.  Bytes are those that are allocated.  All of it is in
//      the memory of the server and ends with it.
//
// Runs in the gate; called by rest/call.c (before a handler) and by what answers.

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

// The value of the header, without quotes, into buf.  0, or -1: it is not well formed.  Pure.
int keys_parse(const char *value, char buf[KEYS_TEXT_MAX + 1]);

// Looks at the header of a call.  True: the call goes on, with c->key if it has one.  False: it is
// answered, or will be when the one before it is done.
bool keys_enter(struct keys *k, struct rest_call *c);
// The client of a call that waits is gone.
void keys_leave(struct rest_call *c);

// The answer of the call that has the key.
void keys_begin(struct rest_key *key, int status, const char *type);
void keys_note(struct rest_key *key, const void *data, size_t length);
void keys_end(struct rest_key *key); // answers those that wait
// There will be none.
void keys_drop(struct rest_key *key);

// ---- for tests ----------------------------------------------------------------------------------

size_t keys_count(const struct keys *k);
size_t keys_bytes(const struct keys *k);
// The same for a request that is no call: NULL, or its key, which is new or not.
struct rest_key *keys_take(struct keys *k, const char *owner, const char *text, const void *body,
                           size_t length, int64_t now_ms, int *ret_state);
enum { KEYS_NEW, KEYS_UNDER_WAY, KEYS_KEPT, KEYS_NOT_KEPT, KEYS_OTHER };

#endif
