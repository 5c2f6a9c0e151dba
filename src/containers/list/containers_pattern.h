/* containers_pattern.h - patterns for names of shards: brace lists and wildcards.
 *
 * Brace lists are those of the Python package braceexpand, which WebDataset and Energon use, and
 * mean what they mean in bash: {a,b}, {000..099}, {a..e}, {0..9..3}, one within another. A
 * backslash takes the meaning of the next character away. Wildcards are those of a shell: "*", "?"
 * and "[a-z]" within one part of a path; a file whose name begins with a dot is never found.
 *
 * Any thread. */
#ifndef PST_CONTAINERS_CONTAINERS_PATTERN_H
#define PST_CONTAINERS_CONTAINERS_PATTERN_H

#include "containers/list/containers_paths.h"

/* Adds all names that the brace lists of a pattern mean, in the order of bash; the pattern itself
 * if it has none.
 *
 * PST_ERROR_ARGUMENT: a brace lacks its counterpart. PST_ERROR_LIMIT: it means more than n_max
 * names, or it is too long. */
enum pst_status psti_containers_braces(const char *pattern, size_t n_max,
                                       struct psti_container_names *names, struct pst_error *err);

bool psti_containers_has_wildcard(const char *text);
/* Does the whole of `path` match? Wildcards match no slash. Linear in pattern times path. */
bool psti_containers_matches(const char *pattern, const char *path);
/* Adds the paths of files and folders that match, sorted by bytes. They begin as the pattern does.
 *
 * PST_ERROR_NOT_FOUND: there are none. PST_ERROR_UNSUPPORTED: the pattern has "**". */
enum pst_status psti_containers_glob(const char *pattern, struct psti_container_names *names,
                                     struct pst_error *err);

#endif
