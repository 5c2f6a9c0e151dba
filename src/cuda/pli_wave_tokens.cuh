/* pli_wave_tokens.cuh - units of mode wave (see pli_wave.cuh): the passes that read bits. Tokens
 * come from the states and their words, of 8 bits as activities; then signs and raw bits make
 * residuals of them, in place. */
#ifndef PST_CUDA_PLI_WAVE_TOKENS_CUH
#define PST_CUDA_PLI_WAVE_TOKENS_CUH

#include "cuda/pli_wave_head.cuh"

namespace psti
{

/* Tokens
 * ------------------------------------------------------------------------------------- */

/* How activities around a sample make its context: signed bytes, twice what is added, for what lies
 * above (UR, U, UL, UU) and beside (L, LL), and for another plane's activity g:
 * (g * factor + rounding) & ~3. Twice E then stands above the lowest two bits. */
struct wave_kind {
    uint32_t above, beside, factor, rounding, back_nbytes; /* to the other plane's row */
};

struct wave_tokens {
    lane_u32 x;                                            /* states; of 8 bits 65536 more */
    lane_u32 own;                                          /* of the last two steps: L, LL */
    lane_u32 up;                                           /* UR, U, UL, UU */
    lane_u32 above, beside, factor, rounding, back_nbytes; /* struct wave_kind */
    /* Words: two times 128 bytes are in the window, the second half in `next`, too, and what will
     * follow is on its way. */
    uint32_t at, window; /* addresses: of the next word; where the window begins */
    uint32_t n_chunks;
    lane_u32 next, low, high;
    lane_u32 buckets; /* address of the contexts of E = 0 */
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

/* x goes on behind its token, but for the word that it may need. What is returned is the token; of
 * 8 bits an entry of the table: its bytes are 0, frequency, number of the slot, activity. */
PSTI_LANES lane_u32 wave_find8(const wave_unit &u, lane_u32 context, lane_u32 &x)
{
    const lane_u32 slot = x * lane_u32(4) & lane_u32(4 * (wave_layout<8>::prob_sum - 1));
    const lane_u32 entry = load_at<uint32_t>(u.tables, context + slot);
    /* Byte 2 of x is 1, and becomes it again. */
    x = dot4_unsigned(entry, x, lane_u32(1u << 16));
    return entry;
}
PSTI_LANES lane_u32 wave_find16(const wave_unit &u, lane_u32 context, lane_u32 &x)
{
    const uint32_t n_slots = wave_layout<16>::prob_sum;
    lane_u32 slot = x & lane_u32(n_slots - 1);
    lane_u32 token = load_at<uint8_t>(u.tables, context + slot);
    lane_u32 entry = load_at<uint32_t>(u.tables, context + token * lane_u32(4) + lane_u32(n_slots));
    entry = entry + slot; /* frequency, and the slot's number among the token's */
    x = (entry >> lane_u32(16)) * (x >> lane_u32(wave_layout<16>::prob_bits)) +
        (entry & lane_u32(0xffff));
    return token;
}
template <int bits> PSTI_LANES lane_u32 wave_find(const wave_unit &u, lane_u32 context, lane_u32 &x)
{
    return bits == 8 ? wave_find8(u, context, x) : wave_find16(u, context, x);
}

/* Which lanes a step has, where not all of them: how many columns their rows have in the band that
 * begins and in the one behind it, 0 if there is no such row; and whether there is that band. */
struct wave_part {
    bool has_front;
    lane_u32 front, rear;
};

/* Step t, which is number `k` of some whose rows are stored alike. `crossed`: contexts may look at
 * other planes. `full`: all lanes are active. `place`, `other_at`: of the first of these steps;
 * `front`: the lane that begins a band in this step or the one before. */
template <int bits, bool full, bool crossed, int k>
PSTI_LANES void wave_token_step(const wave_unit &u, wave_tokens &s, uint32_t t,
                                const wave_part &part, uint32_t front, lane_u32 place,
                                lane_u32 other_at)
{
    typedef wave_layout<bits> layout;
    const lane_u32 row = lane_u32(k * layout::row_nbytes);
    lane_u32 sent = pick_bytes(s.own, s.up, lane_u32(0x0060));
    lane_u32 above = shuffle(sent, lane_id() + lane_u32(31));
    s.up = pick_bytes(above, s.up, lane_u32(0x1540));
    /* At column 0 nothing is left of a lane, at column 63 nothing is right. */
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
        lane_u32 other;
        if (bits == 8)
            other = load_address<uint8_t>(u.window, other_at + row);
        else
            other = load_address<uint16_t>(u.window, other_at + row);
        e = e + ((other * s.factor + s.rounding) & lane_u32(~3u));
    }
    e = as_u32(dot4(s.up, weights, dot4(s.own, s.beside, as_i32(e))));
    lane_u32 context = load_address<uint16_t>(u.tables, e), x = s.x;
    lane_u32 found = wave_find<bits>(u, context, x);
    lane_bool takes = x < lane_u32(layout::state_unit + (1u << bits));
    lane_bool exists = lane_bool(true);
    if (!full) {
        lane_bool is_front = lane_id() <= lane_u32(front);
        lane_u32 column = (lane_u32(t) - lane_u32(2) * lane_id()) & lane_u32(63);
        lane_bool active = column < select(is_front, part.front, part.rear);
        /* Behind the last band rows are those of the first, which have their tokens. */
        exists = select(is_front, lane_bool(part.has_front), exists);
        takes = takes & active;
        x = select(active, x, s.x);
        found = select(active, found, lane_u32(0));
    }
    uint32_t takers = votes(takes);
    lane_u32 at = lane_u32(s.at) + popc(lane_u32(takers) & mask_below()) * lane_u32(bits / 8);
    if (bits == 8) {
        lane_u32 word = load_address<uint8_t>(u.window, at);
        s.own = pick_bytes(found, s.own, lane_u32(0x0043));
        s.x = select(takes, pick_bytes(x, word, lane_u32(0x3204)), x);
        store_at<uint8_t>(u.samples, place + row, s.own, exists);
    } else {
        lane_u32 word = load_address<uint16_t>(u.window, at);
        s.own = pick_bytes(found, s.own, lane_u32(0x1140));
        s.x = select(takes, x << lane_u32(16) | word, x);
        store_at<uint16_t>(u.samples, place + row, found, exists);
    }
    s.at += layout::sample_nbytes * popc(takers);
}

/* Two steps, those in which lane `front` begins a band. */
template <int bits, bool full, bool crossed, int k>
PSTI_LANES void wave_token_pair(const wave_unit &u, wave_tokens &s, uint32_t t,
                                const wave_part &part, const wave_kind &kind, bool is_top,
                                lane_u32 from, lane_u32 place)
{
    const uint32_t front = (t & 63) >> 1;
    const bool is_alike = full && !crossed; /* the kind of all lanes */
    if (front == 1) { /* the second row of a plane has nothing two rows above */
        wave_kind second = kind;
        second.above = is_top ? kind.above & 0x00ffffff : kind.above;
        if (is_alike)
            s.above = select(lane_id() == lane_u32(1), lane_u32(second.above), s.above);
        else
            wave_enter(s, second, lane_id() == lane_u32(1));
    } else if (is_top && front > 0 && !is_alike) {
        wave_enter(s, kind, lane_id() == lane_u32(front));
    }
    /* Lanes that look at no other plane read what does not matter. */
    const lane_u32 samples = lane_u32(s.window + wave_layout<bits>::samples_at);
    const lane_u32 other =
        select(s.factor == lane_u32(0), lane_u32(s.window), samples + from - s.back_nbytes);
    wave_token_step<bits, full, crossed, k>(u, s, t, part, front, place, other);
    wave_token_step<bits, full, crossed, k + 1>(u, s, t + 1, part, front, place, other);
}

/* Where bands begin: steps 64 phase and the 63 that follow. */
template <int bits, bool full, bool crossed>
PSTI_LANES void wave_token_steps(const wave_unit &u, wave_tokens &s, uint32_t phase,
                                 const wave_part &part, const wave_kind &kind, bool is_top)
{
    const bool is_last = phase == u.n_coded * u.bands; /* which lies in the first rows */
    const uint32_t first = WAVE_EDGE * phase * wave_layout<bits>::row_nbytes;
    const lane_u32 fold = lane_u32(is_last ? first : 0);
    /* Half of the window is enough for 4 steps' words of 8 bits, 2 steps' of 16. */
    const uint32_t n = bits == 8 ? 4 : 2;
    for (uint32_t i = 0; i < WAVE_EDGE; i += n) {
        const uint32_t t = WAVE_EDGE * phase + i;
        const lane_u32 from = lane_u32(first + wave_row<bits>(i)) ^ wave_place<bits>();
        const lane_u32 place = from - fold;
        wave_token_pair<bits, full, crossed, 0>(u, s, t, part, kind, is_top, from, place);
        if (n == 4)
            wave_token_pair<bits, full, crossed, 2>(u, s, t + 2, part, kind, is_top, from, place);
        if (s.at - s.window >= 128)
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
    /* A band of a plane's that it needs has at least one row. */
    const uint32_t n_front = has_front ? rows - 32 * band : 0;
    const uint32_t n_rear = phase > 0 ? rows - 32 * rear_band : 0;
    const lane_u32 none = lane_u32(0), width = lane_u32(u.width);
    const wave_part part = {has_front, select(lane_id() < lane_u32(n_front), width, none),
                            select(lane_id() < lane_u32(n_rear), width, none)};
    wave_kind kind = {0, 0, 0, 0, 0};
    if (has_front) {
        kind = wave_kind_of(u, coded, wave_layout<bits>::row_nbytes);
        wave_kind first = kind;
        first.above = is_top ? 0 : kind.above; /* nothing is above a plane's first row */
        wave_enter(s, first, lane_id() == lane_u32(0));
    }
    bool full = u.width == WAVE_EDGE && n_front >= 32 && n_rear >= 32;
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
    s.x = u.states + lane_u32(wave_layout<bits>::state_unit);
    s.own = s.up = none;
    s.above = s.beside = s.factor = s.rounding = s.back_nbytes = none;
    s.buckets = lane_u32(address_of(u.tables) + wave_layout<bits>::buckets_at + 2);
    s.window = address_of(u.window);
    s.at = s.window + 128;
    s.n_chunks = 0;
    wave_fetch(u, s);
    s.next = wave_fetched(u, s);
    wave_fetch(u, s);
    wave_refill(u, s);
    for (uint32_t phase = 0; phase <= u.n_coded * u.bands; phase++)
        wave_token_phase<bits>(u, s, phase);
    u.states = s.x;
    uint32_t n_taken = (s.n_chunks - 3) * 128 + s.at - s.window;
    const uint32_t end = (wave_layout<bits>::state_unit >> bits) + 1;
    return n_taken == u.nbytes - u.words_at && every((s.x >> lane_u32(bits)) == lane_u32(end));
}

/* Signs and raw bits
 * ------------------------------------------------------------------------------------- */

/* The bits from raw_at on: those of the unit, then what the states carry. From the word in which
 * raw_end lies on, the window holds them. */
template <int bits> PSTI_LANES void wave_open_bits(const wave_unit &u)
{
    const uint32_t n_words = wave_layout<bits>::state_nbytes / 4, n = 32 / bits;
    lane_u32 carried = lane_u32(0);
    PSTI_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        lane_u32 low = shuffle(u.states, lane_id() * lane_u32(n) + lane_u32(i));
        carried = carried | (low & lane_u32((1u << bits) - 1)) << lane_u32(i * bits);
    }
    carried = select(lane_id() < lane_u32(n_words), carried, lane_u32(0));
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

PSTI_LANES uint32_t wave_find_residuals16(const wave_unit &u)
{
    bool has_large;
    uint32_t end = wave_find_signs16(u, has_large);
    warp_sync();
    return has_large ? wave_find_raw_bits16(u, end) : end;
}

/* Of 8 bits, 16 rows at a time: each lane has 16 tokens that follow one another, as four words. */
static const uint32_t WAVE_CHUNK = 16, WAVE_ONES = 0x01010101;

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
    }
    if (t >= WAVE_EDGE && t < u.n_rows)
        return;
    PSTI_UNROLL
    for (uint32_t k = 0; k < 4; k++) {
        chunk.live[k] = wave_bytes_below(n_front, half + lane_u32(4 * k));
        if (t >= u.n_rows)
            chunk.live[k] = ~chunk.live[k];
    }
}

/* Bits `at`.. of the string, 128 to each lane; `end` is not before any of them begins. */
PSTI_LANES void wave_string(const wave_unit &u, lane_u32 at, uint32_t end, lane_u32 string[4])
{
    const lane_u32 first = at >> lane_u32(5);
    lane_u32 words[5];
    if ((end >> 5) + 4 < u.raw_end >> 2) {
        PSTI_UNROLL
        for (uint32_t k = 0; k < 5; k++)
            words[k] = load(u.words, first + lane_u32(k));
    } else {
        PSTI_UNROLL
        for (uint32_t k = 0; k < 5; k++)
            words[k] = wave_tail_word(u, first + lane_u32(k));
    }
    PSTI_UNROLL
    for (uint32_t k = 0; k < 4; k++)
        string[k] = funnel_right(words[k], words[k + 1], at & lane_u32(31));
}

/* What a word's tokens are, by their activities: numbers in four nibbles. The lower three bits of
 * activities differ, but for 24, of which 7 more make 31. */
PSTI_LANES lane_u32 wave_numbers(lane_u32 activities)
{
    lane_u32 is_24 = activities >> lane_u32(4) & ~activities & lane_u32(WAVE_ONES);
    lane_u32 numbers = (activities + is_24 * lane_u32(7)) & lane_u32(7 * WAVE_ONES);
    numbers = numbers | numbers >> lane_u32(4);
    return pick_bytes(numbers, numbers, lane_u32(0x0020));
}
/* By number, of activities 0, 1, 2, 3; 12, 29, 6, 24: how many bits they have, with the sign; as
 * many ones; the least magnitude. */
PSTI_LANES lane_u32 wave_sizes(lane_u32 numbers)
{
    return pick_bytes(lane_u32(0x02010100), lane_u32(0x05030804), numbers);
}
PSTI_LANES lane_u32 wave_masks(lane_u32 numbers)
{
    return pick_bytes(lane_u32(0x03010100), lane_u32(0x1f07ff0f), numbers);
}
PSTI_LANES lane_u32 wave_bases(lane_u32 numbers)
{
    return pick_bytes(lane_u32(0x03020100), lane_u32(0x11050109), numbers);
}

/* The residuals of four tokens, whose bits follow one another from the lowest of `bits` on. `ends`:
 * where those of each end, in bytes. */
PSTI_LANES lane_u32 wave_residuals(lane_u32 numbers, lane_u32 ends, lane_u32 bits)
{
    const lane_u32 none = lane_u32(0);
    lane_u32 second = funnel_right(bits, none, ends);
    lane_u32 third = funnel_right(bits, none, ends >> lane_u32(8));
    lane_u32 fourth = funnel_right(bits, none, ends >> lane_u32(16));
    lane_u32 own = pick_bytes(pick_bytes(bits, second, lane_u32(0x0040)),
                              pick_bytes(third, fourth, lane_u32(0x0040)), lane_u32(0x5410)) &
                   wave_masks(numbers);
    lane_u32 negative = own & lane_u32(WAVE_ONES);
    lane_u32 magnitudes = wave_bases(numbers) + (own >> lane_u32(1) & lane_u32(0x7f7f7f7f));
    /* Nothing is carried from byte to byte: what has a sign is not 0. */
    return (magnitudes ^ negative * lane_u32(255)) + negative;
}

/* Activities become residuals. Returns the bit behind the last. */
PSTI_LANES uint32_t wave_find_residuals8(const wave_unit &u)
{
    uint32_t at = 8 * u.raw_at;
    for (uint32_t t = 0; t < u.n_rows + WAVE_EDGE; t += WAVE_CHUNK) {
        wave_chunk chunk;
        lane_u32 numbers[4], ends[4], string[4], sum = lane_u32(0);
        wave_load_chunk(u, t, chunk);
        PSTI_UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            numbers[k] = wave_numbers(chunk.words[k] & chunk.live[k]);
            ends[k] = wave_sizes(numbers[k]) * lane_u32(WAVE_ONES);
            sum = sum + (ends[k] >> lane_u32(24));
        }
        const lane_u32 end = scan_add(sum);
        const lane_u32 begin = lane_u32(at) + end - sum;
        at += lane_of(end, PSTI_WARP - 1);
        wave_string(u, begin, at, string);
        PSTI_UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            lane_u32 made = wave_residuals(numbers[k], ends[k], string[0]);
            store_at<uint32_t>(u.samples, chunk.places[k],
                               made | (chunk.words[k] & ~chunk.live[k]));
            for (uint32_t i = 0; i < 3 - k; i++)
                string[i] = funnel_right_most(string[i], string[i + 1], ends[k] >> lane_u32(24));
        }
    }
    return at;
}

template <int bits> PSTI_LANES uint32_t wave_find_residuals(const wave_unit &u)
{
    return bits == 8 ? wave_find_residuals8(u) : wave_find_residuals16(u);
}

} // namespace psti

#endif
