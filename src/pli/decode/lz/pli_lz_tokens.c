/* pli_lz_tokens.c - decodes words to tokens and samples of an lz unit, in plain C
 * (docs/format-pli.md, 6.2, 6.4, 6.5). In units of 8 lanes or more, AVX2 or NEON does most of the
 * steps, and this file does the last ones. */
#include "pli/decode/lz/pli_lz_tokens.h"

enum { VECTOR_LANES = 8 };

/* Decodes the next symbol of lane l. It never reads words past their end: a state that lacks a word
 * ends at a wrong value. Whether a state takes a word is nearly random, so there is no branch for
 * it. */
static inline uint8_t next_symbol(struct psti_lz_lanes *lanes, uint32_t l, const uint8_t *table,
                                  const uint32_t log2)
{
    uint32_t x = lanes->x[l];
    uint32_t entry = psti_load_u32(table + 4 * (size_t)(x & ((1u << log2) - 1)));
    x = (entry >> PSTI_LZ_FREQ_SHIFT & PSTI_LZ_FREQ_MASK) * (x >> log2) +
        (entry >> PSTI_LZ_PLACE_SHIFT);
    if (lanes->end - lanes->words >= 2) {
        uint32_t low = x < PSTI_LZ_STATE_LOW;
        x = x << 16 * low | (psti_load_u16(lanes->words) & (0 - low));
        lanes->words += 2 * low;
    }
    lanes->x[l] = x;
    return (uint8_t)entry;
}

/* Does one step of the first `active` lanes, each of which decodes three tokens. */
static void sequence_step(struct psti_lz_lanes *lanes, const struct psti_lz_sequence_tables *tables,
                          uint32_t active, uint8_t *endings, uint32_t *tokens)
{
    enum { LOG2 = PSTI_PLI_LZ_SEQUENCE_BITS };
    uint8_t codes[PSTI_LZ_LANES_MAX];
    for (uint32_t l = 0; l < active; l++)
        tokens[l] = next_symbol(lanes, l, tables->run[endings[l]], LOG2);
    for (uint32_t l = 0; l < active; l++) {
        uint32_t context = tokens[l] > 0 ? PSTI_PLI_LZ_OFFSET_AFTER_RUN : endings[l];
        codes[l] = next_symbol(lanes, l, tables->offset[context], LOG2);
        tokens[l] |= (uint32_t)codes[l] << 8;
    }
    for (uint32_t l = 0; l < active; l++) {
        const uint8_t *table = tables->length[psti_pli_lz_offset_class(codes[l])];
        uint32_t length = next_symbol(lanes, l, table, LOG2);
        tokens[l] |= length << 16;
        endings[l] = (uint8_t)psti_pli_lz_ending(codes[l], length);
    }
}

void psti_pli_lz_decode_sequences(const struct psti_lz_kernels *kernels,
                                  struct psti_lz_lanes *given,
                                  const struct psti_lz_sequence_tables *tables, uint32_t n,
                                  uint32_t *tokens)
{
    struct psti_lz_lanes lanes = *given;
    struct psti_pli_lz_share share = psti_pli_lz_share(n, lanes.n);
    uint8_t endings[PSTI_LZ_LANES_MAX];
    uint32_t t = 0;
    memset(endings, PSTI_PLI_LZ_ENDING_FIRST, sizeof endings);
    if (kernels->sequences && lanes.n >= VECTOR_LANES)
        t = kernels->sequences(&lanes, tables, share, tokens, endings);
    for (; t < share.per_lane; t++)
        sequence_step(&lanes, tables, psti_pli_lz_active(share, t), endings,
                      tokens + (size_t)t * lanes.n);
    *given = lanes;
}

void psti_pli_lz_decode_symbols(const struct psti_lz_kernels *kernels, struct psti_lz_lanes *given,
                                const uint8_t *table, uint32_t n, uint8_t *out)
{
    struct psti_lz_lanes lanes = *given;
    struct psti_pli_lz_share share = psti_pli_lz_share(n, lanes.n);
    uint32_t t = 0;
    if (kernels->symbols && lanes.n >= VECTOR_LANES)
        t = kernels->symbols(&lanes, table, share, out);
    for (; t < share.per_lane; t++) {
        uint32_t active = psti_pli_lz_active(share, t);
        for (uint32_t l = 0; l < active; l++)
            out[l * share.per_lane + t] = next_symbol(&lanes, l, table, PSTI_PLI_LZ_PIXEL_BITS);
    }
    *given = lanes;
}

void psti_pli_lz_decode_pixels(const struct psti_lz_kernels *kernels, struct psti_lz_lanes *given,
                               const struct psti_lz_pixels_to *to)
{
    struct psti_lz_lanes lanes = *given;
    struct psti_pli_lz_share share = psti_pli_lz_share(to->n, lanes.n);
    uint32_t t = 0;
    if (kernels->pixels && lanes.n >= VECTOR_LANES)
        t = kernels->pixels(&lanes, to, share);
    for (; t < share.per_lane; t++) {
        uint32_t active = psti_pli_lz_active(share, t);
        uint8_t *at[PSTI_LZ_LANES_MAX];
        for (uint32_t l = 0; l < active; l++)
            at[l] = psti_pli_lz_pixel_at(to, l * share.per_lane + t);
        for (uint32_t b = 0; b < to->pixel_nbytes; b++)
            for (uint32_t l = 0; l < active; l++)
                at[l][b] = next_symbol(&lanes, l, to->tables[b], PSTI_PLI_LZ_PIXEL_BITS);
        for (uint32_t l = 0; l < active && to->add_green; l++)
            psti_pli_lz_add_green(at[l]);
    }
    *given = lanes;
}

const struct psti_lz_kernels psti_lz_kernels_c = {.execute = psti_pli_lz_execute_c};
