/* cmd_unpack.c - the verb unpack: writes a data set's original files into a folder.
 *
 * Workers take samples in order, one at a time, and write a file for each. The calling thread
 * waits, shows progress and watches for an interrupt. The first failure stops everything, unless
 * bad samples are to be skipped. The label file is written last. */
#include "unpack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WORKERS = 256 };

struct unpack {
    struct cli *cli;
    struct cli_json json;
    struct unpack_plan plan;
    struct unpack_labels labels;
    bool skips;
    char *skipped; /* [count]: true for bad samples */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    /* Members that the lock guards: */
    uint64_t next, n_done, n_files, n_masks, n_restored, n_other, n_there, n_bad, nbytes;
    uint32_t n_workers, n_running;
    struct unpack_names names;
    bool stops;
    enum pst_status status;
    struct pst_error err;
};

/* The result of one sample's work. */
struct outcome {
    struct unpack_file file;
    bool was_there;
    size_t nbytes;
};

static bool same_pixels(const struct cli_image *a, const struct cli_image *b)
{
    return a->pixels.height == b->pixels.height && a->pixels.width == b->pixels.width &&
           a->pixels.channels == b->pixels.channels && a->pixels.bits == b->pixels.bits &&
           a->nbytes == b->nbytes && memcmp(a->pixels.data, b->pixels.data, a->nbytes) == 0;
}

/* Checks that an existing PNG has the sample's pixels. */
static enum pst_status compare_pixels(const struct unpack_plan *plan, uint64_t sample,
                                      uint32_t i_field, const struct unpack_file *file, bool *same,
                                      struct pst_error *err)
{
    struct pst_item png = {.form = PST_FORM_PNG};
    struct cli_image held = {0}, wanted = {0};
    void *bytes = NULL, *stored = NULL;
    size_t nbytes;
    struct pst_error unused;
    *same = false;
    enum pst_status status =
        cli_read_item(plan->dataset, sample, i_field, file->variant, &file->item, &stored, err);
    if (status == PST_OK)
        status = cli_decode(&file->item, stored, false, &wanted, err);
    if (status == PST_OK)
        status = unpack_read(plan, file->path, &bytes, &nbytes, err);
    if (status == PST_OK) {
        png.nbytes = nbytes;
        *same =
            cli_decode(&png, bytes, false, &held, &unused) == PST_OK && same_pixels(&held, &wanted);
    }
    free(held.pixels.data);
    free(wanted.pixels.data);
    free(bytes);
    free(stored);
    return status;
}

/* When resuming: checks that an existing file has the right length, or the pixels of the sample.
 * Names are unique, so the file can only belong to this sample. */
static enum pst_status look(const struct unpack_plan *plan, uint64_t sample, uint32_t i_field,
                            const struct unpack_file *file, bool *there, struct pst_error *err)
{
    uint64_t nbytes, wanted = file->restores ? file->item.jpeg_nbytes : file->item.nbytes;
    enum pst_status status = PST_OK;
    *there = false;
    if (plan->resume)
        status = unpack_look(plan, file->path, there, &nbytes, err);
    if (status != PST_OK || !*there)
        return status;
    bool same = nbytes == wanted;
    if (file->encodes)
        status = compare_pixels(plan, sample, i_field, file, &same, err);
    if (status != PST_OK || same)
        return status;
    cli_error(err, PST_ERROR_EXISTS, "something else is there already");
    snprintf(err->file, sizeof err->file, "%.200s", file->path);
    return PST_ERROR_EXISTS;
}

/* Makes the contents of the file; the caller frees them. */
static enum pst_status make_bytes(const struct unpack_plan *plan, uint64_t sample, uint32_t i_field,
                                  const struct unpack_file *file, void **bytes, size_t *nbytes,
                                  struct pst_error *err)
{
    const struct pst_pli_encode_options unused = {.struct_size = sizeof unused};
    char head[CLI_HEAD_CAP];
    struct cli_image image = {0};
    enum pst_status status =
        cli_read_item(plan->dataset, sample, i_field, file->variant, &file->item, bytes, err);
    *nbytes = (size_t)file->item.nbytes;
    if (status == PST_OK && file->restores)
        return cli_restore_jpeg(bytes, nbytes, err);
    if (status != PST_OK || !file->encodes)
        return status;
    status = cli_decode(&file->item, *bytes, false, &image, err);
    free(*bytes);
    *bytes = NULL;
    if (status == PST_OK)
        status = cli_encode(&image, CLI_AS_PNG, &unused, head, bytes, nbytes, err);
    free(image.pixels.data);
    return status;
}

/* Chooses and reserves the names of a sample's files. The caller holds the lock. */
static enum pst_status take_names(struct unpack *unpack, uint64_t sample, struct outcome *image,
                                  struct outcome *mask, struct pst_error *err)
{
    const struct unpack_plan *plan = &unpack->plan;
    enum pst_status status = PST_OK;
    for (int i = 0; status == PST_OK && i < (plan->i_mask >= 0 ? 2 : 1); i++) {
        struct unpack_file *file = i == 0 ? &image->file : &mask->file;
        status = unpack_find(plan, sample, i > 0, file, err);
        if (status == PST_OK)
            status = unpack_claim(plan, &unpack->names, sample, i > 0, file->path, err);
        if (status != PST_OK && err->dataset[0] == '\0')
            cli_locate(err, plan->dataset, sample, &file->item);
    }
    return status;
}

static enum pst_status write_one(const struct unpack_plan *plan, const char *temporary,
                                 uint64_t sample, bool mask, struct outcome *outcome,
                                 struct pst_error *err)
{
    uint32_t i_field = (uint32_t)(mask ? plan->i_mask : plan->i_image);
    void *bytes = NULL;
    enum pst_status status = look(plan, sample, i_field, &outcome->file, &outcome->was_there, err);
    if (status == PST_OK && !outcome->was_there) {
        status = make_bytes(plan, sample, i_field, &outcome->file, &bytes, &outcome->nbytes, err);
        if (status == PST_OK)
            status = unpack_write(plan, temporary, outcome->file.path, bytes, outcome->nbytes, err);
    }
    free(bytes);
    if (status != PST_OK && err->dataset[0] == '\0')
        cli_locate(err, plan->dataset, sample, &outcome->file.item);
    return status;
}

/* Adds the outcome to the counters. The caller holds the lock. */
static void count(struct unpack *unpack, const struct outcome *outcome)
{
    unpack->n_files++;
    unpack->nbytes += outcome->nbytes;
    unpack->n_there += outcome->was_there;
    unpack->n_restored += outcome->file.restores && !outcome->was_there;
    unpack->n_other += !outcome->file.is_original;
}

/* True if the failure concerns this sample only. */
static bool is_bad_sample(enum pst_status status)
{
    return status == PST_ERROR_CORRUPT || status == PST_ERROR_TRUNCATED ||
           status == PST_ERROR_CHECKSUM || status == PST_ERROR_UNSUPPORTED ||
           status == PST_ERROR_ARGUMENT || status == PST_ERROR_NOT_FOUND ||
           status == PST_ERROR_VERSION || status == PST_ERROR_LIMIT || status == PST_ERROR_EXISTS;
}

static void report_bad(struct unpack *unpack, uint64_t sample, const struct pst_error *err)
{
    char name[PST_NAME_CAP];
    unpack->n_bad++;
    unpack->skipped[sample] = 1;
    if (unpack->cli->json) {
        bool known = pst_dataset_sample_name(unpack->plan.dataset, sample, name, NULL) == PST_OK;
        cli_json_open(&unpack->json, NULL, '{');
        cli_json_text(&unpack->json, "name", known ? name : NULL);
        cli_json_error(&unpack->json, "error", err);
        cli_json_close(&unpack->json, '}');
    }
    cli_complain(unpack->cli, err);
}

static void *work(void *arg)
{
    struct unpack *unpack = arg;
    const struct unpack_plan *plan = &unpack->plan;
    char temporary[40];
    pthread_mutex_lock(&unpack->lock);
    snprintf(temporary, sizeof temporary, UNPACK_TEMPORARY, unpack->n_running++);
    while (!unpack->stops && unpack->next < pst_dataset_count(plan->dataset)) {
        struct outcome image = {0}, mask = {0};
        struct pst_error err;
        uint64_t sample = unpack->next++;
        pst_error_clear(&err);
        enum pst_status status = take_names(unpack, sample, &image, &mask, &err);
        pthread_mutex_unlock(&unpack->lock);
        if (status == PST_OK)
            status = write_one(plan, temporary, sample, false, &image, &err);
        if (status == PST_OK && plan->i_mask >= 0)
            status = write_one(plan, temporary, sample, true, &mask, &err);
        pthread_mutex_lock(&unpack->lock);
        unpack->n_done++;
        if (status == PST_OK) {
            count(unpack, &image);
            if (plan->i_mask >= 0)
                count(unpack, &mask);
            unpack->n_masks += plan->i_mask >= 0;
        } else if (unpack->skips && is_bad_sample(status)) {
            report_bad(unpack, sample, &err);
        } else if (!unpack->stops) {
            unpack->stops = true;
            unpack->status = status;
            unpack->err = err;
        }
        pthread_cond_signal(&unpack->moved);
    }
    unpack->n_workers--;
    pthread_cond_signal(&unpack->moved);
    pthread_mutex_unlock(&unpack->lock);
    return NULL;
}

/* Waits until all workers have ended. The caller holds the lock. */
static void watch(struct unpack *unpack)
{
    while (unpack->n_workers > 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&unpack->moved, &unpack->lock, &until);
        const struct pst_progress progress = {.n_done = unpack->n_done,
                                              .n_total = pst_dataset_count(unpack->plan.dataset),
                                              .nbytes_in = unpack->nbytes};
        if (cli_progress(unpack->cli, "unpack", &progress) != 0 && !unpack->stops) {
            unpack->stops = true;
            unpack->status = cli_error(&unpack->err, PST_ERROR_CANCELLED, "cancelled");
        }
    }
    cli_progress_end(unpack->cli);
}

static uint32_t count_cores(void)
{
    const char *text = getenv("PENSTOCK_NUM_THREADS");
    uint64_t n = 0;
    cpu_set_t set;
    if (text != NULL && cli_count(text, &n) && n > 0)
        return n < MAX_WORKERS ? (uint32_t)n : MAX_WORKERS;
    n = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint64_t)CPU_COUNT(&set) : 1;
    return n < MAX_WORKERS ? (uint32_t)n : MAX_WORKERS;
}

static void write_files(struct unpack *unpack, uint32_t n_workers)
{
    pthread_t threads[MAX_WORKERS];
    uint32_t n = 0;
    pthread_mutex_lock(&unpack->lock);
    while (n < n_workers && pthread_create(&threads[n], NULL, work, unpack) == 0)
        n++;
    unpack->n_workers = n;
    if (n == 0)
        unpack->status = cli_error(&unpack->err, PST_ERROR_MEMORY, "no thread can be started");
    watch(unpack);
    pthread_mutex_unlock(&unpack->lock);
    for (uint32_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

static enum pst_status fail_folder(const struct unpack_plan *plan, enum pst_status status,
                                   int os_error, const char *what, struct pst_error *err)
{
    cli_error(err, status, "%s", what);
    err->os_error = os_error;
    snprintf(err->file, sizeof err->file, "%.200s", plan->folder);
    return status;
}

/* Opens the folder, which must be new or empty unless existing files may stay. The caller may pass
 * a link to an existing folder. */
static enum pst_status open_folder(struct unpack_plan *plan, struct pst_error *err)
{
    bool empty = true, made = mkdir(plan->folder, 0777) == 0;
    int os_error = errno, fd = -1;
    DIR *directory = NULL;
    if (made || os_error == EEXIST)
        plan->fd = open(plan->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (made ? O_NOFOLLOW : 0));
    if (plan->fd >= 0)
        fd = openat(plan->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && (directory = fdopendir(fd)) == NULL)
        (void)close(fd);
    if (directory == NULL)
        return fail_folder(plan, PST_ERROR_IO, made || os_error == EEXIST ? errno : os_error,
                           "the folder cannot be made", err);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        empty = empty && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0);
    closedir(directory);
    if (empty || plan->resume)
        return PST_OK;
    return fail_folder(plan, PST_ERROR_EXISTS, 0,
                       "the folder is not empty, and nothing is overwritten; with --resume files "
                       "that are there stay",
                       err);
}

/* Locks the folder, because two runs would use the same names for unfinished files, which are the
 * numbers of workers. Removes unfinished files of a killed run. If the file system has no locks,
 * the run continues without one. */
static enum pst_status hold_folder(const struct unpack_plan *plan, struct pst_error *err)
{
    char name[40];
    if (flock(plan->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return fail_folder(plan, PST_ERROR_BUSY, 0, "another run is unpacking into the folder",
                           err);
    for (unsigned i = 0; i < MAX_WORKERS; i++) {
        snprintf(name, sizeof name, UNPACK_TEMPORARY, i);
        (void)unlinkat(plan->fd, name, 0);
    }
    (void)unlinkat(plan->fd, UNPACK_LABELS_TEMPORARY, 0);
    return PST_OK;
}

/* Chooses the fields whose values become files. */
static enum pst_status choose_fields(struct unpack_plan *plan, struct pst_error *err)
{
    plan->i_image = pst_dataset_find_field(plan->dataset, "image");
    if (plan->i_image < 0 ||
        pst_dataset_field(plan->dataset, (uint32_t)plan->i_image)->type != PST_FIELD_IMAGE)
        plan->i_image = cli_field_of_type(plan->dataset, PST_FIELD_IMAGE);
    plan->i_mask = pst_dataset_find_field(plan->dataset, "mask");
    if (plan->i_mask >= 0 &&
        pst_dataset_field(plan->dataset, (uint32_t)plan->i_mask)->type != PST_FIELD_MASK)
        plan->i_mask = -1;
    if (pst_dataset_is_folder(plan->dataset))
        cli_error(err, PST_ERROR_ARGUMENT, "this is a folder of images already");
    else if (plan->i_image < 0)
        cli_error(err, PST_ERROR_UNSUPPORTED, "the data set has no images");
    else
        return PST_OK;
    snprintf(err->dataset, sizeof err->dataset, "%.200s", pst_dataset_path(plan->dataset));
    return err->status;
}

static void print_json(struct unpack *unpack)
{
    struct cli_json *json = &unpack->json;
    cli_json_close(json, ']');
    cli_json_text(json, "folder", unpack->plan.folder);
    cli_json_uint(json, "files", unpack->n_files);
    cli_json_uint(json, "masks", unpack->n_masks);
    cli_json_uint(json, "restored", unpack->n_restored);
    cli_json_uint(json, "not_original", unpack->n_other);
    cli_json_uint(json, "there_already", unpack->n_there);
    cli_json_uint(json, "skipped", unpack->n_bad);
    cli_json_uint(json, "bytes", unpack->nbytes);
    cli_json_text(json, "labels", unpack->labels.needed ? UNPACK_LABELS : NULL);
    cli_json_open(json, "not_restored", '[');
    for (uint32_t i = 0; i < unpack->labels.n_lost; i++) {
        cli_json_open(json, NULL, '{');
        cli_json_text(json, "field", unpack->labels.lost[i].name);
        cli_json_text(json, "text", unpack->labels.lost[i].why);
        cli_json_close(json, '}');
    }
    cli_json_close(json, ']');
    if (unpack->status != PST_OK)
        cli_json_error(json, "error", &unpack->err);
    cli_json_close(json, '}');
}

static void print_text(const struct unpack *unpack)
{
    char size[32];
    cli_size_text(unpack->nbytes, size);
    cli_print_name(stdout, unpack->plan.folder);
    fputs(": ", stdout);
    cli_print_count(unpack->n_files, "file", "files");
    printf(", %s written", size);
    if (unpack->n_masks > 0)
        printf(", %llu of them masks", (unsigned long long)unpack->n_masks);
    if (unpack->n_restored > 0)
        printf(", %llu JPEG restored", (unsigned long long)unpack->n_restored);
    if (unpack->n_there > 0)
        printf(", %llu there already", (unsigned long long)unpack->n_there);
    if (unpack->n_bad > 0)
        printf(", %llu BAD ones skipped", (unsigned long long)unpack->n_bad);
    putchar('\n');
    if (unpack->n_other > 0)
        printf(
            "  %llu are not the files that were packed: those were not kept, their pixels were\n",
            (unsigned long long)unpack->n_other);
    if (unpack->labels.needed) {
        fputs("  its fields are in " UNPACK_LABELS ": to pack it again, --labels ", stdout);
        cli_print_name(stdout, unpack->plan.folder);
        puts("/" UNPACK_LABELS);
    }
    for (uint32_t i = 0; i < unpack->labels.n_lost; i++)
        printf("  field %s is NOT RESTORED: %s\n", unpack->labels.lost[i].name,
               unpack->labels.lost[i].why);
}

/* Writes the label file after all other files, and makes all names durable. */
static enum pst_status end_folder(struct unpack *unpack)
{
    enum pst_status status = PST_OK;
    size_t nbytes = 0;
    if (unpack->labels.needed)
        status = unpack_write_labels(&unpack->plan, &unpack->labels, unpack->skipped, &nbytes,
                                     &unpack->err);
    unpack->nbytes += nbytes;
    return status == PST_OK ? unpack_sync(&unpack->plan, &unpack->err) : status;
}

static int run_unpack(struct unpack *unpack, uint32_t n_workers)
{
    struct cli *cli = unpack->cli;
    struct pst_error *err = &unpack->err;
    pthread_mutex_init(&unpack->lock, NULL);
    pthread_cond_init(&unpack->moved, NULL);
    cli_catch_interrupt();
    if (cli->json) {
        cli_json_open(&unpack->json, NULL, '{');
        cli_json_open(&unpack->json, "bad", '[');
    }
    unpack->skipped = calloc((size_t)pst_dataset_count(unpack->plan.dataset) + 1, 1);
    if (unpack->skipped == NULL)
        unpack->status = cli_error(err, PST_ERROR_MEMORY, "out of memory");
    if (unpack->status == PST_OK)
        write_files(unpack, n_workers);
    if (unpack->status == PST_OK)
        unpack->status = end_folder(unpack);
    if (cli->json)
        print_json(unpack);
    else if (unpack->status == PST_OK && !cli->quiet)
        print_text(unpack);
    /* The exit status is a failure if anything is missing, because some callers read only that. */
    int exit_status = unpack->n_bad > 0 || unpack->labels.n_lost > 0 ? CLI_FAILED : CLI_OK;
    if (unpack->status != PST_OK) {
        struct cli plain = *cli;
        plain.json = false;
        exit_status = cli_fail(&plain, err);
        if (unpack->n_files > 0)
            cli_note(cli, "what was written stays; --resume goes on");
    }
    free(unpack->skipped);
    unpack_names_free(&unpack->names);
    pthread_cond_destroy(&unpack->moved);
    pthread_mutex_destroy(&unpack->lock);
    return exit_status;
}

int cmd_unpack(struct cli *cli, int argc, char **argv)
{
    struct unpack unpack = {.cli = cli, .plan.fd = -1};
    struct cli_source source = {0};
    const char *on_error = "stop";
    uint64_t workers = 0;
    const struct cli_option options[] = {
        {"workers", 'w', CLI_COUNT, &workers, "N", "all cores", "threads that restore and write"},
        {"resume", 'r', CLI_FLAG, &unpack.plan.resume, NULL, NULL,
         "go on where an interrupted run stopped: files that are there stay if they have the right "
         "length, PNG if they hold the right pixels; anything else in their place is an error"},
        {"on-error", 0, CLI_TEXT, &on_error, "stop|skip", "stop",
         "what a bad sample does. skip: name bad samples, leave them out, go on; exit status 1 at "
         "the end"},
        CLI_MEMBERS_OPTIONS(source),
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL},
    };
    const struct cli_command command = {
        .usage = "unpack SET FOLDER [options]",
        .about =
            "Writes the files that were packed into FOLDER, which is new or empty: JPEGs out of "
            "pli-jpeg byte for\n"
            "byte, others as they are stored, pixels that are all that was kept as PNG or PLI. "
            "Labels that the names\n"
            "of folders do not say become labels.jsonl, which pack --labels reads. No file is "
            "overwritten, and none\n"
            "is left in part. Tars, zips and tables become such a folder, too.",
        .example = "penstock unpack photos.pst photos-again\n"
                   "penstock unpack photos.pst photos-again --resume",
        .options = options,
        .n_min = 2,
        .n_max = 2,
    };
    const char *operands[4] = {0};
    pst_dataset *dataset = NULL;
    int exit_status = cli_parse(cli, &command, argc, argv, operands);
    if (exit_status >= 0)
        return exit_status;
    if (strcmp(on_error, "stop") != 0 && strcmp(on_error, "skip") != 0)
        return cli_usage(cli, "--on-error is \"%s\": stop or skip is expected", on_error);
    if (workers > MAX_WORKERS)
        return cli_usage(cli, "--workers is %llu: at most %d", (unsigned long long)workers,
                         MAX_WORKERS);
    unpack.skips = strcmp(on_error, "skip") == 0;
    unpack.plan.folder = operands[1];
    pst_error_clear(&unpack.err);
    if (cli_open(cli, operands[0], &source, &dataset, &unpack.err) != PST_OK)
        return cli_fail(cli, &unpack.err);
    unpack.plan.dataset = dataset;
    if (choose_fields(&unpack.plan, &unpack.err) != PST_OK ||
        unpack_plan_labels(&unpack.plan, &unpack.labels, &unpack.err) != PST_OK ||
        open_folder(&unpack.plan, &unpack.err) != PST_OK ||
        hold_folder(&unpack.plan, &unpack.err) != PST_OK)
        exit_status = cli_fail(cli, &unpack.err);
    else
        exit_status = run_unpack(&unpack, workers > 0 ? (uint32_t)workers : count_cores());
    pst_dataset_close(&dataset);
    if (unpack.plan.fd >= 0)
        (void)close(unpack.plan.fd);
    return exit_status;
}
