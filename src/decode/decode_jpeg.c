/* decode_jpeg.c - decodes a JPEG to rows, a few at a time, by libjpeg-turbo. It first asks
 * decode_jpeg_direct.c, which decodes most JPEGs.
 *
 * The pixels are exactly those of libjpeg-turbo's default decoder (accurate integer DCT, fancy
 * upsampling), for a region too. One libjpeg object serves all images of a decoder.
 * jpeg_crop_scanline cuts out a region's columns, jpeg_skip_scanlines skips the rows above it, and
 * the decode stops after its last row. The cropped decoder treats the edge of the crop as the edge
 * of the picture, where fancy upsampling repeats the last chroma sample. So the crop is at least
 * one chroma sample wider than the region, unless the picture ends there.
 *
 * libjpeg fills missing data with grey pixels and only warns. Here such a warning is an error: see
 * is_harmless(). libjpeg reports errors by longjmp to run_guarded(). The functions that it jumps
 * over have nothing to clean up, because all memory is the arena's. */
#include "decode/decode_jpeg.h"

#include "base/alloc.h"
#include "pli/pli.h"

#include <jerror.h>
#include <string.h>

/* The most scans that a file may have. Without a limit a progressive file of a few kilobytes could
 * make the decoder run thousands of scans over millions of pixels. */
#define SCANS_MAX 500

static enum pst_status status_of(const struct psti_jpeg *jpeg, int code)
{
    switch (code) {
    case JERR_OUT_OF_MEMORY:
        return PST_ERROR_MEMORY;
    case JERR_IMAGE_TOO_BIG:
    case JERR_WIDTH_OVERFLOW:
        return PST_ERROR_LIMIT;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_COMPONENT_COUNT:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED:
    case JERR_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
        return PST_ERROR_UNSUPPORTED;
    case JERR_INPUT_EMPTY:
    case JERR_INPUT_EOF:
        return PST_ERROR_TRUNCATED;
    default:
        return jpeg->ended ? PST_ERROR_TRUNCATED : PST_ERROR_CORRUPT;
    }
}

static void fail_with_message(struct psti_jpeg *jpeg)
{
    char text[JMSG_LENGTH_MAX];
    enum pst_status status = status_of(jpeg, jpeg->errors.msg_code);
    struct psti_decode_job *job = jpeg->job;
    jpeg->errors.format_message((j_common_ptr)&jpeg->cinfo, text);
    size_t left = jpeg->ended ? 0 : jpeg->source.bytes_in_buffer;
    if (job)
        psti_decode_fail(job->err, status, "jpeg", (int64_t)(job->nbytes - left), "%s", text);
    psti_decode_jpeg_escape(jpeg, status);
}

static void error_exit(j_common_ptr cinfo) { fail_with_message(cinfo->client_data); }

/* Returns true for warnings of libjpeg after which the pixels are still those that were encoded. */
static bool is_harmless(int code)
{
    switch (code) {
    case JWRN_EXTRANEOUS_DATA: /* stray bytes before a marker */
    /* an Adobe marker with an unknown colour transform; libjpeg assumes the usual one */
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:     /* a later version of JFIF */
    case JWRN_NOT_SEQUENTIAL: /* odd scan parameters in a sequential file, which have no effect */
    case JWRN_BOGUS_ICC:
        return true;
    default: /* JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE, JWRN_MUST_RESYNC, JWRN_BOGUS_PROGRESSION, ...
              */
        return false;
    }
}

static void emit_message(j_common_ptr cinfo, int level)
{
    struct psti_jpeg *jpeg = cinfo->client_data;
    if (level < 0 && !is_harmless(jpeg->errors.msg_code))
        fail_with_message(jpeg);
}

static void output_message(j_common_ptr cinfo) { (void)cinfo; }

static void source_nothing(j_decompress_ptr cinfo) { (void)cinfo; }

/* Called by libjpeg when it has read all bytes of the file. Gives it a made-up end-of-image marker,
 * because a file that lacks only this marker still has all its pixels. If libjpeg needs more data
 * after the marker, it gives a warning, which is an error here. */
static boolean source_fill(j_decompress_ptr cinfo)
{
    static const JOCTET end[2] = {0xFF, JPEG_EOI};
    struct psti_jpeg *jpeg = cinfo->client_data;
    jpeg->ended = true;
    jpeg->source.next_input_byte = end;
    jpeg->source.bytes_in_buffer = sizeof end;
    return TRUE;
}

static void source_skip(j_decompress_ptr cinfo, long nbytes)
{
    struct psti_jpeg *jpeg = cinfo->client_data;
    if (nbytes <= 0)
        return;
    if ((size_t)nbytes > jpeg->source.bytes_in_buffer) {
        source_fill(cinfo);
        return;
    }
    jpeg->source.next_input_byte += nbytes;
    jpeg->source.bytes_in_buffer -= (size_t)nbytes;
}

static void limit_scans(j_common_ptr cinfo)
{
    struct psti_jpeg *jpeg = cinfo->client_data;
    if (jpeg->cinfo.input_scan_number <= SCANS_MAX)
        return;
    psti_decode_fail(jpeg->job->err, PST_ERROR_UNSUPPORTED, "jpeg", -1, "more than %d scans",
                     SCANS_MAX);
    psti_decode_jpeg_escape(jpeg, PST_ERROR_UNSUPPORTED);
}

/* Runs `body` and returns its status. If libjpeg reports an error meanwhile, that becomes the
 * status. */
static enum pst_status run_guarded(struct psti_jpeg *jpeg,
                                   enum pst_status (*body)(struct psti_jpeg *jpeg))
{
    if (setjmp(jpeg->escape))
        return jpeg->status;
    return body(jpeg);
}

static enum pst_status create(struct psti_jpeg *jpeg)
{
    struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
    jpeg_create_decompress(cinfo);
    psti_decode_jpeg_install_memory(jpeg);
    jpeg->created = true;
    cinfo->src = &jpeg->source;
    cinfo->progress = &jpeg->progress;
    return PST_OK;
}

static enum pst_status open_jpeg(struct psti_decoder *decoder, struct psti_decode_job *job)
{
    struct psti_jpeg *jpeg = psti_calloc(1, sizeof *jpeg);
    enum pst_status status;
    if (!jpeg)
        return psti_decode_fail(job->err, PST_ERROR_MEMORY, "jpeg", -1,
                                "no memory for a JPEG decoder");
    jpeg->job = job;
    jpeg->cinfo.err = jpeg_std_error(&jpeg->errors);
    jpeg->cinfo.client_data = jpeg;
    jpeg->errors.error_exit = error_exit;
    jpeg->errors.emit_message = emit_message;
    jpeg->errors.output_message = output_message;
    jpeg->source.init_source = source_nothing;
    jpeg->source.fill_input_buffer = source_fill;
    jpeg->source.skip_input_data = source_skip;
    jpeg->source.resync_to_restart = jpeg_resync_to_restart;
    jpeg->source.term_source = source_nothing;
    jpeg->progress.progress_monitor = limit_scans;
    status = run_guarded(jpeg, create);
    if (status == PST_OK)
        decoder->jpeg = jpeg;
    else
        psti_decode_jpeg_close(jpeg);
    return status;
}

void psti_decode_jpeg_open(struct psti_decoder *decoder)
{
    struct psti_decode_job job = {.decoder = decoder};
    if (!decoder->jpeg && open_jpeg(decoder, &job) == PST_OK)
        decoder->jpeg->job = NULL; /* no job until the first image */
}

void psti_decode_jpeg_close(struct psti_jpeg *jpeg)
{
    if (!jpeg)
        return;
    if (jpeg->created)
        jpeg->cinfo.mem = jpeg->memory_of_libjpeg;
    jpeg_destroy_decompress(&jpeg->cinfo);
    psti_free(jpeg);
}

/* Prepares libjpeg for the next image. Makes it forget the tables of the last image, which lie in
 * the arena, because the arena has been emptied. Sets its data source to the new image. */
static void restart(struct psti_jpeg *jpeg, struct psti_decode_job *job)
{
    struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
    jpeg_abort_decompress(cinfo);
    for (int i = 0; i < NUM_QUANT_TBLS; i++)
        cinfo->quant_tbl_ptrs[i] = NULL;
    for (int i = 0; i < NUM_HUFF_TBLS; i++)
        cinfo->dc_huff_tbl_ptrs[i] = cinfo->ac_huff_tbl_ptrs[i] = NULL;
    jpeg->job = job;
    jpeg->ended = false;
    jpeg->samples = NULL;
    jpeg->blocks = NULL;
    jpeg->source.next_input_byte = job->bytes;
    jpeg->source.bytes_in_buffer = job->nbytes;
}

/* The columns that libjpeg decodes for a region: the first column and their number. */
struct columns {
    JDIMENSION x, width;
};

/* Returns the columns to decode for a region. If chroma is interpolated horizontally, a margin of
 * one chroma sample is added. With only 2 chroma samples per row libjpeg would choose another
 * upsampler than for the whole picture, so more columns are taken then. */
static struct columns columns_for(const struct jpeg_decompress_struct *cinfo,
                                  const struct psti_rect *region)
{
    JDIMENSION width = cinfo->output_width, left = region->x, right = region->x + region->width;
    JDIMENSION step = (JDIMENSION)cinfo->max_h_samp_factor, least = 8 * step;
    bool interpolates = false;
    for (int i = 0; i < cinfo->num_components; i++)
        interpolates |= cinfo->comp_info[i].h_samp_factor * 2 == cinfo->max_h_samp_factor;
    if (interpolates) {
        left = left > step ? left - 1 : 0;
        right = width - right > step ? right + step : width;
    }
    if (right - left < least) {
        right = width - left > least ? left + least : width;
        left = right > least && right - least < left ? right - least : left;
        left = right < least ? 0 : left;
    }
    return (struct columns){left, right - left};
}

/* Returns whether libjpeg may smooth the blocks of this file. It does so in progressive files that
 * lack their last scans. Smoothing reads neighbouring blocks, and a crop does not decode these. */
static bool may_be_smoothed(const struct jpeg_decompress_struct *cinfo)
{
    if (!cinfo->progressive_mode || !cinfo->do_block_smoothing || !cinfo->coef_bits)
        return false;
    for (int i = 0; i < cinfo->num_components; i++)
        for (int k = 1; k < DCTSIZE2; k++)
            if (cinfo->coef_bits[i][k] != 0)
                return true;
    return false;
}

/* Makes libjpeg crop to the region's columns, and skips to the region's first row. Returns the
 * columns that libjpeg will deliver. */
static struct columns enter_region(struct psti_jpeg *jpeg, const struct psti_rect *region)
{
    struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
    struct columns columns = {0, cinfo->output_width};
    bool whole = region->height == cinfo->output_height && region->width == cinfo->output_width;
    if (whole)
        return columns;
    if (jpeg_has_multiple_scans(cinfo))
        jpeg->job->decoder->n_region_fallback++;
    if (!may_be_smoothed(cinfo)) {
        columns = columns_for(cinfo, region);
        jpeg_crop_scanline(cinfo, &columns.x, &columns.width);
    }
    if (region->y > 0)
        jpeg_skip_scanlines(cinfo, region->y);
    return columns;
}

/* Checks that no scan is missing. If the file has several scans, libjpeg has read all of them by
 * now. */
static enum pst_status check_scans(struct psti_jpeg *jpeg)
{
    struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
    struct psti_decode_job *job = jpeg->job;
    if (jpeg->ended && (jpeg_has_multiple_scans(cinfo) || cinfo->arith_code))
        return psti_decode_fail(job->err, PST_ERROR_TRUNCATED, "jpeg", (int64_t)job->nbytes,
                                "the file ends after %zu bytes, in scan %d", job->nbytes,
                                cinfo->input_scan_number);
    for (int i = 0; cinfo->coef_bits && i < cinfo->num_components; i++)
        if (cinfo->coef_bits[i][0] < 0)
            return psti_decode_fail(job->err, PST_ERROR_CORRUPT, "jpeg", -1,
                                    "no scan has component %d", i);
    return PST_OK;
}

/* Converts pixels of four components to RGB, in place, as PIL does: it always treats them as
 * inverted ("Adobe") CMYK. */
static void cmyk_to_rgb(uint8_t *pixels, size_t n)
{
    const uint8_t *from = pixels;
    uint8_t *to = pixels;
    for (size_t i = 0; i < n; i++, from += 4, to += 3) {
        unsigned black = from[3];
        for (int c = 0; c < 3; c++) {
            unsigned product = (255u - from[c]) * black + 128;
            int value = (int)black - (int)((product + (product >> 8)) >> 8);
            to[c] = value < 0 ? 0 : (uint8_t)value;
        }
    }
}

/* Lets libjpeg convert the colours if it can. If `plain` is set, libjpeg's rows get the channels of
 * the direct way instead: gray, or RGB without alpha. Returns the number of channels in libjpeg's
 * rows. */
static int choose_colours(struct jpeg_decompress_struct *cinfo, const struct psti_decode_job *job,
                          bool plain)
{
    if (cinfo->num_components == 4) {
        cinfo->out_color_space = JCS_CMYK;
        return 4;
    }
    if (job->options->channels == 4 && !plain) {
        cinfo->out_color_space = JCS_EXT_RGBA;
        return 4;
    }
    if (cinfo->num_components == 1 && (job->options->channels != 3 || plain)) {
        cinfo->out_color_space = JCS_GRAYSCALE;
        return 1;
    }
    cinfo->out_color_space = JCS_RGB;
    return 3;
}

static enum pst_status read_rows(struct psti_jpeg *jpeg, struct psti_emit *emit,
                                 const struct psti_rect *region, uint8_t *band, size_t row_nbytes,
                                 size_t skip_px)
{
    struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
    size_t n_samples = (size_t)cinfo->output_components;
    bool cmyk = cinfo->num_components == 4;
    JSAMPROW rows[PSTI_BAND_ROWS];
    enum pst_status status = PST_OK;
    for (JDIMENSION i = 0; i < PSTI_BAND_ROWS; i++)
        rows[i] = band + i * row_nbytes;
    for (uint32_t y = 0; y < region->height && status == PST_OK;) {
        uint32_t left = region->height - y, n_rows = 0;
        uint32_t wanted = left < PSTI_BAND_ROWS ? left : PSTI_BAND_ROWS;
        while (n_rows < wanted)
            n_rows += jpeg_read_scanlines(cinfo, rows + n_rows, wanted - n_rows);
        if (jpeg->ended && cinfo->arith_code)
            return check_scans(jpeg);
        for (uint32_t i = 0; cmyk && i < n_rows; i++)
            cmyk_to_rgb(rows[i] + skip_px * n_samples, region->width);
        status = psti_decode_emit_rows(emit, band + skip_px * n_samples, row_nbytes, n_rows);
        y += n_rows;
    }
    return status;
}

/* Decodes the region's rows from row `from` on by libjpeg. `begun`: `emit` was begun, with the
 * file's components as channels. */
static enum pst_status decode_by_libjpeg(struct psti_jpeg *jpeg, struct psti_emit *emit, bool begun,
                                         uint32_t from)
{
    struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
    struct psti_decode_job *job = jpeg->job;
    struct psti_rect region = job->stored;
    int channels = choose_colours(cinfo, job, begun);
    region.y += from;
    region.height -= from;
    cinfo->dct_method = JDCT_ISLOW;
    jpeg_start_decompress(cinfo);
    enum pst_status status = check_scans(jpeg);
    if (status == PST_OK && !begun)
        status = psti_decode_emit_begin(emit, job,
                                        cinfo->num_components == 4 ? 3 : (uint8_t)channels, 8);
    if (status != PST_OK)
        return status;
    struct columns columns = enter_region(jpeg, &region);
    size_t row_nbytes = (size_t)columns.width * (size_t)channels;
    uint8_t *band = psti_decode_alloc(job, row_nbytes * PSTI_BAND_ROWS, &status);
    if (!band)
        return status;
    return read_rows(jpeg, emit, &region, band, row_nbytes, region.x - columns.x);
}

static enum pst_status decode(struct psti_jpeg *jpeg)
{
    struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
    struct psti_decode_job *job = jpeg->job;
    struct psti_emit emit;
    uint32_t n_rows;
    bool begun;
    jpeg_read_header(cinfo, TRUE);
    if (cinfo->image_width != job->width || cinfo->image_height != job->height)
        return psti_decode_fail(job->err, PST_ERROR_ARGUMENT, "jpeg", -1,
                                "the image has %u x %u pixels, not the %u x %u that were probed",
                                cinfo->image_width, cinfo->image_height, job->width, job->height);
    struct psti_decoder *decoder = job->decoder;
    const bool asked = decoder->wants_codes;
    enum pst_status status = psti_decode_jpeg_direct(jpeg, &emit, &begun, &n_rows);
    if (status == PST_OK && n_rows == job->stored.height) {
        decoder->n_jpeg_direct++;
    } else if (status == PST_OK) {
        decoder->n_libjpeg += !decoder->libjpeg_only && decoder->wants_codes == asked;
        status = decode_by_libjpeg(jpeg, &emit, begun, n_rows);
    }
    return status == PST_OK ? psti_decode_emit_end(&emit) : status;
}

enum pst_status psti_decode_jpeg_rows(struct psti_decode_job *job)
{
    struct psti_decoder *decoder = job->decoder;
    enum pst_status status;
    if (!decoder->jpeg) {
        status = open_jpeg(decoder, job);
        if (status != PST_OK)
            return status;
    }
    struct psti_jpeg *jpeg = decoder->jpeg;
    restart(jpeg, job);
    status = run_guarded(jpeg, decode);
    jpeg->job = NULL;
    return status;
}
