/* pack_resume.c - compares the samples that an interrupted pack stored with what it would store
 * now.
 *
 * In: the plan, and a writer that was just opened. Sample i of the writer's journal is compared
 * with sample i of the source, using what the journal says and what the source's listing or index
 * says. Only two of the stored items are read: the first PLI, whose header says how it was encoded;
 * and the first JPEG file that stayed a JPEG, to see whether the current options would keep it,
 * too. Samples of a finished data set that is appended to may come from anywhere and are not
 * compared. Runs once, on the calling thread. */
#include "pack/pack_int.h"
#include "verify/verify.h"
#include "writer/writer.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "dataset/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BEGIN_ANEW "bring it back, or remove the unfinished data set and begin anew"

struct check {
    const struct psti_pack_plan *plan;
    const pst_writer *writer;
    uint64_t next;                                    /* the source's next sample to compare */
    bool pli_known[PST_MAX_FIELDS][PST_MAX_VARIANTS]; /* true when an image was found to be encoded
                                                       * as the plan wants */
    bool jpeg_known; /* true when a kept JPEG was found to be one that cannot be PLI */
};

/* The stored sample that is compared, and the sample of the source. */
struct stored {
    struct check *check;
    const struct psti_pack_plan *plan;
    const char *name;
    uint64_t sample; /* number of the sample in the source */
    uint32_t i_field;
    const uint8_t *row;
};

static enum pst_status changed(const struct stored *stored, const char *what, uint64_t held,
                               uint64_t now, struct pst_error *err)
{
    psti_fail(err, PST_ERROR_ARGUMENT, "pack",
              "sample \"%s\" was packed with %" PRIu64 " %s of field %s, the source has %" PRIu64
              ": it changed since; " BEGIN_ANEW,
              stored->name, held, what, stored->plan->fields[stored->i_field].name, now);
    psti_verify_locate(err, stored->plan->source, stored->sample, NULL);
    return PST_ERROR_ARGUMENT;
}

static enum pst_status other_form(const struct stored *stored, enum pst_form held,
                                  enum pst_form wanted, struct pst_error *err)
{
    psti_fail(err, PST_ERROR_ARGUMENT, "pack",
              "the unfinished data set holds field %s of sample \"%s\" as %s, %s is asked for: "
              "resume with the forms it was begun with",
              stored->plan->fields[stored->i_field].name, stored->name, pst_form_name(held),
              wanted == PST_FORM_NONE ? "original" : pst_form_name(wanted));
    return PST_ERROR_ARGUMENT;
}

static enum pst_status load_item(const struct stored *stored, uint32_t variant,
                                 struct pst_item *item, struct pst_error *err)
{
    return psti_format_parse_item(stored->row + (size_t)variant * PSTI_ITEM_NBYTES,
                                  stored->plan->fields[stored->i_field].type, item, err);
}

/* True if the stored PLI is the source's own file, whose header does not tell how this pack
 * encodes. */
static bool is_kept_pli(const struct stored *stored, const uint8_t head[PSTI_PLI_HEADER_NBYTES])
{
    const struct psti_pack_plan *plan = stored->plan;
    uint32_t i_source = plan->source_field[stored->i_field];
    for (uint32_t v = 0; v < pst_dataset_field(plan->source, i_source)->n_variants; v++) {
        uint8_t now[PSTI_PLI_HEADER_NBYTES];
        if (pst_dataset_read(plan->source, stored->sample, i_source, v, 0, sizeof now, now, NULL) ==
                PST_OK &&
            memcmp(now, head, sizeof now) == 0)
            return true;
    }
    return false;
}

/* Checks tier, effort and max_error of a stored PLI. The first image that this pack encoded is
 * checked for all. */
static enum pst_status check_pli(const struct stored *stored, const struct psti_pack_forms *forms,
                                 uint32_t variant, const struct pst_item *item,
                                 struct pst_error *err)
{
    struct check *check = stored->check;
    const struct pst_field *field = &stored->plan->fields[stored->i_field];
    struct psti_pack_pli wanted = psti_pack_pli_of(stored->plan, field->type, forms, variant);
    struct psti_pack_pli held;
    uint8_t head[PSTI_PLI_HEADER_NBYTES];
    char held_text[64], wanted_text[64];
    bool found;
    if (check->pli_known[stored->i_field][variant])
        return PST_OK;
    enum pst_status status =
        psti_writer_read_item(check->writer, item, sizeof head, head, &found, err);
    if (status != PST_OK || !found || !psti_pack_pli_read(head, sizeof head, &held))
        return status;
    if (psti_pack_pli_equal(&held, &wanted)) {
        check->pli_known[stored->i_field][variant] = !stored->plan->has_mix;
        return PST_OK;
    }
    if (psti_pack_pli_fits(&held, &wanted) && is_kept_pli(stored, head))
        return PST_OK;
    psti_pack_pli_text(&held, held_text);
    psti_pack_pli_text(&wanted, wanted_text);
    return psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                     "the unfinished data set holds field %s of sample \"%s\" as pli of %s, and of "
                     "%s is asked for: resume with what it was begun with",
                     field->name, stored->name, held_text, wanted_text);
}

/* True if a folder's file is a PLI, judging by its first bytes. */
static bool source_is_pli(const struct stored *stored, enum pst_pli_content content)
{
    const struct psti_pack_plan *plan = stored->plan;
    uint8_t head[PSTI_PLI_HEADER_NBYTES];
    struct psti_pli_header header;
    return pst_dataset_read(plan->source, stored->sample, plan->source_field[stored->i_field], 0, 0,
                            sizeof head, head, NULL) == PST_OK &&
           psti_pli_parse_header(head, sizeof head, &header, NULL) == PST_OK &&
           header.content == content;
}

/* The source's variants of the item that is compared. */
struct originals {
    struct pst_item items[PST_MAX_VARIANTS];
    uint32_t n;
    bool is_folder;
};

static enum pst_status load_originals(const struct stored *stored, struct originals *originals,
                                      struct pst_error *err)
{
    const struct psti_pack_plan *plan = stored->plan;
    uint32_t i_source = plan->source_field[stored->i_field];
    enum pst_status status = PST_OK;
    originals->n = pst_dataset_field(plan->source, i_source)->n_variants;
    originals->is_folder = !pst_dataset_is_packed(plan->source);
    for (uint32_t v = 0; status == PST_OK && v < originals->n; v++) {
        status = pst_dataset_item(plan->source, stored->sample, i_source, v, &originals->items[v],
                                  sizeof originals->items[v], err);
        if (status == PST_OK)
            psti_dataset_item_decoded(&originals->items[v]);
    }
    return status;
}

/* Returns the variant from which `wanted` would be made now; NULL if the sample has none. A folder
 * has one file per item, whose form is unknown yet. */
static const struct pst_item *find_original(const struct originals *originals, enum pst_form wanted)
{
    uint32_t v =
        originals->is_folder ? 0 : psti_pack_choose(originals->items, originals->n, 0, wanted);
    return v < originals->n ? &originals->items[v] : NULL;
}

/* Checks a JPEG that was stored as a JPEG although JPEGs are to become PLI: it must still fail to
 * become one. Only the first such JPEG is checked, because converting all of them again costs too
 * much. */
static enum pst_status check_stays(const struct stored *stored, const struct pst_item *from,
                                   uint32_t variant, struct pst_error *err)
{
    const struct psti_pack_plan *plan = stored->plan;
    size_t nbytes = (size_t)from->nbytes, pli_nbytes;
    if (stored->check->jpeg_known || nbytes < 2)
        return PST_OK;
    stored->check->jpeg_known = true;
    uint8_t *jpeg = psti_alloc(nbytes), *pli = psti_alloc(nbytes);
    enum pst_status status = PST_OK;
    if (jpeg == NULL || pli == NULL)
        status = psti_fail(err, PST_ERROR_MEMORY, "pack", "out of memory for an item of %zu bytes",
                           nbytes);
    if (status == PST_OK)
        status = pst_dataset_read(plan->source, stored->sample, plan->source_field[stored->i_field],
                                  variant, 0, nbytes, jpeg, err);
    if (status == PST_OK &&
        pst_pli_from_jpeg(jpeg, nbytes, NULL, pli, nbytes - 1, &pli_nbytes, NULL) == PST_OK)
        status = other_form(stored, PST_FORM_JPEG, PST_FORM_PLI_JPEG, err);
    psti_free(jpeg);
    psti_free(pli);
    return status;
}

/* Checks a variant in which JPEGs become PLI if they can, and other images stay unchanged. */
static enum pst_status check_pli_jpeg(const struct stored *stored,
                                      const struct originals *originals,
                                      const struct pst_item *from, const struct pst_item *item,
                                      struct pst_error *err)
{
    if (item->form == PST_FORM_PLI_JPEG) {
        bool is_kept =
            originals->is_folder ? item->nbytes == from->nbytes : from->form == PST_FORM_PLI_JPEG;
        uint64_t held = is_kept ? item->nbytes : item->jpeg_nbytes;
        return held == from->nbytes ? PST_OK : changed(stored, "bytes", held, from->nbytes, err);
    }
    if (originals->is_folder ? item->form == PST_FORM_RAW : item->form != from->form)
        return other_form(stored, item->form, PST_FORM_PLI_JPEG, err);
    if (item->nbytes != from->nbytes && item->form == PST_FORM_PLI && originals->is_folder &&
        !source_is_pli(stored, PST_PLI_CONTENT_PIXELS))
        return other_form(stored, item->form, PST_FORM_PLI_JPEG, err);
    if (item->nbytes != from->nbytes)
        return changed(stored, "bytes", item->nbytes, from->nbytes, err);
    return item->form == PST_FORM_JPEG
               ? check_stays(stored, from, (uint32_t)(from - originals->items), err)
               : PST_OK;
}

/* Checks a stored JPEG, which may be the source's file or may have been restored from a PLI. */
static enum pst_status check_jpeg(const struct stored *stored, const struct originals *originals,
                                  const struct pst_item *from, const struct pst_item *item,
                                  struct pst_error *err)
{
    uint64_t now = from->form == PST_FORM_PLI_JPEG ? from->jpeg_nbytes : from->nbytes;
    if (item->form != PST_FORM_JPEG)
        return other_form(stored, item->form, PST_FORM_JPEG, err);
    if (item->nbytes == now ||
        (originals->is_folder && source_is_pli(stored, PST_PLI_CONTENT_JPEG)))
        return PST_OK;
    return changed(stored, "bytes", item->nbytes, now, err);
}

/* Checks that a stored variant has the form `wanted`. */
static enum pst_status check_form(const struct stored *stored, const struct originals *originals,
                                  const struct psti_pack_forms *forms, uint32_t variant,
                                  struct pst_error *err)
{
    const enum pst_form wanted = forms->forms[variant];
    const struct pst_item *from = find_original(originals, wanted);
    struct pst_item item;
    enum pst_status status = load_item(stored, variant, &item, err);
    if (status != PST_OK)
        return status;
    if (from == NULL || item.form == PST_FORM_NONE) {
        if ((from == NULL) != (item.form == PST_FORM_NONE))
            status = changed(stored, "bytes", item.nbytes, from ? from->nbytes : 0, err);
        return status;
    }
    if (wanted == PST_FORM_PLI_JPEG)
        return check_pli_jpeg(stored, originals, from, &item, err);
    if (wanted == PST_FORM_JPEG ||
        (wanted == PST_FORM_NONE && !originals->is_folder && pst_item_was_jpeg(from)))
        return check_jpeg(stored, originals, from, &item, err);
    /* A folder's file never is raw pixels; which other form it has is known only after reading. */
    bool same = wanted != PST_FORM_NONE ? item.form == wanted
                : originals->is_folder  ? item.form != PST_FORM_RAW
                                        : item.form == from->form;
    bool is_kept = wanted != PST_FORM_PLI && (wanted != PST_FORM_RAW || from->form == PST_FORM_RAW);
    if (!same)
        return other_form(stored, item.form, wanted, err);
    if (is_kept && item.nbytes != from->nbytes) {
        bool was_made =
            wanted == PST_FORM_NONE && originals->is_folder &&
            ((item.form == PST_FORM_PLI && !source_is_pli(stored, PST_PLI_CONTENT_PIXELS)) ||
             (item.form == PST_FORM_PLI_JPEG && !source_is_pli(stored, PST_PLI_CONTENT_JPEG)));
        return was_made ? other_form(stored, item.form, wanted, err)
                        : changed(stored, "bytes", item.nbytes, from->nbytes, err);
    }
    return wanted == PST_FORM_PLI ? check_pli(stored, forms, variant, &item, err) : PST_OK;
}

/* Checks variants that the plan made from those of the source, as pack_prepare.c does. */
static enum pst_status check_forms(const struct stored *stored, const struct psti_pack_forms *forms,
                                   struct pst_error *err)
{
    struct originals originals;
    enum pst_status status = load_originals(stored, &originals, err);
    for (uint32_t k = 0; status == PST_OK && k < forms->n; k++)
        status = check_form(stored, &originals, forms, k, err);
    return status;
}

/* Checks variants that were stored unchanged, except JPEGs if the plan turns them into PLI. */
static enum pst_status check_variants(const struct stored *stored, struct pst_error *err)
{
    const struct psti_pack_plan *plan = stored->plan;
    const struct pst_field *field = &plan->fields[stored->i_field];
    struct originals originals = {0};
    enum pst_status status = load_originals(stored, &originals, err);
    bool takes_jpegs = status == PST_OK &&
                       psti_pack_plan_takes_jpegs(plan, field->type, originals.items, originals.n);
    for (uint32_t v = 0; status == PST_OK && v < field->n_variants; v++) {
        const struct pst_item *now = &originals.items[v];
        struct pst_item held;
        status = load_item(stored, v, &held, err);
        if (status != PST_OK)
            return status;
        if (takes_jpegs && now->form == PST_FORM_JPEG)
            status = check_pli_jpeg(stored, &originals, now, &held, err);
        else if (!originals.is_folder && held.form != now->form)
            status = other_form(stored, held.form, now->form, err);
        else if (held.nbytes != now->nbytes)
            status = changed(stored, "bytes", held.nbytes, now->nbytes, err);
    }
    return status;
}

static enum pst_status check_number(const struct stored *stored, struct pst_error *err)
{
    const struct psti_pack_plan *plan = stored->plan;
    uint32_t i_source = plan->source_field[stored->i_field];
    const int64_t *map = plan->class_map[stored->i_field];
    uint8_t now[8];
    enum pst_status status;
    if (plan->fields[stored->i_field].type == PST_FIELD_INT) {
        int64_t number;
        status = pst_dataset_int(plan->source, stored->sample, i_source, &number, err);
        if (status == PST_OK && map != NULL && number >= 0 &&
            number < pst_dataset_field(plan->source, i_source)->n_classes)
            number = map[number];
        memcpy(now, &number, status == PST_OK ? sizeof now : 0);
    } else {
        double number;
        status = pst_dataset_float(plan->source, stored->sample, i_source, &number, err);
        memcpy(now, &number, status == PST_OK ? sizeof now : 0);
    }
    if (status != PST_OK || memcmp(now, stored->row, sizeof now) == 0)
        return status;
    psti_fail(err, PST_ERROR_ARGUMENT, "pack",
              "sample \"%s\" was packed with another value of field %s: the source changed "
              "since; " BEGIN_ANEW,
              stored->name, plan->fields[stored->i_field].name);
    psti_verify_locate(err, plan->source, stored->sample, NULL);
    return PST_ERROR_ARGUMENT;
}

static enum pst_status check_sample(void *ctx, const struct psti_journal_sample *sample,
                                    struct pst_error *err)
{
    struct check *check = ctx;
    const struct psti_pack_plan *plan = check->plan;
    uint64_t n = pst_dataset_count(plan->source);
    struct stored stored = {
        .check = check, .plan = plan, .name = sample->name, .row = sample->rows};
    enum pst_status status = PST_OK;
    /* Samples between two stored ones are bad samples that were skipped, or already in the data
     * set. */
    for (stored.sample = check->next; stored.sample < n; stored.sample++) {
        char name[PST_NAME_CAP];
        status = pst_dataset_sample_name(plan->source, stored.sample, name, err);
        if (status != PST_OK || strcmp(name, sample->name) == 0)
            break;
    }
    if (status == PST_OK && stored.sample == n)
        return psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                         "the unfinished data set holds sample \"%s\", which the source does not "
                         "have in this place: it changed since; " BEGIN_ANEW,
                         sample->name);
    for (uint32_t i = 0; status == PST_OK && i < plan->n_fields; i++) {
        const struct pst_field *field = &plan->fields[i];
        const struct psti_pack_forms *forms = psti_pack_plan_forms(plan, i, stored.sample);
        stored.i_field = i;
        if (!psti_format_has_items(field->type))
            status = check_number(&stored, err);
        else if (forms != NULL)
            status = check_forms(&stored, forms, err);
        else
            status = check_variants(&stored, err);
        stored.row += psti_format_row_nbytes(field);
    }
    check->next = stored.sample + 1;
    return status;
}

/* Checks that labels mean the same classes as when they were stored. */
static enum pst_status check_classes(const struct psti_pack_plan *plan, const pst_writer *writer,
                                     struct pst_error *err)
{
    for (uint32_t i = 0; i < plan->n_fields && !plan->appends; i++) {
        const char *held = psti_writer_class_names(writer, i);
        for (int64_t k = 0; held != NULL && k < plan->fields[i].n_classes; k++) {
            const char *name = pst_dataset_class_name(plan->source, plan->source_field[i], k);
            if (name != NULL && strcmp(name, held) != 0)
                return psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                                 "class %" PRId64 " of field %s is \"%s\" in the unfinished data "
                                 "set and \"%s\" in the source: it changed since; " BEGIN_ANEW,
                                 k, plan->fields[i].name, held, name);
            held += strlen(held) + 1;
        }
        const uint32_t *ours = psti_writer_point_pairs(writer, i);
        const uint32_t *theirs = pst_dataset_point_pairs(plan->source, plan->source_field[i]);
        if (ours != NULL && theirs != NULL &&
            memcmp(ours, theirs, 8 * (size_t)psti_format_n_pairs(&plan->fields[i])) != 0)
            return psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                             "the pairs of points of field %s differ from those in the unfinished "
                             "data set: they changed since; " BEGIN_ANEW,
                             plan->fields[i].name);
    }
    return PST_OK;
}

enum pst_status psti_pack_resume_check(const struct psti_pack_plan *plan, const pst_writer *writer,
                                       uint64_t *n_passed, struct pst_error *err)
{
    struct check check = {.plan = plan, .writer = writer};
    enum pst_status status = check_classes(plan, writer, err);
    if (status == PST_OK)
        status = psti_writer_walk_journal(writer, check_sample, &check, err);
    *n_passed = check.next;
    if (status != PST_OK && err != NULL && err->dataset[0] == '\0')
        psti_error_set_dataset(err, psti_writer_path(writer));
    return status;
}

enum pst_status psti_pack_resume_passed(pst_writer *writer, const struct pst_sample *sample,
                                        bool *is_new, struct pst_error *err)
{
    uint64_t nbytes;
    enum pst_status status = psti_writer_check_sample(writer, sample, &nbytes, err);
    if (status != PST_OK)
        return status;
    *is_new = true;
    return psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                     "sample \"%s\" was bad or not there when those behind it were packed: the "
                     "source changed since; move it away and append it later, or begin anew",
                     sample->name);
}
