/* sound_int.h - declarations that the files of src/sound share. */
#ifndef PST_SOUND_SOUND_INT_H
#define PST_SOUND_SOUND_INT_H

#include "base/buffer.h"
#include "base/fail.h"
#include "sound/sound_features.h"
#include "sound/sound_kernels.h"

#define PSTI_ROOM "sound"
#define PSTI_SOUND_LANES 8
/* Maximum length in bytes of the tables of a resampler, and of those of a filter bank. */
#define PSTI_SOUND_TABLE_NBYTES_MAX ((size_t)64 << 20)

/* The filter of a resampler by the ratio n_new / n_old. out[i * n_new + p] is the weighted sum of
 * `taps` samples from sample i * n_old + starts[p] on. */
struct psti_sound_filter {
    uint32_t n_old, n_new; /* the ratio in lowest terms; n_new is 0 if the entry is unused */
    uint32_t width;        /* number of zero crossings that the operation asks for */
    float rolloff;
    uint32_t reach;  /* samples on each side that have weights */
    uint32_t taps;   /* weights per sum, a multiple of PSTI_SOUND_LANES */
    int32_t *starts; /* [n_new] */
    float *weights;  /* [n_new][taps] */
};
/* Computes the sizes of a filter, without its tables. Returns false if the tables would be too
 * large. */
bool psti_sound_filter_plan(uint32_t old_rate, uint32_t new_rate, const struct pst_audio_op *op,
                            struct psti_sound_filter *filter);
size_t psti_sound_filter_nbytes(const struct psti_sound_filter *filter);
enum pst_status psti_sound_filter_make(struct psti_sound_filter *filter, struct pst_error *err);
void psti_sound_filter_free(struct psti_sound_filter *filter);

/* The bands of a filter bank, as triangular weights over the bins. A band has weights for bins
 * `begin` to `end`; its first weight is `weights[at]`. */
struct psti_sound_bands {
    uint32_t n_bands;
    struct psti_sound_band *bands;
    float *weights;
};

/* An operation of a chain, with the tables that it needs. */
struct psti_sound_op {
    struct pst_audio_op op;
    uint32_t number;               /* number by which its random numbers are drawn */
    uint32_t n_bins;               /* bins after the operation; 0: a waveform */
    float *window;                 /* SPECTROGRAM: window [n_fft], times its factor */
    void *fft;                     /* SPECTROGRAM: tables of psti_sound_kernels.fft_init */
    struct psti_sound_bands bands; /* MEL */
    float *dct;                    /* DCT: [n_mfcc][n_bins before] */
};

struct psti_sound_chain {
    enum pst_dtype dtype;
    uint32_t n_ops;
    struct psti_sound_op ops[PST_AUDIO_MAX_OPS];
    const struct psti_sound_kernels *kernels;
    bool has_mono;
    uint64_t fixed_length; /* length of the waveform; 0: it depends on the sample */
};

enum { PSTI_SOUND_FILTERS = 8 };

/* Scratch memory of one thread. Waveforms are planar: [channel][margin + n + margin]. */
struct psti_sound_run {
    struct psti_buffer source, from, to, padded, lanes;
    struct psti_sound_filter filters[PSTI_SOUND_FILTERS];
    uint32_t next_filter; /* the entry that the next new filter replaces */
    size_t nbytes;
};

/* These functions (sound_filters.c) make the tables of an operation. */
enum pst_status psti_sound_make_window(struct psti_sound_op *op, struct pst_error *err);
enum pst_status psti_sound_make_bands(struct psti_sound_op *op, uint32_t n_bins,
                                      struct pst_error *err);
enum pst_status psti_sound_make_dct(struct psti_sound_op *op, uint32_t n_bins,
                                    struct pst_error *err);
void psti_sound_free_op(struct psti_sound_op *op);

/* sound_draw.c */
void psti_sound_numbers(const struct psti_sound_draw *draw, uint32_t number, uint32_t try,
                        uint32_t out[4]);
/* Returns the number of frames of a waveform of that length, or 0 if it is too short. */
uint64_t psti_sound_frames(const struct pst_audio_op *op, uint64_t length);
/* Returns the length of a waveform with the padding of a spectrogram. */
static inline size_t psti_sound_padded(const struct pst_audio_op *op, uint64_t length)
{
    size_t edge = op->no_center ? 0 : op->n_fft / 2;
    return (size_t)length + 2 * ((size_t)op->pad + edge);
}
bool psti_sound_is_waveform_op(enum pst_audio_op_kind kind);
/* Returns the number of zeros that a channel's buffer has before and after a part of a waveform. */
size_t psti_sound_margin(const struct psti_sound_chain *chain, const struct psti_sound_draw *draw);

/* These functions (sound_effects.c) change values in place. */
void psti_sound_add_noise(const struct psti_sound_op *op, const struct psti_sound_draw *draw,
                          const struct psti_sound_step *step, uint32_t channel, float *plane);
void psti_sound_to_decibel(const struct psti_sound_kernels *kernels, const struct pst_audio_op *op,
                           float *values, size_t n);
/* Returns what DECIBEL subtracts from all decibels: those of its reference. */
float psti_sound_offset(const struct pst_audio_op *op);
/* Returns the least result of DECIBEL with a top_db, if `largest` is the largest one. */
float psti_sound_least(const struct pst_audio_op *op, float largest);
void psti_sound_to_f16(const float *from, size_t n, void *to);

#endif
