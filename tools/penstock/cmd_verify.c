/* cmd_verify.c - the verb verify: reads everything and prints each finding. The exit status is 1
 * if there is a finding. */
#include "cli.h"

#include <string.h>

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
    char line[2048];
    if (run->cli->json) {
        cli_json_open(&run->json, NULL, '{');
        cli_json_text(&run->json, "name", name[0] == '\0' ? NULL : name);
        cli_json_error(&run->json, "error", err);
        cli_json_close(&run->json, '}');
        return 0;
    }
    cli_progress_end(run->cli);
    pst_error_format(err, line, sizeof line);
    if (name[0] != '\0') {
        cli_print_name(stdout, name);
        fputs(": ", stdout);
    }
    cli_print_name(stdout, line);
    putchar('\n');
    return 0;
}

int cmd_verify(struct cli *cli, int argc, char **argv)
{
    bool decode = false, restore = false;
    uint64_t workers = 0;
    struct cli_source source = {0};
    struct pst_dataset_options source_options;
    const struct cli_option options[] = {
        CLI_GROUP("what is read"),
        {"decode", 'd', CLI_FLAG, &decode, NULL, NULL,
         "decode images and sounds too and compare pixel checksums (folders: always)"},
        {"restore", 'r', CLI_FLAG, &restore, NULL, NULL,
         "make the JPEG files of pli-jpeg again, too, and compare their checksums"},
        {"workers", 'w', CLI_COUNT, &workers, "N", "all cores", "threads"},
        CLI_SOURCE_OPTIONS(source, 0),
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL},
    };
    const struct cli_command command = {
        .usage = "verify PATH [options]",
        .about = "Reads all of a data set (index, shards, items) and compares every checksum; in a "
                 "plain folder every\n"
                 "image and sound is decoded, and so is a single file. PLI are held against the "
                 "checksums in them, too. Prints\n"
                 "one line per finding. Exit status 1 if there is any.",
        .example = "penstock verify photos.pst --decode\n"
                   "penstock verify photos --workers 4 --json",
        .options = options,
        .n_min = 1,
        .n_max = 1,
    };
    const char *operands[4] = {0};
    int exit_status = cli_parse(cli, &command, argc, argv, operands);
    if (exit_status >= 0)
        return exit_status;
    if (workers > 4096)
        return cli_usage(cli, "--workers is %llu: at most 4096", (unsigned long long)workers);
    struct verify_run run = {.cli = cli};
    struct pst_verify_report report = {0};
    struct pst_verify_options verify = {.struct_size = sizeof verify,
                                        .decode = decode,
                                        .restore = restore,
                                        .num_workers = (uint32_t)workers,
                                        .progress = on_progress,
                                        .bad_sample = on_finding,
                                        .ctx = &run,
                                        .source = &source_options};
    struct pst_error err;
    pst_error_clear(&err);
    if (cli_source_options(cli, &source, &source_options, &err) != PST_OK)
        return cli_fail(cli, &err);
    cli_catch_interrupt();
    if (cli->json) {
        cli_json_open(&run.json, NULL, '{');
        cli_json_open(&run.json, "findings", '[');
    }
    enum pst_status status = pst_verify(operands[0], &verify, &report, sizeof report, &err);
    cli_source_free(&source);
    cli_progress_end(cli);
    exit_status = status == PST_OK                ? CLI_OK
                  : status == PST_ERROR_CANCELLED ? CLI_INTERRUPTED
                                                  : CLI_FAILED;
    /* This error is no finding but the reason why the run ended early. */
    bool ended = status != PST_OK && (report.n_bad == 0 || status == PST_ERROR_CANCELLED);
    if (cli->json) {
        cli_json_close(&run.json, ']');
        cli_json_text(&run.json, "path", operands[0]);
        cli_json_bool(&run.json, "ok", status == PST_OK);
        cli_json_uint(&run.json, "samples", report.n_samples);
        cli_json_uint(&run.json, "items", report.n_items);
        cli_json_uint(&run.json, "bytes", report.nbytes);
        cli_json_uint(&run.json, "bad", report.n_bad);
        if (ended)
            cli_json_error(&run.json, "error", &err);
        cli_json_close(&run.json, '}');
    }
    if (ended) {
        struct cli plain = *cli;
        plain.json = false;
        return cli_fail(&plain, &err);
    }
    if (!cli->json && !cli->quiet) {
        char size[32];
        cli_size_text(report.nbytes, size);
        cli_print_name(stdout, operands[0]);
        fputs(": ", stdout);
        cli_print_count(report.n_samples, "sample", "samples");
        fputs(", ", stdout);
        cli_print_count(report.n_items, "item", "items");
        printf(", %s: ", size);
        if (report.n_bad == 0)
            fputs("all good", stdout);
        else
            cli_print_count(report.n_bad, "FINDING", "FINDINGS");
        putchar('\n');
    }
    return exit_status;
}
