/* Guards against a hazard: an operation computes something else than documented. Each is compared
 * with a simple reference in double precision or with a formula written here, not with parts of the
 * library. */
#include "augment_helper.h"

#include <math.h>

static const struct how PLAIN = {.features = 0};

static double pixel_of(const struct test_image *image, int64_t y, int64_t x, uint32_t c)
{
    size_t i = ((size_t)y * image->width + (size_t)x) * image->channels + c;
    if (image->bits == 8)
        return image->memory.data[i];
    return image->memory.data[2 * i] + 256.0 * image->memory.data[2 * i + 1];
}

/* Returns the filter's weight at distance x. `a` is Keys' parameter of the cubic, or 0 for the
 * triangle. */
static double kernel(double x, double a)
{
    x = fabs(x);
    if (a == 0)
        return x < 1 ? 1 - x : 0;
    if (x < 1)
        return (a + 2) * x * x * x - (a + 3) * x * x + 1;
    return x < 2 ? a * (x * x * x - 5 * x * x + 8 * x - 4) : 0;
}

/* Returns output i of one axis: the weighted mean of line[k]. Without antialias the cubic is
 * steeper and repeats the edge. */
static double filtered(uint32_t n_from, uint32_t n_to, uint32_t i, bool is_cubic, bool antialias,
                       const double *line)
{
    double scale = (double)n_from / n_to, centre = (i + 0.5) * scale;
    double wide = antialias && scale > 1 ? scale : 1, sum = 0, weights = 0;
    double a = !is_cubic ? 0 : antialias ? -0.5 : -0.75;
    int64_t margin = is_cubic && !antialias ? 3 : 0, n = n_from;
    for (int64_t k = -margin; k < n + margin; k++) {
        double w = kernel(((double)k + 0.5 - centre) / wide, a);
        sum += w * line[k < 0 ? 0 : k < n ? k : n - 1];
        weights += w;
    }
    return sum / weights;
}

static double clamped(double v, double most) { return v < 0 ? 0 : v > most ? most : v; }

/* Resizes a whole image as a reference. Clamps between the passes, but does not round. */
static double *reference_resize(const struct test_image *image, const struct pst_op *op)
{
    bool is_cubic = op->interpolation == PST_INTERPOLATION_BICUBIC;
    double most = image->bits == 8 ? 255 : 65535;
    uint32_t c = image->channels, longest = image->height + image->width;
    double *middle = malloc(sizeof(double) * image->height * op->width * c);
    double *result = malloc(sizeof(double) * op->height * op->width * c);
    double *line = malloc(sizeof(double) * longest);
    for (uint32_t ch = 0; ch < c; ch++) {
        for (uint32_t y = 0; y < image->height; y++) {
            for (uint32_t x = 0; x < image->width; x++)
                line[x] = pixel_of(image, y, x, ch);
            for (uint32_t x = 0; x < op->width; x++) {
                double v = filtered(image->width, op->width, x, is_cubic, !op->no_antialias, line);
                middle[((size_t)y * op->width + x) * c + ch] = clamped(v, most);
            }
        }
        for (uint32_t x = 0; x < op->width; x++) {
            for (uint32_t y = 0; y < image->height; y++)
                line[y] = middle[((size_t)y * op->width + x) * c + ch];
            for (uint32_t y = 0; y < op->height; y++) {
                double v =
                    filtered(image->height, op->height, y, is_cubic, !op->no_antialias, line);
                result[((size_t)y * op->width + x) * c + ch] = clamped(v, most);
            }
        }
    }
    free(middle);
    free(line);
    return result;
}

static double output_at(const struct output *out, uint32_t bits, size_t i)
{
    return bits == 8 ? out->data[i] : out->data[2 * i] + 256.0 * out->data[2 * i + 1];
}

/* The tolerance adds three errors. The first pass rounds by half a level, times the sum of
 * |weights| of the second pass (1, or up to 1.5 for the cubic). The second pass rounds by half a
 * level. The weights are rounded to int16. */
static void resize_follows_reference(void **state)
{
    (void)state;
    struct test_random r = {.seed = 21};
    for (int round = 0; round < 400; round++) {
        uint32_t bits = round % 4 == 3 ? 16 : 8, channels = 1 + test_below(&r, 4);
        struct test_image image =
            image_make(&r, 1 + test_below(&r, 60), 1 + test_below(&r, 60), channels, bits);
        struct pst_op op = make_op(PST_OP_RESIZE, 1 + test_below(&r, 60), 1 + test_below(&r, 60));
        op.interpolation = (enum pst_interpolation)(2 + (round & 1));
        op.no_antialias = test_below(&r, 4) == 0;
        struct psti_chain_output format = {.channels = (uint8_t)channels, .bits = (uint8_t)bits};
        struct output out = run_chain(&op, 1, &format, &image, 1, 1, &PLAIN);
        double *expected = reference_resize(&image, &op), worst = 0;
        size_t n = (size_t)op.height * op.width * channels;
        for (size_t i = 0; i < n; i++) {
            double d = fabs(output_at(&out, bits, i) - expected[i]);
            worst = d > worst ? d : worst;
        }
        assert_true(worst < (op.interpolation == PST_INTERPOLATION_BILINEAR ? 1.08 : 1.4));
        free(expected);
        output_free(&out);
        image_free(&image);
    }
}

static void nearest_exact_takes_the_centre(void **state)
{
    (void)state;
    struct test_random r = {.seed = 22};
    for (int round = 0; round < 200; round++) {
        struct test_image image =
            image_make(&r, 1 + test_below(&r, 50), 1 + test_below(&r, 50), 1, 16);
        struct pst_op op = make_op(PST_OP_RESIZE, 1 + test_below(&r, 90), 1 + test_below(&r, 90));
        op.interpolation = PST_INTERPOLATION_NEAREST_EXACT;
        struct psti_chain_output format = {.channels = 1, .bits = 16, .is_mask = true};
        struct output out = run_chain(&op, 1, &format, &image, 1, 1, &PLAIN);
        for (uint32_t y = 0; y < op.height; y++) {
            for (uint32_t x = 0; x < op.width; x++) {
                uint32_t from_y = (2 * y + 1) * image.height / (2 * op.height);
                uint32_t from_x = (2 * x + 1) * image.width / (2 * op.width);
                assert_true(output_at(&out, 16, (size_t)y * op.width + x) ==
                            pixel_of(&image, from_y, from_x, 0));
            }
        }
        output_free(&out);
        image_free(&image);
    }
}

/* Nearest takes the pixel in which an output begins. This also holds for a mirrored picture: its
 * outputs begin at its own left edge. */
static void nearest_takes_where_the_output_begins(void **state)
{
    (void)state;
    struct test_random r = {.seed = 23};
    for (int round = 0; round < 200; round++) {
        struct test_image image =
            image_make(&r, 1 + test_below(&r, 50), 1 + test_below(&r, 50), 1, 16);
        struct pst_op ops[2] = {
            make_op(PST_OP_HORIZONTAL_FLIP, 0, 0),
            make_op(PST_OP_RESIZE, 1 + test_below(&r, 90), 1 + test_below(&r, 90))};
        ops[0].p = (float)(round & 1);
        ops[1].interpolation = PST_INTERPOLATION_NEAREST;
        struct psti_chain_output format = {.channels = 1, .bits = 16, .is_mask = true};
        struct output out = run_chain(ops, 2, &format, &image, 1, 1, &PLAIN);
        float scale_y = (float)image.height / (float)ops[1].height;
        float scale_x = (float)image.width / (float)ops[1].width;
        for (uint32_t y = 0; y < ops[1].height; y++) {
            for (uint32_t x = 0; x < ops[1].width; x++) {
                int64_t from_y = (int64_t)floorf((float)y * scale_y);
                int64_t from_x = (int64_t)floorf((float)x * scale_x);
                from_y = from_y < image.height ? from_y : image.height - 1;
                from_x = from_x < image.width ? from_x : image.width - 1;
                if (round & 1)
                    from_x = image.width - 1 - from_x;
                assert_true(output_at(&out, 16, (size_t)y * ops[1].width + x) ==
                            pixel_of(&image, from_y, from_x, 0));
            }
        }
        output_free(&out);
        image_free(&image);
    }
}

/* Returns the index that a padded side shows at i, by definition: goes to i step by step and turns
 * round at the ends. */
static int64_t walk_index(int64_t i, int64_t n, enum pst_pad_mode mode)
{
    if (i >= 0 && i < n)
        return i;
    if (mode == PST_PAD_CONSTANT)
        return -1;
    if (mode == PST_PAD_EDGE)
        return i < 0 ? 0 : n - 1;
    int64_t at = i < 0 ? 0 : n - 1, step = i < 0 ? -1 : 1, left = i < 0 ? -i : i - (n - 1);
    while (left-- > 0) {
        if (at + step < 0 || at + step >= n) {
            step = -step;
            if (mode == PST_PAD_SYMMETRIC || n == 1)
                continue;
        }
        at += step;
    }
    return at;
}

static void pad_follows_definition(void **state)
{
    (void)state;
    struct test_random r = {.seed = 23};
    for (int round = 0; round < 300; round++) {
        uint32_t bits = round % 3 == 0 ? 16 : 8, channels = 1 + test_below(&r, 4);
        struct test_image image =
            image_make(&r, 1 + test_below(&r, 9), 1 + test_below(&r, 9), channels, bits);
        struct pst_op op = make_op(PST_OP_PAD, 0, 0);
        op.pad_mode = (enum pst_pad_mode)(round % 4);
        for (int i = 0; i < 4; i++) {
            op.pad[i] = test_below(&r, 25);
            op.fill[i] = (float)(10 * i + 3);
        }
        struct psti_chain_output format = {.channels = (uint8_t)channels, .bits = (uint8_t)bits};
        struct output out = run_chain(&op, 1, &format, &image, 1, 1, &PLAIN);
        assert_int_equal(out.height, image.height + op.pad[1] + op.pad[3]);
        assert_int_equal(out.width, image.width + op.pad[0] + op.pad[2]);
        for (size_t i = 0; i < (size_t)out.height * out.width * channels; i++) {
            uint32_t c = (uint32_t)(i % channels);
            int64_t x = walk_index((int64_t)(i / channels % out.width) - op.pad[0], image.width,
                                   op.pad_mode);
            int64_t y = walk_index((int64_t)(i / channels / out.width) - op.pad[1], image.height,
                                   op.pad_mode);
            double v = x < 0 || y < 0 ? op.fill[c] : pixel_of(&image, y, x, c);
            assert_true(output_at(&out, bits, i) == v);
        }
        output_free(&out);
        image_free(&image);
    }
}

/* The crop begins at torchvision's int(round((h - ch) / 2.0)), with Python's round. A smaller image
 * is padded first; the odd pixel of padding goes to the right and the bottom. */
static void center_crop_and_flips(void **state)
{
    (void)state;
    struct test_random r = {.seed = 24};
    for (int round = 0; round < 300; round++) {
        struct test_image image =
            image_make(&r, 1 + test_below(&r, 20), 1 + test_below(&r, 20), 3, 8);
        struct pst_op ops[3] = {
            make_op(PST_OP_CENTER_CROP, 1 + test_below(&r, 20), 1 + test_below(&r, 20)),
            make_op(PST_OP_HORIZONTAL_FLIP, 0, 0), make_op(PST_OP_VERTICAL_FLIP, 0, 0)};
        for (int i = 0; i < 4; i++)
            ops[0].fill[i] = 77;
        ops[1].p = (float)(round & 1);
        ops[2].p = (float)(round >> 1 & 1);
        struct psti_chain_output format = {.channels = 3, .bits = 8};
        struct output out = run_chain(ops, 3, &format, &image, 1, 1, &PLAIN);
        uint32_t h = ops[0].height, w = ops[0].width;
        int64_t top = h > image.height ? -(int64_t)((h - image.height) / 2)
                                       : (int64_t)nearbyint((image.height - h) / 2.0);
        int64_t left = w > image.width ? -(int64_t)((w - image.width) / 2)
                                       : (int64_t)nearbyint((image.width - w) / 2.0);
        for (uint32_t y = 0; y < h; y++) {
            for (uint32_t x = 0; x < w; x++) {
                int64_t from_y = top + (ops[2].p > 0 ? h - 1 - y : y);
                int64_t from_x = left + (ops[1].p > 0 ? w - 1 - x : x);
                bool inside =
                    from_y >= 0 && from_y < image.height && from_x >= 0 && from_x < image.width;
                for (uint32_t c = 0; c < 3; c++) {
                    double v = inside ? pixel_of(&image, from_y, from_x, c) : 77;
                    assert_true(out.data[((size_t)y * w + x) * 3 + c] == v);
                }
            }
        }
        output_free(&out);
        image_free(&image);
    }
}

static struct output jitter_one(const struct test_image *image, int which, float factor)
{
    struct pst_op op = make_op(PST_OP_COLOR_JITTER, 0, 0);
    float *ranges[4] = {op.brightness, op.contrast, op.saturation, op.hue};
    ranges[which][0] = ranges[which][1] = factor;
    struct psti_chain_output format = {.channels = (uint8_t)image->channels,
                                       .bits = (uint8_t)image->bits};
    return run_chain(&op, 1, &format, image, 1, 1, &PLAIN);
}

static double luma(const struct test_image *image, size_t p)
{
    double v[3];
    for (uint32_t c = 0; c < 3; c++)
        v[c] = pixel_of(image, (int64_t)(p / image->width), (int64_t)(p % image->width), c);
    return 0.2989 * v[0] + 0.587 * v[1] + 0.114 * v[2];
}

/* The result is within 1 level of torchvision's formula in double, truncated. */
static void jitter_follows_formulas(void **state)
{
    (void)state;
    struct test_random r = {.seed = 25};
    for (int round = 0; round < 90; round++) {
        uint32_t bits = round % 5 == 0 ? 16 : 8, channels = round % 4 == 0 ? 4 : 3;
        double most = bits == 8 ? 255 : 65535;
        struct test_image image = image_make(&r, 13, 11, channels, bits);
        float factor = 0.2f + 0.02f * (float)test_below(&r, 90);
        size_t n = (size_t)13 * 11;
        double mean = 0;
        for (size_t p = 0; p < n; p++)
            mean += floor(luma(&image, p)) / (double)n;
        struct output out = jitter_one(&image, round % 3, factor);
        for (size_t i = 0; i < n * channels; i++) {
            size_t p = i / channels;
            uint32_t c = (uint32_t)(i % channels);
            double v = pixel_of(&image, (int64_t)(p / 11), (int64_t)(p % 11), c), expected = v;
            double gray = round % 3 == 1 ? mean : floor(luma(&image, p));
            if (c < 3)
                expected = round % 3 == 0 ? v * factor : v * factor + (1.0 - factor) * gray;
            expected = floor(clamped(expected, most));
            assert_true(fabs(output_at(&out, bits, i) - expected) <= 1);
        }
        output_free(&out);
        image_free(&image);
    }
}

/* Tries hue rotations: a third of a turn permutes the channels, 0 changes nothing, and half a turn
 * mirrors colours within their range. */
static void hue_turns(void **state)
{
    (void)state;
    struct test_random r = {.seed = 26};
    struct test_image image = image_make(&r, 20, 20, 3, 8);
    struct output third = jitter_one(&image, 3, 1.0f / 3.0f), half = jitter_one(&image, 3, 0.5f);
    for (size_t p = 0; p < 400; p++) {
        double v[3], high = 0, low = 255;
        for (uint32_t c = 0; c < 3; c++) {
            v[c] = pixel_of(&image, (int64_t)(p / 20), (int64_t)(p % 20), c);
            high = v[c] > high ? v[c] : high;
            low = v[c] < low ? v[c] : low;
        }
        for (uint32_t c = 0; c < 3; c++) {
            assert_true(fabs(third.data[3 * p + c] - v[(c + 2) % 3]) <= 1);
            assert_true(fabs(half.data[3 * p + c] - (high + low - v[c])) <= 1);
        }
    }
    output_free(&third);
    output_free(&half);
    image_free(&image);
}

static void grayscale_is_bt601(void **state)
{
    (void)state;
    struct test_random r = {.seed = 27};
    for (uint32_t channels = 1; channels <= 4; channels++) {
        struct test_image image = image_make(&r, 9, 7, channels, 8);
        struct pst_op op = make_op(PST_OP_GRAYSCALE, 0, 0);
        struct psti_chain_output format = {.channels = (uint8_t)channels, .bits = 8};
        struct output out = run_chain(&op, 1, &format, &image, 1, 1, &PLAIN);
        for (size_t i = 0; i < (size_t)63 * channels; i++) {
            const unsigned char *v = image.memory.data + i / channels * channels;
            double expected = image.memory.data[i];
            if (channels >= 3 && i % channels < 3)
                expected = 0.299 * v[0] + 0.587 * v[1] + 0.114 * v[2];
            assert_true(fabs(out.data[i] - expected) <= 0.51);
        }
        output_free(&out);
        image_free(&image);
    }
}

static double f16_value(uint16_t h)
{
    int e = h >> 10 & 31;
    double m = h & 1023, v = e == 0 ? ldexp(m, -24) : ldexp(1024 + m, e - 25);
    return h & 0x8000 ? -v : v;
}

static double float_at(const struct output *out, enum pst_dtype dtype, size_t i)
{
    uint16_t half;
    float v;
    if (dtype == PST_DTYPE_F32) {
        memcpy(&v, out->data + 4 * i, 4);
        return v;
    }
    memcpy(&half, out->data + 2 * i, 2);
    if (dtype == PST_DTYPE_F16)
        return f16_value(half);
    uint32_t bits = (uint32_t)half << 16;
    memcpy(&v, &bits, 4);
    return v;
}

/* Compares with ((v / most) - mean) / std for every dtype and layout, to the dtype's own precision.
 */
static void normalize_and_layout(void **state)
{
    (void)state;
    static const enum pst_dtype dtypes[] = {PST_DTYPE_F32, PST_DTYPE_F16, PST_DTYPE_BF16};
    static const double precisions[] = {1e-5, 0x1p-11, 0x1p-8};
    struct test_random r = {.seed = 28};
    for (int round = 0; round < 96; round++) {
        uint32_t channels = 1 + (uint32_t)round % 4, bits = round & 4 ? 16 : 8;
        int which = round % 3;
        struct test_image image = image_make(&r, 6, 53, channels, bits);
        struct pst_op op = make_op(PST_OP_NORMALIZE, 0, 0);
        for (uint32_t c = 0; c < 4; c++) {
            op.mean[c] = 0.4f + 0.03f * (float)c;
            op.std[c] = 0.22f + 0.01f * (float)c;
        }
        bool planar = (round & 8) != 0;
        struct psti_chain_output format = {.dtype = dtypes[which],
                                           .layout = planar,
                                           .channels = (uint8_t)channels,
                                           .bits = (uint8_t)bits};
        struct output out = run_chain(&op, 1, &format, &image, 1, 1, &PLAIN);
        for (uint32_t p = 0; p < 6 * 53; p++) {
            for (uint32_t c = 0; c < channels; c++) {
                double v = pixel_of(&image, p / 53, p % 53, c) / (bits == 8 ? 255 : 65535);
                double expected = (v - op.mean[c]) / op.std[c];
                size_t at = planar ? (size_t)c * 6 * 53 + p : (size_t)p * channels + c;
                double d = fabs(float_at(&out, dtypes[which], at) - expected);
                assert_true(d <= 1e-5 + precisions[which] * fabs(expected));
            }
        }
        output_free(&out);
        image_free(&image);
    }
}

/* Masks keep their label numbers, whatever the dtype. */
static void masks_become_integers(void **state)
{
    static const enum pst_dtype dtypes[] = {PST_DTYPE_U8, PST_DTYPE_U16, PST_DTYPE_I32,
                                            PST_DTYPE_I64, PST_DTYPE_F32};
    (void)state;
    struct test_random r = {.seed = 33};
    for (uint32_t round = 0; round < 20; round++) {
        enum pst_dtype dtype = dtypes[round % 5];
        uint32_t bits = round & 1 && dtype != PST_DTYPE_U8 ? 16 : 8, most = bits == 8 ? 256 : 65536;
        struct test_image image = image_make(&r, 7, 53, 1, bits);
        struct pst_op flip = make_op(PST_OP_HORIZONTAL_FLIP, 0, 0);
        flip.p = (float)(round & 2) / 2;
        struct psti_chain_output format = {
            .dtype = dtype, .channels = 1, .bits = (uint8_t)bits, .is_mask = true};
        struct output out = run_chain(&flip, 1, &format, &image, 1, 1, &PLAIN);
        for (uint32_t p = 0; p < 7 * 53; p++) {
            uint32_t x = round & 2 ? 52 - p % 53 : p % 53;
            double expected = pixel_of(&image, p / 53, x, 0);
            int64_t number = 0;
            assert_true(expected < most);
            if (dtype == PST_DTYPE_F32)
                number = (int64_t)float_at(&out, dtype, p);
            else
                memcpy(&number, out.data + p * pst_dtype_nbytes(dtype), pst_dtype_nbytes(dtype));
            assert_true((double)number == expected);
        }
        output_free(&out);
        image_free(&image);
    }
}

static void integer_conversions(void **state)
{
    (void)state;
    struct test_random r = {.seed = 29};
    struct test_image narrow = image_make(&r, 5, 31, 3, 8), wide = image_make(&r, 5, 31, 3, 16);
    struct psti_chain_output up = {.dtype = PST_DTYPE_U16, .channels = 3, .bits = 8};
    struct psti_chain_output down = {.dtype = PST_DTYPE_U8, .channels = 3, .bits = 16};
    struct output a = run_chain(NULL, 0, &up, &narrow, 1, 1, &PLAIN);
    struct output b = run_chain(NULL, 0, &down, &wide, 1, 1, &PLAIN);
    up.is_mask = true;
    struct output m = run_chain(NULL, 0, &up, &narrow, 1, 1, &PLAIN);
    for (size_t i = 0; i < 5 * 31 * 3; i++) {
        assert_true(output_at(&a, 16, i) == narrow.memory.data[i] * 257.0);
        assert_true(output_at(&m, 16, i) == narrow.memory.data[i]);
        double v = wide.memory.data[2 * i] + 256.0 * wide.memory.data[2 * i + 1];
        assert_true(b.data[i] == floor(v / 257 + 0.5));
    }
    output_free(&a);
    output_free(&b);
    output_free(&m);
    image_free(&narrow);
    image_free(&wide);
}

/* Every half is restored from its float. Floats halfway between two halves round to even. Tries all
 * finite halves, and the floats next to the halfway ones. */
static void halves_round_to_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        float v = (float)f16_value((uint16_t)h);
        assert_int_equal(psti_augment_f16_from_f32(v), h);
        assert_int_equal(psti_augment_f16_from_f32(-v), h | 0x8000);
        double next = h + 1 < 0x7c00 ? f16_value((uint16_t)(h + 1)) : 65536;
        float middle = (float)((f16_value((uint16_t)h) + next) / 2);
        assert_int_equal(psti_augment_f16_from_f32(middle), h + (h & 1));
        assert_int_equal(psti_augment_f16_from_f32(nextafterf(middle, 0)), h);
        assert_int_equal(psti_augment_f16_from_f32(nextafterf(middle, 1e9f)), h + 1);
    }
    assert_int_equal(psti_augment_f16_from_f32(1e9f), 0x7c00);
    assert_int_equal(psti_augment_f16_from_f32(-INFINITY), 0xfc00);
    assert_true((psti_augment_f16_from_f32(NAN) & 0x7fff) > 0x7c00);
    assert_int_equal(psti_augment_bf16_from_f32(1.0f), 0x3f80);
    assert_int_equal(psti_augment_bf16_from_f32(1.00390625f), 0x3f80); /* rounds down to even */
    assert_int_equal(psti_augment_bf16_from_f32(1.01171875f), 0x3f82); /* rounds up to even */
    assert_int_equal(psti_augment_bf16_from_f32(nextafterf(-1.00390625f, -2)), 0xbf80 + 1);
    assert_true((psti_augment_bf16_from_f32(NAN) & 0x7fff) > 0x7f80);
}

/* A mask whose numbers are its own coordinates shows where each pixel of the image came from. */
static void mask_follows_image(void **state)
{
    (void)state;
    struct test_random r = {.seed = 30};
    for (int round = 0; round < 100; round++) {
        struct test_image image = image_make(&r, 40, 50, 1, 8), mask = image_make(&r, 40, 50, 1, 8);
        memcpy(mask.memory.data, image.memory.data, 40 * 50);
        struct pst_op ops[5] = {
            make_op(PST_OP_RANDOM_RESIZED_CROP, 17, 23), make_op(PST_OP_HORIZONTAL_FLIP, 0, 0),
            make_op(PST_OP_VERTICAL_FLIP, 0, 0), make_op(PST_OP_RANDOM_CROP, 12, 12),
            make_op(PST_OP_GRAYSCALE, 0, 0)};
        ops[0].interpolation = PST_INTERPOLATION_NEAREST;
        struct psti_chain_output format = {.channels = 1, .bits = 8};
        struct output a = run_chain(ops, 5, &format, &image, 3, (uint64_t)round, &PLAIN);
        format.is_mask = true;
        struct output b = run_chain(ops, 4, &format, &mask, 3, (uint64_t)round, &PLAIN);
        assert_same_output(&a, &b);
        output_free(&a);
        output_free(&b);
        image_free(&image);
        image_free(&mask);
    }
}

/* A bright rectangle and its box go through the same chain; the box must still enclose it. */
static void boxes_follow_pixels(void **state)
{
    (void)state;
    struct test_random r = {.seed = 31};
    for (int round = 0; round < 300; round++) {
        struct test_image image = image_make(&r, 60, 80, 1, 8);
        uint32_t y0 = test_below(&r, 50), x0 = test_below(&r, 70);
        uint32_t y1 = y0 + 1 + test_below(&r, 60 - y0), x1 = x0 + 1 + test_below(&r, 80 - x0);
        for (uint32_t i = 0; i < 60 * 80; i++) {
            uint32_t y = i / 80, x = i % 80;
            image.memory.data[i] = y >= y0 && y < y1 && x >= x0 && x < x1 ? 255 : 0;
        }
        struct pst_op ops[6] = {make_op(PST_OP_PAD, 0, 0),
                                make_op(PST_OP_HORIZONTAL_FLIP, 0, 0),
                                make_op(PST_OP_RANDOM_RESIZED_CROP, 96, 128),
                                make_op(PST_OP_VERTICAL_FLIP, 0, 0),
                                make_op(PST_OP_RANDOM_CROP, 80, 90),
                                make_op(PST_OP_RESIZE, 160, 180)};
        ops[0].pad[0] = 5;
        ops[0].pad[3] = 7;
        ops[2].interpolation = ops[5].interpolation = PST_INTERPOLATION_NEAREST;
        struct psti_chain_output format = {.channels = 1, .bits = 8};
        struct output out = run_chain(ops, 6, &format, &image, 5, (uint64_t)round, &PLAIN);
        struct psti_chain *chain;
        struct pst_error err;
        assert_ok(psti_augment_chain_compile(ops, 6, &format, &chain, &err));
        float box[4] = {(float)x0, (float)y0, (float)x1, (float)y1};
        float point[3] = {((float)x0 + (float)x1) / 2, ((float)y0 + (float)y1) / 2, 2};
        psti_augment_chain_map_boxes(chain, &out.draw, box, 1);
        psti_augment_chain_map_keypoints(chain, &out.draw, point, 1);
        double low_x = 1e9, high_x = -1, low_y = 1e9, high_y = -1;
        for (uint32_t i = 0; i < out.height * out.width; i++) {
            double y = i / out.width, x = i % out.width;
            if (out.data[i] != 255)
                continue;
            low_x = x < low_x ? x : low_x;
            high_x = x + 1 > high_x ? x + 1 : high_x;
            low_y = y < low_y ? y : low_y;
            high_y = y + 1 > high_y ? y + 1 : high_y;
        }
        assert_true(box[0] >= 0 && box[0] <= box[2] && box[2] <= 180);
        assert_true(box[1] >= 0 && box[1] <= box[3] && box[3] <= 160);
        if (high_x < 0) {
            assert_true((box[2] - box[0]) * (box[3] - box[1]) <=
                        20); /* the box may be off by less than a pixel in each direction */
        } else {
            assert_true(fabs(box[0] - low_x) <= 4 && fabs(box[2] - high_x) <= 4);
            assert_true(fabs(box[1] - low_y) <= 4 && fabs(box[3] - high_y) <= 4);
        }
        bool inside = point[0] >= 0 && point[0] <= 180 && point[1] >= 0 && point[1] <= 160;
        assert_true(point[2] == 2 || point[2] == 0);
        if (!inside)
            assert_true(point[2] == 0);
        if (point[2] > 0 && high_x >= 0) {
            assert_true(point[0] >= low_x - 4 && point[0] <= high_x + 4);
        }
        psti_augment_chain_free(&chain);
        output_free(&out);
        image_free(&image);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resize_follows_reference),
        cmocka_unit_test(nearest_exact_takes_the_centre),
        cmocka_unit_test(nearest_takes_where_the_output_begins),
        cmocka_unit_test(pad_follows_definition),
        cmocka_unit_test(center_crop_and_flips),
        cmocka_unit_test(jitter_follows_formulas),
        cmocka_unit_test(hue_turns),
        cmocka_unit_test(grayscale_is_bt601),
        cmocka_unit_test(normalize_and_layout),
        cmocka_unit_test(integer_conversions),
        cmocka_unit_test(masks_become_integers),
        cmocka_unit_test(halves_round_to_even),
        cmocka_unit_test(mask_follows_image),
        cmocka_unit_test(boxes_follow_pixels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
