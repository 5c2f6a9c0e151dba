/* test_decode_sounds.c - builds MP3 and Ogg files and tests what the walks over them find and
 * refuse. MP3 needs no library here, because frames of silence consist of headers only. */
#include "test.h"

#include "base/bits.h"
#include "decode/decode_audio.h"
#include "decode/audio/decode_audio_tags.h"
#include "decode/audio/decode_ogg.h"

#include <string.h>

enum { FILE_MAX = 1 << 16, FRAME = 144 }; /* frames of 16 kHz, 32 kbit/s, one channel */

struct file {
    uint8_t bytes[FILE_MAX];
    size_t n;
};

static void add(struct file *file, const void *bytes, size_t n)
{
    assert_true(file->n + n <= FILE_MAX);
    if (bytes)
        memcpy(file->bytes + file->n, bytes, n);
    else
        memset(file->bytes + file->n, 0, n);
    file->n += n;
}

/* Appends frames of silence. Returns the first of them. */
static uint8_t *add_frames(struct file *file, int n)
{
    static const uint8_t head[4] = {0xFF, 0xF3, 0x48, 0xC0};
    uint8_t *first = file->bytes + file->n;
    for (int i = 0; i < n; i++) {
        add(file, head, 4);
        add(file, NULL, FRAME - 4);
    }
    return first;
}

/* Turns a frame into an info frame that states a number of frames and, if delay is 0 or more, the
 * gaps at both ends. */
static void put_info(uint8_t *frame, uint32_t n_frames, int delay, int padding)
{
    uint8_t *tag = frame + 4 + 9;
    memcpy(tag, "Info", 4);
    tag[7] = 1;
    tag[11] = (uint8_t)n_frames;
    if (delay < 0)
        return;
    memcpy(tag + 12, "LAME3.100", 9);
    tag[12 + 21] = (uint8_t)(delay >> 4);
    tag[12 + 22] = (uint8_t)((delay & 15) << 4 | padding >> 8);
    tag[12 + 23] = (uint8_t)padding;
}

static enum pst_status probe(const struct file *file, struct pst_audio_info *info,
                             struct pst_error *err)
{
    return pst_audio_probe(file->bytes, file->n, info, sizeof *info, err);
}

static uint64_t samples_of(const struct file *file)
{
    struct pst_audio_info info;
    struct pst_error err;
    assert_ok(probe(file, &info, &err));
    assert_string_equal(info.codec, "mp3");
    assert_true(info.rate == 16000 && info.channels == 1);
    return info.n_samples;
}

static void lengths_of_mp3(void **state)
{
    (void)state;
    struct file file = {0};
    float out[576];
    struct pst_error err;
    add_frames(&file, 200);
    assert_int_equal(samples_of(&file), 200 * 576);
    assert_ok(pst_audio_decode(file.bytes, file.n, 100 * 576 + 5, 576, out, &err));
    for (int i = 0; i < 576; i++)
        assert_true(out[i] == 0);
    /* the file states no delay, so only the decoder's own counts */
    put_info(file.bytes, 199, -1, 0);
    assert_int_equal(samples_of(&file), 199 * 576 - 529);
    put_info(file.bytes, 199, 1105, 700);
    assert_int_equal(samples_of(&file), 199 * 576 - 1105 - 700);
    /* less padding than the decoder's delay: nothing is cut at the end */
    put_info(file.bytes, 199, 1105, 100);
    assert_int_equal(samples_of(&file), 199 * 576 - 1105 - 529);
    put_info(file.bytes, 0, 1105, 700); /* without a number of frames nothing is cut */
    assert_int_equal(samples_of(&file), 199 * 576);
    memcpy(file.bytes + 13, "VBRI", 4);
    assert_int_equal(samples_of(&file), 200 * 576);
}

static void tags_around_mp3(void **state)
{
    (void)state;
    struct file file = {0};
    static const uint8_t id3[10] = {'I', 'D', '3', 4, 0, 0, 0, 0, 1, 2};
    static const uint8_t footed[10] = {'I', 'D', '3', 4, 0, 0x10, 0, 0, 0, 1};
    static const uint8_t foot[10] = {'3', 'D', 'I', 4, 0, 0x10, 0, 0, 0, 1};
    uint8_t ape[32] = "APETAGEX\320\7\0\0\40\0\0\0";
    add(&file, id3, 10);
    add(&file, NULL, 130);
    add(&file, footed, 10);
    add(&file, "x", 1);
    add(&file, foot, 10);
    add(&file, NULL, 50); /* padding that no tag counts */
    add_frames(&file, 3);
    add(&file, id3, 10);
    add(&file, NULL, 130);
    add_frames(&file, 2);
    add(&file, NULL, 33);
    add(&file, "LYRICSBEGINwordsLYRICSEND", 25);
    add(&file, ape, 32);
    add(&file, footed, 10);
    add(&file, "x", 1);
    add(&file, foot, 10);
    add(&file, "TAG", 3);
    add(&file, NULL, 125);
    assert_int_equal(samples_of(&file), 5 * 576);
    assert_int_equal(psti_decode_audio_without_tags(file.bytes, file.n),
                     file.n - 128 - 21 - 32 - 25);
}

static void wrong_mp3(void **state)
{
    (void)state;
    struct pst_audio_info info;
    struct pst_error err;
    struct file file = {0};
    uint8_t *first = add_frames(&file, 4);
    struct {
        int frame, byte;
        uint8_t value;
        enum pst_status status;
        const char *text;
    } changes[] = {{0, 2, 0x08, PST_ERROR_UNSUPPORTED, "free format"},
                   {2, 2, 0x08, PST_ERROR_UNSUPPORTED, "free format"},
                   {0, 1, 0xF5, PST_ERROR_UNSUPPORTED, "layer I or II"},
                   {0, 1, 0xF7, PST_ERROR_UNSUPPORTED, "layer I or II"},
                   {2, 1, 0xEB, PST_ERROR_CORRUPT, "no MPEG audio frame"},
                   {2, 1, 0xE3, PST_ERROR_CORRUPT, "8000 samples per second"},
                   {2, 2, 0xF8, PST_ERROR_CORRUPT, "no MPEG audio frame behind 2 frames"},
                   {1, 3, 0x00, PST_ERROR_CORRUPT, "2 channels"},
                   {3, 2, 0x58, PST_ERROR_TRUNCATED, "within frame 3"},
                   {1, 0, 0x00, PST_ERROR_CORRUPT, "no MPEG audio frame behind 1 frames"}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        uint8_t *byte = first + FRAME * changes[i].frame + changes[i].byte, before = *byte;
        *byte = changes[i].value;
        assert_int_equal(probe(&file, &info, &err), changes[i].status);
        assert_non_null(strstr(err.text, changes[i].text));
        *byte = before;
    }
    put_info(first, 4, 0, 0);
    assert_int_equal(probe(&file, &info, &err), PST_ERROR_TRUNCATED);
    put_info(first, 2, 0, 0);
    assert_int_equal(probe(&file, &info, &err), PST_ERROR_CORRUPT);
    for (file.n = 1; file.n < 3 * FRAME; file.n++)
        assert_true(probe(&file, &info, &err) != PST_OK);
}

/* Frames have invalid side information. */
static void damaged_frames(void **state)
{
    (void)state;
    struct pst_error err;
    struct file file = {0};
    float out[4 * 576];
    uint8_t *side = add_frames(&file, 4) + 2 * FRAME + 4;
    static const struct {
        uint8_t side[9];
        const char *text;
    } cases[] = {{{0, 0x7F, 0xF8}, "needs more bits"},
                 {{0, 0x02, 0x07, 0xF0}, "more than 576 values"},
                 {{0, 0, 0, 0, 0, 0x01}, "window is switched to the long one"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(side, cases[i].side, 9);
        assert_int_equal(pst_audio_decode(file.bytes, file.n, 0, 4 * 576, out, &err),
                         PST_ERROR_CORRUPT);
        assert_non_null(strstr(err.text, cases[i].text));
        assert_non_null(strstr(err.text, "frame 2"));
        assert_int_equal(err.offset, 2 * FRAME);
        assert_int_equal(psti_decode_audio_check(file.bytes, file.n, &err), PST_ERROR_CORRUPT);
        assert_ok(pst_audio_decode(file.bytes, file.n, 0, 2 * 576, out, &err)); /* not decoded */
    }
    memset(side, 0, 9);
    assert_ok(psti_decode_audio_check(file.bytes, file.n, &err));
}

/* Appends a page. Its CRC is computed bit by bit, independently of the code under test. */
static void add_page(struct file *file, uint8_t flags, uint32_t serial, uint32_t number,
                     uint64_t position, const void *packet, uint8_t n)
{
    uint8_t head[28] = "OggS";
    uint8_t *page = file->bytes + file->n;
    uint32_t crc = 0;
    head[5] = flags;
    psti_store_u64(head + 6, position);
    psti_store_u32(head + 14, serial);
    psti_store_u32(head + 18, number);
    head[26] = 1;
    head[27] = n;
    add(file, head, sizeof head);
    add(file, packet, n);
    for (size_t i = 0; i < sizeof head + n; i++) {
        crc ^= (uint32_t)page[i] << 24;
        for (int bit = 0; bit < 8; bit++)
            crc = crc << 1 ^ (crc >> 31 ? 0x04C11DB7u : 0);
    }
    psti_store_u32(page + 22, crc);
}

/* Appends an Opus stream: pages of one packet of 20 ms each, from a position on. */
static void add_opus(struct file *file, uint32_t serial, int n, uint64_t from, uint64_t cut)
{
    static const uint8_t head[19] = "OpusHead\1\1\70\1\200\273\0\0\0\0";
    static const uint8_t packet[3] = {0xF8, 0xFF, 0xFE};
    add_page(file, 2, serial, 0, 0, head, 19);
    add_page(file, 0, serial, 1, 0, "OpusTags\0\0\0\0\0\0\0", 16);
    for (int i = 0; i < n; i++) {
        bool last = i == n - 1;
        add_page(file, last ? 4 : 0, serial, (uint32_t)i + 2,
                 from + 960 * ((uint64_t)i + 1) - (last ? cut : 0), packet, 3);
    }
}

static void links_of_opus(void **state)
{
    (void)state;
    struct file file = {0};
    struct psti_ogg_walk walk;
    struct pst_error err;
    add_opus(&file, 7, 1000, 96000, 100);
    add_opus(&file, 8, 3, 0, 0);
    assert_ok(psti_decode_ogg_walk(file.bytes, file.n, &walk, &err));
    assert_int_equal(walk.n_links, 2);
    const struct psti_ogg_link *link = &walk.links[0];
    assert_true(link->codec == PSTI_OGG_OPUS && link->pre_skip == 312);
    assert_int_equal(link->first_position, 96000);
    assert_int_equal(link->last_position, 96000 + 960 * 1000 - 100);
    assert_int_equal(link->n_places, 1 + (960 * 998 + PSTI_OPUS_BEFORE) / PSTI_OPUS_SEGMENT + 1);
    for (size_t i = 0; i < link->n_places; i++) {
        uint64_t begin = link->first_position + i * PSTI_OPUS_SEGMENT;
        uint64_t place = link->places[i].position;
        assert_true(i == 0 ? place == begin : place <= begin - PSTI_OPUS_BEFORE);
        if (i > 0 && i + 1 < link->n_places)
            assert_true(place + 960 > begin - PSTI_OPUS_BEFORE);
    }
    assert_int_equal(walk.links[1].begin, link->end);
    psti_decode_ogg_walk_free(&walk);
}

static enum pst_status walk_of(const struct file *file, struct pst_error *err)
{
    struct psti_ogg_walk walk;
    enum pst_status status = psti_decode_ogg_walk(file->bytes, file->n, &walk, err);
    if (status == PST_OK)
        psti_decode_ogg_walk_free(&walk);
    return status;
}

static void wrong_ogg(void **state)
{
    (void)state;
    struct file file = {0};
    struct pst_error err;
    add_opus(&file, 7, 5, 0, 0);
    assert_ok(walk_of(&file, &err));
    size_t all = file.n;
    for (file.n = 1; file.n < all; file.n++)
        assert_int_equal(walk_of(&file, &err), PST_ERROR_TRUNCATED);
    for (size_t i = 0; i < all; i++) {
        file.bytes[i] ^= 0x10;
        assert_true(walk_of(&file, &err) != PST_OK);
        file.bytes[i] ^= 0x10;
    }
    add(&file, "x", 1);
    assert_true(walk_of(&file, &err) != PST_OK);
    file.n = 0;
    add_opus(&file, 7, 5, 0, 961); /* more than the last packet is cut */
    assert_int_equal(walk_of(&file, &err), PST_ERROR_CORRUPT);
    file.n = 0;
    add_page(&file, 2, 1, 0, 0, "\1vorbis", 7);
    add_page(&file, 2, 2, 0, 0, "\1vorbis", 7);
    assert_int_equal(walk_of(&file, &err), PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "several Ogg streams at once"));
    file.n = 0;
    add_page(&file, 2, 1, 0, 0, "other", 5);
    add_page(&file, 4, 1, 2, 0, "other", 5);
    assert_int_equal(walk_of(&file, &err), PST_ERROR_CORRUPT);
    assert_non_null(strstr(err.text, "missing"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_of_mp3), cmocka_unit_test(tags_around_mp3),
        cmocka_unit_test(wrong_mp3),      cmocka_unit_test(damaged_frames),
        cmocka_unit_test(links_of_opus),  cmocka_unit_test(wrong_ogg)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
