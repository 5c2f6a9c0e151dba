/* writer_int.h - what a writer holds. Used by one thread at a time; no locks. */
#ifndef PST_WRITER_WRITER_INT_H
#define PST_WRITER_WRITER_INT_H

#include "decode/decode.h"
#include "writer/writer.h"
#include "writer/writer_file.h"
#include "writer/writer_names.h"

#include <limits.h>
#include <sys/types.h>

enum psti_writer_state { PSTI_WRITER_OPEN, PSTI_WRITER_FAILED, PSTI_WRITER_FINISHED };

struct psti_writer_shard {
    uint64_t nbytes, n_items;
    uint64_t header_checksum; /* as the file has it: an older version's header differs from ours */
};

/* Class names of one int field: n_classes texts with their NULs, one after another. */
struct psti_writer_classes {
    char *text;
    size_t nbytes;
};

struct pst_writer {
    char *path;
    pid_t pid; /* that opened it: a forked child must leave the files alone */
    enum psti_writer_state state;
    bool made_directory;
    struct psti_writer_dir dir; /* open; its path is `path` */
    int lock_fd;
    uint64_t shard_nbytes, commit_nbytes;

    uint8_t id[16];
    uint32_t n_fields;
    struct pst_field fields[PST_MAX_FIELDS];
    size_t rows_nbytes;
    struct psti_writer_classes classes[PST_MAX_FIELDS];
    bool classes_changed; /* since the last commit */
    bool index_changed;   /* anything at all since the base index */
    uint64_t max_item_nbytes[PST_MAX_FIELDS], max_pixels_nbytes[PST_MAX_FIELDS];

    pst_dataset *base; /* the finished data set that is added to, or NULL */
    uint64_t base_generation, base_n_samples;

    uint64_t n_samples, n_committed;
    uint64_t names_nbytes; /* of all names with their NULs */
    struct psti_writer_names names;

    struct psti_writer_shard *shards;
    uint32_t n_shards, shards_cap;
    uint32_t first_changed;        /* shards from here on changed since the last commit */
    struct psti_writer_file shard; /* the last one, if it is open */
    bool last_is_linked;           /* the last one has a second name and must stay as it is */
    bool directory_changed;        /* new files in it that are not durable */
    uint64_t uncommitted_nbytes;

    struct psti_writer_file journal;
    uint64_t journal_end;   /* of the last commit */
    uint64_t journal_start; /* of the first record */
    uint8_t *body;          /* scratch: one journal record's body */
    size_t body_cap;

    struct psti_decoder *decoder; /* made when the first image comes */
    struct pst_item items[PST_MAX_FIELDS]
                         [PST_MAX_VARIANTS]; /* scratch: of the sample being added */
    /* Scratch: the caller's values of that sample, of this library's size. */
    struct pst_value values[PST_MAX_FIELDS][PST_MAX_VARIANTS];
    const struct pst_value *lists[PST_MAX_FIELDS];
};

/* writer_open.c */
/* Leaves nothing of a data set that was not begun: removes the directory if this writer made it,
 * and gives the lock back. */
void psti_writer_undo_directory(pst_writer *writer);

/* writer_add.c */
/* Copies the caller's sample, of whatever size, to `sample`, whose values are then the writer's. */
enum pst_status psti_writer_take_sample(pst_writer *writer, const struct pst_sample *given,
                                        struct pst_sample *sample, struct pst_error *err);
/* Folds an item into the maxima of its field. */
void psti_writer_count_item(pst_writer *writer, uint32_t i_field, const struct pst_item *item);

/* writer_journal.c */
/* Writes a fresh journal's header and puts it in place. */
enum pst_status psti_writer_journal_create(pst_writer *writer, struct pst_error *err);
enum pst_status psti_writer_journal_append(pst_writer *writer, enum psti_journal_kind kind,
                                           const uint8_t *body, size_t nbytes,
                                           struct pst_error *err);
enum pst_status psti_writer_journal_commit(pst_writer *writer, struct pst_error *err);
/* Room for `nbytes` in writer->body; false: no memory. */
bool psti_writer_body_reserve(pst_writer *writer, size_t nbytes);

struct psti_writer_journal_reader {
    int fd;
    char path[PATH_MAX];
    uint64_t end;      /* of the file */
    uint64_t position; /* of the next record */
    uint8_t *buffer;   /* bytes [start, start + n) of the file */
    uint64_t start;
    size_t n, capacity;
};
enum pst_status psti_writer_journal_reader_open(struct psti_writer_journal_reader *reader,
                                                const struct psti_writer_dir *dir, const char *name,
                                                struct pst_error *err);
/* `nbytes` at `offset`, valid until the next call; NULL with PST_OK: the file ends before. */
enum pst_status psti_writer_journal_reader_bytes(struct psti_writer_journal_reader *reader,
                                                 uint64_t offset, uint64_t nbytes,
                                                 const uint8_t **bytes, struct pst_error *err);
/* The next record; *body NULL with PST_OK: no further valid record. */
enum pst_status psti_writer_journal_reader_next(struct psti_writer_journal_reader *reader,
                                                struct psti_journal_record *record,
                                                const uint8_t **body, struct pst_error *err);
void psti_writer_journal_reader_close(struct psti_writer_journal_reader *reader);

/* writer_resume.c */
/* Takes schema, names, classes, shards and maxima from writer->base. */
enum pst_status psti_writer_load_base(pst_writer *writer, struct pst_error *err);
/* Reads the journal to its last commit and changes nothing on the disk. The header was parsed by
 * psti_writer_read_journal_header. */
enum pst_status psti_writer_load_journal(pst_writer *writer, struct pst_error *err);
/* Cuts the journal to its last commit and opens it for more. */
enum pst_status psti_writer_reopen_journal(pst_writer *writer, struct pst_error *err);
enum pst_status psti_writer_read_journal_header(const struct psti_writer_dir *dir,
                                                struct psti_journal_header *header,
                                                struct pst_field fields[PST_MAX_FIELDS],
                                                struct pst_error *err);
/* Shards from `first` on belong to the data set and have what was committed. */
enum pst_status psti_writer_check_shards(pst_writer *writer, uint32_t first, struct pst_error *err);
/* Cuts shards that are longer than committed, removes those that were never committed. */
enum pst_status psti_writer_trim_shards(pst_writer *writer, uint32_t first, struct pst_error *err);

/* writer_check.c */
/* The shards have what the journal says of each item: PST_ERROR_CORRUPT or PST_ERROR_CHECKSUM if
 * they differ. Reads the header of every record that the journal speaks of. */
enum pst_status psti_writer_check_records(const pst_writer *writer, struct pst_error *err);

/* writer_index.c */
enum pst_status psti_writer_write_index(pst_writer *writer, struct pst_error *err);

/* writer.c */
/* Frees everything and gives the lock back; writes nothing. */
void psti_writer_destroy(pst_writer *writer);
bool psti_writer_push_shard(pst_writer *writer, uint64_t nbytes, uint64_t n_items);

/* writer_geometry.c: after the values were checked. *i_field: the one at fault. */
enum pst_status psti_writer_check_geometry(const pst_writer *writer,
                                           const struct pst_sample *sample, uint32_t *i_field,
                                           struct pst_error *err);

#endif
