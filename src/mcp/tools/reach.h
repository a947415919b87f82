// SPDX-License-Identifier: Apache-2.0
//
// reach: a file of a session or of a run, wherever it is now: in the scratch folder of a live box,
// or among the artifacts that outlive it.  Used by the tools for files and by the resources
// sandbox://.
//
// A place is what a caller names: the handle or the name of a session, or the execution_id of a run
// that had none.

#ifndef CONSTRICTOR_MCP_TOOLS_REACH_H
#define CONSTRICTOR_MCP_TOOLS_REACH_H

#include "files/scratch.h"
#include "files/store.h"
#include "mcp/protocol/mcp.h"
#include "session/session.h"

enum { REACH_SIZE_MAX = 32, REACH_HEAD_MAX = 512 };

// A file, and the part of it that was asked for.
struct reach_file {
    char place[STORE_PLACE_MAX + 1];
    char path[SCRATCH_PATH_MAX + 1];
    uint64_t size;
    int64_t modified_ms; // since 1970
    bool has_link;       // `artifact` is this file as it is
    struct artifact artifact;
    char head[REACH_HEAD_MAX]; // its first bytes, which tell what it is
    size_t head_length;
    char *data; // `length` bytes from `offset` on, and a NUL; reach.c frees it when the function
                // that got this has returned
    uint64_t offset;
    size_t length; // less than was asked for at the end of the file
};

// The file is there, with all but its data: which part is wanted?  `offset` and `length` are 0
// before.
typedef void (*reach_want)(const struct mcp_call *c, const struct reach_file *f,
                           uint64_t *ret_offset, size_t *ret_length);
// What goes on with the call; it ends the call.  `f` is NULL when there is an error.
typedef void (*reach_opened)(struct mcp_call *c, const struct reach_file *f,
                             const struct err *error);
typedef void (*reach_changed)(struct mcp_call *c,
                              const struct scratch_file *file /* NULL: deleted */,
                              const struct err *error);
// `list` is of a live session, or NULL: then there are artifacts only.
typedef void (*reach_listed)(struct mcp_call *c, const char *place, const struct scratch_list *list,
                             const struct artifact *artifacts, size_t count, uint64_t more,
                             const struct err *error);

// Each sets the call's `work` and `cancel` while it waits, and calls `then` exactly once, perhaps
// at once, unless the call is cancelled.
void reach_read(struct mcp_call *c, const char *place, const char *path, reach_want want,
                reach_opened then);
void reach_list(struct mcp_call *c, const char *place, reach_listed then);
// In a live session only; `data` is taken.
void reach_write(struct mcp_call *c, struct session *s, const char *path, char *data, size_t length,
                 reach_changed then);
void reach_delete(struct mcp_call *c, const char *place, const char *path, reach_changed then);

// "0.3 kB", as people read it.
void reach_describe_size(uint64_t size, char buf[REACH_SIZE_MAX]);

#endif
