// SPDX-License-Identifier: Apache-2.0
//
// door_keys: the keys of the configuration and of its file.  For door.c only.  SECURITY: only a
// key's hash and name are stored.

#ifndef CONSTRICTOR_HTTP_DOOR_KEYS_H
#define CONSTRICTOR_HTTP_DOOR_KEYS_H

#include <openssl/sha.h>
#include <stddef.h>

#include "http/door.h"

struct door_key {
    unsigned char hash[SHA256_DIGEST_LENGTH];
    char name[DOOR_OWNER_MAX + 1];
};

struct door_keys {
    size_t count;
    struct door_key items[DOOR_KEYS_MAX];
};

// Reads the keys of the configuration and of the text of the file.  0, or a negative code and `e`.
int door_keys_read(struct door_keys *k, const struct config *c, const char *file, size_t length,
                   struct err *e);
// The name of the key, or NULL.  Takes the same time for every key, and for none.
const char *door_keys_find(const struct door_keys *k, const unsigned char *hash);
// How many names there are.
unsigned door_keys_owners(const struct door_keys *k);

#endif
