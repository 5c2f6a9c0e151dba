/* ptx_run.c - runs the blocks of a launch: see ptx.h.
 *
 * A register is 64 bits, of which those above its own size are 0. Constants follow a lane's
 * registers, so that all operands are read alike. */
#include "kernels/ptx/ptx.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 32, FIRST_PAGE = 65536 };
enum { TID, NTID, CTAID, NCTAID };
#define MOST_STEPS ((uint64_t)1 << 36) /* by a lane between two collective instructions */

struct lane {
    uint64_t *regs;
    uint32_t at; /* instruction */
    bool ended;
};

struct block {
    const struct ptx_kernel *kernel;
    const unsigned char *args;
    unsigned char *shared;
    uint32_t shared_nbytes, index, n_threads, turn;
    struct lane *lanes;
};

static _Noreturn void fail(const struct block *b, const struct ptx_instr *i, const char *what)
{
    size_t k = (size_t)(i - b->kernel->code);
    ptx_fail("%s, block %u, line %u: %s: %s", b->kernel->name, b->index, b->kernel->lines[k], what,
             b->kernel->texts[k]);
}

/* -- Values -- */

static inline uint64_t cut(uint64_t v, uint32_t bits) { return v & (UINT64_MAX >> (64 - bits)); }

static inline int64_t sign_extend(uint64_t v, uint32_t bits)
{
    return (int64_t)(v << (64 - bits)) >> (64 - bits);
}

static inline float to_float(uint64_t v)
{
    uint32_t bits = (uint32_t)v;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static inline uint64_t from_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

static double to_double(uint64_t v)
{
    double d;
    memcpy(&d, &v, 8);
    return d;
}

static uint64_t from_double(double d)
{
    uint64_t v;
    memcpy(&v, &d, 8);
    return v;
}

/* -- Instructions of one lane -- */

static bool is_below(const struct ptx_instr *i, uint64_t x, uint64_t y)
{
    return i->type.kind == 's' ? sign_extend(x, i->type.bits) < sign_extend(y, i->type.bits)
                               : x < y;
}

static uint64_t shift_right(const struct ptx_instr *i, uint64_t x, uint64_t n)
{
    uint32_t most = i->type.bits - 1u;
    if (i->type.kind == 's')
        return (uint64_t)(sign_extend(x, i->type.bits) >> (n > most ? most : n));
    return n > most ? 0 : x >> n;
}

static uint64_t divide(const struct block *b, const struct ptx_instr *i, uint64_t x, uint64_t y)
{
    bool rest = i->op == PTX_REM;
    int64_t sx = sign_extend(x, i->type.bits), sy = sign_extend(y, i->type.bits);
    if (y == 0 || (i->type.kind == 's' && sy == -1))
        fail(b, i, "division by 0 or -1");
    if (i->type.kind == 's')
        return (uint64_t)(rest ? sx % sy : sx / sy);
    return rest ? x % y : x / y;
}

static uint64_t reverse_bits(uint64_t x)
{
    uint64_t v = 0;
    for (int k = 0; k < 32; k++)
        v |= (x >> k & 1) << (31 - k);
    return v;
}

static uint64_t pick_bytes(uint64_t x, uint64_t y, uint64_t which)
{
    uint64_t bytes = (uint32_t)x | y << 32, out = 0;
    for (int k = 0; k < 4; k++) {
        uint64_t byte = bytes >> (8 * (which >> (4 * k) & 7)) & 255;
        if (which >> (4 * k) & 8)
            byte = byte & 128 ? 255 : 0;
        out |= byte << (8 * k);
    }
    return out;
}

static int64_t part(uint64_t v, uint32_t k, uint32_t bits, const struct ptx_type *type)
{
    uint64_t field = cut(v >> (k * bits), bits);
    return type->kind == 's' ? sign_extend(field, bits) : (int64_t)field;
}

/* c plus products: a's bytes (dp4a) or halves (dp2a) times b's bytes, or two of them. */
static uint64_t dot(const struct ptx_instr *i, uint64_t x, uint64_t y, uint64_t sum)
{
    bool four = i->op == PTX_DP4A;
    uint32_t first = i->op == PTX_DP2A_HI ? 2 : 0;
    for (uint32_t k = 0; k < (four ? 4u : 2u); k++)
        sum += (uint64_t)(part(x, k, four ? 8 : 16, &i->type) * part(y, first + k, 8, &i->second));
    return sum;
}

/* x's lowest `length` bits into y from `at` on. */
static uint64_t insert_bits(uint64_t x, uint64_t y, uint64_t at, uint64_t length)
{
    at &= 255;
    length &= 255;
    if (at >= 32 || length == 0)
        return y;
    uint64_t mask = cut(UINT64_MAX, length >= 32 ? 32 : (uint32_t)length) << at;
    return (y & ~mask) | (x << at & mask);
}

static uint64_t clamp_to(int64_t v, const struct ptx_type *type)
{
    int64_t least = type->kind == 's' ? -((int64_t)1 << (type->bits - 1)) : 0;
    int64_t most = least + ((int64_t)1 << type->bits) - 1;
    return cut((uint64_t)(v < least ? least : v > most ? most : v), type->bits);
}

/* Rounded to nearest even; the NaN of PTX has all bits but the sign. */
static uint64_t half_of(const struct ptx_type *type, uint64_t v)
{
    uint32_t bits = (uint32_t)v, sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000)
        return 0x7fff;
    if (type->bfloat)
        return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    if (size >= 0x477ff000) /* 65520 and above round to more than the largest half */
        return sign | 0x7c00;
    if (size < 0x38800000) /* below 2^-14: in units of 2^-24 */
        return sign | (uint32_t)rintf(to_float(size) * 16777216.0f);
    return sign | (((size + 0xfff + (size >> 13 & 1)) >> 13) - (112 << 10));
}

static uint64_t convert(const struct block *b, const struct ptx_instr *i, uint64_t v)
{
    const struct ptx_type to = i->type, from = i->second;
    v = cut(v, from.bits);
    if (from.kind == 'f' && to.kind == 'f') {
        if (i->op == PTX_CVT_FLOOR && from.bits == 32 && to.bits == 32)
            return from_float(floorf(to_float(v)));
        if (from.bits == 64 && to.bits == 32)
            return from_float((float)to_double(v));
        if (from.bits == 32 && to.bits == 16)
            return half_of(&to, v);
    } else if (from.kind == 'f') {
        float f = to_float(v);
        if (i->op == PTX_CVT_DOWN && from.bits == 32 && to.kind == 'u' && to.bits == 32)
            return f > 0 ? f < 4294967296.0f ? (uint32_t)f : UINT32_MAX : 0;
        double d = to_double(v);
        if (i->op == PTX_CVT_DOWN && from.bits == 64 && to.kind == 's' && to.bits == 64 &&
            fabs(d) < 0x1p63)
            return (uint64_t)(int64_t)d;
    } else if (to.kind == 'f' && i->op == PTX_CVT) {
        int64_t s = sign_extend(v, from.bits);
        if (to.bits == 32 && from.bits <= 32)
            return from_float(from.kind == 's' ? (float)s : (float)v);
        if (to.bits == 64)
            return from_double(from.kind == 's' ? (double)s : (double)v);
    } else if (i->op == PTX_CVT) {
        return from.kind == 's' ? (uint64_t)sign_extend(v, from.bits) : v;
    }
    fail(b, i, "conversion");
}

static uint64_t pack(const struct ptx_instr *i, const uint64_t *regs)
{
    uint32_t bits = i->type.bits / i->n;
    uint64_t v = 0;
    for (uint32_t k = 0; k < i->n; k++)
        v |= cut(regs[i->o[1 + k]], bits) << (k * bits);
    return v;
}

/* A float or a double; both compare alike. */
static double number(const struct ptx_instr *i, uint64_t v)
{
    return i->type.bits == 64 ? to_double(v) : (double)to_float(v);
}

/* Rare instructions, of floats and of bits. */
static uint64_t seldom(const struct block *b, const struct ptx_instr *i, const uint64_t *regs)
{
    uint64_t x = regs[i->o[1]], y = regs[i->o[2]];
    switch (i->op) {
    case PTX_PACK:
        return pack(i, regs);
    case PTX_MUL_HI:
        if (i->type.bits != 32 || i->type.kind == 's')
            fail(b, i, "type");
        return cut(x, 32) * cut(y, 32) >> 32;
    case PTX_ABS:
        return sign_extend(x, i->type.bits) < 0 ? 0 - x : x;
    case PTX_DIV:
    case PTX_REM:
        return divide(b, i, cut(x, i->type.bits), cut(y, i->type.bits));
    case PTX_BFI:
        return insert_bits(x, y, regs[i->o[3]], regs[i->o[4]]);
    case PTX_BFIND_SHIFT: /* unsigned numbers of 32 bits */
        return x ? (uint64_t)__builtin_clzll(x) - 32 : UINT32_MAX;
    case PTX_CLZ:
        return x ? (uint64_t)__builtin_clzll(x) - (64u - i->type.bits) : i->type.bits;
    case PTX_BREV:
        return reverse_bits(x);
    case PTX_CVT_PACK:
        return clamp_to(sign_extend(y, 32), &i->type) |
               clamp_to(sign_extend(x, 32), &i->type) << i->type.bits |
               (i->type.bits == 8 ? regs[i->o[3]] << 16 : 0);
    case PTX_DIV_F32:
        return from_float(to_float(x) / to_float(y));
    case PTX_DIV_F64:
        return from_double(to_double(x) / to_double(y));
    case PTX_RCP_F32:
        return from_float(1.0f / to_float(x));
    case PTX_ADD_F64:
        return from_double(to_double(x) + to_double(y));
    case PTX_SUB_F64:
        return from_double(to_double(x) - to_double(y));
    case PTX_MUL_F64:
        return from_double(to_double(x) * to_double(y));
    case PTX_NEG_F64:
        return from_double(-to_double(x));
    case PTX_MIN_F64:
        return from_double(fmin(to_double(x), to_double(y)));
    case PTX_MAX_F64:
        return from_double(fmax(to_double(x), to_double(y)));
    case PTX_SETP_EQ_FLOAT:
        return number(i, x) == number(i, y);
    case PTX_SETP_NEU_FLOAT:
        return number(i, x) != number(i, y);
    case PTX_SETP_LT_FLOAT:
        return number(i, x) < number(i, y);
    case PTX_SETP_LE_FLOAT:
        return number(i, x) <= number(i, y);
    case PTX_SETP_GT_FLOAT:
        return number(i, x) > number(i, y);
    case PTX_SETP_GE_FLOAT:
        return number(i, x) >= number(i, y);
    case PTX_SETP_GTU_FLOAT:
        return !(number(i, x) <= number(i, y));
    default:
        fail(b, i, "not done here");
    }
}

/* Result for the first operand, to be cut to that register's size. */
static inline __attribute__((always_inline)) uint64_t result_of(const struct block *b,
                                                                const struct ptx_instr *i,
                                                                const uint64_t *regs)
{
    const uint32_t bits = i->type.bits;
    const uint64_t x = regs[i->o[1]], y = regs[i->o[2]];
    switch (i->op) {
    case PTX_MOV:
    case PTX_CVTA:
        return x;
    case PTX_ADD:
        return x + y;
    case PTX_SUB:
        return x - y;
    case PTX_MUL:
        return x * y;
    case PTX_MUL_WIDE:
        if (i->type.kind == 's')
            return (uint64_t)(sign_extend(x, bits) * sign_extend(y, bits));
        return cut(x, bits) * cut(y, bits);
    case PTX_MAD:
        return x * y + regs[i->o[3]];
    case PTX_NEG:
        return 0 - x;
    case PTX_NOT:
        return ~x;
    case PTX_AND:
        return x & y;
    case PTX_OR:
        return x | y;
    case PTX_XOR:
        return x ^ y;
    case PTX_SHL: /* shift counts have 32 bits, whatever they shift */
        return (uint32_t)y >= bits ? 0 : x << (uint32_t)y;
    case PTX_SHR:
        return shift_right(i, cut(x, bits), (uint32_t)y);
    case PTX_SHF_R:
        return (cut(x, 32) | y << 32) >> (regs[i->o[3]] & 31);
    case PTX_SHF_R_CLAMP: {
        uint64_t n = cut(regs[i->o[3]], 32);
        return (cut(x, 32) | y << 32) >> (n < 32 ? n : 32);
    }
    case PTX_PRMT:
        return pick_bytes(x, y, regs[i->o[3]]);
    case PTX_POPC:
        return (uint64_t)__builtin_popcountll(cut(x, bits));
    case PTX_DP2A_LO:
    case PTX_DP2A_HI:
    case PTX_DP4A:
        return dot(i, x, y, regs[i->o[3]]);
    case PTX_SELP:
        return regs[i->o[3]] & 1 ? x : y;
    case PTX_MIN:
        return is_below(i, cut(x, bits), cut(y, bits)) ? x : y;
    case PTX_MAX:
        return is_below(i, cut(x, bits), cut(y, bits)) ? y : x;
    case PTX_SETP_EQ:
        return cut(x, bits) == cut(y, bits);
    case PTX_SETP_NE:
        return cut(x, bits) != cut(y, bits);
    case PTX_SETP_LT:
        return is_below(i, cut(x, bits), cut(y, bits));
    case PTX_SETP_LE:
        return !is_below(i, cut(y, bits), cut(x, bits));
    case PTX_SETP_GT:
        return is_below(i, cut(y, bits), cut(x, bits));
    case PTX_SETP_GE:
        return !is_below(i, cut(x, bits), cut(y, bits));
    case PTX_ADD_F32:
        return from_float(to_float(x) + to_float(y));
    case PTX_SUB_F32:
        return from_float(to_float(x) - to_float(y));
    case PTX_MUL_F32:
        return from_float(to_float(x) * to_float(y));
    case PTX_NEG_F32:
        return from_float(-to_float(x));
    case PTX_CVT:
    case PTX_CVT_DOWN:
    case PTX_CVT_FLOOR:
        if (i->type.pair)
            return half_of(&i->type, x) << 16 | half_of(&i->type, y);
        return convert(b, i, x);
    default:
        return seldom(b, i, regs);
    }
}

/* -- Memory -- */

static unsigned char *find(const struct block *b, const struct ptx_instr *i, uint64_t address,
                           uint32_t nbytes)
{
    if ((address & (nbytes - 1)) != 0)
        fail(b, i, "the address is not aligned");
    if (i->space == PTX_SHARED) {
        if (address + nbytes > b->shared_nbytes)
            fail(b, i, "beyond the block's shared memory");
        return b->shared + address;
    }
    if (address < FIRST_PAGE)
        fail(b, i, "near address 0");
    return (unsigned char *)(uintptr_t)address;
}

static const unsigned char *find_param(const struct block *b, const struct ptx_instr *i,
                                       uint64_t address, uint32_t nbytes)
{
    if (address % nbytes != 0 || address + nbytes > b->kernel->param_nbytes)
        fail(b, i, "parameters");
    return b->args + address;
}

static uint64_t address_of(const struct ptx_instr *i, const uint64_t *regs)
{
    uint64_t address = regs[i->o[4]] + (uint64_t)(int64_t)i->offset;
    return i->space == PTX_SHARED ? (uint32_t)address : address;
}

static inline uint64_t load(const unsigned char *from, uint32_t nbytes)
{
    uint64_t v = 0;
    switch (nbytes) {
    case 1:
        return *from;
    case 2:
        memcpy(&v, from, 2);
        return v;
    case 4:
        memcpy(&v, from, 4);
        return v;
    default:
        memcpy(&v, from, 8);
        return v;
    }
}

static void run_load(const struct block *b, const struct ptx_instr *i, uint64_t *regs)
{
    uint32_t nbytes = i->type.bits / 8u;
    uint64_t address = address_of(i, regs);
    const unsigned char *from = i->space == PTX_PARAM ? find_param(b, i, address, nbytes * i->n)
                                                      : find(b, i, address, nbytes * i->n);
    for (uint32_t k = 0; k < i->n; k++) {
        uint64_t v = load(from + k * nbytes, nbytes);
        if (i->type.kind == 's')
            v = cut((uint64_t)sign_extend(v, i->type.bits), i->to_bits);
        regs[i->o[k]] = v;
    }
}

static void run_store(const struct block *b, const struct ptx_instr *i, const uint64_t *regs)
{
    uint32_t nbytes = i->type.bits / 8u;
    unsigned char *to = find(b, i, address_of(i, regs), nbytes * i->n);
    for (uint32_t k = 0; k < i->n; k++)
        memcpy(to + k * nbytes, &regs[i->o[k]], nbytes);
}

static void run_atomic(const struct block *b, const struct ptx_instr *i, uint64_t *regs)
{
    uint32_t nbytes = i->type.bits / 8u;
    uint64_t v = cut(regs[i->o[2]], i->type.bits), now;
    unsigned char *at = find(b, i, address_of(i, regs), nbytes);
    uint64_t before = load(at, nbytes);
    if (i->type.kind != 'u')
        fail(b, i, "type");
    now = i->op == PTX_ATOM_ADD ? before + v : before > v ? before : v;
    memcpy(at, &now, nbytes);
    regs[i->o[0]] = before;
}

/* -- A lane -- */

/* Runs a lane to the next instruction at which lanes meet, or to its end. */
static void run_lane(const struct block *b, struct lane *lane)
{
    const struct ptx_instr *code = b->kernel->code, *i = code + lane->at;
    const struct ptx_instr *const behind = code + b->kernel->n_code;
    uint64_t *const regs = lane->regs;
    for (uint64_t steps = 0; steps < MOST_STEPS; steps++, i++) {
        if (i == behind)
            ptx_fail("%s: no end", b->kernel->name);
        if (i->guard != PTX_NONE && (regs[i->guard] & 1) == i->guard_inverted)
            continue;
        switch (i->op) {
        case PTX_BRA:
            i = code + i->target - 1;
            break;
        case PTX_LD:
            run_load(b, i, regs);
            break;
        case PTX_ST:
            run_store(b, i, regs);
            break;
        case PTX_ATOM_ADD:
        case PTX_ATOM_MAX:
            run_atomic(b, i, regs);
            break;
        default:
            if (i->op >= PTX_RET) {
                lane->at = (uint32_t)(i - code);
                lane->ended = i->op == PTX_RET;
                return;
            }
            regs[i->o[0]] = cut(result_of(b, i, regs), i->to_bits);
        }
    }
    ptx_fail("%s, block %u: a lane does not end", b->kernel->name, b->index);
}

/* -- A warp -- */

/* The lane whose value lane `l` takes. */
static uint32_t source_of(const struct ptx_instr *i, uint32_t l, uint64_t b, uint64_t c)
{
    uint32_t by = b & 31, clamp = c & 31, segments = c >> 8 & 31;
    uint32_t first = l & segments, limit = first | (clamp & ~segments);
    uint32_t j = i->op == PTX_SHFL_UP     ? l - by
                 : i->op == PTX_SHFL_DOWN ? l + by
                                          : first | (by & ~segments);
    bool there = i->op == PTX_SHFL_UP ? (int32_t)j >= (int32_t)limit : j <= limit;
    return there ? j : l;
}

static uint64_t result_of_all(const struct ptx_instr *i, const struct lane *lanes, uint32_t l,
                              const uint64_t *values)
{
    uint64_t bits = 0;
    if (i->op <= PTX_SHFL_DOWN) {
        const uint64_t *regs = lanes[l].regs;
        return values[source_of(i, l, regs[i->o[2]], regs[i->o[3]])];
    }
    for (uint32_t k = 0; k < LANES; k++)
        bits |= (uint64_t)(i->op == PTX_MATCH_ANY ? values[k] == values[l] : values[k] & 1) << k;
    switch (i->op) {
    case PTX_VOTE_ANY:
        return bits != 0;
    case PTX_VOTE_ALL:
        return bits == UINT32_MAX;
    default:
        return bits;
    }
}

/* Executes the collective instruction at which all lanes wait. */
static void meet(const struct block *b, struct lane *lanes)
{
    const struct ptx_instr *i = &b->kernel->code[lanes->at];
    uint32_t mask_at = i->op == PTX_BAR_WARP ? 0 : i->op <= PTX_SHFL_DOWN ? 4 : 2;
    bool has_values = i->op < PTX_BAR_WARP;
    uint64_t values[LANES], results[LANES];
    for (uint32_t l = 0; l < LANES; l++) {
        if (i->op != PTX_BAR_SYNC && (uint32_t)lanes[l].regs[i->o[mask_at]] != UINT32_MAX)
            fail(b, i, "not all lanes are named");
        if (has_values)
            values[l] = lanes[l].regs[i->o[1]];
    }
    for (uint32_t l = 0; l < LANES && has_values; l++)
        results[l] = result_of_all(i, lanes, l, values);
    for (uint32_t l = 0; l < LANES; l++) {
        if (has_values)
            lanes[l].regs[i->o[0]] = results[l];
        lanes[l].at++;
    }
}

/* Ascending, descending, or mixed order; mixed only if n is a power of two. */
static uint32_t in_order(uint32_t turn, uint32_t k, uint32_t n)
{
    switch (turn % 3) {
    case 0:
        return k;
    case 1:
        return n - 1 - k;
    default:
        return n & (n - 1) ? k : (13 * k + 7) & (n - 1);
    }
}

/* Runs a warp to the next barrier of the block. True: it came to its end. */
static bool run_warp(const struct block *b, struct lane *lanes)
{
    const struct ptx_kernel *kernel = b->kernel;
    for (;;) {
        for (uint32_t k = 0; k < LANES; k++)
            run_lane(b, &lanes[in_order(b->turn, k, LANES)]);
        for (uint32_t l = 1; l < LANES; l++)
            if (lanes[l].at != lanes->at && !(lanes[l].ended && lanes->ended))
                ptx_fail("%s, block %u: lanes 0 and %u part: lines %u and %u", kernel->name,
                         b->index, l, kernel->lines[lanes->at], kernel->lines[lanes[l].at]);
        if (lanes->ended)
            return true;
        if (kernel->code[lanes->at].op == PTX_BAR_SYNC)
            return false;
        meet(b, lanes);
    }
}

/* -- Blocks -- */

static void start_block(struct block *b, uint64_t *memory)
{
    const struct ptx_kernel *kernel = b->kernel;
    size_t n_values = (size_t)kernel->n_registers + kernel->n_constants;
    memset(b->shared, 0xcd, b->shared_nbytes);
    for (uint32_t l = 0; l < b->n_threads; l++) {
        uint64_t *regs = memory + l * n_values;
        regs[TID] = l;
        regs[NTID] = b->n_threads;
        regs[CTAID] = b->index;
        memcpy(regs + kernel->n_registers, kernel->constants,
               kernel->n_constants * sizeof *kernel->constants);
        b->lanes[l] = (struct lane){.regs = regs};
    }
}

static void run_block(struct block *b)
{
    uint32_t n_warps = b->n_threads / LANES;
    for (bool ended = false; !ended;) {
        for (uint32_t k = 0; k < n_warps; k++) {
            bool this_ended = run_warp(b, b->lanes + LANES * (size_t)in_order(b->turn, k, n_warps));
            if (k > 0 && this_ended != ended)
                ptx_fail("%s, block %u: some warps end, some wait", b->kernel->name, b->index);
            ended = this_ended;
        }
        for (uint32_t w = 1; w < n_warps && !ended; w++)
            if (b->lanes[LANES * (size_t)w].at != b->lanes->at)
                ptx_fail("%s, block %u: warps at two barriers", b->kernel->name, b->index);
        for (uint32_t w = 0; w < n_warps && !ended; w++)
            meet(b, b->lanes + LANES * (size_t)w);
    }
}

void ptx_launch(const struct ptx_kernel *kernel, uint32_t n_blocks, uint32_t n_threads,
                uint32_t shared_nbytes, const void *args, uint32_t turn)
{
    if (n_threads == 0 || n_threads % LANES != 0 || n_threads > kernel->most_threads)
        ptx_fail("%s: %u threads, at most %u", kernel->name, n_threads, kernel->most_threads);
    size_t n_values = (size_t)n_threads * (kernel->n_registers + kernel->n_constants);
    uint64_t *memory = malloc(n_values * sizeof *memory);
    struct block b = {.kernel = kernel,
                      .args = args,
                      .shared = malloc((size_t)shared_nbytes + 1),
                      .shared_nbytes = shared_nbytes,
                      .n_threads = n_threads,
                      .turn = turn,
                      .lanes = malloc(n_threads * sizeof *b.lanes)};
    if (!memory || !b.shared || !b.lanes)
        ptx_fail("no memory");
    memset(memory, 0xee, n_values * sizeof *memory);
    for (uint32_t l = 0; l < n_threads; l++)
        memory[l * (kernel->n_registers + (size_t)kernel->n_constants) + NCTAID] = n_blocks;
    for (uint32_t k = 0; k < n_blocks; k++) {
        b.index = in_order(turn, k, n_blocks);
        start_block(&b, memory);
        run_block(&b);
    }
    free(b.lanes);
    free(b.shared);
    free(memory);
}
