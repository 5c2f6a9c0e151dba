/* containers_parquet_schema.h - what a column of a Parquet file is, by its schema alone. Pure
 * functions. */
#ifndef PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_SCHEMA_H
#define PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_SCHEMA_H

#include "containers/parquet/containers_parquet_plan.h"

/* Sets shape, leaves and levels of the column that begins at a node, and why it is refused.
 * n_dims: of the array that `datasets` says it is, else 1. Returns NULL, or why it is left out. */
const char *psti_containers_parquet_classify(const struct psti_parquet_meta *meta, uint32_t i_node,
                                             uint32_t n_dims, struct psti_parquet_column *column);
/* The type of a value of a leaf, but that byte arrays without a meaning are BYTES. 0: there is
 * none. */
enum pst_field_type psti_containers_parquet_value_type(const struct psti_parquet_node *leaf);

#endif
