// SPDX-License-Identifier: Apache-2.0
//
// log: see log.h.  One write() per line, so that lines of keeper and gate do not mix.

#include "base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static enum log_level log_max = LOG_WARN;
static const char *log_process = "constrictor";
static bool log_time;

void log_init(enum log_level level, const char *process)
{
    log_max = level;
    log_process = process;
}

void log_with_time(void)
{
    log_time = true;
}

// "2026-11-16T03:12:00.123Z ", or "".  Its length.
static int format_time(char *buf, size_t cap)
{
    struct timespec now;
    struct tm t;
    buf[0] = '\0';
    if (!log_time || clock_gettime(CLOCK_REALTIME, &now) < 0 || !gmtime_r(&now.tv_sec, &t))
        return 0;
    size_t n = strftime(buf, cap, "%Y-%m-%dT%H:%M:%S", &t);
    return (int)n + snprintf(buf + n, cap - n, ".%03dZ ", (int)(now.tv_nsec / 1000000));
}

void log_line(enum log_level level, const char *fmt, ...)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    char line[2048];

    if (level > log_max)
        return;
    int n = format_time(line, sizeof line);
    n += snprintf(line + n, sizeof line - (size_t)n, "%s: %s: ", log_process, names[level]);
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
    va_end(ap);
    size_t len = (size_t)n + (m < 0 ? 0 : (size_t)m);
    if (len > sizeof line - 2)
        len = sizeof line - 2;
    // SECURITY: text in a log line may come from a client or a box; control characters could forge
    // lines or drive a terminal.
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    line[len++] = '\n';
    (void)!write(STDERR_FILENO, line, len); // nowhere to report a failing log to
}

void log_err(enum log_level level, const struct err *e)
{
    log_line(level, "%s [%s]%s%s", e->message, err_code_name(e->code), e->hint[0] ? " hint: " : "",
             e->hint);
}
