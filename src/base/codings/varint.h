/* varint.h - reads numbers that are stored with 7 bits in each byte, lowest first (varints), as in
 * protobuf and Thrift. */
#ifndef PST_BASE_VARINT_H
#define PST_BASE_VARINT_H

#include <stddef.h>
#include <stdint.h>

enum { PSTI_VARINT_NBYTES_MAX = 10 };

/* Reads a varint of at most 64 bits from n bytes. Returns how many bytes it takes. If it does not
 * end within n bytes or has more than 64 bits, returns 0 and sets *value to 0. */
static inline size_t psti_varint(const uint8_t *bytes, size_t n, uint64_t *value)
{
    uint64_t read = 0;
    *value = 0;
    for (size_t i = 0; i < n && i < PSTI_VARINT_NBYTES_MAX; i++) {
        if (i == PSTI_VARINT_NBYTES_MAX - 1 && bytes[i] > 1)
            return 0;
        read |= (uint64_t)(bytes[i] & 0x7F) << (7 * i);
        if (bytes[i] < 0x80) {
            *value = read;
            return i + 1;
        }
    }
    return 0;
}

#endif
