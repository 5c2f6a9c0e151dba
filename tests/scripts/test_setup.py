"""setup.sh on machines that lack packages: as root, with sudo, and with neither. Small programs replace the machine's own."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parents[2] / "scripts" / "setup.sh"


class Machine:
    """Makes a PATH of its own: dpkg-query reads the packages in the file `installed`, apt-get appends to it and writes a log."""

    def __init__(self, folder: Path, uid: int, sudo: bool, lists_are_fresh: bool = True):
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.installed = folder / "installed"
        self.installed.write_text("")
        self.log = folder / "log"
        self.log.write_text("")
        self.fresh = folder / "fresh"
        if lists_are_fresh:
            self.fresh.write_text("")
        for tool in ("sh", "cut", "env", "cat", "grep", "touch", "true"):
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.program("id", f"echo {uid}")
        self.program("dpkg-query", f'for last; do :; done; grep -qx "$last" {self.installed} && '
                                   'echo "install ok installed"')
        self.program("apt-get", f"""
echo "$@" >>{self.log}
if [ "$1" = update ]; then touch {self.fresh}; exit 0; fi
[ -f {self.fresh} ] || exit 100
for word; do case "$word" in -*|install) ;; *) echo "$word" >>{self.installed} ;; esac; done""")
        if sudo:
            self.program("sudo", f'echo "sudo" >>{self.log}; [ "$1" = -n ] && shift; exec "$@"')

    def program(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([str(self.bin / "sh"), str(SETUP), *arguments], env={"PATH": str(self.bin)},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def add_everything(self) -> None:
        names = [word for line in SETUP.read_text().splitlines() if line.startswith(("for_", "lib"))
                 for word in line.partition("=")[2].split() or line.split()]
        text = " ".join(names) + " " + SETUP.read_text()
        self.installed.write_text("\n".join(sorted(set(text.replace('"', " ").split()))) + "\n")


def test_nothing_is_done_when_all_is_there(tmp_path):
    machine = Machine(tmp_path, uid=1000, sudo=False)
    machine.add_everything()
    done = machine.run("check")
    assert done.returncode == 0 and done.stdout == "" and done.stderr == ""
    assert machine.log.read_text() == ""


def test_neither_root_nor_sudo_prints_the_exact_list(tmp_path):
    machine = Machine(tmp_path, uid=1000, sudo=False)
    machine.add_everything()
    kept = [line for line in machine.installed.read_text().splitlines() if line not in ("libpng-dev", "liburing-dev")]
    machine.installed.write_text("\n".join(kept) + "\n")
    done = machine.run()
    assert done.returncode == 1
    assert "apt-get install libpng-dev liburing-dev\n" in done.stderr
    assert machine.log.read_text() == ""


@pytest.mark.parametrize("uid, sudo", [(0, False), (0, True), (1000, True)])
def test_missing_packages_are_installed_once(tmp_path, uid, sudo):
    machine = Machine(tmp_path, uid=uid, sudo=sudo)
    assert machine.run("check").returncode == 0
    log = machine.log.read_text()
    assert "update" not in log and "libcmocka-dev" in log and "libjpeg-dev" in log
    assert ("sudo" in log) == (uid != 0)
    machine.log.write_text("")
    assert machine.run("check").returncode == 0
    assert "install" not in machine.log.read_text()


def test_stale_package_lists_are_renewed(tmp_path):
    machine = Machine(tmp_path, uid=0, sudo=False, lists_are_fresh=False)
    assert machine.run().returncode == 0
    assert "update" in machine.log.read_text()
    assert "gcc" in machine.installed.read_text().split()


def test_a_package_that_cannot_be_had_is_an_error(tmp_path):
    machine = Machine(tmp_path, uid=0, sudo=False)
    machine.program("apt-get", "echo no such package >&2; exit 100")
    done = machine.run()
    assert done.returncode != 0 and "no such package" in done.stderr


def test_the_sanitizers_runtime_goes_with_clangs_version(tmp_path):
    machine = Machine(tmp_path, uid=0, sudo=False)
    machine.program("clang", "echo 14.0.6")
    assert machine.run("fuzz").returncode == 0
    assert "libclang-rt-14-dev" in machine.installed.read_text().split()


def test_unknown_argument(tmp_path):
    assert Machine(tmp_path, uid=0, sudo=False).run("everything").returncode == 2


def test_the_real_script_is_executable():
    assert os.access(SETUP, os.X_OK)


def test_check_brings_the_sanitizers_of_clang(tmp_path):
    """`make check` builds with clang's AddressSanitizer. The name of its package contains the version of the installed clang."""
    machine = Machine(tmp_path, uid=0, sudo=False)
    machine.add_everything()
    machine.program("clang", "echo 21.1.0")
    assert machine.run("build").stdout == ""
    assert machine.run("check").returncode == 0
    assert "libclang-rt-21-dev" in machine.installed.read_text().splitlines()
