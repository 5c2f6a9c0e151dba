/* containers_kinds.h - the kinds of files of others that are read in place: how they are called,
 * how their names end, and who walks over them. */
#ifndef PST_CONTAINERS_CONTAINERS_KINDS_H
#define PST_CONTAINERS_CONTAINERS_KINDS_H

#include "containers/table/containers_columns.h"

#include "base/fail.h"

struct psti_kind {
    enum psti_container_kind kind;
    const char *name;    /* in messages, and in the name of an index: "parquet" */
    const char *ends[4]; /* of names of files, each with its dot; NULL behind the last */
    /* Files beside the shards of which the first one that is there is given to the walk. One that
     * begins with a point, such as ".idx", has a shard's name with that ending: it is the only one,
     * belongs to that shard, and what the walk makes does not depend on it. */
    const char *notes[3];  /* NULL behind the last */
    bool has_members;      /* its walk is psti_containers_walk */
    psti_table_walk *walk; /* of a table. NULL: such files are not read */
};

/* All of them, in the order of enum psti_container_kind, up to one of kind 0. */
extern const struct psti_kind psti_containers_kinds[];

/* The kind with this number, if its files are read; else NULL. */
const struct psti_kind *psti_containers_kind(enum psti_container_kind kind);
/* By the end of a file's name: ".tar". TFRecord also with the number of the shard behind it:
 * ".tfrecord-00000-of-00010". PSTI_CONTAINER_NONE: no kind that is read. */
enum psti_container_kind psti_containers_kind_of_name(const char *path);
/* True if the ending of a kind that is read stands anywhere in a text, as in a pattern. */
bool psti_containers_kind_is_in(const char *text);
/* True for the name of a file that is none of the shards in its folder, although it ends as they
 * do: the lock of LMDB, and what datasets.map of Hugging Face keeps. */
bool psti_containers_is_beside(const char *name);
/* Adds the endings of all kinds that are read: "*.tar, *.zip or *.parquet". before: of each, say
 * "*"; last: what stands before the last one, " or ". */
void psti_containers_kinds_say(struct psti_text *text, const char *before, const char *last);

/* True if a file that begins with these bytes is a TFRecord: they are a length with its checksum.
 * tfrecord/containers_tfrecord.c. */
bool psti_containers_tfrecord_is(const uint8_t *head, size_t nbytes);

#endif
