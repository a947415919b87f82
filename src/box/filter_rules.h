// SPDX-License-Identifier: Apache-2.0
//
// filter_rules: the checks of arguments that policy.def names.  A part of filter.c, which alone
// includes it.

#ifndef CONSTRICTOR_BOX_FILTER_RULES_H
#define CONSTRICTOR_BOX_FILTER_RULES_H

enum check_op {
    CHECK_END,     // no further check
    CHECK_ANY_OF,  // the argument must be one of the values
    CHECK_NONE_OF, // the argument must be none of the values
    CHECK_NO_BITS, // none of the bits in values[0] may be set
    CHECK_AT_MOST, // unsigned: at most values[0]
    CHECK_NEVER,   // no value passes
};

// As errnum: the call returns 0 and the kernel does nothing, see IGNORE in policy.def.
enum { IGNORED = 0 };

struct check {
    enum check_op op;
    unsigned argument;
    int errnum;    // what the caller gets when the check fails
    unsigned mask; // 0: all 32 bits
    unsigned count;
    uint32_t values[24];
    struct { // the check holds only for calls where another argument has this value
        bool set;
        unsigned argument;
        unsigned mask;
        uint32_t value;
    } when;
    bool told; // a failed check is reported, see TELL in policy.def
};

enum { CHECKS_MAX = 7 };

enum rule {
    RULE_NONE,
    RULE_CLONE,
    RULE_EXECVEAT,
    RULE_PRCTL,
    RULE_PERSONALITY,
    RULE_MMAP,
    RULE_MADVISE,
    RULE_MSYNC,
    RULE_MEMFD,
    RULE_FADVISE,
    RULE_FALLOCATE,
    RULE_FCNTL,
    RULE_IOCTL,
    RULE_SOCKET,
    RULE_SOCKET_NETWORK,
    RULE_SOCKET_NETWORK4,
    RULE_SOCKET_BROKER,
    RULE_SOCKETPAIR,
    RULE_SETPRIORITY,
    RULE_SETSOCKOPT,
    RULE_GETSOCKOPT,
    RULE_FLAGS_2,
    RULE_FLAGS_3,
    RULE_MAX
};

// SECURITY: flags of mmap.  The first three are types of mappings; MAP_SHARED_VALIDATE is two of
// them together, and libc maps its random numbers for the vDSO with MAP_DROPPABLE.  ld.so passes
// MAP_DENYWRITE and MAP_EXECUTABLE, which the kernel ignores.  MAP_POPULATE faults pages in as
// touching them does, and holds the caller's mmap_lock only. Without: MAP_HUGETLB (huge pages of
// the host are not charged to a box), MAP_LOCKED (locked pages cannot be reclaimed), MAP_GROWSDOWN
// (a mapping that grows towards others; libc's stacks do not use it), MAP_SYNC (files on persistent
// memory of the host), MAP_UNINITIALIZED.
#ifndef MAP_32BIT // x86 only: JIT compilers
#define MAP_32BIT 0
#endif
#define MAP_FLAGS                                                                                  \
    (MAP_SHARED | MAP_PRIVATE | 0x8 /* MAP_DROPPABLE */ | MAP_FIXED | MAP_FIXED_NOREPLACE |        \
     MAP_ANONYMOUS | MAP_32BIT | MAP_DENYWRITE | MAP_EXECUTABLE | MAP_NORESERVE | MAP_POPULATE |   \
     MAP_NONBLOCK | MAP_STACK)

// The type's low four bits are the type, the rest are flags; SOCK_RAW is not for boxes.
enum { TYPE_MASK = 0xf };
#define TYPE_IS(type)                                                                              \
    {                                                                                              \
        true, 1, TYPE_MASK, type                                                                   \
    }
#define LEVEL_IS(level)                                                                            \
    {                                                                                              \
        true, 1, 0, level                                                                          \
    }

// SECURITY: the kernel starts modprobe for a pair of type and protocol that it has not, for any
// process; and ICMP, SCTP, MPTCP, UDP-Lite are surface that no client needs.
#define CHECK_PROTOCOLS                                                                            \
    {CHECK_ANY_OF, 2, EPROTONOSUPPORT, 0, 2, {0, IPPROTO_TCP}, TYPE_IS(SOCK_STREAM)},              \
    {                                                                                              \
        CHECK_ANY_OF, 2, EPROTONOSUPPORT, 0, 2, {0, IPPROTO_UDP}, TYPE_IS(SOCK_DGRAM)              \
    }

// What libraries do to look around, and go on without, is not worth telling: libc asks for
// AF_NETLINK before every look-up of a name; is there IPv6, which addresses has this machine
// (uuid1)?  Python tells itself of what code wants from such a socket (network.py).
#define QUIET_PROBES                                                                               \
    {CHECK_NONE_OF, 0, EAFNOSUPPORT, 0, 1, {AF_NETLINK}},                                          \
        {CHECK_NONE_OF, 0, EAFNOSUPPORT, 0, 2, {AF_INET, AF_INET6}, TYPE_IS(SOCK_DGRAM)},          \
    {                                                                                              \
        CHECK_NONE_OF, 0, EAFNOSUPPORT, 0, 1, {AF_INET6}, TYPE_IS(SOCK_STREAM)                     \
    }

static const struct check rules[RULE_MAX][CHECKS_MAX] = {
    // SECURITY: a process that shares its descriptors, and is no thread, leaves its record locks to
    // the others when it ends: then nothing says whose they are, and the keeper cannot count them
    // (keeper/locks.h).  EINVAL, as the kernel says for other pairs of flags; libc makes threads,
    // or copies.
    [RULE_CLONE] = {{CHECK_NO_BITS,
                     0,
                     EPERM,
                     0,
                     1,
                     {CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                      CLONE_NEWUTS | CLONE_NEWCGROUP},
                     .told = true},
                    {CHECK_ANY_OF,
                     0,
                     EINVAL,
                     CLONE_THREAD,
                     1,
                     {CLONE_THREAD},
                     {true, 0, CLONE_FILES, CLONE_FILES}}},
    // Running a descriptor without a name is how code that was never in the tree would be started.
    // (noexec is no boundary, ctypes can map code; this only removes a convenience of exploits.)
    [RULE_EXECVEAT] = {{CHECK_NO_BITS, 4, EPERM, 0, 1, {AT_EMPTY_PATH}, .told = true}},
    // Names of threads, signals at a parent's death, what a sandboxed launcher asks, transparent
    // huge pages.
    // SECURITY: no PR_SET_VMA: the kernel does not charge the names of mappings to a box, and
    // allocators that give some do not look at the answer.  No PR_SET_MM, PR_SET_DUMPABLE,
    // PR_SET_TIMERSLACK, PR_SET_MEMORY_MERGE.
    [RULE_PRCTL] = {{CHECK_ANY_OF,
                     0,
                     EPERM,
                     0,
                     10,
                     {PR_SET_NAME, PR_GET_NAME, PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_DUMPABLE,
                      PR_CAPBSET_READ, PR_GET_SECCOMP, PR_GET_NO_NEW_PRIVS, PR_SET_THP_DISABLE,
                      // It is set and stays so; launchers such as Chromium's set it for their
                      // children and give up.
                      PR_SET_NO_NEW_PRIVS}}},
    [RULE_PERSONALITY] = {{CHECK_ANY_OF, 0, EPERM, 0, 2, {0, 0xffffffff}}},
    [RULE_MMAP] = {{CHECK_NO_BITS, 3, EINVAL, 0, 1, {~(uint32_t)MAP_FLAGS}}},
    // What malloc implementations (glibc, jemalloc, mimalloc, tcmalloc), lmdb and cryptographic
    // libraries (MADV_WIPEONFORK) call; the guards are of libc's stacks.  EINVAL is what an older
    // kernel says.
    // SECURITY: no MADV_REMOVE, which punches a hole into a file: other threads that touch it sleep
    // in the kernel, with the locks that they hold, until it is done.  No MADV_COLD, MADV_PAGEOUT,
    // MADV_COLLAPSE: reclaim and compaction under mmap_lock, also of pages that are the host's; and
    // no library calls them.  No MADV_MERGEABLE: pages that boxes share are a channel.  No
    // MADV_HWPOISON, MADV_SOFT_OFFLINE: they take memory from the host.
    [RULE_MADVISE] = {{CHECK_ANY_OF,
                       2,
                       EINVAL,
                       0,
                       18,
                       {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED,
                        MADV_FREE, MADV_DONTFORK, MADV_DOFORK, MADV_HUGEPAGE, MADV_NOHUGEPAGE,
                        MADV_DONTDUMP, MADV_DODUMP, MADV_WIPEONFORK, MADV_KEEPONFORK,
                        22,     // MADV_POPULATE_READ: as MAP_POPULATE
                        23,     // MADV_POPULATE_WRITE
                        102,    // MADV_GUARD_INSTALL
                        103}}}, // MADV_GUARD_REMOVE
    // mmap.flush().  MS_ASYNC looks at the range and does nothing else; libunwind asks with it
    // whether memory is there.
    // SECURITY: MS_SYNC on a mapping of a host file flushes the host's disk, see fsync in
    // policy.def.
    [RULE_MSYNC] = {{CHECK_NO_BITS, 2, IGNORED, 0, 1, {MS_SYNC}}},
    // SECURITY: no MFD_HUGETLB, see MAP_HUGETLB.
    [RULE_MEMFD] = {{CHECK_NO_BITS,
                     1,
                     EINVAL,
                     0,
                     1,
                     {~(uint32_t)(MFD_CLOEXEC | MFD_ALLOW_SEALING | 0x8 |
                                  0x10)}}}, // MFD_NOEXEC_SEAL, MFD_EXEC
    // SECURITY: POSIX_FADV_DONTNEED drops a tree file from the host's page cache: the host reads it
    // from the disk again, and other boxes can tell.  On scratch it does nothing.  Databases and
    // copying tools call it.
    [RULE_FADVISE] = {{CHECK_NONE_OF, 3, IGNORED, 0, 1, {POSIX_FADV_DONTNEED}},
                      {CHECK_ANY_OF,
                       3,
                       EINVAL,
                       0,
                       5,
                       {POSIX_FADV_NORMAL, POSIX_FADV_RANDOM, POSIX_FADV_SEQUENTIAL,
                        POSIX_FADV_WILLNEED, POSIX_FADV_NOREUSE}}},
    // posix_fallocate, and databases that reserve room.  EOPNOTSUPP is what a file system without a
    // mode says.
    // SECURITY: no FALLOC_FL_PUNCH_HOLE, see MADV_REMOVE; no mode that moves or zeroes what is
    // there.  No thread sleeps on room that is being reserved.
    [RULE_FALLOCATE] = {{CHECK_ANY_OF, 1, EOPNOTSUPP, 0, 2, {0, FALLOC_FL_KEEP_SIZE}}},
    // Descriptors, flags, sizes of pipes, seals; and record locks as sqlite, lmdb and lockf take
    // them.  A thread that waits in F_SETLKW holds no lock of the kernel.  EINVAL is what an older
    // kernel says.
    // SECURITY: no F_OFD_SETLK and its like: record locks are not charged to a box, and these have
    // no owner to count them by.  No leases, directory notification, write hints: channels between
    // boxes through a shared tree file. No F_SETOWN, F_SETSIG: signals for descriptors, which no
    // library needs.
    [RULE_FCNTL] = {{CHECK_ANY_OF,
                     1,
                     EINVAL,
                     0,
                     13,
                     {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK,
                      F_SETLK, F_SETLKW, F_SETPIPE_SZ, F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS}}},
    // No descriptor of a box is a terminal, so programs only ask whether one is.  How many bytes
    // wait to be read, and two descriptor flags that fcntl can set too.  SECURITY: the rest is
    // drivers and file systems.
    [RULE_IOCTL] = {{CHECK_ANY_OF,
                     1,
                     ENOTTY,
                     0,
                     6,
                     {TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX}}},
    [RULE_SOCKET] = {QUIET_PROBES,
                     {CHECK_ANY_OF, 0, EAFNOSUPPORT, 0, 1, {AF_UNIX}, .told = true},
                     {CHECK_ANY_OF,
                      1,
                      ESOCKTNOSUPPORT,
                      TYPE_MASK,
                      3,
                      {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET},
                      .told = true}},
    // What leads anywhere is the namespace's business: this is about which parts of the kernel code
    // can talk to.  Never raw, packet, netlink.
    [RULE_SOCKET_NETWORK] =
        {{CHECK_NONE_OF, 0, EAFNOSUPPORT, 0, 1, {AF_NETLINK}},
         {CHECK_ANY_OF, 0, EAFNOSUPPORT, 0, 3, {AF_UNIX, AF_INET, AF_INET6}, .told = true},
         {CHECK_ANY_OF,
          1,
          ESOCKTNOSUPPORT,
          TYPE_MASK,
          3,
          {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET},
          .told = true},
         {CHECK_ANY_OF, 0, ESOCKTNOSUPPORT, 0, 1, {AF_UNIX}, TYPE_IS(SOCK_SEQPACKET)},
         CHECK_PROTOCOLS},
    // The same on a kernel without IPv6, which would look for its module each time.
    [RULE_SOCKET_NETWORK4] =
        {{CHECK_NONE_OF, 0, EAFNOSUPPORT, 0, 2, {AF_NETLINK, AF_INET6}},
         {CHECK_ANY_OF, 0, EAFNOSUPPORT, 0, 2, {AF_UNIX, AF_INET}, .told = true},
         {CHECK_ANY_OF,
          1,
          ESOCKTNOSUPPORT,
          TYPE_MASK,
          3,
          {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET},
          .told = true},
         {CHECK_ANY_OF, 0, ESOCKTNOSUPPORT, 0, 1, {AF_UNIX}, TYPE_IS(SOCK_SEQPACKET)},
         CHECK_PROTOCOLS},
    [RULE_SOCKET_BROKER] =
        {{CHECK_ANY_OF, 0, EAFNOSUPPORT, 0, 2, {AF_INET, AF_INET6}},
         {CHECK_ANY_OF, 1, ESOCKTNOSUPPORT, TYPE_MASK, 2, {SOCK_STREAM, SOCK_DGRAM}},
         CHECK_PROTOCOLS},
    [RULE_SOCKETPAIR] = {{CHECK_ANY_OF, 0, EAFNOSUPPORT, 0, 1, {AF_UNIX}}},
    // Without network only SOL_SOCKET does anything, so that one rule is enough for every kind.
    // SECURITY: no programs on sockets (SO_ATTACH_FILTER, SO_DETACH_FILTER, SO_LOCK_FILTER,
    // SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF and _EBPF), no pinned pages (SO_ZEROCOPY), nothing
    // about devices and queues (SO_BINDTODEVICE, SO_BUSY_POLL, SO_TXTIME, SO_RESERVE_MEM).  Of TCP
    // and IP what clients and servers set; no TCP_ULP, which loads modules and has TLS in the
    // kernel, no TCP_REPAIR, no multicast, no IPsec, no options in packets.  No SOL_UDP: its
    // encapsulations lead to IPsec.
    // SECURITY: SO_SNDBUF and SO_RCVBUF are ignored: every socket keeps the buffer that the kernel
    // gives it.  Code could raise them to twice wmem_max, megabytes on many hosts, fill a few
    // AF_UNIX sockets, and hold gigabytes that a box without a cgroup is not charged with and that
    // the sampler cannot see (keeper/sockets.c counts the sockets). Programs set them and look no
    // further: the kernel cuts what they ask for too.  SO_SNDBUFFORCE and SO_RCVBUFFORCE do the
    // same without the bound; they need CAP_NET_ADMIN, and are refused here as well.
    [RULE_SETSOCKOPT] =
        {{CHECK_ANY_OF, 1, ENOPROTOOPT, 0, 4, {SOL_SOCKET, IPPROTO_IP, IPPROTO_TCP, IPPROTO_IPV6}},
         {CHECK_NONE_OF, 2, IGNORED, 0, 2, {SO_SNDBUF, SO_RCVBUF}, LEVEL_IS(SOL_SOCKET)},
         {CHECK_ANY_OF,
          2,
          EPERM,
          0,
          18,
          {SO_REUSEADDR, SO_DONTROUTE, SO_BROADCAST, SO_SNDBUF, SO_RCVBUF, SO_KEEPALIVE,
           SO_OOBINLINE, SO_PRIORITY, SO_LINGER, SO_REUSEPORT, SO_PASSCRED, SO_RCVLOWAT,
           SO_RCVTIMEO, SO_SNDTIMEO, SO_TIMESTAMP, SO_TIMESTAMPNS, 66, 67}, // timeouts again
          LEVEL_IS(SOL_SOCKET)},
         {CHECK_ANY_OF,
          2,
          ENOPROTOOPT,
          0,
          12,
          {TCP_NODELAY, TCP_MAXSEG, TCP_CORK, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_SYNCNT,
           TCP_LINGER2, TCP_WINDOW_CLAMP, TCP_QUICKACK, TCP_USER_TIMEOUT, TCP_NOTSENT_LOWAT},
          LEVEL_IS(IPPROTO_TCP)},
         {CHECK_ANY_OF,
          2,
          ENOPROTOOPT,
          0,
          10,
          {IP_TOS, IP_TTL, IP_PKTINFO, IP_MTU_DISCOVER, IP_RECVERR, IP_RECVTTL, IP_RECVTOS,
           IP_BIND_ADDRESS_NO_PORT, IP_MULTICAST_TTL, IP_MULTICAST_LOOP},
          LEVEL_IS(IPPROTO_IP)},
         {CHECK_ANY_OF,
          2,
          ENOPROTOOPT,
          0,
          9,
          {IPV6_UNICAST_HOPS, IPV6_MULTICAST_HOPS, IPV6_MULTICAST_LOOP, IPV6_MTU_DISCOVER,
           IPV6_RECVERR, IPV6_V6ONLY, IPV6_RECVPKTINFO, IPV6_RECVTCLASS, IPV6_TCLASS},
          LEVEL_IS(IPPROTO_IPV6)}},
    // What programs ask a socket about itself.
    // SECURITY: no SO_COOKIE and SO_NETNS_COOKIE, which count for the whole host, no
    // SO_INCOMING_CPU, SO_INCOMING_NAPI_ID, SO_GET_FILTER, SO_PEERPIDFD.  No
    // TCP_ZEROCOPY_RECEIVE, which maps pages of the kernel.  Above 63 at IPPROTO_IP and
    // IPPROTO_IPV6 are the tables of netfilter.
    [RULE_GETSOCKOPT] =
        {{CHECK_ANY_OF, 1, ENOPROTOOPT, 0, 4, {SOL_SOCKET, IPPROTO_IP, IPPROTO_TCP, IPPROTO_IPV6}},
         {CHECK_ANY_OF,
          2,
          ENOPROTOOPT,
          0,
          24,
          {SO_REUSEADDR, SO_TYPE,     SO_ERROR,     SO_DONTROUTE,
           SO_BROADCAST, SO_SNDBUF,   SO_RCVBUF,    SO_KEEPALIVE,
           SO_OOBINLINE, SO_PRIORITY, SO_LINGER,    SO_REUSEPORT,
           SO_PASSCRED,  SO_PEERCRED, SO_RCVLOWAT,  SO_SNDLOWAT,
           SO_RCVTIMEO,  SO_SNDTIMEO, SO_TIMESTAMP, SO_ACCEPTCONN,
           SO_PROTOCOL,  SO_DOMAIN,   66,           67}, // timeouts again
          LEVEL_IS(SOL_SOCKET)},
         {CHECK_ANY_OF,
          2,
          ENOPROTOOPT,
          0,
          14,
          {TCP_NODELAY, TCP_MAXSEG, TCP_CORK, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_SYNCNT,
           TCP_LINGER2, TCP_WINDOW_CLAMP, TCP_INFO, TCP_QUICKACK, TCP_CONGESTION, TCP_USER_TIMEOUT,
           TCP_NOTSENT_LOWAT},
          LEVEL_IS(IPPROTO_TCP)},
         {CHECK_AT_MOST, 2, ENOPROTOOPT, 0, 1, {63}, LEVEL_IS(IPPROTO_IP)},
         {CHECK_AT_MOST, 2, ENOPROTOOPT, 0, 1, {63}, LEVEL_IS(IPPROTO_IPV6)}},
    // SECURITY: no MSG_FASTOPEN: a cookie that the kernel keeps outlives the connection.
    [RULE_FLAGS_2] = {{CHECK_NO_BITS, 2, EOPNOTSUPP, 0, 1, {MSG_OOB | MSG_FASTOPEN}}},
    [RULE_FLAGS_3] = {{CHECK_NO_BITS, 3, EOPNOTSUPP, 0, 1, {MSG_OOB | MSG_FASTOPEN}}},
    // SECURITY: a nice value of 0 or more is ignored, see sched_setaffinity; one below 0 is for the
    // host to give.
    [RULE_SETPRIORITY] = {{CHECK_AT_MOST, 2, EPERM, 0, 1, {INT_MAX}},
                          {CHECK_NEVER, 2, IGNORED, 0, 0, {0}}},
};

#endif
