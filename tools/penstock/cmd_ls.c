/* cmd_ls.c - the verb ls: prints samples, one per line. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

struct ls {
    struct cli *cli;
    struct cli_json json;
    pst_dataset *dataset;
    int i_image, i_label;
    bool detailed;
    uint64_t n_bad;
};

static void print_json(struct ls *ls, uint64_t sample, const char *name, int64_t label,
                       const struct pst_item *item, const struct pst_error *bad)
{
    cli_json_open(&ls->json, NULL, '{');
    cli_json_uint(&ls->json, "sample", sample);
    cli_json_text(&ls->json, "name", name);
    if (ls->i_label >= 0) {
        cli_json_int(&ls->json, "label", label);
        cli_json_text(&ls->json, "class",
                      pst_dataset_class_name(ls->dataset, (uint32_t)ls->i_label, label));
    }
    if (item != NULL) {
        cli_json_uint(&ls->json, "bytes", cli_item_nbytes(item));
        if (item->form != PST_FORM_NONE)
            cli_json_text(&ls->json, "form", pst_form_name(item->form));
        if (item->height != 0) {
            cli_json_uint(&ls->json, "height", item->height);
            cli_json_uint(&ls->json, "width", item->width);
            cli_json_uint(&ls->json, "channels", item->channels);
            cli_json_uint(&ls->json, "bits", item->bits);
        }
    }
    if (bad != NULL)
        cli_json_error(&ls->json, "error", bad);
    cli_json_close(&ls->json, '}');
}

static void print_line(struct ls *ls, uint64_t sample, const char *name, int64_t label,
                       const struct pst_item *item)
{
    printf("%8llu  ", (unsigned long long)sample);
    if (ls->i_label >= 0)
        printf("%5lld  ", (long long)label);
    if (ls->detailed && item != NULL) {
        char size[32], dims[48] = "?";
        cli_size_text(cli_item_nbytes(item), size);
        if (item->height != 0)
            snprintf(dims, sizeof dims, "%ux%ux%u/%u", item->width, item->height, item->channels,
                     item->bits);
        printf("%-8s %10s  %-18s ", item->form == PST_FORM_NONE ? "?" : pst_form_name(item->form),
               size, dims);
    }
    cli_print_name(stdout, name);
    putchar('\n');
}

/* Finds the first variant that the sample has. */
static enum pst_status first_item(struct ls *ls, uint64_t sample, struct pst_item *item,
                                  struct pst_error *err)
{
    uint32_t i_field = (uint32_t)ls->i_image;
    enum pst_status status = PST_OK;
    for (uint32_t v = 0; v < pst_dataset_field(ls->dataset, i_field)->n_variants; v++) {
        status = pst_dataset_item(ls->dataset, sample, i_field, v, item, sizeof *item, err);
        if (status != PST_OK || item->form != PST_FORM_NONE)
            return status;
        if (!pst_dataset_is_packed(ls->dataset))
            return cli_complete_item(ls->dataset, sample, i_field, v, item, err);
    }
    return status;
}

static enum pst_status list_one(struct ls *ls, uint64_t sample, struct pst_error *err)
{
    char name[PST_NAME_CAP];
    int64_t label = 0;
    struct pst_item item = {0};
    struct pst_error bad;
    enum pst_status item_status = PST_OK;
    pst_error_clear(&bad);
    enum pst_status status = pst_dataset_sample_name(ls->dataset, sample, name, err);
    if (status == PST_OK && ls->i_label >= 0)
        status = pst_dataset_int(ls->dataset, sample, (uint32_t)ls->i_label, &label, err);
    if (status != PST_OK)
        return status;
    if (ls->detailed && ls->i_image >= 0)
        item_status = first_item(ls, sample, &item, &bad);
    bool has_item = ls->detailed && ls->i_image >= 0;
    if (ls->cli->json)
        print_json(ls, sample, name, label, has_item ? &item : NULL,
                   item_status == PST_OK ? NULL : &bad);
    else
        print_line(ls, sample, name, label, has_item ? &item : NULL);
    if (item_status != PST_OK) {
        ls->n_bad++;
        cli_complain(ls->cli, &bad);
    }
    return PST_OK;
}

/* Parses --range, which may lie beyond the last sample. Returns -1, or the exit status after wrong
 * use. */
static int take_option(struct ls *ls, const char *text, uint64_t *begin, uint64_t *end)
{
    if (cli_range(text, pst_dataset_count(ls->dataset), begin, end))
        return -1;
    return cli_usage(ls->cli, "--range is \"%s\": A:B with A <= B is expected", text);
}

/* Parses the operand: A:B or a number. Returns -1, or the exit status after wrong use. */
static int take_operand(struct ls *ls, const char *text, uint64_t *begin, uint64_t *end)
{
    uint64_t count = pst_dataset_count(ls->dataset);
    struct pst_error err;
    if (!cli_range(text, count, begin, end) || (*begin == *end && *begin < count))
        return cli_usage(ls->cli, "\"%s\": A:B with A < B, or a number, is expected", text);
    if (*begin < *end || (*begin == 0 && strchr(text, ':') != NULL)) /* or empty data set */
        return -1;
    pst_error_clear(&err);
    cli_error(&err, PST_ERROR_NOT_FOUND, "no sample %llu: there are %llu",
              (unsigned long long)*begin, (unsigned long long)count);
    snprintf(err.dataset, sizeof err.dataset, "%s", pst_dataset_path(ls->dataset));
    return cli_fail(ls->cli, &err);
}

int cmd_ls(struct cli *cli, int argc, char **argv)
{
    struct ls ls = {.cli = cli};
    const char *range = NULL;
    struct cli_source source = {0};
    const struct cli_option options[] = {
        {"long", 'l', CLI_FLAG, &ls.detailed, NULL, NULL,
         "form, bytes, width x height x channels / bits too (in a folder each file is read)"},
        {"range", 'r', CLI_TEXT, &range, "A:B", "all",
         "only samples A to B-1, as the operand A:B; a range without samples lists nothing"},
        CLI_SOURCE_OPTIONS(source, 0),
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL},
    };
    const struct cli_command command = {
        .usage = "ls PATH [A:B|N] [options]",
        .about =
            "Lists the samples of a data set or folder: number, label, name. A:B lists samples A "
            "to B-1; A: goes to the end, :B begins at the first, and N is one sample.",
        .example = "penstock ls photos.pst 0:20 --long\n"
                   "penstock ls photos.pst 1000: --json",
        .options = options,
        .n_min = 1,
        .n_max = 2,
    };
    const char *operands[4] = {0};
    struct pst_error err;
    uint64_t begin, end;
    int exit_status = cli_parse(cli, &command, argc, argv, operands);
    if (exit_status >= 0)
        return exit_status;
    if (operands[1] != NULL && range != NULL)
        return cli_usage(cli, "--range is the operand %s: give one of them", operands[1]);
    pst_error_clear(&err);
    if (cli_open(cli, operands[0], &source, &ls.dataset, &err) != PST_OK)
        return cli_fail(cli, &err);
    exit_status = operands[1] != NULL ? take_operand(&ls, operands[1], &begin, &end)
                                      : take_option(&ls, range == NULL ? ":" : range, &begin, &end);
    if (exit_status >= 0)
        goto out;
    ls.i_image = cli_field_of_type(ls.dataset, PST_FIELD_IMAGE);
    ls.i_label = pst_dataset_find_field(ls.dataset, "label");
    if (ls.i_label >= 0 &&
        pst_dataset_field(ls.dataset, (uint32_t)ls.i_label)->type != PST_FIELD_INT)
        ls.i_label = -1;
    if (cli->json) {
        cli_json_open(&ls.json, NULL, '{');
        cli_json_uint(&ls.json, "count", pst_dataset_count(ls.dataset));
        cli_json_open(&ls.json, "samples", '[');
    }
    enum pst_status status = PST_OK;
    for (uint64_t i = begin; i < end && status == PST_OK && !ferror(stdout); i++)
        status = list_one(&ls, i, &err);
    exit_status = ls.n_bad > 0 ? CLI_FAILED : CLI_OK;
    if (cli->json)
        cli_json_close(&ls.json, ']');
    if (status != PST_OK) {
        struct cli plain = *cli;
        plain.json = false;
        if (cli->json)
            cli_json_error(&ls.json, "error", &err);
        exit_status = cli_fail(&plain, &err);
    }
    if (cli->json)
        cli_json_close(&ls.json, '}');
out:
    pst_dataset_close(&ls.dataset);
    return exit_status;
}
