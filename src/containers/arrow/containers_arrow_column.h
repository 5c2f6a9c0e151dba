/* containers_arrow_column.h - a column of an Arrow table: how it is declared, and how its values
 * are found in a batch. */
#ifndef PST_CONTAINERS_ARROW_CONTAINERS_ARROW_COLUMN_H
#define PST_CONTAINERS_ARROW_CONTAINERS_ARROW_COLUMN_H

#include "containers/arrow/containers_arrow_dictionary.h"

#define PSTI_ARROW_NO_FIELD UINT32_MAX

struct psti_arrow_column {
    struct psti_column column; /* the column as it is declared */
    uint32_t i_root;           /* index of the column's field in the schema */
    uint32_t i_value;          /* index of the field that holds the values: i_root, the bytes in a
                                * struct, or list elements */
    uint32_t i_struct;         /* fields of a struct of bytes and path, or PSTI_ARROW_NO_FIELD */
    uint32_t i_path;
    struct psti_arrow_dictionary *dictionary; /* dictionary that the values index; NULL: the column
                                               * has none */
    bool are_classes;                         /* the indices themselves are the values: class
                                               * numbers */
    char *class_names;                        /* names of the classes, made from the dictionary;
                                               * NULL: none */
    /* Arrays: n_levels lists are nested, from field i_root on. level_size is the number of elements
     * of each list; 0, for the first only, means any number. shape is the array's shape; shape[0]
     * is 0 if the first list may have any number of elements. */
    uint32_t n_levels, level_size[PST_MAX_NDIM];
    uint8_t ndim;
    uint32_t shape[PST_MAX_NDIM];
    /* Lists of images or sounds: element i_element of each list makes this column. Each list has
     * n_elements. */
    bool is_list;
    uint32_t n_elements, i_element;
    /* What must be learned from first values before the column is declared. */
    bool wants_count; /* the length of the first list gives n_elements */
    bool wants_head;  /* the first bytes of the first value tell the field's type */
    /* Number of the field that the column became, and the type of its values. */
    uint32_t i_field;
    enum pst_field_type type;
    /* State of the current batch. */
    struct psti_arrow_leaf levels[PST_MAX_NDIM]; /* the lists */
    struct psti_arrow_leaf root, value, path;    /* leaves of the struct (if any), of the values,
                                                  * and of the paths */
    char text[PSTI_TEXT_IN_INDEX_NBYTES];        /* copy of the current row's text */
};

/* Inputs for the decision on a column's type. */
struct psti_arrow_decider {
    const struct psti_arrow_schema *schema;
    const struct psti_hub_features *hub; /* NULL: none */
    struct pst_error *err;
    enum pst_status status; /* PST_ERROR_MEMORY after a failure, else PST_OK */
};

/* Decides what field i_root of the schema becomes. Returns NULL, or why the column is left out, as
 * a static text that completes a sentence beginning with "its type". The column's dictionary is set
 * later. */
const char *psti_containers_arrow_decide(struct psti_arrow_decider *decider, uint32_t i_root,
                                         struct psti_arrow_column *column);

/* Begins a batch: finds the arrays of the column's fields in it. */
enum pst_status psti_containers_arrow_column_begin(struct psti_arrow_column *column,
                                                   struct psti_arrow_file *file,
                                                   const struct psti_arrow_schema *schema,
                                                   const struct psti_arrow_batch *batch,
                                                   struct pst_error *err);
/* Reads value i of the batch for what the column needs to know before it is declared. */
enum pst_status psti_containers_arrow_column_look(struct psti_arrow_column *column, uint64_t i,
                                                  struct pst_error *err);
static inline bool psti_containers_arrow_column_wants(const struct psti_arrow_column *column)
{
    return column->wants_count || column->wants_head;
}
/* Makes the value of row i of the batch. i_row: number of the row in the file. *has: false if the
 * value is missing. */
enum pst_status psti_containers_arrow_column_value(struct psti_arrow_column *column,
                                                   struct psti_containers_columns *columns,
                                                   uint64_t i, uint64_t i_row,
                                                   struct psti_container_value *value, bool *has,
                                                   struct pst_error *err);
/* Makes the values of an ordered dictionary class names, if all of them can be names. */
enum pst_status psti_containers_arrow_column_classes(struct psti_arrow_column *column,
                                                     const char *path, struct pst_error *err);

#endif
