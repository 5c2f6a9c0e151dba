/* test_pack_pli_bounds.c - the head of a PLI limits the cost of restoring its JPEG: impossible
 * lengths are errors before memory is allocated, DEFLATE data must end where the head says, and the
 * number of scans is limited. Forged files have correct checksums. */
#include "../decode/decode_make.h"
#include "fuzz/fuzz_pli.h"

#include "pli/pli.h"

#include <penstock/penstock.h>

#include <jpeglib.h>
#include <stdlib.h>

/* A PLI of a JPEG, and the offset of the last 20 bytes of its frame (docs/format-pli.md, section
 * 7). */
struct kept {
    struct bytes jpeg;
    uint8_t *pli;
    size_t nbytes, tail;
    uint32_t restoration_nbytes;
};
enum { AT_LENGTH = 0, AT_RESTORATION_LENGTH = 12, AT_RESTORATION_CHECKSUM = 16, TAIL_NBYTES = 20 };

static struct kept make_kept(void)
{
    static const struct jpeg_spec spec = {
        .height = 60, .width = 90, .colours = COLOURS_YCC, .h = 2, .v = 2, .quality = 85};
    struct kept kept = {.jpeg = make_jpeg(&spec, 1)};
    struct pst_pli_info info = {0};
    struct pst_error err;
    size_t capacity = pst_pli_from_jpeg_bound(kept.jpeg.nbytes);
    kept.pli = malloc(capacity);
    assert_ok(pst_pli_from_jpeg(kept.jpeg.data, kept.jpeg.nbytes, NULL, kept.pli, capacity,
                                &kept.nbytes, &err));
    assert_ok(pst_pli_info(kept.pli, kept.nbytes, &info, sizeof info, &err));
    kept.restoration_nbytes = info.restoration_nbytes;
    /* The frame is the last block of the model. */
    kept.tail = 40 + psti_load_u32(kept.pli + 16) - TAIL_NBYTES;
    assert_int_equal(psti_load_u32(kept.pli + kept.tail), kept.jpeg.nbytes);
    return kept;
}

static void free_kept(struct kept *kept)
{
    free(kept->pli);
    bytes_free(&kept->jpeg);
}

/* Recomputes the checksums of the restoration and the head. */
static void mend(struct kept *kept)
{
    const uint8_t *restoration = kept->pli + kept->nbytes - kept->restoration_nbytes;
    psti_store_u32(kept->pli + kept->tail + AT_RESTORATION_LENGTH, kept->restoration_nbytes);
    psti_store_u32(kept->pli + kept->tail + AT_RESTORATION_CHECKSUM,
                   (uint32_t)psti_hash64(restoration, kept->restoration_nbytes));
    fuzz_pli_set_checksum(kept->pli, kept->nbytes);
}

static enum pst_status to_jpeg(const struct kept *kept, struct pst_error *err)
{
    size_t n;
    uint8_t *back = malloc(kept->jpeg.nbytes);
    enum pst_status status =
        pst_pli_to_jpeg(kept->pli, kept->nbytes, back, kept->jpeg.nbytes, &n, err);
    if (status == PST_OK)
        assert_memory_equal(back, kept->jpeg.data, kept->jpeg.nbytes);
    free(back);
    return status;
}

static void a_length_that_cannot_be(void **state)
{
    struct kept kept = make_kept();
    struct pst_pli_info info = {0};
    struct pst_error err;
    const uint32_t most = 64 * kept.restoration_nbytes + 4 * 60 * 90 * 3 + 65536;
    (void)state;
    psti_store_u32(kept.pli + kept.tail + AT_LENGTH, most);
    mend(&kept);
    assert_ok(pst_pli_info(kept.pli, kept.nbytes, &info, sizeof info, &err));
    psti_store_u32(kept.pli + kept.tail + AT_LENGTH, most + 1);
    mend(&kept);
    assert_int_equal(pst_pli_info(kept.pli, kept.nbytes, &info, sizeof info, &err),
                     PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, "a length that the file cannot have"));
    assert_int_equal(to_jpeg(&kept, &err), PST_ERROR_CORRUPT);
    free_kept(&kept);
}

static void deflate_ends_where_it_should(void **state)
{
    struct kept kept = make_kept();
    struct pst_error err;
    (void)state;
    mend(&kept);
    assert_ok(to_jpeg(&kept, &err));
    /* One byte follows the data. */
    kept.pli[kept.nbytes++] = 0;
    kept.restoration_nbytes++;
    mend(&kept);
    assert_int_equal(to_jpeg(&kept, &err), PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, "does not end where its head says"));
    kept.nbytes--;
    kept.restoration_nbytes--;
    /* The stated length of the events exceeds the data. */
    uint8_t *extra_nbytes = kept.pli + kept.nbytes - kept.restoration_nbytes + 5;
    psti_store_u32(extra_nbytes, psti_load_u32(extra_nbytes) + 1000);
    mend(&kept);
    assert_int_equal(to_jpeg(&kept, &err), PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, "does not end where its head says"));
    free_kept(&kept);
}

static void bytes_behind_the_restoration(void **state)
{
    struct kept kept = make_kept();
    struct pst_error err;
    size_t row = (size_t)90 * 3, all = row * 60;
    uint8_t *pixels = malloc(all);
    (void)state;
    assert_ok(pst_image_decode(kept.pli, kept.nbytes, PST_FORM_NONE, NULL, pixels, all, row, &err));
    kept.pli[kept.nbytes++] = 0;
    assert_int_equal(
        pst_image_decode(kept.pli, kept.nbytes, PST_FORM_NONE, NULL, pixels, all, row, &err),
        PST_ERROR_CORRUPT);
    assert_int_equal(to_jpeg(&kept, &err), PST_ERROR_CORRUPT);
    free(pixels);
    free_kept(&kept);
}

/* Megabytes of zeros after the image take hardly any space when compressed. Such a file is not kept
 * as PLI. */
static void a_file_that_would_be_a_bomb_is_not_kept(void **state)
{
    struct kept kept = make_kept();
    struct pst_error err;
    const size_t nbytes = kept.jpeg.nbytes + (8 << 20);
    size_t capacity = pst_pli_from_jpeg_bound(nbytes), n;
    uint8_t *jpeg = calloc(1, nbytes), *pli = malloc(capacity);
    (void)state;
    memcpy(jpeg, kept.jpeg.data, kept.jpeg.nbytes);
    assert_int_equal(pst_pli_from_jpeg(jpeg, nbytes, NULL, pli, capacity, &n, &err),
                     PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "too many for so few pixels"));
    free(pli);
    free(jpeg);
    free_kept(&kept);
}

/* Makes a gray JPEG with a scan of DC, then a scan of each AC coefficient alone, most of them in
 * two scans. */
static struct bytes make_scans(int n_scans)
{
    enum { EDGE = 24, N_AC = 63 };
    jpeg_scan_info scans[1 + 2 * N_AC];
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    struct bytes file = {NULL, 0};
    unsigned long nbytes = 0;
    uint8_t *picture = make_picture(EDGE, EDGE, 1, 9);
    const int n_twice = n_scans - 1 - N_AC;
    scans[0] = (jpeg_scan_info){1, {0}, 0, 0, 0, 0};
    for (int k = 1; k <= N_AC; k++)
        scans[k] = (jpeg_scan_info){1, {0}, k, k, 0, k <= n_twice};
    for (int k = 1; k <= n_twice; k++)
        scans[N_AC + k] = (jpeg_scan_info){1, {0}, k, k, 1, 0};
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_compress(&cinfo);
    jpeg_mem_dest(&cinfo, &file.data, &nbytes);
    cinfo.image_width = cinfo.image_height = EDGE;
    cinfo.input_components = 1;
    cinfo.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&cinfo);
    cinfo.scan_info = scans;
    cinfo.num_scans = n_scans;
    jpeg_start_compress(&cinfo, TRUE);
    while (cinfo.next_scanline < cinfo.image_height) {
        JSAMPROW row = picture + (size_t)cinfo.next_scanline * EDGE;
        jpeg_write_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    file.nbytes = nbytes;
    free(picture);
    return file;
}

static void scans_are_bounded(void **state)
{
    (void)state;
    for (int n_scans = 100; n_scans <= 101; n_scans++) {
        struct bytes jpeg = make_scans(n_scans);
        struct pst_error err;
        size_t capacity = pst_pli_from_jpeg_bound(jpeg.nbytes), n;
        uint8_t *pli = malloc(capacity);
        enum pst_status status =
            pst_pli_from_jpeg(jpeg.data, jpeg.nbytes, NULL, pli, capacity, &n, &err);
        if (n_scans == 100) {
            assert_ok(status);
        } else {
            assert_int_equal(status, PST_ERROR_LIMIT);
            assert_non_null(strstr(err.text, "more than 100 times"));
        }
        free(pli);
        bytes_free(&jpeg);
    }
}

/* Changes one to three bytes anywhere except in the magic, and recomputes all checksums. */
static void mutants_restore_nothing_else(void **state)
{
    enum { N_MUTANTS = 1500 };
    struct kept kept = make_kept();
    uint64_t seed = 5;
    int n_restored = 0;
    (void)state;
    for (int i = 0; i < N_MUTANTS; i++) {
        struct kept mutant = kept;
        struct pst_error err;
        mutant.pli = malloc(kept.nbytes); /* exact size, so that a sanitizer detects over-reads */
        memcpy(mutant.pli, kept.pli, kept.nbytes);
        for (uint32_t n = 1 + random_below(&seed, 3); n > 0; n--) {
            uint32_t at = 5 + random_below(&seed, (uint32_t)kept.nbytes - 5);
            if (random_below(&seed, 2)) /* half of them in the restoration, which is small */
                at = (uint32_t)kept.nbytes - 1 - random_below(&seed, kept.restoration_nbytes);
            mutant.pli[at] ^= (uint8_t)(1u << random_below(&seed, 8));
        }
        fuzz_pli_mend(mutant.pli, mutant.nbytes);
        if (random_below(&seed, 4))
            mend(&mutant);
        n_restored += to_jpeg(&mutant, &err) == PST_OK; /* to_jpeg compares the restored file */
        free(mutant.pli);
    }
    assert_in_range(n_restored, 0, N_MUTANTS / 2);
    free_kept(&kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_length_that_cannot_be),
        cmocka_unit_test(deflate_ends_where_it_should),
        cmocka_unit_test(bytes_behind_the_restoration),
        cmocka_unit_test(a_file_that_would_be_a_bomb_is_not_kept),
        cmocka_unit_test(scans_are_bounded),
        cmocka_unit_test(mutants_restore_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
