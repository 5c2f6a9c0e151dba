/* pli_wave_head.cuh - units of mode wave (see pli_wave.cuh): the layout of samples in shared
 * memory, the decoding tables of a block, and the parts of a unit before its words. */
#ifndef PST_GPU_PLI_WAVE_HEAD_CUH
#define PST_GPU_PLI_WAVE_HEAD_CUH

#include "gpu/kernels/store.cuh"
#include "gpu/work/gpu_tables.h"
#include "gpu/work/gpu_units.h"

namespace psti
{

/* Edge in pixels of a unit, and of a block that uses one filter (format-pli.md 3, 5.2). */
static const uint32_t WAVE_EDGE = 64, WAVE_BLOCK = 16;
/* Planes of a unit; and the number that stands for a constant plane in place of its number among
 * the coded planes. */
static const uint32_t WAVE_PLANES = 4, WAVE_CONSTANT = 15;
/* Numbers of the predictors (format-pli.md 5.2). */
static const uint32_t WAVE_LEFT = 1, WAVE_UP = 2, WAVE_AVERAGE = 3, WAVE_MED = 4, WAVE_OWN = 8;
/* With 16 bits, tokens below DIRECT are themselves magnitudes (format-pli.md 5.4). */
static const uint32_t WAVE_DIRECT = 24;
/* Words that hold the payload at any alignment, followed by zeros. */
static const uint32_t WAVE_TAIL = 20;

/* The layout of a block's shared memory. */
template <int bits> struct wave_layout {
    static const uint32_t sample_nbytes = bits / 8;
    static const uint32_t prob_bits = bits == 8 ? 8 : 10, prob_sum = 1u << prob_bits;
    static const uint32_t exponent_bits = bits == 8 ? 3 : 4;
    static const uint32_t state_nbytes = PSTI_WARP * sample_nbytes; /* low halves; payload */
    static const uint32_t context_nbytes =
        bits == 8 ? PSTI_GPU_WAVE_CONTEXT8_NBYTES : PSTI_GPU_WAVE_CONTEXT16_NBYTES;
    static const uint32_t buckets_at = PSTI_GPU_WAVE_CONTEXTS * context_nbytes;
    static const uint32_t buckets_nbytes =
        bits == 8 ? PSTI_GPU_WAVE_BUCKETS8_NBYTES : PSTI_GPU_WAVE_BUCKETS16_NBYTES;
    static const uint32_t filters_at = buckets_at + buckets_nbytes;
    /* Only with 8 bits. */
    static const uint32_t pairs_at = filters_at + PSTI_GPU_WAVE_FILTERS_NBYTES;
    /* Bytes of shared memory: of a block, and of each of its warps for images with four
     * channels. */
    static const uint32_t tables_nbytes = PSTI_GPU_WAVE_TABLES_NBYTES(bits);
    static const uint32_t warp_nbytes = PSTI_GPU_WAVE_WARP_NBYTES(bits, WAVE_PLANES);

    static const uint32_t records_at = PSTI_GPU_WAVE_WINDOW_NBYTES;
    static const uint32_t samples_at = records_at + PSTI_GPU_WAVE_RECORDS_NBYTES;
    static const uint32_t row_nbytes = PSTI_WARP * sample_nbytes;
};

/* Indices of the words in the record of a coded plane. The numbers of the plane's filters follow
 * the record, four for each row of blocks (format-pli.md 5.2). */
enum wave_record {
    WAVE_R_PREDICTOR,
    WAVE_R_START,
    WAVE_R_TAP0, /* weights of the residuals of planes 0 and 1 */
    WAVE_R_TAP1,
    WAVE_R_LIST,
    WAVE_R_KIND,  /* enum wave_kind_number of the plane's contexts */
    WAVE_R_OTHER, /* the coded plane whose activities are part of the context; CONSTANT: there is
                   * none */
    WAVE_R_PLANE,
    WAVE_R_NUMBERS,
    WAVE_R_WORDS = PSTI_GPU_WAVE_RECORD_NBYTES / 4
};
enum wave_kind_number { WAVE_FIRST, WAVE_SECOND, WAVE_THIRD };

struct wave_unit {
    const uint32_t *words; /* the unit's bytes, which begin with its mode */
    uint32_t nbytes;
    uint32_t height, width, channels, transform;
    uint32_t n_coded, bands; /* number of coded planes; number of bands of 32 rows in a plane */
    uint32_t n_rows;         /* rows of samples in shared memory */
    /* 4 bits for each plane: its index among the coded planes, or CONSTANT */
    uint32_t coded_of;
    uint64_t constants;                 /* 16 bits for each plane: the value if it is constant */
    uint32_t raw_at, raw_end, words_at; /* offsets in the unit's bytes */
    lane_u32 states;
    shared<uint8_t> tables, window, samples;
    shared<uint32_t> records;
};

PSTI_LANES uint32_t wave_record_of(const wave_unit &u, uint32_t coded, uint32_t field)
{
    return load_uniform(u.records, coded * WAVE_R_WORDS + field);
}

/* Returns the offset of step t's row. Its low bits differ from step to step. XOR with them moves a
 * lane's bytes of several steps to different banks. */
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

/* Builds the decoding table of one context. All lanes of one warp work on it. */
PSTI_LANES void wave_load_context8(shared<uint8_t> to, const uint16_t *first,
                                   const uint8_t *activities)
{
    const uint32_t n = 16;
    /* The table entry of token number `lane` modulo 16. Byte 1 is its frequency; bytes 2 and 3 are
     * 256 times its activity minus its first slot. */
    const lane_u32 token = lane_id() & lane_u32(n - 1);
    const lane_u32 activity = load(activities, token);
    const lane_u32 begin = load(first, token), end = load(first, token + lane_u32(1));
    const lane_u32 size = end - begin;
    const lane_u32 entry = ((activity << lane_u32(8)) - begin) << lane_u32(16) | size
                                                                                     << lane_u32(8);
    lane_u32 begins[n], entries[n];
    PSTI_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        begins[i] = lane_u32(lane_of(begin, i));
        entries[i] = lane_u32(lane_of(entry, i)); /* the slot's own number is added below */
    }
    for (uint32_t slot = 0; slot < wave_layout<8>::prob_sum; slot += PSTI_WARP) {
        const lane_u32 own = lane_u32(slot) + lane_id();
        lane_u32 found = entries[0];
        PSTI_UNROLL
        for (uint32_t i = 1; i < n; i++)
            found = select(own >= begins[i], entries[i], found);
        store_at<uint32_t>(to, lane_u32(4) * own, found + (own << lane_u32(16)));
    }
}
PSTI_LANES void wave_load_context16(shared<uint8_t> to, const uint16_t *first)
{
    const lane_u32 none = lane_u32(wave_layout<16>::prob_sum);
    lane_u32 begins[2], ends[2];
    PSTI_UNROLL
    for (uint32_t k = 0; k < 2; k++) {
        lane_u32 token = lane_id() + lane_u32(32 * k);
        lane_bool is_one = token < lane_u32(PSTI_GPU_WAVE_TOKENS);
        lane_bool has_next = token < lane_u32(PSTI_GPU_WAVE_TOKENS - 1);
        begins[k] = select(is_one, load(first, token, is_one), none);
        ends[k] = select(has_next, load(first, token + lane_u32(1), has_next), none);
        store_at<uint32_t>(to, none + lane_u32(4) * token,
                           ((ends[k] - begins[k]) << lane_u32(16)) - begins[k], is_one);
    }
    for (uint32_t token = 0; token < PSTI_GPU_WAVE_TOKENS; token++) {
        uint32_t begin = lane_of(token < 32 ? begins[0] : begins[1], token);
        uint32_t end = lane_of(token < 32 ? ends[0] : ends[1], token);
        for (uint32_t slot = begin; slot < end; slot += PSTI_WARP)
            store_at<uint8_t>(to, lane_u32(slot) + lane_id(), lane_u32(token),
                              lane_u32(slot) + lane_id() < lane_u32(end));
    }
}

PSTI_LANES void wave_load_words(const block &b, shared<uint8_t> tables, uint32_t at,
                                const uint32_t *from, uint32_t n)
{
    for (uint32_t i0 = b.warp * PSTI_WARP; i0 < n; i0 += b.n_warps * PSTI_WARP) {
        lane_u32 i = lane_u32(i0) + lane_id();
        lane_bool m = i < lane_u32(n);
        store_at<uint32_t>(tables, lane_u32(at) + lane_u32(4) * i, load(from, i, m), m);
    }
}

/* Phase 0: all warps of a block together load the tables. `constants` is the address of a struct
 * psti_gpu_wave_constants. `from` is that of a struct psti_gpu_wave_tables, or 0 for the built-in
 * tables. */
template <int bits>
PSTI_LANES void wave_load_tables(const block &b, shared<uint8_t> tables, uint64_t constants,
                                 uint64_t from)
{
    typedef wave_layout<bits> layout;
    const struct psti_gpu_wave_constants *k =
        reinterpret_cast<const struct psti_gpu_wave_constants *>(constants);
    const struct psti_gpu_wave_tables *own =
        from ? reinterpret_cast<const struct psti_gpu_wave_tables *>(from)
             : &k->built_in[bits == 16];
    for (uint32_t c = b.warp; c < PSTI_GPU_WAVE_CONTEXTS; c += b.n_warps) {
        shared<uint8_t> to = tables + c * layout::context_nbytes;
        if (bits == 8)
            wave_load_context8(to, own->first[c], k->pairs.activities);
        else
            wave_load_context16(to, own->first[c]);
    }
    const uint32_t n_buckets = layout::buckets_nbytes / 2;
    for (uint32_t i0 = b.warp * PSTI_WARP; i0 < n_buckets; i0 += b.n_warps * PSTI_WARP) {
        lane_u32 i = lane_u32(i0) + lane_id(), e = i >> lane_u32(bits == 8 ? 1 : 2);
        lane_u32 context = load(k->bucket[bits == 16], select(e < lane_u32(255), e, lane_u32(255)));
        store_at<uint16_t>(tables, lane_u32(layout::buckets_at) + lane_u32(2) * i,
                           lane_u32(address_of(tables)) +
                               context * lane_u32(layout::context_nbytes),
                           i < lane_u32(n_buckets));
    }
    wave_load_words(b, tables, layout::filters_at,
                    reinterpret_cast<const uint32_t *>(&k->filters[0][0]),
                    PSTI_GPU_WAVE_FILTERS_NBYTES / 4);
    if (bits == 8)
        wave_load_words(b, tables, layout::pairs_at, reinterpret_cast<const uint32_t *>(&k->pairs),
                        PSTI_GPU_WAVE_PAIRS_NBYTES / 4);
}

/* Head
 * ------------------------------------------------------------------------------------- */

struct wave_reader {
    lane_u32 low, high; /* bytes 0..31 and 32..63 of the unit, one per lane */
    uint32_t nbytes, at;
    bool is_short;
};

PSTI_LANES lane_u32 wave_bytes(const wave_reader &in, lane_u32 at)
{
    return select((at & lane_u32(32)) == lane_u32(0), shuffle(in.low, at), shuffle(in.high, at));
}

/* Skips n bytes of the head. Returns the offset at which they begin. Sets is_short if the unit has
 * fewer bytes. */
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

/* Reads the record of a coded plane, which becomes coded plane number u.n_coded (format-pli.md
 * 5.2). */
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

/* Returns, in each lane, the 32 bits of the unit from bit number `at` on. All words that are read
 * must lie in the unit or in the margin after it. */
PSTI_LANES lane_u32 wave_unit_bits(const uint32_t *words, lane_u32 at)
{
    lane_u32 i = at >> lane_u32(5);
    return funnel_right(load(words, i), load(words, i + lane_u32(1)), at & lane_u32(31));
}

/* Reads the parts after the plane records: sizes and states (format-pli.md 5.1). */
template <int bits> PSTI_LANES bool wave_parse_states(wave_unit &u, uint32_t at)
{
    typedef wave_layout<bits> layout;
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(u.words);
    const uint32_t exponent_nbytes = PSTI_WARP * layout::exponent_bits / 8;
    const uint32_t fixed = 2 + exponent_nbytes + layout::state_nbytes;
    if (u.nbytes - at < fixed)
        return false;
    uint32_t raw_nbytes = load_uniform(bytes, at) | load_uniform(bytes, at + 1) << 8;
    const lane_u32 bit = lane_id() * lane_u32(layout::exponent_bits);
    lane_u32 e = wave_unit_bits(u.words, lane_u32(8 * (at + 2)) + bit);
    e = e & lane_u32((1u << layout::exponent_bits) - 1);
    lane_u32 low = lane_u32(8 * (at + 2 + exponent_nbytes)) + lane_id() * lane_u32(bits);
    low = wave_unit_bits(u.words, low) & lane_u32((1u << bits) - 1);
    lane_u32 end = scan_add(e);
    uint32_t mantissas_nbytes = (lane_of(end, PSTI_WARP - 1) + 7) / 8;
    at += fixed;
    if (u.nbytes - at < raw_nbytes || mantissas_nbytes > raw_nbytes)
        return false;
    lane_u32 one = lane_u32(1) << e;
    lane_u32 mantissa = wave_unit_bits(u.words, lane_u32(8 * at) + end - e) & (one - lane_u32(1));
    u.states = (one | mantissa) << lane_u32(bits) | low;
    u.raw_at = at + mantissas_nbytes;
    u.raw_end = at + raw_nbytes;
    u.words_at = u.raw_end;
    return (u.nbytes - u.words_at) % layout::sample_nbytes == 0;
}

template <int bits> PSTI_LANES bool wave_parse(wave_unit &u)
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
    return u.n_coded > 0 ? wave_parse_states<bits>(u, in.at) : in.at == u.nbytes;
}

/* Functions that all passes use
 * ------------------------------------------------------------------------------------- */

PSTI_LANES lane_i32 wave_least(lane_i32 a, lane_i32 b) { return select(a < b, a, b); }
PSTI_LANES lane_i32 wave_most(lane_i32 a, lane_i32 b) { return select(a > b, a, b); }

} // namespace psti

#endif
