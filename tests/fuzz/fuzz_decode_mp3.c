/* fuzz_decode_mp3.c - reads any bytes as an MP3 file: walks over its frames, then decodes its
 * sound.
 *
 * Besides crashes it detects offsets beyond the file, samples that are not finite, and parts
 * that differ from the whole. */
#include "decode/audio/decode_audio_kinds.h"
#include "decode/audio/decode_audio_tags.h"
#include "decode/audio/decode_mp3.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

enum { SAMPLES_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void check_walk(const uint8_t *data, size_t nbytes)
{
    struct psti_mp3_walk walk;
    struct pst_error err;
    if (psti_decode_mp3_walk(data, nbytes, &walk, &err) != PST_OK) {
        CHECK(err.text[0] != '\0' && walk.index == NULL);
        return;
    }
    CHECK(walk.n_frames <= nbytes / walk.first.main);
    CHECK(walk.n_index == (walk.n_frames + PSTI_MP3_INDEX_EVERY - 1) / PSTI_MP3_INDEX_EVERY);
    CHECK(walk.n_samples <= walk.n_frames * walk.first.n_granules * PSTI_MP3_LINES);
    for (size_t i = 0; i < walk.n_index; i++)
        CHECK(walk.index[i] < nbytes && data[walk.index[i]] == 0xFF);
    psti_decode_mp3_walk_free(&walk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct pst_error err;
    struct psti_audio audio = {.bytes = data, .nbytes = nbytes, .n_here = nbytes};
    check_walk(data, (size_t)psti_decode_audio_without_tags(data, nbytes));
    bool is_open = psti_decode_mp3_open(&audio, &err) == PST_OK;
    size_t n = is_open && audio.info.n_samples < SAMPLES_MAX ? (size_t)audio.info.n_samples : 0;
    size_t channels = audio.info.channels, first = n - n / 3;
    float *whole = n ? malloc(n * channels * sizeof *whole) : NULL;
    float *part = n ? malloc((n - first) * channels * sizeof *part) : NULL;
    if (n > 0 && psti_decode_mp3_read(&audio, 0, n, whole, &err) == PST_OK) {
        CHECK(psti_decode_mp3_read(&audio, first, n - first, part, &err) == PST_OK);
        CHECK(memcmp(part, whole + first * channels, (n - first) * channels * sizeof *part) == 0);
    }
    free(whole);
    free(part);
    psti_decode_mp3_close(&audio);
    return 0;
}
