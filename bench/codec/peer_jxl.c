/* peer_jxl.c - libjxl, lossless, effort 1, without threads. Encoder and decoder are reused. */
#include "codec.h"
#include "peers.h"

#include <jxl/decode.h>
#include <jxl/encode.h>
#include <stdlib.h>

struct state {
    JxlEncoder *encoder;
    JxlDecoder *decoder;
};

static void *open_state(void)
{
    struct state *state = claim(sizeof *state);
    state->encoder = JxlEncoderCreate(NULL);
    state->decoder = JxlDecoderCreate(NULL);
    return state;
}

static void close_state(void *arg)
{
    struct state *state = arg;
    JxlEncoderDestroy(state->encoder);
    JxlDecoderDestroy(state->decoder);
    free(state);
}

static bool can(const struct image *image) { return image->bits == 8 || image->bits == 16; }

static JxlPixelFormat format_of(const struct image *image)
{
    return (JxlPixelFormat){image->channels, image->bits == 8 ? JXL_TYPE_UINT8 : JXL_TYPE_UINT16,
                            JXL_LITTLE_ENDIAN, 0};
}

static bool set_up(JxlEncoder *encoder, const struct codec *codec, const struct image *image)
{
    JxlBasicInfo info;
    JxlColorEncoding color;
    JxlPixelFormat format = format_of(image);
    bool has_alpha = image->channels % 2 == 0;
    JxlEncoderInitBasicInfo(&info);
    info.xsize = image->width;
    info.ysize = image->height;
    info.bits_per_sample = image->bits;
    info.num_color_channels = image->channels < 3 ? 1 : 3;
    info.num_extra_channels = has_alpha;
    info.alpha_bits = has_alpha ? image->bits : 0;
    info.uses_original_profile = JXL_TRUE;
    JxlColorEncodingSetToSRGB(&color, image->channels < 3);
    if (JxlEncoderSetBasicInfo(encoder, &info) != JXL_ENC_SUCCESS ||
        JxlEncoderSetColorEncoding(encoder, &color) != JXL_ENC_SUCCESS)
        return false;
    JxlEncoderFrameSettings *frame = JxlEncoderFrameSettingsCreate(encoder, NULL);
    return frame && JxlEncoderSetFrameLossless(frame, JXL_TRUE) == JXL_ENC_SUCCESS &&
           JxlEncoderFrameSettingsSetOption(frame, JXL_ENC_FRAME_SETTING_EFFORT, codec->setting) ==
               JXL_ENC_SUCCESS &&
           JxlEncoderAddImageFrame(frame, &format, image->pixels, image->nbytes) == JXL_ENC_SUCCESS;
}

static bool encode(void *arg, const struct codec *codec, const struct image *image,
                   struct bytes *out)
{
    struct state *state = arg;
    JxlEncoderReset(state->encoder);
    if (!set_up(state->encoder, codec, image))
        return false;
    JxlEncoderCloseInput(state->encoder);
    bytes_reserve(out, image->nbytes / 2 + 4096);
    for (;;) {
        uint8_t *next = out->at + out->nbytes;
        size_t left = out->cap - out->nbytes;
        JxlEncoderStatus status = JxlEncoderProcessOutput(state->encoder, &next, &left);
        out->nbytes = (size_t)(next - out->at);
        if (status == JXL_ENC_SUCCESS)
            return true;
        if (status != JXL_ENC_NEED_MORE_OUTPUT)
            return false;
        bytes_reserve(out, out->cap * 2);
    }
}

static bool decode(void *arg, const struct codec *codec, const struct bytes *in,
                   const struct image *image, uint8_t *pixels)
{
    struct state *state = arg;
    JxlDecoder *decoder = state->decoder;
    JxlPixelFormat format = format_of(image);
    (void)codec;
    JxlDecoderReset(decoder);
    if (JxlDecoderSubscribeEvents(decoder, JXL_DEC_FULL_IMAGE) != JXL_DEC_SUCCESS ||
        JxlDecoderSetInput(decoder, in->at, in->nbytes) != JXL_DEC_SUCCESS)
        return false;
    JxlDecoderCloseInput(decoder);
    return JxlDecoderProcessInput(decoder) == JXL_DEC_NEED_IMAGE_OUT_BUFFER &&
           JxlDecoderSetImageOutBuffer(decoder, &format, pixels, image->nbytes) ==
               JXL_DEC_SUCCESS &&
           JxlDecoderProcessInput(decoder) == JXL_DEC_FULL_IMAGE;
}

static const struct codec codecs[] = {
    {.name = "jxl_e1", .setting = 1, .can = can, .encode = encode, .decode = decode}};
const struct codec_family family_jxl = {
    "libjxl", CODEC_JXL_VERSION, open_state, close_state, codecs, 1};
