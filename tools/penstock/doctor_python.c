/* doctor_python.c - checks the Python that verbs and training use: the one in PENSTOCK_PYTHON, or
 * the one beside this program. Child processes with deadlines ask it for versions, and let HiGHS
 * solve a tiny plan, so that a hang or crash there is only reported. */
#include "cli.h"
#include "doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEADLINE_S 10.0
#define SOLVER_DEADLINE_S 30.0

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Runs in the child: sends output into the pipe and errors to /dev/null, then starts the program.
 */
static void run_child(char *const argv[], int out)
{
    int null = open("/dev/null", O_RDWR);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDERR_FILENO);
    }
    dup2(out, STDOUT_FILENO);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0);
    execvp(argv[0], argv);
    _exit(127);
}

/* Reads until the pipe ends, the buffer is full or the deadline has passed. */
static bool read_until(int fd, double deadline, char *out, size_t capacity)
{
    size_t n = 0;
    for (;;) {
        double left = deadline - now();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (left <= 0)
            return false;
        int ready = poll(&wait, 1, (int)(1000 * left) + 1);
        if (ready < 0 && errno != EINTR)
            return false;
        if (ready <= 0)
            continue;
        ssize_t got = read(fd, out + n, capacity - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || n + (size_t)got + 1 >= capacity) {
            out[n + (got > 0 ? (size_t)got : 0)] = '\0';
            return true;
        }
        n += (size_t)got;
    }
}

/* Waits for the child until the deadline. */
static bool wait_until(pid_t child, double deadline, int *status)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    for (;;) {
        pid_t ended = waitpid(child, status, WNOHANG);
        if (ended == child)
            return true;
        if ((ended < 0 && errno != EINTR) || now() > deadline)
            return false;
        nanosleep(&pause, NULL);
    }
}

int doctor_run(char *const argv[], double seconds, char *out, size_t capacity)
{
    int pipes[2], status = 0;
    double deadline = now() + seconds;
    out[0] = '\0';
    if (pipe2(pipes, O_CLOEXEC) != 0)
        return 127;
    pid_t child = fork();
    if (child == 0)
        run_child(argv, pipes[1]);
    close(pipes[1]);
    bool ended = child > 0 && read_until(pipes[0], deadline, out, capacity) &&
                 wait_until(child, deadline, &status);
    close(pipes[0]);
    if (child > 0 && !ended) {
        (void)kill(-child, SIGKILL);
        (void)kill(child, SIGKILL);
        (void)waitpid(child, &status, 0);
        return -1;
    }
    if (child < 0)
        return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A script that prints a JSON object. It reads versions without importing packages, because torch
 * takes seconds; it does import penstock, to see if that works. */
static const char script[] = "import importlib.metadata as m, json, platform\n"
                             "out = {'python': platform.python_version()}\n"
                             "for name in ('numpy', 'torch', 'Pillow'):\n"
                             "    try: out[name] = m.version(name)\n"
                             "    except m.PackageNotFoundError: out[name] = ''\n"
                             "try:\n"
                             "    import penstock\n"
                             "    out['penstock'] = penstock.__version__\n"
                             "except Exception as error:\n"
                             "    out['reason'] = f'{type(error).__name__}: {error}'\n"
                             "print(json.dumps(out))\n";

static const char *text_of(const struct json_node *object, const char *name)
{
    const struct json_node *node = json_member(object, name);
    return node == NULL || node->text == NULL ? "" : node->text;
}

static void add_package(struct doctor *doctor, const struct json_node *found, const char *path)
{
    const char *version = text_of(found, "penstock");
    struct doctor_check *check;
    if (version[0] == '\0') {
        check =
            doctor_add(doctor, "package", "import penstock fails: %s", text_of(found, "reason"));
        if (cli_is_of_wheel) /* the package that came with this program is missing or broken */
            doctor_advise(check, DOCTOR_BAD,
                          "%s -m pip install --force-reinstall penstock==%s, or name the right "
                          "Python by PENSTOCK_PYTHON",
                          path, pst_version());
        else
            doctor_advise(check, DOCTOR_NOTE, "to train from Python: %s -m pip install ./python",
                          path);
        return;
    }
    check = doctor_add(doctor, "package", "penstock %s", version);
    if (strcmp(version, pst_version()) != 0)
        doctor_advise(check, DOCTOR_BAD,
                      "this program is %s: install both from one version, or name the right "
                      "Python by PENSTOCK_PYTHON",
                      pst_version());
}

static void add_versions(struct doctor *doctor, const struct json_node *found, const char *path)
{
    const char *numpy = text_of(found, "numpy"), *torch = text_of(found, "torch"),
               *pillow = text_of(found, "Pillow");
    struct doctor_check *check;
    doctor_add(doctor, "python", "%s (%s)", text_of(found, "python"), path);
    add_package(doctor, found, path);
    check = doctor_add(doctor, "numpy", "%s", numpy[0] == '\0' ? "not installed" : numpy);
    if (numpy[0] == '\0')
        doctor_advise(check, text_of(found, "penstock")[0] == '\0' ? DOCTOR_NOTE : DOCTOR_BAD,
                      "the package needs it: %s -m pip install numpy", path);
    check = doctor_add(doctor, "torch", "%s", torch[0] == '\0' ? "not installed" : torch);
    if (torch[0] == '\0')
        doctor_advise(check, DOCTOR_NOTE,
                      "only for torch tensors and ps.TorchDataset: %s -m pip install torch", path);
    check = doctor_add(doctor, "pillow", "%s", pillow[0] == '\0' ? "not installed" : pillow);
    if (pillow[0] == '\0')
        doctor_advise(check, DOCTOR_NOTE,
                      "only for penstock view: %s -m pip install 'penstock[view]'", path);
}

/* Checks that HiGHS can be loaded and solves a tiny plan. An installed version that cannot do so is
 * a problem. */
static void check_solver(struct doctor *doctor, char *path)
{
    char out[2048];
    struct json_node nodes[JSON_NODES(sizeof out)];
    struct pst_error err;
    char safe[] = "-P", flag[] = "-m", module[] = "penstock.planning.solver";
    char *const argv[] = {path, safe, flag, module, NULL};
    int status = doctor_run(argv, SOLVER_DEADLINE_S, out, sizeof out);
    struct doctor_check *check;
    if (status != 0 || json_read(out, strlen(out), nodes, &err) != PST_OK) {
        check = status < 0 ? doctor_add(doctor, "highs", "did not solve a tiny plan within %.0f s",
                                        SOLVER_DEADLINE_S)
                           : doctor_add(doctor, "highs",
                                        "failed: %s -m penstock.planning.solver ended "
                                        "with status %d",
                                        path, status);
        doctor_advise(check, DOCTOR_BAD,
                      "for plan and tune: %s -m pip install --force-reinstall "
                      "highspy",
                      path);
        return;
    }
    const char *works = text_of(&nodes[0], "found");
    const struct json_node *missing = json_member(&nodes[0], "missing");
    if (works[0] != '\0') {
        doctor_add(doctor, "highs", "%s solves plans", works);
    } else if (missing != NULL && missing->kind == JSON_BOOL && missing->number != 0) {
        check = doctor_add(doctor, "highs", "not installed");
        doctor_advise(check, DOCTOR_NOTE,
                      "only for plan and tune: %s -m pip install "
                      "'penstock[plan]'",
                      path);
    } else {
        check = doctor_add(doctor, "highs", "does not work");
        doctor_advise(check, DOCTOR_BAD, "for plan and tune: %s", text_of(&nodes[0], "reason"));
    }
}

static void check_sndfile(struct doctor *doctor)
{
    char text[256];
    bool found = pst_audio_has_sndfile(text, sizeof text);
    struct doctor_check *check = doctor_add(doctor, "libsndfile", "%s", found ? text : "not found");
    if (!found)
        doctor_advise(check, DOCTOR_NOTE,
                      "only for audio files other than WAV: apt install libsndfile1, or pip "
                      "install soundfile");
}

void doctor_python(struct doctor *doctor)
{
    char path[PATH_MAX], out[4096];
    struct json_node nodes[JSON_NODES(sizeof out)];
    struct pst_error err;
    check_sndfile(doctor);
    if (!cli_find_python(path)) {
        doctor_advise(doctor_add(doctor, "python", "none beside this program"), DOCTOR_NOTE,
                      "name the one that has the package by PENSTOCK_PYTHON");
        return;
    }
    char code[sizeof script];
    memcpy(code, script, sizeof script);
    char safe[] = "-P", command[] = "-c"; /* -P: do not import from the working directory */
    char *const argv[] = {path, safe, command, code, NULL};
    int status = doctor_run(argv, DEADLINE_S, out, sizeof out);
    if (status == 0 && json_read(out, strlen(out), nodes, &err) == PST_OK) {
        add_versions(doctor, &nodes[0], path);
        if (text_of(&nodes[0], "penstock")[0] != '\0')
            check_solver(doctor, path);
        return;
    }
    struct doctor_check *check;
    if (status < 0)
        check = doctor_add(doctor, "python", "%s did not answer within %.0f s", path, DEADLINE_S);
    else
        check = doctor_add(doctor, "python", "%s %s", path,
                           status == 127 ? "cannot be run" : "failed when asked for versions");
    doctor_advise(check, DOCTOR_BAD, "PENSTOCK_PYTHON names a Python of 3.11 or newer");
}
