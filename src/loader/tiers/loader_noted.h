/* loader_noted.h - what can be checked of the items of other people's files, and the sums of them
 * that the loader notes: loader_noted.c. */
#ifndef PST_LOADER_LOADER_NOTED_H
#define PST_LOADER_LOADER_NOTED_H

#include "loader/loader.h"

#include <stdbool.h>
#include <stdint.h>

struct psti_loader_source;

/* True if the index has checksums of all items of the loader's fields. */
bool psti_loader_noted_can_check(const pst_loader *loader);
/* True if the index of one source of the loader's mixture has checksums of all items of the
 * loader's fields. */
bool psti_loader_noted_can_check_source(const pst_loader *loader, uint32_t i_source);
/* The data set, or the first source of the mixture, whose index lacks checksums of items of the
 * loader's fields. NULL: there is none. Sources without samples do not count. */
const pst_dataset *psti_loader_noted_lacking(const pst_loader *loader);

/* Begins to note sums, if the loader has a cache, reads whole epochs, and the index lacks sums. If
 * there is no memory for it, nothing is noted. The caller's thread, at open. */
void psti_loader_noted_open(pst_loader *loader);
/* The loader is closed. Saves, as psti_loader_noted_save. The caller's thread, while no worker has
 * work. */
void psti_loader_noted_close(pst_loader *loader);
/* An epoch is about to begin: saves, and closes what is saved. As psti_loader_noted_close. */
void psti_loader_noted_begin(pst_loader *loader);
/* Hashes the stored bytes of an item that was read from its file, and notes the sum. Any worker of
 * an epoch; not the fetcher, whose thread may run while an epoch begins. */
void psti_loader_noted_add(const pst_loader *loader, uint64_t sample,
                           const struct psti_loader_source *source);
/* An epoch has ended: saves the sums in the index if all are there. It costs little if none came
 * since the last call. The caller's thread, without the lock. */
void psti_loader_noted_save(pst_loader *loader);

#endif
