/* gpu.h - the public functions of the module gpu. They turn stored images into bytes to upload and
 * kernels to launch. The kernels decode and prepare the images on a GPU and write a batch's rows.
 * Of sound, waveforms are uploaded, and the kernels make features.
 *
 *     once per device    constants               -> an upload, for good
 *     once per field     chain, decode options   -> struct psti_gpu_field, and its tables
 *     per slot           memory                  -> struct psti_gpu_block
 *     per batch          begin, then for every row one of
 *                            row       stored bytes, decoded and prepared on the GPU
 *                            pixels    decoded by the caller, prepared on the GPU
 *                            waves     of sound, made by the caller: the GPU makes features
 *                            finished  decoded and prepared by the caller, only copied
 *                        work -> upload, launches, download: for a stream
 *                        failed, for rows whose bytes were corrupt: the CPU makes these again
 *
 * This room calls no GPU driver. It returns the work as a list of launches, in which addresses on
 * the GPU are plain numbers. A GPU and the tests' CPU build of the kernels run the same lists. Rows
 * are, to the bit, those that psti_decode_rows and psti_run_* make of the same bytes and draw. The
 * result does not depend on the thread that adds a row, on the order of rows, or on a row's place
 * in the block.
 *
 * Threads: fields are immutable. Any number of threads may call row, pixels, finished, done
 * and forget of one block at a time, each for another row. All other functions of a block are
 * called by one thread while no other uses the block. Memory is claimed at open only. */
#ifndef PST_GPU_GPU_H
#define PST_GPU_GPU_H

#include "augment/augment.h"
#include "decode/decode.h"
#include "gpu/work/gpu_pad.h"
#include "sound/sound.h"

/* Returns the number of kernels. A launch names a kernel by its number, from 0. */
size_t psti_gpu_kernel_count(void);
/* Returns the names of all kernels, psti_gpu_kernel_count() of them, for
 * psti_device_load_kernels. */
const char *const *psti_gpu_kernel_names(void);

/* The built-in tables and filters of the kernels. They are written to host memory, then uploaded
 * once per device, to an address on the GPU that is aligned to 256. */
size_t psti_gpu_constants_nbytes(void);
void psti_gpu_constants_write(void *to);

/* How a GPU prepares the rows of one field of pixels. */
struct psti_gpu_field;
struct psti_gpu_field_options {
    const struct psti_chain *chain; /* the chain must outlive the field */
    struct pst_decode_options decode;
    /* the output that was given to psti_augment_chain_compile, except the dtype, which is
     * psti_augment_chain_dtype */
    struct psti_chain_output output;
    /* size of all finished rows of the field; rows of any other size are refused */
    uint32_t height, width;
    /* true: rows have any size, and height and width are those of a typical row. The caller sets
     * where each row goes (psti_gpu_block_set_out). */
    bool may_differ;
    /* Distance between two rows of the batch's array, in rows of this field; 0 counts as 1. The
     * views of an image that lie side by side in one array are fields with the number of views. */
    uint32_t row_step;
};
/* Creates the description of a field of sound, whose rows have this shape: channels, bins and
 * frames. Returns PST_ERROR_UNSUPPORTED if the chain makes no features of one shape. */
enum pst_status psti_gpu_field_open_sound(const struct psti_sound_chain *chain,
                                          const int64_t shape[3], struct psti_gpu_field **out,
                                          struct pst_error *err);
/* Returns the reason why a GPU cannot make the rows of a field of sound; NULL: it can. If there is
 * a reason, the caller finishes all rows. */
const char *psti_gpu_field_refusal(const struct psti_gpu_field *field);
/* Creates the description of a field. Returns PST_ERROR_UNSUPPORTED if a GPU cannot run the chain;
 * the error's text says why. */
enum pst_status psti_gpu_field_open(const struct psti_gpu_field_options *options,
                                    struct psti_gpu_field **out, struct pst_error *err);
void psti_gpu_field_close(struct psti_gpu_field **field);
/* Returns the bytes of a finished row. If rows may differ, they are those of a typical row. If not,
 * row i of a batch slot begins at i * row_step times these bytes. */
size_t psti_gpu_field_row_nbytes(const struct psti_gpu_field *field);
/* Returns the bytes of a finished row of this size: height, width. */
size_t psti_gpu_field_size_nbytes(const struct psti_gpu_field *field, const uint32_t size[2]);
/* Returns the bytes of the finished row of this draw. */
size_t psti_gpu_field_draw_nbytes(const struct psti_gpu_field *field, const struct psti_draw *draw);

/* The tables of all fields of a block, in their order. They are uploaded once, to the address right
 * behind the built-in tables. */
size_t psti_gpu_tables_nbytes(const struct psti_gpu_field *const *fields, uint32_t n_fields);
void psti_gpu_tables_write(const struct psti_gpu_field *const *fields, uint32_t n_fields, void *to);

/* Computes the memory that a slot's block needs for `n_rows` rows. It assumes that all items of
 * field i are like `items[i]` and that the CPU decodes none of them. Items count as whole
 * images; random crops need less memory, larger items more. A row without space gets
 * PST_ERROR_LIMIT; the caller adds it in a second round. At least one finished row and one whole
 * item of each field fit. */
struct psti_gpu_item_size {
    enum pst_form form;
    size_t nbytes;
    uint32_t height, width;
    uint8_t channels, bits;
};
struct psti_gpu_block_size {
    size_t upload_nbytes;  /* bytes of pinned memory, and of upload memory on the GPU */
    size_t scratch_nbytes; /* bytes of scratch memory on the GPU */
};
void psti_gpu_block_size(const struct psti_gpu_field *const *fields,
                         const struct psti_gpu_item_size *items, uint32_t n_fields, uint32_t n_rows,
                         struct psti_gpu_block_size *size);

/* The memory of a block. The caller allocates, owns and frees it. */
struct psti_gpu_memory {
    void *pinned;    /* upload_nbytes bytes of pinned host memory, aligned to 256 */
    uint64_t upload; /* GPU address of upload_nbytes bytes, aligned to 256 */
    size_t upload_nbytes;
    uint64_t scratch; /* address on the GPU, aligned to 256. Blocks whose work runs one after
                       * another on one stream may share this scratch. */
    size_t scratch_nbytes;
    uint64_t constants; /* address on the GPU of the built-in tables, and the fields' tables */
    /* Properties of the GPU (psti_device_info); 0: not known. They change only the speed. */
    uint32_t n_processors, shared_nbytes_max;
};

struct psti_gpu_block;
enum pst_status psti_gpu_block_open(const struct psti_gpu_field *const *fields, uint32_t n_fields,
                                    uint32_t n_rows_max, const struct psti_gpu_memory *memory,
                                    struct psti_gpu_block **out, struct pst_error *err);
void psti_gpu_block_close(struct psti_gpu_block **block);

/* Removes all rows from the block. Earlier work of the block must be done. */
void psti_gpu_block_begin(struct psti_gpu_block *block);

/* The stored image of one row. */
struct psti_gpu_item {
    const void *bytes;
    size_t nbytes;
    const struct pst_image_info *info; /* result of psti_decode_probe with the field's decode
                                        * options */
    /* true if the caller has compared the item with its checksum. Otherwise the checksums of PLI
     * units, if there are any, are compared here, as the CPU's decoder does. */
    bool is_verified;
    const struct psti_pli_header
        *pli; /* header from psti_decode_probe_pli; NULL: it is parsed here */
};
/* Counts for one row. */
struct psti_gpu_row_stats {
    uint32_t n_units,
        n_units_whole;      /* for PLI: units that are decoded, and all units of the image */
    uint64_t nbytes_pixels; /* bytes that the decoder on the GPU writes */
    uint64_t nbytes_upload;
};
/* Adds the stored image of row `row` of field `i_field`. Parts of the item that the draw's region
 * does not need are not read. `stats` may be NULL. PST_ERROR_UNSUPPORTED: only the CPU can decode
 * this form or image. PST_ERROR_LIMIT: the block is full; add the row after the next
 * psti_gpu_block_begin, or decode it on the CPU. Any other status means that the item is bad;
 * status and error are those of the CPU's decoder. After a failure the row is not added. */
enum pst_status psti_gpu_block_row(struct psti_gpu_block *block, uint32_t i_field, uint32_t row,
                                   const struct psti_gpu_item *item, const struct psti_draw *draw,
                                   struct psti_gpu_row_stats *stats, struct pst_error *err);

/* Claims pinned memory for the pixels of the draw's region: (height, width, channels) with the
 * field's channels and bits, without gaps between lines. The caller decodes into this memory;
 * psti_gpu_block_done then adds the row. Statuses are those of psti_gpu_block_row. */
enum pst_status psti_gpu_block_pixels(struct psti_gpu_block *block, uint32_t i_field, uint32_t row,
                                      const struct psti_draw *draw, void **pixels,
                                      struct pst_error *err);
void psti_gpu_block_done(struct psti_gpu_block *block, uint32_t i_field, uint32_t row);

/* Claims pinned memory for the waveforms of a row of sound. The caller fills it by
 * psti_sound_run_waves; psti_gpu_block_done then adds the row. `stats` may be NULL. Statuses are
 * those of psti_gpu_block_row. */
enum pst_status psti_gpu_block_waves(struct psti_gpu_block *block, uint32_t i_field, uint32_t row,
                                     const struct psti_sound_draw *draw, float **waves,
                                     struct psti_gpu_row_stats *stats, struct pst_error *err);

/* Claims pinned memory for a finished row of the batch: values of the field's psti_target, without
 * gaps between lines of pixels, or features of sound. The caller fills it; psti_gpu_block_done then
 * adds the row. `draw` is only needed for fields with may_differ, and may be NULL for others.
 * Statuses are those of psti_gpu_block_row. */
enum pst_status psti_gpu_block_finished(struct psti_gpu_block *block, uint32_t i_field,
                                        uint32_t row, const struct psti_draw *draw, void **data,
                                        struct pst_error *err);

/* Sets the address to which a row of a field with may_differ is written. Call it for each row that
 * takes part, before psti_gpu_block_work. */
void psti_gpu_block_set_out(struct psti_gpu_block *block, uint32_t i_field, uint32_t row,
                            uint64_t at);

/* One kernel launch, for psti_device_stream_launch. */
struct psti_gpu_launch {
    uint32_t kernel, n_blocks, n_warps, shared_nbytes;
    const void *args;
    size_t args_nbytes;
};
/* The work of a batch. Run it on one stream in this order: copy bytes 0..upload_nbytes of `pinned`
 * to `upload`; run the launches; copy the statuses from upload + statuses_offset back to pinned +
 * statuses_offset. To run the launches again, set bytes 0..cleared_nbytes of `upload` to 0 first.
 * If there are contrasts or decibels with a top_db, this is not enough: their sums and largest
 * values lie after these bytes and must be uploaded as 0 again. Launches change no other bytes of
 * `upload`. */
struct psti_gpu_work {
    size_t upload_nbytes, cleared_nbytes;
    size_t statuses_offset, statuses_nbytes; /* 0 bytes if no row can fail */
    const struct psti_gpu_launch *launches;  /* owned by the block, valid until begin */
    uint32_t n_launches;
};
/* A row of `places` that is not written. Row r of field i is written to outs[i] + places[r] times
 * the distance of its rows. If `places` is NULL, places[r] is r. With may_differ, it is written to
 * where psti_gpu_block_set_out says. */
#define PSTI_GPU_NOWHERE UINT32_MAX
enum pst_status psti_gpu_block_work(struct psti_gpu_block *block, const uint64_t *outs,
                                    const uint32_t *places, struct psti_gpu_work *work,
                                    struct pst_error *err);

/* Returns whether the GPU found the bytes of that row corrupt. Call it after the work is done. The
 * slot's row is undefined then, and the CPU's decoder must find the error. */
bool psti_gpu_block_failed(const struct psti_gpu_block *block, uint32_t i_field, uint32_t row);

/* Padding of finished rows that differ in size, in a launch of its own. psti_gpu_pad_set describes
 * the copy of one row: its pixels of `size` (height, width) at `from` go to the top left of a row
 * of to_size at `to`. */
void psti_gpu_pad_set(const struct psti_gpu_field *field, const uint32_t size[2], uint64_t from,
                      const uint32_t to_size[2], uint64_t to, struct psti_gpu_pad *pad);
/* Makes the launch for n_pads such rows, whose copies on the GPU lie at `at`. fill: the bytes of an
 * element of the field. launch->args becomes `args`. Returns false if there is nothing to launch,
 * or if the rows are too large for one launch. */
bool psti_gpu_pad_launch(const struct psti_gpu_field *field, const struct psti_gpu_pad *pads,
                         uint32_t n_pads, uint64_t at, const unsigned char fill[8],
                         struct psti_gpu_pad_args *args, struct psti_gpu_launch *launch);

#endif
