/* fuzz_pli_roundtrip.c - makes a picture from the input, encodes it in any tier and effort, and
 * decodes it: the pixels must be the same, or within max_error. Input: 8 bytes of geometry and
 * options, then strokes that draw gradients, noise, flat areas, repeats, or raw bytes. */
#include "fuzz/fuzz_pli.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

enum { HEAD_NBYTES = 8, STROKE_NBYTES = 8, MAX_EDGE = 200 };

static void put(struct pst_pixels *p, uint32_t y, uint32_t x, uint32_t c, uint32_t v)
{
    uint8_t *at = (uint8_t *)p->data + (int64_t)y * p->row_nbytes + (int64_t)x * p->pixel_nbytes +
                  (int64_t)c * p->channel_nbytes;
    memcpy(at, &v, p->bits / 8u);
}

/* Draws a rectangle in one channel, with the kind of contents that s[0] chooses. */
static void stroke(struct pst_pixels *p, const uint8_t *s, const uint8_t *rest, size_t n_rest)
{
    uint32_t y0 = s[1] % p->height, x0 = s[2] % p->width, c = s[0] / 8 % p->channels;
    uint32_t h = 1 + s[3] % (p->height - y0), w = 1 + s[4] % (p->width - x0);
    uint32_t seed = s[5] * 2654435761u + s[6];
    for (uint32_t y = 0; y < h; y++) {
        for (uint32_t x = 0; x < w; x++) {
            uint32_t v = (uint32_t)s[5] << (p->bits - 8);
            seed = seed * 1664525u + 1013904223u;
            switch (s[0] & 7) {
            case 0:
                break;
            case 1:
                v += y * (s[6] & 15) + x * (s[6] >> 4);
                break;
            case 2:
                v += (seed >> 24) % (1u + s[6]);
                break;
            case 3:
                v = seed >> 8;
                break;
            case 4:
                v += (x / (1u + s[6] % 16)) * s[7];
                break;
            case 5:
                v = n_rest ? rest[(y * w + x) % n_rest] : 0;
                break;
            case 6:
                v = (x ^ y) & s[6] ? 0xFFFF : 0;
                break;
            default:
                v += (x * x + y * y) / (1u + s[6]);
                break;
            }
            put(p, y0 + y, x0 + x, c, v);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes < HEAD_NBYTES)
        return 0;
    struct pst_pli_info shape = {.bits = data[0] & 4 ? 16 : 8};
    uint8_t channels = (uint8_t)(1 + (data[0] & 3));
    uint32_t height = 1 + data[1] % MAX_EDGE, width = 1 + data[2] % MAX_EDGE;
    height *= data[7] & 1 ? 3 : 1; /* larger units, and more than one of them */
    width *= data[7] & 2 ? 3 : 1;
    size_t total = (size_t)height * width * channels * (shape.bits / 8u);
    uint8_t *source = calloc(total, 1), *back = malloc(total);
    struct pst_pixels p = fuzz_pli_pixels(&shape, height, width, channels, source);
    for (size_t i = HEAD_NBYTES; i + STROKE_NBYTES <= nbytes; i += STROKE_NBYTES)
        stroke(&p, data + i, data + i + STROKE_NBYTES, nbytes - i - STROKE_NBYTES);

    struct pst_pli_encode_options options = {
        .struct_size = sizeof options,
        .tier = (enum pst_pli_tier)(1 + data[3] % 3),
        .effort = data[4] % 6u,
        .max_error = data[5] & 1 ? data[6] % 128u : 0,
        .no_checksum = data[5] & 2,
    };
    size_t bound = pst_pli_encode_bound(height, width, channels, shape.bits), n;
    uint8_t *encoded = malloc(bound);
    if (pst_pli_encode(&p, &options, encoded, bound, &n, NULL) != PST_OK || n > bound)
        __builtin_trap();
    struct pst_pli_info info = {0};
    if (pst_pli_info(encoded, n, &info, sizeof info, NULL) != PST_OK || info.nbytes != n)
        __builtin_trap();
    if (fuzz_pli_decode(encoded, n, &info, NULL, -1) != PST_OK)
        __builtin_trap();
    struct pst_pixels out = fuzz_pli_pixels(&info, height, width, channels, back);
    size_t scratch_nbytes = psti_round_up(pst_pli_scratch_nbytes(&info, sizeof info), 64);
    void *scratch = aligned_alloc(64, scratch_nbytes);
    if (pst_pli_decode(encoded, n, NULL, -1, &out, scratch, scratch_nbytes, NULL) != PST_OK)
        __builtin_trap();
    for (size_t i = 0; i < total; i += shape.bits / 8u) {
        int64_t a = shape.bits == 8 ? source[i] : psti_load_u16(source + i);
        int64_t b = shape.bits == 8 ? back[i] : psti_load_u16(back + i);
        if ((a > b ? a - b : b - a) > options.max_error)
            __builtin_trap();
    }
    free(scratch);
    free(encoded);
    free(back);
    free(source);
    return 0;
}
