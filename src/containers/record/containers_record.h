/* containers_record.h - the record of a walk over one file: all that the walk gave, so that another
 * process can go on as if it had walked over the file (docs/format-container.md, "Files of walks").
 *
 * A record is made by a process that indexes a part of the files. It has what a walk gives to
 * containers_fields.h (samples) or containers_columns.h (columns, pages, rows), in that order, and
 * perhaps sums of items. Which fields there are is decided where the record is played, because that
 * depends on the files before.
 *
 * One thread uses a record at a time. */
#ifndef PST_CONTAINERS_RECORD_CONTAINERS_RECORD_H
#define PST_CONTAINERS_RECORD_CONTAINERS_RECORD_H

#include "containers/table/containers_columns.h"

#include "base/files/output.h"

/* What a record is of. */
struct psti_walk_record_head {
    enum psti_container_kind kind;
    uint8_t key[16];       /* of the rules by which the walk was done */
    uint64_t path_hash;    /* of the file's path within its folder */
    uint64_t file_nbytes;  /* of the file */
    uint64_t stamp;        /* base/files/stamp.h */
    uint64_t sampled_hash; /* as psti_containers_writer_file takes it */
    uint64_t n_samples;    /* counts of the walk */
    bool has_no_end, has_sums;
};

/* The sum of an item: XXH3 of its bytes as they are stored, or of its own bytes if it is in a page.
 */
struct psti_walk_record_sum {
    bool is_in_page;
    uint64_t i_page; /* if it is in one; the file's first page has the number 0 */
    uint64_t offset, nbytes;
    uint64_t sum; /* never 0 */
};

/* Writing ------------------------------------------------------------------------------------ */

struct psti_walk_record_writer;

/* out: an open file that is empty. It stays the caller's, and must outlive the writer. */
enum pst_status psti_containers_record_writer_open(struct psti_output *out,
                                                   struct psti_walk_record_writer **writer,
                                                   struct pst_error *err);
/* *writer becomes NULL. NULL is fine. */
void psti_containers_record_writer_close(struct psti_walk_record_writer **writer);
/* Adds a sample of a walk over members. */
void psti_containers_record_writer_sample(struct psti_walk_record_writer *writer,
                                          const struct psti_sample *sample);
/* A listener of columns (psti_containers_columns_listen): adds a call. context: the writer. */
void psti_containers_record_writer_call(void *context, const struct psti_columns_call *call);
/* Adds a sum to the sample or row that was added last. */
void psti_containers_record_writer_sum(struct psti_walk_record_writer *writer,
                                       const struct psti_walk_record_sum *sum);
/* Writes what is left, and the head, and syncs the file. What failed before is reported here. */
enum pst_status psti_containers_record_writer_end(struct psti_walk_record_writer *writer,
                                                  const struct psti_walk_record_head *head,
                                                  struct pst_error *err);

/* Reading ------------------------------------------------------------------------------------ */

struct psti_walk_record;

/* Reads the head. fd: stays the caller's, and must outlive the record. path: for messages; it must
 * outlive the record, too.
 *
 * PST_ERROR_CORRUPT, TRUNCATED, CHECKSUM, UNSUPPORTED: it is no record, or a damaged one. */
enum pst_status psti_containers_record_open(int fd, const char *path,
                                            struct psti_walk_record **record,
                                            struct psti_walk_record_head *head,
                                            struct pst_error *err);
void psti_containers_record_close(struct psti_walk_record **record);
/* Reads the rest, and compares it with its checksum. PST_ERROR_CHECKSUM, PST_ERROR_TRUNCATED. */
enum pst_status psti_containers_record_verify(struct psti_walk_record *record,
                                              struct pst_error *err);

/* Gives the samples to the taker. PST_ERROR_CORRUPT names the record; others are the taker's. */
enum pst_status psti_containers_record_play_samples(struct psti_walk_record *record,
                                                    const struct psti_sample_taker *taker,
                                                    struct pst_error *err);
/* Repeats the calls. path: of the file that was walked over. *deviates: true, with PST_OK, if the
 * columns answer otherwise than they did when the record was made, so that the walk would have gone
 * on in another way. Then the file has to be walked over, by columns and a writer that begin anew.
 */
enum pst_status psti_containers_record_play_columns(struct psti_walk_record *record,
                                                    const char *path,
                                                    struct psti_containers_columns *columns,
                                                    bool *deviates, struct pst_error *err);
/* Finds the sum of a value of the sample or row that is being played. 0: the record has none. A
 * function of psti_containers_writer_know_sums; context: the record. */
uint64_t psti_containers_record_find_sum(void *context, const struct psti_container_value *value);

#endif
