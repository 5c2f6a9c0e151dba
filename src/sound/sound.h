/* sound.h - the public interface of src/sound: turns waveforms into other waveforms and into
 * spectrograms. A chain is compiled once and constant from then on; any thread may use it. For each
 * sample, a draw holds the values of the chain's random parameters, the range of the source that
 * they need, and the shape of the result. A run is the scratch memory of one thread. */
#ifndef PST_SOUND_SOUND_H
#define PST_SOUND_SOUND_H

#include <penstock/audio.h>
#include <penstock/image.h>

#include <stdbool.h>

struct psti_sound_chain;
struct psti_sound_run;

/* Compiles `ops`, which are copied, to a chain. `dtype` is F32 or F16. */
enum pst_status psti_sound_chain_open(const struct pst_audio_op *ops, size_t n_ops,
                                      enum pst_dtype dtype, struct psti_sound_chain **out,
                                      struct pst_error *err);
void psti_sound_chain_close(struct psti_sound_chain **chain);
enum pst_dtype psti_sound_chain_dtype(const struct psti_sound_chain *chain);
/* Returns the number of dimensions of the result: 2 (channels, samples) or 3 (channels, bins,
 * frames). Sets shape[i] to the size of a dimension, or to 0 if that depends on the sample. */
uint32_t psti_sound_chain_shape(const struct psti_sound_chain *chain, int64_t shape[3]);

/* Key of the random parameters, which are a function of it: see struct psti_draw_key. `own` is the
 * field's number + 1. */
struct psti_sound_key {
    uint64_t seed, epoch, sample, draw;
    uint32_t view, own;
};

/* The signal between two operations. The run holds `n` of its samples, from `first` on. */
struct psti_sound_part {
    uint32_t rate, channels;
    uint64_t length; /* number of samples of the whole signal */
    uint64_t first, n;
};

/* The random parameters of one sample, and the sizes that follow from them. */
struct psti_sound_draw {
    struct psti_sound_part source; /* the part of the source that must be decoded */
    uint32_t ndim;
    int64_t shape[3];
    struct psti_sound_step {
        struct psti_sound_part out; /* waveforms: the signal after the operation */
        double value;               /* the factor or ratio of the operation */
        uint64_t start, end;        /* range of a clip or of a mask */
        bool is_on;
    } steps[PST_AUDIO_MAX_OPS];
    uint32_t key[2]; /* key of the sample's random numbers */
    uint32_t own;
    uint64_t sample;
    size_t n_floats; /* number of floats in each of the run's buffers */
};

/* Draws the random parameters of a sample. `source` has the rate, channels and length of the sound.
 * Fails with PST_ERROR_UNSUPPORTED if the sound is too short for the chain or has a wrong rate. A
 * pure function. */
enum pst_status psti_sound_chain_draw(const struct psti_sound_chain *chain,
                                      const struct psti_sound_key *key,
                                      const struct psti_sound_part *source,
                                      struct psti_sound_draw *draw, struct pst_error *err);

enum pst_status psti_sound_run_open(struct psti_sound_run **out, struct pst_error *err);
void psti_sound_run_close(struct psti_sound_run **run);
/* Returns how many more bytes the run must allocate for this draw: 0 in the steady state. */
size_t psti_sound_run_lacks(const struct psti_sound_run *run, const struct psti_sound_chain *chain,
                            const struct psti_sound_draw *draw);
/* Returns how many bytes the run has allocated. */
size_t psti_sound_run_nbytes(const struct psti_sound_run *run);
/* Allocates the memory for this draw. Returns where the caller must store the source: source.n *
 * source.channels floats, interleaved. Returns NULL if there is no memory. */
float *psti_sound_run_begin(struct psti_sound_run *run, const struct psti_sound_chain *chain,
                            const struct psti_sound_draw *draw, struct pst_error *err);
/* Applies the chain to the source that the caller has written. Writes all elements of draw->shape
 * to `out`, in the chain's dtype. */
enum pst_status psti_sound_run_end(struct psti_sound_run *run, const struct psti_sound_chain *chain,
                                   const struct psti_sound_draw *draw, void *out,
                                   struct pst_error *err);

#endif
