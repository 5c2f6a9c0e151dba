/* Tests units of mode packed. The decoder restores exactly the encoded samples, for every size, bit
 * depth and number of planes, at every CPU level. All levels treat altered bytes alike. Nothing is
 * read past a unit or written outside of the working memory. */
#include "test.h"

#include "base/machine/cpu.h"
#include "pli/encode/pli_encode_kernels.h"
#include "pli/pli_levels.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CAPACITY = 48 * 1024, WORK_GUARD = 64 };

/* Kinds of pictures, which together need all predictors, bit widths and filter taps. */
enum kind { NOISE, SMOOTH, DIAGONAL, EDGES, FLAT, ALIKE, EXTREMES, N_KINDS };

static struct pli_level levels[PLI_LEVELS_MAX];
static uint32_t n_levels;

struct fixture {
    uint8_t *page_end; /* units end at this address, where an inaccessible page begins */
    uint8_t *work;     /* working memory with guard bytes on both sides */
    uint16_t values[4][64 * 64];
    uint8_t planes8[4][64 * 64];
    uint8_t bytes[CAPACITY];
};

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = (CAPACITY + page - 1) / page * page;
    uint8_t *map =
        mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map + room, page, PROT_NONE), 0);
    f->page_end = map + room;
    f->work = aligned_alloc(64, PSTI_PLI_WORK_NBYTES + 2 * WORK_GUARD);
    memset(f->work, 0xA5, PSTI_PLI_WORK_NBYTES + 2 * WORK_GUARD);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < WORK_GUARD; i++) {
        assert_int_equal(f->work[i], 0xA5);
        assert_int_equal(f->work[WORK_GUARD + PSTI_PLI_WORK_NBYTES + i], 0xA5);
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (CAPACITY + page - 1) / page * page;
    munmap(f->page_end - room, room + page);
    free(f->work);
    free(f);
    return 0;
}

static uint32_t value(enum kind kind, uint32_t p, uint32_t y, uint32_t x, uint32_t bits,
                      uint64_t *state)
{
    uint32_t max = (1u << bits) - 1, random = (uint32_t)next_random(state);
    uint32_t wave = (y * y * 3 + x * x * 5 + x * y) >> 4;
    switch (kind) {
    case NOISE:
        return random & max;
    case SMOOTH:
        return (wave + 60 * p + random % 3) & max;
    case DIAGONAL:
        return ((x + 2 * y) * (3 + p) + ((x + y) % 17 == 0 ? random : random % 2)) & max;
    case EDGES:
        return ((x / 11 + y / 13) % 2 ? max - random % 4 : random % 2) & max;
    case FLAT:
        return (p == 1 && y == 40 && x == 9) ? 1 : 200 + p;
    case ALIKE: /* planes 1 and 2 copy the noise of plane 0 */
        return (max / 2 + (wave & 15) + ((x * 2654435761u + y * 40503u) >> 7) % 32 / (1 + p)) & max;
    default:
        return random & 1 ? max : 0;
    }
}

static struct psti_pli_source make(struct fixture *f, enum kind kind, uint32_t height,
                                   uint32_t width, uint8_t channels, uint8_t bits,
                                   uint8_t transform, uint64_t seed)
{
    struct psti_pli_source source = {.height = height,
                                     .width = width,
                                     .channels = channels,
                                     .bits = bits,
                                     .transform = transform,
                                     .kernels = psti_pli_encode_kernels_of(psti_cpu_features())};
    for (uint8_t p = 0; p < channels; p++) {
        for (uint32_t i = 0; i < 64 * 64; i++) {
            bool inside = i / 64 < height && i % 64 < width;
            uint32_t v = inside ? value(kind, p, i / 64, i % 64, bits, &seed) : 0x5Au + i;
            f->values[p][i] = (uint16_t)v;
            f->planes8[p][i] = (uint8_t)v;
        }
        source.planes[p] = bits == 8 ? (const void *)f->planes8[p] : (const void *)f->values[p];
    }
    return source;
}

static const struct psti_packed_kernels *kernels_of(uint32_t level, uint8_t bits)
{
    const struct psti_pli_kernels *kernels = levels[level].kernels;
    return bits == 8 ? kernels->packed_u8 : kernels->packed_u16;
}

/* Makes a unit of n bytes that ends where the inaccessible page begins. */
static struct psti_pli_unit unit_at(struct fixture *f, const struct psti_pli_source *source,
                                    const uint8_t *bytes, size_t n)
{
    memcpy(f->page_end - n, bytes, n);
    return (struct psti_pli_unit){.height = source->height,
                                  .width = source->width,
                                  .channels = source->channels,
                                  .bits = source->bits,
                                  .transform = source->transform,
                                  .kernels = psti_pli_kernels_of(0),
                                  .bytes = f->page_end - n,
                                  .nbytes = n};
}

static enum pst_status decode_at(struct fixture *f, const struct psti_pli_source *source,
                                 uint32_t level, const uint8_t *unit_bytes, size_t n,
                                 struct psti_pli_planes *planes)
{
    struct psti_pli_unit unit = unit_at(f, source, unit_bytes, n);
    struct pst_error err;
    pst_error_clear(&err);
    enum pst_status status = psti_pli_packed_decode_with(kernels_of(level, unit.bits), &unit,
                                                         f->work + WORK_GUARD, NULL, planes, &err);
    assert_int_equal(err.status, status);
    return status;
}

static const uint8_t *row_at(const struct psti_pli_planes *planes, uint32_t p, uint32_t y)
{
    return planes->base + p * planes->plane_step + (y >> 5) * planes->band_step +
           (y & 31) * planes->row_step;
}

static void check_planes(const struct psti_pli_source *source, const struct psti_pli_planes *planes)
{
    size_t nbytes = source->bits / 8u;
    for (uint32_t p = 0; p < source->channels; p++)
        for (uint32_t y = 0; y < source->height; y++)
            assert_memory_equal(row_at(planes, p, y),
                                (const uint8_t *)source->planes[p] + y * 64 * nbytes,
                                source->width * nbytes);
}

/* Compares the pixels of parts of a unit with those of plain C. Some levels make samples and pixels
 * in one step. */
static void check_pixels(struct fixture *f, const struct psti_pli_source *source,
                         const uint8_t *unit_bytes, size_t n)
{
    enum { ROW = 64 * 3 + 5, NBYTES = 64 * ROW };
    static uint8_t pixels[2][NBYTES];
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t y = k == 1 ? source->height / 3 : 0, left = source->height - y;
        uint32_t height = k == 2 ? (left + 1) / 2 : left;
        struct pst_pixels out = {.height = height,
                                 .width = source->width,
                                 .channels = 3,
                                 .bits = 8,
                                 .row_nbytes = ROW,
                                 .pixel_nbytes = 3,
                                 .channel_nbytes = 1};
        struct psti_pli_part part = {
            .y = y, .height = height, .width = source->width, .channel = -1, .pixels = &out};
        struct psti_pli_unit unit = unit_at(f, source, unit_bytes, n);
        for (uint32_t level = 0; level < n_levels; level++) {
            struct psti_pli_planes planes;
            if (level > 0 && !kernels_of(level, 8)->finish_rgb)
                continue;
            out.data = pixels[level > 0];
            memset(out.data, 0x5A, NBYTES);
            assert_int_equal(psti_pli_packed_decode_with(kernels_of(level, 8), &unit,
                                                         f->work + WORK_GUARD, &part, &planes,
                                                         NULL),
                             PST_OK);
            if (planes.base)
                psti_pli_emit_planes(&unit, &planes, &part);
            if (level > 0)
                assert_memory_equal(pixels[0], pixels[1], NBYTES);
        }
    }
}

static size_t check_round_trip(struct fixture *f, const struct psti_pli_source *source,
                               uint32_t effort)
{
    size_t n = psti_pli_packed_encode(source, effort, f->bytes, CAPACITY);
    assert_in_range(n, 1, CAPACITY);
    assert_int_equal(f->bytes[0], PSTI_PLI_PACKED);
    for (uint32_t level = 0; level < n_levels; level++) {
        struct psti_pli_planes planes;
        assert_int_equal(decode_at(f, source, level, f->bytes + 1, n - 1, &planes), PST_OK);
        check_planes(source, &planes);
    }
    if (source->bits == 8 && source->transform == PSTI_PLI_SUBTRACT_GREEN && source->channels == 3)
        check_pixels(f, source, f->bytes + 1, n - 1);
    return n;
}

static void test_every_size(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 1;
    for (uint32_t height = 1; height <= 64; height++)
        for (uint32_t width = 1; width <= 64; width++) {
            uint64_t random = next_random(&seed);
            uint8_t channels = (uint8_t)(1 + random % 4);
            struct psti_pli_source source =
                make(f, (enum kind)(random / 4 % N_KINDS), height, width, channels,
                     random / 64 % 2 ? 16 : 8, channels >= 3 && random / 128 % 2, seed);
            check_round_trip(f, &source, 3);
        }
}

static void test_every_kind(void **state)
{
    struct fixture *f = *state;
    for (int kind = 0; kind < N_KINDS; kind++)
        for (uint8_t channels = 1; channels <= 4; channels++)
            for (uint8_t bits = 8; bits <= 16; bits += 8)
                for (uint8_t transform = 0; transform <= (channels >= 3); transform++)
                    for (uint32_t effort = 1; effort <= 5; effort++) {
                        struct psti_pli_source source =
                            make(f, (enum kind)kind, 64 - 3 * (effort == 2), 64 - 7 * (effort == 3),
                                 channels, bits, transform, effort);
                        check_round_trip(f, &source, effort);
                    }
}

/* The encoder uses other predictors, taps and constant planes where they help, and more effort
 * finds better ones. */
static void test_choices(void **state)
{
    struct fixture *f = *state;
    struct psti_pli_source source = make(f, FLAT, 64, 64, 3, 8, 1, 1);
    assert_in_range(check_round_trip(f, &source, 3), 10, 200);
    source = make(f, ALIKE, 64, 64, 3, 8, 1, 1);
    size_t without = check_round_trip(f, &source, 1), with = check_round_trip(f, &source, 3);
    assert_true(with * 100 < without * 92);
    assert_true(check_round_trip(f, &source, 5) <= with);
    source = make(f, EXTREMES, 64, 64, 4, 16, 1, 1); /* differences of one bit, widths up to 16 */
    check_round_trip(f, &source, 3);
    source = make(f, SMOOTH, 64, 64, 1, 8, 0, 1);
    size_t n = check_round_trip(f, &source, 3);
    assert_int_equal(psti_pli_packed_encode(&source, 3, f->bytes, n), n);
    for (size_t less = 0; less < n; less++)
        assert_int_equal(psti_pli_packed_encode(&source, 3, f->bytes, less), 0);
}

/* Decodes bytes at all levels. All must accept them and give the same samples, or all refuse them.
 * Returns whether they were accepted. */
static bool compare_levels(struct fixture *f, const struct psti_pli_source *source,
                           const uint8_t *bytes, size_t n)
{
    static uint8_t samples[4][64 * 64 * 2];
    enum pst_status expected = PST_OK;
    for (uint32_t level = 0; level < n_levels; level++) {
        struct psti_pli_planes planes;
        enum pst_status status = decode_at(f, source, level, bytes, n, &planes);
        if (level == 0)
            expected = status;
        assert_int_equal(status, expected);
        assert_true(status == PST_OK || status == PST_ERROR_CORRUPT);
        size_t row_nbytes = source->width * (source->bits / 8u);
        for (uint32_t p = 0; p < source->channels && status == PST_OK; p++)
            for (uint32_t y = 0; y < source->height; y++) {
                if (level == 0)
                    memcpy(&samples[p][y * 128], row_at(&planes, p, y), row_nbytes);
                assert_memory_equal(&samples[p][y * 128], row_at(&planes, p, y), row_nbytes);
            }
    }
    return expected == PST_OK;
}

static void test_hostile(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 7;
    static uint8_t altered[CAPACITY];
    uint32_t n_taken = 0, n_refused = 0;
    for (int round = 0; round < 400; round++) {
        uint64_t random = next_random(&seed);
        uint8_t channels = (uint8_t)(1 + random % 4);
        struct psti_pli_source source =
            make(f, (enum kind)(random / 4 % N_KINDS), 1 + (uint32_t)(random / 32 % 64),
                 1 + (uint32_t)(random / 2048 % 64), channels, random >> 20 & 1 ? 16 : 8,
                 channels >= 3 && random >> 21 & 1, seed);
        size_t n = psti_pli_packed_encode(&source, 3, f->bytes, CAPACITY) - 1;
        for (int k = 0; k < 40; k++) {
            size_t m = n, flips = next_random(&seed) % 4;
            memcpy(altered, f->bytes + 1, n);
            for (size_t i = 0; i < flips; i++) {
                size_t head = k % 2 ? n : n < 40 ? n : 40;
                altered[next_random(&seed) % head] ^= (uint8_t)(1u << next_random(&seed) % 8);
            }
            if (k % 4 == 3)
                m = next_random(&seed) % (n + 1);
            if (compare_levels(f, &source, altered, m))
                n_taken++;
            else
                n_refused++;
        }
    }
    assert_true(n_taken > 1000 && n_refused > 1000);
}

/* Tries taps at the ends of their range, and taps for which their product with a residual exceeds a
 * byte. */
static void test_taps(void **state)
{
    struct fixture *f = *state;
    static const int8_t taps[] = {-64, -63, -33, -32, -31, -16, -1, 0, 1, 15, 16, 31, 32, 33, 64};
    /* offsets of the taps in the plane records */
    enum { N_TAPS = sizeof taps, A1 = 7, A2 = 12, B2 = 13 };
    static uint8_t altered[CAPACITY];
    for (int kind = 0; kind < 2; kind++) {
        struct psti_pli_source source = make(f, kind ? EXTREMES : NOISE, 64, 64, 3, 8, 1, 3);
        size_t n = psti_pli_packed_encode(&source, 1, f->bytes, CAPACITY) - 1;
        memcpy(altered, f->bytes + 1, n);
        for (size_t k = 0; k < (size_t)N_TAPS * N_TAPS; k++) {
            altered[A1] = (uint8_t)taps[(k * 7 + 3) % N_TAPS];
            altered[A2] = (uint8_t)taps[k % N_TAPS];
            altered[B2] = (uint8_t)taps[k / N_TAPS];
            assert_true(compare_levels(f, &source, altered, n));
        }
    }
}

static void test_garbage(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 11;
    static uint8_t garbage[CAPACITY];
    for (int round = 0; round < 20000; round++) {
        uint64_t random = next_random(&seed);
        size_t n = random % 700;
        for (size_t i = 0; i < n; i++)
            garbage[i] = (uint8_t)(next_random(&seed) >> 3 & (round % 2 ? 0xFF : 0x11));
        for (size_t i = 0; i + 1 < n && i < 2; i++)
            garbage[i] = (uint8_t)(0x11 * (1 + random % 5)); /* predictors that exist */
        struct psti_pli_source source = {
            .height = 1 + (uint32_t)(random >> 10) % 64,
            .width = 1 + (uint32_t)(random >> 16) % 64,
            .channels = (uint8_t)(1 + (random >> 22) % 4),
            .bits = random >> 24 & 1 ? 16 : 8,
        };
        compare_levels(f, &source, garbage, n);
    }
}

/* The encoder's kernels compute the same costs, residuals and widths at every level, so the encoded
 * bytes do not depend on it. */
static void test_encoders_agree(void **state)
{
    struct fixture *f = *state;
    static struct psti_packed_coded coded[3][2];
    const struct psti_packed_rows *rows[2] = {
        &psti_packed_rows_c, psti_pli_encode_kernels_of(psti_cpu_detected())->packed_rows_u8};
    uint64_t seed = 5;
    for (int round = 0; round < 3000; round++) {
        uint64_t random = next_random(&seed);
        uint32_t height = 1 + (uint32_t)(random >> 5 & 63),
                 width = 1 + (uint32_t)(random >> 11 & 63);
        struct psti_pli_source source =
            make(f, (enum kind)(random % N_KINDS), height, width, 3, 8, 1, seed);
        for (uint32_t p = 0; p < 3; p++) {
            struct psti_packed_samples samples;
            uint32_t m = (uint32_t)(random >> 20) % PSTI_PACKED_N_PREDICTORS;
            struct psti_packed_block block = {.samples = &samples,
                                              .bits = 8,
                                              .groups = (width + 7) / 8,
                                              .above = {0, 1, 2, 3, 4, 5, 6, 8}};
            if (p > 0 && random >> 23 & 1)
                block.tap[0] = (int8_t)((int)(random >> 24 & 127) - 64);
            if (p > 1 && random >> 23 & 2)
                block.tap[1] = (int8_t)((int)(random >> 17 & 127) - 64);
            psti_pli_packed_load(&source, p, &samples);
            for (block.first = 0; block.first < height; block.first += 16) {
                uint32_t costs[2][PSTI_PACKED_N_PREDICTORS], left = height - block.first;
                block.n_rows = left < 16 ? left : 16;
                for (int k = 0; k < 2; k++) {
                    block.r0 = &coded[0][k];
                    block.r1 = &coded[1][k];
                    rows[k]->try_all(&block, costs[k]);
                    rows[k]->code(&block, m, &coded[p][k]);
                }
                assert_memory_equal(costs[0], costs[1], sizeof costs[0]);
            }
            assert_memory_equal(coded[p][0].residuals, coded[p][1].residuals, height * 128);
            assert_memory_equal(coded[p][0].widths, coded[p][1].widths, height * 8);
        }
    }
}

int main(void)
{
    n_levels = pli_levels(levels);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_size, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_kind, setup, teardown),
        cmocka_unit_test_setup_teardown(test_choices, setup, teardown),
        cmocka_unit_test_setup_teardown(test_encoders_agree, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_taps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_garbage, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
