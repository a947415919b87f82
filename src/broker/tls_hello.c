// SPDX-License-Identifier: Apache-2.0
//
// tls_hello: see tls_hello.h.  A handshake message may be cut into records at any place (RFC
// 8446 5.1), so the records are joined first and read then.

#include "broker/tls_hello.h"

#include <string.h>

enum {
    RECORD_FIRST = 20,
    RECORD_HANDSHAKE = 22,
    RECORD_LAST = 24,
    RECORD_HEAD = 5,
    RECORD_MAX = 16384,
    MESSAGE_CLIENT_HELLO = 1,
    MESSAGE_HEAD = 4,
    EXTENSION_SERVER_NAME = 0,
    NAME_HOST = 0,
};

// What is left to read; reading too much empties it and leaves a mark.
struct reader {
    const uint8_t *at;
    size_t left;
    bool bad;
};

static const uint8_t *take(struct reader *r, size_t n)
{
    const uint8_t *at = r->at;
    if (r->bad || n > r->left) {
        *r = (struct reader){.bad = true};
        return NULL;
    }
    r->at += n;
    r->left -= n;
    return at;
}

static size_t take_number(struct reader *r, size_t bytes)
{
    const uint8_t *p = take(r, bytes);
    size_t n = 0;
    for (size_t i = 0; p && i < bytes; i++)
        n = n << 8 | p[i];
    return n;
}

// A block with its length before it.
static struct reader take_block(struct reader *r, size_t length_bytes)
{
    size_t n = take_number(r, length_bytes);
    const uint8_t *p = take(r, n);
    return p ? (struct reader){.at = p, .left = n} : (struct reader){.bad = true};
}

bool tls_hello_begins(const uint8_t *data, size_t length)
{
    // SECURITY: also what servers may skip before a ClientHello, such as an alert.
    return length && data[0] >= RECORD_FIRST && data[0] <= RECORD_LAST &&
           (length < 2 || data[1] == 3);
}

// Joins what the records hold.  SECURITY: only handshake records, none empty: an endless row of
// empty ones would be a message that never comes.
static enum tls_hello join(const uint8_t *data, size_t length, uint8_t *ret, size_t *ret_length)
{
    size_t n = 0;
    while (length) {
        if (data[0] != RECORD_HANDSHAKE || !tls_hello_begins(data, length))
            return TLS_HELLO_BAD;
        if (length < RECORD_HEAD)
            break;
        size_t size = (size_t)data[3] << 8 | data[4];
        if (size == 0 || size > RECORD_MAX)
            return TLS_HELLO_BAD;
        size_t part = length - RECORD_HEAD < size ? length - RECORD_HEAD : size;
        memcpy(ret + n, data + RECORD_HEAD, part);
        n += part;
        if (n >= MESSAGE_HEAD) {
            size_t message = (size_t)ret[1] << 16 | (size_t)ret[2] << 8 | ret[3];
            if (ret[0] != MESSAGE_CLIENT_HELLO || message > TLS_HELLO_MAX - MESSAGE_HEAD)
                return TLS_HELLO_BAD;
            if (n >= MESSAGE_HEAD + message) {
                *ret_length = MESSAGE_HEAD + message;
                return TLS_HELLO_DONE;
            }
        }
        data += RECORD_HEAD + part;
        length -= RECORD_HEAD + part;
    }
    return TLS_HELLO_MORE;
}

// RFC 6066: a list with one host name.  Others are of no known kind.
static bool read_name(struct reader extension, char ret[NET_HOST_MAX + 1])
{
    struct reader list = take_block(&extension, 2);
    if (list.bad || extension.left || take_number(&list, 1) != NAME_HOST)
        return false;
    struct reader name = take_block(&list, 2);
    return !name.bad && !list.left && name.left &&
           net_host_normalise((const char *)name.at, name.left, ret, NULL) >= 0;
}

static bool read_extensions(struct reader all, char ret[NET_HOST_MAX + 1])
{
    bool named = false;
    while (all.left) {
        size_t type = take_number(&all, 2);
        struct reader body = take_block(&all, 2);
        if (all.bad || body.bad)
            return false;
        if (type != EXTENSION_SERVER_NAME)
            continue;
        if (named || !read_name(body, ret)) // SECURITY: of two names the server may take the other
            return false;
        named = true;
    }
    return true;
}

enum tls_hello tls_hello_read(const uint8_t *data, size_t length, char ret_name[NET_HOST_MAX + 1])
{
    uint8_t message[TLS_HELLO_MAX];
    size_t n = 0;
    ret_name[0] = '\0';
    enum tls_hello h =
        join(data, length < TLS_HELLO_MAX ? length : (size_t)TLS_HELLO_MAX, message, &n);
    if (h != TLS_HELLO_DONE)
        return h == TLS_HELLO_MORE && length >= TLS_HELLO_MAX ? TLS_HELLO_BAD : h;
    struct reader r = {.at = message + MESSAGE_HEAD, .left = n - MESSAGE_HEAD};
    (void)take(&r, 2 + 32); // version, random
    struct reader session = take_block(&r, 1), suites = take_block(&r, 2);
    struct reader compression = take_block(&r, 1);
    if (r.bad || session.left > 32 || suites.left < 2 || !compression.left)
        return TLS_HELLO_BAD;
    if (!r.left)
        return TLS_HELLO_DONE; // TLS before 1.3 without any extension
    struct reader extensions = take_block(&r, 2);
    return !extensions.bad && !r.left && read_extensions(extensions, ret_name) ? TLS_HELLO_DONE
                                                                               : TLS_HELLO_BAD;
}
