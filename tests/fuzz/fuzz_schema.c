// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of mcp/tools/schema: a schema and a value, parted by a NUL byte.  Real schemas are
// our own; here both are hostile.  Built and run by `make fuzz`.

#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"
#include "mcp/tools/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, '\0', size) : NULL;
    if (!nul)
        return 0;
    size_t first = (size_t)(nul - data);
    json_t *schema = json_loadb((const char *)data, first, JSON_DECODE_ANY, NULL);
    json_t *value =
        json_loadb((const char *)nul + 1, size - first - 1, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    char message[256];
    if (schema && value) {
        int r = schema_check(schema, value, message, sizeof message);
        size_t length = strnlen(message, sizeof message);
        assert(length < sizeof message);
        assert((r == 0) == (length == 0));
        assert(utf8_valid_length(message, length) == length);
    }
    json_decref(schema);
    json_decref(value);
    return 0;
}
