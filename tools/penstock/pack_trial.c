/* pack_trial.c - tries some images before packing, to see whether the form pli would save space or
 * time.
 *
 * Up to 8 lossless images (PNG, WebP), evenly spread over the source, are decoded, encoded as the
 * small tier of PLI, and decoded again. The trial ends after at most a second of CPU time. JPEGs
 * are not tried, because they become pli-jpeg anyway. Images that cannot be read are left to the
 * packer to report. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_TRIED = 8, N_LOOKED = 64 };

struct trial {
    uint32_t n;
    uint64_t nbytes, pli_nbytes;
    double seconds, pli_seconds; /* decoding time */
};

static double cpu_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* True if there is a VP8L chunk and no VP8 chunk, which means that the WebP is lossless. */
static bool is_lossless_webp(const unsigned char *bytes, size_t nbytes)
{
    if (nbytes < 16)
        return false;
    if (memcmp(bytes + 12, "VP8X", 4) != 0)
        return memcmp(bytes + 12, "VP8L", 4) == 0;
    size_t searched = nbytes < 4096 ? nbytes : 4096; /* chunks before the pixels are short */
    return memmem(bytes, searched, "VP8L", 4) != NULL && memmem(bytes, searched, "VP8 ", 4) == NULL;
}

/* Encodes and decodes one image. Counts it and returns true if the pixels are equal. */
static bool try_image(struct trial *trial, const struct pst_item *item, const void *bytes)
{
    static const struct pst_pli_encode_options small = {.struct_size = sizeof small,
                                                        .tier = PST_PLI_TIER_SMALL};
    struct cli_image image = {0}, again = {0};
    struct pst_item pli = {.form = PST_FORM_PLI};
    void *encoded = NULL;
    size_t nbytes = 0;
    char head[CLI_HEAD_CAP];
    struct pst_error err; /* ignored: the packer meets and reports the same error */
    double start = cpu_seconds();
    bool good = cli_decode(item, bytes, false, &image, &err) == PST_OK;
    double decoded = cpu_seconds();
    good = good && cli_encode(&image, CLI_AS_PLI, &small, head, &encoded, &nbytes, &err) == PST_OK;
    pli.nbytes = nbytes;
    double before = cpu_seconds();
    good = good && cli_decode(&pli, encoded, false, &again, &err) == PST_OK;
    if (good) {
        trial->n++;
        trial->nbytes += item->nbytes;
        trial->pli_nbytes += nbytes;
        trial->seconds += decoded - start;
        trial->pli_seconds += cpu_seconds() - before;
    }
    free(image.pixels.data);
    free(again.pixels.data);
    free(encoded);
    return good;
}

static void try_sample(struct trial *trial, const pst_dataset *source, uint64_t sample,
                       uint32_t i_field)
{
    struct pst_item item;
    struct pst_error err; /* ignored, as above */
    void *bytes = NULL;
    if (pst_dataset_item(source, sample, i_field, 0, &item, sizeof item, &err) != PST_OK ||
        cli_complete_item(source, sample, i_field, 0, &item, &err) != PST_OK ||
        (item.form != PST_FORM_PNG && item.form != PST_FORM_WEBP))
        return;
    cli_item_decoded(&item);
    if (cli_read_item(source, sample, i_field, 0, &item, &bytes, &err) == PST_OK &&
        (item.form == PST_FORM_PNG || is_lossless_webp(bytes, (size_t)item.nbytes)))
        (void)try_image(trial, &item, bytes);
    free(bytes);
}

void pack_try_pli(const struct cli *cli, struct cli_json *json, const pst_dataset *source)
{
    struct trial trial = {0};
    int i_field = cli_field_of_type(source, PST_FIELD_IMAGE);
    uint64_t count = pst_dataset_count(source);
    uint64_t n_looked = count < N_LOOKED ? count : N_LOOKED;
    double end = cpu_seconds() + 1;
    /* Visits the samples in steps of an eighth of the source, so that the first images lie far
     * apart. */
    uint64_t step = (n_looked + N_TRIED - 1) / N_TRIED;
    for (uint64_t i = 0; i_field >= 0 && i < step * N_TRIED && trial.n < N_TRIED; i++) {
        uint64_t place = i % N_TRIED * step + i / N_TRIED;
        if (place < n_looked)
            try_sample(&trial, source, count * place / n_looked, (uint32_t)i_field);
        if (cpu_seconds() >= end || cli_interrupted())
            break;
    }
    if (trial.n == 0 || trial.nbytes == 0 || trial.pli_seconds <= 0)
        return;
    double share = (double)trial.pli_nbytes / (double)trial.nbytes;
    double speed = trial.seconds / trial.pli_seconds;
    bool pays = share < 1 || speed > 2;
    if (cli->json) {
        cli_json_open(json, "pli_trial", '{');
        cli_json_uint(json, "images", trial.n);
        cli_json_uint(json, "bytes", trial.nbytes);
        cli_json_uint(json, "pli_bytes", trial.pli_nbytes);
        cli_json_float(json, "decode_seconds", trial.seconds);
        cli_json_float(json, "pli_decode_seconds", trial.pli_seconds);
        cli_json_bool(json, "pays", pays);
        cli_json_close(json, '}');
    } else if (pays) {
        cli_note(cli,
                 "lossless images are stored as they are; %u of them tried as pli take %.0f %% of "
                 "the bytes and decode %.1f times as fast: for that say --form pli",
                 trial.n, 100 * share, speed);
    }
}
