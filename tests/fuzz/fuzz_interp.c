// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of keeper/interp: any bytes as the answer of an interpreter, or as a file in its
// cache. Built and run by `make fuzz`.

#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "keeper/interp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct interp in;
    struct err e = {.code = ERR_CODE_MAX};
    char *answer = malloc(size + 1);
    if (!answer)
        return 0;
    memcpy(answer, data, size);
    answer[size] = '\0';
    int r = interp_parse(answer, &in, &e);
    assert(r <= 0);
    assert(in.path_count <= INTERP_PATHS_MAX);
    assert(memchr(in.executable, '\0', sizeof in.executable));
    assert(memchr(in.version, '\0', sizeof in.version));
    for (size_t i = 0; i < in.path_count; i++) {
        assert(in.paths[i][0] == '/' && memchr(in.paths[i], '\0', PATH_MAX));
        // No folder twice, none inside another.
        for (size_t k = 0; k < in.path_count; k++) {
            size_t n = strlen(in.paths[i]);
            assert(k == i || strncmp(in.paths[k], in.paths[i], n) != 0 ||
                   (in.paths[k][n] != '/' && in.paths[k][n] != '\0'));
        }
        // Never a folder that holds other people's files.
        static const char *const never[] = {"/", "/home", "/root", "/etc", "/tmp", "/var"};
        for (size_t k = 0; k < sizeof never / sizeof *never; k++)
            assert(strcmp(in.paths[i], never[k]) != 0);
    }
    if (r == 0) {
        assert(in.executable[0] == '/' && in.version[0]);
    } else {
        assert(e.code == ERR_INTERPRETER || e.code == ERR_INTERPRETER_TOO_OLD);
        assert(e.message[0] && memchr(e.message, '\0', sizeof e.message));
        assert(e.hint[0]);
    }
    free(answer);
    return 0;
}
