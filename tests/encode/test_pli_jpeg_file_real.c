/* JPEG files as they are found: at least 99 of 100 come back byte for byte, with libjpeg's
 * coefficients in between; who does not says why. Needs the directory of images named by
 * PST_SHARED_DATA; skipped without it. */
#include "jpeg_file_make.h"

#include <dirent.h>
#include <stdlib.h>

struct count {
    uint32_t n, n_refused;
    uint64_t nbytes, restoration_nbytes;
};

static bool read_file(const char *path, struct jpeg_file *file)
{
    FILE *stream = fopen(path, "rb");
    if (!stream)
        return false;
    fseek(stream, 0, SEEK_END);
    file->nbytes = (size_t)ftell(stream);
    rewind(stream);
    file->bytes = malloc(file->nbytes + 1);
    assert_non_null(file->bytes);
    assert_int_equal(fread(file->bytes, 1, file->nbytes, stream), file->nbytes);
    fclose(stream);
    return true;
}

static void check_file(const char *path, struct count *count)
{
    struct jpeg_file file;
    struct read_jpeg r;
    struct pst_error err;
    if (!read_file(path, &file))
        return;
    if (file.nbytes < 2 || file.bytes[0] != 0xFF || file.bytes[1] != 0xD8) {
        free(file.bytes);
        return;
    }
    pst_error_clear(&err);
    count->n++;
    count->nbytes += file.nbytes;
    if (read_jpeg_file(&file, &r, &err) == PST_OK) {
        free_read_jpeg(&r);
        count->restoration_nbytes += check_round_trip(&file, true, path);
    } else {
        count->n_refused++;
        print_message("%s: %s\n", path, err.text);
    }
    free(file.bytes);
}

static void check_folder(const char *folder, struct count *count)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.')
            continue;
        if (entry->d_type == DT_DIR)
            check_folder(path, count);
        else
            check_file(path, count);
    }
    closedir(dir);
}

static void test_groups(void **state)
{
    static const char *const groups[] = {"imagenet", "imagenet_folder"};
    struct count count = {0};
    (void)state;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        char folder[4096];
        snprintf(folder, sizeof folder, "%s/%s", getenv("PST_SHARED_DATA"), groups[i]);
        check_folder(folder, &count);
    }
    print_message("%u files, %u refused; of %.0f bytes each %.0f are restoration\n", count.n,
                  count.n_refused, (double)count.nbytes / count.n,
                  (double)count.restoration_nbytes / count.n);
    assert_true(count.n > 0);
    assert_true(count.n_refused * 100 <= count.n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_groups)};
    const char *root = getenv("PST_SHARED_DATA");
    if (!root || !root[0])
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
