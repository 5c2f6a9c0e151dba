/* options.h - options structs that callers of any age hand in. */
#ifndef PST_BASE_OPTIONS_H
#define PST_BASE_OPTIONS_H

#include <penstock/status.h>

/* Makes `full`, a struct of `full_nbytes` bytes whose first member is size_t struct_size, out of
 * `given`, which may be older (shorter) or younger (longer), or NULL: what it lacks is zero. Sets
 * full's struct_size. A given struct_size that cannot be one is PST_ERROR_ARGUMENT. */
enum pst_status psti_options_copy(void *full, size_t full_nbytes, const void *given,
                                  const char *room, struct pst_error *err);

#endif
