/* forge_dataset.h - changes the index and shards of a written data set as a forger would: one
 * member of one structure, with all checksums corrected afterwards. For fuzz targets and tests. */
#ifndef PST_TESTS_FORGE_DATASET_H
#define PST_TESTS_FORGE_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the next number of a pseudo-random sequence. */
uint64_t forge_random(uint64_t *state);

/* Corrects the checksums of blocks, block table and header. The lengths in the header must lie
 * within the bytes. */
void forge_seal_index(uint8_t *bytes);
/* Changes one member of the index: a number of the header, a byte of the schema, a member of an
 * item, a value, an entry of the shard table, or a name. Returns false, with nothing changed, if
 * the bytes are no index. */
bool forge_index(uint8_t *bytes, size_t nbytes, uint64_t *state);

/* Corrects the checksums of all items, of the records, as far as they can be followed, and of the
 * header. */
void forge_seal_shard(uint8_t *bytes, size_t nbytes);
/* Changes one member of a record or one byte of an item. Returns false if there is no record. */
bool forge_shard(uint8_t *bytes, size_t nbytes, uint64_t *state);

/* Gives the items in the index the checksums from the records of shard i_shard. */
void forge_follow_shard(uint8_t *index, size_t index_nbytes, uint32_t i_shard, const uint8_t *shard,
                        size_t shard_nbytes);

#endif
