/* sound_chain.c - checks operations and compiles them to a chain.
 *
 * In: the caller's operations. Out: a chain with all tables that do not depend on a sample, which
 * is constant afterwards; any thread. The operation that takes the mean of the channels is moved
 * before resampling, clips and padding, so that these process one channel instead of several. They
 * are linear, so only rounding changes. */
#include "sound/sound_int.h"

#include "base/alloc.h"
#include "base/machine/cpu.h"
#include "base/options.h"

#include <math.h>
#include <string.h>

enum { N_FFT_MAX = 65536, N_MELS_MAX = 4096, RATE_MAX = 10000000, WIDTH_MAX = 128 };
enum { OTHER_NUMBERS = 128 }; /* number of the first operation other than a clip */

void pst_audio_op_init(struct pst_audio_op *op, size_t op_nbytes, enum pst_audio_op_kind kind)
{
    const struct pst_audio_op full = {.kind = kind,
                                      .p = 1,
                                      .n_fft = 400,
                                      .power = 2,
                                      .n_mels = 128,
                                      .n_mfcc = 40,
                                      .multiplier = 10,
                                      .amin = 1e-10f,
                                      .ref = 1,
                                      .top_db = -1,
                                      .offset = 1e-6f,
                                      .filter_width = 6,
                                      .rolloff = 0.99f};
    psti_struct_write(op, op_nbytes, &full, sizeof full);
}

static const char *name_of(enum pst_audio_op_kind kind)
{
    static const char *const names[] = {"",
                                        "Mono",
                                        "Resample",
                                        "RandomClip",
                                        "CenterClip",
                                        "PadTo",
                                        "Gain",
                                        "AddNoise",
                                        "TimeMask",
                                        "FrequencyMask",
                                        "Spectrogram",
                                        "MelScale",
                                        "AmplitudeToDB",
                                        "Log",
                                        "DCT"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "";
}

bool psti_sound_is_waveform_op(enum pst_audio_op_kind kind)
{
    return kind <= PST_AUDIO_OP_TIME_MASK;
}

static bool is_clip(enum pst_audio_op_kind kind)
{
    return kind == PST_AUDIO_OP_RANDOM_CLIP || kind == PST_AUDIO_OP_CENTER_CLIP;
}

static bool has_small_factors(uint32_t n)
{
    static const uint32_t primes[] = {2, 3, 5, 7, 11, 13};
    for (size_t i = 0; i < sizeof primes / sizeof *primes; i++)
        while (n % primes[i] == 0)
            n /= primes[i];
    return n == 1;
}

/* Checks the members of a spectrogram, and sets those that are 0 to their defaults. Returns what is
 * wrong, or NULL. */
static const char *complete_spectrogram(struct pst_audio_op *o)
{
    if (o->n_fft < 2 || o->n_fft > N_FFT_MAX || !has_small_factors(o->n_fft))
        return "n_fft is 2 to 65536, without a prime factor above 13";
    o->win_length = o->win_length ? o->win_length : o->n_fft;
    o->hop_length = o->hop_length ? o->hop_length : o->win_length / 2;
    if (o->win_length > o->n_fft || o->hop_length == 0)
        return "win_length is at most n_fft, hop_length at least 1";
    if (o->power != 1 && o->power != 2)
        return "power is 1 or 2";
    if ((unsigned)o->window > PST_AUDIO_WINDOW_ONES ||
        (unsigned)o->pad_mode > PST_AUDIO_PAD_REPLICATE ||
        (unsigned)o->normalized > PST_AUDIO_NORMALIZED_FRAME_LENGTH || o->pad > N_FFT_MAX)
        return "window, pad_mode, normalized or pad is not known";
    return NULL;
}

static const char *complete_mel(struct pst_audio_op *o)
{
    if (o->rate < 2 || o->rate > RATE_MAX || o->n_mels == 0 || o->n_mels > N_MELS_MAX)
        return "rate is 2 to 10000000, n_mels 1 to 4096";
    o->f_max = o->f_max != 0 ? o->f_max : (float)(o->rate / 2);
    if (!(o->f_min >= 0) || !(o->f_max > o->f_min) || !isfinite(o->f_max))
        return "f_min is 0 or more, f_max above it";
    if ((unsigned)o->mel_scale > PST_AUDIO_MEL_SLANEY ||
        (unsigned)o->mel_norm > PST_AUDIO_MEL_NORM_SLANEY)
        return "mel_scale or mel_norm is not known";
    return NULL;
}

/* Checks the members that this kind of operation reads, and sets defaults. Returns what is wrong,
 * or NULL. */
static const char *complete(struct pst_audio_op *o)
{
    switch (o->kind) {
    case PST_AUDIO_OP_RESAMPLE:
        return o->rate == 0 || o->rate > RATE_MAX || o->filter_width == 0 ||
                       o->filter_width > WIDTH_MAX || !(o->rolloff > 0 && o->rolloff <= 1)
                   ? "rate is 1 to 10000000, filter_width 1 to 128, rolloff above 0, to 1"
                   : NULL;
    case PST_AUDIO_OP_RANDOM_CLIP:
    case PST_AUDIO_OP_CENTER_CLIP:
    case PST_AUDIO_OP_PAD_TO:
        return o->n_samples == 0 || o->n_samples > INT32_MAX ||
                       (unsigned)o->if_short > PST_AUDIO_SHORT_REPEAT
                   ? "n_samples is 1 to 2147483647, and if_short a known rule"
                   : NULL;
    case PST_AUDIO_OP_GAIN:
    case PST_AUDIO_OP_ADD_NOISE:
        return !(o->range[0] >= -200 && o->range[0] <= o->range[1] && o->range[1] <= 200) ||
                       !(o->p >= 0 && o->p <= 1)
                   ? "the range is decibels within -200 to 200 and does not fall, p is 0 to 1"
                   : NULL;
    case PST_AUDIO_OP_TIME_MASK:
    case PST_AUDIO_OP_FREQUENCY_MASK:
        return o->mask_max > INT32_MAX || !(o->p >= 0 && o->p <= 1) || !isfinite(o->value)
                   ? "mask_max is at most 2147483647, p is 0 to 1, value a finite number"
                   : NULL;
    case PST_AUDIO_OP_SPECTROGRAM:
        return complete_spectrogram(o);
    case PST_AUDIO_OP_MEL:
        return complete_mel(o);
    case PST_AUDIO_OP_DECIBEL:
        return !(o->amin > 0) || !(o->ref > 0) || !isfinite(o->multiplier)
                   ? "amin and ref are above 0, multiplier is a finite number"
                   : NULL;
    case PST_AUDIO_OP_LOG:
        return !(o->offset >= 0) ? "offset is 0 or more" : NULL;
    default:
        return NULL;
    }
}

static enum pst_status wrong(struct pst_error *err, size_t i, enum pst_audio_op_kind kind,
                             const char *why)
{
    return psti_fail(err, PST_ERROR_ARGUMENT, PSTI_ROOM, "operation %zu (%s): %s", i, name_of(kind),
                     why);
}

/* Returns the name of the operation that must stand before this one, or NULL. n_bins: bins of the
 * input; 0: a waveform. */
static const char *misplaced(const struct pst_audio_op *o, const struct pst_audio_op *before,
                             uint32_t n_bins)
{
    bool waveform = psti_sound_is_waveform_op(o->kind) || o->kind == PST_AUDIO_OP_SPECTROGRAM;
    if (o->kind == PST_AUDIO_OP_TIME_MASK)
        return NULL;
    if (waveform && n_bins != 0)
        return "it is for waveforms, and stands behind a spectrogram";
    if (!waveform && n_bins == 0)
        return "it is for spectrograms, and none stands before it";
    if (o->kind == PST_AUDIO_OP_MEL && (!before || before->kind != PST_AUDIO_OP_SPECTROGRAM))
        return "it stands right behind the spectrogram";
    if (o->kind == PST_AUDIO_OP_DCT && (o->n_mfcc == 0 || o->n_mfcc > n_bins))
        return "n_mfcc is at least 1, and no more than there are bins";
    return NULL;
}

static enum pst_status make_spectrogram(const struct psti_sound_chain *chain,
                                        struct psti_sound_op *op, struct pst_error *err)
{
    op->n_bins = op->op.n_fft / 2 + 1;
    enum pst_status status = psti_sound_make_window(op, err);
    if (status != PST_OK)
        return status;
    op->fft = psti_alloc_aligned(PSTI_CACHE_LINE, chain->kernels->fft_nbytes(op->op.n_fft));
    if (!op->fft)
        return psti_fail(err, PST_ERROR_MEMORY, PSTI_ROOM, "no memory for an FFT");
    chain->kernels->fft_init(op->op.n_fft, op->fft);
    return PST_OK;
}

static enum pst_status make_tables(struct psti_sound_chain *chain, struct pst_error *err)
{
    uint32_t n_bins = 0;
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < chain->n_ops; i++) {
        struct psti_sound_op *op = &chain->ops[i];
        const char *why = misplaced(&op->op, i > 0 ? &chain->ops[i - 1].op : NULL, n_bins);
        if (why)
            return wrong(err, i, op->op.kind, why);
        op->n_bins = n_bins;
        if (op->op.kind == PST_AUDIO_OP_SPECTROGRAM)
            status = make_spectrogram(chain, op, err);
        else if (op->op.kind == PST_AUDIO_OP_MEL) {
            status = psti_sound_make_bands(op, n_bins, err);
            op->n_bins = op->op.n_mels;
        } else if (op->op.kind == PST_AUDIO_OP_DCT) {
            status = psti_sound_make_dct(op, n_bins, err);
            op->n_bins = op->op.n_mfcc;
        }
        n_bins = op->n_bins;
    }
    return status;
}

/* Moves the mean over the channels before linear operations, so that these process one channel.
 * Records whether the result is mono, and its length if that is fixed. */
static void arrange(struct psti_sound_chain *chain)
{
    for (uint32_t i = 0; i < chain->n_ops; i++) {
        enum pst_audio_op_kind kind = chain->ops[i].op.kind;
        if (kind == PST_AUDIO_OP_MONO) {
            struct psti_sound_op mono = chain->ops[i];
            memmove(&chain->ops[1], &chain->ops[0], i * sizeof mono);
            chain->ops[0] = mono;
            break;
        }
        if (kind != PST_AUDIO_OP_RESAMPLE && kind != PST_AUDIO_OP_PAD_TO && !is_clip(kind))
            break;
    }
    for (uint32_t i = 0; i < chain->n_ops; i++) {
        const struct pst_audio_op *o = &chain->ops[i].op;
        chain->has_mono |= o->kind == PST_AUDIO_OP_MONO;
        if (is_clip(o->kind))
            chain->fixed_length = o->n_samples;
        else if (o->kind == PST_AUDIO_OP_RESAMPLE ||
                 (o->kind == PST_AUDIO_OP_PAD_TO && o->n_samples > chain->fixed_length))
            chain->fixed_length = 0;
    }
}

enum pst_status psti_sound_chain_open(const struct pst_audio_op *ops, size_t n_ops,
                                      enum pst_dtype dtype, struct psti_sound_chain **out,
                                      struct pst_error *err)
{
    *out = NULL;
    if (n_ops > PST_AUDIO_MAX_OPS)
        return psti_fail(err, PST_ERROR_ARGUMENT, PSTI_ROOM,
                         "%zu operations; a chain holds at most %d", n_ops, PST_AUDIO_MAX_OPS);
    if (dtype != PST_DTYPE_F32 && dtype != PST_DTYPE_F16)
        return psti_fail(err, PST_ERROR_ARGUMENT, PSTI_ROOM, "sound is float32 or float16");
    struct psti_sound_chain *chain = psti_calloc(1, sizeof *chain);
    if (!chain)
        return psti_fail(err, PST_ERROR_MEMORY, PSTI_ROOM, "no memory for a chain");
    chain->dtype = dtype;
    chain->n_ops = (uint32_t)n_ops;
    chain->kernels = psti_sound_kernels_for(psti_cpu_features());
    uint32_t n_clips = 0;
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < n_ops; i++) {
        struct psti_sound_op *op = &chain->ops[i];
        op->op = ops[i];
        const char *why = !name_of(ops[i].kind)[0] ? "no such kind" : complete(&op->op);
        if (why)
            status = wrong(err, i, ops[i].kind, why);
        op->number = is_clip(ops[i].kind) ? n_clips++ : OTHER_NUMBERS + i - n_clips;
    }
    if (status == PST_OK) {
        arrange(chain);
        status = make_tables(chain, err);
    }
    if (status == PST_OK)
        *out = chain;
    else
        psti_sound_chain_close(&chain);
    return status;
}

void psti_sound_chain_close(struct psti_sound_chain **chain)
{
    for (uint32_t i = 0; *chain && i < (*chain)->n_ops; i++)
        psti_sound_free_op(&(*chain)->ops[i]);
    psti_free(*chain);
    *chain = NULL;
}

enum pst_dtype psti_sound_chain_dtype(const struct psti_sound_chain *chain) { return chain->dtype; }

uint32_t psti_sound_chain_shape(const struct psti_sound_chain *chain, int64_t shape[3])
{
    uint32_t n_bins = chain->n_ops ? chain->ops[chain->n_ops - 1].n_bins : 0;
    uint64_t length = chain->fixed_length;
    for (uint32_t i = 0; i < chain->n_ops && length; i++)
        if (chain->ops[i].op.kind == PST_AUDIO_OP_SPECTROGRAM)
            length = psti_sound_frames(&chain->ops[i].op, length);
    shape[0] = chain->has_mono;
    shape[1] = n_bins ? n_bins : (int64_t)length;
    shape[2] = n_bins ? (int64_t)length : 0;
    return n_bins ? 3 : 2;
}
