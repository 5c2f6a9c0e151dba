/* decode_options.h - a function that reads and checks the options of a decode. */
#ifndef PST_DECODE_DECODE_OPTIONS_H
#define PST_DECODE_DECODE_OPTIONS_H

#include "decode/decode.h"

/* Fills `out` from the caller's options, which may be an older version of the struct, and checks
 * them. Members that are 0 get their defaults. Errors name the codec of `form`. */
enum pst_status psti_decode_read_options(const struct pst_decode_options *options,
                                         struct pst_decode_options *out, enum pst_form form,
                                         struct pst_error *err);

#endif
