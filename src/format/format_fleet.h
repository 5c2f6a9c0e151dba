/* format_fleet.h - the keys and values of items in memcached servers, as docs/internals/fleet.md
 * states them.
 *
 * Pure functions, which trust no byte of a value. An item that is too long for one value is split
 * into parts, each with its own key and value. */
#ifndef PST_FORMAT_FORMAT_FLEET_H
#define PST_FORMAT_FORMAT_FLEET_H

#include "format/format_cache.h"

#include <stddef.h>

enum {
    PSTI_FLEET_HEADER_NBYTES = 48,
    PSTI_FLEET_KEY_CAP = 112, /* a key with its final 0; memcached takes 250 bytes */
    /* Bytes to subtract from a server's limit for values: key, header and the server's own data. */
    PSTI_FLEET_OVERHEAD_NBYTES = 256
};

/* Identifies an item of a data set. All members are part of the key, so different items have
 * different keys. */
struct psti_fleet_name {
    uint8_t identity[16]; /* as in psti_cache_shape */
    uint64_t forms;       /* as in psti_cache_shape */
    uint64_t number;      /* sample * n_items, plus the index of the item in the sample */
    uint64_t part_nbytes; /* maximum number of bytes of an item in one value */
};

/* One part of an item that is too long for one value. */
struct psti_fleet_part {
    uint64_t key_hash; /* psti_format_fleet_hash of the item's name */
    uint64_t nbytes;   /* bytes of the whole item in its cached form */
    uint64_t offset;   /* offset of this part in the item: part * part_nbytes_max */
    uint32_t part;
    uint32_t part_nbytes; /* bytes of the item in this value */
    uint8_t form;         /* as in psti_cache_item */
};

/* Returns the number of parts of an item, at least 1. nbytes: bytes of the item; part_nbytes: most
 * bytes of a part, not 0. */
uint64_t psti_format_fleet_n_parts(uint64_t nbytes, uint64_t part_nbytes);
/* Writes the key of a part, a text without blanks. Returns its length. */
size_t psti_format_fleet_key(const struct psti_fleet_name *name, uint32_t part,
                             char key[PSTI_FLEET_KEY_CAP]);
uint64_t psti_format_fleet_hash(const struct psti_fleet_name *name);
/* Writes the header of a value. The part's bytes, which follow it in the value, are needed for the
 * checksum. */
void psti_format_fleet_print(const struct psti_fleet_part *part, const uint8_t *bytes,
                             uint8_t head[PSTI_FLEET_HEADER_NBYTES]);
/* Parses the header of a value of value_nbytes bytes. Returns false if it is not the header of part
 * i_part of the item with key_hash, split into parts of part_nbytes_max bytes. If it is, the part
 * lies within the item: part->offset + part->part_nbytes is at most part->nbytes. */
bool psti_format_fleet_parse(const uint8_t head[PSTI_FLEET_HEADER_NBYTES], uint64_t value_nbytes,
                             uint64_t key_hash, uint32_t i_part, uint64_t part_nbytes_max,
                             struct psti_fleet_part *part);
/* Returns whether the checksum in the header fits the header and the part's bytes. */
bool psti_format_fleet_is_whole(const uint8_t head[PSTI_FLEET_HEADER_NBYTES], const uint8_t *bytes,
                                size_t nbytes);

#endif
