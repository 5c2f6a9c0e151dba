/* pli_lz_tokens_avx2.c - words -> tokens and samples of an lz unit with AVX2: 8 lanes at once.
 *
 * Symbols and their frequencies are gathered from the lanes' tables; the states that need words get
 * them, in order, by a permutation made of the mask of those states. Works while every lane has a
 * thing to do and words are plenty; plain C does the rest. */
#include "decode/pli_lz_tokens.h"

#ifdef __x86_64__
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt,lzcnt")))
#define INLINE TARGET __attribute__((always_inline))

enum { LANES = 8, VECTORS_MAX = PSTI_LZ_LANES_MAX / LANES };

INLINE static inline __m256i load(const void *p) { return _mm256_loadu_si256(p); }

/* Steps in which all lanes are active. */
static uint32_t full_steps(struct psti_lz_share share, uint32_t n_lanes)
{
    uint32_t others = (n_lanes - 1) * share.per_lane; /* of all lanes but the last */
    return share.n > others ? share.n - others : 0;
}

/* The next symbols of 8 states; `tables`: of each, in bytes from `memory`. */
INLINE static inline __m256i next_symbols(__m256i *states, const uint8_t *memory, __m256i tables,
                                          const uint32_t log2, const uint8_t **words)
{
    __m256i x = *states;
    __m256i place = _mm256_and_si256(x, _mm256_set1_epi32((1 << log2) - 1));
    const int *base = (const int *)(const void *)memory;
    __m256i symbols = _mm256_and_si256(
        _mm256_i32gather_epi32(base, _mm256_add_epi32(tables, place), 1), _mm256_set1_epi32(255));
    const int *info_base = (const int *)(const void *)(memory + psti_lz_info_offset(log2));
    __m256i info = _mm256_i32gather_epi32(
        info_base, _mm256_add_epi32(tables, _mm256_slli_epi32(symbols, 2)), 1);
    x = _mm256_mullo_epi32(_mm256_srli_epi32(x, (int)log2),
                           _mm256_and_si256(info, _mm256_set1_epi32(0xffff)));
    x = _mm256_add_epi32(x, _mm256_sub_epi32(place, _mm256_srli_epi32(info, 16)));
    __m256i low = _mm256_cmpeq_epi32(_mm256_srli_epi32(x, 16), _mm256_setzero_si256());
    uint32_t mask = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(low));
    uint64_t bytes = _pdep_u64(mask, 0x0101010101010101) * 255;
    __m128i order = _mm_cvtsi64_si128((long long)_pdep_u64(0x0706050403020100, bytes));
    __m256i next = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)*words));
    next = _mm256_permutevar8x32_epi32(next, _mm256_cvtepu8_epi32(order));
    __m256i refilled = _mm256_or_si256(_mm256_slli_epi32(x, 16), next);
    *states = _mm256_blendv_epi8(x, refilled, low);
    *words += 2 * (size_t)_mm_popcnt_u32(mask);
    return symbols;
}

/* Where tables begin, by context, as a vector to look up. */
INLINE static inline __m256i offsets_of(const uint8_t *memory, const uint8_t *const *tables,
                                        uint32_t n)
{
    uint32_t offsets[8] = {0};
    for (uint32_t i = 0; i < n; i++)
        offsets[i] = (uint32_t)(tables[i] - memory);
    return load(offsets);
}

/* 1 where v > limit, else 0, minus. */
INLINE static inline __m256i above(__m256i v, int limit)
{
    return _mm256_cmpgt_epi32(v, _mm256_set1_epi32(limit));
}

/* Class of offset codes, as psti_pli_lz_offset_class. */
INLINE static inline __m256i classes_of(__m256i codes)
{
    __m256i sum = _mm256_add_epi32(above(codes, PSTI_PLI_LZ_N_RECENT - 1),
                                   above(codes, PSTI_PLI_LZ_N_RECENT + 3));
    return _mm256_sub_epi32(_mm256_setzero_si256(),
                            _mm256_add_epi32(sum, above(codes, PSTI_PLI_LZ_EXPLICIT - 1)));
}

/* As psti_pli_lz_ending. */
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
                                        uint32_t steps, uint32_t *tokens, uint8_t *given_endings,
                                        const uint32_t n_vectors)
{
    enum { LOG2 = PSTI_PLI_LZ_SEQUENCE_BITS };
    const uint8_t *memory = tables->memory, *words = lanes->words;
    __m256i run_tables = offsets_of(memory, tables->run, PSTI_LZ_N_ENDINGS);
    __m256i offset_tables = offsets_of(memory, tables->offset, PSTI_PLI_LZ_OFFSET_CONTEXTS);
    __m256i length_tables = offsets_of(memory, tables->length, PSTI_PLI_LZ_LENGTH_CONTEXTS);
    __m256i x[VECTORS_MAX], endings[VECTORS_MAX], runs[VECTORS_MAX], codes[VECTORS_MAX];
    for (uint32_t v = 0; v < n_vectors; v++) {
        x[v] = load(lanes->x + LANES * v);
        endings[v] =
            _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(given_endings + LANES * v)));
    }
    uint32_t t = 0;
    for (; t < steps && (size_t)(lanes->end - words) >= 2 * 3 * LANES * n_vectors + 16; t++) {
        for (uint32_t v = 0; v < n_vectors; v++) {
            __m256i at = _mm256_permutevar8x32_epi32(run_tables, endings[v]);
            runs[v] = next_symbols(x + v, memory, at, LOG2, &words);
        }
        for (uint32_t v = 0; v < n_vectors; v++) {
            __m256i context = _mm256_blendv_epi8(
                endings[v], _mm256_set1_epi32(PSTI_PLI_LZ_OFFSET_AFTER_RUN), above(runs[v], 0));
            __m256i at = _mm256_permutevar8x32_epi32(offset_tables, context);
            codes[v] = next_symbols(x + v, memory, at, LOG2, &words);
        }
        for (uint32_t v = 0; v < n_vectors; v++) {
            __m256i at = _mm256_permutevar8x32_epi32(length_tables, classes_of(codes[v]));
            __m256i lengths = next_symbols(x + v, memory, at, LOG2, &words);
            endings[v] = endings_of(codes[v], lengths);
            __m256i packed =
                _mm256_or_si256(runs[v], _mm256_or_si256(_mm256_slli_epi32(codes[v], 8),
                                                         _mm256_slli_epi32(lengths, 16)));
            _mm256_storeu_si256((void *)(tokens + LANES * v), packed);
        }
        tokens += (size_t)LANES * n_vectors;
    }
    for (uint32_t v = 0; v < n_vectors; v++) {
        uint32_t last[LANES];
        _mm256_storeu_si256((void *)(lanes->x + LANES * v), x[v]);
        _mm256_storeu_si256((void *)last, endings[v]);
        for (uint32_t l = 0; l < LANES; l++)
            given_endings[LANES * v + l] = (uint8_t)last[l];
    }
    lanes->words = words;
    return t;
}

TARGET uint32_t psti_lz_sequences_avx2(struct psti_lz_lanes *lanes,
                                       const struct psti_lz_sequence_tables *tables,
                                       struct psti_lz_share share, uint32_t *tokens,
                                       uint8_t *endings)
{
    uint32_t steps = full_steps(share, lanes->n);
    if (lanes->n == LANES)
        return sequences(lanes, tables, steps, tokens, endings, 1);
    if (lanes->n == 2 * LANES)
        return sequences(lanes, tables, steps, tokens, endings, 2);
    return sequences(lanes, tables, steps, tokens, endings, 4);
}

/* Symbols of one table for all lanes, one byte each. */
INLINE static inline void symbols_step(uint32_t *states, uint32_t n_lanes, const uint8_t *table,
                                       const uint8_t **words, uint32_t *symbols)
{
    for (uint32_t l = 0; l < n_lanes; l += LANES) {
        __m256i x = load(states + l);
        __m256i s = next_symbols(&x, table, _mm256_setzero_si256(), PSTI_PLI_LZ_PIXEL_BITS, words);
        _mm256_storeu_si256((void *)(states + l), x);
        _mm256_storeu_si256((void *)(symbols + l), s);
    }
}

TARGET uint32_t psti_lz_symbols_avx2(struct psti_lz_lanes *lanes, const uint8_t *table,
                                     struct psti_lz_share share, uint8_t *out)
{
    uint32_t steps = full_steps(share, lanes->n), t = 0;
    const uint8_t *words = lanes->words;
    for (; t < steps && (size_t)(lanes->end - words) >= 2 * lanes->n + 16; t++) {
        uint32_t symbols[PSTI_LZ_LANES_MAX];
        symbols_step(lanes->x, lanes->n, table, &words, symbols);
        for (uint32_t l = 0; l < lanes->n; l++)
            out[l * share.per_lane + t] = (uint8_t)symbols[l];
    }
    lanes->words = words;
    return t;
}

TARGET uint32_t psti_lz_pixels_avx2(struct psti_lz_lanes *lanes, const struct psti_lz_pixels_to *to,
                                    struct psti_lz_share share)
{
    uint32_t steps = full_steps(share, lanes->n), t = 0, P = to->pixel_nbytes;
    const uint8_t *words = lanes->words;
    bool single[8] = {false};
    for (uint32_t b = 0; b < P; b++)
        single[b] = psti_lz_is_single(to->tables[b]);
    for (; t < steps && (size_t)(lanes->end - words) >= 2 * P * lanes->n + 16; t++) {
        uint64_t pixels[PSTI_LZ_LANES_MAX] = {0};
        for (uint32_t b = 0; b < P; b++) {
            uint32_t symbols[PSTI_LZ_LANES_MAX];
            if (!single[b])
                symbols_step(lanes->x, lanes->n, to->tables[b], &words, symbols);
            for (uint32_t l = 0; l < lanes->n; l++)
                pixels[l] |= (uint64_t)(single[b] ? to->tables[b][0] : symbols[l]) << 8 * b;
        }
        for (uint32_t l = 0; l < lanes->n; l++)
            memcpy(psti_lz_pixel_at(to, l * share.per_lane + t), pixels + l, P);
    }
    lanes->words = words;
    return t;
}
#endif
