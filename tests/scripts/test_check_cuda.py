"""check_cuda.py parses the output of ptxas, and detects a kernel that uses local memory."""

import os
import shutil
from pathlib import Path

import pytest

import check_cuda

OUTPUT = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'psti_a' for 'sm_90'
ptxas info    : Function properties for psti_a
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 37 registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0]
ptxas info    : Compiling entry function 'psti_b' for 'sm_100a'
ptxas info    : Function properties for psti_b
    256 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Function properties for psti_not_inlined
    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers
"""

KERNELS = """#include "gpu/kernels/warp.cuh"
struct args { uint64_t at; uint32_t n; };
struct kernel {
    static const int n_phases = 1;
    template <int phase> static PSTI_LANES void run(const psti::block &b, const args &a)
    {
        uint32_t *at = reinterpret_cast<uint32_t *>(a.at);
        %s
    }
};
PSTI_KERNEL(psti_first, kernel, args, 8, 2)
"""
GOOD = "psti::store(at, psti::lane_id(), psti::lane_u32(a.n));"
SPILLING = """uint32_t v[64];
        for (uint32_t i = 0; i < 64; i++)
            v[i] = i;
        for (uint32_t i = 0; i < a.n; i++)
            v[at[i] & 63u] += v[at[i + 1] & 63u];
        at[0] = v[a.n & 63u];"""


def test_what_ptxas_says_is_read():
    a, b = check_cuda.parse("src/gpu/kernels/a.cu", OUTPUT)
    assert a == check_cuda.Kernel("src/gpu/kernels/a.cu", "psti_a", "sm_90", 37, 0, 0, 1024)
    assert a.warps == 51
    assert b == check_cuda.Kernel("src/gpu/kernels/a.cu", "psti_b", "sm_100", 255, 272, 20, 0)
    assert b.warps == 8
    assert "psti_b" in check_cuda.table([a, b])


def test_kernel_files_are_those_that_the_build_lists(tmp_path):
    folder = tmp_path / "src" / "gpu"
    folder.mkdir(parents=True)
    (folder / "CMakeLists.txt").write_text("pst_room(gpu SOURCES a.c)\nset(PST_CUDA_KERNELS kernels/a.cu\n  b.cu)\n")
    assert check_cuda.kernel_files(tmp_path) == [folder / "kernels" / "a.cu", folder / "b.cu"]
    (folder / "CMakeLists.txt").write_text("")
    assert check_cuda.kernel_files(tmp_path) == []


def test_every_kernel_of_the_house_is_listed():
    root = Path(check_cuda.__file__).resolve().parent.parent
    assert sorted(check_cuda.kernel_files(root)) == sorted((root / "src" / "gpu" / "kernels").glob("*.cu"))


@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")
@pytest.mark.parametrize("body, words", [(GOOD, None), (SPILLING, "local memory"), ("nonsense;", "does not compile")])
def test_kernels_are_judged(tmp_path, body, words):
    root = Path(check_cuda.__file__).resolve().parent.parent
    folder = tmp_path / "src" / "gpu" / "kernels"
    folder.mkdir(parents=True)
    for header in (root / "src" / "gpu" / "kernels").glob("warp*.cuh"):
        shutil.copy(header, folder)
    (folder / "a.cu").write_text(KERNELS % body)
    kernels, findings = check_cuda.compile_file(shutil.which("nvcc"), tmp_path, folder / "a.cu", "sm_90")
    if words is None:
        assert findings == [] and [k.name for k in kernels] == ["psti_first"] and kernels[0].registers > 0
    else:
        assert len(findings) == 1 and words in findings[0]


def test_what_the_build_has_compiled_is_not_compiled_again(tmp_path, monkeypatch):
    kernel = tmp_path / "src" / "gpu" / "kernels" / "a.cu"
    kernel.parent.mkdir(parents=True)
    kernel.write_text("PSTI_KERNEL(psti_a, kernel, args, 8, 2)\n")
    built = tmp_path / "build"
    built.mkdir()
    (built / "a.fatbin.log").write_text(OUTPUT.split("ptxas info    : Compiling entry function 'psti_b'")[0])
    compiled = []
    monkeypatch.setattr(check_cuda, "compile_file", lambda *arguments: compiled.append(arguments[3]) or ([], []))
    found, wrong = check_cuda.look_at("nvcc", tmp_path, built, kernel, "sm_90")
    assert (found, wrong, compiled) == ([check_cuda.Kernel("src/gpu/kernels/a.cu", "psti_a", "sm_90", 37, 0, 0, 1024)], [], [])
    check_cuda.look_at("nvcc", tmp_path, built, kernel, "sm_75")  # the build has no machine code for this kernel
    check_cuda.look_at("nvcc", tmp_path, None, kernel, "sm_90")
    later = (built / "a.fatbin.log").stat().st_mtime + 10
    os.utime(kernel, (later, later))  # changed since
    check_cuda.look_at("nvcc", tmp_path, built, kernel, "sm_90")
    assert compiled == ["sm_75", "sm_90", "sm_90"]


def test_a_kernel_of_the_build_that_spills_or_lacks_is_found(tmp_path):
    kernel = tmp_path / "src" / "gpu" / "kernels" / "a.cu"
    kernel.parent.mkdir(parents=True)
    kernel.write_text("PSTI_KERNEL(psti_b, kernel, args, 8, 2)\nPSTI_KERNEL(psti_c, kernel, args, 8, 2)\n")
    (tmp_path / "a.fatbin.log").write_text(OUTPUT)
    _, wrong = check_cuda.look_at("nvcc", tmp_path, tmp_path, kernel, "sm_100")
    assert wrong == ["src/gpu/kernels/a.cu: sm_100: psti_c was not compiled",
                     "src/gpu/kernels/a.cu: sm_100: psti_b keeps 272 bytes in local memory, 20 bytes of spills"]
