/* loader_mix.c - mixes the images of whole batches (augment_mix.c).
 *
 * In: a job whose batch is whole. Out: the same batch, mixed, and how. The worker that closed the
 * batch does it, so that it costs the caller nothing; where the host service made the batch, or the
 * GPU gave rows back, the caller's thread does it before the batch is handed out. Batches that lie
 * on a GPU are told how, and mixed by whoever has them. No lock is held. */
#include "loader/epoch/loader_behind.h"
#include "loader/loader_handle.h"
#include "loader/epoch/loader_job.h"
#include "loader/epoch/loader_mix.h"
#include "loader/loader_plan.h"

#include "base/fail.h"
#include "base/options.h"

#include <string.h>

static int find_field(const struct psti_loader_plan *plan, const char *name)
{
    for (uint32_t i = 0; i < plan->n_fields; i++) {
        const struct pst_field *field = plan->fields[i].field;
        if (field->type == PST_FIELD_IMAGE && plan->fields[i].fill == PSTI_LOADER_FILL_PIXELS &&
            !plan->fields[i].n_views && (!name || strcmp(name, field->name) == 0))
            return (int)i;
    }
    return -1;
}

/* Returns the name of a field that cannot be mixed along with the image, or NULL. */
static const char *find_other(const struct psti_loader_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_fields; i++) {
        enum pst_field_type type = plan->fields[i].field->type;
        if (type == PST_FIELD_MASK || type == PST_FIELD_BOXES || type == PST_FIELD_KEYPOINTS)
            return plan->fields[i].field->name;
    }
    return NULL;
}

enum pst_status psti_loader_mix_open(pst_loader *loader, struct pst_error *err)
{
    const struct pst_loader_options *options = &loader->options;
    struct psti_loader_mix *mix = &loader->mix;
    if (options->n_mixes == 0)
        return PST_OK;
    if (options->n_mixes > PST_MAX_MIXES || !options->mixes)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "n_mixes is %u; 1 to %d are possible",
                         options->n_mixes, PST_MAX_MIXES);
    mix->i_field = find_field(&loader->plan, options->mix_field);
    const char *other = loader->plan.mosaics ? NULL : find_other(&loader->plan);
    if (mix->i_field < 0)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "there is no image '%s' to mix",
                         options->mix_field ? options->mix_field : "of any name");
    if (other)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "images are mixed, and field '%s' cannot be: leave it out (fields)",
                         other);
    const struct psti_loader_plan_field *field = &loader->plan.fields[mix->i_field];
    if (!field->fixed)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "images of field '%s' are mixed, and may differ in size or channels: end "
                         "the operations with one size (Resize to (height, width), Letterbox or a "
                         "crop)",
                         field->field->name);
    for (uint32_t i = 0; i < options->n_mixes; i++) {
        const char *way = (const char *)options->mixes + i * options->mix_nbytes;
        enum pst_status status =
            psti_struct_read(&mix->ways[i], sizeof mix->ways[i], way, options->mix_nbytes,
                             "struct pst_mix", "loader", err);
        if (status != PST_OK)
            return status;
        const char *problem = psti_augment_mix_problem(&mix->ways[i]);
        if (problem)
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "mixes[%u]: %s", i, problem);
        if (mix->ways[i].n_ops && mix->ways[i].kind != PST_MIX_MOSAIC)
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "mixes[%u]: operations are behind mosaics alone (n_ops)", i);
        mix->n_ways++;
    }
    if (!loader->plan.mosaics)
        return PST_OK;
    if (mix->n_ways > 1)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "mosaics are the only way of a mix");
    return psti_loader_mosaic_open(loader, err);
}

void psti_loader_mix_job(const pst_loader *loader, struct psti_loader_job *job)
{
    const struct psti_loader_mix *mix = &loader->mix;
    job->mixed = true;
    if (mix->n_ways == 0 || loader->plan.mosaics || job->failed || job->starved)
        return;
    const struct psti_loader_plan_field *field = &loader->plan.fields[mix->i_field];
    const struct psti_slot_field *slot = &loader->plan.slots[mix->i_field];
    bool planar = field->layout == PST_LAYOUT_CHW;
    struct psti_mix_images images = {
        .n_rows = pst_batch_count(job->batch),
        .channels = (uint32_t)slot->shape[planar ? 0 : 2],
        .dtype = slot->dtype,
        .layout = field->layout,
    };
    struct pst_batch_mix drawn;
    psti_loader_behind_size(loader, &images.height, &images.width);
    psti_augment_mix_draw(mix->ways, mix->n_ways, loader->options.seed, job->epoch,
                          job->positions[0], images.height, images.width, &drawn);
    drawn.is_applied = pst_batch_device(job->batch) < 0;
    if (drawn.is_applied && images.n_rows > 0) {
        images.data = psti_batch_array_row(job->batch, (uint32_t)mix->i_field, 0);
        psti_augment_mix(&images, &drawn);
    }
    psti_batch_set_mix(job->batch, &drawn);
}
