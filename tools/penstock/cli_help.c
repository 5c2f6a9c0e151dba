/* cli_help.c - prints the help of a verb from its table of options, in lines that fit the terminal.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* If the terminal has fewer than COLUMNS_WIDE columns, an option's text is printed below its name.
 */
enum { COLUMNS_MAX = 100, COLUMNS_MIN = 20, COLUMNS_WIDE = 60, INDENT = 29, INDENT_NARROW = 8 };

const struct cli_option cli_common_options[] = {
    {"json", 0, CLI_FLAG, NULL, NULL, NULL, "results and errors as JSON on stdout"},
    {"quiet", 0, CLI_FLAG, NULL, NULL, NULL, "no progress and no remarks on stderr"},
    {"help", 'h', CLI_FLAG, NULL, NULL, NULL, "this text"},
    {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL},
};

size_t cli_columns(int fd, size_t otherwise)
{
    struct winsize size;
    uint64_t columns;
    const char *text = getenv("COLUMNS");
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    if (text != NULL && cli_count(text, &columns) && columns > 0 && columns <= 10000)
        return (size_t)columns;
    return otherwise;
}

size_t cli_help_columns(void)
{
    size_t columns = cli_columns(STDOUT_FILENO, COLUMNS_MAX);
    return columns > COLUMNS_MAX ? COLUMNS_MAX : columns < COLUMNS_MIN ? COLUMNS_MIN : columns;
}

void cli_print_wrapped(const char *text, size_t at, size_t indent, size_t columns)
{
    bool begins = true;
    while (*text != '\0') {
        size_t n = strcspn(text, " \n");
        if (!begins && at + 1 + n > columns) {
            printf("\n%*s", (int)indent, "");
            at = indent;
            begins = true;
        }
        at += n + (begins ? 0 : 1);
        printf("%s%.*s", begins ? "" : " ", (int)n, text);
        begins = false;
        text += n;
        if (text[0] == '\n' && text[1] == '\n') {
            printf("\n\n%*s", (int)indent, "");
            at = indent;
            begins = true;
            text++;
        }
        text += *text != '\0';
    }
    putchar('\n');
}

/* Prints a command that can be pasted into a shell even if it takes several lines: these end with a
 * backslash, and no quoted word is broken. */
static void print_command(const char *text, size_t columns)
{
    size_t at = 2;
    char quote = '\0';
    fputs("  ", stdout);
    for (bool begins = true; *text != '\0'; begins = false) {
        size_t n = 0;
        for (; text[n] != '\0' && (quote != '\0' || text[n] != ' '); n++) {
            if (quote == '\0' && (text[n] == '\'' || text[n] == '"'))
                quote = text[n];
            else if (text[n] == quote)
                quote = '\0';
        }
        size_t rest = text[n] == '\0' ? 0 : 2; /* columns for the backslash at the end */
        if (!begins && at + 1 + n + rest > columns) {
            fputs(" \\\n     ", stdout);
            at = 5;
        }
        printf("%s%.*s", begins ? "" : " ", (int)n, text);
        at += n + (begins ? 0 : 1);
        text += n;
        text += *text != '\0';
    }
    putchar('\n');
}

static void print_option(const struct cli_option *option, size_t columns)
{
    char help[1024];
    bool has = option->standard != NULL;
    snprintf(help, sizeof help, "%s%s%s%s", option->help, has ? " (default " : "",
             has ? option->standard : "", has ? ")" : "");
    bool narrow = columns < COLUMNS_WIDE;
    int indent = narrow ? INDENT_NARROW : INDENT;
    int at = option->letter != 0 ? printf("  -%c, ", option->letter) : printf("      ");
    at += printf("--%s%s%s", option->name, option->argument == NULL ? "" : " ",
                 option->argument == NULL ? "" : option->argument);
    if (narrow || at >= indent)
        printf("\n%*s", indent, "");
    else
        printf("%*s", indent - at, "");
    cli_print_wrapped(help, (size_t)indent, (size_t)indent, columns);
}

/* Prints the options of a table, and headings that have options below them. */
static void print_options(const struct cli_option *options, const char *heading, size_t columns)
{
    for (const struct cli_option *option = options; option->name != NULL; option++) {
        if (option->kind == CLI_HEADING)
            heading = option->help;
        if (option->kind == CLI_HEADING || option->help == NULL)
            continue;
        if (heading != NULL)
            printf("\n%s:\n", heading);
        heading = NULL;
        print_option(option, columns);
    }
}

void cli_print_help(const struct cli_command *command)
{
    size_t columns = cli_help_columns();
    size_t at = (size_t)printf("usage: penstock ");
    cli_print_wrapped(command->usage, at, at, columns);
    putchar('\n');
    cli_print_wrapped(command->about, 0, 0, columns);
    print_options(command->options, "options", columns);
    print_options(cli_common_options, "options of every verb", columns);
    puts("\nexamples:");
    char line[256];
    for (const char *text = command->example; *text != '\0';) {
        size_t n = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        print_command(line, columns);
        text += n;
        text += strspn(text, "\n ");
    }
}
