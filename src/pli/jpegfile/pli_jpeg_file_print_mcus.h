/* pli_jpeg_file_print_mcus.h - writes MCUs of a sequential scan as bits: the one loop that every
 * CPU level compiles for itself. */
#ifndef PST_PLI_JPEG_FILE_PRINT_MCUS_H
#define PST_PLI_JPEG_FILE_PRINT_MCUS_H

#include "pli/jpegfile/pli_jpeg_file_print.h"

/* Adds coefficient number `next` with the zeros before it. The coefficient that was written before
 * it has number k - 1. */
PSTI_JPEG_INLINE void psti_pli_jpeg_add_coef(struct psti_jpeg_sink *s,
                                             const struct psti_jpeg_encoder_table *table,
                                             const int16_t *block, uint32_t k, uint32_t next)
{
    uint32_t run = next - k;
    for (; __builtin_expect(run > 15, 0); run -= 16) {
        psti_pli_jpeg_flush(s);
        psti_pli_jpeg_add_any(s, table, 15, 0);
        psti_pli_jpeg_flush(s);
    }
    psti_pli_jpeg_add_any(s, table, run, block[next]);
}

/* Writes the AC coefficients of a block. `left` is a mask of the nonzero ones. Two coefficients fit
 * between flushes. `zeros` codes of 16 zeros end the block. */
PSTI_JPEG_INLINE void psti_pli_jpeg_put_ac(struct psti_jpeg_sink *s,
                                           const struct psti_jpeg_encoder_table *table,
                                           const int16_t *block, uint64_t left, uint32_t zeros)
{
    uint32_t k = 1; /* number of the coefficient after the last one written */
    for (left &= ~(uint64_t)1; left; left &= left - 1) {
        uint32_t next = (uint32_t)__builtin_ctzll(left);
        psti_pli_jpeg_add_coef(s, table, block, k, next);
        k = next + 1;
        left &= left - 1;
        if (left == 0)
            break;
        next = (uint32_t)__builtin_ctzll(left);
        psti_pli_jpeg_add_coef(s, table, block, k, next);
        psti_pli_jpeg_flush(s);
        k = next + 1;
    }
    k += 16 * zeros;
    for (; __builtin_expect(zeros > 0, 0); zeros--) {
        psti_pli_jpeg_flush(s);
        psti_pli_jpeg_add_any(s, table, 15, 0);
    }
    if (k < 64)
        psti_pli_jpeg_add_any(s, table, 0, 0);
    psti_pli_jpeg_flush(s);
}

PSTI_JPEG_INLINE void psti_pli_jpeg_print_mcus(struct psti_jpeg_printer *p, uint32_t row,
                                               uint32_t column, uint32_t n,
                                               uint64_t (*nonzeros)(const int16_t *block))
{
    struct psti_jpeg_sink sink = p->sink;
    struct psti_jpeg_steps steps;
    uint64_t position = p->position;
    psti_pli_jpeg_steps_begin(&steps, p->frame, &p->layout, row, column);
    for (uint32_t i = 0; i < n; i++) {
        if (!psti_pli_jpeg_has_room(p, sink.at)) {
            p->sink = sink;
            psti_pli_jpeg_drain(p);
            sink = p->sink;
        }
        for (uint32_t j = 0; j < p->layout.n_blocks; j++, position++) {
            const struct psti_jpeg_place *place = &p->layout.places[j];
            const int16_t *block = p->coefs[place->component] + steps.at[j];
            uint32_t zeros =
                position == p->event.position ? psti_pli_jpeg_zeros_at(p, position) : 0;
            int32_t difference = block[0] - p->predictions[place->slot];
            p->predictions[place->slot] = block[0];
            steps.at[j] += steps.step[j];
            psti_pli_jpeg_add_any(&sink, p->dc[place->slot], 0, difference);
            psti_pli_jpeg_flush(&sink);
            psti_pli_jpeg_put_ac(&sink, p->ac[place->slot], block, nonzeros(block), zeros);
        }
    }
    p->sink = sink;
}

#endif
