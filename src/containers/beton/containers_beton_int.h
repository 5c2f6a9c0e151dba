/* containers_beton_int.h - declarations that the source files of the walk over FFCV files share.
 *
 * An FFCV file has these parts, little-endian (FFCV's types.py):
 *   header          u16 version = 2, u16 fields, u32 page size, u64 samples, u64 offset of the
 *                   allocation table, which is 0 until the writer has finished
 *   fields          1,041 bytes each: u8 type, 16 bytes of name, 1,024 bytes of arguments
 *   metadata        a record for each sample: a struct that numpy lays out with align=True
 *   pages           the bytes of the items
 *   allocations     3 x u64 for each item: its sample, offset and size; up to the file's end */
#ifndef PST_CONTAINERS_BETON_CONTAINERS_BETON_INT_H
#define PST_CONTAINERS_BETON_CONTAINERS_BETON_INT_H

#include "containers/containers_window.h"

#include <penstock/dataset.h>

enum {
    PSTI_BETON_HEADER = 24,
    PSTI_BETON_FIELD = 1041,
    PSTI_BETON_NAME = 16,
    PSTI_BETON_ALLOCATION = 24,
};

enum psti_beton_type {
    PSTI_BETON_FLOAT = 0,
    PSTI_BETON_INT = 1,
    PSTI_BETON_IMAGE = 2,
    PSTI_BETON_BYTES = 3,
    PSTI_BETON_ARRAY = 4,
    PSTI_BETON_JSON = 5,
    PSTI_BETON_TENSOR = 6,
    PSTI_BETON_CUSTOM = 255,
};

struct psti_beton_field {
    enum psti_beton_type type;
    char name[PSTI_BETON_NAME + 1];
    uint64_t offset; /* offset of the field in a record of the metadata */
    /* Arrays: element type and shape, the same for all samples. */
    enum pst_dtype dtype;
    uint8_t ndim;
    uint32_t shape[PST_MAX_NDIM];
    uint64_t nbytes;
    /* Images: number of JPEGs, number of the first sample of the other kind, and the shape if all
     * images of raw pixels have the same. */
    uint64_t n_jpegs, other;
    bool has_shape;
    /* The column that the walk declares for the field. */
    uint32_t i_field; /* or PSTI_COLUMN_LEFT_OUT */
    enum pst_field_type given;
};

/* An image's entry in a record: its size, kind and offset. */
struct psti_beton_image {
    bool is_jpeg;
    uint16_t width, height;
    uint64_t at;
};

/* An entry of the allocation table: offset and size of an item, and its sample. */
struct psti_beton_size {
    uint64_t at;
    uint32_t nbytes, sample;
};

struct psti_beton {
    struct psti_window window;
    const char *path;
    uint64_t n_samples, records, record_nbytes; /* location of the metadata, and bytes of one
                                                 * record */
    uint64_t data, allocations;                 /* all items lie between these two offsets */
    uint32_t n_fields;
    struct psti_beton_field *fields;
    struct psti_beton_size *sizes; /* sorted by offset; NULL if there are no JPEGs */
    uint64_t n_sizes;
};

/* Reads the header and the fields, and checks that the tables lie within the file. */
enum pst_status psti_containers_beton_head(struct psti_beton *beton, struct pst_error *err);
/* Returns the record of sample i. It lies in the window, until the window's next read. */
enum pst_status psti_containers_beton_record(struct psti_beton *beton, uint64_t i,
                                             const uint8_t **record, struct pst_error *err);
/* Parses an image's entry in a record. False: its mode is unknown. */
bool psti_containers_beton_image(const uint8_t *bytes, struct psti_beton_image *image);
/* Reads the sizes of JPEGs from the allocation table. */
enum pst_status psti_containers_beton_sizes(struct psti_beton *beton, struct pst_error *err);
/* Finds the size of the item of `sample` at the offset `at`. False: the table has no such entry. */
bool psti_containers_beton_find_size(const struct psti_beton *beton, uint64_t sample, uint64_t at,
                                     uint64_t *nbytes);
/* Fills in an error that names a field and sample i. Returns the status. */
enum pst_status psti_containers_beton_bad(const struct psti_beton *beton,
                                          const struct psti_beton_field *field, uint64_t i,
                                          enum pst_status status, const char *what,
                                          struct pst_error *err);

#endif
