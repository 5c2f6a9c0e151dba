/* folder_pack.h - folders of small images for the tests of pst_pack and pst_verify. */
#ifndef FOLDER_PACK_H
#define FOLDER_PACK_H

#include "../dataset/folder_test.h"

#include <penstock/penstock.h>

/* Writes a PNG of width x height with 1 or 3 channels, whose pixels depend on `seed`. */
void make_png(void **state, const char *relative, uint32_t width, uint32_t height,
              uint32_t channels, uint32_t seed);
/* Makes n images in the classes "a", "b" and "c": f/a/00.png ... */
void make_folder(void **state, const char *relative, unsigned n);
/* Returns the value of pixel sample i of the image made with `seed`. */
uint8_t made_pixel(uint32_t i, uint32_t seed);

#endif
