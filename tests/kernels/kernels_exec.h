/* kernels_exec.h - runs the work of a block with the CPU build of the GPU kernels.
 *
 * The GPU's memory is memory of this process, but separate from the pinned memory, so bytes that
 * were not uploaded are missing. AddressSanitizer guards the end of the upload. */
#ifndef PST_TEST_KERNELS_EXEC_H
#define PST_TEST_KERNELS_EXEC_H

#include "sanitizer.h"
#include "test.h"

#include "gpu/gpu.h"
#include "gpu/work/gpu_kernels.h"

#include <stdlib.h>
#include <string.h>

#if TEST_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, nbytes) ((void)(at), (void)(nbytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, nbytes) ((void)(at), (void)(nbytes))
#endif

typedef void (*exec_kernel)(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes,
                            const void *args);
#define EXEC_DECLARE(id, name)                                                                     \
    extern void name(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const void *args);
PSTI_GPU_KERNEL_LIST(EXEC_DECLARE)

static inline exec_kernel exec_find(uint32_t kernel)
{
    static const exec_kernel kernels[] = {
#define EXEC_NAME(id, name) name,
        PSTI_GPU_KERNEL_LIST(EXEC_NAME)};
    assert_true(kernel < PSTI_GPU_N_KERNELS);
    return kernels[kernel];
}

/* Called after the last test. There is nothing to free here. */
static inline int exec_end(void **state)
{
    (void)state;
    return 0;
}

/* The memory of a block. */
struct exec {
    struct psti_gpu_memory memory;
    void *upload, *scratch, *constants;
};

static inline void *exec_alloc(size_t nbytes)
{
    void *memory = aligned_alloc(256, (nbytes + 255) / 256 * 256 + 256);
    assert_non_null(memory);
    memset(memory, 0xa5, nbytes);
    return memory;
}

/* Allocates memory for rows, which kernels write and tests read. */
static inline void *exec_alloc_out(size_t nbytes)
{
    void *memory = malloc(nbytes);
    assert_non_null(memory);
    return memory;
}
static inline void exec_free_out(void *memory, size_t nbytes)
{
    (void)nbytes;
    free(memory);
}

/* Gives the block's fields their tables. Called after exec_open. */
static inline void exec_add_tables(struct exec *exec, const struct psti_gpu_field *const *fields,
                                   uint32_t n_fields)
{
    size_t at = psti_gpu_constants_nbytes();
    free(exec->constants);
    exec->constants = exec_alloc(at + psti_gpu_tables_nbytes(fields, n_fields));
    psti_gpu_constants_write(exec->constants);
    psti_gpu_tables_write(fields, n_fields, (char *)exec->constants + at);
    exec->memory.constants = (uintptr_t)exec->constants;
}

static inline void exec_open(struct exec *exec, const struct psti_gpu_block_size *size)
{
    exec->upload = exec_alloc(size->upload_nbytes);
    exec->scratch = exec_alloc(size->scratch_nbytes);
    exec->constants = exec_alloc(psti_gpu_constants_nbytes());
    psti_gpu_constants_write(exec->constants);
    exec->memory = (struct psti_gpu_memory){
        .pinned = exec_alloc(size->upload_nbytes),
        .upload = (uintptr_t)exec->upload,
        .upload_nbytes = size->upload_nbytes,
        .scratch = (uintptr_t)exec->scratch,
        .scratch_nbytes = size->scratch_nbytes,
        .constants = (uintptr_t)exec->constants,
        .shared_nbytes_max = 227 << 10,
    };
}

static inline void exec_close(struct exec *exec)
{
    free(exec->upload);
    free(exec->scratch);
    free(exec->constants);
    free(exec->memory.pinned);
}

static inline void exec_run(struct exec *exec, const struct psti_gpu_work *work)
{
    char *upload = exec->upload, *pinned = exec->memory.pinned;
    assert_true(work->upload_nbytes <= exec->memory.upload_nbytes);
    assert_true(work->statuses_offset + work->statuses_nbytes <= work->upload_nbytes);
    size_t left = exec->memory.upload_nbytes - work->upload_nbytes;
    memcpy(upload, pinned, work->upload_nbytes);
    memset(exec->scratch, 0x5a, exec->memory.scratch_nbytes);
    ASAN_POISON_MEMORY_REGION(upload + work->upload_nbytes, left);
    for (uint32_t i = 0; i < work->n_launches; i++) {
        const struct psti_gpu_launch *launch = &work->launches[i];
        assert_true(launch->n_blocks > 0 && launch->args_nbytes <= 4000);
        /* A separate copy, so that other arguments of the block cannot be read. */
        void *args = malloc(launch->args_nbytes);
        memcpy(args, launch->args, launch->args_nbytes);
        exec_find(launch->kernel)(launch->n_blocks, launch->n_warps, launch->shared_nbytes, args);
        free(args);
    }
    ASAN_UNPOISON_MEMORY_REGION(upload + work->upload_nbytes, left);
    memcpy(pinned + work->statuses_offset, upload + work->statuses_offset, work->statuses_nbytes);
}

#endif
