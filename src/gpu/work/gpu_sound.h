/* gpu_sound.h - work for the kernels that make features of sound. Plain C and CUDA.
 *
 * The features of a field are made in steps, each by a launch for all rows. The first step makes
 * frames: window, FFT, magnitudes and bands. Each other step takes the values of the step before,
 * or their products with a matrix. Any step then changes its values one by one, and stores them:
 * in scratch, as (channels, bins, frames) of floats, or as the finished rows. A step ends where an
 * operation needs all of its values: the largest one, or a whole column of bins. */
#ifndef PST_GPU_GPU_SOUND_H
#define PST_GPU_GPU_SOUND_H

#include <stdint.h>

enum {
    PSTI_GPU_SOUND_WARPS = 8,                /* the most warps of a block */
    PSTI_GPU_SOUND_SHARED_NBYTES = 64 << 10, /* of a block; every GPU has it */
    PSTI_GPU_SOUND_RADICES = 16,
    PSTI_GPU_SOUND_POINTS = 32
};

enum psti_gpu_sound_point_kind {
    PSTI_GPU_SOUND_DECIBEL,    /* factor * log10(max(value, a)) - b */
    PSTI_GPU_SOUND_LOG,        /* log(value + a) */
    PSTI_GPU_SOUND_MASK_BINS,  /* a, if the bin is in the row's range number `range` */
    PSTI_GPU_SOUND_MASK_FRAMES /* a, if the frame is */
};

/* A change of each value by itself. */
struct psti_gpu_sound_point {
    uint32_t kind; /* enum psti_gpu_sound_point_kind */
    uint32_t range;
    float factor, a, b;
};

struct psti_gpu_sound_row {
    uint64_t wave;      /* address of the padded waveforms, f32 [channels][wave_floats] */
    uint64_t values[2]; /* addresses of f32 in scratch, which the steps use by turns */
    uint64_t to;        /* address of the finished row */
    /* Address of u32, one for each step with a largest value: its key (sound.cuh). They are 0
     * before. */
    uint64_t largest;
    uint32_t begin[PSTI_GPU_SOUND_POINTS], end[PSTI_GPU_SOUND_POINTS]; /* ranges of masks */
};

/* Arguments of the launch of a step. Tables are given by their addresses. */
struct psti_gpu_sound_args {
    uint64_t rows; /* address of struct psti_gpu_sound_row [n_rows] */
    /* Tables of frames: u32 [n_complex], the sample that each number of the FFT begins with; the
     * factors of its stages and of its last step, f32 pairs; f32 [n_fft]; the bands, u32 (begin,
     * end, at), and their weights, f32. */
    uint64_t order, twiddles, last, window, bands, weights;
    uint64_t matrix; /* f32 [n_bins][n_before] */
    uint64_t points; /* struct psti_gpu_sound_point [n_points] */
    uint32_t channels, n_frames;
    uint32_t n_before; /* bins of the step before */
    uint32_t n_bins;
    uint32_t has_matrix;
    uint32_t n_blocks; /* of one row */
    /* Frames only: */
    uint32_t wave_floats, n_fft, hop, first, end, power, n_complex, n_radices;
    uint32_t has_bands;
    uint32_t radices[PSTI_GPU_SOUND_RADICES];
    /* Values below the largest value number `from_largest` minus top_db are raised to it.
     * `to_largest`: the number of the step's own largest value. PSTI_GPU_SOUND_NO_LARGEST: none. */
    uint32_t from_largest, to_largest;
    float top_db;
    uint32_t from, to; /* indexes of `values` */
    uint32_t finishes; /* true: the values are stored in the finished row */
    uint32_t is_f16;   /* as halves */
    uint32_t n_points;
};
#define PSTI_GPU_SOUND_NO_LARGEST UINT32_MAX

#ifndef __cplusplus

#include "sound/sound_features.h"

/* How the features of a field are made. */
struct psti_gpu_sound {
    int64_t shape[3];       /* of a row: channels, bins, frames */
    uint32_t wave_floats;   /* of one channel */
    uint32_t n_largest;     /* largest values of a row */
    uint32_t values_floats; /* of each of the two scratch buffers; 0: there is one step */
    uint32_t n_steps;
    struct psti_gpu_sound_args *steps; /* [n_steps], with offsets in the tables as addresses */
    uint32_t n_points;
    struct psti_gpu_sound_point points[PSTI_GPU_SOUND_POINTS]; /* those of all steps */
    uint32_t n_ranges;
    uint32_t ranges[PSTI_GPU_SOUND_POINTS]; /* the step in a draw of each range */
    void *tables;
    size_t tables_nbytes;
    char refusal[96]; /* why the GPU cannot make the features; empty: it can */
};

/* Plans the features of a chain whose rows have this shape. If the GPU cannot make them, `refusal`
 * is set. PST_ERROR_UNSUPPORTED: the chain makes no features of one shape. */
enum pst_status psti_gpu_sound_plan(const struct psti_sound_chain *chain, const int64_t shape[3],
                                    struct psti_gpu_sound *sound, struct pst_error *err);
void psti_gpu_sound_free(struct psti_gpu_sound *sound);
/* These functions return the bytes of a row's largest values and waveforms in the upload, where the
 * waveforms begin, and the bytes of its scratch. */
size_t psti_gpu_sound_upload_nbytes(const struct psti_gpu_sound *sound);
size_t psti_gpu_sound_waves_at(const struct psti_gpu_sound *sound);
size_t psti_gpu_sound_scratch_nbytes(const struct psti_gpu_sound *sound);
struct psti_gpu_claimed;
/* Fills in a row that claimed this memory, except `to`, and clears its largest values. */
void psti_gpu_sound_fill_row(const struct psti_gpu_sound *sound, const struct psti_sound_draw *draw,
                             const struct psti_gpu_claimed *claimed,
                             struct psti_gpu_sound_row *row);
/* Computes the warps and the shared memory of a block of a step, and the blocks of a row. */
void psti_gpu_sound_shape(const struct psti_gpu_sound_args *step, uint32_t *n_blocks,
                          uint32_t *n_warps, uint32_t *shared_nbytes);

#endif
#endif
