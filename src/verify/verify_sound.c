/* verify_sound.c - decodes a whole sound, to find what a loader would refuse.
 *
 * In: the bytes of an audio file. Out: PST_OK, or the decoder's error. The samples go through a
 * buffer of bounded size, so a forged length costs no memory. Any thread. */
#include "verify/verify.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "decode/decode_audio.h"

/* Samples of all channels that are decoded at once: 4 MiB of floats. */
#define PIECE_N_FLOATS ((size_t)1 << 20)

static enum pst_status read_all(struct psti_audio *audio, float *piece, uint64_t n_piece,
                                struct pst_error *err)
{
    uint64_t n_samples = audio->info.n_samples;
    enum pst_status status = PST_OK;
    for (uint64_t first = 0; status == PST_OK && first < n_samples; first += n_piece) {
        uint64_t n = n_samples - first < n_piece ? n_samples - first : n_piece;
        status = psti_decode_audio_read(audio, first, (size_t)n, piece, err);
    }
    return status;
}

enum pst_status psti_verify_sound(const void *bytes, size_t nbytes, struct pst_error *err)
{
    const struct psti_audio_file file = {.bytes = bytes, .n_here = nbytes, .nbytes = nbytes};
    struct psti_audio audio = {0};
    enum pst_status status = psti_decode_audio_open(&audio, &file, err);
    if (status != PST_OK)
        return status;
    uint64_t channels = audio.info.channels;
    uint64_t n_piece = channels < PIECE_N_FLOATS ? PIECE_N_FLOATS / channels : 1;
    n_piece = audio.info.n_samples < n_piece ? audio.info.n_samples : n_piece;
    float *piece = psti_alloc((size_t)(n_piece * channels) * sizeof *piece + 1);
    if (piece)
        status = read_all(&audio, piece, n_piece, err);
    else
        status = psti_fail(err, PST_ERROR_MEMORY, "verify", "out of memory to decode a sound");
    if (status != PST_OK && err && !err->codec[0])
        psti_error_set_codec(err, audio.info.codec);
    psti_free(piece);
    psti_decode_audio_close(&audio);
    return status;
}
