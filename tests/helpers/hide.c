// SPDX-License-Identifier: Apache-2.0
//
// hide: runs a command with some system calls taken away, as a container engine or an older kernel
// would.  A helper of the tests: it shows what constrictor says when a layer is missing.
//
//   hide NAME[:ARGUMENT]=ERRNO... -- COMMAND...
//
// NAME is a system call.  ARGUMENT narrows it to calls whose first argument has a namespace flag
// (NEWUSER, NEWNS, ...) or is a number.  ERRNO is one of the names below or a number.  All else is
// allowed; the filter stays for every process that the command starts.  It exits with 2 when it
// cannot do that.

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct name {
    const char *name;
    unsigned long value;
};

static const struct name flags[] = {
    {"NEWUSER", CLONE_NEWUSER},     {"NEWNS", CLONE_NEWNS},
    {"NEWPID", CLONE_NEWPID},       {"NEWNET", CLONE_NEWNET},
    {"NEWIPC", CLONE_NEWIPC},       {"NEWUTS", CLONE_NEWUTS},
    {"NEWCGROUP", CLONE_NEWCGROUP}, {NULL, 0},
};

static const struct name errnos[] = {
    {"EPERM", EPERM},   {"ENOSYS", ENOSYS}, {"EACCES", EACCES},         {"EINVAL", EINVAL},
    {"ENOSPC", ENOSPC}, {"EUSERS", EUSERS}, {"EOPNOTSUPP", EOPNOTSUPP}, {NULL, 0},
};

static int fail(const char *what, const char *detail)
{
    fprintf(stderr, "hide: %s: %s\n", what, detail);
    return 2;
}

// 1: found in the table, 0: a plain number, -1: neither
static int look_up(const struct name *table, const char *text, unsigned long *ret)
{
    char *end;
    for (; table->name; table++)
        if (strcmp(table->name, text) == 0) {
            *ret = table->value;
            return 1;
        }
    *ret = strtoul(text, &end, 0);
    return *text && !*end ? 0 : -1;
}

static int add(scmp_filter_ctx filter, char *rule)
{
    unsigned long argument = 0, errnum;
    char *value = strchr(rule, '='), *narrow = strchr(rule, ':');
    if (!value)
        return fail("no '=' in", rule);
    *value++ = '\0';
    if (narrow)
        *narrow++ = '\0';
    int nr = seccomp_syscall_resolve_name(rule);
    if (nr == __NR_SCMP_ERROR)
        return fail("no such system call", rule);
    if (look_up(errnos, value, &errnum) < 0 || errnum == 0 || errnum > 4095)
        return fail("no such errno", value);
    int kind = narrow ? look_up(flags, narrow, &argument) : -1;
    if (narrow && kind < 0)
        return fail("no such argument", narrow);
    struct scmp_arg_cmp has_flag = SCMP_A0(SCMP_CMP_MASKED_EQ, argument, argument);
    struct scmp_arg_cmp is_equal = SCMP_A0(SCMP_CMP_EQ, argument);
    uint32_t action = SCMP_ACT_ERRNO((uint16_t)errnum);
    int r = narrow ? seccomp_rule_add_array(filter, action, nr, 1, kind ? &has_flag : &is_equal)
                   : seccomp_rule_add_array(filter, action, nr, 0, NULL);
    return r < 0 ? fail("add the rule", strerror(-r)) : 0;
}

int main(int argc, char **argv)
{
    int i = 1, r;
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW); // sets no_new_privs at the load
    if (!filter)
        return fail("make a filter", strerror(errno));
    r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ALLOW); // not our business
    if (r < 0)
        return fail("make a filter", strerror(-r));
    for (; i < argc && strcmp(argv[i], "--") != 0; i++)
        if ((r = add(filter, argv[i])) != 0)
            return r;
    if (i + 1 >= argc)
        return fail("usage", "hide NAME[:ARGUMENT]=ERRNO... -- COMMAND...");
    r = seccomp_load(filter);
    if (r < 0)
        return fail("load the filter", strerror(-r));
    execvp(argv[i + 1], argv + i + 1);
    return fail(argv[i + 1], strerror(errno));
}
