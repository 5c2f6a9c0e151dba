/* folder_pack.c - implements folder_pack.h. */
#include "folder_pack.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

uint8_t made_pixel(uint32_t i, uint32_t seed) { return (uint8_t)((i * 37 + seed * 11) ^ (i >> 5)); }

void make_png(void **state, const char *relative, uint32_t width, uint32_t height,
              uint32_t channels, uint32_t seed)
{
    size_t n = (size_t)width * height * channels;
    uint8_t *pixels = malloc(n);
    for (size_t i = 0; i < n; i++)
        pixels[i] = made_pixel((uint32_t)i, seed);
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = width,
                       .height = height,
                       .format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB};
    const char *path = folder_text(state, relative, ""); /* makes the directories */
    assert_int_equal(png_image_write_to_file(&image, path, 0, pixels, 0, NULL), 1);
    free(pixels);
}

void make_folder(void **state, const char *relative, unsigned n)
{
    char path[256];
    for (unsigned i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%c/%02u.png", relative, (int)('a' + i % 3), i);
        make_png(state, path, 16 + i, 12 + i % 5, i % 2 == 0 ? 3 : 1, i);
    }
}
