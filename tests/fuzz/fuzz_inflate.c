/* fuzz_inflate.c - anything that may be deflated: both ways to inflate agree on the first bytes,
 * and nothing behind the output is written. */
#include "base/inflate.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

enum { OUT_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static struct psti_inflater *inflater;
    struct pst_error err = {0};
    size_t n_head = 0;
    if (inflater == NULL)
        CHECK(psti_inflate_open(&inflater, "fuzz", &err) == PST_OK);
    uint8_t *head = malloc(OUT_MAX);
    CHECK(head != NULL);
    enum pst_status status =
        psti_inflate_head(inflater, data, nbytes, head, OUT_MAX, &n_head, &err);
    CHECK(n_head <= OUT_MAX && (status == PST_OK || err.text[0] != '\0'));
    uint8_t *out = malloc(n_head > 0 ? n_head : 1); /* so that a sanitizer sees a byte behind it */
    CHECK(out != NULL);
    if (psti_inflate_raw(inflater, data, nbytes, out, n_head, &err) == PST_OK)
        CHECK(status != PST_OK || memcmp(out, head, n_head) == 0);
    free(out);
    free(head);
    return 0;
}
