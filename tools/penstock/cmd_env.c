/* cmd_env.c - the verb env: describes this build and this machine, for bug reports. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>

int cmd_env(struct cli *cli, int argc, char **argv)
{
    const struct cli_option options[] = {{NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL}};
    const struct cli_command command = {
        .usage = "env [options]",
        .about = "Prints version, compiler, codecs, CPU features found and used, whether io_uring "
                 "works here,\n"
                 "GPUs, and the kernels for them. Paste it into bug reports. Always JSON.",
        .example = "penstock env\n"
                   "penstock env > report.json",
        .options = options,
    };
    const char *operands[4] = {0};
    int status = cli_parse(cli, &command, argc, argv, operands);
    if (status >= 0)
        return status;
    size_t nbytes;
    char *text = cli_environment(&nbytes);
    if (text == NULL) {
        struct pst_error err;
        cli_error(&err, PST_ERROR_MEMORY, "out of memory");
        return cli_fail(cli, &err);
    }
    cli_json_pretty(text);
    free(text);
    return CLI_OK;
}
