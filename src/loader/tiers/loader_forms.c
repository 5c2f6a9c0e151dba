/* loader_forms.c - divides rows over the forms in which their samples are stored.
 *
 * In: a row's turn (its number among the rows of its rank in the epoch), or its sample. Out: the
 * variant that is read. The first split gives form 0 the part f of all turns: exactly those turns p
 * with floor((p + 1) f) > floor(p f), and floor(p f) counts them. So in any run of turns the form's
 * rows differ from their part by less than one row. The other turns are split further in the same
 * way, for the next forms. */
#include "loader/tiers/loader_forms.h"

#include "base/fail.h"
#include "base/hash.h"
#include "loader/loader_handle.h"

#include <math.h>
#include <string.h>

#define ONE ((uint64_t)1 << 32)
/* Every BATCHES batches the parts of the forms may be corrected. If one resource was short in AGREE
 * of these batches, STEP of all rows move from the form that needs most of the resource to another
 * form. Each form keeps at least LEAST of the rows, so that its costs stay known. */
#define BATCHES 16
#define AGREE 12
#define STEP (1.0 / 32)
#define LEAST (1.0 / 64)
#define ROWS_KNOWN                                                                                 \
    32 /* rows in a form that must have been made before the form's measured cost is               \
        * used */

static uint64_t times(uint64_t turn, uint64_t fraction)
{
    return (uint64_t)((unsigned __int128)turn * fraction >> 32);
}

uint32_t psti_loader_forms_of_turn(const struct psti_loader_forms *forms, uint64_t turn)
{
    for (uint32_t i = 0; i + 1 < forms->n; i++) {
        uint64_t fraction = atomic_load_explicit(&forms->fractions[i], memory_order_relaxed);
        uint64_t before = times(turn, fraction);
        if (times(turn + 1, fraction) > before)
            return i;
        turn -= before;
    }
    return forms->n - 1;
}

/* Chooses the form by seed and sample only, so it is the same in all epochs and orders. */
static uint32_t form_of_sample(const struct psti_loader_forms *forms, uint64_t seed,
                               uint64_t sample)
{
    for (uint32_t i = 0; i + 1 < forms->n; i++) {
        const uint64_t words[] = {seed, sample, i};
        if (psti_hash64(words, sizeof words) >> 32 <
            atomic_load_explicit(&forms->fractions[i], memory_order_relaxed))
            return i;
    }
    return forms->n - 1;
}

void psti_loader_forms_set_fractions(struct psti_loader_forms *forms)
{
    double left = 0;
    for (uint32_t i = 0; i < forms->n; i++)
        left += forms->parts[i];
    for (uint32_t i = 0; i < forms->n; i++) {
        double fraction = left > 0 ? forms->parts[i] / left : 1;
        atomic_store_explicit(&forms->fractions[i],
                              (uint64_t)llround(fmin(fraction, 1) * (double)ONE),
                              memory_order_relaxed);
        left -= forms->parts[i];
    }
}

/* Open
 * ------------------------------------------------------------------------------------------------
 */

static enum pst_status check_part(const pst_loader *loader, const struct pst_form_part *part,
                                  const struct psti_loader_plan_field *plan, struct pst_error *err)
{
    const char *name = plan->field->name;
    if (!isfinite(part->part) || part->part <= 0)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': the part of a form is %g: more than 0 is expected", name,
                         part->part);
    if (part->form == PST_FORM_NONE && part->variant >= plan->field->n_variants)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s' of %s has %u variants, there is no number %u", name,
                         pst_dataset_path(loader->dataset), plan->field->n_variants, part->variant);
    if ((unsigned)part->form > PST_FORM_BYTES)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "there is no form %d", (int)part->form);
    if (part->form != PST_FORM_NONE && !psti_loader_plan_allows_form(plan, part->form))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': the form %s has a part, and form_mask does not allow it",
                         name, pst_form_name(part->form));
    return PST_OK;
}

/* Returns the number of the plan field whose forms are divided; n_fields: there is none. */
static uint32_t find_field(const pst_loader *loader)
{
    const char *name = loader->options.form_field;
    uint32_t i = 0;
    for (; i < loader->plan.n_fields; i++) {
        const struct psti_loader_plan_field *plan = &loader->plan.fields[i];
        bool fits = plan->field->type == PST_FIELD_IMAGE || plan->field->type == PST_FIELD_MASK;
        if (name ? strcmp(plan->field->name, name) == 0
                 : fits && plan->field->type == PST_FIELD_IMAGE)
            return fits ? i : loader->plan.n_fields;
    }
    return i;
}

/* Refuses fields whose batches would depend on the form, unless forms are chosen by sample:
 * delivered stored bytes, and scaled decodes, which only pli-jpeg has. */
static enum pst_status check_choice(const struct pst_loader_options *options,
                                    const struct psti_loader_plan_field *plan,
                                    struct pst_error *err)
{
    const char *name = plan->field->name;
    if (options->form_choice == PST_FORM_CHOICE_SAMPLES)
        return PST_OK;
    if (plan->fill == PSTI_LOADER_FILL_BYTES)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s' is delivered as stored bytes, which differ from form to form: "
                         "form_parts by turn would change the batches; choose forms by sample",
                         name);
    if (plan->scaled_decode)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s' has scaled_decode, which gives other pixels for pli-jpeg than "
                         "for other forms: form_parts by turn would change the batches; choose "
                         "forms by sample",
                         name);
    return PST_OK;
}

enum pst_status psti_loader_forms_open(pst_loader *loader, struct pst_error *err)
{
    const struct pst_loader_options *options = &loader->options;
    struct psti_loader_forms *forms = &loader->forms;
    uint32_t n = options->n_form_parts;
    if (n == 0)
        return PST_OK;
    if (n > PST_MAX_VARIANTS || !options->form_parts || !options->form_part_nbytes ||
        (unsigned)options->form_choice > PST_FORM_CHOICE_MEASURED)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "form_parts are 1 to %d, with form_part_nbytes and a known form_choice",
                         PST_MAX_VARIANTS);
    forms->i_plan = find_field(loader);
    if (forms->i_plan == loader->plan.n_fields)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "form_parts are for an image or a mask that is delivered: %s is not",
                         options->form_field ? options->form_field : "none");
    if (!pst_dataset_is_packed(loader->dataset))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "form_parts are for packed data sets; in a plain folder each item has "
                         "one form");
    const struct psti_loader_plan_field *plan = &loader->plan.fields[forms->i_plan];
    enum pst_status refused = check_choice(options, plan, err);
    if (refused != PST_OK)
        return refused;
    for (uint32_t i = 0; i < n; i++) {
        struct pst_form_part part = {0};
        size_t nbytes = options->form_part_nbytes;
        memcpy(&part, (const char *)options->form_parts + i * nbytes,
               nbytes < sizeof part ? nbytes : sizeof part);
        enum pst_status status = check_part(loader, &part, plan, err);
        if (status != PST_OK)
            return status;
        forms->forms[i] = part.form;
        forms->variants[i] = part.variant;
        forms->parts[i] = part.part;
    }
    forms->choice = options->form_choice;
    forms->n = n;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += forms->parts[i];
    for (uint32_t i = 0; i < n; i++)
        forms->parts[i] /= sum;
    psti_loader_forms_set_fractions(forms);
    return PST_OK;
}

/* Rows
 * ------------------------------------------------------------------------------------------------
 */

/* Finds the variant of the sample that is stored in form number i. False: the sample lacks it, or
 * it is not allowed. */
static bool find_variant(const pst_loader *loader, const struct psti_loader_plan_field *plan,
                         uint64_t sample, uint32_t i, uint32_t *variant, struct pst_item *item)
{
    const struct psti_loader_forms *forms = &loader->forms;
    for (uint32_t v = 0; v < plan->field->n_variants; v++) {
        if (!(plan->variant_mask & (1u << v)) ||
            (forms->forms[i] == PST_FORM_NONE && v != forms->variants[i]))
            continue;
        if (pst_dataset_item(loader->dataset, sample, plan->i_field, v, item, sizeof *item, NULL) !=
                PST_OK ||
            !psti_loader_plan_item_is_there(loader->dataset, item) ||
            !psti_loader_plan_allows_form(plan, item->form) ||
            (forms->forms[i] != PST_FORM_NONE && item->form != forms->forms[i]))
            continue;
        *variant = v;
        return true;
    }
    return false;
}

static bool have_same_pixels(const struct pst_item *a, const struct pst_item *b)
{
    return a->has_pixel_checksum && b->has_pixel_checksum &&
           a->pixel_checksum == b->pixel_checksum && a->height == b->height &&
           a->width == b->width && a->channels == b->channels && a->bits == b->bits &&
           a->orientation == b->orientation;
}

void psti_loader_forms_choose(pst_loader *loader, uint64_t turn, struct psti_loader_source *source)
{
    struct psti_loader_forms *forms = &loader->forms;
    const struct psti_loader_plan_field *plan = &loader->plan.fields[forms->i_plan];
    bool by_sample = forms->choice == PST_FORM_CHOICE_SAMPLES;
    uint32_t variant = source->variant;
    struct pst_item item;
    source->i_form = PSTI_LOADER_NO_FORM;
    if (!by_sample && turn == PSTI_LOADER_NO_TURN)
        return;
    uint32_t i = by_sample ? form_of_sample(forms, loader->options.seed, source->sample)
                           : psti_loader_forms_of_turn(forms, turn);
    if (!find_variant(loader, plan, source->sample, i, &variant, &item) ||
        (variant != source->variant && !by_sample && !have_same_pixels(&item, &source->item))) {
        atomic_fetch_add_explicit(&forms->n_other, 1, memory_order_relaxed);
        return;
    }
    source->item = item;
    source->variant = variant;
    source->i_form = i;
    atomic_fetch_add_explicit(&forms->rows[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&forms->nbytes[i], item.nbytes, memory_order_relaxed);
}

bool psti_loader_forms_item(const pst_loader *loader, uint32_t i_plan, uint64_t turn,
                            uint64_t sample, struct pst_item *item)
{
    const struct psti_loader_forms *forms = &loader->forms;
    uint32_t variant;
    return forms->n && forms->i_plan == i_plan &&
           find_variant(loader, &loader->plan.fields[i_plan], sample,
                        psti_loader_forms_of_turn(forms, turn), &variant, item);
}

void psti_loader_forms_clock(pst_loader *loader, const struct psti_loader_source *sources,
                             int64_t ns)
{
    struct psti_loader_forms *forms = &loader->forms;
    int i_item = loader->plan.fields[forms->i_plan].i_item;
    uint32_t i = i_item < 0 ? PSTI_LOADER_NO_FORM : sources[i_item].i_form;
    if (i < forms->n && ns > 0)
        atomic_fetch_add_explicit(&forms->ns[i], (uint64_t)ns, memory_order_relaxed);
}

/* Corrections
 * ------------------------------------------------------------------------------------------------
 */

/* Moves STEP of the rows from the form that needs most of a resource to the form that needs least.
 * taken: the amount of the resource that the rows of each form have used so far. */
static bool move(struct psti_loader_forms *forms, const atomic_uint_fast64_t *taken)
{
    uint32_t most = UINT32_MAX, least = UINT32_MAX;
    double amounts[PST_MAX_VARIANTS];
    for (uint32_t i = 0; i < forms->n; i++) {
        uint64_t n = atomic_load_explicit(&forms->rows[i], memory_order_relaxed);
        if (n < ROWS_KNOWN)
            continue;
        amounts[i] = (double)atomic_load_explicit(&taken[i], memory_order_relaxed) / (double)n;
        if (least == UINT32_MAX || amounts[i] < amounts[least])
            least = i;
        if (forms->parts[i] > LEAST + STEP / 2 &&
            (most == UINT32_MAX || amounts[i] > amounts[most]))
            most = i;
    }
    if (most == UINT32_MAX || most == least || amounts[most] <= 1.02 * amounts[least])
        return false;
    double step = fmin(STEP, forms->parts[most] - LEAST);
    forms->parts[most] -= step;
    forms->parts[least] += step;
    psti_loader_forms_set_fractions(forms);
    return true;
}

void psti_loader_forms_correct(pst_loader *loader)
{
    struct psti_loader_forms *forms = &loader->forms;
    if (forms->n < 2 || forms->choice != PST_FORM_CHOICE_MEASURED)
        return;
    uint64_t n_running, n_whole;
    psti_loader_meter_count_batches(loader, &n_running, &n_whole);
    bool waits = loader->in_memory || loader->queue.n_ready >= loader->crew.n;
    /* Gathered rows are read before their batches have slots, so reads alone do not mean that a
     * batch waits for them. */
    bool idles =
        !waits && loader->queue.n_ready == 0 && loader->queue.n_reading > 0 && n_running > 0;
    /* If finished batches wait for the caller, no resource is short. */
    bool is_fed = loader->queue.issue_step >= loader->epoch.next_step + loader->epoch.ahead &&
                  !waits && !idles;
    forms->n_seen++;
    forms->n_short_of_cores += waits && !is_fed;
    forms->n_short_of_storage += idles && !is_fed;
    if (forms->n_seen < BATCHES)
        return;
    if (forms->n_short_of_cores >= AGREE)
        forms->n_corrections += move(forms, forms->ns);
    else if (forms->n_short_of_storage >= AGREE)
        forms->n_corrections += move(forms, forms->nbytes);
    forms->n_seen = forms->n_short_of_cores = forms->n_short_of_storage = 0;
}

void psti_loader_forms_stats(const pst_loader *loader, struct pst_loader_stats *stats)
{
    const struct psti_loader_forms *forms = &loader->forms;
    for (uint32_t i = 0; i < forms->n; i++) {
        stats->form_parts[i] = forms->parts[i];
        stats->form_rows[i] = atomic_load_explicit(&forms->rows[i], memory_order_relaxed);
    }
    stats->n_form_rows_other = atomic_load_explicit(&forms->n_other, memory_order_relaxed);
    stats->n_form_corrections = forms->n_corrections;
}
