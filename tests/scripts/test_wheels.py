"""The scripts that build wheels and releases, as far as they can be tested without building (stranger_of_wheel.py builds them)."""

import io
import json
import re
import tarfile
import tomllib

import pytest

import dependencies
import release
import wheels
from dependencies import ROOT


def test_every_source_is_pinned_and_has_a_licence():
    pins = dependencies.pins()
    assert {name for name, pin in pins.items() if not pin.get("tool")} == set(dependencies.OPTIONS)
    for pin in pins.values():
        assert pin["licence"] and pin["spdx"] and len(pin["files"]) == 2
        assert all(re.fullmatch(r"[0-9a-f]{64}", total) for total in pin["files"].values())


def test_every_tool_is_pinned_with_a_hash():
    lines = [line for line in wheels.PINNED_TOOLS.read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z-]+==[\d.]+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)


def test_a_source_with_another_sum_is_refused(tmp_path):
    name, pin = next(iter(dependencies.pins().items()))
    file = next(iter(pin["files"]))
    assert file in dependencies.missing(pin, tmp_path)
    (tmp_path / file).write_bytes(b"other")
    with pytest.raises(SystemExit, match="SHA-256"):
        dependencies.missing(pin, tmp_path)


def test_a_source_is_patched(tmp_path):
    """Unpacking applies the patches of the series in order, and copies Penstock's CMakeLists.txt into the tree."""
    sources = tmp_path / "sources"
    sources.mkdir()
    patch = b"--- a/file.c\n+++ b/file.c\n@@ -1 +1 @@\n-old\n+new\n"
    trees = {"one.orig.tar.gz": {"zlib-1/file.c": b"old\n"},
             "one.debian.tar.xz": {"debian/patches/series": b"# none\nfix.patch\n", "debian/patches/fix.patch": patch}}
    for name, files in trees.items():
        with tarfile.open(sources / name, "w:" + name.rsplit(".", 1)[1]) as archive:
            for path, data in files.items():
                member = tarfile.TarInfo(path)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    pin = {"files": {name: dependencies.sha256(sources / name) for name in trees}}
    folder = dependencies.unpack("zlib", pin, sources, tmp_path / "work")
    assert (folder / "file.c").read_text() == "new\n"
    assert (folder / "CMakeLists.txt").read_text() == (ROOT / "third_party" / "zlib" / "CMakeLists.txt").read_text()


def test_the_toolchain_names_the_glibc_and_no_folder_of_this_machine_stays(tmp_path):
    wheels.write_toolchain(tmp_path, tmp_path / "zig", "aarch64")
    program = (tmp_path / "cc").read_text()
    assert "-target aarch64-linux-gnu.2.17" in program and f"-ffile-prefix-map={ROOT}=." in program
    assert "set(CMAKE_SYSTEM_PROCESSOR aarch64)" in (tmp_path / "toolchain.cmake").read_text()


def test_the_sdist_describes_what_lies_in_it():
    project = release.sdist_project()
    table = tomllib.loads(project)
    build = table["tool"]["scikit-build"]
    paths = [build["cmake"]["source-dir"], *build["wheel"]["packages"], build["metadata"]["version"]["input"],
             table["project"]["readme"], *table["project"]["license-files"]]
    assert all((ROOT / path).exists() for path in paths)
    assert all(any(path == kept or path.startswith(kept + "/") for kept in release.IN_SDIST) for path in paths)
    text = release.metadata(project).decode()
    assert f"\nVersion: {release.version()}\n" in text and "\nRequires-Dist: numpy" in text


@pytest.mark.parametrize("package", ["python", "python/cuda"])
def test_what_an_index_shows(package):
    """The package's page on an index shows only the README, so links into this repository would lead nowhere."""
    table = tomllib.loads((ROOT / package / "pyproject.toml").read_text())["project"]
    readme = (ROOT / package / table["readme"]).read_text()
    assert not [link for link in re.findall(r"\]\(([^)]*)\)", readme) if not link.startswith(("https://", "#"))]
    for needs in table.get("optional-dependencies", {}).values():
        assert all("<" not in need and "==" not in need for need in needs), needs  # unless a newer version is known to fail


def test_the_summary_and_versions_of_the_package():
    table = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text())["project"]
    assert "images and sound" in table["description"]
    least = table["requires-python"].removeprefix(">=")
    assert f"Programming Language :: Python :: {least}" in table["classifiers"]


def test_the_bill_of_materials_lists_every_library(tmp_path):
    found = json.loads(release.sbom(tmp_path, 1_700_000_000).read_text())
    assert found["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    assert {part["name"] for part in found["components"]} == {*dependencies.OPTIONS, "kissfft"}
    assert all(part["licenses"][0]["expression"] for part in found["components"])


def test_notes_are_the_section_of_the_version(tmp_path):
    text = release.notes(tmp_path).read_text()
    assert text.startswith(f"# Penstock {release.version()}\n") and "\n## " not in text and len(text) > 1000
