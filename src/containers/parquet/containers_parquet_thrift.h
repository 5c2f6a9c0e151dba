/* containers_parquet_thrift.h - reads values of Thrift's compact protocol from bytes in memory.
 *
 * The first invalid byte sets `is_bad`. From then on, the reader returns zeros, empty texts and no
 * fields, so loops over fields and lists end, and callers check `is_bad` once, at the end. Nothing
 * is copied; texts lie in the reader's bytes. */
#ifndef PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_THRIFT_H
#define PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum psti_thrift_type {
    PSTI_THRIFT_STOP = 0,
    PSTI_THRIFT_TRUE = 1, /* the value of a boolean field is encoded in its type */
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

/* Maximum number of levels of nested values. */
enum { PSTI_THRIFT_MAX_DEPTH = 32 };

struct psti_thrift {
    const uint8_t *bytes;
    size_t nbytes, at;
    bool is_bad;
    bool is_short; /* is_bad was set because the bytes end too early */
};

struct psti_thrift_text {
    const char *bytes; /* text without a NUL at its end */
    size_t nbytes;
};

/* Position in a struct. All zeros: before the first field. */
struct psti_thrift_field {
    int16_t id;
    uint8_t type; /* enum psti_thrift_type */
};

/* Moves to the next field of a struct. The caller must read or skip its value. False: the struct
 * ends. */
bool psti_containers_thrift_field(struct psti_thrift *thrift, struct psti_thrift_field *field);
/* Skips the value of a field or of a list's element. */
void psti_containers_thrift_skip(struct psti_thrift *thrift, uint8_t type);
/* Reads an integer of any width. */
int64_t psti_containers_thrift_int(struct psti_thrift *thrift, uint8_t type);
/* Reads a non-negative integer that fits in 32 bits. */
uint32_t psti_containers_thrift_count(struct psti_thrift *thrift, uint8_t type);
/* Returns the value of a boolean field, which is encoded in its type. */
bool psti_containers_thrift_bool(struct psti_thrift *thrift, uint8_t type);
struct psti_thrift_text psti_containers_thrift_text(struct psti_thrift *thrift, uint8_t type);
/* Begins a list of elements of the type `element`. Returns their number, which is at most the
 * number of bytes left. */
uint32_t psti_containers_thrift_list(struct psti_thrift *thrift, uint8_t type, uint8_t element);
/* Marks the reader as bad, because the value makes no sense. Returns false. */
bool psti_containers_thrift_bad(struct psti_thrift *thrift);

#endif
