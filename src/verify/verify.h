/* verify.h - says which pixels a field's checksums cover, and completes errors with their place in
 * a data set. pst_pack and pst_verify use it. Any thread, with its own decoder. */
#ifndef PST_VERIFY_VERIFY_H
#define PST_VERIFY_VERIFY_H

#include "decode/decode.h"

#include <penstock/dataset.h>

/* Sets how the pixels of a field are decoded for their checksum: as stored, and masks with a
 * palette as indices. */
void psti_verify_decode_options(enum pst_field_type type, struct pst_decode_options *options);
/* True if all decoders give the same pixels for these bytes: PNG, raw, PLI (even near-lossless),
 * lossless WebP. */
bool psti_verify_is_lossless(enum pst_form form, const void *bytes, size_t nbytes);
/* Fills in the unset parts of `err`: data set, sample, the file of `item` (may be NULL) and the
 * codec. */
void psti_verify_locate(struct pst_error *err, const pst_dataset *dataset, uint64_t sample,
                        const struct pst_item *item);

#endif
