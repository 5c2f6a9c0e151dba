/* decode_png_unfilter_template.h - undoes the filters of PNG rows with vectors of 16 bytes.
 *
 * In and out: see decode_png_unfilter.h; plain C gives the same bytes. Pure functions, any thread.
 * For all filters but Up, a pixel depends on the pixel to its left. So the speed is set by the
 * number of dependent operations per pixel: one for Sub (a running sum within a vector), two for
 * Average, four for Paeth. Two Paeth rows are undone at once. Storing a pixel of 3 or 6 bytes also
 * overwrites bytes of the next pixel, until that one is stored. So the next pixel is always loaded
 * before this one is stored. The file of a CPU level includes this file once, after it has defined
 * these names:
 *
 *     NAME, OPS                the level's name and its table
 *     TARGET, INLINE           attributes of functions, and of those that are always inlined
 *
 *     BYTES                    16 bytes
 *     load_16(from), store_16(to, v), add_16(a, b)
 *     ADD_BEFORE(v, n)         v + v moved up by n bytes, a constant; v where n is 16 or more
 *     shuffled(v, order)       bytes of v by their numbers
 *     choose(mask, yes, no)    byte by byte
 *
 *     PIXEL                    8 bytes, of which the first pixel counts
 *     load_pixel(from), bits_of(v)
 *     upper_half(v)            bytes 4..7 in the place of 0..3
 *     AVERAGE_LEFT             what average_pixel() takes as the left neighbour of the first pixel
 *     average_pixel(raw, left, above)    a pixel undone, in the form in which it takes `left`
 *     average_bytes(v)         the pixel itself
 *
 *     WIDE                     8 samples of 16 bits
 *     widened(v), narrowed(v)  a PIXEL as a WIDE, and back
 *     load_four(from)          4 bytes, and zeros in the upper half
 *     load_two(low, high)      4 bytes each
 *     low_halves(a, b)         the lower half of a, and that of b above it
 *     add_low_bytes(a, b)      sums of samples, modulo 256
 *     paeth_pixel(raw, late, early, c)   a pixel undone, of the filter Paeth; `late` and `early`
 *                              are the left pixel and the one above; `late` is known last */

/* Stores the first n bytes of v, where n is 1, 2, 3, 4, 6 or 8. */
INLINE void store(uint8_t *p, PIXEL v, size_t n)
{
    uint64_t bits = bits_of(v);
    memcpy(p, &bits, n);
}

/* Stores a pixel that another pixel follows in the row. For a pixel of 3 or 6 bytes it writes 4 or
 * 8, because a single store is faster; the next pixel overwrites the surplus. */
INLINE void store_inner(uint8_t *p, PIXEL v, size_t pixel)
{
    store(p, v, pixel == 3 ? 4 : pixel == 6 ? 8 : pixel);
}

/* Undoes the filter Up. Compilers vectorise this loop. */
TARGET static void undo_up(uint8_t *restrict row, const uint8_t *restrict above, size_t n)
{
    for (size_t i = 0; i < n; i++)
        row[i] = (uint8_t)(row[i] + above[i]);
}

static const uint8_t ones_and_zeros[32] = {255, 255, 255, 255, 255, 255, 255, 255,
                                           255, 255, 255, 255, 255, 255, 255, 255};

/* Undoes the filter Sub: adds up 1, 2, 4 and more pixels within a vector, then adds the last sum of
 * one vector to the next. `used` bytes of a vector are whole pixels. The bytes after them are
 * stored back unchanged. */
#define DEFINE_SUB(pixel)                                                                          \
    TARGET static void undo_sub_##pixel(uint8_t *row, const uint8_t *above, size_t n)              \
    {                                                                                              \
        enum { used = 16 / pixel * pixel, last = used - pixel };                                   \
        static const uint8_t places[16] = {last,                                                   \
                                           last + 1 % pixel,                                       \
                                           last + 2 % pixel,                                       \
                                           last + 3 % pixel,                                       \
                                           last + 4 % pixel,                                       \
                                           last + 5 % pixel,                                       \
                                           last + 6 % pixel,                                       \
                                           last + 7 % pixel,                                       \
                                           last + 8 % pixel,                                       \
                                           last + 9 % pixel,                                       \
                                           last + 10 % pixel,                                      \
                                           last + 11 % pixel,                                      \
                                           last + 12 % pixel,                                      \
                                           last + 13 % pixel,                                      \
                                           last + 14 % pixel,                                      \
                                           last + 15 % pixel};                                     \
        const BYTES repeat = load_16(places), whole = load_16(ones_and_zeros + 16 - used);         \
        BYTES next = load_16(row), left = load_16(ones_and_zeros + 16);                            \
        size_t i = 0;                                                                              \
        (void)above;                                                                               \
        for (; i + 16 <= n; i += used) {                                                           \
            BYTES stored = next, v = next;                                                         \
            next = load_16(row + i + used);                                                        \
            v = ADD_BEFORE(v, pixel);                                                              \
            v = ADD_BEFORE(v, 2 * pixel);                                                          \
            v = ADD_BEFORE(v, 4 * pixel);                                                          \
            v = ADD_BEFORE(v, 8 * pixel);                                                          \
            v = add_16(v, left);                                                                   \
            left = shuffled(v, repeat);                                                            \
            store_16(row + i, used < 16 ? choose(whole, v, stored) : v);                           \
        }                                                                                          \
        for (i = i ? i : pixel; i < n; i++)                                                        \
            row[i] = (uint8_t)(row[i] + row[i - pixel]);                                           \
    }

INLINE void undo_average(uint8_t *row, const uint8_t *above, size_t n, size_t pixel)
{
    PIXEL left = AVERAGE_LEFT, raw = load_pixel(row);
    size_t i = 0;
    for (; i + pixel < n; i += pixel) {
        PIXEL next = load_pixel(row + i + pixel);
        left = average_pixel(raw, left, load_pixel(above + i));
        store_inner(row + i, average_bytes(left), pixel);
        raw = next;
    }
    left = average_pixel(raw, left, load_pixel(above + i));
    store(row + i, average_bytes(left), pixel);
}

INLINE void undo_paeth(uint8_t *row, const uint8_t *above, size_t n, size_t pixel)
{
    WIDE a = load_four(ones_and_zeros + 16), c = a, raw = widened(load_pixel(row));
    size_t i = 0;
    for (; i + pixel < n; i += pixel) {
        WIDE next = widened(load_pixel(row + i + pixel)), b = widened(load_pixel(above + i));
        a = paeth_pixel(raw, a, b, c);
        store_inner(row + i, narrowed(a), pixel);
        c = b;
        raw = next;
    }
    a = paeth_pixel(raw, a, widened(load_pixel(above + i)), c);
    store(row + i, narrowed(a), pixel);
}

/* Undoes two Paeth rows at once, for pixels of up to 4 bytes. The lower half of a vector holds a
 * pixel of the first row. The upper half holds the pixel of the second row that lies one pixel
 * further left. So the pixel above it was computed in the previous pass of the loop. */
INLINE void undo_two_paeth(uint8_t *row, const uint8_t *above, size_t n, size_t step, size_t pixel)
{
    uint8_t *second = row + step;
    WIDE c = load_four(above), a = load_four(row), raw = load_two(row + pixel, second);
    size_t i = pixel;
    /* The first pixel has no left neighbour, so its predictor is the pixel above. */
    a = add_low_bytes(a, c);
    if (n == pixel)
        store(row, narrowed(a), pixel);
    else
        store_inner(row, narrowed(a), pixel);
    for (; i < n; i += pixel) {
        WIDE next = load_two(row + i + pixel, second + i);
        WIDE b = low_halves(widened(load_pixel(above + i)), a);
        a = paeth_pixel(raw, b, a, c);
        PIXEL packed = narrowed(a);
        if (i + pixel < n)
            store_inner(row + i, packed, pixel);
        else
            store(row + i, packed, pixel);
        store_inner(second + i - pixel, upper_half(packed), pixel);
        c = b;
        raw = next;
    }
    a = paeth_pixel(raw, low_halves(a, a), a, c);
    store(second + i - pixel, upper_half(narrowed(a)), pixel);
}

#define DEFINE(pixel)                                                                              \
    DEFINE_SUB(pixel)                                                                              \
    TARGET static void undo_average_##pixel(uint8_t *row, const uint8_t *above, size_t n)          \
    {                                                                                              \
        undo_average(row, above, n, pixel);                                                        \
    }                                                                                              \
    TARGET static void undo_paeth_##pixel(uint8_t *row, const uint8_t *above, size_t n)            \
    {                                                                                              \
        undo_paeth(row, above, n, pixel);                                                          \
    }

#define DEFINE_TWO(pixel)                                                                          \
    DEFINE(pixel)                                                                                  \
    TARGET static void undo_two_paeth_##pixel(uint8_t *row, const uint8_t *above, size_t n,        \
                                              size_t step)                                         \
    {                                                                                              \
        undo_two_paeth(row, above, n, step, pixel);                                                \
    }

DEFINE_TWO(1)
DEFINE_TWO(2)
DEFINE_TWO(3)
DEFINE_TWO(4)
DEFINE(6)
DEFINE(8)

#define ENTRY(pixel)                                                                               \
    [pixel] = {NULL, undo_sub_##pixel, undo_up, undo_average_##pixel, undo_paeth_##pixel}

const struct psti_unfilter_ops OPS = {
    .name = NAME,
    .row = {ENTRY(1), ENTRY(2), ENTRY(3), ENTRY(4), ENTRY(6), ENTRY(8)},
    .two_paeth = {NULL, undo_two_paeth_1, undo_two_paeth_2, undo_two_paeth_3, undo_two_paeth_4}};
