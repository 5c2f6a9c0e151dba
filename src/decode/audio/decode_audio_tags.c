/* decode_audio_tags.c - finds the sizes of the tags before and after the sound in a file.
 *
 * In: untrusted bytes. Out: sizes. Pure functions, any thread. Tags hold titles and pictures. They
 * are not part of the audio format. */
#include "decode/audio/decode_audio_tags.h"

#include "base/bits.h"

#include <stdbool.h>
#include <string.h>

enum { ID3_HEAD = 10, ID3V1 = 128, ID3V1_MORE = 227, APE_HEAD = 32, LYRICS_MAX = 5100 + 11 + 9 };

/* Returns the size that an ID3v2 header states after its mark. Each byte of the size has 7 bits. A
 * byte with its highest bit set is invalid, and the result is 0, no tag. */
static uint64_t id3_nbytes(const uint8_t *head)
{
    if (head[3] == 0xFF || head[4] == 0xFF || (head[6] | head[7] | head[8] | head[9]) & 0x80)
        return 0;
    uint64_t inside =
        (uint64_t)head[6] << 21 | (uint64_t)head[7] << 14 | (uint64_t)head[8] << 7 | head[9];
    return ID3_HEAD + inside + (head[5] & 0x10 ? ID3_HEAD : 0);
}

uint64_t psti_decode_audio_tag_nbytes(const uint8_t *bytes, uint64_t nbytes)
{
    if (nbytes >= ID3_HEAD && memcmp(bytes, "ID3", 3) == 0)
        return id3_nbytes(bytes);
    if (nbytes >= APE_HEAD && memcmp(bytes, "APETAGEX", 8) == 0 && bytes[23] & 0x20)
        return APE_HEAD + (uint64_t)psti_load_u32(bytes + 12);
    return 0;
}

/* Reads a number of six decimal digits. Returns 0 if there are other characters. */
static uint64_t six_digits(const uint8_t *text)
{
    uint64_t value = 0;
    for (int i = 0; i < 6; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        value = 10 * value + (uint64_t)(text[i] - '0');
    }
    return value;
}

/* Returns the size of the Lyrics3 tag (version 1 or 2) that ends at offset `end`, or 0. */
static uint64_t lyrics_nbytes(const uint8_t *bytes, uint64_t end)
{
    if (end >= 15 && memcmp(bytes + end - 9, "LYRICS200", 9) == 0) {
        uint64_t nbytes = six_digits(bytes + end - 15) + 15;
        return nbytes >= 26 && nbytes <= end && memcmp(bytes + end - nbytes, "LYRICSBEGIN", 11) == 0
                   ? nbytes
                   : 0;
    }
    if (end < 20 || memcmp(bytes + end - 9, "LYRICSEND", 9) != 0)
        return 0;
    for (uint64_t nbytes = 20; nbytes <= end && nbytes <= LYRICS_MAX; nbytes++)
        if (memcmp(bytes + end - nbytes, "LYRICSBEGIN", 11) == 0)
            return nbytes;
    return 0;
}

/* Returns the size of the tag that ends at offset `end`, or 0 if no tag ends there. */
static uint64_t last_tag(const uint8_t *bytes, uint64_t end)
{
    uint64_t nbytes = 0;
    if (end >= ID3V1 && memcmp(bytes + end - ID3V1, "TAG", 3) == 0)
        return ID3V1;
    if (end >= ID3V1_MORE && memcmp(bytes + end - ID3V1_MORE, "TAG+", 4) == 0)
        return ID3V1_MORE;
    if (end >= APE_HEAD && memcmp(bytes + end - APE_HEAD, "APETAGEX", 8) == 0) {
        const uint8_t *foot = bytes + end - APE_HEAD;
        nbytes = (uint64_t)psti_load_u32(foot + 12) + (foot[23] & 0x80 ? APE_HEAD : 0);
        nbytes = nbytes < APE_HEAD ? 0 : nbytes;
    } else if (end >= ID3_HEAD && memcmp(bytes + end - ID3_HEAD, "3DI", 3) == 0)
        nbytes = id3_nbytes(bytes + end - ID3_HEAD);
    else
        nbytes = lyrics_nbytes(bytes, end);
    return nbytes <= end ? nbytes : 0;
}

uint64_t psti_decode_audio_without_tags(const uint8_t *bytes, uint64_t nbytes)
{
    uint64_t tag;
    while ((tag = last_tag(bytes, nbytes)) > 0)
        nbytes -= tag;
    return nbytes;
}
