// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of run/network, events and exec_network: a gate with runs and sessions, of which the
// test plays the keeper, the boxes and the broker.

#include "fake_keeper.h"

#include <inttypes.h>

#include "broker/broker.h"
#include "exec/exec.h"
#include "run/events.h"
#include "run/network.h"

static int broker;
static char heard[BROKER_DATAGRAM];

static void link_broker(void)
{
    int pair[2];
    unit_socketpair(pair);
    assert_int_equal(fd_set_nonblock(pair[0], true), 0);
    broker = pair[0];
    network_link(&gate, pair[1]);
}

static int begin_network(void **state)
{
    if (begin(state) != 0)
        return -1;
    assert_int_equal(text_list_add(&config.allow_hosts, "api.example.org:443,*.example.net"), 0);
    static struct interp interp;
    facts.network_file = -1;
    facts.interp = &interp;
    facts.zygote_report = "{}";
    assert_int_equal(network_open(&gate, &e), 0);
    assert_non_null(gate.network);
    link_broker();
    return 0;
}

static int finish_network(void **state)
{
    network_close(&gate);
    json_decref(gate.isolation);
    json_decref(gate.interpreter);
    gate.isolation = gate.interpreter = NULL;
    fd_close(&broker);
    return finish(state);
}

// What the broker hears next; NULL: nothing.
static json_t *broker_hears(void)
{
    ssize_t n = recv(broker, heard, sizeof heard, MSG_DONTWAIT);
    return n > 0 ? json_loadb(heard, (size_t)n, 0, NULL) : NULL;
}

static void broker_says(const char *text)
{
    assert_int_equal(send(broker, text, strlen(text), 0), (ssize_t)strlen(text));
    turn();
}

static void broker_reports(const struct fake_box *b, const char *more)
{
    char text[8192];
    snprintf(text, sizeof text,
             "{\"op\":\"report\",\"box\":%" PRIu64
             ",\"connections\":2,\"requests\":1,\"bytes_up\":10,\"bytes_down\":20%s}",
             b->id, more);
    broker_says(text);
}

static bool is_op(json_t *o, const char *op, uint64_t box)
{
    const char *said = json_string_value(json_object_get(o, "op"));
    bool is = said && strcmp(said, op) == 0 &&
              (uint64_t)json_integer_value(json_object_get(o, "box")) == box;
    return is;
}

static void broker_hears_settle(uint64_t box)
{
    json_t *o = broker_hears();
    assert_true(is_op(o, "settle", box));
    json_decref(o);
}

// ---- executions ---------------------------------------------------------------------------------

struct ran {
    int calls;
    json_t *result;
    struct err error;
};

static void on_exec(struct exec *x)
{
    struct ran *w = x->request.argument;
    w->calls++;
    w->error = x->error;
    w->result = x->error.message[0] ? NULL : exec_json(x);
    exec_free(x);
}

// `network` is JSON, as a caller writes it; NULL: not given.
static struct exec *execute(struct ran *w, const char *session, const char *network)
{
    json_t *said = network ? json_loads(network, JSON_DECODE_ANY, NULL) : NULL, *layer = NULL;
    assert_int_equal(network_parse(&gate, "key", said, &layer, &e), 0);
    json_decref(said);
    json_decref(w->result);
    *w = (struct ran){0};
    struct exec_request request = {.owner = "key",
                                   .code = "code",
                                   .code_length = 4,
                                   .session = session,
                                   .network = layer,
                                   .limits = keeper_limits(&config),
                                   .on_done = on_exec,
                                   .argument = w};
    struct exec *x = exec_start(&gate, &request);
    assert_non_null(x);
    turn();
    return x;
}

static struct fake_box *give(bool network, bool keep)
{
    union wire_message m;
    int control;
    assert_true(hear(WIRE_ACQUIRE, &m));
    assert_int_equal(m.acquire.network, network);
    assert_int_equal(m.acquire.keep, keep);
    struct fake_box *b = make_box(&control);
    m = (union wire_message){.box = {.ticket = m.acquire.ticket, .box = b->id, .parked = 1}};
    assert_int_equal(wire_send(keeper, WIRE_BOX, &m, &control, 1), 0);
    fd_close(&control);
    turn();
    if (keep)
        keeper_measures(b);
    return b;
}

static void box_says(struct fake_box *b, const char *json)
{
    struct frame_piece piece = {json, strlen(json)};
    size_t offset = 0;
    assert_int_equal(frame_send(b->control, FRAME_RESULT, &piece, 1, &offset), 0);
    turn();
}

static json_t *at(json_t *o, const char *path)
{
    char copy[128], *rest = copy, *word;
    snprintf(copy, sizeof copy, "%s", path);
    while (o && (word = strsep(&rest, ".")))
        o = json_is_array(o) ? json_array_get(o, (size_t)strtol(word, NULL, 10))
                             : json_object_get(o, word);
    return o;
}

static const char *text_at(json_t *o, const char *path)
{
    const char *text = json_string_value(at(o, path));
    return text ? text : "";
}

// The grant for a box, of `count` layers.
static json_t *hear_grant(const struct fake_box *b, size_t count)
{
    json_t *o = broker_hears();
    assert_true(is_op(o, "grant", b->id));
    assert_string_equal(text_at(o, "key"), "key");
    assert_int_equal(json_array_size(at(o, "rule_sets")), count);
    return o;
}

static void broker_grants(const struct fake_box *b, size_t count)
{
    json_decref(hear_grant(b, count));
}

// ---- tests --------------------------------------------------------------------------------------

// (1) of run.h: the rules are there before the code, and the report is in the result.
static void a_run_is_granted_then_sent_then_settled(void **state)
{
    (void)state;
    struct ran w = {0};
    (void)execute(&w, NULL, NULL);
    struct fake_box *b = give(true, false);
    json_t *grant = hear_grant(b, 0); // what the key has is the operator's business
    assert_int_equal(strlen(text_at(grant, "run")), 36);
    box_takes_run(b, "code");
    box_says(b, "{\"exit_code\": 0}");
    broker_hears_settle(b->id);
    assert_int_equal(w.calls, 0);
    end_box(b, END_DONE);
    assert_int_equal(w.calls, 0); // not before it is known
    broker_reports(b, ",\"hosts\":[{\"host\":\"api.example.org\",\"port\":443,\"connections\":2,"
                      "\"bytes_up\":10,\"bytes_down\":20}],\"events\":[{\"kind\":\"network\","
                      "\"action\":\"connect\",\"target\":\"a.test:80\",\"host\":\"a.test\","
                      "\"port\":80,\"reason\":\"not_allowed\",\"layer\":\"broker\",\"hint\":\"h\","
                      "\"count\":3}],\"events_left_out\":5");
    assert_int_equal(w.calls, 1);
    assert_string_equal(text_at(grant, "run"), text_at(w.result, "execution_id"));
    assert_int_equal(json_integer_value(at(w.result, "usage.network.bytes_down")), 20);
    assert_string_equal(text_at(w.result, "usage.network.hosts.0.host"), "api.example.org");
    assert_string_equal(text_at(w.result, "security_events.0.target"), "a.test:80");
    assert_string_equal(text_at(w.result, "security_events.0.layer"), "broker");
    assert_int_equal(json_integer_value(at(w.result, "security_events.0.count")), 3);
    assert_int_equal(json_integer_value(at(w.result, "security_events_omitted")), 5);
    assert_string_equal(text_at(w.result, "network.allow.0"), "api.example.org:443");
    assert_null(at(w.result, "network_error"));
    assert_null(broker_hears());
    json_decref(grant);
    json_decref(w.result);
}

static void a_run_without_network_knows_no_broker(void **state)
{
    (void)state;
    struct ran w = {0};
    (void)execute(&w, NULL, "\"off\"");
    struct fake_box *b = give(false, false);
    box_takes_run(b, "code");
    box_says(b, "{\"exit_code\": 0}");
    end_box(b, END_DONE);
    assert_int_equal(w.calls, 1);
    assert_null(broker_hears());
    assert_string_equal(text_at(w.result, "network"), "off");
    assert_true(json_is_array(at(w.result, "security_events")));
    assert_null(at(w.result, "usage.network"));
    json_decref(w.result);
}

// No run waits for a broker that is gone; what it did not say is null.
static void a_dead_broker_is_said(void **state)
{
    (void)state;
    struct ran w = {0};
    (void)execute(&w, NULL, NULL);
    struct fake_box *b = give(true, false);
    broker_grants(b, 0);
    box_says(b, "{\"exit_code\": 0}");
    fd_close(&broker);
    turn();
    end_box(b, END_DONE);
    assert_int_equal(w.calls, 1);
    assert_true(json_is_null(at(w.result, "usage.network")));
    assert_true(text_at(w.result, "network_error")[0] != '\0');
    json_decref(w.result);
    broker = -1;
}

static void a_broker_that_hangs_costs_a_second(void **state)
{
    (void)state;
    struct ran w = {0};
    (void)execute(&w, NULL, NULL);
    struct fake_box *b = give(true, false);
    box_says(b, "{\"exit_code\": 0}");
    end_box(b, END_DONE);
    assert_int_equal(w.calls, 0);
    wait_ms(600);
    assert_int_equal(w.calls, 0);
    wait_ms(600);
    assert_int_equal(w.calls, 1);
    assert_true(json_is_null(at(w.result, "usage.network")));
    broker_reports(b, ""); // of no run any more
    json_decref(w.result);
}

// A run that begins while there is no broker waits for one, with its code; and a broker that is new
// hears of the boxes that live.
static void a_new_broker_gets_the_grants(void **state)
{
    (void)state;
    struct ran w[2] = {0};
    (void)execute(&w[0], NULL, NULL);
    struct fake_box *one = give(true, false);
    broker_grants(one, 0);
    box_takes_run(one, "code");
    fd_close(&broker);
    turn();
    (void)execute(&w[1], NULL, "[\"api.example.org:443\"]");
    struct fake_box *two = give(true, false);
    box_has_nothing(two);
    link_broker();
    turn();
    broker_grants(one, 0);
    broker_grants(two, 1);
    box_takes_run(two, "code");
    for (int i = 0; i < 2; i++) {
        struct fake_box *b = i ? two : one;
        box_says(b, "{\"exit_code\": 0}");
        broker_hears_settle(b->id);
        broker_reports(b, "");
        end_box(b, END_DONE);
        assert_int_equal(w[i].calls, 1);
        assert_int_equal(json_integer_value(at(w[i].result, "usage.network.connections")), 2);
        json_decref(w[i].result);
    }
    fd_close(&broker);
    link_broker(); // no box lives
    assert_null(broker_hears());
}

static void without_a_broker_a_run_begins_after_a_second(void **state)
{
    (void)state;
    struct ran w = {0};
    network_link(&gate, -1);
    (void)execute(&w, NULL, NULL);
    struct fake_box *b = give(true, false);
    box_has_nothing(b);
    wait_ms(1200);
    box_takes_run(b, "code");
    box_says(b, "{\"exit_code\": 0}");
    end_box(b, END_DONE);
    assert_true(w.calls == 1 && json_is_null(at(w.result, "usage.network")));
    json_decref(w.result);
}

static void runs_of_a_session_are_granted_each(void **state)
{
    (void)state;
    struct ran w = {0};
    (void)execute(&w, "s", "[\"*.example.net\"]"); // opens it
    struct fake_box *b = give(true, true);
    broker_grants(b, 1); // of the session; the call has none of its own
    box_takes_run(b, "code");
    box_says(b, "{\"exit_code\": 0}");
    broker_hears_settle(b->id);
    assert_int_equal(w.calls, 0);
    broker_reports(b, "");
    keeper_measures(b);
    assert_int_equal(w.calls, 1);
    assert_string_equal(text_at(w.result, "network.allow.0"), "*.example.net");

    (void)execute(&w, "s", "[\"www.example.net:80\"]"); // less
    broker_grants(b, 2);
    box_takes_run(b, "code");
    box_says(b, "{\"exit_code\": 0}");
    broker_hears_settle(b->id);
    wait_ms(1200); // late
    keeper_measures(b);
    assert_true(w.calls == 1 && json_is_null(at(w.result, "usage.network")));
    assert_string_equal(text_at(w.result, "network.allow.0"), "www.example.net:80");

    (void)execute(&w, "s", "\"off\"");
    json_t *grant = hear_grant(b, 2);
    assert_int_equal(json_array_size(at(grant, "layers.1.allow")), 0);
    json_decref(grant);
    box_says(b, "{\"exit_code\": 0}");
    broker_hears_settle(b->id);
    broker_reports(b, ",\"hosts_left_out\":7"); // of the run before: dropped
    assert_int_equal(w.calls, 0);
    broker_reports(b, "");
    keeper_measures(b);
    assert_true(w.calls == 1 && !at(w.result, "usage.network.hosts_omitted"));
    assert_string_equal(text_at(w.result, "network"), "off");

    (void)execute(&w, "s", "[\"api.example.org:443\"]"); // the key may, the session may not
    turn();
    assert_true(w.calls == 1 && w.error.code == ERR_NETWORK_NOT_ALLOWED);
    assert_non_null(strstr(w.error.hint, "*.example.net"));
}

// The report of a run that took its session with it is not lost.
static void a_run_that_ends_its_session_is_settled(void **state)
{
    (void)state;
    struct ran w = {0};
    (void)execute(&w, "s", NULL);
    struct fake_box *b = give(true, true);
    broker_grants(b, 0);
    end_box(b, END_OWN);
    broker_hears_settle(b->id);
    assert_int_equal(w.calls, 0);
    broker_reports(b, "");
    assert_int_equal(w.calls, 1);
    assert_int_equal(json_integer_value(at(w.result, "usage.network.bytes_down")), 20);
    assert_string_equal(text_at(w.result, "session_state"), "lost");
    json_decref(w.result);
}

static void a_session_without_network_says_so(void **state)
{
    (void)state;
    struct ran w = {0};
    (void)execute(&w, "s", "\"off\"");
    struct fake_box *b = give(false, true);
    box_says(b, "{\"exit_code\": 1, \"error\": {\"type\": \"gaierror\", \"message\": \"x\"}}");
    keeper_measures(b);
    assert_int_equal(w.calls, 1);
    assert_non_null(strstr(text_at(w.result, "hint"), "api.example.org:443"));
    (void)execute(&w, "s", "[\"api.example.org:443\"]");
    assert_true(w.calls == 1 && w.error.code == ERR_NETWORK_NOT_ALLOWED);
    assert_non_null(strstr(w.error.message, "without network"));
    assert_null(broker_hears());
    json_decref(w.result);
}

static void a_run_can_be_cancelled_in_every_state(void **state)
{
    (void)state;
    struct ran w = {0};
    network_link(&gate, -1);
    struct exec *x = execute(&w, NULL, NULL);
    struct fake_box *b = give(true, false);
    exec_cancel(x); // while it waits for a broker
    end_box(b, END_CANCELLED);
    assert_int_equal(w.calls, 1);
    fd_close(&broker);
    link_broker();
    x = execute(&w, NULL, NULL);
    b = give(true, false);
    box_says(b, "{\"exit_code\": 0}");
    end_box(b, END_DONE);
    exec_cancel(x); // while it waits for the report
    assert_int_equal(w.calls, 0);
    broker_reports(b, "");
    assert_int_equal(w.calls, 1);
    json_decref(w.result);
    w.result = NULL;
    x = execute(&w, NULL, NULL);
    b = give(true, false);
    box_says(b, "{\"exit_code\": 0}");
    end_box(b, END_DONE);
    exec_free(x); // its caller is gone
    broker_reports(b, "");
    assert_int_equal(w.calls, 0);
    assert_int_equal(gate.running, 0);
}

// ---- what callers ask for -----------------------------------------------------------------------

static void parse_answers(void **state)
{
    (void)state;
    static const struct {
        const char *said;
        enum err_code code; // ERR_CODE_MAX: it is good
        const char *message;
    } cases[] = {
        {"\"off\"", ERR_CODE_MAX, NULL},
        {"false", ERR_CODE_MAX, NULL},
        {"[]", ERR_CODE_MAX, NULL},
        {"[\"API.Example.org.:443\"]", ERR_CODE_MAX, NULL},
        {"{\"allow\": [\"a.example.net\"], \"deny\": [\"b.example.net\"]}", ERR_CODE_MAX, NULL},
        {"\"on\"", ERR_BAD_VALUE, ""},
        {"[\"http://api.example.org\"]", ERR_BAD_VALUE, "http://api.example.org"},
        {"[\"api.example.org:443\", \"x y\"]", ERR_BAD_VALUE, "1"},
        {"[7]", ERR_BAD_VALUE, "0"},
        {"{\"allows\": []}", ERR_BAD_VALUE, "allows"},
        {"{\"deny\": [\"b.example.net\"]}", ERR_BAD_VALUE, "allow"}, // this would mean nothing
        {"[\"api.example.org\"]", ERR_NETWORK_NOT_ALLOWED, "api.example.org"}, // every port
        {"[\"other.test:443\"]", ERR_NETWORK_NOT_ALLOWED, "other.test"},
        {"[\"127.0.0.1\"]", ERR_NETWORK_NOT_ALLOWED, "127.0.0.1"},
        {"[\"*\"]", ERR_NETWORK_NOT_ALLOWED, "*"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *said = json_loads(cases[i].said, JSON_DECODE_ANY, NULL), *layer = NULL;
        int r = network_parse(&gate, "key", said, &layer, &e);
        if (cases[i].code == ERR_CODE_MAX) {
            assert_int_equal(r, 0);
            assert_non_null(layer);
        } else {
            if (r == 0 || e.code != cases[i].code || !strstr(e.message, cases[i].message))
                fail_msg("%s: %d %s: %s", cases[i].said, r, err_code_name(e.code), e.message);
            assert_true(e.hint[0] != '\0');
        }
        json_decref(layer);
        json_decref(said);
    }
    struct network *own = TAKE_PTR(gate.network); // a server without network
    json_t *some = json_pack("[s]", "api.example.org"), *layer;
    assert_true(network_parse(&gate, "key", some, &layer, &e) < 0);
    assert_int_equal(e.code, ERR_NETWORK_NOT_ALLOWED);
    assert_non_null(strstr(e.hint, "--allow-host"));
    assert_false(network_wants(&gate, "key", NULL));
    gate.network = own;
    json_decref(some);
}

static void too_many_rules_are_refused(void **state)
{
    (void)state;
    json_t *many = json_array(), *layer;
    for (int i = 0; i < 250; i++) {
        json_t *rule = json_pack("{s:s, s:i, s:[s], s:[]}", "host", "a.example.net", "port", i + 1,
                                 "methods", "GET", "paths");
        char path[180];
        memset(path, 'x', sizeof path - 1);
        path[0] = '/';
        path[sizeof path - 1] = '\0';
        (void)json_array_append_new(json_object_get(rule, "paths"), json_string(path));
        (void)json_array_append_new(many, rule);
    }
    assert_true(network_parse(&gate, "key", many, &layer, &e) < 0);
    assert_int_equal(e.code, ERR_BAD_VALUE);
    json_decref(many);
}

// ---- what the broker and the box say ------------------------------------------------------------

// SECURITY: a broker that was taken over says anything.
static void reports_are_not_trusted(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "x",
        "[]",
        "{}",
        "{\"op\":7}",
        "{\"op\":\"report\"}",
        "{\"op\":\"report\",\"box\":-1}",
        "{\"op\":\"report\",\"box\":\"1\"}",
        "{\"op\":\"report\",\"box\":1e99}",
        "{\"op\":\"report\",\"box\":99999999}",
        "{\"op\":\"report\",\"box\":0}",
    };
    struct ran w = {0};
    (void)execute(&w, NULL, NULL);
    struct fake_box *b = give(true, false);
    for (size_t i = 1; i < ARRAY_LEN(bad); i++)
        broker_says(bad[i]);
    broker_reports(b, ""); // not asked for
    box_says(b, "{\"exit_code\": 0}");
    end_box(b, END_DONE);
    assert_int_equal(w.calls, 0);
    broker_reports(b, ",\"hosts\":[7,{\"host\":\"a\\u001b[2Jb\",\"port\":70000},{}],\"events\":["
                      "7,{},{\"kind\":\"network\"},{\"kind\":\"n\",\"target\":\"\\u0007t\","
                      "\"layer\":\"keeper\",\"port\":-1,\"count\":-5,\"more\":[[[]]]}],"
                      "\"events_left_out\":-3");
    assert_int_equal(w.calls, 1);
    assert_int_equal(json_array_size(at(w.result, "usage.network.hosts")), 1);
    assert_string_equal(text_at(w.result, "usage.network.hosts.0.host"), "a?[2Jb");
    assert_null(at(w.result, "usage.network.hosts.0.port"));
    assert_int_equal(json_array_size(at(w.result, "security_events")), 1);
    assert_string_equal(text_at(w.result, "security_events.0.target"), "?t");
    assert_string_equal(text_at(w.result, "security_events.0.layer"), "box");
    assert_int_equal(json_integer_value(at(w.result, "security_events.0.count")), 1);
    assert_null(at(w.result, "security_events.0.port"));
    assert_null(at(w.result, "security_events.0.more"));
    assert_null(at(w.result, "security_events_omitted"));
    json_decref(w.result);
    // Without the figures it is no report.
    w.result = NULL;
    (void)execute(&w, NULL, NULL);
    b = give(true, false);
    box_says(b, "{\"exit_code\": 0}");
    end_box(b, END_DONE);
    char text[128];
    snprintf(text, sizeof text, "{\"op\":\"report\",\"box\":%" PRIu64 ",\"unknown\":true}", b->id);
    broker_says(text);
    assert_true(w.calls == 1 && json_is_null(at(w.result, "usage.network")));
    json_decref(w.result);
}

static void a_box_says_what_it_tried(void **state)
{
    (void)state;
    struct ran w = {0};
    json_t *said = json_pack("{s:i, s:[]}", "exit_code", 1, "security_events"),
           *list = json_object_get(said, "security_events");
    for (int i = 0; i < 40; i++)
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:s, s:s}", "kind", "network",
                                                    "action", "connect", "target",
                                                    json_sprintf("h%d.test:80", i), "hint",
                                                    "ask for it", "layer", "broker"));
    _cleanup_free_ char *text = json_dumps(said, 0);
    (void)execute(&w, NULL, "\"off\"");
    struct fake_box *b = give(false, false);
    box_says(b, text);
    end_box(b, END_DONE);
    assert_int_equal(json_array_size(at(w.result, "security_events")), EVENTS_MAX);
    assert_int_equal(json_integer_value(at(w.result, "security_events_omitted")), 8);
    assert_string_equal(text_at(w.result, "security_events.31.target"), "h31.test:80");
    assert_string_equal(text_at(w.result, "security_events.31.layer"), "box"); // whatever it claims
    json_decref(said);
    json_decref(w.result);
}

static void an_error_about_a_refusal_gets_its_hint(void **state)
{
    (void)state;
    static const char *const messages[] = {"cannot reach a.test", "something else"};
    for (int i = 0; i < 2; i++) {
        struct ran w = {0};
        char text[256];
        snprintf(text, sizeof text,
                 "{\"exit_code\": 1, \"error\": {\"type\": \"ConnectionError\", \"message\": "
                 "\"%s\", \"traceback\": []}}",
                 messages[i]);
        (void)execute(&w, NULL, NULL);
        struct fake_box *b = give(true, false);
        box_says(b, text);
        end_box(b, END_DONE);
        broker_reports(b, ",\"events\":[{\"kind\":\"network\",\"action\":\"connect\",\"target\":"
                          "\"a.test:80\",\"host\":\"a.test\",\"reason\":\"not_allowed\",\"layer\":"
                          "\"broker\",\"hint\":\"ask for a.test\"}]");
        assert_int_equal(w.calls, 1);
        if (i == 0)
            assert_string_equal(
                text_at(w.result, "hint"),
                "connecting to a.test:80 was refused (not_allowed); ask for a.test");
        else
            assert_string_equal(text_at(w.result, "hint"), "");
        json_decref(w.result);
    }
}

// A broker that reads nothing costs no time, and a bounded amount of memory.
static void a_broker_that_does_not_read_is_given_up(void **state)
{
    (void)state;
    struct ran *w = calloc(600, sizeof *w);
    assert_non_null(w);
    struct network_run *u[600];
    json_t *layer = json_object();
    (void)json_object_set_new(layer, "allow", json_pack("[o]", json_sprintf("%038000d", 1)));
    for (int i = 0; i < 600; i++) {
        u[i] = network_run_new(&gate, "key", "id", layer, NULL);
        assert_non_null(u[i]);
        (void)network_enter(u[i], (uint64_t)i + 10, NULL, NULL);
    }
    for (int i = 0; i < 600; i++) {
        network_run_free(u[i]);
        network_forget(&gate, (uint64_t)i + 10);
    }
    json_decref(layer);
    free(w);
}

static void the_policy_is_read_again(void **state)
{
    (void)state;
    char path[] = "/tmp/constrictor-network-XXXXXX";
    static const char text[] = "{\"default\": {\"allow\": []}, "
                               "\"keys\": {\"key\": {\"allow\": [\"new.test:443\"]}}}";
    _cleanup_close_ int fd = mkostemp(path, O_CLOEXEC);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(network_reload(&gate, fd, &e),
                     0); // there is no such file in the configuration
    assert_int_equal(network_generation(&gate), 0);
    snprintf(config.network_file, sizeof config.network_file, "rules.json");
    assert_int_equal(network_reload(&gate, fd, &e), 0);
    assert_int_equal(network_generation(&gate), 1);
    assert_true(network_is_allowed(&gate, "key") && !network_is_allowed(&gate, "other"));
    char allowed[NETWORK_TEXT_MAX];
    network_describe(&gate, "key", NULL, allowed);
    assert_string_equal(allowed, "new.test:443");
    assert_int_equal(ftruncate(fd, 10), 0);
    assert_true(network_reload(&gate, fd, &e) < 0 && network_reload(&gate, -1, &e) < 0);
    assert_true(network_is_allowed(&gate, "key")); // what was in force stays
}

int main(void)
{
#define WITH(f) cmocka_unit_test_setup_teardown(f, begin_network, finish_network)
    const struct CMUnitTest tests[] = {
        WITH(a_run_is_granted_then_sent_then_settled),
        WITH(a_run_without_network_knows_no_broker),
        WITH(a_dead_broker_is_said),
        WITH(a_broker_that_hangs_costs_a_second),
        WITH(a_new_broker_gets_the_grants),
        WITH(without_a_broker_a_run_begins_after_a_second),
        WITH(runs_of_a_session_are_granted_each),
        WITH(a_run_that_ends_its_session_is_settled),
        WITH(a_session_without_network_says_so),
        WITH(a_run_can_be_cancelled_in_every_state),
        WITH(parse_answers),
        WITH(too_many_rules_are_refused),
        WITH(reports_are_not_trusted),
        WITH(a_box_says_what_it_tried),
        WITH(an_error_about_a_refusal_gets_its_hint),
        WITH(a_broker_that_does_not_read_is_given_up),
        WITH(the_policy_is_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
