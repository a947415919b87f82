// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of broker/ask_words: any bytes as a question of a box's Python side.  Built and run
// by `make fuzz`.

#undef NDEBUG
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "broker/box_question.h"
#include "broker/box_question_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct box_question w;
    if (size > QUESTION_MAX)
        return 0;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    if (box_question_parse(text, size, &w) == 0) {
        assert(w.kind < QUESTION_MAX_KINDS && w.word[0] && w.word[1] && w.word[1][0]);
        assert(w.kind != QUESTION_CONNECT || (w.port && w.word[3]));
        assert(w.kind != QUESTION_UDP || w.port);
        assert(w.kind != QUESTION_RAW || w.word[4]);
        for (size_t i = 0; i < QUESTION_WORDS_MAX && w.word[i]; i++)
            assert(w.word[i] >= text && w.word[i] + strlen(w.word[i]) <= text + size);
    }
    free(text);
    return 0;
}
