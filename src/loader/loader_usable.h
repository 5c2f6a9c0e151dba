/* loader_usable.h - errors of calls for a loader that cannot be used: one of another process, or a
 * broken one. */
#ifndef PST_LOADER_LOADER_USABLE_H
#define PST_LOADER_LOADER_USABLE_H

#include <penstock/loader.h>

/* Reports the use in a forked child. */
enum pst_status psti_loader_fail_forked(struct pst_error *err);

/* Returns PST_OK, or reports the failure of a loader that is broken. The caller's thread. */
enum pst_status psti_loader_check_broken(const pst_loader *loader, struct pst_error *err);

#endif
