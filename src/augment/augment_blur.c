/* augment_blur.c - operations that combine each pixel with its neighbours: GaussianBlur and
 * Sharpness.
 *
 * In: run->picture, HWC samples of 8 or 16 bits. Out: the changed picture, in place. It runs on the
 * thread of the run.
 *
 * The blur is torchvision's: taps exp(-d^2 / (2 sigma^2)), normalised to the sum 1; it blurs all
 * channels, mirrors the picture at its edges without repeating the edge pixel, and rounds. It
 * computes in floats, first along rows. A ring of filtered rows, as many as the filter has taps,
 * allows the picture to change in place. */
#include "augment/augment_edge.h"
#include "augment/augment_int.h"

struct blur {
    uint32_t height, width, channels;
    uint32_t n_y, n_x; /* number of taps on each axis, both odd */
    float *taps_y, *taps_x, *padded,
        *out; /* `padded` has (n_x - 1) / 2 more pixels on each side */
    float *ring;
    size_t n_row; /* number of samples in a row of the picture */
    void (*load)(void *ctx, uint32_t y, float *row);
    void (*store)(void *ctx, uint32_t y, const float *row);
    void *ctx;
};

void psti_augment_blur_taps(float *taps, uint32_t n, float sigma)
{
    double sum = 0, weights[PSTI_BLUR_MAX_TAPS];
    for (uint32_t i = 0; i < n; i++) {
        double d = ((double)i - (n - 1) / 2.0) / sigma, power = -0.5 * d * d;
        weights[i] = power < -600 ? 0 : psti_augment_exp(power);
        sum += weights[i];
    }
    for (uint32_t i = 0; i < n; i++)
        taps[i] = (float)(weights[i] / sum);
}

/* Adds weight * from[i] to to[i], for n samples of a row. */
static void accumulate(float *restrict to, const float *restrict from, float weight, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += weight * from[i];
}

static void filter_row(const struct blur *b, uint32_t y)
{
    uint32_t radius = b->n_x / 2, c_n = b->channels;
    float *middle = b->padded + (size_t)radius * c_n, *to = b->ring + (y % b->n_y) * b->n_row;
    b->load(b->ctx, y, middle);
    for (uint32_t i = 0; i < radius; i++) {
        int64_t left = psti_augment_pad_index((int64_t)i - radius, b->width, PST_PAD_REFLECT);
        int64_t right = psti_augment_pad_index((int64_t)b->width + i, b->width, PST_PAD_REFLECT);
        memcpy(b->padded + (size_t)i * c_n, middle + (size_t)left * c_n, c_n * sizeof(float));
        memcpy(middle + ((size_t)b->width + i) * c_n, middle + (size_t)right * c_n,
               c_n * sizeof(float));
    }
    memset(to, 0, b->n_row * sizeof *to);
    for (uint32_t k = 0; k < b->n_x; k++)
        accumulate(to, b->padded + (size_t)k * c_n, b->taps_x[k], b->n_row);
}

static void blur_rows(const struct blur *b)
{
    uint32_t radius = b->n_y / 2, ready = 0;
    for (uint32_t y = 0; y < b->height; y++) {
        while (ready < b->height && ready <= y + radius)
            filter_row(b, ready++);
        memset(b->out, 0, b->n_row * sizeof *b->out);
        for (uint32_t k = 0; k < b->n_y; k++) {
            int64_t from =
                psti_augment_pad_index((int64_t)y + k - radius, b->height, PST_PAD_REFLECT);
            accumulate(b->out, b->ring + ((uint32_t)from % b->n_y) * b->n_row, b->taps_y[k],
                       b->n_row);
        }
        b->store(b->ctx, y, b->out);
    }
}

/* Reserves scratch memory for a blur and runs it. */
static enum pst_status blur_run(struct psti_run *run, struct blur *b, float sigma_y, float sigma_x,
                                struct pst_error *err)
{
    b->n_row = (size_t)b->width * b->channels;
    size_t n_padded = b->n_row + (size_t)(b->n_x - 1) * b->channels;
    size_t n = 2 * (size_t)PSTI_BLUR_MAX_TAPS + n_padded + b->n_row * ((size_t)b->n_y + 1);
    enum pst_status status =
        psti_augment_run_reserve(run, PSTI_BUFFER_BLUR, n * sizeof(float), err);
    if (status != PST_OK)
        return status;
    b->taps_y = (float *)(void *)run->buffers[PSTI_BUFFER_BLUR].data;
    b->taps_x = b->taps_y + PSTI_BLUR_MAX_TAPS;
    b->padded = b->taps_x + PSTI_BLUR_MAX_TAPS;
    b->out = b->padded + n_padded;
    b->ring = b->out + b->n_row;
    psti_augment_blur_taps(b->taps_y, b->n_y, sigma_y);
    psti_augment_blur_taps(b->taps_x, b->n_x, sigma_x);
    blur_rows(b);
    return PST_OK;
}

/* A plane of floats to blur, such as the displacements of an elastic warp. */
struct plane {
    float *data;
    uint32_t width;
};

static void load_plane(void *ctx, uint32_t y, float *row)
{
    const struct plane *plane = ctx;
    memcpy(row, plane->data + (size_t)y * plane->width, plane->width * sizeof *row);
}

static void store_plane(void *ctx, uint32_t y, const float *row)
{
    const struct plane *plane = ctx;
    memcpy(plane->data + (size_t)y * plane->width, row, plane->width * sizeof *row);
}

enum pst_status psti_augment_blur_plane(struct psti_run *run, float *data, uint32_t height,
                                        uint32_t width, const uint32_t taps[2],
                                        const float sigma[2], struct pst_error *err)
{
    struct plane plane = {data, width};
    struct blur b = {.height = height,
                     .width = width,
                     .channels = 1,
                     .n_y = taps[1],
                     .n_x = taps[0],
                     .load = load_plane,
                     .store = store_plane,
                     .ctx = &plane};
    return blur_run(run, &b, sigma[1], sigma[0], err);
}

static void load_picture(void *ctx, uint32_t y, float *row)
{
    const struct psti_run *run = ctx;
    const unsigned char *from = run->picture.data + y * run->picture.row_nbytes;
    size_t n = (size_t)run->picture.width * run->chain->output.channels;
    if (run->chain->output.bits == 16) {
        for (size_t i = 0; i < n; i++)
            row[i] = (float)psti_load_u16(from + 2 * i);
        return;
    }
    for (size_t i = 0; i < n; i++)
        row[i] = (float)from[i];
}

/* Rounds and stores a blurred row. The taps are positive and add up to 1, so only rounding can take
 * a value out of range. */
static void store_picture(void *ctx, uint32_t y, const float *row)
{
    const struct psti_run *run = ctx;
    unsigned char *to = run->picture.data + y * run->picture.row_nbytes;
    size_t n = (size_t)run->picture.width * run->chain->output.channels;
    if (run->chain->output.bits == 16) {
        for (size_t i = 0; i < n; i++) {
            float v = psti_augment_round(row[i]);
            psti_store_u16(to + 2 * i, (uint16_t)(v > 65535.0f ? 65535.0f : v));
        }
        return;
    }
    for (size_t i = 0; i < n; i++) {
        float v = psti_augment_round(row[i]);
        to[i] = (unsigned char)(v > 255.0f ? 255.0f : v);
    }
}

enum pst_status psti_augment_blur(struct psti_run *run, const struct pst_op *op, float sigma,
                                  struct pst_error *err)
{
    struct blur b = {.height = run->picture.height,
                     .width = run->picture.width,
                     .channels = run->chain->output.channels,
                     .n_y = op->height,
                     .n_x = op->width,
                     .load = load_picture,
                     .store = store_picture,
                     .ctx = run};
    return blur_run(run, &b, sigma, sigma, err);
}

/* Returns one sample of torchvision's sharpness. The sample is smoothed (weight 5 for itself, 1 for
 * each of its 8 neighbours, divided by 13 and rounded) and blended with the original by `factor`.
 * Pixels at the border are not changed.
 *
 * 13 is odd, so a division by 13 never ends in exactly a half. */
static float sharpened(uint32_t neighbours, uint32_t own, float factor)
{
    uint32_t smooth = (neighbours + 5 * own + 6) / 13;
    float v = (float)own;
    return v + (1.0f - factor) * ((float)smooth - v);
}

static uint32_t sum_of_8(const struct psti_samples *s, size_t i, size_t row, size_t pixel)
{
    float sum = psti_samples_get(s, i - row - pixel) + psti_samples_get(s, i - row) +
                psti_samples_get(s, i - row + pixel) + psti_samples_get(s, i - pixel) +
                psti_samples_get(s, i + pixel) + psti_samples_get(s, i + row - pixel) +
                psti_samples_get(s, i + row) + psti_samples_get(s, i + row + pixel);
    return (uint32_t)sum;
}

/* Does what sharpened() does, for the 8-bit samples of pixels [1, n - 1) of a row. `above` and
 * `below` are the rows next to it. */
static void sharpen_row(uint8_t *to, const uint8_t *above, const uint8_t *at, const uint8_t *below,
                        size_t n, size_t pixel, float factor)
{
    for (size_t i = pixel; i < n - pixel; i++) {
        uint16_t sum = (uint16_t)(above[i - pixel] + above[i] + above[i + pixel] + at[i - pixel] +
                                  at[i + pixel] + below[i - pixel] + below[i] + below[i + pixel]);
        uint16_t weighted = (uint16_t)(sum + 5 * at[i] + 6);
        uint16_t smooth = (uint16_t)(weighted * 5042u >> 16); /* weighted / 13, exact below 6553 */
        float own = (float)at[i], v = own + (1.0f - factor) * ((float)smooth - own);
        v = v < 0 ? 0 : v > 255.0f ? 255.0f : v;
        to[i] = (uint8_t)v;
    }
}

static void sharpen_picture(const struct psti_run *run, const struct psti_picture *from,
                            const struct psti_picture *to, float factor)
{
    const struct psti_samples in = psti_augment_samples(run, from),
                              out = psti_augment_samples(run, to);
    size_t row = (size_t)from->width * in.channels;
    bool plain = !in.wide && in.channels == in.colors;
    for (uint32_t y = 1; y + 1 < from->height; y++) {
        const unsigned char *at = from->data + y * from->row_nbytes;
        if (plain) {
            sharpen_row(to->data + y * to->row_nbytes, at - from->row_nbytes, at,
                        at + from->row_nbytes, row, in.channels, factor);
            continue;
        }
        for (size_t i = y * row + in.channels; i < (y + 1) * row - in.channels; i++) {
            if (i % in.channels < in.colors)
                psti_samples_put(&out, i,
                                 sharpened(sum_of_8(&in, i, row, in.channels),
                                           (uint32_t)psti_samples_get(&in, i), factor));
        }
    }
}

enum pst_status psti_augment_sharpen(struct psti_run *run, float factor, struct pst_error *err)
{
    struct psti_picture from = run->picture, to;
    if (from.height <= 2 || from.width <= 2)
        return PST_OK;
    enum pst_status status = psti_augment_picture_make(run, psti_augment_other_buffer(run),
                                                       from.height, from.width, &to, err);
    if (status != PST_OK)
        return status;
    memcpy(to.data, from.data, from.row_nbytes * from.height);
    sharpen_picture(run, &from, &to, factor);
    run->picture = to;
    return PST_OK;
}
