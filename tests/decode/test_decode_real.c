/* test_decode_real.c - decodes real photographs. Whole images equal those of libjpeg or libpng, and
 * regions equal the whole. The test needs the directory of images named by PST_SHARED_DATA and is
 * skipped without it. */
#include "decode_make.h"

#include "base/real_files.h"

#define FILES_PER_GROUP 120
#define REGIONS_PER_FILE 3

struct check {
    struct psti_decoder *decoder;
    uint64_t seed;
};

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

static void check_file(struct check *check, const char *path, const struct bytes *file)
{
    struct pst_decode_options options = {.struct_size = sizeof options, .ignore_orientation = true};
    struct psti_decoder *decoder = check->decoder;
    struct pst_image_info info;
    struct pst_error err;
    uint32_t height, width, channels, bits;
    assert_ok(
        psti_decode_probe(decoder, file->data, file->nbytes, PST_FORM_NONE, &options, &info, &err));
    uint8_t *expected = info.form == PST_FORM_JPEG ? plain_jpeg(file, &height, &width, &channels)
                                                   : plain_png(file, &channels, &bits);
    assert_int_equal(info.channels, channels);
    bool equal = region_equals(decoder, file, &info, &options, NULL, expected);
    for (int i = 0; equal && i < REGIONS_PER_FILE; i++) {
        struct psti_rect r = random_region(&check->seed, info.height, info.width);
        equal = region_equals(decoder, file, &info, &options, &r, expected);
    }
    if (!equal)
        fail_msg("%s", path);
    free(expected);
}

static bool check_one(struct real_file *file, void *context)
{
    bool image = ends_with(file->path, ".JPEG") || ends_with(file->path, ".jpg") ||
                 ends_with(file->path, ".png");
    if (image)
        check_file(context, file->path, &(struct bytes){file->data, file->nbytes});
    free(file->data);
    return image;
}

static void test_groups(void **state)
{
    static const struct {
        const char *name;
        uint32_t n_files;
    } groups[] = {{"imagenet", FILES_PER_GROUP},
                  {"imagenet_folder", FILES_PER_GROUP},
                  {"kodak", 4},
                  {"labels8", 2},
                  {"inst16", 2},
                  {"landsat16", 2},
                  {"emoji_rgba", 20},
                  {"screens", 1}};
    struct check check = {.seed = 1};
    struct pst_error err;
    uint32_t n_checked = 0;
    (void)state;
    assert_ok(psti_decode_open(&check.decoder, &err));
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        n_checked += real_files(groups[i].name, groups[i].n_files, check_one, &check);
    psti_decode_close(&check.decoder);
    assert_true(n_checked > 0);
    print_message("%u files\n", n_checked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_groups)};
    if (!real_files_root())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
