/* fuzz_dataset_labels.c - opens a folder with any bytes as its label file, as CSV, JSON lines and a
 * list, and reads every value of every sample. The folder has three images and a mask that the file
 * may name. */
#include <penstock/dataset.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

static void write_file(const char *directory, const char *name, const void *bytes, size_t nbytes)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || write(fd, bytes, nbytes) != (ssize_t)nbytes || close(fd) != 0)
        abort();
}

static void read_item(const pst_dataset *dataset, uint64_t sample, uint32_t i_field)
{
    struct pst_error err;
    struct pst_item item;
    unsigned char data[4096];
    if (pst_dataset_item(dataset, sample, i_field, 0, &item, sizeof item, &err) != PST_OK)
        return;
    if (item.nbytes > pst_dataset_max_item_nbytes(dataset, i_field))
        abort();
    if (item.nbytes <= sizeof data)
        (void)!pst_dataset_read(dataset, sample, i_field, 0, 0, item.nbytes, data, &err);
}

static void use(const pst_dataset *dataset)
{
    struct pst_error err;
    char name[PST_NAME_CAP];
    int64_t number;
    double real;
    for (uint64_t s = 0; s < pst_dataset_count(dataset); s++) {
        if (pst_dataset_sample_name(dataset, s, name, &err) != PST_OK || strlen(name) > 4095)
            abort();
        for (uint32_t f = 0; f < pst_dataset_n_fields(dataset); f++) {
            const struct pst_field *field = pst_dataset_field(dataset, f);
            if (field->type == PST_FIELD_INT) {
                if (pst_dataset_int(dataset, s, f, &number, &err) != PST_OK ||
                    (field->n_classes && (number < 0 || number >= field->n_classes)))
                    abort();
                (void)pst_dataset_class_name(dataset, f, number);
            } else if (field->type == PST_FIELD_FLOAT) {
                if (pst_dataset_float(dataset, s, f, &real, &err) != PST_OK)
                    abort();
            } else {
                read_item(dataset, s, f);
            }
        }
    }
}

static char directory[] = "/dev/shm/pst-fuzz-labels-XXXXXX";
static const char *const files[] = {"a.jpg", "b.png", "c.webp", "m.png"};

static void remove_directory(void)
{
    char path[64];
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, files[i]);
        unlink(path);
    }
    rmdir(directory);
}

static void make_directory(void)
{
    if (!mkdtemp(directory) || atexit(remove_directory) != 0)
        abort();
    for (int i = 0; i < 4; i++)
        write_file(directory, files[i], "bytes", (size_t)i);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    static const char *const kinds[] = {"labels.csv", "labels.jsonl", "labels.txt"};
    if (strstr(directory, "XXXXXX"))
        make_directory();
    for (int kind = 0; kind < 3; kind++) {
        char labels[160];
        struct pst_error err;
        pst_dataset *dataset;
        write_file(directory, kinds[kind], bytes, nbytes);
        snprintf(labels, sizeof labels, "%s/%s", directory, kinds[kind]);
        struct pst_dataset_options options = {.struct_size = sizeof options, .labels = labels};
        if (pst_dataset_open(directory, &options, &dataset, &err) == PST_OK) {
            use(dataset);
            pst_dataset_close(&dataset);
        } else if (!err.text[0]) {
            abort();
        }
        unlink(labels);
    }
    return 0;
}
