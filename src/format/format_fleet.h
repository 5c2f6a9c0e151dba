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
    /* Bytes of a server's limit for values that go to key, header and the server's own data. */
    PSTI_FLEET_OVERHEAD_NBYTES = 256
};

/* Identifies an item of a data set. The key has all members, so that no two items share a key. */
struct psti_fleet_name {
    uint8_t identity[16]; /* as in psti_cache_shape */
    uint64_t forms;       /* as in psti_cache_shape */
    uint64_t number;      /* sample * n_items, plus the item's number in the sample */
    uint64_t part_nbytes; /* the most bytes of an item that one value holds */
};

/* One part of an item. */
struct psti_fleet_part {
    uint64_t key_hash; /* psti_format_fleet_hash of the item's name */
    uint64_t nbytes;   /* bytes of the whole item in the form in which it is kept */
    uint64_t offset;   /* offset of this part in the item: part * part_nbytes_max */
    uint32_t part;
    uint32_t part_nbytes; /* bytes of the item in this value */
    uint8_t form;         /* as in psti_cache_item */
};

/* Returns the number of parts of an item, at least 1. part_nbytes must not be 0. */
uint64_t psti_format_fleet_n_parts(uint64_t nbytes, uint64_t part_nbytes);
/* Writes the key of a part, a text without blanks, and returns its length. */
size_t psti_format_fleet_key(const struct psti_fleet_name *name, uint32_t part,
                             char key[PSTI_FLEET_KEY_CAP]);
uint64_t psti_format_fleet_hash(const struct psti_fleet_name *name);
/* Writes the header of a value, which goes before the part's bytes `bytes`. */
void psti_format_fleet_print(const struct psti_fleet_part *part, const uint8_t *bytes,
                             uint8_t head[PSTI_FLEET_HEADER_NBYTES]);
/* Reads the header of a value of value_nbytes bytes. Returns false if it is not the header of part
 * i_part of the item with that hash, kept in parts of part_nbytes_max bytes. If it is, the bytes
 * after it have a place in the item: part->offset + part->part_nbytes is at most part->nbytes. */
bool psti_format_fleet_parse(const uint8_t head[PSTI_FLEET_HEADER_NBYTES], uint64_t value_nbytes,
                             uint64_t key_hash, uint32_t i_part, uint64_t part_nbytes_max,
                             struct psti_fleet_part *part);
/* Returns whether the header's checksum is that of the header and of the part's bytes. */
bool psti_format_fleet_is_whole(const uint8_t head[PSTI_FLEET_HEADER_NBYTES], const uint8_t *bytes,
                                size_t nbytes);

#endif
