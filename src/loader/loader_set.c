/* loader_set.c - changes the size of a loader's images and batches between two batches.
 *
 * In: the new settings. Out: the same loader, with a plan, a pool and memory for them, positioned
 * after the batch that was delivered last. Work prepared ahead is thrown away. The caller's thread
 * does everything while no worker runs. All that depends on the settings is exchanged as a whole
 * (struct shape), so after a failure the old shape can be restored. The old and the new pool share
 * lock and budget: batches of the old size that the caller holds count in host_memory until they
 * are released. */
#include "loader/epoch/loader_begin.h"
#include "loader/tiers/loader_cache_choice.h"
#include "loader/loader_handle.h"
#include "loader/epoch/loader_behind.h"
#include "loader/epoch/loader_job.h"
#include "loader/loader_options.h"
#include "loader/loader_shape.h"
#include "loader/tiers/loader_tier.h"
#include "loader/loader_usable.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/options.h"

#include <penstock/settings.h>

#include <inttypes.h>
#include <string.h>

/* Everything in the loader that depends on the size of images and batches. */
struct shape {
    struct psti_loader_plan plan;
    struct psti_pool *pool;
    struct psti_placement placement;
    struct psti_training *training;
    uint64_t cache_key;
    uint32_t batch_size;
    uint32_t height, width; /* size of the pictures, in pixels, from the operations that fix a size;
                               0: these do not agree */
};

/* Returns the operation that decides the size of a field's pictures, or NULL. */
static struct pst_op *sized_op(const struct pst_field_output *field)
{
    size_t i = psti_augment_ops_sized(field->ops, field->n_ops);
    /* The cast is safe: the operations lie in the loader's own block (psti_loader_take_options). */
    return i < field->n_ops ? (struct pst_op *)(uintptr_t)&field->ops[i] : NULL;
}

/* Returns the name of the field's array in a batch. */
static const char *name_of(const struct pst_field_output *field)
{
    return field->as ? field->as : field->name;
}

/* Finds the size that all chains give their pictures. PST_ERROR_ARGUMENT: no chain fixes a size, or
 * they fix different ones. */
static enum pst_status find_size(const pst_loader *loader, uint32_t *height, uint32_t *width,
                                 struct pst_error *err)
{
    const struct pst_field_output *first = NULL;
    *height = *width = 0;
    for (size_t i = 0; i < loader->options.n_fields; i++) {
        const struct pst_field_output *field = &loader->fields[i];
        const struct pst_op *op = sized_op(field);
        if (!op)
            continue;
        if (first && (op->height != *height || op->width != *width)) {
            uint32_t h = *height, w = *width;
            *height = *width = 0;
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "size cannot be set: the pictures of '%s' are %ux%u and those of "
                             "'%s' %ux%u; one size for both would be another training",
                             name_of(first), h, w, name_of(field), op->height, op->width);
        }
        first = first ? first : field;
        *height = op->height;
        *width = op->width;
    }
    if (first)
        return PST_OK;
    return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                     "size cannot be set: no operation gives all pictures one size, as "
                     "RandomResizedCrop, RandomCrop, CenterCrop, Letterbox and Resize to (height, "
                     "width) do");
}

static void put_size(pst_loader *loader, uint32_t height, uint32_t width)
{
    for (size_t i = 0; height && i < loader->options.n_fields; i++) {
        struct pst_op *op = sized_op(&loader->fields[i]);
        if (!op)
            continue;
        op->height = height;
        op->width = width;
    }
}

/* Checks that each array whose size changed has the new size, and that at least one changed. */
static enum pst_status check_size(const struct psti_loader_plan *former, const struct shape *wanted,
                                  struct pst_error *err)
{
    bool found = false;
    for (uint32_t i = 0; i < former->n_fields; i++) {
        uint32_t from[2], to[2];
        if (former->fields[i].fill != PSTI_LOADER_FILL_PIXELS ||
            !psti_augment_chain_fixed_size(former->fields[i].chain, &from[0], &from[1]) ||
            !psti_augment_chain_fixed_size(wanted->plan.fields[i].chain, &to[0], &to[1]))
            continue;
        if (to[0] == wanted->height && to[1] == wanted->width)
            found = true;
        else if (to[0] != from[0] || to[1] != from[1])
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "size cannot be %ux%u: later operations of '%s' make %ux%u of that",
                             wanted->height, wanted->width, former->slots[i].name, to[0], to[1]);
    }
    if (found)
        return PST_OK;
    return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                     "size cannot be set: rows may differ in size behind the operation that has "
                     "one");
}

/* Checks that the operations that follow mosaics keep pictures of the new size. */
static enum pst_status check_behind(const pst_loader *loader, const struct psti_loader_plan *wanted,
                                    struct pst_error *err)
{
    uint32_t i_image = (uint32_t)loader->mix.i_field;
    if (!wanted->mosaics)
        return PST_OK;
    uint32_t at = wanted->fields[i_image].layout == PST_LAYOUT_CHW;
    return psti_loader_behind_check(loader, (uint32_t)wanted->slots[i_image].shape[at],
                                    (uint32_t)wanted->slots[i_image].shape[at + 1], err);
}

/* Plans the fields for the new settings. The loader itself is unchanged afterwards. */
static enum pst_status make_plan(pst_loader *loader, struct shape *wanted, uint32_t height,
                                 uint32_t width, struct pst_error *err)
{
    bool resized = wanted->height != height || wanted->width != width;
    put_size(loader, wanted->height, wanted->width);
    loader->options.fields = loader->fields;
    enum pst_status status =
        psti_loader_plan_make(loader->dataset, &loader->options, &wanted->plan, err);
    loader->options.fields = NULL;
    put_size(loader, height, width);
    wanted->plan.mosaics = loader->plan.mosaics;
    if (status == PST_OK && resized)
        status = check_size(&loader->plan, wanted, err);
    if (status == PST_OK)
        status = check_behind(loader, &wanted->plan, err);
    if (status == PST_OK)
        status =
            psti_batch_pool_open_beside(loader->pool, wanted->plan.slots, wanted->plan.n_fields,
                                        wanted->batch_size, &wanted->pool, err);
    return status;
}

#define SWAP(a, b)                                                                                 \
    do {                                                                                           \
        __typeof__(a) swapped = (a);                                                               \
        (a) = (b);                                                                                 \
        (b) = swapped;                                                                             \
    } while (0)

/* Swaps the loader's shape with *other. No thread may run, and everything that loader_shape.c makes
 * must be closed. */
static void exchange(pst_loader *loader, struct shape *other)
{
    uint32_t height, width;
    (void)find_size(loader, &height, &width, NULL);
    put_size(loader, other->height, other->width);
    other->height = height;
    other->width = width;
    SWAP(loader->plan, other->plan);
    SWAP(loader->pool, other->pool);
    SWAP(loader->placement, other->placement);
    SWAP(loader->kept.training, other->training);
    SWAP(loader->kept.key, other->cache_key);
    SWAP(loader->options.batch_size, other->batch_size);
    psti_order_set_batch_size(loader->order, loader->options.batch_size);
}

/* Ends the threads and frees everything the loader has for its shape, except batches that the
 * caller holds. */
static void close_shape(pst_loader *loader)
{
    psti_loader_shape_stop(loader);
    psti_loader_shape_close(loader);
    pthread_mutex_lock(loader->lock);
    psti_batch_pool_trim(loader->pool, 0);
    pthread_mutex_unlock(loader->lock);
}

/* Frees a shape that the loader no longer uses or never used. The loader's threads may run. The
 * caller may still hold batches of the shape. */
static void free_shape(struct shape *shape)
{
    shape->placement.ops->detach(shape->placement.own, &shape->plan);
    psti_loader_plan_clear(&shape->plan);
    psti_loader_training_close(&shape->training);
    psti_batch_pool_close(&shape->pool);
    psti_free(shape);
}

/* Opens the parts of the loader's new shape and starts its threads. */
static enum pst_status open_shape(pst_loader *loader, struct pst_error *err)
{
    enum pst_status status = psti_loader_placement_open(loader, err);
    if (status == PST_OK)
        status = psti_loader_cache_choose(loader, err);
    if (status == PST_OK)
        status = psti_loader_tiers_change(loader, err);
    if (status == PST_OK)
        status = psti_loader_shape_open(loader, err);
    if (status == PST_OK)
        status = psti_loader_shape_start(loader, err);
    return status;
}

/* Restores the old shape after a failure. It needs no more memory than it had before. If the system
 * no longer has that memory, the loader can only be closed, and each call says so. */
static void put_back(pst_loader *loader, struct shape *former)
{
    struct pst_error err;
    close_shape(loader);
    exchange(loader, former);
    enum pst_status status = psti_loader_tiers_change(loader, &err);
    if (status == PST_OK)
        status = psti_loader_shape_open(loader, &err);
    if (status == PST_OK)
        status = psti_loader_shape_start(loader, &err);
    if (status == PST_OK)
        return;
    close_shape(loader);
    loader->epoch.broken = true;
    loader->epoch.failed = true;
    loader->epoch.failure = err;
}

static enum pst_status change(pst_loader *loader, struct shape *shape, struct pst_error *err)
{
    close_shape(loader);
    exchange(loader, shape);
    enum pst_status status = open_shape(loader, err);
    if (status != PST_OK)
        put_back(loader, shape);
    if (loader->epoch.broken)
        return status;
    pthread_mutex_lock(loader->lock);
    psti_loader_go_on(loader);
    pthread_mutex_unlock(loader->lock);
    return status;
}

static enum pst_status check_settings(const pst_loader *loader,
                                      const struct pst_loader_settings *settings,
                                      struct pst_error *err)
{
    if (loader->share || loader->tiers.shelf)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "loader",
                         "a loader that shares gets batches that its whole group has agreed on, so "
                         "its size and batch_size cannot be set: close it, and open one with other "
                         "options");
    if (!settings->height != !settings->width)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "size is %ux%u: height and width are both set, or both 0",
                         settings->height, settings->width);
    return psti_loader_check_batch_size(settings->batch_size, err);
}

enum pst_status pst_loader_set(pst_loader *loader, const struct pst_loader_settings *settings,
                               struct pst_error *err)
{
    struct pst_loader_settings wanted;
    uint32_t height, width;
    if (psti_batch_pool_is_forked(loader->pool))
        return psti_loader_fail_forked(err);
    enum pst_status status = psti_options_copy(&wanted, sizeof wanted, settings, "loader", err);
    if (status == PST_OK)
        status = check_settings(loader, &wanted, err);
    if (status == PST_OK)
        status = psti_loader_check_broken(loader, err);
    if (status == PST_OK) {
        status = find_size(loader, &height, &width, wanted.height ? err : NULL);
        status = wanted.height ? status : PST_OK; /* otherwise only batch_size changes, and no
                                                     size is needed */
    }
    if (status != PST_OK)
        return status;
    struct shape *shape = psti_calloc(1, sizeof *shape);
    if (!shape)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for other settings");
    shape->placement = psti_placement_host;
    shape->batch_size = wanted.batch_size ? wanted.batch_size : loader->options.batch_size;
    shape->height = wanted.height ? wanted.height : height;
    shape->width = wanted.height ? wanted.width : width;
    if (shape->batch_size != loader->options.batch_size || shape->height != height ||
        shape->width != width) {
        status = make_plan(loader, shape, height, width, err);
        if (status == PST_OK)
            status = change(loader, shape, err);
    }
    free_shape(shape);
    return status;
}

void pst_loader_settings(const pst_loader *loader, struct pst_loader_settings *settings,
                         size_t settings_nbytes)
{
    struct pst_loader_settings now = {.struct_size = settings_nbytes,
                                      .batch_size = loader->options.batch_size};
    if (find_size(loader, &now.height, &now.width, NULL) != PST_OK)
        now.height = now.width = 0;
    psti_struct_write(settings, settings_nbytes, &now, sizeof now);
}
