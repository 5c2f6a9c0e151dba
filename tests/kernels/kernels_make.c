/* kernels_make.c - makes images, chains and the CPU's rows for tests of whole batches. */
#include "kernels/kernels_make.h"

#include "pixels.h"
#include "decode/decode_make.h"
#include "golden/make_pli_picture.h"

#include <penstock/pli.h>

void source_free(struct source *source)
{
    free(source->bytes);
    *source = (struct source){0};
}

static uint8_t *exact(const void *bytes, size_t nbytes)
{
    uint8_t *copy = malloc(nbytes + (nbytes == 0));
    assert_non_null(copy);
    memcpy(copy, bytes, nbytes);
    return copy;
}

static uint8_t *draw_picture(const struct picture *picture)
{
    size_t step = picture->bits / 8u, at = 0;
    uint8_t *pixels = malloc((size_t)picture->height * picture->width * picture->channels * step);
    assert_non_null(pixels);
    for (uint32_t y = 0; y < picture->height; y++)
        for (uint32_t x = 0; x < picture->width; x++)
            for (uint32_t c = 0; c < picture->channels; c++, at += step) {
                uint16_t v = (uint16_t)picture_value(picture, y, x, c);
                memcpy(pixels + at, &v, step);
            }
    return pixels;
}

static struct picture random_picture(struct test_random *random, uint32_t most, bool is_mask)
{
    static const enum picture_kind kinds[] = {PHOTO,  NOISE, FLAT,    EXTREMES, LABELS,
                                              SCREEN, MIXED, DEPTH12, ALPHA,    PHOTO};
    struct picture picture = {
        .kind = is_mask ? LABELS : kinds[test_below(random, 10)],
        .height = 1 + test_below(random, most),
        .width = 1 + test_below(random, most),
        .channels = (uint8_t)(is_mask ? 1 : 1 + test_below(random, 4)),
        .bits = test_below(random, 4) == 0 ? 16 : 8,
    };
    if (picture.kind == MIXED)
        picture.bits = 8;
    return picture;
}

static struct source make_pli(struct test_random *random, const struct picture *picture,
                              uint8_t *pixels)
{
    struct pst_error err;
    const struct pst_pixels described =
        test_pixels(pixels, picture->height, picture->width, picture->channels, picture->bits);
    const struct pst_pli_encode_options options = {
        .struct_size = sizeof options,
        .tier = (enum pst_pli_tier)test_below(random, 4),
        .effort = 1 + test_below(random, 4),
        .max_error = test_below(random, 5) == 0 ? 1 + test_below(random, 20) : 0,
        .no_checksum = test_below(random, 3) == 0,
    };
    size_t room =
        pst_pli_encode_bound(picture->height, picture->width, picture->channels, picture->bits);
    uint8_t *bytes = malloc(room);
    struct source source = {.form = PST_FORM_PLI};
    assert_ok(pst_pli_encode(&described, &options, bytes, room, &source.nbytes, &err));
    source.bytes = exact(bytes, source.nbytes);
    free(bytes);
    return source;
}

static struct bytes random_jpeg(struct test_random *random, uint32_t most)
{
    static const uint8_t samplings[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}};
    const uint8_t *sampling = samplings[test_below(random, 5)];
    const struct jpeg_spec spec = {
        .height = 1 + test_below(random, most),
        .width = 1 + test_below(random, most),
        .colours = (enum jpeg_colours)test_below(random, 3), /* gray, YCbCr or RGB */
        .h = sampling[0],
        .v = sampling[1],
        .quality = (uint8_t)(30 + test_below(random, 70)),
        .progressive = test_below(random, 4) == 0,
        .orientation = (uint8_t)test_below(random, 9),
    };
    return make_jpeg(&spec, random->seed + random->n);
}

static struct source make_pli_jpeg(struct test_random *random, uint32_t most)
{
    struct pst_error err;
    struct source source = {.form = PST_FORM_PLI_JPEG};
    const uint32_t edges[] = {0, 64, 128, 256};
    while (!source.bytes) { /* tries again, as PLI does not take every sampling */
        struct bytes jpeg = random_jpeg(random, most);
        const struct pst_pli_from_jpeg_options options = {
            .struct_size = sizeof options,
            .unit_edge = edges[test_below(random, 4)],
            .no_checksum = test_below(random, 3) == 0,
        };
        size_t room = pst_pli_from_jpeg_bound(jpeg.nbytes) + 4096;
        uint8_t *bytes = malloc(room);
        if (pst_pli_from_jpeg(jpeg.data, jpeg.nbytes, &options, bytes, room, &source.nbytes,
                              &err) == PST_OK)
            source.bytes = exact(bytes, source.nbytes);
        free(bytes);
        bytes_free(&jpeg);
    }
    return source;
}

static struct source make_raw(struct test_random *random, const struct picture *picture,
                              uint8_t *pixels)
{
    struct source source = {
        .form = PST_FORM_RAW,
        .nbytes =
            (size_t)picture->height * picture->width * picture->channels * (picture->bits / 8u),
        .raw = {.form = PST_FORM_RAW,
                .height = picture->height,
                .width = picture->width,
                .channels = picture->channels,
                .bits = picture->bits,
                .orientation = (uint8_t)(test_below(random, 3) ? 1 : 1 + test_below(random, 8))},
    };
    if (source.raw.orientation >= 5) {
        source.raw.height = picture->width;
        source.raw.width = picture->height;
    }
    source.bytes = exact(pixels, source.nbytes);
    return source;
}

struct source source_make(struct test_random *random, enum source_kind kind, uint32_t most,
                          bool is_mask)
{
    struct source source = {0};
    if (kind == SOURCE_PLI_JPEG && !is_mask)
        return make_pli_jpeg(random, most);
    if (kind == SOURCE_JPEG && !is_mask) {
        struct bytes jpeg = random_jpeg(random, most);
        source = (struct source){PST_FORM_JPEG, exact(jpeg.data, jpeg.nbytes), jpeg.nbytes, {0}};
        bytes_free(&jpeg);
        return source;
    }
    const struct picture picture = random_picture(random, most, is_mask);
    uint8_t *pixels = draw_picture(&picture);
    source = kind == SOURCE_RAW ? make_raw(random, &picture, pixels)
                                : make_pli(random, &picture, pixels);
    free(pixels);
    return source;
}

struct source source_read(const char *folder, const char *name)
{
    struct source source = {.form = strncmp(name, "pli_jpeg", 8) == 0 ? PST_FORM_PLI_JPEG
                                                                      : PST_FORM_PLI};
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    uint8_t *bytes = picture_read_file(path, &source.nbytes);
    if (!bytes)
        fail_msg("%s: cannot be read", path);
    source.bytes = exact(bytes, source.nbytes);
    free(bytes);
    return source;
}

struct source source_damage(struct test_random *random, const struct source *source)
{
    struct source damaged = *source;
    if (test_below(random, 4) == 0)
        damaged.nbytes = test_below(random, (uint32_t)source->nbytes);
    damaged.bytes = exact(source->bytes, damaged.nbytes);
    for (uint32_t n = 1 + test_below(random, 3); n > 0 && damaged.nbytes > 0; n--) {
        uint32_t at = test_below(random, (uint32_t)damaged.nbytes);
        damaged.bytes[at] ^= (uint8_t)(1 + test_below(random, 255));
    }
    return damaged;
}

/* Chains
 * ------------------------------------------------------------------------------------------------
 */

static struct pst_op make_op(enum pst_op_kind kind, uint32_t height, uint32_t width)
{
    struct pst_op op;
    pst_op_init(&op, sizeof op, kind);
    op.height = height;
    op.width = width;
    return op;
}

static void random_range(struct test_random *random, float range[2], float low, float high)
{
    if (test_below(random, 3) == 0)
        return;
    range[0] = low;
    range[1] = high;
}

static struct pst_op random_op(struct test_random *random, enum pst_op_kind kind, bool is_mask)
{
    struct pst_op op = make_op(kind, 1 + test_below(random, 90), 1 + test_below(random, 90));
    op.interpolation = (enum pst_interpolation)(is_mask ? 1 : 1 + test_below(random, 3));
    op.no_antialias = test_below(random, 4) == 0;
    op.pad_if_needed = true;
    op.pad_mode = (enum pst_pad_mode)test_below(random, 4);
    for (int i = 0; i < 4; i++) {
        op.pad[i] = test_below(random, 3) == 0 ? test_below(random, 9) : 0;
        op.fill[i] = (float)test_below(random, 256);
    }
    random_range(random, op.brightness, 0.5f, 1.5f);
    random_range(random, op.contrast, 0.5f, 1.5f);
    random_range(random, op.saturation, 0.5f, 1.5f);
    random_range(random, op.hue, -0.3f, 0.3f);
    return op;
}

/* Draws an operation that needs the whole picture: a map, tone, filter or policy. */
static struct pst_op random_picture_op(struct test_random *random)
{
    static const enum pst_op_kind kinds[] = {
        PST_OP_AFFINE,        PST_OP_PERSPECTIVE,  PST_OP_INVERT,          PST_OP_POSTERIZE,
        PST_OP_SOLARIZE,      PST_OP_AUTOCONTRAST, PST_OP_EQUALIZE,        PST_OP_SHARPNESS,
        PST_OP_GAUSSIAN_BLUR, PST_OP_RAND_AUGMENT, PST_OP_TRIVIAL_AUGMENT, PST_OP_AUTO_AUGMENT,
        PST_OP_ELASTIC,       PST_OP_AUGMIX};
    enum pst_op_kind kind = kinds[test_below(random, sizeof kinds / sizeof kinds[0])];
    struct pst_op op = make_op(kind, 3, 5);
    op.interpolation = (enum pst_interpolation)(1 + test_below(random, 2));
    op.p = 0.8f;
    op.bits = 3;
    op.threshold = 100;
    op.factor = 1.7f;
    op.distortion = 0.5f;
    op.sigma[0] = 0.5f;
    op.sigma[1] = 2;
    op.no_blend = test_below(random, 2) == 0;
    for (int i = 0; i < 4; i++)
        op.fill[i] = (float)test_below(random, 256);
    random_range(random, op.degrees, -40, 40);
    random_range(random, op.shear, -20, 20);
    return op;
}

static void random_output(struct test_random *random, bool is_mask, struct field *field)
{
    static const enum pst_dtype dtypes[] = {
        0, PST_DTYPE_U8, PST_DTYPE_U16, PST_DTYPE_F16, PST_DTYPE_BF16, PST_DTYPE_F32};
    static const uint8_t channels[] = {1, 3, 3, 3, 4};
    struct psti_chain_output *o = &field->output;
    *o = (struct psti_chain_output){
        .is_mask = is_mask,
        .channels = is_mask ? 1 : channels[test_below(random, 5)],
        .bits = test_below(random, 4) == 0 ? 16 : 8,
        .layout = (enum pst_layout)test_below(random, 2),
        .dtype = dtypes[test_below(random, 6)],
    };
    if (is_mask) {
        static const enum pst_dtype numbers[] = {0, PST_DTYPE_U16, PST_DTYPE_F32, PST_DTYPE_I32,
                                                 PST_DTYPE_I64};
        o->dtype = numbers[test_below(random, 5)];
    }
    field->decode = (struct pst_decode_options){.struct_size = sizeof field->decode,
                                                .channels = is_mask ? 0 : o->channels,
                                                .bits = is_mask ? 0 : o->bits,
                                                .ignore_orientation = test_below(random, 6) == 0,
                                                .palette_indices = is_mask};
}

static size_t add_normalize(struct test_random *random, const struct psti_chain_output *o,
                            struct pst_op *ops, size_t n)
{
    bool is_float = (int)o->dtype == 0 || o->dtype >= PST_DTYPE_F16;
    if (o->is_mask || !is_float || test_below(random, 3) == 0)
        return n;
    ops[n] = make_op(PST_OP_NORMALIZE, 0, 0);
    for (int c = 0; c < 4; c++) {
        ops[n].mean[c] = 0.1f * (float)(1 + c);
        ops[n].std[c] = 0.2f + 0.1f * (float)c;
    }
    return n + 1;
}

static void compile(struct field *field, const struct pst_op *ops, size_t n)
{
    struct pst_error err;
    assert_ok(psti_augment_chain_compile(ops, n, &field->output, &field->chain, &err));
    field->output.dtype = psti_augment_chain_dtype(field->chain);
    assert_true(psti_augment_chain_fixed_size(field->chain, &field->height, &field->width));
}

void field_make(struct test_random *random, bool is_mask, struct field *field)
{
    static const enum pst_op_kind sizes[] = {PST_OP_RESIZE, PST_OP_CENTER_CROP, PST_OP_RANDOM_CROP,
                                             PST_OP_RANDOM_RESIZED_CROP};
    static const enum pst_op_kind others[] = {PST_OP_HORIZONTAL_FLIP, PST_OP_HORIZONTAL_FLIP,
                                              PST_OP_VERTICAL_FLIP,   PST_OP_PAD,
                                              PST_OP_COLOR_JITTER,    PST_OP_GRAYSCALE};
    struct pst_op ops[11];
    size_t n = 0;
    random_output(random, is_mask, field);
    for (uint32_t i = test_below(random, 3); i > 0; i--)
        ops[n++] = random_op(random, others[test_below(random, is_mask ? 4 : 6)], is_mask);
    if (test_below(random, 3) == 0) { /* sets only the shorter side */
        ops[n] = random_op(random, PST_OP_RESIZE, is_mask);
        ops[n++].width = 0;
    }
    ops[n++] = random_op(random, sizes[test_below(random, 4)], is_mask);
    for (uint32_t i = test_below(random, 4); i > 0; i--)
        ops[n++] = random_op(random, others[test_below(random, is_mask ? 4 : 6)], is_mask);
    for (uint32_t i = test_below(random, 3); !is_mask && i > 0; i--)
        ops[n++] = random_picture_op(random);
    if (is_mask && test_below(random, 3) == 0) {
        ops[n] = make_op(PST_OP_ELASTIC, 0, 0);
        ops[n++].interpolation = PST_INTERPOLATION_NEAREST;
    }
    n = add_normalize(random, &field->output, ops, n);
    if (!is_mask && test_below(random, 4) == 0) {
        ops[n] = make_op(PST_OP_ERASING, 0, 0);
        ops[n].noise = test_below(random, 2) == 0;
        ops[n++].p = 0.7f;
    }
    compile(field, ops, n);
}

void field_make_plain(struct test_random *random, bool is_mask, struct field *field)
{
    struct pst_op ops[5];
    size_t n = 0;
    random_output(random, is_mask, field);
    ops[n++] = make_op(test_below(random, 2) ? PST_OP_CENTER_CROP : PST_OP_RANDOM_CROP,
                       1 + test_below(random, 100), 1 + test_below(random, 100));
    if (test_below(random, 2))
        ops[n++] = make_op(PST_OP_HORIZONTAL_FLIP, 0, 0);
    if (test_below(random, 3) == 0)
        ops[n++] = make_op(PST_OP_VERTICAL_FLIP, 0, 0);
    n = add_normalize(random, &field->output, ops, n);
    if (!is_mask && test_below(random, 4) == 0) {
        ops[n] = make_op(PST_OP_ERASING, 0, 0); /* erasing works for rows that the decoder's
                                                 * kernel finishes */
        ops[n++].noise = test_below(random, 2) == 0;
    }
    compile(field, ops, n);
}

void field_make_heavy(struct test_random *random, struct field *field)
{
    struct pst_op ops[6];
    size_t n = 0;
    uint32_t crop = test_below(random, 4), which = 1 + test_below(random, 7);
    field->output = (struct psti_chain_output){
        .channels = 3, .bits = 8, .layout = PST_LAYOUT_CHW, .dtype = PST_DTYPE_F16};
    field->decode =
        (struct pst_decode_options){.struct_size = sizeof field->decode, .channels = 3, .bits = 8};
    for (uint32_t i = 0; i < 4; i++) {
        static const enum pst_op_kind kinds[] = {PST_OP_ELASTIC, PST_OP_AUGMIX,
                                                 PST_OP_GAUSSIAN_BLUR};
        if (i == crop)
            ops[n++] = make_op(PST_OP_RANDOM_RESIZED_CROP, 70, 60);
        if (i < 3 && (which >> i & 1) != 0)
            ops[n++] = make_op(kinds[i], 5, 5);
    }
    ops[n] = make_op(PST_OP_ERASING, 0, 0);
    ops[n].p = 1;
    ops[n++].noise = true;
    compile(field, ops, n);
}

void field_free(struct field *field) { psti_augment_chain_free(&field->chain); }

/* Computes rows on the CPU
 * ------------------------------------------------------------------------------------------------
 */

enum pst_status source_probe(const struct source *source, const struct field *field,
                             struct pst_image_info *info, struct pst_error *err)
{
    struct psti_decoder *decoder;
    uint8_t channels, bits;
    *info = source->raw;
    assert_int_equal(psti_decode_open(&decoder, err), PST_OK);
    enum pst_status status = psti_decode_probe(decoder, source->bytes, source->nbytes, source->form,
                                               &field->decode, info, err);
    psti_decode_close(&decoder);
    if (status != PST_OK)
        return status;
    psti_decode_output(info, &field->decode, &channels, &bits);
    return channels == field->output.channels && bits == field->output.bits ? PST_OK
                                                                            : PST_ERROR_UNSUPPORTED;
}

enum pst_status cpu_row(const struct source *source, const struct field *field,
                        const struct pst_image_info *info, const struct psti_draw *draw, void *row,
                        struct pst_error *err)
{
    struct psti_decoder *decoder;
    struct psti_run *run;
    const struct psti_rect region = {draw->region_y, draw->region_x, draw->region_height,
                                     draw->region_width};
    size_t element = pst_dtype_nbytes(field->output.dtype);
    bool planar = field->output.layout == PST_LAYOUT_CHW;
    const struct psti_target target = {row, draw->out_width * element *
                                                (planar ? 1 : field->output.channels)};
    assert_int_equal(psti_decode_open(&decoder, err), PST_OK);
    assert_int_equal(psti_augment_run_open(&run, err), PST_OK);
    enum pst_status status = psti_augment_run_begin(run, field->chain, draw, &target, err);
    if (status == PST_OK)
        status = psti_decode_rows(decoder, source->bytes, source->nbytes, info, &field->decode,
                                  &region, psti_augment_run_rows, run, err);
    if (status == PST_OK)
        status = psti_augment_run_end(run, err);
    psti_augment_run_close(&run);
    psti_decode_close(&decoder);
    return status;
}
