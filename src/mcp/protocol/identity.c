// SPDX-License-Identifier: Apache-2.0
//
// identity: see identity.h.

#include "mcp/protocol/identity.h"

static const char png[] =
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAADAAAAAwAgMAAAAqbBEUAAAADFBMVEUAAAAUUy1St2D///9pPyR7AAAAAXRSTlMA"
    "QObYZgAAAQVJREFUeNq1kTFyxCAMRaHAxfam4Ah7CvYGZMbaQjcwp3Fh9ynMTFBullPkI+zEs1Wa0MAD6Ut8GfP3"
    "ZWm6nInSCWMW2eLxwCJSjycnhZ6ydfBCZuTa47hgH0XjbJ4MJZtXTalxJIq8a0ppcpMvDcLqIF2cKnDylbg+coMc"
    "eYsQy5Cz8wOb5YUXQNXosAaAK0PT8btHIbf7VgF3gJteGVsG3N0/WjBSG3x+hXQB/gURfptfwB0CgAhoorf3kNBj"
    "L4pOFkiwtqOwUU4qavzqBeZkhaHgq8XOsTsCE6b+bWMljRS7IUYts7yaH0sPR9VsOr02LstTyjmtNqDpMrpzclh0"
    "mfD/rG8G12vf76CJYwAAAABJRU5ErkJggg==";

json_t *mcp_icons_json(void)
{
    return json_pack("[{s:s, s:s, s:[s]}]", "src", png, "mimeType", "image/png", "sizes", "48x48");
}

json_t *mcp_server_info(enum mcp_version version)
{
    static json_t *infos[MCP_VERSION_MAX]; // made once for each revision, kept for good
    if (infos[version])
        return infos[version];
    json_t *info = json_pack("{s:s, s:s}", "name", "constrictor", "version", CONSTRICTOR_VERSION);
    if (version >= MCP_2025_06_18)
        (void)json_object_set_new(info, "title", json_string("Constrictor"));
    if (version >= MCP_2025_11_25) {
        (void)json_object_set_new(info, "description",
                                  json_string("Runs Python behind a kernel wall"));
        (void)json_object_set_new(info, "icons", mcp_icons_json());
    }
    return infos[version] = info;
}

json_t *mcp_server_mark(void)
{
    static json_t *mark;
    if (!mark)
        mark = json_pack("{s:s, s:s}", "name", "constrictor", "version", CONSTRICTOR_VERSION);
    return mark;
}
