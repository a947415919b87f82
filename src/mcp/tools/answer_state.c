// SPDX-License-Identifier: Apache-2.0
//
// answer_state: see answer_state.h.  Runs in the gate.  SECURITY: names of files and
// variables, types and shapes come from user code.

#include "mcp/tools/answer_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "mcp/tools/file_access.h"
#include "mcp/tools/tools.h"
#include "run/events.h"
#include "json/whole.h"

enum {
    FILE_LINES_MAX = 20,
    NAME_MAX_BYTES = 120,  // of a variable or a type
    VARIABLES_BYTES = 400, // of the line that names them
    DIMENSIONS_MAX = 8,
    LINE_SIZE = 2048,
};

static const char *string_at(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && text[0] ? text : NULL;
}

// Foreign text, short and on one line.
static const char *fit(const char *text, char *buf, size_t cap)
{
    if (!text)
        text = "?";
    int room = (int)(cap - 4);
    size_t length = strlen(text);
    snprintf(buf, cap, "%.*s%s", room, text, length > (size_t)room ? "..." : "");
    text_sanitize(buf);
    return buf;
}

// ---- the session --------------------------------------------------------------------------------

static bool is_lost(json_t *object)
{
    const char *state = string_at(object, "session_state");
    return state && strcmp(state, "lost") == 0;
}

void answer_state_head(FILE *f, json_t *object)
{
    char name[NAME_MAX_BYTES + 8];
    const char *known = string_at(object, "session_name");
    if (!is_lost(object))
        return;
    fprintf(f, "state lost: session '%s' has ended with this run, and its variables are gone\n",
            fit(known ? known : string_at(object, "session"), name, sizeof name));
}

bool answer_state_is_new(json_t *object)
{
    const char *state = string_at(object, "session_state");
    return state && strcmp(state, "new") == 0 && string_at(object, "session");
}

void answer_state_foot(FILE *f, json_t *object, const char *lead)
{
    char name[NAME_MAX_BYTES + 8];
    const char *id = string_at(object, "session"), *known = string_at(object, "session_name");
    const char *state = string_at(object, "session_state");
    json_t *count = json_object_get(object, "execution_count");
    if (!id)
        return;
    fprintf(f, "%ssession '%s'", lead, fit(known ? known : id, name, sizeof name));
    if (state && strcmp(state, "new") == 0)
        fputs(" (new)", f);
    if (json_is_integer(count))
        fprintf(f, " #%" JSON_INTEGER_FORMAT, json_integer_value(count));
}

// ---- files --------------------------------------------------------------------------------------

static size_t shown_files(json_t *object)
{
    size_t count = json_array_size(json_object_get(object, "files"));
    return count < FILE_LINES_MAX ? count : FILE_LINES_MAX;
}

static void write_files(FILE *f, json_t *object, size_t room)
{
    json_t *files = json_object_get(object, "files");
    size_t count = json_array_size(files), said = 0;
    json_int_t more = json_integer_value(json_object_get(object, "files_omitted"));
    if (count == 0 && more <= 0 && !string_at(object, "files_error"))
        return;
    fputs("files in /mnt/data, new or changed:\n", f);
    for (size_t i = 0; i < shown_files(object); i++) {
        json_t *file = json_array_get(files, i);
        char path[SCRATCH_PATH_MAX + 8], size[FILE_SIZE_TEXT_MAX], line[3 * LINE_SIZE], reason[256];
        const char *uri = string_at(file, "uri"), *url = string_at(file, "url"),
                   *why = string_at(json_object_get(file, "error"), "message"),
                   *saved = string_at(file, "saved"), *unsaved = string_at(file, "save_error");
        file_describe_size((uint64_t)json_integer_value(json_object_get(file, "size")), size);
        int n = snprintf(line, sizeof line, "- %s (%s): %s%s%s%s%s%s\n",
                         fit(string_at(file, "path"), path, sizeof path), size,
                         saved     ? "saved on the user's disk as "
                         : unsaved ? "could not be saved on the user's disk: "
                                   : "",
                         saved     ? saved
                         : unsaved ? unsaved
                                   : "",
                         saved || unsaved ? "; " : "",
                         url   ? url
                         : uri ? uri
                               : "not kept",
                         !why  ? ""
                         : uri ? ", has no link: "
                               : ": ",
                         why ? fit(why, reason, sizeof reason) : "");
        if (n < 0 || (size_t)n >= sizeof line || (size_t)n > room)
            break;
        room -= (size_t)n;
        fputs(line, f);
        said++;
    }
    if (said < count)
        fprintf(f, "- and %zu more: see list_files\n", count - said);
    if (more > 0)
        fprintf(f, "- and %" JSON_INTEGER_FORMAT " that were not kept\n", more);
    const char *why = string_at(object, "files_error");
    char text[512];
    if (why)
        fprintf(f, "- not all could be kept: %s\n", fit(why, text, sizeof text));
}

json_t *answer_state_links(json_t *object)
{
    json_t *links = json_array(), *files = json_object_get(object, "files");
    int failed = !links;
    for (size_t i = 0; i < shown_files(object); i++) {
        json_t *file = json_array_get(files, i), *size = json_object_get(file, "size");
        const char *uri = string_at(file, "uri"), *path = string_at(file, "path");
        const char *type = string_at(file, "mime_type");
        if (!uri || !path)
            continue;
        const char *slash = strrchr(path, '/');
        json_t *link =
            tool_link(uri, slash ? slash + 1 : path, type ? type : "application/octet-stream",
                      json_is_integer(size) ? json_integer_value(size) : -1);
        if (link)
            failed |= json_object_set_new(link, "title", json_string(path));
        failed |= json_array_append_new(links, link);
    }
    return json_whole(links, failed);
}

// ---- variables ----------------------------------------------------------------------------------

// " (1000, 12)", " of 3", or nothing.
static void describe_extent(json_t *variable, char *buf, size_t cap)
{
    json_t *shape = json_object_get(variable, "shape"),
           *length = json_object_get(variable, "length");
    size_t count = json_array_size(shape), at = 0;
    buf[0] = '\0';
    if (json_is_integer(length))
        snprintf(buf, cap, " of %" JSON_INTEGER_FORMAT, json_integer_value(length));
    if (!json_is_array(shape) || count > DIMENSIONS_MAX)
        return;
    for (size_t i = 0; i < count && at < cap; i++)
        at += (size_t)snprintf(buf + at, cap - at, "%s%" JSON_INTEGER_FORMAT, i ? ", " : " (",
                               json_integer_value(json_array_get(shape, i)));
    if (at < cap)
        snprintf(buf + at, cap - at, "%s", count == 0 ? " ()" : count == 1 ? ",)" : ")");
}

static void write_variables(FILE *f, json_t *object, size_t room)
{
    json_t *list = json_object_get(object, "variables");
    size_t count = json_array_size(list), said = 0;
    json_int_t more = json_integer_value(json_object_get(object, "variables_omitted"));
    if (count == 0)
        return;
    fputs("variables: ", f);
    for (; said < count; said++) {
        json_t *v = json_array_get(list, said);
        char name[NAME_MAX_BYTES + 8], type[NAME_MAX_BYTES + 8], extent[192];
        char item[sizeof name + sizeof type + sizeof extent + 32];
        const char *change = string_at(v, "change"), *kind = string_at(v, "type");
        const char *dot = kind ? strrchr(kind, '.') : NULL; // without its module
        if (dot && dot[1])
            kind = dot + 1;
        bool gone = change && strcmp(change, "removed") == 0;
        describe_extent(v, extent, sizeof extent);
        int n = snprintf(item, sizeof item, "%s%s%s%s%s %s", said ? "; " : "",
                         fit(string_at(v, "name"), name, sizeof name), gone || !kind ? "" : " ",
                         gone || !kind ? "" : fit(kind, type, sizeof type), gone ? "" : extent,
                         change ? change : "changed");
        if (n < 0 || ((size_t)n > room && said))
            break;
        room -= (size_t)n < room ? (size_t)n : room;
        fputs(item, f);
    }
    more += (json_int_t)(count - said);
    if (more > 0)
        fprintf(f, "; %" JSON_INTEGER_FORMAT " more", more);
    fputc('\n', f);
}

// ---- checkpoints --------------------------------------------------------------------------------

static void write_checkpoint(FILE *f, json_t *object)
{
    json_t *checkpoint = json_object_get(object, "checkpoint");
    const char *state = string_at(checkpoint, "state"), *name = string_at(checkpoint, "name");
    json_t *left = json_object_get(checkpoint, "available");
    char text[512], label[NAME_MAX_BYTES + 8];
    if (!state)
        return;
    if (strcmp(state, "unavailable") == 0) {
        static const char lead[] = "checkpoint unavailable: ";
        const char *reason = fit(string_at(checkpoint, "reason"), text, sizeof text);
        bool has_lead = reason && strncmp(reason, lead, sizeof lead - 1) == 0; // already there
        fprintf(f, "%s%s\n", has_lead ? "" : lead, reason);
        return;
    }
    bool restored = strcmp(state, "restored") == 0;
    fprintf(f, "checkpoint%s%s%s %s%s", name ? " '" : "",
            name ? fit(name, label, sizeof label) : "", name ? "'" : "",
            restored ? "restored" : "made",
            restored ? ": variables and files are as they were then" : "");
    // A checkpoint that was just named is a state to restore, though no run has followed it.
    json_int_t count = json_integer_value(left);
    if (json_is_integer(left) && (count > 0 || !name || restored))
        fprintf(f, "; %" JSON_INTEGER_FORMAT " to go back to", count);
    fputc('\n', f);
}

static void write_fork(FILE *f, json_t *object)
{
    const char *fork = string_at(object, "fork");
    if (fork)
        fprintf(f,
                "forked: session '%s' is an independent copy with the same variables and files\n",
                fork);
}

// ---- denials ------------------------------------------------------------------------------------

// Does the error say of this host already that the network is off?
static bool is_told(json_t *object, json_t *event)
{
    const char *message = string_at(json_object_get(object, "error"), "message"),
               *reason = string_at(event, "reason"), *host = string_at(event, "host");
    return message && reason && host && strcmp(reason, "network_off") == 0 && strstr(message, host);
}

static void write_denials(FILE *f, json_t *object, size_t room)
{
    json_t *events = json_object_get(object, "security_events");
    size_t count = json_array_size(events), said = 0;
    json_int_t more = json_integer_value(json_object_get(object, "security_events_omitted"));
    const char *told = string_at(object, "hint");
    for (; said < count; said++) {
        json_t *event = json_array_get(events, said);
        char what[LINE_SIZE / 2], line[LINE_SIZE];
        events_describe(event, what, sizeof what);
        int n = snprintf(line, sizeof line, "refused: %s", what);
        if (told && (strstr(told, what) || is_told(object, event)))
            continue;
        if (n < 0 || ((size_t)n > room && said))
            break;
        room -= (size_t)n < room ? (size_t)n : room;
        fprintf(f, "%s\n", line);
    }
    more += (json_int_t)(count - said);
    if (more > 0)
        fprintf(f, "refused: %" JSON_INTEGER_FORMAT " more: see security_events\n", more);
    const char *why = string_at(object, "network_error");
    if (why)
        fprintf(f, "network: %s\n", why);
}

// ---- all of it ----------------------------------------------------------------------------------

void answer_state_body(FILE *f, const struct answer_options *options, json_t *object)
{
    size_t room = options->budget / 10;
    write_denials(f, object, 2 * room);
    write_files(f, object, room);
    if (string_at(object, "session")) // only a session has them again
        write_variables(f, object, room < VARIABLES_BYTES ? room : VARIABLES_BYTES);
    write_checkpoint(f, object);
    write_fork(f, object);
}
