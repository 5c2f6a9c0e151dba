/* cmd_plan.c - the verb plan: its options. The work is done by the Python package; the solver is
 * the library's (<penstock/plan.h>). */
#include "cli.h"

int cmd_plan(struct cli *cli, int argc, char **argv)
{
    const char *train = NULL, *rate = NULL, *as = NULL, *unused = NULL;
    uint64_t accelerators = 0, max_error = 0;
    bool copies = false, no_layout = false;
    struct cli_usual usual = {0};
    const struct cli_option options[] = {
        {"train", 0, CLI_TEXT, &train, "MODULE:FUNCTION", NULL,
         "step(batch), which returns when the step is done"},
        {"rate", 0, CLI_TEXT, &rate, "N", NULL, "an accelerator that takes N samples/s"},
        {"as", 0, CLI_TEXT, &as, "NAME", NULL,
         "an emulated accelerator, such as mlperf:resnet50:h100"},
        {"accelerators", 0, CLI_COUNT, &accelerators, "N", "1", "how many share this machine"},
        {"budget", 0, CLI_TEXT, &unused, "TIME", "60s", "about how long it may take"},
        CLI_USUAL_OPTIONS(usual),
        {"forms", 0, CLI_TEXT, &unused, "A,B", "those that are worth it", "forms to consider"},
        {"goal", 0, CLI_TEXT, &unused, "rate|storage|cost", "rate",
         "most samples/s, least storage or least cost of an epoch"},
        {"least-rate", 0, CLI_TEXT, &unused, "N", NULL, "samples/s that a plan must reach"},
        {"storage-limit", 0, CLI_TEXT, &unused, "SIZE", NULL,
         "most bytes on storage: 100GiB, or 150% of today's"},
        {"cache", 0, CLI_TEXT, &unused, "SIZE", "auto",
         "memory for the cache: 8GiB, 50%, 0; auto: half of what is free"},
        {"page-cache", 0, CLI_TEXT, &unused, "SIZE", "auto",
         "memory for the kernel's page cache: 8GiB; 0: data always come from storage"},
        {"max-error", 0, CLI_COUNT, &max_error, "N", "0",
         "allow PLI whose samples differ by up to N of 255"},
        {"copies", 0, CLI_FLAG, &copies, NULL, NULL, "store a sample in each form of the mix"},
        {"machines", 0, CLI_TEXT, &unused, "FILE", NULL,
         "compare these machines; \"example\": those that come with Penstock"},
        {"machine", 0, CLI_TEXT, &unused, "FILE", NULL,
         "plan a REPORT for the machine of this file"},
        {"no-layout", 0, CLI_FLAG, &no_layout, NULL, NULL,
         "do not measure files against packed samples"},
        {"schedule", 0, CLI_TEXT, &unused, "STAGES", NULL,
         "sizes from epochs on: EPOCH:SIZE[:BATCH],... such as 0:128:512,6:192:256,12:224"},
        {"out", 0, CLI_TEXT, &unused, "FILE", NULL, "write the plan (JSON)"},
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL},
    };
    const struct cli_command command = {
        .usage = "plan DATA|REPORT [options]",
        .about = "Finds in which forms to store a data set, what to cache, where to decode, with "
                 "how many threads,\n"
                 "and on which machine: by costs that it measures (or those of a report of "
                 "penstock analyze) and a\n"
                 "linear programme that is solved exactly. Says what limits, what one unit more "
                 "of it is worth, what\n"
                 "single forms give, and when converting has paid. Changes no data. Needs the "
                 "Python package, and HiGHS\n"
                 "(pip install 'penstock[plan]').\n\n" CLI_USUAL_ABOUT,
        .example = "penstock plan photos --as mlperf:resnet50:h100 --storage-limit 100GiB --out "
                   "plan.json",
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
