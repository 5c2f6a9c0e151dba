/* loader_device_row.c - one image of a row on its way to a card.
 *
 * In: stored bytes and what was drawn for them. Out: a part of the slot's block: the bytes, for the
 * card to decode; or memory there for the CPU to decode into, pixels or the finished row. Which it
 * is depends on the row's number and its form, so results and counters are the same on every run;
 * only what finds no room depends on the order in which rows come, and changes nothing but speed.
 *
 * Any number of workers, each with a row of its own. No lock is taken here. */
#include "loader/loader_device.h"

#include "base/fail.h"

#include <stdio.h>
#include <string.h>

void psti_card_say_fallback(struct psti_worker *worker, const char *why)
{
    worker->n_gpu_fallback++;
    snprintf(worker->gpu_reason, sizeof worker->gpu_reason, "%.95s", why);
}

void psti_card_make_again(struct psti_worker *worker, struct psti_card_slot *slot, uint32_t row)
{
    if (slot->again[row] != PSTI_CARD_AGAIN_NO)
        return;
    slot->again[row] = PSTI_CARD_AGAIN_ROOM;
    worker->n_gpu_again++;
}

/* fill_item does it before. */
bool psti_card_is_verified(const pst_loader *loader, const struct psti_source *source)
{
    return source->item.has_checksum && !loader->options.no_verify && !source->partial;
}

enum pst_status psti_card_takes(struct psti_worker *worker, pst_batch *batch, uint32_t i_plan,
                                uint32_t row, const struct psti_source *source,
                                const struct pst_image_info *info, const struct psti_draw *draw,
                                bool *taken, struct pst_error *err)
{
    const pst_loader *loader = worker->loader;
    struct psti_card_slot *slot = psti_card_slot_of(batch);
    uint32_t i_field = loader->card->fields_of_plan[i_plan];
    const struct psti_gpu_item item = {.bytes = source->data,
                                       .nbytes = source->item.nbytes,
                                       .info = info,
                                       .is_verified = psti_card_is_verified(loader, source)};
    const struct psti_plan_field *plan = &loader->plan.fields[i_plan];
    struct psti_gpu_row_stats stats;
    struct pst_error cause;
    uint8_t channels, bits;
    *taken = false;
    psti_card_forget_files(loader->card, slot, i_field, row);
    if (worker->host_only || row >= slot->n_card_rows)
        return PST_OK;
    psti_decode_output(info, &plan->decode, &channels, &bits);
    if (bits != plan->bits) {
        psti_card_say_fallback(worker, bits == 16 ? "16 bits, and the field's first image has 8"
                                                  : "8 bits, and the field's first image has 16");
        return PST_OK;
    }
    if (worker->lanes && info->form == PST_FORM_JPEG)
        return psti_card_takes_jpeg(worker, slot, i_field, row, source, info, draw, taken, err);
    enum pst_status status =
        psti_gpu_block_row(slot->block, i_field, row, &item, draw, &stats, &cause);
    if (status == PST_ERROR_UNSUPPORTED || status == PST_ERROR_LIMIT)
        psti_card_say_fallback(worker, cause.text);
    if (status != PST_OK) /* what is bad is named by the CPU's decoder */
        return PST_OK;
    *taken = true;
    worker->n_gpu++;
    worker->n_partial += source->partial;
    worker->n_units += stats.n_units;
    worker->n_units_whole += stats.n_units_whole;
    worker->nbytes_decoded += stats.nbytes_pixels;
    worker->nbytes_upload += stats.nbytes_upload;
    return PST_OK;
}

/* Pixels of the region instead of the finished row spare the CPU all but decoding; where they are
 * more bytes than the row, the link, and the block's memory, would pay for it. */
void *psti_card_picture(struct psti_worker *worker, pst_batch *batch, uint32_t i_plan, uint32_t row,
                        const struct psti_source *source, const struct psti_draw *draw)
{
    const struct psti_card *card = worker->loader->card;
    const struct psti_plan_field *plan = &worker->loader->plan.fields[i_plan];
    struct psti_card_slot *slot = psti_card_slot_of(batch);
    uint32_t i_field = card->fields_of_plan[i_plan];
    uint64_t nbytes = (uint64_t)draw->region_height * draw->region_width * plan->channels *
                      (plan->bits == 16 ? 2 : 1);
    void *pixels;
    if (worker->host_only || row >= slot->n_card_rows || source->partial || draw->scale_log2 ||
        nbytes > psti_gpu_field_row_nbytes(card->fields[i_field]) ||
        psti_gpu_block_pixels(slot->block, i_field, row, draw, &pixels, NULL) != PST_OK)
        return NULL;
    worker->nbytes_upload += nbytes;
    return pixels;
}

void psti_card_row_done(struct psti_worker *worker, pst_batch *batch, uint32_t i_plan, uint32_t row)
{
    psti_gpu_block_done(psti_card_slot_of(batch)->block,
                        worker->loader->card->fields_of_plan[i_plan], row);
}

enum pst_status psti_card_target(struct psti_worker *worker, pst_batch *batch, uint32_t i_plan,
                                 uint32_t row, void **data, struct pst_error *err)
{
    const struct psti_card *card = worker->loader->card;
    struct psti_card_slot *slot = psti_card_slot_of(batch);
    uint32_t i_field = card->fields_of_plan[i_plan];
    enum pst_status status = psti_gpu_block_finished(slot->block, i_field, row, data, err);
    if (status == PST_OK) {
        worker->nbytes_upload += psti_gpu_field_row_nbytes(card->fields[i_field]);
        return PST_OK;
    }
    *data = NULL;
    if (status != PST_ERROR_LIMIT)
        return status;
    psti_card_make_again(worker, slot, row);
    return PST_OK;
}
