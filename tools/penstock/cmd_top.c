/* cmd_top.c - the verb top: shows the host service's state, redrawn every second. */
#include "cli.h"

#include <inttypes.h>
#include <time.h>
#include <unistd.h>

/* Prints the rates since the previous report. */
static void rates_text(const struct pst_service_status *now,
                       const struct pst_service_status *before)
{
    double seconds = (double)(now->uptime_ns - before->uptime_ns) / 1e9;
    char rate[32];
    if (now->pid != before->pid || seconds <= 0)
        return;
    cli_size_text((uint64_t)((double)(now->nbytes_read - before->nbytes_read) / seconds), rate);
    printf("now: %s/s and %.0f items/s from storage\n", rate,
           (double)(now->n_reads - before->n_reads) / seconds);
}

static void pause_for(uint64_t seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds};
    while (nanosleep(&time, &time) != 0 && !cli_interrupted())
        ;
}

/* Prints the state once, as text or as one JSON object. */
static int draw(struct cli *cli, const char *socket, struct pst_service_status *before, bool redraw)
{
    struct pst_service_status now;
    struct cli_json json = {0};
    pst_service_report *report;
    struct pst_error err;
    if (cli_ask_service(socket, &report, &now, &err) != PST_OK)
        return cli_fail(cli, &err);
    if (cli->json) {
        cli_json_open(&json, NULL, '{');
        cli_service_json(&json, report);
        cli_json_close(&json, '}');
        putchar('\n');
    } else {
        if (redraw)
            fputs("\033[H\033[J", stdout);
        cli_service_text(report);
        rates_text(&now, before);
    }
    fflush(stdout);
    *before = now;
    pst_service_report_close(&report);
    return CLI_OK;
}

int cmd_top(struct cli *cli, int argc, char **argv)
{
    const char *socket = NULL, *operands[4] = {0};
    uint64_t seconds = 1;
    bool once = false;
    const struct cli_option options[] = {
        {"once", '1', CLI_FLAG, &once, NULL, NULL, "prints one picture and ends"},
        {"interval", 'n', CLI_COUNT, &seconds, "SECONDS", "1", "time between pictures"},
        CLI_SOCKET_OPTION(socket),
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL}};
    const struct cli_command command = {
        .usage = "top [options]",
        .about = "Shows the host service every second until it is interrupted: its data sets, its "
                 "clients with\n"
                 "their hit rates, and what is read from storage. With --json, objects follow each "
                 "other.",
        .example = "penstock top --once\n"
                   "penstock top --interval 5 --json",
        .options = options};
    struct pst_service_status before = {0};
    int status = cli_parse(cli, &command, argc, argv, operands);
    if (status >= 0)
        return status;
    cli_catch_interrupt();
    do {
        status = draw(cli, socket, &before, !once && isatty(STDOUT_FILENO) == 1);
        if (status != CLI_OK || once)
            return status;
        pause_for(seconds ? seconds : 1);
    } while (!cli_interrupted());
    return CLI_OK;
}
