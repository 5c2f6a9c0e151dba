/* decode_audio.h - a door of the room: decodes audio files in memory to floats.
 *
 * This room decodes WAV with PCM or floats, and MP3, from any sample on. It walks through FLAC and
 * Ogg to find their length and any damage. libsndfile, which is opened at run time, decodes these
 * two and all other kinds. An open file belongs to one thread. */
#ifndef PST_DECODE_DECODE_AUDIO_H
#define PST_DECODE_DECODE_AUDIO_H

#include <penstock/audio.h>

#include <stdbool.h>

/* Where the samples of a WAV file are, and of what kind they are. */
struct psti_wav {
    uint64_t data;      /* offset of the first sample in the file */
    uint64_t n_samples; /* samples of each channel */
    uint32_t rate, channels;
    uint32_t sample_nbytes; /* bytes of a sample of one channel: 1, 2, 3, 4 or 8 */
    uint32_t bits;
    bool is_float;
};

/* Parses the headers of a WAV file of `nbytes` bytes, of which the first `n_here` are in memory.
 * Returns PST_ERROR_TRUNCATED if the samples begin after n_here, or the file ends within them;
 * PST_ERROR_UNSUPPORTED for a WAV that libsndfile may know; or PST_ERROR_CORRUPT. */
enum pst_status psti_decode_wav_parse(const void *bytes, size_t n_here, uint64_t nbytes,
                                      struct psti_wav *wav, struct pst_error *err);
/* Returns whether the bytes begin as a WAV file does: with RIFF, RF64 or BW64. */
bool psti_decode_is_wav(const void *bytes, size_t n_here);
/* Decodes n samples of each channel to interleaved floats. `bytes` begins with the first of them,
 * which has number `first` in the file; errors name that number. */
enum pst_status psti_decode_wav_read(const struct psti_wav *wav, const uint8_t *bytes,
                                     uint64_t first, size_t n, float *out, struct pst_error *err);

/* A file in memory, of which only the beginning may be present. */
struct psti_audio_file {
    const void *bytes; /* memory for the whole file */
    size_t n_here;     /* bytes from the start on that are present */
    uint64_t nbytes;
    /* Makes the bytes first .. first + n - 1 present, or returns false. NULL: bytes that are
     * missing stay so. */
    bool (*bring)(void *ctx, uint64_t first, uint64_t n);
    void *ctx;
};

struct psti_sndfile;
struct psti_audio_mp3;
struct psti_audio_ogg;

/* An open file. All zero: no file is open. */
struct psti_audio {
    const uint8_t *bytes; /* the caller's bytes, after the leading tags */
    uint64_t nbytes;      /* bytes of the file without leading tags */
    uint64_t front;       /* bytes of the leading tags */
    uint64_t n_here;      /* bytes from `bytes` on that are present */
    bool (*bring)(void *ctx, uint64_t first, uint64_t n);
    void *ctx;
    struct pst_audio_info info;
    struct psti_wav wav;
    /* At most one of the three is set. All are NULL for a WAV that this room decodes. */
    struct psti_sndfile *sndfile;
    struct psti_audio_mp3 *mp3;
    struct psti_audio_ogg *ogg;
    uint8_t *own; /* a copy of the header that libsndfile reads instead of the file's */
};

/* Opens a file. The bytes stay the caller's, and must stay where they are until
 * psti_decode_audio_close. Of a WAV that this room decodes, only the headers, which must be
 * present, and the samples that are asked for are read; other bytes may be undefined. Other kinds
 * need all bytes, or `bring`. */
enum pst_status psti_decode_audio_open(struct psti_audio *audio, const struct psti_audio_file *file,
                                       struct pst_error *err);
/* Decodes n samples of each channel from number `first` on, interleaved. first + n is at most
 * info.n_samples. */
enum pst_status psti_decode_audio_read(struct psti_audio *audio, uint64_t first, size_t n,
                                       float *out, struct pst_error *err);
void psti_decode_audio_close(struct psti_audio *audio);
/* Opens a file that is present as a whole, decodes all of it and closes it. Fails if
 * psti_decode_audio_read would fail for any samples. The samples go through a buffer of at most 4
 * MiB, so a forged length costs no memory. */
enum pst_status psti_decode_audio_check(const void *bytes, size_t nbytes, struct pst_error *err);

#endif
