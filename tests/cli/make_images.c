/* make_images.c - writes the JPEGs that the command-line tests need: make_images DIRECTORY COUNT
 * WIDTH HEIGHT.
 *
 * Image i is a smooth pattern that depends on i, named 000i.jpg. */
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

static int write_jpeg(const char *path, unsigned seed, unsigned width, unsigned height)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *row = malloc((size_t)width * 3);
    FILE *file = fopen(path, "wb");
    if (file == NULL || row == NULL)
        return 1;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_stdio_dest(&c, file);
    c.image_width = width;
    c.image_height = height;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 90, TRUE);
    jpeg_start_compress(&c, TRUE);
    for (unsigned y = 0; y < height; y++) {
        for (unsigned x = 0; x < width; x++) {
            unsigned noise = (x * 2654435761u ^ y * 2246822519u ^ seed * 3266489917u) >> 27;
            row[3 * x] = (unsigned char)(x * 2 + seed * 31 + noise);
            row[3 * x + 1] = (unsigned char)(y * 2 + seed * 17 + noise);
            row[3 * x + 2] = (unsigned char)((x ^ y) + noise);
        }
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    return fclose(file) != 0;
}

int main(int argc, char **argv)
{
    char path[4096];
    if (argc != 5) {
        fprintf(stderr, "usage: make_images DIRECTORY COUNT WIDTH HEIGHT\n");
        return 2;
    }
    for (unsigned i = 0; i < strtoul(argv[2], NULL, 10); i++) {
        snprintf(path, sizeof path, "%s/%04u.jpg", argv[1], i);
        if (write_jpeg(path, i, (unsigned)strtoul(argv[3], NULL, 10),
                       (unsigned)strtoul(argv[4], NULL, 10)) != 0)
            return 1;
    }
    return 0;
}
