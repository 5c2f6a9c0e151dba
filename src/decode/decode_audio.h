/* decode_audio.h - a door of the room: audio files in memory, to floats.
 *
 * WAV with PCM or floats, and MP3, are decoded here, from any sample on. FLAC and Ogg are walked
 * here, for their length and for damage, and are decoded by libsndfile, which is opened at run
 * time, as is everything else. A file that is open belongs to one thread. */
#ifndef PST_DECODE_DECODE_AUDIO_H
#define PST_DECODE_DECODE_AUDIO_H

#include <penstock/audio.h>

#include <stdbool.h>

/* The place and kind of the samples of a WAV file. */
struct psti_wav {
    uint64_t data;      /* offset of the first sample in the file */
    uint64_t n_samples; /* of each channel */
    uint32_t rate, channels;
    uint32_t sample_nbytes; /* of one channel: 1, 2, 3, 4 or 8 */
    uint32_t bits;
    bool is_float;
};

/* Parses the headers of a WAV file. n_here: bytes of it that are in memory, from its start on;
 * nbytes: all of them. PST_ERROR_TRUNCATED: the samples begin behind n_here, or the file ends
 * within them. PST_ERROR_UNSUPPORTED: a WAV that libsndfile may know. PST_ERROR_CORRUPT. */
enum pst_status psti_decode_wav_parse(const void *bytes, size_t n_here, uint64_t nbytes,
                                      struct psti_wav *wav, struct pst_error *err);
/* True if the bytes begin as a WAV file does: RIFF, RF64 or BW64. */
bool psti_decode_is_wav(const void *bytes, size_t n_here);
/* Decodes n samples of each channel, of which `bytes` has the first: interleaved floats. `first` is
 * its number, for an error. */
enum pst_status psti_decode_wav_read(const struct psti_wav *wav, const uint8_t *bytes,
                                     uint64_t first, size_t n, float *out, struct pst_error *err);

/* A file in memory that may be there in part. */
struct psti_audio_file {
    const void *bytes; /* room for all of it */
    size_t n_here;     /* bytes from its start on that are there */
    uint64_t nbytes;
    /* Makes bytes first to first + n be there; false: that is not possible. NULL: nobody does. */
    bool (*bring)(void *ctx, uint64_t first, uint64_t n);
    void *ctx;
};

struct psti_sndfile;
struct psti_audio_mp3;
struct psti_audio_ogg;

/* A file that is open. All zero: none. */
struct psti_audio {
    const uint8_t *bytes; /* the caller's, behind tags in front */
    uint64_t nbytes;      /* without these tags */
    uint64_t front;       /* bytes of these tags */
    uint64_t n_here;      /* bytes from its start on that are there */
    bool (*bring)(void *ctx, uint64_t first, uint64_t n);
    void *ctx;
    struct pst_audio_info info;
    struct psti_wav wav;
    /* All NULL: a WAV decoded here. */
    struct psti_sndfile *sndfile;
    struct psti_audio_mp3 *mp3;
    struct psti_audio_ogg *ogg;
    uint8_t *own; /* bytes that libsndfile is shown instead of the file's */
};

/* Opens a file. Its bytes stay the caller's, and stay where they are until psti_decode_audio_close.
 * Of a WAV that is decoded here, only the headers, which must be there, and what is asked for are
 * read, so other bytes may be undefined. Others need all bytes, or `bring`. */
enum pst_status psti_decode_audio_open(struct psti_audio *audio, const struct psti_audio_file *file,
                                       struct pst_error *err);
/* Decodes n samples of each channel from `first` on, interleaved. first + n is at most
 * info.n_samples. */
enum pst_status psti_decode_audio_read(struct psti_audio *audio, uint64_t first, size_t n,
                                       float *out, struct pst_error *err);
void psti_decode_audio_close(struct psti_audio *audio);
/* Opens a file that is there as a whole, decodes all of it and closes it: what
 * psti_decode_audio_read refuses anywhere is refused. The samples go through a buffer of at most 4
 * MiB, so a forged length costs no memory. */
enum pst_status psti_decode_audio_check(const void *bytes, size_t nbytes, struct pst_error *err);

#endif
