/* codec_output.c - writes the measurements: JSON, a CSV with the size of every image, and a table.
 *
 * Each group is written as soon as it is done, because an interrupted run should leave its finished
 * groups. The JSON is valid only after output_close(). */
#include "codec.h"

#include <penstock/penstock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct output {
    FILE *json, *csv;
    bool is_first;
};

static FILE *create(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        die(path, "cannot be written");
    return file;
}

static void commit_of_tree(char *commit, size_t cap)
{
    FILE *git = popen("git rev-parse --short HEAD 2>/dev/null", "r");
    commit[0] = '\0';
    if (!git)
        return;
    if (!fgets(commit, (int)cap, git))
        commit[0] = '\0';
    commit[strcspn(commit, "\n")] = '\0';
    pclose(git);
}

static void cpu_model(char *model, size_t cap)
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(model, cap, "unknown");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(model, cap, "%s", strchr(line, ':') + 2);
            break;
        }
    if (file)
        fclose(file);
}

/* Writes a string of JSON. Names come from files and from the system; quotes, backslashes and
 * control characters are dropped, not escaped. */
static void put_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++)
        if ((unsigned char)*text >= ' ' && *text != '"' && *text != '\\')
            fputc(*text, file);
    fputc('"', file);
}

static void put_head(FILE *file, const struct settings *settings)
{
    char environment[4096], commit[64], model[256];
    size_t n;
    commit_of_tree(commit, sizeof commit);
    cpu_model(model, sizeof model);
    pst_environment_json(environment, sizeof environment);
    fprintf(file, "{\"bench\": \"codec\", \"commit\": \"%s\", \"cpu\": ", commit);
    put_text(file, model);
    fprintf(file,
            ", \"cores\": %u, \"environment\": %s,\n \"seconds\": %g, \"repeats\": %u, "
            "\"threads\": %u, "
            "\"max_images\": %zu, \"sizes_only\": %s,\n \"versions\": {",
            cores_allowed(), environment, settings->seconds, settings->repeats, settings->threads,
            settings->max_images, settings->sizes_only ? "true" : "false");
    const struct codec_family *const *families = codec_families(&n);
    for (size_t i = 0, first = 1; i < n; i++)
        if (families[i]->version[0]) {
            fprintf(file, "%s\"%s\": \"%s\"", first ? "" : ", ", families[i]->library,
                    families[i]->version);
            first = 0;
        }
    fprintf(file, "},\n \"absent\": {");
    const struct codec_absence *absences = codec_absences(&n);
    for (size_t i = 0; i < n; i++)
        fprintf(file, "%s\"%s\": \"%s\"", i ? ", " : "", absences[i].name, absences[i].why);
    fprintf(file, "},\n \"results\": [");
}

struct output *output_open(const char *json, const char *csv, const struct settings *settings)
{
    struct output *out = claim(sizeof *out);
    out->is_first = true;
    if (json) {
        out->json = create(json);
        put_head(out->json, settings);
    }
    if (csv)
        out->csv = create(csv);
    return out;
}

static void put_runs(FILE *file, const char *name, const double *rates, uint32_t n)
{
    fprintf(file, ", \"%s\": %.2f, \"%s_runs\": [", name, median_of(rates, n) / 1e6, name);
    for (uint32_t i = 0; i < n; i++)
        fprintf(file, "%s%.2f", i ? ", " : "", rates[i] / 1e6);
    fprintf(file, "]");
}

static void put_row(struct output *out, const struct group *group, const struct measurement *m,
                    const struct settings *settings)
{
    FILE *file = out->json;
    fprintf(file, "%s\n  {\"group\": ", out->is_first ? "" : ",");
    out->is_first = false;
    put_text(file, group->name);
    fprintf(file,
            ", \"codec\": \"%s\", \"images\": %zu, \"pixels\": %zu, \"raw_nbytes\": %zu, "
            "\"nbytes\": %zu, \"bpp\": %.4f",
            m->codec->name, group->n, group->pixel_count, group->nbytes, m->nbytes,
            8.0 * (double)m->nbytes / (double)group->pixel_count);
    if (m->encode > 0)
        fprintf(file, ", \"encode\": %.2f", m->encode / 1e6);
    if (!settings->sizes_only) {
        put_runs(file, "decode", m->decode, settings->repeats);
        fprintf(file, ", \"decode_undisturbed\": %.2f, \"cpu_share\": %.3f",
                undisturbed_rate(m, group) / 1e6, m->cpu_share);
        if (settings->threads > 0)
            put_runs(file, "decode_all", m->decode_all, settings->repeats);
    }
    fprintf(file, "}");
    fflush(file);
}

/* Prints one CSV line for each image and codec. */
static void put_sizes(FILE *file, const struct group *group, const struct measurement *rows,
                      size_t n_rows)
{
    fprintf(file, "group,image,width,height,channels,bits");
    for (size_t r = 0; r < n_rows; r++)
        if (rows[r].owns_coded)
            fprintf(file, ",%s", rows[r].codec->name);
    fputc('\n', file);
    for (size_t i = 0; i < group->n; i++) {
        const struct image *image = &group->images[i];
        fprintf(file, "%s,%s,%u,%u,%u,%u", group->name, image->name, image->width, image->height,
                image->channels, image->bits);
        for (size_t r = 0; r < n_rows; r++)
            if (rows[r].owns_coded)
                fprintf(file, ",%zu", rows[r].coded[i].nbytes);
        fputc('\n', file);
    }
    fflush(file);
}

void output_group(struct output *out, const struct group *group, const struct measurement *rows,
                  size_t n_rows, const struct settings *settings)
{
    printf("\n%s: %zu images, %.2f Mpx, %.1f MB raw\n", group->name, group->n,
           (double)group->pixel_count / 1e6, (double)group->nbytes / 1e6);
    printf("%-16s %10s %8s %12s %12s %12s\n", "codec", "bytes", "bpp", "decode MB/s", "all cores",
           "encode MB/s");
    for (size_t r = 0; r < n_rows; r++) {
        const struct measurement *m = &rows[r];
        uint32_t n = settings->sizes_only ? 0 : settings->repeats;
        printf("%-16s %10zu %8.3f %12.1f %12.1f %12.1f\n", m->codec->name, m->nbytes,
               8.0 * (double)m->nbytes / (double)group->pixel_count, median_of(m->decode, n) / 1e6,
               settings->threads ? median_of(m->decode_all, n) / 1e6 : 0.0, m->encode / 1e6);
        if (out->json)
            put_row(out, group, m, settings);
    }
    fflush(stdout);
    if (out->csv)
        put_sizes(out->csv, group, rows, n_rows);
}

void output_close(struct output *out)
{
    if (out->json) {
        fprintf(out->json, "]}\n");
        fclose(out->json);
    }
    if (out->csv)
        fclose(out->csv);
    free(out);
}
