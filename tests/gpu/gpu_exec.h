/* gpu_exec.h - replaces kernels/kernels_exec.h to run on a GPU. The work of a block goes through
 * src/device to the driver that is found and the kernels of libpenstock_cuda.so. Rows are written
 * to pinned memory, which has the same address on both sides, so tests can read them where the
 * kernels wrote. */
#ifndef PST_TEST_GPU_EXEC_H
#define PST_TEST_GPU_EXEC_H

#include "test.h"

#include "device/device.h"
#include "gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

/* The GPU. Its first user opens it; exec_end closes it. */
struct exec_gpu {
    struct psti_device *device;
    struct psti_stream *stream;
};

static inline struct exec_gpu *exec_gpu(void)
{
    static struct exec_gpu gpu;
    struct pst_error err;
    if (gpu.device)
        return &gpu;
    const struct psti_device_options options = {.ordinal = 0};
    assert_ok(psti_device_open(&options, &gpu.device, &err));
    assert_ok(psti_device_load_kernels(gpu.device, psti_gpu_kernel_names(),
                                       (uint32_t)psti_gpu_kernel_count(), &err));
    assert_ok(psti_device_stream_open(gpu.device, true, &gpu.stream, &err));
    return &gpu;
}

static inline int exec_end(void **state)
{
    struct exec_gpu *gpu = exec_gpu();
    (void)state;
    psti_device_stream_close(&gpu->stream);
    psti_device_close(&gpu->device);
    return 0;
}

/* The memory of a block. */
struct exec {
    struct psti_gpu_memory memory;
    size_t upload_nbytes, scratch_nbytes;
};

static inline void *exec_alloc_out(size_t nbytes)
{
    struct pst_error err;
    void *memory;
    assert_ok(psti_device_alloc_pinned(exec_gpu()->device, nbytes, &memory, &err));
    return memory;
}

static inline void exec_free_out(void *memory, size_t nbytes)
{
    psti_device_free_pinned(exec_gpu()->device, memory, nbytes);
}

static inline uint64_t exec_alloc(size_t nbytes)
{
    struct pst_error err;
    uint64_t address;
    assert_ok(psti_device_alloc(exec_gpu()->device, nbytes + 256, &address, &err));
    return address;
}

static inline void exec_free(uint64_t address, size_t nbytes)
{
    psti_device_free(exec_gpu()->device, address, nbytes + 256);
}

static inline void exec_upload(uint64_t to, void *pinned, size_t nbytes)
{
    struct pst_error err;
    assert_ok(psti_device_stream_upload(exec_gpu()->stream, to, pinned, nbytes, &err));
    assert_ok(psti_device_stream_sync(exec_gpu()->stream, &err));
}

static inline void exec_open(struct exec *exec, const struct psti_gpu_block_size *size)
{
    size_t n = psti_gpu_constants_nbytes();
    struct psti_device_info info;
    psti_device_info(exec_gpu()->device, &info);
    void *constants = exec_alloc_out(n);
    exec->upload_nbytes = size->upload_nbytes;
    exec->scratch_nbytes = size->scratch_nbytes;
    exec->memory = (struct psti_gpu_memory){
        .pinned = exec_alloc_out(size->upload_nbytes),
        .upload = exec_alloc(size->upload_nbytes),
        .upload_nbytes = size->upload_nbytes,
        .scratch = exec_alloc(size->scratch_nbytes),
        .scratch_nbytes = size->scratch_nbytes,
        .constants = exec_alloc(n),
        .n_processors = info.n_processors,
        .shared_nbytes_max = info.shared_nbytes_max,
    };
    psti_gpu_constants_write(constants);
    exec_upload(exec->memory.constants, constants, n);
    exec_free_out(constants, n);
}

static inline void exec_close(struct exec *exec)
{
    exec_free(exec->memory.upload, exec->upload_nbytes);
    exec_free(exec->memory.scratch, exec->scratch_nbytes);
    exec_free(exec->memory.constants, psti_gpu_constants_nbytes());
    exec_free_out(exec->memory.pinned, exec->upload_nbytes);
}

static inline void exec_run(struct exec *exec, const struct psti_gpu_work *work)
{
    struct pst_error err;
    struct psti_stream *stream = exec_gpu()->stream;
    char *statuses = (char *)exec->memory.pinned + work->statuses_offset;
    assert_ok(psti_device_stream_upload(stream, exec->memory.upload, exec->memory.pinned,
                                        work->upload_nbytes, &err));
    for (uint32_t i = 0; i < work->n_launches; i++) {
        const struct psti_gpu_launch *launch = &work->launches[i];
        assert_ok(psti_device_stream_launch(stream, launch->kernel, launch->n_blocks,
                                            launch->n_warps, launch->shared_nbytes, launch->args,
                                            launch->args_nbytes, &err));
    }
    assert_ok(psti_device_stream_download(stream, statuses,
                                          exec->memory.upload + work->statuses_offset,
                                          work->statuses_nbytes, &err));
    assert_ok(psti_device_stream_sync(stream, &err));
}

#endif
