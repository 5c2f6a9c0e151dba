/* format_container.h - the byte layout of an index of containers, which other programs made;
 * docs/format-container.md states it.
 *
 * Pure functions convert bytes to values and back, by the rules of format_dataset.h: parsers trust
 * no byte, and offsets in `err` are relative to the given bytes. The payload has blocks with
 * checksums, like the index of a packed data set. */
#ifndef PST_FORMAT_FORMAT_CONTAINER_H
#define PST_FORMAT_FORMAT_CONTAINER_H

#include "format/format_dataset.h"
#include "format/format_notice.h"

#define PSTI_CONTAINER_MAJOR 3
#define PSTI_CONTAINER_MINOR 0
/* Version of the rules by which walks make keys, fields, values and notices. An index made by
 * another version is made again. */
#define PSTI_CONTAINER_LAW 2

enum {
    PSTI_CONTAINER_FILE_NBYTES = 64,
    PSTI_CONTAINER_PAGE_NBYTES = 32,
    PSTI_CONTAINER_ITEM_NBYTES = 24,
    PSTI_CONTAINER_PLAIN_NBYTES = 20, /* bytes of an item's row if no item of the field has a coding
                                       * or lies in a page */
    PSTI_CONTAINER_GROUP_NAMES = 16,  /* number of names in a group */
    PSTI_CONTAINER_GROUP_NBYTES = 8 + 2 * PSTI_CONTAINER_GROUP_NAMES,
    PSTI_CONTAINER_IDENTITY_NBYTES = 16,
};

/* Limits of an item's location: 48 bits for the offset, 40 bits for the length, and 36 bits for the
 * decoded length of an item with a coding. */
#define PSTI_CONTAINER_OFFSET_LIMIT ((uint64_t)1 << 48)
#define PSTI_CONTAINER_NBYTES_LIMIT (((uint64_t)1 << 40) - 1)
#define PSTI_CONTAINER_DECODED_LIMIT ((uint64_t)1 << 36)
/* Limit of a page's stored length and decoded length. */
#define PSTI_CONTAINER_PAGE_LIMIT ((uint64_t)1 << 31)

struct psti_container_header {
    uint16_t major, minor;
    uint32_t law;
    uint32_t kind; /* kind of the files: enum psti_container_kind */
    bool has_sums; /* true if every item has a checksum */
    uint64_t n_samples;
    uint32_t n_fields, n_files;
    uint8_t options[16]; /* hash of the options of the user; one folder may have indexes for several
                          * options */
    uint8_t bytes[16];   /* identity of the bytes */
    uint8_t samples[16]; /* identity of the samples */
    uint64_t fields_offset;
    uint64_t files_offset;
    uint64_t paths_offset, paths_nbytes;   /* paths of the files, relative, each with its NUL */
    uint64_t groups_offset;                /* offset of the groups of names; their number is
                                            * psti_format_container_n_groups */
    uint64_t names_offset, names_nbytes;   /* the names have no NULs between them */
    uint64_t values_offset, values_nbytes; /* items that are stored in the index itself */
    uint32_t codings;                      /* bit c is set if an item or page has coding c */
    uint64_t pages_offset, n_pages;
    uint64_t notices_offset, n_notices; /* at most PSTI_NOTICES_MAX */
    struct psti_index_frame frame;
};

/* Checksums that the items of a field have. */
enum psti_container_sums {
    /* XXH3 of the stored bytes, for some items. In a page, only an item that fills the whole page
     * has one. */
    PSTI_CONTAINER_SUMS_SOME = 0,
    PSTI_CONTAINER_SUMS_ALL = 1, /* XXH3 of the stored bytes, for every item in a file */
    /* CRC-32 of the decoded bytes with PSTI_CONTAINER_CRC, as a zip states it, for some items. */
    PSTI_CONTAINER_SUMS_CRC = 2,
};
#define PSTI_CONTAINER_CRC ((uint64_t)1 << 32)
/* Offset of `sums` in a printed field; row_nbytes follows. */
#define PSTI_CONTAINER_FIELD_SUMS 248

struct psti_container_field {
    struct pst_field field;
    uint64_t max_item_nbytes;    /* maximum number of stored bytes of an item or, if items lie in
                                  * pages, of a page */
    uint64_t max_decoded_nbytes; /* maximum number of decoded bytes of an item with a coding, or of
                                  * a page; 0: there are none */
    uint64_t column_offset;      /* n_samples rows */
    uint32_t row_nbytes;         /* bytes of an item's row: one of the two constants above; 8 for a
                                  * number */
    uint64_t classes_offset, classes_nbytes;
    /* Offset of u32 [n_samples][n_dims], the shapes of arrays if they vary; else both members are
     * 0. */
    uint64_t shapes_offset;
    uint32_t n_dims;
    enum psti_container_sums sums;
};

/* A file that holds samples, as the walk over it found it. */
struct psti_container_file {
    uint64_t nbytes;
    uint64_t stamp;        /* stamp of the file (base/files/stamp.h) */
    uint64_t first_sample; /* number of the first sample in the file; its last is before the next
                            * file's first */
    uint64_t sampled;      /* XXH3 of some of the file's bytes, part of the identity of the bytes */
    uint64_t path;         /* offset of the path in the section of paths */
};

/* A page: a compressed part of a file that holds the bytes of many items. */
struct psti_container_page_entry {
    uint64_t offset; /* offset in the file of the stored bytes */
    uint32_t nbytes, decoded_nbytes;
    uint32_t i_file;
    enum pst_coding coding;
};

/* Where the bytes of an item lie. */
enum psti_container_place {
    PSTI_CONTAINER_MISSING = 0,
    PSTI_CONTAINER_IN_FILE = 1,
    PSTI_CONTAINER_IN_INDEX = 2, /* in the section of values of the index */
    PSTI_CONTAINER_IN_PAGE = 3,  /* in the decoded bytes of a page */
};
struct psti_container_item {
    enum psti_container_place place;
    enum pst_coding coding;  /* coding of the item itself; the caller must check that it exists */
    uint64_t i_page;         /* for items in a page: the page's number */
    uint64_t offset, nbytes; /* offset in the file, in the section of values, or in the decoded
                              * page */
    uint64_t decoded_nbytes; /* equal to nbytes if the item has no coding */
    uint64_t sum;            /* checksum of the kind that psti_container_field.sums states; 0: not
                              * known */
};

/* Computes the offsets of all sections. Input: numbers and lengths in `header`; row_nbytes,
 * classes_nbytes and n_dims of the fields. Sets every offset, n_blocks and file_nbytes. Returns
 * false if the file would not fit in 63 bits. */
bool psti_format_container_layout(struct psti_container_header *header,
                                  struct psti_container_field *fields);
void psti_format_print_container_header(const struct psti_container_header *header,
                                        uint8_t out[PSTI_INDEX_HEADER_NBYTES]);
/* Parses the header as psti_format_parse_index_header does. Returns PST_ERROR_UNSUPPORTED for an
 * index of a newer version. */
enum pst_status psti_format_parse_container_header(const uint8_t *bytes, size_t nbytes,
                                                   uint64_t file_nbytes,
                                                   struct psti_container_header *header,
                                                   struct pst_error *err);
void psti_format_print_container_field(const struct psti_container_field *field,
                                       uint8_t out[PSTI_INDEX_FIELD_NBYTES]);
enum pst_status psti_format_parse_container_field(const uint8_t bytes[PSTI_INDEX_FIELD_NBYTES],
                                                  const struct psti_container_header *header,
                                                  struct psti_container_field *field,
                                                  struct pst_error *err);
void psti_format_print_container_file(const struct psti_container_file *file,
                                      uint8_t out[PSTI_CONTAINER_FILE_NBYTES]);
enum pst_status psti_format_parse_container_file(const uint8_t bytes[PSTI_CONTAINER_FILE_NBYTES],
                                                 const struct psti_container_header *header,
                                                 struct psti_container_file *file,
                                                 struct pst_error *err);
void psti_format_print_container_page(const struct psti_container_page_entry *page,
                                      uint8_t out[PSTI_CONTAINER_PAGE_NBYTES]);
/* Parses the entry of a page, and checks it as far as possible without the file. */
enum pst_status psti_format_parse_container_page(const uint8_t bytes[PSTI_CONTAINER_PAGE_NBYTES],
                                                 struct psti_container_page_entry *page,
                                                 struct pst_error *err);
/* Returns whether a number is that of a coding that items may have; "no coding" does not count. */
bool psti_format_is_coding(uint32_t coding);
/* Returns whether the path is relative and has no component that is empty, "." or "..". */
bool psti_format_path_is_below(const char *path);
/* Prints an item's row. The item must be within the limits above. If row_nbytes is
 * PSTI_CONTAINER_PLAIN_NBYTES, it must have no coding and lie in no page. */
void psti_format_print_container_item(const struct psti_container_item *item, uint8_t *out,
                                      uint32_t row_nbytes);
void psti_format_parse_container_item(const uint8_t *bytes, uint32_t row_nbytes,
                                      struct psti_container_item *item);
/* Converts n rows of PSTI_CONTAINER_ITEM_NBYTES in place to rows of PSTI_CONTAINER_PLAIN_NBYTES.
 * Their items must have no coding and lie in no page. */
void psti_format_shorten_container_items(uint8_t *rows, size_t n);

/* Returns the number of groups that hold the names of n samples. */
uint64_t psti_format_container_n_groups(uint64_t n_samples);
/* Stores the end of a sample's name in its group. start, end: range in the section of names. The
 * first sample of a group resets the group. */
void psti_format_put_container_name(uint8_t group[PSTI_CONTAINER_GROUP_NBYTES], uint64_t sample,
                                    uint64_t start, uint64_t end);
/* Finds the range of a sample's name in the section of names. Returns false if it is not 1 to
 * PSTI_NAME_LIMIT - 1 bytes long, or reaches beyond names_nbytes. */
bool psti_format_container_name(const uint8_t group[PSTI_CONTAINER_GROUP_NBYTES], uint64_t sample,
                                uint64_t names_nbytes, uint64_t *start, size_t *nbytes);

#endif
