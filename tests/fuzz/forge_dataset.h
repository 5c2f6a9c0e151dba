/* forge_dataset.h - changes to index and shards of a written data set that a forger would make: one
 * member of one structure, with all checksums made right again. For fuzz targets and tests. */
#ifndef PST_TESTS_FORGE_DATASET_H
#define PST_TESTS_FORGE_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The next number of a sequence. */
uint64_t forge_random(uint64_t *state);

/* Makes the checksums of blocks, block table and header right; the header must name lengths that
 * the bytes have. */
void forge_seal_index(uint8_t *bytes);
/* Changes one member of the index: a number of the header, a byte of the schema, a member of an
 * item, a value, an entry of the shard table, a name. False: it is no index, nothing was done. */
bool forge_index(uint8_t *bytes, size_t nbytes, uint64_t *state);

/* Makes the checksums of all items, records and of the header right, as far as records lead. */
void forge_seal_shard(uint8_t *bytes, size_t nbytes);
/* Changes one member of a record or one byte of an item. False: there is no record. */
bool forge_shard(uint8_t *bytes, size_t nbytes, uint64_t *state);

/* Gives the items in the index the checksums that the records of shard i_shard have. */
void forge_follow_shard(uint8_t *index, size_t index_nbytes, uint32_t i_shard, const uint8_t *shard,
                        size_t shard_nbytes);

#endif
