/* cmd_cat.c - the verb cat: writes one item of a sample, or an image file, in its stored form or
 * another one. */
#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct cat {
    struct cli *cli;
    pst_dataset *dataset;
    const char *field, *output, *as_text;
    struct cli_source source;
    uint64_t variant;
    bool pixels, by_name, indices, original, force;
    enum cli_as as;
    struct cli_pli pli;
    struct pst_pli_encode_options pli_options;
};

/* True if the bytes already are in the requested form. */
static bool is_so_already(const struct cat *cat, enum pst_form form)
{
    if (cat->as == CLI_AS_STORED)
        return true;
    if (cat->as == CLI_AS_PLI_JPEG)
        return form == PST_FORM_PLI_JPEG;
    if (cat->indices) /* palette indices differ from the pixels of the stored form */
        return false;
    return (cat->as == CLI_AS_PNG && form == PST_FORM_PNG) ||
           (cat->as == CLI_AS_RAW && form == PST_FORM_RAW) ||
           (cat->as == CLI_AS_PLI && form == PST_FORM_PLI && !cli_gives_pli(&cat->pli));
}

/* Writes the JPEG as a PLI of its coefficients. */
static enum pst_status put_pli_jpeg(const struct cat *cat, const struct pst_item *item,
                                    const void *bytes, struct pst_error *err)
{
    void *pli = NULL;
    size_t nbytes;
    if (item->form != PST_FORM_JPEG)
        return cli_error(err, PST_ERROR_UNSUPPORTED,
                         "the image is %s: pli-jpeg is made of JPEG files alone",
                         pst_form_name(item->form));
    enum pst_status status = cli_keep_jpeg(bytes, (size_t)item->nbytes, &pli, &nbytes, err);
    if (status == PST_OK)
        status = cli_put(cat->output, "", 0, pli, nbytes, err);
    free(pli);
    return status;
}

/* Writes an image. `item` must have form and nbytes, and for raw pixels their size. */
static enum pst_status put_image(const struct cat *cat, const struct pst_item *item,
                                 const void *bytes, bool indices, struct pst_error *err)
{
    char head[CLI_HEAD_CAP] = "";
    struct cli_image image = {0};
    void *encoded = NULL;
    size_t nbytes;
    if (is_so_already(cat, item->form))
        return cli_put(cat->output, "", 0, bytes, (size_t)item->nbytes, err);
    if (cat->as == CLI_AS_PLI_JPEG)
        return put_pli_jpeg(cat, item, bytes, err);
    enum pst_status status = cli_decode(item, bytes, indices, &image, err);
    if (status == PST_OK)
        status = cli_encode(&image, cat->as, &cat->pli_options, head, &encoded, &nbytes, err);
    if (status == PST_OK)
        status = cli_put(cat->output, head, strlen(head), encoded, nbytes, err);
    free(image.pixels.data);
    free(encoded);
    return status;
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
    return status == PST_OK ? cli_put(cat->output, "", 0, text, strlen(text), err) : status;
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
    void *bytes = NULL;
    uint32_t variant = (uint32_t)cat->variant;
    enum pst_status status =
        pst_dataset_item(cat->dataset, sample, i_field, variant, &item, sizeof item, err);
    if (status != PST_OK)
        return status;
    cli_item_decoded(&item);
    if (item.form == PST_FORM_NONE &&
        (item.i_file == PST_FILE_NONE || pst_dataset_is_packed(cat->dataset))) {
        status = cli_error(err, PST_ERROR_NOT_FOUND, "the sample has no variant %u of field %s",
                           variant, pst_dataset_field(cat->dataset, i_field)->name);
        goto out;
    }
    status = cli_read_item(cat->dataset, sample, i_field, variant, &item, &bytes, err);
    if (status != PST_OK)
        goto out;
    if (cat->as != CLI_AS_STORED) /* in a folder, the file's bytes tell the form */
        status = cli_complete_item(cat->dataset, sample, i_field, variant, &item, err);
    if (status == PST_OK)
        status = put_image(cat, &item, bytes, type == PST_FIELD_MASK || cat->indices, err);
out:
    if (status != PST_OK && err->dataset[0] == '\0')
        cli_locate(err, cat->dataset, sample, &item);
    free(bytes);
    return status;
}

/* Writes the original file of the image. */
static enum pst_status put_original(struct cat *cat, uint64_t sample, uint32_t i_field,
                                    struct pst_error *err)
{
    struct pst_item item = {.i_file = PST_FILE_NONE};
    void *bytes = NULL;
    uint32_t variant;
    bool found;
    enum pst_status status =
        cli_find_original(cat->dataset, sample, i_field, &variant, &item, &found, err);
    if (status == PST_OK && !found)
        status = cli_error(err, PST_ERROR_NOT_FOUND,
                           "the sample's file was not kept, its pixels were: see --as");
    if (status == PST_OK)
        status = cli_read_item(cat->dataset, sample, i_field, variant, &item, &bytes, err);
    size_t nbytes = (size_t)item.nbytes;
    if (status == PST_OK && pst_item_was_jpeg(&item))
        status = cli_restore_jpeg(&bytes, &nbytes, err);
    if (status == PST_OK)
        status = cli_put(cat->output, "", 0, bytes, nbytes, err);
    if (status != PST_OK && err->dataset[0] == '\0')
        cli_locate(err, cat->dataset, sample, &item);
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
    if ((cat->as != CLI_AS_STORED || cat->original) && field->type != PST_FIELD_IMAGE &&
        field->type != PST_FIELD_MASK)
        return cli_usage(cat->cli, "--%s: field %s is %s, not an image",
                         cat->original ? "original"
                         : cat->pixels ? "pixels"
                                       : "as",
                         field->name, pst_field_type_name(field->type));
    int exit_status = refuse_terminal(cat, field->type);
    if (exit_status >= 0)
        return exit_status;
    enum pst_status status = cli_find_sample(cat->dataset, text, cat->by_name, &sample, &err);
    if (status == PST_OK && (field->type == PST_FIELD_INT || field->type == PST_FIELD_FLOAT))
        status = put_number(cat, sample, (uint32_t)i_field, field->type, &err);
    else if (status == PST_OK && cat->original)
        status = put_original(cat, sample, (uint32_t)i_field, &err);
    else if (status == PST_OK)
        status = put_item(cat, sample, (uint32_t)i_field, field->type, &err);
    return status == PST_OK ? CLI_OK : cli_fail(cat->cli, &err);
}

/* Writes an image file outside a data set. */
static int cat_file(struct cat *cat, const char *path)
{
    struct pst_error err;
    struct pst_item item = {.i_file = PST_FILE_NONE};
    struct pst_image_info info = {.form = PST_FORM_NONE};
    void *bytes = NULL;
    size_t nbytes;
    pst_error_clear(&err);
    int exit_status = refuse_terminal(cat, PST_FIELD_IMAGE);
    if (exit_status >= 0)
        return exit_status;
    enum pst_status status = cli_read_file(path, &bytes, &nbytes, &err);
    if (status == PST_OK && (cat->as != CLI_AS_STORED || cat->original))
        status = pst_image_probe(bytes, nbytes, PST_FORM_NONE, NULL, &info, sizeof info, &err);
    if (status == PST_OK && cat->original && info.form == PST_FORM_PLI_JPEG)
        status = cli_restore_jpeg(&bytes, &nbytes, &err);
    item.nbytes = nbytes;
    item.form = info.form;
    if (status == PST_OK)
        status = put_image(cat, &item, bytes, cat->indices, &err);
    free(bytes);
    if (status == PST_OK)
        return CLI_OK;
    if (err.file[0] == '\0')
        snprintf(err.file, sizeof err.file, "%s", path);
    return cli_fail(cat->cli, &err);
}

static int take_options(struct cat *cat)
{
    for (const struct cli_image_form *form = cli_image_forms; form->name != NULL; form++)
        if (cat->as_text != NULL && strcmp(cat->as_text, form->name) == 0)
            cat->as = form->as;
    if (cat->as_text != NULL && cat->as == CLI_AS_STORED) {
        const char *near =
            cli_nearest(cat->as_text, &cli_image_forms[0].name, sizeof cli_image_forms[0]);
        return cli_usage(cat->cli,
                         "--as is \"%s\": png, pli, pli-jpeg, pnm or raw is expected%s%s%s",
                         cat->as_text, near == NULL ? "" : "; did you mean ",
                         near == NULL ? "" : near, near == NULL ? "" : "?");
    }
    if (cat->pixels && cat->as_text != NULL)
        return cli_usage(cat->cli, "--pixels is --as pnm: give one of them");
    if (cat->original && (cat->pixels || cat->as_text != NULL || cat->variant != 0))
        return cli_usage(cat->cli, "--original is the file itself: no --as, --pixels, --variant");
    if (cat->pixels)
        cat->as = CLI_AS_PNM;
    if (cli_gives_pli(&cat->pli) && cat->as != CLI_AS_PLI)
        return cli_usage(cat->cli, "--tier, --effort and --max-error go with --as pli");
    return cli_take_pli(cat->cli, &cat->pli, &cat->pli_options);
}

int cmd_cat(struct cli *cli, int argc, char **argv)
{
    struct cat cat = {.cli = cli, .field = "image"};
    const struct cli_option options[] = {
        CLI_GROUP("which item"),
        {"field", 'f', CLI_TEXT, &cat.field, "NAME", "image", "which field"},
        {"variant", 'k', CLI_COUNT, &cat.variant, "K", "0", "which stored form of it"},
        {"name", 'n', CLI_FLAG, &cat.by_name, NULL, NULL,
         "SAMPLE is a name even if it looks like a number"},
        CLI_GROUP("how it is written"),
        {"output", 'o', CLI_TEXT, &cat.output, "FILE", "stdout",
         "where to write; - is stdout, also a terminal"},
        {"force", 0, CLI_FLAG, &cat.force, NULL, NULL,
         "write over a file that is there, without a question"},
        {"as", 'a', CLI_TEXT, &cat.as_text, "png|pli|pli-jpeg|pnm|raw", "as stored",
         "decode, upright, and write so; pnm: PGM or PPM, 8 or 16 bits, or PAM with alpha; raw: "
         "samples alone, (H,W,C), 16 bits little-endian; pli-jpeg: not decoded, the JPEG's "
         "coefficients as PLI"},
        {"original", 'O', CLI_FLAG, &cat.original, NULL, NULL,
         "the file that was packed, byte for byte; of several variants the first that is a file. "
         "An error where only pixels were kept"},
        {"pixels", 'p', CLI_FLAG, &cat.pixels, NULL, NULL, "the same as --as pnm"},
        {"tier", 't', CLI_TEXT, &cat.pli.tier, "fast|small|dense", "small",
         "--as pli: fast to decode, small, or dense"},
        {"effort", 'e', CLI_COUNT, &cat.pli.effort, "N", "3",
         "--as pli: 1 to 5; more is smaller and slower to make"},
        {"max-error", 0, CLI_COUNT, &cat.pli.max_error, "N", "0",
         "--as pli: samples may differ by so much; 0 is lossless"},
        {"indices", 'i', CLI_FLAG, &cat.indices, NULL, NULL,
         "of an image with a palette its indices (masks: always)"},
        CLI_SOURCE_OPTIONS(cat.source, 0),
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL},
    };
    const struct cli_command command = {
        .usage = "cat PATH SAMPLE [options] | cat FILE [options]",
        .about = "Writes one item of a sample, given by number or name: its bytes as they are "
                 "stored, after their\n"
                 "checksum was compared, the file that was packed, or the pixels, encoded anew. "
                 "With --as or --original\n"
                 "also of an image file.",
        .example = "penstock cat photos.pst 17 --as png -o 17.png\n"
                   "  penstock cat photos.pst 17 --original -o 17.jpg\n"
                   "  penstock cat 17.png --as pli --tier dense -o 17.pli",
        .options = options,
        .n_min = 1,
        .n_max = 2,
    };
    const char *operands[4] = {0};
    struct pst_error err;
    int exit_status = cli_parse(cli, &command, argc, argv, operands);
    if (exit_status < 0)
        exit_status = take_options(&cat);
    if (exit_status < 0)
        exit_status = cli_may_write(cli, cat.output, cat.force);
    if (exit_status >= 0)
        return exit_status;
    struct stat st;
    bool is_foreign = pst_path_advice(operands[0]) != NULL; /* opening explains the path */
    bool is_file = !is_foreign && !pst_path_holds_samples(operands[0]) &&
                   stat(operands[0], &st) == 0 && S_ISREG(st.st_mode);
    if (is_file && operands[1] != NULL)
        return cli_usage(cli, "%s is a file: it has no sample %s", operands[0], operands[1]);
    if (is_file)
        return cat_file(&cat, operands[0]);
    if (operands[1] == NULL && !is_foreign)
        return cli_usage(cli, "an operand is missing: penstock cat PATH SAMPLE");
    pst_error_clear(&err);
    if (cli_open(cli, operands[0], &cat.source, &cat.dataset, &err) != PST_OK)
        return cli_fail(cli, &err);
    exit_status = run_cat(&cat, operands[1]);
    pst_dataset_close(&cat.dataset);
    return exit_status;
}
