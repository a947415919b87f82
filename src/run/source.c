// SPDX-License-Identifier: Apache-2.0
//
// source: see source.h.  Touches nothing but its arguments; runs in any process.

#include "run/source.h"

#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"

int source_too_large(const char *name, uint64_t max, struct err *e)
{
    return err_set(e, ERR_SOURCE_TOO_LARGE, 0, "put data into files, or allow more with --source",
                   "the source '%s' is larger than %llu bytes", name, (unsigned long long)max);
}

// Python itself would say less: which byte, on which line.
int source_check(const char *code, size_t length, const char *name, uint64_t max, struct err *e)
{
    if (length > max)
        return source_too_large(name, max, e);
    const char *nul = memchr(code, '\0', length);
    size_t bad = utf8_valid_length(code, length);
    // Another encoding may be declared in the first two lines (PEP 263); then Python decides.
    size_t head = length < 256 ? length : 256;
    bool declared = memmem(code, head, "coding", 6) != NULL;
    size_t at = nul ? (size_t)(nul - code) : bad;
    unsigned line = 1;
    for (size_t i = 0; i < at && i < length; i++)
        line += code[i] == '\n';
    if (nul)
        return err_set(e, ERR_SOURCE_NUL, 0, "remove it; Python source is text",
                       "the source '%s' has a NUL byte at offset %zu, line %u", name, at, line);
    if (bad < length && !declared)
        return err_set(e, ERR_SOURCE_ENCODING, 0,
                       "save it as UTF-8, or declare its encoding in the first line",
                       "the source '%s' is not UTF-8 at offset %zu, line %u", name, at, line);
    return 0;
}
