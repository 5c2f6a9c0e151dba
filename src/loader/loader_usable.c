/* loader_usable.c - errors for calls of a loader that can no longer be used. */
#include "loader/loader_usable.h"

#include "loader/loader_handle.h"

#include "base/fail.h"

enum pst_status psti_loader_fail_forked(struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_FORKED, "loader",
                     "this loader belongs to the process that opened it: open another one here");
}

enum pst_status psti_loader_check_broken(const pst_loader *loader, struct pst_error *err)
{
    if (!loader->epoch.broken)
        return PST_OK;
    return psti_fail(err, loader->epoch.failure.status, "loader",
                     "pst_loader_set left no memory for the loader, which can only be closed: "
                     "%.300s",
                     loader->epoch.failure.text);
}
