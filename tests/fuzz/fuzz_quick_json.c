// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of json/quick_json: what it reads is what jansson reads, and it reads nothing that
// jansson refuses.  Built and run by `make fuzz`.

#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "json/quick_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text =
        malloc(size ? size : 1); // of its very size, so that the sanitizers see a byte too many
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    json_t *ours = quick_json_plain(text, size);
    json_t *theirs = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    assert(!ours || (theirs && json_equal(ours, theirs)));
    json_decref(ours);
    json_decref(theirs);
    free(text);
    return 0;
}
