/* cmd_serve.c - the verb serve: runs the host service in the foreground, or asks or ends a running
 * one. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define FILES_MAX 65536     /* file descriptors that a service may need */
#define LOOKED_AT_MAX 65536 /* descriptors below this are closed before Linux 5.9 */
#define END_S 10            /* seconds for the service's threads to end */

static pst_service *running; /* the service that the signal handler stops */

static void end_by_signal(int number)
{
    (void)number;
    pst_service_stop(running);
}

/* Ends the process at once if a thread of the service is stuck in storage. Nothing is left behind:
 * the socket is already removed, and the memory that clients share has no name. */
static void end_at_once(int number)
{
    (void)number;
    _exit(CLI_OK);
}

/* Tells systemd, if it started this process, that the service is ready or is ending (sd_notify(3),
 * Type=notify). */
static void notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = path ? strlen(path) : 0;
    if (n < 2 || n >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(address.sun_path, path, n);
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    close(fd);
}

#ifndef SYS_close_range
#define SYS_close_range 436 /* this number is the same on all architectures */
#endif

/* Closes the descriptors inherited from the program that started this one, except `kept`. Otherwise
 * that program's sockets and pipes would stay open as long as the service runs. */
static void close_others(int kept)
{
    if (syscall(SYS_close_range, (unsigned)kept + 1, ~0u, 0u) == 0 &&
        (kept == 3 || syscall(SYS_close_range, 3u, (unsigned)kept - 1, 0u) == 0))
        return;
    struct rlimit limit = {.rlim_cur = 0}; /* before Linux 5.9 */
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t most = limit.rlim_cur < LOOKED_AT_MAX ? limit.rlim_cur : LOOKED_AT_MAX;
    for (int fd = 3; (rlim_t)fd < most; fd++)
        if (fd != kept)
            close(fd);
}

/* Raises the limit of open files: a session needs two descriptors, and a data set several. */
static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max < FILES_MAX ? limit.rlim_max : FILES_MAX;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Continues in a child process with its own session. The parent process ends when the service is
 * ready or has failed. Returns the end of a pipe that tells the parent so, or -1. */
static int detach(void)
{
    int report[2];
    char byte;
    if (pipe2(report, O_CLOEXEC) != 0)
        return -1;
    pid_t pid = fork();
    if (pid > 0) {
        close(report[1]);
        ssize_t n;
        while ((n = read(report[0], &byte, 1)) < 0 && errno == EINTR)
            ;
        _exit(n == 1 ? CLI_OK : CLI_FAILED);
    }
    close(report[0]);
    if (pid == 0 && setsid() >= 0) {
        close_others(report[1]);
        return report[1];
    }
    close(report[1]);
    return -1;
}

/* Tells the parent that the service is ready, so the parent may end. All paths must be absolute by
 * then. */
static void detached(int report)
{
    (void)!chdir("/");
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        (void)!dup2(null, fd);
    (void)!write(report, "", 1);
    close(report);
    close(null);
}

static bool is_numa_choice(const char *text)
{
    return strcmp(text, "auto") == 0 || strcmp(text, "none") == 0 ||
           (text[0] && strspn(text, "0123456789") == strlen(text));
}

static int run_service(struct cli *cli, const struct pst_service_options *options, bool detaches)
{
    struct pst_error err;
    int report = detaches ? detach() : -1;
    if (detaches && report < 0) {
        cli_error(&err, PST_ERROR_IO, "cannot detach: %s", strerror(errno));
        return cli_fail(cli, &err);
    }
    enum pst_status status = pst_service_open(options, &running, &err);
    if (status != PST_OK)
        return cli_fail(cli, &err);
    const struct sigaction action = {.sa_handler = end_by_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    raise_limit();
    signal(SIGXFSZ, SIG_IGN); /* file size limits also hold for shared memory */
    cli_note(cli, "serving at %s", pst_service_socket(running));
    if (detaches)
        detached(report);
    notify("READY=1");
    status = pst_service_run(running, &err);
    notify("STOPPING=1");
    signal(SIGINT, SIG_DFL); /* a second signal ends the process immediately */
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_IGN);
    signal(SIGALRM, end_at_once);
    alarm(END_S);
    pst_service_close(&running);
    alarm(0);
    return status == PST_OK ? CLI_OK : cli_fail(cli, &err);
}

static int show_status(struct cli *cli, const char *socket)
{
    struct pst_service_status status;
    struct cli_json json = {0};
    pst_service_report *report;
    struct pst_error err;
    if (cli_ask_service(socket, &report, &status, &err) != PST_OK)
        return cli_fail(cli, &err);
    if (cli->json) {
        cli_json_open(&json, NULL, '{');
        cli_service_json(&json, report);
        cli_json_close(&json, '}');
        putchar('\n');
    } else {
        cli_service_text(report);
    }
    pst_service_report_close(&report);
    return CLI_OK;
}

static int end_service(struct cli *cli, const char *socket)
{
    struct cli_json json = {0};
    struct pst_error err;
    if (pst_service_end(socket, &err) != PST_OK)
        return cli_fail(cli, &err);
    if (cli->json) {
        cli_json_open(&json, NULL, '{');
        cli_json_bool(&json, "ended", true);
        cli_json_close(&json, '}');
        putchar('\n');
    }
    return CLI_OK;
}

int cmd_serve(struct cli *cli, int argc, char **argv)
{
    const char *socket = NULL, *numa = getenv("PENSTOCK_NUMA"), *operands[4] = {0};
    uint64_t memory = 0, threads = 0, linger = 0;
    bool keep = false, detaches = false;
    const struct cli_option options[] = {
        {"memory", 'm', CLI_SIZE, &memory, "SIZE", "half of the free memory",
         "most memory of the host cache"},
        {"threads", 't', CLI_COUNT, &threads, "N", "all cores allowed",
         "threads that read and re-code"},
        {"numa", 0, CLI_TEXT, &numa, "NODE|auto|none", "PENSTOCK_NUMA, else auto",
         "NUMA node for threads and memory; auto: that of the CUDA devices"},
        {"linger", 0, CLI_COUNT, &linger, "SECONDS", "600", "ends so long after the last client"},
        {"keep", 'k', CLI_FLAG, &keep, NULL, NULL, "does not end for want of clients"},
        {"detach", 'd', CLI_FLAG, &detaches, NULL, NULL,
         "returns when the service serves, which goes on in the background, in a session of its "
         "own"},
        CLI_SOCKET_OPTION(socket),
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL}};
    const struct cli_command command = {
        .usage = "serve [status | stop] [options]",
        .about = "Runs the host service in the foreground: one cache for all loaders and processes "
                 "of this user on\n"
                 "this machine (Loader(cache=\"host\")). \"status\" tells what the running service "
                 "does, \"stop\" ends it.",
        .example = "penstock serve --memory 64GiB --keep\n"
                   "penstock serve status --json",
        .options = options,
        .n_max = 1};
    int status = cli_parse(cli, &command, argc, argv, operands);
    if (status >= 0)
        return status;
    if (operands[0] && strcmp(operands[0], "status") == 0)
        return show_status(cli, socket);
    if (operands[0] && strcmp(operands[0], "stop") == 0)
        return end_service(cli, socket);
    if (operands[0])
        return cli_usage(cli, "serve can do \"status\" and \"stop\", not \"%s\"", operands[0]);
    if (threads > 4096 || linger > 1000000000)
        return cli_usage(cli, "--threads is at most 4096, --linger at most 1000000000");
    numa = numa && numa[0] ? numa : "auto";
    if (!is_numa_choice(numa))
        return cli_usage(cli, "--numa is \"%s\": the number of a node, auto or none is expected",
                         numa);
    const struct pst_service_options given = {.struct_size = sizeof given,
                                              .socket = socket,
                                              .cache_nbytes = memory,
                                              .n_threads = (uint32_t)threads,
                                              .linger_s = (uint32_t)linger,
                                              .keep = keep,
                                              .numa = numa};
    return run_service(cli, &given, detaches);
}
