/* pli_wave_common.c - the parts of the AVX2 and NEON wave decoders that use no vectors.
 *
 * The input is a unit whose tokens are decoded, in rows of 32 lanes; the output is planes of
 * samples. First tokens, signs and raw bits become residuals. Then samples are made step by step,
 * also in rows of 32 lanes. A transposition joins each lane's samples of all bands to a line, in
 * which row y of plane p begins at 2 * (y % 32) + 64 * (band of p and y). The returned planes point
 * into these lines. The functions are pure; any thread may call them. */
#include "pli/decode/wave/pli_wave_common.h"

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

bool psti_pli_wave_rows_fit(const struct psti_pli_unit *unit, const struct psti_pli_wave_head *head)
{
    size_t most = unit->bits == 8 ? WAVE_MAX_WORDS_8 : WAVE_MAX_WORDS;
    return head->n_coded == 0 || (head->n_words <= most && head->raw_nbytes <= WAVE_MAX_RAW_NBYTES);
}

/* -- Bands -- */

static void find_lanes_below(uint32_t n, uint8_t mask[WAVE_LANES])
{
    memcpy(mask, psti_pli_wave_first_lanes + 32 - (n < 32 ? n : 32), WAVE_LANES);
}

void psti_pli_wave_rows_open_bands(const struct psti_pli_wave_job *job,
                                   struct psti_pli_wave_band bands[WAVE_BANDS])
{
    const struct psti_pli_wave_head *head = job->head;
    memset(bands, 0, WAVE_BANDS * sizeof *bands);
    for (uint32_t k = 0; k < WAVE_BANDS; k++) {
        struct psti_pli_wave_band *band = bands + k;
        bool inside = k > 0 && k <= head->n_bands;
        uint32_t j = inside ? (k - 1) / head->bands_per_plane : 0;
        uint32_t part = inside ? (k - 1) % head->bands_per_plane : 0;
        memset(band->not_first, 255, sizeof band->not_first);
        memset(band->not_30, 255, sizeof band->not_30);
        memset(band->not_31, 255, sizeof band->not_31);
        if (part == 0)
            band->not_first[0] = band->not_30[14] = band->not_31[15] = 0;
        /* Lanes that are still in an earlier band here belong to the last plane. */
        if (k > head->n_bands) {
            memcpy(band->energy, band[-1].energy, sizeof band->energy);
            memcpy(band->used, band[-1].used, sizeof band->used);
            memcpy(band->doubled, band[-1].doubled, sizeof band->doubled);
            memcpy(band->third, band[-1].third, sizeof band->third);
        }
        if (!inside)
            continue;
        const struct psti_pli_wave_plane *plane = head->planes + j;
        find_lanes_below(job->unit->height - 32 * part, band->rows);
        bool second = plane->energy == PSTI_PLI_ENERGY_SECOND && plane->index0 >= 0;
        bool third = plane->energy == PSTI_PLI_ENERGY_THIRD && plane->index1 >= 0;
        memset(band->energy, plane->energy == PSTI_PLI_ENERGY_FIRST ? 255 : 0, WAVE_LANES);
        memset(band->used, second || third ? 255 : 0, WAVE_LANES);
        memset(band->doubled, third ? 255 : 0, WAVE_LANES);
        memset(band->third, plane->energy == PSTI_PLI_ENERGY_THIRD ? 255 : 0, WAVE_LANES);
    }
}

struct psti_pli_wave_shape psti_pli_wave_rows_shape(const struct psti_pli_wave_job *job,
                                                    const struct psti_pli_wave_band *bands,
                                                    uint32_t k)
{
    const struct psti_pli_wave_head *head = job->head;
    const struct psti_pli_wave_plane *front = psti_pli_wave_plane_of(head, k);
    const struct psti_pli_wave_plane *rear = k > 0 ? psti_pli_wave_plane_of(head, k - 1) : NULL;
    struct psti_pli_wave_shape shape = {.front = bands + k + 1};
    shape.whole = !job->tables->has_sure_tokens && job->unit->width == 64 &&
                  (job->unit->height & 31) == 0 && front && rear;
    front = front ? front : rear;
    rear = rear ? rear : front;
    shape.mixed = front->energy != rear->energy;
    shape.first = !shape.mixed && front->energy == PSTI_PLI_ENERGY_FIRST;
    shape.used = front->energy != PSTI_PLI_ENERGY_FIRST || rear->energy != PSTI_PLI_ENERGY_FIRST;
    return shape;
}

/* -- A whole unit -- */

/* Joins raw bytes and payload, and finds the residuals of the tokens. */
static enum pst_status find_values(const struct psti_pli_wave_rows_level *level,
                                   struct psti_pli_wave_job *job, bool wide, struct pst_error *err)
{
    const struct psti_pli_wave_head *head = job->head;
    uint8_t *bits = job->memory->bits;
    size_t nbytes = head->raw_nbytes + psti_pli_wave_state_nbytes(job->unit->bits);
    uint64_t n_bits = 8 * (uint64_t)nbytes;
    memcpy(bits, head->raw, head->raw_nbytes);
    for (uint32_t l = 0; l < PSTI_PLI_LANES; l++)
        if (wide)
            psti_store_u16(bits + head->raw_nbytes + 2 * (size_t)l, job->low[l]);
        else
            bits[head->raw_nbytes + l] = (uint8_t)job->low[l];
    memset(bits + nbytes, 0, WAVE_BITS_BEHIND);
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
        psti_pli_wave_place_planes_u16(head, m->of_u16.lines, WAVE_LINE + 2);
    else if (head->n_constant > 0)
        psti_pli_wave_place_planes(head, m->of_u8.lines, WAVE_LINE + 2);
    *planes = (struct psti_pli_planes){
        .base = wide ? (const uint8_t *)m->of_u16.lines : m->of_u8.lines,
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
