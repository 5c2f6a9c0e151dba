/* warp_host.cuh - emulates the lanes of a GPU warp on a CPU: values are arrays of 32, and
 * accesses to shared memory are checked.
 *
 * One thread runs a block, warp by warp within each phase. */
#ifndef PST_GPU_WARP_HOST_CUH
#define PST_GPU_WARP_HOST_CUH

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#define PSTI_UNROLL
#define PSTI_LOOP

namespace psti
{

template <class T> struct lanes {
    T v[PSTI_WARP];
    lanes() {}
    lanes(T all)
    {
        for (uint32_t l = 0; l < PSTI_WARP; l++)
            v[l] = all;
    }
#define PSTI_LANES_OP(result, op)                                                                  \
    friend lanes<result> operator op(const lanes &a, const lanes &b)                               \
    {                                                                                              \
        lanes<result> r;                                                                           \
        for (uint32_t l = 0; l < PSTI_WARP; l++)                                                   \
            r.v[l] = (result)(a.v[l] op b.v[l]);                                                   \
        return r;                                                                                  \
    }
    PSTI_LANES_OP(T, +)
    PSTI_LANES_OP(T, -)
    PSTI_LANES_OP(T, *)
    PSTI_LANES_OP(T, /)
    PSTI_LANES_OP(T, %)
    PSTI_LANES_OP(T, &)
    PSTI_LANES_OP(T, |)
    PSTI_LANES_OP(T, ^)
    PSTI_LANES_OP(T, <<)
    PSTI_LANES_OP(T, >>)
    PSTI_LANES_OP(bool, ==)
    PSTI_LANES_OP(bool, !=)
    PSTI_LANES_OP(bool, <)
    PSTI_LANES_OP(bool, <=)
    PSTI_LANES_OP(bool, >)
    PSTI_LANES_OP(bool, >=)
#undef PSTI_LANES_OP
    lanes &operator+=(const lanes &b) { return *this = *this + b; }
    lanes &operator-=(const lanes &b) { return *this = *this - b; }
    lanes &operator*=(const lanes &b) { return *this = *this * b; }
    lanes &operator&=(const lanes &b) { return *this = *this & b; }
    lanes &operator|=(const lanes &b) { return *this = *this | b; }
    lanes &operator^=(const lanes &b) { return *this = *this ^ b; }
    lanes &operator<<=(const lanes &b) { return *this = *this << b; }
    lanes &operator>>=(const lanes &b) { return *this = *this >> b; }
    lanes operator-() const { return lanes((T)0) - *this; }
    lanes operator~() const
    {
        lanes r;
        for (uint32_t l = 0; l < PSTI_WARP; l++)
            r.v[l] = (T)~v[l];
        return r;
    }
    lanes operator!() const
    {
        lanes r;
        for (uint32_t l = 0; l < PSTI_WARP; l++)
            r.v[l] = (T)!v[l];
        return r;
    }
};

/* The last accesses to a byte of shared memory. `order` counts warp_sync()s and changes of warp. */
struct touch {
    uint64_t write_order, read_order;
    uint32_t write_phase, read_phase;
    uint16_t write_warp, read_warp;
    uint8_t write_lane; /* 255: nobody */
    uint8_t read_lane;  /* lane that read; 254: several, 255: none */
};

struct arena {
    std::vector<uint8_t> bytes;
    std::vector<touch> touches;
    uint32_t phase, warp;
    uint64_t order;

    explicit arena(size_t n) : bytes(n + 128), touches(n), phase(0), warp(0), order(1)
    {
        touch none;
        memset(&none, 0, sizeof none);
        none.write_lane = none.read_lane = 255;
        for (size_t i = 0; i < n; i++)
            touches[i] = none;
        memset(bytes.data(), 0xa5, bytes.size()); /* as on a GPU, memory is not cleared */
    }
    uint8_t *base() { return bytes.data() + (128 - (uintptr_t)bytes.data() % 128) % 128; }

    [[noreturn]] void fail(const char *what, size_t at, uint32_t lane) const
    {
        fprintf(stderr, "shared memory: %s at byte %zu of %zu, phase %u, warp %u, lane %u\n", what,
                at, touches.size(), phase, warp, lane);
        abort();
    }
    void check(size_t at, size_t n, uint32_t lane) const
    {
        if (at > touches.size() || n > touches.size() - at)
            fail("access outside", at, lane);
    }
    /* True if the access by (phase, warp, order, lane) is ordered before this lane's access. */
    bool is_ordered(uint32_t phase_then, uint32_t warp_then, uint64_t order_then,
                    uint32_t lane_then, uint32_t lane) const
    {
        return lane_then == 255 || phase_then < phase ||
               (warp_then == warp && (order_then < order || lane_then == lane));
    }
    void read(size_t at, size_t n, uint32_t lane)
    {
        check(at, n, lane);
        for (size_t i = at; i < at + n; i++) {
            touch &t = touches[i];
            if (t.write_lane == 255)
                fail("read of what nobody wrote", i, lane);
            if (!is_ordered(t.write_phase, t.write_warp, t.write_order, t.write_lane, lane))
                fail("read before a barrier", i, lane);
            bool in_phase = t.read_lane != 255 && t.read_phase == phase;
            bool in_warp = in_phase && t.read_warp == warp;
            bool others = in_warp ? t.read_order == order && t.read_lane != lane : in_phase;
            t.read_lane = (uint8_t)(others ? 254 : lane);
            t.read_warp = (uint16_t)(in_phase && !in_warp ? 0xffff : warp);
            t.read_order = order;
            t.read_phase = phase;
        }
    }
    void write(size_t at, size_t n, uint32_t lane, bool atomic)
    {
        check(at, n, lane);
        for (size_t i = at; i < at + n; i++) {
            touch &t = touches[i];
            if (!atomic &&
                !is_ordered(t.write_phase, t.write_warp, t.write_order, t.write_lane, lane))
                fail("written twice without a barrier", i, lane);
            if (!is_ordered(t.read_phase, t.read_warp, t.read_order, t.read_lane, lane))
                fail("written while others read", i, lane);
            t.write_order = order;
            t.write_phase = phase;
            t.write_warp = (uint16_t)warp;
            t.write_lane = (uint8_t)lane;
        }
    }
};

/* The block that this thread runs, which warp_sync() needs. */
inline arena *&running_arena()
{
    static thread_local arena *the_one = nullptr;
    return the_one;
}

template <class T> struct shared {
    arena *owner;
    size_t offset;
    T *at(size_t i) const { return reinterpret_cast<T *>(owner->base() + offset) + i; }
    friend shared operator+(const shared &a, uint32_t n)
    {
        return shared{a.owner, a.offset + (size_t)n * sizeof(T)};
    }
};

template <class T> inline shared<T> shared_cast(const shared<uint8_t> &memory, uint32_t offset)
{
    if ((memory.offset + offset) % sizeof(T))
        memory.owner->fail("not aligned", offset, 0);
    return shared<T>{memory.owner, memory.offset + offset};
}

inline lanes<uint32_t> lane_id()
{
    lanes<uint32_t> r;
    for (uint32_t l = 0; l < PSTI_WARP; l++)
        r.v[l] = l;
    return r;
}
inline uint32_t votes(const lanes<bool> &m)
{
    uint32_t r = 0;
    for (uint32_t l = 0; l < PSTI_WARP; l++)
        r |= (uint32_t)m.v[l] << l;
    return r;
}
inline bool some(const lanes<bool> &m) { return votes(m) != 0; }
inline bool every(const lanes<bool> &m) { return votes(m) == PSTI_ALL_LANES; }

template <class T>
inline lanes<T> select(const lanes<bool> &m, const lanes<T> &a, const lanes<T> &b)
{
    lanes<T> r;
    for (uint32_t l = 0; l < PSTI_WARP; l++)
        r.v[l] = m.v[l] ? a.v[l] : b.v[l];
    return r;
}
template <class T> inline lanes<T> shuffle(const lanes<T> &v, const lanes<uint32_t> &source)
{
    lanes<T> r;
    for (uint32_t l = 0; l < PSTI_WARP; l++)
        r.v[l] = v.v[source.v[l] % PSTI_WARP];
    return r;
}
template <class T> inline lanes<T> shift_up(const lanes<T> &v, uint32_t d)
{
    lanes<T> r;
    for (uint32_t l = 0; l < PSTI_WARP; l++)
        r.v[l] = v.v[l < d ? l : l - d];
    return r;
}
template <class T> inline lanes<T> shift_down(const lanes<T> &v, uint32_t d)
{
    lanes<T> r;
    for (uint32_t l = 0; l < PSTI_WARP; l++)
        r.v[l] = v.v[l + d < PSTI_WARP ? l + d : l];
    return r;
}
template <class T> inline T lane_of(const lanes<T> &v, uint32_t lane) { return v.v[lane % 32]; }

/* Functions of one or two numbers, for scalars and for lanes. */
inline uint32_t popc(uint32_t v) { return (uint32_t)__builtin_popcount(v); }
inline uint32_t clz(uint32_t v) { return v ? (uint32_t)__builtin_clz(v) : 32; }
inline uint32_t ctz(uint32_t v) { return (uint32_t)__builtin_ctz(v); }
inline uint32_t mul_high_u32(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }
inline uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }
inline uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t n)
{
    return (uint32_t)((((uint64_t)high << 32) | low) >> (n & 31));
}
inline uint32_t funnel_right_most(uint32_t low, uint32_t high, uint32_t n)
{
    return (uint32_t)((((uint64_t)high << 32) | low) >> n);
}
inline uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t which)
{
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (uint32_t i = 0; i < 32; i += 8, which >>= 4) {
        uint32_t byte = (uint32_t)(both >> (8 * (which & 7))) & 255;
        r |= (which & 8 ? (byte >> 7) * 255 : byte) << i;
    }
    return r;
}
inline int32_t dot4(uint32_t a, uint32_t b, int32_t c)
{
    for (uint32_t i = 0; i < 32; i += 8)
        c += (int32_t)(int8_t)(a >> i) * (int32_t)(int8_t)(b >> i);
    return c;
}
inline int32_t dot4_mixed(uint32_t a, uint32_t b, int32_t c)
{
    for (uint32_t i = 0; i < 32; i += 8)
        c += (int32_t)(a >> i & 255) * (int32_t)(int8_t)(b >> i);
    return c;
}
inline uint32_t dot4_unsigned(uint32_t a, uint32_t b, uint32_t c)
{
    for (uint32_t i = 0; i < 32; i += 8)
        c += (a >> i & 255) * (b >> i & 255);
    return c;
}
inline int32_t clamp_i32(int32_t v, int32_t lowest, int32_t highest)
{
    return v < lowest ? lowest : v > highest ? highest : v;
}
inline uint32_t pack_u8(int32_t a, int32_t b, int32_t c, int32_t d)
{
    return (uint32_t)clamp_i32(a, 0, 255) | (uint32_t)clamp_i32(b, 0, 255) << 8 |
           (uint32_t)clamp_i32(c, 0, 255) << 16 | (uint32_t)clamp_i32(d, 0, 255) << 24;
}
inline uint32_t pack_i16(int32_t a, int32_t b)
{
    return (uint32_t)(uint16_t)clamp_i32(a, INT16_MIN, INT16_MAX) |
           (uint32_t)clamp_i32(b, INT16_MIN, INT16_MAX) << 16;
}
inline uint64_t made_anew(uint64_t v) { return v; }
inline int32_t as_i32(uint32_t v) { return (int32_t)v; }
inline uint32_t as_u32(int32_t v) { return (uint32_t)v; }
inline float to_f32(int32_t v) { return (float)v; }
inline float to_f32(uint32_t v) { return (float)v; }
inline uint32_t bits_of(float v)
{
    uint32_t r;
    memcpy(&r, &v, sizeof r);
    return r;
}
inline float float_of(uint32_t v)
{
    float r;
    memcpy(&r, &v, sizeof r);
    return r;
}
inline float add_f32(float a, float b) { return a + b; }
inline float sub_f32(float a, float b) { return a - b; }
inline float mul_f32(float a, float b) { return a * b; }
inline float div_f32(float a, float b) { return a / b; }
inline float sqrt_f32(float v) { return __builtin_sqrtf(v); }
inline float floor_f32(float v) { return __builtin_floorf(v); }
inline double add_f64(double a, double b) { return a + b; }
inline double mul_f64(double a, double b) { return a * b; }
inline double div_f64(double a, double b) { return a / b; }
inline double sqrt_f64(double v) { return __builtin_sqrt(v); }
inline double to_f64(uint32_t v) { return (double)v; }
inline double to_f64(int32_t v) { return (double)v; }
inline double to_f64(float v) { return (double)v; }
inline float to_f32(double v) { return (float)v; }
inline uint64_t all_bits_of(double v)
{
    uint64_t r;
    memcpy(&r, &v, sizeof r);
    return r;
}
inline uint32_t high_u32_of(double v) { return (uint32_t)(all_bits_of(v) >> 32); }
inline uint32_t low_u32_of(double v) { return (uint32_t)all_bits_of(v); }
inline double f64_of(uint32_t high, uint32_t low)
{
    uint64_t bits = (uint64_t)high << 32 | low;
    double r;
    memcpy(&r, &bits, sizeof r);
    return r;
}
inline int64_t to_i64(double v) { return (int64_t)v; }
inline uint32_t to_u32(float v) { return (uint32_t)v; }
inline int32_t dot2_low(uint32_t w, uint32_t bytes, int32_t sum)
{
    return sum + (int16_t)w * (int32_t)(bytes & 255) +
           (int16_t)(w >> 16) * (int32_t)(bytes >> 8 & 255);
}
inline int32_t dot2_high(uint32_t w, uint32_t bytes, int32_t sum)
{
    return dot2_low(w, bytes >> 16, sum);
}
inline uint32_t f16_bits(float v)
{
    uint32_t bits = bits_of(v), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return 0x7fff; /* a GPU's result for NaNs */
    if (magnitude >= 0x47800000)
        return sign | 0x7c00;
    if (magnitude < 0x38800000) /* below 2^-14: adding 0.5 makes the last bit 2^-24 */
        return sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3f000000);
    return sign | (magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13;
}
inline uint32_t bf16_bits(float v)
{
    uint32_t bits = bits_of(v);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return bits >> 16 | 0x40;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline uint32_t f16_pair(float a, float b) { return f16_bits(a) | f16_bits(b) << 16; }
inline uint32_t bf16_pair(float a, float b) { return bf16_bits(a) | bf16_bits(b) << 16; }

#define PSTI_LANES_1(result, name, T)                                                              \
    inline lanes<result> name(const lanes<T> &v)                                                   \
    {                                                                                              \
        lanes<result> r;                                                                           \
        for (uint32_t l = 0; l < PSTI_WARP; l++)                                                   \
            r.v[l] = name(v.v[l]);                                                                 \
        return r;                                                                                  \
    }
#define PSTI_LANES_2(result, name, T)                                                              \
    inline lanes<result> name(const lanes<T> &a, const lanes<T> &b)                                \
    {                                                                                              \
        lanes<result> r;                                                                           \
        for (uint32_t l = 0; l < PSTI_WARP; l++)                                                   \
            r.v[l] = name(a.v[l], b.v[l]);                                                         \
        return r;                                                                                  \
    }
#define PSTI_LANES_3(result, name, T, last)                                                        \
    inline lanes<result> name(const lanes<T> &a, const lanes<T> &b, const lanes<last> &c)          \
    {                                                                                              \
        lanes<result> r;                                                                           \
        for (uint32_t l = 0; l < PSTI_WARP; l++)                                                   \
            r.v[l] = name(a.v[l], b.v[l], c.v[l]);                                                 \
        return r;                                                                                  \
    }
PSTI_LANES_1(uint32_t, popc, uint32_t)
PSTI_LANES_1(uint32_t, clz, uint32_t)
PSTI_LANES_1(int32_t, as_i32, uint32_t)
PSTI_LANES_1(uint32_t, as_u32, int32_t)
PSTI_LANES_1(float, to_f32, int32_t)
PSTI_LANES_1(float, to_f32, uint32_t)
PSTI_LANES_1(uint32_t, bits_of, float)
PSTI_LANES_1(float, sqrt_f32, float)
PSTI_LANES_1(float, floor_f32, float)
PSTI_LANES_1(uint32_t, to_u32, float)
PSTI_LANES_1(uint32_t, f16_bits, float)
PSTI_LANES_1(uint32_t, bf16_bits, float)
PSTI_LANES_1(float, float_of, uint32_t)
PSTI_LANES_2(uint32_t, min_u32, uint32_t)
PSTI_LANES_2(uint32_t, f16_pair, float)
PSTI_LANES_2(uint32_t, bf16_pair, float)
PSTI_LANES_2(float, add_f32, float)
PSTI_LANES_2(float, sub_f32, float)
PSTI_LANES_2(float, mul_f32, float)
PSTI_LANES_2(float, div_f32, float)
PSTI_LANES_2(uint32_t, mul_high_u32, uint32_t)
PSTI_LANES_1(double, sqrt_f64, double)
PSTI_LANES_1(double, to_f64, uint32_t)
PSTI_LANES_1(double, to_f64, int32_t)
PSTI_LANES_1(double, to_f64, float)
PSTI_LANES_1(float, to_f32, double)
PSTI_LANES_1(uint32_t, high_u32_of, double)
PSTI_LANES_1(uint32_t, low_u32_of, double)
PSTI_LANES_2(double, f64_of, uint32_t)
PSTI_LANES_1(int64_t, to_i64, double)
PSTI_LANES_2(double, add_f64, double)
PSTI_LANES_2(double, mul_f64, double)
PSTI_LANES_2(double, div_f64, double)
PSTI_LANES_2(uint32_t, pack_i16, int32_t)
PSTI_LANES_3(int32_t, dot2_low, uint32_t, int32_t)
PSTI_LANES_3(int32_t, dot2_high, uint32_t, int32_t)
PSTI_LANES_3(uint32_t, funnel_right, uint32_t, uint32_t)
PSTI_LANES_3(uint32_t, funnel_right_most, uint32_t, uint32_t)
PSTI_LANES_3(uint32_t, pick_bytes, uint32_t, uint32_t)
PSTI_LANES_3(int32_t, dot4, uint32_t, int32_t)
PSTI_LANES_3(int32_t, dot4_mixed, uint32_t, int32_t)
PSTI_LANES_3(uint32_t, dot4_unsigned, uint32_t, uint32_t)
#undef PSTI_LANES_1
#undef PSTI_LANES_2
#undef PSTI_LANES_3
inline lanes<uint32_t> as_u32(const lanes<bool> &m)
{
    lanes<uint32_t> r;
    for (uint32_t l = 0; l < PSTI_WARP; l++)
        r.v[l] = m.v[l];
    return r;
}
inline lanes<int64_t> mul_add_wide(const lanes<int32_t> &a, const lanes<int32_t> &b,
                                   const lanes<int64_t> &sum)
{
    lanes<int64_t> r;
    for (uint32_t l = 0; l < PSTI_WARP; l++)
        r.v[l] = sum.v[l] + (int64_t)a.v[l] * b.v[l];
    return r;
}
inline lanes<uint32_t> low_u32(const lanes<int64_t> &v)
{
    lanes<uint32_t> r;
    for (uint32_t l = 0; l < PSTI_WARP; l++)
        r.v[l] = (uint32_t)v.v[l];
    return r;
}
inline lanes<uint32_t> ctz(const lanes<uint32_t> &v) /* undefined for lanes that are 0 */
{
    lanes<uint32_t> r;
    for (uint32_t l = 0; l < PSTI_WARP; l++)
        r.v[l] = v.v[l] ? ctz(v.v[l]) : 32;
    return r;
}

inline lanes<uint32_t> pack_u8(const lanes<int32_t> &a, const lanes<int32_t> &b,
                               const lanes<int32_t> &c, const lanes<int32_t> &d)
{
    lanes<uint32_t> r;
    for (uint32_t l = 0; l < PSTI_WARP; l++)
        r.v[l] = pack_u8(a.v[l], b.v[l], c.v[l], d.v[l]);
    return r;
}
inline lanes<uint32_t> same_lanes(const lanes<uint32_t> &v)
{
    lanes<uint32_t> r(0u);
    for (uint32_t l = 0; l < PSTI_WARP; l++)
        for (uint32_t other = 0; other < PSTI_WARP; other++)
            r.v[l] |= (uint32_t)(v.v[other] == v.v[l]) << other;
    return r;
}

template <class T> inline T *global_at(uint64_t address) { return reinterpret_cast<T *>(address); }

template <class T>
inline lanes<wide<T>> load(const T *at, const lanes<uint32_t> &i,
                           const lanes<bool> &m = lanes<bool>(true), wide<T> otherwise = wide<T>())
{
    lanes<wide<T>> r;
    for (uint32_t l = 0; l < PSTI_WARP; l++)
        r.v[l] = m.v[l] ? (wide<T>)at[i.v[l]] : otherwise;
    return r;
}
template <class T>
inline lanes<wide<T>> load(const shared<T> &at, const lanes<uint32_t> &i,
                           const lanes<bool> &m = lanes<bool>(true), wide<T> otherwise = wide<T>())
{
    lanes<wide<T>> r;
    for (uint32_t l = 0; l < PSTI_WARP; l++) {
        if (m.v[l])
            at.owner->read(at.offset + (size_t)i.v[l] * sizeof(T), sizeof(T), l);
        r.v[l] = m.v[l] ? (wide<T>)*at.at(i.v[l]) : otherwise;
    }
    return r;
}
template <class T>
inline void store(T *at, const lanes<uint32_t> &i, const lanes<wide<T>> &v,
                  const lanes<bool> &m = lanes<bool>(true))
{
    for (uint32_t l = 0; l < PSTI_WARP; l++)
        if (m.v[l])
            at[i.v[l]] = (T)v.v[l];
}
template <class T>
inline void store(const shared<T> &at, const lanes<uint32_t> &i, const lanes<wide<T>> &v,
                  const lanes<bool> &m = lanes<bool>(true))
{
    for (uint32_t l = 0; l < PSTI_WARP; l++) {
        if (!m.v[l])
            continue;
        at.owner->write(at.offset + (size_t)i.v[l] * sizeof(T), sizeof(T), l, false);
        *at.at(i.v[l]) = (T)v.v[l];
    }
}
inline void load4(const uint32_t *at, const lanes<uint32_t> &i, lanes<uint32_t> out[4])
{
    for (uint32_t l = 0; l < PSTI_WARP; l++) {
        if ((uintptr_t)(at + i.v[l]) % 16)
            abort();
        for (uint32_t j = 0; j < 4; j++)
            out[j].v[l] = at[i.v[l] + j];
    }
}
inline void load4(const shared<uint32_t> &at, const lanes<uint32_t> &i, lanes<uint32_t> out[4])
{
    for (uint32_t l = 0; l < PSTI_WARP; l++) {
        if ((at.offset + (size_t)i.v[l] * 4) % 16)
            at.owner->fail("four elements not aligned", at.offset + (size_t)i.v[l] * 4, l);
        at.owner->read(at.offset + (size_t)i.v[l] * 4, 16, l);
        for (uint32_t j = 0; j < 4; j++)
            out[j].v[l] = *at.at(i.v[l] + j);
    }
}
inline void store2(uint32_t *at, const lanes<uint32_t> &i, const lanes<uint32_t> &v0,
                   const lanes<uint32_t> &v1, const lanes<bool> &m = lanes<bool>(true))
{
    for (uint32_t l = 0; l < PSTI_WARP; l++) {
        if (!m.v[l])
            continue;
        if ((uintptr_t)(at + i.v[l]) % 8)
            abort();
        at[i.v[l]] = v0.v[l];
        at[i.v[l] + 1] = v1.v[l];
    }
}
/* Accesses elements by their offset in bytes. */
template <class T>
inline lanes<wide<T>> load_at(const shared<uint8_t> &at, const lanes<uint32_t> &nbytes,
                              const lanes<bool> &m = lanes<bool>(true),
                              const lanes<wide<T>> &otherwise = lanes<wide<T>>(wide<T>()))
{
    lanes<wide<T>> r = otherwise;
    for (uint32_t l = 0; l < PSTI_WARP; l++) {
        if (!m.v[l])
            continue;
        shared<T> own = shared_cast<T>(at, nbytes.v[l]);
        own.owner->read(own.offset, sizeof(T), l);
        r.v[l] = *own.at(0);
    }
    return r;
}
inline uint32_t address_of(const shared<uint8_t> &) { return 0; }
template <class T>
inline lanes<wide<T>> load_address(const shared<uint8_t> &at, const lanes<uint32_t> &address)
{
    return load_at<T>(at, address);
}
template <class T>
inline void store_at(const shared<uint8_t> &at, const lanes<uint32_t> &nbytes,
                     const lanes<wide<T>> &v, const lanes<bool> &m = lanes<bool>(true))
{
    for (uint32_t l = 0; l < PSTI_WARP; l++) {
        if (!m.v[l])
            continue;
        shared<T> own = shared_cast<T>(at, nbytes.v[l]);
        own.owner->write(own.offset, sizeof(T), l, false);
        *own.at(0) = (T)v.v[l];
    }
}
template <class T>
inline void store_address(const shared<uint8_t> &at, const lanes<uint32_t> &address,
                          const lanes<wide<T>> &v, const lanes<bool> &m = lanes<bool>(true))
{
    store_at<T>(at, address, v, m);
}
template <class T> inline wide<T> load_uniform(const T *at, uint32_t i) { return at[i]; }
template <class T> inline wide<T> load_uniform(const shared<T> &at, uint32_t i)
{
    for (uint32_t l = 0; l < PSTI_WARP; l++)
        at.owner->read(at.offset + (size_t)i * sizeof(T), sizeof(T), l);
    return *at.at(i);
}
template <class T> inline void store_uniform(T *at, uint32_t i, wide<T> v) { at[i] = (T)v; }
template <class T> inline void store_uniform(const shared<T> &at, uint32_t i, wide<T> v)
{
    at.owner->write(at.offset + (size_t)i * sizeof(T), sizeof(T), 0, false);
    *at.at(i) = (T)v;
}

/* Blocks may run in different threads, so additions to global memory are atomic. */
inline void atomic_add(uint32_t *at, const lanes<uint32_t> &i, const lanes<uint32_t> &v,
                       const lanes<bool> &m)
{
    for (uint32_t l = 0; l < PSTI_WARP; l++)
        if (m.v[l])
            __atomic_fetch_add(at + i.v[l], v.v[l], __ATOMIC_RELAXED);
}
inline void atomic_add(const shared<uint32_t> &at, const lanes<uint32_t> &i,
                       const lanes<uint32_t> &v, const lanes<bool> &m)
{
    for (uint32_t l = 0; l < PSTI_WARP; l++) {
        if (!m.v[l])
            continue;
        at.owner->write(at.offset + (size_t)i.v[l] * 4, 4, l, true);
        *at.at(i.v[l]) += v.v[l];
    }
}
inline void atomic_max(uint32_t *at, const lanes<uint32_t> &i, const lanes<uint32_t> &v,
                       const lanes<bool> &m)
{
    for (uint32_t l = 0; l < PSTI_WARP; l++) {
        if (!m.v[l])
            continue;
        uint32_t was = __atomic_load_n(at + i.v[l], __ATOMIC_RELAXED);
        while (was < v.v[l] && !__atomic_compare_exchange_n(at + i.v[l], &was, v.v[l], true,
                                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
    }
}

inline void store4(uint32_t *at, const lanes<uint32_t> &i, const lanes<uint32_t> &v0,
                   const lanes<uint32_t> &v1, const lanes<uint32_t> &v2, const lanes<uint32_t> &v3,
                   const lanes<bool> &m = lanes<bool>(true))
{
    for (uint32_t l = 0; l < PSTI_WARP; l++) {
        if (!m.v[l])
            continue;
        if ((uintptr_t)(at + i.v[l]) % 16)
            abort();
        at[i.v[l]] = v0.v[l];
        at[i.v[l] + 1] = v1.v[l];
        at[i.v[l] + 2] = v2.v[l];
        at[i.v[l] + 3] = v3.v[l];
    }
}
inline void store2(const shared<uint32_t> &at, const lanes<uint32_t> &i, const lanes<uint32_t> &v0,
                   const lanes<uint32_t> &v1, const lanes<bool> &m = lanes<bool>(true))
{
    for (uint32_t l = 0; l < PSTI_WARP; l++) {
        if (!m.v[l])
            continue;
        if ((at.offset + (size_t)i.v[l] * 4) % 8)
            at.owner->fail("two elements not aligned", at.offset + (size_t)i.v[l] * 4, l);
        at.owner->write(at.offset + (size_t)i.v[l] * 4, 8, l, false);
        *at.at(i.v[l]) = v0.v[l];
        *at.at(i.v[l] + 1) = v1.v[l];
    }
}
inline uint32_t atomic_next(uint32_t *at) { return __atomic_fetch_add(at, 1u, __ATOMIC_RELAXED); }

inline void atomic_add_uniform(uint64_t *at, uint64_t v)
{
    __atomic_fetch_add(at, v, __ATOMIC_RELAXED);
}

inline void warp_sync() { running_arena()->order++; }

template <class Kernel, int phase, class Block, class Args>
inline void run_phases(Block &b, arena &memory, const Args &args)
{
    memory.phase = phase;
    for (b.warp = 0; b.warp < b.n_warps; b.warp++) {
        memory.warp = b.warp;
        memory.order++;
        Kernel::template run<phase>(b, args);
    }
    if constexpr (phase + 1 < Kernel::n_phases)
        run_phases<Kernel, phase + 1>(b, memory, args);
}

template <class Kernel, class Block, class Args>
inline void run_grid(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes, const Args &args)
{
    for (uint32_t i = 0; i < n_blocks; i++) {
        arena memory(shared_nbytes);
        running_arena() = &memory;
        Block b = {i, n_blocks, 0, n_warps, {&memory, (size_t)0}};
        run_phases<Kernel, 0>(b, memory, args);
        running_arena() = nullptr;
    }
}

} // namespace psti

/* Defines the CPU's function for the kernel `name`: it runs all blocks of a launch, one after
 * another. */
#define PSTI_KERNEL(name, Kernel, Args, most_warps, least_blocks)                                  \
    extern "C" void name(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes,              \
                         const void *args);                                                        \
    extern "C" void name(uint32_t n_blocks, uint32_t n_warps, uint32_t shared_nbytes,              \
                         const void *args)                                                         \
    {                                                                                              \
        psti::run_grid<Kernel, psti::block, Args>(n_blocks, n_warps, shared_nbytes,                \
                                                  *static_cast<const Args *>(args));               \
    }

#endif
