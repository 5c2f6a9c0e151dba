/* pli_packed.cuh - a warp decodes a unit of mode packed (format-pli.md 4).
 *
 * All lanes together read the plane records. Then widths are decoded, 32 groups (4 rows) at a time.
 * Each lane has a window of the bits of one run; a lane's rank among the lanes that need a bit says
 * which bit of the window it takes. Prefix sums add up the widths of a column and the places of
 * groups. Place and width of each group wait in shared memory.
 *
 * Then rows are decoded one after another, all planes at once. A lane has two pixels and keeps the
 * row above them in registers. Running sums are prefix sums over lanes; two planes of 8 bits share
 * the halves of a register. Only a row of pixels goes through memory on its way to the sink. */
#ifndef PST_GPU_PLI_PACKED_CUH
#define PST_GPU_PLI_PACKED_CUH

#include "gpu/kernels/pli_plain.cuh"
#include "gpu/kernels/store_quads.cuh"

namespace psti
{

static const uint32_t PACKED_PLANES = 4;
static const uint32_t PACKED_EDGE = 64; /* edge of a unit in pixels, E (format-pli.md 3) */
static const uint32_t PACKED_ROW_GROUPS = 8;
static const int32_t PACKED_MAX_TAP = 64; /* largest weight of a tap (format-pli.md 4.2) */
/* Numbers of the predictors (format-pli.md 4.5): left, up, gradient, smooth, smooth gradient. */
static const uint32_t PACKED_LEFT = 1, PACKED_LAST = 5;

struct packed_plane {
    uint32_t predictors; /* 4 predictors, 4 bits each; 0: the plane is constant */
    uint32_t start;
    int32_t tap0, tap1;
};

struct packed_unit {
    const uint32_t *words; /* the unit's bytes, which begin with its mode */
    uint32_t nbytes;
    uint32_t height, row_groups;
    uint32_t channels, bits;
    packed_plane planes[PACKED_PLANES];
    uint32_t coded;        /* bit p is set if plane p is not constant */
    uint32_t first_widths; /* first bit width of each plane, 8 bits each */
    uint32_t strings;      /* bit of the unit at which the runs begin (format-pli.md 4.3) */
    uint32_t data;         /* byte of the unit at which the groups begin (format-pli.md 4.4) */
};

/* Plane records
 * ------------------------------------------------------------------------------------- */

/* The first 32 bytes of a unit, which hold all plane records (format-pli.md 4.2). */
struct packed_reader {
    lane_u32 bytes;
    uint32_t nbytes, at;
    bool is_short;
};

PSTI_LANES uint32_t packed_take(packed_reader &in, uint32_t n)
{
    in.is_short = in.is_short || in.nbytes - in.at < n;
    uint32_t v = lane_of(in.bytes, in.at);
    if (n == 2)
        v |= lane_of(in.bytes, in.at + 1) << 8;
    in.at += in.is_short ? 0 : n;
    return v;
}

/* Returns whether the predictors of rows inside the unit are known and those of rows beyond it are
 * 0. */
PSTI_LANES bool packed_predictors_are_known(uint32_t numbers, uint32_t height)
{
    bool known = true;
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t number = numbers >> 4 * k & 15;
        known = known &&
                (16 * k < height ? number - PACKED_LEFT <= PACKED_LAST - PACKED_LEFT : number == 0);
    }
    return known;
}

PSTI_LANES bool packed_tap_is_known(int32_t tap)
{
    return tap >= -PACKED_MAX_TAP && tap <= PACKED_MAX_TAP;
}

PSTI_LANES bool packed_parse(packed_unit &u, uint32_t transform)
{
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(u.words);
    packed_reader in = {load(bytes, lane_id(), lane_id() < lane_u32(u.nbytes)), u.nbytes, 1, false};
    bool fine = true;
    u.coded = u.first_widths = 0;
    PSTI_UNROLL
    for (uint32_t p = 0; p < PACKED_PLANES; p++) {
        if (p >= u.channels)
            continue;
        uint32_t numbers = packed_take(in, 2), tap0 = 0, tap1 = 0;
        u.planes[p].start = packed_take(in, u.bits / 8);
        if (numbers != 0) {
            if (transform != 0 && (p == 1 || p == 2))
                tap0 = packed_take(in, 1);
            if (transform != 0 && p == 2)
                tap1 = packed_take(in, 1);
            uint32_t first_width = packed_take(in, 1);
            fine = fine && packed_predictors_are_known(numbers, u.height) && first_width <= u.bits;
            u.coded |= 1u << p;
            u.first_widths |= first_width << 8 * p;
        }
        u.planes[p].predictors = numbers;
        u.planes[p].tap0 = (int8_t)tap0;
        u.planes[p].tap1 = (int8_t)tap1;
        fine =
            fine && packed_tap_is_known(u.planes[p].tap0) && packed_tap_is_known(u.planes[p].tap1);
    }
    u.strings = 8 * in.at;
    return fine && !in.is_short;
}

/* Widths
 * ------------------------------------------------------------------------------------- */

/* Counts the one bits among bits begin..end - 1 of the unit. */
PSTI_LANES uint32_t packed_count_ones(const uint32_t *words, uint32_t begin, uint32_t end)
{
    lane_u32 n = lane_u32(0);
    for (uint32_t first = begin / 32; first * 32 < end; first += PSTI_WARP) {
        lane_u32 i = lane_u32(first) + lane_id(), bit = i * lane_u32(32);
        lane_u32 v = load(words, i, bit < lane_u32(end));
        lane_u32 skip = select(bit < lane_u32(begin), lane_u32(begin) - bit, lane_u32(0));
        lane_u32 take = lane_u32(end) - bit; /* above 31: counts all bits of the word */
        v = v & lane_u32(~0u) << (skip & lane_u32(31));
        v = select(take < lane_u32(32), v & ((lane_u32(1) << (take & lane_u32(31))) - lane_u32(1)),
                   v);
        n = n + popc(v);
    }
    return reduce_add(n);
}

/* In lane r, finds where run r begins (4.3). Returns false if the runs do not fit. */
PSTI_LANES bool packed_find_runs(packed_unit &u, lane_u32 &cursors)
{
    const uint32_t total = 8 * u.nbytes;
    uint32_t ones, next = u.strings + popc(u.coded) * u.height * u.row_groups, n = 1;
    cursors = select(lane_id() == lane_u32(0), lane_u32(u.strings), lane_u32(0));
    if (next > total)
        return false;
    ones = packed_count_ones(u.words, u.strings, next);
    if (ones > 0) { /* the run of signs comes next */
        cursors = select(lane_id() == lane_u32(n++), lane_u32(next), cursors);
        next += ones;
    }
    while (ones > 0) { /* the last run contains no ones */
        if (n > u.bits + 1 || ones > total || next > total - ones)
            return false;
        cursors = select(lane_id() == lane_u32(n++), lane_u32(next), cursors);
        uint32_t end = next + ones;
        ones = packed_count_ones(u.words, next, end);
        next = end;
    }
    u.data = (next + 7) / 8;
    return next <= total;
}

/* Returns d_i, the differences between the widths of 32 groups and the widths above them (4.3). The
 * group of a lane has number `place`, if it is one of the `n` groups that take bits of the runs. */
PSTI_LANES lane_i32 packed_steps(const packed_unit &u, lane_u32 &cursors, lane_u32 place,
                                 lane_bool has, uint32_t n)
{
    lane_u32 word = cursors >> lane_u32(5);
    lane_u32 windows = funnel_right(load(u.words, word), load(u.words, word + lane_u32(1)),
                                    cursors & lane_u32(31));
    lane_bool more = has & ((lane_u32(lane_of(windows, 0)) >> place & lane_u32(1)) != lane_u32(0));
    lane_u32 size = as_u32(more), used = select(lane_id() == lane_u32(0), lane_u32(n), lane_u32(0));
    uint32_t with = votes(more), left = with;
    lane_u32 rank = popc(lane_u32(left) & mask_below());
    lane_u32 sign = lane_u32(lane_of(windows, 1)) >> rank & lane_u32(1);
    used = select(lane_id() == lane_u32(1), lane_u32(popc(with)), used);
    for (uint32_t r = 2; left != 0; r++) {
        used = select(lane_id() == lane_u32(r), lane_u32(popc(left)), used);
        more = more & ((lane_u32(lane_of(windows, r)) >> (rank & lane_u32(31)) & lane_u32(1)) !=
                       lane_u32(0));
        size = size + as_u32(more);
        left = votes(more);
        rank = popc(lane_u32(left) & mask_below());
    }
    cursors = cursors + used;
    return as_i32(select(sign != lane_u32(0), lane_u32(0) - size, size));
}

/* Decodes the position and bit width of each group. Stores (first bit in the unit) << 5 | width,
 * with 8 groups per row and 64 rows per plane. Returns false if a width is out of range or the
 * widths do not add up to the length of the data. */
PSTI_LANES bool packed_place_groups(const packed_unit &u, lane_u32 cursors, shared<uint32_t> groups)
{
    const lane_u32 row = lane_id() >> lane_u32(3), column = lane_id() & lane_u32(7);
    const lane_u32 place = row * lane_u32(u.row_groups) + column;
    uint32_t at = u.data;
    for (uint32_t p = 0; p < u.channels; p++) {
        if ((u.coded >> p & 1) == 0)
            continue;
        lane_i32 above = lane_i32((int32_t)(u.first_widths >> 8 * p & 255));
        for (uint32_t y = 0; y < u.height; y += 4) {
            uint32_t rows = u.height - y < 4 ? u.height - y : 4;
            lane_bool has = (column < lane_u32(u.row_groups)) & (row < lane_u32(rows));
            lane_i32 d = packed_steps(u, cursors, place, has, rows * u.row_groups);
            d = d + select(row >= lane_u32(1), shift_up(d, 8), lane_i32(0));
            d = d + select(row >= lane_u32(2), shift_up(d, 16), lane_i32(0));
            lane_u32 width = as_u32(above + d);
            if (some(has & (width > lane_u32(u.bits))))
                return false;
            above = shuffle(as_i32(width), lane_u32(24) + column);
            width = select(has, width, lane_u32(0));
            lane_u32 end = scan_add(width);
            store(groups, lane_u32((64 * p + y) * PACKED_ROW_GROUPS) + lane_id(),
                  (lane_u32(at) + end - width) << lane_u32(8) | width, has);
            at += lane_of(end, PSTI_WARP - 1);
        }
    }
    return at == u.nbytes;
}

/* Rows
 * ------------------------------------------------------------------------------------- */

/* How samples of several planes share a register: two of 8 bits, one in each half, or one of 16
 * bits. */
template <int bits> struct packed_fields {
    static const uint32_t per_register = bits == 8 ? 2 : 1;
    static const uint32_t n = PACKED_PLANES / per_register;
    static const uint32_t mask = bits == 8 ? 0x00ff00ffu : 0xffffu;
    static const uint32_t one = bits == 8 ? 0x00010001u : 1u;
    static const uint32_t sample = bits == 8 ? 0xffu : 0xffffu;
    static const uint32_t row_words = PACKED_EDGE * bits / 8;
    /* rows that are decoded before they are sent to the sink */
    static const uint32_t turn = PSTI_GPU_PACKED_ROWS_NBYTES / 4 / row_words;
    /* Returns the bit at which plane p's field begins in its register. */
    static PSTI_LANES uint32_t shift(uint32_t p) { return 16 * (p % per_register); }
};

/* The terms of the prediction for each field of a register. A mask has ones in the fields whose
 * prediction has the term. */
struct packed_ways {
    uint32_t left, up, smooth, sum;
};

/* Stores the parts of plane records that rows need in shared memory: the masks of terms for each
 * register, the predictors of each plane, and its taps as two halves. */
static const uint32_t PACKED_WAYS_AT = 0, PACKED_PREDICTORS_AT = 16, PACKED_TAPS_AT = 20;

PSTI_LANES void packed_put_records(const packed_unit &u, shared<uint32_t> records)
{
    PSTI_UNROLL
    for (uint32_t p = 0; p < PACKED_PLANES; p++) {
        if (p >= u.channels)
            continue;
        uint32_t taps = ((uint32_t)u.planes[p].tap0 & 0xffff) | (uint32_t)u.planes[p].tap1 << 16;
        store_uniform(records, PACKED_PREDICTORS_AT + p, u.planes[p].predictors);
        store_uniform(records, PACKED_TAPS_AT + p, taps);
    }
    warp_sync();
}

/* Stores the masks of terms for row y. They are valid until the next row with other predictors. */
template <int bits>
PSTI_LANES void packed_set_ways(const packed_unit &u, shared<uint32_t> records, uint32_t y)
{
    typedef packed_fields<bits> fields;
    warp_sync();
    for (uint32_t q = 0; q < fields::n; q++) {
        packed_ways ways = {0, 0, 0, 0};
        for (uint32_t p = q * fields::per_register; p < (q + 1) * fields::per_register; p++) {
            if (p >= u.channels)
                continue;
            uint32_t predictor = load_uniform(records, PACKED_PREDICTORS_AT + p);
            uint32_t field = 0xffffu << fields::shift(p);
            predictor = predictor >> 4 * (y / 16) & 15;
            predictor = y == 0 && predictor != 0 ? PACKED_LEFT : predictor;
            /* Each mask has one bit per predictor. A constant plane (predictor 0) is predicted from
             * the sample above. */
            ways.left |= field & (0u - (0x02u >> predictor & 1));
            ways.up |= field & (0u - (0x0du >> predictor & 1));
            ways.smooth |= field & (0u - (0x30u >> predictor & 1));
            ways.sum |= field & (0u - (0x2au >> predictor & 1));
        }
        store_uniform(records, PACKED_WAYS_AT + 4 * q, ways.left);
        store_uniform(records, PACKED_WAYS_AT + 4 * q + 1, ways.up);
        store_uniform(records, PACKED_WAYS_AT + 4 * q + 2, ways.smooth);
        store_uniform(records, PACKED_WAYS_AT + 4 * q + 3, ways.sum);
    }
    warp_sync();
}

PSTI_LANES packed_ways packed_get_ways(shared<uint32_t> records, uint32_t q)
{
    return packed_ways{load_uniform(records, PACKED_WAYS_AT + 4 * q),
                       load_uniform(records, PACKED_WAYS_AT + 4 * q + 1),
                       load_uniform(records, PACKED_WAYS_AT + 4 * q + 2),
                       load_uniform(records, PACKED_WAYS_AT + 4 * q + 3)};
}

/* Returns, in lane l, the residuals of pixels 2 l and 2 l + 1 in row y of plane p. `within` is the
 * position of pixel 2 l in its group. */
PSTI_LANES void packed_unpack(const packed_unit &u, shared<uint32_t> groups, uint32_t row,
                              lane_u32 within, lane_bool has, lane_i32 r[2])
{
    lane_u32 group = lane_u32(row * PACKED_ROW_GROUPS) + (lane_id() >> lane_u32(2));
    lane_u32 e = load(groups, group, has), width = e & lane_u32(31);
    lane_u32 bit = (e >> lane_u32(8)) * lane_u32(8) + within * width, word = bit >> lane_u32(5);
    lane_u32 v =
        funnel_right(load(u.words, word), load(u.words, word + lane_u32(1)), bit & lane_u32(31));
    lane_u32 end = lane_u32(1) << width, mask = end - lane_u32(1), sign = end >> lane_u32(1);
    r[0] = as_i32(((v & mask) ^ sign) - sign);
    r[1] = as_i32(((v >> width & mask) ^ sign) - sign);
}

/* Decodes one row of a register's fields. `up` is the row above, and is replaced by this row. `add`
 * has residuals plus correction (4.5), modulo the range of a sample. */
template <int bits>
PSTI_LANES void packed_row(const packed_ways &ways, lane_u32 last, const lane_u32 add[2],
                           lane_u32 up[2])
{
    typedef packed_fields<bits> fields;
    const lane_u32 mask = lane_u32(fields::mask);
    lane_u32 base[2] = {up[0] & lane_u32(ways.up), up[1] & lane_u32(ways.up)};
    lane_u32 sum[2] = {add[0], add[1]};
    if (ways.left != 0) {
        lane_u32 left = lane_u32(lane_of(up[0], 0) & ways.left);
        base[0] = base[0] | left;
        base[1] = base[1] | left;
    }
    if (ways.smooth != 0) {
        lane_u32 before = select(lane_id() == lane_u32(0), up[0], shift_up(up[1], 1));
        lane_u32 behind = select(lane_id() == last, up[1], shift_down(up[0], 1));
        lane_u32 s0 = ((before + up[1]) >> lane_u32(1) & mask) + up[0] + lane_u32(fields::one);
        lane_u32 s1 = ((up[0] + behind) >> lane_u32(1) & mask) + up[1] + lane_u32(fields::one);
        base[0] = base[0] | (s0 >> lane_u32(1) & mask & lane_u32(ways.smooth));
        base[1] = base[1] | (s1 >> lane_u32(1) & mask & lane_u32(ways.smooth));
    }
    /* With 8 bits the sum is at most 64 * 255, so fields do not carry into each other. */
    if (ways.sum != 0) {
        lane_u32 both = add[0] + add[1], before = scan_add_below(both);
        lane_u32 fields_of = lane_u32(ways.sum);
        sum[0] = ((before + add[0]) & fields_of) | (add[0] & ~fields_of);
        sum[1] = ((before + both) & fields_of) | (add[1] & ~fields_of);
    }
    up[0] = (base[0] + sum[0]) & mask;
    up[1] = (base[1] + sum[1]) & mask;
}

/* Undoes the colour transform for 8 bits. a and b are two registers with two planes each. The
 * result has a byte for each channel. */
PSTI_LANES lane_u32 packed_pixel8(lane_u32 a, lane_u32 b, bool green)
{
    if (green) { /* the planes are G, R - G, B - G, A */
        lane_u32 g = a & lane_u32(0xff);
        a = a + (g << lane_u32(16)) + lane_u32(0x00800000);
        b = ((b + g + lane_u32(0x80)) & lane_u32(0xff)) | (b & lane_u32(0x00ff0000));
    }
    return pick_bytes(a, b, lane_u32(green ? 0x6402 : 0x6420));
}

/* Undoes the colour transform for 16 bits. The result has two registers: channels 0 and 1, channels
 * 2 and 3. */
PSTI_LANES void packed_pixel16(const lane_u32 v[4], bool green, lane_u32 out[2])
{
    lane_u32 r = v[0], g = v[1], b = v[2];
    if (green) {
        g = v[0];
        r = (v[1] + g + lane_u32(0x8000)) & lane_u32(0xffff);
        b = (v[2] + g + lane_u32(0x8000)) & lane_u32(0xffff);
    }
    out[0] = r | g << lane_u32(16);
    out[1] = b | v[3] << lane_u32(16);
}

/* Returns the residuals of a row's planes plus their corrections, in the fields of a register. */
template <int bits>
PSTI_LANES void packed_add(const packed_unit &u, shared<uint32_t> records, shared<uint32_t> groups,
                           uint32_t y, lane_u32 within, lane_bool has,
                           lane_u32 add[packed_fields<bits>::n][2])
{
    typedef packed_fields<bits> fields;
    lane_i32 r0[2] = {lane_i32(0), lane_i32(0)}, r1[2] = {lane_i32(0), lane_i32(0)};
    PSTI_UNROLL
    for (uint32_t p = 0; p < PACKED_PLANES; p++) {
        const uint32_t q = p / fields::per_register;
        lane_i32 r[2] = {lane_i32(0), lane_i32(0)};
        if (p % fields::per_register == 0)
            add[q][0] = add[q][1] = lane_u32(0);
        if ((u.coded >> p & 1) == 0)
            continue;
        packed_unpack(u, groups, 64 * p + y, within, has, r);
        uint32_t taps = 0;
        if (p == 1 || p == 2)
            taps = load_uniform(records, PACKED_TAPS_AT + p);
        const lane_i32 tap0 = lane_i32((int16_t)taps), tap1 = lane_i32((int32_t)taps >> 16);
        PSTI_UNROLL
        for (uint32_t k = 0; k < 2; k++) {
            lane_i32 t = lane_i32(0);
            if (p == 1)
                t = (tap0 * r0[k] + lane_i32(16)) >> lane_i32(5);
            if (p == 2)
                t = (tap0 * r0[k] + tap1 * r1[k] + lane_i32(16)) >> lane_i32(5);
            if (p == 0)
                r0[k] = r[k];
            if (p == 1)
                r1[k] = r[k];
            add[q][k] = add[q][k] | (as_u32(r[k] + t) & lane_u32(fields::sample))
                                        << lane_u32(fields::shift(p));
        }
    }
}

/* Stores a row of pixels in shared memory. Channels are the bytes of one word, or the halves of two
 * words. */
template <int bits>
PSTI_LANES void packed_put_row(const lane_u32 v[packed_fields<bits>::n][2], bool green,
                               shared<uint32_t> row)
{
    if constexpr (bits == 8) {
        store2(row, lane_id() * lane_u32(2), packed_pixel8(v[0][0], v[1][0], green),
               packed_pixel8(v[0][1], v[1][1], green));
    } else {
        PSTI_UNROLL
        for (uint32_t k = 0; k < 2; k++) {
            lane_u32 planes[4] = {v[0][k], v[1][k], v[2][k], v[3][k]}, out[2];
            packed_pixel16(planes, green, out);
            store2(row, lane_id() * lane_u32(4) + lane_u32(2 * k), out[0], out[1]);
        }
    }
}

/* Sends rows of pixels from shared memory to the sink, starting with row y of the stored image. */
template <int bits>
PSTI_LANES void packed_bring_rows(shared<uint32_t> rows, uint32_t y, uint32_t x, uint32_t n_rows,
                                  uint32_t n, const struct psti_gpu_image &image,
                                  const struct psti_gpu_finish &finish)
{
    const uint32_t row_words = packed_fields<bits>::row_words, scale = 2u * image.max_error + 1;
    if (bits == 8 && scale == 1 && sink_takes_quads(image.sink, finish)) {
        sink_quads(image.sink, finish, y, x, n_rows, n,
                   [&](lane_u32 row, lane_i32 column, lane_u32 q[4]) {
                       load_quad(rows, row * lane_u32(row_words), column, n, q);
                   });
        return;
    }
    for (uint32_t i = 0; i < n_rows; i++) {
        shared<uint32_t> row = rows + i * row_words;
        sink_row(image.sink, finish, y + i, x, n, [&](lane_u32 column, uint32_t c) {
            lane_u32 s;
            if constexpr (bits == 8)
                s = load(row, column) >> lane_u32(8 * c) & lane_u32(255);
            else
                s = load(row, column * lane_u32(2) + lane_u32(c / 2)) >> lane_u32(16 * (c % 2)) &
                    lane_u32(65535);
            return level(s, scale, bits);
        });
    }
}

template <int bits>
PSTI_LANES void packed_rows(const packed_unit &u, shared<uint32_t> records, shared<uint32_t> groups,
                            shared<uint32_t> rows, const struct psti_gpu_image &image,
                            const struct psti_gpu_unit &unit, const struct psti_gpu_finish &finish)
{
    typedef packed_fields<bits> fields;
    const uint32_t y0 = unit.unit_y * PACKED_EDGE, x0 = unit.unit_x * PACKED_EDGE;
    const uint32_t end = image.y1 - y0 < u.height ? image.y1 - y0 : u.height;
    const uint32_t width = unit_along(unit.unit_x, image.unit_log2, image.width).n;
    const lane_u32 within = (lane_id() & lane_u32(3)) * lane_u32(2);
    const lane_bool has = lane_id() < lane_u32(4 * u.row_groups);
    const lane_u32 last = lane_u32(4 * u.row_groups - 1);
    lane_u32 v[fields::n][2];
    PSTI_UNROLL
    for (uint32_t q = 0; q < fields::n; q++) {
        uint32_t start = 0;
        PSTI_UNROLL
        for (uint32_t p = q * fields::per_register; p < (q + 1) * fields::per_register; p++)
            start |= p < u.channels ? u.planes[p].start << fields::shift(p) : 0;
        v[q][0] = v[q][1] = lane_u32(start);
    }
    for (uint32_t first = 0; first < end; first += fields::turn) {
        const uint32_t behind = first + fields::turn < end ? first + fields::turn : end;
        for (uint32_t y = first; y < behind; y++) {
            lane_u32 add[fields::n][2];
            if (y % 16 == 0 || y == 1)
                packed_set_ways<bits>(u, records, y);
            packed_add<bits>(u, records, groups, y, within, has, add);
            PSTI_UNROLL
            for (uint32_t q = 0; q < fields::n; q++) {
                if (q * fields::per_register >= u.channels)
                    continue;
                packed_row<bits>(packed_get_ways(records, q), last, add[q], v[q]);
            }
            packed_put_row<bits>(v, image.transform != 0, rows + (y - first) * fields::row_words);
        }
        warp_sync();
        const uint32_t top = y0 + first < image.y0 ? image.y0 - y0 : first;
        if (top < behind)
            packed_bring_rows<bits>(rows + (top - first) * fields::row_words, y0 + top, x0,
                                    behind - top, width, image, finish);
        warp_sync();
    }
}

/* Decodes a unit of mode packed. `memory` is this warp's shared memory, which begins with the rows.
 * Returns false if the unit is corrupt. */
PSTI_LANES bool packed_decode(shared<uint8_t> memory, const struct psti_gpu_image &image,
                              const struct psti_gpu_unit &unit,
                              const struct psti_gpu_finish &finish)
{
    packed_unit u;
    lane_u32 cursors;
    shared<uint32_t> rows = shared_cast<uint32_t>(memory, 0);
    shared<uint32_t> records = shared_cast<uint32_t>(memory, PSTI_GPU_PACKED_ROWS_NBYTES);
    shared<uint32_t> groups =
        shared_cast<uint32_t>(memory, PSTI_GPU_PACKED_ROWS_NBYTES + PSTI_GPU_PACKED_RECORDS_NBYTES);
    u.words = reinterpret_cast<const uint32_t *>(image.bytes + unit.offset);
    u.nbytes = unit.nbytes;
    u.height = unit_along(unit.unit_y, image.unit_log2, image.height).n;
    u.row_groups = (unit_along(unit.unit_x, image.unit_log2, image.width).n + 7) / 8;
    u.channels = image.channels;
    u.bits = image.bits;
    if (!packed_parse(u, image.transform) || !packed_find_runs(u, cursors) ||
        !packed_place_groups(u, cursors, groups))
        return false;
    packed_put_records(u, records);
    if (u.bits == 8)
        packed_rows<8>(u, records, groups, rows, image, unit, finish);
    else
        packed_rows<16>(u, records, groups, rows, image, unit, finish);
    return true;
}

} // namespace psti

#endif
