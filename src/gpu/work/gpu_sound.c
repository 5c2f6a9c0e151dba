/* gpu_sound.c - plans how a GPU makes the features of a field of sound: steps and tables.
 *
 * In: the chain. Out: the arguments of each step's launch, the same for all batches except for
 * addresses, and the tables as they lie on the GPU. Pure functions, any thread. */
#include "gpu/work/gpu_sound.h"

#include "gpu/work/gpu_block.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"

#include <stdio.h>
#include <string.h>

enum { VALUES_MAX = INT32_MAX / 4, TABLE_ALIGN = 64 };

/* Each operation is at most one change of values, and ends at most one step. */
_Static_assert((int)PSTI_GPU_SOUND_POINTS >= PST_AUDIO_MAX_OPS, "points of a chain");
_Static_assert((int)PSTI_GPU_LAUNCHES_MAX > PST_AUDIO_MAX_OPS, "launches of a chain");

/* A plan that is being made. */
struct planning {
    const struct psti_sound_chain *chain;
    struct psti_sound_features features;
    struct psti_gpu_sound *sound;
    struct psti_gpu_sound_args *step; /* the current one */
    size_t tables_at;                 /* end of the tables that have a place */
    size_t points_at;                 /* where the points of all steps are */
};

/* Tables
 * ------------------------------------------------------------------------------------------------
 */

static uint64_t place(struct planning *p, size_t n, size_t size)
{
    size_t at = p->tables_at;
    p->tables_at += psti_round_up(n * size, TABLE_ALIGN);
    return at;
}

/* Writes which sample each number of the FFT begins with: the digits of its place, in the FFT's
 * radices, in reverse order. */
static void write_order(const struct psti_sound_features *features, uint32_t *order)
{
    for (uint32_t i = 0; i < features->n_complex; i++) {
        uint32_t left = i, m = features->n_complex, from = 0, stride = 1;
        for (uint32_t k = 0; k < features->n_radices; k++) {
            m /= features->radices[k];
            from += left / m * stride;
            left %= m;
            stride *= features->radices[k];
        }
        order[i] = from;
    }
}

static void write_bands(const struct psti_sound_feature *mel, uint32_t *to)
{
    for (uint32_t m = 0; m < mel->n_bins; m++, to += 3) {
        to[0] = mel->bands[m].begin;
        to[1] = mel->bands[m].end;
        to[2] = mel->bands[m].at;
    }
}

/* Writes all tables to the places that the steps have for them. */
static void write_tables(const struct planning *p)
{
    const struct psti_sound_features *features = &p->features;
    const struct psti_gpu_sound_args *frames = &p->sound->steps[0], *step = frames;
    char *to = p->sound->tables;
    write_order(features, (uint32_t *)(void *)(to + frames->order));
    psti_sound_chain_twiddles(p->chain, (float *)(void *)(to + frames->twiddles),
                              (float *)(void *)(to + frames->last));
    memcpy(to + frames->points, p->sound->points, sizeof p->sound->points);
    memcpy(to + frames->window, features->window, frames->n_fft * sizeof(float));
    for (uint32_t i = 1; i < features->n; i++) {
        const struct psti_sound_feature *feature = &features->list[i];
        if (feature->op->kind == PST_AUDIO_OP_MEL) {
            write_bands(feature, (uint32_t *)(void *)(to + frames->bands));
            memcpy(to + frames->weights, feature->weights, feature->n_weights * sizeof(float));
        } else if (feature->op->kind == PST_AUDIO_OP_DCT) {
            while (!step->has_matrix)
                step++;
            memcpy(to + step->matrix, feature->dct,
                   (size_t)step->n_bins * step->n_before * sizeof(float));
            step++;
        }
    }
}

/* Steps
 * ------------------------------------------------------------------------------------------------
 */

/* Ends the current step and begins the next one. The values that a step stores are what the next
 * step loads. */
static void begin_step(struct planning *p)
{
    const struct psti_gpu_sound_args *before = p->step++;
    p->sound->n_steps++;
    *p->step = (struct psti_gpu_sound_args){
        .channels = before->channels,
        .n_frames = before->n_frames,
        .n_before = before->n_bins,
        .n_bins = before->n_bins,
        .from_largest = before->to_largest,
        .to_largest = PSTI_GPU_SOUND_NO_LARGEST,
        .points = p->points_at + p->sound->n_points * sizeof(struct psti_gpu_sound_point),
        .from = before->to,
        .to = !before->to};
}

static void plan_frames(struct planning *p)
{
    const struct psti_sound_features *features = &p->features;
    const struct pst_audio_op *o = features->list[0].op;
    uint32_t first = (o->n_fft - o->win_length) / 2;
    *p->step = (struct psti_gpu_sound_args){
        .channels = (uint32_t)p->sound->shape[0],
        .n_frames = (uint32_t)p->sound->shape[2],
        .n_bins = features->list[0].n_bins,
        .wave_floats = p->sound->wave_floats,
        .n_fft = o->n_fft,
        .hop = o->hop_length,
        .first = first,
        .end = first + o->win_length,
        .power = o->power,
        .n_complex = features->n_complex,
        .n_radices = features->n_radices,
        .from_largest = PSTI_GPU_SOUND_NO_LARGEST,
        .to_largest = PSTI_GPU_SOUND_NO_LARGEST,
        .order = place(p, features->n_complex, sizeof(uint32_t)),
        .twiddles = place(p, features->n_complex, 2 * sizeof(float)),
        .last = place(p, o->n_fft / 4, 2 * sizeof(float)),
        .window = place(p, o->n_fft, sizeof(float)),
        .points = p->points_at,
    };
    memcpy(p->step->radices, features->radices, features->n_radices * sizeof *features->radices);
    p->sound->n_steps = 1;
}

static void plan_mel(struct planning *p, const struct psti_sound_feature *feature)
{
    p->step->has_bands = 1;
    p->step->n_bins = feature->n_bins;
    p->step->bands = place(p, feature->n_bins, 3 * sizeof(uint32_t));
    p->step->weights = place(p, feature->n_weights, sizeof(float));
}

static void plan_dct(struct planning *p, const struct psti_sound_feature *feature)
{
    /* A step that only applies top_db can also multiply by the matrix: it applies top_db first. */
    bool is_new = p->step->n_complex > 0 || p->step->has_matrix || p->step->n_points > 0;
    if (is_new)
        begin_step(p);
    p->step->has_matrix = 1;
    p->step->n_bins = feature->n_bins;
    p->step->matrix = place(p, (size_t)feature->n_bins * p->step->n_before, sizeof(float));
}

static void plan_point(struct planning *p, const struct psti_sound_feature *feature)
{
    const struct pst_audio_op *o = feature->op;
    struct psti_gpu_sound_point *point = &p->sound->points[p->sound->n_points++];
    p->step->n_points++;
    switch (o->kind) {
    case PST_AUDIO_OP_DECIBEL:
        *point = (struct psti_gpu_sound_point){.kind = PSTI_GPU_SOUND_DECIBEL,
                                               .factor = o->multiplier,
                                               .a = o->amin,
                                               .b = feature->offset};
        break;
    case PST_AUDIO_OP_LOG:
        *point = (struct psti_gpu_sound_point){.kind = PSTI_GPU_SOUND_LOG, .a = o->offset};
        break;
    default:
        *point = (struct psti_gpu_sound_point){.kind = o->kind == PST_AUDIO_OP_TIME_MASK
                                                           ? PSTI_GPU_SOUND_MASK_FRAMES
                                                           : PSTI_GPU_SOUND_MASK_BINS,
                                               .range = p->sound->n_ranges,
                                               .a = o->value};
        p->sound->ranges[p->sound->n_ranges++] = feature->step;
    }
    if (o->kind != PST_AUDIO_OP_DECIBEL || !(o->top_db >= 0))
        return;
    p->step->to_largest = p->sound->n_largest++;
    begin_step(p);
    p->step->top_db = o->top_db;
}

static void plan_steps(struct planning *p)
{
    struct psti_gpu_sound *sound = p->sound;
    p->points_at = place(p, PSTI_GPU_SOUND_POINTS, sizeof(struct psti_gpu_sound_point));
    plan_frames(p);
    for (uint32_t i = 1; i < p->features.n; i++) {
        const struct psti_sound_feature *feature = &p->features.list[i];
        if (feature->op->kind == PST_AUDIO_OP_MEL)
            plan_mel(p, feature);
        else if (feature->op->kind == PST_AUDIO_OP_DCT)
            plan_dct(p, feature);
        else
            plan_point(p, feature);
    }
    p->step->finishes = 1;
    p->step->is_f16 = psti_sound_chain_dtype(p->chain) == PST_DTYPE_F16;
    for (uint32_t i = 0; i + 1 < sound->n_steps; i++) {
        const struct psti_gpu_sound_args *step = &sound->steps[i];
        uint32_t floats = step->channels * step->n_bins * step->n_frames;
        sound->values_floats = floats > sound->values_floats ? floats : sound->values_floats;
    }
}

/* Returns why the GPU cannot make the features, or NULL. */
static const char *refusal_of(const struct psti_sound_features *features, const int64_t shape[3])
{
    uint64_t bins = 0, frame_nbytes = 2 * sizeof(float) * (uint64_t)features->n_complex;
    for (uint32_t i = 0; i < features->n; i++)
        bins = features->list[i].n_bins > bins ? features->list[i].n_bins : bins;
    if (frame_nbytes > PSTI_GPU_SOUND_SHARED_NBYTES || features->n_radices > PSTI_GPU_SOUND_RADICES)
        return "frames of so many samples do not fit into the GPU's shared memory";
    if (bins * (uint64_t)shape[0] * (uint64_t)shape[2] > VALUES_MAX)
        return "a row has too many features for the GPU";
    return NULL;
}

enum pst_status psti_gpu_sound_plan(const struct psti_sound_chain *chain, const int64_t shape[3],
                                    struct psti_gpu_sound *sound, struct pst_error *err)
{
    struct planning p = {.chain = chain, .sound = sound};
    *sound = (struct psti_gpu_sound){.shape = {shape[0], shape[1], shape[2]}};
    if (!psti_sound_chain_features(chain, &p.features) || p.features.length == 0 || shape[0] <= 0 ||
        shape[2] <= 0)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, PSTI_GPU_ROOM,
                         "the operations make no features of one shape");
    const char *why = refusal_of(&p.features, shape);
    size_t floats = psti_sound_wave_floats(&p.features, p.features.length);
    if (!why && floats * (uint64_t)shape[0] > VALUES_MAX)
        why = "a waveform is too long for the GPU";
    if (why) {
        snprintf(sound->refusal, sizeof sound->refusal, "%s", why);
        return PST_OK;
    }
    sound->wave_floats = (uint32_t)floats;
    sound->steps = psti_calloc(p.features.n + 1, sizeof *sound->steps);
    p.step = sound->steps;
    if (p.step) {
        plan_steps(&p);
        sound->tables_nbytes = p.tables_at;
        sound->tables = psti_calloc(1, p.tables_at);
    }
    if (!sound->tables) {
        psti_gpu_sound_free(sound);
        return psti_fail(err, PST_ERROR_MEMORY, PSTI_GPU_ROOM, "no memory for tables of sound");
    }
    write_tables(&p);
    return PST_OK;
}

void psti_gpu_sound_free(struct psti_gpu_sound *sound)
{
    psti_free(sound->steps);
    psti_free(sound->tables);
    sound->steps = NULL;
    sound->tables = NULL;
}

size_t psti_gpu_sound_waves_at(const struct psti_gpu_sound *sound)
{
    return psti_round_up(sound->n_largest * sizeof(uint32_t), TABLE_ALIGN);
}

size_t psti_gpu_sound_upload_nbytes(const struct psti_gpu_sound *sound)
{
    return psti_gpu_sound_waves_at(sound) +
           (size_t)sound->shape[0] * sound->wave_floats * sizeof(float);
}

size_t psti_gpu_sound_scratch_nbytes(const struct psti_gpu_sound *sound)
{
    /* Steps use two buffers by turns, and the last one stores no values there. */
    size_t one = psti_round_up(sound->values_floats * sizeof(float), TABLE_ALIGN);
    return sound->n_steps > 2 ? 2 * one : one;
}

void psti_gpu_sound_fill_row(const struct psti_gpu_sound *sound, const struct psti_sound_draw *draw,
                             const struct psti_gpu_claimed *claimed, struct psti_gpu_sound_row *row)
{
    memset(row, 0, sizeof *row);
    memset(claimed->host, 0, psti_gpu_sound_waves_at(sound));
    row->largest = claimed->gpu;
    row->wave = claimed->gpu + psti_gpu_sound_waves_at(sound);
    row->values[0] = claimed->scratch;
    row->values[1] =
        claimed->scratch + psti_round_up(sound->values_floats * sizeof(float), TABLE_ALIGN);
    for (uint32_t i = 0; i < sound->n_ranges; i++) {
        row->begin[i] = (uint32_t)draw->steps[sound->ranges[i]].start;
        row->end[i] = (uint32_t)draw->steps[sound->ranges[i]].end;
    }
}

void psti_gpu_sound_shape(const struct psti_gpu_sound_args *step, uint32_t *n_blocks,
                          uint32_t *n_warps, uint32_t *shared_nbytes)
{
    uint32_t frame_nbytes = step->n_complex * 2 * (uint32_t)sizeof(float), n = step->channels;
    *n_warps = PSTI_GPU_SOUND_WARPS;
    while (*n_warps > 1 && *n_warps * frame_nbytes > PSTI_GPU_SOUND_SHARED_NBYTES)
        *n_warps /= 2;
    *shared_nbytes = *n_warps * frame_nbytes;
    n *= frame_nbytes ? step->n_frames : step->n_bins * ((step->n_frames + 31) / 32);
    *n_blocks = (n + *n_warps - 1) / *n_warps;
}
