/* warp_device.cuh - the operations of warp.cuh for a GPU, where a lane's value is simply the value
 * of a thread. */
#ifndef PST_GPU_WARP_DEVICE_CUH
#define PST_GPU_WARP_DEVICE_CUH

/* Unrolls a loop, which lets arrays indexed by its counter stay in registers. */
#define PSTI_UNROLL _Pragma("unroll")
/* Keeps the compiler from unrolling a loop. */
#define PSTI_LOOP _Pragma("unroll 1")

namespace psti
{

template <class T> using lanes = T;
template <class T> using shared = T *;

template <class T> PSTI_LANES shared<T> shared_cast(uint8_t *memory, uint32_t offset)
{
    return reinterpret_cast<T *>(memory + offset);
}

PSTI_LANES uint32_t lane_id() { return threadIdx.x & 31u; }
PSTI_LANES uint32_t votes(bool m) { return __ballot_sync(PSTI_ALL_LANES, m); }
PSTI_LANES bool some(bool m) { return __any_sync(PSTI_ALL_LANES, m); }
PSTI_LANES bool every(bool m) { return __all_sync(PSTI_ALL_LANES, m); }

/* Returns a bit mask of the lanes that hold the same value as this lane. */
PSTI_LANES uint32_t same_lanes(uint32_t v) { return __match_any_sync(PSTI_ALL_LANES, v); }

template <class T> PSTI_LANES T select(bool m, T a, T b) { return m ? a : b; }
/* Returns the value that lane number `source` (modulo 32) holds. */
template <class T> PSTI_LANES T shuffle(T v, uint32_t source)
{
    return __shfl_sync(PSTI_ALL_LANES, v, (int)source);
}
/* Returns the value of the lane whose number is lower by d. The first d lanes keep their value. */
template <class T> PSTI_LANES T shift_up(T v, uint32_t d)
{
    return __shfl_up_sync(PSTI_ALL_LANES, v, d);
}
/* Returns the value of the lane whose number is higher by d. The last d lanes keep their value. */
template <class T> PSTI_LANES T shift_down(T v, uint32_t d)
{
    return __shfl_down_sync(PSTI_ALL_LANES, v, d);
}
/* Returns the value of lane number `lane`, the same in all lanes. */
template <class T> PSTI_LANES T lane_of(T v, uint32_t lane)
{
    return __shfl_sync(PSTI_ALL_LANES, v, (int)lane);
}

/* Returns the upper 32 bits of the product. */
PSTI_LANES uint32_t mul_high_u32(uint32_t a, uint32_t b) { return __umulhi(a, b); }
PSTI_LANES uint32_t popc(uint32_t v) { return (uint32_t)__popc(v); }
/* Returns the number of leading zeros; 32 for v = 0. */
PSTI_LANES uint32_t clz(uint32_t v) { return (uint32_t)__clz((int)v); }
/* Returns the index of the lowest set bit. v must not be 0. */
PSTI_LANES uint32_t ctz(uint32_t v) { return (uint32_t)__ffs((int)v) - 1u; }
/* Returns the low 32 bits of (high:low) >> (n & 31). */
PSTI_LANES uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t n)
{
    return __funnelshift_r(low, high, n);
}
/* Returns the low 32 bits of (high:low) >> n; n is at most 32. */
PSTI_LANES uint32_t funnel_right_most(uint32_t low, uint32_t high, uint32_t n)
{
    return __funnelshift_rc(low, high, n);
}
/* Returns the lesser number by one instruction, even if the compiler knows something about a and
 * b. */
PSTI_LANES uint32_t min_u32(uint32_t a, uint32_t b)
{
    uint32_t r;
    asm("min.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
/* Returns four bytes selected from the eight bytes of (b:a), which are numbered from the lowest
 * byte of a. Byte i of the result is the byte whose number is in bits 4i..4i+2 of `which`. If bit
 * 4i+3 is set, each of its bits is that byte's highest bit. */
PSTI_LANES uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t which)
{
    uint32_t r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(which));
    return r;
}
/* Returns c plus the products of the signed bytes of a and b. */
PSTI_LANES int32_t dot4(uint32_t a, uint32_t b, int32_t c) { return __dp4a((int)a, (int)b, c); }
/* Returns c plus the products of the unsigned bytes of a and the signed bytes of b. */
PSTI_LANES int32_t dot4_mixed(uint32_t a, uint32_t b, int32_t c)
{
    int32_t r;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}
/* Returns c plus the products of the unsigned bytes of a and b. */
PSTI_LANES uint32_t dot4_unsigned(uint32_t a, uint32_t b, uint32_t c) { return __dp4a(a, b, c); }
/* These functions return values in one word, clamped to 8 bits (0..255) or to signed 16 bits; a is
 * lowest. */
PSTI_LANES uint32_t pack_u8(int32_t a, int32_t b, int32_t c, int32_t d)
{
    uint32_t high, all;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(high) : "r"(d), "r"(c));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(all) : "r"(b), "r"(a), "r"(high));
    return all;
}
PSTI_LANES uint32_t pack_i16(int32_t a, int32_t b)
{
    uint32_t r;
    asm("cvt.pack.sat.s16.s32 %0, %1, %2;" : "=r"(r) : "r"(b), "r"(a));
    return r;
}
/* Returns v, but hides its value from the compiler. A loop then computes values from it again
 * instead of keeping them in registers. */
PSTI_LANES uint64_t made_anew(uint64_t v)
{
    asm volatile("" : "+l"(v));
    return v;
}
PSTI_LANES int32_t as_i32(uint32_t v) { return (int32_t)v; }
PSTI_LANES uint32_t as_u32(int32_t v) { return (uint32_t)v; }
PSTI_LANES uint32_t as_u32(bool v) { return v; }
PSTI_LANES float to_f32(int32_t v) { return (float)v; }
PSTI_LANES float to_f32(uint32_t v) { return (float)v; }
PSTI_LANES uint32_t bits_of(float v) { return __float_as_uint(v); }
PSTI_LANES float float_of(uint32_t v) { return __uint_as_float(v); }
/* These functions round every result to nearest. The compiler never fuses them. */
PSTI_LANES float add_f32(float a, float b) { return __fadd_rn(a, b); }
PSTI_LANES float sub_f32(float a, float b) { return __fsub_rn(a, b); }
PSTI_LANES float mul_f32(float a, float b) { return __fmul_rn(a, b); }
PSTI_LANES float div_f32(float a, float b) { return __fdiv_rn(a, b); }
PSTI_LANES float sqrt_f32(float v) { return __fsqrt_rn(v); }
PSTI_LANES float floor_f32(float v) { return floorf(v); }
PSTI_LANES double add_f64(double a, double b) { return __dadd_rn(a, b); }
PSTI_LANES double mul_f64(double a, double b) { return __dmul_rn(a, b); }
PSTI_LANES double div_f64(double a, double b) { return __ddiv_rn(a, b); }
/* Returns the square root, rounded to nearest. */
PSTI_LANES double sqrt_f64(double v) { return __dsqrt_rn(v); }
PSTI_LANES double to_f64(uint32_t v) { return (double)v; }
PSTI_LANES double to_f64(int32_t v) { return (double)v; }
PSTI_LANES double to_f64(float v) { return (double)v; }
PSTI_LANES float to_f32(double v) { return __double2float_rn(v); }
/* These functions return the upper and the lower 32 bits of a double, and the double of such
 * bits. */
PSTI_LANES uint32_t high_u32_of(double v) { return (uint32_t)__double2hiint(v); }
PSTI_LANES uint32_t low_u32_of(double v) { return (uint32_t)__double2loint(v); }
PSTI_LANES double f64_of(uint32_t high, uint32_t low)
{
    return __hiloint2double((int)high, (int)low);
}
/* Returns v without its fraction; |v| <= 2^61. */
PSTI_LANES int64_t to_i64(double v) { return (int64_t)v; }
/* Returns v, within 0..2^24, without its fraction. */
PSTI_LANES uint32_t to_u32(float v) { return (uint32_t)v; }
/* These functions return `sum` plus the products of the two i16 in w with the two lower bytes, or
 * with the two upper bytes. */
PSTI_LANES int32_t dot2_low(uint32_t w, uint32_t bytes, int32_t sum)
{
    int32_t r;
    asm("dp2a.lo.s32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(w), "r"(bytes), "r"(sum));
    return r;
}
PSTI_LANES int32_t dot2_high(uint32_t w, uint32_t bytes, int32_t sum)
{
    int32_t r;
    asm("dp2a.hi.s32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(w), "r"(bytes), "r"(sum));
    return r;
}
PSTI_LANES int64_t mul_add_wide(int32_t a, int32_t b, int64_t sum) { return sum + (int64_t)a * b; }
PSTI_LANES uint32_t low_u32(int64_t v) { return (uint32_t)v; }
/* Convert a float to the bits of a half or a bfloat16, rounded to nearest even. */
PSTI_LANES uint32_t f16_bits(float v)
{
    uint16_t r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(v));
    return r;
}
PSTI_LANES uint32_t bf16_bits(float v)
{
    uint32_t bits = __float_as_uint(v);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return (bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded;
}

/* These functions convert two floats that are not NaN to two 16-bit floats in one word, with a in
 * the low half. From compute capability 8.0 on, this is one instruction. */
PSTI_LANES uint32_t f16_pair(float a, float b)
{
#if __CUDA_ARCH__ >= 800
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
    return r;
#else
    return f16_bits(a) | f16_bits(b) << 16;
#endif
}
PSTI_LANES uint32_t bf16_pair(float a, float b)
{
#if __CUDA_ARCH__ >= 800
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
    return r;
#else
    return bf16_bits(a) | bf16_bits(b) << 16;
#endif
}

/* Returns an address in global memory as a pointer. The compiler is told that it is global. */
template <class T> PSTI_LANES T *global_at(uint64_t address)
{
    return static_cast<T *>(
        const_cast<void *>(static_cast<const void *>(__cvta_global_to_generic((size_t)address))));
}

/* load() and store() access shared memory, or global memory through a plain pointer. If m is false,
 * nothing is accessed, and load() returns `otherwise`. */
template <class T> PSTI_LANES wide<T> load(const T *at, uint32_t i) { return at[i]; }
template <class T>
PSTI_LANES wide<T> load(const T *at, uint32_t i, bool m, wide<T> otherwise = wide<T>())
{
    return m ? (wide<T>)at[i] : otherwise;
}
template <class T> PSTI_LANES void store(T *at, uint32_t i, wide<T> v, bool m = true)
{
    if (m)
        at[i] = (T)v;
}
/* These functions load and store elements at an offset in bytes. */
template <class T> PSTI_LANES wide<T> load_at(const uint8_t *at, uint32_t nbytes)
{
    return *reinterpret_cast<const T *>(at + nbytes);
}
template <class T>
PSTI_LANES wide<T> load_at(const uint8_t *at, uint32_t nbytes, bool m,
                           wide<T> otherwise = wide<T>())
{
    return m ? (wide<T>)*reinterpret_cast<const T *>(at + nbytes) : otherwise;
}
template <class T> PSTI_LANES void store_at(uint8_t *at, uint32_t nbytes, wide<T> v, bool m = true)
{
    if (m)
        *reinterpret_cast<T *>(at + nbytes) = (T)v;
}
/* These functions load and store elements of shared memory by their address, which is computed from
 * address_of(). */
PSTI_LANES uint32_t address_of(shared<uint8_t> at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}
template <class T> PSTI_LANES wide<T> load_address(shared<uint8_t>, uint32_t address)
{
    return *static_cast<const T *>(__cvta_shared_to_generic(address));
}
template <class T>
PSTI_LANES void store_address(shared<uint8_t>, uint32_t address, wide<T> v, bool m = true)
{
    if (m)
        *static_cast<T *>(__cvta_shared_to_generic(address)) = (T)v;
}
/* Loads elements i .. i + 3. i is a multiple of 4, and `at` is aligned to 16. */
PSTI_LANES void load4(const uint32_t *at, uint32_t i, uint32_t out[4])
{
    uint4 v = *reinterpret_cast<const uint4 *>(at + i);
    out[0] = v.x;
    out[1] = v.y;
    out[2] = v.z;
    out[3] = v.w;
}
/* Stores elements i and i + 1. i is even, and `at` is aligned to 8. */
PSTI_LANES void store2(uint32_t *at, uint32_t i, uint32_t v0, uint32_t v1, bool m = true)
{
    if (m)
        *reinterpret_cast<uint2 *>(at + i) = make_uint2(v0, v1);
}
/* Loads one element, the same for all lanes. */
template <class T> PSTI_LANES wide<T> load_uniform(const T *at, uint32_t i) { return at[i]; }
/* Stores an element, by the first lane only. */
template <class T> PSTI_LANES void store_uniform(T *at, uint32_t i, wide<T> v)
{
    if (lane_id() == 0)
        at[i] = (T)v;
}
/* Adds v to an element of global or shared memory. Several lanes may add to the same element. */
PSTI_LANES void atomic_add(uint32_t *at, uint32_t i, uint32_t v, bool m)
{
    if (m)
        atomicAdd(at + i, v);
}
PSTI_LANES void atomic_max(uint32_t *at, uint32_t i, uint32_t v, bool m)
{
    if (m)
        atomicMax(at + i, v);
}

/* Stores elements i .. i + 3. i is a multiple of 4, and `at` is aligned to 16. */
PSTI_LANES void store4(uint32_t *at, uint32_t i, uint32_t v0, uint32_t v1, uint32_t v2, uint32_t v3,
                       bool m = true)
{
    if (m)
        *reinterpret_cast<uint4 *>(at + i) = make_uint4(v0, v1, v2, v3);
}
/* Returns the next number of a counter in global memory, from 0 on. All warps share the counter. */
PSTI_LANES uint32_t atomic_next(uint32_t *at)
{
    uint32_t number = 0;
    if (lane_id() == 0)
        number = atomicAdd(at, 1u);
    return lane_of(number, 0);
}

/* Adds a number once for the whole warp, by one lane. */
PSTI_LANES void atomic_add_uniform(uint64_t *at, uint64_t v)
{
    if (lane_id() == 0)
        atomicAdd(reinterpret_cast<unsigned long long *>(at), (unsigned long long)v);
}

/* After this call, each lane can read what other lanes of its warp wrote before it. */
PSTI_LANES void warp_sync() { __syncwarp(); }

template <class Kernel, int phase, class Block, class Args>
PSTI_LANES void run_phases(const Block &b, const Args &args)
{
    Kernel::template run<phase>(b, args);
    if constexpr (phase + 1 < Kernel::n_phases) {
        __syncthreads();
        run_phases<Kernel, phase + 1>(b, args);
    }
}

} // namespace psti

/* Defines kernel `name`. It is launched with n_warps * 32 threads in x. */
#define PSTI_KERNEL(name, Kernel, Args, most_warps, least_blocks)                                  \
    extern "C" __global__ void __launch_bounds__(most_warps * 32, least_blocks)                    \
        name(const __grid_constant__ Args args)                                                    \
    {                                                                                              \
        extern __shared__ __align__(128) unsigned char psti_shared[];                              \
        psti::block b = {blockIdx.x, gridDim.x, threadIdx.x / 32u, blockDim.x / 32u, psti_shared}; \
        psti::run_phases<Kernel, 0>(b, args);                                                      \
    }

#endif
