/* containers_rules.h - what a member's suffix says of its type and its field. Pure functions.
 * docs/tar-fields.md has the same rules in a table. */
#ifndef PST_CONTAINERS_CONTAINERS_RULES_H
#define PST_CONTAINERS_CONTAINERS_RULES_H

#include <penstock/dataset.h>

#include <stdbool.h>

enum { PSTI_FIELD_NAME_CAP = 64 }; /* of pst_field.name */

struct psti_suffix_rule {
    enum pst_field_type type;
    bool is_code;                   /* its content is code of Python, so that it is refused */
    bool is_changed;                /* the name was changed to be one of a field */
    char name[PSTI_FIELD_NAME_CAP]; /* of the field */
};

/* suffix: in lower case, NUL-terminated, not empty. */
void psti_containers_rule(const char *suffix, struct psti_suffix_rule *rule);

#endif
