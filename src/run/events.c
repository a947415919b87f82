// SPDX-License-Identifier: Apache-2.0
//
// events: see events.h.  Runs in the gate.

#include "run/events.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "net/rules.h"
#include "run/network.h"
#include "json/whole.h"

enum { TEXT_MAX = 512, LOOK_MAX = 1024 }; // LOOK_MAX: entries read of a list

static const char no_report[] =
    "the broker did not report in time what this run did in the network";

// ---- one event ----------------------------------------------------------------------------------

static const struct text_field {
    const char *name;
    size_t max; // bytes
    bool needed;
} text_fields[] = {
    {"kind", 32, true},
    {"action", 32, false},
    {"target", NET_HOST_MAX + 8, true},
    {"host", NET_HOST_MAX, false},
    {"address", NET_ADDRESS_TEXT, false},
    {"rule", NET_RULE_TEXT, false},
    {"reason", 64, false},
    {"hint", TEXT_MAX - 8, false},
};

// A copy of untrusted text, cut and cleaned; new.
static json_t *clip(json_t *value, size_t max)
{
    char text[TEXT_MAX];
    size_t cap = max < sizeof text ? max + 1 : sizeof text;
    snprintf(text, cap, "%s", json_string_value(value));
    text_sanitize(text);
    return json_string(text);
}

static int take_count(json_t *to, json_t *from, const char *name, json_int_t max)
{
    json_t *value = json_object_get(from, name);
    bool fits = json_is_integer(value) && json_integer_value(value) >= 0 &&
                json_integer_value(value) <= max;
    return fits ? json_object_set(to, name, value) : 0;
}

// The layer that reports the event.  A box may only name a layer inside of it.
static const char *layer_of(json_t *event, bool box)
{
    static const char *const own[] = {"python", "restricted"};
    const char *layer = json_string_value(json_object_get(event, "layer"));
    static const char *const ours[] = {"broker", "seccomp"};
    for (size_t i = 0; layer && !box && i < ARRAY_LEN(ours); i++)
        if (strcmp(layer, ours[i]) == 0)
            return ours[i];
    for (size_t i = 0; layer && box && i < ARRAY_LEN(own); i++)
        if (strcmp(layer, own[i]) == 0)
            return own[i];
    return "box";
}

// New; NULL: not an event, or memory is out.
static json_t *take_event(json_t *from, bool box)
{
    json_t *o = json_is_object(from) ? json_object() : NULL;
    int failed = !o;
    for (size_t i = 0; i < ARRAY_LEN(text_fields) && !failed; i++) {
        json_t *value = json_object_get(from, text_fields[i].name);
        if (json_is_string(value))
            failed |= json_object_set_new(o, text_fields[i].name, clip(value, text_fields[i].max));
        else
            failed |= text_fields[i].needed;
    }
    if (!failed)
        failed = json_object_set_new(o, "layer", json_string(layer_of(from, box))) |
                 take_count(o, from, "line", INT32_MAX) | take_count(o, from, "port", UINT16_MAX) |
                 take_count(o, from, "count", INT64_MAX);
    // Every network event has the same members.
    static const char *const of_network[] = {"host", "address", "port", "rule"};
    const char *kind = json_string_value(json_object_get(o, "kind"));
    for (size_t i = 0; i < ARRAY_LEN(of_network) && !failed && kind && strcmp(kind, "network") == 0;
         i++)
        if (!json_object_get(o, of_network[i]))
            failed = json_object_set_new(o, of_network[i], json_null());
    if (!failed && !json_object_get(o, "hint"))
        failed = json_object_set_new(o, "hint", json_string(""));
    if (!failed && !json_object_get(o, "count"))
        failed = json_object_set_new(o, "count", json_integer(1));
    return json_whole(o, failed);
}

uint64_t events_take(json_t *events, json_t *from, bool box)
{
    size_t count = json_array_size(from), look = count < LOOK_MAX ? count : LOOK_MAX;
    uint64_t left_out = count - look;
    for (size_t i = 0; i < look; i++) {
        json_t *event = take_event(json_array_get(from, i), box);
        if (event && json_array_size(events) < EVENTS_MAX)
            (void)json_array_append(events, event);
        else
            left_out += event != NULL;
        json_decref(event);
    }
    return left_out;
}

// ---- usage --------------------------------------------------------------------------------------

static const char *const counts[] = {"connections", "requests", "bytes_up", "bytes_down"};

static json_t *take_counts(json_t *from)
{
    json_t *o = json_object();
    for (size_t i = 0; i < ARRAY_LEN(counts); i++)
        if (!json_is_integer(json_object_get(from, counts[i])) ||
            take_count(o, from, counts[i], INT64_MAX) < 0 || !json_object_get(o, counts[i])) {
            json_decref(o);
            return NULL;
        }
    return o;
}

static json_t *take_host(json_t *from)
{
    static const char *const fields[] = {"connections", "bytes_up", "bytes_down"};
    json_t *name = json_object_get(from, "host"), *o = json_object();
    int failed = !o || !json_is_string(name) ||
                 json_object_set_new(o, "host", clip(name, NET_HOST_MAX)) ||
                 take_count(o, from, "port", UINT16_MAX);
    for (size_t i = 0; i < ARRAY_LEN(fields) && !failed; i++)
        failed |= take_count(o, from, fields[i], INT64_MAX);
    return json_whole(o, failed);
}

json_t *events_usage(json_t *report)
{
    json_t *o = take_counts(report), *hosts = json_array(), *item;
    json_int_t more = json_integer_value(json_object_get(report, "hosts_left_out"));
    size_t i;
    json_array_foreach (json_object_get(report, "hosts"), i, item) {
        json_t *host = i < EVENTS_HOSTS_MAX ? take_host(item) : NULL;
        if (host)
            (void)json_array_append_new(hosts, host);
        else
            more += more < INT64_MAX;
    }
    int failed = !o || json_object_set(o, "hosts", hosts);
    json_decref(hosts);
    if (!failed && more > 0)
        failed = json_object_set_new(o, "hosts_omitted", json_integer(more));
    return json_whole(o, failed);
}

// ---- in words -----------------------------------------------------------------------------------

static const char *text_of(json_t *event, const char *name)
{
    const char *text = json_string_value(json_object_get(event, name));
    return text ? text : "";
}

static const struct {
    const char *action, *words;
} actions[] = {
    {"resolve", "looking up"},      {"connect", "connecting to"}, {"tls", "TLS to"},
    {"http", "an HTTP request to"}, {"quota", "a connection to"}, {"udp", "UDP to"},
    {"raw", "a raw socket,"},
};

void events_describe(json_t *event, char *buf, size_t cap)
{
    const char *action = text_of(event, "action"), *reason = text_of(event, "reason"),
               *hint = text_of(event, "hint"), *kind = text_of(event, "kind"),
               *words = strcmp(kind, "network") == 0 ? "reaching" : kind; // "import os was refused"
    json_int_t count = json_integer_value(json_object_get(event, "count"));
    char times[32] = "";
    for (size_t i = 0; i < ARRAY_LEN(actions); i++)
        if (strcmp(action, actions[i].action) == 0)
            words = actions[i].words;
    if (count > 1)
        snprintf(times, sizeof times, ", %lld times", (long long)count);
    if (strstr(hint, "refused"))
        snprintf(buf, cap, "%s%s", hint, times);
    else
        snprintf(buf, cap, "%s %s was refused%s%s%s%s%s%s", words, text_of(event, "target"),
                 reason[0] ? " (" : "", reason, reason[0] ? ")" : "", times, hint[0] ? "; " : "",
                 hint);
    text_sanitize(buf); // a cut may have left half a character
}

// Signs that an error is about an event, the surest first: the error repeats the hint; it names the
// target; its traceback does.
static bool is_about(json_t *error, json_t *event, unsigned sign)
{
    static const struct {
        const char *of_error, *of_event;
    } signs[] = {{"message", "hint"}, {"text", "hint"}, {"message", "target"}, {"message", "host"},
                 {"text", "target"},  {"text", "host"}, {"text", "address"}};
    if (sign >= ARRAY_LEN(signs))
        return false;
    const char *text = text_of(error, signs[sign].of_error),
               *word = text_of(event, signs[sign].of_event);
    return word[0] && strstr(text, word);
}

bool events_hint(json_t *report, json_t *events, char *buf, size_t cap)
{
    enum { SIGNS = 7 };
    json_t *error = json_object_get(report, "error");
    for (unsigned sign = 0; sign < SIGNS; sign++)
        for (size_t i = json_array_size(events); i-- > 0;) // the last one is the likeliest
            if (is_about(error, json_array_get(events, i), sign)) {
                events_describe(json_array_get(events, i), buf, cap);
                return true;
            }
    return false;
}

// ---- the result ---------------------------------------------------------------------------------

static int add_usage(json_t *object, const struct network_run *u)
{
    json_t *usage = network_run_usage(u);
    int failed =
        json_object_set(json_object_get(object, "usage"), "network", usage ? usage : json_null());
    if (!usage)
        failed |= json_object_set_new(object, "network_error", json_string(no_report));
    return failed;
}

// The kinds of events that this run could report, so that an empty list has a meaning.  Files are
// not among them: the kernel denies access by errno and reports nothing.
static json_t *observed(const struct run *r)
{
    json_t *list = json_array();
    if (r->told)
        (void)json_array_append_new(list, json_string("syscalls"));
    if (r->request.network)
        (void)json_array_append_new(list, json_string("network"));
    if (r->request.policed)
        (void)json_array_append_new(list, json_string("imports"));
    return list;
}

int events_add(json_t *object, const struct run *r)
{
    const struct network_run *u = r->request.network;
    json_t *events = json_array();
    // Events of the broker and the kernel first: they are facts, the code's are claims.
    uint64_t omitted =
        u ? network_run_omitted(u) + events_take(events, network_run_events(u), false) : 0;
    if (r->denials) {
        json_t *calls = denials_events(r->denials);
        omitted += r->denials->omitted + events_take(events, calls, false);
        json_decref(calls);
    }
    omitted += events_take(events, json_object_get(r->result, "security_events"), true);
    int failed = json_object_set_new(object, "security_events", events) |
                 json_object_set_new(object, "security_observed", observed(r)) |
                 (u ? json_object_set(object, "network", network_run_shown(u))
                    : json_object_set_new(object, "network", json_string("off")));
    if (omitted)
        failed |= json_object_set_new(object, "security_events_omitted",
                                      json_integer((json_int_t)omitted));
    if (u)
        failed |= add_usage(object, u);
    return failed ? -1 : 0;
}
