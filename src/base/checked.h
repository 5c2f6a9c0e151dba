/* checked.h - arithmetic that detects overflow. The functions return false on overflow and leave
 * *out undefined. */
#ifndef PST_BASE_CHECKED_H
#define PST_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool psti_add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool psti_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool psti_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool psti_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Returns whether [offset, offset + nbytes) lies within [0, total). */
static inline bool psti_range_fits(uint64_t offset, uint64_t nbytes, uint64_t total)
{
    return offset <= total && nbytes <= total - offset;
}

#endif
