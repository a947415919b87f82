// SPDX-License-Identifier: Apache-2.0
//
// client_config: `constrictor client-config NAME`: the settings that add this server to an MCP
// client.  They go to stdout, and the file they belong in to stderr, so that the output can be
// redirected into a file.  With --write they are merged into the client's own file.

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/client_config.h"
#include "cli/client_file.h"
#include "cli/client_merge.h"

// clang-format off
const struct client clients[] = {
    {.name = "claude", .title = "Claude Desktop and Claude Code",
     .servers = "mcpServers", .url = "url", .http_typed = true, .type_http = "http",
     .key = "Bearer ${CONSTRICTOR_API_KEY}",
     .user_file = ".config/Claude/claude_desktop_config.json",
     .file = "~/.config/Claude/claude_desktop_config.json (macOS: ~/Library/Application "
             "Support/Claude/), or .mcp.json of a project for Claude Code",
     .file_http = ".mcp.json of a project (Claude Code); Claude Desktop takes the address under "
                  "Settings, Connectors"},
    {.name = "vscode", .title = "Visual Studio Code",
     .servers = "servers", .url = "url", .typed = true, .type_http = "http",
     .key = "Bearer ${env:CONSTRICTOR_API_KEY}",
     .user_file = ".config/Code/User/mcp.json",
     .file = ".vscode/mcp.json of a project, or the command 'MCP: Open User Configuration'"},
    {.name = "cursor", .title = "Cursor",
     .servers = "mcpServers", .url = "url", .key = "Bearer ${env:CONSTRICTOR_API_KEY}",
     .user_file = ".cursor/mcp.json",
     .file = "~/.cursor/mcp.json, or .cursor/mcp.json of a project"},
    {.name = "gemini", .title = "Gemini CLI",
     .servers = "mcpServers", .url = "httpUrl", .key = "Bearer ${CONSTRICTOR_API_KEY}",
     .user_file = ".gemini/settings.json",
     .file = "~/.gemini/settings.json, or .gemini/settings.json of a project"},
    {.name = "lmstudio", .title = "LM Studio",
     .servers = "mcpServers", .url = "url", .key = "Bearer <the key>",
     .user_file = ".lmstudio/mcp.json",
     .file = "~/.lmstudio/mcp.json (Program, Install, Edit mcp.json)"},
    {.name = "windsurf", .title = "Windsurf",
     .servers = "mcpServers", .url = "serverUrl", .key = "Bearer ${env:CONSTRICTOR_API_KEY}",
     .user_file = ".codeium/windsurf/mcp_config.json",
     .file = "~/.codeium/windsurf/mcp_config.json"},
    {.name = "zed", .title = "Zed",
     .servers = "context_servers", .url = "url", .key = "Bearer <the key>",
     .user_file = ".config/zed/settings.json",
     .file = "~/.config/zed/settings.json, or .zed/settings.json of a project"},
    {.name = "opencode", .title = "OpenCode",
     .servers = "mcp", .url = "url", .typed = true, .type_http = "remote", .type_stdio = "local",
     .joins = true, .key = "Bearer {env:CONSTRICTOR_API_KEY}",
     .user_file = ".config/opencode/opencode.json",
     .file = "~/.config/opencode/opencode.json, or opencode.json of a project"},
    {.name = NULL},
};

// clang-format on

json_t *client_snippet(const struct client *client, const json_t *command, const char *url,
                       bool with_key)
{
    json_t *server = json_object();
    if (client->typed || (url && client->http_typed))
        (void)json_object_set_new(server, "type",
                                  json_string(url                  ? client->type_http
                                              : client->type_stdio ? client->type_stdio
                                                                   : "stdio"));
    if (url) {
        (void)json_object_set_new(server, client->url, json_string(url));
        if (with_key)
            (void)json_object_set_new(server, "headers",
                                      json_pack("{s:s}", "Authorization", client->key));
    } else if (client->joins) {
        (void)json_object_set_new(server, "command", json_copy((json_t *)command));
    } else {
        json_t *args = json_copy((json_t *)command);
        (void)json_array_remove(args, 0);
        (void)json_object_set(server, "command", json_array_get(command, 0));
        (void)json_object_set_new(server, "args", args);
    }
    return json_pack("{s:{s:o}}", client->servers, "constrictor", server);
}

// ---- clients whose settings are no JSON ---------------------------------------------------------

// What the settings say: the program with its arguments, or an address.
struct target {
    json_t *command;
    const char *url; // NULL: the client starts the command
    bool with_key;
};

// SECURITY: the text stands between quotes in a file.  JSON's form is TOML's and YAML's as well: no
// text has the control character 127, the only one that JSON leaves as it is.
static void put_quoted(FILE *out, const json_t *value)
{
    (void)json_dumpf(value, out, JSON_ENCODE_ANY);
}

static void put_args(FILE *out, const json_t *command)
{
    fputs("[", out);
    for (size_t i = 1; i < json_array_size(command); i++) {
        fputs(i > 1 ? ", " : "", out);
        put_quoted(out, json_array_get(command, i));
    }
    fputs("]\n", out);
}

static void put_codex(FILE *out, const struct target *t)
{
    fputs("[mcp_servers.constrictor]\n", out);
    if (t->url) {
        fprintf(out, "url = \"%s\"\n", t->url);
        fputs(t->with_key ? "bearer_token_env_var = \"CONSTRICTOR_API_KEY\"\n" : "", out);
        return;
    }
    fputs("command = ", out);
    put_quoted(out, json_array_get(t->command, 0));
    fputs("\nargs = ", out);
    put_args(out, t->command);
}

static void put_goose(FILE *out, const struct target *t)
{
    fprintf(out,
            "extensions:\n  constrictor:\n    enabled: true\n    type: %s\n"
            "    name: constrictor\n    timeout: 300\n",
            t->url ? "streamable_http" : "stdio");
    if (t->url) {
        fprintf(out, "    uri: \"%s\"\n", t->url);
        fputs(t->with_key ? "    headers:\n      Authorization: \"Bearer ${CONSTRICTOR_API_KEY}\"\n"
                          : "",
              out);
        return;
    }
    fputs("    cmd: ", out);
    put_quoted(out, json_array_get(t->command, 0));
    fputs("\n    args: ", out);
    put_args(out, t->command);
}

// One word of a shell.
static void put_word(FILE *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./,:=@+";
    if (word[0] && !word[strspn(word, plain)]) {
        fputs(word, out);
        return;
    }
    putc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            putc(*word, out);
    putc('\'', out);
}

static void put_claude_code(FILE *out, const struct target *t)
{
    fputs(t->url ? "claude mcp add --transport http constrictor" : "claude mcp add constrictor --",
          out);
    for (size_t i = 0; !t->url && i < json_array_size(t->command); i++) {
        putc(' ', out);
        put_word(out, json_string_value(json_array_get(t->command, i)));
    }
    if (t->url)
        fprintf(out, " '%s'%s", t->url,
                t->with_key ? " --header \"Authorization: Bearer $CONSTRICTOR_API_KEY\"" : "");
    putc('\n', out);
}

static const struct text_client {
    const char *name, *title, *file;
    const char *user_file; // of TOML below the home folder; NULL: nothing for --write
    const char *refused;   // why --write does nothing; NULL: the settings are a command
    void (*put)(FILE *out, const struct target *t);
} text_clients[] = {
    {"codex", "Codex", "~/.codex/config.toml", ".codex/config.toml", NULL, put_codex},
    {"goose", "Goose", "~/.config/goose/config.yaml", NULL,
     "the settings of Goose are YAML, which --write does not change", put_goose},
    {"claude-code", "Claude Code", "a terminal: it is a command", NULL, NULL, put_claude_code},
    {.name = NULL},
};

// The absolute path of this program.
static int find_program(char *ret, size_t cap, struct err *e)
{
    ssize_t n = readlink("/proc/self/exe", ret, cap - 1);
    if (n < 0)
        return err_set(e, ERR_SYSTEM, errno, "is /proc mounted?", "find the path of this program");
    ret[n] = '\0';
    return 0;
}

// ---- names --------------------------------------------------------------------------------------

static const char *client_word(size_t i)
{
    static const char *const others[] = {"all", "list", NULL};
    size_t count = 0, texts = 0;
    while (clients[count].name)
        count++;
    while (text_clients[texts].name)
        texts++;
    if (i >= count && i < count + texts)
        return text_clients[i - count].name;
    i -= i >= count ? texts : 0;
    return i < count ? clients[i].name : i - count < ARRAY_LEN(others) ? others[i - count] : NULL;
}

static const struct text_client *find_text(const char *name)
{
    const struct text_client *c = text_clients;
    while (c->name && strcmp(c->name, name) != 0)
        c++;
    return c->name ? c : NULL;
}

static const struct client *find(const char *name)
{
    const struct client *c = clients;
    while (c->name && strcmp(c->name, name) != 0)
        c++;
    return c->name ? c : NULL;
}

static int unknown(const char *name, struct err *e)
{
    char known[256];
    const char *near = cli_nearest(name, client_word);
    cli_list_words(client_word, known, sizeof known);
    int r =
        err_set(e, ERR_USAGE, 0, NULL, "unknown client '%.80s'; known clients: %s", name, known);
    if (near)
        err_hint(e, "did you mean '%s'?", near);
    else
        err_hint(e, "try 'cursor': most clients use its form");
    return r;
}

// SECURITY: a quote would end the text that it stands in, in a file or in a shell.
static int check_url(const char *url, struct err *e)
{
    if (url[0] && strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return err_set(e, ERR_BAD_VALUE, 0, "write it as http://127.0.0.1:8000/mcp",
                       "url '%.200s' does not begin with http:// or https://", url);
    for (const char *p = url; *p; p++)
        if (*p <= ' ' || *p > '~' || strchr("'\"\\$`<>", *p))
            return err_set(e, ERR_BAD_VALUE, 0, "write such a character as %% and its two digits",
                           "url has a character that cannot stand in an address");
    return 0;
}

static void print_list(void)
{
    for (const struct client *c = clients; c->name; c++)
        printf("%-11s %s\n", c->name, c->title);
    for (const struct text_client *c = text_clients; c->name; c++)
        printf("%-11s %s\n", c->name, c->title);
}

static const char *file_of(const struct client *c, bool http)
{
    return http && c->file_http ? c->file_http : c->file;
}

static int print_snippet(json_t *snippet)
{
    struct err e;
    if (snippet && json_dumpf(snippet, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF) {
        json_decref(snippet);
        return cli_finish();
    }
    json_decref(snippet);
    err_set(&e, ERR_SYSTEM, errno, NULL, "print the settings");
    return cli_fail(&e, false);
}

// ---- what the client starts ---------------------------------------------------------------------

static int add_word(json_t *command, const char *word, struct err *e)
{
    json_t *text = json_string(word); // NULL when it is not UTF-8
    if (!text || strchr(word, 127)) {
        json_decref(text);
        return err_set(e, ERR_BAD_VALUE, 0, "settings are UTF-8 text",
                       "'%.80s' cannot stand in the settings of a client", word);
    }
    (void)json_array_append_new(command, text);
    return 0;
}

// The options behind "--", which are for `stdio`.  `stdio` reads them as it will when a client
// starts it, so that a mistake shows now; the other sources of a configuration are not read.
static int check_passed(int argc, char **argv, bool *ret_tools, struct err *e)
{
    static struct config passed;
    config_init_zeroed(&passed);
    if (config_read_flags(&passed, CONFIG_STDIO, &argc, &argv, e) < 0) {
        char *of_this = strstr(e->hint, "'--help-all' lists the options of this command");
        if (of_this)
            snprintf(of_this, sizeof e->hint - (size_t)(of_this - e->hint),
                     "'constrictor stdio --help-all' lists the options");
        return err_wrap(e, "behind '--'");
    }
    if (argc > 0)
        return err_set(e, ERR_USAGE, 0, "behind '--' are options of 'constrictor stdio'",
                       "'stdio' takes no argument, but was given '%.80s'", argv[0]);
    if (passed.help || passed.help_all)
        return err_set(e, ERR_USAGE, 0, "'constrictor stdio --help-all' lists them",
                       "a client would start 'stdio' for its help only");
    *ret_tools = config_is_set(&passed, CONFIG_KEY_tools);
    return 0;
}

// `ret` = [program, "stdio", options...]
static int find_command(const struct config *c, int argc, char **argv, json_t *ret, struct err *e)
{
    char program[PATH_MAX], tools[CONFIG_TEXT_MAX + 1];
    bool passed_tools = false;
    config_format(c, CONFIG_KEY_tools, tools, sizeof tools);
    if (find_program(program, sizeof program, e) < 0 || add_word(ret, program, e) < 0 ||
        add_word(ret, "stdio", e) < 0 || check_passed(argc, argv, &passed_tools, e) < 0)
        return -1;
    if (passed_tools && c->origins[CONFIG_KEY_tools].source == CONFIG_FROM_FLAG)
        return err_set(e, ERR_USAGE, 0, "give it once, behind '--'", "--tools is given twice");
    if (tools[0] && !passed_tools &&
        (add_word(ret, "--tools", e) < 0 || add_word(ret, tools, e) < 0))
        return -1;
    for (int i = 0; i < argc; i++)
        if (add_word(ret, argv[i], e) < 0)
            return -1;
    return 0;
}

// ---- --write ------------------------------------------------------------------------------------

static int find_path(const struct config *c, const char *user_file, char ret[PATH_MAX],
                     struct err *e)
{
    const char *folder = getenv("HOME");
    if (c->client_file[0]) {
        snprintf(ret, PATH_MAX, "%s", c->client_file);
        return 0;
    }
    if (!folder || folder[0] != '/')
        return err_set(e, ERR_USAGE, 0, "name the file with --file",
                       "HOME does not say where the settings of clients are");
    size_t n = strlen(folder);
    while (n > 0 && folder[n - 1] == '/')
        n--;
    if (snprintf(ret, PATH_MAX, "%.*s/%s", (int)n, folder, user_file) < PATH_MAX)
        return 0;
    return err_set(e, ERR_USAGE, 0, "name the file with --file", "the path in HOME is too long");
}

static char *text_of(const struct text_client *text, const struct target *t)
{
    char *ret = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&ret, &n);
    if (!out)
        return NULL;
    text->put(out, t);
    if (fclose(out) == 0)
        return ret;
    free(ret);
    return NULL;
}

// One of `client` and `text` is NULL.
static int merge(const struct client *client, const struct text_client *text,
                 const struct target *t, const struct client_file *f, char **ret, struct err *e)
{
    if (strlen(f->text) != f->length)
        return err_set(e, ERR_BAD_CONFIG_FILE, 0, "nothing was changed", "it has a NUL byte");
    if (client) {
        json_auto_t *snippet = client_snippet(client, t->command, t->url, t->with_key);
        return snippet ? client_merge_json(f->text, f->length, snippet, ret, e) : err_memory(e);
    }
    _cleanup_free_ char *section = text_of(text, t);
    return section ? client_merge_toml(f->text, section, ret, e) : err_memory(e);
}

static void print_written(const char *title, const struct client_file *f, bool same)
{
    if (same) {
        printf("%s: the settings are in %s already; nothing was changed\n", title, f->path);
        return;
    }
    printf("%s: wrote the entry 'constrictor' into %s\n", title, f->path);
    if (f->made_backup)
        printf("the former text is in %s.bak\n", f->path);
    else if (f->exists)
        printf("an earlier backup is in %s.bak\n", f->path);
    printf("start the client again to use it\n");
}

static int write_file(const char *title, const char *path, const struct client *client,
                      const struct text_client *text, const struct target *t, struct err *e)
{
    struct client_file f;
    _cleanup_free_ char *merged = NULL;
    int r = client_file_open(path, &f, e);
    if (r == 0) {
        r = merge(client, text, t, &f, &merged, e);
        if (r < 0)
            (void)err_wrap(e, "'%.300s'", f.path);
    }
    bool same = r == 0 && f.exists && strcmp(merged, f.text) == 0;
    if (r == 0 && !same)
        r = client_file_replace(&f, merged, strlen(merged), e);
    if (r == 0)
        print_written(title, &f, same);
    client_file_clear(&f);
    return r;
}

static int check_writable(const struct config *c, const char *name, const struct client *client,
                          const struct text_client *text, struct err *e)
{
    if (!client && !text)
        return strcmp(name, "all") == 0 || strcmp(name, "list") == 0
                   ? err_set(e, ERR_USAGE, 0, "name one client", "--write is for one client")
                   : unknown(name, e);
    if (text && text->refused)
        return err_set(e, ERR_USAGE, 0, "leave out --write and put in what is printed", "%s",
                       text->refused);
    if (client && c->url[0] && client->file_http && !c->client_file[0])
        return err_set(e, ERR_USAGE, 0, "for Claude Code name the project's file: --file .mcp.json",
                       "Claude Desktop takes an address under Settings, Connectors, not in a file");
    return 0;
}

static int write_one(const struct config *c, const char *name, const struct target *t)
{
    char path[PATH_MAX];
    struct err e;
    const struct client *client = find(name);
    const struct text_client *text = find_text(name);
    if (check_writable(c, name, client, text, &e) < 0)
        return cli_fail(&e, false);
    if (text && !text->user_file) {
        fprintf(stderr, "%s has a command for it; nothing was written: run this line\n",
                text->title);
        text->put(stdout, t);
        return cli_finish();
    }
    if (find_path(c, client ? client->user_file : text->user_file, path, &e) < 0 ||
        write_file(client ? client->title : text->title, path, client, text, t, &e) < 0)
        return cli_fail(&e, false);
    return cli_finish();
}

// ---- the command --------------------------------------------------------------------------------

static int check_with_url(const struct config *c, int passed, struct err *e)
{
    if (!c->url[0] || (!passed && c->origins[CONFIG_KEY_tools].source != CONFIG_FROM_FLAG))
        return 0;
    return err_set(e, ERR_USAGE, 0,
                   passed ? "start that server with these options: 'constrictor serve ...'"
                          : "start that server with 'constrictor serve --tools ...'",
                   "%s for clients that start the server; with --url it runs already",
                   passed ? "options behind '--' are" : "--tools is");
}

static int print_all(const struct target *t)
{
    json_t *all = json_object();
    for (const struct client *one = clients; one->name; one++) {
        (void)json_object_set_new(all, one->name,
                                  client_snippet(one, t->command, t->url, t->with_key));
        fprintf(stderr, "%s: put it into %s\n", one->name, file_of(one, t->url));
    }
    return print_snippet(all);
}

static int print_one(const char *name, const struct target *t)
{
    struct err e;
    const struct client *client = find(name);
    const struct text_client *text = find_text(name);
    if (client) {
        fprintf(stderr, "for %s: put it into %s\n", client->title, file_of(client, t->url));
        return print_snippet(client_snippet(client, t->command, t->url, t->with_key));
    }
    if (text) {
        fprintf(stderr, "for %s: put it into %s\n", text->title, text->file);
        text->put(stdout, t);
        return cli_finish();
    }
    (void)unknown(name, &e);
    return cli_fail(&e, false);
}

// argv: the client; "--" and options for `stdio`.
static int cmd_client_config(const struct config *c, int argc, char **argv)
{
    char known[256];
    struct err e;
    int passed = argc > 2 ? argc - 2 : 0;
    json_auto_t *command = json_array();
    struct target target = {.command = command,
                            .url = c->url[0] ? c->url : NULL,
                            .with_key = c->url[0] && (c->api_keys.count || c->api_key_file[0])};
    if (argc == 0 || strcmp(argv[0], "--") == 0) {
        cli_list_words(client_word, known, sizeof known);
        err_set(&e, ERR_USAGE, 0, NULL, "'client-config' needs the name of a client: %s", known);
        return cli_fail(&e, false);
    }
    if (check_with_url(c, passed, &e) < 0 || check_url(c->url, &e) < 0 ||
        find_command(c, passed, argv + 2, command, &e) < 0)
        return cli_fail(&e, false);
    if (c->write || c->client_file[0])
        return write_one(c, argv[0], &target);
    if (strcmp(argv[0], "list") == 0) {
        print_list();
        return cli_finish();
    }
    return strcmp(argv[0], "all") == 0 ? print_all(&target) : print_one(argv[0], &target);
}

const struct command command_client_config = {
    .name = "client-config",
    .section = SECTION_SERVE,
    .summary = "Print the settings that add this server to an MCP client",
    .usage = "client-config [options] CLIENT [-- OPTIONS...]\n"
             "client-config [--url URL] all|list",
    .notes = "CLIENT is claude, vscode, cursor, gemini, lmstudio, windsurf, zed, opencode,\n"
             "codex, goose or claude-code; 'all' prints those whose settings are JSON.\n"
             "The settings go to stdout, and the file that they belong in to stderr.\n"
             "OPTIONS are those of 'constrictor stdio', for clients that start it.\n"
             "--write changes the client's own file, and keeps the first in NAME.bak.",
    .bit = CONFIG_CLIENT,
    .operands_max = 1,
    .passes_on = true,
    .word = client_word,
    .function = cmd_client_config,
};
