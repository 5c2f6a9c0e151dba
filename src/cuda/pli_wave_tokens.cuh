/* pli_wave_tokens.cuh - units of mode wave (see pli_wave.cuh): the passes that read bits. Tokens
 * come from the states and their words, then signs and raw bits make residuals of them, in place.
 */
#ifndef PST_CUDA_PLI_WAVE_TOKENS_CUH
#define PST_CUDA_PLI_WAVE_TOKENS_CUH

#include "cuda/pli_wave_head.cuh"

namespace psti
{

/* Tokens
 * ------------------------------------------------------------------------------------- */

/* How tokens around a sample make its context: signed bytes, twice what is added, for what lies
 * above (UR, U, UL, UU) and beside (L, LL), and for another plane's token g:
 * (g * factor + rounding) & ~3. Twice E then stands above the lowest two bits. */
struct wave_kind {
    uint32_t above, beside, factor, rounding, back_nbytes; /* to the other plane's row */
};

struct wave_tokens {
    lane_u32 x;                                            /* states */
    lane_u32 token, own;                                   /* of the step before; with LL */
    lane_u32 up;                                           /* UR, U, UL, UU */
    lane_u32 above, beside, factor, rounding, back_nbytes; /* struct wave_kind */
    /* Words: two times 128 bytes are in the window, the second half in `next`, too, and what will
     * follow is on its way. */
    uint32_t at; /* bytes, in the window */
    uint32_t n_chunks;
    lane_u32 next, low, high;
};

PSTI_LANES void wave_fetch(const wave_unit &u, wave_tokens &s)
{
    lane_u32 at = lane_u32(u.words_at + 128 * s.n_chunks++) + lane_id() * lane_u32(4);
    lane_bool live = at < lane_u32(u.nbytes);
    s.low = load(u.words, at >> lane_u32(2), live);
    s.high = load(u.words, (at >> lane_u32(2)) + lane_u32(1), live);
}
PSTI_LANES lane_u32 wave_fetched(const wave_unit &u, const wave_tokens &s)
{
    return funnel_right(s.low, s.high, lane_u32(8 * (u.words_at & 3)));
}

/* The window moves on by a half. */
PSTI_LANES void wave_refill(const wave_unit &u, wave_tokens &s)
{
    lane_u32 place = lane_id() * lane_u32(4);
    warp_sync();
    store_at<uint32_t>(u.window, place, s.next);
    s.next = wave_fetched(u, s);
    store_at<uint32_t>(u.window, place + lane_u32(128), s.next);
    warp_sync();
    wave_fetch(u, s);
    s.at -= 128;
}

PSTI_LANES wave_kind wave_kind_of(const wave_unit &u, uint32_t coded, uint32_t row_nbytes)
{
    uint32_t number = wave_record_of(u, coded, WAVE_R_KIND);
    uint32_t other = wave_record_of(u, coded, WAVE_R_OTHER);
    wave_kind k = {0x06040606, 0x0406, 0, 0, 0};
    if (number == WAVE_FIRST) {
        k.above = 0x08040808;
        k.beside = 0x0408;
    } else if (other != WAVE_CONSTANT) {
        k.factor = number == WAVE_SECOND ? 2 : 8;
        k.rounding = number == WAVE_SECOND ? 2 : 0;
        k.back_nbytes = (coded - other) * u.bands * WAVE_EDGE * row_nbytes;
    }
    return k;
}

PSTI_LANES void wave_enter(wave_tokens &s, const wave_kind &k, lane_bool m)
{
    s.above = select(m, lane_u32(k.above), s.above);
    s.beside = select(m, lane_u32(k.beside), s.beside);
    s.factor = select(m, lane_u32(k.factor), s.factor);
    s.rounding = select(m, lane_u32(k.rounding), s.rounding);
    s.back_nbytes = select(m, lane_u32(k.back_nbytes), s.back_nbytes);
}

/* Which lanes a step has, where not all of them: rows of the band that begins and of the one
 * behind it. */
struct wave_part {
    bool has_front, has_rear;
    uint32_t front_rows, rear_rows;
};

/* Step t. `crossed`: contexts may look at other planes. `full`: all lanes are active. `place`,
 * `other_place`: of the even one of two steps, whose rows are stored alike; `front`: the lane that
 * begins a band then. */
template <int bits, bool full, bool crossed, bool odd>
PSTI_LANES void wave_token_step(const wave_unit &u, wave_tokens &s, uint32_t t,
                                const wave_part &part, uint32_t front, lane_u32 place,
                                lane_u32 other_place)
{
    typedef wave_layout<bits> layout;
    const uint32_t odd_row = odd ? layout::row_nbytes : 0; /* from the even step's */
    lane_u32 sent = pick_bytes(s.token, s.up, lane_u32(0x0060));
    lane_u32 above = shuffle(sent, lane_id() + lane_u32(31));
    s.up = pick_bytes(above, s.up, lane_u32(0x1540));
    /* At column 0 nothing is left of a lane, at column 63 nothing is right. */
    lane_u32 weights;
    if (odd) {
        lane_bool last = lane_id() == lane_u32((front + 1) & 31);
        weights = select(last, s.above & lane_u32(0xffffff00), s.above);
    } else {
        lane_bool first = lane_id() == lane_u32(front);
        s.own = select(first, lane_u32(0), s.own);
        weights = select(first, s.above & lane_u32(0xff00ffff), s.above);
    }
    lane_u32 e = lane_u32(2);
    if (crossed) {
        lane_u32 other;
        lane_bool m = s.factor != lane_u32(0);
        if (bits == 8)
            other = load_at<uint8_t>(u.samples, other_place + lane_u32(odd_row), m);
        else
            other = load_at<uint16_t>(u.samples, other_place + lane_u32(odd_row), m);
        e = ((other * s.factor + s.rounding) & lane_u32(~3u)) | lane_u32(2);
    }
    e = as_u32(dot4(s.up, weights, dot4(s.own, s.beside, as_i32(e))));
    lane_u32 context = load_at<uint16_t>(u.tables, lane_u32(layout::buckets_at) + e);
    lane_u32 slot = s.x & lane_u32(WAVE_PROB_SUM - 1);
    lane_u32 token = load_at<uint8_t>(u.tables, context + slot);
    lane_u32 entry =
        load_at<uint32_t>(u.tables, context + token * lane_u32(4) + lane_u32(WAVE_PROB_SUM));
    entry = entry + slot; /* frequency, and the slot's number among the token's */
    lane_u32 x = (entry >> lane_u32(16)) * (s.x >> lane_u32(10)) + (entry & lane_u32(0xffff));
    lane_bool takes = x < lane_u32(65536);
    lane_bool exists = lane_bool(true);
    if (!full) {
        lane_bool is_front = lane_id() <= lane_u32(front);
        lane_u32 column = (lane_u32(t) - lane_u32(2) * lane_id()) & lane_u32(63);
        lane_bool active =
            lane_id() < select(is_front, lane_u32(part.front_rows), lane_u32(part.rear_rows));
        active = active & (column < lane_u32(u.width));
        exists = select(is_front, lane_bool(part.has_front), lane_bool(part.has_rear));
        takes = takes & active;
        x = select(active, x, s.x);
        token = select(active, token, lane_u32(0));
    }
    uint32_t takers = votes(takes);
    lane_u32 word = load_at<uint16_t>(
        u.window, lane_u32(s.at) + lane_u32(2) * popc(lane_u32(takers) & mask_below()));
    s.x = select(takes, x << lane_u32(16) | word, x);
    s.at += 2 * popc(takers);
    s.own = pick_bytes(token, s.own, lane_u32(0x1140));
    s.token = token;
    if (bits == 8)
        store_at<uint8_t>(u.samples, place + lane_u32(odd_row), token, exists);
    else
        store_at<uint16_t>(u.samples, place + lane_u32(odd_row), token, exists);
}

/* Where bands begin: steps 64 phase and the 63 that follow. */
template <int bits, bool full, bool crossed>
PSTI_LANES void wave_token_steps(const wave_unit &u, wave_tokens &s, uint32_t phase,
                                 const wave_part &part, const wave_kind &kind, bool is_top)
{
    const bool is_last = phase == u.n_coded * u.bands; /* which lies in the first rows */
    const uint32_t n = is_last ? 62 : 64, row_nbytes = wave_layout<bits>::row_nbytes;
    const uint32_t first = WAVE_EDGE * phase * row_nbytes, fold = is_last ? first : 0;
    for (uint32_t i = 0; i < n; i += 2) {
        const uint32_t t = WAVE_EDGE * phase + i, front = i >> 1;
        if (i == 2) { /* the second row of a plane has nothing two rows above */
            wave_kind second = kind;
            second.above = is_top ? kind.above & 0x00ffffff : kind.above;
            wave_enter(s, second, lane_id() == lane_u32(1));
        } else if (is_top && i > 0) {
            wave_enter(s, kind, lane_id() == lane_u32(front));
        }
        const lane_u32 place = lane_u32(first + wave_row<bits>(i)) ^ wave_place<bits>();
        const lane_u32 other = place - s.back_nbytes;
        wave_token_step<bits, full, crossed, false>(u, s, t, part, front, place - lane_u32(fold),
                                                    other);
        wave_token_step<bits, full, crossed, true>(u, s, t + 1, part, front, place - lane_u32(fold),
                                                   other);
        if (s.at >= 128)
            wave_refill(u, s);
    }
}

template <int bits>
PSTI_LANES void wave_token_phase(const wave_unit &u, wave_tokens &s, uint32_t phase)
{
    const uint32_t n_bands = u.n_coded * u.bands, rows = u.height;
    const uint32_t band = phase & (u.bands - 1), coded = phase / u.bands;
    const bool has_front = phase < n_bands, is_top = band == 0;
    const uint32_t rear_band = (phase - 1) & (u.bands - 1);
    wave_part part = {has_front, phase > 0, 0, 0};
    if (has_front)
        part.front_rows = rows > 32 * band ? rows - 32 * band : 0;
    if (phase > 0)
        part.rear_rows = rows > 32 * rear_band ? rows - 32 * rear_band : 0;
    wave_kind kind = {0, 0, 0, 0, 0};
    if (has_front) {
        kind = wave_kind_of(u, coded, wave_layout<bits>::row_nbytes);
        wave_kind first = kind;
        first.above = is_top ? 0 : kind.above; /* nothing is above a plane's first row */
        wave_enter(s, first, lane_id() == lane_u32(0));
    }
    bool full = has_front && phase > 0 && u.width == WAVE_EDGE && part.front_rows >= 32 &&
                part.rear_rows >= 32;
    bool crossed = coded > 0 && u.transform != 0;
    if (!full)
        wave_token_steps<bits, false, true>(u, s, phase, part, kind, is_top);
    else if (crossed)
        wave_token_steps<bits, true, true>(u, s, phase, part, kind, is_top);
    else
        wave_token_steps<bits, true, false>(u, s, phase, part, kind, is_top);
}

/* All tokens; false: words do not end the states. Leaves what they carry in u.states. */
template <int bits> PSTI_LANES bool wave_decode_tokens(wave_unit &u)
{
    wave_tokens s;
    const lane_u32 none = lane_u32(0);
    s.x = u.states;
    s.token = s.own = s.up = none;
    s.above = s.beside = s.factor = s.rounding = s.back_nbytes = none;
    s.at = 128;
    s.n_chunks = 0;
    wave_fetch(u, s);
    s.next = wave_fetched(u, s);
    wave_fetch(u, s);
    wave_refill(u, s);
    for (uint32_t phase = 0; phase <= u.n_coded * u.bands; phase++)
        wave_token_phase<bits>(u, s, phase);
    u.states = s.x;
    uint32_t n_taken = (s.n_chunks - 3) * 128 + s.at;
    return n_taken == u.nbytes - u.words_at && every((s.x >> lane_u32(16)) == lane_u32(1));
}

/* Signs and raw bits
 * ------------------------------------------------------------------------------------- */

/* The bits from raw_at on: those of the unit, then what the states carry. From the word in which
 * raw_end lies on, the window holds them. */
PSTI_LANES void wave_open_bits(const wave_unit &u)
{
    lane_u32 pair = lane_id() * lane_u32(2);
    lane_u32 carried = (shuffle(u.states, pair) & lane_u32(0xffff)) |
                       shuffle(u.states, pair + lane_u32(1)) << lane_u32(16);
    carried = select(lane_id() < lane_u32(WAVE_STATE_NBYTES / 4), carried, lane_u32(0));
    uint32_t shift = 8 * (u.raw_end & 3);
    lane_u32 before = shift_up(carried, 1), words = carried;
    before = select(lane_id() == lane_u32(0),
                    lane_u32(load_uniform(u.words, u.raw_end >> 2) << ((32 - shift) & 31)), before);
    if (shift > 0)
        words = carried << lane_u32(shift) | before >> lane_u32(32 - shift);
    warp_sync();
    store_at<uint32_t>(u.window, lane_id() * lane_u32(4), words);
    warp_sync();
}

PSTI_LANES lane_u32 wave_tail_word(const wave_unit &u, lane_u32 i)
{
    lane_u32 first = lane_u32(u.raw_end >> 2), last = lane_u32(WAVE_TAIL - 1);
    lane_bool is_tail = i >= first;
    lane_u32 k = select(is_tail, i - first, lane_u32(0));
    k = select(k < last, k, last);
    return select(is_tail, load_at<uint32_t>(u.window, k * lane_u32(4)),
                  load(u.words, i, !is_tail));
}

/* Bits `at`.. of the unit and of what follows, 32 to each lane that wants them. */
PSTI_LANES lane_u32 wave_bits(const wave_unit &u, lane_u32 at, lane_bool m)
{
    lane_u32 i = at >> lane_u32(5);
    if (some(m & (i + lane_u32(1) >= lane_u32(u.raw_end >> 2))))
        return funnel_right(wave_tail_word(u, i), wave_tail_word(u, i + lane_u32(1)),
                            at & lane_u32(31));
    return funnel_right(load(u.words, i, m), load(u.words, i + lane_u32(1), m), at & lane_u32(31));
}

/* The lanes whose samples of a step lie in row t - those of its last 62 steps in its first rows. */
PSTI_LANES lane_bool wave_lanes_of(const wave_unit &u, uint32_t t)
{
    lane_bool is_front = lane_id() <= lane_u32((t & 63) >> 1);
    return select(is_front, lane_bool(t < u.n_rows), lane_bool(t >= WAVE_EDGE));
}

/* Tokens get their signs. Returns the bit behind the last sign. */
PSTI_LANES uint32_t wave_find_signs16(const wave_unit &u, bool &has_large)
{
    uint32_t at = 8 * u.raw_at;
    lane_bool large = lane_bool(false);
    for (uint32_t t = 0; t < u.n_rows + 62; t++) {
        lane_bool here = wave_lanes_of(u, t);
        lane_u32 place = lane_u32(wave_row<16>(t < u.n_rows ? t : t - u.n_rows)) ^ wave_place<16>();
        lane_i32 v = wave_load_signed<16>(u, place, here);
        lane_bool is_some = v != lane_i32(0);
        uint32_t which = votes(is_some);
        if (which == 0)
            continue;
        lane_u32 sign = lane_u32(at) + popc(lane_u32(which) & mask_below());
        lane_bool negative = (wave_bits(u, sign, is_some) & lane_u32(1)) != lane_u32(0);
        wave_store_signed<16>(u, place, -v, is_some & negative);
        large = large | (v >= lane_i32(WAVE_DIRECT));
        at += popc(which);
    }
    has_large = some(large);
    return at;
}

/* Signed tokens become residuals. Returns the bit behind the last. */
PSTI_LANES uint32_t wave_find_raw_bits16(const wave_unit &u, uint32_t at)
{
    for (uint32_t t = 0; t < u.n_rows + 62; t++) {
        lane_bool here = wave_lanes_of(u, t);
        lane_u32 place = lane_u32(wave_row<16>(t < u.n_rows ? t : t - u.n_rows)) ^ wave_place<16>();
        lane_i32 v = wave_load_signed<16>(u, place, here);
        lane_bool negative = v < lane_i32(0);
        lane_u32 token = as_u32(select(negative, -v, v));
        lane_bool large = token >= lane_u32(WAVE_DIRECT);
        if (!some(large))
            continue;
        lane_u32 k = token - lane_u32(WAVE_DIRECT + 1);
        lane_bool is_first = token == lane_u32(WAVE_DIRECT);
        lane_u32 n = select(is_first, lane_u32(3), (k >> lane_u32(1)) + lane_u32(4));
        n = select(large, n, lane_u32(0));
        lane_u32 base =
            select(is_first, token, ((k & lane_u32(1)) + lane_u32(2)) << (n & lane_u32(15)));
        lane_u32 from = lane_u32(at);
        PSTI_UNROLL
        for (uint32_t b = 0; b < 4; b++) {
            uint32_t which = votes((n >> lane_u32(b) & lane_u32(1)) != lane_u32(0));
            from = from + (popc(lane_u32(which) & mask_below()) << lane_u32(b));
            at += popc(which) << b;
        }
        lane_u32 raw = wave_bits(u, from, large) & ((lane_u32(1) << n) - lane_u32(1));
        lane_i32 magnitude = as_i32(base + raw);
        wave_store_signed<16>(u, place, select(negative, -magnitude, magnitude), large);
    }
    return at;
}

/* Of 8 bits, 16 rows at a time: each lane has 16 tokens that follow one another, as four words. */
static const uint32_t WAVE_CHUNK = 16, WAVE_ONES = 0x01010101, WAVE_TOPS = 0x80808080;

struct wave_chunk {
    lane_u32 places[4], words[4];
    lane_u32 live[4]; /* bytes of the steps at hand: 255 */
};

/* The four bytes that begin at byte `at`, as far as they are below byte `end`. */
PSTI_LANES lane_u32 wave_bytes_below(lane_u32 end, lane_u32 at)
{
    lane_i32 n = as_i32(end - at);
    n = wave_least(wave_most(n, lane_i32(0)), lane_i32(4));
    return select(n == lane_i32(4), lane_u32(~0u),
                  (lane_u32(1) << (as_u32(n) * lane_u32(8) & lane_u32(31))) - lane_u32(1));
}

/* Steps t .. t + 15, some of which may be behind the last. */
PSTI_LANES void wave_load_chunk(const wave_unit &u, uint32_t t, wave_chunk &chunk)
{
    const uint32_t first = t < u.n_rows ? t : t - u.n_rows;
    const lane_u32 row = wave_rows<8>(lane_u32(first) + (lane_id() >> lane_u32(1)));
    const lane_u32 half = (lane_id() & lane_u32(1)) * lane_u32(16);
    /* Lanes of the band that begins, of the row's. */
    const lane_u32 n_front = lane_u32((first & 63) / 2 + 1) + (lane_id() >> lane_u32(2));
    PSTI_UNROLL
    for (uint32_t k = 0; k < 4; k++) {
        chunk.places[k] = row ^ (half + lane_u32(4 * k));
        chunk.words[k] = load_at<uint32_t>(u.samples, chunk.places[k]);
        chunk.live[k] = lane_u32(~0u);
        if (t < WAVE_EDGE || t >= u.n_rows) {
            chunk.live[k] = wave_bytes_below(n_front, half + lane_u32(4 * k));
            if (t >= u.n_rows)
                chunk.live[k] = ~chunk.live[k];
        }
    }
}

/* 1 in each byte that is not 0; bytes are below 128. */
PSTI_LANES lane_u32 wave_nonzero_bytes(lane_u32 v)
{
    return ((v + lane_u32(0x7f7f7f7f)) & lane_u32(WAVE_TOPS)) >> lane_u32(7);
}
PSTI_LANES lane_u32 wave_sum_bytes(lane_u32 v) { return v * lane_u32(WAVE_ONES) >> lane_u32(24); }

/* Tokens that are not 0, of a word, have their signs, lowest first: 255 in each that is negative.
 * `some`: 1 in those bytes. */
PSTI_LANES lane_u32 wave_spread_signs(lane_u32 some, lane_u32 signs)
{
    /* The top of byte i is sign i; byte i of the result is the top of the byte whose number is how
     * many of `some` lie below it. */
    lane_u32 tops = (signs & lane_u32(15)) * lane_u32(0x10204080) & lane_u32(WAVE_TOPS);
    lane_u32 nibbles = pick_bytes(some | some >> lane_u32(4), lane_u32(0), lane_u32(0x4420));
    lane_u32 which = nibbles * lane_u32(0x1110) + lane_u32(0x8888);
    return pick_bytes(tops, tops, which) & (some * lane_u32(255));
}

/* Tokens get their signs. Returns the bit behind the last sign. */
PSTI_LANES uint32_t wave_find_signs8(const wave_unit &u, bool &has_large)
{
    uint32_t at = 8 * u.raw_at;
    lane_u32 large = lane_u32(0);
    for (uint32_t t = 0; t < u.n_rows + WAVE_EDGE; t += WAVE_CHUNK) {
        wave_chunk chunk;
        lane_u32 is_some[4], sum = lane_u32(0);
        wave_load_chunk(u, t, chunk);
        PSTI_UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            lane_u32 tokens = chunk.words[k] & chunk.live[k];
            is_some[k] = wave_nonzero_bytes(tokens);
            sum = sum + is_some[k];
            large = large | (tokens + lane_u32((128 - WAVE_DIRECT) * WAVE_ONES));
        }
        lane_u32 n = wave_sum_bytes(sum), end = scan_add(n);
        lane_u32 signs = wave_bits(u, lane_u32(at) + end - n, n > lane_u32(0));
        at += lane_of(end, PSTI_WARP - 1);
        PSTI_UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            lane_u32 negative = wave_spread_signs(is_some[k], signs);
            signs = signs >> wave_sum_bytes(is_some[k]);
            /* Nothing is carried from byte to byte: no token that has a sign is 0. */
            store_at<uint32_t>(u.samples, chunk.places[k],
                               (chunk.words[k] ^ negative) + (negative & is_some[k]));
        }
    }
    has_large = some((large & lane_u32(WAVE_TOPS)) != lane_u32(0));
    return at;
}

/* The large tokens of a word become magnitudes. `large`: the tops of their bytes; `from`: where
 * their raw bits begin, and end. */
PSTI_LANES lane_u32 wave_take_raw_bits(const wave_unit &u, lane_u32 word, lane_u32 large,
                                       lane_u32 &from)
{
    while (some(large != lane_u32(0))) {
        lane_bool m = large != lane_u32(0);
        lane_u32 shift = select(m, ctz(large) - lane_u32(7), lane_u32(0));
        lane_i32 v = as_i32((word >> shift) << lane_u32(24)) >> lane_i32(24);
        lane_bool negative = v < lane_i32(0);
        lane_u32 token = as_u32(select(negative, -v, v));
        lane_bool is_first = token == lane_u32(WAVE_DIRECT);
        lane_u32 n = ((token + lane_u32(1) - lane_u32(WAVE_DIRECT)) >> lane_u32(1)) + lane_u32(3);
        n = select(m, n, lane_u32(0));
        lane_u32 base = select(is_first, token, ((token + lane_u32(1)) & lane_u32(1)) + lane_u32(2))
                        << select(is_first, lane_u32(0), n);
        lane_u32 raw = wave_bits(u, from, m) & ((lane_u32(1) << n) - lane_u32(1));
        lane_u32 made = as_u32(select(negative, -as_i32(base + raw), as_i32(base + raw)));
        lane_u32 others = ~(lane_u32(255) << shift);
        word = select(m, (word & others) | (made & lane_u32(255)) << shift, word);
        from = from + n;
        large = large & (large - lane_u32(1));
    }
    return word;
}

/* Signed tokens become residuals. Returns the bit behind the last. */
PSTI_LANES uint32_t wave_find_raw_bits8(const wave_unit &u, uint32_t at)
{
    for (uint32_t t = 0; t < u.n_rows + WAVE_EDGE; t += WAVE_CHUNK) {
        wave_chunk chunk;
        lane_u32 large[4], any = lane_u32(0), sum = lane_u32(0);
        wave_load_chunk(u, t, chunk);
        PSTI_UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            lane_u32 v = chunk.words[k] & chunk.live[k];
            lane_u32 one = v >> lane_u32(7) & lane_u32(WAVE_ONES); /* in negative ones */
            v = (v ^ one * lane_u32(255)) + one;
            large[k] = (v + lane_u32((128 - WAVE_DIRECT) * WAVE_ONES)) & lane_u32(WAVE_TOPS);
            any = any | large[k];
            /* A large token has 3 bits and half of what it is above 23. */
            lane_u32 is_large = (large[k] >> lane_u32(7)) * lane_u32(255);
            v = (v & is_large) - (is_large & lane_u32((WAVE_DIRECT - 1) * WAVE_ONES));
            sum = sum + (v >> lane_u32(1) & lane_u32(0x7f7f7f7f)) +
                  (is_large & lane_u32(3 * WAVE_ONES));
        }
        if (!some(any != lane_u32(0)))
            continue;
        lane_u32 n = wave_sum_bytes(sum), end = scan_add(n), from = lane_u32(at) + end - n;
        at += lane_of(end, PSTI_WARP - 1);
        PSTI_UNROLL
        for (uint32_t k = 0; k < 4; k++)
            store_at<uint32_t>(u.samples, chunk.places[k],
                               wave_take_raw_bits(u, chunk.words[k], large[k], from));
    }
    return at;
}

template <int bits> PSTI_LANES uint32_t wave_find_signs(const wave_unit &u, bool &has_large)
{
    if (bits == 8)
        return wave_find_signs8(u, has_large);
    return wave_find_signs16(u, has_large);
}
template <int bits> PSTI_LANES uint32_t wave_find_raw_bits(const wave_unit &u, uint32_t at)
{
    if (bits == 8)
        return wave_find_raw_bits8(u, at);
    return wave_find_raw_bits16(u, at);
}

} // namespace psti

#endif
