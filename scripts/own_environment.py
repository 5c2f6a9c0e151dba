"""A virtual environment of third-party packages, kept in build/. check_ray.py and check_torchft.py run tests of the package in
it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 3600  # seconds for one installation, which may fetch and build half a gigabyte
NO_INDEX = "No matching distribution"  # pip's message, also if no index answers


@dataclass(frozen=True)
class OwnEnvironment:
    """A virtual environment.

    Attributes:
        name: name of its folder in build/. It is made if it is missing or has other packages.
        packages: what pip installs.
        beside: site-packages of another environment, for packages that pip does not install.
    """

    name: str
    packages: tuple[str, ...]
    beside: Path | None = None

    @property
    def folder(self) -> Path:
        return ROOT / "build" / self.name

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def install(self) -> str | None:
        """Makes the environment. Returns the last line of pip's output if that failed."""
        ready, wanted = self.folder / "ready", "\n".join((*self.packages, str(self.beside)))
        if ready.is_file() and ready.read_text() == wanted:
            return None
        subprocess.run([sys.executable, "-m", "venv", "--clear", self.folder], check=True)
        if self.beside is not None:
            [site] = self.folder.glob("lib/python*/site-packages")
            (site / "beside.pth").write_text(f"{self.beside}\n")
        command = [self.python, "-m", "pip", "install", "--quiet", "--retries", "1", *self.packages]
        done = subprocess.run(command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=LIMIT_S)  # fmt: skip
        if done.returncode != 0:
            return (done.stdout.strip().splitlines() or ["pip failed"])[-1]
        ready.write_text(wanted)
        return None

    def run(self, build: str, *words: str | Path) -> int:
        """Runs pytest with the package of that build. Returns its exit status."""
        package = Path(build).resolve() / "tests" / "python"
        environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1", "RAY_USAGE_STATS_ENABLED": "0"}
        command = [self.python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *words]
        return subprocess.run(command, cwd=ROOT, env=environment).returncode
