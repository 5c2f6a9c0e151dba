/* pli_jpeg_encode.h - encodes quantised coefficients as a PLI of content 2 (docs/format-pli.md,
 * sections 7 and 8). */
#ifndef PST_PLI_JPEG_ENCODE_H
#define PST_PLI_JPEG_ENCODE_H

#include "pli/format/pli_jpeg_format.h"

struct psti_jpeg_encode_options {
    uint64_t pixel_checksum; /* checksum of the decoded image, for the header */
    uint8_t unit_log2;       /* log2 of a unit's edge, 6..8; 0: chosen by the bit rate */
    bool no_checksum;
};

/* Writes the whole file into `bytes`. The bytes depend only on the arguments. All work is on the
 * calling thread. Fails with PST_ERROR_LIMIT if `capacity` is too small. A caller that accepts only
 * a file smaller than the JPEG passes the JPEG's length less one byte. Fails with
 * PST_ERROR_UNSUPPORTED if a coefficient is out of range. Allocates its working memory. */
enum pst_status psti_pli_jpeg_encode(const struct psti_jpeg_frame *frame,
                                     const int16_t *const coefs[], const uint8_t *restoration,
                                     const struct psti_jpeg_encode_options *options, void *bytes,
                                     size_t capacity, size_t *nbytes, struct pst_error *err);
/* Returns an upper bound of the bytes that psti_pli_jpeg_encode has allocated at any time for a
 * JPEG of jpeg_nbytes. */
uint64_t psti_pli_jpeg_encode_work_nbytes(const struct psti_jpeg_frame *frame, size_t jpeg_nbytes);

#endif
