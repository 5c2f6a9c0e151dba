/* pieces.c - joins the parts of a RecordIO record (dmlc/recordio.h).
 *
 * RecordIO marks the start of a record by a magic number at a multiple of 4. A writer splits a
 * record wherever its data hold that number at a multiple of 4, and leaves the number out, so that
 * readers do not see a false start. This code puts the number back between two parts. The item is
 * the end of the record; the bytes before it are the record's own header. In: the parts with their
 * headers. Out: the item. No allocation, any thread. */
#include "base/codings/codings.h"

#include "base/bits.h"

#include <stdbool.h>
#include <string.h>

#define MAGIC UINT32_C(0xced7230a)
enum { WHOLE = 0, FIRST = 1, MIDDLE = 2, LAST = 3, HEADER_NBYTES = 8 };
#define LENGTH_MASK ((UINT32_C(1) << 29) - 1)

/* Checks the parts, and sets *n to the number of bytes of the joined record. */
static const char *measure(const uint8_t *in, size_t n_in, size_t *n)
{
    *n = 0;
    for (size_t at = 0, i = 0; at < n_in; i++) {
        if (n_in - at < HEADER_NBYTES)
            return "the parts of the record end within a header";
        uint32_t word = psti_load_u32(in + at + 4), kind = word >> 29;
        size_t nbytes = word & LENGTH_MASK, padded = (nbytes + 3) & ~(size_t)3;
        bool begins = kind == WHOLE || kind == FIRST, ends = kind == WHOLE || kind == LAST;
        if (psti_load_u32(in + at) != MAGIC)
            return "a part of the record does not begin with the number that all begin with";
        at += HEADER_NBYTES;
        if (n_in - at < padded)
            return "a part of the record ends early";
        at += padded;
        if (kind > LAST || begins != (i == 0))
            return "the parts of the record are not in order";
        if (ends && at < n_in)
            return "more follows the last part of the record";
        if (!ends && at == n_in)
            return "the last part of the record is missing";
        *n += nbytes + (begins ? 0 : 4);
    }
    return n_in == 0 ? "the record has no parts" : NULL;
}

/* Appends n bytes of the record to the item, without the first *n_skip bytes of the record. Returns
 * the address for the item's next byte. */
static uint8_t *put(uint8_t *out, const uint8_t *bytes, size_t n, size_t *n_skip)
{
    size_t skipped = n < *n_skip ? n : *n_skip;
    *n_skip -= skipped;
    if (n > skipped)
        memcpy(out, bytes + skipped, n - skipped);
    return out + (n - skipped);
}

const char *psti_pieces_join(const uint8_t *in, size_t n_in, uint8_t *out, size_t n_out)
{
    size_t n = 0;
    const char *problem = measure(in, n_in, &n);
    if (problem == NULL && n < n_out)
        problem = "the parts of the record hold less than is stated";
    if (problem != NULL)
        return problem;
    size_t n_skip = n - n_out;
    uint8_t magic[4];
    psti_store_u32(magic, MAGIC);
    for (size_t at = 0; at < n_in;) {
        size_t nbytes = psti_load_u32(in + at + 4) & LENGTH_MASK;
        if (at > 0)
            out = put(out, magic, 4, &n_skip);
        out = put(out, in + at + HEADER_NBYTES, nbytes, &n_skip);
        at += HEADER_NBYTES + ((nbytes + 3) & ~(size_t)3);
    }
    return NULL;
}
