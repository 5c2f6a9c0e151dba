/* dataset_blocks.h - the payload of an index file, read in checked blocks.
 *
 * The file is read by pread and never mapped, so a file that another process cuts, or that cannot
 * be read, gives an error. Blocks of PSTI_INDEX_BLOCK_NBYTES are verified against the table of
 * checksums, which is in memory since the open. Memory is bounded: a small payload stays in memory
 * block by block as it is used; of a larger one the blocks that are read in order stay. */
#ifndef PST_DATASET_DATASET_BLOCKS_H
#define PST_DATASET_DATASET_BLOCKS_H

#include "format/format_dataset.h"

#include <stdatomic.h>

/* Up to this many blocks (16 MiB) are held in memory. */
enum { PSTI_DATASET_BLOCKS_MAX_FRAMES = 256 };

/* Memory for one block. The blocks i, i + n_frames, i + 2 * n_frames, ... share frame i. */
struct psti_blocks_frame {
    atomic_bool busy; /* a thread uses the frame; nobody waits for it */
    uint64_t held;    /* number of the block in it, plus 1; 0: none */
    uint64_t wanted;  /* number of the block that was missed last, plus 1 */
};

struct psti_blocks {
    int fd;            /* owned */
    uint64_t end;      /* end of the payload in the file */
    uint64_t n_blocks; /* blocks of the payload */
    uint64_t n_frames; /* n_blocks: every block has a frame of its own and stays there */
    uint64_t *sums;    /* XXH3 of each block */
    uint8_t *memory;   /* n_frames blocks */
    struct psti_blocks_frame *frames;
    /* A word for each block; 0: not verified yet. If every block has a frame, 1 means that it is
     * there. Else it is the state of the file (a stamp of its length and last change) in which the
     * block was verified. */
    _Atomic uint64_t *verified;
};

/* Takes over `fd`, also after failure. Reads and checks the table of checksums. `blocks` comes in
 * zeroed but for fd = -1; psti_dataset_blocks_close frees it whatever the result is. Offsets in
 * `err` are those in the file. */
enum pst_status psti_dataset_blocks_open(struct psti_blocks *blocks, int fd,
                                         const struct psti_index_frame *frame,
                                         struct pst_error *err);
void psti_dataset_blocks_close(struct psti_blocks *blocks);

/* Copies bytes [offset, offset + nbytes) of the file, which lie in the payload. Allocates nothing,
 * waits for no other thread. PST_ERROR_CHECKSUM: a block was altered. PST_ERROR_IO: the file cannot
 * be read, or was cut short while it was open. Thread-safe, also in a forked child. */
enum pst_status psti_dataset_blocks_read(struct psti_blocks *blocks, uint64_t offset,
                                         uint64_t nbytes, void *out, struct pst_error *err);

/* Where an index has the names of its samples. */
struct psti_blocks_names {
    uint64_t table;  /* offset of u64 [n + 1], relative to `names` */
    uint64_t names;  /* offset of the names, each with its NUL */
    uint64_t nbytes; /* of all of them */
};
/* Copies the name of a sample, which is checked, to PSTI_NAME_LIMIT bytes. As
 * psti_dataset_blocks_read; PST_ERROR_CORRUPT: the index has an impossible name or place. */
enum pst_status psti_dataset_blocks_name(struct psti_blocks *blocks,
                                         const struct psti_blocks_names *names, uint64_t sample,
                                         char *name, struct pst_error *err);

/* Reads block i_block < n_blocks from the file and verifies it, even if it was verified before. */
enum pst_status psti_dataset_blocks_check(const struct psti_blocks *blocks, uint64_t i_block,
                                          struct pst_error *err);
/* Does that with all blocks. */
enum pst_status psti_dataset_blocks_check_all(const struct psti_blocks *blocks,
                                              struct pst_error *err);

#endif
