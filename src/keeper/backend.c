// SPDX-License-Identifier: Apache-2.0
//
// backend: see backend.h.

#include "keeper/backend.h"

#include "keeper/gvisor.h"

const struct backend *backend_of(enum box_kind kind)
{
    return kind & KIND_GVISOR ? &gvisor_backend : &native_backend;
}

int backend_choose(struct stock *s, const struct wire_acquire *m, enum box_kind *ret, struct err *e)
{
    const bool gvisor = m->limits.isolation == ISOLATION_GVISOR;
    int image = 0;
    *ret = (enum box_kind)((m->network ? KIND_NETWORK : KIND_PLAIN) |
                           (m->limits.readonly ? KIND_READONLY : KIND_PLAIN) |
                           (gvisor ? KIND_GVISOR : KIND_PLAIN));
    const struct backend *backend = backend_of(*ret);
    if (m->network && !backend->network)
        return err_set(e, ERR_BAD_VALUE, 0, "run it without network, or with --isolation native",
                       "isolation '%s' has no network", backend->name);
    if (m->limits.image[0] && !gvisor)
        return err_set(e, ERR_BAD_VALUE, 0, "ask for isolation gvisor too",
                       "an image needs isolation 'gvisor'");
    if (m->wheel_files && gvisor)
        return err_set(e, ERR_PROTOCOL, 0, NULL, "the installer has a native box");
    int r = backend->check ? backend->check(s, e) : 0;
    if (r == 0 && m->limits.image[0])
        r = image = gvisor_image(s, m->limits.image, e);
    *ret = (enum box_kind)(*ret | image * KIND_IMAGE);
    return r < 0 ? r : 0;
}

uint32_t stock_target(const struct stock *s, enum box_kind kind)
{
    return kind & KIND_GVISOR && s->target > GVISOR_STOCK_MAX ? GVISOR_STOCK_MAX : s->target;
}
