/* containers_writer_int.h - the state of an index writer, shared by the source files of the
 * writer. */
#ifndef PST_CONTAINERS_CONTAINERS_WRITER_INT_H
#define PST_CONTAINERS_CONTAINERS_WRITER_INT_H

#include "containers/containers_writer.h"

#include "base/files/output.h"
#include "base/hash.h"
#include "format/format_container.h"

/* One field, and the temporary files that its columns grow in. */
struct psti_writer_column {
    struct pst_field field;
    struct psti_output rows, shapes;
    uint64_t n_values; /* number of samples that have a value of the field */
    uint64_t max_item_nbytes, max_decoded_nbytes;
    uint64_t first_without; /* number of the first sample without a value; UINT64_MAX: none is
                             * known */
    uint32_t n_dims;
    uint32_t shape[PST_MAX_NDIM]; /* shape of the first value */
    bool shapes_differ;
    bool is_optional; /* psti_containers_writer_optional */
    bool has_crcs;    /* some items have a checksum that their container states */
    bool has_forms;   /* some items are coded or lie in a page */
    char *classes;    /* class names, each with its NUL; NULL: none */
    size_t classes_nbytes;
};

/* Sizes of a page of the current file, to check that items fit into it. */
struct psti_writer_page_size {
    uint32_t nbytes, decoded_nbytes;
};

struct psti_containers_writer {
    char *path;
    bool is_made, is_finished; /* whether the file at `path` exists, and whether it is complete */
    uint64_t n_samples;
    uint32_t n_fields, n_files;
    uint64_t names_nbytes, values_nbytes, paths_nbytes;
    struct psti_output names, groups, values, files, paths, pages;
    uint8_t group[PSTI_CONTAINER_GROUP_NBYTES]; /* the last names, until they fill a group */
    uint64_t file_nbytes;                       /* bytes of the current file */
    uint64_t n_pages, first_page;               /* pages of all files; number of the current file's
                                                 * first page */
    struct psti_writer_page_size *page_sizes;   /* sizes of the current file's n_pages - first_page
                                                 * pages */
    size_t page_capacity;
    uint32_t codings;
    struct psti_writer_column columns[PST_MAX_FIELDS];
    struct psti_hash_pair bytes;            /* state of the hash for the identity of the bytes */
    char without_name[PST_MAX_FIELDS][128]; /* [i]: name of the sample number
                                             * columns[i].first_without */
    char first_name[128];                   /* name of the first sample */
    char file_name[256];                    /* path of the current file; if it is too long, its
                                             * end */
    struct psti_notices notices;
    psti_known_sum *known_sum; /* NULL: none */
    void *known_context;
};

/* Returns the bytes that one sample takes in a field's column while the index grows. */
static inline uint64_t psti_containers_row_nbytes(const struct pst_field *field)
{
    return psti_format_has_items(field->type) ? PSTI_CONTAINER_ITEM_NBYTES : 8;
}

#endif
