/* pli_jpeg_file_scan.h - inside the reader of JPEG files: one scan's state, and how its bits are
 * taken.
 *
 * Entropy-coded data are unstuffed, a restart interval at a time, into memory with zeros behind it,
 * so that the inner loops load eight bytes at once and look only once per block whether they have
 * left the data. */
#ifndef PST_PLI_JPEG_FILE_SCAN_H
#define PST_PLI_JPEG_FILE_SCAN_H

#include "base/bits.h"
#include "pli/jpegfile/pli_jpeg_file_int.h"

enum {
    PSTI_JPEG_LOOK_BITS = 10,
    PSTI_JPEG_LOOK = 1 << PSTI_JPEG_LOOK_BITS,
    PSTI_JPEG_QUICK_BITS = 11,
    PSTI_JPEG_QUICK = 1 << PSTI_JPEG_QUICK_BITS,
    PSTI_JPEG_QUICK_STEPS = 5,     /* looks of so many bits within the 56 that a refill gives */
    PSTI_JPEG_STAGE_PADDING = 512, /* more than a block and the loads ahead of it can take */
    PSTI_JPEG_NO_SYMBOL = 256
};

/* What is wrong with a block; 0 is nothing. */
enum psti_jpeg_trouble {
    PSTI_JPEG_FINE,
    PSTI_JPEG_BAD_CODE,
    PSTI_JPEG_BAD_RUN,   /* beyond the block's end */
    PSTI_JPEG_BAD_RANGE, /* a coefficient that 16 bits do not hold */
    PSTI_JPEG_NO_DATA,   /* the data end before */
    PSTI_JPEG_ODD_CODE,  /* sound, but not what the writer would have written */
    PSTI_JPEG_ODD_DATA,  /* irregular in more places than are kept */
};

struct psti_jpeg_decoder_table {
    /* By the next bits: bits of the code << 16 | symbol << 8 | bits of the code and of its value,
     * as many as the symbol's lower half says. 0: the code is longer. */
    uint32_t codes[PSTI_JPEG_LOOK];
    /* For sequential scans, by the next bits: bits of the code and of its value, then, from bit 8
     * on, by how many coefficients it goes on, from bit 16 on, the value; of 16 zeros that is 0.
     * Or PSTI_JPEG_SLOW, bits of the code, from bit 16 on the symbol: what ends a block, or has
     * more bits. No bits: the code is longer, or there is none. */
    uint32_t quick[PSTI_JPEG_QUICK];
    uint32_t ends[17];   /* by length: what 16 bits are below of codes so long */
    int32_t offsets[17]; /* + code: place in symbols */
    uint8_t symbols[256];
};
#define PSTI_JPEG_SLOW 0x8000u

/* Bits, the next one on top of `buffer`, of which `count` are to be relied upon. */
struct psti_jpeg_bits {
    uint64_t buffer;
    const uint8_t *at, *limit; /* beyond `limit` more was taken than there is */
    uint32_t count;
};

/* At least 56 bits; what was loaded before is loaded again as it was. Of `count` only 6 bits are
 * looked at, for those who let the bits above them go astray. */
static inline void psti_pli_jpeg_refill(struct psti_jpeg_bits *b)
{
    b->buffer |= __builtin_bswap64(psti_load_u64(b->at)) >> (b->count & 63);
    b->at += (~b->count & 63) >> 3;
    b->count |= 56;
}
/* At least 32: a code and its value. */
static inline void psti_pli_jpeg_need(struct psti_jpeg_bits *b)
{
    if (b->count < 32)
        psti_pli_jpeg_refill(b);
}
static inline void psti_pli_jpeg_drop(struct psti_jpeg_bits *b, uint32_t n)
{
    b->buffer <<= n;
    b->count -= n;
}
/* n: 1..16. */
static inline uint32_t psti_pli_jpeg_take(struct psti_jpeg_bits *b, uint32_t n)
{
    uint32_t value = (uint32_t)(b->buffer >> (64 - n));
    psti_pli_jpeg_drop(b, n);
    return value;
}
/* The value that the top n bits are, 1..15: those that begin with 0 are of the negative ones. */
static inline int32_t psti_pli_jpeg_value(uint64_t top, uint32_t n)
{
    uint64_t minus = (uint64_t)((int64_t)~top >> 63);
    return (int32_t)(((top ^ minus) >> (64 - n)) ^ minus) - (int32_t)minus;
}
static inline int32_t psti_pli_jpeg_take_value(struct psti_jpeg_bits *b, uint32_t n)
{
    int32_t value = psti_pli_jpeg_value(b->buffer, n);
    psti_pli_jpeg_drop(b, n);
    return value;
}
/* A code that is not in `codes`, as they are; 0: there is none. Bits are passed by value: what a
 * call has the address of is no longer kept in registers. */
uint32_t psti_pli_jpeg_find_long_code(uint64_t buffer, const struct psti_jpeg_decoder_table *table);
static inline uint32_t psti_pli_jpeg_find_code(const struct psti_jpeg_bits *b,
                                               const struct psti_jpeg_decoder_table *table)
{
    uint32_t code = table->codes[b->buffer >> (64 - PSTI_JPEG_LOOK_BITS)];
    return __builtin_expect(code == 0, 0) ? psti_pli_jpeg_find_long_code(b->buffer, table) : code;
}
/* PSTI_JPEG_NO_SYMBOL: no such code. */
static inline uint32_t psti_pli_jpeg_take_symbol(struct psti_jpeg_bits *b,
                                                 const struct psti_jpeg_decoder_table *table)
{
    uint32_t code = psti_pli_jpeg_find_code(b, table);
    if (code == 0)
        return PSTI_JPEG_NO_SYMBOL;
    psti_pli_jpeg_drop(b, code >> 16);
    return code >> 8 & 255;
}

/* Codes of events and where they stand; see PSTI_JPEG_EVENT_... */
struct psti_jpeg_events {
    uint8_t *bytes;
    size_t nbytes, capacity;
    uint64_t position; /* of the last one */
};

struct psti_jpeg_reader {
    struct psti_jpeg_walk walk;
    struct psti_jpeg_layout layout;
    const struct psti_jpeg_frame *frame;
    int16_t *const *coefs;
    struct psti_jpeg_events events;
    bool pads_known, pads_with_0;
    uint64_t position; /* blocks of all scans so far, at the beginning of a row or interval */
    /* The interval. */
    uint8_t *stage;    /* unstuffed data */
    size_t begin, end; /* of the data in the file */
    size_t stage_nbytes;
    bool at_end_of_file;
    uint8_t n_restarts;
    struct psti_jpeg_bits bits;
    int32_t predictions[PSTI_JPEG_COMPONENTS_MAX]; /* by slot */
    /* Of scans of AC: blocks still to come in the run of ends, its length so far, its bits of
     * correction. */
    uint32_t run_left, run, n_corrections;
    const struct psti_jpeg_decoder_table *dc[PSTI_JPEG_COMPONENTS_MAX],
        *ac[PSTI_JPEG_COMPONENTS_MAX];
    /* From here on nothing is cleared before a file: tables are made when they are first used. */
    struct psti_jpeg_decoder_table dc_tables[4], ac_tables[4];
};

/* The scan that the walk stands at, whose data end where walk.at will be. */
enum pst_status psti_pli_jpeg_read_scan(struct psti_jpeg_reader *r, struct pst_error *err);

/* False: no room. */
bool psti_pli_jpeg_add_event(struct psti_jpeg_events *events, uint64_t position, uint8_t code);

/* n MCUs of a row of MCUs, from `column` on; within one interval. */
typedef enum psti_jpeg_trouble psti_jpeg_mcus_reader(struct psti_jpeg_reader *r, uint32_t row,
                                                     uint32_t column, uint32_t n);
psti_jpeg_mcus_reader psti_pli_jpeg_read_sequential, psti_pli_jpeg_read_dc_first,
    psti_pli_jpeg_read_dc_more, psti_pli_jpeg_read_ac_first, psti_pli_jpeg_read_ac_more;
psti_jpeg_mcus_reader psti_pli_jpeg_read_sequential_bmi2;

static inline int16_t *psti_pli_jpeg_read_block(const struct psti_jpeg_reader *r,
                                                const struct psti_jpeg_place *place, uint32_t row,
                                                uint32_t column)
{
    return r->coefs[place->component] + psti_pli_jpeg_block_index(r->frame, place, row, column);
}

#endif
