/* cuda_tables.c - tables and constants of PLI's wave mode, written for kernels to read.
 *
 * The model block of an image is hostile and checked here, by the parser that the CPU's decoder
 * has: kernels trust tables. Pure; any thread. */
#include "cuda/cuda_tables.h"

#include "format/format_pli_wave.h"

#include <string.h>

_Static_assert((int)PSTI_CUDA_WAVE_CONTEXTS == (int)PSTI_PLI_N_CONTEXTS, "contexts");
_Static_assert((int)PSTI_CUDA_WAVE_TOKENS > (int)PSTI_PLI_N_TOKENS, "tokens");
_Static_assert((int)PSTI_CUDA_WAVE_FILTERS == (int)PSTI_PLI_N_FILTERS + 1, "filters");
_Static_assert((int)PSTI_CUDA_WAVE_PLANE_PX == (int)PSTI_PLI_WAVE_EDGE * PSTI_PLI_WAVE_EDGE,
               "units");

enum pst_status psti_cuda_wave_tables_write(const uint8_t *block, size_t nbytes, uint32_t bits,
                                            struct psti_cuda_wave_tables *to, struct pst_error *err)
{
    struct psti_pli_wave_freqs freqs;
    enum pst_status status = psti_pli_wave_parse_model(block, nbytes, bits, &freqs, err);
    if (status != PST_OK)
        return status;
    for (uint32_t c = 0; c < PSTI_CUDA_WAVE_CONTEXTS; c++) {
        uint32_t sum = 0;
        for (uint32_t token = 0; token < PSTI_CUDA_WAVE_TOKENS; token++) {
            to->first[c][token] = (uint16_t)sum;
            sum += token < PSTI_PLI_N_TOKENS ? freqs.f[c][token] : 0;
        }
    }
    return PST_OK;
}

static uint32_t four(int a, int b, int c, int d)
{
    return (uint32_t)(uint8_t)a | (uint32_t)(uint8_t)b << 8 | (uint32_t)(uint8_t)c << 16 |
           (uint32_t)(uint8_t)d << 24;
}

void psti_cuda_wave_constants_write(struct psti_cuda_wave_constants *to)
{
    memset(to, 0, sizeof *to);
    for (uint32_t i = 0; i < 2; i++) {
        /* Built-in tables are no block that could be wrong. */
        enum pst_status status =
            psti_cuda_wave_tables_write(NULL, 0, i == 0 ? 8 : 16, &to->built_in[i], NULL);
        (void)status;
    }
    for (uint32_t list = 0; list < PSTI_CUDA_WAVE_LISTS; list++)
        for (uint32_t i = 0; i < PSTI_PLI_N_FILTERS; i++) {
            const struct psti_pli_filter *f = &psti_pli_filters[list][i];
            /* Differences to L, taken together. */
            int l = 32 - f->k[0] - f->k[1] - f->k[2] - f->k[3] - f->k[4];
            to->filters[list][i + 1] = (struct psti_cuda_wave_filter){
                four(f->k[2], f->k[0], f->k[1], f->k[3]), four(l, f->k[4], f->a, f->b)};
        }
    memcpy(to->bucket, psti_pli_wave_bucket, sizeof to->bucket);
}
