/* pli_head.h - the byte layout of PLI, as docs/format-pli.md states it.
 *
 * Pure functions that turn bytes into values and values into bytes. They do no I/O, allocate
 * nothing and start no threads. Parsing trusts no byte. */
#ifndef PST_PLI_HEAD_H
#define PST_PLI_HEAD_H

#include <penstock/pli.h>

/* Constants of the header, the index and the model (section 1). */
enum {
    PSTI_PLI_VERSION = 2,
    PSTI_PLI_HEADER_NBYTES = 40,
    PSTI_PLI_UNIT_LOG2_MIN = 6, /* 64 pixels, the only edge of packed and wave units (section 3) */
    PSTI_PLI_UNIT_LOG2_MAX = 9,
    PSTI_PLI_JPEG_UNIT_LOG2_MAX = 8, /* log2 of the largest unit of content 2 (section 1) */
    PSTI_PLI_MAX_ERROR = 127,
    PSTI_PLI_INDEX_ENTRY_MAX = 8,
    PSTI_PLI_BLOCK_HEADER_NBYTES = 4 /* bytes of the header of a model block (section 1) */
};

/* The modes of units (section 3). */
enum psti_pli_mode {
    PSTI_PLI_RAW = 0,
    PSTI_PLI_CONSTANT = 1,
    PSTI_PLI_PACKED = 2,
    PSTI_PLI_WAVE = 3,
    PSTI_PLI_LZ = 4,
    PSTI_PLI_COEFS = 5, /* the only mode of content 2 (section 3) */
    PSTI_PLI_N_MODES = 6
};

/* The colour transforms (sections 1 and 2). */
enum psti_pli_transform {
    PSTI_PLI_TRANSFORM_NONE = 0,
    PSTI_PLI_SUBTRACT_GREEN = 1, /* used in content 1 (section 1) */
    PSTI_PLI_YCBCR = 1           /* used in content 2 (section 1) */
};

struct psti_pli_header {
    uint8_t content, channels, bits, unit_log2, transform, max_error, tier, effort;
    bool wide_sizes, has_checksums;
    uint16_t width, height;
    uint32_t model_nbytes;
    uint64_t pixel_checksum, head_checksum;
};

/* The bytes of a head or unit that have not been parsed yet. */
struct psti_pli_cursor {
    const uint8_t *at, *end;
};
/* Takes the next n bytes. Returns NULL and takes nothing if there are fewer bytes. */
static inline const uint8_t *psti_pli_take(struct psti_pli_cursor *c, size_t n)
{
    const uint8_t *at = c->at;
    if ((size_t)(c->end - at) < n)
        return NULL;
    c->at += n;
    return at;
}

/* Takes a *number* (section 0): 7 bits per byte, low bits first, at most 4 bytes. Moves *p past it.
 * Returns false if the number does not end before `end` and within four bytes. */
static inline bool psti_pli_take_number(const uint8_t **p, const uint8_t *end, uint32_t *value)
{
    *value = 0;
    for (uint32_t shift = 0; shift < 28 && *p < end; shift += 7) {
        uint8_t byte = *(*p)++;
        *value |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* These functions return sizes and offsets that follow from the header. */
static inline uint32_t psti_pli_edge(const struct psti_pli_header *h) { return 1u << h->unit_log2; }
static inline uint32_t psti_pli_unit_rows(const struct psti_pli_header *h)
{
    return (h->height + psti_pli_edge(h) - 1) >> h->unit_log2;
}
static inline uint32_t psti_pli_unit_columns(const struct psti_pli_header *h)
{
    return (h->width + psti_pli_edge(h) - 1) >> h->unit_log2;
}
static inline uint32_t psti_pli_index_entry_nbytes(const struct psti_pli_header *h)
{
    return (h->wide_sizes ? 4u : 2u) + (h->has_checksums ? 4u : 0u);
}
static inline uint64_t psti_pli_index_offset(const struct psti_pli_header *h)
{
    return (uint64_t)PSTI_PLI_HEADER_NBYTES + h->model_nbytes;
}
static inline uint64_t psti_pli_head_nbytes(const struct psti_pli_header *h)
{
    return psti_pli_index_offset(h) + (uint64_t)psti_pli_unit_rows(h) * psti_pli_unit_columns(h) *
                                          psti_pli_index_entry_nbytes(h);
}
/* Returns how many units of `edge` pixels, along one axis, contain pixels first .. first + n - 1, n
 * >= 1. */
static inline uint32_t psti_pli_units_along(uint32_t first, uint32_t n, uint32_t edge)
{
    return (first + n - 1) / edge - first / edge + 1;
}

/* Reads and checks only the header, which takes 40 bytes. Does not compare the head's checksum. */
enum pst_status psti_pli_parse_header(const void *bytes, size_t nbytes, struct psti_pli_header *out,
                                      struct pst_error *err);
/* Checks the whole head (header, model, index) against its checksum. */
enum pst_status psti_pli_check_head(const void *bytes, size_t nbytes,
                                    const struct psti_pli_header *header, struct pst_error *err);
/* Writes the 40 bytes of the header. Model and index must already lie after them, because the
 * checksum covers them. */
void psti_pli_print_header(const struct psti_pli_header *header, uint8_t *head);

/* Checks that no bytes follow the units and the restoration. The head must have been checked.
 * Missing bytes are not an error here: they are found when a unit is decoded. */
enum pst_status psti_pli_check_end(const void *bytes, size_t nbytes,
                                   const struct psti_pli_header *header,
                                   uint32_t restoration_nbytes, struct pst_error *err);

struct psti_pli_entry {
    uint32_t nbytes;
    uint32_t checksum; /* low half of the unit's XXH3-64; 0 if the PLI has no checksums */
};
/* Returns entry `unit` of the index. The head must have been checked. */
struct psti_pli_entry psti_pli_parse_entry(const void *head, const struct psti_pli_header *header,
                                           uint32_t unit);
void psti_pli_print_entry(uint8_t *head, const struct psti_pli_header *header, uint32_t unit,
                          struct psti_pli_entry entry);

/* Checks that the unit's bytes at `offset` lie within the `nbytes` available bytes of the PLI.
 * If the PLI has checksums and `want_checksum` is set, checks the unit's checksum, too. */
enum pst_status psti_pli_check_unit(const struct psti_pli_header *header, const void *bytes,
                                    size_t nbytes, uint64_t offset, struct psti_pli_entry entry,
                                    bool want_checksum, struct pst_error *err);
/* Completes `err` after an error in a unit: adds the unit's row and column and the codec's name,
 * and makes the offset relative to the file. An offset above 0 in `err` is relative to the byte
 * after the unit's mode. Returns `status`. */
enum pst_status psti_pli_unit_failed(uint32_t row, uint32_t column, uint64_t offset,
                                     enum pst_status status, struct pst_error *err);
/* Adds the codec's name to `err`, for errors that concern no unit. Returns `status`. */
enum pst_status psti_pli_failed(enum pst_status status, struct pst_error *err);

/* The kinds of model blocks (section 1). psti_pli_find_model returns the bytes and the length of
 * the block of `kind`, or NULL and 0 if there is none. It fails with PST_ERROR_CORRUPT if the model
 * is not a sequence of blocks that the content may have. */
enum psti_pli_model_kind {
    PSTI_PLI_MODEL_WAVE = 1,  /* tables of waves, in content 1 */
    PSTI_PLI_MODEL_COEFS = 2, /* tables of coefficients, in content 2 */
    PSTI_PLI_MODEL_FRAME = 3  /* the frame, which content 2 must have */
};
enum pst_status psti_pli_find_model(const void *head, const struct psti_pli_header *header,
                                    enum psti_pli_model_kind kind, const uint8_t **block,
                                    size_t *nbytes, struct pst_error *err);

/* Writes the header of a model block. The block's content, `nbytes` bytes, already lies at `at` +
 * PSTI_PLI_BLOCK_HEADER_NBYTES. Returns the block's end. */
uint8_t *psti_pli_print_block(uint8_t *at, enum psti_pli_model_kind kind, size_t nbytes);

#endif
