/* gpu_units.h - the structs that tell kernels how to decode PLI of pixels, and the functions by
 * which the host fills them. Plain C and CUDA.
 *
 * A warp decodes one unit. The modes of units need different amounts of shared memory, and this
 * limits the number of warps on a processor. So each class of modes has its own kernel and its own
 * list of units. The host reads the mode from a unit's first byte. Each list is one launch.
 *
 *     list    modes, kernel                                   what a warp does
 *     LZ      lz: psti_gpu_units_lz                          a unit -> pixels in scratch
 *     PLAIN   raw, constant, what LZ left: psti_gpu_units_plain  some rows of a unit -> sink
 *     PACKED  packed: psti_gpu_units_packed                  a unit -> sink
 *     WAVE8, WAVE16    wave: psti_gpu_units_wave_u8, _wave16   a unit -> sink
 *
 * LZ must be done before PLAIN. Units of PLAIN can be large (512 x 512 pixels) and need little work
 * per pixel, so several warps share one: an entry of PLAIN has about as many pixels as a unit of
 * the other lists. The warps of a block of WAVE8 and WAVE16 share decoding tables, so all units of
 * a block must belong to images with the same tables. */
#ifndef PST_GPU_GPU_UNITS_H
#define PST_GPU_GPU_UNITS_H

#include "gpu/work/gpu_store.h"

enum psti_gpu_units_list {
    PSTI_GPU_UNITS_LZ,
    PSTI_GPU_UNITS_PLAIN,
    PSTI_GPU_UNITS_PACKED,
    PSTI_GPU_UNITS_WAVE_U8,
    PSTI_GPU_UNITS_WAVE_U16,
    PSTI_GPU_N_UNITS_LISTS
};

struct psti_gpu_image {
    uint64_t bytes;   /* address in the upload of the units' bytes; offsets of units count from
                       * here */
    uint64_t scratch; /* address of the scratch for the image's units of mode lz, if it has any */
    uint64_t tables; /* address of the image's own wave tables, expanded; 0: built-in */
    uint32_t status;  /* index of the image's status in the launch's statuses */
    uint16_t width, height;
    uint16_t y0, x0, y1, x1; /* wanted rows y0..y1 - 1 and columns x0..x1 - 1 of the stored image */
    uint8_t channels, bits, unit_log2, transform, max_error;
    uint8_t reserved[7];
    struct psti_gpu_sink sink;
};

/* Alignment of a unit's bytes, which begin with its mode, in image.bytes; image.bytes has the same
 * alignment. Kernels may read UNIT_MARGIN bytes beyond a unit, whose values do not matter. */
enum { PSTI_GPU_UNIT_ALIGN = 16, PSTI_GPU_UNIT_MARGIN = 16 };

struct psti_gpu_unit {
    /* Index of the unit's image. UINT32_MAX: an entry without work, which fills up a block. */
    uint32_t image;
    uint32_t offset, nbytes;
    uint32_t scratch;        /* for lz: offset from image.scratch, in units of
                              * PSTI_GPU_SCRATCH_STEP */
    uint16_t unit_y, unit_x; /* place of the unit in the image, counted in units */
    /* For PLAIN: the rows of the unit that this entry covers. For LZ: first_row is 0, and n_rows is
     * the number of sequences that fit after the pixels. */
    uint16_t first_row, n_rows;
    uint8_t is_in_scratch; /* for PLAIN: true for pixels that the LZ kernel has made */
    uint8_t is_constant;   /* for PLAIN: true if all pixels equal the first one */
    uint8_t reserved[2];
};
#define PSTI_GPU_NO_IMAGE UINT32_MAX

/* The scratch of an lz unit holds its pixels without gaps, then a uint32_t for each sequence. */
enum { PSTI_GPU_SCRATCH_STEP = 64 };

struct psti_gpu_units_args {
    uint64_t images;       /* address of struct psti_gpu_image [] */
    uint64_t units;        /* address of struct psti_gpu_unit [n_units] */
    uint64_t statuses;     /* address of uint32_t [], one for each image; 0 before any launch */
    uint64_t constants;    /* address of the built-in wave tables and filters */
    uint64_t lz_constants; /* address of struct psti_gpu_lz_constants */
    uint32_t n_units;
    uint32_t warp_nbytes; /* shared memory in bytes of each warp (struct psti_gpu_units_shape) */
    struct psti_gpu_finish finish;
};

/* The status of an image with corrupt units: UINT32_MAX minus the number (row by row) of the first
 * corrupt unit, so it is never 0. */
#define PSTI_GPU_CORRUPT(unit) (UINT32_MAX - (uint32_t)(unit))

/* The decoding tables of lz units. To find the symbol of slot s, take word w = words[s / 32] and
 * count the bits that are set among the lowest s % 32 + 1 of w.starts. The entry's index is w.rank
 * - 1 + this count. An entry is symbol | start << 8 | frequency << 19. Symbols of frequency 0 have
 * no entry; the others are in order. */
struct psti_gpu_lz_word {
    /* Bits that mark where a symbol's places begin, and the number of symbols that begin before
     * this word. */
    uint32_t starts, rank;
};
enum {
    PSTI_GPU_LZ_N_TABLES = 13, /* tables for a unit's sequences: of runs, offsets, lengths */
    PSTI_GPU_LZ_SEQUENCE_NBYTES = 32 * 8 + 96 * 4, /* 1024 slots, up to 96 symbols */
    PSTI_GPU_LZ_PIXEL_NBYTES = 64 * 8 + 256 * 4    /* 2048 slots, up to 256 symbols */
};
/* The built-in tables for sequences: one set for labels, one for graphics (format-pli.md 6.3). */
struct psti_gpu_lz_constants {
    uint8_t tables[2][PSTI_GPU_LZ_N_TABLES][PSTI_GPU_LZ_SEQUENCE_NBYTES];
};

/* Sizes of the parts of the kernels' shared memory. */
enum {
    PSTI_GPU_PLAIN_WARPS = 8,
    PSTI_GPU_WAVE_WARPS = 16, /* most warps of a block; memory for tables may allow fewer
                               * (gpu_tables.h) */
    PSTI_GPU_PACKED_WARPS = 4,
    PSTI_GPU_PACKED_PLANE_NBYTES = 512 * 4, /* bytes for each warp and plane: the places of
                                             * groups */
    PSTI_GPU_PACKED_RECORDS_NBYTES = 128,
    PSTI_GPU_PACKED_ROWS_NBYTES = 4096, /* bytes for each warp: rows of pixels */
    PSTI_GPU_LZ_TABLES_NBYTES = PSTI_GPU_LZ_N_TABLES * PSTI_GPU_LZ_SEQUENCE_NBYTES,
    PSTI_GPU_LZ_COLOURS_NBYTES = 256 * 8
};

#ifndef __cplusplus
#include "pli/format/pli_head.h"

/* The shape of a list's launch: ceil(n_units / n_warps) blocks. The first unit of each block must
 * have an image. `channels` is the largest number of channels of the list's images. */
struct psti_gpu_units_shape {
    uint32_t n_warps, shared_nbytes, warp_nbytes;
};
/* Returns the shape of a list's launch. `shared_nbytes_max` is the shared memory in bytes that the
 * GPU allows a block (psti_device_info), at least 64 KiB. */
struct psti_gpu_units_shape psti_gpu_units_shape_within(enum psti_gpu_units_list list,
                                                        uint32_t channels,
                                                        uint32_t shared_nbytes_max);
/* Returns the shape for GPUs of compute capability 9.0 and 10.0, whose blocks may have 227 KiB of
 * shared memory. */
struct psti_gpu_units_shape psti_gpu_units_shape(enum psti_gpu_units_list list, uint32_t channels);

/* The units that are needed for the region of an image, and the memory for them. */
struct psti_gpu_units_plan {
    struct psti_pli_header header;
    struct pst_pli_region region;            /* the wanted region of the stored image */
    uint32_t n_units;                        /* units that the region touches */
    uint32_t counts[PSTI_GPU_N_UNITS_LISTS]; /* number of entries in each list */
    uint64_t upload_nbytes, scratch_nbytes;
    const uint8_t
        *tables; /* the model block with wave tables; NULL if it is missing or not needed */
    size_t tables_nbytes;
};
/* Plans the decode of a PLI with content pixels. Checks head and index, and each unit that the
 * region touches (region NULL: the whole image): its bytes are present, its mode is known, and,
 * with `is_checked`, its checksum matches if it has one. The rest of `bytes` may be garbage.
 * PST_ERROR_UNSUPPORTED: the content is a JPEG, which these kernels do not decode. PST_ERROR_LIMIT:
 * more than 4 GiB of bytes or 256 GiB of scratch. Other statuses and errors are those of
 * pst_pli_decode. Tables, and errors that only decoding reveals, are not checked. `header` is the
 * result of psti_pli_parse_header for these bytes; if it is NULL, the header is parsed here. */
enum pst_status psti_gpu_units_plan(const void *bytes, size_t nbytes,
                                    const struct psti_pli_header *header,
                                    const struct pst_pli_region *region, bool is_checked,
                                    struct psti_gpu_units_plan *plan, struct pst_error *err);

/* Addresses where psti_gpu_units_fill stores the parts of a plan. */
struct psti_gpu_units_place {
    uint32_t image; /* index of the image in the launches */
    uint8_t *bytes; /* plan.upload_nbytes bytes, the later image.bytes: aligned to UNIT_ALIGN */
    struct psti_gpu_unit *lists[PSTI_GPU_N_UNITS_LISTS]; /* space for plan.counts entries of each
                                                          * list */
};
/* Stores the parts of a plan. `bytes` are the bytes that were given to the plan. Sets all members
 * of `image` except bytes, scratch, tables, status and sink. */
void psti_gpu_units_fill(const struct psti_gpu_units_plan *plan, const void *bytes,
                         const struct psti_gpu_units_place *place, struct psti_gpu_image *image);

void psti_gpu_lz_constants_write(struct psti_gpu_lz_constants *to);
#endif

#endif
