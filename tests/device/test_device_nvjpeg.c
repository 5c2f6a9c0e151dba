/* Files through the stand-in for nvJPEG: the choice of files, pixels, memory, failures. It decodes
 * as libjpeg-turbo does, so pixels are compared with that to the bit. */
#include "device_test.h"

#include "base/fault.h"
#include "device/device_nvjpeg.h"
#include "device/device_nvjpeg_api.h"
#include "fake_nvjpeg.h"

#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

/* Files
 * ------------------------------------------------------------------------------------------------
 */

struct kind {
    uint32_t height, width;
    int components, across, down; /* samples of luma for one of chroma */
    bool progressive, rgb, arithmetic, unmarked;
};
struct jpeg {
    unsigned char *bytes;
    unsigned long nbytes;
    unsigned char *pixels; /* packed */
    uint32_t height, width, channels;
    struct psti_nvjpeg_file file;
};

static void decode(struct jpeg *jpeg)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&cinfo);
    jpeg_mem_src(&cinfo, jpeg->bytes, jpeg->nbytes);
    jpeg_read_header(&cinfo, TRUE);
    jpeg->height = cinfo.image_height;
    jpeg->width = cinfo.image_width;
    jpeg->channels = (uint32_t)cinfo.num_components;
    jpeg->pixels = malloc((size_t)jpeg->height * jpeg->width * jpeg->channels);
    jpeg_start_decompress(&cinfo);
    while (cinfo.output_scanline < cinfo.output_height) {
        JSAMPROW row = jpeg->pixels + (size_t)cinfo.output_scanline * jpeg->width * jpeg->channels;
        jpeg_read_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_decompress(&cinfo);
    jpeg_destroy_decompress(&cinfo);
}

static void encode(const struct kind *kind, struct jpeg *jpeg)
{
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_compress(&cinfo);
    memset(jpeg, 0, sizeof *jpeg);
    jpeg_mem_dest(&cinfo, &jpeg->bytes, &jpeg->nbytes);
    cinfo.image_height = kind->height;
    cinfo.image_width = kind->width;
    cinfo.input_components = kind->components;
    cinfo.in_color_space = kind->components == 1   ? JCS_GRAYSCALE
                           : kind->components == 3 ? JCS_RGB
                                                   : JCS_CMYK;
    jpeg_set_defaults(&cinfo);
    if (kind->rgb)
        jpeg_set_colorspace(&cinfo, JCS_RGB);
    cinfo.comp_info[0].h_samp_factor = kind->across;
    cinfo.comp_info[0].v_samp_factor = kind->down;
    cinfo.arith_code = kind->arithmetic;
    if (kind->unmarked)
        cinfo.write_JFIF_header = cinfo.write_Adobe_marker = FALSE;
    if (kind->progressive)
        jpeg_simple_progression(&cinfo);
    jpeg_start_compress(&cinfo, TRUE);
    unsigned char *row = malloc((size_t)kind->width * (size_t)kind->components);
    for (uint32_t y = 0; y < kind->height; y++) {
        for (uint32_t x = 0; x < kind->width; x++)
            for (int c = 0; c < kind->components; c++)
                row[x * (uint32_t)kind->components + (uint32_t)c] =
                    (unsigned char)((x * 5 + y * (3 + (uint32_t)c)) ^ (x * y >> 4));
        JSAMPROW rows[1] = {row};
        jpeg_write_scanlines(&cinfo, rows, 1);
    }
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    free(row);
}

static struct jpeg make(const struct kind *kind)
{
    struct jpeg jpeg;
    encode(kind, &jpeg);
    decode(&jpeg);
    jpeg.file = (struct psti_nvjpeg_file){jpeg.height, jpeg.width, (uint8_t)jpeg.channels};
    return jpeg;
}

static void drop(struct jpeg *jpeg)
{
    free(jpeg->bytes);
    free(jpeg->pixels);
}

static const struct kind good[] = {
    {.height = 40, .width = 60, .components = 3, .across = 2, .down = 2},
    {.height = 33, .width = 17, .components = 3, .across = 2, .down = 1},
    {.height = 16, .width = 31, .components = 3, .across = 1, .down = 2},
    {.height = 25, .width = 8, .components = 3, .across = 1, .down = 1},
    {.height = 90, .width = 70, .components = 1, .across = 1, .down = 1},
    {.height = 64, .width = 80, .components = 3, .across = 2, .down = 2, .progressive = true},
    {.height = 9, .width = 9, .components = 3, .across = 2, .down = 2, .unmarked = true},
};
enum { N_GOOD = sizeof good / sizeof good[0] };

static void test_which_are_taken(void **state)
{
    static const struct {
        struct kind kind;
        const char *why;
    } others[] = {
        {{.height = 9, .width = 9, .components = 4, .across = 1, .down = 1}, "three"},
        {{.height = 9, .width = 9, .components = 3, .across = 1, .down = 1, .rgb = true}, "YCbCr"},
        {{.height = 9,
          .width = 9,
          .components = 3,
          .across = 1,
          .down = 1,
          .rgb = true,
          .unmarked = true},
         "YCbCr"},
        {{.height = 9, .width = 9, .components = 3, .across = 4, .down = 1}, "subsampling"},
        {{.height = 9, .width = 9, .components = 1, .across = 2, .down = 2}, "subsampled"},
        {{.height = 9, .width = 9, .components = 3, .across = 1, .down = 1, .arithmetic = true},
         "arithmetic"},
    };
    struct psti_nvjpeg_file file;
    const char *why;
    (void)state;
    for (size_t i = 0; i < N_GOOD; i++) {
        struct jpeg jpeg = make(&good[i]);
        assert_true(psti_device_nvjpeg_takes(jpeg.bytes, jpeg.nbytes, &file, &why));
        assert_null(why);
        assert_int_equal(file.height, jpeg.height);
        assert_int_equal(file.width, jpeg.width);
        assert_int_equal(file.channels, jpeg.channels);
        for (size_t n = 0; n < jpeg.nbytes; n++) { /* any file without its end */
            unsigned char *part = malloc(n ? n : 1);
            memcpy(part, jpeg.bytes, n);
            assert_false(psti_device_nvjpeg_takes(part, n, &file, &why));
            assert_non_null(why);
            free(part);
        }
        unsigned char *more = calloc(1, jpeg.nbytes + 40);
        memcpy(more, jpeg.bytes, jpeg.nbytes);
        assert_true(psti_device_nvjpeg_takes(more, jpeg.nbytes + 32, &file, &why));
        assert_false(psti_device_nvjpeg_takes(more, jpeg.nbytes + 40, &file, &why));
        free(more);
        drop(&jpeg);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct jpeg jpeg;
        encode(&others[i].kind, &jpeg);
        assert_false(psti_device_nvjpeg_takes(jpeg.bytes, jpeg.nbytes, &file, &why));
        if (!strstr(why, others[i].why))
            fail_msg("'%s' is not in '%s'", others[i].why, why);
        drop(&jpeg);
    }
}

/* Scans beyond any use: a frame and an end of file, and markers between. */
static void test_scans_without_number(void **state)
{
    struct jpeg jpeg = make(&good[5]);
    struct psti_nvjpeg_file file;
    const char *why;
    size_t n = 4 * 600;
    (void)state;
    unsigned char *long_file = malloc(jpeg.nbytes + n);
    memcpy(long_file, jpeg.bytes, jpeg.nbytes - 2);
    for (size_t i = 0; i < n; i += 4)
        memcpy(long_file + jpeg.nbytes - 2 + i, "\xFF\xDA\0\2", 4);
    memcpy(long_file + jpeg.nbytes - 2 + n, "\xFF\xD9", 2);
    assert_false(psti_device_nvjpeg_takes(long_file, jpeg.nbytes + n, &file, &why));
    assert_non_null(strstr(why, "scans"));
    free(long_file);
    drop(&jpeg);
}

/* The library
 * ------------------------------------------------------------------------------------------------
 */

static const struct psti_nvjpeg_options no_options;

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void refuse(struct psti_device *device, const char *text)
{
    struct psti_nvjpeg *nvjpeg;
    struct pst_error err;
    assert_int_equal(psti_device_nvjpeg_open(device, &no_options, &nvjpeg, &err),
                     PST_ERROR_UNSUPPORTED);
    assert_null(nvjpeg);
    if (!strstr(err.text, text))
        fail_msg("'%s' is not in '%s'", text, err.text);
}

static void test_finding_the_library(void **state)
{
    struct psti_device *device = open_gpu(0);
    struct psti_nvjpeg_library library;
    struct psti_device_nvjpeg_info info;
    struct psti_nvjpeg *nvjpeg;
    struct pst_error err;
    (void)state;
    assert_ok(psti_device_nvjpeg_look(0, &library, &err));
    assert_string_equal(library.path, PST_FAKE_NVJPEG);
    assert_int_equal(library.major, 13);
    set("PENSTOCK_NVJPEG", "/nowhere/libnvjpeg.so");
    refuse(device, "PENSTOCK_NVJPEG: /nowhere/libnvjpeg.so");
    set("PENSTOCK_NVJPEG", PST_FAKE_DRIVER);
    refuse(device, "has no nvjpegGetProperty");
    set("PENSTOCK_NVJPEG", PST_FAKE_NVJPEG_OLD);
    refuse(device, "has no nvjpegDecodeBatchedSupported");
    set("PENSTOCK_NVJPEG", PST_FAKE_NVJPEG);
    set("PENSTOCK_FAKE_NVJPEG_VERSION", "10");
    refuse(device, "is nvJPEG 10.1.1");
    set("PENSTOCK_FAKE_NVJPEG_VERSION", "14");
    refuse(device, "is nvJPEG 14.1.1");
    set("PENSTOCK_FAKE_NVJPEG_VERSION", NULL);
    static const struct {
        const char *version, *plain, *engines;
        bool interpolates, no_engines;
        uint32_t n_engines;
    } gpus[] = {{NULL, NULL, NULL, true, false, 0},
                {"12", NULL, "8", true, false, 8},
                {"12", NULL, "8", true, true, 0},
                {"11", NULL, NULL, false, false, 0},
                {NULL, "1", "2", false, false, 2}};
    for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
        const struct psti_nvjpeg_options options = {.no_engines = gpus[i].no_engines};
        set("PENSTOCK_FAKE_NVJPEG_VERSION", gpus[i].version);
        set("PENSTOCK_FAKE_NVJPEG_PLAIN", gpus[i].plain);
        set("PENSTOCK_FAKE_NVJPEG_ENGINES", gpus[i].engines);
        assert_ok(psti_device_nvjpeg_open(device, &options, &nvjpeg, &err));
        psti_device_nvjpeg_info(nvjpeg, &info);
        assert_int_equal(info.interpolates, gpus[i].interpolates);
        assert_int_equal(info.n_engines, gpus[i].n_engines);
        assert_int_equal(info.library.minor, 1);
        psti_device_nvjpeg_close(&nvjpeg);
    }
    set("PENSTOCK_FAKE_NVJPEG_VERSION", NULL);
    set("PENSTOCK_FAKE_NVJPEG_PLAIN", NULL);
    set("PENSTOCK_FAKE_NVJPEG_ENGINES", NULL);
    psti_device_close(&device);
    assert_nothing_left();
}

/* Without a library the error lists what was tried. */
static void test_no_library(void **state)
{
    struct psti_nvjpeg_library library;
    struct pst_error err;
    (void)state;
    set("PENSTOCK_NVJPEG", NULL);
    enum pst_status status = psti_device_nvjpeg_look(13000, &library, &err);
    if (status != PST_OK) { /* the machine may have a real one */
        assert_int_equal(status, PST_ERROR_UNSUPPORTED);
        assert_non_null(strstr(err.text, "libnvjpeg.so.13"));
        assert_non_null(strstr(err.text, "pip install nvidia-nvjpeg"));
        assert_int_equal(psti_device_nvjpeg_look(12040, &library, &err), PST_ERROR_UNSUPPORTED);
        assert_non_null(strstr(err.text, "libnvjpeg.so.12"));
    }
    set("PENSTOCK_NVJPEG", PST_FAKE_NVJPEG);
}

/* Decoding
 * ------------------------------------------------------------------------------------------------
 */

struct room {
    struct psti_device *device;
    struct psti_stream *stream;
    struct psti_nvjpeg *nvjpeg;
};

static struct room open_room(const struct psti_nvjpeg_options *options)
{
    struct pst_error err;
    struct room room = {.device = open_gpu(0)};
    room.stream = open_stream(room.device);
    assert_ok(psti_device_nvjpeg_open(room.device, options, &room.nvjpeg, &err));
    return room;
}

static void close_room(struct room *room)
{
    struct fake_nvjpeg_counts counts;
    psti_device_stream_close(&room->stream);
    psti_device_nvjpeg_close(&room->nvjpeg);
    psti_device_close(&room->device);
    fake_nvjpeg_counts(&counts);
    assert_int_equal(counts.n_live, 0);
    assert_nothing_left();
}

/* A picture on the GPU. */
struct picture {
    uint64_t at;
    size_t row_nbytes, nbytes;
};

static struct picture open_picture(struct psti_device *device, const struct jpeg *jpeg, size_t more)
{
    struct pst_error err;
    struct picture picture = {.row_nbytes = (size_t)jpeg->width * jpeg->channels + more};
    picture.nbytes = picture.row_nbytes * jpeg->height;
    assert_ok(psti_device_alloc(device, picture.nbytes, &picture.at, &err));
    return picture;
}

/* The stream is done, so the fake GPU's memory can be read by the host. */
static void compare(const struct picture *picture, const struct jpeg *jpeg)
{
    const unsigned char *at = (const unsigned char *)(uintptr_t)picture->at;
    size_t row = (size_t)jpeg->width * jpeg->channels;
    for (uint32_t y = 0; y < jpeg->height; y++)
        assert_memory_equal(at + y * picture->row_nbytes, jpeg->pixels + y * row, row);
}

static void test_lanes(void **state)
{
    struct room room = open_room(&no_options);
    struct psti_nvjpeg_lane *lanes[2];
    struct picture pictures[3 * N_GOOD];
    struct jpeg files[N_GOOD];
    struct pst_error err;
    (void)state;
    fake_set_delay(300);
    for (int i = 0; i < 2; i++)
        assert_ok(psti_device_nvjpeg_lane_open(room.nvjpeg, &lanes[i], &err));
    for (size_t i = 0; i < N_GOOD; i++)
        files[i] = make(&good[i]);
    for (size_t i = 0; i < 3 * N_GOOD; i++) {
        struct psti_nvjpeg_lane *lane = lanes[i % 2];
        const struct jpeg *jpeg = &files[i % N_GOOD];
        unsigned char *bytes = malloc(jpeg->nbytes); /* needed until submit */
        memcpy(bytes, jpeg->bytes, jpeg->nbytes);
        pictures[i] = open_picture(room.device, jpeg, i % 3 == 1 ? 13 : 0);
        assert_ok(psti_device_nvjpeg_lane_begin(lane, bytes, jpeg->nbytes, &jpeg->file, &err));
        assert_ok(psti_device_nvjpeg_lane_submit(lane, room.stream, pictures[i].at,
                                                 pictures[i].row_nbytes, &err));
        free(bytes);
    }
    struct psti_device_nvjpeg_info before, after;
    psti_device_nvjpeg_info(room.nvjpeg, &before);
    assert_true(before.n_allocations > 0 && before.memory_nbytes > 0);
    assert_true(before.host_memory_nbytes > 0);
    for (size_t i = 0; i < 2 * N_GOOD; i++) { /* from here on nothing is allocated */
        const struct jpeg *jpeg = &files[i / 2];
        assert_ok(psti_device_nvjpeg_lane_begin(lanes[i % 2], jpeg->bytes, jpeg->nbytes,
                                                &jpeg->file, &err));
        assert_ok(psti_device_nvjpeg_lane_submit(lanes[i % 2], room.stream, pictures[i / 2].at,
                                                 pictures[i / 2].row_nbytes, &err));
    }
    psti_device_nvjpeg_info(room.nvjpeg, &after);
    assert_int_equal(after.n_allocations, before.n_allocations);
    for (int i = 0; i < 2; i++)
        psti_device_nvjpeg_lane_close(&lanes[i]); /* while work is under way */
    assert_ok(psti_device_stream_sync(room.stream, &err));
    fake_set_delay(0);
    for (size_t i = 0; i < 3 * N_GOOD; i++) {
        compare(&pictures[i], &files[i % N_GOOD]);
        psti_device_free(room.device, pictures[i].at, pictures[i].nbytes);
    }
    for (size_t i = 0; i < N_GOOD; i++)
        drop(&files[i]);
    close_room(&room);
}

/* The host's part finds corrupt files, and the lane continues with the next one. */
static void test_corrupt_files(void **state)
{
    struct room room = open_room(&no_options);
    struct jpeg jpeg = make(&good[0]);
    struct picture picture = open_picture(room.device, &jpeg, 0);
    struct psti_nvjpeg_lane *lane;
    struct psti_nvjpeg_file file;
    struct pst_error err;
    const char *why;
    (void)state;
    assert_ok(psti_device_nvjpeg_lane_open(room.nvjpeg, &lane, &err));
    unsigned char *bad = malloc(jpeg.nbytes);
    memcpy(bad, jpeg.bytes, jpeg.nbytes);
    memset(bad + jpeg.nbytes - 40, 0, 30);
    assert_true(psti_device_nvjpeg_takes(bad, jpeg.nbytes, &file, &why));
    assert_int_equal(psti_device_nvjpeg_lane_begin(lane, bad, jpeg.nbytes, &jpeg.file, &err),
                     PST_ERROR_CORRUPT);
    for (int i = 0; i < 3; i++) { /* not the file that was examined */
        file = jpeg.file;
        file.channels = i == 0 ? 1 : 3;
        file.width += i == 1;
        file.height -= i == 2;
        assert_int_equal(psti_device_nvjpeg_lane_begin(lane, jpeg.bytes, jpeg.nbytes, &file, &err),
                         PST_ERROR_UNSUPPORTED);
    }
    assert_ok(psti_device_nvjpeg_lane_begin(lane, jpeg.bytes, jpeg.nbytes, &jpeg.file, &err));
    assert_ok(
        psti_device_nvjpeg_lane_submit(lane, room.stream, picture.at, picture.row_nbytes, &err));
    assert_ok(psti_device_stream_sync(room.stream, &err));
    compare(&picture, &jpeg);
    psti_device_nvjpeg_lane_close(&lane);
    psti_device_free(room.device, picture.at, picture.nbytes);
    free(bad);
    drop(&jpeg);
    close_room(&room);
}

static void test_engines(void **state)
{
    struct psti_nvjpeg_batch *batch;
    struct psti_nvjpeg_lane *lane;
    struct psti_nvjpeg_item items[N_GOOD];
    struct picture pictures[N_GOOD];
    struct jpeg files[N_GOOD];
    struct pst_error err;
    uint32_t n = 0;
    (void)state;
    set("PENSTOCK_FAKE_NVJPEG_ENGINES", "2");
    struct room room = open_room(&no_options);
    assert_ok(psti_device_nvjpeg_batch_open(room.nvjpeg, 4, &batch, &err));
    assert_ok(psti_device_nvjpeg_lane_open(room.nvjpeg, &lane, &err));
    for (size_t i = 0; i < N_GOOD; i++) {
        bool suits;
        files[i] = make(&good[i]);
        pictures[i] = open_picture(room.device, &files[i], i);
        assert_ok(psti_device_nvjpeg_lane_suits_engines(lane, files[i].bytes, files[i].nbytes,
                                                        &files[i].file, &suits, &err));
        assert_int_equal(suits, !good[i].progressive);
        if (suits && files[i].channels == 3 && n < 4)
            items[n++] = (struct psti_nvjpeg_item){files[i].bytes, files[i].nbytes, pictures[i].at,
                                                   pictures[i].row_nbytes};
    }
    bool suits = true;
    assert_ok(
        psti_device_nvjpeg_lane_suits_engines(lane, "no JPEG", 7, &files[0].file, &suits, &err));
    assert_false(suits);
    fake_set_delay(300);
    assert_ok(psti_device_nvjpeg_batch_submit(batch, room.stream, items, n, 3, &err));
    assert_int_equal(psti_device_nvjpeg_batch_submit(batch, room.stream, items, 5, 3, &err),
                     PST_ERROR_ARGUMENT);
    const struct psti_nvjpeg_item gray = {files[4].bytes, files[4].nbytes, pictures[4].at,
                                          pictures[4].row_nbytes};
    assert_ok(psti_device_stream_sync(room.stream, &err));
    assert_ok(psti_device_nvjpeg_batch_submit(batch, room.stream, &gray, 1, 1, &err));
    assert_ok(psti_device_stream_sync(room.stream, &err));
    const struct psti_nvjpeg_item mixed[2] = {items[0], {"no JPEG", 7, pictures[1].at, 99}};
    assert_int_equal(psti_device_nvjpeg_batch_submit(batch, room.stream, mixed, 2, 3, &err),
                     PST_ERROR_CORRUPT);
    assert_ok(psti_device_nvjpeg_batch_submit(batch, room.stream, mixed, 1, 3, &err));
    assert_ok(psti_device_stream_sync(room.stream, &err));
    fake_set_delay(0);
    for (size_t i = 0; i < 5; i++)
        compare(&pictures[i], &files[i]);
    for (size_t i = 0; i < N_GOOD; i++) {
        psti_device_free(room.device, pictures[i].at, pictures[i].nbytes);
        drop(&files[i]);
    }
    psti_device_nvjpeg_lane_close(&lane);
    psti_device_nvjpeg_batch_close(&batch);
    close_room(&room);
    set("PENSTOCK_FAKE_NVJPEG_ENGINES", NULL);
    room = open_room(&no_options);
    assert_int_equal(psti_device_nvjpeg_batch_open(room.nvjpeg, 4, &batch, &err),
                     PST_ERROR_UNSUPPORTED);
    assert_ok(psti_device_nvjpeg_lane_open(room.nvjpeg, &lane, &err));
    assert_ok(
        psti_device_nvjpeg_lane_suits_engines(lane, "no JPEG", 7, &files[0].file, &suits, &err));
    psti_device_nvjpeg_lane_close(&lane);
    close_room(&room);
}

/* Memory and failures
 * ------------------------------------------------------------------------------------------------
 */

struct budget {
    uint64_t used, limit;
};
static bool claim(void *ctx, uint64_t nbytes)
{
    struct budget *budget = ctx;
    if (budget->used + nbytes > budget->limit)
        return false;
    budget->used += nbytes;
    return true;
}
static void give_back(void *ctx, uint64_t nbytes) { ((struct budget *)ctx)->used -= nbytes; }

static void test_budgets(void **state)
{
    struct budget budget = {0, (uint64_t)1 << 30};
    const struct psti_nvjpeg_options options = {
        .claim = claim, .give_back = give_back, .ctx = &budget};
    struct jpeg jpeg = make(&good[0]);
    struct psti_nvjpeg_lane *lane;
    struct pst_error err;
    (void)state;
    const struct psti_device_options small = {.device_memory = 100000};
    struct room room = {0};
    assert_ok(psti_device_open(&small, &room.device, &err));
    room.stream = open_stream(room.device);
    struct picture picture = open_picture(room.device, &jpeg, 0);
    assert_ok(psti_device_nvjpeg_open(room.device, &options, &room.nvjpeg, &err));
    assert_ok(psti_device_nvjpeg_lane_open(room.nvjpeg, &lane, &err));
    budget.limit = 0;
    assert_int_equal(psti_device_nvjpeg_lane_begin(lane, jpeg.bytes, jpeg.nbytes, &jpeg.file, &err),
                     PST_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "host_memory"));
    budget.limit = (uint64_t)1 << 30;
    assert_ok(psti_device_nvjpeg_lane_begin(lane, jpeg.bytes, jpeg.nbytes, &jpeg.file, &err));
    assert_true(budget.used > 0);
    assert_int_equal(
        psti_device_nvjpeg_lane_submit(lane, room.stream, picture.at, picture.row_nbytes, &err),
        PST_ERROR_LIMIT);
    assert_non_null(strstr(err.text, "device memory"));
    psti_device_nvjpeg_lane_close(&lane);
    psti_device_free(room.device, picture.at, picture.nbytes);
    drop(&jpeg);
    close_room(&room);
    assert_int_equal(budget.used, 0);
}

#ifdef PST_FAULTS
/* Every function once, up to the first failure. */
struct all {
    struct psti_nvjpeg *nvjpeg;
    struct psti_nvjpeg_lane *lane;
    struct psti_nvjpeg_batch *batch;
};

static enum pst_status use_all(const struct room *room, const struct jpeg *jpeg,
                               const struct picture *picture, struct all *all,
                               struct pst_error *err)
{
    const struct psti_nvjpeg_item item = {jpeg->bytes, jpeg->nbytes, picture->at,
                                          picture->row_nbytes};
    bool suits = false;
    enum pst_status status = psti_device_nvjpeg_open(room->device, &no_options, &all->nvjpeg, err);
    if (status == PST_OK)
        status = psti_device_nvjpeg_lane_open(all->nvjpeg, &all->lane, err);
    if (status == PST_OK)
        status = psti_device_nvjpeg_batch_open(all->nvjpeg, 1, &all->batch, err);
    if (status == PST_OK)
        status = psti_device_nvjpeg_lane_suits_engines(all->lane, jpeg->bytes, jpeg->nbytes,
                                                       &jpeg->file, &suits, err);
    if (status == PST_OK)
        status =
            psti_device_nvjpeg_lane_begin(all->lane, jpeg->bytes, jpeg->nbytes, &jpeg->file, err);
    if (status == PST_OK)
        status = psti_device_nvjpeg_lane_submit(all->lane, room->stream, picture->at,
                                                picture->row_nbytes, err);
    if (status == PST_OK)
        status = psti_device_nvjpeg_batch_submit(all->batch, room->stream, &item, 1, 3, err);
    return status;
}

/* Makes call number n of that kind fail. False: there were not so many. */
static bool fail_one(enum psti_fault_kind kind, uint64_t n, const struct jpeg *jpeg)
{
    struct room room = {.device = open_gpu(0)};
    struct picture picture = open_picture(room.device, jpeg, 0);
    struct fake_nvjpeg_counts counts;
    struct all all = {0};
    struct pst_error err;
    room.stream = open_stream(room.device);
    psti_fault_arm(kind, n, false);
    enum pst_status status = use_all(&room, jpeg, &picture, &all, &err);
    bool reached = psti_fault_count(kind) >= n;
    psti_fault_arm(kind, 0, false);
    if (status != PST_OK)
        assert_true(strlen(err.text) > 10);
    assert_ok(psti_device_stream_sync(room.stream, &err));
    if (status == PST_OK)
        compare(&picture, jpeg);
    psti_device_nvjpeg_lane_close(&all.lane);
    psti_device_nvjpeg_batch_close(&all.batch);
    psti_device_nvjpeg_close(&all.nvjpeg);
    psti_device_free(room.device, picture.at, picture.nbytes);
    psti_device_stream_close(&room.stream);
    psti_device_close(&room.device);
    fake_nvjpeg_counts(&counts);
    assert_int_equal(counts.n_live, 0);
    assert_nothing_left();
    assert_true(reached || status == PST_OK);
    return reached;
}

/* Each call of driver and nvJPEG, and each allocation, fails once. */
static void test_every_failure(void **state)
{
    static const enum psti_fault_kind kinds[] = {PSTI_FAULT_DEVICE, PSTI_FAULT_ALLOC};
    struct jpeg jpeg = make(&good[0]);
    (void)state;
    set("PENSTOCK_FAKE_NVJPEG_ENGINES", "2");
    for (int k = 0; k < 2; k++) {
        uint64_t n = 1;
        while (fail_one(kinds[k], n, &jpeg))
            n++;
        assert_true(n > (k == 0 ? 40 : 8)); /* there are at least so many */
    }
    set("PENSTOCK_FAKE_NVJPEG_ENGINES", NULL);
    drop(&jpeg);
}
#endif

static void test_results(void **state)
{
    static const struct {
        unsigned result;
        enum pst_status host, device;
    } results[] = {
        {PSTI_NVJ_NOT_INITIALIZED, PST_ERROR_DEVICE, PST_ERROR_DEVICE},
        {PSTI_NVJ_INVALID_PARAMETER, PST_ERROR_UNSUPPORTED, PST_ERROR_UNSUPPORTED},
        {PSTI_NVJ_BAD_JPEG, PST_ERROR_CORRUPT, PST_ERROR_CORRUPT},
        {PSTI_NVJ_JPEG_NOT_SUPPORTED, PST_ERROR_UNSUPPORTED, PST_ERROR_UNSUPPORTED},
        {PSTI_NVJ_ALLOCATOR_FAILURE, PST_ERROR_MEMORY, PST_ERROR_MEMORY},
        {PSTI_NVJ_EXECUTION_FAILED, PST_ERROR_DEVICE, PST_ERROR_DEVICE},
        {PSTI_NVJ_ARCH_MISMATCH, PST_ERROR_UNSUPPORTED, PST_ERROR_UNSUPPORTED},
        {PSTI_NVJ_INTERNAL_ERROR, PST_ERROR_UNSUPPORTED, PST_ERROR_DEVICE},
        {PSTI_NVJ_IMPLEMENTATION_NOT_SUPPORTED, PST_ERROR_UNSUPPORTED, PST_ERROR_UNSUPPORTED},
        {PSTI_NVJ_INCOMPLETE_BITSTREAM, PST_ERROR_TRUNCATED, PST_ERROR_TRUNCATED},
        {99, PST_ERROR_DEVICE, PST_ERROR_DEVICE},
    };
    struct room room = open_room(&no_options);
    struct jpeg jpeg = make(&good[1]);
    struct picture picture = open_picture(room.device, &jpeg, 0);
    struct psti_nvjpeg_lane *lane;
    struct pst_error err;
    (void)state;
    assert_ok(psti_device_nvjpeg_lane_open(room.nvjpeg, &lane, &err));
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        fake_nvjpeg_fail(FAKE_NVJPEG_HOST, 1, results[i].result);
        assert_int_equal(
            psti_device_nvjpeg_lane_begin(lane, jpeg.bytes, jpeg.nbytes, &jpeg.file, &err),
            results[i].host);
        assert_ok(psti_device_nvjpeg_lane_begin(lane, jpeg.bytes, jpeg.nbytes, &jpeg.file, &err));
        fake_nvjpeg_fail(i % 2 ? FAKE_NVJPEG_TRANSFER : FAKE_NVJPEG_DEVICE, 1, results[i].result);
        assert_int_equal(
            psti_device_nvjpeg_lane_submit(lane, room.stream, picture.at, picture.row_nbytes, &err),
            results[i].device);
    }
    fake_nvjpeg_fail(FAKE_NVJPEG_HOST, 0, 0);
    assert_ok(psti_device_nvjpeg_lane_begin(lane, jpeg.bytes, jpeg.nbytes, &jpeg.file, &err));
    assert_ok(
        psti_device_nvjpeg_lane_submit(lane, room.stream, picture.at, picture.row_nbytes, &err));
    assert_ok(psti_device_stream_sync(room.stream, &err));
    compare(&picture, &jpeg);
    psti_device_nvjpeg_lane_close(&lane);
    psti_device_free(room.device, picture.at, picture.nbytes);
    drop(&jpeg);
    close_room(&room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_are_taken),
        cmocka_unit_test(test_scans_without_number),
        cmocka_unit_test(test_finding_the_library),
        cmocka_unit_test(test_no_library),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_corrupt_files),
        cmocka_unit_test(test_engines),
        cmocka_unit_test(test_budgets),
#ifdef PST_FAULTS
        cmocka_unit_test(test_every_failure),
#endif
        cmocka_unit_test(test_results),
    };
    use_fake_driver();
    setenv("PENSTOCK_NVJPEG", PST_FAKE_NVJPEG, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
