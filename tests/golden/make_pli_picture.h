/* make_pli_picture.h - pictures of golden files, made from integers alone, or cut out of PNGs.
 */
#ifndef PST_GOLDEN_MAKE_PLI_PICTURE_H
#define PST_GOLDEN_MAKE_PLI_PICTURE_H

#include <stddef.h>
#include <stdint.h>

enum picture_kind { PHOTO, NOISE, FLAT, EXTREMES, LABELS, SCREEN, MIXED, DEPTH12, ALPHA, TILES };

struct picture {
    enum picture_kind kind;
    uint32_t height, width;
    uint8_t channels, bits;
    const char *file; /* a crop of DATA/file at (y, x) instead of `kind` */
    uint32_t y, x;
};

uint32_t picture_value(const struct picture *p, uint32_t y, uint32_t x, uint32_t c);
/* The crop of a PNG; its channels and bits have to be as the picture says. 0 if it is done. */
int picture_crop(const struct picture *p, const char *data, void *pixels);

/* The bytes of a file, malloc'd; NULL if there is none. */
void *picture_read_file(const char *path, size_t *nbytes);
/* Says what is wrong on stderr; returns -1. */
int picture_fail(const char *name, const char *what);

#endif
