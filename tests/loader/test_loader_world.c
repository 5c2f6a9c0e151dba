/* test_loader_world.c - pst_loader_set_world: several loaders stand for ranks that come and go at
 * any step. Do they together deliver each position of an epoch once, bit-identical to one
 * uninterrupted rank? */
#include "loader/loader_fixture.h"
#include "test.h"

#include "base/hash.h"

#include <penstock/settings.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_SAMPLES = 61, WORLD_MAX = 6, N_CHANGES = 200 };

static pst_dataset *mixed;

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    mixed = open_made(directory, "mixed",
                      &(struct make_options){.n_samples = N_SAMPLES,
                                             .images = MAKE_MIXED,
                                             .all_fields = true,
                                             .shard_nbytes = 100000});
    return 0;
}

TEAR_DOWN(&mixed)

static struct augmented kept;
static uint64_t seed_of_test = 53;

static uint32_t below(uint32_t n)
{
    seed_of_test = seed_of_test * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed_of_test >> 33) % n);
}

/* The rows of one epoch over all ranks, by sample. */
struct seen {
    uint32_t times[N_SAMPLES];
    uint64_t hashes[N_SAMPLES];
    uint32_t n_rows;
};

static uint64_t hash_row(const pst_batch *batch, uint32_t row)
{
    struct psti_hash_state state;
    psti_hash_begin(&state);
    for (uint32_t f = 0; f < 2; f++) {
        struct pst_tensor tensor;
        assert_int_equal(pst_batch_row(batch, f, row, &tensor, sizeof tensor, NULL), PST_OK);
        size_t nbytes = pst_dtype_nbytes(tensor.dtype);
        for (uint32_t i = 0; i < tensor.ndim; i++)
            nbytes *= (size_t)tensor.shape[i];
        psti_hash_update(&state, tensor.data, nbytes);
    }
    return psti_hash_end(&state);
}

static void see(struct seen *seen, const pst_batch *batch)
{
    for (uint32_t row = 0; row < pst_batch_count(batch); row++) {
        int64_t sample = pst_batch_index(batch)[row];
        assert_in_range(sample, 0, N_SAMPLES - 1);
        uint64_t hash = hash_row(batch, row);
        if (seen->times[sample]++)
            assert_int_equal(seen->hashes[sample], hash);
        seen->hashes[sample] = hash;
        seen->n_rows++;
    }
}

/* Records an uninterrupted epoch of one rank. */
static void see_alone(const struct pst_loader_options *options, uint64_t epoch, struct seen *seen)
{
    struct pst_error err;
    struct pst_loader_options alone = *options;
    pst_batch *batch;
    alone.drop_last = false;
    pst_loader *loader = open_loader(mixed, &alone);
    memset(seen, 0, sizeof *seen);
    begin_epoch(loader, epoch);
    while (pst_loader_next(loader, &batch, &err) == PST_OK) {
        see(seen, batch);
        pst_batch_release(batch);
    }
    assert_int_equal(seen->n_rows, N_SAMPLES);
    pst_loader_close(&loader);
}

struct training {
    struct pst_loader_options options;
    pst_loader *ranks[WORLD_MAX];
    pst_batch *held[WORLD_MAX]; /* newest batch of each rank, held also during a change of ranks */
    uint64_t held_hashes[WORLD_MAX];
    uint32_t world;
};

static void let_go(struct training *training, uint32_t i)
{
    if (!training->held[i])
        return;
    assert_int_equal(hash_batch(training->held[i]), training->held_hashes[i]);
    pst_batch_release(training->held[i]);
    training->held[i] = NULL;
}

static pst_loader *joined(const struct training *training, uint32_t rank, uint32_t world,
                          const struct pst_loader_state *state)
{
    struct pst_error err;
    struct pst_loader_options options = training->options;
    options.rank = rank;
    options.world_size = world;
    options.num_workers = below(3);
    options.prefetch = 1 + below(3);
    pst_loader *loader = open_loader(mixed, &options);
    assert_ok(pst_loader_resume(loader, state, &err));
    return loader;
}

/* Some ranks leave or join, and all get new numbers in random order. Returns false if, with
 * drop_last, too few samples are left for the new ranks. Ranks that join have then begun the next
 * epoch. */
static bool change(struct training *training, const struct pst_loader_state *state)
{
    struct pst_error err;
    uint32_t world = 1 + below(WORLD_MAX), turn = below(world);
    for (uint32_t i = world; i < training->world; i++) {
        let_go(training, i);
        pst_loader_close(&training->ranks[i]);
    }
    for (uint32_t i = 0; i < world; i++) {
        uint32_t rank = (i + turn) % world;
        if (i >= training->world) {
            training->ranks[i] = joined(training, rank, world, state);
            continue;
        }
        struct pst_loader_state after;
        assert_int_equal(pst_loader_set_world(training->ranks[i], world, world, &err),
                         PST_ERROR_ARGUMENT);
        assert_ok(pst_loader_set_world(training->ranks[i], rank, world, &err));
        pst_loader_state(training->ranks[i], &after);
        if (pst_loader_n_batches_from(training->ranks[i], state->position, rank, world) > 0)
            assert_memory_equal(&after, state, sizeof after);
        assert_int_equal(pst_loader_n_batches(training->ranks[i]),
                         pst_loader_n_batches_from(training->ranks[i], 0, rank, world));
    }
    uint32_t n_former = world < training->world ? world : training->world;
    training->world = world;
    if (pst_loader_n_batches_from(training->ranks[0], state->position, 0, world) > 0)
        return true;
    for (uint32_t i = 0; i < n_former && state->position > 0; i++) {
        pst_batch *batch;
        assert_int_equal(pst_loader_next(training->ranks[i], &batch, &err), PST_END);
    }
    return false;
}

/* Runs one step of all ranks. Sets *state to the position after it. Returns false if no rank has a
 * batch. */
static bool step(struct training *training, struct seen *seen, struct pst_loader_state *state)
{
    bool any = false;
    for (uint32_t i = 0; i < training->world; i++) {
        struct pst_error err;
        pst_batch *batch = NULL;
        enum pst_status status = pst_loader_next(training->ranks[i], &batch, &err);
        if (status == PST_END)
            continue;
        assert_ok(status);
        see(seen, batch);
        let_go(training, i);
        training->held[i] = batch;
        training->held_hashes[i] = hash_batch(batch);
        struct pst_loader_state mine;
        pst_loader_state(training->ranks[i], &mine);
        /* this rank's epoch may be over before another's */
        if (!any || mine.epoch < state->epoch)
            *state = mine;
        any = true;
    }
    return any;
}

/* Runs an epoch in which the ranks change after random steps. Returns the number of changes. */
static uint32_t epoch_of(struct training *training, uint64_t epoch)
{
    struct seen want, seen = {0};
    struct pst_loader_state state;
    uint32_t n = 0;
    bool more = true;
    see_alone(&training->options, epoch, &want);
    for (uint32_t i = 0; i < training->world; i++)
        begin_epoch(training->ranks[i], epoch);
    pst_loader_state(training->ranks[0], &state);
    do {
        uint32_t before = n;
        while (more && state.epoch == epoch && below(2) && n < before + 3) { /* also several */
            more = change(training, &state);
            n++;
        }
    } while (more && step(training, &seen, &state));
    uint32_t n_extra = 0, n_missing = 0;
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        n_missing += seen.times[i] == 0;
        n_extra += seen.times[i] > 1 ? seen.times[i] - 1 : 0;
        if (seen.times[i])
            assert_int_equal(seen.hashes[i], want.hashes[i]);
    }
    bool drops = training->options.drop_last, pads = !drops && !training->options.no_epoch_padding;
    assert_in_range(n_extra, 0, pads ? training->world - 1 : 0);
    assert_in_range(n_missing, 0, drops ? training->options.batch_size * training->world - 1 : 0);
    return n;
}

static void train(struct pst_loader_options options)
{
    struct pst_loader_state start;
    uint32_t n = 0;
    struct training training = {.options = options, .world = 1};
    training.ranks[0] = open_loader(mixed, &options);
    begin_epoch(training.ranks[0], 0);
    for (uint64_t epoch = 0; n < N_CHANGES; epoch++) {
        n += epoch_of(&training, epoch);
        pst_loader_state(training.ranks[0], &start);
        assert_int_equal(start.epoch, epoch + 1);
        assert_int_equal(start.position, 0);
        (void)change(&training, &start); /* between epochs */
    }
    for (uint32_t i = 0; i < training.world; i++) {
        let_go(&training, i);
        pst_loader_close(&training.ranks[i]);
    }
}

static void test_each_sample_once(void **state)
{
    (void)state;
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    options.batch_size = 2;
    train(options);
    options.no_epoch_padding = true;
    options.batch_size = 3;
    train(options);
    options.no_epoch_padding = false;
    options.drop_last = true;
    train(options);
}

static void test_orders_and_storage(void **state)
{
    (void)state;
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    options.batch_size = 2;
    options.order = PST_ORDER_PAGES;
    options.page_samples = 4;
    options.window_pages = 3;
    options.storage = PST_STORAGE_THREADS;
    train(options);
    options.throttle_latency_seconds = 1e-6; /* rows are gathered */
    train(options);
    options.throttle_latency_seconds = 0;
    options.storage = PST_STORAGE_MEMORY;
    options.order = PST_ORDER_SEQUENTIAL;
    train(options);
}

static void test_on_a_gpu(void **state)
{
    (void)state;
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    options.batch_size = 2;
    options.placement = PST_PLACEMENT_DEVICE;
    train(options);
    options.placement = PST_PLACEMENT_HOST;
    options.pin_memory = PST_PIN_ALWAYS;
    train(options);
}

/* Setting the ranks that a loader already has costs nothing: prepared batches stay. Ranks that are
 * set after PST_END apply to the next epoch. */
static void test_same_ranks_and_ends(void **state)
{
    (void)state;
    struct pst_error err;
    pst_batch *batch;
    struct pst_loader_options options = augmented_options(&kept, 24, 24);
    uint64_t n_reads[2];
    pst_loader *loader = open_loader(mixed, &options);
    assert_ok(pst_loader_set_world(loader, 0, 0, &err)); /* no epoch is under way */
    assert_int_equal(pst_loader_next(loader, &batch, &err), PST_ERROR_STATE);
    for (int sets = 0; sets < 2; sets++) {
        uint64_t before = stats_of(loader).n_reads;
        begin_epoch(loader, 0);
        while (pst_loader_next(loader, &batch, &err) == PST_OK) {
            pst_batch_release(batch);
            if (sets)
                assert_ok(pst_loader_set_world(loader, 0, 1, &err));
        }
        n_reads[sets] = stats_of(loader).n_reads - before;
    }
    assert_int_equal(n_reads[0], n_reads[1]);
    assert_ok(pst_loader_set_world(loader, 1, 2, &err)); /* the epoch is over */
    assert_int_equal(pst_loader_next(loader, &batch, &err), PST_END);
    assert_int_equal(pst_loader_n_batches(loader), 8);
    begin_epoch(loader, 2);
    assert_ok(pst_loader_next(loader, &batch, &err));
    pst_batch_release(batch);
    pst_loader_close(&loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_sample_once),
        cmocka_unit_test(test_orders_and_storage),
        cmocka_unit_test(test_on_a_gpu),
        cmocka_unit_test(test_same_ranks_and_ends),
    };
    setenv("PENSTOCK_CUDA_DRIVER", PST_FAKE_DRIVER, 1);
    setenv("PENSTOCK_CUDA_KERNELS", PST_FAKE_KERNELS, 1);
    unsetenv("PENSTOCK_CUDA");
    alarm(900);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
