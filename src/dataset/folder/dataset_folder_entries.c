/* dataset_folder_entries.c - memory blocks that never move, and the entries of one directory in
 * them.
 *
 * In: names and facts, in the order of readdir. Out: the same, sorted by name. Each entry is a
 * record: facts, name, and up to three bytes of padding, so that a 4-byte number can address
 * gigabytes of records. One thread. */
#include "dataset/folder/dataset_folder_entries.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

enum { FIRST_BLOCK_NBYTES = 4096 };

void psti_dataset_store_free(struct psti_dataset_store *store)
{
    for (size_t i = 0; i < store->n; i++)
        psti_free(store->blocks[i].bytes);
    psti_free(store->blocks);
    memset(store, 0, sizeof *store);
}

enum pst_status psti_dataset_store_room(struct psti_dataset_store *store, size_t nbytes,
                                        struct pst_error *err)
{
    const struct psti_dataset_block *last = store->n == 0 ? NULL : &store->blocks[store->n - 1];
    size_t wanted = last == NULL ? FIRST_BLOCK_NBYTES : (size_t)last->capacity * 2;
    if (last != NULL && last->capacity - last->nbytes >= nbytes)
        return PST_OK;
    wanted = wanted < nbytes ? nbytes : wanted;
    wanted = wanted < PSTI_DATASET_BLOCK_NBYTES ? wanted : PSTI_DATASET_BLOCK_NBYTES;
    if (store->n == store->capacity) {
        size_t capacity = store->capacity + store->capacity / 2 + 8;
        struct psti_dataset_block *blocks = psti_realloc(store->blocks, capacity * sizeof *blocks);
        if (blocks == NULL)
            return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory for names");
        store->blocks = blocks;
        store->capacity = capacity;
    }
    char *bytes = psti_alloc(wanted);
    if (bytes == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory for names");
    store->blocks[store->n++] =
        (struct psti_dataset_block){.bytes = bytes, .capacity = (uint32_t)wanted};
    return PST_OK;
}

void psti_dataset_store_trim(struct psti_dataset_store *store)
{
    struct psti_dataset_block *last = store->n == 0 ? NULL : &store->blocks[store->n - 1];
    if (last == NULL || last->nbytes == 0)
        return;
    char *bytes = psti_realloc(last->bytes, last->nbytes);
    last->capacity = bytes != NULL ? last->nbytes : last->capacity;
    last->bytes = bytes != NULL ? bytes : last->bytes;
}

/* Entries
 * -------------------------------------------------------------------------------------------- */

/* Address of a record: the block's number, and the offset in it in units of four bytes. */
enum { UNIT_NBYTES = 4, OFFSET_BITS = 18 };
_Static_assert((UNIT_NBYTES << OFFSET_BITS) == PSTI_DATASET_BLOCK_NBYTES, "offsets fit");
#define BLOCKS_MAX (UINT32_C(1) << (32 - OFFSET_BITS))

/* The record of an entry begins with a struct psti_file_brief. If its nbytes is UINT32_MAX, the
 * size follows in eight bytes. */

void psti_dataset_entries_free(struct psti_dataset_entries *entries)
{
    psti_dataset_store_free(&entries->records);
    psti_free(entries->order);
    memset(entries, 0, sizeof *entries);
}

enum pst_status psti_dataset_entries_add(struct psti_dataset_entries *entries, const char *name,
                                         const struct psti_file_facts *facts, struct pst_error *err)
{
    bool is_long = facts->nbytes >= UINT32_MAX;
    const struct psti_file_brief brief = {.nbytes = is_long ? UINT32_MAX : (uint32_t)facts->nbytes,
                                          .place = facts->place,
                                          .stamp = facts->stamp};
    size_t n_name = strlen(name) + 1;
    size_t nbytes = sizeof brief + (is_long ? sizeof facts->nbytes : 0) + n_name;
    nbytes = (nbytes + UNIT_NBYTES - 1) / UNIT_NBYTES * UNIT_NBYTES;
    enum pst_status status = psti_dataset_store_room(&entries->records, nbytes, err);
    if (status != PST_OK)
        return status;
    if (entries->records.n > BLOCKS_MAX || entries->n >= UINT32_MAX)
        return psti_fail(err, PST_ERROR_LIMIT, "dataset",
                         "too many entries in a folder: put them into several");
    struct psti_dataset_block *block = &entries->records.blocks[entries->records.n - 1];
    char *at = block->bytes + block->nbytes;
    memcpy(at, &brief, sizeof brief);
    at += sizeof brief;
    if (is_long)
        memcpy(at, &facts->nbytes, sizeof facts->nbytes);
    memcpy(at + (is_long ? sizeof facts->nbytes : 0), name, n_name);
    block->nbytes += (uint32_t)nbytes;
    entries->n++;
    return PST_OK;
}

static const char *record_of(const struct psti_dataset_entries *entries, uint32_t place)
{
    const struct psti_dataset_block *block = &entries->records.blocks[place >> OFFSET_BITS];
    return block->bytes + (size_t)(place & ((UINT32_C(1) << OFFSET_BITS) - 1)) * UNIT_NBYTES;
}

static const char *name_at(const struct psti_dataset_entries *entries, uint32_t place)
{
    const char *record = record_of(entries, place);
    struct psti_file_brief brief;
    memcpy(&brief, record, sizeof brief);
    return record + sizeof brief + (brief.nbytes == UINT32_MAX ? sizeof(uint64_t) : 0);
}

static bool entry_less(const void *ctx, uint32_t a, uint32_t b)
{
    return strcmp(name_at(ctx, a), name_at(ctx, b)) < 0;
}

enum pst_status psti_dataset_entries_sort(struct psti_dataset_entries *entries,
                                          struct pst_error *err)
{
    size_t n = 0;
    entries->order = psti_alloc_array(entries->n + 1, sizeof *entries->order);
    if (entries->order == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory to sort %zu names",
                         entries->n);
    for (size_t i = 0; i < entries->records.n; i++) {
        uint32_t end = entries->records.blocks[i].nbytes / UNIT_NBYTES;
        for (uint32_t at = 0; at < end;) {
            uint32_t place = (uint32_t)i << OFFSET_BITS | at;
            const char *name = name_at(entries, place);
            size_t nbytes = (size_t)(name - record_of(entries, place)) + strlen(name) + 1;
            entries->order[n++] = place;
            at += (uint32_t)((nbytes + UNIT_NBYTES - 1) / UNIT_NBYTES);
        }
    }
    return psti_dataset_folder_sort(entries->order, n, entry_less, entries, err);
}

const char *psti_dataset_entries_name(const struct psti_dataset_entries *entries, size_t i)
{
    return name_at(entries, entries->order[i]);
}

struct psti_file_facts psti_dataset_entries_facts(const struct psti_dataset_entries *entries,
                                                  size_t i)
{
    struct psti_file_brief brief;
    const char *record = record_of(entries, entries->order[i]);
    memcpy(&brief, record, sizeof brief);
    struct psti_file_facts facts = {
        .nbytes = brief.nbytes, .place = brief.place, .stamp = brief.stamp};
    if (brief.nbytes == UINT32_MAX)
        memcpy(&facts.nbytes, record + sizeof brief, sizeof facts.nbytes);
    return facts;
}
