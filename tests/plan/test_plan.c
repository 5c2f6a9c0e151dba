/* test_plan.c - tests plans: a case worked by hand, exhaustive search, prices compared with
 * differences, limits stated in words, machines that may be chosen, and setups that are refused. */
#include "sanitizer.h"
#include "test.h"

#include "base/fault.h"

#include "plan/plan_solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CORES = PSTI_STALL_CORES, STORAGE = PSTI_STALL_STORAGE, CACHE = PSTI_STALL_CACHE_MEMORY };
enum { PNG, L3, RAW };
enum { TURNS = TEST_SANITIZED ? 15 : 60 }; /* number of random problems in a test */

static const double one_class[] = {1000};

/* Frames of 2048 x 1024 on 16 cores and a disk of 1 GB/s: the cores limit PNG, the disk limits L3.
 * Decoding L3 on a GPU costs no core. */
static struct psti_plan_way frames[2] = {
    {.form = PNG, .demands = {[CORES] = 1 / 22.0, [STORAGE] = 2.32e6}, .stored_nbytes = 2.32e6},
    {.form = L3, .demands = {[STORAGE] = 3.72e6}, .stored_nbytes = 3.72e6},
};

static struct psti_plan_setup worked(void)
{
    struct psti_plan_setup s = {.struct_size = sizeof s,
                                .n_classes = 1,
                                .n_ways = 2,
                                .class_samples = one_class,
                                .ways = frames,
                                .way_nbytes = sizeof frames[0]};
    s.capacities[CORES] = 16;
    s.capacities[STORAGE] = 1e9;
    return s;
}

static bool is_missing; /* HiGHS */

static void need_highs(void)
{
    struct psti_plan_setup s = worked();
    struct psti_plan_answer answer;
    double shares[2];
    struct pst_error err;
    if (psti_plan_solve(&s, shares, &answer, sizeof answer, &err) == PST_ERROR_UNSUPPORTED &&
        getenv("PENSTOCK_HIGHS") == NULL) {
        is_missing = true;
        skip();
    }
}

static struct psti_plan_answer solve(const struct psti_plan_setup *s, double *shares)
{
    struct psti_plan_answer answer;
    struct pst_error err;
    assert_ok(psti_plan_solve(s, shares, &answer, sizeof answer, &err));
    return answer;
}

static bool is_near(double a, double b, double part)
{
    return fabs(a - b) <= part * fmax(fabs(a), fabs(b));
}

static void assert_near(double a, double b, double part)
{
    if (!is_near(a, b, part))
        print_error("%.9g is not within %g of %.9g\n", a, part, b);
    assert_true(is_near(a, b, part));
}

static void assert_refused(const struct psti_plan_setup *s, enum pst_status status,
                           const char *text)
{
    struct psti_plan_answer answer = {.samples_per_second = 7};
    double shares[64] = {3};
    struct pst_error err;
    assert_int_equal(psti_plan_solve(s, shares, &answer, sizeof answer, &err), status);
    if (strstr(err.text, text) == NULL)
        print_error("\"%s\" does not say \"%s\"\n", err.text, text);
    assert_non_null(strstr(err.text, text));
    assert_true(answer.samples_per_second == 7 && shares[0] == 3);
}

/* By hand: x images of PNG and y of L3 per second, with x / 22 = 16 and 2.32 x + 3.72 y = 1000. */
static void test_worked_case(void **state)
{
    (void)state;
    need_highs();
    struct psti_plan_setup s = worked();
    double shares[2], x = 352, y = (1000 - 2.32 * 352) / 3.72;
    struct psti_plan_answer a = solve(&s, shares);
    assert_near(a.samples_per_second, x + y, 1e-6);
    assert_near(shares[PNG], x / (x + y), 1e-5);
    assert_near(shares[PNG] + shares[L3], 1, 1e-12);
    assert_int_equal(a.binding, 1u << CORES | 1u << STORAGE);
    assert_near(a.used[CORES], 16, 1e-6);
    assert_near(a.used[STORAGE], 1e9, 1e-6);
    assert_near(a.stored_nbytes, 1000 * (shares[0] * 2.32e6 + shares[1] * 3.72e6), 1e-9);
    assert_true(a.has_single);
    assert_int_equal(a.single_form, PNG);
    assert_near(a.single_samples_per_second, 352, 1e-6);
    /* PNG alone needs more cores to reach the mix's rate, L3 alone a faster disk. */
    double need;
    struct pst_error err;
    assert_ok(psti_plan_need(&s, PNG, PSTI_STALL_CORES, x + y, &need, &err));
    assert_near(need, (x + y) / 22, 1e-6);
    assert_ok(psti_plan_need(&s, L3, PSTI_STALL_STORAGE, x + y, &need, &err));
    assert_near(need, (x + y) * 3.72e6, 1e-6);
    assert_int_equal(psti_plan_need(&s, L3, PSTI_STALL_CORES, x + y, &need, &err), PST_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "cores"));
    assert_ok(psti_plan_need(&s, UINT32_MAX, PSTI_STALL_CORES, x + y, &need, &err));
    assert_near(need, 16, 1e-6);
    assert_int_equal(psti_plan_need(&s, RAW, PSTI_STALL_CORES, 1, &need, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "form 2"));
    assert_int_equal(psti_plan_need(&s, PNG, PSTI_STALL_ACCELERATOR, 1, &need, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(psti_plan_need(&s, PNG, PSTI_STALL_CORES, NAN, &need, &err),
                     PST_ERROR_ARGUMENT);
}

/* Random problems
 * ------------------------------------------------------------------------------------------------
 */

struct problem {
    struct psti_plan_setup setup;
    struct psti_plan_way ways[6];
    double samples[2];
};

/* Returns a number below n from Knuth's linear congruential generator, whose upper bits are
 * used. */
static uint32_t rng_below(uint64_t *rng, uint32_t n)
{
    *rng = *rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*rng >> 33) % n;
}

static double between(uint64_t *rng, double low, double high)
{
    return low + (high - low) * (double)rng_below(rng, 1 << 20) / (1 << 20);
}

/* Makes one or two classes of samples with three ways (forms and placements) each. */
static void make_problem(uint64_t *rng, struct problem *p)
{
    uint32_t n_classes = 1 + (uint32_t)rng_below(rng, 2);
    memset(p, 0, sizeof *p);
    p->setup = (struct psti_plan_setup){.struct_size = sizeof p->setup,
                                        .n_classes = n_classes,
                                        .n_ways = 3 * n_classes,
                                        .class_samples = p->samples,
                                        .ways = p->ways,
                                        .way_nbytes = sizeof p->ways[0]};
    for (uint32_t c = 0; c < n_classes; c++)
        p->samples[c] = between(rng, 10, 1000);
    for (uint32_t i = 0; i < p->setup.n_ways; i++) {
        struct psti_plan_way *way = &p->ways[i];
        way->i_class = i / 3;
        way->form = i % 3;
        way->demands[CORES] = between(rng, 1e-4, 5e-2);
        way->demands[STORAGE] = between(rng, 1e4, 3e6);
        way->demands[CACHE] = rng_below(rng, 3) == 0 ? between(rng, 1e5, 1e6) : 0;
        way->stored_nbytes = between(rng, 1e4, 3e6);
    }
    p->setup.capacities[CORES] = between(rng, 1, 16);
    p->setup.capacities[STORAGE] = between(rng, 1e7, 1e9);
    p->setup.capacities[CACHE] = between(rng, 1e7, 2e8);
    if (rng_below(rng, 3) == 0)
        p->setup.stored_nbytes = between(rng, 0.5, 1.5) * 1.5e6 * (p->samples[0] + p->samples[1]);
    if (rng_below(rng, 2) != 0)
        p->setup.capacities[PSTI_STALL_ACCELERATOR] = between(rng, 50, 2000);
}

/* Returns the rate for given shares of the ways, or 0 if they exceed the cache or the storage
 * quota. */
static double rate_of(const struct psti_plan_setup *s, const double *shares, double *stored)
{
    double whole = 0, demands[PSTI_STALL_N_RESOURCES] = {0};
    const struct psti_plan_way *ways = s->ways;
    for (uint32_t c = 0; c < s->n_classes; c++)
        whole += s->class_samples[c];
    *stored = 0;
    for (uint32_t i = 0; i < s->n_ways; i++) {
        double n = shares[i] * s->class_samples[ways[i].i_class];
        for (int r = 0; r < PSTI_STALL_N_RESOURCES; r++)
            demands[r] += n * ways[i].demands[r];
        *stored += n * ways[i].stored_nbytes;
    }
    if (demands[CACHE] > s->capacities[CACHE] * (1 + 1e-6) ||
        (s->stored_nbytes > 0 && *stored > s->stored_nbytes * (1 + 1e-6)))
        return 0;
    double rate = s->capacities[PSTI_STALL_ACCELERATOR] > 0 ? s->capacities[PSTI_STALL_ACCELERATOR]
                                                            : INFINITY;
    for (int r = 1; r < CACHE; r++)
        if (s->capacities[r] > 0 && demands[r] > 0)
            rate = fmin(rate, s->capacities[r] / (demands[r] / whole));
    return rate;
}

enum { STEPS = 20 };

/* Calls a function with all shares of the classes in steps of 1 / STEPS. */
static void for_each_grid_point(const struct psti_plan_setup *s, uint32_t i_class, double *shares,
                                void (*visit)(void *, const double *), void *ctx)
{
    if (i_class == s->n_classes) {
        visit(ctx, shares);
        return;
    }
    for (int a = 0; a <= STEPS; a++)
        for (int b = 0; a + b <= STEPS; b++) {
            shares[3 * i_class] = (double)a / STEPS;
            shares[3 * i_class + 1] = (double)b / STEPS;
            shares[3 * i_class + 2] = (double)(STEPS - a - b) / STEPS;
            for_each_grid_point(s, i_class + 1, shares, visit, ctx);
        }
}

struct search {
    const struct psti_plan_setup *setup;
    double best_rate, least_stored;
};

static void visit(void *ctx, const double *shares)
{
    struct search *search = ctx;
    double stored, rate = rate_of(search->setup, shares, &stored);
    search->best_rate = fmax(search->best_rate, rate);
    if (rate > 0 && rate >= search->setup->least_rate)
        search->least_stored = fmin(search->least_stored, stored);
}

/* No point of the grid is better than the plan, and the best one is near it, because rounding each
 * share to a step changes demands by a bounded amount. */
static void test_exhaustive_search(void **state)
{
    (void)state;
    need_highs();
    uint64_t rng = 24;
    int n_mixed = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        struct problem p;
        make_problem(&rng, &p);
        double shares[6], grid[6], stored;
        struct search search = {.setup = &p.setup, .least_stored = INFINITY};
        for_each_grid_point(&p.setup, 0, grid, visit, &search);
        struct psti_plan_answer a;
        struct pst_error err;
        enum pst_status status = psti_plan_solve(&p.setup, shares, &a, sizeof a, &err);
        if (status == PST_ERROR_LIMIT) {
            assert_true(search.best_rate == 0);
            continue;
        }
        assert_ok(status);
        assert_near(rate_of(&p.setup, shares, &stored), a.samples_per_second, 1e-5);
        assert_near(stored, a.stored_nbytes, 1e-9);
        assert_true(a.samples_per_second >= search.best_rate * (1 - 1e-6));
        if (search.best_rate > 0)
            assert_true(a.samples_per_second <= search.best_rate * 1.5);
        for (uint32_t i = 0; i < p.setup.n_ways; i++)
            n_mixed += shares[i] > 0.01 && shares[i] < 0.99;
        /* With the goal storage: no point of the grid that is as fast stores less. */
        p.setup.goal = PSTI_PLAN_STORAGE;
        p.setup.least_rate = search.least_stored = 0;
        p.setup.least_rate = 0.7 * a.samples_per_second;
        search.least_stored = INFINITY;
        for_each_grid_point(&p.setup, 0, grid, visit, &search);
        a = solve(&p.setup, shares);
        assert_true(a.samples_per_second >= p.setup.least_rate * (1 - 1e-5));
        assert_true(a.stored_nbytes <= search.least_stored * (1 + 1e-6));
    }
    assert_true(n_mixed > TURNS / 3);
}

/* A price is the relative change of the rate for a little more of the resource. Within the price's
 * range, the marginal time of a sample stays the same. */
static void test_prices(void **state)
{
    (void)state;
    need_highs();
    static const int resources[] = {CORES, STORAGE, CACHE, PSTI_STALL_ACCELERATOR};
    uint64_t rng = 25;
    int n_above_zero = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        struct problem p;
        double shares[6];
        struct psti_plan_answer a;
        struct pst_error err;
        make_problem(&rng, &p);
        if (psti_plan_solve(&p.setup, shares, &a, sizeof a, &err) != PST_OK)
            continue;
        for (size_t k = 0; k < sizeof resources / sizeof resources[0]; k++) {
            int r = resources[k];
            double there = p.setup.capacities[r];
            if (there == 0)
                continue;
            assert_true(a.price_low[r] <= there * (1 + 1e-9) &&
                        there <= a.price_high[r] * (1 + 1e-9));
            if (a.price_high[r] < there * 1.001) /* at a corner the prices to both sides differ */
                continue;
            double more = there * 1e-4;
            struct psti_plan_setup changed = p.setup;
            changed.capacities[r] += more;
            double rate = solve(&changed, shares).samples_per_second;
            double found = (rate - a.samples_per_second) / more / a.samples_per_second;
            if (fabs(found - a.prices[r]) > 2e-3 * fmax(found, a.prices[r]) + 1e-3 / there)
                print_error("turn %d, %s: %.9g by difference, %.9g\n", turn,
                            psti_stall_resource_name((uint32_t)r), found, a.prices[r]);
            assert_true(fabs(found - a.prices[r]) <=
                        2e-3 * fmax(found, a.prices[r]) + 1e-3 / there);
            n_above_zero += found * there > 0.01;
        }
    }
    assert_true(n_above_zero > TURNS);
}

/* Prices prove without the solver that a plan is the best. The weights w_r = price * capacity add
 * up to 1. So the slowest resource takes at least the weighted mean, which is at least the mean
 * with the best way of each class. */
static void test_certificate(void **state)
{
    (void)state;
    need_highs();
    enum { CLASSES = 40, WAYS = 10 * CLASSES };
    static struct psti_plan_way ways[WAYS];
    double samples[CLASSES], shares[WAYS];
    uint64_t rng = 27;
    for (int turn = 0; turn < TURNS / 5; turn++) {
        double n_samples = 0, weights = 0, least = 0;
        for (int c = 0; c < CLASSES; c++)
            n_samples += samples[c] = between(&rng, 1, 1000);
        struct psti_plan_setup s = {.struct_size = sizeof s,
                                    .n_classes = CLASSES,
                                    .n_ways = WAYS,
                                    .class_samples = samples,
                                    .ways = ways,
                                    .way_nbytes = sizeof ways[0]};
        for (int r = CORES; r < CACHE; r++)
            s.capacities[r] = exp(between(&rng, 0, 20));
        memset(ways, 0, sizeof ways);
        for (uint32_t i = 0; i < WAYS; i++) {
            ways[i].i_class = i % CLASSES;
            for (int r = CORES; r < CACHE; r++)
                ways[i].demands[r] = s.capacities[r] * exp(between(&rng, -9, 0));
        }
        struct psti_plan_answer a = solve(&s, shares);
        for (int c = 0; c < CLASSES; c++) {
            double best = INFINITY;
            for (uint32_t i = (uint32_t)c; i < WAYS; i += CLASSES) {
                double mean = 0;
                for (int r = CORES; r < CACHE; r++)
                    mean += a.prices[r] * ways[i].demands[r];
                best = fmin(best, mean);
            }
            least += samples[c] / n_samples * best;
        }
        for (int r = CORES; r < CACHE; r++)
            weights += a.prices[r] * s.capacities[r];
        assert_near(weights, 1, 1e-6);
        assert_near(1 / least, a.samples_per_second, 1e-5);
    }
}

/* Returns the slope that is constant over a price's range. The rate is linear in a capacity that is
 * a rate. The time of a sample is linear in the bytes of the cache and in the inverse of the
 * accelerators' rate. */
static double slope(const struct psti_plan_answer *a, const struct psti_plan_setup *s, int r)
{
    double there = s->capacities[r];
    if (r == CACHE)
        return a->prices[r] / a->samples_per_second;
    if (r == PSTI_STALL_ACCELERATOR)
        return a->prices[r] * there * there / a->samples_per_second;
    return a->prices[r] * a->samples_per_second;
}

/* Within a range the slope is that of its middle; just outside of the range it is another. */
static void test_random_ranges(void **state)
{
    (void)state;
    need_highs();
    static const int resources[] = {CORES, STORAGE, CACHE, PSTI_STALL_ACCELERATOR};
    uint64_t rng = 26;
    int n_inside = 0, n_outside = 0, n_other = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        struct problem p;
        double shares[6];
        struct psti_plan_answer a, b;
        struct pst_error err;
        make_problem(&rng, &p);
        if (psti_plan_solve(&p.setup, shares, &a, sizeof a, &err) != PST_OK)
            continue;
        for (size_t k = 0; k < sizeof resources / sizeof resources[0]; k++) {
            int r = resources[k];
            double low = a.price_low[r], high = a.price_high[r], there = p.setup.capacities[r];
            if (there == 0 || !(a.prices[r] * there > 1e-3))
                continue;
            struct psti_plan_setup changed = p.setup;
            const double inside[] = {low + 0.01 * (there - low),
                                     isinf(high) ? 2 * there : high - 0.01 * (high - there)};
            for (int i = 0; i < 2; i++) {
                changed.capacities[r] = inside[i];
                b = solve(&changed, shares);
                assert_near(slope(&b, &changed, r), slope(&a, &p.setup, r), 1e-4);
                n_inside++;
            }
            if (isinf(high))
                continue;
            changed.capacities[r] = high * 1.01;
            b = solve(&changed, shares);
            n_outside++;
            n_other += !is_near(slope(&b, &changed, r), slope(&a, &p.setup, r), 1e-4);
        }
    }
    assert_true(n_inside > TURNS);
    assert_true(n_outside > TURNS / 3 && n_other >= n_outside * 9 / 10);
}

/* At the end of a range the price changes. Just inside, it still predicts the rate: the inverse of
 * the rate is linear in the inverse of the capacity. */
static void test_price_range(void **state)
{
    (void)state;
    need_highs();
    struct psti_plan_setup s = worked();
    double shares[2];
    struct psti_plan_answer a = solve(&s, shares);
    /* With more cores the disk limits PNG alone: 1e9 / 2.32e6 = 431/s = 19.6 cores. */
    assert_near(a.price_high[CORES], 1e9 / 2.32e6 / 22, 1e-3);
    s.capacities[CORES] = 25;
    a = solve(&s, shares);
    assert_near(a.prices[CORES], 0, 1e-9);
    assert_near(a.samples_per_second, 1e9 / 2.32e6, 1e-6);
    assert_true(isinf(a.price_high[CORES]));
    assert_near(a.price_low[CORES], 1e9 / 2.32e6 / 22, 1e-3);
    assert_near(a.prices[STORAGE], 1e-9, 1e-6);
}

/* Rules
 * ------------------------------------------------------------------------------------------------
 */

static void test_lossless_rule(void **state)
{
    (void)state;
    need_highs();
    struct psti_plan_way ways[2] = {
        {.form = 0, .demands = {[CORES] = 0.01}, .stored_nbytes = 1e6},
        {.form = 1, .demands = {[CORES] = 0.001}, .stored_nbytes = 1e5, .is_lossy = true}};
    struct psti_plan_setup s = worked();
    double shares[2];
    s.ways = ways;
    struct psti_plan_answer a = solve(&s, shares);
    assert_true(shares[0] == 1 && shares[1] == 0);
    assert_int_equal(a.single_form, 0);
    s.allow_lossy = true;
    assert_near(solve(&s, shares).samples_per_second, 16000, 1e-6);
    assert_true(shares[1] == 1);
    ways[0].is_lossy = true;
    s.allow_lossy = false;
    assert_refused(&s, PST_ERROR_LIMIT, "all ways of class 0 change its pixels");
}

/* Of plans that are equally fast, the one that stores least is chosen. */
static void test_second_step(void **state)
{
    (void)state;
    need_highs();
    struct psti_plan_setup s = worked();
    double shares[2];
    s.capacities[PSTI_STALL_ACCELERATOR] = 200;
    struct psti_plan_answer a = solve(&s, shares);
    assert_near(a.samples_per_second, 200, 1e-6);
    assert_near(shares[PNG], 1, 1e-6);
    assert_int_equal(a.binding, 1u << PSTI_STALL_ACCELERATOR);
    s.stored_nbytes = 1000 * 3e6; /* PNG and a part of L3 fit */
    s.capacities[PSTI_STALL_ACCELERATOR] = 0;
    assert_near(solve(&s, shares).samples_per_second, 352 + (1000 - 2.32 * 352) / 3.72, 1e-6);
    s.stored_nbytes = 1000 * 2.4e6;
    a = solve(&s, shares);
    assert_true(a.quota_binds && a.quota_price > 0);
    assert_near(a.stored_nbytes, s.stored_nbytes, 1e-6);
    struct psti_plan_setup more = s;
    more.stored_nbytes += 1e5;
    double rate = solve(&more, shares).samples_per_second;
    assert_near((rate / a.samples_per_second - 1) / 1e5, a.quota_price, 1e-3);
}

/* The GPU prepares during the model's step and delays the step by the stated fraction. */
static void test_interference(void **state)
{
    (void)state;
    need_highs();
    struct psti_plan_way way = {.demands = {[PSTI_STALL_GPU] = 1e-3}};
    struct psti_plan_setup s = worked();
    double share;
    s.ways = &way;
    s.n_ways = 1;
    s.capacities[PSTI_STALL_GPU] = 1;
    s.capacities[PSTI_STALL_ACCELERATOR] = 500;
    assert_near(solve(&s, &share).samples_per_second, 500, 1e-9);
    s.gpu_interference = 0.5;
    assert_near(solve(&s, &share).samples_per_second, 1 / (1.0 / 500 + 0.5e-3), 1e-6);
}

/* A core costs 0.04 an hour, a MB/s of disk 0.0001: finds the cheapest machine for a rate. */
static void test_chosen_machine(void **state)
{
    (void)state;
    need_highs();
    struct psti_plan_setup s = worked();
    double shares[2], hour = 3600;
    s.goal = PSTI_PLAN_COST;
    s.price = 1 / hour;
    s.capacities[CORES] = 2;
    s.capacities_most[CORES] = 64;
    s.unit_prices[CORES] = 0.04 / hour;
    s.capacities[STORAGE] = 1e8;
    s.capacities_most[STORAGE] = 4e9;
    s.unit_prices[STORAGE] = 1e-10 / hour;
    s.capacities[PSTI_STALL_ACCELERATOR] = 800;
    s.least_rate = 300;
    struct psti_plan_answer a = solve(&s, shares);
    assert_true(a.samples_per_second >= 300 * (1 - 1e-6));
    double best = INFINITY;
    for (int cores = 2; cores <= 64; cores++)
        for (int disk = 1; disk <= 80; disk++)
            for (int png = 0; png <= 20; png++) {
                struct psti_plan_setup fixed = s;
                double part[2] = {png / 20.0, 1 - png / 20.0}, stored;
                fixed.capacities[CORES] = cores;
                fixed.capacities[STORAGE] = 5e7 * disk + 5e7;
                double rate = rate_of(&fixed, part, &stored);
                double price = s.price + s.unit_prices[CORES] * (cores - 2) +
                               s.unit_prices[STORAGE] * (fixed.capacities[STORAGE] - 1e8);
                if (rate >= 300)
                    best = fmin(best, price * 1000 / rate);
            }
    assert_true(a.cost <= best * (1 + 1e-6));
    assert_true(a.cost >= best * 0.95);
    double price = s.price + s.unit_prices[CORES] * (a.capacities[CORES] - 2) +
                   s.unit_prices[STORAGE] * (a.capacities[STORAGE] - 1e8);
    assert_near(a.cost, price * 1000 / a.samples_per_second, 1e-6);
}

/* Of machines that cost the same, the fastest is chosen, and none has more than it uses. */
static void test_equal_costs(void **state)
{
    (void)state;
    need_highs();
    struct psti_plan_setup s = worked();
    double shares[2];
    s.n_ways = 1;
    /* only core-seconds are paid for, so the cost is the same at any rate */
    s.goal = PSTI_PLAN_COST;
    s.capacities[CORES] = 0;
    s.capacities_most[CORES] = 32;
    s.unit_prices[CORES] = 0.01;
    struct psti_plan_answer a = solve(&s, shares);
    assert_near(a.cost, 1000 / 22.0 * 0.01, 1e-6);
    assert_near(a.samples_per_second, 1e9 / 2.32e6, 1e-6);
    assert_near(a.capacities[CORES], a.used[CORES], 1e-6);
    s.goal = PSTI_PLAN_RATE;
    s.capacities[PSTI_STALL_ACCELERATOR] = 100;
    a = solve(&s, shares);
    assert_near(a.samples_per_second, 100, 1e-6);
    assert_near(a.capacities[CORES], 100 / 22.0, 1e-5);
    assert_near(a.cost, 1000 / 22.0 * 0.01, 1e-5);
    s.goal = PSTI_PLAN_COST;
    s.unit_prices[CORES] = 0;
    assert_refused(&s, PST_ERROR_ARGUMENT, "nothing has a price");
}

/* Ways that are far slower than the best one do not reduce the accuracy. */
static void test_very_slow_ways(void **state)
{
    (void)state;
    need_highs();
    struct psti_plan_way ways[4] = {frames[0], frames[1], frames[0], frames[1]};
    struct psti_plan_setup s = worked();
    double shares[4], x = 352, y = (1000 - 2.32 * 352) / 3.72;
    for (int i = 2; i < 4; i++) {
        ways[i].demands[CORES] = 1e5;
        ways[i].demands[STORAGE] *= 1e6;
        ways[i].stored_nbytes *= 1e6;
    }
    s.ways = ways;
    s.n_ways = 4;
    struct psti_plan_answer a = solve(&s, shares);
    assert_near(a.samples_per_second, x + y, 1e-6);
    assert_near(shares[PNG], x / (x + y), 1e-5);
    assert_int_equal(a.binding, 1u << CORES | 1u << STORAGE);
    s.goal = PSTI_PLAN_STORAGE;
    s.least_rate = 380;
    a = solve(&s, shares);
    assert_near(a.samples_per_second, 380, 1e-5);
    assert_near(shares[PNG], 352.0 / 380, 1e-5);
}

/* In the largest allowed setup the best way of each class is found. */
static void test_many_ways(void **state)
{
    (void)state;
    need_highs();
    enum { CLASSES = PSTI_PLAN_CLASSES_MAX, WAYS = PSTI_PLAN_WAYS_MAX };
    struct psti_plan_way *ways = calloc(WAYS, sizeof *ways);
    double *samples = calloc(CLASSES, sizeof *samples), *shares = calloc(WAYS, sizeof *shares);
    assert_true(ways != NULL && samples != NULL && shares != NULL);
    for (uint32_t c = 0; c < CLASSES; c++)
        samples[c] = 1 + c % 7;
    for (uint32_t i = 0; i < WAYS; i++) {
        ways[i].i_class = i % CLASSES;
        ways[i].form = i / CLASSES;
        ways[i].demands[CORES] = i / CLASSES == ways[i].i_class % 8 ? 1e-3 : 2e-3;
    }
    struct psti_plan_setup s = worked();
    s.n_classes = CLASSES;
    s.class_samples = samples;
    s.n_ways = WAYS;
    s.ways = ways;
    struct psti_plan_answer a = solve(&s, shares);
    assert_near(a.samples_per_second, 16 / 1e-3, 1e-6);
    for (uint32_t i = 0; i < WAYS; i++)
        assert_near(1 + shares[i], i / CLASSES == ways[i].i_class % 8 ? 2 : 1, 1e-5);
    assert_true(a.has_single && a.single_samples_per_second < 10000);
    free(ways);
    free(samples);
    free(shares);
}

/* Refusals
 * ------------------------------------------------------------------------------------------------
 */

static void test_limits_in_words(void **state)
{
    (void)state;
    need_highs();
    struct psti_plan_setup s = worked();
    s.least_rate = 500;
    assert_refused(&s, PST_ERROR_LIMIT, "the rate that must be reached");
    assert_refused(&s, PST_ERROR_LIMIT, "401.3 samples/s, limited by storage");
    s.least_rate = 0;
    s.stored_nbytes = 1e6;
    assert_refused(&s, PST_ERROR_LIMIT, "the bytes on storage");
    struct psti_plan_way way = {.demands = {[CORES] = 1, [CACHE] = 1e6}};
    s = worked();
    s.n_ways = 1;
    s.ways = &way;
    s.capacities[CACHE] = 1e8;
    assert_refused(&s, PST_ERROR_LIMIT, "the cache's memory");
    s.stored_nbytes = 1;
    way.stored_nbytes = 1;
    assert_refused(&s, PST_ERROR_LIMIT, "rate, bytes on storage and cache");
}

static void test_refused_setups(void **state)
{
    (void)state;
    struct psti_plan_setup s = worked();
    struct psti_plan_way ways[2] = {frames[0], frames[1]};
    s.ways = ways;
    ways[1].demands[STORAGE] = NAN;
    assert_refused(&s, PST_ERROR_ARGUMENT, "way 1: its demand of storage is nan");
    ways[1].demands[STORAGE] = -1;
    assert_refused(&s, PST_ERROR_ARGUMENT, "way 1: its demand of storage is -1");
    ways[1] = frames[1];
    ways[1].i_class = 1;
    assert_refused(&s, PST_ERROR_ARGUMENT, "way 1: there is no class 1");
    ways[1].i_class = 0;
    ways[1].form = PSTI_PLAN_FORMS_MAX;
    assert_refused(&s, PST_ERROR_ARGUMENT, "form 64");
    ways[1] = frames[1];
    s.capacities[CORES] = INFINITY;
    assert_refused(&s, PST_ERROR_ARGUMENT, "capacities of cores is inf");
    s.capacities[CORES] = 16;
    s.gpu_interference = 1.5;
    assert_refused(&s, PST_ERROR_ARGUMENT, "gpu_interference");
    s.gpu_interference = 0;
    s.goal = (enum psti_plan_goal)3;
    assert_refused(&s, PST_ERROR_ARGUMENT, "no goal 3");
    s.goal = PSTI_PLAN_RATE;
    s.capacities_most[CACHE] = 1;
    assert_refused(&s, PST_ERROR_ARGUMENT, "cannot be chosen");
    s.capacities_most[CACHE] = 0;
    const double empty[] = {0}, two[] = {5, 5};
    s.class_samples = empty;
    assert_refused(&s, PST_ERROR_ARGUMENT, "class 0 has 0 samples");
    s.class_samples = two;
    s.n_classes = 2;
    assert_refused(&s, PST_ERROR_ARGUMENT, "class 1 has no way");
    s.n_classes = 0;
    assert_refused(&s, PST_ERROR_ARGUMENT, "classes");
    struct {
        struct psti_plan_setup setup;
        uint64_t later;
    } longer = {.setup = worked(), .later = 1};
    longer.setup.struct_size = sizeof longer;
    assert_refused(&longer.setup, PST_ERROR_VERSION, "struct");
}

static void test_nothing_limits(void **state)
{
    (void)state;
    need_highs();
    struct psti_plan_setup s = worked();
    memset(s.capacities, 0, sizeof s.capacities);
    assert_refused(&s, PST_ERROR_ARGUMENT, "nothing limits the rate");
}

static void test_libraries(void **state)
{
    (void)state;
    struct psti_plan_setup s = worked();
    s.library = "/nonexistent/libhighs.so.1";
    assert_refused(&s, PST_ERROR_UNSUPPORTED, "cannot be loaded: /nonexistent/libhighs.so.1");
    s.library = "libm.so.6";
    assert_refused(&s, PST_ERROR_UNSUPPORTED, "libm.so.6 has no Highs_create");
    s.library = __FILE__;
    assert_refused(&s, PST_ERROR_UNSUPPORTED, "PENSTOCK_HIGHS");
}

/* The library's n-th allocation fails. */
static void test_no_memory(void **state)
{
    (void)state;
    need_highs();
    struct psti_plan_setup s = worked();
    for (uint64_t n = 1;; n++) {
        struct psti_plan_answer answer;
        struct pst_error err;
        double shares[2];
        psti_fault_arm(PSTI_FAULT_ALLOC, n, false);
        enum pst_status status = psti_plan_solve(&s, shares, &answer, sizeof answer, &err);
        bool fired = psti_fault_count(PSTI_FAULT_ALLOC) >= n;
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        if (!fired) {
            assert_ok(status);
            assert_true(n > 5);
            return;
        }
        assert_int_equal(status, PST_ERROR_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_case),    cmocka_unit_test(test_exhaustive_search),
        cmocka_unit_test(test_prices),         cmocka_unit_test(test_price_range),
        cmocka_unit_test(test_certificate),    cmocka_unit_test(test_random_ranges),
        cmocka_unit_test(test_equal_costs),    cmocka_unit_test(test_very_slow_ways),
        cmocka_unit_test(test_many_ways),      cmocka_unit_test(test_lossless_rule),
        cmocka_unit_test(test_second_step),    cmocka_unit_test(test_interference),
        cmocka_unit_test(test_chosen_machine), cmocka_unit_test(test_limits_in_words),
        cmocka_unit_test(test_refused_setups), cmocka_unit_test(test_nothing_limits),
        cmocka_unit_test(test_libraries),      cmocka_unit_test(test_no_memory),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (n_failed > 0 || !is_missing)
        return n_failed;
    printf("no HiGHS, which solves plans: scripts/setup_venv.sh check, or PENSTOCK_HIGHS=FILE\n");
    return 77;
}
