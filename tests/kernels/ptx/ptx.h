/* ptx.h - runs the PTX that nvcc makes of a kernel on a CPU: for tests without a GPU.
 *
 * It tests what the kernels' CPU build cannot: the functions of warp_device.cuh, nvcc's output,
 * addresses that are not aligned for a load, and lanes that rely on being in step. Each lane runs
 * alone to its next collective instruction, in ascending, descending or mixed order in alternate
 * launches. All 32 must come to the same instruction. Behaviour that a GPU would leave undefined,
 * and every unknown instruction, ends the process with kernel and line of the PTX. Addresses are
 * those of this process.
 *
 * The instructions are those that nvcc makes of these kernels, as the PTX ISA describes them:
 * https://docs.nvidia.com/cuda/parallel-thread-execution/ */
#ifndef PST_TEST_KERNELS_PTX_H
#define PST_TEST_KERNELS_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ptx_op {
    PTX_MOV,
    PTX_PACK, /* mov of a vector to a register */
    PTX_ADD,
    PTX_SUB,
    PTX_MUL,
    PTX_MUL_WIDE,
    PTX_MUL_HI,
    PTX_MAD,
    PTX_ABS,
    PTX_NEG,
    PTX_MIN,
    PTX_MAX,
    PTX_DIV,
    PTX_REM,
    PTX_AND,
    PTX_OR,
    PTX_XOR,
    PTX_NOT,
    PTX_SHL,
    PTX_SHR,
    PTX_SHF_R,
    PTX_SHF_R_CLAMP,
    PTX_PRMT,
    PTX_BFI,
    PTX_BFIND_SHIFT,
    PTX_CLZ,
    PTX_POPC,
    PTX_BREV,
    PTX_DP2A_LO,
    PTX_DP2A_HI,
    PTX_DP4A,
    PTX_SELP,
    PTX_RCP,
    PTX_SETP_NEU, /* only for floats; becomes one of the PTX_SETP_..._FLOAT */
    PTX_SETP_GTU, /* the same */
    PTX_SETP_EQ,
    PTX_SETP_NE,
    PTX_SETP_LT,
    PTX_SETP_LE,
    PTX_SETP_GT,
    PTX_SETP_GE,
    PTX_ADD_F32,
    PTX_SUB_F32,
    PTX_MUL_F32,
    PTX_DIV_F32,
    PTX_NEG_F32,
    PTX_RCP_F32,
    PTX_ADD_F64,
    PTX_SUB_F64,
    PTX_MUL_F64,
    PTX_DIV_F64,
    PTX_NEG_F64,
    PTX_MIN_F64, /* of a NaN and a number: the number */
    PTX_MAX_F64,
    PTX_SETP_EQ_FLOAT, /* of f32 and f64; false with a NaN; NEU, GTU: true */
    PTX_SETP_NEU_FLOAT,
    PTX_SETP_LT_FLOAT,
    PTX_SETP_LE_FLOAT,
    PTX_SETP_GT_FLOAT,
    PTX_SETP_GE_FLOAT,
    PTX_SETP_GTU_FLOAT,
    PTX_CVT,
    PTX_CVT_DOWN,  /* .rzi */
    PTX_CVT_FLOOR, /* .rmi */
    PTX_CVT_PACK,
    PTX_CVTA, /* global and generic addresses are the same here */
    PTX_LD,
    PTX_ST,
    PTX_ATOM_ADD,
    PTX_ATOM_MAX,
    PTX_BRA,
    PTX_RET,
    /* From here on all lanes of a warp meet. */
    PTX_SHFL_IDX,
    PTX_SHFL_UP,
    PTX_SHFL_DOWN,
    PTX_VOTE_BALLOT,
    PTX_VOTE_ANY,
    PTX_VOTE_ALL,
    PTX_MATCH_ANY,
    PTX_BAR_WARP,
    PTX_BAR_SYNC, /* and all warps of the block */
};

enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_SHARED, PTX_PARAM };

struct ptx_type {
    char kind; /* 'u', 's', 'b', 'f', 'p' */
    uint8_t bits;
    bool pair, bfloat; /* f16x2, bf16x2 */
};

#define PTX_NONE UINT32_MAX

struct ptx_instr {
    uint8_t op, space;            /* enum ptx_op, ptx_space */
    uint8_t n;                    /* elements of ld, st, PACK */
    uint8_t to_bits;              /* bits of the register that takes the result */
    struct ptx_type type, second; /* in the order of PTX: d or a; cvt: to and from; dp: a and b */
    bool guard_inverted;
    uint32_t guard;  /* register, or PTX_NONE */
    uint32_t target; /* target of BRA */
    int32_t offset;  /* added to the address */
    uint32_t o[6]; /* registers or constants in the order of PTX, without shfl's second result. ld,
                      st: the elements, then the address in [4] */
};

struct ptx_kernel {
    char name[64];
    struct ptx_instr *code;
    const char **texts; /* text of each instruction */
    uint32_t *lines;
    uint32_t n_code;
    uint32_t n_registers; /* the first four: %tid.x, %ntid.x, %ctaid.x, %nctaid.x */
    uint64_t *constants;  /* numbered after the registers */
    uint32_t n_constants;
    uint32_t param_nbytes, most_threads;
};

struct ptx_module {
    char *text;
    struct ptx_kernel *kernels;
    uint32_t n_kernels;
};

/* Reads a file of PTX. Text that it does not understand ends the process. */
void ptx_open(const char *path, struct ptx_module *module);
void ptx_close(struct ptx_module *module);

/* The calling thread runs all blocks of a launch, one after another. `turn` chooses the order of
 * lanes, warps and blocks. */
void ptx_launch(const struct ptx_kernel *kernel, uint32_t n_blocks, uint32_t n_threads,
                uint32_t shared_nbytes, const void *args, uint32_t turn);

_Noreturn void ptx_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
