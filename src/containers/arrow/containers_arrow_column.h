/* containers_arrow_column.h - a column of the table: what it is declared as, and how its values are
 * found in a batch. */
#ifndef PST_CONTAINERS_ARROW_CONTAINERS_ARROW_COLUMN_H
#define PST_CONTAINERS_ARROW_CONTAINERS_ARROW_COLUMN_H

#include "containers/arrow/containers_arrow_dictionary.h"

#define PSTI_ARROW_NO_FIELD UINT32_MAX

struct psti_arrow_column {
    struct psti_column column; /* as it is declared */
    uint32_t i_root;           /* its field in the schema */
    uint32_t i_value;          /* that has its values: itself, the bytes of a struct, elements */
    uint32_t i_struct;         /* the struct of bytes and path, and its path; PSTI_ARROW_NO_FIELD */
    uint32_t i_path;
    struct psti_arrow_dictionary *dictionary; /* of its indices; NULL: they are values */
    bool are_classes;                         /* the indices into the dictionary are the values */
    char *class_names;                        /* made of the dictionary; NULL */
    /* Arrays: how many lists lie within each other, from field i_root on, and how many elements
     * each has. The first may be 0: any number. shape is that of the array; its first dimension is
     * 0 where the first list may have any number of elements. */
    uint32_t n_levels, level_size[PST_MAX_NDIM];
    uint8_t ndim;
    uint32_t shape[PST_MAX_NDIM];
    /* Lists of images or sounds: a column for each element. Each list has n_elements. */
    bool is_list;
    uint32_t n_elements, i_element;
    /* These are looked at before the column is declared. */
    bool wants_count; /* how many elements the first list has */
    bool wants_head;  /* the first bytes of its first value say what it is */
    /* The column has this field, and its values are given with this type. */
    uint32_t i_field;
    enum pst_field_type type;
    /* These belong to the present batch. */
    struct psti_arrow_leaf levels[PST_MAX_NDIM]; /* the lists */
    struct psti_arrow_leaf root, value, path;    /* the struct, if there is one */
    char text[PSTI_TEXT_IN_INDEX_NBYTES];        /* of the present row */
};

/* All that the type of a column is decided by. */
struct psti_arrow_decider {
    const struct psti_arrow_schema *schema;
    const struct psti_hub_features *hub; /* NULL: none */
    struct pst_error *err;
    enum pst_status status; /* PST_ERROR_MEMORY after a failure, else PST_OK */
};

/* Decides what becomes of field i_root of the table. Returns why it is left out, as a static text
 * that completes "its type"; NULL: it is not. A column with a dictionary gets it later. */
const char *psti_containers_arrow_decide(struct psti_arrow_decider *decider, uint32_t i_root,
                                         struct psti_arrow_column *column);

/* Takes the arrays of a batch. */
enum pst_status psti_containers_arrow_column_begin(struct psti_arrow_column *column,
                                                   struct psti_arrow_file *file,
                                                   const struct psti_arrow_schema *schema,
                                                   const struct psti_arrow_batch *batch,
                                                   struct pst_error *err);
/* Looks at value i before the column is declared. */
enum pst_status psti_containers_arrow_column_look(struct psti_arrow_column *column, uint64_t i,
                                                  struct pst_error *err);
static inline bool psti_containers_arrow_column_wants(const struct psti_arrow_column *column)
{
    return column->wants_count || column->wants_head;
}
/* Makes the value of row i of the batch. i_row: of the file. *has: false if it is missing. */
enum pst_status psti_containers_arrow_column_value(struct psti_arrow_column *column,
                                                   struct psti_containers_columns *columns,
                                                   uint64_t i, uint64_t i_row,
                                                   struct psti_container_value *value, bool *has,
                                                   struct pst_error *err);
/* Makes classes of an ordered dictionary, if its values can be names of classes. */
enum pst_status psti_containers_arrow_column_classes(struct psti_arrow_column *column,
                                                     const char *path, struct pst_error *err);

#endif
