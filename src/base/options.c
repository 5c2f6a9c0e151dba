/* options.c - options structs of any age, brought to this library's size.
 *
 * In: what a caller compiled against some version of the headers. Out: a struct of this version's
 * size. Pure; any thread. */
#include "base/options.h"

#include "base/fail.h"

#include <string.h>

enum pst_status psti_options_copy(void *full, size_t full_nbytes, const void *given,
                                  const char *room, struct pst_error *err)
{
    size_t nbytes = 0;
    memset(full, 0, full_nbytes);
    if (given != NULL) {
        memcpy(&nbytes, given, sizeof nbytes);
        if (nbytes < sizeof nbytes)
            return psti_fail(err, PST_ERROR_ARGUMENT, room, "options.struct_size is not set");
        memcpy(full, given, nbytes < full_nbytes ? nbytes : full_nbytes);
    }
    memcpy(full, &full_nbytes, sizeof full_nbytes);
    return PST_OK;
}
