/* decode_audio_tags.h - finds the tags before and after the sound in an audio file. */
#ifndef PST_DECODE_DECODE_AUDIO_TAGS_H
#define PST_DECODE_DECODE_AUDIO_TAGS_H

#include <stdint.h>

enum { PSTI_AUDIO_TAG_HEAD_NBYTES = 32 }; /* bytes that are enough to tell a tag's size */

/* Returns the size of the tag (ID3v2 or APE) at the start of the bytes, or 0 if there is none. The
 * tag may be larger than nbytes. */
uint64_t psti_decode_audio_tag_nbytes(const uint8_t *bytes, uint64_t nbytes);
/* Returns the size of a file without the tags at its end: ID3v1 and its extension, APE, Lyrics3,
 * and ID3v2 with a footer. */
uint64_t psti_decode_audio_without_tags(const uint8_t *bytes, uint64_t nbytes);

#endif
