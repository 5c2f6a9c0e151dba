/* gpu_jpeg.h - the structs that tell kernels how to decode JPEGs kept as PLI (content 2), and the
 * functions by which the host fills them. Plain C and CUDA.
 *
 *     psti_gpu_coefs    each warp decodes unit after unit: tokens, raw bits, inverse DCT ->
 *                       samples of the components, in planes in scratch
 *     psti_gpu_jpeg     each warp makes tile after tile of pixels: upsampling, colour -> sink
 *
 * psti_gpu_jpeg needs the samples of all units of the image. A warp of psti_gpu_coefs decodes units
 * until none is left, and uses the same scratch for all of them. So the scratch of a launch depends
 * on the number of its warps, not of its units. */
#ifndef PST_GPU_GPU_JPEG_H
#define PST_GPU_GPU_JPEG_H

#include "gpu/work/gpu_store.h"

#include <stdbool.h>

/* Tables of an image (format-pli.md 8.6). An entry has a token's first slot in bits 0..15 and its
 * frequency in bits 16..31. A token that does not occur gets the first slot of the next token, or
 * 4096.
 */
struct psti_gpu_jpeg_tables {
    uint32_t ac_bounds[32][4]; /* first slots of tokens 1..7, as 16 bits; the last one is 0x7fff */
    uint32_t ac[32][8];        /* indexed by 8 * distance + bucket (format-pli.md 8.4) */
    uint32_t ends[2][16][16];  /* [side][context] */
    uint32_t dc[2][16][16];    /* [side][class] */
};

/* Built-in constants (format-pli.md 8.7). They are uploaded once per device, to an address that is
 * a multiple of 16. */
struct psti_gpu_jpeg_constants {
    struct psti_gpu_jpeg_tables tables;
    /* Indexed by [k][side]: byte j is the weight of the last coefficient before k whose zigzag
     * number is j modulo 16. */
    uint32_t weights[64][2][4];
    int32_t biases[64][2];
    uint32_t buckets[32];  /* byte x: number of limits that are at most x */
    uint32_t zigzag[8][2]; /* byte v of [u] is the zigzag number of column u and row v */
    uint8_t diagonals[64]; /* column + row of each zigzag number */
    uint32_t reserved[2];
};

/* The part of a component that the region needs: the blocks in columns [column0, column1) and rows
 * [row0, row1). Their samples form a plane in scratch. */
struct psti_gpu_jpeg_component {
    uint64_t samples; /* address of the samples of the first of these blocks, a multiple of 16 */
    uint32_t stride;  /* bytes from one row of samples to the next, a multiple of 16 */
    uint32_t width;   /* samples in a row of the whole component */
    uint32_t height;
    uint16_t column0, column1, row0, row1;
    uint16_t columns, rows;          /* size of the whole component in blocks */
    uint8_t unit_columns, unit_rows; /* blocks of a whole unit */
    uint8_t across_log2, down_log2;  /* log2 of the pixels per sample, in each direction */
    uint8_t is_sideways, is_upright; /* true: samples are interpolated in that direction; false:
                                      * repeated */
    uint8_t side;
    uint8_t reserved;
};

struct psti_gpu_jpeg_image {
    uint32_t quants[3][8][4]; /* quantisation values, 16 bits each: [component][column][row / 2] */
    uint64_t bytes;           /* address in the upload of the units' bytes; offsets of units count
                               * from here */
    uint64_t tables;          /* address of the image's own tables; 0: uses the built-in ones */
    uint32_t status;          /* index of the image's status in the launch's statuses */
    uint16_t width, height;
    uint16_t y0, x0, y1, x1; /* the wanted part of the stored image: rows y0..y1 - 1 and columns
                              * x0..x1 - 1 */
    uint8_t n_components, transform, reserved[2];
    uint32_t units_across; /* units in a row of units of the whole image */
    struct psti_gpu_jpeg_component components[3];
    struct psti_gpu_sink sink;
    uint64_t reserved_too; /* unused; makes the size a multiple of 16 */
};

/* Alignment of image.bytes. A unit's bytes begin, with its mode, at image.bytes + offset; the
 * offset is chosen so that the unit's words begin at an even address. They are read by aligned
 * words, from image.bytes up to upload_nbytes of the plan. */
enum { PSTI_GPU_JPEG_ALIGN = 16 };
struct psti_gpu_jpeg_unit {
    uint32_t image;
    uint32_t offset, nbytes;
    uint16_t unit_y, unit_x; /* position of the unit in the image, counted in units */
};

/* Size of a tile in pixels of the stored image; tiles at the edges are smaller. x is even. */
enum { PSTI_GPU_JPEG_TILE_COLUMNS = 64, PSTI_GPU_JPEG_TILE_ROWS = 16 };
struct psti_gpu_jpeg_tile {
    uint32_t image;
    uint16_t y, x;
};

struct psti_gpu_jpeg_args {
    uint64_t images;    /* address of struct psti_gpu_jpeg_image [], aligned to 16 */
    uint64_t units;     /* address of struct psti_gpu_jpeg_unit [n_units] */
    uint64_t tiles;     /* address of struct psti_gpu_jpeg_tile [n_tiles] */
    uint64_t statuses;  /* address of uint32_t [], one for each image, all 0 before the launch */
    uint64_t counters;  /* address of uint32_t [2], 0 before psti_gpu_coefs is launched: how many
                         * wide units and how many narrow units warps have taken */
    uint64_t constants; /* address of struct psti_gpu_jpeg_constants */
    uint64_t scratch;   /* address of the scratch of all warps of psti_gpu_coefs, aligned to 16: of
                         * wide ones, then of narrow ones */
    uint32_t n_units, n_tiles;
    uint32_t n_wide; /* number of wide units, which come first in `units` */
    /* Number of warps that have scratch for wide units. They take narrow units after the wide
     * ones. At least 1 if there are wide units. */
    uint32_t n_wide_warps;
    uint32_t warp_nbytes; /* psti_gpu_coefs_shared() for the largest n_places of the images */
    /* psti_gpu_coefs_scratch() for the largest n_places of the images with wide units, and of those
     * with narrow units; 0 if there are none */
    uint32_t wide_nbytes, narrow_nbytes;
    struct psti_gpu_finish finish;
};

/* Layout of the shared memory of a warp in psti_gpu_coefs (see jpeg_coefs.cuh). The more warps a
 * multiprocessor holds, the better it hides the latency of loads, so a warp's memory is small for
 * units of any size. It has the histories of the first PSTI_GPU_COEFS_NEAR positions of the list.
 * The others lie in scratch. A unit of 128 x 128 pixels never has others. Larger units are made of
 * images with few coefficients, so few steps reach the others. */
enum {
    PSTI_GPU_COEFS_NEAR = 768, /* a multiple of 64 */
    PSTI_GPU_COEFS_BOUNDS = 0,
    PSTI_GPU_COEFS_AC = PSTI_GPU_COEFS_BOUNDS + 32 * 16,
    PSTI_GPU_COEFS_BUCKETS = PSTI_GPU_COEFS_AC + 32 * 32,
    PSTI_GPU_COEFS_COUNTS = PSTI_GPU_COEFS_BUCKETS + 128,
    PSTI_GPU_COEFS_SQUARES = PSTI_GPU_COEFS_COUNTS + 72 * 4,
    PSTI_GPU_COEFS_SIDES = PSTI_GPU_COEFS_SQUARES + 48 * 8,
    PSTI_GPU_COEFS_STAGES = PSTI_GPU_COEFS_SIDES + 48 * 8, /* what the stages use in turn */
    PSTI_GPU_COEFS_HALVES_NBYTES = 32 * 32 * 4             /* The blocks of a group, after the first
                                                            * transform. */
};
/* Units are wide if a part of their histories lies in scratch, else narrow. `n_places` is that of
 * the unit's image. */
static inline bool psti_gpu_coefs_wide(uint32_t n_places) { return n_places > PSTI_GPU_COEFS_NEAR; }
/* Returns the bytes of shared memory that a warp needs, a multiple of 16. Three stages use the same
 * memory, one after another: for the classes and ends of blocks, for the histories of the first
 * PSTI_GPU_COEFS_NEAR positions, and for the inverse DCT. */
static inline uint32_t psti_gpu_coefs_shared(uint32_t n_places)
{
    uint32_t stages = PSTI_GPU_COEFS_HALVES_NBYTES, n_near = PSTI_GPU_COEFS_NEAR;
    n_near = n_places < n_near ? n_places : n_near;
    stages = stages > 2 * n_places ? stages : 2 * n_places;
    return PSTI_GPU_COEFS_STAGES + (stages > 8 * n_near ? stages : 8 * n_near);
}
/* Returns the bytes of scratch that a warp needs, a multiple of 16: 64 planes of 16-bit
 * coefficients, two lists of blocks, and the far histories. */
static inline uint32_t psti_gpu_coefs_scratch(uint32_t n_places)
{
    uint32_t n_far = psti_gpu_coefs_wide(n_places) ? n_places - PSTI_GPU_COEFS_NEAR : 0;
    return (64 + 2) * 2 * n_places + 8 * n_far;
}
/* Warps of a block, and bytes of shared memory for a warp of psti_gpu_jpeg, which holds the pixels
 * of a tile. */
enum {
    PSTI_GPU_COEFS_WARPS_MAX = 4,
    PSTI_GPU_JPEG_WARPS_MAX = 8,
    PSTI_GPU_JPEG_WARP_NBYTES = 4 * PSTI_GPU_JPEG_TILE_COLUMNS * PSTI_GPU_JPEG_TILE_ROWS
};

#ifndef __cplusplus
#include "pli/pli.h"
#include "pli/format/pli_jpeg_format.h"

/* The units that are needed for the region of an image, and the memory for them. */
struct psti_gpu_jpeg_plan {
    struct psti_pli_header header;
    struct psti_jpeg_frame frame;
    struct pst_pli_region region; /* the wanted region of the stored image */
    struct psti_pli_jpeg_need needs[PSTI_JPEG_COMPONENTS_MAX];
    struct psti_pli_span span; /* range of units that the region touches */
    uint32_t n_units, n_tiles; /* entries of the lists */
    uint32_t n_places;       /* for psti_gpu_jpeg_args: 64 list positions for each square of a whole
                              * unit */
    uint64_t upload_nbytes;  /* bytes of units, a multiple of ALIGN */
    uint64_t samples_nbytes; /* bytes of scratch, a multiple of ALIGN */
    bool has_tables;         /* the image has its own tables, which are as long as the built-in
                              * ones */
    struct psti_jpeg_tables tables;
};
/* Plans the decode of a PLI with content JPEG. Checks head, frame, tables and index, and each unit
 * that the region needs (region NULL: the whole image): its bytes are present, its mode is right,
 * and, with `is_checked`, its checksum matches if it has one. The rest of `bytes` may be garbage.
 * PST_ERROR_UNSUPPORTED: the content is pixels, which these kernels do not decode. PST_ERROR_LIMIT:
 * more than 4 GiB of units. Other statuses and errors are those of pst_pli_decode. Errors that only
 * decoding a unit reveals are not found here. `header` is the result of psti_pli_parse_header for
 * these bytes; if it is NULL, the header is parsed here. */
enum pst_status psti_gpu_jpeg_plan(const void *bytes, size_t nbytes,
                                   const struct psti_pli_header *header,
                                   const struct pst_pli_region *region, bool is_checked,
                                   struct psti_gpu_jpeg_plan *plan, struct pst_error *err);

/* Addresses where psti_gpu_jpeg_fill stores the parts of a plan. */
struct psti_gpu_jpeg_place {
    uint32_t image;   /* index of the image in the launches */
    uint8_t *bytes;   /* plan.upload_nbytes bytes, the later image.bytes: aligned to ALIGN */
    uint64_t samples; /* address on the GPU of plan.samples_nbytes bytes, aligned to ALIGN */
    struct psti_gpu_jpeg_unit *units; /* memory for plan.n_units entries */
    struct psti_gpu_jpeg_tile *tiles; /* memory for plan.n_tiles entries */
};
/* Stores the parts of a plan. `bytes` are the bytes that were given to the plan. Sets all members
 * of `image` except bytes, tables, status and sink. */
void psti_gpu_jpeg_fill(const struct psti_gpu_jpeg_plan *plan, const void *bytes,
                        const struct psti_gpu_jpeg_place *place, struct psti_gpu_jpeg_image *image);

void psti_gpu_jpeg_tables_write(const struct psti_jpeg_tables *tables,
                                struct psti_gpu_jpeg_tables *to);
void psti_gpu_jpeg_constants_write(struct psti_gpu_jpeg_constants *to);
#endif

#endif
