/* images_get.c - gets one image: reads it from the cache or its file, decodes it, and adds it to
 * the cache.
 *
 * A hit is decoded directly from the cache's memory. A miss is read and its checksum compared; it
 * is cached only if it was decoded without an error. Cached items are then dropped from the
 * kernel's page cache. Any number of threads, each with its own tools. */
#include "images/images_int.h"

#include "base/fail.h"
#include "base/hash.h"
#include "base/files/read.h"
#include "dataset/dataset.h"
#include "pli/pli.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* The state of one pst_images_get or pst_images_load. */
struct job {
    pst_images *images;
    struct psti_images_tools *tools;
    uint64_t sample;
    uint32_t variant;
    struct pst_item item; /* the item as stored in the data set */
    const void *bytes;    /* the bytes to decode, stored or from the cache */
    uint64_t nbytes;
    enum pst_form form;
    struct pst_image_info info;
    struct psti_pli_header pli;
    bool is_recoded, is_wanted;
    bool is_decoded;              /* compressed in its file: no cache keeps the item */
    bool is_stopped;              /* the caller's interrupt function ended a wait */
    unsigned reader;              /* reader number in this process's cache */
    struct psti_images_hold hold; /* keeps `bytes` valid if they are in the host cache */
    struct pst_error *err;
};

static void count(atomic_uint_fast64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* Adds the data set, the sample, the file and the codec to an error. */
static enum pst_status name_error(const struct job *job, enum pst_status status)
{
    struct pst_error *err = job->err;
    const pst_dataset *dataset = job->images->dataset;
    enum pst_form form = job->form ? job->form : job->item.form;
    char path[PATH_MAX];
    if (!err)
        return status;
    psti_dataset_name_error(dataset, (int64_t)job->sample, err);
    if (!err->codec[0] && form != PST_FORM_NONE && form != PST_FORM_BYTES)
        psti_error_set_codec(err, pst_form_name(form));
    if (job->item.i_file == PST_FILE_NONE)
        return status;
    if (!err->file[0] &&
        pst_dataset_file_path(dataset, job->item.i_file, path, sizeof path, NULL) == PST_OK)
        psti_error_set_file(err, path);
    /* Offsets within re-coded bytes mean nothing for the file, so they are left out. */
    uint64_t within = err->offset > 0 && !job->is_recoded ? (uint64_t)err->offset : 0;
    if (job->bytes && err->offset >= 0)
        err->offset = (int64_t)(job->item.offset + within);
    return status;
}

/* Finds the first variant that the sample has. */
static enum pst_status find_item(struct job *job)
{
    const pst_images *images = job->images;
    for (uint32_t v = 0; v < images->n_variants; v++) {
        enum pst_status status = pst_dataset_item(images->dataset, job->sample, images->i_field, v,
                                                  &job->item, sizeof job->item, job->err);
        if (status != PST_OK)
            return status;
        job->variant = v;
        if (job->item.i_file != PST_FILE_NONE) {
            job->is_decoded =
                job->item.coding != PST_CODING_STORED && !psti_dataset_item_is_paged(&job->item);
            psti_dataset_item_decoded(&job->item);
            return PST_OK;
        }
    }
    return name_error(job, psti_fail(job->err, PST_ERROR_NOT_FOUND, "images",
                                     "the sample has no image of field '%s'",
                                     pst_dataset_field(images->dataset, images->i_field)->name));
}

static uint32_t number_of(const struct job *job) { return job->images->first_item + job->variant; }

/* Points the job to the cached bytes. Returns false if they cannot belong to this item. */
static bool take_hit(struct job *job, const struct psti_cache_span *span)
{
    job->bytes = span->bytes;
    job->nbytes = span->nbytes;
    if (span->form == PSTI_CACHE_AS_STORED)
        return true;
    if (!psti_recode_has_field(job->images->cache_key, job->images->i_field))
        return false;
    job->is_recoded = true;
    job->form = (enum pst_form)span->form;
    if (span->form == PST_FORM_RAW)
        return psti_decode_recode_raw(span->bytes, span->nbytes, &job->images->decode, &job->info,
                                      &job->bytes, &job->nbytes);
    return span->form == PST_FORM_PLI || span->form == PST_FORM_PLI_JPEG;
}

/* Asks the host cache, or the cache of this process, for the item. In a forked child, and for
 * samples that the cache plan leaves out, the call only looks for the item, because it will not be
 * added. */
static enum psti_cache_answer ask_cache(struct job *job, struct psti_cache_span *span)
{
    pst_images *images = job->images;
    bool is_planned = !images->plan || images->plan[job->sample], fetched = false, is_lost = false;
    uint64_t nbytes = job->item.nbytes;
    enum psti_cache_answer answer;
    if (images->host_path)
        answer = psti_images_host_ask(images, job->sample, number_of(job), nbytes, is_planned,
                                      &job->hold, &fetched, &is_lost, &job->is_stopped, span);
    else if (images->pid == getpid() && is_planned)
        answer = psti_cache_ask(images->cache, job->sample, number_of(job), nbytes, span);
    else
        answer = psti_cache_find(images->cache, job->sample, number_of(job), nbytes, span);
    if (answer == PSTI_CACHE_PASS && is_planned)
        count(is_lost ? &images->n_lost : &images->n_refused, 1);
    if (answer == PSTI_CACHE_HIT)
        count(fetched ? &images->n_fetched : &images->n_hits, 1);
    return answer;
}

/* Asks the cache for the item. Returns true if job->bytes is set. */
static bool ask(struct job *job)
{
    pst_images *images = job->images;
    struct psti_cache_span span;
    if ((!images->cache && !images->host_path) || job->item.nbytes == 0 || job->is_decoded)
        return false;
    if (images->cache)
        job->reader = psti_cache_enter(images->cache);
    enum psti_cache_answer answer = ask_cache(job, &span);
    job->is_wanted = answer == PSTI_CACHE_ADMIT;
    if (answer == PSTI_CACHE_HIT && take_hit(job, &span)) {
        count(&images->nbytes_hit, span.nbytes);
        return true;
    }
    job->bytes = NULL;
    job->is_recoded = false;
    job->form = job->item.form;
    return false;
}

/* Items that this cache keeps need not stay in the kernel's page cache as well. */
static void drop_pages(const struct job *job)
{
    char path[PATH_MAX];
    if (pst_dataset_file_path(job->images->dataset, job->item.i_file, path, sizeof path, NULL) !=
        PST_OK)
        return;
    struct stat st;
    int fd;
    if (psti_open_data(path, "images", "the file", &fd, &st, NULL) != PST_OK)
        return;
    posix_fadvise(fd, (off_t)job->item.offset, (off_t)job->item.nbytes, POSIX_FADV_DONTNEED);
    close(fd);
}

static enum pst_status read_item(struct job *job)
{
    pst_images *images = job->images;
    struct psti_buffer *stored = &job->tools->stored;
    const struct pst_item *item = &job->item;
    enum pst_status status =
        psti_buffer_reserve(stored, item->nbytes, "images", "of an image", job->err);
    if (status == PST_OK)
        status = pst_dataset_read(images->dataset, job->sample, images->i_field, job->variant, 0,
                                  item->nbytes, stored->bytes, job->err);
    if (status != PST_OK)
        return name_error(job, status);
    count(&images->n_misses, 1);
    count(&images->nbytes_read, item->nbytes);
    job->bytes = stored->bytes;
    job->nbytes = item->nbytes;
    uint64_t found = item->checksum;
    if (item->has_checksum && !images->no_verify)
        found = psti_hash64(stored->bytes, (size_t)item->nbytes);
    if (found == item->checksum)
        return PST_OK;
    return name_error(job,
                      psti_fail(job->err, PST_ERROR_CHECKSUM, "images",
                                "the stored bytes have checksum %016" PRIx64 ", not %016" PRIx64,
                                found, item->checksum));
}

/* True if the PLI decoder can write directly to the caller's pixels, without a second pass. */
static bool is_direct(const struct job *job, const struct pst_pixels *pixels)
{
    const struct pst_image_info *info = &job->info;
    return (info->form == PST_FORM_PLI || info->form == PST_FORM_PLI_JPEG) &&
           (job->images->decode.ignore_orientation || info->orientation <= 1) &&
           info->channels == pixels->channels && info->bits == pixels->bits;
}

static enum pst_status decode_directly(const struct job *job, const struct pst_pixels *pixels)
{
    struct psti_buffer *scratch = &job->tools->scratch;
    size_t nbytes = psti_pli_region_scratch_nbytes(&job->pli, job->pli.width);
    enum pst_status status =
        psti_buffer_reserve(scratch, nbytes, "images", "to decode an image", job->err);
    if (status == PST_OK)
        status = pst_pli_decode(job->bytes, (size_t)job->nbytes, NULL, -1, pixels, scratch->bytes,
                                scratch->capacity, job->err);
    return status;
}

/* A band of decoded rows, and where they go. */
struct band {
    psti_images_swap swap;
    const uint8_t *rows;
    uint8_t *to;
    uint32_t width;
};

static enum pst_status store_band(void *ctx, uint32_t y, uint32_t n_rows)
{
    const struct band *band = ctx;
    size_t row_nbytes = (size_t)3 * band->width;
    band->swap(band->rows, band->to + y * row_nbytes, (size_t)n_rows * band->width);
    return PST_OK;
}

/* Decodes 8-bit RGB to BGR in bands of rows, so the colours are swapped while the rows are still in
 * the CPU's caches. */
static enum pst_status decode_swapped(const struct job *job, const struct pst_pixels *pixels)
{
    struct psti_images_tools *tools = job->tools;
    const struct pst_pli_region whole = {0, 0, pixels->height, pixels->width};
    uint32_t height = psti_pli_band_rows(job->pli.content, psti_pli_edge(&job->pli));
    size_t nbytes = psti_pli_region_scratch_nbytes(&job->pli, job->pli.width);
    struct pst_pixels rows = *pixels;
    rows.height = pixels->height < height ? pixels->height : height;
    enum pst_status status =
        psti_buffer_reserve(&tools->scratch, nbytes, "images", "to decode an image", job->err);
    if (status == PST_OK)
        status =
            psti_buffer_reserve(&tools->band, (uint64_t)rows.height * (uint64_t)rows.row_nbytes,
                                "images", "to decode an image", job->err);
    if (status != PST_OK)
        return status;
    struct band band = {job->images->swap, tools->band.bytes, pixels->data, pixels->width};
    rows.data = tools->band.bytes;
    return psti_pli_decode_bands(&job->pli, job->bytes, (size_t)job->nbytes, &whole, &rows,
                                 tools->scratch.bytes, tools->scratch.capacity, store_band, &band,
                                 job->err);
}

/* Swaps the first and the third channel of each pixel. */
static void swap_colors(const struct pst_images *images, const struct pst_pixels *pixels)
{
    size_t n = (size_t)pixels->height * pixels->width;
    if (pixels->bits == 8 && pixels->channels == 3) {
        images->swap(pixels->data, pixels->data, n);
        return;
    }
    if (pixels->bits == 8) {
        uint8_t *p = pixels->data;
        for (size_t i = 0; i < n; i++, p += pixels->channels) {
            uint8_t first = p[0];
            p[0] = p[2];
            p[2] = first;
        }
        return;
    }
    uint16_t *p = pixels->data;
    for (size_t i = 0; i < n; i++, p += pixels->channels) {
        uint16_t first = p[0];
        p[0] = p[2];
        p[2] = first;
    }
}

static enum pst_status fill(const struct job *job, struct pst_pixels *pixels)
{
    const struct psti_rect whole = {0, 0, pixels->height, pixels->width};
    bool swaps = job->images->color == PST_COLOR_BGR && pixels->channels >= 3;
    enum pst_status status;
    if (is_direct(job, pixels) && swaps && pixels->channels == 3 && pixels->bits == 8) {
        status = decode_swapped(job, pixels);
        swaps = false;
    } else if (is_direct(job, pixels)) {
        status = decode_directly(job, pixels);
    } else {
        status = psti_decode_region(job->tools->decoder, job->bytes, (size_t)job->nbytes,
                                    &job->info, &job->images->decode, &whole, pixels->data,
                                    (size_t)pixels->row_nbytes, job->err);
    }
    if (status == PST_OK && swaps)
        swap_colors(job->images, pixels);
    return status;
}

/* Decodes job->bytes into memory from the pool of pixel memory. */
static enum pst_status decode(struct job *job, struct pst_pixels *pixels)
{
    pst_images *images = job->images;
    size_t row_nbytes, nbytes;
    if (job->form == PST_FORM_RAW && !job->is_recoded)
        job->info = psti_dataset_raw_info(&job->item);
    const struct pst_decode_options options =
        psti_decode_options_for(&images->decode, job->item.orientation);
    enum pst_status status = psti_decode_probe_pli(job->bytes, (size_t)job->nbytes, job->form,
                                                   &options, &job->info, &job->pli, job->err);
    if (status != PST_OK)
        return name_error(job, status);
    *pixels = (struct pst_pixels){.height = job->info.height, .width = job->info.width};
    psti_decode_output(&job->info, &images->decode, &pixels->channels, &pixels->bits);
    if (psti_decode_pixels_nbytes(&job->info, &images->decode, &row_nbytes, &nbytes))
        pixels->data = psti_images_pool_take(images->pool, nbytes);
    if (!pixels->data)
        return name_error(job,
                          psti_fail(job->err, PST_ERROR_MEMORY, "images",
                                    "no memory for %u x %u pixels", pixels->width, pixels->height));
    pixels->channel_nbytes = pixels->bits / 8;
    pixels->pixel_nbytes = pixels->channels * pixels->channel_nbytes;
    pixels->row_nbytes = (int64_t)row_nbytes;
    status = fill(job, pixels);
    if (status == PST_OK)
        return PST_OK;
    pst_images_release(pixels->data);
    return name_error(job, status);
}

/* Adds the decoded item to the cache, re-coded if cache_form is for it. */
static void keep(struct job *job)
{
    pst_images *images = job->images;
    const struct psti_recode_tools tools = {psti_decode_recode_alone, job->tools->decoder,
                                            UINT64_MAX};
    const struct psti_recode_source source = {.bytes = job->bytes,
                                              .nbytes = job->nbytes,
                                              .form = job->item.form,
                                              .raw = psti_dataset_raw_info(&job->item),
                                              .orientation = job->item.orientation};
    struct psti_cache_span item = {job->bytes, job->nbytes, PSTI_CACHE_AS_STORED};
    struct psti_buffer out = {0};
    struct psti_recoded recoded;
    enum psti_recode_result result = PSTI_RECODE_NOT_FOR;
    uint64_t reserved = job->nbytes;
    if (psti_recode_has_field(images->cache_key, images->i_field))
        result = psti_decode_recode(&tools, psti_recode_form(images->cache_key), &source, &out,
                                    &recoded);
    if (result == PSTI_RECODE_DONE && recoded.nbytes > reserved) {
        if (psti_cache_enlarge(images->cache, reserved, recoded.nbytes))
            reserved = recoded.nbytes;
        else
            result = PSTI_RECODE_FAILED;
    }
    if (result == PSTI_RECODE_DONE)
        item = (struct psti_cache_span){recoded.bytes, recoded.nbytes, (uint8_t)recoded.form};
    if (!psti_cache_keep(images->cache, job->sample, number_of(job), reserved, &item))
        count(&images->n_refused, 1);
    else if (result != PSTI_RECODE_NOT_FOR)
        count(result == PSTI_RECODE_DONE ? &images->n_recoded : &images->n_not_recoded, 1);
    psti_buffer_free(&out);
    drop_pages(job);
}

static enum pst_status make(struct job *job, struct pst_pixels *pixels)
{
    enum pst_status status = find_item(job);
    job->form = job->item.form;
    if (status != PST_OK)
        return status;
    if (!ask(job))
        status = job->is_stopped ? psti_fail(job->err, PST_ERROR_CANCELLED, "images",
                                             "the caller's interrupt function ended the call")
                                 : read_item(job);
    if (status == PST_OK)
        status = decode(job, pixels);
    if (job->is_wanted && status == PST_OK)
        keep(job);
    else if (job->is_wanted)
        psti_cache_give_up(job->images->cache, job->sample, number_of(job), job->item.nbytes);
    if (job->images->cache)
        psti_cache_leave(job->images->cache, job->reader);
    psti_images_host_give(job->images, &job->hold);
    return status;
}

enum pst_status pst_images_get(pst_images *images, uint64_t sample, struct pst_pixels *pixels,
                               struct pst_error *err)
{
    struct job job = {.images = images, .sample = sample, .err = err};
    struct pst_pixels made;
    job.tools = psti_images_tools_take(images, err);
    if (!job.tools)
        return PST_ERROR_MEMORY;
    enum pst_status status = make(&job, &made);
    psti_images_tools_give(images, job.tools);
    if (status == PST_OK)
        *pixels = made;
    return status;
}

static bool is_kept(pst_images *images, struct job *job)
{
    struct psti_cache_span span;
    struct psti_images_hold hold;
    bool fetched, is_lost, is_stopped;
    if (job->is_decoded)
        return false;
    if (images->host_path) {
        enum psti_cache_answer answer =
            psti_images_host_ask(images, job->sample, number_of(job), job->item.nbytes, false,
                                 &hold, &fetched, &is_lost, &is_stopped, &span);
        psti_images_host_give(images, &hold);
        return answer == PSTI_CACHE_HIT;
    }
    if (!images->cache)
        return false;
    unsigned reader = psti_cache_enter(images->cache);
    bool found = psti_cache_find(images->cache, job->sample, number_of(job), job->item.nbytes,
                                 &span) == PSTI_CACHE_HIT;
    psti_cache_leave(images->cache, reader);
    return found;
}

enum pst_status pst_images_load(pst_images *images, uint64_t sample, bool *kept,
                                struct pst_error *err)
{
    struct job job = {.images = images, .sample = sample, .err = err};
    struct pst_pixels pixels;
    enum pst_status status = find_item(&job);
    if (status == PST_OK && !is_kept(images, &job)) {
        status = pst_images_get(images, sample, &pixels, err);
        if (status == PST_OK)
            pst_images_release(pixels.data);
    }
    if (status == PST_OK && kept)
        *kept = is_kept(images, &job);
    return status;
}
