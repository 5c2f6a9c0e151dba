/* cmd_pack.c - the verbs pack, append and repack: store images of a folder or data set in a data
 * set. */
#include "cli.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PSTI_CLI_RESIZE_MAX 65535 /* longest side that a PLI may have */

enum pack_kind { PACK, APPEND, REPACK };

struct pack_arguments {
    const char *forms, *mask_forms, *on_error, *made_for, *plan;
    struct cli_source source;
    uint64_t shard_nbytes, commit_nbytes, workers, resize;
    bool resume, verify_samples, of_lossy, add_classes;
    const char *part;
    bool prepare;
    struct cli_pli pli;
    /* Annotation files of other software, which the Python package reads. */
    const char *coco, *paint, *bad_annotations;
    const char *colours; /* file with a colour table, for masks that are colour pictures */
    const char *join;    /* file with a table that has a row for each sample */
    const char *from;    /* name of a Python function that produces samples */
    const char *record_set;
    bool voc, citypersons, yolo, cvat, labelme, roboflow, croissant;
    int argc; /* number of all command line arguments */
    char **argv;
};

struct pack_run {
    struct cli *cli;
    enum pack_kind kind;
    bool in_place, in_parts, prepares;
    struct cli_json json; /* output; the list "bad" is written while packing */
    bool skip;
    uint64_t n_bad;
    struct pst_progress last;
    struct cli_reasons kept; /* reasons why JPEGs were not stored as PLI */
    bool tries_pli;          /* no form was requested: report whether PLI would be better */
    bool opened;             /* the source is open, and the JSON list "bad" has begun */
};

static int on_progress(void *ctx, const struct pst_progress *progress)
{
    struct pack_run *run = ctx;
    run->last = *progress;
    return cli_progress(run->cli, run->cli->verb->name, progress);
}

static int on_bad(void *ctx, const char *name, const struct pst_error *err)
{
    struct pack_run *run = ctx;
    if (!run->skip)
        return 1;
    run->n_bad++;
    if (run->cli->json) {
        cli_json_open(&run->json, NULL, '{');
        cli_json_text(&run->json, "name", name);
        cli_json_error(&run->json, "error", err);
        cli_json_close(&run->json, '}');
    }
    cli_complain(run->cli, err);
    return 0;
}

/* Prints the source's notices, and whether PLI would be a better form. */
static int on_source(void *ctx, pst_dataset *source)
{
    struct pack_run *run = ctx;
    if (run->cli->json)
        cli_notices_json(&run->json, source);
    else
        cli_notices(run->cli, source);
    if (run->tries_pli)
        pack_try_pli(run->cli, &run->json, source);
    if (run->cli->json)
        cli_json_open(&run->json, "bad", '[');
    run->opened = true;
    return cli_interrupted();
}

static int on_kept(void *ctx, const char *name, const struct pst_error *why)
{
    struct pack_run *run = ctx;
    (void)cli_reasons_add(&run->kept, why->text, name);
    return 0;
}

/* Parses forms such as "original,raw". */
static int parse_forms(const struct cli *cli, const char *option, const char *text,
                       enum pst_form forms[PST_MAX_VARIANTS], uint32_t *n)
{
    static const char *const names[] = {"original", "raw", "pli",  "pli-jpeg",
                                        "jpeg",     "png", "webp", NULL};
    for (*n = 0; text != NULL && *text != '\0';) {
        char word[32];
        size_t length = strcspn(text, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        if (*n == PST_MAX_VARIANTS)
            return cli_usage(cli, "--%s: at most %d forms", option, PST_MAX_VARIANTS);
        forms[*n] = strcmp(word, "original") == 0 ? PST_FORM_NONE : pst_form_from_name(word);
        if (strcmp(word, "original") != 0 &&
            (forms[*n] == PST_FORM_NONE || forms[*n] == PST_FORM_BYTES)) {
            const char *near = cli_nearest(word, &names[0], sizeof names[0]);
            return cli_usage(cli, "--%s: no form \"%s\"%s%s%s", option, word,
                             near == NULL ? "" : ": did you mean \"", near == NULL ? "" : near,
                             near == NULL ? "" : "\"?");
        }
        ++*n;
        text += length;
        text += *text == ',';
    }
    return -1;
}

/* Prints the command that resumes the pack (the given one with --resume), if there is anything to
 * resume. */
static void how_to_resume(const struct pack_run *run, const struct pack_arguments *a,
                          const char *destination)
{
    const struct cli *cli = run->cli;
    char journal[PATH_MAX];
    snprintf(journal, sizeof journal, "%s/%s.pst", destination,
             a->part != NULL ? "parts"
             : run->in_place ? "repack"
                             : "journal");
    if (cli->quiet || access(journal, F_OK) != 0)
        return;
    cli_progress_end(cli);
    fprintf(stderr, "what was %s so far is kept; go on with: penstock %s%s",
            run->kind == APPEND ? "added" : "packed", cli->verb->name,
            a->resume || run->in_place || a->part != NULL ? "" : " --resume");
    for (int i = 0; i < a->argc; i++) {
        fputc(' ', stderr);
        cli_print_word(stderr, a->argv[i]);
    }
    fputc('\n', stderr);
}

/* Adds the numbers of JPEGs that became PLI, stayed JPEGs or were restored. */
static void jpegs_json(struct pack_run *run, const struct pst_pack_report *report)
{
    cli_json_open(&run->json, "pli_jpeg", '{');
    cli_json_uint(&run->json, "items", report->n_pli_jpeg);
    cli_json_uint(&run->json, "jpeg_bytes", report->jpeg_nbytes);
    cli_json_uint(&run->json, "bytes", report->pli_jpeg_nbytes);
    cli_json_close(&run->json, '}');
    cli_json_open(&run->json, "kept_jpeg", '{');
    cli_json_uint(&run->json, "items", report->n_kept_jpeg);
    cli_json_uint(&run->json, "bytes", report->kept_jpeg_nbytes);
    cli_reasons_json(&run->kept, &run->json, "reasons");
    cli_json_close(&run->json, '}');
    cli_json_open(&run->json, "restored_jpeg", '{');
    cli_json_uint(&run->json, "items", report->n_restored_jpeg);
    cli_json_uint(&run->json, "pli_jpeg_bytes", report->restored_pli_jpeg_nbytes);
    cli_json_uint(&run->json, "bytes", report->restored_jpeg_nbytes);
    cli_json_close(&run->json, '}');
    cli_json_uint(&run->json, "not_original", report->n_not_original);
    cli_json_uint(&run->json, "resized", report->n_resized);
}

static void jpegs_text(const struct pack_run *run, const struct pst_pack_report *report)
{
    char before[32], after[32];
    cli_size_text(report->jpeg_nbytes, before);
    cli_size_text(report->pli_jpeg_nbytes, after);
    if (report->n_pli_jpeg > 0)
        printf("  %llu JPEG kept as PLI, with the same pixels and the files restorable: %s -> %s, "
               "%.1f %% saved\n",
               (unsigned long long)report->n_pli_jpeg, before, after,
               100 - 100 * (double)report->pli_jpeg_nbytes / (double)report->jpeg_nbytes);
    cli_size_text(report->kept_jpeg_nbytes, before);
    if (report->n_kept_jpeg > 0)
        printf("  %llu JPEG stay as they are (%s):\n", (unsigned long long)report->n_kept_jpeg,
               before);
    cli_reasons_text(&run->kept);
    cli_size_text(report->restored_pli_jpeg_nbytes, before);
    cli_size_text(report->restored_jpeg_nbytes, after);
    if (report->n_restored_jpeg > 0)
        printf("  %llu JPEG made again from pli-jpeg, byte for byte: %s -> %s\n",
               (unsigned long long)report->n_restored_jpeg, before, after);
    if (report->n_resized > 0)
        printf("  %llu were made smaller: their original pixels are not kept\n",
               (unsigned long long)report->n_resized);
    if (report->n_not_original > 0)
        printf("  %llu stay as they are: only their pixels were kept, not the files\n",
               (unsigned long long)report->n_not_original);
}

/* Adds what a change in place did, beyond what a pack reports. */
static void in_place_json(struct pack_run *run, const struct pst_pack_report *report)
{
    cli_json_uint(&run->json, "changed", report->n_changed);
    cli_json_uint(&run->json, "files", report->n_files);
    cli_json_uint(&run->json, "kept_files", report->n_kept_files);
    cli_json_bool(&run->json, "waits_for_readers", report->waits);
}

static void in_place_text(const struct pst_pack_report *report)
{
    bool was_done = report->n_resumed == report->n_samples &&
                    report->n_kept_files == report->n_files && report->n_samples > 0;
    if (was_done)
        puts("  this was done before: nothing to do");
    else
        printf("  %llu samples changed, %llu of %llu files stay as they are\n",
               (unsigned long long)report->n_changed, (unsigned long long)report->n_kept_files,
               (unsigned long long)report->n_files);
    if (report->waits)
        puts("  old files are left, because the old state is still being read: the next repack or "
             "append removes them");
}

static void parts_json(struct pack_run *run, const struct pst_pack_report *report)
{
    cli_json_uint(&run->json, "planned_shards", report->n_shards);
    cli_json_uint(&run->json, "packed_before", report->n_shards_before);
}

static void print_report(struct pack_run *run, const struct pst_pack_report *report,
                         const char *destination, bool encodes)
{
    if (run->cli->json) {
        cli_json_close(&run->json, ']');
        cli_json_text(&run->json, "destination", destination);
        cli_json_uint(&run->json, "samples", report->n_samples);
        cli_json_uint(&run->json, "resumed", report->n_resumed);
        cli_json_uint(&run->json, "skipped", report->n_bad);
        cli_json_uint(&run->json, "unreadable", report->n_skipped);
        cli_json_uint(&run->json, "bytes_in", report->nbytes_in);
        cli_json_uint(&run->json, "bytes_out", report->nbytes_out);
        jpegs_json(run, report);
        if (run->in_place)
            in_place_json(run, report);
        if (run->in_parts)
            parts_json(run, report);
        return;
    }
    char in[32], out[32];
    cli_size_text(report->nbytes_in, in);
    cli_size_text(report->nbytes_out, out);
    cli_progress_end(run->cli);
    if (run->cli->quiet)
        return;
    cli_print_name(stdout, destination);
    fputs(": ", stdout);
    if (run->prepares) {
        cli_print_count(report->n_shards, "planned shard", "planned shards");
        puts(", for --part I/N");
        return;
    }
    cli_print_count(report->n_samples, "sample", "samples");
    if (report->n_resumed > 0)
        printf(", %llu of them there already", (unsigned long long)report->n_resumed);
    printf(", %s read, %s written", in, out);
    if ((encodes || report->n_pli_jpeg > 0 || run->kind == REPACK) && report->nbytes_in > 0)
        printf(" (%.1f %%)", 100 * (double)report->nbytes_out / (double)report->nbytes_in);
    if (report->n_bad > 0)
        printf(", %llu BAD ones skipped", (unsigned long long)report->n_bad);
    if (report->n_skipped > 0)
        printf(", %llu UNREADABLE left out", (unsigned long long)report->n_skipped);
    putchar('\n');
    jpegs_text(run, report);
    if (run->in_place)
        in_place_text(report);
    if (run->in_parts)
        printf("  planned shards of this part: %u, packed before: %u; `penstock merge` ends once "
               "all parts are done\n",
               report->n_shards, report->n_shards_before);
}

static bool has_pli(const enum pst_form *forms, uint32_t n)
{
    bool any = false;
    for (uint32_t i = 0; i < n; i++)
        any = any || forms[i] == PST_FORM_PLI;
    return any;
}

static bool encodes(const struct pst_pack_options *options)
{
    return has_pli(options->forms, options->n_forms) ||
           has_pli(options->mask_forms, options->n_mask_forms);
}

static int run_pack(struct cli *cli, enum pack_kind kind, const struct pack_arguments *a,
                    const char *source, const char *destination, struct pst_pack_options *options)
{
    struct pack_run run = {.cli = cli,
                           .kind = kind,
                           .in_place = destination == NULL,
                           .in_parts = options->n_parts > 0 || options->prepare,
                           .prepares = options->prepare,
                           .skip = options->bad_sample != NULL};
    struct pst_pack_report report = {0};
    struct pst_error err;
    pst_error_clear(&err);
    options->struct_size = sizeof *options;
    options->progress = on_progress;
    options->bad_sample = on_bad;
    options->kept_jpeg = on_kept;
    options->source_opened = on_source;
    run.tries_pli = kind == PACK && options->n_forms == 0 && options->plan == NULL;
    options->ctx = &run;
    cli_catch_interrupt();
    if (cli->json)
        cli_json_open(&run.json, NULL, '{');
    enum pst_status status =
        run.in_place ? pst_repack(source, options, &report, sizeof report, &err)
                     : pst_pack(source, destination, options, &report, sizeof report, &err);
    destination = run.in_place ? source : destination;
    if (cli->json && !run.opened)
        cli_json_open(&run.json, "bad", '[');
    cli_progress_end(cli);
    if (cli->json || status == PST_OK || run.last.n_total > 0) /* else nothing was written */
        print_report(&run, &report, destination, encodes(options));
    bool skipped = report.n_bad > 0 || (!a->source.allow_unreadable && report.n_skipped > 0);
    int exit_status = skipped ? CLI_FAILED : CLI_OK;
    if (status != PST_OK) {
        struct cli plain = *cli;
        plain.json = false;
        if (cli->json)
            cli_json_error(&run.json, "error", &err);
        exit_status = cli_fail(&plain, &err);
        if (run.last.n_total > 0 && a->resize == 0) /* packing had begun */
            how_to_resume(&run, a, destination);
    } else if (kind == REPACK && options->n_forms + options->n_mask_forms == 0 &&
               options->plan == NULL && report.n_samples > report.n_resumed &&
               report.n_pli_jpeg + report.n_kept_jpeg + report.n_resized == 0) {
        cli_note(cli, "the images are stored as they were: no JPEG is left to become pli-jpeg (for "
                      "other forms say --form)");
    }
    if (cli->json)
        cli_json_close(&run.json, '}');
    cli_reasons_free(&run.kept);
    return exit_status;
}

/* True if annotations are given that may have polygons. */
static bool is_drawn(const struct pack_arguments *a)
{
    return a->yolo || a->cvat || a->labelme || a->roboflow;
}

/* True if the Python package reads the source. */
static bool is_annotated(const struct pack_arguments *a)
{
    return a->from != NULL || a->join != NULL || a->colours != NULL || a->coco != NULL || a->voc ||
           a->citypersons || a->croissant || is_drawn(a);
}

/* True if masks are painted and stored as PLI, which is the default. */
static bool paints_pli(const struct pack_arguments *a, const struct pst_pack_options *options)
{
    return (a->paint != NULL || a->colours != NULL) && options->n_mask_forms == 0;
}

/* Reads the options --part and --prepare. */
static int take_part(struct cli *cli, const struct pack_arguments *a,
                     struct pst_pack_options *options)
{
    struct cli_part part;
    if (a->prepare && a->part != NULL)
        return cli_usage(cli, "--prepare makes the plan of shards only: it goes without --part");
    if ((a->prepare || a->part != NULL) && a->resume)
        return cli_usage(cli, "--resume goes without --prepare and --part: a part that is run "
                              "again goes on by itself");
    int status = cli_take_part(cli, a->part, &part);
    options->part = part.part;
    options->n_parts = part.n_parts;
    options->prepare = a->prepare;
    return status;
}

static int fill_options(struct cli *cli, enum pack_kind kind, const struct pack_arguments *a,
                        struct pst_pack_options *options, enum pst_form forms[2][PST_MAX_VARIANTS])
{
    struct pst_pli_encode_options pli;
    int status = parse_forms(cli, "form", a->forms, forms[0], &options->n_forms);
    if (status < 0)
        status = parse_forms(cli, "mask-form", a->mask_forms, forms[1], &options->n_mask_forms);
    if (status < 0)
        status = cli_take_pli(cli, &a->pli, &pli);
    if (status >= 0)
        return status;
    options->forms = forms[0];
    options->mask_forms = forms[1];
    options->pli_tier = pli.tier;
    options->pli_effort = pli.effort;
    options->pli_max_error = pli.max_error;
    options->pli_of_lossy = a->of_lossy;
    options->plan = a->plan;
    if (a->plan != NULL && (a->forms != NULL || a->pli.tier != NULL))
        return cli_usage(cli, "--plan says forms and tiers: --form and --tier go without it");
    if ((cli_gives_pli(&a->pli) || a->of_lossy) && !encodes(options) && a->plan == NULL &&
        a->resize == 0 && !paints_pli(a, options) &&
        kind != APPEND) /* the data set that is appended to may have PLI */
        return cli_usage(cli, "--tier, --effort, --max-error and --of-lossy go with the form pli");
    if (is_annotated(a) && a->pli.max_error > 0 && !has_pli(options->forms, options->n_forms))
        return cli_usage(cli, "--max-error goes with --form pli: masks are lossless");
    if (strcmp(a->on_error, "stop") != 0 && strcmp(a->on_error, "skip") != 0)
        return cli_usage(cli, "--on-error is \"%s\": stop or skip is expected", a->on_error);
    if (a->made_for != NULL && strcmp(a->made_for, "upright") != 0 &&
        strcmp(a->made_for, "stored") != 0)
        return cli_usage(cli, "--made-for is \"%s\": upright or stored is expected", a->made_for);
    if (a->made_for != NULL)
        options->made_for = a->made_for[0] == 'u' ? PST_MADE_FOR_UPRIGHT : PST_MADE_FOR_STORED;
    if (a->workers > 4096)
        return cli_usage(cli, "--workers is %llu: at most 4096", (unsigned long long)a->workers);
    options->num_workers = (uint32_t)a->workers;
    if (a->resize > PSTI_CLI_RESIZE_MAX)
        return cli_usage(cli, "--resize is %llu: at most %d", (unsigned long long)a->resize,
                         PSTI_CLI_RESIZE_MAX);
    if (a->resize > 0 && (a->resume || a->plan != NULL))
        return cli_usage(cli, "--resize goes without --resume and --plan");
    options->resize = (uint32_t)a->resize;
    status = take_part(cli, a, options);
    if (status >= 0)
        return status;
    options->verify_pixels = a->verify_samples;
    options->add_classes = a->add_classes;
    options->bad_sample = strcmp(a->on_error, "skip") == 0 ? on_bad : NULL;
    return -1;
}

/* Parses the names of the fields to paint, each at most once. */
static int check_paint(const struct cli *cli, const char *text)
{
    static const char *const names[] = {"mask", "instances", NULL};
    bool seen[2] = {false};
    while (text != NULL) {
        char word[32];
        size_t length = strcspn(text, ","), i = 0;
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        while (names[i] != NULL && strcmp(word, names[i]) != 0)
            i++;
        if (names[i] == NULL)
            return cli_usage(cli, "--paint: \"%s\" is not mask or instances", word);
        if (seen[i])
            return cli_usage(cli, "--paint names %s twice", word);
        seen[i] = true;
        text = text[length] == ',' ? text + length + 1 : NULL;
    }
    return -1;
}

/* Checks the annotation options as far as this is possible without reading files. */
static int check_annotated(const struct cli *cli, const struct pack_arguments *a)
{
    const char *others = a->plan != NULL              ? "--plan"
                         : a->part != NULL            ? "--part"
                         : a->prepare                 ? "--prepare"
                         : a->resize > 0              ? "--resize"
                         : a->verify_samples          ? "--verify-samples"
                         : a->of_lossy                ? "--of-lossy"
                         : a->source.labels           ? "--labels"
                         : a->source.masks            ? "--masks"
                         : a->source.members && !a->join ? "--members"
                         : a->source.allow_unreadable ? "--allow-unreadable"
                         : a->source.ignore_labels    ? "--ignore-labels"
                                                      : NULL;
    if ((a->from != NULL) + (a->join != NULL) + (a->colours != NULL) + (a->coco != NULL) +
            a->voc + a->citypersons + a->yolo + a->cvat + a->labelme + a->roboflow +
            a->croissant >
        1)
        return cli_usage(cli,
                         "only one of --from, --coco, --voc, --citypersons, --yolo, --cvat, "
                         "--labelme, --roboflow, --croissant, --colours and --join is possible");
    if (a->record_set != NULL && !a->croissant)
        return cli_usage(cli, "--record-set goes with --croissant");
    if ((a->from != NULL || a->join != NULL || a->croissant) &&
        (a->paint != NULL || strcmp(a->bad_annotations, "stop") != 0))
        return cli_usage(cli, "--paint and --bad-annotations go without --from, --join and "
                              "--croissant");
    if (!is_annotated(a) && (a->paint != NULL || strcmp(a->bad_annotations, "stop") != 0))
        return cli_usage(cli, "--paint and --bad-annotations go with --coco, --voc, "
                              "--citypersons, --yolo, --cvat, --labelme or --roboflow");
    if (!is_annotated(a))
        return -1;
    if (others != NULL)
        return cli_usage(cli,
                         "%s goes without --from, --coco, --voc, --citypersons, --yolo, --cvat, "
                         "--labelme, --roboflow, --croissant, --colours and --join: pack, then "
                         "repack",
                         others);
    if (a->coco != NULL && a->source.split != NULL)
        return cli_usage(cli, "--split goes with --voc or --citypersons: a file of COCO is one");
    if (a->labelme && a->source.split != NULL)
        return cli_usage(cli, "--split goes without --labelme: pack the folder of one split");
    if (a->coco == NULL && !is_drawn(a) && a->paint != NULL)
        return cli_usage(cli, "--paint goes with --coco, --yolo, --cvat, --labelme and "
                              "--roboflow: the others have no polygons");
    if (strcmp(a->bad_annotations, "stop") != 0 && strcmp(a->bad_annotations, "drop") != 0)
        return cli_usage(cli, "--bad-annotations is \"%s\": stop or drop is expected",
                         a->bad_annotations);
    return check_paint(cli, a->paint);
}

/* Removes an option from a table. */
static void leave_out(struct cli_option *options, const char *name)
{
    while (options->name != NULL && strcmp(options->name, name) != 0)
        options++;
    for (; options->name != NULL; options++)
        options[0] = options[1];
}

/* Removes the options that a verb does not have from its table. */
static void fit_options(struct cli_option *options, enum pack_kind kind)
{
    static const char *const annotated[] = {"coco",            "voc",     "citypersons",
                                            "yolo",            "cvat",    "labelme",
                                            "roboflow",        "paint",   "from",
                                            "bad-annotations", "colours", "join",
                                            "croissant",       "record-set"};
    for (size_t i = 0; kind != PACK && i < sizeof annotated / sizeof annotated[0]; i++)
        leave_out(options, annotated[i]);
    if (kind == APPEND) { /* an existing data set already has its fields */
        leave_out(options, "made-for");
        leave_out(options, "plan");
        leave_out(options, "part");
        leave_out(options, "prepare");
    } else {
        leave_out(options, "add-classes");
    }
    if (kind == REPACK) { /* removes options for folders */
        leave_out(options, "labels");
        leave_out(options, "masks");
        leave_out(options, "allow-unreadable");
        leave_out(options, "ignore-labels");
    }
}

/* Checks the options of a repack with one operand. */
static int check_in_place(struct cli *cli, const struct pack_arguments *a, const char *usage)
{
    if (a->plan == NULL && a->forms == NULL && a->mask_forms == NULL)
        return cli_usage(cli,
                         "an operand is missing: penstock %s; or say by --plan or --form what "
                         "changes in SRC itself",
                         usage);
    if (strcmp(a->on_error, "stop") != 0 || a->made_for != NULL || a->resize > 0)
        return cli_usage(cli, "--on-error, --made-for and --resize go with a DST");
    if (a->part != NULL || a->prepare)
        return cli_usage(cli, "--part and --prepare go with a DST");
    if (a->source.split != NULL || a->source.members != NULL)
        return cli_usage(cli, "--split and --members go with a DST: files of others stay as "
                              "they are");
    return -1;
}

/* Options for annotations of other software that may have polygons. */
#define DRAWN_OPTIONS(a)                                                                           \
    {"yolo",                                                                                       \
     0,                                                                                            \
     CLI_FLAG,                                                                                     \
     &(a).yolo,                                                                                    \
     NULL,                                                                                         \
     NULL,                                                                                         \
     "SRC is data.yaml of YOLO, or its folder: boxes, polygons, points"},                          \
        {"cvat",                                                                                   \
         0,                                                                                        \
         CLI_FLAG,                                                                                 \
         &(a).cvat,                                                                                \
         NULL,                                                                                     \
         NULL,                                                                                     \
         "SRC is an unpacked export of CVAT for images 1.1, or its XML file"},                     \
        {"labelme",                                                                                \
         0,                                                                                        \
         CLI_FLAG,                                                                                 \
         &(a).labelme,                                                                             \
         NULL,                                                                                     \
         NULL,                                                                                     \
         "SRC is a folder of images with JSON files of Labelme"},                                  \
        {"roboflow",                                                                               \
         0,                                                                                        \
         CLI_FLAG,                                                                                 \
         &(a).roboflow,                                                                            \
         NULL,                                                                                     \
         NULL,                                                                                     \
         "SRC is an unpacked export of Roboflow: train, valid and test as YOLO, COCO, VOC or "     \
         "CSV"},                                                                                   \
    {                                                                                              \
        "colours", 0, CLI_TEXT, &(a).colours, "TABLE", NULL,                                       \
            "SRC has images and masks in colours; TABLE says what they mean: camvid, voc, ade, "   \
            "ade150, or a file of CSV, JSON or YAML"                                               \
    }

/* Options that control how foreign annotation files (COCO, VOC, CityPersons) are read. */
#define ANNOTATION_OPTIONS(a)                                                                      \
    CLI_GROUP("annotations of others"),                                                            \
        {"coco",                                                                                   \
         0,                                                                                        \
         CLI_TEXT,                                                                                 \
         &(a).coco,                                                                                \
         "FILE",                                                                                   \
         NULL,                                                                                     \
         "annotations of SRC's images in COCO JSON: boxes, keypoints, polygons"},                  \
        {"voc", 0, CLI_FLAG, &(a).voc, NULL, NULL, "SRC has the layout of Pascal VOC (XML)"},      \
        {"citypersons",                                                                            \
         0,                                                                                        \
         CLI_FLAG,                                                                                 \
         &(a).citypersons,                                                                         \
         NULL,                                                                                     \
         NULL,                                                                                     \
         "SRC has the layout of Cityscapes with CityPersons (gtBboxCityPersons)"},                 \
        {"paint",                                                                                  \
         0,                                                                                        \
         CLI_TEXT,                                                                                 \
         &(a).paint,                                                                               \
         "FIELDS",                                                                                 \
         NULL,                                                                                     \
         "mask (classes) and instances (objects), comma-separated, drawn from polygons and run "   \
         "lengths; stored as PLI of --tier and --effort"},                                         \
    {                                                                                              \
        "bad-annotations", 0, CLI_TEXT, &(a).bad_annotations, "stop|drop", "stop",                 \
            "what an annotation does that cannot be stored, such as a box without area: make its " \
            "sample a bad one, or be left out and listed"                                          \
    }

/* Options for data sets that a Python function of the user produces. */
#define OWN_OPTIONS(a)                                                                             \
    CLI_GROUP("data sets of your own"),                                                            \
        {"croissant",                                                                              \
         0,                                                                                        \
         CLI_FLAG,                                                                                 \
         &(a).croissant,                                                                           \
         NULL,                                                                                     \
         NULL,                                                                                     \
         "SRC is croissant.json of MLCommons, or its folder, where the files must lie: nothing "   \
         "is fetched"},                                                                            \
        {"record-set",                                                                             \
         0,                                                                                        \
         CLI_TEXT,                                                                                 \
         &(a).record_set,                                                                          \
         "ID",                                                                                     \
         NULL,                                                                                     \
         "--croissant: the record set to pack"},                                                   \
        {"join",                                                                                   \
         0,                                                                                        \
         CLI_TEXT,                                                                                 \
         &(a).join,                                                                                \
         "TABLE",                                                                                  \
         NULL,                                                                                     \
         "a table of CSV, JSON lines, Parquet or Arrow with a row for each sample of SRC, by its " \
         "name: the key in a tar. Its columns become fields"},                                     \
    {                                                                                              \
        "from", 0, CLI_TEXT, &(a).from, "MODULE:FUNCTION", NULL,                                   \
            "a Python function that returns an object with __len__ and __getitem__, or such an "   \
            "object and a schema; it is called with SRC, if SRC is given. --workers N: processes " \
            "that read, none if not given"                                                         \
    }

/* Options for packing with several processes. */
#define PART_OPTIONS(a)                                                                            \
    CLI_GROUP("several processes"), CLI_PART_OPTION((a).part),                                     \
    {                                                                                              \
        "prepare", 0, CLI_FLAG, &(a).prepare, NULL, NULL,                                          \
            "only make the plan of shards in DST, by which parts work"                             \
    }

/* Packs after the options were checked. The verb append has DST first. */
static int pack_as_given(struct cli *cli, enum pack_kind kind, const struct pack_arguments *a,
                         const char *operands[], struct pst_pack_options *pack)
{
    struct pst_error err;
    pst_error_clear(&err);
    struct cli_source source = a->source;
    /* --on-error skip also skips images that cannot be read. */
    source.allow_unreadable |= strcmp(a->on_error, "skip") == 0;
    struct pst_dataset_options source_options;
    if (cli_source_options(cli, &source, &source_options, &err) != PST_OK) {
        cli_source_free(&source);
        return cli_fail(cli, &err);
    }
    source_options.no_folder = kind == REPACK;
    const struct pst_writer_options writer_options = {.struct_size = sizeof writer_options,
                                                      .mode = a->resume        ? PST_WRITER_RESUME
                                                              : kind == APPEND ? PST_WRITER_APPEND
                                                                               : PST_WRITER_CREATE,
                                                      .shard_nbytes = a->shard_nbytes,
                                                      .commit_nbytes = a->commit_nbytes};
    pack->source = &source_options;
    pack->writer = &writer_options;
    int status = run_pack(cli, kind, a, operands[kind == APPEND], operands[kind != APPEND], pack);
    cli_source_free(&source);
    return status;
}

/* Implements the three verbs, which differ in their help and options. */
static int pack_verb(struct cli *cli, int argc, char **argv, struct cli_command command,
                     enum pack_kind kind)
{
    struct pack_arguments a = {.on_error = "stop",
                               .bad_annotations = "stop",
                               .shard_nbytes = (uint64_t)1 << 30,
                               .argc = argc,
                               .argv = argv};
    struct cli_option options[] = {
        CLI_GROUP("what is stored"),
        {"form", 'f', CLI_TEXT, &a.forms, "FORMS",
         kind == APPEND ? "as the data set has them" : "pli-jpeg of JPEGs, others as they are",
         "how images are stored, comma-separated, the preferred first: pli-jpeg (JPEGs as PLI of "
         "their coefficients, others as they are), original (the files that were packed), raw "
         "(decoded pixels, upright), pli (the pixels as PLI); jpeg, png, webp only of images that "
         "are so, jpeg also of pli-jpeg"},
        {"mask-form", 0, CLI_TEXT, &a.mask_forms, "FORMS",
         kind == APPEND ? "as the data set has them" : "as the source has them",
         "the same for masks; pixels of a PNG with a palette are its indices"},
        {"tier", 't', CLI_TEXT, &a.pli.tier, "fast|small|dense", "small",
         "pli: fast to decode, small, or dense"},
        {"effort", 'e', CLI_COUNT, &a.pli.effort, "N", "3",
         "pli: 1 to 5; more is smaller and slower to make, not slower to decode"},
        {"max-error", 0, CLI_COUNT, &a.pli.max_error, "N", "0",
         "pli: samples of images may differ by so much, 127 at most; 0 is lossless, as masks "
         "always are"},
        {"of-lossy", 0, CLI_FLAG, &a.of_lossy, NULL, NULL,
         "pli: of JPEG and lossy WebP too, which makes them several times larger"},
        {"plan", 0, CLI_TEXT, &a.plan, "FILE", NULL,
         "which samples are stored in which forms, as `penstock plan` found; others stay as they "
         "are. Goes without --form and --tier"},
        {"resize", 0, CLI_COUNT, &a.resize, "SIDE", NULL,
         "store images after Resize(SIDE): the shorter side becomes SIDE pixels, with masks, boxes "
         "and keypoints; smaller images stay as they are. Their pixels, as PLI or raw. A chain "
         "that begins with Resize(SIDE) gives the same bits as from the whole images, in their own "
         "channels and bits; every other chain sees the smaller images. Goes without --resume and "
         "--plan"},
        {"add-classes", 0, CLI_FLAG, &a.add_classes, NULL, NULL,
         "classes of SRC that DST does not have become new classes of DST"},
        {"made-for", 0, CLI_TEXT, &a.made_for, "upright|stored", NULL,
         "for which picture of images with an EXIF orientation masks, boxes and keypoints were "
         "made. Where nobody says so, such a sample is a bad one unless its mask's size decides"},
        CLI_GROUP("how it is made"),
        {"workers", 'w', CLI_COUNT, &a.workers, "N", "all cores",
         "threads that read and decode; the result does not depend on it"},
        {"resume", 'r', CLI_FLAG, &a.resume, NULL, NULL,
         "go on where an interrupted run stopped; begin where there was none"},
        {"verify-samples", 0, CLI_FLAG, &a.verify_samples, NULL, NULL,
         "decode every image and sound, so that bad ones are found now"},
        {"verify-pixels", 0, CLI_FLAG, &a.verify_samples, NULL, NULL,
         "the older name of --verify-samples"},
        {"on-error", 0, CLI_TEXT, &a.on_error, "stop|skip", "stop",
         "what a bad image does. skip: name bad images and unreadable files, leave them out, go "
         "on; exit status 1 at the end"},
        {"shard-size", 's', CLI_SIZE, &a.shard_nbytes, "SIZE", "1GiB",
         "start a new shard file beyond this"},
        {"commit-size", 0, CLI_SIZE, &a.commit_nbytes, "SIZE", "256MiB",
         "make what was written durable each time it grew by this"},
        PART_OPTIONS(a),
        CLI_SOURCE_OPTIONS(a.source, 'l'),
        ANNOTATION_OPTIONS(a),
        DRAWN_OPTIONS(a),
        OWN_OPTIONS(a),
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL}};
    const char *operands[4] = {0};
    enum pst_form forms[2][PST_MAX_VARIANTS];
    struct pst_pack_options pack = {0};
    fit_options(options, kind);
    command.options = options;
    command.n_max = 2;
    command.n_min = kind == APPEND ? 2 : 1;
    int status = cli_parse(cli, &command, argc, argv, operands);
    if (status < 0 && kind == PACK && operands[1] == NULL && a.from == NULL)
        status = cli_usage(cli, "an operand is missing: penstock %s", command.usage);
    if (status < 0 && kind == REPACK && operands[1] == NULL)
        status = check_in_place(cli, &a, command.usage);
    if (status < 0)
        status = check_annotated(cli, &a);
    if (status < 0)
        status = fill_options(cli, kind, &a, &pack, forms);
    if (status < 0 && is_annotated(&a))
        status = cli_python(cli, argc, argv);
    return status >= 0 ? status : pack_as_given(cli, kind, &a, operands, &pack);
}

int cmd_pack(struct cli *cli, int argc, char **argv)
{
    const struct cli_command command = {
        .usage = "pack SRC DST [options]",
        .about =
            "Makes data set DST of SRC: a folder of images, tars, zips or tables of others, or a "
            "data set (as\n"
            "`repack` does). JPEGs are kept as pli-jpeg: smaller, faster to decode, to the same "
            "pixels, and\n"
            "`penstock unpack` gives the files back;\n"
            "one that cannot be kept so stays a JPEG, and other images stay as they are. Or the "
            "files' own bytes (original),\n"
            "their pixels (raw), their pixels as PLI (of lossless images only, unless --of-lossy "
            "or --max-error asks for\n"
            "more), or several of these. The order is that of the paths, whatever --workers. An "
            "interrupted run keeps what\n"
            "it has; --resume goes on.",
        .example = "penstock pack photos photos.pst --workers 8\n"
                   "  penstock pack photos photos.pst --form original,raw\n"
                   "  penstock pack photos photos.pst --plan photos.plan.json\n"
                   "  penstock pack train2017 coco.pst --coco instances_train2017.json --paint "
                   "mask,instances\n"
                   "  penstock pack mine.pst --from mydata:train --workers 4",
    };
    return pack_verb(cli, argc, argv, command, PACK);
}

int cmd_append(struct cli *cli, int argc, char **argv)
{
    const struct cli_command command = {
        .usage = "append DST SRC [options]",
        .about = "Adds the images of the folder (or data set) SRC to data set DST. Fields and "
                 "classes are matched by\n"
                 "name; a class that DST does not have is an error unless --add-classes is given, "
                 "and so is a sample whose\n"
                 "name is there already (with --resume: skipped). Readers of DST see the old state "
                 "until the new one is whole.",
        .example = "penstock append photos.pst more-photos\n"
                   "penstock append photos.pst more-photos --add-classes --resume",
    };
    return pack_verb(cli, argc, argv, command, APPEND);
}

int cmd_repack(struct cli *cli, int argc, char **argv)
{
    const struct cli_command command = {
        .usage = "repack SRC [DST] [options]",
        .about =
            "Makes data set DST of data set SRC, which is not changed: the same samples in the "
            "same order, with their\n"
            "names, labels and other fields, and images in other forms. JPEGs become pli-jpeg "
            "(smaller, faster to decode, to\n"
            "the same pixels), other images stay as they are, and one that is stored in several "
            "forms keeps them all. Or\n"
            "--form says: original gives the files that were packed (JPEGs out of pli-jpeg again, "
            "byte for byte; where only\n"
            "pixels were kept, these), jpeg the same of JPEGs only, pli makes lossless images "
            "smaller, raw keeps bare pixels,\n"
            "and several of these give each image several forms. An interrupted run keeps what it "
            "has; --resume goes on.\n"
            "Without DST, SRC itself is changed by --plan, --form or --mask-form: only samples "
            "that "
            "must change, and the\n"
            "shards that hold them, are written anew. SRC is whole at any time: the last step puts "
            "the new state in force.\n"
            "After an interruption the same command goes on. Who reads the old state goes on "
            "reading it.",
        .example = "penstock repack photos.pst smaller.pst\n"
                   "  penstock repack photos.pst --plan photos.plan.json\n"
                   "  penstock repack scans.pst dense.pst --form pli --tier dense\n"
                   "  penstock repack smaller.pst photos-again.pst --form original",
    };
    return pack_verb(cli, argc, argv, command, REPACK);
}
