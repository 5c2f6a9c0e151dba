/* decode_jpeg_direct.c - decodes the usual JPEGs by the reader and the kernels of PLI, which are
 * about twice as fast as libjpeg-turbo and give exactly its pixels.
 *
 * libjpeg reads the headers, so both ways see the same file. Usual are sequential files with
 * Huffman codes and one scan, gray, or of three components with 4:4:4, 4:2:2 or 4:2:0. If something
 * in the scan's data is not regular, libjpeg decodes the rows that are left, and says what is
 * wrong. */
#include "decode/decode_jpeg.h"

#include "base/alloc.h"
#include "pli/pli.h"

#include <stdatomic.h>
#include <string.h>

/* What decode_jpeg_trial.c has found. */
enum { TRIED = 1, AGREES = 2, SATURATES = 4 };
static atomic_int found;

void psti_decode_jpeg_found(bool agrees, bool saturates)
{
    atomic_store(&found, TRIED | (agrees ? AGREES : 0) | (saturates ? SATURATES : 0));
}

bool psti_decode_jpeg_is_tried(void) { return atomic_load(&found) & TRIED; }

bool psti_decode_jpeg_saturates(void) { return atomic_load(&found) & SATURATES; }

/* Takes what the headers say of the components. Returns false if the file is not a usual one. */
static bool take_frame(const struct jpeg_decompress_struct *cinfo, struct psti_jpeg_frame *frame)
{
    const int n = cinfo->num_components;
    if (cinfo->progressive_mode || cinfo->arith_code || cinfo->data_precision != 8 ||
        cinfo->comps_in_scan != n ||
        !(n == 1 ? cinfo->jpeg_color_space == JCS_GRAYSCALE
                 : n == 3 && (cinfo->jpeg_color_space == JCS_YCbCr ||
                              cinfo->jpeg_color_space == JCS_RGB)))
        return false;
    *frame = (struct psti_jpeg_frame){.width = cinfo->image_width,
                                      .height = cinfo->image_height,
                                      .n_components = (uint8_t)n,
                                      .transform = cinfo->jpeg_color_space == JCS_YCbCr,
                                      .orientation = 1};
    for (int i = 0; i < n; i++) {
        const jpeg_component_info *from = &cinfo->comp_info[i];
        const int h = from->h_samp_factor, v = from->v_samp_factor;
        if (n == 1 ? v != 1 : i > 0 ? h != 1 || v != 1 : h > 2 || v > h)
            return false;
        frame->components[i] = (struct psti_jpeg_component){
            .h = (uint8_t)(n > 1 ? h : 1), .v = (uint8_t)v, .quant = (uint8_t)from->quant_tbl_no};
    }
    return psti_pli_jpeg_frame_measure(frame);
}

static bool take_quants(const struct jpeg_decompress_struct *cinfo, struct psti_jpeg_frame *frame)
{
    for (uint32_t i = 0; i < frame->n_components; i++) {
        const uint32_t q = frame->components[i].quant;
        if (q >= PSTI_JPEG_N_QUANTS || !cinfo->quant_tbl_ptrs[q])
            return false;
        for (uint32_t k = 0; k < 64; k++) /* libjpeg has them row by row */
            frame->quants[q][k] = cinfo->quant_tbl_ptrs[q]->quantval[psti_jpeg_zigzag[k]];
    }
    return true;
}

static bool take_code(const JHUFF_TBL *from, struct psti_pli_jpeg_code *code)
{
    size_t n = 0;
    if (!from)
        return false;
    for (size_t length = 0; length < sizeof code->counts; length++)
        n += code->counts[length] = from->bits[length + 1];
    if (n > sizeof code->symbols)
        return false;
    memcpy(code->symbols, from->huffval, n);
    return true;
}

/* Describes the scan whose header libjpeg has read. Returns false if the file is not a usual one.
 */
static bool describe(struct psti_jpeg *jpeg, struct psti_jpeg_frame *frame,
                     struct psti_pli_jpeg_scan *scan)
{
    const struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
    const struct psti_decoder *decoder = jpeg->job->decoder;
    if (decoder->libjpeg_only || !(decoder->is_trial || atomic_load(&found) & AGREES) ||
        jpeg->ended || !take_frame(cinfo, frame) || !take_quants(cinfo, frame))
        return false;
    *scan =
        (struct psti_pli_jpeg_scan){.frame = frame,
                                    .restart_interval = cinfo->restart_interval,
                                    .bytes = jpeg->source.next_input_byte,
                                    .nbytes = jpeg->source.bytes_in_buffer,
                                    .sum_max = psti_pli_jpeg_sum_max(psti_decode_jpeg_saturates()),
                                    .cpu = decoder->cpu};
    for (uint32_t i = 0; i < frame->n_components; i++) {
        const jpeg_component_info *component = &cinfo->comp_info[i];
        const int dc = component->dc_tbl_no, ac = component->ac_tbl_no;
        if (cinfo->cur_comp_info[i] != component || dc < 0 || dc >= PSTI_JPEG_N_CODES || ac < 0 ||
            ac >= PSTI_JPEG_N_CODES ||
            !take_code(cinfo->dc_huff_tbl_ptrs[dc], &scan->code[0][dc]) ||
            !take_code(cinfo->ac_huff_tbl_ptrs[ac], &scan->code[1][ac]))
            return false;
        scan->dc[i] = (uint8_t)dc;
        scan->ac[i] = (uint8_t)ac;
    }
    return true;
}

static enum pst_status decode_scan(struct psti_decode_job *job,
                                   const struct psti_pli_jpeg_scan *scan, struct psti_emit *emit,
                                   uint32_t *n_rows)
{
    const struct pst_pli_region region = {job->stored.y, job->stored.x, job->stored.height,
                                          job->stored.width};
    const uint8_t channels = scan->frame->n_components;
    const size_t row_nbytes = (size_t)region.width * channels;
    const size_t scratch_nbytes = psti_pli_jpeg_scan_scratch_nbytes(scan->frame, region.width);
    const size_t nbytes = scratch_nbytes + row_nbytes * PSTI_PLI_JPEG_BAND_ROWS;
    struct psti_decode_arena *arena = &job->decoder->arena;
    enum pst_status status = PST_OK;
    uint8_t *scratch = psti_decode_arena_alloc(arena, nbytes, &status);
    if (!scratch) { /* libjpeg may need less */
        if (status == PST_ERROR_LIMIT)
            job->decoder->scratch_wanted = arena->held + nbytes + 2 * PSTI_CACHE_LINE;
        return job->decoder->is_trial ? status : PST_OK;
    }
    const struct pst_pixels pixels = {.data = scratch + scratch_nbytes,
                                      .height = PSTI_PLI_JPEG_BAND_ROWS,
                                      .width = region.width,
                                      .channels = channels,
                                      .bits = 8,
                                      .row_nbytes = (int64_t)row_nbytes,
                                      .pixel_nbytes = channels,
                                      .channel_nbytes = 1};
    struct psti_emit_band band = {emit, pixels.data, row_nbytes};
    status = psti_pli_jpeg_decode_scan(scan, &region, &pixels, scratch, psti_decode_emit_band,
                                       &band, n_rows);
    psti_decode_arena_give_back(arena, nbytes); /* libjpeg may need it */
    return status;
}

size_t psti_decode_codes_nbytes(void) { return psti_pli_jpeg_codes_nbytes(); }

bool psti_decode_take_codes(struct psti_decoder *decoder)
{
    if (!decoder->codes)
        decoder->codes = psti_calloc(1, psti_pli_jpeg_codes_nbytes());
    return decoder->codes != NULL;
}

void psti_decode_withhold_codes(struct psti_decoder *decoder) { decoder->withholds_codes = true; }

bool psti_decode_wants_codes(const struct psti_decoder *decoder)
{
    return decoder->wants_codes && !decoder->codes;
}

/* Returns true if the decoder has memory for codes, or takes it now. */
static bool has_codes(struct psti_decoder *decoder)
{
    if (decoder->codes || !decoder->withholds_codes)
        return psti_decode_take_codes(decoder);
    decoder->wants_codes = true;
    return false;
}

enum pst_status psti_decode_jpeg_direct(struct psti_jpeg *jpeg, struct psti_emit *emit, bool *begun,
                                        uint32_t *n_rows)
{
    struct psti_jpeg_frame frame;
    struct psti_pli_jpeg_scan scan;
    *begun = false;
    *n_rows = 0;
    struct psti_decoder *decoder = jpeg->job->decoder;
    if (!describe(jpeg, &frame, &scan))
        return PST_OK;
    if (!has_codes(decoder)) /* a trial must tell that memory is short */
        return decoder->is_trial ? PST_ERROR_MEMORY : PST_OK;
    scan.codes = decoder->codes;
    enum pst_status status = psti_decode_emit_begin(emit, jpeg->job, frame.n_components, 8);
    *begun = status == PST_OK;
    return status == PST_OK ? decode_scan(jpeg->job, &scan, emit, n_rows) : status;
}
