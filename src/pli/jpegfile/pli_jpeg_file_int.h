/* pli_jpeg_file_int.h - inside the reader and writer of JPEG files: declarations that
 * pli_jpeg_file*.c share.
 *
 * A JPEG file consists of segments, and of entropy-coded data after each SOS segment. A "walk" goes
 * through the segments of a file, or of its skeleton (docs/format-pli.md, section 10), and stops at
 * each scan. It then holds the values of the scan's header. */
#ifndef PST_PLI_JPEG_FILE_INT_H
#define PST_PLI_JPEG_FILE_INT_H

#include "base/bits.h"
#include "base/orientation.h"
#include "pli/jpegfile/pli_jpeg_file.h"

#define PSTI_JPEG_ROOM "encode"
/* Marks loops that are compiled once for each CPU level. */
#define PSTI_JPEG_INLINE static inline __attribute__((always_inline))

enum {
    PSTI_JPEG_SCANS_MAX = 500, /* the same limit as in psti_decode_jpeg_rows (section 10.1) */
    /* Maximum number of passes of all scans of a file over all coefficients (section 10.1). A scan
     * of one of several components counts as a part of a pass. Most progressive files have ten
     * scans. */
    PSTI_JPEG_PASSES_MAX = 100,
    PSTI_JPEG_CUTS_MAX = 16, /* maximum number of quantisation tables whose values are cut out */
    PSTI_JPEG_MCU_BLOCKS_MAX = 10,
    PSTI_JPEG_EOB_RUN_MAX = 0x7FFF,
    PSTI_JPEG_CORRECTIONS_MAX = 937, /* maximum number of correction bits in an EOB run, as in
                                      * libjpeg's encoder */
    PSTI_JPEG_POSITION_STEP_MAX = (1 << 28) - 1,
    PSTI_JPEG_RESTORATION_HEAD_NBYTES = 9
};

/* Bits of the restoration's first byte (section 10). */
enum { PSTI_JPEG_PADS_WITH_0 = 1, PSTI_JPEG_QUANTS_CUT = 2, PSTI_JPEG_FLAGS_KNOWN = 3 };

/* A Huffman table as a DHT segment defines it. */
struct psti_jpeg_huffman {
    bool defined, fresh; /* `fresh`: no look-up table was made since the table was defined */
    uint16_t n;
    uint8_t counts[16], symbols[256];
};

struct psti_jpeg_scan {
    uint8_t n_components;
    uint8_t component[PSTI_JPEG_COMPONENTS_MAX]; /* the frame's numbers of the scan's components */
    uint8_t dc[PSTI_JPEG_COMPONENTS_MAX], ac[PSTI_JPEG_COMPONENTS_MAX];
    uint8_t first, last, high, low; /* Ss, Se, Ah, Al of T.81 */
};

/* The position in the file of a quantisation table's values. The stored skeleton may lack these
 * bytes. */
struct psti_jpeg_cut {
    size_t at;
    uint8_t quant;
    bool wide;
};

struct psti_jpeg_walk {
    const uint8_t *bytes;
    size_t nbytes, at;
    /* The values of this frame's tables are cut out of the bytes. NULL: no values are cut out. */
    const struct psti_jpeg_frame *cut_frame;
    bool ended, has_end; /* ended: no scan follows; has_end: the file ended with EOI */
    bool framed, progressive, has_jfif, has_adobe;
    struct psti_orientation_marks marks; /* found in the segments before the first scan */
    uint8_t adobe_transform, orientation, n_components;
    uint32_t width, height;
    uint8_t ids[PSTI_JPEG_COMPONENTS_MAX];
    struct psti_jpeg_component components[PSTI_JPEG_COMPONENTS_MAX]; /* sampling factors and table
                                                                      * numbers as the file has
                                                                      * them */
    struct psti_jpeg_huffman dc[4], ac[4];
    uint16_t quants[4][64];
    bool quant_defined[4];
    uint32_t restart_interval, n_scans;
    uint32_t n_passed; /* sum over the scans so far of the blocks of an MCU that a scan covers */
    struct psti_jpeg_scan scan;
    /* for each coefficient, the lowest bit that earlier scans have coded; -1: they coded none */
    int8_t bits[PSTI_JPEG_COMPONENTS_MAX][64];
    uint32_t n_cuts; /* number of quantisation tables read since the last scan; `cuts` has the first
                      * PSTI_JPEG_CUTS_MAX */
    struct psti_jpeg_cut cuts[PSTI_JPEG_CUTS_MAX];
};

/* Begins a walk. `cut_frame` is given for the skeleton of a file whose quantisation values were cut
 * out; else it is NULL. */
enum pst_status psti_pli_jpeg_walk_begin(struct psti_jpeg_walk *walk, const uint8_t *bytes,
                                         size_t nbytes, const struct psti_jpeg_frame *cut_frame,
                                         struct pst_error *err);
/* Walks to the byte after the next SOS segment. If there is no further scan, sets `ended` and stops
 * after EOI or the last byte. */
enum pst_status psti_pli_jpeg_walk_next(struct psti_jpeg_walk *walk, struct pst_error *err);
/* Checks after the last scan that nothing is missing. */
enum pst_status psti_pli_jpeg_walk_check_end(const struct psti_jpeg_walk *walk,
                                             struct pst_error *err);
/* Makes the frame, except quants and restoration, from a walk that has read the frame header. Fails
 * with PST_ERROR_UNSUPPORTED if content 2 does not allow it. */
enum pst_status psti_pli_jpeg_walk_frame(const struct psti_jpeg_walk *walk,
                                         struct psti_jpeg_frame *frame, struct pst_error *err);
/* Returns whether the walk's file has the size, components, sampling factors and numbers of
 * quantisation tables of `frame`. */
bool psti_pli_jpeg_walk_fits(const struct psti_jpeg_walk *walk,
                             const struct psti_jpeg_frame *frame);

/* Sets the error like psti_fail, and adds the codec's name and an offset (-1: unknown). */
enum pst_status psti_pli_jpeg_file_fail(struct pst_error *err, enum pst_status status,
                                        int64_t offset, const char *format, ...) PST_PRINTF(4, 5);

/* The order of a scan's blocks: MCUs row by row, and in an MCU the blocks that `places` lists. */
struct psti_jpeg_layout {
    uint32_t mcu_columns, mcu_rows, n_blocks;
    struct psti_jpeg_place {
        uint8_t slot;      /* number of the block's component in the scan */
        uint8_t component; /* number of the block's component in the frame */
        uint8_t x, y;      /* position of the block in the MCU */
        uint8_t h, v;      /* numbers of the component's blocks in an MCU, across and down */
    } places[PSTI_JPEG_MCU_BLOCKS_MAX];
};
/* Fills `layout`. Returns false if an MCU has more blocks than T.81 allows. */
bool psti_pli_jpeg_layout_of(const struct psti_jpeg_frame *frame, const struct psti_jpeg_scan *scan,
                             struct psti_jpeg_layout *layout);
/* Returns the index, among the component's coefficients, of the first coefficient of block `place`
 * of MCU (row, column). */
static inline size_t psti_pli_jpeg_block_index(const struct psti_jpeg_frame *frame,
                                               const struct psti_jpeg_place *place,
                                               uint32_t mcu_row, uint32_t mcu_column)
{
    size_t row = (size_t)mcu_row * place->v + place->y;
    return (row * frame->components[place->component].columns + (size_t)mcu_column * place->h +
            place->x) *
           64;
}

/* Pointers to the block at each place of an MCU. They start at MCU (row, column) and are moved from
 * MCU to MCU. */
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

/* Returns a mask of the coefficients that are not 0. First each becomes a byte, which compilers
 * vectorise. Then a multiplication joins eight bytes to eight bits. */
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

/* Computes the table's canonical codes and their lengths, in the order of its symbols. Returns
 * false if there are more codes than fit. */
bool psti_pli_jpeg_huffman_codes(const struct psti_jpeg_huffman *table, uint16_t codes[256],
                                 uint8_t lengths[256]);

/* The restoration's bytes (pli_jpeg_file_pack.c). Skeleton and extra are written in this order to a
 * stream of raw DEFLATE with the dictionary of the format, and are read from it in the same
 * order. */
/* A part of the file that is not in the skeleton, which has all other bytes. Gaps are listed in the
 * order of the file. */
struct psti_jpeg_gap {
    size_t begin, end;
    bool is_quant; /* true if the gap holds a quantisation table's values; with `keeps_quants` the
                    * skeleton has them */
    uint8_t quant; /* number of the table in the gap */
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
