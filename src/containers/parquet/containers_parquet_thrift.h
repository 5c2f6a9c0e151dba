/* containers_parquet_thrift.h - reads values of Thrift's compact protocol from bytes in memory.
 *
 * A reader that meets bytes that are none of the protocol's is bad from then on: it gives zeros, no
 * fields and empty texts, and whoever uses it looks at `is_bad` once, at the end. So loops over
 * fields and lists end by themselves. Nothing is copied; texts lie in the reader's bytes. */
#ifndef PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_THRIFT_H
#define PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum psti_thrift_type {
    PSTI_THRIFT_STOP = 0,
    PSTI_THRIFT_TRUE = 1, /* a boolean field has its value in its type */
    PSTI_THRIFT_FALSE = 2,
    PSTI_THRIFT_I8 = 3,
    PSTI_THRIFT_I16 = 4,
    PSTI_THRIFT_I32 = 5,
    PSTI_THRIFT_I64 = 6,
    PSTI_THRIFT_DOUBLE = 7,
    PSTI_THRIFT_TEXT = 8,
    PSTI_THRIFT_LIST = 9,
    PSTI_THRIFT_SET = 10,
    PSTI_THRIFT_MAP = 11,
    PSTI_THRIFT_STRUCT = 12,
    PSTI_THRIFT_UUID = 13,
};

/* Values may be so deep in each other. */
enum { PSTI_THRIFT_MAX_DEPTH = 32 };

struct psti_thrift {
    const uint8_t *bytes;
    size_t nbytes, at;
    bool is_bad;
    bool is_short; /* it is bad because the bytes end too early */
};

struct psti_thrift_text {
    const char *bytes; /* without a NUL */
    size_t nbytes;
};

/* The place in a struct. Zeros stand before its first field. */
struct psti_thrift_field {
    int16_t id;
    uint8_t type; /* enum psti_thrift_type */
};

/* Steps to the next field of a struct, whose value must be read or skipped then. False: the struct
 * ends. */
bool psti_containers_thrift_field(struct psti_thrift *thrift, struct psti_thrift_field *field);
/* Passes the value of a field or of an element of a list. */
void psti_containers_thrift_skip(struct psti_thrift *thrift, uint8_t type);
/* A whole number of any width. */
int64_t psti_containers_thrift_int(struct psti_thrift *thrift, uint8_t type);
/* A whole number that fits in 32 bits and is not negative. */
uint32_t psti_containers_thrift_count(struct psti_thrift *thrift, uint8_t type);
/* The value of a boolean field, which is its type. */
bool psti_containers_thrift_bool(struct psti_thrift *thrift, uint8_t type);
struct psti_thrift_text psti_containers_thrift_text(struct psti_thrift *thrift, uint8_t type);
/* Begins a list whose elements have the type `element`. Returns how many follow; there are at least
 * as many bytes. */
uint32_t psti_containers_thrift_list(struct psti_thrift *thrift, uint8_t type, uint8_t element);
/* Says that the value is of no use to its reader. Returns false. */
bool psti_containers_thrift_bad(struct psti_thrift *thrift);

#endif
