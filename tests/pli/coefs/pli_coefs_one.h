/* pli_coefs_one.h - decodes one unit of coefficients by the three calls of
 * pli/decode/coefs/pli_coefs.h. */
#ifndef PST_TESTS_PLI_COEFS_ONE_H
#define PST_TESTS_PLI_COEFS_ONE_H

#include "pli/decode/coefs/pli_coefs.h"

static inline enum pst_status pli_coefs_decode(const struct psti_pli_coefs_tables *tables,
                                               const uint8_t *bytes, size_t nbytes, uint32_t k_last,
                                               const uint64_t *wanted, void *work,
                                               struct psti_pli_coefs *out, struct pst_error *err)
{
    enum pst_status status = psti_pli_coefs_begin(tables, bytes, nbytes, k_last, work, out, err);
    if (status != PST_OK)
        return status;
    psti_pli_coefs_read(&work, 1);
    return psti_pli_coefs_finish(work, wanted, err);
}

#endif
