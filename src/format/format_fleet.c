/* format_fleet.c - prints and parses the values of items in memcached servers.
 *
 * A checksum covers header and bytes, and the header has a hash of the key. So a value that was cut
 * short, changed, or is another key's is never taken. */
#include "format/format_fleet.h"

#include "base/bits.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAGIC 0x31465350u /* "PSF1" */
#define VERSION 1
#define CHECKED_NBYTES 40 /* of the header, before the checksum */

uint64_t psti_format_fleet_n_parts(uint64_t nbytes, uint64_t part_nbytes)
{
    return nbytes ? (nbytes - 1) / part_nbytes + 1 : 1;
}

size_t psti_format_fleet_key(const struct psti_fleet_name *name, uint32_t part,
                             char key[PSTI_FLEET_KEY_CAP])
{
    char identity[2 * sizeof name->identity + 1];
    for (size_t i = 0; i < sizeof name->identity; i++)
        snprintf(identity + 2 * i, 3, "%02x", name->identity[i]);
    int n = snprintf(key, PSTI_FLEET_KEY_CAP, "pst1:%s:%" PRIx64 ":%" PRIx64 ":%" PRIx64 ":%x",
                     identity, name->forms, name->number, name->part_nbytes, part);
    return n > 0 ? (size_t)n : 0;
}

uint64_t psti_format_fleet_hash(const struct psti_fleet_name *name)
{
    uint8_t bytes[40];
    memcpy(bytes, name->identity, 16);
    psti_store_u64(bytes + 16, name->forms);
    psti_store_u64(bytes + 24, name->number);
    psti_store_u64(bytes + 32, name->part_nbytes);
    return psti_hash64(bytes, sizeof bytes);
}

static uint64_t checksum(const uint8_t *value, size_t part_nbytes)
{
    struct psti_hash_state state;
    psti_hash_begin(&state);
    psti_hash_update(&state, value, CHECKED_NBYTES);
    psti_hash_update(&state, value + PSTI_FLEET_HEADER_NBYTES, part_nbytes);
    return psti_hash_end(&state);
}

void psti_format_fleet_print(const struct psti_fleet_part *part, uint8_t *value)
{
    psti_store_u32(value, MAGIC);
    value[4] = VERSION;
    value[5] = part->form;
    psti_store_u16(value + 6, 0);
    psti_store_u64(value + 8, part->key_hash);
    psti_store_u64(value + 16, part->nbytes);
    psti_store_u64(value + 24, part->offset);
    psti_store_u32(value + 32, part->part);
    psti_store_u32(value + 36, part->part_nbytes);
    psti_store_u64(value + CHECKED_NBYTES, checksum(value, part->part_nbytes));
}

bool psti_format_fleet_parse(const uint8_t *value, size_t nbytes, uint64_t key_hash,
                             uint64_t part_nbytes_max, struct psti_fleet_part *part)
{
    if (nbytes < PSTI_FLEET_HEADER_NBYTES || psti_load_u32(value) != MAGIC || value[4] != VERSION ||
        psti_load_u16(value + 6) != 0)
        return false;
    *part = (struct psti_fleet_part){.key_hash = psti_load_u64(value + 8),
                                     .nbytes = psti_load_u64(value + 16),
                                     .offset = psti_load_u64(value + 24),
                                     .part = psti_load_u32(value + 32),
                                     .part_nbytes = psti_load_u32(value + 36),
                                     .form = value[5]};
    if (part->key_hash != key_hash || part->part_nbytes != nbytes - PSTI_FLEET_HEADER_NBYTES ||
        part->nbytes == 0 || part->offset >= part->nbytes || part_nbytes_max == 0 ||
        part->offset / part_nbytes_max != part->part || part->offset % part_nbytes_max != 0)
        return false;
    uint64_t left = part->nbytes - part->offset;
    return part->part_nbytes == (left < part_nbytes_max ? left : part_nbytes_max) &&
           psti_load_u64(value + CHECKED_NBYTES) == checksum(value, part->part_nbytes);
}
