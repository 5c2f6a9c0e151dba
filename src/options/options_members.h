/* options_members.h - the members of all structs with options, as tables. Pure; any thread. */
#ifndef PST_OPTIONS_OPTIONS_MEMBERS_H
#define PST_OPTIONS_OPTIONS_MEMBERS_H

#include <penstock/describe.h>

#define PSTI_BATCH_SIZE_MAX (1 << 24)

/* The struct's members, in the order of the header. NULL, *n 0: `which` is not known. */
const struct pst_member *psti_options_members(enum pst_struct which, size_t *n);

/* Checks that all numbers of the struct lie within their limits, and replaces each 0 that stands
 * for a default by it. PST_ERROR_ARGUMENT: the text names the member and its limits. */
enum pst_status psti_options_complete(enum pst_struct which, void *options, const char *room,
                                      struct pst_error *err);

/* A hash of names, sizes and uses of a loader's members: two libraries with the same hash write
 * the same options for each other. */
uint32_t psti_options_digest(void);

#endif
