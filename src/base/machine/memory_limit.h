/* memory_limit.h - how much memory this process may use, and how much of it is still free. */
#ifndef PST_BASE_MEMORY_LIMIT_H
#define PST_BASE_MEMORY_LIMIT_H

#include <stdint.h>

/* Returns the memory of the machine in bytes, or less if a control group of the process (version 1
 * or 2) or a parent of it has a lower limit. UINT64_MAX: not known. */
uint64_t psti_memory_limit(void);
/* Does the same for tests: `root` goes before /proc and /sys. */
uint64_t psti_memory_limit_below(const char *root);
/* Returns how many bytes this process can still get without swapping and without being killed:
 * MemAvailable of the machine, or less if a control group leaves less. Memory of the page cache
 * counts as free, because the kernel gives it up. UINT64_MAX: not known. */
uint64_t psti_memory_available(void);
/* Does the same for tests: `root` goes before /proc and /sys. */
uint64_t psti_memory_available_below(const char *root);

#endif
