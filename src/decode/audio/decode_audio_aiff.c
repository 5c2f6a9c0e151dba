/* decode_audio_aiff.c - checks whether the chunks of an AIFF file fit into the file.
 *
 * In: the headers of the file's chunks, as untrusted bytes. Out: how many samples the file states,
 * or an error if the file is cut short. libsndfile decodes AIFF, but it reads a file that is cut
 * short up to the cut and reports no error. So the check is made here. */
#include "decode/audio/decode_audio_kinds.h"

#include "base/bits.h"
#include "base/fail.h"
#include "decode/audio/decode_audio_bytes.h"

#include <string.h>

#define ROOM "decode"

enum { FORM_NBYTES = 12, CHUNK_NBYTES = 8, COMMON_NBYTES = 18, SOUND_NBYTES = 8 };

/* Facts about the file that its chunks have stated so far. */
struct seen {
    bool common, sound, plain;
    uint32_t n_samples, block;
    uint64_t sound_nbytes;
};

static void take_common(const uint8_t *chunk, uint32_t nbytes, bool aifc, struct seen *seen)
{
    uint32_t channels = (uint32_t)chunk[0] << 8 | chunk[1];
    uint32_t bits = (uint32_t)chunk[6] << 8 | chunk[7];
    seen->common = true;
    seen->n_samples = psti_load_u32_big(chunk + 2);
    seen->block = channels * ((bits + 7) / 8);
    seen->plain =
        !aifc || (nbytes >= COMMON_NBYTES + 4 && (memcmp(chunk + COMMON_NBYTES, "NONE", 4) == 0 ||
                                                  memcmp(chunk + COMMON_NBYTES, "sowt", 4) == 0 ||
                                                  memcmp(chunk + COMMON_NBYTES, "twos", 4) == 0));
}

static enum pst_status cut(const struct psti_audio *audio, const char *text, struct pst_error *err)
{
    return psti_fail_at(err, PST_ERROR_TRUNCATED, ROOM, NULL, (int64_t)audio->nbytes, "%s", text);
}

/* Reads one chunk. *at is the offset of its header, and is set to the offset of the next chunk's
 * header. */
static enum pst_status take_chunk(const struct psti_audio *audio, bool aifc, uint64_t *at,
                                  struct seen *seen, struct pst_error *err)
{
    const uint8_t *head = audio->bytes + *at;
    enum pst_status status = psti_decode_audio_need(audio, *at, CHUNK_NBYTES, err);
    if (status != PST_OK)
        return status;
    uint32_t nbytes = psti_load_u32_big(head + 4);
    uint64_t inside = *at + CHUNK_NBYTES, left = audio->nbytes - inside;
    *at = inside + nbytes + (nbytes & 1);
    if (memcmp(head, "COMM", 4) == 0) {
        uint32_t need = nbytes < COMMON_NBYTES + 4 ? nbytes : COMMON_NBYTES + 4;
        if (nbytes < COMMON_NBYTES || nbytes > left)
            return cut(audio, "the file ends within its format", err);
        status = psti_decode_audio_need(audio, inside, need, err);
        if (status == PST_OK)
            take_common(head + CHUNK_NBYTES, nbytes, aifc, seen);
    } else if (memcmp(head, "SSND", 4) == 0) {
        if (nbytes > left || nbytes < SOUND_NBYTES)
            return cut(audio, "the file ends within its samples", err);
        status = psti_decode_audio_need(audio, inside, SOUND_NBYTES, err);
        uint32_t offset = status == PST_OK ? psti_load_u32_big(head + CHUNK_NBYTES) : 0;
        seen->sound = true;
        seen->sound_nbytes = nbytes - SOUND_NBYTES;
        if (offset > seen->sound_nbytes)
            return cut(audio, "its samples begin behind their chunk", err);
        seen->sound_nbytes -= offset;
    }
    return status;
}

enum pst_status psti_decode_aiff_check(const struct psti_audio *audio, uint64_t *n_samples,
                                       struct pst_error *err)
{
    struct seen seen = {0};
    const uint8_t *type = audio->bytes + 8;
    enum pst_status status = PST_OK;
    bool aifc = memcmp(type, "AIFC", 4) == 0;
    if (!aifc && memcmp(type, "AIFF", 4) != 0)
        return PST_OK; /* a file of another kind that begins with FORM */
    for (uint64_t at = FORM_NBYTES;
         status == PST_OK && at + CHUNK_NBYTES <= audio->nbytes && !(seen.common && seen.sound);)
        status = take_chunk(audio, aifc, &at, &seen, err);
    if (status != PST_OK)
        return status;
    if (!seen.common)
        return cut(audio, "the file ends before its format", err);
    if (!seen.sound && seen.n_samples > 0)
        return cut(audio, "the file ends before its samples", err);
    if (!seen.plain)
        return PST_OK;
    *n_samples = seen.n_samples;
    if ((uint64_t)seen.n_samples * seen.block > seen.sound_nbytes)
        return psti_fail(err, PST_ERROR_TRUNCATED, ROOM,
                         "its header states %u samples, for which %llu bytes are too few",
                         seen.n_samples, (unsigned long long)seen.sound_nbytes);
    return PST_OK;
}
