/* fuzz_pli_jpeg_file.c - reads any bytes as a JPEG file: what is accepted must be written back byte
 * for byte, and an error must name its codec. */
#include "fuzz/fuzz_pli_jpeg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void check_error(const struct pst_error *err)
{
    if (err->text[0] == '\0' || strcmp(err->codec, "jpeg") != 0)
        __builtin_trap();
}

static void write_back(const uint8_t *data, size_t nbytes, const struct psti_jpeg_frame *frame,
                       const struct fuzz_coefs *coefs, const uint8_t *restoration, void *work)
{
    uint8_t *back = malloc(nbytes), *exact = malloc(frame->restoration_nbytes);
    memcpy(exact, restoration, frame->restoration_nbytes);
    if (psti_pli_jpeg_write(frame, (const int16_t *const *)coefs->of, exact, back, nbytes, work,
                            NULL) != PST_OK)
        __builtin_trap();
    if (frame->jpeg_nbytes != nbytes || memcmp(back, data, nbytes) != 0)
        __builtin_trap();
    free(back);
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct psti_jpeg_frame frame;
    struct fuzz_coefs coefs;
    struct pst_error err;
    pst_error_clear(&err);
    if (psti_pli_jpeg_probe(data, nbytes, &frame, &err) != PST_OK) {
        check_error(&err);
        return 0;
    }
    if (!fuzz_coefs_alloc(&coefs, &frame))
        return 0;
    size_t bound = psti_pli_jpeg_restoration_bound(nbytes);
    uint8_t *restoration = malloc(bound);
    void *work = aligned_alloc(64, psti_pli_jpeg_work_nbytes());
    if (psti_pli_jpeg_read(data, nbytes, &frame, coefs.of, restoration, bound, work, &err) ==
        PST_OK)
        write_back(data, nbytes, &frame, &coefs, restoration, work);
    else
        check_error(&err);
    free(work);
    free(restoration);
    fuzz_coefs_free(&coefs);
    return 0;
}
