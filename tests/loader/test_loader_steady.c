/* test_loader_steady.c - after a warm-up, no epoch allocates memory, for every form of image,
 * masks, rows that differ in size, images of very different sizes, and each number of workers.
 *
 * libwebp allocates memory for each picture and ignores the allocator's hooks. With WebP only
 * the library's own allocations are counted. */
#include "loader/loader_fixture.h"
#include "sanitizer.h"
#include "test.h"

#include <penstock/pli.h>

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef PST_HAVE_WEBP
#include <webp/encode.h>
#endif

/* Counts every call of malloc and its relatives in this process, including those of codecs.
 * Sanitizers bring their own malloc, so with them the count stays 0, and the library's own counter
 * is compared. */
static atomic_ulong n_malloc;
#if !TEST_SANITIZED
#define EXPORTED __attribute__((visibility("default"))) /* so shared libraries call it too */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
EXPORTED void *malloc(size_t n)
{
    atomic_fetch_add(&n_malloc, 1);
    return __libc_malloc(n);
}
EXPORTED void *calloc(size_t n, size_t size)
{
    atomic_fetch_add(&n_malloc, 1);
    return __libc_calloc(n, size);
}
EXPORTED void *realloc(void *memory, size_t n)
{
    atomic_fetch_add(&n_malloc, 1);
    return __libc_realloc(memory, n);
}
EXPORTED void *memalign(size_t alignment, size_t n)
{
    atomic_fetch_add(&n_malloc, 1);
    return __libc_memalign(alignment, n);
}
EXPORTED int posix_memalign(void **memory, size_t alignment, size_t n)
{
    atomic_fetch_add(&n_malloc, 1);
    *memory = __libc_memalign(alignment, n);
    return *memory ? 0 : 12;
}
#endif

enum { N_SAMPLES = 36, N_LARGE = 2, N_EACH = 2, N_FIELDS = 7 };
/* Sanitizers check threads and memory, which are the same in each epoch, so few epochs are
 * enough. */
enum { N_WARM = TEST_TSAN ? 2 : 4, N_WINDOWS = TEST_SANITIZED ? 1 : 6 };

/* Two pictures are much larger than the others. Which worker gets them depends on chance. */
static void size_of(uint32_t i, uint32_t *height, uint32_t *width)
{
    bool large = i % (N_SAMPLES / N_LARGE) == 5;
    *height = large ? 700 : 60 + i * 7 % 70;
    *width = large ? 900 : 50 + i * 13 % 90;
}

static uint8_t *encode_pli(const uint8_t *pixels, uint32_t height, uint32_t width,
                           uint32_t channels, enum pst_pli_tier tier, size_t *nbytes)
{
    struct pst_error err;
    struct pst_pli_encode_options options = {.struct_size = sizeof options, .tier = tier};
    const struct pst_pixels picture = {.data = (void *)(uintptr_t)pixels,
                                       .height = height,
                                       .width = width,
                                       .channels = (uint8_t)channels,
                                       .bits = 8,
                                       .row_nbytes = (int64_t)width * channels,
                                       .pixel_nbytes = channels,
                                       .channel_nbytes = 1};
    size_t bound = pst_pli_encode_bound(height, width, (uint8_t)channels, 8);
    uint8_t *bytes = malloc(bound);
    assert_ok(pst_pli_encode(&picture, &options, bytes, bound, nbytes, &err));
    return bytes;
}

enum kind { RAW, PNG, JPEG, MIXED, SMALL, FAST, DENSE, WEBP_LOSSY, WEBP_LOSSLESS, PLI_JPEG, KINDS };

static uint8_t *encode(enum kind kind, const uint8_t *pixels, uint32_t height, uint32_t width,
                       struct pst_value *value)
{
    uint8_t *bytes = NULL;
    *value = (struct pst_value){.form = PST_FORM_PLI};
    switch (kind) {
    case RAW:
        *value = (struct pst_value){
            .form = PST_FORM_RAW, .height = height, .width = width, .channels = 3, .bits = 8};
        value->nbytes = (size_t)height * width * 3;
        bytes = malloc(value->nbytes);
        memcpy(bytes, pixels, value->nbytes);
        break;
    case PNG:
        value->form = PST_FORM_PNG;
        bytes = encode_png(pixels, height, width, 3, &value->nbytes);
        break;
    case JPEG:
    case PLI_JPEG: /* packed as PLI below */
        value->form = PST_FORM_JPEG;
        bytes = encode_jpeg(pixels, height, width, &value->nbytes);
        break;
#ifdef PST_HAVE_WEBP
    case WEBP_LOSSY:
        value->form = PST_FORM_WEBP;
        value->nbytes = WebPEncodeRGB(pixels, (int)width, (int)height, (int)width * 3, 70, &bytes);
        break;
    case WEBP_LOSSLESS:
        value->form = PST_FORM_WEBP;
        value->nbytes =
            WebPEncodeLosslessRGB(pixels, (int)width, (int)height, (int)width * 3, &bytes);
        break;
#endif
    default:
        bytes = encode_pli(pixels, height, width, 3,
                           kind == FAST    ? PST_PLI_TIER_FAST
                           : kind == DENSE ? PST_PLI_TIER_DENSE
                                           : PST_PLI_TIER_SMALL,
                           &value->nbytes);
    }
    value->bytes = bytes;
    return bytes;
}

/* Encodes a label map with large areas, which PLI stores with its lz coder. */
static uint8_t *encode_mask(uint32_t i, uint32_t height, uint32_t width, struct pst_value *value)
{
    uint8_t *classes = malloc((size_t)height * width);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            classes[(size_t)y * width + x] = (uint8_t)((y / 11 + x / 17 * 3 + i) % 7);
    *value = (struct pst_value){.form = i % 2 ? PST_FORM_PNG : PST_FORM_PLI};
    uint8_t *bytes =
        i % 2 ? encode_png(classes, height, width, 1, &value->nbytes)
              : encode_pli(classes, height, width, 1, PST_PLI_TIER_SMALL, &value->nbytes);
    value->bytes = bytes;
    free(classes);
    return bytes;
}

static void add(pst_writer *writer, enum kind kind, uint32_t i)
{
    struct pst_value v[N_FIELDS];
    uint32_t height, width, n = i % 9;
    memset(v, 0, sizeof v);
    size_of(i, &height, &width);
    uint8_t *pixels = malloc((size_t)height * width * 3);
    make_pixels(i, height, width, pixels);
    for (size_t k = 0; k < (size_t)height * width; k++) /* noise, which is harder to encode */
        pixels[k * 3] = (uint8_t)(pixels[k * 3] + k * k % 23);
    uint8_t *image =
        encode(kind == MIXED ? (enum kind)(i % 3) : kind, pixels, height, width, &v[0]);
    uint8_t *mask = encode_mask(i, height, width, &v[1]);
    free(pixels);
    float boxes[8][4];
    int16_t table[8][3];
    char text[400], json[400];
    for (uint32_t k = 0; k < 8; k++)
        for (uint32_t c = 0; c < 4; c++) {
            boxes[k][c] = (float)(c < 2 ? k * 3 + 1 : 12 + k * 4);
            table[k][c % 3] = (int16_t)(i + k);
        }
    v[2] = (struct pst_value){.bytes = boxes, .nbytes = n * sizeof boxes[0]};
    v[2].nbytes = n < 8 ? v[2].nbytes : sizeof boxes;
    v[3] = (struct pst_value){.bytes = table,
                              .nbytes = (1 + i % 8) * sizeof table[0],
                              .ndim = 2,
                              .shape = {1 + i % 8, 3}};
    v[4] = (struct pst_value){.bytes = text};
    v[4].nbytes = (size_t)snprintf(text, sizeof text, "%0*u", (int)(1 + i * 31 % 300), i);
    v[5] = (struct pst_value){.bytes = json};
    v[5].nbytes =
        (size_t)snprintf(json, sizeof json, "{\"id\": \"%0*u\"}", (int)(1 + i * 17 % 200), i);
    int64_t label = i;
    v[6] = (struct pst_value){.bytes = &label, .nbytes = sizeof label};
    const struct pst_value *values[N_FIELDS];
    for (int k = 0; k < N_FIELDS; k++)
        values[k] = &v[k];
    char name[16];
    snprintf(name, sizeof name, "%04u", i);
    add_sample(writer, name, values);
    free(image);
    free(mask);
}

static pst_dataset *make(enum kind kind)
{
    static const struct pst_field fields[N_FIELDS] = {
        {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1},
        {.name = "mask", .type = PST_FIELD_MASK, .n_variants = 1},
        {.name = "boxes", .type = PST_FIELD_BOXES, .n_variants = 1},
        {.name = "table", .type = PST_FIELD_ARRAY, .dtype = PST_DTYPE_I16, .n_variants = 1},
        {.name = "text", .type = PST_FIELD_TEXT, .n_variants = 1},
        {.name = "json", .type = PST_FIELD_JSON, .n_variants = 1},
        {.name = "label", .type = PST_FIELD_INT, .n_variants = 1},
    };
    char path[128], packed[128];
    struct pst_error err;
    pst_writer *writer;
    pst_dataset *dataset;
    snprintf(path, sizeof path, "%s/kind%d", directory, kind);
    assert_ok(pst_writer_open(path, fields, N_FIELDS, NULL, &writer, &err));
    for (uint32_t i = 0; i < N_SAMPLES; i++)
        add(writer, kind, i);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
    if (kind == PLI_JPEG) {
        enum pst_form form = PST_FORM_PLI_JPEG;
        struct pst_pack_options options = {
            .struct_size = sizeof options, .forms = &form, .n_forms = 1, .num_workers = 1};
        struct pst_pack_report report;
        snprintf(packed, sizeof packed, "%s/packed", directory);
        assert_ok(pst_pack(path, packed, &options, &report, sizeof report, &err));
        assert_int_equal(report.n_pli_jpeg, N_SAMPLES);
        memcpy(path, packed, sizeof path);
    }
    assert_ok(pst_dataset_open(path, NULL, &dataset, &err));
    return dataset;
}

static void go_through(pst_loader *loader, uint64_t epoch)
{
    struct pst_error err;
    pst_batch *batch, *kept = NULL;
    enum pst_status status;
    assert_ok(pst_loader_begin(loader, epoch, &err));
    while ((status = pst_loader_next(loader, &batch, &err)) == PST_OK) {
        /* as in a training loop, a batch is in use while the next one is prepared */
        pst_batch_release(kept);
        kept = batch;
    }
    pst_batch_release(kept);
    if (status != PST_END)
        assert_ok(status);
}

/* After the warm-up, every window of epochs must be free of allocations, not just the best one. */
static void assert_steady(pst_dataset *dataset, const struct pst_loader_options *options,
                          bool own_only)
{
    struct pst_memory_stats before, after;
    pst_loader *loader = open_loader(dataset, options);
    for (uint64_t epoch = 0; epoch < N_WARM; epoch++)
        go_through(loader, epoch);
    usleep(20000); /* idle workers get as much scratch as other workers needed */
    for (uint64_t window = 0; window < N_WINDOWS; window++) {
        pst_memory_stats(&before, sizeof before);
        unsigned long n = atomic_load(&n_malloc);
        for (uint64_t i = 0; i < N_EACH; i++)
            go_through(loader, N_WARM + window * N_EACH + i);
        n = atomic_load(&n_malloc) - n;
        pst_memory_stats(&after, sizeof after);
        if (after.n_alloc != before.n_alloc || (n && !own_only))
            print_message("window %u, %u workers: %llu allocations, %lu of malloc\n",
                          (unsigned)window, options->num_workers,
                          (unsigned long long)(after.n_alloc - before.n_alloc), n);
        assert_int_equal(after.n_alloc, before.n_alloc);
        assert_true(after.live_nbytes == before.live_nbytes);
        assert_true(own_only || n == 0);
    }
    pst_loader_close(&loader);
}

static void check(pst_dataset *dataset, bool with_jitter, bool own_only)
{
    struct pst_op ops[4];
    pst_op_init(&ops[0], sizeof ops[0], PST_OP_RANDOM_RESIZED_CROP);
    ops[0].height = ops[0].width = 48;
    pst_op_init(&ops[1], sizeof ops[1], PST_OP_HORIZONTAL_FLIP);
    pst_op_init(&ops[2], sizeof ops[2], PST_OP_COLOR_JITTER);
    ops[2].brightness[0] = 0.6f;
    ops[2].brightness[1] = 1.4f;
    const struct pst_field_output outputs[N_FIELDS] = {
        {.name = "image", .ops = ops, .n_ops = with_jitter ? 3 : 2},
        {.name = "mask"},
        {.name = "boxes", .min_area = 4, .min_visibility = 0.2f},
        {.name = "table", .per_box_of = ""},
        {.name = "text"},
        {.name = "json"},
        {.name = "label"},
    };
    for (uint32_t workers = 0; workers <= 3; workers++)
        for (int memory = 0; memory < 2; memory++) {
            struct pst_loader_options options = {.struct_size = sizeof options,
                                                 .batch_size = 8,
                                                 .order = PST_ORDER_SHUFFLED,
                                                 .num_workers = workers,
                                                 .storage =
                                                     memory ? PST_STORAGE_MEMORY : PST_STORAGE_AUTO,
                                                 .fields = outputs,
                                                 .n_fields = N_FIELDS,
                                                 TEST_ELEMENT_SIZES};
            assert_steady(dataset, &options, own_only);
        }
}

static void run_kind(enum kind kind)
{
#ifndef PST_HAVE_WEBP
    if (kind == WEBP_LOSSY || kind == WEBP_LOSSLESS)
        skip();
#endif
    pst_dataset *dataset = make(kind);
    check(dataset, kind == MIXED, kind == WEBP_LOSSY || kind == WEBP_LOSSLESS);
    pst_dataset_close(&dataset);
}

#define TEST_KIND(name, kind)                                                                      \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_kind(kind);                                                                            \
    }
TEST_KIND(test_raw, RAW)
TEST_KIND(test_png, PNG)
TEST_KIND(test_jpeg, JPEG)
TEST_KIND(test_mixed, MIXED)
TEST_KIND(test_pli_small, SMALL)
TEST_KIND(test_pli_fast, FAST)
TEST_KIND(test_pli_dense, DENSE)
TEST_KIND(test_webp_lossy, WEBP_LOSSY)
TEST_KIND(test_webp_lossless, WEBP_LOSSLESS)
TEST_KIND(test_pli_jpeg, PLI_JPEG)

static void test_folder(void **state)
{
    (void)state;
    pst_dataset *folder = open_made_folder(directory, "folder", 3, 15);
    struct augmented kept;
    struct pst_loader_options options = augmented_options(&kept, 32, 32);
    options.n_fields = 1;
    options.field_nbytes = sizeof(struct pst_field_output);
    options.op_nbytes = sizeof(struct pst_op);
    for (uint32_t workers = 0; workers <= 3; workers++)
        for (int memory = 0; memory < 2; memory++) {
            options.num_workers = workers;
            options.storage = memory ? PST_STORAGE_MEMORY : PST_STORAGE_AUTO;
            assert_steady(folder, &options, false);
        }
    pst_dataset_close(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_raw),           cmocka_unit_test(test_png),
        cmocka_unit_test(test_jpeg),          cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_pli_small),     cmocka_unit_test(test_pli_fast),
        cmocka_unit_test(test_pli_dense),     cmocka_unit_test(test_webp_lossy),
        cmocka_unit_test(test_webp_lossless), cmocka_unit_test(test_pli_jpeg),
        cmocka_unit_test(test_folder),
    };
    alarm(900);
    return cmocka_run_group_tests(tests, directory_set_up, directory_tear_down);
}
