// SPDX-License-Identifier: Apache-2.0
//
// tool_shared: the tables of the default set's tools, and what they share: execute_python and
// check_run (tool_execute.c), get_sandbox_info (tool_info.c), validate_code (tool_check.c),
// sessions (tool_session.c), files (tool_files.c), environments (tool_env.c, tool_packages.c).

#ifndef CONSTRICTOR_MCP_TOOLS_TOOL_SHARED_H
#define CONSTRICTOR_MCP_TOOLS_TOOL_SHARED_H

#include "mcp/tools/tool_run.h"
#include "mcp/tools/tools.h"

// Each ends with a row without a name.
extern const struct mcp_tool run_tools[], check_tools[], info_tools[], session_tools[],
    file_tools[], install_tools[], env_tools[], package_tools[];

// The output schema of execute_python and of other tools that run code.
extern const char tool_run_schema[];

// Makes the plan of a session that MCP opens, from the arguments of a tool: timeout, cpu_seconds,
// memory_mb, and name, idle_timeout, checkpoint where the tool has them.
void tool_session_plan(const struct mcp *m, json_t *arguments, struct session_plan *ret);

// A text argument without NUL; NULL: it has one, and the call was answered.
const char *tool_string(struct mcp_call *c, json_t *arguments, const char *name);

// SECURITY: every tool that runs code asks here first, if the configuration wants a person's
// consent. `then` begins with tool_has_consent(), which answers the call if the person declined.
// `rules`: the rule set of tool_network(); NULL: that of the key.
void tool_ask_consent(struct mcp_call *c, json_t *code, const json_t *rules,
                      void (*then)(struct mcp_call *c, json_t *answers));
bool tool_has_consent(struct mcp_call *c, json_t *answers);

// What callers bring along, checked: 0, or -1 when the call was answered.
int tool_check_inputs(struct mcp_call *c, json_t *arguments);

// The rule set (run/network.h) that argument `network` asks for, new; NULL without one.  -1: the
// call was answered.
int tool_network(struct mcp_call *c, json_t *arguments, json_t **ret_rules);

// What arguments `environment` and `packages` say, at most one of them: the first borrowed, the
// second checked and new.
// -1: the call was answered.
int tool_packages(struct mcp_call *c, json_t *arguments, const char **ret_environment,
                  json_t **ret_packages);

// What get_sandbox_info tells this caller: an object, new.  NULL: memory is out.
json_t *tool_info_json(struct mcp *m, const char *owner);

#endif
