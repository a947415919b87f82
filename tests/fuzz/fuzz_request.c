// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of broker/request: any bytes as HTTP requests.  However they are cut into pieces, the
// same heads are found at the same places.  Built and run by `make fuzz`.

#undef NDEBUG
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "broker/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEADS_MAX = 64 };

struct seen {
    size_t heads, at[HEADS_MAX], used;
    bool bad;
};

// Feeds everything, `step` bytes more at a time.
static void feed(const uint8_t *data, size_t size, size_t step, struct seen *ret)
{
    static struct request_head head;
    struct request r = {0};
    size_t at = 0, have = 0;
    *ret = (struct seen){0};
    while (have < size && !ret->bad && ret->heads < HEADS_MAX) {
        have = size - have < step ? size : have + step;
        while (at < have && ret->heads < HEADS_MAX) {
            size_t used;
            const char *why;
            enum request_step s = request_next(&r, data + at, have - at, &head, &used, &why);
            assert(used <= have - at);
            if (s == REQUEST_MORE) {
                assert(used == 0);
                break;
            }
            if (s == REQUEST_BAD) {
                assert(why);
                ret->bad = true;
                break;
            }
            assert(used > 0);
            if (s == REQUEST_HEAD) {
                assert(strlen(head.method) <= REQUEST_METHOD_MAX &&
                       strlen(head.host) <= NET_HOST_MAX);
                assert(head.path[0] == '/' || strcmp(head.path, "*") == 0);
                ret->at[ret->heads++] = at;
            }
            at += used;
        }
    }
    ret->used = at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole, parts;
    if (size == 0 || size > 8192)
        return 0;
    uint8_t *copy = malloc(size);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    (void)request_look(copy, size);
    feed(copy, size, size, &whole);
    feed(copy, size, 1 + data[size - 1] % 16, &parts);
    size_t heads = whole.heads < parts.heads ? whole.heads : parts.heads;
    assert(memcmp(whole.at, parts.at, heads * sizeof *whole.at) == 0);
    if (!whole.bad && !parts.bad && whole.heads < HEADS_MAX && parts.heads < HEADS_MAX)
        assert(whole.heads == parts.heads && whole.used == parts.used);
    assert(whole.heads == HEADS_MAX || parts.heads == HEADS_MAX || whole.bad == parts.bad);
    free(copy);
    return 0;
}
