/* decode_png_libpng.c - decodes a PNG to rows by libpng.
 *
 * libpng inflates, undoes filters and compares checksums. It delivers rows as they are stored. The
 * decode of a region ends after the region's last row. An interlaced picture is first read
 * completely. All of libpng's memory comes from the arena. So creating libpng's structure for each
 * image is cheap, and it is never destroyed. libpng reports errors by longjmp. */
#include "decode/png/decode_png.h"

#include <setjmp.h>
#include <string.h>

#include <png.h>

struct reader {
    struct psti_png *png;
    struct psti_decode_job *job; /* the same job as png->job */
    size_t consumed;             /* bytes given to libpng so far */
    bool ended;                  /* libpng asked for more bytes than the file has */
    enum pst_status status;
    jmp_buf escape;
};

static _Noreturn void escape(struct reader *reader, enum pst_status status)
{
    reader->status = status;
    longjmp(reader->escape, 1);
}

static _Noreturn void on_error(png_structp png, png_const_charp text)
{
    struct reader *reader = png_get_error_ptr(png);
    enum pst_status status = reader->ended ? PST_ERROR_TRUNCATED : PST_ERROR_CORRUPT;
    psti_decode_fail(reader->job->err, status, "png", (int64_t)reader->consumed, "%s", text);
    escape(reader, status);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static png_voidp take(png_structp png, png_alloc_size_t nbytes)
{
    struct reader *reader = png_get_mem_ptr(png);
    enum pst_status status = PST_OK;
    void *memory = psti_decode_alloc(reader->job, nbytes, &status);
    if (!memory)
        escape(reader, status);
    return memory;
}

static void give(png_structp png, png_voidp memory)
{
    (void)png;
    (void)memory;
}

static void read_bytes(png_structp png, png_bytep to, size_t nbytes)
{
    struct reader *reader = png_get_io_ptr(png);
    if (nbytes > reader->job->nbytes - reader->consumed) {
        reader->consumed = reader->job->nbytes;
        reader->ended = true;
        png_error(png, "the file ends within its pixels");
    }
    memcpy(to, reader->job->bytes + reader->consumed, nbytes);
    reader->consumed += nbytes;
}

/* Makes libpng skip chunks that do not change pixels. Otherwise libpng would parse them, and some
 * take long. */
static void ignore_chunks(png_structp png)
{
    static const png_byte names[] = "bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0"
                                    "pHYs\0sBIT\0sCAL\0sPLT\0sRGB\0sTER\0tEXt\0tIME\0zTXt";
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, names, (int)(sizeof names / 5));
}

static png_structp open_png(struct reader *reader, png_infop *info)
{
    png_structp png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, reader, on_error, on_warning,
                                               reader, take, give);
    if (!png) {
        psti_decode_fail(reader->job->err, PST_ERROR_UNSUPPORTED, "png", -1,
                         "libpng %s does not fit the one this was built with",
                         png_get_libpng_ver(NULL));
        escape(reader, PST_ERROR_UNSUPPORTED);
    }
    png_set_read_fn(png, reader, read_bytes);
    png_set_user_limits(png, PSTI_SIDE_MAX, PSTI_SIDE_MAX);
    png_set_chunk_malloc_max(png, PSTI_PNG_CHUNK_NBYTES_LIMIT);
    /* A wrong checksum is an error in ancillary chunks too: tRNS is one of them, and it changes
     * pixels. */
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    ignore_chunks(png);
    *info = png_create_info_struct(png);
    if (!*info)
        png_error(png, "no memory for libpng");
    png_read_info(png, *info);
    return png;
}

/* Reads the rows of a picture without interlacing. Rows above the region are inflated and dropped.
 * Rows below it are not read. */
static enum pst_status read_plain(struct reader *reader, png_structp png)
{
    const struct psti_rect *region = &reader->job->stored;
    size_t stored_nbytes = reader->png->stored_nbytes;
    enum pst_status status = PST_OK;
    uint8_t *rows = psti_decode_alloc(reader->job, stored_nbytes * PSTI_BAND_ROWS, &status);
    if (!rows)
        return status;
    for (uint32_t y = 0; y < region->y; y++)
        png_read_row(png, NULL, NULL);
    for (uint32_t y = 0; y < region->height && status == PST_OK; y += PSTI_BAND_ROWS) {
        uint32_t left = region->height - y;
        uint32_t n_rows = left < PSTI_BAND_ROWS ? left : PSTI_BAND_ROWS;
        for (uint32_t i = 0; i < n_rows; i++)
            png_read_row(png, rows + i * stored_nbytes, NULL);
        status = psti_decode_png_emit(reader->png, rows, stored_nbytes, n_rows);
    }
    return status;
}

/* Reads a whole interlaced picture in its seven passes, then hands on the region. */
static enum pst_status read_interlaced(struct reader *reader, png_structp png)
{
    const struct psti_rect *region = &reader->job->stored;
    const struct psti_png_header *header = &reader->png->header;
    size_t stored_nbytes = reader->png->stored_nbytes;
    enum pst_status status = PST_OK;
    uint8_t *rows = psti_decode_alloc(reader->job, stored_nbytes * header->height, &status);
    if (!rows)
        return status;
    if (region->height != header->height || region->width != header->width)
        reader->job->decoder->n_region_fallback++;
    int n_passes = png_set_interlace_handling(png);
    png_start_read_image(png);
    for (int pass = 0; pass < n_passes; pass++)
        for (uint32_t y = 0; y < header->height; y++)
            png_read_row(png, rows + y * stored_nbytes, NULL);
    for (uint32_t y = 0; y < region->height && status == PST_OK; y += PSTI_BAND_ROWS) {
        uint32_t left = region->height - y;
        uint32_t n_rows = left < PSTI_BAND_ROWS ? left : PSTI_BAND_ROWS;
        status = psti_decode_png_emit(reader->png, rows + (size_t)(region->y + y) * stored_nbytes,
                                      stored_nbytes, n_rows);
    }
    return status;
}

static enum pst_status decode(struct reader *reader)
{
    png_infop info = NULL;
    png_structp png = open_png(reader, &info);
    enum pst_status status = psti_decode_png_begin(reader->png);
    if (status != PST_OK)
        return status;
    status =
        reader->png->header.interlaced ? read_interlaced(reader, png) : read_plain(reader, png);
    return status == PST_OK ? psti_decode_emit_end(&reader->png->emit) : status;
}

static enum pst_status run_guarded(struct reader *reader)
{
    if (setjmp(reader->escape))
        return reader->status;
    return decode(reader);
}

enum pst_status psti_decode_png_libpng(struct psti_png *png)
{
    struct reader reader = {.png = png, .job = png->job};
    return run_guarded(&reader);
}
