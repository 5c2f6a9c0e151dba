/* cmd_cache.c - the verb cache: finds the command after it and runs that. */
#include "cli.h"

#include <string.h>

static const struct cli_verb commands[] = {
    {"fleet", "print or run the memcached command of this host", cmd_cache_fleet},
    {NULL, NULL, NULL},
};

static void print_help(void)
{
    puts("usage: penstock cache COMMAND [ARGUMENTS] [OPTIONS]\n");
    for (const struct cli_verb *command = commands; command->name != NULL; command++)
        printf("  %-8s %s\n", command->name, command->summary);
    puts("\n  --help     with a command: its options\n\n"
         "example: penstock cache fleet --memory 64GiB");
}

int cmd_cache(struct cli *cli, int argc, char **argv)
{
    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        print_help();
        return CLI_OK;
    }
    if (argc == 0 || argv[0][0] == '-')
        return cli_usage(cli, "no command: see penstock cache --help");
    for (const struct cli_verb *command = commands; command->name != NULL; command++)
        if (strcmp(argv[0], command->name) == 0)
            return command->run(cli, argc - 1, argv + 1);
    const char *near = cli_nearest(argv[0], &commands[0].name, sizeof commands[0]);
    if (near != NULL)
        return cli_usage(cli, "no command \"%s\": did you mean \"%s\"?", argv[0], near);
    return cli_usage(cli, "no command \"%s\": see penstock cache --help", argv[0]);
}
