/* augment_picks.c - reorders the weights of an axis for kernels that compute a vector of outputs at
 * a time.
 *
 * In: a built axis. Out: struct psti_picks or struct psti_quads (augment_kernels.h). Any thread may
 * call these functions. The caller owns the memory. */
#include "augment/augment_int.h"

#include "base/bits.h"

enum {
    LANES = PSTI_PICK_LANES,
    LEAST_LANES = 6, /* with fewer lanes in use, filtering window by window is as fast */
    REACH = 128      /* most bytes that the windows of one vector may span */
};

static uint32_t most_steps(const struct psti_axis_spec *spec)
{
    return (psti_augment_axis_max_taps(spec) + 1) / 2;
}

static size_t n_vectors(size_t n_lanes, uint32_t lanes) { return (n_lanes + lanes - 1) / lanes; }

bool psti_augment_picks_suit(const struct psti_axis_spec *spec)
{
    return spec->bits == 8 && spec->channels > 0 &&
           !psti_augment_is_nearest(spec->side.interpolation) &&
           (uint64_t)psti_augment_axis_max_taps(spec) * spec->channels <= REACH;
}

size_t psti_augment_picks_nbytes(const struct psti_axis_spec *spec)
{
    return n_vectors((size_t)spec->n * spec->channels, LEAST_LANES) *
           (sizeof(struct psti_pick) + most_steps(spec) * sizeof(uint32_t) * LANES);
}

/* The range of bytes in a source row that the windows of the outputs first..last read. */
struct span {
    uint64_t begin, end;
};

static struct span span_of(const struct psti_axis *axis, uint32_t channels, uint32_t first,
                           uint32_t last)
{
    uint64_t begin = UINT64_MAX, end = 0;
    for (uint32_t i = first; i <= last; i++) {
        uint64_t start = axis->start[i], stop = start + axis->taps[i];
        begin = start < begin ? start : begin;
        end = stop > end ? stop : end;
    }
    return (struct span){begin * channels, end * channels};
}

/* Returns how many bytes the windows of one vector span, at most. */
static uint64_t widest_span(const struct psti_axis *axis, uint32_t channels, uint32_t lanes)
{
    uint32_t n_lanes = axis->n * channels;
    uint64_t widest = 0;
    for (uint32_t d = 0; d < n_lanes; d += lanes) {
        uint32_t last = (d + lanes < n_lanes ? d + lanes : n_lanes) - 1;
        struct span s = span_of(axis, channels, d / channels, last / channels);
        widest = s.end - s.begin > widest ? s.end - s.begin : widest;
    }
    return widest;
}

static uint64_t mask_of(uint64_t n) { return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1; }

/* Fills in the vector that computes the lanes first..last, counted over all vectors. */
static void make_vector(const struct psti_axis *axis, uint32_t channels, uint64_t row_nbytes,
                        uint32_t first, uint32_t last, struct psti_pick *to)
{
    struct span s = span_of(axis, channels, first / channels, last / channels);
    uint64_t left = row_nbytes - s.begin;
    uint32_t i = first / channels, c = first % channels;
    to->at = s.begin;
    to->masks[0] = mask_of(left);
    to->masks[1] = left > 64 ? mask_of(left - 64) : 0;
    memset(to->index, 0, sizeof to->index);
    for (uint32_t d = first; d <= last; d++) {
        uint32_t index = (uint32_t)(axis->start[i] * (uint64_t)channels + c - s.begin);
        to->index[d - first] = index | (index + channels) << 16;
        c++;
        i += c == channels;
        c = c == channels ? 0 : c;
    }
}

/* Returns the number of steps, each of two taps: half the taps of the longest window, rounded
 * up. */
static uint32_t steps_of(const struct psti_axis *axis)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < axis->n; i++)
        most = axis->taps[i] > most ? axis->taps[i] : most;
    return (most + 1) / 2;
}

/* Copies the weights of all outputs, two taps at a time, to the lane of each channel. Vectors have
 * `width` lanes, of which `lanes` are used. */
static void copy_weights(const struct psti_axis *axis, uint32_t channels, uint32_t lanes,
                         uint32_t width, uint32_t steps, uint32_t *words)
{
    uint32_t lane = 0;
    for (uint32_t i = 0; i < axis->n; i++) {
        const int16_t *weights = axis->weights + (size_t)i * axis->stride;
        for (uint32_t c = 0; c < channels; c++) {
            for (uint32_t k = 0; k < steps; k++)
                words[(size_t)k * width + lane] = psti_load_u32(weights + 2 * (size_t)k);
            if (++lane == lanes) {
                words += (size_t)steps * width;
                lane = 0;
            }
        }
    }
}

bool psti_augment_picks_build(const struct psti_axis_spec *spec, const struct psti_axis *axis,
                              void *memory, struct psti_picks *picks)
{
    uint32_t channels = spec->channels, lanes = LANES;
    uint64_t widest = widest_span(axis, channels, lanes);
    while (widest > REACH && lanes > LEAST_LANES)
        widest = widest_span(axis, channels, --lanes);
    if (widest > REACH)
        return false;
    size_t n_lanes = (size_t)axis->n * channels, n = n_vectors(n_lanes, lanes);
    uint64_t row_nbytes = (uint64_t)spec->n_source * channels;
    uint32_t steps = steps_of(axis);
    struct psti_pick *vectors = memory;
    uint32_t *words = (uint32_t *)(void *)(vectors + n);
    for (size_t v = 0; v < n; v++) {
        uint32_t first = (uint32_t)v * lanes, left = (uint32_t)n_lanes - first;
        uint32_t end = first + (left < lanes ? left : lanes);
        make_vector(axis, channels, row_nbytes, first, end - 1, &vectors[v]);
    }
    memset(words + (n - 1) * steps * LANES, 0, steps * sizeof(uint32_t) * LANES);
    copy_weights(axis, channels, lanes, LANES, steps, words);
    *picks = (struct psti_picks){.vectors = vectors,
                                 .weights = words,
                                 .n = (uint32_t)n,
                                 .lanes = lanes,
                                 .steps = steps,
                                 .precision = axis->precision,
                                 .step_nbytes = 2 * channels,
                                 .two = widest > 64};
    return true;
}

/* Quads
 * ---------------------------------------------------------------------------------------- */

enum { QUAD = 4, QUAD_REACH = 16 };

bool psti_augment_quads_suit(const struct psti_axis_spec *spec)
{
    return psti_augment_picks_suit(spec) &&
           (uint64_t)psti_augment_axis_max_taps(spec) * spec->channels <= QUAD_REACH &&
           (uint64_t)spec->n_source * spec->channels >= QUAD_REACH;
}

size_t psti_augment_quads_nbytes(const struct psti_axis_spec *spec)
{
    return n_vectors((size_t)spec->n * spec->channels, PSTI_QUAD_LANES) *
           (sizeof(struct psti_quads_vector) +
            most_steps(spec) * sizeof(uint32_t) * PSTI_QUAD_LANES);
}

/* Fills in a quad for the four lanes from `first` on, or fewer at the end. Returns false if their
 * windows do not lie within QUAD_REACH bytes. */
static bool make_quad(const struct psti_axis *axis, uint32_t channels, uint64_t row_nbytes,
                      uint32_t first, uint32_t index[QUAD], uint64_t *at)
{
    uint32_t n_lanes = axis->n * channels, i = first / channels, c = first - i * channels;
    uint32_t n = first >= n_lanes ? 0 : n_lanes - first < QUAD ? n_lanes - first : QUAD;
    *at = 0;
    for (uint32_t k = 0; k < QUAD; k++)
        index[k] = 0x80808080;
    if (n == 0)
        return true;
    struct span s = span_of(axis, channels, i, (first + n - 1) / channels);
    *at = s.begin < row_nbytes - QUAD_REACH ? s.begin : row_nbytes - QUAD_REACH;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t from = (uint32_t)(axis->start[i] * (uint64_t)channels + c - *at);
        index[k] = 0x80008000 | from | (from + channels) << 16;
        i += c + 1 == channels;
        c = c + 1 == channels ? 0 : c + 1;
    }
    return s.end - s.begin <= QUAD_REACH;
}

bool psti_augment_quads_build(const struct psti_axis_spec *spec, const struct psti_axis *axis,
                              void *memory, struct psti_quads *quads)
{
    uint32_t channels = spec->channels, steps = steps_of(axis);
    size_t n = n_vectors((size_t)axis->n * channels, PSTI_QUAD_LANES);
    struct psti_quads_vector *vectors = memory;
    uint32_t *words = (uint32_t *)(void *)(vectors + n);
    uint64_t row_nbytes = (uint64_t)spec->n_source * channels;
    for (size_t i = 0; i < 2 * n; i++)
        if (!make_quad(axis, channels, row_nbytes, (uint32_t)i * QUAD,
                       vectors[i / 2].index + i % 2 * QUAD, &vectors[i / 2].at[i % 2]))
            return false;
    memset(words + (n - 1) * steps * PSTI_QUAD_LANES, 0,
           steps * sizeof(uint32_t) * PSTI_QUAD_LANES);
    copy_weights(axis, channels, PSTI_QUAD_LANES, PSTI_QUAD_LANES, steps, words);
    *quads = (struct psti_quads){.vectors = vectors,
                                 .weights = words,
                                 .n = (uint32_t)n,
                                 .steps = steps,
                                 .precision = axis->precision,
                                 .step_nbytes = 2 * channels};
    return true;
}

uint64_t psti_augment_picks_most(uint64_t n, uint64_t channels, uint64_t taps)
{
    uint64_t n_lanes = n * channels, reach = REACH / channels;
    uint64_t steps = ((taps < reach ? taps : reach) + 1) / 2;
    uint64_t picks = (n_lanes + LEAST_LANES - 1) / LEAST_LANES *
                     (sizeof(struct psti_pick) + steps * sizeof(uint32_t) * LANES);
    uint64_t quads = (n_lanes + PSTI_QUAD_LANES - 1) / PSTI_QUAD_LANES *
                     (sizeof(struct psti_quads_vector) +
                      steps * sizeof(uint32_t) * PSTI_QUAD_LANES);
    return picks > quads ? picks : quads;
}
