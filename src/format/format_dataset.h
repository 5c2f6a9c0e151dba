/* format_dataset.h - the byte layouts of a packed data set, as docs/format-dataset.md states them.
 *
 * Pure functions convert bytes to values, and values to bytes. They do no I/O, allocate no memory
 * and use no threads. Parsers trust no byte: they check sizes by arithmetic that cannot overflow,
 * and state in `err` why they failed. Offsets in `err` are relative to the given bytes; callers add
 * the offset of these bytes in the file. */
#ifndef PST_FORMAT_FORMAT_DATASET_H
#define PST_FORMAT_FORMAT_DATASET_H

#include "base/hash.h"
#include "format/format_blocks.h"

#include <penstock/dataset.h>

#define PSTI_DATASET_MAJOR 1
#define PSTI_DATASET_MINOR 4
#define PSTI_DATASET_MINOR_PLAIN 1   /* minor version of files that need no feature of a later
                                      * one */
#define PSTI_DATASET_MINOR_REPACK 2  /* data sets that were changed in place, or made by a plan */
#define PSTI_DATASET_MINOR_CLASSES 3 /* data sets with arrays of labels */
#define PSTI_DATASET_MINOR_PAIRS 4   /* data sets that name the points or pairs of keypoints */

#define PSTI_INDEX_NAME "index.pst"
#define PSTI_INDEX_TMP_NAME "index.pst.tmp"
#define PSTI_JOURNAL_NAME "journal.pst"
#define PSTI_JOURNAL_TMP_NAME "journal.pst.tmp"
#define PSTI_LOCK_NAME "writer.lock"
#define PSTI_REPACK_NAME "repack.pst"
#define PSTI_REPACK_TMP_NAME "repack.pst.tmp"
#define PSTI_OLD_INDEX_PREFIX "index.pst.old-"
#define PSTI_SHARD_NAME_CAP 32
#define PSTI_NAME_LIMIT PST_NAME_CAP /* maximum number of bytes of a sample's name with its NUL */

enum {
    PSTI_INDEX_FIELD_NBYTES = 256,
    PSTI_INDEX_SHARD_NBYTES = 64,
    PSTI_ITEM_NBYTES = 64,
    PSTI_SHARD_HEADER_NBYTES = 64,
    PSTI_RECORD_NBYTES = 48,
    PSTI_JOURNAL_HEADER_NBYTES = 64,
    PSTI_JOURNAL_RECORD_NBYTES = 24,
    PSTI_JOURNAL_SAMPLE_NBYTES = 16,
    PSTI_JOURNAL_COMMIT_NBYTES = 16,
    PSTI_JOURNAL_SHARD_NBYTES = 24
};

/* Returns whether the bytes are UTF-8 as Unicode 15 defines it (no surrogates, no overlong forms,
 * at most U+10FFFF). */
bool psti_format_is_utf8(const void *bytes, size_t nbytes);
/* Returns the length of the longest valid UTF-8 at the start of the bytes. */
size_t psti_format_utf8_valid(const void *bytes, size_t nbytes);
/* Returns the length of the UTF-8 sequence at the start of `n` > 0 bytes, or 0 if there is none.
 * Sets *code to its code point. */
size_t psti_format_utf8_sequence(const void *bytes, size_t n, uint32_t *code);
/* Checks JSON: Python's json.loads must accept it, it must be nested at most 64 deep, and integers
 * must have at most 4,300 digits. Returns what is wrong, or NULL. */
#define PSTI_JSON_MAX_DEPTH 64
const char *psti_format_json_problem(const void *bytes, size_t nbytes);
/* Checks one JSON value that begins at *at, after optional white space, within valid UTF-8. Moves
 * *at behind the value, or to the place of the error. Returns what is wrong, or NULL. */
const char *psti_format_json_skip(const char **at, const char *end);
/* Returns what is wrong with the bytes of a text or JSON item, or NULL. Items of other types are
 * not checked. JSON of 0 bytes means null and is valid. */
const char *psti_format_text_problem(enum pst_field_type type, const void *bytes, size_t nbytes);
/* Checks the name of a sample or class. It must not be empty, must be UTF-8 of less than 4096
 * bytes, and must have no control character (below 0x20, 0x7F, U+0080..U+009F). Returns what is
 * wrong, or NULL. */
const char *psti_format_name_problem(const char *name, size_t nbytes);
/* Checks a field by the rules of struct pst_field. Returns what is wrong, or NULL. */
const char *psti_format_field_problem(const struct pst_field *field);
/* Returns the number of pairs of left and right points that the field states. */
static inline uint32_t psti_format_n_pairs(const struct pst_field *field)
{
    return field->n_pairs_plus_1 > 0 ? (uint32_t)(field->n_pairs_plus_1 - 1) : 0;
}
/* Returns whether the field may have a number of classes and class names. INT fields, arrays of
 * integers and keypoints may; the "classes" of keypoints are the points of an instance. */
bool psti_format_may_have_classes(const struct pst_field *field);
/* Returns the lowest minor version of the format that can store these fields. */
uint16_t psti_format_fields_minor(const struct pst_field *fields, uint32_t n_fields);
/* Finds the first element of an array field that is not a valid class number. `elements` has
 * nbytes. Returns the element's index, or the number of elements if all are valid. Sets `label` to
 * the element, or to INT64_MAX if it is larger. */
uint64_t psti_format_find_stranger(const struct pst_field *field, const void *elements,
                                   uint64_t nbytes, int64_t *label);
/* Replaces each element l of an array field by map[l]. Returns false if an element is not a label
 * below `n_map`, or if its new value does not fit in the dtype. */
bool psti_format_map_labels(const struct pst_field *field, void *elements, uint64_t nbytes,
                            const int64_t *map, int64_t n_map);
/* Checks a field's name only. With its NUL it must fit in `capacity` bytes. Returns what is wrong,
 * or NULL. */
const char *psti_format_field_name_problem(const char *name, size_t capacity);

/* Returns whether one of the first n fields has this name. */
bool psti_format_name_is_taken(const struct pst_field *fields, uint32_t n, const char *name);

/* Returns whether values of the type are stored as items. INT and FLOAT fields have 8-byte values
 * in the index instead. */
static inline bool psti_format_has_items(enum pst_field_type type)
{
    return type != PST_FIELD_INT && type != PST_FIELD_FLOAT;
}
static inline bool psti_format_is_image(enum pst_field_type type)
{
    return type == PST_FIELD_IMAGE || type == PST_FIELD_MASK;
}
/* Returns the bytes of one sample in the column of `field`. */
static inline size_t psti_format_row_nbytes(const struct pst_field *field)
{
    return psti_format_has_items(field->type) ? (size_t)PSTI_ITEM_NBYTES * field->n_variants : 8;
}

/* Prints the schema part of a field's record (bytes 0..111, 152..159 and 176..183), as index and
 * journal hold it. The other bytes become zero. */
void psti_format_print_field(const struct pst_field *field, uint8_t out[PSTI_INDEX_FIELD_NBYTES]);
enum pst_status psti_format_parse_field(const uint8_t bytes[PSTI_INDEX_FIELD_NBYTES],
                                        struct pst_field *field, struct pst_error *err);

/* Index --------------------------------------------------------------------- */

struct psti_index_header {
    uint16_t major, minor;
    uint8_t id[16];
    uint64_t
        generation; /* 1 for the first index of a data set; each index that replaces another has one
                     * more */
    uint64_t n_samples;
    uint32_t n_fields, n_shards;
    uint64_t fields_offset; /* all offsets are counted from the start of the file */
    uint64_t shards_offset;
    uint64_t name_offsets_offset; /* u64 [n_samples + 1] offsets of the names, relative to
                                   * names_offset */
    uint64_t names_offset, names_nbytes;
    struct psti_index_frame frame;
    uint64_t mark;       /* identifies the in-place change that made this index; 0: none did */
    uint8_t samples[16]; /* identity of the samples; all zero: not stated */
    uint8_t files[16];   /* identity of the files that were packed; all zero: not known */
};

struct psti_index_field {
    struct pst_field field;
    uint64_t max_item_nbytes, max_pixels_nbytes;
    uint64_t column_offset;
    uint64_t classes_offset, classes_nbytes; /* class names; both are 0 if there are none */
    uint64_t pairs_offset;                   /* offset of u32 [n_pairs][2]; 0 if there are none */
};

struct psti_index_shard {
    char name[PSTI_SHARD_NAME_CAP];
    uint64_t nbytes;          /* bytes of the shard that are committed; the file may have more,
                               * which are ignored */
    uint64_t header_checksum; /* checksum of the shard's header */
    uint64_t n_items;
};

/* Computes the offsets of all sections of an index. Input: n_samples, n_fields, n_shards and
 * names_nbytes of `header` and classes_nbytes of the fields. Sets every offset, n_blocks and
 * file_nbytes. Returns false if the file would not fit in 63 bits. */
bool psti_format_index_layout(struct psti_index_header *header, struct psti_index_field *fields);
void psti_format_print_index_header(const struct psti_index_header *header,
                                    uint8_t out[PSTI_INDEX_HEADER_NBYTES]);
/* Parses an index header. `bytes` are the first `nbytes` bytes of a file of file_nbytes. In an
 * accepted header, every section lies within the payload. */
enum pst_status psti_format_parse_index_header(const uint8_t *bytes, size_t nbytes,
                                               uint64_t file_nbytes,
                                               struct psti_index_header *header,
                                               struct pst_error *err);
void psti_format_print_index_field(const struct psti_index_field *field,
                                   uint8_t out[PSTI_INDEX_FIELD_NBYTES]);
/* Parses a field's entry. Refuses it if its column or class names do not lie within the payload of
 * `header`. */
enum pst_status psti_format_parse_index_field(const uint8_t bytes[PSTI_INDEX_FIELD_NBYTES],
                                              const struct psti_index_header *header,
                                              struct psti_index_field *field,
                                              struct pst_error *err);
void psti_format_print_index_shard(const struct psti_index_shard *shard,
                                   uint8_t out[PSTI_INDEX_SHARD_NBYTES]);
enum pst_status psti_format_parse_index_shard(const uint8_t bytes[PSTI_INDEX_SHARD_NBYTES],
                                              struct psti_index_shard *shard,
                                              struct pst_error *err);

/* Print and parse an item's entry, which is 64 bytes in the index and in the journal. The parser
 * accepts only a form, shape, channels, bits and orientation that a field of this type can have.
 * Raw pixels must have the size that height, width, channels and bits give. */
void psti_format_print_item(enum pst_field_type type, const struct pst_item *item,
                            uint8_t out[PSTI_ITEM_NBYTES]);
enum pst_status psti_format_parse_item(const uint8_t bytes[PSTI_ITEM_NBYTES],
                                       enum pst_field_type type, struct pst_item *item,
                                       struct pst_error *err);

/* These functions compute the identity of the samples, which does not depend on the form in which
 * they are stored. Call them in this order: begin; for each int and float field, in the order of
 * the schema: field, its class names with their NULs, and its column with 8 bytes for each sample;
 * names; the names of the samples with their NULs. */
void psti_format_samples_begin(struct psti_hash_pair *hash, uint64_t n_samples);
void psti_format_samples_field(struct psti_hash_pair *hash, const struct pst_field *field,
                               int64_t n_class_names);
void psti_format_samples_names(struct psti_hash_pair *hash);

/* These functions compute the identity of the files that a data set's images, or else its audio
 * files, were made from: a pair hash of the files' lengths, u64 each, in the order of the
 * samples. */
/* Sets the length of the file that an item was made from. Returns false if the item does not state
 * that length. */
bool psti_format_file_nbytes(enum pst_field_type type, const struct pst_item *item,
                             uint64_t *nbytes);

/* Shards -------------------------------------------------------------------- */

struct psti_shard_header {
    uint16_t major, minor;
    uint8_t id[16];
    uint32_t number;
    uint64_t checksum; /* checksum of the header itself */
};

/* The head of a record. A record precedes each item in a shard. */
struct psti_record {
    uint16_t data_offset; /* distance from the record's first byte to the item's first byte */
    uint16_t i_field;
    uint8_t variant, form;
    uint64_t sample, nbytes, checksum;
};

void psti_format_shard_name(uint32_t number, char out[PSTI_SHARD_NAME_CAP]);
/* Prints the name of a shard that an in-place change wrote anew for the index of this
 * generation. */
void psti_format_rewritten_name(uint32_t number, uint64_t generation,
                                char out[PSTI_SHARD_NAME_CAP]);
/* Prints the header and sets header->checksum. */
void psti_format_print_shard_header(struct psti_shard_header *header,
                                    uint8_t out[PSTI_SHARD_HEADER_NBYTES]);
enum pst_status psti_format_parse_shard_header(const uint8_t *bytes, size_t nbytes,
                                               struct psti_shard_header *header,
                                               struct pst_error *err);
/* Computes data_offset of a record at `position` (a multiple of 8), so that its item is aligned to
 * `alignment`. */
void psti_format_place_record(uint64_t position, size_t alignment, struct psti_record *record);
void psti_format_print_record(const struct psti_record *record, uint8_t out[PSTI_RECORD_NBYTES]);
/* Parses a record. `n_left`: bytes of the shard from the record's first byte on. Returns
 * PST_ERROR_TRUNCATED if the item is longer. */
enum pst_status psti_format_parse_record(const uint8_t *bytes, size_t nbytes, uint64_t n_left,
                                         struct psti_record *record, struct pst_error *err);

/* Journal ------------------------------------------------------------------- */

struct psti_journal_header {
    uint16_t major, minor;
    uint8_t id[16];
    uint64_t base_generation; /* generation of the index that this journal extends; 0: there is no
                               * index yet */
    uint64_t base_n_samples;
    uint32_t n_fields;
    uint64_t mark; /* identifies the in-place change that wrote the journal; 0: none */
};

enum psti_journal_kind {
    PSTI_JOURNAL_SAMPLE = 1,
    PSTI_JOURNAL_COMMIT = 2,
    PSTI_JOURNAL_CLASSES = 3,
    PSTI_JOURNAL_PAIRS = 4
};

/* The head of each entry of the journal: kind, length and checksum of the entry's body. */
struct psti_journal_record {
    uint32_t kind;
    uint64_t nbytes; /* bytes of the body, without its padding to 8 */
    uint64_t checksum;
};

/* The body of PSTI_JOURNAL_SAMPLE: a head, the sample's entry for each field in order, and the name
 * with a NUL. */
struct psti_journal_sample {
    uint64_t sample;
    uint32_t name_nbytes; /* bytes of the name without its NUL */
    const char *name;     /* inside the body, with its NUL */
    const uint8_t *rows;  /* psti_format_rows_nbytes bytes */
};

/* The body of PSTI_JOURNAL_COMMIT: a head, then the shards that changed since the last commit. */
struct psti_journal_commit {
    uint64_t n_samples; /* number of samples of the whole data set, including those before this
                         * journal */
    uint32_t n_shards;
    const uint8_t *shards; /* n_shards * PSTI_JOURNAL_SHARD_NBYTES */
};
struct psti_journal_shard {
    uint64_t number, nbytes, n_items;
};

/* Returns the bytes of a journal's header with its field table and checksum. */
static inline size_t psti_format_journal_header_nbytes(uint32_t n_fields)
{
    return PSTI_JOURNAL_HEADER_NBYTES + (size_t)n_fields * PSTI_INDEX_FIELD_NBYTES + 8;
}
size_t psti_format_rows_nbytes(const struct pst_field *fields, uint32_t n_fields);

void psti_format_print_journal_header(const struct psti_journal_header *header,
                                      const struct pst_field *fields,
                                      uint8_t *out /* of psti_format_journal_header_nbytes */);
enum pst_status psti_format_parse_journal_header(const uint8_t *bytes, size_t nbytes,
                                                 struct psti_journal_header *header,
                                                 struct pst_field fields[PST_MAX_FIELDS],
                                                 struct pst_error *err);
/* Prints the head of a journal record, with the checksum of `body`. */
void psti_format_print_journal_record(enum psti_journal_kind kind, const uint8_t *body,
                                      uint64_t nbytes, uint8_t out[PSTI_JOURNAL_RECORD_NBYTES]);
/* Parses the head of a journal record. Returns false if the bytes are none, which means that the
 * journal ends here. psti_format_journal_body_ok checks the body. */
bool psti_format_parse_journal_record(const uint8_t bytes[PSTI_JOURNAL_RECORD_NBYTES],
                                      struct psti_journal_record *record);
bool psti_format_journal_body_ok(const struct psti_journal_record *record, const uint8_t *body);
bool psti_format_parse_journal_sample(const uint8_t *body, uint64_t nbytes, size_t rows_nbytes,
                                      struct psti_journal_sample *sample);
void psti_format_print_journal_sample_head(uint64_t sample, uint32_t name_nbytes,
                                           uint8_t out[PSTI_JOURNAL_SAMPLE_NBYTES]);
void psti_format_print_journal_commit_head(uint64_t n_samples, uint32_t n_shards,
                                           uint8_t out[PSTI_JOURNAL_COMMIT_NBYTES]);
bool psti_format_parse_journal_commit(const uint8_t *body, uint64_t nbytes,
                                      struct psti_journal_commit *commit);
void psti_format_print_journal_shard(const struct psti_journal_shard *shard,
                                     uint8_t out[PSTI_JOURNAL_SHARD_NBYTES]);
void psti_format_parse_journal_shard(const uint8_t bytes[PSTI_JOURNAL_SHARD_NBYTES],
                                     struct psti_journal_shard *shard);

#endif
