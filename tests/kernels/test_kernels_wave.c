/* test_kernels_wave.c - decodes units of mode wave with the CPU build of the GPU kernels and
 * compares with the CPU's decoder: valid units of every size, predictor and table, damaged ones,
 * and units of encoded pictures, golden files and real images. Memory ends at guard pages. */
#include "base/test_input.h"

#include "golden/make_pli_picture.h"
#include "gpu/work/gpu_tables.h"
#include "gpu/work/gpu_units.h"
#include "pli/pli.h"
#include "pli/wave/pli_wave_make.h"

#include <penstock/pli.h>

#include <dirent.h>

void psti_gpu_units_wave_u8(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes,
                            const void *args);
void psti_gpu_units_wave_u16(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes,
                             const void *args);

enum { N_WARPS = 3, PATH_NBYTES = 4096, NAME_NBYTES = 100, SCRATCH_ALIGN = 64 };

static const char *folder;

struct fixture {
    struct psti_gpu_wave_constants constants;
    struct psti_gpu_wave_tables own;           /* tables of the present block */
    const struct psti_gpu_wave_tables *tables; /* NULL: the built-in tables */
    struct pli_wave_freqs freqs;
    uint8_t block[PSTI_PLI_WAVE_MODEL_MAX_NBYTES]; /* model block of the tables, for a file */
    size_t block_nbytes;
    void *scratch; /* scratch of the CPU's decoder */
    size_t scratch_nbytes;
    uint8_t unit[PLI_WAVE_MAX_NBYTES];
    struct test_random random;
    uint64_t seed;
    uint32_t n_fine, n_corrupt;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    psti_gpu_wave_constants_write(&f->constants);
    f->scratch_nbytes = 4 << 20;
    f->scratch = aligned_alloc(SCRATCH_ALIGN, f->scratch_nbytes);
    assert_non_null(f->scratch);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    free(f->scratch);
    free(f);
    return 0;
}

static uint32_t below(struct fixture *f, uint32_t n) { return test_below(&f->random, n); }

static uint32_t rounds(uint32_t n)
{
    const char *more = getenv("PENSTOCK_TEST_ROUNDS");
    return more ? n * (uint32_t)atoi(more) : n;
}

static void use_tables(struct fixture *f, const uint8_t *block, size_t nbytes, uint32_t bits)
{
    struct psti_pli_wave_freqs freqs;
    struct pst_error err;
    assert_ok(psti_pli_wave_parse_model(block, nbytes, bits, &freqs, &err));
    memcpy(f->freqs.f, freqs.f, sizeof f->freqs.f);
    f->tables = NULL;
    f->block_nbytes = nbytes;
    if (block) {
        memcpy(f->block, block, nbytes);
        assert_ok(psti_gpu_wave_tables_write(block, nbytes, bits, &f->own, &err));
        f->tables = &f->own;
    }
}

/* Units of one image, for both decoders
 * ------------------------------------------------------------------------------------- */

struct picture_units {
    const uint8_t *file;
    size_t file_nbytes;
    uint32_t height, width;
    uint8_t channels, bits, transform, max_error;
    struct pst_pli_region region;
    uint32_t n_units;
    struct psti_gpu_unit *units;
    const uint8_t **bytes; /* bytes of each unit; the first one is its mode */
};

static size_t place_units(const struct picture_units *p)
{
    size_t at = 0;
    for (uint32_t i = 0; i < p->n_units; i++) {
        p->units[i].offset = (uint32_t)at;
        at += (p->units[i].nbytes + 15u) / 16 * 16;
    }
    return at + PSTI_GPU_UNIT_MARGIN;
}

static size_t pixels_nbytes(const struct picture_units *p)
{
    return (size_t)p->region.height * p->region.width * p->channels * (p->bits / 8u);
}

/* Decodes with the kernels. Returns the statuses of the units. */
static void run_kernel(const struct fixture *f, const struct picture_units *p, void *pixels,
                       uint32_t *statuses)
{
    struct guarded upload = guarded_make(place_units(p), 0);
    struct psti_gpu_image *images = calloc(p->n_units, sizeof *images);
    for (uint32_t i = 0; i < p->n_units; i++) {
        memcpy(upload.data + p->units[i].offset, p->bytes[i], p->units[i].nbytes);
        images[i] = (struct psti_gpu_image){
            .bytes = (uint64_t)(uintptr_t)upload.data,
            .tables = (uint64_t)(uintptr_t)f->tables,
            .status = i,
            .width = (uint16_t)p->width,
            .height = (uint16_t)p->height,
            .y0 = (uint16_t)p->region.y,
            .x0 = (uint16_t)p->region.x,
            .y1 = (uint16_t)(p->region.y + p->region.height),
            .x1 = (uint16_t)(p->region.x + p->region.width),
            .channels = p->channels,
            .bits = p->bits,
            .unit_log2 = 6,
            .transform = p->transform,
            .max_error = p->max_error,
            .sink = {.at = (uint64_t)(uintptr_t)pixels,
                     .region_y = p->region.y,
                     .region_x = p->region.x,
                     .region_height = p->region.height,
                     .region_width = p->region.width,
                     .height = (uint16_t)p->height,
                     .width = (uint16_t)p->width,
                     .channels = p->channels,
                     .bits = p->bits,
                     .orientation = 1},
        };
        p->units[i].image = i;
    }
    struct psti_gpu_units_args args = {
        .images = (uint64_t)(uintptr_t)images,
        .units = (uint64_t)(uintptr_t)p->units,
        .statuses = (uint64_t)(uintptr_t)statuses,
        .constants = (uint64_t)(uintptr_t)&f->constants,
        .n_units = p->n_units,
        .warp_nbytes = (uint32_t)PSTI_GPU_WAVE_WARP_NBYTES(p->bits, p->channels),
        .finish = {.channels = p->channels, .bits = p->bits},
    };
    uint32_t n_warps = p->n_units < N_WARPS ? p->n_units : N_WARPS;
    uint32_t shared_nbytes =
        (uint32_t)PSTI_GPU_WAVE_TABLES_NBYTES(p->bits) + n_warps * args.warp_nbytes;
    (p->bits == 8 ? psti_gpu_units_wave_u8 : psti_gpu_units_wave_u16)(
        (p->n_units + n_warps - 1) / n_warps, n_warps, shared_nbytes, &args);
    free(images);
    guarded_free(&upload);
}

/* Decodes with plain C, the reference implementation, into a picture of the region. */
static enum pst_status run_reference(const struct fixture *f, const struct picture_units *p,
                                     uint32_t i, void *pixels)
{
    const struct pst_pli_region *r = &p->region;
    uint32_t y0 = p->units[i].unit_y * 64u, x0 = p->units[i].unit_x * 64u;
    uint32_t top = r->y > y0 ? r->y : y0, left = r->x > x0 ? r->x : x0;
    uint32_t end_y = r->y + r->height, end_x = r->x + r->width;
    end_y = end_y < y0 + 64 ? end_y : y0 + 64;
    end_x = end_x < x0 + 64 ? end_x : x0 + 64;
    struct pst_pli_region part = {top, left, end_y - top, end_x - left};
    int64_t sample = p->bits / 8;
    struct pst_error err;
    struct pst_pixels to = {.height = part.height,
                            .width = part.width,
                            .channels = p->channels,
                            .bits = p->bits,
                            .row_nbytes = sample * p->channels * r->width,
                            .pixel_nbytes = sample * p->channels,
                            .channel_nbytes = sample};
    to.data = (uint8_t *)pixels + (int64_t)(top - r->y) * to.row_nbytes +
              (int64_t)(left - r->x) * to.pixel_nbytes;
    return psti_pli_decode_on(0, p->file, p->file_nbytes, &part, -1, &to, f->scratch,
                              f->scratch_nbytes, &err);
}

static void check(struct fixture *f, const struct picture_units *p)
{
    size_t n = pixels_nbytes(p);
    struct guarded pixels = guarded_make(n, 64);
    uint8_t *expected = malloc(n);
    uint32_t *statuses = calloc(p->n_units, sizeof *statuses);
    bool fine = true;
    memset(expected, 0xa5, n);
    run_kernel(f, p, pixels.data, statuses);
    for (uint32_t i = 0; i < p->n_units; i++) {
        enum pst_status status = run_reference(f, p, i, expected);
        if ((status == PST_OK) != (statuses[i] == 0))
            fail_msg("%ux%ux%u, %u bits, transform %u: verdict %u instead of %d", p->height,
                     p->width, p->channels, p->bits, p->transform, statuses[i], (int)status);
        fine = fine && status == PST_OK;
        *(status == PST_OK ? &f->n_fine : &f->n_corrupt) += 1;
    }
    for (size_t k = 0; fine && k < n; k++) {
        size_t pixel = k / (p->channels * (p->bits / 8u));
        if (pixels.data[k] != expected[k])
            fail_msg("%ux%ux%u, %u bits, transform %u: byte %zu, row %zu, column %zu: %u "
                     "instead of %u",
                     p->height, p->width, p->channels, p->bits, p->transform, k,
                     pixel / p->region.width, pixel % p->region.width, pixels.data[k], expected[k]);
    }
    free(statuses);
    free(expected);
    guarded_free(&pixels);
}

/* Checks the wave units of a file that lie in a region. Returns how many there are. */
static uint32_t check_file(struct fixture *f, const uint8_t *bytes, size_t nbytes,
                           const struct pst_pli_region *region)
{
    struct psti_pli_header h;
    struct pst_error err;
    const uint8_t *block;
    size_t block_nbytes;
    assert_ok(psti_pli_parse_header(bytes, nbytes, &h, &err));
    if (h.content != PST_PLI_CONTENT_PIXELS || h.unit_log2 != 6)
        return 0;
    assert_ok(psti_pli_find_model(bytes, &h, PSTI_PLI_MODEL_WAVE, &block, &block_nbytes, &err));
    use_tables(f, block, block_nbytes, h.bits);
    uint32_t columns = psti_pli_unit_columns(&h), n = psti_pli_unit_rows(&h) * columns;
    struct picture_units p = {.file = bytes,
                              .file_nbytes = nbytes,
                              .height = h.height,
                              .width = h.width,
                              .channels = h.channels,
                              .bits = h.bits,
                              .transform = h.transform,
                              .max_error = h.max_error,
                              .region = region ? *region
                                               : (struct pst_pli_region){0, 0, h.height, h.width},
                              .units = calloc(n, sizeof *p.units),
                              .bytes = calloc(n, sizeof *p.bytes)};
    const struct pst_pli_region *r = &p.region;
    uint64_t offset = psti_pli_head_nbytes(&h);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t y = i / columns * 64, x = i % columns * 64;
        struct psti_pli_entry entry = psti_pli_parse_entry(bytes, &h, i);
        if (bytes[offset] == PSTI_PLI_WAVE && y < r->y + r->height && y + 64 > r->y &&
            x < r->x + r->width && x + 64 > r->x) {
            p.units[p.n_units] = (struct psti_gpu_unit){.nbytes = entry.nbytes,
                                                        .unit_y = (uint16_t)(i / columns),
                                                        .unit_x = (uint16_t)(i % columns)};
            p.bytes[p.n_units++] = bytes + offset;
        }
        offset += entry.nbytes;
    }
    if (p.n_units > 0)
        check(f, &p);
    free(p.units);
    free(p.bytes);
    return p.n_units;
}

/* Checks one unit as an image of its own. */
static void check_unit(struct fixture *f, const struct pli_wave_recipe *r, const uint8_t *unit,
                       size_t nbytes, uint8_t max_error)
{
    static uint8_t
        file[PSTI_PLI_HEADER_NBYTES + PSTI_PLI_WAVE_MODEL_MAX_NBYTES + 64 + PLI_WAVE_MAX_NBYTES];
    struct psti_pli_header h = {.content = PST_PLI_CONTENT_PIXELS,
                                .channels = (uint8_t)r->channels,
                                .bits = (uint8_t)r->bits,
                                .unit_log2 = 6,
                                .transform = (uint8_t)r->transform,
                                .max_error = max_error,
                                .tier = PST_PLI_TIER_SMALL,
                                .wide_sizes = true,
                                .width = (uint16_t)r->width,
                                .height = (uint16_t)r->height};
    uint8_t *at = file + PSTI_PLI_HEADER_NBYTES;
    if (f->tables) {
        memcpy(at + PSTI_PLI_BLOCK_HEADER_NBYTES, f->block, f->block_nbytes);
        at = psti_pli_print_block(at, PSTI_PLI_MODEL_WAVE, f->block_nbytes);
    }
    h.model_nbytes = (uint32_t)(at - file - PSTI_PLI_HEADER_NBYTES);
    psti_pli_print_entry(file, &h, 0, (struct psti_pli_entry){.nbytes = (uint32_t)nbytes});
    psti_pli_print_header(&h, file);
    at = file + psti_pli_head_nbytes(&h);
    memcpy(at, unit, nbytes);
    assert_int_equal(check_file(f, file, (size_t)(at - file) + nbytes, NULL), 1);
}

/* Makes units for the tests
 * ------------------------------------------------------------------------------------- */

static struct pli_wave_recipe any_recipe(struct fixture *f, uint32_t bits)
{
    static const uint8_t sizes[] = {1,  2,  3,  15, 16, 17, 31, 32, 33,
                                    34, 47, 62, 63, 64, 64, 64, 64};
    static const uint8_t predictors[] = {0, 1, 2, 3, 4, 4, 4, 8, 8, 8};
    struct pli_wave_recipe r = {
        .height = below(f, 4) ? sizes[below(f, sizeof sizes)] : 1 + below(f, 64),
        .width = below(f, 4) ? sizes[below(f, sizeof sizes)] : 1 + below(f, 64),
        .channels = 1 + below(f, 4),
        .bits = bits,
        .spread = 1u << below(f, bits),
        .zeros = below(f, 257),
        .extremes = below(f, 8) == 0,
    };
    r.transform = r.channels >= 3 ? below(f, 4) != 0 : 0;
    bool one = below(f, 2);
    for (uint32_t c = 0; c < r.channels; c++) {
        r.planes[c].predictor =
            one && c > 0 ? r.planes[0].predictor : predictors[below(f, sizeof predictors)];
        r.planes[c].start = (uint16_t)below(f, 1u << bits);
        uint32_t limit = below(f, 4) ? 20 : 256;
        r.planes[c].a = (int8_t)((int)below(f, limit) - (int)limit / 2);
        r.planes[c].b = (int8_t)((int)below(f, limit) - (int)limit / 2);
        uint32_t n = below(f, 2) ? 64 : 1 + below(f, 3);
        for (int i = 0; i < PSTI_PLI_WAVE_N_BLOCKS; i++)
            r.planes[c].filters[i] = (uint8_t)below(f, n);
    }
    return r;
}

/* Makes the unit in f->unit, with its mode. */
static size_t make(struct fixture *f, const struct pli_wave_recipe *r)
{
    f->unit[0] = PSTI_PLI_WAVE;
    return 1 + pli_wave_make(r, &f->freqs, &f->seed, f->unit + 1);
}

static void start(struct fixture *f, uint64_t seed, uint32_t bits)
{
    f->seed = seed;
    f->random = (struct test_random){.seed = seed};
    f->n_fine = f->n_corrupt = 0;
    use_tables(f, NULL, 0, bits);
}

static void test_made_units(void **state)
{
    struct fixture *f = *state;
    for (uint32_t bits = 8; bits <= 16; bits += 8) {
        start(f, bits, bits);
        for (uint32_t i = 0; i < rounds(bits == 8 ? 150 : 90); i++) {
            struct pli_wave_recipe r = any_recipe(f, bits);
            check_unit(f, &r, f->unit, make(f, &r), (uint8_t)(i % 5 == 0 ? below(f, 128) : 0));
        }
        assert_int_equal(f->n_corrupt, 0);
    }
}

/* Checks what the decoder assumes about the constants of 8 bits (docs/format-pli.md, 5.4 and 5.8).
 * Sums of filters fit 16 bits; their coefficients, and L's, fit 8. Activities tell which tokens
 * have suffix2. The suffix1 of all other tokens has at most 7 bits and leads to one of
 * PSTI_GPU_WAVE_POINTS points. Of the tokens with suffix2 only the last has base 0. */
static void test_constants(void **state)
{
    (void)state;
    for (uint32_t list = 0; list < 3; list++)
        for (uint32_t i = 0; i < PSTI_PLI_N_FILTERS; i++) {
            const struct psti_pli_filter *f = &psti_pli_filters[list][i];
            int high = 16 + 128 * (abs(f->a) + abs(f->b)), low = 16 - 128 * (abs(f->a) + abs(f->b));
            int left = 32;
            for (int k = 0; k < 5; k++) {
                *(f->k[k] > 0 ? &high : &low) += 255 * f->k[k];
                left -= f->k[k];
            }
            *(left > 0 ? &high : &low) += 255 * left;
            assert_in_range(left + 128, 0, 255);
            assert_true(high <= INT16_MAX && low >= INT16_MIN);
        }
    for (uint32_t token = 0; token < PSTI_PLI_N_TOKENS_8; token++)
        assert_int_equal(psti_pli_wave_activities[token] > 15, token >= PSTI_PLI_WAVE_FIRST_SQUARE);
    for (uint32_t token = 1; token < PSTI_PLI_WAVE_FIRST_SQUARE; token++) {
        const uint32_t n = psti_pli_wave_first_bits[token];
        assert_in_range(n, 2, 7);
        assert_in_range(psti_pli_wave_bases[token] + (1u << n) / 4, 1, PSTI_GPU_WAVE_POINTS);
    }
    for (uint32_t token = PSTI_PLI_WAVE_FIRST_SQUARE; token < PSTI_PLI_WAVE_ANY_PAIR; token++)
        assert_in_range(psti_pli_wave_bases[token], 1, 127);
    assert_int_equal(psti_pli_wave_bases[PSTI_PLI_WAVE_ANY_PAIR], 0);
}

/* Tries every predictor for three planes, with all lanes active. */
static void test_whole_units(void **state)
{
    static const uint8_t predictors[] = {0, 1, 2, 3, 4, 8};
    struct fixture *f = *state;
    start(f, 2, 8);
    for (uint32_t i = 0; i < 6 * 6 * 6; i++) {
        struct pli_wave_recipe r = any_recipe(f, 8);
        r.height = i % 4 ? 64 : 32;
        r.width = 64;
        r.channels = 3;
        r.transform = below(f, 4) != 0;
        r.planes[0].predictor = predictors[i % 6];
        r.planes[1].predictor = predictors[i / 6 % 6];
        r.planes[2].predictor = predictors[i / 36];
        check_unit(f, &r, f->unit, make(f, &r), 0);
    }
    assert_int_equal(f->n_corrupt, 0);
}

/* Tries tables that belong to an image, with few tokens in some contexts. */
static void test_own_tables(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < rounds(60); i++) {
        uint32_t bits = i % 3 ? 8 : 16;
        start(f, 100 + i, bits);
        struct psti_pli_wave_own own[PSTI_PLI_N_CONTEXTS];
        uint8_t block[PSTI_PLI_WAVE_MODEL_MAX_NBYTES];
        uint16_t freqs[PSTI_PLI_N_TOKENS];
        bool all = true;
        for (uint32_t c = 0; c < PSTI_PLI_N_CONTEXTS; c++) {
            do {
                own[c].n =
                    (uint8_t)(below(f, 3) ? 1 + below(f, bits == 8 ? PSTI_PLI_N_TOKENS_8 : 24)
                                          : below(f, 2));
                for (uint32_t k = 0; k < own[c].n; k++)
                    own[c].q[k] = (uint8_t)(below(f, 4) ? below(f, 64) : 0);
            } while (own[c].n > 0 && !psti_pli_wave_expand(&own[c], bits, freqs));
        }
        size_t nbytes = psti_pli_wave_print_model(own, block);
        use_tables(f, block, nbytes, bits);
        struct pli_wave_recipe r = any_recipe(f, bits);
        r.spread = r.spread > 20 ? 20 : r.spread;
        r.extremes = false;
        /* A token that a table lacks is drawn again, so all tables must have one below 24. */
        for (uint32_t c = 0; c < PSTI_PLI_N_CONTEXTS; c++) {
            bool any = false;
            for (uint32_t k = 0; k < 24; k++)
                any = any || f->freqs.f[c][k] != 0;
            all = all && any;
        }
        if (all)
            check_unit(f, &r, f->unit, make(f, &r), 0);
        assert_int_equal(f->n_corrupt, 0);
    }
}

static void test_damaged_units(void **state)
{
    struct fixture *f = *state;
    uint32_t n_fine = 0, n_corrupt = 0;
    for (uint32_t bits = 8; bits <= 16; bits += 8) {
        start(f, 5 + bits, bits);
        for (uint32_t i = 0; i < rounds(bits == 8 ? 60 : 30); i++) {
            static uint8_t damaged[PLI_WAVE_MAX_NBYTES + 2];
            struct pli_wave_recipe r = any_recipe(f, bits);
            size_t n = make(f, &r);
            for (int k = 0; k < 5; k++) {
                size_t m = n;
                memcpy(damaged, f->unit, n);
                if (k == 4) /* truncated or lengthened */
                    m = below(f, 4) ? 1 + below(f, (uint32_t)n - 1) : n + 2;
                damaged[n] = damaged[n + 1] = 0;
                for (uint32_t b = k == 4 ? 0 : 1 + below(f, 3); b > 0; b--) {
                    uint32_t reach = below(f, 2) && n > 400 ? 400 : (uint32_t)n;
                    damaged[1 + below(f, reach - 1)] ^= (uint8_t)(1u << below(f, 8));
                }
                check_unit(f, &r, damaged, m, 0);
            }
        }
        n_fine += f->n_fine;
        n_corrupt += f->n_corrupt;
    }
    assert_true(n_fine > 10);
    assert_true(n_corrupt > 100);
}

/* Units of random bytes after a mostly valid beginning. */
static void test_noise(void **state)
{
    struct fixture *f = *state;
    start(f, 7, 8);
    for (uint32_t i = 0; i < rounds(60); i++) {
        struct pli_wave_recipe r = any_recipe(f, 8);
        size_t n = make(f, &r), keep = below(f, 140);
        for (size_t k = keep < 1 ? 1 : keep; k < n; k++)
            f->unit[k] = (uint8_t)pli_wave_random(&f->seed);
        check_unit(f, &r, f->unit, n, 0);
    }
}

/* Images
 * ------------------------------------------------------------------------------------- */

/* Encodes the image and checks its units. Returns how many of them are of mode wave. */
static uint32_t check_encoded(struct fixture *f, const void *data, uint32_t height, uint32_t width,
                              uint8_t channels, uint8_t bits, enum pst_pli_tier tier,
                              uint32_t effort, uint32_t max_error)
{
    struct pst_error err;
    size_t bound = pst_pli_encode_bound(height, width, channels, bits), nbytes;
    uint8_t *bytes = malloc(bound);
    int64_t sample = bits / 8;
    struct pst_pixels pixels = {.data = (void *)(uintptr_t)data,
                                .height = height,
                                .width = width,
                                .channels = channels,
                                .bits = bits,
                                .row_nbytes = sample * channels * width,
                                .pixel_nbytes = sample * channels,
                                .channel_nbytes = sample};
    struct pst_pli_encode_options options = {
        .struct_size = sizeof options, .tier = tier, .effort = effort, .max_error = max_error};
    assert_ok(pst_pli_encode(&pixels, &options, bytes, bound, &nbytes, &err));
    uint32_t n = check_file(f, bytes, nbytes, NULL);
    struct pst_pli_region r = {below(f, height), below(f, width), 0, 0};
    r.height = 1 + below(f, height - r.y);
    r.width = 1 + below(f, width - r.x);
    check_file(f, bytes, nbytes, &r);
    free(bytes);
    return n;
}

static void test_pictures(void **state)
{
    static const struct {
        uint32_t height, width;
    } sizes[] = {{64, 64}, {100, 75}, {1, 1}, {17, 130}, {70, 3}, {65, 129}};
    struct fixture *f = *state;
    uint32_t n_units = 0;
    start(f, 8, 8);
    for (enum picture_kind kind = PHOTO; kind <= ALPHA; kind++)
        for (uint8_t channels = 1; channels <= 4; channels++)
            for (uint8_t bits = 8; bits <= 16; bits += 8) {
                uint32_t i = (kind * 7u + channels * 3u + bits) % 6;
                struct picture p = {.kind = kind,
                                    .height = sizes[i].height,
                                    .width = sizes[i].width,
                                    .channels = channels,
                                    .bits = bits};
                uint8_t *data = malloc((size_t)p.height * p.width * channels * 2), *at = data;
                for (uint32_t y = 0; y < p.height; y++)
                    for (uint32_t x = 0; x < p.width; x++)
                        for (uint32_t c = 0; c < channels; c++, at += bits / 8) {
                            uint32_t v = picture_value(&p, y, x, c);
                            memcpy(at, &v, bits / 8);
                        }
                for (enum pst_pli_tier tier = PST_PLI_TIER_SMALL; tier <= PST_PLI_TIER_DENSE;
                     tier++)
                    n_units += check_encoded(f, data, p.height, p.width, channels, bits, tier,
                                             1 + (i + tier) % 5, i == 3 ? i : 0);
                free(data);
            }
    assert_int_equal(f->n_corrupt, 0);
    assert_true(n_units > 100);
}

static void test_golden(void **state)
{
    struct fixture *f = *state;
    char path[PATH_NBYTES], line[256], name[NAME_NBYTES];
    uint32_t n_units = 0;
    start(f, 9, 8);
    snprintf(path, sizeof path, "%s/MANIFEST", folder);
    FILE *manifest = fopen(path, "r");
    assert_non_null(manifest);
    while (fgets(line, sizeof line, manifest)) {
        size_t nbytes;
        if (sscanf(line, "%99s", name) != 1 || name[0] == '#')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        uint8_t *bytes = picture_read_file(path, &nbytes);
        assert_non_null(bytes);
        n_units += check_file(f, bytes, nbytes, NULL);
        free(bytes);
    }
    fclose(manifest);
    assert_int_equal(f->n_corrupt, 0);
    assert_true(n_units > 50);
}

/* Tests crops of real images, if the machine has them. */
static void test_real(void **state)
{
    static const struct {
        const char *folder;
        uint8_t channels, bits;
    } groups[] = {{"kodak", 3, 8}, {"landsat16", 1, 16}, {"emoji_rgba", 4, 8}, {"em_gray8", 1, 8}};
    enum { EDGE = 130 };
    struct fixture *f = *state;
    const char *root = getenv("PST_SHARED_DATA");
    uint32_t n_units = 0;
    start(f, 10, 8);
    if (!root)
        skip();
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        char path[PATH_NBYTES], file[2 * NAME_NBYTES];
        uint32_t n_files = 0;
        struct dirent *entry;
        snprintf(path, sizeof path, "%s/%s", root, groups[g].folder);
        DIR *dir = opendir(path);
        while (dir && n_files < 3 && (entry = readdir(dir)) != NULL) {
            snprintf(file, sizeof file, "%s/%.99s", groups[g].folder, entry->d_name);
            struct picture p = {.height = groups[g].folder[1] == 'm' ? 72 : EDGE,
                                .width = groups[g].folder[1] == 'm' ? 72 : EDGE,
                                .channels = groups[g].channels,
                                .bits = groups[g].bits,
                                .file = file};
            uint8_t *data = malloc((size_t)EDGE * EDGE * 8);
            if (strstr(file, ".png") && picture_crop(&p, root, data) == 0) {
                n_files++;
                for (enum pst_pli_tier tier = PST_PLI_TIER_SMALL; tier <= PST_PLI_TIER_DENSE;
                     tier++)
                    n_units +=
                        check_encoded(f, data, p.height, p.width, p.channels, p.bits, tier, 3, 0);
            }
            free(data);
        }
        if (dir)
            closedir(dir);
    }
    assert_int_equal(f->n_corrupt, 0);
    assert_true(n_units > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constants),
        cmocka_unit_test_setup_teardown(test_made_units, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_whole_units, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_own_tables, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_units, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_noise, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pictures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_golden, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_real, set_up, tear_down),
    };
    if (argc != 2)
        return 2;
    folder = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
