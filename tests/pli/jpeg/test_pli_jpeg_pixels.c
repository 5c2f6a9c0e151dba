/* test_pli_jpeg_pixels.c - tests JPEGs kept as PLI. Pixels are bit-identical to libjpeg-turbo's,
 * for the whole image and any region, in every layout, on every CPU level. Decoding in bands gives
 * the same rows. Only the units that pst_pli_ranges names are read. Errors name the fault. */
#include "pli/jpeg/pli_jpeg_image.h"
#include "sanitizer.h"

#include "base/real_files.h"
#include "pli/pli.h"
#include "pli/pli_levels.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct pli_level levels[PLI_LEVELS_MAX];
static uint32_t n_levels;
/* emulated levels decode only small images, because emulation is slow */
enum { EMULATED_MAX_PX = 1 << 14 };

/* A JPEG and the pixels that libjpeg makes of it. */
struct image {
    struct pli_jpeg_image of;
    uint8_t *pixels;
};

/* Returns false if content 2 does not take the file. The image owns the file in any case. */
static bool image_open(struct bytes file, uint8_t unit_log2, struct image *image)
{
    bool taken = pli_jpeg_image_open(file, unit_log2, &image->of);
    image->pixels = taken ? pli_jpeg_pixels(&file) : NULL;
    return taken;
}

static void image_close(struct image *image)
{
    pli_jpeg_image_close(&image->of);
    free(image->pixels);
}

enum layout { LAYOUT_HWC, LAYOUT_CHW, LAYOUT_LOOSE, N_LAYOUTS };

/* Describes the memory layout for the pixels of a region. `room` has 6 times as many bytes as the
 * region has samples. */
static struct pst_pixels lay_out(const struct pst_pli_region *region, uint32_t channels,
                                 enum layout layout, uint8_t *room)
{
    struct pst_pixels p = {.data = room,
                           .height = region->height,
                           .width = region->width,
                           .channels = (uint8_t)channels,
                           .bits = 8,
                           .channel_nbytes = 1,
                           .pixel_nbytes = channels,
                           .row_nbytes = (int64_t)channels * region->width};
    if (layout == LAYOUT_CHW) {
        p.pixel_nbytes = 1;
        p.row_nbytes = region->width;
        p.channel_nbytes = (int64_t)region->width * region->height;
    } else if (layout == LAYOUT_LOOSE) { /* like RGBA without A, rows bottom up with gaps */
        p.pixel_nbytes = 4;
        p.row_nbytes = -(4 * (int64_t)region->width + 8);
        p.data = room + (size_t)(region->height - 1) * (4 * (size_t)region->width + 8);
    }
    return p;
}

static void *scratch_for(const struct pst_pli_info *info, uint32_t width, size_t *nbytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const struct psti_pli_header header = {.content = (uint8_t)info->content,
                                           .unit_log2 = (uint8_t)__builtin_ctz(info->unit_edge),
                                           .height = (uint16_t)info->height,
                                           .width = (uint16_t)info->width,
                                           .channels = (uint8_t)info->channels,
                                           .bits = (uint8_t)info->bits};
    *nbytes = psti_pli_region_scratch_nbytes(&header, width);
    /* The page after the scratch must not be touched. */
    size_t whole = (*nbytes + page - 1) / page * page;
    uint8_t *memory =
        mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    assert_int_equal(mprotect(memory + whole, page, PROT_NONE), 0);
    return memory + (whole - *nbytes) / 64 * 64;
}

static void scratch_free(void *scratch, size_t nbytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (nbytes + page - 1) / page * page;
    munmap((void *)((uintptr_t)scratch / page * page), whole + page);
}

static void compare(const struct image *image, const struct pst_pli_region *region, int channel,
                    const struct pst_pixels *p, const char *level)
{
    uint32_t all = image->of.info.channels;
    for (uint32_t y = 0; y < region->height; y++)
        for (uint32_t x = 0; x < region->width; x++)
            for (uint32_t c = 0; c < p->channels; c++) {
                uint8_t got =
                    ((const uint8_t *)
                         p->data)[(int64_t)y * p->row_nbytes + (int64_t)x * p->pixel_nbytes +
                                  (int64_t)c * p->channel_nbytes];
                uint32_t from = channel < 0 ? c : (uint32_t)channel;
                size_t at = ((size_t)(region->y + y) * image->of.info.width + region->x + x) * all;
                if (got != image->pixels[at + from])
                    fail_msg("%s, %ux%u, sampling %02x %02x, region %u,%u %ux%u, channel %d: "
                             "sample %u,%u,%u is %u instead of %u",
                             level, image->of.info.height, image->of.info.width,
                             image->of.info.samplings[0], image->of.info.samplings[1], region->y,
                             region->x, region->height, region->width, channel, y, x, c, got,
                             image->pixels[at + from]);
            }
}

static void check_region(const struct image *image, const struct pst_pli_region *region,
                         int channel, enum layout layout)
{
    struct pst_error err;
    uint32_t channels = channel < 0 ? image->of.info.channels : 1;
    size_t room_nbytes = (size_t)region->height * (region->width + 2) * 4, scratch_nbytes;
    bool is_large = image->of.info.height * image->of.info.width > EMULATED_MAX_PX;
    uint8_t *room = malloc(room_nbytes);
    void *scratch = scratch_for(&image->of.info, region->width, &scratch_nbytes);
    assert_non_null(room);
    for (size_t i = 0; i < n_levels; i++) {
        if (levels[i].is_emulated && is_large)
            continue;
        memset(room, 0xA5, room_nbytes);
        memset(scratch, 0x5B + (int)i, scratch_nbytes);
        struct pst_pixels pixels = lay_out(region, channels, layout, room);
        assert_ok(psti_pli_decode_with(levels[i].kernels, image->of.pli.data, image->of.pli.nbytes,
                                       region, channel, &pixels, scratch, scratch_nbytes, &err));
        compare(image, region, channel, &pixels, levels[i].name);
        if (layout == LAYOUT_LOOSE) /* gaps between pixels and after rows must stay unchanged */
            for (uint32_t y = 0; y < region->height; y++) {
                const uint8_t *row = (const uint8_t *)pixels.data + (int64_t)y * pixels.row_nbytes;
                assert_int_equal(row[3], 0xA5);
                assert_int_equal(row[4 * (size_t)region->width], 0xA5);
            }
    }
    scratch_free(scratch, scratch_nbytes);
    free(room);
}

static struct pst_pli_region any_region(const struct image *image, uint64_t *seed)
{
    struct psti_rect r = random_region(seed, image->of.info.height, image->of.info.width);
    return (struct pst_pli_region){r.y, r.x, r.height, r.width};
}

static void check_image(const struct image *image, int n_regions, uint64_t *seed)
{
    const struct pst_pli_region whole = {0, 0, image->of.info.height, image->of.info.width};
    check_region(image, &whole, -1, LAYOUT_HWC);
    for (int i = 0; i < n_regions; i++) {
        struct pst_pli_region region = any_region(image, seed);
        int channel =
            random_below(seed, 4) == 0 ? (int)random_below(seed, image->of.info.channels) : -1;
        enum layout layout = i % 2 ? LAYOUT_HWC : (enum layout)random_below(seed, N_LAYOUTS);
        check_region(image, &region, channel, layout);
    }
}

static const uint8_t samplings[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1},
                                       {4, 2}, {1, 4}, {2, 4}, {4, 4}};
#define N_SAMPLINGS (sizeof samplings / sizeof samplings[0])
/* Returns whether libjpeg needs one scan for each component: an MCU of all components would have
 * too many blocks (18). */
static bool is_many(size_t sampling) { return samplings[sampling][0] * samplings[sampling][1] > 8; }

static void check_spec(const struct jpeg_spec *spec, uint8_t unit_log2, int n_regions,
                       uint64_t *seed)
{
    struct image image;
    assert_true(image_open(make_jpeg(spec, next_random(seed)), unit_log2, &image));
    check_image(&image, n_regions, seed);
    image_close(&image);
}

/* Tries all small sizes, with one to three chroma samples, and with blocks and units of few pixels.
 */
static void test_small_sizes(void **state)
{
    uint64_t seed = 1;
    (void)state;
    for (uint32_t edge = 1; edge <= 70; edge++)
        for (size_t s = 0; s < N_SAMPLINGS; s++) {
            struct jpeg_spec spec = {.height = edge,
                                     .width = 1 + random_below(&seed, 70),
                                     .colours = edge % 5 == 4 ? COLOURS_RGB : COLOURS_YCC,
                                     .h = samplings[s][0],
                                     .v = samplings[s][1],
                                     .many_scans = is_many(s),
                                     .quality = (uint8_t)(5 + random_below(&seed, 96))};
            spec.progressive = !spec.many_scans && random_below(&seed, 4) == 0;
            check_spec(&spec, (uint8_t)(6 + edge % 3), 4, &seed);
            spec.height = 1 + random_below(&seed, 70);
            spec.width = edge;
            check_spec(&spec, (uint8_t)(6 + edge % 3), 4, &seed);
        }
}

/* Tests images of several units in both directions, with every unit size. */
static void test_units(void **state)
{
    uint64_t seed = 2;
    (void)state;
    for (size_t s = 0; s < N_SAMPLINGS; s++)
        for (uint8_t unit_log2 = 6; unit_log2 <= 8; unit_log2++) {
            struct jpeg_spec spec = {.height = 257 + random_below(&seed, 200),
                                     .width = 257 + random_below(&seed, 200),
                                     .colours =
                                         s == 2 && unit_log2 == 7 ? COLOURS_RGB : COLOURS_YCC,
                                     .h = samplings[s][0],
                                     .v = samplings[s][1],
                                     .many_scans = is_many(s),
                                     .quality = (uint8_t)(30 + random_below(&seed, 70))};
            check_spec(&spec, unit_log2, 20, &seed);
        }
}

static void test_gray(void **state)
{
    uint64_t seed = 3;
    (void)state;
    for (uint32_t i = 0; i < 40; i++) {
        const struct jpeg_spec spec = {.height = 1 + random_below(&seed, 300),
                                       .width = 1 + random_below(&seed, 300),
                                       .colours = COLOURS_GRAY,
                                       .h = samplings[i % N_SAMPLINGS][0],
                                       .v = samplings[i % N_SAMPLINGS][1],
                                       .many_scans = is_many(i % N_SAMPLINGS),
                                       .quality = (uint8_t)(5 + random_below(&seed, 96))};
        check_spec(&spec, (uint8_t)(6 + i % 3), 6, &seed);
    }
}

/* Regions end next to units' borders, where upsampling needs samples of the next unit. */
static void test_borders(void **state)
{
    uint64_t seed = 4;
    (void)state;
    for (size_t s = 0; s < N_SAMPLINGS; s++) {
        const struct jpeg_spec spec = {.height = 200,
                                       .width = 200,
                                       .colours = COLOURS_YCC,
                                       .h = samplings[s][0],
                                       .v = samplings[s][1],
                                       .many_scans = is_many(s),
                                       .quality = 80};
        struct image image;
        assert_true(image_open(make_jpeg(&spec, s), 6, &image));
        for (int i = 0; i < 120; i++) {
            uint32_t x0 = 64 * random_below(&seed, 3) + random_below(&seed, 5);
            uint32_t y0 = 64 * random_below(&seed, 3) + random_below(&seed, 5);
            uint32_t x1 = x0 + 1 + random_below(&seed, 70), y1 = y0 + 1 + random_below(&seed, 70);
            x1 = x1 < 200 ? x1 : 200;
            y1 = y1 < 200 ? y1 : 200;
            if (x0 >= 2 && y0 >= 2) {
                x0 -= 2;
                y0 -= 2;
            }
            const struct pst_pli_region region = {y0, x0, y1 - y0, x1 - x0};
            check_region(&image, &region, -1, LAYOUT_HWC);
        }
        image_close(&image);
    }
}

/* The decoder needs no units but those that pst_pli_ranges names: all others are overwritten with
 * garbage. */
static void test_ranges(void **state)
{
    uint64_t seed = 5;
    (void)state;
    for (size_t s = 0; s < N_SAMPLINGS; s++) {
        const struct jpeg_spec spec = {.height = 300,
                                       .width = 400,
                                       .colours = COLOURS_YCC,
                                       .h = samplings[s][0],
                                       .v = samplings[s][1],
                                       .many_scans = is_many(s),
                                       .quality = 70};
        struct image image;
        struct pst_error err;
        assert_true(image_open(make_jpeg(&spec, s), 6, &image));
        struct bytes whole = image.of.pli;
        for (int i = 0; i < 20; i++) {
            struct pst_pli_region region = any_region(&image, &seed);
            struct pst_pli_range ranges[8];
            size_t n;
            uint64_t n_bytes = 0;
            assert_ok(pst_pli_ranges(whole.data, whole.nbytes, &region, ranges, 8, &n, &err));
            assert_in_range(n, 1, 8);
            image.of.pli = (struct bytes){malloc(whole.nbytes), whole.nbytes};
            memset(image.of.pli.data, 0xEE, whole.nbytes);
            memcpy(image.of.pli.data, whole.data, (size_t)image.of.info.head_nbytes);
            for (size_t k = 0; k < n; k++) {
                memcpy(image.of.pli.data + ranges[k].offset, whole.data + ranges[k].offset,
                       (size_t)ranges[k].nbytes);
                n_bytes += ranges[k].nbytes;
            }
            check_region(&image, &region, -1, LAYOUT_HWC);
            assert_true(n_bytes <= whole.nbytes - image.of.info.head_nbytes);
            bytes_free(&image.of.pli);
        }
        image.of.pli = whole;
        image_close(&image);
    }
}

struct bands {
    const struct image *image;
    struct pst_pli_region region;
    const uint8_t *rows;
    uint32_t y, stop; /* y: next row; take_band() fails from row `stop` on */
};

static enum pst_status take_band(void *ctx, uint32_t y, uint32_t n_rows)
{
    struct bands *b = ctx;
    size_t row_nbytes = (size_t)b->region.width * b->image->of.info.channels;
    assert_int_equal(y, b->y);
    assert_in_range(n_rows, 1, PSTI_PLI_JPEG_BAND_ROWS);
    for (uint32_t i = 0; i < n_rows; i++) {
        size_t at = (size_t)(b->region.y + y + i) * b->image->of.info.width + b->region.x;
        assert_memory_equal(b->rows + i * row_nbytes,
                            b->image->pixels + at * b->image->of.info.channels, row_nbytes);
    }
    b->y += n_rows;
    return b->y > b->stop ? PST_ERROR_FORKED : PST_OK;
}

static void test_bands(void **state)
{
    uint64_t seed = 6;
    (void)state;
    for (size_t s = 0; s < N_SAMPLINGS; s++) {
        const struct jpeg_spec spec = {.height = 300,
                                       .width = 150,
                                       .colours = COLOURS_YCC,
                                       .h = samplings[s][0],
                                       .v = samplings[s][1],
                                       .many_scans = is_many(s),
                                       .quality = 85};
        struct image image;
        struct pst_error err;
        assert_true(image_open(make_jpeg(&spec, s), (uint8_t)(6 + s % 3), &image));
        for (int i = 0; i < 20; i++) {
            struct bands b = {.image = &image, .region = any_region(&image, &seed)};
            b.stop = i % 4 ? UINT32_MAX : b.region.height / 2;
            uint32_t height = b.region.height < PSTI_PLI_JPEG_BAND_ROWS ? b.region.height
                                                                        : PSTI_PLI_JPEG_BAND_ROWS;
            size_t scratch_nbytes;
            void *scratch = scratch_for(&image.of.info, b.region.width, &scratch_nbytes);
            uint8_t *rows = malloc((size_t)height * b.region.width * 3);
            b.rows = rows;
            const struct pst_pli_region of_pixels = {0, 0, height, b.region.width};
            struct pst_pixels pixels = lay_out(&of_pixels, 3, LAYOUT_HWC, rows);
            enum pst_status status =
                psti_pli_decode_bands(NULL, image.of.pli.data, image.of.pli.nbytes, &b.region,
                                      &pixels, scratch, scratch_nbytes, take_band, &b, &err);
            assert_int_equal(status, i % 4 ? PST_OK : PST_ERROR_FORKED);
            assert_true(i % 4 == 0 || b.y == b.region.height);
            free(rows);
            scratch_free(scratch, scratch_nbytes);
        }
        image_close(&image);
    }
}

static void spoil(const struct psti_jpeg_frame *frame, int16_t *const coefs[])
{
    for (uint32_t c = 0; c < frame->n_components; c++)
        memset(coefs[c], 0x5A, psti_pli_jpeg_n_coefs(frame, c) * sizeof *coefs[c]);
}

static void assert_coefs(const struct image *image, int16_t *const coefs[])
{
    const struct psti_jpeg_frame *frame = &image->of.content.frame;
    for (uint32_t c = 0; c < frame->n_components; c++)
        assert_memory_equal(coefs[c], image->of.content.coefs[c],
                            psti_pli_jpeg_n_coefs(frame, c) * sizeof *coefs[c]);
}

/* Decoding pixels and coefficients in one call gives the same as two calls. With another image's
 * frame it fails. */
static void assert_both(const struct image *image, int16_t *const coefs[], void *scratch,
                        size_t scratch_nbytes)
{
    const struct pst_pli_info *info = &image->of.info;
    struct psti_jpeg_frame frame = image->of.content.frame;
    struct bands b = {
        .image = image, .region = {0, 0, info->height, info->width}, .stop = UINT32_MAX};
    struct pst_error err;
    uint32_t height =
        info->height < PSTI_PLI_JPEG_BAND_ROWS ? info->height : PSTI_PLI_JPEG_BAND_ROWS;
    const struct pst_pli_region of_pixels = {0, 0, height, info->width};
    uint8_t *rows = malloc((size_t)height * info->width * info->channels);
    struct pst_pixels pixels = lay_out(&of_pixels, info->channels, LAYOUT_HWC, rows);
    b.rows = rows;
    spoil(&frame, coefs);
    assert_ok(psti_pli_jpeg_decode_both(image->of.pli.data, image->of.pli.nbytes, &frame, coefs,
                                        &pixels, scratch, scratch_nbytes, take_band, &b, &err));
    assert_int_equal(b.y, info->height);
    assert_coefs(image, coefs);
    frame.components[0].rows++;
    assert_int_equal(psti_pli_jpeg_decode_both(image->of.pli.data, image->of.pli.nbytes, &frame,
                                               coefs, &pixels, scratch, scratch_nbytes, take_band,
                                               &b, &err),
                     PST_ERROR_ARGUMENT);
    free(rows);
}

static void test_coefficients_and_frame(void **state)
{
    uint64_t seed = 7;
    (void)state;
    for (size_t s = 0; s < N_SAMPLINGS; s++) {
        const struct jpeg_spec spec = {.height = 1 + random_below(&seed, 300),
                                       .width = 1 + random_below(&seed, 300),
                                       .colours = s % 4 == 3 ? COLOURS_GRAY : COLOURS_YCC,
                                       .h = samplings[s][0],
                                       .v = samplings[s][1],
                                       .many_scans = is_many(s),
                                       .quality = 90};
        struct image image;
        struct psti_jpeg_frame frame;
        struct pst_error err;
        int16_t *coefs[PSTI_JPEG_COMPONENTS_MAX] = {0};
        assert_true(image_open(make_jpeg(&spec, s), 0, &image));
        assert_ok(psti_pli_jpeg_frame(image.of.pli.data, image.of.pli.nbytes, &frame, &err));
        assert_memory_equal(&frame.quants, &image.of.content.frame.quants, sizeof frame.quants);
        for (uint32_t c = 0; c < frame.n_components; c++) {
            coefs[c] = malloc(psti_pli_jpeg_n_coefs(&frame, c) * sizeof *coefs[c]);
            assert_int_equal(image.of.info.samplings[c],
                             frame.components[c].h << 4 | frame.components[c].v);
        }
        size_t nbytes;
        void *scratch = scratch_for(&image.of.info, image.of.info.width, &nbytes);
        spoil(&frame, coefs);
        assert_ok(psti_pli_jpeg_coefs(image.of.pli.data, image.of.pli.nbytes, &frame, coefs,
                                      scratch, nbytes, &err));
        assert_coefs(&image, coefs);
        assert_both(&image, coefs, scratch, nbytes);
        for (uint32_t c = 0; c < frame.n_components; c++)
            free(coefs[c]);
        assert_int_equal(psti_pli_jpeg_coefs(image.of.pli.data, image.of.pli.nbytes, &frame, coefs,
                                             scratch, nbytes - 1, &err),
                         PST_ERROR_ARGUMENT);
        scratch_free(scratch, nbytes);
        image_close(&image);
    }
}

/* A truncated file, or one with a flipped bit anywhere, gives an error that names the codec and,
 * within a unit, the place. */
static void test_broken(void **state)
{
    const struct jpeg_spec spec = {
        .height = 150, .width = 200, .colours = COLOURS_YCC, .h = 2, .v = 2, .quality = 80};
    struct image image;
    struct pst_error err;
    uint64_t seed = 8;
    size_t scratch_nbytes;
    (void)state;
    assert_true(image_open(make_jpeg(&spec, 1), 6, &image));
    const struct pst_pli_region whole = {0, 0, 150, 200};
    uint8_t *room = malloc(150 * 200 * 3);
    void *scratch = scratch_for(&image.of.info, 200, &scratch_nbytes);
    struct pst_pixels pixels = lay_out(&whole, 3, LAYOUT_HWC, room);
    for (size_t cut = 0; cut < image.of.pli.nbytes; cut += cut < 64 ? 1 : 97) {
        assert_int_equal(pst_pli_decode(image.of.pli.data, cut, NULL, -1, &pixels, scratch,
                                        scratch_nbytes, &err),
                         PST_ERROR_TRUNCATED);
        assert_string_equal(err.codec, "pli");
    }
    for (int i = 0; i < 400; i++) {
        size_t at = i < 100 ? random_below(&seed, (uint32_t)image.of.info.head_nbytes)
                            : random_below(&seed, (uint32_t)image.of.pli.nbytes);
        uint8_t bit = (uint8_t)(1u << random_below(&seed, 8));
        image.of.pli.data[at] ^= bit;
        assert_int_not_equal(pst_pli_decode(image.of.pli.data, image.of.pli.nbytes, NULL, -1,
                                            &pixels, scratch, scratch_nbytes, &err),
                             PST_OK);
        assert_string_equal(err.codec, "pli");
        if (at >= image.of.info.head_nbytes) {
            assert_true(err.offset >= (int64_t)image.of.info.head_nbytes &&
                        err.offset <= (int64_t)at);
            assert_non_null(strstr(err.text, "unit in row"));
        }
        image.of.pli.data[at] ^= bit;
    }
    assert_int_equal(pst_pli_decode(image.of.pli.data, image.of.pli.nbytes, NULL, -1, &pixels,
                                    scratch, scratch_nbytes - 1, &err),
                     PST_ERROR_ARGUMENT);
    scratch_free(scratch, scratch_nbytes);
    free(room);
    image_close(&image);
}

/* Of several damaged units the first one is told, with its place, and the rows before it are
 * right: units are read ahead of their turn. */
static void test_first_broken_unit(void **state)
{
    const struct jpeg_spec spec = {
        .height = 150, .width = 150, .colours = COLOURS_YCC, .h = 2, .v = 2, .quality = 80};
    enum { EDGE = 64, COLUMNS = 3, UNITS = 9, ROW_NBYTES = 150 * 3 };
    struct image image;
    struct psti_pli_header header;
    struct pst_error err;
    size_t scratch_nbytes;
    (void)state;
    assert_true(image_open(make_jpeg(&spec, 1), 6, &image));
    uint8_t *pli = image.of.pli.data;
    const struct pst_pli_region whole = {0, 0, 150, 150};
    uint8_t *room = malloc(150 * ROW_NBYTES);
    void *scratch = scratch_for(&image.of.info, 150, &scratch_nbytes);
    struct pst_pixels pixels = lay_out(&whole, 3, LAYOUT_HWC, room);
    assert_ok(psti_pli_parse_header(pli, image.of.pli.nbytes, &header, &err));
    size_t at = psti_pli_head_nbytes(&header);
    for (uint32_t u = 0; u < UNITS; u++) {
        char place[64];
        size_t next = at + psti_pli_parse_entry(pli, &header, u).nbytes;
        snprintf(place, sizeof place, "unit in row %u, column %u:", u / COLUMNS, u % COLUMNS);
        memset(room, 0, 150 * ROW_NBYTES);
        pli[at + 30] ^= 1;
        if (u + 1 < UNITS)
            pli[next] ^= 1;
        assert_int_equal(pst_pli_decode(pli, image.of.pli.nbytes, NULL, -1, &pixels, scratch,
                                        scratch_nbytes, &err),
                         PST_ERROR_CHECKSUM);
        assert_non_null(strstr(err.text, place));
        assert_int_equal(err.offset, at);
        if (u >= COLUMNS) /* the last row of a row of units waits for the next one */
            assert_memory_equal(room, image.pixels, (u / COLUMNS * EDGE - 1) * ROW_NBYTES);
        pli[at + 30] ^= 1;
        if (u + 1 < UNITS)
            pli[next] ^= 1;
        at = next;
    }
    scratch_free(scratch, scratch_nbytes);
    free(room);
    image_close(&image);
}

static bool check_photograph(struct real_file *file, void *seed)
{
    struct image image;
    bool taken = image_open((struct bytes){file->data, file->nbytes}, 0, &image);
    if (taken)
        check_image(&image, 20, seed);
    image_close(&image);
    return taken;
}

/* Decodes all real JPEGs, each whole and in 20 regions, at every level. */
static void test_real(void **state)
{
    static const char *const groups[] = {"imagenet", "imagenet_folder"};
    uint64_t seed = 9;
    (void)state;
    if (!real_files_root())
        skip();
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        real_files(groups[i], TEST_TSAN ? 16 : UINT32_MAX, check_photograph, &seed);
}

/* All levels turn planes into the same blocks. They change nothing around the blocks and do not
 * read planes above the last one. */
static void test_planes_to_blocks(void **state)
{
    enum { N = PSTI_PLI_JPEG_GROUP, STRIDE = 64 };
    (void)state;
    uint64_t seed = 41;
    for (uint32_t last = 0; last < 64; last++) {
        int16_t rooms[PLI_LEVELS_MAX][N][80], *blocks[N];
        int16_t *planes = malloc(((size_t)last * STRIDE + N) * sizeof *planes);
        assert_non_null(planes);
        for (uint32_t i = 0; i < last * STRIDE + N; i++)
            planes[i] = (int16_t)random_below(&seed, 65536);
        memset(rooms, 0x5A, sizeof rooms);
        for (uint32_t l = 0; l < n_levels; l++) {
            for (uint32_t i = 0; i < N; i++)
                blocks[i] = rooms[l][i] + 8;
            levels[l].kernels->jpeg_to_blocks(planes, STRIDE, last, blocks);
            for (uint32_t i = 0; i < N; i++)
                for (uint32_t k = 0; k < 64; k++)
                    assert_int_equal(blocks[i][k], k <= last ? planes[k * STRIDE + i] : 0);
            assert_memory_equal(rooms[l], rooms[0], sizeof rooms[0]);
        }
        free(planes);
    }
}

int main(void)
{
    n_levels = pli_levels(levels);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_sizes),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_gray),
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_bands),
        cmocka_unit_test(test_coefficients_and_frame),
        cmocka_unit_test(test_planes_to_blocks),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_first_broken_unit),
        cmocka_unit_test(test_real),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
