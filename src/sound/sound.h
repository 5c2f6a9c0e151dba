/* sound.h - the door of the room: waveforms to waveforms and spectrograms.
 *
 * A chain is compiled once and constant from then on; any thread may use it. For each sample a draw
 * says what the chain's random parameters are, which samples of the source it needs, and the shape
 * of the result. A run has the scratch of one thread. */
#ifndef PST_SOUND_SOUND_H
#define PST_SOUND_SOUND_H

#include <penstock/audio.h>
#include <penstock/image.h>

#include <stdbool.h>

struct psti_sound_chain;
struct psti_sound_run;

/* ops are copied. dtype: F32 or F16. */
enum pst_status psti_sound_chain_open(const struct pst_audio_op *ops, size_t n_ops,
                                      enum pst_dtype dtype, struct psti_sound_chain **out,
                                      struct pst_error *err);
void psti_sound_chain_close(struct psti_sound_chain **chain);
enum pst_dtype psti_sound_chain_dtype(const struct psti_sound_chain *chain);
/* Dimensions of the result: 2 (channels, samples) or 3 (channels, bins, frames). shape: those that
 * do not depend on the sample; 0: it does. */
uint32_t psti_sound_chain_shape(const struct psti_sound_chain *chain, int64_t shape[3]);

/* As struct psti_draw_key; own: number of the field + 1. */
struct psti_sound_key {
    uint64_t seed, epoch, sample, draw;
    uint32_t view, own;
};

/* The signal between two operations, of which the run holds `n` samples from `first` on. */
struct psti_sound_part {
    uint32_t rate, channels;
    uint64_t length; /* samples of the whole signal */
    uint64_t first, n;
};

/* Random parameters and sizes of one sample. */
struct psti_sound_draw {
    struct psti_sound_part source; /* what is to be decoded */
    uint32_t ndim;
    int64_t shape[3];
    struct psti_sound_step {
        struct psti_sound_part out; /* of a waveform: the signal behind the operation */
        double value;               /* a factor or a ratio */
        uint64_t start, end;        /* of a clip or a mask */
        bool is_on;
    } steps[PST_AUDIO_MAX_OPS];
    uint32_t key[2]; /* of the sample's random numbers */
    uint32_t own;
    uint64_t sample;
    size_t n_floats; /* of each of the run's buffers */
};

/* A pure function. source: rate, channels and length of the sound. PST_ERROR_UNSUPPORTED: the chain
 * cannot be applied to such a sound: too short, or of another rate. */
enum pst_status psti_sound_chain_draw(const struct psti_sound_chain *chain,
                                      const struct psti_sound_key *key,
                                      const struct psti_sound_part *source,
                                      struct psti_sound_draw *draw, struct pst_error *err);

enum pst_status psti_sound_run_open(struct psti_sound_run **out, struct pst_error *err);
void psti_sound_run_close(struct psti_sound_run **run);
/* Bytes by which the run's memory will grow for this draw: 0 in the steady state. */
size_t psti_sound_run_lacks(const struct psti_sound_run *run, const struct psti_sound_chain *chain,
                            const struct psti_sound_draw *draw);
/* Bytes that the run has. */
size_t psti_sound_run_nbytes(const struct psti_sound_run *run);
/* Allocates that memory. Returns the place for the source: interleaved floats, source.n *
 * source.channels. NULL: no memory. */
float *psti_sound_run_begin(struct psti_sound_run *run, const struct psti_sound_chain *chain,
                            const struct psti_sound_draw *draw, struct pst_error *err);
/* Applies the chain to what lies at that place. out: all elements of draw->shape, in the chain's
 * dtype. */
enum pst_status psti_sound_run_end(struct psti_sound_run *run, const struct psti_sound_chain *chain,
                                   const struct psti_sound_draw *draw, void *out,
                                   struct pst_error *err);

#endif
