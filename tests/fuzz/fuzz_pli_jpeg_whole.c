/* fuzz_pli_jpeg_whole.c - converts between JPEG files and PLI with the public functions. First byte
 * even: the rest is a JPEG, which is refused or becomes a PLI and is restored. Odd: the rest is a
 * PLI, whose head and restoration get correct checksums; it gives a JPEG with the stated checksum,
 * or an error. */
#include "fuzz/fuzz_pli.h"

#include "base/bits.h"
#include "base/hash.h"
#include "pli/format/pli_jpeg_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

enum { JPEG_MAX_NBYTES = 1 << 18 };

static void from_jpeg(const uint8_t *jpeg, size_t nbytes)
{
    struct pst_error err;
    size_t bound = pst_pli_from_jpeg_bound(nbytes), n, back_nbytes;
    uint8_t *pli = malloc(bound), *back = malloc(nbytes + 1);
    if (pst_pli_from_jpeg(jpeg, nbytes, NULL, pli, bound, &n, &err) == PST_OK) {
        uint8_t *exact = malloc(n);
        memcpy(exact, pli, n);
        if (pst_pli_to_jpeg(exact, n, back, nbytes, &back_nbytes, &err) != PST_OK ||
            back_nbytes != nbytes || memcmp(back, jpeg, nbytes) != 0)
            abort();
        free(exact);
    }
    free(pli);
    free(back);
}

/* Sets the checksums of head and restoration as the format defines them. */
static void set_checksums(uint8_t *bytes, size_t nbytes)
{
    struct psti_pli_header header;
    struct psti_jpeg_frame frame;
    struct psti_hash_state state;
    const uint8_t *block;
    size_t n;
    if (psti_pli_parse_header(bytes, nbytes, &header, NULL) != PST_OK ||
        psti_pli_head_nbytes(&header) > nbytes)
        return;
    if (psti_pli_find_model(bytes, &header, PSTI_PLI_MODEL_FRAME, &block, &n, NULL) == PST_OK &&
        block != NULL && psti_pli_jpeg_parse_frame(block, n, &header, &frame, NULL) == PST_OK &&
        frame.restoration_nbytes <= nbytes - psti_pli_head_nbytes(&header))
        psti_store_u32(bytes + (block - bytes) + n - 4,
                       (uint32_t)psti_hash64(bytes + nbytes - frame.restoration_nbytes,
                                             frame.restoration_nbytes));
    psti_hash_begin(&state);
    psti_hash_update(&state, bytes, 32);
    psti_hash_update(&state, bytes + PSTI_PLI_HEADER_NBYTES,
                     psti_pli_head_nbytes(&header) - PSTI_PLI_HEADER_NBYTES);
    psti_store_u64(bytes + 32, psti_hash_end(&state));
}

static void to_jpeg(uint8_t *pli, size_t nbytes)
{
    struct pst_pli_info info = {0};
    struct pst_error err;
    size_t n;
    set_checksums(pli, nbytes);
    if (pst_pli_info(pli, nbytes, &info, sizeof info, &err) != PST_OK ||
        info.jpeg_nbytes > JPEG_MAX_NBYTES ||
        (uint64_t)info.height * info.width > FUZZ_PLI_MAX_PIXELS)
        return;
    uint8_t *jpeg = malloc(info.jpeg_nbytes + 1u);
    if (pst_pli_to_jpeg(pli, nbytes, jpeg, info.jpeg_nbytes, &n, &err) == PST_OK &&
        n != info.jpeg_nbytes)
        abort();
    if (pst_pli_to_jpeg_head(pli, nbytes, jpeg, info.jpeg_nbytes, &n, &err) == PST_OK &&
        n > info.jpeg_nbytes)
        abort();
    free(jpeg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes < 2 || nbytes > JPEG_MAX_NBYTES)
        return 0;
    uint8_t *bytes = malloc(nbytes - 1); /* exact size, so a sanitizer detects over-reads */
    memcpy(bytes, data + 1, nbytes - 1);
    if (data[0] & 1)
        to_jpeg(bytes, nbytes - 1);
    else
        from_jpeg(bytes, nbytes - 1);
    free(bytes);
    return 0;
}
