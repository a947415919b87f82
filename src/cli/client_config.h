// SPDX-License-Identifier: Apache-2.0
//
// client_config: the MCP clients that this program can print settings for.

#ifndef CONSTRICTOR_CLI_CLIENT_CONFIG_H
#define CONSTRICTOR_CLI_CLIENT_CONFIG_H

#include <jansson.h>
#include <stdbool.h>

struct client {
    const char *name, *title;
    const char *servers;          // the key above the servers
    const char *url;              // the key of a server's address
    bool typed;                   // each server has a type
    const char *type_http;        // the type of a server with an address
    const char *type_stdio;       // the type of a program; NULL: "stdio"
    bool joins;                   // program and arguments are one list
    bool http_typed;              // only a server with an address has a type
    const char *key;              // how the file takes a value from the environment
    const char *user_file;        // the client's own file, below the home folder, for --write
    const char *file, *file_http; // the file for the settings; file_http NULL: the same file
};

extern const struct client clients[]; // ends with a row without a name

// The settings for a server at `url`, or with NULL for one that the client starts itself with
// `command`: the program and its arguments.  Borrows `command`.
// `with_key`: clients have to send a key.  NULL when memory is out.
json_t *client_snippet(const struct client *client, const json_t *command, const char *url,
                       bool with_key);

#endif
