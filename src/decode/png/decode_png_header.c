/* decode_png_header.c - reads the chunks of a PNG that come before its pixels, in place.
 *
 * Decoding needs only IHDR, PLTE and tRNS. Their checksums are not compared here but later, when
 * the pixels are decoded. decode_png_orientation.c reads the chunks with the orientation. Nothing
 * is allocated. */
#include "decode/png/decode_png.h"

#include "base/bits.h"

#include <string.h>

#define SIGNATURE_NBYTES 8
#define CHUNK_NBYTES_MAX 0x7FFFFFFFu

struct chunk {
    size_t offset; /* offset of the chunk's length field in the file */
    uint32_t nbytes;
    char name[5];
    const uint8_t *data;
};

static enum pst_status read_chunk(const uint8_t *bytes, size_t nbytes, size_t offset,
                                  struct chunk *chunk, struct pst_error *err)
{
    if (nbytes - offset < 8)
        return psti_decode_fail(err, PST_ERROR_TRUNCATED, "png", (int64_t)nbytes,
                                "the file ends after %zu bytes, before its pixels", nbytes);
    chunk->offset = offset;
    chunk->nbytes = psti_load_u32_big(bytes + offset);
    memcpy(chunk->name, bytes + offset + 4, 4);
    chunk->name[4] = 0;
    chunk->data = bytes + offset + 8;
    if (chunk->nbytes > CHUNK_NBYTES_MAX)
        return psti_decode_fail(err, PST_ERROR_CORRUPT, "png", (int64_t)offset, "chunk of %u bytes",
                                chunk->nbytes);
    return PST_OK;
}

static bool depth_fits(uint8_t colour_type, uint8_t depth)
{
    switch (colour_type) {
    case PSTI_PNG_GRAY:
        return depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
    case PSTI_PNG_PALETTE:
        return depth == 1 || depth == 2 || depth == 4 || depth == 8;
    case PSTI_PNG_RGB:
    case PSTI_PNG_GRAY_ALPHA:
    case PSTI_PNG_RGBA:
        return depth == 8 || depth == 16;
    default:
        return false;
    }
}

static enum pst_status read_ihdr(const struct chunk *chunk, struct psti_png_header *header,
                                 struct pst_error *err)
{
    const uint8_t *data = chunk->data;
    if (strcmp(chunk->name, "IHDR") != 0 || chunk->nbytes != 13)
        return psti_decode_fail(err, PST_ERROR_CORRUPT, "png", (int64_t)chunk->offset,
                                "the first chunk is not a header");
    header->width = psti_load_u32_big(data);
    header->height = psti_load_u32_big(data + 4);
    header->depth = data[8];
    header->colour_type = data[9];
    header->interlaced = data[12] == 1;
    if (!depth_fits(header->colour_type, header->depth) || data[10] != 0 || data[11] != 0 ||
        data[12] > 1)
        return psti_decode_fail(err, PST_ERROR_CORRUPT, "png", (int64_t)chunk->offset,
                                "header with depth %u, colour type %u, compression %u, filter %u, "
                                "interlace %u",
                                data[8], data[9], data[10], data[11], data[12]);
    return PST_OK;
}

static enum pst_status read_palette(const struct chunk *chunk, struct psti_png_header *header,
                                    struct pst_error *err)
{
    /* without indices, PLTE only suggests colours for screens with few colours */
    if (header->colour_type != PSTI_PNG_PALETTE)
        return PST_OK;
    if (chunk->nbytes % 3 != 0 || chunk->nbytes == 0 || chunk->nbytes > 768 || header->palette)
        return psti_decode_fail(err, PST_ERROR_CORRUPT, "png", (int64_t)chunk->offset,
                                "palette of %u bytes", chunk->nbytes);
    header->palette = chunk->data;
    header->n_palette = chunk->nbytes / 3;
    return PST_OK;
}

/* Reads a tRNS chunk. Its size must be the one that the PNG specification requires. In an image
 * with a palette it must come after PLTE. */
static enum pst_status read_trns(const struct chunk *chunk, struct psti_png_header *header,
                                 struct pst_error *err)
{
    bool fits = true;
    if (header->colour_type == PSTI_PNG_GRAY_ALPHA || header->colour_type == PSTI_PNG_RGBA)
        return PST_OK; /* The pixels have an alpha channel already, so tRNS has no meaning. */
    if (header->colour_type == PSTI_PNG_GRAY)
        fits = chunk->nbytes == 2;
    else if (header->colour_type == PSTI_PNG_RGB)
        fits = chunk->nbytes == 6;
    else
        fits = chunk->nbytes >= 1 && chunk->nbytes <= header->n_palette;
    if (!fits || header->trns)
        return psti_decode_fail(err, PST_ERROR_CORRUPT, "png", (int64_t)chunk->offset,
                                "transparency of %u bytes for colour type %u with %u palette "
                                "entries",
                                chunk->nbytes, header->colour_type, header->n_palette);
    header->trns = chunk->data;
    header->n_trns = chunk->nbytes;
    return PST_OK;
}

static enum pst_status read_other(const struct chunk *chunk, struct psti_png_header *header,
                                  struct pst_error *err)
{
    if (strcmp(chunk->name, "PLTE") == 0)
        return read_palette(chunk, header, err);
    if (strcmp(chunk->name, "tRNS") == 0)
        return read_trns(chunk, header, err);
    return PST_OK;
}

enum pst_status psti_decode_png_header(const uint8_t *bytes, size_t nbytes,
                                       struct psti_png_header *header, struct pst_error *err)
{
    struct chunk chunk;
    enum pst_status status;
    memset(header, 0, sizeof *header);
    size_t offset = nbytes < SIGNATURE_NBYTES ? nbytes : SIGNATURE_NBYTES;
    for (bool first = true;; first = false) {
        status = read_chunk(bytes, nbytes, offset, &chunk, err);
        if (status != PST_OK)
            return status;
        if (!first && strcmp(chunk.name, "IDAT") == 0)
            break;
        if (nbytes - offset - 8 < (size_t)chunk.nbytes + 4)
            return psti_decode_fail(err, PST_ERROR_TRUNCATED, "png", (int64_t)nbytes,
                                    "the file ends after %zu bytes, before its pixels", nbytes);
        status = first ? read_ihdr(&chunk, header, err) : read_other(&chunk, header, err);
        if (status != PST_OK)
            return status;
        if (strcmp(chunk.name, "IEND") == 0)
            return psti_decode_fail(err, PST_ERROR_CORRUPT, "png", (int64_t)offset,
                                    "the file has no pixels");
        offset += (size_t)chunk.nbytes + 12;
    }
    if (header->colour_type == PSTI_PNG_PALETTE && !header->palette)
        return psti_decode_fail(err, PST_ERROR_CORRUPT, "png", (int64_t)offset,
                                "a palette image without a palette");
    return PST_OK;
}

uint32_t psti_decode_png_pixel_bits(const struct psti_png_header *header)
{
    static const uint8_t samples[] = {1, 0, 3, 1, 2, 0, 4}; /* samples of a pixel, by colour type */
    return (uint32_t)samples[header->colour_type] * header->depth;
}

uint8_t psti_decode_png_channels(const struct psti_png_header *header, bool palette_indices)
{
    switch (header->colour_type) {
    case PSTI_PNG_GRAY:
        return header->trns ? 2 : 1;
    case PSTI_PNG_RGB:
        return header->trns ? 4 : 3;
    case PSTI_PNG_PALETTE:
        return palette_indices ? 1 : header->trns ? 4 : 3;
    case PSTI_PNG_GRAY_ALPHA:
        return 2;
    default:
        return 4;
    }
}

enum pst_status psti_decode_png_probe(const uint8_t *bytes, size_t nbytes, bool palette_indices,
                                      struct pst_image_info *info, struct pst_error *err)
{
    struct psti_png_header header;
    enum pst_status status = psti_decode_png_header(bytes, nbytes, &header, err);
    if (status != PST_OK)
        return status;
    info->height = header.height;
    info->width = header.width;
    info->channels = psti_decode_png_channels(&header, palette_indices);
    info->bits = header.depth == 16 ? 16 : 8;
    info->orientation = psti_decode_png_orientation(bytes, nbytes);
    info->palette = header.colour_type == PSTI_PNG_PALETTE;
    info->progressive = header.interlaced;
    return PST_OK;
}
