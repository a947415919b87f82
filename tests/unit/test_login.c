// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of net/login (logins of indexes) and of login_head in broker/login.

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/login.h"
#include "net/login.h"

static int split(const char *url, char *left, struct net_login *ret, struct err *e)
{
    snprintf(left, 4096, "%s", url);
    return net_login_split(left, ret, e);
}

// ---- addresses ----------------------------------------------------------------------------------

static void test_addresses_lose_their_logins(void **state)
{
    static const struct {
        const char *url, *left, *host, *value;
        unsigned port;
    } cases[] = {
        {"https://me:secret@Index.example.org/simple", "https://Index.example.org/simple",
         "index.example.org", "Basic bWU6c2VjcmV0", 443},
        {"https://me:s%40%3A%2f@index.example.org:8443/a@b?c@d",
         "https://index.example.org:8443/a@b?c@d", "index.example.org", "Basic bWU6c0A6Lw==", 8443},
        {"https://token@index.example.org", "https://index.example.org", "index.example.org",
         "Basic dG9rZW46", 443},
        {"https://a:b@c:d@10.0.0.1/", "https://10.0.0.1/", "10.0.0.1", "Basic YTpiQGM6ZA==", 443},
        {"https://a:b@[2001:DB8::1]:444/", "https://[2001:DB8::1]:444/", "2001:db8::1",
         "Basic YTpi", 444},
        {"https://a:b@[2001:db8::1]/", "https://[2001:db8::1]/", "2001:db8::1", "Basic YTpi", 443},
        {"https://a:100%@x.example.org/", "https://x.example.org/", "x.example.org",
         "Basic YToxMDAl", 443},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char left[4096];
        struct net_login l;
        struct err e;
        assert_int_equal(split(cases[i].url, left, &l, &e), 1);
        assert_string_equal(left, cases[i].left);
        assert_string_equal(l.host, cases[i].host);
        assert_string_equal(l.value, cases[i].value);
        assert_int_equal(l.port, cases[i].port);
    }
}

static void test_addresses_without_a_login_stay(void **state)
{
    static const char *const urls[] = {"https://x.example.org/simple", "http://x.example.org/a@b",
                                       "https://x.example.org?q=a:b@c", "nothing", ""};
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        char left[4096];
        struct net_login l;
        struct err e;
        assert_int_equal(split(urls[i], left, &l, &e), 0);
        assert_string_equal(left, urls[i]);
    }
}

static void test_bad_addresses_are_told_without_the_password(void **state)
{
    static const char *const urls[] = {"http://me:hush@x.example.org/",
                                       "https://me:hush@/simple",
                                       "https://me:hush@",
                                       "https://me:hush@x.example.org:99999/",
                                       "https://me:hush@x.example.org:http/",
                                       "https://me:hush%0a@x.example.org/",
                                       "https://me:hush\x7f@x.example.org/",
                                       "https://me:hush@bad_host!/",
                                       "ftp://me:hush@x.example.org/"};
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        char left[4096];
        struct net_login l;
        struct err e = {0};
        assert_true(split(urls[i], left, &l, &e) < 0);
        assert_null(strstr(left, "hush"));
        assert_null(strstr(e.message, "hush"));
        assert_null(strstr(e.hint, "hush"));
    }
    char *url = malloc(4096), left[4096];
    struct net_login l;
    struct err e;
    memset(url, 'x', 4000);
    memcpy(url, "https://me:", 11);
    snprintf(url + 3000, 100, "@x.example.org/");
    assert_true(split(url, left, &l, &e) < 0);
    free(url);
}

// ---- the file -----------------------------------------------------------------------------------

static int read_text(const char *text, struct net_logins *all, struct err *e)
{
    static struct net_logins hosts = {
        .count = 2,
        .items = {{.host = "x.example.org", .port = 443}, {.host = "y.example.org", .port = 8443}}};
    char copy[4096];
    snprintf(copy, sizeof copy, "%s", text);
    return net_login_file(copy, &hosts, all, e);
}

static void test_a_file_has_entries(void **state)
{
    static struct net_logins all;
    struct err e;
    (void)state;
    all.count = 0;
    assert_int_equal(read_text("# machine x.example.org login no password no\n"
                               "machine elsewhere.example.org login a password b\n"
                               "machine X.example.org\n\tlogin me\r\n password s#c\n"
                               "machine y.example.org:8443 password p login u # why not\n"
                               "machine y.example.org login other password port\n"
                               "machine x.example.org login second password one",
                               &all, &e),
                     0);
    assert_int_equal(all.count, 2);
    assert_string_equal(all.items[0].host, "x.example.org");
    assert_string_equal(all.items[0].value, "Basic bWU6cyNj");
    assert_string_equal(all.items[1].value, "Basic dTpw");
    assert_int_equal(all.items[1].port, 8443);
    assert_int_equal(read_text("", &all, &e), 0);
    assert_int_equal(read_text(" \n # nothing", &all, &e), 0);
    assert_int_equal(all.count, 2);
}

static void test_bad_files_are_told_without_the_password(void **state)
{
    static const char *const texts[] = {"machine x.example.org login me",
                                        "machine x.example.org password hush",
                                        "login me password hush",
                                        "machine x.example.org login me hush",
                                        "default login me password hush",
                                        "machine x.example.org login a login b password hush",
                                        "machine x.example.org macdef hush",
                                        "machine a@b login me password hush",
                                        "machine a/b login me password hush",
                                        "machine",
                                        "machine x.example.org login"};
    static struct net_logins all;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct err e = {0};
        all.count = 0;
        assert_true(read_text(texts[i], &all, &e) < 0);
        assert_null(strstr(e.message, "hush"));
        assert_int_equal(all.count, 0);
    }
}

// ---- taken from the configuration ---------------------------------------------------------------

static void test_the_configuration_has_none_afterwards(void **state)
{
    static struct config c;
    static struct net_logins all;
    struct err e;
    char ret[256];
    (void)state;
    config_init(&c);
    assert_int_equal(setenv("CONSTRICTOR_INDEX_URL", "https://me:hush@x.example.org/simple", 1), 0);
    assert_int_equal(setenv("CONSTRICTOR_EXTRA_INDEX_URL",
                            "https://you:hush2@y.example.org:8443/,https://z.example.org/simple",
                            1),
                     0);
    assert_int_equal(config_read_environment(&c, 0, &e), 0);
    assert_int_equal(net_logins_take(&c, &e), 0);
    assert_string_equal(c.index_url, "https://x.example.org/simple");
    assert_string_equal(c.extra_index_urls.items[0], "https://y.example.org:8443/");
    assert_string_equal(getenv("CONSTRICTOR_INDEX_URL"), "https://x.example.org/simple");
    assert_string_equal(getenv("CONSTRICTOR_EXTRA_INDEX_URL"),
                        "https://y.example.org:8443/,https://z.example.org/simple");
    assert_int_equal(net_logins_read(&all), 0);
    assert_int_equal(all.count, 2);
    assert_string_equal(all.items[0].value, "Basic bWU6aHVzaA==");
    assert_true(net_login_address("https://x.example.org/simple", ret, sizeof ret));
    assert_string_equal(ret, "http://x.example.org:443/simple");
    assert_true(net_login_address("https://Y.example.org:8443", ret, sizeof ret));
    assert_string_equal(ret, "http://y.example.org:8443");
    assert_false(net_login_address("https://z.example.org/simple", ret, sizeof ret));
    assert_false(net_login_address("http://x.example.org/simple", ret, sizeof ret));
    assert_false(net_login_address("https://x.example.org:8443/", ret, sizeof ret));
    assert_false(net_login_address("", ret, sizeof ret));

    c.origins[CONFIG_KEY_index_url].source = CONFIG_FROM_FLAG;
    snprintf(c.index_url, sizeof c.index_url, "https://me:hush@x.example.org/simple");
    assert_true(net_logins_take(&c, &e) < 0);
    assert_null(strstr(e.message, "hush"));
    snprintf(c.index_url, sizeof c.index_url, "https://x.example.org/simple");
    assert_int_equal(net_logins_take(&c, &e), 0);
    assert_int_equal(net_logins_read(&all), 0);
    assert_int_equal(all.count, 0);
}

static void test_two_logins_for_one_host_are_one_too_many(void **state)
{
    static struct config c;
    struct err e;
    (void)state;
    config_init(&c);
    snprintf(c.index_url, sizeof c.index_url, "https://me:a@x.example.org/simple");
    c.extra_index_urls.count = 1;
    snprintf(c.extra_index_urls.items[0], TEXT_ITEM_MAX, "https://me:b@x.example.org/other");
    assert_true(net_logins_take(&c, &e) < 0);
    assert_non_null(strstr(e.message, "two logins"));
}

static void test_indexes_without_logins_are_not_counted(void **state)
{
    static struct config c;
    struct err e;
    (void)state;
    config_init(&c);
    for (size_t i = 0; i < NET_LOGINS_MAX + 4; i++)
        snprintf(c.extra_index_urls.items[c.extra_index_urls.count++], TEXT_ITEM_MAX,
                 "https://%zu.example.org/", i);
    assert_int_equal(net_logins_take(&c, &e), 0);
}

static void test_a_file_that_others_can_read_is_refused(void **state)
{
    static struct config c;
    static struct net_logins all;
    struct err e;
    char path[] = "/tmp/login-XXXXXX";
    static const char text[] = "machine x.example.org login me password hush\n";
    (void)state;
    int fd = mkstemp(path);
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    for (unsigned bits = 0; bits <= 077; bits++) {
        config_init(&c);
        snprintf(c.index_url, sizeof c.index_url, "https://x.example.org/simple");
        snprintf(c.index_credentials, sizeof c.index_credentials, "%s", path);
        assert_int_equal(fchmod(fd, 0600 | bits), 0);
        assert_int_equal(net_logins_take(&c, &e), bits ? -1 : 0);
        if (!bits) {
            assert_int_equal(net_logins_read(&all), 0);
            assert_int_equal(all.count, 1);
        }
    }
    (void)close(fd);
    (void)unlink(path);
    assert_true(net_logins_take(&c, &e) < 0); // it is gone
    snprintf(c.index_credentials, sizeof c.index_credentials, "/dev/null");
    assert_true(net_logins_take(&c, &e) < 0);
}

// ---- heads --------------------------------------------------------------------------------------

static ssize_t pass(const char *text, const struct net_login *who, char *ret, const char **why)
{
    static struct request_head h;
    struct request r = {0};
    size_t used;
    if (request_next(&r, (const uint8_t *)text, strlen(text), &h, &used, why) != REQUEST_HEAD)
        return -2;
    ssize_t n = login_head(text, used, &h, who, ret, 8192, why);
    if (n >= 0)
        ret[n] = '\0';
    return n;
}

static void test_heads_get_a_login_and_lose_the_rest(void **state)
{
    struct net_login who = {.host = "x.example.org", .port = 443, .value = "Basic YTpi"};
    char ret[8192];
    const char *why;
    (void)state;
    assert_true(
        pass("GET /simple/a/?x=1 HTTP/1.1\r\nHost: X.example.org:443\r\nAccept: text/html\r\n"
             "Authorization: Basic mine\r\nauthorization: Basic two\r\nCookie: a\r\n"
             "Proxy-Authorization: b\r\nX-HTTP-Method-Override: TRACE\r\nAccept-Language: en\r\n"
             "RANGE: bytes=0-9\r\nConnection: close\r\n\r\n",
             &who, ret, &why) > 0);
    assert_string_equal(ret,
                        "GET /simple/a/?x=1 HTTP/1.1\r\nHost: x.example.org\r\n"
                        "Authorization: Basic YTpi\r\nAccept: text/html\r\nRANGE: bytes=0-9\r\n"
                        "Connection: close\r\n\r\n");
    who.port = 8443;
    assert_true(
        pass("HEAD / HTTP/1.1\r\nHost: x.example.org\r\nConnection: authorization, close\r\n\r\n",
             &who, ret, &why) > 0);
    assert_string_equal(ret, "HEAD / HTTP/1.1\r\nHost: x.example.org:8443\r\n"
                             "Authorization: Basic YTpi\r\n\r\n");
    struct net_login six = {.host = "2001:db8::1", .port = 444, .value = "Basic YTpi"};
    assert_true(pass("GET / HTTP/1.1\r\nHost: [2001:db8::1]:444\r\n\r\n", &six, ret, &why) > 0);
    assert_string_equal(ret, "GET / HTTP/1.1\r\nHost: [2001:db8::1]:444\r\n"
                             "Authorization: Basic YTpi\r\n\r\n");
}

static void test_heads_that_do_not_go_on(void **state)
{
    static const char *const texts[] = {
        "TRACE / HTTP/1.1\r\nHost: x.example.org\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x.example.org\r\nContent-Length: 0\r\n\r\n",
        "get / HTTP/1.1\r\nHost: x.example.org\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: x.example.org\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: x.example.org\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: y.example.org\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x.example.org\r\nUpgrade: websocket\r\n\r\n"};
    struct net_login who = {.host = "x.example.org", .port = 443, .value = "Basic YTpi"};
    char ret[8192];
    const char *why;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(pass(texts[i], &who, ret, &why), -1);
        assert_non_null(why);
    }
    static struct request_head h = {.method = "GET", .host = "x.example.org"};
    static const char head[] = "GET / HTTP/1.1\r\nHost: x.example.org\r\n\r\n";
    assert_int_equal(login_head(head, sizeof head - 1, &h, &who, ret, 300, &why), -1); // no room
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_lose_their_logins),
        cmocka_unit_test(test_addresses_without_a_login_stay),
        cmocka_unit_test(test_bad_addresses_are_told_without_the_password),
        cmocka_unit_test(test_a_file_has_entries),
        cmocka_unit_test(test_bad_files_are_told_without_the_password),
        cmocka_unit_test(test_the_configuration_has_none_afterwards),
        cmocka_unit_test(test_two_logins_for_one_host_are_one_too_many),
        cmocka_unit_test(test_indexes_without_logins_are_not_counted),
        cmocka_unit_test(test_a_file_that_others_can_read_is_refused),
        cmocka_unit_test(test_heads_get_a_login_and_lose_the_rest),
        cmocka_unit_test(test_heads_that_do_not_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
