/* loader_usable.h - errors for calls of a loader that can no longer be used: a broken one, or one
 * that a fork copied. */
#ifndef PST_LOADER_LOADER_USABLE_H
#define PST_LOADER_LOADER_USABLE_H

#include <penstock/loader.h>

/* Reports that a forked child used its parent's loader. */
enum pst_status psti_loader_fail_forked(struct pst_error *err);

/* Returns PST_OK, or the failure that broke the loader. The caller's thread only. */
enum pst_status psti_loader_check_broken(const pst_loader *loader, struct pst_error *err);

#endif
