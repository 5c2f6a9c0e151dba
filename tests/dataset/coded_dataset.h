/* coded_dataset.h - makes fields of a packed data set count as deflated items, which packed data
 * sets do not have: what reads them is then tested with all kinds of storage. */
#ifndef PST_TESTS_CODED_DATASET_H
#define PST_TESTS_CODED_DATASET_H

#include <penstock/dataset.h>

/* Raw deflate data of `bytes`, which the caller frees. */
void *deflate_bytes(const void *bytes, size_t nbytes, size_t *n);

/* Makes field i_field, whose type is bytes, one of that type and form, whose items are deflated.
 *
 * decoded_nbytes: of each sample's item; kept until the data set is closed. One data set of the
 * process can have such fields. */
void code_field(pst_dataset *dataset, uint32_t i_field, enum pst_field_type type,
                enum pst_form form, const uint64_t *decoded_nbytes);

#endif
