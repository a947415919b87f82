// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of wire/frame: the input is a row of datagrams from a hostile box, each with its
// length (two bytes, low first) before it.  Built and run by `make fuzz`.

#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MAX = 1 << 16 }; // smaller than the gate's, so that its edge is reached
    // One that takes over from another gate leaves out what belongs to no beginning.
    struct frame_reader r = {.max = MAX, .resync = size && data[size - 1] & 1};
    size_t at = 0;
    while (size - at >= 2) {
        size_t n = (size_t)data[at] | (size_t)data[at + 1] << 8;
        at += 2;
        if (n > size - at)
            n = size - at;
        // A block of just its size, so that reading on is seen.
        char *datagram = malloc(n ? n : 1);
        if (!datagram)
            break;
        memcpy(datagram, data + at, n);
        at += n;
        // Half of a reader's life is a magic that no fuzzer guesses: it is given to it.
        struct frame_header h;
        if (n >= sizeof h && datagram[0] == 'F') {
            memcpy(&h, datagram, sizeof h);
            h.magic = FRAME_MAGIC;
            memcpy(datagram, &h, sizeof h);
        }
        int result = frame_reader_feed(&r, datagram, n);
        assert(result == 0 || result == 1 || result == -EBADMSG || result == -EMSGSIZE ||
               result == -ENOMEM);
        assert(r.total <= MAX && r.have <= r.total);
        if (r.resync) {
            assert(result <= 0 && !r.data);
        } else if (result >= 0) {
            assert(r.data && r.kind > 0 && r.kind < FRAME_KIND_MAX);
            assert((result == 1) == (r.have == r.total));
            unsigned sum = 0;
            for (uint32_t i = 0; i < r.have; i++)
                sum += (unsigned char)r.data[i];
            assert(sum <= 255 * r.have);
            // The last bytes of what was received are the payload of this datagram.
            size_t payload = n - sizeof h;
            assert(payload <= r.have);
            assert(memcmp(r.data + r.have - payload, datagram + sizeof h, payload) == 0);
        }
        free(datagram);
        if (result < 0)
            break; // the gate gives the box up
    }
    frame_reader_done(&r);
    assert(!r.data && r.max == MAX && r.total == 0);
    return 0;
}
