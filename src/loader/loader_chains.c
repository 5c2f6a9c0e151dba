/* loader_chains.c - compiles the chains of operations of an image or mask field from the caller's
 * options.
 *
 * In: the options, and the stored form of the first sample. Out: a chain for each pixel format that
 * may occur: 8 or 16 bits, 1 to 4 channels. A field has one chain if depth and channels are both
 * fixed. Otherwise each row uses the chain for its own pixel format, so the result for an image
 * never depends on other images of the field. Runs at open; the result is constant. */
#include "loader/loader_plan.h"

#include "base/fail.h"

#include <string.h>

static bool normalizes(const struct pst_field_output *wish)
{
    return wish->n_ops > 0 && wish->ops[wish->n_ops - 1].kind == PST_OP_NORMALIZE;
}

/* True if pixels are decoded with the bits that they have stored: images that become floats, and
 * masks whose dtype can hold 16 bits. */
static bool takes_any_bits(const struct pst_field_output *wish, bool is_mask)
{
    if (wish->bits)
        return false;
    switch ((int)wish->dtype) {
    case 0:
        return !is_mask && normalizes(wish);
    case PST_DTYPE_U8:
        return false;
    case PST_DTYPE_U16:
        return is_mask;
    default:
        return true;
    }
}

static bool takes_any_channels(const struct pst_field_output *wish)
{
    return wish->channels == PST_CHANNELS_STORED;
}

static uint8_t bits_of(const struct pst_field_output *wish)
{
    return wish->bits ? wish->bits : wish->dtype == PST_DTYPE_U16 ? 16 : 8;
}

void psti_loader_plan_decode(const struct pst_loader_options *options,
                             const struct pst_field_output *wish,
                             struct psti_loader_plan_field *plan)
{
    bool is_mask = plan->field->type == PST_FIELD_MASK;
    plan->channels = is_mask ? 1 : wish->channels ? wish->channels : 3;
    plan->bits = bits_of(wish);
    /* Class numbers are never rescaled: masks are decoded with their stored bits, and the numbers
     * must fit the dtype. */
    plan->decode = (struct pst_decode_options){
        .struct_size = sizeof plan->decode,
        .channels = is_mask || takes_any_channels(wish) ? 0 : plan->channels,
        .bits = is_mask || takes_any_bits(wish, is_mask) ? 0 : plan->bits,
        .ignore_orientation = wish->ignore_orientation && !is_mask,
        .palette_indices = is_mask,
        .max_pixels = options->max_pixels};
}

/* Compiles the chain for pixels of `channels` channels and `bits` bits. *out is NULL after
 * failure. */
static enum pst_status compile(const struct psti_loader_plan_field *plan,
                               const struct pst_field_output *wish, const struct pst_op *ops,
                               uint8_t channels, uint8_t bits, struct psti_chain **out,
                               struct pst_error *err)
{
    const struct psti_chain_output output = {.dtype = wish->dtype,
                                             .layout = wish->layout,
                                             .channels = channels,
                                             .bits = bits,
                                             .is_mask = plan->field->type == PST_FIELD_MASK};
    enum pst_status status = psti_augment_chain_compile(ops, wish->n_ops, &output, out, err);
    if (status != PST_OK && err) {
        char text[PST_ERROR_TEXT_CAP];
        memcpy(text, err->text, sizeof text);
        psti_fail(err, status, "loader", "field '%s': %.400s", plan->field->name, text);
    }
    return status;
}

/* Copies the operations for pixels of 16 bits, in a field that has both depths. The caller's `fill`
 * is in 0..255, so it is scaled to 16 bits. */
static void widen_fills(const struct pst_field_output *wish,
                        struct pst_op ops[PSTI_AUGMENT_MAX_OPS])
{
    for (size_t i = 0; i < wish->n_ops; i++) {
        ops[i] = wish->ops[i];
        for (int c = 0; c < 4; c++)
            ops[i].fill[c] *= 257;
    }
}

/* Compiles chains for `bits`, for one number of channels or for 1 to 4. In the second case the
 * operations may refuse some numbers of channels, and no chain is made for them. */
static enum pst_status compile_bits(struct psti_loader_plan_field *plan,
                                    const struct pst_field_output *wish, const struct pst_op *ops,
                                    uint8_t bits, struct pst_error *err)
{
    uint8_t first = takes_any_channels(wish) ? 1 : plan->channels;
    uint8_t last = takes_any_channels(wish) ? 4 : plan->channels;
    for (uint8_t c = first; c <= last; c++) {
        enum pst_status status =
            compile(plan, wish, ops, c, bits, &plan->chains[bits == 16][c - 1], err);
        if (status != PST_OK && !(takes_any_channels(wish) && status == PST_ERROR_ARGUMENT))
            return status;
    }
    return PST_OK;
}

/* Sets plan->chain to the chain for the expected pixels. If the operations do not suit these, takes
 * another chain. */
static void choose_chain(struct psti_loader_plan_field *plan)
{
    plan->chain = psti_loader_plan_chain(plan, plan->channels, plan->bits);
    for (uint8_t c = 1; c <= 4 && !plan->chain; c++)
        for (uint8_t bits = 8; bits <= 16 && !plan->chain; bits += 8) {
            plan->chain = psti_loader_plan_chain(plan, c, bits);
            plan->channels = c;
            plan->bits = bits;
        }
}

enum pst_status psti_loader_plan_chains(const struct pst_field_output *wish, uint8_t channels,
                                        uint8_t bits, struct psti_loader_plan_field *plan,
                                        struct pst_error *err)
{
    bool is_mask = plan->field->type == PST_FIELD_MASK, any_bits = takes_any_bits(wish, is_mask);
    plan->any_channels = takes_any_channels(wish);
    if (plan->any_channels)
        plan->channels = channels;
    if (any_bits || (is_mask && !wish->bits))
        plan->bits = bits;
    enum pst_status status = PST_OK;
    if (any_bits || plan->bits == 8)
        status = compile_bits(plan, wish, wish->ops, 8, err);
    /* Operations on 16-bit classes may not suit masks of 8 bits. Such masks are not expected, so
     * this is no error here; a row that has one fails. */
    if (status == PST_ERROR_ARGUMENT && is_mask && plan->bits == 16)
        status = PST_OK;
    if (status == PST_OK && (any_bits || plan->bits == 16)) {
        struct pst_op wide[PSTI_AUGMENT_MAX_OPS];
        bool both_images = any_bits && !is_mask;
        if (both_images)
            widen_fills(wish, wide);
        status = compile_bits(plan, wish, both_images ? wide : wish->ops, 16, err);
    }
    if (status != PST_OK)
        return status;
    choose_chain(plan);
    if (!plan->chain) /* `err` has the reason for the last refusal */
        return PST_ERROR_ARGUMENT;
    plan->identity =
        !any_bits && wish->n_ops == 0 && wish->layout == PST_LAYOUT_HWC &&
        psti_augment_chain_dtype(plan->chain) == (plan->bits == 16 ? PST_DTYPE_U16 : PST_DTYPE_U8);
    return PST_OK;
}

struct psti_chain *psti_loader_plan_chain(const struct psti_loader_plan_field *plan,
                                          uint8_t channels, uint8_t bits)
{
    if (channels < 1 || channels > 4 || (bits != 8 && bits != 16))
        return NULL;
    return plan->chains[bits == 16][channels - 1];
}

struct psti_chain *psti_loader_plan_take_chain(struct psti_loader_plan_field *plan)
{
    struct psti_chain *chain = plan->chain;
    for (int i = 0; i < 8; i++)
        if (plan->chains[i / 4][i % 4] == chain)
            plan->chains[i / 4][i % 4] = NULL;
    plan->chain = NULL;
    return chain;
}

void psti_loader_plan_free_chains(struct psti_loader_plan_field *plan)
{
    for (int i = 0; i < 8; i++)
        psti_augment_chain_free(&plan->chains[i / 4][i % 4]);
    plan->chain = NULL;
}
