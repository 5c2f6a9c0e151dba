/* cmd_index.c - the verb index: makes or checks the index of tars, zips or tables ahead of time,
 * alone or as one of several processes. */
#include "cli.h"

static void print_json(const pst_dataset *dataset, const struct pst_index_report *report,
                       bool check)
{
    struct cli_json json = {0};
    cli_json_open(&json, NULL, '{');
    cli_json_text(&json, "path", pst_dataset_path(dataset));
    cli_json_text(&json, "kind", pst_dataset_kind_name(pst_dataset_kind_of(dataset)));
    if (pst_dataset_index_path(dataset) == NULL)
        cli_json_null(&json, "index");
    else
        cli_json_text(&json, "index", pst_dataset_index_path(dataset));
    cli_json_uint(&json, "index_bytes", report->index_nbytes);
    cli_json_bool(&json, "made", report->was_made);
    cli_json_bool(&json, "checked", check);
    cli_json_bool(&json, "wrong", report->was_wrong);
    cli_json_uint(&json, "files", pst_dataset_n_files(dataset));
    cli_json_uint(&json, "samples", pst_dataset_count(dataset));
    cli_json_close(&json, '}');
}

static void print_text(const pst_dataset *dataset, const struct pst_index_report *report,
                       bool check)
{
    char size[32];
    const char *index = pst_dataset_index_path(dataset);
    cli_print_name(stdout, pst_dataset_path(dataset));
    fputs(": ", stdout);
    cli_print_count(pst_dataset_count(dataset), "sample", "samples");
    fputs(" in ", stdout);
    cli_print_count(pst_dataset_n_files(dataset), "file", "files");
    putchar('\n');
    if (index == NULL) {
        puts("  a plain folder has no index of samples: it is listed when it is opened");
        return;
    }
    cli_size_text(report->index_nbytes, size);
    fputs("  index ", stdout);
    cli_print_name(stdout, index);
    printf(", %s, %s\n", size,
           report->was_wrong  ? "WRONG, though sizes and times fit: it was made anew"
           : report->was_made ? "made now"
           : check            ? "says what the files hold"
                              : "fits sizes and times of the files");
}

static void print_part(const struct cli *cli, const char *path, const struct cli_part *part,
                       const struct pst_index_report *report)
{
    if (cli->json) {
        struct cli_json json = {0};
        cli_json_open(&json, NULL, '{');
        cli_json_text(&json, "path", path);
        cli_json_uint(&json, "part", part->part);
        cli_json_uint(&json, "parts", part->n_parts);
        cli_json_uint(&json, "files", report->n_files);
        cli_json_uint(&json, "made_before", report->n_made_before);
        cli_json_close(&json, '}');
        return;
    }
    if (cli->quiet)
        return;
    cli_print_name(stdout, path);
    printf(", part %u of %u of the index: ", part->part, part->n_parts);
    cli_print_count(report->n_files, "file", "files");
    if (report->n_made_before > 0)
        printf(", %llu of them done before", (unsigned long long)report->n_made_before);
    putchar('\n');
}

/* Makes the index, or a part of it, and prints what was done. */
static int make(struct cli *cli, const char *path, const struct pst_index_options *options,
                const struct cli_part *part, struct cli_opening *opening)
{
    struct pst_index_report report = {0};
    struct pst_error err;
    pst_dataset *dataset = NULL;
    pst_error_clear(&err);
    enum pst_status status =
        pst_dataset_index_make(path, options, &report, sizeof report, &dataset, &err);
    cli_opening_end(opening);
    if (status != PST_OK)
        return cli_fail(cli, &err);
    if (dataset == NULL)
        print_part(cli, path, part, &report);
    else if (cli->json)
        print_json(dataset, &report, options->check);
    else
        print_text(dataset, &report, options->check);
    pst_dataset_close(&dataset);
    return report.was_wrong ? CLI_FAILED : CLI_OK;
}

int cmd_index(struct cli *cli, int argc, char **argv)
{
    struct cli_source source = {0};
    struct pst_dataset_options opening;
    struct pst_index_options options = {.struct_size = sizeof options, .source = &opening};
    struct cli_part part;
    struct pst_error err;
    const char *part_text = NULL;
    bool sums = false;
    const struct cli_option table[] = {
        {"check", 0, CLI_FLAG, &options.check, NULL, NULL,
         "walk over all files again, and compare what they hold with the index: one that differs "
         "is made anew, with exit status 1. Of a plain folder with a saved listing, look at every "
         "file"},
        {"sums", 0, CLI_FLAG, &sums, NULL, NULL,
         "of files of others: read all files once, so that the index has a checksum of each item; "
         "the fleet and saved caches need them"},
        CLI_SOURCE_OPTIONS(source, 0),
        CLI_GROUP("several processes"),
        CLI_PART_OPTION(part_text),
        {"merge", 0, CLI_FLAG, &options.merge, NULL, NULL,
         "make the index of what the parts have found"},
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL},
    };
    const struct cli_command command = {
        .usage = "index DATA [options]",
        .about =
            "Makes the index by which files of others (tars, zips, tables) are read as they are, "
            "before anybody\n"
            "waits for it. DATA is such a file, a folder of them, or a pattern. The index "
            "lies in DATA's folder\n"
            ".penstock, or below PENSTOCK_CACHE_DIR where that cannot be written; opening "
            "DATA makes it, too. An\n"
            "index that fits sizes and times of the files stays. The files are not changed.\n\n"
            "With --part several processes look through some files each. What they find lies where "
            "the index will\n"
            "lie; --merge makes the index of it, byte for byte as one process makes it.",
        .example = "penstock index /data/train\n"
                   "  penstock index '/data/train-*.parquet' --check\n"
                   "  penstock index /data/train --sums --part 1/2\n"
                   "  penstock index /data/train --sums --part 2/2\n"
                   "  penstock index /data/train --sums --merge",
        .options = table,
        .n_min = 1,
        .n_max = 1,
    };
    const char *operands[4] = {0};
    int exit_status = cli_parse(cli, &command, argc, argv, operands);
    if (exit_status >= 0)
        return exit_status;
    exit_status = cli_take_part(cli, part_text, &part);
    if (exit_status >= 0)
        return exit_status;
    if ((part.n_parts > 0) + options.merge + options.check > 1)
        return cli_usage(cli, "--part, --merge and --check exclude each other");
    pst_error_clear(&err);
    cli_catch_interrupt();
    enum pst_status status = cli_source_options(cli, &source, &opening, &err);
    opening.sums = sums;
    opening.check_files = options.check;
    options.part = part.part;
    options.n_parts = part.n_parts;
    exit_status = status == PST_OK ? make(cli, operands[0], &options, &part, &source.opening)
                                   : cli_fail(cli, &err);
    cli_source_free(&source);
    return exit_status;
}
