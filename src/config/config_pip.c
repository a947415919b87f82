// SPDX-License-Identifier: Apache-2.0
//
// config_pip: the package index that the operator has told pip: PIP_INDEX_URL, PIP_EXTRA_INDEX_URL,
// and pip.conf of the machine, the user and the virtual environment of --python.  Read only when
// neither index-url nor extra-index-url is set, so that an index of the operator's is never mixed
// with another.  Runs in the first process, before any fork; net/login.h takes passwords out of the
// addresses afterwards.

#include "config/config.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { PIP_FILE_MAX = 64 * 1024, URLS_MAX = 4096 };

// pip's order: a later file wins, then [install] wins over [global], then the environment.
enum section { GLOBAL, INSTALL, SECTION_MAX, OTHER = SECTION_MAX };

struct pip {
    char url[SECTION_MAX][URLS_MAX], extra[SECTION_MAX][URLS_MAX];
};

// SECURITY: root's HOME may be another user's (sudo -E), who could name an index of packages for
// all clients, and its address inside the network.  So root reads files of root alone.  A pipe or a
// device must not block the start.
static bool read_trusted(const char *path, char *text)
{
    struct stat st;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        (st.st_uid != 0 && st.st_uid != geteuid()) || (geteuid() == 0 && st.st_mode & 022))
        return false;
    ssize_t n = read(fd, text, PIP_FILE_MAX - 1);
    if (n < 0)
        return false;
    text[n] = '\0';
    return true;
}

static char *trim(char *s)
{
    s += strspn(s, " \t\r");
    size_t n = strlen(s);
    while (n && strchr(" \t\r", s[n - 1]))
        s[--n] = '\0';
    return s;
}

static void keep(char *target, const char *value, bool more)
{
    size_t had = more ? strlen(target) : 0;
    if (strlen(value) + had + 2 <= URLS_MAX)
        snprintf(target + had, URLS_MAX - had, "%s%s", had ? " " : "", value);
}

static enum section section_of(const char *line)
{
    return strcmp(line, "[global]") == 0    ? GLOBAL
           : strcmp(line, "[install]") == 0 ? INSTALL
                                            : OTHER;
}

// A line that begins with a blank continues the value before it.
static void read_ini(struct pip *p, char *text)
{
    enum section section = OTHER;
    char *target = NULL;
    for (char *save, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        bool goes_on = line[0] == ' ' || line[0] == '\t';
        char *s = trim(line), *value = s + strcspn(s, "=:");
        if (!*s || *s == '#' || *s == ';')
            continue;
        if (*s == '[') {
            section = section_of(s);
            target = NULL;
        } else if (goes_on) {
            if (target)
                keep(target, s, true);
        } else {
            if (*value)
                *value++ = '\0';
            for (char *c = s; *c; c++)
                *c = *c == '_' ? '-' : *c;
            s = trim(s);
            target = section == OTHER                    ? NULL
                     : strcmp(s, "index-url") == 0       ? p->url[section]
                     : strcmp(s, "extra-index-url") == 0 ? p->extra[section]
                                                         : NULL;
            if (target)
                keep(target, trim(value), false);
        }
    }
}

static void read_file(struct pip *p, char *text, const char *folder, const char *rest)
{
    char path[PATH_MAX];
    if (folder && folder[0] == '/' &&
        (size_t)snprintf(path, sizeof path, "%s%s", folder, rest) < sizeof path &&
        read_trusted(path, text))
        read_ini(p, text);
}

// The folder of a virtual environment, two above its interpreter.
static bool venv_of(const char *python, char ret[PATH_MAX])
{
    if (python[0] != '/' || (size_t)snprintf(ret, PATH_MAX, "%s", python) >= PATH_MAX)
        return false;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(ret, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
    return ret[0] == '/';
}

static void read_files(struct pip *p, const char *python)
{
    const char *named = getenv("PIP_CONFIG_FILE"), *home = getenv("HOME"),
               *config = getenv("XDG_CONFIG_HOME");
    char venv[PATH_MAX];
    _cleanup_free_ char *text = malloc(PIP_FILE_MAX);
    if (!text || (named && strcmp(named, "/dev/null") == 0)) // pip reads none then
        return;
    read_file(p, text, "/etc", "/xdg/pip/pip.conf");
    read_file(p, text, "/etc", "/pip.conf");
    read_file(p, text, home, "/.pip/pip.conf");
    if (config && config[0])
        read_file(p, text, config, "/pip/pip.conf");
    else
        read_file(p, text, home, "/.config/pip/pip.conf");
    if (venv_of(python, venv))
        read_file(p, text, venv, "/pip.conf");
    read_file(p, text, named, "");
}

static const char *strongest(const char *variable, char found[SECTION_MAX][URLS_MAX])
{
    const char *value = getenv(variable);
    return value && value[0] ? value : found[INSTALL][0] ? found[INSTALL] : found[GLOBAL];
}

static bool is_web(const char *url)
{
    return strncmp(url, "https://", 8) == 0 || strncmp(url, "http://", 7) == 0;
}

// Of one index, or several with blanks between them; others than of the web are left out.
static size_t take(struct config *c, enum config_key key, const char *value)
{
    size_t taken = 0;
    char url[URLS_MAX];
    struct err ignored;
    while (*(value += strspn(value, " \t\r\n"))) {
        size_t n = strcspn(value, " \t\r\n");
        snprintf(url, sizeof url, "%.*s", (int)n, value);
        if (is_web(url) &&
            config_set(c, key, url, (struct config_origin){.source = CONFIG_FROM_PIP}, &ignored) ==
                0)
            taken++;
        value += n;
    }
    return taken;
}

void config_read_pip(struct config *c)
{
    if (c->index_url[0] || c->extra_index_urls.count || c->offline)
        return;
    _cleanup_free_ struct pip *p = calloc(1, sizeof *p);
    if (!p)
        return;
    read_files(p, c->python);
    const char *url = strongest("PIP_INDEX_URL", p->url);
    // SECURITY: an index that is not of the web (file:) cannot be used; to ask another one in its
    // place would install other people's packages of the same names.
    if (url[0] && !take(c, CONFIG_KEY_index_url, url))
        c->offline = true;
    else
        (void)take(c, CONFIG_KEY_extra_index_urls, strongest("PIP_EXTRA_INDEX_URL", p->extra));
    explicit_bzero(p, sizeof *p);
}
