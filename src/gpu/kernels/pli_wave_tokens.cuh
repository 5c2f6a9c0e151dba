/* pli_wave_tokens.cuh - units of mode wave with 16 bits (see pli_wave.cuh): the passes that read
 * tokens and raw bits. The first pass decodes tokens from the states and their words. The next ones
 * read signs and raw bits, and turn tokens into residuals in place. */
#ifndef PST_GPU_PLI_WAVE_TOKENS_CUH
#define PST_GPU_PLI_WAVE_TOKENS_CUH

#include "gpu/kernels/pli_wave_words.cuh"

namespace psti
{

/* Tokens
 * ------------------------------------------------------------------------------------- */

/* Weights of neighbouring activities in the sum `energy` (format-pli.md 5.6), as signed bytes,
 * times four: `above` for gUR, gU, gUL, gUU, `beside` for gL, gLL. The activity g of another plane
 * adds (g * factor + rounding) & ~3. The sum is four times `energy` before its last halving. */
struct wave_kind {
    uint32_t above, beside, factor, rounding,
        back_nbytes; /* distance to the row of the other plane */
};

struct wave_tokens {
    wave_words words;
    lane_u32 x;   /* states of the entropy coder */
    lane_u32 own; /* activities of the last two steps: gL and gLL */
    lane_u32 up;  /* activities of gUR, gU, gUL and gUU */
    lane_u32 above, beside, factor, rounding, back_nbytes; /* members of struct wave_kind with these
                                                            * names */
    lane_u32 buckets;                                      /* address of the contexts of energy 0 */
};

PSTI_LANES wave_kind wave_kind_of(const wave_unit &u, uint32_t coded)
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
        k.back_nbytes = (coded - other) * u.bands * WAVE_EDGE * wave_layout<16>::row_nbytes;
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

/* Advances state x past its token, but does not refill it. `context` is the address of the
 * context's table. */
PSTI_LANES lane_u32 wave_find_token(const wave_unit &u, lane_u32 context, lane_u32 &x)
{
    const uint32_t n_slots = wave_layout<16>::prob_sum;
    lane_u32 slot = x & lane_u32(n_slots - 1);
    lane_u32 token = load_address<uint8_t>(u.tables, context + slot);
    lane_u32 entry =
        load_address<uint32_t>(u.tables, context + token * lane_u32(4) + lane_u32(n_slots));
    entry = entry + slot; /* frequency of the token, number of its slot */
    x = (entry >> lane_u32(16)) * (x >> lane_u32(wave_layout<16>::prob_bits)) +
        (entry & lane_u32(0xffff));
    return token;
}

/* Decodes the tokens of step t, which is number k of several steps whose rows are stored alike.
 * `crossed`: contexts may depend on other planes. `full`: all lanes are active. `place` and
 * `other_at` are addresses for the first of these steps. `front` is the lane that begins a band in
 * this step or in the one before. */
template <bool full, bool crossed, int k>
PSTI_LANES void wave_token_step(const wave_unit &u, wave_tokens &s, uint32_t t,
                                const wave_part &part, uint32_t front, lane_u32 place,
                                lane_u32 other_at)
{
    const lane_u32 row = lane_u32(k * wave_layout<16>::row_nbytes);
    lane_u32 sent = pick_bytes(s.own, s.up, lane_u32(0x0060));
    lane_u32 above = shuffle(sent, lane_id() + lane_u32(31));
    s.up = pick_bytes(above, s.up, lane_u32(0x1540));
    /* A lane at column 0 has no left neighbour, and a lane at column 63 has no right neighbour. */
    lane_u32 weights;
    if (k % 2 != 0) {
        lane_bool last = lane_id() == lane_u32((front + 1) & 31);
        weights = select(last, s.above & lane_u32(0xffffff00), s.above);
    } else {
        lane_bool first = lane_id() == lane_u32(front);
        s.own = select(first, lane_u32(0), s.own);
        weights = select(first, s.above & lane_u32(0xff00ffff), s.above);
    }
    lane_u32 e = s.buckets;
    if (crossed) {
        lane_u32 other = load_address<uint16_t>(u.window, other_at + row);
        e = e + ((other * s.factor + s.rounding) & lane_u32(~3u));
    }
    e = as_u32(dot4(s.up, weights, dot4(s.own, s.beside, as_i32(e))));
    lane_u32 context = load_address<uint16_t>(u.tables, e), x = s.x;
    lane_u32 found = wave_find_token(u, context, x);
    lane_bool takes = x < lane_u32(1u << 16);
    lane_bool exists = lane_bool(true);
    if (!full) {
        lane_bool is_front = lane_id() <= lane_u32(front);
        lane_u32 column = (lane_u32(t) - lane_u32(2) * lane_id()) & lane_u32(63);
        lane_bool active = column < select(is_front, part.front, part.rear);
        /* The rows after the last band are those of the first band. Their tokens are stored
         * already. */
        exists = select(is_front, lane_bool(part.has_front), exists);
        takes = takes & active;
        x = select(active, x, s.x);
        found = select(active, found, lane_u32(0));
    }
    lane_u32 word = wave_take_words<uint16_t>(u, s.words, takes);
    s.own = pick_bytes(found, s.own, lane_u32(0x1140));
    s.x = select(takes, x << lane_u32(16) | word, x);
    store_at<uint16_t>(u.samples, place + row, found, exists);
}

/* Decodes the two steps in which lane `front` begins a band. */
template <bool full, bool crossed>
PSTI_LANES void wave_token_pair(const wave_unit &u, wave_tokens &s, uint32_t t,
                                const wave_part &part, const wave_kind &kind, bool is_top,
                                lane_u32 from, lane_u32 place)
{
    const uint32_t front = (t & 63) >> 1;
    const bool is_alike = full && !crossed; /* all lanes use contexts of the same kind */
    if (front == 1) {                       /* row 1 has no row two above it */
        wave_kind second = kind;
        second.above = is_top ? kind.above & 0x00ffffff : kind.above;
        if (is_alike)
            s.above = select(lane_id() == lane_u32(1), lane_u32(second.above), s.above);
        else
            wave_enter(s, second, lane_id() == lane_u32(1));
    } else if (is_top && front > 0 && !is_alike) {
        wave_enter(s, kind, lane_id() == lane_u32(front));
    }
    /* Lanes whose context does not depend on another plane read from any valid address. */
    const lane_u32 samples = lane_u32(s.words.window + wave_layout<16>::samples_at);
    const lane_u32 other =
        select(s.factor == lane_u32(0), lane_u32(s.words.window), samples + from - s.back_nbytes);
    wave_token_step<full, crossed, 0>(u, s, t, part, front, place, other);
    wave_token_step<full, crossed, 1>(u, s, t + 1, part, front, place, other);
}

/* Decodes steps 64 phase to 64 phase + 63. In these steps lanes begin band number `phase`. */
template <bool full, bool crossed>
PSTI_LANES void wave_token_steps(const wave_unit &u, wave_tokens &s, uint32_t phase,
                                 const wave_part &part, const wave_kind &kind, bool is_top)
{
    const bool is_last = phase == u.n_coded * u.bands; /* the last band uses the first rows */
    const uint32_t first = WAVE_EDGE * phase * wave_layout<16>::row_nbytes;
    const lane_u32 fold = lane_u32(is_last ? first : 0);
    for (uint32_t i = 0; i < WAVE_EDGE; i += 2) {
        const uint32_t t = WAVE_EDGE * phase + i;
        const lane_u32 from = lane_u32(first + wave_row<16>(i)) ^ wave_place<16>();
        const lane_u32 place = from - fold;
        wave_token_pair<full, crossed>(u, s, t, part, kind, is_top, from, place);
        /* Half a window of words is enough for two steps. */
        if (s.words.at - s.words.window >= 128)
            wave_refill(u, s.words);
    }
}

PSTI_LANES void wave_token_phase(const wave_unit &u, wave_tokens &s, uint32_t phase)
{
    const wave_part part = wave_part_of(u, phase, u.width);
    const uint32_t coded = phase / u.bands;
    const bool is_top = (phase & (u.bands - 1)) == 0;
    wave_kind kind = {0, 0, 0, 0, 0};
    if (part.has_front) {
        kind = wave_kind_of(u, coded);
        wave_kind first = kind;
        first.above = is_top ? 0 : kind.above; /* row 0 of a plane has no row above it */
        wave_enter(s, first, lane_id() == lane_u32(0));
    }
    bool full = u.width == WAVE_EDGE && part.all_rows;
    bool crossed = coded > 0 && u.transform != 0;
    if (!full)
        wave_token_steps<false, true>(u, s, phase, part, kind, is_top);
    else if (crossed)
        wave_token_steps<true, true>(u, s, phase, part, kind, is_top);
    else
        wave_token_steps<true, false>(u, s, phase, part, kind, is_top);
}

/* Decodes all tokens of the unit. Leaves the payload in u.states. Returns false if, when the words
 * end, the states are not as the format requires (format-pli.md 0). */
PSTI_LANES bool wave_decode_tokens16(wave_unit &u)
{
    wave_tokens s;
    const lane_u32 none = lane_u32(0);
    s.x = u.states;
    s.own = s.up = none;
    s.above = s.beside = s.factor = s.rounding = s.back_nbytes = none;
    s.buckets = lane_u32(address_of(u.tables) + wave_layout<16>::buckets_at + 2);
    wave_open_words(u, s.words);
    for (uint32_t phase = 0; phase <= u.n_coded * u.bands; phase++)
        wave_token_phase(u, s, phase);
    u.states = s.x;
    return wave_ends_well<16>(u, s.words, s.x, 1);
}

/* Signs and raw bits of samples of 16 bits
 * ------------------------------------------------------------------------------------- */

/* Returns a mask of the lanes whose samples of a step are stored in row t. The unit's last 62 steps
 * are stored in its first rows. */
PSTI_LANES lane_bool wave_lanes_of(const wave_unit &u, uint32_t t)
{
    lane_bool is_front = lane_id() <= lane_u32((t & 63) >> 1);
    return select(is_front, lane_bool(t < u.n_rows), lane_bool(t >= WAVE_EDGE));
}

/* Reads the signs of all tokens. Returns the number of the bit after the last sign. */
PSTI_LANES uint32_t wave_find_signs16(const wave_unit &u, bool &has_large)
{
    uint32_t at = 8 * u.raw_at;
    lane_bool large = lane_bool(false);
    for (uint32_t t = 0; t < u.n_rows + 62; t++) {
        lane_bool here = wave_lanes_of(u, t);
        lane_u32 place = lane_u32(wave_row<16>(t < u.n_rows ? t : t - u.n_rows)) ^ wave_place<16>();
        lane_i32 v = load_at<int16_t>(u.samples, place, here);
        lane_bool is_some = v != lane_i32(0);
        uint32_t which = votes(is_some);
        if (which == 0)
            continue;
        lane_u32 sign = lane_u32(at) + popc(lane_u32(which) & mask_below());
        lane_bool negative = (wave_bits(u, sign, is_some) & lane_u32(1)) != lane_u32(0);
        store_at<int16_t>(u.samples, place, -v, is_some & negative);
        large = large | (v >= lane_i32(WAVE_DIRECT));
        at += popc(which);
    }
    has_large = some(large);
    return at;
}

/* Turns signed tokens into residuals by their raw bits. Returns the number of the first unused
 * bit. */
PSTI_LANES uint32_t wave_find_raw_bits16(const wave_unit &u, uint32_t at)
{
    for (uint32_t t = 0; t < u.n_rows + 62; t++) {
        lane_bool here = wave_lanes_of(u, t);
        lane_u32 place = lane_u32(wave_row<16>(t < u.n_rows ? t : t - u.n_rows)) ^ wave_place<16>();
        lane_i32 v = load_at<int16_t>(u.samples, place, here);
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
        store_at<int16_t>(u.samples, place, select(negative, -magnitude, magnitude), large);
    }
    return at;
}

PSTI_LANES uint32_t wave_find_residuals16(const wave_unit &u)
{
    bool has_large;
    uint32_t end = wave_find_signs16(u, has_large);
    warp_sync();
    return has_large ? wave_find_raw_bits16(u, end) : end;
}

} // namespace psti

#endif
