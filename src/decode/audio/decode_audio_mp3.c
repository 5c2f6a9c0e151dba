/* decode_audio_mp3.c - decodes any range of samples of an MPEG audio layer III (MP3) file.
 *
 * In: the bytes of a file whose frames psti_decode_mp3_walk has checked. Out: interleaved floats.
 * To decode from a frame on, two granules before it are decoded too, because the synthesis filter
 * needs their output. The bit reservoir of as many earlier frames as necessary is collected first.
 * So a sample has the same bits wherever the range begins. If the bits of a frame are inconsistent,
 * decoding that frame returns an error. An open file belongs to one thread. */
#include "decode/audio/decode_audio_kinds.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "decode/audio/decode_audio_tags.h"
#include "decode/audio/decode_mp3.h"

#include <stdio.h>
#include <string.h>

#define ROOM "decode"

struct psti_audio_mp3 {
    struct psti_mp3_walk walk;
    uint64_t nbytes;          /* bytes of the file, without the tags at its end */
    uint64_t i_next, next_at; /* number and offset of the frame to decode next */
    uint64_t n_decoded;       /* frames directly before i_next that were decoded in sequence */
    struct psti_mp3_synthesis *synthesis;
    struct psti_mp3_codes codes;
    struct psti_mp3_part parts[2][2];
    size_t n_kept; /* bytes at the start of `main` that earlier frames have left there */
    uint8_t main[PSTI_MP3_RESERVOIR_MAX + PSTI_MP3_FRAME_MAX + PSTI_MP3_BEHIND];
    float pcm[2 * PSTI_MP3_LINES * 2]; /* decoded samples of frame i_next - 1 */
};

static uint32_t frame_samples(const struct psti_audio_mp3 *self)
{
    return self->walk.first.n_granules * PSTI_MP3_LINES;
}

/* Appends n bytes of main data to the bit reservoir. The reservoir keeps only the newest bytes. */
static void keep(struct psti_audio_mp3 *self, size_t n)
{
    size_t all = self->n_kept + n;
    size_t kept = all < PSTI_MP3_RESERVOIR_MAX ? all : PSTI_MP3_RESERVOIR_MAX;
    memmove(self->main, self->main + all - kept, kept);
    self->n_kept = kept;
}

/* Reads the header of frame i_next and appends its main data to the reservoir. Returns the address
 * of the frame. */
static const uint8_t *enter(struct psti_audio_mp3 *self, const struct psti_audio *audio,
                            struct psti_mp3_header *header)
{
    const uint8_t *frame = audio->bytes + self->next_at;
    (void)psti_decode_mp3_header_read(frame, header);
    memcpy(self->main + self->n_kept, frame + header->main, header->nbytes - header->main);
    return frame;
}

static void leave(struct psti_audio_mp3 *self, const struct psti_audio *audio,
                  const struct psti_mp3_header *header)
{
    keep(self, header->nbytes - header->main);
    self->i_next++;
    self->next_at += header->nbytes;
    if (self->i_next < self->walk.n_frames)
        self->next_at = psti_decode_mp3_walk_next(audio->bytes, self->nbytes, self->next_at);
}

/* Makes a frame whose offset is in the index the next frame, and forgets all earlier frames. */
static void go(struct psti_audio_mp3 *self, size_t i_index)
{
    self->i_next = (uint64_t)i_index * PSTI_MP3_INDEX_EVERY;
    self->next_at = self->walk.index[i_index];
    self->n_kept = 0;
    self->n_decoded = 0;
    psti_decode_mp3_synthesis_restart(self->synthesis);
}

/* Moves to frame `i` with a filled bit reservoir. Begins with a frame that is far enough ahead to
 * fill the reservoir, or with the first frame of the file. */
static void gather(struct psti_audio_mp3 *self, const struct psti_audio *audio, uint64_t i)
{
    struct psti_mp3_header header;
    size_t i_index = (size_t)(i / PSTI_MP3_INDEX_EVERY);
    do {
        go(self, i_index);
        while (self->i_next < i) {
            (void)enter(self, audio, &header);
            leave(self, audio, &header);
        }
    } while (self->n_kept < PSTI_MP3_RESERVOIR_MAX && i_index-- > 0);
}

static enum pst_status decode_next(struct psti_audio_mp3 *self, const struct psti_audio *audio,
                                   struct pst_error *err)
{
    struct psti_mp3_header header;
    uint32_t begin = 0;
    const uint8_t *frame = enter(self, audio, &header);
    size_t n = header.nbytes - header.main;
    memset(self->main + self->n_kept + n, 0, PSTI_MP3_BEHIND);
    const char *wrong = psti_decode_mp3_side_read(frame, &header, self->parts, &begin);
    /* data of earlier frames is missing, because the file was cut: silence, as in mpg123 */
    if (!wrong && begin > self->n_kept)
        for (int i = 0; i < 4; i++)
            self->parts[i / 2][i % 2] = (struct psti_mp3_part){0};
    else if (!wrong)
        wrong = psti_decode_mp3_main_read(&self->codes, self->main + self->n_kept - begin,
                                          n + begin, &header, self->parts);
    if (wrong)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, NULL, (int64_t)self->next_at,
                            "frame %llu is damaged: %s", (unsigned long long)self->i_next, wrong);
    for (uint32_t g = 0; g < header.n_granules; g++)
        psti_decode_mp3_synthesis_run(self->synthesis, &header, self->parts[g],
                                      self->pcm + g * PSTI_MP3_LINES * header.channels);
    leave(self, audio, &header);
    self->n_decoded++;
    return PST_OK;
}

/* Decodes frames up to frame i, and leaves the samples of frame i in `pcm`. */
static enum pst_status bring_frame(struct psti_audio_mp3 *self, const struct psti_audio *audio,
                                   uint64_t i, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    uint64_t before = 2 / self->walk.first.n_granules, first = i > before ? i - before : 0;
    if (self->i_next > i + 1 || self->i_next < first || self->n_decoded == 0)
        gather(self, audio, first);
    while (status == PST_OK && self->i_next <= i)
        status = decode_next(self, audio, err);
    return status;
}

enum pst_status psti_decode_mp3_read(struct psti_audio *audio, uint64_t first, size_t n, float *out,
                                     struct pst_error *err)
{
    struct psti_audio_mp3 *self = audio->mp3;
    uint32_t samples = frame_samples(self), channels = self->walk.first.channels;
    for (uint64_t at = self->walk.skip + first; n > 0;) {
        enum pst_status status = bring_frame(self, audio, at / samples, err);
        if (status != PST_OK) {
            self->n_decoded = 0; /* the decoder's state is useless after an error */
            return status;
        }
        size_t offset = (size_t)(at % samples), k = samples - offset < n ? samples - offset : n;
        memcpy(out, self->pcm + offset * channels, k * channels * sizeof *out);
        out += k * channels;
        at += k;
        n -= k;
    }
    return PST_OK;
}

enum pst_status psti_decode_mp3_open(struct psti_audio *audio, struct pst_error *err)
{
    struct psti_audio_mp3 *self = audio->mp3 = psti_calloc(1, sizeof *self);
    if (self)
        self->synthesis = psti_decode_mp3_synthesis_open();
    if (!self || !self->synthesis)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to decode an audio file");
    self->nbytes = psti_decode_audio_without_tags(audio->bytes, audio->nbytes);
    enum pst_status status = psti_decode_mp3_walk(audio->bytes, self->nbytes, &self->walk, err);
    if (status != PST_OK)
        return status;
    psti_decode_mp3_codes_fill(&self->codes);
    audio->info.rate = self->walk.first.rate;
    audio->info.channels = self->walk.first.channels;
    audio->info.n_samples = self->walk.n_samples;
    return PST_OK;
}

void psti_decode_mp3_close(struct psti_audio *audio)
{
    psti_decode_mp3_walk_free(&audio->mp3->walk);
    psti_decode_mp3_synthesis_free(audio->mp3->synthesis);
    psti_free(audio->mp3);
    audio->mp3 = NULL;
}
