#!/usr/bin/env python3
"""Tries the wheels in root file systems that have only Python and pip, and no network.

    scripts/stranger.py [--release CODENAME] [--arch amd64|arm64]

A root file system consists of packages of Debian or Ubuntu, unpacked below build/stranger. This needs root, apt and, the first
time, the network. In it pip installs the wheel of build/dist (scripts/wheels.py) from a folder of wheels, and
scripts/stranger_job.py packs, verifies and loads photographs. Programs for arm64 run under qemu. tests/scripts/stranger_of_wheel.py
has all cases; this runs one and prints what came out.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import dependencies
import release
import wheels
from dependencies import ROOT, apt_environment, run

WORK = ROOT / "build" / "stranger"
DIST = ROOT / "build" / "dist"
PHOTOGRAPHS = ROOT / "examples" / "photographs"
JOB = ROOT / "scripts" / "stranger_job.py"
# Packages of a root file system: Python, pip and the certificates that it loads, a shell; libstdc++ for numpy.
PACKAGES = ("python3", "python3-venv", "ca-certificates", "dash", "coreutils", "libstdc++6")
# More packages for an sdist: a compiler, Python's headers, and the programs that unpack and configure the libraries' sources.
COMPILER = ("gcc", "libc6-dev", "libpython3-dev", "make", "patch", "mawk", "sed", "grep", "diffutils", "findutils")
# The pinned tools (scripts/wheels.py) with which pip builds an sdist.
BUILD_TOOLS = ("cmake", "ninja", "packaging", "pathspec", "scikit-build-core")
UBUNTU = ("noble",)  # all other releases are Debian's
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
# Platform tags of numpy wheels that fit the glibcs of the tested releases.
PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_27", "manylinux_2_28")


class CannotTryError(Exception):
    """This machine cannot run the trial. The text gives the reason."""


def is_foreign(arch: str) -> bool:
    return MACHINES[arch] != os.uname().machine


def qemu() -> Path:
    found = shutil.which("qemu-aarch64-static")
    if not found:
        raise CannotTryError("no qemu-aarch64-static (Debian: qemu-user-static)")
    return Path(found)


def check_machine() -> None:
    if os.geteuid() != 0:
        raise CannotTryError("a root file system can be entered by root alone")
    if subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True).returncode != 0:
        raise CannotTryError("this machine gives no mounts and network of one's own (unshare)")


def ubuntu_archive(codename: str) -> str:
    """Returns the line of sources.list for a release of Ubuntu. It is signed with keys that Debian 13 has in a package."""
    keys = Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg")
    if not keys.exists():
        keys = WORK / "keyring" / keys.relative_to("/")
    if not keys.exists():
        with tempfile.TemporaryDirectory() as name:
            run("apt-get", "download", "ubuntu-keyring", cwd=Path(name), **apt_environment(Path(name) / "apt", "deb", "trixie"))
            [package] = Path(name).glob("ubuntu-keyring_*.deb")
            run("dpkg-deb", "-x", package, WORK / "keyring")
    return f"deb [signed-by={keys}] http://archive.ubuntu.com/ubuntu {codename} main universe"


def unpack_packages(codename: str, arch: str, root: Path, packages: tuple[str, ...]) -> None:
    """Fetches packages with their dependencies and unpacks them. No package is configured."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "apt"
        archive = ubuntu_archive(codename) if codename in UBUNTU else ""
        environment = apt_environment(folder, "deb", codename, arch, archive)
        run("apt-get", "install", "-y", "--no-install-recommends", "--download-only", *packages, **environment)
        for directory in ("bin", "sbin", "lib", "lib64"):
            (root / "usr" / directory).mkdir(parents=True, exist_ok=True)
            (root / directory).symlink_to(f"usr/{directory}")
        for package in sorted((folder / "cache" / "archives").glob("*.deb")):
            run("sh", "-c", f"dpkg-deb --fsys-tarfile {package} | tar -x --keep-directory-symlink -C {root}")
    for directory in ("proc", "dev", "tmp", "root", "job", "wheels"):
        (root / directory).mkdir(exist_ok=True)
    for name, program in (("sh", "dash"), ("awk", "mawk"), ("cc", "gcc")):  # links that configuring the packages would make
        if (root / "bin" / program).exists() and not (root / "bin" / name).exists():
            (root / "bin" / name).symlink_to(program)
    # A file that configuring ca-certificates would make.
    certificates = sorted((root / "usr" / "share" / "ca-certificates").rglob("*.crt"))
    bundle = root / "etc" / "ssl" / "certs" / "ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(path.read_text() for path in certificates))


def make_root(codename: str, arch: str, more: tuple[str, ...] = ()) -> Path:
    """Returns the root file system of a release of Debian or Ubuntu, with Python, pip and, if asked for, more packages. Makes it if
    it is missing.
    """
    check_machine()
    packages = (*PACKAGES, *more)
    root = WORK / "-".join((codename, arch, *more[:1]))
    stamp = root / "complete"
    if stamp.exists() and stamp.read_text() == " ".join(packages):
        return root
    if not shutil.which("apt-get"):
        raise CannotTryError("no apt-get here to make a root file system with")
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    try:
        unpack_packages(codename, arch, root, packages)
    except SystemExit as problem:
        raise CannotTryError(f"the packages of {codename} for {arch} cannot be fetched: {str(problem)[-300:]}") from None
    if is_foreign(arch):
        shutil.copy(qemu(), root / "usr" / "bin" / "qemu-static")
    stamp.write_text(" ".join(packages))
    return root


def enter(root: Path, arch: str, *command: str, read_only: str = "", check: bool = True,
          **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program inside a root file system, without network. `read_only`: a folder that is read-only meanwhile."""
    inside = shlex.quote(str(root))
    lines = ["set -e", f"mount -t proc proc {inside}/proc", f"mount --rbind /dev {inside}/dev",
             f"mount -t tmpfs tmpfs {inside}/tmp"]
    if read_only:
        lines += [f"mount --bind {inside}{read_only} {inside}{read_only}", f"mount -o remount,bind,ro {inside}{read_only}"]
    program = ["/usr/bin/qemu-static", f"/usr/bin/{command[0]}" if "/" not in command[0] else command[0],
               *command[1:]] if is_foreign(arch) else list(command)
    lines.append(f"exec chroot {inside} {shlex.join(program)}")
    settings = {"PATH": "/usr/bin:/usr/sbin", "HOME": "/root", "LC_ALL": "C.UTF-8", **environment}
    done = subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", "\n".join(lines)],
                          env=settings, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)} in {root.name} ended with {done.returncode}:\n"
                           f"{done.stdout[-3000:]}{done.stderr[-5000:]}")
    return done


def python_version(root: Path, arch: str) -> str:
    return enter(root, arch, "/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").stdout.strip()


def download(what: str, folder: Path, *arguments: str) -> None:
    """Downloads wheels into a folder by pip, without their dependencies."""
    done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                           "--only-binary", ":all:", "--dest", str(folder), *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise CannotTryError(f"{what} cannot be fetched: {done.stderr[-300:]}")


def numpy_wheel(version: str, arch: str) -> Path:
    """Returns the wheel of numpy for a Python version. Fetches it if it is missing."""
    folder = WORK / "numpy" / f"{version}-{arch}"
    if not list(folder.glob("*.whl")):
        platforms = sum((["--platform", f"{name}_{MACHINES[arch]}"] for name in PLATFORMS), [])
        download(f"numpy for Python {version} on {arch}", folder, "--python-version", version, *platforms, "--constraint",
                 str(ROOT / "python" / "constraints.txt"), "numpy")
    return next(folder.glob("*.whl"))


def fetch_pinned(with_tools: bool) -> None:
    """Fetches the pinned sources of the libraries, and the tools that build wheels."""
    try:
        dependencies.fetch(dependencies.sources_folder())
        if with_tools:
            wheels.make_tools()
    except SystemExit as problem:
        raise CannotTryError(f"the pinned sources and tools cannot be fetched: {str(problem)[-300:]}") from None


def make_wheel(arch: str) -> None:
    fetch_pinned(with_tools=True)
    run(sys.executable, ROOT / "scripts" / "wheels.py", "--packages", "penstock", "--arch", MACHINES[arch])


def wheel_of(arch: str) -> Path:
    """Returns the wheel that scripts/wheels.py built for a processor. Builds it if it is missing, or always if
    STRANGER_WHEEL=fresh.
    """
    pattern = f"penstock-*-manylinux*_{MACHINES[arch]}.whl"
    if os.environ.get("STRANGER_WHEEL") == "fresh" or not list(DIST.glob(pattern)):
        make_wheel(arch)
    [wheel] = DIST.glob(pattern)
    return wheel


def build_tools() -> list[Path]:
    """Returns the wheels of the tools that build an sdist. Fetches them if they are missing."""
    folder = WORK / "build-tools"
    lines = [line for line in wheels.PINNED_TOOLS.read_text().splitlines() if line.split("==")[0] in BUILD_TOOLS]
    if len(list(folder.glob("*.whl"))) != len(lines):
        folder.mkdir(parents=True, exist_ok=True)
        pins = folder / "pins.txt"
        pins.write_text("\n".join(lines) + "\n")
        download("what builds an sdist", folder, "--require-hashes", "-r", str(pins))
    return sorted(folder.glob("*.whl"))


def make_sdist() -> Path:
    """Makes the sdist of the last commit as `make release` does."""
    fetch_pinned(with_tools=False)
    out = WORK / "sdist"
    out.mkdir(parents=True, exist_ok=True)
    return release.sdist(out, int(wheels.last_commit_time()))


def prepare_home(root: Path, packages: list[Path]) -> None:
    """Copies packages and the job into the root file system, and removes those of an earlier installation."""
    for name in ("wheels", "job", "env"):
        shutil.rmtree(root / name, ignore_errors=True)
    (root / "wheels").mkdir()
    for package in packages:
        shutil.copy(package, root / "wheels")
    shutil.copytree(PHOTOGRAPHS, root / "job" / "photographs")
    shutil.copy(JOB, root / "job")


def install_sdist(root: Path, arch: str) -> str:
    """Makes a virtual environment in the root file system, in which pip builds and installs the sdist. Returns the environment's
    Python.
    """
    prepare_home(root, [make_sdist(), numpy_wheel(python_version(root, arch), arch), *build_tools()])
    enter(root, arch, "/usr/bin/python3", "-m", "venv", "/env")
    enter(root, arch, "/env/bin/pip", "install", "--no-index", "--find-links", "/wheels", "penstock")
    return "/env/bin/python"


def install(root: Path, arch: str, with_numpy: bool = True) -> str:
    """Makes a virtual environment in the root file system and installs the wheel. Returns the environment's Python."""
    prepare_home(root, [wheel_of(arch), *([numpy_wheel(python_version(root, arch), arch)] if with_numpy else [])])
    options = ["install", "--no-index", "--find-links", "/wheels", *(["--no-deps"] if not with_numpy else []), "penstock"]
    if is_foreign(arch):  # qemu runs one program only; pip and venv start others
        [pip] = (root / "usr" / "share" / "python-wheels").glob("pip-*.whl")
        enter(root, arch, "/usr/bin/python3", "-m", "venv", "--without-pip", "/env")
        site = f"/env/lib/python{python_version(root, arch)}/site-packages"
        enter(root, arch, "/usr/bin/python3", f"/usr/share/python-wheels/{pip.name}/pip", *options, "--no-compile",
              "--target", site)
    else:
        enter(root, arch, "/usr/bin/python3", "-m", "venv", "/env")
        enter(root, arch, "/env/bin/pip", *options)
    return "/env/bin/python"


def job(root: Path, arch: str, python: str, *arguments: str, flags: tuple[str, ...] = (), read_only: str = "",
        **environment: str) -> dict[str, str]:
    """Runs the job in the root file system. Returns its results."""
    done = enter(root, arch, python, *flags, "/job/stranger_job.py", "/job/photographs", "/tmp", *arguments, read_only=read_only,
                 **environment)
    return json.loads(done.stdout.splitlines()[-1])


def reference() -> dict[str, str]:
    """Returns the job's results with this Python's package, which this machine's compiler built."""
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([sys.executable, str(JOB), str(PHOTOGRAPHS), out], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", dest="codename", default="bookworm")
    parser.add_argument("--arch", default="amd64", choices=tuple(MACHINES))
    arguments = parser.parse_args()
    try:
        root = make_root(arguments.codename, arguments.arch)
        python = install(root, arguments.arch)
        print(json.dumps(job(root, arguments.arch, python), indent=2))
    except CannotTryError as problem:
        print(f"not tried: {problem}")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
