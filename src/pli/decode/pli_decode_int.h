/* pli_decode_int.h - declarations inside the PLI decoder, which the modes of units share.
 *
 * A unit of mode packed or wave is decoded to planes in scratch: the prediction is undone, but not
 * the colour transform. pli_emit.c makes pixels of the planes and handles colour, levels, layout
 * and region. A unit of mode raw, constant or lz is decoded to interleaved pixels. Everything works
 * in the caller's scratch. The bytes of a unit are hostile. pli_kernels.h has the kernels per CPU
 * level. */
#ifndef PST_PLI_DECODE_INT_H
#define PST_PLI_DECODE_INT_H

#include "pli/pli.h"

/* The kernels of one CPU level. They are chosen once per call (pli_kernels.h). */
struct psti_pli_kernels;

struct psti_pli_unit {
    uint32_t height, width; /* in pixels, 1..edge */
    uint8_t channels, bits, transform, max_error;
    const uint8_t *bytes; /* address of the unit's first byte after the mode byte */
    size_t nbytes;
    size_t nbytes_behind; /* Number of bytes after the unit that may be read. They may have any
                           * value. */
    const struct psti_pli_kernels *kernels;
    /* Address of row 0 of plane 0 of the pixels, and the distances in bytes from row to row and
     * from plane to plane. psti_pli_ahead() needs them. */
    const void *pixels;
    int64_t row_nbytes, plane_nbytes;
};

/* The memory that the rows of a plane, or one plane's share of rows of interleaved pixels, will be
 * written to. Kernels prefetch it row by row, long before the pixels are written. Without this the
 * stores would wait for each cache line, which takes a fifth of the time of the fastest units. */
struct psti_pli_ahead {
    uintptr_t at, step;
};
static inline struct psti_pli_ahead psti_pli_ahead(const struct psti_pli_unit *unit, uint32_t p,
                                                   uint32_t y)
{
    return (struct psti_pli_ahead){(uintptr_t)unit->pixels + (uintptr_t)(unit->row_nbytes * y) +
                                       (uintptr_t)(unit->plane_nbytes * p),
                                   (uintptr_t)unit->row_nbytes};
}
/* Prefetches the next row, `nbytes` of it, a multiple of 64. If the row does not begin at the start
 * of a cache line, the unit to the left has prefetched the first line. */
static inline __attribute__((always_inline)) void psti_pli_ask(struct psti_pli_ahead *ahead,
                                                               uint32_t nbytes)
{
    for (uint32_t i = 63; i < nbytes; i += 64)
        __builtin_prefetch((const void *)(ahead->at + i), 1);
    ahead->at += ahead->step;
}

/* A call of pst_pli_decode whose arguments and head have been checked. */
struct psti_pli_request {
    const uint8_t *bytes;
    size_t nbytes;
    struct psti_pli_header header;
    struct pst_pli_region region;
    int channel;
    const struct pst_pixels *pixels;
    uint8_t *scratch;
    size_t scratch_nbytes;
    const struct psti_pli_kernels *kernels;
    /* For content JPEG: 1, 2 and 3 mean a half, a quarter and an eighth of the size. The region is
     * one of the small image. */
    uint32_t scale_log2;
    /* The function that is called for each band. NULL: `pixels` holds the whole region. */
    psti_pli_band band;
    void *band_ctx;
    /* For content JPEG, whole images: memory that all coefficients are written to, or NULL. */
    int16_t *const *coefs;
    bool unproven; /* true if the caller, not the decoder, compares the checksum of the pixels */
};

/* Decodes like pst_pli_decode with these kernels, but does not compare the checksum of the pixels.
 * Tests pass tables of their own. */
enum pst_status psti_pli_decode_with(const struct psti_pli_kernels *kernels, const void *bytes,
                                     size_t nbytes, const struct pst_pli_region *region,
                                     int channel, const struct pst_pixels *pixels, void *scratch,
                                     size_t scratch_nbytes, struct pst_error *err);

/* The place of a decoded unit's planes. Sample (y, x) of plane c is at base + c * plane_step + (y
 * >> 5) * band_step + (y & 31) * row_step + x * (bits / 8). All steps are in bytes. The base is
 * aligned only to the sample. 96 samples from the start of each row are readable, whatever the
 * width. */
struct psti_pli_planes {
    const uint8_t *base;
    size_t plane_step, band_step, row_step;
};

/* A pixel unit is decoded to interleaved levels without padding: sample (y, x, c) is number ((y *
 * width) + x) * channels + c from the base, with the unit's width. */

/* A part of a unit and its destination. `pixels->data` is the address of sample (y, x) of the
 * unit. */
struct psti_pli_part {
    uint32_t y, x, height, width; /* position and size within the unit */
    int channel;                  /* -1: all channels */
    const struct pst_pixels *pixels;
};

/* Both functions (pli_emit.c) write the part's pixels and undo colour transform and levels. */
void psti_pli_emit_planes(const struct psti_pli_unit *unit, const struct psti_pli_planes *planes,
                          const struct psti_pli_part *part);
void psti_pli_emit_pixels(const struct psti_pli_unit *unit, const void *samples,
                          const struct psti_pli_part *part);

/* Returns whether the part is written as interleaved RGB from planes G, R - G + 128, B - G + 128,
 * and its rows begin with the unit's rows and have at least PSTI_PLI_RGB_ROW_MIN pixels. */
enum { PSTI_PLI_RGB_ROW_MIN = 22 };
bool psti_pli_is_green_rgb(const struct psti_pli_unit *unit, const struct psti_pli_part *part);

/* The decoders of the modes. `work` is scratch of PSTI_PLI_WORK_NBYTES, aligned to 64; planes point
 * into it. Errors say what is wrong. Offsets in errors are relative to unit->bytes. */

/* Decodes a unit of mode packed (pli_packed.c, section 4 of docs/format-pli.md). A level may make
 * samples and pixels together; then the part's pixels are written and planes->base is NULL. This
 * never happens if `part` is NULL. */
enum pst_status psti_pli_packed_decode(const struct psti_pli_unit *unit, void *work,
                                       const struct psti_pli_part *part,
                                       struct psti_pli_planes *planes, struct pst_error *err);

/* Holds the tables of waves of one image (pli_wave.c, section 5 of docs/format-pli.md). They are
 * made once per decode and take at most PSTI_PLI_TABLES_NBYTES. */
struct psti_pli_wave_tables;
/* Makes the tables. `block` is the model block of kind 1, or NULL if there is none. */
enum pst_status psti_pli_wave_prepare(const uint8_t *block, size_t nbytes, uint32_t bits,
                                      struct psti_pli_wave_tables *tables, struct pst_error *err);
enum pst_status psti_pli_wave_decode(const struct psti_pli_unit *unit,
                                     struct psti_pli_wave_tables *tables, void *work,
                                     struct psti_pli_planes *planes, struct pst_error *err);

/* Returns the most units of this bit depth that the level decodes together: 1, 2 or 6. */
enum { PSTI_PLI_WAVE_MOST_UNITS = 6 };
uint32_t psti_pli_wave_most_units(const struct psti_pli_kernels *kernels, uint32_t bits);
/* Decodes two or more units of one image together, at most as many as psti_pli_wave_most_units()
 * returns. Returns false if these units cannot be decoded together; then nothing was done. `err`
 * describes the first unit that failed. */
bool psti_pli_wave_decode_some(const struct psti_pli_unit *units, uint32_t n_units,
                               struct psti_pli_wave_tables *tables, void *work,
                               struct psti_pli_planes *planes, enum pst_status *statuses,
                               struct pst_error *err);

/* Holds the built-in tables that units have needed (pli_lz.c, section 6 of docs/format-pli.md).
 * They are made once per decode and take PSTI_PLI_LZ_TABLES_NBYTES. A decode first calls
 * psti_pli_lz_begin(). */
struct psti_pli_lz_tables;
void psti_pli_lz_begin(struct psti_pli_lz_tables *tables);
/* Writes the unit's pixels to `samples` (h * w * channels samples). Unless `part` is NULL, also
 * writes the part's pixels to their place; after an error only some of them may be written.
 * `tables` and `work` are of one scratch. */
enum pst_status psti_pli_lz_decode(const struct psti_pli_unit *unit,
                                   struct psti_pli_lz_tables *tables, void *samples, void *work,
                                   const struct psti_pli_part *part, struct pst_error *err);

/* Sizes of the caller's scratch for the modes, which is aligned to 64. Static assertions check that
 * they are enough. */
enum {
    PSTI_PLI_WORK_NBYTES = 352 * 1024,
    PSTI_PLI_TABLES_NBYTES = 96 * 1024,
    PSTI_PLI_LZ_TABLES_NBYTES = 56 * 1024
};

#endif
