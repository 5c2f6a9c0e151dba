/* pli_head.h - the byte layout of PLI, as docs/format-pli.md states it.
 *
 * Pure functions: bytes in, values out, and back. No I/O, no memory, no threads. Parsing trusts
 * nothing. */
#ifndef PST_PLI_HEAD_H
#define PST_PLI_HEAD_H

#include <penstock/pli.h>

enum {
    PSTI_PLI_VERSION = 2,
    PSTI_PLI_HEADER_NBYTES = 40,
    PSTI_PLI_UNIT_LOG2_MIN = 6, /* 64 pixels: the only edge of packed and wave units */
    PSTI_PLI_UNIT_LOG2_MAX = 9,
    PSTI_PLI_JPEG_UNIT_LOG2_MAX = 8, /* of content 2 */
    PSTI_PLI_MAX_ERROR = 127,
    PSTI_PLI_INDEX_ENTRY_MAX = 8,
    PSTI_PLI_BLOCK_HEADER_NBYTES = 4 /* of a model block */
};

enum psti_pli_mode {
    PSTI_PLI_RAW = 0,
    PSTI_PLI_CONSTANT = 1,
    PSTI_PLI_PACKED = 2,
    PSTI_PLI_WAVE = 3,
    PSTI_PLI_LZ = 4,
    PSTI_PLI_COEFS = 5, /* of content 2, which has no other */
    PSTI_PLI_N_MODES = 6
};

enum psti_pli_transform {
    PSTI_PLI_TRANSFORM_NONE = 0,
    PSTI_PLI_SUBTRACT_GREEN = 1, /* content 1 */
    PSTI_PLI_YCBCR = 1           /* content 2 */
};

struct psti_pli_header {
    uint8_t content, channels, bits, unit_log2, transform, max_error, tier, effort;
    bool wide_sizes, has_checksums;
    uint16_t width, height;
    uint32_t model_nbytes;
    uint64_t pixel_checksum, head_checksum;
};

/* A *number* of sections 6 and 8: 7 bits a byte, low ones first, at most 4 bytes; *p goes behind
 * it. False if it ends too late. */
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

/* Geometry that follows from the header. */
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
/* How many units of `edge` pixels the `n` >= 1 pixels from `first` on touch, along one axis. */
static inline uint32_t psti_pli_units_along(uint32_t first, uint32_t n, uint32_t edge)
{
    return (first + n - 1) / edge - first / edge + 1;
}

/* Reads and checks the header alone (40 bytes needed), not the head's checksum. */
enum pst_status psti_pli_parse_header(const void *bytes, size_t nbytes, struct psti_pli_header *out,
                                      struct pst_error *err);
/* Checks the whole head (header, model, index) against its checksum. */
enum pst_status psti_pli_check_head(const void *bytes, size_t nbytes,
                                    const struct psti_pli_header *header, struct pst_error *err);
/* Writes the 40 bytes; model and index lie behind them already, for the checksum. */
void psti_pli_print_header(const struct psti_pli_header *header, uint8_t *head);

/* Of bytes whose head has been checked: nothing is behind the units and the restoration. There may
 * be less: who needs a unit finds out. */
enum pst_status psti_pli_check_end(const void *bytes, size_t nbytes,
                                   const struct psti_pli_header *header,
                                   uint32_t restoration_nbytes, struct pst_error *err);

struct psti_pli_entry {
    uint32_t nbytes;
    uint32_t checksum; /* low half of XXH3-64 of the unit; 0 without checksums */
};
/* Entry `unit` of the index of a head that has been checked. */
struct psti_pli_entry psti_pli_parse_entry(const void *head, const struct psti_pli_header *header,
                                           uint32_t unit);
void psti_pli_print_entry(uint8_t *head, const struct psti_pli_header *header, uint32_t unit,
                          struct psti_pli_entry entry);

/* Looks at a unit's bytes as a whole: `nbytes` bytes of the PLI are here, the unit's among them, at
 * `offset`; and, where the PLI has checksums and they are asked for, the unit is true to its own.
 */
enum pst_status psti_pli_check_unit(const struct psti_pli_header *header, const void *bytes,
                                    size_t nbytes, uint64_t offset, struct psti_pli_entry entry,
                                    bool want_checksum, struct pst_error *err);
/* Makes what `err` says of a unit, where offsets above 0 count from behind its mode byte, a remark
 * about the PLI: which unit, and where in the file. Names the codec. Returns `status`. */
enum pst_status psti_pli_unit_failed(uint32_t row, uint32_t column, uint64_t offset,
                                     enum pst_status status, struct pst_error *err);
/* Names the codec in `err` and returns `status`, for what concerns no unit. */
enum pst_status psti_pli_failed(enum pst_status status, struct pst_error *err);

/* The model block of `kind`: its bytes and length, or NULL and 0. PST_ERROR_CORRUPT if the model is
 * not a sequence of blocks that the content may have. */
enum psti_pli_model_kind {
    PSTI_PLI_MODEL_WAVE = 1,  /* content 1 */
    PSTI_PLI_MODEL_COEFS = 2, /* content 2: tables */
    PSTI_PLI_MODEL_FRAME = 3  /* content 2, which must have it */
};
enum pst_status psti_pli_find_model(const void *head, const struct psti_pli_header *header,
                                    enum psti_pli_model_kind kind, const uint8_t **block,
                                    size_t *nbytes, struct pst_error *err);

/* Heads a model block whose `nbytes` bytes of content lie at `at` +
 * PSTI_PLI_BLOCK_HEADER_NBYTES already; returns its end. */
uint8_t *psti_pli_print_block(uint8_t *at, enum psti_pli_model_kind kind, size_t nbytes);

#endif
