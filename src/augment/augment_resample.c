/* augment_resample.c - a separable resize, row by row.
 *
 * In: source rows in order. Out: resized rows. Each is passed to an emit function as soon as all
 * source rows that it needs have arrived. Each source row is filtered horizontally once, and the
 * result is kept in a ring buffer of rows. 8-bit samples are rounded to 8 bits there, as in PIL and
 * torch. Output rows are weighted sums of rows in the ring. Source rows that no output needs are
 * not read. It runs on the thread of the run. */
#include "augment/augment_int.h"

#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"

static uint32_t channels_of(const struct psti_run *run) { return run->chain->output.channels; }
static uint32_t bits_of(const struct psti_run *run) { return run->chain->output.bits; }

/* Finds the tail of a source row: from the first pixel that an unsafe output reads to the end of
 * the row. Unsafe outputs are those whose vector loads would reach beyond the row, so tail_x
 * filters a padded copy of the tail. */
static void find_tail(struct psti_resample *r, uint32_t n_source)
{
    uint32_t begin = n_source;
    for (uint32_t i = 0; i < r->x.n; i++) {
        bool safe = i >= r->x.safe_begin && i < r->x.safe_end;
        if (!safe && r->x.start[i] < begin)
            begin = r->x.start[i];
    }
    r->tail_begin = begin;
    r->tail_pixels = n_source - begin;
}

/* Chooses the best available kernel for axis x, sets x_way, and reorders the weights for that
 * kernel. The reordered weights begin `at` bytes from the start of the buffer. */
static void order_x(struct psti_run *run, const struct psti_axis_spec *spec, size_t at)
{
    struct psti_resample *r = &run->resample;
    const struct psti_augment_ops *kernels = run->chain->kernels;
    void *memory = run->buffers[PSTI_BUFFER_AXIS_X].data + at;
    r->x_way = PSTI_X_WINDOWS;
    if (kernels->pick_x != NULL && psti_augment_picks_suit(spec) &&
        psti_augment_picks_build(spec, &r->x, memory, &r->picks)) {
        r->x_way = PSTI_X_PICKS;
    } else if (kernels->quad_x != NULL && psti_augment_quads_suit(spec) &&
               psti_augment_quads_build(spec, &r->x, memory, &r->quads)) {
        r->x_way = PSTI_X_QUADS;
    } else if (spec->sweeps) {
        psti_augment_sweep_build(spec, &r->x, memory, &r->sweep);
        r->x_way = PSTI_X_SWEEP;
    }
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static enum pst_status begin_x(struct psti_run *run, const struct psti_axis_spec *wanted,
                               struct pst_error *err)
{
    struct psti_resample *r = &run->resample;
    const struct psti_augment_ops *kernels = run->chain->kernels;
    struct psti_axis_spec spec = *wanted;
    spec.sweeps = kernels->sweep_x[channels_of(run)] != NULL && psti_augment_sweep_suits(&spec);
    size_t axis_nbytes = psti_round_up(psti_augment_axis_nbytes(&spec), 64);
    size_t nbytes = spec.sweeps ? psti_augment_sweep_nbytes(&spec) : 0;
    if (kernels->pick_x != NULL && psti_augment_picks_suit(&spec))
        nbytes = larger(nbytes, psti_augment_picks_nbytes(&spec));
    if (kernels->quad_x != NULL && psti_augment_quads_suit(&spec))
        nbytes = larger(nbytes, psti_augment_quads_nbytes(&spec));
    enum pst_status status =
        psti_augment_run_reserve(run, PSTI_BUFFER_AXIS_X, axis_nbytes + nbytes, err);
    if (status != PST_OK)
        return status;
    psti_augment_axis_build(&spec, run->buffers[PSTI_BUFFER_AXIS_X].data, &r->x);
    if (psti_augment_is_nearest(spec.side.interpolation)) {
        r->x_way = PSTI_X_NEAREST;
        return PST_OK;
    }
    if (bits_of(run) != 8) {
        r->x_way = PSTI_X_WIDE;
        return PST_OK;
    }
    order_x(run, &spec, axis_nbytes);
    if (r->x_way == PSTI_X_PICKS || r->x_way == PSTI_X_QUADS)
        return PST_OK;
    find_tail(r, spec.n_source);
    r->tail_row_nbytes = ((size_t)r->tail_pixels + r->x.stride) * channels_of(run) + PSTI_SLACK;
    return psti_augment_run_reserve(run, PSTI_BUFFER_TAIL, PSTI_MAX_LANES * r->tail_row_nbytes,
                                    err);
}

static enum pst_status begin_y(struct psti_run *run, const struct psti_axis_spec *spec,
                               struct pst_error *err)
{
    struct psti_resample *r = &run->resample;
    size_t axis_nbytes = psti_round_up(psti_augment_axis_nbytes(spec), 64);
    size_t pointers = (psti_augment_axis_max_taps(spec) + (size_t)1) * sizeof(void *);
    enum pst_status status =
        psti_augment_run_reserve(run, PSTI_BUFFER_AXIS_Y, axis_nbytes + pointers, err);
    if (status != PST_OK)
        return status;
    unsigned char *memory = run->buffers[PSTI_BUFFER_AXIS_Y].data;
    psti_augment_axis_build(spec, memory, &r->y);
    r->row_pointers = (const void **)(void *)(memory + axis_nbytes);
    return PST_OK;
}

enum pst_status psti_augment_resample_begin(struct psti_run *run, const struct psti_axis_spec *x,
                                            const struct psti_axis_spec *y, psti_emit emit,
                                            struct pst_error *err)
{
    struct psti_resample *r = &run->resample;
    r->n_in = y->n_source;
    r->next_in = 0;
    r->next_out = 0;
    r->emit = emit;
    r->place = NULL;
    r->x.n = x->n;
    r->x_way = PSTI_X_NONE;
    enum pst_status status = x->side.n_from != x->side.n_to ? begin_x(run, x, err) : PST_OK;
    if (status == PST_OK)
        status = begin_y(run, y, err);
    if (status != PST_OK)
        return status;
    r->ring_rows = 1;
    while (r->ring_rows < psti_augment_axis_max_taps(y) + PSTI_MAX_LANES)
        r->ring_rows *= 2;
    r->ring_row_nbytes = psti_round_up((size_t)x->n * run->pixel_nbytes + PSTI_SLACK, 64);
    /* The ring has one row more, for the output of kernel lanes that have no source row. */
    size_t nbytes;
    if (!psti_mul_size((size_t)r->ring_rows + 1, r->ring_row_nbytes, &nbytes))
        return psti_fail(err, PST_ERROR_LIMIT, "augment", "the resize needs too much memory");
    status = psti_augment_run_reserve(run, PSTI_BUFFER_RING, nbytes, err);
    if (status == PST_OK) {
        status = psti_augment_run_reserve(
            run, PSTI_BUFFER_ROW, psti_round_up((size_t)x->n * run->pixel_nbytes, 64) + PSTI_SLACK,
            err);
    }
    return status;
}

static unsigned char *ring_row(const struct psti_run *run, uint32_t i)
{
    const struct psti_resample *r = &run->resample;
    return run->buffers[PSTI_BUFFER_RING].data +
           (size_t)(i & (r->ring_rows - 1)) * r->ring_row_nbytes;
}

/* Horizontal pass
 * ------------------------------------------------------------------------------------- */

static void nearest_x(void *to, const void *from, const struct psti_axis *axis, uint32_t nbytes)
{
    unsigned char *out = to;
    const unsigned char *in = from;
    for (uint32_t i = 0; i < axis->n; i++) {
        const unsigned char *pixel = in + (size_t)axis->start[i] * nbytes;
        for (uint32_t b = 0; b < nbytes; b++)
            out[b] = pixel[b];
        out += nbytes;
    }
}

static uint16_t clamp_u16(int64_t value)
{
    return (uint16_t)(value < 0 ? 0 : value > 65535 ? 65535 : value);
}

static void wide_x(void *to, const unsigned char *from, const struct psti_axis *axis,
                   uint32_t channels)
{
    uint16_t *out = to;
    for (uint32_t i = 0; i < axis->n; i++) {
        const int32_t *weights = axis->wide_weights + (size_t)i * axis->stride;
        const unsigned char *pixel = from + (size_t)axis->start[i] * channels * 2;
        for (uint32_t c = 0; c < channels; c++) {
            int64_t sum = (int64_t)1 << (axis->precision - 1);
            for (uint32_t k = 0; k < axis->taps[i]; k++)
                sum += (int64_t)weights[k] * psti_load_u16(pixel + 2 * ((size_t)k * channels + c));
            *out++ = clamp_u16(sum >> axis->precision);
        }
    }
}

/* Computes the unsafe outputs [begin, end) from padded copies of the rows' tails. */
static void tail_x(struct psti_run *run, uint8_t *const *to, const uint8_t *const *from,
                   uint32_t lanes, uint32_t begin, uint32_t end)
{
    struct psti_resample *r = &run->resample;
    uint32_t channels = channels_of(run);
    const uint8_t *tails[PSTI_MAX_LANES];
    size_t used = (size_t)r->tail_pixels * channels;
    for (uint32_t lane = 0; lane < lanes; lane++) {
        uint8_t *tail = run->buffers[PSTI_BUFFER_TAIL].data + lane * r->tail_row_nbytes;
        memcpy(tail, from[lane] + (size_t)r->tail_begin * channels, used);
        memset(tail + used, 0, r->tail_row_nbytes - used);
        tails[lane] = tail;
    }
    run->chain->kernels->resize_x[channels](to, tails, &r->x, begin, end, r->tail_begin);
}

static void narrow_x(struct psti_run *run, uint8_t *const *to, const uint8_t *const *from,
                     uint32_t lanes)
{
    struct psti_resample *r = &run->resample;
    const struct psti_axis *x = &r->x;
    psti_resize_x *kernel = run->chain->kernels->resize_x[channels_of(run)];
    if (x->safe_begin > 0)
        tail_x(run, to, from, lanes, 0, x->safe_begin);
    uint32_t next = x->safe_begin;
    if (r->x_way == PSTI_X_SWEEP) {
        run->chain->kernels->sweep_x[channels_of(run)](to, from, x, &r->sweep);
        next = r->sweep.end;
    }
    if (x->safe_end > next)
        kernel(to, from, x, next, x->safe_end, 0);
    if (x->safe_end < x->n)
        tail_x(run, to, from, lanes, x->safe_end, x->n);
}

/* Filters the next `n` source rows into the ring. n is at most the number of rows that the kernel
 * takes. */
static void rows_to_ring(struct psti_run *run, const unsigned char *rows, size_t row_nbytes,
                         uint32_t n, uint32_t lanes)
{
    struct psti_resample *r = &run->resample;
    uint32_t channels = channels_of(run);
    uint8_t *to[PSTI_MAX_LANES];
    const uint8_t *from[PSTI_MAX_LANES];
    for (uint32_t lane = 0; lane < lanes; lane++) {
        bool has_row = lane < n;
        from[lane] = rows + (has_row ? lane : 0) * row_nbytes;
        to[lane] = has_row
                       ? ring_row(run, r->next_in + lane)
                       : run->buffers[PSTI_BUFFER_RING].data + r->ring_rows * r->ring_row_nbytes;
    }
    switch (r->x_way) {
    case PSTI_X_NONE:
        memcpy(to[0], from[0], (size_t)r->x.n * run->pixel_nbytes);
        return;
    case PSTI_X_NEAREST:
        nearest_x(to[0], from[0], &r->x, run->pixel_nbytes);
        return;
    case PSTI_X_WIDE:
        wide_x(to[0], from[0], &r->x, channels);
        return;
    case PSTI_X_PICKS:
        run->chain->kernels->pick_x(to, from, &r->picks);
        return;
    case PSTI_X_QUADS:
        run->chain->kernels->quad_x(to, from, &r->quads);
        return;
    default:
        narrow_x(run, to, from, lanes);
    }
}

/* Vertical pass
 * --------------------------------------------------------------------------------------- */

static void wide_y(void *to, const void *const *rows, const int32_t *weights, uint32_t taps,
                   uint32_t precision, size_t n)
{
    uint16_t *out = to;
    for (size_t i = 0; i < n; i++) {
        int64_t sum = (int64_t)1 << (precision - 1);
        for (uint32_t k = 0; k < taps; k++)
            sum += (int64_t)weights[k] * ((const uint16_t *)rows[k])[i];
        out[i] = clamp_u16(sum >> precision);
    }
}

static void emit_row(struct psti_run *run, uint32_t i)
{
    struct psti_resample *r = &run->resample;
    uint32_t start = r->y.start[i], taps = r->y.taps[i];
    if (taps == 1) {
        r->emit(run, i, ring_row(run, start));
        return;
    }
    for (uint32_t k = 0; k < taps; k++)
        r->row_pointers[k] = ring_row(run, start + k);
    r->row_pointers[taps] = r->row_pointers[taps - 1];
    unsigned char *to = r->place != NULL ? r->place(run, i) : run->buffers[PSTI_BUFFER_ROW].data;
    size_t n = (size_t)r->x.n * channels_of(run), at = (size_t)i * r->y.stride;
    if (bits_of(run) == 16) {
        wide_y(to, r->row_pointers, r->y.wide_weights + at, taps, r->y.precision, n);
    } else {
        run->chain->kernels->resize_y(to, (const uint8_t *const *)r->row_pointers,
                                      r->y.weights + at, (taps + 1) & ~1u, r->y.precision, n);
    }
    if (r->place == NULL)
        r->emit(run, i, to);
}

/* Returns how many rows the horizontal kernel takes at once. */
static uint32_t lanes_of(const struct psti_run *run)
{
    switch (run->resample.x_way) {
    case PSTI_X_WINDOWS:
    case PSTI_X_SWEEP:
        return run->chain->kernels->lanes[channels_of(run)];
    case PSTI_X_PICKS:
    case PSTI_X_QUADS:
        return PSTI_MAX_LANES;
    default:
        return 1;
    }
}

void psti_augment_resample_rows(struct psti_run *run, const unsigned char *rows, size_t row_nbytes,
                                uint32_t n_rows)
{
    struct psti_resample *r = &run->resample;
    uint32_t lanes = lanes_of(run);
    while (n_rows > 0) {
        uint32_t n = n_rows < lanes ? n_rows : lanes;
        uint32_t needed = r->next_out < r->y.n ? r->y.start[r->next_out] : r->n_in;
        if (r->next_in < needed)
            n = n_rows < needed - r->next_in ? n_rows : needed - r->next_in;
        else
            rows_to_ring(run, rows, row_nbytes, n, lanes);
        r->next_in += n;
        rows += n * row_nbytes;
        n_rows -= n;
        while (r->next_out < r->y.n &&
               r->y.start[r->next_out] + r->y.taps[r->next_out] <= r->next_in) {
            emit_row(run, r->next_out);
            r->next_out++;
        }
    }
}
