// SPDX-License-Identifier: Apache-2.0
//
// input: stdin of a run, in its box.
//
// Init and the user process share no descriptor, so stdin is a FIFO: the user process makes it and
// opens it for reading, asks init by an outgoing WANT to open it for writing, and removes its name.
// Code reads it as descriptor 0, and so do the programs that it starts.
//
// Invariants:
//   (1) init holds one INPUT frame at most, and asks for the next one (WANT) when the last byte is
//       in the pipe.  So the pipe and one frame are all that the box holds of a stdin, however
//       long.
//   (2) init never blocks on the pipe: it writes what fits, and waits in ppoll for room.
//   (3) a run has its stdin until it is answered: init closes its end before it sends the answer,
//       and drops INPUT that comes later.  Where no reader is left it closes its end as well.

#ifndef CONSTRICTOR_BOX_INPUT_H
#define CONSTRICTOR_BOX_INPUT_H

#include <stdbool.h>
#include <stddef.h>

// ---- user process -------------------------------------------------------------------------------

// At the beginning of a run that has stdin, once at most: the end for reading, which has
// close-on-exec, or a negative errno.
int input_make(void);
// The same for a box whose scratch is read-only, as long as `writer` (BOX_WRITER_FD) is there;
// input_make() then returns it.
void input_make_early(int writer);

// ---- init ---------------------------------------------------------------------------------------

bool input_open(void);                            // false: the FIFO is not there
bool input_take(const char *data, size_t length); // an INPUT frame; false: no gate sends that
int input_fd(void);     // to wait for until it can be written to; -1: nothing is to be written
void input_write(void); // it can
void input_close(void);

#endif
