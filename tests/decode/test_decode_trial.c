/* test_decode_trial.c - is the installed libjpeg-turbo tried once in a process, whatever comes of
 * it, and again, but ever more rarely, if memory was short?
 *
 * The linker puts the function below in place of the decoder of JPEGs, which makes trials fail.
 * Each test is a process of its own, because a process keeps what its trial has found. */
#include "decode_make.h"

#include "decode/decode_int.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static enum pst_status outcome; /* of trials; PST_OK: that of the real decoder */
static unsigned n_trials;       /* decodes by decoders of trials */

enum pst_status __real_psti_decode_jpeg_rows(struct psti_decode_job *job);
enum pst_status __wrap_psti_decode_jpeg_rows(struct psti_decode_job *job);
enum pst_status __wrap_psti_decode_jpeg_rows(struct psti_decode_job *job)
{
    n_trials += job->decoder->is_trial;
    return job->decoder->is_trial && outcome != PST_OK ? outcome
                                                       : __real_psti_decode_jpeg_rows(job);
}

/* Decodes a JPEG n times and compares its pixels. Returns how often libjpeg-turbo's decoder was not
 * needed; UINT64_MAX if something is wrong. */
static uint64_t decode_many(uint32_t n)
{
    struct bytes file = make_jpeg(
        &(struct jpeg_spec){
            .height = 20, .width = 30, .colours = COLOURS_YCC, .h = 2, .v = 2, .quality = 80},
        7);
    uint32_t height, width, channels;
    uint8_t *expected = plain_jpeg(&file, &height, &width, &channels);
    struct psti_decoder *decoder;
    struct pst_image_info info;
    bool good = psti_decode_open(&decoder, NULL) == PST_OK &&
                pst_image_probe(file.data, file.nbytes, PST_FORM_JPEG, NULL, &info, sizeof info,
                                NULL) == PST_OK;
    uint64_t n_direct = UINT64_MAX;
    if (good)
        decoder->libjpeg_only = false; /* at any level of the CPU */
    for (uint32_t i = 0; good && i < n; i++)
        good = region_equals(decoder, &file, &info, NULL, NULL, expected);
    if (good)
        n_direct = decoder->n_jpeg_direct;
    psti_decode_close(&decoder);
    free(expected);
    bytes_free(&file);
    return n_direct;
}

/* The trial finds that the library agrees, and is over. */
static bool agrees(void)
{
    return decode_many(5) == 5 && n_trials == 5 && psti_decode_jpeg_is_tried();
}

/* The library refuses a file of the trial. Then it decodes all JPEGs, and the trial is over. */
static bool refuses(void)
{
    outcome = PST_ERROR_UNSUPPORTED;
    if (decode_many(50) != 0 || n_trials != 1 || !psti_decode_jpeg_is_tried())
        return false;
    outcome = PST_OK;
    return decode_many(50) == 0 && n_trials == 1;
}

/* Memory is short for a time. The trial is made again, at ever larger intervals. */
static bool lacks_memory(void)
{
    outcome = PST_ERROR_MEMORY;
    if (decode_many(1) != 0 || n_trials != 1 || decode_many(200) != 0)
        return false;
    if (n_trials < 4 || n_trials > 10 || psti_decode_jpeg_is_tried())
        return false;
    outcome = PST_OK;
    return decode_many(300) > 0 && psti_decode_jpeg_is_tried() && decode_many(9) == 9;
}

static void run_alone(bool (*test)(void))
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(test() ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_agrees(void **state)
{
    (void)state;
    run_alone(agrees);
}

static void test_refuses(void **state)
{
    (void)state;
    run_alone(refuses);
}

static void test_lacks_memory(void **state)
{
    (void)state;
    run_alone(lacks_memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agrees),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_lacks_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
