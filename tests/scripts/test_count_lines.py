"""count_lines.py counts code without comments, finds files at a commit, and ignores lines that were only re-wrapped."""

import subprocess

import pytest

import count_lines as cl

C = """/* A comment
 * of two lines. */
#include <stddef.h>

static int add(int a,   /* first */
               int b) { // both
    for (int i = 0; i < b; i++)
        a += 1;
    return "/* no comment */"[a];
}
"""
PYTHON = '''"""A docstring
of two lines."""

# a comment
def f(a,
      b):
    """Another."""
    text = """two
lines"""
    return (a +  # why
            b)
'''
SHELL = "#!/bin/sh\n# a comment\n\nls \\\n  -l # why\necho a#b\n"
CMAKE = '#[[ a\ncomment ]]\nset(A "# not" # why\n  b)\nif(A)\nendif()\n'


@pytest.mark.parametrize("counter, text, expected", [
    (cl.count_c, C, (7, 4, 43)), (cl.count_python, PYTHON, (6, 3, 17)), (cl.count_shell, SHELL, (3, 2, 4)),
    (cl.count_cmake, CMAKE, (4, 3, 13)), (cl.count_c, "", (0, 0, 0)), (cl.count_python, "", (0, 0, 0)),
])
def test_code_alone_counts(counter, text, expected):
    assert counter(text) == expected


@pytest.mark.parametrize("counter, narrow, wide", [
    (cl.count_c, "int f(int a,\n      int b);\n", "int f(int a, int b);\n"),
    (cl.count_python, "f(a,\n  b)\n", "f(a, b)\n"),
    (cl.count_shell, "ls \\\n  -l\n", "ls -l\n"),
    (cl.count_cmake, "set(A\n  b)\n", "set(A b)\n"),
])
def test_statements_and_tokens_stay_when_lines_are_re_flowed(counter, narrow, wide):
    assert counter(narrow)[1:] == counter(wide)[1:]
    assert counter(narrow).lines == counter(wide).lines + 1


def git(root, *words):
    subprocess.run(["git", "-C", root, "-c", "user.name=n", "-c", "user.email=e", *words], check=True, capture_output=True)


def test_the_working_tree_beside_a_commit(tmp_path):
    for name, text in (("src/base/a.c", "int a;\n"), ("src/b.h", "int b;\n"), ("CMakeLists.txt", "set(A b)\n"),
                       ("ci", "#!/bin/bash\nls\n"), ("notes.md", "words\n"), ("third_party/kissfft/k.c", "int k;\n")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    (tmp_path / "src/base/a.c").write_text("/* none */\n")
    (tmp_path / "src/base/untracked.c").write_text("int u;\n")
    before, after = cl.count(tmp_path, "HEAD"), cl.count(tmp_path, cl.WORKING_TREE)
    assert before == {("src", "base"): (1, 1, 3), ("src", ""): (1, 1, 3), (".", ""): (2, 2, 6)}
    assert after == {**before, ("src", "base"): (0, 0, 0)}
    lines = cl.table([before, after]).splitlines()
    assert [line.split() for line in lines[2:]] == [
        [".", *"2 2 +0 2 2 +0 6 6 +0".split()], ["src", *"2 1 -1 2 1 -1 6 3 -3".split()],
        ["base", *"1 0 -1 1 0 -1 3 0 -3".split()], ["all", *"4 3 -1 4 3 -1 12 9 -3".split()]]
    assert "base" not in cl.table([before], tops_only=True)
