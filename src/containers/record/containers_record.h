/* containers_record.h - the record of a walk over one file: everything that the walk output, so
 * that another process can continue without doing the walk (docs/format-container.md, "Files of
 * walks").
 *
 * A process that indexes a part of the files writes records. A record has what the walk gave to
 * containers_fields.h (samples) or containers_columns.h (columns, pages, rows), in order, and
 * optionally checksums of items. The fields are decided where the record is played back, because
 * they depend on the files before it.
 *
 * One thread uses a record at a time. */
#ifndef PST_CONTAINERS_RECORD_CONTAINERS_RECORD_H
#define PST_CONTAINERS_RECORD_CONTAINERS_RECORD_H

#include "containers/table/containers_columns.h"

#include "base/files/output.h"

/* Sources of a record. */
struct psti_walk_record_head {
    enum psti_container_kind kind;
    uint8_t key[16];       /* hash of the rules that the walk followed */
    uint64_t path_hash;    /* hash of the file's path within its folder */
    uint64_t file_nbytes;  /* bytes of the file */
    uint64_t stamp;        /* the file's stamp (base/files/stamp.h) */
    uint64_t sampled_hash; /* hash of some bytes of the file, as psti_containers_writer_file takes
                            * it */
    uint64_t n_samples;    /* number of samples or rows that the walk gave */
    bool has_no_end, has_sums;
};

/* The checksum of an item: XXH3 of its stored bytes or, for an item in a page, of its decoded
 * bytes. */
struct psti_walk_record_sum {
    bool is_in_page;
    uint64_t i_page; /* page that the item lies in; the file's first page has the number 0 */
    uint64_t offset, nbytes;
    uint64_t sum; /* never 0 */
};

/* Writing ------------------------------------------------------------------------------------ */

struct psti_walk_record_writer;

/* Makes a writer. out: an open, empty file, which the caller keeps and closes after the writer. */
enum pst_status psti_containers_record_writer_open(struct psti_output *out,
                                                   struct psti_walk_record_writer **writer,
                                                   struct pst_error *err);
/* Frees the writer and sets *writer to NULL, which it may be already. */
void psti_containers_record_writer_close(struct psti_walk_record_writer **writer);
/* Adds a sample of a walk over members. */
void psti_containers_record_writer_sample(struct psti_walk_record_writer *writer,
                                          const struct psti_sample *sample);
/* Adds a call of the columns. It is a listener for psti_containers_columns_listen; context: the
 * writer. */
void psti_containers_record_writer_call(void *context, const struct psti_columns_call *call);
/* Adds a checksum of an item of the sample or row that was added last. */
void psti_containers_record_writer_sum(struct psti_walk_record_writer *writer,
                                       const struct psti_walk_record_sum *sum);
/* Writes the rest of the events and the head, and syncs the file. Reports any earlier failure. */
enum pst_status psti_containers_record_writer_end(struct psti_walk_record_writer *writer,
                                                  const struct psti_walk_record_head *head,
                                                  struct pst_error *err);

/* Reading ------------------------------------------------------------------------------------ */

struct psti_walk_record;

/* Reads the head of a record. The caller keeps fd open while the record is used. path: for
 * messages; it must outlive the record.
 *
 * PST_ERROR_CORRUPT, TRUNCATED, CHECKSUM, UNSUPPORTED: the file is no record, or is damaged. */
enum pst_status psti_containers_record_open(int fd, const char *path,
                                            struct psti_walk_record **record,
                                            struct psti_walk_record_head *head,
                                            struct pst_error *err);
void psti_containers_record_close(struct psti_walk_record **record);
/* Reads all events and compares them with their checksum. PST_ERROR_CHECKSUM,
 * PST_ERROR_TRUNCATED. */
enum pst_status psti_containers_record_verify(struct psti_walk_record *record,
                                              struct pst_error *err);

/* Gives the record's samples to the taker. PST_ERROR_CORRUPT: the record is damaged; the error
 * names it. Errors of the taker are returned as they are. */
enum pst_status psti_containers_record_play_samples(struct psti_walk_record *record,
                                                    const struct psti_sample_taker *taker,
                                                    struct pst_error *err);
/* Repeats the record's calls to the columns. path: the file that the walk read. *deviates: true,
 * with PST_OK, if the columns answer differently than when the record was made, so a real walk
 * would have gone on differently. The caller must then walk over the file with new columns and a
 * new writer. */
enum pst_status psti_containers_record_play_columns(struct psti_walk_record *record,
                                                    const char *path,
                                                    struct psti_containers_columns *columns,
                                                    bool *deviates, struct pst_error *err);
/* Finds the checksum of a value of the sample or row that is being played back; 0: the record has
 * none. It is a psti_known_sum for psti_containers_writer_know_sums; context: the record. */
uint64_t psti_containers_record_find_sum(void *context, const struct psti_container_value *value);

#endif
