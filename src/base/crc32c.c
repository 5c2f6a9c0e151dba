/* crc32c.c - CRC-32C by an instruction of the CPU, or by a table of 16 entries.
 *
 * In: bytes; out: 32 bits. Pure functions, any thread. x86 CPUs with AVX2 also have SSE4.2, which
 * includes the instruction. ARM has it from version 8.1 on, or optionally before
 * (PSTI_CPU_ARM_CRC). Without it, each byte takes two table look-ups. That is fast enough for
 * TFRecord files: only the 8 bytes of each length and small records are checked. */
#include "base/crc32c.h"

#include "base/bits.h"
#include "base/machine/cpu.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

uint32_t psti_crc32c_c(uint32_t before, const void *bytes, size_t nbytes)
{
    /* of_4_bits[i] is the CRC of the 4 bits i: their remainder modulo the polynomial 0x1EDC6F41, in
     * reversed bit order. */
    static const uint32_t of_4_bits[16] = {
        0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3,
        0x61C69362, 0x7198540D, 0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9,
        0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75,
    };
    const uint8_t *at = bytes;
    uint32_t sum = ~before;
    for (size_t i = 0; i < nbytes; i++) {
        sum ^= at[i];
        sum = sum >> 4 ^ of_4_bits[sum & 15];
        sum = sum >> 4 ^ of_4_bits[sum & 15];
    }
    return ~sum;
}

#if defined(__x86_64__)
/* zig turns the extension "crc32" off in clang, although it is part of SSE4.2. */
__attribute__((target("sse4.2,crc32"))) static uint32_t by_instruction(uint32_t before,
                                                                       const uint8_t *at,
                                                                       size_t nbytes)
{
    uint64_t sum = (uint32_t)~before;
    for (; nbytes >= 8; nbytes -= 8, at += 8)
        sum = _mm_crc32_u64(sum, psti_load_u64(at));
    for (; nbytes > 0; nbytes--, at++)
        sum = _mm_crc32_u8((uint32_t)sum, *at);
    return ~(uint32_t)sum;
}
#elif defined(__aarch64__)
/* Inline assembler, because compilers differ in how a function is given the CPU extension. */
static uint32_t by_instruction(uint32_t before, const uint8_t *at, size_t nbytes)
{
    uint32_t sum = ~before;
    for (; nbytes >= 8; nbytes -= 8, at += 8)
        __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1"
                : "+r"(sum)
                : "r"(psti_load_u64(at)));
    for (; nbytes > 0; nbytes--, at++)
        __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(sum) : "r"((uint32_t)*at));
    return ~sum;
}
#endif

uint32_t psti_crc32c(uint32_t before, const void *bytes, size_t nbytes)
{
#if defined(__x86_64__)
    if ((psti_cpu_features() & PSTI_CPU_AVX2) != 0)
        return by_instruction(before, bytes, nbytes);
#elif defined(__aarch64__)
    if ((psti_cpu_features() & PSTI_CPU_ARM_CRC) != 0)
        return by_instruction(before, bytes, nbytes);
#endif
    return psti_crc32c_c(before, bytes, nbytes);
}
