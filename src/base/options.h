/* options.h - structs that cross the library's border, of the size that the caller was built with.
 *
 * A caller may be built against older headers (its struct is shorter) or newer ones (longer). The
 * rule is told to callers in <penstock/status.h>; these functions are the only place that holds it.
 * Pure; any thread. */
#ifndef PST_BASE_OPTIONS_H
#define PST_BASE_OPTIONS_H

#include <penstock/status.h>

/* Copies the caller's `given`, of `given_nbytes` bytes, to `full`, of `full_nbytes`. Members that
 * the caller does not know become zero. PST_ERROR_ARGUMENT: given_nbytes is 0 or above 64 KiB, so
 * it was never set. PST_ERROR_VERSION: a byte beyond full_nbytes is not zero, so the caller asks
 * for something that this library does not know. `what` names the struct in the text. */
enum pst_status psti_struct_read(void *full, size_t full_nbytes, const void *given,
                                 size_t given_nbytes, const char *what, const char *room,
                                 struct pst_error *err);

/* The same for a struct whose first member is size_t struct_size. `given` NULL: all zero. Sets
 * full's struct_size to full_nbytes. */
enum pst_status psti_options_copy(void *full, size_t full_nbytes, const void *given,
                                  const char *room, struct pst_error *err);

/* Copies the library's `full` to the caller's `given`, of `given_nbytes` bytes: as much as fits,
 * and zeros behind it. */
void psti_struct_write(void *given, size_t given_nbytes, const void *full, size_t full_nbytes);

#endif
