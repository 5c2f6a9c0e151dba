"""check_imports.py must detect every import across a forbidden boundary, every import cycle and every folder with too many
files, and report nothing else."""

import pytest

import check_imports

PACKAGE = check_imports.PACKAGE
TEXT = '"""What lies here."""\n'
TREE = dict.fromkeys((
    "__init__.py", "errors.py", "cuda.py", "loader.py", "base/__init__.py", "base/files.py", "base/options.py", "data/__init__.py",
    "data/dataset.py", "data/writer.py", "data/pack.py", "transforms/__init__.py", "transforms/base.py", "loading/__init__.py",
    "loading/loader.py", "loading/live.py", "stalls/__init__.py", "stalls/report.py", "stalls/measure/__init__.py",
    "stalls/measure/run.py", "_older/__init__.py"), TEXT)
TREE |= {"_native.pyi": "", "data/writer.py": TEXT + "def f():\n    from .pack import pack\n"}


def findings(root, files):
    for name, text in (TREE | files).items():
        path = root / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return check_imports.check(root)


@pytest.mark.parametrize("name, line, found", [
    ("base/files.py", "from ..data import dataset", "base may not import data"),
    ("base/files.py", "from ..data.dataset import Dataset", "base may not import data"),
    ("base/files.py", "from .. import transforms", "base may not import transforms"),
    ("base/files.py", "import penstock.loading.loader", "base may not import loading"),
    ("base/files.py", "from penstock.loading import loader", "base may not import loading"),
    ("data/dataset.py", "def f():\n    from ..loading import live", "data may not import loading"),
    ("data/dataset.py", "if TYPE_CHECKING:\n    from ..loading.loader import Loader", "data may not import loading"),
    ("loading/live.py", "from ..stalls.report import Report", "loading may not import stalls"),
    ("stalls/report.py", "from .measure import run", "stalls may not import stalls/measure"),
    ("stalls/measure/run.py", "from ... import loader", "loader.py is a public path"),
    ("stalls/report.py", "from ..loader import Loader", "loader.py is a public path"),
    ("stalls/report.py", "import penstock", "__init__.py is a public path"),
    ("errors.py", "from .base import files", "errors.py may not import base"),
    ("cuda.py", "from . import loader", "loader.py is a public path"),
    ("kitchen/pan.py", "from ..base import files", "kitchen is not in the table of folders"),
])
def test_an_import_through_a_wall_is_found(tmp_path, name, line, found):
    assert any(name in line and found in line for line in findings(tmp_path, {name: TEXT + line + "\n"}))


@pytest.mark.parametrize("name, line", [
    ("data/dataset.py", "from .. import _native, cuda, errors"),
    ("data/dataset.py", "from ..errors import ArgumentError"),
    ("data/dataset.py", "from ..base import files as _files, options"),
    ("loading/loader.py", "from .. import transforms as _transforms\nfrom .live import line"),
    ("stalls/measure/run.py", "from ...base import files\nfrom ..report import Report"),
    ("loader.py", "from .loading.loader import *"),
    ("cuda.py", "from . import _native, errors"),
    ("loading/loader.py", "import json\nfrom penstock_cuda import x\nfrom numpy import loader"),
    ("_older/_report.py", "from penstock.stalls.report import *"),
])
def test_imports_that_lead_downwards_are_passed(tmp_path, name, line):
    assert findings(tmp_path, {name: TEXT + line + "\n"}) == []


@pytest.mark.parametrize("back", ["from .loader import Loader", "def f():\n    from . import loader",
                                  "if TYPE_CHECKING:\n    from .loader import Loader"])
def test_a_circle_is_found(tmp_path, back):
    (found,) = findings(tmp_path, {"loading/loader.py": "from . import live\n", "loading/live.py": back + "\n"})
    assert found == f"{PACKAGE}/loading/live.py:1: a circle of imports: loading/live.py, loading/loader.py"


def test_a_circle_through_the_package_of_a_folder_is_found(tmp_path):
    files = {"transforms/__init__.py": TEXT + "from .base import Transform\n", "transforms/base.py": "from .. import transforms\n"}
    (found,) = findings(tmp_path, files)
    assert "a circle of imports: transforms/__init__.py, transforms/base.py" in found


def test_a_listed_import_closes_no_circle_and_is_needed(tmp_path):
    pack = {"data/pack.py": "from .writer import Writer\n"}
    assert findings(tmp_path, pack) == []
    (found,) = findings(tmp_path, pack | {"data/writer.py": TEXT})
    assert "data/writer.py does not import data/pack.py" in found


def test_a_folder_says_what_lies_in_it(tmp_path):
    (found,) = findings(tmp_path, {"loading/__init__.py": "x = 1\n"})
    assert found == f"{PACKAGE}/loading/__init__.py:1: no line says what lies in this folder"


@pytest.mark.parametrize("top, most", check_imports.MOST_FILES.items())
def test_an_overfull_folder_is_found(tmp_path, top, most):
    folder = tmp_path / top / "inner"
    (folder / "__pycache__").mkdir(parents=True)
    for i in range(most):
        (folder / f"f{i}.c").touch()
        (folder / "__pycache__" / f"f{i}.pyc").touch()
    (folder / "__pycache__" / "g.pyc").touch()
    assert findings(tmp_path, {}) == []
    (folder / "one.c").touch()
    assert findings(tmp_path, {}) == [f"{top}/inner:1: {most + 1} files lie in this folder, at most {most} may"]


def test_a_finding_makes_the_script_fail(tmp_path, monkeypatch, capsys):
    findings(tmp_path, {"base/files.py": "from ..data import dataset\n"})
    monkeypatch.setattr("sys.argv", ["check_imports.py", "--root", str(tmp_path)])
    assert check_imports.main() == 1
    assert f"{PACKAGE}/base/files.py:1: base may not import data" in capsys.readouterr().out
