/* pli_jpeg_rows_template.h - turns rows of samples into rows of pixels with vectors of any width.
 *
 * pli_jpeg_int.h says what goes in and out. Plain C gives the same bytes. The functions are pure;
 * any thread may call them. A step makes STEP samples. The last step of a row of pixels overlaps
 * the step before it. Upsampling in one direction stays within bytes: an average that is rounded up
 * and one that is rounded down give the same as a sum of 10 bits and a shift. A level includes this
 * file once, after h2v2() and definitions of these:
 *
 *     TARGET, INLINE        attributes of functions, and of functions that are always inlined
 *     VECTOR, STEP          a vector of bytes, and the number of its bytes
 *     TABLE                 the level's table
 *     load(from), store(to, v)         load or store all bytes, at any address
 *     three_to_one_down(near, far)     returns (3 near + far + 1) >> 2
 *     three_to_one_up(near, far)       returns (3 near + far + 2) >> 2
 *     store_in_turn(to, even, odd)     stores 2 STEP samples, even and odd ones by turns
 *     make_rgb(v)           turns Y, Cb and Cr in v[0..2] into R, G and B
 *     store_rgb(to, r, g, b)           stores STEP interleaved pixels */
#include <string.h>

TARGET static void h2(const uint8_t *in, uint8_t *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += STEP) {
        VECTOR here = load(in + i), left = load(in + (ptrdiff_t)i - 1), right = load(in + i + 1);
        store_in_turn(out + 2 * (size_t)i, three_to_one_down(here, left),
                      three_to_one_up(here, right));
    }
}

TARGET static void v2(const uint8_t *near, const uint8_t *far, uint32_t bias, uint8_t *out,
                      uint32_t n)
{
    if (bias == 1)
        for (uint32_t i = 0; i < n; i += STEP)
            store(out + i, three_to_one_down(load(near + i), load(far + i)));
    else
        for (uint32_t i = 0; i < n; i += STEP)
            store(out + i, three_to_one_up(load(near + i), load(far + i)));
}

INLINE void step(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2, bool ycc, uint8_t *out)
{
    VECTOR v[3] = {load(c0), load(c1), load(c2)};
    if (ycc)
        make_rgb(v);
    store_rgb(out, v[0], v[1], v[2]);
}

INLINE void row(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2, bool ycc, uint8_t *out,
                uint32_t n)
{
    if (n < STEP) {
        uint8_t few[STEP * 3];
        step(c0, c1, c2, ycc, few);
        memcpy(out, few, (size_t)n * 3);
        return;
    }
    for (uint32_t x = 0; x < n; x += STEP) {
        /* The last step overlaps the step before and makes some pixels again. */
        size_t at = x + STEP <= n ? x : n - STEP;
        step(c0 + at, c1 + at, c2 + at, ycc, out + at * 3);
    }
}

TARGET static void ycc_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out,
                           uint32_t n)
{
    row(y, cb, cr, true, out, n);
}

TARGET static void plain_rgb(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2, uint8_t *out,
                             uint32_t n)
{
    row(c0, c1, c2, false, out, n);
}

const struct psti_pli_jpeg_rows TABLE = {
    .h2 = h2, .h2v2 = h2v2, .v2 = v2, .ycc_rgb = ycc_rgb, .plain_rgb = plain_rgb};
