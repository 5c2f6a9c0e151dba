/* containers_kinds.h - the kinds of other programs' files that are read in place: what each is
 * called, how its file names end, and which function walks over it. */
#ifndef PST_CONTAINERS_CONTAINERS_KINDS_H
#define PST_CONTAINERS_CONTAINERS_KINDS_H

#include "containers/table/containers_columns.h"

#include "base/fail.h"

struct psti_kind {
    enum psti_container_kind kind;
    const char *name;    /* name in messages and in index file names: "parquet" */
    const char *ends[4]; /* ends of file names, each with its dot; NULL after the last */
    /* Names of extra files that may lie beside the shards; the walk gets the first that exists. A
     * name that begins with a dot, such as ".idx", is the shard's own name with that ending. Such a
     * file is the only note, belongs to that one shard, and does not change what the walk makes. */
    const char *notes[3];  /* names of such files; NULL after the last */
    bool has_members;      /* the file has members and is read by psti_containers_walk */
    psti_table_walk *walk; /* reads a table; NULL: files of this kind are not read as tables */
};

/* All kinds, in the order of enum psti_container_kind. The table ends with an entry of kind 0. */
extern const struct psti_kind psti_containers_kinds[];

/* Returns the entry of this kind, or NULL if its files are not read. */
const struct psti_kind *psti_containers_kind(enum psti_container_kind kind);
/* Finds the kind by the end of a file's name, such as ".tar". A TFRecord's name may have a shard
 * number after the ending: ".tfrecord-00000-of-00010". PSTI_CONTAINER_NONE: the name has no known
 * ending. */
enum psti_container_kind psti_containers_kind_of_name(const char *path);
/* True if the ending of a known kind stands anywhere in a text. The text may be a pattern. */
bool psti_containers_kind_is_in(const char *text);
/* True for a file that has the ending of a shard but is none: the lock file of LMDB, and the cache
 * files of datasets.map of Hugging Face. */
bool psti_containers_is_beside(const char *name);
/* Appends the endings of all known kinds: "*.tar, *.zip or *.parquet". before: text before each
 * ending, such as "*"; last: text before the last one, such as " or ". */
void psti_containers_kinds_say(struct psti_text *text, const char *before, const char *last);

/* True if the file with these first bytes is a TFRecord: they are a record's length and its valid
 * checksum. Defined in tfrecord/containers_tfrecord.c. */
bool psti_containers_tfrecord_is(const uint8_t *head, size_t nbytes);

#endif
