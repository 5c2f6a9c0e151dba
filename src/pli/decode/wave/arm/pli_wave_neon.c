/* pli_wave_neon.c - the wave decoder with NEON: units of 8-bit samples.
 *
 * In and out: see pli_wave_int.h; plain C gives the same samples and statuses, and takes the units
 * that are not worth a road of their own: 16 bits, more words than the samples are worth. Pure
 * functions, any thread. Tokens first (pli_wave_neon_tokens_u8.c), the rest as pli_wave_common.c
 * says. */
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
