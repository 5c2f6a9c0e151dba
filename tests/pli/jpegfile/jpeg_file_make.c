/* jpeg_file_make.c - implements jpeg_file_make.h: makes JPEG files for the tests. */
#include "pli/jpegfile/jpeg_file_make.h"

#include <stdlib.h>

#include <jpeglib.h>

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static uint8_t *make_pixels(const struct jpeg_file_spec *spec, uint32_t channels, uint64_t seed)
{
    uint8_t *pixels = malloc((size_t)spec->height * spec->width * channels), *at = pixels;
    assert_non_null(pixels);
    for (uint32_t y = 0; y < spec->height; y++)
        for (uint32_t x = 0; x < spec->width; x++)
            for (uint32_t c = 0; c < channels; c++) {
                uint32_t v = x * (1 + c) / 2 + y * (3 - c % 3) / 3;
                if (!spec->smooth && ((x / 11) ^ (y / 9)) & 1)
                    v = 255 - v + next_random(&seed) % 64;
                if (!spec->smooth && x % 50 < 9)
                    v = next_random(&seed);
                *at++ = (uint8_t)v;
            }
    return pixels;
}

/* A progressive scan script with more and other stages of successive approximation than libjpeg's
 * own. */
static const jpeg_scan_info fine_scans[] = {
    {3, {0, 1, 2}, 0, 0, 0, 2}, {1, {0}, 1, 2, 0, 3},   {1, {2}, 1, 63, 0, 1},
    {1, {0}, 3, 63, 0, 3},      {1, {0}, 1, 63, 3, 2},  {3, {0, 1, 2}, 0, 0, 2, 1},
    {1, {1}, 1, 20, 0, 0},      {1, {1}, 21, 63, 0, 2}, {1, {0}, 1, 63, 2, 1},
    {1, {1}, 21, 63, 2, 1},     {1, {0}, 0, 0, 1, 0},   {2, {1, 2}, 0, 0, 1, 0},
    {1, {2}, 1, 63, 1, 0},      {1, {0}, 1, 63, 1, 0},  {1, {1}, 21, 63, 1, 0}};
static const jpeg_scan_info fine_gray_scans[] = {{1, {0}, 0, 0, 0, 1},  {1, {0}, 1, 63, 0, 2},
                                                 {1, {0}, 1, 63, 2, 1}, {1, {0}, 0, 0, 1, 0},
                                                 {1, {0}, 1, 1, 1, 0},  {1, {0}, 2, 63, 1, 0}};
static const jpeg_scan_info y_then_cc[] = {{1, {0}, 0, 63, 0, 0}, {2, {1, 2}, 0, 63, 0, 0}};
static const jpeg_scan_info each[] = {
    {1, {0}, 0, 63, 0, 0}, {1, {1}, 0, 63, 0, 0}, {1, {2}, 0, 63, 0, 0}};

static void set_scans(struct jpeg_compress_struct *cinfo, const struct jpeg_file_spec *spec)
{
    bool gray = spec->kind == FILE_GRAY;
    switch (spec->scans) {
    case SCANS_PROGRESSIVE:
        jpeg_simple_progression(cinfo);
        break;
    case SCANS_FINE:
        cinfo->scan_info = gray ? fine_gray_scans : fine_scans;
        cinfo->num_scans = gray ? 6 : 15;
        break;
    case SCANS_EACH:
        cinfo->scan_info = each;
        cinfo->num_scans = gray ? 1 : 3;
        break;
    case SCANS_Y_THEN_CC:
        cinfo->scan_info = y_then_cc;
        cinfo->num_scans = gray ? 1 : 2;
        break;
    default:
        break;
    }
}

static void say_nothing(j_common_ptr cinfo) { (void)cinfo; }

struct jpeg_file make_jpeg_file(const struct jpeg_file_spec *spec, uint64_t seed)
{
    static const int n_channels[] = {1, 3, 3, 4};
    static const J_COLOR_SPACE in[] = {JCS_GRAYSCALE, JCS_RGB, JCS_RGB, JCS_CMYK};
    static const J_COLOR_SPACE kept[] = {JCS_GRAYSCALE, JCS_YCbCr, JCS_RGB, JCS_CMYK};
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    unsigned char *data = NULL;
    unsigned long nbytes = 0;
    int channels = n_channels[spec->kind];
    uint8_t *pixels = make_pixels(spec, (uint32_t)channels, seed);
    cinfo.err = jpeg_std_error(&errors);
    errors.output_message = say_nothing;
    jpeg_create_compress(&cinfo);
    jpeg_mem_dest(&cinfo, &data, &nbytes);
    cinfo.image_height = spec->height;
    cinfo.image_width = spec->width;
    cinfo.input_components = channels;
    cinfo.in_color_space = in[spec->kind];
    jpeg_set_defaults(&cinfo);
    jpeg_set_colorspace(&cinfo, kept[spec->kind]);
    jpeg_set_quality(&cinfo, spec->quality, !spec->wide_quants);
    for (int c = 0; c < 3 && c < channels; c++) {
        cinfo.comp_info[c].h_samp_factor = spec->factors[c] ? spec->factors[c] >> 4 : 1;
        cinfo.comp_info[c].v_samp_factor = spec->factors[c] ? spec->factors[c] & 15 : 1;
    }
    cinfo.restart_interval = spec->restart;
    cinfo.optimize_coding = spec->optimised;
    cinfo.arith_code = spec->arithmetic;
    set_scans(&cinfo, spec);
    jpeg_start_compress(&cinfo, TRUE);
    jpeg_write_marker(&cinfo, JPEG_COM, (const JOCTET *)"made for a test", 15);
    while (cinfo.next_scanline < cinfo.image_height) {
        JSAMPROW row = pixels + (size_t)cinfo.next_scanline * spec->width * (unsigned)channels;
        jpeg_write_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    free(pixels);
    return (struct jpeg_file){data, nbytes};
}

struct jpeg_file copy_jpeg_file(const struct jpeg_file *file)
{
    struct jpeg_file copy = {malloc(file->nbytes), file->nbytes};
    assert_non_null(copy.bytes);
    memcpy(copy.bytes, file->bytes, file->nbytes);
    return copy;
}

void insert_bytes(struct jpeg_file *file, size_t offset, const void *bytes, size_t n)
{
    assert_true(offset <= file->nbytes);
    file->bytes = realloc(file->bytes, file->nbytes + n);
    assert_non_null(file->bytes);
    memmove(file->bytes + offset + n, file->bytes + offset, file->nbytes - offset);
    memcpy(file->bytes + offset, bytes, n);
    file->nbytes += n;
}

void remove_bytes(struct jpeg_file *file, size_t offset, size_t n)
{
    assert_true(offset + n <= file->nbytes);
    memmove(file->bytes + offset, file->bytes + offset + n, file->nbytes - offset - n);
    file->nbytes -= n;
}

size_t find_marker(const struct jpeg_file *file, uint8_t code, size_t from)
{
    for (size_t at = from; at + 1 < file->nbytes; at++)
        if (file->bytes[at] == 0xFF && file->bytes[at + 1] == code)
            return at;
    fail_msg("no marker %02X", code);
    return 0;
}

size_t find_data(const struct jpeg_file *file, size_t from)
{
    size_t at = find_marker(file, 0xDA, from);
    return at + 2 + (size_t)(file->bytes[at + 2] << 8 | file->bytes[at + 3]);
}

/* -- Reading JPEG files -- */

void free_read_jpeg(struct read_jpeg *r)
{
    for (int c = 0; c < PSTI_JPEG_COMPONENTS_MAX; c++)
        free(r->coefs[c]);
    free(r->restoration);
    free(r->work);
}

enum pst_status read_jpeg_file(const struct jpeg_file *file, struct read_jpeg *r,
                               struct pst_error *err)
{
    memset(r, 0, sizeof *r);
    enum pst_status status = psti_pli_jpeg_probe(file->bytes, file->nbytes, &r->frame, err);
    if (status != PST_OK)
        return status;
    size_t bound = psti_pli_jpeg_restoration_bound(file->nbytes);
    r->restoration = malloc(bound);
    r->work = aligned_alloc(64, psti_pli_jpeg_work_nbytes());
    assert_non_null(r->work);
    for (uint32_t c = 0; c < r->frame.n_components; c++) {
        size_t nbytes = psti_pli_jpeg_n_coefs(&r->frame, c) * sizeof(int16_t);
        r->coefs[c] = malloc(nbytes);
        assert_non_null(r->coefs[c]);
        memset(r->coefs[c], 0x55, nbytes);
    }
    status = psti_pli_jpeg_read(file->bytes, file->nbytes, &r->frame, r->coefs, r->restoration,
                                bound, r->work, err);
    if (status != PST_OK)
        free_read_jpeg(r);
    return status;
}

/* Returns true if libjpeg reads the same coefficients and quantisation tables. */
static bool equals_libjpeg(const struct jpeg_file *file, const struct read_jpeg *r)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    bool equal = true;
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&cinfo);
    jpeg_mem_src(&cinfo, file->bytes, file->nbytes);
    jpeg_read_header(&cinfo, TRUE);
    equal &= (cinfo.jpeg_color_space == JCS_YCbCr) == r->frame.transform;
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(&cinfo);
    for (int c = 0; c < cinfo.num_components; c++) {
        const struct psti_jpeg_component *p = &r->frame.components[c];
        const int16_t *coef = r->coefs[c];
        const uint16_t *quant = r->frame.quants[p->quant];
        for (uint32_t y = 0; y < p->rows; y++) {
            JBLOCKARRAY row =
                cinfo.mem->access_virt_barray((j_common_ptr)&cinfo, arrays[c], y, 1, FALSE);
            for (uint32_t x = 0; x < p->columns; x++)
                for (int k = 0; k < 64; k++)
                    equal &= *coef++ == row[0][x][psti_jpeg_zigzag[k]];
        }
        for (int k = 0; k < 64; k++)
            equal &= quant[k] == cinfo.comp_info[c].quant_table->quantval[psti_jpeg_zigzag[k]];
    }
    equal &= errors.num_warnings == 0;
    jpeg_destroy_decompress(&cinfo);
    return equal;
}

uint32_t check_round_trip(const struct jpeg_file *file, bool as_libjpeg, const char *what)
{
    struct pst_error err;
    struct read_jpeg r;
    pst_error_clear(&err);
    enum pst_status status = read_jpeg_file(file, &r, &err);
    if (status != PST_OK)
        fail_msg("%s: %s", what, err.text);
    if (as_libjpeg && !equals_libjpeg(file, &r))
        fail_msg("%s: not libjpeg's coefficients", what);
    /* The memory has exactly the needed size, so a sanitizer detects any access beyond it. */
    uint8_t *restoration = malloc(r.frame.restoration_nbytes), *back = malloc(file->nbytes);
    memcpy(restoration, r.restoration, r.frame.restoration_nbytes);
    memset(r.work, 0xA5, psti_pli_jpeg_work_nbytes());
    assert_int_equal(r.frame.jpeg_nbytes, file->nbytes);
    status = psti_pli_jpeg_write(&r.frame, (const int16_t *const *)r.coefs, restoration, back,
                                 file->nbytes, r.work, &err);
    if (status != PST_OK)
        fail_msg("%s: %s", what, err.text);
    if (memcmp(back, file->bytes, file->nbytes) != 0)
        fail_msg("%s: not the file that was read", what);
    free(restoration);
    free(back);
    free_read_jpeg(&r);
    return r.frame.restoration_nbytes;
}

/* -- JPEG files that are written code by code -- */

static void append(struct code_writer *w, const void *bytes, size_t n)
{
    insert_bytes(&w->file, w->file.nbytes, bytes, n);
}

static void append_table(struct code_writer *w, uint8_t number, const uint8_t *symbols, int n)
{
    uint8_t head[21] = {0xFF, 0xC4, 0, (uint8_t)(19 + n), number};
    head[2] = (uint8_t)((19 + n) >> 8);
    head[4 + 8] = (uint8_t)n; /* all Huffman codes have eight bits */
    append(w, head, sizeof head);
    append(w, symbols, (size_t)n);
}

void begin_codes(struct code_writer *w, uint32_t height, uint32_t width, bool progressive,
                 const uint8_t *ac_symbols, int n_ac)
{
    uint8_t start[] = {0xFF, 0xD8, 0xFF, 0xDB, 0, 67, 0};
    uint8_t frame[] = {0xFF,
                       progressive ? 0xC2 : 0xC0,
                       0,
                       11,
                       8,
                       (uint8_t)(height >> 8),
                       (uint8_t)height,
                       (uint8_t)(width >> 8),
                       (uint8_t)width,
                       1,
                       1,
                       0x11,
                       0};
    uint8_t quant[64];
    *w = (struct code_writer){.n_ac = n_ac};
    memset(quant, 1, sizeof quant);
    append(w, start, sizeof start);
    append(w, quant, sizeof quant);
    append(w, frame, sizeof frame);
    for (uint8_t i = 0; i < 16; i++)
        w->dc_symbols[i] = i;
    memcpy(w->ac_symbols, ac_symbols, (size_t)n_ac);
    append_table(w, 0x00, w->dc_symbols, 16);
    append_table(w, 0x10, w->ac_symbols, n_ac);
}

void begin_scan(struct code_writer *w, uint8_t first, uint8_t last, uint8_t high, uint8_t low)
{
    uint8_t scan[] = {0xFF, 0xDA, 0, 8, 1, 1, 0, first, last, (uint8_t)(high << 4 | low)};
    append(w, scan, sizeof scan);
}

void put_bits(struct code_writer *w, uint32_t value, uint32_t n)
{
    while (n-- > 0) {
        w->buffer = w->buffer << 1 | (value >> n & 1);
        if (++w->n_bits == 8) {
            uint8_t bytes[2] = {(uint8_t)w->buffer, 0};
            append(w, bytes, bytes[0] == 0xFF ? 2 : 1);
            w->n_bits = w->buffer = 0;
        }
    }
}

void put_dc_code(struct code_writer *w, uint8_t symbol) { put_bits(w, symbol, 8); }

void put_ac_code(struct code_writer *w, uint8_t symbol)
{
    for (int i = 0; i < w->n_ac; i++)
        if (w->ac_symbols[i] == symbol) {
            put_bits(w, (uint32_t)i, 8);
            return;
        }
    fail_msg("symbol %02X has no code", symbol);
}

void end_data(struct code_writer *w, uint8_t padding)
{
    if (w->n_bits > 0)
        put_bits(w, padding, 8 - w->n_bits);
}

void end_codes(struct code_writer *w)
{
    const uint8_t end[] = {0xFF, 0xD9};
    append(w, end, sizeof end);
}
