/* gpu_units.h - work for the kernels that decode PLI of pixels, and how the host makes it. Plain C
 * and CUDA.
 *
 * A warp decodes a unit. Modes differ in the shared memory that they need, which decides how many
 * warps a processor holds. So each class of modes has a kernel and a list of units. The host knows
 * the modes from each unit's first byte. A launch is a list.
 *
 *     list    modes, kernel                                   what a warp does
 *     LZ      lz: psti_gpu_units_lz                          a unit -> pixels in scratch
 *     PLAIN   raw, constant, what LZ left: psti_gpu_units_plain  some rows of a unit -> sink
 *     PACKED  packed: psti_gpu_units_packed                  a unit -> sink
 *     WAVE8, WAVE16    wave: psti_gpu_units_wave_u8, _wave16   a unit -> sink
 *
 * LZ must be done before PLAIN. Units of up to 512 x 512 pixels that need little work per pixel are
 * shared by many warps: an entry of PLAIN has about as many pixels as a unit of the other lists.
 * The warps of a block of WAVE8 and WAVE16 share tables, so all units of a block are of images with
 * the same tables. */
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
    uint64_t scratch; /* address of the scratch of units of mode lz, if there are any */
    uint64_t tables;  /* address of the image's own wave tables, expanded; 0: the built-in ones */
    uint32_t status;  /* index of the image in the launch's statuses */
    uint16_t width, height;
    uint16_t y0, x0, y1, x1; /* wanted rows y0..y1 - 1 and columns x0..x1 - 1 of the stored image */
    uint8_t channels, bits, unit_log2, transform, max_error;
    uint8_t reserved[7];
    struct psti_gpu_sink sink;
};

/* Where a unit's bytes begin, with its mode: at a multiple of UNIT_ALIGN from image.bytes, which
 * has the same alignment. The UNIT_MARGIN bytes after a unit may be read; their values mean
 * nothing. */
enum { PSTI_GPU_UNIT_ALIGN = 16, PSTI_GPU_UNIT_MARGIN = 16 };

struct psti_gpu_unit {
    /* Index of the unit's image. UINT32_MAX: the entry has no work and fills up a block. */
    uint32_t image;
    uint32_t offset, nbytes;
    uint32_t scratch;        /* lz: offset from image.scratch, in units of PSTI_GPU_SCRATCH_STEP */
    uint16_t unit_y, unit_x; /* place of the unit in the image, counted in units */
    /* PLAIN: the rows of the unit that this entry is for. LZ: first_row is 0, and n_rows is the
     * number of sequences that fit after the pixels. */
    uint16_t first_row, n_rows;
    uint8_t is_in_scratch; /* PLAIN: true for pixels that LZ has made */
    uint8_t is_constant;   /* PLAIN: true if one pixel stands for all */
    uint8_t reserved[2];
};
#define PSTI_GPU_NO_IMAGE UINT32_MAX

/* The scratch of an lz unit holds its pixels, packed, then a uint32_t for each sequence. */
enum { PSTI_GPU_SCRATCH_STEP = 64 };

struct psti_gpu_units_args {
    uint64_t images;       /* address of struct psti_gpu_image [] */
    uint64_t units;        /* address of struct psti_gpu_unit [n_units] */
    uint64_t statuses;     /* address of uint32_t [], one per image; 0 before the first launch */
    uint64_t constants;    /* address of the built-in wave tables and filters */
    uint64_t lz_constants; /* address of struct psti_gpu_lz_constants */
    uint32_t n_units;
    uint32_t warp_nbytes; /* shared memory of each warp: struct psti_gpu_units_shape */
    struct psti_gpu_finish finish;
};

/* The status of a corrupt image is not 0. It is UINT32_MAX less the number (row by row) of the
 * first corrupt unit. */
#define PSTI_GPU_CORRUPT(unit) (UINT32_MAX - (uint32_t)(unit))

/* Tables of states of lz units. The symbol of place s is that of entry words[s / 32].rank - 1 + the
 * number of bits set among the lowest s % 32 + 1 of words[s / 32].starts. An entry is symbol |
 * start << 8 | frequency << 19. Symbols of frequency 0 have no entry; the others are in order. */
struct psti_gpu_lz_word {
    /* Bits at which a symbol's places begin; number of symbols that begin before this word. */
    uint32_t starts, rank;
};
enum {
    PSTI_GPU_LZ_N_TABLES = 13, /* tables of a unit's sequences: run, offset, length */
    PSTI_GPU_LZ_SEQUENCE_NBYTES = 32 * 8 + 96 * 4, /* 1024 places, up to 96 symbols */
    PSTI_GPU_LZ_PIXEL_NBYTES = 64 * 8 + 256 * 4    /* 2048 places, up to 256 symbols */
};
/* The built-in tables: one set for labels, one for graphics (format-pli.md 6.3). */
struct psti_gpu_lz_constants {
    uint8_t tables[2][PSTI_GPU_LZ_N_TABLES][PSTI_GPU_LZ_SEQUENCE_NBYTES];
};

/* The layout of the kernels' shared memory. */
enum {
    PSTI_GPU_PLAIN_WARPS = 8,
    PSTI_GPU_WAVE_WARPS = 16, /* warps of a block, at most; the memory of tables decides
                               * (gpu_tables.h) */
    PSTI_GPU_PACKED_WARPS = 4,
    PSTI_GPU_PACKED_PLANE_NBYTES = 512 * 4, /* for each warp and plane: the places of groups */
    PSTI_GPU_PACKED_RECORDS_NBYTES = 128,
    PSTI_GPU_PACKED_ROWS_NBYTES = 4096, /* for each warp: rows of pixels */
    PSTI_GPU_LZ_TABLES_NBYTES = PSTI_GPU_LZ_N_TABLES * PSTI_GPU_LZ_SEQUENCE_NBYTES,
    PSTI_GPU_LZ_COLOURS_NBYTES = 256 * 8
};

#ifndef __cplusplus
#include "pli/format/pli_head.h"

/* The shape of a list's launch: ceil(n_units / n_warps) blocks. The first unit of each block has an
 * image. `channels` is the largest number of channels of the list's images. */
struct psti_gpu_units_shape {
    uint32_t n_warps, shared_nbytes, warp_nbytes;
};
/* `shared_nbytes_max`: shared memory that the GPU allows a block (psti_device_info); at least 64
 * KiB. */
struct psti_gpu_units_shape psti_gpu_units_shape_within(enum psti_gpu_units_list list,
                                                        uint32_t channels,
                                                        uint32_t shared_nbytes_max);
/* Does the same for GPUs of compute capability 9.0 and 10.0, whose blocks may have 227 KiB. */
struct psti_gpu_units_shape psti_gpu_units_shape(enum psti_gpu_units_list list, uint32_t channels);

/* The units that the region of an image needs, and the memory that they take. */
struct psti_gpu_units_plan {
    struct psti_pli_header header;
    struct pst_pli_region region;            /* region of the stored image */
    uint32_t n_units;                        /* units that the region touches */
    uint32_t counts[PSTI_GPU_N_UNITS_LISTS]; /* number of entries of each list */
    uint64_t upload_nbytes, scratch_nbytes;
    const uint8_t
        *tables; /* the model block with wave tables; NULL: there is none, or no unit needs it */
    size_t tables_nbytes;
};
/* Checks head and index, and each unit that the region touches (NULL: the whole image): its bytes
 * are there, its mode is known, and, with `is_checked`, its checksum matches if it has one. The
 * rest of `bytes` may be garbage. PST_ERROR_UNSUPPORTED: content JPEG, which these kernels do not
 * decode. PST_ERROR_LIMIT: more than 4 GiB of bytes or 256 GiB of scratch. Other statuses and
 * errors are those of pst_pli_decode. Tables, and errors that only decoding reveals, are not
 * checked. `header`: result of psti_pli_parse_header for these bytes; NULL: it is parsed here. */
enum pst_status psti_gpu_units_plan(const void *bytes, size_t nbytes,
                                    const struct psti_pli_header *header,
                                    const struct pst_pli_region *region, bool is_checked,
                                    struct psti_gpu_units_plan *plan, struct pst_error *err);

/* Where the parts of a plan are stored. */
struct psti_gpu_units_place {
    uint32_t image; /* the image's index in the launches */
    uint8_t *bytes; /* plan.upload_nbytes bytes, the later image.bytes: aligned to UNIT_ALIGN */
    struct psti_gpu_unit *lists[PSTI_GPU_N_UNITS_LISTS]; /* room for plan.counts entries each */
};
/* Stores the parts of a plan. `bytes` are those given to the plan. Sets all of `image` but bytes,
 * scratch, tables, status and sink. */
void psti_gpu_units_fill(const struct psti_gpu_units_plan *plan, const void *bytes,
                         const struct psti_gpu_units_place *place, struct psti_gpu_image *image);

void psti_gpu_lz_constants_write(struct psti_gpu_lz_constants *to);
#endif

#endif
