/* test_pli_coefs.c - tests units of JPEG coefficients. The decoder restores the encoded
 * coefficients at every CPU level, for every sampling, unit size and kind of coefficients. All
 * levels treat a broken unit alike: they refuse it or give the same garbage. None reads outside of
 * the unit. */
#include "test.h"

#include "base/bits.h"
#include "base/machine/cpu.h"
#include "base/hash.h"
#include "pli/decode/pli_kernels.h"
#include "pli/encode/coefs/pli_jpeg_encode.h"
#include "pli/coefs/pli_coefs_make.h"
#include "pli/coefs/pli_coefs_one.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N_LEVELS = 2, UNIT_PAGES_NBYTES = 4 << 20, FILL = 0x5a, CANARY_NBYTES = 64 };

/* Memory that ends where a page begins that may not be read. */
struct fence {
    uint8_t *pages;
    size_t page;
};

struct fixture {
    struct fence unit;
    uint8_t *file;
    size_t file_capacity, file_nbytes;
    struct psti_pli_header header;
    struct psti_jpeg_frame frame;
    const uint8_t *tables_block;
    size_t tables_nbytes;
    struct psti_pli_coefs_tables *tables[N_LEVELS];
    uint8_t *work[N_LEVELS]; /* working memory of each level, followed by canary bytes */
    struct pst_error err;
};

static const struct psti_coefs_level *level(int i)
{
    return psti_pli_kernels_of(i == 0 ? 0 : psti_cpu_detected())->coefs;
}

static uint8_t *put_at_fence(struct fixture *f, const uint8_t *bytes, size_t n)
{
    assert_true(n <= UNIT_PAGES_NBYTES);
    uint8_t *to = f->unit.pages + UNIT_PAGES_NBYTES - n;
    memcpy(to, bytes, n);
    return to;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    f->unit.page = page;
    f->unit.pages = mmap(NULL, UNIT_PAGES_NBYTES + page, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f->unit.pages == MAP_FAILED ||
        mprotect(f->unit.pages + UNIT_PAGES_NBYTES, page, PROT_NONE) != 0)
        return -1;
    f->file_capacity = 8 << 20;
    f->file = malloc(f->file_capacity);
    for (int i = 0; i < N_LEVELS; i++)
        f->tables[i] = aligned_alloc(64, psti_round_up(psti_pli_coefs_tables_nbytes(), 64));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    munmap(f->unit.pages, UNIT_PAGES_NBYTES + f->unit.page);
    free(f->file);
    for (int i = 0; i < N_LEVELS; i++)
        free(f->tables[i]);
    free(f);
    return 0;
}

/* Encodes the image and opens the file. */
static void open_file(struct fixture *f, const struct coefs_image *image, uint8_t unit_log2)
{
    struct psti_jpeg_encode_options options = {.unit_log2 = unit_log2, .pixel_checksum = 77};
    const uint8_t *block;
    size_t nbytes;
    struct pst_error err = {0};
    assert_ok(psti_pli_jpeg_encode(&image->frame, (const int16_t *const *)image->coefs, NULL,
                                   &options, f->file, f->file_capacity, &f->file_nbytes, &err));
    assert_ok(psti_pli_parse_header(f->file, f->file_nbytes, &f->header, &err));
    assert_ok(psti_pli_check_head(f->file, f->file_nbytes, &f->header, &err));
    assert_int_equal(f->header.content, 2);
    assert_true(f->header.pixel_checksum == 77);
    assert_true(unit_log2 == 0 || f->header.unit_log2 == unit_log2);
    assert_ok(
        psti_pli_find_model(f->file, &f->header, PSTI_PLI_MODEL_FRAME, &block, &nbytes, &err));
    assert_ok(psti_pli_jpeg_parse_frame(block, nbytes, &f->header, &f->frame, &err));
    assert_ok(psti_pli_find_model(f->file, &f->header, PSTI_PLI_MODEL_COEFS, &f->tables_block,
                                  &f->tables_nbytes, &err));
    size_t work = psti_pli_coefs_work_nbytes(f->header.unit_log2, f->header.channels);
    for (int i = 0; i < N_LEVELS; i++) {
        assert_ok(psti_pli_coefs_prepare(level(i), f->tables_block, f->tables_nbytes, f->tables[i],
                                         &err));
        f->work[i] = aligned_alloc(64, psti_round_up(work, 64) + CANARY_NBYTES);
        memset(f->work[i] + work, FILL, CANARY_NBYTES);
    }
}

static void close_file(struct fixture *f)
{
    size_t work = psti_pli_coefs_work_nbytes(f->header.unit_log2, f->header.channels);
    for (int i = 0; i < N_LEVELS; i++) {
        for (size_t k = 0; k < CANARY_NBYTES; k++)
            assert_int_equal(f->work[i][work + k], FILL);
        free(f->work[i]);
    }
}

/* Checks that the planes of both levels, up to k_last, agree where they may be read. */
static void assert_same(const struct psti_pli_coefs *a, const struct psti_pli_coefs *b,
                        uint32_t k_last)
{
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->last, b->last);
    assert_memory_equal(a->n_k, b->n_k, sizeof a->n_k);
    assert_memory_equal(a->order, b->order, a->n * sizeof *a->order);
    for (uint32_t k = 0; k <= k_last && k <= a->last; k++)
        assert_memory_equal(a->planes + k * a->stride, b->planes + k * b->stride,
                            psti_round_up(a->n_k[k], 64) * sizeof(int16_t));
}

/* Decodes one unit at both levels. Status and planes must be the same. */
static enum pst_status decode(struct fixture *f, uint32_t row, uint32_t column,
                              const uint8_t *bytes, size_t nbytes, uint32_t k_last,
                              struct psti_pli_coefs *out)
{
    struct psti_pli_coefs other;
    enum pst_status status[N_LEVELS];
    for (int i = 0; i < N_LEVELS; i++) {
        struct psti_pli_coefs *to = i == 0 ? out : &other;
        psti_pli_coefs_open(&f->frame, f->header.unit_log2, row, column, to);
        status[i] =
            pli_coefs_decode(f->tables[i], bytes, nbytes, k_last, NULL, f->work[i], to, &f->err);
    }
    assert_int_equal(status[0], status[1]);
    if (status[0] == PST_OK)
        assert_same(out, &other, k_last);
    return status[0];
}

static void check_planes(const struct psti_pli_coefs *p, const struct coefs_image *image,
                         uint32_t k_last)
{
    assert_true((uintptr_t)p->planes % 64 == 0 && p->stride % 32 == 0);
    assert_int_equal(p->n_k[0], p->n);
    assert_int_equal(p->n_k[64], 0);
    for (uint32_t i = 0; i < p->n; i++) {
        const struct psti_jpeg_square *q = &p->squares[p->order[i] / 64];
        uint32_t at = p->order[i] % 64;
        size_t columns = image->frame.components[q->component].columns;
        const int16_t *block =
            image->coefs[q->component] + 64 * ((q->row + at / 8) * columns + q->column + at % 8);
        for (uint32_t k = 0; k < 64; k++) {
            if (i >= p->n_k[k])
                assert_int_equal(block[k], 0);
            else if (k <= k_last)
                assert_int_equal(p->planes[k * p->stride + i], block[k]);
        }
        uint32_t end = 63;
        while (end > 0 && block[end] == 0)
            end--;
        assert_true(i < p->n_k[end] && (end == 63 || i >= p->n_k[end + 1]));
    }
    for (uint32_t k = 0; k <= p->last && k <= k_last; k++)
        for (size_t i = p->n_k[k]; i < psti_round_up(p->n_k[k], 64); i++)
            assert_int_equal(p->planes[k * p->stride + i], 0);
}

/* The function that each_unit() calls for each unit of the open file. */
typedef void unit_check(struct fixture *f, const struct coefs_image *image, uint32_t row,
                        uint32_t column, const uint8_t *bytes, size_t nbytes, uint64_t *random);
static void each_unit(struct fixture *f, const struct coefs_image *image, unit_check *check,
                      uint64_t *random)
{
    uint32_t columns = psti_pli_unit_columns(&f->header);
    uint32_t n = columns * psti_pli_unit_rows(&f->header);
    size_t at = psti_pli_head_nbytes(&f->header);
    for (uint32_t u = 0; u < n; u++) {
        struct psti_pli_entry entry = psti_pli_parse_entry(f->file, &f->header, u);
        assert_true(at + entry.nbytes <= f->file_nbytes && entry.nbytes > 1);
        assert_int_equal(f->file[at], PSTI_PLI_COEFS);
        assert_int_equal(entry.checksum, (uint32_t)psti_hash64(f->file + at, entry.nbytes));
        check(f, image, u / columns, u % columns, f->file + at + 1, entry.nbytes - 1, random);
        at += entry.nbytes;
    }
    assert_int_equal(at, f->file_nbytes);
}

static void check_whole(struct fixture *f, const struct coefs_image *image, uint32_t row,
                        uint32_t column, const uint8_t *bytes, size_t nbytes, uint64_t *random)
{
    struct psti_pli_coefs planes;
    struct pst_error err = {0};
    const uint8_t *unit = put_at_fence(f, bytes, nbytes);
    enum pst_status status = decode(f, row, column, unit, nbytes, 63, &planes);
    err = f->err;
    assert_ok(status);
    check_planes(&planes, image, 63);
    uint32_t k_last = coefs_draw(random) % 64;
    assert_int_equal(decode(f, row, column, unit, nbytes, k_last, &planes), PST_OK);
    check_planes(&planes, image, k_last);
}

static void round_trip(struct fixture *f, const struct coefs_image *image, uint8_t unit_log2,
                       uint64_t *random)
{
    open_file(f, image, unit_log2);
    each_unit(f, image, check_whole, random);
    close_file(f);
}

static void made_up(void **state)
{
    struct fixture *f = *state;
    uint64_t random = 1;
    for (uint32_t i = 0; i < COEFS_N_KINDS * COEFS_N_SAMPLINGS * 3; i++) {
        struct coefs_image image;
        uint32_t width = 1 + coefs_draw(&random) % 300, height = 1 + coefs_draw(&random) % 300;
        if (i % 7 == 0)
            width = height = 1 + i % 17;
        coefs_make(&image, width, height, i / COEFS_N_KINDS % COEFS_N_SAMPLINGS,
                   (enum coefs_kind)(i % COEFS_N_KINDS), &random);
        round_trip(f, &image, (uint8_t)(6 + i / (COEFS_N_KINDS * COEFS_N_SAMPLINGS)), &random);
        coefs_free(&image);
    }
}

/* Tries all shapes of squares, 1x1 to 8x8 blocks. Small squares lack some neighbours, which are
 * replaced by others (docs/format-pli.md, section 8.2). */
static void small_squares(void **state)
{
    struct fixture *f = *state;
    uint64_t random = 2;
    for (uint32_t i = 0; i < 64; i++) {
        struct coefs_image image;
        coefs_make(&image, 8 * (i % 8) + 3, 8 * (i / 8) + 5, 0, COEFS_PHOTO, &random);
        round_trip(f, &image, 6, &random);
        coefs_free(&image);
    }
}

static void through_libjpeg(void **state)
{
    struct fixture *f = *state;
    uint64_t random = 3;
    static const uint8_t factors[][3] = {{1, 1, 1}, {3, 1, 1}, {3, 2, 1},
                                         {3, 2, 2}, {3, 1, 2}, {3, 4, 1}};
    static const int qualities[] = {1, 30, 75, 90, 97, 100};
    for (uint32_t i = 0; i < 36; i++) {
        struct coefs_image image;
        const uint8_t *s = factors[i % 6];
        coefs_make_jpeg(&image, 1 + coefs_draw(&random) % 400, 1 + coefs_draw(&random) % 400, s[0],
                        s[1], s[2], qualities[i / 6], i % 5 == 0, &random);
        round_trip(f, &image, 0, &random);
        coefs_free(&image);
    }
}

/* -- Broken units -- */

static void break_unit(struct fixture *f, const struct coefs_image *image, uint32_t row,
                       uint32_t column, const uint8_t *bytes, size_t nbytes, uint64_t *random)
{
    struct psti_pli_coefs planes;
    (void)image;
    /* Truncated units of many lengths. */
    size_t step = 1 + nbytes / 64;
    for (size_t n = 0; n < nbytes; n += step) {
        const uint8_t *unit = put_at_fence(f, bytes, n);
        assert_int_not_equal(decode(f, row, column, unit, n, 63, &planes), PST_OK);
        (void)decode(f, row, column, unit, n, coefs_draw(random) % 64, &planes);
    }
    /* Units with bytes past the last word. */
    uint8_t *longer = malloc(nbytes + 2);
    memcpy(longer, bytes, nbytes);
    longer[nbytes] = longer[nbytes + 1] = 0;
    for (size_t n = nbytes + 1; n <= nbytes + 2; n++)
        assert_int_not_equal(decode(f, row, column, put_at_fence(f, longer, n), n, 63, &planes),
                             PST_OK);
    free(longer);
    /* Units with flipped bits and changed bytes. Both levels must give the same result. */
    for (uint32_t i = 0; i < 200; i++) {
        uint8_t *unit = put_at_fence(f, bytes, nbytes);
        uint32_t n = 1 + (i % 4 == 3) * coefs_draw(random) % 30;
        for (uint32_t k = 0; k < n; k++) {
            /* Half of the changes hit the beginning of the unit, where the states and the raw bits
             * begin. */
            size_t room = coefs_draw(random) & 1 && nbytes > 100 ? 100 : nbytes;
            unit[coefs_draw(random) % room] ^=
                (uint8_t)(n == 1 ? 1u << coefs_draw(random) % 8 : coefs_draw(random));
        }
        (void)decode(f, row, column, unit, nbytes, i & 1 ? 63 : coefs_draw(random) % 64, &planes);
    }
}

static void broken(void **state)
{
    struct fixture *f = *state;
    uint64_t random = 4;
    for (uint32_t i = 0; i < 2 * COEFS_N_KINDS; i++) {
        struct coefs_image image;
        coefs_make(&image, 1 + coefs_draw(&random) % 150, 1 + coefs_draw(&random) % 150,
                   i % COEFS_N_SAMPLINGS, (enum coefs_kind)(i % COEFS_N_KINDS), &random);
        open_file(f, &image, 6 + (uint8_t)(i % 2));
        each_unit(f, &image, break_unit, &random);
        close_file(f);
        coefs_free(&image);
    }
}

/* Tries random bytes as a unit, with random tables. */
static void noise(void **state)
{
    struct fixture *f = *state;
    uint64_t random = 5;
    uint8_t unit[3000], block[PSTI_JPEG_TABLES_MAX_NBYTES];
    for (uint32_t i = 0; i < 600; i++) {
        struct coefs_image image;
        struct psti_pli_coefs planes;
        struct psti_jpeg_own own[PSTI_JPEG_N_TABLES];
        memset(own, 0, sizeof own);
        for (uint32_t t = 0; t < PSTI_JPEG_N_TABLES; t++) {
            uint32_t n_tokens = t < 32 ? 8 : t < 64 ? 16 : 14;
            own[t].n = (uint8_t)(coefs_draw(&random) % (n_tokens + 1));
            for (uint32_t k = 0; k < own[t].n; k++)
                own[t].q[k] = (uint8_t)(coefs_draw(&random) % 64 * (coefs_draw(&random) % 3 > 0));
            if (own[t].n > 0)
                own[t].q[coefs_draw(&random) % own[t].n] = 40;
        }
        if (i % 20 == 0) {
            if (i > 0)
                close_file(f);
            coefs_make(&image, 1 + coefs_draw(&random) % 200, 1 + coefs_draw(&random) % 200,
                       i / 20 % COEFS_N_SAMPLINGS, COEFS_PHOTO, &random);
            open_file(f, &image, 6 + (uint8_t)(i / 20 % 3));
            coefs_free(&image);
        }
        size_t n_block = psti_pli_jpeg_print_tables(own, block);
        for (int k = 0; k < N_LEVELS; k++) {
            struct pst_error err = {0};
            assert_ok(psti_pli_coefs_prepare(level(k), block, n_block, f->tables[k], &err));
        }
        size_t n = coefs_draw(&random) % sizeof unit;
        for (size_t k = 0; k < n; k++)
            unit[k] = (uint8_t)coefs_draw(&random);
        if (n > 2) {
            /* so few raw bytes that decoding goes on after them */
            unit[0] = (uint8_t)(0x80 | unit[0]);
            unit[1] = (uint8_t)(coefs_draw(&random) % (n / 128 + 1));
        }
        uint32_t k_last = i & 1 ? 63 : coefs_draw(&random) % 64;
        (void)decode(f, 0, 0, put_at_fence(f, unit, n), n, k_last, &planes);
    }
    close_file(f);
}

/* Invalid tables are refused. */
static void broken_tables(void **state)
{
    struct fixture *f = *state;
    const uint8_t none[] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    assert_int_equal(psti_pli_coefs_prepare(level(0), none, sizeof none, f->tables[0], &f->err),
                     PST_ERROR_CORRUPT);
    assert_int_equal(psti_pli_coefs_prepare(level(0), none, 0, f->tables[0], &f->err),
                     PST_ERROR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_up),         cmocka_unit_test(small_squares),
        cmocka_unit_test(through_libjpeg), cmocka_unit_test(broken),
        cmocka_unit_test(noise),           cmocka_unit_test(broken_tables),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
