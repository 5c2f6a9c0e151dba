/* test_pack_pli_racing.c - a JPEG changes while it is converted to a PLI, and a PLI changes while
 * its JPEG is restored. The result is an error, or the bytes of some moment, but never an access
 * outside of the call's memory. AddressSanitizer checks that, as buffers have exactly the length of
 * their contents. */
#include "../decode/decode_make.h"
#include "racer.h"

#include <penstock/penstock.h>

#include <stdlib.h>

static const struct jpeg_spec specs[] = {
    {60, 90, COLOURS_YCC, .h = 2, .v = 2, .quality = 85, .orientation = 6},
    {60, 90, COLOURS_YCC, .h = 1, .v = 1, .quality = 60, .progressive = true},
    {60, 90, COLOURS_GRAY, .h = 1, .v = 1, .quality = 85, .restart = 2},
};

/* Returns the offset of the data of the first scan. */
static size_t head_nbytes(const struct bytes *jpeg)
{
    size_t at = 2;
    while (jpeg->data[at + 1] != 0xDA)
        at += 2u + (size_t)jpeg->data[at + 2] * 256 + jpeg->data[at + 3];
    return at;
}

static void race_from_jpeg(const struct bytes *jpeg, size_t from, size_t n_raced, int n)
{
    struct pst_error err;
    struct racer racer;
    size_t capacity = pst_pli_from_jpeg_bound(jpeg->nbytes), nbytes;
    uint8_t *pli = malloc(capacity), *back = malloc(jpeg->nbytes);
    racer_start(&racer, jpeg->data + from, n_raced);
    for (int i = 0; i < n; i++) {
        /* The restored file must have the bytes that the conversion verified. */
        if (pst_pli_from_jpeg(jpeg->data, jpeg->nbytes, NULL, pli, capacity, &nbytes, &err) ==
            PST_OK) {
            size_t n_back;
            assert_ok(pst_pli_to_jpeg(pli, nbytes, back, jpeg->nbytes, &n_back, &err));
        }
        assert_int_not_equal(err.status, PST_ERROR_INTERNAL);
    }
    racer_stop(&racer);
    assert_ok(pst_pli_from_jpeg(jpeg->data, jpeg->nbytes, NULL, pli, capacity, &nbytes, &err));
    free(back);
    free(pli);
}

static void a_jpeg_that_changes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct bytes jpeg = make_jpeg(&specs[i], i);
        size_t head = head_nbytes(&jpeg), quant = 2;
        while (jpeg.data[quant + 1] != 0xDB)
            quant += 2u + (size_t)jpeg.data[quant + 2] * 256 + jpeg.data[quant + 3];
        race_from_jpeg(&jpeg, quant + 4, 1, 150); /* the table's number */
        race_from_jpeg(&jpeg, 2, head - 2, 150);
        race_from_jpeg(&jpeg, head, jpeg.nbytes - head, 100);
        bytes_free(&jpeg);
    }
}

static void a_pli_that_changes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        const struct pst_pli_from_jpeg_options options = {.struct_size = sizeof options,
                                                          .no_checksum = true};
        struct pst_error err;
        struct racer racer;
        struct bytes jpeg = make_jpeg(&specs[i], i);
        size_t capacity = pst_pli_from_jpeg_bound(jpeg.nbytes), nbytes, n;
        uint8_t *room = malloc(capacity), *back = malloc(jpeg.nbytes);
        assert_ok(
            pst_pli_from_jpeg(jpeg.data, jpeg.nbytes, &options, room, capacity, &nbytes, &err));
        uint8_t *pli = malloc(nbytes);
        memcpy(pli, room, nbytes);
        racer_start(&racer, pli, nbytes);
        for (int k = 0; k < 300; k++) {
            enum pst_status ignored = pst_pli_to_jpeg(pli, nbytes, back, jpeg.nbytes, &n, &err);
            ignored = pst_pli_to_jpeg_head(pli, nbytes, back, jpeg.nbytes, &n, &err);
            (void)ignored;
        }
        racer_stop(&racer);
        assert_ok(pst_pli_to_jpeg(pli, nbytes, back, jpeg.nbytes, &n, &err));
        assert_memory_equal(back, jpeg.data, n);
        free(pli);
        free(back);
        free(room);
        bytes_free(&jpeg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_jpeg_that_changes),
        cmocka_unit_test(a_pli_that_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
