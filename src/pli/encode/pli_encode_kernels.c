/* pli_encode_kernels.c - the encoder's kernels by CPU level. Only this file chooses a level.
 *
 * A level that lacks a kernel has the one of plain C. The tables are constant; any thread may use
 * them. */
#include "pli/encode/pli_encode_kernels.h"

#include "base/machine/cpu.h"

static const struct psti_pli_encode_kernels kernels_c = {
    .split_green = psti_pli_split_green_u8_c,
    .packed_rows_u8 = &psti_packed_rows_c,
    .packed_rows_u16 = &psti_packed_rows_c,
    .wave_u8 = {.rows = &psti_wave_rows_u8_c,
                .price_filters = psti_pli_wave_price_filters_c,
                .find_activities = psti_pli_wave_find_activities_u8_c,
                .put_records = psti_pli_wave_put_records_u8_c,
                .cost = psti_pli_wave_cost_u8_c},
    .wave_u16 = {.rows = &psti_wave_rows_u16_c,
                 .price_filters = psti_pli_wave_price_filters_u16_c,
                 .find_activities = psti_pli_wave_find_activities_u16_c,
                 .put_records = psti_pli_wave_put_records_u16_c,
                 .cost = psti_pli_wave_cost_u16_c},
    .coefs = &psti_je_kernels_c,
};

#if defined(__x86_64__)
static const struct psti_pli_encode_kernels kernels_avx2 = {
    .split_green = psti_pli_split_green_u8_avx2,
    .add_changes = psti_pli_add_changes_u8_avx2,
    .packed_rows_u8 = &psti_packed_rows_u8_avx2,
    .packed_rows_u16 = &psti_packed_rows_c,
    .wave_u8 = {.rows = &psti_wave_rows_u8_avx2,
                .price_filters = psti_pli_wave_price_filters_avx2,
                .find_activities = psti_pli_wave_find_activities_u8_avx2,
                .put_records = psti_pli_wave_put_records_u8_avx2,
                .cost = psti_pli_wave_cost_u8_avx2,
                .find_slots = psti_pli_wave_find_slots_avx2,
                .write_slots = psti_pli_wave_write_bits_avx2,
                .code_slots = psti_pli_wave_code_avx2},
    .wave_u16 = {.rows = &psti_wave_rows_u16_avx2,
                 .price_filters = psti_pli_wave_price_filters_u16_avx2,
                 .find_activities = psti_pli_wave_find_activities_u16_avx2,
                 .put_records = psti_pli_wave_put_records_u16_avx2,
                 .cost = psti_pli_wave_cost_u16_c,
                 .find_slots = psti_pli_wave_find_slots_avx2,
                 .write_slots = psti_pli_wave_write_bits_u16_avx2,
                 .code_slots = psti_pli_wave_code_u16_avx2},
    .coefs = &psti_je_kernels_avx2,
};
#endif

const struct psti_pli_encode_kernels *psti_pli_encode_kernels_of(uint32_t cpu)
{
#if defined(__x86_64__)
    if (cpu & PSTI_CPU_AVX2)
        return &kernels_avx2;
#endif
    (void)cpu;
    return &kernels_c;
}
