/* cli_options.c - parses the options and operands of a verb according to its table. */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int cli_usage(const struct cli *cli, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (cli->json) {
        struct cli_json json = {0};
        cli_json_open(&json, NULL, '{');
        cli_json_open(&json, "error", '{');
        cli_json_text(&json, "status", "USAGE");
        cli_json_text(&json, "text", text);
        cli_json_close(&json, '}');
        cli_json_close(&json, '}');
    }
    fprintf(stderr, "penstock%s%s: %s\n", cli->verb == NULL ? "" : " ",
            cli->verb == NULL ? "" : cli->verb->name, text);
    return CLI_USAGE;
}

/* Counts the edits (insert, delete, replace, swap of neighbours) between two words of at most 31
 * letters. */
static size_t distance(const char *a, const char *b)
{
    size_t d[32][32], n = strlen(a), m = strlen(b);
    if (n > 31 || m > 31)
        return SIZE_MAX;
    for (size_t i = 0; i <= n; i++) {
        for (size_t k = 0; k <= m; k++) {
            if (i == 0 || k == 0) {
                d[i][k] = i + k;
                continue;
            }
            size_t best = d[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
            best = d[i - 1][k] + 1 < best ? d[i - 1][k] + 1 : best;
            best = d[i][k - 1] + 1 < best ? d[i][k - 1] + 1 : best;
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
                d[i - 2][k - 2] + 1 < best)
                best = d[i - 2][k - 2] + 1;
            d[i][k] = best;
        }
    }
    return d[n][m];
}

const char *cli_nearest(const char *word, const void *first, size_t stride)
{
    const char *best = NULL;
    size_t best_distance = strlen(word) < 5 ? 2 : 3;
    for (const char *entry = first;; entry += stride) {
        const char *name;
        memcpy(&name, entry, sizeof name);
        if (name == NULL)
            return best;
        if (name[0] == '\0') /* a heading */
            continue;
        size_t d = distance(word, name);
        /* A common prefix counts as one edit. */
        if (strlen(word) >= 2 && strncmp(name, word, strlen(word)) == 0)
            d = 1;
        if (d < best_distance) {
            best_distance = d;
            best = name;
        }
    }
}

bool cli_count(const char *text, uint64_t *count)
{
    char *end;
    errno = 0;
    if (text[0] < '0' || text[0] > '9')
        return false;
    *count = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

bool cli_size(const char *text, uint64_t *nbytes)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = {
        {"", 1},         {"B", 1},      {"kB", 1e3},     {"KB", 1e3},     {"MB", 1e6},
        {"GB", 1e9},     {"TB", 1e12},  {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
        {"TiB", 0x1p40}, {"K", 0x1p10}, {"M", 0x1p20},   {"G", 0x1p30},   {"T", 0x1p40},
    };
    char *end;
    if (text[0] < '0' || text[0] > '9' || text[1] == 'x' || text[1] == 'X')
        return false;
    double number = strtod(text, &end);
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name) != 0)
            continue;
        double total = number * units[i].factor;
        if (!(total < 0x1p63))
            return false;
        *nbytes = (uint64_t)total;
        return true;
    }
    return false;
}

void cli_size_text(uint64_t nbytes, char out[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)nbytes;
    unsigned unit = 0;
    while (value >= 1024 && unit < 6) {
        value /= 1024;
        unit++;
    }
    snprintf(out, 32, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

static const struct cli_option *find_option(const struct cli_option *options, const char *name,
                                            size_t nbytes, char letter)
{
    for (; options->name != NULL; options++)
        if (options->kind != CLI_HEADING &&
            (letter != 0
                 ? options->letter == letter
                 : strlen(options->name) == nbytes && memcmp(options->name, name, nbytes) == 0))
            return options;
    return NULL;
}

static int unknown_option(const struct cli *cli, const struct cli_command *command,
                          const char *argument)
{
    const char *near = NULL;
    if (argument[1] == '-') {
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
        near = cli_nearest(word, &command->options[0].name, sizeof command->options[0]);
        if (near == NULL)
            near = cli_nearest(word, &cli_common_options[0].name, sizeof cli_common_options[0]);
    }
    if (near != NULL)
        return cli_usage(cli, "no option %s: did you mean --%s?", argument, near);
    return cli_usage(cli, "no option %s: see penstock %s --help", argument, cli->verb->name);
}

static int set_option(const struct cli *cli, const struct cli_option *option, const char *value)
{
    bool ok = true;
    switch (option->kind) {
    case CLI_HEADING: /* has no name */
        break;
    case CLI_FLAG:
        *(bool *)option->target = true;
        break;
    case CLI_TEXT:
        *(const char **)option->target = value;
        break;
    case CLI_COUNT:
        ok = cli_count(value, option->target);
        if (!ok)
            return cli_usage(cli, "--%s is \"%s\": a whole number is expected", option->name,
                             value);
        break;
    case CLI_SIZE:
        ok = cli_size(value, option->target);
        if (!ok)
            return cli_usage(cli, "--%s is \"%s\": a size like 4096, 512MiB or 1GB is expected",
                             option->name, value);
        break;
    }
    return -1;
}

/* Parses the option at argv[*i] and its value. */
static int take_option(const struct cli *cli, const struct cli_command *command, int argc,
                       char **argv, int *i)
{
    const char *argument = argv[*i], *value = NULL;
    const struct cli_option *option;
    if (argument[1] == '-') {
        size_t nbytes = strcspn(argument + 2, "=");
        value = argument[2 + nbytes] == '=' ? argument + 3 + nbytes : NULL;
        option = find_option(command->options, argument + 2, nbytes, 0);
        if (option == NULL)
            option = find_option(cli_common_options, argument + 2, nbytes, 0);
    } else {
        option = find_option(command->options, NULL, 0, argument[1]);
        if (option == NULL)
            option = find_option(cli_common_options, NULL, 0, argument[1]);
        if (argument[2] != '\0')
            value = argument + 2;
    }
    if (option == NULL)
        return unknown_option(cli, command, argument);
    if (option->kind == CLI_FLAG && value != NULL)
        return cli_usage(cli, "--%s takes no value", option->name);
    if (option->kind != CLI_FLAG && value == NULL) {
        if (*i + 1 >= argc)
            return cli_usage(cli, "--%s wants a value: %s", option->name, option->argument);
        value = argv[++*i];
    }
    if (option->target == NULL) {
        if (option->letter != 'h')
            return -1; /* main.c has already parsed --json and --quiet */
        cli_print_help(command);
        return CLI_OK;
    }
    return set_option(cli, option, value);
}

int cli_parse(struct cli *cli, const struct cli_command *command, int argc, char **argv,
              const char *operands[])
{
    int n = 0;
    bool only_operands = false;
    if (cli->describes != NULL) {
        cli_describe_command(cli->describes, command);
        return CLI_OK;
    }
    for (int i = 0; i < argc; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1] != '\0') {
            int status = take_option(cli, command, argc, argv, &i);
            if (status >= 0)
                return status;
        } else if (n == command->n_max) {
            return cli_usage(cli, "one operand too many: %s", argv[i]);
        } else {
            operands[n++] = argv[i];
        }
    }
    if (n < command->n_min)
        return cli_usage(cli, "an operand is missing: penstock %s", command->usage);
    return -1;
}
