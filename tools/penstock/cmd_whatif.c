/* cmd_whatif.c - the verb whatif: its options. The work is done by the Python package, which has
 * the report's file; the model is the library's (<penstock/stall.h>). */
#include "cli.h"

int cmd_whatif(struct cli *cli, int argc, char **argv)
{
    const char *unused = NULL;
    bool cache = false, preparation = false;
    /* Values may be lists, which Python reads. */
    const struct cli_option options[] = {
        {"cores", 0, CLI_TEXT, &unused, "V", NULL, "CPU cores of the machine, fractions too"},
        {"workers", 0, CLI_TEXT, &unused, "V", NULL, "workers of a rank"},
        {"prefetch", 0, CLI_TEXT, &unused, "V", NULL, "batches prepared ahead"},
        {"batch-size", 0, CLI_TEXT, &unused, "V", NULL, "samples per batch"},
        {"ranks", 0, CLI_TEXT, &unused, "V", NULL, "accelerators of one job on this machine"},
        {"jobs", 0, CLI_TEXT, &unused, "V", NULL, "jobs on this machine"},
        {"hosts", 0, CLI_TEXT, &unused, "V", NULL, "machines over which a cache is partitioned"},
        {"cache", 0, CLI_TEXT, &unused, "V", NULL, "Penstock's cache on one host: 64GiB"},
        {"page-cache", 0, CLI_TEXT, &unused, "V", NULL, "memory left for the kernel's page cache"},
        {"policy", 0, CLI_TEXT, &unused, "V", "minio",
         "of the cache: minio, random, lru, lru-sequential"},
        {"storage", 0, CLI_TEXT, &unused, "V", NULL, "rate of storage: 2GB/s"},
        {"reads", 0, CLI_TEXT, &unused, "V", NULL, "reads/s of storage"},
        {"network", 0, CLI_TEXT, &unused, "V", NULL, "rate between hosts: 1.2GB/s"},
        {"link", 0, CLI_TEXT, &unused, "V", NULL, "rate from the host to an accelerator"},
        {"gpu-speed", 0, CLI_TEXT, &unused, "V", NULL, "speed of the accelerator: 2x"},
        {"gpu-free", 0, CLI_TEXT, &unused, "V", NULL,
         "part of its time that preparation may have, 0 to 1"},
        {"gpu-part", 0, CLI_TEXT, &unused, "V", NULL, "part of the rows that it decodes, 0 to 1"},
        {"gpu-share", 0, CLI_TEXT, &unused, "V", NULL, NULL}, /* before 0.1; Python says so */
        {"form", 0, CLI_TEXT, &unused, "V", NULL, "form of the images: pli-jpeg, pli-small, ..."},
        {"decode", 0, CLI_TEXT, &unused, "V", NULL, "where images are decoded: cpu or gpu"},
        {"shared-cache", 0, CLI_FLAG, &cache, NULL, NULL, "ranks and jobs share one cache"},
        {"shared-preparation", 0, CLI_FLAG, &preparation, NULL, NULL,
         "a sample is prepared once for all jobs"},
        {"machine", 0, CLI_TEXT, &unused, "FILE", NULL, "capacities of another machine"},
        {"utilisation", 0, CLI_TEXT, &unused, "U", "the accelerator's limit, or 0.98",
         "what counts as fed"},
        {"html", 0, CLI_TEXT, &unused, "FILE", NULL, "write the report as one HTML page"},
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL},
    };
    const struct cli_command command = {
        .usage = "whatif REPORT [options]",
        .about = "Predicts the rate of an analysed run under other conditions, with an error band, "
                 "what limits it,\n"
                 "and how much of each resource would be enough. A value V may be a list "
                 "(8,16,32): all\n"
                 "combinations are answered. Needs the Python package.",
        .example = "penstock whatif report.json --cores 8,16,32 --form pli-jpeg --gpu-speed 2x",
        .options = options,
        .n_min = 1,
        .n_max = 1,
    };
    const char *operands[4] = {0};
    int status = cli_parse(cli, &command, argc, argv, operands);
    return status >= 0 ? status : cli_python(cli, argc, argv);
}
