/* containers_pattern.h - patterns for names of shards: brace lists and wildcards.
 *
 * Brace lists are those of bash and of the Python package braceexpand, which WebDataset and Energon
 * use: {a,b}, {000..099}, {a..e}, {0..9..3}, also nested. A backslash makes the next character
 * literal. Wildcards are those of a shell: "*", "?" and "[a-z]" within one part of a path. They
 * never match a file whose name begins with a dot.
 *
 * Any thread. */
#ifndef PST_CONTAINERS_CONTAINERS_PATTERN_H
#define PST_CONTAINERS_CONTAINERS_PATTERN_H

#include "containers/list/containers_paths.h"

/* Adds all names that a pattern's brace lists expand to, in the order of bash. A pattern without
 * brace lists is added as it is.
 *
 * PST_ERROR_ARGUMENT: a brace lacks its counterpart. PST_ERROR_LIMIT: there are more than n_max
 *     names, or the pattern is too long. */
enum pst_status psti_containers_braces(const char *pattern, size_t n_max,
                                       struct psti_container_names *names, struct pst_error *err);

bool psti_containers_has_wildcard(const char *text);
/* True if the pattern matches the whole of `path`. Wildcards match no slash. Takes time
 * proportional to pattern length times path length. */
bool psti_containers_matches(const char *pattern, const char *path);
/* Adds the paths of the files and folders that match, sorted by bytes. A relative pattern gives
 * relative paths.
 *
 * PST_ERROR_NOT_FOUND: nothing matches. PST_ERROR_UNSUPPORTED: the pattern has "**". */
enum pst_status psti_containers_glob(const char *pattern, struct psti_container_names *names,
                                     struct pst_error *err);

#endif
