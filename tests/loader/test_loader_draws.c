/* test_loader_draws.c - a sample that appears several times in an epoch: is it augmented
 * differently each time, and the same way for any workers, ranks, resumes and replays? */
#include "loader/loader_fixture.h"
#include "test.h"

#include "base/hash.h"

#include <string.h>

#define N_SAMPLES 7
#define N_POSITIONS 24
#define BATCH 3

static pst_dataset *uniform;

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    uniform = open_made(directory, "uniform",
                        &(struct make_options){.n_samples = N_SAMPLES, .images = MAKE_RAW_SAME});
    return 0;
}

TEAR_DOWN(&uniform)

/* Indices of a subset that contains every sample at least three times. */
static const uint64_t repeated[N_POSITIONS] = {0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4,
                                               5, 6, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0};

struct row {
    int64_t sample;
    uint64_t hash; /* hash of the pixels of this row's image */
};

static struct augmented kept;

static struct pst_loader_options options_of(uint32_t workers, uint32_t rank, uint32_t world_size)
{
    struct pst_loader_options options = augmented_options(&kept, 20, 20);
    options.n_fields = 1; /* the data set has no mask */
    options.field_nbytes = sizeof(struct pst_field_output);
    options.op_nbytes = sizeof(struct pst_op);
    options.batch_size = BATCH;
    options.num_workers = workers;
    options.rank = rank;
    options.world_size = world_size;
    options.indices = repeated;
    options.n_indices = N_POSITIONS;
    return options;
}

static struct row row_of(const pst_batch *batch, uint32_t row)
{
    struct pst_tensor tensor;
    assert_int_equal(pst_batch_row(batch, 0, row, &tensor, sizeof tensor, NULL), PST_OK);
    assert_int_equal(tensor.ndim, 3);
    return (struct row){pst_batch_index(batch)[row],
                        psti_hash64(tensor.data, 3 * 20 * 20 * sizeof(float))};
}

/* Collects the rows of one rank's batches from `step` on, each at its position in the epoch. A
 * padding row is stored at the position that it repeats. */
static void collect(pst_loader *loader, const struct pst_loader_options *options, uint64_t step,
                    bool replays, struct row *rows)
{
    struct pst_error err;
    pst_batch *batch;
    for (; step < pst_loader_n_batches(loader); step++) {
        if (replays)
            assert_ok(pst_loader_replay(loader, 2, step, &batch, &err));
        else
            assert_ok(pst_loader_next(loader, &batch, &err));
        uint64_t first = step * BATCH * options->world_size;
        /* all ranks have equally many rows in a step */
        first += options->rank * (uint64_t)pst_batch_count(batch);
        for (uint32_t i = 0; i < pst_batch_count(batch); i++) {
            uint64_t position = first + i;
            rows[position % N_POSITIONS] = row_of(batch, i);
        }
        pst_batch_release(batch);
    }
}

static void each_time_differs(void **state)
{
    (void)state;
    for (int weighted = 0; weighted < 2; weighted++) {
        static const double weights[N_SAMPLES] = {5, 1, 1, 1, 1, 1, 1};
        struct row rows[N_POSITIONS];
        struct pst_error err;
        struct pst_loader_options options = options_of(2, 0, 1);
        if (weighted) {
            options.indices = NULL;
            options.n_indices = 0;
            options.weights = weights;
        }
        size_t n = weighted ? N_SAMPLES : N_POSITIONS, n_twins = 0;
        pst_loader *loader = open_loader(uniform, &options);
        assert_ok(pst_loader_begin(loader, 2, &err));
        collect(loader, &options, 0, false, rows);
        for (size_t a = 0; a < n; a++)
            for (size_t b = 0; b < a; b++)
                if (rows[a].sample == rows[b].sample) {
                    n_twins++;
                    assert_true(rows[a].hash != rows[b].hash);
                }
        assert_true(n_twins > 0);
        pst_loader_close(&loader);
    }
}

/* Asserts that both arrays have the same rows at the same positions. */
static void assert_same(const struct row *rows, const struct row *expected)
{
    for (size_t i = 0; i < N_POSITIONS; i++) {
        assert_int_equal(rows[i].sample, expected[i].sample);
        assert_int_equal(rows[i].hash, expected[i].hash);
    }
}

static void nobody_changes_them(void **state)
{
    (void)state;
    struct row expected[N_POSITIONS], rows[N_POSITIONS];
    struct pst_error err;
    struct pst_loader_options options = options_of(0, 0, 1);
    pst_loader *loader = open_loader(uniform, &options);
    assert_ok(pst_loader_begin(loader, 2, &err));
    collect(loader, &options, 0, false, expected);
    pst_loader_close(&loader);
    for (uint32_t world_size = 1; world_size <= 5; world_size += 2)
        for (int replays = 0; replays < 2; replays++) {
            memset(rows, 0, sizeof rows);
            for (uint32_t rank = 0; rank < world_size; rank++) {
                options = options_of(2, rank, world_size);
                loader = open_loader(uniform, &options);
                if (!replays)
                    assert_ok(pst_loader_begin(loader, 2, &err));
                collect(loader, &options, 0, replays, rows);
                pst_loader_close(&loader);
            }
            assert_same(rows, expected);
        }
}

static void a_resume_changes_nothing(void **state)
{
    (void)state;
    struct row expected[N_POSITIONS], rows[N_POSITIONS];
    struct pst_error err;
    struct pst_loader_state at;
    const struct pst_loader_options options = options_of(2, 0, 1);
    pst_batch *batch;
    pst_loader *loader = open_loader(uniform, &options), *other = open_loader(uniform, &options);
    assert_ok(pst_loader_begin(loader, 2, &err));
    collect(loader, &options, 0, false, expected);
    memcpy(rows, expected, sizeof rows);
    assert_ok(pst_loader_begin(loader, 2, &err));
    for (int i = 0; i < 3; i++) {
        assert_ok(pst_loader_next(loader, &batch, &err));
        pst_batch_release(batch);
    }
    pst_loader_state(loader, &at);
    assert_int_equal(at.augment_version, 1);
    memset(rows + 3 * BATCH, 0, sizeof rows - 3 * BATCH * sizeof *rows);
    assert_ok(pst_loader_resume(other, &at, &err));
    collect(other, &options, 3, false, rows);
    assert_same(rows, expected);
    pst_loader_close(&loader);
    pst_loader_close(&other);
}

/* A sample fetched by number has draw 0. In an epoch that draws no sample twice, all draws are
 * 0. */
static void fetched_samples_have_draw_0(void **state)
{
    (void)state;
    struct pst_error err;
    struct pst_loader_options options = options_of(2, 0, 1);
    options.indices = NULL;
    options.n_indices = 0;
    struct row rows[N_POSITIONS] = {{0}};
    pst_loader *loader = open_loader(uniform, &options);
    assert_ok(pst_loader_begin(loader, 2, &err));
    collect(loader, &options, 0, false, rows);
    pst_loader_close(&loader);
    options = options_of(2, 0, 1);
    loader = open_loader(uniform, &options);
    for (size_t i = 0; i < N_SAMPLES; i++) {
        const uint64_t samples[2] = {(uint64_t)rows[i].sample, (uint64_t)rows[i].sample};
        pst_batch *batch;
        assert_ok(pst_loader_fetch(loader, 2, samples, 2, &batch, &err));
        for (uint32_t k = 0; k < 2; k++)
            assert_int_equal(row_of(batch, k).hash, rows[i].hash);
        pst_batch_release(batch);
    }
    pst_loader_close(&loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_time_differs),
        cmocka_unit_test(nobody_changes_them),
        cmocka_unit_test(a_resume_changes_nothing),
        cmocka_unit_test(fetched_samples_have_draw_0),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
