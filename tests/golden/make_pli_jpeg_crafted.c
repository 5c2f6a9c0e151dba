/* make_pli_jpeg_crafted.c - writes golden PLI files of coefficients that no JPEG encoder would
 * write: the largest magnitudes, quantisation values up to 65535, sums that overflow, every end of
 * a block and every sub-sampling. No JPEG file belongs to them. The manifest has the pixels that
 * plain C decodes. The slow decoder, written from the document alone, verifies them. */
#include "golden/make_pli_jpeg_crafted.h"

#include "pixels.h"
#include "golden/golden_sha256.h"

#include <penstock/pli.h>

#include "base/hash.h"
#include "pli/decode/pli_decode_int.h"
#include "pli/encode/coefs/pli_jpeg_encode.h"

#include <stdlib.h>

enum { MAX_NBYTES = 1 << 20, PATH_NBYTES = 4096 };

struct crafted {
    const char *name;
    uint16_t height, width;
    uint8_t components, transform;
    uint8_t factors[3];
    uint8_t unit_log2;
    uint32_t quant_max, ac_max, dc_max; /* magnitudes */
    uint32_t zeros;                     /* zero coefficients of 256, up to a block's end */
};

static const struct crafted crafted[] = {
    {"crafted-largest", 40, 56, 3, 1, {0x11, 0x11, 0x11}, 6, 65535, 2048, 2047, 100},
    {"crafted-largest-420", 50, 66, 3, 1, {0x22, 0x11, 0x11}, 6, 65535, 2048, 2047, 30},
    {"crafted-largest-gray", 66, 40, 1, 0, {0x11}, 7, 255, 2048, 2047, 10},
    {"crafted-overflow", 48, 80, 3, 0, {0x21, 0x11, 0x12}, 6, 40000, 300, 2047, 200},
    {"crafted-ends-411", 60, 130, 3, 1, {0x41, 0x11, 0x11}, 6, 20, 3, 40, 128},
    {"crafted-ends-440", 130, 60, 3, 1, {0x12, 0x11, 0x11}, 8, 16, 8, 100, 230},
    {"crafted-zeros", 70, 140, 3, 1, {0x22, 0x11, 0x11}, 6, 99, 0, 0, 256},
};

static uint32_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* Returns a value in -most..most; small values and the largest ones are frequent. */
static int16_t value(uint64_t *seed, uint32_t most)
{
    uint32_t r = next(seed), m = r % 4 == 0 ? most : next(seed) % (most + 1) >> r % 11;
    return (int16_t)(r >> 20 & 1 ? -(int)m : (int)m);
}

static void fill(const struct crafted *c, const struct psti_jpeg_frame *frame, uint32_t component,
                 uint64_t *seed, int16_t *coefs)
{
    size_t n = psti_pli_jpeg_n_coefs(frame, component) / 64;
    for (size_t b = 0; b < n; b++, coefs += 64) {
        uint32_t end = b < 64 ? (uint32_t)b : next(seed) % 64;
        coefs[0] = value(seed, c->dc_max);
        for (uint32_t k = 1; k <= end; k++)
            if (next(seed) % 256 >= c->zeros || (k == end && c->ac_max > 0))
                coefs[k] = value(seed, c->ac_max);
    }
}

static void make_frame(const struct crafted *c, uint64_t *seed, struct psti_jpeg_frame *frame)
{
    *frame = (struct psti_jpeg_frame){.width = c->width,
                                      .height = c->height,
                                      .n_components = c->components,
                                      .transform = c->transform,
                                      .orientation = 1};
    for (uint32_t i = 0; i < c->components; i++) {
        frame->components[i].h = c->factors[i] >> 4;
        frame->components[i].v = c->factors[i] & 15;
        frame->components[i].quant = (uint8_t)(3 - i);
        for (uint32_t k = 0; k < 64; k++)
            frame->quants[3 - i][k] =
                (uint16_t)(k % 5 == 0 ? c->quant_max : 1 + next(seed) % c->quant_max);
    }
}

static int decode(const struct crafted *c, const uint8_t *bytes, size_t nbytes, uint8_t *pixels)
{
    struct pst_pli_info info = {0};
    struct pst_error err = {0};
    struct pst_pixels out = test_pixels(pixels, c->height, c->width, c->components, 8);
    if (pst_pli_info(bytes, nbytes, &info, sizeof info, &err) != PST_OK)
        return -1;
    size_t scratch_nbytes = (pst_pli_scratch_nbytes(&info, sizeof info) + 63) / 64 * 64;
    void *scratch = aligned_alloc(64, scratch_nbytes);
    int result = psti_pli_decode_on(0, bytes, nbytes, NULL, -1, &out, scratch, scratch_nbytes,
                                    &err) == PST_OK
                     ? 0
                     : -1;
    if (result)
        fprintf(stderr, "%s: %s\n", c->name, err.text);
    free(scratch);
    return result;
}

static int make(const struct crafted *c, const char *folder, FILE *manifest)
{
    char path[PATH_NBYTES], sum[SHA256_TEXT_NBYTES];
    uint64_t seed = c->height * 1000u + c->width;
    struct psti_jpeg_frame frame;
    struct psti_jpeg_encode_options options = {.unit_log2 = c->unit_log2};
    struct pst_error err = {0};
    size_t pixels_nbytes = (size_t)c->height * c->width * c->components, n = 0;
    uint8_t *bytes = malloc(MAX_NBYTES), *pixels = calloc(pixels_nbytes, 1);
    int16_t *coefs[3] = {NULL, NULL, NULL};
    int result = -1;
    make_frame(c, &seed, &frame);
    if (!psti_pli_jpeg_frame_measure(&frame))
        goto out;
    for (uint32_t i = 0; i < c->components; i++) {
        coefs[i] = calloc(psti_pli_jpeg_n_coefs(&frame, i), sizeof(int16_t));
        fill(c, &frame, i, &seed, coefs[i]);
    }
    for (int pass = 0; pass < 2; pass++) { /* the second pass knows the pixels' checksum */
        struct psti_hash_state hash;
        if (psti_pli_jpeg_encode(&frame, (const int16_t *const *)coefs, NULL, &options, bytes,
                                 MAX_NBYTES, &n, &err) != PST_OK ||
            decode(c, bytes, n, pixels) != 0)
            goto out;
        psti_hash_begin(&hash);
        psti_hash_update(&hash, pixels, pixels_nbytes);
        options.pixel_checksum = psti_hash_end(&hash);
    }
    snprintf(path, sizeof path, "%s/%s.pli", folder, c->name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0)
        goto out;
    sha256_text(pixels, pixels_nbytes, sum);
    fprintf(manifest, "%s.pli %s\n", c->name, sum);
    result = 0;
out:
    if (result)
        fprintf(stderr, "%s: is not made: %s\n", c->name, err.text);
    for (uint32_t i = 0; i < 3; i++)
        free(coefs[i]);
    free(bytes);
    free(pixels);
    return result;
}

int make_pli_jpeg_crafted(const char *folder, FILE *manifest)
{
    int result = 0;
    for (size_t i = 0; i < sizeof crafted / sizeof crafted[0]; i++)
        result |= make(&crafted[i], folder, manifest);
    return result;
}
