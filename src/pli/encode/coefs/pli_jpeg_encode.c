/* pli_jpeg_encode.c - the driver of the encoder of PLI's JPEG content (docs/format-pli.md, sections
 * 7 and 8): takes coefficients and writes a whole file.
 *
 * There are two passes. The first pass turns units into raw bits and into tokens with their
 * contexts, which do not depend on tables, and counts the tokens. The image's tables follow from
 * the counts. The second pass writes units with these tables. Between the passes, tokens take one
 * byte per coefficient up to the end of its block. All work is on the calling thread. The bytes
 * depend only on the arguments. */
#include "pli/encode/pli_encode_kernels.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/machine/cpu.h"
#include "base/fail.h"
#include "base/hash.h"

#include <string.h>

#define ROOM "encode"
#define CODEC "pli"

enum {
    DEFAULT_LOG2 = 7,
    SMALLER_LOG2 = 6,
    UNIT_LOG2_MAX = 8,
    /* AC tokens that a unit of the default size should have on average; they take about 2 KB. If
     * there are fewer, the fixed bytes of units would matter too much, and units are made
     * larger. */
    ENOUGH_TOKENS = 5000,
    /* Maximum number of bytes of raw bits, and maximum number of words, of a block. */
    BLOCK_RAW_NBYTES = 2 * 63 + 3,
    BLOCK_WORDS = 63 + 2,
    SLACK_NBYTES = 64
};

struct encoder {
    const struct psti_jpeg_frame *frame;
    const int16_t *const *coefs;
    const struct psti_je_kernels *kernels;
    struct psti_pli_header header;
    uint32_t n_units, unit_columns;
    struct psti_je_unit *units;
    struct psti_pli_entry *entries; /* entries of the file's index */
    uint8_t *ends;                  /* ends of blocks */
    uint8_t *ac;                    /* AC tokens of all units */
    uint16_t *small;
    uint8_t *raw; /* raw bits of all units; the buffer grows while units are added */
    size_t raw_nbytes, raw_capacity;
    struct psti_je_counts *counts;
    struct psti_je_codes *codes;
    struct psti_je_work work;
    void *memory; /* the memory of `work` */
    uint8_t *bytes;
    size_t capacity;
};

static enum pst_status fail(struct pst_error *err, enum pst_status status, const char *what)
{
    psti_fail(err, status, ROOM, "%s", what);
    psti_error_set_codec(err, CODEC);
    return status;
}

static enum pst_status fail_room(const struct encoder *e, struct pst_error *err)
{
    /* true for a caller that accepts only a PLI smaller than the JPEG */
    if (e->capacity + 1 == e->frame->jpeg_nbytes)
        psti_fail(err, PST_ERROR_LIMIT, ROOM, "it would not become smaller");
    else
        psti_fail(err, PST_ERROR_LIMIT, ROOM, "as PLI the JPEG takes more than the %zu bytes given",
                  e->capacity);
    psti_error_set_codec(err, CODEC);
    return PST_ERROR_LIMIT;
}

static size_t count_blocks(const struct psti_jpeg_frame *frame)
{
    size_t n = 0;
    for (uint32_t c = 0; c < frame->n_components; c++)
        n += psti_pli_jpeg_n_coefs(frame, c) / 64;
    return n;
}

static void set_units(struct encoder *e, uint8_t unit_log2)
{
    e->header.unit_log2 = unit_log2;
    e->unit_columns = psti_pli_unit_columns(&e->header);
    e->n_units = psti_pli_unit_rows(&e->header) * e->unit_columns;
}

/* Computes the sizes in bytes of the arrays of psti_je_work, and their total. `stride` counts
 * blocks. */
struct work_sizes {
    size_t stride, plane, raw, words, total;
};

static struct work_sizes work_sizes_of(uint32_t n_components, uint32_t unit_log2)
{
    size_t n = ((size_t)n_components << (2 * (unit_log2 - SMALLER_LOG2))) * PSTI_JE_SQUARE;
    struct work_sizes sizes = {.stride = n + PSTI_JE_SQUARE};
    sizes.plane = 64 * sizes.stride;
    sizes.raw = psti_round_up(n * BLOCK_RAW_NBYTES + SLACK_NBYTES, 64);
    sizes.words = psti_round_up(n * BLOCK_WORDS * sizeof(uint16_t) + SLACK_NBYTES, 64);
    sizes.total = 4 * sizes.plane + sizes.stride + sizes.raw + sizes.words +
                  sizes.stride * sizeof(const int16_t *);
    return sizes;
}

static enum pst_status claim_work(struct encoder *e)
{
    struct psti_je_work *w = &e->work;
    const struct work_sizes sizes = work_sizes_of(e->frame->n_components, e->header.unit_log2);
    uint8_t *at = psti_alloc_aligned(64, sizes.total);
    if (!at)
        return PST_ERROR_MEMORY;
    e->memory = at;
    w->stride = (uint32_t)sizes.stride;
    w->values = (int16_t *)(void *)at;
    w->tokens = at + 2 * sizes.plane;
    w->g = at + 3 * sizes.plane;
    w->raw = at + 4 * sizes.plane;
    w->words_end = (uint16_t *)(void *)(w->raw + sizes.raw + sizes.words);
    w->sides = w->raw + sizes.raw + sizes.words;
    w->blocks = (const int16_t **)(void *)(w->sides + w->stride);
    psti_pli_jpeg_fill_contexts(w->contexts);
    return PST_OK;
}

/* Finds the ends of blocks, chooses the size of units, and allocates the memory for them. */
static enum pst_status begin(struct encoder *e, const struct psti_jpeg_encode_options *options,
                             struct pst_error *err)
{
    uint64_t n_tokens = 0;
    size_t n_blocks = count_blocks(e->frame);
    e->ends = psti_alloc(n_blocks);
    if (!e->ends)
        return fail(err, PST_ERROR_MEMORY, "no memory to keep a JPEG as PLI");
    if (!psti_pli_jpeg_encode_find_ends(e->kernels, e->frame, e->coefs, e->ends, &n_tokens))
        return fail(err, PST_ERROR_UNSUPPORTED, "the JPEG has a coefficient beyond 2048");
    set_units(e, options->unit_log2 ? options->unit_log2 : DEFAULT_LOG2);
    if (options->unit_log2 == 0 && n_tokens < (uint64_t)ENOUGH_TOKENS * e->n_units)
        set_units(e, DEFAULT_LOG2 + 1);
    e->units = psti_calloc(e->n_units, sizeof *e->units);
    e->entries = psti_alloc_array(e->n_units, sizeof *e->entries);
    e->ac = psti_alloc(n_tokens + PSTI_JE_LANES);
    e->small = psti_alloc_array(2 * n_blocks, sizeof *e->small);
    e->counts = psti_calloc(1, sizeof *e->counts);
    e->codes = psti_calloc(1, sizeof *e->codes);
    if (!e->units || !e->entries || !e->ac || !e->small || !e->counts || !e->codes ||
        claim_work(e) != PST_OK)
        return fail(err, PST_ERROR_MEMORY, "no memory to keep a JPEG as PLI");
    return PST_OK;
}

/* Appends a unit's raw bits to those of all units. */
static bool keep_raw(struct encoder *e, struct psti_je_unit *unit)
{
    if (e->raw_capacity - e->raw_nbytes <= unit->raw_nbytes) {
        size_t capacity = 2 * e->raw_capacity + 16 * (size_t)unit->raw_nbytes + SLACK_NBYTES;
        uint8_t *raw = psti_realloc(e->raw, capacity);
        if (!raw)
            return false;
        e->raw = raw;
        e->raw_capacity = capacity;
    }
    unit->raw = e->raw_nbytes;
    memcpy(e->raw + e->raw_nbytes, e->work.raw, unit->raw_nbytes);
    e->raw_nbytes += unit->raw_nbytes;
    return true;
}

static enum pst_status find_tokens(struct encoder *e, struct pst_error *err)
{
    size_t ac = 0, small = 0;
    for (uint32_t u = 0; u < e->n_units; u++) {
        struct psti_je_unit *unit = &e->units[u];
        unit->ac = ac;
        unit->small = small;
        if (!psti_pli_jpeg_encode_tokenise(
                e->kernels, e->frame, e->coefs, e->ends, e->header.unit_log2, u / e->unit_columns,
                u % e->unit_columns, &e->work, e->ac + ac, e->small + small, unit, e->counts))
            return fail(err, PST_ERROR_UNSUPPORTED, "the JPEG has a difference of DC beyond 4096");
        if (!keep_raw(e, unit))
            return fail(err, PST_ERROR_MEMORY, "no memory to keep a JPEG as PLI");
        for (uint32_t k = 1; k <= unit->last; k++)
            ac += unit->n_k[k];
        small += unit->n_small;
    }
    return PST_OK;
}

/* Writes the model blocks after the header. */
static enum pst_status write_model(struct encoder *e, struct pst_error *err)
{
    uint8_t model[2 * PSTI_PLI_BLOCK_HEADER_NBYTES + PSTI_JPEG_TABLES_MAX_NBYTES +
                  PSTI_JPEG_FRAME_MAX_NBYTES];
    uint8_t *at = model;
    size_t nbytes =
        psti_pli_jpeg_encode_model(e->counts, at + PSTI_PLI_BLOCK_HEADER_NBYTES, e->codes);
    if (nbytes > 0)
        at = psti_pli_print_block(at, PSTI_PLI_MODEL_COEFS, nbytes);
    nbytes = psti_pli_jpeg_print_frame(e->frame, at + PSTI_PLI_BLOCK_HEADER_NBYTES);
    at = psti_pli_print_block(at, PSTI_PLI_MODEL_FRAME, nbytes);
    e->header.model_nbytes = (uint32_t)(at - model);
    if (psti_pli_head_nbytes(&e->header) > e->capacity)
        return fail_room(e, err);
    memcpy(e->bytes + PSTI_PLI_HEADER_NBYTES, model, e->header.model_nbytes);
    return PST_OK;
}

/* Writes the units after a head in which sizes of units have 16 bits, and enters sizes and
 * checksums in the index. If a size needs more bits, the head grows and all units are moved once.
 * Returns the end of the units, or NULL if they do not fit. */
static uint8_t *write_units(struct encoder *e)
{
    struct psti_pli_header *h = &e->header;
    uint8_t *at = e->bytes + psti_pli_head_nbytes(h);
    uint32_t largest = 0;
    for (uint32_t u = 0; u < e->n_units && at; u++) {
        const struct psti_je_unit *unit = &e->units[u];
        size_t nbytes = psti_pli_jpeg_encode_write(
            unit, e->ac + unit->ac, e->small + unit->small, e->raw + unit->raw, e->codes,
            e->kernels, &e->work, at, (size_t)(e->bytes + e->capacity - at));
        e->entries[u] = (struct psti_pli_entry){.nbytes = (uint32_t)nbytes};
        if (h->has_checksums && nbytes > 0)
            e->entries[u].checksum = (uint32_t)psti_hash64(at, nbytes);
        largest = nbytes > largest ? (uint32_t)nbytes : largest;
        at = nbytes > 0 ? at + nbytes : NULL;
    }
    if (at && largest > UINT16_MAX) {
        size_t narrow = psti_pli_head_nbytes(h);
        h->wide_sizes = true;
        size_t more = psti_pli_head_nbytes(h) - narrow;
        if ((size_t)(e->bytes + e->capacity - at) >= more) {
            memmove(e->bytes + narrow + more, e->bytes + narrow, (size_t)(at - e->bytes) - narrow);
            at += more;
        } else {
            at = NULL;
        }
    }
    for (uint32_t u = 0; u < e->n_units && at; u++)
        psti_pli_print_entry(e->bytes, h, u, e->entries[u]);
    return at;
}

static void release(struct encoder *e)
{
    psti_free(e->memory);
    psti_free(e->codes);
    psti_free(e->counts);
    psti_free(e->raw);
    psti_free(e->small);
    psti_free(e->ac);
    psti_free(e->entries);
    psti_free(e->units);
    psti_free(e->ends);
}

enum pst_status psti_pli_jpeg_encode(const struct psti_jpeg_frame *frame,
                                     const int16_t *const coefs[], const uint8_t *restoration,
                                     const struct psti_jpeg_encode_options *options, void *bytes,
                                     size_t capacity, size_t *nbytes, struct pst_error *err)
{
    struct encoder e = {.frame = frame,
                        .coefs = coefs,
                        .kernels = psti_pli_encode_kernels_of(psti_cpu_features())->coefs,
                        .bytes = bytes,
                        .capacity = capacity};
    e.header = (struct psti_pli_header){
        .content = PST_PLI_CONTENT_JPEG,
        .channels = frame->n_components,
        .bits = 8,
        .transform = frame->transform,
        .has_checksums = !options->no_checksum,
        .width = (uint16_t)frame->width,
        .height = (uint16_t)frame->height,
        .pixel_checksum = options->pixel_checksum,
    };
    enum pst_status status = begin(&e, options, err);
    if (status == PST_OK)
        status = find_tokens(&e, err);
    if (status == PST_OK)
        status = write_model(&e, err);
    if (status != PST_OK)
        goto out;
    uint8_t *at = write_units(&e);
    if (!at || (size_t)(e.bytes + capacity - at) < frame->restoration_nbytes) {
        status = fail_room(&e, err);
        goto out;
    }
    if (frame->restoration_nbytes > 0)
        memcpy(at, restoration, frame->restoration_nbytes);
    psti_pli_print_header(&e.header, bytes);
    *nbytes = (size_t)(at - e.bytes) + frame->restoration_nbytes;
out:
    release(&e);
    return status;
}

/* The raw bits of all units are in a buffer that keep_raw enlarges. The last time it grows from at
 * most all raw bits to twice that and 16 times one unit, and both buffers are there while the bits
 * are copied. Coefficients have no more raw bits than they have bits in the JPEG, and a block has 3
 * bytes more for its DC. */
uint64_t psti_pli_jpeg_encode_work_nbytes(const struct psti_jpeg_frame *frame, size_t jpeg_nbytes)
{
    const uint64_t n_blocks = count_blocks(frame);
    const uint64_t n_units = ((uint64_t)frame->height / 64 + 1) * (frame->width / 64 + 1);
    const uint64_t raw = jpeg_nbytes + 3 * n_blocks + SLACK_NBYTES * n_units;
    const struct work_sizes largest = work_sizes_of(frame->n_components, UNIT_LOG2_MAX);
    const uint64_t unit_raw = raw < largest.raw ? raw : largest.raw;
    return n_blocks * (1 + 64 + 2 * sizeof(uint16_t)) + PSTI_JE_LANES +
           n_units * (sizeof(struct psti_je_unit) + sizeof(struct psti_pli_entry)) +
           sizeof(struct psti_je_counts) + sizeof(struct psti_je_codes) + 3 * raw + 16 * unit_raw +
           largest.total;
}
