/* containers_recordio_index.c - compares an ".idx" of MXNet with the records of its file.
 *
 * In: the index, and the offsets of the records. Out: a line in the log if they differ.
 *
 * The file itself counts, not the index. Indexes exist that belong to an older file, have a key
 * twice, or have 18446744073709551615 as an offset that could not be determined. */
#include "containers/recordio/containers_recordio.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct index_entry {
    uint64_t key; /* a hash */
    uint64_t offset;
};

/* Faults that were found in an index. */
struct index_faults {
    uint64_t n_lines;  /* number of lines that are no entries */
    uint64_t n_lost;   /* offsets of 2^64 - 1 */
    uint64_t n_wrong;  /* offsets where no record begins */
    uint64_t n_keys;   /* number of entries whose key occurred before */
    uint64_t n_absent; /* number of records without an entry */
};

static int compare_numbers(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static int by_key(const void *a, const void *b)
{
    return compare_numbers(((const struct index_entry *)a)->key,
                           ((const struct index_entry *)b)->key);
}

static int by_offset(const void *a, const void *b)
{
    return compare_numbers(((const struct index_entry *)a)->offset,
                           ((const struct index_entry *)b)->offset);
}

/* Parses a line: a key, a tab, an offset. False: it is no such line. */
static bool parse_line(const char *line, const char *end, struct index_entry *entry)
{
    const char *tab = memchr(line, '\t', (size_t)(end - line));
    if (end > line && end[-1] == '\r')
        end--;
    if (tab == NULL || tab == line || tab + 1 >= end)
        return false;
    entry->key = psti_hash64(line, (size_t)(tab - line));
    entry->offset = 0;
    for (const char *digit = tab + 1; digit < end; digit++)
        if (*digit < '0' || *digit > '9' ||
            __builtin_mul_overflow(entry->offset, UINT64_C(10), &entry->offset) ||
            __builtin_add_overflow(entry->offset, (uint64_t)(*digit - '0'), &entry->offset))
            return false;
    return true;
}

static size_t count_lines(const struct psti_table_notes *notes)
{
    size_t n = 1; /* 1 for the last line, which may lack its line end */
    const char *at = notes->bytes, *last = at + notes->nbytes;
    while ((at = memchr(at, '\n', (size_t)(last - at))) != NULL) {
        at++;
        n++;
    }
    return n;
}

/* Parses all lines. Returns the number of entries. `entries` must have room for one for each
 * line. */
static size_t parse(const struct psti_table_notes *notes, struct index_entry *entries,
                    struct index_faults *faults)
{
    const char *at = notes->bytes, *last = at + notes->nbytes;
    size_t n = 0;
    while (at < last) {
        const char *end = memchr(at, '\n', (size_t)(last - at));
        if (end == NULL)
            end = last;
        if (!parse_line(at, end, &entries[n]))
            faults->n_lines++;
        else if (entries[n].offset == UINT64_MAX)
            faults->n_lost++;
        else
            n++;
        at = end < last ? end + 1 : last;
    }
    return n;
}

static void compare(struct index_entry *entries, size_t n_entries, const uint64_t *starts,
                    uint64_t n, struct index_faults *faults)
{
    if (n_entries > 0)
        qsort(entries, n_entries, sizeof *entries, by_key);
    for (size_t i = 1; i < n_entries; i++)
        faults->n_keys += entries[i].key == entries[i - 1].key;
    if (n_entries > 0)
        qsort(entries, n_entries, sizeof *entries, by_offset);
    size_t i = 0;
    for (uint64_t k = 0; k < n; k++) {
        for (; i < n_entries && entries[i].offset < starts[k]; i++)
            faults->n_wrong++;
        faults->n_absent += i == n_entries || entries[i].offset != starts[k];
        while (i < n_entries && entries[i].offset == starts[k])
            i++;
    }
    faults->n_wrong += n_entries - i;
}

bool psti_containers_recordio_index_fits(const struct psti_table_notes *notes, const char *path,
                                         const uint64_t *starts, uint64_t n)
{
    struct index_faults faults = {0};
    struct index_entry *entries = psti_alloc_array(count_lines(notes), sizeof *entries);
    if (entries == NULL) {
        psti_log(PST_LOG_INFO, "containers", "%s: out of memory to compare %s with it", path,
                 notes->path);
        return false;
    }
    size_t n_entries = parse(notes, entries, &faults);
    compare(entries, n_entries, starts, n, &faults);
    psti_free(entries);
    if (faults.n_lines == 0 && faults.n_lost == 0 && faults.n_wrong == 0 && faults.n_keys == 0 &&
        faults.n_absent == 0)
        return true;
    psti_log(PST_LOG_WARNING, "containers",
             "%s: %s does not fit this file: %" PRIu64 " lines are no entries, %" PRIu64
             " offsets are 18446744073709551615, %" PRIu64 " lie where no record begins, %" PRIu64
             " keys came before, %" PRIu64
             " records are not named; the index is not used, all records of the file are read",
             path, notes->path, faults.n_lines, faults.n_lost, faults.n_wrong, faults.n_keys,
             faults.n_absent);
    return false;
}
