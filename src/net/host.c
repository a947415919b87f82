// SPDX-License-Identifier: Apache-2.0
//
// host: names of hosts in the one spelling that is compared, and foreign text made fit for
// messages. Called by the rules, the gate and the broker, for names that callers and code wrote.

#include <arpa/inet.h>
#include <errno.h>
#include <idn2.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "net/rule.h"

enum { LABEL_MAX = 63 };

void net_quote(const char *text, size_t length, char ret[NET_QUOTE_MAX])
{
    static const char more[] = "...";
    size_t room = NET_QUOTE_MAX - sizeof more, n = length < room ? length : room;
    // Do not split a character.
    while (n < length && n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    for (size_t i = 0; i < n; i++)
        ret[i] = text[i] ? text[i] : '?';
    snprintf(ret + n, NET_QUOTE_MAX - n, "%s", n < length ? more : "");
    text_sanitize(ret);
}

int net_check_characters(const char *text, size_t length, struct err *e)
{
    static const struct {
        char c;
        const char *name;
    } known[] = {{'\0', "a NUL byte"},
                 {'\r', "a line break"},
                 {'\n', "a line break"},
                 {'\t', "a tab"},
                 {' ', "a blank"}};
    char shown[NET_QUOTE_MAX];
    net_quote(text, length, shown);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        const char *what = c < ' ' || c == 0x7f ? "a control character" : NULL;
        for (size_t k = 0; k < ARRAY_LEN(known); k++)
            if (text[i] == known[k].c)
                what = known[k].name;
        if (what)
            return err_set(e, ERR_BAD_VALUE, 0,
                           "write the host alone, such as 'api.example.org:443'",
                           "'%s' has %s in it", shown, what);
    }
    if (utf8_valid_length(text, length) != length)
        return err_set(e, ERR_BAD_VALUE, 0,
                       "write the name in UTF-8, or as the DNS has it (xn--...)",
                       "'%s' is not UTF-8", shown);
    return 0;
}

// ---- one spelling -------------------------------------------------------------------------------

static int refuse(struct err *e, const char *hint, const char *shown, const char *what)
{
    return err_set(e, ERR_BAD_VALUE, 0, hint, "'%s' is not the name of a host: %s", shown, what);
}

// Labels of letters, digits, '-' and '_' in lower case, without the trailing dot.
static int check_labels(const char *name, const char *shown, struct err *e)
{
    static const char dots[] =
        "write the labels with one dot between them, such as 'api.example.org'";
    size_t length = strlen(name);
    if (length == 0)
        return refuse(e, "write a name such as 'api.example.org'", shown, "it is empty");
    if (length > NET_HOST_MAX)
        return refuse(e, "names have at most 253 characters, in the form with xn--", shown,
                      "it is too long");
    for (const char *label = name;; label++) {
        size_t n = strcspn(label, ".");
        if (n == 0)
            return refuse(
                e, label == name ? "for all names below a domain write '*.example.org'" : dots,
                shown, "a label is empty");
        if (n > LABEL_MAX)
            return refuse(e, "labels have at most 63 characters, in the form with xn--", shown,
                          "a label is too long");
        if (label[0] == '-' || label[n - 1] == '-')
            return refuse(e, "remove the '-', or put it inside the label", shown,
                          "a label begins or ends with '-'");
        for (size_t i = 0; i < n; i++)
            if (!((label[i] >= 'a' && label[i] <= 'z') || (label[i] >= '0' && label[i] <= '9') ||
                  label[i] == '-' || label[i] == '_'))
                return refuse(e, "names have letters, digits, '-', '_' and dots only", shown,
                              "it has a character that names cannot have");
        label += n;
        if (!*label)
            return 0;
    }
}

// SECURITY: much software reads 0x7f.1 and 2130706433 as 127.0.0.1; here they would be names.
// Digits of other scripts have become ASCII by now.
static int check_not_numeric(const char *name, const char *shown, struct err *e)
{
    struct in_addr in;
    char meant[INET_ADDRSTRLEN];
    if (!net_name_is_numeric(name))
        return 0;
    (void)err_set(e, ERR_BAD_VALUE, 0,
                  "names do not end in a number; write addresses as '192.0.2.7'",
                  "'%s' is not the name of a host: other software takes it for an address", shown);
    if (inet_aton(name, &in) && inet_ntop(AF_INET, &in, meant, sizeof meant))
        err_hint(e, "write '%s' if that address is meant; names do not end in a number", meant);
    return -1;
}

static bool needs_idna(const char *name)
{
    bool start = true;
    for (; *name; name++) {
        if ((unsigned char)*name >= 0x80 || (start && strncmp(name, "xn--", 4) == 0))
            return true;
        start = *name == '.';
    }
    return false;
}

// To A-labels; existing A-labels must match their U-labels.  Fails when the result reaches
// NET_NAME_MAX.
static int to_ascii(char name[NET_NAME_MAX + 1], const char *shown, struct err *e)
{
    uint8_t *out = NULL;
    int r = idn2_lookup_u8((const uint8_t *)name, &out, IDN2_NONTRANSITIONAL | IDN2_NFC_INPUT);
    if (r == IDN2_MALLOC)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read the name '%s'", shown);
    if (r == IDN2_TOO_BIG_DOMAIN || r == IDN2_TOO_BIG_LABEL)
        return refuse(e, "labels have at most 63 characters and names 253, in the form with xn--",
                      shown, "it is too long");
    if (r != IDN2_OK || !out)
        return err_set(e, ERR_BAD_VALUE, 0, "see whether the name is spelt as its owner spells it",
                       "'%s' is not the name of a host: IDNA: %s", shown, idn2_strerror(r));
    int n = snprintf(name, NET_NAME_MAX + 1, "%s", (const char *)out);
    idn2_free(out);
    if (n < 0 || n > NET_NAME_MAX)
        return refuse(e, NULL, shown, "it is too long");
    return 0;
}

static void lower(char *s)
{
    for (; *s; s++)
        if (*s >= 'A' && *s <= 'Z')
            *s += 'a' - 'A';
}

int net_host_normalise(const char *text, size_t length, char ret[NET_HOST_MAX + 1], struct err *e)
{
    char name[NET_NAME_MAX + 1], shown[NET_QUOTE_MAX];
    net_quote(text, length, shown);
    if (length > NET_NAME_MAX)
        return refuse(e, "names have at most 253 characters, in the form with xn--", shown,
                      "it is too long");
    if (net_check_characters(text, length, e) < 0)
        return -1;
    memcpy(name, text, length);
    name[length] = '\0';
    lower(name);
    if (needs_idna(name)) {
        int r = to_ascii(name, shown, e);
        if (r < 0)
            return r;
        lower(name);
    }
    size_t n = strlen(name);
    if (n > 1 && name[n - 1] == '.')
        name[--n] = '\0';
    if (check_labels(name, shown, e) < 0 || check_not_numeric(name, shown, e) < 0)
        return -1;
    memcpy(ret, name, n + 1);
    return 0;
}
