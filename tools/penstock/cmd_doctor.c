/* cmd_doctor.c - the verb doctor: reports what works on this machine, what is missing, and how to
 * fix it. It changes nothing. */
#include "cli.h"
#include "doctor.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct doctor_check *doctor_add(struct doctor *doctor, const char *name, const char *format, ...)
{
    struct doctor_check *check = &doctor->checks[doctor->n];
    doctor->n += doctor->n + 1 < DOCTOR_CHECKS_MAX;
    *check = (struct doctor_check){.name = name, .state = DOCTOR_OK};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(check->text, sizeof check->text, format, arguments);
    va_end(arguments);
    return check;
}

void doctor_advise(struct doctor_check *check, enum doctor_state state, const char *format, ...)
{
    va_list arguments;
    check->state = state;
    va_start(arguments, format);
    vsnprintf(check->advice, sizeof check->advice, format, arguments);
    va_end(arguments);
}

static const char *member(const struct json_node *environment, const char *name)
{
    const struct json_node *node = json_member(environment, name);
    return node == NULL || node->text == NULL ? "" : node->text;
}

static void check_cpu(struct doctor *doctor, const struct json_node *environment)
{
    const char *used = member(environment, "cpu_used"),
               *found = member(environment, "cpu_detected");
    struct doctor_check *check = doctor_add(
        doctor, "cpu", "%s, %s found, %u cores for this process", used, found, pst_cores());
    if (strcmp(used, found) != 0)
        doctor_advise(check, DOCTOR_NOTE,
                      "PENSTOCK_CPU_MASK lowers the level: unset it for full speed");
    else if (strcmp(used, "c") == 0)
        doctor_advise(
            check, DOCTOR_NOTE,
            "plain C decodes at a fraction of the speed: take a machine with AVX2 or NEON");
}

static void check_storage(struct doctor *doctor, const struct json_node *environment)
{
    const char *storage = member(environment, "storage");
    if (strcmp(storage, "io_uring") == 0) {
        doctor_add(doctor, "io_uring", "works");
        return;
    }
    struct doctor_check *check = doctor_add(doctor, "io_uring", "%s read instead: %s", storage,
                                            member(environment, "storage_reason"));
    doctor_advise(check, DOCTOR_NOTE,
                  "Linux 5.6 or newer, sysctl kernel.io_uring_disabled=0, and a container whose "
                  "seccomp profile allows io_uring_setup");
}

/* Says how to get the GPU kernels: a wheel has them in a separate wheel of the same version. */
static void advise_kernels(struct doctor_check *check, bool has_gpu)
{
    char python[PATH_MAX];
    enum doctor_state state = has_gpu ? DOCTOR_BAD : DOCTOR_NOTE;
    if (cli_is_of_wheel)
        doctor_advise(check, state, "for batches on a GPU: %s -m pip install penstock-cuda==%s",
                      cli_find_python(python) ? python : "python3", pst_version());
    else if (cli_find_python(python))
        doctor_advise(
            check, state,
            "for batches on a GPU: %s -m pip install penstock-cuda==%s; where Penstock is "
            "built from source, build it with nvcc (-DPST_CUDA=ON)",
            python, pst_version());
    else
        doctor_advise(check, state,
                      "build with nvcc (-DPST_CUDA=ON), or name the library by "
                      "PENSTOCK_CUDA_KERNELS");
}

static void check_gpus(struct doctor *doctor, const struct json_node *environment)
{
    const struct json_node *gpus = json_member(environment, "gpus");
    struct doctor_check *check;
    if (gpus == NULL || gpus->n == 0) {
        check = doctor_add(doctor, "gpu", "none: %s", member(environment, "gpus_reason"));
        doctor_advise(check, DOCTOR_NOTE,
                      "for batches on a GPU: the NVIDIA driver (libcuda.so.1), and in a container "
                      "the NVIDIA container toolkit; nothing else needs it");
    } else {
        doctor_add(doctor, "gpu", "%u: %s", gpus->n, member(gpus->first, "name"));
    }
    bool kernels = member(environment, "gpu_kernels")[0] != '\0';
    check = doctor_add(doctor, "gpu kernels", "%s",
                       kernels ? member(environment, "gpu_kernels")
                               : member(environment, "gpu_kernels_reason"));
    if (!kernels)
        advise_kernels(check, gpus != NULL && gpus->n > 0);
}

void doctor_library(struct doctor *doctor, const struct json_node *environment)
{
    const struct json_node *codecs = json_member(environment, "codecs");
    doctor_add(doctor, "penstock", "%s for %s, compiler %s", member(environment, "version"),
               member(environment, "architecture"), member(environment, "compiler"));
    doctor_add(doctor, "codecs", "%s; %s; %s", member(codecs, "jpeg"), member(codecs, "png"),
               member(codecs, "webp"));
    check_cpu(doctor, environment);
    check_storage(doctor, environment);
    check_gpus(doctor, environment);
}

static const char *const states[] = {"ok", "note", "bad"};

static void print_json(const struct doctor *doctor, bool hinders)
{
    struct cli_json json = {0};
    cli_json_open(&json, NULL, '{');
    cli_json_bool(&json, "ok", !hinders);
    cli_json_open(&json, "checks", '[');
    for (uint32_t i = 0; i < doctor->n; i++) {
        const struct doctor_check *check = &doctor->checks[i];
        cli_json_open(&json, NULL, '{');
        cli_json_text(&json, "name", check->name);
        cli_json_text(&json, "state", states[check->state]);
        cli_json_text(&json, "text", check->text);
        cli_json_text(&json, "advice", check->advice[0] == '\0' ? NULL : check->advice);
        cli_json_close(&json, '}');
    }
    cli_json_close(&json, ']');
    cli_json_close(&json, '}');
}

static void print_text(const struct cli *cli, const struct doctor *doctor, uint32_t n_notes,
                       uint32_t n_bad)
{
    for (uint32_t i = 0; i < doctor->n; i++) {
        const struct doctor_check *check = &doctor->checks[i];
        if (cli->quiet && check->state == DOCTOR_OK)
            continue;
        printf("%-4s  %-13s ", check->state == DOCTOR_BAD ? "BAD" : states[check->state],
               check->name);
        cli_print_name(stdout, check->text);
        if (check->advice[0] != '\0') {
            printf("\n%20s-> ", "");
            cli_print_name(stdout, check->advice);
        }
        putchar('\n');
    }
    if (n_bad == 0)
        printf("nothing hinders Penstock here");
    else
        cli_print_count(n_bad, "thing hinders Penstock here", "things hinder Penstock here");
    fputs(", ", stdout);
    cli_print_count(n_notes, "note", "notes");
    putchar('\n');
}

int cmd_doctor(struct cli *cli, int argc, char **argv)
{
    const struct cli_option options[] = {{NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL}};
    const struct cli_command command = {
        .usage = "doctor [options]",
        .about = "Checks this machine and says what works, what is missing and what to do: \"ok\" "
                 "works; \"note\" costs\n"
                 "speed or a feature; \"BAD\" hinders, and the exit status is 1. Nothing is "
                 "changed.",
        .example = "penstock doctor\n"
                   "penstock doctor --quiet",
        .options = options,
    };
    const char *operands[4] = {0};
    int status = cli_parse(cli, &command, argc, argv, operands);
    if (status >= 0)
        return status;
    struct doctor doctor = {.n = 0};
    struct pst_error err;
    size_t nbytes = 0;
    uint32_t n_notes = 0, n_bad = 0;
    char *text = cli_environment(&nbytes);
    struct json_node *nodes = malloc(JSON_NODES(nbytes) * sizeof *nodes);
    if (text == NULL || nodes == NULL)
        cli_error(&err, PST_ERROR_MEMORY, "out of memory");
    else
        (void)!json_read(text, nbytes, nodes, &err);
    if (err.status == PST_OK) {
        doctor_library(&doctor, &nodes[0]);
        doctor_system(&doctor);
        doctor_python(&doctor);
    }
    free(nodes);
    free(text);
    if (err.status != PST_OK)
        return cli_fail(cli, &err);
    for (uint32_t i = 0; i < doctor.n; i++) {
        n_notes += doctor.checks[i].state == DOCTOR_NOTE;
        n_bad += doctor.checks[i].state == DOCTOR_BAD;
    }
    if (cli->json)
        print_json(&doctor, n_bad > 0);
    else
        print_text(cli, &doctor, n_notes, n_bad);
    return n_bad > 0 ? CLI_FAILED : CLI_OK;
}
