/* test_verify.c - pst_verify detects every alteration, and reports in the same order for any number
 * of workers. */
#include "pack/folder_pack.h"

#include "base/fault.h"
#include "verify/verify.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct findings {
    unsigned n;
    struct pst_error errors[64];
    char names[64][64];
    unsigned stop_after; /* 0: do not stop */
};

static int on_finding(void *ctx, const char *name, const struct pst_error *err)
{
    struct findings *findings = ctx;
    assert_true(findings->n < 64);
    findings->errors[findings->n] = *err;
    snprintf(findings->names[findings->n++], sizeof findings->names[0], "%s", name);
    return findings->stop_after != 0 && findings->n >= findings->stop_after;
}

static enum pst_status verify(void **state, const char *relative, uint32_t workers, bool decode,
                              struct findings *findings, struct pst_verify_report *report)
{
    struct pst_error err;
    struct pst_verify_options options = {.struct_size = sizeof options,
                                         .decode = decode,
                                         .num_workers = workers,
                                         .bad_sample = findings == NULL ? NULL : on_finding,
                                         .ctx = findings};
    pst_error_clear(&err);
    enum pst_status status =
        pst_verify(folder_path(state, relative), &options, report, sizeof *report, &err);
    assert_int_equal(err.status, status);
    return status;
}

static void make_packed(void **state, unsigned n, uint64_t shard_nbytes)
{
    struct pst_error err;
    char from[4096], to[4096];
    const struct pst_writer_options writer = {.struct_size = sizeof writer,
                                              .shard_nbytes = shard_nbytes};
    const struct pst_pack_options options = {.struct_size = sizeof options, .writer = &writer};
    make_folder(state, "f", n);
    snprintf(from, sizeof from, "%s", folder_path(state, "f"));
    snprintf(to, sizeof to, "%s", folder_path(state, "a.pst"));
    assert_ok(pst_pack(from, to, &options, NULL, 0, &err));
}

/* Flips a bit in the middle of the image of `sample`. */
static void flip(void **state, uint64_t sample)
{
    struct pst_error err;
    struct pst_item item;
    char path[4096];
    pst_dataset *dataset = folder_open(state, "a.pst", NULL);
    assert_ok(pst_dataset_item(dataset, sample, 0, 0, &item, sizeof item, &err));
    assert_ok(pst_dataset_file_path(dataset, item.i_file, path, sizeof path, &err));
    pst_dataset_close(&dataset);
    assert_int_equal(chmod(path, 0600), 0);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)(item.offset + item.nbytes / 2), SEEK_SET), 0);
    int c = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    fputc(c ^ 4, file);
    assert_int_equal(fclose(file), 0);
}

static void whole_data_sets_have_no_findings(void **state)
{
    struct pst_verify_report report;
    struct findings findings = {0};
    make_packed(state, 100, 4096);
    for (int decode = 0; decode < 2; decode++) {
        assert_int_equal(verify(state, "a.pst", 3, decode, &findings, &report), PST_OK);
        assert_int_equal(findings.n, 0);
        assert_int_equal(report.n_samples, 100);
        assert_int_equal(report.n_items, 100);
        assert_int_equal(report.n_bad, 0);
        assert_true(report.nbytes > 0);
    }
    assert_int_equal(verify(state, "f", 2, false, &findings, &report), PST_OK);
    assert_int_equal(report.n_items, 100);
}

static void all_bad_items_are_found_in_order(void **state)
{
    static const uint32_t workers[] = {1, 2, 5};
    struct pst_verify_report report;
    make_packed(state, 80, 4096);
    flip(state, 3);
    flip(state, 40);
    flip(state, 41);
    flip(state, 79);
    for (unsigned w = 0; w < 3; w++) {
        static const uint64_t expected[] = {3, 40, 41, 79};
        struct findings findings = {0};
        unsigned n = 0;
        assert_int_equal(verify(state, "a.pst", workers[w], w == 1, &findings, &report),
                         PST_ERROR_CHECKSUM);
        assert_int_equal(report.n_bad, 4);
        /* each item is one finding; its shard is not another one */
        assert_int_equal(findings.n, 4);
        for (unsigned i = 0; i < findings.n; i++) {
            const struct pst_error *err = &findings.errors[i];
            assert_int_equal(err->status, PST_ERROR_CHECKSUM);
            assert_non_null(strstr(err->dataset, "a.pst"));
            assert_true(err->file[0] != '\0');
            assert_true(n < 4);
            assert_string_not_equal(findings.names[i], "");
            assert_int_equal(err->sample, expected[n++]);
            assert_true(err->offset > 0);
            assert_string_equal(err->codec, "png");
        }
        assert_int_equal(n, 4);
    }
}

static void without_callback_the_first_finding_ends_it(void **state)
{
    struct pst_verify_report report;
    make_packed(state, 80, 4096);
    flip(state, 3);
    flip(state, 70);
    assert_int_equal(verify(state, "a.pst", 2, false, NULL, &report), PST_ERROR_CHECKSUM);
    assert_int_equal(report.n_bad, 1);
    struct findings findings = {.stop_after = 2};
    assert_int_equal(verify(state, "a.pst", 2, false, &findings, &report), PST_ERROR_CHECKSUM);
    assert_int_equal(findings.n, 2);
}

static void a_shard_that_is_gone_or_short(void **state)
{
    struct pst_error err;
    struct pst_verify_report report;
    struct findings findings = {0};
    char path[4096];
    make_packed(state, 60, 4096);
    pst_dataset *dataset = folder_open(state, "a.pst", NULL);
    assert_true(pst_dataset_n_files(dataset) > 3);
    assert_ok(pst_dataset_file_path(dataset, 1, path, sizeof path, &err));
    pst_dataset_close(&dataset);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_not_equal(verify(state, "a.pst", 2, false, &findings, &report), PST_OK);
    assert_true(findings.n > 1);
    /* one finding for the shard, then one for each of its samples */
    assert_string_equal(findings.names[0], "");
    for (unsigned i = 0; i < findings.n; i++)
        assert_non_null(strstr(findings.errors[i].file, strrchr(path, '/')));
    assert_int_equal(report.n_samples, 60);
    assert_int_equal(unlink(path), 0);
    findings = (struct findings){0};
    assert_int_not_equal(verify(state, "a.pst", 2, false, &findings, &report), PST_OK);
    assert_true(findings.n > 1);
}

static void pixels_that_differ_behind_good_bytes(void **state)
{
    /* The writer was given a wrong pixel checksum: the stored bytes are right, but the pixels do
     * not match it. */
    static char png[8192];
    struct pst_error err;
    struct pst_verify_report report;
    char to[4096];
    make_png(state, "x/x.png", 8, 8, 3, 1);
    FILE *file = fopen(folder_path(state, "x/x.png"), "rb");
    size_t n = fread(png, 1, sizeof png, file);
    fclose(file);
    struct pst_field field = {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1};
    struct pst_value value = {.bytes = png,
                              .nbytes = n,
                              .form = PST_FORM_PNG,
                              .has_pixel_checksum = true,
                              .pixel_checksum = 5};
    const struct pst_value *values[] = {&value};
    struct pst_sample sample = {.struct_size = sizeof(struct pst_sample),
                                .value_nbytes = sizeof(struct pst_value),
                                .name = "x",
                                .values = values};
    pst_writer *writer = NULL;
    snprintf(to, sizeof to, "%s", folder_path(state, "a.pst"));
    assert_ok(pst_writer_open(to, &field, 1, NULL, &writer, &err));
    assert_ok(pst_writer_add(writer, &sample, &err));
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    struct findings findings = {0};
    assert_int_equal(verify(state, "a.pst", 1, false, &findings, &report), PST_OK);
    assert_int_equal(verify(state, "a.pst", 1, true, &findings, &report), PST_ERROR_CHECKSUM);
    assert_string_equal(findings.names[0], "x");
    assert_non_null(strstr(findings.errors[0].text, "pixels"));
}

static void folders_are_decoded(void **state)
{
    struct pst_verify_report report;
    struct findings findings = {0};
    make_folder(state, "f", 6);
    folder_text(state, "f/a/00.png", "");
    folder_text(state, "f/b/01.png", "nonsense");
    assert_int_not_equal(verify(state, "f", 2, false, &findings, &report), PST_OK);
    assert_int_equal(findings.n, 2);
    assert_string_equal(findings.names[0], "a/00.png");
    assert_string_equal(findings.names[1], "b/01.png");
    assert_non_null(strstr(findings.errors[1].file, "f/b/01.png"));
    assert_int_equal(report.n_bad, 2);
    findings = (struct findings){0};
    assert_int_equal(verify(state, "nowhere", 2, false, &findings, &report), PST_ERROR_NOT_FOUND);
    assert_int_equal(findings.n, 1);
}

static enum pst_status verify_part(void **state, const char *relative, uint32_t part, uint32_t n,
                                   struct findings *findings, struct pst_verify_report *report)
{
    struct pst_error err;
    struct pst_verify_options options = {.struct_size = sizeof options,
                                         .num_workers = 1 + part % 3,
                                         .bad_sample = on_finding,
                                         .ctx = findings,
                                         .part = part,
                                         .n_parts = n};
    pst_error_clear(&err);
    return pst_verify(folder_path(state, relative), &options, report, sizeof *report, &err);
}

/* All parts together read and find what one process does, whatever their number. */
static void parts_check_everything_once(void **state)
{
    static const uint32_t counts[] = {1, 2, 3, 7, 100};
    static const char *const sets[] = {"a.pst", "f"};
    make_packed(state, 80, 4096);
    flip(state, 3);
    flip(state, 40);
    folder_text(state, "f/a/00.png", "nonsense");
    for (unsigned s = 0; s < 2; s++) {
        struct pst_verify_report whole, part;
        struct findings expected = {0};
        assert_int_not_equal(verify(state, sets[s], 2, false, &expected, &whole), PST_OK);
        for (unsigned k = 0; k < 5; k++) {
            struct pst_verify_report sum = {0};
            struct findings findings = {0};
            uint8_t identity[PST_IDENTITY_NBYTES];
            for (uint32_t i = 1; i <= counts[k]; i++) {
                unsigned n_before = findings.n;
                enum pst_status status =
                    verify_part(state, sets[s], i, counts[k], &findings, &part);
                assert_int_equal(status == PST_OK, findings.n == n_before);
                assert_int_equal(part.n_samples_total, 80);
                assert_true(i == 1 || memcmp(identity, part.identity, sizeof identity) == 0);
                memcpy(identity, part.identity, sizeof identity);
                sum.n_samples += part.n_samples;
                sum.n_items += part.n_items;
                sum.nbytes += part.nbytes;
                sum.n_bad += part.n_bad;
            }
            assert_int_equal(sum.n_samples, whole.n_samples);
            assert_int_equal(sum.n_items, whole.n_items);
            assert_int_equal(sum.nbytes, whole.nbytes);
            assert_int_equal(sum.n_bad, whole.n_bad);
            assert_int_equal(findings.n, expected.n);
            for (unsigned i = 0; i < expected.n; i++) {
                unsigned n_alike = 0;
                for (unsigned m = 0; m < findings.n; m++)
                    n_alike += strcmp(expected.names[i], findings.names[m]) == 0 &&
                               strcmp(expected.errors[i].text, findings.errors[m].text) == 0;
                assert_int_equal(n_alike, 1);
            }
        }
    }
}

/* One part has the largest item that the index states, and the other parts report that they have
 * not. */
static void parts_find_the_largest_item(void **state)
{
    struct findings findings = {0};
    struct pst_verify_report part;
    uint64_t items = UINT64_MAX, pixels = UINT64_MAX, any = 0;
    make_packed(state, 80, 4096);
    for (uint32_t i = 1; i <= 7; i++) {
        assert_int_equal(verify_part(state, "a.pst", i, 7, &findings, &part), PST_OK);
        items &= part.unreached_items;
        pixels &= part.unreached_pixels;
        any |= part.unreached_items | part.unreached_pixels;
    }
    assert_int_equal(items | pixels, 0);
    assert_int_not_equal(any, 0);
}

static void impossible_parts_are_refused(void **state)
{
    struct findings findings = {0};
    struct pst_verify_report report;
    make_packed(state, 4, 4096);
    assert_int_equal(verify_part(state, "a.pst", 3, 2, &findings, &report), PST_ERROR_ARGUMENT);
    assert_int_equal(verify_part(state, "a.pst", 0, 2, &findings, &report), PST_ERROR_ARGUMENT);
    assert_int_equal(verify_part(state, "a.pst", 1, 0, &findings, &report), PST_ERROR_ARGUMENT);
}

static int cancel(void *ctx, const struct pst_progress *progress)
{
    (void)ctx;
    (void)progress;
    return 1;
}

static void can_be_cancelled(void **state)
{
    struct pst_error err;
    struct pst_verify_options options = {.struct_size = sizeof options, .progress = cancel};
    make_packed(state, 10, 0);
    assert_int_equal(pst_verify(folder_path(state, "a.pst"), &options, NULL, 0, &err),
                     PST_ERROR_CANCELLED);
}

/* If the caller cancels the listing of a folder, there is no finding. */
static void opening_can_be_cancelled(void **state)
{
    struct pst_error err;
    struct findings findings = {0};
    struct pst_verify_report report;
    const struct pst_dataset_options source = {.struct_size = sizeof source, .progress = cancel};
    struct pst_verify_options options = {.struct_size = sizeof options,
                                         .source = &source,
                                         .bad_sample = on_finding,
                                         .ctx = &findings};
    make_folder(state, "f", 3);
    assert_int_equal(pst_verify(folder_path(state, "f"), &options, &report, sizeof report, &err),
                     PST_ERROR_CANCELLED);
    assert_int_equal(findings.n, 0);
    assert_int_equal(report.n_bad, 0);
    assert_non_null(strstr(err.text, "cancelled"));
}

static void which_webp_is_lossless(void **state)
{
    static const char lossless[] = "RIFF\x10\0\0\0WEBPVP8L\x04\0\0\0abcd",
                      lossy[] = "RIFF\x10\0\0\0WEBPVP8 \x04\0\0\0abcd";
    static const char extended[] = "RIFF\x1C\0\0\0WEBPVP8X\x03\0\0\0abc\0VP8L\x04\0\0\0abcd";
    static const char cut[] = "RIFF\x20\0\0\0WEBPVP8X\xF0\xFF\xFF\xFF";
    (void)state;
    assert_true(psti_verify_is_lossless(PST_FORM_WEBP, lossless, sizeof lossless - 1));
    assert_false(psti_verify_is_lossless(PST_FORM_WEBP, lossy, sizeof lossy - 1));
    assert_true(psti_verify_is_lossless(PST_FORM_WEBP, extended, sizeof extended - 1));
    assert_false(psti_verify_is_lossless(PST_FORM_WEBP, cut, sizeof cut - 1));
    assert_false(psti_verify_is_lossless(PST_FORM_WEBP, "", 0));
    assert_true(psti_verify_is_lossless(PST_FORM_PNG, "", 0));
    assert_false(psti_verify_is_lossless(PST_FORM_JPEG, "", 0));
}

#ifdef PST_FAULTS
static void every_failure_is_clean(void **state)
{
    static const enum psti_fault_kind kinds[] = {PSTI_FAULT_ALLOC, PSTI_FAULT_THREAD,
                                                 PSTI_FAULT_READ};
    struct pst_memory_stats before, after;
    make_packed(state, 8, 0);
    pst_memory_stats(&before, sizeof before);
    for (unsigned k = 0; k < 3; k++) {
        enum pst_status status = PST_ERROR_MEMORY;
        for (uint64_t n = 1; status != PST_OK; n += 1 + n / 16) {
            struct pst_error err;
            struct pst_verify_options options = {
                .struct_size = sizeof options, .decode = true, .num_workers = 2};
            pst_error_clear(&err);
            psti_fault_arm(kinds[k], n, false);
            status = pst_verify(folder_path(state, "a.pst"), &options, NULL, 0, &err);
            psti_fault_arm(kinds[k], 0, false);
            assert_int_equal(err.status, status);
            pst_memory_stats(&after, sizeof after);
            assert_int_equal(after.live_nbytes, before.live_nbytes);
            assert_true(n < 100000);
        }
    }
}
#endif

#define T(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(whole_data_sets_have_no_findings),
        T(all_bad_items_are_found_in_order),
        T(without_callback_the_first_finding_ends_it),
        T(a_shard_that_is_gone_or_short),
        T(pixels_that_differ_behind_good_bytes),
        T(folders_are_decoded),
        T(parts_check_everything_once),
        T(parts_find_the_largest_item),
        T(impossible_parts_are_refused),
        T(can_be_cancelled),
        T(opening_can_be_cancelled),
        cmocka_unit_test(which_webp_is_lossless),
#ifdef PST_FAULTS
        T(every_failure_is_clean),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
