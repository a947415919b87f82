// SPDX-License-Identifier: Apache-2.0
//
// prompts: see prompts.h.  Called by the dispatch.  To add a prompt, add a row to the table and the
// function that writes its text.

#include "mcp/tools/prompts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "mcp/tools/resources.h"
#include "mcp/tools/tools.h"

enum {
    ARGUMENTS_MAX = 4,
    SHORT_MAX = 4000,   // bytes of a question or a name
    LONG_MAX = 200000,  // bytes of code or data
    COMPLETE_MAX = 100, // values in one answer: the protocol's limit
    PREFIX_MAX = 2048,
    SHOWN_MAX = 65,
};

struct argument {
    const char *name, *title, *description;
    bool required, strict;     // strict: must be one of `values`
    size_t max;                // bytes
    const char *const *values; // suggestions, best first; ends with NULL
};

struct prompt {
    const char *name, *title, *description;
    struct argument arguments[ARGUMENTS_MAX]; // ends with a row without a name
    // Writes the text; values are in the order of the arguments, NULL when not given.
    void (*write)(FILE *out, const char *const values[ARGUMENTS_MAX]);
    const char *set; // only there when that tool set is on; NULL: with our own sets
};

// ---- texts --------------------------------------------------------------------------------------

// Foreign text in a fence longer than any that it contains.
static void write_block(FILE *out, const char *language, const char *text)
{
    int longest = 2, run = 0;
    for (const char *p = text; *p; p++) {
        run = *p == '`' ? run + 1 : 0;
        if (run > longest)
            longest = run;
    }
    size_t length = strlen(text);
    for (int i = 0; i <= longest; i++)
        fputc('`', out);
    fprintf(out, "%s\n%s%s", language, text, length && text[length - 1] == '\n' ? "" : "\n");
    for (int i = 0; i <= longest; i++)
        fputc('`', out);
    fputc('\n', out);
}

static const char how_boxes_work[] =
    "How the box works:\n"
    "- `execute_python` with `session` (choose a name, such as \"analysis\") keeps "
    "variables, imports and files between calls, as a notebook does: load once, then work in "
    "small steps. Without `session` each call is a fresh interpreter. If an answer says that "
    "the session was lost, load again.\n"
    "- The working folder is /mnt/data; `write_file` puts files there, `list_files` and "
    "`read_file` show them. There is no network unless the description of `execute_python` names "
    "hosts: bring other data in with `write_file`, with `files` or `variables` of "
    "`execute_python`, or in "
    "the code itself.\n"
    "- The value of the last expression and all output come back; figures and "
    "`display(value)` come back as images and tables. Print few rows, not whole tables.\n"
    "- Files that the code writes to /mnt/data (`to_csv`, `to_excel`, `savefig`) come back "
    "as links; give those to the person.\n"
    "- For work of more than 50 seconds, pass `background=true` and fetch the result with "
    "`check_run`.\n"
    "- When a library is missing, `install_package` adds it; an error says which.\n";

static void write_analyze(FILE *out, const char *const values[ARGUMENTS_MAX])
{
    const char *data = values[0], *question = values[1],
               *depth = values[2] ? values[2] : "standard";
    bool quick = strcmp(depth, "quick") == 0, thorough = strcmp(depth, "thorough") == 0;
    fprintf(out,
            "Analyse data with Python and answer from what the code shows, not from memory.\n\n"
            "The data (a file in the box, a description, or the data itself):\n");
    write_block(out, "", data);
    fprintf(out, "\nThe question: %s\n\n",
            question ? question : "what is in this data, and what is remarkable about it?");
    fprintf(out, "%s\nProceed like this:\n", how_boxes_work);
    fprintf(out,
            "1. Look first: format, columns, types, number of rows, missing and duplicate values, "
            "a few rows. Do not assume names or units; if the data cannot be found, say so and "
            "show how it can be supplied.\n");
    if (quick) {
        fprintf(out, "2. Compute just what answers the question, in one or two calls.\n");
    } else {
        fprintf(out,
                "2. Clean only what the question needs, and count what each step removes or "
                "changes.\n"
                "3. Compute the answer. Check it a second way: totals that must agree, another "
                "grouping, or a small case by hand.\n");
    }
    if (thorough)
        fprintf(
            out,
            "4. Test how firm the answer is: outliers, subgroups that point the other way, sample "
            "sizes, confidence intervals or a suitable test with its assumptions checked.\n"
            "5. Draw the one or two charts that carry the finding, with labelled axes, and write "
            "the "
            "table behind them to a file.\n");
    fprintf(
        out,
        "\nFinish with: the answer in one or two sentences; the numbers behind it; what was done "
        "to the data; what the data cannot tell. If a call fails, read its error, change the "
        "code and try again rather than guessing.\n");
}

static void write_plot(FILE *out, const char *const values[ARGUMENTS_MAX])
{
    const char *data = values[0], *chart = values[1], *style = values[2];
    fprintf(
        out,
        "Draw a chart with Python that shows one thing clearly.\n\nThe data (a file in the box, a "
        "description, or the data itself):\n");
    write_block(out, "", data);
    if (chart)
        fprintf(out,
                "\nKind of chart: %s. If the data does not suit it, say why and draw the nearest "
                "one that does.\n",
                chart);
    else
        fprintf(out,
                "\nChoose the kind of chart that fits: change over time as a line, comparison as "
                "sorted bars, distribution as a histogram or box plot, relation as a scatter "
                "plot.\n");
    if (style)
        fprintf(out, "Style: %s\n", style);
    fprintf(out, "\n%s\nProceed like this:\n", how_boxes_work);
    fprintf(
        out,
        "1. Load the data and look at columns, types and ranges before drawing.\n"
        "2. Use matplotlib if it is installed; no backend has to be chosen. If it is not, make an "
        "SVG by hand, at most 15,000 characters, and print it.\n"
        "3. Title that states the finding, axes with names and units, a legend only for more than "
        "one series, colours that also work for colour-blind readers, no overlapping labels.\n"
        "4. End with `plt.show()`: the figure comes back as an image. Save it with `savefig` only "
        "if "
        "the person wants the file, which then comes back as a link. Also print the few numbers "
        "that "
        "the chart shows, so that they can be checked.\n"
        "5. Look at the image. Correct what is cut off or unreadable and run again.\n");
    fprintf(out,
            "\nFinish with one sentence on what the chart shows, and the code that made it.\n");
}

static void write_fix(FILE *out, const char *const values[ARGUMENTS_MAX])
{
    const char *code = values[0], *error = values[1], *version = values[2];
    fprintf(
        out,
        "This Python code does not work. Find the cause, fix it, and show that it is fixed.\n\n");
    write_block(out, "python", code);
    if (error) {
        fprintf(out, "\nWhat goes wrong:\n");
        write_block(out, "", error);
    }
    if (version)
        fprintf(out,
                "\nIt has to work with Python %s. The box may run another version: compare with "
                "`sys.version`, and avoid what the older of the two does not have.\n",
                version);
    fprintf(out, "\n%s\nProceed like this:\n", how_boxes_work);
    fprintf(
        out,
        "1. Reproduce first: run the code as it is with `execute_python`. Read the error from its "
        "last line upwards. If it needs input, files or a network that the box does not have, "
        "replace them by the smallest substitute and say so.\n"
        "2. Name the cause in one sentence before changing anything. If it is not clear, add "
        "prints or "
        "assertions and run again.\n"
        "3. Change as little as possible, and nothing that is not part of the fault. Do not hide "
        "an "
        "error behind a bare `except`.\n"
        "4. Run the corrected code, then the cases near the fault: empty input, one element, the "
        "largest, wrong types.\n");
    fprintf(
        out,
        "\nFinish with: the cause, the corrected code in full, what was run to check it and its "
        "output, and anything else that looks wrong but was left alone.\n");
}

// The prompt of the tool set 'kernels'.
static void write_task(FILE *out, const char *const values[ARGUMENTS_MAX])
{
    static const struct {
        const char *name, *text;
    } styles[] = {
        {"clean", "Write clear code that is easy to read: good names, short functions, one thing a "
                  "line."},
        {"verbose", "Write detailed code: say what each step is for, name intermediate values, and "
                    "print what happens on the way."},
        {"minimal", "Write as little code as does it, and say nothing beside it."},
    };
    const char *style = values[1] ? values[1] : styles[0].name;
    bool comments = !values[2] || strcasecmp(values[2], "true") == 0;
    fprintf(out, "Write Python code for this task, and run it with `execute_python_code`:\n\n");
    write_block(out, "", values[0]);
    for (size_t i = 0; i < ARRAY_LEN(styles); i++)
        if (strcmp(styles[i].name, style) == 0)
            fprintf(out, "\n%s", styles[i].text);
    fprintf(out, comments ? " Explain the logic in comments.\n" : " Leave comments out.\n");
    fprintf(out,
            "\nIt runs in an isolated box with a working folder, /mnt/data; figures come back as "
            "images on `plt.show()`. With `session_id` variables stay from call to call. If a run "
            "fails, fix the code and run it again; finish with the result.\n");
}

// The prompt of the tool set 'containers'.
static void write_containers(FILE *out, const char *const values[ARGUMENTS_MAX])
{
    fprintf(
        out,
        "You can run Python code in an isolated container. Work like this:\n\n"
        "1. Call `create_python_env`. It returns a `container_id`, which all other tools need.\n"
        "2. For packages that are not there, call `install_package_in_env` with `container_id` and "
        "`package_name`, such as numpy or pandas. It goes on by itself and answers with its "
        "status.\n"
        "3. Call `check_package_status` with `container_id` and `package_name` until the status is "
        "no longer `installing`.\n"
        "4. Call `execute_python_code` with `container_id` and `code`. It returns output, errors "
        "and links to the files that the code made.\n\n"
        "Every call is a new interpreter: packages and files stay, variables do not, so send "
        "complete code. Files that the code saves in its working folder come back as download "
        "links: save figures with `plt.savefig()`, do not call `plt.show()`, and save tables with "
        "`df.to_csv()` or `df.to_excel()`. Give the person these links with your answer.\n");
    if (values[0]) {
        fprintf(out, "\nThe task:\n\n");
        write_block(out, "", values[0]);
    }
}

// ---- the table ----------------------------------------------------------------------------------

static const char *const code_styles[] = {"clean", "verbose", "minimal", NULL};
static const char *const yes_or_no[] = {"true", "false", NULL};
static const char *const depths[] = {"standard", "quick", "thorough", NULL};
static const char *const charts[] = {
    "line", "bar", "stacked bar", "histogram", "scatter",    "box plot", "heatmap",
    "area", "pie", "violin",      "density",   "error bars", NULL};
static const char *const styles[] = {
    "plain", "publication", "presentation", "dark background", "black and white", "minimal", NULL};
static const char *const versions[] = {"3.14", "3.13", "3.12", "3.11", "3.10", "3.9", NULL};
static const char *const questions[] = {
    "what are the main trends?",        "which values are outliers, and why?",
    "what is missing or inconsistent?", "which columns are related to each other?",
    "how do the groups differ?",        NULL};
static const char *const folders[] = {"/mnt/data/", NULL};

static const struct prompt prompts[] = {
    {"analyze_data",
     "Analyse data",
     "Answer a question about data by running Python: look, clean, compute, check, report.",
     {{"data", "Data", "A file such as /mnt/data/sales.csv, a description, or the data itself",
       true, false, LONG_MAX, folders},
      {"question", "Question", "What to find out; without it: what is remarkable", false, false,
       SHORT_MAX, questions},
      {"depth", "Depth", "quick, standard (the default) or thorough", false, true, SHORT_MAX,
       depths}},
     write_analyze,
     NULL},
    {"plot_data",
     "Plot data",
     "Draw one clear chart from data with Python, look at it, and correct it.",
     {{"data", "Data", "A file such as /mnt/data/sales.csv, a description, or the data itself",
       true, false, LONG_MAX, folders},
      {"chart", "Chart", "Kind of chart, such as line or bar; without it: whatever fits", false,
       false, SHORT_MAX, charts},
      {"style", "Style", "How it should look, such as publication or presentation", false, false,
       SHORT_MAX, styles}},
     write_plot,
     NULL},
    {"fix_code",
     "Fix failing code",
     "Find out why a piece of Python fails, correct it, and show by running it that it works.",
     {{"code", "Code", "The code that fails", true, false, LONG_MAX, NULL},
      {"error", "Error", "Its error message or what is wrong with its result", false, false,
       LONG_MAX, NULL},
      {"python_version", "Python version", "Version that it has to work with, such as 3.11", false,
       false, 64, versions}},
     write_fix,
     NULL},
    {.name = "code_execution_prompt",
     .title = "Write and run code",
     .description = "Write Python for a task in a given style, and run it in a session.",
     .arguments = {{"task_description", "Task", "What the code has to do", true, false, LONG_MAX,
                    NULL},
                   {"code_style", "Style", "clean (the default), verbose or minimal", false, true,
                    SHORT_MAX, code_styles},
                   {"include_comments", "Comments",
                    "Whether it has comments: true (the default) or false", false, false, 16,
                    yes_or_no}},
     .write = write_task,
     .set = "kernels"},
    {.name = "python_container",
     .title = "Work in a container",
     .description =
         "How to run Python in a container: create, install, run, and give out links to files.",
     .arguments = {{"task", "Task", "What is to be done there", false, false, LONG_MAX, NULL}},
     .write = write_containers,
     .set = "containers"},
};

static bool is_offered(const struct mcp *m, const struct prompt *p)
{
    return p->set ? mcp_tool_set_is_on(m, p->set) : mcp_has_tool(m, "check_run");
}

static const struct prompt *find(const struct mcp *m, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(prompts); i++)
        if (strcmp(prompts[i].name, name) == 0 && is_offered(m, &prompts[i]))
            return &prompts[i];
    return NULL;
}

// ---- prompts/list -------------------------------------------------------------------------------

static json_t *argument_json(const struct argument *a)
{
    return json_pack("{s:s, s:s, s:s, s:b}", "name", a->name, "title", a->title, "description",
                     a->description, "required", a->required);
}

static json_t *prompt_json(const struct prompt *p)
{
    json_t *arguments = json_array();
    for (const struct argument *a = p->arguments; a < p->arguments + ARGUMENTS_MAX && a->name; a++)
        (void)json_array_append_new(arguments, argument_json(a));
    return json_pack("{s:s, s:s, s:s, s:o}", "name", p->name, "title", p->title, "description",
                     p->description, "arguments", arguments);
}

static void drop_titles(json_t *row)
{
    size_t i;
    json_t *argument;
    (void)json_object_del(row, "title");
    json_array_foreach (json_object_get(row, "arguments"), i, argument)
        (void)json_object_del(argument, "title");
}

static json_t *all_rows(const struct mcp_call *c)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < ARRAY_LEN(prompts); i++)
        if (is_offered(c->mcp, &prompts[i]))
            (void)json_array_append_new(rows, prompt_json(&prompts[i]));
    const struct tool_set *set;
    for (size_t i = 0; (set = mcp_tool_set(c->mcp, i)); i++)
        if (set->prompts)
            tool_set_append(rows, set->prompts(c));
    return rows;
}

void mcp_handle_prompts_list(struct mcp_call *c)
{
    size_t first, i;
    if (mcp_page_begin(c, "prompts", &first) < 0)
        return;
    json_t *rows = all_rows(c), *page = json_array();
    size_t total = json_array_size(rows);
    for (i = first; i < total && i < first + MCP_PAGE; i++) {
        json_t *row = json_array_get(rows, i);
        if (c->version < MCP_2025_06_18)
            drop_titles(row);
        (void)json_array_append(page, row);
    }
    json_t *result = json_pack("{s:o}", "prompts", page);
    mcp_page_next(c, "prompts", result, i, total);
    json_decref(rows);
    mcp_answer(c, result);
}

// ---- prompts/get --------------------------------------------------------------------------------

static bool is_one_of(const char *const *values, const char *text)
{
    for (; values && *values; values++)
        if (strcmp(*values, text) == 0)
            return true;
    return false;
}

// Foreign text for a message: short, cut between characters.
static const char *show(const char *text, char buf[SHOWN_MAX])
{
    snprintf(buf, SHOWN_MAX, "%.64s", text);
    text_sanitize(buf);
    return buf;
}

// "a, b or c"
static void join(const char *const *values, char *buf, size_t cap)
{
    size_t at = 0;
    buf[0] = '\0';
    for (const char *const *v = values; v && *v && at < cap; v++) {
        const char *between = v == values ? "" : v[1] ? ", " : " or ";
        int n = snprintf(buf + at, cap - at, "%s'%s'", between, *v);
        at += n < 0 ? 0 : (size_t)n;
    }
}

// Reads one argument into `ret` (NULL: not given).  0, or -1: the call was failed.
static int read_argument(struct mcp_call *c, const struct prompt *p, const struct argument *a,
                         json_t *arguments, const char **ret)
{
    json_t *value = json_object_get(arguments, a->name);
    const char *text = json_string_value(value);
    char allowed[256], shown[SHOWN_MAX];
    *ret = NULL;
    if (value && !text) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL, "argument '%s' of prompt '%s' must be a text",
                 a->name, p->name);
        return -1;
    }
    if (!text || !*text) {
        if (!a->required)
            return 0;
        mcp_fail(c, MCP_INVALID_PARAMS, NULL, "prompt '%s' needs the argument '%s': %s", p->name,
                 a->name, a->description);
        return -1;
    }
    // A NUL would truncate the text.
    if (json_string_length(value) > a->max || strlen(text) != json_string_length(value)) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL,
                 "argument '%s' of prompt '%s' must be at most %zu bytes, without NUL", a->name,
                 p->name, a->max);
        return -1;
    }
    if (a->strict && !is_one_of(a->values, text)) {
        join(a->values, allowed, sizeof allowed);
        mcp_fail(c, MCP_INVALID_PARAMS, NULL, "argument '%s' of prompt '%s' must be %s, not '%s'",
                 a->name, p->name, allowed, show(text, shown));
        return -1;
    }
    *ret = text;
    return 0;
}

static void answer(struct mcp_call *c, const struct prompt *p,
                   const char *const values[ARGUMENTS_MAX])
{
    _cleanup_free_ char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out)
        p->write(out, values);
    bool good = out && !ferror(out);
    if (out && fclose(out) != 0)
        good = false;
    mcp_answer(c,
               good ? json_pack("{s:s, s:[{s:s, s:{s:s, s:s}}]}", "description", p->description,
                                "messages", "role", "user", "content", "type", "text", "text", text)
                    : NULL);
}

static void fail_unknown(struct mcp_call *c, const char *name)
{
    char known[256], shown[SHOWN_MAX];
    const char *names[ARRAY_LEN(prompts) + 1] = {NULL};
    for (size_t i = 0, n = 0; i < ARRAY_LEN(prompts); i++)
        if (is_offered(c->mcp, &prompts[i]))
            names[n++] = prompts[i].name;
    join(names, known, sizeof known);
    mcp_fail(c, MCP_INVALID_PARAMS, NULL, "there is no prompt '%s'; there are %s",
             show(name, shown), known);
}

void mcp_handle_prompts_get(struct mcp_call *c)
{
    const char *values[ARGUMENTS_MAX] = {NULL};
    const char *name = json_string_value(json_object_get(c->request.params, "name"));
    json_t *arguments = json_object_get(c->request.params, "arguments");
    if (!name) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL, "'name' is missing or not a text");
        return;
    }
    if (arguments && !json_is_null(arguments) && !json_is_object(arguments)) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL, "'arguments' must be an object of texts");
        return;
    }
    const struct tool_set *set;
    for (size_t i = 0; (set = mcp_tool_set(c->mcp, i)); i++)
        if (set->prompt_get && set->prompt_get(c, name, arguments))
            return;
    const struct prompt *p = find(c->mcp, name);
    if (!p) {
        fail_unknown(c, name);
        return;
    }
    for (int i = 0; i < ARGUMENTS_MAX && p->arguments[i].name; i++)
        if (read_argument(c, p, &p->arguments[i], arguments, &values[i]) < 0)
            return;
    answer(c, p, values);
}

// ---- completion/complete ------------------------------------------------------------------------

// The suggestions with this prefix, ignoring case.
static json_t *matching(const char *const *values, const char *prefix)
{
    json_t *found = json_array();
    size_t length = strlen(prefix);
    for (; values && *values; values++)
        if (strncasecmp(*values, prefix, length) == 0)
            (void)json_array_append_new(found, json_string(*values));
    return found;
}

// NULL: the call was failed.
static json_t *complete_prompt(struct mcp_call *c, const char *name, const char *argument,
                               const char *prefix)
{
    char shown[SHOWN_MAX];
    const struct tool_set *set;
    for (size_t i = 0; (set = mcp_tool_set(c->mcp, i)); i++) {
        json_t *found = set->prompt_complete ? set->prompt_complete(name, argument, prefix) : NULL;
        if (found)
            return found;
    }
    const struct prompt *p = find(c->mcp, name);
    if (!p) {
        fail_unknown(c, name);
        return NULL;
    }
    for (const struct argument *a = p->arguments; a < p->arguments + ARGUMENTS_MAX && a->name; a++)
        if (strcmp(a->name, argument) == 0)
            return matching(a->values, prefix);
    mcp_fail(c, MCP_INVALID_PARAMS, NULL, "prompt '%s' has no argument '%s'", p->name,
             show(argument, shown));
    return NULL;
}

static json_t *complete_resource(struct mcp_call *c, const char *uri, const char *variable,
                                 const char *prefix)
{
    char template[SHOWN_MAX], name[SHOWN_MAX];
    json_t *known = json_object_get(json_object_get(c->request.params, "context"), "arguments");
    json_t *found = mcp_resource_complete(c->mcp, c->owner, uri, variable, prefix, known);
    if (!found)
        mcp_fail(c, MCP_INVALID_PARAMS, NULL,
                 "there is no resource template '%s' with a variable '%s'", show(uri, template),
                 show(variable, name));
    return found;
}

static void answer_values(struct mcp_call *c, json_t *found)
{
    size_t total = json_array_size(found);
    json_t *values = json_array();
    for (size_t i = 0; i < total && i < COMPLETE_MAX; i++)
        (void)json_array_append(values, json_array_get(found, i));
    json_decref(found);
    mcp_answer(c, json_pack("{s:{s:o, s:I, s:b}}", "completion", "values", values, "total",
                            (json_int_t)total, "hasMore", total > COMPLETE_MAX));
}

void mcp_handle_complete(struct mcp_call *c)
{
    json_t *ref = json_object_get(c->request.params, "ref");
    json_t *argument = json_object_get(c->request.params, "argument");
    const char *type = json_string_value(json_object_get(ref, "type"));
    const char *name = json_string_value(json_object_get(argument, "name"));
    json_t *value = json_object_get(argument, "value");
    if (!name || !json_is_string(value) || json_string_length(value) > PREFIX_MAX) {
        mcp_fail(
            c, MCP_INVALID_PARAMS, NULL,
            "'argument' must be {\"name\": ..., \"value\": ...}, two texts, the value at most %d "
            "bytes",
            PREFIX_MAX);
        return;
    }
    bool prompt = type && strcmp(type, "ref/prompt") == 0;
    bool resource = type && strcmp(type, "ref/resource") == 0;
    const char *of = json_string_value(json_object_get(ref, prompt ? "name" : "uri"));
    if ((!prompt && !resource) || !of) {
        mcp_fail(c, MCP_INVALID_PARAMS, NULL,
                 "'ref' must be {\"type\": \"ref/prompt\", \"name\": ...} or {\"type\": "
                 "\"ref/resource\", \"uri\": ...}");
        return;
    }
    json_t *found = prompt ? complete_prompt(c, of, name, json_string_value(value))
                           : complete_resource(c, of, name, json_string_value(value));
    if (found)
        answer_values(c, found);
}
