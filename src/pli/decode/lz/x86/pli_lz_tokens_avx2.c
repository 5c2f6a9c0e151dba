/* pli_lz_tokens_avx2.c - decodes words to tokens and samples of an lz unit with AVX2, 8 lanes at
 * once.
 *
 * One gather loads symbols, frequencies and places from the lanes' tables. A shuffle, looked up by
 * the mask of the states that need words, gives them their words in order. Lanes that have nothing
 * left to decode keep their states. The loops run while many words are left. Plain C does the rest.
 * Gathers limit the speed: they take 11 of about 20 cycles for 8 symbols on Zen 3. */
#include "pli/decode/lz/pli_lz_tokens.h"

#include "pli/decode/x86/pli_spread_avx2.h"

#ifdef __x86_64__
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt,lzcnt")))
#define INLINE TARGET __attribute__((always_inline))

enum { LANES = 8, VECTORS_MAX = PSTI_LZ_LANES_MAX / LANES };

/* Calls `of`(lanes, ...) with the number of vectors for all lanes as a constant, which unrolls
 * loops over vectors. */
#define BY_VECTORS(of, lanes, ...)                                                                 \
    ((lanes)->n == LANES       ? of(lanes, __VA_ARGS__, 1)                                         \
     : (lanes)->n == 2 * LANES ? of(lanes, __VA_ARGS__, 2)                                         \
                               : of(lanes, __VA_ARGS__, 4))

INLINE static inline __m256i load(const void *p) { return _mm256_loadu_si256(p); }

/* Steps begin .. end - 1 of a loop, in which the first `active` lanes decode. */
struct phase {
    uint32_t begin, end, active;
};

/* Splits the steps into two phases. All lanes that decode anything have equally many symbols,
 * except the last of these lanes, which may have fewer and is idle in the second phase. */
static void phases_of(struct psti_pli_lz_share share, struct phase phases[2])
{
    uint32_t last = share.n > 0 ? (share.n - 1) / share.per_lane : 0;
    uint32_t n_last = share.n - last * share.per_lane;
    phases[0] = (struct phase){0, n_last, last + 1};
    phases[1] = (struct phase){n_last, share.per_lane, last};
}

/* Returns a mask of the lanes of vector v, 8 lanes, that are among the first `active` lanes. */
INLINE static inline __m256i lanes_of(uint32_t active, uint32_t v)
{
    __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)active - (int)(LANES * v)), lanes);
}

/* The states of all lanes, masks of the lanes that decode, and the next word. */
struct vectors {
    __m256i x[VECTORS_MAX], active[VECTORS_MAX];
    const uint8_t *words;
};
INLINE static inline void load_states(struct vectors *s, const struct psti_lz_lanes *lanes,
                                      uint32_t active, const uint32_t n_vectors)
{
    for (uint32_t v = 0; v < n_vectors; v++) {
        s->x[v] = load(lanes->x + LANES * v);
        s->active[v] = lanes_of(active, v);
    }
    s->words = lanes->words;
}
INLINE static inline void store_states(const struct vectors *s, struct psti_lz_lanes *lanes,
                                       const uint32_t n_vectors)
{
    for (uint32_t v = 0; v < n_vectors; v++)
        _mm256_storeu_si256((void *)(lanes->x + LANES * v), s->x[v]);
    lanes->words = s->words;
}
/* Returns whether enough words are left for `n_symbols` symbols in each lane. Words are loaded 16
 * bytes at once. */
INLINE static inline bool has_words(const struct vectors *s, const struct psti_lz_lanes *lanes,
                                    uint32_t n_symbols, const uint32_t n_vectors)
{
    return (size_t)(lanes->end - s->words) >= 2 * n_symbols * LANES * n_vectors + 16;
}

/* Decodes the next symbol of each lane of vector v. `tables` has for each lane where its table
 * begins, counted in entries from `memory`. */
INLINE static inline __m256i next_symbols(struct vectors *s, uint32_t v, const uint8_t *memory,
                                          __m256i tables, const uint32_t log2)
{
    __m256i x = s->x[v];
    __m256i place = _mm256_and_si256(x, _mm256_set1_epi32((1 << log2) - 1));
    __m256i entries = _mm256_i32gather_epi32((const int *)(const void *)memory,
                                             _mm256_add_epi32(tables, place), 4);
    __m256i freqs = _mm256_and_si256(_mm256_srli_epi32(entries, PSTI_LZ_FREQ_SHIFT),
                                     _mm256_set1_epi32(PSTI_LZ_FREQ_MASK));
    x = _mm256_mullo_epi32(_mm256_srli_epi32(x, (int)log2), freqs);
    x = _mm256_add_epi32(x, _mm256_srli_epi32(entries, PSTI_LZ_PLACE_SHIFT));
    x = _mm256_blendv_epi8(s->x[v], x, s->active[v]);
    __m256i low = _mm256_cmpeq_epi32(_mm256_srli_epi32(x, 16), _mm256_setzero_si256());
    uint32_t mask = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(low));
    __m256i next = _mm256_cvtepu16_epi32(psti_pli_spread_words(s->words, mask << 4));
    __m256i refilled = _mm256_or_si256(_mm256_slli_epi32(x, 16), next);
    s->x[v] = _mm256_blendv_epi8(x, refilled, low);
    s->words += 2 * (size_t)_mm_popcnt_u32(mask);
    return _mm256_and_si256(entries, _mm256_set1_epi32(255));
}

/* Returns the starts of the tables, counted in entries from `memory`, as a vector for look-ups by
 * context. */
INLINE static inline __m256i offsets_of(const uint8_t *memory, const uint8_t *const *tables,
                                        uint32_t n)
{
    int32_t offsets[8] = {0};
    for (uint32_t i = 0; i < n; i++)
        offsets[i] = (int32_t)((tables[i] - memory) / 4);
    return load(offsets);
}

/* Returns -1 where v > limit, else 0. */
INLINE static inline __m256i above(__m256i v, int limit)
{
    return _mm256_cmpgt_epi32(v, _mm256_set1_epi32(limit));
}

/* Returns the classes of offset codes, like psti_pli_lz_offset_class. */
INLINE static inline __m256i classes_of(__m256i codes)
{
    __m256i sum = _mm256_add_epi32(above(codes, PSTI_PLI_LZ_N_RECENT - 1),
                                   above(codes, PSTI_PLI_LZ_N_RECENT + 3));
    return _mm256_sub_epi32(_mm256_setzero_si256(),
                            _mm256_add_epi32(sum, above(codes, PSTI_PLI_LZ_EXPLICIT - 1)));
}

/* Returns the endings of sequences, like psti_pli_lz_ending. */
INLINE static inline __m256i endings_of(__m256i codes, __m256i lengths)
{
    enum { N = PSTI_PLI_LZ_N_RUNS - 1, STEP = PSTI_PLI_LZ_EDGE_N };
    __m256i edge = _mm256_sub_epi32(
        _mm256_setzero_si256(),
        _mm256_add_epi32(above(lengths, N + STEP), _mm256_add_epi32(above(lengths, N + 2 * STEP),
                                                                    above(lengths, N + 3 * STEP))));
    __m256i plain = _mm256_add_epi32(_mm256_set1_epi32(PSTI_PLI_LZ_ENDING_FIRST),
                                     above(codes, PSTI_PLI_LZ_N_RECENT + 3));
    return _mm256_blendv_epi8(plain, edge, above(lengths, N));
}

INLINE static inline uint32_t sequences(struct psti_lz_lanes *lanes,
                                        const struct psti_lz_sequence_tables *tables,
                                        struct phase phase, uint32_t *tokens,
                                        uint8_t *given_endings, const uint32_t n_vectors)
{
    enum { LOG2 = PSTI_PLI_LZ_SEQUENCE_BITS };
    const uint8_t *memory = tables->memory;
    __m256i run_tables = offsets_of(memory, tables->run, PSTI_LZ_N_ENDINGS);
    __m256i offset_tables = offsets_of(memory, tables->offset, PSTI_PLI_LZ_OFFSET_CONTEXTS);
    __m256i length_tables = offsets_of(memory, tables->length, PSTI_PLI_LZ_LENGTH_CONTEXTS);
    __m256i endings[VECTORS_MAX], runs[VECTORS_MAX], codes[VECTORS_MAX];
    struct vectors s;
    uint32_t t = phase.begin;
    load_states(&s, lanes, phase.active, n_vectors);
    for (uint32_t v = 0; v < n_vectors; v++)
        endings[v] =
            _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(given_endings + LANES * v)));
    for (; t < phase.end && has_words(&s, lanes, 3, n_vectors); t++) {
        for (uint32_t v = 0; v < n_vectors; v++) {
            __m256i at = _mm256_permutevar8x32_epi32(run_tables, endings[v]);
            runs[v] = next_symbols(&s, v, memory, at, LOG2);
        }
        for (uint32_t v = 0; v < n_vectors; v++) {
            __m256i context = _mm256_blendv_epi8(
                endings[v], _mm256_set1_epi32(PSTI_PLI_LZ_OFFSET_AFTER_RUN), above(runs[v], 0));
            __m256i at = _mm256_permutevar8x32_epi32(offset_tables, context);
            codes[v] = next_symbols(&s, v, memory, at, LOG2);
        }
        for (uint32_t v = 0; v < n_vectors; v++) {
            __m256i at = _mm256_permutevar8x32_epi32(length_tables, classes_of(codes[v]));
            __m256i lengths = next_symbols(&s, v, memory, at, LOG2);
            endings[v] = endings_of(codes[v], lengths);
            __m256i packed =
                _mm256_or_si256(runs[v], _mm256_or_si256(_mm256_slli_epi32(codes[v], 8),
                                                         _mm256_slli_epi32(lengths, 16)));
            _mm256_storeu_si256((void *)(tokens + LANES * (t * n_vectors + v)), packed);
        }
    }
    store_states(&s, lanes, n_vectors);
    for (uint32_t v = 0; v < n_vectors; v++) {
        uint32_t last[LANES];
        _mm256_storeu_si256((void *)last, endings[v]);
        for (uint32_t l = 0; l < LANES; l++)
            given_endings[LANES * v + l] = (uint8_t)last[l];
    }
    return t;
}

TARGET static uint32_t decode_sequences(struct psti_lz_lanes *lanes,
                                        const struct psti_lz_sequence_tables *tables,
                                        struct psti_pli_lz_share share, uint32_t *tokens,
                                        uint8_t *endings)
{
    struct phase phases[2];
    uint32_t t = 0;
    phases_of(share, phases);
    for (uint32_t i = 0; i < 2 && t == phases[i].begin; i++)
        t = BY_VECTORS(sequences, lanes, tables, phases[i], tokens, endings);
    return t;
}

/* Stores four bytes of each of the first n lanes. */
INLINE static inline void put_words(uint8_t *const *to, size_t offset, __m256i v, uint32_t n)
{
    uint32_t words[LANES];
    _mm256_storeu_si256((void *)words, v);
    if (n >= LANES) {
#pragma GCC unroll 8
        for (uint32_t l = 0; l < LANES; l++)
            psti_store_u32(to[l] + offset, words[l]);
    } else {
        for (uint32_t l = 0; l < n; l++)
            psti_store_u32(to[l] + offset, words[l]);
    }
}
INLINE static inline void put_all_words(uint8_t *const *to, size_t offset, const __m256i *v,
                                        uint32_t n, const uint32_t n_vectors)
{
    for (uint32_t i = 0; i < n_vectors; i++)
        put_words(to + LANES * i, offset, v[i], n > LANES * i ? n - LANES * i : 0);
}

/* Decodes symbols, four steps a turn: the four symbols of a lane are stored side by side. */
INLINE static inline uint32_t symbols(struct psti_lz_lanes *lanes, const uint8_t *table,
                                      uint32_t per_lane, struct phase phase, uint8_t *out,
                                      const uint32_t n_vectors)
{
    enum { STEPS = 4 };
    uint32_t t = phase.begin;
    uint8_t *to[PSTI_LZ_LANES_MAX];
    struct vectors s;
    __m256i four[VECTORS_MAX];
    load_states(&s, lanes, phase.active, n_vectors);
    for (uint32_t l = 0; l < phase.active; l++)
        to[l] = out + (size_t)l * per_lane;
    for (; t + STEPS <= phase.end && has_words(&s, lanes, STEPS, n_vectors); t += STEPS) {
#pragma GCC unroll 4
        for (int i = 0; i < STEPS; i++)
            for (uint32_t v = 0; v < n_vectors; v++) {
                __m256i symbol =
                    next_symbols(&s, v, table, _mm256_setzero_si256(), PSTI_PLI_LZ_PIXEL_BITS);
                symbol = _mm256_slli_epi32(symbol, 8 * i);
                four[v] = i > 0 ? _mm256_or_si256(four[v], symbol) : symbol;
            }
        put_all_words(to, t, four, phase.active, n_vectors);
    }
    store_states(&s, lanes, n_vectors);
    return t;
}

TARGET static uint32_t decode_symbols(struct psti_lz_lanes *lanes, const uint8_t *table,
                                      struct psti_pli_lz_share share, uint8_t *out)
{
    struct phase phases[2];
    uint32_t t = 0;
    phases_of(share, phases);
    for (uint32_t i = 0; i < 2 && t == phases[i].begin; i++)
        t = BY_VECTORS(symbols, lanes, table, share.per_lane, phases[i], out);
    return t;
}

/* Decodes pixels as long as many words are left. Returns the number of the next step. Stores have 4
 * bytes; bytes after a pixel are overwritten by the lane's next pixels. */
INLINE static inline uint32_t some_pixels(struct psti_lz_lanes *lanes,
                                          const struct psti_lz_pixels_to *to, uint32_t per_lane,
                                          struct phase phase, const uint32_t n_vectors)
{
    const uint32_t P = to->pixel_nbytes;
    const __m256i green =
        to->add_green ? _mm256_broadcastsi128_si256(
                            _mm_setr_epi8(1, -1, 1, -1, 5, -1, 5, -1, 9, -1, 9, -1, 13, -1, 13, -1))
                      : _mm256_set1_epi8(-1);
    uint32_t t = phase.begin;
    uint8_t *at[PSTI_LZ_LANES_MAX];
    struct vectors s;
    __m256i bytes[VECTORS_MAX];
    load_states(&s, lanes, phase.active, n_vectors);
    for (uint32_t l = 0; l < phase.active; l++)
        at[l] = psti_pli_lz_pixel_at(to, l * per_lane + t);
    for (; t < phase.end && has_words(&s, lanes, P, n_vectors); t++) {
        for (uint32_t v = 0; v < n_vectors; v++)
            bytes[v] = _mm256_setzero_si256();
        for (uint32_t b = 0; b < P; b++) {
            __m128i shift = _mm_cvtsi32_si128((int)(b % 4 * 8));
            bool single = psti_pli_lz_is_single(to->tables[b]), is_last = b % 4 == 3 || b + 1 == P;
            for (uint32_t v = 0; v < n_vectors; v++) {
                __m256i symbol = single ? _mm256_set1_epi32(to->tables[b][0])
                                        : next_symbols(&s, v, to->tables[b], _mm256_setzero_si256(),
                                                       PSTI_PLI_LZ_PIXEL_BITS);
                bytes[v] = _mm256_or_si256(bytes[v], _mm256_sll_epi32(symbol, shift));
            }
            if (!is_last)
                continue;
            for (uint32_t v = 0; v < n_vectors; v++)
                bytes[v] = _mm256_add_epi8(bytes[v], _mm256_shuffle_epi8(bytes[v], green));
            put_all_words(at, (size_t)(t - phase.begin) * P + b / 4 * 4, bytes, phase.active,
                          n_vectors);
            for (uint32_t v = 0; v < n_vectors; v++)
                bytes[v] = _mm256_setzero_si256();
        }
    }
    store_states(&s, lanes, n_vectors);
    return t;
}

/* Decodes pixels of all phases. Colours and escaped pixels have different places, and one lane has
 * the last colours and the first escaped pixels. Plain C does the steps whose stores would reach
 * the next lane's pixels. */
INLINE static inline uint32_t pixels(struct psti_lz_lanes *lanes,
                                     const struct psti_lz_pixels_to *to,
                                     struct psti_pli_lz_share share, const uint32_t n_vectors)
{
    struct phase phases[2];
    uint32_t P = to->pixel_nbytes, over = (0u - P) % 4, spoilt = (over + P - 1) / P, t = 0;
    uint32_t split = to->split % share.per_lane;
    uint32_t end = share.per_lane > spoilt ? share.per_lane - spoilt : 0;
    phases_of(share, phases);
    for (uint32_t i = 0; i < 2 && t == phases[i].begin; i++) {
        struct phase phase = phases[i];
        phase.end = phase.end < end ? phase.end : end;
        if (phase.begin < split && split < phase.end) {
            t = some_pixels(lanes, to, share.per_lane,
                            (struct phase){phase.begin, split, phase.active}, n_vectors);
            if (t < split)
                return t;
            phase.begin = split;
        }
        if (phase.begin < phase.end)
            t = some_pixels(lanes, to, share.per_lane, phase, n_vectors);
    }
    return t;
}

TARGET static uint32_t decode_pixels(struct psti_lz_lanes *lanes,
                                     const struct psti_lz_pixels_to *to,
                                     struct psti_pli_lz_share share)
{
    return BY_VECTORS(pixels, lanes, to, share);
}

const struct psti_lz_kernels psti_lz_kernels_avx2 = {
    .sequences = decode_sequences,
    .symbols = decode_symbols,
    .pixels = decode_pixels,
    .execute = psti_pli_lz_execute_avx2,
};
#endif
