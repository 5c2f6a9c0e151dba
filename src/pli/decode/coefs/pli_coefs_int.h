/* pli_coefs_int.h - declarations that the levels of the coefficient decoder share
 * (docs/format-pli.md, section 8): tables, a unit that is being decoded, its words and raw bits,
 * and its stages.
 *
 * pli_coefs.c parses the head of a unit and calls the stages of a level in order. A level may use
 * stages of another. Hostile bytes cannot make a stage read outside the unit: it gets words and raw
 * bits from psti_pli_coefs_more_words() and psti_pli_coefs_peek(), which give zeros past the unit's
 * end. pli_coefs.c checks afterwards whether such zeros were used. */
#ifndef PST_PLI_COEFS_INT_H
#define PST_PLI_COEFS_INT_H

#include "base/bits.h"
#include "pli/decode/coefs/pli_coefs.h"

enum {
    PSTI_COEFS_LANES = 32,
    PSTI_COEFS_SQUARE = 64, /* number of positions in a square, or of list entries in a group */
    PSTI_COEFS_STATE_NBYTES = 64,
    /* Bytes that must be readable from the start of a step's words, although a step takes at most
     * 64 of them. */
    PSTI_COEFS_STEP_NBYTES = 96,
    PSTI_COEFS_TAIL_NBYTES = 8, /* raw bytes at the end of the raw string that `tail` holds before
                                 * the payload */
    PSTI_COEFS_BIN_LOG2 = 4,    /* 2^4 slots share an entry of `first` */
    PSTI_COEFS_N_BINS = PSTI_JPEG_PROB_SUM >> PSTI_COEFS_BIN_LOG2,
    PSTI_COEFS_LEVEL_NBYTES = 32 * 1024
};

/* -- Tables -- */

/* A table of plain C. `first` holds the token of each bin's first slot. Another slot of the bin has
 * the same token or, rarely, a later one. An entry holds the token's first slot in bits 0..15 and
 * its frequency in bits 16..31. */
struct psti_coefs_table {
    uint8_t first[PSTI_COEFS_N_BINS];
    uint32_t entries[PSTI_JPEG_N_ENDS];
};
/* Tables of plain C. For AC a bin has one slot, `ac_first` and `ac_entries` hold all contexts, and
 * a token is stored as 8 * context + token. */
struct psti_coefs_tables_c {
    uint8_t ac_first[PSTI_JPEG_N_AC_CONTEXTS * PSTI_JPEG_PROB_SUM];
    uint32_t ac_entries[PSTI_JPEG_N_AC_CONTEXTS * PSTI_JPEG_N_AC_TOKENS];
    /* By 128 * distance + size (8.4): the start of the context's slots in ac_first. */
    uint32_t ac_row[PSTI_JPEG_N_INDICES];
    struct psti_coefs_table ends[2][PSTI_JPEG_N_ENDS], dc[2][PSTI_JPEG_N_ENDS];
};
struct psti_pli_coefs_tables {
    const struct psti_coefs_level *level;
    struct psti_jpeg_tables freqs;
    _Alignas(64) struct psti_coefs_tables_c plain;        /* made by psti_pli_coefs_prepare_c() */
    _Alignas(64) uint8_t memory[PSTI_COEFS_LEVEL_NBYTES]; /* tables of other levels */
};

/* -- Words -- */

/* The read position in the words of a unit. A step may read at `at` as long as `at` is not above
 * `limit`. */
struct psti_coefs_words {
    const uint8_t *at, *limit, *end;
    bool in_tail, failed;
    uint8_t tail[2 * PSTI_COEFS_STEP_NBYTES]; /* a copy of the last words, followed by zeros */
};
/* Makes `at` readable for another step. It must be called if `at` is above `limit`. */
void psti_pli_coefs_more_words(struct psti_coefs_words *words);

/* -- The raw bits of a unit -- */

/* The raw string of a unit: the raw bytes, then the payload. The payload is zeros until
 * add_payload() of pli_coefs.c stores it. */
struct psti_coefs_bits {
    const uint8_t *raw;
    size_t raw_nbytes, tail_begin;
    uint64_t at, end; /* bits taken so far, and bits in all; at > end: more bits were taken than
                       * exist */
    /* A copy of the end of the raw string: the last raw bytes, the payload, and zeros. */
    uint8_t tail[PSTI_COEFS_TAIL_NBYTES + PSTI_COEFS_STATE_NBYTES + 16];
};

/* Returns the 64 bits from bit `at` on. */
static inline uint64_t psti_pli_coefs_peek_at(const struct psti_coefs_bits *bits, uint64_t at)
{
    enum { LAST = PSTI_COEFS_TAIL_NBYTES + PSTI_COEFS_STATE_NBYTES };
    size_t byte = (size_t)(at >> 3), in_tail = byte - bits->tail_begin;
    const uint8_t *p =
        byte < bits->tail_begin ? bits->raw + byte : bits->tail + (in_tail < LAST ? in_tail : LAST);
    return psti_load_bits64(p, at & 7);
}
/* Returns the next 64 bits. A caller that uses n of them adds n to bits->at. */
static inline uint64_t psti_pli_coefs_peek(const struct psti_coefs_bits *bits)
{
    return psti_pli_coefs_peek_at(bits, bits->at);
}

/* -- The state of a unit -- */

/* How to move the kept ones of eight neighbouring blocks: a shuffle that brings their values
 * together, and the place to store them. */
struct psti_coefs_move {
    _Alignas(16) uint8_t indices[16]; /* byte indices for the shuffle of eight 16-bit values, which
                                       * puts kept values first */
    uint16_t to;                      /* number of blocks that are kept before these eight */
};
/* The blocks of the list that are kept when values are placed. */
struct psti_coefs_kept {
    /* For each 64 blocks of the list: a bit for each block that is kept. */
    uint64_t lanes[PSTI_JPEG_SQUARES_MAX + 1];
    /* For each 64 blocks of the list: how many of the blocks before them are kept. */
    uint16_t before[PSTI_JPEG_SQUARES_MAX + 1];
    uint16_t n_k[65]; /* values that out->n_k gets when the coefficients are placed */
    /* How to move each group of eight blocks in the list. Only psti_pli_coefs_keep_c() sets it. */
    struct psti_coefs_move moves[PSTI_JPEG_SQUARES_MAX * PSTI_COEFS_SQUARE / 8];
};
/* Returns how many of the first n blocks of the list are kept. */
static inline uint16_t psti_pli_coefs_count_kept(const struct psti_coefs_kept *kept, uint32_t n)
{
    uint64_t lanes = kept->lanes[n / 64] & ((UINT64_C(1) << n % 64) - 1);
    return (uint16_t)(kept->before[n / 64] + (uint32_t)__builtin_popcountll(lanes));
}

/* A unit that is being decoded. It lies at the start of the unit's working memory. */
struct psti_coefs_unit {
    const struct psti_pli_coefs_tables *tables;
    struct psti_pli_coefs *out;
    uint32_t last; /* number of the last plane that the caller wants */
    _Alignas(64) uint32_t states[PSTI_COEFS_LANES];
    struct psti_coefs_words words;
    struct psti_coefs_bits bits;
    uintptr_t next; /* address of the next unit in the file; 0: none */
    /* Each array is indexed by [square][position] and aligned to 64. Positions without a block are
     * 0. */
    uint8_t (*classes)[PSTI_COEFS_SQUARE], (*ends)[PSTI_COEFS_SQUARE];
    uint8_t (*dc_tokens)[PSTI_COEFS_SQUARE];
    /* The same memory as out->order; 64 entries after the list may be written. */
    uint16_t *order;
    /* The blocks that are kept; `order` then has only these blocks. NULL: all blocks are kept. */
    const struct psti_coefs_kept *kept;
    uint8_t *sides; /* side of each block, by list position: 0, or 255 for side 1 (chroma); readable
                     * up to the next multiple of 64 */
    /* The tokens of plane k are at tokens + k * stride. Entries from n_k[k] up to the next multiple
     * of 64 are 0. */
    uint8_t *tokens;
    /* The same memory as out->planes. Until the values are placed, the level may use it, for
     * example for the g of tokens, which the contexts of later planes need. */
    int16_t *planes;
};

/* Prefetches some of the next unit's bytes while plane k is read. Without this, the checksum of
 * that unit would wait for memory, because units are larger than what the processor fetches by
 * itself. All 63 planes prefetch PSTI_COEFS_ASKED_NBYTES. */
enum { PSTI_COEFS_PLANE_ASKS = 2 * 64, PSTI_COEFS_ASKED_NBYTES = 63 * PSTI_COEFS_PLANE_ASKS };
static inline void psti_pli_coefs_ask(const struct psti_coefs_unit *unit, uint32_t k)
{
    uintptr_t at = unit->next + (size_t)PSTI_COEFS_PLANE_ASKS * (k - 1);
    __builtin_prefetch((const void *)at);
    __builtin_prefetch((const void *)(at + PSTI_COEFS_PLANE_ASKS / 2));
}

/* -- Stages -- */

/* The stages of a level. Each stage continues with the states, words and raw bits of the stage
 * before. */
struct psti_coefs_level {
    void (*prepare)(struct psti_pli_coefs_tables *tables); /* makes the tables from tables->freqs */
    /* Decodes the tokens of all squares (8.2) to `classes`. */
    void (*read_classes)(struct psti_coefs_unit *unit);
    /* Reads the raw bits of 8.2 and sets `ends`. They may be above 63, which the caller checks. */
    void (*read_ends)(struct psti_coefs_unit *unit);
    /* Makes the order, the sides and out->n_k from the ends. `out->n` and `out->stride` are already
     * set. */
    void (*sort)(struct psti_coefs_unit *unit);
    /* Decodes the tokens of all squares (8.3) to `dc_tokens`. */
    void (*read_dc)(struct psti_coefs_unit *unit);
    /* Decodes the AC tokens of planes first..last (8.4). The same function has read planes 1..first
     * - 1. */
    void (*read_ac)(struct psti_coefs_unit *unit, uint32_t first, uint32_t last);
    /* Decodes the AC tokens of planes 1..last[i] of two units of one image, side by side. A level
     * without this function (NULL) reads one unit after the other. */
    void (*read_two)(struct psti_coefs_unit *const units[2], const uint32_t last[2]);
    /* Selects the wanted blocks: sets *kept and leaves only these blocks in unit->order. A level
     * without this function (NULL) keeps all blocks. */
    void (*keep)(struct psti_coefs_unit *unit, const uint64_t *wanted,
                 struct psti_coefs_kept *kept);
    /* Reads the raw bits of 8.3 and writes DC to plane 0. */
    void (*place_dc)(struct psti_coefs_unit *unit);
    /* Reads the raw bits of 8.5 and writes planes 1..last. */
    void (*place_ac)(struct psti_coefs_unit *unit, uint32_t last);
};
extern const struct psti_coefs_level psti_coefs_level_c, psti_coefs_level_avx2,
    psti_coefs_level_avx512, psti_coefs_level_neon;

/* The stages in plain C, which are the reference implementation (pli_coefs_c.c). */
void psti_pli_coefs_prepare_c(struct psti_pli_coefs_tables *tables);
void psti_pli_coefs_read_classes_c(struct psti_coefs_unit *unit);
void psti_pli_coefs_read_ends_c(struct psti_coefs_unit *unit);
void psti_pli_coefs_sort_c(struct psti_coefs_unit *unit);
void psti_pli_coefs_read_dc_c(struct psti_coefs_unit *unit);
void psti_pli_coefs_read_ac_c(struct psti_coefs_unit *unit, uint32_t first, uint32_t last);
/* Keeps blocks as plain C does. Levels that place values eight at a time use it, too. */
void psti_pli_coefs_keep_c(struct psti_coefs_unit *unit, const uint64_t *wanted,
                           struct psti_coefs_kept *kept);
void psti_pli_coefs_place_dc_c(struct psti_coefs_unit *unit);
void psti_pli_coefs_place_ac_c(struct psti_coefs_unit *unit, uint32_t last);
/* Reads the magnitude bits of 64 entries (8.3, 8.5). Values of tokens >= 3 are 2 on entry; this
 * function adds the rest of the magnitude. `has_octaves`: the tokens are AC tokens, of which token
 * 7 has an octave. */
void psti_pli_coefs_place_large_c(struct psti_coefs_bits *bits, const uint8_t *tokens,
                                  bool has_octaves, int16_t *values);

#endif
