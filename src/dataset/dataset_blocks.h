/* dataset_blocks.h - reads the payload of an index file in verified blocks.
 *
 * The file is read by pread and not mapped, so if another process cuts the file, or it cannot be
 * read, the result is an error and not a signal. Blocks of PSTI_INDEX_BLOCK_NBYTES are verified
 * against the table of checksums, which is in memory since the open. Memory is bounded: the blocks
 * of a small payload stay in memory once used; of a larger payload only blocks that are read in
 * order. */
#ifndef PST_DATASET_DATASET_BLOCKS_H
#define PST_DATASET_DATASET_BLOCKS_H

#include "format/format_dataset.h"

#include <stdatomic.h>

/* Maximum number of blocks that stay in memory (16 MiB). */
enum { PSTI_DATASET_BLOCKS_MAX_FRAMES = 256 };

/* Memory for one block. Blocks i, i + n_frames, i + 2 * n_frames, ... share frame i. */
struct psti_blocks_frame {
    atomic_bool busy; /* a thread uses the frame; others do not wait, they read the file */
    uint64_t held;    /* 1 + number of the block in the frame; 0: none */
    uint64_t wanted;  /* 1 + number of the block that was missed last */
};

struct psti_blocks {
    int fd;            /* owned */
    uint64_t end;      /* end of the payload in the file */
    uint64_t n_blocks; /* number of blocks of the payload */
    uint64_t n_frames; /* number of frames; if equal to n_blocks, each block stays in its own
                        * frame */
    uint64_t *sums;    /* XXH3 of each block */
    uint8_t *memory;   /* n_frames blocks */
    struct psti_blocks_frame *frames;
    /* State of each block; 0: not verified yet. If each block has a frame, 1 means that it is in
     * memory. Else it is the state of the file (a stamp of its length and change time) when the
     * block was verified. */
    _Atomic uint64_t *verified;
};

/* Takes over `fd`, even after failure. Reads and checks the table of checksums. All members of
 * `blocks` must be zero, except fd = -1. psti_dataset_blocks_close frees it in any case. Offsets in
 * `err` are offsets in the file. */
enum pst_status psti_dataset_blocks_open(struct psti_blocks *blocks, int fd,
                                         const struct psti_index_frame *frame,
                                         struct pst_error *err);
void psti_dataset_blocks_close(struct psti_blocks *blocks);

/* Copies the bytes [offset, offset + nbytes) of the file, which must lie in the payload. Allocates
 * nothing and waits for no other thread. PST_ERROR_CHECKSUM: a block was altered. PST_ERROR_IO: the
 * file cannot be read, or was cut while it was open. Thread-safe, also in a forked child. */
enum pst_status psti_dataset_blocks_read(struct psti_blocks *blocks, uint64_t offset,
                                         uint64_t nbytes, void *out, struct pst_error *err);

/* Where the names of samples lie in an index. */
struct psti_blocks_names {
    uint64_t table;  /* offset of u64 [n + 1], relative to `names` */
    uint64_t names;  /* offset of the names, each with its NUL */
    uint64_t nbytes; /* bytes of all names */
};
/* Copies the name of a sample to `name` (PSTI_NAME_LIMIT bytes) and checks it. Errors are those of
 * psti_dataset_blocks_read; PST_ERROR_CORRUPT: the index has an impossible name or offset. */
enum pst_status psti_dataset_blocks_name(struct psti_blocks *blocks,
                                         const struct psti_blocks_names *names, uint64_t sample,
                                         char *name, struct pst_error *err);

/* Reads block i_block < n_blocks from the file and verifies it, even if it was verified before. */
enum pst_status psti_dataset_blocks_check(const struct psti_blocks *blocks, uint64_t i_block,
                                          struct pst_error *err);
/* Does psti_dataset_blocks_check for all blocks. */
enum pst_status psti_dataset_blocks_check_all(const struct psti_blocks *blocks,
                                              struct pst_error *err);

#endif
