/* decode_audio_wav.c - WAV files: the chunks before the samples, and samples to floats.
 *
 * In: untrusted bytes. Out: where the samples are, and floats of any run of them. Pure functions,
 * any thread. PCM of 8 to 32 bits becomes v / 2^(bits - 1), so -1..1; floats stay as they are. A
 * file whose header states more samples than it has is cut short, which is an error; a size of 0 or
 * 2^32 - 1, which writers to a pipe leave, stands for the rest of the file. */
#include "decode/decode_audio.h"

#include "base/bits.h"
#include "base/fail.h"

#include <string.h>

#define ROOM "decode"

enum { TAG_PCM = 1, TAG_FLOAT = 3, TAG_EXTENSIBLE = 0xFFFE };
enum { RIFF_NBYTES = 12, CHUNK_NBYTES = 8, FORMAT_NBYTES = 16, EXTENSIBLE_NBYTES = 40 };
enum { CHANNELS_MAX = 1024 };

bool psti_decode_is_wav(const void *bytes, size_t n_here)
{
    const uint8_t *head = bytes;
    return n_here >= RIFF_NBYTES && memcmp(head, "RIFF", 4) == 0 &&
           memcmp(head + 8, "WAVE", 4) == 0;
}

/* Takes the chunk "fmt ". Its bytes are there. */
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

/* Takes the chunk "data", whose first byte is at `at`. */
static enum pst_status take_data(uint64_t at, uint32_t stated, uint64_t nbytes,
                                 struct psti_wav *wav, struct pst_error *err)
{
    uint64_t rest = nbytes - at, block = (uint64_t)wav->sample_nbytes * wav->channels;
    if (block == 0)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "samples before their format");
    bool unknown = stated == UINT32_MAX || (stated == 0 && rest > 0);
    if (!unknown && stated > rest)
        return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, NULL, (int64_t)nbytes,
                            "the file ends after %llu of %u bytes of samples",
                            (unsigned long long)rest, stated);
    wav->data = at;
    wav->n_samples = (unknown ? rest : stated) / block;
    return PST_OK;
}

enum pst_status psti_decode_wav_parse(const void *bytes, size_t n_here, uint64_t nbytes,
                                      struct psti_wav *wav, struct pst_error *err)
{
    const uint8_t *head = bytes;
    uint64_t at = RIFF_NBYTES;
    memset(wav, 0, sizeof *wav);
    if (!psti_decode_is_wav(bytes, n_here))
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "no WAV file");
    while (at + CHUNK_NBYTES <= n_here) {
        uint32_t stated = psti_load_u32(head + at + 4);
        const uint8_t *chunk = head + at + CHUNK_NBYTES;
        uint64_t inside = at + CHUNK_NBYTES;
        if (memcmp(head + at, "data", 4) == 0)
            return take_data(inside, stated, nbytes, wav, err);
        at = inside + stated + (stated & 1);
        if (memcmp(chunk - CHUNK_NBYTES, "fmt ", 4) != 0)
            continue;
        if (inside + stated > n_here || wav->channels != 0)
            return psti_fail(err, wav->channels ? PST_ERROR_CORRUPT : PST_ERROR_TRUNCATED, ROOM,
                             wav->channels ? "two formats" : "the file ends within its format");
        enum pst_status status = take_format(chunk, stated, wav, err);
        if (status != PST_OK)
            return status;
    }
    return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, NULL, (int64_t)n_here,
                        "no samples in its first %zu bytes", n_here);
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
