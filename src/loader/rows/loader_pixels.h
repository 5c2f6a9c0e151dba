/* loader_pixels.h - images of a row: one row of an image, all views of an image, and the steps of
 * both. */
#ifndef PST_LOADER_LOADER_PIXELS_H
#define PST_LOADER_LOADER_PIXELS_H

#include "loader/loader_source.h"
#include "loader/placement/loader_placement.h"

struct psti_loader_worker;
struct psti_shelf_picture;

/* Decodes the image into its row. */
enum pst_status psti_loader_row_pixels(struct psti_loader_worker *worker, pst_batch *batch,
                                       uint32_t i_plan, uint32_t row,
                                       const struct psti_draw_key *key,
                                       const struct psti_loader_source *source,
                                       struct pst_error *err);
/* loader_views.c: makes all views of the item's image: those of plan field i_plan, its first with
 * views, and of the others. */
enum pst_status psti_loader_row_views(struct psti_loader_worker *worker, pst_batch *batch,
                                      uint32_t i_plan, uint32_t row,
                                      const struct psti_draw_key *key,
                                      const struct psti_loader_source *source,
                                      struct pst_error *err);

/* Reads the image's header: info, kept, pli and chain. The worker has its tools from then on. */
enum pst_status psti_loader_pixels_open(struct psti_loader_worker *worker, struct psti_image *image,
                                        struct pst_error *err);
/* Decodes the drawn image, or takes the pixels of image->shared, to its place. */
enum pst_status psti_loader_pixels_decode(struct psti_loader_worker *worker,
                                          const struct psti_image *image,
                                          const struct psti_place *place, struct pst_error *err);
/* Decodes the rectangle of an opened image of which several rows will be made. */
enum pst_status psti_loader_pixels_decode_shared(struct psti_loader_worker *worker,
                                                 const struct psti_image *image,
                                                 const struct psti_shelf_picture *shared);
/* Completes the error of an image that could not be decoded. */
void psti_loader_pixels_name_error(const struct psti_loader_source *source, struct pst_error *err);

#endif
