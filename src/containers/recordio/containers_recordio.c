/* containers_recordio.c - makes rows of the records of a RecordIO file.
 *
 * In: records, on one thread. Out: two columns, and a row for each record.
 *
 * A first pass reads all records, because labels become an int field only if all of them are
 * integers. It keeps what the rows need. */
#include "containers/recordio/containers_recordio.h"

#include "containers/recordio/containers_recordio_parts.h"
#include "containers/table/containers_guess.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/log.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

#define ROOM "containers"

enum {
    HEADER = 24,                  /* bytes */
    LABELS_IN_INDEX_MAX = 1 << 14 /* maximum number of labels of a row that the index itself can
                                   * hold */
};
#define MAX_LABEL 16777216.0f /* from this value on, f32 cannot represent each integer */

/* What the first pass keeps of a record. */
struct record_row {
    uint64_t at;
    uint32_t stored, nbytes;
    uint32_t n_labels : 30; /* 0: the only label is in the header */
    uint32_t is_joined : 1;
    uint32_t is_passed : 1;
    float label;
};

/* "No row", in members that hold the index of a row. */
#define NONE UINT64_MAX

struct recordio_walk {
    struct psti_record_walk records;
    struct psti_containers_columns *columns;
    const char *path;
    struct record_row *rows;
    uint64_t n, capacity, n_passed;
    bool is_image;       /* true: records are images; false: they are bytes */
    bool has_identities; /* record 0 is insightface's index of identities, not an image */
    uint64_t first;      /* index of the first row that is a sample */
    uint64_t other, fraction,
        huge;                  /* first row with another kind of label; with a fraction; with a too
                                * large label */
    uint32_t i_value, i_label; /* PSTI_COLUMN_LEFT_OUT */
    enum pst_field_type type;  /* field type of the values */
    uint64_t n_rows;           /* number of rows that were given so far */
    uint8_t text[PSTI_TEXT_IN_INDEX_NBYTES], labels[4 * LABELS_IN_INDEX_MAX];
};

/* The beginning of a record: its header and the start of its content. */
struct record_head {
    bool is_header, is_image;
    uint32_t flag;
    float label;
    uint64_t n_content; /* bytes behind the header and the labels */
};

static enum pst_status bad_row(const struct recordio_walk *walk, enum pst_status status, uint64_t i,
                               const char *what, struct pst_error *err)
{
    return psti_fail_at(err, status, ROOM, walk->path, (int64_t)walk->rows[i].at,
                        "record %" PRIu64 " %s", i, what);
}

/* Parses the beginning of a record. */
static enum pst_status read_head(struct recordio_walk *walk,
                                 const struct psti_recordio_record *record,
                                 struct record_head *head, struct pst_error *err)
{
    uint8_t bytes[HEADER];
    *head = (struct record_head){0};
    if (record->nbytes < HEADER)
        return PST_OK;
    struct psti_window *window = &walk->records.window;
    enum pst_status status = psti_containers_record_copy(window, record, 0, HEADER, bytes, err);
    if (status != PST_OK)
        return status;
    head->flag = psti_load_u32(bytes);
    memcpy(&head->label, bytes + 4, 4);
    if (head->flag > (record->nbytes - HEADER) / 4)
        return PST_OK;
    head->is_header = true;
    uint64_t begin = HEADER + (uint64_t)4 * head->flag;
    head->n_content = record->nbytes - begin;
    size_t n = PSTI_GUESS_NBYTES;
    if (head->n_content < n)
        n = (size_t)head->n_content;
    status = psti_containers_record_copy(window, record, begin, n, bytes, err);
    head->is_image = status == PST_OK && psti_containers_guess(bytes, n) == PST_FIELD_IMAGE;
    return status;
}

/* Adds a record to `rows`. */
static enum pst_status keep(struct recordio_walk *walk, const struct psti_recordio_record *record,
                            const struct record_head *head, struct pst_error *err)
{
    if (walk->n == walk->capacity) {
        uint64_t capacity = walk->capacity + walk->capacity / 4 + 1024;
        struct record_row *rows = psti_realloc(walk->rows, (size_t)capacity * sizeof *rows);
        if (rows == NULL)
            return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for the records of %s",
                             walk->path);
        walk->rows = rows;
        walk->capacity = capacity;
    }
    walk->rows[walk->n++] = (struct record_row){
        .at = record->at,
        .stored = (uint32_t)record->stored,
        .nbytes = (uint32_t)record->nbytes,
        .n_labels = head->flag & ((1u << 30) - 1),
        .is_joined = record->is_joined,
        .label = head->label,
    };
    return PST_OK;
}

static void note(uint64_t *noted, bool is, uint64_t i)
{
    if (is && *noted == NONE)
        *noted = i;
}

/* Checks a record with an image in the first pass, and notes what kind of label it has. */
static enum pst_status take_image(struct recordio_walk *walk, const struct record_head *head,
                                  struct pst_error *err)
{
    uint64_t i = walk->n - 1;
    if (!head->is_header)
        return bad_row(walk, PST_ERROR_CORRUPT, i,
                       "has no header with labels, and those before it have one", err);
    if (!head->is_image)
        return bad_row(walk, PST_ERROR_CORRUPT, i,
                       "has no image behind its header: neither JPEG nor PNG nor WebP", err);
    const struct record_row *first = &walk->rows[walk->first];
    note(&walk->other, (head->flag == 0) != (first->n_labels == 0), i);
    if (head->flag > 0)
        return PST_OK;
    float label = head->label;
    bool is_number = label >= -FLT_MAX && label <= FLT_MAX;
    bool is_huge = is_number && (label >= MAX_LABEL || label <= -MAX_LABEL);
    note(&walk->huge, is_huge, i);
    note(&walk->fraction, !is_number || (!is_huge && (float)(int32_t)label != label), i);
    return PST_OK;
}

/* Handles a record in the first pass. */
static enum pst_status take(struct recordio_walk *walk, const struct psti_recordio_record *record,
                            struct pst_error *err)
{
    struct record_head head = {0};
    enum pst_status status = PST_OK;
    if (walk->first == NONE || walk->is_image)
        status = read_head(walk, record, &head, err);
    if (status == PST_OK)
        status = keep(walk, record, &head, err);
    if (status != PST_OK)
        return status;
    /* insightface: record 0 states the range of the identity records, and has no image. Each
     * identity record states the range of its identity's images, and has no image either. */
    bool is_identity = head.is_header && head.flag == 2 && head.n_content == 0;
    if (walk->n == 1)
        walk->has_identities = is_identity;
    if (walk->has_identities && is_identity) {
        walk->rows[walk->n - 1].is_passed = 1;
        walk->n_passed++;
        return PST_OK;
    }
    if (walk->first == NONE) {
        walk->first = walk->n - 1;
        walk->is_image = walk->has_identities || head.is_image;
    }
    return walk->is_image ? take_image(walk, &head, err) : PST_OK;
}

static enum pst_status survey(struct recordio_walk *walk, struct pst_error *err)
{
    if (walk->records.window.source->nbytes == 0)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, walk->path, 0, "the file is empty");
    for (;;) {
        struct psti_recordio_record record;
        bool has = false;
        enum pst_status status = psti_containers_record_next(&walk->records, &record, &has, err);
        if (status == PST_OK && has)
            status = take(walk, &record, err);
        if (status != PST_OK || !has)
            return status;
    }
}

/* Declares the column of labels. Refuses labels that do not fit together. */
static enum pst_status declare_label(struct recordio_walk *walk, struct pst_error *err)
{
    const struct record_row *first = &walk->rows[walk->first];
    struct psti_column column = {.name = "label"};
    column.type = first->n_labels > 0      ? PST_FIELD_ARRAY
                  : walk->fraction != NONE ? PST_FIELD_FLOAT
                                           : PST_FIELD_INT;
    if (first->n_labels > 0) {
        column.dtype = PST_DTYPE_F32;
        column.ndim = 1;
        column.shape[0] = first->n_labels;
    }
    enum pst_status status =
        psti_containers_columns_add(walk->columns, &column, &walk->i_label, err);
    if (status != PST_OK || walk->i_label == PSTI_COLUMN_LEFT_OUT)
        return status;
    if (walk->other != NONE)
        return bad_row(
            walk, PST_ERROR_CORRUPT, walk->other,
            first->n_labels > 0
                ? "has one label, and those before it have a list of them: leave the "
                  "labels out by fields={\"label\": None}, or pack (penstock pack --from)"
                : "has a list of labels, and those before it have one: leave the "
                  "labels out by fields={\"label\": None}, or pack (penstock pack --from)",
            err);
    if (column.type == PST_FIELD_INT && walk->huge != NONE)
        return bad_row(walk, PST_ERROR_CORRUPT, walk->huge,
                       "has a label of 16777216 or more, which was rounded when it was written, "
                       "because RecordIO keeps labels as 32-bit floats: take the labels from where "
                       "they came from, and leave these out by fields={\"label\": None}",
                       err);
    return PST_OK;
}

static enum pst_status declare(struct recordio_walk *walk, struct pst_error *err)
{
    struct psti_column column = {
        .name = walk->is_image ? "image" : "record",
        .type = walk->is_image ? PST_FIELD_IMAGE : PST_FIELD_BYTES,
        .is_guess = true,
    };
    if (walk->first == NONE)
        return PST_OK;
    enum pst_status status =
        psti_containers_columns_add(walk->columns, &column, &walk->i_value, err);
    if (status == PST_OK && walk->i_value != PSTI_COLUMN_LEFT_OUT)
        walk->type = psti_containers_columns_type(walk->columns, walk->i_value);
    return status == PST_OK && walk->is_image ? declare_label(walk, err) : status;
}

/* Sets the location of a record's content, which is the end of its data. */
static enum pst_status set_content(struct recordio_walk *walk, const struct record_row *row,
                                   struct psti_container_value *value, struct pst_error *err)
{
    uint64_t begin = walk->is_image ? HEADER + (uint64_t)4 * row->n_labels : 0;
    value->i_field = walk->i_value;
    value->decoded_nbytes = row->nbytes - begin;
    value->offset = row->is_joined ? row->at : row->at + PSTI_RECORDIO_PART_HEAD + begin;
    value->nbytes = row->is_joined ? row->stored : value->decoded_nbytes;
    value->coding = row->is_joined ? PSTI_CODING_PIECES : PSTI_CODING_STORED;
    bool is_text = walk->type == PST_FIELD_TEXT || walk->type == PST_FIELD_JSON;
    if (!is_text || value->decoded_nbytes > PSTI_TEXT_IN_INDEX_NBYTES)
        return PST_OK;
    struct psti_recordio_record record = {
        .at = row->at, .stored = row->stored, .nbytes = row->nbytes};
    value->bytes = walk->text;
    value->nbytes = value->decoded_nbytes;
    value->coding = PSTI_CODING_STORED;
    return psti_containers_record_copy(&walk->records.window, &record, begin, (size_t)value->nbytes,
                                       walk->text, err);
}

/* Sets a list of labels as value. If the record has several parts, the list may be cut and is
 * copied. */
static enum pst_status set_labels(struct recordio_walk *walk, const struct record_row *row,
                                  struct psti_container_value *value, struct pst_error *err)
{
    value->offset = row->at + PSTI_RECORDIO_PART_HEAD + HEADER;
    value->nbytes = value->decoded_nbytes = (uint64_t)4 * row->n_labels;
    value->ndim = 1;
    value->shape[0] = row->n_labels;
    if (!row->is_joined)
        return PST_OK;
    if (row->n_labels > LABELS_IN_INDEX_MAX)
        return bad_row(walk, PST_ERROR_UNSUPPORTED, (uint64_t)(row - walk->rows),
                       "has several parts and more than 16384 labels: leave the labels out by "
                       "fields={\"label\": None}, or pack (penstock pack --from)",
                       err);
    struct psti_recordio_record record = {
        .at = row->at, .stored = row->stored, .nbytes = row->nbytes};
    value->bytes = walk->labels;
    return psti_containers_record_copy(&walk->records.window, &record, HEADER,
                                       (size_t)value->nbytes, walk->labels, err);
}

static enum pst_status give(struct recordio_walk *walk, const struct record_row *row,
                            struct pst_error *err)
{
    struct psti_container_value values[2] = {{0}, {0}};
    enum pst_status status = PST_OK;
    uint32_t n = 0;
    if (walk->i_value != PSTI_COLUMN_LEFT_OUT)
        status = set_content(walk, row, &values[n++], err);
    if (status == PST_OK && walk->i_label != PSTI_COLUMN_LEFT_OUT) {
        struct psti_container_value *value = &values[n++];
        value->i_field = walk->i_label;
        if (row->n_labels > 0)
            status = set_labels(walk, row, value, err);
        else if (walk->fraction != NONE)
            value->float_value = (double)row->label;
        else
            value->int_value = (int64_t)row->label;
    }
    if (status != PST_OK || n == 0)
        return status;
    walk->n_rows++;
    return psti_containers_columns_row(walk->columns, NULL, values, n, err);
}

/* Compares the records with the file's ".idx". */
static enum pst_status compare_index(const struct recordio_walk *walk,
                                     const struct psti_table_notes *notes, struct pst_error *err)
{
    if (notes == NULL || notes->nbytes == 0)
        return PST_OK;
    uint64_t *starts = psti_alloc_array((size_t)walk->n, sizeof *starts);
    if (starts == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for the records of %s",
                         walk->path);
    for (uint64_t i = 0; i < walk->n; i++)
        starts[i] = walk->rows[i].at;
    (void)psti_containers_recordio_index_fits(notes, walk->path, starts, walk->n);
    psti_free(starts);
    return PST_OK;
}

static enum pst_status walk_all(struct recordio_walk *walk, const struct psti_table_notes *notes,
                                struct pst_error *err)
{
    enum pst_status status = survey(walk, err);
    if (status == PST_OK)
        status = declare(walk, err);
    if (status == PST_OK)
        status = compare_index(walk, notes, err);
    for (uint64_t i = 0; status == PST_OK && i < walk->n; i++)
        if (!walk->rows[i].is_passed)
            status = give(walk, &walk->rows[i], err);
    if (status == PST_OK)
        psti_containers_columns_note_rows(walk->columns, "records about identities",
                                          walk->n_passed, NULL);
    if (status == PST_OK && walk->n_passed > 0)
        psti_log(PST_LOG_INFO, ROOM,
                 "%s: %" PRIu64 " records that tell about identities and have no image, as "
                 "insightface writes them, are left out",
                 walk->path, walk->n_passed);
    return status;
}

enum pst_status psti_containers_recordio_walk(const struct psti_walk_source *source,
                                              const struct psti_table_notes *notes,
                                              struct psti_containers_columns *columns,
                                              struct psti_walk_counts *counts,
                                              struct pst_error *err)
{
    struct recordio_walk *walk = psti_calloc(1, sizeof *walk);
    if (walk == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory to read %s", source->path);
    walk->columns = columns;
    walk->path = source->path;
    walk->first = walk->other = walk->fraction = walk->huge = NONE;
    walk->i_value = walk->i_label = PSTI_COLUMN_LEFT_OUT;
    enum pst_status status = psti_containers_columns_file(columns, source->path, err);
    if (status == PST_OK)
        status = psti_containers_window_open(&walk->records.window, source, err);
    if (status == PST_OK)
        status = walk_all(walk, notes, err);
    if (status == PST_OK)
        *counts = (struct psti_walk_counts){.n_members = walk->n_rows, .n_samples = walk->n_rows};
    psti_containers_window_close(&walk->records.window);
    psti_free(walk->rows);
    psti_free(walk);
    return status;
}
