/* loader_noted.h - for data sets of files that Penstock did not write: tells which items have
 * checksums in the index, and computes and stores the missing ones (loader_noted.c). */
#ifndef PST_LOADER_LOADER_NOTED_H
#define PST_LOADER_LOADER_NOTED_H

#include "loader/loader.h"

#include <stdbool.h>
#include <stdint.h>

struct psti_loader_source;

/* True if the index has checksums for all items of the loader's fields. */
bool psti_loader_noted_can_check(const pst_loader *loader);
/* True if the index of source i_source of the loader's mixture has checksums for all items of the
 * loader's fields. */
bool psti_loader_noted_can_check_source(const pst_loader *loader, uint32_t i_source);
/* Returns the data set, or the mixture's first source, whose index lacks checksums for the loader's
 * fields; NULL: none does. Sources without samples are ignored. */
const pst_dataset *psti_loader_noted_lacking(const pst_loader *loader);

/* Begins to note checksums, if the loader has a cache and reads whole epochs, and the index lacks
 * checksums. If memory is lacking, nothing is noted. Called in the caller's thread at open. */
void psti_loader_noted_open(pst_loader *loader);
/* Saves the checksums like psti_loader_noted_save, and frees them. Called in the caller's thread
 * when the loader closes, while no worker has work. */
void psti_loader_noted_close(pst_loader *loader);
/* Saves the checksums before an epoch begins, and frees them if they were saved. Called in the
 * caller's thread while no worker has work. */
void psti_loader_noted_begin(pst_loader *loader);
/* Hashes the stored bytes of an item that was read from its file, and notes the checksum. Called by
 * workers of an epoch, not by the fetcher, whose thread may run while an epoch begins. */
void psti_loader_noted_add(const pst_loader *loader, uint64_t sample,
                           const struct psti_loader_source *source);
/* Saves the checksums in the index if they are complete. Called at the end of an epoch, in the
 * caller's thread, without the lock. Takes little time if no checksum was added since the last
 * call. */
void psti_loader_noted_save(pst_loader *loader);

#endif
