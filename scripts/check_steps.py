"""The steps of `make check` and of `make check-long`: lists of commands. check.py runs them.

`make check` builds the library four times: as the package (optimised, also what is installed for C programs), for the tests
("check"), by clang with AddressSanitizer ("asan"), and with ThreadSanitizer ("tsan"). `make check-long` also builds it by clang
without a sanitizer, by gcc with AddressSanitizer, for libFuzzer, and as wheels.

Each step of `make check` has a budget: the seconds that it may take on two quiet cores with an empty compiler cache. The sum of
all budgets, with the set-up's, is at most BUDGET_S; tests/scripts/test_check_others.py checks that. A new or longer step must fit
into that sum. The output of a suite has the times of tests (ctest: of each test; pytest: of the slowest).
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PACKAGE_BUILD = BUILD / "package"  # where pip builds the Python package (Makefile)
PYTHON = sys.executable
# allow_addr2line: addr2line gives names and lines if llvm-symbolizer is not installed.
ASAN = {"ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:allow_addr2line=1",
        "UBSAN_OPTIONS": "print_stacktrace=1"}
TSAN = {"TSAN_OPTIONS": "halt_on_error=1 second_deadlock_stack=1"}
# Labels of rooms that start threads. cmake/PenstockTest.cmake has the same list for the target threaded_tests.
THREADED = "^(base|batch|cache|device|fleet|images|loader|serve|share|stall|storage|pack|writer|verify)$"
# Tests that take most of the step's time with ThreadSanitizer. make check-long runs them.
SLOW_WITH_TSAN = (r"^test_(fleet|loader_(cache_form|device|device_rows|fleet|life|limit|memory|meter|order|pli_jpeg|ranges|set"
                  r"|sound|stats|steady|training|weights|world)|pack_pli_jpeg|serve_(hostile|siblings|stream|stream_gpu)"
                  r"|writer_journal_forged)$")
SLOW_WITH_ASAN = (r"^test_(pli_(encode|jpeg_(file_c|pixels)|wave_levels)|cli_(interrupt|plan|pli|repack|unpack)"
                  r"|kernels_(batch|jpeg|prepare|store|units|wave)|gpu_batch|bench_gpu|stall_trace"
                  r"|loader_(cache_form|device|device_rows|fleet|limit|pli_jpeg|steady|training)|serve_(siblings|stream_gpu)"
                  r"|writer_journal_forged)$")
# Labels of tests whose code differs by CPU level or by compiler. All other tests run only with AddressSanitizer, and in make
# check-long without it.
BY_LEVEL = "decode|pli|golden|augment|sound|loader"
KERNELS = "decode|pli|golden|augment|sound"  # the rooms of BY_LEVEL that have kernels
ASAN_LEAVES_OUT = f"_slow$|{SLOW_WITH_ASAN}"  # _slow: tests of scripts.
# Tests that are not repeated at each CPU level: they compare all levels with plain C in one process, or have no kernels.
SAME_AT_ALL_LEVELS = (r"_(levels|slow)$|^test_(pli_jpeg_(pixels|idct|rows)|decode_(unfilter|webp_memory)"
                      r"|loader_(device|device_rows|fallback|fleet|life|limit|memory|meter|order|stats|steady))$")
# With this variable, tests of many combinations try only some of them. make check-long tries all.
FEW = {"PENSTOCK_TEST_FEW": "1"}
HAS_FEW = "^test_loader_(cache_form|pli_jpeg)$"
# Seconds for each fuzz target. check-long only checks that all targets run and find nothing at once; `make fuzz` runs longer.
FUZZ_SECONDS = "8"
# Number of changes that python/tests/test_damaged_files.py tries on each kind of file.
SWEEP = {"PENSTOCK_SWEEP": "4000"}
CORES = os.cpu_count() or 1
PARALLEL = ("-n", str(CORES), "--dist", "worksteal")
# For python/tests: half as many processes again as cores, because their tests often sleep or wait for a time limit.
PARALLEL_WAITING = ("-n", str(CORES + CORES // 2))

BUDGET_S = 1440  # CI has 30 minutes; six of them are kept for parts of the library that do not exist yet
SET_UP_BUDGET_S = 175  # budget of the set-up before the first step: .venv, and the package


@dataclass
class Step:
    """Commands that run in order until one fails. `kind` says how to count tests: "ctest", "pytest", or "script" (one test).
    `budget_s`: budget in seconds; 0 in check-long.
    """

    name: str
    kind: str
    commands: list[list[str]]
    environment: dict[str, str] = field(default_factory=dict)
    budget_s: int = 0


def build(preset: str, *targets: str) -> list[list[str]]:
    return [["cmake", "--preset", preset, "--log-level=WARNING"],
            ["cmake", "--build", str(BUILD / preset), "--", "--quiet", *targets]]


def ctest(preset: str, *arguments: str, long: bool = False, without: str = "") -> list[str]:
    """Returns the command that runs a preset's tests except those with some labels. Tests with the label "long" (kill sweeps,
    mutators, sleeping tests) run only in check-long.
    """
    return ["ctest", "--test-dir", str(BUILD / preset), "--output-on-failure", "--no-tests=error",
            "--output-junit", str(BUILD / preset / "ctest.xml"), "--test-output-size-passed", "100000",
            "-j", str(os.cpu_count() or 1), "-L" if long else "-LE", f"^long${'|' * bool(without)}{without}", *arguments]


def pytest(*arguments: str) -> list[str]:
    """Returns the command that runs Python tests in a process for each core. Each process starts with its share of the files, and
    then takes files from the others.
    """
    return [PYTHON, "-m", "pytest", "-q", "-rs", "--durations=15", "-p", "no:cacheprovider", *PARALLEL, *arguments]


def pytest_alone(*tests: str) -> list[str]:
    """Returns the command that runs Python tests in one process, because they share things that are slow to make: a wheel, root
    file systems.
    """
    return pytest("-n", "0", *tests)


def python_of(preset: str, *tests: str, asan: bool = False, budget_s: int = 0) -> Step:
    """Returns the command that runs tests of the Python package with the extension that the preset builds."""
    command = [PYTHON, "scripts/check_package.py", str(BUILD / preset), *["--asan"] * asan, *PARALLEL, *tests]
    return Step(f"{preset}-python", "pytest", [*build(preset, "python_package"), command], SWEEP, budget_s)


def install(build: Path, *options: str) -> list[list[str]]:
    """Returns the commands that install a build into build/installed, and try it as C programs use it."""
    installed = str(BUILD / "installed")
    return [["cmake", "--install", str(build), "--prefix", installed, *options], [PYTHON, "scripts/check_install.py", installed]]


def levels_below() -> tuple[str, ...]:
    """Returns the CPU levels below the machine's own. All other steps run at the machine's own level."""
    return ("c", "avx2") if "avx512bw" in Path("/proc/cpuinfo").read_text() else ("c",)


def at_levels(labels: str, budget_s: int = 0) -> list[Step]:
    """Returns the commands that run the tests with these labels at each CPU level below the machine's own."""
    tests = ctest("check", "-L", f"^({labels})$", "-E", SAME_AT_ALL_LEVELS)
    return [Step(f"level-{level}", "ctest", [tests], {"PENSTOCK_CPU_MASK": level}, budget_s) for level in levels_below()]


def check_steps() -> list[Step]:
    """Returns the steps that a change must pass."""
    cuda = [PYTHON, "scripts/check_cuda.py", "--built", str(PACKAGE_BUILD)]
    kernels = [Step("cuda", "script", [cuda], budget_s=12)] if shutil.which("nvcc") else []
    return [
        Step("rooms", "script", [[PYTHON, "scripts/check_rooms.py"], [PYTHON, "scripts/check_imports.py"]], budget_s=3),
        Step("style", "script", [[PYTHON, "scripts/check_style.py"]], budget_s=6),
        Step("docs", "script", [[PYTHON, "scripts/check_docs.py"]], budget_s=2),
        Step("figures", "script", [[PYTHON, "scripts/check_figures.py"]], budget_s=2),
        Step("ruff", "script", [[PYTHON, "-m", "ruff", "check", "."]], budget_s=2),
        Step("codespell", "script", [[PYTHON, "-m", "codespell_lib"]], budget_s=5),
        Step("scripts", "pytest", [pytest("tests/scripts")], budget_s=25),
        *kernels,
        Step("build", "script", build("check"), budget_s=165),
        Step("tidy", "script", [[PYTHON, "scripts/check_tidy.py", str(BUILD / "check")]], budget_s=8),
        Step("ctest", "ctest", [ctest("check", "-L", BY_LEVEL)], FEW, 75),
        Step("ctest-slow", "ctest", [ctest("check", "-R", ASAN_LEAVES_OUT, without=BY_LEVEL)], budget_s=45),
        *at_levels(KERNELS, 25),
        Step("circles", "script", [[PYTHON, "scripts/check_circles.py", str(BUILD / "check")]], budget_s=3),
        Step("symbols", "script", [[PYTHON, "scripts/check_symbols.py", str(BUILD / "check")]], budget_s=2),
        Step("abi", "script", [[PYTHON, "scripts/check_abi.py", str(BUILD / "check")]], budget_s=2),
        Step("build-asan", "script", build("asan"), budget_s=165),
        Step("asan", "ctest", [ctest("asan", "-E", ASAN_LEAVES_OUT)], ASAN, 150),
        python_of("asan", "python/tests/test_bad_input.py", "python/tests/test_dataset.py",
                  "python/tests/test_loader_arrays.py", "python/tests/test_writer.py", asan=True, budget_s=25),
        Step("build-tsan", "script", build("tsan", "threaded_tests"), budget_s=132),
        Step("tsan", "ctest", [ctest("tsan", "-L", THREADED, "-E", SLOW_WITH_TSAN)], TSAN, 80),
        # The package's build has all object files; only the libraries and the program are linked here.
        Step("install", "script", [
            ["cmake", "--build", str(PACKAGE_BUILD), "--target", "penstock", "penstock_static", "penstock_cli", "--", "--quiet"],
            *install(PACKAGE_BUILD, "--component", "Unspecified")], budget_s=6),
        Step("types", "script", [[PYTHON, "scripts/check_types.py"]], budget_s=30),
        Step("python", "pytest", [pytest("python/tests", "-m", "not long", *PARALLEL_WAITING)],
             {"PST_TEST_GPU": str(BUILD / "check" / "tests" / "device")}, 270),
    ]


def long_steps() -> list[Step]:
    """Returns the steps of check-long, which are too slow for every change. They repeat nothing of check_steps() except builds."""
    wide = "^(dataset|pli|decode|fault|cli)$"
    plain = BUILD / "plain"
    return [
        Step("long", "ctest", [*build("check"), ctest("check", long=True)]),
        Step("ctest-other", "ctest", [ctest("check", "-E", ASAN_LEAVES_OUT, without=BY_LEVEL)]),
        Step("ctest-few", "ctest", [ctest("check", "-R", HAS_FEW)]),
        Step("tidy", "script", [[PYTHON, "scripts/check_tidy.py", str(BUILD / "check"), "--all"]]),
        Step("coverage", "script", [*build("coverage"), [PYTHON, "scripts/coverage.py", str(BUILD / "coverage")]]),
        Step("members", "script", [[PYTHON, "scripts/check_members.py", str(BUILD / "check")]]),
        *at_levels("loader"),
        Step("python-long", "pytest", [pytest("python/tests", "-m", "long")]),
        Step("build-clang", "script", build("clang")),
        Step("clang-ctest", "ctest", [ctest("clang")]),
        python_of("clang", "python/tests"),
        Step("build-asan", "script", build("asan")),
        Step("asan-long", "ctest", [ctest("asan", long=True)], ASAN),
        Step("asan-slow", "ctest", [ctest("asan", "-R", SLOW_WITH_ASAN)], ASAN),
        python_of("asan", "python/tests", asan=True),
        Step("sounds", "pytest", [pytest("python/tests/test_sounds.py")], {"PENSTOCK_TEST_SOUNDS": "2000"}),
        Step("build-gcc-asan", "script", build("gcc-asan")),
        Step("gcc-asan", "ctest", [ctest("gcc-asan", "-E", "_slow$")], ASAN),
        Step("build-tsan", "script", build("tsan")),
        Step("tsan-wide", "ctest", [ctest("tsan", "-L", wide)], TSAN),
        Step("tsan-slow", "ctest", [ctest("tsan", "-R", SLOW_WITH_TSAN)], TSAN),
        Step("build-fuzz", "script", build("fuzz", "fuzz_targets")),
        Step("mixtures", "pytest", [pytest("python/tests/test_mixture_weights.py")], {"PENSTOCK_TEST_MIXTURES": "2000"}),
        Step("identities", "pytest", [pytest("python/tests/test_identity_pairs.py")], {"PENSTOCK_TEST_PAIRS": "200"}),
        Step("fuzz", "script", [[PYTHON, "scripts/fuzz.py", str(BUILD / "fuzz"), "--seconds", FUZZ_SECONDS]]),
        Step("options", "pytest", [pytest("python/tests/test_option_sets.py")], {"PENSTOCK_TEST_OPTIONS": "500"}),
        Step("interrupts", "pytest", [pytest("python/tests/test_interrupts.py")], {"PENSTOCK_TEST_INTERRUPTS": "1000"}),
        # Builds like `make install`, without Python.
        Step("install", "script", [
            ["cmake", "-G", "Ninja", "-S", ".", "-B", str(plain), "-DCMAKE_BUILD_TYPE=Release", "-DPST_CUDA=OFF",
             "--log-level=WARNING"],
            ["cmake", "--build", str(plain), "--", "--quiet"], *install(plain)]),
        Step("site", "script", [[PYTHON, "scripts/build_site.py"]]),
        Step("demo", "script", [[PYTHON, "examples/demo.py", "--out", str(BUILD / "demo-out")]]),
        Step("abi", "pytest", [pytest_alone("tests/scripts/abi_of_wheel.py")]),
        Step("mixtures-others", "pytest", [pytest_alone("tests/scripts/mixtures_of_others.py")]),
        Step("containers", "script", [[PYTHON, "scripts/check_containers.py"]]),
        Step("croissant", "script", [[PYTHON, "scripts/check_croissant.py"]]),
        Step("ray", "script", [[PYTHON, "scripts/check_ray.py"]]),
        Step("torchft", "script", [[PYTHON, "scripts/check_torchft.py"]]),
        Step("newest", "script", [[PYTHON, "scripts/check_newest.py"]]),
        Step("pages", "script", [[PYTHON, "scripts/check_pages.py"]]),
        Step("wheels", "script", [[PYTHON, "scripts/wheels.py"]]),
        Step("stranger", "pytest", [pytest_alone("tests/scripts/stranger_of_wheel.py")]),
    ]
