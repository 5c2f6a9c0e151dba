/* fleet_library.c - finds libmemcached at run time, and refuses versions before 1.1.4, which can
 * give the value of another key after a time-out (GHSA-wwmh-39wj-fx59). Any thread. */
#include "fleet/fleet_library.h"

#include "base/fail.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define INSTALL "install libmemcached 1.1.4 or later (Debian, Ubuntu: apt install libmemcached11)"

int psti_fleet_library_is_new(const char *version)
{
    unsigned major = 0, minor = 0, patch = 0;
    if (!version || sscanf(version, "%u.%u.%u", &major, &minor, &patch) < 2)
        return 0;
    if (major != 1)
        return major > 1;
    return minor > 1 || (minor == 1 && patch >= 4);
}

enum pst_status psti_fleet_library_open(struct psti_mc *mc, struct pst_error *err)
{
    const char *path = getenv("PENSTOCK_LIBMEMCACHED");
    if (!path || !*path)
        path = "libmemcached.so.11";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        const char *why = dlerror();
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "fleet",
                         "a fleet of memcached servers needs libmemcached: " INSTALL " (%s)",
                         why ? why : path);
    }
#define LOOK_UP(result, member, symbol, arguments)                                                 \
    *(void **)&mc->member = dlsym(library, #symbol);                                               \
    if (!mc->member)                                                                               \
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "fleet", "%s has no %s: " INSTALL, path,      \
                         #symbol);
    PSTI_MC_LIST(LOOK_UP)
#undef LOOK_UP
    const char *version = mc->version();
    if (!psti_fleet_library_is_new(version))
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "fleet",
                         "%s is libmemcached %s, which can give the value of another key after a "
                         "time-out: " INSTALL,
                         path, version ? version : "of no version");
    return PST_OK;
}
