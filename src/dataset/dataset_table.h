/* dataset_table.h - what a walk over a table file needs: columns that pass samples on to the writer
 * of the index, and the small files that other programs keep beside their shards. */
#ifndef PST_DATASET_DATASET_TABLE_H
#define PST_DATASET_DATASET_TABLE_H

#include "containers/containers_kinds.h"

/* Columns whose samples are counted before the writer gets them. It must not move while it is
 * open. */
struct psti_dataset_table {
    struct psti_containers_columns *columns;
    struct psti_field_sink inner;
    enum pst_status (*count)(void *context, struct pst_error *err);
    void *context;
};

/* Opens the columns. rules: as for psti_containers_columns_open. inner: receives fields and
 * samples. count: called before each sample; if it fails, the walk ends with its error. */
enum pst_status psti_dataset_table_open(struct psti_dataset_table *table,
                                        const struct psti_field_rule *rules, uint32_t n_rules,
                                        const struct psti_field_sink *inner,
                                        enum pst_status (*count)(void *, struct pst_error *),
                                        void *context, struct pst_error *err);
/* Frees the table. A table whose members are all zero is fine. */
void psti_dataset_table_close(struct psti_dataset_table *table);

/* The file beside the shards of one folder. All members zero: none was searched yet. */
struct psti_dataset_notes {
    char *folder; /* folder that was searched, relative to the base, with its slash; NULL: none
                   * yet */
    char *bytes, *path;
    struct psti_table_notes notes; /* content of the file, for the walk */
    uint64_t n_folders;            /* number of folders that were searched so far */
};

/* Reads the first file of `names` that exists in the shard's folder, unless it was read before.
 * names: file names without a folder, NULL after the last. If no such file exists: PST_OK, and
 * notes of 0 bytes. Links are followed, as they are for shards.
 *
 * PST_ERROR_LIMIT: the file has more than 256 MiB. PST_ERROR_IO, PST_ERROR_MEMORY. */
enum pst_status psti_dataset_notes_find(struct psti_dataset_notes *notes, const char *const *names,
                                        const char *base, const char *shard, struct pst_error *err);
/* Reads the file that has the shard's name with another ending, such as ".idx". If it is missing or
 * cannot be read, the notes have 0 bytes; the log says why it cannot be read. */
void psti_dataset_notes_beside(struct psti_dataset_notes *notes, const char *ending,
                               const char *base, const char *shard);
void psti_dataset_notes_free(struct psti_dataset_notes *notes);

#endif
