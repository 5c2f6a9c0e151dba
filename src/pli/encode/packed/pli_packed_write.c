/* pli_packed_write.c - writes a unit of mode packed as bytes (docs/format-pli.md, section 4):
 * records, widths and data of coded planes. Pure; any thread. */
#include "pli/encode/packed/pli_packed_encode.h"

#include "base/bits.h"

#include <string.h>

/* Writes bytes, and bits after them. Bytes that do not fit are counted, but not written. */
struct writer {
    uint8_t *out;
    size_t capacity, nbytes;
    uint64_t bits; /* bits that are not written yet, and their number n_bits, below 8 */
    uint32_t n_bits;
};

static void put_byte(struct writer *w, uint32_t v)
{
    if (w->nbytes < w->capacity)
        w->out[w->nbytes] = (uint8_t)v;
    w->nbytes++;
}

static void put_number(struct writer *w, uint32_t v, uint32_t nbytes)
{
    for (uint32_t k = 0; k < nbytes; k++)
        put_byte(w, v >> 8 * k);
}

/* Writes at most 56 bits. */
static void put_bits(struct writer *w, uint64_t v, uint32_t n)
{
    w->bits |= v << w->n_bits;
    w->n_bits += n;
    if (w->nbytes + 8 <= w->capacity) {
        psti_store_u64(w->out + w->nbytes, w->bits);
        w->nbytes += w->n_bits >> 3;
        w->bits >>= w->n_bits & ~7u;
        w->n_bits &= 7;
        return;
    }
    for (; w->n_bits >= 8; w->n_bits -= 8, w->bits >>= 8)
        put_byte(w, (uint32_t)w->bits & UINT8_MAX);
}

static void pad_bits(struct writer *w)
{
    if (w->n_bits > 0)
        put_bits(w, 0, 8 - w->n_bits);
}

static void put_record(struct writer *w, const struct psti_pli_source *source, uint32_t p,
                       const struct psti_packed_coded *coded)
{
    uint32_t numbers = 0;
    for (uint32_t k = 0; k < 4 && !coded->is_constant; k++)
        numbers |= (uint32_t)coded->predictor[k] << 4 * k;
    put_number(w, numbers, 2);
    put_number(w, coded->start, source->bits / 8u);
    if (coded->is_constant)
        return;
    for (uint32_t k = 0; k < psti_pli_packed_n_taps(source->transform, p); k++)
        put_byte(w, (uint8_t)coded->tap[k]);
    put_byte(w, coded->first_width);
}

/* Lists for all groups the difference of the width from that of the group above. Returns the number
 * of groups. */
static uint32_t list_steps(const struct psti_pli_source *source,
                           const struct psti_packed_coded *coded, int8_t *steps)
{
    uint32_t groups = (source->width + 7) / 8, n = 0;
    for (uint32_t p = 0; p < source->channels; p++)
        for (uint32_t y = 0; y < source->height && !coded[p].is_constant; y++)
            for (uint32_t g = 0; g < groups; g++) {
                uint8_t above = y ? coded[p].widths[y - 1][g] : coded[p].first_width;
                steps[n++] = (int8_t)(coded[p].widths[y][g] - above);
            }
    return n;
}

/* Writes the run of bits for size `size` (section 4.3). Keeps only the groups with a 1 in `steps`,
 * and returns their number. */
static uint32_t put_sizes(struct writer *w, int8_t *steps, uint32_t n, int size)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n;) {
        uint32_t end = n - i < 32 ? n : i + 32, first = i;
        uint64_t bits = 0;
        for (; i < end; i++) {
            int8_t step = steps[i];
            bool reaches = step >= size || step <= -size;
            bits |= (uint64_t)reaches << (i - first);
            steps[kept] = step;
            kept += reaches;
        }
        put_bits(w, bits, end - first);
    }
    return kept;
}

static void put_widths(struct writer *w, const struct psti_pli_source *source,
                       const struct psti_packed_coded *coded)
{
    int8_t steps[4 * PSTI_PACKED_EDGE * PSTI_PACKED_ROW_GROUPS];
    uint32_t n = list_steps(source, coded, steps);
    n = put_sizes(w, steps, n, 1);
    for (uint32_t i = 0; i < n; i++)
        put_bits(w, steps[i] < 0, 1);
    for (int size = 2; n > 0; size++)
        n = put_sizes(w, steps, n, size);
    pad_bits(w);
}

/* Joins four numbers of `width` bits. */
static uint64_t four(const int16_t *residuals, uint32_t width)
{
    uint64_t mask = (UINT64_C(1) << width) - 1;
    return ((uint16_t)residuals[0] & mask) | ((uint16_t)residuals[1] & mask) << width |
           ((uint16_t)residuals[2] & mask) << 2 * width |
           ((uint16_t)residuals[3] & mask) << 3 * width;
}

/* Writes a group of `width` bytes. No bits may be pending. */
static void put_group(struct writer *w, const int16_t *residuals, uint32_t width)
{
    uint64_t first = four(residuals, width), second = four(residuals + 4, width), bytes[2];
    bytes[0] = first | (width < 16 ? second << 4 * width : 0);
    bytes[1] = width == 16 ? second : width > 8 ? second >> (64 - 4 * width) : 0;
    if (w->nbytes + sizeof bytes <= w->capacity)
        memcpy(w->out + w->nbytes, bytes, sizeof bytes);
    else if (w->nbytes + width <= w->capacity)
        memcpy(w->out + w->nbytes, bytes, width);
    w->nbytes += width;
}

size_t psti_pli_packed_write(const struct psti_pli_source *source,
                             const struct psti_packed_coded *coded, uint8_t *out, size_t capacity)
{
    struct writer w = {.out = out, .capacity = capacity};
    put_byte(&w, PSTI_PLI_PACKED);
    for (uint32_t p = 0; p < source->channels; p++)
        put_record(&w, source, p, &coded[p]);
    put_widths(&w, source, coded);
    for (uint32_t p = 0; p < source->channels; p++)
        for (uint32_t y = 0; y < source->height && !coded[p].is_constant; y++)
            for (uint32_t g = 0; g < (source->width + 7) / 8; g++)
                put_group(&w, &coded[p].residuals[y][8 * g], coded[p].widths[y][g]);
    return w.nbytes <= capacity ? w.nbytes : 0;
}
