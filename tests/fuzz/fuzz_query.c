// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of broker/query: any bytes as a question to a box's resolver.  What is read can be
// answered, and the answer is a message about the same question.  Built and run by `make fuzz`.

#undef NDEBUG
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "broker/query.h"
#include "net/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t address[4] = {198, 18, 0, 1};
    uint8_t answer[QUERY_ANSWER_MAX], *copy = malloc(size ? size : 1);
    char host[NET_HOST_MAX + 1];
    struct query q, again;
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    int code = query_read(copy, size, &q);
    if (code >= 0) {
        size_t n = query_answer(&q, (enum query_code)code, code ? NULL : address, 30, answer);
        assert(n >= 12 && n <= sizeof answer && memcmp(answer, data, 2) == 0);
        if (code == 0) {
            assert(memchr(q.name, '\0', sizeof q.name));
            (void)net_host_normalise(q.name, strlen(q.name), host, NULL);
            answer[2] &= 0x7f; // as if it were a question
            answer[7] = 0;
            assert(query_read(answer, n, &again) == 0 && strcmp(again.name, q.name) == 0);
        }
    }
    free(copy);
    return 0;
}
