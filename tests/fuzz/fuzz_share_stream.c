/* fuzz_share_stream.c - reads any bytes as options of a loader or as the body of a message about
 * shared batches; the first byte chooses. What is accepted is printed and parsed again, with the
 * same result. Seeds: make_share_corpus.py. */
#include "share/share_options.h"
#include "share/share_stream_wire.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "options/options_members.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

static uint8_t again[PSTI_MESSAGE_NBYTES];

static void try_options(const uint8_t *bytes, size_t nbytes)
{
    struct psti_share_options first, second;
    uint8_t *printed = NULL, *own = malloc(nbytes + 1);
    size_t n;
    if (!own)
        abort();
    memcpy(own, bytes, nbytes);
    if (nbytes >= 8) /* otherwise nearly all inputs fail the check of the option tables */
        psti_store_u32(own + 4, psti_options_digest());
    if (psti_share_options_parse(own, nbytes, &first, NULL) == PST_OK) {
        if (psti_share_options_print(&first.options, first.n_weights, &printed, &n, NULL) !=
                PST_OK ||
            n != nbytes || psti_share_options_parse(printed, n, &second, NULL) != PST_OK ||
            second.digest != first.digest)
            abort();
        psti_share_options_clear(&second);
    }
    psti_free(printed);
    free(own);
    psti_share_options_clear(&first);
}

static void compare(const struct psti_wire_out *out, const uint8_t *bytes, size_t nbytes)
{
    if (out->full || out->nbytes != nbytes || memcmp(out->bytes, bytes, nbytes) != 0)
        abort();
}

static const struct psti_stream_layout layout = {
    .extent_rows = 8, .n_slots = 4, .stride = 1 << 20, .own = 1 << 16};

static void try_message(int kind, const uint8_t *bytes, size_t nbytes)
{
    struct psti_wire_in in = {.bytes = bytes, .nbytes = nbytes};
    struct psti_wire_out out = {.bytes = again, .capacity = sizeof again};
    static struct psti_stream_open open;
    static struct psti_share_dataset dataset;
    static struct psti_stream_layout theirs;
    static struct psti_stream_want want;
    static struct psti_stream_ready ready;
    enum psti_stream_alone alone;
    if (kind == 1) {
        (void)!psti_share_get_open(&in, &open, &dataset, NULL);
    } else if (kind == 2 && psti_share_get_layout(&in, &theirs, NULL) == PST_OK) {
        psti_share_put_layout(&out, &theirs);
        compare(&out, bytes, nbytes);
    } else if (kind == 3 && psti_share_get_want(&in, &want, NULL) == PST_OK) {
        psti_share_put_want(&out, &want);
        compare(&out, bytes, nbytes);
    } else if (kind == 4 && psti_share_get_ready(&in, &layout, &ready, NULL) == PST_OK) {
        psti_share_put_ready(&out, &ready);
        compare(&out, bytes, nbytes);
    } else if (kind == 5 && psti_share_get_alone(&in, &alone, NULL) == PST_OK) {
        psti_share_put_alone(&out, alone);
        compare(&out, bytes, nbytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    if (nbytes == 0)
        return 0;
    if (bytes[0] == 0)
        try_options(bytes + 1, nbytes - 1);
    else
        try_message(bytes[0], bytes + 1, nbytes - 1);
    return 0;
}
