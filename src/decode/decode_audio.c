/* decode_audio.c - opens an audio file in memory, by whom can decode it, and reads samples of it.
 *
 * In: the bytes of a file. Out: interleaved floats. One thread for each open file; nothing is
 * shared. What is not finite is an error, wherever floats are stored: it would spread over a batch.
 */
#include "decode/decode_audio.h"

#include "base/fail.h"
#include "base/options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROOM "decode"

static enum pst_status open_wav(struct psti_audio *audio, size_t n_here, struct pst_error *err)
{
    enum pst_status status =
        psti_decode_wav_parse(audio->bytes, n_here, audio->nbytes, &audio->wav, err);
    if (status != PST_OK)
        return status;
    struct pst_audio_info *info = &audio->info;
    info->rate = audio->wav.rate;
    info->channels = audio->wav.channels;
    info->n_samples = audio->wav.n_samples;
    info->bits = audio->wav.bits;
    info->is_float = audio->wav.is_float;
    return PST_OK;
}

enum pst_status psti_decode_audio_open(struct psti_audio *audio, const struct psti_audio_file *file,
                                       struct pst_error *err)
{
    *audio = (struct psti_audio){
        .bytes = file->bytes, .nbytes = file->nbytes, .bring = file->bring, .ctx = file->ctx};
    enum pst_status status = PST_ERROR_UNSUPPORTED;
    if (file->nbytes == 0)
        status = psti_fail(err, PST_ERROR_TRUNCATED, ROOM, "an audio file of 0 bytes");
    else if (psti_decode_is_wav(file->bytes, file->n_here)) {
        snprintf(audio->info.codec, sizeof audio->info.codec, "wav");
        status = open_wav(audio, file->n_here, err);
    }
    if (status == PST_ERROR_UNSUPPORTED && (file->n_here == file->nbytes || file->bring))
        status = psti_decode_sndfile_open(audio, err);
    if (status != PST_OK) {
        psti_decode_audio_close(audio);
        psti_error_set_codec(err, audio->info.codec[0] ? audio->info.codec : "audio");
    }
    return status;
}

static enum pst_status check_finite(const struct psti_audio *audio, uint64_t first, size_t n,
                                    const float *out, struct pst_error *err)
{
    size_t n_values = n * audio->info.channels;
    float sum = 0; /* of zeros, and NaN as soon as a value is not finite */
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
    if (audio->sndfile)
        status = psti_decode_sndfile_read(audio, first, n, out, err);
    else {
        const struct psti_wav *wav = &audio->wav;
        uint64_t at = wav->data + first * wav->sample_nbytes * wav->channels;
        status = psti_decode_wav_read(wav, audio->bytes + at, first, n, out, err);
    }
    if (status == PST_OK && audio->info.is_float)
        status = check_finite(audio, first, n, out, err);
    if (status != PST_OK)
        psti_error_set_codec(err, audio->info.codec);
    return status;
}

void psti_decode_audio_close(struct psti_audio *audio)
{
    if (audio->sndfile)
        psti_decode_sndfile_close(audio);
    audio->sndfile = NULL;
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
