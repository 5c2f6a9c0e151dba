/* peer_memcpy.c - a plain copy of the pixels, the upper limit for any codec. It has no state. */
#include "codec.h"
#include "peers.h"

#include <string.h>

static bool can(const struct image *image) { return image->nbytes > 0; }

static bool encode(void *state, const struct codec *codec, const struct image *image,
                   struct bytes *out)
{
    (void)state, (void)codec;
    bytes_put(out, image->pixels, image->nbytes);
    return true;
}

static bool decode(void *state, const struct codec *codec, const struct bytes *in,
                   const struct image *image, uint8_t *pixels)
{
    (void)state, (void)codec;
    memcpy(pixels, in->at, image->nbytes);
    return true;
}

static const struct codec codecs[] = {
    {.name = "memcpy", .can = can, .encode = encode, .decode = decode}};
const struct codec_family family_memcpy = {"libc", "", NULL, NULL, codecs, 1};
