// SPDX-License-Identifier: Apache-2.0
//
// env_text: see env_text.h.
//
// SECURITY: pip and uv accept options, paths, other files and variables in requirements.  So the
// whole text of a requirement has to match the grammar of PEP 508.

#include "env/env_text.h"

#include <ctype.h>
#include <fnmatch.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "env/envs.h"
#include "run/import_names.h"
#include "json/whole.h"

enum { QUOTE_MAX = 96, DEPTH_MAX = 10, CLAUSES_MAX = 20 };

static const char form[] =
    "write a name with or without versions, such as \"numpy\", \"pandas[excel]>=2\" or "
    "\"requests>=2.28,<3\"";

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

// ---- names --------------------------------------------------------------------------------------

int env_check_name(const char *name, struct err *e)
{
    char shown[QUOTE_MAX];
    size_t n = strlen(name);
    bool good = n > 0 && n <= ENV_NAME_MAX && isalnum((unsigned char)name[0]);
    for (size_t i = 0; i < n && good; i++)
        good = is_name(name[i]);
    if (good)
        return 0;
    snprintf(shown, sizeof shown, "%.80s", name);
    text_sanitize(shown);
    return err_set(
        e, ERR_BAD_VALUE, 0,
        "choose a name of at most 64 letters, digits, '.', '_' and '-' that begins with a "
        "letter or a digit",
        "'%s' is not the name of an environment", shown);
}

void env_key_of(const char *requirement, char ret[ENV_REQUIREMENT_MAX + 1])
{
    size_t n = 0;
    bool gap = false;
    requirement += strspn(requirement, " ");
    for (; is_name(*requirement) && n < ENV_REQUIREMENT_MAX - 1; requirement++) {
        if (strchr("-_.", *requirement)) {
            gap = true;
            continue;
        }
        if (gap && n)
            ret[n++] = '-';
        gap = false;
        ret[n++] = (char)tolower((unsigned char)*requirement);
    }
    ret[n] = '\0';
}

// ---- one requirement ----------------------------------------------------------------------------

struct reader {
    const char *text, *at;
    const char *reason, *hint; // of the first failure
};

static bool fail(struct reader *r, const char *reason, const char *hint)
{
    if (!r->reason) {
        r->reason = reason;
        r->hint = hint;
    }
    return false;
}

static void spaces(struct reader *r)
{
    r->at += strspn(r->at, " ");
}

static bool sign(struct reader *r, const char *text)
{
    size_t n = strlen(text);
    if (strncmp(r->at, text, n) != 0)
        return false;
    r->at += n;
    spaces(r);
    return true;
}

static const char *const operators[] = {"===", "==", "~=", "!=", "<=", ">=", "<", ">"};

static bool is_operator(const char *text)
{
    for (size_t i = 0; i < ARRAY_LEN(operators); i++)
        if (strncmp(text, operators[i], strlen(operators[i])) == 0)
            return true;
    return false;
}

static bool operator_sign(struct reader *r)
{
    for (size_t i = 0; i < ARRAY_LEN(operators); i++)
        if (sign(r, operators[i]))
            return true;
    return false;
}

static bool is_address(const char *text)
{
    static const char *const schemes[] = {"git+", "hg+", "svn+", "bzr+", "file:"};
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
        if (strncasecmp(text, schemes[i], strlen(schemes[i])) == 0)
            return true;
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return n >= 2 && strncmp(text + n, "://", 3) == 0;
}

// ---- its address --------------------------------------------------------------------------------

static const struct text_list *url_hosts; // of --allow-url

void env_allow_urls(const struct text_list *hosts)
{
    url_hosts = hosts;
}

static bool is_url_host(const char *host, size_t length)
{
    for (size_t i = 0; url_hosts && i < url_hosts->count; i++) {
        const char *own = url_hosts->items[i];
        size_t n = strlen(own);
        if (n == length && strncasecmp(own, host, n) == 0)
            return true;
        // "*.example.org"
        if (n > 2 && own[0] == '*' && own[1] == '.' && length > n - 1 &&
            strncasecmp(own + 1, host + length - (n - 1), n - 1) == 0)
            return true;
    }
    return false;
}

static bool hash_is_good(const char *text, size_t length)
{
    static const char begin[] = "#sha256=";
    size_t n = sizeof begin - 1;
    return length == n + 64 && strncmp(text, begin, n) == 0 &&
           strspn(text + n, "0123456789abcdef") >= 64;
}

// SECURITY: an address makes this server send requests for a client (SSRF).  So it has to be https,
// without user or port, on a host that the operator named, and end in .whl; the broker judges the
// host again.
static bool url(struct reader *r)
{
    static const char url_form[] =
        "write it as name @ https://files.example.org/name-1.0-py3-none-any.whl#sha256=...";
    if (!url_hosts || !url_hosts->count)
        return fail(r, "packages by address are not allowed here",
                    "ask for the package by its name and version; the operator can allow hosts "
                    "with --allow-url");
    if (strncmp(r->at, "https://", 8) != 0)
        return fail(r, "an address has to begin with https://", url_form);
    const char *host = r->at + 8;
    size_t n = strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-");
    if (n == 0 || host[n] != '/')
        return fail(r, "its address has no plain host (no user, no port)", url_form);
    if (!is_url_host(host, n))
        return fail(r, "its host is not among those that the operator allowed",
                    "ask for the package by its name and version; the operator can allow the host "
                    "with --allow-url");
    const char *path = host + n;
    size_t length = strcspn(path, " #"), whole = strcspn(path, " ");
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)path[i]) && !strchr("._~/%+=-", path[i]))
            return fail(r, "its address has a character that is not allowed", url_form);
    if (length < 5 || strncmp(path + length - 4, ".whl", 4) != 0 || memmem(path, length, "/../", 4))
        return fail(r, "its address does not lead to a wheel", url_form);
    if (whole > length && !hash_is_good(path + length, whole - length))
        return fail(r, "'#' in its address is not followed by sha256= and 64 digits", url_form);
    r->at = path + whole;
    spaces(r);
    return true;
}

// A command from a terminal: without this check, the packages `pip` and `install` would be
// installed.
static bool is_command(const char *text)
{
    static const char *const commands[] = {
        "pip install ",   "pip3 install ",   "uv pip ", "uv add ", "conda install ", "poetry add ",
        "python -m pip ", "python3 -m pip ", "!pip ",   "%pip ",   "$ pip "};
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strncmp(text, commands[i], strlen(commands[i])) == 0)
            return true;
    return false;
}

static bool name(struct reader *r)
{
    if (is_command(r->at))
        return fail(r, "it is a command", "leave the command out: only the names of the packages");
    if (r->at[0] == '-')
        return fail(r, "it is an option, and options are not taken here",
                    "indexes, constraints and the like are settings of the server");
    if (is_address(r->at))
        return fail(r, "it is an address, and packages by address are not allowed here",
                    "ask for the package by its name and version");
    if (r->at[0] && strchr("/.~", r->at[0]))
        return fail(r, "it is a path", "packages come from the index, by their names");
    if (!isalnum((unsigned char)r->at[0]))
        return fail(r, "a name has to begin with a letter or a digit", form);
    while (is_name(r->at[0]))
        r->at++;
    while (!isalnum((unsigned char)r->at[-1]))
        r->at--;
    if (is_name(r->at[0]))
        return fail(r, "a name has to end with a letter or a digit", form);
    spaces(r);
    if (r->at[0] == '/' || r->at[0] == ':')
        return fail(r, "it is a path or an address",
                    "packages come from the index, by their names");
    return true;
}

static bool extras(struct reader *r)
{
    if (!sign(r, "["))
        return true;
    for (unsigned i = 0; !sign(r, "]"); i++) {
        if (i && !sign(r, ","))
            return fail(r, "extras are separated by commas and end with ']'", form);
        size_t n = 0;
        while (is_name(r->at[n]))
            n++;
        if (n == 0 || i == CLAUSES_MAX)
            return fail(r, "between '[' and ']' are names of extras", form);
        r->at += n;
        spaces(r);
    }
    return true;
}

static bool versions(struct reader *r)
{
    bool inside = sign(r, "(");
    for (unsigned i = 0; is_operator(r->at); i++) {
        (void)operator_sign(r);
        size_t n = 0;
        while (r->at[n] && (isalnum((unsigned char)r->at[n]) || strchr(".*+!_-", r->at[n])))
            n++;
        if (n == 0)
            return fail(r, "there is no version behind the comparison", form);
        if (i == CLAUSES_MAX)
            return fail(r, "there are too many versions", form);
        r->at += n;
        spaces(r);
        const char *comma = r->at;
        if (!sign(r, ","))
            break;
        if (!inside && !is_operator(r->at)) {
            r->at = comma; // it separates two requirements
            break;
        }
    }
    if (inside && !sign(r, ")"))
        return fail(r, "')' is missing", form);
    if (r->at[0] == '=')
        return fail(r, "a version is compared with '==', not with '='", form);
    return true;
}

// ---- its marker ---------------------------------------------------------------------------------

static const char marker_hint[] = "behind ';' comes a marker such as python_version < '3.12'; one "
                                  "requirement is one package, and "
                                  "shell commands are never executed";

static bool operand(struct reader *r)
{
    static const char *const variables[] = {
        "python_version",      "python_full_version",    "os_name",
        "sys_platform",        "platform_release",       "platform_system",
        "platform_version",    "platform_machine",       "platform_python_implementation",
        "implementation_name", "implementation_version", "extra"};
    size_t n = 0;
    if (r->at[0] == '\'' || r->at[0] == '"') {
        n = 1 + strcspn(r->at + 1, "'\"\\");
        if (r->at[n] != r->at[0])
            return fail(r, "a string in its marker has no end", marker_hint);
        r->at += n + 1;
        spaces(r);
        return true;
    }
    while (islower((unsigned char)r->at[n]) || r->at[n] == '_')
        n++;
    for (size_t i = 0; i < ARRAY_LEN(variables); i++)
        if (n == strlen(variables[i]) && strncmp(r->at, variables[i], n) == 0) {
            r->at += n;
            spaces(r);
            return true;
        }
    return fail(r, "there is no marker behind ';'", marker_hint);
}

static bool comparison(struct reader *r)
{
    if (!operand(r))
        return false;
    if (!operator_sign(r) && !sign(r, "not in ") && !sign(r, "in "))
        return fail(r, "its marker compares nothing", marker_hint);
    return operand(r);
}

// Counts open parentheses instead of recursing.
static bool marker(struct reader *r)
{
    unsigned open = 0;
    do {
        while (sign(r, "("))
            if (++open > DEPTH_MAX)
                return fail(r, "its marker is nested too deeply", marker_hint);
        if (!comparison(r))
            return false;
        while (open && sign(r, ")"))
            open--;
    } while (sign(r, "and ") || sign(r, "or "));
    return !open || fail(r, "')' is missing in its marker", marker_hint);
}

static bool requirement(struct reader *r)
{
    if (!name(r) || !extras(r))
        return false;
    if (sign(r, "@"))
        return url(r) && (!sign(r, ";") || marker(r));
    return versions(r) && (!sign(r, ";") || marker(r));
}

// ---- what callers write -------------------------------------------------------------------------

static int refuse(const char *text, size_t length, const char *reason, const char *hint,
                  struct err *e)
{
    char shown[QUOTE_MAX];
    snprintf(shown, sizeof shown, "%.*s%s", length > 80 ? 80 : (int)length, text,
             length > 80 ? "..." : "");
    text_sanitize(shown);
    return err_set(e, ERR_BAD_REQUIREMENT, 0, hint, "'%s' is not a requirement: %s", shown, reason);
}

static int look_over(const char *text, size_t length, size_t most, struct err *e)
{
    static const struct {
        char sign;
        const char *reason;
    } bad[] = {{'\n', "it has a line break in it"},
               {'\r', "it has a line break in it"},
               {'\0', "it has a NUL character in it"},
               {'\\', "it has a backslash in it"},
               {'$', "it has '$' in it"},
               {'`', "it has '`' in it"},
               {'|', "it has '|' in it"},
               {'&', "it has '&' in it"}};
    if (length > most)
        return refuse(text, length, "it is too long", form, e);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (memchr(text, bad[i].sign, length))
            return refuse(text, length, bad[i].reason,
                          "give several requirements as a list, or with spaces between them", e);
    for (size_t i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~')
            return refuse(text, length, "it has other characters than printable ASCII in it",
                          "names of packages are made of A-Z a-z 0-9 . _ -", e);
    if (strspn(text, " ") == length)
        return refuse(text, length, "it is empty", form, e);
    return 0;
}

static int too_many(struct err *e)
{
    return err_set(e, ERR_BAD_REQUIREMENT, 0, "install them in several steps",
                   "there are more than %d requirements", ENV_REQUIREMENTS_MAX);
}

static int add(json_t *list, const char *from, const char *to, struct err *e)
{
    while (to > from && to[-1] == ' ')
        to--;
    if (to - from > ENV_REQUIREMENT_MAX)
        return refuse(from, (size_t)(to - from), "it is too long", form, e);
    if (json_array_size(list) >= ENV_REQUIREMENTS_MAX)
        return too_many(e);
    return json_array_append_new(list, json_stringn(from, (size_t)(to - from))) < 0
               ? err_set(e, ERR_SYSTEM, 0, "send less at once", "the server is out of memory")
               : 0;
}

// A text with one requirement (`single`), or with several.
static int read_text(json_t *list, const json_t *value, bool single, struct err *e)
{
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);
    int bad = look_over(text, length,
                        (size_t)ENV_REQUIREMENT_MAX * (single ? 1 : ENV_REQUIREMENTS_MAX), e);
    if (bad < 0)
        return bad;
    struct reader r = {.text = text, .at = text};
    spaces(&r);
    while (r.at[0]) {
        const char *from = r.at;
        if (!requirement(&r))
            return refuse(text, length, r.reason, r.hint, e);
        const char *to = r.at;
        bool apart = sign(&r, ",") || r.at[-1] == ' ';
        if (r.at[0] && (single || !apart || !isalnum((unsigned char)r.at[0])))
            return refuse(
                text, length,
                r.at[0] == '-' ? "options are not taken here" : "something is left over behind it",
                r.at[0] == '-' ? "indexes, constraints and the like are settings of the server"
                               : form,
                e);
        if ((bad = add(list, from, to, e)) < 0)
            return bad;
    }
    return 0;
}

json_t *envs_requirements(const json_t *text_or_list, struct err *e)
{
    json_t *list = json_array(), *item;
    size_t i;
    int bad = list ? 0 : err_set(e, ERR_SYSTEM, 0, NULL, "the server is out of memory");
    if (bad == 0 && json_is_string(text_or_list))
        bad = read_text(list, text_or_list, false, e);
    else if (bad == 0 && json_is_array(text_or_list)) {
        if (json_array_size(text_or_list) > ENV_REQUIREMENTS_MAX)
            bad = too_many(e);
        json_array_foreach ((json_t *)text_or_list, i, item) {
            if (bad == 0 && !json_is_string(item))
                bad = err_set(e, ERR_BAD_REQUIREMENT, 0, form, "entry %zu is not a text", i);
            if (bad == 0)
                bad = read_text(list, item, true, e);
        }
    } else if (bad == 0) {
        bad =
            err_set(e, ERR_BAD_REQUIREMENT, 0, form, "requirements are a text, or a list of texts");
    }
    if (bad == 0 && json_array_size(list) == 0)
        bad = err_set(e, ERR_BAD_REQUIREMENT, 0, form, "no package is named");
    return json_whole(list, bad);
}

// ---- lists --------------------------------------------------------------------------------------

static bool matches(const struct text_list *globs, const char *key)
{
    char glob[TEXT_ITEM_MAX + 1];
    for (size_t i = 0; i < globs->count; i++) {
        const char *text = globs->items[i];
        size_t n = 0;
        for (; *text && n < TEXT_ITEM_MAX; text++)
            glob[n++] = *text == '_' || *text == '.' ? '-' : (char)tolower((unsigned char)*text);
        glob[n] = '\0';
        if (fnmatch(glob, key, 0) == 0)
            return true;
    }
    return false;
}

int env_check_allowed(const struct config *c, const char *key, struct err *e)
{
    if (matches(&c->deny_packages, key))
        return err_set(e, ERR_PACKAGE_DENIED, 0,
                       "the operator has it on the list of --deny-package",
                       "the package %s is not allowed on this server", key);
    if (c->allow_packages.count && !matches(&c->allow_packages, key))
        return err_set(
            e, ERR_PACKAGE_DENIED, 0,
            "the operator has to name it with --allow-package, and what it needs as well",
            "the package %s is not among those allowed on this server", key);
    return 0;
}

int env_check_all_allowed(const struct config *c, const json_t *requirements, struct err *e)
{
    char key[ENV_REQUIREMENT_MAX + 1];
    json_t *item;
    size_t i;
    json_array_foreach ((json_t *)requirements, i, item) {
        env_key_of(json_string_value(item), key);
        if (env_check_allowed(c, key, e) < 0)
            return -1;
    }
    return 0;
}

static int use_package(json_t *requirements, size_t at, json_t **notes, struct err *e)
{
    char key[ENV_REQUIREMENT_MAX + 1], text[2 * ENV_REQUIREMENT_MAX];
    const char *asked = json_string_value(json_array_get(requirements, at));
    env_key_of(asked, key);
    const struct import_name *found = strchr(asked, '@') ? NULL : import_name_find(key);
    const char *rest = asked + strspn(asked, " ");
    while (is_name(*rest))
        rest++;
    rest += strspn(rest, " ");
    if (!found || (found->is_taken && is_operator(rest)))
        return 0;
    if (found->is_taken) {
        int r = err_set(e, ERR_BAD_REQUIREMENT, 0, "",
                        "'%s' on the index is another project than the module of that name", key);
        err_hint(e,
                 "install %s, which has the module; if you mean the other project, name a "
                 "version: '%s>=0'",
                 found->package, key);
        return r;
    }
    if (!*notes && !(*notes = json_array()))
        return err_set(e, ERR_SYSTEM, 0, "try again later", "the server is out of memory");
    snprintf(text, sizeof text, "%s is the name of a module: its package, %s, was installed", key,
             found->package);
    (void)json_array_append_new(*notes, json_string(text));
    snprintf(text, sizeof text, "%s%s", found->package, rest);
    return json_array_set_new(requirements, at, json_string(text));
}

int env_use_packages(json_t *requirements, json_t **ret_notes, struct err *e)
{
    *ret_notes = NULL;
    for (size_t i = 0; i < json_array_size(requirements); i++)
        if (use_package(requirements, i, ret_notes, e) < 0) {
            json_decref(*ret_notes);
            *ret_notes = NULL;
            return -1;
        }
    return 0;
}

bool env_names_package(const json_t *requirements, const char *key)
{
    char own[ENV_REQUIREMENT_MAX + 1];
    json_t *item;
    size_t i;
    json_array_foreach ((json_t *)requirements, i, item) {
        env_key_of(json_string_value(item) ? json_string_value(item) : "", own);
        if (strcmp(own, key) == 0)
            return true;
    }
    return false;
}

json_t *env_without(const json_t *had, const json_t *names)
{
    json_t *list = json_array(), *item;
    char key[ENV_REQUIREMENT_MAX + 1];
    size_t i;
    int failed = !list;
    json_array_foreach ((json_t *)had, i, item) {
        env_key_of(json_string_value(item) ? json_string_value(item) : "", key);
        if (!env_names_package(names, key))
            failed |= json_array_append(list, item);
    }
    return json_whole(list, failed);
}

json_t *env_merge(const json_t *had, const json_t *added)
{
    json_t *list = env_without(had, added);
    if (list && json_array_extend(list, (json_t *)added) < 0) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(a, b);
}

void env_plain_form(const char *text, char ret[ENV_REQUIREMENT_MAX + 1])
{
    size_t n = 0;
    bool address = false; // within an address, where case matters
    char quote = '\0';    // within a string of a marker, where case and blanks matter
    for (; *text && n < ENV_REQUIREMENT_MAX; text++) {
        address |= *text == '@';
        if (quote ? *text == quote : *text == '\'' || *text == '"')
            quote = quote ? '\0' : *text;
        if (*text != ' ' || quote)
            ret[n++] = address || quote ? *text : (char)tolower((unsigned char)*text);
    }
    ret[n] = '\0';
}

int env_set_name(const json_t *requirements, const char *python, char ret[40])
{
    char texts[ENV_REQUIREMENTS_MAX][ENV_REQUIREMENT_MAX + 1];
    unsigned char hash[EVP_MAX_MD_SIZE];
    size_t count = json_array_size(requirements), n = 0;
    if (count > ENV_REQUIREMENTS_MAX)
        return -1;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    if (!md)
        return -1;
    for (size_t i = 0; i < count; i++)
        env_plain_form(json_string_value(json_array_get(requirements, i)), texts[i]);
    qsort(texts, count, sizeof *texts, compare_texts);
    for (unsigned dots = 0; python[n] && (python[n] != '.' || ++dots < 2); n++)
        ; // "3.11" of "3.11.4"
    int good = EVP_DigestInit_ex(md, EVP_sha256(), NULL) && EVP_DigestUpdate(md, python, n) &&
               EVP_DigestUpdate(md, "", 1);
    for (size_t i = 0; i < count && good; i++)
        good = EVP_DigestUpdate(md, texts[i], strlen(texts[i]) + 1);
    good = good && EVP_DigestFinal_ex(md, hash, NULL);
    EVP_MD_CTX_free(md);
    if (!good)
        return -1;
    size_t at = (size_t)snprintf(ret, 40, ENV_SET_PREFIX);
    for (size_t i = 0; i < 12; i++, at += 2)
        snprintf(ret + at, 40 - at, "%02x", hash[i]);
    return 0;
}
