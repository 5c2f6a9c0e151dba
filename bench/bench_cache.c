/* bench_cache.c - the cost of a cache hit: in the cache of a process, and in a client's view of the
 * host service's cache.
 *
 *     bench_cache [--json FILE]
 *
 * A cache holds a million items of 64 bytes. Threads ask for all of them in random orders. A hit is
 * an address in the cache's memory: nothing is copied, and there is nothing to release. The figures
 * are medians of rounds, in nanoseconds of a thread's CPU time; the bytes of all items are compared
 * first. The addresses prove that nothing is copied: after all rounds each item still has its first
 * address, and no two items overlap, so a hit cannot have filled a buffer. For comparison, the same
 * threads load one random entry of an array of a million numbers: that is the cache miss of the CPU
 * that no table can avoid. */
#include "cache/cache.h"

#include <penstock/penstock.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N_ITEMS ((uint64_t)1000000)
#define ITEM_NBYTES 64
#define ROUNDS 9

static const struct psti_cache_shape shape = {{1}, N_ITEMS, 1, 0, false};

static struct psti_cache_set *set;
static struct psti_cache_view *view; /* NULL: the threads ask this process's own cache */
static uint64_t *numbers;
static const unsigned char **addresses; /* addresses of all items */

struct work {
    uint64_t seed, sum;
    double seconds;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* CPU time, because wall time would include other
                                                 * programs */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Returns the next pseudorandom number below N_ITEMS. */
static uint64_t next_of(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint64_t)(((unsigned __int128)*state * N_ITEMS) >> 64);
}

static void fill(uint64_t sample, unsigned char bytes[ITEM_NBYTES])
{
    for (size_t i = 0; i < ITEM_NBYTES; i++)
        bytes[i] = (unsigned char)(sample * 31 + i * 7 + (sample >> 11));
}

static enum psti_cache_answer ask(uint64_t sample, struct psti_cache_span *span)
{
    return view ? psti_cache_view_ask(view, sample, 0, ITEM_NBYTES, span)
                : psti_cache_ask(set, sample, 0, ITEM_NBYTES, span);
}

/* Opens the view of the shared cache, as a client of the host service does. */
static enum pst_status open_view(void)
{
    struct psti_cache_export from = psti_cache_set_export(set);
    from.table_fd = fcntl(from.table_fd, F_DUPFD_CLOEXEC, 0);
    from.memory_fd = fcntl(from.memory_fd, F_DUPFD_CLOEXEC, 0);
    return psti_cache_view_open(&shape, &from, &view, NULL);
}

static bool fill_set(void)
{
    unsigned char bytes[ITEM_NBYTES];
    struct psti_cache_span span;
    for (uint64_t i = 0; i < N_ITEMS; i++) {
        fill(i, bytes);
        if (psti_cache_ask(set, i, 0, ITEM_NBYTES, &span) != PSTI_CACHE_ADMIT ||
            !psti_cache_keep(set, i, 0, ITEM_NBYTES,
                             &(struct psti_cache_span){bytes, ITEM_NBYTES, 0}))
            return false;
    }
    return true;
}

/* Makes a cache with all items and compares their bytes. If `shared` is set, other processes can
 * view it. */
static pst_cache *make_cache(bool shared)
{
    const uint64_t nbytes = (uint64_t)128 << 20;
    const struct pst_cache_options options = {sizeof options, nbytes};
    struct psti_cache_span span;
    unsigned char bytes[ITEM_NBYTES];
    pst_cache *cache;
    if ((shared ? psti_cache_open_shared(nbytes, &cache, NULL)
                : pst_cache_open(&options, &cache, NULL)) != PST_OK ||
        psti_cache_set_open(cache, &shape, &set, NULL) != PST_OK || !fill_set() ||
        (shared && open_view() != PST_OK))
        return NULL;
    for (uint64_t i = 0; i < N_ITEMS; i++) {
        fill(i, bytes);
        if (ask(i, &span) != PSTI_CACHE_HIT || span.nbytes != ITEM_NBYTES ||
            memcmp(span.bytes, bytes, ITEM_NBYTES) != 0)
            return NULL;
        addresses[i] = span.bytes;
    }
    return cache;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (const unsigned char *const *)a;
    uintptr_t y = (uintptr_t) * (const unsigned char *const *)b;
    return (x > y) - (x < y);
}

/* Returns whether every item still has its first address and overlaps no other item. Sorts the
 * addresses. */
static bool nothing_is_copied(void)
{
    for (uint64_t i = 0; i < N_ITEMS; i++) {
        struct psti_cache_span span;
        if (ask(i, &span) != PSTI_CACHE_HIT || span.bytes != addresses[i])
            return false;
    }
    qsort(addresses, N_ITEMS, sizeof(*addresses), by_address);
    for (uint64_t i = 1; i < N_ITEMS; i++)
        if (addresses[i] - addresses[i - 1] < ITEM_NBYTES)
            return false;
    return true;
}

static void *ask_all(void *context)
{
    struct work *work = context;
    double start = now();
    for (uint64_t i = 0; i < N_ITEMS; i++) {
        struct psti_cache_span span = {0};
        ask(next_of(&work->seed), &span);
        work->sum += (uintptr_t)span.bytes;
    }
    work->seconds = now() - start;
    return NULL;
}

static void *load_all(void *context)
{
    struct work *work = context;
    double start = now();
    for (uint64_t i = 0; i < N_ITEMS; i++)
        work->sum += numbers[next_of(&work->seed)];
    work->seconds = now() - start;
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median nanoseconds of one lookup, with `n_threads` threads at once. */
static double measure(void *(*run)(void *), uint32_t n_threads)
{
    double rounds[ROUNDS];
    for (uint32_t r = 0; r < ROUNDS; r++) {
        struct work works[2] = {{.seed = 2 * r + 1}, {.seed = 2 * r + 2}};
        pthread_t threads[2];
        double seconds = 0;
        for (uint32_t i = 0; i < n_threads; i++)
            if (pthread_create(&threads[i], NULL, run, &works[i]) != 0)
                exit(1);
        for (uint32_t i = 0; i < n_threads; i++) {
            pthread_join(threads[i], NULL);
            seconds += works[i].seconds;
        }
        rounds[r] = seconds / n_threads / (double)N_ITEMS * 1e9;
    }
    qsort(rounds, ROUNDS, sizeof *rounds, by_value);
    return rounds[ROUNDS / 2];
}

/* Measures one of the two caches. Prints the fault and returns false if the cache does not hold all
 * items.
 */
static bool run(bool shared, FILE *file)
{
    pst_cache *cache = make_cache(shared);
    if (!cache) {
        fprintf(stderr, "bench_cache: the cache does not hold what was stored\n");
        return false;
    }
    for (uint32_t n = 1; n <= 2; n++) {
        double asked = measure(ask_all, n), load = measure(load_all, n);
        printf("%-10s %-8u %12.1f %12.1f\n", shared ? "service" : "process", n, asked, load);
        if (file)
            fprintf(file,
                    "%s\n{\"cache\": \"%s\", \"threads\": %u, \"ask_ns\": %.2f, \"load_ns\": %.2f}",
                    shared || n > 1 ? "," : "", shared ? "service" : "process", n, asked, load);
    }
    bool good = nothing_is_copied();
    if (!good)
        fprintf(stderr, "bench_cache: an item moved, or two items overlap\n");
    psti_cache_view_close(&view);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
    return good;
}

int main(int argc, char **argv)
{
    const char *json = argc == 3 && strcmp(argv[1], "--json") == 0 ? argv[2] : NULL;
    if (argc != 1 && !json) {
        fprintf(stderr, "usage: bench_cache [--json FILE]\n");
        return 2;
    }
    addresses = calloc(N_ITEMS, sizeof(*addresses));
    numbers = malloc(N_ITEMS * sizeof *numbers);
    FILE *file = json ? fopen(json, "w") : NULL;
    if (!addresses || !numbers || (json && !file)) {
        perror(json ? json : "bench_cache");
        return 1;
    }
    memset(numbers, 1, N_ITEMS * sizeof *numbers);
    if (file)
        fprintf(file, "{\"benchmark\": \"bench_cache\", \"version\": \"%s\", \"rows\": [",
                pst_version());
    printf("%-10s %-8s %12s %12s\n", "cache of", "threads", "ask, ns", "load, ns");
    bool good = run(false, file) && run(true, file);
    if (file) {
        fprintf(file, "\n]}\n");
        fclose(file);
    }
    free(numbers);
    free(addresses);
    return good ? 0 : 1;
}
