/* decode_audio_wav.c - parses the chunks of a WAV file and converts its samples to floats.
 *
 * In: untrusted bytes. Out: where the samples are, and floats of any range of them. Pure functions,
 * any thread. A PCM sample v of 8 to 32 bits becomes v / 2^(bits - 1), which is in -1..1. Samples
 * that are floats stay unchanged. It is an error if the header states more samples than the file
 * has. Programs that write to a pipe cannot know the size: they write 2^32 - 1 or 0, which means
 * "up to the end of the file". 0 has this meaning only if the size in the RIFF header is wrong too
 * and no chunks follow; other files with 0 are empty. RF64 and BW64 files store sizes of 64 bits in
 * the chunk ds64. */
#include "decode/decode_audio.h"

#include "base/bits.h"
#include "base/fail.h"

#include <string.h>

#define ROOM "decode"

enum { TAG_PCM = 1, TAG_FLOAT = 3, TAG_EXTENSIBLE = 0xFFFE };
enum { RIFF_NBYTES = 12, CHUNK_NBYTES = 8, FORMAT_NBYTES = 16, EXTENSIBLE_NBYTES = 40 };
enum { SIZES_NBYTES = 24 };
enum { CHANNELS_MAX = 1024 };

bool psti_decode_is_wav(const void *bytes, size_t n_here)
{
    const uint8_t *head = bytes;
    return n_here >= RIFF_NBYTES && memcmp(head + 8, "WAVE", 4) == 0 &&
           (memcmp(head, "RIFF", 4) == 0 || memcmp(head, "RF64", 4) == 0 ||
            memcmp(head, "BW64", 4) == 0);
}

/* A file that is being parsed, with the sizes that its headers state (UINT64_MAX: unknown). */
struct parse {
    const uint8_t *bytes;
    size_t n_here;
    uint64_t nbytes, riff_nbytes, data_nbytes;
    bool wide; /* true for RF64 and BW64 */
};

/* Reads the chunk "fmt ", all bytes of which are in memory. */
static enum pst_status take_format(const uint8_t *chunk, uint32_t nbytes, struct psti_wav *wav,
                                   struct pst_error *err)
{
    if (nbytes < FORMAT_NBYTES)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "its format has %u bytes, less than %d",
                         nbytes, FORMAT_NBYTES);
    uint32_t tag = psti_load_u16(chunk);
    uint32_t bits = psti_load_u16(chunk + 14), block = psti_load_u16(chunk + 12);
    wav->channels = psti_load_u16(chunk + 2);
    wav->rate = psti_load_u32(chunk + 4);
    if (tag == TAG_EXTENSIBLE && nbytes >= EXTENSIBLE_NBYTES)
        tag = psti_load_u16(chunk + 24);
    if (tag != TAG_PCM && tag != TAG_FLOAT)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, ROOM, "WAV of kind 0x%04x", tag);
    if (wav->channels == 0 || wav->channels > CHANNELS_MAX)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "%u channels", wav->channels);
    if (wav->rate == 0)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "0 samples per second");
    wav->is_float = tag == TAG_FLOAT;
    wav->bits = bits;
    wav->sample_nbytes = (bits + 7) / 8;
    bool known = wav->is_float ? bits == 32 || bits == 64 : bits >= 1 && bits <= 32;
    if (!known || block != wav->sample_nbytes * wav->channels)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM,
                         "%u channels of %u bits do not make blocks of %u bytes", wav->channels,
                         bits, block);
    return PST_OK;
}

enum follow { FOLLOW_NOTHING, FOLLOW_CHUNKS, FOLLOW_BEYOND };

/* Returns whether the rest of the file from `at` on consists of chunks, as far as the bytes in
 * memory show it. */
static enum follow chunks_follow(const struct parse *parse, uint64_t at)
{
    while (at < parse->nbytes) {
        if (parse->nbytes - at < CHUNK_NBYTES)
            return FOLLOW_NOTHING;
        if (parse->n_here < at + CHUNK_NBYTES)
            return FOLLOW_BEYOND;
        const uint8_t *head = parse->bytes + at;
        for (int i = 0; i < 4; i++)
            if (head[i] < ' ' || head[i] > '~')
                return FOLLOW_NOTHING;
        uint32_t size = psti_load_u32(head + 4);
        if (size > parse->nbytes - at - CHUNK_NBYTES)
            return FOLLOW_NOTHING;
        at += CHUNK_NBYTES + (uint64_t)size + (size & 1);
    }
    return FOLLOW_CHUNKS;
}

static enum pst_status not_here(const struct parse *parse, struct pst_error *err)
{
    return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, NULL, (int64_t)parse->n_here,
                        "no samples in its first %zu bytes", parse->n_here);
}

/* Reads the header of the chunk "data", whose samples begin at offset `at`. */
static enum pst_status take_data(const struct parse *parse, uint64_t at, uint32_t size,
                                 struct psti_wav *wav, struct pst_error *err)
{
    uint64_t rest = parse->nbytes - at, block = (uint64_t)wav->sample_nbytes * wav->channels;
    uint64_t stated = size != UINT32_MAX ? size : parse->wide ? parse->data_nbytes : UINT64_MAX;
    if (block == 0)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "samples before their format");
    if (stated == 0 && rest > 0 &&
        (parse->riff_nbytes == 0 || parse->riff_nbytes == UINT64_MAX ||
         parse->riff_nbytes + CHUNK_NBYTES <= at)) {
        enum follow follow = chunks_follow(parse, at);
        if (follow == FOLLOW_BEYOND)
            return not_here(parse, err);
        stated = follow == FOLLOW_NOTHING ? UINT64_MAX : 0;
    }
    if (stated != UINT64_MAX && stated > rest)
        return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, NULL, (int64_t)parse->nbytes,
                            "the file ends after %llu of %llu bytes of samples",
                            (unsigned long long)rest, (unsigned long long)stated);
    wav->data = at;
    wav->n_samples = (stated == UINT64_MAX ? rest : stated) / block;
    return PST_OK;
}

/* Reads the chunk "ds64", all bytes of which are in memory. */
static enum pst_status take_sizes(const uint8_t *chunk, uint32_t nbytes, struct parse *parse,
                                  struct pst_error *err)
{
    if (nbytes < SIZES_NBYTES)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "its sizes have %u bytes, less than %d",
                         nbytes, SIZES_NBYTES);
    parse->riff_nbytes = psti_load_u64(chunk);
    parse->data_nbytes = psti_load_u64(chunk + 8);
    return PST_OK;
}

enum pst_status psti_decode_wav_parse(const void *bytes, size_t n_here, uint64_t nbytes,
                                      struct psti_wav *wav, struct pst_error *err)
{
    const uint8_t *head = bytes;
    uint64_t at = RIFF_NBYTES;
    enum pst_status status = PST_OK;
    memset(wav, 0, sizeof *wav);
    if (!psti_decode_is_wav(bytes, n_here))
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "no WAV file");
    struct parse parse = {.bytes = head,
                          .n_here = n_here,
                          .nbytes = nbytes,
                          .riff_nbytes = psti_load_u32(head + 4),
                          .data_nbytes = UINT64_MAX,
                          .wide = head[0] != 'R' || head[1] != 'I'};
    if (parse.riff_nbytes == UINT32_MAX)
        parse.riff_nbytes = UINT64_MAX;
    while (status == PST_OK && at + CHUNK_NBYTES <= n_here) {
        uint32_t stated = psti_load_u32(head + at + 4);
        const uint8_t *chunk = head + at + CHUNK_NBYTES;
        uint64_t inside = at + CHUNK_NBYTES;
        bool is_format = memcmp(head + at, "fmt ", 4) == 0;
        if (memcmp(head + at, "data", 4) == 0)
            return take_data(&parse, inside, stated, wav, err);
        at = inside + stated + (stated & 1);
        if (!is_format && !(parse.wide && memcmp(chunk - CHUNK_NBYTES, "ds64", 4) == 0))
            continue;
        if (inside + stated > n_here || (is_format && wav->channels != 0))
            return psti_fail(
                err, inside + stated > n_here ? PST_ERROR_TRUNCATED : PST_ERROR_CORRUPT, ROOM,
                inside + stated > n_here ? "the file ends within its format" : "two formats");
        status = is_format ? take_format(chunk, stated, wav, err)
                           : take_sizes(chunk, stated, &parse, err);
    }
    return status == PST_OK ? not_here(&parse, err) : status;
}

static void read_u8(const uint8_t *from, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)((int)from[i] - 128) * 0x1p-7f;
}

static void read_i16(const uint8_t *from, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(int16_t)psti_load_u16(from + 2 * i) * 0x1p-15f;
}

static void read_i24(const uint8_t *from, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++, from += 3) {
        uint32_t v = (uint32_t)from[0] << 8 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 24;
        out[i] = (float)(int32_t)v * 0x1p-31f;
    }
}

static void read_i32(const uint8_t *from, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(int32_t)psti_load_u32(from + 4 * i) * 0x1p-31f;
}

static void read_f64(const uint8_t *from, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        double v;
        memcpy(&v, from + 8 * i, sizeof v);
        out[i] = (float)v;
    }
}

enum pst_status psti_decode_wav_read(const struct psti_wav *wav, const uint8_t *bytes,
                                     uint64_t first, size_t n, float *out, struct pst_error *err)
{
    size_t n_values = n * wav->channels;
    if (wav->is_float && wav->sample_nbytes == 4)
        memcpy(out, bytes, n_values * sizeof *out);
    else if (wav->is_float)
        read_f64(bytes, n_values, out);
    else if (wav->sample_nbytes == 1)
        read_u8(bytes, n_values, out);
    else if (wav->sample_nbytes == 2)
        read_i16(bytes, n_values, out);
    else if (wav->sample_nbytes == 3)
        read_i24(bytes, n_values, out);
    else if (wav->sample_nbytes == 4)
        read_i32(bytes, n_values, out);
    else
        return psti_fail(err, PST_ERROR_INTERNAL, ROOM, "samples of %u bytes from %llu on",
                         wav->sample_nbytes, (unsigned long long)first);
    return PST_OK;
}
