/* Guards against a hazard: resized pixels drift away from those that models were trained on. The
 * tests compare with stored results of torch (bit-identical) and of Pillow (within 1 level, because
 * torch and Pillow differ by as much). */
#include "augment_golden.h"
#include "augment_helper.h"

static struct test_image picture(uint32_t seed, uint32_t height, uint32_t width, uint32_t channels)
{
    struct test_image image = {height, width, channels, 8, {0}};
    size_t n = (size_t)height * width * channels;
    image.memory = guarded_make(n, 0);
    uint32_t state = seed;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        uint32_t v = state >> 24, c = (uint32_t)(i % channels);
        uint32_t x = (uint32_t)(i / channels % width), y = (uint32_t)(i / channels / width);
        if (seed % 2 == 0)
            v = (v >> 3) + (y * 5 + x * 3 + c * 40) % 224;
        image.memory.data[i] = (unsigned char)v;
    }
    return image;
}

static struct output resized(const struct test_image *image, uint32_t height, uint32_t width,
                             uint32_t interpolation)
{
    struct how how = {.features = psti_cpu_features()};
    struct psti_chain_output format = {.channels = (uint8_t)image->channels, .bits = 8};
    struct pst_op op = make_op(PST_OP_RESIZE, height, width);
    op.interpolation = (enum pst_interpolation)interpolation;
    return run_chain(&op, 1, &format, image, 0, 0, &how);
}

static void equals_torch(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof torch_cases / sizeof torch_cases[0]; i++) {
        const struct torch_case *t = &torch_cases[i];
        struct test_image image = picture(t->seed, t->height, t->width, t->channels);
        struct output out = resized(&image, t->to_height, t->to_width, t->interpolation);
        uint64_t fnv = 0xcbf29ce484222325ULL;
        for (size_t k = 0; k < out.nbytes; k++)
            fnv = (fnv ^ out.data[k]) * 0x100000001b3ULL;
        assert_int_equal(fnv, t->fnv);
        output_free(&out);
        image_free(&image);
    }
}

static int hex_digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

static void is_close_to_pillow(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pil_cases / sizeof pil_cases[0]; i++) {
        const struct pil_case *t = &pil_cases[i];
        struct test_image image = picture(t->seed, t->height, t->width, t->channels);
        struct output out = resized(&image, t->to_height, t->to_width, t->interpolation);
        assert_int_equal(strlen(t->hex), 2 * out.nbytes);
        for (size_t k = 0; k < out.nbytes; k++) {
            int expected = hex_digit(t->hex[2 * k]) * 16 + hex_digit(t->hex[2 * k + 1]);
            assert_true(abs(out.data[k] - expected) <= 1);
        }
        output_free(&out);
        image_free(&image);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_torch),
        cmocka_unit_test(is_close_to_pillow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
