/* gpu.h - the door of the room. Stored images become bytes to upload and kernels to launch, which
 * decode and prepare the images on a GPU and write the rows of a batch there.
 *
 *     once per device    constants               -> an upload, for good
 *     once per field     chain, decode options   -> struct psti_gpu_field
 *     per slot           memory                  -> struct psti_gpu_block
 *     per batch          begin, then for every row one of
 *                            row       stored bytes, decoded and prepared on the GPU
 *                            pixels    decoded by the caller, prepared on the GPU
 *                            finished  decoded and prepared by the caller, only copied
 *                        work -> upload, launches, download: for a stream
 *                        failed, for rows whose bytes were corrupt: the CPU makes these again
 *
 * This room has no driver. It hands out the work as a list, in which addresses on the GPU are plain
 * numbers. A GPU and the tests' CPU build of the kernels run the same lists. Rows are, to the bit,
 * those that psti_decode_rows and psti_run_* make of the same bytes and draw. The result does not
 * depend on the thread that adds a row, on the order of rows, or on a row's place in the block.
 *
 * Threads: fields are immutable. Any number of threads may call row, pixels, finished, done
 * and forget of one block at a time, each for another row. All other functions of a block are
 * called by one thread while no other uses the block. Memory is claimed at open only. */
#ifndef PST_GPU_GPU_H
#define PST_GPU_GPU_H

#include "augment/augment.h"
#include "decode/decode.h"

/* Returns the number of kernels. Launches name a kernel by its number. */
size_t psti_gpu_kernel_count(void);
/* Returns the kernels' names, `count` of them, for psti_device_load_kernels. */
const char *const *psti_gpu_kernel_names(void);

/* The built-in tables and filters. They are written to memory, then uploaded once per device. They
 * are aligned to 256 on the GPU. */
size_t psti_gpu_constants_nbytes(void);
void psti_gpu_constants_write(void *to);

/* How a GPU prepares a field of pixels. */
struct psti_gpu_field;
struct psti_gpu_field_options {
    const struct psti_chain *chain; /* the chain outlives the field */
    struct pst_decode_options decode;
    /* The output given to psti_augment_chain_compile, but for dtype: psti_augment_chain_dtype. */
    struct psti_chain_output output;
    uint32_t height, width; /* size of all finished rows of the field; a row of another size is
                             * refused */
};
/* Returns PST_ERROR_UNSUPPORTED if a GPU cannot do this; the text says why. */
enum pst_status psti_gpu_field_open(const struct psti_gpu_field_options *options,
                                    struct psti_gpu_field **out, struct pst_error *err);
void psti_gpu_field_close(struct psti_gpu_field **field);
/* Returns the bytes of a finished row. Rows of a slot lie that far apart. */
size_t psti_gpu_field_row_nbytes(const struct psti_gpu_field *field);

/* Computes the memory that a slot's block needs for `n_rows` rows. It assumes that all items of
 * field i are like `items[i]` and that the CPU decodes none of them. Items count as whole images;
 * random crops need less, and larger items more. A row that finds no space is PST_ERROR_LIMIT and
 * comes in a second round. At least one finished row and one whole item of each field fit. */
struct psti_gpu_item_size {
    enum pst_form form;
    size_t nbytes;
    uint32_t height, width;
    uint8_t channels, bits;
};
struct psti_gpu_block_size {
    size_t upload_nbytes;  /* of pinned memory, and of as much on the GPU */
    size_t scratch_nbytes; /* of memory on the GPU */
};
void psti_gpu_block_size(const struct psti_gpu_field *const *fields,
                         const struct psti_gpu_item_size *items, uint32_t n_fields, uint32_t n_rows,
                         struct psti_gpu_block_size *size);

/* The memory of a block, which the caller owns. */
struct psti_gpu_memory {
    void *pinned;    /* upload_nbytes of pinned memory, aligned to 256 */
    uint64_t upload; /* address of upload_nbytes on the GPU, aligned to 256 */
    size_t upload_nbytes;
    uint64_t scratch; /* address on the GPU, aligned to 256; blocks whose work runs one after
                       * another on one stream may share the scratch */
    size_t scratch_nbytes;
    uint64_t constants; /* address on the GPU of the built-in tables */
    /* Properties of the GPU (psti_device_info); 0: not known. They affect only the speed. */
    uint32_t n_processors, shared_nbytes_max;
};

struct psti_gpu_block;
enum pst_status psti_gpu_block_open(const struct psti_gpu_field *const *fields, uint32_t n_fields,
                                    uint32_t n_rows_max, const struct psti_gpu_memory *memory,
                                    struct psti_gpu_block **out, struct pst_error *err);
void psti_gpu_block_close(struct psti_gpu_block **block);

/* Forgets all rows. Earlier work of the block must be done. */
void psti_gpu_block_begin(struct psti_gpu_block *block);

/* A stored image. */
struct psti_gpu_item {
    const void *bytes;
    size_t nbytes;
    const struct pst_image_info *info; /* what psti_decode_probe gave with the field's decode
                                        * options */
    bool is_verified; /* true if the caller has compared all bytes with a checksum; else the
                       * checksums of units, if there are any, are compared here as the decoder
                       * does */
    const struct psti_pli_header
        *pli; /* the header as psti_decode_probe_pli gave it; NULL: it is parsed here */
};
/* Counts of one row. */
struct psti_gpu_row_stats {
    uint32_t n_units,
        n_units_whole;      /* PLI: units decoded; units of the images that they come from */
    uint64_t nbytes_pixels; /* bytes that the decoder on the GPU writes */
    uint64_t nbytes_upload;
};
/* Adds the image of `row` of field `i_field`. Parts of the item that the draw's region does not
 * touch are not read. `stats` may be NULL. PST_ERROR_UNSUPPORTED: the CPU decodes this form or
 * image. PST_ERROR_LIMIT: no space is left; add the row after the next begin, or decode it on the
 * CPU. Any other status: the item is bad; status and error are the decoder's. After a failure the
 * row counts as not added. */
enum pst_status psti_gpu_block_row(struct psti_gpu_block *block, uint32_t i_field, uint32_t row,
                                   const struct psti_gpu_item *item, const struct psti_draw *draw,
                                   struct psti_gpu_row_stats *stats, struct pst_error *err);

/* Claims pinned memory for the pixels of the draw's region: (height, width, channels) with the
 * field's channels and bits, rows packed. The caller decodes into this memory; psti_gpu_block_done
 * then adds the row. Statuses are those of psti_gpu_block_row. */
enum pst_status psti_gpu_block_pixels(struct psti_gpu_block *block, uint32_t i_field, uint32_t row,
                                      const struct psti_draw *draw, void **pixels,
                                      struct pst_error *err);
void psti_gpu_block_done(struct psti_gpu_block *block, uint32_t i_field, uint32_t row);

/* Claims pinned memory for the finished row, in the form in which a psti_target has it, rows
 * packed. psti_gpu_block_done adds the row. Statuses are those of psti_gpu_block_row. */
enum pst_status psti_gpu_block_finished(struct psti_gpu_block *block, uint32_t i_field,
                                        uint32_t row, void **data, struct pst_error *err);

/* A launch for psti_device_stream_launch. */
struct psti_gpu_launch {
    uint32_t kernel, n_blocks, n_warps, shared_nbytes;
    const void *args;
    size_t args_nbytes;
};
/* Run in this order on one stream: copy bytes 0..upload_nbytes of `pinned` to `upload`; the
 * launches; copy from upload + statuses_offset back to pinned + statuses_offset. The launches may
 * run once more after bytes 0..cleared_nbytes of `upload` were set to 0, unless there are
 * contrasts: their sums lie after these bytes and must be uploaded as 0 again. Launches change no
 * other bytes of `upload`. */
struct psti_gpu_work {
    size_t upload_nbytes, cleared_nbytes;
    size_t statuses_offset, statuses_nbytes; /* 0 bytes: no row can fail */
    const struct psti_gpu_launch *launches;  /* owned by the block, valid until begin */
    uint32_t n_launches;
};
/* Row r of field i is written to outs[i] + places[r] * psti_gpu_field_row_nbytes. With places[r] =
 * UINT32_MAX row r is left out. If `places` is NULL, places[r] is r. */
#define PSTI_GPU_NOWHERE UINT32_MAX
enum pst_status psti_gpu_block_work(struct psti_gpu_block *block, const uint64_t *outs,
                                    const uint32_t *places, struct psti_gpu_work *work,
                                    struct pst_error *err);

/* Returns, after the work is done, whether the GPU found the bytes of that row corrupt. The slot's
 * row is undefined then; the CPU's decoder finds out what is wrong. */
bool psti_gpu_block_failed(const struct psti_gpu_block *block, uint32_t i_field, uint32_t row);

#endif
