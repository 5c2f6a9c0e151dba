/* loader_draw.c - draws the random parameters of one image of a row.
 *
 * In: the row's key and the image's size, from the index or from the image's header. Out: the
 * parameters. They are the same for every caller: the code that plans a two-round read, the worker
 * that decodes, and other loaders on the shelf. No locks. */
#include "loader/loader_draw.h"

#include "loader/loader_handle.h"
#include "loader/placement/loader_placement.h"

bool psti_loader_draw_may_scale(const pst_loader *loader, const struct psti_loader_source *source,
                                const struct pst_image_info *info)
{
    return loader->placement.ops->scales && info->form == PST_FORM_PLI_JPEG && !source->is_recoded;
}

enum pst_status psti_loader_draw(const pst_loader *loader,
                                 const struct psti_loader_plan_field *plan,
                                 const struct psti_loader_source *source,
                                 const struct psti_draw_key *key, const struct pst_image_info *info,
                                 struct psti_draw *draw, struct pst_error *err)
{
    struct psti_draw_key field_key = *key;
    field_key.own = plan->own;
    enum pst_status status =
        psti_augment_chain_draw(plan->chain, &field_key, info->height, info->width, draw, err);
    if (status == PST_OK && plan->scaled_decode &&
        psti_loader_draw_may_scale(loader, source, info)) {
        bool at_top, at_left;
        psti_decode_ends(info, &plan->decode, &at_top, &at_left);
        psti_augment_chain_scale(plan->chain, draw, at_top, at_left);
    }
    if (status == PST_OK && source->picture.n_ops)
        psti_augment_chain_skip(plan->chain, draw, source->picture.n_ops);
    return status;
}
