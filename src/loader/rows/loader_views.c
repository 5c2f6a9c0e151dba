/* loader_views.c - makes several views of one stored image.
 *
 * In: the encoded bytes of an item, and the plan fields with views of it. Out: each view in its
 * place in the slot. All views are drawn first. Views that the placement makes itself (a GPU) are
 * done with that. For the others: if the rectangle that covers all regions has fewer pixels than
 * the regions together, it is decoded once, to memory of the worker, and each view is made from it.
 * Otherwise each view decodes its own region. Both ways give identical bits. */
#include "loader/loader_fallback.h"
#include "loader/loader_draw.h"
#include "loader/loader_handle.h"
#include "loader/rows/loader_pixels.h"
#include "loader/loader_plan.h"
#include "loader/tiers/loader_shelf.h"
#include "loader/loader_worker.h"

#include "base/alloc.h"
#include "base/bits.h"

#define PADDING 64 /* unused bytes after the pixels, which kernels may read */

/* The views of one item of one row. */
struct views {
    struct psti_loader_worker *worker;
    const struct psti_draw_key *key;
    struct psti_image image; /* the stored image, opened for the first plan field with views of
                                it */
    uint8_t channels, bits;  /* channels and bits of the image's decoded pixels */
    struct psti_shelf_picture picture; /* the decoded rectangle, if pixels is not NULL */
    bool has_asked;                    /* share() was called */
};

/* Returns the next plan field with views of the item, searching from number i on; n_fields:
 * none. */
static uint32_t next_field(const struct views *views, uint32_t i)
{
    const struct psti_loader_plan *plan = &views->worker->loader->plan;
    while (i < plan->n_fields &&
           !(plan->fields[i].n_views && plan->fields[i].i_item == views->image.plan->i_item))
        i++;
    return i;
}

static enum pst_status draw_field(struct views *views, const struct psti_loader_plan_field *plan,
                                  struct pst_error *err)
{
    struct psti_loader_worker *worker = views->worker;
    enum pst_status status = PST_OK;
    for (uint32_t v = 0; status == PST_OK && v < plan->n_views; v++) {
        struct psti_draw_key key = *views->key;
        key.view = plan->first_view + v;
        status = psti_loader_draw(worker->loader, plan, views->image.source, &key,
                                  &views->image.info, &worker->view_draws[plan->i_draw + v], err);
    }
    return status;
}

static enum pst_status draw_all(struct views *views, struct pst_error *err)
{
    const struct psti_loader_plan *plan = &views->worker->loader->plan;
    enum pst_status status = PST_OK;
    for (uint32_t i = next_field(views, 0); status == PST_OK && i < plan->n_fields;
         i = next_field(views, i + 1))
        status = draw_field(views, &plan->fields[i], err);
    return status;
}

static void extend(struct psti_rect *a, const struct psti_draw *draw)
{
    uint32_t bottom = draw->region_y + draw->region_height, a_bottom = a->y + a->height;
    uint32_t right = draw->region_x + draw->region_width, a_right = a->x + a->width;
    a->y = a->y < draw->region_y ? a->y : draw->region_y;
    a->x = a->x < draw->region_x ? a->x : draw->region_x;
    a->height = (bottom > a_bottom ? bottom : a_bottom) - a->y;
    a->width = (right > a_right ? right : a_right) - a->x;
}

/* Finds the rectangle that covers the regions of all views. True: decoding it once takes fewer
 * pixels than decoding each region. */
static bool cover(const struct views *views, struct psti_rect *rect)
{
    const struct psti_loader_plan *plan = &views->worker->loader->plan;
    uint64_t n_pixels = 0;
    uint32_t n = 0;
    for (uint32_t i = next_field(views, 0); i < plan->n_fields; i = next_field(views, i + 1))
        for (uint32_t v = 0; v < plan->fields[i].n_views; v++, n++) {
            const struct psti_draw *draw = &views->worker->view_draws[plan->fields[i].i_draw + v];
            if (n == 0)
                *rect = (struct psti_rect){draw->region_y, draw->region_x, draw->region_height,
                                           draw->region_width};
            extend(rect, draw);
            n_pixels += (uint64_t)draw->region_height * draw->region_width;
        }
    return n > 1 && (uint64_t)rect->height * rect->width < n_pixels;
}

/* Returns memory of the worker for nbytes of pixels, which is kept for later images. NULL:
 * host_memory has none left. */
static void *picture_memory(struct psti_loader_worker *worker, size_t nbytes)
{
    struct psti_pool *pool = worker->loader->pool;
    if (nbytes <= worker->picture_nbytes)
        return worker->picture;
    size_t total = psti_round_up(nbytes + nbytes / 8, 4096);
    if (!psti_batch_pool_charge(pool, total, false))
        return NULL;
    void *memory = psti_alloc_aligned(PSTI_CACHE_LINE, total);
    psti_batch_pool_uncharge(pool, memory ? worker->picture_nbytes : total);
    if (!memory)
        return NULL;
    psti_free(worker->picture);
    worker->picture = memory;
    worker->picture_nbytes = total;
    return memory;
}

/* Decodes the rectangle that covers all views, at the first call. Leaves picture.pixels NULL if
 * each view must decode its own region. */
static enum pst_status share(struct views *views, struct pst_error *err)
{
    struct psti_loader_worker *worker = views->worker;
    struct psti_shelf_picture *picture = &views->picture;
    if (views->has_asked)
        return PST_OK;
    views->has_asked = true;
    if (!cover(views, &picture->rect))
        return PST_OK;
    picture->options = views->image.plan->decode;
    picture->orientation = views->image.info.orientation;
    picture->pixel_nbytes = (size_t)views->channels * (views->bits == 16 ? 2 : 1);
    picture->row_nbytes = picture->rect.width * picture->pixel_nbytes;
    picture->pixels = picture_memory(worker, picture->row_nbytes * picture->rect.height + PADDING);
    if (!picture->pixels) {
        psti_loader_fell_back(worker->loader, PST_FALLBACK_VIEWS, 1);
        return PST_OK;
    }
    if (psti_loader_pixels_decode_shared(worker, &views->image, picture) == PST_OK) {
        worker->n_cpu++;
        return PST_OK;
    }
    picture->pixels = NULL; /* each view then decodes its own region and reports the error */
    return psti_loader_pixels_open(worker, &views->image, err);
}

/* Makes one view. */
static enum pst_status make_view(struct views *views, struct psti_image *image,
                                 struct pst_error *err)
{
    struct psti_loader_worker *worker = views->worker;
    const struct psti_placement_ops *ops = worker->loader->placement.ops;
    struct psti_place place = {.kind = PSTI_LOADER_PLACE_NOWHERE};
    enum pst_status status = ops->place(worker, image, &place, err);
    if (status != PST_OK || place.kind == PSTI_LOADER_PLACE_NOWHERE)
        return status;
    status = share(views, err);
    image->shared = views->picture.pixels ? &views->picture : NULL;
    if (status == PST_OK)
        status = psti_loader_pixels_decode(worker, image, &place, err);
    worker->n_cpu += status == PST_OK && !image->shared;
    if (status == PST_OK)
        ops->done(worker, image);
    return status;
}

/* Makes all views of one plan field. */
static enum pst_status make_field(struct views *views, uint32_t i_plan, struct pst_error *err)
{
    struct psti_loader_worker *worker = views->worker;
    struct psti_image image = views->image;
    enum pst_status status = PST_OK;
    image.i_plan = i_plan;
    image.plan = &worker->loader->plan.fields[i_plan];
    image.chain = psti_loader_plan_chain(image.plan, views->channels, views->bits);
    for (image.view = 0; status == PST_OK && image.view < image.plan->n_views; image.view++) {
        image.draw = &worker->view_draws[image.plan->i_draw + image.view];
        status = make_view(views, &image, err);
    }
    return status;
}

enum pst_status psti_loader_row_views(struct psti_loader_worker *worker, pst_batch *batch,
                                      uint32_t i_plan, uint32_t row,
                                      const struct psti_draw_key *key,
                                      const struct psti_loader_source *source,
                                      struct pst_error *err)
{
    const struct psti_loader_plan *plan = &worker->loader->plan;
    struct views views = {.worker = worker,
                          .key = key,
                          .image = {.batch = batch,
                                    .i_plan = i_plan,
                                    .row = row,
                                    .plan = &plan->fields[i_plan],
                                    .source = source}};
    enum pst_status status = psti_loader_pixels_open(worker, &views.image, err);
    if (status == PST_OK) {
        psti_decode_output(&views.image.info, &views.image.plan->decode, &views.channels,
                           &views.bits);
        status = draw_all(&views, err);
    }
    for (uint32_t i = i_plan; status == PST_OK && i < plan->n_fields; i = next_field(&views, i + 1))
        status = make_field(&views, i, err);
    if (status != PST_OK)
        psti_loader_pixels_name_error(source, err);
    return status;
}
