// SPDX-License-Identifier: Apache-2.0
//
// scratch_path: see scratch_path.h and scratch.h.  Runs in the gate, on what clients and boxes say;
// the decoder is fuzzed by tests/fuzz/fuzz_filed.c.

#include "files/scratch_path.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"

// ---- paths --------------------------------------------------------------------------------------

static const char path_hint[] = "name a file below /mnt/data, such as 'data/table.csv': at most "
                                "1024 bytes of UTF-8 and 32 folders "
                                "deep, without '..' and control characters";

// Offset of the first control character (U+0000-U+001F, U+007F-U+009F), or `length`.
static size_t printable_length(const char *s, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < 0x20 || c == 0x7f ||
            (c == 0xc2 && i + 1 < length && (unsigned char)s[i + 1] < 0xa0))
            return i;
    }
    return length;
}

// How much of a path to show: a message is bounded, and must not end within a character.
static int shown_length(const char *path)
{
    enum { SHOWN_MAX = 200 };
    size_t n = strnlen(path, SHOWN_MAX);
    return (int)utf8_valid_length(path, n);
}

enum component { COMPONENT_NAME, COMPONENT_NOTHING, COMPONENT_UP };

static enum component kind_of(const char *name, size_t n)
{
    if (n == 0 || (n == 1 && name[0] == '.'))
        return COMPONENT_NOTHING;
    return n == 2 && name[0] == '.' && name[1] == '.' ? COMPONENT_UP : COMPONENT_NAME;
}

struct builder {
    char *to;
    size_t length;
    unsigned depth, root; // root: how many names of "/mnt/data" are still to come
};

static int add_name(struct builder *b, const char *name, size_t n, struct err *e)
{
    static const char *const roots[] = {"data", "mnt"};
    if (b->root) {
        const char *want = roots[--b->root];
        if (n == strlen(want) && memcmp(name, want, n) == 0)
            return 0;
        return err_set(e, ERR_FILE_PATH, 0, path_hint, "the path is outside of /mnt/data");
    }
    if (n > SCRATCH_NAME_MAX)
        return err_set(e, ERR_FILE_PATH, 0, path_hint, "a name of %zu bytes is longer than %d", n,
                       SCRATCH_NAME_MAX);
    if (++b->depth > SCRATCH_DEPTH_MAX)
        return err_set(e, ERR_FILE_PATH, 0, path_hint, "the path is more than %d names deep",
                       SCRATCH_DEPTH_MAX);
    if (b->length + (b->length > 0) + n > SCRATCH_PATH_MAX)
        return err_set(e, ERR_FILE_PATH, 0, path_hint, "the path is longer than %d bytes",
                       SCRATCH_PATH_MAX);
    if (b->length)
        b->to[b->length++] = '/';
    memcpy(b->to + b->length, name, n);
    b->length += n;
    return 0;
}

int scratch_path(const char *text, size_t length, char ret[SCRATCH_PATH_MAX + 1], struct err *e)
{
    char path[SCRATCH_PATH_MAX + 1];
    struct builder b = {.to = path, .root = length && text[0] == '/' ? 2 : 0};
    size_t bad = utf8_valid_length(text, length);
    if (bad < length)
        return err_set(e, ERR_FILE_PATH, 0, path_hint, "the path is not UTF-8 at byte %zu", bad);
    bad = printable_length(text, length);
    if (bad < length)
        return err_set(e, ERR_FILE_PATH, 0, path_hint,
                       "the path has a control character at byte %zu", bad);
    for (size_t i = 0, n; i <= length; i += n + 1) {
        const char *slash = i < length ? memchr(text + i, '/', length - i) : NULL;
        n = slash ? (size_t)(slash - text) - i : length - i;
        enum component kind = kind_of(text + i, n);
        if (kind == COMPONENT_UP)
            return err_set(e, ERR_FILE_PATH, 0, path_hint, "the path has '..' in it");
        int r = kind == COMPONENT_NAME ? add_name(&b, text + i, n, e) : 0;
        if (r < 0)
            return r;
    }
    if (b.root)
        return err_set(e, ERR_FILE_PATH, 0, path_hint, "the path is outside of /mnt/data");
    if (b.length == 0)
        return err_set(e, ERR_FILE_PATH, 0, path_hint, "the path names no file");
    path[b.length] = '\0';
    memcpy(ret, path, b.length + 1);
    return 0;
}

// ---- what a box says ----------------------------------------------------------------------------

bool scratch_check(const char *data, size_t length, struct frame_filed *ret)
{
    enum { ERRNO_MAX = 4095 };
    struct frame_filed f;
    if (length < sizeof f)
        return false;
    memcpy(&f, data, sizeof f);
    if (f.op == 0 || f.op >= FILE_OP_MAX || f.errnum < 0 || f.errnum > ERRNO_MAX || f.more > 1 ||
        f.reserved)
        return false;
    bool worked = f.errnum == 0, plain = f.op != FILE_LIST || !worked;
    bool in_file = f.op == FILE_READ || f.op == FILE_WRITE;
    uint32_t most = f.op == FILE_BUSY; // else `count` must be 0
    size_t tail = length - sizeof f, tail_max = f.op == FILE_READ && worked ? FRAME_DATA_MAX : 0;
    // A list that continues must not be empty.
    if (plain ? f.more || f.count > most || tail > tail_max : f.more && !f.count)
        return false;
    if (f.offset && !in_file)
        return false;
    *ret = f;
    return true;
}

// Is the path in the form in which the gate asks boxes for it?
static bool is_normal(const char *path, size_t length)
{
    char normal[SCRATCH_PATH_MAX + 1];
    return length > 0 && length <= SCRATCH_PATH_MAX && path[0] != '/' &&
           scratch_path(path, length, normal, NULL) == 0 && strlen(normal) == length;
}

static int add_file(struct scratch_list *l, size_t *capacity, const struct frame_entry *entry,
                    const char *path)
{
    if (l->count == *capacity) {
        size_t want = *capacity ? *capacity * 2 : 16;
        struct scratch_file *files = realloc(l->files, want * sizeof *files);
        if (!files)
            return -ENOMEM;
        l->files = files;
        *capacity = want;
    }
    char *copy = strndup(path, entry->path_length);
    if (!copy)
        return -ENOMEM;
    l->files[l->count++] = (struct scratch_file){.path = copy,
                                                 .size = entry->stat.size,
                                                 .mtime_ns = entry->stat.mtime_ns,
                                                 .ctime_ns = entry->stat.ctime_ns,
                                                 .inode = entry->stat.inode,
                                                 .folder = entry->folder};
    return 0;
}

int scratch_decode(struct scratch_list *l, size_t *capacity, const struct frame_filed *f,
                   const char *data, size_t length)
{
    struct frame_entry entry;
    if (f->count > SCRATCH_LIST_MAX - l->count)
        return -EBADMSG;
    for (uint32_t i = 0; i < f->count; i++) {
        if (length < sizeof entry)
            return -EBADMSG;
        memcpy(&entry, data, sizeof entry);
        data += sizeof entry;
        length -= sizeof entry;
        if (entry.path_length > length || entry.folder > 1 || !is_normal(data, entry.path_length))
            return -EBADMSG;
        int n = add_file(l, capacity, &entry, data);
        if (n < 0)
            return n;
        data += entry.path_length;
        length -= entry.path_length;
    }
    l->left_out = f->left_out;
    l->odd = f->odd;
    return length == 0 ? 0 : -EBADMSG;
}

// ---- lists --------------------------------------------------------------------------------------

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct scratch_file *)a)->path, ((const struct scratch_file *)b)->path);
}

void scratch_list_sort(struct scratch_list *l)
{
    if (l->count)
        qsort(l->files, l->count, sizeof *l->files, by_path);
}

void scratch_list_clear(struct scratch_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->files[i].path);
    free(l->files);
    *l = (struct scratch_list){0};
}

static bool differs(const struct scratch_file *a, const struct scratch_file *b)
{
    return a->folder != b->folder || a->size != b->size || a->mtime_ns != b->mtime_ns ||
           a->ctime_ns != b->ctime_ns || a->inode != b->inode;
}

ptrdiff_t scratch_changes(const struct scratch_list *before, const struct scratch_list *now,
                          size_t **ret)
{
    size_t *changes = malloc((now->count ? now->count : 1) * sizeof *changes), count = 0;
    if (!changes)
        return -ENOMEM;
    // A file that is missing in a truncated earlier list may have existed all the same.  Then it
    // counts as new only if it is younger than everything in that list.
    int64_t newest = INT64_MIN;
    for (size_t i = 0; before->left_out && i < before->count; i++)
        if (before->files[i].ctime_ns > newest)
            newest = before->files[i].ctime_ns;
    for (size_t i = 0, j = 0; i < now->count; i++) {
        const struct scratch_file *f = &now->files[i];
        while (j < before->count && by_path(&before->files[j], f) < 0)
            j++;
        bool known = j < before->count && by_path(&before->files[j], f) == 0;
        bool changed =
            known ? differs(&before->files[j], f) : !before->left_out || f->ctime_ns > newest;
        if (!f->folder && changed)
            changes[count++] = i;
    }
    *ret = changes;
    return (ptrdiff_t)count;
}

// ---- words for what went wrong ------------------------------------------------------------------

struct reason {
    int errnum;
    enum frame_file_op op; // 0: any
    enum err_code code;
    bool keep_errno;  // append the kernel's error text
    const char *text; // has the path
    const char *hint;
};

static const struct reason reasons[] = {
    {ENOENT, FILE_CREATE, ERR_FILE_REFUSED, false,
     "'%.*s' was removed while it was written: code in the box is busy in its folder",
     "write it again when no run is going on"},
    {ENOENT, 0, ERR_FILE_UNKNOWN, false, "there is no file '%.*s' in /mnt/data",
     "list the files to see what is there"},
    {ENOTDIR, 0, ERR_FILE_PATH, false, "'%.*s' leads through something that is not a folder",
     "list the files to see what is there"},
    {EISDIR, FILE_CREATE, ERR_FILE_KIND, false,
     "'%.*s' is a folder and cannot be replaced by a file",
     "choose another name, or delete the folder first"},
    {EISDIR, 0, ERR_FILE_KIND, false, "'%.*s' is a folder", "name a file in it"},
    {ELOOP, 0, ERR_FILE_KIND, false, "'%.*s' is a symbolic link, or leads through one",
     "links are not followed: name the file itself"},
    {EXDEV, 0, ERR_FILE_PATH, false, "'%.*s' leads out of /mnt/data", path_hint},
    {ENXIO, 0, ERR_FILE_KIND, false, "'%.*s' is a pipe, a socket or a device, not a regular file",
     "only regular files can be read"},
    {EACCES, 0, ERR_FILE_REFUSED, false, "the permissions of '%.*s', or of its folder, forbid it",
     "change them from code with os.chmod"},
    {EPERM, 0, ERR_FILE_REFUSED, false, "the permissions of '%.*s', or of its folder, forbid it",
     "change them from code with os.chmod"},
    {ESTALE, 0, ERR_FILE_REFUSED, false, "code in the box replaced '%.*s' at the same moment",
     "try again"},
    {EAGAIN, 0, ERR_FILE_REFUSED, false, "'%.*s' is locked by code in the box", "try again later"},
    {ENAMETOOLONG, 0, ERR_FILE_PATH, false, "the path '%.*s' is too long", path_hint},
    {EINVAL, 0, ERR_FILE_PATH, false, "'%.*s' is not a path that a box can have", path_hint},
    {ETIMEDOUT, 0, ERR_FILE_TIMEOUT, false,
     "the box did not answer in 10 seconds about its files ('%.*s')",
     "the code in it may be using all of its processor time; try again when the run is over"},
    {EROFS, 0, ERR_FILE_REFUSED, false,
     "'%.*s' cannot be written: the policy of this session has no tier 'filesystem', and code has "
     "run",
     "upload files before or with the first run of a session, or ask the operator to enable the "
     "tier (--enable-filesystem)"},
    {E2BIG, 0, ERR_FILE_REFUSED, false, "'%.*s' has too many files to be removed",
     "stop the code that creates files there, or remove it with shutil.rmtree"},
};

static const struct reason unknown = {
    0, 0, ERR_SYSTEM, true, "the box failed to do this with '%.*s'", NULL};

static const struct reason *find_reason(int errnum, enum frame_file_op op)
{
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].errnum == errnum && (reasons[i].op == 0 || reasons[i].op == op))
            return &reasons[i];
    return &unknown;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" // from the table above

void scratch_error(struct err *e, int errnum, enum frame_file_op op, const char *path,
                   const struct wire_limits *limits)
{
    if (!path)
        path = ".";
    int shown = shown_length(path);
    if (errnum == EPIPE) {
        (void)err_set(e, ERR_SESSION_ENDED, 0, "open another session, or run the code again",
                      "the box is gone, and its files with it");
    } else if (errnum == ENOSPC || errnum == EDQUOT) {
        (void)err_set(
            e, ERR_DISK_FULL, 0,
            "delete files that are not needed any more; the operator can raise --scratch or "
            "--inodes",
            "no room for '%.*s': the files of a box may have %" PRIu64 " bytes and %u names", shown,
            path, limits->scratch_bytes, limits->inodes);
    } else if (errnum == EFBIG) {
        (void)err_set(e, ERR_FILE_TOO_LARGE, 0,
                      "make it smaller; the operator can raise --file-size",
                      "'%.*s' is too large: a file may have %" PRIu64 " bytes", shown, path,
                      limits->file_bytes);
    } else {
        const struct reason *r = find_reason(errnum, op);
        (void)err_set(e, r->code, r->keep_errno ? errnum : 0, r->hint, r->text, shown, path);
    }
}

#pragma GCC diagnostic pop

void scratch_no_room(struct err *e, const char *path, uint64_t size, uint64_t room,
                     const struct wire_limits *limits)
{
    char wanted[32], left[32], all[32];
    if (room >= size) { // there are too many names
        scratch_error(e, ENOSPC, FILE_CREATE, path, limits);
        return;
    }
    text_format_size(size, wanted, sizeof wanted);
    text_format_size(room > 10 * TEXT_MIB ? room - room % TEXT_MIB : room, left, sizeof left);
    text_format_size(limits->scratch_bytes, all, sizeof all);
    (void)err_set(
        e, ERR_DISK_FULL, 0,
        "delete files that are not needed any more; the operator can raise --scratch",
        "no room for '%.*s': it has %s, and %s of the %s for the files of this box are left",
        shown_length(path), path, wanted, left, all);
}
