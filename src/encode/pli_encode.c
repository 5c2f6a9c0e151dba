/* pli_encode.c - the driver of the PLI encoder: options, colour transform, which mode for which
 * unit, index and checksums.
 *
 * Pixels come in with any strides; each row of units is one job, which may run on any of the
 * caller's threads: jobs read the pixels and write disjoint parts of the output, so the bytes do
 * not depend on who ran them. Every unit may fall back to raw, so pst_pli_encode_bound() always
 * holds. Working memory is claimed per job and given back. */
#include "encode/encode.h"
#include "encode/pli_encode_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/options.h"

#include <stdatomic.h>
#include <string.h>

#define ROOM "encode"
#define CODEC "pli"

enum {
    EFFORT_DEFAULT = 3,
    EFFORT_MAX = 5,
    MODEL_MAX_NBYTES = 1024,
    SMALL_EDGE_LOG2 = PSTI_PLI_UNIT_LOG2_MIN,
    SMALL_EDGE = 1 << SMALL_EDGE_LOG2
};

/* One call of pst_pli_encode. */
struct encoder {
    const struct pst_pixels *pixels;
    struct pst_pli_encode_options options;
    struct psti_pli_header header;
    uint8_t *slots;      /* rows of units at row_capacity apart, compacted at the end */
    size_t row_capacity; /* the worst case of a row of units */
    uint32_t *sizes;     /* of units */
    atomic_bool out_of_memory;
};

/* What a job works in: one unit's samples. */
struct unit_memory {
    uint8_t *pixels;    /* interleaved levels */
    uint8_t *planes[4]; /* SMALL_EDGE samples a row */
};

static size_t unit_raw_nbytes(uint32_t height, uint32_t width, uint8_t channels, uint8_t bits)
{
    return (size_t)height * width * channels * (bits / 8u);
}

size_t pst_pli_encode_bound(uint32_t height, uint32_t width, uint8_t channels, uint8_t bits)
{
    if (height == 0 || height > UINT16_MAX || width == 0 || width > UINT16_MAX || channels < 1 ||
        channels > 4 || (bits != 8 && bits != 16))
        return 0;
    size_t rows = (height + SMALL_EDGE - 1) >> SMALL_EDGE_LOG2;
    size_t columns = (width + SMALL_EDGE - 1) >> SMALL_EDGE_LOG2;
    return PSTI_PLI_HEADER_NBYTES + MODEL_MAX_NBYTES +
           rows * columns * (PSTI_PLI_INDEX_ENTRY_MAX + 1) +
           unit_raw_nbytes(height, width, channels, bits);
}

static enum pst_status fail_argument(struct pst_error *err, const char *what)
{
    psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "%s", what);
    psti_error_set_codec(err, CODEC);
    return PST_ERROR_ARGUMENT;
}

static enum pst_status check(struct encoder *e, size_t capacity, struct pst_error *err)
{
    const struct pst_pixels *p = e->pixels;
    struct pst_pli_encode_options *o = &e->options;
    size_t bound = pst_pli_encode_bound(p->height, p->width, p->channels, p->bits);
    if (bound == 0 || !p->data)
        return fail_argument(err, "a PLI holds 1x1 to 65535x65535 pixels of 1 to 4 channels of 8 "
                                  "or 16 bits");
    if (capacity < bound)
        return fail_argument(err, "the room given is below pst_pli_encode_bound()");
    if (p->bits == 16 && (((uintptr_t)p->data | (uint64_t)p->row_nbytes |
                           (uint64_t)p->pixel_nbytes | (uint64_t)p->channel_nbytes) &
                          1) != 0)
        return fail_argument(err, "samples of 16 bits are not aligned to 2 bytes");
    if (o->tier == PST_PLI_TIER_DEFAULT)
        o->tier = PST_PLI_TIER_SMALL;
    if (o->effort == 0)
        o->effort = EFFORT_DEFAULT;
    if (o->tier < PST_PLI_TIER_FAST || o->tier > PST_PLI_TIER_DENSE)
        return fail_argument(err, "the tier is not one of fast, small, dense");
    if (o->effort > EFFORT_MAX)
        return fail_argument(err, "the effort is not 1 to 5");
    if (o->max_error > PSTI_PLI_MAX_ERROR)
        return fail_argument(err, "the maximum error is above 127");
    return PST_OK;
}

static uint32_t sample_at(const struct pst_pixels *p, uint32_t y, uint32_t x, uint32_t c)
{
    const uint8_t *at = (const uint8_t *)p->data + (int64_t)y * p->row_nbytes +
                        (int64_t)x * p->pixel_nbytes + (int64_t)c * p->channel_nbytes;
    return p->bits == 8 ? *at : psti_load_u16(at);
}

/* Levels of `width` pixels of row y from column x on, interleaved. */
static void read_levels(const struct encoder *e, uint32_t y, uint32_t x, uint32_t width,
                        uint8_t *out)
{
    const struct pst_pixels *p = e->pixels;
    uint32_t d = e->options.max_error, step = 2 * d + 1;
    size_t sample_nbytes = p->bits / 8u, pixel_nbytes = p->channels * sample_nbytes;
    if (d == 0 && p->channel_nbytes == (int64_t)sample_nbytes &&
        p->pixel_nbytes == (int64_t)pixel_nbytes) {
        memcpy(out,
               (const uint8_t *)p->data + (int64_t)y * p->row_nbytes + (int64_t)x * p->pixel_nbytes,
               width * pixel_nbytes);
        return;
    }
    for (uint32_t i = 0; i < width; i++) {
        for (uint32_t c = 0; c < p->channels; c++) {
            uint32_t v = (sample_at(p, y, x + i, c) + d) / step;
            if (p->bits == 8)
                *out = (uint8_t)v;
            else
                psti_store_u16(out, (uint16_t)v);
            out += sample_nbytes;
        }
    }
}

/* What the decoder will deliver for a row of levels, in place. */
static void levels_to_samples(const struct encoder *e, uint8_t *row, size_t n_samples)
{
    uint32_t step = 2 * e->options.max_error + 1;
    for (size_t i = 0; i < n_samples; i++) {
        if (e->pixels->bits == 8) {
            uint32_t v = row[i] * step;
            row[i] = (uint8_t)(v < UINT8_MAX ? v : UINT8_MAX);
        } else {
            uint32_t v = psti_load_u16(row + 2 * i) * step;
            psti_store_u16(row + 2 * i, (uint16_t)(v < UINT16_MAX ? v : UINT16_MAX));
        }
    }
}

static enum pst_status checksum_pixels(struct encoder *e, struct pst_error *err)
{
    const struct pst_pixels *p = e->pixels;
    size_t row_nbytes = unit_raw_nbytes(1, p->width, p->channels, p->bits);
    uint8_t *row = psti_alloc(row_nbytes);
    if (!row)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for a row of %zu bytes",
                         row_nbytes);
    struct psti_hash_state state;
    psti_hash_begin(&state);
    for (uint32_t y = 0; y < p->height; y++) {
        read_levels(e, y, 0, p->width, row);
        if (e->options.max_error > 0)
            levels_to_samples(e, row, (size_t)p->width * p->channels);
        psti_hash_update(&state, row, row_nbytes);
    }
    e->header.pixel_checksum = psti_hash_end(&state);
    psti_free(row);
    return PST_OK;
}

static uint32_t wrapped(uint32_t v, uint32_t bits)
{
    v &= (1u << bits) - 1;
    return v < (1u << (bits - 1)) ? v : (1u << bits) - v;
}

/* Subtract green pays if the differences to green change less from pixel to pixel than red and blue
 * do; a sample of rows decides. */
static uint8_t choose_transform(const struct encoder *e)
{
    enum { ROWS = 64 };
    const struct pst_pixels *p = e->pixels;
    uint64_t plain = 0, green = 0;
    if (p->channels < 3)
        return PSTI_PLI_TRANSFORM_NONE;
    uint32_t step = p->height / ROWS + 1;
    for (uint32_t y = 0; y < p->height; y += step) {
        for (uint32_t x = 1; x < p->width; x++) {
            uint32_t dr = sample_at(p, y, x, 0) - sample_at(p, y, x - 1, 0);
            uint32_t dg = sample_at(p, y, x, 1) - sample_at(p, y, x - 1, 1);
            uint32_t db = sample_at(p, y, x, 2) - sample_at(p, y, x - 1, 2);
            plain += wrapped(dr, p->bits) + wrapped(db, p->bits);
            green += wrapped(dr - dg, p->bits) + wrapped(db - dg, p->bits);
        }
    }
    return green < plain ? PSTI_PLI_SUBTRACT_GREEN : PSTI_PLI_TRANSFORM_NONE;
}

/* Planes of a unit of at most 64x64 pixels out of its interleaved levels. */
static void split_planes8(const struct encoder *e, const struct psti_pli_source *s,
                          uint8_t *const planes[4])
{
    const uint8_t *in = s->pixels;
    for (uint32_t y = 0; y < s->height; y++) {
        for (uint32_t x = 0; x < s->width; x++, in += s->channels) {
            size_t at = (size_t)y * SMALL_EDGE + x;
            if (e->header.transform == PSTI_PLI_SUBTRACT_GREEN) {
                planes[0][at] = in[1];
                planes[1][at] = (uint8_t)(in[0] - in[1] + 128);
                planes[2][at] = (uint8_t)(in[2] - in[1] + 128);
                if (s->channels == 4)
                    planes[3][at] = in[3];
            } else {
                for (int c = 0; c < s->channels; c++)
                    planes[c][at] = in[c];
            }
        }
    }
}

static void split_planes16(const struct encoder *e, const struct psti_pli_source *s,
                           uint8_t *const planes[4])
{
    const uint8_t *in = s->pixels;
    for (uint32_t y = 0; y < s->height; y++) {
        for (uint32_t x = 0; x < s->width; x++, in += 2u * s->channels) {
            size_t at = 2 * ((size_t)y * SMALL_EDGE + x);
            uint32_t v[4];
            for (int c = 0; c < s->channels; c++)
                v[c] = psti_load_u16(in + 2 * c);
            if (e->header.transform == PSTI_PLI_SUBTRACT_GREEN) {
                uint32_t red = v[0], green = v[1];
                v[0] = green;
                v[1] = red - green + 32768;
                v[2] = v[2] - green + 32768;
            }
            for (int c = 0; c < s->channels; c++)
                psti_store_u16(planes[c] + at, (uint16_t)v[c]);
        }
    }
}

/* Levels and, for small units, planes of unit (row, column). */
static void load_unit(const struct encoder *e, uint32_t row, uint32_t column,
                      const struct unit_memory *memory, struct psti_pli_source *s)
{
    const struct psti_pli_header *h = &e->header;
    uint32_t edge = psti_pli_edge(h), y = row * edge, x = column * edge;
    *s = (struct psti_pli_source){
        .height = h->height - y < edge ? h->height - y : edge,
        .width = h->width - x < edge ? h->width - x : edge,
        .channels = h->channels,
        .bits = h->bits,
        .transform = h->transform,
        .pixels = memory->pixels,
    };
    size_t row_nbytes = unit_raw_nbytes(1, s->width, s->channels, s->bits);
    for (uint32_t i = 0; i < s->height; i++)
        read_levels(e, y + i, x, s->width, memory->pixels + i * row_nbytes);
    if (h->unit_log2 != SMALL_EDGE_LOG2)
        return;
    if (h->bits == 8)
        split_planes8(e, s, memory->planes);
    else
        split_planes16(e, s, memory->planes);
    for (int c = 0; c < s->channels; c++)
        s->planes[c] = memory->planes[c];
}

static bool is_constant(const struct psti_pli_source *s)
{
    size_t pixel_nbytes = unit_raw_nbytes(1, 1, s->channels, s->bits);
    size_t nbytes = (size_t)s->height * s->width * pixel_nbytes;
    const uint8_t *p = s->pixels;
    return memcmp(p, p + pixel_nbytes, nbytes - pixel_nbytes) == 0;
}

static size_t store_plain(const struct psti_pli_source *s, enum psti_pli_mode mode, size_t nbytes,
                          uint8_t *out)
{
    out[0] = (uint8_t)mode;
    memcpy(out + 1, s->pixels, nbytes);
    return 1 + nbytes;
}

/* The smallest coding of a unit that its tier allows. */
static size_t encode_unit(const struct encoder *e, const struct psti_pli_source *s, uint8_t *out)
{
    size_t pixel_nbytes = unit_raw_nbytes(1, 1, s->channels, s->bits);
    size_t raw_nbytes = (size_t)s->height * s->width * pixel_nbytes;
    (void)e;
    if (is_constant(s))
        return store_plain(s, PSTI_PLI_CONSTANT, pixel_nbytes, out);
    return store_plain(s, PSTI_PLI_RAW, raw_nbytes, out);
}

static bool claim_unit(const struct encoder *e, struct unit_memory *memory)
{
    uint32_t edge = psti_pli_edge(&e->header);
    size_t n_pixels = (size_t)edge * edge, sample_nbytes = e->header.bits / 8u;
    size_t interleaved = n_pixels * e->header.channels * sample_nbytes;
    bool small = edge == SMALL_EDGE;
    memory->pixels = psti_alloc_aligned(64, interleaved + (small ? interleaved : 0));
    if (!memory->pixels)
        return false;
    for (int c = 0; c < e->header.channels; c++)
        memory->planes[c] =
            small ? memory->pixels + interleaved + (size_t)c * n_pixels * sample_nbytes : NULL;
    return true;
}

/* Job: encodes one row of units into its slot. */
static void encode_row(void *arg, size_t row)
{
    struct encoder *e = arg;
    uint32_t columns = psti_pli_unit_columns(&e->header);
    uint8_t *out = e->slots + row * e->row_capacity;
    struct unit_memory memory = {0};
    if (!claim_unit(e, &memory)) {
        atomic_store(&e->out_of_memory, true);
        return;
    }
    for (uint32_t column = 0; column < columns; column++) {
        struct psti_pli_source source;
        load_unit(e, (uint32_t)row, column, &memory, &source);
        size_t nbytes = encode_unit(e, &source, out);
        e->sizes[row * columns + column] = (uint32_t)nbytes;
        out += nbytes;
    }
    psti_free(memory.pixels);
}

static void run_jobs(struct encoder *e, void (*job)(void *arg, size_t i), size_t n)
{
    if (e->options.run) {
        e->options.run(e->options.run_ctx, job, e, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        job(e, i);
}

/* Puts head and units together in `bytes`; returns the size of all. */
static size_t assemble(struct encoder *e, uint8_t *bytes, const uint8_t *model)
{
    struct psti_pli_header *h = &e->header;
    uint32_t rows = psti_pli_unit_rows(h), columns = psti_pli_unit_columns(h);
    uint32_t largest = 0;
    for (uint32_t u = 0; u < rows * columns; u++)
        largest = e->sizes[u] > largest ? e->sizes[u] : largest;
    h->wide_sizes = largest > UINT16_MAX;
    memcpy(bytes + PSTI_PLI_HEADER_NBYTES, model, h->model_nbytes);
    uint8_t *out = bytes + psti_pli_head_nbytes(h);
    for (uint32_t row = 0; row < rows; row++) {
        const uint8_t *in = e->slots + row * e->row_capacity;
        for (uint32_t column = 0; column < columns; column++) {
            uint32_t unit = row * columns + column;
            struct psti_pli_entry entry = {.nbytes = e->sizes[unit]};
            memcpy(out, in, entry.nbytes);
            if (h->has_checksums)
                entry.checksum = (uint32_t)psti_hash64(out, entry.nbytes);
            psti_pli_print_entry(bytes, h, unit, entry);
            in += entry.nbytes;
            out += entry.nbytes;
        }
    }
    psti_pli_print_header(h, bytes);
    return (size_t)(out - bytes);
}

static void begin(struct encoder *e)
{
    const struct pst_pixels *p = e->pixels;
    e->header = (struct psti_pli_header){
        .content = PST_PLI_CONTENT_PIXELS,
        .channels = p->channels,
        .bits = p->bits,
        .unit_log2 = SMALL_EDGE_LOG2,
        .max_error = (uint8_t)e->options.max_error,
        .tier = (uint8_t)e->options.tier,
        .effort = (uint8_t)e->options.effort,
        .has_checksums = !e->options.no_checksum,
        .width = (uint16_t)p->width,
        .height = (uint16_t)p->height,
        .transform = choose_transform(e),
    };
}

enum pst_status pst_pli_encode(const struct pst_pixels *pixels,
                               const struct pst_pli_encode_options *options, void *bytes,
                               size_t capacity, size_t *nbytes, struct pst_error *err)
{
    struct encoder e = {.pixels = pixels};
    uint8_t model[MODEL_MAX_NBYTES];
    enum pst_status status = psti_options_copy(&e.options, sizeof e.options, options, ROOM, err);
    if (status == PST_OK)
        status = check(&e, capacity, err);
    if (status != PST_OK)
        return status;
    begin(&e);
    uint32_t rows = psti_pli_unit_rows(&e.header), columns = psti_pli_unit_columns(&e.header);
    e.row_capacity = columns + unit_raw_nbytes(psti_pli_edge(&e.header), pixels->width,
                                               pixels->channels, pixels->bits);
    e.sizes = psti_alloc_array((size_t)rows * columns, sizeof *e.sizes);
    e.slots = psti_alloc_array(rows, e.row_capacity);
    if (!e.sizes || !e.slots)
        atomic_store(&e.out_of_memory, true);
    else
        run_jobs(&e, encode_row, rows);
    if (atomic_load(&e.out_of_memory))
        status = psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to encode %ux%u pixels",
                           pixels->height, pixels->width);
    else
        status = checksum_pixels(&e, err);
    if (status == PST_OK)
        *nbytes = assemble(&e, bytes, model);
    else
        psti_error_set_codec(err, CODEC);
    psti_free(e.slots);
    psti_free(e.sizes);
    return status;
}
