/* unpack_labels.c - writes the fields other than images as a label file that `pack --labels` reads.
 *
 * In: the fields of a data set. Out: one JSON object per line, or no file if the images' folders
 * are their classes, which `pack` detects. Fields that a label file cannot hold are reported. One
 * thread. */
#include "unpack.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A text buffer that grows. */
struct text {
    FILE *file;
    char *bytes;
    size_t nbytes;
};

static void put_string(FILE *file, const char *text, size_t nbytes)
{
    fputc('"', file);
    for (size_t i = 0; i < nbytes; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 0x20 || c == 0x7F)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

/* Prints a float with as many digits as needed, and never like an integer. */
static void put_float(FILE *file, double value, int digits)
{
    char number[40];
    snprintf(number, sizeof number, "%.*g", digits, value);
    fputs(number, file);
    if (strpbrk(number, ".e") == NULL)
        fputs(".0", file);
}

/* Prints rows of `n_columns` f32 numbers. */
static bool put_rows(FILE *file, const void *bytes, size_t nbytes, size_t n_columns)
{
    size_t n = nbytes / sizeof(float);
    fputc('[', file);
    for (size_t i = 0; i < n; i++) {
        float value;
        memcpy(&value, (const char *)bytes + i * sizeof value, sizeof value);
        if (!isfinite(value))
            return false;
        fputs(i == 0 ? "[" : i % n_columns == 0 ? "], [" : ", ", file);
        fprintf(file, "%.9g", (double)value);
    }
    fputs(n > 0 ? "]]" : "]", file);
    return true;
}

static void lose(struct unpack_labels *labels, const char *name, const char *why)
{
    labels->lost[labels->n_lost++] = (struct unpack_lost){name, why};
}

/* Finds out whether each sample's label is the name of its folder. */
static enum pst_status folders_say_it(const struct unpack_plan *plan, uint32_t i_field, bool *so,
                                      struct pst_error *err)
{
    enum pst_status status = PST_OK;
    uint64_t count = pst_dataset_count(plan->dataset);
    *so = pst_dataset_class_name(plan->dataset, i_field, 0) != NULL;
    for (uint64_t i = 0; status == PST_OK && *so && i < count; i++) {
        char name[PST_NAME_CAP];
        int64_t label;
        status = pst_dataset_sample_name(plan->dataset, i, name, err);
        if (status == PST_OK)
            status = pst_dataset_int(plan->dataset, i, i_field, &label, err);
        if (status != PST_OK)
            break;
        const char *class_name = pst_dataset_class_name(plan->dataset, i_field, label);
        size_t n = strcspn(name, "/");
        *so = name[n] == '/' && class_name != NULL && strlen(class_name) == n &&
              memcmp(name, class_name, n) == 0;
    }
    return status;
}

/* Returns NULL, or the reason why a label file cannot hold the field. */
static const char *why_lost(const struct pst_field *field)
{
    bool is_boxes = strcmp(field->name, "boxes") == 0;
    bool is_keypoints = strcmp(field->name, "keypoints") == 0;
    bool is_reserved = strcmp(field->name, "file") == 0 || strcmp(field->name, "mask") == 0;
    switch (field->type) {
    case PST_FIELD_IMAGE:
        return "a label file has one image per line";
    case PST_FIELD_MASK:
        return "a label file has masks under the name mask only";
    case PST_FIELD_BOXES:
        return is_boxes ? NULL : "a label file has boxes under that name only";
    case PST_FIELD_KEYPOINTS:
        return is_keypoints ? NULL : "a label file has keypoints under that name only";
    case PST_FIELD_INT:
    case PST_FIELD_FLOAT:
    case PST_FIELD_TEXT:
    case PST_FIELD_JSON:
        return is_boxes || is_keypoints || is_reserved
                   ? "its name means something else in a label file"
                   : NULL;
    default:
        return "a label file cannot hold its type";
    }
}

enum pst_status unpack_plan_labels(const struct unpack_plan *plan, struct unpack_labels *labels,
                                   struct pst_error *err)
{
    enum pst_status status = PST_OK;
    memset(labels, 0, sizeof *labels);
    for (uint32_t i = 0; status == PST_OK && i < pst_dataset_n_fields(plan->dataset); i++) {
        const struct pst_field *field = pst_dataset_field(plan->dataset, i);
        bool said = false;
        if ((int)i == plan->i_image)
            continue;
        const char *why = (int)i == plan->i_mask ? NULL : why_lost(field);
        if (why != NULL) {
            lose(labels, field->name, why);
            continue;
        }
        labels->holds[i] = true;
        if (field->type == PST_FIELD_INT && strcmp(field->name, "label") == 0)
            status = folders_say_it(plan, i, &said, err);
        labels->needed = labels->needed || !said;
    }
    return status;
}

static enum pst_status put_item(const struct unpack_plan *plan, FILE *file, uint64_t sample,
                                uint32_t i_field, struct pst_error *err)
{
    const struct pst_field *field = pst_dataset_field(plan->dataset, i_field);
    struct pst_item item;
    void *bytes = NULL;
    enum pst_status status =
        pst_dataset_item(plan->dataset, sample, i_field, 0, &item, sizeof item, err);
    if (status == PST_OK)
        cli_item_decoded(&item);
    if (status == PST_OK)
        status = cli_read_item(plan->dataset, sample, i_field, 0, &item, &bytes, err);
    if (status != PST_OK)
        return status;
    size_t nbytes = (size_t)item.nbytes;
    bool ok = true;
    if (field->type == PST_FIELD_TEXT)
        put_string(file, bytes, nbytes);
    else if (field->type == PST_FIELD_JSON)
        for (size_t i = 0; i < nbytes; i++) { /* line ends between JSON values become spaces */
            char c = ((const char *)bytes)[i];
            fputc(c == '\n' || c == '\r' ? ' ' : c, file);
        }
    else
        ok = put_rows(file, bytes, nbytes, field->type == PST_FIELD_BOXES ? 4 : 3);
    free(bytes);
    return ok ? PST_OK
              : cli_error(err, PST_ERROR_UNSUPPORTED, "JSON has no word for a number of field %s",
                          field->name);
}

static enum pst_status put_value(const struct unpack_plan *plan, FILE *file, uint64_t sample,
                                 uint32_t i_field, struct pst_error *err)
{
    const struct pst_field *field = pst_dataset_field(plan->dataset, i_field);
    enum pst_status status = PST_OK;
    if ((int)i_field == plan->i_mask) {
        struct unpack_file mask;
        status = unpack_find(plan, sample, true, &mask, err);
        if (status == PST_OK)
            put_string(file, mask.path, strlen(mask.path));
    } else if (field->type == PST_FIELD_INT) {
        int64_t number;
        status = pst_dataset_int(plan->dataset, sample, i_field, &number, err);
        const char *name = status == PST_OK && strcmp(field->name, "label") == 0
                               ? pst_dataset_class_name(plan->dataset, i_field, number)
                               : NULL;
        if (name != NULL)
            put_string(file, name, strlen(name));
        else if (status == PST_OK)
            fprintf(file, "%" PRId64, number);
    } else if (field->type == PST_FIELD_FLOAT) {
        double number;
        status = pst_dataset_float(plan->dataset, sample, i_field, &number, err);
        if (status == PST_OK && !isfinite(number))
            status = cli_error(err, PST_ERROR_UNSUPPORTED,
                               "JSON has no word for a number of field %s", field->name);
        if (status == PST_OK)
            put_float(file, number, 17);
    } else {
        status = put_item(plan, file, sample, i_field, err);
    }
    return status;
}

static enum pst_status put_line(const struct unpack_plan *plan, const struct unpack_labels *labels,
                                FILE *file, uint64_t sample, struct pst_error *err)
{
    struct unpack_file image;
    enum pst_status status = unpack_find(plan, sample, false, &image, err);
    if (status != PST_OK)
        return status;
    fputs("{\"file\": ", file);
    put_string(file, image.path, strlen(image.path));
    for (uint32_t i = 0; status == PST_OK && i < pst_dataset_n_fields(plan->dataset); i++) {
        if (!labels->holds[i])
            continue;
        fprintf(file, ", \"%s\": ", pst_dataset_field(plan->dataset, i)->name);
        status = put_value(plan, file, sample, i, err);
    }
    fputs("}\n", file);
    return status;
}

/* True if the existing label file holds exactly this text. */
static bool is_there(const struct unpack_plan *plan, const struct text *text)
{
    void *bytes;
    size_t nbytes;
    struct pst_error err;
    bool same = unpack_read(plan, UNPACK_LABELS, &bytes, &nbytes, &err) == PST_OK &&
                nbytes == text->nbytes && memcmp(bytes, text->bytes, nbytes) == 0;
    free(bytes);
    return same;
}

enum pst_status unpack_write_labels(const struct unpack_plan *plan,
                                    const struct unpack_labels *labels, const char *skipped,
                                    size_t *nbytes, struct pst_error *err)
{
    struct text text = {0};
    enum pst_status status = PST_OK;
    text.file = open_memstream(&text.bytes, &text.nbytes);
    if (text.file == NULL)
        return cli_error(err, PST_ERROR_MEMORY, "out of memory for the label file");
    for (uint64_t i = 0; status == PST_OK && i < pst_dataset_count(plan->dataset); i++)
        if (!skipped[i])
            status = put_line(plan, labels, text.file, i, err);
    bool ok = !ferror(text.file);
    if (fclose(text.file) != 0 || !ok)
        status = status != PST_OK
                     ? status
                     : cli_error(err, PST_ERROR_MEMORY, "out of memory for the label file");
    if (status == PST_OK)
        status = unpack_write(plan, UNPACK_LABELS_TEMPORARY, UNPACK_LABELS, text.bytes, text.nbytes,
                              err);
    *nbytes = status == PST_OK ? text.nbytes : 0;
    if (status == PST_ERROR_EXISTS && plan->resume && is_there(plan, &text)) {
        pst_error_clear(err);
        status = PST_OK;
    }
    free(text.bytes);
    return status;
}
