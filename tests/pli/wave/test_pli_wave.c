/* Tests the wave mode through the public functions of its encoder and decoder. Pictures of every
 * size, bit depth, transform, predictor and kind are restored exactly. Errors name the fault in a
 * unit. Units end where an inaccessible page begins. */
#include "test.h"

#include "base/bits.h"
#include "base/machine/cpu.h"
#include "pli/decode/pli_kernels.h"
#include "pli/encode/pli_encode_kernels.h"
#include "pli/format/pli_jpeg_format.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { EDGE = 64, CAPACITY = 64 * 1024 };

enum kind { NOISE, SMOOTH, EXTREMES, FLAT_PLANES, RARE, STEEP, N_KINDS };

struct bench {
    struct psti_pli_wave_codes *codes;
    struct psti_pli_wave_tables *tables;
    struct psti_wave_work *work;
    uint8_t *decode_work, *guarded; /* `guarded` is the address where inaccessible memory begins */
    void *map;
    size_t map_nbytes;
    uint8_t *planes[4];
    uint8_t unit[CAPACITY], block[PSTI_PLI_WAVE_MODEL_MAX_NBYTES];
    size_t unit_nbytes, block_nbytes;
    struct psti_wave_plan plan;
    uint64_t random;
};

static void *claim(size_t nbytes)
{
    void *p = aligned_alloc(64, psti_round_up(nbytes, 64));
    assert_non_null(p);
    memset(p, 0xa5, nbytes);
    return p;
}

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    b->codes = claim(sizeof *b->codes);
    b->tables = claim(sizeof *b->tables);
    b->work = claim(sizeof *b->work);
    b->decode_work = claim(PSTI_PLI_WORK_NBYTES);
    for (uint32_t i = 0; i < 4; i++)
        b->planes[i] = claim((size_t)EDGE * EDGE * 2);
    b->map_nbytes = psti_round_up(CAPACITY, page) + page;
    b->map = mmap(NULL, b->map_nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(b->map, MAP_FAILED);
    b->guarded = (uint8_t *)b->map + b->map_nbytes - page;
    assert_int_equal(mprotect(b->guarded, page, PROT_NONE), 0);
    b->random = 1;
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    free(b->codes);
    free(b->tables);
    free(b->work);
    free(b->decode_work);
    for (uint32_t i = 0; i < 4; i++)
        free(b->planes[i]);
    munmap(b->map, b->map_nbytes);
    free(b);
    return 0;
}

static uint32_t draw(struct bench *b)
{
    b->random = b->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(b->random >> 33);
}

static uint32_t value(struct bench *b, enum kind kind, uint32_t y, uint32_t x, uint32_t c,
                      uint32_t max)
{
    switch (kind) {
    case NOISE:
        return draw(b) & max;
    case SMOOTH:
        return (max / 3 + y * 2 + x * (c + 1) + draw(b) % 5) & max;
    case EXTREMES:
        return draw(b) % 3 == 0 ? max : draw(b) % 2 * (max / 2 + 1);
    case FLAT_PLANES:
        return c % 2 == (x * 0) ? 9 + c : (y + x + draw(b) % 3) & max;
    case RARE:
        return draw(b) % 97 == 0 ? draw(b) & max : 50;
    default:
        return (y * (max / 5) + x * (max / 7)) & max;
    }
}

static void fill(struct bench *b, const struct psti_pli_source *s, enum kind kind)
{
    for (uint32_t c = 0; c < s->channels; c++)
        for (uint32_t y = 0; y < s->height; y++)
            for (uint32_t x = 0; x < s->width; x++) {
                uint32_t v = value(b, kind, y, x, c, (1u << s->bits) - 1);
                size_t at = (size_t)y * EDGE + x;
                if (s->bits == 8)
                    b->planes[c][at] = (uint8_t)v;
                else
                    psti_store_u16(b->planes[c] + 2 * at, (uint16_t)v);
            }
}

static struct psti_pli_source source_of(const struct bench *b, uint32_t height, uint32_t width,
                                        uint32_t channels, uint32_t bits, uint32_t transform)
{
    struct psti_pli_source s = {.height = height,
                                .width = width,
                                .channels = (uint8_t)channels,
                                .bits = (uint8_t)bits,
                                .transform = (uint8_t)transform,
                                .kernels = psti_pli_encode_kernels_of(psti_cpu_features())};
    for (uint32_t c = 0; c < channels; c++)
        s.planes[c] = b->planes[c];
    return s;
}

/* Encodes a unit with tables made for it, or with the built-in ones if its own are no better. */
static void encode(struct bench *b, const struct psti_pli_source *s,
                   const struct psti_pli_wave_counts *counts)
{
    b->block_nbytes = psti_pli_wave_model(counts, s->bits, b->block, sizeof b->block, b->codes);
    b->unit_nbytes =
        psti_pli_wave_encode(s, &b->plan, &b->plan, b->codes, b->work, b->unit, sizeof b->unit);
    assert_true(b->unit_nbytes > 0);
    assert_int_equal(b->unit[0], PSTI_PLI_WAVE);
}

static enum pst_status decode(struct bench *b, const struct psti_pli_source *s, size_t nbytes,
                              struct psti_pli_planes *planes, struct pst_error *err)
{
    struct psti_pli_unit unit = {.height = s->height,
                                 .width = s->width,
                                 .channels = s->channels,
                                 .bits = s->bits,
                                 .transform = s->transform,
                                 .kernels = psti_pli_kernels_of(0),
                                 .bytes = b->guarded - (nbytes - 1),
                                 .nbytes = nbytes - 1};
    memcpy(b->guarded - (nbytes - 1), b->unit + 1, nbytes - 1);
    return psti_pli_wave_decode(&unit, b->tables, b->decode_work, planes, err);
}

static void prepare(struct bench *b, const struct psti_pli_source *s)
{
    struct pst_error err;
    assert_ok(psti_pli_wave_prepare(b->block_nbytes > 0 ? b->block : NULL, b->block_nbytes, s->bits,
                                    b->tables, &err));
}

static void compare(const struct bench *b, const struct psti_pli_source *s,
                    const struct psti_pli_planes *planes)
{
    size_t sample = s->bits / 8u;
    for (uint32_t c = 0; c < s->channels; c++)
        for (uint32_t y = 0; y < s->height; y++)
            for (uint32_t x = 0; x < s->width; x++) {
                const uint8_t *got = planes->base + c * planes->plane_step +
                                     (y >> 5) * planes->band_step + (y & 31) * planes->row_step +
                                     x * sample;
                const uint8_t *wanted = b->planes[c] + ((size_t)y * EDGE + x) * sample;
                if (memcmp(got, wanted, sample) != 0)
                    fail_msg("%ux%u, %u channels of %u bits, transform %u: plane %u y %u x %u",
                             s->height, s->width, s->channels, s->bits, s->transform, c, y, x);
            }
}

static void decode_and_compare(struct bench *b, const struct psti_pli_source *s)
{
    struct pst_error err;
    struct psti_pli_planes planes;
    prepare(b, s);
    assert_ok(decode(b, s, b->unit_nbytes, &planes, &err));
    compare(b, s, &planes);
}

static void round_trip(struct bench *b, const struct psti_pli_source *s, enum kind kind, bool dense,
                       uint32_t effort)
{
    struct psti_pli_wave_counts counts = {0};
    fill(b, s, kind);
    psti_pli_wave_plan(s, dense, effort, NULL, &b->plan, &counts, b->work);
    encode(b, s, &counts);
    decode_and_compare(b, s);
    if (effort < 4)
        return;
    memset(&counts, 0, sizeof counts); /* plans again, now with the tables of the first plan */
    psti_pli_wave_plan(s, dense, effort, b->codes, &b->plan, &counts, b->work);
    encode(b, s, &counts);
    decode_and_compare(b, s);
}

static void test_sizes(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 34, 48, 62, 63, 64};
    struct bench *b = *state;
    uint32_t n = sizeof sizes / sizeof *sizes, turn = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++, turn++) {
            uint32_t channels = 1 + turn % 4, bits = turn % 3 == 0 ? 16 : 8;
            uint32_t transform = channels > 2 && turn % 5 < 3;
            struct psti_pli_source s = source_of(b, sizes[i], sizes[j], channels, bits, transform);
            round_trip(b, &s, turn % N_KINDS, turn % 2 == 0, 1 + turn % 5);
            round_trip(b, &s, (turn / 7) % N_KINDS, turn % 2 == 1, 1 + turn % 5);
        }
}

static void test_kinds(void **state)
{
    struct bench *b = *state;
    for (uint32_t kind = 0; kind < N_KINDS; kind++)
        for (uint32_t channels = 1; channels <= 4; channels++)
            for (uint32_t bits = 8; bits <= 16; bits += 8)
                for (uint32_t transform = 0; transform <= (channels > 2); transform++)
                    for (uint32_t dense = 0; dense < 2; dense++) {
                        struct psti_pli_source s = source_of(b, 64, 64, channels, bits, transform);
                        round_trip(b, &s, kind, dense, 3);
                    }
}

/* Computes the residuals of a plan as the format defines them. */
static void apply_plane(const struct psti_pli_source *s, uint32_t p,
                        const struct psti_wave_plane_plan *plane, struct psti_wave_work *work)
{
    const struct psti_wave_rows *rows = s->bits == 8 ? &psti_wave_rows_u8_c : &psti_wave_rows_u16_c;
    uint32_t n_taps = psti_pli_wave_n_taps(p, s->transform), columns = (s->width + 15) / 16;
    uint32_t list = psti_pli_wave_filter_list(p, s->transform);
    const int16_t *g = n_taps > 0 ? work->residuals[0] : work->zeros;
    const int16_t *r = n_taps > 1 ? work->residuals[1] : work->zeros;
    for (uint32_t y = 0; y < s->height; y++) {
        size_t at = (size_t)y * EDGE;
        int16_t row[EDGE];
        rows->gather(s, p, y / PSTI_WAVE_BLOCK * PSTI_WAVE_BLOCK, work);
        for (uint32_t x = 0; x < s->width; x++) {
            struct psti_wave_candidate c = {
                .predictor = plane->predictor, .a = plane->a, .b = plane->b};
            if (plane->predictor == PSTI_PLI_PREDICT_FILTERS)
                c = psti_pli_wave_filter(list, plane->filters[y / 16 * columns + x / 16]);
            if (x % 16 == 0)
                rows->find_row(work, &c, y % PSTI_WAVE_BLOCK, g + at, r + at, row);
            work->residuals[p][at + x] = row[x];
        }
    }
}

static void apply(const struct psti_pli_source *s, const struct psti_wave_plan *plan,
                  struct psti_wave_work *work)
{
    memset(work->zeros, 0, sizeof work->zeros);
    for (uint32_t p = 0; p < s->channels; p++) {
        if (plan->planes[p].predictor == PSTI_PLI_PREDICT_CONSTANT)
            memset(work->residuals[p], 0, sizeof work->residuals[p]);
        else
            apply_plane(s, p, &plan->planes[p], work);
    }
}

/* Tries plans that no encoder would choose. */
static void test_all_predictors(void **state)
{
    static const uint8_t predictors[] = {1, 2, 3, 4, 8};
    struct bench *b = *state;
    for (uint32_t turn = 0; turn < 400; turn++) {
        uint32_t channels = 1 + draw(b) % 4, bits = 8 + 8 * (draw(b) % 2);
        struct psti_pli_source s = source_of(b, 1 + draw(b) % 64, 1 + draw(b) % 64, channels, bits,
                                             channels > 2 && draw(b) % 4 > 0);
        struct psti_pli_wave_counts counts = {0};
        fill(b, &s, draw(b) % N_KINDS);
        psti_pli_wave_plan(&s, false, 3, NULL, &b->plan, &counts, b->work);
        for (uint32_t c = 0; c < channels; c++) {
            struct psti_wave_plane_plan *plane = &b->plan.planes[c];
            uint32_t n_taps = psti_pli_wave_n_taps(c, s.transform);
            if (plane->predictor == 0)
                continue;
            plane->predictor = predictors[draw(b) % 5];
            plane->a = n_taps > 0 ? (int8_t)draw(b) : 0;
            plane->b = n_taps > 1 ? (int8_t)draw(b) : 0;
            for (uint32_t i = 0; i < PSTI_PLI_WAVE_N_BLOCKS; i++)
                plane->filters[i] = (uint8_t)(draw(b) % (PSTI_PLI_N_FILTERS + 1));
        }
        apply(&s, &b->plan, b->work);
        psti_pli_wave_tokenise(&s, &b->plan, b->work);
        /* all counts are 0, so the encoder uses the built-in tables, which have every token */
        memset(&counts, 0, sizeof counts);
        encode(b, &s, &counts);
        assert_int_equal(b->block_nbytes, 0);
        decode_and_compare(b, &s);
    }
}

/* Checks that division by multiplication is exact. Tries both ends of every range of dividends
 * where an error could first appear. Waves and JPEG coefficients have different numbers of bits. */
static void check_codes_of_vectors(uint32_t bits)
{
    const uint32_t range = 1u << (32 - bits), sum = 1u << bits;
    for (uint32_t f = 1; f <= sum; f++) {
        uint64_t code = psti_pli_rans_code(bits, f, 5), reciprocal = code & UINT32_MAX;
        uint32_t fields = (uint32_t)(code >> 32), s = 32 + (fields >> PSTI_RANS_S_SHIFT);
        uint32_t down = fields >> PSTI_RANS_DOWN_SHIFT & 1;
        assert_int_equal(fields & (sum - 1), 5);
        assert_int_equal(fields >> bits & (sum - 1), sum - f);
        for (uint64_t q = 1, step = 1; q <= range; q += step, step = 1 + q / 512) {
            uint64_t below = q * f - 1, at = q == range ? below : q * f;
            assert_true(at + down <= UINT32_MAX);
            assert_int_equal((below + down) * reciprocal >> s, q - 1);
            assert_int_equal((at + down) * reciprocal >> s, at / f);
        }
        uint64_t most = (uint64_t)f * range - 1;
        assert_int_equal((most + down) * reciprocal >> s, most / f);
    }
}

static void test_codes_of_vectors(void **state)
{
    (void)state;
    check_codes_of_vectors(PSTI_PLI_PROB_BITS);
    check_codes_of_vectors(PSTI_JPEG_PROB_BITS);
    assert_true(psti_pli_wave_slot_code(0, 5) == 0);
    assert_true(psti_pli_wave_slot_code(77, 5) == psti_pli_rans_code(PSTI_PLI_PROB_BITS, 77, 5));
}

/* Tries all quotients. A frequency of 256 leaves the state unchanged, so it needs no division. */
static void test_codes_of_bytes(void **state)
{
    (void)state;
    for (uint32_t f = 1; f <= PSTI_PLI_PROB_SUM_8; f++) {
        uint64_t code = psti_pli_wave_slot_code_u8(f, 5);
        assert_int_equal(code >> 48, (PSTI_PLI_PROB_SUM_8 - f) | 5 << 8);
        for (uint32_t x = 0; f < PSTI_PLI_PROB_SUM_8 && x < f << 8; x++) {
            uint64_t scaled = x * (code >> 16 & UINT16_MAX) + (code >> 32 & UINT16_MAX);
            assert_true(scaled <= UINT16_MAX);
            assert_true((scaled * (code & UINT16_MAX)) >> 23 == x / f);
        }
    }
    assert_true(psti_pli_wave_slot_code_u8(0, 5) == 0);
}

static void test_own_tables_pay(void **state)
{
    struct bench *b = *state;
    struct psti_pli_source s = source_of(b, 64, 64, 3, 8, 1);
    struct psti_pli_wave_counts counts = {0}, none = {0};
    fill(b, &s, NOISE);
    psti_pli_wave_plan(&s, false, 3, NULL, &b->plan, &counts, b->work);
    encode(b, &s, &none);
    size_t built_in = b->unit_nbytes;
    encode(b, &s, &counts);
    assert_true(b->block_nbytes > 0);
    assert_true(b->unit_nbytes + b->block_nbytes < built_in);
    decode_and_compare(b, &s);
}

static bool is_plain(const struct psti_pli_source *s, const struct psti_wave_plan *plan)
{
    for (uint32_t c = 0; c < s->channels; c++)
        if (plan->planes[c].predictor != PSTI_PLI_PREDICT_CONSTANT &&
            (plan->planes[c].predictor != PSTI_PLI_PREDICT_MED || plan->planes[c].a != 0 ||
             plan->planes[c].b != 0))
            return false;
    return true;
}

/* Makes plane `to` equal to plane `from` plus a little noise. */
static void bind_planes(struct bench *b, uint32_t from, uint32_t to)
{
    for (size_t i = 0; i < (size_t)EDGE * EDGE; i++)
        b->planes[to][i] = (uint8_t)(b->planes[from][i] + draw(b) % 5);
}

/* Fills planes with one value and a few other samples. For each of these the predictor MED is wrong
 * three times, other predictors twice. */
static void fill_few(struct bench *b)
{
    for (size_t c = 0; c < 4; c++)
        for (size_t i = 0; i < (size_t)EDGE * EDGE; i++)
            b->planes[c][i] = draw(b) % 400 == 0 ? 99 : 50;
}

/* With 8 bits and tier small, the encoder plans plain units where other predictors save next to
 * nothing: all coded planes use MED without taps. It does so at every effort, with and without
 * tables. It does not if another predictor helps one plane, or if the small saving is a large part
 * of the unit. */
static void test_plain(void **state)
{
    struct bench *b = *state;
    for (uint32_t turn = 0; turn < 2 * 5 * 2; turn++) {
        uint32_t effort = 1 + turn / 2 % 5, transform = turn % 2;
        const struct psti_pli_wave_codes *codes = turn < 10 ? NULL : b->codes;
        struct psti_pli_source s = source_of(b, 61, 64, 4, 8, transform);
        struct psti_pli_wave_counts counts = {0};
        fill(b, &s, NOISE);
        round_trip(b, &s, NOISE, false, effort);
        assert_true(is_plain(&s, &b->plan));
        memset(b->planes[1], 7, (size_t)EDGE * EDGE); /* constant planes are ignored */
        psti_pli_wave_plan(&s, false, effort, codes, &b->plan, &counts, b->work);
        assert_int_equal(b->plan.planes[1].predictor, PSTI_PLI_PREDICT_CONSTANT);
        assert_true(is_plain(&s, &b->plan));
        bind_planes(b, 0, 2);
        psti_pli_wave_plan(&s, false, effort, codes, &b->plan, &counts, b->work);
        assert_true(is_plain(&s, &b->plan) == (transform == 0));
        fill_few(b);
        psti_pli_wave_plan(&s, false, effort, codes, &b->plan, &counts, b->work);
        assert_false(is_plain(&s, &b->plan));
    }
}

static void test_does_not_fit(void **state)
{
    struct bench *b = *state;
    struct psti_pli_source s = source_of(b, 40, 50, 3, 8, 1);
    round_trip(b, &s, SMOOTH, false, 3);
    size_t nbytes = b->unit_nbytes;
    for (size_t capacity = 0; capacity < nbytes; capacity++)
        assert_int_equal(
            psti_pli_wave_encode(&s, &b->plan, &b->plan, b->codes, b->work, b->unit, capacity), 0);
    assert_int_equal(
        psti_pli_wave_encode(&s, &b->plan, &b->plan, b->codes, b->work, b->unit, nbytes), nbytes);
}

static void test_truncated(void **state)
{
    struct bench *b = *state;
    struct psti_pli_source s = source_of(b, 24, 37, 3, 8, 1);
    round_trip(b, &s, SMOOTH, true, 3);
    for (size_t n = 1; n < b->unit_nbytes; n++) {
        struct pst_error err;
        struct psti_pli_planes planes;
        assert_int_equal(decode(b, &s, n, &planes, &err), PST_ERROR_CORRUPT);
    }
}

/* Random bytes give an error or some picture. No memory outside of the buffers is accessed. */
static void test_hostile(void **state)
{
    struct bench *b = *state;
    for (uint32_t turn = 0, bits = 8; turn < 3000; turn++) {
        uint32_t channels = 1 + draw(b) % 4;
        if (turn % 8 == 0) /* keeps the probability tables of the last round trip */
            bits = 8 + 8 * (draw(b) % 2);
        struct psti_pli_source s =
            source_of(b, 1 + draw(b) % 64, 1 + draw(b) % 64, channels, bits, channels > 2);
        struct pst_error err;
        struct psti_pli_planes planes;
        if (turn % 8 == 0)
            round_trip(b, &s, draw(b) % N_KINDS, draw(b) % 2, 1);
        size_t n = b->unit_nbytes;
        uint8_t *kept = claim(n);
        memcpy(kept, b->unit, n);
        for (uint32_t i = 0; i < 1 + turn % 5; i++)
            b->unit[1 + draw(b) % (n - 1)] = (uint8_t)draw(b);
        if (turn % 3 == 0)
            n -= draw(b) % (n - 1);
        (void)decode(b, &s, n, &planes, &err);
        memcpy(b->unit, kept, b->unit_nbytes);
        free(kept);
    }
}

static void test_hostile_model(void **state)
{
    struct bench *b = *state;
    struct pst_error err;
    static const uint8_t none[2] = {0, 0};
    assert_int_equal(psti_pli_wave_prepare(none, 1, 8, b->tables, &err), PST_ERROR_CORRUPT);
    assert_ok(psti_pli_wave_prepare(none, 2, 8, b->tables, &err));
    uint32_t n_good = 0;
    for (uint32_t turn = 0; turn < 20000; turn++) {
        uint8_t block[40];
        size_t n = draw(b) % sizeof block;
        for (size_t i = 0; i < n; i++)
            block[i] = (uint8_t)(draw(b) & draw(b) & draw(b));
        n_good += psti_pli_wave_prepare(block, n, 8 + 8 * (turn % 2), b->tables, &err) == PST_OK;
    }
    assert_in_range(n_good, 1, 19999);
}

/* Returns the token of a magnitude with 16 bits. */
static uint32_t token_of(uint32_t m)
{
    if (m < PSTI_PLI_DIRECT)
        return m;
    if (m < 32)
        return PSTI_PLI_DIRECT;
    uint32_t e = 31u - (uint32_t)__builtin_clz(m);
    return 25 + 2 * (e - 5) + ((m >> (e - 1)) & 1);
}

/* Checks that the built-in constants obey the format. */
static void test_constants(void **state)
{
    (void)state;
    for (uint32_t wide = 0; wide < 2; wide++)
        for (uint32_t c = 0; c < PSTI_PLI_N_CONTEXTS; c++) {
            uint32_t sum = 0;
            for (uint32_t i = 0; i < PSTI_PLI_N_TOKENS; i++) {
                uint32_t f = psti_pli_wave_freqs[wide][c][i];
                bool lower_has = c > 0 && psti_pli_wave_freqs[wide][c - 1][i] > 0;
                bool needed = wide || i == 0 || i == PSTI_PLI_N_TOKENS_8 - 1 || lower_has;
                assert_true(f > 0 || !needed);
                assert_true(f == 0 || i < psti_pli_wave_n_tokens(wide ? 16 : 8));
                sum += f;
            }
            assert_int_equal(sum, wide ? PSTI_PLI_PROB_SUM : PSTI_PLI_PROB_SUM_8);
        }
    for (uint32_t wide = 0; wide < 2; wide++)
        for (uint32_t e = 0; e < 256; e++) {
            const uint8_t *bucket = psti_pli_wave_bucket[wide];
            assert_true(bucket[e] < PSTI_PLI_N_CONTEXTS && bucket[e] >= bucket[e > 0 ? e - 1 : 0]);
        }
    for (uint32_t m = 0; m < 65536; m++) {
        uint32_t token = token_of(m), base = psti_pli_wave_base(token);
        assert_true(m >= base && m - base < 1u << psti_pli_wave_raw_bits(token));
    }
}

/* Tries all pairs of residuals. The token must be able to represent the pair, and its suffixes must
 * fit their bits. */
static void test_pairs(void **state)
{
    const uint8_t *activities = psti_pli_wave_activities;
    (void)state;
    for (int32_t i = 0; i < 65536; i++) {
        int32_t x = (int8_t)(i >> 8), y = (int8_t)i;
        struct psti_pli_wave_coded_pair c = psti_pli_wave_code_pair(x, y);
        struct psti_pli_wave_pair pair = psti_pli_wave_find_pair(c);
        assert_true((int8_t)pair.x == x && (int8_t)pair.y == y);
        assert_true(c.first >> psti_pli_wave_first_bits[c.token] == 0);
        assert_true(c.second >> psti_pli_wave_second_bits[c.token] == 0);
        assert_int_equal(c.token == PSTI_PLI_WAVE_ANY_PAIR, abs(x) + abs(y) >= 64);
    }
    for (uint32_t token = 0; token < PSTI_PLI_N_TOKENS_8; token++) {
        uint32_t low = activities[token] % 16;
        assert_int_equal(psti_pli_wave_tokens_of[low], token);
        assert_int_equal(psti_pli_wave_first_bits_of[low], psti_pli_wave_first_bits[token]);
        assert_int_equal(psti_pli_wave_second_bits_of[low], psti_pli_wave_second_bits[token]);
        assert_int_equal(psti_pli_wave_bases_of[low], psti_pli_wave_bases[token]);
        assert_true(token == 0 || activities[token] > activities[token - 1]);
    }
    assert_int_equal(activities[PSTI_PLI_WAVE_ANY_PAIR], PSTI_PLI_WAVE_ANY_ACTIVITY);
    assert_int_equal(activities[PSTI_PLI_WAVE_FIRST_SQUARE], PSTI_PLI_WAVE_SQUARE_ACTIVITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test_setup_teardown(test_sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_kinds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_all_predictors, set_up, tear_down),
        cmocka_unit_test(test_codes_of_vectors),
        cmocka_unit_test(test_codes_of_bytes),
        cmocka_unit_test_setup_teardown(test_own_tables_pay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_plain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_does_not_fit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_truncated, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hostile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hostile_model, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
