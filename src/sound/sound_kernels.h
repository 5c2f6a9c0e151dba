/* sound_kernels.h - the inner loops, with one table of functions per CPU level. All levels give the
 * same bits, because sums always have eight lanes that are added in one order, whatever the vector
 * length of the CPU. Pure functions, any thread. */
#ifndef PST_SOUND_SOUND_KERNELS_H
#define PST_SOUND_SOUND_KERNELS_H

#include <stddef.h>
#include <stdint.h>

struct psti_sound_band;
struct psti_sound_filter;

/* The spectrogram of one channel: its inputs and its output. */
struct psti_sound_frames {
    const void *fft;
    const float *wave;   /* padded waveform; frame t starts at wave + t * hop */
    const float *window; /* [n_fft] */
    uint32_t n_fft, hop;
    uint32_t first, end; /* the weights of the window outside of first .. end - 1 are 0 */
    uint32_t power;      /* exponent of the magnitudes: 1 or 2 */
    uint64_t n_frames;
    const struct psti_sound_band *bands; /* NULL: the result has bins instead of bands */
    const float *band_weights;
    uint32_t n_bands;
    float *scratch; /* psti_sound_kernels.frames_floats floats, aligned to 64 bytes */
    float *out;     /* [bins or bands][n_frames] */
};

struct psti_sound_kernels {
    const char *name;
    /* fft_nbytes returns the bytes of the tables of an FFT of n samples, and fft_init makes the
     * tables. `tables` is aligned to 64 bytes. */
    size_t (*fft_nbytes)(uint32_t n);
    void (*fft_init)(uint32_t n, void *tables);
    /* Writes the radices of the FFT's stages, at most PSTI_SOUND_RADICES. Returns their number. */
    uint32_t (*fft_radices)(const void *tables, uint32_t *radices);
    /* Writes the tables as psti_sound_chain_twiddles does. */
    void (*fft_twiddles)(const void *tables, uint32_t n, float *stages, float *last);
    size_t (*frames_floats)(uint32_t n_fft);
    void (*frames)(const struct psti_sound_frames *frames);
    /* Makes n samples of the result, from its sample `first` on. x[0] is sample `x_first` of the
     * source. Where weights reach beyond the source, x must hold zeros. */
    void (*resample)(const struct psti_sound_filter *filter, const float *x, int64_t x_first,
                     uint64_t first, size_t n, float *out);
    /* Computes out[j][t], the sum over i of matrix[j][i] * in[i][t]. `out` must not overlap
     * `in`. */
    void (*product)(const float *matrix, uint32_t n_rows, uint32_t n_columns, const float *in,
                    size_t n_frames, float *out);
    /* Replaces each value by factor * log(value + offset), which is computed in double. log(0) is
     * -infinity, and negative numbers have the logarithm NaN. */
    void (*logs)(float *values, size_t n, float offset, double factor);
    /* Replaces each value by multiplier * log10(max(value, amin)) - offset. Returns the largest
     * result that is no NaN; -infinity if there is none. */
    float (*decibels)(float *values, size_t n, float amin, float multiplier, float offset);
    /* Gives all NaNs the same bits. */
    void (*settle)(float *values, size_t n);
};

extern const struct psti_sound_kernels psti_sound_kernels_c, psti_sound_kernels_avx2;
const struct psti_sound_kernels *psti_sound_kernels_for(uint32_t features);

#endif
