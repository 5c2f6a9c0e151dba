/* pli_jpeg_file_read_mcus.h - reads MCUs of a sequential scan from bits: the one loop that every
 * CPU level compiles for itself.
 *
 * Most codes, together with the bits of their values, fit in PSTI_JPEG_QUICK_BITS. For these codes
 * one look-up gives the coefficient, its position in the block, and the number of bits to drop. The
 * buffer of bits is refilled once for several look-ups. */
#ifndef PST_PLI_JPEG_FILE_READ_MCUS_H
#define PST_PLI_JPEG_FILE_READ_MCUS_H

#include "pli/jpegfile/pli_jpeg_file_scan.h"

#include <string.h>

/* Returns whether `v` and -v both fit 16 bits; then a later bit of the coefficient fits, too. */
PSTI_JPEG_INLINE bool psti_pli_jpeg_fits_16(int32_t v) { return v >= -INT16_MAX && v <= INT16_MAX; }

/* Returns the next code in the form of an entry of `codes`, if its entry is not quick; 0 if there
 * is no code. */
PSTI_JPEG_INLINE uint32_t psti_pli_jpeg_slow_code(uint64_t buffer, uint32_t entry,
                                                  const struct psti_jpeg_decoder_table *table)
{
    uint32_t length = entry & 63, symbol = entry >> 16 & 255;
    return length > 0 ? length << 16 | symbol << 8 | (length + (symbol & 15))
                      : psti_pli_jpeg_find_long_code(buffer, table);
}

/* Reads the next DC into `prediction`, which holds the DC before it. */
PSTI_JPEG_INLINE enum psti_jpeg_trouble psti_pli_jpeg_next_dc(
    struct psti_jpeg_bits *b, const struct psti_jpeg_decoder_table *table, int32_t *prediction)
{
    psti_pli_jpeg_refill(b);
    uint32_t entry = table->quick[b->buffer >> (64 - PSTI_JPEG_QUICK_BITS)];
    if (__builtin_expect((entry & PSTI_JPEG_SLOW) == 0, 1)) {
        *prediction += (int32_t)entry >> 16;
        psti_pli_jpeg_drop(b, entry & 63);
    } else {
        uint32_t code = psti_pli_jpeg_slow_code(b->buffer, entry, table), size = code >> 8 & 15;
        if (code == 0)
            return PSTI_JPEG_BAD_CODE;
        if (size > 0)
            *prediction += psti_pli_jpeg_value(b->buffer << (code >> 16), size);
        psti_pli_jpeg_drop(b, code & 63);
    }
    return psti_pli_jpeg_fits_16(*prediction) ? PSTI_JPEG_FINE : PSTI_JPEG_BAD_RANGE;
}

/* Returns how many codes of 16 zeros follow the last coefficient of the block. `end` is the number
 * of the coefficient after these zeros, and may be above 64. */
static inline uint32_t psti_pli_jpeg_zeros_before(const int16_t *block, size_t end)
{
    size_t k = end > 64 ? 64 : end;
    while (k > 1 && block[k - 1] == 0)
        k--;
    return (uint32_t)(end - k) / 16;
}

/* A block that is being read. */
struct psti_jpeg_part {
    int16_t *block;
    size_t k;       /* number of the next coefficient */
    uint32_t zeros; /* number of codes of 16 zeros since the last coefficient */
    enum psti_jpeg_trouble trouble;
};

/* Reads a code whose entry is slow. Returns false if the block has ended or is invalid. */
PSTI_JPEG_INLINE bool psti_pli_jpeg_next_slow(struct psti_jpeg_bits *b, uint32_t entry,
                                              const struct psti_jpeg_decoder_table *table,
                                              struct psti_jpeg_part *part)
{
    int16_t *block = part->block;
    psti_pli_jpeg_refill(b);
    uint32_t code = psti_pli_jpeg_slow_code(b->buffer, entry, table), symbol = code >> 8 & 255;
    if (code == 0) {
        part->trouble = PSTI_JPEG_BAD_CODE;
        return false;
    }
    uint64_t behind = b->buffer << (code >> 16);
    if ((symbol & 15) != 0) {
        part->k += symbol >> 4;
        if (part->k > 63) {
            part->trouble = PSTI_JPEG_BAD_RUN;
            return false;
        }
        block[part->k++] = (int16_t)psti_pli_jpeg_value(behind, symbol & 15);
        psti_pli_jpeg_drop(b, code & 63);
        return part->k < 64;
    }
    psti_pli_jpeg_drop(b, code & 63);
    if (symbol == 0xF0) {
        part->k += 16;
        if (part->k < 64)
            return true;
    } else if (symbol != 0) {
        part->trouble = PSTI_JPEG_ODD_CODE;
    }
    part->zeros = psti_pli_jpeg_zeros_before(block, part->k);
    return false;
}

/* Handles a quick entry (a value or zeros) after which the block is full or too long. `next` is the
 * coefficient after the entry. */
PSTI_JPEG_INLINE void psti_pli_jpeg_next_last(struct psti_jpeg_bits *b, uint32_t entry, size_t next,
                                              struct psti_jpeg_part *part)
{
    if (entry >> 16 == 0)
        part->zeros = psti_pli_jpeg_zeros_before(part->block, next);
    else if (next == 64)
        part->block[63] = (int16_t)(entry >> 16);
    else
        part->trouble = PSTI_JPEG_BAD_RUN;
    if (part->trouble == PSTI_JPEG_FINE)
        psti_pli_jpeg_drop(b, entry & 63);
}

/* Reads the AC coefficients of a block, which was cleared before. */
PSTI_JPEG_INLINE void psti_pli_jpeg_next_ac(struct psti_jpeg_bits *bits,
                                            const struct psti_jpeg_decoder_table *table,
                                            struct psti_jpeg_part *part)
{
    struct psti_jpeg_bits b = *bits;
    uint32_t entry;
    size_t next;
    for (;;) {
        psti_pli_jpeg_refill(&b);
#pragma GCC unroll 5
        for (uint32_t i = 0; i < PSTI_JPEG_QUICK_STEPS; i++) {
            entry = table->quick[b.buffer >> (64 - PSTI_JPEG_QUICK_BITS)];
            next = part->k + (entry >> 8 & 255);
            if (__builtin_expect(next > 63, 0))
                break;
            part->block[next - 1] = (int16_t)(entry >> 16);
            b.buffer <<= entry & 63;
            b.count -= entry; /* only the lowest bits of the sum matter */
            part->k = next;
        }
        if (next < 64)
            continue;
        b.count &= 63;
        if ((entry & PSTI_JPEG_SLOW) == 0) {
            psti_pli_jpeg_next_last(&b, entry, next, part);
            break;
        }
        if (__builtin_expect(entry >> 16 == 0 && (entry & 63) != 0, 1)) { /* an end of block */
            psti_pli_jpeg_drop(&b, entry & 63);
            if (part->k > 1 && part->block[part->k - 1] == 0)
                part->zeros = psti_pli_jpeg_zeros_before(part->block, part->k);
            break;
        }
        if (!psti_pli_jpeg_next_slow(&b, entry, table, part))
            break;
    }
    *bits = b;
}

/* Clears the blocks of `n` MCUs from `column` on, one row of blocks after another. */
static inline void psti_pli_jpeg_clear_mcus(const struct psti_jpeg_reader *r, uint32_t row,
                                            uint32_t column, uint32_t n)
{
    for (uint32_t j = 0; j < r->layout.n_blocks; j++) {
        const struct psti_jpeg_place *place = &r->layout.places[j];
        if (place->x == 0)
            memset(psti_pli_jpeg_read_block(r, place, row, column), 0,
                   (size_t)n * place->h * 64 * sizeof(int16_t));
    }
}

PSTI_JPEG_INLINE enum psti_jpeg_trouble psti_pli_jpeg_read_mcus(struct psti_jpeg_reader *r,
                                                                uint32_t row, uint32_t column,
                                                                uint32_t n)
{
    /* MCUs that are cleared at a time: their memory is then still in the caches when they are
     * read */
    enum { CLEARED = 4 };
    struct psti_jpeg_bits bits = r->bits;
    enum psti_jpeg_trouble trouble = PSTI_JPEG_FINE;
    struct psti_jpeg_steps steps;
    uint64_t position = r->position;
    psti_pli_jpeg_steps_begin(&steps, r->frame, &r->layout, row, column);
    for (uint32_t i = 0; i < n && trouble == PSTI_JPEG_FINE; i++) {
        if (i % CLEARED == 0)
            psti_pli_jpeg_clear_mcus(r, row, column + i, n - i < CLEARED ? n - i : CLEARED);
        for (uint32_t j = 0; j < r->layout.n_blocks; j++, position++) {
            const struct psti_jpeg_place *place = &r->layout.places[j];
            struct psti_jpeg_part part = {.block = r->coefs[place->component] + steps.at[j],
                                          .k = 1};
            steps.at[j] += steps.step[j];
            int32_t *prediction = &r->predictions[place->slot];
            trouble = psti_pli_jpeg_next_dc(&bits, r->dc[place->slot], prediction);
            if (trouble != PSTI_JPEG_FINE)
                break;
            psti_pli_jpeg_next_ac(&bits, r->ac[place->slot], &part);
            trouble = part.trouble;
            if (trouble == PSTI_JPEG_FINE && bits.at > bits.limit)
                trouble = PSTI_JPEG_NO_DATA;
            part.block[0] = (int16_t)*prediction;
            if (__builtin_expect(part.zeros > 0, 0) && trouble == PSTI_JPEG_FINE &&
                !psti_pli_jpeg_add_event(&r->events, position,
                                         (uint8_t)(PSTI_JPEG_EVENT_ZEROS + part.zeros - 1)))
                trouble = PSTI_JPEG_ODD_DATA;
            if (trouble != PSTI_JPEG_FINE)
                break;
        }
    }
    r->bits = bits;
    return trouble;
}

#endif
