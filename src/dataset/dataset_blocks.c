/* dataset_blocks.c - reads the payload of an index file in verified blocks, with bounded memory.
 *
 * In: offsets. Out: copies of bytes, for any number of threads at once. If the payload is small
 * (n_frames == n_blocks), each block is read and verified at its first use and stays in memory;
 * later reads take no lock.
 *
 * In a larger payload, a block goes into a frame (memory for one block) after two misses in a row,
 * so sequential reads run in memory. Random reads would load 64 KiB for each 64 bytes. To avoid
 * that, only the wanted bytes are read from a block that was verified once, as long as the file has
 * not changed since. Change time and length of the file are compared after each such read; if they
 * differ, the block is verified again.
 *
 * No thread waits for another. If a frame is in use, the bytes come from the file. So a child that
 * was forked while a frame was in use can continue too. */
#include "dataset/dataset_blocks.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/files/read.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE_NBYTES = 4096,   /* if no frame is free, a block is verified in pieces of this length */
    WORTH_A_FRAME = 16384, /* a read of at least this many bytes loads the whole block */
    NEVER = 0,             /* value of `verified`: the block was not verified */
    IN_FRAME = 1           /* value of `verified`: the block stays in its frame */
};

static enum pst_status read_file(const struct psti_blocks *blocks, uint64_t offset, size_t nbytes,
                                 void *out, struct pst_error *err)
{
    ssize_t n = psti_read_at(blocks->fd, out, nbytes, offset);
    if (n < 0)
        return psti_fail_os(err, errno, "dataset", NULL, (int64_t)offset, "cannot read the index");
    if ((size_t)n < nbytes) /* the index file became shorter after it was opened */
        return psti_fail_at(err, PST_ERROR_IO, "dataset", NULL, (int64_t)offset + n,
                            "the index was cut short while it was open, %zu bytes are missing",
                            nbytes - (size_t)n);
    return PST_OK;
}

/* Makes a number that changes with the state of the file; never NEVER or IN_FRAME. It uses the
 * change time, which every write sets and no program can choose. */
static enum pst_status file_stamp(const struct psti_blocks *blocks, uint64_t *stamp,
                                  struct pst_error *err)
{
    struct stat st;
    if (fstat(blocks->fd, &st) != 0)
        return psti_fail_os(err, errno, "dataset", NULL, -1, "cannot examine the index");
    uint64_t state[3] = {(uint64_t)st.st_ctim.tv_sec, (uint64_t)st.st_ctim.tv_nsec,
                         (uint64_t)st.st_size};
    *stamp = psti_hash64(state, sizeof state) | 2;
    return PST_OK;
}

static uint64_t block_offset(uint64_t i_block)
{
    return PSTI_INDEX_HEADER_NBYTES + i_block * PSTI_INDEX_BLOCK_NBYTES;
}

static size_t block_nbytes(const struct psti_blocks *blocks, uint64_t i_block)
{
    uint64_t left = blocks->end - block_offset(i_block);
    return left < PSTI_INDEX_BLOCK_NBYTES ? (size_t)left : PSTI_INDEX_BLOCK_NBYTES;
}

static enum pst_status compare_sum(const struct psti_blocks *blocks, uint64_t i_block, uint64_t sum,
                                   struct pst_error *err)
{
    if (sum == blocks->sums[i_block])
        return PST_OK;
    return psti_fail_at(err, PST_ERROR_CHECKSUM, "dataset", NULL, (int64_t)block_offset(i_block),
                        "the index was altered within the %zu bytes from here on",
                        block_nbytes(blocks, i_block));
}

/* Reads and verifies a whole block piece by piece, and copies out bytes [start, start + nbytes). */
static enum pst_status read_verifying(const struct psti_blocks *blocks, uint64_t i_block,
                                      size_t start, size_t nbytes, void *out, struct pst_error *err)
{
    struct psti_hash_state sum;
    uint8_t piece[PIECE_NBYTES];
    size_t total = block_nbytes(blocks, i_block);
    psti_hash_begin(&sum);
    for (size_t at = 0; at < total; at += PIECE_NBYTES) {
        size_t n = total - at < PIECE_NBYTES ? total - at : PIECE_NBYTES;
        enum pst_status status = read_file(blocks, block_offset(i_block) + at, n, piece, err);
        if (status != PST_OK)
            return status;
        psti_hash_update(&sum, piece, n);
        size_t from = start > at ? start : at;
        size_t to = start + nbytes < at + n ? start + nbytes : at + n;
        if (from < to)
            memcpy((uint8_t *)out + (from - start), piece + (from - at), to - from);
    }
    return compare_sum(blocks, i_block, psti_hash_end(&sum), err);
}

static bool stays_in_memory(const struct psti_blocks *blocks)
{
    return blocks->n_frames == blocks->n_blocks;
}

static uint8_t *frame_memory(const struct psti_blocks *blocks, uint64_t i_block)
{
    return blocks->memory + (i_block % blocks->n_frames) * PSTI_INDEX_BLOCK_NBYTES;
}

/* Loads a block into its frame. The caller has marked the frame as busy. */
static __attribute__((noinline)) enum pst_status load(struct psti_blocks *blocks, uint64_t i_block,
                                                      struct pst_error *err)
{
    struct psti_blocks_frame *frame = &blocks->frames[i_block % blocks->n_frames];
    uint8_t *memory = frame_memory(blocks, i_block);
    size_t nbytes = block_nbytes(blocks, i_block);
    uint64_t stamp = IN_FRAME;
    enum pst_status status = PST_OK;
    frame->held = 0;
    if (!stays_in_memory(blocks))
        status = file_stamp(blocks, &stamp, err);
    if (status == PST_OK)
        status = read_file(blocks, block_offset(i_block), nbytes, memory, err);
    if (status == PST_OK)
        status = compare_sum(blocks, i_block, psti_hash64(memory, nbytes), err);
    if (status != PST_OK)
        return status;
    frame->held = i_block + 1;
    atomic_store_explicit(&blocks->verified[i_block], stamp, memory_order_release);
    return PST_OK;
}

/* Reads bytes of a block from the file without using a frame. */
static enum pst_status read_past_frames(struct psti_blocks *blocks, uint64_t i_block, size_t start,
                                        size_t nbytes, void *out, struct pst_error *err)
{
    uint64_t stamp = NEVER;
    uint64_t known = atomic_load_explicit(&blocks->verified[i_block], memory_order_acquire);
    enum pst_status status = PST_OK;
    if (known != NEVER && !stays_in_memory(blocks)) {
        status = read_file(blocks, block_offset(i_block) + start, nbytes, out, err);
        if (status == PST_OK)
            status = file_stamp(blocks, &stamp, err);
        if (status != PST_OK || stamp == known)
            return status;
    }
    if (!stays_in_memory(blocks))
        status = file_stamp(blocks, &stamp, err);
    if (status == PST_OK)
        status = read_verifying(blocks, i_block, start, nbytes, out, err);
    if (status == PST_OK && !stays_in_memory(blocks))
        atomic_store_explicit(&blocks->verified[i_block], stamp, memory_order_release);
    return status;
}

/* Reads bytes [start, start + nbytes) of one block. */
static enum pst_status read_block(struct psti_blocks *blocks, uint64_t i_block, size_t start,
                                  size_t nbytes, void *out, struct pst_error *err)
{
    const uint8_t *memory = frame_memory(blocks, i_block) + start;
    struct psti_blocks_frame *frame = &blocks->frames[i_block % blocks->n_frames];
    uint64_t known = atomic_load_explicit(&blocks->verified[i_block], memory_order_acquire);
    enum pst_status status = PST_OK;
    if (known == IN_FRAME) {
        memcpy(out, memory, nbytes);
        return PST_OK;
    }
    if (atomic_exchange_explicit(&frame->busy, true, memory_order_acquire))
        return read_past_frames(blocks, i_block, start, nbytes, out, err);
    if (frame->held != i_block + 1 &&
        (known == NEVER || frame->wanted == i_block + 1 || nbytes >= WORTH_A_FRAME))
        status = load(blocks, i_block, err);
    bool held = frame->held == i_block + 1;
    if (held)
        memcpy(out, memory, nbytes);
    else
        frame->wanted = i_block + 1;
    atomic_store_explicit(&frame->busy, false, memory_order_release);
    if (held || status != PST_OK)
        return status;
    return read_past_frames(blocks, i_block, start, nbytes, out, err);
}

enum pst_status psti_dataset_blocks_read(struct psti_blocks *blocks, uint64_t offset,
                                         uint64_t nbytes, void *out, struct pst_error *err)
{
    uint8_t *to = out;
    uint64_t at = offset - PSTI_INDEX_HEADER_NBYTES;
    while (nbytes > 0) {
        size_t start = (size_t)(at % PSTI_INDEX_BLOCK_NBYTES);
        size_t room = PSTI_INDEX_BLOCK_NBYTES - start;
        size_t n = nbytes < room ? (size_t)nbytes : room;
        enum pst_status status =
            read_block(blocks, at / PSTI_INDEX_BLOCK_NBYTES, start, n, to, err);
        if (status != PST_OK)
            return status;
        at += n;
        to += n;
        nbytes -= n;
    }
    return PST_OK;
}

enum pst_status psti_dataset_blocks_name(struct psti_blocks *blocks,
                                         const struct psti_blocks_names *names, uint64_t sample,
                                         char *name, struct pst_error *err)
{
    uint64_t table = names->table + 8 * sample;
    uint8_t between[16];
    enum pst_status status = psti_dataset_blocks_read(blocks, table, sizeof between, between, err);
    if (status != PST_OK)
        return status;
    uint64_t start = psti_load_u64(between), end = psti_load_u64(between + 8);
    if (end > names->nbytes || start >= end || end - start > PSTI_NAME_LIMIT)
        return psti_fail_at(err, PST_ERROR_CORRUPT, "dataset", NULL, (int64_t)table,
                            "the index places a name outside of its names");
    uint64_t at = names->names + start;
    status = psti_dataset_blocks_read(blocks, at, end - start, name, err);
    if (status != PST_OK)
        return status;
    size_t length = (size_t)(end - start - 1);
    if (name[length] != 0 || psti_format_name_problem(name, length) != NULL)
        return psti_fail_at(err, PST_ERROR_CORRUPT, "dataset", NULL, (int64_t)at,
                            "the index holds an impossible name");
    return PST_OK;
}

enum pst_status psti_dataset_blocks_check(const struct psti_blocks *blocks, uint64_t i_block,
                                          struct pst_error *err)
{
    return read_verifying(blocks, i_block, 0, 0, NULL, err);
}

enum pst_status psti_dataset_blocks_check_all(const struct psti_blocks *blocks,
                                              struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint64_t i = 0; status == PST_OK && i < blocks->n_blocks; i++)
        status = psti_dataset_blocks_check(blocks, i, err);
    return status;
}

enum pst_status psti_dataset_blocks_open(struct psti_blocks *blocks, int fd,
                                         const struct psti_index_frame *frame,
                                         struct pst_error *err)
{
    blocks->fd = fd;
    blocks->end = frame->blocks_offset;
    blocks->n_blocks = frame->n_blocks;
    blocks->n_frames = frame->n_blocks < PSTI_DATASET_BLOCKS_MAX_FRAMES
                           ? frame->n_blocks
                           : PSTI_DATASET_BLOCKS_MAX_FRAMES;
    size_t n = (size_t)blocks->n_blocks, n_frames = (size_t)blocks->n_frames;
    blocks->sums = psti_alloc_array(n, sizeof *blocks->sums);
    blocks->verified = psti_calloc(n, sizeof *blocks->verified);
    blocks->frames = psti_calloc(n_frames, sizeof *blocks->frames);
    blocks->memory = psti_alloc_array(n_frames, PSTI_INDEX_BLOCK_NBYTES);
    if (blocks->sums == NULL || blocks->verified == NULL || blocks->frames == NULL ||
        blocks->memory == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory for the index's blocks");
    enum pst_status status =
        read_file(blocks, blocks->end, n * sizeof *blocks->sums, blocks->sums, err);
    if (status != PST_OK)
        return status;
    if (psti_hash64(blocks->sums, n * sizeof *blocks->sums) != frame->blocks_checksum)
        return psti_fail_at(err, PST_ERROR_CHECKSUM, "dataset", NULL, (int64_t)blocks->end,
                            "the index's table of checksums was altered");
    return PST_OK;
}

void psti_dataset_blocks_close(struct psti_blocks *blocks)
{
    if (blocks->fd >= 0)
        close(blocks->fd);
    psti_free(blocks->sums);
    psti_free(blocks->memory);
    psti_free(blocks->frames);
    psti_free((void *)blocks->verified);
}
