/* pli_jpeg_file_print.h - inside the writer of JPEG files: one scan's state, and how bits are put.
 *
 * Bits go to a stage of a few kilobytes, as they are; from there they are copied to the file, with
 * a zero behind each 0xFF. Hostile restorations lead here: every symbol may lack a code, every byte
 * may lack room. Both are remembered and looked at once per row; the stage has room for an MCU
 * whatever is in it, and nothing is written beyond `end`. */
#ifndef PST_PLI_JPEG_FILE_PRINT_H
#define PST_PLI_JPEG_FILE_PRINT_H

#include "base/bits.h"
#include "pli/jpegfile/pli_jpeg_file_int.h"

enum {
    PSTI_JPEG_SMALL_MAX = 127, /* values that have entries of their own, with either sign */
    PSTI_JPEG_SMALL_SIZE = 7,
    PSTI_JPEG_RUN_STEP = 256,
    PSTI_JPEG_LENGTH_BITS = 6,
    /* A block: DC, 63 coefficients, each a code of 16 bits and 15 more, and 5 codes more. */
    PSTI_JPEG_BLOCK_NBYTES = (64 * 31 + 5 * 16) / 8 + 1,
    PSTI_JPEG_MCU_NBYTES = PSTI_JPEG_MCU_BLOCKS_MAX * PSTI_JPEG_BLOCK_NBYTES + 8,
    PSTI_JPEG_PRINT_STAGE_NBYTES = 8192
};
#define PSTI_JPEG_NO_CODE 0x80000000u

struct psti_jpeg_encoder_table {
    /* By symbol: the code, then 6 bits: its length. PSTI_JPEG_NO_CODE: none. */
    uint32_t codes[256];
    /* By run and value, run * PSTI_JPEG_RUN_STEP + value + PSTI_JPEG_SMALL_MAX: the code with the
     * value's bits behind it, then 6 bits: the length of both. PSTI_JPEG_NO_CODE: none. Value 0
     * stands for the symbol that has the run and no bits. */
    uint32_t small[16 * PSTI_JPEG_RUN_STEP];
};

/* Entropy-coded data on their way: `count` bits, lowest in `buffer`; above them are bits that are
 * gone. */
struct psti_jpeg_sink {
    uint64_t buffer;
    uint32_t count;
    uint32_t entries; /* all that were put, ORed: PSTI_JPEG_NO_CODE shows */
    uint8_t *at;      /* of the stage, which has room */
};

/* Adds `n` bits, at most 32, the value has no others; at most 63 may come together. */
static inline void psti_pli_jpeg_add(struct psti_jpeg_sink *s, uint32_t value, uint32_t n)
{
    s->buffer = s->buffer << n | value;
    s->count += n;
}

/* Leaves at most 7 bits. There is no branch: when a word is full is as good as random. */
static inline void psti_pli_jpeg_flush(struct psti_jpeg_sink *s)
{
    psti_store_u64(s->at, __builtin_bswap64(s->buffer << (-s->count & 63)));
    s->at += s->count >> 3;
    s->count &= 7;
}

/* Both; at most 7 bits were left. */
static inline void psti_pli_jpeg_put(struct psti_jpeg_sink *s, uint32_t value, uint32_t n)
{
    psti_pli_jpeg_add(s, value, n);
    psti_pli_jpeg_flush(s);
}

/* A symbol and `n` bits behind it, at most 15. */
static inline void psti_pli_jpeg_put_symbol(struct psti_jpeg_sink *s,
                                            const struct psti_jpeg_encoder_table *table,
                                            uint32_t symbol, uint32_t value, uint32_t n)
{
    uint32_t code = table->codes[symbol];
    s->entries |= code;
    psti_pli_jpeg_put(s, (code >> PSTI_JPEG_LENGTH_BITS) << n | value, (code & 63) + n);
}

/* Any value behind a run of up to 15 zeros, where at most 38 bits are: to them come at most 23 of a
 * small one, which 0 is too, or 38 are left of all. The bits of one that is not small are its
 * lowest, or those of v - 1 if it is negative, as many as its size says. */
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

/* Events as they come out of the restoration; `position` is UINT64_MAX behind the last one. */
struct psti_jpeg_unpacker;
struct psti_jpeg_event {
    uint64_t position;
    uint8_t code;
};

struct psti_jpeg_printer {
    struct psti_jpeg_walk walk;
    struct psti_jpeg_layout layout;
    const struct psti_jpeg_frame *frame;
    const int16_t *const *coefs;
    struct psti_jpeg_unpacker *unpacker;
    struct psti_jpeg_event event; /* the next one */
    bool bad_event, pads_with_0;
    uint64_t position, scan_begin; /* blocks of all scans so far; at the beginning of this one */
    struct psti_jpeg_sink sink;
    uint8_t *to, *end; /* of the file's scan: where it goes on, and where its room ends */
    bool full;         /* it did not do */
    int32_t predictions[PSTI_JPEG_COMPONENTS_MAX]; /* by slot */
    /* Of scans of AC: the run of ends of blocks that is not yet written, its first block and where
     * in it the run begins, and its bits of correction. */
    uint32_t run, run_first, run_k, n_corrections;
    const struct psti_jpeg_encoder_table *dc[PSTI_JPEG_COMPONENTS_MAX],
        *ac[PSTI_JPEG_COMPONENTS_MAX];
    /* From here on nothing is cleared before a file: tables are made when they are first used. */
    struct psti_jpeg_encoder_table dc_tables[4], ac_tables[4];
    uint8_t stage[PSTI_JPEG_PRINT_STAGE_NBYTES];
};

/* What is in the stage goes to the file. */
void psti_pli_jpeg_drain(struct psti_jpeg_printer *p);
/* Room in the stage for an MCU; for a block, the end of a run before it, and more than that. */
static inline bool psti_pli_jpeg_has_room(const struct psti_jpeg_printer *p, const uint8_t *at)
{
    return p->stage + PSTI_JPEG_PRINT_STAGE_NBYTES - at >= PSTI_JPEG_MCU_NBYTES;
}
static inline void psti_pli_jpeg_make_room(struct psti_jpeg_printer *p)
{
    if (!psti_pli_jpeg_has_room(p, p->sink.at))
        psti_pli_jpeg_drain(p);
}

/* The scan that the walk stands at, into the sink. */
enum pst_status psti_pli_jpeg_print_scan(struct psti_jpeg_printer *p, struct pst_error *err);

size_t psti_pli_jpeg_print_work_nbytes(void);

/* Codes of 16 zeros at the end of this block that the file has for no need. */
uint32_t psti_pli_jpeg_zeros_at(struct psti_jpeg_printer *p, uint64_t position);
/* Takes the event that is due, for the next one. */
void psti_pli_jpeg_next_event(struct psti_jpeg_printer *p);

/* n MCUs of a row of MCUs, from `column` on; within one interval. */
typedef void psti_jpeg_mcus_printer(struct psti_jpeg_printer *p, uint32_t row, uint32_t column,
                                    uint32_t n);
psti_jpeg_mcus_printer psti_pli_jpeg_print_sequential, psti_pli_jpeg_print_sequential_avx2;

/* Restoration -> skeleton, then extra, piece by piece; pli_jpeg_file_pack.c. */
struct psti_jpeg_unpacker {
    void *stream; /* zlib's */
    uint32_t skeleton_nbytes, extra_left;
    uint8_t flags;
    uint32_t n, at; /* of `extra` */
    bool is_short;  /* less of extra came than was stated */
    uint8_t extra[256];
};
/* After this psti_pli_jpeg_unpack_end is due, whatever it returned. */
enum pst_status psti_pli_jpeg_unpack_begin(struct psti_jpeg_unpacker *u, const uint8_t *restoration,
                                           size_t nbytes, struct pst_error *err);
/* The whole of it: skeleton_nbytes. */
enum pst_status psti_pli_jpeg_unpack_skeleton(struct psti_jpeg_unpacker *u, uint8_t *skeleton,
                                              struct pst_error *err);
/* The next byte of extra; -1: there is none. */
int psti_pli_jpeg_unpack_byte(struct psti_jpeg_unpacker *u);
/* When all of extra was taken: the data must end with it, and the restoration with the data. */
enum pst_status psti_pli_jpeg_unpack_check_end(struct psti_jpeg_unpacker *u, struct pst_error *err);
void psti_pli_jpeg_unpack_end(struct psti_jpeg_unpacker *u);

#endif
