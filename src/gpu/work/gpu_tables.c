/* gpu_tables.c - tables and constants of PLI's wave mode (format-pli.md 5.8), written for kernels
 * to read.
 *
 * The model block of an image is hostile. The parser of the CPU's decoder checks it here, so
 * kernels can trust the tables. Pure; any thread. */
#include "gpu/work/gpu_tables.h"

#include "pli/format/pli_wave_format.h"

#include <string.h>

_Static_assert((int)PSTI_GPU_WAVE_CONTEXTS == (int)PSTI_PLI_N_CONTEXTS, "contexts");
_Static_assert((int)PSTI_GPU_WAVE_TOKENS > (int)PSTI_PLI_N_TOKENS, "tokens");
_Static_assert((int)PSTI_GPU_WAVE_FILTERS == (int)PSTI_PLI_N_FILTERS + 1, "filters");
_Static_assert(sizeof(struct psti_gpu_wave_pairs) == (size_t)PSTI_GPU_WAVE_PAIRS_NBYTES, "pairs");
_Static_assert((int)PSTI_GPU_WAVE_BUCKETS8_NBYTES > 4 * 7 * (int)PSTI_PLI_WAVE_ANY_ACTIVITY,
               "sums of activities");
_Static_assert((int)PSTI_GPU_WAVE_PLANE_PX == (int)PSTI_PLI_WAVE_EDGE * PSTI_PLI_WAVE_EDGE,
               "units");

enum pst_status psti_gpu_wave_tables_write(const uint8_t *block, size_t nbytes, uint32_t bits,
                                           struct psti_gpu_wave_tables *to, struct pst_error *err)
{
    struct psti_pli_wave_freqs freqs;
    enum pst_status status = psti_pli_wave_parse_model(block, nbytes, bits, &freqs, err);
    if (status != PST_OK)
        return status;
    for (uint32_t c = 0; c < PSTI_GPU_WAVE_CONTEXTS; c++) {
        uint32_t sum = 0;
        for (uint32_t token = 0; token < PSTI_GPU_WAVE_TOKENS; token++) {
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

static void write_pairs(struct psti_gpu_wave_pairs *to)
{
    for (uint32_t token = 0; token < PSTI_PLI_N_TOKENS_8; token++) {
        const uint32_t i = psti_pli_wave_activities[token] & 15;
        const uint32_t first_bits = psti_pli_wave_first_bits[token];
        const bool has_points = token > 0 && token < PSTI_PLI_WAVE_FIRST_SQUARE;
        const uint32_t base = psti_pli_wave_bases[token];
        to->activities[token] = psti_pli_wave_activities[token];
        to->first_bits[i] = (uint8_t)first_bits;
        to->second_bits[i] = psti_pli_wave_second_bits[token];
        to->first_masks[i] = (uint8_t)((1u << first_bits) - 1);
        to->second_masks[i] = (uint8_t)((1u << to->second_bits[i]) - 1);
        to->point_masks[i] = has_points ? to->first_masks[i] : 0;
        to->point_bases[i] = (uint8_t)(has_points ? base : PSTI_GPU_WAVE_POINTS);
        to->square_bases[i] = (uint8_t)base;
        for (uint32_t r = 0; has_points && r < 1u << first_bits; r++) {
            struct psti_pli_wave_pair pair = psti_pli_wave_find_pair(
                (struct psti_pli_wave_coded_pair){(uint8_t)token, (uint8_t)r, 0});
            to->points[4 * base + r] = (uint16_t)(pair.x | pair.y << 8);
        }
    }
}

void psti_gpu_wave_constants_write(struct psti_gpu_wave_constants *to)
{
    memset(to, 0, sizeof *to);
    for (uint32_t i = 0; i < 2; i++) {
        /* Built-in tables are correct, so nothing is checked here. */
        enum pst_status status =
            psti_gpu_wave_tables_write(NULL, 0, i == 0 ? 8 : 16, &to->built_in[i], NULL);
        (void)status;
    }
    for (uint32_t list = 0; list < PSTI_GPU_WAVE_LISTS; list++)
        for (uint32_t i = 0; i < PSTI_PLI_N_FILTERS; i++) {
            const struct psti_pli_filter *f = &psti_pli_filters[list][i];
            /* The weight of L is 32 (5.3) less the sum of the differences' coefficients. */
            int l = 32 - f->k[0] - f->k[1] - f->k[2] - f->k[3] - f->k[4];
            to->filters[list][i + 1] = (struct psti_gpu_wave_filter){
                four(f->k[2], f->k[0], f->k[1], f->k[3]), four(l, f->k[4], f->a, f->b)};
        }
    write_pairs(&to->pairs);
    memcpy(to->bucket, psti_pli_wave_bucket, sizeof to->bucket);
}
