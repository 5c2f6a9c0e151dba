/* containers_user_rules.h - checks the user's rules for fields: rules for suffixes of members and
 * rules for columns of tables. Pure functions. */
#ifndef PST_CONTAINERS_CONTAINERS_USER_RULES_H
#define PST_CONTAINERS_CONTAINERS_USER_RULES_H

#include "containers/containers_fields.h"
#include "containers/containers_names.h"

enum psti_rule_subject {
    PSTI_RULE_SUFFIXES = 0, /* each rule is for the members with one suffix; case is ignored */
    PSTI_RULE_COLUMNS = 1,  /* each rule is for one column by its name; case matters */
};

/* PST_ERROR_ARGUMENT: a rule is not valid, for the reasons that psti_containers_fields_open
 *     lists. */
enum pst_status psti_containers_user_rules_check(const struct psti_field_rule *rules,
                                                 uint32_t n_rules, enum psti_rule_subject subject,
                                                 struct pst_error *err);
/* Returns the index of the rule for a suffix or column, or -1 if there is none. */
int64_t psti_containers_user_rules_find(const struct psti_field_rule *rules, uint32_t n_rules,
                                        enum psti_rule_subject subject, const char *name);
/* Fills in the error for a rule that no suffix or column matches. there: the suffixes or columns
 * that exist. Returns the error's status. */
enum pst_status psti_containers_user_rules_unused(const struct psti_field_rule *rule,
                                                  enum psti_rule_subject subject,
                                                  const struct psti_walk_names *there,
                                                  struct pst_error *err);

#endif
