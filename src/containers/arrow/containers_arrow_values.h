/* containers_arrow_values.h - single values of one field in a batch. */
#ifndef PST_CONTAINERS_ARROW_CONTAINERS_ARROW_VALUES_H
#define PST_CONTAINERS_ARROW_CONTAINERS_ARROW_VALUES_H

#include "containers/arrow/containers_arrow_int.h"

/* The values of a field. Buffers are those of its batch. */
struct psti_arrow_leaf {
    struct psti_arrow_file *file;
    const struct psti_arrow_field *field;
    struct psti_arrow_buffer *buffers;
    uint32_t n_buffers;
    uint64_t n;
    bool has_nulls;
    bool is_index; /* its values are indices into a dictionary */
};

/* Where the bytes of a value lie. */
struct psti_arrow_place {
    struct psti_arrow_buffer *buffer; /* settled */
    uint64_t offset, nbytes;          /* among its decoded bytes, within which they lie */
};

/* Takes a field of a batch, settles its buffers, and checks that they have n values.
 * is_dictionary: the batch holds the values of a dictionary. */
enum pst_status psti_containers_arrow_leaf(struct psti_arrow_file *file,
                                           const struct psti_arrow_schema *schema,
                                           const struct psti_arrow_batch *batch, uint32_t i_field,
                                           bool is_dictionary, struct psti_arrow_leaf *leaf,
                                           struct pst_error *err);
/* Is value i missing? The bitmap says it, whatever number the batch states. */
enum pst_status psti_containers_arrow_is_null(struct psti_arrow_leaf *leaf, uint64_t i,
                                              bool *is_null, struct pst_error *err);
/* Is one of n values missing? */
enum pst_status psti_containers_arrow_has_null(struct psti_arrow_leaf *leaf, uint64_t i, uint64_t n,
                                               bool *has, struct pst_error *err);
/* Value i of INT and BOOL, and an index. PST_ERROR_UNSUPPORTED: it has more than 63 bits. */
enum pst_status psti_containers_arrow_int(struct psti_arrow_leaf *leaf, uint64_t i, int64_t *out,
                                          struct pst_error *err);
/* Value i of FLOAT. */
enum pst_status psti_containers_arrow_float(struct psti_arrow_leaf *leaf, uint64_t i, double *out,
                                            struct pst_error *err);
/* Where element i of LIST or LARGE_LIST begins; i may be n. */
enum pst_status psti_containers_arrow_offset(struct psti_arrow_leaf *leaf, uint64_t i,
                                             uint64_t *out, struct pst_error *err);
/* The bytes of value i of a binary field or a text. */
enum pst_status psti_containers_arrow_place(struct psti_arrow_leaf *leaf, uint64_t i,
                                            struct psti_arrow_place *place, struct pst_error *err);
/* Is this a type of bytes or texts? */
bool psti_containers_arrow_is_bytes(enum psti_arrow_type type);
bool psti_containers_arrow_is_text(enum psti_arrow_type type);

#endif
