// SPDX-License-Identifier: Apache-2.0
//
// err: what went wrong, in a form that a person, a model and a program can use.
//
// Every fallible function takes `struct err *e` last and returns 0 or a negative number; `e` is
// written only on failure.  `return err_set(e, ERR_X, errno, hint, "open '%s'", path)` is the
// idiom.  A caller may add a context on the way up with err_wrap().  Nothing here prints.

#ifndef CONSTRICTOR_BASE_ERR_H
#define CONSTRICTOR_BASE_ERR_H

// One list: enum, stable JSON name, exit status of the command line.  Names are part of the API:
// they may be added, never changed.
#define ERR_MAP(X)                                                                                 \
    X(ERR_USAGE, "usage", 64)                                                                      \
    X(ERR_UNKNOWN_OPTION, "unknown_option", 64)                                                    \
    X(ERR_BAD_VALUE, "bad_value", 64)                                                              \
    X(ERR_BAD_CONFIG_FILE, "bad_config_file", 64)                                                  \
    X(ERR_NETWORK_NOT_ALLOWED, "network_not_allowed", 64)                                          \
    X(ERR_BAD_REQUIREMENT, "bad_requirement", 64)                                                  \
    X(ERR_PACKAGE_DENIED, "denied_package", 64)                                                    \
    X(ERR_SOURCE_NUL, "source_has_nul_byte", 65)                                                   \
    X(ERR_SOURCE_ENCODING, "source_not_utf8", 65)                                                  \
    X(ERR_SOURCE_TOO_LARGE, "source_too_large", 65)                                                \
    X(ERR_NOTEBOOK, "bad_notebook", 65)                                                            \
    X(ERR_BAD_BUNDLE, "bad_bundle", 65)                                                            \
    X(ERR_BAD_ARCHIVE, "bad_environment_file", 65)                                                 \
    X(ERR_PACKAGE_TOO_LARGE, "package_too_large", 65)                                              \
    X(ERR_SOURCE_UNREADABLE, "source_unreadable", 66)                                              \
    X(ERR_OUT_FOLDER, "out_folder_unusable", 73)                                                   \
    X(ERR_INTERPRETER, "interpreter_unusable", 69)                                                 \
    X(ERR_INTERPRETER_TOO_OLD, "interpreter_too_old", 69)                                          \
    X(ERR_LAYER_MISSING, "layer_missing", 69)                                                      \
    X(ERR_ZYGOTE, "zygote_failed", 69)                                                             \
    X(ERR_BOX_SETUP, "box_setup_failed", 69)                                                       \
    X(ERR_BUSY, "busy", 69)                                                                        \
    X(ERR_RATE, "rate_limited", 69)                                                                \
    X(ERR_SESSION_UNKNOWN, "session_not_found", 69)                                                \
    X(ERR_SESSION_ENDED, "session_ended", 69)                                                      \
    X(ERR_SESSION_BUSY, "session_busy", 69)                                                        \
    X(ERR_CONFLICT, "conflict", 69)                                                                \
    X(ERR_ENV_UNKNOWN, "env_not_found", 69)                                                        \
    X(ERR_ENV_EXISTS, "environment_exists", 69)                                                    \
    X(ERR_ENV_BUSY, "env_not_ready", 69)                                                           \
    X(ERR_JOB_UNKNOWN, "job_not_found", 69)                                                        \
    X(ERR_INSTALL, "install_failed", 69)                                                           \
    X(ERR_RESTRICTED, "restricted_missing", 69)                                                    \
    X(ERR_STATE_FOLDER, "state_unusable", 69)                                                      \
    X(ERR_NETWORK, "network_unavailable", 69)                                                      \
    X(ERR_QUOTA, "quota_exceeded", 69)                                                             \
    X(ERR_DISK_FULL, "disk_full", 69)                                                              \
    X(ERR_CANCELLED, "cancelled", 69)                                                              \
    X(ERR_FILE_PATH, "bad_file_path", 64)                                                          \
    X(ERR_FILE_UNKNOWN, "file_not_found", 66)                                                      \
    X(ERR_FILE_KIND, "not_a_regular_file", 66)                                                     \
    X(ERR_FILE_REFUSED, "file_refused", 66)                                                        \
    X(ERR_FILE_TOO_LARGE, "file_too_large", 65)                                                    \
    X(ERR_FILE_TIMEOUT, "file_timeout", 69)                                                        \
    X(ERR_SYSTEM, "system", 70)                                                                    \
    X(ERR_PROTOCOL, "protocol", 70)                                                                \
    X(ERR_INTERNAL, "internal", 70)

enum err_code {
#define X(name, text, status) name,
    ERR_MAP(X)
#undef X
        ERR_CODE_MAX
};

enum { ERR_MESSAGE_MAX = 768, ERR_HINT_MAX = 512 };

struct err {
    enum err_code code;
    int errnum; // errno of the failing call, or 0
    char message[ERR_MESSAGE_MAX];
    char hint[ERR_HINT_MAX]; // what to do next; "" if there is nothing useful to say
};

// Fills `e` and returns -errnum, or -1 when errnum is 0.  When errnum is not 0 its text is appended
// to the message.  `hint` may be NULL.  `e` may be NULL: then only the return value is produced.
int err_set(struct err *e, enum err_code code, int errnum, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

// "the server is out of memory", for what a client asked for.  Returns -ENOMEM.
int err_memory(struct err *e);

// Puts "context: " before the message.  Returns -1 or the negative errno that `e` holds.
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Replaces the hint (printf style).
void err_hint(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

const char *err_code_name(enum err_code code);
int err_exit_status(enum err_code code);

#endif
