/* pixels.h - describes pixels in memory, for tests. */
#ifndef PST_TESTS_PIXELS_H
#define PST_TESTS_PIXELS_H

#include <penstock/pli.h>

/* Describes pixels (H,W,C) at `data`: interleaved channels, no padding. */
static inline struct pst_pixels test_pixels(void *data, uint32_t height, uint32_t width,
                                            uint32_t channels, uint32_t bits)
{
    const int64_t sample = bits / 8;
    return (struct pst_pixels){.data = data,
                               .height = height,
                               .width = width,
                               .channels = (uint8_t)channels,
                               .bits = (uint8_t)bits,
                               .row_nbytes = sample * channels * width,
                               .pixel_nbytes = sample * channels,
                               .channel_nbytes = sample};
}
#endif
