// SPDX-License-Identifier: Apache-2.0
//
// request_state: seals what a handler has to remember between two rounds of a request
// (requestState) and opens it again: see mcp.h.

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "mcp/protocol/mcp.h"
#include "json/encode.h"

enum { STATE_TTL_S = 900, STATE_MAX = 65536, SEAL_SIZE = 32 };

// The request without what changes from round to round.
static int digest_of(const struct mcp_call *c, unsigned char ret[SEAL_SIZE])
{
    json_auto_t *rest = json_copy(c->request.params);
    (void)json_object_del(rest, "inputResponses");
    (void)json_object_del(rest, "requestState");
    (void)json_object_del(rest, "_meta");
    _cleanup_free_ char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    EVP_MD_CTX *md = text ? EVP_MD_CTX_new() : NULL;
    bool good = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
                EVP_DigestUpdate(md, c->owner, sizeof c->owner) == 1 &&
                EVP_DigestUpdate(md, c->method->name, strlen(c->method->name) + 1) == 1 &&
                EVP_DigestUpdate(md, text, strlen(text)) == 1 &&
                EVP_DigestFinal_ex(md, ret, NULL) == 1;
    EVP_MD_CTX_free(md);
    return good ? 0 : -1;
}

static int seal(const struct mcp_call *c, const char *body, size_t length,
                unsigned char ret[SEAL_SIZE])
{
    unsigned char key[MCP_SECRET_SIZE + SEAL_SIZE];
    memcpy(key, c->mcp->secret, MCP_SECRET_SIZE);
    if (digest_of(c, key + MCP_SECRET_SIZE) < 0)
        return -1;
    return HMAC(EVP_sha256(), key, sizeof key, (const unsigned char *)body, length, ret, NULL) ? 0
                                                                                               : -1;
}

// BODY.SEAL, both in base64url; the body is {"until": seconds, "state": ...}.
char *mcp_state_seal(struct mcp_call *c, json_t *state)
{
    unsigned char mark[SEAL_SIZE];
    json_t *body =
        json_pack("{s:I, s:O}", "until", (json_int_t)time(NULL) + STATE_TTL_S, "state", state);
    _cleanup_free_ char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    _cleanup_free_ char *coded = text ? encode_base64url(text, strlen(text)) : NULL;
    if (!coded || seal(c, coded, strlen(coded), mark) < 0)
        return NULL;
    _cleanup_free_ char *end = encode_base64url(mark, sizeof mark);
    char *ret = NULL;
    if (!end || asprintf(&ret, "%s.%s", coded, end) < 0)
        return NULL;
    return ret;
}

int mcp_state_open(struct mcp_call *c, const char *text)
{
    unsigned char mark[SEAL_SIZE];
    const char *dot = strrchr(text, '.');
    if (!dot || strlen(text) > STATE_MAX || seal(c, text, (size_t)(dot - text), mark) < 0)
        return -1;
    size_t length = 0;
    _cleanup_free_ unsigned char *given = decode_base64url(dot + 1, strlen(dot + 1), &length);
    if (!given || length != sizeof mark || CRYPTO_memcmp(given, mark, sizeof mark) != 0)
        return -1;
    _cleanup_free_ unsigned char *body = decode_base64url(text, (size_t)(dot - text), &length);
    json_auto_t *o = body ? json_loadb((char *)body, length, 0, NULL) : NULL;
    bool fresh = json_integer_value(json_object_get(o, "until")) >= (json_int_t)time(NULL);
    if (fresh) {
        json_decref(c->state);
        c->state = json_incref(json_object_get(o, "state"));
    }
    return fresh ? 0 : -1;
}
