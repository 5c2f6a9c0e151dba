"""check_abi.py must detect each change that breaks compiled programs, and report nothing else."""

import shutil
from pathlib import Path

import pytest

import check_abi
import check_symbols


@pytest.fixture
def include(tmp_path):
    return Path(shutil.copytree(check_abi.ROOT / "include", tmp_path / "include"))


def change(include: Path, header: str, old: str, new: str) -> list[str]:
    path = include / "penstock" / header
    text = path.read_text()
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new))
    return check_abi.compare(check_abi.DESCRIPTION.read_text().splitlines(), check_abi.describe(include))


def test_the_description_is_of_the_headers(include):
    wanted = check_abi.DESCRIPTION.read_text().splitlines()
    assert check_abi.compare(wanted, check_abi.describe(include)) == []
    for kind in ("enumerator", "struct", "member", "function", "callback", "symbol"):
        assert any(line.startswith(f"{kind} ") for line in wanted)
    described = {line.split()[1].rstrip(":") for line in wanted if line.startswith("function ")}
    assert described == check_symbols.declared(include / "penstock")
    assert described == {line.split()[1] for line in wanted if line.startswith("symbol ")}


def test_a_moved_member_is_found(include):
    found = change(include, "writer.h", "    size_t nbytes;\n", "    uint8_t first;\n    size_t nbytes;\n")
    assert any(line.startswith("changed: member pst_value.nbytes at 8,") and " at 16," in line for line in found)
    assert any(line.startswith("changed: struct pst_value ") for line in found)
    assert any(line.startswith("new: member pst_value.first at 8,") for line in found)


@pytest.mark.parametrize(("header", "old", "new", "words"), [
    ("cuda.h", "uint32_t pst_cuda_count(void);", "uint64_t pst_cuda_count(void);", "changed: function pst_cuda_count"),
    ("dataset.h", "void pst_dataset_retain(pst_dataset *dataset);", "", "gone: function pst_dataset_retain"),
    ("image.h", "PST_FORM_WEBP = 4", "PST_FORM_WEBP = 14", "changed: enumerator pst_form PST_FORM_WEBP 4"),
    ("augment.h", "uint32_t pad[4];", "uint32_t pad[2], more[2];", "changed: member pst_op.pad "),
    ("status.h", "typedef int (*pst_interrupt_fn)(void *ctx);", "typedef int (*pst_interrupt_fn)(void *ctx, int n);",
     "changed: callback pst_interrupt_fn"),
])
def test_other_breaks_are_found(include, header, old, new, words):
    assert any(line.startswith(words) for line in change(include, header, old, new))


def test_the_names_of_parameters_and_comments_are_free(include):
    assert change(include, "dataset.h", "void pst_dataset_retain(pst_dataset *dataset);",
                  "/* Adds one. */\nvoid pst_dataset_retain(pst_dataset *d);") == []


def test_a_symbol_that_joins_an_older_node_is_found():
    wanted = check_abi.symbols("PENSTOCK_0.1 {\n global:\n pst_a;\n local: *;\n};\nPENSTOCK_0.2 {\n pst_b;\n} PENSTOCK_0.1;\n")
    assert wanted == ["symbol pst_a PENSTOCK_0.1", "symbol pst_b PENSTOCK_0.2"]
    found = check_abi.compare(wanted, check_abi.symbols("PENSTOCK_0.1 {\n pst_a;\n pst_b;\n};\n"))
    assert found == ["changed: symbol pst_b PENSTOCK_0.2\n     to: symbol pst_b PENSTOCK_0.1"]
