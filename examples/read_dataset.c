/* read_dataset.c - reads one epoch of a data set or of a folder of images, in shuffled order.
 *
 *     cc read_dataset.c $(pkg-config --cflags --libs penstock) -o read_dataset
 *     ./read_dataset photographs */
#include <penstock/penstock.h>

#include <inttypes.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct pst_op crop;
    pst_op_init(&crop, sizeof crop, PST_OP_RANDOM_RESIZED_CROP);
    crop.height = crop.width = 64;
    struct pst_field_output image = {.name = "image", .ops = &crop, .n_ops = 1};
    struct pst_loader_options options = {.struct_size = sizeof options,
                                         .batch_size = 4,
                                         .order = PST_ORDER_SHUFFLED,
                                         .seed = 1,
                                         .num_workers = 2,
                                         .fields = &image,
                                         .n_fields = 1,
                                         .field_nbytes = sizeof(struct pst_field_output),
                                         .op_nbytes = sizeof(struct pst_op)};
    struct pst_error err;
    pst_dataset *dataset = NULL;
    pst_loader *loader = NULL;
    pst_batch *batch;
    uint64_t n_samples = 0;
    enum pst_status status = pst_dataset_open(argc > 1 ? argv[1] : ".", NULL, &dataset, &err);
    if (status == PST_OK)
        status = pst_loader_open(dataset, &options, &loader, &err);
    if (status == PST_OK)
        status = pst_loader_begin(loader, 0, &err);
    while (status == PST_OK && (status = pst_loader_next(loader, &batch, &err)) == PST_OK) {
        for (uint32_t row = 0; row < pst_batch_count(batch); row++, n_samples++)
            printf(" %" PRId64, pst_batch_index(batch)[row]);
        printf("\n");
        pst_batch_release(batch);
    }
    if (status != PST_END) {
        char line[1024];
        pst_error_format(&err, line, sizeof line);
        fprintf(stderr, "%s\n", line);
    } else {
        printf("%" PRIu64 " samples\n", n_samples);
    }
    pst_loader_close(&loader);
    pst_dataset_close(&dataset);
    return status == PST_END ? 0 : 1;
}
