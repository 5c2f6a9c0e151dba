/* pli_wave_neon.c - the wave decoder with NEON.
 *
 * In and out: see pli_wave_int.h; plain C gives the same samples and statuses, and takes the units
 * that are not worth a road of their own: more words than the samples are worth. Pure functions,
 * any thread. Tokens first (pli_wave_neon_tokens_u8.c, pli_wave_neon_tokens_u16.c), the rest as
 * pli_wave_common.c says. */
#include "pli/decode/wave/arm/pli_wave_neon.h"

#if defined(PSTI_NEON)

static const struct psti_pli_wave_rows_level level = {
    .values = {psti_pli_wave_neon_residuals, psti_pli_wave_neon_residuals16},
    .rebuild = {psti_pli_wave_neon_rebuild, psti_pli_wave_neon_rebuild16},
};

enum pst_status psti_pli_wave_decode_neon(const struct psti_pli_unit *unit,
                                          struct psti_pli_wave_head *head,
                                          struct psti_pli_wave_tables *tables, void *work,
                                          struct psti_pli_planes *planes, struct pst_error *err)
{
    if (!psti_pli_wave_rows_fit(unit, head))
        return psti_pli_wave_decode_c(unit, head, tables, work, planes, err);
    struct psti_pli_wave_job job = {.unit = unit, .head = head, .tables = tables, .memory = work};
    if (head->n_coded > 0 && unit->bits == 8)
        psti_pli_wave_neon_tokens8(&job);
    else if (head->n_coded > 0)
        psti_pli_wave_neon_tokens(&job);
    return psti_pli_wave_rows_finish(&level, &job, planes, err);
}
#endif
