/* pli_encode_kernels.h - the kernels of the encoder, one table per CPU level.
 *
 * A table is chosen once per image (psti_pli_encode_kernels_of) and carried in the image and in
 * each unit. No other file of the encoder asks which processor it runs on. All levels write the
 * same bytes: plain C is the reference implementation, and tests compare the others with it. */
#ifndef PST_PLI_ENCODE_KERNELS_H
#define PST_PLI_ENCODE_KERNELS_H

#include "pli/encode/coefs/pli_jpeg_encode_int.h"
#include "pli/encode/packed/pli_packed_encode.h"
#include "pli/encode/pli_encode_int.h"
#include "pli/encode/pli_load.h"
#include "pli/encode/wave/pli_wave_encode_int.h"
#include "pli/encode/wave/pli_wave_filters.h"

/* Kernels of mode wave, for samples of 8 bits or of 16 bits. */
struct psti_wave_kernels {
    /* Loops that compute residuals of a plane's predictions, and their costs. */
    const struct psti_wave_rows *rows;
    /* Computes the cost of each filter for each block of 16 rows. */
    psti_wave_price_filters *price_filters;
    /* Computes activities from a row of residuals. */
    psti_wave_find_activities *find_activities;
    /* Computes activities and records of tokens from a plane's residuals. */
    psti_wave_put_records *put_records;
    /* Computes the cost of the tokens of activities. */
    psti_wave_cost *cost;
    /* The first function sorts records into 32 slots for each step, the second writes signs and raw
     * bits from the slots, the third writes words. All are NULL in plain C, which keeps the tokens
     * in a list (pli_wave_encode.c). */
    psti_wave_find_slots *find_slots;
    psti_wave_write_slots *write_slots;
    psti_wave_code_slots *code_slots;
};

struct psti_pli_encode_kernels {
    /* Kernels for RGB of 8 bits without gaps. The first splits pixels into planes. The second sums
     * the differences of neighbours, with green subtracted and without; if it is NULL, the sums are
     * made sample by sample. */
    psti_pli_split_green *split_green;
    psti_pli_add_changes *add_changes;
    /* Mode packed: residuals, widths and costs of rows, for samples of 8 bits and of 16. */
    const struct psti_packed_rows *packed_rows_u8, *packed_rows_u16;
    /* Mode wave, for samples of 8 bits and of 16. */
    struct psti_wave_kernels wave_u8, wave_u16;
    /* Content JPEG: kernels that make tokens, raw bits and words from coefficients. */
    const struct psti_je_kernels *coefs;
};

/* Returns the table of the highest level that `cpu` (PSTI_CPU_*) allows. */
const struct psti_pli_encode_kernels *psti_pli_encode_kernels_of(uint32_t cpu);

static inline const struct psti_wave_kernels *psti_pli_wave_kernels_of(
    const struct psti_pli_source *source)
{
    return source->bits == 8 ? &source->kernels->wave_u8 : &source->kernels->wave_u16;
}

#endif
