/* pli_wave.cuh - decodes a unit of mode wave (format-pli.md 5), one warp per unit. The lanes of the
 * warp are the 32 lanes of section 5.5.
 *
 * There are three passes over the samples. Between passes the samples are in shared memory, one row
 * of 32 for each step, in the order of section 5.5. The first pass decodes tokens; with 8 bits, a
 * token covers two rows. Shuffles bring the activities of the lanes above. The second pass reads
 * signs and raw bits, whose positions are known only after all tokens. The third pass predicts all
 * planes of a position at once, and leaves finished samples. After that, rows of samples go to the
 * sink. The order of steps is a closed cylinder: the unit's last 62 steps use the memory of its
 * first rows.
 *
 * Rows are arranged so that the 32 lanes of a step lie in different banks of shared memory, and so
 * do 32 steps of a lane; see wave_row(). */
#ifndef PST_GPU_PLI_WAVE_CUH
#define PST_GPU_PLI_WAVE_CUH

#include "gpu/kernels/pli_wave_pairs.cuh"
#include "gpu/kernels/pli_wave_predict.cuh"
#include "gpu/kernels/pli_wave_tokens.cuh"
#include "gpu/kernels/store_quads.cuh"

namespace psti
{

/* Rows
 * ------------------------------------------------------------------------------------- */

/* Returns the shared memory addresses of the samples in row y and columns x, for the first coded
 * plane. */
template <int bits> PSTI_LANES lane_u32 wave_pixel(uint32_t y, lane_u32 x)
{
    const uint32_t lane = y & 31, first = WAVE_EDGE * (y >> 5) + 2 * lane;
    return wave_rows<bits>(lane_u32(first) + x) ^ lane_u32(lane * wave_layout<bits>::sample_nbytes);
}

/* A sample of another plane lies `coded` * `bands` bands after the first coded plane's sample,
 * modulo the rows of the unit. */
template <int bits>
PSTI_LANES lane_u32 wave_plane_sample(const wave_unit &u, uint32_t plane, lane_u32 place)
{
    const uint32_t coded = u.coded_of >> 4 * plane & 15;
    const uint32_t end = u.n_rows * wave_layout<bits>::row_nbytes;
    if (coded == WAVE_CONSTANT)
        return lane_u32((uint32_t)(u.constants >> 16 * plane) & 0xffff);
    place = place + lane_u32(coded * u.bands * (WAVE_EDGE * wave_layout<bits>::row_nbytes));
    place = select(place < lane_u32(end), place, place - lane_u32(end));
    if (bits == 8)
        return load_at<uint8_t>(u.samples, place);
    return load_at<uint16_t>(u.samples, place);
}

/* Returns sample c of each lane's pixel, with the colour transform and the quantisation to levels
 * undone (format-pli.md 2). */
template <int bits>
PSTI_LANES lane_u32 wave_sample(const wave_unit &u, uint32_t max_error, lane_u32 place, uint32_t c)
{
    const lane_u32 largest = lane_u32((1u << bits) - 1);
    uint32_t plane = u.transform != 0 && c < 2 ? 1 - c : c;
    lane_u32 v = wave_plane_sample<bits>(u, plane, place);
    if (u.transform != 0 && (plane == 1 || plane == 2))
        v = (v + wave_plane_sample<bits>(u, 0, place) - lane_u32(1u << (bits - 1))) & largest;
    if (max_error > 0) {
        v = v * lane_u32(2 * max_error + 1);
        v = select(v < largest, v, largest);
    }
    return v;
}

/* Returns the samples of four 8-bit pixels as one word per plane, for sink_quads(). `places` are
 * the addresses in the first coded plane. */
PSTI_LANES lane_u32 wave_plane_quad(const wave_unit &u, uint32_t plane, const lane_u32 places[4])
{
    const uint32_t coded = u.coded_of >> 4 * plane & 15;
    const uint32_t end = u.n_rows * wave_layout<8>::row_nbytes;
    lane_u32 v[4];
    if (coded == WAVE_CONSTANT)
        return lane_u32(((uint32_t)(u.constants >> 16 * plane) & 255) * 0x01010101u);
    const lane_u32 plane_at = lane_u32(coded * u.bands * (WAVE_EDGE * wave_layout<8>::row_nbytes));
    PSTI_UNROLL
    for (uint32_t j = 0; j < 4; j++) {
        /* The sum is taken modulo `end`: if it is below `end`, the subtraction wraps around to a
         * larger number, so the minimum is right in both cases. */
        lane_u32 place = places[j] + plane_at;
        v[j] = load_at<uint8_t>(u.samples, min_u32(place, place - lane_u32(end)));
    }
    return (v[3] * lane_u32(256) + v[2]) * lane_u32(65536) + (v[1] * lane_u32(256) + v[0]);
}

/* Adds the four bytes of two words, each modulo 256. */
PSTI_LANES lane_u32 wave_add_bytes(lane_u32 a, lane_u32 b)
{
    const lane_u32 tops = lane_u32(0x80808080), others = lane_u32(0x7f7f7f7f);
    return ((a & others) + (b & others)) ^ ((a ^ b) & tops);
}

PSTI_LANES void wave_quad(const wave_unit &u, lane_u32 y, lane_i32 x, lane_u32 q[4])
{
    const lane_u32 lane = y & lane_u32(31);
    const lane_u32 first = (y >> lane_u32(5)) * lane_u32(WAVE_EDGE) + lane * lane_u32(2);
    const lane_i32 last = lane_i32((int32_t)u.width - 1);
    lane_u32 places[4];
    PSTI_UNROLL
    for (int32_t j = 0; j < 4; j++) {
        const lane_i32 column = wave_most(wave_least(x + lane_i32(j), last), lane_i32(0));
        places[j] = wave_rows<8>(first + as_u32(column)) ^ lane;
    }
    PSTI_UNROLL
    for (uint32_t plane = 0; plane < WAVE_PLANES; plane++) {
        if (plane < u.channels)
            q[plane] = wave_plane_quad(u, plane, places);
    }
    if (u.transform != 0) {
        const lane_u32 green = q[0], distance = green ^ lane_u32(0x80808080);
        q[0] = wave_add_bytes(q[1], distance);
        q[1] = green;
        q[2] = wave_add_bytes(q[2], distance);
    }
}

/* The unit
 * ------------------------------------------------------------------------------------- */

template <int bits, int coded> PSTI_LANES void wave_rebuild(const wave_unit &u)
{
    if (bits == 8)
        wave_rebuild8<coded>(u);
    else
        wave_rebuild16<coded>(u);
}

template <int bits> PSTI_LANES bool wave_decode_coded(wave_unit &u)
{
    if (!(bits == 8 ? wave_decode_tokens8(u) : wave_decode_tokens16(u)))
        return false;
    wave_open_bits<bits>(u);
    const uint32_t end = bits == 8 ? wave_find_residuals8(u) : wave_find_residuals16(u);
    if (end > 8 * (u.raw_end + wave_layout<bits>::state_nbytes))
        return false;
    warp_sync();
    if (u.n_coded == 1)
        wave_rebuild<bits, 1>(u);
    else if (u.n_coded == 2)
        wave_rebuild<bits, 2>(u);
    else if (u.n_coded == 3)
        wave_rebuild<bits, 3>(u);
    else
        wave_rebuild<bits, 4>(u);
    warp_sync();
    return true;
}

/* Decodes one unit of mode wave in one warp. `scratch` is this warp's. Returns false if the unit is
 * corrupt. */
template <int bits>
PSTI_LANES bool wave_decode(shared<uint8_t> tables, shared<uint8_t> scratch,
                            const struct psti_gpu_image &image, const struct psti_gpu_unit &unit,
                            const struct psti_gpu_finish &finish)
{
    typedef wave_layout<bits> layout;
    const uint32_t y0 = unit.unit_y * WAVE_EDGE, x0 = unit.unit_x * WAVE_EDGE;
    wave_unit u;
    u.words = reinterpret_cast<const uint32_t *>(image.bytes + unit.offset);
    u.nbytes = unit.nbytes;
    u.height = image.height - y0 < WAVE_EDGE ? image.height - y0 : WAVE_EDGE;
    u.width = image.width - x0 < WAVE_EDGE ? image.width - x0 : WAVE_EDGE;
    u.channels = image.channels;
    u.transform = image.transform;
    u.tables = tables;
    u.window = scratch;
    u.records = shared_cast<uint32_t>(scratch, layout::records_at);
    u.samples = shared_cast<uint8_t>(scratch, layout::samples_at);
    warp_sync();
    if (!wave_parse<bits>(u))
        return false;
    warp_sync();
    if (u.n_coded > 0 && !wave_decode_coded<bits>(u))
        return false;
    const uint32_t max_error = image.max_error;
    /* Range of rows and columns of the unit that the region needs. */
    uint32_t top = image.y0 > y0 ? image.y0 - y0 : 0, left = image.x0 > x0 ? image.x0 - x0 : 0;
    uint32_t bottom = image.y1 - y0 < u.height ? image.y1 - y0 : u.height;
    uint32_t right = image.x1 - x0 < u.width ? image.x1 - x0 : u.width;
    if (bits == 8 && max_error == 0 && top < bottom && sink_takes_quads(image.sink, finish)) {
        sink_quads(image.sink, finish, y0 + top, x0 + left, bottom - top, right - left,
                   [&](lane_u32 row, lane_i32 column, lane_u32 q[4]) {
                       wave_quad(u, row + lane_u32(top), column + lane_i32((int32_t)left), q);
                   });
        return true;
    }
    for (uint32_t y = top; y < bottom; y++)
        sink_row(image.sink, finish, y0 + y, x0 + left, right - left, [&](lane_u32 i, uint32_t c) {
            return wave_sample<bits>(u, max_error, wave_pixel<bits>(y, i + lane_u32(left)), c);
        });
    return true;
}

} // namespace psti

#endif
