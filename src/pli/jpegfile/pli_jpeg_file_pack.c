/* pli_jpeg_file_pack.c - compresses skeleton and extra of a JPEG file to its restoration, and
 * decompresses them. The restoration is raw DEFLATE with the dictionary of the format
 * (docs/format-pli.md, section 10); zlib does the work.
 *
 * zlib's memory is allocated in each call through base/alloc.h and freed at its end. Any thread may
 * call these functions. */
#include "pli/jpegfile/pli_jpeg_file_print.h"

#include "base/alloc.h"
#include "base/bits.h"

#include <zlib.h>

enum { LEVEL = 9, WINDOW_BITS = -15 /* negative: raw DEFLATE */, MEMORY_LEVEL = 8 };

static voidpf claim(voidpf opaque, uInt n, uInt size)
{
    (void)opaque;
    return psti_alloc_array(n, size);
}

static void give_back(voidpf opaque, voidpf memory)
{
    (void)opaque;
    psti_free(memory);
}

static enum pst_status no_memory(struct pst_error *err)
{
    return psti_pli_jpeg_file_fail(err, PST_ERROR_MEMORY, -1,
                                   "no memory to pack what is not coefficients");
}

/* Compresses `nbytes` bytes. Returns false if the output buffer is full. */
static bool feed(z_stream *z, const uint8_t *bytes, size_t nbytes)
{
    while (nbytes > 0) {
        uInt n = nbytes < UINT32_MAX ? (uInt)nbytes : UINT32_MAX;
        z->next_in = (Bytef *)(uintptr_t)bytes; /* zlib's type lacks const */
        z->avail_in = n;
        if (deflate(z, Z_NO_FLUSH) != Z_OK || z->avail_in > 0)
            return false;
        bytes += n;
        nbytes -= n;
    }
    return true;
}

/* Compresses the skeleton, then the extra bytes. Sets *skeleton_nbytes. Returns false if the output
 * buffer is full. */
static bool feed_parts(z_stream *z, const struct psti_jpeg_parts *p, uint32_t *skeleton_nbytes)
{
    size_t at = 0, total = 0;
    for (size_t i = 0; i <= p->n_gaps; i++) {
        const struct psti_jpeg_gap *gap = i < p->n_gaps ? &p->gaps[i] : NULL;
        if (gap && gap->is_quant && p->keeps_quants)
            continue;
        size_t end = gap ? gap->begin : p->nbytes;
        if (!feed(z, p->bytes + at, end - at))
            return false;
        total += end - at;
        at = gap ? gap->end : end;
    }
    *skeleton_nbytes = (uint32_t)total;
    return feed(z, p->extra, p->extra_nbytes) && deflate(z, Z_FINISH) == Z_STREAM_END;
}

enum pst_status psti_pli_jpeg_pack(const struct psti_jpeg_parts *parts, uint8_t *restoration,
                                   size_t capacity, size_t *nbytes, struct pst_error *err)
{
    enum { HEAD = PSTI_JPEG_RESTORATION_HEAD_NBYTES };
    z_stream z = {.zalloc = claim, .zfree = give_back};
    uint32_t skeleton_nbytes = 0;
    if (deflateInit2(&z, LEVEL, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return no_memory(err);
    deflateSetDictionary(&z, psti_jpeg_dictionary, (uInt)psti_jpeg_dictionary_nbytes);
    z.next_out = restoration + HEAD;
    z.avail_out = capacity - HEAD < UINT32_MAX ? (uInt)(capacity - HEAD) : UINT32_MAX;
    bool fits = feed_parts(&z, parts, &skeleton_nbytes);
    *nbytes = (size_t)(z.next_out - restoration);
    deflateEnd(&z);
    if (!fits)
        return psti_pli_jpeg_file_fail(err, PST_ERROR_UNSUPPORTED, -1,
                                       "what is not coefficients is as large as the file");
    restoration[0] = (uint8_t)((parts->pads_with_0 ? PSTI_JPEG_PADS_WITH_0 : 0) |
                               (parts->keeps_quants ? 0 : PSTI_JPEG_QUANTS_CUT));
    psti_store_u32(restoration + 1, skeleton_nbytes);
    psti_store_u32(restoration + 5, (uint32_t)parts->extra_nbytes);
    return PST_OK;
}

enum pst_status psti_pli_jpeg_unpack_begin(struct psti_jpeg_unpacker *u, const uint8_t *restoration,
                                           size_t nbytes, struct pst_error *err)
{
    enum { HEAD = PSTI_JPEG_RESTORATION_HEAD_NBYTES };
    *u = (struct psti_jpeg_unpacker){.stream = NULL};
    if (nbytes < HEAD || restoration[0] & ~PSTI_JPEG_FLAGS_KNOWN)
        return psti_pli_jpeg_file_fail(err, PST_ERROR_CORRUPT, -1,
                                       "the restoration's head is wrong");
    u->flags = restoration[0];
    u->skeleton_nbytes = psti_load_u32(restoration + 1);
    u->extra_left = psti_load_u32(restoration + 5);
    z_stream *z = psti_calloc(1, sizeof *z);
    if (!z)
        return no_memory(err);
    z->zalloc = claim;
    z->zfree = give_back;
    if (inflateInit2(z, WINDOW_BITS) != Z_OK) {
        psti_free(z);
        return no_memory(err);
    }
    u->stream = z;
    if (inflateSetDictionary(z, psti_jpeg_dictionary, (uInt)psti_jpeg_dictionary_nbytes) != Z_OK)
        return no_memory(err);
    z->next_in = (Bytef *)(uintptr_t)restoration + HEAD;
    z->avail_in = (uInt)(nbytes - HEAD);
    return PST_OK;
}

enum pst_status psti_pli_jpeg_unpack_skeleton(struct psti_jpeg_unpacker *u, uint8_t *skeleton,
                                              struct pst_error *err)
{
    z_stream *z = u->stream;
    z->next_out = skeleton;
    z->avail_out = u->skeleton_nbytes;
    int result = Z_OK;
    while (z->avail_out > 0 && result == Z_OK)
        result = inflate(z, Z_SYNC_FLUSH);
    if (result == Z_MEM_ERROR)
        return no_memory(err);
    return z->avail_out == 0 ? PST_OK
                             : psti_pli_jpeg_file_fail(err, PST_ERROR_CORRUPT, -1,
                                                       "the restoration's DEFLATE data are wrong");
}

int psti_pli_jpeg_unpack_byte(struct psti_jpeg_unpacker *u)
{
    z_stream *z = u->stream;
    if (u->at == u->n) {
        uint32_t wanted = u->extra_left < sizeof u->extra ? u->extra_left : sizeof u->extra;
        z->next_out = u->extra;
        z->avail_out = wanted;
        while (z->avail_out > 0 && inflate(z, Z_SYNC_FLUSH) == Z_OK)
            continue;
        u->at = 0;
        u->n = wanted - z->avail_out;
        u->extra_left -= wanted; /* if bytes of `extra` are missing now, they will not come later */
        u->is_short |= z->avail_out > 0;
        if (u->n == 0)
            return -1;
    }
    return u->extra[u->at++];
}

enum pst_status psti_pli_jpeg_unpack_check_end(struct psti_jpeg_unpacker *u, struct pst_error *err)
{
    z_stream *z = u->stream;
    uint8_t more;
    z->next_out = &more;
    z->avail_out = 1;
    int result = inflate(z, Z_SYNC_FLUSH);
    if (result == Z_MEM_ERROR)
        return no_memory(err);
    if (u->is_short || u->extra_left > 0 || result != Z_STREAM_END || z->avail_out == 0 ||
        z->avail_in > 0)
        return psti_pli_jpeg_file_fail(err, PST_ERROR_CORRUPT, -1,
                                       "the restoration does not end where its head says");
    return PST_OK;
}

void psti_pli_jpeg_unpack_end(struct psti_jpeg_unpacker *u)
{
    if (u->stream)
        inflateEnd(u->stream);
    psti_free(u->stream);
    u->stream = NULL;
}
