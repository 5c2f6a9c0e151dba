/* sound_kernels.h - the inner loops, by CPU level. All levels give the same bits: sums have eight
 * lanes in one order, whatever the vectors of the CPU. Pure functions, any thread. */
#ifndef PST_SOUND_SOUND_KERNELS_H
#define PST_SOUND_SOUND_KERNELS_H

#include <stddef.h>
#include <stdint.h>

struct psti_sound_filter;

struct psti_sound_band {
    uint32_t begin, end; /* bins */
    uint32_t at;         /* place of its first weight */
};

/* A spectrogram of one channel. */
struct psti_sound_frames {
    const void *fft;
    const float *wave;   /* padded: frame t begins at wave + t * hop */
    const float *window; /* [n_fft] */
    uint32_t n_fft, hop;
    uint32_t first, end; /* taps of the window that are not 0 */
    uint32_t power;      /* 1, 2 */
    uint64_t n_frames;
    const struct psti_sound_band *bands; /* NULL: bins as they are */
    const float *band_weights;
    uint32_t n_bands;
    float *scratch; /* psti_sound_kernels.frames_floats, aligned to 64 bytes */
    float *out;     /* [bins or bands][n_frames] */
};

struct psti_sound_kernels {
    const char *name;
    /* Bytes of the tables of an FFT of n samples, and the tables. `tables` is aligned to 64 bytes.
     */
    size_t (*fft_nbytes)(uint32_t n);
    void (*fft_init)(uint32_t n, void *tables);
    size_t (*frames_floats)(uint32_t n_fft);
    void (*frames)(const struct psti_sound_frames *frames);
    /* n samples of the result, from its sample `first` on. x[0] is sample `x_first` of the source;
     * the weights' reach beyond what is there meets zeros. */
    void (*resample)(const struct psti_sound_filter *filter, const float *x, int64_t x_first,
                     uint64_t first, size_t n, float *out);
    /* out[j][t] = sum over i of matrix[j][i] * in[i][t]. Not in place. */
    void (*product)(const float *matrix, uint32_t n_rows, uint32_t n_columns, const float *in,
                    size_t n_frames, float *out);
};

extern const struct psti_sound_kernels psti_sound_kernels_c, psti_sound_kernels_avx2;
const struct psti_sound_kernels *psti_sound_kernels_for(uint32_t features);

#endif
