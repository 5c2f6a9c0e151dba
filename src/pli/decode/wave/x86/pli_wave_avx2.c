/* pli_wave_avx2.c - the wave decoder with AVX2.
 *
 * pli_wave_int.h says what goes in and out. Plain C gives the same samples and statuses. Plain C
 * also decodes units for which AVX2 code would not pay: units with more words or raw bytes than the
 * scratch holds and, with 8 bits, units whose taps exceed what 16-bit sums hold. The functions are
 * pure; any thread may call them.
 *
 * The tokens of two units of one shape are decoded at once, because with one unit alone the
 * processor waits a third of the time. The tokens come first (pli_wave_avx2_tokens_u8.c,
 * pli_wave_avx2_tokens_u16.c), then the stages of pli_wave_common.c. R and S stand for suffix1 and
 * suffix2 (docs/format-pli.md, 5.4). */
#include "pli/decode/wave/x86/pli_wave_avx2.h"

#if defined(__x86_64__)
#include "base/bits.h"

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE PSTI_WAVE_INLINE

/* -- Raw bits of samples of 8 bits -- */

/* Look-up tables by the lower four bits of an activity. `first` and `second` are masks with as many
 * bits as R and S have. points() uses `start`, `length` and `sum`. turns_x and turns_y are indexed
 * by the lower bits of R. */
struct raw_tables {
    v32 first, second, start, length, sum, turns_x, turns_y;
};

static struct raw_tables TARGET open_tables(void)
{
    uint8_t first[16], second[16], start[16], length[16], sum[16], x[16], y[16];
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t token = psti_pli_wave_tokens_of[i], n = psti_pli_wave_second_bits_of[i];
        uint8_t base = psti_pli_wave_bases_of[i];
        bool square = token >= PSTI_PLI_WAVE_FIRST_SQUARE;
        uint8_t half = (uint8_t)(token == PSTI_PLI_WAVE_ANY_PAIR ? 0 : 1 << n);
        first[i] = (uint8_t)((1u << psti_pli_wave_first_bits_of[i]) - 1);
        second[i] = (uint8_t)((1u << n) - 1);
        if (token == 0 || square) {
            start[i] = (uint8_t)(square ? half / 2 - base : 0);
            length[i] = 127;
            sum[i] = (uint8_t)((square ? half : 0) + 2);
        } else {
            start[i] = psti_pli_wave_points_b[base];
            length[i] = (uint8_t)(psti_pli_wave_points_a[base] + start[i]);
            sum[i] = (uint8_t)(length[i] + 2);
        }
        x[i] = (i & 3) == 1 || (i & 3) == 2 ? 255 : 1;
        y[i] = (i & 3) >= 2 ? 255 : 1;
    }
    return (struct raw_tables){both_halves(first),  both_halves(second), both_halves(start),
                               both_halves(length), both_halves(sum),    both_halves(x),
                               both_halves(y)};
}

INLINE uint64_t next_bits(const uint8_t *bits, uint64_t at)
{
    return psti_load_u64(bits + (at >> 3)) >> (at & 7);
}

/* Replaces each mask of a row (one word for each eight lanes) by the bits that the mask selects:
 * pdep hands it the next bits from bit number `at` on. Returns the number of the bit after the last
 * one taken. `long_ones`: a mask may have more than 57 bits. R of all tokens except ANY_PAIR has at
 * most 7 bits, so eight lanes have at most 56. */
INLINE uint64_t deal_row(uint64_t *masks, bool long_ones, const uint8_t *bits, uint64_t at)
{
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t n = (uint64_t)_mm_popcnt_u64(masks[i]), next = next_bits(bits, at);
        if (long_ones && n > 57)
            next |= (uint64_t)bits[(at >> 3) + 8] << 1 << (63 - (at & 7));
        masks[i] = _pdep_u64(next, masks[i]);
        at += n;
    }
    return at;
}

/* Replaces masks like deal_row(), but faster if all four masks together have few bits, which is
 * usual. */
INLINE uint64_t deal_short_row(uint64_t *masks, const uint8_t *bits, uint64_t at)
{
    uint64_t n[4], sum, next = next_bits(bits, at);
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; i++)
        n[i] = (uint64_t)_mm_popcnt_u64(masks[i]);
    sum = n[0] + n[1] + n[2] + n[3];
    if (sum > 57)
        return deal_row(masks, true, bits, at);
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; i++) {
        masks[i] = _pdep_u64(next, masks[i]);
        next >>= n[i] & 63;
    }
    return at + sum;
}

/* Turns a row of activities into residuals, by R and S. `squares`: some lanes have S.
 *
 * The points of a token of triangles have at most three different sums a + b. `start` is b of the
 * first point, and `length` is the number of points with its sum. Points of a square have `length`
 * 127, which leaves b unchanged. */
INLINE void points(const struct raw_tables *tables, v32 g, v32 r, v32 s, bool squares,
                   uint8_t (*out)[WAVE_LANES])
{
    const v32 ones = _mm256_set1_epi8(1), all = _mm256_set1_epi8(-1);
    v32 length = _mm256_shuffle_epi8(tables->length, g), d = _mm256_shuffle_epi8(tables->sum, g);
    v32 b = _mm256_and_si256(_mm256_srli_epi16(r, 2), _mm256_set1_epi8(63));
    b = _mm256_add_epi8(b, _mm256_shuffle_epi8(tables->start, g));
    if (squares) {
        b = _mm256_add_epi8(b, _mm256_avg_epu8(s, all)); /* 128 + s / 2 */
        b = _mm256_xor_si256(b, _mm256_set1_epi8((char)0x80));
        d = _mm256_add_epi8(d, s);
    }
    v32 within = _mm256_cmpgt_epi8(length, b);
    b = _mm256_sub_epi8(b, _mm256_andnot_si256(within, length));
    length = _mm256_add_epi8(_mm256_add_epi8(length, ones), within);
    d = _mm256_add_epi8(d, within);
    within = _mm256_cmpgt_epi8(length, b);
    b = _mm256_sub_epi8(b, _mm256_andnot_si256(within, length));
    d = _mm256_add_epi8(d, within);
    v32 x = _mm256_blendv_epi8(_mm256_sub_epi8(d, b), b, _mm256_slli_epi16(r, 7));
    v32 y = _mm256_sign_epi8(_mm256_sub_epi8(d, x), _mm256_shuffle_epi8(tables->turns_y, r));
    x = _mm256_sign_epi8(x, _mm256_shuffle_epi8(tables->turns_x, r));
    if (squares) {
        v32 any = _mm256_cmpeq_epi8(g, _mm256_set1_epi8(PSTI_PLI_WAVE_ANY_ACTIVITY));
        x = _mm256_blendv_epi8(x, r, any);
        y = _mm256_blendv_epi8(y, s, any);
    }
    row_store(out[0], x);
    row_store(out[1], y);
}

/* Decodes a chunk of rows in several passes, because a load that covers several recent stores has
 * to wait for them. */
INLINE uint64_t find_chunk(const struct raw_tables *tables, struct psti_pli_wave_row *rows,
                           uint32_t n, uint64_t *first, uint64_t *second, bool squares,
                           const uint8_t *bits, uint64_t at)
{
    for (uint32_t i = 0; i < n; i++) {
        at = deal_row(first + 4 * (size_t)i, squares, bits, at);
        if (squares)
            at = deal_short_row(second + 4 * (size_t)i, bits, at);
    }
    for (uint32_t i = 0; i < n; i++)
        points(tables, row_load(rows[i].lanes), row_load(first + 4 * (size_t)i),
               row_load(second + 4 * (size_t)i), squares, rows[i].residuals);
    return at;
}

/* Turns all activities of a unit into residuals. */
static uint64_t TARGET find_residuals(struct psti_pli_wave_job *job, uint64_t n_bits)
{
    enum { ROWS = 16 };
    struct psti_pli_wave_row *rows = job->memory->tokens + WAVE_BEFORE;
    const uint8_t *bits = job->memory->bits;
    uint64_t first[ROWS * 4], second[ROWS * 4], at = 0;
    uint32_t n_steps = job->head->n_token_steps;
    /* About where the bytes two units later in the file begin. */
    uintptr_t next = (uintptr_t)job->unit->bytes + 2 * job->unit->nbytes;
    const struct raw_tables tables = open_tables();
    (void)n_bits; /* not needed: the caller checks the number of bits (struct
                   * psti_pli_wave_rows_level says why) */
    for (uint32_t t = 0, n; t < n_steps; t += n, rows += n) {
        v32 squares = _mm256_setzero_si256();
        n = n_steps - t < ROWS ? n_steps - t : ROWS;
        for (uint32_t i = 0; i < n; i++) {
            v32 g = row_load(rows[i].lanes), masks = _mm256_shuffle_epi8(tables.second, g);
            row_store(first + 4 * (size_t)i, _mm256_shuffle_epi8(tables.first, g));
            row_store(second + 4 * (size_t)i, masks);
            squares = _mm256_or_si256(squares, masks);
            psti_pli_wave_ask(&job->unit, 1, next, 2 * (t + i));
        }
        if (_mm256_testz_si256(squares, squares))
            at = find_chunk(&tables, rows, n, first, second, false, bits, at);
        else
            at = find_chunk(&tables, rows, n, first, second, true, bits, at);
    }
    return at;
}

/* -- A whole unit -- */

static const struct psti_pli_wave_rows_level level = {
    .values = {find_residuals, psti_pli_wave_avx2_residuals_u16},
    .rebuild = {psti_pli_wave_avx2_rebuild, psti_pli_wave_avx2_rebuild_u16},
};

static bool can_decode(const struct psti_pli_unit *unit, const struct psti_pli_wave_head *head)
{
    return psti_pli_wave_rows_fit(unit, head) &&
           (unit->bits == 16 || psti_pli_wave_avx2_can_rebuild(head));
}

enum pst_status psti_pli_wave_decode_avx2(const struct psti_pli_unit *unit,
                                          struct psti_pli_wave_head *head,
                                          struct psti_pli_wave_tables *tables, void *work,
                                          struct psti_pli_planes *planes, struct pst_error *err)
{
    if (!can_decode(unit, head))
        return psti_pli_wave_decode_c(unit, head, tables, work, planes, err);
    struct psti_pli_wave_job job = {.unit = unit, .head = head, .tables = tables, .memory = work};
    if (head->n_coded > 0 && unit->bits == 8)
        psti_pli_wave_avx2_tokens_u8(&job);
    else if (head->n_coded > 0)
        psti_pli_wave_avx2_tokens(&job);
    return psti_pli_wave_rows_finish(&level, &job, planes, err);
}

bool psti_pli_wave_decode_some_avx2(const struct psti_pli_unit *units,
                                    struct psti_pli_wave_head *heads, uint32_t n_units,
                                    struct psti_pli_wave_tables *tables, void *work,
                                    struct psti_pli_planes *planes, enum pst_status *statuses,
                                    struct pst_error *err)
{
    struct psti_pli_wave_memory *memory = work;
    if (n_units != 2 || heads[0].n_coded == 0 || !can_decode(units, heads) ||
        !can_decode(units + 1, heads + 1) || units[0].width != units[1].width ||
        !psti_pli_wave_same_shape(units, heads, 2))
        return false;
    struct psti_pli_wave_job jobs[2] = {
        {.unit = units, .head = heads, .tables = tables, .memory = memory},
        {.unit = units + 1, .head = heads + 1, .tables = tables, .memory = memory + 1}};
    if (units->bits == 8)
        psti_pli_wave_avx2_tokens_u8_two(jobs);
    else
        psti_pli_wave_avx2_tokens_two(jobs);
    if (!jobs[0].ends || !jobs[1].ends)
        return false; /* the caller then decodes the units one by one, and so finds and reports the
                       * error */
    statuses[0] = psti_pli_wave_rows_finish(&level, jobs, planes, err);
    statuses[1] =
        psti_pli_wave_rows_finish(&level, jobs + 1, planes + 1, statuses[0] == PST_OK ? err : NULL);
    return true;
}
#endif
