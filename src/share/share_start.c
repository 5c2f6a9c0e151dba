/* share_start.c - starts the host service on first use.
 *
 * The program is started as `PROGRAM serve --detach`, in a session of its own. It returns when the
 * service runs. So the service is no child of this process, and outlives it. If two clients each
 * start a service, the lock file lets only one serve, and the other ends at once. */
#include "share/share_host.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "share/share_life.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_NS ((int64_t)20 * 1000 * 1000 * 1000)
#define LOOK_NS ((int64_t)20 * 1000 * 1000)

extern char **environ;

/* Runs the program until it has started the service or failed. Returns 0, or the errno of the step
 * that failed. The program's output is discarded, because it is meant for a terminal. */
static int spawn(char *const *arguments, const struct psti_share_stop *stop)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t pid;
    int state;
    int os_error = posix_spawn_file_actions_init(&files);
    if (os_error)
        return os_error;
    if ((os_error = posix_spawnattr_init(&attributes)) != 0)
        goto fail_attributes;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    for (int fd = 0; fd < 3 && !os_error; fd++)
        os_error = posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
    if (!os_error)
        os_error = posix_spawnp(&pid, arguments[0], &files, &attributes, arguments, environ);
    /* If the host program ignores SIGCHLD, waitpid finds no child. */
    pid_t ended = 0;
    while (!os_error && ended == 0 && !psti_share_is_stopped(stop)) {
        ended = waitpid(pid, &state, WNOHANG);
        if (ended == 0)
            psti_clock_sleep_until(psti_clock_ns() + LOOK_NS / 4);
    }
    posix_spawnattr_destroy(&attributes);
fail_attributes:
    posix_spawn_file_actions_destroy(&files);
    return os_error;
}

/* Connects to the service again and again until it answers. */
static enum pst_status await(const char *path, enum psti_session_kind session,
                             const struct psti_share_stop *stop, int *fd, struct pst_error *err)
{
    int64_t deadline = psti_clock_ns() + START_NS;
    for (;;) {
        enum pst_status status =
            psti_share_connect(path, session, PSTI_LINK_WAIT_NS, stop, fd, NULL, err);
        if (status != PST_ERROR_NOT_FOUND)
            return status;
        if (psti_clock_ns() >= deadline)
            return psti_fail_at(err, PST_ERROR_IO, "share", path, -1,
                                "the host service was started and does not serve: run penstock "
                                "serve to see why");
        psti_clock_sleep_until(psti_clock_ns() + LOOK_NS);
    }
}

/* Warns if the service belongs to a job's control group, and so will end with that job. */
static void warn(int fd, bool started)
{
    char text[512];
    pid_t service = 0;
    if (psti_share_check_peer(fd, "host service", &service, NULL) == PST_OK &&
        psti_share_life_warning("", service, started, text, sizeof text))
        psti_log(PST_LOG_WARNING, "share", "%s", text);
}

static enum pst_status start(const char *path, const char *program, enum psti_session_kind session,
                             const struct psti_share_stop *stop, int *fd, struct pst_error *err)
{
    const char *variable = getenv("PENSTOCK_SERVE");
    char name[4096];
    if (variable && variable[0])
        program = variable;
    if (strlen(program) >= sizeof name)
        return psti_fail(err, PST_ERROR_ARGUMENT, "share", "the program's path is too long");
    memcpy(name, program, strlen(program) + 1);
    char verb[] = "serve", option[] = "--socket", detach[] = "--detach",
         place[PSTI_SOCKET_PATH_CAP];
    memcpy(place, path, strlen(path) + 1);
    char *const arguments[] = {name, verb, option, place, detach, NULL};
    int os_error = spawn(arguments, stop);
    if (os_error)
        return psti_fail_os(err, os_error, "share", program, -1,
                            "cannot start the host service by this program");
    return await(path, session, stop, fd, err);
}

enum pst_status psti_share_connect_or_start(const char *path, const char *program,
                                            enum psti_session_kind session, int64_t wait_ns,
                                            const struct psti_share_stop *stop, int *fd,
                                            struct pst_error *err)
{
    enum pst_status status = psti_share_connect(path, session, wait_ns, stop, fd, NULL, err);
    bool starts = status == PST_ERROR_NOT_FOUND && program;
    if (starts)
        status = start(path, program, session, stop, fd, err);
    if (status == PST_OK)
        warn(*fd, starts);
    return status;
}
