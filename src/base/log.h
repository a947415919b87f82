// SPDX-License-Identifier: Apache-2.0
//
// log: one line per event on stderr.  Only main, the keeper's loop, the gate's loop and the
// commands write logs; everything below them returns `struct err`.

#ifndef CONSTRICTOR_BASE_LOG_H
#define CONSTRICTOR_BASE_LOG_H

#include "base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

// Process-wide; set once before the first fork.
void log_init(enum log_level level, const char *process);
// Begins every line with the time: for a log that is a file.  Process-wide, and of all that are
// forked later.
void log_with_time(void);
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void log_err(enum log_level level, const struct err *e);

#endif
