/* make_pli.c - writes the golden PLI files and their manifest with the library's public
 * functions.
 *
 *     make_pli FOLDER [DATA]
 *
 * The list below says which pictures, computed here from integers alone, are encoded in which
 * tier and with which options. With DATA (folders of photographs, satellite and emoji PNGs) the
 * crops of real pictures are cut again; without it the crops in FOLDER stay as they are. Every
 * file is decoded again as a check. A manifest line: file, SHA-256 of the pixels (H,W,C)
 * little-endian.
 *
 * Golden files are replaced only when the format changes: later libraries must still read files
 * that older encoders wrote. */
#include "golden/golden_sha256.h"
#include "golden/make_pli_crafted.h"
#include "golden/make_pli_picture.h"

#include <penstock/pli.h>

#include <stdlib.h>

enum { SCRATCH_NBYTES = 3 << 20, MAX_FILE = 20 << 10, PATH_NBYTES = 4096 };

struct golden {
    const char *name;
    enum picture_kind kind;
    uint32_t height, width;
    uint8_t channels, bits;
    enum pst_pli_tier tier;
    uint32_t effort, max_error;
    bool no_checksum;
    const char *file; /* a crop of DATA/file at (y, x); replaces `kind` */
    uint32_t y, x;
};

#define FAST PST_PLI_TIER_FAST
#define SMALL PST_PLI_TIER_SMALL
#define DENSE PST_PLI_TIER_DENSE

/* Every tier with every number of channels and both depths. Sizes are odd, or below, equal to and
 * above a unit's. */
#define TIER(name, tier)                                                                           \
    {name "-gray8", PHOTO, 64, 64, 1, 8, tier, 3, 0, false, NULL, 0, 0},                           \
        {name "-graya8", ALPHA, 37, 53, 2, 8, tier, 3, 0, false, NULL, 0, 0},                      \
        {name "-rgb8", PHOTO, 65, 66, 3, 8, tier, 3, 0, false, NULL, 0, 0},                        \
        {name "-rgba8", ALPHA, 70, 40, 4, 8, tier, 3, 0, false, NULL, 0, 0},                       \
        {name "-gray16", DEPTH12, 31, 71, 1, 16, tier, 3, 0, false, NULL, 0, 0},                   \
        {name "-graya16", ALPHA, 33, 32, 2, 16, tier, 3, 0, false, NULL, 0, 0},                    \
        {name "-rgb16", DEPTH12, 40, 41, 3, 16, tier, 3, 0, false, NULL, 0, 0},                    \
        {name "-rgba16", PHOTO, 19, 64, 4, 16, tier, 3, 0, false, NULL, 0, 0},                     \
        {name "-effort1", PHOTO, 48, 48, 3, 8, tier, 1, 0, false, NULL, 0, 0},                     \
        {name "-effort5", PHOTO, 48, 48, 3, 8, tier, 5, 0, false, NULL, 0, 0},                     \
        {name "-mixed", MIXED, 110, 100, 3, 8, tier, 3, 0, false, NULL, 0, 0},                     \
        {name "-extremes8", EXTREMES, 33, 34, 3, 8, tier, 3, 0, false, NULL, 0, 0},                \
        {name "-extremes16", EXTREMES, 21, 40, 3, 16, tier, 3, 0, false, NULL, 0, 0},              \
        {name "-flat", FLAT, 128, 65, 3, 8, tier, 3, 0, false, NULL, 0, 0},                        \
        {name "-labels8", LABELS, 300, 515, 1, 8, tier, 3, 0, false, NULL, 0, 0},                  \
        {name "-labels16", LABELS, 130, 257, 1, 16, tier, 3, 0, false, NULL, 0, 0},                \
        {name "-screen", SCREEN, 120, 200, 3, 8, tier, 3, 0, false, NULL, 0, 0},                   \
        {name "-screen-rgba", SCREEN, 96, 97, 4, 8, tier, 4, 0, false, NULL, 0, 0},                \
        {name "-near1", PHOTO, 64, 65, 3, 8, tier, 3, 1, false, NULL, 0, 0},                       \
        {name "-near127", PHOTO, 64, 65, 3, 8, tier, 3, 127, false, NULL, 0, 0},                   \
        {name "-near16", DEPTH12, 33, 33, 1, 16, tier, 3, 9, false, NULL, 0, 0},                   \
        {name "-near-screen", SCREEN, 70, 66, 3, 8, tier, 3, 2, false, NULL, 0, 0},                \
        {name "-pixel", PHOTO, 1, 1, 3, 8, tier, 3, 0, false, NULL, 0, 0},                         \
        {name "-row", PHOTO, 1, 200, 3, 8, tier, 3, 0, false, NULL, 0, 0},                         \
        {name "-column", PHOTO, 200, 1, 1, 16, tier, 3, 0, false, NULL, 0, 0},                     \
        {name "-two", PHOTO, 2, 2, 4, 8, tier, 3, 0, true, NULL, 0, 0},                            \
        {name "-photograph", PHOTO, 66, 64, 3, 8, tier, 3, 0, false, "kodak/01.png", 200, 300},    \
        {name "-satellite",     PHOTO, 48, 72, 1, 16, tier, 3, 0, false,                           \
         "landsat16/l8_B1.png", 400,   400},                                                       \
    {                                                                                              \
        name "-emoji", PHOTO, 80, 90, 4, 8, tier, 3, 0, true, "emoji_rgba/1f320.png", 100, 200     \
    }

static const struct golden goldens[] = {
    TIER("fast", FAST),
    TIER("small", SMALL),
    TIER("dense", DENSE),
    {"raw-noise8", NOISE, 40, 66, 3, 8, SMALL, 3, 0, false, NULL, 0, 0},
    {"raw-noise16", NOISE, 30, 65, 2, 16, FAST, 3, 0, false, NULL, 0, 0},
    {"lz-512", LABELS, 1030, 520, 1, 8, SMALL, 5, 0, true, NULL, 0, 0},
    {"lz-one-color", FLAT, 600, 513, 4, 8, DENSE, 3, 0, false, NULL, 0, 0},
};

/* Returns false if a sample of `a` and `b` differs by more than the golden file allows. */
static bool near_enough(const struct golden *g, const uint8_t *a, const uint8_t *b, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i += g->bits / 8u) {
        int va = a[i], vb = b[i];
        if (g->bits == 16) {
            va += a[i + 1] << 8;
            vb += b[i + 1] << 8;
        }
        if (abs(va - vb) > (int)g->max_error)
            return false;
    }
    return true;
}

static struct pst_pixels pixels_of(const struct golden *g, void *data)
{
    int64_t sample = g->bits / 8;
    return (struct pst_pixels){.data = data,
                               .height = g->height,
                               .width = g->width,
                               .channels = g->channels,
                               .bits = g->bits,
                               .row_nbytes = sample * g->width * g->channels,
                               .pixel_nbytes = sample * g->channels,
                               .channel_nbytes = sample};
}

/* Encodes a picture and decodes the result. `decoded` gets the pixels. */
static int encode(const struct golden *g, void *source, void *decoded, uint8_t **out, size_t *n)
{
    struct pst_pixels in = pixels_of(g, source), back = pixels_of(g, decoded);
    struct pst_pli_encode_options options = {.struct_size = sizeof options,
                                             .tier = g->tier,
                                             .effort = g->effort,
                                             .max_error = g->max_error,
                                             .no_checksum = g->no_checksum};
    size_t bound = pst_pli_encode_bound(g->height, g->width, g->channels, g->bits);
    size_t nbytes = (size_t)in.row_nbytes * g->height;
    void *scratch = aligned_alloc(64, SCRATCH_NBYTES);
    *out = malloc(bound);
    int result = 0;
    if (pst_pli_encode(&in, &options, *out, bound, n, NULL) != PST_OK ||
        pst_pli_decode(*out, *n, NULL, -1, &back, scratch, SCRATCH_NBYTES, NULL) != PST_OK ||
        !near_enough(g, source, decoded, nbytes))
        result = picture_fail(g->name, "does not come back");
    else if (*n > MAX_FILE)
        result = picture_fail(g->name, "is too large for a golden file");
    free(scratch);
    return result;
}

/* Makes one golden file and its line of the manifest. */
static int make(const struct golden *g, const char *folder, const char *data, FILE *manifest)
{
    char path[PATH_NBYTES], sum[SHA256_TEXT_NBYTES];
    size_t nbytes = (size_t)g->height * g->width * g->channels * (g->bits / 8u), n = 0;
    uint8_t *source = calloc(nbytes, 1), *decoded = calloc(nbytes, 1), *bytes = NULL, *at = source;
    struct picture picture = {g->kind, g->height, g->width, g->channels,
                              g->bits, g->file,   g->y,     g->x};
    int result = -1;
    snprintf(path, sizeof path, "%s/%s.pli", folder, g->name);
    if (g->file && !data) { /* the file stays as it is: only its line is written */
        struct pst_pixels back = pixels_of(g, decoded);
        void *scratch = aligned_alloc(64, SCRATCH_NBYTES);
        bytes = picture_read_file(path, &n);
        if (bytes &&
            pst_pli_decode(bytes, n, NULL, -1, &back, scratch, SCRATCH_NBYTES, NULL) == PST_OK)
            result = 0;
        free(scratch);
    } else {
        for (uint32_t y = 0; !g->file && y < g->height; y++)
            for (uint32_t x = 0; x < g->width; x++)
                for (uint32_t c = 0; c < g->channels; c++, at += g->bits / 8) {
                    uint32_t v = picture_value(&picture, y, x, c);
                    memcpy(at, &v, g->bits / 8u);
                }
        if (!g->file || picture_crop(&picture, data, source) == 0)
            result = encode(g, source, decoded, &bytes, &n);
        FILE *file = result ? NULL : fopen(path, "wb");
        if (!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0)
            result = -1;
    }
    sha256_text(decoded, nbytes, sum);
    fprintf(manifest, "%s.pli %s\n", g->name, sum);
    free(source);
    free(decoded);
    free(bytes);
    return result ? picture_fail(path, "is not made") : 0;
}

int main(int argc, char **argv)
{
    char path[PATH_NBYTES];
    int result = 0;
    if (argc < 2)
        return picture_fail("usage", "make_pli FOLDER [DATA]");
    snprintf(path, sizeof path, "%s/MANIFEST", argv[1]);
    FILE *manifest = fopen(path, "w");
    if (!manifest)
        return 1;
    fprintf(manifest,
            "# file, SHA-256 of its pixels as (height, width, channels), little-endian\n");
    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; i++)
        result |= make(&goldens[i], argv[1], argc > 2 ? argv[2] : NULL, manifest);
    result |= make_pli_crafted(argv[1], manifest);
    return fclose(manifest) != 0 || result != 0;
}
