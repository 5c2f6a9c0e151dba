/* decode_png_orientation.c - finds the orientation of a PNG in its metadata.
 *
 * In: the bytes of the file, up to the last chunk that is present. Out: a number from 1 to 8. It is
 * read from the chunk eXIf, from the text "Raw profile type exif" (which ImageMagick writes) and
 * from the text "XML:com.adobe.xmp", in chunks tEXt, zTXt and iTXt, before or after the pixels. Of
 * several chunks of one kind, the last one counts. Damaged chunks are ignored. Any thread. Nothing
 * is allocated: zlib works in an array on the stack, and texts are read in pieces. All compressed
 * texts of a file together may inflate to TEXTS_NBYTES_MAX bytes. */
#include "decode/png/decode_png.h"

#include "base/bits.h"
#include "base/orientation.h"

#include <libdeflate.h>
#include <string.h>
#include <zlib.h>

#define SIGNATURE_NBYTES 8
#define CHUNK_SPARE_NBYTES ((size_t)12) /* length, name and checksum of a chunk */
/* The most bytes of EXIF data that are read. Cameras write no more, since a JPEG holds at most 64
 * KiB. */
#define PROFILE_NBYTES_MAX ((size_t)64 << 10)
/* Bytes of memory for zlib. zlib needs about 40 KiB, zlib-ng some more. */
#define ZLIB_NBYTES ((size_t)64 << 10)
/* The most bytes of one text, the same as in Pillow. */
#define TEXT_NBYTES_MAX ((uint64_t)1 << 20)
#define TEXTS_NBYTES_MAX ((uint64_t)4 << 20)

static const char PROFILE_NAME[] = "Raw profile type exif", XMP_NAME[] = "XML:com.adobe.xmp";

struct chunk {
    const uint8_t *name, *data;
    size_t nbytes;
};

struct found {
    struct psti_orientation_marks marks;
    bool has_profile;
    uint8_t profile; /* orientation of EXIF data stored as text; 0: none */
    uint64_t left;   /* bytes that compressed texts may still inflate to */
};

/* EXIF data as text, as ImageMagick writes it: a line feed, the name, a line feed, the length, a
 * line feed, then lines of hexadecimal digits. */
struct profile {
    uint8_t n_lines; /* line feeds read so far, at most 3 */
    bool is_broken, has_half;
    uint8_t half;
    size_t nbytes;
    uint8_t bytes[PROFILE_NBYTES_MAX];
};

/* A text that is read piece by piece. */
struct text {
    struct profile *profile; /* NULL: the text is XMP */
    struct psti_xmp_search search;
};

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_blank(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static void take_digit(struct profile *profile, uint8_t c)
{
    int digit = hex_digit(c);
    if (digit < 0) {
        /* Blanks are allowed between the bytes, but not between the two digits of a byte. */
        profile->is_broken |= !is_blank(c) || profile->has_half;
        return;
    }
    profile->has_half = !profile->has_half;
    if (profile->has_half)
        profile->half = (uint8_t)digit;
    else if (profile->nbytes < PROFILE_NBYTES_MAX)
        profile->bytes[profile->nbytes++] = (uint8_t)(profile->half << 4 | digit);
}

static void take_text(struct text *text, const uint8_t *bytes, size_t nbytes)
{
    struct profile *profile = text->profile;
    if (!profile) {
        psti_xmp_search(&text->search, bytes, nbytes);
        return;
    }
    for (size_t i = 0; i < nbytes; i++)
        if (profile->n_lines < 3)
            profile->n_lines += bytes[i] == '\n';
        else if (bytes[i] != '\n') /* Pillow joins the lines before it reads digits */
            take_digit(profile, bytes[i]);
}

/* Memory for zlib: the bytes of the array from `at` on. Memory that zlib frees is not reused. */
struct zlib_memory {
    _Alignas(64) uint8_t bytes[ZLIB_NBYTES];
    size_t at;
};

static voidpf zlib_alloc(voidpf opaque, uInt n, uInt nbytes)
{
    struct zlib_memory *memory = opaque;
    size_t wanted = ((size_t)n * nbytes + 63) & ~(size_t)63;
    if (nbytes != 0 && n > ZLIB_NBYTES / nbytes)
        return Z_NULL;
    if (wanted > ZLIB_NBYTES - memory->at)
        return Z_NULL;
    memory->at += wanted;
    return memory->bytes + memory->at - wanted;
}

static void zlib_free(voidpf opaque, voidpf at)
{
    (void)opaque;
    (void)at;
}

/* Inflates and reads a compressed text. Returns false if it is damaged or too long. */
static bool take_packed(struct text *text, const uint8_t *bytes, size_t nbytes, uint64_t *left)
{
    struct zlib_memory memory;
    uint8_t piece[4096];
    uint64_t n_given = 0;
    int result;
    memory.at = 0;
    z_stream stream = {.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = &memory};
    if (inflateInit(&stream) != Z_OK)
        return false;
    stream.next_in = (z_const Bytef *)(uintptr_t)bytes;
    stream.avail_in = (uInt)nbytes;
    do {
        stream.next_out = piece;
        stream.avail_out = sizeof piece;
        result = inflate(&stream, Z_NO_FLUSH);
        size_t n = sizeof piece - stream.avail_out;
        n_given += n;
        if (n > *left || n_given > TEXT_NBYTES_MAX) {
            result = Z_DATA_ERROR;
            break;
        }
        *left -= n;
        take_text(text, piece, n);
    } while (result == Z_OK);
    inflateEnd(&stream);
    /* A stream that ends early makes zlib report a buffer error. Pillow uses the bytes inflated so
     * far, and so does this function. */
    return result == Z_STREAM_END || result == Z_BUF_ERROR;
}

/* Finds the text of an iTXt chunk; *text points behind the keyword when called. Sets *packed to
 * whether the text is compressed. */
static bool find_international(const uint8_t **text, size_t *nbytes, bool *packed)
{
    const uint8_t *at = *text, *end = at + *nbytes;
    if (*nbytes < 2 || (at[0] != 0 && at[1] != 0))
        return false;
    *packed = at[0] != 0;
    at += 2;
    for (int i = 0; i < 2; i++) { /* skips the language tag and the translated keyword */
        at = memchr(at, 0, (size_t)(end - at));
        if (!at)
            return false;
        at++;
    }
    *text = at;
    *nbytes = (size_t)(end - at);
    return true;
}

static bool has_keyword(const struct chunk *chunk, const char *keyword)
{
    size_t n = strlen(keyword) + 1;
    return chunk->nbytes >= n && memcmp(chunk->data, keyword, n) == 0;
}

static bool is_named(const struct chunk *chunk, const char *name)
{
    return memcmp(chunk->name, name, 4) == 0;
}

/* Reads the text of a chunk whose keyword was found. Returns false if the chunk is damaged. */
static bool read_text(const struct chunk *chunk, const char *keyword, struct text *text,
                      uint64_t *left)
{
    const uint8_t *at = chunk->data + strlen(keyword) + 1;
    size_t nbytes = chunk->nbytes - strlen(keyword) - 1;
    bool packed = is_named(chunk, "zTXt");
    if (is_named(chunk, "iTXt") && !find_international(&at, &nbytes, &packed))
        return false;
    if (is_named(chunk, "zTXt")) {
        if (nbytes == 0 || at[0] != 0) /* the byte after the keyword is the compression method */
            return false;
        at++;
        nbytes--;
    }
    if (packed)
        return take_packed(text, at, nbytes, left);
    take_text(text, at, nbytes);
    return true;
}

static void read_profile(const struct chunk *chunk, struct found *found)
{
    struct profile profile;
    struct text text = {.profile = &profile};
    memset(&profile, 0, offsetof(struct profile, bytes));
    if (!read_text(chunk, PROFILE_NAME, &text, &found->left))
        return;
    found->has_profile = true;
    found->profile = profile.is_broken || profile.has_half
                         ? 0
                         : psti_exif_orientation(profile.bytes, profile.nbytes);
}

static void read_xmp(const struct chunk *chunk, struct found *found)
{
    struct text text = {0};
    if (read_text(chunk, XMP_NAME, &text, &found->left))
        found->marks.xmp = text.search.orientation;
}

static bool is_text(const struct chunk *chunk)
{
    return is_named(chunk, "tEXt") || is_named(chunk, "zTXt") || is_named(chunk, "iTXt");
}

static bool is_whole(const struct chunk *chunk)
{
    return libdeflate_crc32(0, chunk->name, chunk->nbytes + 4) ==
           psti_load_u32_big(chunk->data + chunk->nbytes);
}

static void read_chunk(const struct chunk *chunk, struct found *found)
{
    bool is_exif = is_named(chunk, "eXIf");
    bool is_profile = is_text(chunk) && has_keyword(chunk, PROFILE_NAME);
    bool is_xmp = is_text(chunk) && has_keyword(chunk, XMP_NAME);
    if ((!is_exif && !is_profile && !is_xmp) || !is_whole(chunk))
        return;
    if (is_exif) {
        found->marks.has_exif = true;
        found->marks.exif = psti_exif_orientation(chunk->data, chunk->nbytes);
    } else if (is_profile) {
        read_profile(chunk, found);
    } else {
        read_xmp(chunk, found);
    }
}

uint8_t psti_decode_png_orientation(const uint8_t *bytes, size_t nbytes)
{
    struct found found = {.left = TEXTS_NBYTES_MAX};
    bool seen_pixels = false;
    for (size_t at = SIGNATURE_NBYTES; nbytes >= at && nbytes - at >= CHUNK_SPARE_NBYTES;) {
        struct chunk chunk = {bytes + at + 4, bytes + at + 8, psti_load_u32_big(bytes + at)};
        if (chunk.nbytes > nbytes - at - CHUNK_SPARE_NBYTES || is_named(&chunk, "IEND") ||
            (seen_pixels && is_named(&chunk, "fcTL"))) /* the next frame of an animation */
            break;
        seen_pixels |= is_named(&chunk, "IDAT");
        read_chunk(&chunk, &found);
        at += chunk.nbytes + CHUNK_SPARE_NBYTES;
    }
    if (!found.marks.has_exif && found.has_profile) {
        found.marks.has_exif = true;
        found.marks.exif = found.profile;
    }
    return psti_orientation_of(&found.marks);
}
