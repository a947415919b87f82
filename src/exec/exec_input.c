// SPDX-License-Identifier: Apache-2.0
//
// exec_input: see exec_input.h and exec.h.

#include "exec/exec_input.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "exec/exec.h"
#include "files/scratch.h"
#include "json/encode.h"

enum { VARIABLES_BYTES_MAX = 1 << 20, VARIABLE_NAME_MAX = 100 };

void exec_file_uri(const char *holder, const char *path, char *buf, size_t cap)
{
    static const char plain[] = "-._~/!$&'()*+,;=:@";
    int n = snprintf(buf, cap, "sandbox://%s/", holder);
    size_t at = n < 0 ? 0 : (size_t)n;
    for (const unsigned char *p = (const unsigned char *)path; *p && at + 4 < cap; p++) {
        if (isalnum(*p) || strchr(plain, *p))
            buf[at++] = (char)*p;
        else
            at += (size_t)snprintf(buf + at, cap - at, "%%%02X", *p);
    }
    if (at < cap)
        buf[at] = '\0';
}

// ---- files --------------------------------------------------------------------------------------

static int check_body(json_t *file, size_t i, const char *path, struct err *e)
{
    static const char hint[] = "give \"text\" for text, or \"base64\" for anything else";
    json_t *text = json_object_get(file, "text"), *coded = json_object_get(file, "base64"),
           *content = json_object_get(file, "content");
    const char *encoding = json_string_value(json_object_get(file, "encoding"));
    bool is_coded = encoding && strcmp(encoding, "base64") == 0;
    if (encoding && !is_coded && strcmp(encoding, "text") != 0 && strcmp(encoding, "utf-8") != 0)
        return err_set(e, ERR_BAD_VALUE, 0, hint, "files[%zu]: encoding is 'base64' or 'text'", i);
    if (!text && content)
        text = content;
    if (text && is_coded) {
        coded = text;
        text = NULL;
    }
    if (!text == !coded)
        return err_set(e, ERR_BAD_VALUE, 0, hint,
                       "files[%zu] ('%s') needs one body, text or base64", i, path);
    json_t *body = text ? text : coded;
    if (!json_is_string(body))
        return err_set(e, ERR_BAD_VALUE, 0, hint, "files[%zu] ('%s'): the body is not a string", i,
                       path);
    size_t length;
    if (coded) {
        _cleanup_free_ unsigned char *bytes =
            decode_base64(json_string_value(coded), json_string_length(coded), &length);
        if (!bytes)
            return err_set(e, ERR_BAD_VALUE, 0,
                           "use the standard alphabet with padding, no line breaks",
                           "files[%zu] ('%s') is not base64", i, path);
    }
    json_incref(body);
    (void)json_object_del(file, "content");
    (void)json_object_del(file, "encoding");
    (void)json_object_del(file, coded ? "text" : "base64");
    if (json_object_set_new(file, coded ? "base64" : "text", body) < 0)
        return err_set(e, ERR_SYSTEM, 0, NULL, "the server is out of memory");
    return 0;
}

int exec_check_base64(const char *text, size_t length, struct err *e)
{
    size_t decoded;
    _cleanup_free_ unsigned char *bytes = decode_base64(text, length, &decoded);
    return bytes ? 0
                 : err_set(e, ERR_BAD_VALUE, 0,
                           "use the standard alphabet with padding, no line breaks",
                           "it is not base64");
}

int exec_check_files(const struct gate *g, json_t *files, struct err *e)
{
    size_t i;
    json_t *file;
    char path[SCRATCH_PATH_MAX + 1];
    (void)g;
    if (!json_is_array(files))
        return err_set(e, ERR_BAD_VALUE, 0, "give [{\"path\": ..., \"text\": ...}]",
                       "files is not a list");
    if (json_array_size(files) > EXEC_FILES_MAX)
        return err_set(e, ERR_BAD_VALUE, 0, "send some of them in another call, or as an archive",
                       "files has %zu entries, %d are allowed", json_array_size(files),
                       EXEC_FILES_MAX);
    json_array_foreach (files, i, file) {
        json_t *name = json_object_get(file, "path");
        if (!json_is_string(name))
            return err_set(e, ERR_BAD_VALUE, 0, "give [{\"path\": ..., \"text\": ...}]",
                           "files[%zu] has no path", i);
        int r = scratch_path(json_string_value(name), json_string_length(name), path, e);
        if (r < 0) {
            err_wrap(e, "files[%zu]", i);
            return r;
        }
        r = check_body(file, i, path, e);
        if (r < 0)
            return r;
        if (json_object_set_new(file, "path", json_string(path)) < 0)
            return err_set(e, ERR_SYSTEM, 0, NULL, "the server is out of memory");
    }
    return 0;
}

// ---- variables ----------------------------------------------------------------------------------

// Python's keywords: no names.
static const char *const keywords[] = {
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield",
};

// Non-ASCII characters pass here: the runner asks Python (python/runner/variables.py).
static bool is_name(const char *s)
{
    if (isdigit((unsigned char)*s) || !*s)
        return false;
    if (strncmp(s, "__", 2) == 0 || strlen(s) > VARIABLE_NAME_MAX)
        return false;
    for (const char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_' && (unsigned char)*p < 0x80)
            return false;
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++)
        if (strcmp(keywords[i], s) == 0)
            return false;
    return true;
}

int exec_check_variables(json_t *variables, struct err *e)
{
    const char *name;
    json_t *value;
    if (!json_is_object(variables))
        return err_set(e, ERR_BAD_VALUE, 0, "give {\"name\": value}", "variables is not an object");
    if (json_object_size(variables) > EXEC_VARIABLES_MAX)
        return err_set(e, ERR_BAD_VALUE, 0, "put them into one dictionary, or into a file",
                       "variables has %zu entries, %d are allowed", json_object_size(variables),
                       EXEC_VARIABLES_MAX);
    json_object_foreach (variables, name, value)
        if (!is_name(name)) {
            char shown[80];
            snprintf(shown, sizeof shown, "%.60s", name);
            text_sanitize(shown);
            return err_set(
                e, ERR_BAD_VALUE, 0,
                "use letters, digits and underscores, no keyword, and no two underscores first",
                "variables: '%s' cannot be the name of a variable", shown);
        }
    size_t size = json_dumpb(variables, NULL, 0, JSON_COMPACT);
    if (size == 0 || size > VARIABLES_BYTES_MAX)
        return err_set(e, ERR_BAD_VALUE, 0, "bring large data along as a file",
                       "variables are %zu bytes of JSON, %d are allowed", size,
                       VARIABLES_BYTES_MAX);
    return 0;
}

// ---- environment variables ----------------------------------------------------------------------

// Names that cannot do what a caller wants of them: why, and what to do instead.
static const struct {
    const char *name; // with '*' at its end: all that begin so
    const char *why, *hint;
} refused_env_vars[] = {
    {"CONSTRICTOR_*", "is a name of Constrictor's own", "choose another name"},
    {"PYTHONHASHSEED", "has no effect, because the interpreter has started already",
     "sort what has to be in order; code may set it for the programs that it starts"},
};

static bool is_env_name(const char *s)
{
    if (!*s || strlen(s) > VARIABLE_NAME_MAX || (!isalpha((unsigned char)*s) && *s != '_'))
        return false;
    for (const char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_.-", *p))
            return false;
    return true;
}

static bool is_called(const char *name, const char *pattern)
{
    size_t n = strcspn(pattern, "*");
    return strncmp(name, pattern, n) == 0 && (pattern[n] || !name[n]);
}

static int check_env_var(const char *name, json_t *value, struct err *e)
{
    char shown[80];
    // SECURITY: what follows a '=' is most likely a value.
    snprintf(shown, sizeof shown, "%.*s",
             (int)strcspn(name, "=") > 60 ? 60 : (int)strcspn(name, "="), name);
    text_sanitize(shown);
    if (!is_env_name(name))
        return err_set(e, ERR_BAD_VALUE, 0,
                       "use letters, digits, '_', '.' and '-', no digit first, at most 100 of them",
                       "env: '%s%s' cannot be the name of a variable", shown,
                       strchr(name, '=') ? "=" : "");
    for (size_t i = 0; i < ARRAY_LEN(refused_env_vars); i++)
        if (is_called(name, refused_env_vars[i].name))
            return err_set(e, ERR_BAD_VALUE, 0, refused_env_vars[i].hint, "env: '%s' %s", shown,
                           refused_env_vars[i].why);
    if (!json_is_string(value))
        return err_set(e, ERR_BAD_VALUE, 0, "write it as a text, such as \"8080\"",
                       "env: the value of '%s' is not a string", shown);
    if (strlen(json_string_value(value)) != json_string_length(value))
        return err_set(e, ERR_BAD_VALUE, 0, "remove it",
                       "env: the value of '%s' has a NUL character", shown);
    if (json_string_length(value) > EXEC_ENV_VAR_BYTES)
        return err_set(e, ERR_BAD_VALUE, 0, "bring large data along as a file",
                       "env: the value of '%s' is %zu bytes, %d are allowed", shown,
                       json_string_length(value), EXEC_ENV_VAR_BYTES);
    return 0;
}

int exec_check_env_vars(json_t *env_vars, struct err *e)
{
    const char *name;
    json_t *value;
    size_t bytes = 0;
    if (!json_is_object(env_vars))
        return err_set(e, ERR_BAD_VALUE, 0, "give {\"NAME\": \"text\"}", "env is not an object");
    if (json_object_size(env_vars) > EXEC_ENV_VARS_MAX)
        return err_set(e, ERR_BAD_VALUE, 0, "put them into a file",
                       "env has %zu entries, %d are allowed", json_object_size(env_vars),
                       EXEC_ENV_VARS_MAX);
    json_object_foreach (env_vars, name, value) {
        int r = check_env_var(name, value, e);
        if (r < 0)
            return r;
        bytes += strlen(name) + json_string_length(value) + 2;
    }
    if (bytes > EXEC_ENV_BYTES)
        return err_set(e, ERR_BAD_VALUE, 0, "bring large data along as a file",
                       "env: names and values are %zu bytes, %d are allowed", bytes,
                       EXEC_ENV_BYTES);
    return 0;
}
