/* dataset_index.h - the handle of a packed data set, for the source files that use its members. */
#ifndef PST_DATASET_DATASET_INDEX_H
#define PST_DATASET_DATASET_INDEX_H

#include "dataset/dataset_blocks.h"
#include "dataset/dataset_int.h"
#include "format/format_dataset.h"

#include <limits.h>

struct psti_dataset_index {
    pst_dataset base;
    struct psti_blocks blocks; /* blocks of the index file; their cache changes while readers use
                                * it */
    struct psti_index_header header;
    struct psti_index_field fields[PST_MAX_FIELDS];
    uint8_t *shards;                  /* the shard table, as it is stored in the file */
    char *classes[PST_MAX_FIELDS];    /* class names of each field, checked; NULL: none */
    uint32_t *pairs[PST_MAX_FIELDS];  /* pairs of keypoints of each field, checked; NULL: none */
    _Atomic uint64_t *shards_checked; /* one bit for each shard, set when its header and length were
                                       * checked */
};

static inline const struct psti_dataset_index *psti_dataset_index_of(const pst_dataset *dataset)
{
    return (const struct psti_dataset_index *)dataset;
}

/* Compares the record at `position` of shard i_file with the index (dataset_shard.c).
 * PST_ERROR_CORRUPT: the record belongs to another item. */
struct psti_record;
enum pst_status psti_dataset_check_record(const struct psti_dataset_index *index, uint32_t i_file,
                                          uint64_t position, const struct psti_record *record,
                                          struct pst_error *err);

/* Implements psti_dataset_check_shard for packed data sets (dataset_shard.c). */
enum pst_status psti_dataset_index_check_shard(const pst_dataset *dataset, uint32_t i_file,
                                               struct pst_error *err);

/* Returns the index entry of shard i_file < n_shards. */
enum pst_status psti_dataset_index_shard(const struct psti_dataset_index *index, uint32_t i_file,
                                         struct psti_index_shard *shard, struct pst_error *err);

#endif
