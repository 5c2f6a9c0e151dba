/* device_test.c - implements device_test.h: the kernels of the tests, and a GPU with these
 * kernels. */
#include "device_test.h"

#include <stdlib.h>

static void add(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args)
{
    const struct add_args *a = args;
    uint32_t *at = (uint32_t *)(uintptr_t)a->at;
    (void)n_blocks, (void)n_warps, (void)shared_nbytes;
    for (uint32_t i = 0; i < a->n; i++)
        at[i] += a->value;
}

static void copy(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args)
{
    const struct copy_args *a = args;
    (void)n_blocks, (void)n_warps, (void)shared_nbytes;
    for (uint32_t i = 0; i < a->n; i++)
        ((uint32_t *)(uintptr_t)a->to)[i] = ((const uint32_t *)(uintptr_t)a->from)[i];
}

static void geometry(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args)
{
    uint32_t *to = (uint32_t *)(uintptr_t)((const struct geometry_args *)args)->to;
    to[0] = n_blocks;
    to[1] = n_warps;
    to[2] = shared_nbytes;
}

const char *const kernel_names[N_KERNELS] = {"add", "copy", "geometry"};
static const struct fake_kernel kernels[] = {
    {"geometry", geometry}, {"copy", copy}, {"add", add}, {"not_asked_for", add}};
const struct fake_image kernel_image = {FAKE_IMAGE_MAGIC, 4, kernels, NULL};

void use_fake_driver(void)
{
    setenv("PENSTOCK_CUDA_DRIVER", PST_FAKE_DRIVER, 1);
    unsetenv("PENSTOCK_CUDA");
}

enum pst_status load_kernels(struct psti_device *device, const struct fake_image *image,
                             const char *const *names, uint32_t n_names, struct pst_error *err)
{
    const void *const images[] = {image};
    return psti_device_load_images(device, images, 1, names, n_names, err);
}

struct psti_device *open_gpu(uint32_t ordinal)
{
    struct pst_error err;
    const struct psti_device_options options = {.ordinal = ordinal};
    struct psti_device *device = NULL;
    assert_ok(psti_device_open(&options, &device, &err));
    assert_ok(load_kernels(device, &kernel_image, kernel_names, N_KERNELS, &err));
    return device;
}

struct psti_stream *open_stream(struct psti_device *device)
{
    struct pst_error err;
    struct psti_stream *stream = NULL;
    assert_ok(psti_device_stream_open(device, true, &stream, &err));
    return stream;
}

struct psti_event *open_event(struct psti_device *device)
{
    struct pst_error err;
    struct psti_event *event = NULL;
    assert_ok(psti_device_event_open(device, &event, &err));
    return event;
}

uint64_t alloc_words(struct psti_device *device, uint32_t n)
{
    struct pst_error err;
    uint64_t address = 0;
    assert_ok(psti_device_alloc(device, n * 4u, &address, &err));
    assert_int_equal(address % 256, 0);
    return address;
}

uint32_t *alloc_pinned_words(struct psti_device *device, uint32_t n)
{
    struct pst_error err;
    void *memory = NULL;
    assert_ok(psti_device_alloc_pinned(device, n * 4u, &memory, &err));
    assert_int_equal((uintptr_t)memory % 4096, 0);
    return memory;
}

enum pst_status launch(struct psti_stream *stream, uint32_t kernel, const void *args,
                       size_t args_nbytes, struct pst_error *err)
{
    return psti_device_stream_launch(stream, kernel, 1, 1, 0, args, args_nbytes, err);
}

void assert_nothing_left(void)
{
    struct fake_counts counts;
    fake_counts(&counts);
    assert_int_equal(counts.n_live, 0);
    assert_int_equal(counts.live_nbytes, 0);
    assert_int_equal(counts.live_host_nbytes, 0);
    assert_int_equal(fake_context_depth(), 0);
}
