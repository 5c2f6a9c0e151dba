/* format_fleet.c - prints and parses the values of items in memcached servers.
 *
 * The checksum covers the header and the bytes, and the header has a hash of the item and the
 * number of the part. So a value that was cut, changed, or belongs to another item or part is never
 * accepted. */
#include "format/format_fleet.h"

#include "base/bits.h"
#include "base/hash.h"

#include <string.h>

#define MAGIC 0x31465350u /* "PSF1" */
#define VERSION 1
#define CHECKED_NBYTES 40 /* bytes of the header before the checksum, which it covers */

uint64_t psti_format_fleet_n_parts(uint64_t nbytes, uint64_t part_nbytes)
{
    return nbytes ? (nbytes - 1) / part_nbytes + 1 : 1;
}

static const char hex[] = "0123456789abcdef";

/* Writes a colon and a hexadecimal number without leading zeros. */
static char *put_number(char *at, uint64_t number)
{
    int n = 1;
    while (n < 16 && number >> 4 * n)
        n++;
    *at++ = ':';
    while (n-- > 0)
        *at++ = hex[number >> 4 * n & 15];
    return at;
}

/* Does not use printf, because it is called for each request. */
size_t psti_format_fleet_key(const struct psti_fleet_name *name, uint32_t part,
                             char key[PSTI_FLEET_KEY_CAP])
{
    static const char begin[5] = "pst1:";
    char *at = key;
    memcpy(at, begin, sizeof begin);
    at += sizeof begin;
    for (size_t i = 0; i < sizeof name->identity; i++) {
        *at++ = hex[name->identity[i] >> 4];
        *at++ = hex[name->identity[i] & 15];
    }
    at = put_number(at, name->forms);
    at = put_number(at, name->number);
    at = put_number(at, name->part_nbytes);
    at = put_number(at, part);
    *at = 0;
    return (size_t)(at - key);
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

static uint64_t checksum(const uint8_t *head, const uint8_t *bytes, size_t nbytes)
{
    struct psti_hash_state state;
    psti_hash_begin(&state);
    psti_hash_update(&state, head, CHECKED_NBYTES);
    psti_hash_update(&state, bytes, nbytes);
    return psti_hash_end(&state);
}

void psti_format_fleet_print(const struct psti_fleet_part *part, const uint8_t *bytes,
                             uint8_t head[PSTI_FLEET_HEADER_NBYTES])
{
    psti_store_u32(head, MAGIC);
    head[4] = VERSION;
    head[5] = part->form;
    psti_store_u16(head + 6, 0);
    psti_store_u64(head + 8, part->key_hash);
    psti_store_u64(head + 16, part->nbytes);
    psti_store_u64(head + 24, part->offset);
    psti_store_u32(head + 32, part->part);
    psti_store_u32(head + 36, part->part_nbytes);
    psti_store_u64(head + CHECKED_NBYTES, checksum(head, bytes, part->part_nbytes));
}

bool psti_format_fleet_parse(const uint8_t head[PSTI_FLEET_HEADER_NBYTES], uint64_t value_nbytes,
                             uint64_t key_hash, uint32_t i_part, uint64_t part_nbytes_max,
                             struct psti_fleet_part *part)
{
    if (psti_load_u32(head) != MAGIC || head[4] != VERSION || psti_load_u16(head + 6) != 0)
        return false;
    *part = (struct psti_fleet_part){.key_hash = psti_load_u64(head + 8),
                                     .nbytes = psti_load_u64(head + 16),
                                     .offset = psti_load_u64(head + 24),
                                     .part = psti_load_u32(head + 32),
                                     .part_nbytes = psti_load_u32(head + 36),
                                     .form = head[5]};
    if (part->key_hash != key_hash || part->part != i_part || part->nbytes == 0 ||
        part->offset >= part->nbytes || part_nbytes_max == 0 ||
        part->offset / part_nbytes_max != part->part || part->offset % part_nbytes_max != 0)
        return false;
    uint64_t left = part->nbytes - part->offset;
    return part->part_nbytes == (left < part_nbytes_max ? left : part_nbytes_max) &&
           value_nbytes == PSTI_FLEET_HEADER_NBYTES + (uint64_t)part->part_nbytes;
}

bool psti_format_fleet_is_whole(const uint8_t head[PSTI_FLEET_HEADER_NBYTES], const uint8_t *bytes,
                                size_t nbytes)
{
    return psti_load_u64(head + CHECKED_NBYTES) == checksum(head, bytes, nbytes);
}
