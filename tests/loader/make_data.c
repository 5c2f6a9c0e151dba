/* make_data.c - makes small data sets and folders for tests. Every value is computed from the
 * sample's number, so a test can compute the expected value. */
#include "loader/make_data.h"

#include "test.h"

#include "base/hash.h"

#include <fcntl.h>
#include <ftw.h>
#include <jpeglib.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void make_directory(char path[64])
{
    snprintf(path, 64, "/tmp/pst-test-XXXXXX");
    assert_non_null(mkdtemp(path));
}

static int remove_one(const char *path, const struct stat *stat_, int kind, struct FTW *ftw)
{
    (void)stat_;
    (void)kind;
    (void)ftw;
    return remove(path);
}

void remove_tree(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

void make_pixels(uint32_t i, uint32_t height, uint32_t width, uint8_t *pixels)
{
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++, pixels += 3) {
            pixels[0] = (uint8_t)(i * 37 + x * 3);
            pixels[1] = (uint8_t)(i * 11 + y * 5);
            pixels[2] = (uint8_t)(i + x + y);
        }
}

void make_size(uint32_t i, enum make_images images, uint32_t *height, uint32_t *width)
{
    *height = images == MAKE_RAW_SAME ? 32 : 40 + i * 7 % 30;
    *width = images == MAKE_RAW_SAME ? 48 : 36 + i * 13 % 50;
}

static void append(png_structp png, png_bytep data, png_size_t n)
{
    struct {
        uint8_t *bytes;
        size_t n;
    } *out = png_get_io_ptr(png);
    out->bytes = realloc(out->bytes, out->n + n);
    memcpy(out->bytes + out->n, data, n);
    out->n += n;
}

uint8_t *encode_png(const uint8_t *pixels, uint32_t height, uint32_t width, uint32_t channels,
                    size_t *nbytes)
{
    struct {
        uint8_t *bytes;
        size_t n;
    } out = {NULL, 0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, &out, append, NULL);
    png_set_compression_level(png, 1);
    png_set_IHDR(png, info, width, height, 8,
                 channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (uint32_t y = 0; y < height; y++)
        png_write_row(png, pixels + (size_t)y * width * channels);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    *nbytes = out.n;
    return out.bytes;
}

static uint8_t *encode_scans(const uint8_t *pixels, uint32_t height, uint32_t width,
                             bool progressive, size_t *nbytes)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long n = 0;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &bytes, &n);
    jpeg.image_width = width;
    jpeg.image_height = height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 90, TRUE);
    if (progressive)
        jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + (size_t)jpeg.next_scanline * width * 3);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    *nbytes = n;
    return bytes;
}

uint8_t *encode_jpeg(const uint8_t *pixels, uint32_t height, uint32_t width, size_t *nbytes)
{
    return encode_scans(pixels, height, width, false, nbytes);
}

uint8_t *encode_progressive_jpeg(const uint8_t *pixels, uint32_t height, uint32_t width,
                                 size_t *nbytes)
{
    return encode_scans(pixels, height, width, true, nbytes);
}

void add_sample(pst_writer *writer, const char *name, const struct pst_value *const *values)
{
    struct pst_error err;
    const struct pst_sample sample = {.struct_size = sizeof sample,
                                      .value_nbytes = sizeof **values,
                                      .name = name,
                                      .values = values};
    assert_ok(pst_writer_add(writer, &sample, &err));
}

static uint32_t make_schema(struct pst_field *fields, bool all_fields)
{
    static const struct pst_field schema[] = {
        {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1},
        {.name = "label", .type = PST_FIELD_INT, .n_variants = 1, .n_classes = 10},
        {.name = "mask", .type = PST_FIELD_MASK, .n_variants = 1},
        {.name = "boxes", .type = PST_FIELD_BOXES, .n_variants = 1},
        {.name = "points", .type = PST_FIELD_KEYPOINTS, .n_variants = 1},
        {.name = "text", .type = PST_FIELD_TEXT, .n_variants = 1},
        {.name = "score", .type = PST_FIELD_FLOAT, .n_variants = 1},
        {.name = "vector",
         .type = PST_FIELD_ARRAY,
         .dtype = PST_DTYPE_F32,
         .n_variants = 1,
         .ndim = 1,
         .shape = {3}},
        {.name = "table", .type = PST_FIELD_ARRAY, .dtype = PST_DTYPE_I16, .n_variants = 1},
    };
    uint32_t n = all_fields ? sizeof schema / sizeof *schema : 2;
    memcpy(fields, schema, n * sizeof *schema);
    return n;
}

static void make_image(uint32_t i, const struct make_options *options, struct pst_value *value,
                       uint8_t **owned)
{
    uint32_t height, width;
    make_size(i, options->images, &height, &width);
    uint8_t *pixels = malloc((size_t)height * width * 3);
    make_pixels(i, height, width, pixels);
    enum pst_form form = options->images == MAKE_RAW_SAME ? PST_FORM_RAW
                         : options->images == MAKE_JPEG   ? PST_FORM_JPEG
                         : options->images == MAKE_PNG    ? PST_FORM_PNG
                         : i % 3 == 0                     ? PST_FORM_RAW
                         : i % 3 == 1                     ? PST_FORM_PNG
                                                          : PST_FORM_JPEG;
    *value = (struct pst_value){.form = form};
    if (form == PST_FORM_RAW) {
        value->nbytes = (size_t)height * width * 3;
        value->height = height;
        value->width = width;
        value->channels = 3;
        value->bits = 8;
        *owned = pixels;
    } else {
        *owned = form == PST_FORM_PNG ? encode_png(pixels, height, width, 3, &value->nbytes)
                                      : encode_jpeg(pixels, height, width, &value->nbytes);
        free(pixels);
    }
    value->bytes = *owned;
}

static void make_sample(pst_writer *writer, uint32_t i, const struct make_options *options)
{
    uint8_t *image = NULL, *mask = NULL;
    struct pst_value v[9];
    memset(v, 0, sizeof v);
    make_image(i, options, &v[0], &image);
    int64_t label = i % 10;
    v[1] = (struct pst_value){.bytes = &label, .nbytes = sizeof label};
    uint32_t height, width;
    make_size(i, options->images, &height, &width);
    uint8_t *classes = malloc((size_t)height * width);
    for (uint32_t k = 0; k < height * width; k++)
        classes[k] = (uint8_t)((k % width + i) % 20);
    mask = encode_png(classes, height, width, 1, &v[2].nbytes);
    free(classes);
    v[2].bytes = mask;
    v[2].form = PST_FORM_PNG;
    float boxes[5][4], points[7][3], vector[3] = {(float)i, 1, 2};
    for (uint32_t k = 0; k < 5; k++)
        for (uint32_t c = 0; c < 4; c++)
            boxes[k][c] = (float)(c < 2 ? k + 1 : 10 + k + i % 5);
    for (uint32_t k = 0; k < 7; k++)
        for (uint32_t c = 0; c < 3; c++)
            points[k][c] = (float)(c == 2 ? 1 : i % 20 + k);
    v[3] = (struct pst_value){.bytes = boxes, .nbytes = i % 6 * sizeof boxes[0]};
    v[4] = (struct pst_value){.bytes = points, .nbytes = i % 8 * sizeof points[0]};
    char text[64];
    v[5] = (struct pst_value){.bytes = text};
    v[5].nbytes = (size_t)snprintf(text, sizeof text, "sample %u%.*s", i, (int)(i % 30),
                                   "..............................");
    double score = i * 0.5;
    v[6] = (struct pst_value){.bytes = &score, .nbytes = sizeof score};
    v[7] = (struct pst_value){.bytes = vector, .nbytes = sizeof vector, .ndim = 1, .shape = {3}};
    int16_t table[12];
    for (int k = 0; k < 12; k++)
        table[k] = (int16_t)((int)i * 100 + k);
    v[8] = (struct pst_value){
        .bytes = table, .nbytes = (1 + i % 4) * 6, .ndim = 2, .shape = {1 + i % 4, 3}};
    const struct pst_value *values[9];
    for (int k = 0; k < 9; k++)
        values[k] = &v[k];
    char name[64];
    if (options->edition > 0)
        snprintf(name, sizeof name, "sample-%06u of edition %u", i, options->edition);
    else
        snprintf(name, sizeof name, "sample-%06u", i);
    add_sample(writer, name, values);
    free(image);
    free(mask);
}

void make_dataset(const char *path, const struct make_options *options)
{
    struct pst_error err;
    struct pst_field fields[9];
    uint32_t n = make_schema(fields, options->all_fields);
    pst_writer *writer = NULL;
    assert_ok(pst_writer_open(
        path, fields, n,
        &(struct pst_writer_options){.struct_size = sizeof(struct pst_writer_options),
                                     .shard_nbytes = options->shard_nbytes},
        &writer, &err));
    for (uint32_t i = 0; i < options->n_samples; i++)
        make_sample(writer, i, options);
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
}

void make_folder(const char *path, uint32_t n_classes, uint32_t n_each)
{
    mkdir(path, 0777);
    for (uint32_t c = 0; c < n_classes; c++)
        for (uint32_t k = 0; k < n_each; k++) {
            char name[256];
            uint32_t i = c * n_each + k, height, width;
            size_t nbytes;
            make_size(i, MAKE_JPEG, &height, &width);
            uint8_t *pixels = malloc((size_t)height * width * 3);
            make_pixels(i, height, width, pixels);
            uint8_t *jpeg = encode_jpeg(pixels, height, width, &nbytes);
            snprintf(name, sizeof name, "%s/class%02u", path, c);
            mkdir(name, 0777);
            snprintf(name, sizeof name, "%s/class%02u/%04u.jpg", path, c, k);
            FILE *file = fopen(name, "wb");
            assert_non_null(file);
            assert_int_equal(fwrite(jpeg, 1, nbytes, file), nbytes);
            fclose(file);
            free(jpeg);
            free(pixels);
        }
}

void spoil_sample(const pst_dataset *dataset, uint64_t sample, const char *field)
{
    struct pst_error err;
    struct pst_item item;
    char path[4096];
    uint8_t byte;
    int i_field = pst_dataset_find_field(dataset, field);
    assert_ok(pst_dataset_item(dataset, sample, (uint32_t)i_field, 0, &item, sizeof item, &err));
    assert_ok(pst_dataset_file_path(dataset, item.i_file, path, sizeof path, &err));
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    off_t at = (off_t)(item.offset + item.nbytes / 2);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x55;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* Hashes the elements from axis `axis` on, in order. Rows of padded arrays may have gaps. */
static void hash_axis(struct psti_hash_state *state, const struct pst_tensor *tensor, uint32_t axis,
                      const char *data)
{
    if (axis == tensor->ndim) {
        psti_hash_update(state, data, pst_dtype_nbytes(tensor->dtype));
        return;
    }
    for (int64_t i = 0; i < tensor->shape[axis]; i++)
        hash_axis(state, tensor, axis + 1, data + i * tensor->strides[axis]);
}

static void hash_tensor(struct psti_hash_state *state, const struct pst_tensor *tensor)
{
    size_t nbytes = pst_dtype_nbytes(tensor->dtype);
    bool has_gaps = false;
    for (uint32_t i = tensor->ndim; i-- > 0;) {
        has_gaps |= tensor->shape[i] > 1 && tensor->strides[i] != (int64_t)nbytes;
        nbytes *= (size_t)tensor->shape[i];
    }
    psti_hash_update(state, tensor->shape, tensor->ndim * sizeof tensor->shape[0]);
    psti_hash_update(state, &tensor->dtype, sizeof tensor->dtype);
    if (has_gaps)
        hash_axis(state, tensor, 0, tensor->data);
    else
        psti_hash_update(state, tensor->data, nbytes);
}

uint64_t hash_batch(const pst_batch *batch)
{
    struct psti_hash_state state;
    struct pst_tensor tensor;
    uint32_t n = pst_batch_count(batch);
    psti_hash_begin(&state);
    psti_hash_update(&state, pst_batch_index(batch), n * sizeof(int64_t));
    for (uint32_t f = 0; f < pst_batch_n_fields(batch); f++) {
        for (uint32_t row = 0; row < n; row++) {
            assert_int_equal(pst_batch_row(batch, f, row, &tensor, sizeof tensor, NULL), PST_OK);
            hash_tensor(&state, &tensor);
        }
        for (int part = 0; part <= PST_COLLATED_SHAPES; part++)
            if (pst_batch_collated(batch, f, (enum pst_collated)part, &tensor, sizeof tensor))
                hash_tensor(&state, &tensor);
    }
    return psti_hash_end(&state);
}
