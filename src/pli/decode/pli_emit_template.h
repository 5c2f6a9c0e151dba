/* pli_emit_template.h - rows of planes -> rows of pixels, by vectors of any width.
 *
 * STEP pixels at a time; those of a last, shorter step go through a buffer. A level includes this
 * file once, behind definitions of these:
 *
 *     TARGET, INLINE        attributes of functions, and of those that are always inlined
 *     VECTOR, STEP          a vector of bytes, and their number
 *     load(from, n)         the bytes of `from`, of which the first n count
 *     store(to, v)          all bytes, at any address
 *     add(a, b)             byte by byte
 *     less_128(v)           each byte less 128
 *     store_rgb(out, r, g, b), store_rgba(out, r, g, b, a)   STEP pixels, interleaved
 *
 * It defines the functions of 8 bits in struct psti_pli_emit_kernels, but for green_rgb8_rows. */
#include <string.h>

/* Pixels x .. x + STEP - 1 of a row of `n_channels`, of which 3 may be colours after green; the
 * first n count. */
INLINE void step(const uint8_t *const planes[4], uint32_t x, uint32_t n, uint32_t n_channels,
                 bool green, uint8_t *out)
{
    VECTOR v0 = load(planes[0] + x, n), v1 = load(planes[1] + x, n), v2 = load(planes[2] + x, n);
    if (green) {
        VECTOR g = v0, offset = less_128(g);
        v0 = add(v1, offset);
        v1 = g;
        v2 = add(v2, offset);
    }
    if (n_channels == 3)
        store_rgb(out, v0, v1, v2);
    else
        store_rgba(out, v0, v1, v2, load(planes[3] + x, n));
}

INLINE void row(const uint8_t *const planes[4], uint32_t n, uint32_t n_channels, bool green,
                uint8_t *out)
{
    uint32_t x = 0;
    for (; x + STEP <= n; x += STEP)
        step(planes, x, STEP, n_channels, green, out + (size_t)x * n_channels);
    if (x < n) {
        uint8_t last[STEP * 4];
        step(planes, x, n - x, n_channels, green, last);
        memcpy(out + (size_t)x * n_channels, last, (size_t)(n - x) * n_channels);
    }
}

TARGET static void green_rgb8(const uint8_t *g, const uint8_t *r, const uint8_t *b, uint8_t *out,
                              uint32_t n)
{
    row((const uint8_t *const[4]){g, r, b, NULL}, n, 3, true, out);
}

TARGET static void green_rgba8(const uint8_t *g, const uint8_t *r, const uint8_t *b,
                               const uint8_t *a, uint8_t *out, uint32_t n)
{
    row((const uint8_t *const[4]){g, r, b, a}, n, 4, true, out);
}

TARGET static void plain_rgb8(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2, uint8_t *out,
                              uint32_t n)
{
    row((const uint8_t *const[4]){c0, c1, c2, NULL}, n, 3, false, out);
}

TARGET static void green_one8(const uint8_t *g, const uint8_t *p, uint8_t *out, uint32_t n)
{
    uint32_t x = 0;
    for (; x + STEP <= n; x += STEP)
        store(out + x, add(load(p + x, STEP), less_128(load(g + x, STEP))));
    if (x < n) {
        uint8_t last[STEP];
        store(last, add(load(p + x, n - x), less_128(load(g + x, n - x))));
        memcpy(out + x, last, n - x);
    }
}
