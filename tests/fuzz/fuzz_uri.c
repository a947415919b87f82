// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of the URIs of resources.  run:// (mcp/tools/outputs): what is taken is exactly what
// would be written. sandbox:// (mcp/tools/file_resources): what is taken is a path below scratch,
// and what is written for it leads to it again.  Built and run by `make fuzz`.

#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec_input.h"
#include "mcp/tools/file_resources.h"
#include "mcp/tools/outputs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_sandbox(const char *uri)
{
    char session[FILE_URI_SESSION_MAX + 1], path[SCRATCH_PATH_MAX + 1], own[FILE_URI_MAX];
    char place2[FILE_URI_SESSION_MAX + 1], path2[SCRATCH_PATH_MAX + 1];
    if (file_resources_parse_uri(uri, session, path) < 0)
        return;
    assert(session[0] && path[0] && path[0] != '/' && strncmp(path, "../", 3) != 0);
    exec_file_uri("ses_x", path, own, sizeof own);
    assert(file_resources_parse_uri(own, place2, path2) == 0);
    assert(strcmp(place2, "ses_x") == 0 && strcmp(path, path2) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *uri = malloc(size + 1), id[37], again[OUTPUT_URI_MAX];
    enum output_part part = OUTPUT_PART_MAX;
    assert(uri);
    memcpy(uri, data, size);
    uri[size] = '\0';
    if (mcp_outputs_parse_uri(uri, id, &part) == 0) {
        assert(part < OUTPUT_PART_MAX && strlen(id) == 36);
        mcp_outputs_uri(id, part, again);
        assert(strcmp(uri, again) == 0);
    }
    check_sandbox(uri);
    free(uri);
    return 0;
}
