/* test_stall_model.c - the model as a whole: which resource binds, stalls that add up, bands, the
 * inverse question, and setups that are refused. */
#include "test.h"

#include "stall/stall_predict.h"

#include <math.h>
#include <string.h>

/* ResNet50 on a fast accelerator: 1,000 samples/s wanted, 2 ms of a core each, 8 cores. */
static struct psti_stall_setup usual(void)
{
    struct psti_stall_setup s = {.struct_size = sizeof s,
                                 .cpu_seconds = 2e-3,
                                 .nbytes = 1e5,
                                 .link_nbytes = 6e5,
                                 .batch_size = 100,
                                 .prefetch = 2,
                                 .step_seconds = 0.1,
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
    s.cache_nbytes = 0.75e9; /* a quarter is read, so storage allows four times as much */
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
    s.gpu_seconds = 1e-3; /* delays each step by all that it takes */
    s.gpu_interference = 1;
    assert_rate(&s, 500, PSTI_STALL_ACCELERATOR);
    s = usual();
    s.hosts = 4;
    s.cache_nbytes = 1e9; /* all is cached; three quarters of it elsewhere */
    s.network_nbytes_per_second = 1.5e7;
    assert_rate(&s, 200, PSTI_STALL_NETWORK);
    s = usual();
    s.workers = 0; /* 0.1 s of steps and 0.2 s of preparation, one after the other, and the reads */
    s.storage_nbytes_per_second = 0;
    assert_rate(&s, 100 / 0.3, PSTI_STALL_ACCELERATOR);
    s.step_cpu_seconds = 0.1;
    s.workers = 8;
    s.cores = 1; /* a step and its batch take 0.3 s of the one core */
    assert_rate(&s, 100 / 0.3, PSTI_STALL_CORES);
}

static void test_jobs_and_ranks(void **state)
{
    (void)state;
    struct psti_stall_setup s = usual();
    s.jobs = 4; /* four jobs share 8 cores: 4,000 samples/s all together */
    assert_rate(&s, 4000, PSTI_STALL_ACCELERATOR);
    s.cores = 2;
    assert_rate(&s, 1000, PSTI_STALL_CORES);
    s.shared_preparation = true;
    assert_rate(&s, 4000, PSTI_STALL_ACCELERATOR);
    s.shared_preparation = false;
    s.jobs = 1;
    s.ranks = 4;
    assert_rate(&s, 1000, PSTI_STALL_CORES);
    /* One cache of half the data set for all, or an eighth for each. */
    s.cache_nbytes = 0.5e9;
    assert_true(fabs(predict(&s).hits - 0.125) < 1e-9);
    s.shared_cache = true;
    assert_true(fabs(predict(&s).hits - 0.5) < 1e-9);
    /* The slowest rank of a step holds up the others. */
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
    s.cache_nbytes = 0.5e9; /* and the page cache has the other half to hold */
    answer = predict(&s);
    assert_true(fabs(answer.hits - 0.5) < 1e-9 && answer.page_hits > 0.2);
}

static void test_variance(void **state)
{
    (void)state;
    struct psti_stall_setup s = usual();
    s.cores = 2; /* as fast as the accelerator */
    s.cpu_sd_seconds = 8e-3;
    double with_two = predict(&s).samples_per_second;
    s.prefetch = 16;
    double with_many = predict(&s).samples_per_second;
    assert_true(with_two < 985 && with_two > 900);
    assert_true(with_many > with_two && with_many < 1000);
}

static void test_bands(void **state)
{
    (void)state;
    struct psti_stall_setup s = usual();
    s.cores = 1;
    struct psti_stall_answer plain = predict(&s);
    s.cpu_band = 0.1;
    struct psti_stall_answer wide = predict(&s);
    assert_true(wide.low < plain.low && wide.high > plain.high);
    s.cpu_band = 0;
    s.measured_low[PSTI_STALL_CORES] = 0.5;
    s.measured_high[PSTI_STALL_CORES] = 2;
    assert_int_equal(predict(&s).extrapolated, 0);
    s.cores = 8; /* outside, but the accelerator is the limit by far */
    struct psti_stall_answer outside = predict(&s);
    assert_int_equal(outside.extrapolated, 1u << PSTI_STALL_CORES);
    assert_true(outside.high / outside.samples_per_second < 1.031);
    s.cores = 2;
    s.measured_high[PSTI_STALL_CORES] = 1;
    outside = predict(&s);
    assert_int_equal(outside.extrapolated, 1u << PSTI_STALL_CORES);
    assert_true(outside.high / outside.samples_per_second >
                plain.high / plain.samples_per_second + 0.04);
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
    struct psti_stall_setup nothing = {
        .struct_size = sizeof nothing, .batch_size = 1, .prefetch = 1, .cores = 1, .workers = 1};
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
        cmocka_unit_test(test_jobs_and_ranks),
        cmocka_unit_test(test_stalls),
        cmocka_unit_test(test_variance),
        cmocka_unit_test(test_bands),
        cmocka_unit_test(test_need),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
