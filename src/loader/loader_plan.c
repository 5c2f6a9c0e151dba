/* loader_plan.c - plans the fields of a batch from the data set and the caller's output options
 * (wishes).
 *
 * In: the data set's fields and the caller's list of pst_field_output. Out: a plan entry and a slot
 * layout for each delivered field, in the data set's order, and a number for each stored item of a
 * row. Runs once, at open. The plan is constant afterwards, and all threads read it. */
#include "loader/rows/loader_boxes.h"
#include "loader/epoch/loader_mix.h"
#include "loader/loader_plan.h"
#include "loader/rows/loader_sound.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"
#include "dataset/dataset.h"
#include "format/format_dataset.h"
#include "format/format_geometry.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

/* Bytes that are read of a file to find the image's size. They hold the header of nearly every
 * image. With a larger header the size cannot be guessed, which is harmless. */
#define PROBE_NBYTES ((uint64_t)64 << 10)

/* The leader: the field whose random geometry the sample's other fields follow. `wish`: its output
 * options; NULL: no field leads. */
struct leader {
    const struct pst_field_output *wish;
    const char *name;
};

/* The output options of a field that the caller does not mention: all defaults. */
static const struct pst_field_output plain = {.name = NULL};

static bool is_pixels(enum pst_field_type type)
{
    return type == PST_FIELD_IMAGE || type == PST_FIELD_MASK;
}

static enum pst_status check_views(const struct pst_field *field,
                                   const struct pst_field_output *wish, struct pst_error *err)
{
    size_t n = wish->as ? strlen(wish->as) : 0;
    if (!wish->as && (wish->n_views || wish->first_view))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': n_views and first_view need a name for the views (as)",
                         field->name);
    if (!wish->as)
        return PST_OK;
    if (n == 0 || n >= sizeof((struct psti_slot_field *)0)->name)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "the name of views of field '%s' has %zu bytes: 1 to 63 are possible",
                         field->name, n);
    if (field->type != PST_FIELD_IMAGE || wish->encoded || wish->scaled_decode)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "views '%s' of field '%s': views are of images that are decoded, without "
                         "scaled_decode",
                         wish->as, field->name);
    if (wish->n_views > PST_MAX_VIEWS || wish->first_view > UINT16_MAX)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "views '%s': n_views is at most %d, first_view %d", wish->as,
                         PST_MAX_VIEWS, UINT16_MAX);
    return PST_OK;
}

static enum pst_status check_output(const struct pst_field *field,
                                    const struct pst_field_output *wish, struct pst_error *err)
{
    const char *name = field->name;
    bool is_sound = field->type == PST_FIELD_AUDIO && wish->decode_audio;
    if ((wish->decode_audio && !is_sound) || (wish->n_audio_ops && !is_sound))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s' of type %s: decode_audio is for audio, and audio_ops are for "
                         "decoded audio",
                         name, pst_field_type_name(field->type));
    if (is_sound) {
        if (wish->n_ops || wish->channels || wish->bits || wish->encoded || wish->own_geometry)
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "field '%s' is audio: it has audio_ops and dtype, and no options of "
                             "images",
                             name);
    } else if (!is_pixels(field->type)) {
        if (wish->n_ops || wish->dtype || wish->channels || wish->bits || wish->encoded ||
            wish->own_geometry)
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "field '%s' is of type %s: operations and pixel formats are for "
                             "images and masks",
                             name, pst_field_type_name(field->type));
    } else {
        uint8_t c = wish->channels;
        bool is_image = field->type == PST_FIELD_IMAGE;
        if (c != 0 && c != 1 && !(is_image && (c == 3 || c == 4 || c == PST_CHANNELS_STORED)))
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "field '%s': %u channels are not possible", name, c);
        if (wish->bits != 0 && wish->bits != 8 && wish->bits != 16)
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "field '%s': bits are 8, 16 or 0, not %u", name, wish->bits);
        if (wish->layout != PST_LAYOUT_HWC && wish->layout != PST_LAYOUT_CHW)
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "field '%s': layout %d is unknown",
                             name, (int)wish->layout);
        if (wish->n_ops && !wish->ops)
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "field '%s': n_ops is %zu but ops is NULL", name, wish->n_ops);
        if (wish->encoded && (wish->n_ops || wish->dtype))
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "field '%s': stored bytes are delivered as they are, without "
                             "operations or dtype",
                             name);
    }
    if ((int)wish->made_for < 0 || wish->made_for > PST_MADE_FOR_STORED ||
        (wish->made_for && !psti_format_lies_on_image(field->type)))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': made_for %d is not possible, it is for masks, boxes and "
                         "keypoints",
                         name, (int)wish->made_for);
    bool of_boxes = wish->min_area != 0 || wish->min_visibility != 0 || wish->keep_boxes;
    if (of_boxes && field->type != PST_FIELD_BOXES)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': min_area, min_visibility and keep_boxes are for boxes", name);
    if (!(wish->min_area >= 0) || !(wish->min_visibility >= 0 && wish->min_visibility <= 1))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': min_area is 0 or more, min_visibility 0 to 1, not %g and %g",
                         name, (double)wish->min_area, (double)wish->min_visibility);
    if ((wish->n_points || wish->says_pairs || wish->n_point_pairs) &&
        field->type != PST_FIELD_KEYPOINTS)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': n_points and point_pairs are for keypoints", name);
    enum pst_status status = check_views(field, wish, err);
    if (status != PST_OK)
        return status;
    uint32_t present = (1u << field->n_variants) - 1;
    if (wish->variant_mask && !(wish->variant_mask & present))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s' has %u variants, none of them in variant_mask 0x%x", name,
                         field->n_variants, wish->variant_mask);
    return PST_OK;
}

/* Checks that the data set and the field can honour wish->form_mask. */
static enum pst_status check_forms(const pst_dataset *dataset, const struct pst_field *field,
                                   const struct pst_field_output *wish, struct pst_error *err)
{
    uint32_t known = 1u << PST_FORM_BYTES;
    for (uint32_t form = PST_FORM_RAW; form <= PST_FORM_PLI_JPEG; form++)
        known |= 1u << form;
    if (wish->form_mask & ~known)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': form_mask 0x%x has unknown forms", field->name,
                         wish->form_mask);
    if (wish->form_mask && !pst_dataset_is_packed(dataset))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': forms can be chosen in packed data sets; in a plain folder "
                         "each item has one",
                         field->name);
    return PST_OK;
}

bool psti_loader_plan_allows_form(const struct psti_loader_plan_field *plan, enum pst_form form)
{
    return plan->form_mask == 0 || (form <= PST_FORM_BYTES && (plan->form_mask >> form & 1));
}

bool psti_loader_plan_item_is_there(const pst_dataset *dataset, const struct pst_item *item)
{
    return item->form != PST_FORM_NONE ||
           (!pst_dataset_is_packed(dataset) && item->i_file != PST_FILE_NONE);
}

/* Finds the first allowed item of the data set's first sample. It serves as an example of the
 * others. */
static bool first_item(pst_dataset *dataset, const struct psti_loader_plan_field *plan,
                       struct pst_item *item)
{
    if (pst_dataset_count(dataset) == 0)
        return false;
    for (uint32_t v = 0; v < plan->field->n_variants; v++)
        if ((plan->variant_mask & (1u << v)) &&
            pst_dataset_item(dataset, 0, plan->i_field, v, item, sizeof *item, NULL) == PST_OK &&
            psti_loader_plan_item_is_there(dataset, item) &&
            psti_loader_plan_allows_form(plan, item->form))
            return true;
    return false;
}

bool psti_loader_plan_probe_file(pst_dataset *dataset, const struct psti_loader_plan_field *plan,
                                 uint64_t sample, struct pst_image_info *info)
{
    struct pst_item item;
    bool found = false;
    if (pst_dataset_item(dataset, sample, plan->i_field, 0, &item, sizeof item, NULL) != PST_OK ||
        !psti_loader_plan_item_is_there(dataset, &item))
        return false;
    uint64_t nbytes = psti_dataset_item_nbytes(&item);
    nbytes = nbytes < PROBE_NBYTES ? nbytes : PROBE_NBYTES;
    void *head = psti_alloc(nbytes ? nbytes : 1);
    if (head &&
        pst_dataset_read(dataset, sample, plan->i_field, 0, 0, nbytes, head, NULL) == PST_OK)
        found = pst_image_probe(head, nbytes, item.form, &plan->decode, info, sizeof *info, NULL) ==
                PST_OK;
    psti_free(head);
    return found;
}

/* Returns channels and bits of the data set's first image or mask. The other images are expected to
 * have the same. */
static void stored_pixels(pst_dataset *dataset, const struct psti_loader_plan_field *plan,
                          uint8_t *channels, uint8_t *bits)
{
    struct pst_item item;
    struct pst_image_info info;
    *channels = 3;
    *bits = 8;
    if (!first_item(dataset, plan, &item))
        return;
    if (item.bits == 0 && psti_loader_plan_probe_file(dataset, plan, 0, &info)) {
        psti_decode_output(&info, &plan->decode, channels, bits);
        return;
    }
    *channels = item.channels >= 1 && item.channels <= 4 ? item.channels : 3;
    *bits = item.bits == 16 ? 16 : 8;
}

/* Guesses the size that all images have, if there seems to be one. Rows of another size get memory
 * of their own, so a wrong guess is harmless. */
static bool guess_size(pst_dataset *dataset, const struct psti_loader_plan_field *plan,
                       uint32_t size[2])
{
    struct pst_item item;
    uint64_t n = pst_dataset_count(dataset), largest, nbytes;
    if (!first_item(dataset, plan, &item))
        return false;
    if (item.height && item.width) {
        size[0] = item.height;
        size[1] = item.width;
        if (plan->decode.ignore_orientation && item.orientation >= 5) {
            size[0] = item.width;
            size[1] = item.height;
        }
        largest = pst_dataset_max_pixels_nbytes(dataset, plan->i_field);
        nbytes = (uint64_t)item.height * item.width * item.channels * (item.bits == 16 ? 2 : 1);
        /* accept twice the bytes, because the largest item may have the same size and 16 bits */
        return largest == nbytes || (item.bits == 8 && largest == 2 * nbytes);
    }
    struct pst_image_info info[3];
    const uint64_t samples[3] = {0, n / 2, n - 1};
    for (int i = 0; i < 3; i++)
        if (!psti_loader_plan_probe_file(dataset, plan, samples[i], &info[i]) ||
            info[i].height != info[0].height || info[i].width != info[0].width)
            return false;
    size[0] = info[0].height;
    size[1] = info[0].width;
    return true;
}

static void set_image_shape(struct psti_slot_field *slot, const struct psti_loader_plan_field *plan,
                            uint32_t height, uint32_t width)
{
    slot->ndim = 3;
    if (plan->layout == PST_LAYOUT_CHW) {
        slot->shape[0] = plan->channels;
        slot->shape[1] = height;
        slot->shape[2] = width;
    } else {
        slot->shape[0] = height;
        slot->shape[1] = width;
        slot->shape[2] = plan->channels;
    }
}

/* Names operation i for a message, such as "operation 1 (Pad)", or says that there is none. */
static const char *name_op(const struct pst_op *ops, size_t n_ops, size_t i, char text[48])
{
    if (i < n_ops)
        snprintf(text, 48, "operation %zu (%s)", i, psti_augment_op_name(ops[i].kind));
    else
        snprintf(text, 48, "no operation");
    return text;
}

/* Chooses the operations of a field. If the caller gave it some, they must have the leader's
 * geometry. Otherwise the field gets the leader's operations that move pixels. leader: NULL for a
 * field that follows none. */
static enum pst_status choose_ops(const struct pst_field_output *wish,
                                  const struct pst_field_output *leader, const char *leader_name,
                                  const struct psti_loader_plan_field *plan,
                                  struct pst_op ops[PSTI_AUGMENT_MAX_OPS], size_t *n_ops,
                                  struct pst_error *err)
{
    bool is_mask = plan->field->type == PST_FIELD_MASK;
    size_t i_own, i_leader;
    const struct pst_field_output *from = wish->n_ops == 0 && leader ? leader : wish;
    if (from->n_ops > PSTI_AUGMENT_MAX_OPS)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': %zu operations; a chain holds at most %d", plan->field->name,
                         from->n_ops, PSTI_AUGMENT_MAX_OPS);
    if (from == leader) {
        *n_ops = psti_augment_ops_follow(leader->ops, leader->n_ops, is_mask, ops);
        return PST_OK;
    }
    *n_ops = wish->n_ops;
    for (size_t i = 0; i < wish->n_ops; i++) {
        ops[i] = wish->ops[i];
        if (is_mask)
            ops[i].interpolation = psti_augment_op_mask_interpolation(&wish->ops[i]);
    }
    if (!leader || psti_augment_ops_move_alike(wish->ops, wish->n_ops, leader->ops, leader->n_ops,
                                               &i_own, &i_leader))
        return PST_OK;
    char own_op[48], leader_op[48];
    return psti_fail(
        err, PST_ERROR_ARGUMENT, "loader",
        "fields '%s' and '%s' would be moved differently: %s of '%s' against %s of '%s' is the "
        "first difference; leave out the operations of '%s' to let it follow, or give it a "
        "geometry of its own (own_geometry)",
        plan->field->name, leader_name, name_op(wish->ops, wish->n_ops, i_own, own_op),
        plan->field->name, name_op(leader->ops, leader->n_ops, i_leader, leader_op), leader_name,
        plan->field->name);
}

static enum pst_status plan_pixels(pst_dataset *dataset, const struct pst_loader_options *options,
                                   const struct pst_field_output *wish, const struct leader *leader,
                                   struct psti_loader_plan_field *plan,
                                   struct psti_slot_field *slot, struct pst_error *err)
{
    struct pst_op ops[PSTI_AUGMENT_MAX_OPS];
    struct pst_field_output chosen = *wish;
    uint8_t channels, bits;
    plan->follows = leader->wish && leader->wish != wish && !wish->own_geometry && !wish->as;
    plan->own = wish->own_geometry ? plan->i_field + 1 : 0;
    plan->shows_stored = wish->ignore_orientation;
    enum pst_status status = choose_ops(wish, plan->follows ? leader->wish : NULL, leader->name,
                                        plan, ops, &chosen.n_ops, err);
    if (status != PST_OK)
        return status;
    chosen.ops = ops;
    plan->layout = wish->layout;
    plan->scaled_decode = wish->scaled_decode && plan->field->type == PST_FIELD_IMAGE;
    for (size_t i = 0; i < chosen.n_ops; i++)
        plan->moves = plan->moves || psti_augment_op_is_geometric(ops[i].kind) ||
                      psti_augment_op_is_policy(ops[i].kind);
    psti_loader_plan_decode(options, &chosen, plan);
    stored_pixels(dataset, plan, &channels, &bits);
    status = psti_loader_plan_chains(&chosen, channels, bits, plan, err);
    if (status != PST_OK)
        return status;
    uint32_t size[2];
    struct psti_draw draw;
    slot->dtype = psti_augment_chain_dtype(plan->chain);
    slot->has_array = psti_augment_chain_fixed_size(plan->chain, &size[0], &size[1]);
    plan->fixed = slot->has_array && !plan->any_channels;
    if (wish->as && !plan->fixed)
        return psti_fail(
            err, PST_ERROR_ARGUMENT, "loader",
            "views '%s' of field '%s' may differ in size or channels: their operations "
            "must end with one size, such as that of a crop",
            wish->as, plan->field->name);
    slot->may_differ = !plan->fixed;
    if (!slot->has_array && guess_size(dataset, plan, size) &&
        psti_augment_chain_draw(plan->chain, &(struct psti_draw_key){.seed = options->seed},
                                size[0], size[1], &draw, NULL) == PST_OK) {
        size[0] = draw.out_height;
        size[1] = draw.out_width;
        slot->has_array = true;
    }
    if (slot->has_array)
        set_image_shape(slot, plan, size[0], size[1]);
    if (plan->has_view_axis) {
        memmove(slot->shape + 1, slot->shape, 3 * sizeof slot->shape[0]);
        slot->shape[0] = plan->n_views;
        slot->ndim = 4;
    }
    return PST_OK;
}

static enum pst_status plan_array(struct psti_loader_plan_field *plan, struct psti_slot_field *slot,
                                  struct pst_error *err)
{
    size_t nbytes = pst_dtype_nbytes(plan->field->dtype);
    plan->fill = PSTI_LOADER_FILL_ARRAY;
    slot->dtype = plan->field->dtype;
    slot->has_array = plan->field->ndim > 0;
    slot->may_differ = !slot->has_array;
    slot->ndim = plan->field->ndim;
    for (uint32_t i = 0; i < slot->ndim; i++) {
        slot->shape[i] = plan->field->shape[i];
        if (!psti_mul_size(nbytes, plan->field->shape[i], &nbytes))
            return psti_fail(err, PST_ERROR_LIMIT, "loader", "field '%s': its shape is too large",
                             plan->field->name);
    }
    return PST_OK;
}

/* Sets which keypoints are left and right: as the caller says, or else as the data set says. */
static enum pst_status plan_pairs(const pst_dataset *dataset, const struct pst_field_output *wish,
                                  struct psti_loader_plan_field *plan, struct pst_error *err)
{
    const struct pst_field *field = plan->field;
    const uint32_t *pairs =
        wish->says_pairs ? wish->point_pairs : pst_dataset_point_pairs(dataset, plan->i_field);
    size_t n = wish->says_pairs ? wish->n_point_pairs : psti_format_n_pairs(field);
    plan->says_pairs = wish->says_pairs || field->n_pairs_plus_1 > 0;
    plan->pairs.n_points = wish->n_points ? wish->n_points : (uint32_t)field->n_classes;
    if (n > PST_MAX_POINTS || (n > 0 && !pairs))
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': n_point_pairs is %zu, and point_pairs has not as many",
                         field->name, n);
    uint32_t *copy = n > 0 ? psti_alloc_array(n, 2 * sizeof *copy) : NULL;
    if (n > 0 && !copy)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for pairs of points");
    if (n > 0)
        memcpy(copy, pairs, n * 2 * sizeof *copy);
    plan->pairs.pairs = copy;
    plan->pairs.n = n;
    const char *problem = psti_format_pairs_problem(&plan->pairs);
    return problem
               ? psti_fail(err, PST_ERROR_ARGUMENT, "loader", "field '%s' %s", field->name, problem)
               : PST_OK;
}

static enum pst_status plan_field(pst_dataset *dataset, const struct pst_loader_options *options,
                                  const struct pst_field_output *wish, const struct leader *leader,
                                  struct psti_loader_plan_field *plan, struct psti_slot_field *slot,
                                  struct pst_error *err)
{
    if (!plan->n_views)
        memcpy(slot->name, plan->field->name, sizeof slot->name);
    slot->type = plan->field->type;
    switch (plan->field->type) {
    case PST_FIELD_INT:
        plan->fill = PSTI_LOADER_FILL_INT;
        slot->dtype = PST_DTYPE_I64;
        slot->has_array = true;
        return PST_OK;
    case PST_FIELD_FLOAT:
        plan->fill = PSTI_LOADER_FILL_FLOAT;
        slot->dtype = PST_DTYPE_F32;
        slot->has_array = true;
        return PST_OK;
    case PST_FIELD_BOXES:
    case PST_FIELD_KEYPOINTS:
        plan->fill = PSTI_LOADER_FILL_POINTS;
        slot->dtype = PST_DTYPE_F32;
        slot->may_differ = true;
        return plan->field->type == PST_FIELD_BOXES ? PST_OK : plan_pairs(dataset, wish, plan, err);
    case PST_FIELD_ARRAY:
        return plan_array(plan, slot, err);
    case PST_FIELD_IMAGE:
    case PST_FIELD_MASK:
        if (!wish->encoded) {
            plan->fill = PSTI_LOADER_FILL_PIXELS;
            return plan_pixels(dataset, options, wish, leader, plan, slot, err);
        }
        break;
    case PST_FIELD_AUDIO:
        if (wish->decode_audio)
            return psti_loader_sound_plan(dataset, options, wish, plan, slot, err);
        break;
    default:
        break;
    }
    plan->fill = PSTI_LOADER_FILL_BYTES;
    slot->dtype = PST_DTYPE_U8;
    slot->may_differ = true;
    return PST_OK;
}

/* Finds the caller's output options for the field under its own name, or returns NULL. */
static const struct pst_field_output *find_wish(const struct pst_loader_options *options,
                                                const char *name)
{
    for (size_t i = 0; i < options->n_fields; i++)
        if (!options->fields[i].as && strcmp(options->fields[i].name, name) == 0)
            return &options->fields[i];
    return NULL;
}

static enum pst_status check_wishes(pst_dataset *dataset, const struct pst_loader_options *options,
                                    struct pst_error *err)
{
    if (options->n_fields && !options->fields)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "n_fields is %zu but fields is NULL",
                         options->n_fields);
    for (size_t i = 0; i < options->n_fields; i++) {
        const char *name = options->fields[i].name;
        if (!name || pst_dataset_find_field(dataset, name) < 0)
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "the data set has no field '%s'",
                             name ? name : "(null)");
        if (!options->fields[i].as && find_wish(options, name) != &options->fields[i])
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "field '%s' is listed twice", name);
    }
    return PST_OK;
}

/* Returns the output options for a field of the data set, or NULL if it is not delivered. */
static const struct pst_field_output *wish_of(const struct pst_loader_options *options,
                                              const struct pst_field *field)
{
    const struct pst_field_output *wish = find_wish(options, field->name);
    return wish || options->only_listed ? wish : &plain;
}

/* Finds the leader among the fields delivered as pixels without a geometry of their own: the field
 * `image`, else the first image, else the first mask. Returns its number in the data set, or -1. */
static int find_leader(pst_dataset *dataset, const struct pst_loader_options *options)
{
    int leader = -1;
    int best = 0;
    for (uint32_t i = 0; i < pst_dataset_n_fields(dataset); i++) {
        const struct pst_field *field = pst_dataset_field(dataset, i);
        const struct pst_field_output *wish = wish_of(options, field);
        if (!wish || !is_pixels(field->type) || wish->encoded || wish->own_geometry)
            continue;
        int rank = field->type == PST_FIELD_MASK ? 1 : strcmp(field->name, "image") == 0 ? 3 : 2;
        if (rank > best) {
            best = rank;
            leader = (int)i;
        }
    }
    return leader;
}

/* True if the leader's operations can cut away parts of a box: crops, resizes and warps. */
static bool may_lose(const struct pst_field_output *leader)
{
    for (size_t i = 0; leader && i < leader->n_ops; i++)
        if (psti_augment_op_loses_boxes(leader->ops[i].kind))
            return true;
    return false;
}

static bool sanitizes(const struct pst_field_output *leader)
{
    for (size_t i = 0; leader && i < leader->n_ops; i++)
        if (leader->ops[i].kind == PST_OP_SANITIZE_BOXES)
            return true;
    return false;
}

/* Sets the rule by which boxes are dropped. If the chain has SanitizeBoxes, that operation decides:
 * it leaves removed boxes without an area, and only boxes without an area are dropped at the
 * end. */
static enum pst_status plan_drops(const struct pst_field_output *leader,
                                  const struct pst_field_output *wish,
                                  struct psti_loader_plan_field *entry, struct pst_error *err)
{
    bool own_rule = sanitizes(leader);
    if (own_rule && wish->min_area != 0 && wish->min_area != 1)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s': the operations have SanitizeBoxes, which says what is "
                         "dropped: give min_area there, not beside them",
                         entry->field->name);
    entry->drops = may_lose(leader) && !wish->keep_boxes;
    entry->keeps_boxes = wish->keep_boxes;
    entry->min_area = own_rule ? FLT_MIN : wish->min_area > 0 ? wish->min_area : 1;
    entry->min_visibility = wish->min_visibility;
    return PST_OK;
}

/* Plans which boxes are dropped, and which fields lose the rows of dropped boxes. The fields' own
 * plans must be made already. */
static enum pst_status plan_boxes(pst_dataset *dataset, const struct pst_loader_options *options,
                                  const struct pst_field_output *leader,
                                  struct psti_loader_plan *plan, struct pst_error *err)
{
    for (uint32_t i = 0; i < plan->n_fields; i++) {
        struct psti_loader_plan_field *entry = &plan->fields[i];
        const struct pst_field_output *wish = wish_of(options, entry->field);
        enum pst_status status = PST_OK;
        if (entry->n_views || psti_loader_plan_is_derived(entry))
            continue;
        if (entry->field->type == PST_FIELD_BOXES)
            status = plan_drops(leader, wish, entry, err);
        if (status != PST_OK)
            return status;
        if (!wish->per_box_of || !wish->per_box_of[0])
            continue;
        for (uint32_t b = 0; b < plan->n_fields; b++)
            if (plan->fields[b].field->type == PST_FIELD_BOXES &&
                strcmp(plan->fields[b].field->name, wish->per_box_of) == 0)
                entry->i_boxes = (int)b;
        bool ragged = entry->field->type == PST_FIELD_KEYPOINTS ||
                      (entry->field->type == PST_FIELD_ARRAY && entry->field->ndim == 0);
        if (entry->i_boxes < 0 || !ragged)
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "field '%s' cannot have a row for each box of '%s': %s",
                             entry->field->name, wish->per_box_of,
                             ragged ? "no such boxes are delivered"
                                    : "keypoints and arrays of any shape can");
    }
    return psti_loader_boxes_check(dataset, plan, err);
}

/* Finds the field of boxes that random crops depend on. Fails if more than one field is
 * possible. */
static enum pst_status plan_crop(const struct pst_loader_options *options,
                                 const struct leader *leader, struct psti_loader_plan *plan,
                                 struct pst_error *err)
{
    const char *needs =
        leader->wish ? psti_augment_ops_need_boxes(leader->wish->ops, leader->wish->n_ops) : NULL;
    uint32_t n = 0;
    plan->i_crop_boxes = -1;
    for (uint32_t i = 0; i < plan->n_fields; i++) {
        const struct psti_loader_plan_field *entry = &plan->fields[i];
        if (entry->n_views || psti_loader_plan_is_derived(entry))
            continue;
        const struct pst_field_output *wish = wish_of(options, entry->field);
        const char *own = psti_augment_ops_need_boxes(wish->ops, wish->n_ops);
        if (entry->own && own)
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "field '%s': %s needs the sample's boxes, which a field with a "
                             "geometry of its own (own_geometry) does not have",
                             entry->field->name, own);
        if (needs && entry->field->type == PST_FIELD_BOXES) {
            plan->i_crop_boxes = (int)i;
            n++;
        }
    }
    for (size_t k = 0; k < options->n_fields; k++) {
        const struct pst_field_output *wish = &options->fields[k];
        const char *own = wish->as ? psti_augment_ops_need_boxes(wish->ops, wish->n_ops) : NULL;
        if (own)
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "views '%s': %s needs the sample's boxes, which views do not have",
                             wish->as, own);
    }
    if (!needs || n == 1)
        return PST_OK;
    return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                     "%s of field '%s' needs the sample's boxes: %s field of boxes is delivered",
                     needs, leader->name, n == 0 ? "no" : "more than one");
}

/* Refuses operations that move the pixels of the image without anything to move along, if masks,
 * boxes or keypoints follow the image. */
static enum pst_status check_alone(const struct psti_loader_plan *plan, const struct leader *leader,
                                   struct pst_error *err)
{
    for (uint32_t i = 0; leader->wish && i < plan->n_fields; i++) {
        const struct psti_loader_plan_field *entry = &plan->fields[i];
        bool has_points = entry->fill == PSTI_LOADER_FILL_POINTS;
        bool is_mask = entry->follows && entry->field->type == PST_FIELD_MASK;
        const char *alone =
            has_points || is_mask
                ? psti_augment_ops_alone(leader->wish->ops, leader->wish->n_ops, has_points)
                : NULL;
        if (alone)
            return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                             "%s moves the pixels of field '%s' alone, and field '%s' follows it: "
                             "leave the operation out, or the field (fields)",
                             alone, leader->name, entry->field->name);
    }
    return PST_OK;
}

bool psti_loader_plan_has_views(const struct psti_loader_plan *plan, uint32_t i_field)
{
    for (uint32_t i = 0; i < plan->n_fields; i++)
        if (plan->fields[i].n_views && plan->fields[i].i_field == i_field)
            return true;
    return false;
}

/* Numbers the stored item of a field. A second plan entry for the same field shares the number of
 * the first, and then the item must be read completely. */
static enum pst_status plan_item(const pst_dataset *dataset, struct psti_loader_plan *plan,
                                 struct psti_loader_plan_field *entry, struct pst_error *err)
{
    for (uint32_t i = 0; i < plan->n_items; i++) {
        struct psti_loader_plan_field *first = &plan->fields[plan->fields_of_items[i]];
        if (first->i_field != entry->i_field)
            continue;
        entry->i_item = (int)i;
        first->may_skip = false;
        if (first->variant_mask == entry->variant_mask && first->form_mask == entry->form_mask &&
            first->fill == entry->fill)
            return PST_OK;
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "field '%s' and its views are of one stored item: they have the same "
                         "variants and forms, and the field is not encoded",
                         entry->field->name);
    }
    plan->fields_of_items[plan->n_items] = (uint32_t)(entry - plan->fields);
    entry->i_item = (int)plan->n_items++;
    entry->may_skip = entry->fill == PSTI_LOADER_FILL_PIXELS && !entry->identity &&
                      !entry->n_views && pst_dataset_is_packed(dataset);
    plan->n_reads += entry->may_skip ? PSTI_LOADER_RANGES_MAX : 1;
    return PST_OK;
}

/* Plans the views of an image. All views of one item are made together, so they must start from the
 * same pixels. */
static enum pst_status plan_views(struct psti_loader_plan *plan,
                                  struct psti_loader_plan_field *entry, struct pst_error *err)
{
    entry->i_draw = plan->n_views;
    plan->n_views += entry->n_views;
    if (plan->n_views > PST_MAX_VIEWS)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "a sample has more than %d views",
                         PST_MAX_VIEWS);
    for (const struct psti_loader_plan_field *first = plan->fields; first < entry; first++) {
        if (!first->n_views || first->i_item != entry->i_item)
            continue;
        entry->filled_before = true;
        if (first->decode.channels == entry->decode.channels &&
            first->decode.bits == entry->decode.bits &&
            first->decode.ignore_orientation == entry->decode.ignore_orientation)
            return PST_OK;
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "views '%s' and '%s' of field '%s' would be decoded to different pixels: "
                         "give them the same dtype, channels, bits and orientation",
                         plan->slots[first - plan->fields].name,
                         plan->slots[entry - plan->fields].name, entry->field->name);
    }
    return PST_OK;
}

/* Plans one array of the batch, made from field i_field of the data set. */
static enum pst_status add_field(pst_dataset *dataset, const struct pst_loader_options *options,
                                 uint32_t i_field, const struct pst_field_output *wish,
                                 const struct leader *leader, struct psti_loader_plan *plan,
                                 struct pst_error *err)
{
    const struct pst_field *field = pst_dataset_field(dataset, i_field);
    enum pst_status status = check_output(field, wish, err);
    if (status == PST_OK)
        status = check_forms(dataset, field, wish, err);
    if (status == PST_OK)
        status = psti_loader_plan_check_name(plan, wish->as ? wish->as : field->name, err);
    if (status != PST_OK)
        return status;
    struct psti_loader_plan_field *entry = &plan->fields[plan->n_fields];
    *entry = (struct psti_loader_plan_field){.field = field, .i_field = i_field, .i_item = -1};
    entry->says_boxes = wish->per_box_of != NULL;
    entry->i_boxes = -1;
    entry->made_for = wish->made_for ? wish->made_for : field->made_for;
    entry->variant_mask = wish->variant_mask ? wish->variant_mask : 0xFF;
    entry->form_mask = wish->form_mask;
    struct psti_slot_field *slot = &plan->slots[plan->n_fields++];
    *slot = (struct psti_slot_field){.type = field->type};
    if (wish->as) {
        entry->n_views = wish->n_views ? wish->n_views : 1;
        entry->first_view = wish->first_view;
        entry->has_view_axis = wish->n_views > 0;
        snprintf(slot->name, sizeof slot->name, "%s", wish->as);
    }
    status = plan_field(dataset, options, wish, leader, entry, slot, err);
    if (status == PST_OK)
        status = psti_loader_collate_plan(wish, entry, slot, err);
    if (status == PST_OK && entry->fill != PSTI_LOADER_FILL_INT &&
        entry->fill != PSTI_LOADER_FILL_FLOAT)
        status = plan_item(dataset, plan, entry, err);
    return status == PST_OK && entry->n_views ? plan_views(plan, entry, err) : status;
}

/* True if the caller's options for mixing include mosaics. psti_loader_mix_open checks these
 * options later. */
static bool makes_mosaics(const struct pst_loader_options *options)
{
    enum pst_mix_kind kind; /* the first member of the struct in every version */
    if (!options->mixes || options->n_mixes > PST_MAX_MIXES || options->mix_nbytes < sizeof kind)
        return false;
    for (size_t i = 0; i < options->n_mixes; i++) {
        memcpy(&kind, (const char *)options->mixes + i * options->mix_nbytes, sizeof kind);
        if (kind == PST_MIX_MOSAIC)
            return true;
    }
    return false;
}

/* Adds the array that the caller wishes, and the arrays that describe it (geometry, sizes,
 * tiles). */
static enum pst_status add_wish(pst_dataset *dataset, const struct pst_loader_options *options,
                                uint32_t i_field, const struct pst_field_output *wish,
                                const struct leader *leader, struct psti_loader_plan *plan,
                                struct pst_error *err)
{
    enum pst_status status = add_field(dataset, options, i_field, wish, leader, plan, err);
    return status == PST_OK ? psti_loader_plan_derive(wish, wish == leader->wish, plan, err)
                            : status;
}

enum pst_status psti_loader_plan_make(pst_dataset *dataset,
                                      const struct pst_loader_options *options,
                                      struct psti_loader_plan *plan, struct pst_error *err)
{
    plan->mosaics = makes_mosaics(options);
    enum pst_status status = check_wishes(dataset, options, err);
    int i_leader = status == PST_OK ? find_leader(dataset, options) : -1, geometry = -1;
    const struct pst_field *leads =
        i_leader < 0 ? NULL : pst_dataset_field(dataset, (uint32_t)i_leader);
    struct pst_field_output own = leads ? *wish_of(options, leads) : plain;
    const struct leader leader = {leads ? &own : NULL, leads ? leads->name : ""};
    if (leads)
        status = check_output(leads, &own, err);
    for (uint32_t i = 0; status == PST_OK && i < pst_dataset_n_fields(dataset); i++) {
        const struct pst_field *field = pst_dataset_field(dataset, i);
        const struct pst_field_output *wish = field == leads ? &own : wish_of(options, field);
        if (field == leads)
            geometry = (int)plan->n_fields;
        if (wish)
            status = add_wish(dataset, options, i, wish, &leader, plan, err);
        for (size_t k = 0; status == PST_OK && k < options->n_fields; k++)
            if (options->fields[k].as && strcmp(options->fields[k].name, field->name) == 0)
                status = add_wish(dataset, options, i, &options->fields[k], &leader, plan, err);
    }
    plan->i_leader = geometry;
    for (uint32_t i = 0; i < plan->n_items; i++)
        plan->has_coded |= psti_dataset_max_decoded_nbytes(
                               dataset, plan->fields[plan->fields_of_items[i]].i_field) > 0;
    plan->codings = plan->has_coded ? psti_dataset_codings(dataset) : 0;
    for (uint32_t i = 0; i < plan->n_fields; i++)
        if (!psti_loader_plan_is_derived(&plan->fields[i]))
            plan->fields[i].i_geometry =
                plan->fields[i].fill == PSTI_LOADER_FILL_POINTS || plan->fields[i].follows
                    ? geometry
                    : -1;
    if (status == PST_OK)
        status = check_alone(plan, &leader, err);
    if (status == PST_OK)
        status = plan_crop(options, &leader, plan, err);
    if (status == PST_OK)
        status = plan_boxes(dataset, options, leader.wish, plan, err);
    if (status == PST_OK)
        status = psti_loader_plan_derive_tiles(plan, err);
    if (status != PST_OK)
        psti_loader_plan_clear(plan);
    return status;
}

void psti_loader_plan_clear(struct psti_loader_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_fields; i++) {
        psti_loader_plan_free_chains(&plan->fields[i]);
        psti_sound_chain_close(&plan->fields[i].sound);
        psti_free((void *)plan->fields[i].pairs.pairs);
        plan->fields[i].pairs = (struct psti_pairs){0};
    }
    plan->n_fields = plan->n_items = plan->n_reads = plan->n_views = 0;
}

uint64_t psti_loader_plan_row_nbytes_max(const struct psti_loader_plan *plan, pst_dataset *dataset,
                                         const struct psti_storage *storage, bool in_memory)
{
    uint64_t total = 0, alignment = psti_storage_buffer_alignment(storage);
    for (uint32_t i = 0; i < plan->n_items; i++) {
        uint32_t i_field = plan->fields[plan->fields_of_items[i]].i_field;
        uint64_t decoded = psti_dataset_max_decoded_nbytes(dataset, i_field);
        if (decoded > SIZE_MAX / 4 / PST_MAX_FIELDS)
            return UINT64_MAX;
        total += decoded > 0 ? decoded + 1 + alignment : 0;
        if (in_memory && (pst_dataset_is_packed(dataset) ||
                          is_pixels(pst_dataset_field(dataset, i_field)->type)))
            continue; /* no buffer is needed; values of a label file are copied, so they need one */
        uint64_t nbytes = pst_dataset_max_item_nbytes(dataset, i_field);
        if (nbytes > SIZE_MAX / 4 / PST_MAX_FIELDS)
            return UINT64_MAX;
        total += psti_storage_buffer_nbytes(storage, nbytes) + alignment;
    }
    return total;
}
