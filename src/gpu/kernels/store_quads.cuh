/* store_quads.cuh - stores decoded pixels to a picture or to a slot, four pixels at a time.
 *
 * It does what sink_row() does, for the case of most batches: 8-bit samples that keep their
 * channels, stored along rows. A quad is four pixels, as one word of samples for each channel. A
 * lane turns a quad into whole vectors of the picture or slot (4, 8 or 16 bytes). Addresses are
 * computed once for a rectangle. Vectors are aligned, so a vector at the end of a row may belong in
 * part to other pixels. The elements of such a vector are stored one by one. */
#ifndef PST_GPU_STORE_QUADS_CUH
#define PST_GPU_STORE_QUADS_CUH

#include "gpu/kernels/store.cuh"

namespace psti
{

static const uint32_t QUAD_PX = 4;

/* Returns whether sink_quads() can store the pixels of this sink. */
PSTI_LANES bool sink_takes_quads(const struct psti_gpu_sink &sink,
                                 const struct psti_gpu_finish &finish)
{
    const bool planar = sink.finished && finish.is_chw;
    const uint32_t vector_nbytes = QUAD_PX * (sink.finished ? finish_nbytes(finish) : 1);
    if (sink.finished && (finish.dtype == PST_DTYPE_I32 || finish.dtype == PST_DTYPE_I64))
        return false;
    if (sink.bits != 8 || finish.bits != 8 || sink.channels != finish.channels ||
        sink_swaps(sink.orientation) || sink.at % vector_nbytes != 0)
        return false;
    /* Lanes count elements in 32 bits, so the area must be small enough. */
    const uint64_t area = (uint64_t)sink.region_height * sink.region_width;
    return area < 1u << 29 && (planar ? area % QUAD_PX == 0 : sink.channels != 2);
}

/* Interleaves three words, which each hold four pixels' samples of a channel, to the order of
 * pixels. */
PSTI_LANES void interleave_three(lane_u32 q[4])
{
    const lane_u32 r = q[0], g = q[1], b = q[2];
    q[0] = pick_bytes(pick_bytes(r, g, lane_u32(0x5140)), b, lane_u32(0x2410));
    q[1] = pick_bytes(pick_bytes(g, b, lane_u32(0x2051)), r, lane_u32(0x3610));
    q[2] = pick_bytes(pick_bytes(g, b, lane_u32(0x7306)), r, lane_u32(0x3270));
}
/* Interleaves four words, which each hold four pixels' samples of a channel. The function is its
 * own inverse. */
PSTI_LANES void interleave_four(lane_u32 q[4])
{
    const lane_u32 low01 = pick_bytes(q[0], q[1], lane_u32(0x5140));
    const lane_u32 high01 = pick_bytes(q[0], q[1], lane_u32(0x7362));
    const lane_u32 low23 = pick_bytes(q[2], q[3], lane_u32(0x5140));
    const lane_u32 high23 = pick_bytes(q[2], q[3], lane_u32(0x7362));
    q[0] = pick_bytes(low01, low23, lane_u32(0x5410));
    q[1] = pick_bytes(low01, low23, lane_u32(0x7632));
    q[2] = pick_bytes(high01, high23, lane_u32(0x5410));
    q[3] = pick_bytes(high01, high23, lane_u32(0x7632));
}

/* Scales byte i of `samples`, which belongs to channel c, like finish_f32(). The byte is put into
 * the low bits of the float 2^23, so no conversion is needed. */
PSTI_LANES lane_f32 finish_byte(const struct psti_gpu_finish &finish, lane_u32 samples, uint32_t i,
                                uint32_t c)
{
    lane_f32 v = float_of(pick_bytes(samples, lane_u32(0x4b000000), lane_u32(0x7440 | i)));
    v = add_f32(v, lane_f32(-8388608.0f));
    return add_f32(mul_f32(v, lane_f32(finish.scale[c])), lane_f32(finish.offset[c]));
}

/* Converts four samples to elements of the slot, of 1, 2 or 4 bytes each. `w` receives the slot's
 * words; c is the channel of the samples. */
PSTI_LANES void finish_quad(const struct psti_gpu_finish &finish, lane_u32 samples,
                            const uint32_t c[4], lane_u32 w[4])
{
    lane_f32 f[4];
    if (finish.dtype == PST_DTYPE_U8) {
        w[0] = samples;
        return;
    }
    if (finish.dtype == PST_DTYPE_U16) {
        const bool repeats = !finish.is_mask; /* 8 bits become 16 by a product with 257 */
        w[0] = pick_bytes(samples, lane_u32(0), lane_u32(repeats ? 0x1100 : 0x4140));
        w[1] = pick_bytes(samples, lane_u32(0), lane_u32(repeats ? 0x3322 : 0x4342));
        return;
    }
    PSTI_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        f[i] = finish_byte(finish, samples, i, c[i]);
    if (finish.dtype == PST_DTYPE_F32) {
        PSTI_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            w[i] = bits_of(f[i]);
    } else if (finish.dtype == PST_DTYPE_F16) {
        w[0] = f16_pair(f[0], f[1]);
        w[1] = f16_pair(f[2], f[3]);
    } else {
        w[0] = bf16_pair(f[0], f[1]);
        w[1] = bf16_pair(f[2], f[3]);
    }
}

/* Where the lanes store their quads (groups of four pixels). */
struct quad_target {
    uint64_t at;     /* address of the first quad of the rectangle */
    uint64_t plane;  /* bytes from channel to channel if planar */
    uint32_t nbytes; /* bytes of one element */
    bool finished;
    lane_u32 element;  /* index of the lane's first element, counted from `at` */
    lane_bool full;    /* lanes that store all four pixels */
    lane_bool partial; /* lanes that store only some of the four pixels: those in `has` */
    lane_bool has[QUAD_PX];
};

PSTI_LANES void put_vector(uint64_t at, uint32_t nbytes, lane_u32 element, const lane_u32 w[4],
                           lane_bool m)
{
    uint32_t *to = global_at<uint32_t>(at);
    if (nbytes == 1)
        store(to, element >> lane_u32(2), w[0], m);
    else if (nbytes == 2)
        store2(to, element >> lane_u32(1), w[0], w[1], m);
    else
        store4(to, element, w[0], w[1], w[2], w[3], m);
}

/* Returns element number i of a vector. */
PSTI_LANES lane_u32 vector_element(const lane_u32 w[4], uint32_t nbytes, uint32_t i)
{
    if (nbytes == 1)
        return w[0] >> lane_u32(8 * i) & lane_u32(255);
    if (nbytes == 2)
        return w[i / 2] >> lane_u32(16 * (i % 2)) & lane_u32(65535);
    return w[i];
}

/* Stores quads of pixels. `q` holds words of planes, or of interleaved pixels. A vector is the same
 * channel of four pixels, or four consecutive samples of pixels with `channels` channels. */
template <bool planar, uint32_t channels>
PSTI_LANES void put_quad(const quad_target &to, const struct psti_gpu_finish &finish,
                         const lane_u32 q[4])
{
    const bool has_partial = some(to.partial);
    const uint64_t step = made_anew(planar ? to.plane : (uint64_t)(4 * to.nbytes));
    uint64_t at = to.at;
    PSTI_UNROLL
    for (uint32_t v = 0; v < channels; v++) {
        uint32_t c[4];
        lane_u32 w[4];
        if (planar && v >= finish.channels)
            continue;
        PSTI_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            c[i] = planar ? v : (4 * v + i) % channels;
        if (to.finished)
            finish_quad(finish, q[v], c, w);
        else
            w[0] = q[v];
        if (v > 0)
            at += step;
        put_vector(at, to.nbytes, to.element, w, to.full);
        if (!has_partial)
            continue;
        PSTI_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            store_element(at, to.nbytes, to.element + lane_u32(i), vector_element(w, to.nbytes, i),
                          to.partial & to.has[planar ? i : (4 * v + i) / channels]);
    }
}

PSTI_LANES void put_quads_of(const quad_target &to, const struct psti_gpu_finish &finish,
                             bool planar, lane_u32 q[4])
{
    if (planar || finish.channels == 1) {
        put_quad<true, 4>(to, finish, q);
    } else if (finish.channels == 3) {
        interleave_three(q);
        put_quad<false, 3>(to, finish, q);
    } else {
        interleave_four(q);
        put_quad<false, 4>(to, finish, q);
    }
}

/* Loads four pixels of a row; each is a word. The row has n pixels and begins at `at`. */
PSTI_LANES void load_quad(shared<uint32_t> words, lane_u32 at, lane_i32 column, uint32_t n,
                          lane_u32 q[4])
{
    PSTI_UNROLL
    for (int32_t j = 0; j < 4; j++) {
        lane_i32 i = column + lane_i32(j);
        i = select(i < lane_i32((int32_t)n), i, lane_i32((int32_t)n - 1));
        q[j] = load(words, at + as_u32(select(i > lane_i32(0), i, lane_i32(0))));
    }
    interleave_four(q);
}

/* A rectangle of pixels to store: rows of the region, in rising or falling order, and columns. */
struct quad_area {
    sink_run run;
    uint32_t across, turn,
        least; /* row of the region for the first row, step to the next row, and lowest row */
    uint32_t n_rows, row_px, region_rows;
    uint32_t before;    /* pixels of the first quad that lie before the rectangle and belong to
                         * other pixels */
    uint32_t row_quads; /* quads of a row, at most */
    uint32_t step;      /* elements from one pixel to the next */
};

/* A part of the rectangle's quads: in each row the quads number first, first + step, ... */
struct quad_part {
    uint32_t per_row, first, step, reciprocal;
};
PSTI_LANES quad_part quad_part_of(uint32_t per_row, uint32_t first, uint32_t step)
{
    return quad_part{per_row, first, step, per_row > 0 ? 65536 / per_row + 1 : 0};
}

/* Gives each lane the quad of the part with number k. Returns their rows, and in `column` the
 * columns of their first pixels. */
PSTI_LANES lane_u32 quad_place(const quad_area &area, const quad_part &part, lane_u32 k,
                               quad_target &to, lane_i32 &column)
{
    lane_u32 row = k * lane_u32(part.reciprocal) >> lane_u32(16); /* k < 1200: exact */
    const lane_u32 number =
        (k - row * lane_u32(part.per_row)) * lane_u32(part.step) + lane_u32(part.first);
    row = min_u32(row, lane_u32(area.n_rows - 1));
    const lane_u32 region_row = lane_u32(area.across) + lane_u32(area.turn) * row;
    const lane_u32 px =
        (region_row - lane_u32(area.least)) * lane_u32(area.row_px) + lane_u32(area.before);
    /* First pixel of the quad, relative to the run. It may lie up to three pixels before the
     * run. */
    const lane_u32 d = number * lane_u32(QUAD_PX) - px % lane_u32(QUAD_PX);
    const lane_bool live =
        (k < lane_u32(area.n_rows * part.per_row)) & (region_row < lane_u32(area.region_rows));
    const uint32_t n = area.run.n;
    to.full = live & (d < lane_u32(n < QUAD_PX ? 0 : n - (QUAD_PX - 1)));
    to.partial = live & !to.full & (d + lane_u32(3) < lane_u32(n + 3));
    PSTI_UNROLL
    for (uint32_t j = 0; j < QUAD_PX; j++)
        to.has[j] = d + lane_u32(j) < lane_u32(n);
    to.element = (px + d) * lane_u32(area.step);
    const lane_i32 first = lane_i32((int32_t)area.run.first);
    column = area.run.backwards ? first - as_i32(d) - lane_i32(3) : first + as_i32(d);
    return row;
}

/* Stores n_rows x n_columns <= 64 x 64 pixels whose first one is (y, x). sink_takes_quads() must be
 * true. quad(row, column, q) must write the samples of four pixels of a row to q, one word for each
 * plane, with transforms undone. Row and column count from (y, x); `row` is below n_rows, `column`
 * is in -6..n_columns + 2. Results for columns outside the rectangle are discarded. */
template <class Quad>
PSTI_LANES void sink_quads(const struct psti_gpu_sink &sink, const struct psti_gpu_finish &finish,
                           uint32_t y, uint32_t x, uint32_t n_rows, uint32_t n_columns,
                           const Quad &quad)
{
    const bool planar = sink.finished && finish.is_chw;
    quad_area area;
    quad_target to;
    area.run = sink_along(sink, x, n_columns);
    if (area.run.n == 0 || n_rows == 0)
        return;
    area.n_rows = n_rows;
    area.row_px = sink.region_width;
    area.region_rows = sink.region_height;
    area.across = sink_across(sink, y);
    area.turn = sink_across(sink, y + 1) - area.across;
    area.least = area.turn == 1 ? area.across : area.across - (n_rows - 1);
    /* All lanes share the rectangle's offset, so 32 bits are enough for the rest of an address. */
    const int64_t first_px = (int64_t)(int32_t)area.least * area.row_px + (int64_t)area.run.at;
    area.before = (uint32_t)first_px % QUAD_PX;
    const uint32_t most_before = area.row_px % QUAD_PX == 0 ? area.before : QUAD_PX - 1;
    area.row_quads = (most_before + area.run.n + QUAD_PX - 1) / QUAD_PX;
    const put_target place =
        put_place(finish, sink.finished, sink.at, (uint64_t)area.region_rows * area.row_px, 0, 1);
    area.step = place.step;
    to.at = place.at + (uint64_t)((first_px - area.before) * (place.step * place.nbytes));
    to.plane = place.plane;
    to.nbytes = place.nbytes;
    to.finished = sink.finished;
    /* Quads that lie wholly inside come first, then the first and the last quad of each row. */
    const uint32_t n_inner = area.row_quads > 2 ? area.row_quads - 2 : 0;
    quad_part part = quad_part_of(n_inner, 1, 1);
    PSTI_LOOP
    for (uint32_t turn = 0; turn < 2; turn++) {
        PSTI_LOOP
        for (uint32_t i = 0; i < n_rows * part.per_row; i += PSTI_WARP) {
            lane_u32 q[4];
            lane_i32 column;
            const lane_u32 row = quad_place(area, part, lane_u32(i) + lane_id(), to, column);
            quad(row, column, q);
            if (area.run.backwards) {
                PSTI_UNROLL
                for (uint32_t c = 0; c < 4; c++)
                    q[c] = pick_bytes(q[c], q[c], lane_u32(0x0123));
            }
            put_quads_of(to, finish, planar, q);
        }
        part = quad_part_of(area.row_quads - n_inner, 0, area.row_quads - 1);
    }
}

} // namespace psti

#endif
