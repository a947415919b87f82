// SPDX-License-Identifier: Apache-2.0
//
// address: see address.h.  Used by the gate (rules of callers) and by the broker (what it dials).

#include "net/address.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/cleanup.h"

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

enum { V4_BITS = 96 };

// ---- text and socket addresses ------------------------------------------------------------------

static void from_v4(const uint8_t v4[4], struct net_address *ret)
{
    memcpy(ret->bytes, v4_prefix, sizeof v4_prefix);
    memcpy(ret->bytes + sizeof v4_prefix, v4, 4);
}

int net_address_parse(const char *text, struct net_address *ret)
{
    struct net_address a;
    uint8_t v4[4];
    // inet_pton() takes neither leading zeros, nor hex, nor fewer than four numbers, nor a zone.
    if (inet_pton(AF_INET, text, v4) == 1)
        from_v4(v4, &a);
    else if (inet_pton(AF_INET6, text, a.bytes) != 1)
        return -1;
    *ret = a;
    return 0;
}

bool net_address_is_v4(const struct net_address *a)
{
    return memcmp(a->bytes, v4_prefix, sizeof v4_prefix) == 0;
}

void net_address_text(const struct net_address *a, char ret[NET_ADDRESS_TEXT])
{
    ret[0] = '\0';
    if (net_address_is_v4(a))
        (void)inet_ntop(AF_INET, a->bytes + sizeof v4_prefix, ret, NET_ADDRESS_TEXT);
    else
        (void)inet_ntop(AF_INET6, a->bytes, ret, NET_ADDRESS_TEXT);
}

bool net_name_is_numeric(const char *name)
{
    static const char digits[] = "0123456789", hex[] = "0123456789abcdefABCDEF";
    size_t n = strlen(name);
    if (n && name[n - 1] == '.')
        n--;
    // SECURITY: the last label decides.  No top-level domain is a number, and parsers that accept
    // such addresses take one to four parts in base 8, 10 or 16.
    const char *dot = memrchr(name, '.', n);
    const char *last = dot ? dot + 1 : name;
    size_t length = n - (size_t)(last - name);
    if (length == 0)
        return false;
    if (length >= 2 && last[0] == '0' && (last[1] == 'x' || last[1] == 'X'))
        return strspn(last + 2, hex) >= length - 2;
    return strspn(last, digits) >= length;
}

int net_address_from_sockaddr(const struct sockaddr *sa, struct net_address *ret,
                              uint16_t *ret_port)
{
    if (sa->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, sa, sizeof in);
        from_v4((const uint8_t *)&in.sin_addr, ret);
        *ret_port = ntohs(in.sin_port);
        return 0;
    }
    if (sa->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, sa, sizeof in6);
        memcpy(ret->bytes, &in6.sin6_addr, sizeof ret->bytes);
        *ret_port = ntohs(in6.sin6_port);
        return 0;
    }
    return -1;
}

socklen_t net_address_to_sockaddr(const struct net_address *a, uint16_t port,
                                  struct sockaddr_storage *ret)
{
    memset(ret, 0, sizeof *ret);
    if (net_address_is_v4(a)) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&in.sin_addr, a->bytes + sizeof v4_prefix, 4);
        memcpy(ret, &in, sizeof in);
        return sizeof in;
    }
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    memcpy(&in6.sin6_addr, a->bytes, sizeof a->bytes);
    memcpy(ret, &in6, sizeof in6);
    return sizeof in6;
}

// ---- networks -----------------------------------------------------------------------------------

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    if (memcmp(a, b, whole) != 0)
        return false;
    return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

bool net_address_within(const struct net_address *a, const struct net_address *base,
                        unsigned prefix)
{
    // ::/0 does not contain IPv4: it means IPv6.
    if (prefix > 128 || (prefix < V4_BITS && net_address_is_v4(a)))
        return false;
    return same_bits(a->bytes, base->bytes, prefix);
}

// ---- scopes -------------------------------------------------------------------------------------

#define V4(a, b, c, d)                                                                             \
    {                                                                                              \
        {                                                                                          \
            [10] = 0xff, [11] = 0xff, [12] = (a), [13] = (b), [14] = (c), [15] = (d)               \
        }                                                                                          \
    }
#define ONE_V4(a, b, c, d)                                                                         \
    {                                                                                              \
        V4(a, b, c, d), 128, NET_METADATA                                                          \
    }

// The longest matching prefix decides.  From the registries of special-purpose addresses (RFC 6890
// and later), stricter where they leave a choice: relays and protocol anycast are reserved, and of
// IPv6 only 2000::/3, the allocated part, is public.
static const struct row {
    struct net_address base;
    unsigned prefix; // an IPv4 /n is 96 + n
    enum net_scope scope;
} rows[] = {
    {V4(0, 0, 0, 0), V4_BITS, NET_PUBLIC},
    {V4(0, 0, 0, 0), V4_BITS + 8, NET_RESERVED},
    {V4(0, 0, 0, 0), 128, NET_UNSPECIFIED},
    {V4(10, 0, 0, 0), V4_BITS + 8, NET_PRIVATE},
    {V4(100, 64, 0, 0), V4_BITS + 10, NET_PRIVATE},
    {V4(127, 0, 0, 0), V4_BITS + 8, NET_LOOPBACK},
    {V4(169, 254, 0, 0), V4_BITS + 16, NET_LINK_LOCAL},
    {V4(172, 16, 0, 0), V4_BITS + 12, NET_PRIVATE},
    {V4(192, 0, 0, 0), V4_BITS + 24, NET_RESERVED},
    {V4(192, 0, 2, 0), V4_BITS + 24, NET_RESERVED},
    {V4(192, 88, 99, 0), V4_BITS + 24, NET_RESERVED},
    {V4(192, 168, 0, 0), V4_BITS + 16, NET_PRIVATE},
    {V4(198, 18, 0, 0), V4_BITS + 15, NET_RESERVED},
    {V4(198, 51, 100, 0), V4_BITS + 24, NET_RESERVED},
    {V4(203, 0, 113, 0), V4_BITS + 24, NET_RESERVED},
    {V4(224, 0, 0, 0), V4_BITS + 4, NET_MULTICAST},
    {V4(240, 0, 0, 0), V4_BITS + 4, NET_RESERVED},
    // SECURITY: cloud services that give credentials to every client.
    ONE_V4(100, 100, 100, 200),
    ONE_V4(168, 63, 129, 16),
    ONE_V4(169, 254, 0, 23),
    ONE_V4(169, 254, 10, 10),
    ONE_V4(169, 254, 42, 42),
    ONE_V4(169, 254, 169, 123),
    ONE_V4(169, 254, 169, 253),
    ONE_V4(169, 254, 169, 254),
    ONE_V4(169, 254, 170, 2),
    ONE_V4(169, 254, 170, 23),
    ONE_V4(192, 0, 0, 192),
    {{{0xfd, 0, 0x0e, 0xc2}}, 32, NET_METADATA},                            // fd00:ec2::/32
    {{{0xfd, 0, 0, 0x42, [15] = 0x42}}, 128, NET_METADATA},                 // fd00:42::42
    {{{0xfd, 0x20, 0, 0xce, [14] = 0x02, [15] = 0x54}}, 128, NET_METADATA}, // fd20:ce::254
    {{{0xfe, 0x80, [12] = 169, 254, 169, 254}}, 128, NET_METADATA},         // fe80::a9fe:a9fe
    {{{0}}, 0, NET_RESERVED},
    {{{0}}, 128, NET_UNSPECIFIED},
    {{{[15] = 1}}, 128, NET_LOOPBACK},
    {{{0x00, 0x64, 0xff, 0x9b}}, 96, NET_PUBLIC}, // NAT64: the address inside decides
    {{{0x20}}, 3, NET_PUBLIC},
    {{{0x20, 0x01}}, 23, NET_RESERVED}, // protocols; Teredo is one of them
    {{{0x20, 0x01, 0x0d, 0xb8}}, 32, NET_RESERVED},
    {{{0x3f, 0xff}}, 20, NET_RESERVED},
    {{{0xfc}}, 7, NET_PRIVATE},
    {{{0xfe, 0x80}}, 10, NET_LINK_LOCAL},
    {{{0xfe, 0xc0}}, 10, NET_PRIVATE}, // site-local, of old
    {{{0xff}}, 8, NET_MULTICAST},
};

static const struct row *row_of(const struct net_address *base, unsigned prefix)
{
    const struct row *best = NULL;
    for (const struct row *r = rows; r < rows + ARRAY_LEN(rows); r++)
        if (r->prefix <= prefix && net_address_within(base, &r->base, r->prefix) &&
            (!best || r->prefix > best->prefix))
            best = r;
    return best;
}

// Forms of IPv6 that carry an IPv4 address, and where.
static const struct form {
    struct net_address base;
    unsigned prefix;
    uint8_t at[4];
    uint8_t flip; // Teredo keeps the client's address inverted
} forms[] = {
    {{{0}}, 96, {12, 13, 14, 15}, 0},                          // ::a.b.c.d, "compatible"
    {{{[8] = 0xff, [9] = 0xff}}, 96, {12, 13, 14, 15}, 0},     // ::ffff:0:a.b.c.d, "translated"
    {{{0x00, 0x64, 0xff, 0x9b}}, 96, {12, 13, 14, 15}, 0},     // NAT64
    {{{0x00, 0x64, 0xff, 0x9b, 0, 1}}, 48, {6, 7, 9, 10}, 0},  // NAT64 of one's own: RFC 6052 has a
    {{{0x00, 0x64, 0xff, 0x9b, 0, 1}}, 48, {7, 9, 10, 11}, 0}, // layout for each length of the
    {{{0x00, 0x64, 0xff, 0x9b, 0, 1}}, 48, {9, 10, 11, 12}, 0}, // prefix, and nothing says which
    {{{0x00, 0x64, 0xff, 0x9b, 0, 1}}, 48, {12, 13, 14, 15}, 0},
    {{{0x20, 0x02}}, 16, {2, 3, 4, 5}, 0},              // 6to4
    {{{0x20, 0x01, 0, 0}}, 32, {4, 5, 6, 7}, 0},        // Teredo: the server
    {{{0x20, 0x01, 0, 0}}, 32, {12, 13, 14, 15}, 0xff}, // and the client
};

size_t net_address_embedded(const struct net_address *a,
                            struct net_address ret[NET_ADDRESS_EMBEDDED_MAX])
{
    size_t n = 0;
    if (net_address_is_v4(a))
        return 0;
    for (const struct form *f = forms; f < forms + ARRAY_LEN(forms); f++) {
        uint8_t v4[4];
        if (!net_address_within(a, &f->base, f->prefix) || n == NET_ADDRESS_EMBEDDED_MAX)
            continue;
        for (size_t i = 0; i < sizeof v4; i++)
            v4[i] = a->bytes[f->at[i]] ^ f->flip;
        from_v4(v4, &ret[n++]);
    }
    return n;
}

enum net_scope net_address_scope(const struct net_address *a)
{
    struct net_address inner[NET_ADDRESS_EMBEDDED_MAX];
    enum net_scope scope = row_of(a, 128)->scope;
    if (scope != NET_PUBLIC && scope != NET_RESERVED)
        return scope;
    size_t n = net_address_embedded(a, inner);
    for (size_t i = 0; i < n; i++) {
        enum net_scope s = row_of(&inner[i], 128)->scope;
        if (s == NET_METADATA)
            return s;
        if (scope == NET_PUBLIC ||
            (scope == NET_RESERVED && s >= NET_LOOPBACK && s <= NET_LINK_LOCAL))
            scope = s;
    }
    return scope;
}

enum net_scope net_network_scope(const struct net_address *base, unsigned prefix)
{
    static const struct net_address nat64 = {{0x00, 0x64, 0xff, 0x9b}};
    struct net_address inner;
    if (prefix >= V4_BITS && net_address_within(base, &nat64, V4_BITS)) {
        from_v4(base->bytes + sizeof v4_prefix, &inner);
        base = &inner;
    }
    const struct row *r = row_of(base, prefix);
    if (!r)
        return NET_PUBLIC;
    for (const struct row *s = rows; s < rows + ARRAY_LEN(rows); s++)
        if (s->prefix > prefix && s->scope != r->scope && s->scope != NET_METADATA &&
            same_bits(s->base.bytes, base->bytes, prefix))
            return NET_PUBLIC; // mixed
    return r->scope;
}

static const char *const scope_names[NET_SCOPE_MAX] = {
    [NET_PUBLIC] = "public",       [NET_UNSPECIFIED] = "unspecified", [NET_LOOPBACK] = "loopback",
    [NET_PRIVATE] = "private",     [NET_LINK_LOCAL] = "link-local",   [NET_METADATA] = "metadata",
    [NET_MULTICAST] = "multicast", [NET_RESERVED] = "reserved",
};

const char *net_scope_name(enum net_scope scope)
{
    return (unsigned)scope < NET_SCOPE_MAX ? scope_names[scope] : "unknown";
}
