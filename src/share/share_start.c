/* share_start.c - starts the host service on first use.
 *
 * The service must outlive its first client, so it is started as a grandchild in a session of its
 * own, with /dev/null for its input and output. Between fork and exec only functions run that are
 * safe in a process with threads. Two clients may start one each: the lock lets one serve, the
 * other ends at once. */
#include "share/share_host.h"

#include "base/clock.h"
#include "base/fail.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_NS ((int64_t)20 * 1000 * 1000 * 1000)
#define LOOK_NS ((int64_t)20 * 1000 * 1000)

extern char **environ;

/* In the child of the child. */
static void become_service(char *const *arguments, int report)
{
    int null = open("/dev/null", O_RDWR);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 || chdir("/") != 0)
        _exit(127);
    execvp(arguments[0], arguments);
    int os_error = errno;
    (void)!write(report, &os_error, sizeof os_error);
    _exit(127);
}

/* Returns 0, or the errno of what failed. The pipe closes when the program has begun. */
static int spawn(char *const *arguments)
{
    int report[2], os_error = 0, state;
    if (pipe2(report, O_CLOEXEC) != 0)
        return errno;
    pid_t pid = fork();
    if (pid == 0) {
        pid_t service = fork();
        if (service == 0)
            become_service(arguments, report[1]);
        _exit(service < 0);
    }
    if (pid < 0)
        os_error = errno;
    close(report[1]);
    while (pid > 0 && waitpid(pid, &state, 0) < 0 && errno == EINTR)
        ;
    if (pid > 0 && read(report[0], &os_error, sizeof os_error) != (ssize_t)sizeof os_error)
        os_error = 0;
    close(report[0]);
    return os_error;
}

/* Waits until the service answers. */
static enum pst_status await(const char *path, enum psti_session_kind session, int *fd,
                             struct pst_error *err)
{
    int64_t deadline = psti_clock_ns() + START_NS;
    for (;;) {
        enum pst_status status =
            psti_share_connect(path, session, PSTI_LINK_WAIT_NS, fd, NULL, err);
        if (status != PST_ERROR_NOT_FOUND)
            return status;
        if (psti_clock_ns() >= deadline)
            return psti_fail_at(err, PST_ERROR_IO, "share", path, -1,
                                "the host service was started and does not serve: run penstock "
                                "serve to see why");
        psti_clock_sleep_until(psti_clock_ns() + LOOK_NS);
    }
}

enum pst_status psti_share_connect_or_start(const char *path, const char *program,
                                            enum psti_session_kind session, int *fd,
                                            struct pst_error *err)
{
    const char *variable = getenv("PENSTOCK_SERVE");
    char name[4096];
    enum pst_status status = psti_share_connect(path, session, PSTI_LINK_WAIT_NS, fd, NULL, err);
    if (variable && variable[0])
        program = variable;
    if (status != PST_ERROR_NOT_FOUND || !program)
        return status;
    if (strlen(program) >= sizeof name)
        return psti_fail(err, PST_ERROR_ARGUMENT, "share", "the program's path is too long");
    memcpy(name, program, strlen(program) + 1);
    char verb[] = "serve", option[] = "--socket", quiet[] = "--quiet", place[PSTI_SOCKET_PATH_CAP];
    memcpy(place, path, strlen(path) + 1);
    char *const arguments[] = {name, verb, option, place, quiet, NULL};
    int os_error = spawn(arguments);
    if (os_error)
        return psti_fail_os(err, os_error, "share", program, -1,
                            "cannot start the host service by this program");
    return await(path, session, fd, err);
}
