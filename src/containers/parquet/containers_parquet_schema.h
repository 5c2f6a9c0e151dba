/* containers_parquet_schema.h - classifies a column of a Parquet file by its schema alone. Pure
 * functions. */
#ifndef PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_SCHEMA_H
#define PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_SCHEMA_H

#include "containers/parquet/containers_parquet_plan.h"

/* Sets shape, leaves and levels of the column that begins at node i_node; and is_refused and why,
 * if its type is not supported. n_dims: dimensions of the array that `datasets` states, else 1.
 * Returns NULL, or why the column is left out. */
const char *psti_containers_parquet_classify(const struct psti_parquet_meta *meta, uint32_t i_node,
                                             uint32_t n_dims, struct psti_parquet_column *column);
/* Returns the field type of a leaf's values; 0: none. Byte arrays without a stated meaning are
 * BYTES. */
enum pst_field_type psti_containers_parquet_value_type(const struct psti_parquet_node *leaf);

#endif
