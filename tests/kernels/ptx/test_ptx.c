/* test_ptx.c - compares the PTX runner with the PTX ISA: results of instructions, lanes that meet,
 * and everything that must end the process. */
#include "kernels/ptx/ptx.h"

#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LANES = 32, MOST_RESULTS = 8 };

/* Results and end state of each lane. */
struct out {
    uint64_t results[MOST_RESULTS][LANES];
};

static const char head[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
                           ".extern .shared .align 128 .b8 psti_shared[];\n"
                           ".visible .entry test(\n\t.param .align 8 .b8 test_param_0[16]\n)\n"
                           ".maxntid 64, 1, 1\n{\n"
                           "\t.reg .pred \t%p<8>;\n\t.reg .b16 \t%rs<8>;\n\t.reg .f32 \t%f<8>;\n"
                           "\t.reg .b32 \t%r<32>;\n\t.reg .f64 \t%fd<4>;\n\t.reg .b64 \t%rd<16>;\n"
                           /* %rd1: address of this lane's first result; %r1: the lane */
                           "\tmov.u32 \t%r1, %tid.x;\n\tld.param.u64 \t%rd2, [test_param_0];\n"
                           "\tcvta.to.global.u64 \t%rd3, %rd2;\n\tmul.wide.u32 \t%rd4, %r1, 8;\n"
                           "\tadd.s64 \t%rd1, %rd3, %rd4;\n";

static void open_text(const char *body, struct ptx_module *module)
{
    char path[] = "/tmp/pst-ptx-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    fprintf(file, "%s%s\tret;\n\n}\n", head, body);
    fclose(file);
    ptx_open(path, module);
    unlink(path);
}

/* Runs a kernel of one warp with 256 bytes of shared memory. */
static void run(const char *body, uint32_t turn, struct out *out)
{
    struct ptx_module module;
    uint64_t args[2] = {(uint64_t)(uintptr_t)out, 0x1122334455667788};
    memset(out, 0xaa, sizeof *out);
    open_text(body, &module);
    assert_int_equal(module.n_kernels, 1);
    ptx_launch(&module.kernels[0], 1, LANES, 256, args, turn);
    ptx_close(&module);
}

/* Expects that result in all lanes, in all orders. */
static void expect_32(const char *body, uint32_t expected)
{
    char text[1024];
    struct out out;
    snprintf(text, sizeof text, "%s\tst.global.u32 \t[%%rd1], %%r2;\n", body);
    for (uint32_t turn = 0; turn < 3; turn++) {
        run(text, turn, &out);
        for (uint32_t l = 0; l < LANES; l++)
            assert_int_equal((uint32_t)out.results[0][l], expected);
    }
}

static void test_instructions(void **state)
{
    (void)state;
    expect_32("\tadd.s32 \t%r2, -1, 3;\n", 2);
    expect_32("\tmul.lo.s32 \t%r2, 65536, 65537;\n", 65536);
    expect_32("\tmov.u32 \t%r3, -7;\n\tshr.s32 \t%r2, %r3, 40;\n", UINT32_MAX);
    expect_32("\tmov.u32 \t%r3, -7;\n\tshr.u32 \t%r2, %r3, 40;\n", 0);
    expect_32("\tshl.b32 \t%r2, 1, 32;\n", 0);
    expect_32("\tmov.u32 \t%r3, -7;\n\tmin.s32 \t%r2, %r3, 3;\n", (uint32_t)-7);
    expect_32("\tmov.u32 \t%r3, -7;\n\tmin.u32 \t%r2, %r3, 3;\n", 3);
    expect_32("\tmov.u32 \t%r3, -7;\n\trem.s32 \t%r2, %r3, 3;\n", (uint32_t)-1);
    expect_32("\tprmt.b32 \t%r2, 0x44332211, 0x88776655, 0xb405;\n", 0x00551166);
    expect_32("\tmov.u32 \t%r3, 0x80000000;\n\tprmt.b32 \t%r2, %r3, 0, 0xbbb0;\n", 0xffffff00);
    expect_32("\tshf.r.wrap.b32 \t%r2, 0x44332211, 0x88776655, 36;\n", 0x54433221);
    expect_32("\tshf.r.clamp.b32 \t%r2, 0x44332211, 0x88776655, 4;\n", 0x54433221);
    expect_32("\tshf.r.clamp.b32 \t%r2, 0x44332211, 0x88776655, 36;\n", 0x88776655);
    expect_32("\tbfi.b32 \t%r2, 7, 0, 4, 2;\n", 0x30);
    expect_32("\tbfind.shiftamt.u32 \t%r2, 256;\n", 23);
    expect_32("\tbfind.shiftamt.u32 \t%r2, 0;\n", UINT32_MAX);
    expect_32("\tclz.b32 \t%r2, 0;\n", 32);
    expect_32("\tbrev.b32 \t%r2, 3;\n", 0xc0000000);
    expect_32("\tdp4a.s32.s32 \t%r2, 0x01ff0280, 0x7f020301, 5;\n", 127 - 2 + 6 - 128 + 5);
    expect_32("\tdp4a.u32.s32 \t%r2, 0x000000ff, 0x000000ff, 5;\n", (uint32_t)(5 - 255));
    expect_32("\tdp2a.lo.s32.u32 \t%r2, 0xffff0002, 0xffff0a03, 0;\n", (uint32_t)(6 - 10));
    expect_32("\tdp2a.hi.s32.u32 \t%r2, 0xffff0002, 0x05040a03, 0;\n", (uint32_t)(8 - 5));
    expect_32("\tcvt.pack.sat.u8.s32.b32 \t%r2, -3, 300, 0x1234;\n", 0x123400ff);
    expect_32("\tcvt.pack.sat.s16.s32 \t%r2, -40000, 7;\n", 0x80000007);
    expect_32("\tmov.u16 \t%rs1, 0xfffe;\n\tcvt.s32.s16 \t%r2, %rs1;\n", (uint32_t)-2);
    expect_32("\tcvt.rn.f16x2.f32 \t%r2, 0f3F800000, 0f40000000;\n", 0x3c004000);
    expect_32("\tcvt.rn.f16x2.f32 \t%r2, 0f33800000, 0fB3000000;\n",
              0x00018000); /* 2^-24, -2^-25 */
    expect_32("\tcvt.rn.f16x2.f32 \t%r2, 0f477FF000, 0f477FEFFF;\n", 0x7c007bff);
    expect_32("\tcvt.rn.f16x2.f32 \t%r2, 0f387FFFFF, 0f3F801000;\n", 0x04003c00);
    expect_32("\tcvt.rn.bf16x2.f32 \t%r2, 0f3F800000, 0f40000000;\n", 0x3f804000);
    expect_32("\tcvt.rmi.f32.f32 \t%f1, 0fBF000000;\n\tmov.b32 \t%r2, %f1;\n", 0xbf800000);
    expect_32("\tcvt.rzi.u32.f32 \t%r2, 0fBF800000;\n", 0);
    expect_32("\tsetp.neu.f32 \t%p1, 0f7FC00000, 0f7FC00000;\n\tselp.u32 \t%r2, 1, 0, %p1;\n", 1);
    expect_32("\tsetp.gtu.f32 \t%p1, 0f7FC00000, 0f3F800000;\n\tselp.u32 \t%r2, 1, 0, %p1;\n", 1);
    expect_32("\tsetp.gtu.f32 \t%p1, 0f3F800000, 0f3F800000;\n\tselp.u32 \t%r2, 1, 0, %p1;\n", 0);
    expect_32("\trcp.rn.f32 \t%f1, 0f40400000;\n\tmov.b32 \t%r2, %f1;\n", 0x3eaaaaab);
    /* 3 * 2^31 + 0.75, its integer's lower half; and below 0 */
    expect_32("\tmul.rn.f64 \t%fd1, 0d4008000000000000, 0d41E0000000000000;\n"
              "\tadd.rn.f64 \t%fd1, %fd1, 0d3FE8000000000000;\n"
              "\tcvt.rzi.s64.f64 \t%rd5, %fd1;\n\tcvt.u32.u64 \t%r2, %rd5;\n",
              0x80000000);
    expect_32("\tneg.f64 \t%fd1, 0d400C000000000000;\n\tcvt.rzi.s64.f64 \t%rd5, %fd1;\n"
              "\tcvt.u32.u64 \t%r2, %rd5;\n",
              (uint32_t)-3);
    expect_32("\tmin.f64 \t%fd1, 0d7FF8000000000000, 0d4008000000000000;\n"
              "\tmax.f64 \t%fd2, %fd1, 0d4000000000000000;\n\tsub.rn.f64 \t%fd2, %fd2, %fd1;\n"
              "\tsetp.eq.f64 \t%p1, %fd2, 0d0000000000000000;\n\tselp.u32 \t%r2, 1, 0, %p1;\n",
              1);
    expect_32("\tsetp.lt.s32 \t%p1, -1, 0;\n\tselp.b32 \t%r2, 4, 5, %p1;\n", 4);
    expect_32("\tsetp.lt.u32 \t%p1, -1, 0;\n\tselp.b32 \t%r2, 4, 5, %p1;\n", 5);
    expect_32("\tld.param.v2.u16 \t{%rs1, %rs2}, [test_param_0+8];\n\tcvt.u32.u16 \t%r2, %rs2;\n",
              0x5566);
    expect_32("\tmov.u32 \t%r3, 0;\n\tmov.u32 \t%r2, 0;\n$L_1:\n\tadd.s32 \t%r2, %r2, %r3;\n"
              "\tadd.s32 \t%r3, %r3, 1;\n\tsetp.lt.u32 \t%p1, %r3, 5;\n\t@%p1 bra \t$L_1;\n",
              10);
}

static void test_lanes(void **state)
{
    (void)state;
    static const char body[] =
        "\tshfl.sync.up.b32 \t%r2|%p1, %r1, 1, 0, -1;\n\tst.global.u32 \t[%rd1], %r2;\n"
        "\tshfl.sync.down.b32 \t%r3|%p1, %r1, 2, 31, -1;\n\tst.global.u32 \t[%rd1+256], %r3;\n"
        "\txor.b32 \t%r4, %r1, 3;\n\tshfl.sync.idx.b32 \t%r5|%p2, %r1, %r4, 31, -1;\n"
        "\tst.global.u32 \t[%rd1+512], %r5;\n\tsetp.lt.u32 \t%p3, %r1, 4;\n"
        "\tvote.sync.ballot.b32 \t%r6, %p3, -1;\n\tst.global.u32 \t[%rd1+768], %r6;\n"
        "\tshr.u32 \t%r7, %r1, 4;\n\tmatch.any.sync.b32 \t%r8, %r7, -1;\n"
        "\tst.global.u32 \t[%rd1+1024], %r8;\n";
    for (uint32_t turn = 0; turn < 3; turn++) {
        struct out out;
        run(body, turn, &out);
        for (uint32_t l = 0; l < LANES; l++) {
            assert_int_equal((uint32_t)out.results[0][l], l > 0 ? l - 1 : 0);
            assert_int_equal((uint32_t)out.results[1][l], l < 30 ? l + 2 : l);
            assert_int_equal((uint32_t)out.results[2][l], l ^ 3);
            assert_int_equal((uint32_t)out.results[3][l], 15);
            assert_int_equal((uint32_t)out.results[4][l], l < 16 ? 0xffff : 0xffff0000);
        }
    }
}

/* Each lane reads the next one's write; `between` stands between write and read. */
static uint32_t read_next(const char *between, uint32_t turn)
{
    char body[1024];
    struct out out;
    uint32_t n_right = 0;
    snprintf(body, sizeof body,
             "\tshl.b32 \t%%r2, %%r1, 2;\n\tmov.u32 \t%%r3, psti_shared;\n"
             "\tadd.s32 \t%%r4, %%r3, %%r2;\n\tst.shared.u32 \t[%%r4], %%r1;\n%s"
             "\txor.b32 \t%%r5, %%r2, 4;\n\tadd.s32 \t%%r6, %%r3, %%r5;\n"
             "\tld.shared.u32 \t%%r7, [%%r6];\n\tst.global.u32 \t[%%rd1], %%r7;\n",
             between);
    run(body, turn, &out);
    for (uint32_t l = 0; l < LANES; l++)
        n_right += (uint32_t)out.results[0][l] == (l ^ 1);
    return n_right;
}

static void test_order(void **state)
{
    (void)state;
    for (uint32_t turn = 0; turn < 3; turn++) {
        assert_int_equal(read_next("\tbar.warp.sync \t-1;\n", turn), LANES);
        assert_int_equal(read_next("\tbar.sync \t0;\n", turn), LANES);
        assert_true(read_next("", turn) <
                    LANES); /* a lane relies on another that has not run yet */
    }
}

static void expect_end(const char *body)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct out out;
        fclose(stderr);
        run(body, 0, &out);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
        fail_msg("it went on: %s", body);
}

static void test_ends(void **state)
{
    (void)state;
    expect_end("\tadd.s64 \t%rd5, %rd1, 2;\n\tld.global.u32 \t%r2, [%rd5];\n");
    expect_end("\tld.global.v2.u32 \t{%r2, %r3}, [%rd1+4];\n");
    expect_end("\tmov.u32 \t%r2, psti_shared;\n\tst.shared.u32 \t[%r2+256], %r1;\n");
    expect_end("\tmov.u64 \t%rd5, 8;\n\tld.global.u32 \t%r2, [%rd5];\n");
    expect_end("\tld.param.u64 \t%rd5, [test_param_0+16];\n");
    expect_end("\tdiv.u32 \t%r2, %r1, 0;\n");
    expect_end("\tsetp.lt.u32 \t%p1, %r1, 4;\n\t@%p1 bra \t$L_1;\n\tbar.warp.sync \t-1;\n$L_1:\n");
    expect_end("\tbar.warp.sync \t15;\n");
    expect_end("\tsin.approx.f32 \t%f1, %f2;\n");
    expect_end("\tadd.s32 \t%r2, %r99, 1;\n");
    expect_end("\tbra.uni \t$L_none;\n");
    expect_end("$L_1:\n\tsetp.lt.u32 \t%p1, %r1, 4;\n\t@%p1 bar.warp.sync \t-1;\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instructions),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
