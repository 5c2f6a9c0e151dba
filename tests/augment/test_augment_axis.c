/* Guards against a hazard: for some pair of sizes, the fast computation of a triangle filter's
 * weights differs from the rule. The rule is implemented here with one division for each weight. */
#include "augment_helper.h"

#include "base/bits.h"

/* The window of one output by the rule: |(2 k + 1) n_to - (2 i + 1) n_from| < reach. */
struct window {
    int64_t begin, end;
    double sum, most;
};

static double weight_of(const struct psti_axis_side *side, int64_t i, int64_t k)
{
    int64_t from = side->n_from, to = side->n_to;
    int64_t unit = 2 * (from > to && !side->no_antialias ? from : to);
    int64_t distance = (2 * k + 1) * to - (2 * i + 1) * from;
    distance = distance < 0 ? -distance : distance;
    return distance < unit ? (double)(unit - distance) : 0;
}

static struct window window_of(const struct psti_axis_side *side, int64_t i)
{
    struct window w = {.begin = -1};
    int64_t centre = (2 * i + 1) * (int64_t)side->n_from / (2 * (int64_t)side->n_to);
    int64_t reach = 2 + (side->n_from > side->n_to ? side->n_from / side->n_to : 1);
    for (int64_t k = centre - reach; k <= centre + reach; k++) {
        double weight = k >= 0 && k < side->n_from ? weight_of(side, i, k) : 0;
        if (weight > 0) {
            w.begin = w.begin < 0 ? k : w.begin;
            w.end = k + 1;
            w.sum += weight;
            w.most = weight > w.most ? weight : w.most;
        }
    }
    return w;
}

static uint32_t precision_of(const struct psti_axis_side *side)
{
    double most = 0;
    for (int64_t i = 0; i < side->n_to; i++) {
        struct window w = window_of(side, i);
        most = w.most / w.sum > most ? w.most / w.sum : most;
    }
    uint32_t precision = 0;
    while (precision < 22 && (int32_t)(0.5 + most * (double)(1 << (precision + 1))) < 1 << 15)
        precision++;
    return precision;
}

static void check(const struct psti_axis_spec *spec)
{
    struct guarded memory = guarded_make(psti_round_up(psti_augment_axis_nbytes(spec), 64), 0);
    struct psti_axis axis;
    psti_augment_axis_build(spec, memory.data, &axis);
    double one = (double)(1 << axis.precision);
    assert_int_equal(axis.precision, precision_of(&spec->side));
    for (uint32_t j = 0; j < spec->n; j++) {
        int64_t shown = spec->begin + (spec->flip ? spec->n - 1 - j : j);
        int64_t i = spec->mirror ? spec->side.n_to - 1 - shown : shown;
        struct window w = window_of(&spec->side, i);
        int64_t first = spec->mirror ? spec->side.n_from - w.end : w.begin;
        assert_int_equal(axis.start[j], first);
        assert_int_equal(axis.taps[j], w.end - w.begin);
        const int16_t *weights = axis.weights + (size_t)j * axis.stride;
        for (int64_t k = w.begin; k < w.end; k++) {
            int64_t at = spec->mirror ? w.end - 1 - k : k - w.begin;
            double expected = weight_of(&spec->side, i, k) / w.sum * one;
            assert_int_equal(weights[at], (int16_t)(expected + 0.5));
        }
        for (uint32_t k = axis.taps[j]; k < axis.stride; k++)
            assert_int_equal(weights[k], 0);
    }
    guarded_free(&memory);
}

static struct psti_axis_spec spec_of(uint32_t n_from, uint32_t n_to)
{
    struct psti_axis_spec spec = {
        .side = {.n_from = n_from, .n_to = n_to, .interpolation = PST_INTERPOLATION_BILINEAR},
        .n = n_to,
        .n_source = n_from,
        .channels = 3,
        .bits = 8,
    };
    return spec;
}

static void small_sizes_follow_the_rule(void **state)
{
    (void)state;
    for (uint32_t from = 1; from <= 64; from++) {
        for (uint32_t to = 1; to <= 64; to++) {
            struct psti_axis_spec spec = spec_of(from, to);
            spec.side.no_antialias = (from + to) % 5 == 0;
            spec.mirror = (from + to) % 3 == 0;
            spec.flip = from % 2 == 0;
            check(&spec);
        }
    }
}

/* Tries usual crop sizes, and multiples, whose weights lie exactly between two integers. */
static void usual_sizes_follow_the_rule(void **state)
{
    (void)state;
    struct test_random r = {.seed = 51};
    for (int round = 0; round < 400; round++) {
        uint32_t to = round % 3 == 0 ? 224 : 1 + test_below(&r, 400);
        uint32_t from = round % 4 == 0 ? to * (1 + test_below(&r, 9)) : 1 + test_below(&r, 3000);
        struct psti_axis_spec spec = spec_of(from, to);
        spec.mirror = round % 5 == 0;
        spec.flip = round % 2 == 0;
        spec.begin = test_below(&r, to);
        spec.n = 1 + test_below(&r, to - spec.begin);
        check(&spec);
    }
    struct psti_axis_spec wide = spec_of(1u << 20, 5), long_one = spec_of(3, 1u << 12);
    check(&long_one);
    check(&wide);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_sizes_follow_the_rule),
        cmocka_unit_test(usual_sizes_follow_the_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
