/* make_pli_jpeg.c - writes the golden files of JPEGs kept as PLI and their manifest, with the
 * library's public functions.
 *
 *     make_pli_jpeg FOLDER [DATA]
 *
 * The list below says of which pictures libjpeg makes JPEGs, and with which settings. With DATA
 * (folders of photographs) crops are cut again; without it the crops in FOLDER stay as they are.
 * A manifest line: file, SHA-256 of the pixels (H,W,C), SHA-256 of the JPEG file. Golden files
 * are replaced only when the format changes. */
#include "golden/golden_sha256.h"
#include "golden/make_pli_jpeg_crafted.h"
#include "golden/make_pli_picture.h"

#include <penstock/pli.h>

#include <stdbool.h>
#include <stdlib.h>

#include <jpeglib.h>

enum { MAX_FILE = 40 << 10, PATH_NBYTES = 4096 };

enum color { GRAY = 1, YCC, RGB };
/* one scan; one for each component; libjpeg's progression */
enum scans { ONE, APART, PROGRESSIVE };

struct golden {
    const char *name;
    enum picture_kind kind;
    uint32_t height, width;
    enum color color;
    uint8_t factors[3]; /* sampling factors of each component, 16 h + v */
    int quality;
    uint32_t unit_edge; /* 0: chosen */
    enum scans scans;
    unsigned restart; /* restart interval in MCUs */
    bool optimize;    /* Huffman tables are optimised for the picture */
    bool odd;         /* has a comment, EXIF with an orientation, bytes past the end */
    bool no_checksum;
    const char *file; /* a crop of DATA/file; replaces `kind` */
    bool jpeg;        /* the JPEG is read from FOLDER/name.jpg */
};

#define F444                                                                                       \
    {                                                                                              \
        0x11, 0x11, 0x11                                                                           \
    }
#define F422                                                                                       \
    {                                                                                              \
        0x21, 0x11, 0x11                                                                           \
    }
#define F420                                                                                       \
    {                                                                                              \
        0x22, 0x11, 0x11                                                                           \
    }
#define F440                                                                                       \
    {                                                                                              \
        0x12, 0x11, 0x11                                                                           \
    }
#define F411                                                                                       \
    {                                                                                              \
        0x41, 0x11, 0x11                                                                           \
    }
#define F410                                                                                       \
    {                                                                                              \
        0x42, 0x11, 0x11                                                                           \
    }
#define F441                                                                                       \
    {                                                                                              \
        0x14, 0x11, 0x11                                                                           \
    }
#define WRITTEN(scans, restart, optimize) scans, restart, optimize, false, false, NULL, false
#define CROP(file) ONE, 0, false, false, false, file, false
#define PLAIN CROP(NULL)

/* clang-format off */
static const struct golden goldens[] = {
    /* Colour spaces and sub-samplings, at sizes with partial blocks and units. */
    {"jpeg-gray", PHOTO, 75, 91, GRAY, {0x11}, 85, 0, PLAIN},
    {"jpeg-gray-factors", PHOTO, 41, 39, GRAY, {0x22}, 85, 0, PLAIN},
    {"jpeg-rgb", PHOTO, 45, 70, RGB, F444, 85, 64, PLAIN},
    {"jpeg-444", PHOTO, 75, 70, YCC, F444, 90, 64, PLAIN},
    {"jpeg-422", PHOTO, 67, 83, YCC, F422, 85, 64, PLAIN},
    {"jpeg-420", PHOTO, 83, 99, YCC, F420, 80, 64, PLAIN},
    {"jpeg-440", PHOTO, 83, 67, YCC, F440, 85, 64, PLAIN},
    {"jpeg-411", PHOTO, 41, 133, YCC, F411, 85, 64, PLAIN},
    {"jpeg-410", PHOTO, 61, 101, YCC, F410, 85, 64, PLAIN},
    {"jpeg-441", PHOTO, 133, 41, YCC, F441, 85, 64, PLAIN},
    {"jpeg-mixed-factors", PHOTO, 70, 75, YCC, {0x22, 0x21, 0x12}, 85, 64, PLAIN},
    {"jpeg-small-luma", PHOTO, 70, 75, YCC, {0x11, 0x22, 0x12}, 85, 64, PLAIN},
    {"jpeg-rgb-factors", PHOTO, 70, 75, RGB, {0x11, 0x21, 0x11}, 85, 64, PLAIN},
    /* Sizes. */
    {"jpeg-pixel-420", PHOTO, 1, 1, YCC, F420, 90, 0, PLAIN},
    {"jpeg-pixel-gray", PHOTO, 1, 1, GRAY, {0x11}, 90, 0, PLAIN},
    {"jpeg-narrow-420", PHOTO, 9, 4, YCC, F420, 90, 0, PLAIN},
    {"jpeg-narrow-422", PHOTO, 9, 3, YCC, F422, 90, 0, PLAIN},
    {"jpeg-five-420", PHOTO, 5, 5, YCC, F420, 90, 0, PLAIN},
    {"jpeg-row-420", PHOTO, 1, 300, YCC, F420, 85, 64, PLAIN},
    {"jpeg-column-420", PHOTO, 300, 1, YCC, F420, 85, 64, PLAIN},
    {"jpeg-edge-420", PHOTO, 64, 128, YCC, F420, 85, 64, PLAIN},
    {"jpeg-edge-beyond-420", PHOTO, 65, 129, YCC, F420, 85, 64, PLAIN},
    /* All unit sizes, chosen by the encoder, and pictures for which own tables pay. */
    {"jpeg-unit64", PHOTO, 140, 150, YCC, F420, 75, 64, PLAIN},
    {"jpeg-unit128", PHOTO, 140, 150, YCC, F420, 75, 128, PLAIN},
    {"jpeg-unit256", PHOTO, 270, 280, YCC, F420, 75, 256, PLAIN},
    {"jpeg-unit256-444", PHOTO, 200, 264, YCC, F444, 60, 256, PLAIN},
    {"jpeg-unit-chosen", PHOTO, 150, 170, YCC, F420, 75, 0, PLAIN},
    {"jpeg-photograph", PHOTO, 150, 160, YCC, F420, 90, 0, CROP("kodak/01.png")},
    {"jpeg-photograph-444", PHOTO, 120, 130, YCC, F444, 95, 0, CROP("kodak/03.png")},
    {"jpeg-photograph-many", PHOTO, 270, 300, YCC, F420, 85, 64, CROP("kodak/05.png")},
    /* Qualities and contents: short blocks, long blocks, large quantisation values, empty
     * blocks. */
    {"jpeg-quality1", PHOTO, 90, 100, YCC, F420, 1, 64, PLAIN},
    {"jpeg-quality20", PHOTO, 90, 100, YCC, F444, 20, 64, PLAIN},
    {"jpeg-quality100", PHOTO, 50, 60, YCC, F444, 100, 64, PLAIN},
    {"jpeg-noise100", NOISE, 33, 41, YCC, F444, 100, 64, PLAIN},
    {"jpeg-noise-gray1", NOISE, 40, 50, GRAY, {0x11}, 1, 64, PLAIN},
    {"jpeg-extremes100", EXTREMES, 48, 50, YCC, F420, 100, 64, PLAIN},
    {"jpeg-extremes75", EXTREMES, 70, 50, YCC, F422, 75, 64, PLAIN},
    {"jpeg-flat", FLAT, 100, 120, YCC, F420, 90, 64, PLAIN},
    {"jpeg-screen", SCREEN, 96, 120, YCC, F444, 90, 64, PLAIN},
    /* Ways to write the file. TILES: end-of-block runs that end early because of their correction
     * bits. */
    {"jpeg-optimized", PHOTO, 67, 70, YCC, F420, 85, 64, WRITTEN(ONE, 0, true)},
    {"jpeg-restart", PHOTO, 67, 100, YCC, F420, 85, 64, WRITTEN(ONE, 3, false)},
    {"jpeg-apart", PHOTO, 67, 70, YCC, F420, 85, 64, WRITTEN(APART, 0, false)},
    {"jpeg-apart-restart", PHOTO, 67, 70, YCC, F422, 85, 64, WRITTEN(APART, 5, true)},
    {"jpeg-progressive", PHOTO, 83, 99, YCC, F420, 85, 64, WRITTEN(PROGRESSIVE, 0, false)},
    {"jpeg-progressive-444", PHOTO, 70, 50, YCC, F444, 92, 64, WRITTEN(PROGRESSIVE, 0, false)},
    {"jpeg-progressive-gray", PHOTO, 70, 70, GRAY, {0x11}, 85, 0, WRITTEN(PROGRESSIVE, 4, false)},
    {"jpeg-progressive-flat", FLAT, 200, 210, YCC, F420, 85, 0, WRITTEN(PROGRESSIVE, 0, false)},
    {"jpeg-progressive-tiles", TILES, 160, 160, GRAY, {0x11}, 100, 0,
     WRITTEN(PROGRESSIVE, 0, false)},
    {"jpeg-odd", PHOTO, 50, 60, YCC, F420, 85, 0, ONE, 0, false, true, false, NULL, false},
    {"jpeg-no-checksum", PHOTO, 66, 66, YCC, F420, 85, 64, ONE, 0, false, false, true, NULL, false},
    /* JPEG files in FOLDER that make_jpeg_events.py wrote. */
    {.name = "events-restart", .jpeg = true},
    {.name = "events-quality20", .jpeg = true},
    {.name = "events-progressive", .jpeg = true},
    {.name = "events-progressive-gray", .jpeg = true},
    {.name = "events-progressive-tiles", .jpeg = true},
};
/* clang-format on */

/* Little-endian TIFF with orientation 6, as cameras write it. */
static const uint8_t exif[] = {'E',  'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                               0x12, 1,   3,   0,   1, 0, 0,   0,   6,  0, 0, 0, 0, 0, 0, 0};

static void set_scans(struct jpeg_compress_struct *jpeg, const struct golden *g,
                      jpeg_scan_info scans[3])
{
    if (g->scans == PROGRESSIVE)
        jpeg_simple_progression(jpeg);
    if (g->scans != APART)
        return;
    for (int c = 0; c < jpeg->num_components; c++)
        scans[c] = (jpeg_scan_info){.comps_in_scan = 1, .component_index = {c}, .Se = 63};
    jpeg->scan_info = scans;
    jpeg->num_scans = jpeg->num_components;
}

/* Returns the JPEG file of `pixels`, malloc'd. */
static uint8_t *make_jpeg(const struct golden *g, uint8_t *pixels, size_t *nbytes)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jpeg_scan_info scans[3] = {0};
    unsigned char *out = NULL;
    unsigned long n = 0;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &out, &n);
    jpeg.image_height = g->height;
    jpeg.image_width = g->width;
    jpeg.input_components = g->color == GRAY ? 1 : 3;
    jpeg.in_color_space = g->color == GRAY ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    if (g->color == RGB)
        jpeg_set_colorspace(&jpeg, JCS_RGB);
    jpeg_set_quality(&jpeg, g->quality, FALSE);
    for (int c = 0; c < jpeg.num_components; c++) {
        jpeg.comp_info[c].h_samp_factor = g->factors[c] >> 4;
        jpeg.comp_info[c].v_samp_factor = g->factors[c] & 15;
    }
    jpeg.restart_interval = g->restart;
    jpeg.optimize_coding = g->optimize;
    set_scans(&jpeg, g, scans);
    jpeg_start_compress(&jpeg, TRUE);
    if (g->odd) {
        jpeg_write_marker(&jpeg, JPEG_APP0 + 1, exif, sizeof exif);
        jpeg_write_marker(&jpeg, JPEG_COM, (const JOCTET *)"golden", 6);
    }
    while (jpeg.next_scanline < jpeg.image_height) {
        JSAMPROW row =
            pixels + (size_t)jpeg.next_scanline * g->width * (size_t)jpeg.input_components;
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    *nbytes = n;
    if (g->odd) {
        static const uint8_t behind[] = {0, 1, 2, 0xFF, 0xD9, 'x'};
        out = realloc(out, n + sizeof behind);
        memcpy(out + n, behind, sizeof behind);
        *nbytes += sizeof behind;
    }
    return out;
}

/* Computes the SHA-256 of the pixels that a PLI decodes to, and of the JPEG file that it
 * restores. */
static int look(const char *name, const uint8_t *pli, size_t nbytes, char *pixels_sum,
                char *jpeg_sum)
{
    struct pst_pli_info info = {0};
    int result = -1;
    if (pst_pli_info(pli, nbytes, &info, sizeof info, NULL) != PST_OK)
        return picture_fail(name, "is no PLI");
    size_t row = (size_t)info.width * info.channels, n = 0;
    size_t scratch_nbytes = (pst_pli_scratch_nbytes(&info, sizeof info) + 63) / 64 * 64;
    uint8_t *pixels = calloc(row, info.height), *jpeg = malloc(info.jpeg_nbytes + 1u);
    void *scratch = aligned_alloc(64, scratch_nbytes);
    struct pst_pixels out = {.data = pixels,
                             .height = info.height,
                             .width = info.width,
                             .channels = info.channels,
                             .bits = 8,
                             .row_nbytes = (int64_t)row,
                             .pixel_nbytes = info.channels,
                             .channel_nbytes = 1};
    if (pst_pli_decode(pli, nbytes, NULL, -1, &out, scratch, scratch_nbytes, NULL) == PST_OK &&
        pst_pli_to_jpeg(pli, nbytes, jpeg, info.jpeg_nbytes, &n, NULL) == PST_OK)
        result = 0;
    sha256_text(pixels, row * info.height, pixels_sum);
    sha256_text(jpeg, n, jpeg_sum);
    free(pixels);
    free(jpeg);
    free(scratch);
    return result ? picture_fail(name, "does not come back") : 0;
}

static uint8_t *make_pixels(const struct golden *g, const char *data)
{
    struct picture p = {.kind = g->kind,
                        .height = g->height,
                        .width = g->width,
                        .channels = g->color == GRAY ? 1 : 3,
                        .bits = 8,
                        .file = g->file,
                        .y = 100,
                        .x = 200};
    uint8_t *pixels = malloc((size_t)g->height * g->width * p.channels), *at = pixels;
    for (uint32_t y = 0; !g->file && y < g->height; y++)
        for (uint32_t x = 0; x < g->width; x++)
            for (uint32_t c = 0; c < p.channels; c++)
                *at++ = (uint8_t)picture_value(&p, y, x, c);
    if (g->file && picture_crop(&p, data, pixels) != 0) {
        free(pixels);
        return NULL;
    }
    return pixels;
}

/* Returns the JPEG file that a golden file is made from, malloc'd. */
static uint8_t *find_jpeg(const struct golden *g, const char *folder, const char *data,
                          size_t *nbytes)
{
    char path[PATH_NBYTES];
    snprintf(path, sizeof path, "%s/%s.jpg", folder, g->name);
    if (g->jpeg)
        return picture_read_file(path, nbytes);
    uint8_t *pixels = make_pixels(g, data);
    uint8_t *jpeg = pixels ? make_jpeg(g, pixels, nbytes) : NULL;
    free(pixels);
    return jpeg;
}

static uint8_t *make_pli(const struct golden *g, const char *folder, const char *data,
                         size_t *nbytes)
{
    struct pst_pli_from_jpeg_options options = {
        .struct_size = sizeof options, .unit_edge = g->unit_edge, .no_checksum = g->no_checksum};
    struct pst_error err = {0};
    size_t jpeg_nbytes = 0;
    uint8_t *jpeg = find_jpeg(g, folder, data, &jpeg_nbytes), *pli = NULL;
    if (!jpeg)
        return NULL;
    size_t bound = pst_pli_from_jpeg_bound(jpeg_nbytes);
    pli = malloc(bound);
    if (pst_pli_from_jpeg(jpeg, jpeg_nbytes, &options, pli, bound, nbytes, &err) != PST_OK) {
        picture_fail(g->name, err.text);
        free(pli);
        pli = NULL;
    }
    free(jpeg);
    return pli;
}

static int make(const struct golden *g, const char *folder, const char *data, FILE *manifest)
{
    char path[PATH_NBYTES], pixels_sum[SHA256_TEXT_NBYTES], jpeg_sum[SHA256_TEXT_NBYTES];
    size_t nbytes = 0;
    int result = -1;
    snprintf(path, sizeof path, "%s/%s.pli", folder, g->name);
    bool stays = g->file && !data; /* the crop in FOLDER is kept, as there is no DATA */
    uint8_t *pli = stays ? picture_read_file(path, &nbytes) : make_pli(g, folder, data, &nbytes);
    if (pli && nbytes <= MAX_FILE)
        result = look(g->name, pli, nbytes, pixels_sum, jpeg_sum);
    if (result == 0 && !stays) {
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(pli, 1, nbytes, file) != nbytes || fclose(file) != 0)
            result = -1;
    }
    if (result == 0)
        fprintf(manifest, "%s.pli %s %s\n", g->name, pixels_sum, jpeg_sum);
    free(pli);
    return result ? picture_fail(path, "is not made") : 0;
}

int main(int argc, char **argv)
{
    char path[PATH_NBYTES];
    int result = 0;
    if (argc < 2)
        return picture_fail("usage", "make_pli_jpeg FOLDER [DATA]");
    snprintf(path, sizeof path, "%s/MANIFEST", argv[1]);
    FILE *manifest = fopen(path, "w");
    if (!manifest)
        return 1;
    fprintf(manifest, "# file, SHA-256 of its pixels as (height, width, channels), SHA-256 of the "
                      "JPEG file that it gives back\n");
    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; i++)
        result |= make(&goldens[i], argv[1], argc > 2 ? argv[2] : NULL, manifest);
    result |= make_pli_jpeg_crafted(argv[1], manifest);
    return fclose(manifest) != 0 || result != 0;
}
