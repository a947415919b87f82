// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of session/adopt and session/ended: a gate that takes over, and what is remembered of
// sessions.

#include "fake_keeper.h"

#include "run/network.h"

// What the new gate has before it takes over.
static void (*gate_is_ready)(void);

static void open_network(void)
{
    assert_int_equal(network_open(&gate, &e), 0);
}

static void crash_and_adopt(const struct fake_box *alive, bool busy)
{
    union wire_message m = {0};
    int control;
    // The gate is gone without a word; its memory is, for the test, let go of by hand.
    struct ledger *saved = malloc(sizeof *saved);
    assert_non_null(saved);
    memcpy(saved, facts.ledger, sizeof *saved);
    sessions_close(&gate);
    stop_gate();
    memcpy(facts.ledger, saved, sizeof *saved);
    free(saved);
    facts.restarts++;
    start_gate();
    if (gate_is_ready)
        gate_is_ready();
    gate_is_ready = NULL;
    if (alive) {
        struct fake_box *b = make_box(&control);
        m.adopt = (struct wire_adopt){.box = alive->id};
        b->id = alive->id;
        assert_int_equal(wire_send(keeper, WIRE_ADOPT, &m, &control, 1), 0);
        fd_close(&control);
    }
    m.adopt = (struct wire_adopt){.box = 0};
    assert_int_equal(wire_send(keeper, WIRE_ADOPT, &m, NULL, 0), 0);
    assert_int_equal(sessions_adopt(&gate, &e), 0);
    if (busy)
        assert_true(hear(WIRE_INTERRUPT, &m));
}

static void note_busy(uint64_t box)
{
    for (unsigned i = 0; i < LEDGER_ENTRIES; i++)
        if (facts.ledger->entries[i].live && facts.ledger->entries[i].box == box)
            facts.ledger->entries[i].busy = 1;
}

static bool is_noted_busy(uint64_t box)
{
    for (unsigned i = 0; i < LEDGER_ENTRIES; i++)
        if (facts.ledger->entries[i].live && facts.ledger->entries[i].box == box)
            return facts.ledger->entries[i].busy;
    return false;
}

static void sessions_go_on_in_the_next_gate(void **state)
{
    (void)state;
    struct fake_box *b, *lost;
    struct watched w = {0};
    facts.ledger = ledger_new();
    assert_non_null(facts.ledger);
    sessions_close(&gate);
    stop_gate();
    start_gate();
    struct session *s = open_one("key", "work", &b);
    struct session *gone = open_one("key", "gone", &lost);
    char id[SESSION_ID_SIZE], gone_id[SESSION_ID_SIZE];
    snprintf(id, sizeof id, "%s", s->id);
    snprintf(gone_id, sizeof gone_id, "%s", gone->id);
    s->executions = 5;
    struct fake_box before = *b;
    assert_non_null(start(s, "x", &w, 9000));
    turn();
    // `w` is on the stack of this test: let the run end before the crash, but not the ledger know
    // of it.
    box_answers(b);
    keeper_measures(b);
    note_busy(before.id);
    crash_and_adopt(&before, true);
    s = session_find(&gate, "key", "work", &e);
    assert_non_null(s);
    assert_string_equal(s->id, id);
    assert_int_equal(s->executions, 5);
    assert_null(session_find(&gate, "other", id, &e));
    assert_null(session_find(&gate, "key", gone_id, &e));
    assert_non_null(strstr(e.message, "restarted"));
    // What ran when the gate died is interrupted; then the next run has its turn.
    struct fake_box *now = &boxes[box_count - 1];
    struct watched next = {0};
    assert_non_null(start(s, "after", &next, 9000));
    turn();
    box_says_busy(now, box_is_asked(now), true);
    box_has_nothing(now);
    box_answers(now);
    box_has_nothing(now);
    keeper_measures(now); // by then the interruption is through
    box_takes_run(now, "after");
    box_answers(now);
    keeper_measures(now);
    assert_true(next.calls == 1 && next.end == END_DONE);
    // Once more; but the gate was killed before the whole run was sent, or after it had read the
    // result.
    before = *now;
    note_busy(before.id);
    crash_and_adopt(&before, true);
    assert_non_null(s = session_find(&gate, "key", "work", &e));
    now = &boxes[box_count - 1];
    next = (struct watched){0};
    assert_non_null(start(s, "later", &next, 9000));
    turn();
    uint32_t tag = box_is_asked(now);
    box_has_nothing(now);
    assert_true(is_noted_busy(before.id)); // for a gate after this one
    box_says_busy(now, tag, false);
    box_has_nothing(now);
    keeper_measures(now); // by then the interruption is through
    box_takes_run(now, "later");
    box_answers(now);
    keeper_measures(now);
    assert_true(next.calls == 1 && next.end == END_DONE);
}

// What a session may reach outlives its gate, or is nothing from then on; never more.
static void sessions_keep_their_network(void **state)
{
    (void)state;
    static const struct {
        const char *layer;  // NULL: what the key has
        const char *forged; // what the gate left behind instead; NULL: what it wrote
        bool networked, lost;
        const char *kept; // "": what the key has
    } cases[] = {
        {NULL, NULL, true, false, ""},
        {"false", NULL, false, false, "false"},
        {"{\"allow\":[\"a.example.net\"],\"deny\":[]}", NULL, true, false,
         "{\"allow\":[\"a.example.net\"],\"deny\":[]}"},
        {"long", NULL, true, true, "false"},
        {"{\"allow\":[\"a.example.net\"],\"deny\":[]}", "{\"allow\":[\"http://x\"]}", true, true,
         "false"},
        {"{\"allow\":[\"a.example.net\"],\"deny\":[]}", "{", true, true, "false"},
    };
    facts.ledger = ledger_new();
    facts.network_file = -1;
    assert_int_equal(text_list_add(&config.allow_hosts, "*.example.net"), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct session_plan plan;
        json_t *layer = cases[i].layer ? json_loads(cases[i].layer, JSON_DECODE_ANY, NULL) : NULL;
        if (cases[i].layer && !layer) { // more than the ledger has room for
            layer = json_pack("{s:[], s:[]}", "allow", "deny");
            for (int k = 0; k < 100; k++)
                json_array_append_new(json_object_get(layer, "allow"),
                                      json_sprintf("host-%d.example.net", k));
        }
        sessions_close(&gate);
        stop_gate();
        facts.restarts = 0;
        start_gate();
        assert_int_equal(network_open(&gate, &e), 0);
        session_plan_init(&gate, &plan);
        plan.network = layer;
        struct session *s = session_open(&gate, "key", &plan, NULL, NULL, &e);
        assert_non_null(s);
        json_decref(layer);
        char id[SESSION_ID_SIZE];
        memcpy(id, s->id, sizeof id);
        struct fake_box *b = give_box();
        keeper_measures(b);
        assert_int_equal(s->networked, cases[i].networked);
        for (unsigned k = 0; cases[i].forged && k < LEDGER_ENTRIES; k++)
            if (facts.ledger->entries[k].live)
                snprintf(facts.ledger->entries[k].network, LEDGER_NETWORK_SIZE, "%s",
                         cases[i].forged);
        network_close(&gate);
        struct fake_box before = *b;
        gate_is_ready = open_network; // before the boxes come
        crash_and_adopt(&before, false);
        s = session_find(&gate, "key", id, &e);
        assert_non_null(s);
        assert_int_equal(s->networked, cases[i].networked);
        assert_int_equal(s->network_lost, cases[i].lost);
        _cleanup_free_ char *kept =
            s->plan.network ? json_dumps(s->plan.network, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        assert_string_equal(kept ? kept : "", cases[i].kept);
        network_close(&gate);
    }
}

static void a_forged_ledger_is_not_believed(void **state)
{
    (void)state;
    facts.ledger = ledger_new();
    assert_non_null(facts.ledger);
    memset(facts.ledger, 0xff, sizeof *facts.ledger);
    for (int i = 0; i < 3; i++) { // no end of string anywhere, no sound id
        facts.ledger->entries[i].box = 4097 + (uint64_t)i;
        memset(facts.ledger->entries[i].id, 's', sizeof facts.ledger->entries[i].id);
    }
    sessions_close(&gate);
    stop_gate();
    facts.restarts = 1;
    start_gate();
    union wire_message m = {.adopt = {.box = 4097}};
    int control;
    (void)make_box(&control);
    assert_int_equal(wire_send(keeper, WIRE_ADOPT, &m, &control, 1), 0);
    fd_close(&control);
    m.adopt.box = 0;
    assert_int_equal(wire_send(keeper, WIRE_ADOPT, &m, NULL, 0), 0);
    assert_int_equal(sessions_adopt(&gate, &e), 0);
    assert_int_equal(sessions_count(&gate, NULL), 0);
    assert_true(hear(WIRE_RELEASE, &m) && m.release.box == 4097); // an unknown box
}

static void two_entries_of_one_session(void **state)
{
    (void)state;
    struct fake_box *b;
    facts.ledger = ledger_new();
    assert_non_null(facts.ledger);
    sessions_close(&gate);
    stop_gate();
    start_gate();
    struct session *s = open_one("key", "work", &b);
    const struct ledger_entry *real = s->entry;
    struct fake_box before = *b;
    unsigned copies = 0;
    for (unsigned i = 0; i < LEDGER_ENTRIES;
         i++) // a gate that takes them all has more than there are
        if (&facts.ledger->entries[i] != real) {
            memcpy(&facts.ledger->entries[i], real, sizeof *real);
            copies++;
        }
    assert_int_equal(copies, LEDGER_ENTRIES - 1);
    crash_and_adopt(&before, false);
    assert_int_equal(sessions_count(&gate, NULL), 1);
    assert_non_null(s = session_find(&gate, "key", "work", &e));
    session_close(s, SESSION_CLOSED);
    assert_int_equal(gate.sessions->free_entry_count, LEDGER_ENTRIES);
}

static void ended_sessions_are_bounded(void **state)
{
    (void)state;
    struct ended_sessions *all = ended_sessions_new();
    char id[SESSION_ID_SIZE];
    int64_t when;
    ended_session_add(all, "b", "ses_b", "", SESSION_CRASHED, 1);
    for (int i = 0; i < ENDED_SESSIONS_MAX + 10; i++) {
        snprintf(id, sizeof id, "ses_%d", i);
        ended_session_add(all, "a", id, "name", SESSION_EXPIRED, i);
    }
    assert_int_equal(ended_session_find(all, "a", "ses_0", &when), SESSION_OPEN);
    assert_int_equal(ended_session_find(all, "a", "ses_12", &when), SESSION_EXPIRED);
    assert_int_equal(ended_session_find(all, "b", "ses_12", &when), SESSION_OPEN);
    assert_int_equal(ended_session_find(all, "b", "ses_b", &when),
                     SESSION_CRASHED); // not pushed out
    json_t *list = ended_sessions_json(all, "a", ENDED_SESSIONS_MAX + 10);
    assert_int_equal(json_array_size(list), ENDED_SESSIONS_SHOWN);
    json_decref(list);
    ended_sessions_free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sessions_go_on_in_the_next_gate), TEST(sessions_keep_their_network),
        TEST(a_forged_ledger_is_not_believed), TEST(two_entries_of_one_session),
        TEST(ended_sessions_are_bounded),
    };
    return cmocka_run_group_tests_name("adopt", tests, NULL, NULL);
}
