/* augment_augmix.c - AugMix: runs chains of operations on copies of a picture, and mixes the
 * results.
 *
 * In and out: run->picture. augment_policy.c chooses the operations. It runs on the thread of the
 * run. */
#include "augment/augment_int.h"

#include "base/philox.h"

enum { MIX_MAX_WIDTH = 8 };

/* Draws the weights of n chains from a Dirichlet distribution with equal parameters `alpha`. */
static void roll_shares(struct psti_dice *dice, double alpha, uint32_t n,
                        double shares[MIX_MAX_WIDTH])
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        shares[i] = psti_augment_dice_gamma(dice, alpha) + 1e-300;
        sum += shares[i];
    }
    for (uint32_t i = 0; i < n; i++)
        shares[i] /= sum;
}

/* Runs one chain of randomly chosen operations on run->picture. */
static enum pst_status mix_chain(struct psti_run *run, const struct psti_step *step,
                                 struct psti_dice *dice, struct pst_error *err)
{
    const struct pst_op *op = &run->chain->ops[step->i_op];
    uint32_t depth =
        op->chain_depth ? op->chain_depth : 1 + psti_uniform_below(psti_augment_dice_roll(dice), 3);
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < depth; i++) {
        struct psti_step one = {.height = step->height, .width = step->width, .i_op = step->i_op};
        if (psti_augment_augmix_step(op, dice, &one))
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
    struct psti_dice dice = {.stream = step->stream};
    double whole[MIX_MAX_WIDTH], shares[MIX_MAX_WIDTH];
    struct mix mix;
    enum pst_status status = mix_open(run, &mix, err);
    if (status != PST_OK)
        return status;
    roll_shares(&dice, op->alpha[0], 2, whole);
    roll_shares(&dice, op->alpha[0], op->mixture_width, shares);
    mix_add(&mix, mix.before, (float)whole[0]);
    for (uint32_t i = 0; status == PST_OK && i < op->mixture_width; i++) {
        memcpy(run->picture.data, mix.before, mix.nbytes);
        status = mix_chain(run, step, &dice, err);
        if (status == PST_OK)
            mix_add(&mix, run->picture.data, (float)(shares[i] * whole[1]));
    }
    if (status == PST_OK)
        mix_store(&mix, run->picture.data);
    return status;
}
