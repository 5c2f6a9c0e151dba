/* test_decode_racing.c - changes bytes while they are decoded. A decode may fail or give wrong
 * pixels, but never accesses memory that is not its own, which AddressSanitizer checks: buffers
 * have exactly the length of the file. Once the bytes stay the same, the file decodes as before. */
#include "decode_fixture.h"
#include "pixels.h"
#include "png_make.h"
#include "racer.h"

#include "base/bits.h"
#include "base/checked.h"
#include "base/machine/cpu.h"
#include "pli/pli.h"

#include <penstock/pli.h>

#include <stdlib.h>

static enum pst_status drop_rows(void *ctx, const void *rows, size_t row_nbytes, uint32_t y,
                                 uint32_t n_rows)
{
    (void)ctx;
    (void)rows;
    (void)row_nbytes;
    (void)y;
    (void)n_rows;
    return PST_OK;
}

static enum pst_status decode(const struct bytes *file)
{
    const struct pst_decode_options options = {.struct_size = sizeof options,
                                               .max_pixels = 1 << 20};
    struct pst_image_info info;
    struct psti_pli_header pli = {0};
    struct pst_error err;
    enum pst_status status =
        psti_decode_probe_pli(file->data, file->nbytes, PST_FORM_NONE, &options, &info, &pli, &err);
    const struct psti_rect whole = {0, 0, info.height, info.width};
    bool is_pli = status == PST_OK && (info.form == PST_FORM_PLI || info.form == PST_FORM_PLI_JPEG);
    if (status == PST_OK)
        status =
            psti_decode_rows_scaled(decoder, file->data, file->nbytes, &info, is_pli ? &pli : NULL,
                                    &options, 0, &whole, drop_rows, NULL, &err);
    return status;
}

/* Probes and decodes the file `n` times while the bytes from..from + n_raced - 1 change. */
static void race(const struct bytes *file, size_t from, size_t n_raced, int n)
{
    struct racer racer;
    racer_start(&racer, file->data + from, n_raced);
    for (int i = 0; i < n; i++)
        (void)decode(file);
    racer_stop(&racer);
    assert_int_equal(decode(file), PST_OK);
}

/* Chunk lengths are read when the stream is measured, and again when the chunks are joined. */
static void test_png_chunks(void **state)
{
    struct png_parts parts = make_parts(300, 300, 2, 8, FILTER_MIXED, 1);
    struct bytes file = make_file(&parts, 512);
    (void)state;
    race(&file, find_chunk(&file, "IDAT", 200), 4, 400);
    race(&file, find_chunk(&file, "IDAT", 2), 4, 100);
    race(&file, 0, file.nbytes, 200);
    bytes_free(&file);
    parts_free(&parts);
}

static void test_png_kinds(void **state)
{
    static const struct png_spec specs[] = {
        {70, 90, 3, 8, .trns = true, .n_palette = 200},
        {70, 90, 3, 4, .n_palette = 16},
        {70, 90, 2, 8, .interlaced = true},
        {70, 90, 6, 16, .trns = false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct bytes file = make_png(&specs[i], i);
        race(&file, 0, file.nbytes < 400 ? file.nbytes : 400, 200);
        bytes_free(&file);
    }
}

static void test_jpeg(void **state)
{
    static const struct jpeg_spec specs[] = {
        {70, 90, COLOURS_YCC, .h = 2, .v = 2, .quality = 80, .orientation = 6},
        {70, 90, COLOURS_YCC, .h = 1, .v = 1, .quality = 80, .progressive = true},
        {70, 90, COLOURS_CMYK, .h = 1, .v = 1, .quality = 80, .restart = 3},
    };
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct bytes file = make_jpeg(&specs[i], i);
        race(&file, 0, 700, 200);
        race(&file, 0, file.nbytes, 200);
        bytes_free(&file);
    }
}

/* -- Tests of PLI -- */

enum { EDGE = 130 };

/* Makes a PLI of a photograph, a label map or noise. Its units have no checksums, so changed units
 * are decoded. */
static struct bytes make_pli(uint8_t channels, uint8_t bits, enum pst_pli_tier tier, bool labels)
{
    struct pst_error err;
    const struct pst_pli_encode_options options = {
        .struct_size = sizeof options, .tier = tier, .no_checksum = true};
    uint8_t *samples = make_picture(EDGE, EDGE, channels * (bits / 8u), 7);
    for (size_t i = 0; labels && i < (size_t)EDGE * EDGE * channels; i++)
        samples[i] = (uint8_t)(samples[i] / 64 + i / 5000);
    const struct pst_pixels pixels = test_pixels(samples, EDGE, EDGE, channels, bits);
    size_t bound = pst_pli_encode_bound(EDGE, EDGE, channels, bits);
    struct bytes room = {malloc(bound), 0};
    assert_ok(pst_pli_encode(&pixels, &options, room.data, bound, &room.nbytes, &err));
    struct bytes file = {malloc(room.nbytes), room.nbytes};
    memcpy(file.data, room.data, room.nbytes);
    free(room.data);
    free(samples);
    return file;
}

static void race_pli(const struct bytes *file, uint32_t cpu, size_t from, int n)
{
    struct pst_pli_info info = {0};
    struct pst_error err;
    struct racer racer;
    assert_ok(pst_pli_info(file->data, file->nbytes, &info, sizeof info, &err));
    size_t scratch_nbytes = psti_round_up(pst_pli_scratch_nbytes(&info, sizeof info), 64);
    size_t total = (size_t)EDGE * EDGE * info.channels * (info.bits / 8u);
    void *scratch = aligned_alloc(64, scratch_nbytes);
    uint8_t *first = malloc(total), *last = malloc(total);
    const struct pst_pixels a = test_pixels(first, EDGE, EDGE, info.channels, info.bits);
    const struct pst_pixels b = test_pixels(last, EDGE, EDGE, info.channels, info.bits);
    assert_ok(psti_pli_decode_on(cpu, file->data, file->nbytes, NULL, -1, &a, scratch,
                                 scratch_nbytes, &err));
    racer_start(&racer, file->data + from, file->nbytes - from);
    for (int i = 0; i < n; i++) {
        struct pst_pli_info other = {0};
        enum pst_status ignored =
            pst_pli_info(file->data, file->nbytes, &other, sizeof other, &err);
        (void)ignored;
        (void)psti_pli_decode_on(cpu, file->data, file->nbytes, NULL, -1, &b, scratch,
                                 scratch_nbytes, &err);
    }
    racer_stop(&racer);
    assert_ok(psti_pli_decode_on(cpu, file->data, file->nbytes, NULL, -1, &b, scratch,
                                 scratch_nbytes, &err));
    assert_memory_equal(first, last, total);
    free(first);
    free(last);
    free(scratch);
}

static void test_pli(void **state)
{
    static const struct {
        uint8_t channels, bits;
        enum pst_pli_tier tier;
        bool labels;
    } kinds[] = {
        {3, 8, PST_PLI_TIER_FAST, false},   {1, 16, PST_PLI_TIER_FAST, false},
        {4, 8, PST_PLI_TIER_SMALL, false},  {3, 16, PST_PLI_TIER_SMALL, false},
        {3, 8, PST_PLI_TIER_DENSE, false},  {1, 8, PST_PLI_TIER_DENSE, false},
        {1, 8, PST_PLI_TIER_DEFAULT, true}, {3, 8, PST_PLI_TIER_DEFAULT, true},
        {1, 8, PST_PLI_TIER_FAST, true},
    };
    const uint32_t levels[] = {0, psti_cpu_detected()};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct bytes file =
            make_pli(kinds[i].channels, kinds[i].bits, kinds[i].tier, kinds[i].labels);
        for (size_t level = 0; level < 2; level++) {
            race_pli(&file, levels[level], file.nbytes / 2, 60);
            race_pli(&file, levels[level], 40, 40);
        }
        bytes_free(&file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_png_chunks),
        cmocka_unit_test(test_png_kinds),
        cmocka_unit_test(test_jpeg),
        cmocka_unit_test(test_pli),
    };
    return cmocka_run_group_tests(tests, open_decoder, close_decoder);
}
