/* containers_rules.h - what a member's suffix says of its field's type and name. Pure functions.
 * docs/tar-fields.md has the same rules in a table. */
#ifndef PST_CONTAINERS_CONTAINERS_RULES_H
#define PST_CONTAINERS_CONTAINERS_RULES_H

#include <penstock/dataset.h>

#include <stdbool.h>
#include <stddef.h>

enum { PSTI_FIELD_NAME_CAP = 64 }; /* bytes of pst_field.name, with the NUL */

struct psti_suffix_rule {
    enum pst_field_type type;
    bool is_code;                   /* the content can hold Python code, so the member is refused */
    bool is_changed;                /* the suffix was no legal field name, so `name` differs from
                                     * it */
    char name[PSTI_FIELD_NAME_CAP]; /* name of the field */
};

/* Fills in the rule for a suffix, which is in lower case, NUL-terminated and not empty. */
void psti_containers_rule(const char *suffix, struct psti_suffix_rule *rule);

/* Makes a legal field name from any text: illegal characters become underscores, the first one is a
 * letter or an underscore, and a long text is cut. Returns true if the name differs from the
 * text. */
bool psti_containers_rule_name(const char *text, size_t nbytes, char name[PSTI_FIELD_NAME_CAP]);

#endif
