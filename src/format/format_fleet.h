/* format_fleet.h - the keys and values of items in memcached servers, as docs/internals/fleet.md
 * states them.
 *
 * Pure functions: they trust no byte of a value. An item that is longer than a value may be lies in
 * parts, each with a key and a value of its own. */
#ifndef PST_FORMAT_FORMAT_FLEET_H
#define PST_FORMAT_FORMAT_FLEET_H

#include "format/format_cache.h"

#include <stddef.h>

enum {
    PSTI_FLEET_HEADER_NBYTES = 48,
    PSTI_FLEET_KEY_CAP = 112, /* a key with its final 0; memcached takes 250 bytes */
    /* What a server needs of its limit for key, header and its own notes. */
    PSTI_FLEET_OVERHEAD_NBYTES = 256
};

/* An item of a data set. All of it is in the key, so no two items share one. */
struct psti_fleet_name {
    uint8_t identity[16]; /* of psti_cache_shape */
    uint64_t forms;       /* of psti_cache_shape */
    uint64_t number;      /* sample * n_items + the item's number in the sample */
    uint64_t part_nbytes; /* most bytes of an item in one value */
};

/* One part of an item. */
struct psti_fleet_part {
    uint64_t key_hash; /* psti_format_fleet_hash of the item */
    uint64_t nbytes;   /* of the whole item as it is kept */
    uint64_t offset;   /* of this part in the item: part * part_nbytes */
    uint32_t part;
    uint32_t part_nbytes; /* bytes of the item in this value */
    uint8_t form;         /* as in psti_cache_item */
};

/* Number of parts, at least 1. part_nbytes is not 0. */
uint64_t psti_format_fleet_n_parts(uint64_t nbytes, uint64_t part_nbytes);
/* Writes the key of a part, a text without blanks, and returns its length. */
size_t psti_format_fleet_key(const struct psti_fleet_name *name, uint32_t part,
                             char key[PSTI_FLEET_KEY_CAP]);
uint64_t psti_format_fleet_hash(const struct psti_fleet_name *name);
/* Writes the header of a value. `bytes` are the part's bytes, which follow it. */
void psti_format_fleet_print(const struct psti_fleet_part *part, const uint8_t *bytes,
                             uint8_t head[PSTI_FLEET_HEADER_NBYTES]);
/* Reads the header of a value of value_nbytes bytes, as that of part i_part of the item with that
 * hash, kept in parts of part_nbytes_max bytes. False: it is not. Then the bytes that follow it
 * have a place in the item: part->offset + part->part_nbytes is at most part->nbytes. */
bool psti_format_fleet_parse(const uint8_t head[PSTI_FLEET_HEADER_NBYTES], uint64_t value_nbytes,
                             uint64_t key_hash, uint32_t i_part, uint64_t part_nbytes_max,
                             struct psti_fleet_part *part);
/* True if the header's checksum is that of header and bytes. */
bool psti_format_fleet_is_whole(const uint8_t head[PSTI_FLEET_HEADER_NBYTES], const uint8_t *bytes,
                                size_t nbytes);

#endif
