/* peer_pli.c - PLI through <penstock/pli.h>: its tiers, at the default effort and at others.
 *
 * It runs on the calling thread alone, with checksums of units, as a loader decodes. Scratch
 * memory is reused. PENSTOCK_CPU_MASK sets the level once for the process. */
#include "codec.h"
#include "peers.h"

#include <penstock/pli.h>

#include <stdlib.h>

struct state {
    void *scratch;
    size_t scratch_nbytes;
};

static void *open_state(void) { return claim(sizeof(struct state)); }

static void close_state(void *arg)
{
    struct state *state = arg;
    free(state->scratch);
    free(state);
}

static bool can(const struct image *image) { return image->bits == 8 || image->bits == 16; }

static struct pst_pixels pixels_of(const struct image *image, void *data)
{
    return (struct pst_pixels){.data = data,
                               .height = image->height,
                               .width = image->width,
                               .channels = image->channels,
                               .bits = image->bits,
                               .row_nbytes = (int64_t)image->row_nbytes,
                               .pixel_nbytes = image->channels * (image->bits / 8),
                               .channel_nbytes = image->bits / 8};
}

static bool encode(void *state, const struct codec *codec, const struct image *image,
                   struct bytes *out)
{
    const struct pst_pixels pixels = pixels_of(image, image->pixels);
    const struct pst_pli_encode_options options = {.struct_size = sizeof options,
                                                   .tier = (enum pst_pli_tier)codec->tier,
                                                   .effort = (uint32_t)codec->setting};
    (void)state;
    bytes_reserve(out,
                  pst_pli_encode_bound(image->height, image->width, image->channels, image->bits));
    return pst_pli_encode(&pixels, &options, out->at, out->cap, &out->nbytes, NULL) == PST_OK;
}

static bool reserve_scratch(struct state *state, size_t nbytes)
{
    if (nbytes <= state->scratch_nbytes)
        return true;
    free(state->scratch);
    state->scratch = aligned_alloc(64, (nbytes + 63) / 64 * 64);
    state->scratch_nbytes = state->scratch ? nbytes : 0;
    return state->scratch != NULL;
}

static bool decode(void *arg, const struct codec *codec, const struct bytes *in,
                   const struct image *image, uint8_t *data)
{
    struct state *state = arg;
    struct pst_pli_info info = {0};
    const struct pst_pixels pixels = pixels_of(image, data);
    const size_t head_nbytes = in->nbytes < 40 ? in->nbytes : 40;
    (void)codec;
    return pst_pli_info(in->at, head_nbytes, &info, sizeof info, NULL) == PST_OK &&
           info.width == image->width && info.height == image->height &&
           reserve_scratch(state, pst_pli_scratch_nbytes(&info, sizeof info)) &&
           pst_pli_decode(in->at, in->nbytes, NULL, -1, &pixels, state->scratch,
                          state->scratch_nbytes, NULL) == PST_OK;
}

#define CODEC(NAME, TIER, EFFORT)                                                                  \
    {                                                                                              \
        .name = NAME, .tier = PST_PLI_TIER_##TIER, .setting = EFFORT, .can = can,                  \
        .encode = encode, .decode = decode                                                         \
    }
/* Effort 0 is the default. */
static const struct codec codecs[] = {
    CODEC("pli_fast", FAST, 0),   CODEC("pli_fast_e5", FAST, 5),   CODEC("pli_small_e1", SMALL, 1),
    CODEC("pli_small", SMALL, 0), CODEC("pli_small_e5", SMALL, 5), CODEC("pli_dense_e1", DENSE, 1),
    CODEC("pli_dense", DENSE, 0), CODEC("pli_dense_e5", DENSE, 5)};
const struct codec_family family_pli = {"penstock",  "",     open_state,
                                        close_state, codecs, sizeof codecs / sizeof *codecs};
