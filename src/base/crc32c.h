/* crc32c.h - CRC-32C (Castagnoli; RFC 3720, 12.1), the checksum of TFRecord files. It is not the
 * CRC-32 of zip and gzip, which inflate.h has. */
#ifndef PST_BASE_CRC32C_H
#define PST_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Returns the checksum of these bytes, continued from `before`, that of the bytes before them (0 at
 * the start). Pure; any thread. */
uint32_t psti_crc32c(uint32_t before, const void *bytes, size_t nbytes);

/* Computes the same in plain C. The code of every CPU level must give its results. */
uint32_t psti_crc32c_c(uint32_t before, const void *bytes, size_t nbytes);

#endif
