// SPDX-License-Identifier: Apache-2.0
//
// client_hello: a TLS ClientHello as clients send it.  Used by test_broker_parse.c and
// test_broker_inspect.c.

#ifndef CONSTRICTOR_CLIENT_HELLO_H
#define CONSTRICTOR_CLIENT_HELLO_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint8_t *hello_put(uint8_t *p, unsigned value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        *p++ = (uint8_t)(value >> (8 * i));
    return p;
}

// The handshake message, without records.  `name` NULL: no SNI.  With GREASE, and `extra` bytes of
// padding.
static inline size_t hello_message(const char *name, size_t extra, uint8_t *ret)
{
    uint8_t *p = ret + 4, *list;
    p = hello_put(p, 0x0303, 2);
    memset(p, 7, 32);
    p += 32;
    p = hello_put(p, 32, 1);
    memset(p, 8, 32);
    p += 32;
    p = hello_put(p, 4, 2);
    p = hello_put(p, 0x0a0a1301, 4);
    p = hello_put(p, 0x0100, 2);
    list = p;
    p += 2;
    p = hello_put(p, 0x0a0a0000, 4); // GREASE
    if (name) {
        unsigned n = (unsigned)strlen(name);
        p = hello_put(p, 0, 2);
        p = hello_put(p, n + 5, 2);
        p = hello_put(p, n + 3, 2);
        p = hello_put(p, 0, 1);
        p = hello_put(p, n, 2);
        memcpy(p, name, n);
        p += n;
    }
    p = hello_put(p, 0xfe0d, 2); // ECH: its content does not matter
    p = hello_put(p, 4, 2);
    p = hello_put(p, 0x01020304, 4);
    p = hello_put(p, 21, 2);
    p = hello_put(p, (unsigned)extra, 2);
    memset(p, 0, extra);
    p += extra;
    (void)hello_put(list, (unsigned)(p - list - 2), 2);
    size_t length = (size_t)(p - ret);
    (void)hello_put(ret, 1, 1);
    (void)hello_put(ret + 1, (unsigned)length - 4, 3);
    return length;
}

// In records of at most `size` bytes.
static inline size_t hello_records(const char *name, size_t extra, size_t size, uint8_t *ret)
{
    static uint8_t message[32 * 1024];
    size_t length = hello_message(name, extra, message), n = 0;
    for (size_t at = 0; at < length; at += size) {
        size_t part = length - at < size ? length - at : size;
        uint8_t *p = hello_put(ret + n, 22, 1);
        p = hello_put(p, 0x0301, 2);
        p = hello_put(p, (unsigned)part, 2);
        memcpy(p, message + at, part);
        n += 5 + part;
    }
    return n;
}

#endif
