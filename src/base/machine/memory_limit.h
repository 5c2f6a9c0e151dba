/* memory_limit.h - how much memory this process may use, and how much is still available. */
#ifndef PST_BASE_MEMORY_LIMIT_H
#define PST_BASE_MEMORY_LIMIT_H

#include <stdint.h>

/* Returns the memory of the machine in bytes, or less if a control group of the process (version 1
 * or 2) or one of its parents has a lower limit. UINT64_MAX: unknown. */
uint64_t psti_memory_limit(void);
/* For tests: does what psti_memory_limit does. `root` is a prefix of /proc and /sys. */
uint64_t psti_memory_limit_below(const char *root);
/* Returns how many more bytes this process can allocate without swapping and without being killed:
 * MemAvailable of the machine, or less if a control group leaves less. Page cache counts as
 * available, because the kernel drops it. UINT64_MAX: unknown. */
uint64_t psti_memory_available(void);
/* For tests: does what psti_memory_available does. `root` is a prefix of /proc and /sys. */
uint64_t psti_memory_available_below(const char *root);

#endif
