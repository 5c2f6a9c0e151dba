/* make_fields.c - writes a data set with a field that no label file can hold: make_fields SET. */
#include <penstock/writer.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    static const struct pst_field fields[] = {
        {.name = "image", .type = PST_FIELD_IMAGE, .n_variants = 1},
        {.name = "sound", .type = PST_FIELD_AUDIO, .n_variants = 1},
    };
    static const unsigned char pixels[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const struct pst_value image = {.bytes = pixels,
                                    .nbytes = sizeof pixels,
                                    .form = PST_FORM_RAW,
                                    .height = 2,
                                    .width = 2,
                                    .channels = 3,
                                    .bits = 8};
    const struct pst_value sound = {.bytes = "beep", .nbytes = 4};
    const struct pst_value *const values[] = {&image, &sound};
    const struct pst_sample sample = {.struct_size = sizeof(struct pst_sample),
                                      .value_nbytes = sizeof(struct pst_value),
                                      .name = "a.png",
                                      .values = values};
    struct pst_error err = {.status = PST_OK};
    char line[1024] = "";
    pst_writer *writer = NULL;
    enum pst_status status =
        argc != 2 ? PST_ERROR_ARGUMENT : pst_writer_open(argv[1], fields, 2, NULL, &writer, &err);
    if (status == PST_OK)
        status = pst_writer_add(writer, &sample, &err);
    if (status == PST_OK)
        status = pst_writer_finish(writer, &err);
    pst_writer_close(&writer);
    if (status == PST_OK)
        return 0;
    pst_error_format(&err, line, sizeof line);
    fprintf(stderr, "make_fields: %s\n", line);
    return 1;
}
