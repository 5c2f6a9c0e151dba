/* order.h - the order of samples: which sample stands at each position of an epoch. Pure functions
 * of (seed, epoch, n), without tables.
 *
 * SHUFFLED is a Feistel network over the smallest even number of bits that holds n, repeated until
 * the result is below n (cycle walking: Black and Rogaway, "Ciphers with arbitrary finite domains",
 * CT-RSA 2002), with Philox rounds. */
#ifndef PST_ORDER_ORDER_H
#define PST_ORDER_ORDER_H

#include <penstock/mixture.h>

#define PSTI_ORDER_VERSION 2

/* PAGES: what page_samples and window_pages are where they are 0. With these numbers a batch mixes
 * as many pages as with the former default, 64 and 64, while a window takes a quarter of the
 * memory (docs/internals/page-order.md). */
enum { PSTI_ORDER_PAGE_SAMPLES = 16, PSTI_ORDER_WINDOW_PAGES = 64 };

struct psti_order;

/* A rank and the world size, which is at least 1. */
struct psti_ranks {
    uint32_t rank, world_size;
};

/* A mixture of sources with weights. Source k has the samples from firsts[k] up to firsts[k + 1],
 * or to the end; with a subset, those of them that are in the subset, in its order. Each slot of an
 * epoch is given to a source. Of the first t slots (since the epoch's start or the last change of
 * weights), source k has its share of t, rounded down or up, for every t. A source gives each
 * sample once, then all of them again in a new order. A source of weight 0 is not drawn. SHUFFLED
 * shuffles the slots within each block. With quota 0 it shuffles the whole epoch (2^20 slots at a
 * time if the epoch is endless), so batches have their shares only on average. */
struct psti_order_mix {
    const uint64_t *firsts; /* u64 (n_sources), first sample of each source, not falling, [0] is 0;
                             * read during open only */
    const double *weights;  /* f64 (n_sources), >= 0, in any unit; read during open only */
    uint32_t n_sources;
    uint32_t quota; /* positions in a block; 0: no blocks, the whole epoch is shuffled */
    enum pst_source_stop stop;
};

struct psti_order_options {
    enum pst_order kind;
    uint64_t seed;
    uint64_t n_samples;      /* number of samples of the data set */
    const uint64_t *indices; /* subset, copied; NULL: all samples */
    uint64_t n_indices;
    const double *weights; /* weights of samples, copied; NULL: none */
    /* PAGES: u32 (n_samples), copied: an order of the samples from which pages are cut, so that
     * related samples share a page. NULL: pages are cut in the order of the sample numbers; with
     * `indices`, in the order of the indices. */
    const uint32_t *neighbours;
    uint32_t page_samples, window_pages;
    uint32_t batch_size;
    bool drop_last;
    bool no_epoch_padding; /* true: some ranks may have one position more than others */
    /* Number of consecutive positions that hold the same sample; 0 means 1. Must be 0 or 1 with
     * PAGES. */
    uint32_t repeats;
    /* Sources with weights; NULL: none. Must be NULL with PAGES, `weights` or `repeats`. */
    const struct psti_order_mix *mix;
};

enum pst_status psti_order_open(const struct psti_order_options *options, struct psti_order **out,
                                struct pst_error *err);
void psti_order_close(struct psti_order **order);
/* Sets the batch size, in positions, from now on. No other thread may use the order during the
 * call. */
void psti_order_set_batch_size(struct psti_order *order, uint32_t batch_size);
/* Sets the positions from which on the sources have other weights. Replaces all changes set before.
 * places: u64 (n,2), epoch and position, not falling. weights: f64 (n, n_sources). A change takes
 * effect with the first block that begins at its position or later; if several changes fall on the
 * same block, the last one counts. Each source continues the pass that it is in. psti_order_n does
 * not change. After an error the order is as before. No other thread may use the order during the
 * call.
 *
 * charge: called after all checks with the number of bytes by which the tables grow (negative:
 * shrink). It returns false if there is no memory for them; the result is then PST_ERROR_LIMIT. */
typedef bool (*psti_order_charge_fn)(void *ctx, int64_t more);
enum pst_status psti_order_set_changes(struct psti_order *order, const uint64_t *places,
                                       const double *weights, uint32_t n,
                                       psti_order_charge_fn charge, void *ctx,
                                       struct pst_error *err);
/* Checks that rank < world_size; if not, returns PST_ERROR_ARGUMENT. */
enum pst_status psti_order_check_ranks(struct psti_ranks ranks, struct pst_error *err);

/* Returns the number of positions of an epoch, before padding or dropping: n_indices or n_samples
 * or, with `mix`, the number that the mixture's `stop` rule gives. */
uint64_t psti_order_n(const struct psti_order *order);
/* Returns the sample at position p of an epoch. p < psti_order_n; positions beyond that wrap around
 * (padding). */
uint64_t psti_order_sample(const struct psti_order *order, uint64_t epoch, uint64_t position);
/* Returns a sample to use instead of the bad one at a position, chosen by a random number. In a
 * mixture with weights it comes from the same source. */
uint64_t psti_order_replacement(const struct psti_order *order, uint64_t epoch, uint64_t position,
                                uint64_t random);
/* Returns the draw: a number that distinguishes positions of the same sample. It is the position if
 * weights, repeated indices, `repeats` or `mix` may give a sample several times, else 0. Padding
 * has the draw of the position that it repeats. */
uint64_t psti_order_draw(const struct psti_order *order, uint64_t position);
/* Returns the first position that no rank delivers in an epoch that starts at `start`. Padding
 * counts as delivered, a dropped tail does not. */
uint64_t psti_order_end(const struct psti_order *order, struct psti_ranks ranks, uint64_t start);
/* Returns the number of a rank's batches in an epoch that starts at position `start`. */
uint64_t psti_order_n_batches(const struct psti_order *order, struct psti_ranks ranks,
                              uint64_t start);
/* Writes the positions of batch `step`, counted from `start`; they are consecutive. Returns their
 * number, at most batch_size; 0: behind the end. With batch size B and world size W, step b covers
 * the positions from start + b*B*W on, and rank r has the r-th block of B positions. In a short
 * last step, the rest is divided among the ranks. */
uint32_t psti_order_batch(const struct psti_order *order, struct psti_ranks ranks, uint64_t start,
                          uint64_t step, uint64_t *positions);
/* Returns a hash that is equal for orders that give the same samples. It covers changes of weights,
 * but not rank and batch size. It is stored as pst_loader_state.order_hash. */
uint64_t psti_order_hash(const struct psti_order *order);
/* Returns the hash that this order would have with pages of page_samples samples and windows of
 * window_pages pages. */
uint64_t psti_order_hash_with(const struct psti_order *order, uint32_t page_samples,
                              uint32_t window_pages);

/* For read-ahead with PAGES: psti_order_window returns the number of the window that holds a
 * position; UINT64_MAX: no windows. psti_order_window_page gives the consecutive samples of the
 * window's i-th page; false: there is none, or a subset or `neighbours` is in use, so a page is no
 * range of samples. */
uint64_t psti_order_window(const struct psti_order *order, uint64_t position);
bool psti_order_window_page(const struct psti_order *order, uint64_t epoch, uint64_t window,
                            uint64_t i_page, uint64_t *first, uint64_t *n);
/* Returns the end position of the window that holds a position (the first one behind it);
 * UINT64_MAX: there are no windows. */
uint64_t psti_order_window_end(const struct psti_order *order, uint64_t position);
/* Returns the number of samples of the largest window; 0: there are no windows. */
uint64_t psti_order_window_max(const struct psti_order *order);

/* Returns the bytes of the tables that the order keeps: subset, weights, neighbours, schedule. */
uint64_t psti_order_nbytes(const struct psti_order *order);

#endif
