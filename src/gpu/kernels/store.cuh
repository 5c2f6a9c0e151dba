/* store.cuh - stores decoded pixels to a picture or to a slot.
 *
 * A warp delivers a run of pixels of one stored row. The part in the sink's region becomes a run in
 * the picture or slot, in the order of addresses there. Orientation and flips can reverse the run
 * or make it a column. Channels and bits are converted as decode/decode_convert.c does. Finished
 * pixels are, to the bit, those that augment/augment_store.c makes. */
#ifndef PST_GPU_STORE_CUH
#define PST_GPU_STORE_CUH

#include <penstock/image.h>

#include "gpu/kernels/warp.cuh"
#include "gpu/work/gpu_store.h"

namespace psti
{

/* A run of pixels in the order of their destination. Its pixel d is pixel first + d of the
 * delivered run, or first - d if it goes backwards. */
struct sink_run {
    uint32_t n;
    uint32_t first;
    bool backwards;
    uint64_t at;   /* index, in the picture or slot, of the run's pixel 0 */
    uint32_t step; /* distance in pixels between neighbouring pixels of the run there */
};

PSTI_LANES int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
PSTI_LANES int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* Returns whether the orientation swaps the axes (5 to 8). An orientation is a transposition
 * followed by mirroring of stored axes (decode/decode_turn.c). */
PSTI_LANES bool sink_swaps(uint32_t o) { return o >= 5; }
/* Returns whether the orientation mirrors the x axis: 2, 3, 7 and 8 do. */
PSTI_LANES bool sink_mirrors_x(uint32_t o) { return (0x18cu >> o & 1) != 0; }
/* Returns whether the orientation mirrors the y axis: 3, 4, 6 and 7 do. */
PSTI_LANES bool sink_mirrors_y(uint32_t o) { return (0x0d8u >> o & 1) != 0; }

/* Returns the row of the region that stored row y becomes (the column if the axes are swapped). The
 * result may lie outside the region. */
PSTI_LANES uint32_t sink_across(const struct psti_gpu_sink &sink, uint32_t y)
{
    const bool swaps = sink_swaps(sink.orientation);
    const uint32_t n = swaps ? sink.region_width : sink.region_height;
    uint32_t across = sink_mirrors_y(sink.orientation) ? sink.height - 1 - y : y;
    across -= swaps ? sink.region_x : sink.region_y;
    if (sink.finished && (swaps ? sink.flip_x : sink.flip_y))
        across = n - 1 - across;
    return across;
}

/* Places pixels x..x + n - 1 of a stored row along the region's axis. run.n is 0 if none of them
 * lies in the region. */
PSTI_LANES sink_run sink_along(const struct psti_gpu_sink &sink, uint32_t x, uint32_t n)
{
    bool swaps = sink_swaps(sink.orientation), mirrors = sink_mirrors_x(sink.orientation);
    int32_t along_n = (int32_t)(swaps ? sink.region_height : sink.region_width);
    int32_t along_from = (int32_t)(swaps ? sink.region_y : sink.region_x);
    /* Before flips, pixel i is at position place + i of the region, or place - i if mirrored. */
    int32_t place = (mirrors ? sink.width - 1 - (int32_t)x : (int32_t)x) - along_from;
    int32_t begin = most(0, mirrors ? place - along_n + 1 : -place);
    int32_t end = least((int32_t)n, mirrors ? place + 1 : along_n - place);
    sink_run run = {0, 0, false, 0, 1};
    if (begin >= end)
        return run;
    run.n = (uint32_t)(end - begin);
    run.backwards = mirrors;
    /* Least coordinate of the run within the region. */
    int32_t low = mirrors ? place - (end - 1) : place + begin;
    if (sink.finished && (swaps ? sink.flip_y : sink.flip_x)) {
        run.backwards = !run.backwards;
        low = along_n - low - (int32_t)run.n;
    }
    run.first = (uint32_t)(run.backwards ? end - 1 : begin);
    run.at = (uint32_t)low;
    return run;
}

/* Places pixels x..x + n - 1 of stored row y. run.n is 0 if none of them lies in the region. */
PSTI_LANES sink_run sink_place(const struct psti_gpu_sink &sink, uint32_t y, uint32_t x, uint32_t n)
{
    const bool swaps = sink_swaps(sink.orientation);
    const uint32_t across = sink_across(sink, y);
    sink_run run = sink_along(sink, x, n);
    if (across >= (swaps ? sink.region_width : sink.region_height))
        run.n = 0;
    run.step = swaps ? sink.region_width : 1;
    run.at =
        swaps ? run.at * sink.region_width + across : (uint64_t)across * sink.region_width + run.at;
    return run;
}

PSTI_LANES lane_u32 luma_of(const lane_u32 v[4])
{
    return (v[0] * lane_u32(19595) + v[1] * lane_u32(38470) + v[2] * lane_u32(7471) +
            lane_u32(0x8000)) >>
           lane_u32(16);
}

/* Converts one pixel per lane: first its number of channels, at the input's bit depth, then the bit
 * depth. */
PSTI_LANES void convert_pixel(lane_u32 v[4], uint32_t n_in, uint32_t bits_in, uint32_t n_out,
                              uint32_t bits_out)
{
    if (n_in != n_out) {
        lane_u32 opaque = lane_u32(bits_in == 8 ? 255 : 65535);
        if (n_out == 1) {
            if (n_in > 2)
                v[0] = luma_of(v);
        } else if (n_in <= 2) {
            v[3] = n_in == 2 ? v[1] : opaque;
            v[1] = v[2] = v[0];
        } else if (n_out == 4) {
            v[3] = opaque;
        }
    }
    if (bits_in == bits_out)
        return;
    PSTI_UNROLL
    for (uint32_t c = 0; c < 4; c++) {
        if (c < n_out)
            v[c] = bits_in == 8 ? v[c] * lane_u32(257)
                                : (v[c] * lane_u32(255) + lane_u32(32895)) >> lane_u32(16);
    }
}

/* Returns one finished sample per lane: value * scale is rounded, then + offset is rounded. */
PSTI_LANES lane_f32 finish_f32(const struct psti_gpu_finish &finish, lane_u32 v, uint32_t c)
{
    return add_f32(mul_f32(to_f32(v), lane_f32(finish.scale[c])), lane_f32(finish.offset[c]));
}

/* Returns one sample per lane, converted to the slot's integer dtype. */
PSTI_LANES lane_u32 finish_integer(const struct psti_gpu_finish &finish, lane_u32 v)
{
    if (finish.dtype == PST_DTYPE_U16 && finish.bits == 8 && !finish.is_mask)
        return v * lane_u32(257);
    if (finish.dtype == PST_DTYPE_U8 && finish.bits == 16)
        return (v * lane_u32(255) + lane_u32(32895)) >> lane_u32(16);
    return v;
}

/* Returns the bits of the slot's element for one sample per lane. */
PSTI_LANES lane_u32 finish_sample(const struct psti_gpu_finish &finish, lane_u32 v, uint32_t c)
{
    switch (finish.dtype) {
    case PST_DTYPE_F32:
        return bits_of(finish_f32(finish, v, c));
    case PST_DTYPE_F16:
        return f16_bits(finish_f32(finish, v, c));
    case PST_DTYPE_BF16:
        return bf16_bits(finish_f32(finish, v, c));
    default:
        return finish_integer(finish, v);
    }
}

PSTI_LANES uint32_t finish_nbytes(const struct psti_gpu_finish &finish)
{
    switch (finish.dtype) {
    case PST_DTYPE_U8:
        return 1;
    case PST_DTYPE_I32:
    case PST_DTYPE_F32:
        return 4;
    case PST_DTYPE_I64:
        return 8;
    default:
        return 2;
    }
}

/* Stores one element of 1, 2, 4 or 8 bytes per lane. Elements of 8 bytes hold 32-bit numbers that
 * are not negative. */
PSTI_LANES void store_element(uint64_t at, uint32_t nbytes, lane_u32 i, lane_u32 bits,
                              lane_bool live)
{
    if (nbytes == 1)
        store(global_at<uint8_t>(at), i, bits, live);
    else if (nbytes == 2)
        store(global_at<uint16_t>(at), i, bits, live);
    else if (nbytes == 4)
        store(global_at<uint32_t>(at), i, bits, live);
    else
        store2(global_at<uint32_t>(at), i * lane_u32(2), bits, lane_u32(0), live);
}

/* Where the pixels of a run are stored. */
struct put_target {
    uint64_t at;     /* address of the first pixel of the run */
    uint64_t plane;  /* bytes from one channel to the next */
    uint32_t step;   /* elements from pixel to pixel */
    uint32_t nbytes; /* bytes of one element */
    bool finished;
};

/* Returns where a run is stored: in a picture, or in a slot if `finished`, of `area` pixels. The
 * run begins at pixel `first`, and its pixels are `step` apart. */
PSTI_LANES put_target put_place(const struct psti_gpu_finish &finish, bool finished, uint64_t at,
                                uint64_t area, uint64_t first, uint32_t step)
{
    bool planar = finished && finish.is_chw;
    put_target to;
    to.finished = finished;
    to.nbytes = finished ? finish_nbytes(finish) : finish.bits / 8u;
    to.plane = (planar ? area : 1) * to.nbytes;
    to.step = step * (planar ? 1 : finish.channels);
    to.at = at + first * (planar ? 1 : finish.channels) * to.nbytes;
    return to;
}

/* Stores 32 pixels of three elements, one pixel per lane, as consecutive words. Each lane gives its
 * elements to the lanes that store them. `at` is aligned to 4. */
PSTI_LANES void put_triples_1(uint64_t at, const lane_u32 e[4])
{
    lane_u32 l = lane_id(), third = l / lane_u32(3), from = l + third;
    lane_u32 all = e[0] | (e[1] << lane_u32(8)) | (e[2] << lane_u32(16));
    lane_u32 p = shuffle(all, from), q = shuffle(all, from + lane_u32(1));
    lane_u32 word = funnel_right(p | (q << lane_u32(24)), q >> lane_u32(8),
                                 (l - third * lane_u32(3)) * lane_u32(8));
    store(global_at<uint32_t>(at), l, word, l < lane_u32(24));
}
PSTI_LANES void put_triples_2(uint64_t at, const lane_u32 e[4])
{
    lane_u32 low = e[0] | (e[1] << lane_u32(16)), high = e[2];
    PSTI_UNROLL
    for (uint32_t t = 0; t < 2; t++) {
        /* Two pixels make three words: l0 l0, h0 l1, l1 h1. */
        lane_u32 w = lane_id() + lane_u32(t * PSTI_WARP), third = w / lane_u32(3);
        lane_u32 turn = w - third * lane_u32(3), even = third * lane_u32(2);
        lane_u32 a = shuffle(low, even + as_u32(turn != lane_u32(0)));
        lane_u32 b = shuffle(high, even + as_u32(turn == lane_u32(2)));
        lane_u32 word =
            select(turn == lane_u32(0), a,
                   select(turn == lane_u32(1), pick_bytes(b, a, 0x5410), pick_bytes(a, b, 0x5432)));
        store(global_at<uint32_t>(at), w, word, w < lane_u32(48));
    }
}
PSTI_LANES void put_triples_4(uint64_t at, const lane_u32 e[4])
{
    /* Word 32 t + l is element k = (l + 2 t) % 3 of a pixel. So each lane stores one element of
     * each k. */
    lane_u32 l = lane_id(), turn = l - l / lane_u32(3) * lane_u32(3), got[3];
    PSTI_UNROLL
    for (uint32_t k = 0; k < 3; k++) {
        lane_u32 t = lane_u32(2 * (k + 3)) - lane_u32(2) * turn; /* computed modulo 3 */
        t = t - t / lane_u32(3) * lane_u32(3);
        got[k] = shuffle(e[k], (lane_u32(PSTI_WARP) * t + l - lane_u32(k)) / lane_u32(3));
    }
    PSTI_UNROLL
    for (uint32_t t = 0; t < 3; t++) {
        lane_bool first = turn == lane_u32(t == 0 ? 0 : t == 1 ? 1 : 2);
        lane_bool second = turn == lane_u32(t == 0 ? 1 : t == 1 ? 2 : 0);
        store(global_at<uint32_t>(at), l + lane_u32(t * PSTI_WARP),
              select(first, got[0], select(second, got[1], got[2])));
    }
}

/* Stores consecutive pixels of four elements, one vector per lane. */
PSTI_LANES void put_quads(uint64_t at, uint32_t nbytes, lane_u32 d, const lane_u32 e[4],
                          lane_bool live)
{
    uint32_t *to = global_at<uint32_t>(at);
    if (nbytes == 4) {
        store4(to, d * lane_u32(4), e[0], e[1], e[2], e[3], live);
    } else if (nbytes == 2) {
        store2(to, d * lane_u32(2), e[0] | (e[1] << lane_u32(16)), e[2] | (e[3] << lane_u32(16)),
               live);
    } else {
        lane_u32 low = e[0] | (e[1] << lane_u32(8)), high = e[2] | (e[3] << lane_u32(8));
        store(to, d, low | (high << lane_u32(16)), live);
    }
}

/* Stores pixels d0..d0 + 31 of a run, one per lane, with the field's channels and bits. */
PSTI_LANES void put_pixels(const put_target &to, const struct psti_gpu_finish &finish, uint32_t d0,
                           const lane_u32 v[4], lane_bool live)
{
    lane_u32 e[4];
    PSTI_UNROLL
    for (uint32_t c = 0; c < 4; c++) {
        if (c < finish.channels)
            e[c] = to.finished ? finish_sample(finish, v[c], c) : v[c];
    }
    const uint64_t at = to.at + (uint64_t)d0 * to.step * to.nbytes;
    bool side_by_side = to.step == finish.channels && to.plane == to.nbytes;
    if (side_by_side && finish.channels == 3 && at % 4 == 0 && every(live)) {
        if (to.nbytes == 1)
            put_triples_1(at, e);
        else if (to.nbytes == 2)
            put_triples_2(at, e);
        else
            put_triples_4(at, e);
    } else if (side_by_side && finish.channels == 4 && at % (4 * to.nbytes) == 0) {
        put_quads(at, to.nbytes, lane_id(), e, live);
    } else {
        PSTI_UNROLL
        for (uint32_t c = 0; c < 4; c++) {
            if (c < finish.channels)
                store_element(at + c * to.plane, to.nbytes, lane_id() * lane_u32(to.step), e[c],
                              live);
        }
    }
}

/* Stores n <= 64 pixels of row y of the stored image, from column x on, in the sink's picture or
 * slot. pixel(lane_u32 i, uint32_t c) returns sample c of pixel x + i as lane_u32, with transforms
 * undone and in the full range of the image's bits. It is called for i < n only; lanes without a
 * pixel of their own repeat some i < n. The picture or slot is aligned to its elements. */
template <class Pixel>
PSTI_LANES void sink_row(const struct psti_gpu_sink &sink, const struct psti_gpu_finish &finish,
                         uint32_t y, uint32_t x, uint32_t n, const Pixel &pixel)
{
    const sink_run run = sink_place(sink, y, x, n);
    const put_target to =
        put_place(finish, sink.finished, sink.at, (uint64_t)sink.region_height * sink.region_width,
                  run.at, run.step);
    for (uint32_t d0 = 0; d0 < run.n; d0 += PSTI_WARP) {
        lane_u32 d = lane_u32(d0) + lane_id();
        lane_bool live = d < lane_u32(run.n);
        d = select(live, d, lane_u32(0));
        lane_u32 i = run.backwards ? lane_u32(run.first) - d : lane_u32(run.first) + d;
        lane_u32 v[4];
        PSTI_UNROLL
        for (uint32_t c = 0; c < 4; c++) {
            if (c < sink.channels)
                v[c] = pixel(i, c);
        }
        convert_pixel(v, sink.channels, sink.bits, finish.channels, finish.bits);
        put_pixels(to, finish, d0, v, live);
    }
}

} // namespace psti

#endif
