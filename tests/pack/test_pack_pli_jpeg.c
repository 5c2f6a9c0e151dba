/* test_pack_pli_jpeg.c - converts JPEG files to PLI and back. For every kind that content 2
 * takes, pixels and file are restored. Other kinds are refused with a reason. Broken PLI never
 * give another file. A pack counts and resumes all of this, and leaks nothing when an operation
 * fails. */
#include "../dataset/folder_test.h"
#include "../decode/decode_make.h"
#include "pack/pack_int.h"

#include "base/fault.h"

#include <penstock/penstock.h>

#include <stdlib.h>
#include <unistd.h>

static uint8_t *from_jpeg(const struct bytes *jpeg, const struct pst_pli_from_jpeg_options *options,
                          size_t *nbytes)
{
    struct pst_error err;
    size_t bound = pst_pli_from_jpeg_bound(jpeg->nbytes);
    uint8_t *pli = malloc(bound);
    assert_non_null(pli);
    assert_ok(pst_pli_from_jpeg(jpeg->data, jpeg->nbytes, options, pli, bound, nbytes, &err));
    return pli;
}

/* Checks that the beginning of the file is restored from head and end of the PLI alone: exactly up
 * to the entropy-coded data of the first scan. */
static void check_head(const struct bytes *jpeg, const uint8_t *pli, size_t nbytes,
                       const struct pst_pli_info *info)
{
    struct pst_error err;
    size_t n, i = 0;
    uint8_t *sparse = calloc(nbytes, 1), *back = malloc(jpeg->nbytes);
    size_t tail = nbytes - info->restoration_nbytes;
    memcpy(sparse, pli, info->head_nbytes);
    memcpy(sparse + tail, pli + tail, info->restoration_nbytes);
    assert_ok(pst_pli_to_jpeg_head(sparse, nbytes, back, jpeg->nbytes, &n, &err));
    assert_true(n < jpeg->nbytes);
    assert_memory_equal(back, jpeg->data, n);
    while (i + 4 <= n && !(jpeg->data[i] == 0xFF && jpeg->data[i + 1] == 0xDA))
        i += jpeg->data[i] == 0xFF && jpeg->data[i + 1] >= 0xC0 && jpeg->data[i + 1] != 0xD8
                 ? 2u + (size_t)jpeg->data[i + 2] * 256 + jpeg->data[i + 3]
                 : 1;
    assert_int_equal(n, i + 2 + jpeg->data[i + 3]); /* the header of a scan is short */
    assert_int_equal(pst_pli_to_jpeg_head(sparse, nbytes, back, jpeg->nbytes - 1, &n, &err),
                     PST_ERROR_ARGUMENT);
    sparse[nbytes - 1] ^= 1;
    assert_int_equal(pst_pli_to_jpeg_head(sparse, nbytes, back, jpeg->nbytes, &n, &err),
                     PST_ERROR_CHECKSUM);
    assert_int_equal(pst_pli_to_jpeg_head(sparse, nbytes - 1, back, jpeg->nbytes, &n, &err),
                     PST_ERROR_TRUNCATED);
    free(sparse);
    free(back);
}

/* Checks that the file is restored, and that both decode to the same pixels. */
static void check_both(const struct bytes *jpeg, const uint8_t *pli, size_t nbytes,
                       const struct jpeg_spec *spec)
{
    struct pst_error err;
    struct pst_pli_info head = {0};
    struct pst_image_info info, wanted;
    size_t n;
    assert_ok(pst_pli_info(pli, nbytes, &head, sizeof head, &err));
    assert_int_equal(head.content, PST_PLI_CONTENT_JPEG);
    assert_int_equal(head.nbytes, nbytes);
    assert_int_equal(head.jpeg_nbytes, jpeg->nbytes);
    assert_int_equal(head.orientation, spec->orientation ? spec->orientation : 1);
    uint8_t *back = malloc(jpeg->nbytes);
    assert_ok(pst_pli_to_jpeg(pli, nbytes, back, jpeg->nbytes, &n, &err));
    assert_int_equal(n, jpeg->nbytes);
    assert_memory_equal(back, jpeg->data, n);
    assert_int_equal(pst_pli_to_jpeg(pli, nbytes, back, jpeg->nbytes - 1, &n, &err),
                     PST_ERROR_ARGUMENT);
    check_head(jpeg, pli, nbytes, &head);
    free(back);
    assert_ok(pst_image_probe(jpeg->data, jpeg->nbytes, PST_FORM_NONE, NULL, &wanted, sizeof wanted,
                              &err));
    assert_ok(pst_image_probe(pli, nbytes, PST_FORM_NONE, NULL, &info, sizeof info, &err));
    assert_int_equal(info.form, PST_FORM_PLI_JPEG);
    assert_int_equal(info.height, wanted.height);
    assert_int_equal(info.width, wanted.width);
    assert_int_equal(info.channels, wanted.channels);
    assert_int_equal(info.orientation, wanted.orientation);
    size_t row = (size_t)info.width * info.channels, all = row * info.height;
    uint8_t *a = malloc(all), *b = malloc(all);
    assert_ok(pst_image_decode(jpeg->data, jpeg->nbytes, PST_FORM_NONE, NULL, a, all, row, &err));
    assert_ok(pst_image_decode(pli, nbytes, PST_FORM_NONE, NULL, b, all, row, &err));
    assert_memory_equal(a, b, all);
    free(a);
    free(b);
}

static void every_kind_comes_back(void **state)
{
    static const uint8_t factors[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}};
    static const uint8_t qualities[] = {1, 30, 75, 100};
    static const uint32_t sizes[][2] = {{1, 1}, {7, 9}, {64, 64}, {130, 67}, {33, 300}};
    uint64_t seed = 0;
    (void)state;
    for (size_t f = 0; f < 7; f++)
        for (size_t s = 0; s < 5; s++)
            for (size_t k = 0; k < 4; k++, seed++) {
                const struct jpeg_spec spec = {.height = sizes[s][0],
                                               .width = sizes[s][1],
                                               .colours = f == 5   ? COLOURS_GRAY
                                                          : f == 6 ? COLOURS_RGB
                                                                   : COLOURS_YCC,
                                               .h = f < 5 ? factors[f][0] : 1,
                                               .v = f < 5 ? factors[f][1] : 1,
                                               .quality = qualities[k],
                                               .progressive = seed % 3 == 1,
                                               .many_scans = seed % 3 == 2,
                                               .restart = seed % 2 ? (uint16_t)(1 + seed % 7) : 0,
                                               .orientation = (uint8_t)(seed % 9),
                                               .big_endian_exif = seed % 4 == 0};
                struct pst_pli_from_jpeg_options options = {.struct_size = sizeof options,
                                                            .unit_edge =
                                                                seed % 4 ? 32u << seed % 4 : 0,
                                                            .no_checksum = seed % 5 == 0};
                struct bytes jpeg = make_jpeg(&spec, seed);
                size_t nbytes, again;
                uint8_t *pli = from_jpeg(&jpeg, &options, &nbytes);
                check_both(&jpeg, pli, nbytes, &spec);
                uint8_t *same = from_jpeg(&jpeg, &options, &again);
                assert_int_equal(again, nbytes);
                assert_memory_equal(same, pli, nbytes);
                free(same);
                free(pli);
                bytes_free(&jpeg);
            }
}

/* Tests bytes past the end of the image, and bytes before its start. */
static void bytes_around_the_image_come_back(void **state)
{
    static const struct jpeg_spec spec = {
        .height = 90, .width = 70, .colours = COLOURS_YCC, .h = 2, .v = 2, .quality = 85};
    struct bytes jpeg = make_jpeg(&spec, 5), longer;
    size_t nbytes;
    (void)state;
    longer.nbytes = jpeg.nbytes + 1000;
    longer.data = malloc(longer.nbytes);
    memcpy(longer.data, jpeg.data, jpeg.nbytes);
    for (size_t i = 0; i < 1000; i++)
        longer.data[jpeg.nbytes + i] = (uint8_t)(i * i >> 3);
    uint8_t *pli = from_jpeg(&longer, NULL, &nbytes);
    check_both(&longer, pli, nbytes, &spec);
    free(pli);
    bytes_free(&longer);
    bytes_free(&jpeg);
}

static void refused(const struct jpeg_spec *spec, enum pst_status status)
{
    struct bytes jpeg = make_jpeg(spec, 3);
    struct pst_error err;
    size_t nbytes, bound = pst_pli_from_jpeg_bound(jpeg.nbytes);
    uint8_t *pli = malloc(bound);
    assert_int_equal(pst_pli_from_jpeg(jpeg.data, jpeg.nbytes, NULL, pli, bound, &nbytes, &err),
                     status);
    assert_true(err.text[0] != '\0');
    free(pli);
    bytes_free(&jpeg);
}

static void what_is_not_taken_is_refused(void **state)
{
    struct jpeg_spec spec = {.height = 40, .width = 50, .h = 1, .v = 1, .quality = 80};
    struct pst_error err;
    size_t nbytes;
    uint8_t out[4096];
    (void)state;
    spec.colours = COLOURS_CMYK;
    refused(&spec, PST_ERROR_UNSUPPORTED);
    spec.colours = COLOURS_YCCK;
    refused(&spec, PST_ERROR_UNSUPPORTED);
    spec.colours = COLOURS_YCC;
    spec.arithmetic = true;
    refused(&spec, PST_ERROR_UNSUPPORTED);
    assert_int_equal(pst_pli_from_jpeg("nothing", 7, NULL, out, sizeof out, &nbytes, &err),
                     PST_ERROR_CORRUPT);
    assert_int_equal(pst_pli_from_jpeg(NULL, 7, NULL, out, sizeof out, &nbytes, &err),
                     PST_ERROR_ARGUMENT);
    const struct pst_pli_from_jpeg_options odd = {.struct_size = sizeof odd, .unit_edge = 96};
    assert_int_equal(pst_pli_from_jpeg(out, 7, &odd, out, sizeof out, &nbytes, &err),
                     PST_ERROR_ARGUMENT);
    assert_int_equal(pst_pli_from_jpeg_bound(SIZE_MAX), 0);
    spec.arithmetic = false;
    struct bytes jpeg = make_jpeg(&spec, 3);
    for (size_t n = 0; n < jpeg.nbytes; n += 1 + n / 20) {
        enum pst_status status =
            pst_pli_from_jpeg(jpeg.data, n, NULL, out, sizeof out, &nbytes, &err);
        assert_true(status == PST_ERROR_TRUNCATED || status == PST_ERROR_CORRUPT ||
                    status == PST_ERROR_UNSUPPORTED);
        assert_true(psti_pli_keep_stays(status));
    }
    /* A buffer that is too small for the whole PLI is refused. */
    uint8_t *pli = from_jpeg(&jpeg, NULL, &nbytes);
    size_t fits = nbytes;
    for (size_t n = 0; n < fits; n += 1 + n / 8)
        assert_int_equal(pst_pli_from_jpeg(jpeg.data, jpeg.nbytes, NULL, pli, n, &nbytes, &err),
                         PST_ERROR_LIMIT);
    assert_ok(pst_pli_from_jpeg(jpeg.data, jpeg.nbytes, NULL, pli, fits, &nbytes, &err));
    free(pli);
    bytes_free(&jpeg);
}

/* If libjpeg-turbo's own kernels give different pixels, the error blames the file, not the
 * library. */
static void coefficients_beyond_samples_are_refused(void **state)
{
    static const struct jpeg_spec spec = {
        .height = 40, .width = 50, .colours = COLOURS_YCC, .h = 1, .v = 1, .quality = 100};
    struct bytes jpeg = make_jpeg(&spec, 3);
    struct pst_error err;
    size_t nbytes, bound = pst_pli_from_jpeg_bound(jpeg.nbytes), at = 2;
    uint8_t *pli = malloc(bound);
    (void)state;
    while (jpeg.data[at] != 0xFF || jpeg.data[at + 1] != 0xDB)
        at++;
    memset(jpeg.data + at + 5, 255, 64);
    assert_int_equal(pst_pli_from_jpeg(jpeg.data, jpeg.nbytes, NULL, pli, bound, &nbytes, &err),
                     PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "beyond what samples of 8 bits make"));
    free(pli);
    bytes_free(&jpeg);
}

/* A caller whose buffer is a byte smaller than the JPEG wants a smaller PLI. If there is none, the
 * error gives the reason. Its text has no number that depends on the file, because reasons are
 * grouped over many files. */
static void what_would_not_become_smaller_says_so(void **state)
{
    enum { NOISE_NBYTES = 1000000 }; /* DEFLATE adds more to noise than one block saves */
    const struct jpeg_spec spec = {.height = 1, .width = 1, .colours = COLOURS_GRAY, .quality = 90};
    struct bytes small = make_jpeg(&spec, 1);
    struct pst_error err;
    size_t nbytes, room = small.nbytes + NOISE_NBYTES;
    uint8_t *jpeg = malloc(room), *pli = malloc(room);
    uint64_t random = 1;
    (void)state;
    memcpy(jpeg, small.data, small.nbytes);
    for (size_t i = small.nbytes; i < room; i++)
        jpeg[i] = (uint8_t)random_below(&random, 256);
    assert_int_equal(pst_pli_from_jpeg(jpeg, room, NULL, pli, room - 1, &nbytes, &err),
                     PST_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "it would not become smaller"));
    assert_int_equal(pst_pli_from_jpeg(jpeg, room, NULL, pli, room - 2, &nbytes, &err),
                     PST_ERROR_LIMIT);
    assert_null(strstr(err.text, "it would not become smaller"));
    free(pli);
    free(jpeg);
    bytes_free(&small);
}

/* An altered or truncated PLI gives an error, or the same file. */
static void broken_ones_give_no_other_file(void **state)
{
    static const struct jpeg_spec spec = {.height = 70,
                                          .width = 90,
                                          .colours = COLOURS_YCC,
                                          .h = 2,
                                          .v = 1,
                                          .quality = 70,
                                          .restart = 2};
    struct bytes jpeg = make_jpeg(&spec, 8);
    struct pst_error err;
    size_t nbytes, n;
    uint64_t random = 1;
    uint8_t *back = malloc(jpeg.nbytes);
    (void)state;
    for (int no_checksum = 0; no_checksum < 2; no_checksum++) {
        const struct pst_pli_from_jpeg_options options = {.struct_size = sizeof options,
                                                          .no_checksum = no_checksum};
        uint8_t *pli = from_jpeg(&jpeg, &options, &nbytes);
        uint8_t *copy = malloc(nbytes);
        for (size_t at = 0; at < nbytes; at++) {
            memcpy(copy, pli, nbytes);
            copy[at] ^= (uint8_t)(1u << random_below(&random, 8));
            enum pst_status status = pst_pli_to_jpeg(copy, nbytes, back, jpeg.nbytes, &n, &err);
            assert_true(status != PST_OK || (n == jpeg.nbytes && memcmp(back, jpeg.data, n) == 0));
            if (!no_checksum)
                assert_int_not_equal(status, PST_OK);
        }
        for (size_t cut = 0; cut < nbytes; cut += 1 + cut / 30) {
            memcpy(copy, pli, cut);
            assert_int_not_equal(pst_pli_to_jpeg(copy, cut, back, jpeg.nbytes, &n, &err), PST_OK);
        }
        free(copy);
        free(pli);
    }
    free(back);
    bytes_free(&jpeg);
}

static void write_jpeg(void **state, const char *path, const struct jpeg_spec *spec, uint64_t seed)
{
    struct bytes jpeg = make_jpeg(spec, seed);
    folder_file(state, path, jpeg.data, jpeg.nbytes);
    bytes_free(&jpeg);
}

/* Makes two JPEGs, a JPEG that cannot be kept, and a PNG. */
static void make_mixed(void **state, const char *folder)
{
    struct jpeg_spec spec = {.height = 60,
                             .width = 80,
                             .colours = COLOURS_YCC,
                             .h = 2,
                             .v = 2,
                             .quality = 90,
                             .orientation = 6};
    char path[128];
    snprintf(path, sizeof path, "%s/a/0.jpg", folder);
    write_jpeg(state, path, &spec, 1);
    snprintf(path, sizeof path, "%s/a/1.jpg", folder);
    spec.colours = COLOURS_CMYK;
    spec.h = spec.v = 1;
    write_jpeg(state, path, &spec, 2);
    snprintf(path, sizeof path, "%s/b/2.jpg", folder);
    spec.colours = COLOURS_GRAY;
    write_jpeg(state, path, &spec, 3);
    snprintf(path, sizeof path, "%s/b/3.png", folder);
    const struct png_spec plain = {.height = 8, .width = 9, .colour_type = 2, .depth = 8};
    struct bytes png = make_png(&plain, 1);
    folder_file(state, path, png.data, png.nbytes);
    bytes_free(&png);
}

struct told {
    unsigned n;
    char name[64];
    struct pst_error why;
};

static int on_kept(void *ctx, const char *name, const struct pst_error *why)
{
    struct told *told = ctx;
    told->n++;
    snprintf(told->name, sizeof told->name, "%s", name);
    told->why = *why;
    return 0;
}

static int on_kept_stop(void *ctx, const char *name, const struct pst_error *why)
{
    on_kept(ctx, name, why);
    return 1;
}

static void folders_keep_jpegs_so(void **state)
{
    struct told told = {0};
    struct pst_pack_options options = {
        .struct_size = sizeof options, .kept_jpeg = on_kept, .ctx = &told};
    struct pst_pack_report report;
    struct pst_error err;
    static const enum pst_form forms[] = {PST_FORM_PLI_JPEG, PST_FORM_JPEG, PST_FORM_PLI_JPEG,
                                          PST_FORM_PNG};
    make_mixed(state, "f");
    char source[256];
    snprintf(source, sizeof source, "%s", folder_path(state, "f"));
    assert_ok(
        pst_pack(source, folder_path(state, "a.pst"), &options, &report, sizeof report, &err));
    assert_int_equal(report.n_samples, 4);
    assert_int_equal(report.n_pli_jpeg, 2);
    assert_int_equal(report.n_kept_jpeg, 1);
    assert_true(report.pli_jpeg_nbytes < report.jpeg_nbytes);
    assert_int_equal(report.nbytes_in - report.jpeg_nbytes,
                     report.nbytes_out - report.pli_jpeg_nbytes - 4 * sizeof(int64_t)); /* labels */
    assert_int_equal(told.n, 1);
    assert_string_equal(told.name, "a/1.jpg");
    assert_int_equal(told.why.status, PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(told.why.file, "a/1.jpg"));
    pst_dataset *dataset = folder_open(state, "a.pst", NULL),
                *files = folder_open(state, "f", NULL);
    for (uint64_t i = 0; i < 4; i++) {
        struct pst_item item, file;
        struct pst_pli_info head = {0};
        assert_ok(pst_dataset_item(dataset, i, 0, 0, &item, sizeof item, &err));
        assert_ok(pst_dataset_item(files, i, 0, 0, &file, sizeof file, &err));
        assert_int_equal(item.form, forms[i]);
        assert_int_equal(item.jpeg_nbytes, forms[i] == PST_FORM_PLI_JPEG ? file.nbytes : 0);
        if (forms[i] != PST_FORM_PLI_JPEG)
            continue;
        assert_int_equal(item.orientation, 6);
        assert_int_equal(item.height, 80);
        assert_int_equal(item.width, 60);
        uint8_t *pli = malloc(item.nbytes);
        assert_ok(pst_dataset_read(dataset, i, 0, 0, 0, item.nbytes, pli, &err));
        assert_ok(pst_pli_info(pli, item.nbytes, &head, sizeof head, &err));
        assert_true(item.has_pixel_checksum);
        assert_true(item.pixel_checksum == head.pixel_checksum);
        free(pli);
    }
    pst_dataset_close(&dataset);
    pst_dataset_close(&files);
    const struct pst_verify_options verify = {
        .struct_size = sizeof verify, .decode = true, .restore = true};
    assert_ok(pst_verify(folder_path(state, "a.pst"), &verify, NULL, 0, &err));
    /* The callback may end the pack. */
    options.kept_jpeg = on_kept_stop;
    assert_int_equal(
        pst_pack(source, folder_path(state, "b.pst"), &options, &report, sizeof report, &err),
        PST_ERROR_CANCELLED);
}

/* The writer compares index and shard with the PLI's own head. */
static void the_writer_looks_at_them(void **state)
{
    static const struct jpeg_spec spec = {.height = 60,
                                          .width = 80,
                                          .colours = COLOURS_YCC,
                                          .h = 1,
                                          .v = 1,
                                          .quality = 90,
                                          .orientation = 8};
    const struct pst_field field = {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1};
    struct bytes jpeg = make_jpeg(&spec, 1);
    struct pst_error err;
    pst_writer *writer;
    size_t nbytes;
    uint8_t *pli = from_jpeg(&jpeg, NULL, &nbytes);
    struct pst_value value = {.bytes = pli, .nbytes = nbytes, .form = PST_FORM_PLI_JPEG};
    const struct pst_value *list = &value;
    const struct pst_sample sample = {.struct_size = sizeof(struct pst_sample),
                                      .value_nbytes = sizeof(struct pst_value),
                                      .name = "x",
                                      .values = &list};
    assert_ok(pst_writer_open(folder_path(state, "a.pst"), &field, 1, NULL, &writer, &err));
    value.form = PST_FORM_PLI; /* the PLI contains a JPEG, not pixels */
    assert_int_equal(pst_writer_add(writer, &sample, &err), PST_ERROR_UNSUPPORTED);
    value.form = PST_FORM_PLI_JPEG;
    value.has_pixel_checksum = true;
    assert_int_equal(pst_writer_add(writer, &sample, &err), PST_ERROR_CORRUPT);
    value.has_pixel_checksum = false;
    value.nbytes = 60; /* the item is shorter than a PLI's head */
    assert_int_equal(pst_writer_add(writer, &sample, &err), PST_ERROR_TRUNCATED);
    value.nbytes = nbytes;
    value.bytes = jpeg.data;
    assert_int_equal(pst_writer_add(writer, &sample, &err), PST_ERROR_UNSUPPORTED);
    value.bytes = pli;
    assert_ok(pst_writer_add(writer, &sample, &err));
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    pst_dataset *dataset = folder_open(state, "a.pst", NULL);
    struct pst_item item;
    assert_ok(pst_dataset_item(dataset, 0, 0, 0, &item, sizeof item, &err));
    assert_int_equal(item.jpeg_nbytes, jpeg.nbytes);
    assert_int_equal(item.orientation, 8);
    pst_dataset_close(&dataset);
    free(pli);
    bytes_free(&jpeg);
}

/* Packs the 4 samples of `from` into `to`, in the given forms or, if n_forms is 0, in the default
 * form. */
static void repack(void **state, const char *from, const char *to, const enum pst_form *forms,
                   uint32_t n_forms, struct pst_pack_report *report)
{
    const struct pst_pack_options options = {
        .struct_size = sizeof options, .forms = forms, .n_forms = n_forms};
    char source[256];
    struct pst_error err;
    snprintf(source, sizeof source, "%s", folder_path(state, from));
    assert_ok(pst_pack(source, folder_path(state, to), &options, report, sizeof *report, &err));
    assert_int_equal(report->n_samples, 4);
    const struct pst_verify_options verify = {
        .struct_size = sizeof verify, .decode = true, .restore = true};
    assert_ok(pst_verify(folder_path(state, to), &verify, NULL, 0, &err));
}

/* Asserts that variant va of a's images equals variant vb of b's, byte for byte. */
static void assert_same_images(void **state, const char *a, uint32_t va, const char *b, uint32_t vb)
{
    pst_dataset *of_a = folder_open(state, a, NULL), *of_b = folder_open(state, b, NULL);
    struct pst_error err;
    for (uint64_t i = 0; i < 4; i++) {
        struct pst_item item_a, item_b;
        assert_ok(pst_dataset_item(of_a, i, 0, va, &item_a, sizeof item_a, &err));
        assert_ok(pst_dataset_item(of_b, i, 0, vb, &item_b, sizeof item_b, &err));
        assert_string_equal(folder_sample_name(of_a, i), folder_sample_name(of_b, i));
        assert_int_equal(item_a.form, item_b.form);
        assert_int_equal(item_a.nbytes, item_b.nbytes);
        assert_true(item_a.checksum == item_b.checksum);
        assert_int_equal(item_a.orientation, item_b.orientation);
        assert_int_equal(item_a.was_pli, item_b.was_pli);
        assert_int_equal(item_a.jpeg_nbytes, item_b.jpeg_nbytes);
    }
    pst_dataset_close(&of_a);
    pst_dataset_close(&of_b);
}

static void data_sets_become_others(void **state)
{
    static const enum pst_form original[] = {PST_FORM_NONE}, pli[] = {PST_FORM_PLI_JPEG},
                               both[] = {PST_FORM_PLI_JPEG, PST_FORM_NONE},
                               beside_raw[] = {PST_FORM_RAW, PST_FORM_NONE},
                               twice[] = {PST_FORM_NONE, PST_FORM_PLI_JPEG};
    struct pst_pack_report there, back, report;
    make_mixed(state, "f");
    repack(state, "f", "files.pst", original, 1, &report);
    assert_int_equal(report.n_not_original, 0); /* the originals of a folder are its files */
    repack(state, "f", "pli.pst", pli, 1, &report);
    /* By default a JPEG becomes PLI if it can. */
    repack(state, "files.pst", "there.pst", NULL, 0, &there);
    assert_same_images(state, "there.pst", 0, "pli.pst", 0);
    assert_int_equal(there.n_pli_jpeg, 2);
    assert_int_equal(there.n_kept_jpeg, 1);
    assert_int_equal(there.n_restored_jpeg + there.n_not_original, 0);
    /* And back to the JPEG files. */
    repack(state, "there.pst", "back.pst", original, 1, &back);
    assert_same_images(state, "back.pst", 0, "files.pst", 0);
    assert_int_equal(back.n_restored_jpeg, 2);
    assert_int_equal(back.restored_jpeg_nbytes, there.jpeg_nbytes);
    assert_int_equal(back.restored_pli_jpeg_nbytes, there.pli_jpeg_nbytes);
    assert_int_equal(back.n_pli_jpeg + back.n_kept_jpeg + back.n_not_original, 0);
    /* All variants stay, even a JPEG beside its PLI. */
    repack(state, "files.pst", "raw.pst", beside_raw, 2, &report);
    repack(state, "raw.pst", "raw-pli.pst", NULL, 0, &report);
    assert_int_equal(report.n_pli_jpeg, 2);
    assert_same_images(state, "raw-pli.pst", 0, "raw.pst", 0);
    assert_same_images(state, "raw-pli.pst", 1, "pli.pst", 0);
    repack(state, "files.pst", "both.pst", both, 2, &report);
    repack(state, "both.pst", "both-again.pst", NULL, 0, &report);
    assert_int_equal(report.n_pli_jpeg, 0);
    assert_int_equal(report.n_kept_jpeg, 2); /* a field cannot have two variants of one kind */
    assert_same_images(state, "both-again.pst", 0, "pli.pst", 0);
    assert_same_images(state, "both-again.pst", 1, "files.pst", 0);
    /* The original file is a variant after the pixels, and forms are made from both. */
    repack(state, "raw-pli.pst", "out.pst", twice, 2, &report);
    assert_int_equal(report.n_not_original, 0);
    assert_same_images(state, "out.pst", 0, "files.pst", 0);
    assert_same_images(state, "out.pst", 1, "pli.pst", 0);
    /* No variant is left from which the file could be restored. */
    repack(state, "raw.pst", "pixels.pst", beside_raw, 1, &report);
    repack(state, "pixels.pst", "pixels-again.pst", original, 1, &report);
    assert_int_equal(report.n_not_original, 4);
    assert_same_images(state, "pixels-again.pst", 0, "raw.pst", 0);
}

/* Each variant becomes the PLI of its own JPEG. */
static void variants_may_be_different_files(void **state)
{
    static const struct jpeg_spec spec = {
        .height = 60, .width = 80, .colours = COLOURS_YCC, .h = 1, .v = 1, .quality = 90};
    const struct pst_field field = {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 3};
    struct bytes jpegs[3];
    struct pst_value values[3] = {0};
    struct pst_error err;
    pst_writer *writer;
    for (unsigned v = 0; v < 3; v++) {
        jpegs[v] = make_jpeg(&spec, 10 + v);
        values[v].bytes = jpegs[v].data;
        values[v].nbytes = jpegs[v].nbytes;
        values[v].form = PST_FORM_JPEG;
    }
    const struct pst_value *list = values;
    assert_ok(pst_writer_open(folder_path(state, "a.pst"), &field, 1, NULL, &writer, &err));
    for (unsigned i = 0; i < 4; i++) {
        const struct pst_sample sample = {.struct_size = sizeof(struct pst_sample),
                                          .value_nbytes = sizeof(struct pst_value),
                                          .name = (const char[]){(char)('a' + i), 0},
                                          .values = &list};
        assert_ok(pst_writer_add(writer, &sample, &err));
    }
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    struct pst_pack_report report;
    repack(state, "a.pst", "b.pst", NULL, 0, &report);
    assert_int_equal(report.n_pli_jpeg, 12);
    pst_dataset *dataset = folder_open(state, "b.pst", NULL);
    for (uint64_t k = 0; k < 12; k++) {
        const struct bytes *jpeg = &jpegs[k % 3];
        struct pst_item item;
        size_t nbytes;
        assert_ok(pst_dataset_item(dataset, k / 3, 0, (uint32_t)(k % 3), &item, sizeof item, &err));
        assert_int_equal(item.jpeg_nbytes, jpeg->nbytes);
        uint8_t *pli = malloc(item.nbytes), *back = malloc(jpeg->nbytes);
        assert_ok(
            pst_dataset_read(dataset, k / 3, 0, (uint32_t)(k % 3), 0, item.nbytes, pli, &err));
        assert_ok(pst_pli_to_jpeg(pli, item.nbytes, back, jpeg->nbytes, &nbytes, &err));
        assert_int_equal(nbytes, jpeg->nbytes);
        assert_memory_equal(back, jpeg->data, nbytes);
        free(pli);
        free(back);
    }
    pst_dataset_close(&dataset);
    for (unsigned v = 0; v < 3; v++)
        bytes_free(&jpegs[v]);
}

static void a_data_set_is_not_packed_into_itself(void **state)
{
    static const char *const inside[] = {"a.pst", "a.pst/", "a.pst/b.pst", "a.pst/no/b.pst",
                                         "a.pst/../a.pst"};
    const enum pst_writer_mode modes[] = {PST_WRITER_CREATE, PST_WRITER_RESUME, PST_WRITER_APPEND};
    struct pst_pack_report report;
    struct pst_error err;
    char source[256];
    make_mixed(state, "f");
    repack(state, "f", "a.pst", NULL, 0, &report);
    snprintf(source, sizeof source, "%s", folder_path(state, "a.pst"));
    for (unsigned i = 0; i < 5; i++)
        for (unsigned m = 0; m < 3; m++) {
            const struct pst_writer_options writer = {.struct_size = sizeof writer,
                                                      .mode = modes[m]};
            const struct pst_pack_options options = {.struct_size = sizeof options,
                                                     .writer = &writer};
            assert_int_equal(
                pst_pack(source, folder_path(state, inside[i]), &options, NULL, 0, &err),
                PST_ERROR_ARGUMENT);
            assert_string_equal(err.dataset, folder_path(state, inside[i]));
        }
    repack(state, "a.pst", "a.pst/../b.pst", NULL, 0, &report); /* beside the source */
    repack(state, "a.pst", "a.pst2", NULL, 0, &report);
    repack(state, "f", "f/c.pst", NULL, 0, &report); /* a folder may contain the data set */
}

#ifdef PST_FAULTS
/* Lets the n-th operation of a kind fail until all succeed. Each failure gives a clean error, no
 * leak, and a pack that can be resumed to the same data set. */
static void fail_everywhere(void **state, const char *from, const enum pst_form *forms,
                            uint32_t n_forms)
{
    static const enum psti_fault_kind kinds[] = {PSTI_FAULT_ALLOC, PSTI_FAULT_READ,
                                                 PSTI_FAULT_WRITE};
    static const struct pst_writer_options resuming = {.struct_size = sizeof resuming,
                                                       .mode = PST_WRITER_RESUME};
    struct pst_memory_stats before, after;
    char source[256], name[32], whole_name[32];
    struct pst_error err;
    snprintf(source, sizeof source, "%s", folder_path(state, from));
    snprintf(whole_name, sizeof whole_name, "%s-whole.pst", from);
    struct pst_pack_options options = {
        .struct_size = sizeof options, .num_workers = 1, .forms = forms, .n_forms = n_forms};
    assert_ok(pst_pack(source, folder_path(state, whole_name), &options, NULL, 0, &err));
    pst_memory_stats(&before, sizeof before);
    for (unsigned k = 0; k < 3; k++) {
        enum pst_status status = PST_ERROR_MEMORY;
        for (uint64_t n = 1; status != PST_OK; n += 1 + n / 16) {
            options.writer = NULL;
            snprintf(name, sizeof name, "%s-%u-%u.pst", from, k, (unsigned)n);
            psti_fault_arm(kinds[k], n, false);
            status = pst_pack(source, folder_path(state, name), &options, NULL, 0, &err);
            psti_fault_arm(kinds[k], 0, false);
            pst_memory_stats(&after, sizeof after);
            assert_int_equal(after.live_nbytes, before.live_nbytes);
            assert_true(n < 100000);
            options.writer = &resuming;
            pst_dataset *dataset = NULL;
            if (status != PST_OK &&
                pst_dataset_open(folder_path(state, name), NULL, &dataset, NULL) != PST_OK)
                assert_ok(pst_pack(source, folder_path(state, name), &options, NULL, 0, &err));
            pst_dataset_close(&dataset);
            const struct pst_verify_options verify = {
                .struct_size = sizeof verify, .decode = true, .restore = true};
            assert_ok(pst_verify(folder_path(state, name), &verify, NULL, 0, &err));
            assert_same_images(state, name, 0, whole_name, 0);
        }
    }
}

static void every_failure_is_clean(void **state)
{
    static const enum pst_form original[] = {PST_FORM_NONE};
    struct pst_pack_report report;
    make_mixed(state, "f");
    fail_everywhere(state, "f", NULL, 0);
    repack(state, "f", "files", original, 1, &report);
    fail_everywhere(state, "files", NULL, 0);
    repack(state, "f", "pli", NULL, 0, &report);
    fail_everywhere(state, "pli", original, 1);
}

static void single_files_fail_clean(void **state)
{
    static const struct jpeg_spec spec = {
        .height = 60, .width = 80, .colours = COLOURS_YCC, .h = 2, .v = 2, .quality = 90};
    struct bytes jpeg = make_jpeg(&spec, 1);
    struct pst_memory_stats before, after;
    struct pst_error err;
    size_t nbytes, n_back;
    uint8_t *pli = from_jpeg(&jpeg, NULL, &nbytes), *back = malloc(jpeg.nbytes);
    (void)state;
    pst_memory_stats(&before, sizeof before);
    for (int to = 0; to < 3; to++) {
        enum pst_status status = PST_ERROR_MEMORY;
        for (uint64_t n = 1; status != PST_OK; n++) {
            psti_fault_arm(PSTI_FAULT_ALLOC, n, false);
            status = to == 2   ? pst_pli_to_jpeg(pli, nbytes, back, jpeg.nbytes, &n_back, &err)
                     : to == 1 ? pst_pli_to_jpeg_head(pli, nbytes, back, jpeg.nbytes, &n_back, &err)
                               : pst_pli_from_jpeg(jpeg.data, jpeg.nbytes, NULL, pli, nbytes,
                                                   &n_back, &err);
            psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
            assert_true(status == PST_OK || status == PST_ERROR_MEMORY);
            pst_memory_stats(&after, sizeof after);
            assert_int_equal(after.live_nbytes, before.live_nbytes);
            assert_true(n < 100);
        }
    }
    assert_memory_equal(back, jpeg.data, jpeg.nbytes);
    free(back);
    free(pli);
    bytes_free(&jpeg);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_comes_back),
        cmocka_unit_test(bytes_around_the_image_come_back),
        cmocka_unit_test(what_is_not_taken_is_refused),
        cmocka_unit_test(coefficients_beyond_samples_are_refused),
        cmocka_unit_test(what_would_not_become_smaller_says_so),
        cmocka_unit_test(broken_ones_give_no_other_file),
        cmocka_unit_test_setup_teardown(folders_keep_jpegs_so, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(the_writer_looks_at_them, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(data_sets_become_others, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(variants_may_be_different_files, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(a_data_set_is_not_packed_into_itself, folder_setup,
                                        folder_teardown),
#ifdef PST_FAULTS
        cmocka_unit_test_setup_teardown(every_failure_is_clean, folder_setup, folder_teardown),
        cmocka_unit_test(single_files_fail_clean),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
