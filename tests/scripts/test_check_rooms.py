"""check_rooms.py must detect every way in which one folder ("room") of src can use another's internals, and report nothing else."""

import pytest

import check_rooms


def findings(tmp_path, files):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return check_rooms.check(tmp_path)


@pytest.mark.parametrize("name, line", [
    ("src/decode/decode.c", '#include "storage/storage.h"'),
    ("src/storage/storage.c", '#include "loader/epoch/loader_job.h"'),
    ("src/base/alloc.c", '#include "format/format.h"'),
    ("src/loader/loader.c", '#include "pack/pack_int.h"'),
    ("src/pack/pack.c", '#include "writer/writer_int.h"'),
    ("src/pack/pack.c", '#include "verify/verify_int.h"'),
    ("src/writer/writer.c", '#include "verify/verify.h"'),
    ("src/verify/verify.c", '#include "pack/pack_int.h"'),
    ("src/loader/loader.c", '#include "fetch/order.h"'),
    ("src/loader/loader.c", '#include "decode/decode_jpeg.h"'),
    ("src/decode/decode.c", '#include "decode_int.h"'),
    ("src/decode/decode.c", '#include "kitchen/decode.h"'),
    ("src/decode/decode.c", '  #  include   "storage/storage.h"'),
    ("src/augment/augment.c", "#include <jpeglib.h>"),
    ("src/loader/loader.c", "#include <liburing.h>"),
    ("src/loader/loader.c", "#include <warp_host.cuh>"),
    ("src/format/format.c", "#include <stdlib.h>"),
    ("src/format/format.c", "#include <sys/stat.h>"),
    ("src/kitchen/kitchen.c", "int x;"),
    ("src/gpu/kernels/units.cuh", '#include "loader/loader.h"'),
    ("src/gpu/work/gpu_units.c", '#include "gpu/kernels/units.cuh"'),
    ("src/loader/rows/loader_row.c", '#include "gpu/gpu.h"'),
    ("src/loader/rows/loader_row.c", '#include "device/device.h"'),
    ("src/loader/rows/loader_row.c", '#include "loader/placement/loader_gpu.h"'),
    ("tools/penstock/main.c", '#include "base/alloc.h"'),
    ("python/native/native.c", '#include "decode/decode.h"'),
    ("bench/bench_x.c", '#include "storage/storage.h"'),
    ("bench/bench_x.c", "#include <storage/storage.h>"),
    ("src/decode/decode.c", "#include <storage/storage.h>"),
    ("examples/x.c", '#include "base/alloc.h"'),
    ("include/penstock/x.h", '#include "status.h"'),
    ("tests/decode/test_decode_x.c", '#include "storage/storage.h"'),
    ("tests/cli/test_cli_x.c", '#include "base/alloc.h"'),
    ("src/pli/decode/pli_emit.c", "#if defined(__x86_64__)"),
    ("src/pli/decode/pli_emit.h", "#elif defined(__aarch64__)"),
    ("src/pli/encode/x86.c", "#ifdef __ARM_NEON"),
    ("src/augment/augment_run.c", "#include <immintrin.h>"),
    ("src/augment/decode_png_unfilter_neon.c", "#include <arm_neon.h>"),
    ("src/loader/loader_avx2.c", "    if (is_wide) /* not __x86_64__ alone */"),
])
def test_a_hole_is_found(tmp_path, name, line):
    found = findings(tmp_path, {name: f"/* a file */\n{line}\n"})
    assert len(found) == 1
    assert found[0].startswith((f"{name}:2: ", f"{name}:1: "))


@pytest.mark.parametrize("name, line", [
    ("src/decode/decode.c", '#include "base/alloc.h"'),
    ("src/decode/decode.c", '#include "decode/decode_int.h"'),
    ("src/decode/decode.c", "#include <jpeglib.h>"),
    ("src/dataset/dataset.c", '#include "format/format.h"'),
    ("src/loader/loader.c", '#include "storage/storage.h"'),
    ("src/loader/placement/loader_gpu.c", '#include "gpu/gpu.h"'),
    ("src/loader/placement/loader_gpu.c", '#include "loader/placement/loader_gpu.h"'),
    ("src/loader/rows/loader_row.c", '#include "loader/placement/loader_placement.h"'),
    ("src/gpu/kernels/units.cuh", '#include "gpu/work/gpu_units.h"'),
    ("tests/gpu/gpu_exec.h", '#include "device/device.h"'),
    ("src/pack/pack.c", "#include <penstock/writer.h>"),
    ("src/pack/pack.c", '#include "writer/writer.h"'),
    ("src/pack/pack.c", '#include "verify/verify.h"'),
    ("src/loader/loader.c", '#include "order/order.h"'),
    ("src/format/format.c", "#include <stdio.h>"),
    ("tests/decode/test_decode_x.c", '#include "decode/decode_int.h"'),
    ("tests/fuzz/fuzz_x.c", '#include "decode/decode.h"'),
    ("src/decode/decode.c", '// #include "storage/storage.h"'),
    ("src/pli/decode/x86/pli_emit_avx2.c", "#include <immintrin.h>"),
    ("src/pli/decode/wave/arm/pli_wave_neon.c", "#if defined(__aarch64__)"),
    ("src/pli/decode/pli_kernels.c", "#if defined(__x86_64__)"),
    ("src/augment/kernels/augment_kernels_avx2.c", "#include <immintrin.h>"),
    ("src/base/machine/cpu.c", "#if defined(__x86_64__)"),
    ("tests/pli/test_x.c", "#if defined(__x86_64__)"),
    ("src/decode/decode.c", "int my__x86_64__x;"),
])
def test_open_doors_are_passed(tmp_path, name, line):
    assert findings(tmp_path, {name: f"/* a file */\n{line}\n"}) == []


def test_own_files_of_tools_are_seen(tmp_path):
    files = {"tools/penstock/main.c": '#include "cmd.h"\n', "tools/penstock/cmd.h": "int x;\n"}
    assert findings(tmp_path, files) == []


def test_a_finding_makes_the_script_fail(tmp_path, monkeypatch, capsys):
    findings(tmp_path, {"src/decode/decode.c": '#include "storage/storage.h"\n'})
    monkeypatch.setattr("sys.argv", ["check_rooms.py", "--root", str(tmp_path)])
    assert check_rooms.main() == 1
    assert "src/decode/decode.c:1: decode may not open storage's door" in capsys.readouterr().out
