// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of env/envs, env_job, env_install, env_tidy, env_db and env_porter.

#include "envs_gate.h"

#include <sqlite3.h>

#include "files/dbfolder.h"

// ---- tests --------------------------------------------------------------------------------------

static void there_is_always_base(void **state)
{
    (void)state;
    json_t *list = envs_list(&gate, "me"), *path = NULL;
    assert_int_equal(json_array_size(list), 1);
    json_decref(list);
    assert_int_equal(envs_path(&gate, "me", "base", &path, &e), 0);
    assert_null(path);
    assert_true(envs_path(&gate, "me", "other", &path, &e) < 0);
    assert_int_equal(e.code, ERR_ENV_UNKNOWN);
    assert_non_null(strstr(e.hint, "base"));
    assert_true(envs_delete(&gate, "me", "base", &e) < 0);
    assert_true(envs_create(&gate, "me", "base", NULL, &e) < 0);
}

static void made_and_removed(void **state)
{
    (void)state;
    json_t *path;
    assert_int_equal(envs_create(&gate, "me", "one", NULL, &e), 0);
    assert_true(envs_create(&gate, "me", "one", NULL, &e) < 0);
    assert_true(envs_create(&gate, "me", "set-1", NULL, &e) < 0);
    assert_true(envs_create(&gate, "me", "two", "2.7", &e) < 0);
    assert_int_equal(envs_create(&gate, "me", "two", "3.11", &e), 0);
    assert_int_equal(envs_path(&gate, "me", "one", &path, &e), 0);
    assert_true(envs_path(&gate, "you", "one", &path, &e) < 0); // another's
    json_t *list = envs_list(&gate, "me");
    assert_int_equal(json_array_size(list), 3);
    json_decref(list);
    assert_int_equal(envs_delete(&gate, "me", "one", &e), 0);
    assert_true(envs_delete(&gate, "me", "one", &e) < 0);
    assert_int_equal(e.code, ERR_ENV_UNKNOWN);
    assert_true(envs_path(&gate, "me", "one", &path, &e) < 0);
}

static void known_wheels_are_ready(void **state)
{
    (void)state;
    json_t *path = NULL;
    add_wheel(W1, L1);
    install("base", "Lab_A>=1", OK(PACKAGE("lab-a", "1.0", W1)));
    assert_string_equal(state_said(), "ready");
    assert_true(ended.progress > 0);
    assert_int_equal(envs_path(&gate, "me", "base", &path, &e), 0);
    assert_int_equal(json_array_size(path), 1);
    assert_string_equal(json_string_value(json_array_get(path, 0)), "/opt/wheels/" L1);
    json_decref(path);
    // What is there already needs no box.
    forget_ended();
    assert_non_null(start_job(ENV_INSTALL, "base", "Lab_A>=1"));
    assert_int_equal(ended.calls, 1);
    assert_string_equal(state_said(), "ready");
    union wire_message m;
    assert_false(hear(WIRE_ACQUIRE, &m));
    // Another version of the same takes its place.
    add_wheel(W2, L2);
    install("base", "lab-a>=2", OK(PACKAGE("lab-a", "2.0", W2)));
    assert_int_equal(envs_path(&gate, "me", "base", &path, &e), 0);
    assert_string_equal(json_string_value(json_array_get(path, 0)), "/opt/wheels/" L2);
    json_decref(path);
    json_t *one = envs_describe(&gate, "me", "base", &e);
    assert_int_equal(json_array_size(json_object_get(one, "requirements")), 1);
    char *text = json_dumps(one, 0);
    assert_null(strstr(text, L2)); // knowing a wheel's ID is enough to read it
    free(text);
    json_decref(one);
    json_t *status = envs_status_of(&gate, "me", "base", "Lab.A", &e);
    assert_string_equal(json_string_value(json_object_get(status, "state")), "ready");
    json_decref(status);
}

static void what_a_box_is_told(void **state)
{
    (void)state;
    add_wheel(W1, L1);
    install("base", "lab-a", OK(PACKAGE("lab-a", "1.0", W1)));
    forget_ended();
    assert_non_null(start_job(ENV_INSTALL, "base", "lab-b"));
    struct fake_box *b = give_installer();
    json_t *request = told(b);
    char *text = json_dumps(json_object_get(request, "requirements"), JSON_COMPACT);
    assert_string_equal(text, "[\"lab-a\",\"lab-b\"]");
    free(text);
    text = json_dumps(json_object_get(request, "known"), JSON_COMPACT);
    assert_string_equal(text, "[\"" W1 "\"]");
    free(text);
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(json_object_get(request, "current"), 0), "version")),
                        "1.0");
    assert_null(strstr(json_string_value(json_object_get(request, "index_url")), "@"));
    json_decref(request);
    says(b, "{\"ok\":false,\"code\":\"conflict\",\"message\":\"no\",\"requirement\":\"lab-b\","
            "\"resolver_says\":\"a\\nb\",\"hint\":\"h\"}");
    assert_string_equal(state_said(), "failed");
    assert_string_equal(code_said(), "conflict");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(ended.status, "error"), "resolver_says")),
        "a\nb");
    json_t *one = envs_describe(&gate, "me", "base", &e); // as it was
    assert_int_equal(json_array_size(json_object_get(one, "requirements")), 1);
    assert_int_equal(json_integer_value(json_object_get(one, "packages")), 1);
    json_decref(one);
}

static void lies_of_a_box(void **state)
{
    (void)state;
    static const char *const lies[] = {
        OK(PACKAGE("lab-a", "1.0", W1)), // no environment has it; nothing is left
        OK(PACKAGE("lab-a", "1.0", "../../etc")),
        OK(PACKAGE("Lab_A", "1.0", W1)),
        OK(PACKAGE("", "1.0", W1)),
        OK("1"),
        "{\"ok\":true}",
        "{\"ok\":true,\"packages\":{}}",
        "[]",
        "1",
    };
    json_t *path;
    for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
        install("new", "lab-a", lies[i]);
        assert_string_equal(state_said(), "failed");
        assert_true(envs_path(&gate, "me", "new", &path, &e) < 0); // it was not made
    }
    assert_int_equal(text_list_add(&config.deny_packages, "lab-b"), 0);
    add_wheel(W1, L1);
    install("new", "lab-a", OK(PACKAGE("lab-b", "1.0", W1)));
    assert_string_equal(code_said(), "denied_package");
}

static void jobs_of_one_environment_queue(void **state)
{
    (void)state;
    add_wheel(W1, L1);
    add_wheel(W2, L2);
    forget_ended();
    struct env_job *first = start_job(ENV_INSTALL, "base", "lab-a"),
                   *second = start_job(ENV_INSTALL, "base", "lab-b");
    assert_non_null(first);
    assert_non_null(second);
    struct fake_box *b = give_installer();
    assert_non_null(b);
    assert_null(give_installer());
    json_decref(told(b));
    says(b, OK(PACKAGE("lab-a", "1.0", W1)));
    assert_int_equal(ended.calls, 1);
    b = give_installer();
    assert_non_null(b);
    json_decref(told(b));
    says(b, OK(PACKAGE("lab-a", "1.0", W1) "," PACKAGE("lab-b", "1.0", W2)));
    assert_int_equal(ended.calls, 2);
    json_t *one = envs_describe(&gate, "me", "base", &e);
    assert_int_equal(json_integer_value(json_object_get(one, "packages")), 2);
    json_decref(one);
}

static void cancelled(void **state)
{
    (void)state;
    forget_ended();
    struct env_job *first = start_job(ENV_INSTALL, "base", "lab-a"),
                   *second = start_job(ENV_INSTALL, "base", "lab-b");
    char id[ENV_JOB_ID_SIZE];
    snprintf(id, sizeof id, "%s", env_job_id(second));
    assert_true(envs_cancel(&gate, "you", id, &e) < 0);
    assert_int_equal(envs_cancel(&gate, "me", id, &e), 0);
    assert_string_equal(state_said(), "cancelled");
    struct fake_box *b = give_installer();
    snprintf(id, sizeof id, "%s", env_job_id(first));
    assert_int_equal(envs_cancel(&gate, "me", id, &e), 0);
    turn();
    end_box(b, END_CANCELLED);
    wait_ms(1100); // for the broker's report
    assert_int_equal(ended.calls, 2);
    assert_string_equal(state_said(), "cancelled");
    json_t *status = envs_status(&gate, "me", id, &e);
    assert_string_equal(json_string_value(json_object_get(status, "state")), "cancelled");
    json_decref(status);
}

static void uninstalled_and_reset(void **state)
{
    (void)state;
    add_wheel(W1, L1);
    add_wheel(W2, L2);
    install("base", "lab-a", OK(PACKAGE("lab-a", "1.0", W1) "," PACKAGE("lab-b", "1.0", W2)));
    forget_ended();
    assert_non_null(start_job(ENV_UNINSTALL, "base", "lab-b"));
    assert_string_equal(state_said(), "failed"); // needed by lab-a
    forget_ended();
    assert_non_null(start_job(ENV_UNINSTALL, "base", "lab-c"));
    assert_string_equal(state_said(), "failed");
    forget_ended();
    assert_non_null(start_job(ENV_UNINSTALL, "base", "Lab_A"));
    assert_string_equal(state_said(), "ready");
    assert_int_equal(json_array_size(json_object_get(ended.status, "removed")), 2);
    install("base", "lab-a>=1",
            OK(PACKAGE("lab-a", "1.0", W1))); // another set: no box remembers it
    forget_ended();
    assert_non_null(start_job(ENV_RESET, "base", ""));
    assert_string_equal(state_said(), "ready");
    json_t *path = NULL;
    assert_int_equal(envs_path(&gate, "me", "base", &path, &e), 0);
    assert_null(path);
}

static char ready_name[ENV_NAME_MAX + 1];
static struct err ready_error;
static int ready_calls;

static void on_ready(const char *name, const struct err *error, void *argument)
{
    (void)argument;
    ready_calls++;
    snprintf(ready_name, sizeof ready_name, "%s", name ? name : "");
    ready_error = error ? *error : (struct err){0};
}

static struct env_wait *need(const char *what)
{
    json_t *list = json_pack("[s]", what);
    struct env_wait *w = envs_need(&gate, "me", list, on_ready, NULL);
    json_decref(list);
    assert_non_null(w);
    return w;
}

static void sets_of_packages(void **state)
{
    (void)state;
    ready_calls = 0;
    add_wheel(W1, L1);
    (void)need("lab-a");
    struct env_wait *other = need("Lab-A"); // the same
    (void)need("lab-a");
    turn();
    envs_need_cancel(other);
    struct fake_box *b = give_installer();
    assert_null(give_installer());
    json_decref(told(b));
    says(b, OK(PACKAGE("lab-a", "1.0", W1)));
    assert_int_equal(ready_calls, 2);
    assert_int_equal(strncmp(ready_name, "set-", 4), 0);
    (void)need("lab-a");
    assert_int_equal(ready_calls, 2); // later, never at once
    turn();
    assert_int_equal(ready_calls, 3);
    (void)need("lab-z");
    turn();
    b = give_installer();
    json_decref(told(b));
    says(b, "{\"ok\":false,\"code\":\"package_not_found\",\"message\":\"no lab-z\"}");
    assert_int_equal(ready_calls, 4);
    assert_string_equal(ready_name, "");
    assert_string_equal(ready_error.message, "no lab-z");
}

// ---- the porter ---------------------------------------------------------------------------------

static json_t *porter_hears(int *ret_fd)
{
    static char text[PORTER_DATAGRAM];
    struct iovec iov = {text, sizeof text};
    char control[CMSG_SPACE(sizeof(int))];
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(porter, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (ret_fd)
        *ret_fd = -1;
    if (n <= 0)
        return NULL;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    int fd = -1;
    if (c)
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    if (ret_fd)
        *ret_fd = fd;
    else
        fd_close(&fd);
    return json_loadb(text, (size_t)n, 0, NULL);
}

static void porter_says(const json_t *question, const char *rest)
{
    char text[2048];
    int n = snprintf(text, sizeof text, "{\"request\":%" JSON_INTEGER_FORMAT ",%s}",
                     json_integer_value(json_object_get(question, "request")), rest);
    assert_int_equal(send(porter, text, (size_t)n, 0), n);
    turn();
}

static struct {
    int calls;
    bool failed;
    struct err error;
} answered;

static void on_answer(const json_t *said, const struct err *error, void *argument)
{
    (void)argument;
    answered.calls++;
    answered.failed = !said;
    answered.error = error ? *error : (struct err){0};
}

static void questions_to_the_porter(void **state)
{
    (void)state;
    int fd;
    memset(&answered, 0, sizeof answered);
    assert_non_null(env_porter_ask(&gate, json_pack("{s:s}", "op", "store"), number_file("x"),
                                   on_answer, NULL));
    json_t *q = porter_hears(&fd);
    assert_non_null(q);
    assert_true(fd >= 0);
    fd_close(&fd);
    porter_says(q, "\"op\":\"progress\",\"bytes\":1");
    assert_int_equal(answered.calls, 0);
    // It dies; the next one is asked again, with the file.
    json_decref(q);
    link_porter();
    turn();
    q = porter_hears(&fd);
    assert_non_null(q);
    assert_true(fd >= 0);
    fd_close(&fd);
    porter_says(q,
                "\"op\":\"failed\",\"code\":\"disk_full\",\"message\":\"no room\",\"hint\":\"h\"");
    assert_int_equal(answered.calls, 1);
    assert_true(answered.failed);
    assert_int_equal(answered.error.code, ERR_DISK_FULL);
    assert_string_equal(answered.error.hint, "h");
    porter_says(q, "\"op\":\"stored\""); // once more: no job waits
    assert_int_equal(answered.calls, 1);
    json_decref(q);
    struct env_ask *a =
        env_porter_ask(&gate, json_pack("{s:s}", "op", "list"), -1, on_answer, NULL);
    q = porter_hears(NULL);
    env_porter_forget(a);
    json_t *cancel = porter_hears(NULL);
    assert_string_equal(json_string_value(json_object_get(cancel, "op")), "cancel");
    json_decref(cancel);
    porter_says(q, "\"op\":\"failed\",\"code\":\"cancelled\",\"message\":\"x\"");
    assert_int_equal(answered.calls, 1);
    json_decref(q);
    assert_int_equal(send(porter, "[1", 2, 0), 2); // garbage
    turn();
}

static uint64_t exported_bytes;
static int exported_calls;

static void on_exported(uint64_t bytes, const struct err *error, void *argument)
{
    (void)argument;
    assert_null(error);
    exported_calls++;
    exported_bytes = bytes;
}

static struct env_job *start_import(const char *name, int fd)
{
    struct env_job_plan o = {.change = ENV_IMPORT,
                             .owner = "me",
                             .name = name,
                             .create = true,
                             .fd = fd,
                             .on_done = on_ended,
                             .argument = &ended};
    forget_ended();
    struct env_job *j = envs_change(&gate, &o, &e);
    turn();
    return j;
}

static void out_and_in_again(void **state)
{
    (void)state;
    int file = number_file("x"), fd;
    json_t *path = NULL;
    char text[2048];
    assert_null(envs_export(&gate, "me", "base", file, on_exported, NULL, &e)); // nothing in it
    add_wheel(W1, L1);
    install("base", "lab-a>=1", OK(PACKAGE("lab-a", "1.0", W1)));
    assert_non_null(envs_export(&gate, "me", "base", file, on_exported, NULL, &e));
    json_t *q = porter_hears(&fd);
    assert_true(fd >= 0);
    fd_close(&fd);
    char *manifest = json_dumps(json_object_get(q, "manifest"), JSON_COMPACT);
    assert_non_null(strstr(manifest, W1));
    assert_null(strstr(manifest, L1));
    assert_int_equal(exported_calls, 0);
    porter_says(q, "\"op\":\"exported\",\"bytes\":77");
    assert_int_equal(exported_calls, 1);
    assert_int_equal(exported_bytes, 77);
    json_decref(q);
    // The file's wheel is not the shared one of this name.
    assert_non_null(start_import("copy", file));
    q = porter_hears(&fd);
    assert_string_equal(json_string_value(json_object_get(q, "op")), "import");
    assert_true(fd >= 0);
    fd_close(&fd);
    snprintf(text, sizeof text,
             "\"op\":\"imported\",\"manifest\":%s,\"wheels\":[{\"sha256\":\"" W1
             "\",\"wheel\":\"" L2 "\",\"bytes\":5,\"files\":1}]",
             manifest);
    porter_says(q, text);
    json_decref(q);
    assert_string_equal(state_said(), "ready");
    assert_int_equal(envs_path(&gate, "me", "copy", &path, &e), 0);
    assert_string_equal(json_string_value(json_array_get(path, 0)), "/opt/wheels/" L2);
    json_decref(path);
    struct env_wheel l;
    assert_true(env_db_find_wheel(gate.envs->db, W1, "", &l));
    assert_string_equal(l.id, L1);
    // Files of older versions name the SHA-256 "wheel".
    char *key = strstr(manifest, "\"sha256\"");
    assert_non_null(key);
    memcpy(key, "\"wheel\" ", 8);
    assert_non_null(start_import("older", file));
    q = porter_hears(NULL);
    snprintf(text, sizeof text,
             "\"op\":\"imported\",\"manifest\":%s,\"wheels\":[{\"sha256\":\"" W1
             "\",\"wheel\":\"" L2 "\",\"bytes\":5,\"files\":1}]",
             manifest);
    porter_says(q, text);
    json_decref(q);
    assert_string_equal(state_said(), "ready");
    memcpy(key, "\"sha256\"", 8);
    // Files that lie.
    static const char *const lies[] = {
        "null", "{}", "{\"format\":1,\"python\":\"3.11.2\",\"lock\":[]}",
        "{\"format\":1,\"python\":\"2.7\",\"lock\":[],\"requirements\":[\"a\"]}"};
    for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
        assert_non_null(start_import("lies", file));
        q = porter_hears(NULL);
        snprintf(text, sizeof text, "\"op\":\"imported\",\"wheels\":[],\"manifest\":%s", lies[i]);
        porter_says(q, text);
        json_decref(q);
        assert_string_equal(state_said(), "failed");
    }
    assert_non_null(start_import("lies", file));
    q = porter_hears(NULL);
    snprintf(text, sizeof text, "\"op\":\"imported\",\"wheels\":[],\"manifest\":%s", manifest);
    porter_says(q, text); // without its wheel
    json_decref(q);
    assert_string_equal(state_said(), "failed");
    assert_true(envs_path(&gate, "me", "lies", &path, &e) < 0);
    free(manifest);
    fd_close(&file);
}

static void what_a_killed_server_left(void **state)
{
    (void)state;
    json_t *status = json_pack("{s:s, s:s, s:[s]}", "job", "job_x", "state", "unpacking",
                               "requirements", "lab-a");
    assert_int_equal(env_db_put_job(gate.envs->db, "job_x", "me", "base", 0, false, status, 1, &e),
                     0);
    json_decref(status);
    add_wheel(W1, L1);
    close_envs();
    open_envs();
    status = envs_status(&gate, "me", "job_x", &e);
    assert_string_equal(json_string_value(json_object_get(status, "state")), "failed");
    json_decref(status);
    // Of the wheels on the disk only those without a row go.
    event_active(&gate.envs->tidy.event, EV_TIMEOUT, 0);
    turn();
    json_t *q = porter_hears(NULL);
    assert_string_equal(json_string_value(json_object_get(q, "op")), "list");
    porter_says(q, "\"op\":\"listed\",\"wheels\":[\"" L1 "\",\"" L2 "\"],\"more\":false");
    json_decref(q);
    q = porter_hears(NULL);
    assert_string_equal(json_string_value(json_object_get(q, "op")), "drop");
    assert_string_equal(json_string_value(json_object_get(q, "wheel")), L2);
    json_decref(q);
    assert_null(porter_hears(NULL));
}

static void wheels_that_nobody_has(void **state)
{
    (void)state;
    char ids[4][ENV_WHEEL_ID + 1];
    add_wheel(W1, L1);
    add_wheel(W2, L2);
    install("base", "lab-a", OK(PACKAGE("lab-a", "1.0", W1)));
    assert_int_equal(env_db_orphans(gate.envs->db, INT64_MAX, ids, 4), 1);
    assert_string_equal(ids[0], L2);
    assert_int_equal(env_db_orphans(gate.envs->db, env_now_ms() - 60000, ids, 4), 0); // too early
    assert_int_equal(env_db_remove_wheel(gate.envs->db, L1, &e), 0);
    assert_true(env_db_has_wheel(gate.envs->db, L1)); // an environment has it
    // Under pressure they go, but not before runs that were told of them have ended.
    config.env_quota_bytes = 2500;
    assert_true(env_make_room(gate.envs, 1000, &e) < 0);
    assert_int_equal(e.code, ERR_QUOTA);
    struct env_wheel l = {.id = L2, .sha256 = W2, .bytes = 1000};
    assert_int_equal(env_db_add_wheel(gate.envs->db, &l, 1, &e), 0); // used long ago
    assert_int_equal(env_make_room(gate.envs, 1000, &e), 0);
    assert_false(env_db_has_wheel(gate.envs->db, L2));
    json_t *q = porter_hears(NULL);
    assert_string_equal(json_string_value(json_object_get(q, "op")), "drop");
    json_decref(q);
}

// ---- kill -9 ------------------------------------------------------------------------------------

static void put_for_ever(void)
{
    for (unsigned i = 0;; i++) {
        struct env_row row = {.requirements = json_array(), .lock = json_array()};
        for (unsigned k = 0; k < 1 + i % 2; k++)
            (void)json_array_append_new(row.lock,
                                        json_pack("{s:s, s:s, s:s}", "name", k ? "b" : "a",
                                                  "version", "1", "wheel", k ? L2 : L1));
        if (env_db_put(gate.envs->db, "me", "base", &row, (int64_t)i, &e) < 0)
            _exit(1);
        env_row_clear(&row);
        if (i % 5 == 4 && env_db_delete(gate.envs->db, "me", "base", (int64_t)i, &e) < 0)
            _exit(1);
    }
}

static void killed_at_any_moment(void **state)
{
    (void)state;
    add_wheel(W1, L1);
    add_wheel(W2, L2);
    for (int round = 0; round < 30; round++) {
        close_envs();
        pid_t pid = fork();
        if (pid == 0) {
            open_envs();
            put_for_ever();
        }
        (void)usleep((useconds_t)(2000 + round * 1500));
        assert_int_equal(kill(pid, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status)); // not an error of its own
        open_envs();
        struct env_row row;
        int r = env_db_get(gate.envs->db, "me", "base", &row, &e);
        assert_true(r >= 0);
        json_t *path = NULL;
        assert_int_equal(envs_path(&gate, "me", "base", &path, &e), 0);
        assert_int_equal(json_array_size(path), json_array_size(row.lock));
        char ids[4][ENV_WHEEL_ID + 1];
        assert_int_equal(env_db_orphans(gate.envs->db, INT64_MAX, ids, 4),
                         2 - json_array_size(row.lock));
        json_decref(path);
        env_row_clear(&row);
    }
}

static void a_damaged_list_is_put_aside(void **state)
{
    (void)state;
    char path[128];
    close_envs();
    snprintf(path, sizeof path, "%s/environments.db", folder);
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(fd_write_all(fd, "this is no database at all, but long enough", 43), 0);
    fd_close(&fd);
    open_envs();
    json_t *list = envs_list(&gate, "me");
    assert_int_equal(json_array_size(list), 1);
    json_decref(list);
    snprintf(path, sizeof path, "%s/environments.damaged", folder);
    assert_int_equal(access(path, F_OK), 0);
}

// A database of version 1 called a wheel a layer, and its SHA-256 "wheel".
static void an_older_database_is_converted(void **state)
{
    (void)state;
    static const char old[] =
        "DROP TABLE environment; DROP TABLE wheel; DROP TABLE member; DROP TABLE answer;"
        "ALTER TABLE job DROP COLUMN server;"
        "CREATE TABLE environment("
        " id INTEGER PRIMARY KEY AUTOINCREMENT,"
        " owner TEXT NOT NULL, name TEXT NOT NULL, python TEXT NOT NULL,"
        " requirements TEXT NOT NULL, lock TEXT NOT NULL, packages INTEGER NOT NULL,"
        " bytes INTEGER NOT NULL, created INTEGER NOT NULL, used INTEGER NOT NULL,"
        " UNIQUE(owner, name));"
        "CREATE TABLE layer("
        " id TEXT PRIMARY KEY, wheel TEXT NOT NULL, scope TEXT NOT NULL, bytes INTEGER NOT NULL,"
        " files INTEGER NOT NULL, used INTEGER NOT NULL, UNIQUE(wheel, scope)) WITHOUT ROWID;"
        "CREATE INDEX layer_used ON layer(used);"
        "CREATE TABLE member("
        " environment INTEGER NOT NULL, layer TEXT NOT NULL, PRIMARY KEY(environment, layer))"
        " WITHOUT ROWID;"
        "CREATE INDEX member_layer ON member(layer);"
        "INSERT INTO layer VALUES('" L1 "', '" W1 "', '', 1000, 3, 1);"
        "INSERT INTO environment VALUES(7, 'me', 'old', '3.11.2', '[\"lab-a\"]',"
        " '[{\"name\":\"lab-a\",\"version\":\"1.0\",\"wheel\":\"" W1 "\","
        "\"filename\":\"\\\"layer\\\":.whl\",\"size\":10,\"layer\":\"" L1 "\","
        "\"unpacked\":1000,\"files\":3}]', 1, 1000, 1, 1);"
        "INSERT INTO member VALUES(7, '" L1 "');"
        "PRAGMA user_version = 1;";
    sqlite3 *db;
    json_t *said = NULL;
    struct env_wheel w;
    close_envs();
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dbfolder_also(ENV_DB_PREFIX, fd);
    assert_int_equal(sqlite3_open(ENV_DB_PREFIX ".db", &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, old, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    fd_close(&fd);
    open_envs();
    assert_int_equal(envs_path(&gate, "me", "old", &said, &e), 0);
    assert_string_equal(json_string_value(json_array_get(said, 0)), "/opt/wheels/" L1);
    json_decref(said);
    assert_true(env_db_find_wheel(gate.envs->db, W1, "", &w));
    assert_string_equal(w.id, L1);
    said = envs_describe(&gate, "me", "old", &e);
    json_t *entry = json_array_get(json_object_get(said, "lock"), 0);
    assert_string_equal(json_string_value(json_object_get(entry, "wheel")), W1);
    assert_string_equal(json_string_value(json_object_get(entry, "filename")), "\"layer\":.whl");
    json_decref(said);
    add_wheel(W2, L2);
    install("old", "lab-b", OK(PACKAGE("lab-a", "1.0", W1) "," PACKAGE("lab-b", "1.0", W2)));
    assert_string_equal(state_said(), "ready");
    close_envs();
    open_envs(); // converted once
}

static void another_python(void **state)
{
    (void)state;
    json_t *path = NULL;
    add_wheel(W1, L1);
    install("base", "lab-a", OK(PACKAGE("lab-a", "1.0", W1)));
    close_envs();
    snprintf(interp.version, sizeof interp.version, "3.11.9");
    open_envs();
    assert_int_equal(envs_path(&gate, "me", "base", &path, &e), 0);
    json_decref(path);
    close_envs();
    snprintf(interp.version, sizeof interp.version, "3.12.0");
    open_envs();
    assert_true(envs_path(&gate, "me", "base", &path, &e) < 0);
    assert_int_equal(e.code, ERR_ENV_BUSY);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin_envs, finish_envs)
    const struct CMUnitTest tests[] = {
        T(there_is_always_base),
        T(made_and_removed),
        T(known_wheels_are_ready),
        T(what_a_box_is_told),
        T(lies_of_a_box),
        T(jobs_of_one_environment_queue),
        T(cancelled),
        T(uninstalled_and_reset),
        T(sets_of_packages),
        T(questions_to_the_porter),
        T(what_a_killed_server_left),
        T(wheels_that_nobody_has),
        T(killed_at_any_moment),
        T(a_damaged_list_is_put_aside),
        T(an_older_database_is_converted),
        T(another_python),
        T(out_and_in_again),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    forget_ended();
    return failed;
}
