/* lz4_frames.c - reads LZ4 frames (lz4_Frame_format.md, version 1.6.2) and calls a function to
 * decode their blocks.
 *
 * liblz4's own frame functions allocate buffers of the size of a block. This code needs no memory,
 * because all of the input and output is in memory already. In: frames, some of which may be
 * skippable. Out: exactly the bytes that the caller expects. Any thread. */
#include "base/codings/codings.h"

#include "base/bits.h"
#include "base/hash.h"

#include <stdbool.h>
#include <string.h>

#define FRAME UINT32_C(0x184D2204)
/* the first of the 16 magic numbers of skippable frames */
#define SKIPPED UINT32_C(0x184D2A50)
#define IS_STORED (UINT32_C(1) << 31)
enum { HISTORY_NBYTES = 1 << 16 };

static const char cut_short[] = "the LZ4 frames end early";
static const char damaged[] = "the LZ4 frames are damaged, or hold more than is stated";

struct frames {
    psti_lz4_block *decode_block;
    const uint8_t *in, *in_end;
    uint8_t *out, *end;
    uint8_t *begin; /* start of this frame's output */
    /* The next three members come from the frame's header. */
    bool is_linked, has_block_sums, has_sum;
    size_t block_max;
};

static size_t left(const struct frames *frames) { return (size_t)(frames->in_end - frames->in); }

static const char *read_header(struct frames *frames)
{
    enum { LINKED_NOT = 1 << 5, BLOCK_SUMS = 1 << 4, SIZE = 1 << 3, SUM = 1 << 2, DICTIONARY = 1 };
    const uint8_t *in = frames->in;
    if (left(frames) < 3)
        return cut_short;
    uint8_t flags = in[0], block = in[1];
    size_t nbytes = 2 + (flags & SIZE ? 8 : 0);
    if (flags >> 6 != 1 || (flags & 2) != 0 || (block & 0x8f) != 0 || block >> 4 < 4)
        return "the LZ4 frame has a header of no known version";
    if (flags & DICTIONARY)
        return "the LZ4 frame needs a dictionary";
    if (left(frames) < nbytes + 1)
        return cut_short;
    if (in[nbytes] != (uint8_t)(psti_hash32(in, nbytes) >> 8))
        return "the header of the LZ4 frame was altered";
    frames->is_linked = (flags & LINKED_NOT) == 0;
    frames->has_block_sums = (flags & BLOCK_SUMS) != 0;
    frames->has_sum = (flags & SUM) != 0;
    frames->block_max = (size_t)1 << (8 + 2 * (block >> 4));
    frames->begin = frames->out;
    frames->in += nbytes + 1;
    return NULL;
}

static const char *put_block(struct frames *frames, uint32_t word)
{
    size_t n = word & ~IS_STORED, room = (size_t)(frames->end - frames->out);
    size_t n_before = frames->is_linked ? (size_t)(frames->out - frames->begin) : 0;
    const uint8_t *in = frames->in;
    if (n > frames->block_max)
        return damaged;
    if (left(frames) < n + (frames->has_block_sums ? 4 : 0))
        return cut_short;
    frames->in += n;
    if (frames->has_block_sums) {
        if (psti_load_u32(frames->in) != psti_hash32(in, n))
            return "a block of the LZ4 frame was altered";
        frames->in += 4;
    }
    room = room < frames->block_max ? room : frames->block_max;
    if (word & IS_STORED) {
        if (n > room)
            return damaged;
        memcpy(frames->out, in, n);
        frames->out += n;
        return NULL;
    }
    n_before = n_before < HISTORY_NBYTES ? n_before : HISTORY_NBYTES;
    int got = frames->decode_block((const char *)in, (char *)frames->out, (int)n, (int)room,
                                   (const char *)(frames->out - n_before), (int)n_before);
    if (got < 0 || (size_t)got > room)
        return damaged;
    frames->out += got;
    return NULL;
}

static const char *read_frame(struct frames *frames)
{
    const char *problem = read_header(frames);
    while (problem == NULL) {
        if (left(frames) < 4)
            return cut_short;
        uint32_t word = psti_load_u32(frames->in);
        frames->in += 4;
        if (word == 0)
            break;
        problem = put_block(frames, word);
    }
    if (problem != NULL || !frames->has_sum)
        return problem;
    if (left(frames) < 4)
        return cut_short;
    uint32_t sum = psti_load_u32(frames->in);
    frames->in += 4;
    return sum == psti_hash32(frames->begin, (size_t)(frames->out - frames->begin))
               ? NULL
               : "the LZ4 frame was altered";
}

const char *psti_lz4_decode(psti_lz4_block *decode_block, const uint8_t *in, size_t n_in,
                            uint8_t *out, size_t n_out)
{
    struct frames frames = {.decode_block = decode_block,
                            .in = in,
                            .in_end = in + n_in,
                            .out = out,
                            .end = out + n_out};
    const char *problem = NULL;
    while (problem == NULL && frames.in < frames.in_end) {
        if (left(&frames) < 8)
            return cut_short;
        uint32_t magic = psti_load_u32(frames.in), n = psti_load_u32(frames.in + 4);
        frames.in += 4;
        if (magic == FRAME) {
            problem = read_frame(&frames);
        } else if ((magic & ~UINT32_C(15)) != SKIPPED) {
            problem = "the LZ4 bytes begin with no frame";
        } else if (left(&frames) - 4 < n) {
            problem = cut_short;
        } else {
            frames.in += 4 + (size_t)n;
        }
    }
    if (problem == NULL && frames.out < frames.end)
        problem = "the LZ4 frames hold less than is stated";
    return problem;
}
