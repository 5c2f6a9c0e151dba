/* containers_columns.h - makes fields of the columns of tables, by their types and the user's
 * rules.
 *
 * A walk over a file of rows declares the columns of the file, and then gives the values of one row
 * after the other. It declares them anew for each file of a data set: the first file decides the
 * fields, and a later one must have the same columns that are taken, in any order.
 *
 * Rules are those of containers_fields.h, with the name of a column for the suffix. One thread at a
 * time. */
#ifndef PST_CONTAINERS_TABLE_CONTAINERS_COLUMNS_H
#define PST_CONTAINERS_TABLE_CONTAINERS_COLUMNS_H

#include "containers/containers_fields.h"
#include "containers/containers_group.h"

/* A column as the file has it. */
struct psti_column {
    const char *name; /* NUL-terminated, as the file writes it; made legal for the field */
    /* IMAGE, MASK, AUDIO, INT, FLOAT, BYTES, TEXT, JSON or ARRAY. */
    enum pst_field_type type;
    enum pst_dtype dtype; /* of an array's elements */
    uint8_t ndim;         /* of an array whose items all have one shape; else 0 */
    uint32_t shape[PST_MAX_NDIM];
    int64_t n_classes; /* of an int column: values are 0 to n_classes - 1; 0: any */
    /* Names of the classes: n_classes texts, each with its NUL. NULL: none. */
    const char *class_names;
    size_t class_names_nbytes;
    /* True: the type is a guess by the column's name or first bytes, which a rule may overrule by
     * any type that its bytes can have. False: the file itself states the type. */
    bool is_guess;
    /* is_guess: the file has no value to guess by. The column is then what it was in the files
     * before, if its items are bytes there. */
    bool is_unseen;
};

struct psti_containers_columns;

/* What a file beside the shards says about them: features.json of TFDS, index.json of MDS. Its
 * bytes are not to be trusted. nbytes 0: there is none. */
struct psti_table_notes {
    const char *bytes;
    size_t nbytes;
    const char *path; /* for messages */
};

/* Walks over one file of rows. Each kind has one such function, in a folder of its own:
 * psti_containers_parquet_walk and so on. It begins the file by psti_containers_columns_file,
 * declares its columns and gives its rows in their order; it knows how many rows there are, and
 * that all that it needs of the file is there, before it gives the first one, where the kind allows
 * it. counts: n_members and n_samples are the rows. */
typedef enum pst_status psti_table_walk(const struct psti_walk_source *source,
                                        const struct psti_table_notes *notes,
                                        struct psti_containers_columns *columns,
                                        struct psti_walk_counts *counts, struct pst_error *err);

/* i_field of a column that the rules leave out. */
#define PSTI_COLUMN_LEFT_OUT UINT32_MAX

/* rules: n_rules of them. They and their texts, and the sink's writer, must outlive the columns.
 * PST_ERROR_ARGUMENT: as psti_containers_fields_open. */
enum pst_status psti_containers_columns_open(const struct psti_field_rule *rules, uint32_t n_rules,
                                             const struct psti_field_sink *sink,
                                             struct psti_containers_columns **out,
                                             struct pst_error *err);
/* What a walk asks of the columns. */
enum psti_columns_call_kind {
    PSTI_COLUMNS_FILE,
    PSTI_COLUMNS_ADD,
    PSTI_COLUMNS_EMPTY,
    PSTI_COLUMNS_LEAVE_OUT,
    PSTI_COLUMNS_NOTE_ROWS,
    PSTI_COLUMNS_PAGE,
    PSTI_COLUMNS_ROW,
};

/* A call of one of the functions below, with its arguments. */
struct psti_columns_call {
    enum psti_columns_call_kind kind;
    const struct psti_column *column; /* ADD */
    enum pst_status answer;           /* ADD: what it returned */
    uint32_t i_field;                 /* ADD: what it gave */
    enum pst_field_type type;         /* ADD: of that field, if one was given */
    const char *name;                 /* EMPTY, LEAVE_OUT, NOTE_ROWS; ROW: may be NULL */
    const char *text;                 /* LEAVE_OUT: why; NOTE_ROWS: the first of them, or NULL */
    uint64_t n;                       /* NOTE_ROWS */
    const struct psti_container_page *page;    /* PAGE */
    const struct psti_container_value *values; /* ROW */
    uint32_t n_values;
};
/* Is told of each call: of ADD behind it, of the others before them. */
typedef void psti_columns_listener(void *context, const struct psti_columns_call *call);
/* Sets who listens. NULL: nobody. */
void psti_containers_columns_listen(struct psti_containers_columns *columns,
                                    psti_columns_listener *listener, void *context);
/* *columns becomes NULL. NULL is fine. */
void psti_containers_columns_close(struct psti_containers_columns **columns);

/* Begins a file. path: for messages, as a rule the shard's. It outlives the file's walk. */
enum pst_status psti_containers_columns_file(struct psti_containers_columns *columns,
                                             const char *path, struct pst_error *err);
/* Declares a column of the file. *i_field: what values of the column carry, or
 * PSTI_COLUMN_LEFT_OUT: the walk passes its values over.
 *
 * What a rule may make of a column: of a guess any type whose items are bytes, as its own are.
 * Else bytes of all of these, and of bytes any; an image of a mask, text of JSON, and the other way
 * round. A rule's number of classes takes the place of the column's; the names of classes stay if
 * that number is theirs.
 *
 * PST_ERROR_ARGUMENT: two columns make one field; a rule gives a type that the column cannot have.
 * PST_ERROR_CORRUPT: another file has the column with another type, dtype, or classes, or has none;
 * the names of classes are none.
 * PST_ERROR_LIMIT: there are more than PST_MAX_FIELDS. */
enum pst_status psti_containers_columns_add(struct psti_containers_columns *columns,
                                            const struct psti_column *column, uint32_t *i_field,
                                            struct pst_error *err);
/* Reports that a column of the file is left out, and why. Does nothing if a rule leaves it out. May
 * be called before the file is begun. path: of the file, for the log. */
void psti_containers_columns_leave_out(struct psti_containers_columns *columns, const char *path,
                                       const char *name, const char *why);
/* Declares a column that has no value in this file, and no type. If earlier files made a field of
 * the column, it belongs to that field. Else it is left out, until a later file has values of it
 * and makes the field. An int or float field that is made so late is left out, because the first
 * rows lack values. Call after the file is begun. */
enum pst_status psti_containers_columns_empty(struct psti_containers_columns *columns,
                                              const char *path, const char *name,
                                              struct pst_error *err);
/* Reports that n rows of the file are no samples. name: what they are. first: the first of them;
 * NULL: the file's path is reported. */
void psti_containers_columns_note_rows(const struct psti_containers_columns *columns,
                                       const char *name, uint64_t n, const char *first);
/* The type that values of the column have to be given with, after the user's rules: a text column
 * may have become an image. Its i_field was not PSTI_COLUMN_LEFT_OUT. */
enum pst_field_type psti_containers_columns_type(const struct psti_containers_columns *columns,
                                                 uint32_t i_field);
/* Adds a page of compressed bytes of the file (containers_sink.h). */
enum pst_status psti_containers_columns_page(struct psti_containers_columns *columns,
                                             const struct psti_container_page *page,
                                             uint64_t *i_page, struct pst_error *err);
/* Gives a row. name NULL: psti_containers_columns_row_name. values: n of them, no field twice; a
 * column without a value (null) is not among them. Texts and JSON of at most
 * PSTI_TEXT_IN_INDEX_NBYTES bytes should be given by `bytes`, all others by their places.
 *
 * A -1 in a column whose file states classes is a label that is hidden. The first one makes the
 * field an int without classes, in all files, which the log says.
 *
 * PST_ERROR_CORRUPT: an int lies outside of its classes, the bytes of an array are not those of its
 * shape, or the file lacks a column that those before it have. */
enum pst_status psti_containers_columns_row(struct psti_containers_columns *columns,
                                            const char *name,
                                            const struct psti_container_value *values, uint32_t n,
                                            struct pst_error *err);
/* The name of row i of a file where rows have none: the file's name without its last ending, a "/"
 * and the number in at least 8 digits: "train-00000-of-00002/00000017". The shards of TFDS have
 * their numbers behind the ending, and keep it: "mnist-train.tfrecord-00000-of-00010/00000017". */
void psti_containers_columns_row_name(const char *path, uint64_t i, char name[PST_NAME_CAP]);
/* PST_ERROR_ARGUMENT: no column has the name of a rule; the text has those that there are. */
enum pst_status psti_containers_columns_finish(const struct psti_containers_columns *columns,
                                               struct pst_error *err);

#endif
