/* view_load.c - loads the samples of a sheet one by one, in the calling thread: the loader decodes,
 * applies operations, and moves masks, boxes and keypoints as it does for training. */
#include "view.h"

#include <string.h>

/* Finds a field by the name given, or the first of its type. -1: there is none. */
static enum pst_status find_field(const pst_dataset *dataset, const char *name, const char *option,
                                  enum pst_field_type type, int *i_field, struct pst_error *err)
{
    const char *names[PST_MAX_FIELDS + 1];
    uint32_t n = pst_dataset_n_fields(dataset);
    *i_field =
        name == NULL ? cli_field_of_type(dataset, type) : pst_dataset_find_field(dataset, name);
    if (name == NULL || *i_field >= 0)
        return PST_OK;
    for (uint32_t i = 0; i < n; i++)
        names[i] = pst_dataset_field(dataset, i)->name;
    names[n] = NULL;
    const char *near = cli_nearest(name, &names[0], sizeof names[0]);
    cli_error(err, PST_ERROR_ARGUMENT, "no field \"%s\" for %s%s%s%s", name, option,
              near == NULL ? "" : ": did you mean ", near == NULL ? "" : near,
              near == NULL ? "" : "?");
    snprintf(err->dataset, sizeof err->dataset, "%s", pst_dataset_path(dataset));
    return err->status;
}

/* True if the field may have a label for each box. */
static bool may_label_boxes(const struct pst_field *field)
{
    return field->type == PST_FIELD_JSON ||
           (field->type == PST_FIELD_ARRAY && field->ndim <= 1 &&
            (field->dtype == PST_DTYPE_I64 || field->dtype == PST_DTYPE_I32 ||
             field->dtype == PST_DTYPE_U8));
}

/* Finds the field with labels of boxes by usual names. */
static int guess_box_labels(const pst_dataset *dataset)
{
    static const char *const usual[] = {"labels",     "box_labels", "classes", "names",
                                        "categories", "category",   "label",   "class"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        int i_field = pst_dataset_find_field(dataset, usual[i]);
        if (i_field >= 0 && may_label_boxes(pst_dataset_field(dataset, (uint32_t)i_field)))
            return i_field;
    }
    return -1;
}

/* Finds the field with the label of a sample: "label", or an int with classes; or any int, unless
 * the labels are those of boxes. */
static int guess_label(const pst_dataset *dataset)
{
    int first = cli_field_of_type(dataset, PST_FIELD_INT), of_boxes = guess_box_labels(dataset);
    for (uint32_t i = 0; i < pst_dataset_n_fields(dataset); i++) {
        const struct pst_field *field = pst_dataset_field(dataset, i);
        if (field->type == PST_FIELD_INT &&
            (field->n_classes > 0 || strcmp(field->name, "label") == 0))
            return (int)i;
    }
    return of_boxes >= 0 ? -1 : first;
}

static enum pst_status choose_image(const pst_dataset *dataset, const char *name,
                                    struct view_fields *fields, struct pst_error *err)
{
    /* The loader's rule: the field "image" leads, else the first one. */
    if (name == NULL) {
        int i = pst_dataset_find_field(dataset, "image");
        if (i >= 0 && pst_dataset_field(dataset, (uint32_t)i)->type == PST_FIELD_IMAGE)
            name = "image";
    }
    enum pst_status status =
        find_field(dataset, name, "--field", PST_FIELD_IMAGE, &fields->image, err);
    if (status != PST_OK || fields->image < 0)
        return status;
    const struct pst_field *field = pst_dataset_field(dataset, (uint32_t)fields->image);
    if (field->type == PST_FIELD_MASK) { /* the mask alone */
        fields->mask = fields->image;
        fields->image = -1;
    } else if (field->type != PST_FIELD_IMAGE) {
        return cli_error(err, PST_ERROR_ARGUMENT, "--field: \"%s\" is %s, not an image or mask",
                         field->name, pst_field_type_name(field->type));
    }
    return PST_OK;
}

static enum pst_status choose(const pst_dataset *dataset, const struct view_choice *choice,
                              struct view_fields *fields, struct pst_error *err)
{
    *fields = (struct view_fields){-1, -1, -1, -1, -1, -1};
    enum pst_status status = choose_image(dataset, choice->image, fields, err);
    if (status != PST_OK)
        return status;
    if (fields->mask < 0)
        fields->mask = cli_field_of_type(dataset, PST_FIELD_MASK);
    if (fields->image < 0 && fields->mask < 0) {
        cli_error(err, PST_ERROR_ARGUMENT, "the data set has no image or mask: nothing to draw");
        snprintf(err->dataset, sizeof err->dataset, "%s", pst_dataset_path(dataset));
        return err->status;
    }
    fields->boxes = cli_field_of_type(dataset, PST_FIELD_BOXES);
    fields->keypoints = cli_field_of_type(dataset, PST_FIELD_KEYPOINTS);
    fields->label = guess_label(dataset);
    if (fields->boxes < 0)
        return PST_OK;
    fields->box_labels = guess_box_labels(dataset);
    if (choice->box_labels == NULL)
        return PST_OK;
    status = find_field(dataset, choice->box_labels, "--box-labels", PST_FIELD_JSON,
                        &fields->box_labels, err);
    if (status == PST_OK &&
        !may_label_boxes(pst_dataset_field(dataset, (uint32_t)fields->box_labels)))
        status = cli_error(err, PST_ERROR_ARGUMENT,
                           "--box-labels: \"%s\" is neither JSON nor an array of whole numbers",
                           choice->box_labels);
    return status;
}

/* Gives a field its operations: those of its own, or the sample's, which are for images, and for
 * a mask that has no image to follow. */
static void set_chain(const struct view_transforms *transforms, bool has_image,
                      const struct pst_field *field, struct pst_field_output *output,
                      struct pst_op own[VIEW_OPS_MAX])
{
    for (uint32_t i = 0; transforms != NULL && i < transforms->n_chains; i++) {
        const struct view_chain *chain = &transforms->chains[i];
        bool of_sample = chain->field[0] == '\0';
        if (!of_sample && strcmp(chain->field, field->name) != 0)
            continue;
        if (of_sample && field->type == PST_FIELD_MASK && has_image)
            continue;
        for (size_t k = 0; k < chain->n_ops; k++)
            if (!of_sample || field->type == PST_FIELD_IMAGE ||
                (chain->ops[k].kind <= PST_OP_SANITIZE_BOXES &&
                 !(chain->ops[k].kind >= PST_OP_COLOR_JITTER &&
                   chain->ops[k].kind <= PST_OP_NORMALIZE)))
                own[output->n_ops++] = chain->ops[k];
        output->ops = own;
    }
}

/* An error if operations are for a field that is not drawn. */
static enum pst_status check_chains(const pst_dataset *dataset,
                                    const struct view_transforms *transforms, struct pst_error *err)
{
    for (uint32_t i = 0; transforms != NULL && i < transforms->n_chains; i++) {
        const char *name = transforms->chains[i].field;
        int i_field;
        if (name[0] == '\0')
            continue;
        enum pst_status status =
            find_field(dataset, name, "operations", PST_FIELD_IMAGE, &i_field, err);
        if (status != PST_OK)
            return status;
        enum pst_field_type type = pst_dataset_field(dataset, (uint32_t)i_field)->type;
        if (type != PST_FIELD_IMAGE && type != PST_FIELD_MASK)
            return cli_error(err, PST_ERROR_ARGUMENT,
                             "operations are for images and masks: \"%s\" is %s", name,
                             pst_field_type_name(type));
    }
    return PST_OK;
}

enum pst_status view_load_open(pst_dataset *dataset, const struct view_choice *choice,
                               const struct view_transforms *transforms, struct view_fields *fields,
                               pst_loader **loader, struct pst_error *err)
{
    struct pst_field_output outputs[6];
    struct pst_op own[2][VIEW_OPS_MAX];
    size_t n = 0;
    enum pst_status status = choose(dataset, choice, fields, err);
    if (status == PST_OK)
        status = check_chains(dataset, transforms, err);
    if (status != PST_OK)
        return status;
    const int wanted[] = {fields->image,     fields->mask,       fields->boxes,
                          fields->keypoints, fields->box_labels, fields->label};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (wanted[i] < 0)
            continue;
        const struct pst_field *field = pst_dataset_field(dataset, (uint32_t)wanted[i]);
        struct pst_field_output *output = &outputs[n++];
        /* All boxes are kept, so that their labels stay beside them; those without area are not
         * drawn. */
        *output = (struct pst_field_output){.name = field->name, .keep_boxes = i == 2};
        if (i < 2) {
            output->dtype = i == 0 ? PST_DTYPE_U8 : PST_DTYPE_I32;
            output->layout = PST_LAYOUT_HWC;
            set_chain(transforms, fields->image >= 0, field, output, own[i]);
        }
    }
    struct pst_loader_options options = {
        .struct_size = sizeof options,
        .batch_size = 1,
        .order = choice->shuffled ? PST_ORDER_SHUFFLED : PST_ORDER_SEQUENTIAL,
        .seed = choice->seed,
        .prefetch = 1,
        .fields = outputs,
        .n_fields = n,
        .field_nbytes = sizeof *outputs,
        .op_nbytes = sizeof **own,
        .only_listed = true,
    };
    return pst_loader_open(dataset, &options, loader, err);
}

/* The row of a field in a batch of one sample. False if the batch does not have the field. */
static enum pst_status find_row(const pst_dataset *dataset, const pst_batch *batch, int i_field,
                                struct pst_tensor *row, struct pst_error *err)
{
    const char *name = pst_dataset_field(dataset, (uint32_t)i_field)->name;
    for (uint32_t i = 0; i < pst_batch_n_fields(batch); i++)
        if (strcmp(pst_batch_field_name(batch, i), name) == 0)
            return pst_batch_row(batch, i, 0, row, sizeof *row, err);
    return cli_error(err, PST_ERROR_INTERNAL, "the batch has no field %s", name);
}

static enum pst_status take_size(struct view_sample *sample, const struct pst_tensor *row,
                                 struct pst_error *err)
{
    if (row->shape[0] > 1 << 20 || row->shape[1] > 1 << 20)
        return cli_error(err, PST_ERROR_UNSUPPORTED, "%lldx%lld pixels are too many to draw",
                         (long long)row->shape[1], (long long)row->shape[0]);
    sample->height = (int)row->shape[0];
    sample->width = (int)row->shape[1];
    return PST_OK;
}

enum pst_status view_load_sample(const pst_dataset *dataset, const struct view_fields *fields,
                                 const pst_batch *batch, struct view_sample *sample,
                                 struct pst_error *err)
{
    struct pst_tensor row;
    enum pst_status status = PST_OK;
    *sample = (struct view_sample){.sample = (uint64_t)pst_batch_index(batch)[0], .label = -1};
    if (fields->mask >= 0 &&
        (status = find_row(dataset, batch, fields->mask, &row, err)) == PST_OK &&
        (status = take_size(sample, &row, err)) == PST_OK)
        sample->labels = row.data;
    int mask_height = sample->height, mask_width = sample->width;
    if (status == PST_OK && fields->image >= 0 &&
        (status = find_row(dataset, batch, fields->image, &row, err)) == PST_OK &&
        (status = take_size(sample, &row, err)) == PST_OK)
        sample->rgb = row.data;
    if (sample->labels != NULL && (mask_height != sample->height || mask_width != sample->width))
        sample->labels = NULL; /* other operations than the image's: they cannot be laid over it */
    if (status == PST_OK && fields->boxes >= 0 &&
        (status = find_row(dataset, batch, fields->boxes, &row, err)) == PST_OK) {
        sample->boxes = row.data;
        sample->n_boxes = (uint32_t)row.shape[0];
    }
    if (status == PST_OK && fields->keypoints >= 0 &&
        (status = find_row(dataset, batch, fields->keypoints, &row, err)) == PST_OK) {
        sample->points = row.data;
        sample->n_points = (uint32_t)row.shape[0];
    }
    if (status == PST_OK && fields->box_labels >= 0) {
        status = find_row(dataset, batch, fields->box_labels, &sample->box_labels, err);
        sample->box_labels_json =
            pst_dataset_field(dataset, (uint32_t)fields->box_labels)->type == PST_FIELD_JSON;
    }
    if (status == PST_OK && fields->label >= 0)
        status =
            pst_dataset_int(dataset, sample->sample, (uint32_t)fields->label, &sample->label, err);
    return status;
}
