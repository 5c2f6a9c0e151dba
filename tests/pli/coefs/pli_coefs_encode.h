/* pli_coefs_encode.h - encodes coefficients that tests have made as PLI files, for tests in other
 * folders. */
#ifndef PST_TESTS_PLI_COEFS_ENCODE_H
#define PST_TESTS_PLI_COEFS_ENCODE_H

#include "pli/coefs/pli_coefs_make.h"

/* Returns a PLI in malloc's memory of exactly *nbytes, so that sanitizers detect reads after it.
 * With unit_log2 0 the encoder chooses the unit size. Ends the program if the encoder fails. */
uint8_t *coefs_encode(const struct coefs_image *image, uint8_t unit_log2, bool no_checksum,
                      size_t *nbytes);

#endif
