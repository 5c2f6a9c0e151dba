/* test_order.c - is every order a bijection and well mixed, and do ranks and resumes share it? */
#include "test.h"

#include "order/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct psti_order *open_order(struct psti_order_options options)
{
    struct psti_order *order = NULL;
    struct pst_error err;
    assert_ok(psti_order_open(&options, &order, &err));
    return order;
}

static void assert_bijective(const struct psti_order *order, uint64_t epoch, uint64_t n)
{
    uint8_t *seen = calloc(n + 1, 1);
    for (uint64_t p = 0; p < n; p++) {
        uint64_t x = psti_order_sample(order, epoch, p);
        assert_true(x < n);
        assert_int_equal(seen[x], 0);
        seen[x] = 1;
    }
    free(seen);
}

static void test_small_bijective(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 50; n++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            struct psti_order *order = open_order((struct psti_order_options){
                .kind = PST_ORDER_SHUFFLED, .seed = seed, .n_samples = n});
            for (uint64_t epoch = 0; epoch < 5; epoch++)
                assert_bijective(order, epoch, n);
            psti_order_close(&order);
        }
}

static void test_pages_bijective(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 90; n++)
        for (uint32_t page = 1; page <= 9; page += 2)
            for (uint32_t window = 1; window <= 7; window += 3) {
                struct psti_order *order =
                    open_order((struct psti_order_options){.kind = PST_ORDER_PAGES,
                                                           .seed = n,
                                                           .n_samples = n,
                                                           .page_samples = page,
                                                           .window_pages = window});
                for (uint64_t epoch = 0; epoch < 3; epoch++)
                    assert_bijective(order, epoch, n);
                psti_order_close(&order);
            }
}

/* Over many seeds, all 6 permutations of 3 and all 24 of 4 must occur about equally often. */
static void test_small_uniform(void **state)
{
    (void)state;
    enum { SEEDS = 24000 };
    for (uint64_t n = 3; n <= 4; n++) {
        unsigned count[256] = {0}, kinds = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            struct psti_order *order = open_order((struct psti_order_options){
                .kind = PST_ORDER_SHUFFLED, .seed = seed, .n_samples = n});
            unsigned code = 0;
            for (uint64_t p = 0; p < n; p++)
                code = code * 4 + (unsigned)psti_order_sample(order, 1, p);
            count[code]++;
            psti_order_close(&order);
        }
        unsigned permutations = n == 3 ? 6 : 24;
        double expected = (double)SEEDS / permutations, chi = 0;
        for (unsigned i = 0; i < 256; i++)
            if (count[i]) {
                kinds++;
                chi += (count[i] - expected) * (count[i] - expected) / expected;
            }
        assert_int_equal(kinds, permutations);
        /* 5.5 standard deviations of chi-square with permutations - 1 degrees of freedom */
        double freedom = permutations - 1;
        assert_true(chi < freedom + 5.5 * sqrt(2 * freedom));
    }
}

/* Counts (position bucket, sample bucket) over epochs in 16 x 16 cells and computes chi-square.
 * Each row and column has a fixed sum, so there are (16 - 1)^2 degrees of freedom. */
static void test_chi_square(void **state)
{
    (void)state;
    const uint64_t sizes[] = {1000, 4097, 65536, 100003};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint64_t n = sizes[s];
        double cells[16][16] = {{0}};
        struct psti_order *order = open_order(
            (struct psti_order_options){.kind = PST_ORDER_SHUFFLED, .seed = 7, .n_samples = n});
        int epochs = (int)(400000 / n) + 1;
        for (int epoch = 0; epoch < epochs; epoch++)
            for (uint64_t p = 0; p < n; p++)
                cells[p * 16 / n][psti_order_sample(order, (uint64_t)epoch, p) * 16 / n]++;
        double expected = (double)n * epochs / 256, chi = 0;
        for (int i = 0; i < 256; i++)
            chi +=
                (cells[i / 16][i % 16] - expected) * (cells[i / 16][i % 16] - expected) / expected;
        assert_true(chi < 225 + 5.5 * sqrt(450));
        assert_true(chi > 225 - 5.5 * sqrt(450));
        psti_order_close(&order);
    }
}

/* The distances (mod n) between samples at neighbouring positions are uniform, counted in 64
 * buckets. */
static void test_neighbours(void **state)
{
    (void)state;
    uint64_t n = 200000;
    double cells[64] = {0};
    struct psti_order *order = open_order(
        (struct psti_order_options){.kind = PST_ORDER_SHUFFLED, .seed = 11, .n_samples = n});
    uint64_t last = psti_order_sample(order, 3, 0);
    for (uint64_t p = 1; p < n; p++) {
        uint64_t x = psti_order_sample(order, 3, p);
        cells[((x + n - last) % n) * 64 / n]++;
        last = x;
    }
    double expected = (double)(n - 1) / 64, chi = 0;
    for (int i = 0; i < 64; i++)
        chi += (cells[i] - expected) * (cells[i] - expected) / expected;
    assert_true(chi < 63 + 5.5 * sqrt(126));
    assert_true(chi > 63 - 5.5 * sqrt(126));
    psti_order_close(&order);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void test_large_injective(void **state)
{
    (void)state;
    const uint64_t sizes[] = {((uint64_t)1 << 40), ((uint64_t)1 << 40) - 87,
                              ((uint64_t)1 << 32) + 1, ((uint64_t)1 << 62)};
    enum { RANGE = 20000 };
    uint64_t *seen = malloc(3 * RANGE * sizeof *seen);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int kind = PST_ORDER_SHUFFLED; kind <= PST_ORDER_PAGES; kind++) {
            uint64_t n = sizes[s];
            struct psti_order *order = open_order((struct psti_order_options){
                .kind = (enum pst_order)kind, .seed = 5, .n_samples = n});
            for (uint64_t i = 0; i < RANGE; i++) {
                seen[i] = psti_order_sample(order, 9, i);
                seen[RANGE + i] = psti_order_sample(order, 9, n / 2 + i);
                seen[2 * RANGE + i] = psti_order_sample(order, 9, n - 1 - i);
            }
            qsort(seen, 3 * RANGE, sizeof *seen, compare_u64);
            for (size_t i = 0; i < 3 * RANGE; i++) {
                assert_true(seen[i] < n);
                assert_true(i == 0 || seen[i] != seen[i - 1]);
            }
            psti_order_close(&order);
        }
    free(seen);
}

/* These numbers must never change, because resumed runs depend on them. */
static void test_golden(void **state)
{
    (void)state;
    static const uint64_t shuffled[8] = {171036, 857895, 191839, 553819,
                                         533710, 721046, 300549, 649266};
    static const uint64_t pages[8] = {232024, 997437, 842943, 6339, 719053, 88710, 911232, 987088};
    static const uint64_t default_pages[8] = {497843, 416157, 860473, 31588,
                                              441161, 661998, 385462, 761306};
    struct psti_order *a = open_order(
        (struct psti_order_options){.kind = PST_ORDER_SHUFFLED, .seed = 42, .n_samples = 1000003});
    struct psti_order *b = open_order((struct psti_order_options){.kind = PST_ORDER_PAGES,
                                                                  .seed = 42,
                                                                  .n_samples = 1000003,
                                                                  .page_samples = 64,
                                                                  .window_pages = 64});
    struct psti_order *c = open_order(
        (struct psti_order_options){.kind = PST_ORDER_PAGES, .seed = 42, .n_samples = 1000003});
    for (uint64_t p = 0; p < 8; p++) {
        assert_int_equal(psti_order_sample(a, 3, p * 1000), shuffled[p]);
        assert_int_equal(psti_order_sample(b, 3, p * 1000), pages[p]);
        assert_int_equal(psti_order_sample(c, 3, p * 1000), default_pages[p]);
    }
    assert_true(psti_order_hash_with(c, 64, 64) == psti_order_hash(b));
    assert_true(psti_order_hash_with(c, 16, 64) == psti_order_hash(c));
    assert_true(psti_order_hash(b) != psti_order_hash(c));
    psti_order_close(&a);
    psti_order_close(&b);
    psti_order_close(&c);
}

/* Returns the mean number of different classes in a run of n positions, where a class is a run of
 * 1300 samples as in ImageNet. */
static double classes_of_runs(const struct psti_order *order, uint64_t n)
{
    enum { CLASS = 1300, N_CLASSES = 1000 };
    static uint64_t last_run[N_CLASSES]; /* number of the last run that had the class, from 1 */
    uint64_t n_runs = psti_order_n(order) / n, sum = 0;
    memset(last_run, 0, sizeof last_run);
    for (uint64_t p = 0; p < n_runs * n; p++) {
        uint64_t i_class = psti_order_sample(order, 1, p) / CLASS;
        sum += last_run[i_class] != p / n + 1;
        last_run[i_class] = p / n + 1;
    }
    return (double)sum / (double)n_runs;
}

/* The default windows mix as many classes of a sorted data set as the former default, 64 pages of
 * 64, in runs of any length: in short ones 4 % less at most, in long ones more than twice as many.
 */
static void test_default_mixes(void **state)
{
    (void)state;
    static const uint64_t runs[] = {32, 128, 512, 1024, 4096, 16384};
    struct psti_order_options options = {
        .kind = PST_ORDER_PAGES, .seed = 5, .n_samples = 1281167, .window_pages = 64};
    struct psti_order *now = open_order(options);
    options.page_samples = 64;
    struct psti_order *former = open_order(options);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        assert_true(classes_of_runs(now, runs[i]) > 0.96 * classes_of_runs(former, runs[i]));
    assert_true(classes_of_runs(now, 4096) > 2 * classes_of_runs(former, 4096));
    psti_order_close(&now);
    psti_order_close(&former);
}

/* The samples of a window come from at least window_pages pages, and no page is in two windows. */
static void test_pages_bound(void **state)
{
    (void)state;
    enum { N = 10007, PAGE = 16, WINDOW = 8 };
    struct psti_order *order = open_order((struct psti_order_options){.kind = PST_ORDER_PAGES,
                                                                      .seed = 1,
                                                                      .n_samples = N,
                                                                      .page_samples = PAGE,
                                                                      .window_pages = WINDOW});
    uint64_t short_first[2];
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        static int owner[N];
        uint64_t covered = 0, window = 0;
        memset(owner, -1, sizeof owner);
        for (; psti_order_window(order, 0) != UINT64_MAX; window++) {
            uint64_t first, n, i = 0;
            while (psti_order_window_page(order, epoch, window, i, &first, &n)) {
                for (uint64_t k = 0; k < n; k++) {
                    assert_int_equal(owner[first + k], -1);
                    owner[first + k] = (int)window;
                }
                covered += n;
                short_first[epoch] = first;
                i++;
            }
            if (i == 0)
                break;
            assert_true(i >= WINDOW && i < 2 * WINDOW);
        }
        assert_true(covered > N - PAGE); /* one page may wrap around */
        for (uint64_t p = 0; p < N; p++) {
            uint64_t x = psti_order_sample(order, epoch, p);
            if (owner[x] >= 0) {
                uint64_t end = psti_order_window_end(order, p), own = psti_order_window(order, p);
                assert_int_equal(owner[x], own);
                assert_true(end > p && psti_order_window(order, end - 1) == own);
                assert_true(psti_order_window(order, end) != own);
            }
        }
    }
    assert_int_not_equal(short_first[0], short_first[1]);
    psti_order_close(&order);
}

/* Within a window samples are well mixed: chi-square of (place in window, page) over epochs. */
static void test_pages_mixed(void **state)
{
    (void)state;
    enum { PAGE = 32, WINDOW = 8, N = PAGE * WINDOW * 4, EPOCHS = 400 };
    double cells[8][8] = {{0}};
    struct psti_order *order = open_order((struct psti_order_options){.kind = PST_ORDER_PAGES,
                                                                      .seed = 3,
                                                                      .n_samples = N,
                                                                      .page_samples = PAGE,
                                                                      .window_pages = WINDOW});
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        for (uint64_t p = 0; p < N; p++)
            cells[p % (PAGE * WINDOW) / PAGE][psti_order_sample(order, epoch, p) * 8 / N]++;
    double expected = (double)N * EPOCHS / 64, chi = 0;
    for (int i = 0; i < 64; i++)
        chi += (cells[i / 8][i % 8] - expected) * (cells[i / 8][i % 8] - expected) / expected;
    assert_true(chi < 49 + 6 * sqrt(98));
    psti_order_close(&order);
}

/* Returns the position of row i of a rank's step, computed in the simplest way: each rank has its
 * block of the step. The blocks of the last step are as large as the rest of the epoch allows. */
static uint64_t position_of(uint64_t n, uint32_t batch, uint32_t world, uint32_t rank,
                            uint64_t step, uint32_t i)
{
    uint64_t first = step * batch * world, rest = n - first;
    uint64_t block = rest < (uint64_t)batch * world ? (rest + world - 1) / world : batch;
    return first + rank * block + i;
}

/* The numbers of batches and rows are those of torch: DistributedSampler(num_replicas=W, rank=r,
 * drop_last=d) into DataLoader(batch_size=B, drop_last=d), computed in the simplest way. */
static void test_torch_rules(void **state)
{
    (void)state;
    for (uint64_t n = 0; n <= 40; n++)
        for (uint32_t world = 1; world <= 5; world++)
            for (uint32_t batch = 1; batch <= 7; batch += 2)
                for (int drop = 0; drop < 2; drop++)
                    for (uint32_t rank = 0; rank < world; rank++) {
                        struct psti_order *order = open_order((struct psti_order_options){
                            .n_samples = n, .batch_size = batch, .drop_last = drop});
                        struct psti_ranks ranks = {rank, world};
                        uint64_t per_rank = drop ? n / world : (n + world - 1) / world;
                        uint64_t batches = drop ? per_rank / batch : (per_rank + batch - 1) / batch;
                        assert_int_equal(psti_order_n_batches(order, ranks, 0), batches);
                        for (uint64_t step = 0; step <= batches; step++) {
                            uint64_t positions[8];
                            uint32_t got = psti_order_batch(order, ranks, 0, step, positions);
                            uint64_t want = step == batches ? 0 : per_rank - step * batch;
                            assert_int_equal(got, want > batch ? batch : want);
                            for (uint32_t i = 0; i < got; i++) {
                                uint64_t p = position_of(n, batch, world, rank, step, i);
                                assert_int_equal(positions[i], p);
                                assert_int_equal(psti_order_sample(order, 0, p), p % n);
                            }
                        }
                        psti_order_close(&order);
                    }
}

/* Runs steps of one world size up to some point, then of another: every position comes once. */
static void test_resume(void **state)
{
    (void)state;
    enum { N = 97, BATCH = 3 };
    for (uint32_t before = 1; before <= 4; before++)
        for (uint32_t after = 1; after <= 5; after++)
            for (uint64_t steps = 0; steps <= 9; steps++) {
                int seen[N + 64] = {0};
                uint64_t position = 0;
                for (int part = 0; part < 2; part++) {
                    uint32_t world = part ? after : before;
                    uint64_t start = position, end = 0;
                    for (uint32_t rank = 0; rank < world; rank++) {
                        struct psti_order *order = open_order(
                            (struct psti_order_options){.n_samples = N, .batch_size = BATCH});
                        struct psti_ranks ranks = {rank, world};
                        uint64_t n = part ? psti_order_n_batches(order, ranks, start) : steps;
                        uint64_t positions[BATCH];
                        end = psti_order_end(order, ranks, start);
                        for (uint64_t s = 0; s < n; s++) {
                            uint32_t got = psti_order_batch(order, ranks, start, s, positions);
                            for (uint32_t i = 0; i < got; i++)
                                seen[positions[i]]++;
                        }
                        psti_order_close(&order);
                    }
                    position = start + steps * BATCH * world;
                    if (position > end)
                        position = end;
                }
                for (int p = 0; p < N; p++)
                    assert_int_equal(seen[p], 1);
            }
}

/* The ways in which an epoch can end. */
enum ending { PADDED, UNPADDED, DROPPED };

/* Counts how often all ranks together get each position of steps 0..n_steps-1 from `start` on. */
static void count_positions(uint64_t n, uint32_t batch, uint32_t world, enum ending ending,
                            uint64_t start, uint64_t n_steps, unsigned *counts)
{
    struct psti_order *order =
        open_order((struct psti_order_options){.n_samples = n,
                                               .batch_size = batch,
                                               .drop_last = ending == DROPPED,
                                               .no_epoch_padding = ending == UNPADDED});
    for (uint32_t rank = 0; rank < world; rank++) {
        struct psti_ranks ranks = {rank, world};
        uint64_t steps = psti_order_n_batches(order, ranks, start), positions[16];
        for (uint64_t step = 0; step < steps && step < n_steps; step++) {
            uint32_t got = psti_order_batch(order, ranks, start, step, positions);
            assert_true(got > 0 && got <= batch);
            for (uint32_t i = 0; i < got; i++) {
                assert_int_equal(positions[i], positions[0] + i); /* one run */
                assert_true(positions[i] < psti_order_end(order, ranks, start));
                counts[positions[i]]++;
            }
        }
    }
    psti_order_close(&order);
}

/* Each position comes once over all ranks, for all numbers of samples, ranks, rows and endings,
 * even if the run continues in the middle with other ranks and another batch size. */
static void test_each_once(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 31; n++)
        for (uint32_t world = 1; world <= 5; world++)
            for (uint32_t batch = 1; batch <= 6; batch++)
                for (int ending = PADDED; ending <= DROPPED; ending++)
                    for (uint32_t after = 1; after <= 6; after += after == 1 ? 2 : 3) {
                        unsigned counts[31 + 6] = {0};
                        uint64_t steps = n / ((uint64_t)batch * world) / 2;
                        uint64_t start = steps * batch * world;
                        uint64_t last =
                            ending == DROPPED    ? start + (n - start) / (2 * after) * (2 * after)
                            : ending == UNPADDED ? n
                                                 : start + (n - start + after - 1) / after * after;
                        count_positions(n, batch, world, (enum ending)ending, 0, steps, counts);
                        count_positions(n, 2, after, (enum ending)ending, start, UINT64_MAX,
                                        counts);
                        for (uint64_t p = 0; p < n + 6; p++)
                            assert_int_equal(counts[p], p < last);
                    }
}

static void test_weights(void **state)
{
    (void)state;
    const double weights[6] = {0, 1, 2, 0, 4, 0};
    const uint64_t indices[6] = {10, 20, 30, 40, 50, 60};
    struct psti_order *order = open_order((struct psti_order_options){.kind = PST_ORDER_SHUFFLED,
                                                                      .seed = 2,
                                                                      .n_samples = 100,
                                                                      .indices = indices,
                                                                      .n_indices = 6,
                                                                      .weights = weights});
    double count[7] = {0};
    enum { EPOCHS = 20000 };
    assert_int_equal(psti_order_n(order), 6);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        for (uint64_t p = 0; p < 6; p++)
            count[psti_order_sample(order, epoch, p) / 10]++;
    assert_true(count[1] == 0 && count[4] == 0 && count[6] == 0);
    double total = EPOCHS * 6.0;
    assert_true(fabs(count[2] / total - 1.0 / 7) < 0.006);
    assert_true(fabs(count[3] / total - 2.0 / 7) < 0.006);
    assert_true(fabs(count[5] / total - 4.0 / 7) < 0.006);
    psti_order_close(&order);
}

static void test_refusals(void **state)
{
    (void)state;
    const double negative[2] = {1, -1}, nan_[2] = {1, NAN}, zero[2] = {0, 0}, good[2] = {1, 1};
    const uint64_t beyond[1] = {2};
    const struct psti_order_options bad[] = {
        {.kind = (enum pst_order)9, .n_samples = 2},
        {.n_samples = 2, .indices = beyond, .n_indices = 1},
        {.kind = PST_ORDER_SHUFFLED, .n_samples = 2, .weights = negative},
        {.kind = PST_ORDER_SHUFFLED, .n_samples = 2, .weights = nan_},
        {.kind = PST_ORDER_SHUFFLED, .n_samples = 2, .weights = zero},
        {.kind = PST_ORDER_SEQUENTIAL, .n_samples = 2, .weights = good},
        {.n_samples = ((uint64_t)1 << 62) + 1},
        {.n_samples = 2, .repeats = 65537},
        {.kind = PST_ORDER_PAGES, .n_samples = 2, .repeats = 2},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct psti_order *order;
        struct pst_error err;
        assert_int_equal(psti_order_open(&bad[i], &order, &err), PST_ERROR_ARGUMENT);
        assert_null(order);
        assert_true(err.text[0] != '\0');
    }
    const struct psti_ranks wrong[] = {{2, 2}, {1, 0}, {0, 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct pst_error err;
        assert_int_equal(psti_order_check_ranks(wrong[i], &err), PST_ERROR_ARGUMENT);
        assert_non_null(strstr(err.text, "is not below world size"));
    }
}

static void test_hash(void **state)
{
    (void)state;
    const uint64_t some[3] = {1, 2, 3}, other[3] = {1, 3, 2};
    const double weights[3] = {1, 2, 3};
    const struct psti_order_options kinds[] = {
        {.n_samples = 9},
        {.kind = PST_ORDER_SHUFFLED, .n_samples = 9},
        {.kind = PST_ORDER_PAGES, .n_samples = 9},
        {.kind = PST_ORDER_PAGES, .n_samples = 9, .page_samples = 8},
        {.kind = PST_ORDER_PAGES, .n_samples = 9, .window_pages = 8},
        {.n_samples = 9, .indices = some, .n_indices = 3},
        {.n_samples = 9, .indices = other, .n_indices = 3},
        {.kind = PST_ORDER_SHUFFLED,
         .n_samples = 9,
         .indices = some,
         .n_indices = 3,
         .weights = weights},
        {.n_samples = 9, .repeats = 2},
        {.n_samples = 9, .repeats = 3},
    };
    uint64_t hashes[10];
    for (size_t i = 0; i < 10; i++) {
        struct psti_order_options changed = kinds[i];
        changed.batch_size = 5;
        changed.drop_last = true;
        struct psti_order *a = open_order(kinds[i]), *b = open_order(changed);
        hashes[i] = psti_order_hash(a);
        assert_true(hashes[i] == psti_order_hash(b));
        for (size_t k = 0; k < i; k++)
            assert_true(hashes[k] != hashes[i]);
        psti_order_close(&a);
        psti_order_close(&b);
    }
}

/* Only where a sample may come several times, the draw depends on the position. */
static void test_draws(void **state)
{
    (void)state;
    enum { N = 9 };
    static const uint64_t once[N] = {8, 7, 6, 5, 4, 3, 2, 1, 0};
    static const uint64_t twice[N] = {8, 7, 6, 5, 4, 3, 2, 1, 8};
    static const double weights[N] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    const struct psti_order_options ways[] = {
        {.kind = PST_ORDER_SEQUENTIAL, .n_samples = N},
        {.kind = PST_ORDER_SHUFFLED, .n_samples = N, .indices = once, .n_indices = N},
        {.kind = PST_ORDER_SEQUENTIAL, .n_samples = N, .indices = twice, .n_indices = N},
        {.kind = PST_ORDER_PAGES, .n_samples = N, .indices = twice, .n_indices = N},
        {.kind = PST_ORDER_SHUFFLED, .n_samples = N, .weights = weights},
        {.kind = PST_ORDER_SHUFFLED, .n_samples = N, .repeats = 2},
    };
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        struct psti_order *order = open_order(ways[w]);
        for (uint64_t p = 0; p < N + 3; p++) /* positions of the padding repeat a draw */
            assert_int_equal(psti_order_draw(order, p), w < 2 ? 0 : p % N);
        psti_order_close(&order);
    }
}

/* Pages are cut from the samples in the table's order, and a state shows that its order used a
 * table. */
static void test_table(void **state)
{
    (void)state;
    enum { N = 103 };
    uint32_t table[N];
    uint64_t some[3] = {8, 2, 5}, first, n;
    for (uint32_t i = 0; i < N; i++)
        table[i] = i * 40 % N;
    struct psti_order_options options = {
        .kind = PST_ORDER_PAGES, .seed = 4, .n_samples = N, .page_samples = 5, .window_pages = 3};
    struct psti_order *plain = open_order(options);
    options.neighbours = table;
    struct psti_order *sorted = open_order(options);
    assert_true(psti_order_hash(plain) != psti_order_hash(sorted));
    assert_true(psti_order_nbytes(sorted) == sizeof table && psti_order_nbytes(plain) == 0);
    assert_false(psti_order_window_page(sorted, 1, 0, 0, &first, &n));
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        for (uint64_t p = 0; p < N + 5; p++)
            assert_int_equal(psti_order_sample(sorted, epoch, p),
                             table[psti_order_sample(plain, epoch, p)]);
    psti_order_close(&plain);
    psti_order_close(&sorted);
    /* A subset and the other kinds of order ignore the table. */
    for (int way = 0; way < 2; way++) {
        options.indices = way ? some : NULL;
        options.n_indices = way ? 3 : 0;
        options.kind = way ? PST_ORDER_PAGES : PST_ORDER_SHUFFLED;
        options.neighbours = table;
        sorted = open_order(options);
        options.neighbours = NULL;
        plain = open_order(options);
        assert_true(psti_order_hash(plain) == psti_order_hash(sorted));
        for (uint64_t p = 0; p < psti_order_n(plain); p++)
            assert_int_equal(psti_order_sample(sorted, 2, p), psti_order_sample(plain, 2, p));
        psti_order_close(&plain);
        psti_order_close(&sorted);
    }
}

/* r epochs are one sequence of positions, in which each sample stands r times side by side. */
static void test_repeats(void **state)
{
    (void)state;
    enum { N_MAX = 23 };
    static const enum pst_order kinds[] = {PST_ORDER_SEQUENTIAL, PST_ORDER_SHUFFLED};
    for (uint64_t n = 1; n <= N_MAX; n++)
        for (uint32_t r = 1; r <= 7; r++)
            for (size_t k = 0; k < 2; k++) {
                struct psti_order_options options = {.kind = kinds[k], .seed = 5, .n_samples = n};
                struct psti_order *plain = open_order(options);
                options.repeats = r;
                struct psti_order *order = open_order(options);
                assert_int_equal(psti_order_n(order), n);
                assert_true((psti_order_hash(order) == psti_order_hash(plain)) == (r == 1));
                for (uint64_t g = 0; g < 2 * r * n; g++) {
                    uint64_t epoch = g / n, group = epoch / r;
                    uint64_t wanted = psti_order_sample(plain, group, (g - group * r * n) / r);
                    assert_int_equal(psti_order_sample(order, epoch, g % n), wanted);
                }
                psti_order_close(&order);
                psti_order_close(&plain);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_bijective),
        cmocka_unit_test(test_pages_bijective),
        cmocka_unit_test(test_small_uniform),
        cmocka_unit_test(test_chi_square),
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_large_injective),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_pages_bound),
        cmocka_unit_test(test_pages_mixed),
        cmocka_unit_test(test_default_mixes),
        cmocka_unit_test(test_torch_rules),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_draws),
        cmocka_unit_test(test_each_once),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
