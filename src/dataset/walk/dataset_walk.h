/* dataset_walk.h - what is asked for when an index of other people's files is found or made, and
 * the walk over one of the files. One thread. */
#ifndef PST_DATASET_WALK_DATASET_WALK_H
#define PST_DATASET_WALK_DATASET_WALK_H

#include "dataset/dataset_saved.h"
#include "dataset/dataset_table.h"

#include "base/hash.h"
#include "containers/containers_walk.h"
#include "containers/list/containers_list.h"

#include <limits.h>
#include <sys/stat.h>

struct psti_walk_record_writer;

/* All that it takes to find or make one index. */
struct psti_making {
    const char *text; /* what the user means */
    const struct pst_dataset_options *options;
    struct psti_container_list list;
    struct psti_field_rule *rules; /* [n_rules]: the user's, and those of the list */
    uint32_t n_rules;
    char base[PATH_MAX];            /* the absolute folder of the files */
    char path[PATH_MAX];            /* what the data set calls itself */
    char name[PSTI_SAVED_NAME_CAP]; /* of the index */
    uint8_t digest[16];             /* of shards, rules and exclusions */
    struct psti_saved *saved;
    uint32_t i_shard; /* that is walked */
    uint64_t *starts; /* [n_starts]: where its samples begin, if others made an index of it */
    size_t n_starts, starts_capacity;
    struct psti_sample_taker inner;  /* takes the samples that are not left out */
    struct psti_dataset_table table; /* of kinds that are tables */
    struct psti_dataset_notes notes; /* beside the shard */
    struct pst_progress progress;    /* in bytes: the number of samples is not known before */
    bool was_made;
    bool merges; /* the index is made of the records of parts (dataset_walk_record.h) */
    struct psti_walk_record_writer *record; /* of the walk; NULL: none is made */
};

/* The kind of all shards, which the list has found. */
const struct psti_kind *psti_dataset_walk_kind(const struct psti_making *making);
/* What names and digests are made of. */
void psti_dataset_walk_hash_number(struct psti_hash_pair *hash, uint64_t number);
void psti_dataset_walk_hash_text(struct psti_hash_pair *hash, const char *text);
void psti_dataset_walk_hash_rules(const struct psti_making *making, struct psti_hash_pair *hash);

/* True if the walks over shards depend on files beside them. */
bool psti_dataset_walk_has_notes(const struct psti_making *making);
/* Reads what lies beside the shard for its walk. */
enum pst_status psti_dataset_walk_find_notes(struct psti_making *making, size_t i_shard,
                                             struct pst_error *err);

/* A shard that is open. */
struct psti_walk_shard {
    char path[PATH_MAX];
    int fd;
    struct stat st;
    uint64_t stamp, sampled_hash; /* as psti_containers_writer_file takes them */
    struct psti_walk_counts counts;
};
/* Opens making->i_shard, and samples its bytes. After a failure there is nothing to close. */
enum pst_status psti_dataset_walk_open(struct psti_making *making, struct psti_walk_shard *shard,
                                       struct pst_error *err);
/* Walks over it: samples go to making->inner, rows to making->table. Sets shard->counts. */
enum pst_status psti_dataset_walk_over(struct psti_making *making, struct psti_walk_shard *shard,
                                       struct pst_error *err);
/* Closes it. status: of the walk. PST_ERROR_STATE: the file changed since it was opened. */
enum pst_status psti_dataset_walk_close(struct psti_making *making, struct psti_walk_shard *shard,
                                        enum pst_status status, struct pst_error *err);

/* Takes the samples of a walk, or of the record of one. */
struct psti_sample_taker psti_dataset_walk_taker(struct psti_making *making);
/* Tells of one more sample, now and then. context: the making. */
enum pst_status psti_dataset_walk_count(void *context, struct pst_error *err);
/* Says what a walk has found to be odd: that the file has no end, and what the indexes of others
 * state otherwise. path: of the file. */
void psti_dataset_walk_judge(const struct psti_making *making, const char *path,
                             const struct psti_walk_counts *counts);

#endif
