// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of broker/hello: any bytes as the beginning of a TLS connection.  A prefix of what is
// a whole ClientHello never is a bad one, and never names another host.  Built and run by `make
// fuzz`.

#undef NDEBUG
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "broker/tls_hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char name[NET_HOST_MAX + 1], other[NET_HOST_MAX + 1];
    // On the heap, so that reading past the end is seen.
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    enum tls_hello h = tls_hello_read(copy, size, name);
    assert(strlen(name) <= NET_HOST_MAX);
    if (h == TLS_HELLO_DONE && size) {
        size_t cut = data[size - 1] % size;
        enum tls_hello part = tls_hello_read(copy, cut, other);
        assert(part != TLS_HELLO_BAD);
        assert(part == TLS_HELLO_MORE || strcmp(name, other) == 0);
    }
    free(copy);
    return 0;
}
