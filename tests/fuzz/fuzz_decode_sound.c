/* fuzz_decode_sound.c - parses sound files other than WAV, MP3 and Ogg: the last frame of a FLAC
 * file, the chunks of an AIFF file, and tags at both ends of a file. The first byte chooses one. */
#include "decode/audio/decode_audio_kinds.h"
#include "decode/audio/decode_audio_tags.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void check_flac(const uint8_t *data, size_t nbytes)
{
    enum { INFO_NBYTES = 34 };
    struct pst_error err;
    uint64_t n = 0;
    if (nbytes < INFO_NBYTES)
        return;
    enum pst_status status =
        psti_decode_flac_last_frame(data, data + INFO_NBYTES, nbytes - INFO_NBYTES, &n, &err);
    CHECK(status == PST_OK ? n > 0 : err.text[0] != '\0');
}

static void check_aiff(const uint8_t *data, size_t nbytes)
{
    const struct psti_audio audio = {.bytes = data, .nbytes = nbytes, .n_here = nbytes};
    struct pst_error err;
    uint64_t n = UINT64_MAX;
    if (nbytes < 12) /* the kind of a file is recognised by as many bytes */
        return;
    enum pst_status status = psti_decode_aiff_check(&audio, &n, &err);
    CHECK(status == PST_OK ? n == UINT64_MAX || n <= UINT32_MAX : err.text[0] != '\0');
}

static void check_tags(const uint8_t *data, size_t nbytes)
{
    uint64_t end = psti_decode_audio_without_tags(data, nbytes);
    CHECK(end <= nbytes && psti_decode_audio_without_tags(data, end) == end);
    CHECK(psti_decode_audio_tag_nbytes(data, nbytes) <= (uint64_t)1 << 33);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes == 0)
        return 0;
    if (data[0] % 3 == 0)
        check_tags(data + 1, nbytes - 1);
    else if (data[0] % 3 == 1)
        check_flac(data + 1, nbytes - 1);
    else
        check_aiff(data + 1, nbytes - 1);
    return 0;
}
