/* l3.h - L3, the lossless image format of "L3: Accelerator-Friendly Lossless Image Format" (ECCV
 * 2022), as a peer for benchmarks. For measuring only: nothing of Penstock reads or writes it.
 *
 * This is the published layout, written anew from its description:
 *
 *     header   "LLL.", i32 width, i32 height, u8 edge of a tile; little-endian
 *     tables   u16 (3, tiles): bytes of each tile of R, then of G, then of B; tiles row-major
 *     streams  the tiles of R, then of G, then of B, without gaps
 *     tile     a record for each row
 *     record   4 bits n, 8 bits base, a delta of n bits for each sample, 0 to 7 bits of 0;
 *              bits from the lowest of each byte
 *
 * A sample is (prediction + base + delta) mod 256. The first row of a tile is predicted as 0. In
 * other rows a, b and c are the samples above to the left, above, and above to the right. The
 * prediction is the one of a, b, c that is nearest to a + c - b; if two are equally near, the
 * first. 8-bit RGB only.
 *
 * The published code has faults that lose pixels or read out of range. They are repaired here
 * without a change of the layout:
 *
 *  - Records with n = 0 have two bytes, with n = 8 all their deltas. The encoder wrote one byte for
 *    both, which made the rest of a tile garbage.
 *  - Deltas of 6 bits keep their highest bit (the mask of every fourth delta was wrong).
 *  - Residuals are a circle of 256 values, and a record's base may be taken as signed or as
 *    unsigned, whichever gives fewer bits. Published code took them as signed, so first rows around
 *    127 and 128 needed 8 bits.
 *  - At the right and bottom edges, tiles have fewer columns or rows. The published code dropped
 *    these.
 *  - Above a tile's corner columns, a neighbour outside the tile is missing, and b is the
 *    prediction. A black sample counted as missing, too.
 *  - The nearest of the three is taken. A wrong comparison preferred c where b was nearer.
 *  - The decoder takes the edge from the header; it was a constant of the program.
 *  - The prefix sum ends with the last tile; it read and wrote one entry more.
 *  - Bit lengths are computed with integers, not by a rounded logarithm.
 *  - Each size and width is checked against the bytes that are there.
 *
 * Thread-safe: nothing is kept, and no memory is allocated. */
#ifndef PST_BENCH_L3_H
#define PST_BENCH_L3_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define L3_CHANNELS 3
#define L3_HEADER_NBYTES 13
#define L3_EDGE_MAX 64
#define L3_SIDE_MAX_PX 32768

struct l3_info {
    uint32_t width, height;
    uint32_t edge; /* edge of a tile in pixels: 32, as published for images below HD, or 64 */
    uint32_t n_across, n_down, n_tiles;
    size_t streams; /* offset of the first byte after the tables */
};

/* Returns a number of bytes that is enough for any image of that size. */
size_t l3_bound(uint32_t height, uint32_t width, uint32_t edge);
/* Encodes pixels: u8 (H,W,3), row stride in bytes. Returns false if the size is 0 or too large, if
 * the edge is not one of L3's, or if `cap` is less than l3_bound. */
bool l3_encode(const uint8_t *pixels, size_t row_nbytes, uint32_t height, uint32_t width,
               uint32_t edge, uint8_t *out, size_t cap, size_t *nbytes);

/* Reads the header and the tables. Returns false if the bytes are not L3, or if the sizes of the
 * tiles do not add up to the bytes after the tables. */
bool l3_read(const uint8_t *in, size_t nbytes, struct l3_info *info);
/* Returns the stored bytes of one channel of a tile. l3_read must have accepted the image. */
uint32_t l3_tile_nbytes(const uint8_t *in, const struct l3_info *info, uint32_t channel,
                        uint32_t tile);
/* Decodes to pixels: u8 (H,W,3) of the size in the header, row stride in bytes. Returns false if
 * the bytes are corrupt; the pixels are undefined then. */
bool l3_decode(const uint8_t *in, size_t nbytes, uint8_t *pixels, size_t row_nbytes);

#endif
