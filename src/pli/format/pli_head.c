/* pli_head.c - header, model and index of a PLI (docs/format-pli.md, section 1).
 *
 * These functions turn bytes into values and values into bytes. The layout of units is defined with
 * the modes. Every value is checked against the format before it is returned, so callers can
 * compute with it freely. */
#include "pli/format/pli_head.h"

#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/hash.h"

#include <string.h>

#define ROOM "format"
#define CODEC "pli"

enum {
    FLAG_WIDE_SIZES = 1,
    FLAG_CHECKSUMS = 2,
    FLAGS_KNOWN = FLAG_WIDE_SIZES | FLAG_CHECKSUMS,
    HASHED_NBYTES = 32 /* bytes of the header that the head checksum covers */
};

static const uint8_t magic[4] = {0x89, 'P', 'L', 'I'};

static enum pst_status corrupt(struct pst_error *err, int64_t offset, const char *what,
                               unsigned value)
{
    enum pst_status status =
        psti_fail(err, PST_ERROR_CORRUPT, ROOM, "the header's %s is %u", what, value);
    if (err)
        err->offset = offset;
    return status;
}

/* Checks the values that content 2 (the coefficients of a JPEG) restricts (section 1). */
static enum pst_status check_jpeg_values(const struct psti_pli_header *h, struct pst_error *err)
{
    if (h->channels != 1 && h->channels != 3)
        return corrupt(err, 6, "number of channels", h->channels);
    if (h->bits != 8)
        return corrupt(err, 7, "number of bits", h->bits);
    if (h->unit_log2 < PSTI_PLI_UNIT_LOG2_MIN || h->unit_log2 > PSTI_PLI_JPEG_UNIT_LOG2_MAX)
        return corrupt(err, 12, "size of units", h->unit_log2);
    if (h->transform > PSTI_PLI_YCBCR || (h->transform == PSTI_PLI_YCBCR && h->channels != 3))
        return corrupt(err, 13, "colour transform", h->transform);
    if (h->max_error != 0)
        return corrupt(err, 15, "maximum error", h->max_error);
    if (h->tier != 0)
        return corrupt(err, 20, "tier", h->tier);
    if (h->effort != 0)
        return corrupt(err, 21, "effort", h->effort);
    return PST_OK;
}

static enum pst_status check_pixel_values(const struct psti_pli_header *h, struct pst_error *err)
{
    if (h->channels < 1 || h->channels > 4)
        return corrupt(err, 6, "number of channels", h->channels);
    if (h->bits != 8 && h->bits != 16)
        return corrupt(err, 7, "number of bits", h->bits);
    if (h->unit_log2 < PSTI_PLI_UNIT_LOG2_MIN || h->unit_log2 > PSTI_PLI_UNIT_LOG2_MAX)
        return corrupt(err, 12, "size of units", h->unit_log2);
    if (h->transform > PSTI_PLI_SUBTRACT_GREEN ||
        (h->transform == PSTI_PLI_SUBTRACT_GREEN && h->channels < 3))
        return corrupt(err, 13, "colour transform", h->transform);
    if (h->max_error > PSTI_PLI_MAX_ERROR)
        return corrupt(err, 15, "maximum error", h->max_error);
    if (h->tier < PST_PLI_TIER_FAST || h->tier > PST_PLI_TIER_DENSE)
        return corrupt(err, 20, "tier", h->tier);
    return PST_OK;
}

static enum pst_status check_values(const struct psti_pli_header *h, const uint8_t *p,
                                    struct pst_error *err)
{
    if (h->content != PST_PLI_CONTENT_PIXELS && h->content != PST_PLI_CONTENT_JPEG)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, ROOM, "content %u is not known", h->content);
    if (h->width == 0)
        return corrupt(err, 8, "width", h->width);
    if (h->height == 0)
        return corrupt(err, 10, "height", h->height);
    if (p[14] & ~FLAGS_KNOWN)
        return corrupt(err, 14, "set of flags", p[14]);
    if (psti_load_u16(p + 22) != 0)
        return corrupt(err, 22, "reserved field", psti_load_u16(p + 22));
    return h->content == PST_PLI_CONTENT_JPEG ? check_jpeg_values(h, err)
                                              : check_pixel_values(h, err);
}

enum pst_status psti_pli_parse_header(const void *bytes, size_t nbytes, struct psti_pli_header *out,
                                      struct pst_error *err)
{
    const uint8_t *p = bytes;
    size_t n_magic = nbytes < sizeof magic ? nbytes : sizeof magic;
    if (memcmp(p, magic, n_magic) != 0)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "not a PLI: it begins otherwise");
    if (nbytes < PSTI_PLI_HEADER_NBYTES)
        return psti_fail(err, PST_ERROR_TRUNCATED, ROOM,
                         "the header of a PLI has %d bytes, here are %zu", PSTI_PLI_HEADER_NBYTES,
                         nbytes);
    const uint8_t version = p[4];
    if (version > PSTI_PLI_VERSION)
        return psti_fail(err, PST_ERROR_VERSION, ROOM,
                         "PLI of version %u; this library knows up to %d", version,
                         PSTI_PLI_VERSION);
    if (version < PSTI_PLI_VERSION)
        return psti_fail(err, PST_ERROR_VERSION, ROOM,
                         "PLI of version %u, of before the first release: make it anew", version);
    *out = (struct psti_pli_header){
        .content = p[5],
        .channels = p[6],
        .bits = p[7],
        .width = psti_load_u16(p + 8),
        .height = psti_load_u16(p + 10),
        .unit_log2 = p[12],
        .transform = p[13],
        .wide_sizes = p[14] & FLAG_WIDE_SIZES,
        .has_checksums = p[14] & FLAG_CHECKSUMS,
        .max_error = p[15],
        .model_nbytes = psti_load_u32(p + 16),
        .tier = p[20],
        .effort = p[21],
        .pixel_checksum = psti_load_u64(p + 24),
        .head_checksum = psti_load_u64(p + 32),
    };
    return check_values(out, p, err);
}

static uint64_t head_checksum(const uint8_t *head, const struct psti_pli_header *header)
{
    struct psti_hash_state state;
    psti_hash_begin(&state);
    psti_hash_update(&state, head, HASHED_NBYTES);
    psti_hash_update(&state, head + PSTI_PLI_HEADER_NBYTES,
                     psti_pli_head_nbytes(header) - PSTI_PLI_HEADER_NBYTES);
    return psti_hash_end(&state);
}

enum pst_status psti_pli_check_head(const void *bytes, size_t nbytes,
                                    const struct psti_pli_header *header, struct pst_error *err)
{
    uint64_t head_nbytes = psti_pli_head_nbytes(header);
    if (nbytes < head_nbytes)
        return psti_fail(err, PST_ERROR_TRUNCATED, ROOM,
                         "the head (header, model, index) has %llu bytes, here are %zu",
                         (unsigned long long)head_nbytes, nbytes);
    if (head_checksum(bytes, header) != header->head_checksum)
        return psti_fail(err, PST_ERROR_CHECKSUM, ROOM,
                         "the checksum of the head (header, model, index) does not match");
    return PST_OK;
}

enum pst_status psti_pli_check_end(const void *bytes, size_t nbytes,
                                   const struct psti_pli_header *header,
                                   uint32_t restoration_nbytes, struct pst_error *err)
{
    const uint32_t n_units = psti_pli_unit_rows(header) * psti_pli_unit_columns(header);
    uint64_t end = psti_pli_head_nbytes(header) + restoration_nbytes;
    for (uint32_t u = 0; u < n_units; u++)
        end += psti_pli_parse_entry(bytes, header, u).nbytes;
    if (nbytes <= end)
        return PST_OK;
    return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "%llu bytes stand behind the end of the PLI",
                     (unsigned long long)(nbytes - end));
}

void psti_pli_print_header(const struct psti_pli_header *h, uint8_t *head)
{
    memset(head, 0, PSTI_PLI_HEADER_NBYTES);
    memcpy(head, magic, sizeof magic);
    head[4] = PSTI_PLI_VERSION;
    head[5] = h->content;
    head[6] = h->channels;
    head[7] = h->bits;
    psti_store_u16(head + 8, h->width);
    psti_store_u16(head + 10, h->height);
    head[12] = h->unit_log2;
    head[13] = h->transform;
    head[14] =
        (uint8_t)((h->wide_sizes ? FLAG_WIDE_SIZES : 0) | (h->has_checksums ? FLAG_CHECKSUMS : 0));
    head[15] = h->max_error;
    psti_store_u32(head + 16, h->model_nbytes);
    head[20] = h->tier;
    head[21] = h->effort;
    psti_store_u64(head + 24, h->pixel_checksum);
    psti_store_u64(head + 32, head_checksum(head, h));
}

static size_t entry_offset(const struct psti_pli_header *header, uint32_t unit)
{
    return psti_pli_index_offset(header) + (size_t)unit * psti_pli_index_entry_nbytes(header);
}

struct psti_pli_entry psti_pli_parse_entry(const void *head, const struct psti_pli_header *header,
                                           uint32_t unit)
{
    const uint8_t *p = (const uint8_t *)head + entry_offset(header, unit);
    struct psti_pli_entry entry;
    entry.nbytes = header->wide_sizes ? psti_load_u32(p) : psti_load_u16(p);
    entry.checksum = header->has_checksums ? psti_load_u32(p + (header->wide_sizes ? 4 : 2)) : 0;
    return entry;
}

void psti_pli_print_entry(uint8_t *head, const struct psti_pli_header *header, uint32_t unit,
                          struct psti_pli_entry entry)
{
    uint8_t *p = head + entry_offset(header, unit);
    if (header->wide_sizes)
        psti_store_u32(p, entry.nbytes);
    else
        psti_store_u16(p, (uint16_t)entry.nbytes);
    if (header->has_checksums)
        psti_store_u32(p + (header->wide_sizes ? 4 : 2), entry.checksum);
}

enum pst_status psti_pli_check_unit(const struct psti_pli_header *header, const void *bytes,
                                    size_t nbytes, uint64_t offset, struct psti_pli_entry entry,
                                    bool want_checksum, struct pst_error *err)
{
    if (entry.nbytes == 0)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "unit without bytes");
    if (!psti_range_fits(offset, entry.nbytes, nbytes))
        return psti_fail(err, PST_ERROR_TRUNCATED, ROOM,
                         "unit ends at byte %llu, here are %zu bytes",
                         (unsigned long long)(offset + entry.nbytes), nbytes);
    if (want_checksum && header->has_checksums &&
        (uint32_t)psti_hash64((const uint8_t *)bytes + offset, entry.nbytes) != entry.checksum)
        return psti_fail(err, PST_ERROR_CHECKSUM, ROOM, "checksum of the unit does not match");
    return PST_OK;
}

enum pst_status psti_pli_failed(enum pst_status status, struct pst_error *err)
{
    psti_error_set_codec(err, CODEC);
    return status;
}

enum pst_status psti_pli_unit_failed(uint32_t row, uint32_t column, uint64_t offset,
                                     enum pst_status status, struct pst_error *err)
{
    char cause[PST_ERROR_TEXT_CAP];
    if (!err)
        return status;
    int64_t within = err->offset > 0 ? err->offset + 1 : 0;
    memcpy(cause, err->text, sizeof cause);
    psti_fail(err, status, ROOM, "unit in row %u, column %u: %.440s", row, column, cause);
    err->offset = (int64_t)offset + within;
    return psti_pli_failed(status, err);
}

enum pst_status psti_pli_find_model(const void *head, const struct psti_pli_header *header,
                                    enum psti_pli_model_kind kind, const uint8_t **block,
                                    size_t *nbytes, struct pst_error *err)
{
    const uint8_t *p = (const uint8_t *)head + PSTI_PLI_HEADER_NBYTES;
    size_t left = header->model_nbytes;
    bool is_jpeg = header->content == PST_PLI_CONTENT_JPEG;
    int last = is_jpeg ? PSTI_PLI_MODEL_WAVE : 0; /* kinds must be above `last` */
    int highest = is_jpeg ? PSTI_PLI_MODEL_FRAME : PSTI_PLI_MODEL_WAVE;
    *block = NULL;
    *nbytes = 0;
    while (left > 0) {
        bool is_whole = left >= PSTI_PLI_BLOCK_HEADER_NBYTES;
        /* read only once, because other threads may write to it */
        uint32_t start = is_whole ? psti_load_u32(p) : 0;
        int found = start & 255;
        size_t n = start >> 16;
        if (!is_whole || n > left - PSTI_PLI_BLOCK_HEADER_NBYTES || found <= last ||
            found > highest || (start >> 8 & 255) != 0)
            return psti_fail(err, PST_ERROR_CORRUPT, ROOM,
                             "the model is not a sequence of blocks that belong here");
        last = found;
        if (last == (int)kind) {
            *block = p + PSTI_PLI_BLOCK_HEADER_NBYTES;
            *nbytes = n;
        }
        p += PSTI_PLI_BLOCK_HEADER_NBYTES + n;
        left -= PSTI_PLI_BLOCK_HEADER_NBYTES + n;
    }
    return PST_OK;
}

uint8_t *psti_pli_print_block(uint8_t *at, enum psti_pli_model_kind kind, size_t nbytes)
{
    at[0] = (uint8_t)kind;
    at[1] = 0;
    psti_store_u16(at + 2, (uint16_t)nbytes);
    return at + PSTI_PLI_BLOCK_HEADER_NBYTES + nbytes;
}
