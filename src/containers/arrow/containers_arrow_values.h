/* containers_arrow_values.h - reads single values of one field of a batch. */
#ifndef PST_CONTAINERS_ARROW_CONTAINERS_ARROW_VALUES_H
#define PST_CONTAINERS_ARROW_CONTAINERS_ARROW_VALUES_H

#include "containers/arrow/containers_arrow_int.h"

/* The values of one field in a batch. The buffers belong to the batch. */
struct psti_arrow_leaf {
    struct psti_arrow_file *file;
    const struct psti_arrow_field *field;
    struct psti_arrow_buffer *buffers;
    uint32_t n_buffers;
    uint64_t n;
    bool has_nulls;
    bool is_index; /* the values are indices into a dictionary */
};

/* Where the bytes of a value lie: in which buffer, and at which offset. */
struct psti_arrow_place {
    struct psti_arrow_buffer *buffer; /* settled */
    uint64_t offset, nbytes;          /* range of the buffer's decoded bytes; it lies within them */
};

/* Finds the values of a field in a batch, reads the decoded lengths of its buffers, and checks that
 * they hold n values. is_dictionary: the batch holds the values of a dictionary. */
enum pst_status psti_containers_arrow_leaf(struct psti_arrow_file *file,
                                           const struct psti_arrow_schema *schema,
                                           const struct psti_arrow_batch *batch, uint32_t i_field,
                                           bool is_dictionary, struct psti_arrow_leaf *leaf,
                                           struct pst_error *err);
/* Finds whether value i is missing. Only the validity bitmap decides, not the count of missing
 * values that the batch states. */
enum pst_status psti_containers_arrow_is_null(struct psti_arrow_leaf *leaf, uint64_t i,
                                              bool *is_null, struct pst_error *err);
/* Finds whether at least one of the n values from i on is missing. */
enum pst_status psti_containers_arrow_has_null(struct psti_arrow_leaf *leaf, uint64_t i, uint64_t n,
                                               bool *has, struct pst_error *err);
/* Reads value i of an INT or BOOL field, or a dictionary index. PST_ERROR_UNSUPPORTED: the value
 * needs more than 63 bits. */
enum pst_status psti_containers_arrow_int(struct psti_arrow_leaf *leaf, uint64_t i, int64_t *out,
                                          struct pst_error *err);
/* Reads value i of a FLOAT field. */
enum pst_status psti_containers_arrow_float(struct psti_arrow_leaf *leaf, uint64_t i, double *out,
                                            struct pst_error *err);
/* Reads the offset at which list i of LIST or LARGE_LIST begins. i may be n: then it is the end of
 * the last list. */
enum pst_status psti_containers_arrow_offset(struct psti_arrow_leaf *leaf, uint64_t i,
                                             uint64_t *out, struct pst_error *err);
/* Finds the bytes of value i of a binary or text field. */
enum pst_status psti_containers_arrow_place(struct psti_arrow_leaf *leaf, uint64_t i,
                                            struct psti_arrow_place *place, struct pst_error *err);
/* True for types whose values are bytes or texts. */
bool psti_containers_arrow_is_bytes(enum psti_arrow_type type);
bool psti_containers_arrow_is_text(enum psti_arrow_type type);

#endif
