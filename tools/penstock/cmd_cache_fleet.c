/* cmd_cache_fleet.c - the command cache fleet: runs or prints the memcached command for one host of
 * a fleet.
 *
 * In: the memory, or the data sets and the number of servers that share them. Out: a command line,
 * printed or run. With -M a full memcached refuses items instead of evicting. The sizes of slab
 * classes are chosen so that parts of --max-item bytes fill pages of 1 MiB without gaps: full parts
 * get a class that divides the page, the shorter last parts of items get evenly spaced classes.
 * Each class may leave a page half empty, so small memories get few classes. With --run, memcached
 * is restarted when it ends, if it ran for a while. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)
#define ITEM_DEFAULT_NBYTES ((uint64_t)32 << 10)
#define ITEM_MAX_NBYTES ((uint64_t)1 << 30)
#define PAGE_NBYTES MIB
#define FLASH_PAGE_NBYTES (64 * MIB)
#define SPARE 1.05 /* factor for headers, keys, gaps and uneven distribution */
enum {
    WORDS_MAX = 32,
    TEXT_CAP = 1024,
    CLASSES_MAX = 48,
    CLASSES_MIN = 4,
    HALVES_MAX = 4,
    DATA_MAX = 256
};

struct fleet {
    uint64_t memory, max_item, n_servers, threads, port, flash;
    const char *listen, *socket, *auth_file, *flash_path, *user;
    bool run;
    char texts[8][TEXT_CAP]; /* buffers for arguments that are made here */
    int n_texts;
    const char *words[WORDS_MAX + 1];
    int n_words;
};

static void add(struct fleet *fleet, const char *word)
{
    if (fleet->n_words < WORDS_MAX)
        fleet->words[fleet->n_words++] = word;
}

static char *new_text(struct fleet *fleet) { return fleet->texts[fleet->n_texts++]; }

static void add_number(struct fleet *fleet, const char *option, uint64_t number, const char *unit)
{
    char *text = new_text(fleet);
    snprintf(text, TEXT_CAP, "%llu%s", (unsigned long long)number, unit);
    add(fleet, option);
    add(fleet, text);
}

/* Writes the sizes of the slab classes as "a-b-c"; the largest is max_item. */
static void write_classes(const struct fleet *fleet, char *text, size_t capacity)
{
    double megabytes = (double)fleet->memory / (double)MIB;
    uint64_t n = (uint64_t)(sqrt(megabytes) / 2);
    n = n < CLASSES_MIN ? CLASSES_MIN : n > CLASSES_MAX ? CLASSES_MAX : n;
    uint64_t halves[HALVES_MAX], first = fleet->max_item / n / 8 * 8;
    int n_halves = 0;
    size_t at = 0;
    for (uint64_t size = first / 16 * 8; size >= 128 && n_halves < HALVES_MAX; size = size / 16 * 8)
        halves[n_halves++] = size;
    while (n_halves > 0)
        at += (size_t)snprintf(text + at, capacity - at, "%llu-",
                               (unsigned long long)halves[--n_halves]);
    for (uint64_t i = 1; i <= n; i++)
        at += (size_t)snprintf(text + at, capacity - at, "%llu%s",
                               (unsigned long long)(fleet->max_item * i / n / 8 * 8),
                               i < n ? "-" : "");
}

/* Adds memcached's option -o. Classes larger than half a page would leave the other half empty. */
static void add_more(struct fleet *fleet)
{
    char *text = new_text(fleet);
    size_t at = (size_t)snprintf(text, TEXT_CAP, "modern");
    if (fleet->max_item <= PAGE_NBYTES / 4) {
        at += (size_t)snprintf(text + at, TEXT_CAP - at, ",slab_sizes=");
        write_classes(fleet, text + at, TEXT_CAP - at);
        at += strlen(text + at);
    }
    if (fleet->flash_path != NULL)
        snprintf(text + at, TEXT_CAP - at, ",ext_path=%s:%lluM,ext_wbuf_size=%llu",
                 fleet->flash_path, (unsigned long long)(fleet->flash / MIB),
                 (unsigned long long)(fleet->max_item > 4 * MIB ? fleet->max_item / MIB + 1 : 4));
    add(fleet, "-o");
    add(fleet, text);
}

static void make_command(struct fleet *fleet)
{
    add(fleet, "memcached");
    add(fleet, "-M");
    add_number(fleet, "-m", (fleet->memory + MIB - 1) / MIB, "");
    if (fleet->max_item > PAGE_NBYTES)
        add_number(fleet, "-I", (fleet->max_item + MIB - 1) / MIB, "m");
    add_number(fleet, "-t", fleet->threads, "");
    add_number(fleet, "-c", 4096, "");
    if (fleet->socket != NULL) {
        add(fleet, "-s");
        add(fleet, fleet->socket);
    } else {
        add(fleet, "-l");
        add(fleet, fleet->listen);
        add_number(fleet, "-p", fleet->port, "");
    }
    if (fleet->auth_file != NULL) {
        add(fleet, "-Y");
        add(fleet, fleet->auth_file);
    }
    if (fleet->user != NULL) {
        add(fleet, "-u");
        add(fleet, fleet->user);
    }
    add_more(fleet);
    fleet->words[fleet->n_words] = NULL;
}

/* Adds the bytes of a data set to *nbytes. Returns -1, or the exit status after failure. */
static int add_dataset(struct cli *cli, const char *path, uint64_t *nbytes)
{
    struct pst_error err;
    pst_dataset *dataset;
    uint64_t own = 0;
    if (cli_open(cli, path, NULL, &dataset, &err) != PST_OK)
        return cli_fail(cli, &err);
    enum pst_status status = pst_dataset_nbytes(dataset, &own, &err);
    pst_dataset_close(&dataset);
    *nbytes += own;
    return status == PST_OK ? -1 : cli_fail(cli, &err);
}

/* Sets --memory (and --flash) from the bytes of the data sets in a list that ends with NULL.
 * Returns -1, or the exit status after failure. */
static int take_datasets(struct cli *cli, struct fleet *fleet, const char *const *paths)
{
    uint64_t nbytes = 0;
    int status = -1;
    for (; *paths && status < 0; paths++)
        status = add_dataset(cli, *paths, &nbytes);
    if (status >= 0)
        return status;
    double share = (double)nbytes / (double)fleet->n_servers * SPARE;
    if (fleet->flash_path != NULL)
        fleet->flash = fleet->flash ? fleet->flash : (uint64_t)share + 4 * FLASH_PAGE_NBYTES;
    else
        fleet->memory = fleet->memory ? fleet->memory : (uint64_t)share;
    return -1;
}

static int check(struct cli *cli, struct fleet *fleet)
{
    if (fleet->max_item < 4096 || fleet->max_item > ITEM_MAX_NBYTES)
        return cli_usage(cli, "--max-item is 4KiB to 1GiB");
    if (fleet->n_servers < 1 || fleet->threads < 1 || fleet->threads > 1024 || fleet->port < 1 ||
        fleet->port > 65535)
        return cli_usage(cli, "--servers is 1 or more, --threads 1 to 1024, --port 1 to 65535");
    if (fleet->flash_path != NULL && strchr(fleet->flash_path, ','))
        return cli_usage(cli, "memcached takes no path with a comma: %s", fleet->flash_path);
    if (fleet->flash_path != NULL && !fleet->flash)
        return cli_usage(cli, "--flash-size is missing: give it, or the data set");
    /* Each value on flash keeps a header of about 100 bytes in memory. */
    if (fleet->flash_path != NULL && !fleet->memory)
        fleet->memory = 256 * MIB + fleet->flash / fleet->max_item * 160;
    if (!fleet->memory)
        return cli_usage(cli, "--memory is missing: give it, or the data set");
    if (fleet->memory < 64 * MIB)
        fleet->memory = 64 * MIB;
    fleet->flash = (fleet->flash + FLASH_PAGE_NBYTES - 1) / FLASH_PAGE_NBYTES * FLASH_PAGE_NBYTES;
    return -1;
}

static void print(const struct cli *cli, const struct fleet *fleet)
{
    if (cli->json) {
        struct cli_json json = {0};
        cli_json_open(&json, NULL, '{');
        cli_json_open(&json, "command", '[');
        for (int i = 0; i < fleet->n_words; i++)
            cli_json_text(&json, NULL, fleet->words[i]);
        cli_json_close(&json, ']');
        cli_json_uint(&json, "memory", fleet->memory);
        cli_json_uint(&json, "max_item", fleet->max_item);
        cli_json_uint(&json, "flash", fleet->flash_path ? fleet->flash : 0);
        cli_json_close(&json, '}');
        return;
    }
    for (int i = 0; i < fleet->n_words; i++) {
        fputs(i ? " " : "", stdout);
        cli_print_word(stdout, fleet->words[i]);
    }
    putchar('\n');
}

/* Runs memcached and waits until it ends. Returns its wait status, or -1. */
static int run_once(const struct fleet *fleet)
{
    static const struct timespec pause = {.tv_nsec = 100000000};
    int status = -1;
    bool told = false;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* memcached ends with this process, however that ends */
        execvp(fleet->words[0], (char *const *)(uintptr_t)fleet->words);
        _exit(errno == ENOENT ? 127 : 126);
    }
    if (pid < 0)
        return -1;
    for (;;) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid)
            return status;
        if (ended < 0 && errno != EINTR)
            return -1;
        if (cli_interrupted() && !told)
            told = kill(pid, SIGTERM) == 0;
        nanosleep(&pause, NULL);
    }
}

/* Restarts memcached each time it ends, unless it ran less than a second or was ended by our
 * signal. */
static int supervise(const struct cli *cli, const struct fleet *fleet)
{
    cli_catch_interrupt();
    for (;;) {
        time_t start = time(NULL);
        int status = run_once(fleet);
        if (cli_interrupted())
            return CLI_INTERRUPTED;
        if (status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 127) {
            struct pst_error err;
            cli_error(&err, PST_ERROR_UNSUPPORTED,
                      "there is no memcached here: install it (Debian, Ubuntu: apt install "
                      "memcached)");
            return cli_fail(cli, &err);
        }
        if (status == 0)
            return CLI_OK;
        if (status < 0 || time(NULL) - start < 1) {
            struct pst_error err;
            cli_error(&err, PST_ERROR_IO, "memcached ended at once (status %d)", status);
            return cli_fail(cli, &err);
        }
        cli_note(cli, "memcached ended (status %d): started again, empty", status);
    }
}

int cmd_cache_fleet(struct cli *cli, int argc, char **argv)
{
    struct fleet fleet = {.max_item = ITEM_DEFAULT_NBYTES,
                          .n_servers = 1,
                          .threads = 4,
                          .port = 11211,
                          .listen = "127.0.0.1"};
    const struct cli_option options[] = {
        CLI_GROUP("memory"),
        {"memory", 'm', CLI_SIZE, &fleet.memory, "SIZE", "the data set's share",
         "memory for items; it is all that the server takes, but for some MiB"},
        {"servers", 0, CLI_COUNT, &fleet.n_servers, "N", "1", "servers that share the data set"},
        {"max-item", 0, CLI_SIZE, &fleet.max_item, "SIZE", "32KiB",
         "what one value takes: as the loaders' max_item"},
        CLI_GROUP("the server"),
        {"listen", 'l', CLI_TEXT, &fleet.listen, "ADDRESS", "127.0.0.1",
         "address of this host to listen on; who reaches it can read and write the cache"},
        {"port", 'p', CLI_COUNT, &fleet.port, "N", "11211", "port to listen on"},
        {"socket", 's', CLI_TEXT, &fleet.socket, "PATH", NULL,
         "listen on a Unix socket instead, for loaders of this host alone"},
        {"threads", 't', CLI_COUNT, &fleet.threads, "N", "4", "threads of the server"},
        {"auth-file", 0, CLI_TEXT, &fleet.auth_file, "FILE", NULL,
         "file with user:password, which clients must give"},
        {"user", 'u', CLI_TEXT, &fleet.user, "NAME", NULL,
         "user to become, if the server is started by root"},
        CLI_GROUP("a fast disk"),
        {"flash", 0, CLI_TEXT, &fleet.flash_path, "FILE", NULL,
         "keep items in this file of a fast disk (extstore)"},
        {"flash-size", 0, CLI_SIZE, &fleet.flash, "SIZE", "the data set's share, and some",
         "size of that file; memcached evicts when it is full, so give it more than the share"},
        CLI_GROUP("the command"),
        {"run", 0, CLI_FLAG, &fleet.run, NULL, NULL,
         "run the command, and again when memcached ends"},
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL}};
    const struct cli_command command = {
        .usage = "cache fleet [DATA ...] [options]",
        .about = "Prints the memcached command for this host of a fleet, which loaders of all "
                 "hosts share\n"
                 "(docs/fleet.md). The server refuses items when its memory is full, and evicts "
                 "nothing. With\n"
                 "DATA, its memory is the bytes of all these data sets and 5 %, divided by "
                 "--servers: name\n"
                 "each data set of a mixture.",
        .example = "penstock cache fleet train.pst --servers 4 --listen 10.0.0.5 --run\n"
                   "penstock cache fleet --memory 64GiB",
        .options = options,
        .n_max = DATA_MAX,
    };
    const char *operands[DATA_MAX + 1] = {0};
    int status = cli_parse(cli, &command, argc, argv, operands);
    if (status < 0 && operands[0] != NULL && fleet.n_servers > 0)
        status = take_datasets(cli, &fleet, operands);
    if (status < 0)
        status = check(cli, &fleet);
    if (status >= 0)
        return status;
    make_command(&fleet);
    if (fleet.run)
        return supervise(cli, &fleet);
    print(cli, &fleet);
    return CLI_OK;
}
