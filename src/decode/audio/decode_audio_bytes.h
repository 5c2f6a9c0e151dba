/* decode_audio_bytes.h - inside the room: access to the bytes of an audio file, of which only a
 * part may be present in memory. */
#ifndef PST_DECODE_DECODE_AUDIO_BYTES_H
#define PST_DECODE_DECODE_AUDIO_BYTES_H

#include "decode/decode_audio.h"

/* Makes the bytes first .. first + n - 1 of audio->bytes present. Returns false if they cannot be
 * had. */
bool psti_decode_audio_bring(const struct psti_audio *audio, uint64_t first, uint64_t n);
/* Does the same. If the bytes cannot be had, it fills `err` with that and returns an error. */
enum pst_status psti_decode_audio_need(const struct psti_audio *audio, uint64_t first, uint64_t n,
                                       struct pst_error *err);

#endif
