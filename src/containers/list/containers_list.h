/* containers_list.h - which shards a user means, and what other people's indexes say about them.
 *
 * A user names shards by texts. Each text is one of these, or several joined by "::":
 *   - the path of a shard, a file of one of the kinds of containers_kinds.c;
 *   - a folder that holds such files of one kind, which are taken in the order of their bytes; or
 *     whose folders train, val, validation, test (and their like, see below) hold them. One with
 *     pictures or sounds besides, also in folders of classes, is a plain folder, which passes a tar
 *     over. The index.json of MosaicML tells which shards a folder has, and their order;
 *   - a pattern with wildcards or brace lists (containers_pattern.h);
 *   - the path of an index of the package wids, which ends in ".json";
 *   - a folder that Megatron-Energon prepared, in which .nv-meta is. It stands alone.
 * A path that exists is taken as it is, whatever characters it has. "~" is not known here.
 *
 * Splits. Words are the runs of letters in a file's name, without its ending. A shard belongs to
 * the split whose word its name has: train, training; val, valid, validation; dev; test, testing;
 * trainval. If its name has none, the name of its folder counts. Case does not. A split may be
 * asked for by another word of the same line if no shard has its own word, and by any other word
 * that names of shards have. "all" takes every shard. Energon's folder has its own splits. A folder
 * that has several splits needs one that is asked for: nobody trains on validation by accident.
 *
 * Order. The texts as they stand, the names of a brace list as bash has them, matches of wildcards
 * and folders by bytes, indexes as they are written. No shard may be meant twice.
 *
 * Indexes of others are not trusted. What they name must lie below their folder, by its name and
 * behind all links. The numbers are only compared with what a walk finds.
 *
 * One thread makes a list; any may read it. */
#ifndef PST_CONTAINERS_CONTAINERS_LIST_H
#define PST_CONTAINERS_CONTAINERS_LIST_H

#include "containers/list/containers_paths.h"

enum { PSTI_CONTAINERS_MAX_SHARDS = 1 << 20 };

/* Texts are the list's. */
struct psti_container_shard {
    char *path;        /* relative to the list's base, without ".." */
    char *index;       /* of its samples, relative to the base (containers_foreign.h); NULL */
    int64_t n_samples; /* as an index of others states; -1: unknown */
    int32_t i_split;   /* among the list's splits; -1: none */
};

/* A sample that the data set leaves out. */
struct psti_container_excluded {
    uint32_t i_shard;
    char *key;
};

/* A field of Energon's field_map: `source` is a suffix, or one with an entry: "json[caption]". */
struct psti_container_mapping {
    char *name, *source;
};

struct psti_container_list {
    /* The folder that all paths are relative to; "" is the current one. It may be relative. */
    char *base;
    enum psti_container_kind kind;
    struct psti_container_shard *shards;
    size_t n_shards, shard_capacity;
    struct psti_container_names splits; /* found, in the order of the shards or of split.yaml */
    char *split;                        /* that was taken; NULL: all */
    bool is_energon;
    struct psti_container_excluded *excluded; /* sorted by shard and key */
    size_t n_excluded, excluded_capacity;
    struct psti_container_mapping *fields;
    size_t n_fields, field_capacity;
};

/* Lists the shards of n texts. split: NULL if none is asked for. After a failure the list is empty.
 *
 * PST_ERROR_NOT_FOUND: a path, or a match of a pattern, or the split, does not exist; the text
 * names it, and the splits that exist. PST_ERROR_ARGUMENT: the split is not clear, a shard is meant
 * twice, or a pattern is malformed. PST_ERROR_UNSUPPORTED: a URL or a command, a compressed tar, or
 * an index that needs code of others. PST_ERROR_CORRUPT: an index of others is wrong.
 * PST_ERROR_LIMIT: more than PSTI_CONTAINERS_MAX_SHARDS shards. */
enum pst_status psti_containers_list_open(const char *const *texts, size_t n, const char *split,
                                          struct psti_container_list *list, struct pst_error *err);
/* The list is empty afterwards. A list of zeros may be closed. */
void psti_containers_list_close(struct psti_container_list *list);

/* Looks for an index beside each tar: "a.tar.idx" (Energon) or "a.idx" (DALI's wds2idx). */
enum pst_status psti_containers_list_indexes(struct psti_container_list *list,
                                             struct pst_error *err);
/* Is this sample of this shard left out? */
bool psti_containers_list_excludes(const struct psti_container_list *list, uint32_t i_shard,
                                   const char *key);
/* Does a text mean shards, and not a data set of Penstock or a folder of plain files? Looks at
 * names alone. What is wrong with it, psti_containers_list_open tells. */
bool psti_containers_list_is_meant(const char *text);

#endif
