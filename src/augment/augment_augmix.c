/* augment_augmix.c - AugMix: runs chains of operations on copies of a picture, and mixes the
 * results.
 *
 * In and out: run->picture. augment_policy.c chooses the operations. It runs on the thread of the
 * run. The functions that draw are pure; augment_recipe.c calls them, too. */
#include "augment/augment_int.h"

#include "base/philox.h"

/* Draws the weights of n chains from a Dirichlet distribution with equal parameters `alpha`. */
static void roll_shares(struct psti_dice *dice, double alpha, uint32_t n,
                        double shares[PSTI_AUGMIX_MAX_WIDTH])
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        shares[i] = psti_augment_dice_gamma(dice, alpha) + 1e-300;
        sum += shares[i];
    }
    for (uint32_t i = 0; i < n; i++)
        shares[i] /= sum;
}

void psti_augment_augmix_begin(const struct pst_op *op, const struct psti_number_stream *stream,
                               struct psti_augmix *mix)
{
    double whole[PSTI_AUGMIX_MAX_WIDTH], shares[PSTI_AUGMIX_MAX_WIDTH];
    *mix = (struct psti_augmix){.op = op, .dice = {.stream = *stream}};
    roll_shares(&mix->dice, op->alpha[0], 2, whole);
    roll_shares(&mix->dice, op->alpha[0], op->mixture_width, shares);
    mix->kept_share = (float)whole[0];
    for (uint32_t i = 0; i < op->mixture_width; i++)
        mix->shares[i] = (float)(shares[i] * whole[1]);
}

uint32_t psti_augment_augmix_depth(struct psti_augmix *mix)
{
    uint32_t depth = mix->op->chain_depth;
    return depth ? depth : 1 + psti_uniform_below(psti_augment_dice_roll(&mix->dice), 3);
}

/* Runs the next chain of randomly chosen operations on run->picture. */
static enum pst_status mix_chain(struct psti_run *run, const struct psti_step *step,
                                 struct psti_augmix *draw, struct pst_error *err)
{
    uint32_t depth = psti_augment_augmix_depth(draw);
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < depth; i++) {
        struct psti_step one = {.height = step->height, .width = step->width, .i_op = step->i_op};
        if (psti_augment_augmix_step(draw, &one))
            status = psti_augment_step_run(run, &one, err);
    }
    return status;
}

/* The picture before AugMix, and the weighted sum of the results of the chains. */
struct mix {
    unsigned char *before;
    float *sum;
    size_t n_samples, nbytes;
    bool wide;
};

static float mix_sample(const struct mix *mix, const unsigned char *data, size_t i)
{
    return mix->wide ? (float)psti_load_u16(data + 2 * i) : (float)data[i];
}

static void mix_add(const struct mix *mix, const unsigned char *data, float share)
{
    for (size_t i = 0; i < mix->n_samples; i++)
        mix->sum[i] += share * mix_sample(mix, data, i);
}

static void mix_store(const struct mix *mix, unsigned char *data)
{
    for (size_t i = 0; i < mix->n_samples; i++) {
        float most = mix->wide ? 65535.0f : 255.0f, v = mix->sum[i] > most ? most : mix->sum[i];
        if (mix->wide)
            psti_store_u16(data + 2 * i, (uint16_t)v);
        else
            data[i] = (unsigned char)v;
    }
}

static enum pst_status mix_open(struct psti_run *run, struct mix *mix, struct pst_error *err)
{
    mix->wide = run->chain->output.bits == 16;
    mix->nbytes = run->picture.row_nbytes * run->picture.height;
    mix->n_samples = mix->nbytes / (mix->wide ? 2 : 1);
    size_t padded = psti_round_up(mix->nbytes, 64);
    enum pst_status status = psti_augment_run_reserve(run, PSTI_BUFFER_MIX,
                                                      padded + mix->n_samples * sizeof(float), err);
    mix->before = run->buffers[PSTI_BUFFER_MIX].data;
    if (status == PST_OK) {
        mix->sum = (float *)(void *)(mix->before + padded);
        memcpy(mix->before, run->picture.data, mix->nbytes);
        memset(mix->sum, 0, mix->n_samples * sizeof(float));
    }
    return status;
}

enum pst_status psti_augment_augmix_run(struct psti_run *run, const struct psti_step *step,
                                        struct pst_error *err)
{
    const struct pst_op *op = &run->chain->ops[step->i_op];
    struct psti_augmix draw;
    struct mix mix;
    enum pst_status status = mix_open(run, &mix, err);
    if (status != PST_OK)
        return status;
    psti_augment_augmix_begin(op, &step->stream, &draw);
    mix_add(&mix, mix.before, draw.kept_share);
    for (uint32_t i = 0; status == PST_OK && i < op->mixture_width; i++) {
        memcpy(run->picture.data, mix.before, mix.nbytes);
        status = mix_chain(run, step, &draw, err);
        if (status == PST_OK)
            mix_add(&mix, run->picture.data, draw.shares[i]);
    }
    if (status == PST_OK)
        mix_store(&mix, run->picture.data);
    return status;
}
