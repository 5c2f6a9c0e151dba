/* crc32c.h - CRC-32C (Castagnoli; RFC 3720, 12.1), the checksum of TFRecord files. It differs from
 * the CRC-32 of zip and gzip (inflate.h). */
#ifndef PST_BASE_CRC32C_H
#define PST_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Returns the checksum of the bytes. `before` is the checksum of the bytes before them (0 at the
 * start), so data may come in pieces. Pure function, any thread. */
uint32_t psti_crc32c(uint32_t before, const void *bytes, size_t nbytes);

/* Computes psti_crc32c in plain C. The code for every CPU level must give the same results. */
uint32_t psti_crc32c_c(uint32_t before, const void *bytes, size_t nbytes);

#endif
