/* pli_wave_predict.c - residuals of a plane under a prediction (docs/format-pli.md, 5.3).
 *
 * Neighbours are gathered once for 16 rows and then serve all candidates. Written from the law, not
 * from the decoder, and in rows where that works in diagonals: each checks the other. */
#include "encode/pli_wave_encode_int.h"

#include <string.h>

#define NAME(x) x##_8
#define LANE int16_t
#define SAMPLE uint8_t
#define SIGNED int8_t
#define BITS 8
#include "encode/pli_wave_predict.h"
#undef NAME
#undef LANE
#undef SAMPLE
#undef SIGNED
#undef BITS

#define NAME(x) x##_16
#define LANE int32_t
#define SAMPLE uint16_t
#define SIGNED int16_t
#define BITS 16
#include "encode/pli_wave_predict.h"

void psti_wave_gather(const struct psti_pli_source *source, uint32_t plane, uint32_t y0,
                      struct psti_wave_work *work)
{
    const void *samples = source->planes[plane];
    /* The start sample is the first one itself: its residual is 0. */
    if (source->bits == 8)
        gather_8(samples, source->width, source->height, y0, &work->near.of_8);
    else
        gather_16(samples, source->width, source->height, y0, &work->near.of_16);
}

void psti_wave_try(const struct psti_pli_source *source,
                   const struct psti_wave_candidate *candidate, uint32_t n_rows, const int16_t *g,
                   const int16_t *r, const struct psti_wave_work *work, int16_t *out)
{
    if (source->bits == 8)
        try_8(&work->near.of_8, candidate, n_rows, g, r, out);
    else
        try_16(&work->near.of_16, candidate, n_rows, g, r, out);
}
