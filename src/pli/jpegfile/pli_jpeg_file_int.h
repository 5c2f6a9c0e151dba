/* pli_jpeg_file_int.h - inside the reader and writer of JPEG files: what pli_jpeg_file*.c share.
 *
 * A JPEG file is segments, and after each SOS segment entropy-coded data. The walk goes through the
 * segments, of a file or of its skeleton (docs/format-pli.md, section 10) alike, and stops at each
 * scan; what a scan says of itself then lies in the walk. */
#ifndef PST_PLI_JPEG_FILE_INT_H
#define PST_PLI_JPEG_FILE_INT_H

#include "base/bits.h"
#include "pli/jpegfile/pli_jpeg_file.h"

#define PSTI_JPEG_ROOM "encode"
/* Of loops that are compiled for several CPU levels. */
#define PSTI_JPEG_INLINE static inline __attribute__((always_inline))

enum {
    PSTI_JPEG_SCANS_MAX = 500, /* as psti_decode_jpeg_rows has it */
    /* Of all scans of a file over all coefficients: a scan of one component of several is a part of
     * a pass. Ten scans make up most progressive files. */
    PSTI_JPEG_PASSES_MAX = 100,
    PSTI_JPEG_CUTS_MAX = 16, /* tables whose values may be cut out of a file */
    PSTI_JPEG_MCU_BLOCKS_MAX = 10,
    PSTI_JPEG_EOB_RUN_MAX = 0x7FFF,
    PSTI_JPEG_CORRECTIONS_MAX = 937, /* of a run of ends of blocks, as libjpeg's encoder has it */
    PSTI_JPEG_POSITION_STEP_MAX = (1 << 28) - 1,
    PSTI_JPEG_RESTORATION_HEAD_NBYTES = 9
};

/* Bits of the restoration's first byte. */
enum { PSTI_JPEG_PADS_WITH_0 = 1, PSTI_JPEG_QUANTS_CUT = 2, PSTI_JPEG_FLAGS_KNOWN = 3 };

/* Codes of events: what a writer could not know from the coefficients. */
enum {
    PSTI_JPEG_EVENT_RUN = 0,       /* the run of ends of blocks breaks here, or does not */
    PSTI_JPEG_EVENT_ZEROS = 1,     /* 1..4: so many codes of 16 zeros end the block */
    PSTI_JPEG_ZEROS_MAX = 4,       /* */
    PSTI_JPEG_EVENT_FILL = 0x40,   /* + 1..63: so many bytes 0xFF before the restart marker */
    PSTI_JPEG_FILL_MAX = 63,       /* */
    PSTI_JPEG_EVENT_PADDING = 0x80 /* + 0..127: padding that is not all 0 or all 1 as elsewhere */
};

/* A Huffman table as DHT has it. */
struct psti_jpeg_huffman {
    bool defined, fresh; /* fresh: nothing has been made of it since it was defined */
    uint16_t n;
    uint8_t counts[16], symbols[256];
};

struct psti_jpeg_scan {
    uint8_t n_components;
    uint8_t component[PSTI_JPEG_COMPONENTS_MAX]; /* of the frame */
    uint8_t dc[PSTI_JPEG_COMPONENTS_MAX], ac[PSTI_JPEG_COMPONENTS_MAX];
    uint8_t first, last, high, low; /* Ss, Se, Ah, Al */
};

/* The values of a quantisation table. */
struct psti_jpeg_cut {
    size_t at;
    uint8_t quant;
    bool wide;
};

struct psti_jpeg_walk {
    const uint8_t *bytes;
    size_t nbytes, at;
    const struct psti_jpeg_frame *cut_frame; /* not NULL: values of its quants are not there */
    bool ended, has_end;                     /* no scan follows; because of EOI */
    bool framed, progressive, has_jfif, has_adobe, has_exif;
    uint8_t adobe_transform, orientation, n_components;
    uint32_t width, height;
    uint8_t ids[PSTI_JPEG_COMPONENTS_MAX];
    struct psti_jpeg_component components[PSTI_JPEG_COMPONENTS_MAX]; /* h, v, quant as stored */
    struct psti_jpeg_huffman dc[4], ac[4];
    uint16_t quants[4][64];
    bool quant_defined[4];
    uint32_t restart_interval, n_scans;
    uint32_t n_passed; /* blocks of an MCU that scans went over so far, in all */
    struct psti_jpeg_scan scan;
    int8_t bits[PSTI_JPEG_COMPONENTS_MAX][64]; /* lowest bit known of a coefficient; -1: none */
    uint32_t n_cuts;                           /* since the last scan; may be more than `cuts` */
    struct psti_jpeg_cut cuts[PSTI_JPEG_CUTS_MAX];
};

/* `cut_frame`: for the skeleton of a file whose quantisation values were cut out; else NULL. */
enum pst_status psti_pli_jpeg_walk_begin(struct psti_jpeg_walk *walk, const uint8_t *bytes,
                                         size_t nbytes, const struct psti_jpeg_frame *cut_frame,
                                         struct pst_error *err);
/* To the byte behind the next SOS segment, or `ended`, behind EOI or the last byte. */
enum pst_status psti_pli_jpeg_walk_next(struct psti_jpeg_walk *walk, struct pst_error *err);
/* After the last scan: is anything missing? */
enum pst_status psti_pli_jpeg_walk_check_end(const struct psti_jpeg_walk *walk,
                                             struct pst_error *err);
/* Once framed: the frame that follows, but quants and restoration. PST_ERROR_UNSUPPORTED if content
 * 2 does not take it. */
enum pst_status psti_pli_jpeg_walk_frame(const struct psti_jpeg_walk *walk,
                                         struct psti_jpeg_frame *frame, struct pst_error *err);
/* Is it the file that `frame` was made of? */
bool psti_pli_jpeg_walk_fits(const struct psti_jpeg_walk *walk,
                             const struct psti_jpeg_frame *frame);

/* A psti_fail with the codec's name and an offset (-1: unknown). */
enum pst_status psti_pli_jpeg_file_fail(struct pst_error *err, enum pst_status status,
                                        int64_t offset, const char *format, ...) PST_PRINTF(4, 5);

/* Where the blocks of a scan are: MCUs row by row, the blocks of an MCU in order. */
struct psti_jpeg_layout {
    uint32_t mcu_columns, mcu_rows, n_blocks;
    struct psti_jpeg_place {
        uint8_t slot;      /* of the scan's components */
        uint8_t component; /* of the frame */
        uint8_t x, y;      /* in the MCU */
        uint8_t h, v;      /* blocks of the component in an MCU */
    } places[PSTI_JPEG_MCU_BLOCKS_MAX];
};
/* False: more blocks in an MCU than T.81 allows. */
bool psti_pli_jpeg_layout_of(const struct psti_jpeg_frame *frame, const struct psti_jpeg_scan *scan,
                             struct psti_jpeg_layout *layout);
/* Index of the first coefficient of a place's block in MCU (row, column). */
static inline size_t psti_pli_jpeg_block_index(const struct psti_jpeg_frame *frame,
                                               const struct psti_jpeg_place *place,
                                               uint32_t mcu_row, uint32_t mcu_column)
{
    size_t row = (size_t)mcu_row * place->v + place->y;
    return (row * frame->components[place->component].columns + (size_t)mcu_column * place->h +
            place->x) *
           64;
}

/* Where the places' blocks begin, MCU after MCU from MCU (row, column) on. */
struct psti_jpeg_steps {
    size_t at[PSTI_JPEG_MCU_BLOCKS_MAX], step[PSTI_JPEG_MCU_BLOCKS_MAX];
};
static inline void psti_pli_jpeg_steps_begin(struct psti_jpeg_steps *steps,
                                             const struct psti_jpeg_frame *frame,
                                             const struct psti_jpeg_layout *layout,
                                             uint32_t mcu_row, uint32_t mcu_column)
{
    for (uint32_t j = 0; j < layout->n_blocks; j++) {
        const struct psti_jpeg_place *place = &layout->places[j];
        steps->at[j] = psti_pli_jpeg_block_index(frame, place, mcu_row, mcu_column);
        steps->step[j] = 64 * (size_t)place->h;
    }
}

/* Which coefficients are not 0, as bits. First as bytes, which compilers find in vectors; eight of
 * them come together by a multiplication. */
static inline uint64_t psti_pli_jpeg_nonzeros(const int16_t *block)
{
    uint8_t some[64];
    uint64_t mask = 0;
    for (uint32_t k = 0; k < 64; k++)
        some[k] = block[k] != 0;
    for (uint32_t k = 0; k < 64; k += 8)
        mask |= (psti_load_u64(some + k) * 0x0102040810204080u >> 56) << k;
    return mask;
}

/* The table's canonical codes in the order of its symbols: code and length. False if there are more
 * codes than fit. */
bool psti_pli_jpeg_huffman_codes(const struct psti_jpeg_huffman *table, uint16_t codes[256],
                                 uint8_t lengths[256]);

/* The restoration's bytes: pli_jpeg_file_pack.c. Skeleton and extra go into a stream of raw DEFLATE
 * with the dictionary of the format, and come out of it in the same order. */
/* What of the file is skeleton: all but the gaps, which are in order. */
struct psti_jpeg_gap {
    size_t begin, end;
    bool is_quant; /* values of a table, skeleton if `keeps_quants` */
    uint8_t quant; /* which table */
};
struct psti_jpeg_parts {
    const uint8_t *bytes, *extra;
    size_t nbytes, extra_nbytes;
    const struct psti_jpeg_gap *gaps;
    size_t n_gaps;
    bool keeps_quants, pads_with_0;
};
enum pst_status psti_pli_jpeg_pack(const struct psti_jpeg_parts *parts, uint8_t *restoration,
                                   size_t capacity, size_t *nbytes, struct pst_error *err);

#endif
