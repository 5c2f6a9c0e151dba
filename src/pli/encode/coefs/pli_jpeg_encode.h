/* pli_jpeg_encode.h - quantised coefficients -> a PLI of content 2 (docs/format-pli.md, sections 7
 * and 8). */
#ifndef PST_PLI_JPEG_ENCODE_H
#define PST_PLI_JPEG_ENCODE_H

#include "pli/format/pli_jpeg_format.h"

struct psti_jpeg_encode_options {
    uint64_t pixel_checksum; /* of the decoded image, for the header */
    uint8_t unit_log2;       /* 6..8; 0: chosen by the bit rate */
    bool no_checksum;
};

/* Writes the whole file into `bytes`. Deterministic, on the calling thread. PST_ERROR_LIMIT if
 * `capacity` does not do (a caller who wants no file larger than the JPEG gives just that);
 * PST_ERROR_UNSUPPORTED if a coefficient is out of range. Memory for its work is allocated. */
enum pst_status psti_pli_jpeg_encode(const struct psti_jpeg_frame *frame,
                                     const int16_t *const coefs[], const uint8_t *restoration,
                                     const struct psti_jpeg_encode_options *options, void *bytes,
                                     size_t capacity, size_t *nbytes, struct pst_error *err);

#endif
