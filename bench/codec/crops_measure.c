/* crops_measure.c - measures one group in one tier of PLI: rectangles against whole images, by the
 * codec and through the loader.
 *
 * Pixels of every first rectangle and image are compared before anything is timed. One thread. */
#include "crops.h"

#include <penstock/penstock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 64 }; /* rectangles that are drawn for each image, and epochs that are timed */

struct work {
    const struct crop_case *what;
    const struct group *group;
    struct bytes *coded;
    struct pst_pli_info *infos;
    struct pst_pli_region *regions; /* [n images][DRAWS] */
    void *scratch;
    size_t scratch_nbytes;
    uint8_t *pixels;
};

static struct pst_pixels pixels_of(const struct image *image, uint32_t height, uint32_t width,
                                   void *data)
{
    const int64_t pixel_nbytes = image->channels * (image->bits / 8);
    return (struct pst_pixels){.data = data,
                               .height = height,
                               .width = width,
                               .channels = image->channels,
                               .bits = image->bits,
                               .row_nbytes = width * pixel_nbytes,
                               .pixel_nbytes = pixel_nbytes,
                               .channel_nbytes = image->bits / 8};
}

static void decode(const struct work *w, size_t i, const struct pst_pli_region *region)
{
    const struct image *image = &w->group->images[i];
    const struct pst_pixels pixels = pixels_of(image, region ? region->height : image->height,
                                               region ? region->width : image->width, w->pixels);
    struct pst_error err;
    if (pst_pli_decode(w->coded[i].at, w->coded[i].nbytes, region, -1, &pixels, w->scratch,
                       w->scratch_nbytes, &err) != PST_OK)
        die(image->name, err.text);
}

static void compare(const struct work *w, size_t i, const struct pst_pli_region *region)
{
    const struct image *image = &w->group->images[i];
    const size_t pixel_nbytes = image->channels * (image->bits / 8u);
    const size_t nbytes = region->width * pixel_nbytes;
    decode(w, i, region);
    for (uint32_t y = 0; y < region->height; y++)
        if (memcmp(w->pixels + y * nbytes,
                   image->pixels + (region->y + y) * image->row_nbytes + region->x * pixel_nbytes,
                   nbytes) != 0)
            die(image->name, "a region comes back changed");
}

static void prepare(struct work *w, const struct crop_tier *tier)
{
    const struct group *group = w->group;
    uint64_t random = 1;
    w->coded = claim(group->n * sizeof *w->coded);
    w->infos = claim(group->n * sizeof *w->infos);
    w->regions = claim(group->n * DRAWS * sizeof *w->regions);
    w->pixels = claim(group->largest_nbytes + CODEC_SLACK_NBYTES);
    for (size_t i = 0; i < group->n; i++) {
        const struct image *image = &group->images[i];
        const struct pst_pixels pixels =
            pixels_of(image, image->height, image->width, image->pixels);
        const struct pst_pli_encode_options options = {.struct_size = sizeof options,
                                                       .tier = tier->tier};
        struct pst_error err;
        bytes_reserve(&w->coded[i], pst_pli_encode_bound(image->height, image->width,
                                                         image->channels, image->bits));
        if (pst_pli_encode(&pixels, &options, w->coded[i].at, w->coded[i].cap, &w->coded[i].nbytes,
                           &err) != PST_OK ||
            pst_pli_info(w->coded[i].at, w->coded[i].nbytes, &w->infos[i], sizeof w->infos[i],
                         &err) != PST_OK)
            die(image->name, err.text);
        size_t scratch_nbytes = pst_pli_scratch_nbytes(&w->infos[i], sizeof w->infos[i]);
        if (scratch_nbytes > w->scratch_nbytes)
            w->scratch_nbytes = scratch_nbytes;
        for (size_t k = 0; k < DRAWS; k++)
            w->regions[i * DRAWS + k] = crop_draw(&random, w->what, image);
    }
    w->scratch = aligned_alloc(64, (w->scratch_nbytes + 63) / 64 * 64);
    if (!w->scratch)
        die("memory", "none left");
    for (size_t i = 0; i < group->n; i++)
        compare(w, i, &w->regions[i * DRAWS]);
}

static void count_units(const struct work *w, struct crop_result *result)
{
    double pixels = 0, touched = 0, whole = 0;
    for (size_t i = 0; i < w->group->n; i++) {
        const struct image *image = &w->group->images[i];
        const uint32_t edge = w->infos[i].unit_edge;
        whole += (double)w->infos[i].unit_rows * w->infos[i].unit_columns;
        for (size_t k = 0; k < DRAWS; k++) {
            const struct pst_pli_region *r = &w->regions[i * DRAWS + k];
            uint32_t rows = (r->y + r->height - 1) / edge - r->y / edge + 1;
            uint32_t columns = (r->x + r->width - 1) / edge - r->x / edge + 1;
            touched += (double)rows * columns;
            pixels += (double)r->height * r->width / ((double)image->height * image->width);
        }
    }
    result->n_images = w->group->n;
    result->pixel_share = pixels / (double)(w->group->n * DRAWS);
    result->units_touched = touched / (double)(w->group->n * DRAWS);
    result->units_whole = whole / (double)w->group->n;
}

/* Returns CPU seconds per sample, over whole passes: all rectangles, or every image once. */
static double time_codec(const struct work *w, bool crops, double seconds)
{
    const size_t n_each = crops ? DRAWS : 1;
    size_t n = 0;
    double start = thread_cpu_seconds(), now;
    do {
        for (size_t i = 0; i < w->group->n; i++)
            for (size_t k = 0; k < n_each; k++, n++)
                decode(w, i, crops ? &w->regions[i * DRAWS + k] : NULL);
        now = thread_cpu_seconds();
    } while (now - start < seconds);
    return (now - start) / (double)n;
}

static void write_data(const char *path, const struct work *w)
{
    const struct pst_field field = {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1};
    struct pst_error err;
    pst_writer *writer;
    if (pst_writer_open(path, &field, 1, NULL, &writer, &err) != PST_OK)
        die(path, err.text);
    for (size_t i = 0; i < w->group->n; i++) {
        const struct pst_value value = {
            .bytes = w->coded[i].at, .nbytes = w->coded[i].nbytes, .form = PST_FORM_PLI};
        const struct pst_value *values[1] = {&value};
        const struct pst_sample sample = {.struct_size = sizeof(struct pst_sample),
                                          .value_nbytes = sizeof(struct pst_value),
                                          .name = w->group->images[i].name,
                                          .values = values};
        if (pst_writer_add(writer, &sample, &err) != PST_OK)
            die(w->group->images[i].name, err.text);
    }
    if (pst_writer_finish(writer, &err) != PST_OK)
        die(path, err.text);
    pst_writer_close(&writer);
}

static pst_loader *open_loader(pst_dataset *dataset, const struct pst_op *op)
{
    const struct pst_field_output field = {
        .name = "image", .ops = op, .n_ops = op ? 1 : 0, .dtype = PST_DTYPE_U8};
    const struct pst_loader_options options = {.struct_size = sizeof options,
                                               .batch_size = 1,
                                               .order = PST_ORDER_SEQUENTIAL,
                                               .storage = PST_STORAGE_MEMORY,
                                               .fields = &field,
                                               .n_fields = 1,
                                               .field_nbytes = sizeof(struct pst_field_output),
                                               .op_nbytes = sizeof(struct pst_op)};
    struct pst_error err;
    pst_loader *loader;
    if (pst_loader_open(dataset, &options, &loader, &err) != PST_OK)
        die("loader", err.text);
    return loader;
}

/* Returns CPU seconds per sample of the loader, over whole epochs. Each epoch draws other
 * rectangles. */
static double time_loader(pst_loader *loader, uint64_t *epoch, double seconds)
{
    struct pst_error err;
    size_t n = 0;
    double start = thread_cpu_seconds(), now;
    do {
        pst_batch *batch;
        enum pst_status status = pst_loader_begin(loader, (*epoch)++, &err);
        while (status == PST_OK && (status = pst_loader_next(loader, &batch, &err)) == PST_OK) {
            n += pst_batch_count(batch);
            pst_batch_release(batch);
        }
        if (status != PST_END)
            die("loader", err.text);
        now = thread_cpu_seconds();
    } while (now - start < seconds);
    return (now - start) / (double)n;
}

/* Returns the units that the loader decodes per sample, over epochs whose draws are the same in
 * every run. */
static double count_loader(pst_dataset *dataset, const struct pst_op *op)
{
    struct pst_loader_stats stats = {0};
    pst_loader *loader = open_loader(dataset, op);
    for (uint64_t epoch = 0; epoch < DRAWS;)
        time_loader(loader, &epoch, 0);
    pst_loader_stats(loader, &stats, sizeof stats);
    pst_loader_close(&loader);
    return (double)stats.n_units_decoded / (double)stats.n_samples;
}

static void time_both(pst_dataset *dataset, const struct pst_op *op,
                      const struct settings *settings, struct crop_result *result)
{
    double wholes[64], crops[64];
    uint64_t whole_epoch = 0, epoch = 0;
    pst_loader *whole = open_loader(dataset, NULL), *crop = open_loader(dataset, op);
    time_loader(whole, &whole_epoch, 0);
    time_loader(crop, &epoch, 0);
    for (uint32_t i = 0; i < settings->repeats; i++) {
        wholes[i] = time_loader(whole, &whole_epoch, settings->seconds);
        crops[i] = time_loader(crop, &epoch, settings->seconds);
    }
    result->loader_whole_seconds = median_of(wholes, settings->repeats);
    result->loader_crop_seconds = median_of(crops, settings->repeats);
    pst_loader_close(&crop);
    pst_loader_close(&whole);
}

static void measure_loader(const struct work *w, const struct settings *settings,
                           struct crop_result *result)
{
    char directory[] = "/tmp/pst-bench-XXXXXX", path[64], command[96];
    struct pst_error err;
    struct pst_op op;
    pst_dataset *dataset;
    pst_op_init(&op, sizeof op, w->what->op);
    op.height = op.width = w->what->size;
    if (!mkdtemp(directory))
        die(directory, "cannot be made");
    snprintf(path, sizeof path, "%s/data", directory);
    write_data(path, w);
    if (pst_dataset_open(path, NULL, &dataset, &err) != PST_OK)
        die(path, err.text);
    result->units = count_loader(dataset, &op);
    time_both(dataset, &op, settings, result);
    pst_dataset_close(&dataset);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    if (system(command) != 0)
        die(directory, "cannot be removed");
}

void crop_measure(const struct crop_case *what, const struct crop_tier *tier,
                  const struct group *group, const struct settings *settings,
                  struct crop_result *result)
{
    struct work w = {.what = what, .group = group};
    double wholes[64], crops[64];
    prepare(&w, tier);
    count_units(&w, result);
    for (uint32_t i = 0; i < settings->repeats; i++) {
        wholes[i] = time_codec(&w, false, settings->seconds);
        crops[i] = time_codec(&w, true, settings->seconds);
    }
    result->whole_seconds = median_of(wholes, settings->repeats);
    result->crop_seconds = median_of(crops, settings->repeats);
    measure_loader(&w, settings, result);
    for (size_t i = 0; i < group->n; i++)
        bytes_free(&w.coded[i]);
    free(w.coded);
    free(w.infos);
    free(w.regions);
    free(w.scratch);
    free(w.pixels);
}
