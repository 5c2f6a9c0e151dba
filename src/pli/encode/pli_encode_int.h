/* pli_encode_int.h - inside the PLI encoder: the functions of the modes that the driver
 * (pli_encode.c) calls. */
#ifndef PST_PLI_ENCODE_INT_H
#define PST_PLI_ENCODE_INT_H

#include "pli/format/pli_head.h"

/* A unit as the modes see it. Samples are levels (max_error divided out). `planes` are those after
 * the colour transform, 64 samples a row, u8 or u16; samples outside width and height may have any
 * value. */
struct psti_pli_encode_kernels; /* declared in pli_encode_kernels.h */
struct psti_pli_source {
    uint32_t height, width; /* size of the unit in pixels */
    uint8_t channels, bits, transform;
    const void *planes[4]; /* NULL if units are larger than 64 pixels */
    const void *pixels;    /* interleaved pixels without padding */
    const struct psti_pli_encode_kernels *kernels;
};

/* An image whose units are loaded one by one (pli_load.c). */
struct psti_pli_image {
    const struct pst_pixels *pixels;
    uint32_t max_error;
    uint8_t transform, unit_log2;
    const struct psti_pli_encode_kernels *kernels; /* chosen once per image */
};
static inline size_t psti_pli_raw_nbytes(uint32_t height, uint32_t width, uint8_t channels,
                                         uint8_t bits)
{
    return (size_t)height * width * channels * (bits / 8u);
}
/* Computes the XXH3-64 of the pixels that a decoder will deliver. */
enum pst_status psti_pli_checksum(const struct psti_pli_image *image, uint64_t *checksum,
                                  struct pst_error *err);
uint8_t psti_pli_choose_transform(const struct psti_pli_image *image);
/* Sets the sizes of a unit in *source, but not its samples. */
void psti_pli_describe_unit(const struct psti_pli_image *image, uint32_t row, uint32_t column,
                            struct psti_pli_source *source);
/* Loads one unit's samples into `memory`, which has psti_pli_unit_memory_nbytes() and is aligned to
 * 64. */
size_t psti_pli_unit_memory_nbytes(const struct psti_pli_image *image);
void psti_pli_load_unit(const struct psti_pli_image *image, uint32_t row, uint32_t column,
                        uint8_t *memory, struct psti_pli_source *source);
/* Returns true if all samples of a plane are the same. */
bool psti_pli_plane_is_constant(const struct psti_pli_source *source, uint32_t plane);

/* The functions that encode a unit write the whole unit, mode byte first, into `out`. They return
 * the unit's size, or 0 if the unit does not fit `capacity`; the driver then uses another mode.
 * They are deterministic and thread-safe. `work` belongs to the calling thread. */

/* pli_packed_encode.c */
size_t psti_pli_packed_encode(const struct psti_pli_source *source, uint32_t effort, uint8_t *out,
                              size_t capacity);

/* Returns log2 of the unit edge for mode lz if the image suits it (labels, graphics), or 0 if it is
 * a photograph or noise. Reads at most 256 rows (pli_lz_suits.c). */
uint8_t psti_pli_lz_suits(const struct pst_pixels *pixels);

/* pli_lz_encode.c. `work` has psti_pli_lz_work_nbytes(). */
size_t psti_pli_lz_work_nbytes(uint32_t edge, uint8_t channels, uint8_t bits);
size_t psti_pli_lz_encode(const struct psti_pli_source *source, uint32_t effort, void *work,
                          uint8_t *out, size_t capacity);

/* pli_wave_encode.c goes over the image in two passes. The first pass chooses predictors and counts
 * tokens. The counts of all units, added, give the image's tables and model block. The second pass
 * writes units. */
struct psti_pli_wave_counts {
    uint32_t n[16][48]; /* [context][token] */
};
struct psti_pli_wave_codes;
/* Returns the bytes of a unit that pass one keeps for pass two, in the caller's memory. */
size_t psti_pli_wave_plan_nbytes(uint8_t channels, uint8_t bits);
/* Chooses the predictors of a unit and adds its tokens to `counts`. `dense` allows filters. `codes`
 * belong to an earlier plan of the image: choices are then compared by their cost with its tables.
 * If it is NULL, choices are compared by an estimate. `work` has psti_pli_wave_work_nbytes(). */
void psti_pli_wave_plan(const struct psti_pli_source *source, bool dense, uint32_t effort,
                        const struct psti_pli_wave_codes *codes, void *plan,
                        struct psti_pli_wave_counts *counts, void *work);
size_t psti_pli_wave_work_nbytes(void);
/* psti_pli_wave_model makes the image's tables from its counts: it writes the content of the model
 * block (0 bytes if all tables are built in) and prepares `codes` for encoding. */
size_t psti_pli_wave_codes_nbytes(void);
size_t psti_pli_wave_model(const struct psti_pli_wave_counts *counts, uint32_t bits, uint8_t *block,
                           size_t capacity, struct psti_pli_wave_codes *codes);
/* Writes a unit. `next` is a plan that is prefetched: the one that will probably be encoded next,
 * or this plan again. */
size_t psti_pli_wave_encode(const struct psti_pli_source *source, const void *plan,
                            const void *next, const struct psti_pli_wave_codes *codes, void *work,
                            uint8_t *out, size_t capacity);

#endif
