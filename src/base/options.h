/* options.h - converts structs that cross the library's border, which have the size that the caller
 * was built with.
 *
 * A caller may be built against older headers (its struct is shorter) or newer ones (longer).
 * <penstock/status.h> tells callers the rule; only these functions implement it. Pure; any
 * thread. */
#ifndef PST_BASE_OPTIONS_H
#define PST_BASE_OPTIONS_H

#include <penstock/status.h>

/* Copies the caller's struct `given`, of `given_nbytes` bytes, to the library's `full`, of
 * `full_nbytes` bytes. Members that the caller's version does not have become zero. Returns
 * PST_ERROR_ARGUMENT if given_nbytes is 0 or above 64 KiB, since it was never set then;
 * PST_ERROR_VERSION if a byte beyond full_nbytes is not zero, since the caller then uses a member
 * that this library does not know. `what` names the struct in the text. */
enum pst_status psti_struct_read(void *full, size_t full_nbytes, const void *given,
                                 size_t given_nbytes, const char *what, const char *room,
                                 struct pst_error *err);

/* Does as psti_struct_read for a struct whose first member is size_t struct_size. If `given` is
 * NULL, all members of `full` become zero. Sets struct_size of `full` to full_nbytes. */
enum pst_status psti_options_copy(void *full, size_t full_nbytes, const void *given,
                                  const char *room, struct pst_error *err);

/* Copies as much of the library's `full` to the caller's `given`, of `given_nbytes` bytes, as fits.
 * The rest of `given` becomes zero. */
void psti_struct_write(void *given, size_t given_nbytes, const void *full, size_t full_nbytes);

#endif
