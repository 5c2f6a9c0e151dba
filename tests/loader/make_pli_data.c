/* make_pli_data.c - implements make_pli_data.h. */
#include "loader/make_pli_data.h"

#include "loader/make_data.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

void make_pli(const char *path, uint32_t n, bool checksums)
{
    const struct pst_field fields[2] = {
        {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1},
        {.name = "boxes", .type = PST_FIELD_BOXES, .n_variants = 1}};
    struct pst_error err;
    pst_writer *writer;
    assert_ok(pst_writer_open(
        path, fields, 2,
        &(struct pst_writer_options){.struct_size = sizeof(struct pst_writer_options)}, &writer,
        &err));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t height = 290 + 9 * (i % 7), width = 420 + 11 * (i % 5);
        size_t nbytes, capacity = 2 * pst_pli_encode_bound(height, width, 3, 8);
        uint8_t *pixels = malloc((size_t)height * width * 3), *bytes = malloc(capacity);
        make_pixels(i, height, width, pixels);
        /* noise makes the units long */
        for (uint32_t k = 0, noise = i; k < height * width * 3; k++) {
            noise = noise * 1664525 + 1013904223;
            pixels[k] ^= noise >> 26;
        }
        struct pst_value value = {
            .form = PST_FORM_PLI, .height = height, .width = width, .channels = 3, .bits = 8};
        if (i % 3 == 2) {
            size_t jpeg_nbytes;
            uint8_t *jpeg = encode_jpeg(pixels, height, width, &jpeg_nbytes);
            const struct pst_pli_from_jpeg_options options = {.struct_size = sizeof options,
                                                              .no_checksum = !checksums};
            assert_ok(
                pst_pli_from_jpeg(jpeg, jpeg_nbytes, &options, bytes, capacity, &nbytes, &err));
            value.form = PST_FORM_PLI_JPEG;
            free(jpeg);
        } else {
            const struct pst_pli_encode_options options = {.struct_size = sizeof options,
                                                           .tier = 1 + i % 2,
                                                           .effort = 1,
                                                           .no_checksum = !checksums};
            const struct pst_pixels image = {.data = pixels,
                                             .height = height,
                                             .width = width,
                                             .channels = 3,
                                             .bits = 8,
                                             .row_nbytes = width * 3,
                                             .pixel_nbytes = 3,
                                             .channel_nbytes = 1};
            assert_ok(pst_pli_encode(&image, &options, bytes, capacity, &nbytes, &err));
        }
        char name[16];
        float boxes[4][4];
        for (uint32_t k = 0; k < 16; k++)
            boxes[k / 4][k % 4] = (float)(k % 4 < 2 ? 10 * i + k : 250 + k);
        const struct pst_value drawn = {.bytes = boxes, .nbytes = i % 5 * sizeof boxes[0]};
        const struct pst_value *values[2] = {&value, &drawn};
        value.bytes = bytes;
        value.nbytes = nbytes;
        snprintf(name, sizeof name, "%u", i);
        add_sample(writer, name, values);
        free(pixels);
        free(bytes);
    }
    assert_ok(pst_writer_finish(writer, &err));
    pst_writer_close(&writer);
}

void spoil_units(const pst_dataset *dataset, uint64_t n)
{
    struct pst_error err;
    for (uint64_t sample = 0; sample < n; sample++) {
        struct pst_item item;
        char file[256];
        if (sample % 4 == 3)
            continue;
        assert_ok(pst_dataset_item(dataset, sample, 0, 0, &item, sizeof item, &err));
        assert_ok(pst_dataset_file_path(dataset, item.i_file, file, sizeof file, &err));
        FILE *stream = fopen(file, "r+b");
        assert_non_null(stream);
        for (uint64_t at = item.nbytes / 3; at < item.nbytes; at += 37) {
            assert_int_equal(fseek(stream, (long)(item.offset + at), SEEK_SET), 0);
            assert_int_equal(fputc((int)(at * 31 % 256), stream), (int)(at * 31 % 256));
        }
        fclose(stream);
    }
}
