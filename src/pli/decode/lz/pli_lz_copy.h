/* pli_lz_copy.h - declarations that both parts of the lz mode share: raw bits, and the function
 * that executes sequences. */
#ifndef PST_PLI_LZ_COPY_H
#define PST_PLI_LZ_COPY_H

#include "base/bits.h"

#include <stdbool.h>

enum { WIDE = 32 }; /* bytes that are copied at once */

/* A string of bits, LSB-first, of `size` bytes. Endless zeros follow it. psti_pli_lz_bits_used()
 * tells whether zeros were used. */
struct psti_lz_bits {
    const uint8_t *base;
    /* `next` is the number of the next byte to load. It exceeds `size` after zeros were loaded. */
    size_t size, next;
    /* Loaded bits that are not used yet, at least n. The bits above them are 0, or equal to those
     * that the next load brings. */
    uint64_t ahead;
    uint32_t n;
};

static inline void psti_pli_lz_bits_begin(struct psti_lz_bits *b, const uint8_t *base, size_t size)
{
    *b = (struct psti_lz_bits){.base = base, .size = size};
}
/* Loads bits until at least 56 may be taken. */
static inline void psti_pli_lz_bits_fill(struct psti_lz_bits *b)
{
    uint64_t more = 0;
    if (b->size >= 8 && b->next <= b->size - 8)
        more = psti_load_u64(b->base + b->next);
    else if (b->next < b->size)
        memcpy(&more, b->base + b->next, b->size - b->next);
    b->ahead |= more << b->n;
    b->next += (63 - b->n) >> 3;
    b->n |= 56;
}
/* Takes `count` bits, at most 32. */
static inline uint32_t psti_pli_lz_bits_take(struct psti_lz_bits *b, uint32_t count)
{
    uint32_t value = (uint32_t)(b->ahead & ((1ull << count) - 1));
    b->ahead >>= count;
    b->n -= count;
    return value;
}
/* Returns the number of bytes from which bits were used. */
static inline size_t psti_pli_lz_bits_used(const struct psti_lz_bits *b)
{
    return b->next - b->n / 8;
}

struct psti_lz_execution {
    const uint32_t *tokens; /* tokens in the order of psti_pli_lz_decode_sequences */
    uint32_t n_sequences, n_lanes, width;
    struct psti_lz_bits raw;
    uint8_t *samples;        /* the unit's pixels, and 64 bytes more */
    const uint8_t *literals; /* the last n_literals pixels of `samples` are literals */
    uint32_t n_literals, n_pixels;
    /* Called from time to time with the number of bytes of complete pixels, and once more at the
     * end. May be NULL. */
    void (*done)(void *ctx, size_t nbytes);
    void *done_ctx;
};

/* Writes all pixels. Returns NULL, or a text that says what is wrong with the sequences. */
typedef const char *psti_lz_execute(struct psti_lz_execution *run, uint32_t pixel_nbytes);
psti_lz_execute psti_pli_lz_execute_c, psti_pli_lz_execute_avx2, psti_pli_lz_execute_neon;

/* psti_lz_repeats[distance - 1] says for each of the next WIDE bytes which of the `distance` bytes
 * before it repeats. Levels that repeat a pattern from a register use it. */
extern const uint8_t psti_lz_repeats[16][WIDE];

/* Copies 1, 2, 3, 4, 6 or 8 bytes. Source and destination may overlap. */
static inline void psti_pli_lz_move_pixel(uint8_t *to, const uint8_t *from, uint32_t nbytes)
{
    uint8_t pixel[8];
    switch (nbytes) {
    case 1:
        *to = *from;
        break;
    case 2:
        memcpy(pixel, from, 2);
        memcpy(to, pixel, 2);
        break;
    case 3:
        memcpy(pixel, from, 3);
        memcpy(to, pixel, 3);
        break;
    case 4:
        memcpy(pixel, from, 4);
        memcpy(to, pixel, 4);
        break;
    case 6:
        memcpy(pixel, from, 6);
        memcpy(to, pixel, 6);
        break;
    default:
        memcpy(pixel, from, 8);
        memcpy(to, pixel, 8);
        break;
    }
}

#endif
