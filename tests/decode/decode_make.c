/* decode_make.c - makes images for the tests (decode_make.h). */
#include "decode_make.h"

#include <stdlib.h>

#include <jpeglib.h>
#include <png.h>

void bytes_free(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){NULL, 0};
}

uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint32_t random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(((next_random(state) >> 32) * n) >> 32);
}

uint8_t *make_picture(uint32_t height, uint32_t width, uint32_t channels, uint64_t seed)
{
    uint8_t *pixels = malloc((size_t)height * width * channels);
    assert_non_null(pixels);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < channels; c++) {
                uint32_t value = (x * (3 + c) + y * (5 - c)) & 255;
                if (((x / 7) ^ (y / 5)) & 1)
                    value = 255 - value;
                if (((x ^ (y * (c + 1))) & 3) == 0)
                    value = (uint32_t)next_random(&seed) & 255;
                pixels[((size_t)y * width + x) * channels + c] = (uint8_t)value;
            }
    return pixels;
}

/* Returns a triangle wave with a period of 128 pixels, which rises and falls by 2 levels per pixel.
 */
static uint32_t wave(uint32_t at)
{
    uint32_t phase = at % 128;
    return 4 * (phase < 64 ? phase : 127 - phase) / 2;
}

static uint8_t *make_smooth(uint32_t height, uint32_t width, uint32_t channels, uint64_t seed)
{
    uint8_t *pixels = malloc((size_t)height * width * channels);
    assert_non_null(pixels);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            uint32_t noise = random_below(&seed, 16);
            for (uint32_t c = 0; c < channels; c++)
                pixels[((size_t)y * width + x) * channels + c] =
                    (uint8_t)((wave(x + 10 * c) + wave(y + 20 * c)) * 15 / 16 + noise);
        }
    return pixels;
}

static void write_exif(struct jpeg_compress_struct *cinfo, const struct jpeg_spec *spec)
{
    uint8_t exif[] = {'E',  'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                      0x12, 1,   3,   0,   1, 0, 0,   0,   0,  0, 0, 0, 0, 0, 0, 0};
    const uint8_t big[] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 0};
    if (spec->big_endian_exif) {
        memcpy(exif + 6, big, sizeof big);
        exif[25] = spec->orientation;
    } else {
        exif[24] = spec->orientation;
    }
    jpeg_write_marker(cinfo, JPEG_APP0 + 1, exif, sizeof exif);
}

static void set_scans(struct jpeg_compress_struct *cinfo, jpeg_scan_info *scans)
{
    for (int i = 0; i < cinfo->num_components; i++)
        scans[i] = (jpeg_scan_info){1, {i, 0, 0, 0}, 0, 63, 0, 0};
    cinfo->scan_info = scans;
    cinfo->num_scans = cinfo->num_components;
}

struct bytes make_jpeg(const struct jpeg_spec *spec, uint64_t seed)
{
    static const uint8_t n_components[] = {1, 3, 3, 4, 4};
    static const J_COLOR_SPACE in[] = {JCS_GRAYSCALE, JCS_RGB, JCS_RGB, JCS_CMYK, JCS_CMYK};
    static const J_COLOR_SPACE kept[] = {JCS_GRAYSCALE, JCS_YCbCr, JCS_RGB, JCS_CMYK, JCS_YCCK};
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    jpeg_scan_info scans[4];
    unsigned char *data = NULL;
    unsigned long nbytes = 0;
    uint32_t channels = n_components[spec->colours];
    uint8_t *pixels =
        (spec->smooth ? make_smooth : make_picture)(spec->height, spec->width, channels, seed);
    memset(pixels, 128, (size_t)spec->n_calm_rows * spec->width * channels);
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_compress(&cinfo);
    jpeg_mem_dest(&cinfo, &data, &nbytes);
    cinfo.image_width = spec->width;
    cinfo.image_height = spec->height;
    cinfo.input_components = (int)channels;
    cinfo.in_color_space = in[spec->colours];
    jpeg_set_defaults(&cinfo);
    jpeg_set_colorspace(&cinfo, kept[spec->colours]);
    jpeg_set_quality(&cinfo, spec->quality, TRUE);
    cinfo.optimize_coding = spec->own_codes;
    for (int i = 0; i < cinfo.num_components; i++) {
        bool full = i == 0 || i == 3;
        cinfo.comp_info[i].h_samp_factor = full && spec->h ? spec->h : 1;
        cinfo.comp_info[i].v_samp_factor = full && spec->v ? spec->v : 1;
    }
    cinfo.restart_interval = spec->restart;
    cinfo.arith_code = spec->arithmetic;
    if (spec->progressive)
        jpeg_simple_progression(&cinfo);
    if (spec->many_scans)
        set_scans(&cinfo, scans);
    jpeg_start_compress(&cinfo, TRUE);
    if (spec->orientation)
        write_exif(&cinfo, spec);
    while (cinfo.next_scanline < cinfo.image_height) {
        JSAMPROW row = pixels + (size_t)cinfo.next_scanline * spec->width * channels;
        jpeg_write_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    free(pixels);
    return (struct bytes){data, nbytes};
}

static void no_warnings(j_common_ptr cinfo, int level)
{
    (void)cinfo;
    assert_true(level >= 0);
}

/* Converts a pixel from CMYK as PIL does (MULDIV255 and cmyk2rgb), on inverted samples. */
static void pil_cmyk(const uint8_t *in, uint8_t *out)
{
    int nk = 255 - (255 - in[3]);
    for (int c = 0; c < 3; c++) {
        int tmp = (255 - in[c]) * nk + 128;
        int v = nk - (((tmp >> 8) + tmp) >> 8);
        out[c] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
}

uint8_t *plain_jpeg(const struct bytes *file, uint32_t *height, uint32_t *width, uint32_t *channels)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    cinfo.err = jpeg_std_error(&errors);
    errors.emit_message = no_warnings;
    jpeg_create_decompress(&cinfo);
    jpeg_mem_src(&cinfo, file->data, file->nbytes);
    assert_int_equal(jpeg_read_header(&cinfo, TRUE), JPEG_HEADER_OK);
    bool cmyk = cinfo.num_components == 4;
    if (cmyk)
        cinfo.out_color_space = JCS_CMYK;
    jpeg_start_decompress(&cinfo);
    *height = cinfo.output_height;
    *width = cinfo.output_width;
    *channels = cmyk ? 3 : (uint32_t)cinfo.output_components;
    uint8_t *pixels = malloc((size_t)*height * *width * *channels);
    uint8_t *line = malloc((size_t)*width * 4);
    assert_true(pixels && line);
    for (uint32_t y = 0; y < *height; y++) {
        uint8_t *to = pixels + (size_t)y * *width * *channels;
        JSAMPROW row = cmyk ? line : to;
        jpeg_read_scanlines(&cinfo, &row, 1);
        for (uint32_t x = 0; cmyk && x < *width; x++)
            pil_cmyk(line + 4 * x, to + 3 * x);
    }
    jpeg_finish_decompress(&cinfo);
    jpeg_destroy_decompress(&cinfo);
    free(line);
    return pixels;
}

static void png_write(png_structp png, png_bytep from, size_t nbytes)
{
    struct bytes *out = png_get_io_ptr(png);
    out->data = realloc(out->data, out->nbytes + nbytes);
    assert_non_null(out->data);
    memcpy(out->data + out->nbytes, from, nbytes);
    out->nbytes += nbytes;
}

static void png_no_flush(png_structp png) { (void)png; }

static void set_trns(png_structp png, png_infop info, const struct png_spec *spec)
{
    png_byte alpha[256];
    png_color_16 colour = {.gray = 1, .red = 3, .green = 7, .blue = 9};
    for (uint32_t i = 0; i < spec->n_palette; i++)
        alpha[i] = (png_byte)(i * 37);
    if (spec->colour_type == PNG_COLOR_TYPE_PALETTE)
        png_set_tRNS(png, info, alpha, (int)(spec->n_palette + 1) / 2, NULL);
    else
        png_set_tRNS(png, info, NULL, 0, &colour);
}

/* Fills a row with random bits. Indices stay within the palette. Some pixels have the transparent
 * colour of set_trns. */
static void fill_row(const struct png_spec *spec, uint8_t *row, size_t row_nbytes, uint64_t *state)
{
    for (size_t i = 0; i < row_nbytes; i++)
        row[i] = (uint8_t)(i % 5 ? next_random(state) : i);
    if (spec->colour_type == PNG_COLOR_TYPE_PALETTE) {
        uint32_t per_byte = 8 / (uint32_t)spec->depth;
        for (size_t i = 0; i < row_nbytes; i++) {
            row[i] = 0;
            for (uint32_t k = 0; k < per_byte; k++)
                row[i] |=
                    (uint8_t)(random_below(state, spec->n_palette) << (k * (uint32_t)spec->depth));
        }
    }
    if (spec->trns && spec->colour_type == PNG_COLOR_TYPE_RGB) {
        static const uint8_t key8[] = {3, 7, 9}, key16[] = {0, 3, 0, 7, 0, 9};
        memcpy(row, spec->depth == 8 ? key8 : key16, spec->depth == 8 ? 3 : 6);
    }
    if (spec->trns && spec->colour_type == PNG_COLOR_TYPE_GRAY && spec->depth >= 8) {
        row[0] = spec->depth == 8;
        if (spec->depth == 16)
            row[1] = 1;
    }
}

struct bytes make_png(const struct png_spec *spec, uint64_t seed)
{
    struct bytes out = {NULL, 0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    assert_true(png && info);
    png_set_write_fn(png, &out, png_write, png_no_flush);
    png_set_IHDR(png, info, spec->width, spec->height, spec->depth, spec->colour_type,
                 spec->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_filter(png, 0, PNG_ALL_FILTERS);
    if (spec->colour_type == PNG_COLOR_TYPE_PALETTE) {
        png_color palette[256];
        for (uint32_t i = 0; i < spec->n_palette; i++)
            palette[i] = (png_color){(png_byte)(i * 3), (png_byte)(255 - i), (png_byte)(i * 7)};
        png_set_PLTE(png, info, palette, (int)spec->n_palette);
    }
    if (spec->trns)
        set_trns(png, info, spec);
    png_write_info(png, info);
    size_t row_nbytes = png_get_rowbytes(png, info);
    uint8_t *pixels = malloc(row_nbytes * spec->height);
    png_bytep *rows = malloc(spec->height * sizeof *rows);
    assert_true(pixels && rows);
    for (uint32_t y = 0; y < spec->height; y++) {
        rows[y] = pixels + y * row_nbytes;
        fill_row(spec, rows[y], row_nbytes, &seed);
    }
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(rows);
    free(pixels);
    return out;
}

struct png_source {
    const struct bytes *file;
    size_t at;
};

static void png_read(png_structp png, png_bytep to, size_t nbytes)
{
    struct png_source *source = png_get_io_ptr(png);
    assert_true(nbytes <= source->file->nbytes - source->at);
    memcpy(to, source->file->data + source->at, nbytes);
    source->at += nbytes;
}

uint8_t *plain_png(const struct bytes *file, uint32_t *channels, uint32_t *bits)
{
    struct png_source source = {file, 0};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    assert_true(png && info);
    png_set_read_fn(png, &source, png_read);
    png_read_info(png, info);
    png_set_expand(png);
    png_set_swap(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    *channels = png_get_channels(png, info);
    *bits = png_get_bit_depth(png, info);
    size_t row_nbytes = png_get_rowbytes(png, info);
    uint32_t height = png_get_image_height(png, info);
    uint8_t *pixels = malloc(row_nbytes * height);
    png_bytep *rows = malloc(height * sizeof *rows);
    assert_true(pixels && rows);
    for (uint32_t y = 0; y < height; y++)
        rows[y] = pixels + y * row_nbytes;
    png_read_image(png, rows);
    png_read_end(png, NULL);
    png_destroy_read_struct(&png, &info, NULL);
    free(rows);
    return pixels;
}

uint8_t *turned(const uint8_t *pixels, uint32_t height, uint32_t width, size_t pixel_nbytes,
                uint8_t orientation)
{
    uint8_t *out = malloc((size_t)height * width * pixel_nbytes);
    assert_non_null(out);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            uint32_t ty = y, tx = x; /* where the stored pixel is shown */
            switch (orientation) {
            case 2:
                tx = width - 1 - x;
                break;
            case 3:
                ty = height - 1 - y;
                tx = width - 1 - x;
                break;
            case 4:
                ty = height - 1 - y;
                break;
            case 5:
                ty = x;
                tx = y;
                break;
            case 6: /* rotated clockwise: the top row becomes the right column */
                ty = x;
                tx = height - 1 - y;
                break;
            case 7:
                ty = width - 1 - x;
                tx = height - 1 - y;
                break;
            case 8: /* rotated anticlockwise: the top row becomes the left column, upwards */
                ty = width - 1 - x;
                tx = y;
                break;
            default:
                break;
            }
            size_t shown_width = orientation >= 5 ? height : width;
            memcpy(out + (ty * shown_width + tx) * pixel_nbytes,
                   pixels + ((size_t)y * width + x) * pixel_nbytes, pixel_nbytes);
        }
    return out;
}

bool region_equals(struct psti_decoder *decoder, const struct bytes *file,
                   const struct pst_image_info *info, const struct pst_decode_options *options,
                   const struct psti_rect *region, const uint8_t *expected)
{
    const struct psti_rect whole = {0, 0, info->height, info->width};
    struct pst_error err;
    uint8_t channels, bits;
    region = region ? region : &whole;
    psti_decode_output(info, options, &channels, &bits);
    size_t pixel_nbytes = (size_t)channels * (bits / 8), used = region->width * pixel_nbytes;
    size_t row_nbytes = used + 2 * 3; /* a gap after each row, of an even size for u16 */
    uint8_t *pixels = malloc(row_nbytes * region->height);
    assert_non_null(pixels);
    memset(pixels, 0xA5, row_nbytes * region->height);
    assert_ok(psti_decode_region(decoder, file->data, file->nbytes, info, options, region, pixels,
                                 row_nbytes, &err));
    bool equal = true;
    for (uint32_t y = 0; y < region->height && equal; y++) {
        const uint8_t *row =
            expected + ((size_t)(region->y + y) * info->width + region->x) * pixel_nbytes;
        equal = memcmp(pixels + y * row_nbytes, row, used) == 0 &&
                pixels[y * row_nbytes + used] == 0xA5;
        if (!equal)
            print_error("%s %ux%u, region y %u x %u h %u w %u: row %u differs\n",
                        pst_form_name(info->form), info->width, info->height, region->y, region->x,
                        region->height, region->width, y);
    }
    free(pixels);
    return equal;
}

struct psti_rect random_region(uint64_t *state, uint32_t height, uint32_t width)
{
    struct psti_rect r;
    r.height = 1 + random_below(state, height);
    r.width = 1 + random_below(state, width);
    if (random_below(state, 4) == 0) /* some regions are small */
        r.height = 1 + r.height % 9;
    if (random_below(state, 4) == 0)
        r.width = 1 + r.width % 9;
    r.height = r.height > height ? height : r.height;
    r.width = r.width > width ? width : r.width;
    r.y = random_below(state, height - r.height + 1);
    r.x = random_below(state, width - r.width + 1);
    return r;
}
