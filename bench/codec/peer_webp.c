/* peer_webp.c - libwebp, lossless: 8-bit RGB and RGBA, with colours under alpha 0 ("exact").
 *
 * Quality (the effort within a method) is 75, as of `cwebp -lossless -m N`. libwebp makes its
 * decoder for each image. Pixels go directly into the given buffer. */
#include "codec.h"
#include "peers.h"

#include <webp/decode.h>
#include <webp/encode.h>

static bool can(const struct image *image)
{
    return image->bits == 8 && image->channels >= 3 && image->width <= WEBP_MAX_DIMENSION &&
           image->height <= WEBP_MAX_DIMENSION;
}

static int put(const uint8_t *bytes, size_t nbytes, const WebPPicture *picture)
{
    bytes_put(picture->custom_ptr, bytes, nbytes);
    return 1;
}

static bool encode(void *state, const struct codec *codec, const struct image *image,
                   struct bytes *out)
{
    WebPConfig config;
    WebPPicture picture;
    (void)state;
    if (!WebPConfigInit(&config) || !WebPPictureInit(&picture))
        return false;
    config.lossless = 1;
    config.exact = 1;
    config.quality = 75;
    config.method = codec->setting;
    picture.use_argb = 1;
    picture.width = (int)image->width;
    picture.height = (int)image->height;
    picture.writer = put;
    picture.custom_ptr = out;
    int stride = (int)image->row_nbytes;
    bool done = (image->channels == 3 ? WebPPictureImportRGB(&picture, image->pixels, stride)
                                      : WebPPictureImportRGBA(&picture, image->pixels, stride)) &&
                WebPEncode(&config, &picture);
    WebPPictureFree(&picture);
    return done;
}

static bool decode(void *state, const struct codec *codec, const struct bytes *in,
                   const struct image *image, uint8_t *pixels)
{
    int stride = (int)image->row_nbytes;
    (void)state, (void)codec;
    if (image->channels == 3)
        return WebPDecodeRGBInto(in->at, in->nbytes, pixels, image->nbytes, stride) != NULL;
    return WebPDecodeRGBAInto(in->at, in->nbytes, pixels, image->nbytes, stride) != NULL;
}

static const struct codec codecs[] = {
    {.name = "webp_m4", .setting = 4, .can = can, .encode = encode, .decode = decode},
    {.name = "webp_m0", .setting = 0, .can = can, .encode = encode, .decode = decode}};
const struct codec_family family_webp = {"libwebp", CODEC_WEBP_VERSION, NULL, NULL, codecs, 2};
