/* decode_mp3_walk.c - MPEG audio: parses frame headers, and goes through all frames of a file.
 *
 * In: untrusted bytes, without the tags at the start and end of the file. Out: the number of frames
 * and samples, and an index of offsets. Pure functions, any thread. Frames must follow each other
 * without gaps. ID3v2 tags between frames and zeros after the last frame hold no sound, so they are
 * skipped. Anything else, such as a cut frame or a frame of another kind, is an error, because part
 * of the sound would be missing. Each byte is read at most once. */
#include "decode/audio/decode_mp3.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "decode/audio/decode_audio_tags.h"

#include <stdio.h>
#include <string.h>

#define ROOM "decode"

/* Samples by which a decoder's output is late. By default mpg123 removes them together with the
 * encoder's delay. */
enum { DECODER_DELAY = 529 };

enum psti_mp3_kind psti_decode_mp3_header_read(const uint8_t *bytes, struct psti_mp3_header *header)
{
    static const uint16_t kbits[2][15] = {
        {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},
        {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160}};
    static const uint16_t rates[3] = {44100, 48000, 32000};
    uint32_t version = bytes[1] >> 3 & 3, layer = bytes[1] >> 1 & 3, i_kbits = bytes[2] >> 4;
    uint32_t i_rate = bytes[2] >> 2 & 3, padding = bytes[2] >> 1 & 1, mode = bytes[3] >> 6;
    if (bytes[0] != 0xFF || bytes[1] < 0xE0 || version == 1 || layer == 0 || i_kbits == 15 ||
        i_rate == 3)
        return PSTI_MP3_NONE;
    if (layer != 1)
        return PSTI_MP3_LAYER;
    if (i_kbits == 0)
        return PSTI_MP3_FREE;
    uint32_t halved = version == 3 ? 0 : version == 2 ? 1 : 2;
    bool lsf = halved > 0, is_protected = !(bytes[1] & 1);
    *header = (struct psti_mp3_header){.rate = (uint32_t)rates[i_rate] >> halved,
                                       .channels = mode == 3 ? 1 : 2,
                                       .n_granules = lsf ? 1 : 2,
                                       .i_rate = (uint8_t)(3 * halved + i_rate),
                                       .lsf = lsf,
                                       .mpeg25 = halved == 2,
                                       .ms = mode == 1 && bytes[3] & 0x20,
                                       .intensity = mode == 1 && bytes[3] & 0x10};
    header->nbytes = (lsf ? 72000u : 144000u) * kbits[lsf][i_kbits] / header->rate + padding;
    header->side = is_protected ? 6 : 4;
    header->main = header->side + (header->channels == 1 ? (lsf ? 9 : 17) : (lsf ? 17 : 32));
    return header->nbytes < header->main ? PSTI_MP3_NONE : PSTI_MP3_FRAME;
}

static bool same_kind(const struct psti_mp3_header *a, const struct psti_mp3_header *b)
{
    return a->i_rate == b->i_rate && a->channels == b->channels;
}

static bool all_zero(const uint8_t *bytes, uint64_t n)
{
    return n == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, (size_t)n - 1) == 0);
}

/* What the Xing or LAME header in the first frame states. A member that is not stated is 0. */
struct stated {
    uint32_t n_frames, delay, padding;
    bool is_info;
};

/* Reads the Xing or LAME header, if the frame holds one. */
static struct stated read_info(const uint8_t *frame, const struct psti_mp3_header *header)
{
    struct stated stated = {0};
    uint32_t at = 4 + (header->channels == 1 ? (header->lsf ? 9 : 17) : (header->lsf ? 17 : 32));
    const uint8_t *tag = frame + at;
    if (header->nbytes < at + 8 || !all_zero(frame + 6, at - 6) ||
        (memcmp(tag, "Xing", 4) != 0 && memcmp(tag, "Info", 4) != 0))
        return stated;
    uint32_t flags = psti_load_u32_big(tag + 4);
    stated.is_info = true;
    at += 8;
    if (flags & 1 && header->nbytes >= at + 4)
        stated.n_frames = psti_load_u32_big(frame + at);
    at += (flags & 1 ? 4 : 0) + (flags & 2 ? 4 : 0) + (flags & 4 ? 100 : 0) + (flags & 8 ? 4 : 0);
    if (header->nbytes < at + 24 || frame[at] == 0)
        return stated;
    const uint8_t *gaps = frame + at + 21; /* encoder delay and padding, two numbers of 12 bits */
    stated.delay = (uint32_t)gaps[0] << 4 | gaps[1] >> 4;
    stated.padding = (uint32_t)(gaps[1] & 15) << 8 | gaps[2];
    return stated;
}

/* Sets which samples are sound, by the rule that mpg123 uses by default. */
static void set_samples(struct psti_mp3_walk *walk, const struct stated *stated)
{
    uint64_t total = walk->n_frames * walk->first.n_granules * PSTI_MP3_LINES, end = total;
    if (stated->n_frames > 0) {
        walk->skip = (uint64_t)stated->delay + DECODER_DELAY;
        end = total + DECODER_DELAY > stated->padding ? total + DECODER_DELAY - stated->padding : 0;
        end = end < total ? end : total;
    }
    walk->n_samples = end > walk->skip ? end - walk->skip : 0;
}

static enum pst_status note(struct psti_mp3_walk *walk, uint64_t at, struct pst_error *err)
{
    if (walk->n_frames++ % PSTI_MP3_INDEX_EVERY)
        return PST_OK;
    if (walk->n_index == walk->index_capacity) {
        size_t capacity = walk->index_capacity ? 2 * walk->index_capacity : 64;
        uint64_t *grown = psti_realloc(walk->index, capacity * sizeof *grown);
        if (!grown)
            return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for places of frames");
        walk->index = grown;
        walk->index_capacity = capacity;
    }
    walk->index[walk->n_index++] = at;
    return PST_OK;
}

static enum pst_status no_frame(enum psti_mp3_kind kind, uint64_t at, uint64_t n_frames,
                                struct pst_error *err)
{
    const char *text = kind == PSTI_MP3_LAYER  ? "MPEG audio of layer I or II, not III"
                       : kind == PSTI_MP3_FREE ? "MPEG audio of free format, which is not supported"
                                               : "no MPEG audio frame";
    return psti_fail_at(err, kind == PSTI_MP3_NONE ? PST_ERROR_CORRUPT : PST_ERROR_UNSUPPORTED,
                        ROOM, NULL, (int64_t)at, "%s behind %llu frames", text,
                        (unsigned long long)n_frames);
}

/* Records the frame at offset `at`, whose header has been parsed. */
static enum pst_status take_frame(const uint8_t *bytes, uint64_t at,
                                  const struct psti_mp3_header *header, struct psti_mp3_walk *walk,
                                  struct stated *stated, struct pst_error *err)
{
    bool first = walk->first.nbytes == 0;
    if (!first && !same_kind(header, &walk->first))
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, NULL, (int64_t)at,
                            "frame %llu has %u samples per second and %u channels, the first %u "
                            "and %u",
                            (unsigned long long)walk->n_frames, header->rate, header->channels,
                            walk->first.rate, walk->first.channels);
    if (first) {
        walk->first = *header;
        *stated = read_info(bytes + at, header);
        if (stated->is_info)
            return PST_OK;
    }
    return note(walk, at, err);
}

static enum pst_status check_count(const struct psti_mp3_walk *walk, const struct stated *stated,
                                   struct pst_error *err)
{
    if (walk->first.nbytes == 0)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "no MPEG audio frame");
    if (stated->n_frames == 0 || stated->n_frames == walk->n_frames)
        return PST_OK;
    return psti_fail(err,
                     stated->n_frames > walk->n_frames ? PST_ERROR_TRUNCATED : PST_ERROR_CORRUPT,
                     ROOM, "it has %llu frames, and its header states %u",
                     (unsigned long long)walk->n_frames, stated->n_frames);
}

enum pst_status psti_decode_mp3_walk(const uint8_t *bytes, uint64_t nbytes,
                                     struct psti_mp3_walk *walk, struct pst_error *err)
{
    struct psti_mp3_header header;
    struct stated stated = {0};
    enum pst_status status = PST_OK;
    uint64_t at = 0;
    memset(walk, 0, sizeof *walk);
    while (at < nbytes && bytes[at] == 0) /* zeros that pad a tag at the start of the file */
        at++;
    while (status == PST_OK && at < nbytes) {
        uint64_t left = nbytes - at;
        enum psti_mp3_kind kind =
            left >= 4 ? psti_decode_mp3_header_read(bytes + at, &header) : PSTI_MP3_NONE;
        uint64_t step =
            kind == PSTI_MP3_FRAME ? header.nbytes : psti_decode_audio_tag_nbytes(bytes + at, left);
        if (step == 0 && all_zero(bytes + at, left))
            break;
        if (step == 0)
            status = no_frame(kind, at, walk->n_frames, err);
        else if (step > left)
            status =
                psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, NULL, (int64_t)nbytes,
                             "the file ends within frame %llu", (unsigned long long)walk->n_frames);
        else if (kind == PSTI_MP3_FRAME)
            status = take_frame(bytes, at, &header, walk, &stated, err);
        at += step;
    }
    if (status == PST_OK)
        status = check_count(walk, &stated, err);
    if (status == PST_OK)
        set_samples(walk, &stated);
    else
        psti_decode_mp3_walk_free(walk);
    return status;
}

void psti_decode_mp3_walk_free(struct psti_mp3_walk *walk)
{
    psti_free(walk->index);
    memset(walk, 0, sizeof *walk);
}

uint64_t psti_decode_mp3_walk_next(const uint8_t *bytes, uint64_t nbytes, uint64_t at)
{
    struct psti_mp3_header header;
    while (nbytes - at >= 4 && psti_decode_mp3_header_read(bytes + at, &header) != PSTI_MP3_FRAME) {
        uint64_t step = psti_decode_audio_tag_nbytes(bytes + at, nbytes - at);
        if (step == 0 || step > nbytes - at)
            return nbytes;
        at += step;
    }
    return at;
}
