"""check_style.py must report each breach of the rules once, at its line."""

from textwrap import indent

import pytest

import check_style

HEAD = "/* a.c - a file that is there for this test. */\n"


def findings(tmp_path, name, text):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (tmp_path / "include").mkdir(exist_ok=True)
    return check_style.check(tmp_path)


def function(n_lines, head="static int work(void)"):
    return HEAD + head + "\n{\n" + "    int x;\n" * (n_lines - 3) + "}\n"


@pytest.mark.parametrize("text, line, words", [
    (HEAD + "int x;  \n", 2, "trailing space"),
    (HEAD + "\tint x;\n", 2, "tab"),
    (HEAD + "int " + "x" * 100 + ";\n", 2, "columns"),
    (HEAD + "int x;", 2, "no newline"),
    (HEAD + "int x;\n" * 1000, 1, "1001 lines"),
    (function(101), 2, "work has 101 lines"),
    (function(101, "static int work(void (*fn)(int),\n                int y)"), 2, "work has 102 lines"),
    (function(9, "int work(void)"), 2, "begin with psti_"),
    (function(9, "int pst_work(void)"), 2, "not declared"),
    (function(9, "static int psti_work(void)"), 2, "no prefix"),
    (HEAD + "static void work(void)\n{\n    strcpy(a, b);\n}\n", 4, "strcpy() is forbidden"),
    (HEAD + "static void work(void)\n{\n    exit(1);\n}\n", 4, "exit() is forbidden"),
    (HEAD + "static void work(void)\n{\n    printf(\"x\");\n}\n", 4, "printf() is forbidden"),
    (HEAD + "static void work(void)\n{\n    fprintf(stderr, \"x\");\n}\n", 4, "does not print"),
    (HEAD + "static void work(void)\n{\n    free(x);\n}\n", 4, "base/alloc.h"),
    (HEAD + "static void work(void)\n{\n    goto error;\nerror:\n    return;\n}\n", 5, "label error"),
    ("int x;\n", 1, "opens with a comment"),
])
def test_a_breach_is_found_once(tmp_path, text, line, words):
    found = findings(tmp_path, "src/base/a.c", text)
    assert len(found) == 1, found
    assert found[0].startswith(f"src/base/a.c:{line}: ") and words in found[0]


@pytest.mark.parametrize("text", [
    function(100),
    function(9, "int psti_work(void)"),
    function(9, "PST_PRINTF(1, 2) static int work(const char *format, ...)"),
    HEAD + "DEFINE(a)\nDEFINE(b)\nstatic int work(void)\n{\n    return 0;\n}\n",
    HEAD + "#define INLINE \\\n    static inline\nINLINE int work(void)\n{\n    return 0;\n}\n",
    HEAD + "static const int table[] = {f(1), 2};\n",
    HEAD + "/* strcpy(a, b); exit(1); */\nstatic const char *s = \"free(x)\"; // gets(x)\n",
    HEAD + "static void work(void)\n{\nfail_lock:\nout:\n    psti_free(x);\n}\n",
    HEAD + "static int work(int x)\n{\n    switch (x) {\n    default:\n        break;\n    }\n    return x;\n}\n",
    HEAD + "static void work(void)\n{\n    x->free(y);\n    x.exit(1);\n}\n",
])
def test_good_text_is_passed(tmp_path, text):
    assert findings(tmp_path, "src/base/a.c", text) == []


def test_functions_after_a_long_one_are_measured_from_their_own_line():
    code = check_style.code_only(function(50) + "\nvoid psti_next(void)\n{\n}\n")
    assert [(f.name, f.n_lines, f.is_static) for f in check_style.functions_of(code)] == [
        ("work", 50, True), ("psti_next", 3, False)]


def test_functions_in_extern_c_are_seen():
    code = check_style.code_only('extern "C" {\nstatic int work(void)\n{\n    return 0;\n}\n}\n')
    assert [f.name for f in check_style.functions_of(code)] == ["work"]


def test_header_without_guard(tmp_path):
    found = findings(tmp_path, "src/base/a.h", "/* a.h - a header without its guard. */\nint x;\n")
    assert len(found) == 1 and "guard" in found[0]


def test_template_needs_no_guard(tmp_path):
    assert findings(tmp_path, "src/base/a_tmpl.h", "/* a_tmpl.h - template, included per level. */\nint x;\n") == []


def test_file_names_tell_their_room(tmp_path):
    found = findings(tmp_path, "src/decode/jpeg.c", HEAD)
    assert len(found) == 1 and "begins with decode_" in found[0]


def test_file_names_are_unique(tmp_path):
    findings(tmp_path, "src/decode/decode_a.c", HEAD)
    found = findings(tmp_path, "tools/decode_a.c", HEAD)
    assert len(found) == 1 and "is taken by src/decode/decode_a.c" in found[0]


def test_global_names_are_unique(tmp_path):
    findings(tmp_path, "src/base/a.c", function(5, "void psti_work(void)"))
    found = findings(tmp_path, "src/base/b.c", function(5, "void psti_work(void)"))
    assert found == ["src/base/b.c:2: psti_work is defined in src/base/a.c too"]


def test_functions_bear_the_name_of_their_room(tmp_path):
    assert findings(tmp_path, "src/decode/decode_a.c", function(5, "int psti_decode_work(void)")) == []
    found = findings(tmp_path, "src/decode/decode_a.c", function(5, "int psti_work(void)"))
    assert len(found) == 1 and "begin with psti_decode_" in found[0]


def test_tags_of_structs_are_of_one_room(tmp_path):
    found = findings(tmp_path, "src/augment/augment_x.c", HEAD + "struct psti_x {\n    int x;\n};\n")
    found += findings(tmp_path, "src/decode/decode_y.c", HEAD + "static struct psti_x *x;\n")
    assert found == []
    found = findings(tmp_path, "src/decode/decode_z.c", HEAD + "int y;\nstruct psti_x {\n    int x;\n};\n")
    assert found == ["src/decode/decode_z.c:3: psti_x is defined in src/augment/augment_x.c too"]


def test_long_function_that_is_listed(tmp_path, monkeypatch):
    monkeypatch.setitem(check_style.LONG_FUNCTIONS, "work", "a loop")
    assert findings(tmp_path, "src/base/a.c", function(150)) == []


def python_function(n_lines, docstring=""):
    return "def work():\n" + docstring + "    x = 1\n" * (n_lines - 1)


@pytest.mark.parametrize("text, line, words", [
    (python_function(101), 1, "work has 101 lines, 100 is the limit"),
    ("class A:\n" + indent("async " + python_function(101, '    """Works."""\n'), "    "), 2, "work has 101 lines"),
    ("def outer():\n" + "    x = 1\n" * 50 + indent(python_function(60), "    "), 1, "outer has 111 lines"),
])
def test_long_functions_of_python_are_found(tmp_path, text, line, words):
    found = findings(tmp_path, "scripts/a.py", text)
    assert len(found) == 1 and found[0].startswith(f"scripts/a.py:{line}: ") and words in found[0]


def test_docstrings_and_decorators_count_as_no_lines(tmp_path):
    text = "@cache\n" + python_function(100, '    """Works.\n\n' + "    More.\n" * 200 + '    """\n')
    assert findings(tmp_path, "scripts/a.py", text) == []


@pytest.mark.parametrize("n_lines, words", [(120, None), (121, "120 is the limit"), (119, "lower its entry")])
def test_a_listed_function_of_python_may_not_grow(tmp_path, monkeypatch, n_lines, words):
    monkeypatch.setitem(check_style.LONG_IN_PYTHON, "work", 120)
    found = findings(tmp_path, "scripts/a.py", python_function(n_lines))
    assert found == [] if words is None else len(found) == 1 and words in found[0]


def test_listed_functions_exist():
    root = check_style.Path(check_style.__file__).resolve().parent.parent
    names = {f.name for where in check_style.tracked(root) if where.endswith((".c", ".h"))
             for f in check_style.functions_of(check_style.code_only((root / where).read_text()))}
    assert set(check_style.LONG_FUNCTIONS) <= names
    names = {f.name for where in check_style.tracked(root) if where.endswith(".py")
             for f in check_style.functions_of_python((root / where).read_text())}
    assert set(check_style.LONG_IN_PYTHON) <= names
