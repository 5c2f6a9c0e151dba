/* test_stall_model.c - tests the whole stall model: the limiting resource, stalls that add up,
 * error bands, the inverse question, and setups that are refused. */
#include "test.h"

#include "stall/stall_predict.h"

#include <math.h>
#include <string.h>

/* Returns a setup of ResNet50 on a fast accelerator: 1,000 samples/s wanted, 2 ms of a core for
 * each, 8 cores. */
static struct psti_stall_setup usual(void)
{
    struct psti_stall_setup s = {.struct_size = sizeof s,
                                 .cpu_seconds = 2e-3,
                                 .nbytes = 1e5,
                                 .link_nbytes = 6e5,
                                 .batch_size = 100,
                                 .prefetch = 2,
                                 .step_seconds = 0.1,
                                 .ranks = 1,
                                 .jobs = 1,
                                 .hosts = 1,
                                 .gpu_free = 1,
                                 .cores = 8,
                                 .workers = 8,
                                 .storage_nbytes_per_second = 1e9,
                                 .link_nbytes_per_second = 1e10,
                                 .dataset_nbytes = 1e9};
    return s;
}

static struct psti_stall_answer predict(const struct psti_stall_setup *s)
{
    struct psti_stall_answer answer;
    struct pst_error err;
    assert_ok(psti_stall_predict(s, &answer, sizeof answer, &err));
    assert_true(answer.low <= answer.samples_per_second);
    assert_true(answer.samples_per_second <= answer.high);
    assert_true(fabs(answer.hits + answer.page_hits + answer.misses - 1) < 1e-9);
    assert_true(answer.prep_stall >= 0 && answer.fetch_stall >= 0);
    assert_true(answer.utilisation + answer.prep_stall + answer.fetch_stall < 1 + 1e-9);
    for (int i = 0; i < PSTI_STALL_N_RESOURCES; i++)
        assert_true(answer.bounds[answer.binding] <= answer.bounds[i]);
    return answer;
}

static void assert_rate(const struct psti_stall_setup *s, double rate,
                        enum psti_stall_resource binding)
{
    struct psti_stall_answer answer = predict(s);
    if (fabs(answer.samples_per_second / rate - 1) > 1e-6 || answer.binding != binding)
        print_error("%g samples/s by %s, not %g by %s\n", answer.samples_per_second,
                    psti_stall_resource_name(answer.binding), rate,
                    psti_stall_resource_name(binding));
    assert_true(fabs(answer.samples_per_second / rate - 1) < 1e-6);
    assert_int_equal(answer.binding, binding);
}

static void test_each_resource_binds(void **state)
{
    (void)state;
    struct psti_stall_setup s = usual();
    assert_rate(&s, 1000, PSTI_STALL_ACCELERATOR);
    s.cores = 1.5;
    assert_rate(&s, 750, PSTI_STALL_CORES);
    s = usual();
    s.workers = 1;
    assert_rate(&s, 500, PSTI_STALL_WORKERS);
    s = usual();
    s.storage_nbytes_per_second = 2e7;
    assert_rate(&s, 200, PSTI_STALL_STORAGE);
    /* a quarter is read from storage, which therefore allows four times the rate */
    s.cache_nbytes = 0.75e9;
    assert_rate(&s, 800, PSTI_STALL_STORAGE);
    s = usual();
    s.reads_per_second = 300;
    assert_rate(&s, 300, PSTI_STALL_READS);
    s = usual();
    s.link_nbytes_per_second = 6e7;
    assert_rate(&s, 100, PSTI_STALL_LINK);
    s = usual();
    s.gpu_seconds = 2e-3;
    assert_rate(&s, 500, PSTI_STALL_GPU);
    s.gpu_free = 0.25;
    assert_rate(&s, 125, PSTI_STALL_GPU);
    s.gpu_free = 1;
    s.gpu_seconds = 1e-3; /* each step is delayed by the GPU's preparation */
    s.gpu_interference = 1;
    assert_rate(&s, 500, PSTI_STALL_ACCELERATOR);
    s = usual();
    s.hosts = 4;
    s.cache_nbytes = 1e9; /* everything is cached, three quarters of it on other hosts */
    s.network_nbytes_per_second = 1.5e7;
    assert_rate(&s, 200, PSTI_STALL_NETWORK);
    s = usual();
    s.workers = 0; /* 0.1 s of steps, 0.2 s of preparation and the reads, one after the other */
    s.storage_nbytes_per_second = 0;
    assert_rate(&s, 100 / 0.3, PSTI_STALL_ACCELERATOR);
    s.step_cpu_seconds = 0.1;
    s.workers = 8;
    s.cores = 1; /* a step and its batch take 0.3 s of the only core */
    assert_rate(&s, 100 / 0.3, PSTI_STALL_CORES);
}

/* If preparation may not use the GPU at all, the GPU prepares nothing. Without work it is no
 * limit. */
static void test_nothing_of_the_gpu(void **state)
{
    (void)state;
    struct psti_stall_setup s = usual();
    s.gpu_free = 0;
    assert_rate(&s, 1000, PSTI_STALL_ACCELERATOR);
    s.gpu_seconds = 1e-3;
    struct psti_stall_answer answer = predict(&s);
    assert_true(answer.samples_per_second == 0 && answer.low == 0 && answer.high == 0);
    assert_int_equal(answer.binding, PSTI_STALL_GPU);
    assert_true(answer.utilisation == 0 && answer.prep_stall == 1 && answer.fetch_stall == 0);
    struct pst_error err;
    double need;
    assert_ok(psti_stall_need(&s, PSTI_STALL_GPU, 0.9, &need, &err));
    assert_true(fabs(need - 0.9) < 1e-6);
    assert_int_equal(psti_stall_need(&s, PSTI_STALL_CORES, 0.9, &need, &err), PST_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "gpu"));
}

/* A sample takes 0.2 ms of a core, 0.1 ms of which is copying by one thread. */
static void test_copying(void **state)
{
    (void)state;
    struct psti_stall_setup s = usual();
    s.step_seconds = 0;
    s.storage_nbytes_per_second = s.link_nbytes_per_second = 0;
    s.cpu_seconds = 2e-4;
    s.copy_nbytes_per_second = 1e9;
    s.cores = s.workers = 1; /* everything runs on one core */
    assert_rate(&s, 5000, PSTI_STALL_CORES);
    s.cores = s.workers = 100; /* only copying limits the rate */
    assert_true(fabs(predict(&s).samples_per_second / 10000 - 1) < 0.02);
    assert_int_equal(predict(&s).binding, PSTI_STALL_COPYING);
    s.cores = s.workers = 2; /* half of 0.1 ms on each core; workers sleep half of the time */
    assert_rate(&s, 1 / (1e-4 + 0.5 * 0.5e-4), PSTI_STALL_COPYING);
    s.ranks = 2; /* each rank has a copying thread, and one of the two cores */
    assert_rate(&s, 10000, PSTI_STALL_CORES);
    s.ranks = 1;
    s.cpu_seconds = 1e-3; /* workers are slower than the copying thread and never wait for it */
    assert_rate(&s, 2000, PSTI_STALL_CORES);
    s.cpu_seconds = 2e-4;
    s.cache_nbytes = 1e9; /* hits of Penstock's cache are not copied */
    assert_rate(&s, 10000, PSTI_STALL_CORES);
    s.cache_nbytes = 0;
    s.page_cache_nbytes = 1e9; /* hits of the page cache are copied */
    assert_int_equal(predict(&s).binding, PSTI_STALL_COPYING);
    s.cpu_seconds = 8e-4;
    double before = 0;
    for (s.cores = 1; s.cores < 300; s.cores++) { /* more cores never make it slower */
        s.workers = s.cores;
        double rate = predict(&s).samples_per_second;
        assert_true(rate >= before && rate <= 10000);
        before = rate;
    }
    assert_true(before > 9700);
}

static void test_epochs(void **state)
{
    (void)state;
    struct psti_stall_setup s = usual();
    s.cores = 1; /* 0.2 s for a batch, 0.1 s for a step */
    s.storage_nbytes_per_second = 0;
    s.batches_per_epoch = 1;
    struct psti_stall_answer answer = predict(&s);
    assert_true(fabs(answer.samples_per_second - 100 / 0.3) < 1e-6);
    assert_true(fabs(answer.utilisation - 1 / 3.0) < 1e-9);
    assert_true(fabs(answer.prep_stall - 2 / 3.0) < 1e-9);
    assert_true(fabs(answer.start_stall - 1 / 3.0) < 1e-9);
    s.batches_per_epoch = 8;
    assert_true(fabs(predict(&s).samples_per_second - 800 / 1.7) < 1e-6);
    s.epoch_pause_seconds = 0.3;
    answer = predict(&s);
    assert_true(fabs(answer.samples_per_second - 800 / 2.0) < 1e-6);
    assert_true(fabs(answer.utilisation - 0.8 / 1.7) < 1e-9); /* the pause does not count */
    assert_true(fabs(answer.utilisation + answer.prep_stall + answer.fetch_stall - 1) < 1e-9);
    struct pst_error err;
    double need;
    assert_ok(psti_stall_need(&s, PSTI_STALL_CORES, 0.5, &need, &err));
    s.cores = need;
    assert_true(fabs(predict(&s).utilisation - 0.5) < 1e-6);
    s.workers = 0; /* the training thread prepares, so no batch is waited for twice */
    s.cores = 1;
    s.epoch_pause_seconds = 0;
    assert_true(fabs(predict(&s).samples_per_second - 100 / 0.3) < 1e-6);
    assert_true(predict(&s).start_stall == 0);
}

static void test_jobs_and_ranks(void **state)
{
    (void)state;
    struct psti_stall_setup s = usual();
    s.jobs = 4; /* four jobs share 8 cores: 4,000 samples/s in total */
    assert_rate(&s, 4000, PSTI_STALL_ACCELERATOR);
    s.cores = 2;
    assert_rate(&s, 1000, PSTI_STALL_CORES);
    s.shared_preparation = true;
    assert_rate(&s, 4000, PSTI_STALL_ACCELERATOR);
    s.shared_preparation = false;
    s.jobs = 1;
    s.ranks = 4;
    assert_rate(&s, 1000, PSTI_STALL_CORES);
    /* One cache with half of the data set for all, or an eighth for each. */
    s.cache_nbytes = 0.5e9;
    assert_true(fabs(predict(&s).hits - 0.125) < 1e-9);
    s.shared_cache = true;
    assert_true(fabs(predict(&s).hits - 0.5) < 1e-9);
    /* The slowest rank of a step delays the others. */
    s.cores = 100;
    s.step_sd_seconds = 0.01;
    assert_true(predict(&s).samples_per_second < 0.92 * 4000);
}

static void test_stalls(void **state)
{
    (void)state;
    struct psti_stall_setup s = usual();
    s.cores = 1;                         /* 500 samples/s */
    s.storage_nbytes_per_second = 2.5e7; /* 250 samples/s */
    struct psti_stall_answer answer = predict(&s);
    assert_true(fabs(answer.utilisation - 0.25) < 1e-6);
    assert_true(fabs(answer.prep_stall - 0.25) < 1e-6);
    assert_true(fabs(answer.fetch_stall - 0.5) < 1e-6);
    assert_int_equal(answer.next, PSTI_STALL_CORES);
    assert_true(fabs(answer.storage_nbytes_per_second - 2.5e7) < 1);
    assert_true(fabs(answer.cores_used - 0.5) < 1e-6);
    s.page_cache_nbytes = 0.35e9; /* random replacement: 13.8 % */
    assert_true(fabs(predict(&s).page_hits - 0.138) < 0.002);
    s.cache_nbytes = 0.5e9; /* so only the other half is left for the page cache */
    answer = predict(&s);
    assert_true(fabs(answer.hits - 0.5) < 1e-9 && answer.page_hits > 0.2);
}

static void test_variance(void **state)
{
    (void)state;
    struct psti_stall_setup s = usual();
    s.cores = 2; /* cores are as fast as the accelerator */
    s.cpu_sd_seconds = 8e-3;
    double with_two = predict(&s).samples_per_second;
    s.prefetch = 16;
    double with_many = predict(&s).samples_per_second;
    assert_true(with_two < 985 && with_two > 900);
    assert_true(with_many > with_two && with_many < 1000);
}

/* Storage and cores allow the same rate, 1,000 samples/s each, and their times vary. */
static void test_storage_and_cores_wait_for_each_other(void **state)
{
    (void)state;
    struct psti_stall_setup s = usual();
    s.step_seconds = 0;
    s.cores = s.workers = 2;
    s.storage_nbytes_per_second = 1e8;
    s.cpu_sd_seconds = 1e-3; /* standard deviation: half of the mean; for bytes it is the mean */
    s.nbytes_sd = 1e5;
    /* a thread that reads for itself does not wait for another */
    assert_rate(&s, 1000, PSTI_STALL_CORES);
    s.reads_ahead = true;
    const double both = 0.25 + 1; /* sum of the squared coefficients of variation */
    assert_rate(&s, 1000 * (1 - both / (2 * 36)), PSTI_STALL_CORES); /* 32 rows and 2 per worker */
    s.batch_size = 5;
    assert_rate(&s, 1000 * (1 - both / (2 * 10)), PSTI_STALL_CORES); /* two batches */
    s.batch_size = 100;
    s.cache_nbytes = 0.5e9; /* the other half is read from storage of half the speed */
    s.storage_nbytes_per_second = 0.5e8;
    assert_rate(&s, 1000 * (1 - (0.25 + 3) / (2 * 36)), PSTI_STALL_CORES);
    s.cache_nbytes = 1e9;
    assert_rate(&s, 1000, PSTI_STALL_CORES);
    s.cache_nbytes = 0;
    s.storage_nbytes_per_second = 0.5e8; /* the two rates are far apart */
    assert_rate(&s, 500, PSTI_STALL_STORAGE);
    s.storage_nbytes_per_second = 1e12;
    assert_rate(&s, 1000, PSTI_STALL_CORES);
    s.cpu_sd_seconds = s.nbytes_sd = 0; /* without variance all samples are alike */
    s.storage_nbytes_per_second = 1e8;
    assert_rate(&s, 1000, PSTI_STALL_CORES);
    s.workers = 0; /* the training thread reads and prepares, one after the other */
    s.cpu_sd_seconds = 1e-3;
    assert_rate(&s, 1 / (2e-3 + 1e-3), PSTI_STALL_ACCELERATOR);
}

/* More of a resource never makes it slower, whatever varies. */
static void test_more_storage_or_cores_are_never_slower(void **state)
{
    (void)state;
    struct psti_stall_setup s = usual();
    s.step_seconds = 0.1;
    s.reads_ahead = true;
    s.cpu_sd_seconds = 4e-3;
    s.nbytes_sd = 2e5;
    s.cache_nbytes = 0.5e9;
    double *amounts[] = {&s.storage_nbytes_per_second, &s.cores};
    for (int i = 0; i < 2; i++) {
        double whole = *amounts[i], before = 0;
        for (int k = 1; k < 400; k++) {
            *amounts[i] = whole * k / 100;
            double rate = predict(&s).samples_per_second;
            assert_true(rate >= before);
            before = rate;
        }
        *amounts[i] = whole;
    }
}

/* Returns the upper end of the band, relative to the rate. */
static double above(const struct psti_stall_setup *s)
{
    struct psti_stall_answer answer = predict(s);
    return answer.high / answer.samples_per_second - 1;
}

static void test_bands(void **state)
{
    (void)state;
    struct psti_stall_setup s = usual();
    s.cores = 1;
    double model = above(&s);
    assert_true(fabs(model - 0.05) < 1e-9);
    s.cpu_band = 0.1; /* cores are the limit: 500 becomes 454.5 or 555.6 */
    struct psti_stall_answer wide = predict(&s);
    assert_true(fabs(wide.low - 500 / (1 + hypot(0.05, 0.1))) < 0.01);
    assert_true(fabs(wide.high - 500 * (1 + hypot(0.05, 1 / 0.9 - 1))) < 0.01);
    s.storage_band = s.copy_band = s.step_band = 0.1; /* bands of resources that are no limit */
    assert_true(fabs(predict(&s).high - wide.high) < 0.01);
    /* storage is as fast as the cores: the low side has both errors */
    s.storage_nbytes_per_second = 5e7;
    assert_true(fabs(predict(&s).low - 500 / (1 + sqrt(0.05 * 0.05 + 0.1 * 0.1 +
                                                       (1 / 0.9 - 1) * (1 / 0.9 - 1)))) < 0.01);
    s = usual();
    s.storage_nbytes_per_second = 2e7;
    s.nbytes_band = 0.1;
    assert_true(fabs(above(&s) - hypot(0.05, 1 / 0.9 - 1)) < 1e-6);
    s.cache_nbytes = 5e8; /* more bytes also mean fewer hits */
    assert_true(above(&s) > 0.2);
}

static void test_bands_beyond_what_was_measured(void **state)
{
    (void)state;
    struct psti_stall_setup s = usual();
    s.cores = 1;
    double plain = above(&s);
    s.measured_low[PSTI_STALL_CORES] = 0.5;
    s.measured_high[PSTI_STALL_CORES] = 2;
    assert_int_equal(predict(&s).extrapolated, 0);
    s.cores = 8; /* outside of the measured range, but the accelerator is the limit by far */
    assert_int_equal(predict(&s).extrapolated, 1u << PSTI_STALL_CORES);
    assert_true(above(&s) < 0.051);
    s.cores = 2;
    s.measured_high[PSTI_STALL_CORES] = 1;
    assert_int_equal(predict(&s).extrapolated, 1u << PSTI_STALL_CORES);
    assert_true(above(&s) > plain + 0.04);
}

static void test_need(void **state)
{
    (void)state;
    struct pst_error err;
    double need;
    struct psti_stall_setup s = usual();
    s.cores = 1;
    assert_ok(psti_stall_need(&s, PSTI_STALL_CORES, 0.9, &need, &err));
    assert_true(fabs(need - 1.8) < 1e-6);
    s = usual();
    s.storage_nbytes_per_second = 4e7; /* 40 % of what the accelerator wants */
    assert_ok(psti_stall_need(&s, PSTI_STALL_STORAGE, 0.9, &need, &err));
    assert_true(fabs(need - 9e7) < 1e3);
    assert_ok(psti_stall_need(&s, PSTI_STALL_CACHE_MEMORY, 0.8, &need, &err));
    assert_true(fabs(need - 0.5e9) < 1e4);
    s.workers = 1;
    s.storage_nbytes_per_second = 0;
    assert_ok(psti_stall_need(&s, PSTI_STALL_WORKERS, 0.98, &need, &err));
    assert_true(need == 2);
    s = usual();
    s.cores = 1;
    assert_int_equal(psti_stall_need(&s, PSTI_STALL_STORAGE, 0.98, &need, &err), PST_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "cores"));
    assert_int_equal(psti_stall_need(&s, PSTI_STALL_ACCELERATOR, 0.98, &need, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(psti_stall_need(&s, PSTI_STALL_CORES, 1, &need, &err), PST_ERROR_ARGUMENT);
}

static void test_refused(void **state)
{
    (void)state;
    struct psti_stall_answer answer;
    struct pst_error err;
    struct psti_stall_setup s = usual();
    s.cpu_seconds = -1;
    assert_int_equal(psti_stall_predict(&s, &answer, sizeof answer, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "cpu_seconds"));
    s = usual();
    s.cores = 0;
    assert_int_equal(psti_stall_predict(&s, &answer, sizeof answer, &err), PST_ERROR_ARGUMENT);
    s = usual();
    s.nbytes = NAN;
    assert_int_equal(psti_stall_predict(&s, &answer, sizeof answer, &err), PST_ERROR_ARGUMENT);
    s = usual();
    s.gpu_free = 2;
    assert_int_equal(psti_stall_predict(&s, &answer, sizeof answer, &err), PST_ERROR_ARGUMENT);
    s = usual();
    s.policy = (enum psti_stall_policy)9;
    assert_int_equal(psti_stall_predict(&s, &answer, sizeof answer, &err), PST_ERROR_ARGUMENT);
    s = usual();
    s.jobs = 0;
    assert_int_equal(psti_stall_predict(&s, &answer, sizeof answer, &err), PST_ERROR_ARGUMENT);
    assert_non_null(strstr(err.text, "jobs must be 1 or more"));
    s = usual();
    s.batches_per_epoch = 0.5;
    assert_int_equal(psti_stall_predict(&s, &answer, sizeof answer, &err), PST_ERROR_ARGUMENT);
    struct psti_stall_setup nothing = {.struct_size = sizeof nothing,
                                       .batch_size = 1,
                                       .prefetch = 1,
                                       .ranks = 1,
                                       .jobs = 1,
                                       .hosts = 1,
                                       .cores = 1,
                                       .workers = 1};
    assert_int_equal(psti_stall_predict(&nothing, &answer, sizeof answer, &err),
                     PST_ERROR_ARGUMENT);
    s = usual();
    s.struct_size = 0;
    assert_int_equal(psti_stall_predict(&s, &answer, sizeof answer, &err), PST_ERROR_ARGUMENT);
    assert_null(psti_stall_resource_name(PSTI_STALL_N_RESOURCES));
    assert_string_equal(psti_stall_resource_name(PSTI_STALL_CACHE_MEMORY), "cache");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_resource_binds),
        cmocka_unit_test(test_nothing_of_the_gpu),
        cmocka_unit_test(test_copying),
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_jobs_and_ranks),
        cmocka_unit_test(test_stalls),
        cmocka_unit_test(test_variance),
        cmocka_unit_test(test_storage_and_cores_wait_for_each_other),
        cmocka_unit_test(test_more_storage_or_cores_are_never_slower),
        cmocka_unit_test(test_bands),
        cmocka_unit_test(test_bands_beyond_what_was_measured),
        cmocka_unit_test(test_need),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
