/* augment_mix.c - MixUp, CutMix and the draw of mosaics for the images of a batch.
 *
 * In: the array of a whole batch. Out: the same array, changed. One thread. As in torchvision, the
 * partner of row i of the batch is row i - 1, and the partner of row 0 is the last row. Rows are
 * mixed from the last to the first, PIECE bytes of each at a time, so a row's partner is still
 * unchanged when it is needed. Only that piece of the last row must be copied first. */
#include "augment/augment_int.h"

#include "base/philox.h"

#include <math.h>

static const char *mosaic_problem(const struct pst_mix *mix)
{
    if (!(mix->p >= 0 && mix->p <= 1))
        return "p is 0 to 1";
    if (!(mix->centre[0] >= 0 && mix->centre[0] <= mix->centre[1] && mix->centre[1] <= 1))
        return "the centre is 0 to 1, the lower end first";
    return NULL;
}

const char *psti_augment_mix_problem(const struct pst_mix *mix)
{
    if (mix->kind == PST_MIX_MOSAIC)
        return mosaic_problem(mix);
    if (mix->kind != PST_MIX_MIXUP && mix->kind != PST_MIX_CUTMIX)
        return "unknown kind";
    return mix->alpha > 0 && mix->alpha <= 1e6f ? NULL : "alpha must be above 0";
}

/* Draws the rectangle of a CutMix. Its area is the share 1 - lambda of the picture, and its centre
 * is anywhere. The part outside of the picture is cut off. */
static void draw_rectangle(struct psti_dice *dice, uint32_t height, uint32_t width,
                           struct pst_batch_mix *mix)
{
    uint32_t x = psti_uniform_below(psti_augment_dice_roll(dice), width);
    uint32_t y = psti_uniform_below(psti_augment_dice_roll(dice), height);
    double half = 0.5 * sqrt(1 - (double)mix->lambda);
    uint32_t half_x = (uint32_t)(half * width), half_y = (uint32_t)(half * height);
    mix->x = x > half_x ? x - half_x : 0;
    mix->y = y > half_y ? y - half_y : 0;
    mix->width = (x + half_x < width ? x + half_x : width) - mix->x;
    mix->height = (y + half_y < height ? y + half_y : height) - mix->y;
    double area = (double)mix->width * mix->height / ((double)width * height);
    mix->lambda = (float)(1 - area);
}

void psti_augment_mix_draw(const struct pst_mix *ways, uint32_t n, uint64_t seed, uint64_t epoch,
                           uint64_t position, uint32_t height, uint32_t width,
                           struct pst_batch_mix *mix)
{
    uint32_t folded[4];
    psti_random4(seed, epoch, PSTI_RANDOM_MIX, position, 0, 0, folded);
    struct psti_dice dice = {
        .stream = {.key = {folded[0], folded[1]}, .sample = position, .number = 0}};
    const struct pst_mix *way = &ways[psti_uniform_below(psti_augment_dice_roll(&dice), n)];
    double a = psti_augment_dice_gamma(&dice, way->alpha),
           b = psti_augment_dice_gamma(&dice, way->alpha);
    double lambda = a + b > 0 ? a / (a + b) : 0.5;
    *mix = (struct pst_batch_mix){.kind = way->kind, .lambda = (float)lambda};
    if (way->kind == PST_MIX_CUTMIX)
        draw_rectangle(&dice, height, width, mix);
}

/* Draws the point at which the tiles of a mosaic meet, on one axis. The canvas is twice as large as
 * the picture, and the picture is its middle half. */
static uint32_t draw_point(const struct pst_mix *way, uint32_t random, uint32_t size)
{
    bool given = way->centre[1] > 0;
    double low = given ? (double)way->centre[0] : 0.25,
           high = given ? (double)way->centre[1] : 0.75;
    double at = (2 * (low + (high - low) * (double)psti_uniform01(random)) - 0.5) * size;
    return at <= 0 ? 0 : at >= size ? size : (uint32_t)(at + 0.5);
}

void psti_augment_mosaic_draw(const struct pst_mix *way, uint64_t seed, uint64_t epoch,
                              uint64_t position, uint32_t row, uint32_t n_rows, uint32_t height,
                              uint32_t width, struct psti_mosaic *mosaic)
{
    uint32_t r[4], others[4];
    psti_random4(seed, epoch, PSTI_RANDOM_MIX, position, row + 1, 0, r);
    psti_random4(seed, epoch, PSTI_RANDOM_MIX, position, row + 1, 1, others);
    *mosaic = (struct psti_mosaic){.is_applied = way->p == 0 || psti_uniform01(r[0]) < way->p,
                                   .y = draw_point(way, r[1], height),
                                   .x = draw_point(way, r[2], width),
                                   .rows = {row}};
    for (uint32_t q = 1; q < 4; q++)
        mosaic->rows[q] = psti_uniform_below(others[q - 1], n_rows);
}

/* Bytes of a row that are mixed at a time. Two such pieces fit the first-level cache. */
#define PIECE 4096

static float f32_from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = (uint32_t)(half & 0x7fff) << 13;
    float value;
    memcpy(&value, &rest, sizeof value);
    value *= 0x1p112f; /* corrects the exponent's bias; subnormals become normal */
    if (rest >= 0x7c00u << 13)
        rest |= 0x7f800000;
    else
        memcpy(&rest, &value, sizeof rest);
    rest |= sign;
    memcpy(&value, &rest, sizeof value);
    return value;
}

static float f32_from_bf16(uint16_t value)
{
    uint32_t bits = (uint32_t)value << 16;
    float whole;
    memcpy(&whole, &bits, sizeof whole);
    return whole;
}

/* Sets to[i] = keep * to[i] + (1 - keep) * from[i] for n elements. Integers are rounded. */
static void blend_f32(float *restrict to, const float *restrict from, size_t n, float keep)
{
    float give = 1 - keep;
    for (size_t i = 0; i < n; i++) {
        float own = to[i] * keep;
        to[i] = own + from[i] * give;
    }
}

static void blend_f16(uint16_t *restrict to, const uint16_t *restrict from, size_t n, float keep)
{
    float give = 1 - keep;
    for (size_t i = 0; i < n; i++) {
        float own = f32_from_f16(to[i]) * keep;
        to[i] = psti_augment_f16_from_f32(own + f32_from_f16(from[i]) * give);
    }
}

static void blend_bf16(uint16_t *restrict to, const uint16_t *restrict from, size_t n, float keep)
{
    float give = 1 - keep;
    for (size_t i = 0; i < n; i++) {
        float own = f32_from_bf16(to[i]) * keep;
        to[i] = psti_augment_bf16_from_f32(own + f32_from_bf16(from[i]) * give);
    }
}

static void blend_u16(uint16_t *restrict to, const uint16_t *restrict from, size_t n, float keep)
{
    float give = 1 - keep;
    for (size_t i = 0; i < n; i++) {
        float own = (float)to[i] * keep;
        to[i] = (uint16_t)(own + (float)from[i] * give + 0.5f);
    }
}

static void blend_u8(uint8_t *restrict to, const uint8_t *restrict from, size_t n, float keep)
{
    float give = 1 - keep;
    for (size_t i = 0; i < n; i++) {
        float own = (float)to[i] * keep;
        to[i] = (uint8_t)(own + (float)from[i] * give + 0.5f);
    }
}

static void blend(enum pst_dtype dtype, void *to, const void *from, size_t nbytes, float keep)
{
    switch (dtype) {
    case PST_DTYPE_F32:
        blend_f32(to, from, nbytes / 4, keep);
        return;
    case PST_DTYPE_F16:
        blend_f16(to, from, nbytes / 2, keep);
        return;
    case PST_DTYPE_BF16:
        blend_bf16(to, from, nbytes / 2, keep);
        return;
    case PST_DTYPE_U16:
        blend_u16(to, from, nbytes / 2, keep);
        return;
    default:
        blend_u8(to, from, nbytes, keep);
        return;
    }
}

/* Mixes the same piece, `nbytes` <= PIECE bytes, of all rows. `at` points to the piece of row 0. */
static void mix_piece(const struct psti_mix_images *images, const struct pst_batch_mix *mix,
                      unsigned char *at, size_t row_nbytes, size_t nbytes)
{
    _Alignas(64) unsigned char last[PIECE];
    bool cuts = mix->kind == PST_MIX_CUTMIX;
    memcpy(last, at + (images->n_rows - 1) * row_nbytes, nbytes);
    for (uint32_t i = images->n_rows; i-- > 0;) {
        unsigned char *row = at + i * row_nbytes;
        const unsigned char *partner = i > 0 ? row - row_nbytes : last;
        if (cuts)
            memcpy(row, partner, nbytes);
        else
            blend(images->dtype, row, partner, nbytes, mix->lambda);
    }
}

static void mix_span(const struct psti_mix_images *images, const struct pst_batch_mix *mix,
                     size_t offset, size_t nbytes, size_t row_nbytes)
{
    unsigned char *data = images->data;
    for (size_t done = 0; done < nbytes; done += PIECE) {
        size_t n = nbytes - done < PIECE ? nbytes - done : PIECE;
        mix_piece(images, mix, data + offset + done, row_nbytes, n);
    }
}

void psti_augment_mix(const struct psti_mix_images *images, const struct pst_batch_mix *mix)
{
    bool planar = images->layout == PST_LAYOUT_CHW;
    size_t nbytes = pst_dtype_nbytes(images->dtype),
           pixel = planar ? nbytes : nbytes * images->channels;
    size_t line = images->width * pixel, plane = line * images->height;
    uint32_t n_planes = planar ? images->channels : 1;
    if (images->n_rows < 2)
        return;
    if (mix->kind == PST_MIX_MIXUP) {
        mix_span(images, mix, 0, plane * n_planes, plane * n_planes);
        return;
    }
    for (uint32_t p = 0; p < n_planes; p++) {
        for (uint32_t y = mix->y; y < mix->y + mix->height; y++)
            mix_span(images, mix, p * plane + y * line + mix->x * pixel, mix->width * pixel,
                     plane * n_planes);
    }
}
