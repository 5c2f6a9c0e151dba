/* containers_columns.h - makes fields of the columns of tables, by their types and the user's
 * rules.
 *
 * A walk over a file of rows declares the file's columns, then gives the values row by row. Each
 * file of a data set declares its columns again. The first file decides the fields; later files
 * must have the same columns, in any order. Columns that are left out do not matter.
 *
 * Rules are those of containers_fields.h, with a column's name instead of a suffix. One thread at a
 * time. */
#ifndef PST_CONTAINERS_TABLE_CONTAINERS_COLUMNS_H
#define PST_CONTAINERS_TABLE_CONTAINERS_COLUMNS_H

#include "containers/containers_fields.h"
#include "containers/containers_group.h"

/* A column, as a file declares it. */
struct psti_column {
    const char *name; /* name as the file writes it, NUL-terminated; the field gets a legal form of
                       * it */
    /* IMAGE, MASK, AUDIO, INT, FLOAT, BYTES, TEXT, JSON or ARRAY. */
    enum pst_field_type type;
    enum pst_dtype dtype; /* element type of an array */
    uint8_t ndim;         /* dimensions of an array, if all items have one shape; else 0 */
    uint32_t shape[PST_MAX_NDIM];
    int64_t n_classes; /* int columns: values are 0 to n_classes - 1; 0: any number */
    /* Names of the classes: n_classes texts, each with its NUL. NULL: none. */
    const char *class_names;
    size_t class_names_nbytes;
    /* True: the type was guessed from the column's name or first bytes, and a rule may replace it
     * by any type of bytes. False: the file itself states the type. */
    bool is_guess;
    /* With is_guess: the file has no value to guess from. The column then keeps the type that
     * earlier files gave it, if that is a type of bytes. */
    bool is_unseen;
};

struct psti_containers_columns;

/* The content of a file beside the shards that describes them: features.json of TFDS, index.json of
 * MDS. It is not trusted. nbytes 0: there is none. */
struct psti_table_notes {
    const char *bytes;
    size_t nbytes;
    const char *path; /* for messages */
};

/* Walks over one file of rows. Each kind of table has such a function in its own folder, such as
 * psti_containers_parquet_walk. It calls psti_containers_columns_file, declares the columns, then
 * gives the rows in order. If the kind allows it, the walk checks before the first row that the
 * file is complete, and counts its rows. counts: n_members and n_samples are the rows. */
typedef enum pst_status psti_table_walk(const struct psti_walk_source *source,
                                        const struct psti_table_notes *notes,
                                        struct psti_containers_columns *columns,
                                        struct psti_walk_counts *counts, struct pst_error *err);

/* i_field of a column that the user's rules leave out. */
#define PSTI_COLUMN_LEFT_OUT UINT32_MAX

/* Makes an empty set of columns. `rules` has n_rules rules. The rules, their texts, and the sink's
 * writer must outlive the columns. PST_ERROR_ARGUMENT: as for psti_containers_fields_open. */
enum pst_status psti_containers_columns_open(const struct psti_field_rule *rules, uint32_t n_rules,
                                             const struct psti_field_sink *sink,
                                             struct psti_containers_columns **out,
                                             struct pst_error *err);
/* Functions of the columns that a walk calls, for a listener. */
enum psti_columns_call_kind {
    PSTI_COLUMNS_FILE,
    PSTI_COLUMNS_ADD,
    PSTI_COLUMNS_EMPTY,
    PSTI_COLUMNS_LEAVE_OUT,
    PSTI_COLUMNS_NOTE_ROWS,
    PSTI_COLUMNS_PAGE,
    PSTI_COLUMNS_ROW,
};

/* One call of a function below, with its arguments. */
struct psti_columns_call {
    enum psti_columns_call_kind kind;
    const struct psti_column *column; /* ADD */
    enum pst_status answer;           /* ADD: the status that it returned */
    uint32_t i_field;                 /* ADD: the field number that it returned */
    enum pst_field_type type;         /* ADD: type of that field, if there is one */
    const char *name;                 /* EMPTY, LEAVE_OUT, NOTE_ROWS: name of column or rows; ROW:
                                       * the sample's name or NULL */
    const char *text;                 /* LEAVE_OUT: the reason; NOTE_ROWS: the first such row, or
                                       * NULL */
    uint64_t n;                       /* NOTE_ROWS */
    const struct psti_container_page *page;    /* PAGE */
    const struct psti_container_value *values; /* ROW */
    uint32_t n_values;
};
/* A function that is told of each call: of ADD after it returned, of the others before they run. */
typedef void psti_columns_listener(void *context, const struct psti_columns_call *call);
/* Sets the listener, or removes it by NULL. */
void psti_containers_columns_listen(struct psti_containers_columns *columns,
                                    psti_columns_listener *listener, void *context);
/* Frees the columns and sets *columns to NULL, which it may be already. */
void psti_containers_columns_close(struct psti_containers_columns **columns);

/* Begins a file. path: for messages, usually the shard's path; it must outlive the walk over the
 * file. */
enum pst_status psti_containers_columns_file(struct psti_containers_columns *columns,
                                             const char *path, struct pst_error *err);
/* Declares a column of the file. *i_field: number for the column's values, or PSTI_COLUMN_LEFT_OUT,
 * and then the walk skips its values.
 *
 * A rule may change a column's type. A guessed type may become any type whose items are bytes. If
 * the file states the type: any type of bytes may become BYTES, BYTES any of them, and MASK and
 * IMAGE, or JSON and TEXT, may replace each other. A rule's number of classes replaces the
 * column's; the class names are kept if their number is the same.
 *
 * PST_ERROR_ARGUMENT: two columns make the same field, or a rule gives a type that the column
 *     cannot have.
 * PST_ERROR_CORRUPT: an earlier file has the column with another type, dtype or classes, or does
 *     not have it; or the class names are not valid.
 * PST_ERROR_LIMIT: there are more than PST_MAX_FIELDS fields. */
enum pst_status psti_containers_columns_add(struct psti_containers_columns *columns,
                                            const struct psti_column *column, uint32_t *i_field,
                                            struct pst_error *err);
/* Reports that a column of the file is left out, and why. Does nothing if a user's rule leaves it
 * out anyway. May be called before psti_containers_columns_file. path: the file, for the log. */
void psti_containers_columns_leave_out(struct psti_containers_columns *columns, const char *path,
                                       const char *name, const char *why);
/* Declares a column that has no values in this file, and no type. If earlier files made a field of
 * it, the column belongs to that field. Else it is left out until a later file has values and makes
 * the field. An int or float field made so late is left out, because the first rows have no value.
 * Call it after psti_containers_columns_file. */
enum pst_status psti_containers_columns_empty(struct psti_containers_columns *columns,
                                              const char *path, const char *name,
                                              struct pst_error *err);
/* Reports that n rows of the file are not samples. name: what they are. first: the first such row;
 * NULL: the file's path is reported instead. */
void psti_containers_columns_note_rows(const struct psti_containers_columns *columns,
                                       const char *name, uint64_t n, const char *first);
/* Returns the type that the column's values must have, after the user's rules: a text column may
 * have become an image. The column must not be left out. */
enum pst_field_type psti_containers_columns_type(const struct psti_containers_columns *columns,
                                                 uint32_t i_field);
/* Adds a page, which is a compressed part of the file (containers_sink.h). */
enum pst_status psti_containers_columns_page(struct psti_containers_columns *columns,
                                             const struct psti_container_page *page,
                                             uint64_t *i_page, struct pst_error *err);
/* Gives a row. name NULL: the name is that of psti_containers_columns_row_name. values: n values,
 * at most one for each field; a column that is null in this row has none. Texts and JSON of at most
 * PSTI_TEXT_IN_INDEX_NBYTES bytes should be given by `bytes`, others by their location.
 *
 * In a column with stated classes, -1 is a hidden label. The first one turns the field into an int
 * without classes for all files, and the log says so.
 *
 * PST_ERROR_CORRUPT: an int lies outside of its classes, an array's size does not fit its shape, or
 *     the file lacks a column that earlier files have. */
enum pst_status psti_containers_columns_row(struct psti_containers_columns *columns,
                                            const char *name,
                                            const struct psti_container_value *values, uint32_t n,
                                            struct pst_error *err);
/* Makes the name of row i for files whose rows have no names: the file's name without its last
 * ending, a "/", and the number in at least 8 digits: "train-00000-of-00002/00000017". Shards of
 * TFDS have their numbers behind the ending, and keep it:
 * "mnist-train.tfrecord-00000-of-00010/00000017". */
void psti_containers_columns_row_name(const char *path, uint64_t i, char name[PST_NAME_CAP]);
/* Ends the last file. PST_ERROR_ARGUMENT: no column has the name of a rule; the message lists the
 * columns. */
enum pst_status psti_containers_columns_finish(const struct psti_containers_columns *columns,
                                               struct pst_error *err);

#endif
