/* decode_audio_bytes.h - inside the room: the bytes of an audio file that may be there in part. */
#ifndef PST_DECODE_DECODE_AUDIO_BYTES_H
#define PST_DECODE_DECODE_AUDIO_BYTES_H

#include "decode/decode_audio.h"

/* Makes bytes first to first + n of audio->bytes be there. */
bool psti_decode_audio_bring(const struct psti_audio *audio, uint64_t first, uint64_t n);
/* The same; an error says that they cannot be read. */
enum pst_status psti_decode_audio_need(const struct psti_audio *audio, uint64_t first, uint64_t n,
                                       struct pst_error *err);

#endif
