/* test_order_mix.c - do weighted sources have exact shares, does each sample come once in each pass
 * over its source, does an epoch end as its rule says, and do ranks and resumes share the order? */
#include "test.h"

#include "order/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCES_MAX = 40, N_STATES = 2000 };

/* Sources of `counts` samples with `weights`. */
struct mix {
    uint32_t n;
    uint64_t counts[SOURCES_MAX], firsts[SOURCES_MAX], n_samples;
    double weights[SOURCES_MAX];
    uint64_t wholes[SOURCES_MAX], sum; /* the weights, if they are integers */
};

static uint64_t random_below(uint64_t *state, uint64_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % n;
}

static struct mix mix_of(uint32_t n, const uint64_t *counts, const uint64_t *wholes)
{
    struct mix mix = {.n = n};
    for (uint32_t k = 0; k < n; k++) {
        mix.counts[k] = counts[k];
        mix.firsts[k] = mix.n_samples;
        mix.n_samples += counts[k];
        mix.wholes[k] = wholes[k];
        mix.weights[k] = (double)wholes[k];
        mix.sum += wholes[k];
    }
    return mix;
}

static struct mix random_mix(uint64_t *state, uint64_t most_weight)
{
    uint64_t counts[SOURCES_MAX], wholes[SOURCES_MAX];
    uint32_t n = 1 + (uint32_t)random_below(state, random_below(state, 2) ? 4 : SOURCES_MAX);
    for (uint32_t k = 0; k < n; k++) {
        counts[k] = 1 + random_below(state, 30);
        wholes[k] = 1 + random_below(state, random_below(state, 3) ? 9 : most_weight);
    }
    return mix_of(n, counts, wholes);
}

static enum pst_status try_open(const struct mix *mix, struct psti_order_options options,
                                uint32_t quota, enum pst_source_stop stop,
                                struct psti_order **order, struct pst_error *err)
{
    struct psti_order_mix given = {mix->firsts, mix->weights, mix->n, quota, stop};
    options.n_samples = mix->n_samples;
    options.mix = &given;
    return psti_order_open(&options, order, err);
}

static struct psti_order *open_mix(const struct mix *mix, enum pst_order kind, uint64_t seed,
                                   uint32_t quota, enum pst_source_stop stop)
{
    struct psti_order *order = NULL;
    struct pst_error err;
    struct psti_order_options options = {.kind = kind, .seed = seed, .batch_size = 4};
    assert_ok(try_open(mix, options, quota, stop, &order, &err));
    return order;
}

static uint32_t source_of(const struct mix *mix, uint64_t sample)
{
    uint32_t k = 0;
    assert_true(sample < mix->n_samples);
    while (k + 1 < mix->n && mix->firsts[k + 1] <= sample)
        k++;
    return k;
}

/* Asserts that after t slots each source has its share of t, rounded down or up. */
static void assert_shares(const struct mix *mix, const uint64_t *had, uint64_t t)
{
    for (uint32_t k = 0; k < mix->n; k++) {
        uint64_t exact = t * mix->wholes[k];
        assert_true(had[k] * mix->sum < exact + mix->sum);
        assert_true(exact < had[k] * mix->sum + mix->sum);
    }
}

/* Checks every prefix, for many weights, most of them below one slot of a block. */
static void test_prefixes(void **state)
{
    uint64_t random = 1;
    (void)state;
    for (int i = 0; i < 300; i++) {
        struct mix mix = random_mix(&random, 700);
        struct psti_order *order =
            open_mix(&mix, PST_ORDER_SEQUENTIAL, 0, 1, PST_SOURCE_STOP_NEVER);
        uint64_t had[SOURCES_MAX] = {0};
        for (uint64_t t = 0; t < 2 * mix.sum + 5; t++) {
            uint64_t sample = psti_order_sample(order, 0, t);
            uint32_t k = source_of(&mix, sample);
            assert_int_equal(sample - mix.firsts[k], had[k] % mix.counts[k]);
            had[k]++;
            assert_shares(&mix, had, t + 1);
        }
        psti_order_close(&order);
    }
}

/* Checks a shuffled epoch: the shares after each block, and that each pass over a source gives each
 * sample once. */
static void assert_epoch(const struct mix *mix, const struct psti_order *order, uint64_t epoch,
                         uint32_t quota)
{
    uint64_t had[SOURCES_MAX] = {0}, n = psti_order_n(order);
    uint32_t *times = calloc(mix->n_samples, sizeof *times);
    for (uint64_t p = 0; p < n; p++) {
        uint64_t sample = psti_order_sample(order, epoch, p);
        times[sample]++;
        had[source_of(mix, sample)]++;
        assert_int_equal(psti_order_draw(order, p), p);
        if ((p + 1) % quota)
            continue;
        assert_shares(mix, had, p + 1);
        for (uint64_t s = 0; s < mix->n_samples; s++) {
            uint32_t k = source_of(mix, s);
            assert_true(times[s] == had[k] / mix->counts[k] ||
                        times[s] == (had[k] + mix->counts[k] - 1) / mix->counts[k]);
        }
    }
    free(times);
}

/* Finds the ends slot by slot: the end of the first block after which every source gave all
 * samples, and of the last one before a source repeats. */
static void find_ends(const struct mix *mix, uint32_t quota, uint64_t *all, uint64_t *first)
{
    struct psti_order *order = open_mix(mix, PST_ORDER_SEQUENTIAL, 0, 1, PST_SOURCE_STOP_NEVER);
    uint64_t had[SOURCES_MAX] = {0};
    bool whole = false, twice = false;
    *all = *first = 0;
    for (uint64_t t = 0; !whole; t += quota) {
        whole = true;
        for (uint64_t i = t; i < t + quota; i++)
            had[source_of(mix, psti_order_sample(order, 0, i))]++;
        for (uint32_t k = 0; k < mix->n; k++) {
            whole = whole && had[k] >= mix->counts[k];
            twice = twice || had[k] > mix->counts[k];
        }
        *first = twice ? *first : t + quota;
        *all = t + quota;
    }
    psti_order_close(&order);
}

static void test_blocks_and_ends(void **state)
{
    uint64_t random = 2;
    int n_refused = 0;
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct mix mix = random_mix(&random, 60);
        uint32_t quota = 1 + (uint32_t)random_below(&random, 20);
        uint64_t all, first;
        find_ends(&mix, quota, &all, &first);
        struct psti_order *order =
            open_mix(&mix, PST_ORDER_SHUFFLED, (uint64_t)i, quota, PST_SOURCE_STOP_ALL);
        assert_int_equal(psti_order_n(order), all);
        assert_epoch(&mix, order, (uint64_t)i % 3, quota);
        psti_order_close(&order);
        struct pst_error err;
        struct psti_order_options options = {.kind = PST_ORDER_SHUFFLED};
        enum pst_status status =
            try_open(&mix, options, quota, PST_SOURCE_STOP_FIRST, &order, &err);
        assert_int_equal(status, first ? PST_OK : PST_ERROR_ARGUMENT);
        n_refused += !first;
        if (first)
            assert_int_equal(psti_order_n(order), first);
        psti_order_close(&order);
    }
    assert_true(n_refused > 0 && n_refused < 200);
}

/* With weights 7 : 3 and blocks of 10, each block has 7 and 3, however the weights are scaled. */
static void test_exact(void **state)
{
    static const double forms[][2] = {{7, 3}, {0.7, 0.3}, {70, 30}, {7e-30, 3e-30}, {7e30, 3e30}};
    struct mix mix = mix_of(2, (uint64_t[]){1000, 50}, (uint64_t[]){7, 3});
    uint64_t hash = 0;
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        memcpy(mix.weights, forms[i], sizeof forms[i]);
        struct psti_order *order = open_mix(&mix, PST_ORDER_SHUFFLED, 9, 10, PST_SOURCE_STOP_ALL);
        assert_int_equal(psti_order_n(order), 1430); /* 1,000 / 7 blocks, rounded up */
        for (uint64_t p = 0; p < psti_order_n(order); p += 10) {
            int n_first = 0;
            for (uint64_t x = p; x < p + 10; x++)
                n_first += psti_order_sample(order, 4, x) < 1000;
            assert_int_equal(n_first, 7);
        }
        assert_true(i == 0 || hash == psti_order_hash(order));
        hash = psti_order_hash(order);
        psti_order_close(&order);
    }
}

/* With equal weights the sources take turns, the lower number first. */
static void test_ties(void **state)
{
    uint64_t counts[7], wholes[7];
    (void)state;
    for (uint32_t k = 0; k < 7; k++)
        counts[k] = 5, wholes[k] = 3;
    struct mix mix = mix_of(7, counts, wholes);
    struct psti_order *order = open_mix(&mix, PST_ORDER_SEQUENTIAL, 0, 3, PST_SOURCE_STOP_ALL);
    assert_int_equal(psti_order_n(order), 36);
    for (uint64_t p = 0; p < 35; p++)
        assert_int_equal(psti_order_sample(order, 0, p), p % 7 * 5 + p / 7);
    psti_order_close(&order);
}

/* Weights without a small common denominator keep their shares to 2^-20. */
static void test_irrational(void **state)
{
    struct mix mix = mix_of(3, (uint64_t[]){10, 20, 30}, (uint64_t[]){1, 1, 1});
    const double weights[3] = {sqrt(2), acos(-1), 1e-5};
    uint64_t had[3] = {0}, n = 3000000;
    (void)state;
    memcpy(mix.weights, weights, sizeof weights);
    struct psti_order *order = open_mix(&mix, PST_ORDER_SEQUENTIAL, 0, 0, PST_SOURCE_STOP_NEVER);
    double sum = weights[0] + weights[1] + weights[2];
    for (uint64_t t = 0; t < n; t++)
        had[source_of(&mix, psti_order_sample(order, 0, t))]++;
    for (int k = 0; k < 3; k++)
        assert_true(fabs((double)had[k] - (double)n * weights[k] / sum) < 1 + (double)n * 0x1p-20);
    psti_order_close(&order);
}

/* With quota 0, shares are exact for the whole epoch but differ from batch to batch. */
static void test_no_quota(void **state)
{
    struct mix mix = mix_of(2, (uint64_t[]){300, 100}, (uint64_t[]){1, 1});
    struct psti_order *order = open_mix(&mix, PST_ORDER_SHUFFLED, 3, 0, PST_SOURCE_STOP_ALL);
    int n_even = 0, n_second = 0;
    (void)state;
    /* the 300th sample of the first source is in slot 598 */
    assert_int_equal(psti_order_n(order), 599);
    for (uint64_t p = 0; p + 10 <= 590; p += 10) {
        int n = 0;
        for (uint64_t x = p; x < p + 10; x++)
            n += psti_order_sample(order, 0, x) >= 300;
        n_even += n == 5;
        n_second += n;
    }
    assert_true(n_even > 3 && n_even < 35); /* a quarter of the 59 cases is expected */
    assert_true(n_second > 280 && n_second < 300);
    psti_order_close(&order);
}

static void test_endless(void **state)
{
    struct mix mix = mix_of(2, (uint64_t[]){3, 4}, (uint64_t[]){2, 1});
    struct psti_order *order = open_mix(&mix, PST_ORDER_SHUFFLED, 3, 6, PST_SOURCE_STOP_NEVER);
    uint64_t n = psti_order_n(order);
    (void)state;
    assert_true(n > ((uint64_t)1 << 62) - 6 && n % 6 == 0);
    for (uint64_t p = n - 600; p < n; p += 6) {
        int n_first = 0;
        for (uint64_t x = p; x < p + 6; x++)
            n_first += psti_order_sample(order, 0, x) < 3;
        assert_int_equal(n_first, 4);
    }
    psti_order_close(&order);
}

/* A subset gives only its own samples and, if nothing is shuffled, in its own order. */
static void test_subset(void **state)
{
    struct mix mix = mix_of(3, (uint64_t[]){10, 10, 10}, (uint64_t[]){2, 1, 1});
    const uint64_t indices[6] = {25, 7, 12, 3, 25, 11};
    const uint64_t wanted[12] = {7, 12, 3, 25, 7, 11, 3, 25, 7, 12, 3, 25};
    struct psti_order_options options = {
        .kind = PST_ORDER_SEQUENTIAL, .indices = indices, .n_indices = 6, .batch_size = 1};
    struct psti_order *order = NULL;
    struct pst_error err;
    (void)state;
    assert_ok(try_open(&mix, options, 4, PST_SOURCE_STOP_ALL, &order, &err));
    assert_int_equal(psti_order_n(order), 8);
    uint64_t n_first = 0;
    for (uint64_t p = 0; p < 8; p++) {
        uint64_t sample = psti_order_sample(order, 0, p);
        assert_int_equal(sample, wanted[p]);
        n_first += sample < 10;
    }
    assert_int_equal(n_first, 4);
    psti_order_close(&order);
    options.n_indices = 4; /* a subset without samples of the third source */
    const uint64_t two[4] = {7, 12, 3, 11};
    options.indices = two;
    assert_int_equal(try_open(&mix, options, 4, PST_SOURCE_STOP_ALL, &order, &err),
                     PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "source 2 has no samples"));
}

/* Resumes random epochs, positions, world sizes and batch sizes: what all ranks deliver from there
 * on equals the uninterrupted epoch. */
static void test_resume(void **state)
{
    uint64_t random = 5;
    (void)state;
    for (int i = 0; i < N_STATES; i++) {
        struct mix mix = random_mix(&random, 30);
        uint32_t quota = 1 + (uint32_t)random_below(&random, 8);
        uint64_t epoch = random_below(&random, 5);
        struct psti_order *whole =
            open_mix(&mix, PST_ORDER_SHUFFLED, (uint64_t)i, quota, PST_SOURCE_STOP_ALL);
        struct psti_order *order =
            open_mix(&mix, PST_ORDER_SHUFFLED, (uint64_t)i, quota, PST_SOURCE_STOP_ALL);
        uint64_t n = psti_order_n(whole), start = random_below(&random, n), next = start;
        uint32_t world_size = 1 + (uint32_t)random_below(&random, 6);
        psti_order_set_batch_size(order, 1 + (uint32_t)random_below(&random, 9));
        assert_true(psti_order_hash(order) == psti_order_hash(whole));
        uint64_t n_steps = psti_order_n_batches(order, (struct psti_ranks){0, world_size}, start);
        for (uint64_t step = 0; step < n_steps; step++)
            for (uint32_t rank = 0; rank < world_size; rank++) {
                uint64_t positions[9];
                uint32_t got = psti_order_batch(order, (struct psti_ranks){rank, world_size}, start,
                                                step, positions);
                for (uint32_t b = 0; b < got; b++, next++) {
                    assert_int_equal(positions[b], next);
                    assert_int_equal(psti_order_sample(order, epoch, positions[b]),
                                     psti_order_sample(whole, epoch, next % n));
                }
            }
        assert_true(next >= n && next < n + world_size);
        psti_order_close(&order);
        psti_order_close(&whole);
    }
}

/* A source of weight 0 is not drawn, may be empty, and delays no end of an epoch. */
static void test_zero(void **state)
{
    struct mix mix = mix_of(3, (uint64_t[]){6, 50, 0}, (uint64_t[]){1, 0, 0});
    (void)state;
    for (int stop = PST_SOURCE_STOP_ALL; stop <= PST_SOURCE_STOP_FIRST; stop++) {
        struct psti_order *order =
            open_mix(&mix, PST_ORDER_SHUFFLED, 3, 2, (enum pst_source_stop)stop);
        uint32_t seen = 0;
        assert_int_equal(psti_order_n(order), 6);
        for (uint64_t p = 0; p < 6; p++)
            seen |= 1u << psti_order_sample(order, 0, p);
        assert_int_equal(seen, 63);
        psti_order_close(&order);
    }
    mix.weights[1] = sqrt(2) * 1e-2; /* a weight of 0 stays 0 when weights are rounded */
    struct psti_order *order = open_mix(&mix, PST_ORDER_SHUFFLED, 3, 2, PST_SOURCE_STOP_ALL);
    for (uint64_t p = 0; p < psti_order_n(order); p++)
        assert_true(psti_order_sample(order, 0, p) < 56);
    psti_order_close(&order);
}

/* A sample that replaces a bad one comes from the same source. */
static void test_replacements(void **state)
{
    uint64_t random = 11;
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct mix mix = random_mix(&random, 30);
        struct psti_order *order =
            open_mix(&mix, PST_ORDER_SHUFFLED, (uint64_t)i, 4, PST_SOURCE_STOP_ALL);
        for (uint64_t p = 0; p < psti_order_n(order); p++) {
            uint64_t number = random_below(&random, UINT64_MAX >> 33) << 33;
            uint64_t other = psti_order_replacement(order, 2, p, number);
            assert_int_equal(source_of(&mix, other),
                             source_of(&mix, psti_order_sample(order, 2, p)));
        }
        psti_order_close(&order);
    }
}

/* Tests of changes of weights
 * -------------------------------------------------------------------- */

enum { CHANGES_MAX = 6 };

static int64_t n_charged;

static bool allow(void *ctx, int64_t more)
{
    (void)ctx;
    n_charged += more;
    return true;
}

static bool refuse(void *ctx, int64_t more)
{
    (void)ctx;
    (void)more;
    return false;
}

struct changes {
    uint32_t n;
    uint64_t places[CHANGES_MAX * 2];
    double weights[CHANGES_MAX * SOURCES_MAX];
};

/* Makes changes at rising positions of a few epochs. Source 0 always has a weight; others may get
 * 0. */
static struct changes random_changes(const struct mix *mix, uint64_t n_positions, uint64_t *random)
{
    struct changes changes = {.n = (uint32_t)random_below(random, CHANGES_MAX + 1)};
    uint64_t epoch = 0, position = 0;
    for (uint32_t i = 0; i < changes.n; i++) {
        if (random_below(random, 3) == 0) {
            epoch++;
            position = 0;
        }
        position += random_below(random, n_positions - position);
        changes.places[i * 2] = epoch;
        changes.places[i * 2 + 1] = position;
        for (uint32_t k = 0; k < mix->n; k++)
            changes.weights[i * mix->n + k] = (double)random_below(random, k == i ? 2 : 9);
        changes.weights[i * mix->n] += 1;
    }
    return changes;
}

static enum pst_status set_changes(struct psti_order *order, const struct changes *changes,
                                   struct pst_error *err)
{
    return psti_order_set_changes(order, changes->places, changes->weights, changes->n, allow, NULL,
                                  err);
}

/* Returns the last change that applies to the block of a position, or -1 if there is none. */
static int change_at(const struct changes *changes, uint64_t epoch, uint64_t position,
                     uint32_t quota, uint64_t n)
{
    int found = -1;
    uint64_t block = position / quota * quota;
    for (uint32_t i = 0; i < changes->n; i++) {
        uint64_t at_epoch = changes->places[i * 2], at = changes->places[i * 2 + 1];
        at = (at + quota - 1) / quota * quota;
        if (at >= n) {
            at_epoch++;
            at = 0;
        }
        if (at_epoch < epoch || (at_epoch == epoch && at <= block))
            found = (int)i;
    }
    return found;
}

/* Checks one epoch. In the blocks since the last change each source has its share. Each source
 * gives all of its samples before it repeats one, also across changes. */
static void assert_changed(const struct mix *mix, const struct psti_order *order, uint64_t epoch,
                           const struct changes *changes, uint32_t quota)
{
    uint64_t since[SOURCES_MAX] = {0}, had[SOURCES_MAX] = {0}, n = psti_order_n(order), from = 0;
    uint32_t *times = calloc(mix->n_samples, sizeof *times);
    int change = change_at(changes, epoch, 0, quota, n);
    for (uint64_t p = 0; p < n; p++) {
        int now = change_at(changes, epoch, p, quota, n);
        if (now != change) {
            memset(since, 0, sizeof since);
            change = now;
            from = p;
        }
        uint64_t sample = psti_order_sample(order, epoch, p);
        times[sample]++;
        since[source_of(mix, sample)]++;
        had[source_of(mix, sample)]++;
        if ((p + 1) % quota)
            continue;
        struct mix weighted = *mix;
        weighted.sum = 0;
        for (uint32_t k = 0; k < mix->n; k++) {
            if (change >= 0)
                weighted.wholes[k] = (uint64_t)changes->weights[(uint32_t)change * mix->n + k];
            weighted.sum += weighted.wholes[k];
        }
        assert_shares(&weighted, since, p + 1 - from);
        for (uint64_t s = 0; s < mix->n_samples; s++) {
            uint32_t k = source_of(mix, s);
            assert_true(times[s] == had[k] / mix->counts[k] ||
                        times[s] == (had[k] + mix->counts[k] - 1) / mix->counts[k]);
        }
    }
    free(times);
}

static void test_changes(void **state)
{
    uint64_t random = 21;
    (void)state;
    for (int i = 0; i < 300; i++) {
        struct mix mix = random_mix(&random, 30);
        uint32_t quota = 1 + (uint32_t)random_below(&random, 12);
        struct psti_order *order =
            open_mix(&mix, PST_ORDER_SHUFFLED, (uint64_t)i, quota, PST_SOURCE_STOP_ALL);
        uint64_t hash = psti_order_hash(order), n = psti_order_n(order);
        struct changes changes = random_changes(&mix, n, &random);
        struct pst_error err;
        int64_t before = n_charged, nbytes = (int64_t)psti_order_nbytes(order);
        assert_ok(set_changes(order, &changes, &err));
        assert_int_equal(psti_order_n(order), n);
        assert_int_equal(n_charged - before, (int64_t)psti_order_nbytes(order) - nbytes);
        assert_true((psti_order_hash(order) == hash) == (changes.n == 0));
        for (uint64_t epoch = 0; epoch < 5; epoch++)
            assert_changed(&mix, order, epoch, &changes, quota);
        assert_ok(psti_order_set_changes(order, NULL, NULL, 0, allow, NULL, &err));
        assert_true(psti_order_hash(order) == hash && n_charged == before);
        psti_order_close(&order);
    }
}

/* Changes that are set one after another make the same order as changes set all at once. A change
 * alters nothing before its position. */
static void test_changes_one_by_one(void **state)
{
    uint64_t random = 22;
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct mix mix = random_mix(&random, 30);
        struct psti_order *one = open_mix(&mix, PST_ORDER_SHUFFLED, 1, 4, PST_SOURCE_STOP_ALL);
        struct psti_order *all = open_mix(&mix, PST_ORDER_SHUFFLED, 1, 4, PST_SOURCE_STOP_ALL);
        uint64_t n = psti_order_n(all);
        struct changes changes = random_changes(&mix, n, &random), some = changes;
        struct pst_error err;
        for (some.n = 0; some.n < changes.n;) {
            const uint64_t *place = &changes.places[some.n * 2];
            uint64_t before[64], n_before = place[1] < 64 ? place[1] : 64;
            for (uint64_t p = 0; p < n_before; p++)
                before[p] = psti_order_sample(one, place[0], p);
            some.n++;
            assert_ok(set_changes(one, &some, &err));
            for (uint64_t p = 0; p < n_before; p++)
                assert_int_equal(psti_order_sample(one, place[0], p), before[p]);
        }
        assert_ok(set_changes(all, &changes, &err));
        assert_true(psti_order_hash(one) == psti_order_hash(all));
        for (uint64_t p = 0; p < 4 * n; p++)
            assert_int_equal(psti_order_sample(one, p / n, p % n),
                             psti_order_sample(all, p / n, p % n));
        psti_order_close(&one);
        psti_order_close(&all);
    }
}

static void assert_change_refused(struct psti_order *order, const struct changes *changes,
                                  enum pst_status wanted, const char *words)
{
    struct pst_error err;
    uint64_t hash = psti_order_hash(order);
    assert_int_equal(set_changes(order, changes, &err), wanted);
    if (!strstr(err.text, words))
        fail_msg("'%s' lacks '%s'", err.text, words);
    assert_true(psti_order_hash(order) == hash);
}

/* A bad change is refused, and the earlier changes stay. */
static void test_changes_refused(void **state)
{
    struct mix mix = mix_of(3, (uint64_t[]){8, 8, 0}, (uint64_t[]){1, 1, 0});
    struct psti_order *order = open_mix(&mix, PST_ORDER_SHUFFLED, 1, 4, PST_SOURCE_STOP_ALL);
    const struct changes good = {2, {0, 4, 3, 8}, {1, 3, 0, 1, 0, 0}};
    struct changes bad = good;
    struct pst_error err;
    (void)state;
    assert_ok(set_changes(order, &good, &err));
    const double wrong[] = {-1, NAN, INFINITY, 1e-300};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bad.weights[4] = wrong[i];
        assert_change_refused(order, &bad, PST_ERROR_ARGUMENT, "source 1 has the weight");
    }
    bad = good;
    bad.weights[3] = 0;
    assert_change_refused(order, &bad, PST_ERROR_ARGUMENT, "the weights' sum is 0");
    bad = good;
    bad.weights[5] = 1;
    assert_change_refused(order, &bad, PST_ERROR_ARGUMENT, "source 2 has no samples");
    bad = good;
    bad.places[3] = 16;
    assert_change_refused(order, &bad, PST_ERROR_ARGUMENT, "an epoch has 16");
    bad = good;
    bad.places[2] = 0;
    bad.places[3] = 3;
    assert_change_refused(order, &bad, PST_ERROR_ARGUMENT, "before that of change 0");
    bad = good;
    bad.n = 1025;
    assert_change_refused(order, &bad, PST_ERROR_LIMIT, "1025 changes");
    bad = good;
    bad.weights[0] = sqrt(2);
    assert_int_equal(
        psti_order_set_changes(order, bad.places, bad.weights, bad.n, refuse, NULL, &err),
        PST_ERROR_LIMIT);
    assert_ok(set_changes(order, &good, &err));
    psti_order_close(&order);
    struct psti_order_options plain = {.kind = PST_ORDER_SHUFFLED, .n_samples = 4};
    assert_ok(psti_order_open(&plain, &order, &err));
    assert_change_refused(order, &good, PST_ERROR_ARGUMENT, "no weights of sources");
    psti_order_close(&order);
}

/* These numbers must be the same on all machines and in all releases. */
static void test_golden(void **state)
{
    struct mix mix = mix_of(3, (uint64_t[]){100, 20, 5}, (uint64_t[]){5, 2, 1});
    struct psti_order *order = open_mix(&mix, PST_ORDER_SHUFFLED, 7, 8, PST_SOURCE_STOP_ALL);
    static const uint64_t wanted[16] = {10, 118, 56,  124, 42, 30, 98, 119,
                                        60, 123, 107, 65,  43, 18, 20, 110};
    (void)state;
    assert_int_equal(psti_order_n(order), 160);
    for (uint64_t p = 0; p < 16; p++)
        assert_int_equal(psti_order_sample(order, 1, p), wanted[p]);
    psti_order_close(&order);
}

static void assert_refused(const struct mix *mix, struct psti_order_options options,
                           enum pst_source_stop stop, const char *words)
{
    struct psti_order *order = NULL;
    struct pst_error err;
    assert_int_equal(try_open(mix, options, 2, stop, &order, &err), PST_ERROR_ARGUMENT);
    assert_null(order);
    if (!strstr(err.text, words))
        fail_msg("'%s' lacks '%s'", err.text, words);
}

static void test_refusals(void **state)
{
    static const double ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const struct mix good = mix_of(2, (uint64_t[]){4, 4}, (uint64_t[]){1, 1});
    const struct psti_order_options shuffled = {.kind = PST_ORDER_SHUFFLED};
    const double wrong[] = {-1, NAN, INFINITY, -INFINITY, 1e-300};
    struct mix mix = good;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mix.weights[1] = wrong[i];
        assert_refused(&mix, shuffled, PST_SOURCE_STOP_ALL, "source 1 has the weight");
    }
    mix = good;
    mix.weights[0] = mix.weights[1] = 0;
    assert_refused(&mix, shuffled, PST_SOURCE_STOP_ALL, "the weights' sum is 0");
    mix.weights[0] = mix.weights[1] = 1.5e308;
    assert_refused(&mix, shuffled, PST_SOURCE_STOP_ALL, "the weights' sum is inf");
    assert_refused(&good, shuffled, (enum pst_source_stop)3, "stop rule 3 is not known");
    mix = mix_of(2, (uint64_t[]){4, 0}, (uint64_t[]){1, 1});
    assert_refused(&mix, shuffled, PST_SOURCE_STOP_ALL, "source 1 has no samples");
    mix = mix_of(2, (uint64_t[]){4, 1}, (uint64_t[]){1, 99});
    assert_refused(&mix, shuffled, PST_SOURCE_STOP_FIRST, "no whole block of 2 samples");
    mix = mix_of(2, (uint64_t[]){(uint64_t)1 << 61, 4}, (uint64_t[]){1, 60000});
    assert_refused(&mix, shuffled, PST_SOURCE_STOP_ALL, "more than 2^62 positions");
    mix = good;
    mix.firsts[1] = 9;
    assert_refused(&mix, shuffled, PST_SOURCE_STOP_ALL, "source 1 begins at sample 9");
    mix.firsts[1] = 4;
    mix.firsts[0] = 1;
    assert_refused(&mix, shuffled, PST_SOURCE_STOP_ALL, "source 0 begins at sample 1");
    mix = good;
    mix.n = 0;
    assert_refused(&mix, shuffled, PST_SOURCE_STOP_ALL, "0 sources");
    struct psti_order_options options = {.kind = PST_ORDER_PAGES};
    assert_refused(&good, options, PST_SOURCE_STOP_ALL, "not possible with the page order");
    options = (struct psti_order_options){.kind = PST_ORDER_SHUFFLED, .weights = ones};
    assert_refused(&good, options, PST_SOURCE_STOP_ALL, "not possible with weights of samples");
    options = (struct psti_order_options){.kind = PST_ORDER_SHUFFLED, .repeats = 2};
    assert_refused(&good, options, PST_SOURCE_STOP_ALL, "not possible with repeats");
}

/* The hash covers everything that decides which samples an order gives. */
static void test_hash(void **state)
{
    const struct mix mix = mix_of(2, (uint64_t[]){40, 40}, (uint64_t[]){1, 2});
    struct mix others[2] = {mix_of(2, (uint64_t[]){40, 40}, (uint64_t[]){2, 1}),
                            mix_of(2, (uint64_t[]){41, 39}, (uint64_t[]){1, 2})};
    uint64_t hashes[6];
    struct psti_order *order;
    (void)state;
    for (int i = 0; i < 6; i++) {
        const struct mix *used = i < 2 ? &others[i] : &mix;
        enum pst_source_stop stop = i == 3 ? PST_SOURCE_STOP_FIRST : PST_SOURCE_STOP_ALL;
        order = open_mix(used, PST_ORDER_SHUFFLED, 1, i == 4 ? 3 : 6, stop);
        hashes[i] = psti_order_hash(order);
        psti_order_close(&order);
    }
    struct pst_error err;
    struct psti_order_options plain = {.kind = PST_ORDER_SHUFFLED, .n_samples = 80};
    assert_ok(psti_order_open(&plain, &order, &err));
    hashes[5] = psti_order_hash(order);
    psti_order_close(&order);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++)
            assert_true(hashes[i] != hashes[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_blocks_and_ends),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_irrational),
        cmocka_unit_test(test_no_quota),
        cmocka_unit_test(test_endless),
        cmocka_unit_test(test_subset),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_zero),
        cmocka_unit_test(test_replacements),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_changes_one_by_one),
        cmocka_unit_test(test_changes_refused),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
