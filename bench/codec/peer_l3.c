/* peer_l3.c - the L3 codec of bench/l3, with both published tile sizes; 8-bit RGB only. */
#include "codec.h"
#include "peers.h"

#include "l3/l3.h"

static bool can(const struct image *image) { return image->bits == 8 && image->channels == 3; }

static bool encode(void *state, const struct codec *codec, const struct image *image,
                   struct bytes *out)
{
    const uint32_t edge = (uint32_t)codec->setting;
    (void)state;
    bytes_reserve(out, l3_bound(image->height, image->width, edge));
    return l3_encode(image->pixels, image->row_nbytes, image->height, image->width, edge, out->at,
                     out->cap, &out->nbytes);
}

static bool decode(void *state, const struct codec *codec, const struct bytes *in,
                   const struct image *image, uint8_t *pixels)
{
    struct l3_info info;
    (void)state, (void)codec;
    return l3_read(in->at, in->nbytes, &info) && info.width == image->width &&
           info.height == image->height && l3_decode(in->at, in->nbytes, pixels, image->row_nbytes);
}

static const struct codec codecs[] = {
    {.name = "l3_t64", .setting = 64, .can = can, .encode = encode, .decode = decode},
    {.name = "l3_t32", .setting = 32, .can = can, .encode = encode, .decode = decode}};
const struct codec_family family_l3 = {"l3", "published layout, repaired", NULL, NULL, codecs, 2};
