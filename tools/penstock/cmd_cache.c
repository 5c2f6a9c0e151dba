/* cmd_cache.c - the verb cache: shows what the host cache holds, and saves, loads or clears it. */
#include "cli.h"

#include <inttypes.h>
#include <string.h>

static int show(struct cli *cli, const char *socket)
{
    struct pst_service_status status;
    struct pst_service_set set;
    struct cli_json json = {0};
    pst_service_report *report;
    struct pst_error err;
    char used[32], limit[32];
    if (cli_ask_service(socket, &report, &status, &err) != PST_OK)
        return cli_fail(cli, &err);
    if (cli->json) {
        cli_json_open(&json, NULL, '{');
        cli_service_json(&json, report);
        cli_json_close(&json, '}');
        putchar('\n');
        pst_service_report_close(&report);
        return CLI_OK;
    }
    cli_size_text(status.cache_nbytes_used, used);
    cli_size_text(status.cache_nbytes, limit);
    printf("%s of %s, %" PRIu64 " items\n", used, limit, status.n_items);
    for (uint32_t i = 0; i < status.n_sets; i++) {
        if (pst_service_report_set(report, i, &set, sizeof set, NULL) != PST_OK)
            continue;
        cli_size_text(set.nbytes, used);
        printf("%10s  %10" PRIu64 " items  %3u loaders  ", used, set.n_items, set.n_loaders);
        cli_print_name(stdout, set.path);
        puts(set.forms >> 63 ? " (at the training size)" : set.forms ? " (re-coded)" : "");
    }
    pst_service_report_close(&report);
    return CLI_OK;
}

static void tell_file(const struct cli *cli, const struct pst_cache_file_report *report, bool loads)
{
    struct cli_json json = {0};
    char nbytes[32];
    if (cli->json) {
        cli_json_open(&json, NULL, '{');
        cli_json_uint(&json, "items", report->n_items);
        cli_json_uint(&json, "nbytes", report->nbytes);
        cli_json_uint(&json, "datasets", report->n_datasets);
        cli_json_uint(&json, "file_nbytes", report->file_nbytes);
        cli_json_uint(&json, "present", report->n_present);
        cli_json_uint(&json, "refused", report->n_refused);
        cli_json_uint(&json, "unsaved", report->n_unsaved);
        cli_json_close(&json, '}');
        putchar('\n');
        return;
    }
    cli_size_text(report->nbytes, nbytes);
    printf("%s %" PRIu64 " items, %s, of ", loads ? "loaded" : "saved", report->n_items, nbytes);
    cli_print_count(report->n_datasets, "data set", "data sets");
    if (loads)
        printf("; %" PRIu64 " were there, %" PRIu64 " found no room", report->n_present,
               report->n_refused);
    else if (report->n_unsaved > 0)
        printf("; %" PRIu64 " are left out, because their data set's index has no checksums "
               "(penstock index PATH --sums)",
               report->n_unsaved);
    putchar('\n');
}

static int move_file(struct cli *cli, const char *socket, const char *path, bool loads)
{
    const struct pst_cache_host_options options = {.struct_size = sizeof options, .socket = socket};
    struct pst_cache_file_report report;
    struct pst_error err;
    pst_cache *cache;
    enum pst_status status = pst_cache_open_host(&options, &cache, &err);
    if (status == PST_OK)
        status =
            (loads ? pst_cache_load : pst_cache_save)(cache, path, &report, sizeof report, &err);
    pst_cache_close(&cache);
    if (status != PST_OK)
        return cli_fail(cli, &err);
    tell_file(cli, &report, loads);
    return CLI_OK;
}

static int clear(struct cli *cli, const char *socket)
{
    struct cli_json json = {0};
    struct pst_error err;
    uint64_t nbytes;
    char text[32];
    if (pst_service_clear(socket, &nbytes, &err) != PST_OK)
        return cli_fail(cli, &err);
    if (cli->json) {
        cli_json_open(&json, NULL, '{');
        cli_json_uint(&json, "freed", nbytes);
        cli_json_close(&json, '}');
        putchar('\n');
        return CLI_OK;
    }
    cli_size_text(nbytes, text);
    printf("freed %s; data sets that loaders use stay\n", text);
    return CLI_OK;
}

int cmd_cache(struct cli *cli, int argc, char **argv)
{
    const char *socket = NULL, *operands[4] = {0};
    bool force = false;
    const struct cli_option options[] = {
        {"force", 0, CLI_FLAG, &force, NULL, NULL,
         "save: write over a file that is there, without a question"},
        CLI_SOCKET_OPTION(socket),
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL}};
    if (argc > 0 && strcmp(argv[0], "fleet") == 0)
        return cmd_cache_fleet(cli, argc - 1, argv + 1);
    const struct cli_command command = {
        .usage = "cache status | save FILE | load FILE | clear | fleet [options]",
        .about = "Shows the host cache of the running service; writes its items to a file; takes "
                 "them from one;\n"
                 "frees the data sets that no loader uses. fleet: the memcached command of this "
                 "host; it\n"
                 "has options of its own (cache fleet --help).",
        .example = "penstock cache save /scratch/warm.cache\n"
                   "penstock cache load /scratch/warm.cache\n"
                   "penstock cache status --json",
        .options = options,
        .n_min = 1,
        .n_max = 2};
    int status = cli_parse(cli, &command, argc, argv, operands);
    if (status >= 0)
        return status;
    bool loads = strcmp(operands[0], "load") == 0, saves = strcmp(operands[0], "save") == 0;
    if ((loads || saves) && !operands[1])
        return cli_usage(cli, "cache %s needs a file", operands[0]);
    if (!loads && !saves && operands[1])
        return cli_usage(cli, "cache %s takes no file", operands[0]);
    if (saves)
        status = cli_may_write(cli, operands[1], force);
    if (status >= 0)
        return status;
    if (loads || saves)
        return move_file(cli, socket, operands[1], loads);
    if (strcmp(operands[0], "status") == 0)
        return show(cli, socket);
    if (strcmp(operands[0], "clear") == 0)
        return clear(cli, socket);
    return cli_usage(
        cli, "cache can do \"status\", \"save\", \"load\", \"clear\" and \"fleet\", not \"%s\"",
        operands[0]);
}
