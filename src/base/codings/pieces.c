/* pieces.c - joins the parts of a record of RecordIO (dmlc/recordio.h).
 *
 * Whoever writes a record cuts it where it holds the magic number at a multiple of 4, and leaves
 * that number out: between two parts it is put back. In: the parts with their headers. Out: the
 * record. No memory, any thread. */
#include "base/codings/codings.h"

#include "base/bits.h"

#include <stdbool.h>
#include <string.h>

#define MAGIC UINT32_C(0xced7230a)
enum { WHOLE = 0, FIRST = 1, MIDDLE = 2, LAST = 3, HEADER_NBYTES = 8 };
#define LENGTH_MASK ((UINT32_C(1) << 29) - 1)

const char *psti_pieces_join(const uint8_t *in, size_t n_in, uint8_t *out, size_t n_out)
{
    static const char longer[] = "the parts of the record hold more than is stated";
    size_t at = 0, n = 0;
    for (uint32_t before = LAST; at < n_in;) {
        if (n_in - at < HEADER_NBYTES)
            return "the parts of the record end within a header";
        uint32_t word = psti_load_u32(in + at + 4), kind = word >> 29;
        size_t nbytes = word & LENGTH_MASK, padded = (nbytes + 3) & ~(size_t)3;
        if (psti_load_u32(in + at) != MAGIC)
            return "a part of the record does not begin with the number that all begin with";
        at += HEADER_NBYTES;
        if (n_in - at < padded)
            return "a part of the record ends early";
        bool begins = kind == WHOLE || kind == FIRST, is_first = n == 0 && at == HEADER_NBYTES;
        if (kind > LAST || begins != is_first || (!begins && before != FIRST && before != MIDDLE))
            return "the parts of the record are not in order";
        if (!begins) {
            if (n_out - n < 4)
                return longer;
            psti_store_u32(out + n, MAGIC);
            n += 4;
        }
        if (n_out - n < nbytes)
            return longer;
        if (nbytes > 0)
            memcpy(out + n, in + at, nbytes);
        n += nbytes;
        at += padded;
        before = kind;
        if ((kind == WHOLE || kind == LAST) && at < n_in)
            return "more follows the last part of the record";
        if ((kind == FIRST || kind == MIDDLE) && at == n_in)
            return "the last part of the record is missing";
    }
    if (n_in == 0)
        return "the record has no parts";
    return n < n_out ? "the parts of the record hold less than is stated" : NULL;
}
