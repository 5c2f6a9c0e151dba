/* decode_convert.c - converts pixels to another number of channels and of bits.
 *
 * The channels are converted first, at the bit depth of the input. The bits are converted after
 * that. Gray is the luma of ITU-R BT.601 in the fixed-point arithmetic of PIL, for 16 bits too. The
 * weights add up to 65536, so the sum fits 32 bits. Pure functions. Two separate passes are faster
 * than one combined pass: the compiler vectorises each of them, and a row is short enough to stay
 * in the cache. */
#include "decode/decode_int.h"

#include <string.h>

/* Pixels that are converted at a time if both channels and bits change. It bounds the size of the
 * buffer between the two conversions. */
#define STEP_PX 512

#define DEFINE_CHANNELS(name, sample, opaque)                                                      \
    static inline sample luma_##name(const sample *p)                                              \
    {                                                                                              \
        return (sample)((p[0] * UINT32_C(19595) + p[1] * UINT32_C(38470) + p[2] * UINT32_C(7471) + \
                         0x8000) >>                                                                \
                        16);                                                                       \
    }                                                                                              \
    static void to_gray_##name(const sample *from, uint8_t n_in, sample *to, size_t n)             \
    {                                                                                              \
        if (n_in == 2)                                                                             \
            for (size_t i = 0; i < n; i++)                                                         \
                to[i] = from[2 * i];                                                               \
        else if (n_in == 3)                                                                        \
            for (size_t i = 0; i < n; i++)                                                         \
                to[i] = luma_##name(from + 3 * i);                                                 \
        else                                                                                       \
            for (size_t i = 0; i < n; i++)                                                         \
                to[i] = luma_##name(from + 4 * i);                                                 \
    }                                                                                              \
    static void gray_to_colour_##name(const sample *from, uint8_t n_in, sample *to, uint8_t n_out, \
                                      size_t n)                                                    \
    {                                                                                              \
        for (size_t i = 0; i < n; i++, from += n_in, to += n_out) {                                \
            to[0] = to[1] = to[2] = from[0];                                                       \
            if (n_out == 4)                                                                        \
                to[3] = n_in == 2 ? from[1] : opaque;                                              \
        }                                                                                          \
    }                                                                                              \
    static void add_alpha_##name(const sample *from, sample *to, size_t n)                         \
    {                                                                                              \
        for (size_t i = 0; i < n; i++, from += 3, to += 4) {                                       \
            to[0] = from[0];                                                                       \
            to[1] = from[1];                                                                       \
            to[2] = from[2];                                                                       \
            to[3] = opaque;                                                                        \
        }                                                                                          \
    }                                                                                              \
    static void drop_alpha_##name(const sample *from, sample *to, size_t n)                        \
    {                                                                                              \
        for (size_t i = 0; i < n; i++, from += 4, to += 3) {                                       \
            to[0] = from[0];                                                                       \
            to[1] = from[1];                                                                       \
            to[2] = from[2];                                                                       \
        }                                                                                          \
    }                                                                                              \
    static void channels_##name(const sample *from, uint8_t n_in, sample *to, uint8_t n_out,       \
                                size_t n)                                                          \
    {                                                                                              \
        if (n_in == n_out)                                                                         \
            memcpy(to, from, n *n_in * sizeof *to);                                                \
        else if (n_out == 1)                                                                       \
            to_gray_##name(from, n_in, to, n);                                                     \
        else if (n_in <= 2)                                                                        \
            gray_to_colour_##name(from, n_in, to, n_out, n);                                       \
        else if (n_out == 4)                                                                       \
            add_alpha_##name(from, to, n);                                                         \
        else                                                                                       \
            drop_alpha_##name(from, to, n);                                                        \
    }

DEFINE_CHANNELS(u8, uint8_t, 255)
DEFINE_CHANNELS(u16, uint16_t, 65535)

static void widen(const uint8_t *from, uint16_t *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (uint16_t)(from[i] * 257);
}

static void narrow(const uint16_t *from, uint8_t *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)((from[i] * UINT32_C(255) + 32895) >> 16);
}

void psti_decode_convert(const void *from, uint8_t channels_in, uint8_t bits_in, void *to,
                         uint8_t channels, uint8_t bits, size_t n)
{
    if (bits_in == bits) {
        if (bits == 8)
            channels_u8(from, channels_in, to, channels, n);
        else
            channels_u16(from, channels_in, to, channels, n);
        return;
    }
    for (size_t i = 0; i < n; i += STEP_PX) {
        size_t step = n - i < STEP_PX ? n - i : STEP_PX;
        union {
            uint8_t u8[STEP_PX * 4];
            uint16_t u16[STEP_PX * 4];
        } between;
        if (bits_in == 8) {
            channels_u8((const uint8_t *)from + i * channels_in, channels_in, between.u8, channels,
                        step);
            widen(between.u8, (uint16_t *)to + i * channels, step * channels);
        } else {
            channels_u16((const uint16_t *)from + i * channels_in, channels_in, between.u16,
                         channels, step);
            narrow(between.u16, (uint8_t *)to + i * channels, step * channels);
        }
    }
}
