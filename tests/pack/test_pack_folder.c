/* test_pack_folder.c - pst_pack: order, forms, checksums, bad samples, cancel and resume, append,
 * failures. */
#include "folder_pack.h"

#include "base/fault.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct pst_writer_options resuming = {.struct_size = sizeof resuming,
                                                   .mode = PST_WRITER_RESUME};
static const struct pst_writer_options appending = {.struct_size = sizeof appending,
                                                    .mode = PST_WRITER_APPEND};

static enum pst_status pack(void **state, const char *source, const char *destination,
                            const struct pst_pack_options *options, struct pst_pack_report *report,
                            struct pst_error *err)
{
    struct pst_pack_options filled = options == NULL ? (struct pst_pack_options){0} : *options;
    char from[4096], to[4096];
    filled.struct_size = sizeof filled;
    snprintf(from, sizeof from, "%s", folder_path(state, source));
    snprintf(to, sizeof to, "%s", folder_path(state, destination));
    pst_error_clear(err);
    return pst_pack(from, to, &filled, report, sizeof *report, err);
}

static void read_whole(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                       uint32_t variant, struct pst_item *item, uint8_t *bytes, size_t capacity)
{
    struct pst_error err;
    assert_ok(pst_dataset_item(dataset, sample, i_field, variant, item, sizeof *item, &err));
    assert_true(item->nbytes <= capacity);
    assert_ok(pst_dataset_read(dataset, sample, i_field, variant, 0, item->nbytes, bytes, &err));
}

/* Asserts that samples, names, items, labels and bytes are the same. */
static void assert_same(const pst_dataset *a, const pst_dataset *b)
{
    static uint8_t bytes_a[65536], bytes_b[65536];
    struct pst_item item_a, item_b;
    struct pst_error err;
    assert_int_equal(pst_dataset_count(a), pst_dataset_count(b));
    assert_int_equal(pst_dataset_n_fields(a), pst_dataset_n_fields(b));
    for (uint64_t i = 0; i < pst_dataset_count(a); i++) {
        int64_t label_a, label_b;
        assert_string_equal(folder_sample_name(a, i), folder_sample_name(b, i));
        for (uint32_t v = 0; v < pst_dataset_field(a, 0)->n_variants; v++) {
            read_whole(a, i, 0, v, &item_a, bytes_a, sizeof bytes_a);
            read_whole(b, i, 0, v, &item_b, bytes_b, sizeof bytes_b);
            assert_int_equal(item_a.nbytes, item_b.nbytes);
            assert_memory_equal(bytes_a, bytes_b, item_a.nbytes);
            assert_int_equal(item_a.form, item_b.form);
            assert_true(item_a.pixel_checksum == item_b.pixel_checksum);
        }
        if (pst_dataset_n_fields(a) == 1)
            continue;
        assert_ok(pst_dataset_int(a, i, 1, &label_a, &err));
        assert_ok(pst_dataset_int(b, i, 1, &label_b, &err));
        assert_int_equal(label_a, label_b);
    }
}

static void order_and_bytes_for_any_number_of_workers(void **state)
{
    static uint8_t bytes[65536], original[65536];
    static const enum pst_form forms[] = {PST_FORM_NONE, PST_FORM_RAW};
    static const uint32_t workers[] = {1, 2, 7};
    struct pst_error err;
    struct pst_item item, raw;
    char name[32];
    make_folder(state, "f", 50);
    pst_dataset *folder = folder_open(state, "f", NULL), *packed[3];
    for (unsigned w = 0; w < 3; w++) {
        struct pst_pack_report report;
        struct pst_pack_options options = {.forms = forms, .n_forms = 2, .num_workers = workers[w]};
        snprintf(name, sizeof name, "%u.pst", workers[w]);
        assert_ok(pack(state, "f", name, &options, &report, &err));
        assert_int_equal(report.n_samples, 50);
        assert_int_equal(report.n_bad + report.n_resumed, 0);
        packed[w] = folder_open(state, name, NULL);
        assert_same(packed[0], packed[w]);
    }
    assert_int_equal(pst_dataset_count(packed[0]), 50);
    for (uint64_t i = 0; i < 50; i++) {
        unsigned seed = (unsigned)atoi(folder_sample_name(folder, i) + 2);
        assert_string_equal(folder_sample_name(packed[0], i), folder_sample_name(folder, i));
        read_whole(packed[0], i, 0, 0, &item, bytes, sizeof bytes);
        struct pst_item file;
        read_whole(folder, i, 0, 0, &file, original, sizeof original);
        assert_int_equal(item.nbytes, file.nbytes);
        assert_memory_equal(bytes, original, item.nbytes);
        assert_int_equal(item.form, PST_FORM_PNG);
        read_whole(packed[0], i, 0, 1, &raw, bytes, sizeof bytes);
        assert_int_equal(raw.form, PST_FORM_RAW);
        assert_int_equal(raw.width, 16 + seed);
        assert_int_equal(raw.height, 12 + seed % 5);
        assert_int_equal(raw.channels, seed % 2 == 0 ? 3 : 1);
        assert_int_equal(raw.nbytes, raw.width * raw.height * raw.channels);
        for (uint32_t k = 0; k < raw.nbytes; k++)
            assert_int_equal(bytes[k], made_pixel(k, seed));
        /* PNG and raw have the same pixels, so their pixel checksums are equal. */
        assert_true(item.has_pixel_checksum && raw.has_pixel_checksum);
        assert_true(item.pixel_checksum == raw.pixel_checksum);
        assert_true(raw.pixel_checksum == psti_hash64(bytes, raw.nbytes));
    }
    assert_string_equal(pst_dataset_class_name(packed[0], 1, 2), "c");
    for (unsigned w = 0; w < 3; w++)
        pst_dataset_close(&packed[w]);
    pst_dataset_close(&folder);
}

struct watch {
    uint64_t n_calls, stop_at, n_bad;
    uint64_t last_done;
    char bad[8][64];
    enum pst_status statuses[8];
    int verdict; /* the callback's answer for bad samples */
};

static int on_progress(void *ctx, const struct pst_progress *progress)
{
    struct watch *watch = ctx;
    watch->n_calls++;
    assert_true(progress->n_done >= watch->last_done && progress->n_done <= progress->n_total);
    watch->last_done = progress->n_done;
    return watch->stop_at != 0 && watch->n_calls >= watch->stop_at;
}

static int on_bad(void *ctx, const char *name, const struct pst_error *err)
{
    struct watch *watch = ctx;
    assert_true(watch->n_bad < 8);
    assert_non_null(strstr(err->file, name));
    assert_true(err->sample >= 0);
    assert_true(err->dataset[0] != '\0');
    watch->statuses[watch->n_bad] = err->status;
    snprintf(watch->bad[watch->n_bad++], sizeof watch->bad[0], "%s", name);
    return watch->verdict;
}

static int on_bad_until_third(void *ctx, const char *name, const struct pst_error *err)
{
    return on_bad(ctx, name, err) != 0 || ((struct watch *)ctx)->n_bad == 3;
}

static void bad_samples_by_policy(void **state)
{
    struct pst_error err;
    struct pst_pack_report report;
    uint8_t png[65536];
    make_folder(state, "f", 9);
    FILE *file = fopen(folder_path(state, "f/a/00.png"), "rb");
    size_t n = fread(png, 1, sizeof png, file);
    fclose(file);
    folder_text(state, "f/a/03.png", "");
    folder_text(state, "f/b/01.png", "this is no image at all");
    folder_file(state, "f/c/05.png", png, n / 2);
    /* Without a callback the first bad sample ends the pack, with an error that names it. */
    enum pst_status status = pack(state, "f", "stop.pst", NULL, &report, &err);
    assert_int_not_equal(status, PST_OK);
    assert_non_null(strstr(err.file, "f/a/03.png"));
    assert_int_equal(err.sample, 1);
    /* A callback that ends the pack. */
    struct watch watch = {.verdict = 1};
    struct pst_pack_options options = {.bad_sample = on_bad, .ctx = &watch};
    assert_int_equal(pack(state, "f", "stop2.pst", &options, &report, &err), status);
    assert_int_equal(watch.n_bad, 1);
    /* A callback that lets the pack go on. */
    watch = (struct watch){0};
    assert_ok(pack(state, "f", "skip.pst", &options, &report, &err));
    assert_int_equal(report.n_bad, 3);
    assert_int_equal(report.n_samples, 6);
    assert_string_equal(watch.bad[0], "a/03.png");
    assert_string_equal(watch.bad[1], "b/01.png");
    assert_string_equal(watch.bad[2], "c/05.png");
    assert_int_equal(watch.statuses[2], PST_ERROR_TRUNCATED);
    pst_dataset *dataset = folder_open(state, "skip.pst", NULL);
    assert_int_equal(pst_dataset_count(dataset), 6);
    pst_dataset_close(&dataset);
}

static void cancelled_then_resumed(void **state)
{
    static const enum pst_form forms[] = {PST_FORM_RAW};
    struct pst_error err;
    struct pst_pack_report report;
    make_folder(state, "f", 40);
    struct pst_pack_options options = {.forms = forms, .n_forms = 1, .num_workers = 2};
    assert_ok(pack(state, "f", "whole.pst", &options, &report, &err));
    /* The first progress call comes before any sample, because a signal may arrive then. */
    struct watch watch = {.stop_at = 1};
    options.progress = on_progress;
    options.ctx = &watch;
    assert_int_equal(pack(state, "f", "a.pst", &options, &report, &err), PST_ERROR_CANCELLED);
    /* A bad sample in the middle ends the pack; the samples before it are kept. */
    watch = (struct watch){0};
    char saved[8192];
    FILE *file = fopen(folder_path(state, "f/b/19.png"), "rb");
    size_t n = fread(saved, 1, sizeof saved, file);
    fclose(file);
    folder_text(state, "f/b/19.png", "broken");
    options.writer = &resuming;
    assert_int_not_equal(pack(state, "f", "a.pst", &options, &report, &err), PST_OK);
    assert_true(report.n_samples > 0);
    folder_file(state, "f/b/19.png", saved, n);
    uint64_t before = report.n_samples;
    watch = (struct watch){0};
    assert_ok(pack(state, "f", "a.pst", &options, &report, &err));
    assert_int_equal(report.n_resumed, before);
    assert_int_equal(report.n_samples, 40);
    pst_dataset *whole = folder_open(state, "whole.pst", NULL),
                *resumed = folder_open(state, "a.pst", NULL);
    assert_same(whole, resumed);
    pst_dataset_close(&whole);
    pst_dataset_close(&resumed);
}

static void remove_dataset(void **state, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/shard-000000.pst", name);
    assert_int_equal(unlink(folder_path(state, path)), 0);
    snprintf(path, sizeof path, "%s/index.pst", name);
    assert_int_equal(unlink(folder_path(state, path)), 0);
    assert_int_equal(rmdir(folder_path(state, name)), 0);
}

/* Starts a pack of f into a.pst that stops at the 20th of 40 samples. */
static void interrupt(void **state, const struct pst_pack_options *given)
{
    struct pst_error err;
    struct pst_pack_report report;
    struct pst_pack_options options = *given;
    uint8_t saved[8192];
    FILE *file = fopen(folder_path(state, "f/b/19.png"), "rb");
    size_t n = fread(saved, 1, sizeof saved, file);
    fclose(file);
    folder_text(state, "f/b/19.png", "broken");
    options.bad_sample = NULL;
    assert_int_not_equal(pack(state, "f", "a.pst", &options, &report, &err), PST_OK);
    assert_int_equal(report.n_samples, 20);
    folder_file(state, "f/b/19.png", saved, n);
}

/* Checks that resuming is refused with a text that contains `says`, and that stored bytes do not
 * change. */
static void assert_refused(void **state, const struct pst_pack_options *given, const char *says)
{
    struct pst_error err;
    struct pst_pack_options options = *given;
    options.writer = &resuming;
    assert_int_equal(pack(state, "f", "a.pst", &options, NULL, &err), PST_ERROR_ARGUMENT);
    if (strstr(err.text, says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    assert_non_null(strstr(err.dataset, "f"));
}

static void resume_refuses_other_forms(void **state)
{
    static const enum pst_form original[] = {PST_FORM_NONE}, raw[] = {PST_FORM_RAW},
                               both[] = {PST_FORM_NONE, PST_FORM_RAW},
                               turned[] = {PST_FORM_RAW, PST_FORM_NONE};
    struct pst_error err;
    make_folder(state, "f", 40);
    const struct pst_pack_options as_original = {.forms = original, .n_forms = 1},
                                  as_raw = {.forms = raw, .n_forms = 1},
                                  as_both = {.forms = both, .n_forms = 2},
                                  as_turned = {.forms = turned, .n_forms = 2};
    interrupt(state, &as_original);
    assert_refused(state, &as_raw, "as png, raw is asked for");
    assert_refused(state, &as_both, "1 forms on disk, 2 are asked for");
    struct pst_pack_options again = as_original;
    again.writer = &resuming;
    assert_ok(pack(state, "f", "a.pst", &again, NULL, &err));
    /* The data set is finished: resuming appends to it, in its own forms. */
    assert_refused(state, &as_raw, "as png, raw is asked for");
    remove_dataset(state, "a.pst");
    interrupt(state, &as_both);
    assert_refused(state, &as_turned, "as png, raw is asked for");
    again = as_both;
    again.writer = &resuming;
    assert_ok(pack(state, "f", "a.pst", &again, NULL, &err));
}

static void resume_refuses_a_changed_source(void **state)
{
    struct pst_error err;
    struct pst_pack_report report;
    const struct pst_pack_options plain = {.num_workers = 2};
    char saved[4096], path[4096];
    make_folder(state, "f", 40);
    interrupt(state, &plain);
    snprintf(saved, sizeof saved, "%s", folder_path(state, "saved"));
    snprintf(path, sizeof path, "%s", folder_path(state, "f/a/06.png"));
    /* A source file is removed. */
    assert_int_equal(rename(path, saved), 0);
    assert_refused(state, &plain, "a/06.png");
    /* A source file is replaced. */
    make_png(state, "f/a/06.png", 30, 31, 3, 99);
    assert_refused(state, &plain, "a/06.png");
    assert_int_equal(rename(saved, path), 0);
    /* A new file stands among those that were packed. */
    make_png(state, "f/a/06b.png", 9, 9, 3, 1);
    assert_refused(state, &plain, "a/06b.png");
    assert_int_equal(unlink(folder_path(state, "f/a/06b.png")), 0);
    /* A new class changes the names and the number of classes. */
    make_png(state, "f/d/new.png", 9, 9, 3, 1);
    assert_refused(state, &plain, "fields differ");
    assert_int_equal(unlink(folder_path(state, "f/d/new.png")), 0);
    assert_int_equal(rmdir(folder_path(state, "f/d")), 0);
    /* Everything is as before, with one more file behind the packed ones. */
    make_png(state, "f/c/99.png", 9, 9, 3, 1);
    struct pst_pack_options again = plain;
    again.writer = &resuming;
    assert_ok(pack(state, "f", "a.pst", &again, &report, &err));
    assert_int_equal(report.n_resumed, 20);
    assert_int_equal(report.n_samples, 41);
}

static void resume_refuses_other_labels(void **state)
{
    struct pst_error err;
    struct pst_pack_report report;
    char labels[4096], text[2048] = "file,label\n", other[2048] = "file,label\n",
                       renamed[2048] = "file,label\n";
    for (unsigned i = 0; i < 40; i++) {
        char name[64];
        snprintf(name, sizeof name, "f/%02u.png", i);
        make_png(state, name, 8 + i, 9, 3, i);
        snprintf(text + strlen(text), 32, "%02u.png,%s\n", i, i % 2 ? "x" : "y");
        snprintf(other + strlen(other), 32, "%02u.png,%s\n", i, (i == 3) ^ (i % 2) ? "x" : "y");
        snprintf(renamed + strlen(renamed), 32, "%02u.png,%s\n", i, i % 2 ? "x" : "z");
    }
    uint8_t saved[8192];
    FILE *file = fopen(folder_path(state, "f/19.png"), "rb");
    size_t n = fread(saved, 1, sizeof saved, file);
    fclose(file);
    snprintf(labels, sizeof labels, "%s", folder_text(state, "l.csv", text));
    const struct pst_dataset_options source = {.struct_size = sizeof source, .labels = labels};
    struct pst_pack_options options = {.source = &source};
    folder_text(state, "f/19.png", "broken");
    assert_int_not_equal(pack(state, "f", "a.pst", &options, &report, &err), PST_OK);
    assert_int_equal(report.n_samples, 19);
    folder_file(state, "f/19.png", saved, n);
    folder_text(state, "l.csv", other);
    assert_refused(state, &options, "\"03.png\" was packed with another value of field label");
    folder_text(state, "l.csv", renamed);
    assert_refused(state, &options, "\"y\"");
    folder_text(state, "l.csv", text);
    options.writer = &resuming;
    assert_ok(pack(state, "f", "a.pst", &options, &report, &err));
    assert_int_equal(report.n_samples, 40);
}

/* Bad samples that were skipped do not prevent resuming, and are reported again. */
static void resume_passes_what_was_skipped(void **state)
{
    struct pst_error err;
    struct pst_pack_report report;
    struct watch watch = {0};
    struct pst_pack_options options = {.bad_sample = on_bad, .ctx = &watch};
    make_folder(state, "f", 9);
    folder_text(state, "f/a/03.png", "");
    folder_text(state, "f/c/05.png", "broken");
    folder_text(state, "f/c/08.png", "broken");
    /* This pack stops at its last bad sample. */
    struct pst_pack_options first = options;
    struct watch until = {0};
    first.ctx = &until;
    first.bad_sample = on_bad_until_third;
    assert_int_not_equal(pack(state, "f", "a.pst", &first, &report, &err), PST_OK);
    assert_int_equal(report.n_samples, 6);
    options.writer = &resuming;
    assert_ok(pack(state, "f", "a.pst", &options, &report, &err));
    assert_int_equal(report.n_bad, 3);
    assert_int_equal(report.n_resumed, 6);
}

/* A data set without a sample is removed. The next pack begins as if it had never existed. */
static void nothing_is_left_of_a_pack_without_samples(void **state)
{
    struct pst_error err;
    make_folder(state, "f", 4);
    folder_text(state, "f/a/00.png", "broken");
    assert_int_not_equal(pack(state, "f", "a.pst", NULL, NULL, &err), PST_OK);
    assert_int_equal(access(folder_path(state, "a.pst"), F_OK), -1);
    /* A directory that existed before stays, empty. */
    assert_int_equal(mkdir(folder_path(state, "b.pst"), 0700), 0);
    assert_int_not_equal(pack(state, "f", "b.pst", NULL, NULL, &err), PST_OK);
    assert_int_equal(rmdir(folder_path(state, "b.pst")), 0);
    make_png(state, "f/a/00.png", 8, 8, 3, 1);
    assert_ok(pack(state, "f", "a.pst", NULL, NULL, &err));
}

static void forms_that_cannot_be(void **state)
{
    static const enum pst_form jpeg[] = {PST_FORM_JPEG}, twice[] = {PST_FORM_RAW, PST_FORM_RAW},
                               bytes[] = {PST_FORM_BYTES};
    struct pst_error err;
    struct pst_pack_options options = {.forms = jpeg, .n_forms = 1};
    make_folder(state, "f", 2);
    assert_int_equal(pack(state, "f", "a.pst", &options, NULL, &err), PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "png"));
    assert_non_null(strstr(err.text, "jpeg"));
    options.forms = twice;
    options.n_forms = 2;
    assert_int_equal(pack(state, "f", "b.pst", &options, NULL, &err), PST_ERROR_ARGUMENT);
    options.forms = bytes;
    options.n_forms = 1;
    assert_int_equal(pack(state, "f", "b.pst", &options, NULL, &err), PST_ERROR_ARGUMENT);
    options.forms = NULL;
    assert_int_equal(pack(state, "f", "b.pst", &options, NULL, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(access(folder_path(state, "b.pst"), F_OK), -1);
}

static void appended_labels_follow_names(void **state)
{
    struct pst_error err;
    struct pst_pack_report report;
    int64_t label;
    make_folder(state, "f", 6);
    make_png(state, "g/c/new.png", 5, 5, 3, 1);
    make_png(state, "g/b/new.png", 5, 5, 3, 2);
    assert_ok(pack(state, "f", "a.pst", NULL, &report, &err));
    struct pst_pack_options options = {.writer = &appending};
    assert_ok(pack(state, "g", "a.pst", &options, &report, &err));
    assert_int_equal(report.n_samples, 2);
    pst_dataset *dataset = folder_open(state, "a.pst", NULL);
    assert_int_equal(pst_dataset_count(dataset), 8);
    for (uint64_t i = 6; i < 8; i++) {
        assert_ok(pst_dataset_int(dataset, i, 1, &label, &err));
        assert_string_equal(pst_dataset_class_name(dataset, 1, label), i == 6 ? "b" : "c");
        assert_int_equal(label, i == 6 ? 1 : 2);
    }
    pst_dataset_close(&dataset);
    /* Resuming an append compares the names too, and skips the stored samples. */
    make_png(state, "g/c/newer.png", 5, 5, 3, 3);
    options.writer = &resuming;
    assert_ok(pack(state, "g", "a.pst", &options, &report, &err));
    assert_int_equal(report.n_resumed, 2);
    assert_int_equal(report.n_samples, 3);
    dataset = folder_open(state, "a.pst", NULL);
    assert_int_equal(pst_dataset_count(dataset), 9);
    assert_ok(pst_dataset_int(dataset, 8, 1, &label, &err));
    assert_int_equal(label, 2);
    assert_string_equal(pst_dataset_class_name(dataset, 1, 0), "a");
    pst_dataset_close(&dataset);
    options.writer = &appending;
    /* The same append again fails, because the names are taken. */
    assert_int_equal(pack(state, "g", "a.pst", &options, &report, &err), PST_ERROR_EXISTS);
    assert_non_null(strstr(err.file, "g/b/new.png"));
}

static void every_kind_of_field(void **state)
{
    static uint8_t bytes[4096];
    struct pst_error err;
    struct pst_item item;
    double number;
    make_png(state, "f/x.png", 8, 8, 3, 1);
    make_png(state, "f/y.png", 9, 8, 3, 2);
    make_png(state, "f/m/x.png", 8, 8, 1, 3);
    make_png(state, "f/m/y.png", 9, 8, 1, 4);
    char labels[4096];
    snprintf(
        labels, sizeof labels, "%s",
        folder_text(
            state, "l.jsonl",
            "{\"file\": \"y.png\", \"label\": \"z\", \"note\": \"n\\u00fc\", \"s\": 0.25, "
            "\"boxes\": [[1,2,3,4]], "
            "\"keypoints\": [], \"mask\": \"m/y.png\", \"j\": {\"a\": 1}}\n"
            "{\"file\": \"x.png\", \"label\": \"k\", \"note\": \"\", \"s\": -1, \"boxes\": [], "
            "\"keypoints\": [[5,6,1]], \"mask\": \"m/x.png\", \"j\": []}\n"));
    const struct pst_dataset_options source = {.struct_size = sizeof source, .labels = labels};
    struct pst_pack_options options = {.source = &source};
    assert_ok(pack(state, "f", "a.pst", &options, NULL, &err));
    pst_dataset *dataset = folder_open(state, "a.pst", NULL);
#define FIELD(name) ((uint32_t)pst_dataset_find_field(dataset, name))
    assert_ok(pst_dataset_float(dataset, 0, FIELD("s"), &number, &err));
    assert_true(number == -1);
    read_whole(dataset, 1, FIELD("note"), 0, &item, bytes, sizeof bytes);
    assert_int_equal(item.nbytes, 3);
    assert_memory_equal(bytes, "n\xC3\xBC", 3);
    read_whole(dataset, 1, FIELD("boxes"), 0, &item, bytes, sizeof bytes);
    assert_memory_equal(bytes, ((float[]){1, 2, 3, 4}), 16);
    read_whole(dataset, 0, FIELD("boxes"), 0, &item, bytes, sizeof bytes);
    assert_int_equal(item.nbytes, 0);
    read_whole(dataset, 0, FIELD("keypoints"), 0, &item, bytes, sizeof bytes);
    assert_memory_equal(bytes, ((float[]){5, 6, 1}), 12);
    read_whole(dataset, 1, FIELD("j"), 0, &item, bytes, sizeof bytes);
    assert_memory_equal(bytes, "{\"a\": 1}", 8);
    read_whole(dataset, 0, FIELD("mask"), 0, &item, bytes, sizeof bytes);
    assert_int_equal(item.form, PST_FORM_PNG);
    assert_true(item.has_pixel_checksum);
    assert_ok(pst_dataset_item(dataset, 1, FIELD("mask"), 0, &item, sizeof item, &err));
    assert_int_equal(item.width, 9);
    pst_dataset_close(&dataset);
    struct pst_verify_report report;
    struct pst_verify_options verify = {.struct_size = sizeof verify, .decode = true};
    assert_ok(pst_verify(folder_path(state, "a.pst"), &verify, &report, sizeof report, &err));
    assert_int_equal(report.n_samples, 2);
    assert_int_equal(report.n_items, 2 + 2 + 2 * 4);
}

#ifdef PST_FAULTS
/* A report after a full disk counts the committed samples. Resuming finds at least that many. */
static void the_report_counts_what_is_kept(void **state)
{
    const struct pst_writer_options often = {.struct_size = sizeof often, .commit_nbytes = 1000},
                                    on = {.struct_size = sizeof on,
                                          .mode = PST_WRITER_RESUME,
                                          .commit_nbytes = 1000};
    const struct pst_pack_options plain = {.num_workers = 1, .writer = &often};
    bool saw_less = false, done = false;
    make_folder(state, "f", 12);
    for (unsigned n = 1; !done; n++) {
        struct pst_pack_options again = plain;
        struct pst_pack_report report = {0}, resumed = {0};
        struct pst_error err;
        char name[40];
        snprintf(name, sizeof name, "set%u", n);
        again.writer = &on;
        psti_fault_arm(PSTI_FAULT_WRITE, n, true);
        done = pack(state, "f", name, &plain, &report, &err) == PST_OK;
        psti_fault_arm(PSTI_FAULT_WRITE, 0, false);
        if (done)
            break;
        assert_true(err.status == PST_ERROR_NO_SPACE || err.status == PST_ERROR_IO);
        assert_ok(pack(state, "f", name, &again, &resumed, &err));
        assert_int_equal(resumed.n_samples, 12);
        /* A commit whose last sync failed may be on the disk, too. */
        assert_true(resumed.n_resumed >= report.n_samples);
        saw_less = saw_less || (report.n_samples > 0 && report.n_samples < 12);
        assert_true(report.n_samples > 0 || report.nbytes_out == 0);
    }
    assert_true(saw_less);
}

/* Lets the n-th operation of a kind fail, n = 1, 2, ... until the pack succeeds. Each failure gives
 * a clean error, no leak, and a destination that is absent, resumable or complete. */
static void every_failure_is_clean(void **state)
{
    static const enum psti_fault_kind kinds[] = {PSTI_FAULT_ALLOC, PSTI_FAULT_THREAD,
                                                 PSTI_FAULT_READ, PSTI_FAULT_WRITE};
    static const enum pst_form forms[] = {PST_FORM_NONE, PST_FORM_RAW, PST_FORM_PLI};
    struct pst_memory_stats before, after;
    char name[32];
    make_folder(state, "f", 5);
    pst_memory_stats(&before, sizeof before);
    for (unsigned k = 0; k < 4; k++) {
        /* n grows in larger steps later on, because most cases differ at the beginning. */
        enum pst_status status = PST_ERROR_MEMORY;
        for (uint64_t n = 1; status != PST_OK; n += 1 + n / 16) {
            struct pst_error err;
            struct pst_pack_options options = {.forms = forms, .n_forms = 3, .num_workers = 2};
            snprintf(name, sizeof name, "%u-%u.pst", k, (unsigned)n);
            psti_fault_arm(kinds[k], n, false);
            status = pack(state, "f", name, &options, NULL, &err);
            psti_fault_arm(kinds[k], 0, false);
            pst_memory_stats(&after, sizeof after);
            assert_int_equal(after.live_nbytes, before.live_nbytes);
            assert_true(n < 100000);
            if (status == PST_OK)
                break;
            assert_int_equal(err.status, status);
            assert_true(err.text[0] != '\0');
            options.writer = &resuming;
            pst_dataset *dataset = NULL;
            enum pst_status state_of =
                pst_dataset_open(folder_path(state, name), NULL, &dataset, NULL);
            pst_dataset_close(&dataset);
            if (state_of == PST_OK)
                continue; /* the data set is complete: a later call failed */
            assert_ok(pack(state, "f", name, &options, NULL, &err));
            struct pst_verify_options verify = {.struct_size = sizeof verify, .decode = true};
            assert_ok(pst_verify(folder_path(state, name), &verify, NULL, 0, &err));
        }
    }
}
#endif

#define T(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(order_and_bytes_for_any_number_of_workers),
        T(bad_samples_by_policy),
        T(cancelled_then_resumed),
        T(resume_refuses_other_forms),
        T(resume_refuses_a_changed_source),
        T(resume_refuses_other_labels),
        T(resume_passes_what_was_skipped),
        T(nothing_is_left_of_a_pack_without_samples),
        T(forms_that_cannot_be),
        T(appended_labels_follow_names),
        T(every_kind_of_field),
#ifdef PST_FAULTS
        T(every_failure_is_clean),
        T(the_report_counts_what_is_kept),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
