/* sound_draw.c - the random parameters of one sample, the part of its sound that is needed, and the
 * shape of the result.
 *
 * In: chain, key, kind of the source. Out: struct psti_sound_draw. A pure function, any thread. The
 * numbers come from Philox as in augment_draw.c, of the same version of the rule: the key is that
 * of the sample's draw, the counter (sample low, sample high, number of the operation, try). The
 * number has bit 30 set, and the field's `own` in bits 8 to 23. Clips are numbered 0, 1, ..., other
 * operations from 128 on.
 *
 *     RandomClip           try 0: [0] place, uniform over those where it fits
 *     Gain, AddNoise       try 0: [0] < p, [1] decibels; AddNoise: samples 4 k ... of channel c by
 *                          try 1 + c * 2^26 + k, two normal numbers of each pair by Box and Muller
 *     TimeMask and so on   try 0: [0] length, [1] place
 *
 * The operations are gone through twice. Forwards, each says how long its result is; backwards,
 * each says which part of its source it needs. Only samples of the sound are ever needed: those
 * before its start and after its end count as zero. */
#include "sound/sound_int.h"

#include "base/bits.h"
#include "base/philox.h"

#include <math.h>
#include <string.h>

#define AUDIO_NUMBERS 0x40000000u
enum { OWN_SHIFT = 8 };
#define LENGTH_MAX ((uint64_t)INT32_MAX)

void psti_sound_numbers(const struct psti_sound_draw *draw, uint32_t number, uint32_t try,
                        uint32_t out[4])
{
    const uint32_t counter[4] = {(uint32_t)draw->sample, (uint32_t)(draw->sample >> 32),
                                 number | AUDIO_NUMBERS | draw->own << OWN_SHIFT, try};
    psti_philox4x32_10(counter, draw->key, out);
}

static enum pst_status suits_not(struct pst_error *err, const char *what, uint64_t is,
                                 const char *unit, uint64_t wants)
{
    return psti_fail(err, PST_ERROR_UNSUPPORTED, PSTI_ROOM,
                     "%s: the sound has %llu %s, and %llu are wanted", what, (unsigned long long)is,
                     unit, (unsigned long long)wants);
}

uint64_t psti_sound_frames(const struct pst_audio_op *op, uint64_t length)
{
    uint64_t edge = op->n_fft / 2;
    length += 2 * (uint64_t)op->pad;
    if (!op->no_center) {
        if (length == 0 || (op->pad_mode == PST_AUDIO_PAD_REFLECT && edge >= length))
            return 0;
        length += 2 * edge;
    }
    return length < op->n_fft ? 0 : (length - op->n_fft) / op->hop_length + 1;
}

static enum pst_status draw_clip(const struct psti_sound_op *op, struct psti_sound_draw *draw,
                                 struct psti_sound_step *step, struct pst_error *err)
{
    struct psti_sound_part *out = &step->out;
    uint32_t n = op->op.n_samples, r[4];
    if (out->length < n && op->op.if_short == PST_AUDIO_SHORT_ERROR)
        return suits_not(err, "clip", out->length, "samples", n);
    if (out->length > n && op->op.kind == PST_AUDIO_OP_CENTER_CLIP)
        step->start = (out->length - n) / 2;
    else if (out->length > n) {
        psti_sound_numbers(draw, op->number, 0, r);
        step->start = psti_uniform_below(r[0], (uint32_t)(out->length - n + 1));
    }
    step->end = out->length; /* the source's samples end here */
    out->length = n;
    return PST_OK;
}

static void draw_level(const struct psti_sound_op *op, const struct psti_sound_draw *draw,
                       struct psti_sound_step *step)
{
    uint32_t r[4];
    psti_sound_numbers(draw, op->number, 0, r);
    step->is_on = psti_uniform01(r[0]) < op->op.p;
    step->value =
        op->op.range[0] + ((double)op->op.range[1] - op->op.range[0]) * psti_uniform01(r[1]);
}

static void draw_mask(const struct psti_sound_op *op, const struct psti_sound_draw *draw,
                      uint64_t size, struct psti_sound_step *step)
{
    uint32_t r[4];
    uint64_t most = op->op.mask_max, part = (uint64_t)((double)size * op->op.p);
    if (op->op.p < 1 && part < most)
        most = part;
    psti_sound_numbers(draw, op->number, 0, r);
    double length = (double)most * psti_uniform01(r[0]);
    double room = (double)size - length;
    step->start = (uint64_t)(room > 0 ? room * psti_uniform01(r[1]) : 0);
    step->end = step->start + (uint64_t)length;
    step->end = step->end < size ? step->end : size;
    step->is_on = step->end > step->start;
}

static enum pst_status draw_resample(const struct psti_sound_op *op, struct psti_sound_step *step,
                                     struct pst_error *err)
{
    struct psti_sound_part *out = &step->out;
    struct psti_sound_filter filter;
    if (!psti_sound_filter_plan(out->rate, op->op.rate, &op->op, &filter))
        return psti_fail(err, PST_ERROR_UNSUPPORTED, PSTI_ROOM,
                         "the ratio of %u to %u samples per second needs too large a table",
                         out->rate, op->op.rate);
    uint64_t length = out->length;
    out->length = (length * filter.n_new + filter.n_old - 1) / filter.n_old;
    out->rate = op->op.rate;
    return out->length > LENGTH_MAX ? suits_not(err, "Resample", out->length, "samples", LENGTH_MAX)
                                    : PST_OK;
}

/* Draws the parameters of one operation, going forwards. *frames is the number of spectrogram
 * frames, once there is a spectrogram. */
static enum pst_status draw_op(const struct psti_sound_op *op, struct psti_sound_draw *draw,
                               struct psti_sound_step *step, uint64_t *frames,
                               struct pst_error *err)
{
    struct psti_sound_part *out = &step->out;
    switch (op->op.kind) {
    case PST_AUDIO_OP_MONO:
        out->channels = 1;
        return PST_OK;
    case PST_AUDIO_OP_RESAMPLE:
        return draw_resample(op, step, err);
    case PST_AUDIO_OP_RANDOM_CLIP:
    case PST_AUDIO_OP_CENTER_CLIP:
        return draw_clip(op, draw, step, err);
    case PST_AUDIO_OP_PAD_TO:
        out->length = out->length < op->op.n_samples ? op->op.n_samples : out->length;
        return PST_OK;
    case PST_AUDIO_OP_GAIN:
    case PST_AUDIO_OP_ADD_NOISE:
        draw_level(op, draw, step);
        return PST_OK;
    case PST_AUDIO_OP_TIME_MASK:
        draw_mask(op, draw, op->n_bins ? *frames : out->length, step);
        return PST_OK;
    case PST_AUDIO_OP_FREQUENCY_MASK:
        draw_mask(op, draw, op->n_bins, step);
        return PST_OK;
    case PST_AUDIO_OP_SPECTROGRAM:
        *frames = psti_sound_frames(&op->op, out->length);
        return *frames ? PST_OK
                       : suits_not(err, "Spectrogram", out->length, "samples",
                                   op->op.no_center ? op->op.n_fft : op->op.n_fft / 2 + 1);
    case PST_AUDIO_OP_MEL:
        return out->rate == op->op.rate ? PST_OK
                                        : suits_not(err, "mel bands (put a Resample before them)",
                                                    out->rate, "samples per second", op->op.rate);
    default:
        return PST_OK;
    }
}

/* Computes which samples before a resampler are needed for the samples in `out`. */
static void widen(const struct psti_sound_op *op, struct psti_sound_part *before,
                  const struct psti_sound_part *out)
{
    struct psti_sound_filter filter;
    if (before->rate == out->rate || out->n == 0) {
        before->first = out->first;
        before->n = out->n;
        return;
    }
    (void)psti_sound_filter_plan(before->rate, out->rate, &op->op, &filter);
    uint64_t first = out->first * filter.n_old / filter.n_new;
    uint64_t end = (out->first + out->n - 1) * filter.n_old / filter.n_new + 1 + filter.reach;
    before->first = first > filter.reach ? first - filter.reach : 0;
    end = end < before->length ? end : before->length;
    before->n = end > before->first ? end - before->first : 0;
}

/* Computes which samples before a waveform operation are needed for a part of its result. */
static void need(const struct psti_sound_op *op, const struct psti_sound_step *step,
                 struct psti_sound_part *before)
{
    const struct psti_sound_part *out = &step->out;
    uint64_t shift = 0;
    switch (op->op.kind) {
    case PST_AUDIO_OP_RESAMPLE:
        widen(op, before, out);
        return;
    case PST_AUDIO_OP_ADD_NOISE: /* the noise depends on the power of the whole signal */
        before->first = 0;
        before->n = before->length;
        return;
    case PST_AUDIO_OP_RANDOM_CLIP:
    case PST_AUDIO_OP_CENTER_CLIP:
        if (op->op.if_short == PST_AUDIO_SHORT_REPEAT && before->length < out->length) {
            before->first = 0;
            before->n = before->length;
            return;
        }
        shift = step->start;
        break;
    default:
        break;
    }
    uint64_t end = out->first + out->n + shift;
    before->first = out->first + shift;
    end = end < before->length ? end : before->length;
    before->n = end > before->first ? end - before->first : 0;
    before->first = before->n ? before->first : 0;
}

size_t psti_sound_margin(const struct psti_sound_chain *chain, const struct psti_sound_draw *draw)
{
    size_t margin = PSTI_SOUND_LANES;
    for (uint32_t i = 0; i < chain->n_ops; i++) {
        const struct psti_sound_part *before = i ? &draw->steps[i - 1].out : &draw->source;
        struct psti_sound_filter filter;
        if (chain->ops[i].op.kind == PST_AUDIO_OP_RESAMPLE &&
            psti_sound_filter_plan(before->rate, draw->steps[i].out.rate, &chain->ops[i].op,
                                   &filter)) {
            size_t wants = filter.taps + filter.reach + 2 * PSTI_SOUND_LANES;
            margin = wants > margin ? wants : margin;
        }
    }
    return psti_round_up(margin, 16);
}

/* Goes through the operations backwards. Sets the needed part of each signal, and the size of the
 * largest buffer. */
static enum pst_status plan_parts(const struct psti_sound_chain *chain,
                                  struct psti_sound_draw *draw, struct pst_error *err)
{
    uint32_t n = 0;
    while (n < chain->n_ops && chain->ops[n].n_bins == 0)
        n++;
    if (n > 0) {
        draw->steps[n - 1].out.n = draw->steps[n - 1].out.length;
        draw->steps[n - 1].out.first = 0;
    } else
        draw->source.n = draw->source.length;
    for (uint32_t i = n; i-- > 0;) {
        const struct psti_sound_op *op = &chain->ops[i];
        struct psti_sound_part *before = i ? &draw->steps[i - 1].out : &draw->source;
        if (op->op.kind == PST_AUDIO_OP_ADD_NOISE) {
            draw->steps[i].out.first = 0;
            draw->steps[i].out.n = draw->steps[i].out.length;
        }
        need(op, &draw->steps[i], before);
    }
    size_t margin = psti_sound_margin(chain, draw);
    uint64_t largest = (draw->source.n + 2 * margin) * draw->source.channels;
    for (uint32_t i = 0; i < n; i++) {
        const struct psti_sound_part *out = &draw->steps[i].out;
        uint64_t floats = (out->n + 2 * margin) * out->channels;
        largest = floats > largest ? floats : largest;
    }
    for (uint32_t i = n; i < chain->n_ops; i++) {
        uint64_t floats =
            (uint64_t)draw->shape[0] * chain->ops[i].n_bins * (uint64_t)draw->shape[2];
        largest = floats > largest ? floats : largest;
    }
    if (largest > LENGTH_MAX)
        return suits_not(err, "sound", largest, "values at a time", LENGTH_MAX);
    draw->n_floats = psti_round_up((size_t)largest, 16);
    return PST_OK;
}

enum pst_status psti_sound_chain_draw(const struct psti_sound_chain *chain,
                                      const struct psti_sound_key *key,
                                      const struct psti_sound_part *source,
                                      struct psti_sound_draw *draw, struct pst_error *err)
{
    uint32_t folded[4];
    uint64_t frames = 0;
    struct psti_sound_part part = *source;
    memset(draw, 0, sizeof *draw);
    if (part.length > LENGTH_MAX || part.rate == 0 || part.channels == 0)
        return suits_not(err, "sound", part.length, "samples", LENGTH_MAX);
    psti_random4(key->seed, key->epoch, PSTI_RANDOM_AUGMENT, key->draw, key->view, 0, folded);
    draw->key[0] = folded[0];
    draw->key[1] = folded[1];
    draw->sample = key->sample;
    draw->own = key->own;
    part.first = part.n = 0;
    draw->source = part;
    for (uint32_t i = 0; i < chain->n_ops; i++) {
        draw->steps[i].out = part;
        enum pst_status status = draw_op(&chain->ops[i], draw, &draw->steps[i], &frames, err);
        if (status != PST_OK)
            return status;
        part = draw->steps[i].out;
    }
    uint32_t n_bins = chain->n_ops ? chain->ops[chain->n_ops - 1].n_bins : 0;
    draw->ndim = n_bins ? 3 : 2;
    draw->shape[0] = part.channels;
    draw->shape[1] = n_bins ? n_bins : (int64_t)part.length;
    draw->shape[2] = n_bins ? (int64_t)frames : 0;
    return plan_parts(chain, draw, err);
}
