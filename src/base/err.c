// SPDX-License-Identifier: Apache-2.0
//
// err: see err.h.  Used in every process; allocates nothing, so it is safe wherever snprintf is.

#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int status;
} codes[ERR_CODE_MAX] = {
#define X(name_, text, status_) [name_] = {text, status_},
    ERR_MAP(X)
#undef X
};

int err_set(struct err *e, enum err_code code, int errnum, const char *hint, const char *fmt, ...)
{
    int ret = errnum > 0 ? -errnum : -1;
    if (!e)
        return ret;
    e->code = code;
    e->errnum = errnum > 0 ? errnum : 0;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    if (errnum > 0 && n >= 0 && (size_t)n < sizeof e->message) {
        char text[128];
        // GNU strerror_r: the returned text may or may not be in the buffer.
        snprintf(e->message + n, sizeof e->message - (size_t)n, ": %s",
                 strerror_r(errnum, text, sizeof text));
    }
    snprintf(e->hint, sizeof e->hint, "%s", hint ? hint : "");
    return ret;
}

int err_memory(struct err *e)
{
    (void)err_set(e, ERR_SYSTEM, 0, "try again later", "the server is out of memory");
    if (e)
        e->errnum = ENOMEM;
    return -ENOMEM;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    if (!e)
        return -1;
    char inner[ERR_MESSAGE_MAX];
    memcpy(inner, e->message, sizeof inner);
    inner[sizeof inner - 1] = '\0';
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof e->message)
        snprintf(e->message + n, sizeof e->message - (size_t)n, ": %s", inner);
    return e->errnum ? -e->errnum : -1;
}

void err_hint(struct err *e, const char *fmt, ...)
{
    if (!e)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->hint, sizeof e->hint, fmt, ap);
    va_end(ap);
}

const char *err_code_name(enum err_code code)
{
    return (unsigned)code < ERR_CODE_MAX ? codes[code].name : "internal";
}

int err_exit_status(enum err_code code)
{
    return (unsigned)code < ERR_CODE_MAX ? codes[code].status : 70;
}
