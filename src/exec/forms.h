// SPDX-License-Identifier: Apache-2.0
//
// forms: the syntax of texts in requests, as regular expressions and JSON schemas for the OpenAPI
// document.  Other modules check the texts; a comment beside each form names the function.
// tests/api/test_openapi.py compares forms and checks.  Some checks cannot be written as a regular
// expression (IDNA, ranges that must not end before they begin): there the form allows only texts
// that surely pass.  Pure; called by rest/route.c, fields.c, openapi.c.

#ifndef CONSTRICTOR_EXEC_FORMS_H
#define CONSTRICTOR_EXEC_FORMS_H

#include <jansson.h>
#include <stdbool.h>

#include "config/config.h"

#define FORM_NO_NUL "^[^\\x00]*$"
#define FORM_SOME "^[^\\x00]+$"

// The server counts bytes of UTF-8, an expression counts characters.  So the form allows the most
// characters for ASCII, half as many once one of them has two bytes, and so on.  Every text that
// matches is short enough.  For a text in one script the bound is exact; of a text in several
// scripts the server accepts a little more than the form.
#define FORM_FEWER(sign, beyond, times) "(?!(?=" sign "*[^\\x00-" beyond "])" sign "{" times "})"
#define FORM_BYTES(sign, more_than_2, more_than_3, more_than_4)                                    \
    FORM_FEWER(sign, "\\x7f", more_than_2)                                                         \
    FORM_FEWER(sign, "\\u07ff", more_than_3) FORM_FEWER(sign, "\\uffff", more_than_4)
#define FORM_BYTES_255(sign) FORM_BYTES(sign, "128", "86", "64")
#define FORM_BYTES_1024(sign) FORM_BYTES(sign, "513", "342", "257")

// An address without blanks: what net_url_rule() of net/policy.h surely takes.
#define FORM_URL "^https?://[A-Za-z0-9.-]+(:[1-9][0-9]{0,3})?(/[!-~]*)?$"
// Visible characters of ASCII.
#define FORM_PLAIN "^[!-~]+$"

// Text without control characters.
#define FORM_PRINTABLE(times) "[^\\x00-\\x1f\\x7f]{" times "}$"

// session_check_name() of session/session.h, and handles; "": none.
#define FORM_SESSION "^" FORM_PRINTABLE("0,128")
#define FORM_SESSION_GIVEN "^" FORM_PRINTABLE("1,128")
#define FORM_SESSION_NAME "^(?!ses_(?!.{23}$))" FORM_PRINTABLE("0,128")
#define FORM_SESSION_NEW "^(?!ses_)" FORM_PRINTABLE("1,128")
#define FORM_ARTIFACT "^" FORM_BYTES_1024("[\\s\\S]") FORM_PRINTABLE("1,1024")

// env_check_name() of env/env_text.h.
#define FORM_ENV "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
#define FORM_ENV_NEW "^(?!set-)[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
#define FORM_JOB "^[A-Za-z0-9_]{1,32}$"
#define FORM_PYTHON "^[0-9]{1,3}(?:\\.[0-9]{1,3}){0,2}$"

// scratch_path() of files/scratch.h: names but "." and "..", with empty ones and "." between them,
// which count for nothing.  In the path of a URL OpenAPI has no slashes: it is one name.
#define FORM_FILE_SIGN "[^\\x00-\\x1f/\\x7f-\\x9f]"
#define FORM_FILE_FIRST "[^\\x00-\\x1f./\\x7f-\\x9f]"
#define FORM_FILE_NAME                                                                             \
    FORM_BYTES_255("[^/]")                                                                         \
    "(?:" FORM_FILE_FIRST FORM_FILE_SIGN "{0,254}|\\." FORM_FILE_FIRST FORM_FILE_SIGN              \
    "{0,253}|\\.\\." FORM_FILE_SIGN "{1,253})"
#define FORM_FILE                                                                                  \
    "^(?:/mnt/data/)?(?![\\s\\S]{1025})" FORM_BYTES_1024("[\\s\\S]") "(?:\\./)*" FORM_FILE_NAME    \
                                                                     "(?:/+(?:\\.|" FORM_FILE_NAME \
                                                                     ")?){0,31}$"
#define FORM_FILE_ONE "^" FORM_FILE_NAME "$"

// decode_base64() of json/encode.h.
#define FORM_BASE64                                                                                \
    "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"

// exec_check_variables() of exec/exec.h.
#define FORM_VARIABLE                                                                              \
    "^(?!__)(?!(?:False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|"    \
    "else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|"       \
    "return|try|while|with|yield)$)[A-Za-z_][A-Za-z0-9_]{0,99}$"

// exec_check_env_vars() of exec/exec.h.
#define FORM_ENV_VAR "^(?!CONSTRICTOR_|PYTHONHASHSEED$)[A-Za-z_][A-Za-z0-9_.-]{0,99}$"

// is_module() of code_policy.c; other letters are taken where Python takes them.
#define FORM_IMPORT                                                                                \
    "^[A-Za-z_][A-Za-z0-9_]{0,60}(?:\\.[A-Za-z_][A-Za-z0-9_]{0,60}){0,2}(?:\\.\\*)?$"

// preload_is_name() of env/preload.h.
#define FORM_MODULE "^[A-Za-z_][A-Za-z0-9_]{0,30}(?:\\.[A-Za-z_][A-Za-z0-9_]{0,30}){0,2}$"

// Names of packages, to remove them.
#define FORM_PACKAGE "[A-Za-z0-9](?:[A-Za-z0-9._-]{0,60}[A-Za-z0-9])?"
#define FORM_PACKAGES "^" FORM_PACKAGE "(?: " FORM_PACKAGE "){0,20}$"

// envs_requirements() of env/envs.h: a text of several, or a list.
json_t *form_requirements(const struct config *c, bool required, const char *help);
// network_parse() of run/network.h.
json_t *form_network(const char *help);
// Any JSON that fits the server's parser: no NUL in a key, no whole number beyond 64 bits.
json_t *form_value(void);
// What the fields of a file have to be together: exec_check_files() of exec/exec.h.
json_t *form_file_body(void);
// An answer to input() is a line, the end, or both: rest_input() of rest/call.h.
json_t *form_answer(void);
// The policy 'open' has no list of imports: code_policy.h.
json_t *form_open_imports(void);

#endif
