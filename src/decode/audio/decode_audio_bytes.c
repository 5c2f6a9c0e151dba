/* decode_audio_bytes.c - makes sure that bytes of an audio file are in memory before they are read.
 * The readers of all kinds of audio files call it. An open file belongs to one thread. */
#include "decode/audio/decode_audio_bytes.h"

#include "base/checked.h"
#include "base/fail.h"

#define ROOM "decode"

bool psti_decode_audio_bring(const struct psti_audio *audio, uint64_t first, uint64_t n)
{
    if (!audio->bring)
        return psti_range_fits(first, n, audio->n_here);
    return n == 0 || audio->bring(audio->ctx, audio->front + first, n);
}

enum pst_status psti_decode_audio_need(const struct psti_audio *audio, uint64_t first, uint64_t n,
                                       struct pst_error *err)
{
    if (psti_decode_audio_bring(audio, first, n))
        return PST_OK;
    return psti_fail(err, PST_ERROR_UNSUPPORTED, ROOM, "%llu bytes from %llu on are not there",
                     (unsigned long long)n, (unsigned long long)first);
}
