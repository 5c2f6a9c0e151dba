/* options.c - converts the structs of the public API between the caller's version and this
 * library's. */
#include "base/options.h"

#include "base/fail.h"

#include <string.h>

#define STRUCT_MAX_NBYTES 65536

enum pst_status psti_struct_read(void *full, size_t full_nbytes, const void *given,
                                 size_t given_nbytes, const char *what, const char *room,
                                 struct pst_error *err)
{
    memset(full, 0, full_nbytes);
    if (given_nbytes == 0 || given_nbytes > STRUCT_MAX_NBYTES)
        return psti_fail(err, PST_ERROR_ARGUMENT, room, "%s is not set: %zu is no size of a struct",
                         what, given_nbytes);
    const unsigned char *bytes = given;
    for (size_t i = full_nbytes; i < given_nbytes; i++)
        if (bytes[i] != 0)
            return psti_fail(err, PST_ERROR_VERSION, room,
                             "%s is %zu, and byte %zu is set: this library knows the first %zu "
                             "bytes, the program was built for a newer one",
                             what, given_nbytes, i, full_nbytes);
    memcpy(full, given, given_nbytes < full_nbytes ? given_nbytes : full_nbytes);
    return PST_OK;
}

enum pst_status psti_options_copy(void *full, size_t full_nbytes, const void *given,
                                  const char *room, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    memset(full, 0, full_nbytes);
    if (given != NULL) {
        size_t nbytes;
        memcpy(&nbytes, given, sizeof nbytes);
        if (nbytes < sizeof nbytes)
            return psti_fail(err, PST_ERROR_ARGUMENT, room, "struct_size is not set");
        status = psti_struct_read(full, full_nbytes, given, nbytes, "struct_size", room, err);
    }
    memcpy(full, &full_nbytes, sizeof full_nbytes);
    return status;
}

void psti_struct_write(void *given, size_t given_nbytes, const void *full, size_t full_nbytes)
{
    size_t n = given_nbytes < full_nbytes ? given_nbytes : full_nbytes;
    memcpy(given, full, n);
    memset((unsigned char *)given + n, 0, given_nbytes - n);
}
