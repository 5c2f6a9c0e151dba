/* gpu.h - the door of the room: stored images -> bytes to upload and kernels to launch, which
 * decode and prepare them on a card and write the rows of a batch there.
 *
 *     once per device    constants               -> an upload, for good
 *     once per field     chain, decode options   -> struct psti_gpu_field
 *     per slot           memory                  -> struct psti_gpu_block
 *     per batch          begin, then for every row one of
 *                            row       stored bytes, decoded and prepared on the card
 *                            stored    decoded by somebody else on the card, prepared there
 *                            pixels    decoded by the caller, prepared on the card
 *                            finished  decoded and prepared by the caller, only copied
 *                        work -> upload, launches, download: for a stream
 *                        failed, of rows whose bytes were corrupt: these are made again by the CPU
 *
 * There is no driver here: what is to be done leaves as a list, addresses on the card are plain
 * numbers, and the lists are the same whether a card or the tests' CPU build of the kernels runs
 * them. Rows are, to the bit, what psti_decode_rows and psti_run_* make of the same bytes and
 * draw; which thread put a row, in which order, and where it then lay in the block changes
 * nothing.
 *
 * Threads: fields are immutable. row, stored, pixels, finished, done and forget of one block may
 * be called by any number of threads at a time, each for another row; all other functions of a
 * block by one thread while no other uses it. Memory is claimed at open only. */
#ifndef PST_GPU_GPU_H
#define PST_GPU_GPU_H

#include "augment/augment.h"
#include "decode/decode.h"

/* Kernels, by the numbers that launches use. */
size_t psti_gpu_kernel_count(void);
/* For psti_device_load_kernels: `count` names. */
const char *const *psti_gpu_kernel_names(void);

/* Built-in tables and filters: written to memory, then uploaded once per device. Aligned to 256 on
 * the card. */
size_t psti_gpu_constants_nbytes(void);
void psti_gpu_constants_write(void *to);

/* A field of pixels as a card prepares it. */
struct psti_gpu_field;
struct psti_gpu_field_options {
    const struct psti_chain *chain; /* outlives the field */
    struct pst_decode_options decode;
    /* As given to psti_augment_chain_compile, but for dtype: psti_augment_chain_dtype. */
    struct psti_chain_output output;
    uint32_t height, width; /* of all finished rows; a row of another size is refused */
};
/* PST_ERROR_UNSUPPORTED: a card cannot do this, and why. */
enum pst_status psti_gpu_field_open(const struct psti_gpu_field_options *options,
                                    struct psti_gpu_field **out, struct pst_error *err);
void psti_gpu_field_close(struct psti_gpu_field **field);
/* Bytes of a finished row; rows of a slot lie that far apart. */
size_t psti_gpu_field_row_nbytes(const struct psti_gpu_field *field);

/* What a slot's block needs for `n_rows` rows that are all like `items[i]` of field i (whole
 * images: random crops need less), none of them decoded by the CPU. Larger items take more of it:
 * rows that find no room are PST_ERROR_LIMIT, and come in a second round. At least one finished
 * row and one whole item of each field fit. */
struct psti_gpu_item_size {
    enum pst_form form;
    size_t nbytes;
    uint32_t height, width;
    uint8_t channels, bits;
};
struct psti_gpu_block_size {
    size_t upload_nbytes;  /* pinned, and the same on the card */
    size_t scratch_nbytes; /* on the card */
};
void psti_gpu_block_size(const struct psti_gpu_field *const *fields,
                         const struct psti_gpu_item_size *items, uint32_t n_fields, uint32_t n_rows,
                         struct psti_gpu_block_size *size);

/* Memory of a block, the caller's. */
struct psti_gpu_memory {
    void *pinned;    /* upload_nbytes, aligned to 256 */
    uint64_t upload; /* on the card, upload_nbytes, aligned to 256 */
    size_t upload_nbytes;
    uint64_t scratch; /* on the card, aligned to 256; may be shared by blocks whose work runs one
                         after another (of one stream) */
    size_t scratch_nbytes;
    uint64_t pictures; /* on the card, aligned to 256, of this block alone: psti_gpu_block_stored */
    size_t pictures_nbytes;
    uint64_t constants; /* on the card: psti_gpu_constants_write */
    /* Of the card (psti_device_info); 0: not known. Only speed depends on them. */
    uint32_t n_processors, shared_nbytes_max;
};

struct psti_gpu_block;
enum pst_status psti_gpu_block_open(const struct psti_gpu_field *const *fields, uint32_t n_fields,
                                    uint32_t n_rows_max, const struct psti_gpu_memory *memory,
                                    struct psti_gpu_block **out, struct pst_error *err);
void psti_gpu_block_close(struct psti_gpu_block **block);

/* Forgets all rows. Work that came of the block before must be done. */
void psti_gpu_block_begin(struct psti_gpu_block *block);

/* A stored image. */
struct psti_gpu_item {
    const void *bytes;
    size_t nbytes;
    const struct pst_image_info *info; /* psti_decode_probe with the field's decode options */
    bool is_verified; /* all bytes have been compared with a checksum already; else those of the
                         units, if there are any, are compared here as the decoder does */
    const struct psti_pli_header *pli; /* of psti_decode_probe_pli; NULL: it is parsed here */
};
/* What became of a row. */
struct psti_gpu_row_stats {
    uint32_t n_units, n_units_whole; /* PLI: decoded; of the images they come from */
    uint64_t nbytes_pixels;          /* that the decoder on the card puts out */
    uint64_t nbytes_upload;
};
/* Puts the image of `row` of field `i_field` in. Parts of the item that the draw's region does not
 * touch are not looked at. `stats` may be NULL.
 * PST_ERROR_UNSUPPORTED: a form, or an image, that is decoded on the CPU. PST_ERROR_LIMIT: no room
 * is left: put the row in after the next begin, or decode it on the CPU. Anything else: the item
 * is bad; the decoder's status and error. The row is then as if it had not been put. */
enum pst_status psti_gpu_block_row(struct psti_gpu_block *block, uint32_t i_field, uint32_t row,
                                   const struct psti_gpu_item *item, const struct psti_draw *draw,
                                   struct psti_gpu_row_stats *stats, struct pst_error *err);

/* A picture that somebody else decodes on the card. */
struct psti_gpu_stored {
    const struct pst_image_info *info; /* as an item's */
    uint8_t channels;                  /* of the picture, of 8 bits: 1 or 3 */
    size_t file_nbytes;                /* room for the file in pinned memory; 0: none */
};
struct psti_gpu_place {
    uint64_t pixels;   /* on the card: (height, width, channels) as stored, rows packed */
    size_t row_nbytes; /* of these */
    void *file;        /* file_nbytes */
};
/* Room for a picture, to be written before the launches by work of the stream that they are for;
 * and what is to become of it: orientation, region, draw are the launches'. Statuses as above;
 * PST_ERROR_LIMIT of a block that has no other row: it never fits. */
enum pst_status psti_gpu_block_stored(struct psti_gpu_block *block, uint32_t i_field, uint32_t row,
                                      const struct psti_gpu_stored *stored,
                                      const struct psti_draw *draw, struct psti_gpu_place *place,
                                      struct psti_gpu_row_stats *stats, struct pst_error *err);
/* The row is as if it had not been put. */
void psti_gpu_block_forget(struct psti_gpu_block *block, uint32_t i_field, uint32_t row);

/* Room in pinned memory for the pixels of the draw's region, (height, width, channels) of the
 * field's channels and bits, rows packed, for the caller to decode into. The row is in when
 * psti_gpu_block_done was called. Statuses as above. */
enum pst_status psti_gpu_block_pixels(struct psti_gpu_block *block, uint32_t i_field, uint32_t row,
                                      const struct psti_draw *draw, void **pixels,
                                      struct pst_error *err);
void psti_gpu_block_done(struct psti_gpu_block *block, uint32_t i_field, uint32_t row);

/* The same for the finished row: a psti_target's data, rows packed. */
enum pst_status psti_gpu_block_finished(struct psti_gpu_block *block, uint32_t i_field,
                                        uint32_t row, void **data, struct pst_error *err);

/* A launch for psti_device_stream_launch. */
struct psti_gpu_launch {
    uint32_t kernel, n_blocks, n_warps, shared_nbytes;
    const void *args;
    size_t args_nbytes;
};
/* In this order, on one stream: bytes 0..upload_nbytes of `pinned` to `upload`; the launches; from
 * upload + statuses_offset back to pinned + statuses_offset. The launches may follow once more
 * behind zeros in bytes 0..cleared_nbytes of `upload`, which are all that they change there; sums
 * that contrasts need are not among them. */
struct psti_gpu_work {
    size_t upload_nbytes, cleared_nbytes;
    size_t statuses_offset, statuses_nbytes; /* 0 bytes: no row can fail */
    const struct psti_gpu_launch *launches;  /* the block's, until begin */
    uint32_t n_launches;
};
/* Where rows go: row r of field i to outs[i] + places[r] * psti_gpu_field_row_nbytes;
 * places[r] = UINT32_MAX leaves the row out, places NULL is places[r] = r. */
#define PSTI_GPU_NOWHERE UINT32_MAX
enum pst_status psti_gpu_block_work(struct psti_gpu_block *block, const uint64_t *outs,
                                    const uint32_t *places, struct psti_gpu_work *work,
                                    struct pst_error *err);

/* After the work is done: whether the card found the bytes of that row corrupt. What is in the
 * slot then is of no use; the CPU's decoder names the error. */
bool psti_gpu_block_failed(const struct psti_gpu_block *block, uint32_t i_field, uint32_t row);

#endif
