/* test_loader_errors.c - does on_error decide what happens to bad samples, identically on every
 * run, and do errors name the bad sample? */
#include "loader/loader_fixture.h"
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_SAMPLES 40
#define BATCH 5

static pst_dataset *dataset, *folder;
static const uint64_t bad_samples[] = {3, 17, 18, 31};

static bool is_bad(int64_t sample)
{
    for (size_t i = 0; i < 4; i++)
        if (bad_samples[i] == (uint64_t)sample)
            return true;
    return false;
}

static int set_up(void **state)
{
    (void)state;
    make_directory(directory);
    dataset = open_made(directory, "data",
                        &(struct make_options){
                            .n_samples = N_SAMPLES, .images = MAKE_MIXED, .shard_nbytes = 100000});
    for (size_t i = 0; i < 4; i++)
        spoil_sample(dataset, bad_samples[i], "image");
    folder = open_made_folder(directory, "folder", 2, 10);
    return 0;
}

TEAR_DOWN(&dataset, &folder)

static pst_loader *open_tolerant(pst_dataset *from, enum pst_on_error policy, uint32_t workers,
                                 enum pst_storage_kind storage, uint64_t max_errors)
{
    struct pst_error err;
    pst_loader *loader;
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .batch_size = BATCH,
                                         .order = PST_ORDER_SHUFFLED,
                                         .seed = 4,
                                         .num_workers = workers,
                                         .storage = storage,
                                         .on_error = policy,
                                         .prefetch = 3,
                                         .max_errors = max_errors};
    assert_ok(pst_loader_open(from, &options, &loader, &err));
    return loader;
}

static void each_way(void (*check)(uint32_t workers, enum pst_storage_kind storage))
{
    for (uint32_t workers = 0; workers <= 4; workers += 2)
        for (int s = 0; s < 2; s++)
            check(workers, s ? PST_STORAGE_MEMORY : PST_STORAGE_AUTO);
}

static void check_raise(uint32_t workers, enum pst_storage_kind storage)
{
    struct pst_error err, again;
    pst_batch *batch;
    static int64_t first_bad = -1;
    static int first_step = -1;
    pst_loader *loader = open_tolerant(dataset, PST_ON_ERROR_RAISE, workers, storage, 0);
    for (int round = 0; round < 2; round++) {
        enum pst_status status;
        int step = 0;
        assert_ok(pst_loader_begin(loader, 0, &err));
        while ((status = pst_loader_next(loader, &batch, &err)) == PST_OK) {
            pst_batch_release(batch);
            step++;
        }
        assert_int_equal(status, PST_ERROR_CHECKSUM);
        assert_true(is_bad(err.sample));
        assert_true(first_bad < 0 || first_bad == err.sample);
        assert_true(first_step < 0 || first_step == step);
        first_bad = err.sample;
        first_step = step;
        assert_non_null(strstr(err.dataset, "/data"));
        assert_true(err.file[0] && err.offset >= 0);
        struct pst_loader_state at;
        pst_loader_state(loader, &at);
        assert_int_equal(at.position, (uint64_t)step * BATCH);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pst_loader_next(loader, &batch, &again), PST_ERROR_CHECKSUM);
            assert_memory_equal(&err, &again, sizeof err);
        }
        assert_int_equal(pst_loader_replay(loader, 0, (uint64_t)step, &batch, &again),
                         PST_ERROR_CHECKSUM);
        assert_int_equal(again.sample, err.sample);
    }
    assert_ok(pst_loader_begin(loader, 1, &err)); /* the next epoch works again */
    uint64_t good = 2;
    assert_ok(pst_loader_fetch(loader, 1, &good, 1, &batch, &err));
    pst_batch_release(batch);
    assert_int_equal(pst_loader_fetch(loader, 1, &bad_samples[1], 1, &batch, &err),
                     PST_ERROR_CHECKSUM);
    assert_int_equal(err.sample, bad_samples[1]);
    pst_loader_close(&loader);
}

static void test_raise(void **state)
{
    (void)state;
    each_way(check_raise);
}

static void check_skip(uint32_t workers, enum pst_storage_kind storage)
{
    struct pst_error err;
    static uint64_t want[2][16];
    static bool known;
    pst_loader *loader = open_tolerant(dataset, PST_ON_ERROR_SKIP, workers, storage, 0);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        pst_batch *batch, *replayed;
        enum pst_status status;
        uint64_t step = 0;
        bool seen[N_SAMPLES] = {false};
        assert_ok(pst_loader_begin(loader, epoch, &err));
        while ((status = pst_loader_next(loader, &batch, &err)) == PST_OK) {
            for (uint32_t i = 0; i < pst_batch_count(batch); i++) {
                int64_t sample = pst_batch_index(batch)[i];
                assert_false(is_bad(sample) || seen[sample]);
                seen[sample] = true;
            }
            uint64_t hash = hash_batch(batch);
            if (known)
                assert_true(want[epoch][step] == hash);
            want[epoch][step] = hash;
            assert_ok(pst_loader_replay(loader, epoch, step, &replayed, &err));
            assert_true(hash_batch(replayed) == hash);
            pst_batch_release(replayed);
            pst_batch_release(batch);
            step++;
        }
        assert_int_equal(status, PST_END);
        for (int64_t s = 0; s < N_SAMPLES; s++)
            assert_int_equal(seen[s], !is_bad(s));
    }
    known = true;
    struct pst_loader_stats stats = {0};
    pst_loader_stats(loader, &stats, sizeof stats);
    assert_int_equal(stats.n_bad, 8);
    assert_int_equal(stats.n_samples, 2 * (N_SAMPLES - 4));
    assert_int_equal(pst_loader_n_quarantined(loader), 4);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(pst_loader_quarantined(loader, i, &err, NULL), PST_OK);
        assert_true(is_bad(err.sample));
        assert_int_equal(err.status, PST_ERROR_CHECKSUM);
    }
    assert_int_equal(pst_loader_quarantined(loader, 4, &err, NULL), PST_ERROR_ARGUMENT);
    pst_loader_close(&loader);
}

static void test_skip(void **state)
{
    (void)state;
    each_way(check_skip);
}

static void check_replace(uint32_t workers, enum pst_storage_kind storage)
{
    struct pst_error err;
    static uint64_t want[16];
    static bool known;
    pst_loader *loader = open_tolerant(dataset, PST_ON_ERROR_REPLACE, workers, storage, 0);
    pst_batch *batch, *replayed;
    enum pst_status status;
    uint64_t step = 0;
    uint32_t n = 0;
    assert_ok(pst_loader_begin(loader, 7, &err));
    while ((status = pst_loader_next(loader, &batch, &err)) == PST_OK) {
        n += pst_batch_count(batch);
        for (uint32_t i = 0; i < pst_batch_count(batch); i++)
            assert_false(is_bad(pst_batch_index(batch)[i]));
        uint64_t hash = hash_batch(batch);
        if (known)
            assert_true(want[step] == hash);
        want[step] = hash;
        assert_ok(pst_loader_replay(loader, 7, step, &replayed, &err));
        assert_true(hash_batch(replayed) == hash);
        pst_batch_release(replayed);
        pst_batch_release(batch);
        step++;
    }
    assert_int_equal(status, PST_END);
    assert_int_equal(n, N_SAMPLES);
    known = true;
    struct pst_loader_stats stats = {0};
    pst_loader_stats(loader, &stats, sizeof stats);
    assert_int_equal(stats.n_replaced, 4);
    assert_true(stats.n_bad >= 4);
    pst_loader_close(&loader);
}

static void test_replace(void **state)
{
    (void)state;
    each_way(check_replace);
}

/* If an epoch has more than max_errors bad samples, it ends with an error at the batch that exceeds
 * the limit. */
static void check_max(uint32_t workers, enum pst_storage_kind storage)
{
    struct pst_error err;
    static int want = -1;
    pst_loader *loader = open_tolerant(dataset, PST_ON_ERROR_SKIP, workers, storage, 2);
    pst_batch *batch;
    enum pst_status status;
    int step = 0;
    assert_ok(pst_loader_begin(loader, 0, &err));
    for (; (status = pst_loader_next(loader, &batch, &err)) == PST_OK; step++)
        pst_batch_release(batch);
    assert_int_equal(status, PST_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "bad samples in this epoch are more than max_errors 2"));
    /* the error quotes the last bad sample's error */
    assert_non_null(strstr(err.text, "checksum"));
    assert_true(is_bad(err.sample));
    assert_true(err.file[0] && err.codec[0] && err.dataset[0]);
    assert_true(want < 0 || want == step);
    want = step;
    pst_loader_close(&loader);
}

static void test_max_errors(void **state)
{
    (void)state;
    each_way(check_max);
}

/* The first and the last batch consist of bad samples. */
static const uint64_t mostly_bad[6] = {3, 17, 1, 2, 18, 31};

static struct pst_loader_options empty_options(uint32_t workers, enum pst_on_empty on_empty)
{
    return (struct pst_loader_options){.struct_size = sizeof(struct pst_loader_options),
                                       .batch_size = 2,
                                       .indices = mostly_bad,
                                       .n_indices = 6,
                                       .num_workers = workers,
                                       .on_error = PST_ON_ERROR_SKIP,
                                       .on_empty = on_empty};
}

static void test_empty_batches(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct pst_error err;
        struct pst_loader_options options = empty_options(workers, PST_ON_EMPTY_DELIVER);
        pst_loader *loader = open_loader(dataset, &options);
        pst_batch *batch;
        uint64_t epoch, step;
        struct pst_tensor tensor;
        assert_ok(pst_loader_begin(loader, 0, &err));
        for (uint64_t want = 0; want < 3; want++) {
            assert_ok(pst_loader_next(loader, &batch, &err));
            pst_batch_place(batch, &epoch, &step);
            assert_int_equal(step, want);
            assert_int_equal(pst_batch_count(batch), want == 1 ? 2 : 0);
            pst_batch_index_tensor(batch, &tensor, sizeof tensor);
            assert_int_equal(tensor.shape[0], want == 1 ? 2 : 0);
            assert_int_equal(pst_batch_row(batch, 0, 2, &tensor, sizeof tensor, NULL),
                             PST_ERROR_ARGUMENT);
            pst_batch_release(batch);
        }
        assert_int_equal(pst_loader_next(loader, &batch, &err), PST_END);
        assert_ok(pst_loader_replay(loader, 0, 0, &batch, &err));
        assert_int_equal(pst_batch_count(batch), 0);
        pst_batch_release(batch);
        struct pst_loader_stats stats = stats_of(loader);
        assert_int_equal(stats.n_batches, 3);
        assert_int_equal(stats.n_samples, 2);
        assert_int_equal(stats.n_bad, 4);
        pst_loader_close(&loader);
    }
}

/* A batch whose samples are all bad gets one good sample by default. It is the same sample,
 * whichever thread finds the last bad one. */
static void test_empty_batches_are_filled(void **state)
{
    (void)state;
    uint64_t want[3] = {0}, n_bad = 0;
    for (uint32_t workers = 0; workers < 5; workers++) {
        struct pst_error err;
        struct pst_loader_options options = empty_options(workers, PST_ON_EMPTY_FILL);
        pst_loader *loader = open_loader(dataset, &options);
        pst_batch *batch, *again;
        for (int round = 0; round < 4; round++) {
            assert_ok(pst_loader_begin(loader, 5, &err));
            for (uint64_t step = 0; step < 3; step++) {
                assert_ok(pst_loader_next(loader, &batch, &err));
                assert_int_equal(pst_batch_count(batch), step == 1 ? 2 : 1);
                assert_true(pst_batch_index(batch)[0] == 1 || pst_batch_index(batch)[0] == 2);
                uint64_t hash = hash_batch(batch);
                assert_true(!want[step] || want[step] == hash);
                want[step] = hash;
                assert_ok(pst_loader_replay(loader, 5, step, &again, &err));
                assert_true(hash_batch(again) == hash);
                pst_batch_release(again);
                pst_batch_release(batch);
            }
            assert_int_equal(pst_loader_next(loader, &batch, &err), PST_END);
        }
        struct pst_loader_stats stats = stats_of(loader);
        assert_int_equal(stats.n_replaced, 4 * 2);
        assert_true(stats.n_bad >= 4 * 4 && (!n_bad || n_bad == stats.n_bad));
        n_bad = stats.n_bad;
        pst_loader_close(&loader);
    }
}

/* All ranks of DDP get equally many batches, as many as were announced, whichever samples are
 * bad. */
static void test_ranks_get_equally_many(void **state)
{
    (void)state;
    /* rank 0 of 2 has only bad samples */
    const uint64_t indices[9] = {3, 1, 17, 2, 18, 4, 31, 5, 3};
    for (uint32_t world = 2; world <= 4; world++)
        for (int on_empty = 0; on_empty < 2; on_empty++)
            for (uint32_t rank = 0; rank < world; rank++) {
                struct pst_error err;
                struct pst_loader_options options =
                    empty_options(rank, (enum pst_on_empty)on_empty);
                options.indices = indices;
                options.n_indices = 9;
                options.batch_size = 1 + world % 2;
                options.rank = rank;
                options.world_size = world;
                pst_loader *loader = open_loader(dataset, &options);
                pst_batch *batch;
                enum pst_status status;
                uint64_t n = 0, n_rows = 0, per_rank = (9 + world - 1) / world;
                assert_ok(pst_loader_begin(loader, 0, &err));
                for (; (status = pst_loader_next(loader, &batch, &err)) == PST_OK; n++) {
                    n_rows += pst_batch_count(batch);
                    assert_true(on_empty || pst_batch_count(batch) > 0);
                    pst_batch_release(batch);
                }
                assert_int_equal(n, pst_loader_n_batches(loader));
                assert_int_equal(n, (per_rank + options.batch_size - 1) / options.batch_size);
                assert_int_equal(status, n_rows ? PST_END : PST_ERROR_CHECKSUM);
                assert_true(n_rows || (on_empty && world % 2 == 0 && rank == 0));
                pst_loader_close(&loader);
            }
}

/* An epoch without a good sample ends with an error. */
static void test_nothing_but_bad_samples(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++)
        for (int on_empty = 0; on_empty < 2; on_empty++) {
            struct pst_error err;
            struct pst_loader_options options = empty_options(workers, (enum pst_on_empty)on_empty);
            options.indices = bad_samples;
            options.n_indices = 4;
            pst_loader *loader = open_loader(dataset, &options);
            pst_batch *batch;
            for (uint64_t epoch = 0; epoch < 2; epoch++) {
                enum pst_status status;
                assert_ok(pst_loader_begin(loader, epoch, &err));
                while ((status = pst_loader_next(loader, &batch, &err)) == PST_OK) {
                    assert_int_equal(pst_batch_count(batch), 0);
                    pst_batch_release(batch);
                }
                assert_int_equal(status, PST_ERROR_CHECKSUM);
                assert_true(is_bad(err.sample) && err.file[0]);
                assert_non_null(strstr(err.text, on_empty ? "all 4 samples of this rank's epoch"
                                                          : "found no good replacement"));
            }
            pst_loader_close(&loader);
        }
}

/* Without padding, each sample is delivered once over all ranks. */
static void test_no_epoch_padding(void **state)
{
    (void)state;
    struct pst_error err;
    for (uint32_t world = 1; world <= 4; world++) {
        uint32_t seen[N_SAMPLES] = {0};
        for (uint32_t rank = 0; rank < world; rank++) {
            struct pst_loader_options options = {.struct_size = sizeof options,
                                                 .batch_size = 3,
                                                 .order = PST_ORDER_SHUFFLED,
                                                 .on_error = PST_ON_ERROR_REPLACE,
                                                 .rank = rank,
                                                 .world_size = world,
                                                 .no_epoch_padding = true,
                                                 .num_workers = rank % 2};
            pst_loader *loader = open_loader(folder, &options);
            pst_batch *batch;
            uint64_t n = 0, n_rows = 0;
            assert_ok(pst_loader_begin(loader, 1, &err));
            for (; pst_loader_next(loader, &batch, &err) == PST_OK; n++) {
                for (uint32_t i = 0; i < pst_batch_count(batch); i++, n_rows++)
                    seen[pst_batch_index(batch)[i]]++;
                pst_batch_release(batch);
            }
            assert_int_equal(n, pst_loader_n_batches(loader));
            assert_int_equal(n_rows, 20 / world + (rank < 20 % world));
            assert_int_equal(stats_of(loader).n_padded, 0);
            pst_loader_close(&loader);
        }
        for (uint32_t s = 0; s < 20; s++)
            assert_int_equal(seen[s], 1);
    }
    struct pst_loader_options both = {
        .struct_size = sizeof both, .no_epoch_padding = true, .drop_last = true};
    pst_loader *loader;
    assert_int_equal(pst_loader_open(folder, &both, &loader, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "only one of them"));
}

/* All samples are bad: replacing gives up with the error of the last sample tried, and says so. */
static void test_replace_gives_up(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 3; workers++) {
        struct pst_error err;
        struct pst_loader_options options = {.struct_size = sizeof options,
                                             .batch_size = 2,
                                             .indices = bad_samples,
                                             .n_indices = 4,
                                             .num_workers = workers,
                                             .on_error = PST_ON_ERROR_REPLACE};
        pst_loader *loader;
        pst_batch *batch;
        assert_ok(pst_loader_open(dataset, &options, &loader, &err));
        assert_ok(pst_loader_begin(loader, 0, &err));
        assert_int_equal(pst_loader_next(loader, &batch, &err), PST_ERROR_CHECKSUM);
        assert_true(is_bad(err.sample));
        assert_non_null(strstr(err.text, "found no good replacement"));
        assert_non_null(strstr(err.text, "after 16 tries"));
        assert_non_null(strstr(err.text, "have checksum"));
        pst_loader_close(&loader);
    }
}

static void test_no_verify(void **state)
{
    (void)state;
    struct pst_error err;
    pst_loader *loader;
    pst_batch *batch;
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .no_verify = true,
                                         .indices = bad_samples + 2,
                                         .n_indices = 1};
    /* a damaged raw image decodes, because any byte is a pixel */
    assert_int_equal(bad_samples[2] % 3, 0);
    assert_ok(pst_loader_open(dataset, &options, &loader, &err));
    assert_ok(pst_loader_begin(loader, 0, &err));
    assert_ok(pst_loader_next(loader, &batch, &err));
    pst_batch_release(batch);
    pst_loader_close(&loader);
}

static void damage(const char *name, const char *how)
{
    char path[256];
    snprintf(path, sizeof path, "%s/folder/%s", directory, name);
    if (strcmp(how, "gone") == 0) {
        assert_int_equal(unlink(path), 0);
    } else if (strcmp(how, "short") == 0) {
        struct stat stat_;
        assert_int_equal(stat(path, &stat_), 0);
        assert_int_equal(truncate(path, stat_.st_size / 2), 0);
    } else {
        /* overwrites the file with other bytes of the same length */
        FILE *file = fopen(path, "r+b");
        assert_non_null(file);
        assert_int_equal(fwrite("this is no image", 1, 16, file), 16);
        fclose(file);
    }
}

/* Files are removed or changed after the folder was opened. */
static void test_folder_changes(void **state)
{
    (void)state;
    damage("class00/0003.jpg", "gone");
    damage("class00/0007.jpg", "short");
    damage("class01/0002.jpg", "text");
    for (uint32_t workers = 0; workers <= 2; workers += 2)
        for (int s = 0; s < 2; s++) {
            struct pst_error err;
            pst_loader *loader = open_tolerant(folder, PST_ON_ERROR_SKIP, workers,
                                               s ? PST_STORAGE_MEMORY : PST_STORAGE_AUTO, 0);
            pst_batch *batch;
            uint32_t n = 0;
            assert_ok(pst_loader_begin(loader, 0, &err));
            while (pst_loader_next(loader, &batch, &err) == PST_OK) {
                n += pst_batch_count(batch);
                pst_batch_release(batch);
            }
            assert_int_equal(n, 17);
            assert_int_equal(pst_loader_n_quarantined(loader), 3);
            for (uint64_t i = 0; i < 3; i++) {
                assert_int_equal(pst_loader_quarantined(loader, i, &err, NULL), PST_OK);
                assert_true(err.sample == 3 || err.sample == 7 || err.sample == 12);
                assert_true(err.file[0] && err.text[0] && err.dataset[0]);
            }
            pst_loader_close(&loader);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_raise),
        cmocka_unit_test(test_skip),
        cmocka_unit_test(test_replace),
        cmocka_unit_test(test_max_errors),
        cmocka_unit_test(test_empty_batches),
        cmocka_unit_test(test_empty_batches_are_filled),
        cmocka_unit_test(test_ranks_get_equally_many),
        cmocka_unit_test(test_nothing_but_bad_samples),
        cmocka_unit_test(test_replace_gives_up),
        cmocka_unit_test(test_no_verify),
        cmocka_unit_test(test_no_epoch_padding),
        cmocka_unit_test(test_folder_changes),
    };
    alarm(900);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
