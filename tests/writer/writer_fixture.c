/* writer_fixture.c - implements writer_fixture.h. Ends the test with cmocka's asserts. Uses plain
 * malloc, so injected faults hit only the library's allocations. */
#include "writer/writer_fixture.h"

#include "base/hash.h"
#include "dataset/dataset.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct pst_field fixture_fields[FIX_N_FIELDS] = {
    {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 2},
    {.name = "mask", .type = PST_FIELD_MASK, .n_variants = 1},
    {.name = "boxes", .type = PST_FIELD_BOXES, .n_variants = 1},
    {.name = "keypoints", .type = PST_FIELD_KEYPOINTS, .n_variants = 1},
    {.name = "audio", .type = PST_FIELD_AUDIO, .n_variants = 1},
    {.name = "label", .type = PST_FIELD_INT, .n_variants = 1, .n_classes = 5},
    {.name = "weight", .type = PST_FIELD_FLOAT, .n_variants = 1},
    {.name = "blob", .type = PST_FIELD_BYTES, .n_variants = 1},
    {.name = "caption", .type = PST_FIELD_TEXT, .n_variants = 1},
    {.name = "meta", .type = PST_FIELD_JSON, .n_variants = 1},
    {.name = "fixed",
     .type = PST_FIELD_ARRAY,
     .n_variants = 1,
     .dtype = PST_DTYPE_F32,
     .ndim = 2,
     .shape = {2, 3}},
    {.name = "ragged", .type = PST_FIELD_ARRAY, .n_variants = 1, .dtype = PST_DTYPE_U16},
};
const char *const fixture_classes[5] = {"ant", "b\xC3\xA4r", "cat", "dog", "e"};

char *fixture_directory(void)
{
    char path[] = "/dev/shm/pst-test-XXXXXX", other[] = "/tmp/pst-test-XXXXXX";
    char *made = mkdtemp(path);
    if (made == NULL)
        made = mkdtemp(other);
    assert_non_null(made);
    return strdup(made);
}

void fixture_empty(const char *directory)
{
    char path[1024];
    DIR *dir = opendir(directory);
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        struct stat st;
        if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
            fixture_empty(path);
            rmdir(path);
        } else {
            unlink(path);
        }
    }
    if (dir != NULL)
        closedir(dir);
}

void fixture_remove(char *directory)
{
    fixture_empty(directory);
    rmdir(directory);
    free(directory);
}

static void *grow(struct fixture_sample *s, size_t nbytes, uint64_t seed)
{
    uint8_t *p = s->bytes + s->n_bytes;
    assert_true(s->n_bytes + nbytes <= sizeof s->bytes);
    uint64_t x = seed * 0x9E3779B97F4A7C15u + 1;
    for (size_t i = 0; i < nbytes; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        p[i] = (uint8_t)(x >> 56);
    }
    s->n_bytes += (nbytes + 7) & ~(size_t)7;
    return p;
}

static void put(struct fixture_sample *s, int field, size_t nbytes, uint64_t seed)
{
    s->value[field][0].bytes = grow(s, nbytes, seed * FIX_N_FIELDS + (uint64_t)field);
    s->value[field][0].nbytes = nbytes;
}

/* Makes boxes or keypoints on an image of any size: x0, y0, x1, y1; x, y, visibility. */
static void put_points(struct fixture_sample *s, int field, size_t n_columns, size_t n)
{
    float *rows = grow(s, n * n_columns * sizeof *rows, 1);
    for (size_t i = 0; i < n * n_columns; i++)
        rows[i] = (float)(i % n_columns / 2) + (float)(i / n_columns) / 4;
    s->value[field][0].bytes = rows;
    s->value[field][0].nbytes = n * n_columns * sizeof *rows;
}

static void put_raw(struct fixture_sample *s, int field, int variant, uint32_t height,
                    uint32_t width, uint8_t channels, uint8_t bits, uint64_t seed)
{
    struct pst_value *v = &s->value[field][variant];
    v->nbytes = (size_t)height * width * channels * bits / 8;
    v->bytes = grow(s, v->nbytes, seed + 1000 * (uint64_t)variant + (uint64_t)field);
    v->form = PST_FORM_RAW;
    v->height = height;
    v->width = width;
    v->channels = channels;
    v->bits = bits;
}

void fixture_make(struct fixture_sample *s, uint64_t i)
{
    memset(s, 0, sizeof *s);
    for (int f = 0; f < FIX_N_FIELDS; f++)
        s->values[f] = s->value[f];
    snprintf(s->name, sizeof s->name, "class/\xC3\xBC sample %llu", (unsigned long long)i);
    s->sample.struct_size = sizeof s->sample;
    s->sample.value_nbytes = sizeof s->value[0][0];
    s->sample.name = s->name;
    s->sample.values = s->values;
    put_raw(s, FIX_IMAGE, 0, 1 + (uint32_t)(i % 7), 3 + (uint32_t)(i % 11), 3, i % 2 ? 16 : 8, i);
    if (i % 3 == 0)
        put_raw(s, FIX_IMAGE, 1, 2, 2, 1, 8, i);
    put_raw(s, FIX_MASK, 0, 1 + (uint32_t)(i % 7), 3 + (uint32_t)(i % 11), 1, 8, i);
    put_points(s, FIX_BOXES, 4, i % 4);
    put_points(s, FIX_KEYPOINTS, 3, i % 3);
    put(s, FIX_AUDIO, 5 + i % 50, i);
    put(s, FIX_BLOB, i % 9, i);
    s->label = (int64_t)(i % 5);
    s->weight = (double)i / 3;
    s->value[FIX_LABEL][0] = (struct pst_value){.bytes = &s->label, .nbytes = 8};
    s->value[FIX_WEIGHT][0] = (struct pst_value){.bytes = &s->weight, .nbytes = 8};
    char *caption = grow(s, 40, i), *meta = grow(s, 40, i);
    int n = snprintf(caption, 40, "gr\xC3\xBC\xC3\x9F %llu", (unsigned long long)i);
    s->value[FIX_CAPTION][0] = (struct pst_value){.bytes = caption, .nbytes = (size_t)n};
    n = snprintf(meta, 40, "{\"i\":%llu}", (unsigned long long)i);
    s->value[FIX_META][0] = (struct pst_value){.bytes = meta, .nbytes = (size_t)n};
    put(s, FIX_FIXED, 24, i);
    uint32_t rows = (uint32_t)(i % 4);
    put(s, FIX_RAGGED, rows * 5 * 2, i);
    s->value[FIX_RAGGED][0].ndim = 2;
    s->value[FIX_RAGGED][0].shape[0] = rows;
    s->value[FIX_RAGGED][0].shape[1] = 5;
}

enum pst_status fixture_add(pst_writer *writer, uint64_t i, struct pst_error *err)
{
    struct fixture_sample s;
    fixture_make(&s, i);
    return pst_writer_add(writer, &s.sample, err);
}

struct pst_writer_options fixture_options(enum pst_writer_mode mode)
{
    return (struct pst_writer_options){.struct_size = sizeof(struct pst_writer_options),
                                       .mode = mode,
                                       .shard_nbytes = 12000,
                                       .commit_nbytes = 7000};
}

static void check_item(const pst_dataset *ds, uint64_t i, uint32_t f, uint32_t v,
                       const struct pst_value *want)
{
    struct pst_error err = {0};
    struct pst_item item;
    uint8_t bytes[2048];
    assert_ok(pst_dataset_item(ds, i, f, v, &item, sizeof item, &err));
    if (want->bytes == NULL) {
        assert_int_equal(item.form, PST_FORM_NONE);
        assert_int_equal(pst_dataset_read(ds, i, f, v, 0, 0, bytes, &err), PST_ERROR_NOT_FOUND);
        return;
    }
    assert_int_equal(item.nbytes, want->nbytes);
    assert_true(item.nbytes <= pst_dataset_max_item_nbytes(ds, f));
    assert_ok(pst_dataset_read(ds, i, f, v, 0, item.nbytes, bytes, &err));
    assert_memory_equal(bytes, want->bytes, want->nbytes);
    assert_true(item.checksum == psti_hash64(want->bytes, want->nbytes));
    assert_int_equal(item.offset % (want->form == PST_FORM_RAW ? 64 : 8), 0);
    if (want->form == PST_FORM_RAW) {
        assert_int_equal(item.form, PST_FORM_RAW);
        assert_int_equal(item.height, want->height);
        assert_int_equal(item.width, want->width);
        assert_int_equal(item.channels, want->channels);
        assert_int_equal(item.bits, want->bits);
        assert_true(item.has_pixel_checksum && item.pixel_checksum == item.checksum);
    } else {
        assert_int_equal(item.form, PST_FORM_BYTES);
    }
    if (want->nbytes > 3) {
        memset(bytes, 0, sizeof bytes);
        assert_ok(pst_dataset_read(ds, i, f, v, 2, want->nbytes - 3, bytes, &err));
        assert_memory_equal(bytes, (const uint8_t *)want->bytes + 2, want->nbytes - 3);
    }
}

static void check_shapes(const pst_dataset *ds, uint64_t i)
{
    struct pst_error err = {0};
    struct pst_item item;
    assert_ok(pst_dataset_item(ds, i, FIX_BOXES, 0, &item, sizeof item, &err));
    assert_true(item.ndim == 2 && item.shape[0] == i % 4 && item.shape[1] == 4);
    assert_ok(pst_dataset_item(ds, i, FIX_KEYPOINTS, 0, &item, sizeof item, &err));
    assert_true(item.ndim == 2 && item.shape[0] == i % 3 && item.shape[1] == 3);
    assert_ok(pst_dataset_item(ds, i, FIX_FIXED, 0, &item, sizeof item, &err));
    assert_true(item.ndim == 2 && item.shape[0] == 2 && item.shape[1] == 3);
    assert_ok(pst_dataset_item(ds, i, FIX_RAGGED, 0, &item, sizeof item, &err));
    assert_true(item.ndim == 2 && item.shape[0] == i % 4 && item.shape[1] == 5);
}

void fixture_check_open(const pst_dataset *ds, uint64_t n)
{
    struct pst_error err = {0};
    struct fixture_sample s;
    assert_int_equal(pst_dataset_count(ds), n);
    assert_int_equal(pst_dataset_n_fields(ds), FIX_N_FIELDS);
    uint64_t max_blob = 0, max_pixels = 0;
    for (uint64_t i = 0; i < n; i++) {
        char name[PST_NAME_CAP];
        int64_t label;
        double weight;
        fixture_make(&s, i);
        assert_ok(pst_dataset_sample_name(ds, i, name, &err));
        assert_string_equal(name, s.name);
        assert_ok(pst_dataset_int(ds, i, FIX_LABEL, &label, &err));
        assert_int_equal(label, s.label);
        assert_ok(pst_dataset_float(ds, i, FIX_WEIGHT, &weight, &err));
        assert_true(weight == s.weight);
        for (uint32_t f = 0; f < FIX_N_FIELDS; f++)
            for (uint32_t v = 0; v < fixture_fields[f].n_variants; v++)
                if (f != FIX_LABEL && f != FIX_WEIGHT)
                    check_item(ds, i, f, v, &s.value[f][v]);
        check_shapes(ds, i);
        if (s.value[FIX_BLOB][0].nbytes > max_blob)
            max_blob = s.value[FIX_BLOB][0].nbytes;
        if (s.value[FIX_IMAGE][0].nbytes > max_pixels)
            max_pixels = s.value[FIX_IMAGE][0].nbytes;
    }
    assert_int_equal(pst_dataset_max_item_nbytes(ds, FIX_BLOB), max_blob);
    assert_int_equal(pst_dataset_max_pixels_nbytes(ds, FIX_IMAGE), max_pixels);
    uint64_t n_items = 0;
    for (uint32_t i = 0; i < pst_dataset_n_files(ds); i++) {
        uint64_t found;
        assert_ok(psti_dataset_scan_shard(ds, i, &found, &err));
        n_items += found;
    }
    assert_int_equal(n_items, n * 10 + (n + 2) / 3);
    assert_ok(psti_dataset_check_index(ds, &err));
}

enum pst_status fixture_live(const char *path, enum pst_writer_mode mode, uint64_t end,
                             struct pst_error *err)
{
    struct pst_writer_options options = fixture_options(mode);
    pst_writer *writer;
    enum pst_status status =
        pst_writer_open(path, fixture_fields, FIX_N_FIELDS, &options, &writer, err);
    if (status != PST_OK)
        return status;
    status = pst_writer_set_class_names(writer, FIX_LABEL, fixture_classes, 5, err);
    for (uint64_t i = pst_writer_count(writer); i < end && status == PST_OK; i++)
        status = fixture_add(writer, i, err);
    if (status == PST_OK)
        status = pst_writer_finish(writer, err);
    pst_writer_close(&writer);
    return status;
}

void fixture_check(const char *path, uint64_t n)
{
    struct pst_error err = {0};
    pst_dataset *ds;
    assert_ok(pst_dataset_open(path, NULL, &ds, &err));
    assert_false(pst_dataset_is_folder(ds));
    fixture_check_open(ds, n);
    pst_dataset_close(&ds);
}

uint8_t *fixture_read_file(const char *path, size_t *nbytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *nbytes = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*nbytes + 1);
    assert_int_equal(fread(bytes, 1, *nbytes, file), *nbytes);
    fclose(file);
    return bytes;
}

void fixture_write_file(const char *path, const void *bytes, size_t nbytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, nbytes, file), nbytes);
    assert_int_equal(fclose(file), 0);
}
