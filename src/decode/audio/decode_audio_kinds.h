/* decode_audio_kinds.h - internal: functions that open, check and read each kind of audio file.
 * Each kind has a source file of its own. The functions that open a file set audio->info. */
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
/* Finds the last frame of a FLAC file. `bytes` are the last `nbytes` bytes of the file, without the
 * tags at its end. `info` points to the 34 bytes of the file's STREAMINFO block. Sets *n_samples to
 * the file's number of samples. Returns PST_ERROR_CORRUPT if there is no frame. */
enum pst_status psti_decode_flac_last_frame(const uint8_t *info, const uint8_t *bytes,
                                            uint64_t nbytes, uint64_t *n_samples,
                                            struct pst_error *err);
/* Checks that the chunks of an AIFF file fit the file's size. Sets *n_samples to the samples of
 * each channel, or leaves it unchanged if the file does not state them. */
enum pst_status psti_decode_aiff_check(const struct psti_audio *audio, uint64_t *n_samples,
                                       struct pst_error *err);

/* A range of bytes that libsndfile reads. It lies either in memory of this module, which stays
 * until the file is closed, or in the audio file. */
struct psti_audio_piece {
    const uint8_t *own; /* NULL: the bytes are in the audio file, from offset `at` on */
    uint64_t at, nbytes;
};
enum { PSTI_AUDIO_PIECES_MAX = 2 };

/* Functions of decode_audio_sndfile.c. psti_decode_sndfile_find checks that the library exists, so
 * that a missing library is reported before any fault of a file. psti_decode_sndfile_open opens a
 * file that is joined from the pieces, copies the list of pieces, and sets sndfile and info.
 * psti_decode_sndfile_read numbers samples from the start of that joined file. */
enum pst_status psti_decode_sndfile_find(struct pst_error *err);
enum pst_status psti_decode_sndfile_open(struct psti_audio *audio,
                                         const struct psti_audio_piece *pieces, size_t n_pieces,
                                         struct pst_error *err);
enum pst_status psti_decode_sndfile_read(struct psti_audio *audio, uint64_t first, size_t n,
                                         float *out, struct pst_error *err);
void psti_decode_sndfile_close(struct psti_audio *audio);

#endif
