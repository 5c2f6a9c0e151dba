/* gpu_field.c - data that all rows of a field share, and the memory that a block needs for such
 * rows.
 *
 * Fields are immutable. The memory of a block is an estimate for typical images. Each row that is
 * added reserves what it really needs, and is refused if that does not fit. */
#include "gpu/work/gpu_block.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"

#include <string.h>

enum pst_status psti_gpu_field_open(const struct psti_gpu_field_options *options,
                                    struct psti_gpu_field **out, struct pst_error *err)
{
    const struct psti_chain_output *o = &options->output;
    size_t nbytes = pst_dtype_nbytes(o->dtype), step_nbytes;
    *out = NULL;
    if (options->height == 0 || options->width == 0 ||
        !psti_mul_size(nbytes, o->channels, &nbytes) ||
        !psti_mul_size(nbytes, options->width, &nbytes) ||
        !psti_mul_size(nbytes, options->height, &nbytes) ||
        !psti_mul_size(nbytes, options->row_step ? options->row_step : 1, &step_nbytes) ||
        nbytes / PSTI_GPU_COPY_PART_NBYTES >= UINT32_MAX)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, PSTI_GPU_ROOM,
                         "rows of %u x %u pixels cannot be made on a GPU", options->width,
                         options->height);
    struct psti_gpu_field *field = psti_calloc(1, sizeof *field);
    if (!field)
        return psti_fail(err, PST_ERROR_MEMORY, PSTI_GPU_ROOM, "no memory for a field");
    field->chain = options->chain;
    field->decode = options->decode;
    field->output = *o;
    field->row_nbytes = nbytes;
    field->row_step_nbytes = step_nbytes;
    field->may_differ = options->may_differ;
    psti_gpu_prepare_finish(options->chain, options->height, options->width, &field->finish);
    *out = field;
    return PST_OK;
}

enum pst_status psti_gpu_field_open_sound(const struct psti_sound_chain *chain,
                                          const int64_t shape[3], struct psti_gpu_field **out,
                                          struct pst_error *err)
{
    *out = NULL;
    struct psti_gpu_field *field = psti_calloc(1, sizeof *field);
    struct psti_gpu_sound *sound = field ? psti_calloc(1, sizeof *sound) : NULL;
    if (!sound) {
        psti_free(field);
        return psti_fail(err, PST_ERROR_MEMORY, PSTI_GPU_ROOM, "no memory for a field");
    }
    field->sound = sound;
    field->row_nbytes = (size_t)(shape[0] * shape[1] * shape[2]) *
                        pst_dtype_nbytes(psti_sound_chain_dtype(chain));
    field->row_step_nbytes = field->row_nbytes;
    enum pst_status status = psti_gpu_sound_plan(chain, shape, sound, err);
    if (status == PST_OK)
        *out = field;
    else
        psti_gpu_field_close(&field);
    return status;
}

void psti_gpu_field_close(struct psti_gpu_field **field)
{
    if (!field || !*field)
        return;
    if ((*field)->sound)
        psti_gpu_sound_free((*field)->sound);
    psti_free((*field)->sound);
    psti_free(*field);
    *field = NULL;
}

size_t psti_gpu_field_row_nbytes(const struct psti_gpu_field *field) { return field->row_nbytes; }

size_t psti_gpu_field_size_nbytes(const struct psti_gpu_field *field, const uint32_t size[2])
{
    return (size_t)size[0] * size[1] * field->output.channels *
           pst_dtype_nbytes(field->output.dtype);
}

size_t psti_gpu_field_draw_nbytes(const struct psti_gpu_field *field, const struct psti_draw *draw)
{
    return psti_gpu_field_size_nbytes(field, (const uint32_t[]){draw->out_height, draw->out_width});
}

const char *psti_gpu_field_refusal(const struct psti_gpu_field *field)
{
    return field->sound && field->sound->refusal[0] ? field->sound->refusal : NULL;
}

static size_t tables_nbytes(const struct psti_gpu_field *field)
{
    return field->sound ? psti_round_up(field->sound->tables_nbytes, PSTI_GPU_ALIGN) : 0;
}

size_t psti_gpu_tables_nbytes(const struct psti_gpu_field *const *fields, uint32_t n_fields)
{
    size_t nbytes = 0;
    for (uint32_t i = 0; i < n_fields; i++)
        nbytes += tables_nbytes(fields[i]);
    return nbytes;
}

void psti_gpu_tables_write(const struct psti_gpu_field *const *fields, uint32_t n_fields, void *to)
{
    char *at = to;
    for (uint32_t i = 0; i < n_fields; at += tables_nbytes(fields[i++])) {
        const struct psti_gpu_sound *sound = fields[i]->sound;
        if (sound && sound->tables)
            memcpy(at, sound->tables, sound->tables_nbytes);
    }
}

uint64_t psti_gpu_block_tables(const struct psti_gpu_block *block, uint32_t i_field)
{
    return block->memory.constants + psti_gpu_constants_nbytes() +
           psti_gpu_tables_nbytes(block->fields, i_field);
}

/* Returns what row_size() returns, for a row of sound. */
static struct psti_gpu_block_size sound_row_size(const struct psti_gpu_sound *sound)
{
    struct psti_gpu_block_size size = {0, 0};
    if (sound->refusal[0])
        return size;
    size.upload_nbytes = psti_gpu_sound_upload_nbytes(sound) +
                         2 * sizeof(struct psti_gpu_sound_row) + 3 * PSTI_GPU_ALIGN;
    size.scratch_nbytes = psti_gpu_sound_scratch_nbytes(sound) + PSTI_GPU_ALIGN;
    return size;
}

/* Returns the bytes of upload memory and scratch that one row is estimated to need. */
static struct psti_gpu_block_size row_size(const struct psti_gpu_field *field,
                                           const struct psti_gpu_item_size *item)
{
    size_t pixels = (size_t)item->height * item->width;
    size_t picture = pixels * field->output.channels * (field->output.bits / 8u);
    size_t finished = (size_t)field->finish.out_height * field->finish.out_width;
    size_t finished_picture = finished * field->output.channels * (field->output.bits / 8u);
    size_t units = pixels / 4096 + 4 * ((size_t)item->height + item->width) / 64 + 4;
    bool is_jpeg = item->form == PST_FORM_PLI_JPEG;
    /* Filters have start, number and weights for each output. If a resize shrinks the image, the
     * number of weights depends on the source pixels. */
    size_t tables = 32 * ((size_t)item->height + item->width + field->finish.out_height +
                          field->finish.out_width);
    struct psti_gpu_prepare_more more;
    psti_gpu_prepare_estimate(field->chain, item->height, item->width, &field->finish, &more);
    struct psti_gpu_block_size size;
    size.upload_nbytes = item->nbytes + tables + 17 * units + 3 * PSTI_GPU_ALIGN;
    size.upload_nbytes += 2 * units * sizeof(struct psti_gpu_unit);
    size.upload_nbytes += sizeof(struct psti_gpu_jpeg_image);
    /* Passes need memory twice. */
    size.upload_nbytes += 2 * (4 + more.n_passes) * sizeof(struct psti_gpu_pass);
    if (is_jpeg)
        size.upload_nbytes += 2 * (pixels / 1024 + 64) * sizeof(struct psti_gpu_jpeg_tile);
    else if (item->form == PST_FORM_PLI)
        size.upload_nbytes += PSTI_GPU_BLOCK_WARPS * sizeof(struct psti_gpu_unit);
    size.scratch_nbytes = picture + 2 * finished_picture + 8 * PSTI_GPU_ALIGN;
    size.scratch_nbytes += more.scratch_nbytes;
    if (is_jpeg) /* samples of all components: a region needs whole blocks */
        size.scratch_nbytes += pixels * item->channels + 24 * ((size_t)item->height + item->width);
    else if (item->form == PST_FORM_PLI) /* an lz unit seldom has a sequence for every 8 bytes */
        size.scratch_nbytes += pixels * item->channels * (item->bits / 8u) * 3 / 2;
    return size;
}

void psti_gpu_block_size(const struct psti_gpu_field *const *fields,
                         const struct psti_gpu_item_size *items, uint32_t n_fields, uint32_t n_rows,
                         struct psti_gpu_block_size *size)
{
    size_t upload =
        psti_gpu_block_fixed_nbytes(n_fields, n_rows) + psti_gpu_block_slack_nbytes(n_fields);
    size_t scratch = 0, coefs = 0;
    for (uint32_t i = 0; i < n_fields; i++) {
        struct psti_gpu_block_size row = fields[i]->sound ? sound_row_size(fields[i]->sound)
                                                          : row_size(fields[i], &items[i]);
        size_t finished = fields[i]->row_nbytes + 2 * PSTI_GPU_ALIGN;
        size_t rows = n_rows * row.upload_nbytes;
        upload += rows > finished ? rows : finished;
        scratch += n_rows * row.scratch_nbytes;
        if (!fields[i]->sound && items[i].form == PST_FORM_PLI_JPEG)
            coefs = PSTI_GPU_COEFS_SCRATCH_NBYTES;
    }
    size->upload_nbytes = psti_round_up(upload, PSTI_GPU_ALIGN);
    size->scratch_nbytes = psti_round_up(scratch + coefs, PSTI_GPU_ALIGN);
}
