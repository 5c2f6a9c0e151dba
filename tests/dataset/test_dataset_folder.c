/* test_dataset_folder.c - tests a folder of images without a label file: order, classes, links, and
 * difficult names. */
#include "folder_test.h"

#include "base/fault.h"

#include <penstock/penstock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t label_of(const pst_dataset *dataset, uint64_t sample)
{
    struct pst_error err;
    int64_t label = -1;
    assert_ok(pst_dataset_int(dataset, sample, 1, &label, &err));
    return label;
}

static void flat_folder_has_images_in_byte_order(void **state)
{
    static const char *const names[] = {"B.PNG", "a-b.JpEg", "a.jpg", "a.webp", "b.jpeg"};
    folder_text(state, "f/a.webp", "1");
    folder_text(state, "f/b.jpeg", "22");
    folder_text(state, "f/a.jpg", "333");
    folder_text(state, "f/B.PNG", "4444");
    folder_text(state, "f/a-b.JpEg", "");
    folder_text(state, "f/notes.txt", "x");
    folder_text(state, "f/jpg", "x");
    folder_text(state, "f/.hidden.jpg", "x");
    folder_mkdir(state, "f/empty/below");
    pst_dataset *dataset = folder_open(state, "f", NULL);
    assert_true(pst_dataset_is_folder(dataset));
    assert_int_equal(pst_dataset_count(dataset), 5);
    assert_int_equal(pst_dataset_n_fields(dataset), 1);
    assert_string_equal(pst_dataset_field(dataset, 0)->name, "image");
    assert_int_equal(pst_dataset_field(dataset, 0)->type, PST_FIELD_IMAGE);
    for (uint64_t i = 0; i < 5; i++)
        assert_string_equal(folder_sample_name(dataset, i), names[i]);
    assert_int_equal(pst_dataset_max_item_nbytes(dataset, 0), 4);
    assert_int_equal(pst_dataset_max_pixels_nbytes(dataset, 0), 0);
    pst_dataset_close(&dataset);
}

static void items_and_bytes(void **state)
{
    struct pst_error err;
    struct pst_item item;
    char path[4096], bytes[8] = "";
    folder_text(state, "f/b.jpg", "world");
    folder_text(state, "f/a.jpg", "hi");
    pst_dataset *dataset = folder_open(state, "f/", NULL);
    assert_ok(pst_dataset_item(dataset, 1, 0, 0, &item, sizeof item, &err));
    assert_int_equal(item.form, PST_FORM_NONE);
    assert_int_equal(item.nbytes, 5);
    assert_int_equal(item.offset, 0);
    assert_false(item.has_checksum);
    assert_ok(pst_dataset_file_path(dataset, item.i_file, path, sizeof path, &err));
    assert_string_equal(path, folder_path(state, "f/b.jpg"));
    assert_int_equal(pst_dataset_file_path(dataset, item.i_file, path, strlen(path), &err),
                     PST_ERROR_LIMIT);
    assert_ok(pst_dataset_read(dataset, 1, 0, 0, 1, 3, bytes, &err));
    assert_memory_equal(bytes, "orl", 3);
    /* A file whose size has changed since it was listed is detected. */
    folder_text(state, "f/b.jpg", "worlds");
    assert_int_equal(pst_dataset_read(dataset, 1, 0, 0, 0, 5, bytes, &err), PST_ERROR_CORRUPT);
    assert_int_equal(err.sample, 1);
    assert_non_null(strstr(err.file, "b.jpg"));
    pst_dataset_close(&dataset);
}

static void classes_are_sub_folders_by_bytes(void **state)
{
    /* Classes are sorted by name, samples by path: "a-b/" < "a/", but "a" < "a-b". */
    folder_text(state, "f/a/1.jpg", "");
    folder_text(state, "f/a/deep/er/2.jpg", "");
    folder_text(state, "f/a-b/1.jpg", "");
    folder_text(state, "f/Z/1.jpg", "");
    pst_dataset *dataset = folder_open(state, "f", NULL);
    static const char *const names[] = {"Z/1.jpg", "a-b/1.jpg", "a/1.jpg", "a/deep/er/2.jpg"};
    static const int64_t labels[] = {0, 2, 1, 1};
    assert_int_equal(pst_dataset_count(dataset), 4);
    assert_int_equal(pst_dataset_n_fields(dataset), 2);
    assert_int_equal(pst_dataset_find_field(dataset, "label"), 1);
    assert_int_equal(pst_dataset_field(dataset, 1)->n_classes, 3);
    for (uint64_t i = 0; i < 4; i++) {
        assert_string_equal(folder_sample_name(dataset, i), names[i]);
        assert_int_equal(label_of(dataset, i), labels[i]);
    }
    assert_string_equal(pst_dataset_class_name(dataset, 1, 0), "Z");
    assert_string_equal(pst_dataset_class_name(dataset, 1, 1), "a");
    assert_string_equal(pst_dataset_class_name(dataset, 1, 2), "a-b");
    assert_null(pst_dataset_class_name(dataset, 1, 3));
    assert_null(pst_dataset_class_name(dataset, 1, -1));
    assert_null(pst_dataset_class_name(dataset, 0, 0));
    pst_dataset_close(&dataset);
}

static void paths_sort_as_one_string(void **state)
{
    static const char *const parts[] = {"a", "a!", "a.", "a0", "b", "a-", "\xC3\xA4"};
    char path[256];
    unsigned n = 0;
    for (unsigned i = 0; i < 7; i++) {
        for (unsigned k = 0; k < 7; k++) {
            snprintf(path, sizeof path, "f/c%s/%s/x.png", parts[i], parts[k]);
            folder_text(state, path, "");
            snprintf(path, sizeof path, "f/c%s/%s.png", parts[i], parts[k]);
            folder_text(state, path, "");
            n += 2;
        }
    }
    pst_dataset *dataset = folder_open(state, "f", NULL);
    assert_int_equal(pst_dataset_count(dataset), n);
    for (uint64_t i = 1; i < n; i++)
        assert_true(strcmp(folder_sample_name(dataset, i - 1), folder_sample_name(dataset, i)) < 0);
    pst_dataset_close(&dataset);
}

static void links_are_followed_and_cycles_found(void **state)
{
    folder_text(state, "other/x.jpg", "abc");
    folder_text(state, "f/a/1.jpg", "");
    folder_mkdir(state, "f/b");
    assert_int_equal(symlink("../../other/x.jpg", folder_path(state, "f/b/link.jpg")), 0);
    assert_int_equal(symlink("../../other", folder_path(state, "f/b/more")), 0);
    pst_dataset *dataset = folder_open(state, "f", NULL);
    assert_int_equal(pst_dataset_count(dataset), 3);
    assert_string_equal(folder_sample_name(dataset, 1), "b/link.jpg");
    assert_string_equal(folder_sample_name(dataset, 2), "b/more/x.jpg");
    assert_int_equal(pst_dataset_max_item_nbytes(dataset, 0), 3);
    pst_dataset_close(&dataset);
    assert_int_equal(symlink("..", folder_path(state, "f/b/up")), 0);
    const char *line = folder_open_fails(state, "f", NULL, PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(line, "b/up"));
    assert_non_null(strstr(line, "cycle"));
    struct pst_dataset_options options = {.struct_size = sizeof options, .allow_unreadable = true};
    struct pst_error err;
    assert_ok(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err));
    assert_int_equal(pst_dataset_count(dataset), 3);
    assert_int_equal(pst_dataset_n_skipped(dataset), 1);
    pst_dataset_close(&dataset);
}

static void two_links_to_one_folder_are_no_cycle(void **state)
{
    folder_text(state, "other/x.jpg", "");
    folder_mkdir(state, "f");
    assert_int_equal(symlink("../other", folder_path(state, "f/a")), 0);
    assert_int_equal(symlink("../other", folder_path(state, "f/b")), 0);
    pst_dataset *dataset = folder_open(state, "f", NULL);
    assert_int_equal(pst_dataset_count(dataset), 2);
    pst_dataset_close(&dataset);
}

static void what_cannot_be_read_is_named_or_skipped(void **state)
{
    struct pst_dataset_options options = {.struct_size = sizeof options, .allow_unreadable = true};
    struct pst_error err;
    pst_dataset *dataset;
    folder_text(state, "f/a/1.jpg", "");
    folder_text(state, "f/b/1.jpg", "");
    assert_int_equal(symlink("nowhere", folder_path(state, "f/a/gone.jpg")), 0);
    const char *line = folder_open_fails(state, "f", NULL, PST_ERROR_NOT_FOUND);
    assert_non_null(strstr(line, "a/gone.jpg"));
    assert_ok(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err));
    assert_int_equal(pst_dataset_count(dataset), 2);
    assert_int_equal(pst_dataset_n_skipped(dataset), 1);
    pst_dataset_close(&dataset);
    assert_int_equal(unlink(folder_path(state, "f/a/gone.jpg")), 0);
    assert_int_equal(mkfifo(folder_path(state, "f/a/pipe.jpg"), 0600), 0);
    line = folder_open_fails(state, "f", NULL, PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(line, "a/pipe.jpg"));
}

/* With no_folder a plain folder is refused before its files are looked at, so an unreadable file
 * causes no error. */
static void folders_are_refused_unseen(void **state)
{
    struct pst_dataset_options options = {.struct_size = sizeof options, .no_folder = true};
    struct pst_error err;
    pst_dataset *dataset;
    folder_mkdir(state, "f");
    assert_int_equal(symlink("nowhere", folder_path(state, "f/gone.jpg")), 0);
    assert_int_equal(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err),
                     PST_ERROR_ARGUMENT);
    assert_null(dataset);
    assert_non_null(strstr(err.text, "plain folder"));
    assert_string_equal(err.dataset, folder_path(state, "f"));
    folder_text(state, "f/shard-000000.pst", "");
    assert_int_equal(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err),
                     PST_ERROR_CORRUPT);
    folder_text(state, "f/journal.pst", "");
    assert_int_equal(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err),
                     PST_ERROR_INCOMPLETE);
}

static void permissions(void **state)
{
    struct pst_dataset_options options = {.struct_size = sizeof options, .allow_unreadable = true};
    struct pst_error err;
    pst_dataset *dataset;
    bool root = geteuid() == 0;
    if (root) { /* root may read everything, so continue as another user */
        assert_int_equal(chmod(*state, 0777), 0);
        assert_int_equal(seteuid(65534), 0);
    }
    folder_text(state, "f/a/1.jpg", "");
    folder_text(state, "f/b/1.jpg", "");
    folder_text(state, "f/c/1.jpg", "");
    assert_int_equal(chmod(folder_path(state, "f/a/1.jpg"), 0), 0);
    const char *line = folder_open_fails(state, "f", NULL, PST_ERROR_IO);
    assert_non_null(strstr(line, "a/1.jpg"));
    assert_int_equal(chmod(folder_path(state, "f/a/1.jpg"), 0600), 0);
    assert_int_equal(chmod(folder_path(state, "f/b"), 0), 0);
    line = folder_open_fails(state, "f", NULL, PST_ERROR_IO);
    assert_non_null(strstr(line, "b/"));
    assert_ok(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err));
    assert_int_equal(pst_dataset_count(dataset), 2);
    /* The class that cannot be read keeps its number. */
    assert_int_equal(pst_dataset_field(dataset, 1)->n_classes, 3);
    assert_int_equal(label_of(dataset, 1), 2);
    pst_dataset_close(&dataset);
    assert_int_equal(chmod(folder_path(state, "f/b"), 0700), 0);
    if (root)
        assert_int_equal(seteuid(0), 0);
}

static void names_that_hurt(void **state)
{
    folder_text(state, "f/\xC3\xBC\xE2\x82\xAC \"x\".jpg", "");
    pst_dataset *dataset = folder_open(state, "f", NULL);
    assert_string_equal(folder_sample_name(dataset, 0), "\xC3\xBC\xE2\x82\xAC \"x\".jpg");
    pst_dataset_close(&dataset);
    folder_text(state, "f/caf\xE9.jpg", "");
    const char *line = folder_open_fails(state, "f", NULL, PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(line, "caf\\xE9.jpg"));
    assert_int_equal(unlink(folder_path(state, "f/caf\xE9.jpg")), 0);
    folder_text(state, "f/new\nline.jpg", "");
    line = folder_open_fails(state, "f", NULL, PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(line, "new\\x0Aline.jpg"));
    assert_int_equal(unlink(folder_path(state, "f/new\nline.jpg")), 0);
    folder_text(state, "f/d\xFF/x.jpg", "");
    line = folder_open_fails(state, "f", NULL, PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(line, "d\\xFF"));
}

static void folders_without_images(void **state)
{
    folder_mkdir(state, "empty");
    assert_non_null(
        strstr(folder_open_fails(state, "empty", NULL, PST_ERROR_NOT_FOUND), "no image"));
    folder_text(state, "texts/a/readme.txt", "");
    assert_non_null(
        strstr(folder_open_fails(state, "texts", NULL, PST_ERROR_NOT_FOUND), "1 other file"));
    folder_text(state, "hole/a/1.jpg", "");
    folder_mkdir(state, "hole/b");
    assert_non_null(
        strstr(folder_open_fails(state, "hole", NULL, PST_ERROR_NOT_FOUND), "folder b "));
    folder_text(state, "mixed/a/1.jpg", "");
    folder_text(state, "mixed/2.jpg", "");
    assert_non_null(
        strstr(folder_open_fails(state, "mixed", NULL, PST_ERROR_UNSUPPORTED), "directly"));
    (void)folder_open_fails(state, "absent", NULL, PST_ERROR_NOT_FOUND);
}

/* Returns the count of the notice of that name, or -1 if there is none. */
static int64_t noticed(const pst_dataset *dataset, const char *name)
{
    struct pst_notice notice;
    for (uint32_t i = 0; i < pst_dataset_n_notices(dataset); i++)
        if (pst_dataset_notice(dataset, i, &notice, sizeof notice, NULL) == PST_OK &&
            strcmp(notice.name, name) == 0)
            return (int64_t)notice.count;
    return -1;
}

/* Expects the classes cat and dog, with two images each. */
static void check_cat_and_dog(const pst_dataset *dataset)
{
    static const int64_t labels[] = {0, 0, 1, 1};
    assert_int_equal(pst_dataset_count(dataset), 4);
    assert_int_equal(pst_dataset_field(dataset, 1)->n_classes, 2);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(label_of(dataset, i), labels[i]);
}

static void folders_of_systems_are_no_classes(void **state)
{
    static const char *const names[] = {"__MACOSX",     "@eaDir",      "#recycle",
                                        "$RECYCLE.BIN", "lost+found",  "System Volume Information",
                                        "__pycache__",  "$Recycle.Bin"};
    struct pst_dataset_options options = {.struct_size = sizeof options, .allow_unreadable = true};
    struct pst_error err;
    pst_dataset *dataset;
    for (int i = 0; i < 4; i++) {
        char path[64];
        snprintf(path, sizeof path, "f/%s/%d.jpg", i < 2 ? "cat" : "dog", i);
        folder_text(state, path, "1");
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        snprintf(path, sizeof path, "f/%s/cat/._1.jpg", names[i]);
        folder_text(state, path, "1");
        snprintf(path, sizeof path, "f/dog/%s/2.jpg/thumb.jpg", names[i]);
        folder_text(state, path, "1");
    }
    folder_text(state, "f/.ipynb_checkpoints/1-checkpoint.jpg", "1");
    folder_text(state, "f/cat/._1.jpg", "1");
    folder_text(state, "f/cat/Thumbs.db", "1");
    folder_text(state, "f/Hidden/.DS_Store", "1");
    folder_text(state, "f/Hidden/below/._x.jpg", "1");
    folder_text(state, "f/keep/.gitkeep", "");
    dataset = folder_open(state, "f", NULL);
    check_cat_and_dog(dataset);
    assert_int_equal(noticed(dataset, "system folder"), 2 * sizeof names / sizeof *names);
    assert_int_equal(noticed(dataset, "folder of hidden files"), 2);
    pst_dataset_close(&dataset);
    assert_ok(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err));
    check_cat_and_dog(dataset);
    pst_dataset_close(&dataset);
}

/* With allow_unreadable a class without images keeps its number, even if none of its files can be
 * used. */
static void allow_unreadable_moves_no_label(void **state)
{
    struct pst_dataset_options options = {.struct_size = sizeof options, .allow_unreadable = true};
    struct pst_error err;
    pst_dataset *dataset;
    folder_text(state, "f/z/1.jpg", "1");
    folder_mkdir(state, "f/empty");
    folder_text(state, "f/texts/notes.txt", "1");
    folder_text(state, "f/hidden_too/.x", "1");
    folder_text(state, "f/hidden_too/notes.txt", "1");
    assert_int_equal(symlink("nowhere", folder_path(state, "f/lost")), 0);
    assert_int_equal(symlink("nowhere", folder_path(state, "f/README.md")), 0);
    folder_mkdir(state, "f/broken");
    assert_int_equal(symlink("nowhere", folder_path(state, "f/broken/1.jpg")), 0);
    folder_mkdir(state, "f/pipes");
    assert_int_equal(mkfifo(folder_path(state, "f/pipes/1.jpg"), 0600), 0);
    assert_ok(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err));
    assert_int_equal(pst_dataset_count(dataset), 1);
    /* the 7 classes: broken empty hidden_too lost pipes texts z */
    assert_int_equal(pst_dataset_field(dataset, 1)->n_classes, 7);
    assert_int_equal(label_of(dataset, 0), 6);
    pst_dataset_close(&dataset);
    assert_int_equal(unlink(folder_path(state, "f/broken/1.jpg")), 0);
    assert_int_equal(unlink(folder_path(state, "f/pipes/1.jpg")), 0);
    assert_non_null(
        strstr(folder_open_fails(state, "f", NULL, PST_ERROR_NOT_FOUND), "lost, beside class"));
    assert_int_equal(unlink(folder_path(state, "f/lost")), 0);
    assert_non_null(strstr(folder_open_fails(state, "f", NULL, PST_ERROR_NOT_FOUND),
                           "folder broken holds no image"));
}

static void too_deep(void **state)
{
    char path[1024] = "f";
    for (int i = 0; i < 130; i++)
        strcat(path, "/d");
    strcat(path, "/x.jpg");
    folder_text(state, path, "");
    assert_non_null(
        strstr(folder_open_fails(state, "f", NULL, PST_ERROR_LIMIT), "deeper than 128"));
}

static void id_depends_on_names_and_sizes(void **state)
{
    uint8_t ids[4][16];
    folder_text(state, "f/a.jpg", "1");
    folder_text(state, "f/b.jpg", "22");
    for (int i = 0; i < 4; i++) {
        if (i == 2)
            folder_text(state, "f/b.jpg", "333");
        if (i == 3)
            folder_text(state, "f/c.jpg", "");
        pst_dataset *dataset = folder_open(state, "f", NULL);
        memcpy(ids[i], pst_dataset_id(dataset), 16);
        pst_dataset_close(&dataset);
    }
    assert_memory_equal(ids[0], ids[1], 16);
    assert_memory_not_equal(ids[1], ids[2], 16);
    assert_memory_not_equal(ids[2], ids[3], 16);
    assert_memory_not_equal(ids[0], ids[0] + 8, 8);
}

/* A name is found by stepping from every 16th name; sizes of 4 GiB and more are in a table of their
 * own. */
static void many_names_and_long_files(void **state)
{
    enum { N = 50 };
    struct pst_error err;
    struct pst_item item;
    char name[64];
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "f/%c/%0*d.jpg", i < 20 ? 'a' : 'b', 3 + i % 7, i);
        const char *path = folder_text(state, name, "x");
        if (i % 11 == 3)
            assert_int_equal(truncate(path, ((off_t)4 << 30) + i - 4), 0);
    }
    pst_dataset *dataset = folder_open(state, "f", NULL);
    assert_int_equal(pst_dataset_count(dataset), N);
    for (uint64_t s = 0; s < N; s++) {
        int64_t label;
        const char *found = folder_sample_name(dataset, s);
        long i = strtol(found + 2, NULL, 10);
        if (s > 0)
            assert_true(strcmp(folder_sample_name(dataset, s - 1), found) < 0);
        assert_ok(pst_dataset_item(dataset, s, 0, 0, &item, sizeof item, &err));
        assert_true(item.nbytes == (i % 11 == 3 ? (UINT64_C(4) << 30) + (uint64_t)i - 4 : 1));
        assert_ok(pst_dataset_int(dataset, s, 1, &label, &err));
        assert_int_equal(label, i < 20 ? 0 : 1);
    }
    pst_dataset_close(&dataset);
}

static void memory_per_sample_is_small(void **state)
{
    enum { N = 20000 };
    struct pst_memory_stats before, after;
    char path[64];
    size_t names = 0;
    for (int i = 0; i < N; i++) {
        snprintf(path, sizeof path, "f/%d/image_%05d.jpg", i % 4, i);
        names += strlen(path) - 2 + 1;
        if (i < 4) {
            folder_text(state, path, "");
            continue;
        }
        FILE *file = fopen(folder_path(state, path), "wb");
        assert_non_null(file);
        fclose(file);
    }
    pst_memory_stats(&before, sizeof before);
    pst_dataset *dataset = folder_open(state, "f", NULL);
    pst_memory_stats(&after, sizeof after);
    assert_int_equal(pst_dataset_count(dataset), N);
    uint64_t per_sample = (after.live_nbytes - before.live_nbytes - names) / N;
    print_message("%llu bytes per sample beside its name\n", (unsigned long long)per_sample);
    assert_true(per_sample < 16); /* 12.5 bytes for a sample, plus the handle */
    pst_dataset_close(&dataset);
    pst_memory_stats(&after, sizeof after);
    assert_int_equal(after.live_nbytes, before.live_nbytes);
}

#ifdef PST_FAULTS
/* Lets the n-th allocation or read fail, for n = 1, 2, ... until opening succeeds. */
static void every_failure_is_clean(void **state)
{
    static const enum psti_fault_kind kinds[] = {PSTI_FAULT_ALLOC, PSTI_FAULT_READ};
    struct pst_memory_stats before, after;
    folder_text(state, "f/b/1.jpg", "x");
    folder_text(state, "f/a/c/2.jpg", "x");
    folder_text(state, "f/a/1.jpg", "x");
    pst_memory_stats(&before, sizeof before);
    for (unsigned k = 0; k < 2; k++) {
        uint64_t n = 0;
        enum pst_status status;
        do {
            struct pst_error err;
            pst_dataset *dataset = NULL;
            pst_error_clear(&err);
            psti_fault_arm(kinds[k], ++n, false);
            status = pst_dataset_open(folder_path(state, "f"), NULL, &dataset, &err);
            psti_fault_arm(kinds[k], 0, false);
            if (status != PST_OK) {
                assert_null(dataset);
                assert_int_equal(status, k == 0 ? PST_ERROR_MEMORY : PST_ERROR_IO);
                assert_int_equal(err.status, status);
            } else {
                assert_int_equal(pst_dataset_count(dataset), 3);
            }
            pst_dataset_close(&dataset);
            pst_memory_stats(&after, sizeof after);
            assert_int_equal(after.live_nbytes, before.live_nbytes);
            assert_true(n < 1000);
        } while (status != PST_OK);
        assert_true(n > 5);
    }
}
#endif

#define T(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(flat_folder_has_images_in_byte_order),
        T(items_and_bytes),
        T(classes_are_sub_folders_by_bytes),
        T(paths_sort_as_one_string),
        T(links_are_followed_and_cycles_found),
        T(two_links_to_one_folder_are_no_cycle),
        T(what_cannot_be_read_is_named_or_skipped),
        T(folders_are_refused_unseen),
        T(permissions),
        T(names_that_hurt),
        T(folders_without_images),
        T(folders_of_systems_are_no_classes),
        T(allow_unreadable_moves_no_label),
        T(too_deep),
        T(id_depends_on_names_and_sizes),
        T(many_names_and_long_files),
        T(memory_per_sample_is_small),
#ifdef PST_FAULTS
        T(every_failure_is_clean),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
