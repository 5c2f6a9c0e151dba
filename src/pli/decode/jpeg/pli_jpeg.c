/* pli_jpeg.c - PLI's content 2, a JPEG kept as coefficients: decodes rows of pixels, or
 * coefficients.
 *
 * It works row of units by row of units: entropy decoding (pli_coefs.h), inverse DCT into a strip
 * of samples that is as wide as the region, and rows of pixels from the strip. All memory is the
 * caller's scratch. The functions keep no state; any thread may call them. The caller has checked
 * the whole head, which has all offsets and lengths. Each unit is checked against its checksum, and
 * the decoder of coefficients checks its contents. */
#include "pli/pli.h"

#include "base/bits.h"
#include "base/checked.h"
#include "base/machine/cpu.h"
#include "base/fail.h"
#include "pli/decode/pli_kernels.h"

#define ROOM "decode"
#define CODEC "pli"

/* Where coefficients are stored, block by block. */
struct planes_of_blocks {
    const struct psti_jpeg_frame *frame;
    int16_t *const *coefs; /* NULL if coefficients are not wanted */
    psti_pli_jpeg_to_blocks *to_blocks;
};

/* A unit of the span, and its place in the file. */
struct place {
    uint32_t row, column;
    uint64_t offset;
    struct psti_pli_entry entry;
};

/* A unit whose tokens have been read. An error of it is kept until its turn comes. */
struct unit {
    struct place place;
    void *work;
    struct psti_pli_coefs coefs;
    enum pst_status status;
    struct pst_error err;
};
enum { UNITS = 2 }; /* units whose tokens are read together, if the scratch has room */

/* Holds the state of one decode. */
struct run {
    const struct psti_pli_request *request;
    const struct psti_jpeg_frame *frame;
    struct psti_pli_coefs_tables *tables;
    void *idct_work;
    struct psti_pli_span span;
    struct place next; /* where the search for the next unit begins */
    struct unit units[UNITS];
    uint32_t n_units;         /* number of units that have memory */
    uint32_t n_read, n_used;  /* units that were read ahead, and how many of them were used */
    psti_pli_jpeg_idct *idct; /* NULL if pixels are not wanted */
    struct psti_pli_jpeg_quants quants;
    struct psti_pli_jpeg_strip strip;
    struct psti_pli_jpeg_blocks blocks; /* blocks of the current unit */
    bool any;                           /* true if at least one block of the unit is wanted */
    struct planes_of_blocks planes;
    uint32_t k_last; /* number of the last wanted coefficient */
    uint32_t y;      /* next row of pixels to make */
};

static enum pst_status named(enum pst_status status, struct pst_error *err)
{
    psti_error_set_codec(err, CODEC);
    return status;
}

static size_t unit_nbytes(uint32_t unit_log2, uint32_t n_components)
{
    return psti_round_up(psti_pli_coefs_work_nbytes(unit_log2, n_components), 64);
}

size_t psti_pli_jpeg_scratch_least(uint32_t unit_log2, uint32_t n_components, uint32_t width)
{
    return psti_round_up(psti_pli_coefs_tables_nbytes(), 64) +
           unit_nbytes(unit_log2, n_components) + PSTI_PLI_JPEG_IDCT_NBYTES +
           psti_pli_jpeg_strip_nbytes(n_components, 1u << unit_log2, width);
}

size_t psti_pli_jpeg_scratch_nbytes(uint32_t unit_log2, uint32_t n_components, uint32_t width)
{
    return psti_pli_jpeg_scratch_least(unit_log2, n_components, width) +
           (UNITS - 1) * unit_nbytes(unit_log2, n_components);
}

enum pst_status psti_pli_jpeg_find_frame(const void *bytes, const struct psti_pli_header *header,
                                         struct psti_jpeg_frame *frame, struct pst_error *err)
{
    const uint8_t *block;
    size_t nbytes;
    enum pst_status status =
        psti_pli_find_model(bytes, header, PSTI_PLI_MODEL_FRAME, &block, &nbytes, err);
    return status == PST_OK ? psti_pli_jpeg_parse_frame(block, nbytes, header, frame, err) : status;
}

static enum pst_status prepare_tables(const struct psti_pli_request *request,
                                      struct psti_pli_coefs_tables *tables, struct pst_error *err)
{
    const uint8_t *block;
    size_t nbytes;
    enum pst_status status = psti_pli_find_model(request->bytes, &request->header,
                                                 PSTI_PLI_MODEL_COEFS, &block, &nbytes, err);
    if (status != PST_OK)
        return status;
    return psti_pli_coefs_prepare(request->kernels->coefs, block, nbytes, tables, err);
}

/* ---- Coefficients */

static int16_t *block_at(const struct planes_of_blocks *out, const struct psti_pli_coefs *coefs,
                         uint32_t i)
{
    const struct psti_jpeg_square *square = &coefs->squares[coefs->order[i] >> 6];
    uint32_t position = coefs->order[i] & 63;
    size_t row = square->row + (position >> 3), column = square->column + (position & 7);
    return out->coefs[square->component] +
           (row * out->frame->components[square->component].columns + column) * 64;
}

/* Converts planes to blocks. A plane is read only up to the multiple of 64 after its last entry.
 * Blocks come in the order of the list, which jumps about in memory larger than the near caches, so
 * the cache lines of blocks are prefetched some groups before they are written. */
static void to_blocks(const struct planes_of_blocks *out, const struct psti_pli_coefs *coefs)
{
    enum { GROUP = PSTI_PLI_JPEG_GROUP, AHEAD = 2 * GROUP, RING = 4 * GROUP };
    uint32_t last = coefs->last;
    int16_t *blocks[RING], none[64];
    for (uint32_t to = 0; to < coefs->n + AHEAD; to += GROUP) {
        for (uint32_t i = to; i < to + GROUP; i++) {
            int16_t *block = i < coefs->n ? block_at(out, coefs, i) : none;
            __builtin_prefetch(block, 1);
            __builtin_prefetch(block + 32, 1);
            blocks[i % RING] = block;
        }
        uint32_t i = to - AHEAD;
        if (to < AHEAD || i >= coefs->n)
            continue;
        while (last > 0 && coefs->n_k[last] <= i)
            last--;
        out->to_blocks(coefs->planes + i, coefs->stride, last, blocks + i % RING);
    }
}

/* ---- Units */

/* Finds the places of a unit's samples. Returns which blocks are wanted, or NULL if all are. */
static const uint64_t *place_samples(struct run *run, const struct psti_pli_coefs *coefs)
{
    struct psti_pli_jpeg_blocks *blocks = &run->blocks;
    if (!run->idct)
        return NULL;
    blocks->coefs = coefs;
    run->any = psti_pli_jpeg_strip_place(&run->strip, blocks);
    return blocks->all || run->planes.coefs ? NULL : blocks->wanted;
}

static void use_coefs(struct run *run, const struct psti_pli_coefs *coefs)
{
    if (run->planes.coefs)
        to_blocks(&run->planes, coefs);
    run->blocks.all |= coefs->kept;
    if (run->any)
        run->idct(&run->blocks, run->idct_work);
}

/* Begins a search for units of the span in the order of the file. */
static void begin_units(struct run *run, struct psti_pli_span span)
{
    run->span = span;
    run->next = (struct place){.offset = psti_pli_head_nbytes(&run->request->header)};
    run->n_read = run->n_used = 0;
}

/* Finds the next unit of the span. Returns false if there is none. */
static bool find_unit(struct run *run, struct place *found)
{
    const struct psti_pli_header *h = &run->request->header;
    const struct psti_pli_span *span = &run->span;
    const uint32_t columns = psti_pli_unit_columns(h);
    struct place at = run->next;
    bool is_found = false;
    for (; !is_found && at.row < span->row1; at.offset += at.entry.nbytes) {
        at.entry = psti_pli_parse_entry(run->request->bytes, h, at.row * columns + at.column);
        is_found = at.row >= span->row0 && at.column >= span->column0 && at.column < span->column1;
        if (is_found)
            *found = at;
        if (++at.column == columns) {
            at.column = 0;
            at.row++;
        }
    }
    run->next = at;
    return is_found;
}

/* Checks a unit and decodes what precedes its AC tokens. */
static enum pst_status begin_unit(const struct run *run, struct unit *unit)
{
    const struct psti_pli_request *request = run->request;
    const struct place *at = &unit->place;
    struct pst_error *err = &unit->err;
    enum pst_status status = psti_pli_check_unit(&request->header, request->bytes, request->nbytes,
                                                 at->offset, at->entry, true, err);
    if (status != PST_OK)
        return status;
    const uint8_t *bytes = request->bytes + at->offset;
    if (bytes[0] != PSTI_PLI_COEFS)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "mode %u, where only coefficients may be",
                         bytes[0]);
    psti_pli_coefs_open(run->frame, request->header.unit_log2, at->row, at->column, &unit->coefs);
    return psti_pli_coefs_begin(run->tables, bytes + 1, at->entry.nbytes - 1, run->k_last,
                                unit->work, &unit->coefs, err);
}

/* Reads the tokens of the next units together. */
static void read_units(struct run *run)
{
    void *works[UNITS];
    uint32_t n = 0, n_begun = 0;
    for (; n < run->n_units && find_unit(run, &run->units[n].place); n++) {
        struct unit *unit = &run->units[n];
        unit->status = begin_unit(run, unit);
        if (unit->status == PST_OK)
            works[n_begun++] = unit->work;
    }
    psti_pli_coefs_read(works, n_begun);
    run->n_read = n;
    run->n_used = 0;
}

/* Decodes the span's next unit to samples, coefficients or both. */
static enum pst_status one_unit(struct run *run, struct pst_error *err)
{
    if (run->n_used == run->n_read)
        read_units(run);
    struct unit *unit = &run->units[run->n_used++];
    if (unit->status == PST_OK)
        unit->status =
            psti_pli_coefs_finish(unit->work, place_samples(run, &unit->coefs), &unit->err);
    if (unit->status == PST_OK) {
        use_coefs(run, &unit->coefs);
        return PST_OK;
    }
    if (err)
        *err = unit->err;
    return psti_pli_unit_failed(unit->place.row, unit->place.column, unit->place.offset,
                                unit->status, err);
}

/* Decodes the units of the span in one row. */
static enum pst_status one_row(struct run *run, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t c = run->span.column0; c < run->span.column1 && status == PST_OK; c++)
        status = one_unit(run, err);
    return status;
}

/* ---- Pixels */

static bool is_interleaved(const struct pst_pixels *pixels)
{
    return pixels->channel_nbytes == 1 && pixels->pixel_nbytes == pixels->channels;
}

/* Makes row y of the image and stores it as row `i` of the pixels, in their layout. */
static void put_row(const struct run *run, uint32_t y, uint32_t i)
{
    const struct psti_pli_request *request = run->request;
    const struct pst_pli_region *region = &request->region;
    const struct pst_pixels *pixels = request->pixels;
    uint8_t *out = (uint8_t *)pixels->data + (int64_t)i * pixels->row_nbytes;
    uint8_t channels = run->frame->n_components;
    if (is_interleaved(pixels) && pixels->channels == channels) {
        (void)psti_pli_jpeg_strip_row(&run->strip, y, region->x, region->width, out);
        return;
    }
    const uint8_t *row = psti_pli_jpeg_strip_row(&run->strip, y, region->x, region->width, NULL);
    struct pst_pixels here = *pixels;
    here.data = out;
    const struct psti_pli_unit unit = {
        .height = 1, .width = region->width, .channels = channels, .bits = 8};
    const struct psti_pli_part part = {0, 0, 1, region->width, request->channel, &here};
    psti_pli_emit_pixels(&unit, row, &part);
}

/* Makes rows run->y .. end - 1 of the image. If the caller wants bands, makes a band at a time. */
static enum pst_status put_rows(struct run *run, uint32_t end)
{
    const struct psti_pli_request *request = run->request;
    enum pst_status status = PST_OK;
    while (run->y < end && status == PST_OK) {
        uint32_t y = run->y - request->region.y, left = end - run->y;
        uint32_t n = left < PSTI_PLI_JPEG_BAND_ROWS ? left : PSTI_PLI_JPEG_BAND_ROWS;
        for (uint32_t i = 0; i < n; i++)
            put_row(run, run->y + i, request->band ? i : y + i);
        run->y += n;
        if (request->band)
            status = request->band(request->band_ctx, y, n);
    }
    return status;
}

static enum pst_status put_units(struct run *run, struct pst_error *err)
{
    const struct psti_pli_header *h = &run->request->header;
    const struct pst_pli_region *region = &run->request->region;
    uint32_t bottom = region->y + region->height;
    run->y = region->y;
    run->blocks.quants = &run->quants;
    begin_units(run, psti_pli_jpeg_find_span(run->frame, h->unit_log2, run->strip.needs));
    for (uint32_t row = run->span.row0; row < run->span.row1; row++) {
        psti_pli_jpeg_strip_next(&run->strip, row * run->strip.edge);
        enum pst_status status = one_row(run, err);
        if (status == PST_OK) {
            uint32_t end = psti_pli_jpeg_strip_fill(&run->strip);
            status = put_rows(run, end < bottom ? end : bottom);
        }
        if (status != PST_OK)
            return status;
    }
    return PST_OK;
}

static psti_pli_jpeg_idct *idct_for(const struct psti_pli_request *request)
{
    switch (request->scale_log2) {
    case 0:
        return request->kernels->jpeg_idct;
    case 1:
        return request->kernels->jpeg_idct_half;
    default:
        return psti_pli_jpeg_idct_small;
    }
}

struct psti_jpeg_frame psti_pli_jpeg_scaled_frame(const struct psti_jpeg_frame *frame,
                                                  uint32_t scale_log2)
{
    struct psti_jpeg_frame small = *frame;
    small.width = psti_pli_jpeg_scaled(frame->width, scale_log2);
    small.height = psti_pli_jpeg_scaled(frame->height, scale_log2);
    for (uint32_t i = 0; i < frame->n_components; i++) {
        struct psti_jpeg_component *c = &small.components[i];
        c->width = psti_pli_jpeg_scaled(c->width, scale_log2);
        c->height = psti_pli_jpeg_scaled(c->height, scale_log2);
    }
    return small;
}

void psti_pli_jpeg_find_quants(const struct psti_jpeg_frame *frame,
                               struct psti_pli_jpeg_quants *quants)
{
    for (uint32_t i = 0; i < PSTI_JPEG_COMPONENTS_MAX; i++) {
        const uint16_t *values =
            frame->quants[frame->components[i < frame->n_components ? i : 0].quant];
        for (uint32_t k = 0; k < 64; k++)
            quants->twice[i][k] = values[k] * UINT32_C(0x10001);
    }
}

/* Divides the scratch, and makes the tables for all units. */
static enum pst_status begin(struct run *run, struct pst_error *err)
{
    const struct psti_pli_request *request = run->request;
    uint8_t *scratch = request->scratch;
    uint8_t log2 = request->header.unit_log2, n_components = run->frame->n_components;
    size_t for_all = psti_pli_jpeg_scratch_nbytes(log2, n_components, request->region.width);
    run->n_units = request->scratch_nbytes < for_all ? 1 : UNITS;
    run->tables = (struct psti_pli_coefs_tables *)(void *)scratch;
    uint8_t *work = scratch + psti_round_up(psti_pli_coefs_tables_nbytes(), 64);
    for (uint32_t i = 0; i < run->n_units; i++) {
        run->units[i].work = work;
        work += unit_nbytes(log2, n_components);
    }
    run->idct_work = work;
    return prepare_tables(request, run->tables, err);
}

enum pst_status psti_pli_jpeg_decode(const struct psti_pli_request *request, struct pst_error *err)
{
    static const uint8_t k_last[] = {63, 24, 4, 0}; /* for 8x8, 4x4, 2x2 and 1x1 frequencies */
    struct psti_jpeg_frame frame;
    uint32_t scale = request->scale_log2;
    struct run run = {
        .request = request,
        .frame = &frame,
        .idct = idct_for(request),
        .planes = {&frame, request->coefs, request->kernels->jpeg_to_blocks},
        .k_last = k_last[scale],
    };
    enum pst_status status =
        psti_pli_jpeg_find_frame(request->bytes, &request->header, &frame, err);
    if (status == PST_OK)
        status = psti_pli_check_end(request->bytes, request->nbytes, &request->header,
                                    frame.restoration_nbytes, err);
    if (status == PST_OK)
        status = begin(&run, err);
    if (status != PST_OK)
        return named(status, err);
    const struct psti_jpeg_frame small = psti_pli_jpeg_scaled_frame(&frame, scale);
    psti_pli_jpeg_find_quants(&frame, &run.quants);
    psti_pli_jpeg_strip_begin(
        &run.strip, &small, 8u >> scale, psti_pli_edge(&request->header) >> scale, &request->region,
        request->kernels->jpeg_rows, (uint8_t *)run.idct_work + PSTI_PLI_JPEG_IDCT_NBYTES);
    return put_units(&run, err);
}

/* ---- Coefficients alone */

static enum pst_status all_units(struct run *run, struct pst_error *err)
{
    const struct psti_pli_header *h = &run->request->header;
    const uint32_t rows = psti_pli_unit_rows(h);
    begin_units(run, (struct psti_pli_span){0, rows, 0, psti_pli_unit_columns(h)});
    for (uint32_t row = 0; row < rows; row++) {
        enum pst_status status = one_row(run, err);
        if (status != PST_OK)
            return status;
    }
    return PST_OK;
}

/* Reads header, head and frame of untrusted bytes. */
static enum pst_status read_head(const void *bytes, size_t nbytes, struct psti_pli_header *header,
                                 struct psti_jpeg_frame *frame, struct pst_error *err)
{
    enum pst_status status = psti_pli_parse_header(bytes, nbytes, header, err);
    if (status == PST_OK && header->content != PST_PLI_CONTENT_JPEG)
        status = psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "the PLI holds pixels, not a JPEG");
    if (status == PST_OK)
        status = psti_pli_check_head(bytes, nbytes, header, err);
    if (status == PST_OK)
        status = psti_pli_jpeg_find_frame(bytes, header, frame, err);
    return status == PST_OK ? PST_OK : named(status, err);
}

enum pst_status psti_pli_jpeg_frame(const void *bytes, size_t nbytes, struct psti_jpeg_frame *frame,
                                    struct pst_error *err)
{
    struct psti_pli_header header;
    return read_head(bytes, nbytes, &header, frame, err);
}

enum pst_status psti_pli_jpeg_check_coefs(const struct psti_jpeg_frame *own,
                                          const struct psti_jpeg_frame *frame,
                                          struct pst_error *err)
{
    bool same = own->n_components == frame->n_components;
    for (uint32_t i = 0; same && i < own->n_components; i++)
        same = psti_pli_jpeg_n_coefs(own, i) == psti_pli_jpeg_n_coefs(frame, i);
    if (same)
        return PST_OK;
    return named(psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "the frame is another image's"), err);
}

enum pst_status psti_pli_jpeg_coefs(const void *bytes, size_t nbytes,
                                    const struct psti_jpeg_frame *frame, int16_t *const coefs[],
                                    void *scratch, size_t scratch_nbytes, struct pst_error *err)
{
    struct psti_jpeg_frame own;
    struct psti_pli_request request = {
        .bytes = bytes,
        .nbytes = nbytes,
        .scratch = scratch,
        .scratch_nbytes = scratch_nbytes,
        .kernels = psti_pli_kernels_of(psti_cpu_features()),
    };
    struct run run = {
        .request = &request,
        .frame = &own,
        .planes = {&own, coefs, request.kernels->jpeg_to_blocks},
        .k_last = 63,
    };
    enum pst_status status = read_head(bytes, nbytes, &request.header, &own, err);
    if (status == PST_OK)
        status = psti_pli_jpeg_check_coefs(&own, frame, err);
    if (status != PST_OK)
        return status;
    size_t needed = psti_pli_jpeg_scratch_nbytes(request.header.unit_log2, own.n_components,
                                                 request.header.width);
    if ((uintptr_t)scratch % 64 != 0 || scratch_nbytes < needed) {
        status = psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                           "scratch of %zu bytes; %zu bytes aligned to 64 are needed",
                           scratch_nbytes, needed);
        return named(status, err);
    }
    status = begin(&run, err);
    return status == PST_OK ? all_units(&run, err) : named(status, err);
}
