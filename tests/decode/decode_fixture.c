/* decode_fixture.c - implements decode_fixture.h: one decoder for a group of tests. */
#include "decode_fixture.h"

struct psti_decoder *decoder;

int open_decoder(void **state)
{
    struct pst_error err;
    (void)state;
    assert_ok(psti_decode_open(&decoder, &err));
    return 0;
}

int close_decoder(void **state)
{
    (void)state;
    psti_decode_close(&decoder);
    return 0;
}
