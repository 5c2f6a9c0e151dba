#!/usr/bin/env python3
"""Compiles all kernels for the architectures of libpenstock_cuda, and prints their resources.

    scripts/check_cuda.py [--root DIR] [--nvcc NVCC] [--only FILE ...] [--built DIR] [--json]

With --built, kernels are not compiled again for architectures that the build in DIR has machine code for: nvcc's log there is read.
The script prints a table of registers, stack, spills and static shared memory per kernel and architecture, with the number of warps
that fit on one multiprocessor by their registers. The exit status is 1 if a kernel does not compile, spills registers, or
keeps a stack: the stack lies in local memory, which is the GPU's global memory, so such a kernel is far slower than its source
suggests. Without nvcc the exit status is 77 (skipped).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

# The oldest architecture is shipped as PTX. It is compiled here, too, as a driver would compile it.
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100")
# Limits of one multiprocessor: warps, and 32-bit registers.
ROOM = {"sm_75": (32, 65536), "sm_80": (64, 65536), "sm_90": (64, 65536), "sm_100": (64, 65536)}
REGISTERS_STEP = 8  # the registers of a thread are allocated in steps of 8
SKIPPED = 77

FILES = re.compile(r"set\(PST_CUDA_KERNELS([^)]*)\)")
KERNEL = re.compile(r"\bPSTI_KERNEL\(\s*(\w+)\s*,[^,;]+,[^,;]+,\s*([^,;]+?)\s*,\s*([^,;)]+?)\s*\)")
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\d+)\w?'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


@dataclass
class Kernel:
    file: str
    name: str
    architecture: str
    registers: int = 0
    stack_nbytes: int = 0
    spill_nbytes: int = 0
    shared_nbytes: int = 0

    @property
    def warps(self) -> int:
        """Returns how many warps fit on one multiprocessor by their registers."""
        most, registers = ROOM[self.architecture]
        step = -(-max(self.registers, 1) // REGISTERS_STEP) * REGISTERS_STEP
        return min(most, registers // (32 * step))


def kernel_files(root: Path) -> list[Path]:
    """Returns the kernel files that src/gpu/CMakeLists.txt lists."""
    folder = root / "src" / "gpu"
    listed = FILES.search((folder / "CMakeLists.txt").read_text())
    return [folder / name for name in listed[1].split()] if listed else []


def parse(file: str, output: str) -> list[Kernel]:
    """Parses the output of ptxas -v, kernel by kernel. The stack of a function that was not inlined is added to that of its
    kernel.
    """
    kernels: list[Kernel] = []
    for line in output.splitlines():
        if entry := ENTRY.search(line):
            kernels.append(Kernel(file, entry[1], entry[2]))
        elif kernels and (stack := STACK.search(line)):
            kernels[-1].stack_nbytes += int(stack[1])
            kernels[-1].spill_nbytes += int(stack[2]) + int(stack[3])
        elif kernels and (used := USED.search(line)):
            kernels[-1].registers = int(used[1])
            shared = SHARED.search(line)
            kernels[-1].shared_nbytes = int(shared[1]) if shared else 0
    return kernels


def built_log(built: Path, root: Path, path: Path) -> str:
    """Returns nvcc's log from when the build compiled a file; nothing if a header or a kernel has changed since."""
    logs = sorted(built.rglob(f"{path.stem}.fatbin.log"))
    sources = [source for source in (root / "src").rglob("*") if source.suffix in (".cu", ".cuh", ".h")]
    newest = max(source.stat().st_mtime for source in sources)
    return logs[0].read_text() if len(logs) == 1 and logs[0].stat().st_mtime > newest else ""


def compile_file(nvcc: str, root: Path, path: Path, architecture: str) -> tuple[list[Kernel], list[str]]:
    """Compiles one file for one architecture. Returns its kernels and their faults."""
    where = path.relative_to(root).as_posix()
    number = architecture.removeprefix("sm_")
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            [nvcc, "-std=c++17", "-cubin", "-fmad=false", "-Xptxas", "-v", "-I", str(root / "src"),
             "-I", str(root / "include"), "-gencode", f"arch=compute_{number},code={architecture}",
             str(path), "-o", str(Path(folder) / "kernels.cubin")],
            capture_output=True, text=True, check=False)
    output = result.stdout + result.stderr
    if result.returncode != 0:
        return [], [f"{where}: {architecture}: does not compile\n{output}"]
    return judge(root, path, architecture, parse(where, output))


def judge(root: Path, path: Path, architecture: str, kernels: list[Kernel]) -> tuple[list[Kernel], list[str]]:
    """Finds the faults of a file's kernels for one architecture: missing kernels, stacks and spills. Returns the kernels and the
    faults.
    """
    where = path.relative_to(root).as_posix()
    wanted = {match[1] for match in KERNEL.finditer(path.read_text())}
    found = {kernel.name for kernel in kernels}
    findings = [f"{where}: {architecture}: {name} was not compiled" for name in sorted(wanted - found)]
    for kernel in kernels:
        if kernel.stack_nbytes or kernel.spill_nbytes:
            findings.append(f"{where}: {architecture}: {kernel.name} keeps {kernel.stack_nbytes} bytes in local memory, "
                            f"{kernel.spill_nbytes} bytes of spills")
    return kernels, findings


def look_at(nvcc: str, root: Path, built: Path | None, path: Path, architecture: str) -> tuple[list[Kernel], list[str]]:
    """Returns the kernels of one file for one architecture, with their faults: from the build's log, or compiled now."""
    known = parse(path.relative_to(root).as_posix(), built_log(built, root, path) if built else "")
    known = [kernel for kernel in known if kernel.architecture == architecture]
    return judge(root, path, architecture, known) if known else compile_file(nvcc, root, path, architecture)


def table(kernels: list[Kernel]) -> str:
    lines = [f"{'kernel':32} {'arch':7} {'registers':>9} {'warps':>6} {'shared':>7} {'stack':>6} {'spills':>7}"]
    for kernel in sorted(kernels, key=lambda k: (k.file, k.name, int(k.architecture.removeprefix("sm_")))):
        lines.append(f"{kernel.name:32} {kernel.architecture:7} {kernel.registers:9} {kernel.warps:6} "
                     f"{kernel.shared_nbytes:7} {kernel.stack_nbytes:6} {kernel.spill_nbytes:7}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--nvcc", default=shutil.which("nvcc"))
    parser.add_argument("--only", nargs="+", metavar="FILE", help="names of kernel files, listed or not")
    parser.add_argument("--built", type=Path, metavar="DIR", help="a build with the kernels")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    if not arguments.nvcc:
        print("cuda: no nvcc, nothing was compiled")
        return SKIPPED
    files = [root / "src" / "gpu" / name for name in arguments.only] if arguments.only else kernel_files(root)
    if not files:
        print("cuda: there are no kernels")
        return 0
    work = [(path, architecture) for path in files for architecture in ARCHITECTURES]
    kernels: list[Kernel] = []
    findings: list[str] = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for found, wrong in pool.map(lambda job: look_at(arguments.nvcc, root, arguments.built, *job), work):
            kernels += found
            findings += wrong
    if arguments.json:
        print(json.dumps([asdict(kernel) | {"warps": kernel.warps} for kernel in kernels], indent=1))
    else:
        print(table(kernels))
    print("\n".join(findings) if findings else f"cuda: {len(files)} files, no spills, no local memory",
          file=sys.stderr if arguments.json else sys.stdout)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
