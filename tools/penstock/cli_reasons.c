/* cli_reasons.c - groups messages about many samples by reason: each reason once, with its count
 * and the names of the first samples. Reasons that differ only in numbers count as one. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* True if the texts are equal except for their numbers. */
static bool same_reason(const char *a, const char *b)
{
    static const char digits[] = "0123456789";
    while (*a != '\0' && *b != '\0') {
        size_t n = strspn(a, digits), m = strspn(b, digits);
        if ((n > 0) != (m > 0) || (n == 0 && *a != *b))
            return false;
        a += n > 0 ? n : 1;
        b += m > 0 ? m : 1;
    }
    return *a == *b;
}

bool cli_reasons_add(struct cli_reasons *reasons, const char *text, const char *name)
{
    size_t i = 0;
    while (i < reasons->n && !same_reason(reasons->groups[i].text, text))
        i++;
    if (i == CLI_REASONS_CAP) { /* the last group takes all other reasons */
        i = CLI_REASONS_CAP - 1;
        snprintf(reasons->groups[i].text, sizeof reasons->groups[i].text, "other reasons");
    }
    struct cli_reason *reason = &reasons->groups[i];
    if (i == reasons->n) {
        snprintf(reason->text, sizeof reason->text, "%s", text);
        reasons->n++;
    }
    if (reason->count++ >= CLI_REASON_NAMES)
        return true;
    char *copy = strdup(name);
    reason->names[reason->n_names] = copy;
    reason->n_names += copy != NULL;
    return copy != NULL;
}

void cli_reasons_json(const struct cli_reasons *reasons, struct cli_json *json, const char *key)
{
    cli_json_open(json, key, '[');
    for (size_t i = 0; i < reasons->n; i++) {
        const struct cli_reason *reason = &reasons->groups[i];
        cli_json_open(json, NULL, '{');
        cli_json_text(json, "text", reason->text);
        cli_json_uint(json, "samples", reason->count);
        cli_json_open(json, "first", '[');
        for (uint32_t k = 0; k < reason->n_names; k++)
            cli_json_text(json, NULL, reason->names[k]);
        cli_json_close(json, ']');
        cli_json_close(json, '}');
    }
    cli_json_close(json, ']');
}

void cli_reasons_text(const struct cli_reasons *reasons)
{
    for (size_t i = 0; i < reasons->n; i++) {
        const struct cli_reason *reason = &reasons->groups[i];
        printf("    %llu: ", (unsigned long long)reason->count);
        cli_print_name(stdout, reason->text);
        for (uint32_t k = 0; k < reason->n_names; k++) {
            fputs(k == 0 ? " (" : ", ", stdout);
            cli_print_name(stdout, reason->names[k]);
        }
        puts(reason->n_names == 0 ? "" : reason->count > reason->n_names ? ", ...)" : ")");
    }
}

void cli_reasons_free(struct cli_reasons *reasons)
{
    for (size_t i = 0; i < reasons->n; i++)
        for (uint32_t k = 0; k < reasons->groups[i].n_names; k++)
            free(reasons->groups[i].names[k]);
    reasons->n = 0;
}
