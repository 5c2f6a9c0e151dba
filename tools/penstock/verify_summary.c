/* verify_summary.c - joins the reports of parts: `penstock verify --summary`.
 *
 * In: JSON files of parts, which are untrusted: a missing or impossible number is an error that
 * names the file. Out: one report in the format of a single process. One thread. */
#include "verify_summary.h"

#include "json_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    REPORT_NBYTES_MAX = 1 << 28, /* maximum length of a report's file */
    NAME_CAP = 128,              /* a field's name, " (pixels)" and NUL */
    MISSING_SHOWN = 8,
    PARTS_MAX = 1 << 20,
};

/* Suffix of a field's name if no part has an image of the largest size. */
#define PIXELS " (pixels)"

/* Values that must be equal in the reports of all parts. */
struct common {
    uint64_t n_parts, total;
    bool decode, restore;
    char identity[2 * PST_IDENTITY_NBYTES + 1]; /* "": no report has given it yet */
};

struct counts {
    uint64_t samples, items, bytes, bad;
};

struct summary {
    struct cli *cli;
    struct cli_json json;
    struct common common;
    const char *first_file; /* file whose report set `common` */
    struct counts *parts;   /* [common.n_parts] */
    bool *is_there;         /* [common.n_parts] */
    struct counts all;
    uint64_t n_there;
    /* Fields in which no part so far has an item of the largest size that the index states. */
    char unreached[2 * PST_MAX_FIELDS][NAME_CAP];
    uint32_t n_unreached;
};

/* A report file that was read and parsed. Its nodes point into its text. */
struct report {
    const char *file;
    char *text;
    struct json_node *root;
};

static enum pst_status fail_file(const struct report *report, const char *what,
                                 struct pst_error *err)
{
    cli_error(err, PST_ERROR_CORRUPT, "%s", what);
    snprintf(err->file, sizeof err->file, "%s", report->file);
    return err->status;
}

/* Reading ------------------------------------------------------------------- */

static enum pst_status read_text(struct report *report, size_t *nbytes, struct pst_error *err)
{
    struct stat st;
    FILE *file = fopen(report->file, "rb");
    if (file == NULL || fstat(fileno(file), &st) != 0) {
        cli_error(err, errno == ENOENT ? PST_ERROR_NOT_FOUND : PST_ERROR_IO,
                  "cannot open the report of a part");
        err->os_error = errno;
        snprintf(err->file, sizeof err->file, "%s", report->file);
        if (file != NULL)
            fclose(file);
        return err->status;
    }
    enum pst_status status = PST_OK;
    if (!S_ISREG(st.st_mode) || st.st_size > REPORT_NBYTES_MAX) {
        status = fail_file(report, "is no report of a part: no plain file of up to 256 MiB", err);
    } else {
        size_t n = (size_t)st.st_size;
        report->text = malloc(n + 1);
        if (report->text == NULL)
            status = cli_error(err, PST_ERROR_MEMORY, "no memory for a report of %zu bytes", n);
        else
            report->text[ *nbytes = fread(report->text, 1, n, file)] = '\0';
    }
    fclose(file);
    return status;
}

static enum pst_status read_report(struct report *report, struct pst_error *err)
{
    size_t nbytes = 0;
    struct pst_error problem;
    enum pst_status status = read_text(report, &nbytes, err);
    if (status != PST_OK)
        return status;
    report->root = calloc(JSON_NODES(nbytes), sizeof *report->root);
    if (report->root == NULL)
        return cli_error(err, PST_ERROR_MEMORY, "no memory for a report of %zu bytes", nbytes);
    if (json_read(report->text, nbytes, report->root, &problem) == PST_OK &&
        report->root->kind == JSON_OBJECT)
        return PST_OK;
    return fail_file(report, "is no whole report of a part", err);
}

/* Reads an integer member of the object. */
static bool take_number(const struct json_node *object, const char *key, uint64_t *out)
{
    const struct json_node *node = json_member(object, key);
    if (node == NULL || node->kind != JSON_NUMBER || !(node->number >= 0) ||
        !(node->number < 0x1p53) || node->number != (double)(uint64_t)node->number)
        return false;
    *out = (uint64_t)node->number;
    return true;
}

static bool take_bool(const struct json_node *object, const char *key, bool *out)
{
    const struct json_node *node = json_member(object, key);
    *out = node != NULL && node->number != 0;
    return node != NULL && node->kind == JSON_BOOL;
}

/* Returns the string value of a member; "" if there is none. */
static const char *text_of(const struct json_node *object, const char *key)
{
    const struct json_node *node = json_member(object, key);
    return node != NULL && node->kind == JSON_TEXT ? node->text : "";
}

/* Findings ------------------------------------------------------------------ */

static enum pst_status status_of(const char *name)
{
    for (int i = 1; i < 256; i++) {
        const char *known = pst_status_name((enum pst_status)i);
        if (strncmp(known, "PST_ERROR_", 10) == 0 && strcmp(known + 10, name) == 0)
            return (enum pst_status)i;
    }
    return PST_ERROR_CORRUPT;
}

/* Converts the JSON of an error that a part has printed. */
static void take_error(const struct json_node *node, struct pst_error *err)
{
    uint64_t number;
    const char *os_error = text_of(node, "os_error");
    pst_error_clear(err);
    err->status = status_of(text_of(node, "status"));
    snprintf(err->text, sizeof err->text, "%s%s%s", text_of(node, "text"),
             os_error[0] != '\0' ? ": " : "", os_error);
    snprintf(err->room, sizeof err->room, "%s", text_of(node, "room"));
    snprintf(err->dataset, sizeof err->dataset, "%s", text_of(node, "dataset"));
    snprintf(err->file, sizeof err->file, "%s", text_of(node, "file"));
    snprintf(err->codec, sizeof err->codec, "%s", text_of(node, "codec"));
    if (take_number(node, "sample", &number))
        err->sample = (int64_t)number;
    if (take_number(node, "offset", &number))
        err->offset = (int64_t)number;
}

void verify_print_finding(const struct cli *cli, struct cli_json *json, const char *name,
                          const struct pst_error *finding)
{
    char line[2048];
    if (cli->json) {
        cli_json_open(json, NULL, '{');
        cli_json_text(json, "name", name[0] == '\0' ? NULL : name);
        cli_json_error(json, "error", finding);
        cli_json_close(json, '}');
        return;
    }
    pst_error_format(finding, line, sizeof line);
    if (name[0] != '\0') {
        cli_print_name(stdout, name);
        fputs(": ", stdout);
    }
    cli_print_name(stdout, line);
    putchar('\n');
}

static void print_findings(struct summary *summary, const struct json_node *list)
{
    struct pst_error finding;
    for (const struct json_node *node = list->first; node != NULL; node = node->next) {
        const struct json_node *error = json_member(node, "error");
        if (error == NULL)
            continue;
        take_error(error, &finding);
        verify_print_finding(summary->cli, &summary->json, text_of(node, "name"), &finding);
    }
}

/* Joining ------------------------------------------------------------------- */

/* Removes fields that this part has reached from the list of unreached fields. */
static void join_unreached(struct summary *summary, const struct json_node *list, bool is_first)
{
    uint32_t n = 0;
    if (is_first)
        for (const struct json_node *node = list->first; node != NULL; node = node->next)
            if (summary->n_unreached < 2 * PST_MAX_FIELDS)
                snprintf(summary->unreached[summary->n_unreached++], NAME_CAP, "%s", node->text);
    for (uint32_t i = 0; i < summary->n_unreached; i++) {
        bool is_there = false;
        for (const struct json_node *node = list->first; node != NULL; node = node->next)
            is_there |= strncmp(node->text, summary->unreached[i], NAME_CAP - 1) == 0;
        if (is_there)
            memmove(summary->unreached[n++], summary->unreached[i], NAME_CAP);
    }
    summary->n_unreached = n;
}

/* Compares the values that all parts must share. The first file sets them. */
static enum pst_status check_common(struct summary *summary, const struct report *report,
                                    const struct common *common, struct pst_error *err)
{
    struct common *held = &summary->common;
    if (summary->first_file == NULL) {
        summary->first_file = report->file;
        *held = *common;
        summary->parts = calloc(common->n_parts, sizeof *summary->parts);
        summary->is_there = calloc(common->n_parts, sizeof *summary->is_there);
        return summary->parts != NULL && summary->is_there != NULL
                   ? PST_OK
                   : cli_error(err, PST_ERROR_MEMORY, "no memory for %llu parts",
                               (unsigned long long)common->n_parts);
    }
    if (held->identity[0] == '\0')
        memcpy(held->identity, common->identity, sizeof held->identity);
    const char *what =
        held->n_parts != common->n_parts ? "of another number of parts"
        : held->decode != common->decode || held->restore != common->restore
            ? "of a run with other options (--decode, --restore)"
        : common->identity[0] != '\0' && strcmp(held->identity, common->identity) != 0
            ? "of another data set, or the data set changed between the parts"
            : NULL;
    if (what == NULL)
        return PST_OK;
    cli_error(err, PST_ERROR_ARGUMENT, "is %s than %s", what, summary->first_file);
    snprintf(err->file, sizeof err->file, "%s", report->file);
    return err->status;
}

static enum pst_status take_common(const struct report *report, struct common *common,
                                   uint64_t *part, struct pst_error *err)
{
    const struct json_node *root = report->root;
    const char *identity = text_of(root, "identity");
    *common = (struct common){0};
    if (!take_number(root, "part", part) || !take_number(root, "parts", &common->n_parts) ||
        !take_number(root, "total", &common->total) ||
        !take_bool(root, "decode", &common->decode) ||
        !take_bool(root, "restore", &common->restore) || *part == 0 || *part > common->n_parts ||
        common->n_parts > PARTS_MAX || strlen(identity) >= sizeof common->identity)
        return fail_file(report, "is no report of `penstock verify --part I/N --json`", err);
    snprintf(common->identity, sizeof common->identity, "%s", identity);
    return PST_OK;
}

static enum pst_status take_counts(const struct report *report, struct counts *counts,
                                   const struct json_node **findings,
                                   const struct json_node **unreached, struct pst_error *err)
{
    const struct json_node *root = report->root;
    bool ok = false;
    *findings = json_member(root, "findings");
    *unreached = json_member(root, "unreached");
    if (json_member(root, "error") != NULL)
        return fail_file(report, "is the report of a part that did not end: run it again", err);
    bool is_whole =
        take_number(root, "samples", &counts->samples) &&
        take_number(root, "items", &counts->items) && take_number(root, "bytes", &counts->bytes) &&
        take_number(root, "bad", &counts->bad) && take_bool(root, "ok", &ok) && *findings != NULL &&
        (*findings)->kind == JSON_LIST && *unreached != NULL && (*unreached)->kind == JSON_LIST;
    for (const struct json_node *node = is_whole ? (*unreached)->first : NULL; node != NULL;
         node = node->next)
        is_whole = is_whole && node->kind == JSON_TEXT;
    return is_whole && ok == (counts->bad == 0) && (*findings)->n == counts->bad
               ? PST_OK
               : fail_file(report, "is a report whose numbers contradict each other", err);
}

/* Adds the report of a part. If a part ran twice, both reports must be equal. */
static enum pst_status join(struct summary *summary, const struct report *report,
                            struct pst_error *err)
{
    const struct json_node *findings, *unreached;
    struct common common;
    struct counts counts = {0};
    uint64_t part = 0;
    enum pst_status status = take_common(report, &common, &part, err);
    if (status == PST_OK)
        status = take_counts(report, &counts, &findings, &unreached, err);
    if (status == PST_OK)
        status = check_common(summary, report, &common, err);
    if (status != PST_OK)
        return status;
    if (summary->is_there[part - 1])
        return memcmp(&summary->parts[part - 1], &counts, sizeof counts) == 0
                   ? PST_OK
                   : fail_file(report, "is of a part that another report tells otherwise: keep one",
                               err);
    if (common.total > summary->common.total)
        summary->common.total = common.total; /* a part that could not open the data set has 0 */
    summary->is_there[part - 1] = true;
    summary->parts[part - 1] = counts;
    summary->all.samples += counts.samples;
    summary->all.items += counts.items;
    summary->all.bytes += counts.bytes;
    summary->all.bad += counts.bad;
    join_unreached(summary, unreached, summary->n_there == 0);
    summary->n_there++;
    print_findings(summary, findings);
    return PST_OK;
}

/* Returns the length of an unreached field's name, without the suffix for pixels. */
static int field_length(const char *unreached)
{
    size_t n = strlen(unreached), n_end = strlen(PIXELS);
    return (int)(n > n_end && strcmp(unreached + n - n_end, PIXELS) == 0 ? n - n_end : n);
}

/* True if an earlier entry names the same field: a field counts as one finding, as with a single
 * process. */
static bool was_said(const struct summary *summary, uint32_t i)
{
    int n = field_length(summary->unreached[i]);
    for (uint32_t k = 0; k < i; k++)
        if (field_length(summary->unreached[k]) == n &&
            memcmp(summary->unreached[k], summary->unreached[i], (size_t)n) == 0)
            return true;
    return false;
}

/* Reports problems that only all parts together show. */
static void check_all(struct summary *summary)
{
    struct pst_error finding;
    pst_error_clear(&finding);
    if (summary->n_there < summary->common.n_parts || summary->all.bad > 0)
        return;
    for (uint32_t i = 0; i < summary->n_unreached; i++) {
        if (was_said(summary, i))
            continue;
        cli_error(&finding, PST_ERROR_CORRUPT,
                  "the index states another size of the largest item of field %.*s than its items "
                  "have",
                  field_length(summary->unreached[i]), summary->unreached[i]);
        verify_print_finding(summary->cli, &summary->json, "", &finding);
        summary->all.bad++;
    }
    if (summary->all.samples == summary->common.total)
        return;
    cli_error(&finding, PST_ERROR_STATE, "the parts have %llu samples, the data set has %llu",
              (unsigned long long)summary->all.samples, (unsigned long long)summary->common.total);
    verify_print_finding(summary->cli, &summary->json, "", &finding);
    summary->all.bad++;
}

/* Output -------------------------------------------------------------------- */

static void print_json(struct summary *summary, const struct pst_error *err)
{
    struct cli_json *json = &summary->json;
    bool ok = err->status == PST_OK && summary->all.bad == 0 &&
              summary->n_there == summary->common.n_parts;
    cli_json_close(json, ']');
    cli_json_bool(json, "ok", ok);
    cli_json_uint(json, "samples", summary->all.samples);
    cli_json_uint(json, "items", summary->all.items);
    cli_json_uint(json, "bytes", summary->all.bytes);
    cli_json_uint(json, "bad", summary->all.bad);
    cli_json_uint(json, "parts", summary->common.n_parts);
    cli_json_open(json, "missing", '[');
    for (uint64_t i = 0; i < summary->common.n_parts && summary->is_there != NULL; i++)
        if (!summary->is_there[i])
            cli_json_uint(json, NULL, i + 1);
    cli_json_close(json, ']');
    if (err->status != PST_OK)
        cli_json_error(json, "error", err);
    cli_json_close(json, '}');
}

static void print_text(const struct summary *summary)
{
    char size[32];
    uint64_t n_missing = summary->common.n_parts - summary->n_there, n_shown = 0;
    cli_size_text(summary->all.bytes, size);
    cli_print_count(summary->n_there, "part", "parts");
    printf(" of %llu, ", (unsigned long long)summary->common.n_parts);
    cli_print_count(summary->all.samples, "sample", "samples");
    fputs(", ", stdout);
    cli_print_count(summary->all.items, "item", "items");
    printf(", %s: ", size);
    if (summary->all.bad > 0)
        cli_print_count(summary->all.bad, "FINDING", "FINDINGS");
    else
        fputs(n_missing > 0 ? "nothing found so far" : "all good", stdout);
    putchar('\n');
    if (n_missing == 0)
        return;
    fputs("NOT ALL PARTS ARE THERE; missing:", stdout);
    for (uint64_t i = 0; i < summary->common.n_parts && n_shown < MISSING_SHOWN; i++)
        if (!summary->is_there[i]) {
            printf(" %llu", (unsigned long long)i + 1);
            n_shown++;
        }
    puts(n_missing > n_shown ? " ..." : "");
}

int verify_summary(struct cli *cli, const char *const *files, int n_files)
{
    struct summary summary = {.cli = cli};
    struct pst_error err;
    pst_error_clear(&err);
    if (cli->json) {
        cli_json_open(&summary.json, NULL, '{');
        cli_json_open(&summary.json, "findings", '[');
    }
    for (int i = 0; i < n_files && err.status == PST_OK; i++) {
        struct report report = {.file = files[i]};
        if (read_report(&report, &err) == PST_OK)
            (void)!join(&summary, &report, &err);
        free(report.root);
        free(report.text);
    }
    if (err.status == PST_OK)
        check_all(&summary);
    if (cli->json)
        print_json(&summary, &err);
    bool ok =
        err.status == PST_OK && summary.all.bad == 0 && summary.n_there == summary.common.n_parts;
    int exit_status = ok ? CLI_OK : CLI_FAILED;
    if (err.status != PST_OK) {
        struct cli plain = *cli;
        plain.json = false;
        exit_status = cli_fail(&plain, &err);
    } else if (!cli->json && (!cli->quiet || !ok)) {
        print_text(&summary);
    }
    free(summary.parts);
    free(summary.is_there);
    return exit_status;
}
