/* options_rows.h - macros for a row of a table of members, which derive the member's type from the
 * struct. Only files with tables include this. */
#ifndef PST_OPTIONS_OPTIONS_ROWS_H
#define PST_OPTIONS_OPTIONS_ROWS_H

#include <penstock/describe.h>

#include <float.h>
#include <stddef.h>
#include <stdint.h>

#define OF(type, name) (((type *)0)->name)
#define KIND(number)                                                                               \
    _Generic((number), bool: PST_MEMBER_BOOL, float: PST_MEMBER_FLOAT, double: PST_MEMBER_FLOAT,   \
             int8_t: PST_MEMBER_SIGNED, int16_t: PST_MEMBER_SIGNED, int32_t: PST_MEMBER_SIGNED,    \
             int64_t: PST_MEMBER_SIGNED, default: PST_MEMBER_UNSIGNED)
#define LOW(number)                                                                                \
    _Generic((number), float: -(double)FLT_MAX, double: -DBL_MAX, int8_t: INT8_MIN,                \
             int16_t: INT16_MIN, int32_t: INT32_MIN, int64_t: -0x1p63, default: 0)
#define HIGH(number)                                                                               \
    _Generic((number), bool: 1, float: (double)FLT_MAX, double: DBL_MAX, int8_t: INT8_MAX,         \
             int16_t: INT16_MAX, int32_t: INT32_MAX, int64_t: 0x1p63, uint8_t: UINT8_MAX,          \
             uint16_t: UINT16_MAX, uint32_t: UINT32_MAX, default: 0x1p64)
#define ROW(type, name, kind, use, n, nbytes, low, high, zero)                                     \
    {                                                                                              \
#name, kind, PST_USE_##use, offsetof(type, name), nbytes, n, 0, low, high, zero            \
    }
/* A row for a number or bool without limits other than its type's. */
#define NUMBER(type, name, use)                                                                    \
    ROW(type, name, KIND(OF(type, name)), use, 1, sizeof OF(type, name), LOW(OF(type, name)),      \
        HIGH(OF(type, name)), 0)
/* A row for a number with limits, and the default that 0 stands for. */
#define LIMITED(type, name, use, low, high, zero)                                                  \
    ROW(type, name, KIND(OF(type, name)), use, 1, sizeof OF(type, name), low, high, zero)
/* A row for an array inside the struct. */
#define ARRAY(type, name, use)                                                                     \
    ROW(type, name, KIND(OF(type, name)[0]), use,                                                  \
        sizeof OF(type, name) / sizeof OF(type, name)[0], sizeof OF(type, name)[0],                \
        LOW(OF(type, name)[0]), HIGH(OF(type, name)[0]), 0)
#define ENUM(type, name, use, last)                                                                \
    ROW(type, name, PST_MEMBER_ENUM, use, 1, sizeof OF(type, name), 0, last, 0)
#define POINTER(type, name, use)                                                                   \
    ROW(type, name, PST_MEMBER_POINTER, use, 1, sizeof OF(type, name), 0, 0, 0)
/* A row for the length of the array that a pointer member has. */
#define COUNT(type, name, use)                                                                     \
    ROW(type, name, PST_MEMBER_COUNT, use, 1, sizeof OF(type, name), 0, HIGH(OF(type, name)), 0)

#define N_OF(rows) (sizeof(rows) / sizeof((rows)[0]))

/* Like psti_options_members, for the structs that do not belong to a loader. */
const struct pst_member *psti_options_others(enum pst_struct which, size_t *n);

#endif
