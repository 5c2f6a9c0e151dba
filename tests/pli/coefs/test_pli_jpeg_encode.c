/* test_pli_jpeg_encode.c - tests the encoder of PLI's JPEG content alone: images that it refuses,
 * the capacity that it needs, failed allocations, the head, and the order of the file's parts.
 * tests/pli/coefs/test_pli_coefs.c tests that units can be decoded. */
#include "test.h"

#include "base/bits.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/machine/cpu.h"
#include "pli/encode/pli_encode_kernels.h"
#include "pli/coefs/pli_coefs_make.h"

#include <stdlib.h>
#include <string.h>

enum { CAPACITY = 4 << 20, CANARY = 0xa7 };

static uint8_t *room;

static enum pst_status encode(const struct coefs_image *image, const uint8_t *restoration,
                              uint8_t unit_log2, bool no_checksum, size_t capacity, size_t *nbytes,
                              struct pst_error *err)
{
    struct psti_jpeg_encode_options options = {
        .unit_log2 = unit_log2, .no_checksum = no_checksum, .pixel_checksum = 0x1234567890abcdef};
    return psti_pli_jpeg_encode(&image->frame, (const int16_t *const *)image->coefs, restoration,
                                &options, room, capacity, nbytes, err);
}

/* Checks the head and the index of units. Returns the end offset of the units. */
static size_t read_index(size_t nbytes, struct psti_pli_header *h)
{
    struct pst_error err = {0};
    assert_ok(psti_pli_parse_header(room, nbytes, h, &err));
    assert_ok(psti_pli_check_head(room, nbytes, h, &err));
    size_t at = psti_pli_head_nbytes(h);
    uint32_t n = psti_pli_unit_rows(h) * psti_pli_unit_columns(h), largest = 0;
    for (uint32_t u = 0; u < n; u++) {
        struct psti_pli_entry entry = psti_pli_parse_entry(room, h, u);
        assert_true(entry.nbytes <= nbytes - at);
        if (h->has_checksums)
            assert_int_equal(entry.checksum, (uint32_t)psti_hash64(room + at, entry.nbytes));
        largest = entry.nbytes > largest ? entry.nbytes : largest;
        at += entry.nbytes;
    }
    assert_int_equal(h->wide_sizes, largest > UINT16_MAX);
    return at;
}

static void whole_file(void **state)
{
    (void)state;
    uint64_t random = 1;
    struct pst_error err = {0};
    struct psti_pli_header h;
    struct psti_jpeg_frame frame;
    struct coefs_image image;
    uint8_t restoration[1000];
    const uint8_t *block;
    size_t nbytes, n_block;
    for (size_t i = 0; i < sizeof restoration; i++)
        restoration[i] = (uint8_t)coefs_draw(&random);
    for (uint32_t i = 0; i < 8; i++) {
        coefs_make(&image, 500, 333, i % 4, COEFS_PHOTO, &random);
        image.frame.orientation = (uint8_t)(1 + i);
        image.frame.jpeg_nbytes = 123456;
        image.frame.jpeg_checksum = 0xfedcba9876543210;
        image.frame.restoration_nbytes = i % 2 ? sizeof restoration : 0;
        image.frame.restoration_checksum = 42;
        assert_ok(encode(&image, restoration, 0, i % 3 == 0, CAPACITY, &nbytes, &err));
        size_t units_end = read_index(nbytes, &h);
        assert_int_equal(nbytes, units_end + image.frame.restoration_nbytes);
        assert_memory_equal(room + units_end, restoration, image.frame.restoration_nbytes);
        assert_int_equal(h.has_checksums, i % 3 != 0);
        assert_int_equal(h.channels, image.frame.n_components);
        assert_int_equal(h.transform, image.frame.transform);
        assert_int_equal(h.width, 500);
        assert_int_equal(h.height, 333);
        assert_true(h.pixel_checksum == 0x1234567890abcdef);
        assert_ok(psti_pli_find_model(room, &h, PSTI_PLI_MODEL_FRAME, &block, &n_block, &err));
        assert_ok(psti_pli_jpeg_parse_frame(block, n_block, &h, &frame, &err));
        assert_memory_equal(frame.components, image.frame.components, sizeof frame.components);
        assert_memory_equal(frame.quants, image.frame.quants, sizeof frame.quants);
        assert_int_equal(frame.orientation, 1 + i);
        assert_int_equal(frame.jpeg_nbytes, 123456);
        assert_true(frame.jpeg_checksum == image.frame.jpeg_checksum);
        /* The image's tokens are distributed unlike a photograph's, so it is worth storing tables
         * for it. */
        assert_ok(psti_pli_find_model(room, &h, PSTI_PLI_MODEL_COEFS, &block, &n_block, &err));
        assert_non_null(block);
        /* A second run gives the same bytes. */
        uint64_t hash = psti_hash64(room, nbytes);
        size_t again;
        memset(room, 0, nbytes);
        assert_ok(encode(&image, restoration, 0, i % 3 == 0, CAPACITY, &again, &err));
        assert_int_equal(again, nbytes);
        assert_true(psti_hash64(room, nbytes) == hash);
        coefs_free(&image);
    }
}

/* The encoder chooses the unit size by the amount of data. It obeys the caller if the caller names
 * a size. */
static void size_of_units(void **state)
{
    (void)state;
    uint64_t random = 2;
    struct pst_error err = {0};
    struct psti_pli_header h;
    struct coefs_image image;
    size_t nbytes;
    coefs_make(&image, 600, 400, 2, COEFS_SPARSE, &random);
    assert_ok(encode(&image, NULL, 0, false, CAPACITY, &nbytes, &err));
    (void)read_index(nbytes, &h);
    assert_int_equal(h.unit_log2, 8);
    coefs_free(&image);
    coefs_make(&image, 600, 400, 1, COEFS_DENSE, &random);
    assert_ok(encode(&image, NULL, 0, false, CAPACITY, &nbytes, &err));
    (void)read_index(nbytes, &h);
    assert_int_equal(h.unit_log2, 7);
    for (uint8_t log2 = 6; log2 <= 8; log2++) {
        assert_ok(encode(&image, NULL, log2, false, CAPACITY, &nbytes, &err));
        (void)read_index(nbytes, &h);
        assert_int_equal(h.unit_log2, log2);
    }
    assert_true(h.wide_sizes);
    coefs_free(&image);
    /* An image of zeros has no tables and very few bytes. */
    coefs_make(&image, 64, 64, 1, COEFS_ZERO, &random);
    assert_ok(encode(&image, NULL, 0, false, CAPACITY, &nbytes, &err));
    (void)read_index(nbytes, &h);
    assert_true(nbytes < 400);
    coefs_free(&image);
}

/* If the capacity is smaller than the file, the encoder fails and writes nothing beyond the
 * capacity. With exactly enough capacity it succeeds. */
static void too_little_room(void **state)
{
    (void)state;
    uint64_t random = 3;
    struct pst_error err = {0};
    struct coefs_image image;
    uint8_t restoration[77] = {1};
    for (uint32_t i = 0; i < 3; i++) {
        size_t nbytes, other;
        /* The last image is so large that the index stores unit sizes in 32 bits. */
        coefs_make(&image, 256, 200, 1, i < 2 ? COEFS_PHOTO : COEFS_EXTREME, &random);
        image.frame.restoration_nbytes = sizeof restoration;
        assert_ok(encode(&image, restoration, i < 2 ? 7 : 8, false, CAPACITY, &nbytes, &err));
        for (size_t n = 0; n<nbytes; n += nbytes - n> 200 ? 1 + nbytes / 50 : 1) {
            memset(room, CANARY, nbytes + 64);
            assert_int_equal(encode(&image, restoration, i < 2 ? 7 : 8, false, n, &other, &err),
                             PST_ERROR_LIMIT);
            assert_string_equal(err.codec, "pli");
            for (size_t k = n; k < nbytes + 64; k++)
                assert_int_equal(room[k], CANARY);
        }
        assert_ok(encode(&image, restoration, i < 2 ? 7 : 8, false, nbytes, &other, &err));
        assert_int_equal(other, nbytes);
        coefs_free(&image);
    }
}

static void out_of_range(void **state)
{
    (void)state;
    uint64_t random = 4;
    struct pst_error err = {0};
    struct coefs_image image;
    size_t nbytes;
    coefs_make(&image, 100, 100, 2, COEFS_ZERO, &random);
    const struct {
        uint32_t component, at;
        int16_t value;
        enum pst_status status;
    } cases[] = {
        {0, 5, 2048, PST_OK},
        {0, 63, -2048, PST_OK},
        {1, 1, 2049, PST_ERROR_UNSUPPORTED},
        {0, 64 * 7 + 9, -2049, PST_ERROR_UNSUPPORTED},
        {2, 63, INT16_MIN, PST_ERROR_UNSUPPORTED},
        {2, 62, INT16_MAX, PST_ERROR_UNSUPPORTED},
        {0, 0, 4096, PST_OK},
        {0, 0, -4096, PST_OK},
        {0, 64, 4097, PST_ERROR_UNSUPPORTED},
        {1, 64 * 3, -4097, PST_ERROR_UNSUPPORTED},
        {1, 0, INT16_MIN, PST_ERROR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        image.coefs[cases[i].component][cases[i].at] = cases[i].value;
        assert_int_equal(encode(&image, NULL, 0, false, CAPACITY, &nbytes, &err), cases[i].status);
        image.coefs[cases[i].component][cases[i].at] = 0;
    }
    coefs_free(&image);
}

static void memory_fails(void **state)
{
    (void)state;
#ifdef PST_FAULTS
    uint64_t random = 5;
    struct pst_error err = {0};
    struct coefs_image image;
    size_t nbytes;
    uint64_t n = 0;
    coefs_make(&image, 400, 300, 2, COEFS_PHOTO, &random);
    for (enum pst_status status = PST_ERROR_MEMORY; status != PST_OK;) {
        psti_fault_arm(PSTI_FAULT_ALLOC, ++n, true);
        status = encode(&image, NULL, 0, false, CAPACITY, &nbytes, &err);
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        assert_true(status == PST_OK || status == PST_ERROR_MEMORY);
        assert_true(n < 100);
    }
    assert_true(n > 8);
    coefs_free(&image);
#else
    skip();
#endif
}

/* Tokens and raw bits are the same at this machine's level as in plain C. */
static void levels_agree(void **state)
{
    (void)state;
    const struct psti_je_kernels *kernels[2] = {
        &psti_je_kernels_c, psti_pli_encode_kernels_of(psti_cpu_detected())->coefs};
    uint64_t random = 6;
    if (kernels[0] == kernels[1])
        skip();
    for (uint32_t i = 0; i < 20000; i++) {
        int16_t values[64] = {0};
        uint8_t tokens[2][64], g[2][64], bytes[2][300];
        uint32_t n = 1 + coefs_draw(&random) % 64, n_bits = coefs_draw(&random) % 12;
        for (uint32_t l = 0; l < n; l++) {
            uint32_t m = coefs_draw(&random) & ((1u << coefs_draw(&random) % (n_bits + 1)) - 1);
            m = coefs_draw(&random) % 1000 == 0 ? PSTI_JPEG_AC_MAX : m;
            values[l] = (int16_t)(coefs_draw(&random) & 1 ? -(int32_t)m : (int32_t)m);
        }
        memset(bytes, 0, sizeof bytes);
        struct psti_je_bits bits[2];
        for (int k = 0; k < 2; k++) {
            bits[k] = (struct psti_je_bits){.at = bytes[k]};
            psti_pli_jpeg_encode_put(&bits[k], i % 8 > 0, i % 8);
            kernels[k]->find_tokens(values, 64, tokens[k], g[k]);
            kernels[k]->put_values(&bits[k], values, tokens[k]);
        }
        assert_memory_equal(tokens[0], tokens[1], 64);
        assert_memory_equal(g[0], g[1], 64);
        assert_int_equal(bits[0].at - bytes[0], bits[1].at - bytes[1]);
        assert_int_equal(bits[0].n_waiting, bits[1].n_waiting);
        assert_true(bits[0].waiting == bits[1].waiting);
        assert_memory_equal(bytes[0], bytes[1], sizeof bytes[0]);
    }
}

/* The rANS states take tokens in the same way at every level. Tries frequencies of all sizes, up to
 * nearly a whole table's sum, lists of all lengths, and the highest and lowest states. */
static void states_agree(void **state)
{
    enum { N_K = 300, LAST = 5, ROOM = 1 << 15 };
    static uint16_t words[2][ROOM];
    static uint8_t ac[N_K * LAST], out[2][2 * ROOM];
    (void)state;
    const struct psti_je_kernels *kernels[2] = {
        &psti_je_kernels_c, psti_pli_encode_kernels_of(psti_cpu_detected())->coefs};
    struct psti_je_counts *counts = calloc(1, sizeof *counts);
    struct psti_je_codes *codes = calloc(1, sizeof *codes);
    uint64_t random = 8;
    uint8_t block[PSTI_JPEG_TABLES_MAX_NBYTES], raw[100];
    assert_true(counts && codes);
    if (kernels[0] == kernels[1])
        skip();
    for (uint32_t i = 0; i < 400; i++) {
        struct psti_je_unit unit = {.raw_nbytes = sizeof raw, .last = LAST};
        uint32_t n = 0, narrow = 1 + coefs_draw(&random) % 8;
        for (uint32_t j = 0; j < PSTI_JE_N_AC; j++) /* table 0 begins with the rarest token */
            counts->ac[j] = 1 + coefs_draw(&random) % (1u << coefs_draw(&random) % 24);
        for (uint32_t j = 0; j < PSTI_JE_N_SMALL; j++)
            counts->small[j] = 1;
        psti_pli_jpeg_encode_model(counts, block, codes);
        for (uint32_t k = 1; k <= LAST; k++) {
            unit.n_k[k] = (uint16_t)(coefs_draw(&random) % N_K);
            n += unit.n_k[k];
        }
        for (uint32_t j = 0; j < n; j++)
            ac[j] = (uint8_t)(i % 4 == 0 ? coefs_draw(&random) % narrow : coefs_draw(&random));
        for (size_t j = 0; j < sizeof raw; j++)
            raw[j] = (uint8_t)(i % 3 == 0 ? 255 : i % 3 == 1 ? 0 : coefs_draw(&random));
        size_t nbytes[2];
        for (int k = 0; k < 2; k++) {
            struct psti_je_work work = {.words_end = words[k] + ROOM};
            nbytes[k] = psti_pli_jpeg_encode_write(&unit, ac, NULL, raw, codes, kernels[k], &work,
                                                   out[k], sizeof out[k]);
        }
        assert_true(nbytes[0] > 0);
        assert_int_equal(nbytes[0], nbytes[1]);
        assert_memory_equal(out[0], out[1], nbytes[0]);
    }
    free(counts);
    free(codes);
}

enum { BLOCKS_MAX = 500, STRIDE = 576 };

/* Makes blocks sorted by the number of their last coefficient, largest first. Coefficients are
 * small or large. */
static void make_blocks(uint32_t n, uint64_t *random, int16_t *blocks, uint16_t n_k[65])
{
    uint32_t end = 63 >> coefs_draw(random) % 7;
    memset(blocks, 0, (size_t)n * 64 * sizeof *blocks);
    for (uint32_t i = 0; i < n; i++, blocks += 64) {
        end -= end > 0 && coefs_draw(random) % 4 == 0 ? coefs_draw(random) % (end / 8 + 2) : 0;
        blocks[0] = (int16_t)coefs_draw(random);
        for (uint32_t k = 1; k <= end; k++)
            blocks[k] = (int16_t)((int32_t)(coefs_draw(random) % 4096 >> coefs_draw(random) % 13) *
                                  (coefs_draw(random) & 1 ? -1 : 1) / 2);
        blocks[end] = (int16_t)(blocks[end] == 0 ? 1 : blocks[end]);
        for (uint32_t k = 0; k <= end; k++)
            n_k[k] = (uint16_t)(i + 1);
    }
}

/* Ends of blocks, planes and codes are the same at this machine's level as in plain C. */
static void planes_agree(void **state)
{
    static int16_t blocks[BLOCKS_MAX * 64], values[2][64 * STRIDE];
    static uint8_t tokens[2][64 * STRIDE], g[2][64 * STRIDE], sides[STRIDE];
    static const int16_t no_block[64];
    (void)state;
    const struct psti_je_kernels *kernels[2] = {
        &psti_je_kernels_c, psti_pli_encode_kernels_of(psti_cpu_detected())->coefs};
    uint64_t random = 9;
    if (kernels[0] == kernels[1])
        skip();
    for (uint32_t round = 0; round < 300; round++) {
        const int16_t *list[BLOCKS_MAX + 16];
        uint8_t ends[2][BLOCKS_MAX + 1], codes[2][BLOCKS_MAX + 32];
        uint64_t n_tokens[2] = {1, 1};
        uint16_t n_k[65] = {0};
        uint32_t n = 1 + coefs_draw(&random) % BLOCKS_MAX, last = 0;
        make_blocks(n, &random, blocks, n_k);
        for (uint32_t i = 0; i < n + 16; i++)
            list[i] = i < n ? blocks + 64 * (size_t)i : no_block;
        memset(sides, 0, sizeof sides);
        for (uint32_t i = 0; i < n; i++)
            sides[i] = coefs_draw(&random) % 3 ? 255 : 0;
        memset(ends, CANARY, sizeof ends);
        for (int l = 0; l < 2; l++)
            assert_true(kernels[l]->find_ends(blocks, n, ends[l], &n_tokens[l]));
        assert_memory_equal(ends[0], ends[1], sizeof ends[0]);
        assert_int_equal(n_tokens[0], n_tokens[1]);
        while (last < 63 && n_k[last + 1] > 0)
            last++;
        assert_int_equal(ends[0][0], last);
        for (int l = 0; l < 2 && last > 0; l++) {
            memset(values[l], CANARY, sizeof values[l]);
            kernels[l]->to_planes(list, n_k, last, values[l], STRIDE);
            memset(g[l], 0, STRIDE);
        }
        for (uint32_t k = 1; k <= last; k++) {
            size_t whole = psti_round_up(n_k[k], 64), at = k * (size_t)STRIDE;
            for (uint32_t i = 0; i < whole; i++)
                assert_int_equal(values[0][at + i], i < n_k[k] ? list[i][k] : 0);
            assert_memory_equal(values[0] + at, values[1] + at, whole * sizeof **values);
            for (int l = 0; l < 2; l++) {
                struct psti_je_work work = {
                    .stride = STRIDE, .sides = sides, .tokens = tokens[l], .g = g[l]};
                psti_pli_jpeg_fill_contexts(work.contexts);
                kernels[l]->find_tokens(values[l] + at, (uint32_t)whole, tokens[l] + at, g[l] + at);
                kernels[l]->find_codes(&work, n_k, k, codes[l]);
            }
            assert_memory_equal(codes[0], codes[1], n_k[k]);
        }
        /* A coefficient out of range is found wherever it is. DC is not checked. */
        uint32_t bad = coefs_draw(&random) % n * 64 + coefs_draw(&random) % 64;
        blocks[bad] = (int16_t)(coefs_draw(&random) & 1 ? PSTI_JPEG_AC_MAX + 1 : INT16_MIN);
        for (int l = 0; l < 2; l++)
            assert_int_equal(kernels[l]->find_ends(blocks, n, ends[l], &n_tokens[l]),
                             bad % 64 == 0);
    }
}

static int open_room(void **state)
{
    (void)state;
    room = malloc(CAPACITY);
    return room ? 0 : -1;
}

static int close_room(void **state)
{
    (void)state;
    free(room);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_file),      cmocka_unit_test(size_of_units),
        cmocka_unit_test(too_little_room), cmocka_unit_test(out_of_range),
        cmocka_unit_test(memory_fails),    cmocka_unit_test(levels_agree),
        cmocka_unit_test(states_agree),    cmocka_unit_test(planes_agree),
    };
    return cmocka_run_group_tests(tests, open_room, close_room);
}
