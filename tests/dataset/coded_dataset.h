/* coded_dataset.h - makes fields of a packed data set count as deflated items, which packed data
 * sets never have. So the code that reads such items can be tested with all kinds of storage. */
#ifndef PST_TESTS_CODED_DATASET_H
#define PST_TESTS_CODED_DATASET_H

#include <penstock/dataset.h>

/* Returns raw deflate data of `bytes`, which the caller frees. */
void *deflate_bytes(const void *bytes, size_t nbytes, size_t *n);

/* Turns field i_field, whose type is bytes, into a field of deflated items with that type and
 * form.
 *
 * decoded_nbytes: decoded size of each sample's item; must live until the data set is closed.
 * Only one data set of the process can have such fields. */
void code_field(pst_dataset *dataset, uint32_t i_field, enum pst_field_type type,
                enum pst_form form, const uint64_t *decoded_nbytes);

#endif
