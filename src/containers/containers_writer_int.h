/* containers_writer_int.h - a writer of an index while it grows, for the files that make it up. */
#ifndef PST_CONTAINERS_CONTAINERS_WRITER_INT_H
#define PST_CONTAINERS_CONTAINERS_WRITER_INT_H

#include "containers/containers_writer.h"

#include "base/files/output.h"
#include "base/hash.h"
#include "format/format_container.h"

/* One field, and where its columns grow. */
struct psti_writer_column {
    struct pst_field field;
    struct psti_output rows, shapes;
    uint64_t n_values; /* samples that have one */
    uint64_t max_item_nbytes, max_decoded_nbytes;
    uint64_t first_without; /* the first sample that has none; UINT64_MAX: not known of any */
    uint32_t n_dims;
    uint32_t shape[PST_MAX_NDIM]; /* of the first value */
    bool shapes_differ;
    bool is_optional; /* psti_containers_writer_optional */
    bool has_crcs;    /* some items have the sum that their container states */
    bool has_forms;   /* some items have a coding or a page */
    char *classes;    /* names, each with its NUL; NULL: none */
    size_t classes_nbytes;
};

/* What items must fit into. */
struct psti_writer_page_size {
    uint32_t nbytes, decoded_nbytes;
};

struct psti_containers_writer {
    char *path;
    bool is_made, is_finished; /* the file at `path` */
    uint64_t n_samples;
    uint32_t n_fields, n_files;
    uint64_t names_nbytes, values_nbytes, paths_nbytes;
    struct psti_output names, groups, values, files, paths, pages;
    uint8_t group[PSTI_CONTAINER_GROUP_NBYTES]; /* of the last names, until it is full */
    uint64_t file_nbytes;                       /* of the current file */
    uint64_t n_pages, first_page;               /* of all files; of the current one */
    struct psti_writer_page_size *page_sizes;   /* [n_pages - first_page], of the current file */
    size_t page_capacity;
    uint32_t codings;
    struct psti_writer_column columns[PST_MAX_FIELDS];
    struct psti_hash_pair bytes;            /* the identity of the bytes */
    char without_name[PST_MAX_FIELDS][128]; /* of the sample columns[i].first_without */
    char first_name[128];                   /* of the first sample */
    char file_name[256];                    /* path of the current file; of a long path the end */
    struct psti_notices notices;
    psti_known_sum *known_sum; /* NULL: none */
    void *known_context;
};

/* Bytes of one sample in the column of a field, while it grows. */
static inline uint64_t psti_containers_row_nbytes(const struct pst_field *field)
{
    return psti_format_has_items(field->type) ? PSTI_CONTAINER_ITEM_NBYTES : 8;
}

#endif
