/* cli_image.c - converts images for verbs that write them: decodes stored forms, and encodes PNG
 * (with libpng), PLI, PNM, or bare samples. */
#include "cli.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

const struct cli_image_form cli_image_forms[] = {
    {"png", CLI_AS_PNG}, {"pli", CLI_AS_PLI}, {"pli-jpeg", CLI_AS_PLI_JPEG},
    {"pnm", CLI_AS_PNM}, {"raw", CLI_AS_RAW}, {NULL, 0},
};

int cli_take_pli(const struct cli *cli, const struct cli_pli *pli,
                 struct pst_pli_encode_options *options)
{
    static const char *const tiers[] = {"fast", "small", "dense", NULL};
    *options = (struct pst_pli_encode_options){.struct_size = sizeof *options};
    for (int i = 0; pli->tier != NULL && tiers[i] != NULL; i++)
        if (strcmp(pli->tier, tiers[i]) == 0)
            options->tier = (enum pst_pli_tier)(i + 1);
    if (pli->tier != NULL && options->tier == PST_PLI_TIER_DEFAULT) {
        const char *near = cli_nearest(pli->tier, &tiers[0], sizeof tiers[0]);
        return cli_usage(cli, "--tier is \"%s\": fast, small or dense is expected%s%s%s", pli->tier,
                         near == NULL ? "" : "; did you mean ", near == NULL ? "" : near,
                         near == NULL ? "" : "?");
    }
    if (pli->effort > 5)
        return cli_usage(cli, "--effort is %llu: 1 to 5 is expected",
                         (unsigned long long)pli->effort);
    if (pli->max_error > 127)
        return cli_usage(cli, "--max-error is %llu: at most 127",
                         (unsigned long long)pli->max_error);
    options->effort = (uint32_t)pli->effort;
    options->max_error = (uint32_t)pli->max_error;
    return -1;
}

bool cli_gives_pli(const struct cli_pli *pli)
{
    return pli->tier != NULL || pli->effort != 0 || pli->max_error != 0;
}

enum pst_status cli_decode(const struct pst_item *item, const void *bytes, bool indices,
                           struct cli_image *image, struct pst_error *err)
{
    struct pst_decode_options options = {.struct_size = sizeof options,
                                         .palette_indices = indices,
                                         .orientation = item->orientation};
    struct pst_image_info info = {.form = PST_FORM_RAW,
                                  .height = item->height,
                                  .width = item->width,
                                  .channels = item->channels,
                                  .bits = item->bits};
    enum pst_status status = PST_OK;
    memset(image, 0, sizeof *image);
    if (item->form != PST_FORM_RAW)
        status = pst_image_probe(bytes, (size_t)item->nbytes, item->form, &options, &info,
                                 sizeof info, err);
    if (status != PST_OK)
        return status;
    struct pst_pixels *p = &image->pixels;
    p->height = info.height;
    p->width = info.width;
    p->channels = info.channels;
    p->bits = info.bits;
    p->channel_nbytes = info.bits / 8;
    p->pixel_nbytes = p->channel_nbytes * info.channels;
    p->row_nbytes = p->pixel_nbytes * info.width;
    image->nbytes = (size_t)p->row_nbytes * info.height;
    p->data = malloc(image->nbytes);
    if (p->data == NULL)
        return cli_error(err, PST_ERROR_MEMORY, "out of memory for %zu bytes of pixels",
                         image->nbytes);
    if (item->form != PST_FORM_RAW)
        return pst_image_decode(bytes, (size_t)item->nbytes, item->form, &options, p->data,
                                image->nbytes, (size_t)p->row_nbytes, err);
    if (item->nbytes != image->nbytes)
        return cli_error(err, PST_ERROR_CORRUPT, "%llu bytes are not %ux%u pixels",
                         (unsigned long long)item->nbytes, info.width, info.height);
    memcpy(p->data, bytes, image->nbytes);
    return PST_OK;
}

/* A file in memory that grows. */
struct file {
    unsigned char *bytes;
    size_t n, capacity;
    char problem[128];
};

static void png_append(png_structp png, png_bytep bytes, size_t n)
{
    struct file *file = png_get_io_ptr(png);
    if (n > file->capacity - file->n) {
        size_t capacity = 2 * file->capacity + n + 65536;
        unsigned char *grown = realloc(file->bytes, capacity);
        if (grown == NULL)
            png_error(png, "out of memory");
        file->bytes = grown;
        file->capacity = capacity;
    }
    memcpy(file->bytes + file->n, bytes, n);
    file->n += n;
}

static void png_no_flush(png_structp png) { (void)png; }

static void png_fails(png_structp png, png_const_charp text)
{
    struct file *file = png_get_error_ptr(png);
    snprintf(file->problem, sizeof file->problem, "%s", text);
    png_longjmp(png, 1);
}

static void png_warns(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void put_png(png_structp png, png_infop info, const struct pst_pixels *pixels)
{
    static const int colours[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                                  PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    png_set_IHDR(png, info, pixels->width, pixels->height, pixels->bits, colours[pixels->channels],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    if (pixels->bits == 16)
        png_set_swap(png); /* PNG is big-endian */
    for (uint32_t y = 0; y < pixels->height; y++)
        png_write_row(png, (png_const_bytep)pixels->data + (size_t)y * (size_t)pixels->row_nbytes);
    png_write_end(png, info);
}

/* A separate function, so that no local variable changes between setjmp and libpng's longjmp. */
static bool run_png(struct file *file, png_structp png, png_infop info,
                    const struct pst_pixels *pixels)
{
    if (setjmp(png_jmpbuf(png)) != 0)
        return false;
    png_set_write_fn(png, file, png_append, png_no_flush);
    put_png(png, info, pixels);
    return true;
}

static enum pst_status encode_png(const struct pst_pixels *pixels, void **bytes, size_t *nbytes,
                                  struct pst_error *err)
{
    struct file file = {.problem = "out of memory"};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &file, png_fails, png_warns);
    png_infop info = png == NULL ? NULL : png_create_info_struct(png);
    bool ok = info != NULL && run_png(&file, png, info, pixels);
    png_destroy_write_struct(&png, &info);
    if (!ok) {
        free(file.bytes);
        return cli_error(err, PST_ERROR_MEMORY, "no PNG could be made: %s", file.problem);
    }
    *bytes = file.bytes;
    *nbytes = file.n;
    return PST_OK;
}

static enum pst_status encode_pli(const struct pst_pixels *pixels,
                                  const struct pst_pli_encode_options *options, void **bytes,
                                  size_t *nbytes, struct pst_error *err)
{
    size_t bound =
        pst_pli_encode_bound(pixels->height, pixels->width, pixels->channels, pixels->bits);
    *bytes = malloc(bound);
    if (*bytes == NULL)
        return cli_error(err, PST_ERROR_MEMORY, "out of memory for %zu bytes", bound);
    return pst_pli_encode(pixels, options, *bytes, bound, nbytes, err);
}

static void make_pnm_head(const struct pst_pixels *p, char head[CLI_HEAD_CAP])
{
    unsigned top = p->bits == 16 ? 65535 : 255;
    if (p->channels == 1 || p->channels == 3)
        snprintf(head, CLI_HEAD_CAP, "P%c\n%u %u\n%u\n", p->channels == 1 ? '5' : '6', p->width,
                 p->height, top);
    else /* PNM as originally defined has no alpha */
        snprintf(head, CLI_HEAD_CAP,
                 "P7\nWIDTH %u\nHEIGHT %u\nDEPTH %u\nMAXVAL %u\nTUPLTYPE %s\nENDHDR\n", p->width,
                 p->height, p->channels, top, p->channels == 2 ? "GRAYSCALE_ALPHA" : "RGB_ALPHA");
}

static void swap_bytes(unsigned char *bytes, size_t nbytes)
{
    for (size_t i = 0; i + 1 < nbytes; i += 2) {
        unsigned char low = bytes[i];
        bytes[i] = bytes[i + 1];
        bytes[i + 1] = low;
    }
}

enum pst_status cli_encode(struct cli_image *image, enum cli_as as,
                           const struct pst_pli_encode_options *pli, char head[CLI_HEAD_CAP],
                           void **bytes, size_t *nbytes, struct pst_error *err)
{
    head[0] = '\0';
    *bytes = NULL;
    if (as == CLI_AS_PNG)
        return encode_png(&image->pixels, bytes, nbytes, err);
    if (as == CLI_AS_PLI)
        return encode_pli(&image->pixels, pli, bytes, nbytes, err);
    if (as == CLI_AS_PNM) {
        make_pnm_head(&image->pixels, head);
        if (image->pixels.bits == 16) /* PNM is big-endian */
            swap_bytes(image->pixels.data, image->nbytes);
    }
    *bytes = image->pixels.data;
    *nbytes = image->nbytes;
    image->pixels.data = NULL;
    return PST_OK;
}
