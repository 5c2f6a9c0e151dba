/* sound_features.c - describes the part of a chain that makes features, for those who make them
 * elsewhere. Pure functions, any thread. */
#include "sound/sound_features.h"

#include "sound/sound_int.h"

static uint32_t first_feature(const struct psti_sound_chain *chain)
{
    uint32_t i = 0;
    while (i < chain->n_ops && chain->ops[i].n_bins == 0)
        i++;
    return i;
}

static uint32_t count_weights(const struct psti_sound_bands *bands)
{
    uint32_t n = 0;
    for (uint32_t m = 0; m < bands->n_bands; m++) {
        uint32_t end = bands->bands[m].at + bands->bands[m].end - bands->bands[m].begin;
        n = end > n ? end : n;
    }
    return n;
}

bool psti_sound_chain_features(const struct psti_sound_chain *chain,
                               struct psti_sound_features *features)
{
    uint32_t first = first_feature(chain);
    if (first == chain->n_ops)
        return false;
    *features = (struct psti_sound_features){.n = chain->n_ops - first,
                                             .length = chain->fixed_length,
                                             .window = chain->ops[first].window};
    for (uint32_t i = first; i < chain->n_ops; i++) {
        const struct psti_sound_op *op = &chain->ops[i];
        struct psti_sound_feature *feature = &features->list[i - first];
        *feature = (struct psti_sound_feature){.op = &op->op,
                                               .step = i,
                                               .n_bins = op->n_bins,
                                               .bands = op->bands.bands,
                                               .weights = op->bands.weights,
                                               .n_weights = count_weights(&op->bands),
                                               .dct = op->dct};
        if (op->op.kind == PST_AUDIO_OP_DECIBEL)
            feature->offset = psti_sound_offset(&op->op);
    }
    const struct psti_sound_op *spectrogram = &chain->ops[first];
    features->n_radices = chain->kernels->fft_radices(spectrogram->fft, features->radices);
    uint32_t n_fft = spectrogram->op.n_fft;
    features->n_complex = n_fft % 2 ? n_fft : n_fft / 2;
    return true;
}

void psti_sound_chain_twiddles(const struct psti_sound_chain *chain, float *stages, float *last)
{
    const struct psti_sound_op *spectrogram = &chain->ops[first_feature(chain)];
    chain->kernels->fft_twiddles(spectrogram->fft, spectrogram->op.n_fft, stages, last);
}

size_t psti_sound_wave_floats(const struct psti_sound_features *features, uint64_t length)
{
    return psti_sound_padded(features->list[0].op, length);
}
