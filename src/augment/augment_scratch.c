/* augment_scratch.c - the scratch memory of a run, and the pictures in it.
 *
 * A run keeps its scratch, so later samples allocate nothing. The scratch is either one block that
 * was allocated in advance, or buffers that grow to the largest sample so far. It belongs to the
 * thread of the run. */
#include "augment/augment_scratch.h"

#include "augment/augment_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"

#define DEFAULT_LIMIT (1ULL << 30)

enum pst_status psti_augment_run_open(struct psti_run **out, struct pst_error *err)
{
    *out = psti_calloc(1, sizeof **out);
    if (*out == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "augment", "no memory for a run");
    (*out)->limit = DEFAULT_LIMIT;
    return PST_OK;
}

/* Returns whether the buffer is part of the run's block. */
static bool is_cut(const struct psti_run *run, const struct psti_augment_buffer *buffer)
{
    uintptr_t at = (uintptr_t)buffer->data, block = (uintptr_t)run->block;
    return at >= block && at - block < run->block_nbytes;
}

void psti_augment_run_forget(struct psti_run *run)
{
    for (int i = 0; i < PSTI_BUFFERS; i++)
        if (is_cut(run, &run->buffers[i]))
            run->buffers[i] = (struct psti_augment_buffer){0};
    run->block_used = 0;
}

static void free_buffers(struct psti_run *run)
{
    psti_augment_run_forget(run);
    for (int i = 0; i < PSTI_BUFFERS; i++) {
        psti_free(run->buffers[i].data);
        run->buffers[i] = (struct psti_augment_buffer){0};
    }
    psti_free(run->block);
    run->block = NULL;
    run->block_nbytes = 0;
    run->held = 0;
}

void psti_augment_run_hold(struct psti_run *run, uint64_t nbytes)
{
    run->running = false;
    free_buffers(run);
    nbytes &= ~(uint64_t)(PSTI_CACHE_LINE - 1);
    run->block = psti_alloc_aligned(PSTI_CACHE_LINE, nbytes);
    run->block_nbytes = run->block ? nbytes : 0;
    run->held = run->block_nbytes;
}

void psti_augment_run_close(struct psti_run **run)
{
    if (run == NULL || *run == NULL)
        return;
    free_buffers(*run);
    psti_free(*run);
    *run = NULL;
}

uint64_t psti_augment_run_scratch_nbytes(const struct psti_run *run) { return run->held; }

void psti_augment_run_set_scratch_limit(struct psti_run *run, uint64_t nbytes)
{
    run->limit = nbytes;
}

enum pst_status psti_augment_run_reserve(struct psti_run *run, enum psti_buffer_kind kind,
                                         size_t nbytes, struct pst_error *err)
{
    struct psti_augment_buffer *buffer = &run->buffers[kind];
    if (nbytes <= buffer->nbytes)
        return PST_OK;
    bool cut = is_cut(run, buffer);
    size_t padded = psti_round_up(nbytes, PSTI_CACHE_LINE);
    if ((cut || !buffer->data) && nbytes <= run->block_nbytes &&
        padded <= run->block_nbytes - run->block_used) {
        *buffer = (struct psti_augment_buffer){run->block + run->block_used, padded};
        run->block_used += padded;
        return PST_OK;
    }
    nbytes = psti_round_up(nbytes, 4096);
    uint64_t others = run->held - (cut ? 0 : buffer->nbytes);
    if (nbytes > run->limit || others > run->limit - nbytes) {
        return psti_fail(err, PST_ERROR_LIMIT, "augment",
                         "scratch of %llu bytes would exceed the limit of %llu",
                         (unsigned long long)(others + nbytes), (unsigned long long)run->limit);
    }
    if (!cut)
        psti_free(buffer->data);
    run->held = others;
    buffer->nbytes = 0;
    buffer->data = psti_alloc_aligned(64, nbytes);
    if (buffer->data == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "augment", "no memory for %zu bytes of scratch",
                         nbytes);
    buffer->nbytes = nbytes;
    run->held += nbytes;
    return PST_OK;
}

enum pst_status psti_augment_picture_make(struct psti_run *run, enum psti_buffer_kind kind,
                                          uint32_t height, uint32_t width,
                                          struct psti_picture *picture, struct pst_error *err)
{
    size_t nbytes;
    picture->height = height;
    picture->width = width;
    picture->row_nbytes = (size_t)width * run->pixel_nbytes;
    if (!psti_mul_size(picture->row_nbytes, height, &nbytes) ||
        !psti_add_size(nbytes, PSTI_SLACK, &nbytes))
        return psti_fail(err, PST_ERROR_LIMIT, "augment", "a picture of %u x %u is too large",
                         width, height);
    enum pst_status status = psti_augment_run_reserve(run, kind, nbytes, err);
    picture->data = run->buffers[kind].data;
    return status;
}

enum psti_buffer_kind psti_augment_other_buffer(const struct psti_run *run)
{
    return run->picture.data == run->buffers[PSTI_BUFFER_IMAGE_0].data ? PSTI_BUFFER_IMAGE_1
                                                                       : PSTI_BUFFER_IMAGE_0;
}
