// SPDX-License-Identifier: Apache-2.0
//
// result_isolation: what holds the box of a run, as its result says it: see result.h.

#include "run/result.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "json/whole.h"

json_t *result_isolation(const struct caps *caps)
{
    json_t *o = json_object();
    int failed = 0;
    for (int i = 0; i < LAYER_MAX; i++) {
        char text[CAPS_TEXT_MAX + 16];
        caps_describe(caps, (enum layer)i, text, sizeof text);
        text_sanitize(text);
        failed |= json_object_set_new(o, layers[i].name, json_string(text));
    }
    return json_whole(o, failed);
}

json_t *result_sandbox(const struct caps *caps)
{
    static const enum layer of_host[] = {LAYER_cgroup, LAYER_uid};
    json_t *o = json_object();
    int failed = 0;
    for (int i = 0; i < LAYER_MAX; i++)
        failed |= json_object_set_new(o, layers[i].name, json_string("live: gVisor"));
    failed |= json_object_set_new(o, "landlock", json_string("missing: gVisor has none"));
    for (size_t i = 0; i < ARRAY_LEN(of_host); i++) {
        char text[CAPS_TEXT_MAX + 16];
        caps_describe(caps, of_host[i], text, sizeof text);
        text_sanitize(text);
        failed |= json_object_set_new(o, layers[of_host[i]].name, json_string(text));
    }
    failed |= json_object_set_new(o, "gvisor", json_string("live: systrap"));
    return json_whole(o, failed);
}
