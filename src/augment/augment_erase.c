/* augment_erase.c - RandomErasing (Zhong et al., AAAI 2020): overwrites a rectangle of the finished
 * image.
 *
 * In: the drawn rectangle, and the slot (the image's place in the batch), which already holds the
 * finished image. Out: the slot. It runs on the thread of the run. Sizes are drawn as in
 * torchvision: ten tries for a rectangle that is smaller than the image on both sides. Fill values
 * have the unit of the output, so after Normalize 0 is the mean. */
#include "augment/augment_int.h"

#include "base/numbers/logarithm.h"
#include "base/philox.h"

#include <math.h>

/* Draws the rectangle. words[0] and words[1] become y | x << 32 and height | width << 32. A height
 * of 0 means that nothing is erased. */
void psti_augment_erase_draw(const struct pst_op *op, const struct psti_number_stream *stream,
                             uint32_t height, uint32_t width, uint64_t words[4])
{
    uint32_t r[4];
    double area = (double)height * width, low = psti_logarithm(op->ratio[0]),
           high = psti_logarithm(op->ratio[1]);
    psti_augment_numbers(stream, 0, r);
    bool erases = psti_uniform01(r[0]) < op->p;
    for (uint32_t try = 1; erases && try <= 10; try++) {
        psti_augment_numbers(stream, try, r);
        double share = op->scale[0] + ((double)op->scale[1] - op->scale[0]) * psti_uniform01(r[0]);
        double aspect = psti_augment_exp(low + (high - low) * psti_uniform01(r[1]));
        double h = rint(sqrt(area * share * aspect)), w = rint(sqrt(area * share / aspect));
        if (!(h < height && w < width))
            continue;
        uint32_t to_h = (uint32_t)h, to_w = (uint32_t)w;
        words[0] = psti_augment_draw_pair(psti_uniform_below(r[2], height - to_h + 1),
                                          psti_uniform_below(r[3], width - to_w + 1));
        words[1] = psti_augment_draw_pair(to_h, to_w);
        return;
    }
}

void psti_augment_erase_value(unsigned char *to, enum pst_dtype dtype, float value)
{
    float whole = value < 0 ? 0 : value > 65535.0f ? 65535.0f : floorf(value + 0.5f);
    switch (dtype) {
    case PST_DTYPE_U8:
        *to = (unsigned char)(whole > 255.0f ? 255.0f : whole);
        return;
    case PST_DTYPE_U16:
        psti_store_u16(to, (uint16_t)whole);
        return;
    case PST_DTYPE_F16:
        psti_store_u16(to, psti_augment_f16_from_f32(value));
        return;
    case PST_DTYPE_BF16:
        psti_store_u16(to, psti_augment_bf16_from_f32(value));
        return;
    default:
        memcpy(to, &value, sizeof value);
        return;
    }
}

/* Returns number i of the normal noise (Box-Muller method). Try 16 + i / 2 gives the numbers i and
 * i + 1 for even i. */
static float noise_at(const struct psti_number_stream *stream, uint64_t i)
{
    uint32_t r[4];
    double sine, cosine;
    psti_augment_numbers(stream, (uint32_t)(16 + i / 2), r);
    double radius = sqrt(-2 * psti_logarithm(((double)r[0] + 0.5) * 0x1p-32));
    psti_augment_sincos(360 * ((double)r[1] * 0x1p-32), &sine, &cosine);
    return (float)(radius * ((i & 1) != 0 ? sine : cosine));
}

/* The rectangle in the slot: element (y, x, c) lies at offset y * row + x * pixel + c * channel. */
struct rectangle {
    unsigned char *data;
    uint32_t height, width, channels;
    size_t row, pixel, channel;
};

static void fill_rectangle(const struct rectangle *at, const struct pst_op *op,
                           enum pst_dtype dtype, const struct psti_number_stream *stream)
{
    uint64_t i = 0;
    for (uint32_t y = 0; y < at->height; y++) {
        for (uint32_t x = 0; x < at->width; x++) {
            for (uint32_t c = 0; c < at->channels; c++, i++) {
                float value = op->noise ? noise_at(stream, i) : op->fill[c];
                psti_augment_erase_value(at->data + y * at->row + x * at->pixel + c * at->channel,
                                         dtype, value);
            }
        }
    }
}

void psti_augment_erase(struct psti_run *run)
{
    const struct psti_chain_output *output = &run->chain->output;
    const struct psti_erase *erase = &run->plan.erase;
    size_t nbytes = pst_dtype_nbytes(output->dtype);
    bool planar = output->layout == PST_LAYOUT_CHW;
    struct rectangle at = {
        .height = erase->height,
        .width = erase->width,
        .channels = output->channels,
        .row = run->target.row_nbytes,
        .pixel = planar ? nbytes : nbytes * output->channels,
        .channel = planar ? run->target.row_nbytes * run->plan.out_height : nbytes,
    };
    at.data = (unsigned char *)run->target.data + erase->y * at.row + erase->x * at.pixel;
    fill_rectangle(&at, &run->chain->ops[erase->i_op], output->dtype, &erase->stream);
}
