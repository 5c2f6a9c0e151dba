/* pli_lz_execute.h - the loop that executes sequences: a template for the CPU levels.
 *
 * The includer defines LZ_TARGET (an attribute of every function), LZ_INLINE (LZ_TARGET and
 * always_inline) and these three:
 *
 *   size_t LZ_EDGE(uint8_t *to, const uint8_t *from, size_t room, uint32_t n, uint32_t P)
 *
 * LZ_EDGE returns the number of bytes from `from` to the n-th edge: a pixel after `from` and
 * before `to` that differs from the pixel before it. It returns 0 if there is none. It may
 * overwrite up to `room` bytes of `to` with a copy of `from`. The bytes that it returns have been
 * copied if they are at least 2 * WIDE less than `room`.
 *
 *   void LZ_MOVE(uint8_t *to, const uint8_t *from)
 *
 * LZ_MOVE copies WIDE bytes. It reads all of them before it writes any.
 *
 *   void LZ_REPEAT(uint8_t *to, size_t distance, size_t nbytes)
 *
 * LZ_REPEAT repeats the `distance` < WIDE bytes before `to`. It writes up to WIDE - 1 bytes more.
 *
 * Copies run over their end by up to WIDE - 1 bytes. The literals not yet used lie after the
 * output in the same memory, so copies are exact if the gap between them is short. The gap also
 * bounds every write: a sequence that would reach the literals still to come is an error. Values
 * that depend on tokens are looked up without branches, because tokens are hard to predict. */
#include "pli/decode/lz/pli_lz_copy.h"
#include "pli/decode/lz/pli_lz_tokens.h"
#include "pli/format/pli_lz_format.h"

/* The place of the next pixel to write, and the literals after it that are not used yet. */
struct output {
    uint8_t *at;
    const uint8_t *start, *literals, *end;
};

/* The numbers that tokens stand for: a base plus raw bits. The first entries for offsets are the
 * recent offsets. */
struct numbers {
    uint32_t offset_base[PSTI_PLI_LZ_N_OFFSETS];
    uint32_t count_base[PSTI_PLI_LZ_N_RUNS];
    uint8_t offset_bits[PSTI_PLI_LZ_N_OFFSETS];
    uint8_t count_bits[PSTI_PLI_LZ_N_RUNS];
};

LZ_TARGET static void make_numbers(struct numbers *n, uint32_t width)
{
    for (uint32_t i = 0; i < PSTI_PLI_LZ_N_RECENT; i++)
        n->offset_base[i] = i == 0 ? 1 : i * width;
    for (uint32_t i = 0; i < PSTI_PLI_LZ_N_NEAR; i++)
        n->offset_base[PSTI_PLI_LZ_N_RECENT + i] =
            (uint32_t)(psti_pli_lz_near[i].dy * (int)width - psti_pli_lz_near[i].dx);
    memset(n->offset_bits, 0, PSTI_PLI_LZ_EXPLICIT);
    for (uint32_t i = PSTI_PLI_LZ_EXPLICIT; i < PSTI_PLI_LZ_N_OFFSETS; i++) {
        n->offset_base[i] = psti_pli_lz_explicit_base(i);
        n->offset_bits[i] = (uint8_t)psti_pli_lz_explicit_bits(i);
    }
    for (uint32_t i = 0; i < PSTI_PLI_LZ_N_RUNS; i++) {
        n->count_base[i] = psti_pli_lz_count_base(i);
        n->count_bits[i] = (uint8_t)psti_pli_lz_count_bits(i);
    }
}

LZ_INLINE static inline void copy_wide(uint8_t *to, const uint8_t *from, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i += WIDE)
        LZ_MOVE(to + i, from + i);
}

/* Copies the next literals down to the output. Does nothing if they are already in place. */
LZ_INLINE static inline void put_literals(struct output *o, size_t nbytes)
{
    if ((size_t)(o->literals - o->at) >= WIDE)
        copy_wide(o->at, o->literals, nbytes);
    else
        memmove(o->at, o->literals, nbytes);
    o->at += nbytes;
    o->literals += nbytes;
}

LZ_INLINE static inline void put_copy(struct output *o, size_t distance, size_t nbytes)
{
    if ((size_t)(o->literals - o->at) >= nbytes + WIDE || o->literals == o->end) {
        if (distance >= WIDE)
            copy_wide(o->at, o->at - distance, nbytes);
        else
            LZ_REPEAT(o->at, distance, nbytes);
    } else {
        for (size_t i = 0; i < nbytes; i++)
            o->at[i] = (o->at - distance)[i];
    }
    o->at += nbytes;
}

/* Copies earlier pixels up to an edge. Source and destination do not overlap, because the edge lies
 * before the output. */
LZ_INLINE static inline const char *put_edge(struct output *o, size_t distance, uint32_t edge,
                                             const uint32_t P)
{
    size_t gap = (size_t)(o->literals - o->at);
    const uint8_t *from = o->at - distance;
    size_t nbytes = LZ_EDGE(o->at, from, gap, edge % PSTI_PLI_LZ_EDGE_N + 1, P);
    size_t less = (size_t)(edge / PSTI_PLI_LZ_EDGE_N) * P;
    if (nbytes <= less)
        return "length of an edge that is not there";
    nbytes -= less;
    if (nbytes > gap)
        return "more pixels than the unit has";
    if (nbytes + less + 2 * WIDE > gap)
        memmove(o->at, from, nbytes);
    o->at += nbytes;
    return NULL;
}

LZ_INLINE static inline uint32_t take_offset(struct psti_lz_execution *run, struct numbers *numbers,
                                             uint32_t token)
{
    uint32_t *recent = numbers->offset_base;
    uint32_t offset = recent[token] + psti_pli_lz_bits_take(&run->raw, numbers->offset_bits[token]);
    uint32_t r0 = recent[0], r1 = recent[1], r2 = recent[2];
    recent[0] = offset;
    recent[1] = offset == r0 ? r1 : r0;
    recent[2] = offset == r0 || offset == r1 ? r2 : r1;
    return offset;
}

LZ_INLINE static inline uint32_t take_count(struct psti_lz_execution *run,
                                            const struct numbers *numbers, uint32_t token)
{
    return numbers->count_base[token] +
           psti_pli_lz_bits_take(&run->raw, numbers->count_bits[token]);
}

/* Executes the n sequences of one lane. */
LZ_INLINE static inline const char *execute_lane(struct psti_lz_execution *run,
                                                 struct numbers *numbers, struct output *o,
                                                 const uint32_t *tokens, uint32_t n,
                                                 const uint32_t P)
{
    for (; n > 0; n--, tokens += run->n_lanes) {
        uint32_t run_token = *tokens & 255, offset_token = *tokens >> 8 & 255;
        uint32_t length_token = *tokens >> 16;
        psti_pli_lz_bits_fill(&run->raw);
        if (run_token > 0) {
            size_t nbytes = (size_t)take_count(run, numbers, run_token) * P;
            if (nbytes > (size_t)(o->end - o->literals))
                return "more literals than there are";
            put_literals(o, nbytes);
        }
        size_t distance = (size_t)take_offset(run, numbers, offset_token) * P;
        if (distance - 1 >= (size_t)(o->at - o->start))
            return "offset before the first pixel";
        if (length_token >= PSTI_PLI_LZ_N_RUNS) {
            const char *wrong = put_edge(o, distance, length_token - PSTI_PLI_LZ_N_RUNS, P);
            if (wrong)
                return wrong;
        } else {
            size_t nbytes = ((size_t)take_count(run, numbers, length_token) + 1) * P;
            if (nbytes > (size_t)(o->literals - o->at))
                return "more pixels than the unit has";
            put_copy(o, distance, nbytes);
        }
    }
    return NULL;
}

/* Executes all sequences. It is compiled once for each pixel size. */
LZ_INLINE static inline const char *execute(struct psti_lz_execution *given, const uint32_t P)
{
    /* A local copy keeps the members that the loop changes in registers. */
    struct psti_lz_execution run = *given;
    struct numbers numbers;
    struct output o = {
        .at = run.samples,
        .start = run.samples,
        .literals = run.literals,
        .end = run.literals + (size_t)run.n_literals * P,
    };
    make_numbers(&numbers, run.width);
    struct psti_pli_lz_share share = psti_pli_lz_share(run.n_sequences, run.n_lanes);
    uint32_t left = run.n_sequences;
    for (uint32_t l = 0; left > 0; l++) {
        uint32_t n = left < share.per_lane ? left : share.per_lane;
        const char *wrong = execute_lane(&run, &numbers, &o, run.tokens + l, n, P);
        if (wrong)
            return wrong;
        left -= n;
        if (run.done)
            run.done(run.done_ctx, (size_t)(o.at - o.start));
    }
    given->raw = run.raw;
    if (o.literals != o.at)
        return "fewer pixels than the unit has";
    if (run.done)
        run.done(run.done_ctx, (size_t)run.n_pixels * P);
    return NULL;
}

LZ_TARGET static const char *execute_any(struct psti_lz_execution *run, uint32_t pixel_nbytes)
{
    switch (pixel_nbytes) {
    case 1:
        return execute(run, 1);
    case 2:
        return execute(run, 2);
    case 3:
        return execute(run, 3);
    case 4:
        return execute(run, 4);
    case 6:
        return execute(run, 6);
    default:
        return execute(run, 8);
    }
}
