/* pli_jpeg_file_print.h - inside the writer of JPEG files: one scan's state, and how bits are put.
 *
 * Hostile restorations lead here: every symbol may lack a code, every byte may lack room. Both are
 * remembered and looked at once per row, and nothing is written beyond `end`. */
#ifndef PST_ENCODE_PLI_JPEG_FILE_PRINT_H
#define PST_ENCODE_PLI_JPEG_FILE_PRINT_H

#include "base/bits.h"
#include "encode/pli_jpeg_file_int.h"

enum {
    PSTI_JPEG_QUICK_MAX = 1023, /* values of at most PSTI_JPEG_QUICK_SIZE bits */
    PSTI_JPEG_QUICK_SIZE = 10,
    PSTI_JPEG_N_QUICK = 2 * PSTI_JPEG_QUICK_MAX + 1
};

struct psti_jpeg_encoder_table {
    uint32_t codes[256]; /* by symbol: code << 8 | length; 0: none */
    /* By symbols whose values have PSTI_JPEG_QUICK_SIZE bits or fewer: the code, the place of the
     * value's bits behind it, then 5 bits: the length of both. PSTI_JPEG_NO_CODE: none. */
    uint32_t quick[256];
};
#define PSTI_JPEG_NO_CODE 0x80000000u

/* Entropy-coded data on their way: `count` bits, fewer than 64, lowest in `buffer`. */
struct psti_jpeg_sink {
    uint64_t buffer;
    uint32_t count;
    uint32_t codes; /* all that were put quickly, ORed: PSTI_JPEG_NO_CODE shows */
    bool full, lacks_code;
    uint8_t *at, *end;
};

/* The highest n_bytes of the word, a zero behind each 0xFF. */
void psti_jpeg_put_bytes(struct psti_jpeg_sink *s, uint64_t word, uint32_t n_bytes);

/* Adds `n` bits, at most 32; the value has no others. */
static inline void psti_jpeg_put(struct psti_jpeg_sink *s, uint32_t value, uint32_t n)
{
    uint32_t count = s->count + n;
    if (__builtin_expect(count < 64, 1)) {
        s->buffer = s->buffer << n | value;
        s->count = count;
        return;
    }
    uint32_t n_more = count - 64; /* bits that are left: fewer than n */
    uint64_t word = s->buffer << (n - n_more) | value >> n_more;
    s->buffer = value;
    s->count = n_more;
    bool has_ff = (word & ~(word + 0x0101010101010101u) & 0x8080808080808080u) != 0;
    if (__builtin_expect(has_ff || s->end - s->at < 8, 0)) {
        /* A copy, so that the sink itself can be kept in registers. */
        struct psti_jpeg_sink copy = *s;
        psti_jpeg_put_bytes(&copy, word, 8);
        *s = copy;
        return;
    }
    psti_store_u64(s->at, __builtin_bswap64(word));
    s->at += 8;
}

/* A symbol and `n` bits behind it, at most 15. */
static inline void psti_jpeg_put_symbol(struct psti_jpeg_sink *s,
                                        const struct psti_jpeg_encoder_table *table,
                                        uint32_t symbol, uint32_t value, uint32_t n)
{
    uint32_t code = table->codes[symbol];
    s->lacks_code |= code == 0;
    psti_jpeg_put(s, (code >> 8) << n | value, (code & 255) + n);
}

/* A value of at most PSTI_JPEG_QUICK_MAX by its entry, behind a run of zeros. */
static inline void psti_jpeg_put_quick(struct psti_jpeg_sink *s,
                                       const struct psti_jpeg_encoder_table *table, uint32_t run,
                                       uint32_t value)
{
    uint32_t code = table->quick[run << 4 | (value & 15)];
    s->codes |= code;
    psti_jpeg_put(s, code >> 5 | value >> 4, code & 31);
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
    int32_t predictions[PSTI_JPEG_COMPONENTS_MAX]; /* by slot */
    /* Of scans of AC: the run of ends of blocks that is not yet written, its first block and where
     * in it the run begins, and its bits of correction. */
    uint32_t run, run_first, run_k, n_corrections;
    const struct psti_jpeg_encoder_table *dc[PSTI_JPEG_COMPONENTS_MAX],
        *ac[PSTI_JPEG_COMPONENTS_MAX];
    struct psti_jpeg_encoder_table dc_tables[4], ac_tables[4];
    /* By value + PSTI_JPEG_QUICK_MAX: the bits behind its size << 4 | the size. */
    uint16_t values[PSTI_JPEG_N_QUICK];
};

/* The scan that the walk stands at, into the sink. */
enum pst_status psti_jpeg_print_scan(struct psti_jpeg_printer *p, struct pst_error *err);

size_t psti_jpeg_print_work_nbytes(void);

/* Takes the event that is due, for the next one. */
void psti_jpeg_next_event(struct psti_jpeg_printer *p);
/* The run of ends that is not yet written. */
void psti_jpeg_print_run(struct psti_jpeg_printer *p);

/* n MCUs of a row of MCUs, from `column` on; within one interval. */
typedef void psti_jpeg_mcus_printer(struct psti_jpeg_printer *p, uint32_t row, uint32_t column,
                                    uint32_t n);
psti_jpeg_mcus_printer psti_jpeg_print_sequential, psti_jpeg_print_dc_first,
    psti_jpeg_print_dc_more, psti_jpeg_print_ac_first, psti_jpeg_print_ac_more;

/* Restoration -> skeleton, then extra, piece by piece; pli_jpeg_file_pack.c. */
struct psti_jpeg_unpacker {
    void *stream; /* zlib's */
    uint32_t skeleton_nbytes, extra_left;
    uint8_t flags;
    uint32_t n, at; /* of `extra` */
    uint8_t extra[256];
};
/* After this psti_jpeg_unpack_end is due, whatever it returned. */
enum pst_status psti_jpeg_unpack_begin(struct psti_jpeg_unpacker *u, const uint8_t *restoration,
                                       size_t nbytes, struct pst_error *err);
/* The whole of it: skeleton_nbytes. */
enum pst_status psti_jpeg_unpack_skeleton(struct psti_jpeg_unpacker *u, uint8_t *skeleton,
                                          struct pst_error *err);
/* The next byte of extra; -1: there is none. */
int psti_jpeg_unpack_byte(struct psti_jpeg_unpacker *u);
void psti_jpeg_unpack_end(struct psti_jpeg_unpacker *u);

#endif
