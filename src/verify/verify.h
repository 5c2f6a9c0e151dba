/* verify.h - which pixels a field's checksums are of, and the place of an error in a data set.
 * pst_pack and pst_verify use it.
 *
 * Any thread, with a decoder of its own. */
#ifndef PST_VERIFY_VERIFY_H
#define PST_VERIFY_VERIFY_H

#include "decode/decode.h"

#include <penstock/dataset.h>

/* Sets how the pixels of a field are decoded for their checksum: as stored, and masks with a
 * palette as its indices. */
void psti_verify_decode_options(enum pst_field_type type, struct pst_decode_options *options);
/* True if all decoders get the same pixels from the bytes: PNG, raw, PLI (near-lossless too),
 * lossless WebP. */
bool psti_verify_is_lossless(enum pst_form form, const void *bytes, size_t nbytes);
/* Fills in the parts of `err` that are not set: data set, sample, the file of `item` (may be
 * NULL) and the codec. */
void psti_verify_locate(struct pst_error *err, const pst_dataset *dataset, uint64_t sample,
                        const struct pst_item *item);

#endif
