/* pli_jpeg_file_direct_mcus.h - the loops that read MCUs of a sequential scan into planes, or skip
 * them. Every CPU level compiles them for itself.
 *
 * They differ from those of pli_jpeg_file_read_mcus.h in what they do not keep: events, and the
 * coefficients of skipped blocks. Of a skipped block only the DC counts, which is the prediction of
 * the next one; so one look-up passes all codes that are whole in the next bits. */
#ifndef PST_PLI_JPEG_FILE_DIRECT_MCUS_H
#define PST_PLI_JPEG_FILE_DIRECT_MCUS_H

#include "pli/jpegfile/pli_jpeg_file_direct.h"
#include "pli/jpegfile/pli_jpeg_file_read_mcus.h"

/* A block that is being read or skipped. */
struct psti_jpeg_lane {
    int16_t *coefs; /* NULL if the block is skipped */
    size_t k;       /* number of the next coefficient; 64 after the last one */
    uint32_t last;  /* number of the last stored coefficient */
    enum psti_jpeg_trouble trouble;
};

PSTI_JPEG_INLINE void psti_pli_jpeg_lane_store(struct psti_jpeg_lane *lane, size_t k, int32_t value)
{
    if (lane->coefs)
        lane->coefs[k * PSTI_JPEG_LANES] = (int16_t)value;
}

/* Takes one code that is not quick, or after which the block is full. Returns false if the block
 * has ended or is not regular. */
PSTI_JPEG_INLINE bool psti_pli_jpeg_lane_slow(struct psti_jpeg_bits *b, uint32_t entry,
                                              const struct psti_jpeg_decoder_table *table,
                                              struct psti_jpeg_lane *lane)
{
    psti_pli_jpeg_refill(b);
    if ((entry & PSTI_JPEG_SLOW) == 0) { /* the block is full */
        size_t next = lane->k + (entry >> 8 & 255);
        psti_pli_jpeg_drop(b, entry & 63);
        if (entry >> 16 == 0) /* 16 zeros up to the end or beyond it */
            return false;
        lane->trouble = next == 64 ? PSTI_JPEG_FINE : PSTI_JPEG_BAD_RUN;
        if (next == 64) {
            psti_pli_jpeg_lane_store(lane, 63, (int32_t)entry >> 16);
            lane->last = 63;
        }
        return false;
    }
    uint32_t code = psti_pli_jpeg_slow_code(b->buffer, entry, table), symbol = code >> 8 & 255;
    if (code == 0) {
        lane->trouble = PSTI_JPEG_BAD_CODE;
        return false;
    }
    uint64_t behind = b->buffer << (code >> 16);
    psti_pli_jpeg_drop(b, code & 63);
    if ((symbol & 15) == 0) {
        lane->k += 16;
        if (symbol != 0 && symbol != 0xF0)
            lane->trouble = PSTI_JPEG_ODD_CODE;
        return symbol == 0xF0 && lane->k < 64;
    }
    lane->k += symbol >> 4;
    if (lane->k > 63) {
        lane->trouble = PSTI_JPEG_BAD_RUN;
        return false;
    }
    psti_pli_jpeg_lane_store(lane, lane->k, psti_pli_jpeg_value(behind, symbol & 15));
    lane->last = (uint32_t)lane->k++;
    return lane->k < 64;
}

/* Reads the AC coefficients of a block. */
PSTI_JPEG_INLINE void psti_pli_jpeg_lane_read(struct psti_jpeg_bits *bits,
                                              const struct psti_jpeg_decoder_table *table,
                                              const struct psti_jpeg_pair_table *pairs,
                                              struct psti_jpeg_lane *lane)
{
    struct psti_jpeg_bits b = *bits;
    uint32_t entry;
    size_t next;
    for (;;) {
        psti_pli_jpeg_refill(&b);
#pragma GCC unroll 5
        for (uint32_t i = 0; i < PSTI_JPEG_QUICK_STEPS; i++) {
            const uint64_t pair = pairs->entries[b.buffer >> (64 - PSTI_JPEG_QUICK_BITS)];
            int16_t *to = lane->coefs + (lane->k - 1) * PSTI_JPEG_LANES;
            next = lane->k + (pair >> 8 & 255);
            if (__builtin_expect(next > 63, 0))
                break;
            to[(pair >> 16 & 255) * PSTI_JPEG_LANES] = (int16_t)(pair >> 32);
            lane->coefs[(next - 1) * PSTI_JPEG_LANES] = (int16_t)(pair >> 48);
            b.buffer <<= pair & 63;
            b.count -= (uint32_t)pair; /* only the lowest bits of the sum matter */
            lane->k = next;
        }
        if (next < 64)
            continue;
        b.count &= 63;
        lane->last = (uint32_t)lane->k - 1;
        entry = table->quick[b.buffer >> (64 - PSTI_JPEG_QUICK_BITS)];
        if (__builtin_expect(entry >> 16 == 0 && (entry & PSTI_JPEG_SLOW) != 0 && (entry & 63) != 0,
                             1)) {
            psti_pli_jpeg_drop(&b, entry & 63); /* an end of block */
            break;
        }
        next = lane->k + (entry >> 8 & 255);
        if (next < 64) { /* the first of two codes */
            lane->coefs[(next - 1) * PSTI_JPEG_LANES] = (int16_t)(entry >> 16);
            psti_pli_jpeg_drop(&b, entry & 63);
            lane->k = next;
        } else if (!psti_pli_jpeg_lane_slow(&b, entry, table, lane)) {
            break;
        }
    }
    *bits = b;
}

/* Skips the AC coefficients of a block. */
PSTI_JPEG_INLINE void psti_pli_jpeg_lane_skip(struct psti_jpeg_bits *bits,
                                              const struct psti_jpeg_decoder_table *table,
                                              const struct psti_jpeg_skip_table *skip,
                                              struct psti_jpeg_lane *lane)
{
    struct psti_jpeg_bits b = *bits;
    uint32_t entry;
    size_t next;
    for (;;) {
        psti_pli_jpeg_refill(&b);
#pragma GCC unroll 5
        for (uint32_t i = 0; i < PSTI_JPEG_QUICK_STEPS; i++) {
            entry = skip->entries[b.buffer >> (64 - PSTI_JPEG_QUICK_BITS)];
            next = lane->k + (entry >> 8);
            if (__builtin_expect(next > 63, 0))
                break;
            b.buffer <<= entry & 63;
            b.count -= entry; /* only the lowest bits of the sum matter */
            lane->k = next;
        }
        if (next < 64)
            continue;
        b.count &= 63;
        /* Without an end of block next is at most 127, or, with PSTI_JPEG_SKIP_NONE, above 255. */
        if (__builtin_expect(next >= PSTI_JPEG_SKIP_ENDS && next < PSTI_JPEG_SKIP_ENDS + 64, 1)) {
            psti_pli_jpeg_drop(&b, entry & 63);
            break;
        }
        entry = table->quick[b.buffer >> (64 - PSTI_JPEG_QUICK_BITS)];
        next = lane->k + (entry >> 8 & 255);
        if (next < 64) { /* the first of several codes */
            psti_pli_jpeg_drop(&b, entry & 63);
            lane->k = next;
        } else if (!psti_pli_jpeg_lane_slow(&b, entry, table, lane)) {
            break;
        }
    }
    *bits = b;
}

/* Reads or skips MCUs. */
PSTI_JPEG_INLINE uint32_t psti_pli_jpeg_direct_mcus(struct psti_jpeg_direct *r, uint32_t n,
                                                    bool skips)
{
    struct psti_jpeg_bits bits = r->bits;
    enum psti_jpeg_trouble trouble = PSTI_JPEG_FINE;
    uint32_t i = 0;
    for (; i < n && bits.at <= r->low && trouble == PSTI_JPEG_FINE; i++)
        for (uint32_t j = 0; j < r->n_blocks; j++) {
            uint32_t c = r->component[j];
            struct psti_jpeg_lane lane = {.coefs = skips ? NULL : r->lanes[j], .k = 1};
            int32_t *prediction = &r->predictions[c];
            trouble = psti_pli_jpeg_next_dc(&bits, r->dc[c], prediction);
            if (trouble != PSTI_JPEG_FINE)
                break;
            if (skips) {
                psti_pli_jpeg_lane_skip(&bits, r->ac[c], r->skip[c], &lane);
            } else {
                lane.coefs[0] = (int16_t)*prediction;
                psti_pli_jpeg_lane_read(&bits, r->ac[c], r->pairs[c], &lane);
                r->lanes[j] += r->steps[j];
                r->last[c] = r->last[c] > lane.last ? r->last[c] : lane.last;
            }
            trouble = lane.trouble;
            if (trouble == PSTI_JPEG_FINE && bits.at > bits.limit)
                trouble = PSTI_JPEG_NO_DATA;
            if (trouble != PSTI_JPEG_FINE)
                break;
        }
    r->bits = bits;
    r->trouble = trouble;
    return i;
}

#endif
