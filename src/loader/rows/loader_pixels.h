/* loader_pixels.h - the images of a row: makes a row of an image, or all views of an image, and has
 * the steps that both share. */
#ifndef PST_LOADER_LOADER_PIXELS_H
#define PST_LOADER_LOADER_PIXELS_H

#include "loader/loader_source.h"
#include "loader/placement/loader_placement.h"

struct psti_loader_worker;
struct psti_shelf_picture;

/* Decodes the image and writes its row. */
enum pst_status psti_loader_row_pixels(struct psti_loader_worker *worker, pst_batch *batch,
                                       uint32_t i_plan, uint32_t row,
                                       const struct psti_draw_key *key,
                                       const struct psti_loader_source *source,
                                       struct pst_error *err);
/* loader_views.c: makes all views of the item's image. i_plan is the first plan field with views of
 * the item; fields after it may have more. */
enum pst_status psti_loader_row_views(struct psti_loader_worker *worker, pst_batch *batch,
                                      uint32_t i_plan, uint32_t row,
                                      const struct psti_draw_key *key,
                                      const struct psti_loader_source *source,
                                      struct pst_error *err);

/* Reads the image's header and sets image->info, kept, pli and chain. Afterwards the worker has its
 * decoder and run. */
enum pst_status psti_loader_pixels_open(struct psti_loader_worker *worker, struct psti_image *image,
                                        struct pst_error *err);
/* Decodes the drawn image to `place`, or takes the pixels of image->shared. */
enum pst_status psti_loader_pixels_decode(struct psti_loader_worker *worker,
                                          const struct psti_image *image,
                                          const struct psti_place *place, struct pst_error *err);
/* Decodes the rectangle of an opened image that several rows will be made of. */
enum pst_status psti_loader_pixels_decode_shared(struct psti_loader_worker *worker,
                                                 const struct psti_image *image,
                                                 const struct psti_shelf_picture *shared);
/* Adds codec and offset to the error of an image that could not be decoded. */
void psti_loader_pixels_name_error(const struct psti_loader_source *source, struct pst_error *err);

#endif
