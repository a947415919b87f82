// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of http/door and http/origin: which requests get in.

#include "unit.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http/door.h"
#include "http/origin.h"

static struct config config;
static char folder[] = "/tmp/test_door.XXXXXX";

static struct slice text_of(const char *s)
{
    return (struct slice){s, s ? strlen(s) : 0};
}

static struct door *open_door(void)
{
    struct err e;
    if (door_check_bind(&config, &e) < 0)
        fail_msg("%s", e.message);
    struct door *d = door_open(&config, &e);
    if (!d)
        fail_msg("%s", e.message);
    return d;
}

static int fresh(void **state)
{
    (void)state;
    config_init(&config);
    return 0;
}

static void add(struct text_list *list, const char *text)
{
    assert_int_equal(text_list_add(list, text), 0);
}

// ---- origins ------------------------------------------------------------------------------------

static void hosts_are_read_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name;
        int port;
        bool is_address;
    } good[] = {
        {"localhost", "localhost", -1, false},
        {"LocalHost:8000", "localhost", 8000, false},
        {"127.0.0.1:0", "127.0.0.1", 0, true},
        {"[::1]", "::1", -1, true},
        {"[0:0:0:0:0:0:0:1]:65535", "::1", 65535, true},
        {"mcp.example.org:", "mcp.example.org", -1, false},
        {"127.0.0.1.nip.example", "127.0.0.1.nip.example", -1, false},
        {"0x7f.1", "0x7f.1", -1, false}, // a name like any other: not local
    };
    static const char *const bad[] = {
        "",
        ":",
        ":80",
        "a b",
        "localhost:65536",
        "localhost:-1",
        "localhost:80a",
        "[::1",
        "::1",
        "[::1]x",
        "[localhost]",
        "[::1]:1:2",
        "a..b",
        ".a",
        "a.",
        "localhost.",
        "user@localhost",
        "localhost/",
        "local\thost",
        "l\xc3\xb6"
        "calhost",
        "localhost:000080",
        "localhost,evil",
        "-a",
    };
    struct origin p;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        if (origin_parse_host(text_of(good[i].text), &p) < 0)
            fail_msg("refused: %s", good[i].text);
        assert_string_equal(p.name, good[i].name);
        assert_int_equal(p.port, good[i].port);
        assert_int_equal(p.is_address, good[i].is_address);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (origin_parse_host(text_of(bad[i]), &p) == 0)
            fail_msg("taken: '%s'", bad[i]);
    assert_int_equal(origin_parse_host((struct slice){"localhost\0x", 11}, &p), -1);
    assert_int_equal(origin_parse_host((struct slice){NULL, 0}, &p), -1);
}

static void origins_are_read_strictly(void **state)
{
    (void)state;
    static const char *const bad[] = {"null",
                                      "",
                                      "http://",
                                      "localhost",
                                      "ftp://localhost",
                                      "http:/localhost",
                                      "http://a/",
                                      "http://a b",
                                      "http://a@b",
                                      "file://",
                                      "https://a,https://b",
                                      "http://localhost:99999"};
    struct origin p;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (origin_parse(text_of(bad[i]), &p) == 0)
            fail_msg("taken: '%s'", bad[i]);
    assert_int_equal(origin_parse(text_of("HTTPS://App.Example.Org:8443"), &p), 0);
    assert_string_equal(p.scheme, "https");
    assert_string_equal(p.name, "app.example.org");
    assert_int_equal(p.port, 8443);
}

// ---- Host and Origin ----------------------------------------------------------------------------

// 0 for "come in", else the first letter of the code.
static char judge(const struct door *d, const char *host, const char *origin)
{
    struct head h = {.field[HEAD_HOST] = text_of(host), .field[HEAD_ORIGIN] = text_of(origin)};
    struct door_refusal r;
    if (door_check_origin(d, &h, &r) == 0)
        return '+';
    assert_int_equal(r.status, 403);
    assert_true(r.message[0] && r.hint[0] && !r.challenge[0]);
    return r.code[0]; // host_not_allowed, origin_not_allowed
}

struct origin_case {
    const char *host, *origin;
    char result;
};

static void check_origins(const struct origin_case *rows, size_t count)
{
    struct door *d = open_door();
    for (size_t i = 0; i < count; i++) {
        char r = judge(d, rows[i].host, rows[i].origin);
        if (r != rows[i].result)
            fail_msg("Host '%s', Origin '%s': %c instead of %c", rows[i].host,
                     rows[i].origin ? rows[i].origin : "-", r, rows[i].result);
    }
    door_close(d);
}

static void on_loopback(void **state)
{
    (void)state;
    static const struct origin_case rows[] = {
        {"localhost", NULL, '+'},
        {"localhost:1234", NULL, '+'},
        {"127.0.0.1:8000", NULL, '+'},
        {"127.9.9.9:8000", NULL, '+'},
        {"[::1]:8000", NULL, '+'},
        {"evil.example.com", NULL, 'h'},
        {"evil.example.com:8000", "http://evil.example.com:8000", 'h'},
        {"localhost.evil.example.com", NULL, 'h'},
        {"127.0.0.1.evil.example.com", NULL, 'h'},
        {"192.168.1.5:8000", NULL, 'h'},
        {"", NULL, 'h'},
        {"localhost:8000", "http://localhost:3000", '+'},
        {"localhost:8000", "http://127.0.0.1", '+'},
        {"localhost:8000", "https://[::1]:9", '+'},
        {"localhost:8000", "null", 'o'},
        {"localhost:8000", "", 'o'},
        {"localhost:8000", "http://evil.example.com", 'o'},
        {"localhost:8000", "http://localhost.evil.example.com", 'o'},
        {"localhost:8000", "http://localhost@evil.example.com", 'o'},
        {"localhost:8000", "http://192.168.1.5", 'o'},
        {"localhost:8000", "chrome-extension://abcdef", 'o'},
        {"localhost:8000", "http://localhost http://evil.example.com", 'o'},
    };
    check_origins(rows, ARRAY_LEN(rows));
}

static void behind_a_proxy(void **state)
{
    (void)state;
    snprintf(config.public_url, sizeof config.public_url, "https://mcp.example.org/");
    add(&config.allowed_hosts, "box,other:8080,fd00::1");
    add(&config.allowed_origins, "https://app.example.org,http://dev.example.org:3000/");
    static const struct origin_case rows[] = {
        {"mcp.example.org", NULL, '+'},
        {"MCP.example.org:443", "https://mcp.example.org", '+'},
        {"mcp.example.org", "https://mcp.example.org:443", '+'},
        {"mcp.example.org", "https://mcp.example.org:444", 'o'},
        {"mcp.example.org", "https://app.example.org", '+'},
        {"mcp.example.org", "https://app.example.org:443", '+'},
        {"mcp.example.org", "http://app.example.org", 'o'},
        {"mcp.example.org", "http://dev.example.org:3000", '+'},
        {"mcp.example.org", "http://dev.example.org", 'o'},
        {"mcp.example.org", "https://xapp.example.org", 'o'},
        {"mcp.example.org", "https://app.example.org.evil.com", 'o'},
        {"box", NULL, '+'},
        {"box:1", NULL, '+'},
        {"other", NULL, 'h'},
        {"other:8080", NULL, '+'},
        {"[fd00::1]:9", NULL, '+'},
        {"[fd00::2]:9", NULL, 'h'},
    };
    check_origins(rows, ARRAY_LEN(rows));
}

static void on_every_address(void **state)
{
    (void)state;
    snprintf(config.host, sizeof config.host, "0.0.0.0");
    config.allow_public = true;
    static const struct origin_case rows[] = {
        {"localhost:8000", NULL, '+'},
        {"192.168.1.5:8000", NULL, '+'},
        {"[fd00::2]:8000", NULL, '+'},
        {"evil.example.com:8000", NULL, 'h'},
        {"192.168.1.5:8000", "http://192.168.1.5:8000", '+'},
        {"192.168.1.5:8000", "http://192.168.1.5", 'o'},
        {"192.168.1.5:8000", "http://192.168.1.6:8000", 'o'},
        {"192.168.1.5:8000", "http://localhost:3000", 'o'},
    };
    check_origins(rows, ARRAY_LEN(rows));
}

static void on_one_address(void **state)
{
    (void)state;
    snprintf(config.host, sizeof config.host, "192.168.1.5");
    config.allow_public = true;
    static const struct origin_case rows[] = {
        {"192.168.1.5:8000", NULL, '+'},
        {"192.168.1.6:8000", NULL, 'h'},
        {"localhost:8000", NULL, 'h'},
        {"192.168.1.5", "http://localhost", 'o'},
    };
    check_origins(rows, ARRAY_LEN(rows));
}

// ---- keys ---------------------------------------------------------------------------------------

struct key_case {
    const char *authorization, *api_key;
    const char *result; // owner, or code with a '!' before it
};

static void check_keys(const struct key_case *rows, size_t count)
{
    struct door *d = open_door();
    for (size_t i = 0; i < count; i++) {
        struct head h = {.field[HEAD_HOST] = text_of("localhost"),
                         .field[HEAD_AUTHORIZATION] = text_of(rows[i].authorization),
                         .field[HEAD_API_KEY] = text_of(rows[i].api_key)};
        struct door_refusal r;
        char owner[DOOR_OWNER_MAX + 1], got[128];
        if (door_check_key(d, &h, 1800000000, owner, &r) == 0) {
            snprintf(got, sizeof got, "%s", owner);
        } else {
            snprintf(got, sizeof got, "!%s", r.code);
            assert_int_equal(r.status, 401);
            assert_int_equal(strncmp(r.challenge, "Bearer ", 7), 0);
            assert_true(r.message[0] && r.hint[0]);
        }
        if (strcmp(got, rows[i].result) != 0)
            fail_msg("row %zu: '%s' instead of '%s'", i, got, rows[i].result);
    }
    door_close(d);
}

static void no_keys(void **state)
{
    (void)state;
    static const struct key_case rows[] = {{NULL, NULL, ""}, {"Bearer x", "y", ""}};
    check_keys(rows, ARRAY_LEN(rows));
}

static void keys_and_names(void **state)
{
    (void)state;
    add(&config.api_keys, "alice:secret-one,secret-two,bob:a:b:c:d:e:f");
    static const struct key_case rows[] = {
        {"Bearer secret-one", NULL, "alice"},
        {"bEARER   secret-two", NULL, "key-cebdf378f2d2bd60"},
        {NULL, "a:b:c:d:e:f", "bob"},
        {"Bearer secret-one", "secret-one", "alice"},
        {"Bearer secret-one", "secret-two", "!key_invalid"},
        {"Basic secret-one", "secret-one", "!key_invalid"},
        {NULL, NULL, "!key_required"},
        {"", NULL, "!key_required"},
        {NULL, "", "!key_required"},
        {"Bearer", NULL, "!key_required"},
        {"Bearer ", NULL, "!key_required"},
        {"Basic secret-one", NULL, "!key_required"},
        {"Bearer secret-on", NULL, "!key_invalid"},
        {"Bearer secret-onee", NULL, "!key_invalid"},
        {"Bearer Secret-one", NULL, "!key_invalid"},
        {"Bearer alice:secret-one", NULL, "!key_invalid"},
        {"Bearer alice", NULL, "!key_invalid"},
        {NULL, "Bearer secret-one", "!key_invalid"},
    };
    check_keys(rows, ARRAY_LEN(rows));
}

// The owners that share the runs.
static void owners_are_counted_by_name(void **state)
{
    (void)state;
    struct door *d = open_door();
    assert_int_equal(door_owners(d), 0);
    door_close(d);
    add(&config.api_keys, "alice:secret-one,secret-two,bob:a:b:c:d:e:f,alice:secret-three");
    d = open_door();
    assert_int_equal(door_owners(d), 3);
    door_close(d);
}

static void write_file(const char *name, const char *text, char path[256])
{
    snprintf(path, 256, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0600), 0);
}

static void key_files_and_reloading(void **state)
{
    (void)state;
    char path[256];
    struct err e;
    write_file("keys", "# ours\r\n\r\n  carol:file-key-1  \nfile-key-2", path);
    snprintf(config.api_key_file, sizeof config.api_key_file, "%s", path);
    add(&config.api_keys, "secret-one");
    static const struct key_case rows[] = {{"Bearer secret-one", NULL, "key-ea77193cc4e6f186"},
                                           {"Bearer file-key-1", NULL, "carol"},
                                           {"Bearer file-key-2", NULL, "key-857df7631f0e703b"},
                                           {"Bearer # ours", NULL, "!key_invalid"}};
    check_keys(rows, ARRAY_LEN(rows));
    struct door *d = open_door();
    struct head old = {.field[HEAD_API_KEY] = text_of("file-key-1")},
                new = {.field[HEAD_API_KEY] = text_of("file-key-9")};
    struct door_refusal r;
    char owner[DOOR_OWNER_MAX + 1];
    static const char *const bad[] = {"short\n", "dave:file-key-9\nerin:file-key-9\n"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        write_file("keys", bad[i], path);
        int fd = open(path, O_RDONLY);
        assert_int_equal(door_reload(d, fd, -1, &e), -1);
        (void)close(fd);
        assert_int_equal(door_check_key(d, &old, 0, owner, &r), 0); // in force as before
    }
    write_file("keys", "dave:file-key-9\n", path);
    int fd = open(path, O_RDONLY);
    assert_int_equal(door_reload(d, fd, -1, &e), 0);
    (void)close(fd);
    assert_int_equal(door_check_key(d, &old, 0, owner, &r), -1);
    assert_int_equal(door_check_key(d, &new, 0, owner, &r), 0);
    assert_string_equal(owner, "dave");
    door_close(d);
}

static void what_cannot_work_is_refused_at_start(void **state)
{
    (void)state;
    static const char *const keys[] = {"short",
                                       "name:short",
                                       ":long-enough-key",
                                       "a b:long-enough-key",
                                       "key-1:long-enough-key",
                                       "same-key-here,x:same-key-here",
                                       "with blank inside"};
    struct err e;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        (void)fresh(NULL);
        add(&config.api_keys, keys[i]);
        e = (struct err){0};
        if (door_check_bind(&config, &e) == 0)
            fail_msg("taken: %s", keys[i]);
        assert_int_equal(e.code, ERR_BAD_VALUE);
        assert_true(e.hint[0]);
        assert_null(strstr(e.message, "long-enough-key")); // a secret does not belong in a message
    }
    (void)fresh(NULL);
    snprintf(config.api_key_file, sizeof config.api_key_file, "%s/nothing-here", folder);
    assert_int_not_equal(door_check_bind(&config, &e), 0);
    char path[256];
    write_file("empty", "# none\n", path);
    snprintf(config.api_key_file, sizeof config.api_key_file, "%s", path);
    assert_int_not_equal(door_check_bind(&config, &e), 0); // an empty file opens no door
    static const struct {
        const char *origin, *host, *url;
    } names[] = {{"*", NULL, ""},
                 {"app.example.org", NULL, ""},
                 {"https://app.example.org/path", NULL, ""},
                 {NULL, "*", ""},
                 {NULL, "https://x", ""},
                 {NULL, NULL, "mcp.example.org"},
                 {NULL, NULL, "ftp://x"},
                 {NULL, NULL, "https://x/\"y"}};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void)fresh(NULL);
        if (names[i].origin)
            add(&config.allowed_origins, names[i].origin);
        if (names[i].host)
            add(&config.allowed_hosts, names[i].host);
        snprintf(config.public_url, sizeof config.public_url, "%s", names[i].url);
        if (door_check_bind(&config, &e) == 0)
            fail_msg("row %zu was taken", i);
        assert_true(e.hint[0]);
    }
}

static void public_addresses_want_a_key(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        bool loopback;
    } rows[] = {{"127.0.0.1", true},    {"127.5.5.5", true},    {"::1", true},
                {"[::1]", true},        {"localhost", true},    {"0.0.0.0", false},
                {"::", false},          {"192.168.1.5", false}, {"fd00::1", false},
                {"example.org", false}, {"1.27.0.1", false}};
    struct err e;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        (void)fresh(NULL);
        snprintf(config.host, sizeof config.host, "%s", rows[i].host);
        if ((door_check_bind(&config, &e) == 0) != rows[i].loopback)
            fail_msg("%s", rows[i].host);
        config.allow_public = true;
        assert_int_equal(door_check_bind(&config, &e), 0);
        config.allow_public = false;
        // In a container the address that counts is the one that the engine publishes.
        snprintf(config.host, sizeof config.host, "0.0.0.0");
        snprintf(config.published_on, sizeof config.published_on, "%s", rows[i].host);
        assert_int_equal(door_check_bind(&config, &e) == 0, rows[i].loopback);
        if (!rows[i].loopback)
            assert_non_null(strstr(e.message, rows[i].host));
        add(&config.api_keys, "long-enough-key");
        assert_int_equal(door_check_bind(&config, &e), 0);
    }
}

// ---- OAuth --------------------------------------------------------------------------------------

static EVP_PKEY *ed;

static void encode(const void *data, size_t n, char *ret)
{
    int length = EVP_EncodeBlock((unsigned char *)ret, data, (int)n);
    while (length && ret[length - 1] == '=')
        length--;
    ret[length] = '\0';
    for (; *ret; ret++)
        *ret = (char)(*ret == '+' ? '-' : *ret == '/' ? '_' : *ret);
}

static void write_key_set(char path[256])
{
    unsigned char raw[32];
    size_t n = sizeof raw;
    char x[64], text[256];
    EVP_PKEY_free(ed);
    ed = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    assert_int_equal(EVP_PKEY_get_raw_public_key(ed, raw, &n), 1);
    encode(raw, n, x);
    snprintf(text, sizeof text, "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"%s\"}]}",
             x);
    write_file("jwks", text, path);
}

static void make_token(const char *scope, long expires, char ret[2048])
{
    char payload[512], header[64], body[1024];
    unsigned char signature[64];
    size_t n = sizeof signature;
    snprintf(payload, sizeof payload,
             "{\"iss\":\"https://login.example.org\",\"sub\":\"alice\",\"aud\":\"https://"
             "mcp.example.org/mcp\","
             "\"exp\":%ld,\"scope\":\"%s\"}",
             expires, scope);
    encode("{\"alg\":\"EdDSA\"}", 15, header);
    encode(payload, strlen(payload), body);
    int length = snprintf(ret, 2048, "Bearer %s.%s", header, body);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    assert_int_equal(EVP_DigestSignInit(context, NULL, NULL, NULL, ed), 1);
    assert_int_equal(
        EVP_DigestSign(context, signature, &n, (unsigned char *)ret + 7, (size_t)length - 7), 1);
    EVP_MD_CTX_free(context);
    ret[length] = '.';
    encode(signature, n, ret + length + 1);
}

// Returns the owner, or "!status code".
static const char *knock(struct door *d, const char *authorization, int64_t now_s,
                         struct door_refusal *r)
{
    static char got[128];
    char owner[DOOR_OWNER_MAX + 1];
    struct head h = {.field[HEAD_HOST] = text_of("mcp.example.org"),
                     .field[HEAD_AUTHORIZATION] = text_of(authorization)};
    if (door_check_key(d, &h, now_s, owner, r) == 0)
        snprintf(got, sizeof got, "%s", owner);
    else
        snprintf(got, sizeof got, "!%d %s", r->status, r->code);
    return got;
}

static void tokens(void **state)
{
    (void)state;
    enum { NOW = 1800000000 };
    char path[256], token[2048], other[2048];
    struct door_refusal r;
    struct err e;
    write_key_set(path);
    snprintf(config.host, sizeof config.host, "0.0.0.0");
    snprintf(config.oauth_keys, sizeof config.oauth_keys, "%s", path);
    assert_int_not_equal(door_check_bind(&config, &e), 0); // no issuer
    snprintf(config.oauth_issuer, sizeof config.oauth_issuer, "https://login.example.org");
    assert_int_not_equal(door_check_bind(&config, &e), 0); // no audience
    snprintf(config.public_url, sizeof config.public_url, "https://mcp.example.org");
    add(&config.oauth_scopes, "run,files:read,offline_access");
    config.oauth_scopes.count = 2;
    add(&config.api_keys, "carol:static-key");
    struct door *d = open_door();
    assert_string_equal(knock(d, NULL, NOW, &r), "!401 key_required");
    assert_string_equal(r.challenge,
                        "Bearer resource_metadata=\"https://mcp.example.org/.well-known/"
                        "oauth-protected-resource/mcp\", scope=\"run files:read\"");
    assert_string_equal(knock(d, "Bearer static-key", NOW, &r), "carol");
    make_token("files:read run", NOW + 100, token);
    for (int i = 0; i < 3; i++) // found in the memory of good ones the second time
        assert_string_equal(knock(d, token, NOW, &r), "oauth:alice");
    assert_string_equal(knock(d, token, NOW + 200, &r), "!401 key_invalid");
    assert_non_null(strstr(r.message, "expired"));
    assert_non_null(strstr(r.challenge, "error=\"invalid_token\""));
    make_token("run", NOW + 100, other);
    assert_string_equal(knock(d, other, NOW, &r), "!403 insufficient_scope");
    assert_non_null(strstr(r.challenge, "scope=\"run files:read\", error=\"insufficient_scope\""));
    assert_string_equal(knock(d, "Bearer nonsense", NOW, &r), "!401 key_invalid");

    json_t *m = door_metadata(d, "ignored");
    assert_string_equal(json_string_value(json_object_get(m, "resource")),
                        "https://mcp.example.org/mcp");
    assert_int_equal(json_array_size(json_object_get(m, "authorization_servers")), 1);
    assert_int_equal(json_array_size(json_object_get(m, "scopes_supported")), 2);
    json_decref(m);

    // A new key set: tokens of the old one are strangers, also those that were known.
    write_key_set(path);
    int fd = open(path, O_RDONLY);
    assert_int_equal(door_reload(d, -1, fd, &e), 0);
    (void)close(fd);
    assert_string_equal(knock(d, token, NOW, &r), "!401 key_invalid");
    make_token("files:read run", NOW + 100, token);
    assert_string_equal(knock(d, token, NOW, &r), "oauth:alice");
    door_close(d);
    EVP_PKEY_free(ed);
    ed = NULL;
}

static void numbers_of_all_are_for_one(void **state)
{
    (void)state;
    char path[256];
    write_key_set(path);
    static const struct {
        const char *keys, *owner; // a name
        bool alone, with_tokens;
    } rows[] = {
        {"", "", true, false},
        {"ann:secret-one", "ann", true, false},
        {"ann:secret-one,ann:secret-two", "ann", true, false}, // a new key beside the old one
        {"ann:secret-one,bob:secret-two", "ann", false, false},
        {"ann:secret-one,metrics:secret-two", "ann", false, false},
        {"ann:secret-one,metrics:secret-two", "metrics", true, true},
        {"ann:secret-one", "oauth:metrics", false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (int tokens = 0; tokens < 2; tokens++) {
            config_init(&config);
            if (rows[i].keys[0])
                add(&config.api_keys, rows[i].keys);
            if (tokens) {
                snprintf(config.oauth_keys, sizeof config.oauth_keys, "%s", path);
                snprintf(config.oauth_issuer, sizeof config.oauth_issuer,
                         "https://login.example.org");
                snprintf(config.public_url, sizeof config.public_url, "https://mcp.example.org");
            }
            struct door *d = open_door();
            assert_int_equal(door_shows_all(d, rows[i].owner),
                             tokens ? rows[i].with_tokens : rows[i].alone);
            door_close(d);
        }
    EVP_PKEY_free(ed);
    ed = NULL;
}

static void headers_of_a_preflight(void **state)
{
    (void)state;
    char buf[512];
    door_allow_headers(text_of("content-type, Mcp-Param-City , evil, mcp-param-x\"y,,mcp-param-"),
                       buf, sizeof buf);
    assert_non_null(strstr(buf, "Authorization"));
    assert_non_null(strstr(buf, ", Mcp-Param-City"));
    assert_null(strstr(buf, "evil"));
    assert_null(strchr(buf, '"'));
    assert_null(strchr(buf, '*'));
    char many[8192] = "";
    for (int i = 0; i < 300; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "mcp-param-%d,", i);
    door_allow_headers(text_of(many), buf, sizeof buf);
    assert_true(strlen(buf) < sizeof buf);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"keys", "empty", "jwks"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    // What was inherited for the last door is freed by the next one.
    (void)fresh(NULL);
    struct err e;
    (void)door_check_bind(&config, &e);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_read_strictly),
        cmocka_unit_test(origins_are_read_strictly),
        cmocka_unit_test_setup(on_loopback, fresh),
        cmocka_unit_test_setup(behind_a_proxy, fresh),
        cmocka_unit_test_setup(on_every_address, fresh),
        cmocka_unit_test_setup(on_one_address, fresh),
        cmocka_unit_test_setup(no_keys, fresh),
        cmocka_unit_test_setup(keys_and_names, fresh),
        cmocka_unit_test_setup(owners_are_counted_by_name, fresh),
        cmocka_unit_test_setup(key_files_and_reloading, fresh),
        cmocka_unit_test_setup(what_cannot_work_is_refused_at_start, fresh),
        cmocka_unit_test_setup(public_addresses_want_a_key, fresh),
        cmocka_unit_test_setup(tokens, fresh),
        cmocka_unit_test_setup(numbers_of_all_are_for_one, fresh),
        cmocka_unit_test(headers_of_a_preflight),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
