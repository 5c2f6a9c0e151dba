/* containers_user_rules.h - the checks of the user's rules for fields, of members and of columns
 * alike. Pure functions. */
#ifndef PST_CONTAINERS_CONTAINERS_USER_RULES_H
#define PST_CONTAINERS_CONTAINERS_USER_RULES_H

#include "containers/containers_fields.h"
#include "containers/containers_names.h"

enum psti_rule_subject {
    PSTI_RULE_SUFFIXES = 0, /* rules are for members with a suffix, whose letters have no case */
    PSTI_RULE_COLUMNS = 1,  /* rules are for columns by their names, as the files write them */
};

/* PST_ERROR_ARGUMENT: as psti_containers_fields_open. */
enum pst_status psti_containers_user_rules_check(const struct psti_field_rule *rules,
                                                 uint32_t n_rules, enum psti_rule_subject subject,
                                                 struct pst_error *err);
/* The number of the rule for a suffix or column; -1: there is none. */
int64_t psti_containers_user_rules_find(const struct psti_field_rule *rules, uint32_t n_rules,
                                        enum psti_rule_subject subject, const char *name);
/* Says that a rule has nothing to rule. there: the suffixes or columns that there are. Returns the
 * error. */
enum pst_status psti_containers_user_rules_unused(const struct psti_field_rule *rule,
                                                  enum psti_rule_subject subject,
                                                  const struct psti_walk_names *there,
                                                  struct pst_error *err);

#endif
