// SPDX-License-Identifier: Apache-2.0
//
// clock: the fixed clock of `--clock`: a library for LD_PRELOAD in the zygote, so that boxes and
// the programs that code starts have it as well.  The clock of the wall stands at
// CONSTRICTOR_CLOCK, in seconds since 1970; the monotonic clocks, by which programs wait, go on.
// Times of files are the kernel's.  It is no wall: code can ask the kernel itself.

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static struct {
    time_t at;
    int (*clock_gettime)(clockid_t, struct timespec *);
    int (*sem_timedwait)(sem_t *, const struct timespec *);
    int (*pthread_mutex_timedlock)(pthread_mutex_t *, const struct timespec *);
} fixed;

__attribute__((constructor)) static void open_clock(void)
{
    const char *text = getenv("CONSTRICTOR_CLOCK");
    fixed.at = text ? (time_t)strtoll(text, NULL, 10) : 0;
    *(void **)&fixed.sem_timedwait = dlsym(RTLD_NEXT, "sem_timedwait");
    *(void **)&fixed.pthread_mutex_timedlock = dlsym(RTLD_NEXT, "pthread_mutex_timedlock");
    *(void **)&fixed.clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
}

static int real_time(clockid_t clock, struct timespec *ret)
{
    if (fixed.clock_gettime)
        return fixed.clock_gettime(clock, ret);
    return (int)syscall(SYS_clock_gettime, clock, ret); // before the constructor
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE && clock != CLOCK_TAI)
        return real_time(clock, ret);
    *ret = (struct timespec){.tv_sec = fixed.at};
    return 0;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    *ret = (struct timeval){.tv_sec = fixed.at};
    if (zone)
        *(struct timezone *)zone = (struct timezone){0};
    return 0;
}

time_t time(time_t *ret)
{
    if (ret)
        *ret = fixed.at;
    return fixed.at;
}

int timespec_get(struct timespec *ret, int base)
{
    if (base != TIME_UTC)
        return 0;
    *ret = (struct timespec){.tv_sec = fixed.at};
    return base;
}

// These wait until a time of the kernel's clock, which the caller counted from ours: Python 3.9 and
// 3.10 do so for every lock with a timeout.
static struct timespec until(const struct timespec *ours)
{
    struct timespec now;
    (void)real_time(CLOCK_REALTIME, &now);
    now.tv_sec += ours->tv_sec - fixed.at;
    now.tv_nsec += ours->tv_nsec;
    now.tv_sec += now.tv_nsec / 1000000000;
    now.tv_nsec %= 1000000000;
    return now;
}

int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict end)
{
    struct timespec real = until(end);
    return fixed.sem_timedwait(sem, &real);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict end)
{
    struct timespec real = until(end);
    return fixed.pthread_mutex_timedlock(mutex, &real);
}
