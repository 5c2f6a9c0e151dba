/* decode_audio_flac.c - finds the number of samples of a FLAC file by its last frame.
 *
 * In: untrusted bytes: the metadata blocks and the end of the file. Out: the number of samples. If
 * the file states a number, both must agree. libsndfile decodes FLAC; it is given a header with the
 * number that was found. Only the last frame is read. Each frame holds its own number or that of
 * its first sample, so the last frame tells the length. Its checksum shows that the file is
 * complete up to its end. */
#include "decode/audio/decode_audio_kinds.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "decode/audio/decode_audio_bytes.h"
#include "decode/audio/decode_audio_tags.h"

#include <string.h>

#define ROOM "decode"

enum {
    MARK = 4,
    BLOCK_HEAD = 4,
    INFO_NBYTES = 34,
    INFO_END = MARK + BLOCK_HEAD + INFO_NBYTES,
    TOTAL_AT = MARK + BLOCK_HEAD + 13, /* the upper four bits of the total; four bytes follow */
    FRAME_HEAD_MAX = 16,
    FRAME_MIN = 9,
    TRIES_MAX = 100,       /* far fewer places look like a frame header by chance */
    TAGS_NBYTES = 64 << 10 /* bytes at the end that are first searched for tags */
};

struct frame {
    uint64_t first; /* number of the frame's first sample in the file */
    uint32_t n;     /* number of samples in the frame */
};

static uint8_t crc8(const uint8_t *bytes, size_t n)
{
    uint32_t v = 0;
    for (; n; n--, bytes++) {
        v ^= *bytes;
        for (int bit = 0; bit < 8; bit++)
            v = v << 1 ^ (v & 0x80 ? 0x107 : 0);
    }
    return (uint8_t)v;
}

static void crc16_fill(uint16_t table[256])
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t v = i << 8;
        for (int bit = 0; bit < 8; bit++)
            v = v << 1 ^ (v & 0x8000 ? 0x18005 : 0);
        table[i] = (uint16_t)v;
    }
}

static uint16_t crc16(const uint16_t table[256], const uint8_t *bytes, uint64_t n)
{
    uint32_t v = 0;
    for (; n; n--, bytes++)
        v = (v << 8 ^ table[(v >> 8 ^ *bytes) & 255]) & 0xFFFF;
    return (uint16_t)v;
}

/* Reads a number that is coded in one to seven bytes, like UTF-8. Returns how many bytes it takes,
 * or 0 if the bytes are invalid. */
static size_t take_number(const uint8_t *bytes, uint64_t *number)
{
    size_t n = 1;
    if (bytes[0] < 0x80) {
        *number = bytes[0];
        return 1;
    }
    while (n < 7 && bytes[0] & 0x80 >> n)
        n++;
    if (n < 2 || bytes[0] == 0xFF)
        return 0;
    *number = bytes[0] & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((bytes[i] & 0xC0) != 0x80)
            return 0;
        *number = *number << 6 | (bytes[i] & 0x3F);
    }
    return n;
}

/* Reads the header of a frame. May read FRAME_HEAD_MAX bytes. `block` is the number of samples in
 * every frame but the last, for files that number their frames. Returns false if the bytes are no
 * header. */
static bool read_frame(const uint8_t *bytes, uint32_t block, struct frame *frame)
{
    uint32_t i_block = bytes[2] >> 4, i_rate = bytes[2] & 15, n = 0;
    uint64_t number = 0;
    if (bytes[0] != 0xFF || (bytes[1] & 0xFE) != 0xF8 || i_block == 0 || i_rate == 15 ||
        bytes[3] >> 4 > 10 || (bytes[3] >> 1 & 7) == 3 || bytes[3] & 1)
        return false;
    size_t at = 4 + take_number(bytes + 4, &number);
    if (at == 4)
        return false;
    if (i_block == 1)
        n = 192;
    else if (i_block < 6)
        n = 576u << (i_block - 2);
    else if (i_block == 6)
        n = bytes[at++] + 1u;
    else if (i_block == 7) {
        n = ((uint32_t)bytes[at] << 8 | bytes[at + 1]) + 1;
        at += 2;
    } else
        n = 256u << (i_block - 8);
    at += i_rate == 12 ? 1 : i_rate > 12 ? 2 : 0;
    if (crc8(bytes, at) != bytes[at])
        return false;
    frame->first = bytes[1] & 1 ? number : number * block;
    frame->n = n;
    return true;
}

enum pst_status psti_decode_flac_last_frame(const uint8_t *info, const uint8_t *bytes,
                                            uint64_t nbytes, uint64_t *n_samples,
                                            struct pst_error *err)
{
    uint16_t table[256];
    struct frame frame;
    /* The largest block size of the file. Only the last frame may be smaller. */
    uint32_t block = (uint32_t)info[2] << 8 | info[3];
    crc16_fill(table);
    int tries = 0; /* places that looked like a header; each one costs a checksum */
    for (uint64_t n = FRAME_MIN; n <= nbytes && tries < TRIES_MAX; n++) {
        const uint8_t *at = bytes + nbytes - n;
        uint8_t head[FRAME_HEAD_MAX] = {0};
        if (at[0] != 0xFF || (at[1] & 0xFE) != 0xF8)
            continue;
        memcpy(head, at, n < sizeof head ? (size_t)n : sizeof head);
        if (!read_frame(head, block, &frame))
            continue;
        tries++;
        if (crc16(table, at, n) != 0)
            continue;
        *n_samples = frame.first + frame.n;
        return PST_OK;
    }
    return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "its last frame is damaged or cut");
}

/* Skips all metadata blocks and finds where the frames begin. */
static enum pst_status skip_blocks(const struct psti_audio *audio, uint64_t *frames,
                                   struct pst_error *err)
{
    uint64_t at = MARK;
    for (bool last = false; !last;) {
        if (at + BLOCK_HEAD > audio->nbytes)
            break;
        enum pst_status status = psti_decode_audio_need(audio, at, BLOCK_HEAD, err);
        if (status != PST_OK)
            return status;
        const uint8_t *head = audio->bytes + at;
        last = head[0] & 0x80;
        at += BLOCK_HEAD + ((uint64_t)head[1] << 16 | (uint64_t)head[2] << 8 | head[3]);
    }
    *frames = at;
    if (at <= audio->nbytes)
        return PST_OK;
    return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, NULL, (int64_t)audio->nbytes,
                        "the file ends within its metadata");
}

static uint64_t stated_total(const uint8_t *bytes)
{
    const uint8_t *at = bytes + TOTAL_AT;
    return (uint64_t)(at[0] & 15) << 32 | (uint64_t)at[1] << 24 | (uint64_t)at[2] << 16 |
           (uint64_t)at[3] << 8 | at[4];
}

/* Finds the number of samples and the end of the last frame. Tags after that frame are searched for
 * in the last `n_tags` bytes. */
static enum pst_status measure(const struct psti_audio *audio, uint64_t frames, uint64_t n_tags,
                               uint64_t *end, uint64_t *n_samples, struct pst_error *err)
{
    const uint8_t *info = audio->bytes + MARK + BLOCK_HEAD;
    uint32_t channels = (info[12] >> 1 & 7) + 1u, bits = ((info[12] & 1u) << 4 | info[13] >> 4) + 1;
    uint64_t longest = ((uint64_t)info[2] << 8 | info[3]) * channels * (bits + 8) / 8 + 1024;
    uint64_t before = audio->nbytes - n_tags;
    enum pst_status status = psti_decode_audio_need(audio, before, n_tags, err);
    if (status != PST_OK)
        return status;
    *end = before + psti_decode_audio_without_tags(audio->bytes + before, n_tags);
    uint64_t left = *end - frames, n = left < longest ? left : longest;
    *n_samples = 0;
    if (n == 0)
        return PST_OK;
    status = psti_decode_audio_need(audio, *end - n, n, err);
    if (status != PST_OK)
        return status;
    return psti_decode_flac_last_frame(info, audio->bytes + *end - n, n, n_samples, err);
}

/* Does what measure() does, for tags of any size. It first searches TAGS_NBYTES, which few tags
 * exceed. */
static enum pst_status measure_any(const struct psti_audio *audio, uint64_t frames, uint64_t *end,
                                   uint64_t *n_samples, struct pst_error *err)
{
    uint64_t left = audio->nbytes - frames, n = left < TAGS_NBYTES ? left : TAGS_NBYTES;
    enum pst_status status = measure(audio, frames, n, end, n_samples, err);
    if (status == PST_ERROR_CORRUPT && n < left)
        status = measure(audio, frames, left, end, n_samples, err);
    return status;
}

/* Opens the file by libsndfile, with a changed header that states n samples. */
static enum pst_status show(struct psti_audio *audio, uint64_t end, uint64_t n,
                            struct pst_error *err)
{
    struct psti_audio_piece pieces[2] = {{.nbytes = INFO_END},
                                         {.at = INFO_END, .nbytes = end - INFO_END}};
    audio->own = psti_alloc(INFO_END);
    if (!audio->own)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to decode an audio file");
    memcpy(audio->own, audio->bytes, INFO_END);
    audio->own[TOTAL_AT] = (uint8_t)((audio->own[TOTAL_AT] & 0xF0) | n >> 32);
    for (int i = 0; i < 4; i++)
        audio->own[TOTAL_AT + 1 + i] = (uint8_t)(n >> (24 - 8 * i));
    pieces[0].own = audio->own;
    return psti_decode_sndfile_open(audio, pieces, 2, err);
}

/* Fills in the properties of a file without frames. libsndfile would report an unknown length for
 * it. */
static void take_empty(struct psti_audio *audio)
{
    const uint8_t *info = audio->bytes + MARK + BLOCK_HEAD;
    audio->info.rate = (uint32_t)info[10] << 12 | (uint32_t)info[11] << 4 | info[12] >> 4;
    audio->info.channels = (info[12] >> 1 & 7) + 1u;
    audio->info.bits = ((info[12] & 1u) << 4 | info[13] >> 4) + 1;
}

enum pst_status psti_decode_flac_open(struct psti_audio *audio, struct pst_error *err)
{
    uint64_t frames = 0, end = 0, n = 0;
    enum pst_status status = psti_decode_sndfile_find(err);
    if (status == PST_OK && audio->nbytes < INFO_END)
        return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, NULL, (int64_t)audio->nbytes,
                            "the file ends within its metadata");
    if (status == PST_OK)
        status = psti_decode_audio_need(audio, 0, INFO_END, err);
    if (status == PST_OK && (audio->bytes[MARK] & 0x7F) != 0)
        status = psti_fail(err, PST_ERROR_CORRUPT, ROOM, "its first block is no streaminfo");
    if (status == PST_OK)
        status = skip_blocks(audio, &frames, err);
    if (status == PST_OK)
        status = measure_any(audio, frames, &end, &n, err);
    if (status != PST_OK)
        return status;
    uint64_t stated = stated_total(audio->bytes);
    if (stated != 0 && stated != n)
        return psti_fail(err, n < stated ? PST_ERROR_TRUNCATED : PST_ERROR_CORRUPT, ROOM,
                         "it has %llu samples, and its header states %llu", (unsigned long long)n,
                         (unsigned long long)stated);
    if (n >> 36)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "%llu samples", (unsigned long long)n);
    if (n > 0)
        return show(audio, end, n, err);
    take_empty(audio);
    if (audio->info.rate == 0)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "0 samples per second");
    return PST_OK;
}
