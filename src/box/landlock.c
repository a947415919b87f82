// SPDX-License-Identifier: Apache-2.0
//
// landlock: see landlock.h.  The structs are written out here because the headers of the oldest
// distribution that we build on know ABI 2, and the ladder is asked for, not assumed.

#include "box/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/sys.h"

enum {
    FS_EXECUTE = 1 << 0,
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_REMOVE_DIR = 1 << 4,
    FS_REMOVE_FILE = 1 << 5,
    FS_MAKE_CHAR = 1 << 6,
    FS_MAKE_DIR = 1 << 7,
    FS_MAKE_REG = 1 << 8,
    FS_MAKE_BLOCK = 1 << 11,
    FS_ALL_ABI1 = (1 << 13) - 1,
    FS_REFER = 1 << 13,     // ABI 2
    FS_TRUNCATE = 1 << 14,  // ABI 3
    FS_IOCTL_DEV = 1 << 15, // ABI 5
    NET_BIND_TCP = 1 << 0,  // ABI 4
    NET_CONNECT_TCP = 1 << 1,
    SCOPE_ABSTRACT_UNIX = 1 << 0, // ABI 6
    SCOPE_SIGNAL = 1 << 1,
    RULE_PATH_BENEATH = 1,
    CREATE_RULESET_VERSION = 1,
};

struct ruleset_attr {
    uint64_t handled_fs;
    uint64_t handled_net; // ABI 4
    uint64_t scoped;      // ABI 6
};

struct path_beneath_attr {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

uint32_t landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
    return abi > 0 ? (uint32_t)abi : 0;
}

static int allow_fd(int ruleset, int fd, uint64_t access)
{
    struct path_beneath_attr rule = {.allowed = access, .parent_fd = fd};
    return (int)syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0);
}

static int allow(int ruleset, const char *path, uint64_t access)
{
    _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
    return fd < 0 ? -1 : allow_fd(ruleset, fd, access);
}

// A ruleset about everything that the ABI knows, in which nothing is allowed yet.  With network it
// says nothing about TCP: it knows ports one by one and not "any", and addresses not at all.
static int make_ruleset(uint32_t abi, bool network, uint64_t *ret_handled_fs)
{
    struct ruleset_attr attr = {.handled_fs = FS_ALL_ABI1};
    size_t size = sizeof attr.handled_fs;
    if (abi >= 2)
        attr.handled_fs |= FS_REFER;
    if (abi >= 3)
        attr.handled_fs |= FS_TRUNCATE;
    if (abi >= 4) {
        attr.handled_net = network ? 0 : NET_BIND_TCP | NET_CONNECT_TCP;
        size += sizeof attr.handled_net;
    }
    if (abi >= 5)
        attr.handled_fs |= FS_IOCTL_DEV;
    if (abi >= 6) {
        attr.scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL;
        size += sizeof attr.scoped;
    }
    *ret_handled_fs = attr.handled_fs;
    return (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
}

static int seal(uint32_t abi, bool network, int folder, int other, uint64_t access)
{
    uint64_t handled_fs;
    if (!abi)
        return 0;
    _cleanup_close_ int ruleset = make_ruleset(abi, network, &handled_fs);
    if (ruleset < 0 || (folder >= 0 && allow_fd(ruleset, folder, access & handled_fs) < 0) ||
        (other >= 0 && allow_fd(ruleset, other, access & handled_fs) < 0))
        return -1;
    return (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
}

int landlock_seal(uint32_t abi, int folder)
{
    return landlock_seal_both(abi, folder, -1);
}

int landlock_seal_both(uint32_t abi, int folder, int other)
{
    // A rename within the folder is a removal and a making.  No link, no folder, no pipe, no
    // program.
    return seal(abi, false, folder, other,
                FS_READ_FILE | FS_WRITE_FILE | FS_READ_DIR | FS_MAKE_REG | FS_REMOVE_FILE |
                    FS_TRUNCATE);
}

int landlock_seal_writer(uint32_t abi, int folder)
{
    return seal(abi, false, folder, -1,
                FS_WRITE_FILE | FS_MAKE_REG | FS_MAKE_DIR | FS_REMOVE_FILE | FS_TRUNCATE);
}

int landlock_seal_porter(uint32_t abi, int folder)
{
    // A rename stays in its folder: that is a removal and a making.  No link, no pipe, no program.
    return seal(abi, false, folder, -1,
                FS_READ_FILE | FS_WRITE_FILE | FS_READ_DIR | FS_MAKE_REG | FS_MAKE_DIR |
                    FS_REMOVE_FILE | FS_REMOVE_DIR | FS_TRUNCATE);
}

int landlock_seal_network(uint32_t abi, const char *const *files)
{
    uint64_t handled_fs;
    if (!abi)
        return 0;
    _cleanup_close_ int ruleset = make_ruleset(abi, true, &handled_fs);
    if (ruleset < 0)
        return -1;
    for (; files && *files; files++)
        if (allow(ruleset, *files, FS_READ_FILE) < 0 && errno != ENOENT)
            return -1;
    return (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
}

int landlock_restrict(uint32_t abi, bool network)
{
    uint64_t handled_fs;
    if (!abi)
        return 0;
    _cleanup_close_ int ruleset = make_ruleset(abi, network, &handled_fs);
    if (ruleset < 0)
        return -1;

    const uint64_t read = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR;
    const uint64_t write = handled_fs & ~(uint64_t)(FS_MAKE_CHAR | FS_MAKE_BLOCK | FS_IOCTL_DEV);
    const struct {
        const char *path;
        uint64_t access;
    } rules[] = {
        {"/", read},
        {"/dev", read | FS_WRITE_FILE}, // null, zero, full
        {"/mnt", write},
    };
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        if (allow(ruleset, rules[i].path, rules[i].access) < 0)
            return -1;
    return (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
}
