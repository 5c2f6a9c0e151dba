"""The blocks of README.md, of the guide and of pages of docs run unchanged, one after another, as a reader would try them.
run_page.py runs a page; this file chooses the pages and folders."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import find_references
from page_folder import GUIDE, PHOTOGRAPHS, ROOT, environment, make_folder
from run_page import BLOCK_OF_PEER, USES_TORCHVISION

# Pages outside of the guide, with the numbers of their blocks that run; other blocks are only fragments.
PAGES = {"README.md": 3, "docs/python.md": 12, "docs/images.md": 5, "docs/detection.md": 5}
# Packages that pages need; test_peers handles others.
NEEDS = ("torch", "lightning", "transformers", "accelerate", "pycocotools", "torchmetrics", "ignite", "timm",
         "albumentations", "ultralytics")


IMPORTS_TORCH = re.compile(r"^\s*(?:import|from) torch\b|output=\"torch\"", re.MULTILINE)


class Server:
    """A process that has imported the packages of pages, and runs each page in a fork of itself. Workers that a page forks then do
    not inherit files that other tests have open.
    """

    def __init__(self, modules: tuple[str, ...]) -> None:
        command = [sys.executable, "-W", "error::UserWarning:penstock", str(Path(__file__).with_name("run_page.py")), "--serve"]
        self._process = subprocess.Popen([*command, *modules], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                         env=environment(), start_new_session=True)  # fmt: skip

    def run(self, document: str, folder: Path) -> dict[str, object]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(ROOT / document), str(folder)]) + "\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], 600)[0]:
            os.killpg(self._process.pid, signal.SIGKILL)
            pytest.fail(f"{document} takes more than 10 minutes")
        status, output = json.loads(self._process.stdout.readline())
        assert status == 0, output[-6000:]
        result: dict[str, object] = json.loads(output.splitlines()[-1])
        return result

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def run():
    """Runs a page in a folder. Pages that do not use torch must not find it imported."""
    servers: dict[tuple[str, ...], Server] = {}

    @functools.cache
    def call(document: str, folder: Path) -> dict[str, object]:
        modules = ("numpy", "penstock", *["torch"] * bool(IMPORTS_TORCH.search((ROOT / document).read_text())))
        if modules not in servers:
            servers[modules] = Server(modules)
        return servers[modules].run(document, folder)

    yield call
    for server in servers.values():
        server.close()


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """Returns the folder of a page, which all tests of the page use."""
    return functools.cache(lambda document: make_folder(tmp_path_factory.mktemp(Path(document).stem), document))


def require(document: str) -> None:
    """Skips the test if the page needs something that is missing. Third-party packages of test_peers are not needed."""
    text = BLOCK_OF_PEER.sub("", (ROOT / document).read_text())
    imported = set(re.findall(r"^\s*(?:import|from) (\w+)", text, re.MULTILINE)) | set(re.findall(r'output="(\w+)"', text))
    needed = [name for name in NEEDS if name in imported]
    if USES_TORCHVISION.search(text):
        find_references()
        needed.append("torchvision")
    for module in needed:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    if "```sh" in text and not (Path(sys.executable).parent / "penstock").exists():
        pytest.skip(f"the command line is not beside {sys.executable}")
    if "memcached -M" in text and not shutil.which("memcached"):
        pytest.skip("memcached is not installed")
    if "pkg-config" in text and "PKG_CONFIG_PATH" not in environment():
        pytest.skip("the C library is not in build/installed (scripts/check.py --only install)")


# Pages whose programs import a framework or start ranks. Each takes ten seconds and more.
SLOW = {f"docs/guide/{name}.md" for name in
        ("evaluate-torchmetrics", "from-torch", "hf-trainer", "lightning", "slurm", "timm", "torchrun", "ultralytics")}  # fmt: skip


@pytest.mark.parametrize("document", [pytest.param(page, marks=[pytest.mark.long] * (page in SLOW)) for page in (*PAGES, *GUIDE)])
def test_page(run, folder_of, document):
    require(document)
    done = run(document, folder_of(document))
    if document in PAGES:
        assert done["ran"] == PAGES[document]
    else:
        assert done["ran"] >= 1 and done["left_out"] == 0, "all of the guide runs"
    if document == "README.md":
        packed = {path.name for path in (folder_of(document) / "restored").iterdir()}
        assert packed == {path.name for path in PHOTOGRAPHS.iterdir() if path.suffix in (".jpg", ".png")}


@pytest.mark.parametrize("document", [page for page in GUIDE if "```python peer" in (ROOT / page).read_text()])
def test_peers(run, folder_of, document):
    """Runs the code of other packages. If a package is not installed, its code is only compiled, and the test is skipped with that
    reason.
    """
    require(document)
    done = run(document, folder_of(document))
    if done["compiled"]:
        pytest.skip(f"{document}: {len(done['compiled'])} block only compiled, for want of {'; '.join(done['compiled'])}")
    assert done["peers_ran"] >= 1


def test_guide_is_listed_and_short():
    index = (ROOT / "docs" / "guide" / "README.md").read_text()
    for page in GUIDE:
        assert f"({Path(page).name})" in index, page
        assert len((ROOT / page).read_text().splitlines()) <= 80, page


def links_of(page: str) -> set[str]:
    """Returns the documents that a page links to, as paths in the repository."""
    folder = (ROOT / page).parent
    targets = re.findall(r"\]\(([\w./-]+\.(?:md|txt))", (ROOT / page).read_text())
    return {os.path.relpath(folder / target, ROOT) for target in targets}


def test_one_page_finds_every_other():
    """docs/README.md links to each document, or to the guide's list, which links to the pages of the guide."""
    found = links_of("docs/README.md") | links_of("docs/guide/README.md")
    documents = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "figures"}
    assert documents - found - {"docs/README.md"} == set()


def test_each_term_stands_once():
    for page in ("docs/glossary.md", "docs/internals/terms.md"):
        text = (ROOT / page).read_text().split("## Words with one meaning")[0]
        terms = [row for row in re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE) if row != "term"]
        assert len(terms) > 40
        names = [name for row in terms for name in row.split(", ")]
        assert sorted(names) == sorted(set(names)), page


def test_readme_says_what_penstock_is_before_how_to_build_it():
    text = (ROOT / "README.md").read_text()
    assert text.index("Penstock feeds training") < text.index("make demo")
