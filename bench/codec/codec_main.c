/* codec_main.c - compares lossless image codecs, in memory: bytes and MB/s of pixels.
 *
 *     bench_codec [options] FOLDER...
 *     bench_codec [options] --data ROOT [--groups a,b,c]    (known folders of ROOT, or any)
 *     bench_codec [options] --generated
 *
 * A group is a folder of images. Every image of a group is encoded by every codec that can hold
 * it, and the decoded pixels are compared. Then the codecs decode the whole group in turn, round
 * after round; figures are medians of the rounds. A codec that cannot hold every image of a group
 * is left out for that group. PENSTOCK_CPU_MASK lowers the CPU level of Penstock's codecs. */
#include "codec.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char usage[] =
    "bench_codec [options] FOLDER... | --data ROOT [--groups a,b,c] | --generated\n"
    "  --codecs a,b,c     only these (a name that ends in * takes all that begin so)\n"
    "  --seconds S        decode at least so long for each figure (1)\n"
    "  --encode-seconds S encode at least so long, after a first pass if that took less (half of\n"
    "                     --seconds)\n"
    "  --repeats N        rounds, of which the median is given (5)\n"
    "  --threads N        cores of the all-cores figures (all; 0: none)\n"
    "  --max-images N     only the first N images of a group\n"
    "  --sizes-only       encode and compare, no decode figures\n"
    "  --json FILE  --csv FILE   figures; bytes of every image\n"
    "  --list             names of the codecs that this build has, and what it lacks\n";

static const char known_groups[] =
    "kodak,cityscapes,clic2025,imagenet,nuscenes_png,cid22,hrstereo,camvid,screens,screens_rgba,"
    "emoji_rgba,labels8,inst16,em_gray8,landsat16";

struct arguments {
    const char *data, *groups, *codecs, *json, *csv;
    const char *folders[64];
    size_t n_folders;
    bool list, generated;
    struct settings settings;
};

static double number(const char *option, const char *text, double least, double most)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (errno || end == text || *end || !(value >= least && value <= most))
        die(option, "not a number in its range");
    return value;
}

static bool set_text(struct arguments *a, const char *option, const char *value)
{
    const struct {
        const char *option, **to;
    } texts[] = {{"--data", &a->data},
                 {"--groups", &a->groups},
                 {"--codecs", &a->codecs},
                 {"--json", &a->json},
                 {"--csv", &a->csv}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(option, texts[i].option) == 0) {
            *texts[i].to = value;
            return true;
        }
    return false;
}

static bool set_number(struct settings *s, const char *option, const char *value)
{
    if (strcmp(option, "--seconds") == 0)
        s->seconds = number(option, value, 0, 3600);
    else if (strcmp(option, "--encode-seconds") == 0)
        s->encode_seconds = number(option, value, 0, 3600);
    else if (strcmp(option, "--repeats") == 0)
        s->repeats = (uint32_t)number(option, value, 1, 64);
    else if (strcmp(option, "--threads") == 0)
        s->threads = (uint32_t)number(option, value, 0, 4096);
    else if (strcmp(option, "--max-images") == 0)
        s->max_images = (size_t)number(option, value, 0, 1e9);
    else
        return false;
    return true;
}

static void parse(int argc, char **argv, struct arguments *a)
{
    *a = (struct arguments){
        .settings = {.seconds = 1, .encode_seconds = -1, .repeats = 5, .threads = cores_allowed()}};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--sizes-only") == 0)
            a->settings.sizes_only = true;
        else if (strcmp(argv[i], "--list") == 0)
            a->list = true;
        else if (strcmp(argv[i], "--generated") == 0)
            a->generated = true;
        else if (strncmp(argv[i], "--", 2) != 0 && a->n_folders < 64)
            a->folders[a->n_folders++] = argv[i];
        else if (i + 1 < argc && (set_text(a, argv[i], argv[i + 1]) ||
                                  set_number(&a->settings, argv[i], argv[i + 1])))
            i++;
        else {
            fprintf(stderr, "bench_codec: %s?\n%s", argv[i], usage);
            exit(2);
        }
    }
    if (a->settings.encode_seconds < 0)
        a->settings.encode_seconds = a->settings.seconds / 2;
}

/* Returns whether `name` is in the list "a,b*,c". A list of NULL contains every name. */
static bool is_named(const char *list, const char *name)
{
    while (list && *list) {
        size_t n = strcspn(list, ",");
        bool is_prefix = n > 0 && list[n - 1] == '*';
        if (is_prefix ? strncmp(list, name, n - 1) == 0
                      : strlen(name) == n && strncmp(list, name, n) == 0)
            return true;
        list += n + (list[n] == ',');
    }
    return !list;
}

static bool can_all(const struct codec *codec, const struct group *group)
{
    for (size_t i = 0; i < group->n; i++)
        if (!codec->can(&group->images[i]))
            return false;
    return true;
}

static const struct measurement *find(const struct measurement *rows, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].codec->name, name) == 0)
            return &rows[i];
    return NULL;
}

/* Chooses the codecs for a group. A codec that decodes another one's bytes is chosen wherever that
 * other codec is, which stands before it in the list. */
static size_t choose(struct measurement *rows, size_t cap, const struct group *group,
                     const char *codecs)
{
    size_t n_families, n = 0;
    const struct codec_family *const *families = codec_families(&n_families);
    for (size_t f = 0; f < n_families; f++)
        for (size_t c = 0; c < families[f]->n && n < cap; c++) {
            const struct codec *codec = &families[f]->codecs[c];
            if (is_named(codecs, codec->name) && can_all(codec, group) &&
                (!codec->borrows || find(rows, n, codec->borrows)))
                rows[n++] = (struct measurement){.family = families[f], .codec = codec};
        }
    return n;
}

/* Measures all codecs with a group, and frees the group. */
static void run_group(struct group *group, const struct arguments *a, struct output *out)
{
    enum { MAX_ROWS = 64 };
    struct measurement rows[MAX_ROWS];
    size_t n = choose(rows, MAX_ROWS, group, a->codecs);
    for (size_t i = 0; i < n; i++) {
        const char *lender = rows[i].codec->borrows;
        measure_encode(&rows[i], group, lender ? find(rows, i, lender) : NULL, &a->settings);
    }
    for (uint32_t repeat = 0; repeat < a->settings.repeats && !a->settings.sizes_only; repeat++)
        for (size_t i = 0; i < n; i++)
            measure_decode(&rows[i], group, repeat, &a->settings);
    output_group(out, group, rows, n, &a->settings);
    for (size_t i = n; i-- > 0;)
        measurement_close(&rows[i], group->n);
    group_free(group);
}

static void run_folder(const char *folder, const struct arguments *a, struct output *out)
{
    struct group group;
    group_load(&group, folder, a->settings.max_images);
    run_group(&group, a, out);
}

static void list_codecs(void)
{
    size_t n;
    const struct codec_family *const *families = codec_families(&n);
    for (size_t f = 0; f < n; f++)
        for (size_t c = 0; c < families[f]->n; c++)
            printf("%-16s %s %s\n", families[f]->codecs[c].name, families[f]->library,
                   families[f]->version);
    const struct codec_absence *absences = codec_absences(&n);
    for (size_t i = 0; i < n; i++)
        printf("%-16s absent: %s\n", absences[i].name, absences[i].why);
}

static int is_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

/* Measures any folder. Each sub-folder with images is a group; if there is no such sub-folder, the
 * folder itself is a group.
 */
static void run_any(const struct arguments *a, struct output *out)
{
    struct dirent **names;
    size_t n_groups = 0;
    int n = scandir(a->data, &names, is_visible, alphasort);
    if (n < 0)
        die(a->data, "cannot be read");
    for (int i = 0; i < n; i++) {
        char folder[4096];
        struct stat about;
        snprintf(folder, sizeof folder, "%s/%s", a->data, names[i]->d_name);
        if (stat(folder, &about) == 0 && S_ISDIR(about.st_mode) && group_is_there(folder)) {
            run_folder(folder, a, out);
            n_groups++;
        }
        free(names[i]);
    }
    free(names);
    if (n_groups == 0)
        run_folder(a->data, a, out);
}

/* Measures the groups of --data: the named ones, which must exist; or all known ones that exist;
 * or, if there are none, any folder. */
static void run_data(const struct arguments *a, struct output *out)
{
    const char *list = a->groups ? a->groups : known_groups;
    size_t n_groups = 0;
    while (*list) {
        char folder[4096];
        struct stat about;
        size_t n = strcspn(list, ",");
        snprintf(folder, sizeof folder, "%s/%.*s", a->data, (int)n, list);
        if (a->groups || stat(folder, &about) == 0) {
            run_folder(folder, a, out);
            n_groups++;
        }
        list += n + (list[n] == ',');
    }
    if (n_groups == 0)
        run_any(a, out);
}

int main(int argc, char **argv)
{
    struct arguments a;
    parse(argc, argv, &a);
    if (a.list) {
        list_codecs();
        return 0;
    }
    if (!a.data && a.n_folders == 0 && !a.generated) {
        fputs(usage, stderr);
        return 2;
    }
    /* Keeps freed memory in the process, in one heap. Otherwise codecs that allocate their buffers
     * for each image pay for page faults, which do not occur in a loader that runs for hours. */
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 64 << 20);
    mallopt(M_ARENA_MAX, 1);
    pin_to_core(0);
    struct output *out = output_open(a.json, a.csv, &a.settings);
    for (size_t i = 0; i < a.n_folders; i++)
        run_folder(a.folders[i], &a, out);
    if (a.data)
        run_data(&a, out);
    struct group group;
    for (size_t i = 0; a.generated && group_make(&group, i, a.settings.max_images); i++)
        run_group(&group, &a, out);
    output_close(out);
    return 0;
}
