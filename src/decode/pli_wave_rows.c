/* pli_wave_rows.c - the wave decoder of AVX2 and of NEON, where they have no vectors.
 *
 * In: a unit with its rows of tokens; out: planes, or why there are none. Tokens get their raw
 * bits, then samples are made, rows of 32 lanes too, step by step. Turning columns into rows then
 * gives each lane's samples of all bands as one line, in which row y of plane p begins at 2 * (y %
 * 32) + 64 * (band of p and y): that is what the planes handed out describe. Pure functions, any
 * thread. */
#include "decode/pli_wave_rows.h"

#include "base/bits.h"
#include "base/fail.h"

#include <string.h>

#define ROOM "decode"

#define EIGHT 255, 255, 255, 255, 255, 255, 255, 255
const uint8_t psti_pli_wave_all_but_one[64] = {EIGHT, EIGHT, EIGHT, 255,   255,   255,   255,  255,
                                               255,   255,   0,     EIGHT, EIGHT, EIGHT, EIGHT};
const uint8_t psti_pli_wave_first_lanes[64] = {EIGHT, EIGHT, EIGHT, EIGHT};
const uint8_t psti_pli_wave_delay[WAVE_LANES] = {
    0,   254, 252, 250, 248, 246, 244, 242, 240, 238, 236, 234, 232, 230, 228, 226,
    224, 222, 220, 218, 216, 214, 212, 210, 208, 206, 204, 202, 200, 198, 196, 194};

bool psti_pli_wave_rows_fit(const struct psti_pli_wave_head *head)
{
    return head->n_coded == 0 ||
           (head->n_words <= WAVE_MAX_WORDS && head->raw_nbytes <= WAVE_MAX_RAW_NBYTES);
}

/* Gathers the unit's bits and finds the values of its tokens. */
static enum pst_status find_values(const struct psti_pli_wave_rows_level *level,
                                   struct psti_pli_wave_job *job, bool wide, struct pst_error *err)
{
    const struct psti_pli_wave_head *head = job->head;
    uint8_t *bits = job->memory->bits;
    uint64_t n_bits = 8 * ((uint64_t)head->raw_nbytes + PSTI_PLI_WAVE_STATE_NBYTES);
    memcpy(bits, head->raw, head->raw_nbytes);
    for (uint32_t l = 0; l < PSTI_PLI_LANES; l++)
        psti_store_u16(bits + head->raw_nbytes + 2 * (size_t)l, job->low[l]);
    memset(bits + head->raw_nbytes + PSTI_PLI_WAVE_STATE_NBYTES, 0, WAVE_BITS_BEHIND);
    if (level->values[wide](job, n_bits) > n_bits)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave unit lacks raw bits");
    return PST_OK;
}

static void show_lines(const struct psti_pli_wave_job *job, bool wide,
                       struct psti_pli_planes *planes)
{
    const struct psti_pli_wave_head *head = job->head;
    struct psti_pli_wave_memory *m = job->memory;
    size_t nbytes = wide ? 2 : 1;
    if (head->n_constant > 0 && wide)
        psti_pli_wave_place_planes_16(head, m->of_16.lines, WAVE_LINE + 2);
    else if (head->n_constant > 0)
        psti_pli_wave_place_planes(head, m->of_8.lines, WAVE_LINE + 2);
    *planes = (struct psti_pli_planes){
        .base = wide ? (const uint8_t *)m->of_16.lines : m->of_8.lines,
        .plane_step = 64 * nbytes * head->bands_per_plane,
        .band_step = 64 * nbytes,
        .row_step = nbytes * (WAVE_LINE + 2),
    };
}

enum pst_status psti_pli_wave_rows_finish(const struct psti_pli_wave_rows_level *level,
                                          struct psti_pli_wave_job *job,
                                          struct psti_pli_planes *planes, struct pst_error *err)
{
    bool wide = job->unit->bits == 16;
    if (job->head->n_coded > 0) {
        if (!job->ends)
            return psti_fail(err, PST_ERROR_CORRUPT, ROOM,
                             "wave unit's words do not end its states");
        enum pst_status status = find_values(level, job, wide, err);
        if (status != PST_OK)
            return status;
        level->rebuild[wide](job);
    }
    show_lines(job, wide, planes);
    return PST_OK;
}
