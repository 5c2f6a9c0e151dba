/* containers_parquet_plan.h - which columns of a Parquet file become which fields.
 *
 * A column is a child of the schema's root. It has one leaf, or two: the bytes and the path of an
 * image or a sound, as the library `datasets` writes them. */
#ifndef PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_PLAN_H
#define PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_PLAN_H

#include "containers/parquet/containers_parquet_cursor.h"

enum psti_parquet_shape {
    PSTI_SHAPE_VALUE = 1, /* a value a row */
    PSTI_SHAPE_FILE,      /* each row is a struct of bytes and path */
    PSTI_SHAPE_NUMBERS, /* each row is a list of numbers, or nested lists, that form an array */
    PSTI_SHAPE_FILES,   /* each row is a list of byte arrays or of such structs, of the same length
                         * in all rows */
};

enum { PSTI_ARRAY_IN_INDEX_NBYTES = 64 << 10 }; /* maximum number of bytes of an array that is
                                                 * copied into the index because its numbers are not
                                                 * contiguous */

/* The field that receives a value. */
struct psti_parquet_target {
    uint32_t i_field; /* or PSTI_COLUMN_LEFT_OUT */
    enum pst_field_type type;
};

struct psti_parquet_column {
    char *name;
    enum psti_parquet_shape shape;
    const struct psti_parquet_node *leaf; /* leaf of the bytes or numbers */
    const struct psti_parquet_node *path; /* leaf of the paths; NULL: there are none */
    bool is_refused;  /* its type is not supported: an error, unless a user's rule leaves the column
                       * out */
    const char *why;  /* why it is refused */
    uint32_t n_outer; /* lists: definition level of a list that is not null */
    uint32_t n_inner; /* lists: definition level of an element of the innermost list; the element
                       * may be null */
    enum pst_dtype dtype;
    uint8_t ndim; /* arrays: dimensions, at least 1; dims[0] follows from the number of elements */
    uint32_t dims[PST_MAX_NDIM];
    uint32_t n_targets; /* 1, or the number of items of each list */
    struct psti_parquet_target *targets;
    uint8_t *copy; /* PSTI_ARRAY_IN_INDEX_NBYTES bytes to copy an array's elements to */
    struct psti_parquet_cursor values, paths;
};

struct psti_parquet_plan {
    struct psti_parquet_file *file;
    struct psti_parquet_column *columns; /* the columns that become fields */
    uint32_t n_columns;
};

/* Declares all columns, by the schema, the features of `datasets`, and the first values. Columns
 * that cannot be read in place are left out, and the log names them. `file` must outlive the plan.
 * After a failure the plan is empty. */
enum pst_status psti_containers_parquet_plan_open(struct psti_parquet_plan *plan,
                                                  struct psti_parquet_file *file,
                                                  struct pst_error *err);
/* Frees the plan's memory. A plan whose members are all zero is fine. */
void psti_containers_parquet_plan_close(struct psti_parquet_plan *plan);

#endif
