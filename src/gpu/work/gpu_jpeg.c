/* gpu_jpeg.c - the host's part of decoding JPEGs kept as PLI on a GPU. It turns a stored image and
 * the wanted region into lists of units and tiles, copies the units' bytes to the upload, and makes
 * tables in the lanes' layout.
 *
 * The functions are pure; any thread may call them. Head, frame and tables are checked as the
 * CPU's decoder checks them (format-pli.md 11). Of each unit the presence, the checksum and the
 * mode are checked. Kernels trust descriptors, never a unit's bytes. */
#include "gpu/work/gpu_jpeg.h"

#include "base/bits.h"
#include "base/fail.h"

#include <string.h>

#define ROOM "gpu"

enum {
    HISTORY = 16, /* entries in the ring of each block's last tokens */
    STATES_NBYTES = 16 + 64
};

_Static_assert((int)PSTI_GPU_COEFS_STAGES % 16 == 0 && (int)PSTI_GPU_COEFS_NEAR % 64 == 0,
               "what follows is aligned");

/* ---- Tables */

/* Fills a table with space for n entries. */
static void fill_entries(const uint16_t *freqs, uint32_t n_tokens, uint32_t n, uint32_t *entries)
{
    uint32_t begin = 0;
    for (uint32_t t = 0; t < n; t++) {
        uint32_t freq = t < n_tokens ? freqs[t] : 0;
        entries[t] = begin | freq << 16;
        begin += freq;
    }
}

void psti_gpu_jpeg_tables_write(const struct psti_jpeg_tables *tables,
                                struct psti_gpu_jpeg_tables *to)
{
    for (uint32_t c = 0; c < PSTI_JPEG_N_AC_CONTEXTS; c++) {
        fill_entries(tables->ac[c], PSTI_JPEG_N_AC_TOKENS, PSTI_JPEG_N_AC_TOKENS, to->ac[c]);
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t low = to->ac[c][2 * i + 1] & 0xffff;
            uint32_t high = i < 3 ? to->ac[c][2 * i + 2] & 0xffff : 0x7fff;
            to->ac_bounds[c][i] = low | high << 16;
        }
    }
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t c = 0; c < PSTI_JPEG_N_ENDS; c++) {
            fill_entries(tables->ends[side][c], PSTI_JPEG_N_ENDS, 16, to->ends[side][c]);
            fill_entries(tables->dc[side][c], PSTI_JPEG_N_DC_TOKENS, 16, to->dc[side][c]);
        }
}

/* The features of a coefficient are at most HISTORY coefficients earlier. A feature that is named
 * twice counts twice. */
static void fill_weights(uint32_t k, uint32_t side, uint32_t words[4])
{
    uint8_t bytes[HISTORY] = {0};
    for (uint32_t i = 0; i < PSTI_JPEG_N_FEATURES; i++) {
        uint32_t earlier = psti_jpeg_features[k][i];
        if (earlier > 0)
            bytes[earlier % HISTORY] =
                (uint8_t)(bytes[earlier % HISTORY] + psti_jpeg_weights[side][k][i]);
    }
    for (uint32_t i = 0; i < 4; i++)
        words[i] = psti_load_u32(bytes + 4 * (size_t)i);
}

void psti_gpu_jpeg_constants_write(struct psti_gpu_jpeg_constants *to)
{
    *to = (struct psti_gpu_jpeg_constants){.reserved = {0}};
    psti_gpu_jpeg_tables_write(&psti_jpeg_builtin, &to->tables);
    for (uint32_t k = 0; k < 64; k++) {
        uint32_t row = psti_jpeg_zigzag[k] / 8, column = psti_jpeg_zigzag[k] % 8;
        for (uint32_t side = 0; side < 2; side++) {
            fill_weights(k, side, to->weights[k][side]);
            to->biases[k][side] = psti_jpeg_biases[side][k];
        }
        to->zigzag[column][row / 4] |= k << (8 * (row % 4));
        to->diagonals[k] = (uint8_t)(row + column);
    }
    for (uint32_t x = 0, bucket = 0; x < 128; x++) {
        while (bucket < PSTI_JPEG_N_LIMITS && psti_jpeg_limits[bucket] <= x)
            bucket++;
        to->buckets[x / 4] |= bucket << (8 * (x % 4));
    }
}

/* ---- Units of a region */

struct unit {
    uint32_t row, column;
    const uint8_t *bytes;
    uint64_t offset; /* offset of the unit in the file */
    struct psti_pli_entry entry;
};

/* Finds the next unit that the plan needs, from unit number *next on, and advances *next. *offset
 * is the offset in the file of unit *next. Returns false if no further unit is needed. */
static bool next_unit(const struct psti_gpu_jpeg_plan *plan, const uint8_t *bytes, uint32_t *next,
                      uint64_t *offset, struct unit *unit)
{
    const struct psti_pli_header *h = &plan->header;
    uint32_t columns = psti_pli_unit_columns(h), end = plan->span.row1 * columns;
    while (*next < end) {
        uint32_t number = (*next)++;
        *unit = (struct unit){.row = number / columns,
                              .column = number % columns,
                              .bytes = bytes + *offset,
                              .offset = *offset,
                              .entry = psti_pli_parse_entry(bytes, h, number)};
        *offset += unit->entry.nbytes;
        if (unit->row >= plan->span.row0 && unit->column >= plan->span.column0 &&
            unit->column < plan->span.column1)
            return true;
    }
    return false;
}

/* Returns the offset of a unit's words, counted from its mode (format-pli.md 8.1). Returns 0 if the
 * parts before them are cut off; then the kernel rejects the unit. */
static uint32_t words_offset(const uint8_t *unit, uint32_t nbytes)
{
    const uint8_t *at = unit + 1;
    uint32_t raw_nbytes;
    if (!psti_pli_take_number(&at, unit + nbytes, &raw_nbytes))
        return 0;
    return (uint32_t)(at - unit) + STATES_NBYTES + raw_nbytes;
}

/* Returns the offset at which a unit is stored. Units are stored one after another. A byte of
 * padding is added where a unit's words would begin at an odd address. */
static uint64_t place_unit(const struct unit *unit, uint64_t at)
{
    return at + ((at + words_offset(unit->bytes, unit->entry.nbytes)) & 1);
}

static enum pst_status check_unit(const struct psti_gpu_jpeg_plan *plan, const uint8_t *bytes,
                                  size_t nbytes, const struct unit *unit, bool is_checked,
                                  struct pst_error *err)
{
    enum pst_status status = psti_pli_check_unit(&plan->header, bytes, nbytes, unit->offset,
                                                 unit->entry, is_checked, err);
    if (status == PST_OK && unit->bytes[0] != PSTI_PLI_COEFS)
        status = psti_fail(err, PST_ERROR_CORRUPT, ROOM, "mode %u, where only coefficients may be",
                           unit->bytes[0]);
    return status == PST_OK
               ? PST_OK
               : psti_pli_unit_failed(unit->row, unit->column, unit->offset, status, err);
}

static enum pst_status plan_units(const uint8_t *bytes, size_t nbytes, bool is_checked,
                                  struct psti_gpu_jpeg_plan *plan, struct pst_error *err)
{
    uint64_t offset = psti_pli_head_nbytes(&plan->header), at = 0;
    struct unit unit;
    for (uint32_t next = 0; next_unit(plan, bytes, &next, &offset, &unit);) {
        enum pst_status status = check_unit(plan, bytes, nbytes, &unit, is_checked, err);
        if (status != PST_OK)
            return status;
        at = place_unit(&unit, at) + unit.entry.nbytes;
        plan->n_units++;
    }
    if (at > UINT32_MAX - PSTI_GPU_JPEG_ALIGN)
        return psti_pli_failed(psti_fail(err, PST_ERROR_LIMIT, ROOM,
                                         "units of more than 4 GiB are decoded on the CPU"),
                               err);
    plan->upload_nbytes = psti_round_up(at, PSTI_GPU_JPEG_ALIGN);
    return PST_OK;
}

/* ---- Planes of samples, and tiles of pixels */

static uint32_t stride_of(const struct psti_pli_jpeg_need *need)
{
    return (uint32_t)psti_round_up((size_t)8 * (need->column1 - need->column0),
                                   PSTI_GPU_JPEG_ALIGN);
}

static uint64_t plane_nbytes(const struct psti_pli_jpeg_need *need)
{
    return (uint64_t)stride_of(need) * 8 * (need->row1 - need->row0);
}

/* Tiles begin at even columns of the image. */
static uint32_t tiles_across(const struct pst_pli_region *r)
{
    return (r->x % 2 + r->width - 1) / PSTI_GPU_JPEG_TILE_COLUMNS + 1;
}

static uint32_t tiles_down(const struct pst_pli_region *r)
{
    return (r->height - 1) / PSTI_GPU_JPEG_TILE_ROWS + 1;
}

static void plan_area(struct psti_gpu_jpeg_plan *plan)
{
    const struct psti_jpeg_frame *frame = &plan->frame;
    struct psti_jpeg_square squares[PSTI_JPEG_SQUARES_MAX];
    uint8_t log2 = plan->header.unit_log2;
    psti_pli_jpeg_find_needs(frame, 8, &plan->region, plan->needs);
    plan->span = psti_pli_jpeg_find_span(frame, log2, plan->needs);
    plan->n_tiles = tiles_across(&plan->region) * tiles_down(&plan->region);
    /* No unit has more squares than the first one, so its number is used for all. */
    plan->n_places = 64 * psti_pli_jpeg_squares(frame, log2, 0, 0, squares);
    for (uint32_t i = 0; i < frame->n_components; i++)
        plan->samples_nbytes += plane_nbytes(&plan->needs[i]);
}

/* ---- The plan */

static enum pst_status check_region(const struct psti_pli_header *header,
                                    const struct pst_pli_region *given,
                                    struct pst_pli_region *region, struct pst_error *err)
{
    *region = given ? *given : (struct pst_pli_region){0, 0, header->height, header->width};
    if (region->height == 0 || region->width == 0 || region->y >= header->height ||
        region->height > header->height - region->y || region->x >= header->width ||
        region->width > header->width - region->x)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                         "region y=%u x=%u height=%u width=%u is not within an image of %ux%u "
                         "pixels",
                         region->y, region->x, region->height, region->width, header->height,
                         header->width);
    return PST_OK;
}

/* Reads the frame and the tables from the PLI's model block. */
static enum pst_status read_model(const void *bytes, struct psti_gpu_jpeg_plan *plan,
                                  struct pst_error *err)
{
    const struct psti_pli_header *h = &plan->header;
    const uint8_t *block;
    size_t nbytes;
    enum pst_status status =
        psti_pli_find_model(bytes, h, PSTI_PLI_MODEL_FRAME, &block, &nbytes, err);
    if (status == PST_OK)
        status = psti_pli_jpeg_parse_frame(block, nbytes, h, &plan->frame, err);
    if (status == PST_OK)
        status = psti_pli_find_model(bytes, h, PSTI_PLI_MODEL_COEFS, &block, &nbytes, err);
    plan->has_tables = status == PST_OK && block != NULL;
    return status == PST_OK ? psti_pli_jpeg_parse_tables(block, nbytes, &plan->tables, err)
                            : status;
}

enum pst_status psti_gpu_jpeg_plan(const void *bytes, size_t nbytes,
                                   const struct psti_pli_header *header,
                                   const struct pst_pli_region *region, bool is_checked,
                                   struct psti_gpu_jpeg_plan *plan, struct pst_error *err)
{
    plan->n_units = 0;
    plan->samples_nbytes = 0;
    enum pst_status status = PST_OK;
    if (header)
        plan->header = *header;
    else
        status = psti_pli_parse_header(bytes, nbytes, &plan->header, err);
    if (status == PST_OK && plan->header.content != PST_PLI_CONTENT_JPEG)
        status = psti_fail(err, PST_ERROR_UNSUPPORTED, ROOM, "the PLI holds pixels, not a JPEG");
    if (status == PST_OK)
        status = psti_pli_check_head(bytes, nbytes, &plan->header, err);
    if (status == PST_OK)
        status = check_region(&plan->header, region, &plan->region, err);
    if (status == PST_OK)
        status = read_model(bytes, plan, err);
    if (status == PST_OK)
        status =
            psti_pli_check_end(bytes, nbytes, &plan->header, plan->frame.restoration_nbytes, err);
    if (status != PST_OK)
        return psti_pli_failed(status, err);
    plan_area(plan);
    return plan_units(bytes, nbytes, is_checked, plan, err);
}

/* ---- Descriptors */

static void fill_component(const struct psti_gpu_jpeg_plan *plan, uint32_t i, uint64_t samples,
                           struct psti_gpu_jpeg_component *to)
{
    const struct psti_jpeg_component *c = &plan->frame.components[i];
    const struct psti_pli_jpeg_need *need = &plan->needs[i];
    uint32_t blocks = 1u << (plan->header.unit_log2 - 3);
    *to = (struct psti_gpu_jpeg_component){
        .samples = samples,
        .stride = stride_of(need),
        .width = c->width,
        .height = c->height,
        .column0 = (uint16_t)need->column0,
        .column1 = (uint16_t)need->column1,
        .row0 = (uint16_t)need->row0,
        .row1 = (uint16_t)need->row1,
        .columns = (uint16_t)c->columns,
        .rows = (uint16_t)c->rows,
        .unit_columns = (uint8_t)(blocks >> need->across_log2),
        .unit_rows = (uint8_t)(blocks >> need->down_log2),
        .across_log2 = need->across_log2,
        .down_log2 = need->down_log2,
        .is_sideways = need->sideways,
        .is_upright = need->upright,
        .side = plan->frame.transform == PSTI_PLI_YCBCR && i > 0,
    };
}

static void fill_quants(const uint16_t *values, uint32_t quants[8][4])
{
    for (uint32_t k = 0; k < 64; k++) {
        uint32_t row = psti_jpeg_zigzag[k] / 8, column = psti_jpeg_zigzag[k] % 8;
        quants[column][row / 2] |= (uint32_t)values[k] << (16 * (row % 2));
    }
}

static void fill_image(const struct psti_gpu_jpeg_plan *plan, uint64_t samples,
                       struct psti_gpu_jpeg_image *image)
{
    const struct psti_jpeg_frame *frame = &plan->frame;
    const struct pst_pli_region *r = &plan->region;
    image->width = (uint16_t)frame->width;
    image->height = (uint16_t)frame->height;
    image->y0 = (uint16_t)r->y;
    image->x0 = (uint16_t)r->x;
    image->y1 = (uint16_t)(r->y + r->height);
    image->x1 = (uint16_t)(r->x + r->width);
    image->n_components = frame->n_components;
    image->transform = frame->transform;
    image->units_across = psti_pli_unit_columns(&plan->header);
    memset(image->quants, 0, sizeof image->quants);
    for (uint32_t i = 0; i < frame->n_components; i++) {
        fill_component(plan, i, samples, &image->components[i]);
        fill_quants(frame->quants[frame->components[i].quant], image->quants[i]);
        samples += plane_nbytes(&plan->needs[i]);
    }
}

static void fill_tiles(const struct psti_gpu_jpeg_plan *plan, uint32_t image,
                       struct psti_gpu_jpeg_tile *tiles)
{
    const struct pst_pli_region *r = &plan->region;
    uint32_t columns = tiles_across(r);
    for (uint32_t i = 0; i < plan->n_tiles; i++) {
        uint32_t y = r->y + i / columns * PSTI_GPU_JPEG_TILE_ROWS;
        uint32_t x = (r->x & ~1u) + i % columns * PSTI_GPU_JPEG_TILE_COLUMNS;
        tiles[i] = (struct psti_gpu_jpeg_tile){image, (uint16_t)y, (uint16_t)x};
    }
}

void psti_gpu_jpeg_fill(const struct psti_gpu_jpeg_plan *plan, const void *bytes,
                        const struct psti_gpu_jpeg_place *place, struct psti_gpu_jpeg_image *image)
{
    uint64_t offset = psti_pli_head_nbytes(&plan->header), at = 0;
    struct psti_gpu_jpeg_unit *to = place->units;
    struct unit unit;
    for (uint32_t next = 0; next_unit(plan, bytes, &next, &offset, &unit); to++) {
        at = place_unit(&unit, at);
        *to = (struct psti_gpu_jpeg_unit){.image = place->image,
                                          .offset = (uint32_t)at,
                                          .nbytes = unit.entry.nbytes,
                                          .unit_y = (uint16_t)unit.row,
                                          .unit_x = (uint16_t)unit.column};
        memcpy(place->bytes + at, unit.bytes, unit.entry.nbytes);
        at += unit.entry.nbytes;
    }
    memset(place->bytes + at, 0, plan->upload_nbytes - at);
    fill_tiles(plan, place->image, place->tiles);
    fill_image(plan, place->samples, image);
}
