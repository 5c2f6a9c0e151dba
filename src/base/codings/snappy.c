/* snappy.c - decodes raw Snappy, as specified in google/snappy's format_description.txt.
 *
 * In: a length in 7-bit groups, then elements: literal bytes, or copies of bytes decoded before.
 * Out: exactly the bytes that the caller expects. No allocation, any thread. The input is not
 * trusted: before each element is decoded, its lengths are compared with the bytes left in input
 * and output. If both have 16 bytes left, 16 are copied at once, and the next element overwrites
 * the surplus. */
#include "base/codings/codings.h"

#include "base/bits.h"

#include <stdbool.h>
#include <string.h>

static const char cut_short[] = "the Snappy bytes end early";
static const char outside[] = "the Snappy bytes copy from before their beginning";
static const char more[] = "the Snappy bytes hold more than is stated";

enum { WIDE = 16 };

struct snappy {
    const uint8_t *in, *in_end;
    uint8_t *out, *begin, *end;
};

/* Reads the length at the start of the data. Returns false if it is not a valid number of at most
 * 32 bits. */
static bool read_length(struct snappy *snappy, uint64_t *length)
{
    *length = 0;
    for (unsigned shift = 0; shift < 35 && snappy->in < snappy->in_end; shift += 7) {
        uint8_t byte = *snappy->in++;
        *length |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return *length <= UINT32_MAX;
    }
    return false;
}

static const char *put_literal(struct snappy *snappy, uint8_t tag)
{
    size_t n = tag >> 2;
    if (n >= 60) {
        size_t n_bytes = n - 59, value = 0;
        if ((size_t)(snappy->in_end - snappy->in) < n_bytes)
            return cut_short;
        for (size_t i = 0; i < n_bytes; i++)
            value |= (size_t)*snappy->in++ << (8 * i);
        n = value;
    }
    size_t left = (size_t)(snappy->in_end - snappy->in);
    size_t room = (size_t)(snappy->end - snappy->out);
    n++;
    if (n > room)
        return more;
    if (n > left)
        return cut_short;
    if (n <= WIDE && left >= WIDE && room >= WIDE)
        memcpy(snappy->out, snappy->in, WIDE);
    else
        memcpy(snappy->out, snappy->in, n);
    snappy->in += n;
    snappy->out += n;
    return NULL;
}

/* Copies n bytes from `offset` bytes before the output position. The ranges may overlap: bytes that
 * were just written are copied again. */
static const char *put_copy(struct snappy *snappy, size_t n, size_t offset)
{
    size_t room = (size_t)(snappy->end - snappy->out);
    uint8_t *to = snappy->out;
    if (offset == 0 || offset > (size_t)(to - snappy->begin))
        return outside;
    const uint8_t *from = to - offset;
    if (n > room)
        return more;
    snappy->out += n;
    if (offset >= WIDE && room >= n + WIDE) {
        for (size_t i = 0; i < n; i += WIDE)
            memcpy(to + i, from + i, WIDE);
        return NULL;
    }
    if (offset >= n) {
        memcpy(to, from, n);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        to[i] = from[i];
    return NULL;
}

/* Decodes one element. */
static const char *step(struct snappy *snappy)
{
    static const uint8_t n_of_kind[] = {0, 1, 2, 4}; /* bytes after the tag, by kind of element */
    uint8_t tag = *snappy->in++, kind = tag & 3;
    if (kind == 0)
        return put_literal(snappy, tag);
    if (snappy->in_end - snappy->in < n_of_kind[kind])
        return cut_short;
    size_t n = (size_t)(tag >> 2) + 1, offset;
    if (kind == 1) {
        n = (size_t)((tag >> 2) & 7) + 4;
        offset = (size_t)(tag >> 5) << 8 | *snappy->in;
    } else {
        offset = kind == 2 ? psti_load_u16(snappy->in) : psti_load_u32(snappy->in);
    }
    snappy->in += n_of_kind[kind];
    return put_copy(snappy, n, offset);
}

const char *psti_snappy_decode(const uint8_t *in, size_t n_in, uint8_t *out, size_t n_out)
{
    struct snappy snappy = {in, in + n_in, out, out, out + n_out};
    const char *problem = NULL;
    uint64_t length;
    if (!read_length(&snappy, &length))
        return "the Snappy bytes begin with no length";
    if (length != n_out)
        return "the Snappy bytes state another length";
    while (problem == NULL && snappy.in < snappy.in_end)
        problem = step(&snappy);
    if (problem == NULL && snappy.out < snappy.end)
        problem = cut_short;
    return problem;
}
