// SPDX-License-Identifier: Apache-2.0
//
// client_config: `constrictor client-config NAME`: the settings that add this server to an MCP
// client.  They go to stdout, and the file they belong in to stderr, so that the output can be
// redirected into a file.

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/client_config.h"

// clang-format off
const struct client clients[] = {
    {.name = "claude", .title = "Claude Desktop and Claude Code",
     .servers = "mcpServers", .url = "url", .http_typed = true, .type_http = "http",
     .key = "Bearer ${CONSTRICTOR_API_KEY}",
     .file = "~/.config/Claude/claude_desktop_config.json (macOS: ~/Library/Application "
             "Support/Claude/), or .mcp.json of a project for Claude Code",
     .file_http = ".mcp.json of a project (Claude Code); Claude Desktop takes the address under "
                  "Settings, Connectors"},
    {.name = "vscode", .title = "Visual Studio Code",
     .servers = "servers", .url = "url", .typed = true, .type_http = "http",
     .key = "Bearer ${env:CONSTRICTOR_API_KEY}",
     .file = ".vscode/mcp.json of a project, or the command 'MCP: Open User Configuration'"},
    {.name = "cursor", .title = "Cursor",
     .servers = "mcpServers", .url = "url", .key = "Bearer ${env:CONSTRICTOR_API_KEY}",
     .file = "~/.cursor/mcp.json, or .cursor/mcp.json of a project"},
    {.name = "gemini", .title = "Gemini CLI",
     .servers = "mcpServers", .url = "httpUrl", .key = "Bearer ${CONSTRICTOR_API_KEY}",
     .file = "~/.gemini/settings.json, or .gemini/settings.json of a project"},
    {.name = "lmstudio", .title = "LM Studio",
     .servers = "mcpServers", .url = "url", .key = "Bearer <the key>",
     .file = "~/.lmstudio/mcp.json (Program, Install, Edit mcp.json)"},
    {.name = "windsurf", .title = "Windsurf",
     .servers = "mcpServers", .url = "serverUrl", .key = "Bearer ${env:CONSTRICTOR_API_KEY}",
     .file = "~/.codeium/windsurf/mcp_config.json"},
    {.name = "zed", .title = "Zed",
     .servers = "context_servers", .url = "url", .key = "Bearer <the key>",
     .file = "~/.config/zed/settings.json, or .zed/settings.json of a project"},
    {.name = "opencode", .title = "OpenCode",
     .servers = "mcp", .url = "url", .typed = true, .type_http = "remote", .type_stdio = "local",
     .joins = true, .key = "Bearer {env:CONSTRICTOR_API_KEY}",
     .file = "~/.config/opencode/opencode.json, or opencode.json of a project"},
    {.name = NULL},
};

// Clients whose settings are no JSON.  %1: the program or the address, %2: the arguments.
static const struct text_client {
    const char *name, *title, *file, *stdio, *sets, *http, *key;
} text_clients[] = {
    {"codex", "Codex", "~/.codex/config.toml",
     "[mcp_servers.constrictor]\ncommand = \"%s\"\nargs = [\"stdio\"%s]\n", ", \"--tools\", \"%s\"",
     "[mcp_servers.constrictor]\nurl = \"%s\"\n%s",
     "bearer_token_env_var = \"CONSTRICTOR_API_KEY\"\n"},
    {"goose", "Goose", "~/.config/goose/config.yaml",
     "extensions:\n  constrictor:\n    enabled: true\n    type: stdio\n    name: constrictor\n"
     "    timeout: 300\n    cmd: \"%s\"\n    args: [\"stdio\"%s]\n", ", \"--tools\", \"%s\"",
     "extensions:\n  constrictor:\n    enabled: true\n    type: streamable_http\n"
     "    name: constrictor\n    timeout: 300\n    uri: \"%s\"\n%s",
     "    headers:\n      Authorization: \"Bearer ${CONSTRICTOR_API_KEY}\"\n"},
    {"claude-code", "Claude Code", "a terminal: it is a command",
     "claude mcp add constrictor -- '%s' stdio%s\n", " --tools %s",
     "claude mcp add --transport http constrictor '%s'%s\n",
     " --header \"Authorization: Bearer $CONSTRICTOR_API_KEY\""},
    {.name = NULL},
};
// clang-format on

json_t *client_snippet(const struct client *client, const char *program, const char *tools,
                       const char *url, bool with_key)
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
        (void)json_object_set_new(
            server, "command",
            json_pack("[s, s, s*, s*]", program, "stdio", tools ? "--tools" : NULL, tools));
    } else {
        (void)json_object_set_new(server, "command", json_string(program));
        (void)json_object_set_new(
            server, "args", json_pack("[s, s*, s*]", "stdio", tools ? "--tools" : NULL, tools));
    }
    return json_pack("{s:{s:o}}", client->servers, "constrictor", server);
}

// The absolute path of this program.
static int find_program(char *ret, size_t cap, struct err *e)
{
    ssize_t n = readlink("/proc/self/exe", ret, cap - 1);
    if (n < 0)
        return err_set(e, ERR_SYSTEM, errno, "is /proc mounted?", "find the path of this program");
    ret[n] = '\0';
    return 0;
}

// ---- the command --------------------------------------------------------------------------------

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

// 0: printed; 1: the name is none of them.
static int print_text_client(const char *name, const char *program, const char *sets,
                             const char *url, bool with_key)
{
    char tools[CONFIG_TEXT_MAX + 32] = "";
    const struct text_client *c = text_clients;
    while (c->name && strcmp(c->name, name) != 0)
        c++;
    if (!c->name)
        return 1;
    // SECURITY: a quote would end the text that it stands in, in a file or in a shell.
    if (strpbrk(url ? url : program, "'\"\\$`\n"))
        return 1;
    fprintf(stderr, "for %s: put it into %s\n", c->title, c->file);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (sets)
        snprintf(tools, sizeof tools, c->sets, sets);
    printf(url ? c->http : c->stdio, url ? url : program, url ? with_key ? c->key : "" : tools);
#pragma GCC diagnostic pop
    return 0;
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

static int check_url(const char *url, struct err *e)
{
    if (!url[0] || strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0)
        return 0;
    return err_set(e, ERR_BAD_VALUE, 0, "write it as http://127.0.0.1:8000/mcp",
                   "url '%.200s' does not begin with http:// or https://", url);
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

static int cmd_client_config(const struct config *c, int argc, char **argv)
{
    char program[PATH_MAX], known[256], tools[CONFIG_TEXT_MAX + 1];
    struct err e;
    const char *url = c->url[0] ? c->url : NULL;
    config_format(c, CONFIG_KEY_tools, tools, sizeof tools);
    const char *sets = tools[0] ? tools : NULL;
    bool with_key = url && (c->api_keys.count || c->api_key_file[0]);
    cli_list_words(client_word, known, sizeof known);
    if (argc == 0) {
        err_set(&e, ERR_USAGE, 0, NULL, "'client-config' needs the name of a client: %s", known);
        return cli_fail(&e, false);
    }
    if (url && c->origins[CONFIG_KEY_tools].source == CONFIG_FROM_FLAG) {
        err_set(&e, ERR_USAGE, 0, "start that server with 'constrictor serve --tools ...'",
                "--tools is for clients that start the server; with --url it runs already");
        return cli_fail(&e, false);
    }
    if (check_url(c->url, &e) < 0 || find_program(program, sizeof program, &e) < 0)
        return cli_fail(&e, false);
    if (strcmp(argv[0], "list") == 0) {
        print_list();
        return cli_finish();
    }
    if (strcmp(argv[0], "all") == 0) {
        json_t *all = json_object();
        for (const struct client *one = clients; one->name; one++) {
            (void)json_object_set_new(all, one->name,
                                      client_snippet(one, program, sets, url, with_key));
            fprintf(stderr, "%s: put it into %s\n", one->name, file_of(one, url));
        }
        return print_snippet(all);
    }
    if (print_text_client(argv[0], program, sets, url, with_key) == 0)
        return cli_finish();
    const struct client *client = find(argv[0]);
    if (!client) {
        (void)unknown(argv[0], &e);
        return cli_fail(&e, false);
    }
    fprintf(stderr, "for %s: put it into %s\n", client->title, file_of(client, url));
    return print_snippet(client_snippet(client, program, sets, url, with_key));
}

const struct command command_client_config = {
    .name = "client-config",
    .section = SECTION_SERVE,
    .summary = "Print the settings that add this server to an MCP client",
    .usage = "client-config [--url URL | --tools SETS] CLIENT|all|list",
    .notes = "CLIENT is claude, vscode, cursor, gemini, lmstudio, windsurf, zed, opencode, codex,\n"
             "goose or claude-code; 'all' prints those whose settings are JSON.\n"
             "The settings go to stdout, and the file that they belong in to stderr.",
    .bit = CONFIG_CLIENT,
    .operands_max = 1,
    .word = client_word,
    .function = cmd_client_config,
};
