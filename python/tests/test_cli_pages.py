"""The files made from the tables of options (manual pages, completion), and the behaviour of Python's verbs on terminals."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import runpy
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as PilImage

from conftest import PROGRAM
from penstock.cli import main, options, output

ROOT = Path(__file__).parents[2]
MADE = ROOT / "tools" / "penstock" / "made"
VERBS = ("analyze", "plan", "tune", "view", "whatif")
BASH = """compopt() { :; }; source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _penstock
printf "%s\\n" "${COMPREPLY[@]}" """


@pytest.fixture(scope="module")
def writer() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "write_cli_pages.py"), run_name="pages")


def in_terminal(columns: int, *words: str, answer: bytes | None = None, cwd: Path | None = None) -> tuple[int, str]:
    """Runs a verb whose stdin, stdout and stderr are a terminal of this width. Returns its exit status and the text on the
    terminal.
    """
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-P", "-m", "penstock.cli.main", *words]
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, cwd=cwd,
                               env={**os.environ, "TERM": "xterm"}, start_new_session=True)  # fmt: skip
    os.close(its)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # end of the terminal's output (Linux reports it as an error)
            break
        shown += part
        if answer is not None and b"[y/N]" in shown:
            os.write(ours, answer)
            answer = None
    os.close(ours)
    return process.wait(120), shown.decode().replace("\r\n", "\n")


# Made files -----------------------------------------------------------------------------------------


def test_made_files_are_those_of_the_tables(writer: dict[str, Any]) -> None:
    stale = writer["differences"](str(PROGRAM))
    assert not stale, f"{stale}: run scripts/write_cli_pages.py {PROGRAM}"
    assert writer["made"](str(PROGRAM)) == writer["made"](str(PROGRAM))


def test_a_changed_table_is_noticed(writer: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each change is noticed: an added option, an edited file, a missing file, and a file of a removed verb."""
    copy = tmp_path / "made"
    shutil.copytree(MADE, copy)
    monkeypatch.setitem(writer["differences"].__globals__, "MADE", copy)
    assert writer["differences"](str(PROGRAM)) == []
    (copy / "penstock.fish").write_text("#")
    (copy / "man" / "penstock-ls.1").unlink()
    (copy / "man" / "penstock-old.1").write_text("")
    assert writer["differences"](str(PROGRAM)) == ["man/penstock-ls.1", "man/penstock-old.1", "penstock.fish"]
    tables = main.describe()
    tables["view"]["options"].append({**tables["view"]["options"][0], "name": "sepia"})
    monkeypatch.setattr(main, "describe", lambda: tables)
    assert {"man/penstock-view.1", "penstock.bash", "penstock.zsh"} <= set(writer["differences"](str(PROGRAM)))


def test_pages_have_every_option(writer: dict[str, Any]) -> None:
    for verb in writer["tables"](str(PROGRAM)):
        page = (MADE / "man" / f"{writer['page_name'](verb)}.1").read_text(encoding="utf-8").replace("\\-", "-")
        assert len(verb.examples) >= 2, verb.name
        assert all(f"\\fB--{option.name}\\fR" in page for option in verb.options)
        assert {option.name for option in verb.options} >= {"json", "quiet", "help"}
        for example in verb.examples:
            assert writer["roff"](example).replace("\\-", "-") in page, example
    assert "penstock-cache-fleet (1)" in (MADE / "man" / "penstock.1").read_text(encoding="utf-8").replace("\\-", "-")


def test_the_site_has_every_option(writer: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The site has a page for each verb with the full text of each option, and the command's page links to these."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import build_site

    verbs = writer["tables"](str(PROGRAM))
    stage = build_site.Stage(tmp_path, {"docs/cli.md"})
    build_site.commands_reference(stage, verbs)
    stage.page("docs/cli.md")
    build_site.link_options(tmp_path / "docs" / "cli.md", verbs)
    linked = (tmp_path / "docs" / "cli.md").read_text(encoding="utf-8")
    for verb in verbs:
        name = writer["page_name"](verb)
        page = (tmp_path / "reference" / "commands" / f"{name}.rst").read_text(encoding="utf-8")
        said = re.findall(r"(?m)^\.\. option:: (.*)\n\n   (.*)$", page)
        assert len(said) == len(verb.options) and f"\n.. program:: penstock {verb.name}\n" in page
        for option, (names, text) in zip(verb.options, said, strict=True):
            assert f"--{option.name}" in names and (option.letter is None or f"-{option.letter}" in names)
            assert build_site.escaped(option.help).split("docs/")[0] in text
            assert option.default is None or build_site.escaped(f"(default {option.default})") in text
        assert f"## penstock {verb.name}\n\n[All options](../reference/commands/{name}.rst)\n" in linked


def test_the_page_of_the_command_names_no_other_option(writer: dict[str, Any]) -> None:
    known = {f"--{option.name}" for verb in writer["tables"](str(PROGRAM)) for option in verb.options}
    known |= {f"--{option.name}" for option in writer["OPTIONS"]} | {"--describe"}
    named = set(re.findall(r"`(?:penstock [a-z]+ )?(--[a-z][a-z-]*)", (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")))
    assert len(named) > 20 and named <= known


def test_pages_are_read_by_man() -> None:
    """groff and mandoc read the pages without a warning."""
    pages = sorted((MADE / "man").glob("*.1"))
    assert len(pages) > 20
    tools = [tool for tool in ("groff", "mandoc") if shutil.which(tool)]
    if not tools:
        pytest.skip("neither groff nor mandoc is installed")
    for path in pages:
        if "groff" in tools:
            command = ["groff", "-man", "-ww", "-Tutf8", "-P-cbou", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, ""), path.name
            assert "OPTIONS" in done.stdout and "EXAMPLES" in done.stdout
        if "mandoc" in tools:
            done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", str(path)], capture_output=True, text=True, check=False)
            found = [line for line in done.stdout.splitlines() if "missing date" not in line]
            assert not found, found


def completed(*words: str) -> list[str]:
    done = subprocess.run(["bash", "--norc", "--noprofile", "-c", BASH, "bash", MADE / "penstock.bash", "penstock", *words],
                          capture_output=True, text=True, check=True)  # fmt: skip
    return done.stdout.split()


@pytest.mark.parametrize("verb", VERBS)
def test_bash_knows_every_option_of_python(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main([verb, "--help"]) == 0
    known = re.findall(r"(?m)^  (?:-\w, |    )(--[a-z-]+)", capfd.readouterr().out)
    assert sorted(completed(verb, "--")) == sorted(known)


def test_every_value_that_is_offered_is_taken(writer: dict[str, Any]) -> None:
    """No verb refuses a value that completion offers: the only error is that the data do not exist."""
    needs = {"tier": ("--as", "pli"), "bad-annotations": ("--coco", "c.json")}
    tried = 0
    for verb in writer["tables"](str(PROGRAM)):
        if verb.name in VERBS or verb.name == "serve":
            continue
        for option in verb.options:
            for value in option.values:
                words = [*verb.name.split(), "none", "none.pst"][: 2 if verb.name in ("bench", "verify") else None]
                more = needs.get(option.name, ()) if verb.name == "cat" or option.name == "bad-annotations" else ()
                if verb.name == "cat":
                    words = ["cat", "none", "0"]
                command = [PROGRAM, *words, f"--{option.name}", value, *more]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                assert f"--{option.name} is" not in done.stderr and "no form" not in done.stderr, done.stderr
                tried += 1
    assert tried > 20


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_scripts(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = MADE / f"penstock.{shell}"
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_fish_completes() -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")

    def offered(line: str) -> list[str]:
        script = f'source {MADE / "penstock.fish"}; complete -C "{line}"'
        done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return [row.partition("\t")[0] for row in done.stdout.splitlines()]

    for line, wanted in (("penstock pac", ["pack"]), ("penstock pack --tie", ["--tier"]), ("penstock pack --tier d", ["dense"]),
                         ("penstock serve st", ["status", "stop"]), ("penstock cache fleet --ser", ["--servers"]),
                         ("penstock cache --ser", []), ("penstock view a --tr", ["--transforms"]),
                         ("penstock help tu", ["tune"]), ("penstock pack --form raw,jp", ["raw,jpeg"])):  # fmt: skip
        assert sorted(offered(line)) == wanted, line


def test_zsh_completes(tmp_path: Path) -> None:
    """zsh finds the completion by fpath, as if it were installed."""
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    (tmp_path / "functions").mkdir()
    shutil.copy(MADE / "penstock.zsh", tmp_path / "functions" / "_penstock")
    (tmp_path / ".zshrc").write_text(f"fpath=({tmp_path}/functions $fpath)\nautoload -Uz compinit; compinit -u -D\nPS1='> '\n"
                                     "penstock() { printf '<%s>' \"$@\"; echo }\n")  # fmt: skip
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    process = subprocess.Popen(["zsh", "-i"], stdin=its, stdout=its, stderr=its, cwd=tmp_path, start_new_session=True,
                               env={**os.environ, "ZDOTDIR": str(tmp_path), "TERM": "dumb"})  # fmt: skip
    os.close(its)
    os.write(ours, b"penstock pac\t--ti\tde\t\npenstock cache flee\t--serve\t\npenstock tun\ta --ye\t\nexit\n")
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        shown += part
    os.close(ours)
    assert process.wait(60) == 0
    for wanted in (b"<pack><--tier><dense>", b"<cache><fleet><--servers>", b"<tune><a><--yes>"):
        assert wanted in shown, shown.decode(errors="replace")


# Terminals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_help_at_any_width(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main([verb, "--help"]) == 0
    wide = capfd.readouterr().out
    assert "\noptions of every verb:\n" in wide
    assert len(re.findall(rf"(?m)^  penstock {verb} ", wide.partition("\nexamples:")[2])) >= 2
    for columns in (200, 80, 59, 40):
        status, text = in_terminal(columns, verb, "--help")
        longest = max(text.split("\n"), key=len)
        assert status == 0 and len(longest) <= min(columns, 100), longest
        assert [word for word in text.split() if word != "\\"] == [word for word in wide.split() if word != "\\"]


def test_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull, "rb") as none:
        for value, wanted in (("60", 60), ("", 80), ("0", 80), ("-3", 80), ("many", 80), ("9" * 30, 80), ("\u0663", 80)):
            monkeypatch.setenv("COLUMNS", value)
            assert output.columns(none.fileno(), 80) == wanted, value


def test_texts_that_fit() -> None:
    for text, width, wanted in (("abc", 3, "abc"), ("abc", 2, "ab"), ("abc", 0, ""), ("\u65e5\u672c", 3, "\u65e5"),
                                ("\u65e5\u672c", 4, "\u65e5\u672c"), ("e\u0301\u0301x", 1, "e\u0301\u0301"), ("\U0001f600a", 1, ""),
                                ("\uff21b", 3, "\uff21b"), ("", 5, "")):  # fmt: skip
        assert output.fitted(text, width) == wanted


def test_progress_stays_in_its_line(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    for width in (200, 20, 5, 1):
        monkeypatch.setattr(output, "columns", lambda fd, otherwise, width=width: width)
        meter = output.Meter(quiet=False)
        meter._next = 0
        meter.show("view: \u65e5\u672c\u8a9e and 17 of 4096 pictures")
        line = capfd.readouterr().err.removeprefix("\r").removesuffix("\033[K")
        assert output.fitted(line, max(width - 1, 0)) == line and (width < 200 or line.endswith("pictures"))


# Files that are there -------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").mkdir()
    PilImage.new("RGB", (8, 8), "red").save(tmp_path / "f" / "a.png")
    return tmp_path


def test_view_writes_over_nothing(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sheet = folder / "view.png"
    assert main.main(["view", "f", "0"]) == 0
    sheet.write_bytes(b"old")
    assert main.main(["view", "f", "0"]) == 2
    assert "view.png is there already" in (text := capfd.readouterr().err) and "--force" in text
    (folder / "link.png").symlink_to(sheet)
    assert main.main(["view", "f", "0", "-o", "link.png"]) == 2
    assert sheet.read_bytes() == b"old"
    assert main.main(["view", "f", "0", "-o", os.devnull]) == 0
    assert main.main(["view", "f", "0", "--force"]) == 0 and sheet.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(("answer", "status"), [(b"n\n", 1), (b"\n", 1), (b"\x04", 1), (b"no y\n", 1), (b"y\n", 0), (b"YES\n", 0)])
def test_view_asks(folder: Path, answer: bytes, status: int) -> None:
    sheet = folder / "view.png"
    sheet.write_bytes(b"old")
    found, text = in_terminal(80, "view", "f", "0", answer=answer, cwd=folder)
    assert "view.png is there already: write over it? [y/N]" in text
    assert (found, sheet.read_bytes() == b"old", "nothing was written" in text) == (status, bool(status), bool(status))


@pytest.mark.parametrize(("words", "option"), [
    (["analyze", "f", "--rate", "9", "--out", "old"], "--force"), (["analyze", "f", "--rate", "9", "--html", "old"], "--force"),
    (["plan", "f", "--rate", "9", "--out", "old"], "--force"), (["whatif", "r.json", "--html", "old"], "--force"),
])  # fmt: skip
def test_other_verbs_write_over_nothing(words: list[str], option: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "old").write_text("old")
    assert main.main(words) == 2
    assert "old is there already" in (text := capfd.readouterr().err) and option in text
    assert (folder / "old").read_text() == "old"


def test_tune_says_yes(monkeypatch: pytest.MonkeyPatch, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """--yes answers this question, too; without it, tune asks."""
    (folder / "old").write_text("old")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert main.main(["tune", "f", "--rate", "9", "--report", "old", "--json"]) == 2
    assert "--yes" in capfd.readouterr().err
    given = main._tune_parser().parse(["f", "--report", "old", "--yes"])
    main._outputs_of("tune", given, "plan", "report")


def test_one_did_you_mean() -> None:
    """Only one module of the package suggests similar words."""
    users = [path for path in (ROOT / "python" / "src" / "penstock").rglob("*.py") if "difflib" in path.read_text(encoding="utf-8")]
    assert [path.parent.name + "/" + path.name for path in users] == ["base/options.py"]
    with pytest.raises(options.UsageError, match="no option --labls: did you mean --labels"):  # codespell:ignore labls
        main._plan_parser().parse(["x", "--labls", "y"])  # codespell:ignore labls
