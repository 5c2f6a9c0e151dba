/* cmd_merge.c - the verb merge: makes one data set of the parts that several processes have packed.
 */
#include "cli.h"

static int on_progress(void *ctx, const struct pst_progress *progress)
{
    return cli_progress(ctx, "merge", progress);
}

int cmd_merge(struct cli *cli, int argc, char **argv)
{
    const struct cli_option options[] = {{NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL}};
    const struct cli_command command = {
        .usage = "merge DST",
        .about = "Ends a pack or repack by parts (--part): makes one data set of what they packed "
                 "into DST, and removes the\n"
                 "plan of shards. The bytes are those that one process makes. Nothing is done "
                 "unless every planned shard is\n"
                 "there; all sums of plan, indexes and records are checked. It may be interrupted "
                 "and run again at any time.",
        .example = "penstock merge photos.pst\n"
                   "penstock merge photos.pst --json",
        .options = options,
        .n_min = 1,
        .n_max = 1,
    };
    const char *operands[4] = {0};
    int status = cli_parse(cli, &command, argc, argv, operands);
    if (status >= 0)
        return status;
    struct pst_pack_report report = {0};
    struct pst_error err;
    pst_error_clear(&err);
    cli_catch_interrupt();
    enum pst_status merged =
        pst_merge(operands[0], on_progress, cli, &report, sizeof report, &err);
    cli_progress_end(cli);
    if (merged != PST_OK)
        return cli_fail(cli, &err);
    if (cli->json) {
        struct cli_json json = {0};
        cli_json_open(&json, NULL, '{');
        cli_json_text(&json, "destination", operands[0]);
        cli_json_uint(&json, "samples", report.n_samples);
        cli_json_uint(&json, "files", report.n_files);
        cli_json_bool(&json, "merged_before", report.n_resumed > 0);
        cli_json_close(&json, '}');
    } else if (!cli->quiet) {
        cli_print_name(stdout, operands[0]);
        fputs(": ", stdout);
        cli_print_count(report.n_samples, "sample", "samples");
        fputs(" in ", stdout);
        cli_print_count(report.n_files, "file", "files");
        puts(report.n_resumed > 0 ? ", merged before" : "");
    }
    return CLI_OK;
}
