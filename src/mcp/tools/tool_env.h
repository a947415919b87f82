// SPDX-License-Identifier: Apache-2.0
//
// tool_env: what the tools for environments and packages share: tool_env.c (install_package,
// create_python_env, reset_sandbox) and tool_packages.c (check_package_status,
// list_installed_packages).

#ifndef CONSTRICTOR_MCP_TOOLS_TOOL_ENV_H
#define CONSTRICTOR_MCP_TOOLS_TOOL_ENV_H

#include "mcp/tools/schema_words.h"
#include "mcp/tools/tool_shared.h"

// Ends the call with an error that a model can act on.
void tool_env_refuse(struct mcp_call *c, const struct err *e);
// Are there environments?  False: the call was answered.
bool tool_env_has_gate(struct mcp_call *c);
// Answers with an object and its words; takes both.
void tool_env_answer(struct mcp_call *c, json_t *object, char *words, bool is_error);
// The same with the status of an install, which is borrowed; `lead` precedes the words.
void tool_env_answer_status(struct mcp_call *c, json_t *status, const char *lead);
// The environment that a call names; NULL: the call was answered.
const char *tool_env_name(struct mcp_call *c, json_t *arguments);

// Answers a call in the form of another server (compat/sets.h), with the status of an install, or
// with NULL and the error.  All are borrowed.
typedef void (*tool_env_present)(struct mcp_call *c, json_t *arguments, json_t *status,
                                 const struct err *error);
struct env_job_plan;
// Starts an install; answers when it is over, or after `wait_ms` with its progress.
void tool_env_install(struct mcp_call *c, json_t *arguments, struct env_job_plan *request,
                      uint64_t wait_ms, tool_env_present present);
// The requirements of arguments `packages` or `package_names`, new; NULL: the call was answered.
json_t *tool_env_requirements(struct mcp_call *c, json_t *arguments);

// The name without extras and versions: "Foo[bar]>=2" is "Foo".
void tool_env_bare_name(const char *requirement, char *buf, size_t cap);
// A package in the answer of packages_ask(), by any spelling of its name; borrowed, or NULL.
json_t *tool_env_find_package(json_t *found, const char *package);

// What envs_status() makes.
extern const char tool_env_status_output[];

// clang-format off

#define INPUT(required, fields)                                                                    \
    "{\"type\": \"object\", \"properties\": {" fields "}, \"required\": [" required "], "          \
    "\"additionalProperties\": false}"
#define WAIT_ARGUMENT(fallback, text)                                                              \
    "\"wait\": {\"type\": \"number\", \"minimum\": 0, \"maximum\": 50, \"default\": " fallback \
        ", " \
    "\"description\": \"" text "\"}"
#define PACKAGE                                                                                    \
    OBJECT("\"name\"", FIELD("name", STRING) ", " FIELD("version", NULLABLE(STRING)) ", " \
        FIELD("base", BOOLEAN))

// clang-format on

#endif
