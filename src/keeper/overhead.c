// SPDX-License-Identifier: Apache-2.0
//
// overhead: see overhead.h.  Runs in the sampler.

#include "keeper/overhead.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

// What one of them costs, measured on Linux 6.18 (tests/probe/table_charges.py makes as many as it
// can).
enum {
    // A pipe has two pages at least; a socket, a pipe, an epoll or an entry of /proc is 1 to 2.5 KB
    // by itself.
    FILE_BYTES = 8192,
    FILES_FREE = 64, // a table of files is no smaller
    // Stack, task, credentials.
    THREAD_BYTES = 24 << 10,
    // The mapping itself is 220 bytes; one that is shared and of no file has an inode and a file of
    // its own.
    MAPPING_BYTES = 256,
    SHARED_MAPPING_BYTES = 1280,
};

static uint64_t status_number(const char *status, const char *key)
{
    const char *p = strstr(status, key);
    return p ? strtoull(p + strlen(key), NULL, 10) : 0;
}

// Since Linux 6.2 the size of the folder is their number.  Before that only the size of the table
// is known.
static uint64_t count_files(pid_t pid, const char *status)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    if (stat(path, &st) == 0 && st.st_size > 0)
        return (uint64_t)st.st_size;
    uint64_t table = status_number(status, "\nFDSize:");
    return table > FILES_FREE ? table : 0;
}

uint64_t overhead_bytes(pid_t pid, const char *status)
{
    return count_files(pid, status) * FILE_BYTES +
           status_number(status, "\nThreads:") * THREAD_BYTES;
}

// Each has a page at least; private ones that can be written, and stacks, are not shared.
uint64_t overhead_mappings_most(const char *status)
{
    uint64_t all_kb = status_number(status, "\nVmSize:");
    uint64_t private_kb = status_number(status, "\nVmData:") + status_number(status, "\nVmStk:");
    uint64_t shared_kb = all_kb > private_kb ? all_kb - private_kb : 0;
    return (all_kb * MAPPING_BYTES + shared_kb * (SHARED_MAPPING_BYTES - MAPPING_BYTES)) * 1024 /
           (uint64_t)sysconf(_SC_PAGESIZE);
}

// "7f0000000000-7f0000001000 rw-s 00000000 00:01 1234   /dev/zero (deleted)"
static bool is_shared(const char *line)
{
    const char *mode = strchr(line, ' ');
    return mode && strnlen(mode, 5) == 5 && mode[4] == 's';
}

// PR_SET_VMA can give it a name of another kind.
static bool is_nameless(const char *line)
{
    return strstr(line, " /dev/zero (deleted)") || strstr(line, " [anon_shmem:");
}

// The kernel ends every read with a whole line.
static uint64_t lines_bytes(char *text, bool *ret_nameless)
{
    uint64_t bytes = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        bool shared = is_shared(line);
        bytes += shared ? SHARED_MAPPING_BYTES : MAPPING_BYTES;
        if (shared && is_nameless(line))
            *ret_nameless = true;
    }
    return bytes;
}

uint64_t overhead_mappings(pid_t pid, uint64_t enough, bool *ret_nameless)
{
    static char text[65536];
    uint64_t bytes = 0;
    ssize_t n;
    snprintf(text, sizeof text, "/proc/%d/maps", pid);
    _cleanup_close_ int fd = open(text, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && bytes <= enough && (n = read(fd, text, sizeof text - 1)) > 0) {
        text[n] = '\0';
        bytes += lines_bytes(text, ret_nameless);
    }
    return bytes;
}
