/* sound_int.h - the declarations that the files of sound share. */
#ifndef PST_SOUND_SOUND_INT_H
#define PST_SOUND_SOUND_INT_H

#include "base/buffer.h"
#include "base/fail.h"
#include "sound/sound.h"
#include "sound/sound_kernels.h"

#define PSTI_ROOM "sound"
#define PSTI_SOUND_LANES 8
/* Largest tables of a resampler and of a filter bank. */
#define PSTI_SOUND_TABLE_NBYTES_MAX ((size_t)64 << 20)

/* Ratio and filter of a resampler. out[i * n_new + p] is a sum over `taps` samples from i * n_old +
 * starts[p] on. */
struct psti_sound_filter {
    uint32_t n_old, n_new; /* without common factors; 0: unused */
    uint32_t width;        /* zero crossings, of the operation */
    float rolloff;
    uint32_t reach;  /* samples on each side of a place that weights may reach */
    uint32_t taps;   /* a multiple of PSTI_SOUND_LANES */
    int32_t *starts; /* [n_new] */
    float *weights;  /* [n_new][taps] */
};
/* Sizes without the tables. False: too large. */
bool psti_sound_filter_plan(uint32_t old_rate, uint32_t new_rate, const struct pst_audio_op *op,
                            struct psti_sound_filter *filter);
size_t psti_sound_filter_nbytes(const struct psti_sound_filter *filter);
enum pst_status psti_sound_filter_make(struct psti_sound_filter *filter, struct pst_error *err);
void psti_sound_filter_free(struct psti_sound_filter *filter);

/* Triangles over bins: band m has weights for bins begin[m] to begin[m + 1] at `weights + at`. */
struct psti_sound_bands {
    uint32_t n_bands;
    struct psti_sound_band *bands;
    float *weights;
};

/* What an operation has beside its struct pst_audio_op. */
struct psti_sound_op {
    struct pst_audio_op op;
    uint32_t number;               /* of its random numbers */
    uint32_t n_bins;               /* behind it; 0: a waveform */
    float *window;                 /* SPECTROGRAM: [n_fft], with its factor */
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
    uint64_t fixed_length; /* of the waveform; 0: it depends on the sample */
};

enum { PSTI_SOUND_FILTERS = 8 };

/* A thread's scratch. Waveforms lie in planes, [channel][margin + n + margin]. */
struct psti_sound_run {
    struct psti_buffer source, from, to, padded, lanes;
    struct psti_sound_filter filters[PSTI_SOUND_FILTERS];
    uint32_t next_filter; /* the one that is replaced next */
    size_t nbytes;
};

/* sound_filters.c: tables. */
enum pst_status psti_sound_make_window(struct psti_sound_op *op, struct pst_error *err);
enum pst_status psti_sound_make_bands(struct psti_sound_op *op, uint32_t n_bins,
                                      struct pst_error *err);
enum pst_status psti_sound_make_dct(struct psti_sound_op *op, uint32_t n_bins,
                                    struct pst_error *err);
void psti_sound_free_op(struct psti_sound_op *op);

/* sound_draw.c */
void psti_sound_numbers(const struct psti_sound_draw *draw, uint32_t number, uint32_t try,
                        uint32_t out[4]);
/* Frames of a waveform of that length; 0: it is too short. */
uint64_t psti_sound_frames(const struct pst_audio_op *op, uint64_t length);
bool psti_sound_is_waveform_op(enum pst_audio_op_kind kind);
/* Samples beside a waveform's part in a plane, which are 0. */
size_t psti_sound_margin(const struct psti_sound_chain *chain, const struct psti_sound_draw *draw);

/* sound_effects.c: in place. */
void psti_sound_add_noise(const struct psti_sound_op *op, const struct psti_sound_draw *draw,
                          const struct psti_sound_step *step, uint32_t channel, float *plane);
void psti_sound_to_decibel(const struct pst_audio_op *op, float *values, size_t n);
void psti_sound_to_log(const struct pst_audio_op *op, float *values, size_t n);
void psti_sound_to_f16(const float *from, size_t n, void *to);

#endif
