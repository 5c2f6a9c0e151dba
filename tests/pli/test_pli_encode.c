/* Tests PLI through its public functions. Every tier restores every kind of picture exactly, whole
 * and in regions, in any layout. Near-lossless images stay within max_error. Errors name the fault
 * in the bytes. */
#include "pixels.h"
#include "test.h"

#include <penstock/pli.h>

#include "base/hash.h"
#include "pli/format/pli_head.h"

#include <stdlib.h>
#include <string.h>

enum { SCRATCH_NBYTES = 3 << 20 };

/* Kinds of pictures, for which encoders choose different modes. */
enum kind { NOISE, SMOOTH, FLAT, LABELS, MIXED, EXTREMES, N_KINDS };

struct picture {
    struct pst_pixels pixels; /* (H,W,C) without padding */
    size_t nbytes;
    uint8_t *encoded;
    size_t encoded_nbytes;
    void *scratch;
};

static uint32_t value(enum kind kind, uint32_t y, uint32_t x, uint32_t c, uint32_t bits,
                      uint64_t *state)
{
    uint32_t max = (1u << bits) - 1;
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint32_t random = (uint32_t)(*state >> 33);
    switch (kind) {
    case NOISE:
        return random & max;
    case SMOOTH:
        return (y * 3 + x * 2 + c * 40 + random % 5) & max;
    case FLAT:
        return (7 + c) & max;
    case LABELS:
        return (((y / 23) * 5 + (x + y / 7) / 31) % 19) & max;
    case MIXED:
        return x / 64 % 2 ? random % 9 : (y / 64 % 2 ? 200u + c : (x * 5 + y) & max);
    default:
        return random % 2 ? max : 0;
    }
}

static void make(struct picture *p, enum kind kind, uint32_t height, uint32_t width,
                 uint8_t channels, uint8_t bits)
{
    uint64_t state = height * 65537u + width * 31u + (uint64_t)kind;
    size_t sample = bits / 8u;
    p->nbytes = (size_t)height * width * channels * sample;
    p->pixels = test_pixels(malloc(p->nbytes), height, width, channels, bits);
    uint8_t *at = p->pixels.data;
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < channels; c++, at += sample) {
                uint32_t v = value(kind, y, x, c, bits, &state);
                memcpy(at, &v, sample);
            }
    p->scratch = aligned_alloc(64, SCRATCH_NBYTES);
    p->encoded = NULL;
}

static void encode(struct picture *p, enum pst_pli_tier tier, uint32_t effort, uint32_t max_error)
{
    struct pst_error err;
    struct pst_pli_encode_options options = {
        .struct_size = sizeof options, .tier = tier, .effort = effort, .max_error = max_error};
    size_t bound =
        pst_pli_encode_bound(p->pixels.height, p->pixels.width, p->pixels.channels, p->pixels.bits);
    uint8_t *room = malloc(bound);
    assert_ok(pst_pli_encode(&p->pixels, &options, room, bound, &p->encoded_nbytes, &err));
    assert_true(p->encoded_nbytes <= bound);
    free(p->encoded);
    p->encoded = malloc(p->encoded_nbytes); /* exact size, so that a sanitizer detects over-reads */
    memcpy(p->encoded, room, p->encoded_nbytes);
    free(room);
}

static void drop(struct picture *p)
{
    free(p->pixels.data);
    free(p->encoded);
    free(p->scratch);
}

static uint32_t at(const struct pst_pixels *p, uint32_t y, uint32_t x, uint32_t c)
{
    const uint8_t *s = (const uint8_t *)p->data + (int64_t)y * p->row_nbytes +
                       (int64_t)x * p->pixel_nbytes + (int64_t)c * p->channel_nbytes;
    uint16_t v;
    memcpy(&v, s, 2 * (p->bits == 16) + (p->bits == 8));
    return p->bits == 8 ? *s : v;
}

/* Decodes a region, planar or interleaved, with a gap after each row, and compares. No sample may
 * differ by more than max_error. The gaps must not change. */
static void check_region(const struct picture *p, struct pst_pli_region r, int channel, bool planar,
                         uint32_t max_error)
{
    enum { GAP = 6, FILL = 0xA5 };
    struct pst_error err;
    size_t sample = p->pixels.bits / 8u;
    uint8_t channels = channel < 0 ? p->pixels.channels : 1;
    size_t row = (planar ? 1u : channels) * sample * r.width + GAP;
    size_t total = row * r.height * (planar ? channels : 1u);
    uint8_t *out = malloc(total);
    memset(out, FILL, total);
    struct pst_pixels pixels = {
        .data = out,
        .height = r.height,
        .width = r.width,
        .channels = channels,
        .bits = p->pixels.bits,
        .row_nbytes = (int64_t)row,
        .pixel_nbytes = (int64_t)(planar ? sample : sample * channels),
        .channel_nbytes = (int64_t)(planar ? row * r.height : sample),
    };
    assert_ok(pst_pli_decode(p->encoded, p->encoded_nbytes, &r, channel, &pixels, p->scratch,
                             SCRATCH_NBYTES, &err));
    for (uint32_t y = 0; y < r.height; y++)
        for (uint32_t x = 0; x < r.width; x++)
            for (uint32_t c = 0; c < channels; c++) {
                uint32_t want =
                    at(&p->pixels, r.y + y, r.x + x, channel < 0 ? c : (uint32_t)channel);
                uint32_t got = at(&pixels, y, x, c);
                if ((want > got ? want - got : got - want) > max_error)
                    fail_msg("(%u,%u,%u) of region (%u,%u,%u,%u): %u instead of %u", y, x, c, r.y,
                             r.x, r.height, r.width, got, want);
            }
    for (size_t i = row - GAP; i < total; i += (i % row == row - 1) ? row - GAP + 1 : 1)
        assert_int_equal(out[i], FILL);
    free(out);
}

static void check_all(const struct picture *p, uint32_t max_error)
{
    uint32_t h = p->pixels.height, w = p->pixels.width;
    struct pst_pli_region regions[] = {
        {0, 0, h, w},         {h / 2, w / 2, h - h / 2, w - w / 2},
        {h / 3, w / 3, 1, 1}, {0, w - 1, h, 1},
        {h - 1, 0, 1, w},     {h / 4, w / 4, (h + 1) / 2, (w + 1) / 2},
    };
    for (size_t i = 0; i < sizeof regions / sizeof *regions; i++) {
        check_region(p, regions[i], -1, false, max_error);
        check_region(p, regions[i], -1, true, max_error);
        check_region(p, regions[i], (int)(i % p->pixels.channels), false, max_error);
    }
}

static void test_round_trip(void **state)
{
    static const uint32_t sizes[][2] = {{1, 1},    {1, 70},  {70, 1},    {63, 65},  {64, 64},
                                        {65, 130}, {33, 20}, {150, 200}, {300, 17}, {128, 576}};
    (void)state;
    for (int kind = 0; kind < N_KINDS; kind++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (uint8_t channels = 1; channels <= 4; channels++)
                for (uint8_t bits = 8; bits <= 16; bits += 8) {
                    struct picture p;
                    make(&p, (enum kind)kind, sizes[s][0], sizes[s][1], channels, bits);
                    for (int tier = PST_PLI_TIER_FAST; tier <= PST_PLI_TIER_DENSE; tier++) {
                        encode(&p, (enum pst_pli_tier)tier, 1 + (uint32_t)(s % 3), 0);
                        check_all(&p, 0);
                    }
                    drop(&p);
                }
}

static void test_efforts(void **state)
{
    (void)state;
    for (int kind = 0; kind < N_KINDS; kind++)
        for (uint32_t effort = 1; effort <= 5; effort++)
            for (int tier = PST_PLI_TIER_FAST; tier <= PST_PLI_TIER_DENSE; tier++) {
                struct picture p;
                make(&p, (enum kind)kind, 100, 140, 3, 8);
                encode(&p, (enum pst_pli_tier)tier, effort, 0);
                check_all(&p, 0);
                drop(&p);
            }
}

static void check_whole(const struct picture *p)
{
    struct pst_pli_region whole = {0, 0, p->pixels.height, p->pixels.width};
    check_region(p, whole, -1, false, 0);
}

/* Fills a rectangle of a picture of one channel with noise. */
static void put_noise(const struct picture *p, struct pst_pli_region r, uint32_t seed)
{
    for (uint32_t y = r.y; y < r.y + r.height; y++)
        for (uint32_t x = r.x; x < r.x + r.width; x++) {
            seed = seed * 1664525u + 1013904223u;
            ((uint8_t *)p->pixels.data)[(size_t)y * p->pixels.width + x] =
                (uint8_t)(1 + (seed >> 24) % 255);
        }
}

/* A case in which a literal makes the copy after it cheaper. The second unit is 7 pixels wide. Each
 * row is a pixel of noise and six zeros, so every copy follows one literal. By the counts, a
 * literal run of 1 then costs less than a run of 0, by more than the literal itself. */
static void test_a_literal_that_makes_its_run_cheaper(void **state)
{
    struct pst_pli_info info = {0};
    struct pst_error err;
    struct picture p;
    (void)state;
    make(&p, FLAT, 65, 71, 1, 8);
    memset(p.pixels.data, 0, p.nbytes);
    put_noise(&p, (struct pst_pli_region){0, 42, 61, 23}, 2654435761u + 254);
    for (uint32_t y = 60; y < 65; y++)
        memset((uint8_t *)p.pixels.data + (size_t)y * 71 + 49, 59, 16);
    put_noise(&p, (struct pst_pli_region){25, 0, 8, 29}, 9 * 2654435761u + 6);
    for (uint32_t effort = 1; effort <= 5; effort++) {
        encode(&p, PST_PLI_TIER_FAST, effort, 0);
        assert_ok(pst_pli_info(p.encoded, p.encoded_nbytes, &info, sizeof info, &err));
        assert_true(info.n_units[PSTI_PLI_LZ] > 0);
        check_whole(&p);
    }
    drop(&p);
}

/* Makes rows of `noisy` pixels of noise, followed by a pattern that repeats every `period` pixels
 * and rows. */
static void make_narrow(struct picture *p, uint32_t width, uint8_t channels, uint32_t noisy,
                        uint32_t period)
{
    uint64_t random = width * 31u + period;
    make(p, FLAT, 65, width, channels, 8);
    uint8_t *at = p->pixels.data;
    for (uint32_t y = 0; y < 65; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < channels; c++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                *at++ = (uint8_t)(x < noisy ? random >> 56 : (x + y) % period * 37 + c);
            }
}

static void test_narrow_units_of_what_comes_again(void **state)
{
    static const uint32_t periods[] = {1, 2, 5};
    (void)state;
    for (uint32_t i = 0; i < 12 * 2 * 3 * 3; i++) {
        struct picture p;
        make_narrow(&p, 1 + i % 12, i / 12 % 2 ? 3 : 1, i / 24 % 3, periods[i / 72]);
        for (int tier = PST_PLI_TIER_FAST; tier <= PST_PLI_TIER_DENSE; tier++)
            for (uint32_t effort = 1; effort <= 5; effort++) {
                encode(&p, (enum pst_pli_tier)tier, effort, 0);
                check_whole(&p);
            }
        drop(&p);
    }
}

static void test_near_lossless(void **state)
{
    static const uint32_t errors[] = {1, 2, 5, 16, 100, 127};
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        for (uint8_t bits = 8; bits <= 16; bits += 8)
            for (int kind = 0; kind < N_KINDS; kind++) {
                struct picture p;
                make(&p, (enum kind)kind, 70, 90, (uint8_t)(1 + i % 4), bits);
                encode(&p, PST_PLI_TIER_SMALL, 2, errors[i]);
                check_all(&p, errors[i]);
                drop(&p);
            }
}

static void run_backwards(void *ctx, void (*job)(void *arg, size_t i), void *arg, size_t n)
{
    (*(int *)ctx)++;
    while (n > 0)
        job(arg, --n);
}

static void test_bytes_do_not_depend_on_who_ran(void **state)
{
    struct pst_error err;
    (void)state;
    for (int tier = PST_PLI_TIER_FAST; tier <= PST_PLI_TIER_DENSE; tier++) {
        struct picture p;
        int calls = 0;
        make(&p, MIXED, 300, 200, 3, 8);
        encode(&p, (enum pst_pli_tier)tier, 3, 0);
        struct pst_pli_encode_options options = {.struct_size = sizeof options,
                                                 .tier = (enum pst_pli_tier)tier,
                                                 .run = run_backwards,
                                                 .run_ctx = &calls};
        size_t bound = pst_pli_encode_bound(300, 200, 3, 8), nbytes;
        uint8_t *room = malloc(bound);
        assert_ok(pst_pli_encode(&p.pixels, &options, room, bound, &nbytes, &err));
        assert_true(calls > 0);
        assert_int_equal(nbytes, p.encoded_nbytes);
        assert_memory_equal(room, p.encoded, nbytes);
        free(room);
        drop(&p);
    }
}

/* Makes a picture whose red and blue planes mostly follow the noise of green, so that taps and
 * filters help. */
static void make_correlated(struct picture *p)
{
    uint64_t random = 5;
    make(p, SMOOTH, 128, 192, 3, 8);
    uint8_t *at = p->pixels.data;
    for (uint32_t i = 0; i < 128 * 192; i++, at += 3) {
        uint32_t slope = 60 + i % 192 / 3 + i / 192 / 2;
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint32_t noise = (uint32_t)(random >> 40) % 24, own = (uint32_t)(random >> 33) % 5;
        at[1] = (uint8_t)(slope + noise);
        at[0] = (uint8_t)(slope + noise * 5 / 8 + own);
        at[2] = (uint8_t)(slope + noise * 3 / 8 + (own ? own / 2 : noise));
    }
}

static void test_effort_pays(void **state)
{
    struct picture p;
    (void)state;
    make_correlated(&p);
    for (enum pst_pli_tier tier = PST_PLI_TIER_FAST; tier <= PST_PLI_TIER_DENSE; tier++) {
        size_t first = 0, before = SIZE_MAX;
        for (uint32_t effort = 1; effort <= 5; effort++) {
            encode(&p, tier, effort, 0);
            check_all(&p, 0);
            /* The encoder decides by estimates, so more effort may give a slightly larger file. */
            assert_true(before == SIZE_MAX || p.encoded_nbytes < before + before / 500);
            before = p.encoded_nbytes;
            first = effort == 1 ? before : first;
        }
        assert_true(before + before / 500 < first);
    }
    drop(&p);
}

static void test_info_and_ranges(void **state)
{
    struct pst_error err;
    struct picture p;
    struct pst_pli_info info = {0};
    (void)state;
    make(&p, NOISE, 200, 300, 3, 8);
    encode(&p, PST_PLI_TIER_SMALL, 3, 0);
    assert_ok(pst_pli_info(p.encoded, 40, &info, sizeof info, &err));
    assert_int_equal(info.height, 200);
    assert_int_equal(info.width, 300);
    assert_int_equal(info.nbytes, 0);
    assert_ok(pst_pli_info(p.encoded, info.head_nbytes, &info, sizeof info, &err));
    assert_int_equal(info.nbytes, p.encoded_nbytes);
    assert_ok(pst_pli_info(p.encoded, p.encoded_nbytes, &info, sizeof info, &err));
    assert_int_equal(info.channels, 3);
    assert_int_equal(info.bits, 8);
    assert_int_equal(info.unit_edge, 64);
    assert_int_equal(info.unit_rows, 4);
    assert_int_equal(info.unit_columns, 5);
    assert_int_equal(info.tier, PST_PLI_TIER_SMALL);
    assert_int_equal(info.effort, 3);
    assert_true(info.has_checksums);
    assert_true(info.pixel_checksum == psti_hash64(p.pixels.data, p.nbytes));
    uint64_t n = 0;
    for (int m = 0; m < 8; m++)
        n += info.n_units[m];
    assert_int_equal(n, 20);

    /* Bytes outside of the ranges of a region may be garbage. */
    struct pst_pli_region region = {70, 70, 60, 120};
    struct pst_pli_range ranges[8];
    size_t n_ranges;
    assert_ok(pst_pli_ranges(p.encoded, info.head_nbytes, &region, ranges, 8, &n_ranges, &err));
    assert_int_equal(n_ranges, 2);
    uint8_t *sparse = malloc(p.encoded_nbytes);
    memset(sparse, 0xEE, p.encoded_nbytes);
    memcpy(sparse, p.encoded, info.head_nbytes);
    uint64_t read = 0;
    for (size_t i = 0; i < n_ranges; i++) {
        memcpy(sparse + ranges[i].offset, p.encoded + ranges[i].offset, ranges[i].nbytes);
        read += ranges[i].nbytes;
    }
    assert_true(read < p.encoded_nbytes / 3);
    free(p.encoded);
    p.encoded = sparse;
    check_region(&p, region, -1, false, 0);
    drop(&p);
}

static enum pst_status decode_whole(struct picture *p, struct pst_error *err)
{
    struct pst_pixels out = p->pixels;
    out.data = malloc(p->nbytes);
    enum pst_status status = pst_pli_decode(p->encoded, p->encoded_nbytes, NULL, -1, &out,
                                            p->scratch, SCRATCH_NBYTES, err);
    free(out.data);
    return status;
}

static void test_damage_is_noticed(void **state)
{
    struct picture p;
    struct pst_error err;
    (void)state;
    for (int tier = PST_PLI_TIER_FAST; tier <= PST_PLI_TIER_DENSE; tier++) {
        make(&p, SMOOTH, 130, 140, 3, 8);
        encode(&p, (enum pst_pli_tier)tier, 3, 0);
        for (size_t i = 0; i < p.encoded_nbytes; i += 1 + i / 97) {
            pst_error_clear(&err);
            p.encoded[i] ^= 0x10;
            assert_int_not_equal(decode_whole(&p, &err), PST_OK);
            assert_string_equal(err.codec, "pli");
            assert_true(err.text[0] != '\0');
            p.encoded[i] ^= 0x10;
        }
        size_t whole = p.encoded_nbytes;
        uint8_t *all = p.encoded;
        for (size_t n = 0; n < whole; n += 1 + n / 53) {
            p.encoded = malloc(n ? n : 1);
            memcpy(p.encoded, all, n);
            p.encoded_nbytes = n;
            assert_int_not_equal(decode_whole(&p, &err), PST_OK);
            free(p.encoded);
        }
        p.encoded = all;
        drop(&p);
    }
}

static void test_a_bad_unit_is_named(void **state)
{
    struct picture p;
    struct pst_error err;
    struct pst_pli_info info = {0};
    (void)state;
    make(&p, NOISE, 130, 140, 1, 8);
    encode(&p, PST_PLI_TIER_SMALL, 3, 0);
    assert_ok(pst_pli_info(p.encoded, p.encoded_nbytes, &info, sizeof info, &err));
    p.encoded[p.encoded_nbytes - 1] ^= 1;
    pst_error_clear(&err);
    assert_int_equal(decode_whole(&p, &err), PST_ERROR_CHECKSUM);
    assert_non_null(strstr(err.text, "unit in row 2, column 2"));
    assert_true(err.offset >= (int64_t)info.head_nbytes);
    check_region(&p, (struct pst_pli_region){0, 0, 128, 128}, -1, false, 0);
    drop(&p);
}

static void test_arguments(void **state)
{
    struct picture p;
    struct pst_error err;
    size_t nbytes;
    (void)state;
    make(&p, SMOOTH, 10, 10, 3, 8);
    encode(&p, PST_PLI_TIER_SMALL, 3, 0);
    size_t bound = pst_pli_encode_bound(10, 10, 3, 8);
    uint8_t *room = malloc(bound);
    struct pst_pli_encode_options options = {.struct_size = sizeof options, .effort = 6};
    assert_int_equal(pst_pli_encode(&p.pixels, &options, room, bound, &nbytes, &err),
                     PST_ERROR_ARGUMENT);
    options = (struct pst_pli_encode_options){.struct_size = sizeof options, .max_error = 128};
    assert_int_equal(pst_pli_encode(&p.pixels, &options, room, bound, &nbytes, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_pli_encode(&p.pixels, NULL, room, bound - 1, &nbytes, &err),
                     PST_ERROR_ARGUMENT);
    struct pst_pixels wrong = p.pixels;
    wrong.channels = 5;
    assert_int_equal(pst_pli_encode(&wrong, NULL, room, bound, &nbytes, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_pli_encode_bound(0, 1, 1, 8), 0);
    assert_int_equal(pst_pli_encode_bound(65536, 1, 1, 8), 0);
    assert_int_equal(pst_pli_encode_bound(1, 1, 1, 12), 0);

    struct pst_pli_region outside[] = {
        {0, 0, 11, 10}, {10, 0, 1, 1}, {0, 0, 0, 1}, {5, 5, 6, 5}, {0, 4294967295u, 1, 2}};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        struct pst_pixels out = p.pixels;
        out.height = outside[i].height;
        out.width = outside[i].width;
        assert_int_equal(pst_pli_decode(p.encoded, p.encoded_nbytes, &outside[i], -1, &out,
                                        p.scratch, SCRATCH_NBYTES, &err),
                         PST_ERROR_ARGUMENT);
    }
    assert_int_equal(pst_pli_decode(p.encoded, p.encoded_nbytes, NULL, 3, &p.pixels, p.scratch,
                                    SCRATCH_NBYTES, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(
        pst_pli_decode(p.encoded, p.encoded_nbytes, NULL, -1, &p.pixels, p.scratch, 1000, &err),
        PST_ERROR_ARGUMENT);
    free(room);
    drop(&p);
}

static void test_other_versions_are_refused(void **state)
{
    struct picture p;
    struct pst_error err;
    (void)state;
    make(&p, SMOOTH, 10, 10, 3, 8);
    encode(&p, PST_PLI_TIER_SMALL, 3, 0);
    p.encoded[4] = PSTI_PLI_VERSION + 1;
    assert_int_equal(decode_whole(&p, &err), PST_ERROR_VERSION);
    for (uint8_t version = 0; version < PSTI_PLI_VERSION; version++) {
        p.encoded[4] = version; /* this format version had other streams */
        assert_int_equal(decode_whole(&p, &err), PST_ERROR_VERSION);
        assert_non_null(strstr(err.text, "make it anew"));
    }
    drop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_efforts),
        cmocka_unit_test(test_a_literal_that_makes_its_run_cheaper),
        cmocka_unit_test(test_narrow_units_of_what_comes_again),
        cmocka_unit_test(test_near_lossless),
        cmocka_unit_test(test_bytes_do_not_depend_on_who_ran),
        cmocka_unit_test(test_effort_pays),
        cmocka_unit_test(test_info_and_ranges),
        cmocka_unit_test(test_damage_is_noticed),
        cmocka_unit_test(test_a_bad_unit_is_named),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_other_versions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
