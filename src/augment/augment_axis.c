/* augment_axis.c - computes the filter weights of one axis of a resize.
 *
 * In: sides, interpolation, the range of wanted outputs. Out: struct psti_axis with integer
 * weights. Any thread; the caller owns the memory. The code runs twice for every sample, because
 * each random crop has its own size, so it must be fast.
 *
 * Output i of n_to has its centre at (2 i + 1) n_from / (2 n_to) in the source. The weight of
 * source pixel k depends on the distance |(2 k + 1) n_to - (2 i + 1) n_from| / unit. unit is 2
 * n_to, or 2 max(n_from, n_to) with antialias, as in PIL and torch (align_corners = False).
 * Numerators of distances are exact integers. So which pixels have a weight, and the weights of a
 * triangle filter, are exact, and a cubic filter's rounding is the same on every machine.
 *
 * For 8-bit samples, weights are then rounded to int16 by torch's rule, so resized pixels equal
 * those of torch (and torchvision v2) to the bit. For 16-bit samples, the running sum of the
 * weights is rounded to 28 bits, so errors do not add up along a filter. Pixels outside of the
 * source have no weight. The exception is the cubic filter without antialias: like torch, it
 * repeats the edge pixel and uses a = -3/4.
 *
 * Nearest-exact takes the pixel that contains the output's centre, in exact arithmetic. torch and
 * PIL take the same pixel, except for a centre on the border of two pixels, where rounding of their
 * floats decides. Nearest takes the pixel in which output i begins. Like torch it computes this in
 * float32, with one division and one multiplication, so both agree for all sizes.
 *
 * If the decoder delivers the source at 1 / S of its size, each delivered pixel is S source pixels
 * wide. The first one begins `lead` source pixels before the axis does. Each delivered pixel gets
 * the filter's weight at its centre, times the share of the pixel that lies within the axis. So the
 * picture is not shifted, and a crop's edge need not lie on the border of delivered pixels. */
#include "augment/augment_int.h"

#include "base/bits.h"

#include <math.h>

/* One axis, as the numbers that the functions below compute with. */
struct filter {
    int64_t n_from, n_to, unit;
    int64_t reach; /* support of the filter on each side, times unit */
    int64_t pitch; /* half the distance between two pixels: n_to, or S * n_to */
    /* n_from; for a scaled source the number of delivered pixels that lie at least partly within
     * the axis */
    int64_t n_pixels;
    int64_t lead; /* the part of the first pixel before the axis, times 2 n_to */
    bool cubic, scaled;
    bool repeats_edge; /* the cubic without antialias: repeats the edge pixel, a = -3/4 */
};

static struct filter filter_make(const struct psti_axis_side *side)
{
    struct filter f = {.n_from = side->n_from, .n_to = side->n_to, .unit = 2 * (int64_t)side->n_to};
    if (!side->no_antialias && side->n_from > side->n_to)
        f.unit = 2 * (int64_t)side->n_from;
    f.cubic = side->interpolation == PST_INTERPOLATION_BICUBIC;
    f.reach = f.cubic ? 2 * f.unit : f.unit;
    f.repeats_edge = f.cubic && side->no_antialias;
    f.scaled = side->scale_log2 > 0;
    f.pitch = f.n_to << side->scale_log2;
    f.lead = 2 * f.n_to * side->lead;
    f.n_pixels = psti_augment_axis_pixels(side);
    return f;
}

/* Returns a / b, rounded down. b > 0. */
static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* Returns the centre of output i in the source, counted from the left edge of pixel 0, in units of
 * 1 / (2 n_to) source pixel. */
static int64_t centre_of(const struct filter *f, int64_t i)
{
    return (2 * i + 1) * f->n_from + f->lead;
}

/* Writes the range [*begin, *end) of pixels k with |(2 k + 1) pitch - centre| < reach, clipped to
 * the source. */
static void filter_range(const struct filter *f, int64_t centre, int64_t *begin, int64_t *end)
{
    int64_t low = floor_div(centre - f->reach - f->pitch, 2 * f->pitch) + 1;
    /* negating the dividend rounds up */
    int64_t high = -floor_div(f->pitch - centre - f->reach, 2 * f->pitch);
    *begin = low < 0 ? 0 : low;
    *end = high > f->n_pixels ? f->n_pixels : high;
}

static uint32_t nearest(const struct psti_axis_side *side, uint32_t i)
{
    if (side->interpolation == PST_INTERPOLATION_NEAREST_EXACT)
        return (uint32_t)((2 * (uint64_t)i + 1) * side->n_from / (2 * (uint64_t)side->n_to));
    const float scale = (float)side->n_from / (float)side->n_to;
    const uint32_t at = (uint32_t)((float)i * scale);
    return at < side->n_from ? at : side->n_from - 1;
}

void psti_augment_axis_range(const struct psti_axis_side *side, uint32_t i, uint32_t *begin,
                             uint32_t *end)
{
    if (psti_augment_is_nearest(side->interpolation)) {
        *begin = nearest(side, i);
        *end = *begin + 1;
        return;
    }
    struct filter f = filter_make(side);
    int64_t first, last;
    filter_range(&f, centre_of(&f, i), &first, &last);
    *begin = (uint32_t)first;
    *end = (uint32_t)last;
}

uint32_t psti_augment_axis_max_taps(const struct psti_axis_spec *spec)
{
    if (psti_augment_is_nearest(spec->side.interpolation))
        return 1;
    struct filter f = filter_make(&spec->side);
    /* An open interval of length 2 reach holds at most ceil(2 reach / (2 pitch)) pixel centres. */
    int64_t most = (f.reach + f.pitch - 1) / f.pitch;
    return (uint32_t)(most < f.n_pixels ? most : f.n_pixels);
}

/* Returns the number of weights for each output, rounded up as the vector kernels need it. */
static uint32_t stride_of(const struct psti_axis_spec *spec)
{
    uint32_t taps = psti_augment_axis_max_taps(spec);
    if (spec->channels == 1)
        return (uint32_t)psti_round_up(taps, 8);
    return (uint32_t)psti_round_up(taps, 2);
}

static size_t weight_nbytes(const struct psti_axis_spec *spec)
{
    return spec->bits == 8 ? sizeof(int16_t) : sizeof(int32_t);
}

size_t psti_augment_axis_nbytes(const struct psti_axis_spec *spec)
{
    size_t ints = psti_round_up((size_t)spec->n * 4, 64);
    return 2 * ints + (size_t)spec->n * stride_of(spec) * weight_nbytes(spec) + PSTI_SLACK;
}

/* Returns the cubic convolution kernel of Keys with parameter a at x >= 0. */
static double cubic(double x, double a)
{
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2)
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    return 0;
}

/* Returns how much of pixel k lies within the axis; 2 pitch is the whole pixel. Only the first and
 * the last pixel can lie within it in part. */
static int64_t cover(const struct filter *f, int64_t k)
{
    int64_t begin = 2 * k * f->pitch, end = begin + 2 * f->pitch;
    int64_t last = f->lead + 2 * f->n_from * f->n_to;
    begin = begin > f->lead ? begin : f->lead;
    return (end < last ? end : last) - begin;
}

static double tap_at(const struct filter *f, int64_t centre, int64_t k)
{
    int64_t distance = (2 * k + 1) * f->pitch - centre;
    if (distance < 0)
        distance = -distance;
    return f->cubic ? cubic((double)distance / (double)f->unit, f->repeats_edge ? -0.75 : -0.5)
                    : (double)(f->unit - distance);
}

/* Returns the weight of pixel k before normalisation. */
static double weight_at(const struct filter *f, int64_t centre, int64_t k)
{
    double weight = tap_at(f, centre, k);
    /* A filter of four taps reaches at most two pixels beyond an edge. */
    for (int64_t beyond = 1; f->repeats_edge && beyond <= 2; beyond++) {
        if (k == 0)
            weight += tap_at(f, centre, -beyond);
        if (k == f->n_pixels - 1)
            weight += tap_at(f, centre, k + beyond);
    }
    return f->scaled ? weight * (double)cover(f, k) : weight;
}

/* Returns the sum of weight_at() over the pixels begin..end-1, by which weights are normalised. */
static double filter_sum(const struct filter *f, int64_t centre, int64_t begin, int64_t end)
{
    double sum = 0;
    for (int64_t k = begin; k < end; k++)
        sum += weight_at(f, centre, k);
    return sum;
}

/* Returns the largest weight of output `i`. It belongs to one of the two pixels next to the centre.
 * In a scaled source one of these may lie within the axis only in part, so one more pixel is tried
 * on each side. */
static double largest_weight(const struct filter *f, int64_t i)
{
    int64_t begin, end, centre = centre_of(f, i);
    filter_range(f, centre, &begin, &end);
    double most = 0, sum = filter_sum(f, centre, begin, end);
    int64_t near = (centre - f->pitch) / (2 * f->pitch) - f->scaled;
    for (int64_t k = near; k <= near + 1 + 2 * f->scaled; k++) {
        if (k >= begin && k < end) {
            double weight = weight_at(f, centre, k) / sum;
            most = weight > most ? weight : most;
        }
    }
    return most;
}

static uint32_t precision_for(double most)
{
    uint32_t precision = 0;
    while (precision < 22 && (int32_t)(0.5 + most * (double)(1 << (precision + 1))) < 1 << 15)
        precision++;
    return precision;
}

/* Returns the number of fraction bits of weights. For 8-bit samples it follows torch's rule: the
 * most bits, up to 22, with which the largest weight of the whole axis fits into an int16. Outputs
 * that are not wanted count too, because cropping must not change pixels. 16-bit samples use 28
 * bits, with int32 weights and int64 sums. */
static uint32_t precision_of(const struct filter *f, uint32_t bits)
{
    if (bits == 16)
        return 28;
    double most = 0;
    /* The outputs of the second half mirror those of the first half, unless the source is
     * scaled. */
    int64_t half = f->scaled ? f->n_to : (f->n_to + 1) / 2;
    for (int64_t i = 0; i < half; i++) {
        double weight = largest_weight(f, i);
        most = weight > most ? weight : most;
    }
    return precision_for(most);
}

static void narrow_weights(const struct filter *f, int64_t centre, int64_t begin, int64_t end,
                           uint32_t precision, int16_t *weights, bool mirror)
{
    double sum = filter_sum(f, centre, begin, end), one = (double)(1 << precision);
    for (int64_t k = begin; k < end; k++) {
        double weight = weight_at(f, centre, k) / sum * one;
        int64_t at = mirror ? end - 1 - k : k - begin;
        weights[at] = (int16_t)(weight < 0 ? weight - 0.5 : weight + 0.5);
    }
}

/* Makes the weights for 16-bit samples. The running sum is rounded, so the weights add up to
 * exactly 1 << precision. */
static void wide_weights(const struct filter *f, int64_t centre, int64_t begin, int64_t end,
                         uint32_t precision, int32_t *weights, bool mirror)
{
    double scale = (double)(1 << precision) / filter_sum(f, centre, begin, end), running = 0;
    int32_t before = 0;
    for (int64_t k = begin; k < end; k++) {
        running += weight_at(f, centre, k);
        double scaled = running * scale;
        int32_t upto = (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
        if (k + 1 == end)
            upto = 1 << precision;
        weights[mirror ? end - 1 - k : k - begin] = upto - before;
        before = upto;
    }
}

/* Triangles over a source that is not scaled
 *
 * Nearly all axes are of this kind, and two are made for each sample. All numbers are integers, so
 * the sum of a window has a closed form, and quotients are carried from output to output.
 * ----------------------------------------------------------------------------------------- */

/* The window of one output pixel. `quotient` and `rest` are the results of divisions by twice the
 * pitch, which give source pixels. */
struct place {
    int64_t centre;
    /* of: the pixel before the window, the last pixel of the window, the pixel before the centre */
    int64_t quotient[3], rest[3];
};

static struct place place_of(const struct filter *f, int64_t i)
{
    int64_t c = centre_of(f, i), by = 2 * f->pitch;
    const int64_t above[3] = {c - f->reach - f->pitch, c + f->reach - f->pitch - 1, c - f->pitch};
    struct place p = {.centre = c};
    for (int j = 0; j < 3; j++) {
        p.quotient[j] = floor_div(above[j], by);
        p.rest[j] = above[j] - p.quotient[j] * by;
    }
    return p;
}

/* Advances the state to the next output. `whole` and `rest` are the quotient and the remainder of 2
 * n_from / (2 pitch). */
static inline void place_next(const struct filter *f, struct place *p, int64_t whole, int64_t rest)
{
    p->centre += 2 * f->n_from;
    for (int j = 0; j < 3; j++) {
        int64_t sum = p->rest[j] + rest - 2 * f->pitch;
        p->quotient[j] += whole + (sum >= 0);
        p->rest[j] = sum >= 0 ? sum : sum + 2 * f->pitch;
    }
}

struct triangle {
    int64_t begin, end, near; /* near: the last pixel not centred after the output's centre */
    int64_t sum;              /* sum of all weights */
};

static inline struct triangle triangle_of(const struct filter *f, const struct place *p)
{
    struct triangle t = {p->quotient[0] + 1, p->quotient[1] + 1, p->quotient[2], 0};
    t.begin = t.begin < 0 ? 0 : t.begin;
    t.end = t.end > f->n_pixels ? f->n_pixels : t.end;
    /* A sum of odd numbers 2 k + 1 is a difference of squares. Counting from `near` keeps the
     * numbers small. */
    int64_t left = t.near + 1 - t.begin, right = t.end - t.near - 1;
    int64_t beyond = p->centre - 2 * (t.near + 1) * f->pitch;
    t.sum = (left + right) * f->unit - f->pitch * (left * left + right * right) -
            beyond * (left - right);
    return t;
}

static double triangle_largest(const struct filter *f, const struct place *p)
{
    struct triangle t = triangle_of(f, p);
    int64_t to_near = p->centre - (2 * t.near + 1) * f->pitch;
    int64_t to_next = 2 * f->pitch - to_near;
    bool has_near = t.near >= t.begin, has_next = t.near + 1 < t.end;
    int64_t distance = has_near && (to_near < to_next || !has_next) ? to_near : to_next;
    return (double)(f->unit - distance) / (double)t.sum;
}

/* Returns what precision_of() returns, usually without looking at all windows. On an axis that
 * shrinks, only the first window of the first half is cut off, and the weights of a whole window
 * add up to at least (unit^2 - pitch^2) / (2 pitch). If this bound and the first window give the
 * same precision, no other window is looked at. */
static uint32_t triangle_precision(const struct filter *f, int64_t whole, int64_t rest)
{
    struct place p = place_of(f, 0);
    double most = triangle_largest(f, &p);
    if (f->n_to > 1 && f->unit == 2 * f->n_from && f->n_from > f->n_to) {
        double unit = (double)f->unit, pitch = (double)f->pitch;
        double bound = 1.000001 * unit * 2 * pitch / (unit * unit - pitch * pitch);
        uint32_t precision = precision_for(most);
        if (precision == precision_for(bound > most ? bound : most))
            return precision;
    }
    for (int64_t i = 1; i < (f->n_to + 1) / 2; i++) {
        place_next(f, &p, whole, rest);
        double weight = triangle_largest(f, &p);
        most = weight > most ? weight : most;
        if (most >= 1)
            break; /* later weights are not larger */
    }
    return precision_for(most);
}

/* Does what narrow_weights() does, with a single division for all weights. If a weight is so close
 * to a half that multiplying by the reciprocal could round differently from dividing, it is divided
 * again. */
static void triangle_weights(const struct filter *f, int64_t centre, const struct triangle *t,
                             uint32_t precision, int16_t *weights, bool mirror)
{
    const double one = (double)(1 << precision), scale = one / (double)t->sum;
    const double pitch = 2 * (double)f->pitch, unit = (double)f->unit, doubt = 1e-6;
    double distance = (double)((2 * t->begin + 1) * f->pitch - centre);
    int64_t n = t->end - t->begin;
    double furthest = 0; /* largest distance of a weight's fraction from 1/2 */
    int16_t *to = mirror ? weights + n - 1 : weights;
    ptrdiff_t step = mirror ? -1 : 1;
    for (int64_t k = 0; k < n; k++, distance += pitch, to += step) {
        double value = (unit - fabs(distance)) * scale + 0.5;
        int32_t weight = (int32_t)value;
        double part = fabs(value - weight - 0.5);
        furthest = part > furthest ? part : furthest;
        *to = (int16_t)weight;
    }
    if (furthest > 0.5 - doubt)
        narrow_weights(f, centre, t->begin, t->end, precision, weights, mirror);
}

/* Fills starts, taps and weights of an axis of 8-bit samples with a triangle filter. */
static void triangles(const struct psti_axis_spec *spec, const struct filter *f,
                      struct psti_axis *axis, uint32_t *start, uint32_t *taps, int16_t *weights)
{
    int64_t by = 2 * f->pitch, whole = 2 * f->n_from / by, rest = 2 * f->n_from % by;
    bool falls = spec->flip != spec->mirror;
    int64_t first = spec->mirror ? f->n_to - spec->begin - spec->n : spec->begin;
    struct place p = place_of(f, first);
    axis->precision = triangle_precision(f, whole, rest);
    for (uint32_t k = 0; k < spec->n; k++) {
        uint32_t j = falls ? spec->n - 1 - k : k;
        struct triangle t = triangle_of(f, &p);
        triangle_weights(f, p.centre, &t, axis->precision, weights + (size_t)j * axis->stride,
                         spec->mirror);
        int64_t from = spec->mirror ? f->n_from - t.end : t.begin;
        start[j] = (uint32_t)(from - spec->origin);
        taps[j] = (uint32_t)(t.end - t.begin);
        place_next(f, &p, whole, rest);
    }
}

/* Finds the outputs whose padded windows lie within the source, so that kernels can load them
 * without checks. Window starts rise, or fall if the outputs are flipped. */
static void find_safe(const struct psti_axis_spec *spec, struct psti_axis *axis, bool falling)
{
    /* With 3 channels a load of 16 bytes covers 4 pixels and 4 bytes more, which touch 2 further
     * pixels. A load of a sweep may begin with the window's last pixel, so it reads 3 pixels beyond
     * the window. */
    uint64_t beyond = (spec->channels == 3 ? 2 : 0) + (spec->sweeps ? 3 : 0);
    uint32_t n_safe = 0;
    for (uint32_t i = 0; i < spec->n; i++) {
        uint32_t at = falling ? spec->n - 1 - i : i;
        if (axis->start[at] + (uint64_t)axis->stride + beyond > spec->n_source)
            break;
        n_safe++;
    }
    axis->safe_begin = falling ? spec->n - n_safe : 0;
    axis->safe_end = falling ? spec->n : n_safe;
}

void psti_augment_axis_build(const struct psti_axis_spec *spec, void *memory,
                             struct psti_axis *axis)
{
    bool is_nearest = psti_augment_is_nearest(spec->side.interpolation);
    struct filter f = filter_make(&spec->side);
    size_t ints = psti_round_up((size_t)spec->n * 4, 64);
    uint32_t *start = memory, *taps = (uint32_t *)((char *)memory + ints);
    void *weights = (char *)memory + 2 * ints;
    uint32_t stride = stride_of(spec);
    axis->n = spec->n;
    axis->stride = stride;
    axis->start = start;
    axis->taps = taps;
    axis->weights = weights;
    axis->wide_weights = weights;
    if (!is_nearest)
        memset(weights, 0, (size_t)spec->n * stride * weight_nbytes(spec));
    if (!is_nearest && !f.cubic && !f.scaled && spec->bits == 8) {
        triangles(spec, &f, axis, start, taps, weights);
        find_safe(spec, axis, spec->flip);
        return;
    }
    axis->precision = is_nearest ? 0 : precision_of(&f, spec->bits);
    for (uint32_t j = 0; j < spec->n; j++) {
        uint32_t shown = spec->begin + (spec->flip ? spec->n - 1 - j : j);
        int64_t i = spec->mirror ? f.n_to - 1 - shown : shown;
        int64_t begin, end, centre = centre_of(&f, i);
        if (is_nearest) {
            begin = nearest(&spec->side, (uint32_t)i);
            end = begin + 1;
        } else {
            filter_range(&f, centre, &begin, &end);
            size_t at = (size_t)j * stride;
            if (spec->bits == 8)
                narrow_weights(&f, centre, begin, end, axis->precision, (int16_t *)weights + at,
                               spec->mirror);
            else
                wide_weights(&f, centre, begin, end, axis->precision, (int32_t *)weights + at,
                             spec->mirror);
        }
        int64_t first = spec->mirror ? f.n_from - end : begin;
        start[j] = (uint32_t)(first - spec->origin);
        taps[j] = (uint32_t)(end - begin);
    }
    find_safe(spec, axis, spec->flip);
}
