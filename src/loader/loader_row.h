/* loader_row.h - one row: its items, the places of their bytes, and the way into a row of a batch.
 *
 * Any worker calls these for rows of its own; none takes the loader's lock. */
#ifndef PST_LOADER_LOADER_ROW_H
#define PST_LOADER_LOADER_ROW_H

#include "augment/augment.h"
#include "base/buffer.h"
#include "cache/cache.h"
#include "decode/decode_recode.h"
#include "fleet/fleet.h"
#include "loader/loader_plan.h"
#include "loader/loader_training.h"
#include "share/share.h"
#include "storage/storage.h"

#include <penstock/penstock.h>

#define PSTI_PATH_NBYTES 4096
#define PSTI_LOADER_RANGES_MAX 16 /* reads into which one item may be split */

struct psti_loader_worker;
struct psti_shelf_item;

/* One stored item of one row. */
struct psti_loader_source {
    struct pst_item item;
    uint32_t variant;
    uint32_t i_form;        /* number of its form in the loader's form_parts; UINT32_MAX: none */
    struct psti_file *file; /* held while the row is under way; NULL: the item is read by path, or
                               is in no file */
    const char *path;       /* path of a folder's file; NULL otherwise */
    uint64_t place;         /* where the disk has that file */
    uint64_t stamp;         /* psti_dataset_file_stamp of that file */
    void *buffer;           /* destination of the read; NULL: in memory already, or empty */
    const void *data;       /* its bytes; NULL: not there yet */
    uint64_t sample;        /* number of the sample in the data set */
    uint64_t stored_nbytes; /* item.nbytes as the data set has it, also if it is re-coded */
    bool is_cached;         /* `data` lies in the cache */
    bool is_recoded;        /* the cache or the fleet had it re-coded; item says how */
    struct psti_training_picture picture; /* n_ops > 0: `data` is a picture at the training size */
    bool is_wanted;                       /* the cache has reserved room for it: stored_nbytes */
    bool is_asked;                        /* the host service was asked for it, by `wish` */
    bool is_late;                         /* it did not come, and is read in a round of its own */
    bool ask_fleet;                       /* the fleet is asked before the storage */
    bool is_offered;                      /* the fleet does not have it: it gets a copy */
    uint64_t fleet_nbytes;                /* bytes in `buffer` that came from the fleet; 0: none */
    struct psti_read *read;               /* that brings `data`, from wherever; NULL: none */
    struct psti_share_wish wish;
    struct psti_shelf_item *shelved; /* its item on the loader's shelf; NULL: none */
    bool reads_shelf;                /* this row reads it, to the shelf; not done yet */
    bool waits_shelf;                /* another loader's row reads it */
    bool sparse;  /* two-round read: the first n_here bytes, then the needed rest */
    bool partial; /* `data` has only the head and the units of `stored` */
    struct psti_draw_key sound_key; /* sparse sounds: the row's */
    bool on_demand;          /* partial sounds: the decoder has the rest read where it needs it */
    uint32_t n_more;         /* reads of the second round */
    size_t n_here;           /* sparse: bytes of the first round */
    struct psti_rect stored; /* sparse: part of the stored image that the draw's region needs */
    /* Header of a PLI, which the first round has read; width 0: not parsed yet. */
    struct psti_pli_header pli;
    /* The draw made before anything was read, from the index: */
    bool is_drawn;
    struct pst_image_info drawn_for;
    struct psti_draw draw;
};

/* A request of a source to the fleet. */
struct psti_loader_request {
    struct psti_fleet_get get;
    pst_loader *loader;
    const struct psti_loader_plan_field *field;
    struct psti_loader_source *source;
};

/* loader_row.c */
/* A row is a sample and the key of its random parameters. `draw` comes from psti_order_draw. */
struct psti_draw_key psti_loader_row_key(const pst_loader *loader, uint64_t epoch, uint64_t sample,
                                         uint64_t draw);
/* A row's turn is its number among the rows of its rank in the epoch. This one has none. */
#define PSTI_LOADER_NO_TURN UINT64_MAX
/* Finds the items of the sample, of which the turn may choose the form. Acquires files; points to
 * items that are in memory. *nbytes: memory that the others need. After failure nothing is held. */
enum pst_status psti_loader_row_locate(pst_loader *loader, const struct psti_draw_key *key,
                                       uint64_t turn, struct psti_loader_source *sources,
                                       char *paths, size_t *nbytes, struct pst_error *err);
/* True if writing the located row only copies bytes. */
bool psti_loader_row_copies(const pst_loader *loader, const struct psti_loader_source *sources);
/* Bytes of a block that the source takes. */
size_t psti_loader_row_buffer_nbytes(const pst_loader *loader,
                                     const struct psti_loader_source *source);
/* Does one read in this thread. */
enum pst_status psti_loader_row_run_read(struct psti_loader_worker *worker, struct psti_read *read);
/* Cuts buffers from `block` for the items that must be read. Fills `reads` and returns how many. */
uint32_t psti_loader_row_reads(pst_loader *loader, struct psti_loader_source *sources, void *block,
                               struct psti_read *reads);
/* The read has completed. Points the source to its bytes, or returns the error, with the sample's
 * name. */
enum pst_status psti_loader_row_take_read(const pst_loader *loader, uint64_t sample,
                                          struct psti_loader_source *source,
                                          const struct psti_read *read, struct pst_error *err);
/* The reads have completed. Points `sources` to their bytes, or returns the first one's error. */
enum pst_status psti_loader_row_take_reads(pst_loader *loader, uint64_t sample,
                                           struct psti_loader_source *sources,
                                           const struct psti_read *reads, struct pst_error *err);
void psti_loader_row_release(pst_loader *loader, struct psti_loader_source *sources);
/* Writes row `row` of the batch. The items' bytes are there. */
enum pst_status psti_loader_row_fill(struct psti_loader_worker *worker, pst_batch *batch,
                                     uint32_t row, const struct psti_draw_key *key,
                                     struct psti_loader_source *sources, struct pst_error *err);
/* Locates, reads and fills the row in this thread. If it fails with bytes of the fleet, it is made
 * again without those. */
enum pst_status psti_loader_row_make(struct psti_loader_worker *worker, pst_batch *batch,
                                     uint32_t row, const struct psti_draw_key *key, uint64_t turn,
                                     struct pst_error *err);
/* Makes the row as psti_loader_row_make does, after the fleet's bytes could not be used: no item
 * comes from the fleet. A row that is good now is counted. */
enum pst_status psti_loader_row_make_without_fleet(struct psti_loader_worker *worker,
                                                   pst_batch *batch, uint32_t row,
                                                   const struct psti_draw_key *key, uint64_t turn,
                                                   struct pst_error *err);
void psti_loader_row_name_error(const pst_loader *loader, uint64_t sample,
                                const struct psti_loader_source *source, struct pst_error *err);
/* loader_cache.c */
/* Looks for the item in the cache. Sets data and is_cached, or is_wanted, or neither. If the cache
 * has the item re-coded, sets its form and length too. */
void psti_loader_cache_ask(pst_loader *loader, const struct psti_loader_plan_field *field,
                           struct psti_loader_source *source);
/* Offers the items of a row that was filled to the fleet, and keeps those that are wanted.
 * Re-codes those that options.cache_form is for. */
void psti_loader_cache_keep(struct psti_loader_worker *worker, struct psti_loader_source *sources);
/* Gives up the reservations of a row's items that are still wanted. */
void psti_loader_cache_give_up(pst_loader *loader, struct psti_loader_source *sources);

/* loader_host.c: items that the host service reads */
/* Looks for the item in the host cache. Sets what psti_loader_cache_ask sets, or is_asked. */
void psti_loader_host_ask(pst_loader *loader, const struct psti_loader_plan_field *field,
                          struct psti_loader_source *source);
/* Gathers the wishes of a located row. Returns how many there are. */
uint32_t psti_loader_host_wishes(const pst_loader *loader, struct psti_loader_source *sources,
                                 struct psti_share_wish **wishes);
bool psti_loader_host_any(const pst_loader *loader, const struct psti_loader_source *sources);
/* The wishes were answered. Points the sources to their bytes; fills `reads` for those that did not
 * come, and returns how many these are. */
uint32_t psti_loader_host_resolve(pst_loader *loader, struct psti_loader_source *sources,
                                  struct psti_read *reads);
/* These reads have completed. Points the sources to their bytes, or returns the first one's error.
 */
enum pst_status psti_loader_host_take(const pst_loader *loader, uint64_t sample,
                                      struct psti_loader_source *sources,
                                      const struct psti_read *reads, struct pst_error *err);
/* Points the source to what a cache or the fleet has. False: the item cannot be this loader's. */
bool psti_loader_cache_take(const pst_loader *loader, const struct psti_loader_plan_field *field,
                            const struct psti_cache_span *span, struct psti_loader_source *source);
/* A cache had the item that the source points to, of nbytes. */
void psti_loader_cache_count_hit(pst_loader *loader, const struct psti_loader_source *source,
                                 uint64_t nbytes);
/* The item's number in the sample, for cache, host cache and fleet. */
uint32_t psti_loader_cache_number(const pst_loader *loader, uint32_t i_field, uint32_t variant);
/* True if a sample's items may be admitted by a cache: options.cache_plan. */
bool psti_loader_cache_admits(const pst_loader *loader, uint64_t sample);

/* loader_fleet.c */
/* Decides if the fleet is asked for a located item that the cache does not have. */
void psti_loader_fleet_consider(pst_loader *loader, const struct psti_loader_plan_field *field,
                                struct psti_loader_source *source);
/* Prepares requests for the sources that the fleet is to be asked for, after psti_loader_row_reads.
 * Returns how many; `requests` has room for all items. The caller sets `done` and `user`. */
uint32_t psti_loader_fleet_requests(pst_loader *loader, struct psti_loader_source *sources,
                                    struct psti_loader_request *requests);
/* The request has ended. True: its read is done, with the item's bytes. False: it must be read. */
bool psti_loader_fleet_take(struct psti_loader_request *request);
/* Asks in this thread for the worker's sources, and waits. */
void psti_loader_fleet_ask_here(struct psti_loader_worker *worker);
/* A row was filled, with that status. True: it failed, and bytes that came from the fleet may be
 * why: the row is to be made without the fleet. */
bool psti_loader_fleet_is_suspect(const struct psti_loader_worker *worker,
                                  const struct psti_loader_source *sources, enum pst_status status);
/* Offers an item to the fleet, with the source's reservation in the cache. False: the fleet does
 * not take it, and the reservation stays the caller's. A re-coded item is shorter than the stored
 * one. */
bool psti_loader_fleet_offer(pst_loader *loader, struct psti_loader_source *source, uint32_t i_item,
                             const struct psti_cache_span *item);

/* What the index, or the head of a kept item, says of raw pixels. */
struct pst_image_info psti_loader_source_raw_info(const struct psti_loader_source *source);

/* loader_recode.c */
/* Re-codes the source's bytes in the form that the cache's set keeps, into `out` (empty before, and
 * freed by the caller). DONE: `item` points to the result; else it does not change. */
enum psti_recode_result psti_loader_recode(struct psti_loader_worker *worker,
                                           const struct psti_loader_plan_field *field,
                                           const struct psti_loader_source *source,
                                           struct psti_buffer *out, struct psti_cache_span *item);

/* If the source's item is to be kept at the training size, makes that picture now, and *smaller, a
 * copy of the source that points to it: the row is made of it then, and psti_loader_recode keeps
 * it, so that the image is decoded once. False: the row is made of the source itself. */
bool psti_loader_recode_ahead(struct psti_loader_worker *worker,
                              const struct psti_loader_plan_field *field,
                              const struct psti_loader_source *source,
                              struct psti_loader_source *smaller);
/* Frees pictures that were made ahead. */
void psti_loader_recode_forget(struct psti_loader_worker *worker);

/* loader_ranges.c */
/* Marks the located item as sparse if a two-round read is likely to save enough. */
void psti_loader_ranges_consider(const pst_loader *loader, const struct psti_draw_key *key,
                                 const struct psti_loader_plan_field *field,
                                 struct psti_loader_source *source);
/* True if the row has items with a two-round read. */
bool psti_loader_ranges_any(const pst_loader *loader, const struct psti_loader_source *sources);
/* Fills `reads` with those of the second round and returns how many. The first round has been
 * taken. */
uint32_t psti_loader_ranges_reads(pst_loader *loader, struct psti_loader_source *sources,
                                  struct psti_read *reads);
/* The reads of the second round have completed. Returns PST_OK, or the first one's error. */
enum pst_status psti_loader_ranges_take(const pst_loader *loader, uint64_t sample,
                                        const struct psti_loader_source *sources,
                                        const struct psti_read *reads, struct pst_error *err);

/* loader_pixels.c */
/* psti_augment_chain_draw. If the field uses scaled decode and the source may be scaled, also
 * psti_augment_chain_scale. PST_ERROR_STATE before the row's boxes are there, if the draw depends
 * on them. */
enum pst_status psti_loader_row_draw(const pst_loader *loader,
                                     const struct psti_loader_plan_field *plan,
                                     const struct psti_loader_source *source,
                                     const struct psti_draw_key *key,
                                     const struct pst_image_info *info, struct psti_draw *draw,
                                     struct pst_error *err);
enum pst_status psti_loader_row_pixels(struct psti_loader_worker *worker, pst_batch *batch,
                                       uint32_t i_plan, uint32_t row,
                                       const struct psti_draw_key *key,
                                       const struct psti_loader_source *source,
                                       struct pst_error *err);

/* loader_views.c */
/* Makes all views of the item's image: those of plan field i_plan, its first with views, and of the
 * others. */
enum pst_status psti_loader_row_views(struct psti_loader_worker *worker, pst_batch *batch,
                                      uint32_t i_plan, uint32_t row,
                                      const struct psti_draw_key *key,
                                      const struct psti_loader_source *source,
                                      struct pst_error *err);

/* loader_follow.c */
/* Called after `info` was probed. Keeps that of the leading image. Rotates a mask's so that the
 * mask decodes aligned with the image. An error if sizes do not fit. */
enum pst_status psti_loader_follow_image(struct psti_loader_worker *worker, uint32_t i_plan,
                                         struct pst_image_info *info, struct pst_error *err);
/* Aligns boxes or keypoints with the leading image, and checks them. */
enum pst_status psti_loader_follow_points(struct psti_loader_worker *worker, uint32_t i_plan,
                                          float *points, size_t n, struct pst_error *err);

/* loader_boxes.c */
/* Keeps the stored boxes of plan.i_crop_boxes in worker->boxes, for the row's draws. */
enum pst_status psti_loader_boxes_take(struct psti_loader_worker *worker, const void *boxes,
                                       uint64_t nbytes, struct pst_error *err);
/* Aligns them with the leading image, which was probed, and checks them. */
enum pst_status psti_loader_boxes_follow(struct psti_loader_worker *worker, struct pst_error *err);
/* Called after all fields of the row were filled. */
enum pst_status psti_loader_boxes_drop(struct psti_loader_worker *worker, pst_batch *batch,
                                       uint32_t row, const struct psti_loader_source *sources,
                                       struct pst_error *err);

#endif
