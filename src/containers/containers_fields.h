/* containers_fields.h - makes values of typed fields from the members of samples, and gives each
 * sample to a sink, which writes the index.
 *
 * A member's suffix decides the field's name and type (containers_rules.h), unless the user has a
 * rule for that suffix. docs/tar-fields.md states both. One thread at a time. */
#ifndef PST_CONTAINERS_CONTAINERS_FIELDS_H
#define PST_CONTAINERS_CONTAINERS_FIELDS_H

#include "containers/containers_writer.h"

/* The user's rule for all members that have one suffix. */
struct psti_field_rule {
    const char *suffix; /* "jpg", "seg.png"; upper and lower case are the same */
    const char *field;  /* name of the field; NULL: the suffix decides */
    /* 0: the suffix decides. Else IMAGE, MASK, AUDIO, INT, BYTES, TEXT, JSON, or ARRAY (of a .npy
     * file). With an explicit type, members whose content can hold code (.pkl, .pt and others) are
     * admitted. */
    enum pst_field_type type;
    bool is_left_out;  /* members with this suffix are ignored */
    int64_t n_classes; /* only if type is PST_FIELD_INT: values are 0 to n_classes - 1; 0: any
                        * number */
};

struct psti_containers_fields;

/* Texts and JSON values of up to this many bytes are stored in the index itself. */
enum { PSTI_TEXT_IN_INDEX_NBYTES = 64 };

/* Makes an empty list of fields. `rules` has n_rules rules. The rules, their texts, and the sink's
 * writer must outlive the fields.
 *
 * PST_ERROR_ARGUMENT: a rule names no legal field, has a type that members cannot have, or has
 *     classes without the type int; or two rules have the same suffix. */
enum pst_status psti_containers_fields_open(const struct psti_field_rule *rules, uint32_t n_rules,
                                            const struct psti_field_sink *sink,
                                            struct psti_containers_fields **out,
                                            struct pst_error *err);
/* Frees the fields and sets *fields to NULL. *fields may be NULL already. */
void psti_containers_fields_close(struct psti_containers_fields **fields);

/* Returns the taker to pass to psti_containers_walk. The fields must outlive it. It may take the
 * samples of many containers. A sample whose members are all left out is dropped.
 *
 * Errors of its `take`, besides those of the sink:
 * PST_ERROR_UNSUPPORTED: a member can hold code, or an array has a type that Penstock lacks.
 * PST_ERROR_CORRUPT: the content is no integer or no array, the array has another element type than
 *     its field, or a label lies outside of its classes.
 * PST_ERROR_ARGUMENT: two members of one sample belong to the same field, or two suffixes make the
 *     same field in different ways.
 * PST_ERROR_LIMIT: there are more than PST_MAX_FIELDS fields. */
struct psti_sample_taker psti_containers_fields_taker(struct psti_containers_fields *fields);

/* Ends the taking, after the last container.
 *
 * PST_ERROR_ARGUMENT: a rule that makes a field has a suffix that no member has; the message lists
 *     the suffixes that were found. */
enum pst_status psti_containers_fields_finish(const struct psti_containers_fields *fields,
                                              struct pst_error *err);

#endif
