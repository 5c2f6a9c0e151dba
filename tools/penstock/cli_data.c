/* cli_data.c - for verbs that inspect data sets: options of opening them, their notices, and their
 * items. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum pst_status cli_error(struct pst_error *err, enum pst_status status, const char *format, ...)
{
    va_list arguments;
    pst_error_clear(err);
    err->status = status;
    va_start(arguments, format);
    vsnprintf(err->text, sizeof err->text, format, arguments);
    va_end(arguments);
    snprintf(err->room, sizeof err->room, "cli");
    return status;
}

void cli_locate(struct pst_error *err, const pst_dataset *dataset, uint64_t sample,
                const struct pst_item *item)
{
    char path[8192];
    const char *end = pst_dataset_path(dataset);
    size_t n = strlen(end);
    snprintf(err->dataset, sizeof err->dataset, "%s",
             n < sizeof err->dataset ? end : end + n - sizeof err->dataset + 1);
    err->sample = (int64_t)sample;
    if (err->file[0] != '\0' || item->i_file == PST_FILE_NONE ||
        pst_dataset_file_path(dataset, item->i_file, path, sizeof path, NULL) != PST_OK)
        return;
    n = strlen(path);
    memcpy(err->file, n < sizeof err->file ? path : path + n - sizeof err->file + 1,
           n < sizeof err->file ? n + 1 : sizeof err->file);
    /* A decoder counts offsets from the item's first byte, but a shard holds many items. */
    err->offset = err->offset < 0 ? (int64_t)item->offset : err->offset + (int64_t)item->offset;
}

static const char *const type_names[] = {"image", "mask",  "boxes", "keypoints", "audio", "int",
                                         "float", "bytes", "text",  "json",      "array", NULL};

/* Parses SUFFIX=-, or SUFFIX=[NAME][:TYPE[:CLASSES]]. NULs are written into `word`, so that its
 * parts become strings. */
static enum pst_status read_rule(char *word, struct pst_member_rule *rule, struct pst_error *err)
{
    char *is = strchr(word, '='), *type = is == NULL ? NULL : strchr(is, ':');
    char *classes = type == NULL ? NULL : strchr(type + 1, ':');
    uint64_t n_classes = 0;
    *rule = (struct pst_member_rule){.suffix = word};
    if (is == NULL || is == word || is[1] == '\0')
        return cli_error(err, PST_ERROR_ARGUMENT,
                         "--members: \"%s\" is not SUFFIX=NAME, SUFFIX=NAME:TYPE, "
                         "SUFFIX=NAME:int:CLASSES or SUFFIX=-",
                         word);
    if (classes != NULL && (!cli_count(classes + 1, &n_classes) || n_classes > INT64_MAX))
        return cli_error(err, PST_ERROR_ARGUMENT, "--members: \"%s\" is not a number of classes",
                         classes + 1);
    for (char *end = is; end != NULL; end = end == is ? type : end == type ? classes : NULL)
        *end = '\0';
    rule->is_left_out = strcmp(is + 1, "-") == 0 && type == NULL;
    rule->n_classes = (int64_t)n_classes;
    rule->field = is[1] == '\0' || rule->is_left_out ? NULL : is + 1;
    rule->type = type == NULL ? (enum pst_field_type)0 : pst_field_type_from_name(type + 1);
    if (type == NULL || rule->type != 0)
        return PST_OK;
    const char *near = cli_nearest(type + 1, type_names, sizeof type_names[0]);
    return cli_error(err, PST_ERROR_ARGUMENT, "--members: there is no type \"%s\"%s%s%s", type + 1,
                     near == NULL ? "" : ": did you mean \"", near == NULL ? "" : near,
                     near == NULL ? "" : "\"?");
}

static enum pst_status read_members(struct cli_source *source, struct pst_dataset_options *options,
                                    struct pst_error *err)
{
    char *rest = NULL;
    enum pst_status status = PST_OK;
    if (source->members == NULL)
        return PST_OK;
    free(source->rule_words);
    source->rule_words = strdup(source->members);
    if (source->rule_words == NULL)
        return cli_error(err, PST_ERROR_MEMORY, "out of memory");
    options->members = source->rules;
    for (char *word = strtok_r(source->rule_words, ",", &rest); status == PST_OK && word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        if (options->n_members == CLI_MEMBERS_CAP)
            return cli_error(err, PST_ERROR_ARGUMENT, "--members: more than %d rules",
                             CLI_MEMBERS_CAP);
        status = read_rule(word, &source->rules[options->n_members++], err);
    }
    return status;
}

enum pst_status cli_source_options(const struct cli *cli, struct cli_source *source,
                                   struct pst_dataset_options *options, struct pst_error *err)
{
    size_t n = 0;
    *options = (struct pst_dataset_options){.struct_size = sizeof *options,
                                            .labels = source->labels,
                                            .allow_unreadable = source->allow_unreadable,
                                            .ignore_labels = source->ignore_labels,
                                            .masks = source->names,
                                            .split = source->split};
    cli_opening_begin(&source->opening, cli, options);
    enum pst_status status = read_members(source, options, err);
    if (status != PST_OK || source->masks == NULL)
        return status;
    free(source->words);
    source->words = strdup(source->masks);
    if (source->words == NULL)
        return cli_error(err, PST_ERROR_MEMORY, "out of memory");
    char *rest = NULL;
    for (char *word = strtok_r(source->words, ",", &rest); word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        if (n == PST_MAX_FIELDS)
            return cli_error(err, PST_ERROR_ARGUMENT, "--masks: more than %d columns",
                             PST_MAX_FIELDS);
        source->names[n++] = word;
    }
    options->n_masks = n;
    if (n > 0 && source->labels == NULL)
        return cli_error(err, PST_ERROR_ARGUMENT, "--masks names columns of --labels FILE");
    return PST_OK;
}

void cli_source_free(struct cli_source *source)
{
    free(source->words);
    source->words = NULL;
    free(source->rule_words);
    source->rule_words = NULL;
}

bool cli_ends_with(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);
    return n >= m && strcasecmp(name + n - m, suffix) == 0;
}

static void print_notice(const struct cli *cli, const struct pst_notice *notice)
{
    unsigned long long n = notice->count;
    const char *s = n == 1 ? "" : "s";
    switch (notice->kind) {
    case PST_NOTICE_LEFT_OUT:
        cli_note(cli, "left out: %llu %s (%s%s)", n, notice->name,
                 n == 1 ? "" : "the first: ", notice->first);
        break;
    case PST_NOTICE_UNREADABLE:
        cli_note(cli, "left out: %llu unreadable: %s (%s%s)", n, notice->name,
                 n == 1 ? "" : "the first: ", notice->first);
        break;
    case PST_NOTICE_NO_IMAGE:
        cli_note(cli, "left out: %llu mask%s of field %s without an image (%s%s)", n, s,
                 notice->name, n == 1 ? "" : "the first: ", notice->first);
        break;
    case PST_NOTICE_NO_MASK:
        cli_note(cli, "%llu image%s without a mask of field %s (%s%s)", n, s, notice->name,
                 n == 1 ? "" : "the first: ", notice->first);
        break;
    case PST_NOTICE_COLUMN:
        if (n == 1)
            cli_note(cli, "left out: column %s: %s (%s)", notice->name, notice->why, notice->first);
        else
            cli_note(cli, "left out: column %s: %s (the first of %llu: %s)", notice->name,
                     notice->why, n, notice->first);
        break;
    case PST_NOTICE_ROWS:
        cli_note(cli, "left out: %llu %s (%s%s)", n, notice->name, n == 1 ? "" : "the first: ",
                 notice->first);
        break;
    case PST_NOTICE_LABELS:
        cli_note(cli, "field %s has hidden labels (-1) and no classes (the first: %s)",
                 notice->name, notice->first);
        break;
    case PST_NOTICE_MASK_IN_COLORS: /* the library has already logged it with advice */
        break;
    case PST_NOTICE_TEXT_IS_PATH:
        cli_note(cli,
                 "column %s names image files (%s, ...) and is stored as text: for masks say "
                 "--masks %s",
                 notice->name, notice->first, notice->name);
        break;
    }
}

void cli_notices(const struct cli *cli, const pst_dataset *dataset)
{
    struct pst_notice notice;
    for (uint32_t i = 0; i < pst_dataset_n_notices(dataset); i++)
        if (pst_dataset_notice(dataset, i, &notice, sizeof notice, NULL) == PST_OK)
            print_notice(cli, &notice);
}

void cli_notices_json(struct cli_json *json, const pst_dataset *dataset)
{
    struct pst_notice notice;
    cli_json_open(json, "notices", '[');
    for (uint32_t i = 0; i < pst_dataset_n_notices(dataset); i++) {
        if (pst_dataset_notice(dataset, i, &notice, sizeof notice, NULL) != PST_OK)
            continue;
        cli_json_open(json, NULL, '{');
        cli_json_text(json, "kind", pst_notice_kind_name(notice.kind));
        cli_json_text(json, "name", notice.name);
        cli_json_uint(json, "count", notice.count);
        cli_json_text(json, "first", notice.first);
        if (notice.why[0] != '\0')
            cli_json_text(json, "why", notice.why);
        cli_json_close(json, '}');
    }
    cli_json_close(json, ']');
}

uint64_t cli_item_nbytes(const struct pst_item *item)
{
    return item->page_nbytes > 0 ? item->decoded_nbytes : item->nbytes;
}

void cli_item_decoded(struct pst_item *item)
{
    if (item->coding == PST_CODING_STORED)
        return;
    item->nbytes = item->decoded_nbytes;
    item->decoded_nbytes = item->page_nbytes = item->page_offset = 0;
    item->coding = PST_CODING_STORED;
}

enum pst_status cli_read_item(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                              uint32_t variant, const struct pst_item *item, void **bytes,
                              struct pst_error *err)
{
    *bytes =
        item->nbytes > SIZE_MAX / 2 ? NULL : malloc(item->nbytes == 0 ? 1 : (size_t)item->nbytes);
    if (*bytes == NULL)
        return cli_error(err, PST_ERROR_MEMORY, "out of memory for an item of %llu bytes",
                         (unsigned long long)item->nbytes);
    enum pst_status status =
        pst_dataset_read(dataset, sample, i_field, variant, 0, item->nbytes, *bytes, err);
    if (status != PST_OK) {
        free(*bytes);
        *bytes = NULL;
    }
    return status;
}

enum pst_status cli_complete_item(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                  uint32_t variant, struct pst_item *item, struct pst_error *err)
{
    void *bytes;
    struct pst_image_info info;
    if (item->form != PST_FORM_NONE || item->i_file == PST_FILE_NONE ||
        pst_dataset_is_packed(dataset))
        return PST_OK;
    struct pst_item whole = *item;
    cli_item_decoded(&whole);
    enum pst_status status = cli_read_item(dataset, sample, i_field, variant, &whole, &bytes, err);
    if (status != PST_OK)
        return status;
    status =
        pst_image_probe(bytes, (size_t)whole.nbytes, PST_FORM_NONE, NULL, &info, sizeof info, err);
    free(bytes);
    if (status != PST_OK) {
        cli_locate(err, dataset, sample, item);
        return status;
    }
    item->form = info.form;
    item->height = info.height;
    item->width = info.width;
    item->channels = info.channels;
    item->bits = info.bits;
    item->orientation = info.orientation;
    return PST_OK;
}

/* Opens a regular file. A pipe or device is refused, because opening it could wait forever. */
static FILE *open_plain(const char *path, struct stat *st, struct pst_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool is_plain = fd >= 0 && fstat(fd, st) == 0 && S_ISREG(st->st_mode);
    FILE *file = is_plain ? fdopen(fd, "rb") : NULL;
    int os_error = errno;
    if (file != NULL)
        return file;
    if (fd >= 0 && !is_plain) {
        cli_error(err, PST_ERROR_UNSUPPORTED, "is not a regular file");
        os_error = 0;
    } else {
        cli_error(err, PST_ERROR_IO, "cannot be opened");
    }
    if (fd >= 0)
        close(fd);
    errno = os_error;
    return NULL;
}

enum pst_status cli_read_file(const char *path, void **bytes, size_t *nbytes, struct pst_error *err)
{
    struct stat st;
    *bytes = NULL;
    *nbytes = 0;
    FILE *file = open_plain(path, &st, err);
    if (file == NULL)
        goto fail_os;
    *bytes = malloc((size_t)st.st_size + 1);
    if (*bytes == NULL) {
        cli_error(err, PST_ERROR_MEMORY, "out of memory for a file of %lld bytes",
                  (long long)st.st_size);
        goto fail_os;
    }
    *nbytes = fread(*bytes, 1, (size_t)st.st_size, file);
    ((char *)*bytes)[*nbytes] = '\0';
    if (ferror(file)) {
        cli_error(err, PST_ERROR_IO, "cannot be read");
        goto fail_os;
    }
    fclose(file);
    return PST_OK;
fail_os:
    err->os_error = errno;
    snprintf(err->file, sizeof err->file, "%s", path);
    if (file != NULL)
        fclose(file);
    free(*bytes);
    *bytes = NULL;
    return err->status;
}

int cli_field_of_type(const pst_dataset *dataset, enum pst_field_type type)
{
    for (uint32_t i = 0; i < pst_dataset_n_fields(dataset); i++)
        if (pst_dataset_field(dataset, i)->type == type)
            return (int)i;
    return -1;
}

bool cli_range(const char *text, uint64_t count, uint64_t *begin, uint64_t *end)
{
    char first[32];
    const char *colon = strchr(text, ':');
    *begin = 0;
    *end = count;
    size_t n = colon == NULL ? strlen(text) : (size_t)(colon - text);
    if (n >= sizeof first)
        return false;
    memcpy(first, text, n);
    first[n] = '\0';
    if ((n > 0 || colon == NULL) && !cli_count(first, begin))
        return false;
    if (colon == NULL)
        *end = *begin == UINT64_MAX ? *begin : *begin + 1;
    else if (colon[1] != '\0' && !cli_count(colon + 1, end))
        return false;
    *end = *end > count ? count : *end;
    return *begin <= *end || *begin >= count;
}

enum pst_status cli_find_sample(const pst_dataset *dataset, const char *text, bool by_name,
                                uint64_t *sample, struct pst_error *err)
{
    uint64_t count = pst_dataset_count(dataset);
    if (by_name || !cli_count(text, sample))
        return pst_dataset_find_sample(dataset, text, sample, err);
    if (*sample < count)
        return PST_OK;
    cli_error(err, PST_ERROR_NOT_FOUND, "no sample %s: there are %llu", text,
              (unsigned long long)count);
    snprintf(err->dataset, sizeof err->dataset, "%s", pst_dataset_path(dataset));
    return PST_ERROR_NOT_FOUND;
}
