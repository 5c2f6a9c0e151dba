/* cli_part.c - decides which part of the work this process does, by the option --part and the
 * variables that schedulers set.
 *
 * In: the option's text and the environment. Out: part I of N, or wrong use. A scheduler's
 * variables are used only if they agree: a process that did another's part would leave its own
 * undone. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* The part that the variables of one scheduler give. */
struct said {
    const char *by; /* variable that gives the part; NULL: this scheduler set none */
    uint64_t part;  /* from 0 */
    uint64_t n;     /* number of parts; 0: not given */
};

/* Reads a variable as a number. Returns -1, or the exit status if it is no number. */
static int take_number(const struct cli *cli, const char *name, uint64_t otherwise, uint64_t *out)
{
    const char *text = getenv(name);
    *out = otherwise;
    if (text == NULL || text[0] == '\0')
        return -1;
    return cli_count(text, out) && *out <= UINT32_MAX
               ? -1
               : cli_usage(cli, "--part auto: %s is \"%s\", which is no number of parts", name,
                           text);
}

static bool is_set(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0';
}

/* Slurm: tasks of an array, ranks of a step, or ranks of a step in each task of an array. If the
 * array's task numbers have irregular gaps, they do not tell which part a task is. */
static int ask_slurm(const struct cli *cli, struct said *said)
{
    uint64_t task = 0, first, last, step, n_tasks, rank, n_ranks;
    bool has_array = is_set("SLURM_ARRAY_TASK_ID");
    /* In the script of a batch job SLURM_PROCID is always 0 and counts no ranks; only srun sets
     * both variables. */
    bool has_ranks = is_set("SLURM_PROCID") && is_set("SLURM_STEP_NUM_TASKS");
    int status = take_number(cli, "SLURM_ARRAY_TASK_ID", 0, &task);
    if (status < 0)
        status = take_number(cli, "SLURM_ARRAY_TASK_MIN", 0, &first);
    if (status < 0)
        status = take_number(cli, "SLURM_ARRAY_TASK_MAX", 0, &last);
    if (status < 0)
        status = take_number(cli, "SLURM_ARRAY_TASK_STEP", 1, &step);
    if (status < 0)
        status = take_number(cli, "SLURM_ARRAY_TASK_COUNT", 0, &n_tasks);
    if (status < 0)
        status = take_number(cli, "SLURM_PROCID", 0, &rank);
    if (status < 0)
        status = take_number(cli, "SLURM_STEP_NUM_TASKS", 0, &n_ranks);
    if (status >= 0 || (!has_array && !has_ranks))
        return status;
    if (has_array && (step == 0 || n_tasks == 0 || task < first || task > last ||
                      (task - first) % step != 0 || (last - first) / step + 1 != n_tasks))
        return cli_usage(cli,
                         "--part auto: SLURM_ARRAY_TASK_ID is %llu, but SLURM_ARRAY_TASK_MIN, "
                         "_MAX, _STEP and _COUNT do not say which part that is (gaps?): "
                         "give --part I/N",
                         (unsigned long long)task);
    if (has_ranks && rank >= n_ranks)
        return cli_usage(cli,
                         "--part auto: SLURM_PROCID is %llu and SLURM_STEP_NUM_TASKS is %llu",
                         (unsigned long long)rank, (unsigned long long)n_ranks);
    *said = (struct said){
        .by = has_array ? "SLURM_ARRAY_TASK_ID" : "SLURM_PROCID", .part = 0, .n = 1};
    if (has_array)
        *said = (struct said){.by = said->by, .part = (task - first) / step, .n = n_tasks};
    if (has_ranks) {
        said->part = said->part * n_ranks + rank;
        said->n *= n_ranks;
    }
    return status;
}

/* A scheduler that has one variable for the part, from 0, and perhaps another for the number of
 * parts. */
static int ask_plain(const struct cli *cli, const char *index, const char *count, bool needs_count,
                     struct said *said)
{
    uint64_t part, n = 0;
    int status = take_number(cli, index, 0, &part);
    if (status < 0 && count != NULL)
        status = take_number(cli, count, 0, &n);
    if (status >= 0 || !is_set(index))
        return status;
    if (needs_count && n == 0)
        return cli_usage(cli, "--part auto: %s is set, and %s is not", index, count);
    *said = (struct said){.by = index, .part = part, .n = n};
    return status;
}

/* Checks the variables of all schedulers. If several give a part, they must agree. */
static int ask_all(const struct cli *cli, uint64_t n_given, struct said *out)
{
    struct said said[4] = {{0}};
    int status = ask_slurm(cli, &said[0]);
    if (status < 0)
        status = ask_plain(cli, "JOB_COMPLETION_INDEX", NULL, false, &said[1]);
    if (status < 0)
        status = ask_plain(cli, "AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE", false,
                           &said[2]);
    if (status < 0)
        status = ask_plain(cli, "RANK", "WORLD_SIZE", true, &said[3]);
    *out = (struct said){0};
    for (size_t i = 0; status < 0 && i < sizeof said / sizeof said[0]; i++) {
        if (said[i].by == NULL)
            continue;
        if (said[i].n == 0)
            said[i].n = n_given;
        if (said[i].n == 0)
            return cli_usage(cli,
                             "--part auto: %s is set, but nothing says how many parts there are: "
                             "give --part auto/N",
                             said[i].by);
        if (n_given != 0 && said[i].n != n_given)
            return cli_usage(cli, "--part auto/%llu: by %s there are %llu parts",
                             (unsigned long long)n_given, said[i].by,
                             (unsigned long long)said[i].n);
        if (out->by != NULL && (out->part != said[i].part || out->n != said[i].n))
            return cli_usage(cli,
                             "--part auto: %s says part %llu of %llu, %s says %llu of %llu: give "
                             "--part I/N",
                             out->by, (unsigned long long)out->part + 1,
                             (unsigned long long)out->n, said[i].by,
                             (unsigned long long)said[i].part + 1, (unsigned long long)said[i].n);
        *out = said[i];
    }
    if (status < 0 && out->by == NULL)
        return cli_usage(cli, "--part auto: no variable of Slurm, Kubernetes, AWS Batch or "
                              "torchrun is set: give --part I/N");
    return status;
}

/* Reads a number of at least 1, which must be the rest of the text. */
static bool take_n(const char *text, uint64_t *n)
{
    return cli_count(text, n) && *n > 0 && *n <= UINT32_MAX;
}

static int take_auto(const struct cli *cli, const char *text, struct cli_part *part)
{
    struct said said;
    uint64_t n_given = 0;
    if (text[4] != '\0' && (text[4] != '/' || !take_n(text + 5, &n_given)))
        return cli_usage(cli, "--part is \"%s\": I/N, auto or auto/N is expected", text);
    int status = ask_all(cli, n_given, &said);
    if (status >= 0)
        return status;
    if (said.part >= said.n || said.n > UINT32_MAX)
        return cli_usage(cli, "--part auto: %s says part %llu of %llu", said.by,
                         (unsigned long long)said.part + 1, (unsigned long long)said.n);
    part->part = (uint32_t)said.part + 1;
    part->n_parts = (uint32_t)said.n;
    return -1;
}

int cli_take_part(const struct cli *cli, const char *text, struct cli_part *part)
{
    char first[16];
    uint64_t i, n;
    *part = (struct cli_part){0};
    if (text == NULL)
        return -1;
    if (strncmp(text, "auto", 4) == 0)
        return take_auto(cli, text, part);
    const char *slash = strchr(text, '/');
    size_t length = slash != NULL ? (size_t)(slash - text) : sizeof first;
    if (length < sizeof first) {
        memcpy(first, text, length);
        first[length] = '\0';
    }
    if (length >= sizeof first || !take_n(first, &i) || !take_n(slash + 1, &n) || i > n)
        return cli_usage(cli, "--part is \"%s\": I/N with I from 1 to N, or auto, is expected",
                         text);
    part->part = (uint32_t)i;
    part->n_parts = (uint32_t)n;
    return -1;
}
