/* make_tars.c - implements make_tars.h. */
#include "loader/make_tars.h"

#include "containers/tar_helper.h"
#include "loader/make_data.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_CAP = 512 };

static uint8_t *make_jpeg(uint32_t i, size_t *nbytes)
{
    uint32_t height, width;
    make_size(i, MAKE_MIXED, &height, &width);
    uint8_t *pixels = malloc((size_t)height * width * 3);
    assert_non_null(pixels);
    make_pixels(i, height, width, pixels);
    uint8_t *jpeg = encode_jpeg(pixels, height, width, nbytes);
    free(pixels);
    return jpeg;
}

static size_t make_text(uint32_t i, char text[TEXT_CAP])
{
    memset(text, 'a' + (int)(i % 26), 100 + i);
    return 100 + i + (size_t)snprintf(text + 100 + i, TEXT_CAP - 100 - i, " sample %u", i);
}

void make_tar(const char *path, uint32_t first, uint32_t n)
{
    struct tar tar = {0};
    char name[32], text[TEXT_CAP];
    for (uint32_t i = first; i < first + n; i++) {
        size_t nbytes;
        uint8_t *jpeg = make_jpeg(i, &nbytes);
        snprintf(name, sizeof name, "%04u.jpg", i);
        tar_file(&tar, name, jpeg, nbytes);
        free(jpeg);
        snprintf(name, sizeof name, "%04u.cls", i);
        tar_file(&tar, name, text, (size_t)snprintf(text, sizeof text, "%u", i % 10));
        snprintf(name, sizeof name, "%04u.txt", i);
        nbytes = make_text(i, text);
        tar_file(&tar, name, text, nbytes);
    }
    tar_zeros(&tar, 1024);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(tar.bytes, 1, tar.nbytes, file), tar.nbytes);
    assert_int_equal(fclose(file), 0);
    tar_free(&tar);
}

void make_packed(const char *path, uint32_t n)
{
    const struct pst_field fields[] = {{.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1},
                                       {.name = "label", .type = PST_FIELD_INT, .n_variants = 1},
                                       {.name = "text", .type = PST_FIELD_TEXT, .n_variants = 1}};
    const struct pst_writer_options options = {.struct_size = sizeof options};
    struct pst_error err;
    pst_writer *writer = NULL;
    assert_ok(pst_writer_open(path, fields, 3, &options, &writer, &err));
    for (uint32_t i = 0; i < n; i++) {
        char name[32], text[TEXT_CAP];
        const int64_t number = i % 10;
        struct pst_value image = {.form = PST_FORM_JPEG}, words = {.bytes = text};
        const struct pst_value label = {.bytes = &number, .nbytes = sizeof number};
        const struct pst_value *const values[] = {&image, &label, &words};
        uint8_t *jpeg = make_jpeg(i, &image.nbytes);
        image.bytes = jpeg;
        words.nbytes = make_text(i, text);
        snprintf(name, sizeof name, "%04u", i);
        add_sample(writer, name, values);
        free(jpeg);
    }
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
}
