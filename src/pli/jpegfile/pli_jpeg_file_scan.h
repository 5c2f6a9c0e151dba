/* pli_jpeg_file_scan.h - inside the reader of JPEG files: the state of one scan, and functions that
 * take its bits.
 *
 * Entropy-coded data are copied without stuffing, one restart interval at a time, to memory with
 * zeros after it. So the inner loops can load eight bytes at once, and need to check only once per
 * block whether they have read past the data. */
#ifndef PST_PLI_JPEG_FILE_SCAN_H
#define PST_PLI_JPEG_FILE_SCAN_H

#include "base/bits.h"
#include "pli/jpegfile/pli_jpeg_file_codes.h"
#include "pli/jpegfile/pli_jpeg_file_events.h"
#include "pli/jpegfile/pli_jpeg_file_int.h"

enum {
    PSTI_JPEG_QUICK_STEPS = 5,     /* 5 look-ups of 11 bits fit in the 56 bits of a refill */
    PSTI_JPEG_STAGE_PADDING = 512, /* bytes after the data; a block and the loads ahead of it use
                                    * fewer */
    PSTI_JPEG_NO_SYMBOL = 256
};

/* The kinds of errors in a block; 0 means no error. */
enum psti_jpeg_trouble {
    PSTI_JPEG_FINE,
    PSTI_JPEG_BAD_CODE,
    PSTI_JPEG_BAD_RUN,   /* a run of zeros goes past the block's end */
    PSTI_JPEG_BAD_RANGE, /* a coefficient does not fit 16 bits */
    PSTI_JPEG_NO_DATA,   /* the data end too early */
    PSTI_JPEG_ODD_CODE,  /* the code is valid, but the writer would use another code */
    PSTI_JPEG_ODD_DATA,  /* more irregular places than a restoration can hold */
};

/* The bits of an interval that are being read. The next bit is the highest of `buffer`, of which
 * `count` bits are valid. */
struct psti_jpeg_bits {
    uint64_t buffer;
    /* The next byte to load, and the limit: if `at` is beyond it, more bits were taken than
     * exist. */
    const uint8_t *at, *limit;
    uint32_t count;
};

/* Loads bits until there are at least 56. Bits that were loaded before are loaded again with the
 * same value. Only the 6 lowest bits of `count` are used, because some callers let the bits above
 * them become wrong. */
static inline void psti_pli_jpeg_refill(struct psti_jpeg_bits *b)
{
    b->buffer |= __builtin_bswap64(psti_load_u64(b->at)) >> (b->count & 63);
    b->at += (~b->count & 63) >> 3;
    b->count |= 56;
}
/* Loads bits if fewer than 32 are left. 32 bits are enough for a code and its value. */
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
/* Takes n bits, 1..16. */
static inline uint32_t psti_pli_jpeg_take(struct psti_jpeg_bits *b, uint32_t n)
{
    uint32_t value = (uint32_t)(b->buffer >> (64 - n));
    psti_pli_jpeg_drop(b, n);
    return value;
}
/* Returns the value that the highest n bits stand for, n = 1..15. Bits that begin with 0 stand for
 * a negative value. */
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
static inline uint32_t psti_pli_jpeg_find_code(const struct psti_jpeg_bits *b,
                                               const struct psti_jpeg_decoder_table *table)
{
    uint32_t code = table->codes[b->buffer >> (64 - PSTI_JPEG_LOOK_BITS)];
    return __builtin_expect(code == 0, 0) ? psti_pli_jpeg_find_long_code(b->buffer, table) : code;
}
/* Takes a symbol. Returns PSTI_JPEG_NO_SYMBOL if no code fits. */
static inline uint32_t psti_pli_jpeg_take_symbol(struct psti_jpeg_bits *b,
                                                 const struct psti_jpeg_decoder_table *table)
{
    uint32_t code = psti_pli_jpeg_find_code(b, table);
    if (code == 0)
        return PSTI_JPEG_NO_SYMBOL;
    psti_pli_jpeg_drop(b, code >> 16);
    return code >> 8 & 255;
}

struct psti_jpeg_reader {
    struct psti_jpeg_walk walk;
    struct psti_jpeg_layout layout;
    const struct psti_jpeg_frame *frame;
    int16_t *const *coefs;
    struct psti_jpeg_events events;
    bool pads_known, pads_with_0;
    uint64_t position; /* number of blocks of all scans before the current row or interval */
    /* The restart interval that is being read. `stage` holds its data. */
    uint8_t *stage;    /* data of the interval without stuffing */
    size_t begin, end; /* offsets in the file at which the interval's data begin and end */
    size_t stage_nbytes;
    bool at_end_of_file;
    uint8_t n_restarts;
    struct psti_jpeg_bits bits;
    int32_t predictions[PSTI_JPEG_COMPONENTS_MAX]; /* last DC of each of the scan's components */
    /* For AC scans, the current EOB run (series of blocks without new coefficients): number of its
     * blocks that still follow, its length so far, and number of its correction bits. */
    uint32_t run_left, run, n_corrections;
    const struct psti_jpeg_decoder_table *dc[PSTI_JPEG_COMPONENTS_MAX],
        *ac[PSTI_JPEG_COMPONENTS_MAX];
    /* The members from here on are not cleared before a file. Tables are made when they are first
     * used. */
    struct psti_jpeg_decoder_table dc_tables[4], ac_tables[4];
};

/* Reads the scan at which the walk stands. Sets walk.at to the end of the scan's data. */
enum pst_status psti_pli_jpeg_read_scan(struct psti_jpeg_reader *r, struct pst_error *err);

/* Reads n MCUs of a row of MCUs, from `column` on, within one interval. */
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
