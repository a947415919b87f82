// SPDX-License-Identifier: Apache-2.0
//
// idmap: see idmap.h.  Runs in the keeper.

#include "box/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

static const char *const helpers[2] = {"/usr/bin/newuidmap", "/usr/bin/newgidmap"};

const char *idmap_missing_helper(void)
{
    for (size_t i = 0; i < ARRAY_LEN(helpers); i++) {
        struct stat st;
        // SECURITY: it must be root's and writable by root only: it is started by this name alone.
        if (stat(helpers[i], &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != 0 ||
            st.st_mode & (S_IWGRP | S_IWOTH) || access(helpers[i], X_OK) < 0)
            return helpers[i];
    }
    return NULL;
}

// ---- with a helper ------------------------------------------------------------------------------

static _Noreturn void helper_main(const char *path, char *const argv[])
{
    char *const none[] = {NULL};
    sigset_t empty;
    sigemptyset(&empty);
    (void)sigprocmask(SIG_SETMASK, &empty, NULL);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2; fd++)
        if (dup2(null, fd) < 0)
            _exit(127);
    execve(path, argv, none);
    _exit(127);
}

// "0 CALLER 1" and "1 FIRST COUNT".
static int run_helper(const char *path, pid_t pid, id_t own, uint64_t first, uint64_t count)
{
    char numbers[4][24];
    char *argv[] = {(char *)path, numbers[0], (char *)"0", numbers[1], (char *)"1",
                    (char *)"1",  numbers[2], numbers[3],  NULL};
    const uint64_t values[] = {(uint64_t)pid, own, first, count};
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        snprintf(numbers[i], sizeof numbers[i], "%llu", (unsigned long long)values[i]);
    int status;
    pid_t child = fork();
    if (child == 0)
        helper_main(path, argv);
    if (child < 0)
        return -errno;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

static int write_helped(const struct idmap *m, pid_t pid, struct err *e)
{
    for (int i = 0; i < 2; i++) {
        uint64_t first = (i ? m->gid_first : m->uid_first) + 1;
        int r = run_helper(helpers[i], pid, i ? getegid() : geteuid(), first, m->count - 1);
        if (r < 0)
            return err_set(e, ERR_LAYER_MISSING, -r,
                           "look at /etc/subuid and /etc/subgid, and start it without "
                           "NoNewPrivileges",
                           "layer 'user_ns': '%s' does not map %llu ids from %llu on", helpers[i],
                           (unsigned long long)m->count - 1, (unsigned long long)first);
    }
    return 0;
}

// ---- without ------------------------------------------------------------------------------------

static int write_alone(const struct idmap *m, pid_t pid, struct err *e)
{
    char path[64], map[64];
    int r = 0;
    if (m->count == 1 && !m->exact) {
        snprintf(path, sizeof path, "/proc/%d/setgroups", pid);
        r = file_write_at(AT_FDCWD, path, "deny");
    }
    for (int i = 0; i < 2 && r == 0; i++) {
        uint64_t own = i ? getegid() : geteuid();
        uint64_t first = m->count == 1 && !m->exact ? own : i ? m->gid_first : m->uid_first;
        snprintf(path, sizeof path, "/proc/%d/%s", pid, i ? "gid_map" : "uid_map");
        snprintf(map, sizeof map, "0 %llu %llu", (unsigned long long)first,
                 (unsigned long long)m->count);
        r = file_write_at(AT_FDCWD, path, map);
    }
    if (r < 0)
        return err_set(e, ERR_LAYER_MISSING, -r,
                       "a security module may forbid it: see 'constrictor doctor'",
                       "layer 'user_ns': write '%s' to '%s'", map, path);
    return 0;
}

int idmap_write(const struct idmap *map, pid_t pid, struct err *e)
{
    return map->helped ? write_helped(map, pid, e) : write_alone(map, pid, e);
}
