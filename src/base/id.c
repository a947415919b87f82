// SPDX-License-Identifier: Apache-2.0
//
// id: see id.h.

#include "base/id.h"

#include <sys/random.h>
#include <sys/types.h>

int id_new(char ret[ID_SIZE])
{
    unsigned char b[16];
    ret[0] = '\0';
    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
        return -1;
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    static const char digits[] = "0123456789abcdef";
    char *p = ret;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *p++ = '-';
        *p++ = digits[b[i] >> 4];
        *p++ = digits[b[i] & 15];
    }
    *p = '\0';
    return 0;
}
