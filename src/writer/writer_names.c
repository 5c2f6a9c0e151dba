/* writer_names.c - the set of sample names that a writer has seen, for refusing duplicates.
 *
 * Two XXH3 hashes of a name (the second of the first hash and the name) make 128 bits. Among ten
 * million names the probability of a collision is below 1e-24, so the names themselves are not
 * kept. */
#include "writer/writer_names.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <string.h>

static void hash_name(const char *name, size_t nbytes, uint64_t out[2])
{
    struct psti_hash_state state;
    out[0] = psti_hash64(name, nbytes);
    psti_hash_begin(&state);
    psti_hash_update(&state, out, 8);
    psti_hash_update(&state, name, nbytes);
    out[1] = psti_hash_end(&state);
    if (out[0] == 0 && out[1] == 0)
        out[1] = 1;
}

/* Returns the entry of `hash`, or the free entry for it. */
static uint64_t *find(const struct psti_writer_names *names, const uint64_t hash[2])
{
    for (uint64_t i = hash[0];; i++) {
        uint64_t *slot = names->slots[i & (names->capacity - 1)];
        if ((slot[0] == hash[0] && slot[1] == hash[1]) || (slot[0] == 0 && slot[1] == 0))
            return slot;
    }
}

bool psti_writer_names_reserve(struct psti_writer_names *names)
{
    if (names->n < names->capacity / 4 * 3)
        return true;
    struct psti_writer_names larger = {
        .n = names->n, .capacity = names->capacity == 0 ? 1024 : names->capacity * 2};
    larger.slots = psti_calloc((size_t)larger.capacity, sizeof *larger.slots);
    if (larger.slots == NULL)
        return false;
    for (uint64_t i = 0; i < names->capacity; i++)
        if (names->slots[i][0] != 0 || names->slots[i][1] != 0)
            memcpy(find(&larger, names->slots[i]), names->slots[i], 16);
    psti_free(names->slots);
    *names = larger;
    return true;
}

bool psti_writer_names_has(const struct psti_writer_names *names, const char *name, size_t nbytes)
{
    uint64_t hash[2];
    if (names->capacity == 0)
        return false;
    hash_name(name, nbytes, hash);
    const uint64_t *slot = find(names, hash);
    return slot[0] != 0 || slot[1] != 0;
}

bool psti_writer_names_add(struct psti_writer_names *names, const char *name, size_t nbytes)
{
    uint64_t hash[2];
    hash_name(name, nbytes, hash);
    uint64_t *slot = find(names, hash);
    if (slot[0] != 0 || slot[1] != 0)
        return false;
    memcpy(slot, hash, 16);
    names->n++;
    return true;
}

void psti_writer_names_free(struct psti_writer_names *names)
{
    psti_free(names->slots);
    *names = (struct psti_writer_names){0};
}
