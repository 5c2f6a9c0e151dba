#!/usr/bin/env python3
"""Makes everything that a release consists of, from the last commit: `make release`.

    scripts/release.py [--out DIR] [--no-wheels] [--twice]

    penstock-V.tar.gz           sdist: pip builds it by itself, with the pinned sources of the libraries inside
    penstock-V-source.tar.gz    the repository as it is, for distributions
    penstock*.whl               wheels (scripts/wheels.py)
    sbom.cdx.json               what is built in, by CycloneDX 1.6, with licences and sums
    notes.md                    the version's section of CHANGELOG.md
    SHA256SUMS                  the sums of all of these

The bytes depend on the commit alone, because all times are the commit's. --twice makes everything a second time in another folder,
and compares.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import uuid
import zipfile
from pathlib import Path

import dependencies
from dependencies import ROOT, run, sha256

# The files that pip needs to build the package. All other files are only in the source archive.
IN_SDIST = ("CHANGELOG.md", "CMakeLists.txt", "LICENSE", "README.md", "cmake", "include", "python", "scripts/dependencies.py",
            "src", "third_party", "tools/penstock")
LEFT_OUT = re.compile(r"^python/(tests|cuda)/")
NAMESPACE = uuid.UUID("9d2c1e34-5f5a-5a0e-9a53-5ab0d3b6f7c1")


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def version() -> str:
    found = re.search(r"project\(penstock VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert found
    return found[1]


def write_gzip(path: Path, data: bytes) -> None:
    with path.open("wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as stream:
        stream.write(data)


def source_archive(out: Path) -> Path:
    path = out / f"penstock-{version()}-source.tar.gz"
    write_gzip(path, git("archive", "--format=tar", f"--prefix=penstock-{version()}/", "HEAD"))
    return path


def sdist_project() -> str:
    """Returns the pyproject.toml at the top of the sdist: python/pyproject.toml, with paths changed for the top folder."""
    text = (ROOT / "python" / "pyproject.toml").read_text()
    changes = [('readme = "README.md"', 'readme = "python/README.md"'),
               ('license-files = ["LICENSE", "LICENSE.kissfft"]', 'license-files = ["LICENSE", "python/LICENSE.kissfft"]'),
               ('build-dir = "../build/{wheel_tag}"', 'build-dir = "build/{wheel_tag}"'),
               ('wheel.packages = ["src/penstock"]', 'wheel.packages = ["python/src/penstock"]'),
               ('input = "../CMakeLists.txt"', 'input = "CMakeLists.txt"'),
               ('[tool.scikit-build.cmake]\n', '[tool.scikit-build.cmake]\nsource-dir = "python"\n')]
    for old, new in changes:
        if text.count(old) != 1:
            sys.exit(f"python/pyproject.toml has no single line {old!r}")
        text = text.replace(old, new)
    return text


def metadata(project: str) -> bytes:
    """Returns PKG-INFO: name, version, and the fields that pip reads before it builds."""
    table = tomllib.loads(project)["project"]
    lines = ["Metadata-Version: 2.4", "Name: penstock", f"Version: {version()}", f"Summary: {table['description']}",
             f"License-Expression: {table['license']}", *[f"License-File: {name}" for name in table["license-files"]],
             *[f"Classifier: {name}" for name in table["classifiers"]], f"Requires-Python: {table['requires-python']}",
             *[f"Requires-Dist: {need}" for need in table["dependencies"]]]
    for extra, needs in table["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *[f'Requires-Dist: {need}; extra == "{extra}"' for need in needs]]
    return ("\n".join(lines) + "\n").encode()


def sdist(out: Path, when: int) -> Path:
    top = f"penstock-{version()}"
    project = sdist_project()
    made = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", "HEAD", *IN_SDIST))) as tracked, \
            tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member in tracked:
            if member.isdir() or LEFT_OUT.match(member.name):
                continue
            data = tracked.extractfile(member) if member.isfile() else None
            member.name, member.pax_headers = f"{top}/{member.name}", {}
            archive.addfile(member, data)
        sources = dependencies.sources_folder()
        more = {"pyproject.toml": project.encode(), "PKG-INFO": metadata(project)}
        more |= {f"third_party/sources/{name}": (sources / name).read_bytes()
                 for pin in dependencies.pins().values() for name in pin["files"]}
        for name, data in sorted(more.items()):
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size, member.mtime, member.mode = len(data), when, 0o644
            archive.addfile(member, io.BytesIO(data))
    path = out / f"{top}.tar.gz"
    write_gzip(path, made.getvalue())
    return path


def sbom(out: Path, when: int) -> Path:
    def component(name: str, number: str, licence: str, files: dict[str, str]) -> dict:
        references = [{"type": "source-distribution", "url": file, "hashes": [{"alg": "SHA-256", "content": total}]}
                      for file, total in files.items()]
        return {"type": "library", "bom-ref": f"{name}@{number}", "name": name, "version": number,
                "licenses": [{"expression": licence}], **({"externalReferences": references} if references else {})}

    parts = [component(name, pin["version"], pin["spdx"], pin["files"])
             for name, pin in dependencies.pins().items() if not pin.get("tool")]
    parts.append(component("kissfft", "6e9e673e420c4bf47d4a60c57c578f93e4ec192f", "BSD-3-Clause", {}))
    whole = component("penstock", version(), "Apache-2.0", {})
    found = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
             "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, git('rev-parse', 'HEAD').decode().strip())}",
             "metadata": {"timestamp": f"{timestamp(when)}", "component": whole}, "components": parts,
             "dependencies": [{"ref": whole["bom-ref"], "dependsOn": [part["bom-ref"] for part in parts]}]}
    path = out / "sbom.cdx.json"
    path.write_text(json.dumps(found, indent=2) + "\n")
    return path


def timestamp(when: int) -> str:
    return datetime.datetime.fromtimestamp(when, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def notes(out: Path) -> Path:
    text = (ROOT / "CHANGELOG.md").read_text()
    found = re.search(rf"^## {re.escape(version())}\b.*?$(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
    if not found:
        sys.exit(f"CHANGELOG.md has no section {version()}")
    path = out / "notes.md"
    path.write_text(f"# Penstock {version()}\n\n{found[1].strip()}\n")
    return path


def make(out: Path, with_wheels: bool) -> list[Path]:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    when = int(git("log", "-1", "--format=%ct"))
    os.environ["SOURCE_DATE_EPOCH"] = str(when)
    dependencies.fetch(dependencies.sources_folder())
    files = [sdist(out, when), source_archive(out), sbom(out, when), notes(out)]
    if with_wheels:
        run(sys.executable, ROOT / "scripts" / "wheels.py", "--out", out, WHEELS_WORK=str(out.parent / f"{out.name}-work"))
        files += sorted(out.glob("*.whl"))
        for wheel in files[4:]:
            assert zipfile.ZipFile(wheel).testzip() is None
    sums = out / "SHA256SUMS"
    sums.write_text("".join(f"{sha256(path)}  {path.name}\n" for path in sorted(files)))
    return [*files, sums]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--no-wheels", action="store_true")
    parser.add_argument("--twice", action="store_true")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    if git("status", "--porcelain", "--untracked-files=no"):
        print("what is not committed is not in the archives", file=sys.stderr)
    files = make(out, not arguments.no_wheels)
    if arguments.twice:
        again = make(out.with_name(out.name + "-again"), not arguments.no_wheels)
        differ = [path.name for path, other in zip(files, again, strict=True) if path.read_bytes() != other.read_bytes()]
        if differ:
            sys.exit(f"two runs gave other bytes: {', '.join(differ)}")
        print("two runs gave the same bytes")
    print("\n".join(f"{path.stat().st_size / 1e6:8.2f} MB  {path}" for path in files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
