/* fuzz_pli_jpeg_restore.c - restores a JPEG file from a hostile restoration and frame. The target
 * computes the checksum and packs skeleton and events itself, so the JPEG writer sees every byte of
 * the input. Input: 16 bytes of frame and lengths, skeleton, events, then coefficients, which are
 * repeated. */
#include "fuzz/fuzz_pli_jpeg.h"

#include "base/bits.h"
#include "base/hash.h"

#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

enum { HEAD_NBYTES = 16, RESTORATION_HEAD_NBYTES = 9 };

static bool read_head(const uint8_t *data, struct psti_jpeg_frame *frame)
{
    static const uint8_t factors[] = {1, 2, 4, 1};
    *frame = (struct psti_jpeg_frame){.width = 1u + data[0],
                                      .height = 1u + data[1],
                                      .n_components = data[2] & 1 ? 3 : 1,
                                      .orientation = 1,
                                      .jpeg_nbytes = 1 + psti_load_u16(data + 6)};
    for (uint32_t c = 0; c < frame->n_components; c++) {
        uint8_t hv = frame->n_components == 1 ? 0 : data[3 + c];
        frame->components[c] = (struct psti_jpeg_component){
            .h = factors[hv & 3], .v = factors[hv >> 2 & 3], .quant = hv >> 4 & 3};
        for (uint32_t k = 0; k < 64; k++)
            frame->quants[hv >> 4 & 3][k] = (uint16_t)(k * data[15] + 1);
    }
    return psti_pli_jpeg_frame_measure(frame);
}

/* Packs a restoration as the format demands. The first byte of data[8] holds the flags. */
static uint8_t *pack(const uint8_t *data, const uint8_t *parts, size_t n_skeleton, size_t n_extra,
                     uint32_t *nbytes)
{
    z_stream z = {0};
    if (deflateInit2(&z, 1, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        __builtin_trap();
    deflateSetDictionary(&z, psti_jpeg_dictionary, (uInt)psti_jpeg_dictionary_nbytes);
    size_t bound = RESTORATION_HEAD_NBYTES + deflateBound(&z, n_skeleton + n_extra) + 64;
    uint8_t *out = malloc(bound);
    out[0] = data[8] & 7;
    psti_store_u32(out + 1, (uint32_t)n_skeleton);
    psti_store_u32(out + 5, (uint32_t)n_extra + data[9] / 128u);
    z.next_in = (Bytef *)(uintptr_t)parts;
    z.avail_in = (uInt)(n_skeleton + n_extra);
    z.next_out = out + RESTORATION_HEAD_NBYTES;
    z.avail_out = (uInt)(bound - RESTORATION_HEAD_NBYTES);
    if (deflate(&z, Z_FINISH) != Z_STREAM_END)
        __builtin_trap();
    *nbytes = (uint32_t)(z.next_out - out);
    deflateEnd(&z);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct psti_jpeg_frame frame;
    struct fuzz_coefs coefs;
    if (nbytes < HEAD_NBYTES || !read_head(data, &frame) || !fuzz_coefs_alloc(&coefs, &frame))
        return 0;
    size_t left = nbytes - HEAD_NBYTES, n_skeleton = psti_load_u16(data + 10),
           n_extra = psti_load_u16(data + 12);
    n_skeleton = n_skeleton < left ? n_skeleton : left;
    n_extra = n_extra < left - n_skeleton ? n_extra : left - n_skeleton;
    const uint8_t *parts = data + HEAD_NBYTES, *rest = parts + n_skeleton + n_extra;
    size_t n_rest = left - n_skeleton - n_extra;
    for (uint32_t c = 0; c < frame.n_components; c++) {
        size_t n = psti_pli_jpeg_n_coefs(&frame, c);
        for (size_t i = 0; i < n; i++)
            coefs.of[c][i] =
                n_rest > 1 ? (int16_t)(psti_load_u16(rest + i % (n_rest - 1)) >> (data[14] & 15))
                           : 0;
    }
    uint8_t *packed = pack(data, parts, n_skeleton, n_extra, &frame.restoration_nbytes);
    uint8_t *restoration = malloc(frame.restoration_nbytes);
    memcpy(restoration, packed, frame.restoration_nbytes);
    free(packed);
    frame.restoration_checksum = (uint32_t)psti_hash64(restoration, frame.restoration_nbytes);
    uint8_t *bytes = malloc(frame.jpeg_nbytes);
    void *work = aligned_alloc(64, psti_pli_jpeg_work_nbytes());
    enum pst_status status = psti_pli_jpeg_write(&frame, (const int16_t *const *)coefs.of,
                                                 restoration, bytes, frame.jpeg_nbytes, work, NULL);
    if (status == PST_OK) /* the checksum of the file is 0 here */
        __builtin_trap();
    free(work);
    free(bytes);
    free(restoration);
    fuzz_coefs_free(&coefs);
    return 0;
}
