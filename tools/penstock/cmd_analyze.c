/* cmd_analyze.c - the verb analyze: its options. The work is done by the Python package. */
#include "cli.h"

int cmd_analyze(struct cli *cli, int argc, char **argv)
{
    const char *train = NULL, *command_text = NULL, *rate = NULL, *as = NULL, *budget = NULL,
               *forms = NULL, *machine = NULL, *out = NULL, *html = NULL;
    uint64_t accelerators = 0, skip = 0;
    bool finish = false;
    struct cli_usual usual = {0};
    const struct cli_option options[] = {
        {"train", 0, CLI_TEXT, &train, "MODULE:FUNCTION", NULL,
         "step(batch), which returns when the step is done"},
        {"command", 0, CLI_TEXT, &command_text, "TEXT", NULL,
         "instead of DATA: a training script with torch's DataLoader, run once"},
        {"rate", 0, CLI_TEXT, &rate, "N", NULL, "an accelerator that takes N samples/s"},
        {"as", 0, CLI_TEXT, &as, "NAME", NULL,
         "an emulated accelerator, such as mlperf:resnet50:h100"},
        {"accelerators", 0, CLI_COUNT, &accelerators, "N", "1", "how many share this machine"},
        {"budget", 0, CLI_TEXT, &budget, "TIME", "60s", "about how long it may take"},
        CLI_USUAL_OPTIONS(usual),
        {"forms", 0, CLI_TEXT, &forms, "A,B", "those that are worth it", "forms to probe"},
        {"machine", 0, CLI_TEXT, &machine, "FILE", NULL, "predict for the machine of this file"},
        {"skip", 0, CLI_COUNT, &skip, "N", "0",
         "--command: loops over DataLoaders before the training's"},
        {"finish", 0, CLI_FLAG, &finish, NULL, NULL,
         "--command: let the script go on after the measurement"},
        {"out", 0, CLI_TEXT, &out, "FILE", NULL, "write the report (JSON), for penstock whatif"},
        {"html", 0, CLI_TEXT, &html, "FILE", NULL, "write the report as one HTML page"},
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL},
    };
    const struct cli_command command = {
        .usage = "analyze DATA [options]",
        .about = "Measures where a training run stalls, and what would help: what the accelerator "
                 "waits for, what\n"
                 "a sample costs in each form, and what more cores, memory or another form would "
                 "give. It takes\n"
                 "about a minute, needs no root, and drops nothing of others from the page cache. "
                 "Needs the Python\n"
                 "package.\n\n" CLI_USUAL_ABOUT,
        .example = "penstock analyze photos --as mlperf:resnet50:h100 --accelerators 8 --html "
                   "report.html",
        .options = options,
        .n_min = 0,
        .n_max = 1,
    };
    const char *operands[4] = {0};
    int status = cli_parse(cli, &command, argc, argv, operands);
    if (status >= 0)
        return status;
    int n_ways = (train != NULL) + (command_text != NULL) + (rate != NULL) + (as != NULL);
    if (n_ways > 1)
        return cli_usage(cli, "only one of --train, --command, --rate and --as is possible");
    if ((operands[0] == NULL) == (command_text == NULL))
        return cli_usage(cli, "DATA or --command is expected, and not both");
    return cli_python(cli, argc, argv);
}
