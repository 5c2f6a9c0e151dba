/* test_pli_coefs_levels.c - every CPU level of the coefficient decoder gives the same status and
 * coefficients as plain C. Intact units of every shape and statistic must give the encoded
 * coefficients. Damaged units and foreign tables are tried, too. Units end at unreadable pages, so
 * that a read past them crashes. */
#include "pli/coefs/pli_coefs_one.h"
#include "pli/coefs/pli_kept.h"
#include "pli/encode/coefs/pli_jpeg_encode.h"
#include "pli/pli_levels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static struct pli_level levels[PLI_LEVELS_MAX];
static uint32_t n_levels;
enum { UNIT_MAX_NBYTES = 1 << 20, FILE_MAX_NBYTES = 8 << 20 };

struct unit {
    const uint8_t *bytes;
    size_t nbytes;
    uint32_t log2, row, column;
};

struct fixture {
    struct psti_pli_coefs_tables *tables[PLI_LEVELS_MAX];
    /* `pages`: UNIT_MAX_NBYTES, then a page that must not be read */
    uint8_t *work[PLI_LEVELS_MAX], *pages;
    uint8_t *file;
    /* The unit of this image that was decoded before, to be decoded together with the next one.
     * before.nbytes is 0 if there is none. */
    struct unit before;
    uint8_t *before_bytes, *before_work;
    uint32_t before_k_last;
    struct psti_jpeg_frame frame;
    int16_t *coefs[PSTI_JPEG_COMPONENTS_MAX];
    uint64_t seed;
    /* number of damaged units that were decoded nevertheless, and that were refused */
    size_t n_same, n_failed;
    size_t n_sure; /* number of table sets in which some AC context has only one token */
};

static uint32_t below(struct fixture *f, uint32_t n)
{
    f->seed = f->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(f->seed >> 33) % n;
}

static void *aligned(size_t nbytes)
{
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, 64, nbytes), 0);
    return p;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    f->seed = 20;
    for (uint32_t i = 0; i < n_levels; i++) {
        f->tables[i] = aligned(psti_pli_coefs_tables_nbytes());
        f->work[i] = aligned(psti_pli_coefs_work_nbytes(PSTI_JPEG_UNIT_LOG2_MAX, 3));
    }
    f->file = malloc(FILE_MAX_NBYTES);
    f->before_bytes = malloc(UNIT_MAX_NBYTES);
    f->before_work = aligned(psti_pli_coefs_work_nbytes(PSTI_JPEG_UNIT_LOG2_MAX, 3));
    f->pages = mmap(NULL, UNIT_MAX_NBYTES + page, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(f->pages != MAP_FAILED);
    assert_int_equal(mprotect(f->pages + UNIT_MAX_NBYTES, page, PROT_NONE), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    munmap(f->pages, UNIT_MAX_NBYTES + (size_t)sysconf(_SC_PAGESIZE));
    for (uint32_t i = 0; i < n_levels; i++) {
        free(f->tables[i]);
        free(f->work[i]);
    }
    free(f->file);
    free(f->before_bytes);
    free(f->before_work);
    free(f);
    return 0;
}

/* -- Images -- */

struct shape {
    uint16_t width, height;
    uint8_t n_components, transform, h[3], v[3];
};
static const struct shape shapes[] = {
    {1, 1, 1, 0, {1}, {1}},
    {8, 8, 3, 1, {1, 1, 1}, {1, 1, 1}},
    {500, 375, 3, 1, {1, 1, 1}, {1, 1, 1}},
    {333, 250, 3, 1, {2, 1, 1}, {2, 1, 1}},
    {300, 70, 3, 1, {2, 1, 1}, {1, 1, 1}},
    {65, 200, 3, 1, {1, 1, 1}, {2, 1, 1}},
    {520, 17, 3, 1, {4, 1, 1}, {1, 1, 1}},
    {9, 300, 3, 0, {1, 1, 1}, {1, 1, 1}},
    {300, 9, 1, 0, {1}, {1}},
    {256, 256, 3, 1, {1, 1, 1}, {1, 1, 1}},
    {129, 129, 1, 0, {1}, {1}},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

enum kind { PHOTOGRAPH, DENSE, EXTREME, SPARSE, FLAT, N_KINDS };

/* Draws a magnitude. Large ones are rare, except for the kind EXTREME, in which all are equally
 * likely. */
static int16_t magnitude(struct fixture *f, enum kind kind, uint32_t k)
{
    if (kind == FLAT)
        return 1;
    if (kind == EXTREME || below(f, 500) == 0)
        return (int16_t)(1 + below(f, 1u << below(f, 12)));
    uint32_t most = 1 + 40 / (k + 1);
    return (int16_t)(1 + below(f, 1 + below(f, 1 + below(f, 3 * most))));
}

static void make_block(struct fixture *f, enum kind kind, uint32_t activity, int16_t *block)
{
    static const int16_t dc_spread[N_KINDS] = {200, 30, 2047, 2, 1};
    memset(block, 0, 64 * sizeof *block);
    block[0] = (int16_t)((int32_t)below(f, 2u * (uint32_t)dc_spread[kind] + 1) - dc_spread[kind]);
    uint32_t end = kind == DENSE || kind == EXTREME ? 63 : below(f, activity + 1);
    if (kind == FLAT)
        end = activity > 32;
    uint32_t density = kind == DENSE ? 200 : kind == SPARSE ? 20 : 100;
    for (uint32_t k = 1; k <= end; k++)
        if (k == end || below(f, 256) < density) {
            int16_t m = magnitude(f, kind, k);
            block[k] = below(f, 2) && kind != FLAT ? (int16_t)-m : m;
        }
}

static void make_image(struct fixture *f, const struct shape *shape, enum kind kind)
{
    f->before.nbytes = 0;
    f->frame = (struct psti_jpeg_frame){.width = shape->width,
                                        .height = shape->height,
                                        .n_components = shape->n_components,
                                        .transform = shape->transform,
                                        .orientation = 1};
    for (uint32_t k = 0; k < 64; k++)
        f->frame.quants[0][k] = 1;
    for (uint32_t c = 0; c < shape->n_components; c++)
        f->frame.components[c] = (struct psti_jpeg_component){.h = shape->h[c], .v = shape->v[c]};
    assert_true(psti_pli_jpeg_frame_measure(&f->frame));
    for (uint32_t c = 0; c < shape->n_components; c++) {
        size_t n = psti_pli_jpeg_n_coefs(&f->frame, c);
        uint32_t activity = 32;
        f->coefs[c] = malloc(n * sizeof *f->coefs[c]);
        for (size_t i = 0; i < n; i += 64) {
            if (below(f, 4) == 0)
                activity = below(f, 64) >> below(f, 3);
            make_block(f, kind, activity, f->coefs[c] + i);
        }
    }
}

static void free_image(struct fixture *f)
{
    for (uint32_t c = 0; c < f->frame.n_components; c++)
        free(f->coefs[c]);
}

/* -- Decoding at all levels -- */

static void use_tables(struct fixture *f, const uint8_t *block, size_t nbytes)
{
    for (uint32_t i = 0; i < n_levels; i++)
        assert_int_equal(
            psti_pli_coefs_prepare(levels[i].kernels->coefs, block, nbytes, f->tables[i], NULL),
            PST_OK);
    bool sure = false;
    for (uint32_t c = 0; c < PSTI_JPEG_N_AC_CONTEXTS; c++)
        for (uint32_t t = 0; t < PSTI_JPEG_N_AC_TOKENS; t++)
            sure |= f->tables[0]->freqs.ac[c][t] == PSTI_JPEG_PROB_SUM;
    f->n_sure += sure;
}

/* Checks that two levels agree. Planes are in the order of the list. */
static void assert_same(const struct psti_pli_coefs *a, const struct psti_pli_coefs *b,
                        uint32_t k_last)
{
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->n_squares, b->n_squares);
    assert_int_equal(a->last, b->last);
    assert_memory_equal(a->n_k, b->n_k, sizeof a->n_k);
    assert_memory_equal(a->order, b->order, a->n * sizeof *a->order);
    for (uint32_t k = 0; k <= a->last && k <= k_last; k++)
        assert_memory_equal(a->planes + k * a->stride, b->planes + k * b->stride,
                            psti_round_up(a->n_k[k], 64) * sizeof *a->planes);
}

/* Decodes a unit together with the one before it, as the first or the second of both. The result
 * must be that of plain C for the unit alone. */
static void decode_two(struct fixture *f, uint32_t level, const struct unit *u, uint32_t k_last,
                       enum pst_status want, const struct psti_pli_coefs *alone)
{
    const uint8_t *bytes = f->pages + UNIT_MAX_NBYTES - u->nbytes;
    for (uint32_t is_second = 0; is_second < 2; is_second++) {
        struct psti_pli_coefs out, other;
        void *works[2];
        uint32_t n = 0;
        psti_pli_coefs_open(&f->frame, u->log2, u->row, u->column, &out);
        psti_pli_coefs_open(&f->frame, f->before.log2, f->before.row, f->before.column, &other);
        enum pst_status status = psti_pli_coefs_begin(f->tables[level], bytes, u->nbytes, k_last,
                                                      f->work[level], &out, NULL);
        enum pst_status others =
            psti_pli_coefs_begin(f->tables[level], f->before.bytes, f->before.nbytes,
                                 f->before_k_last, f->before_work, &other, NULL);
        if (status == PST_OK && !is_second)
            works[n++] = f->work[level];
        if (others == PST_OK)
            works[n++] = f->before_work;
        if (status == PST_OK && is_second)
            works[n++] = f->work[level];
        psti_pli_coefs_read(works, n);
        if (status == PST_OK)
            status = psti_pli_coefs_finish(f->work[level], NULL, NULL);
        assert_int_equal(status, want);
        if (want == PST_OK)
            assert_same(alone, &out, k_last);
    }
}

/* Decodes a unit at the end of readable memory at all levels and compares. Plain C gives all
 * blocks. Levels that skip unwanted blocks must give all wanted ones. Returns the status of plain
 * C. */
static enum pst_status decode(struct fixture *f, const struct unit *u, uint32_t k_last,
                              const uint64_t *wanted, struct psti_pli_coefs *first)
{
    static struct psti_pli_coefs out[PLI_LEVELS_MAX];
    enum pst_status statuses[PLI_LEVELS_MAX] = {PST_OK};
    uint8_t *bytes = f->pages + UNIT_MAX_NBYTES - u->nbytes;
    for (uint32_t i = 0; i < n_levels; i++) {
        struct psti_pli_coefs kept;
        memmove(bytes, u->bytes, u->nbytes);
        psti_pli_coefs_open(&f->frame, u->log2, u->row, u->column, &out[i]);
        statuses[i] = pli_coefs_decode(f->tables[i], bytes, u->nbytes, k_last,
                                       i == 0 ? NULL : wanted, f->work[i], &out[i], NULL);
        assert_int_equal(statuses[i], statuses[0]);
        if (statuses[0] == PST_OK) {
            assert_int_equal(out[i].kept, i > 0 && wanted && f->tables[i]->level->keep);
            void *memory = out[i].kept ? pli_keep(&out[0], wanted, k_last, &kept) : NULL;
            assert_same(out[i].kept ? &kept : &out[0], &out[i], k_last);
            free(memory);
        }
        if (i > 0 && f->before.nbytes > 0)
            decode_two(f, i, u, k_last, statuses[0], &out[0]);
    }
    f->before = *u;
    f->before.bytes = memcpy(f->before_bytes, u->bytes, u->nbytes);
    f->before_k_last = k_last;
    *first = out[0];
    return statuses[0];
}

/* Draws the wanted blocks: of each square all, none, or some. */
static const uint64_t *draw_wanted(struct fixture *f)
{
    static uint64_t wanted[PSTI_JPEG_SQUARES_MAX];
    for (int s = 0; s < PSTI_JPEG_SQUARES_MAX; s++) {
        uint64_t some = 0;
        for (int i = 0; i < 4; i++)
            some = some << 16 | below(f, 65536);
        wanted[s] = below(f, 3) == 0 ? 0 : below(f, 2) == 0 ? UINT64_MAX : some;
    }
    return wanted;
}

static void assert_coefs(const struct fixture *f, const struct psti_pli_coefs *out, uint32_t k_last)
{
    for (uint32_t k = 0; k <= out->last && k <= k_last; k++)
        for (uint32_t i = 0; i < psti_round_up(out->n_k[k], 64); i++) {
            int16_t want = 0;
            if (i < out->n_k[k]) {
                const struct psti_jpeg_square *q = &out->squares[out->order[i] >> 6];
                size_t row = q->row + ((out->order[i] >> 3) & 7);
                size_t column = q->column + (out->order[i] & 7);
                size_t block = row * f->frame.components[q->component].columns + column;
                want = f->coefs[q->component][block * 64 + k];
            }
            assert_int_equal(out->planes[k * out->stride + i], want);
        }
}

typedef void use_unit(struct fixture *f, const struct unit *u);

/* Encodes the image and calls `use` for each of its units. */
static void for_units(struct fixture *f, uint8_t unit_log2, use_unit *use)
{
    const struct psti_jpeg_encode_options options = {.unit_log2 = unit_log2};
    struct psti_pli_header header;
    const uint8_t *block;
    size_t nbytes;
    assert_int_equal(psti_pli_jpeg_encode(&f->frame, (const int16_t *const *)f->coefs, NULL,
                                          &options, f->file, FILE_MAX_NBYTES, &nbytes, NULL),
                     PST_OK);
    assert_int_equal(psti_pli_parse_header(f->file, nbytes, &header, NULL), PST_OK);
    const uint8_t *at = f->file + psti_pli_head_nbytes(&header);
    assert_int_equal(
        psti_pli_find_model(f->file, &header, PSTI_PLI_MODEL_COEFS, &block, &nbytes, NULL), PST_OK);
    use_tables(f, block, nbytes);
    uint32_t columns = psti_pli_unit_columns(&header), rows = psti_pli_unit_rows(&header);
    for (uint32_t i = 0; i < rows * columns; i++) {
        uint32_t n = psti_pli_parse_entry(f->file, &header, i).nbytes;
        assert_int_equal(at[0], PSTI_PLI_COEFS);
        assert_in_range(n - 1, 0, UNIT_MAX_NBYTES - 64);
        const struct unit u = {at + 1, n - 1, header.unit_log2, i / columns, i % columns};
        use(f, &u);
        at += n;
    }
}

/* -- The tests -- */

static void decode_whole(struct fixture *f, const struct unit *u)
{
    struct psti_pli_coefs out;
    assert_int_equal(decode(f, u, 63, NULL, &out), PST_OK);
    assert_coefs(f, &out, 63);
    uint32_t k_last = below(f, 64);
    assert_int_equal(decode(f, u, k_last, draw_wanted(f), &out), PST_OK);
    assert_coefs(f, &out, k_last);
}

static void test_units(void **state)
{
    struct fixture *f = *state;
    f->n_sure = 0;
    for (int s = 0; s < N_SHAPES; s++)
        for (int kind = 0; kind < N_KINDS; kind++) {
            make_image(f, shapes + s, (enum kind)kind);
            for (uint8_t log2 = 6; log2 <= PSTI_JPEG_UNIT_LOG2_MAX; log2++)
                for_units(f, log2, decode_whole);
            free_image(f);
        }
    assert_true(f->n_sure > 0);
}

static void damage(struct fixture *f, const struct unit *u)
{
    uint8_t *bytes = malloc(u->nbytes + 64);
    for (int turn = 0; turn < 12; turn++) {
        struct psti_pli_coefs out;
        struct unit v = *u;
        v.bytes = bytes;
        memcpy(bytes, u->bytes, u->nbytes);
        uint32_t n = turn < 8 ? 1 : below(f, 10);
        /* the damage is near the beginning, near the end, or anywhere */
        for (uint32_t i = 0; i < n; i++)
            bytes[turn % 3 == 0   ? below(f, u->nbytes < 90 ? (uint32_t)u->nbytes : 90)
                  : turn % 3 == 1 ? (uint32_t)u->nbytes - 1 - below(f, (uint32_t)u->nbytes) / 8
                                  : below(f, (uint32_t)u->nbytes)] ^= (uint8_t)(1u << below(f, 8));
        if (turn == 9)
            v.nbytes = below(f, (uint32_t)u->nbytes);
        if (turn == 10) /* words are appended */
            for (uint32_t more = 2 * below(f, 30); more > 0; more--)
                bytes[v.nbytes++] = (uint8_t)below(f, 256);
        /* Coefficients above k_last are not checked. All levels must give the same garbage. */
        bool fails = decode(f, &v, turn < 4 ? 63 : below(f, 64), draw_wanted(f), &out) != PST_OK;
        f->n_same += !fails;
        f->n_failed += fails;
    }
    free(bytes);
}

static void test_damaged_units(void **state)
{
    struct fixture *f = *state;
    f->n_same = f->n_failed = 0;
    for (int s = 0; s < N_SHAPES; s++)
        for (int kind = 0; kind < N_KINDS; kind++) {
            make_image(f, shapes + s, (enum kind)kind);
            for_units(f, (uint8_t)(6 + below(f, 2)), damage);
            free_image(f);
        }
    /* The decoder does not detect changed raw bits. It detects changed states and words. */
    assert_true(f->n_same > 1000 && f->n_failed > 1000);
}

/* Makes tables in which some contexts have only one token, and some tokens have frequency 0. */
static void make_foreign_tables(struct fixture *f)
{
    struct psti_jpeg_own own[PSTI_JPEG_N_TABLES];
    uint8_t block[PSTI_JPEG_TABLES_MAX_NBYTES];
    for (uint32_t i = 0; i < PSTI_JPEG_N_TABLES; i++) {
        uint32_t most = i < 32 ? PSTI_JPEG_N_AC_TOKENS : i < 64 ? 16 : PSTI_JPEG_N_DC_TOKENS;
        own[i] = (struct psti_jpeg_own){.n = (uint8_t)(1 + below(f, most))};
        for (uint32_t t = 0; t < own[i].n; t++)
            own[i].q[t] = (uint8_t)(below(f, 3) ? below(f, 64) : 0);
        own[i].q[below(f, own[i].n)] = (uint8_t)(1 + below(f, 63));
    }
    use_tables(f, block, psti_pli_jpeg_print_tables(own, block));
}

static void decode_foreign(struct fixture *f, const struct unit *u)
{
    struct psti_pli_coefs out;
    for (int turn = 0; turn < 4; turn++) {
        make_foreign_tables(f);
        bool fails = decode(f, u, turn == 0 ? 63 : below(f, 16), NULL, &out) != PST_OK;
        f->n_same += !fails;
        f->n_failed += fails;
    }
}

static void test_foreign_tables(void **state)
{
    struct fixture *f = *state;
    f->n_same = f->n_failed = 0;
    for (int s = 0; s < N_SHAPES; s++) {
        make_image(f, shapes + s, PHOTOGRAPH);
        for_units(f, 7, decode_foreign);
        free_image(f);
    }
    assert_true(f->n_same > 20 && f->n_failed > 20);
}

int main(void)
{
    n_levels = pli_levels(levels);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_units, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_units, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_foreign_tables, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
