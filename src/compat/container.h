// SPDX-License-Identifier: Apache-2.0
//
// container: what the tool set 'containers' calls a container: an environment (env/envs.h) and a
// session (session/session.h) with the same unguessable name, which is its id.  The environment has
// its packages, the session its files; each run in it has a fresh interpreter.  It ends with its
// session, when it was not used for --session-ttl.
//
//   1. The session is opened with the container.  An id with our prefix but without a session is a
//      container that has ended; its environment is deleted when the next container is made or all
//      are listed.
//   2. Where environments are not available (another server has the state folder) a container is
//   only
//      a session, and an installation returns an error.
//   3. Any other environment of the caller, such as one of the tool create_python_env, becomes a
//      container when it is first used as one.

#ifndef CONSTRICTOR_COMPAT_CONTAINER_H
#define CONSTRICTOR_COMPAT_CONTAINER_H

#include "env/envs.h"
#include "mcp/tools/tool_run.h"
#include "mcp/tools/tools.h"

#define CONTAINER_PREFIX "ctr-"

enum {
    CONTAINER_RANDOM = 16, // bytes of an id
    CONTAINER_NAME_MAX = ENV_NAME_MAX - 4 - 2 * CONTAINER_RANDOM - 1,
};

// A new id, followed by `name` as far as an environment's name may have it.  -1: the kernel has no
// random bytes.
int container_make_id(const char *name, char ret[ENV_NAME_MAX + 1]);
// The name within an id: "" for one without.  Borrowed.
const char *container_name(const char *id);

// The id in argument container_id or sandbox_id.  NULL: there is no such container, and the call
// was answered.
const char *container_id(struct mcp_call *c, json_t *arguments);

// The part that all requests to run something in it have in common.  Fills `plan`, which has to
// live as long.
struct exec_request container_request(const struct mcp *m, const char *id,
                                      struct session_plan *plan);

json_t *containers_list(struct mcp_call *c); // the caller's ids, a new array
void containers_tidy(struct mcp_call *c);    // deletes the environments of ended containers

// Answers with {"error", "status": "error", "success": false, "complete": true}.
void container_refuse(struct mcp_call *c, const struct err *e);

// ---- what runs in them (set_container_run.c) ----------------------------------------------------

void container_execute(struct mcp_call *c, json_t *arguments);  // execute_python_code
void container_terminal(struct mcp_call *c, json_t *arguments); // execute_terminal_command
void container_upload(struct mcp_call *c, json_t *arguments);   // upload_file_to_sandbox

#endif
