/* decode_audio_bytes.h - internal: access to the bytes of an audio file that may be in memory only
 * in part. */
#ifndef PST_DECODE_DECODE_AUDIO_BYTES_H
#define PST_DECODE_DECODE_AUDIO_BYTES_H

#include "decode/decode_audio.h"

/* Makes sure that the bytes first .. first + n - 1 of audio->bytes are in memory. Returns false if
 * they cannot be read. */
bool psti_decode_audio_bring(const struct psti_audio *audio, uint64_t first, uint64_t n);
/* Does what psti_decode_audio_bring does. If the bytes cannot be read, it fills `err` and returns
 * an error. */
enum pst_status psti_decode_audio_need(const struct psti_audio *audio, uint64_t first, uint64_t n,
                                       struct pst_error *err);

#endif
