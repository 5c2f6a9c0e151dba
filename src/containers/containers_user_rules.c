/* containers_user_rules.c - checks the user's rules for suffixes of members or for columns.
 *
 * In: rules. Out: the first faulty rule, as an error that says "suffix" or "column". */
#include "containers/containers_user_rules.h"

#include "containers/containers_rules.h"

#include "base/fail.h"
#include "format/format_dataset.h"

#include <string.h>
#include <strings.h>

#define ROOM "containers"

/* The words that messages use for suffixes and for columns. */
static const struct {
    const char *one, *all, *none;
} words[] = {
    [PSTI_RULE_SUFFIXES] = {"suffix", "members with the suffix", "no member has the suffix"},
    [PSTI_RULE_COLUMNS] = {"column", "the column", "no column has the name"},
};

static bool is_same(enum psti_rule_subject subject, const char *a, const char *b)
{
    return (subject == PSTI_RULE_COLUMNS ? strcmp(a, b) : strcasecmp(a, b)) == 0;
}

static bool is_possible_type(enum pst_field_type type, enum psti_rule_subject subject)
{
    return psti_format_is_image(type) || type == PST_FIELD_AUDIO || type == PST_FIELD_INT ||
           type == PST_FIELD_BYTES || type == PST_FIELD_TEXT || type == PST_FIELD_JSON ||
           type == PST_FIELD_ARRAY || (type == PST_FIELD_FLOAT && subject == PSTI_RULE_COLUMNS);
}

static enum pst_status check_name(const struct psti_field_rule *rule,
                                  enum psti_rule_subject subject, struct pst_error *err)
{
    if (subject == PSTI_RULE_COLUMNS && rule->suffix[0] == '\0')
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "fields: the name of a column is empty");
    if (subject == PSTI_RULE_SUFFIXES &&
        (rule->suffix[0] == '\0' || rule->suffix[0] == '.' || strchr(rule->suffix, '/') != NULL))
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                         "fields: \"%.100s\" is no suffix; that of a/b.seg.png is \"seg.png\"",
                         rule->suffix);
    return PST_OK;
}

static enum pst_status check_rule(const struct psti_field_rule *rule,
                                  enum psti_rule_subject subject, struct pst_error *err)
{
    const char *problem = NULL;
    enum pst_status status = check_name(rule, subject, err);
    if (status != PST_OK || rule->is_left_out)
        return status;
    if (rule->field != NULL)
        problem = psti_format_field_name_problem(rule->field, PSTI_FIELD_NAME_CAP);
    if (problem != NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "fields: the field of \"%.100s\" %s",
                         rule->suffix, problem);
    if (rule->type != 0 && !is_possible_type(rule->type, subject))
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                         "fields: %s \"%.100s\" can be image, mask, audio, "
                         "int, %sbytes, text, json or array",
                         words[subject].all, rule->suffix,
                         subject == PSTI_RULE_COLUMNS ? "float, " : "");
    if (rule->n_classes < 0 || (rule->n_classes > 0 && rule->type != PST_FIELD_INT))
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                         "fields: \"%.100s\" has classes, and only an int field can have them",
                         rule->suffix);
    return PST_OK;
}

enum pst_status psti_containers_user_rules_check(const struct psti_field_rule *rules,
                                                 uint32_t n_rules, enum psti_rule_subject subject,
                                                 struct pst_error *err)
{
    for (uint32_t i = 0; i < n_rules; i++) {
        enum pst_status status = check_rule(&rules[i], subject, err);
        if (status != PST_OK)
            return status;
        if (psti_containers_user_rules_find(rules, i, subject, rules[i].suffix) >= 0)
            return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "fields: the %s \"%.100s\" comes twice",
                             words[subject].one, rules[i].suffix);
    }
    return PST_OK;
}

int64_t psti_containers_user_rules_find(const struct psti_field_rule *rules, uint32_t n_rules,
                                        enum psti_rule_subject subject, const char *name)
{
    for (uint32_t i = 0; i < n_rules; i++)
        if (is_same(subject, rules[i].suffix, name))
            return i;
    return -1;
}

enum pst_status psti_containers_user_rules_unused(const struct psti_field_rule *rule,
                                                  enum psti_rule_subject subject,
                                                  const struct psti_walk_names *there,
                                                  struct pst_error *err)
{
    char list[256] = "";
    struct psti_text text = {list, sizeof list, 0};
    for (uint32_t k = 0; k < there->n && text.length < sizeof list; k++)
        psti_text_add(&text, "%s\"%.60s\"", k == 0 ? "" : ", ",
                      psti_containers_names_text(there, k));
    return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "fields: %s \"%.100s\"; there are %s",
                     words[subject].none, rule->suffix, there->n == 0 ? "none" : list);
}
