/* augment_steps.c - operations that need the whole picture, so they cannot run row by row.
 *
 * In and out: run->picture, which changes between the run's two image buffers. It runs on the
 * thread of the run. Resizes use the same resampler as row-by-row processing, so the results are
 * equal to the bit. */
#include "augment/augment_edge.h"
#include "augment/augment_int.h"

#include "base/bits.h"

static void fill_pixel(const struct psti_run *run, const struct pst_op *op, unsigned char pixel[8])
{
    uint16_t fill[4];
    psti_augment_fill(run->chain, op, fill);
    for (uint32_t c = 0; c < run->chain->output.channels; c++) {
        if (run->chain->output.bits == 8)
            pixel[c] = (unsigned char)fill[c];
        else
            psti_store_u16(pixel + 2 * (size_t)c, fill[c]);
    }
}

/* Fills a row with copies of one pixel. Each memcpy doubles the part that is filled. */
static void fill_row(unsigned char *to, const unsigned char *fill, uint32_t width, size_t size)
{
    const size_t nbytes = width * size;
    if (width == 0)
        return;
    memcpy(to, fill, size);
    for (size_t done = size; done < nbytes;) {
        size_t more = done < nbytes - done ? done : nbytes - done;
        memcpy(to + done, to, more);
        done += more;
    }
}

/* Writes the pixels [begin, end) of a window's row, which lie beyond the source. Either all of them
 * show the fill or none does. */
static void window_side(const int32_t *map, uint32_t begin, uint32_t end, size_t size,
                        const unsigned char *from, const unsigned char *fill, unsigned char *to)
{
    if (begin < end && map[begin] < 0) {
        fill_row(to + begin * size, fill, end - begin, size);
        return;
    }
    for (uint32_t x = begin; x < end; x++)
        memcpy(to + x * size, from + (size_t)map[x] * size, size);
}

/* Writes one row of a window. The pixels [before, after) are copied from the source in one piece.
 * For the others, map[x] is the index of the source pixel, or -1 for the fill. */
static void window_row(const struct psti_run *run, const int32_t *map, uint32_t before,
                       uint32_t after, uint32_t width, const unsigned char *from,
                       const unsigned char *fill, unsigned char *to)
{
    size_t size = run->pixel_nbytes;
    if (after <= before) {
        window_side(map, 0, width, size, from, fill, to);
        return;
    }
    window_side(map, 0, before, size, from, fill, to);
    memcpy(to + before * size, from + (size_t)map[before] * size, (after - before) * size);
    window_side(map, after, width, size, from, fill, to);
}

static enum pst_status step_window(struct psti_run *run, const struct psti_step *step,
                                   struct pst_error *err)
{
    const struct pst_op *op = &run->chain->ops[step->i_op];
    struct psti_picture from = run->picture, to;
    enum pst_status status = psti_augment_picture_make(run, psti_augment_other_buffer(run),
                                                       step->height, step->width, &to, err);
    if (status == PST_OK)
        status = psti_augment_run_reserve(run, PSTI_BUFFER_MAP, (size_t)step->width * 4, err);
    if (status != PST_OK)
        return status;
    int32_t *map = (int32_t *)(void *)run->buffers[PSTI_BUFFER_MAP].data;
    for (uint32_t x = 0; x < step->width; x++) {
        int64_t index = psti_augment_pad_index(step->x + x, step->full_width, op->pad_mode);
        map[x] = index < 0 ? -1 : (int32_t)(index - step->base_x);
    }
    int64_t before = step->x < 0 ? -step->x : 0;
    int64_t after = (int64_t)step->full_width - step->x;
    before = before > step->width ? step->width : before;
    after = after > step->width ? step->width : after < before ? before : after;
    unsigned char fill[8];
    fill_pixel(run, op, fill);
    for (uint32_t y = 0; y < step->height; y++) {
        int64_t index = psti_augment_pad_index(step->y + y, step->full_height, op->pad_mode);
        unsigned char *row = to.data + y * to.row_nbytes;
        if (index < 0) {
            fill_row(row, fill, step->width, run->pixel_nbytes);
        } else {
            window_row(run, map, (uint32_t)before, (uint32_t)after, step->width,
                       from.data + (size_t)(index - step->base_y) * from.row_nbytes, fill, row);
        }
    }
    run->picture = to;
    return PST_OK;
}

static enum pst_status step_flip(struct psti_run *run, const struct psti_step *step,
                                 struct pst_error *err)
{
    struct psti_picture from = run->picture, to;
    enum pst_status status = psti_augment_picture_make(run, psti_augment_other_buffer(run),
                                                       from.height, from.width, &to, err);
    if (status == PST_OK)
        status = psti_augment_store_begin(run, from.width, err);
    if (status != PST_OK)
        return status;
    for (uint32_t y = 0; y < from.height; y++) {
        const unsigned char *row = from.data + y * from.row_nbytes;
        if (step->flip_x) {
            psti_augment_reverse_row(run, run->buffers[PSTI_BUFFER_FLIPPED].data, row, from.width);
            row = run->buffers[PSTI_BUFFER_FLIPPED].data;
        }
        uint32_t at = step->flip_y ? from.height - 1 - y : y;
        memcpy(to.data + at * to.row_nbytes, row, from.row_nbytes);
    }
    run->picture = to;
    return PST_OK;
}

static void picture_emit(struct psti_run *run, uint32_t i, const unsigned char *row)
{
    memcpy(run->picture.data + i * run->picture.row_nbytes, row, run->picture.row_nbytes);
}

void psti_augment_step_axes(const struct pst_op *op, const struct psti_chain_output *output,
                            uint32_t height, uint32_t width, const struct psti_step *step,
                            struct psti_axis_spec *y, struct psti_axis_spec *x)
{
    *x = (struct psti_axis_spec){
        .side = {.n_from = width,
                 .n_to = step->width,
                 .interpolation =
                     psti_augment_axis_interpolation(width, step->width, op->interpolation),
                 .no_antialias = op->no_antialias},
        .n = step->width,
        .n_source = width,
        .channels = output->channels,
        .bits = output->bits,
    };
    *y = *x;
    y->side.n_from = y->n_source = height;
    y->side.n_to = y->n = step->height;
    y->side.interpolation =
        psti_augment_axis_interpolation(height, step->height, op->interpolation);
    y->channels = 0;
}

static enum pst_status step_resize(struct psti_run *run, const struct psti_step *step,
                                   struct pst_error *err)
{
    const struct pst_op *op = &run->chain->ops[step->i_op];
    struct psti_picture from = run->picture, to;
    enum pst_status status = psti_augment_picture_make(run, psti_augment_other_buffer(run),
                                                       step->height, step->width, &to, err);
    if (status != PST_OK)
        return status;
    struct psti_axis_spec x, y;
    psti_augment_step_axes(op, &run->chain->output, from.height, from.width, step, &y, &x);
    status = psti_augment_resample_begin(run, &x, &y, picture_emit, err);
    if (status != PST_OK)
        return status;
    run->picture = to;
    psti_augment_resample_rows(run, from.data, from.row_nbytes, from.height);
    return PST_OK;
}

enum pst_status psti_augment_step_run(struct psti_run *run, const struct psti_step *step,
                                      struct pst_error *err)
{
    const struct pst_op *op = &run->chain->ops[step->i_op];
    const struct psti_samples samples = psti_augment_samples(run, &run->picture);
    switch (step->kind) {
    case PSTI_STEP_WINDOW:
        return step_window(run, step, err);
    case PSTI_STEP_RESIZE:
        return step_resize(run, step, err);
    case PSTI_STEP_FLIP:
        return step_flip(run, step, err);
    case PSTI_STEP_SHARPEN:
        return psti_augment_sharpen(run, step->factors[0], err);
    case PSTI_STEP_BLUR:
        return psti_augment_blur(run, op, step->factors[0], err);
    case PSTI_STEP_WARP:
        return psti_augment_warp_run(run, step, err);
    case PSTI_STEP_JITTER:
        psti_augment_color_jitter(run, step->factors, step->order, &run->picture);
        break;
    case PSTI_STEP_GRAY:
        psti_augment_color_gray(run, &run->picture);
        break;
    case PSTI_STEP_INVERT:
        psti_augment_invert(&samples);
        break;
    case PSTI_STEP_POSTERIZE:
        psti_augment_posterize(&samples, step->order);
        break;
    case PSTI_STEP_SOLARIZE:
        psti_augment_solarize(&samples, step->factors[0]);
        break;
    case PSTI_STEP_AUTOCONTRAST:
        psti_augment_autocontrast(&samples);
        break;
    case PSTI_STEP_EQUALIZE:
        psti_augment_equalize(&samples);
        break;
    case PSTI_STEP_LABELS:
        psti_augment_labels_map(run->chain->labels[step->i_op], run->chain->output.bits,
                                samples.data, samples.data, samples.n_pixels);
        break;
    case PSTI_STEP_AUGMIX: /* run by augment_augmix.c, which makes steps of its own */
        break;
    }
    return PST_OK;
}
