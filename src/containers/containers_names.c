/* containers_names.c - a hash table of texts with open addressing and linear probing.
 *
 * In: texts. Out: their numbers. One thread at a time. Hashes are not stored. When the table grows,
 * all texts are hashed again, in the order in which they were added. */
#include "containers/containers_names.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/hash.h"

#include <string.h>

enum { FIRST_SLOTS = 64, FIRST_TEXTS = 64, FIRST_NBYTES = 4096 };

static enum pst_status no_memory(struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_MEMORY, "containers",
                     "out of memory for the names of a file's members");
}

/* Returns the slot that holds a text, or the free slot where it must go. */
static uint32_t find_slot(const struct psti_walk_names *names, const char *text, size_t nbytes)
{
    uint32_t mask = names->n_slots - 1;
    uint32_t i = (uint32_t)psti_hash64(text, nbytes) & mask;
    for (; names->slots[i] != 0; i = (i + 1) & mask) {
        const char *other = psti_containers_names_text(names, names->slots[i] - 1);
        if (strncmp(other, text, nbytes) == 0 && other[nbytes] == '\0')
            break;
    }
    return i;
}

/* Grows the table if one more text would fill more than three quarters of its slots. */
static enum pst_status grow_slots(struct psti_walk_names *names, struct pst_error *err)
{
    if ((uint64_t)(names->n + 1) * 4 <= (uint64_t)names->n_slots * 3)
        return PST_OK;
    uint32_t n_slots = names->n_slots == 0 ? FIRST_SLOTS : 2 * names->n_slots;
    uint32_t *slots = n_slots == 0 ? NULL : psti_calloc(n_slots, sizeof *slots);
    if (slots == NULL)
        return no_memory(err);
    psti_free(names->slots);
    names->slots = slots;
    names->n_slots = n_slots;
    for (uint32_t i = 0; i < names->n; i++) {
        const char *text = psti_containers_names_text(names, i);
        uint32_t mask = n_slots - 1, k = (uint32_t)psti_hash64(text, strlen(text)) & mask;
        while (slots[k] != 0)
            k = (k + 1) & mask;
        slots[k] = i + 1;
    }
    return PST_OK;
}

/* Makes room for the bytes and the offset of one more text. */
static enum pst_status grow_texts(struct psti_walk_names *names, size_t nbytes,
                                  struct pst_error *err)
{
    if (nbytes >= UINT32_MAX - names->nbytes)
        return psti_fail(err, PST_ERROR_LIMIT, "containers",
                         "the names of a file's members take 4 GiB or more");
    if (names->nbytes + nbytes + 1 > names->capacity) {
        size_t capacity = names->capacity + names->capacity / 4 + nbytes + FIRST_NBYTES;
        char *texts = psti_realloc(names->texts, capacity);
        if (texts == NULL)
            return no_memory(err);
        names->texts = texts;
        names->capacity = capacity;
    }
    if (names->n == names->at_capacity) {
        uint32_t capacity = names->at_capacity + names->at_capacity / 4 + FIRST_TEXTS;
        uint32_t *at = psti_realloc(names->at, (size_t)capacity * sizeof *at);
        if (at == NULL)
            return no_memory(err);
        names->at = at;
        names->at_capacity = capacity;
    }
    return PST_OK;
}

enum pst_status psti_containers_names_add(struct psti_walk_names *names, const char *text,
                                          size_t nbytes, uint32_t *number, bool *is_new,
                                          struct pst_error *err)
{
    enum pst_status status = grow_slots(names, err);
    if (status != PST_OK)
        return status;
    uint32_t slot = find_slot(names, text, nbytes);
    *is_new = names->slots[slot] == 0;
    if (*is_new) {
        status = grow_texts(names, nbytes, err);
        if (status != PST_OK)
            return status;
        names->at[names->n] = (uint32_t)names->nbytes;
        memcpy(names->texts + names->nbytes, text, nbytes);
        names->texts[names->nbytes + nbytes] = '\0';
        names->nbytes += nbytes + 1;
        names->slots[slot] = ++names->n;
    }
    *number = names->slots[slot] - 1;
    return PST_OK;
}

void psti_containers_names_free(struct psti_walk_names *names)
{
    psti_free(names->texts);
    psti_free(names->at);
    psti_free(names->slots);
    *names = (struct psti_walk_names){0};
}
