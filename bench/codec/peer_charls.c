/* peer_charls.c - JPEG-LS by charls, lossless: gray of 8 and 16 bits, 8-bit RGB.
 *
 * RGB is coded line by line with the colour transform HP1 (differences to green), which makes
 * smaller files than untransformed planes. A charls object can code one image only. Images of four
 * channels are left out, because charls 2.4 does not restore them. */
#include "codec.h"
#include "peers.h"

#include <charls/charls.h>

static bool can(const struct image *image)
{
    return image->channels == 1 || (image->channels == 3 && image->bits == 8);
}

static bool encode(void *state, const struct codec *codec, const struct image *image,
                   struct bytes *out)
{
    const charls_frame_info info = {image->width, image->height, image->bits, image->channels};
    const bool is_color = image->channels == 3;
    size_t cap = 0;
    (void)state, (void)codec;
    charls_jpegls_encoder *encoder = charls_jpegls_encoder_create();
    bool done =
        encoder && !charls_jpegls_encoder_set_frame_info(encoder, &info) &&
        !charls_jpegls_encoder_set_interleave_mode(
            encoder, is_color ? CHARLS_INTERLEAVE_MODE_LINE : CHARLS_INTERLEAVE_MODE_NONE) &&
        !charls_jpegls_encoder_set_color_transformation(
            encoder,
            is_color ? CHARLS_COLOR_TRANSFORMATION_HP1 : CHARLS_COLOR_TRANSFORMATION_NONE) &&
        !charls_jpegls_encoder_get_estimated_destination_size(encoder, &cap);
    if (done) {
        bytes_reserve(out, cap + cap / 2);
        done =
            !charls_jpegls_encoder_set_destination_buffer(encoder, out->at, out->cap) &&
            !charls_jpegls_encoder_encode_from_buffer(encoder, image->pixels, image->nbytes, 0) &&
            !charls_jpegls_encoder_get_bytes_written(encoder, &out->nbytes);
    }
    charls_jpegls_encoder_destroy(encoder);
    return done;
}

static bool decode(void *state, const struct codec *codec, const struct bytes *in,
                   const struct image *image, uint8_t *pixels)
{
    (void)state, (void)codec;
    charls_jpegls_decoder *decoder = charls_jpegls_decoder_create();
    bool done = decoder && !charls_jpegls_decoder_set_source_buffer(decoder, in->at, in->nbytes) &&
                !charls_jpegls_decoder_read_header(decoder) &&
                !charls_jpegls_decoder_decode_to_buffer(decoder, pixels, image->nbytes, 0);
    charls_jpegls_decoder_destroy(decoder);
    return done;
}

static const struct codec codecs[] = {
    {.name = "jpegls", .can = can, .encode = encode, .decode = decode}};
const struct codec_family family_charls = {"charls", CODEC_CHARLS_VERSION, NULL, NULL, codecs, 1};
