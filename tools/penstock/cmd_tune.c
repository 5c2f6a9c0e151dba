/* cmd_tune.c - the verb tune: its options. The work is done by the Python package. */
#include "cli.h"

int cmd_tune(struct cli *cli, int argc, char **argv)
{
    const char *train = NULL, *rate = NULL, *as = NULL, *unused = NULL;
    uint64_t accelerators = 0, max_error = 0;
    bool yes = false, copies = false;
    struct cli_usual usual = {0};
    const struct cli_option options[] = {
        {"train", 0, CLI_TEXT, &train, "MODULE:FUNCTION", NULL,
         "step(batch), which returns when the step is done"},
        {"loader", 0, CLI_TEXT, &unused, "MODULE:FUNCTION", NULL,
         "make(path, plan), which returns the training's Loader"},
        {"rate", 0, CLI_TEXT, &rate, "N", NULL, "an accelerator that takes N samples/s"},
        {"as", 0, CLI_TEXT, &as, "NAME", NULL,
         "an emulated accelerator, such as mlperf:resnet50:h100"},
        {"accelerators", 0, CLI_COUNT, &accelerators, "N", "1", "how many share this machine"},
        {"yes", 'y', CLI_FLAG, &yes, NULL, NULL, "write without a question"},
        {"out", 0, CLI_TEXT, &unused, "DIR", "DATA.pst", "where a folder is packed to"},
        {"budget", 0, CLI_TEXT, &unused, "TIME", "2min", "about how long it may measure"},
        CLI_USUAL_OPTIONS(usual),
        {"storage-limit", 0, CLI_TEXT, &unused, "SIZE", NULL,
         "most bytes on storage: 100GiB, or 150% of today's"},
        {"cache", 0, CLI_TEXT, &unused, "SIZE", "auto",
         "memory for the cache: 8GiB, 50%, 0; auto: half of what is free"},
        {"page-cache", 0, CLI_TEXT, &unused, "SIZE", "auto",
         "memory for the kernel's page cache: 8GiB; 0: data always come from storage"},
        {"max-error", 0, CLI_COUNT, &max_error, "N", "0",
         "allow PLI whose samples differ by up to N of 255"},
        {"copies", 0, CLI_FLAG, &copies, NULL, NULL, "store a sample in each form of the mix"},
        {"plan", 0, CLI_TEXT, &unused, "FILE", "beside the data set written, .plan.json",
         "write the plan (JSON)"},
        {"report", 0, CLI_TEXT, &unused, "FILE", NULL, "write both analyses and the plan (JSON)"},
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL},
    };
    const struct cli_command command = {
        .usage = "tune DATA [options]",
        .about = "Analyses DATA, plans, asks, writes what the plan wants, analyses again, and "
                 "compares before with\n"
                 "after. A folder is packed and stays as it is; a data set is changed in place, "
                 "unless the question\n"
                 "is answered by no. HiGHS, the room on the disk and the places to write to are "
                 "looked at first, and the\n"
                 "plan is written before any data are. Needs the Python package, and HiGHS (pip "
                 "install 'penstock[plan]').\n\n" CLI_USUAL_ABOUT "\n"
                 "With --loader your own function makes the loader.",
        .example = "penstock tune photos --train train:step --yes",
        .options = options,
        .n_min = 1,
        .n_max = 1,
    };
    const char *operands[4] = {0};
    int status = cli_parse(cli, &command, argc, argv, operands);
    if (status >= 0)
        return status;
    if ((train != NULL) + (rate != NULL) + (as != NULL) > 1)
        return cli_usage(cli, "only one of --train, --rate and --as is possible");
    return cli_python(cli, argc, argv);
}
