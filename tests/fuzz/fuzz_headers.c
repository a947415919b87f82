// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of mcp/transport/headers: the input is lines, as a stranger could send them: "Name:
// value" headers up to an empty line, then the body of a request.  Built and run by `make fuzz`.

#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"
#include "mcp/transport/headers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PAIRS_MAX = 32 };

struct pairs {
    size_t count;
    const char *names[PAIRS_MAX], *values[PAIRS_MAX];
};

static unsigned get(const void *of, const char *name, const char **ret)
{
    const struct pairs *p = of;
    unsigned count = 0;
    for (size_t i = 0; i < p->count; i++)
        if (strcasecmp(p->names[i], name) == 0 && !count++)
            *ret = p->values[i];
    return count;
}

// Takes the headers off `text`; what is left is the body.
static char *split(char *text, struct pairs *ret)
{
    char *line;
    while ((line = strsep(&text, "\n")) && *line && ret->count < PAIRS_MAX) {
        char *value = strchr(line, ':');
        if (!value)
            continue;
        *value = '\0';
        ret->names[ret->count] = line;
        ret->values[ret->count++] = value + 1;
    }
    return text ? text : "";
}

static void check_value(const char *value)
{
    char *text = NULL;
    size_t length = 0;
    int r = header_decode(value, &text, &length);
    assert(r == 0 || r == -EINVAL || r == -ENOMEM);
    if (r == 0) {
        assert(length <= strlen(value) && text[length] == '\0');
        assert(utf8_valid_length(text, length) == length);
    }
    free(text);
}

static void check_refusal(int r, struct rpc_refusal *no)
{
    assert(r == 0 || r == -1);
    if (r == 0)
        return;
    assert(no->code == MCP_HEADER_MISMATCH && no->status == 400 && no->message[0]);
    json_t *body = rpc_refusal_json(no);
    char *text = body ? json_dumps(body, 0) : NULL;
    assert(text); // whatever was sent, the answer can be
    free(text);
    json_decref(body);
    rpc_refusal_clear(no);
}

static void check_request(const struct headers *h, const char *body)
{
    static const struct mcp_method rows[] = {{.name = "tools/list"},
                                             {.name = "tools/call", .name_param = "name"}};
    struct rpc_message m;
    struct rpc_refusal no;
    if (rpc_read(body, strlen(body), &m, &no) < 0) {
        rpc_refusal_clear(&no);
        return;
    }
    if (m.kind == RPC_REQUEST) {
        json_t *arguments = json_object_get(m.params, "arguments");
        check_refusal(headers_check_version(h, &m, &no), &no);
        check_refusal(headers_check_standard(h, &m, &rows[0], &no), &no);
        check_refusal(headers_check_standard(h, &m, &rows[1], &no), &no);
        // The schema comes from the stranger too, which is more than can happen.
        check_refusal(headers_check_params(h, json_object_get(m.params, "schema"), arguments, &no),
                      &no);
    }
    rpc_message_clear(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pairs pairs = {0};
    struct headers headers = {get, &pairs};
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    const char *body = split(text, &pairs);
    for (size_t i = 0; i < pairs.count; i++)
        check_value(pairs.values[i]);
    check_request(&headers, body);
    free(text);
    return 0;
}
