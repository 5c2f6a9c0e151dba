/* order.c - computes the sample at (seed, epoch, position), by arithmetic alone.
 *
 * In: the kind of order, a seed, the number of positions. Out: the sample at a position, and the
 * positions of a rank's batch. After open only the batch size and the changes of weights may be
 * set, so any thread may call all other functions. The only tables are copies of the caller's
 * subset, weights and neighbours, and the schedule of a mixture.
 *
 * A permutation of 0..n-1 is a balanced Feistel network of 6 rounds over 2h bits, 4^h >= n,
 * repeated until the result is below n (fewer than 4 iterations on average). The round function
 * does twice: xor a round key to one half, multiply by a constant of Philox-4x64, and xor the
 * halves of the 128-bit product. Round keys advance by Philox's Weyl constants. One call of
 * Philox-4x32-10 for (seed, epoch) gives the keys.
 *
 * PAGES: samples are rotated by an offset that is new in each epoch, then cut into pages of
 * `page_samples`; the last page may be short. Whole pages are permuted; the short one stays last.
 * All pages are divided evenly among floor(n_pages / window_pages) windows (at least one). Each
 * window mixes at least window_pages pages, if there are so many, and fewer than twice that.
 * Samples are permuted within a window. These orders must not change between releases
 * (PSTI_ORDER_VERSION).
 *
 * `repeats` r > 1: the epochs r*k to r*k + r - 1 form one run of r*n positions. Position g of the
 * run holds the sample that epoch k would have at position g / r without repeats. So an epoch still
 * has n positions, each sample occurs r times in a row, and r epochs hold each sample r times.
 *
 * `mix`: order_mix.c gives each slot of an epoch to a source; order_changes.c selects the
 * weights in force. Slots are permuted within blocks, and the samples of a source within each
 * pass over it. Both permutations depend only on (seed, epoch) and the number of the block or
 * pass. */
#include "order/order.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/philox.h"
#include "order/order_changes.h"

#include <math.h>
#include <string.h>

#define FEISTEL_ROUNDS 6
#define POSITIONS_MAX ((uint64_t)1 << 62)
#define REPEATS_MAX 65536u
#define ENDLESS_BLOCK                                                                              \
    ((uint64_t)1 << 20) /* slots of a block of an endless mixture without quotas;                  \
                         * slots are shuffled within a block */

/* Values of `sub` for psti_random4 in PSTI_RANDOM_ORDER, one for each purpose. */
enum { KEYS_SAMPLES = 0, KEYS_PAGES = 1, KEYS_WINDOW = 2, KEYS_BLOCK = 3, KEYS_SOURCE = 4 };

struct psti_order {
    enum pst_order kind;
    uint64_t seed;
    uint64_t n;           /* number of positions */
    uint64_t *indices;    /* u64 (n_indices): the subset; NULL: positions are sample numbers */
    uint64_t n_indices;   /* number of indices: n, except for a mixture */
    double *cumulative;   /* f64 (n): sums of the weights up to and including each; NULL: no
                           * weights */
    uint32_t *neighbours; /* u32 (n), for PAGES without indices: samples in page order; NULL: sample
                           * numbers are in page order */
    uint64_t page_samples, window_pages;
    uint64_t n_pages, n_full_pages, n_windows;
    uint64_t batch_size;
    bool drop_last, no_epoch_padding;
    uint64_t n_times; /* number of consecutive positions that hold the same sample */
    bool repeats;     /* true if a sample may occur at several positions, apart from padding */
    uint64_t hash;
    uint32_t n_sources; /* number of sources of a mixture with weights; 0: the order has no such
                         * mixture */
    struct psti_order_eras eras;
    uint64_t *starts; /* u64 (n_sources): first sample of each source */
    uint64_t *counts; /* u64 (n_sources): number of samples of each source */
    uint64_t block;   /* slots of a block; slots are shuffled within a block */
};

struct keys {
    uint64_t a, b;
};

static struct keys keys_of(const struct psti_order *order, uint64_t epoch, uint64_t index,
                           uint32_t sub)
{
    uint32_t r[4];
    psti_random4(order->seed, epoch, PSTI_RANDOM_ORDER, index, sub, 0, r);
    return (struct keys){((uint64_t)r[1] << 32) | r[0], ((uint64_t)r[3] << 32) | r[2]};
}

static uint64_t fold(uint64_t x, uint64_t multiplier)
{
    unsigned __int128 product = (unsigned __int128)x * multiplier;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Returns the element at index x < n of the permutation of 0..n-1 that `keys` select. */
static uint64_t permute(uint64_t n, struct keys keys, uint64_t x)
{
    if (n < 2)
        return x;
    unsigned bits = 64 - (unsigned)__builtin_clzll(n - 1);
    unsigned half = (bits + 1) / 2;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = x >> half, right = x & mask;
        uint64_t a = keys.a, b = keys.b;
        for (int round = 0; round < FEISTEL_ROUNDS; round++) {
            uint64_t f = fold(fold(right ^ a, 0xD2E7470EE14C6C93u) ^ b, 0xCA5A826395121157u);
            uint64_t next = left ^ (f & mask);
            left = right;
            right = next;
            a += 0x9E3779B97F4A7C15u; /* the golden ratio's Weyl constant, as Philox uses it */
            b += 0xBB67AE8584CAA73Bu; /* from sqrt(3) - 1 */
        }
        x = (left << half) | right;
    } while (x >= n);
    return x;
}

/* Returns the first page index of window w. Pages are divided evenly among windows. n_pages *
 * n_windows < 2^124. */
static uint64_t window_start(const struct psti_order *order, uint64_t w)
{
    return psti_divide_u128((unsigned __int128)w * order->n_pages, order->n_windows);
}

/* Returns the end position of window w, which is the first position behind it. */
static uint64_t window_end(const struct psti_order *order, uint64_t w)
{
    return w + 1 == order->n_windows ? order->n : window_start(order, w + 1) * order->page_samples;
}

static uint64_t window_of_place(const struct psti_order *order, uint64_t place)
{
    return psti_divide_u128(((unsigned __int128)place + 1) * order->n_windows - 1, order->n_pages);
}

/* Returns the sample at offset x of the epoch's rotated order of samples. */
static uint64_t rotate(const struct psti_order *order, struct keys keys, uint64_t x)
{
    uint64_t random = fold(keys.a ^ 0xD2E7470EE14C6C93u, keys.b | 1);
    uint64_t offset = (uint64_t)(((unsigned __int128)random * order->n) >> 64);
    return x < order->n - offset ? x + offset : x - (order->n - offset);
}

/* Returns which page is at index `place` of the epoch's order of pages. The short page is always
 * last. */
static uint64_t page_at(const struct psti_order *order, struct keys keys, uint64_t place)
{
    return place < order->n_full_pages ? permute(order->n_full_pages, keys, place) : place;
}

static uint64_t paged(const struct psti_order *order, uint64_t epoch, uint64_t position)
{
    uint64_t window = window_of_place(order, position / order->page_samples);
    uint64_t first = window_start(order, window) * order->page_samples;
    uint64_t end = window_end(order, window);
    uint64_t mixed =
        first + permute(end - first, keys_of(order, epoch, window, KEYS_WINDOW), position - first);
    struct keys keys = keys_of(order, epoch, 0, KEYS_PAGES);
    uint64_t page = page_at(order, keys, mixed / order->page_samples);
    return rotate(order, keys, page * order->page_samples + mixed % order->page_samples);
}

/* Draws a sample by its weight: the first i with cumulative[i] > u, for the random u of this
 * position. Samples of weight 0 are never drawn. */
static uint64_t weighted(const struct psti_order *order, uint64_t epoch, uint64_t position)
{
    uint32_t r[4];
    psti_random4(order->seed, epoch, PSTI_RANDOM_WEIGHTED, position, 0, 0, r);
    uint64_t random = ((uint64_t)r[1] << 32) | r[0];
    double u = (double)(random >> 11) * 0x1p-53 * order->cumulative[order->n - 1];
    uint64_t low = 0, high = order->n - 1;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (order->cumulative[middle] > u)
            high = middle;
        else
            low = middle + 1;
    }
    /* Rounding may make u equal to the whole sum. The result is then the last sample with a weight
     * above 0. */
    while (low > 0 && order->cumulative[low] == order->cumulative[low - 1])
        low--;
    return low;
}

static struct psti_order_drawn drawn_at(const struct psti_order *order, uint64_t epoch,
                                        uint64_t position)
{
    uint64_t i_block = position / order->block, first = i_block * order->block, slot = position;
    if (order->kind == PST_ORDER_SHUFFLED)
        slot = first +
               permute(order->block, keys_of(order, epoch, i_block, KEYS_BLOCK), position - first);
    return psti_order_eras_at(&order->eras, epoch, first, slot);
}

static uint64_t mixed(const struct psti_order *order, uint64_t epoch, uint64_t position)
{
    struct psti_order_drawn drawn = drawn_at(order, epoch, position);
    uint64_t n = order->counts[drawn.i_source], place = drawn.n_before % n;
    if (order->kind == PST_ORDER_SHUFFLED) {
        uint32_t r[4];
        psti_random4(order->seed, epoch, PSTI_RANDOM_ORDER, drawn.n_before / n, KEYS_SOURCE,
                     drawn.i_source, r);
        struct keys keys = {((uint64_t)r[1] << 32) | r[0], ((uint64_t)r[3] << 32) | r[2]};
        place = permute(n, keys, place);
    }
    return order->starts[drawn.i_source] + place;
}

static enum pst_status check_options(const struct psti_order_options *options, uint64_t n,
                                     struct pst_error *err)
{
    if (options->kind != PST_ORDER_SEQUENTIAL && options->kind != PST_ORDER_SHUFFLED &&
        options->kind != PST_ORDER_PAGES)
        return psti_fail(err, PST_ERROR_ARGUMENT, "order", "order %d is not known",
                         (int)options->kind);
    if (n > POSITIONS_MAX)
        return psti_fail(err, PST_ERROR_ARGUMENT, "order", "%llu samples are more than 2^62",
                         (unsigned long long)n);
    if (options->weights && options->kind != PST_ORDER_SHUFFLED)
        return psti_fail(err, PST_ERROR_ARGUMENT, "order",
                         "weights draw at random: the order must be shuffled");
    if (options->repeats > REPEATS_MAX)
        return psti_fail(err, PST_ERROR_ARGUMENT, "order", "repeats is %u, at most %u",
                         options->repeats, REPEATS_MAX);
    if (options->repeats > 1 && options->kind == PST_ORDER_PAGES)
        return psti_fail(err, PST_ERROR_ARGUMENT, "order",
                         "repeats are not possible in the page order: its windows hold each sample "
                         "once");
    if (options->mix) {
        enum pst_status status = psti_order_check_mix(options, err);
        if (status != PST_OK)
            return status;
    }
    for (uint64_t i = 0; options->indices && i < n; i++)
        if (options->indices[i] >= options->n_samples)
            return psti_fail(err, PST_ERROR_ARGUMENT, "order",
                             "indices[%llu] is %llu, but there are %llu samples",
                             (unsigned long long)i, (unsigned long long)options->indices[i],
                             (unsigned long long)options->n_samples);
    return PST_OK;
}

static enum pst_status copy_weights(struct psti_order *order, const double *weights,
                                    struct pst_error *err)
{
    double sum = 0;
    order->cumulative = psti_alloc_array(order->n ? order->n : 1, sizeof *order->cumulative);
    if (!order->cumulative)
        return psti_fail(err, PST_ERROR_MEMORY, "order", "no memory for %llu weights",
                         (unsigned long long)order->n);
    for (uint64_t i = 0; i < order->n; i++) {
        if (!(weights[i] >= 0) || !isfinite(weights[i]))
            return psti_fail(err, PST_ERROR_ARGUMENT, "order",
                             "weights[%llu] is %g: weights are finite and not negative",
                             (unsigned long long)i, weights[i]);
        sum += weights[i];
        order->cumulative[i] = sum;
    }
    if (order->n && (!(sum > 0) || !isfinite(sum)))
        return psti_fail(err, PST_ERROR_ARGUMENT, "order", "the weights' sum is %g", sum);
    return PST_OK;
}

static enum pst_status copy_neighbours(struct psti_order *order, const uint32_t *neighbours,
                                       struct pst_error *err)
{
    order->neighbours = psti_alloc_array(order->n ? order->n : 1, sizeof *order->neighbours);
    if (!order->neighbours)
        return psti_fail(err, PST_ERROR_MEMORY, "order", "no memory for the order of %llu samples",
                         (unsigned long long)order->n);
    if (order->n)
        memcpy(order->neighbours, neighbours, order->n * sizeof *order->neighbours);
    return PST_OK;
}

/* Returns the source of a sample: the last one whose first sample is not larger. */
static uint32_t source_of(const struct psti_order_mix *mix, uint64_t sample)
{
    uint32_t low = 0, high = mix->n_sources;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (mix->firsts[middle] <= sample)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Sorts the subset's indices by source, and keeps the given order within each source. */
static enum pst_status split_indices(struct psti_order *order, const struct psti_order_mix *mix,
                                     struct pst_error *err)
{
    uint64_t *split =
        psti_alloc_array(order->n_indices ? order->n_indices : 1, sizeof *order->indices);
    if (!split)
        return psti_fail(err, PST_ERROR_MEMORY, "order", "no memory for %llu indices",
                         (unsigned long long)order->n_indices);
    for (uint64_t i = 0; i < order->n_indices; i++)
        order->counts[source_of(mix, order->indices[i])]++;
    for (uint32_t k = 1; k < mix->n_sources; k++)
        order->starts[k] = order->starts[k - 1] + order->counts[k - 1];
    for (uint64_t i = 0; i < order->n_indices; i++)
        split[order->starts[source_of(mix, order->indices[i])]++] = order->indices[i];
    for (uint32_t k = 0; k < mix->n_sources; k++)
        order->starts[k] -= order->counts[k];
    psti_free(order->indices);
    order->indices = split;
    return PST_OK;
}

static enum pst_status open_mix(struct psti_order *order, const struct psti_order_options *options,
                                struct pst_error *err)
{
    const struct psti_order_mix *mix = options->mix;
    uint32_t n = mix->n_sources;
    enum pst_status status = psti_order_eras_open(mix->weights, n, &order->eras, err);
    if (status != PST_OK)
        return status;
    order->n_sources = n;
    order->starts = psti_calloc(n, sizeof *order->starts);
    order->counts = psti_calloc(n, sizeof *order->counts);
    if (!order->starts || !order->counts)
        return psti_fail(err, PST_ERROR_MEMORY, "order", "no memory for %u sources", n);
    if (order->indices) {
        status = split_indices(order, mix, err);
        if (status != PST_OK)
            return status;
    }
    for (uint32_t k = 0; k < n && !order->indices; k++) {
        order->starts[k] = mix->firsts[k];
        order->counts[k] = (k + 1 < n ? mix->firsts[k + 1] : options->n_samples) - mix->firsts[k];
    }
    status = psti_order_schedule_end(&order->eras.eras[0].schedule, order->counts, mix->quota,
                                     mix->stop, &order->n, err);
    bool endless = mix->stop == PST_SOURCE_STOP_NEVER;
    order->block = mix->quota ? mix->quota : endless ? ENDLESS_BLOCK : order->n;
    if (endless) /* an endless mixture consists of whole blocks only */
        order->n -= order->n % order->block;
    return status;
}

/* Finds whether an index occurs twice in `indices`, with a bit map of all samples. */
static enum pst_status find_repeats(struct psti_order *order, uint64_t n_samples,
                                    struct pst_error *err)
{
    order->repeats = order->n_times > 1 || order->cumulative != NULL || order->n_sources > 0 ||
                     (order->indices && order->n > n_samples);
    if (order->repeats || !order->indices)
        return PST_OK;
    unsigned char *seen = psti_calloc((size_t)(n_samples / 8 + 1), 1);
    if (!seen)
        return psti_fail(err, PST_ERROR_MEMORY, "order", "no memory to look at %llu indices",
                         (unsigned long long)order->n);
    for (uint64_t i = 0; i < order->n && !order->repeats; i++) {
        uint64_t sample = order->indices[i];
        order->repeats = seen[sample / 8] >> sample % 8 & 1;
        seen[sample / 8] |= (unsigned char)(1u << sample % 8);
    }
    psti_free(seen);
    return PST_OK;
}

/* Adds the sources and their weights, and the weights of all changes, to the hash. */
static void hash_mix(const struct psti_order *order, struct psti_hash_state *state)
{
    uint32_t n = order->n_sources;
    const struct psti_order_era *eras = order->eras.eras;
    const uint64_t mix[4] = {n, eras[0].schedule.period, order->block, order->n};
    psti_hash_update(state, mix, sizeof mix);
    psti_hash_update(state, eras[0].schedule.parts, n * sizeof *eras[0].schedule.parts);
    psti_hash_update(state, order->counts, n * sizeof *order->counts);
    for (uint32_t i = 1; i < order->eras.n; i++) {
        const uint64_t change[3] = {eras[i].epoch, eras[i].position, eras[i].schedule.period};
        psti_hash_update(state, change, sizeof change);
        psti_hash_update(state, eras[i].schedule.parts, n * sizeof *eras[i].schedule.parts);
    }
}

/* Hashes everything that decides which samples the order gives. Rank and batch size are not hashed,
 * because they may change on resume. */
static uint64_t hash_of(const struct psti_order *order)
{
    struct psti_hash_state state;
    const uint64_t head[5] = {(uint64_t)order->kind,
                              order->kind == PST_ORDER_PAGES ? order->page_samples : 0,
                              order->kind == PST_ORDER_PAGES ? order->window_pages : 0,
                              order->indices ? 1 : 0, order->cumulative ? 1 : 0};
    psti_hash_begin(&state);
    psti_hash_update(&state, head, sizeof head);
    if (order->indices)
        psti_hash_update(&state, order->indices, order->n_indices * sizeof *order->indices);
    if (order->cumulative)
        psti_hash_update(&state, order->cumulative, order->n * sizeof *order->cumulative);
    if (order->neighbours)
        psti_hash_update(&state, order->neighbours, order->n * sizeof *order->neighbours);
    if (order->n_times > 1) /* only if repeats are used, because older versions had no repeats and
                             * must get the same hash */
        psti_hash_update(&state, &order->n_times, sizeof order->n_times);
    if (order->n_sources > 0)
        hash_mix(order, &state);
    return psti_hash_end(&state);
}

static void plan_pages(struct psti_order *order, const struct psti_order_options *options)
{
    order->page_samples = options->page_samples ? options->page_samples : PSTI_ORDER_PAGE_SAMPLES;
    order->window_pages = options->window_pages ? options->window_pages : PSTI_ORDER_WINDOW_PAGES;
    order->n_full_pages = order->n / order->page_samples;
    order->n_pages = order->n_full_pages + (order->n % order->page_samples != 0);
    order->n_windows = order->n_pages / order->window_pages;
    if (order->n_windows == 0)
        order->n_windows = 1;
}

enum pst_status psti_order_open(const struct psti_order_options *options, struct psti_order **out,
                                struct pst_error *err)
{
    uint64_t n = options->indices ? options->n_indices : options->n_samples;
    *out = NULL;
    enum pst_status status = check_options(options, n, err);
    if (status != PST_OK)
        return status;
    struct psti_order *order = psti_calloc(1, sizeof *order);
    if (!order)
        return psti_fail(err, PST_ERROR_MEMORY, "order", "no memory for the order");
    order->kind = options->kind;
    order->seed = options->seed;
    order->n = order->n_indices = n;
    order->batch_size = options->batch_size ? options->batch_size : 1;
    order->drop_last = options->drop_last;
    order->no_epoch_padding = options->no_epoch_padding;
    order->n_times = options->repeats ? options->repeats : 1;
    plan_pages(order, options);
    if (options->indices) {
        order->indices = psti_alloc_array(n ? n : 1, sizeof *order->indices);
        if (!order->indices) {
            status = psti_fail(err, PST_ERROR_MEMORY, "order", "no memory for %llu indices",
                               (unsigned long long)n);
            goto out;
        }
        if (n)
            memcpy(order->indices, options->indices, n * sizeof *order->indices);
    }
    if (options->neighbours && options->kind == PST_ORDER_PAGES && !options->indices) {
        status = copy_neighbours(order, options->neighbours, err);
        if (status != PST_OK)
            goto out;
    }
    if (options->weights) {
        status = copy_weights(order, options->weights, err);
        if (status != PST_OK)
            goto out;
    }
    if (options->mix) {
        status = open_mix(order, options, err);
        if (status != PST_OK)
            goto out;
    }
    status = find_repeats(order, options->n_samples, err);
    if (status != PST_OK)
        goto out;
    order->hash = hash_of(order);
    *out = order;
    order = NULL;
out:
    psti_order_close(&order);
    return status;
}

void psti_order_close(struct psti_order **order)
{
    if (!*order)
        return;
    psti_free((*order)->indices);
    psti_free((*order)->cumulative);
    psti_free((*order)->neighbours);
    psti_free((*order)->counts);
    psti_free((*order)->starts);
    psti_order_eras_close(&(*order)->eras);
    psti_free(*order);
    *order = NULL;
}

enum pst_status psti_order_set_changes(struct psti_order *order, const uint64_t *places,
                                       const double *weights, uint32_t n,
                                       psti_order_charge_fn charge, void *ctx,
                                       struct pst_error *err)
{
    if (order->n_sources == 0)
        return psti_fail(err, PST_ERROR_ARGUMENT, "order", "there are no weights of sources");
    struct psti_order_eras wanted;
    uint32_t n_kept;
    enum pst_status status =
        psti_order_eras_make(&order->eras, order->counts, order->block, order->n, places, weights,
                             n, &wanted, &n_kept, err);
    if (status != PST_OK)
        return status;
    int64_t more =
        (int64_t)psti_order_eras_nbytes(&wanted) - (int64_t)psti_order_eras_nbytes(&order->eras);
    if (charge(ctx, more)) {
        psti_order_eras_end(&order->eras, n_kept);
        order->eras = wanted;
    } else {
        psti_order_eras_end(&wanted, n_kept);
        status = psti_fail(err, PST_ERROR_LIMIT, "order",
                           "host_memory has no room for %lld bytes of tables of %u changes of "
                           "weights",
                           (long long)more, n);
    }
    order->hash = hash_of(order);
    return status;
}

void psti_order_set_batch_size(struct psti_order *order, uint32_t batch_size)
{
    order->batch_size = batch_size ? batch_size : 1;
}

enum pst_status psti_order_check_ranks(struct psti_ranks ranks, struct pst_error *err)
{
    if (ranks.rank < ranks.world_size)
        return PST_OK;
    return psti_fail(err, PST_ERROR_ARGUMENT, "order", "rank %u is not below world size %u",
                     ranks.rank, ranks.world_size);
}

uint64_t psti_order_n(const struct psti_order *order) { return order->n; }

uint64_t psti_order_sample(const struct psti_order *order, uint64_t epoch, uint64_t position)
{
    uint64_t x = position < order->n ? position : position % order->n;
    if (order->n_times > 1) { /* n stays below 2^62 */
        unsigned __int128 place = (unsigned __int128)(epoch % order->n_times) * order->n + x;
        x = psti_divide_u128(place, order->n_times);
        epoch /= order->n_times;
    }
    if (order->n_sources > 0)
        x = mixed(order, epoch, x);
    else if (order->cumulative)
        x = weighted(order, epoch, x);
    else if (order->kind == PST_ORDER_SHUFFLED)
        x = permute(order->n, keys_of(order, epoch, 0, KEYS_SAMPLES), x);
    else if (order->kind == PST_ORDER_PAGES)
        x = paged(order, epoch, x);
    if (order->neighbours)
        return order->neighbours[x];
    return order->indices ? order->indices[x] : x;
}

uint64_t psti_order_replacement(const struct psti_order *order, uint64_t epoch, uint64_t position,
                                uint64_t random)
{
    if (order->n_sources == 0)
        return psti_order_sample(order, epoch,
                                 (uint64_t)(((unsigned __int128)random * order->n) >> 64));
    uint32_t k = drawn_at(order, epoch, position % order->n).i_source;
    uint64_t place = (uint64_t)(((unsigned __int128)random * order->counts[k]) >> 64);
    return order->indices ? order->indices[order->starts[k] + place] : order->starts[k] + place;
}

uint64_t psti_order_draw(const struct psti_order *order, uint64_t position)
{
    return order->repeats ? position % order->n : 0;
}

static uint64_t n_left(const struct psti_order *order, uint64_t start)
{
    return start < order->n ? order->n - start : 0;
}

/* Returns the number of positions of a rank in an epoch that starts at `start`. */
static uint64_t n_of_rank(const struct psti_order *order, struct psti_ranks ranks, uint64_t start)
{
    uint64_t whole = n_left(order, start) / ranks.world_size;
    uint64_t odd = n_left(order, start) % ranks.world_size;
    if (order->drop_last)
        return whole - whole % order->batch_size;
    return whole + (order->no_epoch_padding ? ranks.rank < odd : odd > 0);
}

uint64_t psti_order_end(const struct psti_order *order, struct psti_ranks ranks, uint64_t start)
{
    if (order->no_epoch_padding)
        return start + n_left(order, start);
    return start + n_of_rank(order, ranks, start) * ranks.world_size;
}

uint64_t psti_order_n_batches(const struct psti_order *order, struct psti_ranks ranks,
                              uint64_t start)
{
    uint64_t n = n_of_rank(order, ranks, start);
    return n / order->batch_size + (n % order->batch_size != 0);
}

uint32_t psti_order_batch(const struct psti_order *order, struct psti_ranks ranks, uint64_t start,
                          uint64_t step, uint64_t *positions)
{
    uint64_t world_size = ranks.world_size, n = order->batch_size;
    if (step >= psti_order_n_batches(order, ranks, start))
        return 0;
    /* This product cannot overflow, because the positions of earlier steps exist. */
    uint64_t first = start + step * n * world_size, left = n_left(order, first);
    uint64_t before = ranks.rank * n; /* positions of lower ranks in this step */
    if (left / world_size < n) {      /* the last step has fewer samples */
        uint64_t odd = left % world_size;
        n = left / world_size + (order->no_epoch_padding ? ranks.rank < odd : odd > 0);
        before = ranks.rank * n;
        if (order->no_epoch_padding && ranks.rank >= odd)
            before += odd;
    }
    for (uint64_t i = 0; i < n; i++)
        positions[i] = first + before + i;
    return (uint32_t)n;
}

uint64_t psti_order_hash(const struct psti_order *order) { return order->hash; }

uint64_t psti_order_hash_with(const struct psti_order *order, uint32_t page_samples,
                              uint32_t window_pages)
{
    struct psti_order other = *order;
    other.page_samples = page_samples;
    other.window_pages = window_pages;
    return hash_of(&other);
}

uint64_t psti_order_window(const struct psti_order *order, uint64_t position)
{
    if (order->kind != PST_ORDER_PAGES || position >= order->n)
        return UINT64_MAX;
    return window_of_place(order, position / order->page_samples);
}

uint64_t psti_order_window_end(const struct psti_order *order, uint64_t position)
{
    uint64_t window = psti_order_window(order, position);
    return window == UINT64_MAX ? UINT64_MAX : window_end(order, window);
}

uint64_t psti_order_window_max(const struct psti_order *order)
{
    if (order->kind != PST_ORDER_PAGES || order->n == 0)
        return 0;
    uint64_t pages = (order->n_pages - 1) / order->n_windows + 1;
    return pages * order->page_samples < order->n ? pages * order->page_samples : order->n;
}

bool psti_order_window_page(const struct psti_order *order, uint64_t epoch, uint64_t window,
                            uint64_t i_page, uint64_t *first, uint64_t *n)
{
    if (order->kind != PST_ORDER_PAGES || order->indices || order->neighbours ||
        window >= order->n_windows)
        return false;
    uint64_t place = window_start(order, window) + i_page;
    uint64_t end =
        window + 1 == order->n_windows ? order->n_pages : window_start(order, window + 1);
    if (place >= end)
        return false;
    struct keys keys = keys_of(order, epoch, 0, KEYS_PAGES);
    uint64_t rotated = page_at(order, keys, place) * order->page_samples;
    uint64_t left = order->n - rotated;
    *first = rotate(order, keys, rotated);
    *n = left < order->page_samples ? left : order->page_samples;
    if (*n > order->n - *first)
        *n = order->n - *first; /* the page wraps around to sample 0; the hint covers only the part
                                 * before */
    return true;
}

uint64_t psti_order_nbytes(const struct psti_order *order)
{
    uint64_t of_sources = order->n_sources * (uint64_t)sizeof *order->counts * 2;
    return of_sources + psti_order_eras_nbytes(&order->eras) +
           (order->indices ? order->n_indices * sizeof *order->indices : 0) +
           (order->cumulative ? order->n * sizeof *order->cumulative : 0) +
           (order->neighbours ? order->n * sizeof *order->neighbours : 0);
}
