/* cmd_cat.c - the verb cat: one item of one sample, its bytes as stored, or its pixels as PNM. */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct cat {
    struct cli *cli;
    pst_dataset *dataset;
    const char *field, *output, *labels;
    uint64_t variant;
    bool has_variant_option, pixels, by_name;
    const char *variant_text;
};

static enum pst_status find_sample(const struct cat *cat, const char *text, uint64_t *sample,
                                   struct pst_error *err)
{
    uint64_t count = pst_dataset_count(cat->dataset);
    if (!cat->by_name && cli_count(text, sample)) {
        if (*sample < count)
            return PST_OK;
        cli_error(err, PST_ERROR_NOT_FOUND, "no sample %s: there are %llu", text,
                  (unsigned long long)count);
        snprintf(err->dataset, sizeof err->dataset, "%s", pst_dataset_path(cat->dataset));
        return PST_ERROR_NOT_FOUND;
    }
    for (*sample = 0; *sample < count; ++*sample) {
        const char *name;
        enum pst_status status = pst_dataset_sample_name(cat->dataset, *sample, &name, err);
        if (status != PST_OK)
            return status;
        if (strcmp(name, text) == 0)
            return PST_OK;
    }
    cli_error(err, PST_ERROR_NOT_FOUND, "no sample is named \"%s\"", text);
    snprintf(err->dataset, sizeof err->dataset, "%s", pst_dataset_path(cat->dataset));
    return PST_ERROR_NOT_FOUND;
}

/* What could not be written whole is not left behind; a device or a link stays. */
static void remove_part(const char *path)
{
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode))
        (void)unlink(path);
}

/* Writes everything, to the file of -o or to stdout. */
static enum pst_status put(const struct cat *cat, const void *head, size_t head_nbytes,
                           const void *bytes, size_t nbytes, struct pst_error *err)
{
    bool to_stdout = cat->output == NULL || strcmp(cat->output, "-") == 0;
    FILE *file = to_stdout ? stdout : fopen(cat->output, "wb");
    bool ok = file != NULL && fwrite(head, 1, head_nbytes, file) == head_nbytes &&
              fwrite(bytes, 1, nbytes, file) == nbytes && fflush(file) == 0;
    int os_error = errno;
    if (file != NULL && !to_stdout && fclose(file) != 0 && ok) {
        ok = false;
        os_error = errno;
    }
    if (ok || (to_stdout && os_error == EPIPE))
        return PST_OK; /* main ends quietly when the reader has gone */
    if (file != NULL && !to_stdout)
        remove_part(cat->output);
    cli_error(err, os_error == ENOSPC ? PST_ERROR_NO_SPACE : PST_ERROR_IO, "cannot be written");
    err->os_error = os_error;
    snprintf(err->file, sizeof err->file, "%s", to_stdout ? "stdout" : cat->output);
    return err->status;
}

/* Decodes into memory that the caller frees; the head of the PNM goes into `head`. */
static enum pst_status make_pnm(const struct pst_item *item, const void *bytes,
                                enum pst_field_type type, char head[128], void **pixels,
                                size_t *nbytes, struct pst_error *err)
{
    struct pst_decode_options options = {.struct_size = sizeof options,
                                         .palette_indices = type == PST_FIELD_MASK};
    struct pst_image_info info = {.form = PST_FORM_RAW,
                                  .height = item->height,
                                  .width = item->width,
                                  .channels = item->channels,
                                  .bits = item->bits};
    enum pst_status status = PST_OK;
    if (item->form != PST_FORM_RAW)
        status = pst_image_probe(bytes, (size_t)item->nbytes, item->form, &options, &info, err);
    if (status != PST_OK)
        return status;
    size_t row_nbytes = (size_t)info.width * info.channels * (info.bits / 8);
    *nbytes = row_nbytes * info.height;
    *pixels = malloc(*nbytes);
    if (*pixels == NULL)
        return cli_error(err, PST_ERROR_MEMORY, "out of memory for %zu bytes of pixels", *nbytes);
    if (item->form == PST_FORM_RAW)
        memcpy(*pixels, bytes, *nbytes);
    else
        status = pst_image_decode(bytes, (size_t)item->nbytes, item->form, &options, *pixels,
                                  *nbytes, row_nbytes, err);
    if (status != PST_OK)
        return status;
    if (info.bits == 16) { /* PNM is big-endian */
        unsigned char *p = *pixels;
        for (size_t i = 0; i < *nbytes; i += 2) {
            unsigned char low = p[i];
            p[i] = p[i + 1];
            p[i + 1] = low;
        }
    }
    unsigned top = info.bits == 16 ? 65535 : 255;
    if (info.channels == 1 || info.channels == 3)
        snprintf(head, 128, "P%c\n%u %u\n%u\n", info.channels == 1 ? '5' : '6', info.width,
                 info.height, top);
    else /* PNM proper has no alpha */
        snprintf(head, 128, "P7\nWIDTH %u\nHEIGHT %u\nDEPTH %u\nMAXVAL %u\nTUPLTYPE %s\nENDHDR\n",
                 info.width, info.height, info.channels, top,
                 info.channels == 2 ? "GRAYSCALE_ALPHA" : "RGB_ALPHA");
    return PST_OK;
}

static enum pst_status put_number(struct cat *cat, uint64_t sample, uint32_t i_field,
                                  enum pst_field_type type, struct pst_error *err)
{
    char text[64];
    int64_t number;
    double real;
    enum pst_status status;
    if (type == PST_FIELD_INT) {
        status = pst_dataset_int(cat->dataset, sample, i_field, &number, err);
        snprintf(text, sizeof text, "%" PRId64 "\n", number);
    } else {
        status = pst_dataset_float(cat->dataset, sample, i_field, &real, err);
        snprintf(text, sizeof text, "%.17g\n", real);
    }
    return status == PST_OK ? put(cat, "", 0, text, strlen(text), err) : status;
}

static int refuse_terminal(const struct cat *cat, enum pst_field_type type)
{
    bool text = type == PST_FIELD_TEXT || type == PST_FIELD_JSON || type == PST_FIELD_INT ||
                type == PST_FIELD_FLOAT;
    if (cat->output != NULL || text || isatty(STDOUT_FILENO) != 1)
        return -1;
    return cli_usage(
        cat->cli,
        "the bytes would upset the terminal: give -o FILE, or -o - if you want them here");
}

static enum pst_status put_item(struct cat *cat, uint64_t sample, uint32_t i_field,
                                enum pst_field_type type, struct pst_error *err)
{
    struct pst_item item;
    void *bytes = NULL, *pixels = NULL;
    char head[128] = "";
    size_t nbytes;
    uint32_t variant = (uint32_t)cat->variant;
    enum pst_status status = pst_dataset_item(cat->dataset, sample, i_field, variant, &item, err);
    if (status != PST_OK)
        return status;
    if (item.form == PST_FORM_NONE &&
        (item.i_file == PST_FILE_NONE || !pst_dataset_is_folder(cat->dataset))) {
        status = cli_error(err, PST_ERROR_NOT_FOUND, "the sample has no variant %u of field %s",
                           variant, pst_dataset_field(cat->dataset, i_field)->name);
        goto out;
    }
    status = cli_read_item(cat->dataset, sample, i_field, variant, &item, &bytes, err);
    if (status != PST_OK)
        goto out;
    if (cat->pixels) {
        status = make_pnm(&item, bytes, type, head, &pixels, &nbytes, err);
        if (status == PST_OK)
            status = put(cat, head, strlen(head), pixels, nbytes, err);
    } else {
        status = put(cat, "", 0, bytes, (size_t)item.nbytes, err);
    }
out:
    if (status != PST_OK && err->dataset[0] == '\0')
        cli_locate(err, cat->dataset, sample, &item);
    free(pixels);
    free(bytes);
    return status;
}

static int run_cat(struct cat *cat, const char *text)
{
    struct pst_error err;
    uint64_t sample;
    pst_error_clear(&err);
    int i_field = pst_dataset_find_field(cat->dataset, cat->field);
    if (i_field < 0)
        return cli_usage(cat->cli, "no field \"%s\": see penstock info", cat->field);
    const struct pst_field *field = pst_dataset_field(cat->dataset, (uint32_t)i_field);
    if (cat->variant >= field->n_variants)
        return cli_usage(cat->cli, "--variant is %llu: field %s has %u",
                         (unsigned long long)cat->variant, field->name, field->n_variants);
    if (cat->pixels && field->type != PST_FIELD_IMAGE && field->type != PST_FIELD_MASK)
        return cli_usage(cat->cli, "--pixels: field %s is %s, not an image", field->name,
                         pst_field_type_name(field->type));
    int exit_status = refuse_terminal(cat, field->type);
    if (exit_status >= 0)
        return exit_status;
    enum pst_status status = find_sample(cat, text, &sample, &err);
    if (status == PST_OK && (field->type == PST_FIELD_INT || field->type == PST_FIELD_FLOAT))
        status = put_number(cat, sample, (uint32_t)i_field, field->type, &err);
    else if (status == PST_OK)
        status = put_item(cat, sample, (uint32_t)i_field, field->type, &err);
    return status == PST_OK ? CLI_OK : cli_fail(cat->cli, &err);
}

int cmd_cat(struct cli *cli, int argc, char **argv)
{
    struct cat cat = {.cli = cli, .field = "image"};
    const struct cli_option options[] = {
        {"field", 'f', CLI_TEXT, &cat.field, "NAME", "image", "which field"},
        {"variant", 'k', CLI_COUNT, &cat.variant, "K", "0", "which stored form of it"},
        {"output", 'o', CLI_TEXT, &cat.output, "FILE", "stdout",
         "where to write; - is stdout, also a terminal"},
        {"pixels", 'p', CLI_FLAG, &cat.pixels, NULL, NULL,
         "decode and write PGM or PPM (PAM with alpha), 8 or 16 bit, upright"},
        {"name", 'n', CLI_FLAG, &cat.by_name, NULL, NULL,
         "SAMPLE is a name even if it looks like a number"},
        {"labels", 0, CLI_TEXT, &cat.labels, "FILE", "one class per sub-folder",
         "label file of a plain folder"},
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL},
    };
    const struct cli_command command = {
        .usage = "cat PATH SAMPLE [options]",
        .about = "Writes one item of a sample, given by number or name: its bytes as they are "
                 "stored, after their\n"
                 "checksum was compared, or the pixels.",
        .example = "penstock cat photos.pst 17 --pixels -o 17.ppm",
        .options = options,
        .n_min = 2,
        .n_max = 2,
    };
    const char *operands[4] = {0};
    struct pst_error err;
    int exit_status = cli_parse(cli, &command, argc, argv, operands);
    if (exit_status >= 0)
        return exit_status;
    pst_error_clear(&err);
    if (cli_open(operands[0], cat.labels, &cat.dataset, &err) != PST_OK)
        return cli_fail(cli, &err);
    exit_status = run_cat(&cat, operands[1]);
    pst_dataset_close(&cat.dataset);
    return exit_status;
}
