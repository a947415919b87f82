// SPDX-License-Identifier: Apache-2.0
//
// path_set: see path_set.h.

#include "porter/path_set.h"

#include <errno.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "porter/fileio.h"

enum { FIRST_SIZE = 1024, FOLDED = 16, EXACT = 15 };
enum kind { NOTHING, FOLDER, FILE_ };

struct name {
    uint8_t folded[FOLDED]; // of the path in small letters
    uint8_t exact[EXACT];   // of the path as it is
    uint8_t kind;
};

int path_set_open(struct path_set *n, uint64_t folders_max, struct err *e)
{
    *n = (struct path_set){.folders_max = folders_max};
    if (getrandom(n->key, sizeof n->key, 0) != (ssize_t)sizeof n->key)
        return err_set(e, ERR_SYSTEM, errno, NULL, "getrandom");
    n->table = calloc(FIRST_SIZE, sizeof *n->table);
    if (!n->table)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "remember the paths of a bundle");
    n->size = FIRST_SIZE;
    return 0;
}

void path_set_close(struct path_set *n)
{
    free(n->table);
    n->table = NULL;
}

static bool digest(const struct path_set *n, const char *path, size_t length, struct name *ret)
{
    uint8_t text[PATH_SET_KEY + PATH_SET_PATH_MAX], d[SHA256_DIGEST_LENGTH];
    memcpy(text, n->key, PATH_SET_KEY);
    memcpy(text + PATH_SET_KEY, path, length);
    if (!SHA256(text, PATH_SET_KEY + length, d))
        return false;
    memcpy(ret->exact, d, EXACT);
    bool same = true;
    for (size_t i = PATH_SET_KEY; i < PATH_SET_KEY + length; i++)
        if (text[i] >= 'A' && text[i] <= 'Z') {
            text[i] = (uint8_t)(text[i] + ('a' - 'A'));
            same = false;
        }
    if (!same && !SHA256(text, PATH_SET_KEY + length, d))
        return false;
    memcpy(ret->folded, d, FOLDED);
    return true;
}

// The entry of this name or the free one for it; the table always has a free one.
static struct name *find_entry(struct name *table, size_t size, const struct name *name)
{
    uint64_t i;
    memcpy(&i, name->folded, sizeof i);
    for (i &= size - 1; table[i].kind != NOTHING; i = (i + 1) & (size - 1))
        if (memcmp(table[i].folded, name->folded, FOLDED) == 0)
            break;
    return &table[i];
}

static int grow(struct path_set *n, struct err *e)
{
    size_t size = n->size * 2;
    if (n->used * 4 < n->size * 3)
        return 0;
    struct name *table = calloc(size, sizeof *table);
    if (!table)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "remember the paths of a bundle");
    for (size_t i = 0; i < n->size; i++)
        if (n->table[i].kind != NOTHING)
            *find_entry(table, size, &n->table[i]) = n->table[i];
    free(n->table);
    n->table = table;
    n->size = size;
    return 0;
}

static int clash(const struct name *have, const struct name *want, const char *path, int length,
                 struct err *e)
{
    bool same = memcmp(have->exact, want->exact, EXACT) == 0;
    if (same && have->kind == want->kind)
        return want->kind == FOLDER ? 0 : fileio_bad(e, "'%.*s' appears twice", length, path);
    if (same)
        return fileio_bad(e, "'%.*s' is both a file and a folder", length, path);
    return fileio_bad(e, "'%.*s' appears twice, in small and in capital letters", length, path);
}

static int add(struct path_set *n, const char *path, size_t length, enum kind kind, struct err *e)
{
    struct name want;
    int r = grow(n, e);
    if (r < 0)
        return r;
    if (!digest(n, path, length, &want))
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "make a SHA-256 digest");
    want.kind = (uint8_t)kind;
    struct name *at = find_entry(n->table, n->size, &want);
    if (at->kind != NOTHING)
        return clash(at, &want, path, (int)length, e);
    if (kind == FOLDER && n->folders++ >= n->folders_max)
        return err_set(e, ERR_PACKAGE_TOO_LARGE, EFBIG, NULL, "more than %llu folders",
                       (unsigned long long)n->folders_max);
    *at = want;
    n->used++;
    return 0;
}

int path_set_add(struct path_set *n, const char *path, size_t length, struct err *e)
{
    size_t folder = length;
    if (length >= PATH_SET_PATH_MAX)
        return fileio_bad(e, "a path of %zu bytes", length);
    while (folder && path[folder - 1] != '/')
        folder--;
    folder -= folder != 0;
    if (folder != n->last_length || memcmp(n->last, path, folder) != 0) {
        for (size_t i = 1; i <= folder; i++) {
            int r = i == folder || path[i] == '/' ? add(n, path, i, FOLDER, e) : 0;
            if (r < 0)
                return r;
        }
        memcpy(n->last, path, folder);
        n->last_length = folder;
    }
    return add(n, path, length, FILE_, e);
}
