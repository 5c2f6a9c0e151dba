/* make_pli_crafted.c - writes golden PLI files of wave units that no encoder would write: every
 * number in every list of filters, the largest residuals and taps, constant planes before planes
 * with taps, built-in tables, sizes of 4 bytes. The manifest has the pixels that plain C decodes.
 * The slow decoder, written from the document alone, verifies them. */
#include "golden/make_pli_crafted.h"

#include "golden/golden_sha256.h"

#include <penstock/pli.h>

#include "base/hash.h"
#include "pli/decode/pli_decode_int.h"
#include "pli/wave/pli_wave_make.h"

#include <stdlib.h>

enum { SCRATCH_NBYTES = 3 << 20, MAX_UNITS = 4, MAX_HEAD = 256, PATH_NBYTES = 4096 };

struct crafted {
    const char *name;
    uint16_t height, width;
    uint8_t channels, bits, transform;
    uint8_t predictors[4]; /* predictors of the planes in every unit */
    int8_t a, b;
    uint32_t spread, zeros;
    bool extremes;
};

static const struct crafted crafted[] = {
    {"crafted-filters8", 128, 128, 3, 8, 1, {8, 8, 8}, 0, 0, 10, 225, false},
    {"crafted-filters16", 128, 128, 3, 16, 1, {8, 8, 8}, 0, 0, 200, 230, false},
    {"crafted-filters-gray16", 128, 128, 1, 16, 0, {8}, 0, 0, 65535, 240, false},
    {"crafted-extremes8", 40, 50, 4, 8, 1, {8, 8, 8, 8}, 0, 0, 255, 100, true},
    {"crafted-extremes16", 21, 50, 4, 16, 1, {8, 8, 8, 8}, 0, 0, 65535, 100, true},
    {"crafted-taps8", 33, 40, 3, 8, 1, {4, 1, 3}, 127, -128, 255, 120, true},
    {"crafted-taps16", 33, 40, 3, 16, 1, {2, 4, 1}, -128, 127, 65535, 120, true},
    {"crafted-constant-first", 35, 64, 4, 8, 1, {0, 2, 8, 3}, 99, -50, 12, 128, false},
    {"crafted-constant-second", 64, 31, 3, 16, 1, {4, 0, 1}, -77, 31, 900, 128, false},
    {"crafted-constant-middle", 29, 33, 4, 8, 1, {1, 0, 4, 2}, -77, 31, 40, 128, false},
    {"crafted-constant-all", 64, 100, 3, 8, 1, {0, 0, 0}, 0, 0, 0, 0, false},
};

static struct pli_wave_recipe recipe_of(const struct crafted *c, uint32_t unit, uint32_t height,
                                        uint32_t width)
{
    struct pli_wave_recipe r = {.height = height,
                                .width = width,
                                .channels = c->channels,
                                .bits = c->bits,
                                .transform = c->transform,
                                .spread = c->spread,
                                .zeros = c->zeros,
                                .extremes = c->extremes};
    for (uint32_t plane = 0; plane < c->channels; plane++) {
        r.planes[plane].predictor = c->predictors[plane];
        r.planes[plane].start = (uint16_t)((1u << (c->bits - 1)) - 3 * unit - plane);
        r.planes[plane].a = c->a;
        r.planes[plane].b = c->b;
        for (uint32_t i = 0; i < PSTI_PLI_WAVE_N_BLOCKS; i++)
            r.planes[plane].filters[i] = (uint8_t)(16 * unit + i + plane) & 63;
    }
    return r;
}

/* Writes the units after the head, and their entries into the index. Returns the length of the
 * file. */
static size_t put_units(const struct crafted *c, const struct psti_pli_header *header,
                        uint8_t *bytes)
{
    struct pli_wave_freqs freqs;
    uint64_t seed = c->height * 1000u + c->width + c->bits;
    size_t at = psti_pli_head_nbytes(header);
    uint32_t columns = psti_pli_unit_columns(header);
    memcpy(freqs.f, psti_pli_wave_freqs[c->bits == 16], sizeof freqs.f);
    for (uint32_t i = 0; i < columns * psti_pli_unit_rows(header); i++) {
        uint32_t y = i / columns * 64, x = i % columns * 64;
        uint32_t height = c->height - y < 64 ? c->height - y : 64;
        uint32_t width = c->width - x < 64 ? c->width - x : 64;
        struct pli_wave_recipe recipe = recipe_of(c, i, height, width);
        struct psti_hash_state hash;
        bytes[at] = PSTI_PLI_WAVE;
        size_t n = 1 + pli_wave_make(&recipe, &freqs, &seed, bytes + at + 1);
        psti_hash_begin(&hash);
        psti_hash_update(&hash, bytes + at, n);
        psti_pli_print_entry(bytes, header, i,
                             (struct psti_pli_entry){(uint32_t)n, (uint32_t)psti_hash_end(&hash)});
        at += n;
    }
    return at;
}

static int make(const struct crafted *c, const char *folder, FILE *manifest)
{
    char path[PATH_NBYTES], sum[SHA256_TEXT_NBYTES];
    struct psti_pli_header header = {.content = PST_PLI_CONTENT_PIXELS,
                                     .channels = c->channels,
                                     .bits = c->bits,
                                     .unit_log2 = PSTI_PLI_UNIT_LOG2_MIN,
                                     .transform = c->transform,
                                     .tier = PST_PLI_TIER_DENSE,
                                     .wide_sizes = true,
                                     .has_checksums = true,
                                     .width = c->width,
                                     .height = c->height};
    size_t pixels_nbytes = (size_t)c->height * c->width * c->channels * (c->bits / 8u);
    uint8_t *bytes = calloc(MAX_HEAD + MAX_UNITS * (size_t)PLI_WAVE_MAX_NBYTES, 1);
    uint8_t *pixels = calloc(pixels_nbytes, 1);
    void *scratch = aligned_alloc(64, SCRATCH_NBYTES);
    int64_t sample = c->bits / 8;
    struct pst_pixels out = {.data = pixels,
                             .height = c->height,
                             .width = c->width,
                             .channels = c->channels,
                             .bits = c->bits,
                             .row_nbytes = sample * c->width * c->channels,
                             .pixel_nbytes = sample * c->channels,
                             .channel_nbytes = sample};
    struct psti_hash_state hash;
    size_t n = put_units(c, &header, bytes);
    psti_pli_print_header(&header, bytes);
    int result =
        psti_pli_decode_on(0, bytes, n, NULL, -1, &out, scratch, SCRATCH_NBYTES, NULL) == PST_OK
            ? 0
            : -1;
    psti_hash_begin(&hash);
    psti_hash_update(&hash, pixels, pixels_nbytes);
    header.pixel_checksum = psti_hash_end(&hash);
    psti_pli_print_header(&header, bytes);
    snprintf(path, sizeof path, "%s/%s.pli", folder, c->name);
    FILE *file = result ? NULL : fopen(path, "wb");
    if (!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0) {
        fprintf(stderr, "%s: is not made\n", path);
        result = -1;
    }
    sha256_text(pixels, pixels_nbytes, sum);
    fprintf(manifest, "%s.pli %s\n", c->name, sum);
    free(bytes);
    free(pixels);
    free(scratch);
    return result;
}

int make_pli_crafted(const char *folder, FILE *manifest)
{
    int result = 0;
    for (size_t i = 0; i < sizeof crafted / sizeof crafted[0]; i++)
        result |= make(&crafted[i], folder, manifest);
    return result;
}
