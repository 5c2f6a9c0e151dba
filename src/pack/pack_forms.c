/* pack_forms.c - decides which forms a field of a sample is stored in, and from which variant of
 * the source each is made. It reads items and the plan, which is constant; any thread. */
#include "pack/pack_int.h"

const struct psti_pack_forms *psti_pack_plan_forms(const struct psti_pack_plan *plan,
                                                   uint32_t i_field, uint64_t sample)
{
    enum pst_field_type type = plan->fields[i_field].type;
    if (plan->stays != NULL && plan->stays[sample])
        return NULL;
    if (plan->has_mix && i_field == plan->mix_field && plan->way_of[sample] > 0)
        return &plan->mix.ways[plan->way_of[sample] - 1].store;
    const struct psti_pack_forms *forms = type == PST_FIELD_IMAGE  ? &plan->images
                                          : type == PST_FIELD_MASK ? &plan->masks
                                                                   : NULL;
    return forms != NULL && forms->n > 0 ? forms : NULL;
}

uint32_t psti_pack_plan_side(const struct psti_pack_plan *plan, uint64_t sample)
{
    if (plan->has_mix && plan->way_of[sample] > 0)
        return plan->mix.ways[plan->way_of[sample] - 1].resize;
    return plan->resize;
}

bool psti_pack_plan_takes_jpegs(const struct psti_pack_plan *plan, enum pst_field_type type,
                                const struct pst_item *items, uint32_t n)
{
    bool has_pli = false;
    for (uint32_t v = 0; v < n; v++)
        has_pli = has_pli || items[v].form == PST_FORM_PLI_JPEG;
    return plan->keeps_variants && type == PST_FIELD_IMAGE && !has_pli;
}

uint32_t psti_pack_choose(const struct pst_item *items, uint32_t n, uint32_t lossless,
                          enum pst_form form)
{
    const enum pst_form twin = form == PST_FORM_JPEG       ? PST_FORM_PLI_JPEG
                               : form == PST_FORM_PLI_JPEG ? PST_FORM_JPEG
                                                           : PST_FORM_NONE;
    bool wants_file = form == PST_FORM_NONE || form == PST_FORM_PLI_JPEG;
    uint32_t first = n, of_twin = n, preferred = n;
    for (uint32_t v = n; v-- > 0;) {
        const struct pst_item *item = &items[v];
        if (item->form == PST_FORM_NONE)
            continue;
        first = v;
        if (item->form == twin)
            of_twin = v;
        if (form == PST_FORM_PLI ? lossless >> v & 1 : wants_file && pst_item_is_original(item))
            preferred = v;
    }
    for (uint32_t v = 0; v < n && form != PST_FORM_NONE; v++)
        if (items[v].form == form)
            return v;
    return of_twin < n ? of_twin : preferred < n ? preferred : first;
}
