/* pli_encode.c - the driver of the PLI encoder: options, colour transform, modes of units, index
 * and checksums.
 *
 * Pixels may have any strides. Each row of units is one job, which may run on any of the caller's
 * threads. Jobs read the pixels and write separate parts of the output, so the bytes do not depend
 * on which thread ran them. Every unit may fall back to mode raw, so pst_pli_encode_bound() always
 * holds. Working memory is allocated per job and freed at its end. */
#include "pli/encode/pli_encode_kernels.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/machine/cpu.h"
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
    SMALL_EDGE = 1 << SMALL_EDGE_LOG2,
    LOOK_STEP = 4 /* one row in so many is examined for mode lz */
};

/* The state of one call of pst_pli_encode. */
struct encoder {
    struct psti_pli_image image;
    struct pst_pli_encode_options options;
    struct psti_pli_header header;
    uint8_t *slots;      /* coded rows of units, row_capacity bytes apart; they are joined at the
                          * end */
    size_t row_capacity; /* the largest possible size of a row of units */
    uint32_t *sizes;     /* sizes of the units */
    /* These members exist for wave units only. They hold the results of pass one that pass two
     * needs. */
    uint8_t *looks; /* enum look, one for each unit */
    uint8_t *plans; /* plans of units, plan_nbytes apart */
    size_t plan_nbytes;
    struct psti_pli_wave_counts *counts; /* an entry for each row of units */
    struct psti_pli_wave_codes *codes;
    bool has_codes; /* true if `codes` were made from an earlier plan */
    uint8_t model[MODEL_MAX_NBYTES];
    uint64_t total; /* length of the whole PLI */
    atomic_bool out_of_memory;
};

/* What the pixels of a unit look like. */
enum look { PHOTOGRAPH, SYNTHETIC, CONSTANT };

/* The working memory of a job. */
struct work {
    uint8_t *memory; /* the memory that the other members point into */
    uint8_t *unit;   /* one unit's samples */
    uint8_t *spare;  /* memory for another encoding of the unit */
    void *mode;      /* memory of the encoders of modes */
};

size_t pst_pli_encode_bound(uint32_t height, uint32_t width, uint8_t channels, uint8_t bits)
{
    if (height == 0 || height > UINT16_MAX || width == 0 || width > UINT16_MAX || channels < 1 ||
        channels > 4 || (bits != 8 && bits != 16))
        return 0;
    size_t rows = (height + SMALL_EDGE - 1) >> SMALL_EDGE_LOG2;
    size_t columns = (width + SMALL_EDGE - 1) >> SMALL_EDGE_LOG2;
    return PSTI_PLI_HEADER_NBYTES + MODEL_MAX_NBYTES +
           rows * columns * (PSTI_PLI_INDEX_ENTRY_MAX + 1) +
           psti_pli_raw_nbytes(height, width, channels, bits);
}

static enum pst_status fail_argument(struct pst_error *err, const char *what)
{
    psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "%s", what);
    psti_error_set_codec(err, CODEC);
    return PST_ERROR_ARGUMENT;
}

static enum pst_status check(struct encoder *e, size_t capacity, struct pst_error *err)
{
    const struct pst_pixels *p = e->image.pixels;
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

static bool is_constant(const struct psti_pli_source *s)
{
    size_t pixel_nbytes = psti_pli_raw_nbytes(1, 1, s->channels, s->bits);
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

/* Returns how many pixels of the n bytes at p equal the pixels at q. */
static inline size_t count_equal_of(const uint8_t *p, const uint8_t *q, size_t n, size_t step)
{
    size_t same = 0;
    for (size_t i = 0; i < n; i += step)
        same += memcmp(p + i, q + i, step) == 0;
    return same;
}

/* Counts like count_equal_of, but without branches for the usual pixel sizes. */
static size_t count_equal(const uint8_t *p, const uint8_t *q, size_t n, size_t pixel_nbytes)
{
    size_t same = 0;
    switch (pixel_nbytes) {
    case 1:
        return count_equal_of(p, q, n, 1);
    case 2:
        return count_equal_of(p, q, n, 2);
    case 3:
        for (size_t i = 0; i < n; i += 3)
            same += ((p[i] ^ q[i]) | (p[i + 1] ^ q[i + 1]) | (p[i + 2] ^ q[i + 2])) == 0;
        return same;
    case 4:
        return count_equal_of(p, q, n, 4);
    default:
        return count_equal_of(p, q, n, pixel_nbytes);
    }
}

/* Returns whether a unit has few colours and hard edges: more than three of four pixels equal their
 * left neighbour. Reads every fourth row. */
static bool is_synthetic(const struct psti_pli_source *s)
{
    size_t pixel_nbytes = psti_pli_raw_nbytes(1, 1, s->channels, s->bits);
    size_t row_nbytes = s->width * pixel_nbytes, n = 0, same = 0;
    for (uint32_t y = 0; y < s->height; y += LOOK_STEP, n += s->width - 1) {
        const uint8_t *row = (const uint8_t *)s->pixels + y * row_nbytes;
        same += count_equal(row, row + pixel_nbytes, row_nbytes - pixel_nbytes, pixel_nbytes);
    }
    return 4 * same > 3 * n;
}

/* Returns whether mode lz could halve `nbytes`. It takes nearly two bytes for each pixel that
 * differs from both the pixel before it and the pixel above. Such pixels are counted in every
 * fourth row. */
static bool could_halve(const struct psti_pli_source *s, size_t nbytes)
{
    size_t pixel_nbytes = psti_pli_raw_nbytes(1, 1, s->channels, s->bits);
    size_t row_nbytes = s->width * pixel_nbytes, n_new = 0;
    for (uint32_t y = LOOK_STEP / 2; y < s->height; y += LOOK_STEP) {
        const uint8_t *p = (const uint8_t *)s->pixels + y * row_nbytes;
        for (size_t i = pixel_nbytes; i < row_nbytes; i += pixel_nbytes)
            n_new += (memcmp(p + i, p + i - pixel_nbytes, pixel_nbytes) != 0) &
                     (memcmp(p + i, p + i - row_nbytes, pixel_nbytes) != 0);
    }
    return 2 * LOOK_STEP * n_new < nbytes / 2;
}

/* Returns the kind of a unit of edge 64. Larger units use mode lz unless they are constant. */
static enum look look_at(const struct psti_pli_source *s)
{
    return is_constant(s) ? CONSTANT : is_synthetic(s) ? SYNTHETIC : PHOTOGRAPH;
}

/* Chooses between the encoding of `nbytes` bytes in `out` (0: there is none) and mode lz, which is
 * taken if it is small enough. If neither is possible, the unit is stored raw. Returns the size. */
static size_t encode_otherwise(const struct encoder *e, const struct psti_pli_source *s,
                               enum look look, const struct work *work, uint8_t *out, size_t nbytes)
{
    size_t raw_nbytes = psti_pli_raw_nbytes(s->height, s->width, s->channels, s->bits);
    if (nbytes == 0 || (look == SYNTHETIC && could_halve(s, nbytes))) {
        /* Units of other modes decode with vectors, and lz units several times as slowly. So lz
         * must halve a unit to be worth it. */
        size_t room = nbytes ? nbytes / 2 : raw_nbytes;
        size_t lz = psti_pli_lz_encode(s, e->options.effort, work->mode, work->spare, room);
        if (lz > 0) {
            memcpy(out, work->spare, lz);
            nbytes = lz;
        }
    }
    return nbytes ? nbytes : store_plain(s, PSTI_PLI_RAW, raw_nbytes, out);
}

/* Encodes a unit that pass one has planned, mostly without its pixels. */
static size_t encode_planned(const struct encoder *e, uint32_t row, uint32_t column,
                             const struct work *work, uint8_t *out)
{
    size_t unit = (size_t)row * psti_pli_unit_columns(&e->header) + column, nbytes = 0;
    enum look look = e->looks[unit];
    struct psti_pli_source s;
    psti_pli_describe_unit(&e->image, row, column, &s);
    if (look != CONSTANT) {
        const uint8_t *plan = e->plans + unit * e->plan_nbytes;
        bool is_last = column + 1 == psti_pli_unit_columns(&e->header);
        nbytes = psti_pli_wave_encode(&s, plan, is_last ? plan : plan + e->plan_nbytes, e->codes,
                                      work->mode, out,
                                      psti_pli_raw_nbytes(s.height, s.width, s.channels, s.bits));
    }
    if (look == PHOTOGRAPH && nbytes > 0)
        return nbytes;
    psti_pli_load_unit(&e->image, row, column, work->unit, &s);
    if (look == CONSTANT)
        return store_plain(&s, PSTI_PLI_CONSTANT, psti_pli_raw_nbytes(1, 1, s.channels, s.bits),
                           out);
    return encode_otherwise(e, &s, look, work, out, nbytes);
}

/* Encodes a unit of the fast tier, or a unit of mode lz. */
static size_t encode_unit(const struct encoder *e, uint32_t row, uint32_t column,
                          const struct work *work, uint8_t *out)
{
    struct psti_pli_source s;
    psti_pli_load_unit(&e->image, row, column, work->unit, &s);
    bool is_large = e->image.unit_log2 > SMALL_EDGE_LOG2;
    enum look look = !is_large ? look_at(&s) : is_constant(&s) ? CONSTANT : SYNTHETIC;
    if (look == CONSTANT)
        return store_plain(&s, PSTI_PLI_CONSTANT, psti_pli_raw_nbytes(1, 1, s.channels, s.bits),
                           out);
    size_t nbytes = 0;
    if (!is_large)
        nbytes = psti_pli_packed_encode(&s, e->options.effort, out,
                                        psti_pli_raw_nbytes(s.height, s.width, s.channels, s.bits));
    return encode_otherwise(e, &s, look, work, out, nbytes);
}

static bool uses_waves(const struct encoder *e)
{
    return e->options.tier != PST_PLI_TIER_FAST && e->image.unit_log2 == SMALL_EDGE_LOG2;
}

static bool claim(struct encoder *e, struct work *work)
{
    const struct pst_pixels *p = e->image.pixels;
    uint32_t edge = psti_pli_edge(&e->header);
    size_t unit = psti_round_up(psti_pli_unit_memory_nbytes(&e->image), 64);
    size_t spare = psti_round_up(psti_pli_raw_nbytes(edge, edge, p->channels, p->bits), 64);
    size_t mode = psti_pli_lz_work_nbytes(edge, p->channels, p->bits);
    size_t wave = uses_waves(e) ? psti_pli_wave_work_nbytes() : 0;
    work->memory = psti_alloc_aligned(64, unit + spare + (mode > wave ? mode : wave));
    if (!work->memory) {
        atomic_store(&e->out_of_memory, true);
        return false;
    }
    work->unit = work->memory;
    work->spare = work->memory + unit;
    work->mode = work->spare + spare;
    return true;
}

/* Returns whether filters may be used: in the dense tier, and in images of 8 bits with fewer than 3
 * channels, because these decode fast anyway. Without filters, noisy gray images would be larger
 * than PNG. */
static bool may_filter(const struct encoder *e)
{
    return e->options.tier == PST_PLI_TIER_DENSE || (e->header.bits == 8 && e->header.channels < 3);
}

/* Pass one for one row of units: chooses the predictors and counts their tokens. */
static void plan_row(void *arg, size_t row)
{
    struct encoder *e = arg;
    uint32_t columns = psti_pli_unit_columns(&e->header);
    struct work work;
    if (!claim(e, &work))
        return;
    for (uint32_t column = 0; column < columns; column++) {
        struct psti_pli_source source;
        size_t unit = row * columns + column;
        psti_pli_load_unit(&e->image, (uint32_t)row, column, work.unit, &source);
        e->looks[unit] = (uint8_t)look_at(&source);
        if (e->looks[unit] != CONSTANT)
            psti_pli_wave_plan(&source, may_filter(e), e->options.effort,
                               e->has_codes ? e->codes : NULL, e->plans + unit * e->plan_nbytes,
                               &e->counts[row], work.mode);
    }
    psti_free(work.memory);
}

/* Encodes one row of units into its part of `slots`. */
static void encode_row(void *arg, size_t row)
{
    struct encoder *e = arg;
    uint32_t columns = psti_pli_unit_columns(&e->header);
    uint8_t *out = e->slots + row * e->row_capacity;
    struct work work;
    if (!claim(e, &work))
        return;
    for (uint32_t column = 0; column < columns; column++) {
        size_t nbytes = e->plans ? encode_planned(e, (uint32_t)row, column, &work, out)
                                 : encode_unit(e, (uint32_t)row, column, &work, out);
        e->sizes[row * columns + column] = (uint32_t)nbytes;
        out += nbytes;
    }
    psti_free(work.memory);
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

/* Writes head and units to `bytes`. Returns the length of the PLI. */
static size_t assemble(struct encoder *e, uint8_t *bytes)
{
    struct psti_pli_header *h = &e->header;
    uint32_t rows = psti_pli_unit_rows(h), columns = psti_pli_unit_columns(h);
    uint32_t largest = 0;
    for (uint32_t u = 0; u < rows * columns; u++)
        largest = e->sizes[u] > largest ? e->sizes[u] : largest;
    h->wide_sizes = largest > UINT16_MAX;
    memcpy(bytes + PSTI_PLI_HEADER_NBYTES, e->model, h->model_nbytes);
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

/* Plans all units and makes the image's tables from their tokens. */
static void plan_once(struct encoder *e)
{
    uint32_t rows = psti_pli_unit_rows(&e->header), bits = e->image.pixels->bits;
    memset(e->counts, 0, rows * sizeof *e->counts);
    run_jobs(e, plan_row, rows);
    uint32_t *sum = &e->counts[0].n[0][0];
    for (uint32_t row = 1; row < rows; row++)
        for (size_t i = 0; i < sizeof e->counts->n / sizeof *sum; i++)
            sum[i] += (&e->counts[row].n[0][0])[i];
    size_t nbytes = psti_pli_wave_model(e->counts, bits, e->model + PSTI_PLI_BLOCK_HEADER_NBYTES,
                                        MODEL_MAX_NBYTES - PSTI_PLI_BLOCK_HEADER_NBYTES, e->codes);
    e->header.model_nbytes = 0;
    if (nbytes > 0)
        e->header.model_nbytes =
            (uint32_t)(psti_pli_print_block(e->model, PSTI_PLI_MODEL_WAVE, nbytes) - e->model);
}

/* Does pass one of wave units and makes the image's model. With high efforts it then chooses
 * predictors again, with the image's tables. */
static void plan_waves(struct encoder *e)
{
    enum { EFFORT_AGAIN = 4 };
    const struct pst_pixels *p = e->image.pixels;
    uint32_t rows = psti_pli_unit_rows(&e->header), columns = psti_pli_unit_columns(&e->header);
    e->plan_nbytes = psti_pli_wave_plan_nbytes(p->channels, p->bits);
    e->plans = psti_alloc_array((size_t)rows * columns, e->plan_nbytes);
    e->looks = psti_alloc_array(rows, columns);
    e->counts = psti_alloc_array(rows, sizeof *e->counts);
    e->codes = psti_alloc_aligned(64, psti_pli_wave_codes_nbytes());
    if (!e->plans || !e->looks || !e->counts || !e->codes) {
        atomic_store(&e->out_of_memory, true);
        return;
    }
    plan_once(e);
    if (e->options.effort < EFFORT_AGAIN || atomic_load(&e->out_of_memory))
        return;
    e->has_codes = true;
    plan_once(e);
}

/* Encodes with units of edge 2^unit_log2. Only the pixel checksum is not computed. */
static enum pst_status encode_as(struct encoder *e, uint8_t unit_log2, struct pst_error *err)
{
    const struct pst_pixels *p = e->image.pixels;
    e->image.max_error = e->options.max_error;
    e->image.kernels = psti_pli_encode_kernels_of(psti_cpu_features());
    e->image.unit_log2 = unit_log2;
    e->image.transform = unit_log2 == SMALL_EDGE_LOG2 ? psti_pli_choose_transform(&e->image)
                                                      : PSTI_PLI_TRANSFORM_NONE;
    e->header = (struct psti_pli_header){
        .content = PST_PLI_CONTENT_PIXELS,
        .channels = p->channels,
        .bits = p->bits,
        .unit_log2 = e->image.unit_log2,
        .transform = e->image.transform,
        .max_error = (uint8_t)e->options.max_error,
        .tier = (uint8_t)e->options.tier,
        .effort = (uint8_t)e->options.effort,
        .has_checksums = !e->options.no_checksum,
        .width = (uint16_t)p->width,
        .height = (uint16_t)p->height,
    };
    uint32_t rows = psti_pli_unit_rows(&e->header), columns = psti_pli_unit_columns(&e->header);
    e->row_capacity =
        columns + psti_pli_raw_nbytes(psti_pli_edge(&e->header), p->width, p->channels, p->bits);
    e->sizes = psti_alloc_array((size_t)rows * columns, sizeof *e->sizes);
    e->slots = psti_alloc_array(rows, e->row_capacity);
    if (!e->sizes || !e->slots)
        atomic_store(&e->out_of_memory, true);
    if (!atomic_load(&e->out_of_memory) && uses_waves(e))
        plan_waves(e);
    if (!atomic_load(&e->out_of_memory))
        run_jobs(e, encode_row, rows);
    if (atomic_load(&e->out_of_memory))
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to encode %ux%u pixels", p->height,
                         p->width);
    e->total = psti_pli_head_nbytes(&e->header);
    for (uint32_t unit = 0; unit < rows * columns; unit++)
        e->total += e->sizes[unit];
    return PST_OK;
}

static void release(struct encoder *e)
{
    psti_free(e->codes);
    psti_free(e->counts);
    psti_free(e->plans);
    psti_free(e->looks);
    psti_free(e->slots);
    psti_free(e->sizes);
}

/* Encodes with the units that suit the image. An image that looks like graphics but stays large may
 * contain photographs. Then small units are tried, too, and the smaller result is kept. */
static enum pst_status encode_best(struct encoder *e, struct pst_error *err)
{
    enum { LARGE = 6 }; /* large means more than 1 / LARGE of the raw bytes */
    const struct pst_pixels *p = e->image.pixels;
    uint8_t log2 = psti_pli_lz_suits(p);
    enum pst_status status = encode_as(e, log2 ? log2 : SMALL_EDGE_LOG2, err);
    if (status != PST_OK || log2 == 0 ||
        e->total <= psti_pli_raw_nbytes(p->height, p->width, p->channels, p->bits) / LARGE)
        return status;
    struct encoder other = {.image.pixels = p, .options = e->options};
    status = encode_as(&other, SMALL_EDGE_LOG2, err);
    if (status == PST_OK && other.total < e->total) {
        struct encoder larger = *e;
        *e = other;
        other = larger;
    }
    release(&other);
    return status;
}

enum pst_status pst_pli_encode(const struct pst_pixels *pixels,
                               const struct pst_pli_encode_options *options, void *bytes,
                               size_t capacity, size_t *nbytes, struct pst_error *err)
{
    struct encoder e = {.image.pixels = pixels};
    enum pst_status status = psti_options_copy(&e.options, sizeof e.options, options, ROOM, err);
    if (status == PST_OK)
        status = check(&e, capacity, err);
    if (status != PST_OK)
        return status;
    status = encode_best(&e, err);
    if (status == PST_OK)
        status = psti_pli_checksum(&e.image, &e.header.pixel_checksum, err);
    if (status == PST_OK)
        *nbytes = assemble(&e, bytes);
    else
        psti_error_set_codec(err, CODEC);
    release(&e);
    return status;
}
