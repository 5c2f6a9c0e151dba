/* Tests units of mode lz. The decoder restores exactly the encoded pixels, for labels, drawings,
 * text and noise, for every unit size and pixel size, at every CPU level. Hostile units give an
 * error that names the fault. Nothing is read past a unit or written outside of pixels and working
 * memory. */
#include "test.h"

#include "base/bits.h"
#include "pli/encode/pli_encode_int.h"
#include "pli/encode/lz/pli_lz_int.h"
#include "pli/pli_levels.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    EDGE_MAX = 512,
    PIXEL_MAX = 8,
    SAMPLES_MAX = EDGE_MAX * EDGE_MAX * PIXEL_MAX,
    SLACK = 64, /* bytes after the pixels that the decoder may write */
    WORK_GUARD = 64,
    TABLES_AT = PSTI_PLI_WORK_NBYTES + 2 * WORK_GUARD,
    WORK_NBYTES = TABLES_AT + PSTI_PLI_LZ_TABLES_NBYTES + WORK_GUARD
};

enum kind { LABELS, STRIPES, TEXT, RAMP, NOISE, FEW, FLAT, N_KINDS };

struct fixture {
    uint8_t *bytes_end, *samples_end;  /* addresses where inaccessible pages begin */
    uint8_t *work;                     /* working memory and tables; guard bytes surround each */
    struct psti_pli_lz_tables *tables; /* tables that are reused from unit to unit */
    uint8_t *pixels, *unit;
    void *encoder_work;
    uint64_t seed;
};

static uint32_t random_below(struct fixture *f, uint32_t n)
{
    f->seed = f->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((f->seed >> 33) % n);
}

/* Allocates at least `nbytes` that end where an inaccessible page begins. Returns that end. */
static uint8_t *guarded(size_t nbytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = psti_round_up(nbytes, page);
    uint8_t *map =
        mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map + room, page, PROT_NONE), 0);
    return map + room;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->seed = 1;
    f->bytes_end = guarded(SAMPLES_MAX + SLACK);
    f->samples_end = guarded(SAMPLES_MAX + 2 * SLACK);
    f->pixels = aligned_alloc(64, SAMPLES_MAX);
    f->unit = malloc(SAMPLES_MAX + SLACK);
    f->encoder_work =
        aligned_alloc(64, psti_round_up(psti_pli_lz_work_nbytes(EDGE_MAX, PIXEL_MAX / 2, 16), 64));
    f->work = aligned_alloc(64, WORK_NBYTES);
    memset(f->work, 0xA5, WORK_NBYTES);
    f->tables = (struct psti_pli_lz_tables *)(f->work + TABLES_AT);
    psti_pli_lz_begin(f->tables);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < WORK_GUARD; i++) {
        assert_int_equal(f->work[i], 0xA5);
        assert_int_equal(f->work[TABLES_AT - WORK_GUARD + i], 0xA5);
        assert_int_equal(f->work[WORK_NBYTES - WORK_GUARD + i], 0xA5);
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = psti_round_up(SAMPLES_MAX + SLACK, page);
    size_t samples = psti_round_up(SAMPLES_MAX + 2 * SLACK, page);
    munmap(f->bytes_end - bytes, bytes + page);
    munmap(f->samples_end - samples, samples + page);
    free(f->work);
    free(f->encoder_work);
    free(f->unit);
    free(f->pixels);
    free(f);
    return 0;
}

/* Returns the colour of a label: one colour for all labels if the kind is FLAT, otherwise one of
 * very many. */
static uint32_t colour_of(uint32_t label, uint32_t kind)
{
    return kind == FLAT ? 0x55aa1177u : label * 2654435761u ^ label << 7;
}

static uint32_t label_of(struct fixture *f, enum kind kind, uint32_t y, uint32_t x)
{
    /* bitmaps of glyphs of 3 x 5 pixels */
    static const uint16_t glyphs[4] = {0x7b6f, 0x2c97, 0x73e7, 0x5aad};
    switch (kind) {
    case LABELS: /* slanting borders and a disc */
        if ((y - 40) * (y - 40) + (x - 50) * (x - 50) < 900)
            return 7;
        return x * 3 > y * 2 + 60 ? (x + 3 * y > 300 ? 3 : 2) : 1 + (y / 37) % 2;
    case STRIPES:
        return (x / (1 + y / 50)) % 5;
    case TEXT:
        if (y % 7 >= 5 || x % 4 == 3 || (y / 7 + x / 4) % 9 == 0)
            return 0;
        return glyphs[(y / 7 * 31 + x / 4 * 17) % 4] >> (y % 7 * 3 + x % 4) & 1
                   ? 1 + (x * 7 + y * 3) % 3
                   : 0;
    case RAMP:
        return y * 5 + x;
    case NOISE:
        return random_below(f, 1u << 30);
    case FEW:
        return random_below(f, 3);
    default:
        return 0;
    }
}

static void make_pixels(struct fixture *f, enum kind kind, uint32_t height, uint32_t width,
                        uint32_t P)
{
    uint8_t *out = f->pixels;
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++, out += P) {
            uint32_t label = label_of(f, kind, y, x);
            uint64_t value = P == 1 ? label : colour_of(label, kind) | (uint64_t)label << 32;
            memcpy(out, &value, P);
        }
}

struct shape {
    uint32_t height, width;
    uint8_t channels, bits;
};

static uint32_t pixel_nbytes(struct shape s) { return (uint32_t)s.channels * (s.bits / 8u); }

/* Decodes `nbytes` bytes (without the mode) at every level. All levels must give the same pixels.
 */
static enum pst_status decode(struct fixture *f, struct shape s, const uint8_t *bytes,
                              size_t nbytes, struct pst_error *err)
{
    size_t n = (size_t)s.height * s.width * pixel_nbytes(s);
    uint8_t *at = f->bytes_end - nbytes;
    uint8_t *samples = f->samples_end - psti_round_up(n + SLACK, 64);
    memmove(at, bytes, nbytes);
    struct psti_pli_unit unit = {
        .height = s.height,
        .width = s.width,
        .channels = s.channels,
        .bits = s.bits,
        .bytes = at,
        .nbytes = nbytes,
    };
    uint8_t *work = f->work + WORK_GUARD;
    struct pli_level levels[PLI_LEVELS_MAX];
    uint32_t n_levels = pli_levels(levels);
    enum pst_status statuses[PLI_LEVELS_MAX] = {PST_OK};
    uint64_t sums[PLI_LEVELS_MAX] = {0};
    for (uint32_t level = 0; level < n_levels; level++) {
        unit.kernels = levels[level].kernels;
        memset(samples, 0x5A, n);
        statuses[level] = psti_pli_lz_decode(&unit, f->tables, samples, work, NULL, err);
        assert_int_equal(statuses[level], statuses[0]);
        for (size_t i = 0; i < n && statuses[0] == PST_OK; i++)
            sums[level] = sums[level] * 31 + samples[i];
        assert_true(sums[level] == sums[0]);
    }
    return statuses[0];
}

static size_t encode(struct fixture *f, struct shape s, uint32_t effort)
{
    const struct psti_pli_source source = {
        .height = s.height,
        .width = s.width,
        .channels = s.channels,
        .bits = s.bits,
        .pixels = f->pixels,
    };
    size_t n = psti_pli_lz_encode(&source, effort, f->encoder_work, f->unit, SAMPLES_MAX + SLACK);
    assert_true(n > 1);
    assert_int_equal(f->unit[0], PSTI_PLI_LZ);
    return n;
}

static size_t round_trip(struct fixture *f, struct shape s, uint32_t effort)
{
    struct pst_error err;
    size_t n = (size_t)s.height * s.width * pixel_nbytes(s);
    size_t nbytes = encode(f, s, effort);
    assert_ok(decode(f, s, f->unit + 1, nbytes - 1, &err));
    assert_memory_equal(f->samples_end - psti_round_up(n + SLACK, 64), f->pixels, n);
    return nbytes;
}

static void test_every_pixel(void **state)
{
    struct fixture *f = *state;
    for (uint8_t channels = 1; channels <= 4; channels++)
        for (uint8_t bits = 8; bits <= 16; bits += 8)
            for (enum kind kind = 0; kind < N_KINDS; kind++)
                for (uint32_t effort = 1; effort <= 5; effort++) {
                    struct shape s = {70, 93, channels, bits};
                    make_pixels(f, kind, s.height, s.width, pixel_nbytes(s));
                    round_trip(f, s, effort);
                }
}

static void test_every_size(void **state)
{
    static const struct {
        uint32_t height, width;
    } sizes[] = {{1, 1},   {1, 2},   {2, 1},     {1, 17},    {17, 1},    {1, 512},  {512, 1},
                 {2, 2},   {3, 3},   {5, 4},     {4, 5},     {64, 64},   {63, 65},  {128, 128},
                 {7, 500}, {500, 7}, {256, 255}, {131, 300}, {512, 512}, {511, 512}};
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (enum kind kind = 0; kind < N_KINDS; kind++)
            for (uint8_t channels = 1; channels <= 4; channels++) {
                struct shape s = {sizes[i].height, sizes[i].width, channels,
                                  (i + channels) % 3 == 0 ? 16 : 8};
                make_pixels(f, kind, s.height, s.width, pixel_nbytes(s));
                round_trip(f, s, 1 + (uint32_t)(i + kind) % 3);
            }
}

/* Tries all shapes of up to 6 x 6 pixels, with two labels drawn at random. */
static void test_small(void **state)
{
    struct fixture *f = *state;
    for (uint32_t height = 1; height <= 6; height++)
        for (uint32_t width = 1; width <= 6; width++)
            for (int k = 0; k < 40; k++) {
                struct shape s = {height, width, (uint8_t)(1 + k % 4), k % 8 < 4 ? 8 : 16};
                for (uint32_t i = 0; i < height * width; i++)
                    memset(f->pixels + (size_t)i * pixel_nbytes(s), (int)random_below(f, 2) * 3,
                           pixel_nbytes(s));
                round_trip(f, s, 1 + (uint32_t)k % 5);
            }
}

/* Checks the sizes of units that the mode suits. Borders between labels cost few bytes, and a unit
 * of two labels only a handful. */
static void test_sizes(void **state)
{
    struct fixture *f = *state;
    struct shape s = {256, 256, 1, 8};
    make_pixels(f, LABELS, s.height, s.width, 1);
    assert_in_range(round_trip(f, s, 3), 1, 500);
    memset(f->pixels, 3, 256 * 256);
    memset(f->pixels + 256 * 100, 4, 256 * 156);
    assert_in_range(round_trip(f, s, 3), 1, 24);
    /* The tables are all that makes a unit of noise larger than its pixels. */
    s = (struct shape){64, 64, 3, 8};
    make_pixels(f, NOISE, s.height, s.width, 3);
    assert_in_range(round_trip(f, s, 3), 1, 64 * 64 * 3 + 256);
}

static void test_deterministic(void **state)
{
    struct fixture *f = *state;
    struct shape s = {100, 120, 4, 8};
    make_pixels(f, TEXT, s.height, s.width, 4);
    size_t nbytes = encode(f, s, 3);
    uint8_t *first = malloc(nbytes);
    memcpy(first, f->unit, nbytes);
    memset(f->encoder_work, 0xEE, psti_pli_lz_work_nbytes(EDGE_MAX, 4, 16));
    assert_int_equal(encode(f, s, 3), nbytes);
    assert_memory_equal(f->unit, first, nbytes);
    free(first);
}

/* If the unit does not fit into the output memory, the encoder reports that and writes nothing past
 * it. */
static void test_capacity(void **state)
{
    struct fixture *f = *state;
    struct shape s = {40, 50, 3, 8};
    make_pixels(f, TEXT, s.height, s.width, 3);
    const struct psti_pli_source source = {
        .height = 40, .width = 50, .channels = 3, .bits = 8, .pixels = f->pixels};
    size_t nbytes = encode(f, s, 3);
    for (size_t capacity = 0; capacity < nbytes + 4; capacity++) {
        memset(f->unit, 0xC3, nbytes + 64);
        size_t n = psti_pli_lz_encode(&source, 3, f->encoder_work, f->unit, capacity);
        assert_true(n == 0 || n == nbytes);
        /* the encoder writes words of two bytes, so it may fail with exactly enough bytes */
        assert_true(n != 0 || capacity <= nbytes);
        for (size_t i = capacity; i < nbytes + 64; i++)
            assert_int_equal(f->unit[i], 0xC3);
    }
}

static void test_truncated_and_flipped(void **state)
{
    struct fixture *f = *state;
    uint32_t n_ok = 0, n_bad = 0;
    for (enum kind kind = 0; kind < N_KINDS; kind++)
        for (uint8_t channels = 1; channels <= 4; channels++) {
            struct pst_error err;
            struct shape s = {30, 41, channels, kind % 2 ? 16 : 8};
            make_pixels(f, kind, s.height, s.width, pixel_nbytes(s));
            size_t nbytes = encode(f, s, 4) - 1;
            uint8_t *bytes = malloc(nbytes + 8);
            memcpy(bytes, f->unit + 1, nbytes);
            for (size_t n = 0; n < nbytes; n += 1 + nbytes / 300)
                assert_int_equal(decode(f, s, bytes, n, &err), PST_ERROR_CORRUPT);
            memset(bytes + nbytes, 0, 8);
            assert_int_equal(decode(f, s, bytes, nbytes + 2, &err), PST_ERROR_CORRUPT);
            for (int k = 0; k < 400; k++) {
                uint32_t bit = random_below(f, k < 200 ? 400 : (uint32_t)nbytes * 8);
                bit = bit < nbytes * 8 ? bit : 0;
                bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
                enum pst_status status = decode(f, s, bytes, nbytes, &err);
                n_ok += status == PST_OK;
                n_bad += status == PST_ERROR_CORRUPT;
                assert_true(status == PST_OK || err.offset >= 0);
                bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            }
            free(bytes);
        }
    assert_true(n_ok > 0 && n_bad > 5000);
}

static void test_garbage(void **state)
{
    struct fixture *f = *state;
    for (int k = 0; k < 20000; k++) {
        struct pst_error err;
        uint8_t bytes[200];
        struct shape s = {1 + random_below(f, 64), 1 + random_below(f, 64),
                          (uint8_t)(1 + random_below(f, 4)), random_below(f, 2) ? 8 : 16};
        size_t n = random_below(f, sizeof bytes);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)random_below(f, i < 6 ? 40 : 256);
        if (decode(f, s, bytes, n, &err) != PST_OK)
            assert_true(err.text[0] != 0);
    }
}

/* The three tokens of a sequence. build() writes units of one lane with built-in tables from
 * them. */
struct tokens {
    uint8_t run, offset, length;
};

static void add_symbol(struct psti_lz_symbol *symbols, size_t *n, const uint16_t *freqs,
                       uint32_t symbol)
{
    uint32_t start = 0;
    for (uint32_t i = 0; i < symbol; i++)
        start += freqs[i];
    symbols[(*n)++] =
        (struct psti_lz_symbol){freqs[symbol], (uint16_t)start, 0, PSTI_PLI_LZ_SEQUENCE_BITS};
}

/* Builds a unit of tokens, raw bits and literals. `literals` are samples of one channel of 8 bits.
 */
static size_t build(uint8_t *out, const struct tokens *tokens, uint32_t n_tokens,
                    const uint8_t *literals, uint32_t n_literals, const uint8_t *raw,
                    uint8_t raw_nbytes)
{
    const struct psti_pli_lz_built_in *t = psti_pli_lz_built_in;
    struct psti_lz_symbol symbols[256];
    size_t n = 0;
    uint32_t ending = PSTI_PLI_LZ_ENDING_FIRST;
    for (uint32_t i = 0; i < n_tokens; i++) {
        const struct tokens *k = tokens + i;
        add_symbol(symbols, &n, t->run[psti_pli_lz_run_context(ending)], k->run);
        add_symbol(symbols, &n, t->offset[k->run ? PSTI_PLI_LZ_OFFSET_AFTER_RUN : ending],
                   k->offset);
        add_symbol(symbols, &n, t->length[psti_pli_lz_offset_class(k->offset)], k->length);
        ending = psti_pli_lz_ending(k->offset, k->length);
    }
    for (uint32_t i = 0; i < n_literals; i++)
        symbols[n++] =
            (struct psti_lz_symbol){8, (uint16_t)(literals[i] * 8), 0, PSTI_PLI_LZ_PIXEL_BITS};
    uint32_t table_bits =
        (n_tokens ? 2u * PSTI_PLI_LZ_N_SEQUENCE_TABLES : 0) + (n_literals ? 2 : 0);
    uint8_t tables_nbytes = (uint8_t)((table_bits + 7) / 8);
    uint8_t head[] = {0, (uint8_t)n_tokens, (uint8_t)n_literals, 0, raw_nbytes, tables_nbytes};
    memcpy(out, head, sizeof head);
    uint8_t *p = out + sizeof head + 4;
    memset(p, 0, tables_nbytes);
    p += tables_nbytes;
    if (raw_nbytes > 0)
        memcpy(p, raw, raw_nbytes);
    p += raw_nbytes;
    return (size_t)(p - out) + psti_pli_lz_put_states(symbols, n, 1, out + sizeof head, p, 4096);
}

enum { EDGE_1 = PSTI_PLI_LZ_N_RUNS, LEFT = 3, ABOVE = 7, EXPLICIT = PSTI_PLI_LZ_EXPLICIT };

static void expect(struct fixture *f, const char *cause, const struct tokens *tokens, uint32_t n,
                   uint32_t n_literals, const uint8_t *raw, uint8_t raw_nbytes)
{
    static const uint8_t literals[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct shape s = {4, 4, 1, 8};
    uint8_t bytes[8192];
    struct pst_error err;
    size_t nbytes = build(bytes, tokens, n, literals, n_literals, raw, raw_nbytes);
    enum pst_status status = decode(f, s, bytes, nbytes, &err);
    if (!cause) {
        assert_int_equal(status, PST_OK);
        return;
    }
    assert_int_equal(status, PST_ERROR_CORRUPT);
    if (!strstr(err.text, cause))
        fail_msg("\"%s\" instead of \"%s\"", err.text, cause);
}

/* Decodes valid units of 4 x 4 pixels first, then units with one fault each. */
static void test_hostile(void **state)
{
    struct fixture *f = *state;
    const struct tokens fill[] = {{1, LEFT, 14}}; /* one literal, then 15 copies */
    expect(f, NULL, fill, 1, 1, NULL, 0);
    const struct tokens rows[] = {{4, ABOVE, 11}};
    expect(f, NULL, rows, 1, 4, NULL, 0);
    /* The pixels are 1 2 3 3. One copy goes up to the second edge of that row, another one to the
     * end of the unit. */
    const struct tokens edges[] = {{3, LEFT, 0}, {0, ABOVE, EDGE_1 + 1}, {0, LEFT, 9}};
    expect(f, NULL, edges, 3, 3, NULL, 0);
    const struct tokens far[] = {{8, EXPLICIT + 5, 7}}; /* distance 8 + raw bits, which are 0 */
    const uint8_t zero = 0, two = 2;
    expect(f, NULL, far, 1, 8, &zero, 1);

    expect(f, "raw bits do not come out even", far, 1, 8, NULL, 0);
    expect(f, "offset before the first pixel", far, 1, 8, &two, 1);
    const struct tokens first[] = {{0, LEFT, 14}};
    expect(f, "offset before the first pixel", first, 1, 1, NULL, 0);
    const struct tokens right[] = {{4, ABOVE + 2, 11}}; /* distance 4 - 1 */
    expect(f, NULL, right, 1, 4, NULL, 0);
    const struct tokens ahead[] = {{4, ABOVE + 6, 11}}; /* distance 4 - 3 */
    expect(f, NULL, ahead, 1, 4, NULL, 0);
    const struct tokens zero_offset[] = {{4, ABOVE + 8, 11}}; /* distance 4 - 4 */
    expect(f, "offset before the first pixel", zero_offset, 1, 4, NULL, 0);
    const struct tokens long_run[] = {{5, ABOVE, 10}};
    expect(f, "more literals than there are", long_run, 1, 4, NULL, 0);
    const struct tokens long_copy[] = {{1, LEFT, 15}};
    expect(f, "more pixels than the unit has", long_copy, 1, 1, NULL, 0);
    const struct tokens into_literals[] = {{1, LEFT, 13}};
    expect(f, "more pixels than the unit has", into_literals, 1, 3, NULL, 0);
    const struct tokens short_copy[] = {{1, LEFT, 12}};
    expect(f, "fewer pixels than the unit has", short_copy, 1, 1, NULL, 0);
    const struct tokens no_edge[] = {{1, LEFT, 3}, {0, ABOVE, EDGE_1}};
    expect(f, "length of an edge that is not there", no_edge, 2, 1, NULL, 0);
    const struct tokens beyond[] = {{4, ABOVE, EDGE_1 + 4}};
    expect(f, "length of an edge that is not there", beyond, 1, 4, NULL, 0);
    const struct tokens before[] = {{4, ABOVE, EDGE_1 + PSTI_PLI_LZ_EDGE_N}}; /* length 1 - 1 */
    expect(f, "length of an edge that is not there", before, 1, 4, NULL, 0);
}

/* Checks for which images the encoder chooses the mode. */
static void test_suits(void **state)
{
    static const bool expected[N_KINDS] = {
        [LABELS] = true, [STRIPES] = true, [FLAT] = true, [RAMP] = false, [NOISE] = false};
    struct fixture *f = *state;
    for (enum kind kind = 0; kind < N_KINDS; kind++) {
        struct shape s = {200, 300, 3, 8};
        make_pixels(f, kind, s.height, s.width, 3);
        const struct pst_pixels pixels = {f->pixels, 200, 300, 3, 8, 900, 3, 1};
        if (kind != TEXT && kind != FEW)
            assert_int_equal(psti_pli_lz_suits(&pixels) != 0, expected[kind]);
    }
    for (uint32_t n = 1; n < 5; n++) { /* the smallest images must not cause errors */
        const struct pst_pixels pixels = {f->pixels, 5 - n, n, 1, 8, n, 1, 1};
        assert_true(psti_pli_lz_suits(&pixels) <= PSTI_PLI_UNIT_LOG2_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_pixel, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_size, setup, teardown),
        cmocka_unit_test_setup_teardown(test_small, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deterministic, setup, teardown),
        cmocka_unit_test_setup_teardown(test_capacity, setup, teardown),
        cmocka_unit_test_setup_teardown(test_truncated_and_flipped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_garbage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_suits, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
