/* main.c - the command `penstock`: finds the verb and runs it. Results go to stdout, everything
 * else to stderr. Exit status: 0 success, 1 failure or findings, 2 wrong use, 130 interrupted. */
#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct cli_verb cli_verbs[] = {
    {"pack", "make a data set of a folder of images, of tars or of tables", cmd_pack},
    {"append", "add a folder of images to a data set", cmd_append},
    {"repack", "make a data set of a data set, its images in other forms", cmd_repack},
    {"merge", "make one data set of the parts that several processes packed", cmd_merge},
    {"info", "say what is in a data set, folder or image", cmd_info},
    {"ls", "list samples", cmd_ls},
    {"cat", "write one item of a sample, as stored or as pixels", cmd_cat},
    {"unpack", "write the files that were packed", cmd_unpack},
    {"verify", "read everything and report what is wrong", cmd_verify},
    {"index", "make or check the index of tars and tables ahead of time", cmd_index},
    {"view", "draw samples as a sheet of pictures", cli_python},
    {"serve", "run the host service, or ask the one that runs", cmd_serve},
    {"cache", "the host cache: show, save, load, clear; servers of a fleet", cmd_cache},
    {"top", "watch the host service", cmd_top},
    {"bench", "load a data set and measure", cmd_bench},
    {"doctor", "check this machine and say what to mend", cmd_doctor},
    {"analyze", "measure where a training run stalls, and what would help", cli_python},
    {"whatif", "predict its rate on another machine or in another form", cli_python},
    {"plan", "find the best forms, cache and machine for it", cli_python},
    {"tune", "analyze, plan, write, and compare before with after", cli_python},
    {"env", "say what this build and this machine can do", cmd_env},
    {NULL, NULL, NULL},
};

/* Prints a row of the list of verbs, or of another list. On a narrow terminal the text is below the
 * name. */
static void print_row(const char *name, int indent, const char *text, size_t columns)
{
    int at = printf("  %s", name);
    if (columns < 50) {
        indent = 4;
        at = 0;
        putchar('\n');
    }
    printf("%*s", indent > at ? indent - at : 1, "");
    cli_print_wrapped(text, (size_t)indent, (size_t)indent, columns);
}

static void print_help(void)
{
    enum { VERB_INDENT = 11, OPTION_INDENT = 22 };
    size_t columns = cli_help_columns();
    cli_print_wrapped("penstock - training data for accelerators that must not wait", 0, 0,
                      columns);
    puts("\nusage: penstock VERB [ARGUMENTS] [OPTIONS]\n");
    for (const struct cli_verb *verb = cli_verbs; verb->name != NULL; verb++)
        print_row(verb->name, VERB_INDENT, verb->summary, columns);
    putchar('\n');
    print_row("help VERB", OPTION_INDENT, "its options, as VERB --help", columns);
    print_row("--version", OPTION_INDENT, "the version of this program and of the library",
              columns);
    print_row("--completion SHELL", OPTION_INDENT,
              "the script by which bash, zsh or fish complete words of this program", columns);
    putchar('\n');
    cli_print_wrapped("Each verb takes --json (machine-readable output) and --quiet.", 0, 0,
                      columns);
    puts("\nexamples:\n"
         "  penstock pack photos photos.pst && penstock info photos.pst\n"
         "  eval \"$(penstock --completion bash)\"");
}

static bool truthy(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0' && strcmp(value, "0") != 0;
}

/* True if an argument is given. This is checked before options are parsed, so that errors of use
 * are already reported in the requested form. */
static bool has_argument(int argc, char **argv, const char *wanted)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], wanted) == 0)
            return true;
    return false;
}

static void print_log(void *ctx, enum pst_log_level level, const char *room, const char *text)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    (void)ctx;
    fprintf(stderr, "penstock: %s: %s: %s\n", level <= PST_LOG_DEBUG ? names[level] : "log", room,
            text);
}

static int unknown_verb(const struct cli *cli, const char *word)
{
    const char *near = cli_nearest(word, &cli_verbs[0].name, sizeof cli_verbs[0]);
    if (near != NULL)
        return cli_usage(cli, "no verb \"%s\": did you mean \"%s\"?", word, near);
    return cli_usage(cli, "no verb \"%s\": see penstock --help", word);
}

/* Runs a verb with `argc` arguments. */
static int run_verb(struct cli *cli, const struct cli_verb *verb, int argc, char **argv)
{
    struct pst_error err;
    cli->verb = verb;
    if (pst_environment_check(&err) != PST_OK)
        return cli_fail(cli, &err);
    return verb->run(cli, argc, argv);
}

static const struct cli_verb *find_verb(const char *name)
{
    for (const struct cli_verb *verb = cli_verbs; verb->name != NULL; verb++)
        if (strcmp(verb->name, name) == 0)
            return verb;
    return NULL;
}

/* Runs penstock help [VERB ...]. A second word names a command of the verb, as in `help cache
 * save`. */
static int help(struct cli *cli, int argc, char **argv)
{
    char *words[3];
    int n = 0;
    for (int i = 0; i < argc; i++)
        if (argv[i][0] != '-' && n < 2)
            words[n++] = argv[i];
    if (n == 0) {
        print_help();
        return CLI_OK;
    }
    const struct cli_verb *verb = find_verb(words[0]);
    if (verb == NULL)
        return unknown_verb(cli, words[0]);
    char flag[] = "--help";
    words[n] = flag;
    return run_verb(cli, verb, n, words + 1);
}

static int run(struct cli *cli, int argc, char **argv)
{
    int i = 1;
    while (i < argc && (strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "--quiet") == 0))
        i++;
    if (i == argc) {
        if (argc == 1) {
            print_help();
            return CLI_USAGE;
        }
        return cli_usage(cli, "a verb is missing: see penstock --help");
    }
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0 ||
        strcmp(argv[i], "help") == 0)
        return help(cli, argc - i - 1, argv + i + 1);
    if (strcmp(argv[i], "--version") == 0 || strcmp(argv[i], "-V") == 0) {
        if (cli->json)
            printf("{\"version\": \"%s\"}\n", pst_version());
        else
            printf("penstock %s\n", pst_version());
        return CLI_OK;
    }
    if (strcmp(argv[i], "--describe") == 0)
        return cli_describe(cli);
    if (strncmp(argv[i], "--completion", 12) == 0 && (argv[i][12] == '\0' || argv[i][12] == '='))
        return cli_completion(cli, argv[i][12] == '=' ? argv[i] + 13 : argv[i + 1]);
    if (argv[i][0] == '-')
        return cli_usage(cli, "no option %s before the verb: see penstock --help", argv[i]);
    const struct cli_verb *verb = find_verb(argv[i]);
    if (verb == NULL)
        return unknown_verb(cli, argv[i]);
    return run_verb(cli, verb, argc - i - 1, argv + i + 1);
}

/* True if stdout is a pipe whose reader has closed it. The errno of the failed write is not
 * available any more. */
static bool reader_has_gone(void)
{
    struct pollfd fd = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&fd, 1, 0) == 1 && (fd.revents & POLLERR) != 0;
}

int main(int argc, char **argv)
{
    struct cli_meter meter = {0};
    struct cli cli = {.meter = &meter};
    /* With SIGPIPE ignored, a write to a closed pipe fails instead of killing the process:
     * `penstock ls | head` ends quietly, and a pack writes its last commit. */
    signal(SIGPIPE, SIG_IGN);
    cli.json = has_argument(argc, argv, "--json");
    cli.quiet = has_argument(argc, argv, "--quiet");
    bool terminal = isatty(STDERR_FILENO) == 1;
    const char *term = getenv("TERM");
    bool shows = !cli.quiet && !truthy("PENSTOCK_DISABLE_PROGRESS_BARS");
    cli.bar = terminal && shows;
    cli.lines = !terminal && shows;
    cli.color = terminal && getenv("NO_COLOR") == NULL && term != NULL && strcmp(term, "dumb") != 0;
    if (!cli.quiet)
        pst_set_log(print_log, NULL, -1);
    int status = run(&cli, argc, argv);
    errno = 0;
    bool failed = fflush(stdout) != 0;
    int os_error = errno;
    if (!failed && !ferror(stdout))
        return status;
    if (os_error == EPIPE || reader_has_gone())
        return CLI_PIPE;
    if (status == CLI_OK) {
        fprintf(stderr, "penstock: writing to stdout: %s\n",
                os_error == 0 ? "failed" : strerror(os_error));
        status = CLI_FAILED;
    }
    return status;
}
