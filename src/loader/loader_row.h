/* loader_row.h - one row: its items, where their bytes are, and how they become a row of a batch.
 *
 * Any worker calls these, for rows of its own; none takes the loader's lock. */
#ifndef PST_LOADER_LOADER_ROW_H
#define PST_LOADER_LOADER_ROW_H

#include "augment/augment.h"
#include "decode/decode.h"
#include "loader/loader_plan.h"
#include "storage/storage.h"

#include <penstock/penstock.h>

#define PSTI_PATH_NBYTES 4096
#define PSTI_RANGES_MAX 16 /* reads into which one item may be split */

struct psti_loader_worker;

/* One stored item of one row. */
struct psti_loader_source {
    struct pst_item item;
    uint32_t variant;
    struct psti_file *file; /* held while the row is under way; NULL: read by path, or in no file */
    const char *path;       /* of a folder's file; NULL otherwise */
    void *buffer;           /* where it is to be read to; NULL: in memory already, or empty */
    const void *data;       /* its bytes; NULL: not there yet */
    bool sparse;            /* in two rounds: the first n_here bytes, then what of it is needed */
    bool partial;           /* of `data` only the head and the units of `region` are there */
    uint32_t n_more;        /* reads of the second round */
    size_t n_here;          /* sparse: bytes of the first round */
    struct psti_rect stored; /* sparse: all that the draw's region is made from, as it is stored */
    /* The header of a PLI, where the first round brought it; width 0: it was not parsed yet. */
    struct psti_pli_header pli;
    /* What was drawn before anything was read, by what the index says of the image: */
    bool is_drawn;
    struct pst_image_info drawn_for;
    struct psti_draw draw;
};

/* loader_row.c */
/* A row is a sample and what its random parameters follow from: `draw` is psti_order_draw's. */
struct psti_draw_key psti_loader_row_key(const pst_loader *loader, uint64_t epoch, uint64_t sample,
                                         uint64_t draw);
/* Where the items of the sample are; files are acquired, memory that is there already is pointed
 * to. *nbytes: room that the others need. After failure nothing is held. */
enum pst_status psti_loader_row_locate(pst_loader *loader, const struct psti_draw_key *key,
                                       struct psti_loader_source *sources, char *paths,
                                       size_t *nbytes, struct pst_error *err);
/* Whether writing the located row only copies bytes. */
bool psti_loader_row_copies(const pst_loader *loader, const struct psti_loader_source *sources);
/* Buffers for the items that must be read, cut from `block`; fills `reads`, returns how many. */
uint32_t psti_loader_row_reads(pst_loader *loader, struct psti_loader_source *sources, void *block,
                               struct psti_read *reads);
/* The reads have completed: points `sources` to their bytes, or returns the first one's error. */
enum pst_status psti_loader_row_take_reads(pst_loader *loader, uint64_t sample,
                                           struct psti_loader_source *sources,
                                           const struct psti_read *reads, struct pst_error *err);
void psti_loader_row_release(pst_loader *loader, struct psti_loader_source *sources);
/* The items' bytes are there: writes row `row` of the batch. */
enum pst_status psti_loader_row_fill(struct psti_loader_worker *worker, pst_batch *batch,
                                     uint32_t row, const struct psti_draw_key *key,
                                     struct psti_loader_source *sources, struct pst_error *err);
/* All of it in this thread: locate, read, fill. */
enum pst_status psti_loader_row_make(struct psti_loader_worker *worker, pst_batch *batch,
                                     uint32_t row, const struct psti_draw_key *key,
                                     struct pst_error *err);
void psti_loader_row_name_error(const pst_loader *loader, uint64_t sample,
                                const struct psti_loader_source *source, struct pst_error *err);
/* loader_ranges.c */
/* Marks the located item as sparse if reading it in two rounds is likely to be worth it. */
void psti_loader_ranges_consider(const pst_loader *loader, const struct psti_draw_key *key,
                                 const struct psti_loader_plan_field *field,
                                 struct psti_loader_source *source);
/* Whether the row has items that are read in two rounds. */
bool psti_loader_ranges_any(const pst_loader *loader, const struct psti_loader_source *sources);
/* The first round was taken: fills `reads` with those of the second, returns how many. */
uint32_t psti_loader_ranges_reads(pst_loader *loader, struct psti_loader_source *sources,
                                  struct psti_read *reads);
/* These have completed: PST_OK, or the first one's error. */
enum pst_status psti_loader_ranges_take(const pst_loader *loader, uint64_t sample,
                                        const struct psti_loader_source *sources,
                                        const struct psti_read *reads, struct pst_error *err);

/* loader_pixels.c */
/* psti_augment_chain_draw, and where the field is to be decoded at a part of its size,
 * psti_augment_chain_scale. */
enum pst_status psti_loader_row_draw(const pst_loader *loader,
                                     const struct psti_loader_plan_field *plan,
                                     const struct psti_draw_key *key,
                                     const struct pst_image_info *info, struct psti_draw *draw,
                                     struct pst_error *err);
enum pst_status psti_loader_row_pixels(struct psti_loader_worker *worker, pst_batch *batch,
                                       uint32_t i_plan, uint32_t row,
                                       const struct psti_draw_key *key,
                                       const struct psti_loader_source *source,
                                       struct pst_error *err);

/* loader_follow.c */
/* After `info` was probed: keeps that of the leading image, and turns that of a mask as it must be
 * decoded to lie on it; an error if sizes do not fit. */
enum pst_status psti_loader_follow_image(struct psti_loader_worker *worker, uint32_t i_plan,
                                         struct pst_image_info *info, struct pst_error *err);
/* Turns boxes or keypoints onto the leading image, and checks them. */
enum pst_status psti_loader_follow_points(struct psti_loader_worker *worker, uint32_t i_plan,
                                          float *points, size_t n, struct pst_error *err);

/* loader_boxes.c */
/* After all fields of the row were filled. */
enum pst_status psti_loader_boxes_drop(struct psti_loader_worker *worker, pst_batch *batch,
                                       uint32_t row, const struct psti_loader_source *sources,
                                       struct pst_error *err);

#endif
