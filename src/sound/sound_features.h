/* sound_features.h - the part of a chain that makes features of waveforms: a spectrogram and all
 * operations behind it. A GPU can do this part, with the tables of the chain and from the waveforms
 * that psti_sound_run_waves makes. The chain owns all tables. */
#ifndef PST_SOUND_SOUND_FEATURES_H
#define PST_SOUND_SOUND_FEATURES_H

#include "sound/sound.h"

/* A band of a filter bank: weights for a range of bins. */
struct psti_sound_band {
    uint32_t begin, end; /* range of bins */
    uint32_t at;         /* index of the band's first weight */
};

struct psti_sound_feature {
    const struct pst_audio_op *op;
    uint32_t step;                       /* index of the operation's step in a draw */
    uint32_t n_bins;                     /* bins after the operation */
    const struct psti_sound_band *bands; /* MEL: [n_bins] */
    const float *weights;                /* MEL: [n_weights] */
    uint32_t n_weights;
    const float *dct; /* DCT: [n_bins][bins before it] */
    float offset;     /* DECIBEL: the level of its reference, which is subtracted */
};

enum { PSTI_SOUND_RADICES = 32 };

/* The spectrogram is the first feature. Its FFT transforms n_complex complex numbers. If n_fft is
 * odd, these are n_fft numbers. If it is even, they are half as many, and a last step follows. The
 * FFT has a stage for each radix; the stage of the last radix runs first. */
struct psti_sound_features {
    uint32_t n;
    struct psti_sound_feature list[PST_AUDIO_MAX_OPS];
    uint64_t length;     /* samples of each waveform; 0: it depends on the sample */
    const float *window; /* [n_fft], times the factor of the spectrogram */
    uint32_t n_complex, n_radices;
    uint32_t radices[PSTI_SOUND_RADICES];
};

/* Returns false if the chain makes no spectrogram. */
bool psti_sound_chain_features(const struct psti_sound_chain *chain,
                               struct psti_sound_features *features);
/* Writes the factors of the FFT, each as real and imaginary part: n_complex of its stages and, for
 * an even n_fft, n_fft / 4 of its last step. */
void psti_sound_chain_twiddles(const struct psti_sound_chain *chain, float *stages, float *last);

/* Returns the floats of one channel in the result of psti_sound_run_waves. `length` is the number
 * of samples of the waveform. */
size_t psti_sound_wave_floats(const struct psti_sound_features *features, uint64_t length);
/* Does the operations before the spectrogram, on the source that the caller has written to the
 * run. Writes one waveform for each channel, with the padding of the spectrogram: frame t begins at
 * float t * hop_length. */
void psti_sound_run_waves(struct psti_sound_run *run, const struct psti_sound_chain *chain,
                          const struct psti_sound_draw *draw, float *out);

#endif
