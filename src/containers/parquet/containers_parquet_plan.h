/* containers_parquet_plan.h - which columns of a Parquet file become which fields.
 *
 * The columns are the parts of the schema's root. A column is made of one leaf, or of two: the
 * bytes and the path of an image or a sound, as the library `datasets` writes them. */
#ifndef PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_PLAN_H
#define PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_PLAN_H

#include "containers/parquet/containers_parquet_cursor.h"

enum psti_parquet_shape {
    PSTI_SHAPE_VALUE = 1, /* a value a row */
    PSTI_SHAPE_FILE,      /* a struct of bytes and path a row */
    PSTI_SHAPE_NUMBERS, /* a list of numbers, or lists of them in each other, which have a shape */
    PSTI_SHAPE_FILES,   /* a list of as many byte arrays or such structs in each row */
};

enum { PSTI_ARRAY_IN_INDEX_NBYTES = 64 << 10 }; /* of numbers that do not lie behind each other */

/* The field of a value. */
struct psti_parquet_target {
    uint32_t i_field; /* or PSTI_COLUMN_LEFT_OUT */
    enum pst_field_type type;
};

struct psti_parquet_column {
    char *name;
    enum psti_parquet_shape shape;
    const struct psti_parquet_node *leaf; /* of the bytes or numbers */
    const struct psti_parquet_node *path; /* of the paths; NULL: there are none */
    bool is_refused;  /* its type is not read: an error, unless it is left out */
    const char *why;  /* it is refused */
    uint32_t n_outer; /* lists: the definition level of one that is there */
    uint32_t n_inner; /* lists: the definition level of an element that is there, but for nulls */
    enum pst_dtype dtype;
    uint8_t ndim; /* of arrays, at least 1; dims[0] is as the elements tell */
    uint32_t dims[PST_MAX_NDIM];
    uint32_t n_targets; /* 1, or the items of a list */
    struct psti_parquet_target *targets;
    uint8_t *copy; /* PSTI_ARRAY_IN_INDEX_NBYTES, of the elements of an array */
    struct psti_parquet_cursor values, paths;
};

struct psti_parquet_plan {
    struct psti_parquet_file *file;
    struct psti_parquet_column *columns; /* those that are taken */
    uint32_t n_columns;
};

/* Looks at the schema, at what `datasets` says of it, and at first values, and declares all
 * columns. Columns that cannot be read in place are left out, and the log names them. `file` must
 * outlive the plan. After a failure the plan is empty. */
enum pst_status psti_containers_parquet_plan_open(struct psti_parquet_plan *plan,
                                                  struct psti_parquet_file *file,
                                                  struct pst_error *err);
/* A plan of zeros may be closed. */
void psti_containers_parquet_plan_close(struct psti_parquet_plan *plan);

#endif
