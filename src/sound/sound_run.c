/* sound_run.c - applies a chain to one sound.
 *
 * In: the part of the source that the draw needs, as interleaved floats. Out: the elements of the
 * row. A waveform is planar: each channel lies in its own buffer, with a margin of zeros at both
 * ends. The zeros stand for samples outside of the sound, so inner loops need no special code at
 * the ends. Each run is used by one thread. Nothing is allocated once sounds of that size have been
 * seen. */
#include "sound/sound_int.h"

#include "base/alloc.h"
#include "base/bits.h"

#include <math.h>
#include <string.h>

/* State of the work during psti_sound_run_end. */
struct work {
    struct psti_sound_run *run;
    const struct psti_sound_chain *chain;
    const struct psti_sound_draw *draw;
    size_t margin;
    struct psti_sound_part part; /* the signal part that run->from holds */
    struct pst_error *err;
};

/* Sizes in bytes that a draw needs for each buffer. */
struct sizes {
    size_t source, planes, padded, lanes;
};

static void size_buffers(const struct psti_sound_chain *chain, const struct psti_sound_draw *draw,
                         struct sizes *sizes)
{
    sizes->source =
        (size_t)draw->source.n * draw->source.channels * sizeof(float) + PSTI_CACHE_LINE;
    sizes->planes = draw->n_floats * sizeof(float);
    sizes->padded = sizes->lanes = 0;
    for (uint32_t i = 0; i < chain->n_ops; i++) {
        const struct pst_audio_op *o = &chain->ops[i].op;
        if (o->kind != PST_AUDIO_OP_SPECTROGRAM)
            continue;
        sizes->padded = ((size_t)draw->steps[i].out.length + 2 * (size_t)o->pad + o->n_fft + 64) *
                        sizeof(float);
        sizes->lanes = chain->kernels->frames_floats(o->n_fft) * sizeof(float);
    }
}

enum pst_status psti_sound_run_open(struct psti_sound_run **out, struct pst_error *err)
{
    *out = psti_calloc(1, sizeof **out);
    return *out ? PST_OK
                : psti_fail(err, PST_ERROR_MEMORY, PSTI_ROOM, "no memory for scratch of sound");
}

void psti_sound_run_close(struct psti_sound_run **run)
{
    if (!*run)
        return;
    for (uint32_t i = 0; i < PSTI_SOUND_FILTERS; i++)
        psti_sound_filter_free(&(*run)->filters[i]);
    psti_buffer_free(&(*run)->source);
    psti_buffer_free(&(*run)->from);
    psti_buffer_free(&(*run)->to);
    psti_buffer_free(&(*run)->padded);
    psti_buffer_free(&(*run)->lanes);
    psti_free(*run);
    *run = NULL;
}

/* Returns the run's filter with the ratio of `wanted`, or NULL if it has not been made yet. */
static const struct psti_sound_filter *find_filter(const struct psti_sound_run *run,
                                                   const struct psti_sound_filter *wanted)
{
    for (uint32_t i = 0; i < PSTI_SOUND_FILTERS; i++) {
        const struct psti_sound_filter *f = &run->filters[i];
        if (f->n_new && f->n_old == wanted->n_old && f->n_new == wanted->n_new &&
            f->width == wanted->width && f->rolloff == wanted->rolloff)
            return f;
    }
    return NULL;
}

/* Sets *filter to the sizes of operation i's filter. Returns false if the operation does not
 * resample or the rate stays the same. */
static bool filter_of(const struct psti_sound_chain *chain, const struct psti_sound_draw *draw,
                      uint32_t i, struct psti_sound_filter *filter)
{
    const struct psti_sound_part *before = i ? &draw->steps[i - 1].out : &draw->source;
    return chain->ops[i].op.kind == PST_AUDIO_OP_RESAMPLE &&
           before->rate != draw->steps[i].out.rate &&
           psti_sound_filter_plan(before->rate, draw->steps[i].out.rate, &chain->ops[i].op, filter);
}

static size_t growth(const struct psti_buffer *buffer, size_t wanted)
{
    wanted = psti_round_up(wanted, 4096);
    return wanted > buffer->capacity ? wanted - buffer->capacity : 0;
}

size_t psti_sound_run_lacks(const struct psti_sound_run *run, const struct psti_sound_chain *chain,
                            const struct psti_sound_draw *draw)
{
    struct sizes sizes;
    size_buffers(chain, draw, &sizes);
    size_t total = growth(&run->source, sizes.source) + growth(&run->from, sizes.planes) +
                   growth(&run->to, sizes.planes) + growth(&run->padded, sizes.padded) +
                   growth(&run->lanes, sizes.lanes);
    struct psti_sound_filter filter;
    for (uint32_t i = 0; i < chain->n_ops; i++)
        if (filter_of(chain, draw, i, &filter) && !find_filter(run, &filter))
            total += psti_sound_filter_nbytes(&filter);
    return total;
}

size_t psti_sound_run_nbytes(const struct psti_sound_run *run) { return run->nbytes; }

static enum pst_status reserve(struct psti_sound_run *run, struct psti_buffer *buffer,
                               size_t nbytes, struct pst_error *err)
{
    size_t had = buffer->capacity, more = growth(buffer, nbytes);
    if (more == 0 && buffer->bytes)
        return PST_OK;
    enum pst_status status = psti_buffer_reserve(buffer, had + more, PSTI_ROOM, "of a sound", err);
    run->nbytes += buffer->capacity - had;
    return status;
}

static enum pst_status make_filter(struct psti_sound_run *run, struct psti_sound_filter *filter,
                                   struct pst_error *err)
{
    struct psti_sound_filter *place = &run->filters[run->next_filter];
    enum pst_status status = psti_sound_filter_make(filter, err);
    if (status != PST_OK)
        return status;
    run->nbytes += psti_sound_filter_nbytes(filter);
    run->nbytes -= place->n_new ? psti_sound_filter_nbytes(place) : 0;
    psti_sound_filter_free(place);
    *place = *filter;
    run->next_filter = (run->next_filter + 1) % PSTI_SOUND_FILTERS;
    return PST_OK;
}

float *psti_sound_run_begin(struct psti_sound_run *run, const struct psti_sound_chain *chain,
                            const struct psti_sound_draw *draw, struct pst_error *err)
{
    struct sizes sizes;
    size_buffers(chain, draw, &sizes);
    if (reserve(run, &run->source, sizes.source, err) != PST_OK ||
        reserve(run, &run->from, sizes.planes, err) != PST_OK ||
        reserve(run, &run->to, sizes.planes, err) != PST_OK ||
        reserve(run, &run->padded, sizes.padded, err) != PST_OK ||
        reserve(run, &run->lanes, sizes.lanes, err) != PST_OK)
        return NULL;
    struct psti_sound_filter filter;
    for (uint32_t i = 0; i < chain->n_ops; i++)
        if (filter_of(chain, draw, i, &filter) && !find_filter(run, &filter) &&
            make_filter(run, &filter, err) != PST_OK)
            return NULL;
    return run->source.bytes;
}

/* Returns the address of a channel's first sample of a signal part stored in `buffer`. */
static float *plane(const struct work *work, const struct psti_buffer *buffer,
                    const struct psti_sound_part *part, uint32_t channel)
{
    size_t stride = (size_t)part->n + 2 * work->margin;
    return (float *)buffer->bytes + channel * stride + work->margin;
}

static void clear_margins(const struct work *work, float *at, size_t n)
{
    memset(at - work->margin, 0, work->margin * sizeof *at);
    memset(at + n, 0, work->margin * sizeof *at);
}

static void swap(struct psti_sound_run *run)
{
    struct psti_buffer to = run->to;
    run->to = run->from;
    run->from = to;
}

static void mix_interleaved(const float *from, uint32_t channels, size_t n, float *to)
{
    if (channels == 2) {
        for (size_t i = 0; i < n; i++)
            to[i] = (from[2 * i] + from[2 * i + 1]) * 0.5f;
        return;
    }
    for (size_t i = 0; i < n; i++, from += channels) {
        float sum = from[0];
        for (uint32_t c = 1; c < channels; c++)
            sum += from[c];
        to[i] = sum / (float)channels;
    }
}

/* Copies the source to one buffer per channel, or its mean to one buffer if that is the first
 * operation. Returns the index of the next operation. */
static uint32_t take_source(struct work *work)
{
    const struct psti_sound_part *source = &work->draw->source;
    const float *from = work->run->source.bytes;
    size_t n = (size_t)source->n;
    bool mixes = work->chain->n_ops > 0 && work->chain->ops[0].op.kind == PST_AUDIO_OP_MONO;
    work->part = mixes ? work->draw->steps[0].out : *source;
    for (uint32_t c = 0; c < work->part.channels; c++) {
        float *to = plane(work, &work->run->from, &work->part, c);
        clear_margins(work, to, n);
        if (mixes)
            mix_interleaved(from, source->channels, n, to);
        else if (source->channels == 1)
            memcpy(to, from, n * sizeof *to);
        else
            for (size_t i = 0; i < n; i++)
                to[i] = from[i * source->channels + c];
    }
    return mixes;
}

static void mix_planes(struct work *work, const struct psti_sound_step *step)
{
    size_t n = (size_t)step->out.n;
    float *to = plane(work, &work->run->to, &step->out, 0);
    clear_margins(work, to, n);
    memcpy(to, plane(work, &work->run->from, &work->part, 0), n * sizeof *to);
    for (uint32_t c = 1; c < work->part.channels; c++) {
        const float *from = plane(work, &work->run->from, &work->part, c);
        for (size_t i = 0; i < n; i++)
            to[i] += from[i];
    }
    for (size_t i = 0; i < n && work->part.channels > 1; i++)
        to[i] /= (float)work->part.channels;
    swap(work->run);
}

static void resample(struct work *work, uint32_t i, const struct psti_sound_step *step)
{
    struct psti_sound_filter wanted;
    if (!filter_of(work->chain, work->draw, i, &wanted))
        return; /* the source has this rate already */
    const struct psti_sound_filter *filter = find_filter(work->run, &wanted);
    for (uint32_t c = 0; c < work->part.channels; c++) {
        float *to = plane(work, &work->run->to, &step->out, c);
        clear_margins(work, to, (size_t)step->out.n);
        work->chain->kernels->resample(filter, plane(work, &work->run->from, &work->part, c),
                                       (int64_t)work->part.first, step->out.first,
                                       (size_t)step->out.n, to);
    }
    swap(work->run);
}

/* Applies a clip or padding: moves the samples that exist and fills the rest. */
static void place(struct work *work, const struct pst_audio_op *op,
                  const struct psti_sound_step *step)
{
    const struct psti_sound_part *part = &work->part, *out = &step->out;
    if (part->n == out->n)
        return; /* the samples are already in place */
    bool repeats = op->kind != PST_AUDIO_OP_PAD_TO && op->if_short == PST_AUDIO_SHORT_REPEAT &&
                   part->length > 0 && part->length < out->length;
    for (uint32_t c = 0; c < part->channels; c++) {
        const float *from = plane(work, &work->run->from, part, c);
        float *to = plane(work, &work->run->to, out, c);
        size_t n = (size_t)part->n, total = (size_t)out->n;
        clear_margins(work, to, total);
        if (repeats) {
            for (size_t i = 0; i < total; i++)
                to[i] = from[(out->first + i) % part->length];
            continue;
        }
        n = n < total ? n : total;
        memcpy(to, from, n * sizeof *to);
        memset(to + n, 0, (total - n) * sizeof *to);
    }
    swap(work->run);
}

static void mask_wave(const struct work *work, const struct pst_audio_op *op,
                      const struct psti_sound_step *step)
{
    uint64_t first = work->part.first, end = first + work->part.n;
    uint64_t from = step->start > first ? step->start : first,
             to = step->end < end ? step->end : end;
    for (uint32_t c = 0; c < work->part.channels; c++) {
        float *at = plane(work, &work->run->from, &work->part, c);
        for (uint64_t i = from; i < to; i++)
            at[i - first] = op->value;
    }
}

static void change_wave(struct work *work, uint32_t i)
{
    const struct psti_sound_op *op = &work->chain->ops[i];
    const struct psti_sound_step *step = &work->draw->steps[i];
    switch (op->op.kind) {
    case PST_AUDIO_OP_MONO:
        mix_planes(work, step);
        break;
    case PST_AUDIO_OP_RESAMPLE:
        resample(work, i, step);
        break;
    case PST_AUDIO_OP_GAIN:
        for (uint32_t c = 0; c < work->part.channels && step->is_on; c++) {
            float *at = plane(work, &work->run->from, &work->part, c);
            float factor = (float)pow(10, step->value / 20);
            for (size_t k = 0; k < work->part.n; k++)
                at[k] *= factor;
        }
        break;
    case PST_AUDIO_OP_ADD_NOISE:
        for (uint32_t c = 0; c < work->part.channels && step->is_on; c++)
            psti_sound_add_noise(op, work->draw, step, c,
                                 plane(work, &work->run->from, &work->part, c));
        break;
    case PST_AUDIO_OP_TIME_MASK:
        mask_wave(work, &op->op, step);
        break;
    default:
        place(work, &op->op, step);
    }
    work->part = step->out;
}

/* Returns sample i of the padding around a signal of n samples, where i < 0 or i >= n. */
static float beside(const float *x, int64_t n, int64_t i, enum pst_audio_pad_mode mode)
{
    if (mode == PST_AUDIO_PAD_CONSTANT)
        return 0;
    if (mode == PST_AUDIO_PAD_REPLICATE)
        return x[i < 0 ? 0 : n - 1];
    return x[i < 0 ? -i : 2 * (n - 1) - i]; /* padding is shorter than the signal */
}

/* Copies a channel to `out`, with the padding of a spectrogram. */
static void pad_wave(const struct work *work, const struct pst_audio_op *op, uint32_t c, float *out)
{
    const float *from = plane(work, &work->run->from, &work->part, c);
    size_t edge = op->no_center ? 0 : op->n_fft / 2, n = (size_t)work->part.n;
    size_t padded = n + 2 * (size_t)op->pad;
    float *to = out + edge;
    memset(to, 0, op->pad * sizeof *to);
    memcpy(to + op->pad, from, n * sizeof *to);
    memset(to + op->pad + n, 0, op->pad * sizeof *to);
    for (size_t i = 1; i <= edge; i++) {
        *(to - i) = beside(to, (int64_t)padded, -(int64_t)i, op->pad_mode);
        to[padded + i - 1] = beside(to, (int64_t)padded, (int64_t)(padded + i - 1), op->pad_mode);
    }
}

/* Makes spectrograms of the waveforms in run->from, and swaps the buffers. `mel` is the next
 * operation if it makes mel bands, else NULL. */
static void make_spectrogram(struct work *work, uint32_t i, const struct psti_sound_op *mel)
{
    const struct psti_sound_op *op = &work->chain->ops[i];
    const struct pst_audio_op *o = &op->op;
    uint32_t n_bins = mel ? mel->n_bins : op->n_bins;
    uint64_t n_frames = (uint64_t)work->draw->shape[2];
    for (uint32_t c = 0; c < work->part.channels; c++) {
        pad_wave(work, o, c, work->run->padded.bytes);
        const struct psti_sound_frames frames = {
            .fft = op->fft,
            .wave = work->run->padded.bytes,
            .window = op->window,
            .n_fft = o->n_fft,
            .hop = o->hop_length,
            .first = (o->n_fft - o->win_length) / 2,
            .end = (o->n_fft - o->win_length) / 2 + o->win_length,
            .power = o->power,
            .n_frames = n_frames,
            .bands = mel ? mel->bands.bands : NULL,
            .band_weights = mel ? mel->bands.weights : NULL,
            .n_bands = mel ? mel->bands.n_bands : 0,
            .scratch = work->run->lanes.bytes,
            .out = (float *)work->run->to.bytes + c * n_bins * n_frames,
        };
        work->chain->kernels->frames(&frames);
    }
    swap(work->run);
}

static void mask_spectrogram(const struct work *work, const struct psti_sound_op *op,
                             const struct psti_sound_step *step)
{
    float *at = work->run->from.bytes;
    size_t n_frames = (size_t)work->draw->shape[2];
    bool by_time = op->op.kind == PST_AUDIO_OP_TIME_MASK;
    for (uint32_t c = 0; c < work->part.channels; c++)
        for (uint32_t k = 0; k < op->n_bins; k++, at += n_frames) {
            bool hit = by_time || (k >= step->start && k < step->end);
            size_t from = by_time ? (size_t)step->start : 0;
            size_t to = by_time ? (size_t)step->end : n_frames;
            for (size_t t = from; hit && t < to; t++)
                at[t] = op->op.value;
        }
}

/* Applies the operations from number i on, the spectrogram and those after it. */
static void change_spectrogram(struct work *work, uint32_t i)
{
    const struct psti_sound_chain *chain = work->chain;
    size_t n_frames = (size_t)work->draw->shape[2];
    for (; i < chain->n_ops; i++) {
        const struct psti_sound_op *op = &chain->ops[i];
        float *values = work->run->from.bytes;
        size_t n = work->part.channels * op->n_bins * n_frames;
        bool mel = i + 1 < chain->n_ops && chain->ops[i + 1].op.kind == PST_AUDIO_OP_MEL;
        switch (op->op.kind) {
        case PST_AUDIO_OP_SPECTROGRAM:
            make_spectrogram(work, i, mel ? &chain->ops[i + 1] : NULL);
            break;
        case PST_AUDIO_OP_DECIBEL:
            psti_sound_to_decibel(chain->kernels, &op->op, values, n);
            break;
        case PST_AUDIO_OP_LOG:
            chain->kernels->logs(values, n, op->op.offset, 1);
            break;
        case PST_AUDIO_OP_DCT: {
            uint32_t n_before = chain->ops[i - 1].n_bins;
            for (uint32_t c = 0; c < work->part.channels; c++)
                chain->kernels->product(op->dct, op->n_bins, n_before,
                                        values + c * n_before * n_frames, n_frames,
                                        (float *)work->run->to.bytes + c * op->n_bins * n_frames);
            swap(work->run);
            break;
        }
        case PST_AUDIO_OP_MEL: /* done by make_spectrogram() */
            break;
        default:
            mask_spectrogram(work, op, &work->draw->steps[i]);
        }
    }
}

/* Does the operations before the spectrogram. Returns the number of the operation behind them. */
static uint32_t change_waves(struct work *work)
{
    uint32_t i = take_source(work);
    while (i < work->chain->n_ops && work->chain->ops[i].n_bins == 0)
        change_wave(work, i++);
    return i;
}

void psti_sound_run_waves(struct psti_sound_run *run, const struct psti_sound_chain *chain,
                          const struct psti_sound_draw *draw, float *out)
{
    struct work work = {
        .run = run, .chain = chain, .draw = draw, .margin = psti_sound_margin(chain, draw)};
    uint32_t i = change_waves(&work);
    const struct pst_audio_op *o = &chain->ops[i].op;
    size_t n = psti_sound_padded(o, work.part.n);
    for (uint32_t c = 0; c < work.part.channels; c++)
        pad_wave(&work, o, c, out + c * n);
}

static void put(const struct psti_sound_chain *chain, const float *from, size_t n, size_t at,
                void *out)
{
    if (chain->dtype == PST_DTYPE_F16)
        psti_sound_to_f16(from, n, (char *)out + 2 * at);
    else
        memcpy((float *)out + at, from, n * sizeof *from);
}

enum pst_status psti_sound_run_end(struct psti_sound_run *run, const struct psti_sound_chain *chain,
                                   const struct psti_sound_draw *draw, void *out,
                                   struct pst_error *err)
{
    struct work work = {.run = run,
                        .chain = chain,
                        .draw = draw,
                        .margin = psti_sound_margin(chain, draw),
                        .err = err};
    uint32_t i = change_waves(&work);
    if (i < chain->n_ops) {
        size_t n = (size_t)(draw->shape[0] * draw->shape[1] * draw->shape[2]);
        change_spectrogram(&work, i);
        chain->kernels->settle(run->from.bytes, n); /* NaNs of a GPU have other bits */
        put(chain, run->from.bytes, n, 0, out);
        return PST_OK;
    }
    size_t n = (size_t)work.part.n;
    for (uint32_t c = 0; c < work.part.channels; c++)
        put(chain, plane(&work, &run->from, &work.part, c), n, c * n, out);
    return PST_OK;
}
