/* test_loader_weights.c - tests a loader of a mixture with weighted sources. Do batches have exact
 * quotas on any number of ranks? Can states be resumed with other ranks, also after weights
 * changed? Are the shares right with bad samples, caches, and at the end of an epoch? */
#include "cache/cache_fixture.h"
#include "loader/loader_fixture.h"

#include <penstock/penstock.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_A = 19, N_B = 5, N_C = 40, N = N_A + N_B + N_C, N_SOURCES = 3, CHANGES_MAX = 4 };

static pst_dataset *mixture, *one;

TEAR_DOWN(&mixture, &one)

/* Writes a data set of n numbers: sample i has the label first + i. */
static pst_dataset *write_numbers(const char *name, int first, int n)
{
    const struct pst_field fields[] = {{.name = "label", .type = PST_FIELD_INT, .n_variants = 1}};
    const struct pst_writer_options options = {.struct_size = sizeof options};
    struct pst_error err;
    pst_writer *writer = NULL;
    char path[128], key[32];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_ok(pst_writer_open(path, fields, 1, &options, &writer, &err));
    for (int64_t i = first; i < first + n; i++) {
        const struct pst_value value = {.bytes = &i, .nbytes = sizeof i};
        const struct pst_value *const of[] = {&value};
        snprintf(key, sizeof key, "%03d", (int)i);
        add_sample(writer, key, of);
    }
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    return open_there(name);
}

static pst_dataset *mix(pst_dataset **sets, size_t n)
{
    struct pst_mixture_source sources[N_SOURCES] = {0};
    struct pst_error err;
    pst_dataset *mixed = NULL;
    for (size_t i = 0; i < n; i++)
        sources[i].dataset = sets[i];
    assert_ok(pst_dataset_open_many(sources, n, NULL, &mixed, &err));
    for (size_t i = 0; i < n; i++)
        pst_dataset_close(&sets[i]);
    return mixed;
}

static int set_up(void **state)
{
    if (directory_set_up(state) != 0)
        return -1;
    pst_dataset *sets[] = {write_numbers("a", 0, N_A), write_numbers("b", N_A, N_B),
                           write_numbers("c", N_A + N_B, N_C)};
    mixture = mix(sets, N_SOURCES);
    one = open_there("a");
    return 0;
}

static uint32_t draw(uint64_t *random, uint32_t n)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33) % n;
}

static struct pst_loader_options options_of(const double *weights)
{
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .order = PST_ORDER_SHUFFLED,
                                       .batch_size = 10,
                                       .seed = 3,
                                       .source_weights = weights,
                                       .n_source_weights = N_SOURCES,
                                       TEST_ELEMENT_SIZES};
}

static uint32_t source_of(int64_t sample) { return sample < N_A ? 0 : sample < N_A + N_B ? 1 : 2; }

/* With weights 7 : 1 : 2 and batches of 10, each batch of each rank has 7, 1 and 2 rows of the
 * sources, for any workers and cache. */
static void batches_have_their_quotas(void **state)
{
    static const double weights[] = {0.7, 0.1, 0.2};
    struct pst_error err;
    pst_batch *batch;
    (void)state;
    for (uint32_t i = 0; i < 12; i++) {
        struct pst_loader_options options = options_of(weights);
        pst_cache *cache = i % 2 ? open_cache(1 << 20) : NULL;
        options.cache = cache;
        options.num_workers = i % 3;
        options.world_size = 1 + i % 4;
        options.rank = options.world_size - 1;
        options.drop_last = i > 6;
        pst_loader *loader = open_loader(mixture, &options);
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            begin_epoch(loader, epoch);
            uint64_t n = 0, wanted = pst_loader_n_batches(loader);
            for (; pst_loader_next(loader, &batch, &err) == PST_OK; n++) {
                uint32_t had[N_SOURCES] = {0};
                if (pst_batch_count(batch) == 10) {
                    for (uint32_t k = 0; k < 10; k++)
                        had[source_of(pst_batch_index(batch)[k])]++;
                    assert_int_equal(had[0], 7);
                    assert_int_equal(had[1], 1);
                    assert_int_equal(had[2], 2);
                }
                pst_batch_release(batch);
            }
            /* Each block takes 2 of the 40 samples of source c, so the epoch has 20 blocks. */
            assert_int_equal(n, wanted);
            assert_int_equal(n, options.drop_last
                                    ? 20 / options.world_size
                                    : (20 + options.world_size - 1) / options.world_size);
        }
        pst_loader_close(&loader);
        pst_cache_close(&cache);
    }
}

/* Resuming --------------------------------------------------------------------------------------
 */

/* Changes of weights, in the order in which they are made. */
struct changes {
    uint32_t n;
    uint64_t places[CHANGES_MAX * 2];
    double weights[CHANGES_MAX * N_SOURCES];
};

static void set_changes(pst_loader *loader, const struct changes *changes)
{
    struct pst_error err;
    assert_ok(
        pst_loader_set_source_weights(loader, changes->places, changes->weights, changes->n, &err));
}

/* Samples and draws at each position of an epoch, from a loader that is not interrupted. */
struct epoch {
    uint64_t n, draws[4096];
    int64_t samples[4096];
};

static void epoch_of(struct pst_loader_options options, const struct changes *changes,
                     uint64_t number, struct epoch *epoch)
{
    struct pst_error err;
    pst_batch *batch;
    options.batch_size = 1;
    options.rank = 0;
    options.world_size = 1;
    pst_loader *loader = open_loader(mixture, &options);
    set_changes(loader, changes);
    begin_epoch(loader, number);
    for (epoch->n = 0; pst_loader_next(loader, &batch, &err) == PST_OK; epoch->n++) {
        assert_true(epoch->n < 4096);
        epoch->samples[epoch->n] = pst_batch_index(batch)[0];
        epoch->draws[epoch->n] = pst_batch_draws(batch)[0];
        pst_batch_release(batch);
    }
    pst_loader_close(&loader);
}

/* Compares what one rank delivers from the state to the end of the epoch with the uninterrupted
 * epoch. */
static void check_rest(const struct pst_loader_options *options, const struct changes *changes,
                       const struct pst_loader_state *from, const struct epoch *epoch,
                       uint64_t *rows)
{
    struct pst_error err;
    pst_batch *batch;
    uint64_t stride = (uint64_t)options->batch_size * options->world_size, at = from->position;
    pst_loader *loader = open_loader(mixture, options);
    if (changes->n > 0)
        assert_int_equal(pst_loader_resume(loader, from, &err), PST_ERROR_ARGUMENT);
    set_changes(loader, changes);
    assert_ok(pst_loader_resume(loader, from, &err));
    for (; pst_loader_next(loader, &batch, &err) == PST_OK; at += stride) {
        uint64_t left = at < epoch->n ? epoch->n - at : 0, n = options->batch_size;
        if (left < stride)
            n = (left + options->world_size - 1) / options->world_size;
        assert_int_equal(pst_batch_count(batch), n);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t position = at + options->rank * n + i, x = position % epoch->n;
            assert_int_equal(pst_batch_index(batch)[i], epoch->samples[x]);
            assert_int_equal(pst_batch_draws(batch)[i], epoch->draws[x]);
            *rows += position < epoch->n;
        }
        pst_batch_release(batch);
    }
    pst_loader_close(&loader);
}

/* Runs some steps and changes the weights between them, as a training may do. Returns the state
 * afterwards. */
static struct pst_loader_state run_and_change(const struct pst_loader_options *options,
                                              uint64_t epoch, uint64_t *random,
                                              struct changes *changes)
{
    struct pst_error err;
    struct pst_loader_state from;
    pst_loader *loader = open_loader(mixture, options);
    begin_epoch(loader, epoch);
    uint64_t n = pst_loader_n_batches(loader);
    for (uint64_t steps = draw(random, (uint32_t)n); steps > 0; steps--) {
        pst_batch *batch;
        if (draw(random, 4) == 0 && changes->n < CHANGES_MAX) {
            pst_loader_state(loader, &from);
            changes->places[changes->n * 2] = from.epoch;
            changes->places[changes->n * 2 + 1] = from.position;
            for (uint32_t k = 0; k < N_SOURCES; k++)
                changes->weights[changes->n * N_SOURCES + k] = 1 + draw(random, 9);
            changes->n++;
            set_changes(loader, changes);
        }
        assert_ok(pst_loader_next(loader, &batch, &err));
        pst_batch_release(batch);
    }
    pst_loader_state(loader, &from);
    pst_loader_close(&loader);
    return from;
}

/* Takes a state at a random place, with random ranks, batch size and changes, and resumes it with
 * other ranks. */
static void resume_once(uint64_t *random)
{
    static struct epoch whole;
    double weights[N_SOURCES];
    struct changes changes = {0};
    uint64_t rows = 0;
    for (int k = 0; k < N_SOURCES; k++)
        weights[k] = 1 + draw(random, 9);
    struct pst_loader_options options = options_of(weights);
    options.seed = draw(random, 100);
    options.world_size = 1 + draw(random, 5);
    options.rank = draw(random, options.world_size);
    options.batch_size = 1 + draw(random, 9);
    options.source_quota = draw(random, 5) ? 1 + draw(random, 9) : PST_QUOTA_EPOCH;
    options.num_workers = draw(random, 8) == 0;
    const struct pst_loader_state from =
        run_and_change(&options, draw(random, 3), random, &changes);
    epoch_of(options, &changes, from.epoch, &whole);
    assert_int_equal(whole.n, from.n_samples);
    options.world_size = 1 + draw(random, 7);
    options.batch_size = 1 + draw(random, 8);
    for (options.rank = 0; options.rank < options.world_size; options.rank++)
        check_rest(&options, &changes, &from, &whole, &rows);
    assert_int_equal(rows, whole.n - from.position);
}

static void states_go_on_with_other_ranks(void **state)
{
    uint64_t random = 77;
    (void)state;
    for (int i = 0; i < (all_combinations() ? 2000 : 150); i++)
        resume_once(&random);
}

/* Rules -----------------------------------------------------------------------------------------
 */

static uint64_t n_positions(const struct pst_loader_options *options)
{
    struct pst_loader_state state;
    pst_loader *loader = open_loader(mixture, options);
    pst_loader_state(loader, &state);
    pst_loader_close(&loader);
    return state.n_samples;
}

static void epochs_end_by_their_rule(void **state)
{
    static const double weights[] = {1, 1, 2}, without[] = {1, 0, 1};
    (void)state;
    struct pst_loader_options options = options_of(weights);
    options.source_quota = 4;
    /* the 40th sample of c is in block 20, the 19th of a in block 19 */
    assert_int_equal(n_positions(&options), 80);
    options.source_stop = PST_SOURCE_STOP_FIRST; /* source b has 5 samples */
    assert_int_equal(n_positions(&options), 20);
    options.source_stop = PST_SOURCE_STOP_NEVER;
    assert_int_equal(n_positions(&options), (uint64_t)1 << 62);
    options.source_stop = PST_SOURCE_STOP_FIRST;
    options.source_weights = without; /* b has no weight, so the epoch does not end with b */
    assert_int_equal(n_positions(&options), 36);
    /* Two sources share one weight. */
    static const uint64_t two[] = {0, N_A + N_B};
    options.source_weights = weights;
    options.source_firsts = two;
    options.n_source_weights = 2;
    assert_int_equal(n_positions(&options), 48); /* a and b have 24 samples together, which are half
                                                  * of the epoch */
}

/* An endless epoch has more ranks than samples. */
static void an_endless_epoch_goes_on(void **state)
{
    static const double weights[] = {3, 1, 1};
    struct pst_error err;
    pst_batch *batch;
    uint32_t had[N_SOURCES] = {0};
    (void)state;
    struct pst_loader_options options = options_of(weights);
    options.source_stop = PST_SOURCE_STOP_NEVER;
    options.batch_size = 5;
    options.world_size = 100;
    options.rank = 99;
    pst_loader *loader = open_loader(mixture, &options);
    begin_epoch(loader, 0);
    for (int i = 0; i < 200; i++) {
        assert_ok(pst_loader_next(loader, &batch, &err));
        for (int k = 0; k < 5; k++)
            had[source_of(pst_batch_index(batch)[k])]++;
        pst_batch_release(batch);
    }
    assert_int_equal(had[0], 600);
    assert_int_equal(had[1], 200);
    pst_loader_close(&loader);
}

/* A subset keeps its sources. A subset in which a weighted source has no samples is refused. */
static void subsets_are_drawn_by_weights(void **state)
{
    static const double weights[] = {1, 1, 0};
    static const uint64_t some[] = {30, 7, 20, 3}, lacking[] = {7, 3};
    struct pst_error err;
    pst_batch *batch;
    pst_loader *loader = NULL;
    (void)state;
    struct pst_loader_options options = options_of(weights);
    options.indices = some;
    options.n_indices = 4;
    options.batch_size = 4;
    loader = open_loader(mixture, &options);
    begin_epoch(loader, 0);
    assert_ok(pst_loader_next(loader, &batch, &err));
    int n_a = 0;
    for (int k = 0; k < 4; k++) {
        int64_t sample = pst_batch_index(batch)[k];
        assert_true(sample == 7 || sample == 3 || sample == 20);
        n_a += sample < N_A;
    }
    assert_int_equal(n_a, 2);
    pst_batch_release(batch);
    assert_int_equal(pst_loader_next(loader, &batch, &err), PST_END);
    pst_loader_close(&loader);
    options.indices = lacking;
    options.n_indices = 2;
    assert_int_equal(pst_loader_open(mixture, &options, &loader, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "source 1 has no samples"));
}

static void refuses(pst_dataset *dataset, const struct pst_loader_options *options,
                    enum pst_status wanted, const char *words)
{
    struct pst_error err;
    pst_loader *loader = NULL;
    assert_int_equal(pst_loader_open(dataset, options, &loader, &err), wanted);
    if (!strstr(err.text, words))
        fail_msg("'%s' lacks '%s'", err.text, words);
    assert_null(loader);
}

static void options_are_checked(void **state)
{
    static const double weights[] = {1, 1, 1},
                        wrong[][3] = {{1, NAN, 1}, {1, -1, 1}, {1, INFINITY, 1}};
    static const double each[N] = {1};
    static const uint64_t falling[] = {0, 30, 20}, late[] = {1, 2, 3};
    (void)state;
    const struct pst_loader_options good = options_of(weights);
    struct pst_loader_options options = good;
    refuses(one, &options, PST_ERROR_ARGUMENT, "source_weights are for mixtures");
    options.n_source_weights = 2;
    refuses(mixture, &options, PST_ERROR_ARGUMENT, "n_source_weights is 2: the mixture has 3");
    options = good;
    options.source_weights = NULL;
    refuses(mixture, &options, PST_ERROR_ARGUMENT, "are for source_weights");
    options.n_source_weights = 0;
    options.source_quota = 3;
    refuses(mixture, &options, PST_ERROR_ARGUMENT, "are for source_weights");
    for (int i = 0; i < 3; i++) {
        options = options_of(wrong[i]);
        refuses(mixture, &options, PST_ERROR_ARGUMENT, "source 1 has the weight");
    }
    options = good;
    options.source_firsts = falling;
    refuses(mixture, &options, PST_ERROR_ARGUMENT, "source 2 begins at sample 20");
    options.source_firsts = late;
    refuses(mixture, &options, PST_ERROR_ARGUMENT, "source 0 begins at sample 1");
    options = good;
    options.order = PST_ORDER_PAGES;
    refuses(mixture, &options, PST_ERROR_ARGUMENT, "not possible with the page order");
    options = good;
    options.weights = each;
    refuses(mixture, &options, PST_ERROR_ARGUMENT, "not possible with weights of samples");
    options = good;
    options.repeats = 2;
    refuses(mixture, &options, PST_ERROR_ARGUMENT, "not possible with repeats");
    options = good;
    options.source_stop = (enum pst_source_stop)3;
    refuses(mixture, &options, PST_ERROR_ARGUMENT, "source_stop is 3");
}

/* A refused change leaves the loader at its position, with the same order and memory use. */
static void changes_are_checked(void **state)
{
    static const double weights[] = {1, 1, 2};
    static const uint64_t place[] = {0, 20};
    struct pst_error err;
    struct pst_loader_state before, after;
    pst_batch *batch;
    (void)state;
    struct pst_loader_options options = options_of(weights);
    pst_loader *loader = open_loader(mixture, &options);
    begin_epoch(loader, 0);
    assert_ok(pst_loader_next(loader, &batch, &err));
    pst_batch_release(batch);
    assert_ok(pst_loader_set_source_weights(loader, place, (double[]){1, 1, 1}, 1, &err));
    pst_loader_state(loader, &before);
    assert_int_equal(before.position, 10);
    assert_int_equal(pst_loader_set_source_weights(loader, place, (double[]){1, -1, 1}, 1, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_loader_set_source_weights(loader, NULL, weights, 1, &err),
                     PST_ERROR_ARGUMENT);
    pst_loader_state(loader, &after);
    assert_memory_equal(&after, &before, sizeof before);
    assert_ok(pst_loader_next(loader, &batch, &err));
    pst_batch_release(batch);
    pst_loader_close(&loader);
    loader = open_loader(one, &(struct pst_loader_options){.struct_size = sizeof options});
    assert_int_equal(pst_loader_set_source_weights(loader, place, weights, 1, &err),
                     PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "no weights of sources"));
    pst_loader_close(&loader);
}

/* Without padding rank 0 has one batch more than the others. The next step still begins at the same
 * position for all ranks. */
static void ranks_have_one_place(void **state)
{
    /* an epoch has N_A = 19 positions, and a step takes 9 */
    static const double weights[] = {1, 0, 0};
    struct pst_error err;
    struct pst_loader_state own;
    pst_batch *batch;
    (void)state;
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct pst_loader_options options = options_of(weights);
        uint64_t place[2];
        options.batch_size = 3;
        options.source_quota = 1;
        options.no_epoch_padding = true;
        options.rank = rank;
        options.world_size = 3;
        pst_loader *loader = open_loader(mixture, &options);
        pst_loader_step_place(loader, place);
        assert_true(place[0] == 0 && place[1] == 0); /* no epoch has begun */
        begin_epoch(loader, 0);
        for (uint64_t step = 0; step < 2; step++) {
            pst_loader_step_place(loader, place);
            assert_true(place[0] == 0 && place[1] == 9 * step);
            assert_ok(pst_loader_next(loader, &batch, &err));
            pst_batch_release(batch);
        }
        pst_loader_step_place(loader, place);
        assert_true(place[0] == 0 && place[1] == 18);
        bool has_more = pst_loader_next(loader, &batch, &err) == PST_OK;
        assert_int_equal(has_more, rank == 0);
        if (has_more)
            pst_batch_release(batch);
        pst_loader_state(loader, &own);
        assert_true(own.epoch == 1 && own.position == 0);
        pst_loader_step_place(loader, place);
        assert_true(place[0] == has_more && place[1] == (has_more ? 0 : 18));
        begin_epoch(loader, 1);
        pst_loader_step_place(loader, place);
        assert_true(place[0] == 1 && place[1] == 0);
        pst_loader_close(&loader);
    }
}

/* The tables of weight changes count as host_memory. One change too many is refused, and its memory
 * is given back. */
static void changes_count_in_memory(void **state)
{
    static const double weights[] = {1, 1, 2};
    static uint64_t places[1024 * 2];
    static double many[1024 * N_SOURCES];
    struct pst_error err;
    (void)state;
    struct pst_loader_options options = options_of(weights);
    options.host_memory = 16 << 20;
    pst_loader *loader = open_loader(mixture, &options);
    uint64_t used = stats_of(loader).host_memory_used;
    for (int i = 0; i < 1024; i++) {
        places[i * 2] = (uint64_t)i;
        for (int k = 0; k < N_SOURCES; k++)
            many[i * N_SOURCES + k] = sqrt(2 + i + 7 * k);
    }
    assert_ok(pst_loader_set_source_weights(loader, places, many, 8, &err));
    assert_true(stats_of(loader).host_memory_used >= used + ((uint64_t)8 << 19));
    assert_int_equal(pst_loader_set_source_weights(loader, places, many, 64, &err),
                     PST_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "host_memory"));
    assert_ok(pst_loader_set_source_weights(loader, NULL, NULL, 0, &err));
    assert_int_equal(stats_of(loader).host_memory_used, used);
    pst_loader_close(&loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_have_their_quotas),
        cmocka_unit_test(states_go_on_with_other_ranks),
        cmocka_unit_test(epochs_end_by_their_rule),
        cmocka_unit_test(an_endless_epoch_goes_on),
        cmocka_unit_test(subsets_are_drawn_by_weights),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(changes_are_checked),
        cmocka_unit_test(ranks_have_one_place),
        cmocka_unit_test(changes_count_in_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
