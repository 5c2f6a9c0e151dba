/* inflate.c - inflates raw deflate data in memory: libdeflate inflates whole streams, zlib only the
 * beginning of a stream.
 *
 * libdeflate is faster, but needs all of the input and output at once and guarantees nothing for
 * partial output. So zlib inflates if only the first bytes are wanted. libdeflate allocates by
 * malloc, because it allows an allocator to be set only for the whole process. */
#include "base/inflate.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/fault.h"

#include <limits.h>
#include <stdbool.h>

#include <libdeflate.h>
#include <zlib.h>

struct psti_inflater {
    const char *room;
    struct libdeflate_decompressor *whole;
    z_stream heads;
    bool has_heads; /* zlib has initialised `heads` */
};

enum pst_status psti_inflate_open(struct psti_inflater **out, const char *room,
                                  struct pst_error *err)
{
    struct psti_inflater *inflater = *out = psti_calloc(1, sizeof *inflater);
    if (inflater != NULL && !psti_fault(PSTI_FAULT_ALLOC))
        inflater->whole = libdeflate_alloc_decompressor();
    if (inflater == NULL || inflater->whole == NULL) {
        psti_inflate_close(out);
        return psti_fail(err, PST_ERROR_MEMORY, room, "out of memory to inflate");
    }
    inflater->room = room;
    return PST_OK;
}

void psti_inflate_close(struct psti_inflater **inflater)
{
    struct psti_inflater *old = inflater != NULL ? *inflater : NULL;
    if (old == NULL)
        return;
    libdeflate_free_decompressor(old->whole);
    if (old->has_heads)
        (void)inflateEnd(&old->heads);
    psti_free(old);
    *inflater = NULL;
}

enum pst_status psti_inflate_raw(struct psti_inflater *inflater, const void *in, size_t n_in,
                                 void *out, size_t n_out, struct pst_error *err)
{
    uint8_t none;
    size_t used = 0;
    enum libdeflate_result result = libdeflate_deflate_decompress_ex(
        inflater->whole, in, n_in, n_out > 0 ? out : &none, n_out, &used, NULL);
    const char *what = NULL;
    if (result == LIBDEFLATE_SHORT_OUTPUT)
        what = "hold fewer";
    else if (result == LIBDEFLATE_INSUFFICIENT_SPACE)
        what = "hold more";
    if (what != NULL)
        return psti_fail(err, PST_ERROR_CORRUPT, inflater->room,
                         "the deflated bytes %s than the %zu bytes that are stated", what, n_out);
    if (result != LIBDEFLATE_SUCCESS)
        return psti_fail(err, PST_ERROR_CORRUPT, inflater->room,
                         "the deflated bytes are damaged or end early");
    if (used < n_in)
        return psti_fail(err, PST_ERROR_CORRUPT, inflater->room,
                         "%zu bytes follow the end of the deflated ones", n_in - used);
    return PST_OK;
}

static void *take(void *context, uInt n, uInt size)
{
    (void)context;
    return psti_alloc_array(n, size);
}

static void give(void *context, void *memory)
{
    (void)context;
    psti_free(memory);
}

/* Resets zlib's state for a new stream. */
static bool begin_head(struct psti_inflater *inflater)
{
    if (inflater->has_heads)
        return inflateReset(&inflater->heads) == Z_OK;
    inflater->heads = (z_stream){.zalloc = take, .zfree = give};
    inflater->has_heads = inflateInit2(&inflater->heads, -MAX_WBITS) == Z_OK;
    return inflater->has_heads;
}

enum pst_status psti_inflate_head(struct psti_inflater *inflater, const void *in, size_t n_in,
                                  void *out, size_t n_out, size_t *n, struct pst_error *err)
{
    *n = 0;
    if (n_out == 0 || n_in == 0)
        return PST_OK;
    if (!begin_head(inflater))
        return psti_fail(err, PST_ERROR_MEMORY, inflater->room, "out of memory to inflate");
    z_stream *stream = &inflater->heads;
    stream->next_in = (Bytef *)(uintptr_t)in; /* zlib does not write to its input */
    stream->avail_in = n_in < UINT_MAX ? (uInt)n_in : UINT_MAX;
    stream->next_out = out;
    stream->avail_out = n_out < UINT_MAX ? (uInt)n_out : UINT_MAX;
    int result = inflate(stream, Z_SYNC_FLUSH);
    *n = stream->total_out;
    if (result == Z_MEM_ERROR)
        return psti_fail(err, PST_ERROR_MEMORY, inflater->room, "out of memory to inflate");
    if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR)
        return PST_OK;
    return psti_fail(err, PST_ERROR_CORRUPT, inflater->room,
                     "the deflated bytes are damaged after the first %zu that they hold", *n);
}

uint32_t psti_crc32(uint32_t before, const void *bytes, size_t nbytes)
{
    return libdeflate_crc32(before, bytes, nbytes);
}
