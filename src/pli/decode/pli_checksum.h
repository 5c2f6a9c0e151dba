/* pli_checksum.h - computes the checksum of a whole image's pixels, row by row as they are decoded.
 */
#ifndef PST_PLI_CHECKSUM_H
#define PST_PLI_CHECKSUM_H

#include "base/hash.h"
#include "pli/format/pli_head.h"

/* Adds the first `n_rows` rows to the hash, as (n_rows, W, C) samples in any layout. */
void psti_pli_hash_rows(const struct pst_pixels *pixels, uint32_t n_rows,
                        struct psti_hash_state *state);
/* Compares the hash with the header's checksum after the last row. Returns PST_ERROR_CHECKSUM if
 * they differ. */
enum pst_status psti_pli_compare_pixels(const struct psti_hash_state *state,
                                        const struct psti_pli_header *header,
                                        struct pst_error *err);

#endif
