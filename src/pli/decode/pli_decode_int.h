/* pli_decode_int.h - inside the PLI decoder: what the modes of units share.
 *
 * A unit of mode packed or wave is decoded to planes in scratch (prediction undone, colour
 * transform not), from which pli_emit.c writes pixels: colour, levels, layout, region. A unit of
 * mode raw, constant or lz is decoded to pixels, interleaved. Everything works in the caller's
 * scratch; the bytes of a unit are hostile. Kernels per CPU level: pli_kernels.h. */
#ifndef PST_PLI_DECODE_INT_H
#define PST_PLI_DECODE_INT_H

#include "pli/pli.h"

/* The kernels of one CPU level, chosen once per call: pli_kernels.h. */
struct psti_pli_kernels;

struct psti_pli_unit {
    uint32_t height, width; /* pixels, 1..edge */
    uint8_t channels, bits, transform, max_error;
    const uint8_t *bytes; /* behind the mode byte */
    size_t nbytes;
    size_t nbytes_behind; /* that may be read, and mean nothing */
    const struct psti_pli_kernels *kernels;
    /* Where row 0 of plane 0 will be written, for psti_pli_ahead(). */
    const void *pixels;
    int64_t row_nbytes, plane_nbytes;
};

/* Memory that the rows of a plane will be written to, or such a share of rows of interleaved
 * pixels: kernels ask for it in passing, row by row, where they have long to go before the pixels
 * are written. Waiting for it line by line takes a fifth as long as decoding the fastest units. */
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
/* Asks for the next row, `nbytes` of it, a multiple of 64. Where it does not begin with a line of
 * the cache, the unit to the left has asked for the first. */
static inline __attribute__((always_inline)) void psti_pli_ask(struct psti_pli_ahead *ahead,
                                                               uint32_t nbytes)
{
    for (uint32_t i = 63; i < nbytes; i += 64)
        __builtin_prefetch((const void *)(ahead->at + i), 1);
    ahead->at += ahead->step;
}

/* A call of pst_pli_decode whose arguments have been checked, the head with them. */
struct psti_pli_request {
    const uint8_t *bytes;
    size_t nbytes;
    struct psti_pli_header header;
    struct pst_pli_region region;
    int channel;
    const struct pst_pixels *pixels;
    uint8_t *scratch;
    const struct psti_pli_kernels *kernels;
    uint32_t scale_log2; /* content JPEG: 1, 2, 3 is a half, a quarter, an eighth of the size, and
                            the region is of the small image */
    psti_pli_band band;  /* NULL: `pixels` has room for all of the region */
    void *band_ctx;
    int16_t *const *coefs; /* content JPEG, whole images: NULL, or where all coefficients go, too */
    bool unproven;         /* the caller compares the checksum of the pixels itself */
};

/* pst_pli_decode with the kernels given, pixels unproven: tests put together tables of their own.
 */
enum pst_status psti_pli_decode_with(const struct psti_pli_kernels *kernels, const void *bytes,
                                     size_t nbytes, const struct pst_pli_region *region,
                                     int channel, const struct pst_pixels *pixels, void *scratch,
                                     size_t scratch_nbytes, struct pst_error *err);

/* Where a decoded unit's planes lie: sample (y, x) of plane c is at base + c * plane_step +
 * (y >> 5) * band_step + (y & 31) * row_step + x * (bits / 8). All in bytes, base at any alignment
 * of the sample. 96 samples from the start of each row are readable, whatever the width. */
struct psti_pli_planes {
    const uint8_t *base;
    size_t plane_step, band_step, row_step;
};

/* Pixels of a pixel unit, levels not undone: sample (y, x, c) at base + ((y * width) + x) *
 * channels ... interleaved, no padding, width = the unit's. */

/* A part of a unit and where it goes. `pixels->data` is where sample (y, x) of the unit is to be
 * written. */
struct psti_pli_part {
    uint32_t y, x, height, width; /* within the unit */
    int channel;                  /* -1 all */
    const struct pst_pixels *pixels;
};

/* pli_emit.c: colour, levels and layout. */
void psti_pli_emit_planes(const struct psti_pli_unit *unit, const struct psti_pli_planes *planes,
                          const struct psti_pli_part *part);
void psti_pli_emit_pixels(const struct psti_pli_unit *unit, const void *samples,
                          const struct psti_pli_part *part);

/* Whether the part is RGB interleaved of planes G, R - G + 128, B - G + 128, of rows that begin
 * with the unit's and are not short. */
enum { PSTI_PLI_RGB_ROW_MIN = 22 };
bool psti_pli_is_green_rgb(const struct psti_pli_unit *unit, const struct psti_pli_part *part);

/* Modes. `work` is scratch of PSTI_PLI_WORK_NBYTES, aligned to 64; planes point into it.
 * Errors name what is wrong, offsets in them are relative to unit->bytes. */

/* pli_packed.c: section 4. Where the level makes samples and pixels at once, the part's pixels are
 * written, and planes->base is NULL; not if `part` is NULL. */
enum pst_status psti_pli_packed_decode(const struct psti_pli_unit *unit, void *work,
                                       const struct psti_pli_part *part,
                                       struct psti_pli_planes *planes, struct pst_error *err);

/* pli_wave.c: section 5. Tables of one image, made once per decode; at most PSTI_PLI_TABLES_NBYTES.
 */
struct psti_pli_wave_tables;
/* `block`: the model block of kind 1, NULL if there is none. */
enum pst_status psti_pli_wave_prepare(const uint8_t *block, size_t nbytes, uint32_t bits,
                                      struct psti_pli_wave_tables *tables, struct pst_error *err);
enum pst_status psti_pli_wave_decode(const struct psti_pli_unit *unit,
                                     struct psti_pli_wave_tables *tables, void *work,
                                     struct psti_pli_planes *planes, struct pst_error *err);

/* Units of so many bits that the level decodes at once, at most: 1, 2 or 6. */
enum { PSTI_PLI_WAVE_MOST_UNITS = 6 };
uint32_t psti_pli_wave_most_units(const struct psti_pli_kernels *kernels, uint32_t bits);
/* Decodes two units of one image or more, up to that number, at once. False: these do not go
 * together, and nothing was done. `err` is of the first that failed. */
bool psti_pli_wave_decode_some(const struct psti_pli_unit *units, uint32_t n_units,
                               struct psti_pli_wave_tables *tables, void *work,
                               struct psti_pli_planes *planes, enum pst_status *statuses,
                               struct pst_error *err);

/* pli_lz.c: section 6. The built-in tables that units have asked for, made once per decode;
 * PSTI_PLI_LZ_TABLES_NBYTES, which the decode begins by psti_pli_lz_begin(). */
struct psti_pli_lz_tables;
void psti_pli_lz_begin(struct psti_pli_lz_tables *tables);
/* Writes the unit's pixels to `samples` (h * w * channels samples) and, unless it is NULL, those of
 * the part to where they go, on errors some of them. `tables` and `work` are of one scratch. */
enum pst_status psti_pli_lz_decode(const struct psti_pli_unit *unit,
                                   struct psti_pli_lz_tables *tables, void *samples, void *work,
                                   const struct psti_pli_part *part, struct pst_error *err);

/* What the modes may use of the caller's scratch, aligned to 64; static assertions hold them to it.
 */
enum {
    PSTI_PLI_WORK_NBYTES = 352 * 1024,
    PSTI_PLI_TABLES_NBYTES = 96 * 1024,
    PSTI_PLI_LZ_TABLES_NBYTES = 56 * 1024
};

#endif
