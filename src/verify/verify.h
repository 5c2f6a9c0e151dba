/* verify.h - checksums of decoded pixels, and the place of an error in a data set. pst_verify uses
 * them, and pst_pack, which stores what pst_verify compares.
 *
 * Any thread, with a decoder of its own. */
#ifndef PST_VERIFY_VERIFY_H
#define PST_VERIFY_VERIFY_H

#include "decode/decode.h"

#include <penstock/dataset.h>

/* How the pixels of a field are decoded for their checksum: as stored; masks with a palette by
 * their indices. */
void psti_verify_decode_options(enum pst_field_type type, struct pst_decode_options *options);
/* True if the bytes hold exactly the pixels that any decoder gives: PNG, raw, PLI (near-lossless
 * too), WebP of the lossless kind. */
bool psti_verify_is_lossless(enum pst_form form, const void *bytes, size_t nbytes);
/* Bytes of the decoded pixels, by `info`. False: more than memory can hold. */
bool psti_verify_pixels_nbytes(const struct pst_image_info *info,
                               const struct pst_decode_options *options, size_t *row_nbytes,
                               size_t *nbytes);
/* Decodes the whole image row by row and hashes the pixels; holds no more than the decoder does.
 * *hash: XXH3-64 of (H,W,C), u8 or u16 little-endian. */
enum pst_status psti_verify_hash_pixels(struct psti_decoder *decoder, const void *bytes,
                                        size_t nbytes, const struct pst_image_info *info,
                                        const struct pst_decode_options *options, uint64_t *hash,
                                        struct pst_error *err);
/* Fills in what `err` does not know yet: data set, sample, the file of `item` (may be NULL) and the
 * codec. */
void psti_verify_locate(struct pst_error *err, const pst_dataset *dataset, uint64_t sample,
                        const struct pst_item *item);

#endif
