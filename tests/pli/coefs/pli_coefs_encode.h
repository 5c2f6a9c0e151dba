/* pli_coefs_encode.h - PLI files of coefficients that tests have made, for tests of other rooms. */
#ifndef PST_TESTS_PLI_COEFS_ENCODE_H
#define PST_TESTS_PLI_COEFS_ENCODE_H

#include "pli/coefs/pli_coefs_make.h"

/* malloc's, of exactly *nbytes: reads behind it are seen. unit_log2 0: chosen by the encoder. Ends
 * the program if there is none. */
uint8_t *coefs_encode(const struct coefs_image *image, uint8_t unit_log2, bool no_checksum,
                      size_t *nbytes);

#endif
