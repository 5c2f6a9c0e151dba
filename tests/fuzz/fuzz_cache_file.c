/* fuzz_cache_file.c - loads any bytes as a saved cache, unchanged and with corrected checksums,
 * into a cache that already holds an item. After a failure the cache must be as before; after
 * success all items must be readable and within the budget. Seeds: make_cache_corpus.py. */
#include "base/bits.h"
#include "base/hash.h"
#include "cache/cache_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

static void seal_record(uint8_t *bytes) { psti_store_u64(bytes + 56, psti_hash64(bytes, 56)); }

/* Corrects the checksums of a block, if its items lie within `n_left` bytes. Returns the bytes that
 * its table and items take, or n_left if they take more. */
static size_t seal_block(uint8_t *record, size_t n_left)
{
    uint64_t n = psti_load_u64(record + 8), nbytes = psti_load_u64(record + 16), room;
    uint8_t *table = record + PSTI_CACHE_RECORD_NBYTES;
    if (n > PSTI_CACHE_BLOCK_ITEMS || n * PSTI_CACHE_ENTRY_NBYTES > n_left)
        return n_left;
    size_t place = n * PSTI_CACHE_ENTRY_NBYTES;
    for (uint64_t i = 0; i < n; i++, place += room) {
        uint8_t *entry = table + i * PSTI_CACHE_ENTRY_NBYTES;
        if (!psti_format_cache_room(psti_load_u64(entry + 8), &room) || room > n_left - place)
            break;
        psti_store_u64(entry + 16, psti_hash64(table + place, room));
    }
    psti_store_u64(record + 24, psti_hash64(table, n * PSTI_CACHE_ENTRY_NBYTES));
    n_left -= n * PSTI_CACHE_ENTRY_NBYTES;
    return n * PSTI_CACHE_ENTRY_NBYTES + (nbytes < n_left ? nbytes : n_left);
}

static void seal(uint8_t *bytes, size_t nbytes)
{
    if (nbytes < PSTI_CACHE_HEADER_NBYTES)
        return;
    seal_record(bytes);
    for (size_t at = PSTI_CACHE_HEADER_NBYTES; nbytes - at >= PSTI_CACHE_RECORD_NBYTES;) {
        uint8_t *record = bytes + at;
        at += PSTI_CACHE_RECORD_NBYTES;
        if (psti_load_u32(record + 4) == PSTI_CACHE_RECORD_BLOCK)
            at += seal_block(record, nbytes - at);
        seal_record(record);
    }
}

/* Reads everything in the cache. */
static void use(pst_cache *cache, const struct pst_cache_stats *stats)
{
    static volatile uint64_t sink; /* a use of the sums, so that the reads are not optimised away */
    uint64_t n_items = 0;
    struct psti_cache_set *set = psti_cache_set_next(cache, NULL);
    while (set) {
        uint64_t n_numbers;
        if (!psti_format_cache_numbers(&set->shape, &n_numbers))
            abort();
        for (uint64_t number = 0; number < n_numbers; number++) {
            const struct psti_cache_item *item = psti_cache_set_item(set, number);
            if (item && item->number != number)
                abort();
            if (item)
                sink ^= psti_hash64(item + 1, item->nbytes);
            n_items += item != NULL;
        }
        struct psti_cache_set *next = psti_cache_set_next(cache, set);
        psti_cache_set_drop(set);
        set = next;
    }
    (void)sink;
    if (n_items != stats->n_items || stats->nbytes_used > stats->nbytes)
        abort();
}

static void try_bytes(const uint8_t *bytes, size_t nbytes)
{
    const struct pst_cache_options options = {sizeof options, (uint64_t)1 << 20};
    const struct psti_cache_shape shape = {{1}, 4, 2, 0, false};
    struct pst_cache_stats before, after;
    struct psti_cache_span span;
    struct psti_cache_set *set = NULL;
    pst_cache *cache = NULL;
    struct pst_error err;
    char path[64];
    int fd = memfd_create("saved", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || write(fd, bytes, nbytes) != (ssize_t)nbytes ||
        pst_cache_open(&options, &cache, &err) != PST_OK ||
        psti_cache_set_open(cache, &shape, &set, &err) != PST_OK ||
        psti_cache_ask(set, 3, 1, 5, &span) != PSTI_CACHE_ADMIT ||
        !psti_cache_keep(set, 3, 1, 5, &(struct psti_cache_span){"bytes", 5, 0}))
        abort();
    pst_cache_stats(cache, &before, sizeof before);
    enum pst_status status = pst_cache_load(cache, path, NULL, 0, &err);
    pst_cache_stats(cache, &after, sizeof after);
    if (status != PST_OK &&
        (memcmp(&after, &before, sizeof after) != 0 || !err.text[0] || strcmp(err.file, path) != 0))
        abort();
    use(cache, &after);
    psti_cache_set_close(&set);
    pst_cache_close(&cache);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    uint8_t *copy = malloc(nbytes ? nbytes : 1);
    try_bytes(bytes, nbytes);
    memcpy(copy, bytes, nbytes);
    seal(copy, nbytes);
    try_bytes(copy, nbytes);
    free(copy);
    return 0;
}
