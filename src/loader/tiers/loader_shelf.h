/* loader_shelf.h - the shelf: items that loaders which visit the same samples in the same order
 * read and decode for each other.
 *
 * These loaders are the shelf's members. An item of the shelf is one stored item at one position of
 * an epoch: its bytes, and pictures, which are pixels decoded from them. The first member that
 * needs an item reads and decodes it for all; the last one removes it. Memory is bounded: if it is
 * full, the oldest item is dropped, and members that still needed it read and decode it themselves.
 * A slow caller of one loader never delays the others: a worker waits at most for a read, or for
 * one image that another worker decodes. Meanwhile it does not count in the limit of its loader's
 * busy workers (psti_gate). Any thread may call any function. */
#ifndef PST_LOADER_LOADER_SHELF_H
#define PST_LOADER_LOADER_SHELF_H

#include "loader/loader.h"
#include "loader/loader_source.h"
#include "loader/loader_worker.h"

/* Decoded pixels of a rectangle of an image, packed. */
struct psti_shelf_picture {
    /* Pixels with equal values of these members are equal for all members of the shelf. */
    struct pst_decode_options options;
    uint32_t orientation, scale_log2;
    struct psti_rect rect; /* rectangle of the picture as shown, at its scale */
    size_t pixel_nbytes, row_nbytes;
    enum { PSTI_PICTURE_NONE, PSTI_PICTURE_MAKING, PSTI_PICTURE_THERE } state;
    void *pixels;
    size_t capacity;
};

enum psti_shelf_answer {
    PSTI_SHELF_ALONE, /* the worker decodes the image for itself only */
    PSTI_SHELF_MAKE,  /* the worker decodes picture->rect to picture->pixels, then calls
                         psti_loader_shelf_made */
    PSTI_SHELF_TAKE   /* the pixels are there, and stay until the row is released */
};
/* Asks the shelf for the pixels of an image whose header was read and whose random parameters are
 * drawn. */
enum psti_shelf_answer psti_loader_shelf_picture(struct psti_loader_worker *worker,
                                                 const struct psti_image *image,
                                                 const struct psti_draw_key *key,
                                                 struct psti_shelf_picture **picture);
void psti_loader_shelf_made(pst_loader *loader, struct psti_shelf_picture *picture, bool good);
/* Counts an image that was decoded without the shelf. */
void psti_loader_shelf_decoded(pst_loader *loader);

#endif
