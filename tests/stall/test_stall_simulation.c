/* test_stall_simulation.c - compares the formulas of the what-if model with simulations: caches
 * under random epochs, workers that share cores, and a producer and a consumer with few batches
 * between them. Deterministic: one generator with fixed seeds. */
#include "test.h"

#include "stall/stall_model.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 1;

/* Returns a uniform number between 0 and 1, excluding both (xorshift64*). */
static double uniform(void)
{
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    return ((double)((seed * 2685821657736338717u) >> 11) + 0.5) / 9007199254740992.0;
}

static uint32_t below(uint32_t n) { return (uint32_t)(uniform() * n); }

/* Caches
 * ------------------------------------------------------------------------------------------------
 */

#define N_ITEMS 4000

/* A cache of `capacity` items over epochs in fresh random orders. Slots hold items; `when` is the
 * time of their last use. */
struct cache {
    uint32_t slots[N_ITEMS];
    int32_t slot_of[N_ITEMS];
    uint64_t when[N_ITEMS];
    uint32_t n, capacity;
    uint64_t clock;
};

static uint32_t victim(const struct cache *cache, enum psti_stall_policy policy)
{
    uint32_t oldest = 0;
    if (policy == PSTI_STALL_RANDOM)
        return below(cache->n);
    for (uint32_t i = 1; i < cache->n; i++)
        if (cache->when[i] < cache->when[oldest])
            oldest = i;
    return oldest;
}

static bool touch(struct cache *cache, uint32_t item, enum psti_stall_policy policy)
{
    int32_t at = cache->slot_of[item];
    cache->clock++;
    if (at >= 0) {
        cache->when[at] = cache->clock;
        return true;
    }
    uint32_t slot = cache->n;
    if (cache->n == cache->capacity) {
        if (policy == PSTI_STALL_MINIO)
            return false;
        slot = victim(cache, policy);
        cache->slot_of[cache->slots[slot]] = -1;
    } else {
        cache->n++;
    }
    cache->slots[slot] = item;
    cache->slot_of[item] = (int32_t)slot;
    cache->when[slot] = cache->clock;
    return false;
}

static double simulated_hits(enum psti_stall_policy policy, double part, int n_epochs,
                             bool shuffled)
{
    static struct cache cache;
    static uint32_t order[N_ITEMS];
    uint64_t hits = 0;
    memset(&cache, 0, sizeof cache);
    cache.capacity = (uint32_t)(part * N_ITEMS);
    for (uint32_t i = 0; i < N_ITEMS; i++) {
        cache.slot_of[i] = -1;
        order[i] = i;
    }
    int n_first = 6; /* number of epochs until the contents no longer depend on the start */
    for (int epoch = 0; epoch < n_first + n_epochs; epoch++) {
        for (uint32_t i = N_ITEMS - 1; shuffled && i > 0; i--) {
            uint32_t j = below(i + 1), item = order[i];
            order[i] = order[j];
            order[j] = item;
        }
        for (uint32_t i = 0; i < N_ITEMS; i++)
            hits += touch(&cache, order[i], policy) && epoch >= n_first;
    }
    return (double)hits / ((double)n_epochs * N_ITEMS);
}

static void test_hits(void **state)
{
    static const double parts[] = {0.1, 0.35, 0.65, 0.9};
    (void)state;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        for (int policy = PSTI_STALL_MINIO; policy <= PSTI_STALL_LRU; policy++) {
            enum psti_stall_policy p = (enum psti_stall_policy)policy;
            int n_epochs = p == PSTI_STALL_LRU ? 3 : 12;
            double got = psti_stall_hit_ratio(p, parts[i]);
            double seen = simulated_hits(p, parts[i], n_epochs, true);
            if (fabs(got - seen) > 0.012)
                print_error("policy %d, part %g: %g, simulated %g\n", policy, parts[i], got, seen);
            assert_true(fabs(got - seen) <= 0.012);
        }
    }
    assert_true(simulated_hits(PSTI_STALL_LRU, 0.9, 1, false) == 0);
    assert_true(psti_stall_hit_ratio(PSTI_STALL_LRU_SEQUENTIAL, 0.9) == 0);
    for (int policy = 0; policy <= PSTI_STALL_LRU_SEQUENTIAL; policy++) {
        enum psti_stall_policy p = (enum psti_stall_policy)policy;
        assert_true(psti_stall_hit_ratio(p, 0) == 0 && psti_stall_hit_ratio(p, -1) == 0);
        assert_true(psti_stall_hit_ratio(p, 1) == 1 && psti_stall_hit_ratio(p, 7) == 1);
    }
}

/* Compares with values that the paper measured of Linux' page cache: 15 % hits at 35 % cached, 47 %
 * at 65 %. */
static void test_page_cache_of_the_paper(void **state)
{
    (void)state;
    assert_true(fabs(psti_stall_hit_ratio(PSTI_STALL_RANDOM, 0.35) - 0.15) < 0.02);
    assert_true(fabs(psti_stall_hit_ratio(PSTI_STALL_RANDOM, 0.65) - 0.47) < 0.02);
}

/* Simulates workers and cores
 * ------------------------------------------------------------------------------------------------
 */

#define MAX_WORKERS 64

/* Workers wait, then work, and share the cores evenly while they work. Times are uniform between 0
 * and twice their mean, as the formula depends only on means. */
static double simulated_workers(int n, double wait, double cpu, double cores, int n_done)
{
    double left[MAX_WORKERS], now = 0;
    bool working[MAX_WORKERS];
    for (int i = 0; i < n; i++) {
        working[i] = false;
        left[i] = 2 * wait * uniform();
    }
    for (int done = 0; done < n_done;) {
        int n_working = 0, first = 0;
        for (int i = 0; i < n; i++)
            n_working += working[i];
        double speed = n_working > cores ? cores / n_working : 1, soonest = INFINITY;
        for (int i = 0; i < n; i++) {
            double at = working[i] ? left[i] / speed : left[i];
            if (at < soonest) {
                soonest = at;
                first = i;
            }
        }
        for (int i = 0; i < n; i++)
            left[i] -= working[i] ? soonest * speed : soonest;
        now += soonest;
        done += working[first];
        working[first] = !working[first];
        left[first] = 2 * (working[first] ? cpu : wait) * uniform();
    }
    return n_done / now;
}

static void test_workers(void **state)
{
    static const struct {
        int n;
        double wait, cpu, cores;
    } cases[] = {{1, 0.01, 0.001, 2}, {8, 0.01, 0.001, 2},    {32, 0.01, 0.001, 2},
                 {8, 0.01, 0.01, 4},  {16, 0.02, 0.003, 1.5}, {4, 0.001, 0.01, 0.5}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double got =
            psti_stall_workers_rate(cases[i].n, cases[i].wait, cases[i].cpu, cases[i].cores);
        double seen =
            simulated_workers(cases[i].n, cases[i].wait, cases[i].cpu, cases[i].cores, 60000);
        if (fabs(got / seen - 1) > 0.02)
            print_error("workers case %zu: %g, simulated %g\n", i, got, seen);
        assert_true(fabs(got / seen - 1) <= 0.02);
    }
    assert_true(fabs(psti_stall_workers_rate(4, 0, 0.01, 2) - 200) < 1e-9);
    assert_true(fabs(psti_stall_workers_rate(1, 0, 0.01, 2) - 100) < 1e-9);
    assert_true(fabs(psti_stall_workers_rate(32, 0.1, 0, 2) - 320) < 1e-9);
    assert_true(isinf(psti_stall_workers_rate(4, 0, 0, 2)));
}

/* Simulates producer and consumer
 * ------------------------------------------------------------------------------------------------
 */

/* Returns a random time with the given mean and coefficient of variation: a sum of uniform values,
 * nearly normal. */
static double draw(double mean, double cv)
{
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += uniform() - 0.5;
    double value = mean * (1 + cv * sum * sqrt(3));
    return value > 0 ? value : 0;
}

#define MAX_SLOTS 64

struct pair {
    double make, make_cv, use, use_cv;
    int prefetch;
    /* batches; the first batch of the next epoch begins a pause after the last step */
    int per_epoch;
    double pause;
};

/* Batch i begins when the producer is free and batch i - slots was taken. Returns batches/s. */
static double simulated_pair(const struct pair *pair, int n)
{
    double taken[MAX_SLOTS] = {0}, made = 0, used = 0;
    int slots = pair->prefetch + 1;
    for (int i = 0; i < n; i++) {
        if (i > 0 && i % pair->per_epoch == 0)
            made = used += pair->pause;
        double free_at = taken[i % slots];
        double begin = made > free_at ? made : free_at;
        made = begin + draw(pair->make, pair->make_cv);
        double start = made > used ? made : used;
        taken[i % slots] = start;
        used = start + draw(pair->use, pair->use_cv);
    }
    return n / used;
}

static void test_pair(void **state)
{
    static const struct pair cases[] = {
        {0.1, 0, 0.1, 0, 2, INT_MAX, 0},       {0.1, 0.3, 0.1, 0.1, 2, INT_MAX, 0},
        {0.1, 0.4, 0.1, 0.4, 2, INT_MAX, 0},   {0.1, 0.4, 0.1, 0.4, 8, INT_MAX, 0},
        {0.1, 0.3, 0.11, 0.05, 2, INT_MAX, 0}, {0.1, 0.3, 0.09, 0.05, 2, INT_MAX, 0},
        {0.1, 0.5, 0.15, 0.1, 1, INT_MAX, 0},  {0.1, 0.5, 0.05, 0.1, 1, INT_MAX, 0},
        {0.1, 0.1, 1.0, 0.1, 2, INT_MAX, 0},   {1.0, 0.1, 0.1, 0.1, 2, INT_MAX, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct pair *c = &cases[i];
        double got = psti_stall_coupled_rate(1 / c->make, c->make_cv * c->make_cv, 1 / c->use,
                                             c->use_cv * c->use_cv, c->prefetch + 1);
        double seen = simulated_pair(c, 100000);
        if (fabs(got / seen - 1) > 0.02)
            print_error("pair case %zu: %g, simulated %g\n", i, got, seen);
        assert_true(fabs(got / seen - 1) <= 0.02);
    }
}

/* Predicts the same pair with the whole model: batches of one sample, one core, one worker. */
static double predicted_pair(const struct pair *pair)
{
    const struct psti_stall_setup s = {.struct_size = sizeof s,
                                       .cpu_seconds = pair->make,
                                       .cpu_sd_seconds = pair->make * pair->make_cv,
                                       .batch_size = 1,
                                       .prefetch = pair->prefetch,
                                       .step_seconds = pair->use,
                                       .step_sd_seconds = pair->use * pair->use_cv,
                                       .ranks = 1,
                                       .jobs = 1,
                                       .hosts = 1,
                                       .batches_per_epoch = pair->per_epoch,
                                       .epoch_pause_seconds = pair->pause,
                                       .cores = 1,
                                       .workers = 1};
    struct psti_stall_answer answer;
    struct pst_error err;
    assert_ok(psti_stall_predict(&s, &answer, sizeof answer, &err));
    return answer.samples_per_second;
}

static void test_epochs_begin_with_nothing_prepared(void **state)
{
    static const int per_epoch[] = {1, 2, 8, 100};
    static const struct pair cases[] = {{0.1, 0, 0.1, 0, 2, 0, 0},
                                        {0.1, 0.1, 0.02, 0.1, 2, 0, 0},
                                        {0.02, 0.1, 0.1, 0.1, 2, 0, 0.5},
                                        {0.1, 0.2, 0.11, 0.05, 4, 0, 0},
                                        {0.1, 0.2, 0.09, 0.05, 2, 0, 0.1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t k = 0; k < sizeof per_epoch / sizeof per_epoch[0]; k++) {
            struct pair pair = cases[i];
            pair.per_epoch = per_epoch[k];
            double got = predicted_pair(&pair), seen = simulated_pair(&pair, 50000);
            if (fabs(got / seen - 1) > 0.03)
                print_error("epochs case %zu of %d batches: %g, simulated %g\n", i, pair.per_epoch,
                            got, seen);
            assert_true(fabs(got / seen - 1) <= 0.03);
        }
    }
}

/* Storage and cores, sample by sample. */
struct stations {
    double read, work;   /* mean seconds for a sample */
    double read_cv;      /* coefficient of variation of a read: 0, or 1 as for exponential times */
    double hits;         /* fraction of the samples that are not read */
    double work_cv;      /* coefficient of variation, as for `draw` */
    int room, n_workers; /* samples under way: prefetch * batch size */
};

#define MAX_ROOM 64

static double read_seconds(const struct stations *c)
{
    if (uniform() < c->hits)
        return 0;
    return c->read / (1 - c->hits) * (c->read_cv > 0 ? -log(uniform()) : 1);
}

/* Sample i is read when the storage is free and sample i - room is done. Returns samples/s. */
static double simulated_stations(const struct stations *c, int n)
{
    double ends[MAX_ROOM] = {0}, read = 0, done = 0, half = 0;
    for (int i = 0; i < n; i++) {
        double begin = fmax(read, ends[i % c->room]);
        read = begin + read_seconds(c);
        done = fmax(read, done) + draw(c->work, c->work_cv);
        ends[i % c->room] = done;
        if (i == n / 2)
            half = done;
    }
    return (n - n / 2 - 1) / (done - half);
}

/* Predicts the same with the whole model: storage of 1 byte/s, one core. */
static double predicted_stations(const struct stations *c)
{
    const struct psti_stall_setup s = {.struct_size = sizeof s,
                                       .cpu_seconds = c->work,
                                       .cpu_sd_seconds = c->work * c->work_cv,
                                       .nbytes = c->read / (1 - c->hits),
                                       .nbytes_sd = c->read / (1 - c->hits) * c->read_cv,
                                       .batch_size = c->room,
                                       .prefetch = 1,
                                       .ranks = 1,
                                       .jobs = 1,
                                       .hosts = 1,
                                       .cores = 1,
                                       .workers = c->n_workers,
                                       .storage_nbytes_per_second = 1,
                                       .dataset_nbytes = 1,
                                       .cache_nbytes = c->hits,
                                       .reads_ahead = true};
    struct psti_stall_answer answer;
    struct pst_error err;
    assert_ok(psti_stall_predict(&s, &answer, sizeof answer, &err));
    return answer.samples_per_second;
}

static void test_stations(void **state)
{
    static const double read[] = {0.5, 0.8, 0.95, 1, 1.05, 1.25, 2};
    static const struct stations cases[] = {{0, 1, 1, 0, 0.4, 16, 1},
                                            {0, 1, 1, 0, 0.4, 34, 1},
                                            {0, 1, 0, 0, 0.4, 34, 1},
                                            {0, 1, 1, 0.5, 0, 34, 1},
                                            {0, 1, 0, 0.5, 0.4, 34, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t k = 0; k < sizeof read / sizeof read[0]; k++) {
            struct stations c = cases[i];
            c.read = read[k];
            double got = predicted_stations(&c), seen = simulated_stations(&c, 400000);
            if (fabs(got / seen - 1) > 0.02)
                print_error("stations case %zu, %g: %g, simulated %g\n", i, c.read, got, seen);
            assert_true(fabs(got / seen - 1) <= 0.02);
            assert_true(got <= fmin(1 / c.read, 1 / c.work) * (1 + 1e-9));
        }
    }
}

static void test_largest(void **state)
{
    (void)state;
    for (int n = 2; n <= 64; n *= 2) {
        double sum = 0;
        for (int i = 0; i < 20000; i++) {
            double most = -INFINITY;
            for (int k = 0; k < n; k++) {
                double value = sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
                most = value > most ? value : most;
            }
            sum += most;
        }
        assert_true(fabs(psti_stall_largest_of(n) - sum / 20000) < 0.05);
    }
    assert_true(psti_stall_largest_of(1) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hits),
        cmocka_unit_test(test_page_cache_of_the_paper),
        cmocka_unit_test(test_workers),
        cmocka_unit_test(test_pair),
        cmocka_unit_test(test_epochs_begin_with_nothing_prepared),
        cmocka_unit_test(test_stations),
        cmocka_unit_test(test_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
