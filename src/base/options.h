/* options.h - converts structs of the public API. Their size depends on the headers that the caller
 * was built with.
 *
 * A caller may be built with older headers (its struct is shorter) or newer ones (longer).
 * <penstock/status.h> explains the rule to callers; only these functions implement it. Pure
 * functions, any thread. */
#ifndef PST_BASE_OPTIONS_H
#define PST_BASE_OPTIONS_H

#include <penstock/status.h>

/* Copies the caller's struct `given`, of `given_nbytes` bytes, to the library's `full`, of
 * `full_nbytes` bytes. Members that the caller's version lacks become zero. Returns
 * PST_ERROR_ARGUMENT if given_nbytes is 0 or above 64 KiB, because the caller has not set it then;
 * PST_ERROR_VERSION if a byte beyond full_nbytes is not zero, because the caller then uses a member
 * that this library does not know. `what` names the struct in the error. */
enum pst_status psti_struct_read(void *full, size_t full_nbytes, const void *given,
                                 size_t given_nbytes, const char *what, const char *room,
                                 struct pst_error *err);

/* Does what psti_struct_read does, for a struct whose first member is size_t struct_size. If
 * `given` is NULL, all members of `full` become zero. Sets struct_size of `full` to full_nbytes. */
enum pst_status psti_options_copy(void *full, size_t full_nbytes, const void *given,
                                  const char *room, struct pst_error *err);

/* Copies the library's `full` to the caller's `given`, of `given_nbytes` bytes, as far as it fits.
 * The rest of `given` becomes zero. */
void psti_struct_write(void *given, size_t given_nbytes, const void *full, size_t full_nbytes);

#endif
