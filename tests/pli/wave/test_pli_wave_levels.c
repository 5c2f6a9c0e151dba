/* test_pli_wave_levels.c - every CPU level of the wave decoder gives the same status and samples as
 * plain C, on valid units of every shape and predictor and on damaged units. The same holds for
 * levels that decode several units at once. Units end at unreadable pages, so that a read past them
 * crashes. AVX-512 is emulated if the processor lacks it. */
#include "pli/pli_levels.h"
#include "pli/wave/pli_wave_make.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = PSTI_PLI_WAVE_MOST_UNITS };
static struct pli_level levels[PLI_LEVELS_MAX];
static uint32_t n_levels;

struct fixture {
    struct psti_pli_wave_tables *tables;
    struct pli_wave_freqs freqs;
    uint8_t *work[PLI_LEVELS_MAX], *unit; /* `unit` has PLI_WAVE_MAX_NBYTES bytes */
    uint8_t *pages;           /* PLI_WAVE_MAX_NBYTES bytes, then a page that must not be read */
    uint8_t *all_pages[MOST]; /* one for each unit decoded at once; [0] is `pages` */
    uint8_t *plain_work[MOST], *some_work;
    uint64_t seed;
    uint32_t bits;           /* bits per sample of the units that tests make */
    size_t n_some[MOST + 1]; /* [n]: number of groups of n units that were decoded at once */
    /* number of damaged units that were decoded nevertheless, and that were refused */
    size_t n_same, n_failed;
};

static uint8_t *aligned(size_t nbytes)
{
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, 64, nbytes), 0);
    return p;
}

static uint8_t *guarded(size_t page)
{
    uint8_t *p = mmap(NULL, PLI_WAVE_MAX_NBYTES + page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    assert_int_equal(mprotect(p + PLI_WAVE_MAX_NBYTES, page, PROT_NONE), 0);
    return p;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    f->tables = (void *)aligned(PSTI_PLI_TABLES_NBYTES);
    for (uint32_t i = 0; i < n_levels; i++)
        f->work[i] = aligned(PSTI_PLI_WORK_NBYTES);
    f->some_work = aligned(PSTI_PLI_WORK_NBYTES);
    f->unit = malloc(PLI_WAVE_MAX_NBYTES);
    for (uint32_t u = 0; u < MOST; u++) {
        f->all_pages[u] = guarded(page);
        f->plain_work[u] = aligned(PSTI_PLI_WORK_NBYTES);
    }
    f->pages = f->all_pages[0];
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    for (uint32_t u = 0; u < MOST; u++) {
        munmap(f->all_pages[u], PLI_WAVE_MAX_NBYTES + (size_t)sysconf(_SC_PAGESIZE));
        free(f->plain_work[u]);
    }
    for (uint32_t i = 0; i < n_levels; i++)
        free(f->work[i]);
    free(f->some_work);
    free(f->tables);
    free(f->unit);
    free(f);
    return 0;
}

static uint32_t below(struct fixture *f, uint32_t n) { return pli_wave_random(&f->seed) % n; }

static void use_tables(struct fixture *f, const uint8_t *block, size_t nbytes, uint32_t bits)
{
    struct psti_pli_wave_freqs freqs;
    assert_int_equal(psti_pli_wave_prepare(block, nbytes, bits, f->tables, NULL), PST_OK);
    assert_int_equal(psti_pli_wave_parse_model(block, nbytes, bits, &freqs, NULL), PST_OK);
    memcpy(f->freqs.f, freqs.f, sizeof f->freqs.f);
}

static void same_samples(const struct psti_pli_unit *unit, const struct psti_pli_planes *a,
                         const struct psti_pli_planes *b, const char *name)
{
    size_t row_nbytes = (size_t)unit->width * (unit->bits / 8u);
    for (uint32_t c = 0; c < unit->channels; c++)
        for (uint32_t y = 0; y < unit->height; y++) {
            const uint8_t *p =
                a->base + c * a->plane_step + (y >> 5) * a->band_step + (y & 31) * a->row_step;
            const uint8_t *q =
                b->base + c * b->plane_step + (y >> 5) * b->band_step + (y & 31) * b->row_step;
            if (memcmp(p, q, row_nbytes) != 0) {
                for (size_t x = 0; x < row_nbytes; x++)
                    if (p[x] != q[x])
                        fail_msg("%s, %ux%ux%u, transform %u: plane %u, row %u, byte %zu: %u "
                                 "instead of %u",
                                 name, unit->height, unit->width, unit->channels, unit->transform,
                                 c, y, x, q[x], p[x]);
            }
        }
}

static struct psti_pli_unit unit_at_end(const uint8_t *pages, const struct pli_wave_recipe *recipe,
                                        size_t nbytes)
{
    return (struct psti_pli_unit){
        .height = recipe->height,
        .width = recipe->width,
        .channels = (uint8_t)recipe->channels,
        .bits = (uint8_t)recipe->bits,
        .transform = (uint8_t)recipe->transform,
        .bytes = pages + PLI_WAVE_MAX_NBYTES - nbytes,
        .nbytes = nbytes,
    };
}

/* Decodes the last `nbytes` of f->pages at all levels and compares. Returns the status of plain C.
 */
static enum pst_status compare(struct fixture *f, const struct pli_wave_recipe *recipe,
                               size_t nbytes)
{
    struct psti_pli_unit unit = unit_at_end(f->pages, recipe, nbytes);
    struct psti_pli_planes planes[PLI_LEVELS_MAX];
    struct pst_error errors[PLI_LEVELS_MAX];
    enum pst_status statuses[PLI_LEVELS_MAX] = {PST_OK};
    for (uint32_t i = 0; i < n_levels; i++) {
        struct psti_pli_wave_head head;
        memset(errors[i].text, 0, sizeof errors[i].text);
        statuses[i] = psti_pli_wave_parse(&unit, &head, &errors[i]);
        if (statuses[i] != PST_OK)
            return statuses[i];
        memset(f->work[i], 0x55 + i, PSTI_PLI_WORK_NBYTES);
        statuses[i] =
            levels[i].kernels->wave(&unit, &head, f->tables, f->work[i], &planes[i], &errors[i]);
        if (statuses[i] != statuses[0])
            fail_msg("%s, %ux%ux%u, transform %u: status %d instead of %d", levels[i].name,
                     unit.height, unit.width, unit.channels, unit.transform, (int)statuses[i],
                     (int)statuses[0]);
        if (statuses[i] == PST_OK)
            same_samples(&unit, &planes[0], &planes[i], levels[i].name);
        else
            assert_string_equal(errors[i].text, errors[0].text);
    }
    return statuses[0];
}

/* Moves the unit towards lower addresses, so that readable bytes follow it. */
static void put_behind(struct fixture *f, struct psti_pli_unit *unit)
{
    enum { BEHIND = 128 };
    uint8_t *bytes = (uint8_t *)unit->bytes - BEHIND;
    memmove(bytes, unit->bytes, unit->nbytes);
    for (uint32_t i = 0; i < BEHIND; i++)
        bytes[unit->nbytes + i] = (uint8_t)below(f, 256);
    unit->bytes = bytes;
    unit->nbytes_behind = BEHIND;
}

/* Decodes the units at the ends of f->all_pages in one call. Each must give the status and samples
 * that plain C gives for it alone. The call's error must be that of the first unit that fails. */
static void compare_some(struct fixture *f, const struct pli_wave_recipe *recipes,
                         const size_t *nbytes, uint32_t n_units)
{
    struct psti_pli_unit units[MOST];
    struct psti_pli_wave_head heads[MOST];
    struct psti_pli_planes planes[MOST];
    enum pst_status statuses[MOST];
    struct pst_error first = {0};
    bool failed = false;
    for (uint32_t u = 0; u < n_units; u++) {
        units[u] = unit_at_end(f->all_pages[u], recipes + u, nbytes[u]);
        if (below(f, 2))
            put_behind(f, units + u);
        if (psti_pli_wave_parse(units + u, heads, NULL) != PST_OK)
            return;
        memset(f->plain_work[u], 0x55, PSTI_PLI_WORK_NBYTES);
        statuses[u] = psti_pli_wave_decode_c(units + u, heads, f->tables, f->plain_work[u],
                                             planes + u, failed ? NULL : &first);
        failed = failed || statuses[u] != PST_OK;
    }
    for (uint32_t i = 0; i < n_levels; i++) {
        struct psti_pli_planes all[MOST];
        struct pst_error err = {0};
        enum pst_status got[MOST];
        const struct psti_pli_kernels *k = levels[i].kernels;
        if (psti_pli_wave_most_units(k, f->bits) < n_units)
            continue;
        for (uint32_t u = 0; u < n_units; u++)
            psti_pli_wave_parse(units + u, heads + u, NULL);
        memset(f->some_work, 0xaa, PSTI_PLI_WORK_NBYTES);
        if (!(f->bits == 8 ? k->wave_some_u8 : k->wave_some_u16)(units, heads, n_units, f->tables,
                                                                 f->some_work, all, got, &err))
            continue;
        f->n_some[n_units]++;
        for (uint32_t u = 0; u < n_units; u++) {
            assert_int_equal(got[u], statuses[u]);
            if (got[u] == PST_OK)
                same_samples(units + u, planes + u, all + u, levels[i].name);
        }
        assert_string_equal(err.text, first.text);
    }
}

/* Makes all coded planes MED without taps. Some levels have special code for such units. */
static void make_plain(struct pli_wave_recipe *r)
{
    for (uint32_t c = 0; c < r->channels; c++) {
        if (r->planes[c].predictor != PSTI_PLI_PREDICT_CONSTANT)
            r->planes[c].predictor = PSTI_PLI_PREDICT_MED;
        r->planes[c].a = r->planes[c].b = 0;
    }
}

/* Draws a recipe for a random unit. */
static struct pli_wave_recipe any_recipe(struct fixture *f)
{
    static const uint8_t sizes[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 34, 47, 63, 64, 64, 64, 64};
    static const uint8_t predictors[] = {0, 1, 2, 3, 4, 4, 4, 8, 8, 8};
    struct pli_wave_recipe r = {
        .height = below(f, 4) ? sizes[below(f, sizeof sizes)] : 1 + below(f, 64),
        .width = below(f, 4) ? sizes[below(f, sizeof sizes)] : 1 + below(f, 64),
        .channels = 1 + below(f, 4),
        .bits = f->bits,
        .spread = 1u << below(f, f->bits),
        .zeros = below(f, 257),
        .extremes = below(f, 8) == 0,
    };
    r.transform = r.channels >= 3 ? below(f, 4) != 0 : 0;
    bool one = below(f, 2);
    for (uint32_t c = 0; c < r.channels; c++) {
        r.planes[c].predictor =
            one && c > 0 ? r.planes[0].predictor : predictors[below(f, sizeof predictors)];
        r.planes[c].start = (uint16_t)below(f, 1u << f->bits);
        int limit = below(f, 4) ? 20 : 100;
        r.planes[c].a = below(f, 3) ? (int8_t)(below(f, (uint32_t)limit) - (uint32_t)limit / 2) : 0;
        r.planes[c].b = below(f, 3) ? (int8_t)(below(f, (uint32_t)limit) - (uint32_t)limit / 2) : 0;
        uint32_t n = below(f, 2) ? 33 : 1 + below(f, 3);
        for (int i = 0; i < PSTI_PLI_WAVE_N_BLOCKS; i++)
            r.planes[c].filters[i] = (uint8_t)below(f, n);
    }
    if (below(f, 8) == 0)
        make_plain(&r);
    return r;
}

static size_t make(struct fixture *f, const struct pli_wave_recipe *r)
{
    size_t n = pli_wave_make(r, &f->freqs, &f->seed, f->unit);
    memcpy(f->pages + PLI_WAVE_MAX_NBYTES - n, f->unit, n);
    return n;
}

/* Makes units of the recipe, as many as any level decodes at once, and compares their results. */
static void compare_most(struct fixture *f, const struct pli_wave_recipe *r)
{
    struct pli_wave_recipe recipes[MOST];
    size_t n[MOST];
    /* each unit is made on f->pages; unit 0 is made last, so it stays there */
    for (uint32_t u = MOST; u-- > 0;) {
        recipes[u] = *r;
        n[u] = make(f, r);
        if (u > 0)
            memcpy(f->all_pages[u] + PLI_WAVE_MAX_NBYTES - n[u],
                   f->pages + PLI_WAVE_MAX_NBYTES - n[u], n[u]);
    }
    compare_some(f, recipes, n, MOST);
}

static uint32_t rounds(uint32_t n)
{
    const char *more = getenv("PENSTOCK_TEST_ROUNDS");
    return more ? n * (uint32_t)atoi(more) : n;
}

static void test_valid_units(struct fixture *f)
{
    use_tables(f, NULL, 0, f->bits);
    for (uint32_t i = 0; i < rounds(600); i++) {
        struct pli_wave_recipe r = any_recipe(f);
        assert_int_equal(compare(f, &r, make(f, &r)), PST_OK);
    }
}

/* Tries all predictors of three planes in units of full width with 32 or 64 rows, for which levels
 * have faster code. */
static void test_whole_units(struct fixture *f)
{
    static const uint8_t predictors[] = {0, 1, 2, 3, 4, 8};
    use_tables(f, NULL, 0, f->bits);
    for (uint32_t i = 0; i < 6 * 6 * 6 * 2; i++) {
        struct pli_wave_recipe r = any_recipe(f);
        r.height = i % 2 ? 64 : 32;
        r.width = 64;
        r.channels = 3;
        r.transform = below(f, 4) != 0;
        r.planes[0].predictor = predictors[i / 2 % 6];
        r.planes[1].predictor = predictors[i / 12 % 6];
        r.planes[2].predictor = predictors[i / 72];
        assert_int_equal(compare(f, &r, make(f, &r)), PST_OK);
    }
}

/* Tries tables that belong to an image, with few tokens in some contexts. */
static void test_own_tables(struct fixture *f)
{
    /* largest number of entries of a table */
    const uint32_t most = f->bits == 8 ? PSTI_PLI_N_TOKENS_8 : 24;
    for (uint32_t i = 0; i < rounds(200); i++) {
        struct psti_pli_wave_own own[PSTI_PLI_N_CONTEXTS];
        uint8_t block[PSTI_PLI_WAVE_MODEL_MAX_NBYTES];
        uint16_t freqs[PSTI_PLI_N_TOKENS];
        for (uint32_t c = 0; c < PSTI_PLI_N_CONTEXTS; c++) {
            do {
                own[c].n = (uint8_t)(below(f, 3) ? 1 + below(f, most) : below(f, 2));
                for (uint32_t k = 0; k < own[c].n; k++)
                    own[c].q[k] = (uint8_t)(below(f, 4) ? below(f, 64) : 0);
            } while (own[c].n > 0 && !psti_pli_wave_expand(&own[c], f->bits, freqs));
        }
        size_t nbytes = psti_pli_wave_print_model(own, block);
        use_tables(f, block, nbytes, f->bits);
        struct pli_wave_recipe r = any_recipe(f);
        r.spread = r.spread > 20 ? 20 : r.spread;
        r.extremes = false;
        /* A token that some table lacks is drawn again from 0..23, so every table must have at
         * least one of these tokens. */
        bool all = true;
        for (uint32_t c = 0; c < PSTI_PLI_N_CONTEXTS; c++) {
            bool any = false;
            for (uint32_t k = 0; k < 24; k++)
                any = any || f->freqs.f[c][k] != 0;
            all = all && any;
        }
        if (!all)
            continue;
        assert_int_equal(compare(f, &r, make(f, &r)), PST_OK);
        if (f->bits == 8 && i % 2 == 0)
            compare_most(f, &r);
    }
}

static void damage(struct fixture *f, size_t n)
{
    uint8_t *bytes = f->pages + PLI_WAVE_MAX_NBYTES - n;
    for (uint32_t k = 1 + below(f, 3); k > 0; k--) {
        /* Half of the damage hits the head and the raw bits, after which decoding may go on. */
        uint32_t reach = below(f, 2) && n > 400 ? 400 : (uint32_t)n;
        bytes[below(f, reach)] ^= (uint8_t)(1u << below(f, 8));
    }
}

static void test_damaged_units(struct fixture *f)
{
    use_tables(f, NULL, 0, f->bits);
    for (uint32_t i = 0; i < rounds(400); i++) {
        struct pli_wave_recipe r = any_recipe(f);
        size_t n = make(f, &r);
        for (int k = 0; k < 4; k++) {
            memcpy(f->pages + PLI_WAVE_MAX_NBYTES - n, f->unit, n);
            damage(f, n);
            if (compare(f, &r, n) == PST_OK)
                f->n_same++;
            else
                f->n_failed++;
        }
    }
    assert_true(f->n_same > 20);
    assert_true(f->n_failed > 200);
}

static void test_truncated_units(struct fixture *f)
{
    use_tables(f, NULL, 0, f->bits);
    for (uint32_t i = 0; i < rounds(150); i++) {
        struct pli_wave_recipe r = any_recipe(f);
        size_t n = make(f, &r);
        for (int k = 0; k < 4; k++) {
            size_t cut = k < 2 ? 1 + (size_t)k : 1 + below(f, (uint32_t)n);
            cut = cut < n ? cut : n;
            memcpy(f->pages + PLI_WAVE_MAX_NBYTES - (n - cut), f->unit, n - cut);
            assert_int_not_equal(compare(f, &r, n - cut), PST_OK);
        }
        /* Decodes the same unit with bytes after it. */
        memcpy(f->pages + PLI_WAVE_MAX_NBYTES - n - 2, f->unit, n);
        memset(f->pages + PLI_WAVE_MAX_NBYTES - 2, 0, 2);
        assert_int_not_equal(compare(f, &r, n + 2), PST_OK);
    }
}

/* Tests units of random bytes after a valid beginning. */
static void test_noise(struct fixture *f)
{
    use_tables(f, NULL, 0, f->bits);
    for (uint32_t i = 0; i < rounds(300); i++) {
        struct pli_wave_recipe r = any_recipe(f);
        size_t n = make(f, &r), keep = 40 + below(f, 100), extra = below(f, 65536);
        uint8_t *bytes = f->pages + PLI_WAVE_MAX_NBYTES - n;
        if (n + extra < PLI_WAVE_MAX_NBYTES) {
            bytes -= extra;
            memcpy(bytes, f->unit, n);
            n += extra;
        }
        for (size_t k = keep; k < n; k++)
            bytes[k] = (uint8_t)pli_wave_random(&f->seed);
        (void)compare(f, &r, n);
    }
}

/* Draws a recipe for a unit to be decoded together with `r`. One of twenty cannot be. One of four
 * has another width. */
static struct pli_wave_recipe any_companion(struct fixture *f, const struct pli_wave_recipe *r)
{
    struct pli_wave_recipe s = any_recipe(f);
    if (below(f, 20) == 0)
        return s;
    s.height = r->height;
    if (below(f, 4))
        s.width = r->width;
    s.channels = r->channels;
    s.transform = r->transform;
    for (uint32_t c = 0; c < s.channels; c++) {
        bool constant = r->planes[c].predictor == 0;
        if (constant || s.planes[c].predictor == 0 || below(f, 2))
            s.planes[c].predictor = r->planes[c].predictor;
    }
    return s;
}

/* Decodes two to MOST units at once. Some groups contain damaged units. */
static void test_some_units(struct fixture *f)
{
    use_tables(f, NULL, 0, f->bits);
    for (uint32_t i = 0; i < rounds(900); i++) {
        struct pli_wave_recipe r[MOST];
        size_t n[MOST];
        uint32_t n_units = 2 + i % (MOST - 1);
        r[0] = any_recipe(f);
        if (i % 4 == 0) { /* units of full size, for which levels have faster code */
            r[0].height = r[0].width = 64;
            r[0].channels = 3;
            r[0].planes[2].predictor = r[0].planes[0].predictor;
        }
        bool plain = below(f, 6) == 0;
        if (plain)
            make_plain(r);
        /* each unit is made on f->pages; unit 0 is made last, so it stays there */
        for (uint32_t u = n_units; u-- > 0;) {
            if (u > 0)
                r[u] = any_companion(f, r);
            if (u > 0 && plain && below(f, 8))
                make_plain(r + u);
            n[u] = make(f, r + u);
            if (below(f, 2 * n_units) == 0)
                damage(f, n[u]);
            if (u > 0)
                memcpy(f->all_pages[u] + PLI_WAVE_MAX_NBYTES - n[u],
                       f->pages + PLI_WAVE_MAX_NBYTES - n[u], n[u]);
        }
        compare_some(f, r, n, n_units);
    }
    if (pli_emulated_avx512())
        for (uint32_t n_units = 2; n_units <= (f->bits == 8 ? MOST : 2u); n_units++)
            assert_true(f->n_some[n_units] > 50);
}

/* Checks that both factors fit into signed bytes, and that the sum of their products with samples
 * of 0..255 fits into 16 bits. */
static void assert_pair_fits(int a, int b)
{
    assert_true(a >= -128 && a <= 127 && b >= -128 && b <= 127);
    assert_true((a > 0 ? a : 0) + (b > 0 ? b : 0) <= 128);
    assert_true((a < 0 ? a : 0) + (b < 0 ? b : 0) >= -128);
}

/* Checks the properties of the constants that the vector levels rely on. */
static void test_constants(void **state)
{
    (void)state;
    for (uint32_t wide = 0; wide < 2; wide++) {
        const uint8_t *bucket = psti_pli_wave_bucket[wide];
        for (uint32_t e = 32; e < 256; e++)
            assert_int_equal(bucket[e], bucket[e & ~15u]);
        for (uint32_t e = 0; e < 256; e++)
            assert_true(bucket[e] < PSTI_PLI_N_CONTEXTS);
    }
    /* The factors of a filter fit into 8 bits. The sum of their products with samples minus 128
     * fits into 16 bits. */
    for (uint32_t i = 0; i < 3 * PSTI_PLI_N_FILTERS; i++) {
        const struct psti_pli_filter *filter =
            &psti_pli_filters[i / PSTI_PLI_N_FILTERS][i % PSTI_PLI_N_FILTERS];
        int own = 32, sizes = abs(filter->a) + abs(filter->b);
        for (uint32_t k = 0; k < 5; k++) {
            own -= filter->k[k];
            sizes += abs(filter->k[k]);
        }
        assert_in_range(own + 128, 0, 255);
        assert_pair_fits(own, filter->k[0]);
        assert_pair_fits(filter->k[1], filter->k[2]);
        assert_pair_fits(filter->k[3], filter->k[4]);
        assert_pair_fits(filter->a, filter->b);
        assert_in_range(128 * (sizes + abs(own)), 0, INT16_MAX);
    }
}

/* Runs a test with samples of `bits` bits: 8 or 16. */
static void run(void **state, uint32_t bits, void (*test)(struct fixture *f))
{
    struct fixture *f = *state;
    f->bits = bits;
    f->seed = bits;
    test(f);
}
#define BOTH(test)                                                                                 \
    static void test##_8(void **state) { run(state, 8, test); }                                    \
    static void test##_16(void **state) { run(state, 16, test); }
BOTH(test_valid_units)
BOTH(test_whole_units)
BOTH(test_own_tables)
BOTH(test_damaged_units)
BOTH(test_truncated_units)
BOTH(test_noise)
BOTH(test_some_units)

#define UNIT_TESTS(test)                                                                           \
    cmocka_unit_test_setup_teardown(test##_8, set_up, tear_down),                                  \
        cmocka_unit_test_setup_teardown(test##_16, set_up, tear_down)

int main(void)
{
    n_levels = pli_levels(levels);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constants), UNIT_TESTS(test_valid_units),
        UNIT_TESTS(test_whole_units),     UNIT_TESTS(test_own_tables),
        UNIT_TESTS(test_damaged_units),   UNIT_TESTS(test_truncated_units),
        UNIT_TESTS(test_noise),           UNIT_TESTS(test_some_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
