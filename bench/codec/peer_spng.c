/* peer_spng.c - libspng, on the bytes that libpng wrote. A libspng context can decode one image
 * only. */
#include "codec.h"
#include "peers.h"

#include <spng.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

static bool can(const struct image *image) { return image->bits == 8 || image->bits == 16; }

static bool decode(void *state, const struct codec *codec, const struct bytes *in,
                   const struct image *image, uint8_t *pixels)
{
    (void)state, (void)codec;
    spng_ctx *context = spng_ctx_new(0);
    bool done = context && spng_set_png_buffer(context, in->at, in->nbytes) == 0 &&
                spng_decode_image(context, pixels, image->nbytes, SPNG_FMT_PNG, 0) == 0;
    spng_ctx_free(context);
    return done;
}

static const struct codec codecs[] = {
    {.name = "libspng", .borrows = "png6", .can = can, .decode = decode}};
const struct codec_family family_spng = {
    "libspng", TEXT(SPNG_VERSION_MAJOR) "." TEXT(SPNG_VERSION_MINOR) "." TEXT(SPNG_VERSION_PATCH),
    NULL,      NULL,
    codecs,    1};
