/* dataset_table.h - what a walk over files of rows is given: columns that lead to the writer of the
 * index, and the small files that others keep beside their shards. */
#ifndef PST_DATASET_DATASET_TABLE_H
#define PST_DATASET_DATASET_TABLE_H

#include "containers/containers_kinds.h"

/* Columns whose samples are counted on their way to the writer. It must not move while it is open.
 */
struct psti_dataset_table {
    struct psti_containers_columns *columns;
    struct psti_field_sink inner;
    enum pst_status (*count)(void *context, struct pst_error *err);
    void *context;
};

/* rules: as in psti_containers_columns_open. inner: gets fields and samples. count: called before
 * each sample; an error ends the walk, which returns it. */
enum pst_status psti_dataset_table_open(struct psti_dataset_table *table,
                                        const struct psti_field_rule *rules, uint32_t n_rules,
                                        const struct psti_field_sink *inner,
                                        enum pst_status (*count)(void *, struct pst_error *),
                                        void *context, struct pst_error *err);
/* A table of zeros may be closed. */
void psti_dataset_table_close(struct psti_dataset_table *table);

/* The file beside the shards of one folder. All zero: none was looked for. */
struct psti_dataset_notes {
    char *folder; /* relative to the base, with its slash; NULL: none yet */
    char *bytes, *path;
    struct psti_table_notes notes; /* for the walk */
    uint64_t n_folders;            /* that were looked at, one after the other */
};

/* Reads the first file of `names` that lies in the folder of the shard, unless it has it. names:
 * each without a folder, NULL behind the last. No such file: PST_OK, and notes of no bytes. Links
 * are followed, as those of shards are.
 *
 * PST_ERROR_LIMIT: it has more than 256 MiB. PST_ERROR_IO, PST_ERROR_MEMORY. */
enum pst_status psti_dataset_notes_find(struct psti_dataset_notes *notes, const char *const *names,
                                        const char *base, const char *shard, struct pst_error *err);
/* Reads the file with the shard's name and another ending, such as ".idx". One that is not there,
 * or cannot be read, gives notes of no bytes; the log says why it cannot be read. */
void psti_dataset_notes_beside(struct psti_dataset_notes *notes, const char *ending,
                               const char *base, const char *shard);
void psti_dataset_notes_free(struct psti_dataset_notes *notes);

#endif
