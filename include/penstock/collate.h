/* collate.h - arrays of a batch, and rows of different shapes put together in few of them.
 *
 * Samples have different numbers of boxes, and images of several sizes. A field with
 * pst_field_output.ragged has, in every batch, padded arrays and lengths, or one array of all rows
 * and offsets. So a batch is a handful of arrays, however many rows it has. The thread that
 * finishes a batch puts them together. docs/batches.md has the rules in words.
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
 * Memory: all of it counts as pst_loader_options.host_memory. If a batch does not fit, the loader
 * prepares one batch at a time; if it does not fit alone, pst_loader_next gives PST_ERROR_LIMIT.
 * The memory stays with the slot and grows to what the largest batch needed. With pin_memory it is
 * page-locked. Where batches lie on a GPU it is host memory all the same.
 *
 * Errors: rows of one batch that differ in an axis that has to be alike, or in their number of
 * axes, end the epoch with PST_ERROR_ARGUMENT, which names the sample. */
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

/* A batch has the arrays of some samples. It is reference-counted: the caller that receives it
 * holds one reference, and each pst_batch_retain adds one. Each reference ends with
 * pst_batch_release. */
typedef struct pst_batch pst_batch;

/* Describes an array in a batch, which owns the memory. Strides are in bytes. An array without
 * elements has an address that must not be read. */
struct pst_tensor {
    void *data;
    enum pst_dtype dtype;
    uint32_t ndim;
    int64_t shape[PST_MAX_NDIM + 1];
    int64_t strides[PST_MAX_NDIM + 1];
    /* -1: host memory; else `data` is an address on the GPU of that ordinal. */
    int32_t device;
};

/* How rows of different shapes are put together: see pst_batch_collated. Numbers are stable. */
enum pst_ragged {
    PST_RAGGED_LIST = 0,   /* not at all: each row is an array (pst_batch_row) */
    PST_RAGGED_PADDED = 1, /* one array in which shorter rows are filled up, and their lengths */
    PST_RAGGED_OFFSETS = 2 /* one array of all rows, one behind another, and where each begins */
};

/* The arrays that hold a field's rows together (pst_field_output.ragged). n is the number of rows
 * of the batch. Numbers are I64. A row of boxes, keypoints or an array varies along its first axis,
 * sound along its last one, an image or mask in height and width. A row without elements has length
 * 0. */
enum pst_collated {
    /* PADDED: (n, the largest of each axis). Rows begin at index 0 of every axis; images lie at the
     * top left. OFFSETS: of rows that vary along their first axis (all lengths, other axes), of
     * others (all elements). */
    PST_COLLATED_VALUES = 0,
    PST_COLLATED_COUNTS = 1,  /* PADDED, not pixels: (n), the lengths */
    PST_COLLATED_SIZES = 2,   /* PADDED, pixels: (n, 2), height and width */
    PST_COLLATED_OFFSETS = 3, /* OFFSETS: (n + 1), row i is values[offsets[i]:offsets[i + 1]] */
    /* OFFSETS, pixels and sound: (n, axes of a row), the shapes; of masks without the channel. */
    PST_COLLATED_SHAPES = 4
};

/* Gives one of the arrays of a field that the loader put together. They lie in the batch's memory,
 * which counts as host_memory: a batch takes room for its rows, and for them put together.
 *
 * tensor: the caller's struct, written if there is that array; tensor_nbytes: sizeof *tensor.
 *
 * Returns false, and sets nothing, if there is none: another part, another way, a field whose rows
 * have one shape, or no such field. Any thread. */
bool pst_batch_collated(const pst_batch *batch, uint32_t i_field, enum pst_collated part,
                        struct pst_tensor *tensor, size_t tensor_nbytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
