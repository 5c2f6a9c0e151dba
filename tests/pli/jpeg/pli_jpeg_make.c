/* pli_jpeg_make.c - implements pli_jpeg_make.h. */
#include "pli/jpeg/pli_jpeg_make.h"

#include <stdlib.h>

#include <jpeglib.h>

static void *get(size_t nbytes)
{
    void *p = malloc(nbytes);
    assert_non_null(p);
    return p;
}

static void begin(struct jpeg_decompress_struct *cinfo, struct jpeg_error_mgr *errors,
                  const struct bytes *file)
{
    cinfo->err = jpeg_std_error(errors);
    jpeg_create_decompress(cinfo);
    jpeg_mem_src(cinfo, file->data, (unsigned long)file->nbytes);
    jpeg_read_header(cinfo, TRUE);
}

static bool read_frame(struct jpeg_decompress_struct *cinfo, struct psti_jpeg_frame *frame)
{
    *frame = (struct psti_jpeg_frame){
        .width = cinfo->image_width,
        .height = cinfo->image_height,
        .n_components = (uint8_t)cinfo->num_components,
        .transform = cinfo->jpeg_color_space == JCS_YCbCr,
        .orientation = 1,
    };
    if (cinfo->num_components > PSTI_JPEG_COMPONENTS_MAX)
        return false;
    for (int c = 0; c < cinfo->num_components; c++) {
        const jpeg_component_info *info = &cinfo->comp_info[c];
        bool single = cinfo->num_components == 1;
        frame->components[c] = (struct psti_jpeg_component){
            .h = single ? 1 : (uint8_t)info->h_samp_factor,
            .v = single ? 1 : (uint8_t)info->v_samp_factor,
            .quant = (uint8_t)info->quant_tbl_no,
        };
    }
    return psti_pli_jpeg_frame_measure(frame);
}

static void read_quants(struct jpeg_decompress_struct *cinfo, struct psti_jpeg_frame *frame)
{
    for (int c = 0; c < cinfo->num_components; c++) {
        uint8_t number = frame->components[c].quant;
        for (int k = 0; k < 64; k++)
            frame->quants[number][k] = cinfo->quant_tbl_ptrs[number]->quantval[psti_jpeg_zigzag[k]];
    }
}

static void read_coefs(struct jpeg_decompress_struct *cinfo, struct pli_jpeg *jpeg)
{
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(cinfo);
    for (int c = 0; c < cinfo->num_components; c++) {
        const struct psti_jpeg_component *component = &jpeg->frame.components[c];
        int16_t *to = jpeg->coefs[c] = get(psti_pli_jpeg_n_coefs(&jpeg->frame, (uint32_t)c) * 2);
        for (uint32_t y = 0; y < component->rows; y++) {
            JBLOCKARRAY row =
                cinfo->mem->access_virt_barray((j_common_ptr)cinfo, arrays[c], y, 1, FALSE);
            for (uint32_t x = 0; x < component->columns; x++)
                for (int k = 0; k < 64; k++)
                    *to++ = row[0][x][psti_jpeg_zigzag[k]];
        }
    }
}

/* Reads the component samples before upsampling, which libjpeg calls raw data. */
static void read_samples(const struct bytes *file, struct pli_jpeg *jpeg)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    const struct psti_jpeg_frame *frame = &jpeg->frame;
    JSAMPROW rows[3][32];
    JSAMPARRAY planes[3] = {rows[0], rows[1], rows[2]};
    begin(&cinfo, &errors, file);
    /* libjpeg uses the sampling factors even of a single component, and pads its last MCUs. So the
     * memory is larger than the component's blocks. */
    for (int c = 0; c < frame->n_components; c++) {
        size_t n =
            psti_pli_jpeg_n_coefs(frame, (uint32_t)c) + frame->components[c].columns * 8u * 32;
        jpeg->samples[c] = get(n);
        memset(jpeg->samples[c], 0, n);
    }
    cinfo.raw_data_out = TRUE;
    cinfo.out_color_space = cinfo.jpeg_color_space;
    cinfo.dct_method = JDCT_ISLOW;
    jpeg_start_decompress(&cinfo);
    for (uint32_t mcu = 0; cinfo.output_scanline < cinfo.output_height; mcu++) {
        for (int c = 0; c < frame->n_components; c++) {
            uint32_t n_rows = 8u * (uint32_t)cinfo.comp_info[c].v_samp_factor;
            for (uint32_t y = 0; y < n_rows; y++)
                rows[c][y] = jpeg->samples[c] +
                             ((size_t)mcu * n_rows + y) * 8 * frame->components[c].columns;
        }
        jpeg_read_raw_data(&cinfo, planes, 8u * (JDIMENSION)cinfo.max_v_samp_factor);
    }
    jpeg_finish_decompress(&cinfo);
    jpeg_destroy_decompress(&cinfo);
}

bool pli_jpeg_read(const struct bytes *file, struct pli_jpeg *jpeg)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    *jpeg = (struct pli_jpeg){0};
    begin(&cinfo, &errors, file);
    bool fits = read_frame(&cinfo, &jpeg->frame);
    if (fits) {
        read_coefs(&cinfo, jpeg);
        read_quants(&cinfo, &jpeg->frame);
        jpeg_finish_decompress(&cinfo);
    }
    jpeg_destroy_decompress(&cinfo);
    if (fits)
        read_samples(file, jpeg);
    return fits;
}

void pli_jpeg_free(struct pli_jpeg *jpeg)
{
    for (int c = 0; c < PSTI_JPEG_COMPONENTS_MAX; c++) {
        free(jpeg->coefs[c]);
        free(jpeg->samples[c]);
    }
    *jpeg = (struct pli_jpeg){0};
}

uint8_t *pli_jpeg_pixels(const struct bytes *file)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    begin(&cinfo, &errors, file);
    cinfo.dct_method = JDCT_ISLOW;
    cinfo.do_fancy_upsampling = TRUE;
    jpeg_start_decompress(&cinfo);
    size_t row_nbytes = (size_t)cinfo.output_width * (size_t)cinfo.output_components;
    uint8_t *pixels = get(row_nbytes * cinfo.output_height);
    while (cinfo.output_scanline < cinfo.output_height) {
        JSAMPROW row = pixels + row_nbytes * cinfo.output_scanline;
        jpeg_read_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_decompress(&cinfo);
    jpeg_destroy_decompress(&cinfo);
    return pixels;
}

static const int16_t *block_of(const struct pli_jpeg *jpeg, const struct psti_jpeg_square *square,
                               uint32_t position)
{
    size_t row = square->row + (position >> 3), column = square->column + (position & 7);
    const struct psti_jpeg_component *component = &jpeg->frame.components[square->component];
    return jpeg->coefs[square->component] + (row * component->columns + column) * 64;
}

static uint32_t end_of(const int16_t *block)
{
    uint32_t k = 63;
    while (k > 0 && block[k] == 0)
        k--;
    return k;
}

static bool is_there(const struct psti_jpeg_square *square, uint32_t position)
{
    return (position & 7) < square->columns && position >> 3 < square->rows;
}

/* Lists the blocks by the number of their last coefficient, largest first. */
static void list_blocks(const struct pli_jpeg *jpeg, struct pli_jpeg_unit *unit)
{
    struct psti_pli_coefs *coefs = &unit->coefs;
    for (int end = 63; end >= 0; end--) {
        for (uint32_t b = 0; b < 64 * coefs->n_squares; b++) {
            const struct psti_jpeg_square *square = &coefs->squares[b >> 6];
            if (is_there(square, b & 63) && end_of(block_of(jpeg, square, b & 63)) == (uint32_t)end)
                unit->order[coefs->n++] = (uint16_t)b;
        }
        coefs->n_k[end] = (uint16_t)coefs->n;
        if (coefs->n > 0 && coefs->last == 0)
            coefs->last = (uint32_t)end;
    }
}

void pli_jpeg_unit_make(const struct pli_jpeg *jpeg, uint32_t unit_log2, uint32_t row,
                        uint32_t column, struct pli_jpeg_unit *unit)
{
    struct psti_pli_coefs *coefs = &unit->coefs;
    memset(unit, 0, sizeof *unit);
    coefs->n_squares = psti_pli_jpeg_squares(&jpeg->frame, unit_log2, row, column, coefs->squares);
    list_blocks(jpeg, unit);
    coefs->stride = (coefs->n + 63) / 64 * 64;
    unit->planes = aligned_alloc(64, 64 * coefs->stride * sizeof *unit->planes);
    assert_non_null(unit->planes);
    memset(unit->planes, 0x5A, 64 * coefs->stride * sizeof *unit->planes);
    for (uint32_t k = 0; k <= coefs->last; k++) {
        int16_t *plane = unit->planes + k * coefs->stride;
        uint32_t end = (coefs->n_k[k] + 63u) / 64 * 64;
        for (uint32_t i = 0; i < end; i++) {
            const struct psti_jpeg_square *square = &coefs->squares[unit->order[i] >> 6];
            plane[i] = i < coefs->n_k[k] ? block_of(jpeg, square, unit->order[i] & 63)[k] : 0;
        }
    }
    coefs->order = unit->order;
    coefs->planes = unit->planes;
}

void pli_jpeg_unit_free(struct pli_jpeg_unit *unit) { free(unit->planes); }
