/* device_test.h - shared by the tests of src/device: a simulated GPU of the fake driver, with some
 * kernels. */
#ifndef DEVICE_TEST_H
#define DEVICE_TEST_H

#include "test.h"

#include "device/device_int.h"
#include "fake_driver.h"

#include <stdbool.h>

/* Kernels of the tests. */
enum { KERNEL_ADD, KERNEL_COPY, KERNEL_GEOMETRY, N_KERNELS };
extern const char *const kernel_names[N_KERNELS];
extern const struct fake_image kernel_image;
struct add_args { /* at[i] += value */
    uint64_t at;
    uint32_t n, value;
};
struct copy_args { /* to[i] = from[i] */
    uint64_t to, from;
    uint32_t n;
};
struct geometry_args { /* results, three u32: blocks, warps, bytes of shared memory */
    uint64_t to;
};

/* Makes Penstock load the fake driver from now on. */
void use_fake_driver(void);
/* Loads the kernels of one image. */
enum pst_status load_kernels(struct psti_device *device, const struct fake_image *image,
                             const char *const *names, uint32_t n_names, struct pst_error *err);
/* Opens a GPU with the kernels and without memory limits. */
struct psti_device *open_gpu(uint32_t ordinal);
struct psti_stream *open_stream(struct psti_device *device);
struct psti_event *open_event(struct psti_device *device);
uint64_t alloc_words(struct psti_device *device, uint32_t n);
uint32_t *alloc_pinned_words(struct psti_device *device, uint32_t n);
/* Launches a kernel with one block. */
enum pst_status launch(struct psti_stream *stream, uint32_t kernel, const void *args,
                       size_t args_nbytes, struct pst_error *err);
/* Fails the test unless everything was freed. */
void assert_nothing_left(void);

#endif
