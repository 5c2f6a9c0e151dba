/* containers_fields.h - makes typed fields of the members of samples, and gives the samples to
 * whatever writes the index.
 *
 * Types and names of fields come from suffixes (containers_rules.h), or from the user's rules.
 * docs/tar-fields.md states both. One thread at a time. */
#ifndef PST_CONTAINERS_CONTAINERS_FIELDS_H
#define PST_CONTAINERS_CONTAINERS_FIELDS_H

#include "containers/containers_writer.h"

/* A rule of the user for all members with one suffix. */
struct psti_field_rule {
    const char *suffix; /* "jpg", "seg.png"; letters of either case */
    const char *field;  /* name of the field; NULL: by the suffix */
    /* 0: by the suffix. IMAGE, MASK, AUDIO, INT, BYTES, TEXT, JSON, or ARRAY (of a .npy file). A
     * type makes code from data (pkl, pt ...) admissible. */
    enum pst_field_type type;
    bool is_left_out;  /* members with the suffix are passed over */
    int64_t n_classes; /* if type is PST_FIELD_INT: values are 0 to n_classes - 1; 0: any number */
};

struct psti_containers_fields;

/* Texts and JSON of at most so many bytes lie in the index. */
enum { PSTI_TEXT_IN_INDEX_NBYTES = 64 };

/* rules: n_rules of them. They and their texts, and the sink's writer, must outlive the fields.
 *
 * PST_ERROR_ARGUMENT: a rule names no legal field, has a type that members cannot have, or classes
 *     without the type int; or two rules have one suffix. */
enum pst_status psti_containers_fields_open(const struct psti_field_rule *rules, uint32_t n_rules,
                                            const struct psti_field_sink *sink,
                                            struct psti_containers_fields **out,
                                            struct pst_error *err);
/* *fields becomes NULL. NULL is fine. */
void psti_containers_fields_close(struct psti_containers_fields **fields);

/* The taker for psti_containers_walk; the fields must outlive it. It may take the samples of many
 * containers. A sample of which all members are left out is no sample.
 *
 * Errors of take, besides those of the sink: PST_ERROR_UNSUPPORTED: code from data, an array that
 * Penstock cannot hold. PST_ERROR_CORRUPT: an int or an array that is none, or not of the field's
 * element type, or a label outside of its classes. PST_ERROR_ARGUMENT: two members of a sample make
 * one field, or two suffixes make one field in different ways. PST_ERROR_LIMIT: there are more than
 * PST_MAX_FIELDS. */
struct psti_sample_taker psti_containers_fields_taker(struct psti_containers_fields *fields);

/* Ends the taking.
 *
 * PST_ERROR_ARGUMENT: no member has the suffix of a rule that makes a field; the text has the
 *     suffixes that there are. */
enum pst_status psti_containers_fields_finish(const struct psti_containers_fields *fields,
                                              struct pst_error *err);

#endif
