// SPDX-License-Identifier: Apache-2.0
//
// sys: kernel calls that libc lacks or must not be asked for.
//
// sys_raw() makes a system call without libc: it returns the kernel's value (-errno on failure) and
// touches neither errno nor any other thread-local state.  The box's init needs that, because it
// shares its memory, errno included, with the user process (box/init.c).

#ifndef CONSTRICTOR_BASE_SYS_H
#define CONSTRICTOR_BASE_SYS_H

#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline long sys_raw(long nr, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    long ret;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#else
#error "add the system call instruction of this architecture"
#endif
}

// Numbers that older headers lack; they are the same on every architecture.
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

struct sys_clone_args {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
        set_tid_size, cgroup;
};

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif

static inline long sys_clone3(struct sys_clone_args *args)
{
    return syscall(SYS_clone3, args, sizeof *args);
}

static inline int sys_close_range(unsigned first, unsigned last)
{
    return (int)syscall(SYS_close_range, first, last, 0);
}

// Processor cores that the calling process may use, which its children and boxes inherit.  The
// kernel fills what fits its own number of cores and returns the size of that.
static inline unsigned sys_cores(void)
{
    unsigned long mask[8192 / (8 * sizeof(long))];
    unsigned cores = 0;
    long size = sys_raw(SYS_sched_getaffinity, 0, sizeof mask, (long)mask, 0, 0, 0);
    for (size_t i = 0; size > 0 && i < (size_t)size / sizeof mask[0]; i++)
        cores += (unsigned)__builtin_popcountl(mask[i]);
    return cores ? cores : 1;
}

static inline int sys_pidfd_send_signal(int pidfd, int sig)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
}

#endif
