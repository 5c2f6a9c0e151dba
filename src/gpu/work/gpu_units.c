/* gpu_units.c - the host's part of decoding PLI of pixels on a GPU. It turns a stored image and the
 * wanted region into lists of units, and copies the units' bytes to the upload.
 *
 * The functions are pure; any thread may call them. The head is checked as the CPU's decoder checks
 * it (format-pli.md 11). For each unit they check that its bytes are there, its checksum, its mode,
 * and the length of raw and constant units. Kernels trust descriptors, never a unit's bytes. */
#include "gpu/work/gpu_units.h"

#include "base/bits.h"
#include "base/fail.h"
#include "gpu/work/gpu_tables.h"
#include "pli/format/pli_lz_format.h"

#include <string.h>

#define ROOM "gpu"

enum {
    SHARED_NBYTES = 227 * 1024, /* shared memory of a block, compute capability 9.0 and 10.0 */
    ENTRY_PIXELS = 4096,        /* pixels of an entry of PLAIN, as many as in a unit of 64 x 64 */
};

/* A unit that the region touches, and how it will be decoded. */
struct unit {
    uint32_t row, column;
    uint32_t height, width;
    uint32_t first_row, end_row; /* rows of the unit that the region needs */
    uint64_t offset;             /* offset of the unit in the file */
    struct psti_pli_entry entry;
    uint8_t mode;
    enum psti_gpu_units_list list;
    uint32_t n_entries;      /* for PLAIN: number of entries of this unit */
    uint32_t rows_per_entry; /* for PLAIN: number of rows of an entry */
    uint32_t n_sequences;    /* for lz: most sequences that the unit may have */
};

/* A callback that walk() calls for each unit, in the order of the file. */
typedef enum pst_status (*visit_fn)(void *ctx, const uint8_t *bytes, struct unit *unit,
                                    struct pst_error *err);

/* Calls `visit` for each unit that the region touches. Stops at the first failure. */
static enum pst_status walk(const struct psti_gpu_units_plan *plan, const uint8_t *bytes,
                            visit_fn visit, void *ctx, struct pst_error *err)
{
    const struct psti_pli_header *h = &plan->header;
    const struct pst_pli_region *r = &plan->region;
    uint32_t edge = psti_pli_edge(h), columns = psti_pli_unit_columns(h);
    uint32_t row1 = (r->y + r->height - 1) / edge + 1, column0 = r->x / edge;
    uint32_t column1 = (r->x + r->width - 1) / edge + 1;
    uint64_t offset = psti_pli_head_nbytes(h);
    for (uint32_t u = 0; u < row1 * columns; u++) {
        struct unit unit = {.row = u / columns, .column = u % columns, .offset = offset};
        uint32_t y = unit.row * edge, x = unit.column * edge;
        unit.entry = psti_pli_parse_entry(bytes, h, u);
        offset += unit.entry.nbytes;
        if (y + edge <= r->y || unit.column < column0 || unit.column >= column1)
            continue;
        unit.height = h->height - y < edge ? h->height - y : edge;
        unit.width = h->width - x < edge ? h->width - x : edge;
        unit.first_row = r->y > y ? r->y - y : 0;
        unit.end_row = r->y + r->height - y < unit.height ? r->y + r->height - y : unit.height;
        enum pst_status status = visit(ctx, bytes, &unit, err);
        if (status != PST_OK)
            return psti_pli_unit_failed(unit.row, unit.column, unit.offset, status, err);
    }
    return PST_OK;
}

/* Returns the number of sequences that a unit of mode lz states (format-pli.md 6.1). Returns 0 if
 * the unit is malformed; then the kernel rejects it. */
static uint32_t count_sequences(const uint8_t *unit, uint32_t nbytes)
{
    uint32_t n;
    const uint8_t *at = unit + (nbytes < 2 ? nbytes : 2);
    if (!psti_pli_take_number(&at, unit + nbytes, &n))
        return 0;
    return n <= PSTI_PLI_LZ_SEQUENCES_MAX ? n : 0;
}

/* Checks that a unit of mode raw or constant has the right length (format-pli.md 3). */
static enum pst_status check_plain(const struct psti_pli_header *h, const struct unit *unit,
                                   struct pst_error *err)
{
    size_t n = unit->mode == PSTI_PLI_RAW ? (size_t)unit->height * unit->width : 1;
    size_t expected = n * h->channels * (h->bits / 8u);
    if (unit->entry.nbytes - 1 == expected)
        return PST_OK;
    return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "%s unit of %u bytes instead of %zu",
                     unit->mode == PSTI_PLI_RAW ? "raw" : "constant", unit->entry.nbytes - 1,
                     expected);
}

/* Finds mode, list and entries of a unit whose bytes are all present. */
static enum pst_status sort_unit(const struct psti_pli_header *h, const uint8_t *bytes,
                                 struct unit *unit, struct pst_error *err)
{
    uint32_t rows = unit->end_row - unit->first_row;
    unit->mode = bytes[unit->offset];
    unit->rows_per_entry = ENTRY_PIXELS / unit->width;
    if ((unit->mode == PSTI_PLI_PACKED || unit->mode == PSTI_PLI_WAVE) &&
        h->unit_log2 != PSTI_PLI_UNIT_LOG2_MIN)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "mode %u in units larger than 64",
                         unit->mode);
    switch (unit->mode) {
    case PSTI_PLI_RAW:
    case PSTI_PLI_CONSTANT:
        unit->list = PSTI_GPU_UNITS_PLAIN;
        unit->n_entries = (rows + unit->rows_per_entry - 1) / unit->rows_per_entry;
        return check_plain(h, unit, err);
    case PSTI_PLI_PACKED:
        unit->list = PSTI_GPU_UNITS_PACKED;
        return PST_OK;
    case PSTI_PLI_WAVE:
        unit->list = h->bits == 8 ? PSTI_GPU_UNITS_WAVE_U8 : PSTI_GPU_UNITS_WAVE_U16;
        return PST_OK;
    case PSTI_PLI_LZ:
        unit->list = PSTI_GPU_UNITS_LZ;
        unit->n_entries = (rows + unit->rows_per_entry - 1) / unit->rows_per_entry;
        unit->n_sequences = count_sequences(bytes + unit->offset, unit->entry.nbytes);
        return PST_OK;
    default:
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "mode %u is not known", unit->mode);
    }
}

static uint64_t scratch_nbytes(const struct psti_pli_header *h, const struct unit *unit)
{
    uint64_t n_pixels = (uint64_t)unit->height * unit->width;
    uint64_t pixels = psti_round_up(n_pixels * h->channels * (h->bits / 8u), 4);
    return psti_round_up(pixels + 4ull * unit->n_sequences, PSTI_GPU_SCRATCH_STEP);
}

static uint64_t upload_nbytes(const struct unit *unit)
{
    return psti_round_up(unit->entry.nbytes, PSTI_GPU_UNIT_ALIGN);
}

/* Plan
 * ------------------------------------------------------------------------------------- */

struct planning {
    struct psti_gpu_units_plan *plan;
    size_t nbytes;
    bool is_checked;
};

static enum pst_status plan_unit(void *ctx, const uint8_t *bytes, struct unit *unit,
                                 struct pst_error *err)
{
    const struct planning *planning = ctx;
    struct psti_gpu_units_plan *plan = planning->plan;
    const struct psti_pli_header *h = &plan->header;
    enum pst_status status = psti_pli_check_unit(h, bytes, planning->nbytes, unit->offset,
                                                 unit->entry, planning->is_checked, err);
    if (status == PST_OK)
        status = sort_unit(h, bytes, unit, err);
    if (status != PST_OK)
        return status;
    plan->n_units++;
    plan->counts[unit->list] += unit->list == PSTI_GPU_UNITS_PLAIN ? unit->n_entries : 1;
    plan->upload_nbytes += upload_nbytes(unit);
    if (unit->mode == PSTI_PLI_LZ) {
        plan->counts[PSTI_GPU_UNITS_PLAIN] += unit->n_entries;
        plan->scratch_nbytes += scratch_nbytes(h, unit);
    }
    if (plan->upload_nbytes + PSTI_GPU_UNIT_MARGIN > UINT32_MAX ||
        plan->scratch_nbytes / PSTI_GPU_SCRATCH_STEP > UINT32_MAX)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM,
                         "the image has more bytes than the kernels support");
    return PST_OK;
}

static enum pst_status check_region(const struct psti_pli_header *h,
                                    const struct pst_pli_region *given,
                                    struct pst_pli_region *region, struct pst_error *err)
{
    *region = given ? *given : (struct pst_pli_region){0, 0, h->height, h->width};
    if (region->height > 0 && region->width > 0 && region->y < h->height &&
        region->height <= h->height - region->y && region->x < h->width &&
        region->width <= h->width - region->x)
        return PST_OK;
    return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                     "region y=%u x=%u height=%u width=%u is not within an image of %ux%u pixels",
                     region->y, region->x, region->height, region->width, h->height, h->width);
}

enum pst_status psti_gpu_units_plan(const void *bytes, size_t nbytes,
                                    const struct psti_pli_header *header,
                                    const struct pst_pli_region *region, bool is_checked,
                                    struct psti_gpu_units_plan *plan, struct pst_error *err)
{
    struct psti_pli_header *h = &plan->header;
    *plan = (struct psti_gpu_units_plan){0};
    enum pst_status status = PST_OK;
    if (header)
        *h = *header;
    else
        status = psti_pli_parse_header(bytes, nbytes, h, err);
    if (status == PST_OK)
        status = psti_pli_check_head(bytes, nbytes, h, err);
    if (status == PST_OK && h->content != PST_PLI_CONTENT_PIXELS)
        status = psti_fail(err, PST_ERROR_UNSUPPORTED, ROOM, "a PLI that holds no pixels");
    if (status == PST_OK)
        status = check_region(h, region, &plan->region, err);
    if (status == PST_OK)
        status = psti_pli_check_end(bytes, nbytes, h, 0, err);
    if (status != PST_OK)
        return psti_pli_failed(status, err);
    struct planning planning = {plan, nbytes, is_checked};
    status = walk(plan, bytes, plan_unit, &planning, err);
    plan->upload_nbytes += PSTI_GPU_UNIT_MARGIN;
    if (status == PST_OK &&
        plan->counts[PSTI_GPU_UNITS_WAVE_U8] + plan->counts[PSTI_GPU_UNITS_WAVE_U16] > 0)
        status = psti_pli_find_model(bytes, h, PSTI_PLI_MODEL_WAVE, &plan->tables,
                                     &plan->tables_nbytes, err);
    return status == PST_OK ? PST_OK : psti_pli_failed(status, err);
}

/* Fill
 * ------------------------------------------------------------------------------------- */

struct filling {
    const struct psti_gpu_units_plan *plan;
    const struct psti_gpu_units_place *place;
    uint32_t counts[PSTI_GPU_N_UNITS_LISTS];
    uint64_t upload_nbytes, scratch_nbytes;
};

static enum pst_status fill_unit(void *ctx, const uint8_t *bytes, struct unit *unit,
                                 struct pst_error *err)
{
    struct filling *f = ctx;
    const struct psti_gpu_units_place *place = f->place;
    enum pst_status status = sort_unit(&f->plan->header, bytes, unit, err);
    if (status != PST_OK)
        return status;
    struct psti_gpu_unit made = {
        .image = place->image,
        .offset = (uint32_t)f->upload_nbytes,
        .nbytes = unit->entry.nbytes,
        .unit_y = (uint16_t)unit->row,
        .unit_x = (uint16_t)unit->column,
        .is_constant = unit->mode == PSTI_PLI_CONSTANT,
    };
    memcpy(place->bytes + f->upload_nbytes, bytes + unit->offset, unit->entry.nbytes);
    f->upload_nbytes += upload_nbytes(unit);
    if (unit->mode == PSTI_PLI_LZ) {
        made.scratch = (uint32_t)(f->scratch_nbytes / PSTI_GPU_SCRATCH_STEP);
        f->scratch_nbytes += scratch_nbytes(&f->plan->header, unit);
        made.n_rows = (uint16_t)unit->n_sequences;
    }
    if (unit->list != PSTI_GPU_UNITS_PLAIN)
        place->lists[unit->list][f->counts[unit->list]++] = made;
    made.is_in_scratch = unit->mode == PSTI_PLI_LZ;
    for (uint32_t i = 0; i < unit->n_entries; i++) {
        uint32_t row = unit->first_row + i * unit->rows_per_entry, left = unit->end_row - row;
        made.first_row = (uint16_t)row;
        made.n_rows = (uint16_t)(left < unit->rows_per_entry ? left : unit->rows_per_entry);
        place->lists[PSTI_GPU_UNITS_PLAIN][f->counts[PSTI_GPU_UNITS_PLAIN]++] = made;
    }
    return PST_OK;
}

void psti_gpu_units_fill(const struct psti_gpu_units_plan *plan, const void *bytes,
                         const struct psti_gpu_units_place *place, struct psti_gpu_image *image)
{
    const struct psti_pli_header *h = &plan->header;
    const struct pst_pli_region *r = &plan->region;
    struct filling filling = {.plan = plan, .place = place};
    image->width = h->width;
    image->height = h->height;
    image->y0 = (uint16_t)r->y;
    image->x0 = (uint16_t)r->x;
    image->y1 = (uint16_t)(r->y + r->height);
    image->x1 = (uint16_t)(r->x + r->width);
    image->channels = h->channels;
    image->bits = h->bits;
    image->unit_log2 = h->unit_log2;
    image->transform = h->transform;
    image->max_error = h->max_error;
    memset(image->reserved, 0, sizeof image->reserved);
    /* This call cannot fail, because the plan has checked all units. */
    enum pst_status status = walk(plan, bytes, fill_unit, &filling, NULL);
    (void)status;
    memset(place->bytes + filling.upload_nbytes, 0, PSTI_GPU_UNIT_MARGIN);
}

/* Kernels
 * ------------------------------------------------------------------------------------- */

/* Returns the shape of a launch of wave units: as many warps share a block's tables as its memory
 * allows. */
static struct psti_gpu_units_shape wave_shape(uint32_t bits, uint32_t channels,
                                              uint32_t shared_nbytes_max)
{
    uint32_t tables_nbytes = PSTI_GPU_WAVE_TABLES_NBYTES(bits);
    struct psti_gpu_units_shape shape = {.warp_nbytes = PSTI_GPU_WAVE_WARP_NBYTES(bits, channels)};
    shape.n_warps = (shared_nbytes_max - tables_nbytes) / shape.warp_nbytes;
    if (shape.n_warps > PSTI_GPU_WAVE_WARPS)
        shape.n_warps = PSTI_GPU_WAVE_WARPS;
    shape.shared_nbytes = tables_nbytes + shape.n_warps * shape.warp_nbytes;
    return shape;
}

struct psti_gpu_units_shape psti_gpu_units_shape_within(enum psti_gpu_units_list list,
                                                        uint32_t channels,
                                                        uint32_t shared_nbytes_max)
{
    struct psti_gpu_units_shape shape = {.n_warps = 1};
    switch (list) {
    case PSTI_GPU_UNITS_WAVE_U8:
        return wave_shape(8, channels, shared_nbytes_max);
    case PSTI_GPU_UNITS_WAVE_U16:
        return wave_shape(16, channels, shared_nbytes_max);
    case PSTI_GPU_UNITS_LZ:
        shape.warp_nbytes = PSTI_GPU_LZ_TABLES_NBYTES + PSTI_GPU_LZ_COLOURS_NBYTES;
        break;
    case PSTI_GPU_UNITS_PACKED:
        shape.n_warps = PSTI_GPU_PACKED_WARPS;
        shape.warp_nbytes = PSTI_GPU_PACKED_ROWS_NBYTES + PSTI_GPU_PACKED_RECORDS_NBYTES +
                            channels * PSTI_GPU_PACKED_PLANE_NBYTES;
        break;
    default:
        shape.n_warps = PSTI_GPU_PLAIN_WARPS;
        break;
    }
    shape.shared_nbytes = shape.n_warps * shape.warp_nbytes;
    return shape;
}

struct psti_gpu_units_shape psti_gpu_units_shape(enum psti_gpu_units_list list, uint32_t channels)
{
    return psti_gpu_units_shape_within(list, channels, SHARED_NBYTES);
}

/* Builds one decoding table of 1024 slots. */
static void write_table(const uint16_t *freqs, uint32_t n, uint8_t *to)
{
    struct psti_gpu_lz_word words[32] = {0};
    uint8_t *entries = to + sizeof words;
    uint32_t start = 0, rank = 0;
    for (uint32_t symbol = 0; symbol < n; symbol++) {
        if (freqs[symbol] == 0)
            continue;
        psti_store_u32(entries + 4 * (size_t)rank++,
                       symbol | start << 8 | (uint32_t)freqs[symbol] << 19);
        words[start / 32].starts |= 1u << start % 32;
        start += freqs[symbol];
    }
    for (uint32_t i = 0, before = 0; i < 32; i++) {
        words[i].rank = before;
        before += (uint32_t)__builtin_popcount(words[i].starts);
    }
    memcpy(to, words, sizeof words);
}

void psti_gpu_lz_constants_write(struct psti_gpu_lz_constants *to)
{
    memset(to, 0, sizeof *to);
    for (uint32_t set = 0; set < 2; set++) {
        const struct psti_pli_lz_built_in *from = &psti_pli_lz_built_in[set];
        uint8_t(*table)[PSTI_GPU_LZ_SEQUENCE_NBYTES] = to->tables[set];
        for (uint32_t c = 0; c < PSTI_PLI_LZ_RUN_CONTEXTS; c++)
            write_table(from->run[c], PSTI_PLI_LZ_N_RUNS, *table++);
        for (uint32_t c = 0; c < PSTI_PLI_LZ_OFFSET_CONTEXTS; c++)
            write_table(from->offset[c], PSTI_PLI_LZ_N_OFFSETS, *table++);
        for (uint32_t c = 0; c < PSTI_PLI_LZ_LENGTH_CONTEXTS; c++)
            write_table(from->length[c], PSTI_PLI_LZ_N_LENGTHS, *table++);
    }
}
