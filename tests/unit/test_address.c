// SPDX-License-Identifier: Apache-2.0
//
// net/address: spellings, scopes, and IPv4 addresses that hide in IPv6 ones.

#include "unit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/address.h"

static struct net_address at(const char *text)
{
    struct net_address a;
    if (net_address_parse(text, &a) < 0)
        fail_msg("%s was not read", text);
    return a;
}

static void texts_are_read_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text, *back; // NULL: refused
    } cases[] = {
        {"1.2.3.4", "1.2.3.4"},
        {"0.0.0.0", "0.0.0.0"},
        {"255.255.255.255", "255.255.255.255"},
        {"::ffff:1.2.3.4", "1.2.3.4"},
        {"::FFFF:102:304", "1.2.3.4"},
        {"2001:DB8:0:0:0:0:0:7", "2001:db8::7"},
        {"::", "::"},
        {"::1", "::1"},
        {"1.2.3", NULL},
        {"1.2.3.4.", NULL},
        {"1.2.3.4.5", NULL},
        {"1.2.3.256", NULL},
        {"01.2.3.4", NULL},
        {"0x1.2.3.4", NULL},
        {"1.2.3.4 ", NULL},
        {" 1.2.3.4", NULL},
        {"+1.2.3.4", NULL},
        {"16909060", NULL},
        {"", NULL},
        {".", NULL},
        {"1.2..4", NULL},
        {"fe80::1%eth0", NULL},
        {"fe80::1%1", NULL},
        {"[::1]", NULL},
        {"::1::", NULL},
        {"1:2:3:4:5:6:7", NULL},
        {"1:2:3:4:5:6:7:8:9", NULL},
        {"12345::", NULL},
        {"::ffff:1.2.3", NULL},
        {"::ffff:01.2.3.4", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct net_address a;
        char back[NET_ADDRESS_TEXT];
        int r = net_address_parse(cases[i].text, &a);
        if ((r == 0) != (cases[i].back != NULL))
            fail_msg("'%s' gave %d", cases[i].text, r);
        if (r < 0)
            continue;
        net_address_text(&a, back);
        assert_string_equal(back, cases[i].back);
    }
    assert_true(net_address_is_v4(&(struct net_address){{[10] = 0xff, [11] = 0xff}}));
    struct net_address mapped = at("::ffff:1.2.3.4"), plain = at("1.2.3.4"), six = at("::1.2.3.4");
    assert_memory_equal(&mapped, &plain, sizeof plain);
    assert_false(net_address_is_v4(&six));
}

static void names_that_are_numbers_are_known(void **state)
{
    (void)state;
    static const char *const yes[] = {
        "2130706433", "0x7f.1", "0X7F.1",     "017700000001", "127.1", "127.0.0.1", "1.2.3.4.",
        "0x7f",       "0x",     "example.0x", "a.b.1",        "0",     "1.2.3.4.5", "0x7f000001"};
    static const char *const no[] = {
        "",      ".",       "a",         "1a",          "1.a",
        "a1",    "0xg",     "127.0.0.x", "1.2.3.4.com", "0x7f.example.org",
        "_1",    "xn--1-0", "1..",       "x0",          "1e3",
        "0.0b1", "-1"};
    for (size_t i = 0; i < ARRAY_LEN(yes); i++)
        if (!net_name_is_numeric(yes[i]))
            fail_msg("%s is a number", yes[i]);
    for (size_t i = 0; i < ARRAY_LEN(no); i++)
        if (net_name_is_numeric(no[i]))
            fail_msg("%s is no number", no[i]);
}

static const struct {
    const char *text;
    enum net_scope scope;
} scopes[] = {
    {"1.2.3.4", NET_PUBLIC},
    {"0.0.0.0", NET_UNSPECIFIED},
    {"0.0.0.1", NET_RESERVED},
    {"0.255.255.255", NET_RESERVED},
    {"1.0.0.0", NET_PUBLIC},
    {"9.255.255.255", NET_PUBLIC},
    {"10.0.0.0", NET_PRIVATE},
    {"10.255.255.255", NET_PRIVATE},
    {"11.0.0.0", NET_PUBLIC},
    {"100.63.255.255", NET_PUBLIC},
    {"100.64.0.0", NET_PRIVATE},
    {"100.127.255.255", NET_PRIVATE},
    {"100.128.0.0", NET_PUBLIC},
    {"100.100.100.200", NET_METADATA},
    {"100.100.100.201", NET_PRIVATE},
    {"126.255.255.255", NET_PUBLIC},
    {"127.0.0.0", NET_LOOPBACK},
    {"127.0.0.1", NET_LOOPBACK},
    {"127.255.255.255", NET_LOOPBACK},
    {"128.0.0.0", NET_PUBLIC},
    {"168.63.129.16", NET_METADATA},
    {"168.63.129.17", NET_PUBLIC},
    {"169.253.255.255", NET_PUBLIC},
    {"169.254.0.0", NET_LINK_LOCAL},
    {"169.254.169.254", NET_METADATA},
    {"169.254.170.2", NET_METADATA},
    {"169.254.170.23", NET_METADATA},
    {"169.254.255.255", NET_LINK_LOCAL},
    {"169.255.0.0", NET_PUBLIC},
    {"172.15.255.255", NET_PUBLIC},
    {"172.16.0.0", NET_PRIVATE},
    {"172.31.255.255", NET_PRIVATE},
    {"172.32.0.0", NET_PUBLIC},
    {"192.0.0.1", NET_RESERVED},
    {"192.0.0.192", NET_METADATA},
    {"192.0.1.0", NET_PUBLIC},
    {"192.0.2.7", NET_RESERVED},
    {"192.0.3.0", NET_PUBLIC},
    {"192.88.99.1", NET_RESERVED},
    {"192.167.255.255", NET_PUBLIC},
    {"192.168.0.1", NET_PRIVATE},
    {"192.169.0.0", NET_PUBLIC},
    {"198.17.255.255", NET_PUBLIC},
    {"198.18.0.0", NET_RESERVED},
    {"198.19.255.255", NET_RESERVED},
    {"198.20.0.0", NET_PUBLIC},
    {"198.51.100.1", NET_RESERVED},
    {"203.0.113.255", NET_RESERVED},
    {"203.0.114.0", NET_PUBLIC},
    {"223.255.255.255", NET_PUBLIC},
    {"224.0.0.1", NET_MULTICAST},
    {"239.255.255.255", NET_MULTICAST},
    {"240.0.0.0", NET_RESERVED},
    {"255.255.255.255", NET_RESERVED},
    {"::", NET_UNSPECIFIED},
    {"::1", NET_LOOPBACK},
    {"::2", NET_RESERVED},
    {"100::1", NET_RESERVED},
    {"1fff::1", NET_RESERVED},
    {"2000::1", NET_PUBLIC},
    {"2001:1::1", NET_RESERVED},
    {"2001:1ff::1", NET_RESERVED},
    {"2001:200::1", NET_PUBLIC},
    {"2001:db7::1", NET_PUBLIC},
    {"2001:db8::1", NET_RESERVED},
    {"2001:db9::1", NET_PUBLIC},
    {"2a00::1", NET_PUBLIC},
    {"3ffe::1", NET_PUBLIC},
    {"3fff::1", NET_RESERVED},
    {"3fff:1000::1", NET_PUBLIC},
    {"4000::1", NET_RESERVED},
    {"5f00::1", NET_RESERVED},
    {"fc00::1", NET_PRIVATE},
    {"fd00:ec2::254", NET_METADATA},
    {"fd00:ec2::23", NET_METADATA},
    {"fd20:ce::254", NET_METADATA},
    {"fd00:ec3::254", NET_PRIVATE},
    {"fdff::1", NET_PRIVATE},
    {"fe00::1", NET_RESERVED},
    {"fe80::1", NET_LINK_LOCAL},
    {"fe80::a9fe:a9fe", NET_METADATA},
    {"febf::1", NET_LINK_LOCAL},
    {"fec0::1", NET_PRIVATE},
    {"ff02::1", NET_MULTICAST},
    {"64:ff9b::1.2.3.4", NET_PUBLIC},
    {"64:ff9a::1.2.3.4", NET_RESERVED},
    {"64:ff9b:0:0:1::1.2.3.4", NET_RESERVED},
    {"2002:102:304::1", NET_PUBLIC},
    {"::1.2.3.4", NET_RESERVED},
    {"::ffff:0:1.2.3.4", NET_RESERVED},
    {"64:ff9b:1::1.2.3.4", NET_RESERVED},
    {"2001:0:102:304::fefd:fcfb", NET_RESERVED},
};

static void each_address_has_its_scope(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(scopes); i++) {
        struct net_address a = at(scopes[i].text);
        enum net_scope got = net_address_scope(&a);
        if (got != scopes[i].scope)
            fail_msg("%s is %s and not %s", scopes[i].text, net_scope_name(got),
                     net_scope_name(scopes[i].scope));
    }
    for (int i = 0; i < NET_SCOPE_MAX; i++)
        assert_non_null(net_scope_name((enum net_scope)i));
    assert_string_equal(net_scope_name(NET_SCOPE_MAX), "unknown");
}

// Every IPv4 address of the table in every form: what is not public stays so, and metadata
// metadata.
static void wrapping_an_address_does_not_make_it_public(void **state)
{
    (void)state;
    static const struct {
        const char *format; // of four bytes, in hex
        uint8_t flip;
    } wraps[] = {
        {"::ffff:%02x%02x:%02x%02x", 0},
        {"::%02x%02x:%02x%02x", 0},
        {"::ffff:0:%02x%02x:%02x%02x", 0},
        {"64:ff9b::%02x%02x:%02x%02x", 0},
        {"64:ff9b:1::%02x%02x:%02x%02x", 0},
        {"64:ff9b:1:%02x%02x:%02x:%02x00::", 0}, // u-octet between
        {"64:ff9b:1:00%02x:00%02x:%02x%02x::", 0},
        {"64:ff9b:1:0:00%02x:%02x%02x:%02x00::", 0},
        {"2002:%02x%02x:%02x%02x::1", 0},
        {"2001:0:%02x%02x:%02x%02x::fefd:fcfb", 0},
        {"2001:0:102:304:0:0:%02x%02x:%02x%02x", 0xff},
    };
    for (size_t i = 0; i < ARRAY_LEN(scopes); i++) {
        struct net_address a = at(scopes[i].text);
        if (!net_address_is_v4(&a))
            continue;
        for (size_t w = 0; w < ARRAY_LEN(wraps); w++) {
            char text[NET_ADDRESS_TEXT + 8];
            const uint8_t *b = a.bytes + 12;
            uint8_t f = wraps[w].flip;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(text, sizeof text, wraps[w].format, b[0] ^ f, b[1] ^ f, b[2] ^ f, b[3] ^ f);
#pragma GCC diagnostic pop
            struct net_address wrapped = at(text), inner[NET_ADDRESS_EMBEDDED_MAX];
            enum net_scope got = net_address_scope(&wrapped);
            if (scopes[i].scope != NET_PUBLIC && got == NET_PUBLIC)
                fail_msg("%s hides %s, which is %s", text, scopes[i].text,
                         net_scope_name(scopes[i].scope));
            if (scopes[i].scope == NET_METADATA && got != NET_METADATA)
                fail_msg("%s hides %s, and is only %s", text, scopes[i].text, net_scope_name(got));
            if (net_address_is_v4(&wrapped))
                continue;
            size_t n = net_address_embedded(&wrapped, inner), found = 0;
            assert_true(n <= NET_ADDRESS_EMBEDDED_MAX);
            for (size_t k = 0; k < n; k++)
                found += memcmp(&inner[k], &a, sizeof a) == 0;
            if (!found)
                fail_msg("%s was not found in %s", scopes[i].text, text);
        }
    }
}

static void networks_hold_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *a, *base;
        unsigned prefix;
        bool within;
    } cases[] = {
        {"10.1.2.3", "10.0.0.0", 96 + 8, true},
        {"11.1.2.3", "10.0.0.0", 96 + 8, false},
        {"10.1.2.3", "10.1.2.3", 128, true},
        {"10.1.2.2", "10.1.2.3", 128, false},
        {"10.1.2.2", "10.1.2.3", 127, true},
        {"1.2.3.4", "0.0.0.0", 96, true},
        {"1.2.3.4", "::", 0, false},
        {"2001:db8::1", "::", 0, true},
        {"::1", "0.0.0.0", 96, false},
        {"172.31.0.1", "172.16.0.0", 96 + 12, true},
        {"172.32.0.1", "172.16.0.0", 96 + 12, false},
        {"2001:db8::1", "2001:db8::", 32, true},
        {"2001:db9::1", "2001:db8::", 32, false},
        {"10.0.0.1", "10.0.0.1", 129, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct net_address a = at(cases[i].a), base = at(cases[i].base);
        if (net_address_within(&a, &base, cases[i].prefix) != cases[i].within)
            fail_msg("%s in %s/%u", cases[i].a, cases[i].base, cases[i].prefix);
    }
}

static void a_network_has_one_scope_or_is_public(void **state)
{
    (void)state;
    static const struct {
        const char *base;
        unsigned prefix;
        enum net_scope scope;
    } cases[] = {
        {"10.0.0.0", 96 + 8, NET_PRIVATE},
        {"10.0.0.0", 96 + 7, NET_PUBLIC},
        {"10.1.0.0", 96 + 16, NET_PRIVATE},
        {"0.0.0.0", 96, NET_PUBLIC},
        {"0.0.0.0", 96 + 8, NET_PUBLIC},
        {"127.0.0.0", 96 + 8, NET_LOOPBACK},
        {"169.254.0.0", 96 + 16, NET_LINK_LOCAL},
        {"169.254.169.254", 128, NET_METADATA},
        {"192.0.2.0", 96 + 24, NET_RESERVED},
        {"1.2.3.0", 96 + 24, NET_PUBLIC},
        {"128.0.0.0", 96 + 1, NET_PUBLIC},
        {"224.0.0.0", 96 + 3, NET_PUBLIC},
        {"::", 0, NET_PUBLIC},
        {"::", 96, NET_PUBLIC},
        {"fc00::", 7, NET_PRIVATE},
        {"fd00::", 8, NET_PRIVATE},
        {"fe80::", 10, NET_LINK_LOCAL},
        {"fe00::", 8, NET_PUBLIC},
        {"2000::", 3, NET_PUBLIC},
        {"2001:db8::", 32, NET_RESERVED},
        {"64:ff9b::", 96, NET_PUBLIC},
        {"64:ff9b::a00:0", 104, NET_PRIVATE},
        {"64:ff9b::102:0", 112, NET_PUBLIC},
        {"2002:a00::", 24, NET_PUBLIC},
        {"64:ff9b:1::", 48, NET_RESERVED},
        {"ff00::", 8, NET_MULTICAST},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct net_address base = at(cases[i].base);
        enum net_scope got = net_network_scope(&base, cases[i].prefix);
        if (got != cases[i].scope)
            fail_msg("%s/%u is %s", cases[i].base, cases[i].prefix, net_scope_name(got));
    }
}

static void socket_addresses_come_back(void **state)
{
    (void)state;
    static const char *const texts[] = {"1.2.3.4", "::", "2001:db8::7", "0.0.0.0", "::1.2.3.4"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct net_address a = at(texts[i]), back;
        struct sockaddr_storage ss;
        uint16_t port;
        socklen_t n = net_address_to_sockaddr(&a, 443, &ss);
        assert_int_equal(ss.ss_family, net_address_is_v4(&a) ? AF_INET : AF_INET6);
        assert_int_equal(n, net_address_is_v4(&a) ? sizeof(struct sockaddr_in)
                                                  : sizeof(struct sockaddr_in6));
        assert_int_equal(net_address_from_sockaddr((struct sockaddr *)&ss, &back, &port), 0);
        assert_memory_equal(&a, &back, sizeof a);
        assert_int_equal(port, 443);
    }
    struct sockaddr_storage other = {.ss_family = AF_UNIX};
    struct net_address a;
    uint16_t port;
    assert_int_equal(net_address_from_sockaddr((struct sockaddr *)&other, &a, &port), -1);
    // A socket of both families tells IPv4 in the mapped spelling.
    struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = htons(80)};
    assert_int_equal(inet_pton(AF_INET6, "::ffff:192.0.2.7", &mapped.sin6_addr), 1);
    assert_int_equal(net_address_from_sockaddr((struct sockaddr *)&mapped, &a, &port), 0);
    struct net_address plain = at("192.0.2.7");
    assert_memory_equal(&a, &plain, sizeof a);
}

static void random_addresses_come_back(void **state)
{
    (void)state;
    srandom(7);
    for (int i = 0; i < 20000; i++) {
        struct net_address a, back;
        char text[NET_ADDRESS_TEXT];
        for (size_t k = 0; k < sizeof a.bytes; k++)
            a.bytes[k] = random() % 3 ? 0 : (uint8_t)random();
        net_address_text(&a, text);
        assert_int_equal(net_address_parse(text, &back), 0);
        assert_memory_equal(&a, &back, sizeof a);
        assert_true((unsigned)net_address_scope(&a) < NET_SCOPE_MAX);
        unsigned prefix = (unsigned)random() % 129;
        (void)net_network_scope(&a, prefix < 96 && net_address_is_v4(&a) ? 96 : prefix);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_read_strictly),
        cmocka_unit_test(names_that_are_numbers_are_known),
        cmocka_unit_test(each_address_has_its_scope),
        cmocka_unit_test(wrapping_an_address_does_not_make_it_public),
        cmocka_unit_test(networks_hold_addresses),
        cmocka_unit_test(a_network_has_one_scope_or_is_public),
        cmocka_unit_test(socket_addresses_come_back),
        cmocka_unit_test(random_addresses_come_back),
    };
    return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
