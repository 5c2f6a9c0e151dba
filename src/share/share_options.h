/* share_options.h - the options of a loader as bytes, so that the host service can open the same
 * loader.
 *
 * The bytes have two parts. The first has all that decides about the rows of an epoch; jobs for
 * which it is equal can share them. The second has what may differ between such jobs, such as the
 * way of reading. What concerns one job alone (rows of a batch, ranks, threads, memory, on_error,
 * placement, cache) is left out. Numbers are little-endian. Pure functions; any thread. */
#ifndef PST_SHARE_SHARE_OPTIONS_H
#define PST_SHARE_SHARE_OPTIONS_H

#include <penstock/loader.h>

enum {
    PSTI_SHARE_FIELDS_MAX = PST_MAX_FIELDS,
    PSTI_SHARE_OPS_MAX = 1024 /* operations of all fields together */
};

/* Makes the bytes of complete options (as psti_loader_take_options leaves them), whose `weights`
 * are n_weights. *bytes is the caller's to free by psti_free.
 * PST_ERROR_UNSUPPORTED: they are for another library, or too large to share. */
enum pst_status psti_share_options_print(const struct pst_loader_options *options,
                                         uint64_t n_weights, uint8_t **bytes, size_t *nbytes,
                                         struct pst_error *err);

/* Makes other bytes of those that psti_share_options_print made, with changes of the weights of
 * sources (as pst_loader_set_source_weights takes them) that take the place of none. The new bytes
 * are the caller's to free by psti_free. PST_ERROR_MEMORY. */
enum pst_status psti_share_options_change(const uint8_t *bytes, size_t nbytes,
                                          const uint64_t *places, const double *weights, uint32_t n,
                                          uint32_t n_sources, uint8_t **out_bytes,
                                          size_t *out_nbytes, struct pst_error *err);

/* Options that were parsed. The members it does not have are zero. */
struct psti_share_options {
    struct pst_loader_options options; /* points into `memory` */
    uint64_t n_weights;
    const uint64_t *change_places; /* [n_changes][2], in `memory` */
    const double *change_weights;  /* [n_changes][options.n_source_weights] */
    uint32_t n_changes;
    uint64_t digest; /* XXH3 of the first part */
    /* XXH3 of what of it is not of fields: loaders for which it is equal visit the same samples in
     * the same order */
    uint64_t order_digest;
    void *memory;
};
/* Parses them, and trusts no byte. PST_ERROR_CORRUPT: they are none. Whether the values are
 * possible is for pst_loader_open to say. `out` is to be cleared in any case. */
enum pst_status psti_share_options_parse(const uint8_t *bytes, size_t nbytes,
                                         struct psti_share_options *out, struct pst_error *err);
void psti_share_options_clear(struct psti_share_options *options);

#endif
