/* test_loader_faults.c - does on_error apply to bad samples only? A fault of the machine, of the
 * whole data set or of the options ends the epoch with an error of its own. */
#include "base/fault.h"
#include "loader/loader_fixture.h"
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_CLASSES 2
#define N_EACH 10
#define N_SAMPLES (N_CLASSES * N_EACH)

/* Runs one epoch with a policy and a number of workers. Returns the status that ended the epoch; *n
 * is set to the number of good samples before it. */
static enum pst_status run(pst_dataset *dataset, const struct pst_loader_options *given,
                           uint32_t workers, enum pst_on_error policy, uint32_t *n,
                           struct pst_error *err)
{
    struct pst_loader_options options = *given;
    pst_loader *loader = NULL;
    pst_batch *batch;
    options.struct_size = sizeof options;
    options.batch_size = 4;
    options.num_workers = workers;
    options.on_error = policy;
    pst_error_clear(err);
    *n = 0;
    enum pst_status status = pst_loader_open(dataset, &options, &loader, err);
    if (status == PST_OK)
        status = pst_loader_begin(loader, 0, err);
    while (status == PST_OK && (status = pst_loader_next(loader, &batch, err)) == PST_OK) {
        *n += pst_batch_count(batch);
        pst_batch_release(batch);
    }
    pst_loader_close(&loader);
    return status;
}

/* Asserts that the epoch ends with this status for every policy of on_error. */
static void stops(pst_dataset *dataset, const struct pst_loader_options *options,
                  enum pst_status want, int os_error)
{
    for (uint32_t workers = 0; workers <= 2; workers += 2)
        for (int policy = PST_ON_ERROR_RAISE; policy <= PST_ON_ERROR_REPLACE; policy++) {
            struct pst_error err;
            uint32_t n;
            assert_int_equal(run(dataset, options, workers, (enum pst_on_error)policy, &n, &err),
                             want);
            assert_int_equal(err.os_error, os_error);
            assert_true(err.text[0] && err.dataset[0]);
        }
}

/* Asserts that n_bad samples are skipped or replaced and the epoch goes on. */
static void goes_on(pst_dataset *dataset, const struct pst_loader_options *options, uint32_t n_bad)
{
    for (uint32_t workers = 0; workers <= 2; workers += 2) {
        struct pst_error err;
        uint32_t n;
        assert_int_equal(run(dataset, options, workers, PST_ON_ERROR_SKIP, &n, &err), PST_END);
        assert_int_equal(n, N_SAMPLES - n_bad);
        assert_int_equal(run(dataset, options, workers, PST_ON_ERROR_REPLACE, &n, &err), PST_END);
        assert_int_equal(n, N_SAMPLES);
    }
}

static char *inside(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void move(const char *from, const char *to)
{
    char old[256];
    snprintf(old, sizeof old, "%s", inside(from));
    assert_int_equal(rename(old, inside(to)), 0);
}

static const struct pst_loader_options plain;

#ifdef PST_FAULTS
static void test_reads_that_fail(void **state)
{
    (void)state;
    pst_dataset *packed = open_made(
        directory, "eio", &(struct make_options){.n_samples = N_SAMPLES, .images = MAKE_MIXED});
    pst_dataset *folder = open_made_folder(directory, "eio_folder", N_CLASSES, N_EACH);
    const struct pst_loader_options threads = {.storage = PST_STORAGE_THREADS};
    for (uint64_t from = 1; from <= 6;
         from += 5) /* all reads fail from the first or from the sixth on */
        for (uint32_t i = 0; i < 4; i++) {
            struct pst_error err;
            uint32_t n;
            psti_fault_arm(PSTI_FAULT_READ, from, true);
            enum pst_on_error policy = i & 2 ? PST_ON_ERROR_SKIP : PST_ON_ERROR_REPLACE;
            enum pst_status status =
                run(i % 2 ? folder : packed, &threads, i & 2, policy, &n, &err);
            psti_fault_arm(PSTI_FAULT_READ, 0, false);
            assert_int_equal(status, PST_ERROR_IO);
            assert_int_equal(err.os_error, EIO);
            assert_true(err.file[0] && err.dataset[0]);
        }
    pst_dataset_close(&packed);
    pst_dataset_close(&folder);
}
#endif

static void test_lost_folders(void **state)
{
    (void)state;
    pst_dataset *folder = open_made_folder(directory, "folder", N_CLASSES, N_EACH);
    const struct pst_loader_options memory = {.storage = PST_STORAGE_MEMORY};
    assert_int_equal(unlink(inside("folder/class01/0004.jpg")), 0);
    goes_on(folder, &plain, 1); /* a missing file is a bad sample */
    goes_on(folder, &memory, 1);
    move("folder/class01", "class01");
    stops(folder, &plain, PST_ERROR_NOT_FOUND, ENOENT);
    stops(folder, &memory, PST_ERROR_NOT_FOUND, ENOENT);
    move("class01", "folder/class01");
    goes_on(folder, &plain, 1);
    move("folder", "away");
    stops(folder, &plain, PST_ERROR_NOT_FOUND, ENOENT);
    /* an empty directory, like a file system that is not mounted */
    assert_int_equal(mkdir(inside("folder"), 0777), 0);
    stops(folder, &plain, PST_ERROR_NOT_FOUND, ENOENT);
    stops(folder, &memory, PST_ERROR_NOT_FOUND, ENOENT);
    pst_dataset_close(&folder);
}

static void test_lost_shard(void **state)
{
    (void)state;
    pst_dataset *packed = open_made(
        directory, "packed", &(struct make_options){.n_samples = N_SAMPLES, .images = MAKE_MIXED});
    move("packed/shard-000000.pst", "shard");
    stops(packed, &plain, PST_ERROR_NOT_FOUND, ENOENT);
    move("shard", "packed/shard-000000.pst");
    goes_on(packed, &plain, 0);
    pst_dataset_close(&packed);
}

/* Root may read everything, so the test continues as another user. */
static void test_lacking_permission(void **state)
{
    (void)state;
    bool root = geteuid() == 0;
    pst_dataset *folder = open_made_folder(directory, "closed", N_CLASSES, N_EACH);
    assert_int_equal(chmod(directory, 0755), 0);
    assert_int_equal(chmod(inside("closed/class00/0005.jpg"), 0), 0);
    assert_true(!root || seteuid(65534) == 0);
    stops(folder, &plain, PST_ERROR_IO, EACCES);
    assert_true(!root || seteuid(0) == 0);
    pst_dataset_close(&folder);
}

/* A crop of 1000 pixels does not fit such small images. The options are at fault, not the
 * samples. */
static void test_operations_that_cannot_apply(void **state)
{
    (void)state;
    pst_dataset *packed = open_made(
        directory, "crop", &(struct make_options){.n_samples = N_SAMPLES, .images = MAKE_MIXED});
    struct pst_op crop;
    pst_op_init(&crop, sizeof crop, PST_OP_RANDOM_CROP);
    crop.height = crop.width = 1000;
    const struct pst_field_output output = {.name = "image", .ops = &crop, .n_ops = 1};
    const struct pst_loader_options options = {
        .fields = &output, .n_fields = 1, TEST_ELEMENT_SIZES};
    stops(packed, &options, PST_ERROR_ARGUMENT, 0);
    pst_dataset_close(&packed);
}

/* An image has more pixels than max_pixels: it is a bad sample, and the others are delivered. */
static void test_too_many_pixels(void **state)
{
    (void)state;
    pst_dataset *packed = open_made(
        directory, "pixels", &(struct make_options){.n_samples = N_SAMPLES, .images = MAKE_MIXED});
    uint64_t largest = 0;
    uint32_t n_largest = 0, height, width;
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        make_size(i, MAKE_MIXED, &height, &width);
        n_largest =
            (uint64_t)height * width > largest ? 1 : n_largest + (largest == height * width);
        largest = (uint64_t)height * width > largest ? (uint64_t)height * width : largest;
    }
    const struct pst_loader_options options = {.max_pixels = largest - 1};
    goes_on(packed, &options, n_largest);
    pst_dataset_close(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef PST_FAULTS
        cmocka_unit_test(test_reads_that_fail),
#endif
        cmocka_unit_test(test_lost_folders),
        cmocka_unit_test(test_lost_shard),
        cmocka_unit_test(test_lacking_permission),
        cmocka_unit_test(test_operations_that_cannot_apply),
        cmocka_unit_test(test_too_many_pixels),
    };
    alarm(900);
    return cmocka_run_group_tests(tests, directory_set_up, directory_tear_down);
}
