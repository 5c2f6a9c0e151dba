/* pli_decode.c - the public decoder of PLI. It reads the head and the index, and decodes the units
 * that a region touches.
 *
 * All functions are pure: they work on the caller's bytes, scratch and pixels, keep no state,
 * allocate no memory, and may run in any thread. The head is checked as a whole before any value of
 * it is used. Each unit is checked against its checksum, and by the decoder of its mode. */
#include "pli/decode/pli_checksum.h"
#include "pli/pli.h"
#include "pli/decode/pli_kernels.h"

#include "base/bits.h"
#include "base/checked.h"
#include "base/machine/cpu.h"
#include "base/fail.h"
#include "base/options.h"

#include <string.h>

#define ROOM "decode"

/* Width of units whose pixels are prefetched. Their rows have 64 samples. */
enum { PREFETCH_WIDTH = 1 << PSTI_PLI_UNIT_LOG2_MIN };

/* The state of one call of pst_pli_decode. */
struct run {
    struct psti_pli_request request;
    uint8_t *work;          /* scratch for the decoders of the modes */
    uint8_t *samples;       /* the samples of one pixel unit */
    uint8_t *tables_memory; /* memory for the tables of wave units */
    struct psti_pli_lz_tables *lz_tables;
    /* The wave tables, in tables_memory. NULL until a wave unit needs them. */
    struct psti_pli_wave_tables *tables;
};

/* Checks the head and sets *header. `given` is the header of these bytes if the caller has parsed
 * it; if it is NULL, the header is parsed here. */
static enum pst_status read_head(const struct psti_pli_header *given, const void *bytes,
                                 size_t nbytes, struct psti_pli_header *header,
                                 struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (given)
        *header = *given;
    else
        status = psti_pli_parse_header(bytes, nbytes, header, err);
    if (status == PST_OK)
        status = psti_pli_check_head(bytes, nbytes, header, err);
    return status == PST_OK ? PST_OK : psti_pli_failed(status, err);
}

static uint32_t n_units(const struct psti_pli_header *header)
{
    return psti_pli_unit_rows(header) * psti_pli_unit_columns(header);
}

static size_t samples_nbytes(uint32_t edge, uint32_t height, uint32_t width, uint8_t channels,
                             uint8_t bits)
{
    size_t h = height < edge ? height : edge;
    size_t w = width < edge ? width : edge;
    return psti_round_up(h * w * channels * (bits / 8u) + 64, 64);
}

/* Sums up the sizes of all units. If `bytes` hold all units, counts the units of each mode. */
static void count_units(const uint8_t *bytes, size_t nbytes, const struct psti_pli_header *header,
                        struct pst_pli_info *info)
{
    uint64_t offset = info->head_nbytes;
    uint64_t by_mode[PSTI_PLI_N_MODES] = {0};
    bool whole = true;
    for (uint32_t u = 0; u < n_units(header); u++) {
        struct psti_pli_entry entry = psti_pli_parse_entry(bytes, header, u);
        whole = whole && entry.nbytes > 0 && psti_range_fits(offset, entry.nbytes, nbytes) &&
                bytes[offset] < PSTI_PLI_N_MODES;
        if (whole)
            by_mode[bytes[offset]]++;
        offset += entry.nbytes;
    }
    info->nbytes = offset + info->restoration_nbytes;
    if (whole)
        memcpy(info->n_units, by_mode, sizeof by_mode);
}

/* Copies the facts of a JPEG's frame to `info`. */
static enum pst_status describe_frame(const void *bytes, const struct psti_pli_header *header,
                                      struct pst_pli_info *info, struct pst_error *err)
{
    struct psti_jpeg_frame frame;
    enum pst_status status = psti_pli_jpeg_find_frame(bytes, header, &frame, err);
    if (status != PST_OK)
        return status;
    for (uint32_t i = 0; i < frame.n_components; i++)
        info->samplings[i] = (uint8_t)(frame.components[i].h << 4 | frame.components[i].v);
    info->orientation = frame.orientation;
    info->jpeg_nbytes = frame.jpeg_nbytes;
    info->restoration_nbytes = frame.restoration_nbytes;
    return PST_OK;
}

/* Checks that the model of a PLI of pixels consists only of blocks that belong there. */
static enum pst_status check_model(const void *bytes, const struct psti_pli_header *header,
                                   struct pst_error *err)
{
    const uint8_t *block;
    size_t nbytes;
    return psti_pli_find_model(bytes, header, PSTI_PLI_MODEL_WAVE, &block, &nbytes, err);
}

enum pst_status psti_pli_describe(const struct psti_pli_header *header, const void *bytes,
                                  size_t nbytes, struct pst_pli_info *info, struct pst_error *err)
{
    *info = (struct pst_pli_info){
        .content = header->content,
        .height = header->height,
        .width = header->width,
        .channels = header->channels,
        .bits = header->bits,
        .version = PSTI_PLI_VERSION,
        .unit_edge = psti_pli_edge(header),
        .unit_rows = psti_pli_unit_rows(header),
        .unit_columns = psti_pli_unit_columns(header),
        .tier = header->tier,
        .effort = header->effort,
        .max_error = header->max_error,
        .has_checksums = header->has_checksums,
        .pixel_checksum = header->pixel_checksum,
        .head_nbytes = psti_pli_head_nbytes(header),
    };
    if (nbytes < info->head_nbytes)
        return PST_OK;
    enum pst_status status = psti_pli_check_head(bytes, nbytes, header, err);
    if (status == PST_OK)
        status = header->content == PST_PLI_CONTENT_JPEG ? describe_frame(bytes, header, info, err)
                                                         : check_model(bytes, header, err);
    if (status != PST_OK)
        return psti_pli_failed(status, err);
    count_units(bytes, nbytes, header, info);
    return PST_OK;
}

enum pst_status pst_pli_info(const void *bytes, size_t nbytes, struct pst_pli_info *info,
                             size_t info_nbytes, struct pst_error *err)
{
    struct psti_pli_header header;
    struct pst_pli_info full;
    enum pst_status status = psti_pli_parse_header(bytes, nbytes, &header, err);
    if (status != PST_OK)
        return psti_pli_failed(status, err);
    status = psti_pli_describe(&header, bytes, nbytes, &full, err);
    if (status == PST_OK)
        psti_struct_write(info, info_nbytes, &full, sizeof full);
    return status;
}

size_t psti_pli_region_scratch_nbytes(const struct psti_pli_header *h, uint32_t width)
{
    if (h->content == PST_PLI_CONTENT_JPEG)
        return psti_pli_jpeg_scratch_nbytes(h->unit_log2, h->channels, width);
    return PSTI_PLI_WORK_NBYTES + PSTI_PLI_TABLES_NBYTES + PSTI_PLI_LZ_TABLES_NBYTES +
           samples_nbytes(psti_pli_edge(h), h->height, h->width, h->channels, h->bits);
}

size_t psti_pli_region_scratch_least(const struct psti_pli_header *h, uint32_t width)
{
    if (h->content == PST_PLI_CONTENT_JPEG)
        return psti_pli_jpeg_scratch_least(h->unit_log2, h->channels, width);
    return psti_pli_region_scratch_nbytes(h, width);
}

size_t pst_pli_scratch_nbytes(const struct pst_pli_info *info, size_t info_nbytes)
{
    struct pst_pli_info full;
    if (psti_struct_read(&full, sizeof full, info, info_nbytes, "info_nbytes", ROOM, NULL) !=
        PST_OK)
        return 0;
    const struct psti_pli_header header = {.content = (uint8_t)full.content,
                                           .unit_log2 = (uint8_t)__builtin_ctz(full.unit_edge),
                                           .height = (uint16_t)full.height,
                                           .width = (uint16_t)full.width,
                                           .channels = (uint8_t)full.channels,
                                           .bits = (uint8_t)full.bits};
    return psti_pli_region_scratch_nbytes(&header, full.width);
}

static enum pst_status check_region(const struct psti_pli_header *header, uint32_t scale_log2,
                                    const struct pst_pli_region *given,
                                    struct pst_pli_region *region, struct pst_error *err)
{
    uint32_t height = psti_pli_jpeg_scaled(header->height, scale_log2);
    uint32_t width = psti_pli_jpeg_scaled(header->width, scale_log2);
    *region = given ? *given : (struct pst_pli_region){0, 0, height, width};
    if (region->height == 0 || region->width == 0 || region->y >= height ||
        region->height > height - region->y || region->x >= width ||
        region->width > width - region->x) {
        psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                  "region y=%u x=%u height=%u width=%u is not within an image of %ux%u pixels",
                  region->y, region->x, region->height, region->width, height, width);
        return psti_pli_failed(PST_ERROR_ARGUMENT, err);
    }
    return PST_OK;
}

static enum pst_status check_pixels(const struct psti_pli_request *request, struct pst_error *err)
{
    const struct psti_pli_header *h = &request->header;
    const struct pst_pixels *p = request->pixels;
    int channels = request->channel < 0 ? h->channels : 1;
    uint32_t band = psti_pli_band_rows(h->content, psti_pli_edge(h));
    uint32_t height = request->region.height;
    const char *what = NULL;
    if (request->band && height > band)
        height = band;
    if (request->channel < -1 || request->channel >= h->channels)
        what = "channel";
    else if (!p->data || p->height != height || p->width != request->region.width)
        what = "size of the pixels";
    else if (p->channels != channels || p->bits != h->bits)
        what = "channels or bits of the pixels";
    else if (h->bits == 16 && (((uintptr_t)p->data | (uint64_t)p->row_nbytes |
                                (uint64_t)p->pixel_nbytes | (uint64_t)p->channel_nbytes) &
                               1) != 0)
        what = "alignment of the pixels";
    if (!what)
        return PST_OK;
    psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "the %s given do not fit the image or region", what);
    return psti_pli_failed(PST_ERROR_ARGUMENT, err);
}

/* Returns the range of units that a region of pixels touches. */
static struct psti_pli_span touched(const struct psti_pli_header *header,
                                    const struct pst_pli_region *region)
{
    uint32_t log2 = header->unit_log2;
    return (struct psti_pli_span){
        .row0 = region->y >> log2,
        .row1 = ((region->y + region->height - 1) >> log2) + 1,
        .column0 = region->x >> log2,
        .column1 = ((region->x + region->width - 1) >> log2) + 1,
    };
}

/* Finds the units that a decode of the region reads. */
static enum pst_status find_span(const void *bytes, const struct psti_pli_header *header,
                                 uint32_t scale_log2, const struct pst_pli_region *region,
                                 struct psti_pli_span *span, struct pst_error *err)
{
    struct psti_jpeg_frame frame;
    struct psti_pli_jpeg_need needs[PSTI_JPEG_COMPONENTS_MAX];
    if (header->content != PST_PLI_CONTENT_JPEG) {
        *span = touched(header, region);
        return PST_OK;
    }
    enum pst_status status = psti_pli_jpeg_find_frame(bytes, header, &frame, err);
    if (status != PST_OK)
        return psti_pli_failed(status, err);
    frame = psti_pli_jpeg_scaled_frame(&frame, scale_log2);
    psti_pli_jpeg_find_needs(&frame, 8u >> scale_log2, region, needs);
    *span = psti_pli_jpeg_find_span(&frame, header->unit_log2, needs);
    return PST_OK;
}

uint64_t psti_pli_count_units(const struct psti_pli_header *header, const void *bytes,
                              uint32_t scale_log2, const struct pst_pli_region *region)
{
    struct psti_pli_span span;
    if (find_span(bytes, header, scale_log2, region, &span, NULL) != PST_OK)
        return 0;
    return (uint64_t)(span.row1 - span.row0) * (span.column1 - span.column0);
}

static enum pst_status wave_tables(struct run *run, struct pst_error *err)
{
    const uint8_t *block;
    size_t nbytes;
    if (run->tables)
        return PST_OK;
    enum pst_status status = psti_pli_find_model(run->request.bytes, &run->request.header,
                                                 PSTI_PLI_MODEL_WAVE, &block, &nbytes, err);
    if (status != PST_OK)
        return status;
    struct psti_pli_wave_tables *tables = (struct psti_pli_wave_tables *)run->tables_memory;
    status = psti_pli_wave_prepare(block, nbytes, run->request.header.bits, tables, err);
    if (status == PST_OK)
        run->tables = tables;
    return status;
}

/* Decodes a unit of mode raw or constant, which stores samples unchanged. */
static enum pst_status plain_unit(struct run *run, const struct psti_pli_unit *unit,
                                  enum psti_pli_mode mode, struct pst_error *err)
{
    size_t pixel_nbytes = (size_t)unit->channels * (unit->bits / 8u);
    size_t n_pixels = (size_t)unit->height * unit->width;
    size_t expected = mode == PSTI_PLI_RAW ? n_pixels * pixel_nbytes : pixel_nbytes;
    if (unit->nbytes != expected)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "%s unit of %zu bytes instead of %zu",
                         mode == PSTI_PLI_RAW ? "raw" : "constant", unit->nbytes, expected);
    if (mode == PSTI_PLI_RAW) {
        memcpy(run->samples, unit->bytes, expected);
        return PST_OK;
    }
    memcpy(run->samples, unit->bytes, pixel_nbytes);
    /* Each copy doubles the filled part, which makes the copies long. */
    for (size_t done = pixel_nbytes, total = n_pixels * pixel_nbytes; done < total;) {
        size_t n = done < total - done ? done : total - done;
        memcpy(run->samples + done, run->samples, n);
        done += n;
    }
    return PST_OK;
}

static enum pst_status decode_unit(struct run *run, const struct psti_pli_unit *unit, uint8_t mode,
                                   const struct psti_pli_part *part, struct pst_error *err)
{
    struct psti_pli_planes planes;
    enum pst_status status;
    if ((mode == PSTI_PLI_PACKED || mode == PSTI_PLI_WAVE) &&
        run->request.header.unit_log2 != PSTI_PLI_UNIT_LOG2_MIN)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "mode %u in units larger than 64", mode);
    switch (mode) {
    case PSTI_PLI_RAW:
    case PSTI_PLI_CONSTANT:
        status = plain_unit(run, unit, mode, err);
        break;
    case PSTI_PLI_PACKED:
        /* Without a checksum the bytes of the unit have not been read yet, so they are
         * prefetched. */
        if (!run->request.header.has_checksums)
            for (size_t at = 0; at < unit->nbytes; at += 64)
                __builtin_prefetch(unit->bytes + at);
        status = psti_pli_packed_decode(unit, run->work, part, &planes, err);
        if (status == PST_OK && !planes.base)
            return PST_OK;
        break;
    case PSTI_PLI_WAVE:
        status = wave_tables(run, err);
        if (status == PST_OK)
            status = psti_pli_wave_decode(unit, run->tables, run->work, &planes, err);
        break;
    case PSTI_PLI_LZ:
        return psti_pli_lz_decode(unit, run->lz_tables, run->samples, run->work, part, err);
    default:
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "mode %u is not known", mode);
    }
    if (status != PST_OK)
        return status;
    if (mode == PSTI_PLI_PACKED || mode == PSTI_PLI_WAVE)
        psti_pli_emit_planes(unit, &planes, part);
    else
        psti_pli_emit_pixels(unit, run->samples, part);
    return PST_OK;
}

/* Sets the memory that kernels prefetch for the unit's pixels. It is the destination of the pixels
 * if the part is the whole unit, 64 pixels wide, with all channels, planar or interleaved.
 * Otherwise it is the unit's own bytes: prefetching these costs nothing, because they are in the
 * cache already. */
static void set_pixels(struct psti_pli_unit *unit, const struct psti_pli_part *part)
{
    const struct pst_pixels *pixels = part->pixels;
    int64_t sample_nbytes = unit->bits / 8, row = sample_nbytes * unit->width;
    bool is_planar = pixels->pixel_nbytes == sample_nbytes;
    bool is_interleaved = pixels->channel_nbytes == sample_nbytes &&
                          pixels->pixel_nbytes == sample_nbytes * unit->channels;
    unit->pixels = unit->bytes;
    if (part->height != unit->height || part->width != PREFETCH_WIDTH || part->channel >= 0 ||
        !(is_planar || is_interleaved))
        return;
    unit->pixels = pixels->data;
    unit->row_nbytes = pixels->row_nbytes;
    unit->plane_nbytes = is_interleaved ? row : pixels->channel_nbytes;
}

/* A unit and the part of it that the region covers. `part` points to `pixels` of the same struct,
 * so the struct must not be copied. */
struct placed {
    struct psti_pli_unit unit;
    struct pst_pixels pixels;
    struct psti_pli_part part;
};

/* Describes unit (row, column) and its part of the region. The unit's bytes have been checked. */
static void place_unit(const struct psti_pli_request *request, uint32_t row, uint32_t column,
                       const uint8_t *bytes, size_t nbytes, struct placed *p)
{
    const struct psti_pli_header *h = &request->header;
    const struct pst_pli_region *r = &request->region;
    uint32_t edge = psti_pli_edge(h);
    uint32_t y = row << h->unit_log2, x = column << h->unit_log2;
    p->unit = (struct psti_pli_unit){
        .height = h->height - y < edge ? h->height - y : edge,
        .width = h->width - x < edge ? h->width - x : edge,
        .channels = h->channels,
        .bits = h->bits,
        .transform = h->transform,
        .max_error = h->max_error,
        .kernels = request->kernels,
        .bytes = bytes + 1,
        .nbytes = nbytes - 1,
        .nbytes_behind = (size_t)(request->bytes + request->nbytes - (bytes + nbytes)),
    };
    uint32_t y0 = r->y > y ? r->y : y, x0 = r->x > x ? r->x : x;
    uint32_t y1 = r->y + r->height < y + p->unit.height ? r->y + r->height : y + p->unit.height;
    uint32_t x1 = r->x + r->width < x + p->unit.width ? r->x + r->width : x + p->unit.width;
    /* The first row that `pixels` hold: the region's first row, or, with bands, the first row of
     * this row of units. */
    uint32_t top = request->band ? y0 : r->y;
    p->pixels = *request->pixels;
    p->pixels.data = (uint8_t *)p->pixels.data + (int64_t)(y0 - top) * p->pixels.row_nbytes +
                     (int64_t)(x0 - r->x) * p->pixels.pixel_nbytes;
    p->part =
        (struct psti_pli_part){y0 - y, x0 - x, y1 - y0, x1 - x0, request->channel, &p->pixels};
    set_pixels(&p->unit, &p->part);
}

static enum pst_status check_unit(const struct psti_pli_request *request, uint64_t offset,
                                  struct psti_pli_entry entry, struct pst_error *err)
{
    return psti_pli_check_unit(&request->header, request->bytes, request->nbytes, offset, entry,
                               true, err);
}

/* A unit to decode and its place in the file. */
struct found {
    uint32_t row, column;
    uint64_t offset;
    struct psti_pli_entry entry;
};

/* Checks and decodes a unit. */
static enum pst_status one_unit(struct run *run, const struct found *u, struct pst_error *err)
{
    const struct psti_pli_request *request = &run->request;
    struct placed p;
    enum pst_status status = check_unit(request, u->offset, u->entry, err);
    if (status == PST_OK) {
        const uint8_t *bytes = request->bytes + u->offset;
        place_unit(request, u->row, u->column, bytes, u->entry.nbytes, &p);
        status = decode_unit(run, &p.unit, bytes[0], &p.part, err);
    }
    return status == PST_OK ? PST_OK
                            : psti_pli_unit_failed(u->row, u->column, u->offset, status, err);
}

static bool is_wave(const struct psti_pli_request *request, const struct found *u)
{
    return u->entry.nbytes > 0 && psti_range_fits(u->offset, u->entry.nbytes, request->nbytes) &&
           request->bytes[u->offset] == PSTI_PLI_WAVE;
}

/* Units that are decoded together, in the order of the file. If there are several, all are of mode
 * wave. */
struct group {
    uint32_t n_units;
    struct found units[PSTI_PLI_WAVE_MOST_UNITS];
};

/* Checks and places all units of a group, and prepares the tables of waves. Returns false if a unit
 * or the tables are damaged. */
static bool place_group(struct run *run, const struct group *g, struct placed *p)
{
    const struct psti_pli_request *request = &run->request;
    for (uint32_t u = 0; u < g->n_units; u++)
        if (check_unit(request, g->units[u].offset, g->units[u].entry, NULL) != PST_OK)
            return false;
    for (uint32_t u = 0; u < g->n_units; u++) {
        const struct found *f = g->units + u;
        place_unit(request, f->row, f->column, request->bytes + f->offset, f->entry.nbytes, p + u);
    }
    return wave_tables(run, NULL) == PST_OK;
}

/* Decodes two to six units together, if the level can. Returns false if no unit was decoded. The
 * caller then tries smaller groups, and finally single units, which also reports the error of a
 * damaged unit. */
static bool decode_group(struct run *run, const struct group *g, enum pst_status *status,
                         struct pst_error *err)
{
    struct placed p[PSTI_PLI_WAVE_MOST_UNITS];
    struct psti_pli_unit units[PSTI_PLI_WAVE_MOST_UNITS];
    struct psti_pli_planes planes[PSTI_PLI_WAVE_MOST_UNITS];
    enum pst_status statuses[PSTI_PLI_WAVE_MOST_UNITS];
    if (!place_group(run, g, p))
        return false;
    for (uint32_t u = 0; u < g->n_units; u++)
        units[u] = p[u].unit;
    if (!psti_pli_wave_decode_some(units, g->n_units, run->tables, run->work, planes, statuses,
                                   err))
        return false;
    *status = PST_OK;
    for (uint32_t u = 0; u < g->n_units && *status == PST_OK; u++) {
        const struct found *f = g->units + u;
        if (statuses[u] == PST_OK)
            psti_pli_emit_planes(&p[u].unit, planes + u, &p[u].part);
        else
            *status = psti_pli_unit_failed(f->row, f->column, f->offset, statuses[u], err);
    }
    return true;
}

/* Returns the first unit, from unit `u` on, that the region touches. The search begins at u.row,
 * u.column and u.offset. */
static struct found find_unit(const struct run *run, const struct psti_pli_span *span,
                              struct found u)
{
    const struct psti_pli_header *h = &run->request.header;
    uint32_t columns = psti_pli_unit_columns(h);
    for (; u.row < span->row1; u.row++, u.column = 0)
        for (; u.column < columns; u.column++) {
            u.entry = psti_pli_parse_entry(run->request.bytes, h, u.row * columns + u.column);
            if (u.row >= span->row0 && u.column >= span->column0 && u.column < span->column1)
                return u;
            u.offset += u.entry.nbytes;
        }
    return u;
}
static struct found unit_after(const struct run *run, const struct psti_pli_span *span,
                               struct found u)
{
    u.column++;
    u.offset += u.entry.nbytes;
    return find_unit(run, span, u);
}

/* Returns whether a unit of row `a` and a unit of row `b` may be decoded together. They may if both
 * rows are the same, or if row `b` has full height and the caller did not ask for bands. */
static bool rows_go_together(const struct psti_pli_request *request, uint32_t a, uint32_t b)
{
    uint32_t whole = request->header.height >> request->header.unit_log2;
    return a == b || (!request->band && b < whole);
}

/* Decodes one or more units, starting with `first`. Returns the next unit to decode. */
static struct found next_units(struct run *run, const struct psti_pli_span *span,
                               struct found first, enum pst_status *status, struct pst_error *err)
{
    const struct psti_pli_request *request = &run->request;
    const struct psti_pli_header *h = &request->header;
    uint32_t most = 1;
    struct group g = {1, {first}};
    if (h->unit_log2 == PSTI_PLI_UNIT_LOG2_MIN && is_wave(request, &first))
        most = psti_pli_wave_most_units(request->kernels, h->bits);
    while (g.n_units < most) {
        struct found u = unit_after(run, span, g.units[g.n_units - 1]);
        if (u.row == span->row1 || !rows_go_together(request, first.row, u.row) ||
            !is_wave(request, &u))
            break;
        g.units[g.n_units++] = u;
    }
    for (; g.n_units > 1; g.n_units -= g.n_units / 2)
        if (decode_group(run, &g, status, err))
            return unit_after(run, span, g.units[g.n_units - 1]);
    *status = one_unit(run, &first, err);
    return unit_after(run, span, first);
}

/* Calls the band's callback: the region's part of this row of units is decoded. */
static enum pst_status end_row(const struct psti_pli_request *request, uint32_t row)
{
    const struct pst_pli_region *r = &request->region;
    uint32_t y0 = row << request->header.unit_log2, y1 = y0 + psti_pli_edge(&request->header);
    if (!request->band)
        return PST_OK;
    y0 = y0 > r->y ? y0 : r->y;
    y1 = y1 < r->y + r->height ? y1 : r->y + r->height;
    return request->band(request->band_ctx, y0 - r->y, y1 - y0);
}

static enum pst_status decode_units(struct run *run, struct pst_error *err)
{
    const struct psti_pli_header *h = &run->request.header;
    struct psti_pli_span span = touched(h, &run->request.region);
    struct found u = {.offset = psti_pli_head_nbytes(h)};
    enum pst_status status = PST_OK;
    for (u = find_unit(run, &span, u); u.row < span.row1 && status == PST_OK;) {
        uint32_t row = u.row;
        u = next_units(run, &span, u, &status, err);
        if (status == PST_OK && u.row > row)
            status = end_row(&run->request, row);
    }
    return status;
}

static enum pst_status check_scratch(struct psti_pli_request *request, size_t nbytes,
                                     struct pst_error *err)
{
    const uint32_t width = request->region.width;
    /* Bands are decoded for callers within the library, who may have little memory. */
    size_t needed = request->band ? psti_pli_region_scratch_least(&request->header, width)
                                  : psti_pli_region_scratch_nbytes(&request->header, width);
    request->scratch_nbytes = nbytes;
    if ((uintptr_t)request->scratch % 64 == 0 && nbytes >= needed)
        return PST_OK;
    psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
              "scratch of %zu bytes; %zu bytes aligned to 64 are needed", nbytes, needed);
    return psti_pli_failed(PST_ERROR_ARGUMENT, err);
}

static enum pst_status check_scale(const struct psti_pli_request *request, struct pst_error *err)
{
    uint32_t most = request->header.content == PST_PLI_CONTENT_JPEG ? 3 : 0;
    if (request->scale_log2 <= most)
        return PST_OK;
    psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "the scale given does not fit the image: 2^-%u",
              request->scale_log2);
    return psti_pli_failed(PST_ERROR_ARGUMENT, err);
}

/* Decodes all units of content 1 that the region touches. Bytes after the last unit are an error. A
 * bad model is an error even if no unit of the region needs it. */
static enum pst_status decode_pixels(const struct psti_pli_request *request, struct pst_error *err)
{
    uint8_t *tables = request->scratch + PSTI_PLI_WORK_NBYTES;
    uint8_t *lz_tables = tables + PSTI_PLI_TABLES_NBYTES;
    struct run run = {
        .request = *request,
        .work = request->scratch,
        .tables_memory = tables,
        .lz_tables = (struct psti_pli_lz_tables *)lz_tables,
        .samples = lz_tables + PSTI_PLI_LZ_TABLES_NBYTES,
    };
    enum pst_status status =
        psti_pli_check_end(request->bytes, request->nbytes, &request->header, 0, err);
    if (status == PST_OK && request->header.model_nbytes > 0)
        status = wave_tables(&run, err);
    if (status != PST_OK)
        return psti_pli_failed(status, err);
    psti_pli_lz_begin(run.lz_tables);
    return decode_units(&run, err);
}

/* The decode of a whole image whose rows go to the caller's band function and are hashed before. */
struct hashed {
    struct psti_hash_state state;
    const struct pst_pixels *pixels;
    psti_pli_band band;
    void *ctx;
};

static enum pst_status hash_band(void *ctx, uint32_t y, uint32_t n_rows)
{
    struct hashed *hashed = ctx;
    psti_pli_hash_rows(hashed->pixels, n_rows, &hashed->state);
    return hashed->band(hashed->ctx, y, n_rows);
}

/* Returns whether only the checksum of the pixels can prove that all pixels are right. */
static bool needs_proof(const struct psti_pli_request *request)
{
    const struct psti_pli_header *h = &request->header;
    return !h->has_checksums && !request->unproven && request->scale_log2 == 0 &&
           request->region.height == h->height && request->region.width == h->width &&
           request->pixels->channels == h->channels;
}

static enum pst_status decode_units_of(const struct psti_pli_request *request,
                                       struct pst_error *err)
{
    return request->header.content == PST_PLI_CONTENT_JPEG ? psti_pli_jpeg_decode(request, err)
                                                           : decode_pixels(request, err);
}

static enum pst_status decode_proven(struct psti_pli_request *request, struct pst_error *err)
{
    struct hashed hashed = {
        .pixels = request->pixels, .band = request->band, .ctx = request->band_ctx};
    psti_hash_begin(&hashed.state);
    if (request->band) {
        request->band = hash_band;
        request->band_ctx = &hashed;
    }
    enum pst_status status = decode_units_of(request, err);
    if (status != PST_OK)
        return status;
    if (!request->band)
        psti_pli_hash_rows(request->pixels, request->pixels->height, &hashed.state);
    return psti_pli_compare_pixels(&hashed.state, &request->header, err);
}

/* Checks head, scale, region, pixels and scratch. Then decodes the units. */
static enum pst_status decode(struct psti_pli_request *request,
                              const struct psti_pli_header *header,
                              const struct pst_pli_region *region, size_t scratch_nbytes,
                              struct pst_error *err)
{
    enum pst_status status =
        read_head(header, request->bytes, request->nbytes, &request->header, err);
    if (status == PST_OK)
        status = check_scale(request, err);
    if (status == PST_OK)
        status = check_region(&request->header, request->scale_log2, region, &request->region, err);
    if (status == PST_OK)
        status = check_pixels(request, err);
    if (status == PST_OK)
        status = check_scratch(request, scratch_nbytes, err);
    if (status != PST_OK)
        return status;
    return needs_proof(request) ? decode_proven(request, err) : decode_units_of(request, err);
}

static struct psti_pli_request all_channels(const void *bytes, size_t nbytes,
                                            const struct pst_pixels *pixels, void *scratch,
                                            psti_pli_band band, void *band_ctx)
{
    return (struct psti_pli_request){.bytes = bytes,
                                     .nbytes = nbytes,
                                     .channel = -1,
                                     .pixels = pixels,
                                     .scratch = scratch,
                                     .kernels = psti_pli_kernels_of(psti_cpu_features()),
                                     .band = band,
                                     .band_ctx = band_ctx};
}

enum pst_status psti_pli_decode_bands(const struct psti_pli_header *header, const void *bytes,
                                      size_t nbytes, const struct pst_pli_region *region,
                                      const struct pst_pixels *pixels, void *scratch,
                                      size_t scratch_nbytes, psti_pli_band band, void *ctx,
                                      struct pst_error *err)
{
    struct psti_pli_request request = all_channels(bytes, nbytes, pixels, scratch, band, ctx);
    return decode(&request, header, region, scratch_nbytes, err);
}

enum pst_status psti_pli_jpeg_decode_both(const void *bytes, size_t nbytes,
                                          const struct psti_jpeg_frame *frame,
                                          int16_t *const coefs[], const struct pst_pixels *pixels,
                                          void *scratch, size_t scratch_nbytes, psti_pli_band band,
                                          void *band_ctx, struct pst_error *err)
{
    struct psti_jpeg_frame own;
    struct psti_pli_request request = all_channels(bytes, nbytes, pixels, scratch, band, band_ctx);
    request.coefs = coefs;
    request.unproven = true;
    enum pst_status status = psti_pli_jpeg_frame(bytes, nbytes, &own, err);
    if (status == PST_OK)
        status = psti_pli_jpeg_check_coefs(&own, frame, err);
    return status == PST_OK ? decode(&request, NULL, NULL, scratch_nbytes, err) : status;
}

enum pst_status psti_pli_jpeg_decode_scaled(const struct psti_pli_header *header, const void *bytes,
                                            size_t nbytes, uint32_t scale_log2,
                                            const struct pst_pli_region *region,
                                            const struct pst_pixels *pixels, void *scratch,
                                            size_t scratch_nbytes, psti_pli_band band,
                                            void *band_ctx, struct pst_error *err)
{
    struct psti_pli_request request = all_channels(bytes, nbytes, pixels, scratch, band, band_ctx);
    request.scale_log2 = scale_log2;
    return decode(&request, header, region, scratch_nbytes, err);
}

enum pst_status pst_pli_decode(const void *bytes, size_t nbytes,
                               const struct pst_pli_region *region, int channel,
                               const struct pst_pixels *pixels, void *scratch,
                               size_t scratch_nbytes, struct pst_error *err)
{
    struct psti_pli_request request = {
        .bytes = bytes,
        .nbytes = nbytes,
        .channel = channel,
        .pixels = pixels,
        .scratch = scratch,
        .kernels = psti_pli_kernels_of(psti_cpu_features()),
    };
    return decode(&request, NULL, region, scratch_nbytes, err);
}

enum pst_status psti_pli_decode_on(uint32_t cpu, const void *bytes, size_t nbytes,
                                   const struct pst_pli_region *region, int channel,
                                   const struct pst_pixels *pixels, void *scratch,
                                   size_t scratch_nbytes, struct pst_error *err)
{
    return psti_pli_decode_with(psti_pli_kernels_of(cpu), bytes, nbytes, region, channel, pixels,
                                scratch, scratch_nbytes, err);
}

enum pst_status psti_pli_decode_with(const struct psti_pli_kernels *kernels, const void *bytes,
                                     size_t nbytes, const struct pst_pli_region *region,
                                     int channel, const struct pst_pixels *pixels, void *scratch,
                                     size_t scratch_nbytes, struct pst_error *err)
{
    struct psti_pli_request request = {
        .bytes = bytes,
        .nbytes = nbytes,
        .channel = channel,
        .pixels = pixels,
        .scratch = scratch,
        .kernels = kernels,
        .unproven = true,
    };
    return decode(&request, NULL, region, scratch_nbytes, err);
}

enum pst_status pst_pli_ranges(const void *bytes, size_t nbytes,
                               const struct pst_pli_region *region, struct pst_pli_range *ranges,
                               size_t capacity, size_t *n, struct pst_error *err)
{
    struct psti_pli_header header;
    enum pst_status status = read_head(NULL, bytes, nbytes, &header, err);
    return status == PST_OK ? psti_pli_find_ranges(&header, bytes, region, ranges, capacity, n, err)
                            : status;
}

enum pst_status psti_pli_find_ranges(const struct psti_pli_header *header, const void *bytes,
                                     const struct pst_pli_region *region,
                                     struct pst_pli_range *ranges, size_t capacity, size_t *n,
                                     struct pst_error *err)
{
    struct pst_pli_region whole;
    struct psti_pli_span span;
    enum pst_status status = check_region(header, 0, region, &whole, err);
    if (status == PST_OK)
        status = find_span(bytes, header, 0, &whole, &span, err);
    if (status != PST_OK)
        return status;
    uint32_t columns = psti_pli_unit_columns(header);
    struct pst_pli_range now = {psti_pli_head_nbytes(header), 0};
    size_t count = 0;
    for (uint32_t u = 0; u < span.row1 * columns; u++) {
        uint64_t unit_nbytes = psti_pli_parse_entry(bytes, header, u).nbytes;
        if (u / columns >= span.row0 && u % columns >= span.column0 && u % columns < span.column1) {
            now.nbytes += unit_nbytes;
            continue;
        }
        if (now.nbytes > 0 && count++ < capacity)
            ranges[count - 1] = now;
        now = (struct pst_pli_range){now.offset + now.nbytes + unit_nbytes, 0};
    }
    if (now.nbytes > 0 && count++ < capacity)
        ranges[count - 1] = now;
    *n = count;
    return PST_OK;
}
