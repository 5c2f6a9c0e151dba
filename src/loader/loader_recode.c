/* loader_recode.c - re-codes an image for the cache (decode/decode_recode.h).
 *
 * In: the bytes of an item whose row was filled. Out: the item in the form that the set keeps. The
 * worker that filled the row does it at once, with its own decoder and that decoder's scratch. All
 * other memory is at most loader->recode_nbytes, which was charged when the loader was opened. So
 * an image's size alone decides if there is memory to re-code it. One that cannot be re-coded stays
 * as it is. If options.cache_size says so, the item is a picture at the training size instead
 * (loader_training.c). */
#include "decode/decode_recode.h"
#include "loader/loader_handle.h"
#include "loader/loader_row.h"
#include "loader/loader_worker.h"

#include "dataset/dataset.h"

/* The worker's decoder may have been closed, if it could not be opened again with larger scratch.
 */
static struct psti_decoder *give_decoder(void *ctx, bool more)
{
    struct psti_loader_worker *worker = ctx;
    if (!more)
        worker->emptied = false;
    else if (!psti_loader_worker_grow(worker))
        return NULL;
    return worker->decoder;
}

static struct psti_run *give_run(void *ctx)
{
    const struct psti_loader_worker *worker = ctx;
    return worker->run;
}

struct pst_image_info psti_loader_source_raw_info(const struct psti_loader_source *source)
{
    const struct psti_training_picture *picture = &source->picture;
    if (picture->n_ops == 0)
        return psti_dataset_raw_info(&source->item);
    return (struct pst_image_info){.form = PST_FORM_RAW,
                                   .height = picture->height,
                                   .width = picture->width,
                                   .channels = picture->channels,
                                   .bits = picture->bits,
                                   .orientation = 1};
}

/* True if the row turns the mask with its leading image, which the worker has seen. */
static bool is_turned(struct psti_loader_worker *worker, const struct psti_loader_plan_field *field,
                      const struct psti_recode_source *image)
{
    uint32_t i_plan = (uint32_t)(field - worker->loader->plan.fields);
    struct pst_image_info info = image->raw;
    struct psti_pli_header pli = {0};
    if (psti_decode_probe_pli(image->bytes, (size_t)image->nbytes, image->form, &field->decode,
                              &info, &pli, NULL) != PST_OK)
        return true;
    uint8_t orientation = info.orientation;
    return psti_loader_follow_image(worker, i_plan, &info, NULL) != PST_OK ||
           info.orientation != orientation;
}

/* Makes a picture at the training size, if the rule is for the field. */
static enum psti_recode_result make_smaller(struct psti_loader_worker *worker,
                                            const struct psti_loader_plan_field *field,
                                            const struct psti_recode_tools *recode,
                                            const struct psti_recode_source *image,
                                            struct psti_buffer *out, struct psti_recoded *recoded)
{
    const struct psti_training *rule = worker->loader->training;
    const struct psti_training_field *how =
        rule ? psti_loader_training_field_of(rule, field->i_field) : NULL;
    if (!how)
        return PSTI_RECODE_NOT_FOR;
    const struct psti_training_tools tools = {
        .recode = *recode,
        .run = give_run,
        .is_turned = how->may_turn && is_turned(worker, field, image)};
    return psti_loader_training_make(&tools, how, rule->form, image, out, recoded);
}

enum psti_recode_result psti_loader_recode(struct psti_loader_worker *worker,
                                           const struct psti_loader_plan_field *field,
                                           const struct psti_loader_source *source,
                                           struct psti_buffer *out, struct psti_cache_span *item)
{
    const pst_loader *loader = worker->loader;
    const struct psti_recode_tools tools = {
        .decoder = give_decoder, .ctx = worker, .nbytes_max = loader->recode_nbytes};
    struct psti_recode_source image = {
        .bytes = source->data, .nbytes = source->item.nbytes, .form = source->item.form};
    struct psti_recoded recoded;
    uint8_t bit = PSTI_TRAINING_FORM;
    if (source->item.form == PST_FORM_RAW)
        image.raw = psti_dataset_raw_info(&source->item);
    enum psti_recode_result result = make_smaller(worker, field, &tools, &image, out, &recoded);
    if (result == PSTI_RECODE_NOT_FOR &&
        psti_recode_has_field(loader->recode_key, field->i_field)) {
        bit = 0;
        result = psti_decode_recode(&tools, psti_recode_form(loader->recode_key), &image, out,
                                    &recoded);
    }
    if (result == PSTI_RECODE_DONE)
        *item = (struct psti_cache_span){recoded.bytes, recoded.nbytes,
                                         (uint8_t)((unsigned)recoded.form | bit)};
    return result;
}
