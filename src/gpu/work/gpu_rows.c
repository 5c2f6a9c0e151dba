/* gpu_rows.c - adds an image to a block: a stored one, or one that the host has decoded.
 *
 * From the bytes, the result of probing them, and a draw it makes the upload (the bytes that the
 * region needs, the tables of filters and codec) and descriptors, from which gpu_work.c makes
 * lists. Any number of threads, each with a row of its own. A row claims all its memory at once,
 * after its bytes were checked as the CPU's decoder checks them. */
#include "gpu/work/gpu_block.h"

#include "base/bits.h"
#include "base/fail.h"

#include <string.h>

/* A row that is being added to a block. */
struct putting {
    struct psti_gpu_block *block;
    const struct psti_gpu_field *field;
    struct psti_gpu_row *row;
    uint32_t i_row;
    const struct psti_gpu_item *item;
    const struct psti_draw *draw;
    uint8_t orientation;
    struct pst_pli_region stored; /* the region, in coordinates of the stored image */
    struct psti_gpu_prepare prepare;
    struct psti_gpu_claimed claimed;
};

static enum pst_status no_room(const struct psti_gpu_block *block, struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_LIMIT, PSTI_GPU_ROOM,
                     "a block of %zu bytes, and %zu bytes of scratch, has no room for another row",
                     block->memory.upload_nbytes, block->memory.scratch_nbytes);
}

static enum pst_status begin(struct putting *p, struct psti_gpu_block *block, uint32_t i_field,
                             uint32_t i_row, const struct psti_draw *draw, struct pst_error *err)
{
    p->block = block;
    p->field = block->fields[i_field];
    p->row = psti_gpu_row(block, i_field, i_row);
    p->i_row = i_row;
    p->draw = draw;
    p->row->kind = p->row->claimed = PSTI_GPU_ROW_EMPTY;
    p->row->size[0] = draw->out_height;
    p->row->size[1] = draw->out_width;
    const struct psti_gpu_finish *finish = &p->field->finish;
    if (p->field->may_differ ||
        (draw->out_height == finish->out_height && draw->out_width == finish->out_width))
        return PST_OK;
    return psti_fail(err, PST_ERROR_UNSUPPORTED, PSTI_GPU_ROOM,
                     "the operations give %u x %u pixels, but rows have %u x %u", draw->out_width,
                     draw->out_height, finish->out_width, finish->out_height);
}

/* Sets the orientation, and the region in coordinates of the stored image. */
static enum pst_status find_stored(struct putting *p, struct pst_error *err)
{
    const struct pst_image_info *info = p->item->info;
    const struct psti_draw *d = p->draw;
    const struct psti_rect region = {d->region_y, d->region_x, d->region_height, d->region_width};
    const struct psti_rect stored = psti_decode_stored(info, &p->field->decode, 0, &region);
    p->orientation = p->field->decode.ignore_orientation ? 1 : info->orientation;
    p->stored = (struct pst_pli_region){stored.y, stored.x, stored.height, stored.width};
    if (d->scale_log2 == 0)
        return PST_OK;
    return psti_fail(err, PST_ERROR_UNSUPPORTED, PSTI_GPU_ROOM,
                     "scaled images are decoded on the CPU");
}

/* Checks that the image is the one that was probed, and that its pixels can be converted to the
 * field's channels and bits. */
static enum pst_status check_header(const struct putting *p, const struct psti_pli_header *header,
                                    struct pst_error *err)
{
    const struct pst_image_info *info = p->item->info;
    bool swaps = p->orientation >= 5;
    uint8_t channels, bits;
    psti_decode_output(info, &p->field->decode, &channels, &bits);
    if (header->height != (swaps ? info->width : info->height) ||
        header->width != (swaps ? info->height : info->width) ||
        header->channels != info->channels || header->bits != info->bits)
        return psti_fail(err, PST_ERROR_ARGUMENT, PSTI_GPU_ROOM,
                         "the header is not the one that was probed");
    if (channels != p->field->output.channels || bits != p->field->output.bits)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, PSTI_GPU_ROOM,
                         "the image has %u channels of %u bits, but the field has %u of %u bits",
                         channels, bits, p->field->output.channels, p->field->output.bits);
    return PST_OK;
}

/* Checks that a PLI is the one that was probed, and that its pixels can become the field's. Whole
 * images whose units have no checksums are refused, because kernels do not compare the checksum of
 * the pixels. */
static enum pst_status check_pli_header(const struct putting *p,
                                        const struct psti_pli_header *header, struct pst_error *err)
{
    bool is_whole = p->stored.height == header->height && p->stored.width == header->width;
    if (!header->has_checksums && is_whole)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, PSTI_GPU_ROOM,
                         "whole images whose units have no checksums are decoded on the CPU, which "
                         "compares the checksum of the pixels");
    return check_header(p, header, err);
}

/* Returns the bytes that the passes of a row take. In the temporary memory, passes come before
 * everything else; in the upload, tables of filters do. */
static size_t passes_nbytes(const struct putting *p)
{
    return psti_round_up(p->prepare.n_passes * sizeof(struct psti_gpu_pass), 64);
}

static void write_passes(struct putting *p, uint64_t scratch, uint64_t picture)
{
    psti_gpu_prepare_write(p->field->chain, p->draw, &p->prepare, p->claimed.host, p->claimed.gpu,
                           scratch, picture);
    memcpy(p->claimed.temporary, p->prepare.passes,
           p->prepare.n_passes * sizeof(struct psti_gpu_pass));
    p->row->passes = p->claimed.temporary;
    p->row->n_passes = p->prepare.n_passes;
}

static void set_sink(const struct putting *p, const struct psti_pli_header *header,
                     uint64_t scratch, struct psti_gpu_sink *sink)
{
    memset(sink, 0, sizeof *sink);
    sink->height = header->height;
    sink->width = header->width;
    sink->channels = header->channels;
    sink->bits = header->bits;
    sink->orientation = p->orientation;
    psti_gpu_prepare_sink(&p->prepare, scratch, sink);
}

static void set_stats(const struct putting *p, const struct psti_pli_header *header,
                      uint32_t n_units, uint64_t upload_nbytes, struct psti_gpu_row_stats *stats)
{
    const struct psti_draw *d = p->draw;
    if (!stats)
        return;
    stats->n_units = n_units;
    stats->n_units_whole = psti_pli_unit_rows(header) * psti_pli_unit_columns(header);
    stats->nbytes_pixels = (uint64_t)d->region_height * d->region_width *
                           p->field->output.channels * (p->field->output.bits / 8u);
    stats->nbytes_upload = upload_nbytes;
}

/* Rows of PLI with pixels
 * ------------------------------------------------------------------------------------------------
 */

static void fill_units(struct putting *p, const struct psti_gpu_units_plan *plan,
                       const struct psti_gpu_wave_tables *tables, size_t bytes_at)
{
    struct psti_gpu_image *image = &p->row->units.image;
    char *host = p->claimed.host;
    struct psti_gpu_unit *entries =
        (struct psti_gpu_unit *)((char *)p->claimed.temporary + passes_nbytes(p));
    struct psti_gpu_units_place place = {.bytes = (uint8_t *)host + bytes_at};
    p->row->units.entries = entries;
    for (int i = 0; i < PSTI_GPU_N_UNITS_LISTS; i++) {
        p->row->units.counts[i] = plan->counts[i];
        place.lists[i] = entries;
        entries += plan->counts[i];
    }
    memset(image, 0, sizeof *image);
    psti_gpu_units_fill(plan, p->item->bytes, &place, image);
    image->bytes = p->claimed.gpu + bytes_at;
    image->scratch = p->claimed.scratch + p->prepare.scratch_nbytes;
    image->status = p->i_row;
    if (plan->tables) {
        memcpy(host + p->prepare.tables_nbytes, tables, sizeof *tables);
        image->tables = p->claimed.gpu + p->prepare.tables_nbytes;
    }
    set_sink(p, &plan->header, p->claimed.scratch, &image->sink);
}

static enum pst_status put_units(struct putting *p, struct psti_gpu_row_stats *stats,
                                 struct pst_error *err)
{
    struct psti_gpu_units_plan plan;
    struct psti_gpu_wave_tables tables;
    enum pst_status status = psti_gpu_units_plan(p->item->bytes, p->item->nbytes, p->item->pli,
                                                 &p->stored, !p->item->is_verified, &plan, err);
    if (status == PST_OK)
        status = check_pli_header(p, &plan.header, err);
    if (status == PST_OK && plan.tables)
        status = psti_gpu_wave_tables_write(plan.tables, plan.tables_nbytes, plan.header.bits,
                                            &tables, err);
    if (status == PST_OK)
        status = psti_gpu_prepare_plan(p->field->chain, p->draw, false, &p->prepare, err);
    if (status != PST_OK)
        return status;
    size_t tables_nbytes = plan.tables ? sizeof tables : 0, n_entries = 0;
    size_t bytes_at = psti_round_up(p->prepare.tables_nbytes + tables_nbytes, 64);
    for (int i = 0; i < PSTI_GPU_N_UNITS_LISTS; i++)
        n_entries += plan.counts[i];
    const struct psti_gpu_claim claim = {
        .upload_nbytes = bytes_at + plan.upload_nbytes,
        .temporary_nbytes = passes_nbytes(p) + n_entries * sizeof(struct psti_gpu_unit),
        .list_nbytes = sizeof(struct psti_gpu_image) +
                       (plan.tables ? PSTI_GPU_BLOCK_WARPS * sizeof(struct psti_gpu_unit) : 0),
        .scratch_nbytes = p->prepare.scratch_nbytes + plan.scratch_nbytes,
    };
    if (!psti_gpu_block_claim(p->block, &claim, &p->claimed))
        return no_room(p->block, err);
    write_passes(p, p->claimed.scratch, 0);
    fill_units(p, &plan, &tables, bytes_at);
    set_stats(p, &plan.header, plan.n_units, claim.upload_nbytes, stats);
    p->row->kind = PSTI_GPU_ROW_UNITS;
    return PST_OK;
}

/* Rows of JPEGs kept as PLI
 * ------------------------------------------------------------------------------------------------
 */

static void fill_jpeg(struct putting *p, const struct psti_gpu_jpeg_plan *plan, size_t tables_at,
                      size_t bytes_at)
{
    struct psti_gpu_jpeg_image *image = &p->row->jpeg.image;
    char *host = p->claimed.host, *temporary = (char *)p->claimed.temporary + passes_nbytes(p);
    struct psti_gpu_jpeg_unit *units = (struct psti_gpu_jpeg_unit *)temporary;
    struct psti_gpu_jpeg_tile *tiles = (struct psti_gpu_jpeg_tile *)(units + plan->n_units);
    const struct psti_gpu_jpeg_place place = {
        .bytes = (uint8_t *)host + bytes_at,
        .samples = p->claimed.scratch + p->prepare.scratch_nbytes,
        .units = units,
        .tiles = tiles,
    };
    memset(image, 0, sizeof *image);
    psti_gpu_jpeg_fill(plan, p->item->bytes, &place, image);
    if (plan->has_tables)
        psti_gpu_jpeg_tables_write(&plan->tables, (void *)(host + tables_at));
    image->bytes = p->claimed.gpu + bytes_at;
    image->tables = plan->has_tables ? p->claimed.gpu + tables_at : 0;
    image->status = p->i_row;
    set_sink(p, &plan->header, p->claimed.scratch, &image->sink);
    p->row->jpeg.units = units;
    p->row->jpeg.tiles = tiles;
    p->row->jpeg.n_units = plan->n_units;
    p->row->jpeg.n_tiles = plan->n_tiles;
    p->row->jpeg.n_places = plan->n_places;
}

static enum pst_status put_jpeg(struct putting *p, struct psti_gpu_row_stats *stats,
                                struct pst_error *err)
{
    struct psti_gpu_jpeg_plan plan;
    enum pst_status status = psti_gpu_jpeg_plan(p->item->bytes, p->item->nbytes, p->item->pli,
                                                &p->stored, !p->item->is_verified, &plan, err);
    if (status == PST_OK)
        status = check_pli_header(p, &plan.header, err);
    if (status == PST_OK)
        status = psti_gpu_prepare_plan(p->field->chain, p->draw, false, &p->prepare, err);
    if (status != PST_OK)
        return status;
    size_t tables_at = p->prepare.tables_nbytes;
    size_t tables_nbytes = plan.has_tables ? sizeof(struct psti_gpu_jpeg_tables) : 0;
    size_t bytes_at = psti_round_up(tables_at + tables_nbytes, 64);
    const struct psti_gpu_claim claim = {
        .upload_nbytes = bytes_at + plan.upload_nbytes,
        .temporary_nbytes = passes_nbytes(p) + plan.n_units * sizeof(struct psti_gpu_jpeg_unit) +
                            plan.n_tiles * sizeof(struct psti_gpu_jpeg_tile),
        .list_nbytes = sizeof(struct psti_gpu_jpeg_image),
        .scratch_nbytes = p->prepare.scratch_nbytes + plan.samples_nbytes,
        .coefs_nbytes = psti_gpu_coefs_scratch(plan.n_places),
        .n_coefs = plan.n_units,
    };
    if (!psti_gpu_block_claim(p->block, &claim, &p->claimed))
        return no_room(p->block, err);
    write_passes(p, p->claimed.scratch, 0);
    fill_jpeg(p, &plan, tables_at, bytes_at);
    set_stats(p, &plan.header, plan.n_units, claim.upload_nbytes, stats);
    p->row->kind = PSTI_GPU_ROW_JPEG;
    return PST_OK;
}

/* Pixels
 * ------------------------------------------------------------------------------------------------
 */

static size_t picture_nbytes(const struct putting *p)
{
    return (size_t)p->draw->region_height * p->draw->region_width * p->field->output.channels *
           (p->field->output.bits / 8u);
}

/* Reserves memory of the block for the pixels of the region. */
static enum pst_status claim_picture(struct putting *p, void **pixels, struct pst_error *err)
{
    enum pst_status status =
        psti_gpu_prepare_plan(p->field->chain, p->draw, true, &p->prepare, err);
    if (status != PST_OK)
        return status;
    size_t at = p->prepare.tables_nbytes;
    const struct psti_gpu_claim claim = {
        .upload_nbytes = at + picture_nbytes(p) + PSTI_GPU_SLACK,
        .temporary_nbytes = passes_nbytes(p),
        .scratch_nbytes = p->prepare.scratch_nbytes,
    };
    if (!psti_gpu_block_claim(p->block, &claim, &p->claimed))
        return no_room(p->block, err);
    write_passes(p, p->claimed.scratch, p->claimed.gpu + at);
    *pixels = (char *)p->claimed.host + at;
    p->row->claimed = PSTI_GPU_ROW_PICTURE;
    return PST_OK;
}

static enum pst_status put_raw(struct putting *p, struct psti_gpu_row_stats *stats,
                               struct pst_error *err)
{
    const struct pst_image_info *info = p->item->info;
    const struct psti_draw *d = p->draw;
    size_t pixel = (size_t)info->channels * (info->bits / 8u), row = info->width * pixel;
    void *pixels = NULL;
    if (p->orientation > 1 || info->channels != p->field->output.channels ||
        info->bits != p->field->output.bits)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, PSTI_GPU_ROOM,
                         "raw pixels are rotated and converted on the CPU");
    if (p->item->nbytes / row != info->height || p->item->nbytes % row != 0 ||
        d->region_y + d->region_height > info->height ||
        d->region_x + d->region_width > info->width)
        return psti_fail(err, PST_ERROR_ARGUMENT, PSTI_GPU_ROOM,
                         "%zu bytes are not the %u x %u pixels that were probed", p->item->nbytes,
                         info->width, info->height);
    enum pst_status status = claim_picture(p, &pixels, err);
    if (status != PST_OK)
        return status;
    const char *from = (const char *)p->item->bytes + d->region_y * row + d->region_x * pixel;
    size_t used = d->region_width * pixel;
    for (uint32_t y = 0; y < d->region_height; y++)
        memcpy((char *)pixels + y * used, from + y * row, used);
    if (stats)
        *stats = (struct psti_gpu_row_stats){
            .nbytes_pixels = picture_nbytes(p),
            .nbytes_upload = p->prepare.tables_nbytes + picture_nbytes(p),
        };
    p->row->kind = PSTI_GPU_ROW_PICTURE;
    return PST_OK;
}

enum pst_status psti_gpu_block_row(struct psti_gpu_block *block, uint32_t i_field, uint32_t row,
                                   const struct psti_gpu_item *item, const struct psti_draw *draw,
                                   struct psti_gpu_row_stats *stats, struct pst_error *err)
{
    struct putting p;
    p.item = item;
    enum pst_status status = begin(&p, block, i_field, row, draw, err);
    if (status == PST_OK)
        status = find_stored(&p, err);
    if (status != PST_OK)
        return status;
    switch (item->info->form) {
    case PST_FORM_PLI:
        return put_units(&p, stats, err);
    case PST_FORM_PLI_JPEG:
        return put_jpeg(&p, stats, err);
    case PST_FORM_RAW:
        return put_raw(&p, stats, err);
    default:
        return psti_fail(err, PST_ERROR_UNSUPPORTED, PSTI_GPU_ROOM, "%s is decoded on the CPU",
                         pst_form_name(item->info->form));
    }
}

enum pst_status psti_gpu_block_pixels(struct psti_gpu_block *block, uint32_t i_field, uint32_t row,
                                      const struct psti_draw *draw, void **pixels,
                                      struct pst_error *err)
{
    struct putting p;
    p.item = NULL;
    enum pst_status status = begin(&p, block, i_field, row, draw, err);
    return status == PST_OK ? claim_picture(&p, pixels, err) : status;
}

enum pst_status psti_gpu_block_waves(struct psti_gpu_block *block, uint32_t i_field, uint32_t row,
                                     const struct psti_sound_draw *draw, float **waves,
                                     struct psti_gpu_row_stats *stats, struct pst_error *err)
{
    const struct psti_gpu_sound *sound = block->fields[i_field]->sound;
    struct psti_gpu_row *r = psti_gpu_row(block, i_field, row);
    struct psti_gpu_claimed claimed;
    r->kind = r->claimed = PSTI_GPU_ROW_EMPTY;
    if (sound->refusal[0])
        return psti_fail(err, PST_ERROR_UNSUPPORTED, PSTI_GPU_ROOM, "%s", sound->refusal);
    if (memcmp(draw->shape, sound->shape, sizeof sound->shape) != 0)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, PSTI_GPU_ROOM,
                         "the operations give other features than the rows have");
    const struct psti_gpu_claim claim = {
        .upload_nbytes = psti_gpu_sound_upload_nbytes(sound),
        .temporary_nbytes = sizeof(struct psti_gpu_sound_row),
        .scratch_nbytes = psti_gpu_sound_scratch_nbytes(sound),
    };
    if (!psti_gpu_block_claim(block, &claim, &claimed))
        return no_room(block, err);
    psti_gpu_sound_fill_row(sound, draw, &claimed, claimed.temporary);
    r->waves = claimed.temporary;
    r->claimed = PSTI_GPU_ROW_WAVES;
    *waves = (float *)(void *)((char *)claimed.host + psti_gpu_sound_waves_at(sound));
    if (stats)
        *stats = (struct psti_gpu_row_stats){.nbytes_upload = claim.upload_nbytes};
    return PST_OK;
}

enum pst_status psti_gpu_block_finished(struct psti_gpu_block *block, uint32_t i_field,
                                        uint32_t row, const struct psti_draw *draw, void **data,
                                        struct pst_error *err)
{
    const struct psti_gpu_field *field = block->fields[i_field];
    struct psti_gpu_row *r = psti_gpu_row(block, i_field, row);
    struct psti_gpu_claim claim = {.upload_nbytes = field->row_nbytes,
                                   .list_nbytes = sizeof(struct psti_gpu_copy)};
    struct psti_gpu_claimed claimed;
    r->kind = r->claimed = PSTI_GPU_ROW_EMPTY;
    if (field->may_differ) {
        r->size[0] = draw->out_height;
        r->size[1] = draw->out_width;
        claim.upload_nbytes = psti_gpu_field_draw_nbytes(field, draw);
        claim.list_nbytes = sizeof(struct psti_gpu_pad);
    }
    if (!psti_gpu_block_claim(block, &claim, &claimed))
        return no_room(block, err);
    r->claimed = PSTI_GPU_ROW_FINISHED;
    r->at = claimed.gpu;
    *data = claimed.host;
    return PST_OK;
}

void psti_gpu_block_set_out(struct psti_gpu_block *block, uint32_t i_field, uint32_t row,
                            uint64_t at)
{
    psti_gpu_row(block, i_field, row)->out = at;
}

void psti_gpu_block_done(struct psti_gpu_block *block, uint32_t i_field, uint32_t row)
{
    struct psti_gpu_row *r = psti_gpu_row(block, i_field, row);
    r->kind = r->claimed;
}
