/* dataset_query.h - completes errors of queries to a data set. */
#ifndef PST_DATASET_DATASET_QUERY_H
#define PST_DATASET_DATASET_QUERY_H

#include "dataset/dataset_int.h"

/* Adds to an error what the code that failed does not know: the data set and the sample (-1: none).
 * Returns `status`. */
enum pst_status psti_dataset_complete(const pst_dataset *dataset, int64_t sample,
                                      enum pst_status status, struct pst_error *err);

#endif
