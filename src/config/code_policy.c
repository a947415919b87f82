// SPDX-License-Identifier: Apache-2.0
//
// code_policy: see code_policy.h.

#include "config/code_policy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"

const char *const code_mode_names[CODE_MODE_MAX] = {"open", "guarded", "restricted"};

enum { POLICY_AUTO, POLICY_OPEN }; // positions in the choices of config.def; the modes follow
enum { NETWORK_ON = 1 };           // of `network`

// ---- the configuration --------------------------------------------------------------------------

enum code_mode code_policy_mode(const struct config *c)
{
    if (c->policy == POLICY_AUTO)
        return c->tiers.count || c->allowed_imports.count ? CODE_GUARDED : CODE_OPEN;
    return (enum code_mode)(c->policy - POLICY_OPEN);
}

bool code_policy_is_auto(const struct config *c)
{
    return c->policy == POLICY_AUTO;
}

// Allowed hosts imply the tier "network", unless tiers are named.
static bool has_network_tier(const struct config *c)
{
    if (c->network == NETWORK_ON || text_list_has(&c->tiers, "network"))
        return true;
    return !c->tiers.count && c->network == 0 && (c->allow_hosts.count || c->network_file[0]);
}

bool code_policy_has_tier(const struct config *c, const char *tier)
{
    if (strcmp(tier, "network") == 0)
        return has_network_tier(c);
    return text_list_has(&c->tiers, tier) || (!c->tiers.count && strcmp(tier, "basic") == 0) ||
           (c->enable_data_science && strcmp(tier, "data_science") == 0) ||
           (c->enable_filesystem && strcmp(tier, "filesystem") == 0);
}

bool code_policy_shuts_network(const struct config *c)
{
    return code_policy_mode(c) != CODE_OPEN && !has_network_tier(c);
}

// False for a policy whose only bound is the import list of the call: tiers do not apply to it.
static bool lacks_tier(const struct config *c, const json_t *policy, const char *tier)
{
    const char *mode = json_string_value(json_object_get(policy, "mode"));
    bool bounded = json_object_get(policy, "tiers") || json_object_get(policy, "override");
    if (!policy)
        return code_policy_mode(c) != CODE_OPEN && !code_policy_has_tier(c, tier);
    return mode && strcmp(mode, code_mode_names[CODE_OPEN]) != 0 && bounded &&
           !code_policy_has_tier(c, tier);
}

bool code_policy_freezes(const struct config *c, const json_t *policy)
{
    return lacks_tier(c, policy, "filesystem");
}

bool code_policy_has_network(const struct config *c, const json_t *policy)
{
    return !lacks_tier(c, policy, "network");
}

// ---- one call -----------------------------------------------------------------------------------

static int choose_mode(const struct config *c, const char *asked, const json_t *imports,
                       enum code_mode *ret, struct err *e)
{
    enum code_mode least = code_policy_mode(c), mode = CODE_OPEN;
    // A list of imports needs at least "guarded" to have an effect.
    *ret = imports && least == CODE_OPEN ? CODE_GUARDED : least;
    if (!asked)
        return 0;
    while (mode < CODE_MODE_MAX && strcmp(asked, code_mode_names[mode]) != 0)
        mode++;
    if (mode == CODE_MODE_MAX)
        return err_set(e, ERR_BAD_VALUE, 0, "write open, guarded or restricted", "unknown policy");
    if (mode < least)
        return err_set(e, ERR_BAD_VALUE, 0, "leave it out, or ask for a stricter one",
                       "the policy '%s' is weaker than this server's policy '%s'", asked,
                       code_mode_names[least]);
    if (mode == CODE_OPEN && imports)
        return err_set(e, ERR_BAD_VALUE, 0,
                       "leave the policy out, or ask for guarded or restricted",
                       "the policy 'open' allows every import, so 'allowed_imports' would have "
                       "no effect");
    *ret = mode;
    return 0;
}

static json_t *list_json(const struct text_list *list)
{
    json_auto_t *array = json_array();
    int failed = !array;
    for (size_t i = 0; i < list->count; i++)
        failed |= json_array_append_new(array, json_string(list->items[i]));
    return failed ? NULL : TAKE_PTR(array);
}

static json_t *tiers_json(const struct config *c)
{
    static const char *const names[] = {"basic", "data_science", "network", "filesystem"};
    struct text_list tiers = {0};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (code_policy_has_tier(c, names[i]))
            (void)text_list_add(&tiers, names[i]);
    return list_json(&tiers);
}

// Whether it is the name of a module, "numpy" or "os.path", possibly with ".*" at the end.
// Characters beyond ASCII pass: Python decides whether they are identifiers.
static bool is_module(const char *name, size_t length)
{
    bool begins = true;
    if (length == 0 || length > CODE_IMPORT_BYTES || strlen(name) != length)
        return false;
    if (length > 2 && strcmp(name + length - 2, ".*") == 0)
        length -= 2;
    for (size_t i = 0; i < length; i++) {
        unsigned char ch = (unsigned char)name[i];
        bool letter = (ch | 0x20) >= 'a' && (ch | 0x20) <= 'z';
        bool digit = ch >= '0' && ch <= '9';
        if (ch == '.' ? begins : !(letter || ch == '_' || ch >= 0x80 || (digit && !begins)))
            return false;
        begins = ch == '.';
    }
    return !begins;
}

static int check_imports(const json_t *imports, struct err *e)
{
    static const char hint[] = "give names of modules, such as [\"math\", \"os.path\"]";
    size_t i;
    json_t *item;
    if (!imports)
        return 0;
    if (!json_is_array(imports) || json_array_size(imports) > CODE_IMPORTS_MAX)
        return err_set(e, ERR_BAD_VALUE, 0, hint,
                       "'allowed_imports' must be a list of at most %d names", CODE_IMPORTS_MAX);
    json_array_foreach (imports, i, item) {
        char shown[80];
        if (json_is_string(item) && is_module(json_string_value(item), json_string_length(item)))
            continue;
        snprintf(shown, sizeof shown, "%s",
                 json_is_string(item) ? json_string_value(item) : "(not a string)");
        text_sanitize(shown);
        return err_set(e, ERR_BAD_VALUE, 0, hint,
                       "'allowed_imports', entry %zu: '%s' is not the name of a module", i + 1,
                       shown);
    }
    return 0;
}

int code_policy_check(const struct config *c, struct err *e)
{
    // SECURITY: a caller that relies on containers must not silently get another wall.
    if (c->enable_container_mode)
        return err_set(e, ERR_BAD_VALUE, 0,
                       "leave it out: every run has its own box, isolated by the kernel",
                       "enable-container-mode (SANDBOX_ENABLE_CONTAINER_MODE) is not supported: "
                       "there are no containers");
    for (size_t i = 0; i < c->allowed_imports.count; i++)
        if (!is_module(c->allowed_imports.items[i], strlen(c->allowed_imports.items[i])))
            return err_set(e, ERR_BAD_VALUE, 0, "give names of modules, such as math,os.path",
                           "allowed-imports: '%s' is not the name of a module",
                           c->allowed_imports.items[i]);
    return 0;
}

// Sets the bound of the imports: the server's list, else its tiers.  On an open server only the
// list of the call applies.
static int set_ceiling(const struct config *c, json_t *policy, bool listed)
{
    if (c->allowed_imports.count)
        return json_object_set_new(policy, "override", list_json(&c->allowed_imports));
    if (listed && code_policy_mode(c) == CODE_OPEN)
        return 0;
    return json_object_set_new(policy, "tiers", tiers_json(c));
}

int code_policy_make(const struct config *c, const char *asked, const json_t *imports, bool network,
                     bool always, json_t **ret, struct err *e)
{
    enum code_mode mode = CODE_OPEN;
    *ret = NULL;
    int r = check_imports(imports, e);
    if (r == 0)
        r = choose_mode(c, asked, imports, &mode, e);
    if (r < 0 || (mode == CODE_OPEN && !always))
        return r;
    json_t *o = json_pack("{s:s}", "mode", code_mode_names[mode]);
    int failed = !o;
    if (mode != CODE_OPEN)
        failed |= set_ceiling(c, o, imports != NULL);
    if (imports)
        failed |= json_object_set_new(o, "allowed_imports", json_deep_copy(imports));
    if (network && code_policy_has_network(c, o))
        failed |= json_object_set_new(o, "network", json_true());
    if (failed) {
        json_decref(o);
        return err_memory(e);
    }
    *ret = o;
    return 0;
}

int code_policy_scan(json_t *policy, const char *scan, struct err *e)
{
    if (json_object_set_new(policy, "scan", json_string(scan)) == 0)
        return 0;
    return err_memory(e);
}
