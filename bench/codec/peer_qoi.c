/* peer_qoi.c - QOI by its reference header: 8-bit RGB and RGBA.
 *
 * The header allocates its output by a macro. The macro here returns the caller's buffer, so the
 * output is written in place, as by every other codec. */
#include "codec.h"
#include "peers.h"

#include <string.h>

static _Thread_local struct {
    struct bytes *grows; /* for encoding */
    uint8_t *pixels;     /* for decoding */
    size_t room;
} target;

static void *target_claim(size_t nbytes)
{
    if (target.grows) {
        bytes_reserve(target.grows, nbytes);
        return target.grows->at;
    }
    return nbytes <= target.room ? target.pixels : NULL;
}

#define QOI_IMPLEMENTATION
#define QOI_NO_STDIO
#define QOI_MALLOC(nbytes) target_claim(nbytes)
#define QOI_FREE(p) ((void)(p))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <qoi.h>
#pragma GCC diagnostic pop

static bool can(const struct image *image) { return image->bits == 8 && image->channels >= 3; }

static bool encode(void *state, const struct codec *codec, const struct image *image,
                   struct bytes *out)
{
    const qoi_desc about = {image->width, image->height, image->channels, QOI_SRGB};
    int size = 0;
    (void)state, (void)codec;
    target.grows = out;
    bool done = qoi_encode(image->pixels, &about, &size) != NULL;
    target.grows = NULL;
    out->nbytes = (size_t)size;
    return done;
}

static bool decode(void *state, const struct codec *codec, const struct bytes *in,
                   const struct image *image, uint8_t *pixels)
{
    qoi_desc about;
    (void)state, (void)codec;
    target.pixels = pixels;
    target.room = image->nbytes;
    return qoi_decode(in->at, (int)in->nbytes, &about, image->channels) != NULL &&
           about.width == image->width && about.height == image->height;
}

static const struct codec codecs[] = {
    {.name = "qoi", .can = can, .encode = encode, .decode = decode}};
const struct codec_family family_qoi = {"qoi.h", "reference", NULL, NULL, codecs, 1};
