/* decode_turn.c - maps rectangles and moves pixels by EXIF orientations.
 *
 * An orientation may transpose the picture, and may mirror each axis of the stored picture:
 *
 *     1  nothing       2  mirror x                3  mirror x and y                4  mirror y
 *     5  transpose     6  transpose, mirror y     7  transpose, mirror x and y     8  transpose,
 *                                                                                     mirror x
 *
 * So the shown pixel (y, x) is stored at (row, column) = (y, x), or at (x, y) if transposed. On a
 * mirrored axis, positions count from the far end. Pure functions. */
#include "decode/decode_int.h"

#include <string.h>

static bool mirrors_x(uint8_t o) { return o == 2 || o == 3 || o == 7 || o == 8; }
static bool mirrors_y(uint8_t o) { return o == 3 || o == 4 || o == 6 || o == 7; }

struct psti_rect psti_decode_turn_to_stored(const struct psti_rect *shown, uint8_t orientation,
                                            uint32_t height, uint32_t width)
{
    struct psti_rect stored = *shown;
    if (psti_decode_turn_swaps(orientation)) {
        stored.y = shown->x;
        stored.x = shown->y;
        stored.height = shown->width;
        stored.width = shown->height;
    }
    if (mirrors_x(orientation))
        stored.x = width - stored.x - stored.width;
    if (mirrors_y(orientation))
        stored.y = height - stored.y - stored.height;
    return stored;
}

/* Copies one row of n pixels, which lie `step` bytes apart in `from`. The function is inlined once
 * for each constant `size`, the bytes of a pixel. */
static inline void gather(const uint8_t *from, ptrdiff_t step, uint8_t *to, uint32_t n, size_t size)
{
    for (uint32_t i = 0; i < n; i++, from += step, to += size)
        memcpy(to, from, size);
}

static void gather_row(const uint8_t *from, ptrdiff_t step, uint8_t *to, uint32_t n, size_t size)
{
    switch (size) {
    case 1:
        gather(from, step, to, n, 1);
        break;
    case 2:
        gather(from, step, to, n, 2);
        break;
    case 3:
        gather(from, step, to, n, 3);
        break;
    case 4:
        gather(from, step, to, n, 4);
        break;
    case 6:
        gather(from, step, to, n, 6);
        break;
    default:
        gather(from, step, to, n, 8);
        break;
    }
}

void psti_decode_turn_rows(const uint8_t *from, size_t from_nbytes, uint32_t height, uint32_t width,
                           uint8_t orientation, size_t pixel_nbytes, uint8_t *to, size_t to_nbytes,
                           uint32_t y, uint32_t n_rows)
{
    bool swaps = psti_decode_turn_swaps(orientation);
    ptrdiff_t along_x = (ptrdiff_t)pixel_nbytes, along_y = (ptrdiff_t)from_nbytes;
    const uint8_t *origin = from;
    if (mirrors_x(orientation)) {
        origin += (size_t)(width - 1) * pixel_nbytes;
        along_x = -along_x;
    }
    if (mirrors_y(orientation)) {
        origin += (size_t)(height - 1) * from_nbytes;
        along_y = -along_y;
    }
    for (uint32_t i = 0; i < n_rows; i++)
        gather_row(origin + (ptrdiff_t)(y + i) * (swaps ? along_x : along_y),
                   swaps ? along_y : along_x, to + i * to_nbytes, swaps ? height : width,
                   pixel_nbytes);
}
