"""check_tidy.py: which files it checks, and that it reports an error."""

import json
import subprocess
import sys

import pytest

import check_tidy


def git(root, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path):
    """Makes a repository whose branch main has the files src/a.c and src/b.c in two commits."""
    git(tmp_path, "init", "-b", "main")
    (tmp_path / "src").mkdir()
    for name in "ab":
        (tmp_path / "src" / f"{name}.c").write_text("int x;\n")
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-m", name)
    return tmp_path


def names(root):
    return sorted(path.name for path in check_tidy.changed(check_tidy.base(root), root))


def test_on_main_the_last_commit_counts(tree):
    assert names(tree) == ["b.c"]


def test_on_a_branch_all_its_commits_count_and_what_is_in_no_commit(tree):
    git(tree, "checkout", "-b", "other")
    for name in "cde":
        (tree / "src" / f"{name}.c").write_text("int x;\n")
        git(tree, "add", "-A")
        git(tree, "commit", "-m", name)
    git(tree, "rm", "src/e.c")
    (tree / "src" / "a.c").write_text("int y;\n")
    (tree / "src" / "new.c").write_text("int y;\n")
    assert names(tree) == ["a.c", "c.c", "d.c", "new.c"]


def test_a_clone_of_one_commit_has_nothing_to_compare_with(tree, tmp_path_factory):
    clone = tmp_path_factory.mktemp("clone") / "one"
    git(tree, "clone", "--depth", "1", f"file://{tree}", clone)
    assert check_tidy.base(clone) is None
    git(clone, "checkout", "--detach")
    assert check_tidy.base(clone) is None


def test_no_repository_at_all(tmp_path):
    assert check_tidy.base(tmp_path) is None


def test_only_c_files_of_the_library_and_the_tools_are_checked(tmp_path):
    files = ("src/a.c", "src/a.c", "tools/b.c", "tests/c.c", "src/d.cc", "build/e.c")
    commands = [{"directory": str(tmp_path), "file": str(tmp_path / name), "command": "cc"} for name in files]
    (tmp_path / "compile_commands.json").write_text(json.dumps(commands))
    assert check_tidy.compiled(tmp_path, tmp_path) == [tmp_path / "src/a.c", tmp_path / "tools/b.c"]


def test_a_mistake_is_found_and_named(tmp_path, monkeypatch):
    program = check_tidy.tool()
    if program is None:
        pytest.skip("no clang-tidy")
    file = tmp_path / "a.c"
    (tmp_path / ".clang-tidy").write_text((check_tidy.ROOT / ".clang-tidy").read_text())
    (tmp_path / "compile_commands.json").write_text(json.dumps(
        [{"directory": str(tmp_path), "file": str(file), "command": f"gcc -Wno-only-gcc-knows -c {file}"}]))
    file.write_text("int f(int x);\nint f(int x) { return x > 3 || x > 3; }\n")
    assert "a.c:2:" in check_tidy.findings(program, tmp_path, file, check_tidy.NO_ANALYSER)
    monkeypatch.setitem(check_tidy.KNOWN, "a.c", ["misc-redundant-expression"])
    assert check_tidy.findings(program, tmp_path, file, check_tidy.NO_ANALYSER) == ""
    file.write_text("int f(int x) { return x / (x == 0 ? x : 1); }\n")
    assert check_tidy.findings(program, tmp_path, file, check_tidy.NO_ANALYSER) == ""
    assert "a.c:1:" in check_tidy.findings(program, tmp_path, file, [])


def test_files_with_known_findings_exist():
    names = {path.name for folder in check_tidy.FOLDERS for path in (check_tidy.ROOT / folder).rglob("*.c")}
    assert set(check_tidy.KNOWN) <= names


@pytest.mark.parametrize("n, says", [(3, "nothing to say about 3 files"), (30, "30 files differ, the first 24 are checked")])
def test_a_quick_run_has_a_limit(tmp_path, monkeypatch, capsys, n, says):
    files = [tmp_path / f"{i}.c" for i in range(n)]
    monkeypatch.setattr(check_tidy, "compiled", lambda build: files)
    monkeypatch.setattr(check_tidy, "changed", lambda since: set(files))
    monkeypatch.setattr(check_tidy, "findings", lambda *arguments: "")
    monkeypatch.setattr(sys, "argv", ["check_tidy.py", str(tmp_path), "--since", "HEAD"])
    monkeypatch.setattr(check_tidy, "tool", lambda: "clang-tidy")
    assert check_tidy.main() == 0
    assert says in capsys.readouterr().out
