/* pli_lz_copy.c - executes the sequences of an lz unit: literals, then a copy of earlier pixels.
 *
 * Tokens and raw bits come in, pixels go out, in order. Copies run over their end by up to 31
 * bytes; the literals not yet used lie behind the output in the same memory, so where the gap
 * between them is short copies are exact. That gap is also what bounds every write: a sequence
 * that would reach the literals still to come is an error. */
#include "decode/pli_lz_copy.h"
#include "format/format_pli_lz.h"

enum { WIDE = 32 };

/* Where the output stands. Distances are in bytes; n_left literals lie in [literals, end). */
struct output {
    uint8_t *at;
    const uint8_t *start, *literals, *end;
};

static inline void copy_wide(uint8_t *to, const uint8_t *from, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i += WIDE)
        memcpy(to + i, from + i, WIDE);
}

/* Literals move down, or stay where they are. */
static inline void put_literals(struct output *o, size_t nbytes)
{
    if ((size_t)(o->literals - o->at) >= WIDE)
        copy_wide(o->at, o->literals, nbytes);
    else
        memmove(o->at, o->literals, nbytes);
    o->at += nbytes;
    o->literals += nbytes;
}

/* Repeats what lies `distance` bytes before, `nbytes` of it; writes up to 31 bytes more. */
static inline void copy_near(uint8_t *to, size_t distance, size_t nbytes)
{
    const uint8_t *from = to - distance;
    /* Each turn doubles what is there of the pattern, until a wide copy reads only what is. */
    while (distance < WIDE) {
        uint8_t pattern[WIDE];
        memcpy(pattern, from, WIDE);
        memcpy(to, pattern, WIDE);
        if (nbytes <= distance)
            return;
        to += distance;
        nbytes -= distance;
        distance *= 2;
    }
    copy_wide(to, to - distance, nbytes);
}

static inline void put_copy(struct output *o, size_t distance, size_t nbytes)
{
    if ((size_t)(o->literals - o->at) >= nbytes + WIDE || o->literals == o->end) {
        if (distance >= WIDE)
            copy_wide(o->at, o->at - distance, nbytes);
        else
            copy_near(o->at, distance, nbytes);
    } else {
        for (size_t i = 0; i < nbytes; i++)
            o->at[i] = (o->at - distance)[i];
    }
    o->at += nbytes;
}

/* Bytes from `from` to the n-th pixel after it that differs from the one before it; 0 if there is
 * none before `end`. */
__attribute__((always_inline)) static inline size_t find_edge(const uint8_t *from,
                                                              const uint8_t *end, uint32_t n,
                                                              const uint32_t P)
{
    const uint8_t *p = from; /* the pixel before the next candidate */
    for (;;) {
        size_t i = 0;
        uint64_t differ;
        do {
            differ = psti_load_u64(p + i) ^ psti_load_u64(p + i + P);
            i += 8;
        } while (differ == 0 && p + i + P < end);
        if (differ == 0)
            return 0;
        i = i - 8 + (size_t)__builtin_ctzll(differ) / 8;
        p += i / P * P + P;
        if (p >= end)
            return 0;
        if (--n == 0)
            return (size_t)(p - from);
    }
}

static inline uint32_t take_count(struct psti_lz_bits *raw, uint32_t token)
{
    return psti_pli_lz_count_base(token) + psti_lz_bits_take(raw, psti_pli_lz_count_bits(token));
}

/* Pixels back to the source of a copy; 0 or huge where it is not allowed. */
static inline uint32_t take_offset(struct psti_lz_execution *run, uint32_t code, uint32_t *recent)
{
    uint32_t offset;
    if (code < PSTI_PLI_LZ_N_RECENT)
        offset = recent[code];
    else if (code < PSTI_PLI_LZ_EXPLICIT)
        offset = (uint32_t)(psti_pli_lz_near[code - PSTI_PLI_LZ_N_RECENT].dy * (int)run->width -
                            psti_pli_lz_near[code - PSTI_PLI_LZ_N_RECENT].dx);
    else
        offset = psti_pli_lz_explicit_base(code) +
                 psti_lz_bits_take(&run->raw, psti_pli_lz_explicit_bits(code));
    if (offset != recent[0]) {
        if (offset != recent[1])
            recent[2] = recent[1];
        recent[1] = recent[0];
        recent[0] = offset;
    }
    return offset;
}

/* Made once for each size of pixel. */
__attribute__((always_inline)) static inline const char *execute(struct psti_lz_execution *run,
                                                                 const uint32_t P)
{
    struct output o = {
        .at = run->samples,
        .start = run->samples,
        .literals = run->literals,
        .end = run->literals + (size_t)run->n_literals * P,
    };
    uint32_t recent[PSTI_PLI_LZ_N_RECENT] = {1, run->width, 2 * run->width};
    for (uint32_t i = 0; i < run->n_sequences; i++) {
        psti_lz_bits_fill(&run->raw);
        if (run->runs[i] > 0) {
            size_t nbytes = (size_t)take_count(&run->raw, run->runs[i]) * P;
            if (nbytes > (size_t)(o.end - o.literals))
                return "more literals than there are";
            put_literals(&o, nbytes);
        }
        size_t distance = (size_t)take_offset(run, run->offsets[i], recent) * P;
        if (distance - 1 >= (size_t)(o.at - o.start))
            return "offset before the first pixel";
        uint32_t token = run->lengths[i];
        size_t nbytes;
        if (token < PSTI_PLI_LZ_N_RUNS) {
            nbytes = ((size_t)take_count(&run->raw, token) + 1) * P;
        } else {
            token -= PSTI_PLI_LZ_N_RUNS;
            size_t less = token / PSTI_PLI_LZ_EDGE_N * P;
            nbytes = find_edge(o.at - distance, o.at, token % PSTI_PLI_LZ_EDGE_N + 1, P);
            if (nbytes <= less)
                return "length of an edge that is not there";
            nbytes -= less;
        }
        if (nbytes > (size_t)(o.literals - o.at))
            return "more pixels than the unit has";
        put_copy(&o, distance, nbytes);
    }
    if (o.literals - o.at != 0)
        return "fewer pixels than the unit has";
    return NULL;
}

const char *psti_lz_execute(struct psti_lz_execution *run, uint32_t pixel_nbytes, uint32_t cpu)
{
    (void)cpu;
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
