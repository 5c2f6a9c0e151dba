/* serve_stream_make.c - the thread of a stream: opens the data set and a loader, and makes extents.
 *
 * In: orders of the loop's thread: where to begin and how far to go. Out: posts to that thread. The
 * loader leaves out bad samples and continues. An extent that lacks a sample is not shared, and
 * each job that needs it prepares its rows itself, under its own on_error option. */
#include "serve/serve_stream.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/machine/memory_limit.h"
#include "base/thread.h"

#include <penstock/mixture.h>

#include <string.h>

#define LOOK_NS ((int64_t)100 * 1000 * 1000) /* time between two looks of a waiting thread for
                                                orders */
#define STAGE_NBYTES_MAX ((uint64_t)8 << 30)
#define WORK_NBYTES_MAX ((uint64_t)2 << 30) /* host_memory of its loader besides the extents */
#define STAGE_PART 8 /* extents and work together take at most 1 / STAGE_PART of the free memory */

struct result {
    struct psti_post post;
    struct psti_serve_stream *stream;
    enum pst_status status; /* result of opening the stream, or of a run */
    bool is_opening;
    uint64_t run;
    struct psti_stream_layout layout;
    struct psti_serve_extent *extent;
    struct pst_error err;
};

/* Frees the result. The spare result is given back to the stream instead. */
static void free_result(struct result *result)
{
    struct psti_serve_stream *stream = result->stream;
    if (result != stream->spare) {
        psti_free(result);
        return;
    }
    pthread_mutex_lock(&stream->lock);
    stream->spare_is_out = false;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

static void take_result(struct psti_post *post)
{
    struct result *result = (struct result *)(void *)post;
    const struct psti_stream_events *events = result->stream->group->events;
    if (result->is_opening)
        events->opened(result->stream, result->status, &result->layout, &result->err);
    else if (result->extent)
        events->made(result->stream, result->run, result->extent);
    else
        events->failed(result->stream, result->run, &result->err);
    free_result(result);
}

/* Takes the spare result, which was allocated with the stream. Waits while the loop uses it. NULL:
 * the stream is closing. */
static struct result *take_spare(struct psti_serve_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    while (stream->spare_is_out && !stream->closing)
        pthread_cond_wait(&stream->changed, &stream->lock);
    struct result *result = stream->spare_is_out ? NULL : stream->spare;
    stream->spare_is_out = true;
    pthread_mutex_unlock(&stream->lock);
    if (result)
        memset(result, 0, sizeof *result);
    return result;
}

/* Makes a result. NULL: the stream is closing. If memory is lacking, the spare result is used, so
 * that jobs always learn what happened to their stream. */
static struct result *new_result(struct psti_serve_stream *stream, enum pst_status status,
                                 uint64_t run)
{
    struct result *result = psti_calloc(1, sizeof *result);
    if (!result)
        result = take_spare(stream);
    if (result) {
        result->post.run = take_result;
        result->stream = stream;
        result->status = status;
        result->run = run;
    }
    return result;
}

static void post_failure(struct psti_serve_stream *stream, enum pst_status status, uint64_t run,
                         const struct pst_error *err)
{
    struct result *result = new_result(stream, status, run);
    if (!result)
        return;
    result->err = *err;
    psti_serve_post(stream->group->service, &result->post);
}

static struct pst_loader_options options_of(const struct psti_group *group, uint64_t host_memory)
{
    struct pst_loader_options options = group->options.options;
    options.batch_size = group->extent_rows;
    options.num_workers = group->n_threads;
    options.prefetch = group->prefetch;
    options.host_memory = host_memory;
    options.on_error = PST_ON_ERROR_SKIP;
    options.on_empty = PST_ON_EMPTY_DELIVER;
    options.cache = group->cache;
    if (options.storage == PST_STORAGE_MEMORY)
        options.storage = PST_STORAGE_AUTO;
    return options;
}

/* Opens the loader. Its extents may take a part of the free memory. */
static enum pst_status open_loader(struct psti_serve_stream *stream, struct pst_error *err)
{
    struct psti_group *group = stream->group;
    uint64_t stage = psti_memory_available() / STAGE_PART;
    const struct pst_loader_options *given = &group->options.options;
    uint64_t n = given->indices ? given->n_indices : pst_dataset_count(group->data->dataset);
    if (given->weights && group->options.n_weights != n)
        return psti_fail(err, PST_ERROR_ARGUMENT, "serve", "%llu weights for %llu samples",
                         (unsigned long long)group->options.n_weights, (unsigned long long)n);
    uint64_t work = stage < WORK_NBYTES_MAX ? stage : WORK_NBYTES_MAX;
    stage = stage < STAGE_NBYTES_MAX ? stage : STAGE_NBYTES_MAX;
    enum pst_status status = psti_serve_arena_open(&stream->arena, stage, err);
    if (status != PST_OK)
        return status;
    struct psti_loader_slots slots = psti_serve_arena_slots(&stream->arena);
    slots.gate = group->gate;
    slots.shelf = group->shelf;
    struct pst_loader_options options = options_of(group, stage + work);
    status = psti_loader_open_in(group->data->dataset, &options, &slots, &stream->loader, err);
    if (status != PST_OK && options.cache && stream->arena.failure.status == PST_OK) {
        options.cache = NULL; /* the cache may lack space for the data set's table */
        status = psti_loader_open_in(group->data->dataset, &options, &slots, &stream->loader, err);
    }
    if (status == PST_OK && group->options.n_changes > 0)
        status = pst_loader_set_source_weights(stream->loader, group->options.change_places,
                                               group->options.change_weights,
                                               group->options.n_changes, err);
    if (status != PST_OK && stream->arena.failure.status != PST_OK)
        *err = stream->arena.failure; /* this error has the cause; the loader only knows that
                                         there is no slot */
    return status;
}

/* Describes the arena's layout for jobs. */
static void describe(struct psti_serve_stream *stream, struct psti_stream_layout *layout)
{
    const struct psti_slot_field *fields;
    struct pst_loader_state state;
    uint32_t n_fields = psti_loader_slot_fields(stream->loader, &fields);
    pst_loader_state(stream->loader, &state);
    *layout = (struct psti_stream_layout){.extent_rows = stream->group->extent_rows,
                                          .n_slots = stream->arena.n_slots,
                                          .n_fields = n_fields,
                                          .stride = stream->arena.stride,
                                          .own = stream->arena.own,
                                          .n_positions = state.n_samples};
    for (uint32_t i = 0; i < n_fields; i++) {
        size_t offset, row_nbytes;
        if (psti_loader_slot_place(stream->loader, i, &offset, &row_nbytes))
            layout->fields[i] = (struct psti_stream_field){offset, row_nbytes};
    }
}

static bool is_closing(struct psti_serve_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    bool closing = stream->closing;
    pthread_mutex_unlock(&stream->lock);
    return closing;
}

static bool open_all(struct psti_serve_stream *stream)
{
    struct psti_group *group = stream->group;
    struct result *result = new_result(stream, PST_OK, 0);
    if (!result)
        return false;
    result->is_opening = true;
    pst_error_clear(&result->err);
    struct psti_serve_data *data = group->data;
    if (!data->dataset)
        result->status = psti_share_open_dataset(&group->place, data->fds, data->n_fds,
                                                 &data->dataset, &result->err);
    if (result->status == PST_OK && is_closing(stream)) /* storage may have taken very long, so
                                                           that no job waits any more */
        result->status = psti_fail(&result->err, PST_ERROR_CANCELLED, "serve", "nobody waits");
    if (result->status == PST_OK)
        result->status = open_loader(stream, &result->err);
    bool open = result->status == PST_OK;
    if (open)
        describe(stream, &result->layout);
    psti_serve_post(stream->group->service, &result->post);
    return open;
}

static enum pst_status begin(struct psti_serve_stream *stream, uint64_t epoch, uint64_t index,
                             struct pst_error *err)
{
    struct pst_loader_state state;
    if (index == 0)
        return pst_loader_begin(stream->loader, epoch, err);
    pst_loader_state(stream->loader, &state);
    state.epoch = epoch;
    state.position = index * stream->group->extent_rows;
    return pst_loader_resume(stream->loader, &state, err);
}

/* Makes one extent. PST_ERROR_BUSY: the thread has got other orders. */
static enum pst_status make_extent(struct psti_serve_stream *stream, uint64_t epoch, uint64_t index,
                                   struct psti_serve_extent **out, struct pst_error *err)
{
    const struct psti_slot_field *fields;
    uint32_t n_fields = psti_loader_slot_fields(stream->loader, &fields);
    uint32_t rows = stream->group->extent_rows;
    struct pst_loader_state state;
    pst_batch *batch = NULL;
    bool stop = false;
    enum pst_status status = PST_ERROR_BUSY;
    while (status == PST_ERROR_BUSY && !stop) {
        status = pst_loader_next_timed(stream->loader, LOOK_NS, &batch, err);
        pthread_mutex_lock(&stream->lock);
        stop = stream->closing || stream->restart;
        pthread_mutex_unlock(&stream->lock);
    }
    if (status != PST_OK)
        return status == PST_END
                   ? psti_fail(err, PST_ERROR_INTERNAL, "serve", "an epoch ended too early")
                   : status;
    struct psti_serve_extent *extent = psti_calloc(1, sizeof *extent);
    if (!extent) {
        pst_batch_release(batch);
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for an extent");
    }
    pst_loader_state(stream->loader, &state);
    uint64_t left = state.n_samples - index * rows;
    extent->stream = stream;
    extent->epoch = epoch;
    extent->index = index;
    extent->n_rows = left < rows ? (uint32_t)left : rows;
    extent->own_nbytes = 0;
    extent->bad = pst_batch_count(batch) != extent->n_rows;
    if (!extent->bad)
        extent->own_nbytes =
            psti_serve_arena_add_own(&stream->arena, batch, fields, n_fields, rows);
    extent->bad |= extent->own_nbytes == UINT64_MAX;
    extent->n_slots = atomic_load(&stream->arena.n_used_max);
    extent->slot = ((struct psti_arena_slot *)psti_batch_part(batch)->own)->number;
    extent->batch = extent->bad ? NULL : batch;
    if (extent->bad)
        pst_batch_release(batch);
    *out = extent;
    return PST_OK;
}

/* Waits until there is an extent to make or another order. False: the stream is closing. */
static bool wait_for_orders(struct psti_serve_stream *stream, bool runs, uint64_t index,
                            uint64_t n_made)
{
    pthread_mutex_lock(&stream->lock);
    while (!stream->closing && !stream->restart &&
           !(runs && n_made < stream->made_max && index < stream->index_max))
        pthread_cond_wait(&stream->changed, &stream->lock);
    bool go = !stream->closing;
    pthread_mutex_unlock(&stream->lock);
    return go;
}

static void work(struct psti_serve_stream *stream)
{
    uint64_t run = 0, epoch = 0, index = 0, n_made = 0;
    bool runs = false;
    while (wait_for_orders(stream, runs, index, n_made)) {
        struct psti_serve_extent *extent = NULL;
        struct pst_error err;
        enum pst_status status = PST_OK;
        pst_error_clear(&err);
        pthread_mutex_lock(&stream->lock);
        bool restart = stream->restart;
        if (restart) {
            stream->restart = false;
            run = stream->target_run;
            epoch = stream->target_epoch;
            index = stream->target_index;
        }
        pthread_mutex_unlock(&stream->lock);
        if (restart)
            status = begin(stream, epoch, index, &err);
        else
            status = make_extent(stream, epoch, index, &extent, &err);
        if (status == PST_ERROR_BUSY)
            continue;
        runs = status == PST_OK;
        struct result *result = extent ? new_result(stream, PST_OK, run) : NULL;
        if (status != PST_OK)
            post_failure(stream, status, run, &err);
        if (extent && !result) {
            pst_batch_release(extent->batch);
            psti_free(extent);
            runs = false;
        } else if (result) {
            result->extent = extent;
            psti_serve_post(stream->group->service, &result->post);
            index++;
            n_made++;
        }
    }
}

static void take_end(struct psti_post *post)
{
    struct psti_serve_stream *stream =
        (struct psti_serve_stream *)(void *)((char *)post -
                                             offsetof(struct psti_serve_stream, ended));
    psti_serve_stream_join(stream); /* the thread has no work left, so this does not block */
    stream->group->events->ended(stream);
}

static void run_stream(void *arg)
{
    struct psti_serve_stream *stream = arg;
    if (open_all(stream))
        work(stream);
    pst_loader_close(&stream->loader); /* extents keep the loader's pool until they are released */
    stream->ended.run = take_end;
    psti_serve_post(stream->group->service, &stream->ended);
}

enum pst_status psti_serve_stream_start(struct psti_serve_stream *stream, struct pst_error *err)
{
    stream->spare = psti_calloc(1, sizeof(struct result));
    if (!stream->spare)
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for a stream");
    return psti_thread_start(&stream->thread, "stream", run_stream, stream, err);
}

void psti_serve_stream_close(struct psti_serve_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->closing = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

void psti_serve_stream_join(struct psti_serve_stream *stream)
{
    if (!stream->joined)
        psti_thread_join(stream->thread);
    stream->joined = true;
}
