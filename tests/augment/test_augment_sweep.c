/* Guards against hazards: a sweep (a precomputed order of weights) lacks, doubles or misplaces a
 * weight, is silently never made, or reads beyond a row. The tests go through sweeps and compare
 * them with the axis that they were made from. Kernels run over rows between inaccessible pages. */
#include "augment_helper.h"

#include "base/bits.h"

static struct psti_axis_spec random_spec(struct test_random *r, uint32_t channels)
{
    struct psti_axis_spec spec = {
        .side = {.n_to = 1 + test_below(r, 60), .interpolation = PST_INTERPOLATION_BILINEAR},
        .flip = test_below(r, 2) == 1,
        .channels = channels,
        .bits = 8,
        .sweeps = true,
    };
    spec.side.n_from = spec.side.n_to + test_below(r, 1 + spec.side.n_to * (1 + test_below(r, 9)));
    spec.mirror = test_below(r, 4) == 0;
    spec.begin = test_below(r, 3) == 0 ? test_below(r, spec.side.n_to) : 0;
    spec.n = spec.side.n_to - spec.begin;
    spec.n -= test_below(r, 3) == 0 ? test_below(r, spec.n) : 0;
    spec.n_source = spec.side.n_from;
    return spec;
}

/* An axis with its sweep, in memory of exactly the sizes that the functions ask for. */
struct made {
    struct guarded axis_memory, sweep_memory;
    struct psti_axis axis;
    struct psti_sweep sweep;
};

static struct made make(const struct psti_axis_spec *spec)
{
    struct made m = {0};
    m.axis_memory = guarded_make(psti_round_up(psti_augment_axis_nbytes(spec), 64), 0);
    m.sweep_memory = guarded_make(psti_augment_sweep_nbytes(spec), 0);
    psti_augment_axis_build(spec, m.axis_memory.data, &m.axis);
    psti_augment_sweep_build(spec, &m.axis, m.sweep_memory.data, &m.sweep);
    return m;
}

static void unmake(struct made *m)
{
    guarded_free(&m->axis_memory);
    guarded_free(&m->sweep_memory);
}

/* Adds the two weights of a word to those collected for output `i`. */
static void found(int32_t *weights, const struct psti_axis_spec *spec, const struct made *m,
                  uint32_t i, uint32_t pixel, uint32_t word)
{
    if (i >= m->sweep.end) {
        assert_int_equal(word, 0);
        return;
    }
    int32_t *at = weights + (size_t)i * (spec->n_source + 1) + pixel;
    at[0] += (int16_t)(word & 0xffff);
    at[1] += (int16_t)(word >> 16);
}

static void walk(const struct psti_axis_spec *spec, const struct made *m, int32_t *weights)
{
    const uint32_t *words = m->sweep.words;
    int64_t pixel = m->sweep.first, step = m->sweep.falls ? -2 : 2;
    for (uint32_t i = m->axis.safe_begin; i < m->sweep.end; i++) {
        uint32_t left = *words++;
        assert_true(left > 0);
        for (; left > 0; left--, pixel += step) {
            assert_true(pixel >= 0 && pixel % 2 == 0);
            assert_true((uint64_t)pixel * spec->channels + 16 <=
                        (uint64_t)spec->n_source * spec->channels);
            for (uint32_t k = 0; k < (left == 1 ? 3 : 2); k++)
                found(weights, spec, m, i + k, (uint32_t)pixel, *words++);
        }
    }
}

static void every_weight_is_there_once(void **state)
{
    (void)state;
    struct test_random r = {.seed = 41};
    uint32_t n_swept = 0;
    for (int round = 0; round < 3000; round++) {
        struct psti_axis_spec spec = random_spec(&r, 3 + test_below(&r, 2));
        struct made m = make(&spec);
        const struct psti_axis *axis = &m.axis;
        size_t row = spec.n_source + 1;
        int32_t *weights = calloc(spec.n * row, sizeof *weights);
        assert_true(m.sweep.end >= axis->safe_begin && m.sweep.end <= axis->safe_end);
        /* If the axis shrinks by 2 or more, every output except perhaps the last has a pair of its
         * own. */
        if (spec.side.n_from >= 2 * spec.side.n_to)
            assert_true(m.sweep.end + 1 >= axis->safe_end);
        walk(&spec, &m, weights);
        for (uint32_t i = axis->safe_begin; i < m.sweep.end; i++) {
            for (uint32_t p = 0; p <= spec.n_source; p++) {
                bool inside = p >= axis->start[i] && p < axis->start[i] + axis->taps[i];
                int32_t expected =
                    inside ? axis->weights[(size_t)i * axis->stride + p - axis->start[i]] : 0;
                assert_int_equal(weights[i * row + p], expected);
            }
            n_swept++;
        }
        free(weights);
        unmake(&m);
    }
    assert_true(n_swept > 30000);
}

/* A row between two inaccessible pages. It begins at the end of one or ends at the beginning of the
 * other. */
struct fenced {
    unsigned char *map, *data;
    size_t map_nbytes;
};

static struct fenced fenced_make(struct test_random *r, size_t nbytes, bool at_end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), used = psti_round_up(nbytes, page);
    struct fenced f = {.map_nbytes = used + 2 * page};
    f.map = mmap(NULL, f.map_nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(f.map != MAP_FAILED);
    assert_int_equal(mprotect(f.map, page, PROT_NONE), 0);
    assert_int_equal(mprotect(f.map + page + used, page, PROT_NONE), 0);
    f.data = f.map + page + (at_end ? used - nbytes : 0);
    for (size_t i = 0; i < nbytes; i++)
        f.data[i] = (unsigned char)test_below(r, 256);
    return f;
}

static void check_kernel(struct test_random *r, const struct psti_augment_ops *ops,
                         const struct psti_axis_spec *spec)
{
    enum { ROWS = PSTI_MAX_LANES };
    struct made m = make(spec);
    uint32_t lanes = ops->lanes[spec->channels];
    struct fenced rows[ROWS];
    struct guarded got[ROWS];
    const uint8_t *from[ROWS];
    uint8_t *to[ROWS];
    size_t pixel = spec->channels, nbytes = spec->n * pixel;
    for (uint32_t i = 0; i < lanes; i++) {
        rows[i] = fenced_make(r, spec->n_source * pixel, test_below(r, 2) == 1);
        got[i] = guarded_make(nbytes + 16, 64);
        from[i] = rows[i].data;
        to[i] = got[i].data;
    }
    uint32_t begin = m.axis.safe_begin, end = m.sweep.end;
    ops->sweep_x[spec->channels](to, from, &m.axis, &m.sweep);
    uint8_t *expected = malloc(nbytes);
    for (uint32_t i = 0; i < lanes; i++) {
        psti_augment_ops_c.resize_x[spec->channels](&expected, &from[i], &m.axis, begin, end, 0);
        assert_memory_equal(got[i].data + begin * pixel, expected + begin * pixel,
                            (end - begin) * pixel);
        for (size_t k = 0; k < begin * pixel; k++)
            assert_int_equal(got[i].data[k], 0xa5);
        munmap(rows[i].map, rows[i].map_nbytes);
        guarded_free(&got[i]);
    }
    free(expected);
    unmake(&m);
}

static void kernels_stay_within_rows(void **state)
{
    (void)state;
    struct test_random r = {.seed = 42};
    const struct psti_augment_ops *ops = psti_augment_ops_for(psti_cpu_detected());
#if defined(__x86_64__)
    if ((psti_cpu_detected() & PSTI_CPU_AVX2) != 0)
        ops = &psti_augment_ops_avx2;
#endif
    if (ops->sweep_x[3] == NULL)
        skip(); /* this CPU's kernels have no sweeps */
    for (uint32_t channels = 1; channels <= 4; channels++) {
        for (int round = 0; ops->sweep_x[channels] != NULL && round < 1000; round++) {
            struct psti_axis_spec spec = random_spec(&r, channels);
            check_kernel(&r, ops, &spec);
        }
    }
}

/* Computes all outputs of the axis by picks or quads, whichever `ops` have. Returns false if the
 * axis suits neither. */
static bool run_order(const struct psti_augment_ops *ops, const struct psti_axis_spec *spec,
                      const struct psti_axis *axis, uint8_t *const *to, const uint8_t *const *from)
{
    bool picks = ops->pick_x != NULL;
    if (picks ? !psti_augment_picks_suit(spec) : !psti_augment_quads_suit(spec))
        return false;
    struct psti_picks p;
    struct psti_quads q;
    struct guarded memory = guarded_make(
        psti_round_up(picks ? psti_augment_picks_nbytes(spec) : psti_augment_quads_nbytes(spec),
                      64),
        0);
    bool made = picks ? psti_augment_picks_build(spec, axis, memory.data, &p)
                      : psti_augment_quads_build(spec, axis, memory.data, &q);
    if (made && picks)
        ops->pick_x(to, from, &p);
    else if (made)
        ops->quad_x(to, from, &q);
    guarded_free(&memory);
    return made;
}

/* Returns whether the axis was made by picks or quads. */
static bool check_order(struct test_random *r, const struct psti_augment_ops *ops,
                        const struct psti_axis_spec *spec)
{
    enum { ROWS = PSTI_MAX_LANES };
    struct guarded memory = guarded_make(psti_round_up(psti_augment_axis_nbytes(spec), 64), 0);
    struct psti_axis axis;
    psti_augment_axis_build(spec, memory.data, &axis);
    struct fenced rows[ROWS];
    struct guarded got[ROWS];
    const uint8_t *from[ROWS];
    uint8_t *to[ROWS], *expected = malloc((size_t)spec->n * spec->channels);
    size_t nbytes = (size_t)spec->n * spec->channels;
    for (int i = 0; i < ROWS; i++) {
        rows[i] = fenced_make(r, (size_t)spec->n_source * spec->channels, i % 2 == 0);
        got[i] = guarded_make(nbytes + 15, 64);
        from[i] = rows[i].data;
        to[i] = got[i].data;
    }
    bool made = run_order(ops, spec, &axis, to, from);
    for (int i = 0; i < ROWS; i++) {
        if (made) {
            psti_augment_ops_c.resize_x[spec->channels](&expected, &from[i], &axis, 0, spec->n, 0);
            assert_memory_equal(got[i].data, expected, nbytes);
        }
        munmap(rows[i].map, rows[i].map_nbytes);
        guarded_free(&got[i]);
    }
    free(expected);
    guarded_free(&memory);
    return made;
}

/* Tries axes of 1..4 channels that grow or shrink, with all their outputs. */
static void orders_stay_within_rows(void **state)
{
    (void)state;
    struct test_random r = {.seed = 43};
    const struct psti_augment_ops *tables[2] = {psti_augment_ops_for(psti_cpu_detected()), NULL};
#if defined(__x86_64__)
    if ((psti_cpu_detected() & PSTI_CPU_AVX2) != 0)
        tables[1] = &psti_augment_ops_avx2;
#endif
    for (int t = 0; t < 2; t++) {
        uint32_t n_made = 0;
        if (tables[t] == NULL || (tables[t]->pick_x == NULL && tables[t]->quad_x == NULL))
            continue;
        for (int round = 0; round < 1600; round++) {
            struct psti_axis_spec spec = random_spec(&r, 1 + (uint32_t)round % 4);
            spec.sweeps = false;
            if (round % 3 == 0)
                spec.side.n_from = spec.n_source = 1 + test_below(&r, 90);
            if (round % 7 == 0)
                spec.side.interpolation = PST_INTERPOLATION_BICUBIC;
            n_made += check_order(&r, tables[t], &spec);
        }
        assert_true(n_made > 200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_weight_is_there_once),
        cmocka_unit_test(kernels_stay_within_rows),
        cmocka_unit_test(orders_stay_within_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
