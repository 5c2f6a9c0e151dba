/* loader_shelf.h - the shelf: what loaders that visit the same samples in the same order read and
 * decode for each other.
 *
 * Loaders are its members. An item of the shelf is one stored item of one position of an epoch: its
 * bytes, and pictures, which are pixels that were decoded from them. Whoever comes first reads and
 * decodes for all that will come there; the last one takes the item down. Memory is bounded: if it
 * is full, the oldest item goes, and who still needed it reads and decodes by itself. Nobody waits
 * for a member's caller: a worker waits at most for a read, or for one image that another worker
 * decodes, outside of its gate. Any thread may call any function. */
#ifndef PST_LOADER_LOADER_SHELF_H
#define PST_LOADER_LOADER_SHELF_H

#include "loader/loader.h"
#include "loader/loader_source.h"
#include "loader/loader_worker.h"

/* Pixels of a part of an image, packed. */
struct psti_shelf_picture {
    /* Pixels of one kind are the same for all members. */
    struct pst_decode_options options;
    uint32_t orientation, scale_log2;
    struct psti_rect rect; /* of the picture as shown, at its scale */
    size_t pixel_nbytes, row_nbytes;
    enum { PSTI_PICTURE_NONE, PSTI_PICTURE_MAKING, PSTI_PICTURE_THERE } state;
    void *pixels;
    size_t capacity;
};

enum psti_shelf_answer {
    PSTI_SHELF_ALONE, /* the worker decodes for itself */
    PSTI_SHELF_MAKE,  /* it decodes picture->rect into picture->pixels, and then calls _made */
    PSTI_SHELF_TAKE   /* the pixels are there until the row is released */
};
/* Asks for the pixels of an image that was probed and drawn. */
enum psti_shelf_answer psti_loader_shelf_picture(struct psti_loader_worker *worker,
                                                 const struct psti_image *image,
                                                 const struct psti_draw_key *key,
                                                 struct psti_shelf_picture **picture);
void psti_loader_shelf_made(pst_loader *loader, struct psti_shelf_picture *picture, bool good);
/* An image was decoded without the shelf. */
void psti_loader_shelf_decoded(pst_loader *loader);

#endif
