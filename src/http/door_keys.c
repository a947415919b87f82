// SPDX-License-Identifier: Apache-2.0
//
// door_keys: see door_keys.h.  Called by door.c, before the first fork and in the gate.

#include "http/door_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

// No colon: that distinguishes key names from subjects of tokens.
static bool is_key_name(const char *s, size_t n)
{
    if (n == 0 || n > DOOR_OWNER_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
              (s[i] >= '0' && s[i] <= '9') || (i && strchr("._-", s[i]))))
            return false;
    return true;
}

// A name of the kind that keys without a name get.
static bool is_given_name(const char *s, size_t n)
{
    return n > 4 && memcmp(s, "key-", 4) == 0 && strspn(s + 4, "0123456789abcdef") >= n - 4;
}

static int key_refused(struct err *e, const char *where, const char *hint, const char *what)
{
    return err_set(e, ERR_BAD_VALUE, 0, hint, "%s: %s", where, what); // never the key itself
}

// "key" or "name:key".  `where` is for messages.
static int keys_add(struct door_keys *k, const char *text, size_t n, const char *where,
                    struct err *e)
{
    static const char name_hint[] =
        "write 'name:key' with a name of at most 64 letters, digits, "
        "'.', '_' and '-'; names like key-3f are given to keys without one",
                      key_hint[] = "make one with 'openssl rand -hex 32'";
    const char *colon = memchr(text, ':', n);
    if (k->count == DOOR_KEYS_MAX)
        return key_refused(e, where, NULL, "there are more than 256 keys");
    struct door_key *key = &k->items[k->count];
    if (colon) {
        size_t name = (size_t)(colon - text);
        if (!is_key_name(text, name) || is_given_name(text, name))
            return key_refused(e, where, name_hint, "the name of a key is not allowed");
        memcpy(key->name, text, name);
        key->name[name] = '\0';
        text += name + 1;
        n -= name + 1;
    } else {
        key->name[0] = '\0';
    }
    if (n < DOOR_KEY_MIN)
        return key_refused(e, where, key_hint, "a key has fewer than 8 characters");
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return key_refused(e, where, key_hint, "a key has a blank or a character beyond ASCII");
    SHA256((const unsigned char *)text, n, key->hash);
    // SECURITY: the name is made from the key, not from its line number: when a line above it is
    // removed, the key must not become the owner of another key's things.
    if (!key->name[0])
        snprintf(key->name, sizeof key->name, "key-%02x%02x%02x%02x%02x%02x%02x%02x", key->hash[0],
                 key->hash[1], key->hash[2], key->hash[3], key->hash[4], key->hash[5], key->hash[6],
                 key->hash[7]);
    for (size_t i = 0; i < k->count; i++)
        if (memcmp(k->items[i].hash, key->hash, sizeof key->hash) == 0)
            return key_refused(e, where, key_hint, "the same key is given twice");
    k->count++;
    return 0;
}

// One key a line; what begins with '#' is a comment.
static int keys_add_lines(struct door_keys *k, const char *text, size_t length, struct err *e)
{
    char where[64];
    unsigned line = 1;
    for (const char *p = text, *end = text + length; p < end; line++) {
        const char *feed = memchr(p, '\n', (size_t)(end - p));
        size_t n = feed ? (size_t)(feed - p) : (size_t)(end - p);
        const char *from = p;
        p += n + 1;
        while (n && (from[n - 1] == '\r' || from[n - 1] == ' ' || from[n - 1] == '\t'))
            n--;
        while (n && (*from == ' ' || *from == '\t'))
            from++, n--;
        snprintf(where, sizeof where, "line %u of the key file", line);
        if (n && *from != '#' && keys_add(k, from, n, where, e) < 0)
            return -1;
    }
    return 0;
}

int door_keys_read(struct door_keys *k, const struct config *c, const char *file, size_t length,
                   struct err *e)
{
    char where[64];
    int r = 0;
    k->count = 0;
    for (size_t i = 0; r == 0 && i < c->api_keys.count; i++) {
        snprintf(where, sizeof where, "key number %zu of 'api-key'", i + 1);
        r = keys_add(k, c->api_keys.items[i], strlen(c->api_keys.items[i]), where, e);
    }
    if (r == 0)
        r = keys_add_lines(k, file, length, e);
    // An empty file must not open the door.
    if (r == 0 && c->api_key_file[0] && k->count == 0)
        r = err_set(e, ERR_BAD_CONFIG_FILE, 0, "write one key or name:key a line",
                    "the key file '%s' has no key", c->api_key_file);
    return r;
}

const char *door_keys_find(const struct door_keys *k, const unsigned char *hash)
{
    size_t found = k->count;
    for (size_t i = 0; i < k->count; i++) {
        size_t same = CRYPTO_memcmp(k->items[i].hash, hash, SHA256_DIGEST_LENGTH) == 0;
        found = same ? i : found;
    }
    return found < k->count ? k->items[found].name : NULL;
}

unsigned door_keys_owners(const struct door_keys *k)
{
    unsigned n = 0;
    for (size_t i = 0; i < k->count; i++) {
        size_t first = 0; // the first key of this name: a caller may have several
        while (strcmp(k->items[first].name, k->items[i].name) != 0)
            first++;
        n += first == i;
    }
    return n;
}
