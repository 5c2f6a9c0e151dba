/* pli_jpeg_file_print.h - inside the writer of JPEG files: the state of one scan, and functions
 * that write bits.
 *
 * Bits are written to a stage of a few kilobytes without stuffing. From there they are copied to
 * the file, with a zero after each 0xFF. Restorations may be hostile: any symbol may lack a code,
 * and the file may lack space for any byte. Both errors are remembered, and checked once per row.
 * The stage has space for an MCU whatever the MCU holds, and nothing is written beyond `end`. */
#ifndef PST_PLI_JPEG_FILE_PRINT_H
#define PST_PLI_JPEG_FILE_PRINT_H

#include "base/bits.h"
#include "pli/jpegfile/pli_jpeg_file_events.h"
#include "pli/jpegfile/pli_jpeg_file_int.h"

enum {
    PSTI_JPEG_SMALL_MAX = 127, /* the largest magnitude with entries of its own in `small` */
    PSTI_JPEG_SMALL_SIZE = 7,
    PSTI_JPEG_RUN_STEP = 256,
    PSTI_JPEG_LENGTH_BITS = 6,
    /* Maximum number of bytes of a block: DC and 63 coefficients, each a code of 16 bits and 15
     * more bits, and 5 more codes. */
    PSTI_JPEG_BLOCK_NBYTES = (64 * 31 + 5 * 16) / 8 + 1,
    PSTI_JPEG_MCU_NBYTES = PSTI_JPEG_MCU_BLOCKS_MAX * PSTI_JPEG_BLOCK_NBYTES + 8,
    PSTI_JPEG_PRINT_STAGE_NBYTES = 8192
};
#define PSTI_JPEG_NO_CODE 0x80000000u

struct psti_jpeg_encoder_table {
    /* Indexed by symbol: the code, followed by 6 bits with its length; PSTI_JPEG_NO_CODE if there
     * is no code. */
    uint32_t codes[256];
    /* Entries for a value after a run of zeros, at index run * PSTI_JPEG_RUN_STEP + value +
     * PSTI_JPEG_SMALL_MAX: the code with the value's bits after it, then 6 bits with the length of
     * both. PSTI_JPEG_NO_CODE if there is no code. The entry of value 0 is for the symbol that has
     * the run and no bits. */
    uint32_t small[16 * PSTI_JPEG_RUN_STEP];
};

/* Entropy-coded bits that are being written. The lowest `count` bits of `buffer` are still to be
 * written; the bits above them are already written. */
struct psti_jpeg_sink {
    uint64_t buffer;
    uint32_t count;
    /* bitwise OR of all table entries used so far; contains PSTI_JPEG_NO_CODE if a code was
     * missing */
    uint32_t entries;
    uint8_t *at; /* address of the next byte of the stage */
};

/* Adds `n` bits, at most 32. `value` has no bits above them. At most 63 bits may be added between
 * flushes. */
static inline void psti_pli_jpeg_add(struct psti_jpeg_sink *s, uint32_t value, uint32_t n)
{
    s->buffer = s->buffer << n | value;
    s->count += n;
}

/* Writes whole bytes and leaves at most 7 bits. There is no branch, because it is nearly random
 * whether a word is full. */
static inline void psti_pli_jpeg_flush(struct psti_jpeg_sink *s)
{
    psti_store_u64(s->at, __builtin_bswap64(s->buffer << (-s->count & 63)));
    s->at += s->count >> 3;
    s->count &= 7;
}

/* Adds bits and flushes. At most 7 bits may be left from before. */
static inline void psti_pli_jpeg_put(struct psti_jpeg_sink *s, uint32_t value, uint32_t n)
{
    psti_pli_jpeg_add(s, value, n);
    psti_pli_jpeg_flush(s);
}

/* Writes a symbol and the `n` bits after it, at most 15. */
static inline void psti_pli_jpeg_put_symbol(struct psti_jpeg_sink *s,
                                            const struct psti_jpeg_encoder_table *table,
                                            uint32_t symbol, uint32_t value, uint32_t n)
{
    uint32_t code = table->codes[symbol];
    s->entries |= code;
    psti_pli_jpeg_put(s, (code >> PSTI_JPEG_LENGTH_BITS) << n | value, (code & 63) + n);
}

/* Adds any value after a run of up to 15 zeros. At most 38 bits may be in the sink before. A small
 * value (0 is one) adds at most 23 bits. Any other value flushes first, and then at most 38 bits
 * are in the sink. Its bits are the lowest bits of v, or of v - 1 if v is negative; their number is
 * its size. */
PSTI_JPEG_INLINE void psti_pli_jpeg_add_any(struct psti_jpeg_sink *s,
                                            const struct psti_jpeg_encoder_table *table,
                                            uint32_t run, int32_t v)
{
    if (__builtin_expect((uint32_t)(v + PSTI_JPEG_SMALL_MAX) <= 2 * PSTI_JPEG_SMALL_MAX, 1)) {
        uint32_t at = run * PSTI_JPEG_RUN_STEP + (uint32_t)(v + PSTI_JPEG_SMALL_MAX);
        uint32_t entry = table->small[at];
        s->entries |= entry;
        psti_pli_jpeg_add(s, entry >> PSTI_JPEG_LENGTH_BITS, entry & 63);
        return;
    }
    uint32_t size = 32u - (uint32_t)__builtin_clz((uint32_t)(v < 0 ? -v : v));
    uint32_t bits = (uint32_t)(v + (v >> 31)) & ((1u << size) - 1);
    uint32_t code = size > 15 ? PSTI_JPEG_NO_CODE : table->codes[run << 4 | size];
    s->entries |= code;
    psti_pli_jpeg_flush(s);
    psti_pli_jpeg_add(s, code >> PSTI_JPEG_LENGTH_BITS << size | bits, (code & 63) + size);
}

struct psti_jpeg_printer {
    struct psti_jpeg_walk walk;
    struct psti_jpeg_layout layout;
    const struct psti_jpeg_frame *frame;
    const int16_t *const *coefs;
    struct psti_jpeg_unpacker *unpacker;
    struct psti_jpeg_event event; /* the next event of the restoration */
    bool bad_event, pads_with_0;
    /* Number of blocks of all scans so far; and that number when this scan began. */
    uint64_t position, scan_begin;
    struct psti_jpeg_sink sink;
    /* Where the next bytes of the scan's data go in the file, and where their space ends. */
    uint8_t *to, *end;
    bool full;                                     /* true if the space between `to` and `end` was
                                                    * too small */
    int32_t predictions[PSTI_JPEG_COMPONENTS_MAX]; /* last DC of each of the scan's components */
    /* For scans of AC. The run of ends that is not written yet: its number of blocks, its first
     * block, the coefficient of that block at which it begins, and its bits of correction. */
    uint32_t run, run_first, run_k, n_corrections;
    const struct psti_jpeg_encoder_table *dc[PSTI_JPEG_COMPONENTS_MAX],
        *ac[PSTI_JPEG_COMPONENTS_MAX];
    /* The members from here on are not cleared before a file. Tables are made when they are first
     * used. */
    struct psti_jpeg_encoder_table dc_tables[4], ac_tables[4];
    uint8_t stage[PSTI_JPEG_PRINT_STAGE_NBYTES];
};

/* Copies the stage to the file and empties it. */
void psti_pli_jpeg_drain(struct psti_jpeg_printer *p);
/* Returns true if the stage has space for an MCU. A block and the end of a run before it need
 * less. */
static inline bool psti_pli_jpeg_has_room(const struct psti_jpeg_printer *p, const uint8_t *at)
{
    return p->stage + PSTI_JPEG_PRINT_STAGE_NBYTES - at >= PSTI_JPEG_MCU_NBYTES;
}
static inline void psti_pli_jpeg_make_room(struct psti_jpeg_printer *p)
{
    if (!psti_pli_jpeg_has_room(p, p->sink.at))
        psti_pli_jpeg_drain(p);
}

/* Prints the data of the scan at which the walk stands. */
enum pst_status psti_pli_jpeg_print_scan(struct psti_jpeg_printer *p, struct pst_error *err);

size_t psti_pli_jpeg_print_work_nbytes(void);

/* Returns how many codes of 16 zeros an event requires at the end of this block. */
uint32_t psti_pli_jpeg_zeros_at(struct psti_jpeg_printer *p, uint64_t position);
/* Replaces the current event, which has been handled, by the next one. */
static inline void psti_pli_jpeg_next_event(struct psti_jpeg_printer *p)
{
    p->bad_event |= !psti_pli_jpeg_read_event(p->unpacker, &p->event);
}

/* Prints n MCUs of a row of MCUs, from `column` on, within one interval. */
typedef void psti_jpeg_mcus_printer(struct psti_jpeg_printer *p, uint32_t row, uint32_t column,
                                    uint32_t n);
psti_jpeg_mcus_printer psti_pli_jpeg_print_sequential, psti_pli_jpeg_print_dc_first,
    psti_pli_jpeg_print_dc_more, psti_pli_jpeg_print_ac_first, psti_pli_jpeg_print_ac_more;
psti_jpeg_mcus_printer psti_pli_jpeg_print_sequential_avx2;
/* Writes the EOB run (series of blocks without new coefficients) that is not written yet. */
void psti_pli_jpeg_print_run(struct psti_jpeg_printer *p);

/* Reads a restoration piece by piece: first the skeleton, then extra (pli_jpeg_file_pack.c). */
struct psti_jpeg_unpacker {
    void *stream; /* a z_stream of zlib */
    uint32_t skeleton_nbytes, extra_left;
    uint8_t flags;
    uint32_t n, at; /* number of bytes in `extra`, and number of these that were taken */
    bool is_short;  /* true if there are fewer bytes of extra than the restoration states */
    uint8_t extra[256];
};
/* Begins to read a restoration. psti_pli_jpeg_unpack_end must be called afterwards, even if this
 * fails. */
enum pst_status psti_pli_jpeg_unpack_begin(struct psti_jpeg_unpacker *u, const uint8_t *restoration,
                                           size_t nbytes, struct pst_error *err);
/* Reads the whole skeleton, skeleton_nbytes bytes. */
enum pst_status psti_pli_jpeg_unpack_skeleton(struct psti_jpeg_unpacker *u, uint8_t *skeleton,
                                              struct pst_error *err);
/* Returns the next byte of extra, or -1 if there is none. */
int psti_pli_jpeg_unpack_byte(struct psti_jpeg_unpacker *u);
/* Checks, after all of extra was taken, that the DEFLATE data end there and that the restoration
 * ends with them. */
enum pst_status psti_pli_jpeg_unpack_check_end(struct psti_jpeg_unpacker *u, struct pst_error *err);
void psti_pli_jpeg_unpack_end(struct psti_jpeg_unpacker *u);

#endif
