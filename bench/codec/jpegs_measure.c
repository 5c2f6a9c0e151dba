/* jpegs_measure.c - measures a group of JPEG files: converts them to PLI, restores the files, and
 * decodes whole images and crops by PLI and by libjpeg-turbo in turns.
 *
 * Before anything is timed, every file is restored and compared, and its pixels and those of its
 * rectangles are compared with libjpeg-turbo's. One thread, its CPU time. */
#include "jpegs.h"

#include <penstock/penstock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct work {
    struct jpegs *jpegs;
    struct peer *peer;
    uint8_t *pixels, *others;
    void *scratch;
    size_t scratch_nbytes;
};

static void decode(const struct work *w, const struct jpeg *jpeg,
                   const struct pst_pli_region *region)
{
    const uint32_t width = region ? region->width : jpeg->width;
    const struct pst_pixels pixels = {.data = w->pixels,
                                      .height = region ? region->height : jpeg->height,
                                      .width = width,
                                      .channels = jpeg->channels,
                                      .bits = 8,
                                      .row_nbytes = (int64_t)width * jpeg->channels,
                                      .pixel_nbytes = jpeg->channels,
                                      .channel_nbytes = 1};
    struct pst_error err;
    if (pst_pli_decode(jpeg->pli.at, jpeg->pli.nbytes, region, -1, &pixels, w->scratch,
                       w->scratch_nbytes, &err) != PST_OK)
        die(jpeg->name, err.text);
}

/* Converts the JPEG file to PLI if possible. The caller times the pass over all files. */
static void convert(const struct work *w, struct jpegs_result *result)
{
    double start = thread_cpu_seconds();
    for (size_t i = 0; i < w->jpegs->n; i++) {
        struct jpeg *jpeg = &w->jpegs->files[i];
        struct pst_error err;
        bytes_reserve(&jpeg->pli, jpeg->file.nbytes);
        if (pst_pli_from_jpeg(jpeg->file.at, jpeg->file.nbytes, NULL, jpeg->pli.at, jpeg->pli.cap,
                              &jpeg->pli.nbytes, &err) != PST_OK)
            jpeg->pli.nbytes = 0;
    }
    result->from_seconds = thread_cpu_seconds() - start;
}

static void restore(const struct work *w, struct jpegs_result *result)
{
    struct bytes back = {0};
    double start = thread_cpu_seconds();
    for (size_t i = 0; i < w->jpegs->n; i++) {
        const struct jpeg *jpeg = &w->jpegs->files[i];
        struct pst_error err;
        if (jpeg->pli.nbytes == 0)
            continue;
        bytes_reserve(&back, jpeg->file.nbytes);
        if (pst_pli_to_jpeg(jpeg->pli.at, jpeg->pli.nbytes, back.at, back.cap, &back.nbytes,
                            &err) == PST_OK &&
            back.nbytes == jpeg->file.nbytes && memcmp(back.at, jpeg->file.at, back.nbytes) == 0)
            result->n_restored++;
    }
    result->to_seconds = thread_cpu_seconds() - start;
    bytes_free(&back);
}

static bool has_same_pixels(const struct work *w, const struct jpeg *jpeg)
{
    const size_t row_nbytes = (size_t)jpeg->width * jpeg->channels;
    peer_whole(w->peer, jpeg, w->others, row_nbytes);
    decode(w, jpeg, NULL);
    bool same = memcmp(w->pixels, w->others, row_nbytes * jpeg->height) == 0;
    for (int k = 0; k < JPEG_DRAWS; k++) {
        const struct pst_pli_region *r = &jpeg->regions[k];
        const size_t nbytes = (size_t)r->width * jpeg->channels;
        decode(w, jpeg, r);
        for (uint32_t y = 0; y < r->height; y++)
            same &= memcmp(w->pixels + y * nbytes,
                           w->others + (r->y + y) * row_nbytes + (size_t)r->x * jpeg->channels,
                           nbytes) == 0;
    }
    return same;
}

static void check(struct work *w, struct jpegs_result *result)
{
    for (size_t i = 0; i < w->jpegs->n; i++) {
        struct jpeg *jpeg = &w->jpegs->files[i];
        result->file_nbytes += (double)jpeg->file.nbytes;
        result->pli_nbytes += (double)(jpeg->pli.nbytes ? jpeg->pli.nbytes : jpeg->file.nbytes);
        if (jpeg->pli.nbytes == 0)
            continue;
        struct pst_pli_info info = {0};
        struct pst_error err;
        if (pst_pli_info(jpeg->pli.at, jpeg->pli.nbytes, &info, sizeof info, &err) != PST_OK)
            die(jpeg->name, err.text);
        size_t nbytes = pst_pli_scratch_nbytes(&info, sizeof info);
        if (nbytes > w->scratch_nbytes) {
            free(w->scratch);
            w->scratch = aligned_alloc(64, (nbytes + 63) / 64 * 64);
            w->scratch_nbytes = nbytes;
            if (!w->scratch)
                die("memory", "none left");
        }
        result->n_kept++;
        result->n_same_pixels += has_same_pixels(w, jpeg);
    }
}

static double time_peer(const struct work *w, bool crops)
{
    double start = thread_cpu_seconds();
    for (size_t i = 0; i < w->jpegs->n; i++) {
        const struct jpeg *jpeg = &w->jpegs->files[i];
        if (jpeg->pli.nbytes == 0)
            continue;
        if (!crops)
            peer_whole(w->peer, jpeg, w->pixels, (size_t)jpeg->width * jpeg->channels);
        for (int k = 0; crops && k < JPEG_DRAWS; k++)
            peer_region(w->peer, jpeg, &jpeg->regions[k], w->pixels,
                        (size_t)(jpeg->width + 64) * jpeg->channels);
    }
    return thread_cpu_seconds() - start;
}

static double time_pli(const struct work *w, bool crops)
{
    double start = thread_cpu_seconds();
    for (size_t i = 0; i < w->jpegs->n; i++) {
        const struct jpeg *jpeg = &w->jpegs->files[i];
        if (jpeg->pli.nbytes == 0)
            continue;
        if (!crops)
            decode(w, jpeg, NULL);
        for (int k = 0; crops && k < JPEG_DRAWS; k++)
            decode(w, jpeg, &jpeg->regions[k]);
    }
    return thread_cpu_seconds() - start;
}

void jpegs_measure(struct jpegs *jpegs, const struct settings *settings,
                   struct jpegs_result *result)
{
    double times[4][64];
    struct work w = {.jpegs = jpegs,
                     .peer = peer_open(),
                     .pixels = claim(jpegs->pixels_nbytes),
                     .others = claim(jpegs->pixels_nbytes)};
    convert(&w, result);
    restore(&w, result);
    check(&w, result);
    for (uint32_t i = 0; i < settings->repeats; i++) {
        times[0][i] = time_peer(&w, false);
        times[1][i] = time_pli(&w, false);
        times[2][i] = time_peer(&w, true);
        times[3][i] = time_pli(&w, true);
    }
    result->peer_whole = median_of(times[0], settings->repeats);
    result->pli_whole = median_of(times[1], settings->repeats);
    result->peer_crop = median_of(times[2], settings->repeats);
    result->pli_crop = median_of(times[3], settings->repeats);
    peer_close(w.peer);
    free(w.pixels);
    free(w.others);
    free(w.scratch);
}
