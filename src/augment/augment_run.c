/* augment_run.c - runs the chain on one sample.
 *
 * In: a draw, then the rows of its region as the decoder delivers them. Out: the pixels in the
 * sample's slot of the batch. A run belongs to one thread and keeps its scratch
 * (augment_scratch.c). augment_resample.c filters. augment_steps.c and augment_augmix.c run the
 * operations that need the whole picture. */
#include "augment/augment_int.h"

#include "base/fail.h"

/* Receives a finished row of the front (the operations that run row by row). Stores it in the slot,
 * or in run->picture if steps follow. */
static void front_emit(struct psti_run *run, uint32_t i, const unsigned char *row)
{
    const struct psti_front *front = &run->plan.front;
    if (front->labels != 0) {
        unsigned char *mapped = run->buffers[PSTI_BUFFER_LABELS].data;
        psti_augment_labels_map(run->chain->labels[front->labels - 1], run->chain->output.bits,
                                mapped, row, front->window_width);
        row = mapped;
    }
    uint32_t at = front->flip_y ? front->window_height - 1 - i : i;
    if (run->plan.n_steps == 0) {
        psti_augment_store_row(run, at, row, run->flip_rows);
        return;
    }
    struct psti_picture *picture = &run->picture;
    unsigned char *to = picture->data + at * picture->row_nbytes;
    if (run->flip_rows) {
        psti_augment_reverse_row(run, run->buffers[PSTI_BUFFER_FLIPPED].data, row, picture->width);
        row = run->buffers[PSTI_BUFFER_FLIPPED].data;
    }
    memcpy(to, row, picture->row_nbytes);
}

/* Returns the address in the slot of row i, for rows that can be written there directly. */
static unsigned char *front_place(struct psti_run *run, uint32_t i)
{
    const struct psti_front *front = &run->plan.front;
    uint32_t at = front->flip_y ? front->window_height - 1 - i : i;
    return (unsigned char *)run->target.data + at * run->target.row_nbytes;
}

/* Returns whether the samples of a finished row go to the slot unchanged and in the same order. */
static bool is_plain(const struct psti_chain *chain)
{
    const struct psti_chain_output *output = &chain->output;
    return (output->layout == PST_LAYOUT_HWC || output->channels == 1) &&
           ((output->bits == 8 && output->dtype == PST_DTYPE_U8) ||
            (output->bits == 16 && output->dtype == PST_DTYPE_U16));
}

struct psti_axis_spec psti_augment_front_axis(const struct psti_augment_plan *plan,
                                              const struct psti_chain_output *output, bool is_y)
{
    const struct psti_front *front = &plan->front;
    struct psti_axis_spec spec = {
        .side = psti_augment_front_side(plan, is_y),
        .mirror = is_y ? front->mirror_y : front->mirror_x,
        .flip = is_y ? false : front->flip_x,
        .begin = is_y ? front->window_y : front->window_x,
        .n = is_y ? front->window_height : front->window_width,
        .origin = is_y ? plan->region_y - plan->origin_y : plan->region_x - plan->origin_x,
        .n_source = is_y ? plan->region_height : plan->region_width,
        .channels = is_y ? 0 : output->channels,
        .bits = output->bits,
    };
    return spec;
}

enum pst_status psti_augment_run_begin(struct psti_run *run, const struct psti_chain *chain,
                                       const struct psti_draw *draw,
                                       const struct psti_target *target, struct pst_error *err)
{
    run->running = false;
    psti_augment_run_forget(run);
    run->chain = chain;
    run->target = *target;
    run->pixel_nbytes = (uint32_t)chain->output.channels * (chain->output.bits / 8u);
    run->next_row = 0;
    psti_augment_plan(chain, draw, &run->plan);
    const struct psti_front *front = &run->plan.front;
    uint32_t widest = run->plan.out_width;
    if (front->window_width > widest)
        widest = front->window_width;
    enum pst_status status = psti_augment_store_begin(run, widest, err);
    if (status == PST_OK && run->plan.n_steps > 0) {
        status = psti_augment_picture_make(run, PSTI_BUFFER_IMAGE_0, front->window_height,
                                           front->window_width, &run->picture, err);
    }
    if (status == PST_OK && front->labels != 0)
        status = psti_augment_run_reserve(
            run, PSTI_BUFFER_LABELS, (size_t)front->window_width * run->pixel_nbytes + PSTI_SLACK,
            err);
    run->flip_rows = front->flip_x;
    if (status == PST_OK && front->resizes) {
        struct psti_axis_spec x = psti_augment_front_axis(&run->plan, &chain->output, false);
        struct psti_axis_spec y = psti_augment_front_axis(&run->plan, &chain->output, true);
        status = psti_augment_resample_begin(run, &x, &y, front_emit, err);
        run->flip_rows = front->flip_x && run->resample.x_way == PSTI_X_NONE;
        if (is_plain(chain) && chain->output.bits == 8 && !run->flip_rows &&
            run->plan.n_steps == 0 && front->labels == 0)
            run->resample.place = front_place;
    }
    run->running = status == PST_OK;
    return status;
}

/* Copies rows that need no processing to the slot, all at once if neither side has gaps between
 * rows. Returns false if the rows need processing. */
static bool copy_rows(struct psti_run *run, const unsigned char *rows, size_t row_nbytes,
                      uint32_t y, uint32_t n_rows)
{
    const struct psti_front *front = &run->plan.front;
    if (!is_plain(run->chain) || front->flip_x || front->flip_y || front->labels != 0 ||
        run->plan.n_steps > 0)
        return false;
    size_t used = (size_t)run->plan.out_width * run->pixel_nbytes;
    unsigned char *to = (unsigned char *)run->target.data + y * run->target.row_nbytes;
    if (row_nbytes == used && run->target.row_nbytes == used) {
        memcpy(to, rows, used * n_rows);
        return true;
    }
    for (uint32_t i = 0; i < n_rows; i++)
        memcpy(to + i * run->target.row_nbytes, rows + i * row_nbytes, used);
    return true;
}

enum pst_status psti_augment_run_rows(void *ctx, const void *rows, size_t row_nbytes, uint32_t y,
                                      uint32_t n_rows)
{
    struct psti_run *run = ctx;
    if (!run->running || y != run->next_row || n_rows > run->plan.region_height - y)
        return PST_ERROR_STATE;
    run->next_row += n_rows;
    if (run->plan.front.resizes) {
        psti_augment_resample_rows(run, rows, row_nbytes, n_rows);
    } else if (!copy_rows(run, rows, row_nbytes, y, n_rows)) {
        for (uint32_t i = 0; i < n_rows; i++)
            front_emit(run, y + i, (const unsigned char *)rows + i * row_nbytes);
    }
    return PST_OK;
}

/* Runs the steps of the plan, in order, on run->picture. */
static enum pst_status run_steps(struct psti_run *run, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < run->plan.n_steps; i++) {
        const struct psti_step *step = &run->plan.steps[i];
        bool mixes = step->kind == PSTI_STEP_AUGMIX;
        status = (mixes ? psti_augment_augmix_run : psti_augment_step_run)(run, step, err);
    }
    return status;
}

enum pst_status psti_augment_run_end(struct psti_run *run, struct pst_error *err)
{
    if (!run->running)
        return psti_fail(err, PST_ERROR_STATE, "augment", "no sample was begun");
    run->running = false;
    if (run->next_row != run->plan.region_height)
        return psti_fail(err, PST_ERROR_STATE, "augment", "%u of %u rows came", run->next_row,
                         run->plan.region_height);
    enum pst_status status = PST_OK;
    if (run->plan.n_steps > 0) {
        status = run_steps(run, err);
        for (uint32_t i = 0; status == PST_OK && i < run->picture.height; i++)
            psti_augment_store_row(run, i, run->picture.data + i * run->picture.row_nbytes, false);
    }
    psti_augment_store_end(run);
    if (status == PST_OK && run->plan.erase.height > 0)
        psti_augment_erase(run);
    return status;
}
