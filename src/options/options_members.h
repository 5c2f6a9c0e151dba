/* options_members.h - tables of the members of all option structs. Pure; any thread. */
#ifndef PST_OPTIONS_OPTIONS_MEMBERS_H
#define PST_OPTIONS_OPTIONS_MEMBERS_H

#include <penstock/describe.h>

#define PSTI_BATCH_SIZE_MAX (1 << 24)

/* Returns the members of a struct, in the order of the header. NULL and *n 0 if `which` is unknown.
 */
const struct pst_member *psti_options_members(enum pst_struct which, size_t *n);

/* Checks that all numbers of the struct are within their limits, and replaces 0 by the default
 * where 0 means that. PST_ERROR_ARGUMENT: the text names the member and its limits. */
enum pst_status psti_options_complete(enum pst_struct which, void *options, const char *room,
                                      struct pst_error *err);

/* Returns a hash of the names, sizes and uses of a loader's members. Libraries with the same hash
 * can read each other's options. */
uint32_t psti_options_digest(void);

#endif
