/* decode_audio.c - opens an audio file in memory with the decoder for its kind, and reads samples
 * from it.
 *
 * In: the bytes of a file. Out: interleaved floats. An open file belongs to one thread and shares
 * nothing. In a file that stores floats, an infinite or NaN sample is an error, because it would
 * spoil the whole batch. */
#include "decode/decode_audio.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/options.h"
#include "decode/audio/decode_audio_bytes.h"
#include "decode/audio/decode_audio_kinds.h"
#include "decode/audio/decode_audio_tags.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROOM "decode"

/* The bytes that are needed to tell the kind of a file, and the bytes of a WAV file within which
 * its samples usually begin. */
enum { MAGIC_NBYTES = 12, WAV_HEAD_NBYTES = 4096 };
/* Samples of all channels that psti_decode_audio_check decodes at a time: 4 MiB of floats. */
#define PIECE_N_FLOATS ((size_t)1 << 20)

static void take_wav(struct psti_audio *audio)
{
    struct pst_audio_info *info = &audio->info;
    info->rate = audio->wav.rate;
    info->channels = audio->wav.channels;
    info->n_samples = audio->wav.n_samples;
    info->bits = audio->wav.bits;
    info->is_float = audio->wav.is_float;
}

/* Parses a WAV file by its first WAV_HEAD_NBYTES bytes. If its samples begin later, parses all
 * bytes. */
static enum pst_status open_wav(struct psti_audio *audio, struct pst_error *err)
{
    enum pst_status status = PST_ERROR_TRUNCATED;
    uint64_t n = audio->bring && audio->nbytes > WAV_HEAD_NBYTES ? WAV_HEAD_NBYTES : audio->n_here;
    for (; status == PST_ERROR_TRUNCATED; n = audio->nbytes) {
        if (audio->bring)
            status = psti_decode_audio_need(audio, 0, n, err);
        if (!audio->bring || status == PST_OK)
            status =
                psti_decode_wav_parse(audio->bytes, (size_t)n, audio->nbytes, &audio->wav, err);
        if (!audio->bring || n == audio->nbytes)
            break;
    }
    if (status == PST_OK)
        take_wav(audio);
    return status;
}

/* Skips the tags before the sound. Returns false if a tag reaches beyond the bytes in memory. */
static bool skip_tags(struct psti_audio *audio, bool *any)
{
    while (audio->nbytes > 0) {
        uint64_t n =
            audio->nbytes < PSTI_AUDIO_TAG_HEAD_NBYTES ? audio->nbytes : PSTI_AUDIO_TAG_HEAD_NBYTES;
        if (!psti_decode_audio_bring(audio, 0, n))
            return false;
        uint64_t tag = psti_decode_audio_tag_nbytes(audio->bytes, n);
        if (tag == 0 || tag > audio->nbytes)
            return true;
        *any = true;
        audio->bytes += tag;
        audio->nbytes -= tag;
        audio->front += tag;
        audio->n_here = audio->n_here > tag ? audio->n_here - tag : 0;
    }
    return true;
}

/* Returns the name of the file's kind. Reads its first MAGIC_NBYTES bytes, which must be in
 * memory. */
static const char *kind_of(const struct psti_audio *audio, bool tagged)
{
    const uint8_t *bytes = audio->bytes;
    if (audio->nbytes < MAGIC_NBYTES)
        return tagged ? "mp3" : "audio";
    if (psti_decode_is_wav(bytes, MAGIC_NBYTES))
        return "wav";
    if (memcmp(bytes, "fLaC", 4) == 0)
        return "flac";
    if (memcmp(bytes, "OggS", 4) == 0)
        return "ogg";
    if (memcmp(bytes, "FORM", 4) == 0)
        return "aiff";
    /* libsndfile recognises MP3 files by the same test */
    if (tagged || (bytes[0] == 0xFF && bytes[1] >= 0xE0))
        return "mp3";
    return "audio";
}

/* Opens a file that only libsndfile reads. Compares the number of samples that libsndfile finds
 * with the number in the header, if the header states one. */
static enum pst_status open_other(struct psti_audio *audio, bool is_aiff, struct pst_error *err)
{
    const struct psti_audio_piece all = {.nbytes = audio->nbytes};
    uint64_t stated = UINT64_MAX;
    enum pst_status status = PST_OK;
    if (is_aiff)
        status = psti_decode_aiff_check(audio, &stated, err);
    if (status == PST_OK)
        status = psti_decode_sndfile_open(audio, &all, 1, err);
    if (status == PST_OK && stated != UINT64_MAX && stated != audio->info.n_samples)
        status = psti_fail(err, PST_ERROR_CORRUPT, ROOM,
                           "its header states %llu samples, and it has %llu",
                           (unsigned long long)stated, (unsigned long long)audio->info.n_samples);
    return status;
}

static enum pst_status open_kind(struct psti_audio *audio, struct pst_error *err)
{
    bool tagged = false, is_there = skip_tags(audio, &tagged);
    uint64_t magic = audio->nbytes < MAGIC_NBYTES ? audio->nbytes : MAGIC_NBYTES;
    enum pst_status status = PST_ERROR_UNSUPPORTED;
    if (!is_there || !psti_decode_audio_bring(audio, 0, magic))
        return psti_fail(err, PST_ERROR_UNSUPPORTED, ROOM,
                         "its tags are longer than what is there");
    const char *kind = kind_of(audio, tagged);
    snprintf(audio->info.codec, sizeof audio->info.codec, "%s", kind);
    if (strcmp(kind, "wav") == 0)
        status = open_wav(audio, err);
    if (status != PST_ERROR_UNSUPPORTED)
        return status;
    if (!audio->bring && audio->n_here < audio->nbytes)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, ROOM, "%s needs all bytes", kind);
    if (strcmp(kind, "flac") == 0)
        return psti_decode_flac_open(audio, err);
    if (strcmp(kind, "ogg") != 0 && strcmp(kind, "mp3") != 0)
        return open_other(audio, strcmp(kind, "aiff") == 0, err);
    /* The check of the file reads all its frames or pages, so all bytes must be in memory. */
    status = psti_decode_audio_need(audio, 0, audio->nbytes, err);
    if (status == PST_OK)
        status =
            kind[0] == 'o' ? psti_decode_ogg_open(audio, err) : psti_decode_mp3_open(audio, err);
    return status;
}

enum pst_status psti_decode_audio_open(struct psti_audio *audio, const struct psti_audio_file *file,
                                       struct pst_error *err)
{
    *audio = (struct psti_audio){.bytes = file->bytes,
                                 .nbytes = file->nbytes,
                                 .n_here = file->n_here,
                                 .bring = file->n_here < file->nbytes ? file->bring : NULL,
                                 .ctx = file->ctx};
    enum pst_status status =
        file->nbytes == 0 ? psti_fail(err, PST_ERROR_TRUNCATED, ROOM, "an audio file of 0 bytes")
                          : open_kind(audio, err);
    if (status != PST_OK) {
        psti_decode_audio_close(audio);
        psti_error_set_codec(err, audio->info.codec[0] ? audio->info.codec : "audio");
        if (err && err->offset >= 0)
            err->offset += (int64_t)audio->front;
    }
    return status;
}

static enum pst_status check_finite(const struct psti_audio *audio, uint64_t first, size_t n,
                                    const float *out, struct pst_error *err)
{
    size_t n_values = n * audio->info.channels;
    float sum = 0; /* stays 0 if all values are finite, otherwise becomes NaN */
    for (size_t i = 0; i < n_values; i++)
        sum += out[i] * 0.0f;
    if (sum == 0)
        return PST_OK;
    size_t i = 0;
    while (i < n_values && isfinite(out[i]))
        i++;
    return psti_fail(err, PST_ERROR_CORRUPT, ROOM,
                     "sample %llu of channel %zu is %s, no finite number",
                     (unsigned long long)(first + i / audio->info.channels),
                     i % audio->info.channels, isnan(out[i]) ? "NaN" : "infinite");
}

static enum pst_status read_wav(const struct psti_audio *audio, uint64_t first, size_t n,
                                float *out, struct pst_error *err)
{
    const struct psti_wav *wav = &audio->wav;
    uint64_t block = (uint64_t)wav->sample_nbytes * wav->channels, at = wav->data + first * block;
    enum pst_status status = PST_OK;
    if (audio->bring)
        status = psti_decode_audio_need(audio, at, n * block, err);
    return status == PST_OK ? psti_decode_wav_read(wav, audio->bytes + at, first, n, out, err)
                            : status;
}

enum pst_status psti_decode_audio_read(struct psti_audio *audio, uint64_t first, size_t n,
                                       float *out, struct pst_error *err)
{
    enum pst_status status;
    if (first > audio->info.n_samples || n > audio->info.n_samples - first)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                         "samples %llu to %llu are wanted of a sound of %llu",
                         (unsigned long long)first, (unsigned long long)(first + n),
                         (unsigned long long)audio->info.n_samples);
    if (n == 0)
        return PST_OK;
    if (audio->mp3)
        status = psti_decode_mp3_read(audio, first, n, out, err);
    else if (audio->ogg)
        status = psti_decode_ogg_read(audio, first, n, out, err);
    else if (audio->sndfile)
        status = psti_decode_sndfile_read(audio, first, n, out, err);
    else
        status = read_wav(audio, first, n, out, err);
    if (status == PST_OK && audio->info.is_float)
        status = check_finite(audio, first, n, out, err);
    if (status != PST_OK) {
        psti_error_set_codec(err, audio->info.codec);
        if (err && err->offset >= 0)
            err->offset += (int64_t)audio->front;
    }
    return status;
}

void psti_decode_audio_close(struct psti_audio *audio)
{
    if (audio->sndfile)
        psti_decode_sndfile_close(audio);
    if (audio->ogg)
        psti_decode_ogg_close(audio);
    psti_free(audio->own);
    audio->own = NULL;
    if (audio->mp3)
        psti_decode_mp3_close(audio);
}

/* Decodes all samples of the file, n_piece samples of each channel at a time, into the buffer
 * `piece`. */
static enum pst_status read_all(struct psti_audio *audio, float *piece, uint64_t n_piece,
                                struct pst_error *err)
{
    uint64_t n_samples = audio->info.n_samples;
    enum pst_status status = PST_OK;
    for (uint64_t first = 0; status == PST_OK && first < n_samples; first += n_piece) {
        uint64_t n = n_samples - first < n_piece ? n_samples - first : n_piece;
        status = psti_decode_audio_read(audio, first, (size_t)n, piece, err);
    }
    return status;
}

enum pst_status psti_decode_audio_check(const void *bytes, size_t nbytes, struct pst_error *err)
{
    const struct psti_audio_file file = {.bytes = bytes, .n_here = nbytes, .nbytes = nbytes};
    struct psti_audio audio = {0};
    enum pst_status status = psti_decode_audio_open(&audio, &file, err);
    if (status != PST_OK)
        return status;
    uint64_t channels = audio.info.channels;
    uint64_t n_piece = channels < PIECE_N_FLOATS ? PIECE_N_FLOATS / channels : 1;
    n_piece = audio.info.n_samples < n_piece ? audio.info.n_samples : n_piece;
    float *piece = psti_alloc((size_t)(n_piece * channels) * sizeof *piece + 1);
    if (piece)
        status = read_all(&audio, piece, n_piece, err);
    else
        status = psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory to decode a sound");
    if (status != PST_OK && err && !err->codec[0])
        psti_error_set_codec(err, audio.info.codec);
    psti_free(piece);
    psti_decode_audio_close(&audio);
    return status;
}

enum pst_status pst_audio_probe(const void *bytes, size_t nbytes, struct pst_audio_info *info,
                                size_t info_nbytes, struct pst_error *err)
{
    struct psti_audio audio;
    const struct psti_audio_file file = {.bytes = bytes, .n_here = nbytes, .nbytes = nbytes};
    enum pst_status status = psti_decode_audio_open(&audio, &file, err);
    if (status != PST_OK)
        return status;
    psti_struct_write(info, info_nbytes, &audio.info, sizeof audio.info);
    psti_decode_audio_close(&audio);
    return PST_OK;
}

enum pst_status pst_audio_decode(const void *bytes, size_t nbytes, uint64_t first, size_t n,
                                 float *out, struct pst_error *err)
{
    struct psti_audio audio;
    const struct psti_audio_file file = {.bytes = bytes, .n_here = nbytes, .nbytes = nbytes};
    enum pst_status status = psti_decode_audio_open(&audio, &file, err);
    if (status != PST_OK)
        return status;
    status = psti_decode_audio_read(&audio, first, n, out, err);
    psti_decode_audio_close(&audio);
    return status;
}
