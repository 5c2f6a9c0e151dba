/* cmd_verify.c - the verb verify: reads everything and prints each finding. The exit status is 1 if
 * there are findings. */
#include "cli.h"
#include "verify_summary.h"

#include <stdlib.h>

struct verify_run {
    struct cli *cli;
    struct cli_json json;
};

static int on_progress(void *ctx, const struct pst_progress *progress)
{
    const struct verify_run *run = ctx;
    return cli_progress(run->cli, "verify", progress);
}

static int on_finding(void *ctx, const char *name, const struct pst_error *err)
{
    struct verify_run *run = ctx;
    if (!run->cli->json)
        cli_progress_end(run->cli);
    verify_print_finding(run->cli, &run->json, name, err);
    return 0;
}

/* Options of the command line. */
struct verify_arguments {
    bool decode, restore, summary;
    uint64_t workers;
    const char *part_text;
    struct cli_part part;
    struct cli_source source;
};

/* Adds the members of the report of a part, which verify_summary.c joins. named: the data set,
 * whose field names are printed; NULL: it could not be opened, so nothing of it was verified. */
static void part_json(struct verify_run *run, const struct verify_arguments *a,
                      const pst_dataset *named, const struct pst_verify_report *report)
{
    struct cli_json *json = &run->json;
    char identity[2 * PST_IDENTITY_NBYTES + 1] = "";
    bool is_known = false;
    for (size_t i = 0; i < PST_IDENTITY_NBYTES; i++) {
        snprintf(identity + 2 * i, 3, "%02x", report->identity[i]);
        is_known |= report->identity[i] != 0;
    }
    cli_json_uint(json, "part", a->part.part);
    cli_json_uint(json, "parts", a->part.n_parts);
    cli_json_text(json, "identity", is_known ? identity : NULL);
    cli_json_uint(json, "total", report->n_samples_total);
    cli_json_bool(json, "decode", a->decode);
    cli_json_bool(json, "restore", a->restore);
    cli_json_open(json, "unreached", '[');
    for (uint32_t i = 0; named != NULL && i < pst_dataset_n_fields(named); i++) {
        char name[128];
        snprintf(name, sizeof name, "%s (pixels)", pst_dataset_field(named, i)->name);
        if ((report->unreached_items >> i & 1) != 0)
            cli_json_text(json, NULL, pst_dataset_field(named, i)->name);
        if ((report->unreached_pixels >> i & 1) != 0)
            cli_json_text(json, NULL, name);
    }
    cli_json_close(json, ']');
}

static void print_text(const char *path, const struct cli_part *part,
                       const struct pst_verify_report *report)
{
    char size[32];
    cli_size_text(report->nbytes, size);
    cli_print_name(stdout, path);
    if (part->n_parts > 0)
        printf(", part %u of %u", part->part, part->n_parts);
    fputs(": ", stdout);
    cli_print_count(report->n_samples, "sample", "samples");
    fputs(", ", stdout);
    cli_print_count(report->n_items, "item", "items");
    printf(", %s: ", size);
    if (report->n_bad == 0)
        fputs("all good", stdout);
    else
        cli_print_count(report->n_bad, "FINDING", "FINDINGS");
    putchar('\n');
}

static int verify(struct cli *cli, const char *path, struct verify_arguments *a)
{
    struct verify_run run = {.cli = cli};
    struct pst_verify_report report = {0};
    struct pst_dataset_options source_options;
    struct pst_verify_options options = {.struct_size = sizeof options,
                                         .decode = a->decode,
                                         .restore = a->restore,
                                         .num_workers = (uint32_t)a->workers,
                                         .progress = on_progress,
                                         .bad_sample = on_finding,
                                         .ctx = &run,
                                         .source = &source_options,
                                         .part = a->part.part,
                                         .n_parts = a->part.n_parts};
    struct pst_error err;
    pst_error_clear(&err);
    if (cli_source_options(cli, &a->source, &source_options, &err) != PST_OK)
        return cli_fail(cli, &err);
    cli_catch_interrupt();
    /* Opened before the run, because the data set may be gone afterwards. pst_verify reports why it
     * cannot be opened. */
    pst_dataset *named = NULL;
    if (a->part.n_parts > 0 && cli->json &&
        pst_dataset_open(path, &source_options, &named, NULL) != PST_OK)
        named = NULL;
    if (cli->json) {
        cli_json_open(&run.json, NULL, '{');
        cli_json_open(&run.json, "findings", '[');
    }
    enum pst_status status = pst_verify(path, &options, &report, sizeof report, &err);
    cli_progress_end(cli);
    if (status == PST_OK && cli->json && named == NULL &&
        (report.unreached_items | report.unreached_pixels) != 0)
        status = cli_error(&err, PST_ERROR_STATE, "the data set came to be while it was read");
    int exit_status = status == PST_OK                ? CLI_OK
                      : status == PST_ERROR_CANCELLED ? CLI_INTERRUPTED
                                                      : CLI_FAILED;
    /* An error that ended the run early is no finding. */
    bool ended = status != PST_OK && (report.n_bad == 0 || status == PST_ERROR_CANCELLED);
    if (cli->json) {
        cli_json_close(&run.json, ']');
        cli_json_text(&run.json, "path", path);
        cli_json_bool(&run.json, "ok", status == PST_OK);
        cli_json_uint(&run.json, "samples", report.n_samples);
        cli_json_uint(&run.json, "items", report.n_items);
        cli_json_uint(&run.json, "bytes", report.nbytes);
        cli_json_uint(&run.json, "bad", report.n_bad);
        if (a->part.n_parts > 0)
            part_json(&run, a, named, &report);
        if (ended)
            cli_json_error(&run.json, "error", &err);
        cli_json_close(&run.json, '}');
    }
    pst_dataset_close(&named);
    cli_source_free(&a->source);
    if (ended) {
        struct cli plain = *cli;
        plain.json = false;
        return cli_fail(&plain, &err);
    }
    if (!cli->json && !cli->quiet)
        print_text(path, &a->part, &report);
    return exit_status;
}

/* Checks the combination of options and operands, and runs the verb. */
static int run_verify(struct cli *cli, struct verify_arguments *a, const char *const *operands)
{
    int n = 0;
    while (operands[n] != NULL)
        n++;
    if (a->summary && a->part_text != NULL)
        return cli_usage(cli, "--summary reads the reports of parts: it goes without --part");
    if (a->summary)
        return verify_summary(cli, operands, n);
    if (n > 1)
        return cli_usage(cli, "one operand too many: %s", operands[1]);
    if (a->workers > 4096)
        return cli_usage(cli, "--workers is %llu: at most 4096", (unsigned long long)a->workers);
    int status = cli_take_part(cli, a->part_text, &a->part);
    return status >= 0 ? status : verify(cli, operands[0], a);
}

int cmd_verify(struct cli *cli, int argc, char **argv)
{
    struct verify_arguments a = {0};
    const struct cli_option options[] = {
        CLI_GROUP("what is read"),
        {"decode", 'd', CLI_FLAG, &a.decode, NULL, NULL,
         "decode images and sounds too and compare pixel checksums (folders: always)"},
        {"restore", 'r', CLI_FLAG, &a.restore, NULL, NULL,
         "make the JPEG files of pli-jpeg again, too, and compare their checksums"},
        {"workers", 'w', CLI_COUNT, &a.workers, "N", "all cores", "threads that read and check"},
        CLI_SOURCE_OPTIONS(a.source, 0),
        CLI_GROUP("several processes"),
        CLI_PART_OPTION(a.part_text),
        {"summary", 0, CLI_FLAG, &a.summary, NULL, NULL,
         "join the reports that parts wrote with --json: the operands are these files"},
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL},
    };
    const struct cli_command command = {
        .usage = "verify PATH [options]",
        .about = "Reads all of a data set (index, shards, items) and compares every checksum; in a "
                 "plain folder every\n"
                 "image and sound is decoded, and so is a single file. PLI are held against the "
                 "checksums in them, too. Prints\n"
                 "one line per finding. Exit status 1 if there is any.\n\n"
                 "With --part several processes check one data set, each some shards. `verify "
                 "--summary REPORT...` joins what\n"
                 "they wrote; its exit status is 0 only if all parts are there and found nothing.",
        .example = "penstock verify photos.pst --decode\n"
                   "penstock verify photos --workers 4 --json\n"
                   "penstock verify photos.pst --part 1/2 --json > 1.json\n"
                   "penstock verify photos.pst --part 2/2 --json > 2.json\n"
                   "penstock verify --summary 1.json 2.json",
        .options = options,
        .n_min = 1,
        .n_max = argc > 0 ? argc : 1,
    };
    /* Space for all words as operands, and a NULL at the end. */
    const char **operands = calloc((size_t)argc + 4, sizeof *operands);
    if (operands == NULL)
        return cli_usage(cli, "no memory for %d operands", argc);
    int exit_status = cli_parse(cli, &command, argc, argv, operands);
    if (exit_status < 0)
        exit_status = run_verify(cli, &a, operands);
    free(operands);
    return exit_status;
}
