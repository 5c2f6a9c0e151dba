/* pli_coefs_make.c - implements pli_coefs_make.h. Ends the program if something fails. */
#include "pli/coefs/pli_coefs_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

static const uint8_t factors[COEFS_N_SAMPLINGS][3] = {
    /* sampling factors of each component as 16 h + v */
    {0x11, 0, 0},       {0x11, 0x11, 0x11}, {0x22, 0x11, 0x11}, {0x21, 0x11, 0x11},
    {0x12, 0x11, 0x11}, {0x41, 0x11, 0x11}, {0x44, 0x11, 0x22}, {0x11, 0x22, 0x41},
    {0x24, 0x12, 0x21}, {0x22, 0x22, 0x22},
};

uint32_t coefs_draw(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33);
}

static void need(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "pli_coefs_make: %s\n", what);
    exit(2);
}

static void begin(struct coefs_image *image)
{
    need(psti_pli_jpeg_frame_measure(&image->frame), "sampling factors");
    for (uint32_t c = 0; c < image->frame.n_components; c++) {
        image->coefs[c] = calloc(psti_pli_jpeg_n_coefs(&image->frame, c), sizeof(int16_t));
        need(image->coefs[c] != NULL, "no memory");
    }
}

static int16_t any_sign(uint32_t m, uint64_t *random)
{
    return (int16_t)(coefs_draw(random) & 1 ? -(int32_t)m : (int32_t)m);
}

/* Returns a value with a random number of bits, up to `bits`, and a random sign. */
static int16_t any_value(uint32_t bits, uint64_t *random)
{
    uint32_t m = coefs_draw(random) & ((1u << (coefs_draw(random) % (bits + 1))) - 1);
    return any_sign(m, random);
}

static void fill(int16_t *block, enum coefs_kind kind, uint64_t *random)
{
    uint32_t end = coefs_draw(random) % 64;
    if (kind == COEFS_SPARSE && coefs_draw(random) % 4 != 0)
        return;
    if (kind != COEFS_ZERO && kind != COEFS_ONE)
        block[0] = any_value(11, random);
    if (kind == COEFS_EXTREME)
        block[0] = coefs_draw(random) & 1 ? 2047 : -2048;
    for (uint32_t k = 1; k < 64; k++) {
        if (kind == COEFS_SPARSE && coefs_draw(random) % 16 == 0)
            block[k] = any_value(4, random);
        if (kind == COEFS_PHOTO && k <= end)
            block[k] = any_value(k < 6 ? 8 : k < 20 ? 4 : 1, random);
        if (kind == COEFS_DENSE)
            block[k] = any_value(6, random);
        if (kind == COEFS_EXTREME)
            block[k] = any_sign(PSTI_JPEG_AC_MAX - coefs_draw(random) % 3, random);
    }
}

void coefs_make(struct coefs_image *image, uint32_t width, uint32_t height, uint32_t sampling,
                enum coefs_kind kind, uint64_t *random)
{
    memset(image, 0, sizeof *image);
    struct psti_jpeg_frame *f = &image->frame;
    f->width = width;
    f->height = height;
    f->n_components = sampling == 0 ? 1 : 3;
    f->transform = f->n_components == 3 && coefs_draw(random) % 4 != 0;
    f->orientation = 1;
    for (uint32_t c = 0; c < f->n_components; c++) {
        f->components[c].h = factors[sampling][c] >> 4;
        f->components[c].v = factors[sampling][c] & 15;
        f->components[c].quant = c > 0;
    }
    for (uint32_t k = 0; k < 64; k++)
        f->quants[0][k] = f->quants[f->n_components > 1][k] = (uint16_t)(1 + k);
    begin(image);
    for (uint32_t c = 0; c < f->n_components; c++)
        for (size_t i = 0; i < psti_pli_jpeg_n_coefs(f, c); i += 64)
            fill(image->coefs[c] + i, kind, random);
    if (kind == COEFS_ONE) {
        uint32_t c = coefs_draw(random) % f->n_components;
        size_t at = coefs_draw(random) % psti_pli_jpeg_n_coefs(f, c);
        image->coefs[c][at] = any_sign(1 + coefs_draw(random) % 2047, random);
    }
}

/* -- Coefficients of JPEGs that libjpeg compresses -- */

static unsigned char *compress(const struct coefs_image *image, int quality, bool progressive,
                               uint64_t *random, unsigned long *nbytes)
{
    const struct psti_jpeg_frame *f = &image->frame;
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    JSAMPROW row = malloc(3 * (size_t)f->width);
    need(row != NULL, "no memory");
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &bytes, nbytes);
    c.image_width = f->width;
    c.image_height = f->height;
    c.input_components = f->n_components;
    c.in_color_space = f->n_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, quality, TRUE);
    c.comp_info[0].h_samp_factor = f->components[0].h;
    c.comp_info[0].v_samp_factor = f->components[0].v;
    if (progressive)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    for (uint32_t y = 0; y < f->height; y++) {
        for (uint32_t i = 0; i < f->width * f->n_components; i++)
            row[i] = (JSAMPLE)(i / f->n_components / 3 + y / 2 * (i % f->n_components + 1) +
                               coefs_draw(random) % (y % 64 + 1));
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    return bytes;
}

static void read_coefs(struct coefs_image *image, const unsigned char *bytes, unsigned long nbytes)
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    d.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, bytes, nbytes);
    jpeg_read_header(&d, TRUE);
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(&d);
    for (uint32_t i = 0; i < image->frame.n_components; i++) {
        const struct psti_jpeg_component *c = &image->frame.components[i];
        for (uint32_t y = 0; y < c->rows; y++) {
            JBLOCKARRAY blocks =
                d.mem->access_virt_barray((j_common_ptr)&d, arrays[i], y, 1, FALSE);
            for (uint32_t x = 0; x < c->columns; x++)
                for (uint32_t k = 0; k < 64; k++)
                    image->coefs[i][64 * ((size_t)y * c->columns + x) + k] =
                        blocks[0][x][psti_jpeg_zigzag[k]];
        }
    }
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
}

void coefs_make_jpeg(struct coefs_image *image, uint32_t width, uint32_t height,
                     uint32_t n_components, uint32_t h, uint32_t v, int quality, bool progressive,
                     uint64_t *random)
{
    unsigned long nbytes = 0;
    memset(image, 0, sizeof *image);
    struct psti_jpeg_frame *f = &image->frame;
    f->width = width;
    f->height = height;
    f->n_components = (uint8_t)n_components;
    f->transform = n_components == 3;
    f->orientation = 1;
    for (uint32_t c = 0; c < n_components; c++)
        f->components[c] = (struct psti_jpeg_component){.h = (uint8_t)(c == 0 ? h : 1),
                                                        .v = (uint8_t)(c == 0 ? v : 1)};
    for (uint32_t k = 0; k < 64; k++)
        f->quants[0][k] = 1;
    begin(image);
    unsigned char *bytes = compress(image, quality, progressive, random, &nbytes);
    read_coefs(image, bytes, nbytes);
    free(bytes);
}

void coefs_free(struct coefs_image *image)
{
    for (uint32_t c = 0; c < PSTI_JPEG_COMPONENTS_MAX; c++)
        free(image->coefs[c]);
}
