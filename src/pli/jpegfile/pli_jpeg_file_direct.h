/* pli_jpeg_file_direct.h - inside the reader of JPEG files: reads MCUs of a sequential scan into
 * planes of coefficients, or skips them, for the decoder that makes pixels of a file directly
 * (pli_jpeg_pixels.c).
 *
 * A plane holds one coefficient of many blocks, a lane for each block, because the kernels of the
 * inverse DCT transform many blocks side by side. */
#ifndef PST_PLI_JPEG_FILE_DIRECT_H
#define PST_PLI_JPEG_FILE_DIRECT_H

#include "pli/jpegfile/pli_jpeg_file_scan.h"

enum {
    PSTI_JPEG_LANES = 192, /* blocks in the planes; a multiple of 32, as kernels take 32 at once */
    /* More bytes than reading an MCU takes, without stuffed bytes. An MCU has at most 10 blocks of
     * 64 codes. A code has at most 16 bits, and its value 15: 2480 bytes. A refill reads 8 more. */
    PSTI_JPEG_MCU_NBYTES_MAX = 2560
};

/* By the next PSTI_JPEG_QUICK_BITS bits: the codes of AC coefficients that lie within them, with
 * their values. The lowest 6 bits of an entry are the length of all of them; from bit 8 on, by how
 * many coefficients they go on, at most 64, plus PSTI_JPEG_SKIP_ENDS if the last of them ends the
 * block. An entry is PSTI_JPEG_SKIP_NONE if the first code is not quick (pli_jpeg_file_codes.h) and
 * ends no block. */
struct psti_jpeg_skip_table {
    uint32_t entries[PSTI_JPEG_QUICK];
};
enum { PSTI_JPEG_SKIP_ENDS = 128, PSTI_JPEG_SKIP_NONE = 0xFF00 };
/* Fills the table from `quick` of a table for AC coefficients. */
void psti_pli_jpeg_fill_skip_table(const struct psti_jpeg_decoder_table *from,
                                   struct psti_jpeg_skip_table *table);

/* By the next PSTI_JPEG_QUICK_BITS bits: one or two whole codes of AC coefficients that lie within
 * them. The lowest 6 bits of an entry are their length; from bit 8 on, by how many coefficients
 * they go on; from bit 16 on, by how many the first one does; from bit 32 on, its value; from bit
 * 48 on, the value of the second one, or of the only one again. For other codes an entry is that of
 * `quick` (pli_jpeg_file_codes.h). */
struct psti_jpeg_pair_table {
    uint64_t entries[PSTI_JPEG_QUICK];
};
/* Fills the table from `quick` of a table for AC coefficients. */
void psti_pli_jpeg_fill_pair_table(const struct psti_jpeg_decoder_table *from,
                                   struct psti_jpeg_pair_table *table);

/* Reads MCUs within one restart interval. */
struct psti_jpeg_direct {
    struct psti_jpeg_bits bits;
    /* No MCU is begun when bits.at is beyond this place: the rest of the data is not loaded. */
    const uint8_t *low;
    enum psti_jpeg_trouble trouble;
    int32_t predictions[PSTI_JPEG_COMPONENTS_MAX];
    const struct psti_jpeg_decoder_table *dc[PSTI_JPEG_COMPONENTS_MAX],
        *ac[PSTI_JPEG_COMPONENTS_MAX];
    const struct psti_jpeg_pair_table *pairs[PSTI_JPEG_COMPONENTS_MAX];
    const struct psti_jpeg_skip_table *skip[PSTI_JPEG_COMPONENTS_MAX];
    uint32_t n_blocks;                           /* in an MCU */
    uint8_t component[PSTI_JPEG_MCU_BLOCKS_MAX]; /* of each block of an MCU */
    /* For each block of an MCU: its lane in the first plane, and the number of lanes from an MCU to
     * the next one. */
    int16_t *lanes[PSTI_JPEG_MCU_BLOCKS_MAX];
    uint8_t steps[PSTI_JPEG_MCU_BLOCKS_MAX];
    /* For each component: no coefficient above this number was stored. */
    uint32_t last[PSTI_JPEG_COMPONENTS_MAX];
};

/* Reads or skips up to n MCUs. Returns their number. `trouble` is set if the next one is not
 * regular; what was stored is then worthless. A reader stores coefficients other than 0 only, at
 * lanes[j] + k * PSTI_JPEG_LANES for coefficient k, and moves `lanes` on. */
typedef uint32_t psti_jpeg_direct_mcus(struct psti_jpeg_direct *r, uint32_t n);
psti_jpeg_direct_mcus psti_pli_jpeg_direct_read, psti_pli_jpeg_direct_skip;
psti_jpeg_direct_mcus psti_pli_jpeg_direct_read_bmi2, psti_pli_jpeg_direct_skip_bmi2;

/* Returns whether one of n blocks has coefficients whose magnitudes, times `quants`, have a sum
 * above `most`, which is at most UINT16_MAX. The planes are those of coefficients 0..last. Lanes
 * from n up to the next multiple of 32 are zeros. */
typedef bool psti_jpeg_is_beyond(const int16_t *planes, uint32_t n, uint32_t last,
                                 const uint16_t quants[64], uint32_t most);
psti_jpeg_is_beyond psti_pli_jpeg_is_beyond_c, psti_pli_jpeg_is_beyond_avx2;

#endif
