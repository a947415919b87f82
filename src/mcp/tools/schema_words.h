// SPDX-License-Identifier: Apache-2.0
//
// schema_words: macros that write JSON schemas for the tables of tools.  Only what every client and
// model provider understands: a type each, no references, "anyOf" only for values that may be null.

#ifndef CONSTRICTOR_MCP_TOOLS_SCHEMA_WORDS_H
#define CONSTRICTOR_MCP_TOOLS_SCHEMA_WORDS_H

// clang-format off

#define FIELD(name, schema) "\"" name "\": " schema
#define TYPE(type) "{\"type\": \"" type "\"}"
#define NULLABLE(schema) "{\"anyOf\": [" schema ", " TYPE("null") "]}"
#define LIST(items) "{\"type\": \"array\", \"items\": " items "}"
#define MAP(values) "{\"type\": \"object\", \"additionalProperties\": " values "}"
#define OBJECT(required, fields)                                                                   \
    "{\"type\": \"object\", \"properties\": {" fields "}, \"required\": [" required "]}"
#define STRING TYPE("string")
#define INTEGER TYPE("integer")
#define NUMBER TYPE("number")
#define BOOLEAN TYPE("boolean")
#define ANY                                                                                        \
    "{\"anyOf\": [" TYPE("object") ", " TYPE("array") ", " STRING ", " NUMBER ", " BOOLEAN ", "    \
    TYPE("null") "]}"

// Arguments that several tools take.
#define SESSION_ARGUMENT(text)                                                                     \
    "\"session\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 128, \"description\": " \
        "\"" text "\"}"

#define FILES_ARGUMENT                                                                             \
    "\"files\": {\"type\": \"array\", \"maxItems\": 100, \"items\": {\"type\": \"object\", " \
        "\"properties\": {" \
    "\"path\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 1024, \"description\": " \
        "\"Path below " \
        "/mnt/data, such as data/sales.csv.\"}, "                                                  \
    "\"text\": {\"type\": \"string\", \"description\": \"Contents as text.\"}, "               \
    "\"base64\": {\"type\": \"string\", \"description\": \"Contents as base64, instead of " \
        "text.\"}" \
    "}, \"required\": [\"path\"], \"additionalProperties\": false}, \"description\": \"Files to " \
        "write to " \
    "/mnt/data first.\"}"

#define VARIABLES_ARGUMENT                                                                         \
    "\"variables\": {\"type\": \"object\", \"description\": \"Variables to set first: names and " \
        "JSON values.\"}"

#define ENV_VARS_ARGUMENT                                                                          \
    "\"env\": {\"type\": \"object\", \"description\": \"Environment variables of the session: " \
        "names and texts, in os.environ and for programs that the code starts. Never logged.\"}"

// Several types in one "type": clients drop all tools if one argument has no "type".
#define NETWORK_ARGUMENT(text)                                                                     \
    "\"network\": {\"type\": [\"array\", \"string\", \"object\"], \"maxItems\": 256, \"items\": " \
        "{\"type\": " \
    "[\"string\", \"object\"]}, \"properties\": {\"allow\": " TYPE("array") ", \"deny\": " \
        TYPE("array") \
    "}, \"description\": \"" text " \\\"off\\\", or a " \
    "list of hosts such as [\\\"api.example.org:443\\\", \\\"*.example.org\\\"], or " \
        "{\\\"allow\\\": [...], " \
    "\\\"deny\\\": [...]}; never more than the key allows, which is the default.\"}"

#define ENVIRONMENT_ARGUMENT(text)                                                                 \
    "\"environment\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 64, " \
        "\"description\": \"" text "\"}"

#define REQUIREMENTS(text)                                                                         \
    "{\"type\": [\"array\", \"string\"], \"minLength\": 1, \"maxLength\": 20000, \"minItems\": " \
        "1, \"maxItems\": " \
    "100, \"items\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 1000}, " \
        "\"description\": \"" text "\"}"
#define PACKAGES_ARGUMENT(text) "\"packages\": " REQUIREMENTS(text)

#define POLICY_ARGUMENTS                                                                           \
    "\"policy\": {\"type\": \"string\", \"enum\": [\"open\", \"guarded\", \"restricted\"], " \
        "\"description\": " \
        "\"Import policy: open allows all, guarded refuses imports that no tier allows, " \
            "restricted also refuses " \
        "what leads out of ordinary code (RestrictedPython). Never wider than the server's, " \
            "which is the " \
        "default. It guides code; the box isolates it with any policy.\"}, " \
    "\"allowed_imports\": {\"type\": \"array\", \"maxItems\": 256, \"items\": {\"type\": " \
        "\"string\", " \
        "\"minLength\": 1, \"maxLength\": 256}, \"description\": \"The only modules to allow, " \
            "such as " \
        "[\\\"math\\\", \\\"json\\\"]; never more than the server's policy allows.\"}"

// What several tools give.
#define VIOLATION                                                                                  \
    OBJECT("\"kind\", \"target\", \"reason\"",                                                     \
           FIELD("kind", STRING) ", " FIELD("target", STRING) ", "                                 \
           FIELD("line", NULLABLE(INTEGER)) ", " FIELD("column", NULLABLE(INTEGER)) ", "           \
           FIELD("reason", STRING) ", " FIELD("hint", STRING) ", " FIELD("layer", STRING))

#define NETWORK                                                                                    \
    "{\"anyOf\": [" STRING ", "                                                                    \
    OBJECT("\"allow\", \"deny\"",                                                                  \
           FIELD("allow", LIST(RULE)) ", " FIELD("deny", LIST(RULE)) ", "                          \
           FIELD("allow_omitted", INTEGER) ", " FIELD("deny_omitted", INTEGER)) "]}"
#define RULE "{\"anyOf\": [" STRING ", " TYPE("object") "]}"

#define SECURITY_EVENT                                                                             \
    OBJECT("\"kind\", \"target\", \"layer\", \"hint\", \"count\"",                                 \
           FIELD("kind", STRING) ", " FIELD("action", STRING) ", " FIELD("target", STRING) ", "    \
           FIELD("host", NULLABLE(STRING)) ", " FIELD("address", NULLABLE(STRING)) ", "            \
           FIELD("port", NULLABLE(INTEGER)) ", " FIELD("rule", NULLABLE(STRING)) ", "              \
           FIELD("reason", STRING) ", " FIELD("line", INTEGER) ", "                                \
           FIELD("layer", "{\"type\": \"string\", \"enum\": [\"broker\", \"box\", \"python\", " \
               "\"restricted\", \"seccomp\"]}") ", " \
           FIELD("hint", STRING) ", " FIELD("count", INTEGER))

#define NETWORK_USAGE                                                                              \
    OBJECT("\"connections\", \"requests\", \"bytes_up\", \"bytes_down\", \"hosts\"",               \
           FIELD("connections", INTEGER) ", " FIELD("requests", INTEGER) ", "                      \
           FIELD("bytes_up", INTEGER) ", " FIELD("bytes_down", INTEGER) ", "                       \
           FIELD("hosts", LIST(OBJECT("\"host\"",                                                  \
               FIELD("host", STRING) ", " FIELD("port", INTEGER) ", "                              \
               FIELD("connections", INTEGER) ", " FIELD("bytes_up", INTEGER) ", "                  \
               FIELD("bytes_down", INTEGER)))) ", " FIELD("hosts_omitted", INTEGER))

#define FILE_FIELDS                                                                                \
    FIELD("path", STRING) ", " FIELD("size", INTEGER) ", " FIELD("mime_type", STRING) ", "         \
    FIELD("uri", NULLABLE(STRING)) ", " FIELD("url", NULLABLE(STRING)) ", " \
    FIELD("saved", STRING) ", " FIELD("save_error", STRING) ", "                                   \
    FIELD("error", OBJECT("\"code\", \"message\"", FIELD("code", STRING) ", " FIELD("message", \
        STRING) ", " FIELD("hint", STRING)))

#define VARIABLE                                                                                   \
    OBJECT("\"name\", \"change\"",                                                                 \
           FIELD("name", STRING) ", "                                                              \
           FIELD("change", "{\"type\": \"string\", \"enum\": [\"added\", \"changed\", " \
               "\"removed\"]}") ", " \
           FIELD("type", NULLABLE(STRING)) ", " FIELD("shape", NULLABLE(LIST(INTEGER))) ", "       \
           FIELD("length", NULLABLE(INTEGER)) ", " FIELD("text", NULLABLE(STRING)))

#define CHECKPOINT                                                                                 \
    OBJECT("\"state\"",                                                                            \
           FIELD("state", "{\"type\": \"string\", \"enum\": [\"made\", \"unavailable\", " \
               "\"restored\"]}") ", " \
           FIELD("reason", NULLABLE(STRING)) ", " FIELD("name", NULLABLE(STRING)) ", "             \
           FIELD("kept", INTEGER) ", " FIELD("available", INTEGER))

#define PYTHON                                                                                     \
    OBJECT("\"python\", \"version\"",                                                              \
           FIELD("python", STRING) ", " FIELD("version", STRING) ", "                              \
           FIELD("preloaded", LIST(STRING)) ", "                                                   \
           FIELD("preload_failed", LIST(MAP(STRING))))

// clang-format on

#endif
