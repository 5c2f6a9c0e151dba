/* pli_wave_predict.cuh - units of mode wave (see pli_wave.cuh): the pass that replaces residuals by
 * samples. At each position it does all planes at once (format-pli.md 5.3). */
#ifndef PST_GPU_PLI_WAVE_PREDICT_CUH
#define PST_GPU_PLI_WAVE_PREDICT_CUH

#include "gpu/kernels/pli_wave_head.cuh"

namespace psti
{

/* Prediction of 16 bits
 * ------------------------------------------------------------------------------------- */

/* The state of one plane in the prediction pass with 16 bits. */
struct wave_plane {
    uint32_t predictor, list_at;
    int32_t tap0, tap1;
    lane_i32 left, before;              /* the samples of the last two steps: L and LL */
    lane_i32 ur, u, ul, uu;             /* the samples above and around, sent by the lane above */
    lane_u32 number, k_above, k_beside; /* filter of the current block */
};

struct wave_near {
    lane_i32 l, ll, u, ul, ur, uu;
};

/* The position of each lane, which is the same for all planes. */
struct wave_spot {
    lane_bool row0, row1, column0, column1, last; /* masks of the lanes at this edge of the unit */
    lane_bool active;
    lane_u32 y, x;
};

PSTI_LANES void wave_receive(wave_plane &p)
{
    lane_u32 sent = as_u32(p.left) | as_u32(p.ul) << lane_u32(16);
    lane_u32 above = shuffle(sent, lane_id() + lane_u32(31));
    p.ul = p.u;
    p.u = p.ur;
    p.ur = as_i32(above & lane_u32(0xffff));
    p.uu = as_i32(above >> lane_u32(16));
}

PSTI_LANES wave_near wave_look(const wave_plane &p, const wave_spot &at)
{
    wave_near n;
    n.u = select(at.row0, p.left, p.u);
    n.ur = select(at.row0 | at.last, n.u, p.ur);
    n.ul = select(at.row0 | at.column0, n.u, p.ul);
    n.uu = select(at.row0 | at.row1, n.u, p.uu);
    n.l = select(at.column0, n.u, p.left);
    n.ll = select(at.column0 | at.column1, n.l, p.before);
    return n;
}

PSTI_LANES lane_i32 wave_med(const wave_near &n)
{
    return n.l + n.u - wave_least(wave_most(n.ul, wave_least(n.l, n.u)), wave_most(n.l, n.u));
}

PSTI_LANES lane_i32 wave_predict_simply(const wave_plane &p, const wave_near &n, lane_i32 r0,
                                        lane_i32 r1)
{
    lane_i32 v;
    if (p.predictor == WAVE_LEFT)
        v = n.l;
    else if (p.predictor == WAVE_UP)
        v = n.u;
    else if (p.predictor == WAVE_AVERAGE)
        v = (n.l + n.u) >> lane_i32(1);
    else
        v = wave_med(n);
    lane_u32 taps = as_u32(r0 * lane_i32(p.tap0) + r1 * lane_i32(p.tap1)) + lane_u32(16);
    return v + (as_i32(taps) >> lane_i32(5));
}

PSTI_LANES lane_i32 wave_signed_byte(lane_u32 v, uint32_t i)
{
    return as_i32(v << lane_u32(24 - 8 * i)) >> lane_i32(24);
}

PSTI_LANES lane_i32 wave_filter(const wave_plane &p, const wave_near &n, lane_i32 r0, lane_i32 r1)
{
    lane_i32 x = n.ur * wave_signed_byte(p.k_above, 0) + n.u * wave_signed_byte(p.k_above, 1) +
                 n.ul * wave_signed_byte(p.k_above, 2) + n.uu * wave_signed_byte(p.k_above, 3) +
                 n.l * wave_signed_byte(p.k_beside, 0) + n.ll * wave_signed_byte(p.k_beside, 1) +
                 r0 * wave_signed_byte(p.k_beside, 2) + r1 * wave_signed_byte(p.k_beside, 3) +
                 lane_i32(16);
    const lane_i32 largest = lane_i32(65535);
    x = wave_least(wave_most(x >> lane_i32(5), lane_i32(0)), largest);
    return select(p.number == lane_u32(0), wave_med(n), x);
}

/* Loads the filters for lanes that enter a new block in this step. */
PSTI_LANES void wave_enter_block(const wave_unit &u, wave_plane &p, uint32_t coded,
                                 const wave_spot &at)
{
    lane_bool enters = at.active & ((at.x & lane_u32(WAVE_BLOCK - 1)) == lane_u32(0));
    lane_u32 block = (at.y >> lane_u32(4)) * lane_u32(4) + (at.x >> lane_u32(4));
    shared<uint8_t> records = shared_cast<uint8_t>(u.window, wave_layout<8>::records_at);
    lane_u32 number = load_at<uint8_t>(
        records, lane_u32((coded * WAVE_R_WORDS + WAVE_R_NUMBERS) * 4) + block, enters);
    lane_u32 from = lane_u32(p.list_at) + number * lane_u32(8);
    p.k_above = select(enters, load_at<uint32_t>(u.tables, from, enters), p.k_above);
    p.k_beside =
        select(enters, load_at<uint32_t>(u.tables, from + lane_u32(4), enters), p.k_beside);
    p.number = select(enters, number, p.number);
}

PSTI_LANES wave_spot wave_spot_of(const wave_unit &u, uint32_t t)
{
    wave_spot at;
    lane_u32 way = lane_u32(t) - lane_u32(2) * lane_id(); /* the lane's column, over all bands */
    at.x = way & lane_u32(63);
    at.y = lane_id() + (way >> lane_u32(6)) * lane_u32(32);
    at.active = (way < lane_u32(WAVE_EDGE * u.bands)) & (at.x < lane_u32(u.width)) &
                (at.y < lane_u32(u.height));
    at.row0 = at.y == lane_u32(0);
    at.row1 = at.y == lane_u32(1);
    at.column0 = at.x == lane_u32(0);
    at.column1 = at.x == lane_u32(1);
    at.last = at.x == lane_u32(u.width - 1);
    return at;
}

template <int coded> PSTI_LANES void wave_open_planes(const wave_unit &u, wave_plane *p)
{
    PSTI_UNROLL
    for (uint32_t j = 0; j < coded; j++) {
        p[j].predictor = wave_record_of(u, j, WAVE_R_PREDICTOR);
        p[j].list_at = wave_layout<16>::filters_at +
                       wave_record_of(u, j, WAVE_R_LIST) * PSTI_GPU_WAVE_FILTERS * 8;
        p[j].tap0 = (int32_t)wave_record_of(u, j, WAVE_R_TAP0);
        p[j].tap1 = (int32_t)wave_record_of(u, j, WAVE_R_TAP1);
        p[j].left = p[j].before = lane_i32((int32_t)wave_record_of(u, j, WAVE_R_START));
        p[j].ur = p[j].u = p[j].ul = p[j].uu = lane_i32(0);
        p[j].number = p[j].k_above = p[j].k_beside = lane_u32(0);
    }
}

/* Replaces residuals by samples. At each position all planes are done at once. */
template <int coded> PSTI_LANES void wave_rebuild16(const wave_unit &u)
{
    wave_plane p[coded];
    const uint32_t plane_rows = WAVE_EDGE * u.bands;
    wave_open_planes<coded>(u, p);
    for (uint32_t t = 0; t < plane_rows + 62; t++) {
        const wave_spot at = wave_spot_of(u, t);
        const lane_i32 none = lane_i32(0);
        lane_i32 r0 = none, r1 = none;
        PSTI_UNROLL
        for (uint32_t j = 0; j < coded; j++) {
            uint32_t row = t + j * plane_rows;
            row = row < u.n_rows ? row : row - u.n_rows;
            lane_u32 place = lane_u32(wave_row<16>(row)) ^ wave_place<16>();
            lane_i32 r = load_at<int16_t>(u.samples, place, at.active), v;
            wave_receive(p[j]);
            wave_near n = wave_look(p[j], at);
            if (p[j].predictor == WAVE_OWN) {
                if ((t & 1) == 0)
                    wave_enter_block(u, p[j], j, at);
                v = wave_filter(p[j], n, r0, r1);
            } else {
                v = wave_predict_simply(p[j], n, r0, r1);
            }
            v = as_i32(as_u32(v + r) & lane_u32(65535));
            p[j].before = p[j].left;
            p[j].left = select(at.active, v, p[j].left);
            store_at<int16_t>(u.samples, place, v, at.active);
            /* Taps use the residuals of planes 0 and 1, if these are coded. */
            if (j == (u.coded_of & 15))
                r0 = r;
            if (j == (u.coded_of >> 4 & 15))
                r1 = r;
        }
    }
}

/* Prediction of 8 bits
 * ------------------------------------------------------------------------------------- */

/* The state of a plane in the prediction pass with 8 bits. Samples are bytes; the first one named
 * is the lowest. */
struct wave_plane8 {
    lane_u32 own; /* samples of the last two steps: L, LL */
    lane_u32 up;  /* samples UR, U, UL, UU, which the lanes above have sent */
    lane_u32 k_above,
        k_beside;     /* filter of the block; 0: MED. The weights of other filters sum to 32. */
    uint32_t list_at; /* address of the plane's filters; 0: its predictor is no filter */
    uint32_t pick_l, pick_u,
        pick_ul; /* selects the bytes that predictors other than filters use as L, U and UL of
                  * MED */
    bool is_average;
    uint32_t taps; /* weights of the taps, in bytes 2 and 3 */
};

/* Selectors for pick_bytes() of (up, own), which picks a sample's neighbours. They are the same for
 * all planes. */
struct wave_picks {
    lane_u32 above, beside; /* selectors of (UR, U, UL, UU) and of (L, LL, 0, 0) */
    lane_bool active, enters;
    lane_u32 block; /* number of the block of columns that the lane enters */
};

/* Selectors that depend only on the row, so few steps change them. `first` is `above` at column 0,
 * `above` that of other columns; `last` selects UR in the last column; `beside` is that at column
 * 0. */
struct wave_row_picks {
    lane_u32 first, above, last, beside;
};

/* Updates `row` for step t. Row 0 has only the neighbour L, and row 1 has no UU (format-pli.md
 * 5.3). Lanes 0 and 1 leave these rows when the second band begins. */
PSTI_LANES void wave_enter_rows8(wave_row_picks &row, uint32_t t)
{
    const lane_bool row0 = (lane_id() == lane_u32(0)) & lane_bool(t < WAVE_EDGE);
    const lane_bool row1 = (lane_id() == lane_u32(1)) & lane_bool(t < WAVE_EDGE + 2);
    row.above = select(row1, lane_u32(0x1210), lane_u32(0x3210));
    row.above = select(row0, lane_u32(0x4444), row.above);
    row.first = (row.above & lane_u32(0xf0ff)) | select(row0, lane_u32(0x0400), lane_u32(0x0100));
    row.last = select(row0, lane_u32(4), lane_u32(1));
    row.beside = select(row0, lane_u32(0x7644), lane_u32(0x7611));
}

/* Returns the selectors of step t. `ways` has the column of each lane, counted through all
 * bands. */
PSTI_LANES wave_picks wave_look8(const wave_unit &u, const wave_row_picks &row, uint32_t t,
                                 lane_u32 ways)
{
    wave_picks at;
    const lane_u32 way = lane_u32(t) - lane_u32(2) * lane_id();
    const lane_u32 x = way & lane_u32(63);
    const lane_bool column0 = x == lane_u32(0);
    at.active = (way < ways) & (x < lane_u32(u.width));
    at.above = select(column0, row.first, row.above);
    at.above =
        select(x == lane_u32(u.width - 1), (at.above & lane_u32(0xfff0)) | row.last, at.above);
    at.beside = select(x == lane_u32(1), lane_u32(0x7644), lane_u32(0x7654));
    at.beside = select(column0, row.beside, at.beside);
    at.enters = at.active & ((x & lane_u32(WAVE_BLOCK - 1)) == lane_u32(0));
    at.block = ((lane_id() + (way >> lane_u32(6)) * lane_u32(32)) >> lane_u32(4)) * lane_u32(4) +
               (x >> lane_u32(4));
    return at;
}

PSTI_LANES void wave_enter_block8(const wave_unit &u, wave_plane8 &p, uint32_t coded,
                                  const wave_picks &at)
{
    lane_u32 number = load_at<uint8_t>(
        shared_cast<uint8_t>(u.window, wave_layout<8>::records_at),
        lane_u32((coded * WAVE_R_WORDS + WAVE_R_NUMBERS) * 4) + at.block, at.enters);
    lane_u32 from = lane_u32(p.list_at) + number * lane_u32(8);
    p.k_above = load_at<uint32_t>(u.tables, from, at.enters, p.k_above);
    p.k_beside = load_at<uint32_t>(u.tables, from + lane_u32(4), at.enters, p.k_beside);
}

/* Returns the predictor MED: the median of L, U and L + U - UL (format-pli.md 5.2). */
PSTI_LANES lane_i32 wave_middle(lane_u32 left, lane_u32 up, lane_u32 up_left)
{
    lane_i32 l = as_i32(left), u = as_i32(up);
    lane_i32 low = wave_least(l, u), high = wave_most(l, u);
    return wave_most(low, wave_least(high, l + u - as_i32(up_left)));
}

/* Returns the prediction of one sample. `others` has the residuals of planes 0 and 1 in bytes 2 and
 * 3. */
PSTI_LANES lane_i32 wave_predict8(const wave_plane8 &p, lane_u32 above, lane_u32 beside,
                                  lane_u32 others, bool has_others)
{
    if (p.list_at > 0) {
        lane_i32 x = lane_i32(16);
        if (has_others)
            x = dot4(others, p.k_beside, x);
        /* The sums of all filters fit into 16 bits. A test of the constants checks this. */
        x = dot4_mixed(above, p.k_above, dot4_mixed(beside, p.k_beside, x)) >> lane_i32(5);
        x = wave_most(wave_least(x, lane_i32(255)), lane_i32(0));
        const lane_u32 none = lane_u32(0);
        lane_i32 med =
            wave_middle(beside & lane_u32(255), pick_bytes(above, none, lane_u32(0x4441)),
                        pick_bytes(above, none, lane_u32(0x4442)));
        return select((p.k_above | p.k_beside) == none, med, x);
    }
    lane_u32 l = pick_bytes(above, beside, lane_u32(p.pick_l));
    lane_u32 u = pick_bytes(above, beside, lane_u32(p.pick_u));
    lane_u32 ul = pick_bytes(above, beside, lane_u32(p.pick_ul));
    lane_i32 v =
        select(lane_bool(p.is_average), as_i32((l + u) >> lane_u32(1)), wave_middle(l, u, ul));
    if (has_others) {
        lane_i32 taps = dot4(others, lane_u32(p.taps), lane_i32(16));
        v = v + (as_i32(as_u32(taps) << lane_u32(16)) >> lane_i32(21));
    }
    return v;
}

template <int coded> PSTI_LANES void wave_open_planes8(const wave_unit &u, wave_plane8 *p)
{
    PSTI_UNROLL
    for (uint32_t j = 0; j < coded; j++) {
        const uint32_t predictor = wave_record_of(u, j, WAVE_R_PREDICTOR);
        p[j].own = lane_u32(wave_record_of(u, j, WAVE_R_START));
        p[j].up = p[j].k_above = p[j].k_beside = lane_u32(0);
        p[j].list_at = predictor == WAVE_OWN
                           ? wave_layout<8>::filters_at +
                                 wave_record_of(u, j, WAVE_R_LIST) * PSTI_GPU_WAVE_FILTERS * 8
                           : 0;
        p[j].pick_l = predictor == WAVE_UP ? 0x7771 : 0x7774;
        p[j].pick_u = predictor == WAVE_LEFT ? 0x7774 : 0x7771;
        p[j].pick_ul = predictor == WAVE_LEFT ? 0x7774 : predictor == WAVE_UP ? 0x7771 : 0x7772;
        p[j].is_average = predictor == WAVE_AVERAGE;
        p[j].taps = (wave_record_of(u, j, WAVE_R_TAP0) & 255) << 16 |
                    wave_record_of(u, j, WAVE_R_TAP1) << 24;
    }
}

/* Passes each lane the sample of the lane above. A single shuffle serves two planes. */
template <int coded> PSTI_LANES void wave_receive8(wave_plane8 *p)
{
    PSTI_UNROLL
    for (uint32_t j = 0; j < coded; j += 2) {
        lane_u32 sent = pick_bytes(p[j].own, p[j].up, lane_u32(0x6060));
        if (j + 1 < coded) {
            lane_u32 second = pick_bytes(p[j + 1].own, p[j + 1].up, lane_u32(0x6060));
            sent = pick_bytes(sent, second, lane_u32(0x5410));
        }
        lane_u32 above = shuffle(sent, lane_id() + lane_u32(31));
        p[j].up = pick_bytes(above, p[j].up, lane_u32(0x1540));
        if (j + 1 < coded)
            p[j + 1].up = pick_bytes(above, p[j + 1].up, lane_u32(0x3542));
    }
}

/* Returns a selector for pick_bytes() that moves the residuals of planes 0 and 1 to bytes 2 and 3.
 * It selects 0 for a plane that is not coded. A plane's prediction uses only planes before it. */
PSTI_LANES uint32_t wave_pick_others(const wave_unit &u)
{
    const uint32_t first = u.coded_of & 15, second = u.coded_of >> 4 & 15;
    return (first == 0 ? 0x0011 : 0x0111) | (second < 2 ? 4 * second : 1) << 12;
}

/* Rebuilds a step of the first plane. `places` has the addresses of the samples in each plane for
 * an even step. `odd` is 0 or 1: this step's row comes that many rows after it. */
template <int coded, int odd>
PSTI_LANES void wave_rebuild_step8(const wave_unit &u, wave_plane8 *p, const wave_picks &at,
                                   const lane_u32 *places, uint32_t pick_others)
{
    const lane_u32 row = lane_u32(odd * wave_layout<8>::row_nbytes);
    lane_u32 r[2] = {lane_u32(0), lane_u32(0)};
    wave_receive8<coded>(p);
    PSTI_UNROLL
    for (uint32_t j = 0; j < coded; j++) {
        lane_u32 residual = load_at<uint8_t>(u.samples, places[j] + row, at.active);
        lane_u32 above = pick_bytes(p[j].up, p[j].own, at.above);
        lane_u32 beside = pick_bytes(p[j].up, p[j].own, at.beside);
        if (p[j].list_at > 0 && odd == 0)
            wave_enter_block8(u, p[j], j, at);
        lane_u32 others = pick_bytes(r[0], r[1], lane_u32(pick_others));
        lane_u32 v = residual + as_u32(wave_predict8(p[j], above, beside, others, j > 0));
        p[j].own = pick_bytes(v, p[j].own, lane_u32(0x7640));
        store_at<uint8_t>(u.samples, places[j] + row, v, at.active);
        if (j < 2)
            r[j] = residual;
    }
}

/* Replaces residuals by samples. At each position all planes are done at once. */
template <int coded> PSTI_LANES void wave_rebuild8(const wave_unit &u)
{
    wave_plane8 p[coded];
    const uint32_t plane_rows = WAVE_EDGE * u.bands, pick_others = wave_pick_others(u);
    const lane_u32 rows = lane_u32(u.height), edge = lane_u32(WAVE_EDGE), none = lane_u32(0);
    const lane_u32 ways =
        select(lane_id() < rows, edge, none) + select(lane_id() + lane_u32(32) < rows, edge, none);
    wave_row_picks rows_at;
    wave_open_planes8<coded>(u, p);
    wave_enter_rows8(rows_at, 0);
    for (uint32_t t = 0; t < plane_rows + 62; t += 2) {
        lane_u32 places[coded];
        if (t == WAVE_EDGE || t == WAVE_EDGE + 2)
            wave_enter_rows8(rows_at, t);
        PSTI_UNROLL
        for (uint32_t j = 0; j < coded; j++) {
            /* A plane takes a whole number of periods of the row layout. The last plane wraps
             * around to the memory of the first rows. */
            const uint32_t fold = j + 1 == coded && t >= plane_rows ? u.n_rows : 0;
            places[j] = (lane_u32(wave_row<8>(t)) ^ lane_id()) +
                        lane_u32((j * plane_rows - fold) * PSTI_WARP);
        }
        wave_rebuild_step8<coded, 0>(u, p, wave_look8(u, rows_at, t, ways), places, pick_others);
        wave_rebuild_step8<coded, 1>(u, p, wave_look8(u, rows_at, t + 1, ways), places,
                                     pick_others);
    }
}

} // namespace psti

#endif
