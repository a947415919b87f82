// SPDX-License-Identifier: Apache-2.0
//
// fd: descriptors and what travels over them.  All descriptors are close-on-exec from birth and -1
// when absent.

#ifndef CONSTRICTOR_BASE_FD_H
#define CONSTRICTOR_BASE_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"

enum { FD_PASS_MAX = 16 }; // descriptors in one message; the largest message of wire.h needs 15

// Closes and sets to -1; fine with -1.
void fd_close(int *fd);

// One datagram with descriptors on a SOCK_SEQPACKET socket.  Returns 0 or a negative errno
// (-EAGAIN on a full non-blocking socket).  Borrows the descriptors.
int fd_send(int sock, const void *data, size_t len, const int *fds, size_t fd_count);

// Receives one datagram of at most `len` bytes and at most `fd_cap` descriptors, all close-on-exec.
// Returns the number of bytes (0 = the other side is gone) or a negative errno; a datagram or a set
// of descriptors that does not fit is -EMSGSIZE and its descriptors are closed.
ssize_t fd_recv(int sock, void *data, size_t len, int *ret_fds, size_t fd_cap,
                size_t *ret_fd_count);

// Fewer than `spare` descriptors can be opened after this one, which was opened last; errno is
// EMFILE then.
bool fd_is_scarce(int fd, int spare);

// Writes all or returns a negative errno.
int fd_write_all(int fd, const void *data, size_t len);

// The same at an offset; bytes that are all 0 become a hole, so the caller sets the size in the
// end.
int fd_write_sparse(int fd, const void *data, size_t len, uint64_t offset);

// SECURITY: the other end of this socket cannot send descriptors to us any more (Linux 6.16; before
// that it can, and they are closed on arrival, which may have to wait for a lock that the sender
// holds).
void fd_refuse_rights(int sock);

int fd_set_nonblock(int fd, bool on);

#endif
