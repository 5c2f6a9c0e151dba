/* dataset_folder.c - opens a plain folder of images or audio files as a data set, without
 * conversion.
 *
 * Opening lists the folder (dataset_folder_scan.c) or reads a label file (dataset_folder_labels.c).
 * The tables do not change afterwards, so every function is safe in any thread. Files are numbered:
 * sample s has file s; the mask of sample s in mask column k has file (k + 1) * count + s. Values
 * from a label file are kept in memory. */
#include "dataset/folder/dataset_listing.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/hash.h"

#include <stdio.h>
#include <string.h>

struct folder_dataset {
    struct pst_dataset base; /* first member */
    struct psti_folder folder;
    uint32_t mask_number[PST_MAX_FIELDS]; /* [i_field]: number of the field among the mask
                                           * columns */
    uint32_t mask_column[PST_MAX_FIELDS]; /* [number of a mask column]: its field */
};

static const struct psti_folder *folder_of(const pst_dataset *dataset)
{
    return &((const struct folder_dataset *)(const void *)dataset)->folder;
}

static size_t row_of(const struct psti_folder *folder, uint64_t sample)
{
    return folder->row_of_sample == NULL ? (size_t)sample : folder->row_of_sample[sample];
}

static void folder_close(pst_dataset *dataset)
{
    struct psti_folder *folder = &((struct folder_dataset *)(void *)dataset)->folder;
    psti_dataset_listing_close(&folder->listing);
    psti_dataset_folder_free(folder);
}

static enum pst_status folder_sample_name(const pst_dataset *dataset, uint64_t sample, char *name,
                                          struct pst_error *err)
{
    const struct psti_folder *folder = folder_of(dataset);
    (void)err;
    const char *held = psti_dataset_files_name(&folder->files, row_of(folder, sample));
    memcpy(name, held, strlen(held) + 1); /* < PSTI_DATASET_FOLDER_NAME_CAP */
    return PST_OK;
}

static void memory_item(const struct psti_folder_column *column, size_t row, struct pst_item *item)
{
    item->form = PST_FORM_BYTES;
    item->i_file = PST_FILE_NONE;
    item->nbytes = column->starts[row + 1] - column->starts[row];
    uint32_t width = column->field.type == PST_FIELD_BOXES       ? 4
                     : column->field.type == PST_FIELD_KEYPOINTS ? 3
                                                                 : 0;
    if (width != 0) {
        item->ndim = 2;
        item->shape[0] = (uint32_t)(item->nbytes / (width * sizeof(float)));
        item->shape[1] = width;
    }
}

static enum pst_status folder_item(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                   uint32_t variant, struct pst_item *item, struct pst_error *err)
{
    const struct folder_dataset *self = (const struct folder_dataset *)(const void *)dataset;
    const struct psti_folder *folder = &self->folder;
    size_t row = row_of(folder, sample);
    (void)variant;
    (void)err;
    if (i_field == 0) {
        item->form = folder->is_audio ? PST_FORM_BYTES : PST_FORM_NONE;
        item->i_file = (uint32_t)sample;
        item->nbytes = psti_dataset_files_nbytes(&folder->files, row);
        return PST_OK;
    }
    const struct psti_folder_column *column = &folder->columns[i_field - 1];
    if (column->field.type != PST_FIELD_MASK) {
        memory_item(column, row, item);
        return PST_OK;
    }
    if (column->starts[row + 1] > column->starts[row]) {
        item->i_file = (uint32_t)((self->mask_number[i_field] + 1) * dataset->n_samples + sample);
        item->nbytes = column->masks[row].nbytes;
    } else {
        item->i_file = PST_FILE_NONE;
    }
    return PST_OK;
}

static enum pst_status folder_int(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                  int64_t *value, struct pst_error *err)
{
    const struct psti_folder *folder = folder_of(dataset);
    (void)err;
    *value = psti_dataset_column_int(&folder->columns[i_field - 1], row_of(folder, sample));
    return PST_OK;
}

static enum pst_status folder_float(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                    double *value, struct pst_error *err)
{
    const struct psti_folder *folder = folder_of(dataset);
    (void)err;
    *value = folder->columns[i_field - 1].floats[row_of(folder, sample)];
    return PST_OK;
}

static const char *folder_class_name(const pst_dataset *dataset, uint32_t i_field, int64_t label)
{
    const struct psti_folder *folder = folder_of(dataset);
    if (i_field >= dataset->n_fields || strcmp(dataset->fields[i_field].name, "label") != 0 ||
        label < 0 || (uint64_t)label >= folder->classes.n)
        return NULL;
    return psti_dataset_names_get(&folder->classes, (size_t)label);
}

static enum pst_status folder_file_path(const pst_dataset *dataset, uint32_t i_file, char *buffer,
                                        size_t capacity, struct pst_error *err)
{
    const struct folder_dataset *self = (const struct folder_dataset *)(const void *)dataset;
    const struct psti_folder *folder = &self->folder;
    size_t row = row_of(folder, i_file % dataset->n_samples);
    uint64_t group = i_file / dataset->n_samples;
    const char *name = psti_dataset_files_name(&folder->files, row);
    size_t nbytes = 0;
    if (group > 0) {
        const struct psti_folder_column *column = &folder->columns[self->mask_column[group - 1]];
        nbytes = (size_t)(column->starts[row + 1] - column->starts[row]);
        name = column->values.bytes + column->starts[row];
        if (nbytes == 0)
            return psti_fail(err, PST_ERROR_NOT_FOUND, "dataset", "the sample has no mask");
    } else {
        nbytes = strlen(name);
    }
    int written = snprintf(buffer, capacity, "%s/%.*s", folder->path, (int)nbytes, name);
    if (written < 0 || (size_t)written >= capacity)
        return psti_fail(err, PST_ERROR_LIMIT, "dataset",
                         "the path of file %u is longer than %zu bytes", i_file, capacity);
    return PST_OK;
}

static struct psti_file_facts facts_of(const pst_dataset *dataset, uint32_t i_file)
{
    const struct folder_dataset *self = (const struct folder_dataset *)(const void *)dataset;
    size_t row = row_of(&self->folder, i_file % dataset->n_samples);
    uint64_t group = i_file / dataset->n_samples;
    return group == 0 ? psti_dataset_files_facts(&self->folder.files, row)
                      : self->folder.columns[self->mask_column[group - 1]].masks[row];
}

static uint64_t folder_file_place(const pst_dataset *dataset, uint32_t i_file)
{
    return facts_of(dataset, i_file).place;
}

static uint64_t folder_file_stamp(const pst_dataset *dataset, uint32_t i_file)
{
    return facts_of(dataset, i_file).stamp;
}

static const char *name_of(const struct psti_folder *folder, uint32_t sample)
{
    return psti_dataset_files_name(&folder->files, row_of(folder, sample));
}

static bool name_less(const void *ctx, uint32_t a, uint32_t b)
{
    return strcmp(name_of(ctx, a), name_of(ctx, b)) < 0;
}

static enum pst_status folder_by_path(const pst_dataset *dataset, uint32_t **samples,
                                      struct pst_error *err)
{
    const struct psti_folder *folder = folder_of(dataset);
    uint32_t n = (uint32_t)dataset->n_samples, i = 1;
    if (folder->files.spacing > 0) /* the folder was scanned, so its names are in order */
        return PST_OK;
    while (i < n && !name_less(folder, i, i - 1))
        i++;
    if (i >= n)
        return PST_OK;
    uint32_t *order = psti_alloc_array(n, sizeof *order);
    if (order == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory to sort %u samples", n);
    for (i = 0; i < n; i++)
        order[i] = i;
    enum pst_status status = psti_dataset_folder_sort(order, n, name_less, folder, err);
    if (status != PST_OK)
        psti_free(order);
    else
        *samples = order;
    return status;
}

static enum pst_status folder_read_memory(const pst_dataset *dataset, uint64_t sample,
                                          uint32_t i_field, uint64_t start, uint64_t nbytes,
                                          void *buffer, struct pst_error *err)
{
    const struct psti_folder *folder = folder_of(dataset);
    const struct psti_folder_column *column = &folder->columns[i_field - 1];
    if (column->field.type == PST_FIELD_MASK)
        return psti_fail(err, PST_ERROR_NOT_FOUND, "dataset", "the sample has no mask");
    if (nbytes > 0)
        memcpy(buffer, column->values.bytes + column->starts[row_of(folder, sample)] + start,
               (size_t)nbytes);
    return PST_OK;
}

static const struct psti_dataset_ops folder_ops = {
    .close = folder_close,
    .sample_name = folder_sample_name,
    .item = folder_item,
    .int_value = folder_int,
    .float_value = folder_float,
    .class_name = folder_class_name,
    .file_path = folder_file_path,
    .file_place = folder_file_place,
    .file_stamp = folder_file_stamp,
    .by_path = folder_by_path,
    .read_memory = folder_read_memory,
};

/* Makes a 16-byte id from the names and sizes of all files, in sample order. */
static void make_id(const struct psti_folder *folder, uint8_t id[16])
{
    struct psti_hash_pair hash;
    psti_hash_pair_begin(&hash);
    const char *name = NULL;
    for (size_t i = 0; i < folder->files.n; i++) {
        size_t row = row_of(folder, i);
        bool is_next = folder->row_of_sample == NULL;
        uint8_t size[8];
        name = is_next ? psti_dataset_files_next(&folder->files, i, name)
                       : psti_dataset_files_name(&folder->files, row);
        psti_store_u64(size, psti_dataset_files_nbytes(&folder->files, row));
        psti_hash_pair_update(&hash, name, strlen(name) + 1);
        psti_hash_pair_update(&hash, size, sizeof size);
    }
    psti_hash_pair_end(&hash, id);
}

/* Hashes the labels of a run of rows, which ends before row `end`, as if each row stored its
 * label. */
static void hash_run(const struct psti_label_run *run, size_t end, struct psti_hash_pair *hash)
{
    int64_t numbers[512];
    size_t n = sizeof numbers / sizeof *numbers;
    for (size_t i = 0; i < n; i++)
        numbers[i] = run->number;
    for (size_t row = run->first; row < end; row += n) {
        n = end - row < n ? end - row : n;
        psti_hash_pair_update(hash, numbers, n * sizeof *numbers);
    }
}

/* Hashes a column's values in their memory layout: numbers, or texts and their offsets. The values
 * of a mask column are the paths and sizes of its files. */
static void hash_values(const struct psti_folder_column *column, size_t n,
                        struct psti_hash_pair *hash)
{
    if (column->ints != NULL)
        psti_hash_pair_update(hash, column->ints, n * sizeof *column->ints);
    for (size_t i = 0; i < column->n_runs; i++)
        hash_run(&column->runs[i], i + 1 < column->n_runs ? column->runs[i + 1].first : n, hash);
    if (column->floats != NULL)
        psti_hash_pair_update(hash, column->floats, n * sizeof *column->floats);
    if (column->starts != NULL) {
        psti_hash_pair_update(hash, column->starts, (n + 1) * sizeof *column->starts);
        psti_hash_pair_update(hash, column->values.bytes, column->values.nbytes);
    }
    for (size_t row = 0; column->masks != NULL && row < n; row++)
        psti_hash_pair_update(hash, &column->masks[row].nbytes, sizeof column->masks[row].nbytes);
}

static void make_files_identity(struct pst_dataset *base, const struct psti_folder *folder)
{
    struct psti_hash_pair files;
    psti_hash_pair_begin(&files);
    for (size_t i = 0; i < folder->files.n; i++) {
        uint8_t size[8];
        psti_store_u64(size, psti_dataset_files_nbytes(&folder->files, row_of(folder, i)));
        psti_hash_pair_update(&files, size, sizeof size);
    }
    psti_hash_pair_end(&files, base->files_identity);
    base->has_files_identity = true;
}

/* Makes both identities. That of the listing hashes id, fields and values. That of the bytes hashes
 * id, fields and the stamps of all files, but not the values of a label file, which no cache
 * keeps. */
static void make_identities(struct folder_dataset *self)
{
    struct pst_dataset *base = &self->base;
    const struct psti_folder *folder = &self->folder;
    struct psti_hash_pair bytes, listed;
    psti_hash_pair_begin(&bytes);
    psti_hash_pair_begin(&listed);
    psti_hash_pair_update(&bytes, base->id, sizeof base->id);
    psti_hash_pair_update(&listed, base->id, sizeof base->id);
    psti_hash_pair_update(&bytes, &folder->stamps, sizeof folder->stamps);
    for (uint32_t i = 0; i < base->n_fields; i++) {
        const char *name = base->fields[i].name;
        psti_hash_pair_update(&bytes, name, strlen(name) + 1);
        psti_hash_pair_update(&listed, name, strlen(name) + 1);
    }
    for (uint32_t i = 0; i < folder->n_columns; i++) {
        const struct psti_folder_column *column = &folder->columns[i];
        hash_values(column, folder->files.n, &listed);
        if (column->field.type == PST_FIELD_MASK)
            hash_values(column, folder->files.n, &bytes);
    }
    psti_hash_pair_end(&bytes, base->bytes_identity);
    psti_hash_pair_end(&listed, base->listed_identity);
}

/* Frees unused memory at the end of the tables, because the handle may live for days. */
static void trim(struct psti_folder *folder)
{
    psti_dataset_files_trim(&folder->files);
    for (uint32_t i = 0; i < folder->n_columns; i++) {
        struct psti_dataset_arena *values = &folder->columns[i].values;
        char *bytes = values->nbytes == 0 ? NULL : psti_realloc(values->bytes, values->nbytes);
        values->bytes = bytes != NULL ? bytes : values->bytes;
    }
}

static enum pst_status describe(struct folder_dataset *self, struct pst_error *err)
{
    struct pst_dataset *base = &self->base;
    struct psti_folder *folder = &self->folder;
    uint32_t n_masks = 0;
    base->kind = PSTI_DATASET_FOLDER;
    base->n_samples = folder->files.n;
    base->n_skipped = folder->n_skipped;
    base->notices = folder->notices;
    base->n_fields = folder->n_columns + 1;
    snprintf(base->fields[0].name, sizeof base->fields[0].name, "%s",
             folder->is_audio ? "audio" : "image");
    base->fields[0].type = folder->is_audio ? PST_FIELD_AUDIO : PST_FIELD_IMAGE;
    base->fields[0].n_variants = 1;
    for (size_t i = 0; i < folder->files.n; i++) {
        uint64_t nbytes = psti_dataset_files_nbytes(&folder->files, i);
        base->nbytes += nbytes;
        if (nbytes > base->max_item_nbytes[0])
            base->max_item_nbytes[0] = nbytes;
    }
    for (uint32_t i = 0; i < folder->n_columns; i++) {
        base->fields[i + 1] = folder->columns[i].field;
        base->max_item_nbytes[i + 1] = folder->columns[i].max_nbytes;
        if (folder->columns[i].field.type == PST_FIELD_MASK) {
            self->mask_number[i + 1] = n_masks;
            self->mask_column[n_masks++] = i;
            for (size_t row = 0; row < folder->files.n; row++)
                base->nbytes += folder->columns[i].masks[row].nbytes;
        }
    }
    uint64_t n_files = base->n_samples * (n_masks + 1);
    if (n_files >= PST_FILE_NONE)
        return psti_fail(err, PST_ERROR_LIMIT, "dataset",
                         "more than 4294967294 files: pack them instead");
    base->n_files = (uint32_t)n_files;
    if (psti_dataset_listing_identities(folder->listing, base->id, base->files_identity)) {
        base->has_files_identity = true;
    } else {
        make_id(folder, base->id);
        make_files_identity(base, folder);
    }
    make_identities(self);
    psti_dataset_listing_finish(folder->listing, folder->files.n, base->id, base->files_identity);
    psti_dataset_listing_close(&folder->listing);
    return PST_OK;
}

/* Finds rows and columns: lists the folder, or takes the files that the caller or a label file
 * names. */
static enum pst_status find_files(struct psti_folder *folder,
                                  const struct pst_dataset_options *options, struct pst_error *err)
{
    const struct psti_saved_wait wait = {.progress = options->progress,
                                         .ctx = options->progress_ctx};
    enum pst_status status = PST_OK;
    if (options->n_files == 0 && options->labels == NULL) {
        status = psti_dataset_listing_open(folder->path, &wait, options->check_files,
                                           &folder->listing, err);
        return status == PST_OK ? psti_dataset_folder_scan(folder, err) : status;
    }
    status = psti_dataset_listing_open_teller(folder->path, &wait, &folder->listing, err);
    if (status != PST_OK)
        return status;
    return options->n_files > 0
               ? psti_dataset_folder_take_files(folder, options->files, options->n_files, err)
               : psti_dataset_folder_labels(folder, options->labels, err);
}

enum pst_status psti_dataset_open_folder(const char *path,
                                         const struct pst_dataset_options *options,
                                         pst_dataset **out, struct pst_error *err)
{
    pst_dataset *dataset = NULL;
    enum pst_status status =
        psti_dataset_new(path, sizeof(struct folder_dataset), &folder_ops, &dataset, err);
    if (status != PST_OK)
        return status;
    struct folder_dataset *self = (struct folder_dataset *)(void *)dataset;
    self->folder.path = dataset->path;
    self->folder.allow_unreadable = options->allow_unreadable;
    self->folder.ignore_labels = options->ignore_labels;
    self->folder.masks = options->masks;
    self->folder.n_masks = options->n_masks;
    if (options->n_masks > 0 && (options->masks == NULL || options->labels == NULL))
        status = psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                           "masks names columns of a label file: give `labels`, and as many names "
                           "as n_masks says");
    else if (options->n_files > 0 && (options->files == NULL || options->labels != NULL))
        status = psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                           "`files` and `labels` both say which files there are: give one of them, "
                           "with as many names as n_files says");
    else if (options->ignore_labels && options->labels != NULL)
        status = psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                           "`labels` gives labels, and ignore_labels leaves them out: give one");
    else
        status = find_files(&self->folder, options, err);
    if (status == PST_OK)
        status = psti_dataset_folder_settle(&self->folder, err);
    if (status == PST_OK)
        status = psti_dataset_folder_check_colors(&self->folder, err);
    if (status == PST_OK)
        status = describe(self, err);
    if (status != PST_OK) {
        psti_error_set_dataset(err, dataset->path);
        pst_dataset_close(&dataset);
        return status;
    }
    trim(&self->folder);
    self->folder.masks = NULL; /* the caller's memory, valid only during open */
    self->folder.n_masks = 0;
    *out = dataset;
    return PST_OK;
}
