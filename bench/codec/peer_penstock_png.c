/* peer_penstock_png.c - Penstock's own PNG decoder, on the bytes that libpng wrote. */
#include "codec.h"
#include "peers.h"

#include <penstock/penstock.h>

static bool can(const struct image *image) { return image->bits == 8 || image->bits == 16; }

static bool decode(void *state, const struct codec *codec, const struct bytes *in,
                   const struct image *image, uint8_t *pixels)
{
    const struct pst_decode_options options = {.struct_size = sizeof options};
    (void)state, (void)codec;
    return pst_image_decode(in->at, in->nbytes, PST_FORM_PNG, &options, pixels, image->nbytes,
                            image->row_nbytes, NULL) == PST_OK;
}

static const struct codec codecs[] = {
    {.name = "penstock_png", .borrows = "png6", .can = can, .decode = decode}};
const struct codec_family family_penstock_png = {"penstock", "", NULL, NULL, codecs, 1};
