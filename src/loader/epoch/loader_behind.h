/* loader_behind.h - the operations that follow a mosaic, applied to one row of a batch. */
#ifndef PST_LOADER_LOADER_BEHIND_H
#define PST_LOADER_LOADER_BEHIND_H

#include "augment/augment.h"

#include <penstock/loader.h>

/* The operations that follow the mosaics of one batch, and their random draw for the current row.
 * It belongs to the thread that has the batch. */
struct psti_loader_behind {
    const pst_loader *loader;
    const struct psti_chain *chain; /* chain of the image; NULL: no operations follow mosaics */
    struct psti_run *run;
    uint32_t height, width;
    struct psti_draw_key key;
    struct psti_draw draw; /* for the row's image; boxes and points use it, too */
    /* What the draw does to coordinates. Without operations the matrix is the identity, area_scale
     * 1 and mirrors false. */
    double matrix[9], area_scale;
    bool mirrors;
};

/* True if mosaics move the field's pixels: the image that is mixed, and fields that follow its
 * geometry. */
bool psti_loader_behind_moves(const pst_loader *loader, uint32_t i_field);
/* Gives the size of the images that are mixed, all of which have it. The plan is made. */
void psti_loader_behind_size(const pst_loader *loader, uint32_t *height, uint32_t *width);
/* Compiles the operations of a mosaic for all pixels that it has, and sets loader->mix.behind.
 * The plan is made. */
enum pst_status psti_loader_behind_open(pst_loader *loader, const struct pst_mix *way,
                                        struct pst_error *err);
void psti_loader_behind_close(pst_loader *loader);
/* Refuses operations that change the size of pictures of height x width. */
enum pst_status psti_loader_behind_check(const pst_loader *loader, uint32_t height, uint32_t width,
                                         struct pst_error *err);

/* Returns the most scratch that the operations need, for pictures of the loader's plan. 0: there
 * are no operations. */
uint64_t psti_loader_behind_scratch(const pst_loader *loader);

/* The operations for a batch of pictures of height x width. `run` may have that scratch; NULL:
 * there are no operations. */
void psti_loader_behind_begin(struct psti_loader_behind *behind, const pst_loader *loader,
                              struct psti_run *run, uint32_t height, uint32_t width);
/* Draws for row `row` of the batch whose first row has that position in the epoch. */
enum pst_status psti_loader_behind_draw(struct psti_loader_behind *behind, uint64_t epoch,
                                        uint64_t position, uint32_t row, struct pst_error *err);
/* Returns the bytes of the line buffer that psti_loader_behind_pixels needs besides the picture. */
size_t psti_loader_behind_line_nbytes(const pst_loader *loader, uint32_t width);
/* Writes to `to` what the operations make of a field's finished picture, in the form of the
 * batch. */
enum pst_status psti_loader_behind_pixels(struct psti_loader_behind *behind, uint32_t i_field,
                                          const char *picture, char *line, char *to,
                                          struct pst_error *err);

#endif
