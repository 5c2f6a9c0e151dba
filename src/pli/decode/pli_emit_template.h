/* pli_emit_template.h - turns rows of planes into rows of pixels, with vectors of any width.
 *
 * The functions make STEP pixels at a time. The pixels of a last, shorter step go through a buffer.
 * A level includes this file once, after it has defined these names:
 *
 *     TARGET, INLINE        attributes of functions, and of functions that are always inlined
 *     VECTOR, STEP          a vector of bytes, and the number of its bytes
 *     load(from, n)         loads bytes at `from`; only the first n have to be right
 *     store(to, v)          stores all bytes, at any address
 *     add(a, b)             adds byte by byte
 *     less_128(v)           subtracts 128 from each byte
 *     store_rgb(out, r, g, b), store_rgba(out, r, g, b, a)   store STEP interleaved pixels
 *
 * The file defines the functions of 8 bits in struct psti_pli_emit_kernels, except
 * green_rgb_u8_rows.
 */
#include <string.h>

/* Stores pixels x .. x + STEP - 1 of a row of `n_channels` channels. Only the first n pixels are
 * correct. `green`: planes 1 and 2 are differences to green, which is plane 0. */
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

TARGET static void green_rgb_u8(const uint8_t *g, const uint8_t *r, const uint8_t *b, uint8_t *out,
                                uint32_t n)
{
    row((const uint8_t *const[4]){g, r, b, NULL}, n, 3, true, out);
}

TARGET static void green_rgba_u8(const uint8_t *g, const uint8_t *r, const uint8_t *b,
                                 const uint8_t *a, uint8_t *out, uint32_t n)
{
    row((const uint8_t *const[4]){g, r, b, a}, n, 4, true, out);
}

TARGET static void plain_rgb_u8(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2,
                                uint8_t *out, uint32_t n)
{
    row((const uint8_t *const[4]){c0, c1, c2, NULL}, n, 3, false, out);
}

TARGET static void green_one_u8(const uint8_t *g, const uint8_t *p, uint8_t *out, uint32_t n)
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
