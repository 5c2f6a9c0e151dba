"""The steps of `make check` and of `make check-long`: lists of commands. check.py runs them."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PYTHON = sys.executable
ASAN = {"ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
TSAN = {"TSAN_OPTIONS": "halt_on_error=1 second_deadlock_stack=1"}
# Rooms that start threads; cmake/PenstockTest.cmake has the same list for the target threaded_tests.
THREADED = "^(base|batch|cache|device|fleet|images|loader|serve|share|stall|storage|pack|writer|verify)$"
# With that sanitizer they take most of the step's time; make check-long runs them.
SLOW_WITH_TSAN = (r"^test_(loader_(cache_form|device|limit|memory|order|pli_jpeg|ranges|steady)|pack_pli_jpeg|serve_stream(_gpu)?"
                  r"|writer_journal_forged)$")
SLOW_WITH_ASAN = (r"^test_(pli_(encode|jpeg_pixels|wave_levels)|cli_(interrupt|pli|repack|unpack)"
                  r"|kernels_(batch|jpeg|prepare|store|units|wave)|gpu_batch"
                  r"|loader_(limit|pli_jpeg|steady)|writer_journal_forged)$")
# Labels of tests whose code differs by CPU level, or by how compilers optimise it. Others run with AddressSanitizer alone, and
# without it in make check-long.
BY_LEVEL = "decode|pli|golden|augment|sound|loader"
ASAN_LEAVES_OUT = f"_slow$|{SLOW_WITH_ASAN}"  # _slow: scripts
# These compare all CPU levels with plain C in one process, or have no kernels, so they need no run at each level.
SAME_AT_ALL_LEVELS = (r"_(levels|slow)$|^test_(pli_jpeg_(pixels|idct|rows)|decode_(unfilter|webp_memory)"
                      r"|loader_(device|fallback|fleet|life|limit|memory|meter|order|stats|steady))$")
# Fuzzing in check-long only checks that all targets run and find nothing at once; `make fuzz` runs longer.
FUZZ_SECONDS = "8"
# Changes of each kind of file that python/tests/test_damaged_files.py tries.
SWEEP = {"PENSTOCK_SWEEP": "4000"}
PARALLEL = ("-n", str(os.cpu_count() or 1), "--dist", "worksteal")


@dataclass
class Step:
    """Commands that run in order until one fails. `kind`: how to count, as ctest, as pytest, or as one test ("script")."""

    name: str
    kind: str
    commands: list[list[str]]
    environment: dict[str, str] = field(default_factory=dict)


def build(preset: str, *targets: str) -> list[list[str]]:
    return [["cmake", "--preset", preset, "--log-level=WARNING"],
            ["cmake", "--build", str(BUILD / preset), "--", "--quiet", *targets]]


def ctest(preset: str, *arguments: str, long: bool = False, without: str = "") -> list[str]:
    """Runs tests of a preset, without those of some labels. Tests with the label "long" (kill sweeps, mutators, sleeping tests) run
    in check-long alone."""
    return ["ctest", "--test-dir", str(BUILD / preset), "--output-on-failure", "--no-tests=error",
            "--output-junit", str(BUILD / preset / "ctest.xml"), "--test-output-size-passed", "100000",
            "-j", str(os.cpu_count() or 1), "-L" if long else "-LE", f"^long${'|' * bool(without)}{without}", *arguments]


def pytest(*arguments: str) -> list[str]:
    """Runs tests in as many processes as there are cores, each a half of the files at first, then what the other one has left."""
    return [PYTHON, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *PARALLEL, *arguments]


def stranger(*tests: str) -> list[str]:
    """Tries wheels in root file systems, in one process: the tests share them."""
    return pytest("-n", "0", *tests)


def python_of(preset: str, *tests: str, asan: bool = False) -> Step:
    """Runs tests of the Python package with the extension that the preset builds."""
    command = [PYTHON, "scripts/check_package.py", str(BUILD / preset), *["--asan"] * asan, *PARALLEL, *tests]
    return Step(f"{preset}-python", "pytest", [*build(preset, "python_package"), command], SWEEP)


def check_steps() -> list[Step]:
    """Returns the steps that a change must pass."""
    installed = BUILD / "installed"
    # All other steps run at the machine's own level.
    below = ("c", "avx2") if "avx512bw" in Path("/proc/cpuinfo").read_text() else ("c",)
    by_level_tests = ctest("check", "-L", BY_LEVEL, "-E", SAME_AT_ALL_LEVELS)
    levels = [Step(f"level-{level}", "ctest", [by_level_tests], {"PENSTOCK_CPU_MASK": level}) for level in below]
    kernels = [Step("cuda", "script", [[PYTHON, "scripts/check_cuda.py"]])] if shutil.which("nvcc") else []
    return [
        Step("rooms", "script", [[PYTHON, "scripts/check_rooms.py"]]),
        Step("style", "script", [[PYTHON, "scripts/check_style.py"]]),
        Step("docs", "script", [[PYTHON, "scripts/check_docs.py"]]),
        Step("scripts", "pytest", [pytest("tests/scripts")]),
        *kernels,
        Step("build", "script", build("check")),
        Step("ctest", "ctest", [ctest("check", "-L", BY_LEVEL)]),
        Step("ctest-slow", "ctest", [ctest("check", "-R", ASAN_LEAVES_OUT, without=BY_LEVEL)]),
        *levels,
        Step("symbols", "script", [[PYTHON, "scripts/check_symbols.py", str(BUILD / "check")]]),
        Step("abi", "script", [[PYTHON, "scripts/check_abi.py", str(BUILD / "check")]]),
        Step("clang", "script", build("clang", "penstock", "penstock_static", "penstock_cli", "fuzz_objects")),
        Step("build-asan", "script", build("asan")),
        Step("asan", "ctest", [ctest("asan", "-E", ASAN_LEAVES_OUT)], ASAN),
        python_of("asan", "python/tests/test_bad_input.py", "python/tests/test_dataset.py",
                  "python/tests/test_loader_arrays.py", "python/tests/test_writer.py", asan=True),
        Step("build-tsan", "script", build("tsan", "threaded_tests")),
        Step("tsan", "ctest", [ctest("tsan", "-L", THREADED, "-E", SLOW_WITH_TSAN)], TSAN),
        Step("install", "script", [
            ["cmake", "-G", "Ninja", "-S", ".", "-B", str(BUILD / "plain"), "-DCMAKE_BUILD_TYPE=Release",
             "-DPST_CUDA=OFF",  # the package has compiled the kernels
             f"-DCMAKE_INSTALL_PREFIX={installed}", "--log-level=WARNING"],
            ["cmake", "--build", str(BUILD / "plain"), "--", "--quiet"],
            ["cmake", "--install", str(BUILD / "plain")],
        ]),
        Step("examples", "script", [[PYTHON, "scripts/check_install.py", str(installed)]]),
        Step("types", "script", [[PYTHON, "scripts/check_types.py"]]),
        Step("python", "pytest", [pytest("python/tests")],
             {"PST_TEST_GPU": str(BUILD / "check" / "tests" / "device")}),
        # check-long tries the wheels in all ways.
        Step("stranger", "pytest", [stranger("tests/scripts/stranger_of_wheel.py::test_debian_12")], {"STRANGER_WHEEL": "fresh"}),
    ]


def long_steps() -> list[Step]:
    """Returns the steps that take too long for every change. They repeat nothing of check_steps() except builds."""
    wide = "^(dataset|pli|decode|fault|cli)$"
    return [
        Step("long", "ctest", [*build("check"), ctest("check", long=True)]),
        Step("ctest-other", "ctest", [ctest("check", "-E", ASAN_LEAVES_OUT, without=BY_LEVEL)]),
        Step("build-clang", "script", build("clang")),
        Step("clang-ctest", "ctest", [ctest("clang")]),
        python_of("clang", "python/tests"),
        Step("build-asan", "script", build("asan")),
        Step("asan-long", "ctest", [ctest("asan", long=True)], ASAN),
        Step("asan-slow", "ctest", [ctest("asan", "-R", SLOW_WITH_ASAN)], ASAN),
        python_of("asan", "python/tests", asan=True),
        Step("sounds", "pytest", [pytest("python/tests/test_sounds.py")], {"PENSTOCK_TEST_SOUNDS": "2000"}),
        Step("build-tsan", "script", build("tsan")),
        Step("tsan-wide", "ctest", [ctest("tsan", "-L", wide)], TSAN),
        Step("tsan-slow", "ctest", [ctest("tsan", "-R", SLOW_WITH_TSAN)], TSAN),
        Step("build-fuzz", "script", build("fuzz", "fuzz_targets")),
        Step("identities", "pytest", [pytest("python/tests/test_identity_pairs.py")], {"PENSTOCK_TEST_PAIRS": "200"}),
        Step("fuzz", "script", [[PYTHON, "scripts/fuzz.py", str(BUILD / "fuzz"), "--seconds", FUZZ_SECONDS]]),
        Step("interrupts", "pytest", [pytest("python/tests/test_interrupts.py")], {"PENSTOCK_TEST_INTERRUPTS": "1000"}),
        Step("site", "script", [[PYTHON, "scripts/build_site.py"]]),
        Step("demo", "script", [[PYTHON, "examples/demo.py", "--out", str(BUILD / "demo-out")]]),
        Step("abi", "pytest", [pytest("tests/scripts/abi_of_wheel.py")]),
        Step("wheels", "script", [[PYTHON, "scripts/wheels.py"]]),
        Step("stranger", "pytest", [stranger("tests/scripts/stranger_of_wheel.py")]),
    ]
