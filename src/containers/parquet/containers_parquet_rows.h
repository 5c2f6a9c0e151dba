/* containers_parquet_rows.h - makes the field values of one row of a Parquet file. */
#ifndef PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_ROWS_H
#define PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_ROWS_H

#include "containers/parquet/containers_parquet_plan.h"

/* Reads a column's part of the next row and appends its values; *n counts them. `values` has room
 * for PST_MAX_FIELDS. The values are valid until the column's next row is read. `row`: number of
 * the row in the file. */
enum pst_status psti_containers_parquet_take(struct psti_parquet_column *column, uint64_t row,
                                             struct psti_container_value *values, uint32_t *n,
                                             struct pst_error *err);

#endif
