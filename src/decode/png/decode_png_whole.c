/* decode_png_whole.c - decodes a PNG to rows. libdeflate inflates all its pixels at once.
 *
 * In: the bytes of a PNG without interlacing. Out: rows of the region for the emitter
 * (decode_emit.c). Filters are undone in place, only up to the region's right edge, and only from
 * the first row that the region's rows depend on.
 *
 * This file accepts only PNGs that libpng decodes too, to the same pixels. It leaves all others to
 * libpng (decode_png_libpng.c), before any row is handed on. So errors and their texts are always
 * those of libpng. These PNGs are left to libpng:
 *
 * (1) PNGs with a chunk before the pixels that does not belong to the colour type, is too large, or
 * has a wrong checksum. libpng reports these as errors, except a PLTE of true colours and a tRNS
 * beside an alpha channel.
 *
 * (2) PNGs whose compressed stream does not inflate to exactly the pixels, or has a wrong checksum.
 * libpng ignores surplus pixels. It also ignores a wrong Adler-32 that lies in a later chunk than
 * the last pixels. For a region it reads nothing after the last row, so it finds no errors there.
 * Also PNGs whose match distances may exceed a window that is smaller than the pixels, and PNGs
 * with invalid filters.
 *
 * (3) Images that need more memory than the scratch limit; scratch_wanted then says how much. Also
 * regions that end within the top third of the picture. libpng can stop after such a region.
 * libdeflate must inflate all rows, because it guarantees nothing for partial output.
 *
 * Neither way reads what follows the compressed stream, such as surplus bytes and other chunks;
 * IEND may be missing. One thing is accepted here that zlib reports as an error: Huffman codes that
 * are incomplete or have unused symbols, if the pixels still have the right Adler-32.
 *
 * The code runs on the decoder's thread. libdeflate's decompressor (11 KiB) is created once per
 * decoder. It comes from malloc, because libdeflate allows an allocator to be set only for the
 * whole process. */
#include "decode/png/decode_png.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/machine/cpu.h"
#include "base/fault.h"
#include "decode/png/decode_png_unfilter.h"

#include <string.h>

#include <libdeflate.h>

#define SIGNATURE "\x89PNG\r\n\x1A\n"
#define CHUNK_SPARE_NBYTES 12 /* length, name and checksum of a chunk, in bytes */
/* The most bytes that deflate can expand one byte to: 258 bytes are coded in 2 bits at least. */
#define INFLATE_FACTOR_MAX 1032
/* libpng decodes regions that end within the first 1 / TOP_PART of the rows just as fast. */
#define TOP_PART 3
/* Bounds of what is taken from the arena: psti_decode_png_begin() takes at most N_BANDS bands of
 * the longest side, and the region, at PIXEL_NBYTES_MAX bytes per pixel. This file takes at most
 * N_PIECES pieces in all. */
#define PIXEL_NBYTES_MAX 8
#define N_BANDS 3
#define N_PIECES 5

struct chunk {
    const uint8_t *name, *data;
    uint32_t nbytes;
};

/* Sizes of the chunks and rows of pixels. They are known before the pixels are inflated. */
struct stored {
    size_t first;      /* offset of the first IDAT chunk */
    size_t nbytes;     /* bytes of data in all complete IDAT chunks */
    uint32_t n_chunks; /* number of these IDAT chunks */
    size_t row_nbytes; /* bytes of a row, its filter byte included */
    size_t rows_nbytes;
};

static bool is_named(const struct chunk *chunk, const char *name)
{
    return memcmp(chunk->name, name, 4) == 0;
}

/* Reads the chunk at *offset and moves *offset to the next one. Returns false if the chunk is cut
 * short or its checksum is wrong. */
static bool next_chunk(const struct psti_decode_job *job, size_t *offset, struct chunk *chunk)
{
    size_t left = job->nbytes - *offset;
    const uint8_t *at = job->bytes + *offset;
    if (left < CHUNK_SPARE_NBYTES)
        return false;
    chunk->nbytes = psti_load_u32_big(at);
    chunk->name = at + 4;
    chunk->data = at + 8;
    if (chunk->nbytes > left - CHUNK_SPARE_NBYTES || chunk->nbytes > INT32_MAX ||
        libdeflate_crc32(0, chunk->name, (size_t)chunk->nbytes + 4) !=
            psti_load_u32_big(chunk->data + chunk->nbytes))
        return false;
    *offset += (size_t)chunk->nbytes + CHUNK_SPARE_NBYTES;
    return true;
}

/* Returns true if libpng accepts or skips this chunk before the pixels. The lengths and the order
 * of PLTE and tRNS were checked when the header was read. */
static bool is_plain(const struct psti_png_header *header, const struct chunk *chunk, bool first)
{
    for (int i = 0; i < 4; i++)
        if ((chunk->name[i] | 32) < 'a' || (chunk->name[i] | 32) > 'z')
            return false;
    if (first || is_named(chunk, "IHDR"))
        return first && is_named(chunk, "IHDR");
    if (is_named(chunk, "PLTE"))
        return header->colour_type == PSTI_PNG_PALETTE;
    if (is_named(chunk, "tRNS"))
        return header->trns == chunk->data;
    return (chunk->name[0] & 32) && chunk->nbytes <= PSTI_PNG_CHUNK_NBYTES_LIMIT;
}

static bool find_pixels(const struct psti_png *png, struct stored *stored)
{
    const struct psti_decode_job *job = png->job;
    struct chunk chunk;
    size_t offset = sizeof SIGNATURE - 1, at;
    /* `bytes` is long enough, because the header was read from it */
    if (memcmp(job->bytes, SIGNATURE, offset) != 0)
        return false;
    for (bool first = true;; first = false) {
        at = offset;
        if (!next_chunk(job, &offset, &chunk))
            return false;
        if (!first && is_named(&chunk, "IDAT"))
            break;
        if (!is_plain(&png->header, &chunk, first))
            return false;
    }
    stored->first = at;
    stored->nbytes = 0;
    stored->n_chunks = 0;
    do {
        stored->nbytes += chunk.nbytes;
        stored->n_chunks++;
    } while (next_chunk(job, &offset, &chunk) && is_named(&chunk, "IDAT"));
    return true;
}

/* Returns the compressed stream in one piece: in place if it has one chunk, otherwise copied
 * together into `to`. The chunk lengths are read again. Returns NULL if another thread has changed
 * them meanwhile. */
static const uint8_t *gather(const struct psti_decode_job *job, const struct stored *stored,
                             uint8_t *to)
{
    const uint8_t *at = job->bytes + stored->first;
    size_t left = stored->nbytes;
    if (stored->n_chunks == 1)
        return at + 8;
    for (uint32_t i = 0; i < stored->n_chunks; i++) {
        uint32_t nbytes = psti_load_u32_big(at);
        if (nbytes > left) /* avoids access beyond `to` and beyond the file */
            return NULL;
        memcpy(to, at + 8, nbytes);
        to += nbytes;
        left -= nbytes;
        at += (size_t)nbytes + CHUNK_SPARE_NBYTES;
    }
    return left == 0 ? to - stored->nbytes : NULL;
}

/* Prepares one chunk of the arena for all memory that this file takes: a row of zeros, the rows,
 * the compressed stream, and the memory that the emitter may need. */
static bool prepare_memory(const struct psti_png *png, const struct stored *stored,
                           enum pst_status *status)
{
    const struct psti_rect *region = &png->job->stored;
    size_t longest = region->width > region->height ? region->width : region->height;
    size_t nbytes = longest * PIXEL_NBYTES_MAX * PSTI_BAND_ROWS * N_BANDS;
    if (png->job->orientation > 2)
        nbytes += (size_t)region->width * region->height * PIXEL_NBYTES_MAX;
    nbytes += N_PIECES * PSTI_CACHE_LINE + stored->row_nbytes + PSTI_UNFILTER_OVERREAD;
    if (psti_add_size(nbytes, stored->rows_nbytes, &nbytes) &&
        psti_add_size(nbytes, stored->nbytes, &nbytes) &&
        psti_decode_arena_prepare(&png->job->decoder->arena, nbytes, status))
        return true;
    if (*status == PST_ERROR_LIMIT)
        png->job->decoder->scratch_wanted = (uint64_t)nbytes + PSTI_CACHE_LINE;
    return false;
}

/* Returns memory from the chunk that prepare_memory() has made. */
static uint8_t *take(const struct psti_png *png, size_t nbytes)
{
    enum pst_status status;
    return psti_decode_arena_alloc(&png->job->decoder->arena, nbytes, &status);
}

static bool open_inflater(struct psti_decoder *decoder)
{
    if (!decoder->inflater && !psti_fault(PSTI_FAULT_ALLOC))
        decoder->inflater = libdeflate_alloc_decompressor();
    return decoder->inflater;
}

/* Returns whether no match distance can exceed the stream's window. A window below 32 KiB is a
 * problem only if it is smaller than the pixels. */
static bool window_is_enough(const uint8_t *stream, size_t rows_nbytes)
{
    unsigned bits = 8 + (stream[0] >> 4);
    return bits >= 15 || rows_nbytes <= (size_t)1 << bits;
}

/* Inflates all rows with their filter bytes into memory after a row of zeros. Returns NULL if the
 * image is left to libpng. */
static uint8_t *inflate(const struct psti_png *png, const struct stored *stored)
{
    uint8_t *above = take(png, stored->row_nbytes + stored->rows_nbytes + PSTI_UNFILTER_OVERREAD);
    uint8_t *joined = stored->n_chunks > 1 ? take(png, stored->nbytes) : NULL;
    if (!above || (stored->n_chunks > 1 && !joined))
        return NULL;
    const uint8_t *stream = gather(png->job, stored, joined);
    uint8_t *rows = above + stored->row_nbytes;
    memset(above, 0, stored->row_nbytes);
    if (!stream || !window_is_enough(stream, stored->rows_nbytes) ||
        libdeflate_zlib_decompress(png->job->decoder->inflater, stream, stored->nbytes, rows,
                                   stored->rows_nbytes, NULL) != LIBDEFLATE_SUCCESS)
        return NULL;
    return rows;
}

/* Returns true if rows [0, end) all have valid filter numbers. */
static bool check_filters(const uint8_t *rows, size_t row_nbytes, uint32_t end)
{
    uint8_t largest = 0;
    for (uint32_t y = 0; y < end; y++)
        if (rows[y * row_nbytes] > largest)
            largest = rows[y * row_nbytes];
    return largest < PSTI_PNG_FILTERS;
}

/* Undoes the filters of rows [from, to), in the first `used` bytes of each row. */
static void undo_rows(const struct psti_unfilter_ops *ops, size_t pixel_nbytes, uint8_t *rows,
                      size_t row_nbytes, size_t used, uint32_t from, uint32_t to)
{
    psti_unfilter_two two = ops->two_paeth[pixel_nbytes];
    for (uint32_t y = from; y < to; y++) {
        uint8_t *row = rows + y * row_nbytes, *above = row - row_nbytes;
        if (two && *row == PSTI_PNG_PAETH && y + 1 < to && row[row_nbytes] == PSTI_PNG_PAETH) {
            two(row + 1, above + 1, used, row_nbytes);
            y++;
        } else if (*row != PSTI_PNG_NONE) {
            ops->row[pixel_nbytes][*row](row + 1, above + 1, used);
        }
    }
}

static enum pst_status emit_rows(struct psti_png *png, uint8_t *rows, size_t row_nbytes)
{
    const struct psti_unfilter_ops *ops = psti_decode_unfilter_ops_for(psti_cpu_features());
    const struct psti_rect *region = &png->job->stored;
    uint32_t bits = psti_decode_png_pixel_bits(&png->header), undone = region->y;
    size_t used = ((size_t)(region->x + region->width) * bits + 7) / 8;
    enum pst_status status = PST_OK;
    while (undone > 0 && rows[undone * row_nbytes] > PSTI_PNG_SUB)
        undone--; /* the first row must have a filter that does not read the row above it */
    for (uint32_t y = 0; y < region->height && status == PST_OK; y += PSTI_BAND_ROWS) {
        uint32_t left = region->height - y;
        uint32_t n_rows = left < PSTI_BAND_ROWS ? left : PSTI_BAND_ROWS;
        uint32_t end = region->y + y + n_rows;
        undo_rows(ops, bits < 8 ? 1 : bits / 8, rows, row_nbytes, used, undone, end);
        undone = end;
        status =
            psti_decode_png_emit(png, rows + (region->y + y) * row_nbytes + 1, row_nbytes, n_rows);
    }
    return status == PST_OK ? psti_decode_emit_end(&png->emit) : status;
}

static bool is_worth_it(const struct psti_png *png)
{
    const struct psti_rect *region = &png->job->stored;
    return !png->header.interlaced && !png->job->decoder->libpng_only &&
           ((uint64_t)region->y + region->height) * TOP_PART > png->header.height;
}

bool psti_decode_png_whole(struct psti_png *png, enum pst_status *status)
{
    struct psti_decoder *decoder = png->job->decoder;
    const struct psti_rect *region = &png->job->stored;
    struct stored stored;
    stored.row_nbytes = png->stored_nbytes + 1;
    if (!is_worth_it(png) || !find_pixels(png, &stored) ||
        !psti_mul_size(stored.row_nbytes, png->header.height, &stored.rows_nbytes) ||
        stored.nbytes < 2 || stored.rows_nbytes / INFLATE_FACTOR_MAX > stored.nbytes)
        return false;
    *status = PST_ERROR_MEMORY;
    if (!prepare_memory(png, &stored, status) || !open_inflater(decoder)) {
        if (*status == PST_ERROR_LIMIT)
            return false;
        psti_decode_fail(png->job->err, *status, "png", -1, "no memory to inflate %zu bytes",
                         stored.rows_nbytes);
        return true;
    }
    uint8_t *rows = inflate(png, &stored);
    if (!rows || !check_filters(rows, stored.row_nbytes, region->y + region->height))
        return false;
    decoder->n_png_whole++;
    decoder->n_region_fallback +=
        region->height != png->header.height || region->width != png->header.width;
    *status = psti_decode_png_begin(png);
    if (*status == PST_OK)
        *status = emit_rows(png, rows, stored.row_nbytes);
    return true;
}

void psti_decode_png_open(struct psti_decoder *decoder) { open_inflater(decoder); }

void psti_decode_png_close(struct psti_decoder *decoder)
{
    libdeflate_free_decompressor(decoder->inflater);
}
