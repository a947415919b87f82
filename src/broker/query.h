// SPDX-License-Identifier: Apache-2.0
//
// query: the DNS messages of a box's resolver: one question in, one answer out (RFC 1035, and of
// RFC 6891 only that the extra record is stepped over).  Called by dns.c; touches nothing but its
// arguments. Fuzzed by tests/fuzz/fuzz_query.c.

#ifndef CONSTRICTOR_BROKER_QUERY_H
#define CONSTRICTOR_BROKER_QUERY_H

#include <stddef.h>
#include <stdint.h>

enum {
    QUERY_MAX = 4096, // as a box sends it
    QUERY_TEXT = 1024,
    QUERY_NAME_MAX = 255,
    QUERY_ANSWER_MAX = 12 + QUERY_NAME_MAX + 4 + 16,
};

enum query_type { QUERY_A = 1, QUERY_AAAA = 28 };

enum query_code { // RCODE
    QUERY_OK = 0,
    QUERY_FORMAT = 1,
    QUERY_FAILED = 2,
    QUERY_NO_NAME = 3,
    QUERY_NOT_DONE = 4,
    QUERY_REFUSED = 5,
};

struct query {
    uint16_t id, flags, type;
    size_t question_length; // of the question as it came: name, type, class
    uint8_t question[QUERY_NAME_MAX + 4];
    char name[QUERY_TEXT]; // text with dots; what is not printable is \DDD
};

// 0: `ret` is a question.  QUERY_FORMAT or QUERY_NOT_DONE: only id and flags are set, for an error
// answer.  -1: unreadable, send no answer.
int query_read(const uint8_t *data, size_t length, struct query *ret);

// Returns the answer's length.  `address` is four bytes or NULL.
size_t query_answer(const struct query *q, enum query_code code, const uint8_t *address,
                    uint32_t ttl_s, uint8_t ret[QUERY_ANSWER_MAX]);

#endif
