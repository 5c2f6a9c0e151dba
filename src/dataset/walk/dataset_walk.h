/* dataset_walk.h - the task of finding or making an index of containers, and the walk over one of
 * the files. One thread. */
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

/* All state for finding or making one index. */
struct psti_making {
    const char *text; /* the text by which the user names the data */
    const struct pst_dataset_options *options;
    struct psti_container_list list;
    struct psti_field_rule *rules; /* [n_rules]: the user's rules, and those from Energon's files */
    uint32_t n_rules;
    char base[PATH_MAX];            /* absolute path of the folder that the files lie in */
    char path[PATH_MAX];            /* path of the data set, for messages */
    char name[PSTI_SAVED_NAME_CAP]; /* name of the index file */
    uint8_t digest[16];             /* hash of shards, rules and exclusions */
    struct psti_saved *saved;
    uint32_t i_shard; /* number of the shard that is being walked over */
    uint64_t *starts; /* [n_starts] offsets of the shard's samples; NULL unless another program made
                       * an index of it */
    size_t n_starts, starts_capacity;
    struct psti_sample_taker inner;  /* receives the samples that are not excluded */
    struct psti_dataset_table table; /* receives rows, for kinds that are tables */
    struct psti_dataset_notes notes; /* the file beside the shard */
    struct pst_progress progress;    /* in bytes, because the number of samples is not known in
                                      * advance */
    bool was_made;
    bool merges; /* the index is made from records of walks (dataset_walk_record.h) */
    struct psti_walk_record_writer *record; /* records the walk; NULL: no record is made */
};

/* Returns the kind of all shards, as the list has found it. */
const struct psti_kind *psti_dataset_walk_kind(const struct psti_making *making);
/* Add a number, a text or the rules to a hash, for names and digests. */
void psti_dataset_walk_hash_number(struct psti_hash_pair *hash, uint64_t number);
void psti_dataset_walk_hash_text(struct psti_hash_pair *hash, const char *text);
void psti_dataset_walk_hash_rules(const struct psti_making *making, struct psti_hash_pair *hash);

/* True if walks over shards of this kind depend on files beside them. */
bool psti_dataset_walk_has_notes(const struct psti_making *making);
/* Reads the file beside a shard that its walk needs. */
enum pst_status psti_dataset_walk_find_notes(struct psti_making *making, size_t i_shard,
                                             struct pst_error *err);

/* An open shard. */
struct psti_walk_shard {
    char path[PATH_MAX];
    int fd;
    struct stat st;
    uint64_t stamp, sampled_hash; /* the file's stamp, and a hash of some of its bytes */
    struct psti_walk_counts counts;
};
/* Opens shard making->i_shard, and hashes some of its bytes. After a failure there is nothing to
 * close. */
enum pst_status psti_dataset_walk_open(struct psti_making *making, struct psti_walk_shard *shard,
                                       struct pst_error *err);
/* Walks over the open shard: samples go to making->inner, rows to making->table. Sets
 * shard->counts. */
enum pst_status psti_dataset_walk_over(struct psti_making *making, struct psti_walk_shard *shard,
                                       struct pst_error *err);
/* Closes the shard. status: result of the walk. PST_ERROR_STATE: the file changed since it was
 * opened. */
enum pst_status psti_dataset_walk_close(struct psti_making *making, struct psti_walk_shard *shard,
                                        enum pst_status status, struct pst_error *err);

/* Returns the taker for the samples of a walk, or of a record of one. */
struct psti_sample_taker psti_dataset_walk_taker(struct psti_making *making);
/* Counts one more sample, and reports progress from time to time. context: the struct
 * psti_making. */
enum pst_status psti_dataset_walk_count(void *context, struct pst_error *err);
/* Logs what is odd about a file: it has no end mark, or other programs' indexes differ. path: of
 * the file. */
void psti_dataset_walk_judge(const struct psti_making *making, const char *path,
                             const struct psti_walk_counts *counts);

#endif
