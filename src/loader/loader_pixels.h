/* loader_pixels.h - the steps of an image's way into a row, for those that make several rows of it.
 */
#ifndef PST_LOADER_LOADER_PIXELS_H
#define PST_LOADER_LOADER_PIXELS_H

#include "loader/loader_row.h"
#include "loader/placement/loader_placement.h"

struct psti_shelf_picture;

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
