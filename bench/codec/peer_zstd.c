/* peer_zstd.c - zstd on raw pixels, and after the filters of PNG.
 *
 * Contexts and the filtered image are kept from one image to the next. `tier` selects the input:
 * pixels as they are, every row less its left neighbours, or each row by the filter whose sum of
 * absolute values is least (the choice that PNG's authors recommend). */
#include "codec.h"
#include "peers.h"

#include <stdlib.h>
#include <zstd.h>

enum { RAW, FILTER_LEFT, FILTER_MIN_SUM };

struct state {
    ZSTD_CCtx *compress;
    ZSTD_DCtx *decompress;
    struct bytes filtered, rows;
};

static void *open_state(void)
{
    struct state *state = claim(sizeof *state);
    state->compress = ZSTD_createCCtx();
    state->decompress = ZSTD_createDCtx();
    return state;
}

static void close_state(void *arg)
{
    struct state *state = arg;
    ZSTD_freeCCtx(state->compress);
    ZSTD_freeDCtx(state->decompress);
    bytes_free(&state->filtered);
    bytes_free(&state->rows);
    free(state);
}

static bool can(const struct image *image) { return image->nbytes > 0; }

static bool encode(void *arg, const struct codec *codec, const struct image *image,
                   struct bytes *out)
{
    struct state *state = arg;
    const uint8_t *from = image->pixels;
    size_t nbytes = image->nbytes;
    if (codec->tier != RAW) {
        nbytes = filter_nbytes(image);
        bytes_reserve(&state->filtered, nbytes + CODEC_SLACK_NBYTES);
        bytes_reserve(&state->rows, 2 * image->row_nbytes);
        if (codec->tier == FILTER_LEFT)
            filter_left(image, state->filtered.at);
        else
            filter_min_sum(image, state->filtered.at, state->rows.at);
        from = state->filtered.at;
    }
    bytes_reserve(out, ZSTD_compressBound(nbytes));
    size_t size =
        ZSTD_compressCCtx(state->compress, out->at, out->cap, from, nbytes, codec->setting);
    out->nbytes = size;
    return !ZSTD_isError(size);
}

static bool decode(void *arg, const struct codec *codec, const struct bytes *in,
                   const struct image *image, uint8_t *pixels)
{
    struct state *state = arg;
    if (codec->tier == RAW)
        return ZSTD_decompressDCtx(state->decompress, pixels, image->nbytes, in->at, in->nbytes) ==
               image->nbytes;
    size_t nbytes = filter_nbytes(image);
    bytes_reserve(&state->filtered, nbytes + CODEC_SLACK_NBYTES);
    return ZSTD_decompressDCtx(state->decompress, state->filtered.at, nbytes, in->at, in->nbytes) ==
               nbytes &&
           filter_undo(image, state->filtered.at, pixels);
}

#define CODEC(NAME, TIER, LEVEL)                                                                   \
    {                                                                                              \
        .name = NAME, .tier = TIER, .setting = LEVEL, .can = can, .encode = encode,                \
        .decode = decode                                                                           \
    }
static const struct codec codecs[] = {CODEC("zstd1_raw", RAW, 1), CODEC("zstd3_raw", RAW, 3),
                                      CODEC("zstd3_left", FILTER_LEFT, 3),
                                      CODEC("zstd3_minsum", FILTER_MIN_SUM, 3)};
const struct codec_family family_zstd = {
    "libzstd", ZSTD_VERSION_STRING, open_state, close_state, codecs, 4};
