// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of http/jwt: tokens of keys that are made here, good ones and every kind of bad one.

#include "unit.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <string.h>

#include "http/jwt.h"

static const char issuer[] = "https://login.example.org",
                  audience[] = "https://mcp.example.org/mcp";
enum { NOW = 1800000000 };

static EVP_PKEY *rsa, *ec, *ed;
static struct jwt_keys *keys;
static struct text_list scopes = {2, {"run", "files:read"}};

// ---- making tokens ------------------------------------------------------------------------------

static char *encode(const void *data, size_t n)
{
    char *text = malloc(n / 3 * 4 + 8);
    assert_non_null(text);
    int length = EVP_EncodeBlock((unsigned char *)text, data, (int)n);
    while (length && text[length - 1] == '=')
        length--;
    text[length] = '\0';
    for (char *p = text; *p; p++)
        *p = (char)(*p == '+' ? '-' : *p == '/' ? '_' : *p);
    return text;
}

static char *number(const EVP_PKEY *pkey, const char *name, int width)
{
    BIGNUM *n = NULL;
    unsigned char data[512];
    assert_int_equal(EVP_PKEY_get_bn_param(pkey, name, &n), 1);
    int length = BN_bn2binpad(n, data, width ? width : BN_num_bytes(n));
    BN_free(n);
    return encode(data, (size_t)length);
}

static char *key_set(void)
{
    _cleanup_free_ char *n = number(rsa, OSSL_PKEY_PARAM_RSA_N, 0),
                        *e = number(rsa, OSSL_PKEY_PARAM_RSA_E, 0),
                        *x = number(ec, OSSL_PKEY_PARAM_EC_PUB_X, 32),
                        *y = number(ec, OSSL_PKEY_PARAM_EC_PUB_Y, 32);
    unsigned char raw[32];
    size_t length = sizeof raw;
    assert_int_equal(EVP_PKEY_get_raw_public_key(ed, raw, &length), 1);
    _cleanup_free_ char *o = encode(raw, length);
    char *text = NULL;
    assert_true(
        asprintf(&text,
                 "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\",\"kid\":\"hmac\"},"
                 "{\"kty\":\"RSA\",\"use\":\"enc\",\"kid\":\"enc\",\"n\":\"%s\",\"e\":\"%s\"},"
                 "{\"kty\":\"RSA\",\"use\":\"sig\",\"kid\":\"rsa\",\"n\":\"%s\",\"e\":\"%s\"},"
                 "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"ec\",\"x\":\"%s\",\"y\":\"%s\"},"
                 "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"ed\",\"x\":\"%s\"}]}",
                 n, e, n, e, x, y, o) > 0);
    return text;
}

static size_t sign(EVP_PKEY *pkey, bool pss, const char *text, unsigned char *ret, size_t cap)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *options;
    const EVP_MD *digest = pkey == ed ? NULL : EVP_sha256();
    size_t n = cap;
    assert_int_equal(EVP_DigestSignInit(context, &options, digest, NULL, pkey), 1);
    if (pss) {
        assert_int_equal(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING), 1);
        assert_int_equal(EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST), 1);
    }
    assert_int_equal(EVP_DigestSign(context, ret, &n, (const unsigned char *)text, strlen(text)),
                     1);
    EVP_MD_CTX_free(context);
    if (pkey != ec)
        return n;
    const unsigned char *der = ret;
    ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &der, (long)n);
    assert_non_null(sig);
    unsigned char raw[64];
    BN_bn2binpad(ECDSA_SIG_get0_r(sig), raw, 32);
    BN_bn2binpad(ECDSA_SIG_get0_s(sig), raw + 32, 32);
    ECDSA_SIG_free(sig);
    memcpy(ret, raw, sizeof raw);
    return sizeof raw;
}

static char *unsigned_token(const char *header, const char *payload)
{
    _cleanup_free_ char *h = encode(header, strlen(header)), *p = encode(payload, strlen(payload));
    char *text = NULL;
    assert_true(asprintf(&text, "%s.%s", h, p) > 0);
    return text;
}

static char *token(EVP_PKEY *pkey, bool pss, const char *header, const char *payload)
{
    _cleanup_free_ char *text = unsigned_token(header, payload);
    unsigned char signature[1024];
    size_t n = sign(pkey, pss, text, signature, sizeof signature);
    _cleanup_free_ char *s = encode(signature, n);
    char *all = NULL;
    assert_true(asprintf(&all, "%s.%s", text, s) > 0);
    return all;
}

static const char good[] = "{\"iss\":\"https://login.example.org\",\"sub\":\"alice\","
                           "\"aud\":\"https://mcp.example.org/mcp\",\"exp\":1800000600,"
                           "\"iat\":1799999990,\"scope\":\"openid run files:read\"}";

static enum jwt_result check_text(const char *text, struct jwt_claims *claims)
{
    struct jwt_rules rules = {issuer, audience, &scopes};
    struct jwt_claims ignored;
    return jwt_check(keys, &rules, text, strlen(text), NOW, claims ? claims : &ignored);
}

static enum jwt_result check_payload(const char *payload, struct jwt_claims *claims)
{
    _cleanup_free_ char *text = token(ed, false, "{\"alg\":\"EdDSA\",\"kid\":\"ed\"}", payload);
    return check_text(text, claims);
}

static int setup(void **state)
{
    (void)state;
    struct err e;
    rsa = EVP_RSA_gen(2048);
    ec = EVP_EC_gen("P-256");
    ed = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    assert_true(rsa && ec && ed);
    _cleanup_free_ char *text = key_set();
    keys = jwt_keys_parse(text, strlen(text), &e);
    if (!keys)
        fail_msg("%s", e.message);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    jwt_keys_free(keys);
    EVP_PKEY_free(rsa);
    EVP_PKEY_free(ec);
    EVP_PKEY_free(ed);
    return 0;
}

// ---- tests --------------------------------------------------------------------------------------

static void keys_for_other_uses_are_left_out(void **state)
{
    (void)state;
    assert_int_equal(jwt_keys_count(keys), 3);
}

static void every_algorithm(void **state)
{
    (void)state;
    const struct {
        EVP_PKEY *pkey;
        bool pss;
        const char *header;
    } rows[] = {
        {rsa, false, "{\"alg\":\"RS256\",\"kid\":\"rsa\",\"typ\":\"at+jwt\"}"},
        {rsa, true, "{\"alg\":\"PS256\",\"kid\":\"rsa\"}"},
        {ec, false, "{\"alg\":\"ES256\",\"kid\":\"ec\"}"},
        {ed, false, "{\"alg\":\"EdDSA\",\"kid\":\"ed\"}"},
        {rsa, false, "{\"alg\":\"RS256\"}"},
        {ec, false, "{\"alg\":\"ES256\"}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct jwt_claims claims;
        _cleanup_free_ char *text = token(rows[i].pkey, rows[i].pss, rows[i].header, good);
        assert_int_equal(check_text(text, &claims), JWT_OK);
        assert_string_equal(claims.owner, "oauth:alice");
        assert_int_equal(claims.expires_s, 1800000600);
        // Each character of the signature and of the payload counts.
        size_t n = strlen(text);
        for (size_t k = n - 60; k < n - 2; k += 7) {
            char before = text[k];
            text[k] = before == 'A' ? 'B' : 'A';
            assert_int_equal(check_text(text, NULL), JWT_BAD_SIGNATURE);
            text[k] = before;
        }
        char *dot = strchr(text, '.');
        dot[5] = dot[5] == 'A' ? 'B' : 'A';
        assert_int_equal(check_text(text, NULL), JWT_BAD_SIGNATURE);
    }
}

static void the_algorithm_is_the_keys(void **state)
{
    (void)state;
    // Of another kind than the key, of another padding, none, and the public key as a shared
    // secret.
    _cleanup_free_ char *cross = token(ec, false, "{\"alg\":\"ES256\",\"kid\":\"rsa\"}", good);
    assert_int_equal(check_text(cross, NULL), JWT_UNKNOWN_KEY);
    _cleanup_free_ char *padding = token(rsa, false, "{\"alg\":\"PS256\",\"kid\":\"rsa\"}", good);
    assert_int_equal(check_text(padding, NULL), JWT_BAD_SIGNATURE);
    static const char *const nothing[] = {"none", "None", "HS256", "RS384", ""};
    for (size_t i = 0; i < ARRAY_LEN(nothing); i++) {
        char header[64];
        snprintf(header, sizeof header, "{\"alg\":\"%s\",\"kid\":\"rsa\"}", nothing[i]);
        _cleanup_free_ char *head = unsigned_token(header, good), *text = NULL;
        assert_true(asprintf(&text, "%s.AAAA", head) > 0);
        assert_int_equal(check_text(text, NULL), JWT_ALGORITHM);
        text[strlen(text) - 4] = '\0';
        assert_int_equal(check_text(text, NULL), JWT_MALFORMED); // no signature at all
    }
    _cleanup_free_ char *missing = token(ed, false, "{\"kid\":\"ed\"}", good);
    assert_int_equal(check_text(missing, NULL), JWT_ALGORITHM);
    _cleanup_free_ char *critical = token(
        ed, false, "{\"alg\":\"EdDSA\",\"kid\":\"ed\",\"crit\":[\"b64\"],\"b64\":false}", good);
    assert_int_equal(check_text(critical, NULL), JWT_ALGORITHM);
}

static void the_type_is_that_of_an_access_token(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        enum jwt_result result;
    } rows[] = {
        {"\"JWT\"", JWT_OK},
        {"\"jwt\"", JWT_OK},
        {"\"at+JWT\"", JWT_OK},
        {"\"application/at+jwt\"", JWT_OK},
        {"\"Application/JWT\"", JWT_OK},
        {"\"JWE\"", JWT_TYPE},
        {"\"\"", JWT_TYPE},
        {"\"application/\"", JWT_TYPE},
        {"\"application/application/jwt\"", JWT_TYPE},
        {"\"logout+jwt\"", JWT_TYPE},
        {"\"JWT \"", JWT_TYPE},
        {"7", JWT_TYPE},
        {"null", JWT_TYPE},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char header[96];
        snprintf(header, sizeof header, "{\"alg\":\"EdDSA\",\"kid\":\"ed\",\"typ\":%s}",
                 rows[i].type);
        _cleanup_free_ char *text = token(ed, false, header, good);
        enum jwt_result r = check_text(text, NULL);
        if (r != rows[i].result)
            fail_msg("%s: '%s'", header, jwt_result_text(r));
    }
}

static void unknown_keys(void **state)
{
    (void)state;
    static const char *const ids[] = {"other", "enc", "hmac"};
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        char header[64];
        snprintf(header, sizeof header, "{\"alg\":\"RS256\",\"kid\":\"%s\"}", ids[i]);
        _cleanup_free_ char *text = token(rsa, false, header, good);
        assert_int_equal(check_text(text, NULL), JWT_UNKNOWN_KEY);
    }
}

static void claims(void **state)
{
    (void)state;
#define ISS "\"iss\":\"https://login.example.org\","
#define SUB "\"sub\":\"alice\","
#define AUD "\"aud\":\"https://mcp.example.org/mcp\","
#define SCP "\"scope\":\"run files:read\","
#define EXP "\"exp\":1800000600"
    static const struct {
        const char *payload;
        enum jwt_result result;
    } rows[] = {
        {"{" ISS SUB AUD SCP EXP "}", JWT_OK},
        {"{" SUB AUD SCP EXP "}", JWT_WRONG_ISSUER},
        {"{\"iss\":\"https://evil.example.org\"," SUB AUD SCP EXP "}", JWT_WRONG_ISSUER},
        {"{\"iss\":7," SUB AUD SCP EXP "}", JWT_WRONG_ISSUER},
        {"{\"iss\":\"https://login.example.org/\"," SUB AUD SCP EXP "}", JWT_WRONG_ISSUER},
        {"{\"iss\":\"https://login.example.orG\"," SUB AUD SCP EXP "}", JWT_WRONG_ISSUER},
        {"{" ISS SUB SCP EXP "}", JWT_WRONG_AUDIENCE},
        {"{" ISS SUB SCP "\"aud\":\"https://other.example.org\"," EXP "}", JWT_WRONG_AUDIENCE},
        {"{" ISS SUB SCP "\"aud\":[\"x\",\"https://mcp.example.org/mcp/\"]," EXP "}", JWT_OK},
        {"{" ISS SUB SCP "\"aud\":[\"x\",7,[]]," EXP "}", JWT_WRONG_AUDIENCE},
        {"{" ISS SUB SCP "\"aud\":\"https://mcp.example.org/mcp2\"," EXP "}", JWT_WRONG_AUDIENCE},
        {"{" ISS SUB AUD SCP "\"x\":1}", JWT_MALFORMED}, // no expiry
        {"{" ISS SUB AUD SCP "\"exp\":\"1800000600\"}", JWT_MALFORMED},
        {"{" ISS SUB AUD SCP "\"exp\":-5}", JWT_MALFORMED},
        {"{" ISS SUB AUD SCP "\"exp\":1e300}", JWT_MALFORMED},
        {"{" ISS SUB AUD SCP "\"exp\":1799999941.5}", JWT_OK}, // within the leeway
        {"{" ISS SUB AUD SCP "\"exp\":1799999940}", JWT_EXPIRED},
        {"{" ISS SUB AUD SCP "\"exp\":0}", JWT_EXPIRED},
        {"{" ISS SUB AUD SCP "\"nbf\":1800000060," EXP "}", JWT_OK},
        {"{" ISS SUB AUD SCP "\"nbf\":1800000061," EXP "}", JWT_NOT_YET},
        {"{" ISS SUB AUD SCP "\"iat\":1800000061," EXP "}", JWT_NOT_YET},
        {"{" ISS AUD SCP EXP "}", JWT_NO_SUBJECT},
        {"{" ISS "\"sub\":\"\"," AUD SCP EXP "}", JWT_NO_SUBJECT},
        {"{" ISS SUB AUD EXP "}", JWT_SCOPE},
        {"{" ISS SUB AUD "\"scope\":\"run\"," EXP "}", JWT_SCOPE},
        {"{" ISS SUB AUD "\"scope\":\"runs files:read run2\"," EXP "}", JWT_SCOPE},
        {"{" ISS SUB AUD "\"scp\":[\"files:read\",\"run\"]," EXP "}", JWT_OK},
        {"{" ISS SUB AUD "\"scp\":\"files:read run\"," EXP "}", JWT_OK},
        {"{" ISS ISS SUB AUD SCP EXP "}", JWT_MALFORMED}, // a claim that comes twice
        {"[]", JWT_MALFORMED},
        {"{", JWT_MALFORMED},
        {"", JWT_MALFORMED},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum jwt_result r = check_payload(rows[i].payload, NULL);
        if (r != rows[i].result)
            fail_msg("%s: '%s' instead of '%s'", rows[i].payload, jwt_result_text(r),
                     jwt_result_text(rows[i].result));
    }
}

static void owners_differ_and_are_bounded(void **state)
{
    (void)state;
    static const char *const subjects[] = {
        "alice",
        "auth0|1234",
        "a name with blanks",
        "\\u00e9",
        "0123456789012345678901234567890123456789012345678901234567",
        "01234567890123456789012345678901234567890123456789012345678",
        "0123456789012345678901234567890123456789012345678901234567890123456789",
    };
    char owners[ARRAY_LEN(subjects)][JWT_OWNER_MAX + 1];
    for (size_t i = 0; i < ARRAY_LEN(subjects); i++) {
        char payload[512];
        struct jwt_claims c;
        snprintf(payload, sizeof payload, "{" ISS "\"sub\":\"%s\"," AUD SCP EXP "}", subjects[i]);
        assert_int_equal(check_payload(payload, &c), JWT_OK);
        assert_true(strlen(c.owner) <= JWT_OWNER_MAX && strchr(c.owner, ':'));
        snprintf(owners[i], sizeof owners[i], "%s", c.owner);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(owners[k], owners[i]);
    }
    assert_string_equal(owners[1], "oauth:auth0|1234");
    assert_int_equal(strlen(owners[4]), 64);
    assert_int_equal(strncmp(owners[5], "oauth-sha256:", 13), 0);
}

static void garbage(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        ".",
                                        "..",
                                        "...",
                                        "a.b.c",
                                        "a.b",
                                        "e30.e30.e30",
                                        "e30.e30.",
                                        "e30..e30",
                                        "=.=.=",
                                        "e30.e30.e30.e30"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_int_not_equal(check_text(texts[i], NULL), JWT_OK);
    _cleanup_free_ char *text = token(ed, false, "{\"alg\":\"EdDSA\",\"kid\":\"ed\"}", good);
    for (size_t n = 0; n < strlen(text); n++) {
        _cleanup_free_ char *cut = strndup(text, n); // of just its size
        assert_int_not_equal(check_text(cut, NULL), JWT_OK);
    }
    _cleanup_free_ char *padded = NULL;
    assert_true(asprintf(&padded, "%s==", text) > 0);
    assert_int_equal(check_text(padded, NULL), JWT_MALFORMED);
    _cleanup_free_ char *large = malloc(JWT_TOKEN_MAX + 2);
    memset(large, 'a', JWT_TOKEN_MAX + 1);
    large[JWT_TOKEN_MAX + 1] = '\0';
    assert_int_equal(check_text(large, NULL), JWT_TOO_LONG);
    for (int i = 0; i < JWT_RESULT_MAX; i++)
        assert_null(strpbrk(jwt_result_text((enum jwt_result)i), "\"\\"));
}

static void bad_key_sets(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{\"keys\":{}}",
        "{\"keys\":[]}",
        "{\"keys\":[7,null,{}]}",
        "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAAAAAAAAAAAAAAAAAAAAAA\"}]}",
        "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}", // of 17 bits
        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AA\",\"y\":\"AA\"}]}",
        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":"
        "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\","
        "\"y\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}]}", // not on the curve
        "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AA\"}]}",
        "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":"
        "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}]}",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct err e = {0};
        struct jwt_keys *k = jwt_keys_parse(texts[i], strlen(texts[i]), &e);
        if (k)
            fail_msg("taken: %s", texts[i]);
        assert_true(e.message[0] && e.hint[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_for_other_uses_are_left_out),
        cmocka_unit_test(every_algorithm),
        cmocka_unit_test(the_algorithm_is_the_keys),
        cmocka_unit_test(the_type_is_that_of_an_access_token),
        cmocka_unit_test(unknown_keys),
        cmocka_unit_test(claims),
        cmocka_unit_test(owners_differ_and_are_bounded),
        cmocka_unit_test(garbage),
        cmocka_unit_test(bad_key_sets),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
