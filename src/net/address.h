// SPDX-License-Identifier: Apache-2.0
//
// address: IPv4 and IPv6 addresses as rules and the broker see them.  Touches nothing but its
// arguments.
//
// SECURITY: one address has many spellings: ::ffff:10.0.0.1, 64:ff9b::10.0.0.1 (NAT64),
// 2002:0a00:0001:: (6to4), ::10.0.0.1.  An IPv6 address that contains an IPv4 address is also
// judged by that.

#ifndef CONSTRICTOR_NET_ADDRESS_H
#define CONSTRICTOR_NET_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

// Always 16 bytes; an IPv4 address is ::ffff:a.b.c.d and compares equal to that spelling.
struct net_address {
    uint8_t bytes[16];
};

enum { NET_ADDRESS_TEXT = 46, NET_ADDRESS_EMBEDDED_MAX = 8 };

// Why an address is closed by default.  A host rule alone opens NET_PUBLIC only.
enum net_scope {
    NET_PUBLIC,
    NET_UNSPECIFIED,
    NET_LOOPBACK,
    NET_PRIVATE, // RFC 1918, unique local, shared (CGN)
    NET_LINK_LOCAL,
    NET_METADATA, // of a cloud: 169.254.169.254 and its kin
    NET_MULTICAST,
    NET_RESERVED, // documentation, benchmarks, broadcast, translation prefixes that are not decoded
    NET_SCOPE_MAX
};

// Strict: four decimal numbers without leading zeros, or RFC 4291 text without zone.  0 or -1.
int net_address_parse(const char *text, struct net_address *ret);
void net_address_text(const struct net_address *a, char ret[NET_ADDRESS_TEXT]);
bool net_address_is_v4(const struct net_address *a);
// Names that other parsers take for an address: 2130706433, 0x7f.1, 017700000001, 127.1.
bool net_name_is_numeric(const char *name);

int net_address_from_sockaddr(const struct sockaddr *sa, struct net_address *ret,
                              uint16_t *ret_port);
socklen_t net_address_to_sockaddr(const struct net_address *a, uint16_t port,
                                  struct sockaddr_storage *ret);

enum net_scope net_address_scope(const struct net_address *a);
const char *net_scope_name(enum net_scope scope); // "private", "metadata", ...

// The IPv4 addresses that an IPv6 address carries inside, in every known form; returns how many, 0
// for an IPv4 address.
size_t net_address_embedded(const struct net_address *a,
                            struct net_address ret[NET_ADDRESS_EMBEDDED_MAX]);

// Is `a` within the network `base` of `prefix` bits (0..128, an IPv4 /n is 96 + n)?  IPv4 addresses
// are only within networks of IPv4.
bool net_address_within(const struct net_address *a, const struct net_address *base,
                        unsigned prefix);
// The one scope of all its addresses (those of metadata aside), NET_PUBLIC when there is more than
// one.
enum net_scope net_network_scope(const struct net_address *base, unsigned prefix);

#endif
