/* hash.h - XXH3-64 (xxHash), the checksum of everything that Penstock stores. */
#ifndef PST_BASE_HASH_H
#define PST_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t psti_hash64(const void *bytes, size_t nbytes);
/* Returns the XXH32 of the bytes. LZ4 frames have this checksum. */
uint32_t psti_hash32(const void *bytes, size_t nbytes);

/* The state of a hash whose data come in several pieces. It is plain data and needs no clean-up. */
struct psti_hash_state {
    _Alignas(64) unsigned char opaque[640];
};
void psti_hash_begin(struct psti_hash_state *state);
void psti_hash_update(struct psti_hash_state *state, const void *bytes, size_t nbytes);
uint64_t psti_hash_end(const struct psti_hash_state *state);

/* The state of a 16-byte hash: two XXH3-64. Hash number i (0, 1) first gets the byte i, then both
 * get the same data. */
struct psti_hash_pair {
    struct psti_hash_state halves[2];
};
void psti_hash_pair_begin(struct psti_hash_pair *pair);
void psti_hash_pair_update(struct psti_hash_pair *pair, const void *bytes, size_t nbytes);
void psti_hash_pair_end(const struct psti_hash_pair *pair, uint8_t out[16]);

#if defined(__x86_64__)
/* Versions of the functions above for AVX2 (hash_avx2.c). The functions above call them for pieces
 * of at least PSTI_HASH_WIDE_MIN bytes. One hash may use both versions for its pieces. */
enum { PSTI_HASH_WIDE_MIN = 256 };
uint64_t psti_hash64_avx2(const void *bytes, size_t nbytes);
void psti_hash_update_avx2(struct psti_hash_state *state, const void *bytes, size_t nbytes);
#endif

#endif
