/* test_decode_real.c - photographs as they are found: whole equals plain libjpeg or libpng, regions
 * equal the whole. Needs the directory of images named by PST_SHARED_DATA; skipped without it. */
#include "decode_make.h"

#include <dirent.h>
#include <stdlib.h>

#define FILES_PER_GROUP 120
#define REGIONS_PER_FILE 3

static const char *root;

static bool read_file(const char *path, struct bytes *file)
{
    FILE *stream = fopen(path, "rb");
    if (!stream)
        return false;
    fseek(stream, 0, SEEK_END);
    file->nbytes = (size_t)ftell(stream);
    rewind(stream);
    file->data = malloc(file->nbytes);
    assert_non_null(file->data);
    assert_int_equal(fread(file->data, 1, file->nbytes, stream), file->nbytes);
    fclose(stream);
    return true;
}

static void check_file(struct psti_decoder *decoder, const char *path, uint64_t *seed)
{
    struct pst_decode_options options = {.struct_size = sizeof options, .ignore_orientation = true};
    struct pst_image_info info;
    struct pst_error err;
    struct bytes file;
    uint32_t height, width, channels, bits;
    assert_true(read_file(path, &file));
    assert_ok(
        psti_decoder_probe(decoder, file.data, file.nbytes, PST_FORM_NONE, &options, &info, &err));
    uint8_t *expected = info.form == PST_FORM_JPEG ? plain_jpeg(&file, &height, &width, &channels)
                                                   : plain_png(&file, &channels, &bits);
    assert_int_equal(info.channels, channels);
    bool equal = region_equals(decoder, &file, &info, &options, NULL, expected);
    for (int i = 0; equal && i < REGIONS_PER_FILE; i++) {
        struct psti_rect r = random_region(seed, info.height, info.width);
        equal = region_equals(decoder, &file, &info, &options, &r, expected);
    }
    if (!equal)
        fail_msg("%s", path);
    free(expected);
    bytes_free(&file);
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

/* Files of a folder and of the folders in it. */
static void check_folder(struct psti_decoder *decoder, const char *folder, int *n_left,
                         uint64_t *seed)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (struct dirent *entry; *n_left > 0 && (entry = readdir(dir));) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
            check_folder(decoder, path, n_left, seed);
        } else if (ends_with(path, ".JPEG") || ends_with(path, ".jpg") || ends_with(path, ".png")) {
            check_file(decoder, path, seed);
            --*n_left;
        }
    }
    closedir(dir);
}

static void test_groups(void **state)
{
    static const struct {
        const char *name;
        int n_files;
    } groups[] = {{"imagenet", FILES_PER_GROUP},
                  {"imagenet_folder", FILES_PER_GROUP},
                  {"kodak", 4},
                  {"labels8", 2},
                  {"inst16", 2},
                  {"landsat16", 2},
                  {"emoji_rgba", 20},
                  {"screens", 1}};
    struct psti_decoder *decoder = NULL;
    struct pst_error err;
    uint64_t seed = 1;
    int n_checked = 0;
    (void)state;
    assert_ok(psti_decoder_open(&decoder, &err));
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        char folder[4096];
        int n_left = groups[i].n_files;
        snprintf(folder, sizeof folder, "%s/%s", root, groups[i].name);
        check_folder(decoder, folder, &n_left, &seed);
        n_checked += groups[i].n_files - n_left;
    }
    psti_decoder_close(&decoder);
    assert_true(n_checked > 0);
    print_message("%d files\n", n_checked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_groups)};
    root = getenv("PST_SHARED_DATA");
    if (!root || !root[0])
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
