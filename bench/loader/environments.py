"""The virtual environments that hold the peers, their versions pinned in pins/<name>.txt.

Each is made once under BUILD/venv and kept; changed pins or packages bring it up to date. A failed installation is no error
here: its reason is returned, and replaces the figures in the table.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OWN = "own"  # name of the environment that runs the bench and has Penstock
ERROR = re.compile(r"^(error|fatal|e): |\w(Error|Exception): ", re.IGNORECASE)


@dataclass(frozen=True)
class Environment:
    packages: tuple[str, ...]
    # Packages that are installed last, without their dependencies: these are CUDA builds, or only needed on GPUs.
    alone: tuple[str, ...] = ()
    debian: tuple[str, ...] = ()
    beside: str = ""  # name of an environment whose packages are found after its own; saves a second torch of some GB


ENVIRONMENTS = {
    "torch": Environment(("torch", "numpy", "pillow", "webdataset", "pyzmq", "tornado", "scikit-build-core", "cmake", "ninja",
                          "setuptools"), ("torchvision", "tensorsocket")),
    "energon": Environment(("wids", "megatron-energon"), beside="torch"),
    "dali": Environment(("nvidia-dali-cuda130", "numpy", "pillow")),
    "tf": Environment(("tensorflow-cpu", "pillow")),
    "cv2": Environment(("opencv-python-headless",)),
    "ffcv": Environment(("numpy", "pillow", "numba", "opencv-python-headless", "pandas", "assertpy", "fastargs", "tqdm", "psutil",
                         "terminaltables", "setuptools", "wheel"),
                        ("ffcv",), ("build-essential", "pkg-config", "libopencv-dev", "libturbojpeg0-dev"), beside="torch"),
    # What a checkout of DLIO needs. PyPI's own dlio_benchmark pins a pydftracer that is too old for the source; mpich brings MPI.
    "dlio": Environment(("hydra-core", "omegaconf", "pandas", "psutil", "PyYAML", "h5py", "pydftracer", "mpi4py", "mpich"),
                        beside="torch"),
    "spdl": Environment(("spdl",), (), ("ffmpeg",), beside="torch"),
    "torchcodec": Environment(("torchcodec",), beside="torch"),
    "litdata": Environment(("litdata", "polars", "pyarrow"), beside="torch"),
    "hub": Environment(("datasets", "pyarrow", "pylance", "lmdb", "protobuf"), beside="torch"),
    "mosaic": Environment(("mosaicml-streaming",), beside="torch"),
    "mxnet": Environment(("mxnet", "numpy", "pillow")),
    "audio": Environment(("soundfile",), ("torchaudio",), beside="torch"),
}


def site_of(build: Path, name: str) -> Path:
    """Returns the directory of an environment's packages (site-packages)."""
    return next((build / "venv" / name / "lib").glob("python*/site-packages"))


def python_of(build: Path, name: str) -> Path:
    """Returns the path of an environment's Python interpreter, also for OWN."""
    if name == OWN:
        return Path(sys.executable)
    return build / "venv" / name / "bin" / "python"


def reason_of(output: str) -> str:
    """Returns the first line of a tool's output that names an error. The last lines of pip only repeat it in general words."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if ERROR.search(line) and "subprocess-exited" not in line]
    return (errors or lines[-1:] or ["no output"])[0][:200]


def run(build: Path, command: list[str]) -> str | None:
    """Runs a command; returns None or the reason of its failure. All output goes into install.log."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"})
    with (build / "install.log").open("a") as log:
        log.write(f"$ {' '.join(command)}\n{done.stdout}")
    return reason_of(done.stdout) if done.returncode else None


def is_installed(package: str) -> bool:
    query = ["dpkg-query", "-W", "-f=${Status}", package]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.endswith("ok installed")


def install_debian(build: Path, packages: tuple[str, ...]) -> str | None:
    """Installs packages of the system by apt. If that is not possible (no Debian, no rights), it returns the reason, and peers that
    need them are absent.
    """
    try:
        missing = [package for package in packages if not is_installed(package)]
    except FileNotFoundError:
        return None
    if not missing:
        return None
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    install = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "--no-install-recommends",
               *missing]
    try:
        if run(build, install) is None:
            return None
        run(build, [*as_root, "apt-get", "update"])  # the lists of packages may be old or missing
        return run(build, install)
    except FileNotFoundError:
        return f"missing: {' '.join(missing)}"


def prepare(build: Path, name: str) -> str | None:
    """Makes an environment. Returns None, or the reason why it could not be made."""
    wanted = ENVIRONMENTS[name]
    if wanted.beside and (problem := prepare(build, wanted.beside)):
        return problem
    pins = HERE / "pins" / f"{name}.txt"
    stamp = hashlib.sha256(repr(wanted).encode() + pins.read_bytes()).hexdigest()
    ready = build / "venv" / name / "ready"
    if ready.exists() and ready.read_text() == stamp:
        return None
    print(f"installing {name}", file=sys.stderr, flush=True)
    python = python_of(build, name)
    pip = [str(python), "-m", "pip", "install", "-q", "-c", str(pins)]
    problem = install_debian(build, wanted.debian)
    if problem is None and not python.exists():
        problem = run(build, [sys.executable, "-m", "venv", str(python.parents[1])])
    if problem is None and wanted.beside:
        (site_of(build, name) / "beside.pth").write_text(f"{site_of(build, wanted.beside)}\n")
    problem = problem or run(build, [*pip, *wanted.packages])
    if wanted.alone and problem is None:
        problem = run(build, [*pip, "--no-deps", "--no-build-isolation", *wanted.alone])
    if problem is None:
        ready.write_text(stamp)
    elif wanted.debian:
        problem += f" (it needs {', '.join(wanted.debian)})"
    return problem


def variables(build: Path, name: str | None, **more: str) -> dict[str, str]:
    """Returns the environment variables for an environment's processes: with them torchvision finds the stub libraries that replace
    CUDA's.
    """
    has_torch = name in ENVIRONMENTS and "torch" in (name, ENVIRONMENTS[name].beside)
    stand_in = {"LD_LIBRARY_PATH": str(build / "stand_in")} if has_torch else {}
    return {**os.environ, **stand_in, **more}


def install(build: Path, names: Iterable[str], penstock: bool = True) -> dict[str, str]:
    """Makes the environments of these names, and "torch" with Penstock of the present tree, which the bench cannot do without.
    Returns the environments that could not be made, with the reasons.
    """
    build.mkdir(parents=True, exist_ok=True)
    absent = {name: reason for name in dict.fromkeys(["torch", *names]) if name != OWN and (reason := prepare(build, name))}
    if "torch" in absent:
        sys.exit(f"the environment torch did not install: {absent['torch']} (see {build}/install.log)")
    if penstock and (reason := prepare_penstock(build)):
        sys.exit(f"penstock did not install: {reason} (see {build}/install.log)")
    subprocess.run(["bash", HERE / "stand_in_cuda.sh", build / "venv" / "torch", build / "stand_in"], check=True)
    return absent


def prepare_penstock(build: Path) -> str | None:
    """Installs Penstock from the present tree into the environment "torch"."""
    return run(build, [str(python_of(build, "torch")), "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps",
                       str(ROOT / "python")])
