/* l3_make.h - pictures of every kind for the tests of L3, u8 (H,W,3). */
#ifndef PST_TEST_L3_MAKE_H
#define PST_TEST_L3_MAKE_H

#include "base/test_input.h"

enum l3_kind { L3_NOISE, L3_SMOOTH, L3_GRAPHICS, L3_FLAT, L3_MIDDLE, L3_WIDTHS, L3_KINDS };

static const uint32_t l3_sizes[][2] = {
    {1, 1},   {1, 200}, {200, 1},  {2, 2},    {31, 33},
    {64, 64}, {65, 96}, {96, 127}, {131, 197}}; /* rows, columns */
#define L3_N_SIZES (sizeof l3_sizes / sizeof l3_sizes[0])

static inline uint8_t l3_sample(struct test_random *random, enum l3_kind kind, uint32_t y,
                                uint32_t x, uint32_t c)
{
    switch (kind) {
    case L3_NOISE:
        return (uint8_t)test_below(random, 256);
    case L3_SMOOTH: /* like photographs: slopes and a little noise */
        return (uint8_t)(y * (3 + c) / 2 + x + test_below(random, 6));
    case L3_GRAPHICS: /* black, white and flat colours with sharp edges */
        return (uint8_t)((x / 7 + y / 5) % 3 * (c == 1 ? 127 : 85));
    case L3_FLAT:
        return (uint8_t)(40 + c);
    case L3_MIDDLE: /* values around the border between positive and negative signed bytes */
        return (uint8_t)(126 + test_below(random, 4));
    default: /* a row for each width of deltas, from 0 to 8 bits */
        return (uint8_t)test_below(random, 1u << y % 9);
    }
}

static inline void l3_fill(struct test_random *random, enum l3_kind kind, uint32_t height,
                           uint32_t width, uint8_t *pixels)
{
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < 3; c++)
                *pixels++ = l3_sample(random, kind, y, x, c);
}

#endif
