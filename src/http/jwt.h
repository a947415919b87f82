// SPDX-License-Identifier: Apache-2.0
//
// jwt: bearer tokens of an authorization server: compact JWS, checked against a set of public keys
// (JWK). Called by door.c; runs in the gate.  Reads no files and no clock: the caller passes both.
//
// SECURITY: the algorithm is a property of the key, not of the token.  A key says what it is (RSA,
// P-256, Ed25519), and a token is only ever checked with an algorithm of that kind; "none" and the
// HMAC family do not exist here, so a public key can never be used as a shared secret.

#ifndef CONSTRICTOR_HTTP_JWT_H
#define CONSTRICTOR_HTTP_JWT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/text.h"

enum {
    JWT_TOKEN_MAX = 16 * 1024,
    JWT_KEYS_FILE_MAX = 256 * 1024,
    JWT_KEYS_MAX = 64,
    JWT_LEEWAY_S = 60, // clocks differ
    JWT_OWNER_MAX = 64,
};

struct jwt_keys;

// A JWK set, {"keys": [...]}.  Keys for encryption and of unknown kinds are left out, as RFC 7517
// wants; none left is an error.  NULL and `e` on failure.
struct jwt_keys *jwt_keys_parse(const char *text, size_t length, struct err *e);
void jwt_keys_free(struct jwt_keys *keys);
size_t jwt_keys_count(const struct jwt_keys *keys);

enum jwt_result {
    JWT_OK,
    JWT_MALFORMED,
    JWT_TOO_LONG,
    JWT_TYPE,
    JWT_ALGORITHM,
    JWT_UNKNOWN_KEY,
    JWT_BAD_SIGNATURE,
    JWT_WRONG_ISSUER,
    JWT_WRONG_AUDIENCE,
    JWT_EXPIRED,
    JWT_NOT_YET,
    JWT_NO_SUBJECT,
    JWT_SCOPE, // good, but without a scope that is needed
    JWT_RESULT_MAX
};

// One sentence for the client, in words that RFC 6750 allows in error_description.
const char *jwt_result_text(enum jwt_result result);

struct jwt_rules {
    const char *issuer;
    const char *audience;           // a '/' at its end does not count
    const struct text_list *scopes; // all of them are needed
};

struct jwt_claims {
    // "oauth:" and the subject, or "oauth-sha256:" and its hash when it is long or has unusual
    // characters. Key names have no colon, so the two never collide.
    char owner[JWT_OWNER_MAX + 1];
    int64_t expires_s;
};

// `ret` is set when the result is JWT_OK or JWT_SCOPE.
enum jwt_result jwt_check(const struct jwt_keys *keys, const struct jwt_rules *rules,
                          const char *token, size_t length, int64_t now_s, struct jwt_claims *ret);

#endif
