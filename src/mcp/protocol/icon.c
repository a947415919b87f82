// SPDX-License-Identifier: Apache-2.0
//
// icon: see icon.h.

#include "mcp/protocol/icon.h"

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
