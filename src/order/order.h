/* order.h - the door of the room: the sample at each position of an epoch. Pure functions of (seed,
 * epoch, n), without tables.
 *
 * SHUFFLED is a Feistel network over the smallest even number of bits that holds n, walked until
 * the result is below n (cycle walking: Black and Rogaway, "Ciphers with arbitrary finite domains",
 * CT-RSA 2002), with Philox rounds. */
#ifndef PST_ORDER_ORDER_H
#define PST_ORDER_ORDER_H

#include <penstock/mixture.h>

#define PSTI_ORDER_VERSION 2

struct psti_order;

/* A rank and the world size, which is at least 1. */
struct psti_ranks {
    uint32_t rank, world_size;
};

/* Sources with weights. Source k has the samples from firsts[k] up to firsts[k + 1], or to the end.
 * With a subset it has those that are in the subset, in its order. Take the first t slots of an
 * epoch, or since the last change of weights: for every t, source k has its share of t, rounded
 * down or up. A source gives each sample once, then all of them again in a new order. A source of
 * weight 0 is not drawn. SHUFFLED shuffles the slots within each block. With quota 0 it shuffles
 * the whole epoch (2^20 slots at a time if the epoch is endless), so batches have their shares only
 * on average. */
struct psti_order_mix {
    const uint64_t *firsts; /* u64 (n_sources), rising or equal, [0] is 0; read during open only */
    const double *weights;  /* f64 (n_sources), >= 0, in any unit; read during open only */
    uint32_t n_sources;
    uint32_t quota; /* number of positions of a block */
    enum pst_source_stop stop;
};

struct psti_order_options {
    enum pst_order kind;
    uint64_t seed;
    uint64_t n_samples;      /* samples of the data set */
    const uint64_t *indices; /* subset, copied; NULL: all samples */
    uint64_t n_indices;
    const double *weights; /* weights of samples, copied; NULL: none */
    /* PAGES: u32 (n_samples), copied: the samples in the order in which they are neighbours. NULL:
     * samples with neighbouring numbers are neighbours. With `indices`, pages are cut from these
     * instead. */
    const uint32_t *neighbours;
    uint32_t page_samples, window_pages;
    uint32_t batch_size;
    bool drop_last;
    bool no_epoch_padding; /* true: ranks may differ by one position */
    /* So many neighbouring positions hold the same sample; 0 means 1. Must be 0 or 1 with PAGES. */
    uint32_t repeats;
    /* A mixture; NULL: none. Must be NULL with PAGES, `weights` or `repeats`. */
    const struct psti_order_mix *mix;
};

enum pst_status psti_order_open(const struct psti_order_options *options, struct psti_order **out,
                                struct pst_error *err);
void psti_order_close(struct psti_order **order);
/* Sets the number of positions of a batch from now on. No other thread may use the order
 * meanwhile. */
void psti_order_set_batch_size(struct psti_order *order, uint32_t batch_size);
/* Sets the places from which on the sources have other weights. Replaces all changes that were set
 * before.
 * places: u64 (n,2), epoch and position, not falling. weights: f64 (n, n_sources). A change takes
 * effect with the first block that begins at its place or behind it. If several take effect with
 * one block, the last one counts. Each source goes on with the pass that it is in. psti_order_n
 * does not change. After an error the order is as before. No other thread uses the order meanwhile.
 *
 * charge: called when all checks have passed, with the number of bytes by which the tables grow, or
 * shrink if it is negative. If it returns false, there is no room: PST_ERROR_LIMIT. */
typedef bool (*psti_order_charge_fn)(void *ctx, int64_t more);
enum pst_status psti_order_set_changes(struct psti_order *order, const uint64_t *places,
                                       const double *weights, uint32_t n,
                                       psti_order_charge_fn charge, void *ctx,
                                       struct pst_error *err);
/* Returns PST_ERROR_ARGUMENT unless rank < world_size. */
enum pst_status psti_order_check_ranks(struct psti_ranks ranks, struct pst_error *err);

/* Returns the positions of an epoch before padding or dropping: n_indices or n_samples or, with
 * `mix`, what the rule of the mixture gives. */
uint64_t psti_order_n(const struct psti_order *order);
/* Returns the sample at position p of an epoch. p < psti_order_n; positions beyond that wrap around
 * (padding). */
uint64_t psti_order_sample(const struct psti_order *order, uint64_t epoch, uint64_t position);
/* Returns a sample that takes the place of the bad one at a position, chosen by a random number. In
 * a mixture with weights it is a sample of the same source. */
uint64_t psti_order_replacement(const struct psti_order *order, uint64_t epoch, uint64_t position,
                                uint64_t random);
/* Returns the draw: a number that tells several positions of one sample apart. It is the position
 * if weights, repeated indices, `repeats` or `mix` may give a sample several times, else 0. Padding
 * has the draw of the position that it repeats. */
uint64_t psti_order_draw(const struct psti_order *order, uint64_t position);
/* Returns the first position after those that all ranks deliver in an epoch that starts at `start`.
 * Padding counts, a dropped tail does not. */
uint64_t psti_order_end(const struct psti_order *order, struct psti_ranks ranks, uint64_t start);
/* Returns the number of the rank's batches in an epoch that starts at position `start`. */
uint64_t psti_order_n_batches(const struct psti_order *order, struct psti_ranks ranks,
                              uint64_t start);
/* Positions of batch `step`, counted from `start`: one run of neighbours. Writes at most batch_size
 * of them and returns how many; 0: past the end. Step b covers the positions from start + b*B*W on,
 * and rank r has the r-th block of them: B each, in a short last step as many as are left for
 * each. */
uint32_t psti_order_batch(const struct psti_order *order, struct psti_ranks ranks, uint64_t start,
                          uint64_t step, uint64_t *positions);
/* Returns a hash that is equal for orders that give the same samples. It covers changes of weights,
 * but not rank and batch size. It is pst_loader_state.order_hash. */
uint64_t psti_order_hash(const struct psti_order *order);

/* PAGES, for read-ahead: the window of a position (UINT64_MAX: none), and the consecutive samples
 * of its i-th page. False: there are no more, or a subset or `neighbours` is in use, so that pages
 * are not consecutive samples. */
uint64_t psti_order_window(const struct psti_order *order, uint64_t position);
bool psti_order_window_page(const struct psti_order *order, uint64_t epoch, uint64_t window,
                            uint64_t i_page, uint64_t *first, uint64_t *n);
/* Returns the position after the last one of the window that holds a position, or UINT64_MAX if
 * there are no windows. */
uint64_t psti_order_window_end(const struct psti_order *order, uint64_t position);

/* Returns the bytes of the tables that the order keeps: subset, weights, neighbours, schedule. */
uint64_t psti_order_nbytes(const struct psti_order *order);

#endif
