/* peer_png.c - libpng with its own choice of filters, at levels of zlib.
 *
 * libpng's interface requires new structs for each image, so nothing is reused. libpng reports
 * errors by longjmp to the function that made the struct. */
#include "codec.h"
#include "peers.h"

#include <png.h>
#include <string.h>

static bool can(const struct image *image) { return image->bits == 8 || image->bits == 16; }

static void put(png_structp png, png_bytep from, png_size_t nbytes)
{
    bytes_put(png_get_io_ptr(png), from, nbytes);
}

static void flush(png_structp png) { (void)png; }

struct source {
    const uint8_t *at;
    size_t left;
};

static void take(png_structp png, png_bytep to, png_size_t nbytes)
{
    struct source *source = png_get_io_ptr(png);
    if (nbytes > source->left)
        png_error(png, "short");
    memcpy(to, source->at, nbytes);
    source->at += nbytes;
    source->left -= nbytes;
}

static void on_error(png_structp png, png_const_charp text)
{
    (void)text;
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text) { (void)png, (void)text; }

static bool encode(void *state, const struct codec *codec, const struct image *image,
                   struct bytes *out)
{
    static const int color_types[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                                      PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    (void)state;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info || setjmp(png_jmpbuf(png))) {
        png_destroy_write_struct(&png, &info);
        return false;
    }
    png_set_write_fn(png, out, put, flush);
    png_set_IHDR(png, info, image->width, image->height, image->bits, color_types[image->channels],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_compression_level(png, codec->setting);
    png_write_info(png, info);
    if (image->bits == 16)
        png_set_swap(png);
    for (uint32_t y = 0; y < image->height; y++)
        png_write_row(png, image->pixels + y * image->row_nbytes);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    return true;
}

static bool decode(void *state, const struct codec *codec, const struct bytes *in,
                   const struct image *image, uint8_t *pixels)
{
    struct source source = {in->at, in->nbytes};
    (void)state, (void)codec;
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info || setjmp(png_jmpbuf(png))) {
        png_destroy_read_struct(&png, &info, NULL);
        return false;
    }
    png_set_read_fn(png, &source, take);
    png_read_info(png, info);
    if (png_get_rowbytes(png, info) != image->row_nbytes ||
        png_get_image_height(png, info) != image->height)
        png_error(png, "another image");
    if (image->bits == 16)
        png_set_swap(png);
    png_start_read_image(png);
    for (uint32_t y = 0; y < image->height; y++)
        png_read_row(png, pixels + y * image->row_nbytes, NULL);
    png_read_end(png, NULL);
    png_destroy_read_struct(&png, &info, NULL);
    return true;
}

static const struct codec codecs[] = {
    {.name = "png6", .setting = 6, .can = can, .encode = encode, .decode = decode},
    {.name = "png9", .setting = 9, .can = can, .encode = encode, .decode = decode}};
const struct codec_family family_png = {"libpng", PNG_LIBPNG_VER_STRING, NULL, NULL, codecs, 2};
