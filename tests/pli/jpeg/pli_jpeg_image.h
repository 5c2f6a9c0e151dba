/* pli_jpeg_image.h - a JPEG with its coefficients and its PLI, for tests of content 2. Tests that
 * include it must link the encoder. */
#ifndef PST_TEST_PLI_JPEG_IMAGE_H
#define PST_TEST_PLI_JPEG_IMAGE_H

#include "pli/jpeg/pli_jpeg_make.h"

#include "pli/encode/coefs/pli_jpeg_encode.h"

#include <penstock/pli.h>

#include <stdlib.h>

struct pli_jpeg_image {
    /* `pli` lies in memory of exactly its length, so that sanitizers detect over-reads */
    struct bytes jpeg, pli;
    struct pli_jpeg content;
    struct pst_pli_info info;
};

/* Makes a PLI of the file. The image owns the file from here on. Returns false if content 2 does
 * not take the file; the caller must close the image even then. */
static inline bool pli_jpeg_image_open(struct bytes file, uint8_t unit_log2,
                                       struct pli_jpeg_image *image)
{
    struct pst_error err;
    const struct psti_jpeg_encode_options options = {.unit_log2 = unit_log2};
    size_t capacity = file.nbytes * 2 + 100000, nbytes;
    *image = (struct pli_jpeg_image){.jpeg = file};
    if (!pli_jpeg_read(&file, &image->content))
        return false;
    uint8_t *room = malloc(capacity);
    assert_non_null(room);
    assert_ok(psti_pli_jpeg_encode(&image->content.frame,
                                   (const int16_t *const *)image->content.coefs, NULL, &options,
                                   room, capacity, &nbytes, &err));
    image->pli = (struct bytes){malloc(nbytes), nbytes};
    assert_non_null(image->pli.data);
    memcpy(image->pli.data, room, nbytes);
    free(room);
    assert_ok(pst_pli_info(image->pli.data, nbytes, &image->info, sizeof image->info, &err));
    assert_int_equal(image->info.nbytes, nbytes);
    return true;
}

static inline void pli_jpeg_image_close(struct pli_jpeg_image *image)
{
    pli_jpeg_free(&image->content);
    bytes_free(&image->jpeg);
    bytes_free(&image->pli);
}

#endif
