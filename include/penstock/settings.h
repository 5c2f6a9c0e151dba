/* settings.h - other sizes of pictures and batches while a loader is in use, for progressive
 * resizing; and other ranks, for trainings that lose and regain some.
 *
 *     struct pst_loader_settings settings = {.struct_size = sizeof settings,
 *                                            .height = 192, .width = 192, .batch_size = 256};
 *     status = pst_loader_set(loader, &settings, &err);    between epochs, or within one
 *
 * The next batch that pst_loader_next returns is the first one with these settings, whatever was
 * prepared ahead: that is thrown away. If no epoch is under way, it is the first batch of the next
 * one. The settings hold until they are set again.
 *
 * Order: samples come as before, from the place that pst_loader_state gives, with the same random
 * parameters, which are functions of the sample. Mixes of batches (augment.h) are functions of a
 * batch's first position and of its rows, so they are others. With drop_last the epoch ends where
 * less than one batch of each rank is left. Ranks that train together make the same call behind
 * the same batch.
 *
 * Resume: a state that was saved behind the call goes on in a loader with the same settings, so
 * the caller saves these beside it (pst_loader_settings). Numbers of batches (pst_batch_place,
 * pst_loader_replay) count those of the present batch_size. pst_loader_fetch and pst_loader_replay
 * make pictures of the present size. max_errors, statistics and clocks go on.
 *
 * Memory: batches of the former size that the caller holds stay as they are. They count in
 * host_memory until they are released, but not in device_memory. A cache with
 * PST_CACHE_RESOLUTION_TRAINING keeps the pictures of each size apart, if the size changes an
 * operation that it keeps; those of the former size are let go when others need their room. */
#ifndef PENSTOCK_SETTINGS_H
#define PENSTOCK_SETTINGS_H

#include <penstock/loader.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Says what pst_loader_set changes. Zero-initialise, then set struct_size. */
struct pst_loader_settings {
    size_t struct_size;
    uint32_t batch_size; /* 0: as it is */
    /* Of the pictures that are delivered, both or neither; 0: as they are. It becomes the size of
     * the last operation of each chain that gives all pictures one size: PST_OP_RESIZE with a
     * width, _CENTER_CROP, _RANDOM_CROP, _RANDOM_RESIZED_CROP or _LETTERBOX. Operations before it
     * stay as they are. */
    uint32_t height, width;
};

/* Changes the size of pictures and batches at a border of batches.
 *
 * settings: NULL, or one with zeros, changes nothing. Read during the call only.
 *
 * PST_ERROR_ARGUMENT: height without width; no operation gives all pictures one size; chains, such
 *     as those of views, have different ones; later operations change it; batch_size is too large.
 * PST_ERROR_UNSUPPORTED: the loader shares (pst_loader_options.share): its group has agreed on the
 *     size. PST_ERROR_VERSION: a setting is set that this library does not know.
 * PST_ERROR_LIMIT: host_memory or device_memory is too small, beside the batches that the caller
 *     holds; the text says how much is needed.
 * PST_ERROR_MEMORY, PST_ERROR_DEVICE, PST_ERROR_IO: as pst_loader_open. PST_ERROR_FORKED.
 * After each error the loader goes on as before, at the same place. Only if the system has no
 * memory to undo what was begun, all further calls return that error.
 *
 * Waits for reads and work that are under way, and starts the loader's threads anew. No other call
 * of this loader may be in progress. */
PST_WARN_UNUSED enum pst_status pst_loader_set(pst_loader *loader,
                                               const struct pst_loader_settings *settings,
                                               struct pst_error *err);

/* Gives the present settings.
 *
 * settings: the caller's struct, written as a whole. height and width are 0 where pst_loader_set
 *     cannot change them.
 * settings_nbytes: sizeof *settings.
 *
 * Cannot fail. One thread at a time for each loader. */
void pst_loader_settings(const pst_loader *loader, struct pst_loader_settings *settings,
                         size_t settings_nbytes);

/* Says which rank this process is from the next batch on, also within an epoch: for trainings that
 * lose and regain ranks. What was prepared ahead for the former rank is thrown away. The next step
 * of the new ranks begins at the position where the last step of the former ones ended
 * (pst_loader_state), so that the ranks together deliver each of the epoch's positions once, with
 * the same pixels. Padding and drop_last apply to the new ranks. Between epochs it does what
 * pst_loader_set_ranks does. Batches that the caller holds stay as they are. max_errors, statistics
 * and clocks go on. Numbers of batches (pst_batch_place, pst_loader_replay) count those of the
 * present ranks.
 *
 * All ranks that go on call it after the same step of the training, and each of them with another
 * rank below the same world_size. They can compare pst_loader_state: epoch and position are equal.
 * A rank that joins is resumed with the state that rank 0 had before the call. A rank that leaves
 * is closed.
 *
 * Without padding (no_epoch_padding) the last step may have no batch for some ranks. Such a rank
 * has ended the epoch once pst_loader_next has returned PST_END to it; before that it goes on with
 * the others. If the rest of the epoch has no batch for a rank, that rank gets PST_END.
 *
 * rank: 0 to world_size - 1.
 * world_size: number of ranks; 0 means 1.
 *
 * PST_ERROR_ARGUMENT: rank is not below world_size, and nothing is changed.
 * PST_ERROR_FORKED, and the error of an earlier pst_loader_set that could not be undone.
 *
 * Waits for reads and work that are under way. One thread at a time for each loader. */
PST_WARN_UNUSED enum pst_status pst_loader_set_world(pst_loader *loader, uint32_t rank,
                                                     uint32_t world_size, struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
