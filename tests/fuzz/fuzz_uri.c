// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of the run:// URIs of mcp/kept: what is taken is exactly what would be written.  Built
// and run by `make fuzz`.

#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/kept.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *uri = malloc(size + 1), id[37], again[KEPT_URI_MAX];
    enum kept_part part = KEPT_PART_MAX;
    assert(uri);
    memcpy(uri, data, size);
    uri[size] = '\0';
    if (mcp_kept_parse_uri(uri, id, &part) == 0) {
        assert(part < KEPT_PART_MAX && strlen(id) == 36);
        mcp_kept_uri(id, part, again);
        assert(strcmp(uri, again) == 0);
    }
    free(uri);
    return 0;
}
