// SPDX-License-Identifier: Apache-2.0
//
// load_source: see load_source.h.

#include "cli/load_source.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "run/source.h"

static int read_all(int fd, uint64_t max, struct source_text *in, struct err *e)
{
    size_t room = 65536;
    in->text = malloc(room);
    for (;;) {
        if (!in->text)
            return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read '%s'", in->name);
        ssize_t n = read(fd, in->text + in->length, room - in->length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(e, ERR_SOURCE_UNREADABLE, errno,
                           "give a file of Python source, or '-' for stdin", "read '%s'", in->name);
        if (n == 0)
            return 0;
        in->length += (size_t)n;
        if (in->length > max)
            return source_too_large(in->name, max, e);
        if (in->length == room) {
            room *= 2;
            char *more = realloc(in->text, room);
            if (!more)
                return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read '%s'", in->name);
            in->text = more;
        }
    }
}

static int open_source(const char *path, struct err *e)
{
    static const char hint[] = "give a file of Python source, '-c CODE', or '-' for stdin";
    struct stat st;
    // O_NONBLOCK: open() of a pipe without a writer must not block.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_set(e, ERR_SOURCE_UNREADABLE, errno, hint, "open '%s'", path);
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        (void)close(fd);
        return err_set(e, ERR_SOURCE_UNREADABLE, EISDIR, hint, "open '%s'", path);
    }
    (void)fd_set_nonblock(fd, false);
    return fd;
}

// Code that does what `python3 -m MODULE` does.
static int write_module(const char *module, struct source_text *in, struct err *e)
{
    in->name = "-m";
    for (const char *p = module; *p || p == module; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_.", *p ? *p : ' ') && !(*p & 0x80))
            return err_set(e, ERR_BAD_VALUE, 0, "give a name such as json.tool",
                           "-m: '%s' is not the name of a module", module);
    int n = asprintf(&in->text,
                     "import runpy; runpy.run_module('%s', run_name='__main__', alter_sys=True);",
                     module);
    if (n < 0)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "copy the name of the module");
    in->length = (size_t)n;
    return 0;
}

int load_source(const struct config *c, const char *operand, struct source_text *in, struct err *e)
{
    *in = (struct source_text){.name = "-c"};
    if (c->code) {
        in->length = strlen(c->code);
        in->text = strdup(c->code);
        if (!in->text)
            return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "copy the code");
        return in->length > c->source_bytes ? source_too_large(in->name, c->source_bytes, e) : 0;
    }
    if (c->module)
        return write_module(c->module, in, e);
    bool from_stdin = strcmp(operand, "-") == 0;
    in->name = from_stdin ? "stdin" : operand;
    int fd = from_stdin ? STDIN_FILENO : open_source(operand, e);
    if (fd < 0)
        return fd;
    int r = read_all(fd, c->source_bytes, in, e);
    if (!from_stdin)
        (void)close(fd);
    return r;
}
