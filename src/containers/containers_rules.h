/* containers_rules.h - what a member's suffix says of its type and its field. Pure functions.
 * docs/tar-fields.md has the same rules in a table. */
#ifndef PST_CONTAINERS_CONTAINERS_RULES_H
#define PST_CONTAINERS_CONTAINERS_RULES_H

#include <penstock/dataset.h>

#include <stdbool.h>
#include <stddef.h>

enum { PSTI_FIELD_NAME_CAP = 64 }; /* of pst_field.name */

struct psti_suffix_rule {
    enum pst_field_type type;
    bool is_code;                   /* its content is code of Python, so that it is refused */
    bool is_changed;                /* the name was changed to be one of a field */
    char name[PSTI_FIELD_NAME_CAP]; /* of the field */
};

/* suffix: in lower case, NUL-terminated, not empty. */
void psti_containers_rule(const char *suffix, struct psti_suffix_rule *rule);

/* Makes the name of a field of any text: other characters become underscores, it begins with a
 * letter or one of them, and it is cut where it is too long. True: it is not the text itself. */
bool psti_containers_rule_name(const char *text, size_t nbytes, char name[PSTI_FIELD_NAME_CAP]);

#endif
