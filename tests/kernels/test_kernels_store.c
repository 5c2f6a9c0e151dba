/* test_kernels_store.c - stores pixels with the kernel functions sink_row and sink_quads: every
 * orientation, conversion, dtype and layout, and regions and runs of many sizes, compared with the
 * CPU's decoder and chain. */
#include "base/test_input.h"
#include "store_kernel.h"

#include "augment/augment.h"
#include "decode/decode.h"

void psti_test_store(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args);

struct store_case {
    struct pst_image_info info; /* the image as it is shown */
    struct pst_decode_options decode;
    struct psti_rect region;
    uint8_t channels, bits; /* channels and bits of the region's pixels */
    bool finished, flip_y, flip_x;
    struct psti_chain_output output;
    bool normalizes;
};

/* Makes the region's pixels on the CPU. */
static unsigned char *region_of(const struct store_case *c, const void *stored, size_t nbytes)
{
    struct pst_error err;
    struct psti_decoder *decoder;
    size_t row_nbytes = (size_t)c->region.width * c->channels * c->bits / 8;
    unsigned char *pixels = malloc(row_nbytes * c->region.height);
    assert_ok(psti_decode_open(&decoder, &err));
    assert_ok(psti_decode_region(decoder, stored, nbytes, &c->info, &c->decode, &c->region, pixels,
                                 row_nbytes, &err));
    psti_decode_close(&decoder);
    return pixels;
}

static struct psti_chain *chain_of(const struct store_case *c)
{
    static const float mean[4] = {0.485f, 0.456f, 0.406f, 0.5f},
                       std[4] = {0.229f, 0.224f, 0.225f, 1};
    struct pst_error err;
    struct pst_op ops[3];
    size_t n = 0;
    pst_op_init(&ops[n], sizeof ops[n], PST_OP_VERTICAL_FLIP);
    ops[n++].p = c->flip_y;
    pst_op_init(&ops[n], sizeof ops[n], PST_OP_HORIZONTAL_FLIP);
    ops[n++].p = c->flip_x;
    if (c->normalizes) {
        pst_op_init(&ops[n], sizeof ops[n], PST_OP_NORMALIZE);
        memcpy(ops[n].mean, mean, sizeof mean);
        memcpy(ops[n++].std, std, sizeof std);
    }
    struct psti_chain *chain;
    assert_ok(psti_augment_chain_compile(ops, n, &c->output, &chain, &err));
    return chain;
}

/* Makes the finished row on the CPU. Frees `pixels`. */
static unsigned char *finished_of(const struct store_case *c, unsigned char *pixels,
                                  const struct psti_chain *chain, size_t *nbytes)
{
    struct pst_error err;
    struct psti_run *run;
    struct psti_draw draw;
    size_t element = pst_dtype_nbytes(psti_augment_chain_dtype(chain));
    size_t row_nbytes = (size_t)c->region.width * c->channels * c->bits / 8;
    bool planar = c->output.layout == PST_LAYOUT_CHW;
    *nbytes = (size_t)c->region.height * c->region.width * c->channels * element;
    unsigned char *out = malloc(*nbytes);
    struct psti_target target = {out, c->region.width * element * (planar ? 1 : c->channels)};
    assert_ok(psti_augment_chain_draw(chain,
                                      &(struct psti_draw_key){.seed = 1, .epoch = 2, .sample = 3},
                                      c->region.height, c->region.width, &draw, &err));
    assert_ok(psti_augment_run_open(&run, &err));
    assert_ok(psti_augment_run_begin(run, chain, &draw, &target, &err));
    assert_int_equal(psti_augment_run_rows(run, pixels, row_nbytes, 0, c->region.height), PST_OK);
    assert_ok(psti_augment_run_end(run, &err));
    psti_augment_run_close(&run);
    free(pixels);
    return out;
}

static struct psti_gpu_finish finish_of(const struct store_case *c, const struct psti_chain *chain)
{
    struct psti_gpu_finish finish = {
        .out_height = c->region.height,
        .out_width = c->region.width,
        .channels = c->channels,
        .bits = c->bits,
        .dtype = (uint8_t)psti_augment_chain_dtype(chain),
        .is_chw = c->output.layout == PST_LAYOUT_CHW,
        .is_mask = c->output.is_mask,
    };
    static const float mean[4] = {0.485f, 0.456f, 0.406f, 0.5f},
                       std[4] = {0.229f, 0.224f, 0.225f, 1};
    float most = c->bits == 8 ? 255.0f : 65535.0f;
    for (uint32_t i = 0; i < 4; i++) {
        finish.scale[i] = c->output.is_mask ? 1.0f : 1.0f / most;
        if (c->normalizes) {
            finish.scale[i] = (float)(1.0 / ((double)most * std[i]));
            finish.offset[i] = (float)(-(double)mean[i] / std[i]);
        }
    }
    return finish;
}

/* Returns true if the pixels went through sink_quads. */
static bool run_case(struct test_random *random, const struct store_case *c)
{
    bool swaps = c->info.orientation >= 5 && !c->decode.ignore_orientation;
    uint32_t height = swaps ? c->info.width : c->info.height;
    uint32_t width = swaps ? c->info.height : c->info.width;
    size_t n = (size_t)height * width * c->info.channels, nbytes = n * c->info.bits / 8;
    uint16_t *samples = malloc(n * sizeof *samples);
    unsigned char *stored = malloc(nbytes);
    for (size_t i = 0; i < n; i++) {
        samples[i] = (uint16_t)test_below(random, c->info.bits == 8 ? 256 : 65536);
        if (c->info.bits == 8)
            stored[i] = (unsigned char)samples[i];
        else
            memcpy(stored + 2 * i, &samples[i], 2);
    }
    struct psti_chain *chain = chain_of(c);
    size_t out_nbytes = (size_t)c->region.height * c->region.width * c->channels * c->bits / 8;
    unsigned char *expected = region_of(c, stored, nbytes);
    if (c->finished)
        expected = finished_of(c, expected, chain, &out_nbytes);
    struct guarded to = guarded_make(out_nbytes, 64);
    uint32_t asked[2] = {0, 0};
    struct test_store_args args = {
        .pixels = (uintptr_t)samples,
        .asked = (uintptr_t)asked,
        .run_px = test_below(random, 4) != 0 ? 1 + test_below(random, 64) : 64,
        .quads = test_below(random, 2),
        .sink = {.at = (uintptr_t)to.data,
                 .region_y = c->region.y,
                 .region_x = c->region.x,
                 .region_height = c->region.height,
                 .region_width = c->region.width,
                 .height = (uint16_t)height,
                 .width = (uint16_t)width,
                 .channels = c->info.channels,
                 .bits = c->info.bits,
                 .orientation = c->decode.ignore_orientation ? 1 : c->info.orientation,
                 .finished = c->finished,
                 .flip_y = c->flip_y,
                 .flip_x = c->flip_x},
        .finish = finish_of(c, chain),
    };
    psti_test_store(1 + test_below(random, 3), 1 + test_below(random, 4), 0, &args);
    assert_int_equal(asked[0], 0);
    assert_memory_equal(to.data, expected, out_nbytes);
    guarded_free(&to);
    psti_augment_chain_free(&chain);
    free(expected);
    free(stored);
    free(samples);
    return asked[1] != 0;
}

/* Chooses the output of a chain: an image of that dtype, or a mask if the dtype suits masks. */
static void choose_output(struct test_random *random, struct store_case *c)
{
    static const enum pst_dtype dtypes[] = {PST_DTYPE_U8,   PST_DTYPE_U16, PST_DTYPE_F16,
                                            PST_DTYPE_BF16, PST_DTYPE_F32, PST_DTYPE_I32,
                                            PST_DTYPE_I64};
    struct psti_chain_output *output = &c->output;
    output->dtype = dtypes[test_below(random, c->channels == 1 ? 7 : 5)];
    output->layout = test_below(random, 2) != 0 ? PST_LAYOUT_CHW : PST_LAYOUT_HWC;
    output->channels = c->channels;
    output->bits = c->bits;
    bool is_float = output->dtype >= PST_DTYPE_F16;
    bool can_be_mask = output->dtype == PST_DTYPE_U16 || output->dtype == PST_DTYPE_F32 ||
                       (output->dtype == PST_DTYPE_U8 && c->bits == 8);
    output->is_mask = can_be_mask && test_below(random, 4) == 0;
    if (output->dtype == PST_DTYPE_I32 || output->dtype == PST_DTYPE_I64)
        output->is_mask = true;
    c->normalizes = is_float && !output->is_mask && test_below(random, 2) != 0;
}

static struct store_case choose(struct test_random *random, uint32_t most_px)
{
    struct store_case c = {
        .info = {.form = PST_FORM_RAW,
                 .height = 1 + test_below(random, most_px),
                 .width = 1 + test_below(random, most_px),
                 .channels = (uint8_t)(1 + test_below(random, 4)),
                 .bits = test_below(random, 2) != 0 ? 8 : 16,
                 .orientation = (uint8_t)(1 + test_below(random, 8))},
        .finished = test_below(random, 4) != 0,
        .flip_y = test_below(random, 2) != 0,
        .flip_x = test_below(random, 2) != 0,
    };
    static const uint8_t channels[] = {0, 0, 1, 3, 4}, bits[] = {0, 0, 8, 16};
    c.decode.struct_size = sizeof c.decode;
    c.decode.channels = channels[test_below(random, 5)];
    c.decode.bits = bits[test_below(random, 4)];
    c.decode.ignore_orientation = test_below(random, 8) == 0;
    psti_decode_output(&c.info, &c.decode, &c.channels, &c.bits);
    struct psti_rect whole = {0, 0, c.info.height, c.info.width};
    c.region = whole;
    if (test_below(random, 4) != 0) {
        c.region.y = test_below(random, whole.height);
        c.region.x = test_below(random, whole.width);
        c.region.height = 1 + test_below(random, whole.height - c.region.y);
        c.region.width = 1 + test_below(random, whole.width - c.region.x);
    }
    choose_output(random, &c);
    return c;
}

static void test_random_cases(void **state)
{
    (void)state;
    struct test_random random = {11, 0};
    for (int i = 0; i < 3000; i++) {
        struct store_case c = choose(&random, i % 10 == 0 ? 200 : i % 3 == 0 ? 12 : 70);
        run_case(&random, &c);
    }
}

/* Pixels that are stored four at a time, with every dtype, layout and number of channels. */
static void test_quads(void **state)
{
    (void)state;
    struct test_random random = {12, 0};
    uint32_t n = 0;
    for (int i = 0; i < 3000; i++) {
        struct store_case c = choose(&random, i % 10 == 0 ? 200 : i % 3 == 0 ? 12 : 70);
        c.info.bits = 8;
        c.decode.bits = c.decode.channels = 0;
        c.info.orientation = (uint8_t)(1 + test_below(&random, 4));
        psti_decode_output(&c.info, &c.decode, &c.channels, &c.bits);
        c.region.y = test_below(&random, c.info.height);
        c.region.height = 1 + test_below(&random, c.info.height - c.region.y);
        c.region.x = test_below(&random, c.info.width);
        c.region.width = 1 + test_below(&random, c.info.width - c.region.x);
        if (c.region.width > 4 && i % 2)
            c.region.width &= ~3u;
        choose_output(&random, &c);
        n += run_case(&random, &c);
    }
    assert_true(n > 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_cases),
                                       cmocka_unit_test(test_quads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
