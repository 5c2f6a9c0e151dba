/* settings.h - changes the size of pictures and batches while a loader is in use, for progressive
 * resizing, and changes the ranks, for training that loses and regains ranks.
 *
 *     struct pst_loader_settings settings = {.struct_size = sizeof settings,
 *                                            .height = 192, .width = 192, .batch_size = 256};
 *     status = pst_loader_set(loader, &settings, &err);    between epochs, or within one
 *
 * The next batch that pst_loader_next returns is the first with these settings; batches prepared
 * ahead are discarded. If no epoch is under way, it is the first batch of the next epoch. The
 * settings hold until they are set again.
 *
 * Order: samples continue from the place that pst_loader_state gives. Their random parameters do
 * not change, as these depend on the sample. Mixes of batches (augment.h) do change, because they
 * depend on a batch's first position and on its rows. With drop_last the epoch ends when fewer
 * samples are left than one batch for each rank. Ranks that train together must make the same call
 * after the same batch.
 *
 * Resume: a state saved after the call continues in a loader with the same settings, so the caller
 * must save the settings with it (pst_loader_settings). Step numbers (pst_batch_place,
 * pst_loader_replay) count batches of the current batch_size. pst_loader_fetch and
 * pst_loader_replay make pictures of the current size. max_errors, statistics and clocks are not
 * reset.
 *
 * Memory: batches of the former size that the caller holds stay valid. They count in host_memory
 * until they are released, but not in device_memory. If a size changes an operation whose result a
 * cache keeps (PST_CACHE_RESOLUTION_TRAINING), the cache holds the pictures of each size
 * separately; pictures of a former size are dropped when others need the memory. */
#ifndef PENSTOCK_SETTINGS_H
#define PENSTOCK_SETTINGS_H

#include <penstock/loader.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The settings that pst_loader_set changes. Zero-initialise, then set struct_size. */
struct pst_loader_settings {
    size_t struct_size;
    uint32_t batch_size; /* 0: unchanged */
    /* Size of the delivered pictures in pixels, both members or neither; 0: unchanged. It becomes
     * the size of the last operation of each chain that gives all pictures one size: PST_OP_RESIZE
     * with a width, _CENTER_CROP, _RANDOM_CROP, _RANDOM_RESIZED_CROP or _LETTERBOX. Earlier
     * operations stay as they are. */
    uint32_t height, width;
};

/* Changes the size of pictures and batches, from the next batch on.
 *
 * settings: NULL, or all zeros, changes nothing. Read during the call only.
 *
 * PST_ERROR_ARGUMENT: height without width; no operation gives all pictures one size; chains, such
 *     as those of views, end in different sizes; later operations change the size; batch_size is
 *     too large.
 * PST_ERROR_UNSUPPORTED: the loader is in a group (pst_loader_options.share), which agreed on the
 *     size. PST_ERROR_VERSION: a setting is set that this version of the library does not have.
 * PST_ERROR_LIMIT: host_memory or device_memory is too small together with the batches that the
 *     caller holds; the text says how much is needed.
 * PST_ERROR_MEMORY, PST_ERROR_DEVICE, PST_ERROR_IO: see pst_loader_open. PST_ERROR_FORKED.
 * After an error the loader continues as before, at the same place. Only if the system has no
 * memory to undo a partial change do all further calls return that error.
 *
 * Waits for running reads and work, and restarts the loader's threads. No other call of this loader
 * may be in progress. */
PST_WARN_UNUSED enum pst_status pst_loader_set(pst_loader *loader,
                                               const struct pst_loader_settings *settings,
                                               struct pst_error *err);

/* Gives the current settings.
 *
 * settings: the caller's struct, written as a whole. height and width are 0 where pst_loader_set
 *     cannot change them.
 * settings_nbytes: sizeof *settings.
 *
 * Cannot fail. One thread at a time for each loader. */
void pst_loader_settings(const pst_loader *loader, struct pst_loader_settings *settings,
                         size_t settings_nbytes);

/* Changes rank and world size from the next batch on, even within an epoch, for training that loses
 * and regains ranks. Batches prepared for the former rank are discarded. The next step of the new
 * ranks begins where the last step of the former ranks ended (pst_loader_state), so the ranks
 * together deliver each position of the epoch once, with the same pixels. Padding and drop_last
 * apply to the new ranks. Between epochs it equals pst_loader_set_ranks. Batches that the caller
 * holds stay valid. max_errors, statistics and clocks are not reset. Step numbers (pst_batch_place,
 * pst_loader_replay) count batches of the current ranks.
 *
 * All ranks that continue must call it after the same step of training, each with another rank
 * below the same world_size. They can compare pst_loader_state: epoch and position must be equal. A
 * joining rank is resumed with the state that rank 0 had before the call. A leaving rank closes its
 * loader.
 *
 * Without padding (no_epoch_padding) the last step may have no batch for some ranks. Such a rank
 * has ended the epoch when pst_loader_next has returned PST_END to it; until then it continues with
 * the others. A rank for which the rest of the epoch has no batch gets PST_END.
 *
 * rank: 0 to world_size - 1.
 * world_size: number of ranks; 0 means 1.
 *
 * PST_ERROR_ARGUMENT: rank is not below world_size; nothing is changed.
 * PST_ERROR_FORKED, and the error of an earlier pst_loader_set that could not be undone.
 *
 * Waits for running reads and work. One thread at a time for each loader. */
PST_WARN_UNUSED enum pst_status pst_loader_set_world(pst_loader *loader, uint32_t rank,
                                                     uint32_t world_size, struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
