/* containers_parquet_rows.h - makes the values of one row. */
#ifndef PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_ROWS_H
#define PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_ROWS_H

#include "containers/parquet/containers_parquet_plan.h"

/* Takes what a column has in the next row, and adds it to *n values, of which there are
 * PST_MAX_FIELDS. They are valid until the column's next row. `row`: its number in the file. */
enum pst_status psti_containers_parquet_take(struct psti_parquet_column *column, uint64_t row,
                                             struct psti_container_value *values, uint32_t *n,
                                             struct pst_error *err);

#endif
