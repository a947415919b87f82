// SPDX-License-Identifier: Apache-2.0
//
// tls_hello: which host a TLS ClientHello names.  Called by inspect.c on the first bytes that a box
// sends; touches nothing but its arguments.  Fuzzed by tests/fuzz/fuzz_hello.c.

#ifndef CONSTRICTOR_BROKER_TLS_HELLO_H
#define CONSTRICTOR_BROKER_TLS_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/rules.h"

enum { TLS_HELLO_MAX = 16 * 1024 }; // bytes, records and all; a post-quantum one has about 2000

enum tls_hello {
    TLS_HELLO_MORE, // incomplete so far
    TLS_HELLO_BAD,
    TLS_HELLO_DONE,
};

// Are these the first bytes of a TLS connection?
bool tls_hello_begins(const uint8_t *data, size_t length);

// The name is normalised, and "" when there is none.  With an encrypted ClientHello inside, the
// outer name counts: it is what the network sees.
enum tls_hello tls_hello_read(const uint8_t *data, size_t length, char ret_name[NET_HOST_MAX + 1]);

#endif
