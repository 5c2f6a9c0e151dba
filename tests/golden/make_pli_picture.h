/* make_pli_picture.h - makes the pictures of golden files from integers alone, or cuts them out of
 * PNGs. */
#ifndef PST_GOLDEN_MAKE_PLI_PICTURE_H
#define PST_GOLDEN_MAKE_PLI_PICTURE_H

#include <stddef.h>
#include <stdint.h>

enum picture_kind { PHOTO, NOISE, FLAT, EXTREMES, LABELS, SCREEN, MIXED, DEPTH12, ALPHA, TILES };

struct picture {
    enum picture_kind kind;
    uint32_t height, width;
    uint8_t channels, bits;
    const char *file; /* a crop of DATA/file at (y, x); replaces `kind` */
    uint32_t y, x;
};

uint32_t picture_value(const struct picture *p, uint32_t y, uint32_t x, uint32_t c);
/* Reads a crop of a PNG, whose channels and bits must be those of the picture. Returns 0 on
 * success. */
int picture_crop(const struct picture *p, const char *data, void *pixels);

/* Reads a whole file into malloc's memory. Returns NULL if there is no such file. */
void *picture_read_file(const char *path, size_t *nbytes);
/* Prints what is wrong to stderr. Returns -1. */
int picture_fail(const char *name, const char *what);

#endif
