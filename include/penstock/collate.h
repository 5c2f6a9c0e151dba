/* collate.h - arrays of a batch, and how rows of different shapes are combined into few arrays.
 *
 * Samples have different numbers of boxes, and images have different sizes. If
 * pst_field_output.ragged is set, each batch has for that field either one padded array with the
 * rows' lengths, or one array of all rows with offsets. So a batch has few arrays, however many
 * rows it has. The thread that finishes a batch makes them. docs/batches.md explains the rules.
 *
 * Boxes (2, 4), (0, 4) and (3, 4) of three samples:
 *
 *     PADDED:  VALUES (3, 3, 4), with pad_value behind the two boxes of row 0 and in all of row 1;
 *              COUNTS 2, 0, 3
 *     OFFSETS: VALUES (5, 4); OFFSETS 0, 2, 2, 5
 *
 * Images of 3 x 60 x 80 and 3 x 64 x 70, CHW, with a pad_multiple of 32:
 *
 *     PADDED:  VALUES (2, 3, 64, 96); SIZES (60, 80), (64, 70)
 *     OFFSETS: VALUES (27840); OFFSETS 0, 14400, 27840; SHAPES (3, 60, 80), (3, 64, 70)
 *
 * Memory: these arrays count in pst_loader_options.host_memory. If a batch does not fit, the loader
 * prepares one batch at a time; if a single batch does not fit, pst_loader_next gives
 * PST_ERROR_LIMIT. The memory belongs to the batch's slot and grows to the largest batch. With
 * pin_memory it is page-locked. If batches lie on a GPU, these arrays lie there, too, and
 * pst_batch_host_collated gives their copies in host memory.
 *
 * Errors: rows of one batch that differ in their number of axes, or in an axis that must be equal,
 * end the epoch with PST_ERROR_ARGUMENT, which names the sample. */
#ifndef PENSTOCK_COLLATE_H
#define PENSTOCK_COLLATE_H

#include <penstock/dataset.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* A batch owns the arrays of some samples. It is reference-counted: the caller that receives it
 * holds one reference, pst_batch_retain adds one, and pst_batch_release gives one up. */
typedef struct pst_batch pst_batch;

/* Describes an array whose memory a batch owns. Strides are in bytes. If the array has no elements,
 * `data` must not be read. */
struct pst_tensor {
    void *data;
    enum pst_dtype dtype;
    uint32_t ndim;
    int64_t shape[PST_MAX_NDIM + 1];
    int64_t strides[PST_MAX_NDIM + 1];
    /* -1: host memory; otherwise `data` is an address on the GPU with this CUDA ordinal. */
    int32_t device;
};

/* How rows of different shapes are combined: see pst_batch_collated. Numbers are stable. */
enum pst_ragged {
    PST_RAGGED_LIST = 0,   /* rows stay separate arrays (pst_batch_row) */
    PST_RAGGED_PADDED = 1, /* one array with shorter rows filled up, and the lengths */
    PST_RAGGED_OFFSETS = 2 /* one array of all rows in sequence, and their offsets */
};

/* The arrays that hold all rows of a field (pst_field_output.ragged). n is the number of rows in
 * the batch. Lengths, sizes, offsets and shapes are i64. Rows of boxes, keypoints or arrays differ
 * along their first axis, sound along its last axis, images and masks in height and width. A row
 * without elements has length 0. */
enum pst_collated {
    /* PADDED: (n, largest extent of each axis). Each row begins at index 0 of every axis, so images
     * lie at the top left. OFFSETS: (sum of lengths, other axes) if rows differ along their first
     * axis, else (number of all elements). */
    PST_COLLATED_VALUES = 0,
    PST_COLLATED_COUNTS = 1,  /* PADDED, not pixels: (n), length of each row */
    PST_COLLATED_SIZES = 2,   /* PADDED, pixels: (n, 2), height and width of each row */
    PST_COLLATED_OFFSETS = 3, /* OFFSETS: (n + 1), row i is values[offsets[i]:offsets[i + 1]] */
    /* OFFSETS, pixels and sound: (n, axes of a row), each row's shape; masks have no channel axis.
     */
    PST_COLLATED_SHAPES = 4
};

/* Gives one of the arrays in which the loader combined the rows of a field. The batch owns its
 * memory, which counts in host_memory in addition to the memory of the separate rows.
 *
 * tensor: the caller's struct, written if the array exists; tensor_nbytes: sizeof *tensor.
 *
 * Returns false, and writes nothing, if the array does not exist: there is no such field, its rows
 * have one shape, or its `ragged` setting does not make this part. Any thread. */
bool pst_batch_collated(const pst_batch *batch, uint32_t i_field, enum pst_collated part,
                        struct pst_tensor *tensor, size_t tensor_nbytes);

/* Gives one of these arrays in host memory, even if the batch lies on a GPU. It returns false for
 * the values of images and masks there, which are on the GPU alone. Otherwise as
 * pst_batch_collated. */
bool pst_batch_host_collated(const pst_batch *batch, uint32_t i_field, enum pst_collated part,
                             struct pst_tensor *tensor, size_t tensor_nbytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
