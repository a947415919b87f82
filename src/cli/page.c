// SPDX-License-Identifier: Apache-2.0
//
// page: see page.h.  The sheet loads nothing, has no script, and is made anew for each request.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/client_config.h"
#include "cli/page.h"
#include "cli/page_files.h"
#include "rest/rest.h"

static const char style[] =
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;"
    "color:#222;background:#fff}"
    "h1{font-size:1.6rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}"
    "code,pre{font:14px/1.4 ui-monospace,monospace;background:#f3f4f2;border-radius:4px}"
    "code{padding:.1rem .3rem}pre{padding:.7rem;overflow:auto;margin:.3rem 0}"
    "table{border-collapse:collapse}td{padding:.2rem 1.2rem .2rem 0;vertical-align:top}"
    "summary{cursor:pointer;padding:.2rem 0}.ok{color:#176d3b}.no{color:#a1260d}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#191a19}code,pre{background:#"
    "2a2c2a}"
    ".ok{color:#6cc58d}.no{color:#f0937f}a{color:#8ab4f8}}";

void page_init(struct page *p)
{
    html_policy(style, "", p->policy);
}

// ---- the page -----------------------------------------------------------------------------------

static void put_row(FILE *out, const char *name, const char *value, const char *rest)
{
    fprintf(out, "<tr><td>%s<td><code>", name);
    html_put(out, value);
    html_put(out, rest);
    fputs("</code>\n", out);
}

static void put_clients(FILE *out, const struct page *p)
{
    char url[1100];
    snprintf(url, sizeof url, "%s/mcp", p->base_url);
    for (const struct client *c = clients; c->name; c++) {
        json_t *snippet = client_snippet(c, NULL, url, p->with_key);
        char *text = json_dumps(snippet, JSON_INDENT(2));
        fprintf(out, "<details%s><summary>%s</summary>\n<pre>", c == clients ? " open" : "",
                c->title);
        html_put(out, text ? text : "");
        fputs("</pre>into ", out);
        html_put(out, c->file_http ? c->file_http : c->file);
        fputs("</details>\n", out);
        free(text);
        json_decref(snippet);
    }
}

static void put_state(FILE *out, const struct page *p)
{
    const struct keeper_facts *facts = p->gate->facts;
    bool failed = facts->state == KEEPER_FAILED;
    fprintf(out, "<p>State: <b class=%s>%s</b>", failed ? "no" : "ok", rest_status_word(p->gate));
    if (failed)
        fputs(": boxes cannot be made here; the server's log and <code>constrictor doctor</code> "
              "say why.",
              out);
    if (facts->interp && facts->interp->version[0]) {
        fputs(". Python ", out);
        html_put(out, facts->interp->version);
    }
    fputs("\n", out);
}

static void put_page(FILE *out, const struct page *p)
{
    fprintf(out,
            "<!doctype html><html lang=en><meta charset=utf-8>"
            "<meta name=viewport content=\"width=device-width\"><title>Constrictor</title>"
            "<style>%s</style>\n<h1>Constrictor</h1>\n"
            "<p>This server runs Python code in isolated boxes, for programs that speak the Model "
            "Context Protocol. Version " CONSTRICTOR_VERSION ".\n",
            style);
    put_state(out, p);
    fputs("<h2>Addresses</h2><table>\n", out);
    put_row(out, "MCP, Streamable HTTP", p->base_url, "/mcp");
    if (p->config->legacy_sse)
        put_row(out, "MCP, HTTP+SSE of 2024", p->base_url, "/sse");
    put_row(out, "REST", p->base_url, "/api/v1");
    put_row(out, "REST, described", p->base_url, "/docs");
    put_row(out, "Health", p->base_url, "/health");
    fputs("</table>\n<h2>Add it to a client</h2>\n", out);
    put_clients(out, p);
    fputs("<p>A client on this machine can also start Constrictor itself: "
          "<code>constrictor client-config</code> prints the settings.\n",
          out);
}

static void handle_page(struct http_exchange *x, void *argument)
{
    const struct page *p = argument;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out)
        put_page(out, p);
    if (!out || fclose(out) != 0 || !text) {
        free(text);
        http_reply_error(x, 500, "system", "", "the server is out of memory");
        return;
    }
    http_add_header(x, "Content-Security-Policy", p->policy);
    http_add_header(x, "X-Content-Type-Options", "nosniff");
    http_add_header(x, "Referrer-Policy", "no-referrer");
    http_add_header(x, "Cache-Control", "no-store");
    http_reply(x, 200, "text/html; charset=utf-8", text, length);
    free(text);
}

// ---- what the page wants to know ----------------------------------------------------------------

static json_t *clients_json(const struct page *p, const char *url)
{
    json_t *all = json_array();
    for (const struct client *c = clients; c->name; c++)
        (void)json_array_append_new(
            all, json_pack("{s:s, s:s, s:s, s:o}", "name", c->name, "title", c->title, "file",
                           c->file_http ? c->file_http : c->file, "settings",
                           client_snippet(c, NULL, url, p->with_key)));
    return all;
}

// The same facts as the sheet shows, for the page.
static void handle_facts(struct http_exchange *x, void *argument)
{
    const struct page *p = argument;
    const struct keeper_facts *facts = p->gate->facts;
    char url[1100];
    snprintf(url, sizeof url, "%s/mcp", p->base_url);
    json_auto_t *body = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:o}", "version", CONSTRICTOR_VERSION, "state",
        rest_status_word(p->gate), "python", facts->interp ? facts->interp->version : "",
        "base_url", p->base_url, "mcp", url, "with_key", (int)p->with_key, "legacy_sse",
        (int)p->config->legacy_sse, "clients", clients_json(p, url));
    if (!body) {
        http_reply_error(x, 500, "system", "", "memory is out");
        return;
    }
    http_add_header(x, "Cache-Control", "no-store");
    http_reply_json(x, 200, body);
}

const struct http_route *page_routes(struct page *p)
{
    enum { GET = HTTP_GET | HTTP_HEAD };
    static struct http_route sheet[] = {
        {.path = "/", .methods = GET, .open = true, .handle = handle_page},
        {.path = "/sheet", .methods = GET, .open = true, .handle = handle_page},
        {.path = NULL},
    };
    static struct http_route page[] = {
        {.path = "/", .methods = GET, .open = true, .handle = page_files_index},
        {.path = "/sheet", .methods = GET, .open = true, .handle = handle_page},
        {.path = "/page.json", .methods = GET, .open = true, .handle = handle_facts},
        {.path = "/frame.html", .methods = GET, .open = true, .handle = page_files_frame},
        {.path = "/assets/*", .methods = GET, .open = true, .handle = page_files_asset},
        {.path = NULL},
    };
    struct http_route *routes = page_files_present() ? page : sheet;
    for (struct http_route *r = routes; r->path; r++)
        r->argument = p;
    return routes;
}
