/* pli_wave.cuh - units of mode wave (docs/format-pli.md, section 5): one by a warp, whose lanes are
 * the 32 lanes of the cylinder.
 *
 * Three passes over the samples, which wait in shared memory where the cylinder has them, a row of
 * 32 for each step. The first decodes tokens: what a lane needs of the lane above comes by one
 * shuffle a step. The second finds signs and raw bits, whose places are known when all tokens are.
 * The third predicts, all planes of a place at once, and leaves samples; rows of them then go to
 * the sink. As the cylinder is closed, its last 62 steps lie in the rows of its first.
 *
 * Rows are stored so that both the 32 lanes of a step and 32 steps of a lane lie in different
 * banks: see wave_row(). */
#ifndef PST_CUDA_PLI_WAVE_CUH
#define PST_CUDA_PLI_WAVE_CUH

#include "cuda/cuda_tables.h"
#include "cuda/cuda_units.h"
#include "cuda/store.cuh"

namespace psti
{

static const uint32_t WAVE_EDGE = 64, WAVE_BLOCK = 16;
static const uint32_t WAVE_PLANES = 4, WAVE_CONSTANT = 15; /* instead of a number among the coded */
static const uint32_t WAVE_PROB_SUM = 1024;
static const uint32_t WAVE_LEFT = 1, WAVE_UP = 2, WAVE_AVERAGE = 3, WAVE_MED = 4, WAVE_OWN = 8;
static const uint32_t WAVE_DIRECT = 24; /* tokens below are magnitudes */
static const uint32_t WAVE_HEAD = 64;   /* bytes: more than all records of planes */
static const uint32_t WAVE_STATE_NBYTES = 64, WAVE_EXPONENT_NBYTES = 16;
static const uint32_t WAVE_TAIL = 20; /* words: 64 bytes at any alignment, and zeros */

/* Where things lie. */
template <int bits> struct wave_layout {
    static const uint32_t sample_nbytes = bits / 8;
    static const uint32_t n_tokens = bits == 8 ? 32 : 48;
    static const uint32_t context_nbytes =
        bits == 8 ? PSTI_CUDA_WAVE_CONTEXT8_NBYTES : PSTI_CUDA_WAVE_CONTEXT16_NBYTES;
    static const uint32_t buckets_at = PSTI_CUDA_WAVE_CONTEXTS * context_nbytes;
    static const uint32_t buckets_nbytes =
        bits == 8 ? PSTI_CUDA_WAVE_BUCKETS8_NBYTES : PSTI_CUDA_WAVE_BUCKETS16_NBYTES;
    static const uint32_t filters_at = buckets_at + buckets_nbytes;
    /* Bytes of shared memory: of a block; of each warp, if images have four channels. */
    static const uint32_t tables_nbytes = PSTI_CUDA_WAVE_TABLES_NBYTES(bits);
    static const uint32_t warp_nbytes = PSTI_CUDA_WAVE_WARP_NBYTES(bits, WAVE_PLANES);

    static const uint32_t records_at = PSTI_CUDA_WAVE_WINDOW_NBYTES;
    static const uint32_t samples_at = records_at + PSTI_CUDA_WAVE_RECORDS_NBYTES;
    static const uint32_t row_nbytes = PSTI_WARP * sample_nbytes;
};

/* What is kept of a coded plane, in words; then its filters' numbers, four to a row of blocks. */
enum wave_record {
    WAVE_R_PREDICTOR,
    WAVE_R_START,
    WAVE_R_TAP0, /* of the residuals of planes 0 and 1 */
    WAVE_R_TAP1,
    WAVE_R_LIST,
    WAVE_R_KIND,  /* of context: enum wave_kind_number */
    WAVE_R_OTHER, /* the coded plane whose tokens that looks at; CONSTANT: none */
    WAVE_R_PLANE,
    WAVE_R_NUMBERS,
    WAVE_R_WORDS = PSTI_CUDA_WAVE_RECORD_NBYTES / 4
};
enum wave_kind_number { WAVE_FIRST, WAVE_SECOND, WAVE_THIRD };

struct wave_unit {
    const uint32_t *words; /* from the byte that tells the mode on */
    uint32_t nbytes;
    uint32_t height, width, channels, transform;
    uint32_t n_coded, bands; /* bands of a plane */
    uint32_t n_rows;         /* of shared memory */
    uint32_t coded_of;       /* 4 bits a plane: its number among the coded, or CONSTANT */
    uint64_t constants;      /* 16 bits a plane */
    uint32_t raw_at, raw_end, words_at; /* in bytes */
    lane_u32 states;
    shared<uint8_t> tables, window, samples;
    shared<uint32_t> records;
};

PSTI_LANES uint32_t wave_record_of(const wave_unit &u, uint32_t coded, uint32_t field)
{
    return load_uniform(u.records, coded * WAVE_R_WORDS + field);
}

/* Where the row of step t begins, to be combined by ^ with a lane's place in it. */
template <int bits> PSTI_LANES uint32_t wave_row(uint32_t t)
{
    return bits == 8 ? t * 32 | (t & 28) : t * 64 | (t & 30) << 1;
}
template <int bits> PSTI_LANES lane_u32 wave_rows(lane_u32 t)
{
    return bits == 8 ? t * lane_u32(32) | (t & lane_u32(28))
                     : t * lane_u32(64) | (t & lane_u32(30)) << lane_u32(1);
}
template <int bits> PSTI_LANES lane_u32 wave_place()
{
    return lane_id() * lane_u32(wave_layout<bits>::sample_nbytes);
}

/* Tables
 * ------------------------------------------------------------------------------------- */

/* One context by one warp. */
template <int bits> PSTI_LANES void wave_load_context(shared<uint8_t> to, const uint16_t *first)
{
    typedef wave_layout<bits> layout;
    const lane_u32 none = lane_u32(WAVE_PROB_SUM);
    lane_u32 begins[2], ends[2];
    PSTI_UNROLL
    for (uint32_t k = 0; k < 2; k++) {
        lane_u32 token = lane_id() + lane_u32(32 * k);
        lane_bool is_one = token < lane_u32(PSTI_CUDA_WAVE_TOKENS);
        lane_bool has_next = token < lane_u32(PSTI_CUDA_WAVE_TOKENS - 1);
        begins[k] = select(is_one, load(first, token, is_one), none);
        ends[k] = select(has_next, load(first, token + lane_u32(1), has_next), none);
        store_at<uint32_t>(to, lane_u32(WAVE_PROB_SUM) + lane_u32(4) * token,
                           ((ends[k] - begins[k]) << lane_u32(16)) - begins[k],
                           token < lane_u32(layout::n_tokens));
    }
    for (uint32_t token = 0; token < layout::n_tokens; token++) {
        uint32_t begin = lane_of(token < 32 ? begins[0] : begins[1], token);
        uint32_t end = lane_of(token < 32 ? ends[0] : ends[1], token);
        for (uint32_t slot = begin; slot < end; slot += PSTI_WARP)
            store_at<uint8_t>(to, lane_u32(slot) + lane_id(), lane_u32(token),
                              lane_u32(slot) + lane_id() < lane_u32(end));
    }
}

/* Phase 0, by all warps of a block together. `constants`: struct psti_cuda_wave_constants; `from`:
 * struct psti_cuda_wave_tables, 0 the built-in ones. */
template <int bits>
PSTI_LANES void wave_load_tables(const block &b, shared<uint8_t> tables, uint64_t constants,
                                 uint64_t from)
{
    typedef wave_layout<bits> layout;
    const struct psti_cuda_wave_constants *k =
        reinterpret_cast<const struct psti_cuda_wave_constants *>(constants);
    const struct psti_cuda_wave_tables *own =
        from ? reinterpret_cast<const struct psti_cuda_wave_tables *>(from)
             : &k->built_in[bits == 16];
    for (uint32_t c = b.warp; c < PSTI_CUDA_WAVE_CONTEXTS; c += b.n_warps)
        wave_load_context<bits>(tables + c * layout::context_nbytes, own->first[c]);
    const uint32_t n_buckets = layout::buckets_nbytes / 2;
    const uint32_t n_filter_words = PSTI_CUDA_WAVE_FILTERS_NBYTES / 4;
    for (uint32_t i0 = b.warp * PSTI_WARP; i0 < n_buckets; i0 += b.n_warps * PSTI_WARP) {
        lane_u32 i = lane_u32(i0) + lane_id(), e = i >> lane_u32(bits == 8 ? 1 : 2);
        lane_u32 context = load(k->bucket, select(e < lane_u32(255), e, lane_u32(255)));
        store_at<uint16_t>(tables, lane_u32(layout::buckets_at) + lane_u32(2) * i,
                           context * lane_u32(layout::context_nbytes), i < lane_u32(n_buckets));
    }
    const uint32_t *filters = reinterpret_cast<const uint32_t *>(&k->filters[0][0]);
    for (uint32_t i0 = b.warp * PSTI_WARP; i0 < n_filter_words; i0 += b.n_warps * PSTI_WARP) {
        lane_u32 i = lane_u32(i0) + lane_id();
        store_at<uint32_t>(tables, lane_u32(layout::filters_at) + lane_u32(4) * i,
                           load(filters, i));
    }
}

/* Head
 * ------------------------------------------------------------------------------------- */

struct wave_reader {
    lane_u32 low, high; /* bytes 0..31 and 32..63 of the unit */
    uint32_t nbytes, at;
    bool is_short;
};

PSTI_LANES lane_u32 wave_bytes(const wave_reader &in, lane_u32 at)
{
    return select((at & lane_u32(32)) == lane_u32(0), shuffle(in.low, at), shuffle(in.high, at));
}

/* Where n bytes begin, which are the unit's, or is_short. */
PSTI_LANES uint32_t wave_skip(wave_reader &in, uint32_t n)
{
    uint32_t at = in.at;
    in.is_short = in.is_short || in.nbytes - at < n;
    in.at += in.is_short ? 0 : n;
    return at;
}
PSTI_LANES uint32_t wave_take(wave_reader &in, uint32_t n)
{
    uint32_t at = wave_skip(in, n);
    uint32_t v = lane_of(wave_bytes(in, lane_u32(at)), 0);
    if (n == 2)
        v |= lane_of(wave_bytes(in, lane_u32(at + 1)), 0) << 8;
    return v;
}

/* The record of coded plane number u.n_coded. */
PSTI_LANES bool wave_parse_coded(wave_unit &u, wave_reader &in, uint32_t plane, uint32_t predictor,
                                 uint32_t start)
{
    shared<uint32_t> record = u.records + u.n_coded * WAVE_R_WORDS;
    bool differs = u.transform != 0 && (plane == 1 || plane == 2);
    uint32_t kind = u.n_coded == 0 || !differs ? WAVE_FIRST : plane == 1 ? WAVE_SECOND : WAVE_THIRD;
    uint32_t tap0 = 0, tap1 = 0;
    if (predictor == WAVE_OWN) {
        uint32_t columns = (u.width + WAVE_BLOCK - 1) / WAVE_BLOCK;
        uint32_t n = columns * ((u.height + WAVE_BLOCK - 1) / WAVE_BLOCK);
        uint32_t at = wave_skip(in, (6 * n + 7) / 8);
        lane_u32 i = lane_id() & lane_u32(15), bit = i * lane_u32(6);
        lane_u32 from = lane_u32(at) + (bit >> lane_u32(3));
        lane_u32 number =
            (wave_bytes(in, from) | wave_bytes(in, from + lane_u32(1)) << lane_u32(8)) >>
            (bit & lane_u32(7));
        lane_u32 to = (i / lane_u32(columns)) * lane_u32(4) + i % lane_u32(columns);
        store_at<uint8_t>(shared_cast<uint8_t>(u.window, wave_layout<8>::records_at),
                          lane_u32((u.n_coded * WAVE_R_WORDS + WAVE_R_NUMBERS) * 4) + to,
                          number & lane_u32(63), lane_id() < lane_u32(n));
    } else if (predictor <= WAVE_MED) {
        if (differs)
            tap0 = wave_take(in, 1);
        if (differs && plane == 2)
            tap1 = wave_take(in, 1);
    } else {
        return false;
    }
    store_uniform(record, WAVE_R_PREDICTOR, predictor);
    store_uniform(record, WAVE_R_START, start);
    store_uniform(record, WAVE_R_TAP0, (uint32_t)(int32_t)(int8_t)tap0);
    store_uniform(record, WAVE_R_TAP1, (uint32_t)(int32_t)(int8_t)tap1);
    store_uniform(record, WAVE_R_LIST, differs ? plane : 0);
    store_uniform(record, WAVE_R_KIND, kind);
    store_uniform(record, WAVE_R_OTHER,
                  kind == WAVE_FIRST ? WAVE_CONSTANT : u.coded_of >> 4 * (plane - 1) & 15);
    store_uniform(record, WAVE_R_PLANE, plane);
    return true;
}

/* Bits `at`.. of the unit, 32 to each lane; the words of all lanes are the unit's or its margin. */
PSTI_LANES lane_u32 wave_unit_bits(const uint32_t *words, lane_u32 at)
{
    lane_u32 i = at >> lane_u32(5);
    return funnel_right(load(words, i), load(words, i + lane_u32(1)), at & lane_u32(31));
}

/* What follows the records: sizes and states. */
PSTI_LANES bool wave_parse_states(wave_unit &u, uint32_t at)
{
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(u.words);
    const uint32_t fixed = 2 + WAVE_EXPONENT_NBYTES + WAVE_STATE_NBYTES;
    if (u.nbytes - at < fixed)
        return false;
    uint32_t raw_nbytes = load_uniform(bytes, at) | load_uniform(bytes, at + 1) << 8;
    lane_u32 e = load(bytes, lane_u32(at + 2) + (lane_id() >> lane_u32(1)));
    lane_u32 low = lane_u32(at + 2 + WAVE_EXPONENT_NBYTES) + lane_id() * lane_u32(2);
    low = load(bytes, low) | load(bytes, low + lane_u32(1)) << lane_u32(8);
    e = e >> ((lane_id() & lane_u32(1)) * lane_u32(4)) & lane_u32(15);
    lane_u32 end = scan_add(e);
    uint32_t mantissas_nbytes = (lane_of(end, PSTI_WARP - 1) + 7) / 8;
    at += fixed;
    if (u.nbytes - at < raw_nbytes || mantissas_nbytes > raw_nbytes)
        return false;
    lane_u32 one = lane_u32(1) << e;
    lane_u32 mantissa = wave_unit_bits(u.words, lane_u32(8 * at) + end - e) & (one - lane_u32(1));
    u.states = (one | mantissa) << lane_u32(16) | low;
    u.raw_at = at + mantissas_nbytes;
    u.raw_end = at + raw_nbytes;
    u.words_at = u.raw_end;
    return ((u.nbytes - u.words_at) & 1) == 0;
}

PSTI_LANES bool wave_parse(wave_unit &u, uint32_t bits)
{
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(u.words);
    lane_u32 high = lane_id() + lane_u32(32);
    wave_reader in = {load(bytes, lane_id(), lane_id() < lane_u32(u.nbytes)),
                      load(bytes, high, high < lane_u32(u.nbytes)), u.nbytes, 1, false};
    u.n_coded = u.coded_of = 0;
    u.constants = 0;
    for (uint32_t plane = 0; plane < u.channels; plane++) {
        uint32_t predictor = wave_take(in, 1), start = wave_take(in, bits / 8);
        if (predictor != 0 && !wave_parse_coded(u, in, plane, predictor, start))
            return false;
        u.constants |= (uint64_t)start << 16 * plane;
        u.coded_of |= (predictor == 0 ? WAVE_CONSTANT : u.n_coded++) << 4 * plane;
    }
    u.bands = u.height <= 32 ? 1 : 2;
    u.n_rows = WAVE_EDGE * u.bands * u.n_coded;
    if (in.is_short)
        return false;
    return u.n_coded > 0 ? wave_parse_states(u, in.at) : in.at == u.nbytes;
}

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

PSTI_LANES lane_i32 wave_least(lane_i32 a, lane_i32 b) { return select(a < b, a, b); }
PSTI_LANES lane_i32 wave_most(lane_i32 a, lane_i32 b) { return select(a > b, a, b); }

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

template <int bits>
PSTI_LANES lane_i32 wave_load_signed(const wave_unit &u, lane_u32 at, lane_bool m)
{
    if (bits == 8)
        return load_at<int8_t>(u.samples, at, m);
    return load_at<int16_t>(u.samples, at, m);
}
template <int bits>
PSTI_LANES void wave_store_signed(const wave_unit &u, lane_u32 at, lane_i32 v, lane_bool m)
{
    if (bits == 8)
        store_at<int8_t>(u.samples, at, v, m);
    else
        store_at<int16_t>(u.samples, at, v, m);
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

/* Prediction of 16 bits
 * ------------------------------------------------------------------------------------- */

/* A plane on its way. */
struct wave_plane {
    uint32_t predictor, list_at;
    int32_t tap0, tap1;
    lane_i32 left, before;              /* samples of the last two steps */
    lane_i32 ur, u, ul, uu;             /* of the lane above, as they came */
    lane_u32 number, k_above, k_beside; /* the block's filter */
};

struct wave_near {
    lane_i32 l, ll, u, ul, ur, uu;
};

/* Where a lane is, for all planes. */
struct wave_spot {
    lane_bool row0, row1, column0, column1, last; /* edges */
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

/* The filters of blocks that lanes enter. */
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
    lane_u32 way = lane_u32(t) - lane_u32(2) * lane_id(); /* columns of all bands */
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
                       wave_record_of(u, j, WAVE_R_LIST) * PSTI_CUDA_WAVE_FILTERS * 8;
        p[j].tap0 = (int32_t)wave_record_of(u, j, WAVE_R_TAP0);
        p[j].tap1 = (int32_t)wave_record_of(u, j, WAVE_R_TAP1);
        p[j].left = p[j].before = lane_i32((int32_t)wave_record_of(u, j, WAVE_R_START));
        p[j].ur = p[j].u = p[j].ul = p[j].uu = lane_i32(0);
        p[j].number = p[j].k_above = p[j].k_beside = lane_u32(0);
    }
}

/* Residuals become samples, all planes of a place at once. */
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
            lane_i32 r = wave_load_signed<16>(u, place, at.active), v;
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
            wave_store_signed<16>(u, place, v, at.active);
            /* Taps are of planes 0 and 1, where they are coded. */
            if (j == (u.coded_of & 15))
                r0 = r;
            if (j == (u.coded_of >> 4 & 15))
                r1 = r;
        }
    }
}

/* Prediction of 8 bits
 * ------------------------------------------------------------------------------------- */

/* A plane on its way. Samples stand in bytes, lowest first. */
struct wave_plane8 {
    lane_u32 own;                     /* of the last two steps: L, LL */
    lane_u32 up;                      /* UR, U, UL, UU as they came from the lanes above */
    lane_u32 k_above, k_beside;       /* the block's filter */
    lane_bool is_med;                 /* which is number 0 */
    uint32_t list_at;                 /* of filters; 0: another predictor */
    uint32_t pick_l, pick_u, pick_ul; /* of that: what stands for L, U and UL in MED */
    bool is_average;
    uint32_t taps; /* in bytes 2 and 3 */
};

/* Which bytes of (up, own) the neighbours of a lane's sample are, for all planes. */
struct wave_picks {
    lane_u32 above, beside; /* UR, U, UL, UU; L, LL, 0, 0 */
    lane_bool active, enters;
    lane_u32 block; /* that it enters */
};

/* `ways`: of columns, in all bands, each lane. */
PSTI_LANES wave_picks wave_look8(const wave_unit &u, uint32_t t, lane_u32 ways)
{
    wave_picks at;
    const lane_u32 way = lane_u32(t) - lane_u32(2) * lane_id();
    const lane_u32 x = way & lane_u32(63);
    const lane_bool column0 = x == lane_u32(0);
    const lane_bool first_band = way < lane_u32(WAVE_EDGE);
    const lane_bool row0 = (lane_id() == lane_u32(0)) & first_band;
    const lane_bool row1 = (lane_id() == lane_u32(1)) & first_band;
    at.active = (way < ways) & (x < lane_u32(u.width));
    at.above = select(row1, lane_u32(0x1210), lane_u32(0x3210));
    at.above = select(column0, (at.above & lane_u32(0xf0ff)) | lane_u32(0x0100), at.above);
    at.above =
        select(x == lane_u32(u.width - 1), (at.above & lane_u32(0xfff0)) | lane_u32(1), at.above);
    at.above = select(row0, lane_u32(0x4444), at.above);
    at.beside = select(column0, lane_u32(0x7611), lane_u32(0x7654));
    at.beside = select((x == lane_u32(1)) | (row0 & column0), lane_u32(0x7644), at.beside);
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
    lane_u32 above = load_at<uint32_t>(u.tables, from, at.enters);
    lane_u32 beside = load_at<uint32_t>(u.tables, from + lane_u32(4), at.enters);
    p.k_above = select(at.enters, above, p.k_above);
    p.k_beside = select(at.enters, beside, p.k_beside);
    p.is_med = select(at.enters, number == lane_u32(0), p.is_med);
}

/* The middle one of L, U and L + U - UL. */
PSTI_LANES lane_i32 wave_middle(lane_u32 left, lane_u32 up, lane_u32 up_left)
{
    lane_i32 l = as_i32(left), u = as_i32(up);
    lane_i32 low = wave_least(l, u), high = wave_most(l, u);
    return wave_most(low, wave_least(high, l + u - as_i32(up_left)));
}

/* `others`: residuals of planes 0 and 1 in bytes 2 and 3. */
PSTI_LANES lane_i32 wave_predict8(const wave_plane8 &p, lane_u32 above, lane_u32 beside,
                                  lane_u32 others, bool has_others)
{
    if (p.list_at > 0) {
        lane_i32 x = lane_i32(16);
        if (has_others)
            x = dot4(others, p.k_beside, x);
        /* No filter leaves what 16 bits hold: see the test of the constants. */
        x = dot4_mixed(above, p.k_above, dot4_mixed(beside, p.k_beside, x)) >> lane_i32(5);
        x = wave_least(wave_most(x, lane_i32(0)), lane_i32(255));
        lane_i32 med = wave_middle(beside & lane_u32(255), above >> lane_u32(8) & lane_u32(255),
                                   above >> lane_u32(16) & lane_u32(255));
        return select(p.is_med, med, x);
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
        p[j].is_med = lane_bool(false);
        p[j].list_at = predictor == WAVE_OWN
                           ? wave_layout<8>::filters_at +
                                 wave_record_of(u, j, WAVE_R_LIST) * PSTI_CUDA_WAVE_FILTERS * 8
                           : 0;
        p[j].pick_l = predictor == WAVE_UP ? 0x7771 : 0x7774;
        p[j].pick_u = predictor == WAVE_LEFT ? 0x7774 : 0x7771;
        p[j].pick_ul = predictor == WAVE_LEFT ? 0x7774 : predictor == WAVE_UP ? 0x7771 : 0x7772;
        p[j].is_average = predictor == WAVE_AVERAGE;
        p[j].taps = (wave_record_of(u, j, WAVE_R_TAP0) & 255) << 16 |
                    wave_record_of(u, j, WAVE_R_TAP1) << 24;
    }
}

/* Each lane learns what is above it: of two planes by one shuffle. */
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

/* Residuals become samples, all planes of a place at once. */
template <int coded> PSTI_LANES void wave_rebuild8(const wave_unit &u)
{
    wave_plane8 p[coded];
    const uint32_t plane_rows = WAVE_EDGE * u.bands;
    const lane_u32 rows = lane_u32(u.height), edge = lane_u32(WAVE_EDGE), none = lane_u32(0);
    const lane_u32 ways =
        select(lane_id() < rows, edge, none) + select(lane_id() + lane_u32(32) < rows, edge, none);
    wave_open_planes8<coded>(u, p);
    for (uint32_t t = 0; t < plane_rows + 62; t++) {
        const wave_picks at = wave_look8(u, t, ways);
        const lane_u32 row = lane_u32(wave_row<8>(t)) ^ lane_id();
        lane_u32 r0 = none, r1 = none;
        wave_receive8<coded>(p);
        PSTI_UNROLL
        for (uint32_t j = 0; j < coded; j++) {
            /* Planes are whole turns of how rows are stored; the last one goes round. */
            const uint32_t fold = j + 1 == coded && t >= plane_rows ? u.n_rows : 0;
            lane_u32 place = row + lane_u32((j * plane_rows - fold) * PSTI_WARP);
            lane_u32 r = load_at<uint8_t>(u.samples, place, at.active);
            lane_u32 above = pick_bytes(p[j].up, p[j].own, at.above);
            lane_u32 beside = pick_bytes(p[j].up, p[j].own, at.beside);
            if (p[j].list_at > 0 && (t & 1) == 0)
                wave_enter_block8(u, p[j], j, at);
            lane_u32 others = pick_bytes(r0, r1, lane_u32(0x4011));
            lane_u32 v = r + as_u32(wave_predict8(p[j], above, beside, others, j > 0));
            p[j].own = pick_bytes(v, p[j].own, lane_u32(0x7640));
            store_at<uint8_t>(u.samples, place, v, at.active);
            /* Taps are of planes 0 and 1, where they are coded. */
            if (j == (u.coded_of & 15))
                r0 = r;
            if (j == (u.coded_of >> 4 & 15))
                r1 = r;
        }
    }
}

/* Rows
 * ------------------------------------------------------------------------------------- */

/* Where samples of row y in columns x are, of the first coded plane. */
template <int bits> PSTI_LANES lane_u32 wave_pixel(uint32_t y, lane_u32 x)
{
    const uint32_t lane = y & 31, first = WAVE_EDGE * (y >> 5) + 2 * lane;
    return wave_rows<bits>(lane_u32(first) + x) ^ lane_u32(lane * wave_layout<bits>::sample_nbytes);
}

/* Of other planes they are as far behind, round the cylinder. */
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

/* Sample c of pixels, the colour transform and levels undone. */
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
    bool has_large;
    if (!wave_decode_tokens<bits>(u))
        return false;
    wave_open_bits(u);
    uint32_t end = wave_find_signs<bits>(u, has_large);
    warp_sync();
    if (has_large)
        end = wave_find_raw_bits<bits>(u, end);
    if (end > 8 * (u.raw_end + WAVE_STATE_NBYTES))
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

/* One unit by one warp; false: corrupt. `scratch`: this warp's. */
template <int bits>
PSTI_LANES bool wave_decode(shared<uint8_t> tables, shared<uint8_t> scratch,
                            const struct psti_cuda_image &image, const struct psti_cuda_unit &unit,
                            const struct psti_cuda_finish &finish)
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
    if (!wave_parse(u, bits))
        return false;
    warp_sync();
    if (u.n_coded > 0 && !wave_decode_coded<bits>(u))
        return false;
    const uint32_t max_error = image.max_error;
    /* Rows and columns that are wanted. */
    uint32_t top = image.y0 > y0 ? image.y0 - y0 : 0, left = image.x0 > x0 ? image.x0 - x0 : 0;
    uint32_t bottom = image.y1 - y0 < u.height ? image.y1 - y0 : u.height;
    uint32_t right = image.x1 - x0 < u.width ? image.x1 - x0 : u.width;
    for (uint32_t y = top; y < bottom; y++)
        sink_row(image.sink, finish, y0 + y, x0 + left, right - left, [&](lane_u32 i, uint32_t c) {
            return wave_sample<bits>(u, max_error, wave_pixel<bits>(y, i + lane_u32(left)), c);
        });
    return true;
}

} // namespace psti

#endif
