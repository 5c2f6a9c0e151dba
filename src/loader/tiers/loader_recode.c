/* loader_recode.c - re-codes an image for the cache (decode/decode_recode.h).
 *
 * In: the bytes of an item whose row was filled. Out: the item in the form that the cache's set
 * keeps. The worker that filled the row does this at once, with its own decoder and that decoder's
 * scratch. All other memory is at most loader->kept.recode_nbytes, charged when the loader was
 * opened. So only the size of an image decides whether there is memory to re-code it. An image that
 * cannot be re-coded is kept as stored. With options.cache_resolution, the kept item is a picture
 * at the training size instead (loader_training.c). */
#include "decode/decode_recode.h"
#include "loader/loader_follow.h"
#include "loader/loader_handle.h"
#include "loader/tiers/loader_kept.h"
#include "loader/tiers/loader_recode.h"
#include "loader/loader_worker.h"

#include "dataset/dataset.h"

/* Returns the worker's decoder, with more scratch if `more` is set. NULL: it cannot have more
 * scratch, or it could not be opened again. */
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

/* True if the row rotates the mask with its leading image, whose header the worker has read. */
static bool is_turned(struct psti_loader_worker *worker, const struct psti_loader_plan_field *field,
                      const struct psti_recode_source *image)
{
    uint32_t i_plan = (uint32_t)(field - worker->loader->plan.fields);
    struct pst_image_info info = image->raw;
    struct psti_pli_header pli = {0};
    const struct pst_decode_options options =
        psti_decode_options_for(&field->decode, image->orientation);
    if (psti_decode_probe_pli(image->bytes, (size_t)image->nbytes, image->form, &options, &info,
                              &pli, NULL) != PST_OK)
        return true;
    uint8_t orientation = info.orientation;
    return psti_loader_follow_image(worker, i_plan, &info, NULL) != PST_OK ||
           info.orientation != orientation;
}

static const struct psti_training_field *rule_of(const struct psti_loader_worker *worker,
                                                 const struct psti_loader_plan_field *field)
{
    const struct psti_training *rule = worker->loader->kept.training;
    return rule ? psti_loader_training_field_of(rule, field->i_field) : NULL;
}

/* Returns tools that may allocate the rest of the memory for re-coding. held: bytes already in
 * use. */
static struct psti_recode_tools tools_with(struct psti_loader_worker *worker, uint64_t held)
{
    uint64_t most = worker->loader->kept.recode_nbytes;
    return (struct psti_recode_tools){
        .decoder = give_decoder, .ctx = worker, .nbytes_max = held < most ? most - held : 0};
}

/* Returns tools for re-coding item i_item of the row, with the memory that the row's other pictures
 * leave. */
static struct psti_recode_tools tools_of(struct psti_loader_worker *worker, uint32_t i_item)
{
    const pst_loader *loader = worker->loader;
    uint64_t held = 0;
    for (uint32_t i = 0; worker->pictures && i < loader->plan.n_items; i++)
        held += i == i_item ? 0 : worker->pictures[i].capacity;
    return tools_with(worker, held);
}

/* Makes a picture at the training size, if the rule has the field. */
static enum psti_recode_result make_smaller(struct psti_loader_worker *worker,
                                            const struct psti_loader_plan_field *field,
                                            enum pst_cache_form form,
                                            const struct psti_recode_source *image,
                                            struct psti_buffer *out, struct psti_recoded *recoded)
{
    const struct psti_training_field *how = rule_of(worker, field);
    if (!how)
        return PSTI_RECODE_NOT_FOR;
    const struct psti_training_tools tools = {.recode = tools_of(worker, (uint32_t)field->i_item),
                                              .run = give_run,
                                              .is_turned =
                                                  how->may_turn && is_turned(worker, field, image)};
    return psti_loader_training_make(&tools, how, form, image, out, recoded);
}

static struct psti_recode_source image_of(const struct psti_loader_source *source)
{
    struct psti_recode_source image = {.bytes = source->data,
                                       .nbytes = source->item.nbytes,
                                       .form = source->item.form,
                                       .orientation = source->item.orientation};
    if (source->item.form == PST_FORM_RAW)
        image.raw = psti_dataset_raw_info(&source->item);
    return image;
}

bool psti_loader_recode_ahead(struct psti_loader_worker *worker,
                              const struct psti_loader_plan_field *field,
                              const struct psti_loader_source *source,
                              struct psti_loader_source *smaller)
{
    struct psti_recoded recoded;
    if (!source->is_wanted || source->partial || !worker->pictures || !rule_of(worker, field) ||
        !worker->decoder || !worker->run)
        return false;
    struct psti_buffer *picture = &worker->pictures[field->i_item];
    const struct psti_recode_source image = image_of(source);
    *smaller = *source;
    if (make_smaller(worker, field, PST_CACHE_FORM_RAW, &image, picture, &recoded) ==
            PSTI_RECODE_DONE &&
        psti_loader_kept_take(
            worker->loader,
            &(struct psti_cache_span){recoded.bytes, recoded.nbytes,
                                      (uint8_t)((unsigned)recoded.form | PSTI_TRAINING_FORM)},
            smaller))
        return true;
    psti_buffer_free(picture);
    return false;
}

/* Converts the picture that the row was made from to the form that the cache keeps. */
static enum psti_recode_result take_ahead(struct psti_loader_worker *worker,
                                          const struct psti_loader_plan_field *field,
                                          struct psti_buffer *picture, struct psti_buffer *out,
                                          struct psti_recoded *recoded)
{
    const struct psti_training *rule = worker->loader->kept.training;
    const struct psti_recode_tools tools = tools_of(worker, (uint32_t)field->i_item);
    if (rule->form != PST_CACHE_FORM_RAW)
        return psti_loader_training_encode(&tools, rule->form, picture->bytes, out, recoded) ==
                       PST_OK
                   ? PSTI_RECODE_DONE
                   : PSTI_RECODE_FAILED;
    *out = *picture;
    *picture = (struct psti_buffer){0};
    *recoded =
        (struct psti_recoded){out->bytes, psti_loader_training_nbytes(out->bytes), PST_FORM_RAW};
    return PSTI_RECODE_DONE;
}

/* Re-codes the whole image, if the cache's key has the field. */
static enum psti_recode_result recode_whole(struct psti_loader_worker *worker, uint32_t i_field,
                                            const struct psti_recode_tools *tools,
                                            const struct psti_loader_source *source,
                                            struct psti_buffer *out, struct psti_recoded *recoded)
{
    uint64_t key = worker->loader->kept.recode_key;
    if (!psti_recode_has_field(key, i_field))
        return PSTI_RECODE_NOT_FOR;
    const struct psti_recode_source image = image_of(source);
    return psti_decode_recode(tools, psti_recode_form(key), &image, out, recoded);
}

enum psti_recode_result psti_loader_recode_later(struct psti_loader_worker *worker,
                                                 enum psti_recode_form form,
                                                 const struct psti_loader_source *source,
                                                 uint64_t held, struct psti_buffer *out,
                                                 struct psti_cache_span *item)
{
    struct psti_recoded recoded;
    const struct psti_recode_tools tools = tools_with(worker, held);
    const struct psti_recode_source image = image_of(source);
    enum psti_recode_result result = psti_decode_recode(&tools, form, &image, out, &recoded);
    if (result == PSTI_RECODE_DONE)
        *item = (struct psti_cache_span){recoded.bytes, recoded.nbytes, (uint8_t)recoded.form};
    return result;
}

enum psti_recode_result psti_loader_recode(struct psti_loader_worker *worker,
                                           const struct psti_loader_plan_field *field,
                                           const struct psti_loader_source *source,
                                           struct psti_buffer *out, struct psti_cache_span *item)
{
    const pst_loader *loader = worker->loader;
    const struct psti_recode_source image = image_of(source);
    struct psti_buffer *picture = worker->pictures ? &worker->pictures[field->i_item] : NULL;
    struct psti_recoded recoded;
    uint8_t bit = PSTI_TRAINING_FORM;
    enum psti_recode_result result = PSTI_RECODE_NOT_FOR;
    if (picture && picture->bytes)
        result = take_ahead(worker, field, picture, out, &recoded);
    else if (loader->kept.training)
        result = make_smaller(worker, field, loader->kept.training->form, &image, out, &recoded);
    if (result == PSTI_RECODE_NOT_FOR) {
        const struct psti_recode_tools tools = tools_of(worker, (uint32_t)field->i_item);
        bit = 0;
        result = recode_whole(worker, field->i_field, &tools, source, out, &recoded);
    }
    if (result == PSTI_RECODE_DONE)
        *item = (struct psti_cache_span){recoded.bytes, recoded.nbytes,
                                         (uint8_t)((unsigned)recoded.form | bit)};
    return result;
}
