/* pack_assign.c - decides which samples get which variants, by a plan file or in a change in place.
 *
 * It runs once, before a sample is packed. A sample's class follows from the form and the number of
 * pixels of its image, which a data set's index has. For a folder, several threads read the headers
 * of all files. Then one pass in the order of samples gives each sample the way that is furthest
 * behind its share, so the result never depends on the number of threads. */
#include "pack/pack_int.h"
#include "verify/verify.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/thread.h"
#include "dataset/dataset.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

enum { MAX_THREADS = 64, HEAD_NBYTES = 1 << 16, CHUNK = 64 };

/* Classes ------------------------------------------------------------------- */

/* Threads that find the classes of a folder's samples share this. */
struct probes {
    struct psti_pack_plan *plan;
    uint64_t n_samples;
    _Atomic uint64_t next;
    atomic_bool out_of_memory;
};

/* Returns 1 + the number of the class that such samples belong to; 0 if there is none. */
static uint32_t class_of(const struct psti_pack_mix *mix, enum pst_form form, uint64_t n_pixels)
{
    for (uint32_t i = 0; i < mix->n_classes; i++) {
        const struct psti_pack_class *class_ = &mix->classes[i];
        if (class_->form == form && class_->least <= n_pixels && n_pixels < class_->end)
            return i + 1;
    }
    return 0;
}

/* Reads the first bytes of a folder's file, or all of it if that is not enough. A file that cannot
 * be read, or is no image, gets no class; packing meets the same problem later and reports it. */
static uint32_t probe(const struct psti_pack_plan *plan, struct psti_decoder *decoder,
                      struct psti_buffer *blob, uint64_t sample)
{
    struct pst_decode_options options;
    uint32_t i_source = plan->source_field[plan->mix_field];
    struct pst_item item;
    psti_verify_decode_options(plan->fields[plan->mix_field].type, &options);
    if (pst_dataset_item(plan->source, sample, i_source, 0, &item, sizeof item, NULL) != PST_OK)
        return 0;
    psti_dataset_item_decoded(&item);
    for (uint64_t n = HEAD_NBYTES;; n = item.nbytes) {
        struct pst_image_info info = {0};
        n = n < item.nbytes ? n : item.nbytes;
        if (psti_buffer_reserve(blob, n, "pack", "of an item", NULL) != PST_OK ||
            pst_dataset_read(plan->source, sample, i_source, 0, 0, n, blob->bytes, NULL) != PST_OK)
            return 0;
        if (psti_decode_probe(decoder, blob->bytes, (size_t)n, item.form, &options, &info, NULL) ==
            PST_OK)
            return class_of(&plan->mix, info.form, (uint64_t)info.height * info.width);
        if (n == item.nbytes)
            return 0;
    }
}

static void probe_some(void *ctx)
{
    struct probes *probes = ctx;
    struct psti_decoder *decoder = NULL;
    struct psti_buffer blob = {0};
    if (psti_decode_open(&decoder, NULL) != PST_OK)
        atomic_store(&probes->out_of_memory, true);
    while (decoder != NULL) {
        uint64_t first = atomic_fetch_add(&probes->next, CHUNK);
        for (uint64_t s = first; s < first + CHUNK && s < probes->n_samples; s++)
            probes->plan->way_of[s] = probe(probes->plan, decoder, &blob, s);
        if (first >= probes->n_samples)
            break;
    }
    psti_decode_close(&decoder);
    psti_buffer_free(&blob);
}

static enum pst_status classify_folder(struct psti_pack_plan *plan, uint32_t n_threads,
                                       struct pst_error *err)
{
    struct probes probes = {.plan = plan, .n_samples = pst_dataset_count(plan->source)};
    pthread_t threads[MAX_THREADS];
    uint32_t n_started = 0;
    enum pst_status status = PST_OK;
    n_threads = n_threads == 0 ? psti_thread_cores() : n_threads;
    n_threads = n_threads > MAX_THREADS ? MAX_THREADS : n_threads;
    while (status == PST_OK && n_started < n_threads && n_started * CHUNK <= probes.n_samples) {
        status = psti_thread_start(&threads[n_started], "pack", probe_some, &probes, err);
        n_started += status == PST_OK;
    }
    for (uint32_t i = 0; i < n_started; i++)
        psti_thread_join(threads[i]);
    if (status == PST_OK && atomic_load(&probes.out_of_memory))
        status = psti_fail(err, PST_ERROR_MEMORY, "pack", "out of memory for a decoder");
    return status;
}

/* Returns 1 + the index of the last variant that the sample has. */
static uint32_t n_present(const struct pst_item *items, uint32_t n)
{
    while (n > 0 && items[n - 1].form == PST_FORM_NONE)
        n--;
    return n;
}

static enum pst_status load_items(const struct psti_pack_plan *plan, uint32_t i_field,
                                  uint64_t sample, struct pst_item items[PST_MAX_VARIANTS],
                                  uint32_t *n, struct pst_error *err)
{
    uint32_t i_source = plan->source_field[i_field];
    enum pst_status status = PST_OK;
    *n = pst_dataset_field(plan->source, i_source)->n_variants;
    for (uint32_t v = 0; status == PST_OK && v < *n; v++) {
        status =
            pst_dataset_item(plan->source, sample, i_source, v, &items[v], sizeof items[v], err);
        if (status == PST_OK)
            psti_dataset_item_decoded(&items[v]);
    }
    return status;
}

/* Finds the classes of a data set's samples, by the form of the first variant. */
static enum pst_status classify_dataset(struct psti_pack_plan *plan, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint64_t s = 0; status == PST_OK && s < pst_dataset_count(plan->source); s++) {
        struct pst_item items[PST_MAX_VARIANTS];
        uint32_t n, v = 0;
        status = load_items(plan, plan->mix_field, s, items, &n, err);
        while (status == PST_OK && v < n && items[v].form == PST_FORM_NONE)
            v++;
        if (status == PST_OK && v < n)
            plan->way_of[s] =
                class_of(&plan->mix, items[v].form, (uint64_t)items[v].height * items[v].width);
    }
    return status;
}

/* Ways ---------------------------------------------------------------------- */

/* Returns the way for sample k of a class: the first of those that are furthest behind their share.
 * A rounded product makes the same choice on every processor. */
static uint32_t choose_way(const struct psti_pack_mix *mix, const struct psti_pack_class *class_,
                           const uint64_t *counts, uint64_t k)
{
    uint32_t best = class_->first_way;
    double most = 0;
    for (uint32_t w = class_->first_way; w < class_->first_way + class_->n_ways; w++) {
        volatile double due = mix->ways[w].share * (double)(k + 1);
        double behind = due - (double)counts[w];
        if (w == class_->first_way || behind > most) {
            best = w;
            most = behind;
        }
    }
    return best;
}

/* Replaces each sample's class by its way, and finds how many variants the field needs. */
static enum pst_status give_ways(struct psti_pack_plan *plan, struct pst_error *err)
{
    const struct psti_pack_mix *mix = &plan->mix;
    uint64_t *counts = psti_calloc((size_t)mix->n_ways + mix->n_classes + 1, sizeof *counts);
    uint64_t *of_class = counts + mix->n_ways;
    bool is_folder = !pst_dataset_is_packed(plan->source);
    uint32_t most = 1;
    enum pst_status status = PST_OK;
    if (counts == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "pack", "out of memory for a plan");
    for (uint64_t s = 0; status == PST_OK && s < pst_dataset_count(plan->source); s++) {
        uint32_t i_class = plan->way_of[s], n = 1;
        if (i_class > 0) {
            uint32_t way =
                choose_way(mix, &mix->classes[i_class - 1], counts, of_class[i_class - 1]++);
            counts[way]++;
            plan->way_of[s] = way + 1;
            n = mix->ways[way].store.n;
        } else if (!is_folder) {
            struct pst_item items[PST_MAX_VARIANTS];
            status = load_items(plan, plan->mix_field, s, items, &n, err);
            n = status == PST_OK ? n_present(items, n) : 1;
        }
        most = n > most ? n : most;
    }
    plan->fields[plan->mix_field].n_variants = (uint8_t)most;
    psti_free(counts);
    return status;
}

/* Refuses ways that would fail at the first sample of their class. */
static enum pst_status check_ways(const struct psti_pack_plan *plan, struct pst_error *err)
{
    const struct psti_pack_mix *mix = &plan->mix;
    for (uint32_t i = 0; i < mix->n_classes; i++) {
        const struct psti_pack_class *class_ = &mix->classes[i];
        for (uint32_t w = 0; w < class_->n_ways; w++) {
            const struct psti_pack_forms *store = &mix->ways[class_->first_way + w].store;
            for (uint32_t k = 0; k < store->n; k++) {
                enum pst_form form = store->forms[k];
                const char *why = NULL;
                if ((form == PST_FORM_PNG || form == PST_FORM_WEBP ||
                     (form == PST_FORM_JPEG && class_->form != PST_FORM_PLI_JPEG)) &&
                    form != class_->form)
                    why = "which is kept where it is there and never made";
                else if (mix->ways[class_->first_way + w].resize > 0 && form != PST_FORM_RAW &&
                         form != PST_FORM_PLI)
                    why = "which is not made smaller: raw and pli are";
                if (why != NULL)
                    return psti_fail(err, PST_ERROR_UNSUPPORTED, "pack",
                                     "the plan: class %" PRIu32 " (%s), way %" PRIu32
                                     ": \"store\" asks for %s, %s",
                                     i, pst_form_name(class_->form), w, pst_form_name(form), why);
            }
        }
    }
    return PST_OK;
}

/* Refuses ways that resize images where resizing is not possible. */
static enum pst_status check_resize(struct psti_pack_plan *plan, bool resumes,
                                    struct pst_error *err)
{
    uint32_t n_images = 0;
    for (uint32_t i = 0; i < plan->n_fields; i++)
        n_images += plan->fields[i].type == PST_FIELD_IMAGE;
    for (uint32_t w = 0; w < plan->mix.n_ways; w++)
        plan->resizes = plan->resizes || plan->mix.ways[w].resize > 0;
    const char *why = !plan->resizes   ? NULL
                      : plan->in_place ? "in place: give another destination"
                      : resumes        ? "when resuming: begin anew"
                      : n_images > 1   ? "of samples with several images"
                                       : NULL;
    return why == NULL ? PST_OK
                       : psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                                   "the plan: \"resize\" of a \"store\" is not possible %s", why);
}

enum pst_status psti_pack_assign(struct psti_pack_plan *plan,
                                 const struct pst_pack_options *options, struct pst_error *err)
{
    uint64_t n = pst_dataset_count(plan->source);
    enum pst_status status = psti_pack_mix_read(options->plan, &plan->mix, err);
    if (status != PST_OK)
        return status;
    plan->pli_of_lossy = true; /* a plan that asks for PLI of lossy images means it */
    int i_field = pst_dataset_find_field(plan->source, plan->mix.field);
    if (i_field < 0 || plan->fields[i_field].type != PST_FIELD_IMAGE)
        status = psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                           "the plan: its \"field\" is \"%s\", and the source has no such image",
                           plan->mix.field);
    if (status == PST_OK)
        status = check_ways(plan, err);
    if (status == PST_OK)
        status = check_resize(plan, options->writer->mode == PST_WRITER_RESUME, err);
    psti_error_set_file(status == PST_OK ? NULL : err, options->plan);
    plan->way_of = status == PST_OK ? psti_calloc(n > 0 ? n : 1, sizeof *plan->way_of) : NULL;
    if (status == PST_OK && plan->way_of == NULL)
        status = psti_fail(err, PST_ERROR_MEMORY, "pack", "out of memory for a plan");
    if (status != PST_OK)
        return status;
    plan->mix_field = (uint32_t)i_field;
    status = !pst_dataset_is_packed(plan->source) ? classify_folder(plan, options->num_workers, err)
                                                 : classify_dataset(plan, err);
    if (status == PST_OK)
        status = give_ways(plan, err);
    plan->has_mix = status == PST_OK;
    return status;
}

uint64_t psti_pack_assign_mark(const struct psti_pack_plan *plan)
{
    struct psti_hash_state state;
    /* With a plan file, samples without a way stay as they are; those of a folder keep their file.
     */
    const struct psti_pack_forms images =
        plan->has_mix ? (struct psti_pack_forms){.n = 0} : plan->images;
    const uint64_t numbers[] = {1, /* version of this list */
                                plan->has_mix,
                                plan->has_mix ? psti_pack_mix_hash(&plan->mix) : 0,
                                plan->pli.given,
                                (uint64_t)plan->pli.tier,
                                plan->pli.effort,
                                plan->pli.max_error,
                                plan->pli_of_lossy,
                                images.n,
                                plan->masks.n};
    psti_hash_begin(&state);
    psti_hash_update(&state, numbers, sizeof numbers);
    psti_hash_update(&state, images.forms, sizeof images.forms);
    psti_hash_update(&state, plan->masks.forms, sizeof plan->masks.forms);
    uint64_t mark = psti_hash_end(&state);
    return mark != 0 ? mark : 1;
}

/* In place ------------------------------------------------------------------ */

/* True if variant k already is in the wanted form. Reads a PLI's header if its tier matters. */
static bool is_as_wanted(const struct psti_pack_plan *plan, uint32_t i_field, uint64_t sample,
                         const struct pst_item *items, uint32_t n,
                         const struct psti_pack_forms *forms, uint32_t k)
{
    const struct pst_item *item = &items[k];
    struct psti_pack_pli held;
    uint8_t head[PSTI_PLI_HEADER_NBYTES];
    switch (forms->forms[k]) {
    case PST_FORM_NONE:
        return psti_pack_choose(items, n, 0, PST_FORM_NONE) == k && !pst_item_was_jpeg(item);
    case PST_FORM_PLI_JPEG: /* files other than JPEGs stay as they are */
        return item->form == PST_FORM_PLI_JPEG ||
               (item->form != PST_FORM_JPEG &&
                psti_pack_choose(items, n, 0, PST_FORM_PLI_JPEG) == k);
    case PST_FORM_PLI: {
        const struct psti_pack_pli wanted =
            psti_pack_pli_of(plan, plan->fields[i_field].type, forms, k);
        if (item->form != PST_FORM_PLI || (!wanted.given && !wanted.tier_given))
            return item->form == PST_FORM_PLI;
        return pst_dataset_read(plan->source, sample, plan->source_field[i_field], k, 0,
                                sizeof head, head, NULL) == PST_OK &&
               psti_pack_pli_read(head, sizeof head, &held) && psti_pack_pli_fits(&held, &wanted);
    }
    default:
        return item->form == forms->forms[k];
    }
}

/* Finds out whether a field of a sample stays as it is, and how many variants it then has. Sets the
 * sample's shard. */
static enum pst_status look_at(const struct psti_pack_plan *plan, uint32_t i_field, uint64_t sample,
                               bool *stays, uint32_t *n_variants, uint32_t *i_shard,
                               struct pst_error *err)
{
    struct pst_item items[PST_MAX_VARIANTS];
    const struct psti_pack_forms *forms = psti_pack_plan_forms(plan, i_field, sample);
    uint32_t n;
    enum pst_status status = load_items(plan, i_field, sample, items, &n, err);
    if (status != PST_OK)
        return status;
    uint32_t n_held = n_present(items, n);
    for (uint32_t v = 0; v < n_held; v++)
        if (items[v].form != PST_FORM_NONE)
            *i_shard = items[v].i_file;
    *n_variants = forms != NULL ? forms->n : n_held;
    if (forms == NULL)
        return PST_OK;
    *stays = *stays && n_held == forms->n;
    for (uint32_t k = 0; *stays && k < forms->n; k++)
        *stays = items[k].form != PST_FORM_NONE &&
                 is_as_wanted(plan, i_field, sample, items, n, forms, k);
    return PST_OK;
}

enum pst_status psti_pack_assign_in_place(struct psti_pack_plan *plan, struct pst_error *err)
{
    uint64_t n = pst_dataset_count(plan->source);
    uint32_t most[PST_MAX_FIELDS], n_shards = pst_dataset_n_files(plan->source), shard = 0;
    uint8_t *stays = psti_calloc(n > 0 ? n : 1, 1);
    plan->first_sample = psti_calloc((size_t)n_shards + 1, sizeof *plan->first_sample);
    plan->n_shards = n_shards;
    enum pst_status status = PST_OK;
    if (stays == NULL || plan->first_sample == NULL)
        status =
            psti_fail(err, PST_ERROR_MEMORY, "pack", "out of memory for %" PRIu64 " samples", n);
    for (uint32_t i = 0; i < PST_MAX_FIELDS; i++)
        most[i] = 1;
    for (uint64_t s = 0; status == PST_OK && s < n; s++) {
        bool same = true;
        uint32_t i_shard = UINT32_MAX;
        for (uint32_t i = 0; status == PST_OK && i < plan->n_fields; i++) {
            uint32_t n_variants = 1;
            enum pst_field_type type = plan->fields[i].type;
            if (type == PST_FIELD_INT || type == PST_FIELD_FLOAT)
                continue;
            status = look_at(plan, i, s, &same, &n_variants, &i_shard, err);
            most[i] = n_variants > most[i] ? n_variants : most[i];
        }
        stays[s] = same;
        if (status == PST_OK && (i_shard >= n_shards || i_shard < shard || i_shard > shard + 1 ||
                                 (s == 0 && i_shard != 0)))
            status = psti_fail(err, PST_ERROR_UNSUPPORTED, "pack",
                               "the data set cannot be changed in place: sample %" PRIu64
                               " does not lie in the shard behind those before, or in none. Pack "
                               "it into another data set",
                               s);
        if (status == PST_OK && i_shard > shard)
            plan->first_sample[++shard] = s;
    }
    for (uint32_t i = 0; status == PST_OK && i < plan->n_fields; i++)
        plan->fields[i].n_variants = (uint8_t)most[i];
    for (uint32_t k = shard + 1; status == PST_OK && k <= n_shards; k++)
        plan->first_sample[k] = n;
    if (status == PST_OK && n > 0 && shard + 1 != n_shards)
        status = psti_fail(err, PST_ERROR_UNSUPPORTED, "pack",
                           "the data set cannot be changed in place: a shard has no samples");
    plan->stays = stays; /* from now on, samples that stay need no forms */
    return status;
}
