/* pli_coefs_encode.c - implements pli_coefs_encode.h. */
#include "pli/coefs/pli_coefs_encode.h"

#include "pli/encode/coefs/pli_jpeg_encode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint8_t *coefs_encode(const struct coefs_image *image, uint8_t unit_log2, bool no_checksum,
                      size_t *nbytes)
{
    const struct psti_jpeg_encode_options options = {.unit_log2 = unit_log2,
                                                     .no_checksum = no_checksum};
    struct pst_error err;
    size_t capacity = 100000;
    for (uint32_t c = 0; c < image->frame.n_components; c++)
        capacity += 4 * psti_pli_jpeg_n_coefs(&image->frame, c);
    uint8_t *room = malloc(capacity), *bytes = NULL;
    if (room && psti_pli_jpeg_encode(&image->frame, (const int16_t *const *)image->coefs, NULL,
                                     &options, room, capacity, nbytes, &err) == PST_OK)
        bytes = malloc(*nbytes);
    if (!bytes) {
        fprintf(stderr, "pli_coefs_encode: no file\n");
        exit(2);
    }
    memcpy(bytes, room, *nbytes);
    free(room);
    return bytes;
}
