/* writer_int.h - the internal state of a writer. One thread at a time uses it; there are no locks.
 */
#ifndef PST_WRITER_WRITER_INT_H
#define PST_WRITER_WRITER_INT_H

#include "decode/decode.h"
#include "format/format_geometry.h"
#include "format/format_parts.h"
#include "writer/writer.h"
#include "writer/writer_file.h"
#include "writer/writer_names.h"

#include <limits.h>
#include <sys/types.h>

enum psti_writer_state { PSTI_WRITER_OPEN, PSTI_WRITER_FAILED, PSTI_WRITER_FINISHED };

struct psti_writer_shard {
    uint64_t nbytes, n_items;
    uint64_t header_checksum; /* checksum stored in the shard's header */
    char name[PSTI_SHARD_NAME_CAP];
};

/* Class names of one int field: n_classes strings, each with its NUL, in sequence. */
struct psti_writer_classes {
    char *text;
    size_t nbytes;
};

struct pst_writer {
    char *path;
    pid_t pid; /* process that opened it; forked children must not write */
    enum psti_writer_state state;
    bool made_directory;
    struct psti_writer_dir dir; /* the open directory; its path is `path` */
    int lock_fd;
    uint64_t shard_nbytes, commit_nbytes;

    uint8_t id[16];
    uint32_t n_fields;
    struct pst_field fields[PST_MAX_FIELDS];
    size_t rows_nbytes;
    struct psti_writer_classes classes[PST_MAX_FIELDS];
    uint32_t *pairs[PST_MAX_FIELDS]; /* pairs of points, [n_pairs][2]; NULL: not set yet */
    bool classes_changed;            /* classes or pairs changed since the last commit */
    bool index_changed;              /* something changed since the base index was made */
    uint64_t max_item_nbytes[PST_MAX_FIELDS], max_pixels_nbytes[PST_MAX_FIELDS];

    pst_dataset *base; /* the finished data set that is appended to, or NULL */
    uint64_t base_generation, base_n_samples;

    /* For a change in place (writer_rewrite.c): the whole index is made again from the journal, and
     * unchanged shards are those of the base. base_n_samples is 0. */
    bool rewrites;
    bool differs;  /* the current shard differs from the base's */
    bool waits;    /* old shards were kept for their readers */
    uint64_t mark; /* number that identifies the change; 0: none */
    const char *journal_name, *journal_tmp_name, *index_tmp_name;

    /* For packing in parts (writer_parts.c, writer_merge.c). */
    uint64_t first_sample; /* sample number of the first sample in the shards' records */
    bool merges;           /* merging: the index must not replace an existing one */

    uint64_t n_samples, n_committed;
    uint64_t names_nbytes; /* bytes of all names with their NULs */
    struct psti_writer_names names;

    struct psti_writer_shard *shards;
    uint32_t n_shards, shards_cap;
    uint32_t first_changed;   /* first shard that changed since the last commit */
    struct psti_output shard; /* the last shard, if it is open */
    bool last_is_linked;      /* the last shard has a second hard link: do not write to it */
    bool directory_changed;   /* the directory has new entries that are not durable */
    uint64_t uncommitted_nbytes;

    struct psti_output journal;
    uint64_t journal_end;   /* offset of the end of the last commit */
    uint64_t journal_start; /* offset of the first record */
    uint8_t *body;          /* scratch: one journal record's body */
    size_t body_cap;

    struct psti_decoder *decoder; /* created for the first image */
    struct pst_item items[PST_MAX_FIELDS]
                         [PST_MAX_VARIANTS]; /* scratch: the items of the sample being added */
    /* Scratch: the values of the sample being added, copied into structs of this library's size. */
    struct pst_value values[PST_MAX_FIELDS][PST_MAX_VARIANTS];
    const struct pst_value *lists[PST_MAX_FIELDS];
};

/* writer_state.c */
/* Adds a shard to the list, and sets its name. Returns false if there is no memory. */
bool psti_writer_push_shard(pst_writer *writer, uint64_t nbytes, uint64_t n_items);
/* In a change in place: true if the shard is a file of the base. */
bool psti_writer_is_adopted(const pst_writer *writer, uint32_t number);
/* Sets the writer to FAILED: only close is allowed from now on. */
enum pst_status psti_writer_give_up(pst_writer *writer, enum pst_status status,
                                    struct pst_error *err);
/* Undoes the open of a data set in which nothing was written: removes the directory if this writer
 * made it, and releases the lock. */
void psti_writer_undo_directory(pst_writer *writer);
/* Frees everything and releases the lock; writes nothing. */
void psti_writer_destroy(pst_writer *writer);

/* writer_open.c */
/* Steps of opening a writer, which writer_rewrite.c uses, too. */
enum pst_status psti_writer_new(const char *path, const struct pst_writer_options *options,
                                pst_writer **out, struct pst_error *err);
enum pst_status psti_writer_enter(pst_writer *writer, enum pst_writer_mode mode,
                                  struct pst_error *err);
enum pst_status psti_writer_open_base(pst_writer *writer, struct pst_error *err);
enum pst_status psti_writer_open_journal(pst_writer *writer,
                                         struct pst_field fields[PST_MAX_FIELDS],
                                         uint32_t *n_fields, bool *has, struct pst_error *err);

/* Checks that the directory is empty. Files of a writer that ended before its journal was in place
 * are allowed; with takes_parts also those of packing in parts. */
enum pst_status psti_writer_check_empty(const struct psti_writer_dir *directory, bool takes_parts,
                                        struct pst_error *err);
/* Returns PST_ERROR_INCOMPLETE if the data set was packed in parts and is not merged yet. */
enum pst_status psti_writer_check_whole(const pst_writer *writer, struct pst_error *err);

/* writer_leftovers.c */
/* Removes files that no index names: shards, and second names of indexes. `base` has the current
 * index. Shards of an unfinished change that continues stay: those of generation `kept` with
 * numbers below n_kept. */
enum pst_status psti_writer_tidy(pst_writer *writer, const pst_dataset *base, uint32_t kept,
                                 uint32_t n_kept, struct pst_error *err);
/* Before an append: completes a change in place whose index is already current. An unfinished
 * change is PST_ERROR_INCOMPLETE. */
enum pst_status psti_writer_settle(pst_writer *writer, struct pst_error *err);
/* After an append or a change in place: removes old indexes and shards that the new index does not
 * name, and closes the base. Files that are still being read stay. */
void psti_writer_drop_old(pst_writer *writer);
/* Gives the old index a second name. Its readers have locked that file, so the second name shows
 * whether there still are readers after the first name is gone. */
enum pst_status psti_writer_keep_old_index(pst_writer *writer, struct pst_error *err);
/* Removes all files that an unfinished change in place has made. */
void psti_writer_abandon(pst_writer *writer);

/* writer_add.c */
/* Copies the caller's sample to `sample`, whatever the size of the caller's struct. The values of
 * the copy lie in the writer. */
enum pst_status psti_writer_take_sample(pst_writer *writer, const struct pst_sample *given,
                                        struct pst_sample *sample, struct pst_error *err);
/* Updates the largest sizes of the item's field. */
void psti_writer_count_item(pst_writer *writer, uint32_t i_field, const struct pst_item *item);

/* writer_journal.c */
/* Writes the header of a new journal under a temporary name and renames it. */
enum pst_status psti_writer_journal_create(pst_writer *writer, struct pst_error *err);
enum pst_status psti_writer_journal_append(pst_writer *writer, enum psti_journal_kind kind,
                                           const uint8_t *body, size_t nbytes,
                                           struct pst_error *err);
enum pst_status psti_writer_journal_commit(pst_writer *writer, struct pst_error *err);
/* Makes sure that writer->body has `nbytes`. Returns false if there is no memory. */
bool psti_writer_body_reserve(pst_writer *writer, size_t nbytes);

struct psti_writer_journal_reader {
    int fd;
    char path[PATH_MAX];
    uint64_t end;      /* end of the file */
    uint64_t position; /* offset of the next record */
    uint8_t *buffer;   /* the file's bytes [start, start + n) */
    uint64_t start;
    size_t n, capacity;
};
enum pst_status psti_writer_journal_reader_open(struct psti_writer_journal_reader *reader,
                                                const struct psti_writer_dir *dir, const char *name,
                                                struct pst_error *err);
/* Returns the address of `nbytes` bytes at `offset` of the journal, valid until the next call. NULL
 * with PST_OK if the file ends before. */
enum pst_status psti_writer_journal_reader_bytes(struct psti_writer_journal_reader *reader,
                                                 uint64_t offset, uint64_t nbytes,
                                                 const uint8_t **bytes, struct pst_error *err);
/* Reads the next record. *body is NULL, with PST_OK, if there are no more valid records. */
enum pst_status psti_writer_journal_reader_next(struct psti_writer_journal_reader *reader,
                                                struct psti_journal_record *record,
                                                const uint8_t **body, struct pst_error *err);
void psti_writer_journal_reader_close(struct psti_writer_journal_reader *reader);

/* writer_pairs.c */
/* Copies the field's pairs into the writer. *is_new: they differ from the previous pairs. */
enum pst_status psti_writer_keep_pairs(pst_writer *writer, uint32_t i_field, const uint32_t *pairs,
                                       bool *is_new, struct pst_error *err);
/* Copies the pairs from writer->base, if it has any. */
enum pst_status psti_writer_load_base_pairs(pst_writer *writer, uint32_t i_field,
                                            struct pst_error *err);
/* Writes the field's pairs to `out`. Returns their length, 8 bytes for each pair. */
size_t psti_writer_print_pairs(const pst_writer *writer, uint32_t i_field, uint8_t *out);
/* Reads a journal record of type PSTI_JOURNAL_PAIRS. Returns NULL, or what is wrong. */
const char *psti_writer_apply_pairs(pst_writer *writer, const uint8_t *body, uint64_t nbytes);
/* Checks that a keypoints item consists of whole instances. */
enum pst_status psti_writer_check_points(const pst_writer *writer, uint32_t i_field,
                                         const struct pst_item *item, struct pst_error *err);

/* writer_resume.c */
/* Copies schema, names, classes, shards and largest sizes from writer->base. */
enum pst_status psti_writer_load_base(pst_writer *writer, struct pst_error *err);
enum pst_status psti_writer_load_base_classes(pst_writer *writer, uint32_t i_field,
                                              struct pst_error *err);
/* Adds the name of a sample that was not added by pst_writer_add. */
enum pst_status psti_writer_take_name(pst_writer *writer, const char *name, size_t nbytes,
                                      struct pst_error *err);
/* Reads the journal to its last commit and changes nothing on disk. psti_writer_read_journal_header
 * must have parsed the header. */
enum pst_status psti_writer_load_journal(pst_writer *writer, struct pst_error *err);
/* Truncates the journal to its last commit and opens it for writing. */
enum pst_status psti_writer_reopen_journal(pst_writer *writer, struct pst_error *err);
enum pst_status psti_writer_read_journal_header(const struct psti_writer_dir *dir, const char *name,
                                                struct psti_journal_header *header,
                                                struct pst_field fields[PST_MAX_FIELDS],
                                                struct pst_error *err);
/* Checks that the shards from `first` on belong to the data set and have all committed bytes. */
enum pst_status psti_writer_check_shards(pst_writer *writer, uint32_t first, struct pst_error *err);
/* Truncates shards that are longer than committed. Removes shards that were never committed. */
enum pst_status psti_writer_trim_shards(pst_writer *writer, uint32_t first, struct pst_error *err);

/* writer_rewrite.c */
/* Scratch memory for the values of an adopted sample. */
struct psti_writer_adopted {
    uint64_t numbers[PST_MAX_FIELDS];
    const struct pst_value *lists[PST_MAX_FIELDS];
    struct pst_value values[PST_MAX_FIELDS];
};
/* Adds a sample of another data set, whose shards come after the first `first_shard` shards of this
 * one. Both have the same fields, but here they may have more variants. *adopted: scratch memory,
 * zero before the first call. */
enum pst_status psti_writer_adopt_sample(pst_writer *writer, const pst_dataset *from,
                                         uint64_t sample, uint32_t first_shard,
                                         struct psti_writer_adopted *adopted,
                                         struct pst_error *err);

/* writer_check.c */
/* Compares the shards with the journal's entry of each item, by the header of every record.
 * PST_ERROR_CORRUPT or PST_ERROR_CHECKSUM if they differ. */
enum pst_status psti_writer_check_records(const pst_writer *writer, struct pst_error *err);

/* writer_index.c */
enum pst_status psti_writer_write_index(pst_writer *writer, struct pst_error *err);

/* writer.c */
/* Makes the bytes written to the last shard durable, and closes it. */
enum pst_status psti_writer_leave_shard(pst_writer *writer, struct pst_error *err);
/* Writes the journal record of the sample whose items are in writer->items. writer->body must be
 * large enough. */
enum pst_status psti_writer_put_journal(pst_writer *writer, const struct pst_sample *sample,
                                        size_t name_nbytes, struct pst_error *err);

/* writer_geometry.c: called after the values were checked one by one. *i_field receives the wrong
 * field. */
enum pst_status psti_writer_check_geometry(const pst_writer *writer,
                                           const struct pst_sample *sample, uint32_t *i_field,
                                           struct pst_error *err);

#endif
