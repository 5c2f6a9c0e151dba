/* pli_wave_neon.h - inside the NEON level of the wave decoder: its scratch, and what its files tell
 * each other.
 *
 * A step of the cylinder (docs/format-pli.md, 5.5) is a row of 32 bytes, one for each lane: two
 * vectors. Rows are kept by step, so that neighbours stand at fixed distances; rows before step 0
 * exist and are zeros. */
#ifndef PST_DECODE_PLI_WAVE_NEON_H
#define PST_DECODE_PLI_WAVE_NEON_H

#include "decode/pli_wave_int.h"

#include "base/neon.h"

#if defined(PSTI_NEON)

enum {
    WAVE_LANES = PSTI_PLI_LANES,
    WAVE_BEFORE = 4, /* rows before step 0 */
    WAVE_ROWS = WAVE_BEFORE + PSTI_PLI_WAVE_MAX_STEPS + 6,
    /* Units that have more are left to plain C; encoders store such noise raw. */
    WAVE_MAX_WORDS = 10 * 1024,
    WAVE_MAX_RAW_NBYTES = 16 * 1024,
    WAVE_LINE = 704 /* bytes of one lane's samples of all bands, for those who read 96 at once */
};

/* 32 tokens or residuals; before them lanes 16..31 once more, so that what stands one or two lanes
 * up is read with one load. Each row is one line of the cache. */
struct psti_pli_wave_neon_row {
    uint8_t unused[16], before[16], lanes[WAVE_LANES];
};

/* Samples are kept less 128, as signed bytes: so they can be multiplied by coefficients. */
struct psti_pli_wave_neon_memory {
    _Alignas(64) struct psti_pli_wave_neon_row tokens[WAVE_ROWS]; /* become residuals in place */
    uint8_t samples[WAVE_ROWS][WAVE_LANES];
    uint8_t samples_above[WAVE_ROWS][WAVE_LANES]; /* turned by one lane */
    union {
        uint16_t words[WAVE_MAX_WORDS + 3 * WAVE_LANES];
        uint8_t lines[WAVE_LANES * WAVE_LINE];
    };
    uint8_t bits[WAVE_MAX_RAW_NBYTES + PSTI_PLI_WAVE_STATE_NBYTES + 16];
};
_Static_assert(sizeof(struct psti_pli_wave_neon_memory) <= PSTI_PLI_WORK_NBYTES, "scratch");

/* A unit on its way. */
struct psti_pli_wave_neon_job {
    const struct psti_pli_unit *unit;
    const struct psti_pli_wave_head *head;
    struct psti_pli_wave_tables *tables;
    struct psti_pli_wave_neon_memory *memory;
    uint16_t low[WAVE_LANES]; /* low halves of the states at the end */
    bool ends;                /* all words were used and the states are at their end */
};

/* pli_wave_neon_tokens.c */
void psti_pli_wave_neon_tokens(struct psti_pli_wave_neon_job *job);
/* pli_wave_neon_rebuild.c: residuals -> samples. */
void psti_pli_wave_neon_rebuild(struct psti_pli_wave_neon_job *job);

/* Bytes of which one is 0 (at 31), or the first 32 are 255. */
extern const uint8_t psti_pli_wave_neon_all_but_one[64], psti_pli_wave_neon_first_lanes[64];
/* (-2 l) mod 256. */
extern const uint8_t psti_pli_wave_neon_delay[WAVE_LANES];

/* Rows: lanes 0..15, 16..31. */
typedef struct {
    uint8x16_t v[2];
} v32;

PSTI_NEON_INLINE v32 row_load(const uint8_t *at)
{
    return (v32){{vld1q_u8(at), vld1q_u8(at + 16)}};
}
PSTI_NEON_INLINE void row_store(uint8_t *at, v32 v)
{
    vst1q_u8(at, v.v[0]);
    vst1q_u8(at + 16, v.v[1]);
}
PSTI_NEON_INLINE v32 row_of(uint8_t value) { return (v32){{vdupq_n_u8(value), vdupq_n_u8(value)}}; }
#define PSTI_WAVE_BOTH(name, call)                                                                 \
    PSTI_NEON_INLINE v32 name(v32 a, v32 b)                                                        \
    {                                                                                              \
        return (v32){{call(a.v[0], b.v[0]), call(a.v[1], b.v[1])}};                                \
    }
PSTI_WAVE_BOTH(row_add, vaddq_u8)
PSTI_WAVE_BOTH(row_add_saturated, vqaddq_u8)
PSTI_WAVE_BOTH(row_average_up, vrhaddq_u8)
PSTI_WAVE_BOTH(row_and, vandq_u8)
PSTI_WAVE_BOTH(row_or, vorrq_u8)

/* Lane l gets what lane l - 1 had, lane 0 what lane 31 had. */
PSTI_NEON_INLINE v32 turn(v32 v)
{
    return (v32){{vextq_u8(v.v[1], v.v[0], 15), vextq_u8(v.v[0], v.v[1], 15)}};
}
PSTI_NEON_INLINE v32 pick(v32 mask, v32 yes, v32 no)
{
    return (v32){{vbslq_u8(mask.v[0], yes.v[0], no.v[0]), vbslq_u8(mask.v[1], yes.v[1], no.v[1])}};
}
/* 0 in the lane that enters band t >> 6 last, 255 elsewhere: it is at column 0 in even steps, 1 in
 * odd ones. */
PSTI_NEON_INLINE v32 all_but_newest(uint32_t t)
{
    return row_load(psti_pli_wave_neon_all_but_one + 31 - ((t & 63) >> 1));
}
/* 255 in the lanes that are in band t >> 6; the others are in the band before. */
PSTI_NEON_INLINE v32 front_lanes(uint32_t t)
{
    return row_load(psti_pli_wave_neon_first_lanes + 31 - ((t & 63) >> 1));
}
/* (t mod 64) - 2 l mod 256. */
PSTI_NEON_INLINE v32 columns_of(uint32_t t)
{
    return row_add(row_of((uint8_t)(t & 63)), row_load(psti_pli_wave_neon_delay));
}

#endif
#endif
