/* fuzz_decode_wav.c - reads any bytes as a WAV file: its header alone, then parts of its
 * samples.
 *
 * Besides crashes it detects samples beyond the file, and parts that differ from the whole. */
#include "decode/decode_audio.h"

#include "base/bits.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct psti_wav wav, again;
    struct pst_error err;
    if (psti_decode_wav_parse(data, nbytes, nbytes, &wav, &err) != PST_OK) {
        CHECK(err.text[0] != '\0');
        return 0;
    }
    uint64_t block = (uint64_t)wav.sample_nbytes * wav.channels;
    CHECK(wav.rate > 0 && block > 0 && wav.data <= nbytes);
    CHECK(wav.n_samples <= (nbytes - wav.data) / block);
    /* A header of fewer bytes must give the same result. If the samples' size is 0, which may mean
     * the rest of the file, the parser may ask for more bytes. The last length tried is the whole
     * file. */
    for (size_t n_here = (size_t)wav.data, step = 1; step > 0; n_here += step) {
        enum pst_status status = psti_decode_wav_parse(data, n_here, nbytes, &again, &err);
        bool may_ask = psti_load_u32(data + wav.data - 4) == 0 && n_here < nbytes;
        step = (nbytes - n_here + 1) / 2;
        CHECK(status == PST_OK || (may_ask && status == PST_ERROR_TRUNCATED));
        CHECK(status != PST_OK || memcmp(&wav, &again, sizeof wav) == 0);
    }
    size_t n = (size_t)wav.n_samples, first = n / 3;
    if (n == 0 || n * wav.channels > (1 << 20))
        return 0;
    float *whole = malloc(n * wav.channels * sizeof *whole);
    float *part = malloc((n - first) * wav.channels * sizeof *part);
    CHECK(whole && part);
    CHECK(psti_decode_wav_read(&wav, data + wav.data, 0, n, whole, &err) == PST_OK);
    CHECK(psti_decode_wav_read(&wav, data + wav.data + first * block, first, n - first, part,
                               &err) == PST_OK);
    CHECK(memcmp(whole + first * wav.channels, part, (n - first) * wav.channels * sizeof *part) ==
          0);
    free(whole);
    free(part);
    return 0;
}
