// SPDX-License-Identifier: Apache-2.0
//
// jwt: see jwt.h.

#include "http/jwt.h"

#include <jansson.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "json/encode.h"

enum kind { KIND_RSA, KIND_P256, KIND_ED25519 };

struct key {
    enum kind kind;
    char id[257]; // "" when the key has none
    char alg[16]; // "" when the key does not say
    EVP_PKEY *pkey;
};

struct jwt_keys {
    size_t count;
    struct key keys[JWT_KEYS_MAX];
};

static const struct algorithm {
    const char *name;
    enum kind kind;
    bool pss;
} algorithms[] = {
    {"RS256", KIND_RSA, false},     {"PS256", KIND_RSA, true},        {"ES256", KIND_P256, false},
    {"EdDSA", KIND_ED25519, false}, {"Ed25519", KIND_ED25519, false}, // the name in RFC 9864
};

static const struct algorithm *algorithm_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(algorithms); i++)
        if (strcmp(algorithms[i].name, name) == 0)
            return &algorithms[i];
    return NULL;
}

// ---- base64url ----------------------------------------------------------------------------------

// Strict: no padding, no other characters, no bits left over.  Returns the length or -1.
static ssize_t base64url_decode(const char *text, size_t n, unsigned char *ret, size_t cap)
{
    size_t length = 0;
    _cleanup_free_ unsigned char *data = decode_base64url(text, n, &length);
    if (!data || length > cap)
        return -1;
    memcpy(ret, data, length);
    return (ssize_t)length;
}

// ---- keys ---------------------------------------------------------------------------------------

enum { NUMBER_MAX = 1024 + 4 }; // RSA up to 8192 bits

struct number {
    unsigned char data[NUMBER_MAX];
    size_t length;
};

// A member of a JWK that is a number, or the bytes of a point, in base64url.
static bool read_number(const json_t *jwk, const char *name, struct number *ret)
{
    const char *text = json_string_value(json_object_get(jwk, name));
    if (!text)
        return false;
    ssize_t n = base64url_decode(text, strlen(text), ret->data, sizeof ret->data);
    ret->length = n > 0 ? (size_t)n : 0;
    return n > 0;
}

static EVP_PKEY *make_key(const char *type, OSSL_PARAM_BLD *builder)
{
    EVP_PKEY *pkey = NULL;
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(builder);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    if (params && context && EVP_PKEY_fromdata_init(context) == 1)
        if (EVP_PKEY_fromdata(context, &pkey, EVP_PKEY_PUBLIC_KEY, params) != 1)
            pkey = NULL;
    EVP_PKEY_CTX_free(context);
    OSSL_PARAM_free(params);
    return pkey;
}

static EVP_PKEY *read_rsa(const json_t *jwk)
{
    struct number n, exponent;
    if (!read_number(jwk, "n", &n) || !read_number(jwk, "e", &exponent) || exponent.length > 8)
        return NULL;
    BIGNUM *modulus = BN_bin2bn(n.data, (int)n.length, NULL),
           *power = BN_bin2bn(exponent.data, (int)exponent.length, NULL);
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    EVP_PKEY *pkey = NULL;
    // RSA below 2048 bits is too weak.
    if (builder && modulus && power && BN_num_bits(modulus) >= 2048 && BN_is_odd(power) &&
        BN_num_bits(power) > 1 &&
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, modulus) == 1 &&
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, power) == 1)
        pkey = make_key("RSA", builder);
    OSSL_PARAM_BLD_free(builder);
    BN_free(modulus);
    BN_free(power);
    return pkey;
}

enum { P256_SIZE = 32 };

static EVP_PKEY *read_p256(const json_t *jwk)
{
    struct number x, y;
    unsigned char point[1 + 2 * P256_SIZE] = {POINT_CONVERSION_UNCOMPRESSED};
    if (!read_number(jwk, "x", &x) || !read_number(jwk, "y", &y) || x.length != P256_SIZE ||
        y.length != P256_SIZE)
        return NULL;
    memcpy(point + 1, x.data, P256_SIZE);
    memcpy(point + 1 + P256_SIZE, y.data, P256_SIZE);
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    EVP_PKEY *pkey = NULL;
    if (builder &&
        OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) ==
            1 &&
        OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point) ==
            1)
        pkey = make_key("EC", builder);
    OSSL_PARAM_BLD_free(builder);
    return pkey;
}

static EVP_PKEY *read_ed25519(const json_t *jwk)
{
    struct number x;
    if (!read_number(jwk, "x", &x) || x.length != 32)
        return NULL;
    return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, x.data, x.length);
}

static const struct {
    const char *kty, *crv;
    enum kind kind;
    EVP_PKEY *(*read)(const json_t *jwk);
} kinds[] = {
    {"RSA", NULL, KIND_RSA, read_rsa},
    {"EC", "P-256", KIND_P256, read_p256},
    {"OKP", "Ed25519", KIND_ED25519, read_ed25519},
};

static bool has_text(const json_t *object, const char *name, const char *text)
{
    const char *value = json_string_value(json_object_get(object, name));
    return value && strcmp(value, text) == 0;
}

// False: the key cannot be used here.
static bool read_key(const json_t *jwk, struct key *ret)
{
    const char *use = json_string_value(json_object_get(jwk, "use")),
               *id = json_string_value(json_object_get(jwk, "kid")),
               *alg = json_string_value(json_object_get(jwk, "alg"));
    if (use && strcmp(use, "sig") != 0)
        return false;
    if ((id && strlen(id) >= sizeof ret->id) || (alg && !algorithm_find(alg)))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (!has_text(jwk, "kty", kinds[i].kty) ||
            (kinds[i].crv && !has_text(jwk, "crv", kinds[i].crv)))
            continue;
        ret->kind = kinds[i].kind;
        snprintf(ret->id, sizeof ret->id, "%s", id ? id : "");
        snprintf(ret->alg, sizeof ret->alg, "%s", alg ? alg : "");
        ret->pkey = kinds[i].read(jwk);
        return ret->pkey != NULL;
    }
    return false;
}

struct jwt_keys *jwt_keys_parse(const char *text, size_t length, struct err *e)
{
    static const char hint[] = "give the JWK set of the authorization server, the file that its "
                               "metadata calls jwks_uri: {\"keys\": [...]}";
    json_error_t where;
    if (length > JWT_KEYS_FILE_MAX) {
        err_set(e, ERR_BAD_CONFIG_FILE, 0, hint, "the key set has more than %d bytes",
                JWT_KEYS_FILE_MAX);
        return NULL;
    }
    json_t *set = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
    if (!set) {
        err_set(e, ERR_BAD_CONFIG_FILE, 0, hint, "the key set is not JSON: line %d: %s", where.line,
                where.text);
        return NULL;
    }
    struct jwt_keys *keys = calloc(1, sizeof *keys);
    size_t i, skipped = 0;
    json_t *jwk;
    json_array_foreach (json_object_get(set, "keys"), i, jwk) {
        if (keys && keys->count < JWT_KEYS_MAX && read_key(jwk, &keys->keys[keys->count]))
            keys->count++;
        else
            skipped++;
    }
    json_decref(set);
    if (keys && keys->count)
        return keys;
    err_set(
        e, keys ? ERR_BAD_CONFIG_FILE : ERR_SYSTEM, 0, hint,
        "the key set has no key that can be used: RSA of 2048 bits or more, EC P-256 or Ed25519, "
        "for signatures (%zu others)",
        skipped);
    jwt_keys_free(keys);
    return NULL;
}

void jwt_keys_free(struct jwt_keys *keys)
{
    if (!keys)
        return;
    for (size_t i = 0; i < keys->count; i++)
        EVP_PKEY_free(keys->keys[i].pkey);
    free(keys);
}

size_t jwt_keys_count(const struct jwt_keys *keys)
{
    return keys ? keys->count : 0;
}

// ---- signatures ---------------------------------------------------------------------------------

// JWS has r and s side by side, OpenSSL wants DER.  Returns its length, 0: no such signature.
static size_t ecdsa_to_der(const unsigned char *raw, size_t length, unsigned char *ret, size_t cap)
{
    if (length != (size_t)2 * P256_SIZE)
        return 0;
    ECDSA_SIG *sig = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(raw, P256_SIZE, NULL), *s = BN_bin2bn(raw + P256_SIZE, P256_SIZE, NULL);
    int n = 0;
    if (sig && r && s && ECDSA_SIG_set0(sig, r, s) == 1) {
        r = s = NULL; // the signature owns them now
        n = i2d_ECDSA_SIG(sig, NULL);
        if (n > 0 && (size_t)n <= cap)
            n = i2d_ECDSA_SIG(sig, &ret);
        else
            n = 0;
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(sig);
    return n > 0 ? (size_t)n : 0;
}

static bool verify(const struct key *key, const struct algorithm *a, const char *data, size_t n,
                   const unsigned char *signature, size_t length)
{
    unsigned char der[2 * P256_SIZE + 16];
    if (a->kind == KIND_P256) {
        length = ecdsa_to_der(signature, length, der, sizeof der);
        signature = der;
        if (length == 0)
            return false;
    }
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *options = NULL; // owned by the context
    const EVP_MD *digest = a->kind == KIND_ED25519 ? NULL : EVP_sha256();
    bool good = context && EVP_DigestVerifyInit(context, &options, digest, NULL, key->pkey) == 1;
    if (good && a->pss)
        good = EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) == 1 &&
               EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) == 1;
    good =
        good && EVP_DigestVerify(context, signature, length, (const unsigned char *)data, n) == 1;
    EVP_MD_CTX_free(context);
    return good;
}

static bool key_fits(const struct key *key, const struct algorithm *a, const char *id)
{
    if (key->kind != a->kind || (key->alg[0] && algorithm_find(key->alg)->pss != a->pss))
        return false;
    return !id || strcmp(key->id, id) == 0;
}

// Without a key id every key of the right kind is tried: there are few, and servers with one key
// often leave the id out.
static enum jwt_result check_signature(const struct jwt_keys *keys, const json_t *header,
                                       const char *signed_text, size_t n,
                                       const unsigned char *signature, size_t length)
{
    enum { TRIES_MAX = 8 };
    const char *alg = json_string_value(json_object_get(header, "alg")),
               *id = json_string_value(json_object_get(header, "kid"));
    const struct algorithm *a = alg ? algorithm_find(alg) : NULL;
    unsigned tries = 0;
    if (!a)
        return JWT_ALGORITHM;
    for (size_t i = 0; i < keys->count && tries < TRIES_MAX; i++) {
        if (!key_fits(&keys->keys[i], a, id))
            continue;
        tries++;
        if (verify(&keys->keys[i], a, signed_text, n, signature, length))
            return JWT_OK;
    }
    return tries ? JWT_BAD_SIGNATURE : JWT_UNKNOWN_KEY;
}

// ---- claims -------------------------------------------------------------------------------------

static bool same_url(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n && a[n - 1] == '/')
        n--;
    if (m && b[m - 1] == '/')
        m--;
    return n == m && memcmp(a, b, n) == 0;
}

static bool audience_has(const json_t *aud, const char *audience)
{
    size_t i;
    json_t *item;
    if (json_is_string(aud))
        return same_url(json_string_value(aud), audience);
    json_array_foreach (aud, i, item) {
        if (json_is_string(item) && same_url(json_string_value(item), audience))
            return true;
    }
    return false;
}

// Is `word` one of the words of `text`, which are separated by blanks?
static bool words_have(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p++)
        if ((p == text || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
            return true;
    return false;
}

static bool scopes_have(const json_t *payload, const char *scope)
{
    static const char *const names[] = {"scope", "scp"};
    for (size_t k = 0; k < ARRAY_LEN(names); k++) {
        const json_t *value = json_object_get(payload, names[k]);
        size_t i;
        json_t *item;
        if (json_is_string(value) && words_have(json_string_value(value), scope))
            return true;
        json_array_foreach (value, i, item) {
            if (json_is_string(item) && strcmp(json_string_value(item), scope) == 0)
                return true;
        }
    }
    return false;
}

// NumericDate: seconds, perhaps with a fraction.  False: it is there and of another type.
static bool read_time(const json_t *payload, const char *name, bool *ret_present, int64_t *ret)
{
    const json_t *value = json_object_get(payload, name);
    *ret_present = value != NULL;
    if (!value)
        return true;
    double v = json_number_value(value);
    // Every calendar time fits into a double; converting a larger number would be undefined.
    if (!json_is_number(value) || !(v >= 0 && v < 1e15))
        return false;
    *ret = (int64_t)v;
    return true;
}

static enum jwt_result check_times(const json_t *payload, int64_t now_s, struct jwt_claims *ret)
{
    bool has_exp, has_nbf, has_iat;
    int64_t expires = 0, not_before = 0, issued = 0;
    if (!read_time(payload, "exp", &has_exp, &expires) ||
        !read_time(payload, "nbf", &has_nbf, &not_before) ||
        !read_time(payload, "iat", &has_iat, &issued))
        return JWT_MALFORMED;
    if (!has_exp)
        return JWT_MALFORMED; // a token without expiry is a key, and keys are configured
    if (now_s >= expires + JWT_LEEWAY_S)
        return JWT_EXPIRED;
    if ((has_nbf && now_s + JWT_LEEWAY_S < not_before) ||
        (has_iat && now_s + JWT_LEEWAY_S < issued))
        return JWT_NOT_YET;
    ret->expires_s = expires;
    return JWT_OK;
}

static bool subject_is_plain(const char *sub)
{
    for (; *sub; sub++)
        if (*sub <= ' ' || *sub > '~')
            return false;
    return true;
}

static void set_owner(const char *sub, char *ret)
{
    static const char plain[] = "oauth:", hashed[] = "oauth-sha256:";
    size_t n = strlen(sub);
    if (n + sizeof plain - 1 <= JWT_OWNER_MAX && subject_is_plain(sub)) {
        snprintf(ret, JWT_OWNER_MAX + 1, "%s%s", plain, sub);
        return;
    }
    unsigned char hash[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)sub, n, hash);
    size_t at = sizeof hashed - 1;
    memcpy(ret, hashed, sizeof hashed);
    for (size_t i = 0; i < sizeof hash && at + 2 <= JWT_OWNER_MAX; i++, at += 2)
        snprintf(ret + at, JWT_OWNER_MAX + 1 - at, "%02x", hash[i]);
}

static enum jwt_result check_claims(const json_t *payload, const struct jwt_rules *rules,
                                    int64_t now_s, struct jwt_claims *ret)
{
    const char *issuer = json_string_value(json_object_get(payload, "iss")),
               *sub = json_string_value(json_object_get(payload, "sub"));
    if (!issuer || strcmp(issuer, rules->issuer) != 0)
        return JWT_WRONG_ISSUER;
    if (!audience_has(json_object_get(payload, "aud"), rules->audience))
        return JWT_WRONG_AUDIENCE;
    enum jwt_result r = check_times(payload, now_s, ret);
    if (r != JWT_OK)
        return r;
    if (!sub || !sub[0])
        return JWT_NO_SUBJECT;
    set_owner(sub, ret->owner);
    for (size_t i = 0; i < rules->scopes->count; i++)
        if (!scopes_have(payload, rules->scopes->items[i]))
            return JWT_SCOPE;
    return JWT_OK;
}

// ---- tokens -------------------------------------------------------------------------------------

// One part of the token as a JSON object, new.
static json_t *decode_object(const char *text, size_t n)
{
    size_t cap = n / 4 * 3 + 4;
    _cleanup_free_ unsigned char *data = malloc(cap);
    json_error_t where;
    if (!data)
        return NULL;
    ssize_t length = base64url_decode(text, n, data, cap);
    if (length < 0)
        return NULL;
    // SECURITY: two readers may use different ones of a claim that comes twice.
    json_t *object = json_loadb((const char *)data, (size_t)length, JSON_REJECT_DUPLICATES, &where);
    if (json_is_object(object))
        return object;
    json_decref(object);
    return NULL;
}

struct parts {
    const char *payload, *signature;
    size_t header_n, payload_n, signature_n;
};

static bool split(const char *token, size_t n, struct parts *ret)
{
    const char *first = memchr(token, '.', n);
    if (!first || first == token)
        return false;
    ret->header_n = (size_t)(first - token);
    ret->payload = first + 1;
    size_t rest = n - ret->header_n - 1;
    const char *second = memchr(ret->payload, '.', rest);
    if (!second)
        return false;
    ret->payload_n = (size_t)(second - ret->payload);
    ret->signature = second + 1;
    ret->signature_n = rest - ret->payload_n - 1;
    return ret->signature_n > 0; // a third dot is not base64url
}

// RFC 7519 and RFC 9068.  SECURITY: the same key may sign other things, which must not be taken for
// an access token.
static bool type_is_known(const json_t *header)
{
    static const char prefix[] = "application/";
    const json_t *value = json_object_get(header, "typ");
    const char *type = json_string_value(value);
    if (!value)
        return true;
    if (type && strncasecmp(type, prefix, sizeof prefix - 1) == 0)
        type += sizeof prefix - 1;
    return type && (strcasecmp(type, "JWT") == 0 || strcasecmp(type, "at+jwt") == 0);
}

static enum jwt_result check_header(const json_t *header)
{
    if (!type_is_known(header))
        return JWT_TYPE;
    // "crit" names extensions that must be understood; none is supported.
    return json_object_get(header, "crit") ? JWT_ALGORITHM : JWT_OK;
}

enum jwt_result jwt_check(const struct jwt_keys *keys, const struct jwt_rules *rules,
                          const char *token, size_t length, int64_t now_s, struct jwt_claims *ret)
{
    unsigned char signature[1024 + 4];
    struct parts p;
    if (length > JWT_TOKEN_MAX)
        return JWT_TOO_LONG;
    if (!split(token, length, &p))
        return JWT_MALFORMED;
    ssize_t n = base64url_decode(p.signature, p.signature_n, signature, sizeof signature);
    if (n < 0)
        return JWT_MALFORMED;
    json_auto_t *header = decode_object(token, p.header_n);
    if (!header)
        return JWT_MALFORMED;
    enum jwt_result r = check_header(header);
    if (r == JWT_OK)
        r = check_signature(keys, header, token, p.header_n + 1 + p.payload_n, signature,
                            (size_t)n);
    if (r != JWT_OK)
        return r;
    json_auto_t *payload = decode_object(p.payload, p.payload_n);
    struct jwt_claims claims = {0};
    r = payload ? check_claims(payload, rules, now_s, &claims) : JWT_MALFORMED;
    if (r == JWT_OK || r == JWT_SCOPE)
        *ret = claims;
    return r;
}

const char *jwt_result_text(enum jwt_result result)
{
    static const char *const texts[JWT_RESULT_MAX] = {
        [JWT_OK] = "the token is good",
        [JWT_MALFORMED] = "the token is not a signed JWT with an expiry",
        [JWT_TOO_LONG] = "the token is longer than 16384 characters",
        [JWT_TYPE] = "the token has the wrong type: typ must be JWT or at+jwt",
        [JWT_ALGORITHM] =
            ("the token is signed with an algorithm that is not accepted; RS256, PS256, "
             "ES256 and EdDSA are"),
        [JWT_UNKNOWN_KEY] =
            "the token is signed with a key that is not in the key set of the server",
        [JWT_BAD_SIGNATURE] = "the signature of the token is wrong",
        [JWT_WRONG_ISSUER] = "the token is from another issuer",
        [JWT_WRONG_AUDIENCE] = "the token is for another audience",
        [JWT_EXPIRED] = "the token has expired",
        [JWT_NOT_YET] = "the token is not valid yet",
        [JWT_NO_SUBJECT] = "the token names no subject",
        [JWT_SCOPE] = "the token lacks a scope that is needed",
    };
    return texts[result];
}
