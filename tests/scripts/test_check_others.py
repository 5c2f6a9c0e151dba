"""check_docs.py, check_symbols.py, check_types.py, and how check.py counts."""

import os
import re
import subprocess
from pathlib import Path

import pytest

import check
import check_circles
import check_docs
import check_package
import check_steps
import check_style
import check_symbols
import check_types
import sample_comments

ROOT = Path(check_docs.__file__).resolve().parent.parent


def test_lines_of_comments_are_counted_without_remarks():
    text = "/* a\n * b */\nint x; /* c\n          d */\n\n#define Y 1\n/* e */\nint z;\n"
    assert check_docs.header_lines(text) == (3, 3)


def test_a_function_without_a_comment_and_bare_headers_are_found(tmp_path):
    header = tmp_path / "include" / "a.h"
    header.parent.mkdir()
    header.write_text("/* a.h - for this test. */\n\n/* Does it. */\nint pst_a(int x);\nint pst_b(int x,\n          int y);\n")
    found = check_docs.check_headers(tmp_path)
    assert found[0].startswith("include/a.h:5: pst_b has no comment") and len(found) == 2
    assert "2 lines of comments for 3 of code" in found[1]
    header.write_text("/* a.h -\n * for this test. */\n/* Does it. */\nint pst_a(int x);\n"
                      "/* Called. */\ntypedef int (*pst_fn)(int x);\n")
    assert check_docs.check_headers(tmp_path) == []


def test_a_comment_that_belongs_to_nothing_is_found(tmp_path):
    header = tmp_path / "include" / "a.h"
    header.parent.mkdir()
    whole = ("/* a.h - for\n * this test. */\n\n/* Part */\n\n/* Other part\n * --------- */\n\n"
             "/* Says it.\n * All. */\nstruct pst_a {\n    int x;\n};\n")
    header.write_text(whole)
    assert check_docs.check_headers(tmp_path) == []
    for lost in ("/* Of another. */\n/* Says it.", "/* Of another.\n * Struct. */\n\n/* Says it."):
        header.write_text(whole.replace("/* Says it.", lost))
        assert [each for each in check_docs.check_headers(tmp_path) if "a.h:9: the comment belongs to nothing" in each]


def test_files_that_call_each_other_are_a_circle():
    a, b, c, d, e = (Path(name) for name in "abcde")
    assert check_circles.circles({a: {b}, b: {c, d}, c: {a}, d: {e}, e: {d}}) == [[a, b, c], [d, e]]
    assert check_circles.circles({a: {b, c}, b: {c}, c: set()}) == []


@pytest.mark.parametrize("second, n_findings", [("int b(void) { return a(); }", 1), ("int b(void) { return 1; }", 0)])
def test_a_circle_of_a_room_is_found_in_its_objects(tmp_path, second, n_findings):
    source, objects = tmp_path / "src" / "room", tmp_path / "build" / "src" / "room" / "CMakeFiles" / "pst_room_room.dir"
    source.mkdir(parents=True)
    objects.mkdir(parents=True)
    for name, text in (("x.c", "int b(void); int a(void) { return b(); }"), ("y.c", "int a(void); " + second)):
        (source / name).write_text(text)
        subprocess.run(["cc", "-O0", "-c", source / name, "-o", objects / f"{name}.o"], check=True)
    found = check_circles.check(tmp_path / "build", tmp_path)
    assert len(found) == n_findings and all("src/room: 2 files" in line and "x.c y.c" in line for line in found)


def test_a_build_without_objects_is_no_pass(tmp_path):
    assert "no objects" in check_circles.check(tmp_path)[0]


@pytest.mark.parametrize("line, words", [
    ("[a](absent.md)", "no such file"),
    ("![a](absent.png)", "no such file"),
    ("[a](b.md#nothing-there)", "no such heading"),
    ("[a](#nothing-there)", "no such heading"),
    ("see `src/base/absent.c`", "no such file"),
    ("run `make absent`", "no such target"),
])
def test_a_dead_reference_is_found(tmp_path, line, words):
    (tmp_path / "Makefile").write_text("check:\n")
    (tmp_path / "b.md").write_text("# Heading one\n")
    (tmp_path / "a.md").write_text(f"# Here\n\n{line}\n")
    found = check_docs.check(tmp_path)
    assert len(found) == 1 and found[0].startswith("a.md:3: ") and words in found[0]


def test_living_references_are_passed(tmp_path):
    (tmp_path / "Makefile").write_text("check:\n")
    (tmp_path / "b.md").write_text("# Heading `one`, *two*\n# Same\n# Same\n")
    (tmp_path / "a.md").write_text("# Here\n[a](b.md#heading-one-two) [b](#here) [c](https://example.org)\n"
                                   "`make check` [d](b.md#same-1)\n```\n[not](a-link.md)\n```\n")
    assert check_docs.check(tmp_path) == []


def test_words_for_users_are_counted_and_bounded(tmp_path, monkeypatch):
    (tmp_path / "docs" / "internals").mkdir(parents=True)
    for name, n in (("README.md", 3), ("docs/a.md", 4), ("docs/format-a.md", 50), ("docs/internals/a.md", 50), ("CHANGES.md", 50)):
        (tmp_path / name).write_text("word " * n)
    assert check_docs.users_words(tmp_path) == {"README.md": 3, "docs/a.md": 4}
    monkeypatch.setattr(check_docs, "WORDS_MOST", 7)
    assert check_docs.check(tmp_path) == []
    monkeypatch.setattr(check_docs, "WORDS_MOST", 6)
    (finding,) = check_docs.check(tmp_path)
    assert "have 7 words, 6 are the most" in finding


C_TEXT = """/* What this file is for, in words. */
/* Joins two parts that
 * belong together. */
static int join(int a)
{
    return a + '"'; /* the mark of a quotation */
}
struct kept {
    int n_rows[4], n_left; /* rows that were read */
};
const char *no = "/* this is no comment */";
"""
PY_TEXT = """\"\"\"What the module is for.\"\"\"
# The first line of a block
# and its second line.
def join(a):
    \"\"\"Joins all of the parts.\"\"\"
    return a  # noqa: F401  (no reader needs it)
"""


def test_comments_are_found_with_names_and_chosen_by_the_seed(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.c").write_text(C_TEXT)
    (tmp_path / "a.py").write_text(PY_TEXT)
    found = sample_comments.comments(tmp_path, [])
    assert sorted((one.line, one.name, one.text) for one in found if one.path == "src/a.c") == [
        (1, "", "What this file is for, in words."), (2, "join", "Joins two parts that belong together."),
        (6, "join", "the mark of a quotation"), (9, "kept.n_rows.n_left", "rows that were read")]
    assert sorted((one.line, one.name, one.text) for one in found if one.path == "a.py") == [
        (1, "", "What the module is for."), (2, "", "The first line of a block and its second line."),
        (5, "join", "Joins all of the parts.")]
    assert {one.path for one in sample_comments.comments(tmp_path, ["src"])} == {"src/a.c"}
    orders = [sample_comments.chosen(found, 7, seed) for seed in ("1", "1", "2", "3")]
    assert orders[0] == orders[1] and len({tuple(order) for order in orders}) > 1
    assert sample_comments.chosen(found, 2, "1") == orders[0][:2]


def test_symbols_missing_and_surplus(tmp_path):
    source = tmp_path / "a.c"
    source.write_text("int pst_one(void){return 1;}\nint pst_three(void){return 3;}\nint psti_x;\n")
    version = tmp_path / "a.map"
    version.write_text("V_1 { global: pst_*; local: *; };\n")
    include = tmp_path / "include"
    include.mkdir()
    (include / "a.h").write_text("/* pst_comment(void) */\nint pst_one(void);\nint pst_two(int (*fn)(void));\n"
                                 "typedef int (*pst_fn)(void);\n")
    library = tmp_path / "liba.so"
    subprocess.run(["cc", "-shared", "-fPIC", f"-Wl,--version-script={version}", source, "-o", library], check=True)
    assert check_symbols.declared(include) == {"pst_one", "pst_two"}
    assert check_symbols.exported(library) == {"pst_one": "V_1", "pst_three": "V_1"}
    found = check_symbols.compare(check_symbols.declared(include), check_symbols.exported(library))
    assert found == ["pst_two is declared and not exported", "pst_three is exported and not declared"]


def test_symbols_without_a_version(tmp_path):
    source = tmp_path / "a.c"
    source.write_text("int pst_one(void){return 1;}\n")
    library = tmp_path / "liba.so"
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
    found = check_symbols.compare({"pst_one"}, check_symbols.exported(library))
    assert found == ["pst_one has no version"]


def test_functions_of_the_compilers_runtime_are_found(tmp_path):
    """gcc links its own into the library, so only the symbols tell that zig would find none."""
    source, library = tmp_path / "a.c", tmp_path / "liba.so"
    source.write_text("unsigned pst_rest(unsigned __int128 n, unsigned by) { return (unsigned)(n % by); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
    assert len(check_symbols.of_runtime(check_symbols.all_symbols(library))) == 1
    source.write_text("unsigned pst_rest(unsigned long n, unsigned by) { return (unsigned)(n % by); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
    assert check_symbols.of_runtime(check_symbols.all_symbols(library)) == []


def test_functions_that_wheels_cannot_use_are_found(tmp_path):
    """memfd_create came with glibc 2.27. Threads need nothing new, although pthread_create got a new version with 2.34."""
    source = tmp_path / "a.c"
    headers = "".join(f"#include <{header}.h>\n" for header in ("math", "pthread", "sys/mman", "sys/stat"))
    source.write_text("#define _GNU_SOURCE\n" + headers + """int pst_one(double x, void *f)
{
    pthread_t t;
    struct stat s;
    return memfd_create("a", 0) + stat("a", &s) + (int)pow(x, x) + pthread_create(&t, 0, f, 0);
}
""")
    library = tmp_path / "liba.so"
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library, "-lm"], check=True)
    found = check_symbols.too_new(check_symbols.dynamic_symbols(library, "--undefined-only"))
    assert found == ["memfd_create came with GLIBC_2.27, and wheels run with 2.17"]
    assert len(check_symbols.too_new({"pthread_cond_clockwait": "GLIBC_2.34", "strlcpy": "GLIBC_2.38"})) == 2
    old = {"pthread_condattr_setclock": "GLIBC_2.34", "__isoc23_strtoull": "GLIBC_2.38", "logf": "GLIBC_2.27", "read": "GLIBC_2.2"}
    assert check_symbols.too_new(old | {"pst_new": "PENSTOCK_9.9"}) == []


def test_public_functions_without_a_test(tmp_path):
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "a.c").write_text("/* pst_two() */\nvoid f(void) { (void)pst_one(0); }\n"
                                           'const char *s = "pst_three(1)";\n')
    found = check_symbols.untested({"pst_one", "pst_two", "pst_three"}, tmp_path)
    assert found == ["pst_three is called by no test", "pst_two is called by no test"]


@pytest.mark.parametrize("kind, output, status, expected", [
    ("ctest", "100% tests passed, 0 tests failed out of 12\n", 0, (12, 0, 0)),
    ("ctest", "100% tests passed out of 22\n", 0, (22, 0, 0)),
    ("ctest", "50% tests passed, 6 tests failed out of 12\n", 8, (6, 6, 0)),
    ("ctest", " 1/2 Test #1: a ...***Skipped\n100% tests passed, 0 tests failed out of 2\n", 0, (1, 0, 1)),
    ("ctest", "No tests were found!!!\n", 0, (0, 1, 0)),
    ("pytest", "12 passed, 3 skipped in 4.05s\n", 0, (12, 0, 3)),
    ("pytest", "==== 1 failed, 2 passed, 1 error in 0.12s ====\n", 1, (2, 2, 0)),
    ("pytest", "1 passed, 2 warnings in 61.00s (0:01:01)\n", 0, (1, 0, 0)),
    ("pytest", "Fatal Python error: Segmentation fault\n", -11, (0, 1, 0)),
    ("pytest", "no tests ran in 0.01s\n", 5, (0, 1, 0)),
    ("script", "anything", 0, (1, 0, 0)),
    ("script", "anything", 1, (0, 1, 0)),
])
def test_counting(kind, output, status, expected):
    count = check.count_output(kind, output, status)
    assert (count.passed, count.failed, count.skipped) == expected


def test_skipped_tests_are_told_with_their_reasons(tmp_path):
    report = tmp_path / "ctest.xml"
    report.write_text("""<?xml version="1.0"?><testsuite>
<testcase name="test_a" status="run"><system-out>[  SKIPPED ] needs_a_gpu
[  SKIPPED ] 1 test(s), listed below:
[  SKIPPED ] needs_a_gpu</system-out></testcase>
<testcase name="test_b" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out>
begins
the kernel forbids it
</system-out></testcase>
<testcase name="test_c" status="notrun"><skipped message="x"/></testcase></testsuite>""")
    reasons = check.skip_reasons("ctest", ["ctest", "--output-junit", str(report)], "")
    assert reasons == ["test_a: needs_a_gpu, part of it", "test_b: the kernel forbids it", "test_c: no reason given"]
    reasons = check.skip_reasons("pytest", [], "SKIPPED [1] a.py:3: no GPU\nSKIPPED [2] b.py:4: no data\n")
    assert reasons == ["a.py:3: no GPU", "b.py:4: no data (2 tests)"]
    counts = {"ctest": check.Count(5, 0, 1, 12.4, 0, ["test_b: no"]), "asan": check.Count(5, 1, 1, 60, 0, ["test_b: no"])}
    told = check.summary(counts)
    assert "skipped in ctest, asan: test_b: no\n" in told
    assert re.search(r"^ctest +12 +- +5 +0 +1$", told, re.MULTILINE) and "(1.2 minutes)" in told


def test_steps_of_check_and_check_long_differ():
    short, long = ([step.name for step in steps()] for steps in (check_steps.check_steps, check_steps.long_steps))
    assert len(set(short)) == len(short) and len(set(long)) == len(long)
    programs = [command[1] for step in check_steps.check_steps() + check_steps.long_steps() for command in step.commands
                if command[1].endswith(".py")]
    assert programs and all((ROOT / program).is_file() for program in programs)


def test_each_step_of_check_has_a_budget_and_their_sum_is_bounded(monkeypatch):
    """The limit on the sum is for the machine with the most steps: kernels are compiled, and two SIMD levels lie below its own."""
    monkeypatch.setattr(check_steps.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(check_steps, "levels_below", lambda: ("c", "avx2"))
    steps = check_steps.check_steps()
    assert {"cuda", "level-c", "level-avx2"} <= {step.name for step in steps}
    assert [step.name for step in steps if step.budget_s <= 0] == []
    total = check_steps.SET_UP_BUDGET_S + sum(step.budget_s for step in steps)
    assert total <= check_steps.BUDGET_S <= 24 * 60, f"{total} s: a new step needs room"


def test_check_builds_the_library_four_times():
    builds = {command[2] for step in check_steps.check_steps() for command in step.commands if command[:2] == ["cmake", "--build"]}
    assert {Path(build).name for build in builds} == {"package", "check", "asan", "tsan"}
    assert f"build-dir=$(CURDIR)/{check_steps.PACKAGE_BUILD.relative_to(ROOT)} " in (ROOT / "Makefile").read_text()


def test_a_step_over_its_budget_is_marked_and_does_not_fail(monkeypatch, capsys):
    steps = [check_steps.Step(name, "script", [["true"]], budget_s=seconds) for name, seconds in (("quick", 60), ("slow", 5))]
    counts = {"quick": check.Count(1, 0, 0, 59.9, 60), "slow": check.Count(1, 0, 0, 7.2, 5)}
    monkeypatch.setattr(check, "check_steps", lambda: steps)
    monkeypatch.setattr(check, "run_step", lambda step: counts[step.name])
    monkeypatch.setattr(check.sys, "argv", ["check.py"])
    assert check.main() == 0
    told = capsys.readouterr().out
    assert re.search(r"^quick +60 +60 +1 +0 +0$", told, re.MULTILINE)
    assert re.search(r"^slow +7 +5 +1 +0 +0   2 s over its budget$", told, re.MULTILINE)
    assert re.search(r"^all +67 +65   \(1.1 minutes of 1.1\)$", told, re.MULTILINE)


def test_the_set_up_before_the_steps_is_a_line_of_the_table(monkeypatch, capsys):
    monkeypatch.setattr(check, "check_steps", lambda: [])
    monkeypatch.setattr(check.time, "time", lambda: 1042.4)
    monkeypatch.setattr(check.sys, "argv", ["check.py", "--set-up-since", "1000"])
    assert check.main() == 0
    assert re.search(rf"^set-up +42 +{check_steps.SET_UP_BUDGET_S} ", capsys.readouterr().out, re.MULTILINE)


def test_asan_of_python_loads_the_library_of_the_compiler_that_built_it(tmp_path):
    def build(version):
        compiler = tmp_path / "cc"
        compiler.write_text(f"#!/bin/sh\n[ $1 = --version ] && echo '{version}' || echo /there/${{1#-print-file-name=}}\n")
        compiler.chmod(0o755)
        (tmp_path / "CMakeCache.txt").write_text(f"CMAKE_C_COMPILER:FILEPATH={compiler}\n")
        return check_package.asan_environment(tmp_path)["LD_PRELOAD"].split()

    assert build("gcc (Debian 12.2.0) 12.2.0") == ["/there/libasan.so", "/there/libstdc++.so"]
    assert build("Debian clang version 14.0.6") == [f"/there/libclang_rt.asan-{os.uname().machine}.so", "/there/libstdc++.so"]


def test_every_public_struct_has_its_size_pinned():
    text = "".join(check_style.code_only(path.read_text()) for path in (ROOT / "include").rglob("*.h"))
    structs = set(re.findall(r"\bstruct (pst_\w+)\s*\{", text))
    pinned = set(re.findall(r"X\((pst_\w+), \d+\)", (ROOT / "tests/headers/test_headers_sizes.c").read_text()))
    assert structs == pinned


def test_types_of_another_installation_are_refused(tmp_path):
    """stubtest uses the installed stub. If it differs from the one in the sources, the result does not count."""
    stub = tmp_path / "_native.pyi"
    stub.write_text("x: int\n")
    reason = check_types.stale(stub)
    assert reason and ("differs" in reason or "not installed" in reason)
