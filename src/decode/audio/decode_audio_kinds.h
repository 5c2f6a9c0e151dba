/* decode_audio_kinds.h - inside the room: the kinds of audio files, each in its own file. They set
 * audio->info. */
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
/* Finds the last frame of a FLAC file, of which `nbytes` bytes without tags are the end, and its
 * streaminfo the 34 bytes at `info`. *n_samples: those of the file. PST_ERROR_CORRUPT: there is
 * none. */
enum pst_status psti_decode_flac_last_frame(const uint8_t *info, const uint8_t *bytes,
                                            uint64_t nbytes, uint64_t *n_samples,
                                            struct pst_error *err);
/* Compares the chunks of an AIFF file to its size. *n_samples: of each channel; unchanged where the
 * file does not say. */
enum pst_status psti_decode_aiff_check(const struct psti_audio *audio, uint64_t *n_samples,
                                       struct pst_error *err);

/* A run of the bytes that libsndfile is shown: of memory of our own, which stays until it is
 * closed, or of the file. */
struct psti_audio_piece {
    const uint8_t *own; /* NULL: of the file, from `at` on */
    uint64_t at, nbytes;
};
enum { PSTI_AUDIO_PIECES_MAX = 2 };

/* decode_audio_sndfile.c. psti_decode_sndfile_find says if the library is there, before a fault of
 * a file is looked for. psti_decode_sndfile_open opens a file that consists of pieces, copied, and
 * sets sndfile and info; psti_decode_sndfile_read counts from its first sample on. */
enum pst_status psti_decode_sndfile_find(struct pst_error *err);
enum pst_status psti_decode_sndfile_open(struct psti_audio *audio,
                                         const struct psti_audio_piece *pieces, size_t n_pieces,
                                         struct pst_error *err);
enum pst_status psti_decode_sndfile_read(struct psti_audio *audio, uint64_t first, size_t n,
                                         float *out, struct pst_error *err);
void psti_decode_sndfile_close(struct psti_audio *audio);

#endif
