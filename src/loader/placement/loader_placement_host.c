/* loader_placement_host.c - batches in host memory, plain or page-locked.
 *
 * Rows are written to their final place, so there is nothing to submit: a batch is whole when its
 * last row is made. */
#include "loader/placement/loader_placement.h"

#include "augment/augment.h"
#include "base/fail.h"
#include "loader/loader_handle.h"
#include "loader/epoch/loader_share.h"
#include "loader/loader_worker.h"
#include "loader/placement/loader_pin.h"

static enum pst_status open_worker(struct psti_loader_worker *worker, struct pst_error *err)
{
    (void)worker;
    (void)err;
    return PST_OK;
}

static void close_worker(struct psti_loader_worker *worker) { (void)worker; }

static enum pst_status claim(pst_loader *loader, uint32_t n_rows, pst_batch **batch)
{
    if (loader->placement.own)
        psti_loader_pins_begin(loader->placement.own);
    return psti_batch_pool_claim(loader->pool, n_rows, batch);
}

static bool refused(const pst_loader *loader, const struct psti_batch_pool_stats *stats,
                    struct pst_error *err)
{
    return loader->placement.own && psti_loader_pins_refused(loader->placement.own, stats, err);
}

static void begin(pst_loader *loader, pst_batch *batch, uint64_t first, uint32_t n_rows)
{
    (void)first;
    (void)loader;
    (void)batch;
    (void)n_rows;
}

static enum pst_status place_row(struct psti_loader_worker *worker, const struct psti_image *image,
                                 struct psti_place *place, struct pst_error *err)
{
    const struct psti_draw *draw = image->draw;
    enum pst_status status = PST_OK;
    uint8_t channels = psti_augment_chain_channels(image->chain);
    bool chw = image->plan->layout == PST_LAYOUT_CHW;
    const int64_t shape[3] = {chw ? channels : draw->out_height,
                              chw ? draw->out_height : draw->out_width,
                              chw ? draw->out_width : channels};
    place->kind = PSTI_LOADER_PLACE_ROW;
    place->data = image->plan->fixed ? psti_batch_array_row(image->batch, image->i_plan, image->row)
                                     : psti_batch_new_row(image->batch, image->i_plan, image->row,
                                                          3, shape, &status);
    if (place->data && image->view > 0)
        place->data = (char *)place->data +
                      image->view * psti_augment_chain_output_nbytes(image->chain, draw);
    if (place->data)
        return PST_OK;
    worker->starved = status == PST_ERROR_LIMIT;
    return psti_fail(err, status, "loader", "no memory for a row of field '%s'",
                     image->plan->field->name);
}

static void done(struct psti_loader_worker *worker, const struct psti_image *image)
{
    (void)worker;
    (void)image;
}

static enum pst_status submit(pst_loader *loader, pst_batch *batch, uint32_t n_rows,
                              const uint8_t *bad, bool failed, bool *whole, struct pst_error *err)
{
    (void)loader;
    (void)err;
    *whole = true;
    if (!failed)
        psti_batch_finish(batch, n_rows, bad);
    return PST_OK;
}

static enum pst_status wait(pst_loader *loader, pst_batch *batch, int64_t deadline,
                            struct pst_error *err)
{
    (void)loader;
    (void)batch;
    (void)deadline;
    (void)err;
    return PST_OK;
}

static enum pst_status finish(pst_loader *loader, struct psti_remake *remake, struct pst_error *err)
{
    (void)loader;
    (void)remake;
    (void)err;
    return PST_OK;
}

static void quiesce(pst_loader *loader, pst_batch *batch) { psti_loader_share_drop(loader, batch); }

static void fill_stats(const pst_loader *loader, struct pst_loader_stats *stats)
{
    if (loader->placement.own)
        stats->fallbacks[PST_FALLBACK_PIN] = psti_loader_pins_n_plain(loader->placement.own);
}

static void detach(void *own, struct psti_loader_plan *plan)
{
    (void)own;
    (void)plan;
}

static const struct psti_placement_ops host_ops = {.scales = true,
                                                   .open_worker = open_worker,
                                                   .close_worker = close_worker,
                                                   .claim = claim,
                                                   .refused = refused,
                                                   .begin = begin,
                                                   .place = place_row,
                                                   .done = done,
                                                   .submit = submit,
                                                   .wait = wait,
                                                   .finish = finish,
                                                   .quiesce = quiesce,
                                                   .stats = fill_stats,
                                                   .detach = detach};

const struct psti_placement psti_placement_host = {.ops = &host_ops};
