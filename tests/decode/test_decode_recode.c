/* test_decode_recode.c - tests how a cache re-codes an image: each form has the stored image's
 * pixels, channels, bits and orientation; a form leaves images alone that it is not for; no more
 * memory is allocated than allowed. */
#include "../decode/decode_make.h"

#include "decode/decode_recode.h"

#include "base/hash.h"

#include <penstock/penstock.h>

#include <stdlib.h>

enum { MIB = 1 << 20, N_FILES = 9 };

/* Memory of the library: allocated now, and the peak. */
static size_t live, most;

static void *count_alloc(void *ctx, size_t alignment, size_t nbytes)
{
    (void)ctx;
    live += nbytes;
    most = live > most ? live : most;
    return aligned_alloc(alignment, (nbytes + alignment - 1) / alignment * alignment);
}

static void count_free(void *ctx, void *memory, size_t nbytes)
{
    (void)ctx;
    live -= nbytes;
    free(memory);
}

/* What a file becomes: its form under each of the cache's forms, and whether an orientation is
 * recorded. */
struct kind {
    struct bytes file;
    enum pst_form forms[PSTI_RECODE_N_FORMS]; /* NONE: the file is left alone */
    uint32_t height, width;
};

static struct kind kinds[N_FILES];

static void make_kinds(void)
{
    const struct jpeg_spec photo = {.height = 301,
                                    .width = 203,
                                    .colours = COLOURS_YCC,
                                    .h = 2,
                                    .v = 2,
                                    .quality = 90,
                                    .orientation = 6},
                           gray = {.height = 64,
                                   .width = 129,
                                   .colours = COLOURS_GRAY,
                                   .h = 1,
                                   .v = 1,
                                   .quality = 80};
    static const struct png_spec pngs[] = {
        {.height = 90, .width = 200, .colour_type = 2, .depth = 8},
        {.height = 70, .width = 65, .colour_type = 0, .depth = 16},
        {.height = 33, .width = 64, .colour_type = 6, .depth = 8},
        {.height = 128, .width = 128, .colour_type = 4, .depth = 8},
        {.height = 50, .width = 77, .colour_type = 2, .depth = 16, .interlaced = true},
        {.height = 20, .width = 30, .colour_type = 3, .depth = 8, .n_palette = 17},
        {.height = 1, .width = 1, .colour_type = 2, .depth = 8}};
    const enum pst_form of_jpeg[] = {PST_FORM_PLI_JPEG, PST_FORM_PLI_JPEG, PST_FORM_PLI_JPEG,
                                     PST_FORM_RAW},
                        of_png[] = {PST_FORM_NONE, PST_FORM_PLI, PST_FORM_PLI, PST_FORM_RAW};
    kinds[0] = (struct kind){make_jpeg(&photo, 1), {0}, 301, 203};
    kinds[1] = (struct kind){make_jpeg(&gray, 2), {0}, 64, 129};
    memcpy(kinds[0].forms, of_jpeg, sizeof of_jpeg);
    memcpy(kinds[1].forms, of_jpeg, sizeof of_jpeg);
    for (size_t i = 0; i < sizeof pngs / sizeof *pngs; i++) {
        kinds[2 + i] = (struct kind){make_png(&pngs[i], i), {0}, pngs[i].height, pngs[i].width};
        if (pngs[i].colour_type != 3)
            memcpy(kinds[2 + i].forms, of_png, sizeof of_png);
    }
}

static const struct pst_decode_options plain = {.struct_size = sizeof plain};

static uint64_t hash_pixels(struct psti_decoder *decoder, const void *bytes, uint64_t nbytes,
                            enum pst_form form, struct pst_image_info *info)
{
    struct pst_error err;
    uint64_t hash = 0;
    assert_ok(psti_decode_probe(decoder, bytes, nbytes, form, &plain, info, &err));
    assert_ok(psti_decode_hash_pixels(decoder, bytes, nbytes, info, &plain, &hash, &err));
    return hash;
}

/* Returns a hash of the pixels as shown, and of size and kind of a re-coded image. */
static uint64_t hash_recoded(struct psti_decoder *decoder, const struct psti_recoded *recoded,
                             struct pst_image_info *info)
{
    const void *pixels = recoded->bytes;
    uint64_t nbytes = recoded->nbytes;
    if (recoded->form == PST_FORM_RAW)
        assert_true(psti_decode_recode_raw(recoded->bytes, recoded->nbytes, &plain, info, &pixels,
                                           &nbytes));
    if (recoded->form != PST_FORM_RAW)
        return hash_pixels(decoder, pixels, nbytes, recoded->form, info);
    struct pst_error err;
    uint64_t hash = 0;
    assert_ok(psti_decode_hash_pixels(decoder, pixels, nbytes, info, &plain, &hash, &err));
    return hash;
}

static void forms_have_the_same_pixels(void **state)
{
    (void)state;
    struct psti_decoder *decoder = NULL;
    struct psti_buffer out = {0};
    struct pst_error err;
    assert_ok(psti_decode_open(&decoder, &err));
    const struct psti_recode_tools tools = {psti_decode_recode_alone, decoder, UINT64_MAX};
    for (int i = 0; i < N_FILES; i++) {
        const struct bytes *file = &kinds[i].file;
        const struct psti_recode_source source = {.bytes = file->data, .nbytes = file->nbytes};
        struct pst_image_info info, found;
        uint64_t wanted = 0;
        for (int form = 0; form < PSTI_RECODE_N_FORMS; form++) {
            struct psti_recoded recoded;
            enum psti_recode_result result =
                psti_decode_recode(&tools, (enum psti_recode_form)form, &source, &out, &recoded);
            if (kinds[i].forms[form] == PST_FORM_NONE) {
                assert_int_equal(result, PSTI_RECODE_NOT_FOR);
                continue;
            }
            assert_int_equal(result, PSTI_RECODE_DONE);
            assert_int_equal(recoded.form, kinds[i].forms[form]);
            wanted = hash_pixels(decoder, file->data, file->nbytes, PST_FORM_NONE, &info);
            uint64_t hash = hash_recoded(decoder, &recoded, &found);
            if (recoded.form == PST_FORM_PLI_JPEG) /* the checksum is that of the stored pixels */
                assert_ok(psti_decode_hash_jpeg(decoder, file->data, file->nbytes, &wanted, &err));
            assert_true(hash == wanted);
            assert_int_equal(found.height, info.height);
            assert_int_equal(found.width, info.width);
            assert_int_equal(found.channels, info.channels);
            assert_int_equal(found.bits, info.bits);
            assert_int_equal(found.orientation, info.orientation);
        }
    }
    psti_buffer_free(&out);
    psti_decode_close(&decoder);
}

/* Raw pixels of a data set become a PLI; bytes that are no image, and cut ones, are left alone or
 * fail. */
/* Checks that a re-coded JPEG has all of its pixels. The encoder itself compares only the first
 * rows of most JPEGs, and stores nothing to restore the file. Returns false if it stays a JPEG. */
static bool recode_jpeg(const struct psti_recode_tools *tools, const struct bytes *file,
                        struct psti_buffer *out)
{
    const struct psti_recode_source source = {.bytes = file->data, .nbytes = file->nbytes};
    struct psti_decoder *decoder = tools->ctx;
    struct psti_recoded recoded;
    struct pst_pli_info pli;
    struct pst_image_info info;
    struct pst_error err;
    uint64_t wanted = 0;
    enum psti_recode_result result =
        psti_decode_recode(tools, PSTI_RECODE_PLI_JPEG, &source, out, &recoded);
    if (result == PSTI_RECODE_FAILED)
        return false;
    assert_int_equal(result, PSTI_RECODE_DONE);
    assert_ok(psti_decode_hash_jpeg(decoder, file->data, file->nbytes, &wanted, &err));
    assert_true(hash_pixels(decoder, recoded.bytes, recoded.nbytes, PST_FORM_PLI_JPEG, &info) ==
                wanted);
    assert_ok(pst_pli_info(recoded.bytes, recoded.nbytes, &pli, sizeof pli, &err));
    assert_int_equal(pli.restoration_nbytes, 0);
    assert_true(recoded.nbytes < file->nbytes);
    return true;
}

/* Tests sizes with every kind of partial block and MCU, with one scan and several. */
static void jpegs_of_all_sizes(void **state)
{
    (void)state;
    static const enum jpeg_colours colours[] = {COLOURS_YCC, COLOURS_GRAY, COLOURS_RGB};
    struct psti_decoder *decoder = NULL;
    struct psti_buffer out = {0};
    struct pst_error err;
    assert_ok(psti_decode_open(&decoder, &err));
    const struct psti_recode_tools tools = {psti_decode_recode_alone, decoder, UINT64_MAX};
    for (uint32_t i = 0; i < 320; i++) {
        struct jpeg_spec spec = {.height = 96 + i % 33,
                                 .width = 96 + i * 7 % 37,
                                 .colours = colours[i % 16 < 13 ? 0 : i % 16 - 13],
                                 .quality = (uint8_t)(60 + i % 40),
                                 .restart = i % 5 == 4 ? (uint16_t)(i % 9) : 0,
                                 .orientation = (uint8_t)(i % 9),
                                 .smooth = i % 3 == 1};
        bool subsamples = spec.colours == COLOURS_YCC;
        spec.h = subsamples ? (uint8_t)(1 + i % 2) : 1;
        spec.v = subsamples ? (uint8_t)(1 + i / 2 % 2) : 1;
        spec.progressive = i % 20 == 7;
        spec.many_scans = i % 20 == 8 && spec.colours != COLOURS_GRAY;
        struct bytes file = make_jpeg(&spec, i);
        assert_true(recode_jpeg(&tools, &file, &out));
        bytes_free(&file);
    }
    psti_buffer_free(&out);
    psti_decode_close(&decoder);
}

/* Sets all entries of all quantisation tables to one value. */
static void set_quants(struct bytes *file, uint8_t value)
{
    for (size_t at = 2; at + 69 < file->nbytes; at++)
        if (file->data[at] == 0xFF && file->data[at + 1] == 0xDB)
            memset(file->data + at + 5, value, 64);
}

/* Coefficients grow beyond the range of 8-bit samples, below the rows that are always compared. The
 * re-coded image must have the pixels that libjpeg-turbo computes with this machine's kernels. */
static void jpegs_of_large_coefficients(void **state)
{
    (void)state;
    struct psti_decoder *decoder = NULL;
    struct psti_buffer out = {0};
    struct pst_error err;
    uint32_t n_kept = 0;
    assert_ok(psti_decode_open(&decoder, &err));
    const struct psti_recode_tools tools = {psti_decode_recode_alone, decoder, UINT64_MAX};
    for (uint32_t i = 0; i < 60; i++) {
        const struct jpeg_spec spec = {.height = 120,
                                       .width = 140,
                                       .colours = COLOURS_YCC,
                                       .h = (uint8_t)(1 + i % 2),
                                       .v = (uint8_t)(1 + i % 2),
                                       .quality = 100,
                                       .smooth = i % 3 == 0,
                                       .n_calm_rows = 64};
        struct bytes file = make_jpeg(&spec, i);
        set_quants(&file, (uint8_t)(1 + 2 * i));
        bool is_kept = recode_jpeg(&tools, &file, &out);
        assert_true(is_kept || i > 0);
        n_kept += is_kept;
        bytes_free(&file);
    }
    assert_true(n_kept > 1);
    psti_buffer_free(&out);
    psti_decode_close(&decoder);
}

static void other_bytes(void **state)
{
    (void)state;
    struct psti_decoder *decoder = NULL;
    struct psti_buffer out = {0};
    struct psti_recoded recoded;
    struct pst_image_info info;
    struct pst_error err;
    assert_ok(psti_decode_open(&decoder, &err));
    const struct psti_recode_tools tools = {psti_decode_recode_alone, decoder, UINT64_MAX};
    uint8_t *pixels = make_picture(40, 30, 3, 5);
    struct psti_recode_source source = {.bytes = pixels,
                                        .nbytes = 40 * 30 * 3,
                                        .form = PST_FORM_RAW,
                                        .raw = {.form = PST_FORM_RAW,
                                                .height = 40,
                                                .width = 30,
                                                .channels = 3,
                                                .bits = 8,
                                                .orientation = 1}};
    assert_int_equal(psti_decode_recode(&tools, PSTI_RECODE_PLI, &source, &out, &recoded),
                     PSTI_RECODE_DONE);
    assert_true(hash_recoded(decoder, &recoded, &info) == psti_hash64(pixels, source.nbytes));
    assert_int_equal(psti_decode_recode(&tools, PSTI_RECODE_RAW, &source, &out, &recoded),
                     PSTI_RECODE_NOT_FOR);
    source.form = PST_FORM_NONE;
    assert_int_equal(psti_decode_recode(&tools, PSTI_RECODE_RAW, &source, &out, &recoded),
                     PSTI_RECODE_NOT_FOR);
    free(pixels);
    for (int i = 0; i < 3; i++) {
        const struct psti_recode_source cut = {.bytes = kinds[i].file.data,
                                               .nbytes = kinds[i].file.nbytes / 2};
        assert_int_not_equal(psti_decode_recode(&tools, PSTI_RECODE_RAW, &cut, &out, &recoded),
                             PSTI_RECODE_DONE);
        assert_int_not_equal(psti_decode_recode(&tools, PSTI_RECODE_PLI, &cut, &out, &recoded),
                             PSTI_RECODE_DONE);
    }
    const void *at;
    uint64_t n;
    assert_false(psti_decode_recode_raw("short", 5, &plain, &info, &at, &n));
    assert_false(
        psti_decode_recode_raw("sixteen zero bytes are no header", 16, &plain, &info, &at, &n));
    psti_buffer_free(&out);
    psti_decode_close(&decoder);
}

static void keys(void **state)
{
    (void)state;
    assert_true(psti_recode_key(PSTI_RECODE_RAW, 0) == 0);
    /* this key is in saved caches, so it must not change */
    assert_true(psti_recode_key(PSTI_RECODE_PLI_JPEG, 5) == 5);
    uint64_t key = psti_recode_key(PSTI_RECODE_PLI_FAST, 1 | UINT64_C(1) << 60);
    assert_int_equal(psti_recode_form(key), PSTI_RECODE_PLI_FAST);
    assert_true(psti_recode_has_field(key, 0));
    assert_false(psti_recode_has_field(key, 1));
    assert_false(psti_recode_has_field(key, 57));
    assert_false(psti_recode_has_field(key, 60));
}

/* With any limit, the memory allocated besides the decoder's scratch stays below the limit. */
static void memory_is_bounded(void **state)
{
    (void)state;
    const struct pst_allocator counting = {count_alloc, count_free, NULL};
    struct psti_decoder *decoder = NULL;
    struct pst_error err;
    assert_ok(pst_set_allocator(&counting, &err));
    assert_ok(psti_decode_open(&decoder, &err));
    psti_decode_hold(decoder, 8 * MIB);
    /* a photograph, and half a photograph beside a flat area, which the encoder tries twice */
    uint8_t *pixels[2] = {make_picture(300, 700, 3, 5), make_picture(300, 700, 3, 6)};
    memset(pixels[1], 7, 150 * 700 * 3);
    for (int i = 0; i < 2; i++)
        for (int form = PSTI_RECODE_PLI; form <= PSTI_RECODE_PLI_FAST; form++) {
            const struct psti_recode_source source = {.bytes = pixels[i],
                                                      .nbytes = 300 * 700 * 3,
                                                      .form = PST_FORM_RAW,
                                                      .raw = {.form = PST_FORM_RAW,
                                                              .height = 300,
                                                              .width = 700,
                                                              .channels = 3,
                                                              .bits = 8,
                                                              .orientation = 1}};
            int n_done = 0, n_failed = 0;
            for (uint64_t limit = MIB; n_done < 3; limit += limit / 4) {
                struct psti_buffer out = {0};
                struct psti_recoded recoded;
                const struct psti_recode_tools tools = {psti_decode_recode_alone, decoder, limit};
                size_t before = live;
                most = live;
                enum psti_recode_result result = psti_decode_recode(
                    &tools, (enum psti_recode_form)form, &source, &out, &recoded);
                assert_true(most - before <= limit);
                n_done += result == PSTI_RECODE_DONE;
                n_failed += result == PSTI_RECODE_FAILED;
                psti_buffer_free(&out);
                assert_int_equal(live, before);
            }
            assert_true(n_failed > 0);
        }
    free(pixels[0]);
    free(pixels[1]);
    psti_decode_close(&decoder);
    assert_int_equal(live, 0);
    assert_ok(pst_set_allocator(NULL, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_have_the_same_pixels),
        cmocka_unit_test(jpegs_of_all_sizes),
        cmocka_unit_test(jpegs_of_large_coefficients),
        cmocka_unit_test(other_bytes),
        cmocka_unit_test(keys),
        cmocka_unit_test(memory_is_bounded),
    };
    make_kinds();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < N_FILES; i++)
        bytes_free(&kinds[i].file);
    return failed;
}
