/* decode_audio.h - public functions of the module decode for audio files in memory, which become
 * floats.
 *
 * Penstock itself decodes WAV files of PCM or floats, and MP3, from any sample on. It parses FLAC
 * and Ogg only to find their length and any damage. libsndfile, which is loaded at run time,
 * decodes FLAC, Ogg and all other kinds. An open file belongs to one thread. */
#ifndef PST_DECODE_DECODE_AUDIO_H
#define PST_DECODE_DECODE_AUDIO_H

#include <penstock/audio.h>

#include <stdbool.h>

/* Where the samples of a WAV file begin, how many there are, and how they are encoded. */
struct psti_wav {
    uint64_t data;      /* offset of the first sample in the file */
    uint64_t n_samples; /* samples of each channel */
    uint32_t rate, channels;
    uint32_t sample_nbytes; /* bytes of one sample of one channel: 1, 2, 3, 4 or 8 */
    uint32_t bits;
    bool is_float;
};

/* Parses the headers of a WAV file of `nbytes` bytes. Only its first `n_here` bytes are in memory.
 * Returns PST_ERROR_TRUNCATED if the samples begin after n_here, or the file ends within them;
 * PST_ERROR_UNSUPPORTED for an encoding that only libsndfile may know; or PST_ERROR_CORRUPT. */
enum pst_status psti_decode_wav_parse(const void *bytes, size_t n_here, uint64_t nbytes,
                                      struct psti_wav *wav, struct pst_error *err);
/* Returns whether the bytes begin with the mark of a WAV file: RIFF, RF64 or BW64. */
bool psti_decode_is_wav(const void *bytes, size_t n_here);
/* Decodes n samples of each channel to interleaved floats. `bytes` begins with the first of these
 * samples. `first` is its number in the file, for error messages. */
enum pst_status psti_decode_wav_read(const struct psti_wav *wav, const uint8_t *bytes,
                                     uint64_t first, size_t n, float *out, struct pst_error *err);

/* An audio file that the caller has read into memory, completely or only its beginning. */
struct psti_audio_file {
    const void *bytes; /* memory as large as the whole file */
    size_t n_here;     /* bytes from the start of the file that have been read into memory */
    uint64_t nbytes;
    /* Reads the bytes first .. first + n - 1 of the file into memory, or returns false. If it is
     * NULL, missing bytes cannot be read later. */
    bool (*bring)(void *ctx, uint64_t first, uint64_t n);
    void *ctx;
};

struct psti_sndfile;
struct psti_audio_mp3;
struct psti_audio_ogg;

/* An open audio file. If all members are zero, no file is open. */
struct psti_audio {
    const uint8_t *bytes; /* the caller's bytes of the file, from the end of the leading tags on */
    uint64_t nbytes;      /* bytes of the file without the leading tags */
    uint64_t front;       /* bytes of the leading tags */
    uint64_t n_here;      /* bytes of `bytes` that are in memory */
    bool (*bring)(void *ctx, uint64_t first, uint64_t n);
    void *ctx;
    struct pst_audio_info info;
    struct psti_wav wav;
    /* The decoder of the file: at most one of these three pointers is set. All are NULL for a WAV
     * file that Penstock decodes itself. */
    struct psti_sndfile *sndfile;
    struct psti_audio_mp3 *mp3;
    struct psti_audio_ogg *ogg;
    /* a copy of the file's header, changed for libsndfile, which reads it in place of the file's
     * own */
    uint8_t *own;
};

/* Opens a file. The caller keeps the bytes at the same address until psti_decode_audio_close. For a
 * WAV file that Penstock decodes itself, only the headers and the requested samples are read. The
 * headers must be in memory; the other bytes may be undefined. Other kinds of files need all their
 * bytes in memory, or the callback `bring`. */
enum pst_status psti_decode_audio_open(struct psti_audio *audio, const struct psti_audio_file *file,
                                       struct pst_error *err);
/* Decodes n samples of each channel, interleaved, from sample number `first` on. first + n is at
 * most info.n_samples. */
enum pst_status psti_decode_audio_read(struct psti_audio *audio, uint64_t first, size_t n,
                                       float *out, struct pst_error *err);
void psti_decode_audio_close(struct psti_audio *audio);
/* Opens a file whose bytes are all in memory, decodes all of it and closes it. Fails if
 * psti_decode_audio_read would fail for any samples. The samples go through a buffer of at most 4
 * MiB, so a forged length in a header cannot make it allocate much. */
enum pst_status psti_decode_audio_check(const void *bytes, size_t nbytes, struct pst_error *err);

#endif
