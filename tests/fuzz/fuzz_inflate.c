/* fuzz_inflate.c - inflates any bytes: both inflate functions must agree on the first bytes, and
 * must not write behind the output. */
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
    /* exact size, so a sanitizer detects a byte behind it */
    uint8_t *out = malloc(n_head > 0 ? n_head : 1);
    CHECK(out != NULL);
    if (psti_inflate_raw(inflater, data, nbytes, out, n_head, &err) == PST_OK)
        CHECK(status != PST_OK || memcmp(out, head, n_head) == 0);
    free(out);
    free(head);
    return 0;
}
