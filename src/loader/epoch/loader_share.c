/* loader_share.c - takes batches from the group of jobs that shares their preparation (option
 * `share`).
 *
 * In: the loader's plan and position. Out: finished jobs. The host service prepares rows in shared
 * memory (extents). Arrays whose rows fill whole pages are used in place, without copying: the
 * pages are mapped privately, so the loader may write to them, and its writes are dropped before
 * the memory is used again. Other values are copied. If a batch cannot come from the group, the
 * loader's own workers make it, at the same position of the same order, so the caller sees a
 * difference only in time and counts. All functions but `drop` run in the caller's thread. */
#include "loader/epoch/loader_share.h"

#include "loader/loader_fallback.h"
#include "loader/loader_handle.h"
#include "loader/epoch/loader_run.h"
#include "loader/epoch/loader_share_space.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/files/sealed.h"
#include "share/share.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WAIT_NS ((int64_t)10 * 1000 * 1000 * 1000)

struct psti_loader_share {
    struct psti_stream_open open; /* the message by which the loader joins a group */
    char socket[PSTI_SOCKET_PATH_CAP];
    char *service;  /* program that is started as the service; NULL: none is started */
    int options_fd; /* blob with the loader's options at open */
    int changed_fd; /* blob with changed weights of the mixture's sources; -1: no changes */
    int64_t wait_ns;
    struct psti_loader_spaces *spaces; /* of slots that can map extents; NULL: slots are
                                          page-locked, so all is copied */
    struct psti_staging *staging;      /* connection to the group's extents; NULL: not joined */
    struct psti_stream_layout layout;
    bool never; /* true if no service could share these batches */
    /* The next four members belong to the epoch under way: */
    bool off;    /* this loader prepares the rest of the epoch itself */
    bool solo;   /* this loader's own workers make the next batch */
    bool told;   /* the service has been told that the epoch is over */
    bool copied; /* the last batch was copied; false: it shows the extents, or was uploaded from
                    them */
    /* Numbers of the last batch's extents, which a GPU may still read. They are given back to the
     * service when the batch is delivered. */
    uint32_t n_pending;
    uint64_t pending[PSTI_STREAM_EXTENTS];
    struct psti_brought *parts; /* [parts_cap] */
    uint32_t n_parts, parts_cap;
    /* Figures for pst_loader_stats, guarded by the loader's lock. */
    uint64_t n_shared, n_copied;
    char reason[96];
};

static void set_reason(pst_loader *loader, const char *reason)
{
    snprintf(loader->share->reason, sizeof loader->share->reason, "%.95s", reason);
}

/* Writes the loader's options to a blob (sealed memory) for the service. */
static enum pst_status print_options(pst_loader *loader, struct pst_error *err)
{
    struct pst_loader_options *options = &loader->options;
    if (options->source_weights && options->source_quota == 0)
        options->source_quota =
            options->batch_size; /* the service's own batches have another size */
    uint64_t n = options->indices ? options->n_indices : pst_dataset_count(loader->dataset);
    uint8_t *bytes;
    size_t nbytes;
    enum pst_status status = psti_share_options_print(options, n, &bytes, &nbytes, err);
    if (status == PST_OK)
        status = psti_sealed_blob_make("penstock-options", bytes, nbytes,
                                       &loader->share->options_fd, err);
    psti_free(bytes);
    return status;
}

enum pst_status psti_loader_share_open(pst_loader *loader, struct pst_error *err)
{
    const struct pst_loader_options *options = &loader->options;
    struct psti_loader_share *share = psti_calloc(1, sizeof *share);
    if (!share)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for sharing");
    share->options_fd = share->changed_fd = -1;
    share->layout.group_epoch = UINT64_MAX; /* not known until a service states it */
    loader->share = share;
    snprintf(share->open.name, sizeof share->open.name, "%s", options->share);
    share->wait_ns =
        options->share_wait_seconds > 0 ? (int64_t)(options->share_wait_seconds * 1e9) : WAIT_NS;
    if (options->socket)
        snprintf(share->socket, sizeof share->socket, "%s", options->socket);
    if (options->service) {
        size_t nbytes = strlen(options->service) + 1;
        share->service = psti_alloc(nbytes);
        if (!share->service)
            return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for sharing");
        memcpy(share->service, options->service, nbytes);
    }
    share->open.n_lent = options->num_workers;
    return print_options(loader, err);
}

enum pst_status psti_loader_share_set_slots(pst_loader *loader, struct pst_error *err)
{
    struct psti_loader_share *share = loader->share;
    const struct psti_loader_plan *plan = &loader->plan;
    size_t rows[PST_MAX_FIELDS], page = (size_t)sysconf(_SC_PAGESIZE);
    for (uint32_t i = 0; i < plan->n_fields; i++)
        rows[i] = psti_loader_space_row_nbytes(&plan->slots[i]);
    share->open.extent_rows = psti_share_extent_rows(rows, plan->n_fields, page);
    bool brings = loader->placement.ops->bring != NULL;
    for (uint32_t i = 0; brings && i < plan->n_fields; i++)
        if (plan->fields[i].scaled_decode)
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "field '%s': scaled_decode is for batches in host memory: with share, "
                             "the CPUs would use it, and this loader's own GPU would not",
                             plan->fields[i].field->name);
    if (loader->options.pin_memory || brings)
        return PST_OK;
    return psti_loader_spaces_open(loader->pool, plan->slots, plan->n_fields,
                                   share->open.extent_rows, page, &share->spaces, err);
}

static bool layout_fits(const pst_loader *loader, const struct psti_stream_layout *layout)
{
    const struct psti_loader_plan *plan = &loader->plan;
    bool fits = layout->extent_rows == loader->share->open.extent_rows &&
                layout->n_fields == plan->n_fields &&
                layout->n_positions == psti_order_n(loader->order);
    for (uint32_t i = 0; i < plan->n_fields && fits; i++)
        fits = layout->fields[i].row_nbytes == psti_loader_space_row_nbytes(&plan->slots[i]);
    return fits;
}

/* Called before shared memory is unmapped: a GPU may have page-locked it. */
static void unmapping(void *ctx, const void *memory, size_t nbytes)
{
    const pst_loader *loader = ctx;
    loader->placement.ops->forget(ctx, memory, nbytes);
}

/* Joins the group, or notes why that is not possible. PST_ERROR_CANCELLED: the caller's interrupt
 * function ended the wait. The lock is not held. */
static enum pst_status join(pst_loader *loader, struct pst_error *caller_err)
{
    struct psti_loader_share *share = loader->share;
    struct psti_staging *staging = NULL;
    struct pst_error err;
    bool forget = loader->placement.ops->forget != NULL;
    share->open.batch_size = loader->options.batch_size;
    share->open.world_size = loader->epoch.next_ranks.world_size;
    const struct psti_staging_options options = {
        .socket = share->socket[0] ? share->socket : NULL,
        .program = share->service,
        .open = &share->open,
        .dataset = loader->dataset,
        .options_fd = share->changed_fd >= 0 ? share->changed_fd : share->options_fd,
        .wait_ns = share->wait_ns,
        .unmapping = forget ? unmapping : NULL,
        .ctx = loader,
        .stop = {loader->interrupt, loader->interrupt_ctx}};
    pst_error_clear(&err);
    if (share->never)
        return PST_OK;
    enum pst_status status = psti_share_staging_open(&options, &staging, &err);
    bool fits = status == PST_OK && layout_fits(loader, psti_share_staging_layout(staging));
    pthread_mutex_lock(loader->lock);
    if (fits) {
        share->layout = *psti_share_staging_layout(staging);
        share->staging = staging;
        share->reason[0] = '\0';
    } else if (status == PST_OK) {
        share->never = true;
        set_reason(loader, "the host service plans other batches than this loader");
    } else {
        psti_share_say(&err, share->reason, sizeof share->reason);
    }
    pthread_mutex_unlock(loader->lock);
    if (!fits)
        psti_share_staging_release(staging);
    if (status == PST_ERROR_CANCELLED && caller_err)
        *caller_err = err;
    return status == PST_ERROR_CANCELLED ? status : PST_OK;
}

enum pst_status psti_loader_share_join(pst_loader *loader, struct pst_error *err)
{
    return join(loader, err);
}

void psti_loader_share_close(pst_loader *loader)
{
    struct psti_loader_share *share = loader->share;
    if (!share)
        return;
    if (share->staging)
        psti_share_staging_leave(share->staging);
    psti_share_staging_release(share->staging); /* batches that the caller still holds keep the
                                                   staging open */
    if (share->options_fd >= 0)
        close(share->options_fd);
    if (share->changed_fd >= 0)
        close(share->changed_fd);
    psti_free(share->parts);
    psti_free(share->service);
    psti_free(share);
    loader->share = NULL;
}

/* Gives back the last batch's extents, when the GPU has read them or will not read them. */
static void give_pending(struct psti_loader_share *share)
{
    if (share->n_pending && share->staging)
        psti_share_staging_give(share->staging, share->pending, share->n_pending);
    share->n_pending = 0;
}

bool psti_loader_share_begin(pst_loader *loader)
{
    struct psti_loader_share *share = loader->share;
    if (!share || share->never)
        return false;
    give_pending(share);
    psti_loader_share_end(loader);
    share->off = share->solo = share->told = false;
    return true;
}

void psti_loader_share_end(pst_loader *loader)
{
    struct psti_loader_share *share = loader->share;
    if (!share || !share->staging || share->told)
        return;
    share->told = true;
    psti_share_staging_leave(share->staging);
}

/* Writes the options and the changed weights to a blob. *fd is -1 if there are no changes. */
static enum pst_status print_changes(const pst_loader *loader, const uint64_t *places,
                                     const double *weights, uint32_t n, int *fd,
                                     struct pst_error *err)
{
    const void *bytes = NULL;
    uint8_t *changed = NULL;
    size_t nbytes, changed_nbytes = 0;
    *fd = -1;
    if (n == 0)
        return PST_OK;
    enum pst_status status =
        psti_sealed_blob_map(loader->share->options_fd, SIZE_MAX, &bytes, &nbytes, err);
    if (status != PST_OK)
        return status;
    status =
        psti_share_options_change(bytes, nbytes, places, weights, n,
                                  loader->options.n_source_weights, &changed, &changed_nbytes, err);
    if (status == PST_OK)
        status = psti_sealed_blob_make("penstock-options", changed, changed_nbytes, fd, err);
    psti_free(changed);
    psti_sealed_unmap(bytes, nbytes);
    return status;
}

enum pst_status psti_loader_share_prepare_change(const pst_loader *loader, const uint64_t *places,
                                                 const double *weights, uint32_t n, int *fd,
                                                 struct pst_error *err)
{
    *fd = -1;
    return loader->share ? print_changes(loader, places, weights, n, fd, err) : PST_OK;
}

void psti_loader_share_change(pst_loader *loader, int fd)
{
    struct psti_loader_share *share = loader->share;
    if (!share)
        return;
    give_pending(share);
    psti_loader_share_end(loader);
    psti_share_staging_release(share->staging); /* the next batch joins the group with the new
                                                   weights */
    share->staging = NULL;
    if (share->changed_fd >= 0)
        close(share->changed_fd);
    share->changed_fd = fd;
}

bool psti_loader_share_takes(const pst_loader *loader)
{
    const struct psti_loader_share *share = loader->share;
    return share && !share->never && !share->off && !share->solo;
}

void psti_loader_share_delivered(pst_loader *loader)
{
    struct psti_loader_share *share = loader->share;
    if (!share || share->never)
        return;
    give_pending(share);
    if (share->solo || share->off)
        psti_loader_fell_back(loader, PST_FALLBACK_SHARE, 1);
    share->solo = false;
}

/* Lets the loader's own workers make this batch, or with `epoch` the rest of the epoch, too. */
static void go_alone(pst_loader *loader, struct psti_loader_job *job, bool epoch)
{
    struct psti_loader_share *share = loader->share;
    share->solo = true;
    share->off |= epoch;
    if (job->batch)
        psti_batch_pool_put_back(job->batch);
    job->batch = NULL;
    loader->epoch.issue_end = share->off ? UINT64_MAX : loader->epoch.next_step + 1;
    psti_loader_run_start(loader, loader->epoch.next_step);
}

/* Ends the connection, because the service does not answer or breaks the protocol. */
static void lose(pst_loader *loader, const struct pst_error *err)
{
    struct psti_loader_share *share = loader->share;
    set_reason(loader, err->text[0] ? err->text : pst_status_text(err->status));
    share->n_pending = 0;
    psti_share_staging_release(share->staging);
    share->staging = NULL;
}

/* Copies all rows of a field whose rows have one shape, from the extents to the batch's array. */
static bool copy_array(pst_loader *loader, struct psti_loader_job *job, uint32_t i_field,
                       const struct psti_stream_ready *ready)
{
    const struct psti_loader_share *share = loader->share;
    const struct psti_stream_field *field = &share->layout.fields[i_field];
    uint32_t skip = (uint32_t)(job->positions[0] % share->layout.extent_rows), row = 0;
    for (uint32_t e = 0; e < ready->n_extents; e++, skip = 0) {
        const struct psti_stream_extent *extent = &ready->extents[e];
        uint32_t n = extent->n_rows - skip;
        n = n < job->n_rows - row ? n : job->n_rows - row;
        const void *from = psti_share_staging_bytes(share->staging, extent,
                                                    field->offset + skip * field->row_nbytes,
                                                    n * field->row_nbytes);
        if (!from)
            return false;
        memcpy(psti_batch_array_row(job->batch, i_field, row), from, n * field->row_nbytes);
        row += n;
    }
    return true;
}

/* Copies one row of a field whose rows may differ in size. */
static bool copy_own_row(pst_loader *loader, struct psti_loader_job *job, uint32_t i_field,
                         uint32_t row, const struct psti_stream_extent *extent, uint64_t entry,
                         enum pst_status *status)
{
    const struct psti_loader_share *share = loader->share;
    uint64_t at = share->layout.own + entry * sizeof(struct psti_extent_row);
    struct psti_extent_row own; /* a copy, because the service may write the original during the
                                   checks */
    const void *entry_bytes = psti_share_staging_bytes(share->staging, extent, at, sizeof own);
    if (!entry_bytes)
        return false;
    memcpy(&own, entry_bytes, sizeof own);
    if (own.ndim > PST_MAX_NDIM || own.offset > share->layout.stride)
        return false;
    uint64_t nbytes = pst_dtype_nbytes(loader->plan.slots[i_field].dtype);
    for (uint32_t i = 0; i < own.ndim; i++)
        if (own.shape[i] < 0 || __builtin_mul_overflow(nbytes, (uint64_t)own.shape[i], &nbytes))
            return false;
    const void *from = psti_share_staging_bytes(share->staging, extent, own.offset, nbytes);
    if (!from)
        return false;
    void *to = psti_batch_new_row(job->batch, i_field, row, own.ndim, own.shape, status);
    if (to && nbytes)
        memcpy(to, from, nbytes);
    else if (!to)
        return false;
    *status = PST_OK;
    return true;
}

/* Copies all rows of a field whose rows may differ in size. i_list: the field's number among such
 * fields. */
static bool copy_own_rows(pst_loader *loader, struct psti_loader_job *job, uint32_t i_field,
                          uint32_t i_list, const struct psti_stream_ready *ready,
                          enum pst_status *status)
{
    uint32_t extent_rows = loader->share->layout.extent_rows, e = 0;
    uint32_t at = (uint32_t)(job->positions[0] % extent_rows);
    for (uint32_t row = 0; row < job->n_rows; row++, at++) {
        if (at == ready->extents[e].n_rows) {
            at = 0;
            e++;
        }
        if (!copy_own_row(loader, job, i_field, row, &ready->extents[e],
                          (uint64_t)i_list * extent_rows + at, status))
            return false;
    }
    return true;
}

/* True if the extents cover all rows of the job, and show the samples that this loader's order has
 * at those positions. */
static bool has_rows(pst_loader *loader, struct psti_loader_job *job,
                     const struct psti_stream_ready *ready)
{
    const struct psti_loader_share *share = loader->share;
    uint32_t extent_rows = share->layout.extent_rows, row = 0;
    uint32_t skip = (uint32_t)(job->positions[0] % extent_rows);
    const int64_t *indices = psti_batch_indices(job->batch);
    for (uint32_t e = 0; e < ready->n_extents; e++, skip = 0) {
        const struct psti_stream_extent *extent = &ready->extents[e];
        if (skip >= extent->n_rows || row >= job->n_rows)
            return false;
        uint32_t n = extent->n_rows - skip;
        n = n < job->n_rows - row ? n : job->n_rows - row;
        const int64_t *theirs = psti_share_staging_bytes(share->staging, extent,
                                                         skip * sizeof *theirs, n * sizeof *theirs);
        if (!theirs || memcmp(theirs, indices + row, n * sizeof *theirs) != 0)
            return false;
        row += n;
    }
    return row == job->n_rows;
}

static void give_all(struct psti_loader_share *share, const struct psti_stream_ready *ready)
{
    for (uint32_t e = 0; e < ready->n_extents; e++)
        psti_share_staging_give(share->staging, &ready->extents[e].number, 1);
}

/* Copies the fields of the job's batch, except those that are mapped (if `maps`) and those that go
 * to the GPU. */
static bool copy_fields(pst_loader *loader, struct psti_loader_job *job,
                        const struct psti_stream_ready *ready, bool maps, enum pst_status *status)
{
    const struct psti_loader_share *share = loader->share;
    const struct psti_loader_plan *plan = &loader->plan;
    const struct psti_placement_ops *ops = loader->placement.ops;
    uint32_t i_list = 0;
    bool good = true;
    for (uint32_t i = 0; i < plan->n_fields && good; i++) {
        if (plan->slots[i].may_differ)
            good = copy_own_rows(loader, job, i, i_list++, ready, status);
        else if (!(maps && psti_loader_space_is_mapped(share->spaces, i)) &&
                 !(ops->bring && ops->brings(loader, i)))
            good = copy_array(loader, job, i, ready);
    }
    return good;
}

/* Notes in share->parts where the rows of a field lie in the extents. */
static bool add_parts(pst_loader *loader, const struct psti_loader_job *job, uint32_t i_field,
                      const struct psti_stream_ready *ready)
{
    struct psti_loader_share *share = loader->share;
    const struct psti_stream_field *field = &share->layout.fields[i_field];
    uint32_t skip = (uint32_t)(job->positions[0] % share->layout.extent_rows), row = 0;
    for (uint32_t e = 0; e < ready->n_extents; e++, skip = 0) {
        uint32_t n = ready->extents[e].n_rows - skip;
        n = n < job->n_rows - row ? n : job->n_rows - row;
        struct psti_brought part = {.i_plan = i_field, .row = row, .nbytes = n * field->row_nbytes};
        part.home = psti_share_staging_slot(share->staging, &ready->extents[e], &part.home_nbytes);
        if (!part.home)
            return false;
        part.rows = (const char *)part.home + field->offset + skip * field->row_nbytes;
        share->parts[share->n_parts++] = part;
        row += n;
    }
    return true;
}

/* Uploads the job's pixels from the extents to its GPU. PST_ERROR_CORRUPT: an extent lacks them. */
static enum pst_status bring(pst_loader *loader, struct psti_loader_job *job,
                             const struct psti_stream_ready *ready, struct pst_error *err)
{
    struct psti_loader_share *share = loader->share;
    uint32_t most = loader->plan.n_fields * ready->n_extents;
    if (most > share->parts_cap) {
        psti_free(share->parts);
        share->parts_cap = 0;
        share->parts = psti_alloc(most * sizeof *share->parts);
        if (!share->parts)
            return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a shared batch");
        share->parts_cap = most;
    }
    give_pending(share); /* those of a batch that was not collated, because memory was lacking */
    share->n_parts = 0;
    for (uint32_t i = 0; i < loader->plan.n_fields; i++)
        if (loader->placement.ops->brings(loader, i) && !loader->plan.slots[i].may_differ &&
            !add_parts(loader, job, i, ready))
            return PST_ERROR_CORRUPT;
    enum pst_status status = loader->placement.ops->bring(loader, job->batch, share->parts,
                                                          share->n_parts, &share->copied, err);
    if (status == PST_ERROR_LIMIT)
        status = PST_ERROR_MEMORY; /* trying again would not help, because the slot was claimed
                                      already */
    share->n_pending = status == PST_OK ? ready->n_extents : 0;
    for (uint32_t e = 0; e < share->n_pending; e++)
        share->pending[e] = ready->extents[e].number;
    return status;
}

/* Fills the job's batch from extents. PST_ERROR_LIMIT: no memory for its rows now; a later try may
 * succeed. PST_ERROR_CORRUPT: the extents hold other rows than the service promised. Other errors
 * come from `bring`. The lock is not held. */
static enum pst_status fill(pst_loader *loader, struct psti_loader_job *job,
                            const struct psti_stream_ready *ready, struct pst_error *err)
{
    struct psti_loader_share *share = loader->share;
    bool brings = loader->placement.ops->bring != NULL, good = has_rows(loader, job, ready);
    bool maps = good && share->spaces &&
                psti_share_staging_n_held(share->staging) <= share->layout.hold_max;
    const struct psti_loader_space_source source = {.staging = share->staging,
                                                    .ready = ready,
                                                    .first = job->positions[0],
                                                    .n_rows = job->n_rows};
    enum pst_status status = PST_OK;
    maps = maps && psti_loader_space_map(share->spaces, job->batch, &source);
    good = good && copy_fields(loader, job, ready, maps, &status);
    if (!good && status == PST_OK)
        status = PST_ERROR_CORRUPT;
    share->copied = !maps;
    if (status == PST_OK)
        psti_batch_finish(job->batch, job->n_rows, NULL);
    if (status == PST_OK && brings)
        status = bring(loader, job, ready, err);
    if (!maps && !share->n_pending)
        give_all(share, ready);
    if (status != PST_OK && maps)
        psti_loader_space_drop(job->batch);
    return status;
}

/* Asks the service for the job's rows, and fills the batch with them. The lock is not held. */
static enum pst_status want(pst_loader *loader, struct psti_loader_job *job, int64_t deadline,
                            enum psti_stream_alone *alone, struct pst_error *err)
{
    struct psti_loader_share *share = loader->share;
    const struct psti_stream_ready *ready;
    uint64_t n = psti_order_n(loader->order);
    uint64_t end = psti_order_end(loader->order, loader->epoch.ranks, loader->epoch.start);
    static const struct psti_stream_want zero;
    struct psti_stream_want request = zero;
    request.epoch = loader->epoch.number;
    request.first = job->positions[0];
    request.n_rows = job->n_rows;
    request.end = end < n ? end : n;
    request.step_rows = loader->options.batch_size * loader->epoch.ranks.world_size;
    enum pst_status status =
        psti_share_staging_want(share->staging, &request, deadline, &ready, alone, err);
    if (status != PST_OK)
        return status;
    status = fill(loader, job, ready, err);
    if (status == PST_ERROR_LIMIT) {
        job->starved = true;
        return PST_OK;
    }
    if (status == PST_ERROR_CORRUPT)
        psti_fail(err, status, "loader",
                  "a shared batch has other rows than its place in the order");
    else if (status != PST_OK && !err->text[0])
        psti_fail(err, status, "loader", "no memory for the rows of a shared batch");
    return status;
}

/* Claims the job's slot and sets its positions. False: no slot is free now. The lock is held. */
static bool prepare(pst_loader *loader, struct psti_loader_job *job)
{
    if (job->batch)
        return true;
    loader->queue.claim_status =
        loader->placement.ops->claim(loader, loader->options.batch_size, &job->batch);
    if (loader->queue.claim_status != PST_OK)
        return false;
    uint64_t step = loader->epoch.next_step - loader->epoch.first_step;
    pthread_mutex_unlock(loader->lock);
    job->queue_step = loader->epoch.next_step;
    psti_loader_job_set(loader, job, loader->epoch.ranks, loader->epoch.number, loader->epoch.start,
                        step, loader->epoch.step_base + step);
    pthread_mutex_lock(loader->lock);
    return true;
}

static const char *text_of(enum psti_stream_alone alone)
{
    switch (alone) {
    case PSTI_ALONE_SAMPLE:
        return "an extent has a bad sample, or values too large to share";
    case PSTI_ALONE_BEHIND:
        return "the group's other jobs are too far ahead";
    case PSTI_ALONE_FULL:
        return "the host service has no stream or memory left for this job";
    case PSTI_ALONE_FAILED:
        return "the host service could not prepare the batches";
    }
    return "";
}

enum pst_status psti_loader_share_take(pst_loader *loader, struct psti_loader_job *job,
                                       int64_t deadline, struct pst_error *err)
{
    struct psti_loader_share *share = loader->share;
    enum psti_stream_alone alone = PSTI_ALONE_FAILED;
    struct pst_error cause;
    if (loader->epoch.running) /* this loader's workers made the previous batch */
        psti_loader_run_cancel(loader);
    if (!prepare(loader, job))
        return PST_ERROR_LIMIT; /* the caller of this function sets the error */
    uint64_t n = psti_order_n(loader->order);
    if (job->positions[job->n_rows - 1] >= n) { /* the batch ends with padding */
        set_reason(loader, "the epoch's last batch has padding");
        go_alone(loader, job, false);
        return PST_OK;
    }
    pst_error_clear(&cause);
    pthread_mutex_unlock(loader->lock);
    enum pst_status status = PST_ERROR_IO;
    bool stopped = !share->staging && join(loader, &cause) != PST_OK;
    if (stopped) /* a later call returns the batch */
        status = PST_ERROR_BUSY;
    else if (share->staging)
        status = want(loader, job, deadline, &alone, &cause);
    pthread_mutex_lock(loader->lock);
    if (status == PST_ERROR_BUSY) {
        if (err)
            *err = cause;
        return status;
    }
    if (status == PST_END)
        set_reason(loader, text_of(alone));
    else if (status != PST_OK && share->staging)
        lose(loader, &cause);
    if (status != PST_OK) {
        go_alone(loader, job, status != PST_END || alone != PSTI_ALONE_SAMPLE);
        return PST_OK;
    }
    share->told = false;
    share->layout.group_epoch = psti_share_staging_layout(share->staging)->group_epoch;
    share->layout.group_samples = psti_share_staging_layout(share->staging)->group_samples;
    share->layout.counts = psti_share_staging_layout(share->staging)->counts;
    share->n_shared += !job->starved;
    share->n_copied += !job->starved && share->copied;
    for (uint32_t i = 0; i < share->n_parts && share->n_pending; i++)
        loader->meters.stats.nbytes_upload += share->parts[i].nbytes;
    job->settled = !share->n_pending; /* not settled: the GPU must read the rows first */
    job->whole_ns = psti_clock_ns();
    job->state = PSTI_LOADER_JOB_WHOLE;
    return PST_OK;
}

void psti_loader_share_drop(pst_loader *loader, pst_batch *batch)
{
    if (loader->share && loader->share->spaces)
        psti_loader_space_drop(batch);
}

void psti_loader_share_stats(const pst_loader *loader, struct pst_loader_stats *stats)
{
    const struct psti_loader_share *share = loader->share;
    stats->share_epoch = UINT64_MAX;
    if (!share)
        return;
    stats->n_shared = share->n_shared;
    stats->n_shared_copied = share->n_copied;
    stats->is_sharing = share->staging != NULL;
    stats->share_epoch = share->layout.group_epoch;
    stats->share_samples = share->layout.group_samples;
    stats->share_decoded = share->layout.counts.n_decoded;
    stats->share_decoded_shared = share->layout.counts.n_decoded_shared;
    stats->share_decoded_apart = share->layout.counts.n_apart;
    stats->share_read = share->layout.counts.n_read;
    stats->share_nbytes_read = share->layout.counts.nbytes_read;
    stats->share_read_shared = share->layout.counts.n_read_shared;
    stats->share_nbytes_read_shared = share->layout.counts.nbytes_read_shared;
    stats->share_cached = share->layout.counts.n_cached;
    stats->share_given_up = share->layout.counts.n_given_up;
    snprintf(stats->share_reason, sizeof stats->share_reason, "%s", share->reason);
}
