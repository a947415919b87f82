// SPDX-License-Identifier: Apache-2.0
//
// file_access: reads, lists, writes and deletes files of a session or a run, in the scratch folder
// of a live box or among the artifacts that outlive it.  Used by the tools for files and by the
// resources sandbox://.
//
// A holder is what a caller names: the handle or the name of a session, or the execution_id of a
// run that had none.

#ifndef CONSTRICTOR_MCP_TOOLS_FILE_ACCESS_H
#define CONSTRICTOR_MCP_TOOLS_FILE_ACCESS_H

#include "files/scratch.h"
#include "files/store.h"
#include "mcp/protocol/mcp.h"
#include "session/session.h"

enum { FILE_SIZE_TEXT_MAX = 32, FILE_HEAD_MAX = 512 };

// A file, and the part of it that was asked for.
struct found_file {
    char holder[STORE_HOLDER_MAX + 1];
    char path[SCRATCH_PATH_MAX + 1];
    uint64_t size;
    int64_t modified_ms; // since 1970
    bool has_link;       // `artifact` is this file as it is
    struct artifact artifact;
    char head[FILE_HEAD_MAX]; // its first bytes, which tell what it is
    size_t head_length;
    char *data; // `length` bytes from `offset` on, and a NUL; freed when the callback returns
    uint64_t offset;
    size_t length; // less than asked at the end of the file
};

// The file was found; its data is not read yet.  Sets the part to read; both are 0 before.
typedef void (*file_access_want)(const struct mcp_call *c, const struct found_file *f,
                                 uint64_t *ret_offset, size_t *ret_length);
// Ends the call.  `f` is NULL when there is an error.
typedef void (*file_access_opened)(struct mcp_call *c, const struct found_file *f,
                                   const struct err *error);
typedef void (*file_access_changed)(struct mcp_call *c,
                                    const struct scratch_file *file /* NULL: deleted */,
                                    const struct err *error);
// `list` is NULL when no session is live: there are artifacts only.
typedef void (*file_access_listed)(struct mcp_call *c, const char *holder,
                                   const struct scratch_list *list,
                                   const struct artifact *artifacts, size_t count, uint64_t more,
                                   const struct err *error);

// Each sets the call's `work` and `cancel` while it waits, and calls `then` exactly once, perhaps
// before it returns, unless the call is cancelled.
void file_access_read(struct mcp_call *c, const char *holder, const char *path,
                      file_access_want want, file_access_opened then);
void file_access_list(struct mcp_call *c, const char *holder, file_access_listed then);
// In a live session only; `data` is taken.
void file_access_write(struct mcp_call *c, struct session *s, const char *path, char *data,
                       size_t length, file_access_changed then);
void file_access_delete(struct mcp_call *c, const char *holder, const char *path,
                        file_access_changed then);

// Such as "0.3 kB".
void file_describe_size(uint64_t size, char buf[FILE_SIZE_TEXT_MAX]);

#endif
