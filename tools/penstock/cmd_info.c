/* cmd_info.c - the verb info: describes a data set, a folder or one image file. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SAMPLE_OF_FOLDER 256 /* headers to read in a folder without --all */
#define N_FORMS 32

static const char *const tiers[] = {"?", "fast", "small", "dense"};
static const char *const modes[] = {"raw", "constant", "packed", "wave", "lz", "coefficients"};

static double bits_per_pixel(const struct pst_pli_info *pli, size_t nbytes)
{
    return 8.0 * (double)nbytes / ((double)pli->height * pli->width);
}

/* Sums over the items of one field. */
struct field_sums {
    uint64_t n[N_FORMS], nbytes[N_FORMS];
    uint64_t jpeg_nbytes; /* bytes of the JPEGs that became pli-jpeg */
    uint32_t min_height, max_height, min_width, max_width;
    uint64_t n_sized;
    unsigned channels, bits; /* bit c: images with c channels; bit b: with 8 << b bits */
};

struct info {
    struct cli *cli;
    struct cli_json json;
    pst_dataset *dataset;
    bool all;
    uint64_t n_looked; /* headers read in a folder */
    uint64_t n_bad;
    struct field_sums *sums;
};

static void add_item(struct field_sums *sums, const struct pst_item *item)
{
    unsigned form = (unsigned)item->form < N_FORMS ? (unsigned)item->form : 0;
    sums->n[form]++;
    sums->nbytes[form] += cli_item_nbytes(item);
    sums->jpeg_nbytes += item->jpeg_nbytes;
    if (item->height == 0)
        return;
    if (sums->n_sized++ == 0) {
        sums->min_height = sums->max_height = item->height;
        sums->min_width = sums->max_width = item->width;
    }
    sums->min_height = item->height < sums->min_height ? item->height : sums->min_height;
    sums->max_height = item->height > sums->max_height ? item->height : sums->max_height;
    sums->min_width = item->width < sums->min_width ? item->width : sums->min_width;
    sums->max_width = item->width > sums->max_width ? item->width : sums->max_width;
    sums->channels |= 1u << item->channels;
    sums->bits |= item->bits == 16 ? 2 : 1;
}

/* True if the headers of this sample's files should be read: with --all each, else some that are
 * spread over the folder. */
static bool look_into(const struct info *info, uint64_t sample)
{
    uint64_t n = pst_dataset_count(info->dataset),
             step = (n + SAMPLE_OF_FOLDER - 1) / SAMPLE_OF_FOLDER;
    return info->all || step <= 1 || sample % step == 0;
}

static enum pst_status sum_sample(struct info *info, uint64_t sample, struct pst_error *err)
{
    bool folder = !pst_dataset_is_packed(info->dataset);
    for (uint32_t f = 0; f < pst_dataset_n_fields(info->dataset); f++) {
        const struct pst_field *field = pst_dataset_field(info->dataset, f);
        if (field->type == PST_FIELD_INT || field->type == PST_FIELD_FLOAT)
            continue;
        bool image = field->type == PST_FIELD_IMAGE || field->type == PST_FIELD_MASK;
        for (uint32_t v = 0; v < field->n_variants; v++) {
            struct pst_item item;
            struct pst_error bad;
            enum pst_status status =
                pst_dataset_item(info->dataset, sample, f, v, &item, sizeof item, err);
            if (status != PST_OK)
                return status;
            if (item.form == PST_FORM_NONE && (!folder || item.i_file == PST_FILE_NONE))
                continue;
            pst_error_clear(&bad);
            if (folder && image && look_into(info, sample)) {
                info->n_looked += field->type == PST_FIELD_IMAGE;
                if (cli_complete_item(info->dataset, sample, f, v, &item, &bad) != PST_OK) {
                    info->n_bad++;
                    cli_complain(info->cli, &bad);
                }
            }
            add_item(&info->sums[f], &item);
        }
    }
    return PST_OK;
}

static void id_text(const uint8_t *id, char out[33])
{
    for (int i = 0; i < 16; i++)
        snprintf(out + 2 * i, 3, "%02x", id[i]);
}

/* The data set's id and identities, each as 32 hexadecimal digits. */
struct names {
    char id[33], bytes[33], samples[33];
};

static enum pst_status find_names(const pst_dataset *dataset, struct names *names,
                                  struct pst_error *err)
{
    uint8_t identity[PST_IDENTITY_NBYTES];
    id_text(pst_dataset_id(dataset), names->id);
    enum pst_status status = pst_dataset_identity(dataset, PST_IDENTITY_BYTES, identity, err);
    id_text(identity, names->bytes);
    if (status == PST_OK)
        status = pst_dataset_identity(dataset, PST_IDENTITY_SAMPLES, identity, err);
    id_text(identity, names->samples);
    return status;
}

static void field_json(struct info *info, uint32_t f)
{
    const struct pst_field *field = pst_dataset_field(info->dataset, f);
    const struct field_sums *sums = &info->sums[f];
    struct cli_json *json = &info->json;
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "name", field->name);
    cli_json_text(json, "type", pst_field_type_name(field->type));
    cli_json_uint(json, "variants", field->n_variants);
    if (field->type == PST_FIELD_ARRAY) {
        cli_json_text(json, "dtype", pst_dtype_name(field->dtype));
        cli_json_open(json, "shape", '[');
        for (unsigned i = 0; i < field->ndim; i++)
            cli_json_uint(json, NULL, field->shape[i]);
        cli_json_close(json, ']');
    }
    if (field->made_for != PST_MADE_FOR_UNKNOWN)
        cli_json_text(json, "made_for",
                      field->made_for == PST_MADE_FOR_STORED ? "stored" : "upright");
    if (field->n_classes > 0) {
        bool has_points = field->type == PST_FIELD_KEYPOINTS;
        cli_json_int(json, has_points ? "n_points" : "n_classes", field->n_classes);
        if (pst_dataset_class_name(info->dataset, f, 0) != NULL) {
            cli_json_open(json, has_points ? "points" : "classes", '[');
            for (int64_t i = 0; i < field->n_classes; i++)
                cli_json_text(json, NULL, pst_dataset_class_name(info->dataset, f, i));
            cli_json_close(json, ']');
        }
    }
    if (field->n_pairs_plus_1 > 0) {
        const uint32_t *pairs = pst_dataset_point_pairs(info->dataset, f);
        cli_json_open(json, "pairs", '[');
        for (uint64_t i = 0; i + 1 < field->n_pairs_plus_1; i++) {
            cli_json_open(json, NULL, '[');
            cli_json_uint(json, NULL, pairs[2 * i]);
            cli_json_uint(json, NULL, pairs[2 * i + 1]);
            cli_json_close(json, ']');
        }
        cli_json_close(json, ']');
    }
    if (field->type != PST_FIELD_INT && field->type != PST_FIELD_FLOAT) {
        cli_json_uint(json, "max_item_bytes", pst_dataset_max_item_nbytes(info->dataset, f));
        cli_json_open(json, "forms", '{');
        for (unsigned form = 0; form < N_FORMS; form++) {
            if (sums->n[form] == 0)
                continue;
            cli_json_open(json, form == 0 ? "unknown" : pst_form_name((enum pst_form)form), '{');
            cli_json_uint(json, "items", sums->n[form]);
            cli_json_uint(json, "bytes", sums->nbytes[form]);
            if (form == PST_FORM_PLI_JPEG)
                cli_json_uint(json, "jpeg_bytes", sums->jpeg_nbytes);
            cli_json_close(json, '}');
        }
        cli_json_close(json, '}');
    }
    if (sums->n_sized > 0) {
        cli_json_uint(json, "min_height", sums->min_height);
        cli_json_uint(json, "max_height", sums->max_height);
        cli_json_uint(json, "min_width", sums->min_width);
        cli_json_uint(json, "max_width", sums->max_width);
    }
    cli_json_close(json, '}');
}

static enum pst_status shards_json(struct info *info, struct pst_error *err)
{
    char path[8192];
    struct stat st;
    cli_json_open(&info->json, "shards", '[');
    for (uint32_t i = 0; i < pst_dataset_n_files(info->dataset); i++) {
        enum pst_status status = pst_dataset_file_path(info->dataset, i, path, sizeof path, err);
        if (status != PST_OK)
            return status;
        cli_json_open(&info->json, NULL, '{');
        cli_json_text(&info->json, "path", path);
        if (stat(path, &st) == 0)
            cli_json_int(&info->json, "bytes", st.st_size);
        else
            cli_json_null(&info->json, "bytes");
        cli_json_close(&info->json, '}');
    }
    cli_json_close(&info->json, ']');
    return PST_OK;
}

static void field_text(struct info *info, uint32_t f)
{
    const struct pst_field *field = pst_dataset_field(info->dataset, f);
    const struct field_sums *sums = &info->sums[f];
    char size[32];
    printf("  %-16s %s", field->name, pst_field_type_name(field->type));
    if (field->type == PST_FIELD_ARRAY)
        printf(" of %s", pst_dtype_name(field->dtype));
    if (field->n_variants > 1)
        printf(", %u variants", field->n_variants);
    if (field->made_for != PST_MADE_FOR_UNKNOWN)
        printf(", made for the %s picture",
               field->made_for == PST_MADE_FOR_STORED ? "stored" : "upright");
    if (field->n_classes > 0) {
        fputs(", ", stdout);
        if (field->type == PST_FIELD_KEYPOINTS)
            cli_print_count((uint64_t)field->n_classes, "point", "points");
        else
            cli_print_count((uint64_t)field->n_classes, "class", "classes");
    }
    if (field->n_pairs_plus_1 > 0) {
        fputs(", ", stdout);
        cli_print_count(field->n_pairs_plus_1 - 1, "pair of left and right",
                        "pairs of left and right");
    }
    putchar('\n');
    for (unsigned form = 0; form < N_FORMS; form++) {
        if (sums->n[form] == 0)
            continue;
        cli_size_text(sums->nbytes[form], size);
        printf("    %-14s ", form == 0 ? "not looked at" : pst_form_name((enum pst_form)form));
        cli_print_count(sums->n[form], "item", "items");
        printf(", %s, %.0f bytes each", size, (double)sums->nbytes[form] / (double)sums->n[form]);
        if (form == PST_FORM_PLI_JPEG && sums->jpeg_nbytes > 0)
            printf(", %.1f %% of the JPEG files",
                   100 * (double)sums->nbytes[form] / (double)sums->jpeg_nbytes);
        putchar('\n');
    }
    if (sums->n_sized > 0) {
        printf("    %u..%u wide, %u..%u high, channels", sums->min_width, sums->max_width,
               sums->min_height, sums->max_height);
        for (unsigned c = 1; c <= 4; c++)
            if (sums->channels >> c & 1)
                printf(" %u", c);
        printf(", %s bit\n", sums->bits == 3 ? "8 and 16" : sums->bits == 2 ? "16" : "8");
    }
    if (field->n_classes > 0 && pst_dataset_class_name(info->dataset, f, 0) != NULL) {
        fputs(field->type == PST_FIELD_KEYPOINTS ? "    points:" : "    classes:", stdout);
        for (int64_t i = 0; i < field->n_classes && i < 12; i++) {
            putchar(' ');
            cli_print_name(stdout, pst_dataset_class_name(info->dataset, f, i));
        }
        puts(field->n_classes > 12 ? " ..." : "");
    }
}

static void print_text(struct info *info, const struct names *names)
{
    static const char *const kinds[] = {
        [PST_DATASET_PACKED] = ": a data set, ",     [PST_DATASET_FOLDER] = ": a plain folder, ",
        [PST_DATASET_TAR] = ": tar files, ",         [PST_DATASET_ZIP] = ": zip files, ",
        [PST_DATASET_PARQUET] = ": Parquet files, ", [PST_DATASET_ARROW] = ": Arrow files, ",
        [PST_DATASET_MDS] = ": MDS shards, ",        [PST_DATASET_TFRECORD] = ": TFRecord files, ",
        [PST_DATASET_LMDB] = ": LMDB files, ",       [PST_DATASET_RECORDIO] = ": RecordIO files, ",
        [PST_DATASET_BETON] = ": beton files, "};
    pst_dataset *dataset = info->dataset;
    bool is_packed = pst_dataset_is_packed(dataset), is_folder = pst_dataset_is_folder(dataset);
    cli_print_name(stdout, pst_dataset_path(dataset));
    fputs(kinds[pst_dataset_kind_of(dataset)], stdout);
    cli_print_count(pst_dataset_count(dataset), "sample", "samples");
    printf("\n  id %s\n  bytes %s\n  samples %s\n", names->id, names->bytes, names->samples);
    if (pst_dataset_n_skipped(dataset) > 0)
        printf("  %llu files could not be read and are left out\n",
               (unsigned long long)pst_dataset_n_skipped(dataset));
    if (!is_folder) {
        fputs("  ", stdout);
        cli_print_count(pst_dataset_n_files(dataset), is_packed ? "shard" : "file",
                        is_packed ? "shards" : "files");
        putchar('\n');
    }
    if (pst_dataset_index_path(dataset) != NULL) {
        fputs("  index ", stdout);
        cli_print_name(stdout, pst_dataset_index_path(dataset));
        putchar('\n');
    }
    if (!is_packed && info->n_looked < pst_dataset_count(dataset))
        printf("  forms and sizes are of the %llu %s looked at (--all looks at every one)\n",
               (unsigned long long)info->n_looked, is_folder ? "files" : "samples");
    for (uint32_t f = 0; f < pst_dataset_n_fields(dataset); f++)
        field_text(info, f);
}

static enum pst_status print_json(struct info *info, const struct names *names,
                                  struct pst_error *err)
{
    pst_dataset *dataset = info->dataset;
    struct cli_json *json = &info->json;
    enum pst_status status = PST_OK;
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "path", pst_dataset_path(dataset));
    cli_json_text(json, "kind",
                  pst_dataset_is_packed(dataset)
                      ? "dataset"
                      : pst_dataset_kind_name(pst_dataset_kind_of(dataset)));
    if (pst_dataset_index_path(dataset) != NULL) {
        cli_json_text(json, "index", pst_dataset_index_path(dataset));
        cli_json_uint(json, "files", pst_dataset_n_files(dataset));
    }
    cli_json_text(json, "id", names->id);
    cli_json_text(json, "bytes_identity", names->bytes);
    cli_json_text(json, "samples_identity", names->samples);
    cli_json_uint(json, "samples", pst_dataset_count(dataset));
    cli_json_uint(json, "skipped", pst_dataset_n_skipped(dataset));
    if (!pst_dataset_is_packed(dataset))
        cli_json_uint(json, "looked_at", info->n_looked);
    cli_json_uint(json, "bad", info->n_bad);
    cli_json_open(json, "fields", '[');
    for (uint32_t f = 0; f < pst_dataset_n_fields(dataset); f++)
        field_json(info, f);
    cli_json_close(json, ']');
    if (!pst_dataset_is_packed(dataset))
        cli_notices_json(json, dataset);
    else
        status = shards_json(info, err);
    if (status != PST_OK)
        cli_json_close(json, ']');
    if (status != PST_OK)
        cli_json_error(json, "error", err);
    cli_json_close(json, '}');
    return status;
}

static int dataset_info(struct info *info, const char *path, struct cli_source *source)
{
    struct pst_error err;
    struct names names;
    pst_error_clear(&err);
    if (cli_open(info->cli, path, source, &info->dataset, &err) != PST_OK)
        return cli_fail(info->cli, &err);
    int exit_status = CLI_OK;
    info->sums = calloc(pst_dataset_n_fields(info->dataset), sizeof *info->sums);
    if (info->sums == NULL) {
        cli_error(&err, PST_ERROR_MEMORY, "out of memory");
        exit_status = cli_fail(info->cli, &err);
        goto out;
    }
    enum pst_status status = PST_OK;
    for (uint64_t i = 0; status == PST_OK && i < pst_dataset_count(info->dataset); i++)
        status = sum_sample(info, i, &err);
    if (status != PST_OK) {
        exit_status = cli_fail(info->cli, &err);
        goto out;
    }
    if (find_names(info->dataset, &names, &err) != PST_OK) {
        exit_status = cli_fail(info->cli, &err);
        goto out;
    }
    exit_status = info->n_bad > 0 ? CLI_FAILED : CLI_OK;
    if (!info->cli->json) {
        print_text(info, &names);
        cli_notices(info->cli, info->dataset);
    } else if (print_json(info, &names, &err) != PST_OK)
        exit_status = CLI_FAILED;
out:
    free(info->sums);
    pst_dataset_close(&info->dataset);
    return exit_status;
}

enum { SAMPLING_CAP = 24 };

/* Returns "4:2:0" or the like; unusual sampling factors are listed: "1x2,1x1,1x1". */
static const char *sampling_text(const struct pst_pli_info *pli, char out[SAMPLING_CAP])
{
    static const struct {
        uint8_t luma;
        const char *name;
    } known[] = {
        {0x11, "4:4:4"}, {0x21, "4:2:2"}, {0x22, "4:2:0"}, {0x12, "4:4:0"}, {0x41, "4:1:1"}};
    if (pli->channels == 1)
        return "gray";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (pli->samplings[0] == known[i].luma && pli->samplings[1] == 0x11 &&
            pli->samplings[2] == 0x11)
            return known[i].name;
    size_t n = 0;
    for (unsigned c = 0; c < pli->channels && c < 4; c++)
        n += (size_t)snprintf(out + n, SAMPLING_CAP - n, "%s%ux%u", c == 0 ? "" : ",",
                              pli->samplings[c] >> 4, pli->samplings[c] & 15u);
    return out;
}

/* Adds the JSON members that only a PLI has. */
static void pli_json(struct cli_json *json, const struct pst_pli_info *pli, size_t nbytes)
{
    char checksum[17];
    snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)pli->pixel_checksum);
    cli_json_open(json, "pli", '{');
    cli_json_uint(json, "version", pli->version);
    cli_json_text(json, "content", pli->content == PST_PLI_CONTENT_JPEG ? "jpeg" : "pixels");
    if (pli->content == PST_PLI_CONTENT_JPEG) {
        char sampling[SAMPLING_CAP];
        cli_json_text(json, "subsampling", sampling_text(pli, sampling));
        cli_json_uint(json, "jpeg_bytes", pli->jpeg_nbytes);
        cli_json_uint(json, "restoration_bytes", pli->restoration_nbytes);
    } else {
        cli_json_text(json, "tier", tiers[pli->tier]);
        cli_json_uint(json, "effort", pli->effort);
        cli_json_uint(json, "max_error", pli->max_error);
    }
    cli_json_float(json, "bits_per_pixel", bits_per_pixel(pli, nbytes));
    cli_json_uint(json, "unit_edge", pli->unit_edge);
    cli_json_uint(json, "unit_rows", pli->unit_rows);
    cli_json_uint(json, "unit_columns", pli->unit_columns);
    cli_json_open(json, "units", '{');
    for (unsigned mode = 0; mode < sizeof modes / sizeof *modes; mode++)
        cli_json_uint(json, modes[mode], pli->n_units[mode]);
    cli_json_close(json, '}');
    cli_json_uint(json, "head_bytes", pli->head_nbytes);
    cli_json_uint(json, "bytes", pli->nbytes);
    cli_json_bool(json, "complete", pli->nbytes == nbytes);
    cli_json_bool(json, "unit_checksums", pli->has_checksums);
    cli_json_text(json, "pixel_checksum", checksum);
    cli_json_close(json, '}');
}

static void pli_text(const struct pst_pli_info *pli, size_t nbytes)
{
    char fidelity[40] = "lossless", sampling[SAMPLING_CAP];
    const char *separator = ": ";
    if (pli->max_error > 0)
        snprintf(fidelity, sizeof fidelity, "samples off by at most %u", pli->max_error);
    if (pli->content == PST_PLI_CONTENT_JPEG)
        printf(
            "  PLI version %u of a JPEG, %s, of %u bytes: %.1f %% of them, %.2f bits per pixel\n",
            pli->version, sampling_text(pli, sampling), pli->jpeg_nbytes,
            pli->jpeg_nbytes == 0 ? 0 : 100.0 * (double)nbytes / pli->jpeg_nbytes,
            bits_per_pixel(pli, nbytes));
    else
        printf("  PLI version %u, tier %s, %s, %.2f bits per pixel\n", pli->version,
               tiers[pli->tier], fidelity, bits_per_pixel(pli, nbytes));
    printf("  %u x %u units of %u x %u pixels", pli->unit_columns, pli->unit_rows, pli->unit_edge,
           pli->unit_edge);
    for (unsigned mode = 0; mode < sizeof modes / sizeof *modes; mode++) {
        if (pli->n_units[mode] == 0)
            continue;
        printf("%s%llu %s", separator, (unsigned long long)pli->n_units[mode], modes[mode]);
        separator = ", ";
    }
    printf("\n  head of %llu bytes, %s, pixel checksum %016llx\n",
           (unsigned long long)pli->head_nbytes,
           pli->has_checksums ? "units with checksums" : "units without checksums",
           (unsigned long long)pli->pixel_checksum);
}

/* Checks that a PLI is neither truncated nor followed by other bytes. */
static enum pst_status check_length(const struct pst_pli_info *pli, const char *path, size_t nbytes,
                                    struct pst_error *err)
{
    if (pli->nbytes == nbytes)
        return PST_OK;
    enum pst_status status =
        pli->nbytes == 0 ? cli_error(err, PST_ERROR_TRUNCATED,
                                     "the PLI is INCOMPLETE: its head has %llu bytes, here are %zu",
                                     (unsigned long long)pli->head_nbytes, nbytes)
        : nbytes < pli->nbytes
            ? cli_error(err, PST_ERROR_TRUNCATED,
                        "the PLI is INCOMPLETE: it has %llu bytes when whole, here are %zu",
                        (unsigned long long)pli->nbytes, nbytes)
            : cli_error(err, PST_ERROR_CORRUPT, "the PLI ends at byte %llu, here are %zu",
                        (unsigned long long)pli->nbytes, nbytes);
    err->offset = (int64_t)(status == PST_ERROR_TRUNCATED ? nbytes : pli->nbytes);
    snprintf(err->file, sizeof err->file, "%.200s", path);
    return status;
}

/* Returns "shard" or the like if the bytes begin like a file of a data set
 * (docs/format-dataset.md), else NULL. */
static const char *dataset_part(const unsigned char *bytes, size_t nbytes)
{
    static const struct {
        unsigned char letter;
        const char *name;
    } parts[] = {{'I', "the index"}, {'S', "a shard"}, {'J', "the journal"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (nbytes >= 5 && memcmp(bytes, "\x89PST", 4) == 0 && bytes[4] == parts[i].letter)
            return parts[i].name;
    return NULL;
}

static int image_info(struct cli *cli, const char *path)
{
    struct pst_error err;
    struct pst_image_info image;
    struct pst_pli_info pli = {0};
    void *bytes;
    size_t nbytes;
    pst_error_clear(&err);
    enum pst_status status = cli_read_file(path, &bytes, &nbytes, &err);
    const char *part = status == PST_OK ? dataset_part(bytes, nbytes) : NULL;
    if (part != NULL)
        status =
            cli_error(&err, PST_ERROR_ARGUMENT,
                      "%s of a data set: ask `penstock info` of the folder that it lies in", part);
    if (status == PST_OK)
        status = pst_image_probe(bytes, nbytes, PST_FORM_NONE, NULL, &image, sizeof image, &err);
    bool is_pli =
        status == PST_OK && (image.form == PST_FORM_PLI || image.form == PST_FORM_PLI_JPEG);
    if (is_pli)
        status = pst_pli_info(bytes, nbytes, &pli, sizeof pli, &err);
    free(bytes);
    if (status != PST_OK) {
        if (err.file[0] == '\0')
            snprintf(err.file, sizeof err.file, "%s", path);
        return cli_fail(cli, &err);
    }
    enum pst_status length = is_pli ? check_length(&pli, path, nbytes, &err) : PST_OK;
    if (cli->json) {
        struct cli_json json = {0};
        cli_json_open(&json, NULL, '{');
        cli_json_text(&json, "path", path);
        cli_json_text(&json, "kind", "image");
        cli_json_text(&json, "form", pst_form_name(image.form));
        cli_json_uint(&json, "bytes", nbytes);
        cli_json_uint(&json, "height", image.height);
        cli_json_uint(&json, "width", image.width);
        cli_json_uint(&json, "channels", image.channels);
        cli_json_uint(&json, "bits", image.bits);
        cli_json_uint(&json, "orientation", image.orientation);
        cli_json_bool(&json, "palette", image.palette);
        cli_json_bool(&json, "progressive", image.progressive);
        if (is_pli)
            pli_json(&json, &pli, nbytes);
        if (length != PST_OK)
            cli_json_error(&json, "error", &err);
        cli_json_close(&json, '}');
        return length == PST_OK ? CLI_OK : CLI_FAILED;
    }
    cli_print_name(stdout, path);
    printf(": %s, %ux%u, %u channels of %u bit, %zu bytes, orientation %u%s%s\n",
           pst_form_name(image.form), image.width, image.height, image.channels, image.bits, nbytes,
           image.orientation, image.palette ? ", palette" : "",
           image.progressive ? ", progressive" : "");
    if (is_pli)
        pli_text(&pli, nbytes);
    return length == PST_OK ? CLI_OK : cli_fail(cli, &err);
}

int cmd_info(struct cli *cli, int argc, char **argv)
{
    struct info info = {.cli = cli};
    struct cli_source source = {0};
    const char *croissant = NULL;
    const struct cli_option options[] = {
        {"all", 'a', CLI_FLAG, &info.all, NULL, NULL,
         "read the header of every file of a folder, not of some 256"},
        {"croissant", 0, CLI_TEXT, &croissant, "FILE", NULL,
         "write Croissant metadata of a data set or folder to FILE, beside or above it, and a "
         "table of its samples to FILE with the ending .jsonl"},
        CLI_SOURCE_OPTIONS(source, 0),
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL},
    };
    const struct cli_command command = {
        .usage = "info PATH [options]",
        .about =
            "Says what is in a data set, a folder, or tars, zips and tables of others: fields, "
            "forms, sizes,\n"
            "classes, shards; or, of an image file, its form, size and orientation, and of a PLI "
            "what its head\n"
            "says: tier, units, checksums.",
        .example = "penstock info photos.pst --json\n"
                   "penstock info photos --all",
        .options = options,
        .n_min = 1,
        .n_max = 1,
    };
    const char *operands[4] = {0};
    struct stat st;
    int exit_status = cli_parse(cli, &command, argc, argv, operands);
    if (exit_status >= 0)
        return exit_status;
    if (croissant != NULL)
        return cli_python(cli, argc, argv);
    /* If the path is foreign, pst_dataset_open explains what it is. */
    bool is_foreign = pst_path_advice(operands[0]) != NULL;
    if (!is_foreign && !pst_path_holds_samples(operands[0]) && stat(operands[0], &st) == 0 &&
        S_ISREG(st.st_mode))
        return image_info(cli, operands[0]);
    return dataset_info(&info, operands[0], &source);
}
