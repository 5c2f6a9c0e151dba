/* decode_audio_kinds.h - inside the room: functions that open, check and read each kind of audio
 * file. Each kind has a file of its own. The functions that open set audio->info. */
#ifndef PST_DECODE_DECODE_AUDIO_KINDS_H
#define PST_DECODE_DECODE_AUDIO_KINDS_H

#include "decode/decode_audio.h"

enum pst_status psti_decode_mp3_open(struct psti_audio *audio, struct pst_error *err);
enum pst_status psti_decode_mp3_read(struct psti_audio *audio, uint64_t first, size_t n, float *out,
                                     struct pst_error *err);
void psti_decode_mp3_close(struct psti_audio *audio);

enum pst_status psti_decode_ogg_open(struct psti_audio *audio, struct pst_error *err);
enum pst_status psti_decode_ogg_read(struct psti_audio *audio, uint64_t first, size_t n, float *out,
                                     struct pst_error *err);
void psti_decode_ogg_close(struct psti_audio *audio);

enum pst_status psti_decode_flac_open(struct psti_audio *audio, struct pst_error *err);
/* Finds the last frame of a FLAC file. `bytes` are the last `nbytes` bytes of the file before its
 * tags, and `info` are the 34 bytes of its streaminfo. Sets *n_samples to the file's number of
 * samples. Returns PST_ERROR_CORRUPT if there is no frame. */
enum pst_status psti_decode_flac_last_frame(const uint8_t *info, const uint8_t *bytes,
                                            uint64_t nbytes, uint64_t *n_samples,
                                            struct pst_error *err);
/* Compares the chunks of an AIFF file with the file's size. Sets *n_samples to the samples of each
 * channel, or leaves it unchanged if the file does not state them. */
enum pst_status psti_decode_aiff_check(const struct psti_audio *audio, uint64_t *n_samples,
                                       struct pst_error *err);

/* A run of bytes that libsndfile reads: either of our own memory, which stays until the file is
 * closed, or of the audio file. */
struct psti_audio_piece {
    const uint8_t *own; /* NULL: bytes of the audio file, from offset `at` on */
    uint64_t at, nbytes;
};
enum { PSTI_AUDIO_PIECES_MAX = 2 };

/* decode_audio_sndfile.c. psti_decode_sndfile_find checks that the library exists, so that its
 * absence is reported before any fault of a file. psti_decode_sndfile_open opens a file that
 * consists of the pieces, copies the list of pieces, and sets sndfile and info.
 * psti_decode_sndfile_read counts samples from the first one of that file. */
enum pst_status psti_decode_sndfile_find(struct pst_error *err);
enum pst_status psti_decode_sndfile_open(struct psti_audio *audio,
                                         const struct psti_audio_piece *pieces, size_t n_pieces,
                                         struct pst_error *err);
enum pst_status psti_decode_sndfile_read(struct psti_audio *audio, uint64_t first, size_t n,
                                         float *out, struct pst_error *err);
void psti_decode_sndfile_close(struct psti_audio *audio);

#endif
