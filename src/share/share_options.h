/* share_options.h - a loader's options as bytes, so that the host service can open the same loader.
 *
 * The bytes have two parts. The first has everything that affects the rows of an epoch; jobs with
 * equal first parts can share rows. The second has options that may differ between such jobs, such
 * as the way of reading. Options for one job alone (rows of a batch, ranks, threads, memory,
 * on_error, placement, cache) are left out. Numbers are little-endian. Pure functions; any
 * thread. */
#ifndef PST_SHARE_SHARE_OPTIONS_H
#define PST_SHARE_SHARE_OPTIONS_H

#include <penstock/loader.h>

enum {
    PSTI_SHARE_FIELDS_MAX = PST_MAX_FIELDS,
    PSTI_SHARE_OPS_MAX = 1024 /* limit for the operations of all fields together */
};

/* Writes complete options (as psti_loader_take_options makes them) as bytes. n_weights: number of
 * elements of `weights`. The caller frees *bytes by psti_free. PST_ERROR_UNSUPPORTED: the options
 * belong to another version of the library, or are too large to share. */
enum pst_status psti_share_options_print(const struct pst_loader_options *options,
                                         uint64_t n_weights, uint8_t **bytes, size_t *nbytes,
                                         struct pst_error *err);

/* Copies bytes from psti_share_options_print, which must have no changes, and adds changes of the
 * sources' weights (as pst_loader_set_source_weights takes them). The caller frees the new bytes by
 * psti_free. PST_ERROR_MEMORY. */
enum pst_status psti_share_options_change(const uint8_t *bytes, size_t nbytes,
                                          const uint64_t *places, const double *weights, uint32_t n,
                                          uint32_t n_sources, uint8_t **out_bytes,
                                          size_t *out_nbytes, struct pst_error *err);

/* Parsed options. Members that the bytes lack are zero. */
struct psti_share_options {
    struct pst_loader_options options; /* points into `memory` */
    uint64_t n_weights;
    const uint64_t *change_places; /* [n_changes][2], in `memory` */
    const double *change_weights;  /* [n_changes][options.n_source_weights] */
    uint32_t n_changes;
    uint64_t digest; /* XXH3 of the first part of the bytes */
    /* XXH3 of the first part without the fields. Loaders with equal values visit the same samples
     * in the same order. */
    uint64_t order_digest;
    void *memory;
};
/* Parses options, and trusts no byte. PST_ERROR_CORRUPT: the bytes are no options. pst_loader_open
 * checks whether the values are possible. The caller clears `out` also after failure. */
enum pst_status psti_share_options_parse(const uint8_t *bytes, size_t nbytes,
                                         struct psti_share_options *out, struct pst_error *err);
void psti_share_options_clear(struct psti_share_options *options);

#endif
