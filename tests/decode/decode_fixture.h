/* decode_fixture.h - set-up and tear-down of a group of tests that share a decoder. */
#ifndef PST_TEST_DECODE_FIXTURE_H
#define PST_TEST_DECODE_FIXTURE_H

#include "decode_make.h"

extern struct psti_decoder *decoder;
int open_decoder(void **state);
int close_decoder(void **state);

#endif
