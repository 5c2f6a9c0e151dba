/* fuzz_codings.c - decodes any bytes as an item with a coding: nothing behind the output is
 * written, and decoding twice gives the same bytes.
 *
 * Input: the coding, two bytes of the stated length, the stored bytes. */
#include "base/codings/codings.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static struct psti_codings *codings;
    struct pst_error err = {0};
    if (codings == NULL)
        CHECK(psti_codings_open(&codings, 0, "fuzz", &err) == PST_OK);
    if (nbytes < 3)
        return 0;
    enum pst_coding coding = (enum pst_coding)(data[0] % 8);
    size_t n_out = data[1] | (size_t)data[2] << 8, n_in = nbytes - 3;
    /* Exact sizes, so a sanitizer detects accesses on either side. */
    uint8_t *in = malloc(n_in > 0 ? n_in : 1), *out[2];
    CHECK(in != NULL);
    memcpy(in, data + 3, n_in);
    enum pst_status status = PST_OK;
    for (int i = 0; i < 2; i++) {
        out[i] = malloc(n_out > 0 ? n_out : 1);
        CHECK(out[i] != NULL);
        memset(out[i], 17 * i, n_out);
        enum pst_status now = psti_codings_decode(codings, coding, in, n_in, out[i], n_out, &err);
        CHECK(i == 0 || now == status);
        CHECK(now == PST_OK || err.text[0] != '\0');
        status = now;
    }
    if (status == PST_OK)
        CHECK(memcmp(out[0], out[1], n_out) == 0);
    free(out[0]);
    free(out[1]);
    free(in);
    return 0;
}
