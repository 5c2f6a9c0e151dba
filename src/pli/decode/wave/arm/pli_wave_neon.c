/* pli_wave_neon.c - the wave decoder with NEON, for units of 8-bit samples.
 *
 * pli_wave_int.h says what goes in and out. Plain C gives the same samples and statuses. Plain C
 * also decodes units for which NEON code would not pay: units of 16 bits, and units with more words
 * or raw bytes than the scratch holds. The tokens come first (pli_wave_neon_tokens_u8.c), then the
 * stages of pli_wave_common.c. The functions are pure; any thread may call them. */
#include "pli/decode/wave/arm/pli_wave_neon.h"

#if defined(PSTI_NEON)

static const struct psti_pli_wave_rows_level level = {
    .values = {psti_pli_wave_neon_residuals},
    .rebuild = {psti_pli_wave_neon_rebuild},
};

enum pst_status psti_pli_wave_decode_neon(const struct psti_pli_unit *unit,
                                          struct psti_pli_wave_head *head,
                                          struct psti_pli_wave_tables *tables, void *work,
                                          struct psti_pli_planes *planes, struct pst_error *err)
{
    if (unit->bits == 16 || !psti_pli_wave_rows_fit(unit, head))
        return psti_pli_wave_decode_c(unit, head, tables, work, planes, err);
    struct psti_pli_wave_job job = {.unit = unit, .head = head, .tables = tables, .memory = work};
    if (head->n_coded > 0)
        psti_pli_wave_neon_tokens(&job);
    return psti_pli_wave_rows_finish(&level, &job, planes, err);
}
#endif
