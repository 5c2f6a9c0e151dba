/* Tests real JPEG files: at least 99 of 100 are restored byte for byte, with libjpeg's
 * coefficients. The reader gives a reason for each of the others. The test needs the directory of
 * images that PST_SHARED_DATA names, and is skipped without it. */
#include "pli/jpegfile/jpeg_file_make.h"

#include "base/real_files.h"

struct count {
    uint32_t n, n_refused;
    uint64_t nbytes, restoration_nbytes;
};

static bool check_file(struct real_file *found, void *context)
{
    const struct jpeg_file file = {.bytes = found->data, .nbytes = found->nbytes};
    struct count *count = context;
    struct read_jpeg r;
    struct pst_error err;
    bool jpeg = file.nbytes >= 2 && file.bytes[0] == 0xFF && file.bytes[1] == 0xD8;
    pst_error_clear(&err);
    if (jpeg && read_jpeg_file(&file, &r, &err) == PST_OK) {
        free_read_jpeg(&r);
        count->restoration_nbytes += check_round_trip(&file, true, found->path);
    } else if (jpeg) {
        count->n_refused++;
        print_message("%s: %s\n", found->path, err.text);
    }
    count->n += jpeg;
    count->nbytes += jpeg ? file.nbytes : 0;
    free(found->data);
    return jpeg;
}

static void test_groups(void **state)
{
    static const char *const groups[] = {"imagenet", "imagenet_folder"};
    struct count count = {0};
    (void)state;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        real_files(groups[i], UINT32_MAX, check_file, &count);
    print_message("%u files, %u refused; of %.0f bytes each %.0f are restoration\n", count.n,
                  count.n_refused, (double)count.nbytes / count.n,
                  (double)count.restoration_nbytes / count.n);
    assert_true(count.n > 0);
    assert_true(count.n_refused * 100 <= count.n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_groups)};
    if (!real_files_root())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
