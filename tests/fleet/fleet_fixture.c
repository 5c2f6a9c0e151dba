/* fleet_fixture.c - starts and ends memcached. */
#include "fleet/fleet_fixture.h"

#include "base/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

bool fleet_is_here(void)
{
    if (system("command -v memcached >/dev/null 2>&1") != 0) {
        printf("skipped: memcached is not installed (scripts/setup.sh check)\n");
        return false;
    }
    return true;
}

static bool answers(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(path))};
    bool local = path[0] == '/';
    tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool connected = fd >= 0 && (local ? connect(fd, (struct sockaddr *)&address, sizeof address)
                                       : connect(fd, (struct sockaddr *)&tcp, sizeof tcp)) == 0;
    if (fd >= 0)
        close(fd);
    return connected;
}

unsigned free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t nbytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &nbytes), 0);
    close(fd);
    return ntohs(address.sin_port);
}

void signal_server(const struct server *server, int signal)
{
    int state;
    if (server->pid <= 0)
        return;
    assert_int_equal(kill(server->pid, signal), 0);
    if (signal == SIGSTOP) /* wait: it runs on for a moment */
        assert_int_equal(waitpid(server->pid, &state, WUNTRACED), server->pid);
}

void start_server(struct server *server, const char *given, unsigned megabytes, ...)
{
    char memory[16], path[100];
    snprintf(path, sizeof path, "%s", given); /* `given` may be the server's own path */
    const char *arguments[24] = {"memcached", "-M", "-m", memory, "-t", "2", NULL, path};
    int n = 8;
    bool local = path[0] == '/';
    arguments[6] = local ? "-s" : "-p";
    if (!local) {
        arguments[n++] = "-l";
        arguments[n++] = "127.0.0.1";
    }
    va_list list;
    snprintf(memory, sizeof memory, "%u", megabytes);
    snprintf(server->path, sizeof server->path, "%s%s", local ? "" : "127.0.0.1:", path);
    if (geteuid() == 0) {
        arguments[n++] = "-u";
        arguments[n++] = "root";
    }
    va_start(list, megabytes);
    while (n < 23 && (arguments[n] = va_arg(list, const char *)) != NULL)
        n++;
    va_end(list);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* the server ends if the test fails */
        execvp("memcached", (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    int64_t end = psti_clock_ns() + (int64_t)60 * 1000000000;
    while (!answers(path)) {
        assert_int_equal(waitpid(server->pid, NULL, WNOHANG), 0);
        assert_true(psti_clock_ns() < end);
        usleep(5000);
    }
}

void end_server(struct server *server, int signal)
{
    if (server->pid <= 0)
        return;
    kill(server->pid, signal);
    while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    server->pid = 0;
    unlink(server->path);
}

const char *list_of(const struct server *servers, int n, char list[1024])
{
    size_t at = 0;
    list[0] = 0;
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(list + at, 1024 - at, "%s%s", i ? "," : "", servers[i].path);
    return list;
}

pst_fleet *open_fleet(const char *servers, double timeout_seconds, uint64_t max_item_nbytes)
{
    const struct pst_fleet_options options = {.struct_size = sizeof options,
                                              .servers = servers,
                                              .timeout_seconds = timeout_seconds,
                                              .max_item_nbytes = max_item_nbytes};
    pst_fleet *fleet = NULL;
    struct pst_error err;
    assert_ok(pst_fleet_open(&options, &fleet, &err));
    return fleet;
}

struct pst_fleet_stats fleet_use(pst_fleet *fleet)
{
    struct pst_fleet_stats stats;
    pst_fleet_stats(fleet, &stats, sizeof stats);
    return stats;
}

void await_servers(pst_fleet *fleet, uint32_t n_up)
{
    int64_t end = psti_clock_ns() + (int64_t)60 * 1000000000;
    while (fleet_use(fleet).n_servers_up != n_up) {
        assert_true(psti_clock_ns() < end);
        usleep(2000);
    }
}
