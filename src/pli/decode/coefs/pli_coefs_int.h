/* pli_coefs_int.h - what the levels of the coefficient decoder share (docs/format-pli.md, section
 * 8): tables, a unit being decoded, its words and raw bits, and the stages that it goes through.
 *
 * pli_coefs.c parses the head of a unit and takes it through the stages of a level, in order; a
 * level may lend stages from another. What hostile bytes can do is settled here: words and raw bits
 * come through psti_pli_coefs_more_words() and psti_pli_coefs_peek(), which never read outside the
 * unit and give zeros behind its end; pli_coefs.c notices afterwards. */
#ifndef PST_PLI_COEFS_INT_H
#define PST_PLI_COEFS_INT_H

#include "base/bits.h"
#include "pli/decode/coefs/pli_coefs.h"

enum {
    PSTI_COEFS_LANES = 32,
    PSTI_COEFS_SQUARE = 64, /* positions of a square, entries of a group */
    PSTI_COEFS_STATE_NBYTES = 64,
    /* Bytes that may be read from where a step's words begin; it takes at most 64 of them. */
    PSTI_COEFS_STEP_NBYTES = 96,
    PSTI_COEFS_TAIL_NBYTES = 8, /* of the raw bytes, in front of the payload */
    PSTI_COEFS_BIN_LOG2 = 4,    /* slots that share an entry of `first` */
    PSTI_COEFS_N_BINS = PSTI_JPEG_PROB_SUM >> PSTI_COEFS_BIN_LOG2,
    PSTI_COEFS_LEVEL_NBYTES = 32 * 1024
};

/* -- Tables -- */

/* Plain C: `first` has the token of a bin's first slot; that of another slot of the bin is the same
 * or, rarely, a later one. Entries: the token's first slot in bits 0..15, its frequency in bits
 * 16..31. */
struct psti_coefs_table {
    uint8_t first[PSTI_COEFS_N_BINS];
    uint32_t entries[PSTI_JPEG_N_ENDS];
};
/* AC: bins of one slot. `first` and entries of all contexts, with tokens as 8 * context + token. */
struct psti_coefs_tables_c {
    uint8_t ac_first[PSTI_JPEG_N_AC_CONTEXTS * PSTI_JPEG_PROB_SUM];
    uint32_t ac_entries[PSTI_JPEG_N_AC_CONTEXTS * PSTI_JPEG_N_AC_TOKENS];
    uint32_t ac_row[PSTI_JPEG_N_INDICES]; /* 128 * D + x (8.4) -> where its context's slots begin */
    struct psti_coefs_table ends[2][PSTI_JPEG_N_ENDS], dc[2][PSTI_JPEG_N_ENDS];
};
struct psti_pli_coefs_tables {
    const struct psti_coefs_level *level;
    struct psti_jpeg_tables freqs;
    _Alignas(64) struct psti_coefs_tables_c plain;        /* psti_pli_coefs_prepare_c() */
    _Alignas(64) uint8_t memory[PSTI_COEFS_LEVEL_NBYTES]; /* another level's own */
};

/* -- Words -- */

/* A step may begin at `at` while that is not above `limit`. */
struct psti_coefs_words {
    const uint8_t *at, *limit, *end;
    bool in_tail, failed;
    uint8_t tail[2 * PSTI_COEFS_STEP_NBYTES]; /* the last words, and zeros */
};
/* To be called where at > limit; afterwards a step may begin at `at`. */
void psti_pli_coefs_more_words(struct psti_coefs_words *words);

/* -- Raw bits -- */

/* The string of bits: `raw`, then the payload, which is zeros until psti_coefs_add_payload(). */
struct psti_coefs_bits {
    const uint8_t *raw;
    size_t raw_nbytes, tail_begin;
    uint64_t at, end; /* in bits; at > end: more were wanted than there are */
    /* The last raw bytes, payload, zeros. */
    uint8_t tail[PSTI_COEFS_TAIL_NBYTES + PSTI_COEFS_STATE_NBYTES + 16];
};

/* 64 bits from there on. */
static inline uint64_t psti_pli_coefs_peek_at(const struct psti_coefs_bits *bits, uint64_t at)
{
    enum { LAST = PSTI_COEFS_TAIL_NBYTES + PSTI_COEFS_STATE_NBYTES };
    size_t byte = (size_t)(at >> 3), in_tail = byte - bits->tail_begin;
    uint32_t shift = (uint32_t)(at & 7);
    const uint8_t *p =
        byte < bits->tail_begin ? bits->raw + byte : bits->tail + (in_tail < LAST ? in_tail : LAST);
    return psti_load_u64(p) >> shift | (uint64_t)p[8] << 1 << (63 - shift);
}
/* The next 64 bits; whoever uses n of them adds n to bits->at. */
static inline uint64_t psti_pli_coefs_peek(const struct psti_coefs_bits *bits)
{
    return psti_pli_coefs_peek_at(bits, bits->at);
}

/* -- A unit -- */

/* Which blocks of the list are kept when values are placed. */
struct psti_coefs_kept {
    uint64_t lanes[PSTI_JPEG_SQUARES_MAX + 1];  /* of each 64 blocks */
    uint16_t before[PSTI_JPEG_SQUARES_MAX + 1]; /* so many of those before */
    uint16_t n_k[65];                           /* what out->n_k will be */
};

struct psti_coefs_unit {
    const struct psti_pli_coefs_tables *tables;
    struct psti_pli_coefs *out;
    _Alignas(64) uint32_t states[PSTI_COEFS_LANES];
    struct psti_coefs_words words;
    struct psti_coefs_bits bits;
    uintptr_t next; /* where the next unit is, if there is one */
    /* [square][position], aligned to 64; 0 where no block is. */
    uint8_t (*classes)[PSTI_COEFS_SQUARE], (*ends)[PSTI_COEFS_SQUARE];
    uint8_t (*dc_tokens)[PSTI_COEFS_SQUARE];
    uint16_t *order;                    /* out->order; 64 entries behind the list are writable */
    const struct psti_coefs_kept *kept; /* NULL: all; else `order` has these alone */
    uint8_t *sides; /* [list position]: 0 or 255; up to the next multiple of 64 readable */
    /* Plane k at tokens + k * stride; entries from n_k up to the next multiple of 64 are 0. */
    uint8_t *tokens;
    /* out->planes. Until the values are placed, the level's own: for example for the g of tokens,
     * which the next planes' contexts want. */
    int16_t *planes;
};

/* While plane k is read, asks for some of the next unit's bytes: the checksum would wait for them,
 * as units are larger than what is in flight at a time. */
static inline void psti_pli_coefs_ask(const struct psti_coefs_unit *unit, uint32_t k)
{
    enum { LINE = 64 };
    uintptr_t at = unit->next + 2 * LINE * (size_t)(k - 1);
    __builtin_prefetch((const void *)at);
    __builtin_prefetch((const void *)(at + LINE));
}

/* -- Stages -- */

/* Each goes on with the states, words and bits that the one before has left. */
struct psti_coefs_level {
    void (*prepare)(struct psti_pli_coefs_tables *tables); /* from tables->freqs */
    /* 8.2: tokens of all squares -> classes. */
    void (*read_classes)(struct psti_coefs_unit *unit);
    /* 8.2: raw bits -> ends, which may be above 63: the caller looks. */
    void (*read_ends)(struct psti_coefs_unit *unit);
    /* Ends -> order, sides, out->n_k. `out->n` and `out->stride` are known. */
    void (*sort)(struct psti_coefs_unit *unit);
    /* 8.3: tokens of all squares -> dc_tokens. */
    void (*read_dc)(struct psti_coefs_unit *unit);
    /* 8.4: planes first..last -> tokens; planes 1..first - 1 were read by the same function. */
    void (*read_ac)(struct psti_coefs_unit *unit, uint32_t first, uint32_t last);
    /* Blocks that are wanted -> *kept, unit->order. NULL: all are kept. */
    void (*keep)(struct psti_coefs_unit *unit, const uint64_t *wanted,
                 struct psti_coefs_kept *kept);
    /* 8.3: raw bits; DC -> plane 0. */
    void (*place_dc)(struct psti_coefs_unit *unit);
    /* 8.5: raw bits; planes 1..last. */
    void (*place_ac)(struct psti_coefs_unit *unit, uint32_t last);
};
extern const struct psti_coefs_level psti_coefs_level_c, psti_coefs_level_avx2,
    psti_coefs_level_avx512, psti_coefs_level_neon;

/* The stages in plain C, the reference (pli_coefs_c.c). */
void psti_pli_coefs_prepare_c(struct psti_pli_coefs_tables *tables);
void psti_pli_coefs_read_classes_c(struct psti_coefs_unit *unit);
void psti_pli_coefs_read_ends_c(struct psti_coefs_unit *unit);
void psti_pli_coefs_sort_c(struct psti_coefs_unit *unit);
void psti_pli_coefs_read_dc_c(struct psti_coefs_unit *unit);
void psti_pli_coefs_read_ac_c(struct psti_coefs_unit *unit, uint32_t first, uint32_t last);
void psti_pli_coefs_place_dc_c(struct psti_coefs_unit *unit);
void psti_pli_coefs_place_ac_c(struct psti_coefs_unit *unit, uint32_t last);
/* 8.3 and 8.5 of 64 entries: adds what tokens from 3 on have to their values, which are 2 yet.
 * `has_octaves`: token 7 is that of AC. */
void psti_pli_coefs_place_large_c(struct psti_coefs_bits *bits, const uint8_t *tokens,
                                  bool has_octaves, int16_t *values);

#endif
