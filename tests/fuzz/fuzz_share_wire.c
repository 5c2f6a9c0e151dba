/* fuzz_share_wire.c - any bytes as a message of the host service's protocol. What is accepted is
 * printed again and parsed again, with the same result. Seeds: make_share_corpus.py. */
#include "share/share_link.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

static uint8_t again[PSTI_MESSAGE_NBYTES];

static void try_hello(struct psti_wire_in in)
{
    struct psti_hello hello, second;
    if (psti_share_get_hello(&in, &hello, NULL) != PST_OK)
        return;
    struct psti_wire_out out = psti_share_begin(again);
    psti_share_put_hello(&out, &hello);
    struct psti_wire_in back = psti_share_body(again, out.nbytes);
    if (psti_share_get_hello(&back, &second, NULL) != PST_OK ||
        memcmp(&hello, &second, sizeof hello) != 0 ||
        psti_share_end(&back, "hello", NULL) != PST_OK)
        abort();
    (void)!psti_share_check_protocol(&hello, "client", NULL);
}

static void try_error(struct psti_wire_in in)
{
    struct pst_error err, second;
    psti_share_get_error(&in, &err);
    if (err.status == PST_OK || err.status == PST_END)
        abort();
    if (psti_share_end(&in, "error", NULL) != PST_OK)
        return;
    struct psti_wire_out out = psti_share_begin(again);
    psti_share_put_error(&out, &err);
    struct psti_wire_in back = psti_share_body(again, out.nbytes);
    psti_share_get_error(&back, &second);
    if (out.full || psti_share_end(&back, "error", NULL) != PST_OK ||
        memcmp(&err, &second, sizeof err) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    struct psti_message_head head;
    if (psti_share_parse_head(bytes, nbytes, &head, NULL) != PST_OK)
        return 0;
    if (head.nbytes != nbytes || head.n_fds > PSTI_MESSAGE_FDS)
        abort();
    struct psti_wire_in in = psti_share_body(bytes, nbytes);
    if (head.kind == PSTI_MESSAGE_HELLO || head.kind == PSTI_MESSAGE_WELCOME)
        try_hello(in);
    else if (head.kind == PSTI_MESSAGE_ERROR)
        try_error(in);
    return 0;
}
